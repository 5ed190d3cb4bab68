# the runner itself, with an nginx that has nothing of ours

use lib 't/lib';
use Test::Nginx::Socket 'no_plan';

$ENV{TEST_NGINX_HTML_DIR} ||= html_dir();
$ENV{TEST_NGINX_RUNNER_WORD} = 'word';
$ENV{TEST_NGINX_CANARY} ||= 'canary0123456789';

add_response_body_check(sub {
    my ($block, $body) = @_;

    is($body, "checked\n", $block->name . ' - own check of the body')
        if defined $block->name && $block->name =~ /own check/;
});

add_block_preprocessor(sub {
    my $block = shift;

    $block->set_value(request => 'GET /t')
        if !defined $block->request && !defined $block->raw_request
           && !defined $block->pipelined_requests;
});

no_long_string();
run_tests();

__DATA__

=== TEST 1: a status, a body, a log without errors
--- config
    location = /t {
        return 200 "ok\n";
    }
--- request
GET /t
--- response_body
ok
--- no_error_log
[error]
[alert]



=== TEST 2: another status
--- config
    location = /t {
        return 418 "teapot\n";
    }
--- error_code: 418
--- response_body
teapot



=== TEST 3: a status by pattern
--- config
    location = /t {
        return 503;
    }
--- error_code_like: ^50[34]$



=== TEST 4: headers: present, repeated, absent
--- config
    location = /t {
        add_header X-One first;
        add_header X-Two a;
        add_header X-Two b;
        return 200;
    }
--- response_headers
X-One: first
x-two: a, b
! X-Three
--- raw_response_headers_like eval
qr/X-Two: a\r\nX-Two: b\r\n/
--- raw_response_headers_unlike: X-Three



=== TEST 5: headers by pattern
--- config
    location = /t {
        add_header X-One first-$msec;
        return 200;
    }
--- response_headers_like
X-One: first-\d+\.\d+



=== TEST 6: bodies by pattern
--- config
    location = /t {
        return 200 "abc 123\n";
    }
--- response_body_like: ^abc \d+



=== TEST 7: bodies that must not match
--- config
    location = /t {
        return 200 "abc\n";
    }
--- response_body_unlike: \d



=== TEST 8: a body without its last newline
--- config
    location = /t {
        return 200 "abc";
    }
--- response_body chomp
abc



=== TEST 9: filters of the body
--- config
    location = /t {
        return 200 "abc";
    }
--- response_body_filters: uc
--- response_body chop
ABC



=== TEST 10: own check of the body
--- config
    location = /t {
        return 200 "checked\n";
    }



=== TEST 11: the error log, text and pattern, in an array
--- config
    location = /t {
        root html-that-is-not-there;
    }
--- error_code: 404
--- error_log eval
["No such file or directory", qr/open\(\) ".*" failed/]
--- no_error_log
[crit]
[alert]



=== TEST 12: pieces of the error log
--- log_level: info
--- config
    location = /t {
        root html-that-is-not-there;
    }
--- error_code: 404
--- grep_error_log eval: qr/request: "[^"]+"/
--- grep_error_log_out
request: "GET /t HTTP/1.1"



=== TEST 13: the access log
--- config
    location = /t {
        return 204;
    }
