# What goes to the upstream, and for how long: DESIGN 5.2 (pass_headers,
# foreign_credential, ttl), 6.3, 6.7; security R-14, H-01 to H-04; cases O-12,
# O-23, O-24
#
# Client and upstream are both this test: see Wire.

use strict;
use warnings;

use lib 't/fixture';
use Fixture;
use MIME::Base64 ();
use Stream;
use Test::More;
use Wire;

my $P = $ENV{TEST_NGINX_PLACEHOLDER};
my $C = $ENV{TEST_NGINX_CANARY};

my $up = Wire->listen;
my $port = $up->port;
my $base = Fixture::free_port();
my $secret = "secret $ENV{TEST_NGINX_SECRET} static; placeholder $P;";

# what a worker may read is in the group of its user, or belongs to it

my $live = Fixture::dir() . '/live';
my $gid = $> == 0 ? (getpwnam 'www-data')[3] : $) + 0;

mkdir $live or die "$live: $!";
Fixture::write_file("$live/secret", "$C\n", 0640);
chown -1, $gid, $live, "$live/secret";
chmod 0750, $live;

my $g = Stream->start(http2 => 'http2', egress => <<"EGRESS", http => <<"HTTP");
    secret_check 0;
    binding raw {
        hosts raw.test;
        upstream http://127.0.0.1:$port;
        access write;
        $secret
    }
    binding read {
        hosts read.test;
        upstream http://127.0.0.1:$port;
        $secret
    }
    binding few {
        hosts few.test;
        upstream http://127.0.0.1:$port;
        access write;
        pass_headers x-kEEP Content-Type Accept-Encoding Forwarded Via TE
                     Proxy-Authorization X-Forwarded-For Expect Connection;
        $secret
    }
    binding few-clear {
        hosts clear.test;
        upstream http://127.0.0.1:$port;
        access write;
        pass_headers Accept-Encoding;
    }
    binding own {
        hosts own.test;
        upstream http://127.0.0.1:$port;
        foreign_credential refuse;
        header Authorization; header X-Api-Key;
        $secret
    }
    binding off {
        hosts off.test;
        upstream http://127.0.0.1:$port;
        foreign_credential refuse;
    }
    binding aged {
        hosts aged.test;
        upstream http://127.0.0.1:$port;
        secret $live/secret; placeholder $P;
        ttl 1h;
    }
EGRESS
    server {
        listen 127.0.0.1:$base;
        location /raw/ { egress_pass raw; }
        location /read/ { egress_pass read; }
        location /few/ { egress_pass few; }
        location /clear/ { egress_pass few-clear; }
        location /own/ { egress_pass own; }
        location /off/ { egress_pass off; }
        location /aged/ { egress_pass aged; }
        location /page/ { return 200 "page\\n"; }
    }
HTTP

my $auth = "Authorization: Bearer $P";
my $ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
my $no = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\n"
         . "Content-Length: 2\r\n\r\nno";

sub request {
    my ($line, @more) = @_;
    return join("\r\n", "$line HTTP/1.1", 'Host: a.test', @more) . "\r\n\r\n";
}

# a request, at the upstream, and its connections

sub meet {
    my ($line, @more) = @_;
    my $c = Wire->connect($base);
    $up->drain;
    $c->put(request($line, @more));
    my $u = $up->accept or die "nothing came for $line";
    return ($c, $u, $u->head);
}

# the same, answered: what the upstream got

sub sent {
    my ($line, @more) = @_;
    my ($c, $u, $head) = meet($line, @more);
    $u->put($ok);
    is($c->answer->{body}, 'ok', "$line: is answered");
    $u->close;
    return $head;
}

sub value {
    my ($head, $name) = @_;
    return join '|', $head =~ /^\Q$name\E: *(.*?)\r$/mig;
}

# one that is refused, with nothing at the upstream; a second request follows

sub refused {
    my ($c, $octets, $status, $reason, $name) = @_;
    $up->drain;
    $c->put($octets);
    my $a = $c->answer;
    is($a->{status}, $status, "$name: $status");
    like(scalar Wire::field($a, 'Proxy-Status'), qr/details="$reason: /,
         "$name: $reason");
    ok($up->untouched, "$name: nothing goes upstream");
    return $a;
}

