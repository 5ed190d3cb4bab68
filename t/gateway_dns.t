# The destination policy with names: DESIGN 4.3, 5.3, 6.13; security X-20,
# X-52 to X-56; cases O-13, O-14, O-16
#
# What a forbidden address sees is counted at that address: one process
# listens on many addresses at one port, and each check tells which of them
# had a connection, and how many.

use strict;
use warnings;

use lib 't/fixture';
use Fixture;
use Stream;
use Dns;
use Digest::MD5 qw(md5_hex);
use IO::Select;
use IO::Socket::INET;
use JSON::PP;
use Socket qw(SOL_SOCKET SO_LINGER);
use Test::More;
use Time::HiRes qw(sleep);

my $dns = Dns->start({});
my $hosts = Hosts->start(0, map({ "127.0.0.$_" } 1 .. 4, 6 .. 9), '::1')
    or die 'no port that is free at all addresses';
my $p = $hosts->{port};
my $six = exists $hosts->{last}{'::1'};

my $alert = "\x15\x03\x03\x00\x02\x02\x31";
my $established = "HTTP/1.1 200 Connection established\r\n\r\n";
my $opened = length $established;

# what CONNECT is told

my %told = (
    destination_refused => '403 http_request_denied destination_refused',
    binding_refused => '403 http_request_denied binding_refused',
    address_refused => '403 destination_ip_prohibited address_refused',
    dns_error => '502 dns_error dns_error',
    dns_timeout => '504 dns_timeout dns_timeout',
);

# and SOCKS5

my %reply = (destination_refused => 2, binding_refused => 2,
             address_refused => 2, dns_error => 4, dns_timeout => 4);

my $json = JSON::PP->new->utf8;
my $resolver = 'resolver 127.0.0.1:' . $dns->port . ' ipv6=on;';
my ($g, @done, @tunnels);

sub head { return "CONNECT $_[0] HTTP/1.1\r\n\r\n" }

sub request {
    my ($name, $port) = @_;

    return "\x05\x01\x00" . ($name =~ /^[0-9.]+$/
                             ? "\x01" . Socket::inet_aton($name)
                             : "\x03" . pack 'C/a*', $name)
           . pack 'n', $port;
}

# the records of a gateway, or those of a host, that nobody has asked for yet:
# so many at least

sub news {
    my ($n, $host) = @_;
    my (@records, @others);

    for (1 .. 1000) {

        # a line over the end of a page may be seen half written
        my @lines = substr($g->log('audit.json'), $g->{place} // 0)
                    =~ /^(.+)\n/mg;

        $g->{place} += length($_) + 1 for @lines;

        push @{ $g->{news} }, map { $json->decode($_) } @lines;

        @records = grep { !defined $host || $_->{host} eq $host }
                   @{ $g->{news} || [] };
        last if @records >= $n;
        sleep 0.004;
    }

    @others = grep { defined $host && $_->{host} ne $host }
              @{ $g->{news} || [] };
    $g->{news} = \@others;

    return @records;
}

# What the resolver was asked since the last time.  A question of our own has
# the same queue, so that all before it have been counted.

sub asked {
    my $s = IO::Socket::INET->new(Proto => 'udp', PeerAddr => '127.0.0.1',
                                  PeerPort => $dns->port);

    $s->send(pack('n6', 7, 0, 1, 0, 0, 0) . "\x05fence\0" . pack 'n2', 1, 1);
    IO::Select->new($s)->can_read(4) or die 'no answer of the DNS server';

    my @queries = grep { !/^fence / } $dns->queries;
    $dns->reset;

    return join ' ', @queries;
}

sub odd {
    my ($got) = @_;

    $got =~ s/([^ -~])/sprintf '\\x%02x', ord $1/ge;

    return 'odd: ' . substr $got, 0, 300;
}

# what a client gets that sends so much, once it is through; "$got" is what
# it has got already

sub through {
    my ($s, $sent, $got) = @_;
    my $pattern = qr/at \S+\n|\Q$alert\E|^\x16\x03\x03/;

    $got //= '';
    $got .= $g->get($s, $pattern) if $got !~ $pattern;

    return 'server hello' if $got =~ /^\x16\x03\x03/;
    return 'alert' if $got eq $alert;

    if ($got =~ /^at/) {
        shutdown $s, 1;
        $got .= $g->get($s);
    }

    my $total = length($sent) . ' ' . md5_hex($sent);

    return $got =~ /^at (\S+)\ntotal \Q$total\E\n$/ ? "at $1"
           : $got eq '' ? 'nowhere' : odd($got);
}

sub refusal {
    my ($got) = @_;

    return $got =~ m{^HTTP/1\.1\ (\d+)\ Blocked\ by\ gateway:\ [\ -~]+\r\n
                     Proxy-Status:\ egress-1;\ error=(\w+);
                     \ details="(\w+):\ [\ !\#-~]+"\r\n
                     .*\r\n\r\n\{.*"reason":"\3".*\}\n$}sx
           ? "$1 $2 $3" : odd($got);
}

# a tunnel by CONNECT: "more" goes in behind the ClientHello

sub tunnel {
    my ($target, %opt) = @_;
    my ($name) = $target =~ /^(.*):/;
    my $s = $g->socket;
    my $sni = exists $opt{sni} ? $opt{sni} : $name;
    my $data = $opt{data} // Stream::hello($sni) . ($opt{more} // 'more');
    my $head = head($target);

    $g->put($s, $head . ($opt{at_once} ? $data : ''), $opt{form});

    return $s if $opt{wait};

    my ($got) = $g->get($s, $opt{at_once} ? qr/^.{$opened}|^HTTP.*\}\n$/s
                                          : qr/^\Q$established\E$|\}\n$/);

    return refusal($got . $g->get($s)) if $got =~ /^HTTP\S+ [45]/;

    if ($opt{at_once}) {
        return odd($got) if substr($got, 0, $opened, '') ne $established;

    } else {
        return odd($got) if $got ne $established;

        $got = '';

        if ($opt{leave}) {
            push @tunnels, $s if $opt{leave} eq 'open';
            return 'open';
        }

        $g->put($s, $data, $opt{form});
    }

    return through($s, $data, $got);
}

