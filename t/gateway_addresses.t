# The addresses that names lead to: DESIGN 4.3, 5.3, 6.13; security X-52 to
# X-55; cases O-13, O-16
#
# What a forbidden address sees is counted at that address: see Hosts.

use strict;
use warnings;

use lib 't/fixture';
use Fixture;
use Tunnels;
use IO::Socket::INET;
use Test::More;
use Time::HiRes qw(sleep);

$dns = Dns->start({});
$hosts = Hosts->start(0, map({ "127.0.0.$_" } 1 .. 4, 6 .. 9), '::1')
    or die 'no port that is free at all addresses';

my $p = $hosts->{port};
my $six = exists $hosts->{last}{'::1'};
my $resolver = resolver();


# --- rebinding, and many answers at once (X-52, X-53, O-13, O-16) -------------

# what a name answers; what becomes of its first, second and third connection

my @rows = (
    ['good, then forbidden', [{ A => ['127.0.0.1'] }, { A => ['127.0.0.3'] }],
     '127.0.0.1', 'address_refused', 'address_refused'],
    ['global, then forbidden', [{ A => ['8.8.8.8'] }, { A => ['127.0.0.3'] }],
     'open', 'address_refused', 'address_refused'],
    ['global, then the address of metadata',
     [{ A => ['8.8.8.8'] }, { A => ['169.254.169.254'] }],
     'open', 'address_refused'],
    ['forbidden, then good', [{ A => ['127.0.0.3'] }, { A => ['127.0.0.2'] }],
     'address_refused', '127.0.0.2', '127.0.0.2'],
    ['to and fro', [{ A => ['127.0.0.1'] }, { A => ['127.0.0.4'] },
                    { A => ['127.0.0.2'] }],
     '127.0.0.1', 'address_refused', '127.0.0.2'],
    ['good, then both', [{ A => ['127.0.0.1'] },
                         { A => ['127.0.0.3', '127.0.0.2'] },
                         { A => ['127.0.0.3', '127.0.0.4'] }],
     '127.0.0.1', '127.0.0.2', 'address_refused'],
    ['good, then IPv6 alone', [{ A => ['127.0.0.1'] }, { AAAA => ['::1'] }],
     '127.0.0.1', 'address_refused', 'address_refused'],
    ['IPv6 alone, then good', [{ AAAA => ['::1'] }, { A => ['127.0.0.1'] }],
     'address_refused', '127.0.0.1'],
    ['good, then its mapped neighbour',
     [{ A => ['127.0.0.1'] }, { AAAA => ['::ffff:127.0.0.3'] }],
     '127.0.0.1', 'address_refused'],
    ['good, then none', [{ A => ['127.0.0.1'] }, {}, { A => ['127.0.0.3'] }],
     '127.0.0.1', 'dns_error', 'address_refused'],
    ['good, then NXDOMAIN', [{ A => ['127.0.0.1'] }, { rcode => 'NXDOMAIN' },
                             { A => ['127.0.0.1'] }],
     '127.0.0.1', 'dns_error', '127.0.0.1'],
    ['closed, then forbidden', [{ A => ['127.0.0.5'] },
                                { A => ['127.0.0.3'] }],
     'nowhere', 'address_refused'],

    # at once

    ['good and forbidden', [{ A => ['127.0.0.1', '127.0.0.3'] }],
     '127.0.0.1', '127.0.0.1', '127.0.0.1'],
    ['forbidden and good', [{ A => ['127.0.0.3', '127.0.0.1'] }],
     '127.0.0.1', '127.0.0.1', '127.0.0.1'],
    ['two forbidden ones', [{ A => ['127.0.0.3', '127.0.0.4'] }],
     'address_refused', 'address_refused'],
    ['all of them', [{ A => [map { "127.0.0.$_" } 9, 8, 2, 7, 6, 4, 3, 1] }],
     '127.0.0.1|127.0.0.2', '127.0.0.1|127.0.0.2'],
    ['A good, AAAA forbidden', [{ A => ['127.0.0.1'], AAAA => ['::1'] }],
     '127.0.0.1', '127.0.0.1'],
    ['A and AAAA forbidden', [{ A => ['127.0.0.3'], AAAA => ['::1'] }],
     'address_refused', 'address_refused'],
    ['A forbidden and good, AAAA forbidden',
     [{ A => ['127.0.0.3', '127.0.0.2'], AAAA => ['::1', 'fe80::1'] }],
     '127.0.0.2', '127.0.0.2'],
    ['A good, AAAA in a lifted range over a forbidden address',
     [{ A => ['127.0.0.1'], AAAA => ['::ffff:127.0.0.3'] }],
     '127.0.0.1', '127.0.0.1'],
    ['A good, AAAA metadata', [{ A => ['127.0.0.1'],
                                 AAAA => ['fd00:ec2::254'] }],
     '127.0.0.1', '127.0.0.1'],
    ['one that answers by TCP', [{ A => ['127.0.0.3'], truncate => 1 },
                                 { A => ['127.0.0.3', '127.0.0.1'],
                                   truncate => 1 }],
     $dns->tcp ? ('address_refused', '127.0.0.1') : ()],

    # retries: 127.0.0.5 is allowed, and closed

    ['closed', [{ A => ['127.0.0.5'] }], 'nowhere', 'nowhere'],
    ['closed, good', [{ A => ['127.0.0.5', '127.0.0.1'] }],
     '127.0.0.1', '127.0.0.1', '127.0.0.1'],
    ['closed, forbidden', [{ A => ['127.0.0.5', '127.0.0.3'] }],
     'nowhere', 'nowhere', 'nowhere'],
    ['forbidden, closed', [{ A => ['127.0.0.3', '127.0.0.5'] }],
     'nowhere', 'nowhere'],
    ['closed, forbidden, good',
     [{ A => ['127.0.0.5', '127.0.0.3', '127.0.0.2'] }],
     '127.0.0.2', '127.0.0.2', '127.0.0.2'],
    ['closed, forbidden, closed, forbidden, good',
     [{ A => ['127.0.0.5', '127.0.0.3', '127.0.0.5', '127.0.0.4',
              '127.0.0.2'] }],
     '127.0.0.2', '127.0.0.2', '127.0.0.2'],
    ['closed, AAAA forbidden', [{ A => ['127.0.0.5'], AAAA => ['::1'] }],
     'nowhere', 'nowhere'],
    ['closed, AAAA forbidden and mapped good',
     [{ A => ['127.0.0.5'], AAAA => ['::1', '::ffff:127.0.0.1'] }],
     $six ? ('127.0.0.1', '127.0.0.1') : ()],

    # by way of another name, in the same answer or asked for

    ['CNAME to an internal name', [{ CNAME => 'inside.test' }],
     'address_refused', 'address_refused'],
    ['CNAME to an internal name, two answers',
     [{ CNAME => 'inside2.test' }], 'address_refused', 'address_refused'],
    ['CNAME to a good name, then an internal one',
     [{ CNAME => 'outside.test' }, { CNAME => 'inside.test' }],
     '127.0.0.1', 'address_refused'],
    ['the same, two answers',
     [{ CNAME => 'outside2.test' }, { CNAME => 'inside2.test' }],
     '127.0.0.1', 'address_refused'],
    ['CNAME to a name that changes', [{ CNAME => 'turning.test' }],
     '127.0.0.1', 'address_refused', '127.0.0.2'],
    ['CNAME and the address of metadata beside it',
     [{ CNAME => 'any.test', A => ['169.254.169.254'] }],
     'address_refused', 'address_refused'],
    ['CNAME to good and forbidden', [{ CNAME => 'mixed.test' }],
     '127.0.0.2', '127.0.0.2'],
    ['CNAME to itself', [{ CNAME => 'round.test' }], 'dns_error'],

    # ranges that nothing lifts here

    map { ["$_", [{ A => [$_] }], 'address_refused'] } qw(
        0.0.0.0 0.0.0.1 127.0.0.3 127.255.255.254 10.0.0.1 100.64.0.1
        169.254.0.1 172.16.0.1 192.168.0.1 192.0.0.8 192.0.2.1 192.88.99.1
        198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1
        255.255.255.255 169.254.169.254 169.254.170.2 100.100.100.200
        168.63.129.16
    )
);

