# attacks and field cases that no other file has: ids as in the catalogue

use lib 't/lib', 't/fixture';
use Fixture;
use Test::Nginx::Socket 'no_plan';
use MIME::Base64 ();

our $P = $ENV{TEST_NGINX_PLACEHOLDER};
our $C = $ENV{TEST_NGINX_CANARY};
our $D = Fixture::dir();

# an upstream that keeps what it was sent, octet by octet

my @kids;

sub recorder {
    my ($file, $reply) = @_;

    my $l = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5,
                                  ReuseAddr => 1) or die $!;
    my $port = $l->sockport;
    unlink "$D/$file";

    my $pid = fork;

    if (!$pid) {
        $Test::Nginx::Util::InSubprocess = 1;
        alarm 300;

        while (my $s = $l->accept) {
            my $in = '';

            while (1) {
                my $n = sysread $s, $in, 65536, length $in;
                last if !$n;

                if ($in =~ /\r\n\r\n/) {
                    my $at = $+[0];
                    last if $in =~ /^Content-Length: (\d+)/mi
                            ? length($in) - $at >= $1
                            : $in !~ /^Transfer-Encoding/mi
                              || $in =~ /\r\n0\r\n\r\n$/;
                }
            }

            open my $out, '>>:raw', "$D/$file";
            print $out $in;
            close $out;
            syswrite $s, $reply;
            close $s;
        }

        POSIX::_exit(0);
    }

    push @kids, $pid;
    close $l;

    return $port;
}

use IO::Socket::INET;
use POSIX ();

add_cleanup_handler(sub { kill 'KILL', $_ for @kids; waitpid $_, 0 for @kids });

our $Port = recorder('rec', "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");

our $Main = sub {
    my ($more) = @_;
    return <<"CONF";
egress {
    name                 egress-1;
    ca                   \$TEST_NGINX_FIXTURE_DIR/ca.pem \$TEST_NGINX_FIXTURE_DIR/ca.key;
    audit_log            \$TEST_NGINX_FIXTURE_DIR/s.json;
    trusted_certificate  \$TEST_NGINX_FIXTURE_DIR/trusted.pem;
    binding rec {
        hosts        api.test;
        upstream     http://127.0.0.1:$Port;
        secret       \$TEST_NGINX_SECRET static;
        placeholder  \$TEST_NGINX_PLACEHOLDER;
        $more
    }
    binding llm {
        hosts        other.test;
        upstream     http://127.0.0.1:$Port;
        access       write;
    }
}
CONF
};

sub recorded {
    select undef, undef, undef, 0.1;
    my $text = Fixture::read_file('rec');
    unlink "$D/rec";
    return $text;
}

sub port { Test::Nginx::Socket::server_port_for_client() }

# raw bytes to the gateway, in pieces; what came back
sub send_raw {
    my ($gap, @pieces) = @_;
    my $s = IO::Socket::INET->new('127.0.0.1:' . port()) or return '';
    $s->autoflush(1);

    for my $p (@pieces) {
        syswrite $s, $p;
        select undef, undef, undef, $gap if $gap;
    }

    my $in = '';
    local $SIG{ALRM} = sub { die };
    eval { alarm 3; 1 while sysread $s, $in, 65536, length $in; alarm 0 };
    alarm 0;
    return $in;
}

