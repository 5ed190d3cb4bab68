# the next hop: verification, pool, failures and what the client is told

use lib 't/lib', 't/fixture';
use Fixture;
use Test::Nginx::Socket 'no_plan';
use IO::Socket::INET;

our $P = $ENV{TEST_NGINX_PLACEHOLDER};
our $C = $ENV{TEST_NGINX_CANARY};

our $Main = sub {
    my ($upstream, $more) = @_;
    $more //= '';
    return <<"CONF";
egress {
    name                 egress-1;
    audit_log            \$TEST_NGINX_FIXTURE_DIR/u.json;
    trusted_certificate  \$TEST_NGINX_FIXTURE_DIR/trusted.pem;
    binding api {
        hosts        api.test other.test;
        upstream     $upstream;
        secret       \$TEST_NGINX_SECRET static;
        placeholder  \$TEST_NGINX_PLACEHOLDER;
        access       write;
        $more
    }
    binding third {
        hosts        third.test;
        upstream     $upstream;
    }
}
CONF
};

our $Up = 'https://127.0.0.1:$TEST_NGINX_UPSTREAM_PORT';

# a raw upstream: each connection gets the next of the scripts

my @kids;
our $Raw;

sub raw {
    my (@scripts) = @_;

    my $l = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5,
                                  ReuseAddr => 1) or die $!;
    $Raw = $l->sockport;

    my $pid = fork;

    if (!$pid) {
        $Test::Nginx::Util::InSubprocess = 1;
        $SIG{ALRM} = sub { POSIX::_exit(0) };
        alarm 300;

        for my $script (@scripts) {
            my $s = $l->accept or last;

            for my $step (@$script) {
                if ($step eq 'read') {
                    my $in = '';
                    while ($in !~ /\r\n\r\n/) {
                        last if !sysread $s, $in, 4096, length $in;
                    }

                } elsif ($step eq 'hello') {
                    sysread $s, my $in, 4096;

                } elsif ($step eq 'reset') {
                    setsockopt $s, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0);

                } elsif ($step eq 'wait') {
                    select undef, undef, undef, 1.5;

                } else {
                    syswrite $s, $step;
                }
            }

            close $s;
        }

        POSIX::_exit(0);
    }

    push @kids, $pid;
    close $l;

    return "http://127.0.0.1:$Raw";
}

use Socket qw(SOL_SOCKET SO_LINGER);
use POSIX ();

add_cleanup_handler(sub { kill 'KILL', $_ for @kids; waitpid $_, 0 for @kids });

