# How inspected bodies are read: DESIGN 6.4, security R-14, X-06
#
# Client and upstream are both this test: see Wire.

use strict;
use warnings;

use lib 't/fixture';
use Fixture;
use Stream;
use Test::More;
use Wire;

my $P = $ENV{TEST_NGINX_PLACEHOLDER};
my $C = $ENV{TEST_NGINX_CANARY};

my $up = Wire->listen;
my $port = $up->port;
my ($base, $h2) = (Fixture::free_port(), Fixture::free_port());

# what a worker may read is in the group of its user, or belongs to it

my $live = Fixture::dir() . '/live';
my $gid = $> == 0 ? (getpwnam 'www-data')[3] : $) + 0;

mkdir $live or die "$live: $!";
Fixture::write_file("$live/secret", "$C\n", 0640);
chown -1, $gid, $live, "$live/secret";
chmod 0750, $live;

my $rules = 'read POST = /graphql graphql; read POST = /mcp json_rpc;';

my $g = Stream->start(http2 => 'http2', egress => <<"EGRESS", http => <<"HTTP");
    secret_check 0;
    binding raw {
        hosts raw.test;
        upstream http://127.0.0.1:$port;
        secret $live/secret;
        placeholder $P;
        $rules
    }
EGRESS
    server {
        listen 127.0.0.1:$base;
        client_body_timeout 2s;
        location /api/ { egress_pass raw; }
        location /page/ { return 200 "page\\n"; }
    }
    server {
        listen 127.0.0.1:$h2 http2;
        location /api/ { egress_pass raw; }
    }
HTTP

my $auth = "Authorization: Bearer $P";
my $ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
my $query = '{"query":"query A{viewer{login}}"}';
my $mutation = '{"query":"mutation A{a{b}}","x":1}';

my @curl = ('curl', '-sS', '-m', 30, '--cacert',
            Fixture::dir() . '/ca.pem', '--proxy',
            "http://127.0.0.1:$g->{port}", '--http2', '-H', $auth);

sub request {
    my ($line, @more) = @_;
    return join("\r\n", "$line HTTP/1.1", 'Host: a.test', $auth, @more)
           . "\r\n\r\n";
}

sub value {
    my ($head, $name) = @_;
    return join '|', $head =~ /^\Q$name\E: *(.*?)\r$/mig;
}

sub curl {
    my ($play, @args) = @_;
    $up->drain;
    my $c = Wire->spawn(@curl, @args);
    $play->($c) if $play;
    return scalar $c->rest(40);
}

# an answer that refuses, with nothing at the upstream

