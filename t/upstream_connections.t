# The connections to a host that is reached by name, those that fail and those
# that are kept: DESIGN 6.6, 6.7; security X-51, A-16

use strict;
use warnings;

use lib 't/fixture';
use Fixture;
use Names;
use Test::More;
use Time::HiRes qw(sleep time);


# --- connections that will be idle for long, looked at below -----------------

# DESIGN 6.7: what cannot be sent twice takes none that was idle over 5 s

%zone = map { ($_ => [{ A => ['127.0.0.1'], ttl => 600 }]) } qw(idle1 idle2);
zone();

$g = my $idle = gateway([qw(idle1 idle2)]);
my @idle = map { (split / /, conn($_))[0] } qw(idle1 idle2);
my $idle_since = time;


# --- the next address ---------------------------------------------------------

%zone = (
    'closed' => [{ A => [@closed] }],
    map({ ("good$_" => [{ A => [@closed, '127.0.0.1'] }]) } 1 .. 8),
    map({ ("shy$_" => [{ A => ['127.0.0.6', '127.0.0.7', '127.0.0.8',
                               '127.0.0.9', '127.0.0.1'] }]) } 1 .. 6),
    'mute' => [{ A => ['127.0.0.6', '127.0.0.8'] }],
    map({ ("live$_" => [{ A => ['127.0.0.1', '127.0.0.2'] }]) } 1 .. 9),
    'half' => [{ A => ['127.0.0.3', '127.0.0.20', '127.0.0.4',
                       '127.0.0.21'] }],
);
zone();

$g = gateway([sort keys %zone], egress => 'upstream_keepalive 0;');
$up->news;

for my $n (1 .. 8) {
    my $method = (qw(GET POST PUT DELETE))[$n % 4];
    my $a = ask($method, "/good$n/a", $method =~ /^P/ ? (body => $payload)
                                                      : ());

    is(told("good$n", $a), '200 127.0.0.1',
       "$method: a good address among those that are closed");
    like(Raw::field($a, 'X-Body'), qr/^\Q$digest\E$/, 'with all of its body')
        if $method =~ /^P/;
}

is((news())[1], join(' ', map { (qw(GET POST PUT DELETE))[$_ % 4] . ' /a' }
                          1 .. 8), 'each was sent once');

