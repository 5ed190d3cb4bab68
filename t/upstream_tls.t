# No request reaches a next hop that cannot show, in TLS 1.2 or later, that it
# is the host of the binding: DESIGN 6.7; security X-34, X-50
#
# Each certificate is tried twice: behind a fixed "upstream", and behind a name
# that is resolved.  What the other side got is counted there, in octets.

use strict;
use warnings;

use lib 't/fixture';
use Fixture;
use Stream;
use Dns;
use Raw;
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep);

my $json = JSON::PP->new->utf8;
my $dns = Dns->start({ '*' => [{ A => ['127.0.0.1'] }] });
my $dir = Fixture::dir() . '/pki';

mkdir $dir or die "$dir: $!";
mkdir "$dir/$_" for qw(new out);


# --- certificates -------------------------------------------------------------

# What is signed, in the order in which it is written here: a name, who signs
# it, and what is said about it: ext, dn, key, md, from, to.  A leaf is at
# NAME.test unless "host" says otherwise, and "send" has the certificates that
# are sent along with it.

my $san = sub { return 'subjectAltName=' . join ',', @_ };
my @ca = ('basicConstraints=critical,CA:TRUE',
          'keyUsage=critical,keyCertSign,cRLSign');

my (@make, %host, %send, @bad, @good);

sub make {
    my ($name, $issuer, %opt) = @_;

    push @make, { name => $name, issuer => $issuer, %opt };
}

sub signer { return make(@_, own => 1) }

# one that must not be accepted, and one that must be

sub leaf {
    my ($list, $name, $title, %opt) = @_;

    $host{$name} = $opt{host} // "$name.test";
    $send{$name} = $opt{send} || [];

    make($name, $opt{by} // 'root',
         ext => $opt{ext} || [$san->("DNS:$host{$name}")],
         map { defined $opt{$_} ? ($_ => $opt{$_}) : () }
             qw(dn key md from to));

    push @$list, { name => $name, title => $title, %opt };
}

sub bad { return leaf(\@bad, @_) }
sub good { return leaf(\@good, @_) }

my $past = '200101000000Z';

signer('mid', 'root', ext => \@ca);
signer('mid2', 'mid', ext => \@ca);
signer('old-mid', 'root', ext => \@ca, from => '190101000000Z', to => $past);
signer('no-ca', 'root', ext => ['basicConstraints=critical,CA:FALSE']);
signer('leaf-ca', 'root', ext => [$san->('DNS:leaf-ca.test')]);
signer('no-sign', 'root', ext => ['basicConstraints=critical,CA:TRUE',
                                'keyUsage=critical,cRLSign']);
signer('short', 'root', ext => ['basicConstraints=critical,CA:TRUE,pathlen:0',
                              'keyUsage=critical,keyCertSign']);
signer('below-short', 'short', ext => \@ca);
signer('only', 'root', ext => [@ca, 'nameConstraints=critical,'
                                  . 'permitted;DNS:within.test']);
signer('but', 'root', ext => [@ca, 'nameConstraints=critical,'
                                 . 'excluded;DNS:without.test']);
signer('mail', 'root', ext => [@ca, 'extendedKeyUsage=emailProtection']);
signer('weak-mid', 'root', ext => \@ca, key => 'rsa1024');
signer('deep1', 'root', ext => \@ca);
signer("deep$_", 'deep' . ($_ - 1), ext => \@ca) for 2 .. 6;

# the name

bad('other', 'a certificate for another name',
    ext => [$san->('DNS:elsewhere.test')]);
bad('above', 'for the domain above', host => 'www.above.test',
    ext => [$san->('DNS:above.test')]);
bad('below', 'for a name below', ext => [$san->('DNS:www.below.test')]);
bad('longer', 'for a name that begins the same',
    ext => [$san->('DNS:longer.test.evil.example')]);
bad('within', 'for a name that ends the same',
    host => 'in.within.example', ext => [$san->('DNS:.within.example')]);
bad('ported', 'the name with a port', ext => [$san->('DNS:ported.test:443')]);
bad('uri', 'the name in a URI alone',
    ext => [$san->('URI:https://uri.test/', 'DNS:elsewhere.test')]);