# the worker may come after the file that tells of its master

my $worker;

for (1 .. 250) {
    ($worker) = $g->workers and last;
    select undef, undef, undef, 0.02;
}

sub rss {
    my ($kb) = Fixture::read_file("/proc/$worker/status")
               =~ /^VmRSS:\s+(\d+) kB/m;
    return $kb;
}

# what it has grown by may be no more than 8 MiB

sub flat {
    my ($growth, $name) = @_;

  SKIP: {
        skip 'memory is not told apart from a sanitizer\'s', 1
            if ($ENV{TEST_NGINX_BINARY} // '') =~ /asan/;

        cmp_ok($growth, '<', 8192, $name);
    }
}

# what curl prints, with a function that plays the upstream meanwhile

my @curl = ('curl', '-q', '-sSN', '--suppress-connect-headers', '--max-time',
            40, '--noproxy', '', '--proxy', "http://127.0.0.1:$g->{port}",
            '--cacert', Fixture::dir() . '/ca.pem');

sub curl {
    my ($play, @args) = @_;
    $up->drain;
    my $c = Wire->spawn(@curl, @args);
    $play->($c) if $play;
    return scalar $c->rest(40);
}


# --- which fields arrive ------------------------------------------------------

my @mixed = (
    'User-Agent: client/1', 'Accept: */*', 'Accept: text/x',
    'Accept-Language: de', 'Cookie: a=b; c=d', 'Referer: https://raw.test/',
    'X-Keep: one', 'x-keep: two', 'X-Keeper: three', 'X-Kee: four',
    'Content-Type: text/plain', 'If-None-Match: "e"', 'Range: bytes=0-9',
    'Origin: https://raw.test', 'Git-Protocol: version=2', 'X-Empty:',
    'Accept-Encoding: gzip', 'X-Data: ' . $P,
);

my @dropped = (
    'Connection: keep-alive, X-Nominated', 'X-Nominated: 1',
    'Keep-Alive: timeout=9', 'TE: trailers', 'Trailer: X-T',
    'Proxy-Authorization: Basic c2FuZGJveDp0b2tlbg==',
    'Proxy-Connection: keep-alive', 'Proxy-Whatever: 1',
    'Forwarded: for=10.1.2.3', 'X-Forwarded-For: 10.1.2.3',
    'X-Forwarded-Host: evil.test', 'X-Forwarded-Proto: http',
    'X-Real-IP: 10.1.2.3', 'Via: 1.1 client.test', 'HTTP2-Settings: AAAA',
    'X-HTTP-Method-Override: GET', 'X-Original-URL: /evil',
    'X-Rewrite-URL: /evil', 'Expect: something-else',
);

for my $order ([@mixed, @dropped], [@dropped, @mixed],
               [map { ($mixed[$_] // (), $dropped[$_] // ()) } 0 .. 20])
{
    my $head = sent('GET /raw/x', $auth, @$order);
    my @want = grep { !/^Accept-Encoding/ } @mixed;

    # the names of fields in other spellings, or in another order, are no
    # longer what the client sent

    my @got = map { s/\r\n|\s*$//gr } grep { !/^(?:GET|Host|Via|Auth)/ }
              split /\r\n/, $head;

    is(join("\n", @got), Wire::plain(join("\n", @want)),
       'what is not for one hop arrives as it was');
    is(value($head, 'Authorization'), 'Bearer SECRET', 'swapped');
    is(value($head, 'Host'), 'raw.test', 'Host is the binding');
    is(value($head, 'Via'), '1.1 egress-1', 'Via is ours alone');
}

for my $order ([$auth, @mixed, @dropped], [@dropped, @mixed, $auth]) {
    my $head = sent('GET /few/x', @$order);

    is(Wire::names($head), 'authorization content-type host via x-keep x-keep',
       'pass_headers: those listed, and what is always set');
    is(value($head, 'X-Keep'), 'one|two', 'each line of them');
    is(value($head, 'Authorization'), 'Bearer SECRET', 'swapped');
    is(value($head, 'Via'), '1.1 egress-1', 'Via is ours alone');
}

is(Wire::names(sent('GET /clear/x', @mixed)), 'accept-encoding host via',
   'pass_headers without a secret: Accept-Encoding');
is(Wire::names(sent('GET /clear/x', @mixed, $auth)),
   'accept-encoding host via', 'and no credential, which is none of its own');

# the framing always arrives

for my $path ('/raw/x', '/few/x', '/clear/x') {
    for my $case (['Content-Length: 4', 'body', 'body', 'content-length'],
                  ['Content-Length: 0', '', '', 'content-length'],
                  ['Transfer-Encoding: chunked',
                   "2\r\nbo\r\n2;x=y\r\ndy\r\n0\r\nX-Trailer: 1\r\n\r\n",
                   qr/^(?:[12]\r\n\w+\r\n|4\r\nbody\r\n)+0\r\n\r\n\z/,
                   'transfer-encoding'],
                  ['Transfer-Encoding: chunked', "0\r\n\r\n", "0\r\n\r\n",
                   'transfer-encoding'])
    {
        my ($field, $octets, $want, $name) = @$case;
        my ($c, $u, $head) = meet("POST $path", $auth, $field,
                                  'X-Not-Listed: 1');
        my $fields = Wire::names($head);

        like($fields, qr/\b$name\b/, "$path, $field: the field arrives");
        unlike($fields, $name eq 'content-length' ? qr/transfer-encoding/
               : qr/content-length/, "$path, $field: and not the other one");
        is(scalar(() = $fields =~ /x-not-listed/g), $path eq '/raw/x' ? 1 : 0,
           "$path, $field: as pass_headers says");

        $c->put($octets);
        my $body = ref $want ? $u->get(qr/0\r\n\r\n/)
                             : $u->take(length $want);
        ref $want ? like($body, $want, "$path, $field: the body")
                  : is($body, $want, "$path, $field: the body");
        $u->put($ok);
        is($c->answer->{body}, 'ok', "$path, $field: the answer");
        is($u->so_far, '', "$path, $field: nothing behind it");
        $u->close;
    }
}

# Connection can't take what we set (O-24, H-01)

for my $connection ('close, Authorization, X-Forwarded-Host, Host, Via',
                    'AUTHORIZATION,host ,, via, Content-Length, close',
                    '"Authorization", authorization;q=1, Authorization',
                    'Transfer-Encoding, Content-Type, Authorization')
{
    my ($c, $u, $head) = meet('POST /raw/x', "Connection: $connection",
                              'X-Forwarded-Host: evil.test', $auth,
                              'Content-Type: text/x', 'Content-Length: 2',
                              'Connection: x-other', 'X-Other: 1');

    is(value($head, 'Authorization'), 'Bearer SECRET',
       "Connection: $connection: the credential arrives");
    is(value($head, 'Host'), 'raw.test', 'and Host');
    is(value($head, 'Content-Length'), '2', 'and Content-Length');
    unlike($head, qr/^(?:Connection|X-Forwarded-Host|X-Other):/mi,
           'and nothing else that it names');
    $c->put('ab');
    is($u->take(2), 'ab', 'and the body');
    $u->put($ok);
    is($c->answer->{body}, 'ok', 'and the answer');
    $u->close;
}

# the identity of a sandbox is not the upstream's (O-23)

{
    for my $value ("Bearer $P", 'Basic c2FuZGJveDp0b2tlbg==',
                   'Basic ' . MIME::Base64::encode("a:$P", ''))
    {
        my $head = sent('GET /raw/x', $auth, "Proxy-Authorization: $value");
        is(Wire::names($head), 'authorization host via',
           'Proxy-Authorization does not arrive');
        is(scalar(() = $head =~ /SECRET/g), 1, 'nor is it swapped');
    }

    my $got = curl(sub {
        my $u = $up->accept;
        my $inner = $u->head;
        unlike($inner, qr/proxy-|c2FuZGJveDp0b2tlbg/i,
               'neither from a tunnel, over HTTP/2');
        is(value($inner, 'Authorization'), 'Bearer SECRET', 'and swapped');
        $u->put($ok);
        $u->close;
    }, '--http2', '-H', $auth, '-H',
       'Proxy-Authorization: Basic c2FuZGJveDp0b2tlbg==',
       'https://raw.test/x');
    is($got, 'ok', 'and answered');

    for my $log (qw(error.log access.log audit.json stream.log)) {
        unlike($g->log($log), qr/c2FuZGJveDp0b2tlbg/, "nor is it in $log");
    }
}


# --- Expect (R-14) ------------------------------------------------------------

for my $case (['POST /read/x', 'write_refused'],
              ['POST /raw/a//b', 'path_refused'])
{
    my ($line, $reason) = @$case;

    my $c = Wire->connect($base);
    refused($c, request($line, $auth, 'Content-Length: 5',
                        'Expect: 100-continue'),
            403, $reason, "$line with Expect");

    # the client may send the body all the same: it is not the next request

    $c->put('12345' . request('GET /page/'));
    my $a = $c->answer;
    ok(!$a->{status} || $a->{body} eq "page\n",
       "$line: the body is not the next request");
}

{
    my ($c) = Wire->connect($base);
    $c->put(request('POST /raw/x', $auth, 'Content-Length: 4',
                    'Expect: 100-continue'));
    is($c->head, "HTTP/1.1 100 Continue\r\n\r\n",
       'an allowed one gets its 100');
    $c->put('body');
    my $u = $up->accept;
    unlike($u->head, qr/^Expect:/mi, 'the field is not for the upstream');
    is($u->take(4), 'body', 'the body is');
    $u->put("HTTP/1.1 100 Continue\r\n\r\n$ok");
    is($c->answer->{status}, 200, 'one 100 and one final answer');
    $u->close;

    my $got = curl(sub {
        my ($w) = @_;
        my $u = $up->accept;
        my $head = $u->head;
        unlike($head, qr/^Expect:/mi, 'HTTP/2: not for the upstream');
        is($u->take(2000), 'x' x 2000, 'HTTP/2: the body is');
        $u->put($ok);
        $u->close;
    }, '--http2', '-H', $auth, '-H', 'Expect: 100-continue', '-d', 'x' x 2000,
       '-w', ' %{http_code}', 'https://raw.test/x');
    is($got, 'ok 200', 'HTTP/2: and an answer');

    $got = curl(undef, '--http2', '-H', $auth, '-H', 'Expect: 100-continue',
                '-d', 'x' x 2000, '-w', ' %{http_code}', '-o', '/dev/null',
                'https://read.test/x');
    is($got, ' 403', 'HTTP/2: refused at once');
    ok($up->untouched, 'and nothing goes upstream');
}


# --- bodies -------------------------------------------------------------------

# one half is there before the other is sent

for my $case (['Content-Length: 8', 'half', 'half', 'rest', 'rest'],
              ['Transfer-Encoding: chunked', "4\r\nhalf\r\n", "4\r\nhalf\r\n",
               "4\r\nrest\r\n0\r\n\r\n", "4\r\nrest\r\n0\r\n\r\n"])
{
    my ($field, @parts) = @$case;
    my ($c, $u) = meet('POST /raw/x', $auth, $field);
    $c->put($parts[0]);
    is($u->take(length $parts[1]), $parts[1], "$field: the first half streams");
    $c->put($parts[2]);
    is($u->take(length $parts[3]), $parts[3], "$field: and the second");
    $u->put($ok);
    is($c->answer->{body}, 'ok', "$field: answered");
    $u->close;
}

# an answer before the body has come

{
    my ($c, $u) = meet('POST /raw/x', $auth, 'Content-Length: 1000000');
    $c->put('x' x 1000);
    is($u->take(1000), 'x' x 1000, 'a part of a body');
    $u->put("HTTP/1.1 413 Too Large\r\nConnection: close\r\n"
            . "Content-Length: 4\r\n\r\nstop");
    my $a = $c->answer;
    is("$a->{status} $a->{body}", '413 stop', 'an early answer comes through');
    $u->close;
}

# HTTP/2 without a length, and without a body

for my $case (['-T', '-', "printf bodybody |", qr/^POST|^PUT/, 'chunked'],
              ['-d', '', '', qr/^POST/, ''])
{
    my ($option, $value, $input, $method, $te) = @$case;
    $up->drain;
    my $c = Wire->spawn('sh', '-c', $input . ' exec "$0" "$@"', @curl,
                        '--http2', '-H', $auth, $option, $value,
                        'https://raw.test/x');
    my $u = $up->accept;
    my $head = $u->head;
    like($head, $method, "HTTP/2 $option: the method");
    is(value($head, 'Transfer-Encoding'), $te, "HTTP/2 $option: the framing");
    like($u->get(qr/0\r\n\r\n/), qr/^(?:\w+\r\n\w+\r\n)+0\r\n\r\n\z/,
         'HTTP/2: a body of unknown length') if $te;
    $u->put($ok);
    is($c->rest, 'ok', "HTTP/2 $option: answered");
    $u->close;
}

# Moves octets from the client to the upstream; what arrived, as a count, and
# the growth of the worker meanwhile

sub pour {
    my ($from, $to, $total, $done) = @_;

    my $block = join '', map { chr($_ * 7 % 251) } 1 .. 65536;
    my ($in, $out, $wrong, $steps) = (0, 0, 0, 0);
    my $before = rss();
    my $most = $before;

    $to->{fh}->blocking(0);

    while ($out < $total) {
        if ($in < $total) {
            my $at = $in % 65536;
            my $n = 65536 - $at;
            $n = $total - $in if $n > $total - $in;
            $in += $from->push(substr $block, $at, $n);
        }

        my $n = sysread $to->{fh}, my $buf, 1 << 20;
        if ($n) {
            my $at = $out % 65536;
            $wrong++ if $buf ne substr $block x (2 + $n / 65536), $at, $n;
            $out += $n;
        } elsif (defined $n || !$to->readable($in < $total ? 0 : 5)) {
            last if $in >= $total || defined $n;
            $from->writable(0.01);
        }

        $most = rss() if ++$steps % 64 == 0 && rss() > $most;
    }

    $to->{fh}->blocking(1);

    return ($out, $wrong, $most - $before);
}

{
    my $size = 300 << 20;

    # what a first one needs, the second one has

    for my $n (1 << 20, $size) {
        my ($c, $u) = meet('POST /raw/big', $auth, "Content-Length: $n");
        my ($out, $wrong, $growth) = pour($c, $u, $n);
        is("$out $wrong", "$n 0", "a body of $n octets");
        flat($growth, 'the worker does not grow by it');
        $u->put($ok);
        is($c->answer->{body}, 'ok', 'answered');
        $u->close;

        ($c, $u) = meet('GET /raw/big', $auth);
        $u->put("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                . "Content-Length: $n\r\n\r\n");
        $c->head;
        ($out, $wrong, $growth) = pour($u, $c, $n);
        is("$out $wrong", "$n 0", "an answer of $n octets");
        flat($growth, 'the worker does not grow by it');
        $u->close;
    }

    # HTTP/2, of unknown length

    my $before = rss();
    my $c = Wire->spawn('sh', '-c', 'head -c 100000000 /dev/zero | '
                        . 'exec "$0" "$@"', @curl, '--http2', '-H', $auth,
                        '-T', '-', 'https://raw.test/x');
    my $u = $up->accept;
    like($u->head, qr/^Transfer-Encoding: chunked\r$/m, 'HTTP/2: chunked');
    my ($sum, $most) = (0, $before);
    while ((my $n = hex(($u->get(qr/\r\n/) =~ /^(\w+)/)[0] // 0)) > 0) {
        $sum += length $u->take($n);
        $u->take(2);
        $most = rss() if rss() > $most;
    }
    is($sum, 100_000_000, 'HTTP/2: a body of 100 MB');
    flat($most - $before, 'the worker does not grow by it');
    $u->put($ok);
    is($c->rest, 'ok', 'answered');
    $u->close;
}

# a client that stops reading an answer without end

for my $type ('text/plain', 'application/octet-stream') {
    my $c = Wire->connect($base, window => 16384);
    $up->drain;
    $c->put(request('GET /raw/infinite', $auth));
    my $u = $up->accept;
    $u->head;
    $u->put("HTTP/1.1 200 OK\r\nContent-Type: $type\r\n\r\n");
    $c->head;

    my $before = rss();
    my ($total, $most, $still) = (0, $before, 0);

    while ($total < 64 << 20 && $still < 5) {
        my $n = $u->push('line after line' x 4096);
        $total += $n;
        $still = $n ? 0 : $still + 1;
        $u->writable(0.1) unless $n;
        $most = rss() if rss() > $most;
    }

    cmp_ok($total, '<', 64 << 20, "$type: the upstream has to wait");
    flat($most - $before, 'and the worker does not grow');

    # others are served, and the client may go on

    sent('GET /raw/other', $auth);
    my $got = '';
    while (length $got < 1 << 20) {
        $got .= $c->take(65536);
        $u->push('line after line' x 4096);
        last if ($c->{how} // '') eq 'timeout';
    }
    is(length $got, 1 << 20, 'it goes on when the client does');
    $c->close;
    my $left = 0;
    for (1 .. 400) {
        last if $left = !$u->put('x' x 10000);
        select undef, undef, undef, 0.01;
    }
    ok($left, 'and ends when the client leaves');
    $u->close;
}

# half-closed: nginx takes it for a client that has left

{
    my ($c, $u) = meet('GET /raw/half', $auth);
    $c->finish;
    is($u->ended, 'eof', 'a half-closed client: the upstream is let go');
    is($c->ended, 'eof', 'and so is the client');
    $u->close;

    ($c, $u) = meet('POST /raw/half', $auth, 'Content-Length: 10');
    $c->put('12345');
    is($u->take(5), '12345', 'half-closed within the body: what came');
    $c->finish;
    is($u->ended, 'eof', 'and no more');
    $c->rest;
    $u->close;
    sent('GET /raw/other', $auth);
}


# --- credentials of the client's own ------------------------------------------

my $basic = sub { 'Authorization: Basic ' . MIME::Base64::encode($_[0], '') };

for my $field ('Authorization: Bearer someone-else', $basic->('me:word'),
               'Authorization: Digest x=y', "Authorization: Bearer ${P}x",
               "Authorization: Bearer x$P", 'Authorization: Bearer ' . lc $P,
               'Authorization: ,', $basic->("a:b:$P"))
{
    my ($name, $value) = split /: /, Wire::plain($field), 2;
    my ($got) = value(sent('GET /raw/x', $field), $name);
    is($got, $value, "pass: $value arrives as it was");

    my $c = Wire->connect($base);
    my $a = refused($c, request('GET /own/x', $field), 403,
                    'foreign_credential', "refuse: $value");
    unlike($a->{body} . $a->{head}, qr/someone-else|Digest|PLACEHOLDER/,
           'it is not repeated');

    refused($c, request('GET /off/x', $field), 403, 'foreign_credential',
            "refuse, without a secret: $value");
}

{
    my $c = Wire->connect($base);
    refused($c, request('GET /own/x', 'X-Api-Key: mine'), 403,
            'foreign_credential', 'refuse: in another field that is named');

    my $head = sent('GET /own/x', $auth);
    is(value($head, 'Authorization'), 'Bearer SECRET',
       'refuse: ours is swapped');
    is(Wire::names(sent('GET /own/x')), 'host via',
       'refuse: none is let through');
    is(Wire::names(sent('GET /off/x')), 'host via',
       'the same without a secret');
    is(value(sent('GET /own/x', 'X-Other: mine', $auth), 'X-Other'), 'mine',
       'refuse: a field that is not named is not looked at');

    my $got = curl(undef, '--http2', '-H', 'Authorization: Bearer mine', '-w',
                   ' %{http_code}', '-o', '/dev/null', 'https://own.test/');
    is($got, ' 403', 'refuse: over HTTP/2');
    ok($up->untouched, 'nothing goes upstream');
}

# a foreign one beside ours is foreign all the same

for my $more (['X-Api-Key: mine', $auth], [$auth, 'X-Api-Key: mine'],
              ["X-Api-Key: $P", 'Authorization: Bearer mine'])
{
    my $c = Wire->connect($base);
    $up->drain;
    $c->put(request('GET /own/x', @$more));

    my $name = Wire::plain("refuse: @$more");
    my $u = $up->accept(0.3);
    ok(!$u, "$name: nothing goes upstream");
    $u->put($ok), $u->close if $u;
    is($c->answer->{status}, 403, "$name: 403");
}


# --- ttl ----------------------------------------------------------------------

{
    my $c = Wire->connect($base);
    my $u;

    my $asks = sub {
        my ($name) = @_;
        $up->drain;
        $c->put(request('GET /aged/x', $auth));
        $u = $up->accept or return fail($name);
        is(value($u->head, 'Authorization'), 'Bearer SECRET', $name);
        $u->put($ok);
        is($c->answer->{status}, 200, "$name: 200");
        $u->close;
    };

    $asks->('ttl: a fresh file');

    utime time, time - 3500, "$live/secret";
    $asks->('ttl: a file that is nearly too old');

    utime time, time - 3700, "$live/secret";
    my $a = refused($c, request('GET /aged/x', $auth), 403,
                    'credential_expired', 'ttl: a file that is too old');
    like($a->{body}, qr/"reason":"credential_expired"/,
         'ttl: in the body, too');
    my ($r) = grep { $_->{event} eq 'decision' } reverse $g->audit;
    is("$r->{decision} $r->{reason} $r->{status}",
       'deny credential_expired 403', 'ttl: the record of it');

    my $got = curl(undef, '--http2', '-H', $auth, '-w', ' %{http_code}', '-o',
                   '/dev/null', 'https://aged.test/');
    is($got, ' 403', 'ttl: over HTTP/2');

    # without the placeholder there is nothing to expire

    is(value(sent('GET /aged/x', 'Authorization: Bearer mine'),
             'Authorization'), 'Bearer mine', 'ttl: not for others');

    utime time, time, "$live/secret";
    $asks->('ttl: touched, without a reload');

    utime time, time - 3700, "$live/secret";
    refused($c, request('GET /aged/x', $auth), 403, 'credential_expired',
            'ttl: too old again');
    Fixture::write_file("$live/new", "$C\n", 0640);
    chown -1, $gid, "$live/new";
    rename "$live/new", "$live/secret";
    $asks->('ttl: renewed, without a reload');
}


# --- the same 401 again and again ---------------------------------------------

# a client that asks, and an upstream that says 401 until it is told otherwise

sub loop {
    my ($ask, $read) = @_;
    my $u;

    return sub {
        my ($line, $answer) = @_;
        $answer //= $no;
        $ask->($line);

        # on the connection that is there, on a new one, or not at all

        my $head = '';
        my $fh = IO::Select->new($up->{fh});
        my $c = $read->();
        for (1 .. 4000) {
            if ($u && $u->readable(0)) {
                $head = $u->head;
                last if $head ne '';
                $u->close;
                undef $u;
            } elsif ($fh->can_read(0)) {
                $u = $up->accept;
                next;
            } elsif ($c->readable(0.002)) {
                last;
            }
        }

        if ($head ne '') {
            $answer =~ s/(\r\n\r\n).*/$1/s if $head =~ /^HEAD/;
            $u->put($answer);
        }

        my $a = $c->answer($line =~ /^(\w+)/);
        my ($reason) = (Wire::field($a, 'Proxy-Status') // '')
                       =~ /details="(\w+)/;

        return join ' ', $a->{status}, $head ne '' ? 'upstream' : (),
                    $reason // ();
    };
}

for my $way ('base URL', 'TLS') {
    my ($c, $prefix) = $way eq 'base URL' ? (undef, '/raw') : (undef, '');
    my $fresh = sub {
        $c = $way eq 'TLS' ? Wire->tls($g->{port}, 'raw.test')
                           : Wire->connect($base);
    };
    my $client = sub {
        return loop(sub {
            my $octets = request($_[0], $auth);
            $octets =~ s/a\.test/raw.test/;
            $octets =~ s{ /}{ $prefix/};
            $c->put($octets);
        }, sub { $c });
    };

    $up->drain;
    $fresh->();
    my $ask = $client->();

    my @got = map { $ask->('GET /loop?a=b') } 1 .. 20;
    is(join('|', @got), join('|', ('401 upstream') x 20),
       "$way: twenty equal 401s");
    is($ask->('GET /loop?a=b'), '403 auth_loop', "$way: the next is refused");
    is($ask->('GET /loop?a=b'), '403 auth_loop',
       "$way: and so is the one after");
    is($ask->('GET /loop?a=c', $ok), '200 upstream',
       "$way: another query is not");
    is($ask->('GET /loop?a=b'), '401 upstream', "$way: 200 has ended the row");

    $fresh->();
    @got = map { $ask->('GET /loop?a=b') } 1 .. 20;
    is($ask->('GET /loop?a=b'), '403 auth_loop', "$way: twenty again");
    is($ask->('GET /other?a=b'), '401 upstream', "$way: another path is not");
    is($ask->('GET /loop?a=b'), '401 upstream', "$way: they were no row then");

    $fresh->();
    @got = map { $ask->('GET /loop') } 1 .. 20;
    is($ask->('HEAD /loop'), '401 upstream', "$way: another method is not");

    $fresh->();
    @got = map { $ask->('GET /loop') } 1 .. 20;
    is($ask->('GET /loop'), '403 auth_loop', "$way: a third time");
    $fresh->();
    is($ask->('GET /loop'), '401 upstream', "$way: another connection is not");

    for my $other ($ok, "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
                   "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")
    {
        my ($status) = $other =~ / (\d+)/;
        $fresh->();
        @got = map { $ask->('GET /loop') } 1 .. 19;
        is($ask->('GET /loop', $other), "$status upstream",
           "$way: nineteen and a $status");
        @got = map { $ask->('GET /loop') } 1 .. 20;
        is(join('|', @got), join('|', ('401 upstream') x 20),
           "$way: twenty more");
        is($ask->('GET /loop'), '403 auth_loop', "$way: and then no more");
    }
}

# HTTP/2: one connection, and a fragment that curl counts with

for my $case (['raw.test/loop#[1-22]', ('401') x 20, '403', '403'],
              ['raw.test/loop?[1-22]', ('401') x 22])
{
    my ($url, @want) = @$case;

    my $got = curl(sub {
        my ($c) = @_;
        my $u;
        for (grep { $_ eq '401' } @want) {
            $u ||= $up->accept;
            last if $u->head eq '';
            $u->put($no);
        }
        $u->close;
    }, '--http2', '-H', $auth, '-o', '/dev/null', '-w',
       '%{http_code} %{num_connects} %{http_version},', "https://$url");

    my @got = split /,/, $got;
    is(join(' ', map { (split)[0] } @got), join(' ', @want),
       "HTTP/2: $url");
    is(join(' ', map { (split)[1] } @got), join(' ', 1, (0) x 21),
       'on one connection');
    like($got[0], qr/ 2$/, 'of HTTP/2');
}

is((grep { $_->{event} eq 'decision' && $_->{reason} eq 'auth_loop'
           && $_->{decision} eq 'deny' } $g->audit) > 4, 1,
   'the records of it');


# --- the end ------------------------------------------------------------------

ok($up->untouched, 'nothing was sent that was not looked at');
is(Wire::leaks(), 0, 'the secret reached no client');
is(join('', $g->stop), '', 'it stands in no log, and there are no alarms');

done_testing;
