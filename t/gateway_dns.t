# The destination policy with names, and how they are looked up: DESIGN 4.3,
# 5.3, 6.13; security X-20, X-56; case O-14.  What addresses they may have is
# in gateway_addresses.t.
#
# What a forbidden address sees is counted at that address: one process
# listens on many addresses at one port, and each check tells which of them
# had a connection, and how many.

use strict;
use warnings;

use lib 't/fixture';
use Fixture;
use Tunnels;
use IO::Select;
use Socket qw(SOL_SOCKET SO_LINGER);
use Test::More;
use Time::HiRes qw(sleep);

$dns = Dns->start({});
$hosts = Hosts->start(0, map({ "127.0.0.$_" } 1 .. 4, 6 .. 9), '::1')
    or die 'no port that is free at all addresses';

my $p = $hosts->{port};
my $resolver = resolver();


# --- names that are not listed are never resolved (X-56) ----------------------

my $long = join '.', ('mfrggzdfmztwq2lknnwg23tpob' x 2) x 3, 'evil.test';

$dns->zone({ 'good.test' => [{ A => ['127.0.0.1'] }],
             'more.test' => [{ A => ['127.0.0.2'] }],
             '*' => [{ A => ['127.0.0.1'], AAAA => ['::1'] }] });

$g = Stream->start(egress => "$resolver resolver_timeout 20s;",
                   preread_timeout => '30s', level => 'info',
                   role => <<"ROLE");
use api other;
allow_host good.test:$p more.test:$p api.test api.test:$p third.test;
allow_private 127.0.0.1 127.0.0.2;
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

finish();

done_testing();
