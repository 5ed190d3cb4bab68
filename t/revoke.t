# Access that is cut off reaches what is open: DESIGN 6.9; security T-10, A-08,
# T-04
#
# Client and upstream are both this test: see Wire.  What is to be closed is
# waited for much longer than the 5 s of the promise.

use strict;
use warnings;

use lib 't/fixture';
use Digest::SHA qw(sha256_hex);
use Fixture;
use IO::Socket::INET;
use JSON::PP;
use MIME::Base64;
use POSIX ();
use Stream;
use Test::More;
use Time::HiRes qw(sleep time);
use Wire;

my $P = $ENV{TEST_NGINX_PLACEHOLDER};
my $C = $ENV{TEST_NGINX_CANARY};
my $dir = Fixture::dir();
my $boxes = "$dir/sandboxes";
my $json = JSON::PP->new->utf8->canonical;
my $token = Fixture::random(30);
my $sha = sha256_hex($token);
my $gid = $> == 0 ? (getpwnam 'www-data')[3] : $) + 0;

mkdir $boxes;
chmod 0755, $boxes;

# what a worker may read is in the group of its user; renamed into its place

sub put_file {
    my ($path, $text) = @_;
    Fixture::write_file("$path.new", $text, 0640);
    chown -1, $gid, "$path.new";
    rename "$path.new", $path or die "$path: $!";
}

sub sandbox {
    my ($id, %fields) = @_;
    put_file("$boxes/$id.json",
             $json->encode({ token_sha256 => $sha, %fields }));
}

sub ban { unlink "$boxes/$_[0].json" or die "$_[0]: $!" }

my $live = "$dir/live";
mkdir $live;
chown -1, $gid, $live;
chmod 0750, $live;
put_file("$live/secret", "$C\n");
put_file("$live/old", "$C-old\n");

my $up = Wire->listen;
my $port = $up->port;
my $deaf = IO::Socket::INET->new(Proto => 'udp', LocalAddr => '127.0.0.1')
    or die "socket: $!";
my $base = Fixture::free_port();

my $egress = <<"CONF";
    sandboxes $boxes;
    secret_check 0;
    resolver 127.0.0.1:@{[$deaf->sockport]};
    resolver_timeout 60s;
    binding raw {
        hosts raw.test;
        upstream http://127.0.0.1:$port;
        secret $live/secret;
        placeholder $P;
        upgrade on;
        read POST = /graphql graphql;
        access write;
    }
    binding old {
        hosts old.test;
        upstream http://127.0.0.1:$port;
        secret $live/old;
        placeholder $P;
        ttl 1h;
    }
    binding deaf { hosts deaf.test; }
    role default {
        use raw deaf old;
        allow_cidr 127.0.0.1:$port;
        allow_private 127.0.0.1;
    }
    role other { use raw; }
CONF

my $http = <<"CONF";
    map \$http_x_box \$box { default ""; "~^(?<b>.+)\$" \$b; }
    server {
        listen 127.0.0.1:$base;
        egress_sandbox \$box;
        proxy_read_timeout 60s;
        client_body_timeout 60s;
        keepalive_timeout 60s;
        location /raw/ { egress_pass raw; }
        location /old/ { egress_pass old; }
        location /deaf/ { egress_pass deaf; }
    }
CONF

my %conf = (http2 => 'http2', egress => $egress, http => $http,
            preread_timeout => '60s');

my $g = Stream->start(%conf);

my $auth = "Authorization: Bearer $P";
my $ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
my $events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

sub request {
    my ($line, @more) = @_;
    return join("\r\n", "$line HTTP/1.1", 'Host: raw.test', $auth, @more)
           . "\r\n\r\n";
}

# a connection through the gateway to the terminator, with TLS

sub tunnel {
    my ($id) = @_;
    return Wire->spawn('openssl', 's_client', '-quiet', '-proxy',
                       "127.0.0.1:$g->{port}", '-proxy_user', $id,
                       '-proxy_pass', "pass:$token", '-connect',
                       'raw.test:443', '-servername', 'raw.test',
                       '-verify_return_error', '-CAfile', "$dir/ca.pem");
}

# a connection that is passed through

