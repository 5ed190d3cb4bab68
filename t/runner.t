# the runner itself, on a plain nginx: what passes here must pass under the
# original Test::Nginx::Socket as well

use lib 't/lib';
use Test::Nginx::Socket 'no_plan';

no_long_string();
run_tests();

__DATA__

=== TEST 1: status, headers, body
--- config
location = /t {
    default_type text/x-a;
    add_header X-A b;
    return 201 "hello\n";
}
--- request
GET /t
--- error_code: 201
--- response_headers
X-A: b
! X-None
Content-Type: text/x-a
--- response_headers_like
Content-Length: \d+
--- response_body
hello
--- response_body_like: ^hel+o$
--- response_body_unlike: bye
--- raw_response_headers_like: ^HTTP/1.1 201
--- raw_response_headers_unlike: X-None



=== TEST 2: several requests, headers for each
--- config
location = /t { return 200 "$http_x_a $request_method $request_body\n"; }
--- request eval
["GET /t", "POST /t\nbody"]
--- more_headers eval
["X-A: 1", "X-A: 2"]
--- response_body eval
["1 GET \n", "2 POST \n"]



=== TEST 3: pipelined
--- config
location /t { return 200 "$uri\n"; }
--- pipelined_requests eval
["GET /t1", "POST /t2\nabc", "GET /t3"]
--- response_body eval
["/t1\n", "/t2\n", "/t3\n"]



=== TEST 4: raw, in pieces
--- config
location /t { return 200 "$http_host\n"; }
--- raw_request eval
["GET /t HT", "TP/1.1\r\nHost: pie", "ces\r\nConnection: close\r\n\r\n"]
--- raw_request_middle_delay: 0.02
--- response_body
pieces



=== TEST 5: files and logs
--- config
location /t { root html; }
--- user_files
>>> t
from a file
--- request
GET /t
--- response_body
from a file
--- access_log
GET /t HTTP/1.1
--- no_access_log
POST
--- no_error_log
[error]



=== TEST 6: error log
--- config
location /t { root html; }
--- request
GET /t/none
--- error_code: 404
--- error_log eval
[qr/open\(\) ".*none" failed/, "No such file"]
--- grep_error_log eval
qr/\[error\]/
--- grep_error_log_out
[error]



=== TEST 7: a peer, and what it was asked
--- config
location /t {
    proxy_pass http://127.0.0.1:$TEST_NGINX_RAND_PORT_1;
    proxy_set_header Host x;
    proxy_set_header Connection close;
}
--- tcp_listen: $TEST_NGINX_RAND_PORT_1
--- tcp_reply eval
"HTTP/1.0 200 OK\r\n\r\nfrom the peer"
--- tcp_query eval
"GET /t HTTP/1.0\r\nHost: x\r\nConnection: close\r\n\r\n"
--- request
GET /t
--- response_body: from the peer



=== TEST 8: a configuration that is refused
--- config
nonsense on;
--- must_die
--- error_log
unknown directive "nonsense"



=== TEST 9: chunked
--- config
location /t {
    proxy_pass http://127.0.0.1:$TEST_NGINX_RAND_PORT_1;
    proxy_http_version 1.1;
}
--- tcp_listen: $TEST_NGINX_RAND_PORT_1
--- tcp_reply eval
"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
--- request
GET /t
--- response_body: abcde



=== TEST 10: main_config, http_config, post_main_config, log_level
--- main_config
env A=b;
--- http_config
map $host $m { default mapped; }
--- post_main_config
worker_rlimit_core 0;
--- config
location /t { return 200 "$m\n"; }
--- log_level: info
--- request
GET /t
--- response_body
mapped
--- no_error_log
[debug]