push @rows,

    # lifted ranges over forbidden addresses, and what is never let through

    map { ["$_", [{ AAAA => [$_] }], 'address_refused'] } qw(
        :: ::1 ::ffff:127.0.0.3 ::ffff:0.0.0.0 ::ffff:169.254.169.254
        ::127.0.0.3 ::ffff:0:127.0.0.3 64:ff9b::7f00:3 64:ff9b::a9fe:a9fe
        64:ff9b:1::7f00:3 2002:7f00:3:: 2002:a9fe:a9fe::
        2001:0:4136:e378:8000:63bf:80ff:fffc
        2606:4700::5efe:7f00:3 2606:4700::200:5efe:7f00:3
        fe80::1 fec0::1 fd12:3456::1 ff02::1 2001:db8::1 3fff::1 100::1
        5f00::1 4000::1 fd00:ec2::254 fd00:ec2::23 fd20:ce::254
    );

push @rows,
    ['mapped, lifted, its address lifted too',
     [{ AAAA => ['::ffff:127.0.0.1'] }], '127.0.0.1'] if $six;

push @rows,

    # O-13: follows the range that was lifted

    ['NAT64 of a global address', [{ AAAA => ['64:ff9b::808:808'] }], 'open'];

my $own = Fixture::free_port();
my @names = map { "name$_.test" } 1 .. @rows;