sub passed {
    my ($id, $how, %opt) = @_;

    my $c = Wire->connect($g->{port}, %opt);

    if ($how eq 'socks5') {
        $c->put("\x05\x01\x02");
        $c->take(2);
        $c->put(pack('C C/a* C/a*', 1, $id, $token));
        $c->take(2);
        $c->put(pack('C4 a4 n', 5, 1, 0, 1, "\x7f\0\0\1", $port));
        $c->take(10);

    } else {
        $c->put("CONNECT 127.0.0.1:$port HTTP/1.1\r\n"
                . 'Proxy-Authorization: Basic '
                . encode_base64("$id:$token", '') . "\r\n\r\n");
        $c->head;
    }

    return ($c, $up->accept);
}

# the other side ends within any sensible time

sub closed {
    my ($c, $name) = @_;
    my (undef, $how) = $c->rest(8);
    isnt($how, 'timeout', "$name: closed");
    $c->close;
}

sub goes_on {
    my ($c, $u, $name) = @_;
    $u->put("data: more\n\n");
    like($c->get(qr/data: more\n\n/), qr/data: more\n\n/, "$name: goes on");
}

sub records {
    my (%want) = @_;
    return grep { my $r = $_;
                  !grep { ($r->{$_} // '') ne $want{$_} } keys %want }
           $g->audit;
}

sub recorded {
    my ($name, %want) = @_;
    for (1 .. 150) {
        last if records(%want);
        sleep 0.02;
    }
    ok(scalar records(%want), "$name: its record");
}

my $n = 0;
sub fresh { my $id = 'box' . ++$n; sandbox($id, @_); return $id }

# one that nothing happens to, with an event stream of its own

sandbox('bystander');
my $by = Wire->connect($base);
$by->put(request('GET /raw/by', 'X-Box: bystander'));
my $by_up = $up->accept;
$by_up->head;
$by_up->put($events);
$by->head;
goes_on($by, $by_up, 'another sandbox');


# --- the next request -----------------------------------------------------------

my $refused;

for (1 .. 5) {
    my $id = fresh();
    my $c = tunnel($id);

    $c->put(request('GET /one'));
    my $u = $up->accept;
    $u->head;
    $u->put($ok);
    $c->answer;

    ban($id);
    $c->put(request('GET /two'));
    $refused = $c->answer;
    $u->close;

    # the timer may have been there first
    last if $refused->{status};
}

is($refused->{status}, 403, 'a request on an open connection: 403');
like(scalar Wire::field($refused, 'Proxy-Status'),
     qr/^egress-1; error=http_request_denied; details="sandbox_revoked: /,
     'sandbox_revoked');
is(scalar Wire::field($refused, 'Connection'), 'close', 'and it is closed');
recorded('refused', reason => 'sandbox_revoked', decision => 'deny');

$up->drain;


# --- what is open ---------------------------------------------------------------

# each of these opens something for the sandbox and returns what has to end

my %open = (

    'an idle connection' => sub {
        my $c = tunnel($_[0]);
        $c->put(request('GET /idle'));
        my $u = $up->accept;
        $u->head;
        $u->put($ok);
        is($c->answer->{body}, 'ok', 'idle: one request');
        $u->close;
        return $c;
    },

    'an idle connection to a base URL' => sub {
        my $c = Wire->connect($base);
        $c->put(request('GET /raw/idle', "X-Box: $_[0]"));
        my $u = $up->accept;
        $u->head;
        $u->put($ok);
        is($c->answer->{body}, 'ok', 'idle: one request');
        $u->close;
        return $c;
    },

    'a request without an answer' => sub {
        my $c = tunnel($_[0]);
        $c->put(request('GET /slow'));
        my $u = $up->accept;
        $u->head;
        return ($c, $u);
    },

    'a half-sent answer' => sub {
        my $c = tunnel($_[0]);
        $c->put(request('GET /half'));
        my $u = $up->accept;
        $u->head;
        $u->put("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it");
        $c->get(qr/half of it/);
        return ($c, $u);
    },

    'an event stream' => sub {
        my $c = Wire->connect($base);
        $c->put(request('GET /raw/events', "X-Box: $_[0]"));
        my $u = $up->accept;
        $u->head;
        $u->put($events . "data: 1\n\n");
        $c->get(qr/data: 1/);
        return ($c, $u);
    },

    'a request whose body is coming' => sub {
        my $c = Wire->connect($base);
        $c->put(request('POST /raw/upload', "X-Box: $_[0]",
                        'Content-Length: 1000') . 'a part');
        my $u = $up->accept;
        $u->head;
        return ($c, $u);
    },

    'a body that is inspected' => sub {
        my $c = tunnel($_[0]);
        $c->put(request('POST /graphql', 'Content-Length: 1000')
                . '{"query":');
        return $c;
    },

    'a wait for the resolver' => sub {
        my $c = Wire->connect($base);
        $c->put(request('GET /deaf/x', "X-Box: $_[0]"));
        return $c;
    },

    'a client that reads nothing' => sub {
        my $c = Wire->connect($base, window => 4096);
        $c->put(request('GET /raw/much', "X-Box: $_[0]"));
        my $u = $up->accept;
        $u->head;
        $u->put("HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n"
                . "Content-Length: 100000000\r\n\r\n");
        1 while $u->writable(0.3) && $u->push('x' x 65536);
        return ($u, $c);
    },

    'a WebSocket' => sub {
        my $c = tunnel($_[0]);
        $c->put(request('GET /ws', 'Connection: Upgrade',
                        'Upgrade: websocket', 'Sec-WebSocket-Version: 13',
                        'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='));
        my $u = $up->accept;
        $u->head;
        $u->put("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                . "Connection: Upgrade\r\nSec-WebSocket-Accept: "
                . "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n");
        $c->head;
        $c->put("\x81\x01a");
        is($u->take(3), "\x81\x01a", 'a WebSocket: one way');
        $u->put("\x81\x01b");
        is($c->take(3), "\x81\x01b", 'a WebSocket: the other way');
        return ($c, $u);
    },

    'HTTP/2 streams' => sub {
        my $c = Wire->spawn('curl', '-q', '-sS', '-m', 30, '-N', '--http2',
                            '--parallel', '--cacert', "$dir/ca.pem", '--proxy',
                            "http://127.0.0.1:$g->{port}", '-U',
                            "$_[0]:$token", '-H', $auth,
                            map { "https://raw.test/$_" } 1 .. 3);
        my @u;
        for (1 .. 3) {
            my $u = $up->accept or last;
            $u->head;
            $u->put($events . "data: $_\n\n");
            push @u, $u;
        }
        is(scalar @u, 3, 'HTTP/2: three streams');
        $c->get(qr/data: .*data: .*data: /s);
        return ($c, @u);
    },

    'a tunnel' => sub {
        my ($c, $u) = passed($_[0], 'connect');
        $c->put('there');
        is($u->take(5), 'there', 'a tunnel: one way');
        $u->put('back');
        is($c->take(4), 'back', 'a tunnel: the other way');
        return ($c, $u);
    },

    'a tunnel by SOCKS5' => sub {
        my ($c, $u) = passed($_[0], 'socks5');
        $c->put('there');
        is($u->take(5), 'there', 'SOCKS5: one way');
        return ($c, $u);
    },

    'a tunnel with one end closed' => sub {
        my ($c, $u) = passed($_[0], 'connect');
        $c->put('there');
        $u->take(5);
        $u->finish;

        # the client has an end of the answer at once: this end tells

        return ($u, $c);
    },

    'a tunnel whose client reads nothing' => sub {
        my ($c, $u) = passed($_[0], 'connect', window => 4096);
        1 while $u->writable(0.3) && $u->push('x' x 65536);
        return ($u, $c);
    },

    'a tunnel without a ClientHello' => sub {
        my $c = Wire->connect($g->{port});
        $c->put("CONNECT raw.test:443 HTTP/1.1\r\nProxy-Authorization: Basic "
                . encode_base64("$_[0]:$token", '') . "\r\n\r\n");
        $c->head;
        return $c;
    },

    'a handshake that stops' => sub {
        my $c = Wire->connect($g->{port});
        $c->put("CONNECT raw.test:443 HTTP/1.1\r\nProxy-Authorization: Basic "
                . encode_base64("$_[0]:$token", '') . "\r\n\r\n");
        $c->head;
        $c->put(Stream::hello('raw.test'));
        $c->get(qr/^\x16/);
        return $c;
    },
);

# all at once, and of one worker: a second each would be long

my @ends;
my %id;

for my $name (sort keys %open) {
    $id{$name} = fresh();
    push @ends, map { [$name, $_] } $open{$name}->($id{$name});
}

ban($_) for values %id;

closed($_->[1], $_->[0]) for @ends;

goes_on($by, $by_up, 'another sandbox');

for (['a request without an answer', 'completion', 'allow'],
     ['a half-sent answer', 'completion', 'allow'],
     ['an event stream', 'completion', 'allow'],
     ['a request whose body is coming', 'completion', 'allow'],
     ['a body that is inspected', 'decision', 'deny'],
     ['a wait for the resolver', 'decision', 'deny'],
     ['a client that reads nothing', 'completion', 'allow'],
     ['a WebSocket', 'completion', 'allow'],
     ['HTTP/2 streams', 'completion', 'allow'],
     ['a tunnel', 'completion', 'allow'],
     ['a tunnel by SOCKS5', 'completion', 'allow'],
     ['a tunnel with one end closed', 'completion', 'allow'],
     ['a tunnel whose client reads nothing', 'completion', 'allow'],
     ['a tunnel without a ClientHello', 'connection', 'deny'])
{
    my ($name, $event, $decision) = @$_;
    recorded($name, event => $event, decision => $decision,
             reason => 'sandbox_revoked', sandbox => $id{$name});
}

like($g->log('error.log'),
     qr/\[notice\].*sandbox "$id{'a half-sent answer'}" was removed or changed: 2 connections and requests closed/,
     'the error log names the sandbox and tells how many');

for my $id (sort values %id) {
    my $c = Wire->connect($base);
    $c->put(request('GET /raw/x', "X-Box: $id"));
    like(scalar Wire::field($c->answer, 'Proxy-Status'),
         qr/details="sandbox_unknown: /, "$id: new ones are refused");
    last;
}

$up->drain;


# --- a file that is there again ---------------------------------------------------

{
    my $id = $id{'a tunnel'};

    sandbox($id);
    my ($c, $u) = passed($id, 'connect');
    $c->put('there');
    is($u->take(5), 'there', 'there again: let in again');

    # the same words in another file change nothing

    sandbox($id);
    sleep 2.5;
    $c->put('still');
    is($u->take(5), 'still', 'written once more as it was: it goes on');

    # while somebody writes it, truncated first, it is as it was

    my $kept = 0;
    for (1 .. 5) {
        my $x = fresh();
        my $k = Wire->connect($base);
        my $one = sub {
            $k->put(request('GET /raw/x', "X-Box: $x"));
            my $w = $up->accept(2);
            if ($w) { $w->head; $w->put($ok); $w->close }
            return $k->answer->{status} // 0;
        };
        $one->();
        open my $fh, '>', "$boxes/$x.json";
        $kept = $one->();
        ban($x);
        last if $kept == 200;
    }
    is($kept, 200, 'an empty file, for a moment: as it was');

    # another role

    sandbox($id, role => 'other');
    closed($c, 'another role');
    closed($u, 'another role, upstream');

    my $s = Wire->connect($g->{port});
    $s->put("CONNECT 127.0.0.1:$port HTTP/1.1\r\nProxy-Authorization: Basic "
            . encode_base64("$id:$token", '') . "\r\n\r\n");
    like($s->head, qr/^HTTP\/1\.1 403 /, 'and it is the one that counts');

    # a file that is not accepted any more

    my $x = fresh();
    ($c, $u) = passed($x, 'connect');
    sandbox($x, colour => 'red');
    closed($c, 'a file that became bad');
    $u->close;

    my $y = fresh();
    ($c, $u) = passed($y, 'connect');
    chmod 0666, "$boxes/$y.json";
    closed($c, 'a file that others may write to');
    $u->close;
}


# --- expires ------------------------------------------------------------------------

{
    my $id = fresh(expires => POSIX::strftime('%Y-%m-%dT%H:%M:%SZ',
                                              gmtime(time + 4)));
    my ($c, $u) = passed($id, 'connect');
    $c->put('there');
    is($u->take(5), 'there', 'before its end');

    my $k = tunnel($id);
    $k->put(request('GET /events'));
    my $w = $up->accept;
    $w->head;
    $w->put($events . "data: 1\n\n");
    $k->get(qr/data: 1/);

    $Wire::Patience = 14;
    my (undef, $how) = $c->rest(14);
    isnt($how, 'timeout', 'expired: the tunnel is closed');
    closed($k, 'expired, an event stream');
    closed($w, 'expired, its upstream');

    recorded('expired', event => 'completion', reason => 'sandbox_expired',
             sandbox => $id, via => 'connect');
    like($g->log('error.log'), qr/sandbox "$id" has expired: /,
         'the error log');

    my $s = Wire->connect($base);
    $s->put(request('GET /raw/x', "X-Box: $id"));
    like(scalar Wire::field($s->answer, 'Proxy-Status'),
         qr/details="sandbox_expired: /, 'expired: new ones are refused');
    $u->close;
}

goes_on($by, $by_up, 'another sandbox');


# --- secrets ------------------------------------------------------------------------

{
    my $stream = sub {
        my ($path) = @_;
        my $c = Wire->connect($base);
        $c->put(request("GET $path", 'X-Box: bystander'));
        my $u = $up->accept;
        $u->head;
        $u->put($events . "data: 1\n\n");
        $c->get(qr/data: 1/);
        return ($c, $u);
    };

    my ($c, $u) = $stream->('/raw/events');
    my ($oc, $ou) = $stream->('/old/events');

    # a new value is no reason

    put_file("$live/secret", "$C\n");
    sleep 2.2;
    goes_on($c, $u, 'a secret that was written once more');

    unlink "$live/secret";
    closed($c, 'without the secret');
    closed($u, 'without the secret, upstream');
    closed($by, 'without the secret, another request');
    recorded('without the secret', event => 'completion',
             reason => 'credential_missing', path => '/events');
    goes_on($oc, $ou, 'a request with another secret');

    like($g->log('error.log'),
         qr/\[notice\].*secret "\S+secret" may not be used any more: 2 requests closed/,
         'the error log');

    utime time - 7200, time - 7200, "$live/old";
    closed($oc, 'a secret past its ttl');
    closed($ou, 'a secret past its ttl, upstream');
    recorded('past its ttl', event => 'completion',
             reason => 'credential_expired');

    put_file("$live/secret", "$C\n");

    my $again = Wire->connect($base);
    $again->put(request('GET /raw/x', 'X-Box: bystander'));
    my $w = $up->accept;
    like($w->head, qr/Bearer SECRET/, 'there again: sent again');
    $w->put($ok);
    is($again->answer->{body}, 'ok', 'and answered');
    $w->close;
}


# --- old workers ----------------------------------------------------------------------

{
    my $id = fresh();
    my ($c, $u) = passed($id, 'connect');
    $c->put('there');
    $u->take(5);

    my $k = tunnel($id);
    $k->put(request('GET /events'));
    my $w = $up->accept;
    $w->head;
    $w->put($events . "data: 1\n\n");
    $k->get(qr/data: 1/);

    my %old = map { $_ => 1 } $g->workers;

    (my $patient = Fixture::read_file($g->{file}))
        =~ s/worker_shutdown_timeout 5s/worker_shutdown_timeout 60s/;
    Fixture::write_file($g->{file}, $patient);

    # the time-out is that of the configuration that a worker was started with

    kill 'HUP', $g->{pid};
    for (1 .. 400) { last if grep { !$old{$_} } $g->workers; sleep 0.02 }

    my %young = map { $_ => 1 } grep { !$old{$_} } $g->workers;
    ok(%young, 'reloaded');

    my $id2 = fresh();
    my ($c2, $u2) = passed($id2, 'connect');
    $c2->put('there');
    is($u2->take(5), 'there', 'a tunnel of a new worker');

    kill 'HUP', $g->{pid};
    for (1 .. 400) {
        last if grep { !$old{$_} && !$young{$_} } $g->workers;
        sleep 0.02;
    }

    $u2->put('back');
    is($c2->take(4), 'back', 'which is old by now, and goes on');

    ban($id2);
    closed($c2, 'a tunnel of an old worker');
    closed($u2, 'a tunnel of an old worker, upstream');

    my $left = 1;
    for (1 .. 400) {
        $left = grep { $young{$_} } $g->workers;
        last unless $left;
        sleep 0.02;
    }
    is($left, 0, 'which leaves with the last of them');

    $_->close for $c, $u, $w;
}

is_deeply([$g->stop], [], 'nothing odd in the logs');


# --- two workers -----------------------------------------------------------------------

$g = Stream->start(%conf, workers => 2);

{
    my $id = fresh();
    my @pairs = map { [passed($id, 'connect')] } 1 .. 12;

    for (@pairs) {
        $_->[0]->put('there');
        $_->[1]->take(5);
    }

    ban($id);

    my $open = 0;
    for my $c (map { @$_ } @pairs) {
        my (undef, $how) = $c->rest(8);
        $open++ if $how eq 'timeout';
    }
    is($open, 0, 'two workers: all of both are closed');
}

is_deeply([$g->stop], [], 'nothing odd in the logs');
is(Wire::leaks(), 0, 'no client has seen the secret');

done_testing();
