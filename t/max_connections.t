# max_connections: DESIGN 5.1 (zone), 5.3, 6.6

use strict;
use warnings;

use lib 't/fixture';
use Digest::SHA qw(sha256_hex);
use Fixture;
use JSON::PP;
use MIME::Base64;
use Stream;
use Test::More;
use Time::HiRes qw(sleep);
use Wire;

my $gid = $> == 0 ? getgrnam('www-data') : $) + 0;
my $boxes = Fixture::dir() . '/sandboxes';
my $json = JSON::PP->new->utf8->canonical;
my $token = Fixture::random(30);
my $clear = $ENV{TEST_NGINX_CLEAR_PORT};
my %port = map { $_ => Fixture::free_port() } qw(one two both nobody h2);

mkdir $boxes;
chmod 0755, $boxes;

my %role = (one => 'few', two => 'few', many => 'many', big => 'big');

for my $id (keys %role) {
    Fixture::write_file("$boxes/$id.json", $json->encode({
        role => $role{$id}, token_sha256 => sha256_hex($token) }), 0640);
    chown -1, $gid, "$boxes/$id.json";
}

# base-URL listeners: of one sandbox each, of the one that the path names, and
# of nobody in particular

my $servers = join '', map { <<"HTTP" } qw(one two);
    server {
        listen 127.0.0.1:$port{$_};
        egress_sandbox $_;
        location / { egress_pass api; }
    }
HTTP

my $g = Stream->start(workers => 3, egress => <<"CONF", http => <<"HTTP");
    sandboxes $boxes;
    secret_check 0;
    unidentified open;
    role few { use api other; max_connections 3; }
    role many { use api; }
    role big { use api; max_connections 40; }
    role open { use api; max_connections 2; }
CONF
    $servers
    server {
        listen 127.0.0.1:$port{both};
        location /one { egress_sandbox one; egress_pass api; }
        location /two { egress_sandbox two; egress_pass api; }
    }
    server {
        listen 127.0.0.1:$port{nobody};
        location / { egress_pass api; }
    }
    server {
        listen 127.0.0.1:$port{h2} http2;
        egress_sandbox one;
        location / { egress_pass api; }
    }
HTTP

my $established = qr/^HTTP\/1\.1 200 Connection established\r\n\r\n/;

sub head {
    my ($id, $host) = @_;
    $host //= 'api.test';
    my $auth = defined $id ? 'Proxy-Authorization: Basic '
                             . encode_base64("$id:$token", '') . "\r\n" : '';
    return "CONNECT $host:443 HTTP/1.1\r\nHost: $host:443\r\n$auth\r\n";
}

# a tunnel that stays open: the socket, and the first line of the answer

sub tunnel {
    my ($id, $host) = @_;
    my $s = $g->socket;

    $g->put($s, head($id, $host));
    my ($got) = $g->get($s, qr/\r\n\r\n/);

    return ($s, $got);
}

sub opened { return (tunnel(@_))[1] =~ $established ? 1 : 0 }

# closed connections are counted down a moment later

sub soon {
    my ($check) = @_;

    for (1 .. 200) {
        return 1 if $check->();
        sleep 0.02;
    }

    return 0;
}

# a request on a connection that stays open: the connection, and its status