$g = Stream->start(port => $own, egress => "$resolver resolver_timeout 20s;",
                   preread_timeout => '30s', level => 'info',
                   role => <<"ROLE");
allow_host more.test:$p own.test:$own @{[map { "$_:$p" } @names]};
allow_private 127.0.0.1 127.0.0.2 127.0.0.5;
allow_private ::ffff:127.0.0.1 ::ffff:127.0.0.3 64:ff9b::/96 2002::/16;
allow_private 2001::/32 ::127.0.0.0/104 ::ffff:0:127.0.0.0/104;
ROLE

my %zone = map { ("name$_.test" => $rows[$_ - 1][1]) } 1 .. @rows;

for my $steps (values %zone) {
    $_->{ttl} = 0 for @$steps;
}

cmp_ok(scalar(grep { @$_ > 3 } @rows), '>=', 30, '30 sequences of some length');

# "delay" makes a question of its own of it

$dns->zone({
    %zone,
    'own.test' => [{ A => ['127.0.0.1'], ttl => 0 },
                   { A => ['127.0.0.1', '127.0.0.5'], ttl => 0 },
                   { AAAA => ['::ffff:127.0.0.1'], ttl => 0 }],
    'more.test' => [{ A => ['127.0.0.1', '127.0.0.3', '127.0.0.4'],
                      AAAA => ['::1'] }],
    'inside.test' => [{ A => ['127.0.0.3'], ttl => 0 }],
    'inside2.test' => [{ A => ['127.0.0.4'], ttl => 0, delay => 0.01 }],
    'outside.test' => [{ A => ['127.0.0.1'], ttl => 0 }],
    'outside2.test' => [{ A => ['127.0.0.1'], ttl => 0, delay => 0.01 }],
    'turning.test' => [{ A => ['127.0.0.1'], ttl => 0, delay => 0.01 },
                       { A => ['127.0.0.3'], ttl => 0, delay => 0.01 },
                       { A => ['127.0.0.2'], ttl => 0, delay => 0.01 }],
    'mixed.test' => [{ A => ['127.0.0.3', '127.0.0.2'], ttl => 0 }],
    'round.test' => [{ CNAME => 'round.test', ttl => 0 }],
});

# tunnels that are open while the name moves on

is(tunnel("name1.test:$p", leave => 'open'), 'open', 'a tunnel is opened');

