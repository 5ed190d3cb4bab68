# A binding without "upstream" reaches its host by name: DESIGN 4.7, 5.2, 6.6,
# 6.7, 6.13; security X-51 to X-56, X-59, A-16; case O-13
#
# What a next hop gets is told by that next hop, which listens on several
# addresses at one port: Raw.  Whether one had a connection at all, too.

use strict;
use warnings;

use lib 't/fixture';
use Fixture;
use Stream;
use Dns;
use Raw;
use Digest::MD5 qw(md5_hex);
use IO::Select;
use IO::Socket::INET;
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);

my $json = JSON::PP->new->utf8;
my $P = $ENV{TEST_NGINX_PLACEHOLDER};
my $start = time;

Fixture::certificate('names', '/CN=names', 500, 'subjectAltName=DNS:*.n.test');

my $files = Fixture::dir();
my $dns = Dns->start({});

my $up = Raw->start(
    certs => { '*' => ["$files/names.pem", "$files/names.key"] },
    listen => { main => { map({ ("127.0.0.$_" => 'tls') } 1 .. 4),
                          '127.0.0.6' => 'close', '127.0.0.7' => 'alert',
                          '127.0.0.8' => 'leave', '127.0.0.9' => 'reset',
                          '127.0.0.10' => 'silent',
                          '::1' => 'tls' } });

my $p = $up->port('main');

# nobody listens at these, and no other address may be connected to

my @closed = map { "127.0.0.$_" } 20 .. 23;
my $private = 'allow_private 127.0.0.1 127.0.0.2 127.0.0.6 127.0.0.7 127.0.0.8'
              . ' 127.0.0.9 127.0.0.10 127.0.0.20/30;';

my $payload = join '', map { chr int rand 256 } 1 .. 300_000;
my $digest = length($payload) . ' ' . md5_hex($payload);

# A gateway with a binding for each name: "name" is at name.n.test, and below
# /name/ of a listener that needs no TLS, with HTTP/1.1 and with HTTP/2.

