# The gateway, octet by octet: DESIGN 4.1 to 4.3, 5.5, 6.6, 6.13; security X-14
# to X-17, X-21, X-26, X-54, X-57, X-58; cases O-02, O-05, O-14, O-25

use strict;
use warnings;

use lib 't/fixture';
use Fixture;
use Stream;
use Test::More;

my $recorders = Stream->start;      # only to have them outside of $g
my $up = $recorders->recorder('127.0.0.1', 0, "answer\n");
my $closed = Fixture::free_port();

my $g = Stream->start(role => <<"ROLE");
use api other;
allow_cidr 127.0.0.1:$up->{port} 127.0.0.1:$closed;
allow_cidr 127.0.0.2:443 10.0.0.0/8:22;
allow_private 127.0.0.1 127.0.0.2;
ROLE

my $alert = "\x15\x03\x03\x00\x02\x02\x31";
my $established = "HTTP/1.1 200 Connection established\r\n\r\n";
my @forms = qw(burst bytewise delayed);

sub connect_head {
    my ($target, $more, $version) = @_;
    return "CONNECT $target HTTP/" . ($version // '1.1') . "\r\n"
           . ($more // '') . "\r\n";
}

sub audits { return scalar(() = $g->log('audit.json') =~ /\n/g) }

# what the client gets for its octets, and the record of it

sub ask {
    my ($data, $form, $pattern) = @_;
    my $before = audits();
    my $s = $g->socket;
    $g->put($s, $data, $form);
    my ($got, $how) = $g->get($s, $pattern);
    return ($got, $how, $s, $before);
}

my $server_hello = qr/^\x16\x03\x03..\x02/s;


# --- bound hosts: handed over, in every form ----------------------------------

for my $form (@forms) {
    my ($got) = ask(Stream::hello('api.test'), $form, $server_hello);
    like($got, $server_hello, "bare TLS, $form: a server hello");

    for my $name ('api.test', 'API.Test.') {
        ($got) = ask(connect_head("$name:443") . Stream::hello($name), $form,
                     qr/\r\n\r\n\x16\x03\x03..\x02/s);
        like($got, qr/^\Q$established\E\x16\x03\x03..\x02/s,
             "CONNECT $name, hello at once, $form");
    }

    my $s = $g->socket;
    $g->put($s, connect_head('api.test:443', '', '1.0'), $form);
    is($g->get($s, qr/\r\n\r\n/), $established, "CONNECT HTTP/1.0, $form");
    $g->put($s, Stream::hello('api.test'), $form);
    like($g->get($s, $server_hello), $server_hello, "then a hello, $form");

    my $name = pack('C/a*', 'api.test') . pack('n', 443);

    $s = $g->socket;
    $g->put($s, "\x05\x02\x00\x01", $form);
    is(unpack('H*', $g->get($s, qr/../s)), '0500', "SOCKS5 method, $form");
    $g->put($s, "\x05\x01\x00\x03$name", $form);
    is(unpack('H*', $g->get($s, qr/.{10}/s)), '05000001000000000000',
       "SOCKS5 reply, $form");
    $g->put($s, Stream::hello('api.test'), $form);
    like($g->get($s, $server_hello), $server_hello, "then a hello, $form");

    ($got) = ask("\x05\x01\x00\x05\x01\x00\x03$name"
                 . Stream::hello('api.test'), $form,
                 qr/\x16\x03\x03..\x02/s);
    like(unpack('H*', $got), qr/^0500050000010000000000001603/,
         "SOCKS5, all pipelined, $form");

    ($got) = ask(Stream::hello('api.test', record => 1), $form,
                 $server_hello);
    like($got, $server_hello, "records of one octet, $form (O-25)");
}

my ($got, $how, $s, $before);

for my $size (2, 3, 5, 50) {
    ($got) = ask(Stream::hello('api.test', record => $size), 'burst',
                 $server_hello);
    like($got, $server_hello, "records of $size octets");
}

my $filler = join '', map { pack('n n/a*', 0xfa00 + $_, 'x' x 1000) } 1 .. 14;

($got) = ask(Stream::hello('api.test', ext => $filler), 'burst',
             $server_hello);
like($got, $server_hello, 'a hello of 14 kB');

($got) = ask(connect_head('other.test:8443') . Stream::hello('other.test'),
             'burst', qr/\r\n\r\n\x16/);
like($got, qr/^\Q$established\E\x16/, 'another bound port');

($got) = ask(connect_head('192.0.2.7:443') . Stream::hello('api.test'),
             'burst', qr/\r\n\r\n\x16/);
like($got, qr/^\Q$established\E\x16/,
     'an address, and a bound name within: bare TLS to that name');

# a second ClientHello, which the terminator asks for, must not change the name
# (X-18): TLS 1.3, and no share of a key in the first one

sub hello13 {
    my ($name, $share) = @_;
    my $shares = defined $share ? pack('n n/a*', 0x1d, $share) : '';
    return Stream::hello($name, random => 'r' x 32,
                         ext => pack('n n/a*', 43, pack('C/a*', "\3\4"))
                                . pack('n n/a*', 51, pack('n/a*', $shares)));
}

my $retry = qr/^\x16\x03\x03..\x02.{5}\xcf\x21\xad\x74/s;

for my $name ('api.test', 'other.test') {
    $s = $g->socket;
    $g->put($s, hello13('api.test'));
    like($g->get($s, $retry), $retry, 'HelloRetryRequest');
    $g->put($s, hello13($name, 'k' x 32));
    $got = $g->get($s, qr/^.{50}|\Q$alert\E/s, 2);

    if ($name eq 'api.test') {
        like($got, $server_hello, 'the same name again: on with it');
    } else {
        is(unpack('H*', $got), unpack('H*', $alert), 'another name: an alert');
    }
}

is(scalar(grep { $_->{event} eq 'connection' } $g->audit), 0,
   'no connection record of what was handed over');
is($g->log('stream.log'), '', 'and no line of the stream log');


# --- refusals that the client can read ----------------------------------------

# CONNECT: name, target and head, status, reason

for my $case (
    ['an unbound host', 'evil.test:443', '', 403, 'destination_refused'],
    ['another port (X-21)', 'api.test:22', '', 403, 'destination_refused'],
    ['the port of another binding', 'api.test:8443', '', 403,
     'destination_refused'],
    ['a binding that the role does not use', 'third.test:443', '', 403,
     'binding_refused'],
    ['an address at another port', '192.0.2.7:22', '', 403,
     'destination_refused'],
    ['an address in no range', '127.0.0.1:22', '', 403,
     'destination_refused'],
    ['a private address in a range', '10.0.0.1:22', '', 403,
     'address_refused'],
    ['metadata', '169.254.169.254:443', '', 403, 'address_refused'],
    ['metadata, mapped', '[::ffff:169.254.169.254]:443', '', 403,
     'address_refused'],
    ['our own listener (X-54)', "127.0.0.1:$g->{port}", '', 403,
     'destination_refused'],
    ['NUL in the name (O-05)', "evil.test\0.api.test:443", '', 400,
     'malformed_request'],
    ['CR in the name', "evil.test\r.api.test:443", '', 400,
     'malformed_request'],
    ['a tab', "evil.test\t.api.test:443", '', 400, 'malformed_request'],
    ['a space', "evil.test .api.test:443", '', 400, 'malformed_request'],
    ['%2e', 'evil%2etest:443', '', 400, 'malformed_request'],
    ['an empty host', ':443', '', 400, 'malformed_request'],
    ['300 octets', ('a' x 300) . ':443', '', 400, 'malformed_request'],
    ['no port', 'api.test', '', 400, 'malformed_request'],
    ['a body', 'api.test:443', "Content-Length: 5\r\n", 400,
     'malformed_request'],
    ['a folded line', 'api.test:443', "X: a\r\n b\r\n", 400,
     'malformed_request'],
)
{
    my ($name, $target, $more, $status, $reason) = @$case;

    for my $form (@forms) {
        ($got, $how, $s, $before) = ask(connect_head($target, $more), $form);

        like($got, qr/^HTTP\/1\.1 $status Blocked by gateway: [ -~]+\r\n/,
             "$name: status line, $form");
        like($got, qr/\r\nProxy-Status: egress-1; error=\w+; details="$reason: [ !#-~]+"\r\n/,
             "$name: Proxy-Status, $form");
        like($got, qr/\r\n\r\n\{.*"reason":"$reason".*\}\n$/, "$name: a body");
        is($how, 'eof', "$name: then the end");

        my $rec = $g->record($before);
        is("$rec->{event} $rec->{decision} $rec->{reason} $rec->{status}",
           "connection deny $reason $status", "$name: the record");
    }
}

my ($length) = $got =~ /\r\nContent-Length: (\d+)\r\n/;
is($length, length((split /\r\n\r\n/, $got, 2)[1]), 'Content-Length is right');

# octets behind a refused CONNECT must not turn the answer into a reset

($got, $how) = ask(connect_head('evil.test:443') . ('x' x 8000));
like($got, qr/^HTTP\/1\.1 403 .*\}\n$/s, '8 kB behind a refused CONNECT');
is($how, 'eof', 'and no reset');

($got, $how) = ask(connect_head('evil.test:443')
                   . connect_head('api.test:443') . Stream::hello('api.test'));
is(() = $got =~ /^HTTP\/1/mg, 1, 'a CONNECT behind a refused one is not read');

($got) = ask('CONNECT api.test:443 HTTP/1.1' . "\r\nX: " . ('y' x 17000)
             . "\r\n\r\n");
like($got, qr/^HTTP\/1\.1 400 /, 'a head over 16 kB');

($got) = ask(connect_head('api.test:443', "X: y\r\n" x 101));
like($got, qr/^HTTP\/1\.1 400 /, '101 fields');

# plain HTTP (X-26, O-02)

for my $line ('GET http://api.test/data HTTP/1.1',
              'POST http://api.test/data HTTP/1.1',
              'GET / HTTP/1.1', 'GET http://127.0.0.1/ HTTP/1.0')
{
    ($got, $how, $s, $before) =
        ask("$line\r\nHost: api.test\r\nContent-Length: 4\r\n"
            . "Authorization: Bearer $ENV{TEST_NGINX_PLACEHOLDER}\r\n\r\nbody");
    like($got, qr/^HTTP\/1\.1 403 .*details="plain_http: /s, $line);
    is($g->record($before)->{reason}, 'plain_http', 'the record');
}

# SOCKS5: octets in hex, the answer, reason

for my $case (
    ['an unbound host', '0501000501000309' . unpack('H*', 'evil.test')
     . '01bb', '050005020001000000000000', 'destination_refused'],
    ['another port', '0501000501000308' . unpack('H*', 'api.test')
     . '0016', '050005020001000000000000', 'destination_refused'],
    ['an unused binding', '050100050100030a' . unpack('H*', 'third.test')
     . '01bb', '050005020001000000000000', 'binding_refused'],
    ['BIND', '0501000502000308' . unpack('H*', 'api.test') . '01bb',
     '050005070001000000000000', 'method_refused'],
    ['UDP ASSOCIATE', '0501000503000308' . unpack('H*', 'api.test')
     . '01bb', '050005070001000000000000', 'method_refused'],
    ['an address type', '05010005010005', '050005080001000000000000',
     'malformed_request'],
    ['NUL in a name (X-58)', '0501000501000309' . unpack('H*', "api.test\0")
     . '01bb', '050005010001000000000000', 'malformed_request'],
    ['metadata', '05010005010001a9fea9fe01bb', '050005020001000000000000',
     'address_refused'],
    ['only a password, nobody has one', '050102', '05ff',
     'malformed_request'],
    ['SOCKS4', '040101bb8c52790300', '', 'malformed_request'],
)
{
    my ($name, $octets, $answer, $reason) = @$case;

    ($got, $how, $s, $before) = ask(pack('H*', $octets));
    is(unpack('H*', $got), $answer, "SOCKS5, $name");
    is($how, 'eof', "SOCKS5, $name: then the end");
    is($g->record($before)->{reason}, $reason, "SOCKS5, $name: the record");
}

# TLS

for my $case (
    ['an unbound name', Stream::hello('evil.test'), 'destination_refused'],
    ['an unused binding', Stream::hello('third.test'), 'binding_refused'],
    ['no name (X-16)', Stream::hello(undef), 'destination_refused'],
    ['an address for a name', Stream::hello('192.0.2.7'),
     'malformed_request'],
    ['NUL in a name (X-15)', Stream::hello("evil.test\0.api.test"),
     'malformed_request'],
    ['two names (X-17)', Stream::hello('api.test',
     ext => pack('n n/a*', 0, pack('n/a*', pack('C n/a*', 0, 'evil.test')))),
     'malformed_request'],
    ['20 kB', "\x16\x03\x01\x40\x00\x01\x00\x50\x00" . ('x' x 2000),
     'malformed_request'],
    ['an empty record within', "\x16\x03\x01\x00\x01\x01\x16\x03\x01\x00\x00",
     'malformed_request'],
)
{
    my ($name, $octets, $reason) = @$case;

    for my $form (@forms) {
        ($got, $how, $s, $before) = ask($octets, $form);
        is(unpack('H*', $got), unpack('H*', $alert), "TLS, $name, $form");
        is($how, 'eof', "TLS, $name: then the end");
        is($g->record($before)->{reason}, $reason, "TLS, $name: the record");
    }
}

# what is none of the three

($got, $how, $s, $before) = ask("\0\0\0\0");
is($got, '', 'zeros: nothing is said');
is($g->record($before)->{reason}, 'malformed_request', 'the record');

# X-57, O-14: the tunnel's name and the one within

for my $case (
    ['another bound name', Stream::hello('other.test'), 'host_mismatch'],
    ['an unbound name', Stream::hello('evil.test'), 'host_mismatch'],
    ['no name', Stream::hello(undef), 'host_mismatch'],
    ['plain HTTP', "GET / HTTP/1.1\r\n\r\n", 'plain_http'],
    ['a second CONNECT', connect_head('other.test:443'), 'plain_http'],
    ['SSH', "SSH-2.0-x\r\n", 'plain_http'],
    ['zeros', "\0" x 40, 'malformed_request'],
)
{
    my ($name, $octets, $reason) = @$case;

    for my $form ('burst', 'bytewise') {
        ($got, $how, $s, $before) = ask(connect_head('api.test:443')
                                        . $octets, $form);
        like($got, qr/^\Q$established\E(?:\Q$alert\E)?$/,
             "within a tunnel: $name, $form: no HTTP");
        is($g->record($before)->{reason}, $reason,
           "within a tunnel: $name: the record");
    }
}


# --- pass-through -------------------------------------------------------------

# an address in a range, at another port than 443: whatever it speaks

for my $data ("GET / HTTP/1.0\r\n\r\n", "\0\1\2\xff" x 1000,
              Stream::hello('api.test'), 'x' x 300_000)
{
    my $n = $recorders->recorded($up);

    $before = audits();
    $s = $g->socket;
    $g->put($s, connect_head("127.0.0.1:$up->{port}") . $data);
    is($g->get($s, qr/answer\n/), "${established}answer\n", 'an answer');

    # half-close: the other direction stays open

    shutdown $s, 1;
    is($g->get($s), 'total ' . length($data) . "\n",
       'the end of one direction, then the last words of the other');

    is((scalar $recorders->recorded($up)), $n + 1, 'one connection');
    ok((($recorders->recorded($up))[-1] eq $data), 'byte for byte');

    my @records;
    for (1 .. 100) {
        @records = ($g->audit)[$before .. audits() - 1];
        last if @records >= 2;
        select undef, undef, undef, 0.02;
    }

    is("$records[0]{event} $records[0]{decision} $records[0]{reason}",
       'connection allow allowed', 'the record comes first');
    is("$records[1]{event} $records[1]{upstream_addr} $records[1]{bytes_in}",
       "completion 127.0.0.1:$up->{port} " . length($data),
       'then the completion');
    is($records[0]{id}, $records[1]{id}, 'with the same id');
}

# a server that speaks first

SKIP: {
    my $l = IO::Socket::INET->new(LocalAddr => '127.0.0.2', LocalPort => 443,
                                  Listen => 5, ReuseAddr => 1)
        or skip 'port 443 is not ours', 3;

    $s = $g->socket;
    $g->put($s, connect_head('127.0.0.2:443'));
    is($g->get($s, qr/\r\n\r\n/), $established, 'an address at 443');
    $g->put($s, "any\n");

    my $c = $l->accept;
    is(scalar(<$c>), "any\n", 'is passed through when it is no TLS');

    $s = $g->socket;
    $g->put($s, connect_head('127.0.0.2:443') . Stream::hello(undef));
    $c = $l->accept;
    sysread $c, my $buf, 65536;
    like($buf, qr/^\x16\x03\x01/, 'or has no name');
}

# a closed port: the client has its 200, and then the end

$before = audits();
($got, $how) = ask(connect_head("127.0.0.1:$closed"));
is($got, $established, 'a closed port: 200, for the client has to go on');
is($how, 'eof', 'then the end');
is($g->record($before + 1)->{status}, 502, 'the completion says 502');

# --- clients that leave, and the deadline -------------------------------------

for my $part ('', 'C', "CONNECT api.test:443 HTTP/1.1\r\n", "\x16\x03",
              "\x05", "\x05\x01\x00\x05\x01",
              substr(Stream::hello('api.test'), 0, 40))
{
    $s = $g->socket;
    $g->put($s, $part);
    shutdown $s, 1;
    my ($rest, $end) = $g->get($s);
    isnt($end, 'timeout', 'an end within a preamble of ' . length($part)
         . ' octets is seen at once');
}

is_deeply([$g->stop], [], 'nothing in the logs that should not be there');

$g = Stream->start(preread_timeout => '700ms', role => 'use api;',
                   gateway => 'accept=connect');

for my $part ('', 'CONN', connect_head('api.test:443'),
              connect_head('api.test:443') . "\x16\x03")
{
    $before = audits();
    $s = $g->socket;

    # octets that trickle do not move the deadline

    $g->put($s, $part);
    my $alive = 1;

    for (1 .. 20) {
        my ($rest, $end) = $g->get($s, undef, 0.1);
        $alive = 0, last if $end ne 'timeout';
    }

    is($alive, 0, 'the deadline ends a preamble of ' . length($part)
       . ' octets');
    is($g->record($before)->{reason}, 'malformed_request', 'the record');
}

$s = $g->socket;
for (1 .. 25) {
    last unless $g->socket && syswrite $s, 'C';
    my ($rest, $end) = $g->get($s, undef, 0.1);
    $how = $end;
    last if $end ne 'timeout';
}
isnt($how, 'timeout', 'octets that trickle do not move it');

# accept=

($got) = ask(Stream::hello('api.test'));
is(unpack('H*', $got), unpack('H*', $alert), 'accept=connect: no bare TLS');
($got) = ask("\x05\x01\x00");
is(unpack('H*', $got), '05ff', 'accept=connect: no SOCKS5');
($got) = ask(connect_head('api.test:443'), 'burst', qr/\r\n\r\n/);
is($got, $established, 'accept=connect: CONNECT');

is_deeply([$g->stop], [], 'nothing in the logs that should not be there');

$g = Stream->start(gateway => 'accept=tls,socks5');

($got) = ask(connect_head('api.test:443'), 'burst');
like($got, qr/^HTTP\/1\.1 403 .*method_refused/s, 'accept=tls,socks5');
($got) = ask(Stream::hello('third.test'), 'burst', $server_hello);
like($got, $server_hello, 'no role block: every binding is used');
($got) = ask(Stream::hello('evil.test'));
is(unpack('H*', $got), unpack('H*', $alert), 'and no network');

is_deeply([$g->stop], [], 'nothing in the logs that should not be there');


# --- the address of the client, and HTTP/2 ------------------------------------

sub proxy_protocol {
    $g = Stream->start(role => 'use api;', port => Fixture::free_port(),
                       listen => "127.0.0.1:PORT proxy_protocol",
                       stream => 'set_real_ip_from 127.0.0.1;');

    my $header = "PROXY TCP4 192.0.2.33 192.0.2.44 1111 2222\r\n";

    for my $form (@forms) {

        # nginx wants the header whole

        $s = $g->socket;
        $g->put($s, $header);
        $g->put($s, connect_head('api.test:443') . Stream::hello('api.test'),
                $form);
        $got = $g->get($s, qr/\r\n\r\n\x16/);
        like($got, qr/^\Q$established\E\x16/, "PROXY protocol, $form");
    }

    ($got, $how, $s, $before) = ask($header . connect_head('evil.test:443'));
    is($g->record($before)->{client}, '192.0.2.33',
       'the client in the record is the one that the header names');

    is_deeply([$g->stop], [], 'nothing in the logs that should not be there');
}

SKIP: {
    my $binary = $ENV{TEST_NGINX_BINARY} || 'nginx';

    skip 'no realip module for stream', 5
        if `$binary -V 2>&1` !~ /--with-stream_realip_module|--with-stream=dynamic/;

    proxy_protocol();
}

$g = Stream->start(http2 => 'http2', role => 'use api;');

my $ca = "$ENV{TEST_NGINX_FIXTURE_DIR}/ca.pem";
my $auth = "Authorization: Bearer $ENV{TEST_NGINX_PLACEHOLDER}";

delete @ENV{grep { /_proxy$/i } keys %ENV};

for my $way ("-x http://127.0.0.1:$g->{port}",
             "-x socks5h://127.0.0.1:$g->{port}",
             "--connect-to api.test:443:127.0.0.1:$g->{port}")
{
    for my $version (1.1, 2) {
        $got = `curl -q -sS --max-time 10 --cacert $ca $way --http$version -H '$auth' -w '%{http_version} %{num_connects} ' -o /dev/null https://api.test/one -o /dev/null https://api.test/two -D - 2>&1`;
        is(() = $got =~ /^x-auth: bearer-secret\r$/mgi, 2,
           "curl $way, HTTP/$version: two requests with the secret");
        like($got, qr/\b$version 1 .*\b$version 0 /s, 'on one connection');
    }
}

my @vias = map { $_->{via} } grep { $_->{event} eq 'decision' } $g->audit;
is_deeply(\@vias, [('connect') x 4, ('socks5') x 4, ('tls') x 4],
          'the records tell the way');

# the request must be for the host and port that the connection was opened for

for my $case (['other.test', 421], ['api.test:8443', 421],
              ['API.Test.:443', 200])
{
    $got = `curl -q -sS --max-time 10 --cacert $ca -x http://127.0.0.1:$g->{port} -H 'Host: $case->[0]' -w '%{http_code}' -o /dev/null https://api.test/ 2>&1`;
    is($got, $case->[1], "Host: $case->[0] in a tunnel to api.test:443");
}

is_deeply([$g->stop], [], 'nothing in the logs that should not be there');

$recorders->stop;

done_testing();