sub refused {
    my ($c, $status, $reason, $name) = @_;
    my $a = $c->answer;
    is($a->{status}, $status, "$name: $status");
    like(scalar(Wire::field($a, 'Proxy-Status')) // '',
         qr/details="$reason: /, "$name: $reason");
    ok($up->untouched, "$name: nothing goes upstream");
    return $a;
}

# a request that has arrived, whole, and is answered

sub arrived {
    my ($c, $body, $name) = @_;
    my $u = $up->accept or return fail("$name: nothing arrived");
    my $head = $u->head;
    is(value($head, 'Content-Length'), length $body, "$name: its length");
    is(value($head, 'Transfer-Encoding'), '', "$name: and no other framing");
    is(value($head, 'Authorization'), 'Bearer SECRET', "$name: the secret");
    is($u->take(length $body), $body, "$name: octet by octet what was sent");
    $u->put($ok);
    is($c->answer->{status}, 200, "$name: answered") if $c;
    $u->close;
}

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

sub chunked {
    return join('', map { sprintf("%x\r\n%s\r\n", length $_, $_) } @_)
           . "0\r\n\r\n";
}


# --- framing ------------------------------------------------------------------

for my $form ('', 'bytewise') {
    my $how = $form || 'at once';
    my $length = 'Content-Length: ' . length $query;

    my $c = Wire->connect($base);
    $c->put(request('POST /api/graphql', $length) . $query, $form);
    arrived($c, $query, "$how");

    # the connection goes on where the body ended

    $c->put(request('POST /api/graphql', $length) . $mutation, $form);
    refused($c, 403, 'write_refused', "$how: a mutation");

    $c->put(request('POST /api/graphql', 'Transfer-Encoding: chunked')
            . chunked($query =~ /(.{1,5})/g), $form);
    arrived($c, $query, "$how, chunked");

    $c->put(request('POST /api/graphql', 'Transfer-Encoding: chunked')
            . chunked($mutation =~ /(.{1,5})/g), $form);
    refused($c, 403, 'write_refused', "$how, chunked: a mutation");

    $c->put(request('GET /page/'));
    is($c->answer->{body}, "page\n", "$how: the next request");
    $c->close;
}

# nothing goes upstream before all of it has been judged

{
    my $c = Wire->connect($base);
    $c->put(request('POST /api/graphql',
                    'Content-Length: ' . length $query));
    $c->put(substr $query, 0, -1);
    select undef, undef, undef, 0.1;
    ok($up->untouched, 'not before its last octet');
    $c->put(substr $query, -1);
    arrived($c, $query, 'then');
    $c->close;
}

# large: more than nginx's own buffer, by both framings, and over HTTP/2

for my $size (20_000, 300_000, 1_000_000) {
    my $long = '{"query":"query A{viewer{login}}","variables":{"x":"'
               . join('', map { chr(97 + $_ % 26) } 1 .. $size) . '"}}';

    my $c = Wire->connect($base);
    $c->put(request('POST /api/graphql', 'Content-Length: ' . length $long)
            . $long);
    arrived($c, $long, "$size octets");

    $c->put(request('POST /api/graphql', 'Transfer-Encoding: chunked')
            . chunked($long =~ /(.{1,7000})/sg));
    arrived($c, $long, "$size octets, chunked");
    $c->close;

    my $file = Fixture::write_file("body.$size", $long);

    for my $how (['--data-binary', "\@$file"], ['-X', 'POST', '-T', $file],
                 ['-X', 'POST', '-T', '-'])
    {
        my $name = "$size octets, HTTP/2, @$how[0 .. $#$how - 1]";

        my $got = curl(sub {
            my ($w) = @_;
            if ($how->[-1] eq '-') {
                $w->put($long);
                $w->finish;
            }
            arrived(undef, $long, $name);
        }, @$how, 'https://raw.test/graphql');

        is($got, 'ok', "$name: answered");
    }
}

for my $how (['-d', $mutation], ['-X', 'POST', '-T', '-']) {
    my $got = curl(sub {
        my ($w) = @_;
        $w->put($mutation) if $how->[-1] eq '-';
        $w->finish;
    }, @$how, '-o', '/dev/null', '-w', '%{http_code}',
       'https://raw.test/graphql');

    is($got, 403, "HTTP/2, $how->[0]: a mutation is refused");
    ok($up->untouched, 'and does not arrive');
}


# --- Expect -------------------------------------------------------------------

{
    my $c = Wire->connect($base);
    $c->put(request('POST /api/graphql', 'Expect: 100-continue',
                    'Content-Length: ' . length $query));
    is($c->head, "HTTP/1.1 100 Continue\r\n\r\n", 'Expect: 100 first');
    $c->put($query);
    arrived($c, $query, 'Expect');
    $c->close;

    $c = Wire->connect($base);
    $c->put(request('POST /api/graphql', 'Expect: 100-continue',
                    'Content-Encoding: gzip', 'Content-Length: 9'));
    refused($c, 415, 'body_unsupported', 'Expect, without 100');
    $c->close;

    $c = Wire->connect($base);
    $c->put(request('POST /api/graphql', 'Expect: 100-continue',
                    'Content-Length: 1048577'));
    refused($c, 413, 'body_too_large', 'Expect, too large, without 100');
    $c->close;
}


# --- bodies that do not come --------------------------------------------------

{
    my $c = Wire->connect($base);
    $c->put(request('POST /api/graphql', 'Content-Length: 100') . '{"query"');
    is(scalar $c->rest, '', 'a body that stops: closed');
    $c->close;

    my ($r) = grep { $_->{reason} eq 'malformed_request' } $g->audit;
    is($r->{decision} // '', 'deny', 'a body that stops: has its record');
    is($r->{status}, 408, 'with its status');
    ok($up->untouched, 'and nothing goes upstream');

    $c = Wire->connect($base);
    $c->put(request('POST /api/graphql', 'Transfer-Encoding: chunked')
            . "zz\r\n");
    refused($c, 400, 'malformed_request', 'chunks that are none');
    $c->close;

    for my $way (qw(close reset finish)) {
        $c = Wire->connect($base);
        $c->put(request('POST /api/graphql',
                        'Content-Length: ' . (1 + length $query)) . $query);
        $c->$way;
        $c->rest if $way eq 'finish';
        ok($up->untouched, "a client that leaves ($way)");
    }

    # the worker is as it was

    $c = Wire->connect($base);
    $c->put(request('POST /api/graphql', 'Content-Length: ' . length $query)
            . $query);
    arrived($c, $query, 'after those');
    $c->close;
}


# --- a secret that goes while the body comes ----------------------------------

{
    my $c = Wire->connect($base);
    $c->put(request('POST /api/graphql', 'Content-Length: ' . length $query)
            . substr $query, 0, 5);
    select undef, undef, undef, 0.1;
    rename "$live/secret", "$live/gone" or die "rename: $!";
    $c->put(substr $query, 5);
    refused($c, 403, 'credential_missing', 'the secret is gone');
    rename "$live/gone", "$live/secret" or die "rename: $!";
    $c->close;
}


# --- memory -------------------------------------------------------------------

# what a client announces costs nothing, what it sends does

{
    my $before = rss();
    my @all;

    for my $field ('Content-Length: 1048576', 'Transfer-Encoding: chunked') {
        for (1 .. 100) {
            my $c = Wire->connect($base);
            $c->put(request('POST /api/graphql', $field)
                    . ($field =~ /chunked/ ? "fffff\r\n{" : '{'));
            push @all, $c;
        }
    }

    select undef, undef, undef, 0.3;

    my $growth = rss() - $before;
    ok($growth < 16 * 1024, '200 bodies of a MiB that were only announced')
        or diag("grown by $growth KiB");
    note("200 bodies that were only announced: $growth KiB");

    $_->close for @all;
}

# one HTTP/2 connection with as many streams as nginx lets it have, each with
# the first octet of a body of unknown length

sub frame {
    my ($type, $flags, $stream, $data) = @_;
    return substr(pack('N', length $data), 1) . pack('CCN', $type, $flags, $stream) . $data;
}

sub field { return "\0" . join '', map { chr(length) . $_ } @_ }

{
    my $before = rss();

    my $head = join '', map { field(@$_) }
               [':method', 'POST'], [':scheme', 'http'], [':path', '/api/graphql'],
               [':authority', 'a.test'], ['authorization', "Bearer $P"];

    my $c = Wire->connect($h2);
    $c->put("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" . frame(4, 0, 0, ''));

    for my $n (0 .. 127) {
        my $stream = 2 * $n + 1;
        $c->put(frame(1, 4, $stream, $head) . frame(0, 0, $stream, '{'));
    }

    select undef, undef, undef, 0.5;

    my $growth = rss() - $before;
    ok($growth < 16 * 1024, '128 streams with a body of unknown length')
        or diag("grown by $growth KiB");
    note("128 streams with a body of unknown length: $growth KiB");
    ok($up->untouched, 'nothing of them goes upstream');

    # they are bodies that are being read: one of them goes on

    $c->put(frame(0, 1, 255, substr $query, 1));
    arrived(undef, $query, 'one of 128 streams');
    $c->close;
}

# 16 MiB a sandbox, then 503; once they are gone it works again

{
    my @all;
    my $long = '{"query":"{a}","x":"' . 'y' x (1048576 - 22) . '"}';

    for (1 .. 15) {
        my $c = Wire->connect($base);
        $c->put(request('POST /api/graphql', 'Content-Length: 1048576')
                . substr $long, 0, -1);
        push @all, $c;
    }

    select undef, undef, undef, 0.3;

    my ($over, $c);

    for (1 .. 3) {
        $c = Wire->connect($base);
        $c->put(request('POST /api/graphql', 'Content-Length: 1048576')
                . substr $long, 0, -1);
        push @all, $c;

        if ($c->readable(0.5)) {
            $over = $_;
            last;
        }
    }

    is($over, 2, 'the 17th MiB is one too many');
    refused($c, 503, 'limit_reached', 'it');

    # those that are there go on

    $all[0]->put(substr $long, -1);
    arrived($all[0], $long, 'one of them');

    $_->close for @all;
    select undef, undef, undef, 0.1;

    $c = Wire->connect($base);
    $c->put(request('POST /api/graphql', 'Content-Length: 1048576') . $long);
    arrived($c, $long, 'after them');
    $c->close;
}

is(Wire::leaks(), 0, 'no client has seen the secret');

$g->stop;

done_testing();