bad('email', 'the name in an address of mail alone',
    ext => [$san->('email:a@email.test', 'DNS:elsewhere.test')]);
bad('address', 'the address alone',
    ext => [$san->('IP:127.0.0.1', 'IP:::1')], dn => '/O=none');
bad('both', 'CN is the name, but there are other names',
    dn => '/CN=both.test', ext => [$san->('DNS:elsewhere.test')]);

# \x00 within: DER of SEQUENCE { [2] "nul.test\0.evil" }

bad('nul', 'NUL behind the name',
    ext => ['subjectAltName=DER:30:10:82:0e:'
            . join ':', map { sprintf '%02x', ord } split //,
                        "nul.test\0.evil"]);
bad('nul-last', 'NUL at the end of the name',
    ext => ['subjectAltName=DER:30:10:82:0e:'
            . join ':', map { sprintf '%02x', ord } split //,
                        "nul-last.test\0"]);

# wildcards: one whole label, the leftmost, with two or more behind it

bad('top', '*.test: a whole top-level domain', ext => [$san->('DNS:*.test')]);
bad('all', 'a star and nothing else', ext => [$san->('DNS:*')]);
bad('two', 'a wildcard for two labels', host => 'a.b.two.test',
    ext => [$san->('DNS:*.two.test')]);
bad('none', 'a wildcard for no label', host => 'none.example.test',
    ext => [$san->('DNS:*.none.example.test')]);
bad('middle', 'a wildcard in the middle', host => 'www.a.middle.test',
    ext => [$san->('DNS:www.*.middle.test')]);
bad('twice', 'two of them', host => 'a.b.twice.test',
    ext => [$san->('DNS:*.*.twice.test')]);
bad('inner', 'within a label', host => 'wxyzw.inner.test',
    ext => [$san->('DNS:w*y*w.inner.test')]);
bad('puny', 'in a label of punycode', host => 'xn--abc.puny.test',
    ext => [$san->('DNS:xn--*.puny.test')]);

# what OpenSSL would accept of old habits, and no CA of the public signs:
# RFC 9525, 6.3 and 4.1 in 2

bad('cn', 'CN alone', dn => '/CN=cn.test', ext => ['extendedKeyUsage='
                                                  . 'serverAuth']);
bad('cn-ip', 'an address, and CN is the name', dn => '/CN=cn-ip.test',
    ext => [$san->('IP:127.0.0.1')]);
bad('begin', 'a wildcard for the end of a label', host => 'begin.part.test',
    ext => [$san->('DNS:beg*.part.test')]);
bad('end', 'a wildcard for the begin of a label', host => 'end.part.test',
    ext => [$san->('DNS:*nd.part.test')]);

# time, key and signature

bad('expired', 'expired', from => '190101000000Z', to => $past);
bad('early', 'not valid yet', from => '490101000000Z',
    to => '491231000000Z');
bad('rsa512', 'RSA of 512 bits', key => 'rsa512', kind => 'tls12');
bad('rsa1024', 'RSA of 1024 bits', key => 'rsa1024');
bad('md5', 'signed with MD5', by => 'rsa', md => 'md5');
bad('sha1', 'signed with SHA-1', by => 'rsa', md => 'sha1');
bad('by-weak', 'signed by a CA of RSA of 1024 bits', by => 'weak-mid',
    send => ['weak-mid']);

# who signed it

bad('self', 'signed by itself', by => 'self');
bad('self-sent', 'signed by a CA that nobody trusts', by => 'untrusted');
bad('with-root', 'the same, the CA sent along', by => 'untrusted',
    send => ['untrusted']);
bad('by-namesake', 'signed by a CA of the name of a trusted one',
    by => 'namesake');
bad('lost', 'without the certificate between', by => 'mid');
bad('lost2', 'with one of two between', by => 'mid2', send => ['mid2']);
bad('by-no-ca', 'signed by what is no CA', by => 'no-ca',
    send => ['no-ca']);
bad('by-leaf', 'signed by the certificate of another host',
    by => 'leaf-ca', send => ['leaf-ca']);
bad('by-no-sign', 'signed by a CA that may not sign', by => 'no-sign',
    send => ['no-sign']);
