# egress_pass: where it may stand, and beside what: DESIGN 5.4, 6.10, P11

use lib 't/lib', 't/fixture';
use Fixture;
use Test::Nginx::Socket 'no_plan';

our $P = $ENV{TEST_NGINX_PLACEHOLDER};

our $Main = <<'CONF';
egress {
    ca                   $TEST_NGINX_FIXTURE_DIR/ca.pem $TEST_NGINX_FIXTURE_DIR/ca.key;
    audit_log            $TEST_NGINX_FIXTURE_DIR/p.json;
    trusted_certificate  $TEST_NGINX_FIXTURE_DIR/trusted.pem;
    binding api {
        hosts        api.test;
        upstream     https://127.0.0.1:$TEST_NGINX_UPSTREAM_PORT;
        secret       $TEST_NGINX_SECRET static;
        placeholder  $TEST_NGINX_PLACEHOLDER;
    }
    binding prefixed {
        hosts        other.test;
        path_prefix  /v1;
        upstream     https://127.0.0.1:$TEST_NGINX_UPSTREAM_PORT;
        secret       $TEST_NGINX_SECRET static;
        inject       always;
    }
}
CONF

add_block_preprocessor(sub {
    my $block = shift;

    $block->set_value(main_config => $Main)
        unless defined $block->main_config;

    # most blocks: a directive in the location
    if (!defined $block->config) {
        my $d = $block->description;
        $d =~ s/^\s+|\s+$//g;
        $block->set_value(config => "location /api/ { egress_pass api; $d }");
    }

    $block->set_value(must_die => '')
        unless defined $block->request || defined $block->must_die;
    $block->set_value(more_headers => "Authorization: Bearer $P")
        unless defined $block->more_headers;
});

no_root_location();
no_long_string();
run_tests();

__DATA__

=== TEST 1: prefix location: the prefix is cut off
--- config
location /api/ { egress_pass api; }
location /b { egress_pass api; }
location = /exact { egress_pass api; }
location ^~ /c/ { egress_pass api; }
--- request eval
["GET /api/user?x=1", "GET /api/", "GET /api/?q", "GET /b/user", "GET /b", "GET /b?q",
 "GET /exact", "GET /exact?q", "GET /c/x", "GET /bad"]
--- error_code eval
[200, 200, 200, 200, 200, 200, 200, 200, 200, 403]
--- response_headers eval
["X-Target: /user?x=1", "X-Target: /", "X-Target: /?q", "X-Target: /user",
 "X-Target: /", "X-Target: /?q", "X-Target: /", "X-Target: /?q",
 "X-Target: /x", "Content-Type: application/problem+json"]



=== TEST 2: Host is ignored, the binding's own is sent
--- config
location /api/ { egress_pass api; }
--- request
GET /api/user
--- more_headers
Host: evil.test
--- response_headers
X-Host: api.test



=== TEST 3: the raw target must begin with the prefix
--- config
location /api/ { egress_pass api; }
--- request eval
["GET /x/../api/user", "GET /%61pi/user", "GET //api/user", "GET /api/../api/user", "GET /api//user"]
--- error_code eval
[403, 403, 403, 403, 403]



=== TEST 4: a location of a prefix binding
--- config
location / { egress_pass prefixed; }
--- request eval
["GET /v1/x", "GET /v2/x"]
--- more_headers
X-A: b
--- response_headers eval
["X-Auth: bearer-secret", "X-Auth: none"]



=== TEST 5: nested locations, limit_except, if
--- config
location /api/ {
    limit_except GET { deny all; }
    if ($arg_x) { set $y 1; }
    egress_pass api;
    location /api/in/ { egress_pass api; }
}
--- request eval
["GET /api/user", "GET /api/user?x=1", "GET /api/in/user"]
--- error_code eval
[200, 200, 200]
--- response_headers eval
["X-Auth: bearer-secret", "X-Auth: bearer-secret", "X-Target: /user"]



=== TEST 6: the request line in the access log is the client's
--- config
location /api/ { egress_pass api; }
--- request
GET /api/user?z=1
--- access_log
GET /api/user?z=1



=== TEST 7: the operator's time-outs and buffers are his
proxy_read_timeout 7s; proxy_send_timeout 8s; proxy_connect_timeout 9s;
proxy_buffer_size 8k; proxy_buffers 4 8k;
--- request
GET /api/user
--- response_headers
X-Auth: bearer-secret



=== TEST 8: the variables
--- http_config
log_format e '$egress_role $egress_via $egress_host $egress_binding $egress_class $egress_decision $egress_reason $egress_credential [$egress_rule] [$egress_operation] [$egress_repo]';
--- config
location /api/ { egress_pass api; access_log logs/access.log e; }
--- request
GET /api/user
--- access_log
default base_url api.test api read allow allowed swapped [] [] []



=== TEST 9: the variables of a refusal
--- http_config
log_format e '$egress_role $egress_via $egress_host $egress_binding $egress_class $egress_decision $egress_reason $egress_credential [$egress_rule] [$egress_operation] [$egress_repo]';
--- config
location /api/ { egress_pass api; access_log logs/access.log e; }
--- request
POST /api/user
a
--- error_code: 403
--- access_log
default base_url api.test api write deny write_refused none [] [] []



=== TEST 10: variables where nothing was decided
--- http_config
log_format e '[$egress_decision] [$egress_binding] [$egress_audit]';
--- config
location /api/ { egress_pass api; }
location /none { return 200; access_log logs/access.log e; }
--- request
GET /none
--- access_log
[-] [-] [-]



=== TEST 11: unknown binding
--- config
location /api/ { egress_pass nobody; }
--- error_log
unknown binding "nobody"



