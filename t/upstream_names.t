# A binding without "upstream" reaches its host by name: DESIGN 4.7, 5.2, 6.13;
# security X-51 to X-56, X-59; case O-13.  What becomes of its connections is in
# upstream_connections.t.

use strict;
use warnings;

use lib 't/fixture';
use Fixture;
use Names;
use Digest::MD5 qw(md5_hex);
use IO::Select;
use Test::More;
use Time::HiRes qw(sleep time);

my $start = time;


# --- a name, its addresses, and for how long they are kept --------------------

%zone = (
    'plain' => [{ A => ['127.0.0.1'] }],
    'second' => [{ A => ['127.0.0.2'] }],
    'alias' => [{ CNAME => 'plain.n.test' }],
    'short' => [{ A => ['127.0.0.1'], ttl => 1 }],
    'zero' => [{ A => ['127.0.0.1'], ttl => 0 }, { A => ['127.0.0.2'] }],
    'lost' => [{ A => ['127.0.0.1'], ttl => 0 }, { rcode => 'SERVFAIL' }],
    'gone' => [{ A => ['127.0.0.1'], ttl => 0 }, { rcode => 'NXDOMAIN' }],
    'long' => [{ A => ['127.0.0.1'], ttl => 86400 }],
    'six' => [{ AAAA => ['::1'] }],
    map({ ("slow$_" => [{ A => ['127.0.0.1'], delay => 2 }]) } 1 .. 9),
);

zone();

$g = gateway([sort keys %zone], ipv6 => 'on',
             egress => 'upstream_keepalive 0; resolver_timeout 20s;',
             binding => { six => 'allow_private ::1;' });

my $since = time;

is(told('a name', ask('GET', '/plain/a')), '200 127.0.0.1', 'a name');
is(asked('plain'), 'plain.n.test A plain.n.test AAAA',
   'it was asked for by both types');

is(told('again', ask($_, '/plain/a')), '200 127.0.0.1', "again: $_")
    for qw(GET DELETE OPTIONS);
is(told('an upload', ask('POST', '/plain/a', body => $payload)),
   '200 127.0.0.1', 'again: an upload');
is(asked('plain'), 'plain.n.test A plain.n.test AAAA', 'and once only');

is(told('an alias', ask('GET', '/alias/a')), '200 127.0.0.1', 'an alias');
is(told('another', ask('GET', '/second/a')), '200 127.0.0.2', 'another');

SKIP: {
    skip 'no IPv6', 1 unless $up->has('::1');
    is(told('IPv6', ask('GET', '/six/a')), '200 ::1', 'IPv6 alone');
}

for my $form (qw(bytewise delayed)) {
    my $a = ask('POST', '/plain/a', body => 'abc', form => $form);
    is(told($form, $a) . ' ' . Raw::field($a, 'X-Body'),
       '200 127.0.0.1 3 ' . md5_hex('abc'), "a request, $form");
}

is(told($_, ask('GET', "/$_/a")), '200 127.0.0.1', "for later: $_")
    for qw(short zero lost gone long);

my ($request) = grep { $_->{e} eq 'request' } $up->news;
is("$request->{host} $request->{sni} $request->{auth}",
   "plain.n.test:$p plain.n.test secret", 'the name is told by name');

SKIP: {
    skip 'no curl with HTTP/2', 4 unless $curl;

    for my $way ([], [direct => 1], [h1 => 1], [put => 1]) {
        my $a = curl('plain', '/a', @$way);
        is(told("curl @$way", $a) . ' ' . Raw::field($a, 'X-Auth'),
           '200 127.0.0.1 secret', "curl @$way");
    }
}


# --- while an answer is slow --------------------------------------------------

my %slow;

$slow{h1} = ask('GET', '/slow1/a', wait => 1);
$slow{keep} = ask('GET', '/slow1/a', wait => 1, keep => 1);
$slow{length} = ask('POST', '/slow2/a', wait => 1, body => $payload);
$slow{chunked} = ask('PUT', '/slow2/b', wait => 1, body => $payload,
                     chunked => 1);
$slow{expect} = ask('POST', '/slow2/c', wait => 1, body => '',
                    headers => ['Expect: 100-continue']);
$slow{half} = ask('POST', '/slow3/a', wait => 1,
                  headers => ['Content-Length: ' . length $payload]);
$slow{pipelined} = ask('GET', '/slow3/b', wait => 1, keep => 1);
ask('GET', '/plain/late', wait => 1, socket => $slow{pipelined});