bad('by-old', 'signed by a CA that is expired', by => 'old-mid',
    send => ['old-mid']);
bad('path', 'a longer path than the CA allows', by => 'below-short',
    send => ['below-short', 'short']);
bad('outside', 'outside of the names that the CA may sign', by => 'only',
    send => ['only']);
bad('a', 'among those that it may not', host => 'a.without.test',
    by => 'but', send => ['but']);
bad('by-mail', 'signed by a CA for mail', by => 'mail', send => ['mail']);
bad('deeper', 'six certificates between', by => 'deep6',
    send => [map { "deep$_" } reverse 1 .. 6]);

# what it is for

bad('client', 'for clients alone',
    ext => [$san->('DNS:client.test'), 'extendedKeyUsage=clientAuth']);
bad('code', 'for code', ext => [$san->('DNS:code.test'),
                                'extendedKeyUsage=critical,codeSigning']);
bad('crl', 'for lists of revoked ones',
    ext => [$san->('DNS:crl.test'), 'keyUsage=critical,cRLSign']);
bad('critical', 'with a critical extension that nobody knows',
    ext => [$san->('DNS:critical.test'), '1.2.3.4.5=critical,ASN1:NULL']);

# and those that are right

good('plain', 'the exact name');
good('upper', 'in capitals', ext => [$san->('DNS:UPPER.Test')]);
good('many', 'the last of many',
     ext => [$san->((map { "DNS:n$_.test" } 1 .. 60), 'DNS:many.test')]);
good('wild', 'a wildcard for one label', host => 'a.wild.test',
     ext => [$san->('DNS:*.wild.test')]);
good('wild-deep', 'a wildcard deeper down', host => 'a.b.wild-deep.test',
     ext => [$san->('DNS:*.b.wild-deep.test')]);
good('sent', 'the certificate between sent along', by => 'mid',
     send => ['mid']);
good('sent2', 'both of two', by => 'mid2', send => ['mid2', 'mid']);
good('mixed', 'in any order, with one that nobody needs', by => 'mid2',
     send => ['mid', 'no-ca', 'mid2']);
good('deep', 'five certificates between', by => 'deep5',
     send => [map { "deep$_" } reverse 1 .. 5]);
good('allowed', 'within the names that the CA may sign', by => 'only',
     host => 'a.within.test', send => ['only']);
good('usage', 'for servers and clients',
     ext => [$san->('DNS:usage.test'),
             'extendedKeyUsage=clientAuth,serverAuth']);
good('by-rsa', 'signed with RSA', by => 'rsa');
good('rsa2048', 'RSA of 2048 bits', key => 'rsa2048');
good('tls12', 'TLS 1.2', kind => 'tls12');

sub openssl { return Fixture::run('openssl', @_) }

# keys of CAs and of odd sizes are their own, all others have one

my %key;

sub key {
    my ($m) = @_;
    my $key = $m->{key} // ($m->{own} ? $m->{name} : 'leaf');

    return $key if -f "$dir/$key.key";

    openssl('req', '-new', ($key =~ /^rsa(\d+)$/ ? ('-newkey', "rsa:$1")
                            : ('-newkey', 'ec', '-pkeyopt',
                               'ec_paramgen_curve:prime256v1')),
            '-nodes', '-keyout', "$dir/$key.key", '-subj', '/CN=none',
            '-out', "$dir/$key.csr");

    return $key;
}

# one "openssl ca" for each: "openssl x509" has no times before 3.4

sub sign {
    my ($m) = @_;
    my $key = $key{$m->{name}} = key($m);

    Fixture::write_file("$dir/index", '');

    openssl('ca', '-batch', '-notext', '-config', "$dir/ca.cnf", '-in',
            "$dir/$key.csr", '-out', "$dir/$m->{name}.pem", '-subj',
            $m->{dn} // "/CN=$m->{name}", '-extensions', "x_$m->{name}",
            '-md', $m->{md} // 'sha256', '-startdate',
            $m->{from} // '240101000000Z', '-enddate',
            $m->{to} // '491231000000Z',
            $m->{issuer} eq 'self'
            ? ('-selfsign', '-keyfile', "$dir/$key.key")
            : ('-cert', "$dir/$m->{issuer}.pem", '-keyfile',
               "$dir/$key{$m->{issuer}}.key"));
}

