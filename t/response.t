# What comes back from the upstream, and what does not: DESIGN 4.8, 5.2
# (upgrade), 6.7; security X-31 to X-36, H-11, H-12; case O-07
#
# Client and upstream are both this test: see Wire.

use strict;
use warnings;

use Digest::SHA ();
use MIME::Base64 ();

use lib 't/fixture';
use Digest::SHA ();
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

my $g = Stream->start(http2 => 'http2', egress => <<"EGRESS", http => <<"HTTP");
    binding raw {
        hosts raw.test;
        upstream http://127.0.0.1:$port;
        access write;
        $secret
    }
    binding web {
        hosts web.test;
        upstream http://127.0.0.1:$port;
        upgrade on;
        access write;
        $secret
    }
EGRESS
    server {
        listen 127.0.0.1:$base;
        location /raw/ { egress_pass raw; }
        location /web/ { egress_pass web; }
        location /internal/ { return 200 "internal\\n"; }
    }
HTTP

my $auth = "Authorization: Bearer $P\r\n";

sub request {
    my ($method, $path, @more) = @_;
    return "$method $path HTTP/1.1\r\nHost: a.test\r\n$auth"
           . join('', map { "$_\r\n" } @more) . "\r\n";
}

# A request, at the upstream, and its connections.  What is sent back comes
# after that, from the test.

sub meet {
    my ($method, $path, @more) = @_;
    my $c = Wire->connect($base);
    $up->drain;
    $c->put(request($method, $path, @more));
    my $u = $up->accept or die "nothing came for $method $path";
    return ($c, $u, $u->head);
}

# the answer to one that gets these octets

sub reply {
    my ($octets, %opt) = @_;
    my $method = $opt{method} // 'GET';
    my ($c, $u) = meet($method, $opt{path} // '/raw/x', @{ $opt{more} // [] });
    ref $octets ? $octets->($u) : $u->put($octets, $opt{form});
    $u->close if $opt{close};
    my $a = $c->answer($method);
    $u->close;
    return wantarray ? ($a, $c) : $a;
}

sub fields { return join "\n", map { "$_->[0]: $_->[1]" } @{ $_[0]{fields} } }

# reason and status of the last completion

sub completion {
    my ($path) = @_;
    for (1 .. 200) {
        my ($r) = grep { $_->{event} eq 'completion' && $_->{path} eq $path }
                  reverse $g->audit;
        return "$r->{status} $r->{upstream_status} $r->{reason}" if $r;
        select undef, undef, undef, 0.02;
    }
    return 'none';
}

sub problem {
    my ($a, $status, $reason, $name) = @_;
    is($a->{status}, $status, "$name: $status");
    like(scalar Wire::field($a, 'Proxy-Status'),
         qr/^egress-1; error=\w+; details="$reason: [^"]+"$/,
         "$name: Proxy-Status");
    like($a->{body}, qr/"reason":"$reason"/, "$name: the body tells it, too");
}


# --- fields (X-33, X-36, H-11, H-12) ------------------------------------------

my @kept = (
    'Content-Type: application/octet-stream', 'Content-Length: 5',
    'Set-Cookie: a=1; Path=/; HttpOnly', 'Set-Cookie: b=2',
    'ETag: "strong"', 'Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT',
    'Link: <https://elsewhere.test/?page=2>; rel="next"',
    'Link: </style.css>; rel=preload', 'Location: /relative',
    'Refresh: 5; url=http://127.0.0.1:1/', 'Vary: Accept, Authorization',
    'Cache-Control: max-age=60, private',
    'Expires: Thu, 01 Dec 1994 16:00:00 GMT', 'Age: 12',
    'WWW-Authenticate: Basic realm="up", Bearer', 'Accept-Ranges: bytes',
    'Proxy-Status: up.test; error=http_protocol_error',
    'Proxy-Status: egress-1; error=dns_error', 'Via: 1.1 up.test',
    'Content-Disposition: attachment; filename="a b"', 'X-Unknown:',
    'X-Unknown: two', 'X-unknown: three, four', 'X-Accelerator: stays',
    'Strict-Transport-Security: max-age=1', 'x-lower: v',
    'X-RateLimit-Remaining: 4999', 'Retry-After: 1', 'Allow: GET',
);

my @gone = (
    'Date: Mon, 01 Jan 2024 00:00:00 GMT', 'Server: up/1.0',
    'X-Accel-Redirect: /internal/x', 'X-Accel-Buffering: yes',
    'X-Accel-Limit-Rate: 1', 'X-Accel-Expires: 0', 'X-Accel-Charset: koi8-r',
    'x-accel-whatever: 1', 'Alt-Svc: h3=":443"; ma=86400', 'ALT-SVC: clear',
    'Keep-Alive: timeout=5, max=100', 'Proxy-Authenticate: Basic realm="p"',
    'Proxy-Authentication-Info: x', 'Proxy-Connection: keep-alive',
    'Trailer: X-Trailer', 'TE: trailers', 'Upgrade: h2c, websocket',
    'Connection: X-Nominated, keep-alive ,x-other', 'X-Nominated: a',
    'x-Nominated: again', 'Connection:  ,, "x", X-Third', 'X-Other: b',
    'X-Third: c',
);