my $tried = () = $g->log('error.log') =~ /connect\(\) failed \(111/g;
cmp_ok($tried, '>', 0, 'closed ones were tried before');

for my $n (1 .. 6) {
    my $method = (qw(POST GET PUT))[$n % 3];

    is(told("shy$n", ask($method, "/shy$n/a",
                         $method =~ /^P/ ? (body => $payload) : ())),
       '200 127.0.0.1', "$method: a good one among those that close, reset or "
                        . 'send alerts in the handshake');
}

is((news())[1], join(' ', map { (qw(POST GET PUT))[$_ % 3] . ' /a' } 1 .. 6),
   'each was sent once');

is(told('closed', ask('GET', '/closed/a')), '502 connection_refused',
   'all are closed');

my @closed_records = records('closed', 2);
is(join(' ', map { @$_{qw(event decision reason)} } @closed_records),
   'decision allow allowed completion allow connection_refused',
   'all are closed: the records');
like($closed_records[-1]{upstream_addr}, qr/^127\.0\.0\.2[0-3]:$p$/,
     'all are closed: the last of them');

$tried = () = $g->log('error.log')
              =~ m{connect\(\) failed \(111.*request: "GET /closed/a}g;
is($tried, scalar(@closed), 'all are closed: each was tried once');

is(told('half', ask('GET', '/half/a')), '502 connection_refused',
   'closed ones among forbidden ones');

is(told('mute', ask('GET', '/mute/a')), '502 connection_terminated',
   'all close in the handshake');
is(scalar(() = opened() =~ /\S+/g), 2, 'each was tried once');

# what was sent once is not sent again

my $live = 0;

for my $method (qw(GET POST PUT DELETE HEAD)) {
    for my $path ('/reset', '/eof', '/part') {
        next if $path eq '/part' && $method =~ /HEAD|DELETE/;

        my $name = 'live' . (1 + $live++ % 9);
        my $a = ask($method, "/$name$path", $method =~ /^P/ ? (body => 'abc')
                                                            : ());

        is($a->{status}, 502, "$method $path: 502");
        is(told("$method $path", $a), '502 '
           . ($path eq '/part' ? 'http_response_incomplete'
                               : 'connection_terminated'), "$method $path")
            if $method ne 'HEAD';
        is((news())[1], "$method $path", "$method $path: one delivery");
    }
}

done();


# the same where time is up

%zone = (
    map({ ("mute$_" => [{ A => ['127.0.0.10', '127.0.0.10', '127.0.0.1'] }]) }
        1 .. 3),
    map({ ($_ => [{ A => ['127.0.0.1', '127.0.0.2'] }]) } qw(live kept)),
);
zone();

$g = gateway([sort keys %zone],
             location => 'proxy_connect_timeout 1s; proxy_read_timeout 1s;');
conn('kept');
$up->news;

# on a connection that was kept it makes no difference: it was not closed
my $kept = ask('GET', '/kept/hang', wait => 1);
my @muted = map { ask((qw(GET POST PUT))[$_ - 1], "/mute$_/a",
                      $_ > 1 ? (body => $payload) : (), wait => 1) } 1 .. 3;
my @hung = map { ask($_, '/live/hang', $_ eq 'PUT' ? (body => $payload) : (),
                     wait => 1) } qw(GET PUT);

is(join(', ', map { told('mute', Raw::answer($_)) } @muted),
   join(', ', ('200 127.0.0.1') x 3),
   'a good one among those that do not answer the hello');
is(join(', ', map { told('hang', Raw::answer($_)) } @hung, $kept),
   join(', ', ('504 connection_read_timeout') x 3),
   'no answer to a request');
is(join(' ', sort split /(?<=\w) (?=[A-Z])/, (news())[1]),
   'GET /a GET /hang GET /hang POST /a PUT /a PUT /hang',
   'each was sent once');

done();


# --- connections that are kept ------------------------------------------------

%zone = map({ ($_ => [{ A => ['127.0.0.1'] }]) }
            qw(a b c d e f stale1 stale2 stale3 stale4 stale5 stale6 stale7
               last));
$zone{fewer} = [{ A => [(@closed) x 4, '127.0.0.1'] }];
zone();

my @names = sort keys %zone;

$g = gateway(\@names);
my ($a) = split / /, conn('a');

is(conn('a'), "$a 2", 'kept');
is(conn('a', 'POST', '/p', body => $payload), "$a 3", 'for a POST');
is(conn('a', 'GET', '/q'), "$a 4", 'and after it');

my ($b) = split / /, conn('b');
isnt($b, $a, 'another name at the same address has its own');

for (1 .. 3) {
    is(conn('a'), "$a " . (4 + $_), 'in turn');
    is(conn('b', $_ == 2 ? 'POST' : 'GET', '/x', $_ == 2 ? (body => 'x')
                                                         : ()),
       "$b " . (1 + $_), 'in turn');
}

SKIP: {
    skip 'no curl with HTTP/2', 4 unless $curl;

    for my $name (qw(b a b a)) {
        my $got = curl($name, '/two');
        is(Raw::field($got, 'X-Sni') . ' ' . Raw::field($got, 'X-Conn'),
           "$name.n.test " . ($name eq 'a' ? $a : $b),
           'HTTP/2 uses the same ones, each name its own');
    }
}

is(join(' ', grep { $_ } map { $_->{e} eq 'request'
                               && $_->{host} ne "$_->{sni}:$p"
                               ? "$_->{host} $_->{sni}" : '' } $up->news),
   '', 'each request went over a connection for its own name (X-51)');

# a connection that the other side closes under a request

my %again = (GET => 1, HEAD => 1, OPTIONS => 1);
my $n = 0;

for my $method (qw(GET HEAD OPTIONS POST PUT DELETE)) {
    my $name = 'stale' . ++$n;
    my ($first) = split / /, conn($name);

    $up->news;
    my $got = ask($method, "/$name/stale", $method =~ /^P/ ? (body => 'abc')
                                                           : ());

    if ($again{$method}) {
        is($got->{status}, 200, "$method: a stale connection, sent again");
        isnt(Raw::field($got, 'X-Conn'), $first, "$method: on a new one");
        is((news())[1], "$method /stale $method /stale",
           "$method: two deliveries");
        next;
    }

    is(told("$method /stale", $got), '502 connection_terminated',
       "$method: a stale connection");
    is((news())[1], "$method /stale", "$method: one delivery");
}

SKIP: {
    skip 'no curl with HTTP/2', 4 unless $curl;

    conn('stale7');
    $up->news;
    my $got = curl('stale7', '/stale');
    is($got->{status}, 200, 'HTTP/2, GET: a stale connection, sent again');
    is((news())[1], 'GET /stale GET /stale', 'HTTP/2, GET: two deliveries');

    $up->news;
    $got = curl('stale7', '/stale', post => 1);
    is(told('HTTP/2, POST', $got), '502 connection_terminated',
       'HTTP/2, POST: a stale connection');
    is((news())[1], 'POST /stale', 'HTTP/2, POST: one delivery');
}

# an address that is gone does not keep the second attempt from the next one

conn('fewer');
$up->news;
is(told('fewer', ask('GET', '/fewer/stale')), '200 127.0.0.1',
   'a stale connection, and the first addresses are closed');
is((news())[1], 'GET /stale GET /stale', 'two deliveries');

# one that was closed while nobody used it

my ($last) = split / /, conn('last', 'GET', '/last');
$up->wait_for(sub { $_[0]{e} eq 'close' && $_[0]{conn} == $last });

like(conn('last', 'POST', '/a', body => 'abc'), qr/^(?!$last )\d+ 1$/,
     'a POST does not take one that was closed');

# a reload: all new, and one that waits is answered

my %before = map { ($_ => (split / /, conn($_))[0]) } qw(a b);
$zone{slow} = [{ A => ['127.0.0.1'], delay => 1.5 }];

done();

$g = gateway([@names, 'slow']);
zone();
%before = map { ($_ => (split / /, conn($_))[0]) } qw(a b);
$up->news;

my $waits = ask('GET', '/slow/a', wait => 1);
for (1 .. 500) { last if asked('slow') =~ /slow/; sleep 0.01 }

my @workers = $g->workers;
kill 'HUP', $g->{pid};

my %closed;
$up->wait_for(sub { $closed{$_[0]{conn}} = 1 if $_[0]{e} eq 'close';
                    return $closed{$before{a}} && $closed{$before{b}} });
ok($closed{$before{$_}}, "reload: what was kept is closed, $_") for qw(a b);

like(conn($_), qr/^(?!$before{$_} )\d+ 1$/, "reload: a new one, $_")
    for qw(a b);
is(told('waits', Raw::answer($waits)), '200 127.0.0.1',
   'reload: who waits for a name gets an answer');
isnt(join(' ', $g->workers), join(' ', @workers), 'reload: it was one');

done();

# how many, and for how long

$g = gateway(\@names, egress => 'upstream_keepalive 2;');
%before = map { ($_ => (split / /, conn($_))[0]) } qw(a b c);
is(conn('c'), "$before{c} 2", 'keeping 2: the last one');
is(conn('b'), "$before{b} 2", 'keeping 2: the one before');
like(conn('a'), qr/^(?!$before{a} )\d+ 1$/, 'keeping 2: not the first');

%closed = ();
$up->wait_for(sub { $closed{$_[0]{conn}} = 1 if $_[0]{e} eq 'close';
                    return $closed{$before{a}} && $closed{$before{c}} });
is(join(' ', map { $closed{$before{$_}} ? "$_ closed" : "$_ open" }
             qw(a b c)), 'a closed b open c closed',
   'keeping 2: those that gave way are closed');
is(conn('b'), "$before{b} 3", 'keeping 2: and the other is not');
done();

$g = gateway(['a'], egress => 'upstream_keepalive 0;');
like(conn('a'), qr/^\d+ 1$/, 'keeping none') for 1 .. 3;
done();

$g = gateway(['a', 'b'], egress => 'upstream_keepalive 8 idle=300ms;');
%before = map { ($_ => (split / /, conn($_))[0]) } qw(a b);
%closed = ();
$up->wait_for(sub { $closed{$_[0]{conn}} = 1 if $_[0]{e} eq 'close';
                    return $closed{$before{a}} && $closed{$before{b}} });
ok($closed{$before{$_}}, "idle=300ms: $_ is closed") for qw(a b);
like(conn($_), qr/^(?!$before{$_} )\d+ 1$/, "idle=300ms: a new one, $_")
    for qw(a b);
done();


# --- another secret -----------------------------------------------------------

my $secret = Fixture::write_file("$files/changing/secret",
                                 "$ENV{TEST_NGINX_CANARY}\n", 0640)
    if mkdir "$files/changing";
my $group = getgrnam('www-data') // 0;

sub change {
    my ($value) = @_;

    Fixture::write_file("$secret.new", "$value\n", 0640);
    chown 0, $group, "$secret.new" if $> == 0;
    rename "$secret.new", $secret or die "$secret: $!";
}

chmod 0755, "$files/changing";
change($ENV{TEST_NGINX_CANARY});

$zone{$_} = [{ A => ['127.0.0.1'], delay => 1 }] for qw(wait1 wait2);
zone();

my $next = Fixture::random(40);
$up->marks(next => $next);

$g = gateway(['a', 'b', 'wait1', 'wait2'], secret => $secret,
             egress => 'secret_check 0;');

my $was = ask('GET', '/a/a');
is(Raw::field($was, 'X-Auth'), 'secret', 'the first secret');
is(Raw::field(ask('GET', '/a/a'), 'X-Conn'), Raw::field($was, 'X-Conn'),
   'its connection is kept');

my $meanwhile = ask('GET', '/wait1/a', wait => 1);
for (1 .. 500) { last if asked('wait1') =~ /wait1/; sleep 0.01 }

change($next);

my $now = ask('POST', '/a/b', body => 'abc');
is(Raw::field($now, 'X-Auth'), 'next', 'the next secret');
isnt(Raw::field($now, 'X-Conn'), Raw::field($was, 'X-Conn'),
     'on a connection of its own');
is(Raw::field(Raw::answer($meanwhile), 'X-Auth'), 'next',
   'who waited for a name does not send the old one');

$meanwhile = ask('GET', '/wait2/gone', wait => 1);
for (1 .. 500) { last if asked('wait2') =~ /wait2/; sleep 0.01 }
unlink $secret;

is(told('revoked', ask('GET', '/a/c')), '403 credential_missing', 'revoked');
Raw::answer($meanwhile);
is(join(' ', map { $_->{auth} } grep { $_->{e} eq 'request'
                                       && $_->{path} eq '/gone' } $up->news),
   '', 'who waited for a name while it was revoked sends nothing');

is(scalar(grep { index($_->log('error.log') . $_->log('audit.json'), $next)
                 >= 0 } $g), 0, 'and no log has the other secret');
done();


# --- connections that were idle for long --------------------------------------

$g = $idle;
sleep 0.1 while time - $idle_since < 5.3;
like(conn('idle1', 'POST', '/a', body => 'abc'), qr/^(?!$idle[0] )\d+ 1$/,
     'a POST does not take one that was idle for long');
is(conn('idle2'), "$idle[1] 2", 'a GET does');
done();

finish();

done_testing();
