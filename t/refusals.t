# what a refused client sees, DESIGN 6.6

use lib 't/lib', 't/fixture';
use Fixture;
use Test::Nginx::Socket 'no_plan';
use JSON::PP ();

our $P = $ENV{TEST_NGINX_PLACEHOLDER};

our $Main = <<'CONF';
egress {
    name                 egress-1;
    audit_log            $TEST_NGINX_FIXTURE_DIR/r.json;
    trusted_certificate  $TEST_NGINX_FIXTURE_DIR/trusted.pem;
    binding api {
        hosts        api.test;
        upstream     https://127.0.0.1:$TEST_NGINX_UPSTREAM_PORT;
        secret       $TEST_NGINX_SECRET static;
        placeholder  $TEST_NGINX_PLACEHOLDER;
        git on;
        refuse * /login;
    }
    binding loop {
        hosts        loop.test;
        upstream     http://127.0.0.1:$TEST_NGINX_SERVER_PORT;
    }
}
CONF

add_block_preprocessor(sub {
    my $block = shift;

    $block->set_value(main_config => $Main);
    $block->set_value(config => 'location /api/ { egress_pass api; }
                                 location /loop/ { egress_pass loop; }')
        unless defined $block->config;
});

no_long_string();
run_tests();

__DATA__

=== TEST 1: problem+json, with a message for gh
--- request
DELETE /api/repos/o/r?secret=x
--- error_code: 403
--- response_headers
Content-Type: application/problem+json
Proxy-Status: egress-1; error=http_request_denied; details="write_refused: write refused, this binding is read-only"
--- response_body_like eval
qr/^\{"type":"urn:nginx-egress:problem:write_refused","title":"write_refused","status":403,"detail":"write refused, this binding is read-only","message":"egress-1: write_refused: write refused, this binding is read-only \(binding api\)","error":"egress-1: write_refused: write refused, this binding is read-only \(binding api\)","reason":"write_refused","binding":"api","hint":"[^"]+"\}$/



=== TEST 2: the rule, as the operator wrote it
--- request
GET /api/login
--- error_code: 403
--- response_body_like chop
"reason":"rule_refused","binding":"api","rule":"refuse \* /login"



=== TEST 3: nothing that the client sent is repeated
--- request eval
"POST /api/zebra?okapi=$::P\ngiraffe"
--- more_headers eval
"Authorization: Bearer $::P\nX-Quagga: quagga"
--- error_code: 403
--- response_body_unlike eval
qr/zebra|okapi|giraffe|quagga|$::P|127\.0\.0\.1/
--- raw_response_headers_unlike eval
qr/zebra|okapi|giraffe|quagga|$::P|127\.0\.0\.1/



=== TEST 4: the connection stays usable
--- pipelined_requests eval
["POST /api/x\nbody of a refused request", "GET /api/y", "DELETE /api/z", "GET /api/y"]
--- error_code eval
[403, 200, 403, 200]



=== TEST 5: HEAD has no body
--- request
HEAD /api/login
--- error_code: 403
--- response_headers_like
Content-Length: [1-9]\d+
--- response_body:



=== TEST 6: a target that is too long (414)
--- request eval
"GET /api/" . ('x' x 20000)
--- error_code: 414
--- response_headers_like
Proxy-Status: egress-1; error=http_request_error; details="malformed_request: .*"
Content-Type: application/problem\+json
--- response_body_like chop
"status":414



=== TEST 7: a field that is too long (H-09)
--- request
GET /api/x
--- more_headers eval
"X-Long: " . ('x' x 40000)
--- error_code: 400
--- response_headers_like
Proxy-Status: egress-1; error=http_request_error; details="malformed_request: .*"



=== TEST 8: a body over the operator's own limit (413)
--- config
location /api/ { egress_pass api; client_max_body_size 10; }
--- request
POST /api/x
0123456789a
--- error_code: 413
--- response_headers_like
Proxy-Status: egress-1; error=http_request_error; details="body_too_large: .*"
Content-Type: application/problem\+json



=== TEST 9: no limit by default, nginx's own default where it is written
--- http_config
server {
    listen 127.0.0.1:$TEST_NGINX_RAND_PORT_1;
    location /api/ { egress_pass api; }
}
server {
    listen 127.0.0.1:$TEST_NGINX_RAND_PORT_2;
    client_max_body_size 1m;
    location /api/ { egress_pass api; }
}
--- init
my $file = Fixture::write_file('big', 'x' x 2000000);
my $body = sub {
    my $port = $Test::Nginx::Util::RandPorts->{"TEST_NGINX_RAND_PORT_$_[0]"};
    return `curl -s -X DELETE -H 'Expect:' --data-binary \@$file http://127.0.0.1:$port/api/x`;
};
Test::More::like($body->(1), qr/"reason":"write_refused"/, 'no limit');
Test::More::like($body->(2), qr/"reason":"body_too_large"/, 'the limit that is written');
--- request
GET /api/x
--- error_code: 200



=== TEST 10: not of our servers: as nginx has it
--- http_config
server {
    listen 127.0.0.1:$TEST_NGINX_RAND_PORT_1;
    location / { return 200; }
}
--- config
location /x {
    proxy_pass http://127.0.0.1:$TEST_NGINX_RAND_PORT_1;
    proxy_set_header Content-Length 1z;
}
--- request
GET /x
--- error_code: 400
--- raw_response_headers_unlike
Proxy-Status



=== TEST 11: a loop ends (RFC 9110, 7.6.3)
--- request
GET /loop/loop/loop/x
--- error_code: 502
--- response_headers_like
Proxy-Status: egress-1; error=proxy_loop_detected; details="loop: .*"



=== TEST 12: Via of others is no loop, and goes
--- request
GET /api/x
--- more_headers
Via: 1.1 egress-12, 1.0 not-egress-1
--- response_headers
X-Via: 1.1 egress-1



=== TEST 13: an answer of the upstream's own is left alone
--- request eval
["GET /api/status/403", "GET /api/status/502", "GET /api/status/302"]
--- error_code eval
[403, 502, 302]
--- raw_response_headers_unlike eval
["Proxy-Status", "Proxy-Status", "Proxy-Status"]
--- response_body_like eval
["up says 403", "up says 502", "302 Found"]



=== TEST 14: Location passes as it is (X-32)
--- request
GET /api/status/302
--- error_code: 302
--- response_headers
Location: https://elsewhere.test/x?token=abc



=== TEST 15: an error_page with a proxy does not send the request on (R-16)
--- config
location /api/ { egress_pass api; error_page 403 = /fallback; }
location /fallback { proxy_pass http://127.0.0.1:$TEST_NGINX_CLEAR_PORT; }
--- request
POST /api/x
a
--- error_code: 403
--- response_headers_like
Proxy-Status: .*write_refused.*



=== TEST 16: nor one of our own
--- config
location /api/ { egress_pass api; error_page 403 = /api2/x; }
location /api2/ { egress_pass api; }
--- request
POST /api/x
a
--- error_code: 403



=== TEST 17: nor a named location
--- config
location /api/ { egress_pass api; error_page 403 = @up; }
location @up { proxy_pass http://127.0.0.1:$TEST_NGINX_CLEAR_PORT; }
--- request
POST /api/x
a
--- error_code: 403



=== TEST 18: a page of the operator's from a file may be shown, with our field
--- config
location /api/ { egress_pass api; error_page 403 /denied.html; }
--- user_files
>>> denied.html
ask the operator
--- request
POST /api/x
a
--- error_code: 403
--- response_headers_like
Proxy-Status: .*write_refused.*
--- response_body
ask the operator



=== TEST 19: "satisfy any" opens nothing
--- config
location /api/ { egress_pass api; satisfy any; allow all; }
--- request
POST /api/x
a
--- error_code: 403



=== TEST 20: a mirror does not reach an egress_pass location
--- config
location /api/ { egress_pass api; mirror /copy; }
location /copy { internal; egress_pass api; }
--- request
GET /api/x
--- more_headers eval
"Authorization: Bearer $::P"
--- error_code: 200
--- error_log
"egress_pass" reached by a subrequest, refused



=== TEST 21: what a mirror elsewhere sees is the placeholder (X-40)
--- http_config
log_format m '$http_authorization';
server {
    listen 127.0.0.1:$TEST_NGINX_RAND_PORT_1;
    access_log logs/mirror.log m;
    location / { return 200; }
}
--- config
location /api/ { egress_pass api; mirror /copy; }
location /copy { internal; proxy_pass http://127.0.0.1:$TEST_NGINX_RAND_PORT_1; }
--- request
GET /api/x
--- more_headers eval
"Authorization: Bearer $::P"
--- response_headers
X-Auth: bearer-secret



=== TEST 22: X-Accel-Redirect of an upstream does nothing (X-33)
--- config
location /api/ { egress_pass api; }
location /internal { return 200 "internal\n"; }
--- request
GET /api/accel
--- response_body
accel
--- response_headers
! X-Accel-Redirect



=== TEST 23: the secret in no variable, at no time (X-40)
--- http_config
log_format v '$http_authorization|$egress_field_0|$upstream_http_x_auth|$request|$egress_credential';
--- config
location /api/ {
    egress_pass api;
    access_log logs/v.log v;
    add_header X-Var "$http_authorization|$egress_field_0" always;
}
--- request
GET /api/x
--- more_headers eval
"Authorization: Bearer $::P"
--- response_headers eval
"X-Auth: bearer-secret
X-Var: Bearer $::P|"



=== TEST 24: nor after a failed upstream, in another location
--- config
location /api/ {
    egress_pass api;
    proxy_read_timeout 1ms;
    error_page 502 504 = /after;
}
location /after {
    add_header X-Var "[$egress_field_0]" always;
    return 200 "after\n";
}
--- request
GET /api/x
--- more_headers eval
"Authorization: Bearer $::P"
--- error_code_like: ^200$
