# An upstream that fails at each stage: DESIGN 6.6, 6.7; security A-15, X-34,
# X-41, X-59; case O-12
#
# Client and upstream are both this test: see Wire.

use strict;
use warnings;

use lib 't/fixture';
use Fixture;
use IO::Socket::INET;
use JSON::PP;
use Stream;
use Test::More;
use Wire;

my $P = $ENV{TEST_NGINX_PLACEHOLDER};
my $C = $ENV{TEST_NGINX_CANARY};

my $up = Wire->listen;
my $port = $up->port;
my $base = Fixture::free_port();
my $closed = Fixture::free_port();
my $secret = "secret $ENV{TEST_NGINX_SECRET} static; placeholder $P;";

# a listener whose backlog is full: who connects now gets no answer

my $full = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1)
    or die "listen: $!";
listen $full, 0;
my @waiting = map {
    IO::Socket::INET->new(PeerAddr => '127.0.0.1', Blocking => 0,
                          PeerPort => $full->sockport)
} 1 .. 8;

my $g = Stream->start(http2 => 'http2', egress => <<"EGRESS", http => <<"HTTP");
    resolver 127.0.0.1:$closed;
    resolver_timeout 300ms;
    binding raw {
        hosts raw.test;
        upstream http://127.0.0.1:$port;
        access write;
        $secret
    }
    binding git {
        hosts git.test;
        upstream http://127.0.0.1:$port;
        git on;
        $secret
    }
    binding closed {
        hosts closed.test;
        upstream http://127.0.0.1:$closed;
        $secret
    }
    binding full {
        hosts full.test;
        upstream http://127.0.0.1:@{[ $full->sockport ]};
        $secret
    }
    binding nowhere {
        hosts nowhere.test;
        $secret
    }
    binding crypt {
        hosts api.test:8443;
        upstream https://127.0.0.1:$port;
        $secret
    }
EGRESS
    server {
        listen 127.0.0.1:$base;
        proxy_read_timeout 1s;
        proxy_send_timeout 1s;
        proxy_connect_timeout 400ms;
        location /raw/ { egress_pass raw; }
        location /slow/ { egress_pass raw; proxy_read_timeout 30s; }
        location /git/ { egress_pass git; }
        location /closed/ { egress_pass closed; }
        location /full/ { egress_pass full; }
        location /nowhere/ { egress_pass nowhere; }
        location /crypt/ { egress_pass crypt; }
        location /page/ { return 200 "page\\n"; }
    }
HTTP

# the worker may come after the file that tells of its master

my $worker;

for (1 .. 250) {
    ($worker) = $g->workers and last;
    select undef, undef, undef, 0.02;
}
my $auth = "Authorization: Bearer $P";
my $good = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood";
my $n = 0;

sub request {
    my ($line, @more) = @_;
    return join("\r\n", "$line HTTP/1.1", 'Host: a.test', @more) . "\r\n\r\n";
}

# what each request has, and no answer may repeat

my @marks = ('X-Zebra: heron', 'User-Agent: ibex', $auth);
my $told = qr/zebra|heron|ibex|okapi|PLACEHOLDER|SECRET|127\.0\.0\.1|
              $port|$closed/xi;

# A request that has a path of its own, with a script of the upstream: octets
# to send, or one of read, hello, close, reset, stay.  At a "stay" the client's
# answer has to come while the upstream is still there.

sub play {
    my ($u, @steps) = @_;

    for my $step (@steps) {
        last if $step eq 'stay';

        if ($step eq 'read') {
            $u->head;
        } elsif ($step eq 'hello') {
            my ($n) = unpack 'x3 n', $u->take(5);
            $u->take($n);
        } elsif ($step eq 'close' || $step eq 'reset') {
            $u->$step;
        } else {
            $u->put($step);
        }
    }
}

sub ask {
    my ($line, @steps) = @_;
    my ($method, $path) = split ' ', $line;
    my $target = $path . ++$n;
    my $c = Wire->connect($base);
    my $u;

    $up->drain;
    $c->put(request("$method $target?okapi=1", @marks));

    if (@steps) {
        $u = $up->accept or die "nothing came for $target";
        play($u, @steps);
    }

    my $a = $c->answer($method);
    my $how = $a->{whole} ? '' : $c->ended;

    $target =~ s{^/\w+}{};

    return ($a, $target, $c, $u, $how);
}

# the completion, and that there is one of it

my @records;