for my $round (1 .. 3) {
    asked();

    my %again;

    for my $i (1 .. @rows) {
        my ($title, undef, @expect) = @{ $rows[$i - 1] };
        my $expect = $expect[$round - 1] // next;
        my $name = "name$i.test";

        # that of the tunnel above
        next if $i == 1 && $round == 1;

        $again{$name} = 1;

        if ($expect eq 'open') {
            is(tunnel("$name:$p", leave => 1), 'open',
               "$title, $round: may be opened");
            is($hosts->moved, '', "$title, $round: no address was tried");
            next;
        }

        judged("$title, $round",
               $i % 3 == 0 && $expect ne 'nowhere'
               ? socks($name, $p, at_once => $i % 2)
               : tunnel("$name:$p", at_once => $i % 2),
               $expect, $name);
    }

    my $got = tunnel("own.test:$own");

    if ($round != 2) {
        judged("our own listener, $round", $got, 'address_refused',
               'own.test');

    } else {
        my @records = news(2);
        is($got, 'nowhere', 'our own listener, and a closed port');
        is(scalar(grep { $_->{event} eq 'connection' } @records), 1,
           'no second connection');
        is($records[1]{upstream_addr}, "127.0.0.5:$own",
           'only the other one was tried');
    }

    my %count;
    $count{$_}++ for asked() =~ /(\S+) A\b(?!A)/g;
    is(join(' ', grep { !$count{$_} } sort keys %again), '',
       "each name was asked for again, $round");

    expire() if $round < 3;
}

# what was judged when the tunnel was opened is what it is connected to

my $hello = Stream::hello('name1.test');
$g->put($tunnels[0], $hello);
judged('a tunnel that was opened before its name moved',
       through($tunnels[0], $hello), '127.0.0.1', 'name1.test');
is(asked(), '', 'nothing was asked for again');

# An answer that is kept: nginx begins at any of the addresses.

for (1 .. 40) {
    my $got = $_ % 4 ? tunnel("more.test:$p", at_once => $_ % 2)
                     : socks('more.test', $p);
    judged("kept, $_", $got, '127.0.0.1', 'more.test');
}

is(asked(), 'more.test A more.test AAAA', 'asked for once');

done();

my @failed = $g->log('error.log') =~ /connect\(\).*upstream: "([^"]+)/g;
is(scalar(grep { !/^127\.0\.0\.5:/ } @failed), 0,
   'no other address failed either');


# --- O-13, with nothing lifted but one address --------------------------------

my @embedded = qw(64:ff9b::a9fe:a9fe 2002:7f00:1:: ::ffff:10.0.0.1
                  2001:0:4136:e378:8000:63bf:80ff:fffe 64:ff9b::808:808
                  ::ffff:127.0.0.1 ::127.0.0.1 ::ffff:0:127.0.0.1
                  64:ff9b::7f00:1 ::1);

my @all = map { "embedded$_.test" } 1 .. @embedded;

$dns->zone({ map({ ("embedded$_.test" => [{ AAAA => [$embedded[$_ - 1]] }]) }
                 1 .. @embedded),
             'all.test' => [{ AAAA => \@embedded }],
             'last.test' => [{ A => ['127.0.0.1'], AAAA => \@embedded }] });

$g = Stream->start(egress => $resolver, role => <<"ROLE");
allow_host all.test:$p last.test:$p @{[map { "$_:$p" } @all]};
allow_private 127.0.0.1;
ROLE

for my $i (1 .. @embedded) {
    judged("O-13, $embedded[$i - 1]", tunnel("embedded$i.test:$p"),
           'address_refused', "embedded$i.test");
}

judged('O-13, all at once', tunnel("all.test:$p"), 'address_refused',
       'all.test');
judged('O-13, and a good one', tunnel("last.test:$p"), '127.0.0.1',
       'last.test');

done();


# --- what no option lifts: own listeners, metadata (X-53, X-54) ---------------

my $wild = Fixture::free_port();
my $status = Fixture::free_port();
my $outer = IO::Socket::INET->new(Proto => 'udp', PeerAddr => '192.0.2.1',
                                  PeerPort => 9);
$outer = $outer && $outer->sockhost;

my @never = qw(0.0.0.0 0.1.2.3 169.254.169.254 169.254.170.2 169.254.170.23
               100.100.100.200 168.63.129.16 :: ::ffff:169.254.169.254
               ::ffff:0.0.0.0 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::
               2001:0:4136:e378:8000:63bf:5601:5601 fd00:ec2::254
               fd00:ec2::23 fd20:ce::254 ::169.254.169.254
               ::ffff:0:169.254.169.254 64:ff9b:1::a9fe:a9fe
               2606:4700::5efe:a9fe:a9fe);