=== TEST 12: twice
--- config
location /api/ { egress_pass api; egress_pass api; }
--- error_log
"egress_pass" directive is duplicate



=== TEST 13: without an egress block
--- main_config
--- config
location /api/ { egress_pass api; }
--- error_log
"egress_pass" needs an "egress" block before the "http" block



=== TEST 14: base-URL mode in a regex location
--- config
location ~ ^/api/ { egress_pass api; }
--- error_log
"egress_pass api" is allowed in locations by prefix or "=" only



=== TEST 15: base-URL mode in a named location
--- config
location @api { egress_pass api; }
--- error_log
"egress_pass api" is allowed in locations by prefix or "=" only



=== TEST 16: without a binding, and no terminator
--- config
location / { egress_pass; }
--- error_log
"egress_pass" without a binding needs "egress_terminate" in its server



=== TEST 17: base-URL mode on a terminator
--- http_config
server {
    listen 127.0.0.1:$TEST_NGINX_RAND_PORT_1 ssl;
    egress_terminate on;
    location / { egress_pass api; }
}
--- config
location /none { return 204; }
--- error_log
"egress_pass api" is not allowed beside "egress_terminate"



=== TEST 18: in a server or "if"
--- config
egress_pass api;
--- error_log
"egress_pass" directive is not allowed here



=== TEST 19: proxy_pass after
proxy_pass http://127.0.0.1;
--- error_log
"proxy_pass" directive is duplicate



=== TEST 20: proxy_pass before
--- config
location /api/ { proxy_pass http://127.0.0.1; egress_pass api; }
--- error_log
"proxy_pass" beside "egress_pass", which sets it



=== TEST 21: proxy_ssl_verify off
proxy_ssl_verify off;
--- error_log
"proxy_ssl_verify" directive is duplicate



=== TEST 22: proxy_ssl_verify off before
--- config
location /api/ { proxy_ssl_verify off; egress_pass api; }
--- error_log
"proxy_ssl_verify" beside "egress_pass", which sets it



=== TEST 23: proxy_set_header
proxy_set_header X-A b;
--- error_log
"proxy_set_header" is not allowed beside "egress_pass"



=== TEST 24: proxy_ssl_protocols
proxy_ssl_protocols TLSv1;
--- error_log
"proxy_ssl_protocols" is not allowed beside "egress_pass"



=== TEST 25: proxy_next_upstream
proxy_next_upstream non_idempotent;
--- error_log
"proxy_next_upstream" is not allowed beside "egress_pass"



=== TEST 26: proxy_bind
proxy_bind 127.0.0.1;
--- error_log
"proxy_bind" is not allowed beside "egress_pass"



=== TEST 27: proxy_bind at http level
--- http_config
proxy_bind 127.0.0.1;
--- config
location /api/ { egress_pass api; }
--- error_log
"proxy_bind" is not allowed beside "egress_pass"



=== TEST 28: proxy_method
proxy_method POST;
--- error_log
"proxy_method" is not allowed beside "egress_pass"



=== TEST 29: proxy_set_body
proxy_set_body x;
--- error_log
"proxy_set_body" is not allowed beside "egress_pass"



=== TEST 30: proxy_ssl_conf_command
proxy_ssl_conf_command Options -SessionTicket;
--- error_log
"proxy_ssl_conf_command" is not allowed beside "egress_pass"



=== TEST 31: proxy_ssl_certificate
proxy_ssl_certificate $TEST_NGINX_FIXTURE_DIR/up.pem;
proxy_ssl_certificate_key $TEST_NGINX_FIXTURE_DIR/up.key;
--- error_log
"proxy_ssl_certificate" is not allowed beside "egress_pass"



=== TEST 32: proxy_store
proxy_store on;
--- error_log
"proxy_store" directive is duplicate



=== TEST 33: proxy_cache
proxy_cache z;
--- error_log
"proxy_cache" directive is duplicate



=== TEST 34: proxy_buffering on
proxy_buffering on;
--- error_log
"proxy_buffering" directive is duplicate



=== TEST 35: proxy_intercept_errors on
proxy_intercept_errors on;
--- error_log
"proxy_intercept_errors" directive is duplicate



=== TEST 36: another content handler
fastcgi_pass 127.0.0.1:9000;
--- error_log
"another content handler" is not allowed beside "egress_pass"



=== TEST 37: ssi
ssi on;
--- error_log
"ssi on" is not allowed beside "egress_pass"



=== TEST 38: ignore_invalid_headers off
--- config
ignore_invalid_headers off;
location /api/ { egress_pass api; }
--- error_log
"ignore_invalid_headers off" is not allowed beside "egress_pass"



=== TEST 39: underscores_in_headers on
--- config
underscores_in_headers on;
location /api/ { egress_pass api; }
--- error_log
"underscores_in_headers on" is not allowed beside "egress_pass"



=== TEST 40: at http level, what we set in the location wins
--- http_config
proxy_ssl_verify off;
proxy_set_header X-A b;
proxy_buffering on;
proxy_intercept_errors on;
proxy_next_upstream http_500 non_idempotent;
--- config
location /api/ { egress_pass api; }
--- request
GET /api/user
--- response_headers
X-Auth: bearer-secret



=== TEST 41: the upstream's name can't be reached by a variable (P12)
--- config
location /api/ { egress_pass api; }
location /evil {
    set $u "egress pass";
    proxy_pass https://$u;
}
--- request
GET /evil
--- error_code: 500
--- error_log
upstream of "egress_pass" reached without it



=== TEST 42: two upstreams of that name
--- http_config
upstream "egress pass" { server 127.0.0.1; }
--- config
location /api/ { egress_pass api; }
--- error_log
duplicate upstream "egress pass"