sub records {
    my ($path, $event) = @_;
    my $json = JSON::PP->new->utf8;

    for (1 .. 250) {
        my @lines = split /^/, $g->log('audit.json');
        my @found = map { $json->decode($_) }
                    grep { /"event":"$event"/ && /"path":"\Q$path\E"/ } @lines;
        return @found if @found;
        select undef, undef, undef, 0.02;
    }
    return ();
}

# the worker is the same, and serves others

sub serves {
    my ($name, $c) = @_;

    $up->drain;
    my $other = Wire->connect($base);
    $other->put(request('GET /raw/other', $auth));
    my $u = $up->accept;
    $u->head if $u;
    $u->put($good) if $u;
    is($other->answer->{body}, 'good', "$name: others are served");
    $u->close if $u;

    if ($c) {
        $c->put(request('GET /page/'));
        is($c->answer->{body}, "page\n", "$name: and this client");
    }
}

# one that fails before there is an answer

sub fails {
    my ($name, $line, $steps, $status, $error) = @_;
    my ($a, $path, $c, $u) = ask($line, @$steps);
    my ($method) = split ' ', $line;
    my @errors = split ' ', $error;
    my $pattern = join '|', @errors;

    is($a->{status}, $status, "$name: $status");
    like(join("\n", Wire::field($a, 'Proxy-Status')),
         qr/^egress-1; error=($pattern); details="\1: [^"]+"$/,
         "$name: Proxy-Status");
    is($a->{whole}, 1, "$name: the answer is whole");
    unlike($a->{head} . $a->{body}, $told, "$name: nothing is repeated");

    if ($method ne 'HEAD') {
        my $p = eval { JSON::PP->new->utf8->decode($a->{body}) } || {};
        is(scalar Wire::field($a, 'Content-Type'), 'application/problem+json',
           "$name: the type of its body");
        is($p->{status}, $status, "$name: its status");
        like($p->{reason} // '', qr/^(?:$pattern)$/, "$name: its reason");
        is($p->{type} // '', "urn:nginx-egress:problem:$p->{reason}",
           "$name: its type");
        like($p->{message} // '', qr/$p->{reason}/, "$name: its message");
    }

    my @done = records($path, 'completion');
    is(scalar @done, 1, "$name: one completion");
    is($done[0]{status}, $status, "$name: its status is the client's");
    like($done[0]{reason} // '', qr/^(?:$pattern)$/, "$name: and the reason");
    is($done[0]{decision} // '', 'allow', "$name: what was decided");

    $u->close if $u && $u->{fh};

    # a connection that is said to be kept is kept
    serves($name, (Wire::field($a, 'Connection') // '') eq 'close' ? () : $c);
}

# One that fails when the client has its header: what came must not look whole.
# The octets of "more" are sent when the client has got something.

sub breaks {
    my ($name, $octets, $more, $end, $error) = @_;
    my $target = '/raw/b' . ++$n;
    my $c = Wire->connect($base);

    $up->drain;
    $c->put(request("GET $target?okapi=1", @marks));
    my $u = $up->accept or die "nothing came for $target";
    $u->head;
    $u->put($octets);
    $c->readable(5);
    play($u, $more, $end);

    my $a = $c->answer;

    is($a->{status}, 200, "$name: 200 was sent");
    ok(!$a->{whole}, "$name: what came does not look whole");
    like($c->ended, qr/^(?:eof|reset)$/, "$name: the connection is closed");

    $target =~ s{^/raw}{};

    my @done = records($target, 'completion');
    is(scalar @done, 1, "$name: one completion");
    is("$done[0]{status} $done[0]{upstream_status}", '200 200',
       "$name: its status");
    my $pattern = join '|', split ' ', $error;
    like($done[0]{reason} // '', qr/^(?:$pattern)$/, "$name: and the reason");

    $u->close if $u->{fh};
    serves($name);
}


# --- before an answer ---------------------------------------------------------

my $head = "HTTP/1.1 200 OK\r\nX-A: b\r\n";

fails('a closed port', 'GET /closed/x', [], 502, 'connection_refused');
fails('a closed port, HEAD', 'HEAD /closed/x', [], 502, 'connection_refused');
fails('a full backlog', 'GET /full/x', [], 504, 'connection_timeout');

for my $line ('GET /raw/f', 'POST /raw/f', 'HEAD /raw/f') {
    my ($method) = split ' ', $line;

    # whether the request was on its way yet is a matter of luck
    fails("$method, accepted and closed", $line, ['close'], 502,
          'connection_terminated connection_refused');
    fails("$method, accepted and reset", $line, ['reset'], 502,
          'connection_terminated connection_refused');

    for my $end ('close', 'reset') {
        fails("$method, $end after the request", $line, ['read', $end], 502,
              'connection_terminated');
        fails("$method, $end within the status line", $line,
              ['read', 'HTTP/1.1 20', $end], 502,
              'http_response_incomplete connection_terminated');
        fails("$method, $end within the header", $line,
              ['read', $head . 'X-B: c', $end], 502,
              'http_response_incomplete connection_terminated');
        fails("$method, $end before the end of the header", $line,
              ['read', $head, $end], 502,
              'http_response_incomplete connection_terminated');
    }
}

# what is no HTTP, or not good enough

my @bad = (
    ['a banner', "SSH-2.0-OpenSSH_9.2\r\n"],
    ['octets', join '', map { chr } 0 .. 255],
    ['a TLS record', "\x15\x03\x03\x00\x02\x02\x28"],
    ['HTTP/0.9', "<html>a page</html>\n"],
    ['a request', "GET / HTTP/1.1\r\nHost: a\r\n\r\n"],
    ['another protocol', "ICY 200 OK\r\n\r\n"],
    ['HTTP/2 frames', "\0\0\0\4\0\0\0\0\0"],
    ['a status of four digits', "HTTP/1.1 2000 OK\r\n\r\n"],
    ['a status of two digits', "HTTP/1.1 20 OK\r\n\r\n"],
    ['a status of zero', "HTTP/1.1 000 OK\r\n\r\n"],
    ['an octet of zero in a value', "${head}X-B: a\0b\r\n\r\n"],
    ['an octet of zero in a name', "${head}X\0B: a\r\n\r\n"],
    ['a control character in a name', "${head}X\x01B: a\r\n\r\n"],
    ['the secret in a malformed name', "${head}$C\x01: a\r\n\r\n"],
    ['a header of 40 KB', "${head}X-B: " . 'x' x 40000 . "\r\n\r\n"],
    ['a header of 2,000 fields',
     $head . join('', map { "X-Field-$_: value\r\n" } 1 .. 2000) . "\r\n"],
    ['a status line of 40 KB', 'HTTP/1.1 200 ' . 'x' x 40000 . "\r\n\r\n"],
);

for my $case (@bad) {
    my ($name, $octets) = @$case;
    fails($name, 'GET /raw/g', ['read', $octets, 'close'], 502,
          'http_protocol_error');
    fails("$name, and stays", 'POST /raw/g', ['read', $octets, 'stay'],
          502, 'http_protocol_error')
        if $name =~ /secret|40 KB|four|SSH|zero in a value/;
}


# --- time-outs ----------------------------------------------------------------

fails('no answer', 'GET /raw/t', ['read', 'stay'], 504,
      'connection_read_timeout');
fails('no answer, POST', 'POST /raw/t', ['read', 'stay'], 504,
      'connection_read_timeout');
fails('no more of the header', 'GET /raw/t', ['read', $head, 'stay'], 504,
      'connection_read_timeout');
fails('an interim answer and no more', 'GET /raw/t',
      ['read', "HTTP/1.1 103 x\r\n\r\n", 'stay'], 504,
      'connection_read_timeout');

# one that takes no more of a body

{
    my $c = Wire->connect($base);
    $up->drain;
    $c->put(request('POST /raw/send?okapi=1', @marks,
                    'Content-Length: 100000000'));
    my $u = $up->accept;
    my $sent = 0;
    for (1 .. 2000) {
        my $some = $c->push('x' x 65536);
        $sent += $some;
        last if $c->readable($some ? 0 : 0.01);
    }
    my $a = $c->answer;
    is($a->{status}, 504, 'the body is not taken: 504');
    like(scalar Wire::field($a, 'Proxy-Status'),
         qr/error=connection_(?:read|write)_timeout;/,
         'the body is not taken: the error');
    unlike($a->{head} . $a->{body}, $told,
           'the body is not taken: nothing is repeated');
    cmp_ok($sent, '<', 100_000_000, 'the body is not taken: the client waits');
    my @done = records('/send', 'completion');
    is($done[0]{status}, 504, 'the body is not taken: the record');
    $u->close;
    serves('the body is not taken');
}


# --- names that can't be resolved (O-12) --------------------------------------

{
    my ($a, $path, $c) = ask('GET /nowhere/x');
    like($a->{status}, qr/^50[24]$/, 'no resolver: 502 or 504');
    like(scalar Wire::field($a, 'Proxy-Status'),
         qr/^egress-1; error=dns_(?:error|timeout); details="/,
         'no resolver: the error');
    unlike($a->{head} . $a->{body}, $told, 'no resolver: nothing is repeated');
    my ($r) = records($path, 'decision');
    like("$r->{decision} $r->{reason}", qr/^deny dns_(?:error|timeout)$/,
         'no resolver: the record');
    serves('no resolver', $c);
}


# --- TLS ----------------------------------------------------------------------

fails('TLS: accepted and closed', 'GET /crypt/x', ['close'], 502,
      'connection_terminated tls_protocol_error connection_refused');
fails('TLS: accepted and reset', 'GET /crypt/x', ['reset'], 502,
      'connection_terminated tls_protocol_error connection_refused');
fails('TLS: a fatal alert', 'GET /crypt/x',
      ['hello', "\x15\x03\x03\x00\x02\x02\x28", 'stay'], 502,
      'tls_alert_received');
fails('TLS: HTTP in the clear after a hello', 'GET /crypt/x',
      ['hello', $good, 'stay'], 502, 'tls_protocol_error');

# octets that are there before the handshake has begun: never an answer, and no
# refused connection (X-34).  nginx may have read them or not: so several times

for my $octets ($good, "HTTP/1.1 103 x\r\n\r\n$good", "HTTP/1.1 200 OK\r\n",
                "\x15\x03\x03\x00\x02\x02\x28")
{
    my %errors;

    for (1 .. 25) {
        my ($a, $path, $c, $u) = ask('GET /crypt/x', $octets, 'stay');
        my ($error) = (Wire::field($a, 'Proxy-Status') // '')
                      =~ /error=(\w+);/;
        $errors{"$a->{status} " . ($error // '')}++;
        $u->close;
    }

    my $name = $octets =~ /^HTTP/ ? $octets =~ s/\r\n/ /gr : 'an alert';
    is(join(', ', grep { !/^502 tls_(?:protocol_error|alert_received)$/ }
            sort keys %errors), '', "TLS: before the handshake: $name");
}

fails('TLS: no answer', 'GET /crypt/x', ['stay'], 504, 'connection_timeout');


# --- within the body ----------------------------------------------------------

my $sized = "HTTP/1.1 200 OK\r\nContent-Type: x/y\r\n"
            . "Content-Length: 1000\r\n\r\n";
my $chunked = "HTTP/1.1 200 OK\r\nContent-Type: x/y\r\n"
              . "Transfer-Encoding: chunked\r\n\r\n";

(my $text = $sized) =~ s{x/y}{text/plain};
(my $events = $chunked) =~ s{x/y}{text/event-stream};

for my $end ('close', 'reset') {
    for my $case (['right behind the header', $sized, ''],
                  ['within a body of known length', $sized, 'x' x 999],
                  ['within a text', $text, "half of a text\n"],
                  ['before the first chunk', $chunked, ''],
                  ['within the size of a chunk', $chunked, "5\r\nabcde\r\n1"],
                  ['within a chunk', $chunked, "10\r\nabcde"],
                  ['between two chunks', $chunked, "5\r\nabcde\r\n"],
                  ['within an event stream', $events, "7\r\ndata: 1\r\n"],
                  ['within the last chunk', $chunked, "5\r\nabcde\r\n0\r\n"],
                  ['within a trailer',
                   $chunked, "5\r\nabcde\r\n0\r\nX-Trailer: 1\r\n"])
    {
        my ($name, @octets) = @$case;
        breaks("$end $name", @octets, $end, 'http_response_incomplete');
    }
}

for my $case (['a chunk size that is none', "xyz\r\nabc\r\n"],
              ['a chunk size beyond all', 'f' x 17 . "\r\nabc\r\n"],
              ['a negative chunk size', "-5\r\nabcde\r\n"],
              ['a chunk that is longer than its size',
               "3\r\nabcdef\r\n0\r\n\r\n"],
              ['a chunk size of octets', "\0\1\2\r\nabc"])
{
    my ($name, $octets) = @$case;

    for my $end ('stay', 'close') {
        breaks("$name, $end", $chunked . "5\r\nabcde\r\n", $octets, $end,
               'http_protocol_error http_response_incomplete');
    }
}

breaks('a body that comes to a stop', $sized, 'x' x 500, 'stay',
       'connection_read_timeout http_response_incomplete');
breaks('an event stream that comes to a stop', $events, "7\r\ndata: 1\r\n",
       'stay', 'connection_read_timeout http_response_incomplete');

# HTTP/2: no END_STREAM either

my @curl = ('curl', '-q', '-sSN', '--suppress-connect-headers', '--max-time',
            20, '--noproxy', '', '--proxy', "http://127.0.0.1:$g->{port}",
            '--cacert', Fixture::dir() . '/ca.pem', '--http2', '-H', $auth);

for my $case (['within a body', $sized . "half\n"],
              ['within an event stream', $events . "7\r\ndata: 1\r\n"],
              ['within a text', $text . "half\n"],
              ['a wrong chunk', $chunked . "5\r\nabcd\n\r\nxyz\r\n"])
{
    my ($name, $octets) = @$case;
    $up->drain;
    my $c = Wire->spawn('sh', '-c', '"$@"; echo " exit $?"', 'sh', @curl,
                        'https://raw.test/h2');
    my $u = $up->accept;
    $u->head;
    $u->put($octets);
    $u->close;
    unlike($c->rest, qr/ exit 0$/, "HTTP/2, $name: curl knows that it broke");
}

for my $case (['closed', 502, 'connection_terminated', 'read', 'close'],
              ['garbage', 502, 'http_protocol_error', 'read',
               "garbage\r\n\r\n", 'close'])
{
    my ($name, $status, $error, @steps) = @$case;
    $up->drain;
    my $c = Wire->spawn(@curl, '-i', 'https://raw.test/h2?okapi=1', '-H',
                        'X-Zebra: heron', '-w', 'code %{exitcode}');
    my $u = $up->accept;
    play($u, @steps);
    my $got = $c->rest;
    like($got, qr{^HTTP/2 $status }, "HTTP/2, $name: $status");
    like($got, qr/^proxy-status: egress-1; error=$error;/m, 'its error');
    like($got, qr/^\{"type":.*"reason":"$error".*\}\ncode 0\z/m,
         'a body, and its end');
    unlike($got, $told, 'nothing is repeated');
    $u->close;
}


# --- what git shows -----------------------------------------------------------

{
    my $c = Wire->connect($base);
    $up->drain;
    $c->put(request('GET /git/octo/x.git/info/refs?service=git-upload-pack',
                    @marks));
    my $u = $up->accept;
    play($u, 'read', 'close');
    my $a = $c->answer;
    is("$a->{status} " . Wire::field($a, 'Content-Type'),
       '502 text/plain; charset=utf-8', 'git: a line of text');
    like($a->{body},
         qr/^egress-1: connection_terminated: .* \(binding git\)\n\z/,
         'git: that says what failed');
    unlike($a->{head} . $a->{body}, $told, 'git: nothing is repeated');
}


# --- retries (X-59, A-15) -----------------------------------------------------

# a kept connection that closes: a GET goes again, once; a POST does not

for my $case (['GET', 1], ['HEAD', 1], ['OPTIONS', 1], ['POST', 0],
              ['DELETE', 0], ['PUT', 0])
{
    my ($method, $again) = @$case;

    # what others have left in the pool is not for this one
    my $c = Wire->connect($base);
    $up->drain;
    $c->put(request('GET /slow/first', $auth));
    my $u = $up->accept;
    $u->head;
    $u->put($good);
    is($c->answer->{body}, 'good', "$method: a connection is kept");

    $c->put(request("$method /slow/second", $auth));
    like($u->head, qr{^$method /second }, "$method: it is used");
    $u->close;

    my $u2 = $up->accept($again ? 5 : 0.3);
    is($u2 ? 1 : 0, $again,
       "$method: sent " . ($again ? 'again' : 'once only'));

    if ($u2) {
        like($u2->head,
             qr{^$method /second .*^Authorization: Bearer SECRET\r$}ms,
             "$method: as it was");
        $u2->close;
        ok(!$up->accept(0.3), "$method: and not a third time");
    }

    my $a = $c->answer($method);
    is($a->{status}, 502, "$method: 502 in the end");
}

# once a byte of the answer has come it is not sent again

{
    my $c = Wire->connect($base);
    $up->drain;
    $c->put(request('GET /slow/first', $auth));
    my $u = $up->accept;
    $u->head;
    $u->put($good);
    $c->answer;
    $c->put(request('GET /slow/second', $auth));
    $u->head;
    $u->put('HTTP/1.1 2');

    # the octets must have arrived before the end of the connection does
    select undef, undef, undef, 0.05;
    $u->close;
    my $a = $c->answer;
    is($a->{status}, 502, 'a part of a status line: 502');
    ok($up->untouched, 'and no second request');
}


# --- the end ------------------------------------------------------------------

is(join(' ', $g->workers), $worker, 'the worker is the one it was');
ok($up->untouched, 'nothing was sent that was not looked at');
is(Wire::leaks(), 0, 'the secret reached no client');
is(join('', $g->stop), '', 'it stands in no log, and there are no alarms');

done_testing;