sub socks {
    my ($name, $port, %opt) = @_;
    my $s = $g->socket;
    my $data = Stream::hello($opt{sni} // $name) . ($opt{more} // 'more');

    $g->put($s, "\x05\x01\x00" . request($name, $port)
                . ($opt{at_once} ? $data : ''), $opt{form});

    return $s if $opt{wait};

    # it may come together with what the server says
    my ($got) = $g->get($s, qr/^.{12}/s);
    my $reply = unpack 'H*', substr $got, 0, 12, '';

    return odd($reply) if $reply !~ /^0500050(.)0001000000000000$/;
    return "reply $1" if $1;

    $g->put($s, $data, $opt{form}) unless $opt{at_once};

    return through($s, $data, $got);
}

sub bare {
    my ($name, %opt) = @_;
    my $s = $g->socket;
    my $data = Stream::hello($name) . ($opt{more} // 'more');

    $g->put($s, $data, $opt{form});

    return $s if $opt{wait};

    return through($s, $data);
}

# The record, and the addresses that had a connection: these and no others.
# "$expect" is a reason, an address, several as "one|another", or nowhere;
# "$within" is set where an answer was given before the refusal.

sub judged {
    my ($title, $got, $expect, $host, $within) = @_;
    my $moved = $hosts->moved;
    my ($one, $end) = news($expect =~ /[.:]|nowhere/ ? 2 : 1, $host);
    my $name = $one->{host} // '';

    if ($expect =~ /[.:]/) {
        my ($to) = $got =~ /^at (.*)/;
        $to //= 'none';

        ok(scalar(grep { $_ eq $to } split /\|/, $expect),
           "$title: where it came to") or diag("$got, not $expect");
        is($moved, $to, "$title: that address and no other");
        is("$one->{event} $one->{decision} $one->{reason} $name",
           "connection allow allowed $host", "$title: the record");
        like($end->{upstream_addr} // '', qr/^\[?(?:::ffff:)?\Q$to\E\]?:\d+$/,
             "$title: the address in the completion");

    } elsif ($expect eq 'nowhere') {
        is($got, 'nowhere', "$title: nowhere");
        is($moved, '', "$title: no address was tried");
        is("$end->{event} $end->{status} " . ($end->{upstream_addr} // ''),
           "completion 502 127.0.0.5:$p", "$title: the completion");

    } else {
        my $via = $one->{via} // '';

        is($got, $within || $via eq 'tls' ? 'alert'
                 : $via eq 'socks5' ? "reply $reply{$expect}"
                 : $told{$expect}, "$title: what the client is told");
        is($moved, '', "$title: no address was tried");
        is("$one->{event} $one->{decision} $one->{reason} $name",
           "connection deny $expect $host", "$title: the record");
        is($one->{upstream_addr} // '', '', "$title: no upstream in it");
    }
}

# no more is to come of this gateway; that it ends is seen at the end

sub done {
    is($hosts->moved, '', 'no connection that we do not know of');
    is(scalar(news(0)), 0, 'nor a record');

    kill 'QUIT', $g->{pid};
    push @done, $g;
}

# to let a TTL of 0 run out: nginx keeps a name until the second is over

sub expire { sleep 2.1 }


# --- names that are not listed are never resolved (X-56) ----------------------

my $own = Fixture::free_port();
my $long = join '.', ('mfrggzdfmztwq2lknnwg23tpob' x 2) x 3, 'evil.test';

my @names = map { "name$_.test" } 1 .. 90;

$dns->zone({ 'good.test' => [{ A => ['127.0.0.1'] }],
             'more.test' => [{ A => ['127.0.0.2'] }],
             '*' => [{ A => ['127.0.0.1'], AAAA => ['::1'] }] });

$g = Stream->start(port => $own, egress => "$resolver resolver_timeout 20s;",
                   preread_timeout => '30s', level => 'info',
                   role => <<"ROLE");
use api other;
allow_host good.test:$p more.test:$p api.test api.test:$p third.test;
allow_host @{[map { "$_:$p" } @names]};
allow_host own.test:$own;
allow_private 127.0.0.1 127.0.0.2 127.0.0.5;
allow_private ::ffff:127.0.0.1 ::ffff:127.0.0.3 64:ff9b::/96 2002::/16;
allow_private 2001::/32 ::127.0.0.0/104 ::ffff:0:127.0.0.0/104;
ROLE

for my $case (
    ['a name that is not listed', 'evil.test', 443],
    ['at the port of others', 'evil.test', $p],
    ['data in a name', $long, 443],
    ['a listed name, another port', 'good.test', 443],
    ['and another', 'good.test', $p - 1],
    ['a name below a listed one', 'x.good.test', $p],
    ['a listed name within another', 'xgood.test', $p],
    ['a part of a listed name', 'test', $p],
    ['a bound name, another port', 'api.test', 22],
    ['a bound name, listed at another port', 'api.test', $p],
    ['a binding that is not used, listed', 'third.test', 443,
     'binding_refused'],
)
{
    my ($title, $name, $port, $reason) = @$case;
    $reason //= 'destination_refused';

    for my $form (qw(burst bytewise delayed)) {
        judged("CONNECT, $title, $form",
               tunnel("$name:$port", form => $form, at_once => 1), $reason,
               $name);
    }

    judged("SOCKS5, $title", socks($name, $port), $reason, $name);
    judged("SOCKS5, $title", socks($name, $port, at_once => 1), $reason,
           $name);
}

for my $case (['a name that is not listed', 'evil.test'],
              ['data in a name', $long],
              ['a name at another port', 'good.test'],
              ['a binding that is not used', 'third.test', 'binding_refused'])
{
    my ($title, $name, $reason) = @$case;
    $reason //= 'destination_refused';

    for my $form (qw(burst bytewise delayed)) {
        judged("bare TLS, $title, $form", bare($name, form => $form), $reason,
               $name);
    }

    my $host = $reason eq 'binding_refused' ? $name : '192.0.2.7';

    judged("CONNECT to an address, $title", tunnel('192.0.2.7:443',
                                                   sni => $name),
           $reason, $host, 1);
    judged("SOCKS5 to an address, $title", socks('192.0.2.7', 443,
                                                 sni => $name),
           $reason, $host, 1);
}

is(asked(), '', 'none of these names was asked for');


# --- a name that is bound and listed is handed over ---------------------------

is(tunnel('api.test:443'), 'server hello', 'bound and listed, CONNECT');
is(tunnel('API.test.:443', at_once => 1), 'server hello', 'at once');
is(socks('api.test', 443), 'server hello', 'bound and listed, SOCKS5');
is(bare('api.test'), 'server hello', 'bound and listed, bare TLS');
is(tunnel('192.0.2.7:443', sni => 'api.test'), 'server hello',
   'an address, and within a name that is bound and listed');
is($hosts->moved, '', 'handed over, and never passed through');
is(asked(), '', 'none of these was asked for');
is(scalar(news(0)), 0, 'and no connection record');


# --- a listed name with a good address ----------------------------------------

my $payload = join '', map { chr int rand 256 } 1 .. 300_000;

judged('CONNECT', tunnel("good.test:$p"), '127.0.0.1', 'good.test');
is(asked(), 'good.test A good.test AAAA', 'asked for once, by both types');

for my $form (qw(burst bytewise delayed)) {
    my $more = $form eq 'bytewise' ? substr $payload, 0, 300 : $payload;

    judged("CONNECT, $form", tunnel("good.test:$p", form => $form,
                                    more => $more),
           '127.0.0.1', 'good.test');
    judged("CONNECT at once, $form",
           tunnel("GOOD.Test.:$p", at_once => 1, form => $form,
                  sni => 'good.TEST', more => $more),
           '127.0.0.1', 'good.test');
    judged("SOCKS5, $form", socks('good.test', $p, form => $form,
                                  more => $more),
           '127.0.0.1', 'good.test');
    judged("SOCKS5 at once, $form", socks('Good.test', $p, at_once => 1,
                                          form => $form, more => $more),
           '127.0.0.1', 'good.test');
}

is(asked(), '', 'kept for as long as its TTL says');

# O-14: the name of the tunnel, and that within

for my $case (
    ['one that is not listed', Stream::hello('evil.test'), 'host_mismatch'],
    ['data in a name', Stream::hello($long), 'host_mismatch'],
    ['another listed name', Stream::hello('more.test'), 'host_mismatch'],
    ['a bound name', Stream::hello('api.test'), 'host_mismatch'],
    ['a longer name', Stream::hello('good.test.evil.test'), 'host_mismatch'],
    ['none', Stream::hello(undef), 'host_mismatch'],
    ['an address', Stream::hello('127.0.0.1'), 'malformed_request'],
    ['plain HTTP', "GET / HTTP/1.1\r\nHost: good.test\r\n\r\n", 'plain_http'],
    ['SSH', "SSH-2.0-x\r\n", 'plain_http'],
    ['zeros', "\0" x 40, 'malformed_request'],
)
{
    my ($title, $data, $reason) = @$case;

    for my $form (qw(burst bytewise)) {
        for my $at_once (0, 1) {
            my $got = tunnel("good.test:$p", data => $data, form => $form,
                             at_once => $at_once);
            is($got, $data =~ /^\x16/ ? 'alert' : 'nowhere',
               "within a tunnel: $title, $form");
            is($hosts->moved, '', "within a tunnel: $title: no connection");

            my ($one) = news(1);
            is("$one->{decision} $one->{reason}", "deny $reason",
               "within a tunnel: $title: the record");
        }
    }
}

is(asked(), '', 'and no name within was asked for');


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

my %zone = map { ("name$_.test" => $rows[$_ - 1][1]) } 1 .. @rows;

for my $steps (values %zone) {
    $_->{ttl} = 0 for @$steps;
}

cmp_ok(scalar(@rows), '<=', scalar(@names), 'a name for each sequence');
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


# --- names that do not resolve ------------------------------------------------

my %errors = (
    'nxdomain.test' => ['dns_error', { rcode => 'NXDOMAIN' }],
    'servfail.test' => ['dns_error', { rcode => 'SERVFAIL' }],
    'refused.test' => ['dns_error', { rcode => 'REFUSED' }],
    'formerr.test' => ['dns_timeout', { rcode => 'FORMERR' }],
    'empty.test' => ['dns_error', {}],
    'drop.test' => ['dns_timeout', { drop => 1 }],
    'id.test' => ['dns_timeout', { wrong_id => 1, A => ['127.0.0.1'] }],
    'garbage.test' => ['dns_timeout', { garbage => 1 }],
    'another.test' => ['dns_timeout', { other_name => 'fine.test',
                                        A => ['127.0.0.1'] }],
    'late.test' => ['dns_timeout', { delay => 30, A => ['127.0.0.1'] }],
);

$dns->zone({ map({ ($_ => [$errors{$_}[1]]) } keys %errors),
             'fine.test' => [{ A => ['127.0.0.1'] }] });

$g = Stream->start(egress => "$resolver resolver_timeout 1s;",
                   role => <<"ROLE");
allow_host @{[map { ("$_:$p", $_) } sort keys %errors]} fine.test:$p;
allow_private 127.0.0.1;
ROLE

my (%waiting, %reason);

for my $name (sort keys %errors) {
    push @{ $waiting{$name} },
        [connect => tunnel("$name:$p", wait => 1)],
        [connect => tunnel("$name:$p", wait => 1, at_once => 1)],
        [socks5 => socks($name, $p, wait => 1)],
        [socks5 => socks($name, $p, wait => 1, at_once => 1)],
        [tls => bare($name, wait => 1)];
}

judged("others are served meanwhile, $_", tunnel("fine.test:$p"),
       '127.0.0.1', 'fine.test') for 1 .. 5;

for my $name (sort keys %errors) {
    my $reason = $errors{$name}[0];

    for (@{ $waiting{$name} }) {
        my ($via, $s) = @$_;
        my ($got, $how) = $g->get($s);

        is($via eq 'connect' ? refusal($got) : unpack('H*', $got),
           $via eq 'connect' ? $told{$reason}
           : $via eq 'socks5' ? '0500050400010000' . '00000000'
           : unpack('H*', $alert), "$name by $via: what the client is told");
        is($how, 'eof', "$name by $via: then the end");
        $reason{"$via $name $reason"}++;
    }
}

is($hosts->moved, '', 'no address was tried');

my %seen;
$seen{"$_->{via} $_->{host} $_->{reason}"}++ for news(50);
is_deeply(\%seen, \%reason, 'a record for each of them, and no more');

judged('others are served afterwards', tunnel("fine.test:$p"), '127.0.0.1',
       'fine.test');

done();


# --- slow answers, and clients that do not wait for them ----------------------

$dns->zone({
    'fine.test' => [{ A => ['127.0.0.1'] }],
    'never.test' => [{ drop => 1 }],
    map({ ("slow$_.test" => [{ A => ['127.0.0.3', '127.0.0.1'],
                               delay => 0.3, ttl => 0 }]) } 1 .. 9),
    map({ ("gone$_.test" => [{ A => ['127.0.0.1'], delay => 0.4 }]) } 1 .. 9),
    'bad.test' => [{ rcode => 'NXDOMAIN', delay => 0.4 }],
});

$g = Stream->start(egress => "$resolver resolver_timeout 60s;",
                   preread_timeout => '60s', role => <<"ROLE");
allow_host fine.test:$p never.test:$p never.test bad.test:$p bad.test;
allow_host @{[map { ("slow$_.test:$p", "gone$_.test:$p") } 1 .. 9]};
allow_private 127.0.0.1;
ROLE

my @workers = $g->workers;

# these have no answer as long as the test lasts

my @idle = (map({ tunnel("never.test:$p", wait => 1, at_once => $_) } 0, 1),
            map({ socks('never.test', $p, wait => 1, at_once => $_) } 0, 1),
            bare('never.test', wait => 1));

judged("beside names without an answer, $_", tunnel("fine.test:$p"),
       '127.0.0.1', 'fine.test') for 1 .. 10;

my @ready = IO::Select->new(@idle[0, 1, 4])->can_read(0);
is(scalar(@ready), 0, 'which still wait');

# all at once, more than the gateway looks at while it waits

judged('a ClientHello before the name is known, CONNECT',
       tunnel("slow1.test:$p", at_once => 1, more => $payload),
       '127.0.0.1', 'slow1.test');
judged('octet by octet',
       tunnel("slow2.test:$p", at_once => 1, form => 'bytewise'),
       '127.0.0.1', 'slow2.test');
judged('in two parts',
       tunnel("slow3.test:$p", at_once => 1, form => 'delayed'),
       '127.0.0.1', 'slow3.test');
judged('a ClientHello before the name is known, SOCKS5',
       socks('slow4.test', $p, at_once => 1, more => $payload),
       '127.0.0.1', 'slow4.test');
judged('after it', tunnel("slow5.test:$p"), '127.0.0.1', 'slow5.test');

# the other name comes while the first is being resolved

is(tunnel("slow6.test:$p", at_once => 1, sni => 'fine.test'), 'alert',
   'another name, before the first is known');
is($hosts->moved, '', 'no address was tried');
is((news(1))[0]{reason}, 'host_mismatch', 'the record');

# a second CONNECT is not a second chance

is(tunnel("slow7.test:$p", at_once => 1, data => head("never.test:$p")
                                                 . Stream::hello('never.test')),
   'nowhere', 'another CONNECT, before the first is known');
is($hosts->moved, '', 'no address was tried');
is((news(1))[0]{reason}, 'plain_http', 'the record');

# several wait for one name, and some of them leave

sub reset_at_once {
    setsockopt $_[0], SOL_SOCKET, SO_LINGER, pack 'II', 1, 0;
    close $_[0];
}

my @gone = map { tunnel("gone1.test:$p", wait => 1) } 1 .. 6;
my @ways = (sub { close $_[0] }, \&reset_at_once, sub { shutdown $_[0], 1 });

$ways[$_ % 3]->($gone[$_]) for 0 .. 4;
$gone[$_] = undef for 0, 1, 3, 4;
is($g->get($gone[5], qr/\r\n\r\n/), $established, 'the one that stayed');

my $i = 1;

for my $name ('never.test', 'gone', 'bad.test') {
    for my $way (@ways) {
        for my $at_once (0, 1) {
            my $it = $name eq 'gone' ? 'gone' . ++$i . '.test' : $name;

            $way->(tunnel("$it:$p", wait => 1, at_once => $at_once));
            $way->(socks($it, $p, wait => 1, at_once => $at_once));
        }

        $way->(bare($name, wait => 1)) if $name ne 'gone';
    }
}

$ways[$_ % 3]->($idle[$_]) for 0 .. $#idle;
@idle = ();

# the answers that are still to come

sleep 0.5;
tunnel("slow8.test:$p");
$hosts->moved;
news(0);

judged('and others are served', tunnel("slow9.test:$p"), '127.0.0.1',
       'slow9.test');
is_deeply([$g->workers], \@workers, 'by the same worker');

done();


# --- the deadline comes while the name is being resolved ----------------------

$dns->zone({
    'fine.test' => [{ A => ['127.0.0.1'] }],
    map({ ("late$_.test" => [{ A => ['127.0.0.1'], delay => 1.3 }]) } 1 .. 9),
    map({ ("lost$_.test" => [{ rcode => 'NXDOMAIN', delay => 1.3 }]) }
        1 .. 9),
});

$g = Stream->start(egress => "$resolver resolver_timeout 20s;",
                   preread_timeout => '700ms', role => <<"ROLE");
allow_host @{[map { ("late$_.test:$p", "lost$_.test:$p") } 1 .. 9]};
allow_host fine.test:$p late1.test lost1.test;
allow_private 127.0.0.1;
ROLE

my @late;

for my $name ('late1.test', 'lost1.test') {
    push @late, ["CONNECT, $name", tunnel("$name:$p", wait => 1)],
                ["CONNECT at once, $name", tunnel("$name:$p", wait => 1,
                                                  at_once => 1)],
                ["SOCKS5, $name", socks($name, $p, wait => 1)],
                ["SOCKS5 at once, $name", socks($name, $p, wait => 1,
                                                at_once => 1)],
                ["bare TLS, $name", bare($name, wait => 1)];
}

for (@late) {
    my ($title, $s) = @$_;
    my ($got, $how) = $g->get($s);
    my $n = $title =~ /^CONNECT/ ? () = $got =~ /^HTTP\/1/mg
            : $title =~ /^SOCKS5/ ? length($got) == 12
            : $got eq $alert;

    is($n, 1, "the deadline, $title: one answer");
    is($how, 'eof', "the deadline, $title: then the end");
}

# the answers to what nobody waits for any more

sleep 1;
is(scalar(news(10)), 10, 'the deadline: one record for each of them');
is($hosts->moved, '', 'the deadline: no address was tried');
judged('and others are served', tunnel("fine.test:$p"), '127.0.0.1',
       'fine.test');
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


# --- bare TLS goes on to 443 --------------------------------------------------

SKIP: {
    my $secure = Hosts->start(443, '127.0.0.8', '127.0.0.9')
        or skip 'port 443 is not ours', 1;

    my $all = $hosts;
    $hosts = $secure;

    $dns->zone({
        'bare.test' => [{ A => ['127.0.0.8'] }],
        'both.test' => [{ A => ['127.0.0.9', '127.0.0.8'], ttl => 0 },
                        { A => ['127.0.0.9'], ttl => 0 }],
        'slow.test' => [{ A => ['127.0.0.8'], delay => 0.3, ttl => 0 }],
        'forbidden.test' => [{ A => ['127.0.0.9'] }],
    });

    $g = Stream->start(egress => $resolver, role => <<"ROLE");
allow_host bare.test both.test slow.test forbidden.test;
allow_cidr 127.0.0.8:443;
allow_private 127.0.0.8;
ROLE

    judged('SOCKS5 to an address, slowly resolved',
           socks('127.0.0.9', 443, sni => 'slow.test', at_once => 1,
                 more => $payload),
           '127.0.0.8', 'slow.test');

    for my $form (qw(burst bytewise delayed)) {
        my $more = $form eq 'bytewise' ? 'more' : $payload;

        judged("bare TLS, $form", bare('bare.test', form => $form,
                                       more => $more),
               '127.0.0.8', 'bare.test');
        judged("CONNECT, $form", tunnel('bare.test:443', form => $form,
                                        more => $more),
               '127.0.0.8', 'bare.test');

        # X-20: the address that the client has is of no meaning

        for my $address ('127.0.0.9', '192.0.2.7', '10.0.0.1') {
            judged("CONNECT $address and a listed name within, $form",
                   tunnel("$address:443", form => $form, more => $more,
                          sni => 'bare.test'),
                   '127.0.0.8', 'bare.test');
            judged("SOCKS5 to $address and a listed name within, $form",
                   socks($address, 443, form => $form, more => $more,
                         sni => 'bare.test'),
                   '127.0.0.8', 'bare.test');
        }

        judged("a forbidden address, $form", bare('forbidden.test',
                                                  form => $form),
               'address_refused', 'forbidden.test');
        judged("by the allowed address, $form",
               tunnel('127.0.0.8:443', form => $form,
                      sni => 'forbidden.test'),
               'address_refused', 'forbidden.test', 1);
    }

    # an address that is allowed itself, for a name that is not listed

    asked();
    judged('an allowed address, another name',
           tunnel('127.0.0.8:443', sni => 'evil.test'), '127.0.0.8',
           '127.0.0.8');
    judged('an allowed address, no name',
           tunnel('127.0.0.8:443', sni => undef), '127.0.0.8', '127.0.0.8');
    is(asked(), '', 'nothing was asked for');

    judged('bare TLS, two answers', bare('both.test'), '127.0.0.8',
           'both.test');
    expire();
    judged('bare TLS, the bad one is left', bare('both.test'),
           'address_refused', 'both.test');

    judged('bare TLS, slowly resolved', bare('slow.test', more => $payload),
           '127.0.0.8', 'slow.test');

    done();

    $hosts = $all;
    $secure->stop;
}


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

is_deeply([$_->stop], [], 'nothing in the logs that should not be there')
    for @done;

$relay->stop;
$hosts->stop;
$dns->stop;

done_testing();


# One process that listens on many addresses.  It says where a connection
# came to, and at its end what it got.  The control port accepts all that is
# waiting before it tells the numbers.

package Hosts;

use Digest::MD5;
use IO::Select;
use IO::Socket::INET;
use IO::Socket::IP;
use POSIX ();

sub start {
    my ($class, $port, @addresses) = @_;
    my (%listen, $control);

    for (1 .. 20) {
        %listen = ();

        for my $address (@addresses) {
            my $l = IO::Socket::IP->new(LocalHost => $address,
                                        LocalPort => $port, Listen => 256,
                                        ReuseAddr => 1,
                                        ($address =~ /:/ ? (V6Only => 1)
                                                         : ()));
            next if !$l && $address =~ /:/;

            if (!$l) {
                %listen = ();
                last;
            }

            $l->blocking(0);
            $listen{$address} = $l;
            $port ||= $l->sockport;
        }

        last if %listen || $port == 443;
        $port = 0;
    }

    return unless %listen;

    $control = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 16)
        or die "control: $!";

    my $self = bless { port => $port, control => $control->sockport,
                       owner => $$ }, $class;

    defined($self->{pid} = fork) or die "fork: $!";

    if ($self->{pid} == 0) {
        eval { serve($self->{owner}, $control, \%listen) };
        POSIX::_exit(1);
    }

    $self->moved;

    return $self;
}

sub serve {
    my ($owner, $control, $listen) = @_;
    my $in = IO::Select->new($control, values %$listen);
    my %count = map { ($_ => 0) } keys %$listen;
    my %open;

    $SIG{PIPE} = 'IGNORE';

    my $accept = sub {
        for my $address (keys %$listen) {
            while (my $c = $listen->{$address}->accept) {
                $c->blocking(1);
                $in->add($c);
                $open{$c} = { at => $address, total => 0,
                              md5 => Digest::MD5->new };
                $count{$address}++;
            }
        }
    };

    while (getppid() == $owner) {
        for my $fh ($in->can_read(0.3)) {
            if ($fh == $control) {
                my $c = $control->accept or next;
                $accept->();
                print $c join ' ', map { "$_ $count{$_}" } sort keys %count;
                close $c;
                next;
            }

            my $o = $open{$fh};
            $accept->(), next unless $o;

            my $n = sysread $fh, my $buf, 65536;

            if ($n) {
                syswrite $fh, "at $o->{at}\n" unless $o->{total};
                $o->{total} += $n;
                $o->{md5}->add($buf);
                next;
            }

            syswrite $fh, "total $o->{total} " . $o->{md5}->hexdigest . "\n"
                if defined $n;
            delete $open{$fh};
            $in->remove($fh);
            close $fh;
        }
    }

    POSIX::_exit(0);
}

# the addresses that had connections since the last time

sub moved {
    my ($self) = @_;
    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                  PeerPort => $self->{control})
        or die "control: $!";
    my %count = split ' ', join '', <$s>;
    my @moved;

    for (sort keys %count) {
        my $n = $count{$_} - ($self->{last}{$_} // 0);
        push @moved, $n == 1 ? $_ : "$_ x $n" if $n;
    }

    $self->{last} = \%count;

    return join ' ', @moved;
}

sub stop {
    my ($self) = @_;

    local ($?, $!, $@);
    return if $self->{owner} != $$ || !$self->{pid};

    kill 'TERM', $self->{pid};
    waitpid delete $self->{pid}, 0;
}

sub DESTROY { $_[0]->stop }


# A relay on 127.0.0.2 that leads to a port of 127.0.0.1, where it says
# something first.  It keeps a mark for each connection.

package Relay;

use parent -norequire, 'Hosts';

sub start {
    my ($class, $to, $first) = @_;
    my $l = IO::Socket::INET->new(LocalAddr => '127.0.0.2', Listen => 256,
                                  Blocking => 0) or die "relay: $!";
    my $self = bless { port => $l->sockport, owner => $$,
                       file => Fixture::dir() . '/relay' }, $class;

    defined($self->{pid} = fork) or die "fork: $!";

    if ($self->{pid} == 0) {
        eval { relay($self, $l, $to, sprintf $first, $self->{port}) };
        POSIX::_exit(1);
    }

    return $self;
}

sub relay {
    my ($self, $l, $to, $first) = @_;
    my $in = IO::Select->new($l);
    my %other;

    $SIG{PIPE} = 'IGNORE';
    open my $marks, '>>', $self->{file};
    $marks->autoflush(1);

    while (getppid() == $self->{owner}) {
        for my $fh ($in->can_read(0.3)) {
            if ($fh == $l) {
                my $c = $l->accept or next;
                my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                              PeerPort => $to) or next;

                print $marks "connection\n";
                $c->blocking(1);
                syswrite $s, $first;
                $in->add($c, $s);
                $other{$c} = $s;
                $other{$s} = $c;
                next;
            }

            my $other = $other{$fh};
            my $n = sysread $fh, my $buf, 65536;

            if ($n) {
                syswrite $other, $buf;
                next;
            }

            # one direction has ended, or both
            shutdown $other, 1;
            $in->remove($fh);
            delete $other{$fh};

            close $fh, close $other if !$other{$other};
        }
    }

    POSIX::_exit(0);
}

sub count { return split /\n/, Fixture::read_file($_[0]{file}) }