for (['root', 'a root'], ['rsa', 'a root of RSA'],
     ['untrusted', 'another root'], ['namesake', 'a root'])
{
    my ($name, $cn) = @$_;

    $key{$name} = $name;

    openssl('req', '-x509', ($name eq 'rsa' ? ('-newkey', 'rsa:2048')
                             : ('-newkey', 'ec', '-pkeyopt',
                                'ec_paramgen_curve:prime256v1')),
            '-nodes', '-keyout', "$dir/$name.key", '-out', "$dir/$name.pem",
            '-subj', "/CN=$cn", '-days', 900, map { ('-addext', $_) } @ca);
}

my $cnf = <<"CNF";
[ca]
default_ca = d
[d]
database = $dir/index
new_certs_dir = $dir/new
rand_serial = yes
policy = any
unique_subject = no
email_in_dn = no
[any]
commonName = optional
organizationName = optional
CNF

for my $m (@make) {
    $cnf .= "[x_$m->{name}]\n" . join '', map { "$_\n" } @{ $m->{ext} };
}

Fixture::write_file("$dir/ca.cnf", $cnf);
Fixture::write_file("$dir/index.attr", "unique_subject = no\n");

Fixture::write_file("$dir/trusted.pem", Fixture::read_file("$dir/root.pem")
                                        . Fixture::read_file("$dir/rsa.pem"));

sign($_) for @make;

my %certs = ('*' => ["$dir/plain.pem", "$dir/leaf.key"]);

for my $name (keys %host) {
    my $chain = join '', map { Fixture::read_file("$dir/$_.pem") } $name,
                         @{ $send{$name} };

    $certs{$host{$name}} = [Fixture::write_file("$dir/out/$name.pem", $chain),
                            "$dir/$key{$name}.key"];
}


# --- who does not speak TLS as it should --------------------------------------

# kind of listener => what the client is told

my @kinds = (
    ['tls11', 'TLS 1.1 and nothing later', 'tls_alert_received'],
    ['old', 'a ServerHello of TLS 1.1', 'tls_protocol_error'],
    ['anon', 'no certificate', 'tls_alert_received'],
    ['text', 'plain text', 'tls_protocol_error'],
    ['first', 'plain text before the handshake', 'tls_protocol_error'],
    ['garbage', 'octets at random', 'tls_protocol_error'],
    ['alert', 'a fatal alert', 'tls_alert_received'],
    ['clear', 'HTTP without TLS', 'tls_protocol_error'],
    ['leave', 'closed in the handshake', 'connection_terminated'],
    ['silent', 'no answer to the hello', 'connection_timeout'],
);

my $up = Raw->start(
    certs => \%certs,
    listen => { map({ ($_->[0] => { '127.0.0.1' => $_->[0] }) } @kinds),
                tls => { '127.0.0.1' => 'tls' },
                tls12 => { '127.0.0.1' => 'tls12' } });

# the cases, each with a binding of its own

my @cases = (
    (map { { %$_, told => 'tls_certificate_error' } } @bad),
    (map { { name => $_->[0], title => $_->[1], told => $_->[2],
             kind => $_->[0], host => "k-$_->[0].test" } } @kinds),
    (map { { %$_, told => '' } } @good),
);

cmp_ok(scalar(@bad), '>=', 20, 'enough bad certificates');

for my $case (@cases) {
    my $kind = $case->{kind} // 'tls';

    $case->{port} = $up->port($kind);
    $case->{host} = $host{$case->{name}} if $host{$case->{name}};
    $case->{binding} = "b-$case->{title}" =~ s/\W+/-/gr;
}