sub gateway {
    my ($names, %opt) = @_;
    my ($one, $two) = map { Fixture::free_port() } 1, 2;
    my $more = $opt{binding} || {};
    my $location = $opt{location} // '';

    my $bindings = join '', map { my $host = $opt{host}{$_} // "$_.n.test:$p";
                                  <<"BINDING" } @$names;
    binding $_ {
        hosts $host;
        secret $ENV{TEST_NGINX_SECRET} static;
        placeholder $P;
        access write;
        @{[$more->{$_} // $private]}
    }
BINDING

    $bindings =~ s/secret \S+ static;/secret $opt{secret};/g if $opt{secret};

    my $places = join "\n",
                 map { "location /$_/ { egress_pass $_; $location }" } @$names;
    my $egress = $opt{egress} // '';

    my $g = Stream->start(
        trusted => "$files/names.pem", bindings => $bindings, http2 => 'http2',
        egress => 'resolver 127.0.0.1:' . $dns->port
                  . " ipv6=@{[$opt{ipv6} // 'off']}; $egress",
        port => $opt{port}, workers => $opt{workers},
        http => "server { listen 127.0.0.1:$one; $places }
                 server { listen 127.0.0.1:$two http2; $places }"
                . ($opt{http} // ''));

    @$g{qw(one two)} = ($one, $two);

    return $g;
}

my $g;

sub ask { return Raw::ask($g->{one}, @_) }

# "status address" of an answer, or "status reason" of a refusal; what a
# refused client gets is looked at in any case

sub told {
    my ($title, $a) = @_;
    my $at = Raw::field($a, 'X-At');

    return "$a->{status} $at" if defined $at && $a->{status} == 200;

    my $body = eval { $json->decode($a->{body}) } || {};
    my $reason = $body->{reason} // 'none';
    my $error = { address_refused => 'destination_ip_prohibited',
                  rule_refused => 'http_request_denied',
                  credential_missing => 'http_request_denied' }->{$reason}
                // $reason;

    like(Raw::field($a, 'Proxy-Status'),
         qr/^egress-1; error=$error; details="$reason: [^"]+"$/,
         "$title: Proxy-Status");
    is(($body->{status} // '') . ' ' . (Raw::field($a, 'Content-Type') // '')
       . ' ' . ($body->{type} // ''),
       "$a->{status} application/problem+json urn:nginx-egress:problem:"
       . $reason, "$title: a problem body");
    unlike($a->{all}, qr/127\.|\d+\.\d+\.\d+\.\d+|::|n\.test|zebra|okapi|
                         \Q$P\E|X-At|X-Part/xi,
           "$title: no address, name, header or query in it");

    return "$a->{status} $reason";
}

# curl, by CONNECT and TLS, as a client of the gateway; or by HTTP/2 without
# TLS to the other listener.  The answer, or with "wait" a handle for it.

my $curl_help = `curl --version 2>/dev/null`;
my $curl = $curl_help =~ /HTTP2/;

sub curl {
    my ($name, $path, %opt) = @_;
    my $file = "$files/upload";

    Fixture::write_file($file, $payload, 0644) unless -f $file;

    my $version = $opt{h1} ? '--http1.1'
                  : $opt{direct} ? '--http2-prior-knowledge' : '--http2';
    my @to = $opt{direct}
             ? ("http://127.0.0.1:$g->{two}/$name$path")
             : ('--proxy', "http://127.0.0.1:$g->{port}",
                '--suppress-connect-headers', '--cacert', "$files/ca.pem",
                "https://$name.n.test:$p$path");

    my @cmd = ('curl', '-q', '-si', $version, '-m', 30, '-H',
               "Authorization: Bearer $P", '-H', 'X-Mark: zebra',
               ($opt{put} ? ('-T', $file) : ()),
               ($opt{post} ? ('--data-binary', "\@$file") : ()),
               ($opt{method} ? ('-X', $opt{method}) : ()), @to);

    my $pid = open(my $out, '-|', @cmd) or die "curl: $!";

    return ($out, $pid) if $opt{wait};
    return curled($out);
}

sub curled {
    my ($out) = @_;
    my $got = do { local $/; <$out> } // '';

    close $out;

    my ($head, $body) = split /\r\n\r\n/, $got, 2;
    my ($status) = ($head // '') =~ m{^HTTP/\S+ (\d+)};

    return { head => $head // '', body => $body // '', all => $got,
             status => $status // 0 };
}

# the records about a host that nobody has asked for yet; so many at least

sub records {
    my ($name, $n) = @_;
    my @records;

    for (1 .. 1000) {
        my $text = substr $g->log('audit.json'), $g->{place} // 0;

        while ($text =~ s/^(.*)\n//) {
            $g->{place} += length($1) + 1;
            my $r = $json->decode($1);
            push @{ $g->{records}{$r->{host}} }, $r;
        }

        @records = @{ $g->{records}{"$name.n.test"} || [] };
        last if @records >= $n;
        sleep 0.004;
    }

    delete $g->{records}{"$name.n.test"};

    return @records;
}

# one record of a refusal, before anything was tried

sub denied {
    my ($title, $name, $status, $reason) = @_;
    my @r = records($name, 1);

    is(join(' ', map { $_ // 'none' }
            map { @$_{qw(event decision status reason upstream_addr)} } @r),
       "decision deny $status $reason none", "$title: the record");
}

# what the resolver was asked since the last time, without what others did

sub asked {
    my (@names) = @_;
    my $s = IO::Socket::INET->new(Proto => 'udp', PeerAddr => '127.0.0.1',
                                  PeerPort => $dns->port);

    # a question of our own has the same queue
    $s->send(pack('n6', 7, 0, 1, 0, 0, 0) . "\x05fence\0" . pack 'n2', 1, 1);
    IO::Select->new($s)->can_read(10) or die 'no answer of the DNS server';

    my %want = map { ("$_.n.test" => 1) } @names;

    return join ' ', grep { my ($n) = split / /; !@names || $want{$n} }
                     grep { !/^fence / } $dns->queries;
}

# "at" of each new connection, and the paths of requests, in order

sub news {
    my (@news) = @_ ? @_ : $up->news;

    return (join(' ', map { $_->{at} } grep { $_->{e} eq 'open' } @news),
            join(' ', map { "$_->{method} $_->{path}" }
                      grep { $_->{e} eq 'request' } @news),
            @news);
}

sub opened { return (news(@_))[0] }

# the connection of the next hop that a request had: "number nth"

sub conn {
    my ($name, $method, $path, %opt) = @_;
    my $a = ask($method // 'GET', "/$name" . ($path // '/a'), %opt);

    is($a->{status} . ' ' . (Raw::field($a, 'X-Sni') // ''),
       "200 $name.n.test", "$name: the connection is one for its name");

    return Raw::field($a, 'X-Conn') . ' ' . Raw::field($a, 'X-Nth');
}

my @done;

sub done {
    kill 'QUIT', $g->{pid};
    push @done, $g;
}


# --- a name, its addresses, and for how long they are kept --------------------

my %zone = (
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

sub zone { $dns->zone({ map { ("$_.n.test" => $zone{$_}) } keys %zone }) }

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


# --- connections that will be idle for long, looked at below -----------------

# DESIGN 6.7: what cannot be sent twice takes none that was idle over 5 s

%zone = map { ($_ => [{ A => ['127.0.0.1'], ttl => 600 }]) } qw(idle1 idle2);
zone();

$g = my $idle = gateway([qw(idle1 idle2)]);
my @idle = map { (split / /, conn($_))[0] } qw(idle1 idle2);
my $idle_since = time;


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

push @done, $g;
is(scalar(grep { index($_->log('error.log') . $_->log('audit.json'), $next)
                 >= 0 } $g), 0, 'and no log has the other secret');


# --- connections that were idle for long --------------------------------------

$g = $idle;
sleep 0.1 while time - $idle_since < 5.3;
like(conn('idle1', 'POST', '/a', body => 'abc'), qr/^(?!$idle[0] )\d+ 1$/,
     'a POST does not take one that was idle for long');
is(conn('idle2'), "$idle[1] 2", 'a GET does');
done();

for my $i (0 .. $#done) {
    is_deeply([$done[$i]->stop], [],
              "gateway $i: nothing in the logs that should not be there");
    unlike($done[$i]->log('error.log'), qr/exited on signal/,
           "gateway $i: no worker died");
}

$up->stop;
$dns->stop;

done_testing();