--- error_code: 204
--- access_log eval
["GET /t HTTP/1.1", qr/" 204 0 /]
--- no_access_log
POST



=== TEST 14: a level hides what is below it
--- log_level: error
--- config
    location = /t {
        return 200;
    }
--- no_error_log
[debug]
[info]



=== TEST 15: files, also in folders, with variables and times
--- config
    location /a/ {
        root $TEST_NGINX_HTML_DIR;
    }
--- user_files
>>> a/b.txt 200102030405.06
file $TEST_NGINX_RUNNER_WORD
>>> c.txt
other
--- request
GET /a/b.txt
--- response_headers
Last-Modified: Sat, 03 Feb 2001 04:05:06 GMT
--- response_body
file $TEST_NGINX_RUNNER_WORD



=== TEST 16: files as an array
--- config
--- user_files eval
[["x.txt", "first\n"], ["y.txt", "second\n"]]
--- request eval
["GET /x.txt", "GET /y.txt"]
--- error_code eval
[200, 200]
--- response_body eval
["first\n", "second\n"]



=== TEST 17: the page of the root location
--- config
--- request
GET /
--- response_body_like: It works!



=== TEST 18: what the client adds
--- config
    location = /t {
        return 200 "$request|$http_host|$http_connection|$http_content_length\n";
    }
--- request
GET /t
--- response_body
GET /t HTTP/1.1|localhost|close|



=== TEST 19: more headers; a host of its own
--- config
    server_name localhost other.test;
    location = /t {
        return 200 "$http_host|$http_x_one|$http_connection\n";
    }
--- more_headers
Host: other.test
# not sent
X-One: 1
--- response_body
other.test|1|close



=== TEST 20: a body, its length, a version
--- config
    location = /t {
        client_body_in_single_buffer on;
        client_body_buffer_size 4k;
        proxy_pass http://127.0.0.1:$TEST_NGINX_SERVER_PORT/b;
        proxy_set_header X-Version $server_protocol;
    }
    location = /b {
        return 200 "$request_method|$http_content_length|$http_x_version\n";
    }
--- request
POST /t HTTP/1.0
 hello
--- response_body
POST|5|HTTP/1.0



=== TEST 21: several requests with headers of their own
--- config
    location = /a {
        return 200 "a$http_x_n\n";
    }
    location = /b {
        return 404 "b$http_x_n\n";
    }
--- request eval
["GET /a", "GET /b", "HEAD /a"]
--- more_headers eval
["X-N: 1", "X-N: 2", ""]
--- error_code eval
[200, 404, 200]
--- response_body eval
["a1\n", "b2\n", ""]
--- response_headers eval
["Content-Length: 3", "Content-Length: 3", "Content-Length: 2"]



=== TEST 22: a request in packets, with delays
--- config
    location = /t {
        proxy_pass http://127.0.0.1:$TEST_NGINX_SERVER_PORT/b;
    }
    location = /b {
        return 200 "$request_method|$http_content_length|$http_x_one\n";
    }
--- request eval
[["PO", {value => "ST /", delay_before => 0.05}, "t\r\n",
  {value => "hello", delay_before => 0.1}, " world"]]
--- more_headers
X-One: 1
--- response_body
POST|11|1



=== TEST 23: a raw request
--- config
    location = /t {
        return 200 "$http_host|$http_x_one\n";
    }
--- raw_request eval
"GET /t HTTP/1.1\r\nHost: raw.test\r\nX-One:two\r\nConnection: close\r\n\r\n"
--- response_body
raw.test|two



=== TEST 24: a raw request in parts
--- config
    location = /t {
        return 200 "$http_host\n";
    }
--- raw_request eval
["GET /t HT", "TP/1.1\r\nHost: raw", ".test\r\nConnection: close\r\n\r\n"]
--- raw_request_middle_delay: 0.05
--- response_body
raw.test



=== TEST 25: requests on one connection
--- config
    location = /a {
        return 200 "$connection_requests $http_connection\n";
    }
--- pipelined_requests eval
["GET /a", "GET /a?\$TEST_NGINX_RUNNER_WORD", "GET /a"]
--- error_code eval
[200, 200, 200]
--- response_body eval
["1 keep-alive\n", "2 keep-alive\n", "3 close\n"]



=== TEST 26: a chunked response
--- config
    location = /t {
        proxy_http_version 1.1;
        proxy_pass http://127.0.0.1:$TEST_NGINX_RAND_PORT_1;
    }
--- tcp_listen: $TEST_NGINX_RAND_PORT_1
--- tcp_reply eval
"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
. "5\r\nhello\r\n7\r\n world\n\r\n0\r\n\r\n"
--- response_headers
Transfer-Encoding: chunked
--- response_body
hello world



=== TEST 27: a peer: what it received, and its reply by a function
--- config
    location = /t {
        proxy_pass http://127.0.0.1:$TEST_NGINX_RAND_PORT_1/u;
        proxy_http_version 1.0;
        proxy_set_header Host peer.test;
        proxy_set_header Connection close;
    }
--- tcp_listen: $TEST_NGINX_RAND_PORT_1
--- tcp_query eval
"GET /u HTTP/1.0\r\nHost: peer.test\r\nConnection: close\r\n\r\n"
--- tcp_query_len: 55
--- tcp_reply eval
sub {
    my $n = length shift;
    return ["HTTP/1.0 200 OK\r\n\r\n", "$n\n"];
}
--- response_body
55



=== TEST 28: a peer that is slow, and a limit above it
--- config
    location = /t {
        proxy_pass http://127.0.0.1:$TEST_NGINX_RAND_PORT_1;
    }
--- tcp_listen: $TEST_NGINX_RAND_PORT_1
--- tcp_reply_delay: 200ms
--- tcp_reply eval
"HTTP/1.0 200 OK\r\n\r\nlate\n"
--- timeout: 5s
--- response_body
late



=== TEST 29: a peer on a unix socket
--- config
    location = /t {
        proxy_pass http://unix:$TEST_NGINX_HTML_DIR/peer.sock;
    }
--- tcp_listen: $TEST_NGINX_HTML_DIR/peer.sock
--- tcp_reply eval
"HTTP/1.0 200 OK\r\n\r\nlocal\n"
--- response_body
local



=== TEST 30: a client that does not wait for the answer
--- config
    location = /t {
        proxy_ignore_client_abort on;
        proxy_pass http://127.0.0.1:$TEST_NGINX_RAND_PORT_1;
    }
--- tcp_listen: $TEST_NGINX_RAND_PORT_1
--- tcp_reply_delay: 0.6
--- tcp_reply eval
"HTTP/1.0 200 OK\r\n\r\nlate\n"
--- timeout: 0.2
--- abort
--- ignore_response
--- no_error_log
[error]



=== TEST 31: an answer that nobody reads
--- config
    location = /t {
        return 500;
    }
--- ignore_response
--- wait: 0.1
--- no_error_log
[error]



=== TEST 32: a configuration that must not load
--- config
    no_such_directive on;
--- must_die
--- error_log
unknown directive "no_such_directive"
[emerg]
--- no_error_log
[alert]
--- suppress_stderr



=== TEST 33: the same with its exit code
--- http_config
    server {
        listen not:a:port;
    }
--- config
--- must_die: 1
--- error_log
[emerg]
--- suppress_stderr



=== TEST 34: parts of the configuration, in their order
--- main_config
    env RUNNER_TEST=1;
--- http_config
    map $uri $word {
        default $TEST_NGINX_RUNNER_WORD;
    }
    server {
        listen 127.0.0.1:$TEST_NGINX_RAND_PORT_1;
        location / {
            return 200 "$word $server_port\n";
        }
    }
--- config
    location = /t {
        proxy_pass http://127.0.0.1:$TEST_NGINX_RAND_PORT_1;
    }
--- response_body
word $TEST_NGINX_RAND_PORT_1



=== TEST 35: code before nginx, code before the requests
--- config
--- post_setup_server_root
open my $out, '>', "$ENV{TEST_NGINX_SERVER_ROOT}/html/early" or die;
print $out "early\n";
close $out;
--- init
open my $out, '>', "$ENV{TEST_NGINX_SERVER_ROOT}/html/late" or die;
print $out "late\n";
close $out;
--- request eval
["GET /early", "GET /late"]
--- error_code eval
[200, 200]
--- response_body eval
["early\n", "late\n"]



=== TEST 36: the log at the end of nginx
--- config
    location = /t {
        return 200;
    }
--- shutdown_error_log
exit
--- no_shutdown_error_log
[alert]



=== TEST 37: left out by version
--- config
--- skip_nginx: 2: >= 0.0.1: never to be run
--- error_code: 999



=== TEST 38: left out by code
--- config
--- skip_eval: 1: $Test::Nginx::Util::NginxVersion > 0
--- error_code: 999



=== TEST 39: left out altogether
--- SKIP
--- config
--- error_code: 999



=== TEST 40: to be done
--- config
--- todo: 1: not yet
--- error_code: 999



=== TEST 41: not for this OpenSSL
--- config
--- skip_openssl: 1: >= 0.0.1
--- error_code: 999



=== TEST 42: a half-closed client
--- config
    location = /t {
        return 200 "ok\n";
    }
--- shutdown
--- response_body
ok



=== TEST 43: an answer without headers
--- config
    location = /t {
        return 200 "old\n";
    }
--- raw_request eval
"GET /t\r\n"
--- http09
--- response_body
old



=== TEST 44: JSON in any order
--- config
    location = /t {
        return 200 '{"b": [1, 2], "a": "x"}';
    }
--- response_body_json_sort
--- response_body
{"a":"x","b":[1,2]}



=== TEST 45: a request that is no HTTP
--- config
--- raw_request eval
"\x16\x03\x01\r\n\r\n"
--- error_code: 400
--- response_body_like: 400 Bad Request



=== TEST 46: a comment before the request line, a body with spaces around
--- config
    location = /t {
        proxy_pass http://127.0.0.1:$TEST_NGINX_SERVER_PORT/b;
    }
    location = /b {
        return 200 "$http_content_length\n";
    }
--- request
# of a kind
POST /t

  abc
--- response_body
3



=== TEST 47: a chunked request
--- config
    location = /t {
        client_max_body_size 4;
        proxy_pass http://127.0.0.1:1;
    }
--- request eval
"POST /t\r\n5\r\nhello\r\n0\r\n\r\n"
--- more_headers
Transfer-Encoding: chunked
--- error_code: 413



=== TEST 48: port variables in what is expected
--- config
    location = /t {
        add_header X-Port $server_port;
        return 200 "$server_port\n";
    }
--- response_headers
X-Port: $ServerPort
--- response_body
$ServerPort



=== TEST 49: a log file elsewhere
--- error_log_file: $TEST_NGINX_HTML_DIR/elsewhere.log
--- config
    location = /t {
        return 200;
    }
--- no_error_log
[debug]



=== TEST 50: the canary, where it is expanded everywhere
--- config
    access_log off;
    location = /t {
        if ($arg_k = "$TEST_NGINX_CANARY") {
            return 200 "arrived\n";
        }
        return 403;
    }
--- user_files
>>> secret
$TEST_NGINX_CANARY
--- log_level: warn
--- request eval
"GET /t?k=$ENV{TEST_NGINX_CANARY}"
--- init
my $file = "$ENV{TEST_NGINX_SERVER_ROOT}/html/secret";
open my $in, '<', $file or die;
<$in> eq "$ENV{TEST_NGINX_CANARY}\n" or die "not expanded";
--- response_body
arrived



=== TEST 51: HTTP/2
--- config
    location = /t {
        return 200 "$server_protocol\n";
    }
--- skip_nginx: 2: < 1.25.1: the directive of newer versions
--- http2
--- response_body
HTTP/2.0