sub gateway {
    my ($fixed) = @_;
    my $port = Fixture::free_port();

    my $bindings = join '', map { <<"BINDING" } @cases;
    binding "$_->{binding}" {
        hosts $_->{host}:$_->{port};
        @{[$fixed ? "upstream https://127.0.0.1:$_->{port};"
                  : 'allow_private 127.0.0.1;']}
        secret $ENV{TEST_NGINX_SECRET} static;
        placeholder $ENV{TEST_NGINX_PLACEHOLDER};
        access write;
    }
BINDING

    my $locations = join '', map { my $t = $_->{told} eq 'connection_timeout'
                                       ? 'proxy_connect_timeout 300ms;' : '';
        "location /$_->{binding}/ { egress_pass $_->{binding}; $t }\n" }
        @cases;

    my $g = Stream->start(
        trusted => "$dir/trusted.pem", bindings => $bindings,
        egress => $fixed ? '' : 'resolver 127.0.0.1:' . $dns->port
                                . ' ipv6=off;',
        http => "server { listen 127.0.0.1:$port; $locations }");

    return ($g, $port);
}

# the next record of a request that is over

sub done {
    my ($g) = @_;

    for (1 .. 1000) {
        my $text = substr $g->log('audit.json'), $g->{place} // 0;

        while ($text =~ s/^(.*)\n//) {
            my $line = $1;

            $g->{place} += length($line) + 1;
            return $json->decode($line) if $line =~ /"completion"/;
        }

        sleep 0.004;
    }

    return { map { ($_ => 'none') } qw(event status reason host) };
}

for my $fixed (1, 0) {
    my $way = $fixed ? 'a fixed upstream' : 'by name';
    my ($g, $port) = gateway($fixed);

    # the second request finds what the first one left, a session or none

    for my $case (@cases) {
        my $title = "$way: $case->{title}";
        my $n = 0;

        for my $method ('GET', $case->{told} eq 'connection_timeout'
                               ? () : 'POST')
        {
            my $a = Raw::ask($port, $method, "/$case->{binding}/x",
                             $method eq 'POST' ? (body => 'zebra') : ());

            if ($case->{told} eq '') {
                is("$a->{status} " . (Raw::field($a, 'X-Auth') // '')
                   . ' ' . (Raw::field($a, 'X-Sni') // ''),
                   "200 secret $case->{host}", "$title, $method: passes");
                done($g);
                next;
            }

            my $status = $case->{told} eq 'connection_timeout' ? 504 : 502;
            my $body = eval { $json->decode($a->{body}) } || {};

            is("$a->{status} $case->{told} " . ($body->{reason} // ''),
               "$status $case->{told} $case->{told}",
               "$title, $method: refused");
            like(Raw::field($a, 'Proxy-Status'),
                 qr/^egress-1; error=$case->{told}; details="$case->{told}: /,
                 "$title, $method: Proxy-Status");
            unlike($a->{all}, qr/127\.0\.0\.1|X-Evil|zebra|bad\z|
                                 \Q$ENV{TEST_NGINX_PLACEHOLDER}\E/x,
                   "$title, $method: and nothing else");

            my $r = done($g);
            is("$r->{event} $r->{status} $r->{reason} $r->{host}",
               "completion $status $case->{told} $case->{host}",
               "$title, $method: the record");
        }
    }

    # all that the other side has seen

    my %open;
    my %got = map { ($_->{host} => '') } grep { $_->{told} } @cases;

    for my $what ($up->wait_for(sub {
        my ($what) = @_;
        $open{$what->{conn}} = 1 if $what->{e} eq 'open';
        delete $open{$what->{conn}} if $what->{e} eq 'close';
        # those of the good are kept
        return keys %open <= @good;
    }))
    {
        if ($what->{e} eq 'request') {
            $got{$what->{host}} .= "$what->{method} "
                if exists $got{$what->{host}};
            $got{$what->{sni}} .= "$what->{method} "
                if exists $got{$what->{sni} // ''};
        }

        is_deeply($what->{leak} || [], [],
                  "$way: nothing of a request went out in plain text")
            if $what->{e} eq 'close';
    }

    is(join(' ', map { "$_: $got{$_}" } grep { $got{$_} ne '' } keys %got),
       '', "$way: no request reached any of them");

    # openssl's own words for what it is given
    is_deeply([grep { !/\[crit\].*SSL_do_handshake\(\) failed/ } $g->stop],
              [], "$way: nothing in the logs that should not be there");
}

$up->stop;
$dns->stop;

done_testing();