add_block_preprocessor(sub {
    my $block = shift;

    $block->set_value(main_config => $Main->($Up))
        unless defined $block->main_config;
    $block->set_value(config => 'location /api/ { egress_pass api; }
                                 location /third/ { egress_pass third; }')
        unless defined $block->config;
    $block->set_value(more_headers => "Authorization: Bearer $P")
        unless defined $block->more_headers;
    $block->set_value(request => 'GET /api/user')
        unless defined $block->request;
});

no_shuffle();
no_long_string();
check_accum_error_log();
run_tests();

__DATA__

=== TEST 1: connections are kept
--- request eval
["GET /api/a", "GET /api/b", "POST /api/c\nx", "GET /api/d"]
--- response_headers eval
["X-Request: 1", "X-Request: 2", "X-Request: 3", "X-Request: 4"]



=== TEST 2: but not shared between bindings on one address (X-51)
--- request eval
["GET /api/a", "GET /third/a", "GET /api/b", "GET /third/b"]
--- response_headers eval
["X-Request: 1", "X-Request: 1", "X-Request: 2", "X-Request: 2"]



=== TEST 3: a certificate that is not trusted: nothing is sent (X-50)
--- main_config eval
$::Main->('https://127.0.0.1:$TEST_NGINX_BAD_PORT')
--- error_code: 502
--- response_headers_like
Proxy-Status: egress-1; error=tls_certificate_error; details="tls_certificate_error: .*"
Content-Type: application/problem\+json
--- error_log
certificate verify error



=== TEST 4: a trusted one for another name
--- main_config eval
$::Main->('https://127.0.0.1:$TEST_NGINX_ALIEN_PORT')
--- error_code: 502
--- response_headers_like
Proxy-Status: egress-1; error=tls_certificate_error; .*
--- error_log
certificate verify error: (62:



=== TEST 5: again: a session of a refused peer is not used
--- main_config eval
$::Main->('https://127.0.0.1:$TEST_NGINX_ALIEN_PORT')
--- request eval
["GET /api/a", "GET /api/b", "GET /api/c"]
--- error_code eval
[502, 502, 502]
--- error_log
certificate verify error: (62:



=== TEST 6: no listener
--- main_config eval
$::Main->('https://127.0.0.1:' . Fixture::free_port())
--- error_code: 502
--- response_headers_like
Proxy-Status: egress-1; error=connection_refused; .*
--- error_log
Connection refused



=== TEST 7: no TLS there
--- main_config eval
$::Main->('https://127.0.0.1:$TEST_NGINX_CLEAR_PORT')
--- error_code: 502
--- response_headers_like
Proxy-Status: egress-1; error=tls_protocol_error; .*
--- error_log
SSL_do_handshake() failed



=== TEST 8: closed in the handshake
--- main_config eval
my $c = $::Main->(main::raw(['wait'])); $c =~ s/http:/https:/; $c
--- config
location /api/ { egress_pass api; proxy_connect_timeout 300ms; }
--- error_code: 504
--- response_headers_like
Proxy-Status: egress-1; error=connection_timeout; .*
--- error_log
timed out



=== TEST 9: a fatal alert
--- main_config eval
my $c = $::Main->(main::raw(['hello', "\x15\x03\x03\x00\x02\x02\x28", 'wait'])); $c =~ s/http:/https:/; $c
--- error_code: 502
--- response_headers_like
Proxy-Status: egress-1; error=tls_alert_received; .*
--- error_log
SSL_do_handshake() failed



=== TEST 10: clear text to loopback, by the operator's word
--- main_config eval
$::Main->('http://127.0.0.1:$TEST_NGINX_CLEAR_PORT')
--- response_headers
X-Auth: bearer-secret
X-Host: api.test



=== TEST 11: closed without an answer
--- main_config eval
$::Main->(main::raw(['read'], ['read']))
--- error_code: 502
--- response_headers_like
Proxy-Status: egress-1; error=connection_terminated; .*
--- error_log
prematurely closed



=== TEST 12: closed within the header
--- main_config eval
$::Main->(main::raw(['read', "HTTP/1.1 200 OK\r\nX-A: b\r\n"]))
--- error_code: 502
--- response_headers_like
Proxy-Status: egress-1; error=http_response_incomplete; .*
--- error_log
prematurely closed



=== TEST 13: no answer in time
--- main_config eval
$::Main->(main::raw(['read', 'wait']))
--- config
location /api/ { egress_pass api; proxy_read_timeout 200ms; }
--- error_code: 504
--- response_headers_like
Proxy-Status: egress-1; error=connection_read_timeout; .*
--- error_log
timed out



=== TEST 14: what is no HTTP is not passed on as HTTP/0.9
--- main_config eval
$::Main->(main::raw(['read', "SSH-2.0-OpenSSH\r\n"]))
--- error_code: 502
--- response_headers_like
Proxy-Status: egress-1; error=http_protocol_error; .*
--- response_body_unlike
SSH
--- error_log
upstream of binding "api" did not answer in HTTP



=== TEST 15: a malformed header line is not quoted in the log (X-34)
--- main_config eval
$::Main->(main::raw(['read', "HTTP/1.1 200 OK\r\nX-A: b\r\nBearer $main::C \x01: y\r\n\r\n"]))
--- error_code: 502
--- response_headers_like
Proxy-Status: egress-1; error=http_protocol_error; .*
--- error_log
upstream of binding "api" sent an invalid response
--- no_error_log
upstream sent invalid header



=== TEST 16: nor on the second attempt, after a stale connection
--- main_config eval
$::Main->(main::raw(['read', "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 'read'],
                    ['read', "HTTP/1.1 200 OK\r\nX-A: b\r\nBearer $main::C \x01: y\r\n\r\n"]))
--- pipelined_requests eval
["GET /api/a", "GET /api/b"]
--- error_code eval
[200, 502]
--- error_log
upstream of binding "api" sent an invalid response
--- no_error_log
upstream sent invalid header



=== TEST 17: a stale connection: a bodiless GET goes once more
--- main_config eval
$::Main->(main::raw(['read', "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 'read'],
                    ['read', "HTTP/1.1 200 OK\r\nX-Second: yes\r\nContent-Length: 0\r\n\r\n"]))
--- pipelined_requests eval
["GET /api/a", "GET /api/b"]
--- error_code eval
[200, 200]
--- response_headers eval
["! X-Second", "X-Second: yes"]
--- error_log
prematurely closed



=== TEST 18: a DELETE does not (X-59)
--- main_config eval
$::Main->(main::raw(['read', "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 'read'],
                    ['read', "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]))
--- pipelined_requests eval
["GET /api/a", "DELETE /api/b"]
--- error_code eval
[200, 502]
--- response_headers_like eval
["Content-Length: 0", "Proxy-Status: egress-1; error=connection_terminated; .*"]
--- error_log
prematurely closed



=== TEST 19: nor a POST
--- main_config eval
$::Main->(main::raw(['read', "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 'read'],
                    ['read', "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]))
--- pipelined_requests eval
["GET /api/a", "POST /api/b\nx"]
--- error_code eval
[200, 502]
--- error_log
prematurely closed



=== TEST 20: nor a GET whose first attempt was on a fresh connection
--- main_config eval
$::Main->(main::raw(['read'], ['read', "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]))
--- error_code: 502
--- error_log
prematurely closed



=== TEST 21: bytes behind a response are never the next one's
--- main_config eval
$::Main->(main::raw(['read', "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nX-Evil: 1\r\nContent-Length: 0\r\n\r\n", 'read', 'wait'],
                    ['read', "HTTP/1.1 200 OK\r\nX-Second: yes\r\nContent-Length: 0\r\n\r\n"]))
--- request eval
["GET /api/a", "GET /api/b"]
--- error_code eval
[200, 200]
--- response_headers eval
["! X-Evil", "X-Second: yes"]



=== TEST 22: a body streams, both ways, chunked
--- main_config eval
$::Main->('http://127.0.0.1:$TEST_NGINX_CLEAR_PORT')
--- raw_request eval
"POST /api/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
. CORE::join('', map { "400\r\n" . ('x' x 1024) . "\r\n" } 1 .. 200) . "0\r\n\r\n"
--- error_code: 200
--- response_headers
X-Auth: none



=== TEST 23: a failed upstream tells no address, header or query (X-41, O-12)
--- main_config eval
$::Main->('https://127.0.0.1:' . Fixture::free_port())
--- request eval
"GET /api/zebra?okapi=$::P"
--- error_code: 502
--- response_body_like eval
qr/\A(?!.*(?:zebra|okapi|$::P|127\.0\.0\.1)).*"reason":"connection_refused"/
--- error_log
Connection refused