# one of each in turn, so that none is found by its place

my @mixed = map { ($kept[$_] // (), $gone[$_] // ()) } 0 .. $#kept;
my $mixed = join '', map { "$_\r\n" } @mixed;

sub without {
    my ($a, @names) = @_;
    my %no = map { lc $_ => 1 } @names;
    return join "\n", sort map { s/:\s*$/:/r }
                           grep { !$no{ lc((split /:/)[0]) } }
                           split /\n/, fields($a);
}

for my $form ('burst', 'bytewise') {
    my ($a, $c) = reply("HTTP/1.1 200 Fine\r\n$mixed\r\nhello", form => $form);

    is("$a->{status} $a->{reason}", '200 Fine', "$form: status line");
    is(without($a, qw(date server connection)), join("\n", sort @kept),
       "$form: the fields that stay are as they were, and no others");
    like(join(' ', Wire::field($a, 'Server')), qr/^nginx\S*$/,
         "$form: Server is nginx's own");
    like(join(' ', Wire::field($a, 'Date')),
         qr/^\w+, \d+ \w+ 2(?!024)\d+ \S+ GMT$/, "$form: and Date");
    is(join(' ', Wire::field($a, 'Connection')), 'keep-alive',
       "$form: and Connection");
    is($a->{body}, 'hello', "$form: the body, from there and at once");
    ok($up->untouched, "$form: no second request");

    $c->put(request('GET', '/internal/x'));
    is($c->answer->{body}, "internal\n", "$form: the connection stays");
}

# repeated fields keep their order

{
    my $a = reply("HTTP/1.1 200 OK\r\n$mixed\r\nhello");

    is(join('|', Wire::field($a, 'Set-Cookie')),
       'a=1; Path=/; HttpOnly|b=2', 'Set-Cookie in order');
    is(join('|', Wire::field($a, 'X-Unknown')), '|two|three, four',
       'an unknown field in order');
    is(join('|', Wire::field($a, 'Proxy-Status')),
       'up.test; error=http_protocol_error|egress-1; error=dns_error',
       "the upstream's own Proxy-Status, with none of ours");
}

# Connection of the upstream can't take what frames the answer

{
    my $a = reply("HTTP/1.1 200 OK\r\nConnection: Content-Length, "
                  . "Content-Type, Date, Server\r\nContent-Type: text/x\r\n"
                  . "Content-Length: 3\r\n\r\nabc");

    is("$a->{status} $a->{body} $a->{whole}", '200 abc 1',
       'Connection names the fields of the framing: the body is right');
    is(scalar Wire::field($a, 'Content-Length'), 3, 'and has its length');
}

# each of them on its own, in the status classes where nginx looks at them

for my $status (200, 201, 302, 404, 500, 503) {
    for my $field (@gone[2 .. 8], 'X-Accel-Redirect: @named',
                   'X-Accel-Redirect: https://elsewhere.test/')
    {
        my $a = reply("HTTP/1.1 $status X\r\n$field\r\n"
                      . "Content-Type: text/plain\r\n"
                      . "Content-Length: 300\r\n\r\n" . 'x' x 300);
        my ($name) = split /:/, $field;

        is(join(' ', $a->{status}, length $a->{body},
                Wire::field($a, 'Content-Type'), Wire::field($a, $name)),
           "$status 300 text/plain", "$status with $field");
    }
}

ok($up->untouched, 'nothing was asked a second time');

# The end of a text may look like the start of the secret: it is held back until
# more is known, and then passed on as it was.

for my $n (1, 8, 39) {
    my $text = 'see ' . substr $C, 0, $n;

    for my $octets ("Content-Length: " . length($text) . "\r\n\r\n$text",
                    "Transfer-Encoding: chunked\r\n\r\n"
                    . sprintf("%x\r\n%s\r\n0\r\n\r\n", length $text, $text),
                    "X-A: b\r\n\r\n$text")
    {
        my ($framing) = split /:/, $octets;
        my $a = reply("HTTP/1.1 200 OK\r\n$octets",
                      close => $framing eq 'X-A');
        ok($a->{whole} && $a->{body} eq $text,
           "$framing: a text that ends with $n octets of the secret");
    }
}

# a status that is none must not lead past the filters

for my $line ('HTTP/1.1 000 x', 'HTTP/1.1 000', 'HTTP/1.0 000 x',
              'HTTP/1.1 001 x', 'HTTP/1.1 099 x')
{
    my $a = reply("$line\r\nX-Echo: $C\r\nAlt-Svc: x\r\nContent-Length: 40"
                  . "\r\n\r\n$C", close => 1);
    problem($a, 502, 'http_protocol_error', $line);
    unlike($a->{head} . $a->{body}, qr/SECRET/, "$line: no echo");
}

# redirects and refusals of the upstream go to the client (X-32)

for my $case (['301 Moved', 'Location: https://raw.test/y'],
              ['302 Found', 'Location: http://127.0.0.1:1/y?token=a'],
              ['303 See Other', 'Location: https://web.test/'],
              ['307 Temporary Redirect', 'Location: //elsewhere.test/x'],
              ['308 Permanent Redirect', 'Location: y'],
              ['401 Unauthorized', 'WWW-Authenticate: Basic realm="x"'],
              ['403 Forbidden', 'X-A: b'], ['404 Not Found', 'X-A: b'],
              ['407 Odd', 'X-A: b'], ['418 I am', 'X-A: b'],
              ['421 Misdirected', 'X-A: b'], ['429 Slow', 'Retry-After: 9'],
              ['500 Oops', 'X-A: b'], ['502 Bad', 'X-A: b'],
              ['504 Late', 'X-A: b'], ['599 X', 'X-A: b'],
              ['400 Bad', 'X-A: b'], ['413 Large', 'X-A: b'],
              ['200 ', 'X-A: b'])
{
    my ($line, $field) = @$case;
    my ($name, $value) = split /: /, $field;
    my $a = reply("HTTP/1.1 $line\r\n$field\r\nContent-Length: 4\r\n\r\nbody");

    is(join('|', "$a->{status} $a->{reason}", Wire::field($a, $name),
            $a->{body}, Wire::field($a, 'Proxy-Status')),
       "$line|$value|body", "$line is the client's to see");
}

ok($up->untouched, 'no redirect was followed');


# --- framing ------------------------------------------------------------------

for my $case (
    ['HEAD', "200 OK\r\nContent-Length: 12345\r\nETag: \"h\"", 12345, ''],
    ['HEAD', "404 Not Found\r\nContent-Length: 7", 7, ''],
    ['HEAD', "200 OK\r\nTransfer-Encoding: chunked", '', ''],
    ['GET', '204 No Content', '', ''],
    ['DELETE', '204 No Content', '', ''],
    ['GET', "304 Not Modified\r\nETag: \"e\"", '', ''],
    ['GET', "304 Not Modified\r\nContent-Length: 99", '99', ''],
    ['GET', "200 OK\r\nContent-Length: 0", 0, ''],
    ['GET', "200 OK\r\nContent-Length: 6\r\n\r\nabcdef", 6, 'abcdef'],
    ['GET', "206 Partial Content\r\nContent-Range: bytes 0-1/6\r\n"
            . "Content-Type: image/png\r\nContent-Length: 2\r\n\r\nab", 2,
     'ab'],
    ['GET', "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            . "1;ext=\"a\"\r\na\r\n05\r\nbcdef\r\n0", '', 'abcdef'],
    ['GET', "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0", '', ''],
) {
    my ($method, $octets, $length, $body) = @$case;
    my ($a, $c) = reply("HTTP/1.1 $octets"
                        . ($octets =~ /\r\n\r\n.*\d\r\n|\r\n\r\n0/s
                           || $octets !~ /\r\n\r\n/ ? "\r\n\r\n" : ''),
                        method => $method);
    my ($name) = "$method $octets" =~ /^(.*)/;
    $name =~ s/\r.*//s;

    is(join('|', $a->{status}, Wire::field($a, 'Content-Length') // '',
            $a->{body}, $a->{whole}),
       join('|', (split ' ', $octets)[0], $length, $body, 1),
       "$name: status, length and body");

    $c->put(request('GET', '/internal/x'));
    is($c->answer->{body}, "internal\n", "$name: not one octet more");
}

{
    my $a = reply("HTTP/1.1 200 OK\r\n\r\nuntil it closes", close => 1);
    is("$a->{body} $a->{whole}", 'until it closes 1', 'a body up to the end');
    is(scalar Wire::field($a, 'Transfer-Encoding'), 'chunked', 'is chunked');

    $a = reply("HTTP/1.0 200 OK\r\nX-A: b\r\n\r\nolder", close => 1);
    is("$a->{version} $a->{body} $a->{whole}", '1.1 older 1',
       'an upstream of HTTP/1.0');

    my $c = Wire->connect($base);
    $c->put("GET /raw/x HTTP/1.0\r\n$auth\r\n");
    my $u = $up->accept;
    is(Wire::names($u->head), 'authorization host via',
       'a client of HTTP/1.0: the same request');
    $u->put("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            . "3\r\nabc\r\n0\r\n\r\n");
    $a = $c->answer;
    is("$a->{body} $a->{whole}", 'abc 1', 'and a body up to the end');
    is(scalar Wire::field($a, 'Transfer-Encoding'), undef, 'not chunked');
}

# Lengths that contradict each other: some versions of nginx take one of them,
# others refuse the answer.  Either way what the client gets has an end, and the
# rest is no part of the next answer (X-34).

for my $case (["Content-Length: 3\r\nContent-Length: 4"],
              ["Content-Length: 3\r\nTransfer-Encoding: chunked"],
              ["Transfer-Encoding: chunked\r\nContent-Length: 3"],
              ["Transfer-Encoding: gzip, chunked"],
              ["Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"])
{
    my $name = $case->[0] =~ s/\r\n/ and /r;
    my ($c, $u) = meet('GET', '/raw/x');
    $u->put("HTTP/1.1 200 OK\r\n$case->[0]\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
            . "HTTP/1.1 200 OK\r\nX-Evil: 1\r\nContent-Length: 4\r\n\r\nevil");

    my $a = $c->answer;
    is($a->{whole}, 1, "$name: the answer has an end");
    problem($a, 502, 'http_protocol_error', $name) if $a->{status} != 200;

    $c->put(request('GET', '/raw/y'));
    my $u2 = $up->accept;
    like($u2 ? $u2->head : '', qr{^GET /y }, "$name: another connection");
    $u2->put("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood");
    is($c->answer->{body}, 'good', "$name: the next answer is its own");
    $_->close for $u, $u2;
}


# --- interim answers ----------------------------------------------------------

my $ok = "HTTP/1.1 200 OK\r\nX-Final: yes\r\nContent-Length: 5\r\n\r\nfinal";

my %interim = (
    '100' => "HTTP/1.1 100 Continue\r\n\r\n",
    '102' => "HTTP/1.1 102 Processing\r\nX-Interim: 1\r\n\r\n",
    '103' => "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n"
             . "Set-Cookie: interim=1\r\nX-Accel-Redirect: /internal/\r\n\r\n",
    '199' => "HTTP/1.1 199 x\r\nConnection: close\r\nContent-Length: 7\r\n"
             . "X-Interim: 1\r\n\r\n",
    'chunked' => "HTTP/1.1 103 x\r\nTransfer-Encoding: chunked\r\n\r\n",
);

my @series = (['100'], ['102'], ['103'], ['199'], ['chunked'],
              ['100', '103'], [('102') x 3, '103', '103', '100'],
              [('103') x 16]);

for my $series (@series) {
    for my $form ('one segment', 'a segment each', 'bytewise') {
        my @parts = ((map { $interim{$_} } @$series), $ok);
        my $name = (@$series > 9 ? "$series->[0] x " . @$series
                                 : join ' ', @$series) . ", $form";

        # by octets only where that is soon done
        next if $form eq 'bytewise' && @$series > 9;

        my ($c, $u) = meet('GET', '/raw/x');

        if ($form eq 'a segment each') {
            for my $part (@parts) {
                $u->put($part);
                select undef, undef, undef, 0.004;
            }
        } else {
            $u->put(join('', @parts), $form);
        }

        my $a = $c->answer;

        is("$a->{status} $a->{body}", '200 final', "$name: the final one");
        is(join(' ', map { $_->[0] } @{ $a->{fields} }),
           'Server Date Content-Length Connection X-Final',
           "$name: and nothing of the others") or diag(fields($a));

        # the same upstream connection, unless it can't be trusted any more

        $c->put(request('GET', '/raw/again'));
        my $u2 = $u;
        my $head = $u->get(qr/\r\n\r\n/, 2);
        if ($head eq '') {
            $u2 = $up->accept(2);
            $head = $u2 ? $u2->head : '';
        }
        like($head, qr{^GET /again }, "$name: the next request");
        $u2->put("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext") if $u2;
        is($c->answer->{body}, 'next', "$name: the next answer is its own");
        $_->close for grep { $_ && $_->{fh} } $u, $u2;
    }
}

for my $case (
    ['103 and 304', 'GET', $interim{103}
     . "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", 304],
    ['103 and a HEAD', 'HEAD', $interim{103} . $ok, 200],
    ['103 and 404', 'GET', $interim{103} . "HTTP/1.1 404 No\r\n"
     . "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", 404],
    ['100 without a request for it and 401', 'GET', $interim{100}
     . "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", 401],
) {
    my ($name, $method, $octets, $status) = @$case;
    my ($a, $c) = reply($octets, method => $method);
    is("$a->{status} $a->{whole}", "$status 1", $name);
    $c->put(request('GET', '/internal/x'));
    is($c->answer->{body}, "internal\n", "$name: not one octet more");
}

for my $form ('burst', 'bytewise') {
    my $a = reply($interim{100} x 17 . $ok, form => $form);
    problem($a, 502, 'http_protocol_error', "17 interim answers, $form");
}

for my $form ('burst', 'bytewise') {
    my $a = reply($interim{103} . "HTTP/1.1 200 OK\r\nX-A: b\r\n$C\x01: v\r\n"
                  . "\r\n", form => $form);
    problem($a, 502, 'http_protocol_error',
               "a malformed line after an interim answer, $form");

    $a = reply("HTTP/1.1 103 x\r\n$C\x01: v\r\n\r\n$ok", form => $form);
    problem($a, 502, 'http_protocol_error',
               "a malformed line in an interim answer, $form");
}

{
    my $a = reply($interim{103}, close => 1);
    like($a->{status}, qr/^502$/, 'an interim answer and no other: 502');
    like(scalar Wire::field($a, 'Proxy-Status'),
         qr/error=(?:http_response_incomplete|connection_terminated);/,
         'the reason is told');

    $a = reply($interim{103} . "SSH-2.0-x\r\n", close => 1);
    problem($a, 502, 'http_protocol_error', 'no HTTP after an interim one');
}

# a body waits for 100 only if the client does; what the upstream says is heard

{
    my ($c, $u) = meet('POST', '/raw/x', 'Content-Length: 4');
    $u->put($interim{100});
    $c->put('body');
    is($u->take(4), 'body', '100 before the body has come: the body goes on');
    $u->put($ok);
    is($c->answer->{body}, 'final', 'and the final answer comes');
    $u->close;
}


# --- trailers -----------------------------------------------------------------

for my $form ('burst', 'bytewise') {
    my ($a, $c) = reply("HTTP/1.1 200 OK\r\nTrailer: X-Trailer, Set-Cookie\r\n"
                        . "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"
                        . "X-Trailer: t\r\nSet-Cookie: t=1\r\n"
                        . "X-Token: $C\r\n\r\n", form => $form);

    is("$a->{body}|$a->{whole}|$a->{trailer}", "abc|1|\r\n",
       "trailers do not reach the client, $form");
    is(join(' ', Wire::field($a, 'Trailer'), Wire::field($a, 'X-Trailer'),
            Wire::field($a, 'Set-Cookie')), '', "nor as fields, $form");

    $c->put(request('GET', '/internal/x'));
    is($c->answer->{body}, "internal\n", "nor as what follows, $form");
}

{
    my ($a) = reply("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                    . "3\r\nabc\r\n0\r\n$C\x01\x02: v\r\n\r\n", close => 1);
    is($a->{status}, 200, 'a malformed trailer with the secret');
}


# --- streams: the client has it before the upstream goes on -------------------

sub chunk { return sprintf "%x\r\n%s\r\n", length $_[0], $_[0] }

for my $case (
    ['an event stream, chunked', 'text/event-stream', \&chunk,
     'Transfer-Encoding: chunked', "0\r\n\r\n"],
    ['an event stream up to the end', 'text/event-stream', sub { $_[0] },
     'X-A: b', undef],
    ['a binary, chunked', 'application/octet-stream', \&chunk,
     'Transfer-Encoding: chunked', "0\r\n\r\n"],
    ['a text of known length', 'text/plain', sub { $_[0] },
     'Content-Length: 40', ''],
    ['one that asks for buffering', 'text/event-stream', \&chunk,
     "Transfer-Encoding: chunked\r\nX-Accel-Buffering: yes", "0\r\n\r\n"],
) {
    my ($name, $type, $frame, $field, $end) = @$case;
    my ($c, $u) = meet('GET', '/raw/events');

    $u->put("HTTP/1.1 200 OK\r\nContent-Type: $type\r\n$field\r\n\r\n");
    like($c->head, qr{^HTTP/1.1 200 }, "$name: the header comes at once");

    for my $n (1 .. 4) {
        my $event = "data: $n\n\n";
        $u->put($frame->($event));
        like($c->get(qr/data: $n\n\n/), qr/\Q$event\E/,
             "$name: piece $n is there before the next is sent");
    }

    defined $end ? $u->put($end) : $u->close;

    $c->put(request('GET', '/internal/x')) if $field !~ /Length/;
    like($c->get(qr/0\r\n\r\n/), qr/0\r\n\r\n$/, "$name: and its end")
        if $field !~ /Length/;
    $u->close;
}

# a dribble, octet by octet, each with a chunk of its own

{
    my ($c, $u) = meet('GET', '/raw/dribble');
    my $got = '';
    $u->put("HTTP/1.1 200 OK\r\nContent-Type: application/x-binary\r\n"
            . "Transfer-Encoding: chunked\r\n\r\n");
    $c->head;

    for my $octet (split //, 'dribble') {
        $u->put(chunk($octet));
        $got .= ($c->get(qr/\r\n.\r\n/) =~ /\r\n(.)\r\n/)[0] // '';
    }

    is($got, 'dribble', 'a dribble: each octet before the next one');
    $u->close;
}

# the same through the gateway, with TLS and HTTP/2

my @curl = ('curl', '-q', '-sSN', '-i', '--suppress-connect-headers',
            '--max-time', 30, '--noproxy', '', '--proxy',
            "http://127.0.0.1:$g->{port}", '--cacert',
            Fixture::dir() . '/ca.pem', '-H', "Authorization: Bearer $P");

for my $http ('--http1.1', '--http2') {
    my $c = Wire->spawn(@curl, $http, 'https://raw.test/events');
    my $u = $up->accept;
    my $head = $u->head;

    like($head, qr/^Authorization: Bearer SECRET\r$/m, "$http: swapped");
    $u->put($interim{100} . $interim{103});
    $u->put("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            . "Alt-Svc: h3=\":443\"\r\nX-Accel-Redirect: /internal/\r\n"
            . "Connection: X-Hop, keep-alive\r\nX-Hop: 1\r\n"
            . "Keep-Alive: timeout=5\r\nTransfer-Encoding: chunked\r\n\r\n");

    # curl writes its header with the first piece of the body
    $u->put(chunk("data: 0\n\n"));
    my $got = $c->get(qr/data: 0\n\n/);
    like($got, $http eq '--http2' ? qr{^HTTP/2 200 } : qr{^HTTP/1.1 200 OK},
         "$http: the final answer");
    unlike($got, qr/^(?:alt-svc|x-accel-redirect|x-hop|keep-alive):/mi,
           "$http: without what is for one hop");

    for my $n (1 .. 4) {
        $u->put(chunk("data: $n\n\n"));
        is($c->get(qr/\n\n/), "data: $n\n\n",
           "$http: event $n is there before the next is sent");
    }

    $u->put("0\r\nX-Trailer: 1\r\n\r\n");
    my ($rest, $how) = $c->rest;
    is("$rest$how", 'eof', "$http: and its end");
    $u->close;
}


# --- clients that leave -------------------------------------------------------

for my $case (['before an answer', ''],
              ['within the header', "HTTP/1.1 200 OK\r\nX-A"],
              ['within the body', "HTTP/1.1 200 OK\r\nContent-Type: x/y\r\n"
                                  . "Content-Length: 9999\r\n\r\nabc"],
              ['within an event stream',
               "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
               . "Transfer-Encoding: chunked\r\n\r\n2\r\n\n\n\r\n"])
{
    my ($when, $octets) = @$case;

    for my $end ('close', 'reset') {
        my ($c, $u) = meet('GET', '/raw/leave');
        $u->put($octets);
        $c->get(qr/abc|2\r\n\n\n/) if $octets =~ /\r\n\r\n/;
        $c->$end;
        is($u->ended, 'eof',
           "a client leaves $when, $end: the upstream sees it");
        $u->close;
    }

    my $c = Wire->spawn(@curl, '--http2', 'https://raw.test/leave');
    my $u = $up->accept;
    $u->head;
    $u->put($octets);
    $c->get(qr/abc|\n\n\n/) if $octets =~ /\r\n\r\n/;
    undef $c;
    is($u->ended, 'eof', "a client leaves $when, HTTP/2: the upstream sees it");
    $u->close;
}

{
    my ($c, $u) = meet('POST', '/raw/leave', 'Content-Length: 100');
    $c->put('half');
    is($u->take(4), 'half', 'half of a body');
    $c->close;
    is($u->ended, 'eof',
       'a client leaves within its body: the upstream sees it');
    $u->close;
}


# --- upgrades -----------------------------------------------------------------

# WebSocket and nothing else (RFC 6455)

my $key = MIME::Base64::encode('sixteen octets..', '');
my $accept = MIME::Base64::encode(
    Digest::SHA::sha1($key . '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'), '');

my @asks = ('Connection: Upgrade', 'Upgrade: websocket',
            "Sec-WebSocket-Key: $key", 'Sec-WebSocket-Version: 13',
            'Sec-WebSocket-Protocol: chat');

sub switch {
    my (@fields) = @_;
    @fields = ('Upgrade: websocket', 'Connection: Upgrade',
               "Sec-WebSocket-Accept: $accept") unless @fields;
    return join("\r\n", 'HTTP/1.1 101 Switching Protocols', @fields)
           . "\r\n\r\n";
}

my $switch = switch();

# where it is off, and where something else is asked for

for my $case (
    ['/raw/ws', 'GET', @asks],
    ['/raw/ws', 'GET', 'Connection: keep-alive, upgrade', 'Upgrade: h2c'],
    ['/raw/ws', 'POST', 'Connection: close', 'Connection: UPGRADE',
     'upgrade: x/1', 'Content-Length: 0'],
    ['/web/ws', 'GET', 'Connection: Upgrade', 'Upgrade: h2c',
     'HTTP2-Settings: AAAA'],
    ['/web/ws', 'GET', @asks[0, 2, 3], 'Upgrade: websocket, h2c'],
    ['/web/ws', 'GET', @asks[0, 2, 3], 'Upgrade: websockets'],
    ['/web/ws', 'GET', @asks, 'Upgrade: websocket'],
    ['/web/ws', 'GET', @asks, 'Upgrade: h2c'],
    ['/web/ws', 'GET', @asks[0, 1, 2]],
    ['/web/ws', 'GET', @asks[0, 1, 3]],
    ['/web/ws', 'GET', @asks[0, 1, 2], 'Sec-WebSocket-Version: 8'],
    ['/web/ws', 'POST', @asks, 'Content-Length: 0'],
) {
    my ($path, $method, @ask) = @$case;
    my $name = "$method $path, " . join ', ', map { s/: .{20}\K.*//r } @ask;
    my $c = Wire->connect($base);
    $c->put(request($method, $path, @ask));
    problem($c->answer, 403, 'upgrade_refused', $name);
    ok($up->untouched, 'and nothing goes upstream');
}

# without Connection it asks for nothing (RFC 9110, 7.8)

for my $path ('/raw/ws', '/web/ws') {
    for my $ask (['Upgrade: websocket'],
                 ['Connection: X-A', 'Upgrade: websocket', 'X-A: b'])
    {
        my ($c, $u, $head) = meet('GET', $path, @$ask);
        is(Wire::names($head), 'authorization host via',
           "$path, Upgrade without Connection: upgrade is dropped");
        $u->put($ok);
        is($c->answer->{body}, 'final', 'and the request served');
        $u->close;
    }

    # and with Connection alone, too

    my ($c, $u, $head) = meet('GET', $path, 'Connection: Upgrade');
    is(Wire::names($head), 'authorization host via',
       "$path, Connection without Upgrade");
    $u->put($ok);
    is($c->answer->{body}, 'final', 'is served');
    $u->close;
}

# both ways, and closed by either side

for my $closer ('client', 'upstream') {
    for my $early ('', 'early ') {
        my $c = Wire->connect($base);
        $c->put(request('GET', '/web/ws?a=1', @asks) . $early);
        my $u = $up->accept;
        my $head = $u->head;
        my $name = "closed by the $closer" . ($early && ', bytes at once');

        is(Wire::names($head),
           'authorization connection host sec-websocket-key '
           . 'sec-websocket-protocol sec-websocket-version upgrade via',
           "$name: the fields");
        like($head, qr/^Sec-WebSocket-Key: \Q$key\E\r$/m, "$name: the key");
        like($head, qr{^GET /ws\?a=1 HTTP/1\.1\r\n}, "$name: the target");
        like($head, qr/^Authorization: Bearer SECRET\r$/m, "$name: swapped");
        like($head, qr/^Upgrade: websocket\r$/m, "$name: the protocol");
        like($head, qr/^Connection: upgrade\r$/mi, "$name: Connection");

        is($u->so_far, '', "$name: nothing of the new protocol before 101");
        $u->put($switch . 'hello');

        my $a = $c->answer;
        is($a->{status}, 101, "$name: 101");
        is(join('|', map { Wire::field($a, $_) } qw(Upgrade Connection
                Sec-WebSocket-Accept)), 'websocket|upgrade|' . $accept,
           "$name: with what belongs to it");
        is($c->take(5), 'hello', "$name: bytes right behind 101");
        is($u->take(length $early), $early, "$name: the early bytes")
            if $early;

        for my $n (1 .. 3) {
            $c->put("c$n\0");
            is($u->take(3), "c$n\0", "$name: from the client, $n");
            $u->put("u$n\0");
            is($c->take(3), "u$n\0", "$name: from the upstream, $n");
        }

        my $big = 'x' x 300_000;
        $u->put($big);
        is(length $c->take(300_000), 300_000, "$name: a big piece");

        my ($from, $to) = $closer eq 'client' ? ($c, $u) : ($u, $c);
        $from->put('bye');
        $from->close;
        my ($rest, $how) = $to->rest;
        is("$rest $how", 'bye eof', "$name: the last bytes and the end");
        $to->close;
    }
}

like(completion('/ws'), qr/^101 101 allowed$/, 'the record of an upgrade');

# through the gateway, with TLS

{
    my $c = Wire->tls($g->{port}, 'web.test');
    $up->drain;
    $c->put(request('GET', '/ws', @asks) =~ s/a\.test/web.test/r);
    my $u = $up->accept;
    my $head = $u->head;
    like($head, qr/^Authorization: Bearer SECRET\r$/m, 'TLS: swapped');
    like($head, qr/^Upgrade: websocket\r$/m, 'TLS: the upgrade is asked for');
    $u->put($switch . 'hello');
    is($c->answer->{status}, 101, 'TLS: 101');
    is($c->take(5), 'hello', 'TLS: bytes right behind it');
    $c->put('from the client');
    is($u->take(15), 'from the client', 'TLS: the other way');
    $u->close;
    is($c->ended, 'eof', 'TLS: and its end');

    $c = Wire->tls($g->{port}, 'raw.test');
    $c->put(request('GET', '/ws', @asks) =~ s/a\.test/raw.test/r);
    problem($c->answer, 403, 'upgrade_refused', 'TLS, upgrade off');
    ok($up->untouched, 'TLS: and nothing goes upstream');
}

# answers that are no 101

for my $case (['200 OK', 'no'], ['403 Forbidden', 'no'],
              ["426 Upgrade Required\r\nUpgrade: x/2", 'no'])
{
    my ($line, $body) = @$case;
    my ($c, $u) = meet('GET', '/web/ws', @asks);
    $u->put("HTTP/1.1 $line\r\nContent-Length: 2\r\n\r\n$body");
    my $a = $c->answer;
    is("$a->{status} $a->{body} $a->{whole}", substr($line, 0, 3) . ' no 1',
       "an upgrade is answered $line: passed as it is");
    $c->put('octets of a protocol that was not agreed on');
    is($u->so_far, '', 'and nothing is tunnelled');
    $u->close;
    $c->close;
}

# 100 and 103 before it

{
    my ($c, $u) = meet('GET', '/web/ws', @asks);
    $u->put($interim{103} . $interim{100} . $switch . 'hello');
    my $a = $c->answer;
    is($a->{status}, 101, '103, 100 and 101: 101');
    is($c->take(5), 'hello', 'and the bytes behind it');
    $c->put('x');
    is($u->take(1), 'x', 'both ways');
    $u->close;
    is($c->ended, 'eof', 'and its end');
}

# 101 that does not answer what was asked (RFC 6455, 4.1)

for my $fields (
    ['Upgrade: websocket', 'Connection: Upgrade'],
    ['Upgrade: websocket', 'Connection: Upgrade', 'Sec-WebSocket-Accept: x'],
    ['Upgrade: websocket', 'Connection: Upgrade',
     'Sec-WebSocket-Accept: ' . lc $accept],
    ['Upgrade: h2c', 'Connection: Upgrade', "Sec-WebSocket-Accept: $accept"],
    ['Connection: Upgrade', "Sec-WebSocket-Accept: $accept"],
    ['Upgrade: websocket', 'Upgrade: h2c', 'Connection: Upgrade',
     "Sec-WebSocket-Accept: $accept"],
) {
    my $name = join ', ', map { s/: .{20}\K.*//r } @$fields;
    my ($c, $u) = meet('GET', '/web/ws', @asks);
    $u->put(switch(@$fields) . 'octets of the upstream');
    my $a = $c->answer;
    problem($a, 502, 'http_upgrade_failed', "101 with $name");
    is($u->ended, 'eof', 'the upstream connection is closed');
    unlike($c->so_far, qr/octets/, 'nothing is tunnelled');
    $u->close;
}

# 101 that nobody asked for (O-07)

for my $case (['off', '/raw/x', []], ['on', '/web/x', []],
              ['on, Upgrade only', '/web/x', ['Upgrade: websocket']],
              ['on, Connection only', '/web/x', ['Connection: upgrade']])
{
    my ($state, $path, $more) = @$case;

    for my $form ('burst', 'bytewise') {
        my ($c, $u) = meet('GET', $path, @$more);
        $u->put($switch . "octets of the upstream", $form);
        my $a = $c->answer;
        problem($a, 502, 'http_upgrade_failed',
                   "101 unasked, upgrade $state, $form");
        like(scalar Wire::field($a, 'Proxy-Status'),
             qr/error=http_upgrade_failed/, 'with its error');
        is($u->ended, 'eof', 'the upstream connection is closed');
        $u->close;

        # nothing is tunnelled: what the client sends is its next request

        $c->put(request('GET', '/internal/x'));
        my $next = $c->answer;
        ok(($next->{status} // '') eq ''
           || $next->{body} eq "internal\n", 'nothing is tunnelled');
        unlike($c->so_far . ($next->{body} // ''), qr/octets/,
               'not to the client either');
    }
}

for my $http ('--http1.1', '--http2') {
    my $c = Wire->spawn(@curl, $http, 'https://raw.test/unasked');
    my $u = $up->accept;
    $u->head;
    $u->put("${switch}octets");
    my $got = $c->rest;
    like($got, qr/^proxy-status: egress-1; error=http_upgrade_failed/mi,
         "101 unasked, $http");
    unlike($got, qr/octets/, 'nothing of it comes through');
    is($u->ended, 'eof', 'and the connection is closed');
    $u->close;
}


# --- the end ------------------------------------------------------------------

ok($up->untouched, 'nothing was sent that was not looked at');
is(Wire::leaks(), 0, 'the secret reached no client');
is(join('', $g->stop), '', 'it stands in no log, and there are no alarms');

done_testing;