my @local = (qw(127.0.0.1 127.0.0.7 127.9.9.9 0.0.0.0 ::ffff:127.0.0.1
                ::ffff:127.0.0.7 ::127.0.0.1 ::),
             $six ? '::1' : (), $outer ? ($outer, "::ffff:$outer") : ());

sub answers { return $_[0] =~ /:/ ? { AAAA => [$_[0]] } : { A => [$_[0]] } }

$dns->zone({ map({ ("never$_.test" => [answers($never[$_ - 1])]) }
                 1 .. @never),
             map({ ("local$_.test" => [answers($local[$_ - 1])]) }
                 1 .. @local),
             'status.test' => [{ A => ['127.0.0.1'] }],
             'lifted.test' => [{ A => ['127.0.0.3'] }],
             'six.test' => [{ AAAA => ['::1'] }],
             'both.test' => [{ A => ['169.254.169.254', '127.0.0.4'],
                               AAAA => ['fd00:ec2::254', '::'] }] });

$g = Stream->start(port => $wild, egress => $resolver,
                   listen => "0.0.0.0:$wild"
                             . ($six ? "; listen [::]:$wild ipv6only=on" : ''),
                   http => "server { listen 127.0.0.1:$status; return 200; }",
                   role => <<"ROLE");
allow_host @{[map { "never$_.test:$p" } 1 .. @never]};
allow_host @{[map { "local$_.test:$wild" } 1 .. @local]};
allow_host status.test:$status lifted.test:$p both.test:$p six.test:$p;
allow_private 0.0.0.0/0 ::/0;
allow_cidr 127.0.0.0/8;
ROLE

for my $i (1 .. @never) {
    judged("never, $never[$i - 1]", tunnel("never$i.test:$p"),
           'address_refused', "never$i.test");
    judged("never, $never[$i - 1], SOCKS5", socks("never$i.test", $p),
           'address_refused', "never$i.test");
}

for my $i (1 .. @local) {
    judged("our wildcard listener by $local[$i - 1]",
           tunnel("local$i.test:$wild"), 'address_refused', "local$i.test");
}

for my $address ("127.0.0.1:$wild", "127.3.2.1:$wild", "127.0.0.1:$status") {
    my ($host) = $address =~ /^(.*):/;
    judged("our listener by its address, $address", tunnel($address),
           'address_refused', $host);
}

judged('our listener of HTTP', tunnel("status.test:$status"),
       'address_refused', 'status.test');
judged('all other ranges are lifted', tunnel("lifted.test:$p"), '127.0.0.3',
       'lifted.test');
judged('one of them between others', tunnel("both.test:$p"), '127.0.0.4',
       'both.test');

SKIP: {
    skip 'no IPv6', 4 unless $six;
    judged('IPv6', tunnel("six.test:$p"), '::1', 'six.test');
}

is($g->log('access.log'), '', 'no request');
done();


# --- network all --------------------------------------------------------------

$dns->zone({
    'listed.test' => [{ A => ['127.0.0.3'] }],
    'loopback.test' => [{ A => ['127.0.0.1'] }],
    'loopback6.test' => [{ AAAA => ['::1'] }],
    'private.test' => [{ A => ['10.0.0.1', '192.168.0.1'] }],
    'metadata.test' => [{ A => ['169.254.169.254'] }],
    'global.test' => [{ A => ['8.8.8.8'] }],
    'global6.test' => [{ AAAA => ['2606:4700::1111'] }],
    'turns.test' => [{ A => ['8.8.8.8'], ttl => 0 },
                     { A => ['127.0.0.1'], ttl => 0 }],
    'mixed.test' => [{ A => ['127.0.0.1', '8.8.8.8'] }],
    '*' => [{ A => ['127.0.0.1'] }],
});

$g = Stream->start(egress => $resolver, role => <<"ROLE");
use api;
network all;
allow_host listed.test:$p;
allow_private 127.0.0.0/8 10.0.0.0/8 192.168.0.0/16 ::1;
ROLE