my @many = map { ask('GET', '/slow4/a', wait => 1) } 1 .. 24;
my @leaving = map { ask('GET', '/slow4/gone', wait => 1) } 1 .. 6;
my $alone = ask('GET', '/slow5/gone', wait => 1);

# one that hangs up in the middle of its body
my $half = ask('POST', '/slow5/gone', wait => 1,
               headers => ['Content-Length: 100000']);
print $half 'x' x 5000;
$half->flush;

my (%curl, %pid);

if ($curl) {
    ($curl{get}) = curl('slow6', '/a', wait => 1);
    ($curl{direct}) = curl('slow6', '/b', wait => 1, direct => 1);
    ($curl{put}) = curl('slow7', '/a', wait => 1, put => 1);
    ($curl{post}) = curl('slow7', '/b', wait => 1, post => 1, direct => 1);
    ($curl{leaves}, $pid{leaves}) = curl('slow8', '/gone', wait => 1);
    ($curl{and}, $pid{and}) = curl('slow8', '/gone', wait => 1, put => 1,
                                   direct => 1);
}

# all that wait are known to the resolver by now

for (1 .. 500) {
    my @waiting = asked(map { "slow$_" } 1 .. 8) =~ / A\b/g;
    last if @waiting >= ($curl ? 8 : 5);
    sleep 0.01;
}

is(told('fast', ask('GET', '/plain/fast')), '200 127.0.0.1',
   'others are served while an answer is slow');

print { $slow{half} } substr $payload, 0, 150_000;
$slow{half}->flush;

close $_ for splice @leaving, 0, 4;
shutdown $_, 2 for @leaving;
close $alone;
close $half;
kill 'TERM', values %pid;

is(told('fast', ask('POST', '/plain/fast', body => $payload)),
   '200 127.0.0.1', 'and after some have left');

ok(!IO::Select->new($slow{h1})->can_read(0), 'the answer was slow indeed');

print { $slow{half} } substr $payload, 150_000;
$slow{half}->flush;

is(told($_, Raw::answer($slow{$_})), '200 127.0.0.1', "slow: $_")
    for qw(h1 keep);

