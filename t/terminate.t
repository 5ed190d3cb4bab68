# egress_terminate: leaves for bound names, and nothing for others: DESIGN 6.1,
# 6.14, security X-10 to X-16, X-24, X-25
#
# A plain location of the same nginx speaks TLS to the terminator, verifies its
# leaf, and so lets a request over a plain socket choose SNI and Host.

use lib 't/lib', 't/fixture';
use Fixture;
use Test::Nginx::Socket 'no_plan';

our $P = $ENV{TEST_NGINX_PLACEHOLDER};
our $Long = join '.', ('a' x 60) x 4;

our $Main = <<'CONF';
egress {
    name                 egress-1;
    ca                   $TEST_NGINX_FIXTURE_DIR/ca.pem $TEST_NGINX_FIXTURE_DIR/ca.key;
    audit_log            $TEST_NGINX_FIXTURE_DIR/t.json;
    trusted_certificate  $TEST_NGINX_FIXTURE_DIR/trusted.pem;
    binding api {
        hosts        api.test;
        upstream     https://127.0.0.1:$TEST_NGINX_UPSTREAM_PORT;
        secret       $TEST_NGINX_SECRET static;
        placeholder  $TEST_NGINX_PLACEHOLDER;
    }
    binding other {
        hosts        other.test other.test:8443;
        upstream     https://127.0.0.1:$TEST_NGINX_UPSTREAM_PORT;
    }
    binding long {
        hosts        LONG;
        upstream     http://127.0.0.1:$TEST_NGINX_CLEAR_PORT;
    }
}
CONF

$Main =~ s/LONG/$Long/;

# $sni, $host: what the handshake and the request name

our $Http = sub {
    my ($server) = @_;
    $server //= '';
    return <<"CONF";
    server {
        listen 127.0.0.1:\$TEST_NGINX_RAND_PORT_1 ssl;
        egress_terminate on;
        $server
        location / { egress_pass; }
    }
CONF
};

our $Front = sub {
    my ($sni, $host) = @_;
    $host //= $sni;
    return <<"CONF";
    location / {
        proxy_pass https://127.0.0.1:\$TEST_NGINX_RAND_PORT_1;
        proxy_ssl_server_name on;
        proxy_ssl_name $sni;
        proxy_ssl_verify on;
        proxy_ssl_trusted_certificate \$TEST_NGINX_FIXTURE_DIR/ca.pem;
        proxy_set_header Host $host;
        proxy_http_version 1.1;
    }
CONF
};

# a TLS client of its own; prints what it was told