sub request {
    my ($port, $path, $w) = @_;

    $w //= Wire->connect($port);
    $w->put("GET " . ($path // '/x') . " HTTP/1.1\r\nHost: gateway\r\n\r\n");

    my $a = $w->answer;

    return ($w, $a->{status}, $a);
}


# --- at the gateway -----------------------------------------------------------

my @held;

for (1 .. 3) {
    my ($s, $got) = tunnel('one');
    like($got, $established, "connection $_ of three");
    push @held, $s;
}

my $before = () = $g->audit;
my ($s, $got) = tunnel('one');

like($got, qr/^HTTP\/1\.1 503 Blocked by gateway: /, 'the fourth: 503');
like($got, qr/\r\nProxy-Status: egress-1; error=connection_limit_reached; details="limit_reached: /,
     '... told in Proxy-Status');

my $rec = $g->record($before);
is("$rec->{event} $rec->{decision} $rec->{reason} $rec->{sandbox} $rec->{status}",
   'connection deny limit_reached one 503', '... the record');

($s, $got) = tunnel('one', 'third.test');
like($got, qr/details="limit_reached/, 'before the destination is looked at');

ok(opened('two'), 'another sandbox has its own number');
ok(opened('many'), 'a role without a number');

# SOCKS5

sub socks {
    my ($id) = @_;
    my $s = $g->socket;

    $g->put($s, "\x05\x01\x02" . "\x01" . pack('C/a* C/a*', $id, $token)
                . "\x05\x01\x00\x03" . pack('C/a* n', 'api.test', 443));
    my ($got) = $g->get($s, qr/^.{14}/s);

    return ($s, unpack 'H*', $got);
}

($s, $got) = socks('one');
is($got, '05020100' . '05010001000000000000', 'SOCKS5: reply 01');

close pop @held;
ok(soon(sub { my ($s, $got) = socks('one');
              push @held, $s if $got =~ /^0502010005000001/; @held == 3 }),
   'one that is closed makes room');
ok(!opened('one'), '... for one');

# refused for another reason, a connection counts while it is there, and no
# more after

close pop @held;
ok(soon(sub { !defined($rec = (tunnel('one', 'third.test'))[1])
              || $rec =~ /binding_refused/ }), 'a refusal');
ok(soon(sub { my ($s, $got) = tunnel('one');
              push @held, $s if $got =~ $established; @held == 3 }),
   '... is gone after it');


# --- a sandbox in all workers, and what a worker leaves -----------------------

my @big;

for (1 .. 40) {
    my ($s, $got) = tunnel('big');
    push @big, $s if $got =~ $established;
}

is(scalar @big, 40, 'forty over three workers');
ok(!opened('big'), 'and no more in any of them') for 1 .. 6;

my @workers = $g->workers;
is(scalar @workers, 3, 'three workers');

kill 'KILL', $workers[0];
ok(soon(sub { my @w = $g->workers; @w == 3 && !grep { $_ == $workers[0] } @w }),
   'a new one for one that was killed');

my @gone = grep { my $in = ''; vec($in, fileno $_, 1) = 1;
                  select($in, undef, undef, 0.01)
                  && !sysread $_, my $buf, 1 } @big;
my $n = @gone;

my %gone = map { $_ => 1 } @gone;
@big = grep { !$gone{$_} } @big;

for (1 .. $n + 8) {
    my ($s, $got) = tunnel('big');
    push @big, $s if $got =~ $established;
}

is(scalar @big, 40, "its $n connections count no more");
like($g->log('error.log'), qr/exited on signal 9/, '... it was killed');


# --- over a reload ------------------------------------------------------------

# those held in old workers count; and a worker that is killed while it leaves
# leaves nothing, though nobody takes its slot

@workers = $g->workers;
kill 'HUP', $g->{pid};

ok(soon(sub { my %old = map { $_ => 1 } @workers;
              3 == grep { !$old{$_} } $g->workers }), 'new workers');
ok(!opened('big'), 'connections in old workers count');

my @old = grep { my $w = $_; grep { $_ == $w } @workers } $g->workers;
ok(@old > 0, 'old workers are still there');

kill 'KILL', @old;

# not even as zombies, which count until the master has taken note of them

ok(soon(sub { !grep { kill 0, $_ } @old }), 'now they are gone');

close $_ for @big;
@big = ();

for (1 .. 48) {
    my ($s, $got) = tunnel('big');
    push @big, $s if $got =~ $established;
}

is(scalar @big, 40, 'all of theirs are free');
ok(!opened('big'), 'and the number holds');

close $_ for @big;
@held = ();


# --- handed over: the terminator counts no connection twice -------------------

sub terminated {
    my ($id) = @_;
    my ($s, $got) = tunnel($id);

    return if $got !~ $established;

    # openssl speaks through the tunnel by itself
    close $s;

    return Wire->spawn('openssl', 's_client', '-quiet', '-proxy',
                       "127.0.0.1:$g->{port}", '-proxy_user', $id,
                       '-proxy_pass', "pass:$token", '-connect',
                       'api.test:443', '-servername', 'api.test',
                       '-CAfile', Fixture::dir() . '/ca.pem');
}

ok(soon(sub { opened('one') }), 'room again');

my @through;

for (1 .. 3) {
    my $w;

    soon(sub { $w = terminated('one') });

    for (1 .. 2) {
        $w->put("GET /x HTTP/1.1\r\nHost: api.test\r\n\r\n");
        is($w->answer->{status}, 200, 'a request through a tunnel');
    }

    push @through, $w;
}

ok(!opened('one'), 'three are three');

# bare TLS, of nobody in particular: they share one number for their role

my @bare;

for (1 .. 2) {
    my $w = Wire->tls($g->{port}, 'api.test');
    $w->put("GET /x HTTP/1.1\r\nHost: api.test\r\n\r\n");
    is($w->answer->{status}, 200, "bare TLS, connection $_ of two");
    push @bare, $w;
}

$s = $g->socket;
$g->put($s, Stream::hello('api.test'));
is(unpack('H*', $g->get($s)), '15030300020231', 'the third: an alert');

my ($w, $status) = request($port{nobody});
is($status, 503, 'on another listener, too');

# openssl itself would stay

for my $w (@bare, @through) {
    kill 'TERM', $w->{pid};
    $w->close;
}

ok(soon(sub { ($w, $status) = request($port{nobody}); $status == 200 }),
   'until they are closed');
$w->close;


# --- base-URL mode: at the first request --------------------------------------

my @kept;

ok(soon(sub { opened('one') }), 'room again');

for (1 .. 3) {
    soon(sub { ($w, $status) = request($port{one}); $status == 200 });
    is($status, 200, "connection $_ of three");

    (undef, $status) = request($port{one}, undef, $w);
    is($status, 200, '... a second request on it');

    push @kept, $w;
}

($w, $status, my $answer) = request($port{one});
is($status, 503, 'the fourth: 503');
like($answer->{head}, qr/^Proxy-Status: .*error=connection_limit_reached; details="limit_reached: /m,
     '... told in Proxy-Status');
like($answer->{head}, qr/^Connection: close\r$/m, '... and closed');

ok(!opened('one'), 'they count at the gateway, too');

is((request($port{two}))[1], 200, 'another sandbox');

# by HTTP/2 the connection counts, not its streams

my $curl = `curl -s -o /dev/null -w '%{http_code}' --http2-prior-knowledge http://127.0.0.1:$port{h2}/x`;
is($curl, 503, 'HTTP/2: 503');

$_->close for @kept;
ok(soon(sub { `curl -s -o /dev/null -w '%{http_code}' --http2-prior-knowledge http://127.0.0.1:$port{h2}/x` eq '200' }),
   'HTTP/2, with room');

# one connection with requests of two sandboxes counts for the last of them

@kept = ();

ok(soon(sub { opened('one') && opened('two') }), 'room for both');

for (1 .. 3) {
    soon(sub { ($w, $status) = request($port{both}, '/one'); $status == 200 });
    is($status, 200, "connection $_ of one");
    push @kept, $w;
}

is((request($port{one}))[1], 503, 'no room for one');

is((request($port{both}, '/two', $kept[0]))[1], 200, 'its next one is of two');

($w, $status) = request($port{one});
is($status, 200, 'which makes room for one');
$w->close;

is(join('', grep { !/exited on signal 9/ } $g->stop), '',
   'nothing in the logs that should not be there');


# --- faulty configurations ----------------------------------------------------

my $dir = Fixture::dir();
my $modules = join ' ', map { "load_module $_;" }
              split ' ', $ENV{TEST_NGINX_LOAD_MODULES} // '';
my $binary = $ENV{TEST_NGINX_BINARY} || 'nginx';

for my $case (
    ['max_connections 0;', qr/value must be between 1 and 65535/],
    ['max_connections 65536;', qr/value must be between 1 and 65535/],
    ['max_connections few;', qr/invalid number/],
    ['max_connections 1; max_connections 2;', qr/is duplicate/],
)
{
    my ($role, $error) = @$case;

    my $file = Fixture::write_file('faulty.conf', <<"CONF");
$modules
pid $dir/faulty.pid;
events { }
egress { audit_log $dir/faulty.json; role x { $role } }
CONF

    my $out = `$binary -t -p $dir -e stderr -c $file 2>&1`;

    like($out, $error, $role);
    like($out, qr/test failed/, '... is refused');
}

done_testing();