for my $which (qw(length chunked half)) {
    my $a = Raw::answer($slow{$which});
    is(told($which, $a) . ' ' . (Raw::field($a, 'X-Body') // ''),
       "200 127.0.0.1 $digest", "slow: a body waits, $which");
}

like(Raw::answer($slow{expect})->{all}, qr{^HTTP/1\.1 (?:100|200) },
     'slow: Expect');

my $both = Raw::answer($slow{pipelined})->{all};
$both .= Raw::answer($slow{pipelined})->{all}
    if (() = $both =~ m{^HTTP/1\.1 200}mg) < 2;
is(scalar(() = $both =~ m{HTTP/1\.1 200}g), 2, 'slow: pipelined');

is(join(' ', map { told('many', Raw::answer($_)) } @many),
   join(' ', ('200 127.0.0.1') x @many), 'slow: many wait for one answer');
is(asked('slow4'), 'slow4.n.test A slow4.n.test AAAA', 'which is one');

is(told('keep', ask('GET', '/second/a', socket => $slow{keep})),
   '200 127.0.0.2', 'the connection goes on after it');

SKIP: {
    skip 'no curl with HTTP/2', 4 unless $curl;

    is(told("HTTP/2 $_", curled($curl{$_})), '200 127.0.0.1',
       "slow: HTTP/2, $_") for qw(get direct);

    for my $which (qw(put post)) {
        my $a = curled($curl{$which});
        is(told("HTTP/2 $which", $a) . ' ' . (Raw::field($a, 'X-Body') // ''),
           "200 127.0.0.1 $digest", "slow: HTTP/2, $which");
    }

    curled($curl{$_}) for qw(leaves and);
}

my ($opened, $paths) = news();
unlike($paths, qr/gone/, 'nothing was sent for those who left');


# --- when their time is over --------------------------------------------------

$dns->reset;
sleep 0.1 while time - $since < 2.1 || time - $start < 2.1;

# nginx keeps a name until the second is over

sleep 2.1;

is(told('later', ask('GET', '/zero/a')), '200 127.0.0.2',
   'a TTL of 0 is over, and the new address is used');
is(told('later', ask('GET', '/short/a')), '200 127.0.0.1', 'a TTL of 1');
is(told('later', ask('GET', "/$_/a")), '200 127.0.0.1', 'a longer one')
    for qw(plain long);
is(asked(qw(short plain long)), 'short.n.test A short.n.test AAAA',
   'asked for again as the TTL said');

records($_, 2) for qw(lost gone);

is(told('lost', ask('GET', '/lost/a')), '502 dns_error',
   'SERVFAIL: the last address is not used any longer');
denied('SERVFAIL', 'lost', 502, 'dns_error');
is(told('gone', ask('GET', '/gone/a')), '502 dns_error',
   'NXDOMAIN: nor here');
denied('NXDOMAIN', 'gone', 502, 'dns_error');

done();


# --- no answer ----------------------------------------------------------------

my @failing = (
    ['nxdomain', 'NXDOMAIN', { rcode => 'NXDOMAIN' }, '502 dns_error'],
    ['servfail', 'SERVFAIL', { rcode => 'SERVFAIL' }, '502 dns_error'],
    # nginx takes it for a word about its own question, and waits on
    ['formerr', 'FORMERR', { rcode => 'FORMERR' }, '504 dns_timeout'],
    ['refused', 'REFUSED', { rcode => 'REFUSED' }, '502 dns_error'],
    ['notimp', 'NOTIMP', { rcode => 'NOTIMP' }, '502 dns_error'],
    ['empty', 'an empty answer', {}, '502 dns_error'],
    ['toward', 'an alias of nothing', { CNAME => 'nothing.n.test' },
     '502 dns_error'],
    ['round', 'an alias of itself', { CNAME => 'round.n.test' },
     '502 dns_error'],
    ['drop', 'silence', { drop => 1 }, '504 dns_timeout'],
    ['garbage', 'octets at random', { garbage => 1 }, '504 dns_timeout'],
    ['id', 'another id', { A => ['127.0.0.1'], wrong_id => 1 },
     '504 dns_timeout'],
    ['question', 'about another name',
     { A => ['127.0.0.1'], other_name => 'plain.n.test' }, '504 dns_timeout'],
    ($dns->tcp ? ['cut', 'cut short, and whole by TCP',
                  { A => ['127.0.0.2'], truncate => 1 }, '200 127.0.0.2']
               : ()),
);

%zone = (plain => [{ A => ['127.0.0.1'] }],
         map { ($_->[0] => [$_->[2]]) } @failing);
zone();

for my $ipv6 (qw(off on)) {
    $g = gateway([sort keys %zone], ipv6 => $ipv6,
                 egress => 'resolver_timeout 1s;');
    $up->news;

    my $head = { headers => ['X-Mark: zebra'] };
    my @waiting = map { [$_, ask('GET', "/$_->[0]/a?okapi=1", wait => 1,
                                 keep => 1, %$head),
                         ask('POST', "/$_->[0]/b?okapi=1", wait => 1,
                             %$head, body => $payload),
                         $curl ? [curl($_->[0], '/c?okapi=1', wait => 1)]
                               : undef] } @failing;

    for (@waiting) {
        my ($case, $get, $post, $two) = @$_;
        my ($name, $title, $step, $expect) = @$case;

        $title .= ", ipv6=$ipv6";

        is(told($title, Raw::answer($get)), $expect, "$title: GET");
        is(told("$title: keep", ask('GET', '/plain/a', socket => $get)),
           '200 127.0.0.1', "$title: the connection goes on");
        is(told($title, Raw::answer($post)), $expect, "$title: POST");
        is(told($title, curled($two->[0])), $expect, "$title: HTTP/2")
            if $two;

        next if $expect =~ /^200/;

        my ($status, $reason) = split / /, $expect;
        my @r = records($name, $two ? 3 : 2);

        is(join(', ', map { join ' ', map { $_ // 'none' }
                            @$_{qw(event decision status reason
                                   upstream_addr)} } @r),
           join(', ', ("decision deny $status $reason none") x @r),
           "$title: the records");
    }

    my ($opened, $paths) = news();
    is(join(' ', sort grep { m{^/[bc]} } split / /, $paths),
       $dns->tcp ? '/b?okapi=1' . ($curl ? ' /c?okapi=1' : '') : '',
       "no answer, ipv6=$ipv6: and nothing was sent");

    done();
}

# nothing asks a resolver for a fixed next hop, or for what is refused

$dns->reset;
$g = gateway(['plain'], binding => { plain => "$private refuse * /no;" });
is(told('refused', ask('GET', '/plain/no')), '403 rule_refused',
   'a request that is refused');
is(asked(), '', 'its name is not asked for (X-56)');
done();


# --- forbidden addresses (X-52, X-53, O-13) -----------------------------------

my ($own, $wild) = map { Fixture::free_port() } 1, 2;
my $r = '502 address_refused';
my ($one, $two) = ('200 127.0.0.1', '200 127.0.0.2');

# name, what it answers, and what the client is told, in three rounds

my @rows = (
    ['loopback', [{ A => ['127.0.0.3'] }], $r],
    ['two', [{ A => ['127.0.0.3', '127.0.0.4'] }], $r],
    ['six', [{ AAAA => ['::1'] }], $r],
    ['mixed', [{ A => ['127.0.0.3', '127.0.0.1', '127.0.0.4'] }], $one],
    ['mixed-six', [{ A => ['127.0.0.1'], AAAA => ['::1'] }], $one],
    ['mixed-all', [{ A => ['127.0.0.3', '169.254.169.254', '10.0.0.1',
                           '127.0.0.2'], AAAA => ['::1', 'fd00::1'] }], $two],
    ['rebind', [{ A => ['127.0.0.1'] }, { A => ['127.0.0.3'] }], $one, $r],
    ['rebind-meta', [{ A => ['127.0.0.1'] }, { A => ['169.254.169.254'] }],
     $one, $r],
    ['rebind-six', [{ A => ['127.0.0.1'] }, { AAAA => ['::1'] }], $one, $r],
    ['rebind-mixed', [{ A => ['127.0.0.1'] },
                      { A => ['127.0.0.3', '127.0.0.2'] },
                      { A => ['127.0.0.3', '127.0.0.4'] }], $one, $two, $r],
    ['rebind-alias', [{ A => ['127.0.0.1'] }, { CNAME => 'bad.n.test' }],
     $one, $r],
    ['back', [{ A => ['127.0.0.3'] }, { A => ['127.0.0.1'] }], $r, $one],
    ['to-and-fro', [{ A => ['127.0.0.1'] }, { A => ['127.0.0.4'] },
                    { A => ['127.0.0.2'] }], $one, $r, $two],
    ['alias', [{ CNAME => 'bad.n.test' }], $r],
    ['alias-metadata', [{ CNAME => 'metadata.n.test' }], $r],
    ['metadata', [{ A => ['169.254.169.254'] }], $r],
    ['metadata-ecs', [{ A => ['169.254.170.2'] }], $r],
    ['metadata-ali', [{ A => ['100.100.100.200'] }], $r],
    ['metadata-azure', [{ A => ['168.63.129.16'] }], $r],
    ['metadata-six', [{ AAAA => ['fd00:ec2::254'] }], $r],
    ['this', [{ A => ['0.0.0.0'] }], $r],
    ['this-net', [{ A => ['0.1.2.3'] }], $r],
    ['any', [{ AAAA => ['::'] }], $r],
    ['private', [{ A => ['10.1.2.3', '172.16.0.1', '192.168.1.1'] }], $r],
    ['cgnat', [{ A => ['100.64.0.1'] }], $r],
    ['multicast', [{ A => ['224.0.0.1', '255.255.255.255'] }], $r],
    ['link', [{ AAAA => ['fe80::1'] }], $r],
    ['unique', [{ AAAA => ['fd00::1'] }], $r],
    ['mapped', [{ AAAA => ['::ffff:127.0.0.3'] }], $r],
    ['mapped-meta', [{ AAAA => ['::ffff:169.254.169.254'] }], $r],
    ['mapped-private', [{ AAAA => ['::ffff:10.0.0.1'] }], $r],
    ['compatible', [{ AAAA => ['::127.0.0.3'] }], $r],
    ['translated', [{ AAAA => ['::ffff:0:127.0.0.3'] }], $r],
    ['nat64', [{ AAAA => ['64:ff9b::a9fe:a9fe'] }], $r],
    ['nat64-loop', [{ AAAA => ['64:ff9b::127.0.0.3'] }], $r],
    ['nat64-local', [{ AAAA => ['64:ff9b:1::127.0.0.3'] }], $r],
    ['6to4', [{ AAAA => ['2002:7f00:3::'] }], $r],
    ['6to4-private', [{ AAAA => ['2002:a00:1::1'] }], $r],
    ['teredo', [{ AAAA => ['2001:0:102:304::80ff:fffc'] }], $r],
    ['isatap', [{ AAAA => ['fd00::5efe:127.0.0.3'] }], $r],
    ['own', [{ A => ['127.0.0.1'] }], $r],
    ['own-gateway', [{ A => ['127.0.0.1'] }], $r],
    ['own-wild', [{ A => ['127.0.0.2'] }], $r],
    ['own-mapped', [{ AAAA => ['::ffff:127.0.0.1'] }], $r],
);

push @rows, ['mapped-good', [{ AAAA => ['::ffff:127.0.0.1'] }], '200 127.0.0.1']
    if $up->has('::1');

# all that may be lifted is, in some

my $lifted = "$private allow_private 169.254.0.0/16 0.0.0.0/8 100.64.0.0/10
    fd00::/8 ::/96 ::ffff:0:0/96 ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48
    2002::/16 2001::/32;";

my %loose = map { ($_ => $lifted) }
            grep { /^(?:metadata|alias-metadata|rebind-meta|this|any|mapped|
                        compatible|translated|nat64|6to4|teredo|isatap|own)/x }
            map { $_->[0] } @rows;

# Once with connections that are kept, and once without.  A name has its own
# steps for each, since they are used up.

my %gate;

%zone = (bad => [{ A => ['127.0.0.3'] }],
         metadata => [{ A => ['169.254.169.254'], ttl => 0 }],
         map { my $row = $_;
               map { ("$row->[0]-$_" => [map { { %$_, ttl => 0 } }
                                         @{ $row->[1] }]) } 0, 32 } @rows);
zone();

for my $keep (0, 32) {
    my ($gate, $free, $listen) = map { Fixture::free_port() } 1 .. 3;
    my %own = (own => $listen, 'own-mapped' => $listen, 'own-gateway' => $gate,
               'own-wild' => $free);

    $gate{$keep} = gateway(
        [map { "$_->[0]-$keep" } @rows], ipv6 => 'on', port => $gate,
        egress => "upstream_keepalive $keep;",
        binding => { map { ("$_-$keep" => $loose{$_}) } keys %loose },
        host => { map { ("$_-$keep" => "$_-$keep.n.test:$own{$_}") }
                  keys %own },
        http => "server { listen 127.0.0.1:$listen; listen $free; }");
}

$up->news;

for my $round (1 .. 3) {

    # nginx keeps a name until the second is over
    sleep 2.1 if $round > 1;

    for my $row (@rows) {
        for my $keep (0, 32) {
            my ($name, $steps, @expect) = @$row;
            my $expect = $expect[$round - 1] // $expect[-1];
            my $title = "$name, keeping $keep, round $round";

            # what never changes is looked at once
            next if $round > 1 && @$steps == 1;

            $g = $gate{$keep};
            $name .= "-$keep";

            my $told = told($title, ask('GET', "/$name/a"));

            # a connection that is kept may lead to an earlier address
            $expect = $told if $keep && $expect =~ /^200/
                               && ($told eq $one || $told eq $two);

            is($told, $expect, $title);

            if ($expect eq $r) {
                denied($title, $name, 502, 'address_refused');

            } else {
                records($name, 2);
            }
        }
    }
}

my %at = map { ($_ => 1) } split / /, opened();
delete @at{'127.0.0.1', '127.0.0.2'};
is(join(' ', sort keys %at), '', 'no forbidden address saw a connection');

for (0, 32) {
    $g = $gate{$_};
    done();
}


# --- the same name twice: answers that the resolver has kept ------------------

# several bindings on one host have places of their own for its addresses

%zone = (many => [{ A => ['127.0.0.1', '127.0.0.2'], ttl => 600 }],
         more => [{ A => ['127.0.0.3', '127.0.0.1', '127.0.0.4', '127.0.0.2',
                          @closed], AAAA => ['::1', 'fd00::1'], ttl => 600 }],
         none => [{ A => ['127.0.0.3', '127.0.0.4'], ttl => 600 }]);
zone();
$dns->reset;

my @same = map { my $n = $_; map { "$n$_" } 1 .. 6 } qw(many more none);

$g = gateway(\@same, ipv6 => 'on',
             host => { map { ($_ => (/^([a-z]+)/)[0] . ".n.test:$p") } @same },
             binding => { map { ($_ => "$private path_prefix /$_;") } @same });
$up->news;

for my $n (1 .. 6) {
    for my $name (qw(many more)) {
        like(told("$name$n", ask('GET', "/$name$n/$name$n/a")),
             qr/^200 127\.0\.0\.[12]$/, "$name$n: a kept answer");
        like(told("$name$n", ask('POST', "/$name$n/$name$n/b", body => 'abc')),
             qr/^200 127\.0\.0\.[12]$/, "$name$n: again");
    }

    is(told("none$n", ask('GET', "/none$n/none$n/a")), $r,
       "none$n: a kept answer with forbidden addresses alone");
}

unlike(opened(), qr/127\.0\.0\.[34]|::1/,
       'no forbidden address saw a connection');
is(join(' ', sort split /(?<=A) /, asked(qw(many more none))),
   join(' ', map { ("$_.n.test A", "$_.n.test AAAA") } qw(many more none)),
   'each name was asked for once');

done();

finish();

done_testing();