add_block_preprocessor(sub {
    my $block = shift;

    recorded();
    $block->set_value(main_config => $Main->('access write;'))
        unless defined $block->main_config;
    $block->set_value(config => 'location /api/ { egress_pass rec; }
                                 location /llm/ { egress_pass llm; }')
        unless defined $block->config;
    $block->set_value(request => 'GET /api/x') unless defined $block->request;
});

no_shuffle();
no_long_string();
run_tests();

__DATA__

=== TEST 1: Basic, one octet a segment (O-10, X-05)
--- init
my $b = MIME::Base64::encode("x-access-token:$main::P", '');
my $r = "GET /api/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Basic $b\r\n\r\n";
Test::More::like(main::send_raw(0.0005, split //, $r), qr/^HTTP\/1.1 200/, 'goes through');
my $want = MIME::Base64::encode("x-access-token:$main::C", '');
Test::More::like(main::recorded(), qr/^Authorization: Basic \Q$want\E\r$/m, 'swapped, and nothing else');
--- error_code: 200



=== TEST 2: a conversation that holds the placeholder goes on, octet by octet (O-11, X-04)
--- init
my $json = '{"messages":[{"content":"' . ("token $main::P, " x 20000) . '"}]}';
my $file = Fixture::write_file('talk.json', $json);
my $port = main::port();
my $out = `curl -s -o /dev/null -w '%{http_code}' -H 'Expect:' -H 'Content-Type: application/json' -H 'Authorization: Bearer $main::P' --data-binary \@$file http://127.0.0.1:$port/llm/v1/chat`;
Test::More::is($out, 200, 'not blocked');
my ($head, $body) = split /\r\n\r\n/, main::recorded(), 2;
Test::More::ok($body eq $json, 'the body as it was');
Test::More::like($head, qr/^Authorization: Bearer \Q$main::P\E\r$/m, 'no swap at another binding');
--- error_code: 200



=== TEST 3: in body, path, query, cookie and trailer (X-01)
--- init
my $P = $main::P;
main::send_raw(0, "POST /api/$P/x?k=$P HTTP/1.1\r\nHost: a\r\nConnection: close\r\nCookie: t=$P\r\nTransfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n"
  . sprintf("%x", length $P) . "\r\n$P\r\n0\r\nAuthorization: Bearer $P\r\n\r\n");
my $got = main::recorded();
Test::More::unlike($got, qr/\Q$main::C\E/, 'no secret');
Test::More::like($got, qr{^POST /$P/x\?k=$P HTTP}, 'path and query');
Test::More::like($got, qr/^Cookie: t=$P\r$/m, 'cookie');
Test::More::unlike($got, qr/^Authorization:/m, 'no trailer became a field');
--- error_code: 200



=== TEST 4: in forty other fields (X-02)
--- init
my @names = qw(X-Data User-Agent Origin X-Request-Id Referer From X-Token X-Api-Key Accept
  Accept-Language X-Auth-Token Api-Key Private-Token Job-Token Authentication X-Authorization
  Authorizatio Authorization2 X-Amz-Security-Token Cookie2 DNT Pragma X-Correlation-Id Traceparent
  Tracestate X-B3-Traceid If-Match If-None-Match X-Csrf-Token X-Goog-Api-Key X-Requested-With
  X-Session X-User Prefer Want-Digest Digest Link X-Custom X-Forward X-Odd);
my $h = join '', map { "$_: $main::P\r\n$_-B: Bearer $main::P\r\n" } @names;
main::send_raw(0, "GET /api/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer $main::P\r\n$h\r\n");
my $got = main::recorded();
Test::More::is(scalar(() = $got =~ /\Q$main::C\E/g), 1, 'one secret');
Test::More::like($got, qr/^Authorization: Bearer \Q$main::C\E\r$/m, 'where it belongs');
Test::More::is(scalar(() = $got =~ /\Q$main::P\E/g), 2 * @names, 'and every placeholder as it was');
--- error_code: 200



=== TEST 5: another working credential on a read-only binding (X-06)
--- main_config eval
$::Main->('')
--- init
my $out = main::send_raw(0, "POST /api/gists HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer theirs\r\nContent-Length: 1\r\n\r\nx");
Test::More::like($out, qr/^HTTP\/1.1 403/, 'refused');
Test::More::is(main::recorded(), '', 'nothing went upstream');
--- error_code: 200



=== TEST 6: names that some server might fold (R-09)
--- init
my $out = main::send_raw(0, "GET /api/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX_HTTP_Method_Override: DELETE\r\nX.Method.Override: DELETE\r\nContent_Length: 5\r\n\r\n");
Test::More::like($out, qr/^HTTP\/1.1 200/, 'goes through');
Test::More::unlike(main::recorded(), qr/Override|Content_Length/i, 'without them');
for my $bad ("Authorization : Bearer $main::P", " Authorization: Bearer $main::P", "Auth\x00orization: x", ": x") {
    my $out = main::send_raw(0, "GET /api/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n$bad\r\n\r\n");
    my $got = main::recorded();
    Test::More::unlike($got, qr/\Q$main::C\E/, 'a malformed name is never swapped');
}
--- error_code: 200



=== TEST 7: no Upgrade goes upstream (R-06)
--- init
for my $p ('h2c', 'websocket', 'TLS/1.0') {
    my $out = main::send_raw(0, "GET /api/x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close, HTTP2-Settings\r\nUpgrade: $p\r\nHTTP2-Settings: AAMAAABk\r\n\r\n");
    my $got = main::recorded();
    Test::More::like($out, qr/^HTTP\/1.1 403 .*upgrade_refused/s, "$p: refused");
    Test::More::is($got, '', 'nothing went upstream');
    main::send_raw(0, "GET /api/x HTTP/1.1\r\nHost: a\r\nConnection: close, HTTP2-Settings\r\nUpgrade: $p\r\nHTTP2-Settings: AAMAAABk\r\n\r\n");
    $got = main::recorded();
    Test::More::like($got, qr/^GET /, "$p, but Connection does not name it: the request");
    Test::More::unlike($got, qr/^(Upgrade|HTTP2-Settings):|^Connection: *Upgrade/mi, 'without it');
}
--- error_code: 200



=== TEST 8: what stands behind a request is a request of its own (R-04)
--- main_config eval
$::Main->('')
--- init
main::send_raw(0, "GET /api/a HTTP/1.1\r\nHost: a\r\n\r\nDELETE /api/b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
my $got = main::recorded();
Test::More::is(scalar(() = $got =~ / HTTP\/1\.1\r\n/g), 1, 'one request');
Test::More::unlike($got, qr/DELETE/, 'the read');
for my $f ("Content-Length: +5", "Content-Length: 5,5", "Content-Length: 0x5", "Transfer-Encoding: chunked, identity",
           "Transfer-Encoding: identity", "Transfer-Encoding: chunked\r\nContent-Length: 3", "Transfer-Encoding:\x0bchunked",
           "Content-Length: 5\r\nContent-Length: 5") {
    my $out = main::send_raw(0, "POST /llm/x HTTP/1.1\r\nHost: a\r\n$f\r\n\r\n0\r\n\r\nDELETE /llm/b HTTP/1.1\r\nHost: a\r\n\r\n");
    Test::More::like($out, qr/^HTTP\/1.1 (400|501)/, "$f: refused");
    Test::More::is(main::recorded(), '', 'nothing went upstream');
}
--- error_code: 200



=== TEST 9: every octet in a host name (X-15)
--- http_config
server {
    listen 127.0.0.1:$TEST_NGINX_RAND_PORT_1 ssl;
    egress_terminate on;
    location / { egress_pass; }
}
--- init
my $port = $Test::Nginx::Util::RandPorts->{TEST_NGINX_RAND_PORT_1};
my $py = Fixture::write_file('hosts.py', <<'PY');
import socket, ssl, sys
port, ca = int(sys.argv[1]), sys.argv[2]
ctx = ssl.create_default_context(cafile=ca)
bad = 0
for b in range(256):
    c = bytes([b])
    for host in (c + b'api.test', b'api' + c + b'.test', b'api.test' + c):
        s = ctx.wrap_socket(socket.create_connection(('127.0.0.1', port)), server_hostname='api.test')
        s.sendall(b'GET / HTTP/1.1\r\nHost: ' + host + b'\r\nConnection: close\r\n\r\n')
        data = b''
        try:
            while True:
                d = s.recv(65536)
                if not d: break
                data += d
        except OSError:
            pass
        s.close()
        code = data[9:12].decode()
        # white space around a value is no part of it; one trailing dot is stripped
        ok = host.strip(b' \t\r\n').lower() in (b'api.test', b'api.test.') or host in (b'api.test:', )
        # nginx refuses a tab and a line end there itself
        if b in (9, 10, 13) and code == '400': continue
        if (code == '200') != (ok and host != b'api.test:'):
            print('byte', b, host, code); bad += 1
print('done', bad)
PY
my $out = `python3 $py $port $ENV{TEST_NGINX_FIXTURE_DIR}/ca.pem 2>&1`;
Test::More::like($out, qr/^done 0$/m, 'only the name itself') or Test::More::diag($out);
--- error_code: 200



=== TEST 10: nothing of a secret in the environment or the command line (X-45)
--- init
my $pid = Fixture::read_file("$ENV{TEST_NGINX_SERVER_ROOT}/logs/nginx.pid"); chomp $pid;
open my $fh, '<', "/proc/$pid/cmdline"; my $c = do { local $/; <$fh> };
Test::More::unlike($c, qr/\Q$main::C\E/, 'command line');
--- error_code: 200