asked();

for my $case (['any.test', 80], ['any.test', 22], ['any.test', $p],
              ['any.test', 8443], ['listed.test', $p - 1], ['api.test', 80],
              ['third.test', 443, 'binding_refused'])
{
    my ($name, $port, $reason) = @$case;
    $reason //= 'destination_refused';

    judged("network all, $name:$port", tunnel("$name:$port"), $reason, $name);
    judged("network all, $name:$port, SOCKS5", socks($name, $port), $reason,
           $name);
}

is(bare('api.test'), 'server hello', 'network all, a bound name');
is(asked(), '', 'network all: none of these was asked for');

for my $name (qw(any.test listed.test loopback.test loopback6.test
                 private.test metadata.test))
{
    judged("network all, $name", tunnel("$name:443"), 'address_refused',
           $name);
    judged("network all, $name, SOCKS5", socks($name, 443),
           'address_refused', $name);
    judged("network all, $name, bare TLS", bare($name), 'address_refused',
           $name);
    judged("network all, $name, by an address",
           tunnel('127.0.0.1:443', sni => $name), 'address_refused', $name,
           1);
}

# nothing is sent to these: no ClientHello, no connection

for my $name (qw(global.test global6.test mixed.test turns.test)) {
    is(tunnel("$name:443", leave => 1), 'open', "network all, $name");
}

is(tunnel('global.test:443', data => Stream::hello('any.test')), 'alert',
   'network all, another name within');
is((news(1))[0]{reason}, 'host_mismatch', 'the record');

judged('allow_private is for the listed name', tunnel("listed.test:$p"),
       '127.0.0.3', 'listed.test');
is((() = asked() =~ /any\.test A\b(?!A)/g), 1, 'any name may be asked for');

expire();
judged('network all, global and then not', tunnel('turns.test:443'),
       'address_refused', 'turns.test');

done();


# --- a loop (X-54) ------------------------------------------------------------

# It leads back to the gateway by a relay that says CONNECT each time.

my $back = Fixture::free_port();
my $relay = Relay->start($back, "CONNECT loop.test:%d HTTP/1.1\r\n\r\n");

$dns->zone({ 'loop.test' => [{ A => ['127.0.0.2'] }],
             'fine.test' => [{ A => ['127.0.0.1'] }] });

$g = Stream->start(port => $back, egress => $resolver, workers => 2,
                   role => <<"ROLE");
allow_host loop.test:$relay->{port} fine.test:$p;
allow_private 127.0.0.1 127.0.0.2;
ROLE

for my $round (1 .. 3) {
    my $s = tunnel("loop.test:$relay->{port}", wait => 1, at_once => 1);
    my ($got, $how) = $g->get($s);

    like($got, qr/\Q$alert\E$/, "a loop, $round: ends with an alert");
    close $s;

    my @records;

    for (1 .. 200) {
        push @records, news(0);
        last if @records && grep({ $_->{event} eq 'completion' } @records)
                            == grep { $_->{decision} eq 'allow'
                                      && $_->{event} eq 'connection' }
                               @records;
        sleep 0.02;
    }

    my @loop = grep { $_->{reason} eq 'loop' } @records;

    is(scalar(@loop), 1, "a loop, $round: one record that says so");
    is("$loop[0]{event} $loop[0]{decision} $loop[0]{host}",
       'connection deny loop.test', "a loop, $round: what it says");

    my $n = () = $relay->count;
    cmp_ok($n, '>=', 1, "a loop, $round: it went round");
    cmp_ok($n, '<=', 64 * $round, "a loop, $round: not for long");

    judged("others are served after a loop, $round", tunnel("fine.test:$p"),
           '127.0.0.1', 'fine.test');
}

# what is over is no part of a loop

my $same = Stream::hello('fine.test');

is(join(' ', grep { $_ ne 'at 127.0.0.1' }
             map { tunnel("fine.test:$p", data => $same) } 1 .. 70), '',
   'the same ClientHello, one after the other');
news(140);
$hosts->moved;

done();

$relay->stop;
finish();

done_testing();