sub s_client {
    my ($args, $input) = @_;
    my $port = $Test::Nginx::Util::RandPorts->{TEST_NGINX_RAND_PORT_1};
    my $file = Fixture::write_file('s_client.in', $input // '');
    return `timeout 5 openssl s_client -connect 127.0.0.1:$port -CAfile $ENV{TEST_NGINX_FIXTURE_DIR}/ca.pem $args < $file 2>&1`;
}

add_block_preprocessor(sub {
    my $block = shift;

    $block->set_value(main_config => $Main) unless defined $block->main_config;
    $block->set_value(http_config => $Http->())
        unless defined $block->http_config;
    $block->set_value(config => $Front->('api.test'))
        unless defined $block->config;
    $block->set_value(request => 'GET /user')
        unless defined $block->request || defined $block->must_die;
    $block->set_value(more_headers => "Authorization: Bearer $P")
        unless defined $block->more_headers;
});

no_root_location();
no_long_string();
run_tests();

__DATA__

=== TEST 1: a leaf that verifies, and the swap
--- response_headers
X-Auth: bearer-secret
X-Host: api.test
--- no_error_log
[error]



=== TEST 2: another bound name has a leaf of its own; the placeholder is text there (X-03, O-04)
--- config eval
$::Front->('other.test')
--- response_headers
X-Auth: bearer-placeholder
X-Host: other.test



=== TEST 3: a name over 64 characters: no CN, all the same valid
--- config eval
$::Front->($::Long)
--- error_code: 200



=== TEST 4: SNI of one bound host, Host of another (X-10, O-09)
--- config eval
$::Front->('other.test', 'api.test')
--- error_code: 421
--- response_headers_like
Proxy-Status: egress-1; error=http_request_error; details="host_mismatch: .*"



=== TEST 5: Host that is not bound
--- config eval
$::Front->('api.test', 'evil.test')
--- error_code: 421



=== TEST 6: the audit names both
--- config eval
$::Front->('api.test', 'evil.test')
--- error_code: 421
--- init
my $port = Test::Nginx::Socket::server_port_for_client();
unlink "$ENV{TEST_NGINX_FIXTURE_DIR}/t.json";
`curl -s http://127.0.0.1:$port/`;
--- error_log
egress request refused: host_mismatch



=== TEST 7: a port that is not bound (X-21)
--- config eval
$::Front->('api.test', 'api.test:8443')
--- error_code: 421



=== TEST 8: the default port, written out
--- config eval
$::Front->('api.test', 'api.test:443')
--- response_headers
X-Auth: bearer-secret
X-Host: api.test



=== TEST 9: a port that is bound
--- config eval
$::Front->('other.test', 'other.test:8443')
--- response_headers
X-Host: other.test:8443



=== TEST 10: case and one trailing dot are the same name (X-14)
--- config eval
$::Front->('api.test', '"API.Test."')
--- response_headers
X-Auth: bearer-secret
X-Host: api.test



=== TEST 11: two trailing dots are not
--- config eval
$::Front->('api.test', '"api.test.."')
--- error_code: 400



=== TEST 12: what stands behind the port (X-13)
--- config eval
$::Front->('api.test', '"api.test:443@evil.test"')
--- error_code: 400
--- response_headers_like
Proxy-Status: egress-1; error=http_request_error; details="malformed_request: .*"



=== TEST 13: an unbound name is refused in the handshake
--- config eval
$::Front->('nobody.test')
--- error_code: 502
--- error_log
handshake refused: "nobody.test" is not bound
tlsv1 unrecognized name



=== TEST 14: no name, an address, a malformed name: unrecognized_name (X-16)
--- init
for my $args ('-noservername', '-servername nobody.test', '-servername 127.0.0.1',
              '-servername a..test', '-servername api.test.evil.test')
{
    my $out = main::s_client($args);
    Test::More::like($out, qr/unrecognized name/, "$args: the alert");
    Test::More::unlike($out, qr/BEGIN CERTIFICATE/, "$args: no certificate");
}
--- error_code: 200
--- error_log
handshake refused: no server name
handshake refused: malformed server name



=== TEST 15: no tickets, no session to resume (X-22)
--- init
for my $v (qw(-tls1_2 -tls1_3)) {
    my $out = main::s_client("-servername api.test $v",
                             "GET / HTTP/1.0\r\nHost: api.test\r\n\r\n");
    Test::More::like($out, qr/Verify return code: 0/, "$v verified");
    Test::More::unlike($out, qr/session ticket:/, "$v no ticket");
    Test::More::unlike($out, qr/Session-ID: [0-9A-F]/, "$v no session id");
}
--- error_code: 200



=== TEST 33: TLS 1.2 and 1.3 without a word of the operator's, no older one
--- init
Test::More::like(main::s_client("-servername api.test $_"), qr/Verify return code: 0/, $_)
    for qw(-tls1_2 -tls1_3);
Test::More::unlike(main::s_client("-servername api.test -cipher DEFAULT\@SECLEVEL=0 $_"), qr/BEGIN CERT/, $_)
    for qw(-tls1 -tls1_1);
--- error_code: 200



=== TEST 34: the operator's own choice
--- http_config eval
$::Http->('ssl_protocols TLSv1.2;')
--- init
Test::More::unlike(main::s_client("-servername api.test -tls1_3"), qr/BEGIN CERT/, 'no TLS 1.3');
--- error_code: 200



=== TEST 16: the leaf's profile (O-15, S-05)
--- init
my $out = main::s_client('-servername api.test -showcerts');
Test::More::is(scalar(() = $out =~ /BEGIN CERTIFICATE/g), 1, 'the leaf only');
$out =~ /(-----BEGIN.*?END CERTIFICATE-----)/s;
my $leaf = Fixture::write_file('leaf.pem', "$1\n");
my $text = `openssl x509 -in $leaf -noout -text`;
Test::More::like($text, qr/X509v3 Subject Alternative Name: *\n *DNS:api.test\n/, 'SAN');
Test::More::like($text, qr/X509v3 Key Usage: critical\n *Digital Signature\n/, 'key usage');
Test::More::like($text, qr/X509v3 Extended Key Usage: *\n *TLS Web Server Authentication\n/, 'EKU');
Test::More::like($text, qr/X509v3 Basic Constraints: critical\n *CA:FALSE\n/, 'CA:FALSE');
Test::More::like($text, qr/X509v3 Subject Key Identifier/, 'SKI');
Test::More::like($text, qr/X509v3 Authority Key Identifier/, 'AKI');
Test::More::like($text, qr/ASN1 OID: prime256v1/, 'P-256');
Test::More::like($text, qr/Signature Algorithm: ecdsa-with-SHA256/, 'SHA-256');
Test::More::like($text, qr/Subject: CN ?= ?api.test/, 'CN');
my $v = `openssl verify -x509_strict -CAfile $ENV{TEST_NGINX_FIXTURE_DIR}/ca.pem $leaf 2>&1`;
Test::More::like($v, qr/: OK$/, '-x509_strict');
my $end = `openssl x509 -in $leaf -noout -checkend 33000000; openssl x509 -in $leaf -noout -checkend 35000000`;
Test::More::like($end, qr/will not expire\n.*will expire/s, '397 days');
--- error_code: 200



=== TEST 17: the CA's end caps the leaf
--- main_config eval
my $c = $::Main; $c =~ s/ca\.(pem|key)/short.$1/g; $c
--- config eval
my $c = $::Front->('api.test'); $c =~ s/ca\.pem/short.pem/; $c
--- init
my $out = main::s_client('-servername api.test');
$out =~ /(-----BEGIN.*?END CERTIFICATE-----)/s;
my $leaf = Fixture::write_file('leaf.pem', "$1\n");
my $ca = `openssl x509 -in $ENV{TEST_NGINX_FIXTURE_DIR}/short.pem -noout -checkend 432001`;
my $end = `openssl x509 -in $leaf -noout -checkend 432001`;
Test::More::like($end, qr/will expire/, 'not longer than its CA');
--- error_code: 200



=== TEST 18: HTTP/2
--- http_config eval
my $c = $::Http->(); $c =~ s/ ssl;/ ssl http2;/; $c
--- init
my $port = $Test::Nginx::Util::RandPorts->{TEST_NGINX_RAND_PORT_1};
my $out = `curl -s -D - --http2 --cacert $ENV{TEST_NGINX_FIXTURE_DIR}/ca.pem --connect-to ::127.0.0.1:$port https://api.test/user -H 'Authorization: Bearer $main::P'`;
Test::More::like($out, qr{^HTTP/2 200}, 'HTTP/2');
Test::More::like($out, qr{x-auth: bearer-secret}, 'swapped');
$out = `curl -s -D - --http2 --cacert $ENV{TEST_NGINX_FIXTURE_DIR}/ca.pem --connect-to ::127.0.0.1:$port https://api.test/user -H 'Host: other.test'`;
Test::More::like($out, qr{^HTTP/2 421}, 'X-24: another authority on the connection');
Test::More::like($out, qr{proxy-status: egress-1; error=http_request_error}, 'with Proxy-Status');
$out = `curl -s -D - --http2 --cacert $ENV{TEST_NGINX_FIXTURE_DIR}/ca.pem --connect-to ::127.0.0.1:$port https://api.test/user -d x`;
Test::More::like($out, qr{^HTTP/2 403}, 'a write');
$out = `curl -s -D - --http2 --cacert $ENV{TEST_NGINX_FIXTURE_DIR}/ca.pem --connect-to ::127.0.0.1:$port https://api.test/user -T - -X GET < /dev/null`;
Test::More::like($out, qr{^HTTP/2 (400|200)}, 'GET with an open body');
--- error_code: 200



=== TEST 19: absolute form must agree with Host and SNI (X-11)
--- init
my %want = ('https://api.test/user' => 200, 'https://api.test:443/user' => 200,
            'https://evil.test/user' => 400, 'http://api.test/user' => 400,
            'https://api.test:8443/user' => 400, 'https://API.TEST/user' => 200);
for my $target (sort keys %want) {
    my $out = main::s_client('-ign_eof -servername api.test',
        "GET $target HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n");
    Test::More::like($out, qr{HTTP/1.1 $want{$target} }, "$target: $want{$target}");
}
--- error_code: 200



=== TEST 20: two Host fields, none (X-12)
--- init
for my $h ("Host: api.test\r\nHost: api.test\r\n", "Host: api.test\r\nHost: evil.test\r\n", '') {
    my $out = main::s_client('-ign_eof -servername api.test',
        "GET / HTTP/1.1\r\n${h}Connection: close\r\n\r\n");
    Test::More::like($out, qr{HTTP/1.1 400 }, 'refused');
    Test::More::like($out, qr{Proxy-Status: egress-1; error=http_request_error}, 'with Proxy-Status');
}
my $out = main::s_client('-ign_eof -servername api.test', "GET / HTTP/1.0\r\n\r\n");
Test::More::like($out, qr{HTTP/1.1 400 }, 'HTTP/1.0 without Host');
--- error_code: 200



=== TEST 21: plain HTTP to the TLS port: never swapped (X-26)
--- init
my $port = $Test::Nginx::Util::RandPorts->{TEST_NGINX_RAND_PORT_1};
my $out = `curl -s -D - http://127.0.0.1:$port/ -H 'Host: api.test' -H 'Authorization: Bearer $main::P'`;
Test::More::like($out, qr{^HTTP/1.1 400}, 'refused');
Test::More::like($out, qr{Proxy-Status: egress-1; error=http_request_error}, 'with Proxy-Status');
--- error_code: 200



=== TEST 22: ALPN (X-25)
--- init
for my $p (qw(h3 acme-tls/1 foo)) {
    my $out = main::s_client("-servername api.test -alpn $p");
    Test::More::unlike($out, qr/ALPN protocol: \Q$p\E/, "$p is not chosen");
}
my $out = main::s_client('-servername api.test -alpn http/1.1');
Test::More::like($out, qr/ALPN protocol: http\/1.1/, 'http/1.1 is');
--- error_code: 200



=== TEST 23: a server with several names, all terminating
--- http_config eval
my $c = $::Http->('server_name other.test;') . $::Http->('server_name api.test;'); $c
--- config eval
$::Front->('api.test')
--- response_headers
X-Auth: bearer-secret



=== TEST 24: workers can't be dumped (X-43)
--- init
my $pid = Fixture::read_file("$ENV{TEST_NGINX_SERVER_ROOT}/logs/nginx.pid"); chomp $pid;
my @st = stat "/proc/$pid/mem";
my $owner = (stat "/proc/$pid/environ")[4];
open my $fh, '<', "/proc/$pid/smaps"; my $maps = do { local $/; <$fh> };
Test::More::like($maps, qr/^VmFlags:.* dd /m, 'pages that no core has');
--- error_code: 200



=== TEST 25: off is as if it were not there
--- http_config
server {
    listen 127.0.0.1:$TEST_NGINX_RAND_PORT_1 ssl;
    ssl_certificate $TEST_NGINX_FIXTURE_DIR/up.pem;
    ssl_certificate_key $TEST_NGINX_FIXTURE_DIR/up.key;
    egress_terminate off;
    location / { return 200 "static\n"; }
}
--- config eval
my $c = $::Front->('nobody.test'); $c =~ s/proxy_ssl_verify on/proxy_ssl_verify off/; $c
--- response_body
static



=== TEST 26: needs a ca
--- main_config
egress { audit_log off; }
--- http_config eval
$::Http->()
--- must_die
--- error_log
"egress_terminate" needs a "ca"



=== TEST 27: needs an egress block
--- main_config
--- http_config eval
$::Http->()
--- must_die
--- error_log
"egress_terminate" needs an "egress" block before the "http" block



=== TEST 28: an unknown value
--- http_config
server { listen 127.0.0.1:$TEST_NGINX_RAND_PORT_1 ssl; egress_terminate maybe; }
--- must_die
--- error_log
invalid value "maybe" in "egress_terminate"



=== TEST 29: beside ssl_certificate
--- http_config eval
$::Http->('ssl_certificate $TEST_NGINX_FIXTURE_DIR/up.pem; ssl_certificate_key $TEST_NGINX_FIXTURE_DIR/up.key;')
--- must_die
--- error_log
"ssl_certificate" beside "egress_terminate"



=== TEST 30: beside ssl_session_tickets
--- http_config eval
$::Http->('ssl_session_tickets on;')
--- must_die
--- error_log
"ssl_session_tickets" directive is duplicate



=== TEST 31: on a listener without ssl
--- http_config
server { listen 127.0.0.1:$TEST_NGINX_RAND_PORT_1; egress_terminate on; }
--- must_die
--- error_log
without "ssl"



=== TEST 32: on some but not all servers of a listener
--- http_config eval
$::Http->() . 'server { listen 127.0.0.1:$TEST_NGINX_RAND_PORT_1 ssl; server_name x; ssl_certificate $TEST_NGINX_FIXTURE_DIR/up.pem; ssl_certificate_key $TEST_NGINX_FIXTURE_DIR/up.key; }'
--- must_die
--- error_log
"egress_terminate" on some but not all servers of listener
