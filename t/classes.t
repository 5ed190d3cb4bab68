# read, write, refuse, anonymous, git, encoded_slash, access: DESIGN 5.2, 6.2, 6.4

use lib 't/lib', 't/fixture';
use Fixture;
use Test::Nginx::Socket 'no_plan';
use Rules;

Rules::by_default('');

no_root_location();
no_long_string();
run_tests();

__DATA__

=== TEST 1: by method
--- request eval
["GET /x", "HEAD /x", "OPTIONS /x", "POST /x\na", "PUT /x\na", "PATCH /x\na",
 "DELETE /x", "PROPFIND /x", "GETX /x"]
--- error_code eval
[200, 200, 200, 403, 403, 403, 403, 403, 403]
--- response_headers_like eval
["X-Auth: bearer-secret", "X-Auth: bearer-secret", "X-Auth: bearer-secret",
 (map { 'Proxy-Status: .*details="write_refused: .*' } 1 .. 4),
 (map { 'Proxy-Status: .*details="class_unknown: .*' } 1 .. 2)]



=== TEST 2: TRACE and a method in lower case are core's to refuse (X-31, R-02)
--- request eval
["TRACE /x", "get /x"]
--- error_code eval
[405, 400]
--- response_headers_like eval
['Proxy-Status: nginx-egress; error=http_request_denied; details="method_refused: .*',
 'Proxy-Status: nginx-egress; error=http_request_error; details="malformed_request: .*']



=== TEST 3: access write allows writes, unknown methods never
--- main_config eval
$::Main->('access write;')
--- request eval
["POST /x\na", "DELETE /x", "PROPFIND /x"]
--- error_code eval
[200, 200, 403]
--- response_headers_like eval
["X-Auth: bearer-secret", "X-Auth: bearer-secret",
 'Proxy-Status: .*details="class_unknown: .*']



=== TEST 4: read: an exact path
--- main_config eval
$::Main->('read POST = /markdown;')
--- request eval
["POST /markdown\na", "POST /markdown/\na", "POST /Markdown\na",
 "POST /markdown?x=y\na", "PUT /markdown\na", "POST /markdow%6E\na"]
--- error_code eval
[200, 403, 403, 200, 403, 403]



=== TEST 5: read: a prefix ends at a segment
--- main_config eval
$::Main->('read POST,PUT /a/b;')
--- request eval
["POST /a/b\na", "PUT /a/b/c\na", "POST /a/bc\na", "POST /A/b\na",
 "PATCH /a/b\na"]
--- error_code eval
[200, 200, 403, 403, 403]



=== TEST 6: read: a regex
--- main_config eval
$::Main->('read POST ~ "^/v[0-9]{1,2}/search$";')
--- request eval
["POST /v1/search\na", "POST /v12/search\na", "POST /v123/search\na",
 "POST /v1/search/x\na"]
--- error_code eval
[200, 200, 403, 403]



=== TEST 7: refuse and write match in any case, the first rule wins
--- main_config eval
$::Main->('refuse * /login; read POST = /login; write GET = /start; read GET /;')
--- request eval
["GET /login", "GET /LOGIN/x", "POST /login\na", "GET /START", "GET /started",
 "GET /loginx"]
--- error_code eval
[403, 403, 403, 403, 200, 200]
--- response_headers_like eval
[(map { 'Proxy-Status: .*details="rule_refused: .*' } 1 .. 3),
 'Proxy-Status: .*details="write_refused: .*', 'X-Auth: .*', 'X-Auth: .*']



=== TEST 8: refuse holds under access write
--- main_config eval
$::Main->('access write; refuse POST ~ /tokens$;')
--- request eval
["POST /app/TOKENS\na", "POST /app/token\na"]
--- error_code eval
[403, 200]



=== TEST 9: a method that HTTP does not know, by rule
--- main_config eval
$::Main->('read SEARCH = /s; write PURGE /;')
--- request eval
["SEARCH /s", "SEARCH /t", "PURGE /s"]
--- error_code eval
[200, 403, 403]
--- response_headers_like eval
['X-Auth: .*', 'Proxy-Status: .*class_unknown.*',
 'Proxy-Status: .*write_refused.*']



=== TEST 10: rules of a host block are for that host
--- main_config
egress {
    audit_log            off;
    trusted_certificate  $TEST_NGINX_FIXTURE_DIR/trusted.pem;
    binding a {
        upstream     https://127.0.0.1:$TEST_NGINX_UPSTREAM_PORT;
        host api.test { read POST = /only-api; }
        host other.test { read POST = /only-other; }
        host api.test { refuse GET = /not-api; }
        read POST = /both;
    }
    binding b {
        hosts        third.test;
        upstream     https://127.0.0.1:$TEST_NGINX_UPSTREAM_PORT;
    }
}
--- config
location /a/ { egress_pass a; }
location /b/ { egress_pass b; }
--- request eval
["POST /a/only-api\na", "POST /a/only-other\na", "POST /a/both\na",
 "GET /a/not-api", "POST /b/both\na"]
--- error_code eval
[200, 403, 200, 403, 403]



=== TEST 11: method override fields (R-01)
--- request eval
["GET /x", "GET /x", "GET /x", "GET /x"]
--- more_headers eval
["X-HTTP-Method-Override: DELETE", "X-HTTP-Method: PUT",
 "X-Method-Override: get", "X-HTTP-Method-Override: GET"]
--- error_code eval
[403, 403, 403, 200]
--- response_headers_like eval
[(map { 'Proxy-Status: .*method_refused.*' } 1 .. 3),
 'X-Fields: .* mo= .*']



=== TEST 12: _method in the query
--- request eval
["GET /x?_method=delete", "GET /x?a=b&_METHOD=put", "GET /x?%5Fmethod=put",
 "GET /x?my_method=1", "GET /x?a=_method"]
--- error_code eval
[403, 403, 403, 200, 200]
--- response_headers_like eval
[(map { 'Proxy-Status: .*method_refused.*' } 1 .. 3),
 'X-Auth: .*', 'X-Auth: .*']



=== TEST 13: GET and HEAD with a body (R2)
--- raw_request eval
"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\na"
--- error_code: 400
--- response_headers_like
Proxy-Status: .*malformed_request.*



=== TEST 14: GET with a chunked body
--- raw_request eval
"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
--- error_code: 400



=== TEST 15: GET with Content-Length: 0 is fine
--- raw_request eval
"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
--- error_code: 200



=== TEST 16: targets that two servers could read in two ways (R-07, O-01)
--- request eval
["GET /a/../b", "GET /a/%2e%2e/b", "GET /a/.%2E/b", "GET //b", "GET /a//b",
 "GET /a/./b", "GET /a;x/..;y/b", "GET /a%5cb", "GET /a%2fb", "GET /%61",
 "GET /a/%252e%252e/b", "GET /a/%c0%ae%c0%ae/b"]
--- error_code eval
[map { 403 } 1 .. 12]
--- response_headers_like eval
[map { 'Proxy-Status: .*path_refused.*' } 1 .. 12]



=== TEST 17: malformed targets
--- request eval
["GET /a\\b", "GET /a#b", "GET /a%zz", "GET /a%", "GET /a%00", "GET x"]
--- error_code eval
[map { 400 } 1 .. 6]
--- response_headers_like eval
[map { 'Proxy-Status: .*malformed_request.*' } 1 .. 6]



=== TEST 18: what passes goes upstream byte for byte
--- request eval
["GET /a%C3%A4/~x/%7Ey?a=%2F..//&b=%00", "GET /?", "GET /a;b=c/d"]
--- error_code eval
[400, 200, 200]
--- response_headers eval
["Content-Type: application/problem+json", "X-Target: /?", "X-Target: /a;b=c/d"]



=== TEST 19: raw bytes of the target
--- request
GET /a%C3%A4/~x/%7Ey?a=%2F..//&b=%2e
--- response_headers
X-Target: /a%C3%A4/~x/%7Ey?a=%2F..//&b=%2e



=== TEST 20: encoded_slash on
--- main_config eval
$::Main->('encoded_slash on;')
--- request eval
["GET /a%2Fb", "GET /a%2fb", "GET /a%2F../b", "GET /a%2F%2Fb", "GET /a/%2F"]
--- error_code eval
[200, 200, 403, 403, 403]
--- response_headers_like eval
['X-Target: /a%2Fb', 'X-Target: /a%2fb', 'Proxy-Status: .*path_refused.*',
 'Proxy-Status: .*path_refused.*', 'Proxy-Status: .*path_refused.*']



=== TEST 21: encoded_slash where a pattern matches
--- main_config eval
$::Main->('encoded_slash ~ ^/repos/[^/%]+/[^/%]+/;')
--- request eval
["GET /repos/o/r/contents/a%2Fb", "GET /repos/o%2Fr/x", "GET /x/a%2Fb"]
--- error_code eval
[200, 403, 403]



=== TEST 22: with an encoded slash refuse sees both readings, read only one
--- main_config eval
$::Main->('encoded_slash on; refuse GET /a/secret; read POST = /a/b;')
--- request eval
["GET /a%2Fsecret", "GET /a%2Fother", "POST /a%2Fb\na"]
--- error_code eval
[403, 200, 403]



=== TEST 23: git: discovery and upload-pack are reads
--- main_config eval
$::Main->('git on;')
--- request eval
["GET /o/r.git/info/refs?service=git-upload-pack",
 "GET /a/b/c/r/info/refs?service=git-upload-pack",
 "POST /o/r.git/git-upload-pack\n0000"]
--- more_headers
Content-Type: application/x-git-upload-pack-request
--- error_code eval
[200, 200, 200]



=== TEST 24: git: receive-pack is refused in plain text at discovery (R-11)
--- main_config eval
$::Main->('git on;')
--- request eval
["GET /o/r.git/info/refs?service=git-receive-pack",
 "POST /o/r.git/git-receive-pack\n0000"]
--- error_code eval
[403, 403]
--- response_headers eval
["Content-Type: text/plain; charset=utf-8",
 "Content-Type: text/plain; charset=utf-8"]
--- response_body eval
["nginx-egress: write_refused: write refused, this binding is read-only (binding api)\n",
 "nginx-egress: write_refused: write refused, this binding is read-only (binding api)\n"]



=== TEST 25: git: a service that can't be told
--- main_config eval
$::Main->('git on;')
--- request eval
["GET /o/r.git/info/refs?service=git-upload-pack&service=git-receive-pack",
 "GET /o/r.git/info/refs?service=git%2Dupload-pack",
 "GET /o/r.git/git-upload-pack",
 "POST /o/r.git/git-upload-pack\n0000"]
--- error_code eval
[403, 403, 403, 403]
--- response_headers_like eval
[map { 'Proxy-Status: .*class_unknown.*' } 1 .. 4]



=== TEST 26: git: writes with access write
--- main_config eval
$::Main->('git on; access write;')
--- request eval
["GET /o/r.git/info/refs?service=git-receive-pack",
 "POST /o/r.git/git-receive-pack\n0000"]
--- error_code eval
[200, 200]



=== TEST 27: git: a number of segments
--- main_config eval
$::Main->('git on segments=2; refuse * /;')
--- request eval
["GET /o/r.git/info/refs", "GET /o/x/r.git/info/refs", "GET /o/r/tree"]
--- error_code eval
[200, 403, 403]
--- response_headers_like eval
['X-Auth: .*', 'Proxy-Status: .*class_unknown.*',
 'Proxy-Status: .*rule_refused.*']



=== TEST 28: git off is as if it were not there
--- main_config eval
$::Main->('git off;')
--- request
GET /o/r.git/info/refs?service=git-receive-pack
--- error_code: 200



=== TEST 29: git: an LFS write, in the body that git-lfs prints
--- main_config eval
$::Main->('git on;')
--- request
POST /o/r.git/info/lfs/locks
{"path":"a"}
--- error_code: 403
--- response_headers
Content-Type: application/vnd.git-lfs+json
--- response_body_like
^\{"message":"nginx-egress: write_refused: .*"\}$



=== TEST 30: git: gzip and chunked bodies pass as they are
--- main_config eval
$::Main->('git on;')
--- raw_request eval
"POST /o/r.git/git-upload-pack HTTP/1.1\r\nHost: a\r\nConnection: close\r
Content-Type: application/x-git-upload-pack-request\r
Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r
5\r\nabcde\r\n0\r\n\r\n"
--- error_code: 200
--- response_body
POST /o/r.git/git-upload-pack



=== TEST 31: smuggling: two lengths, length and chunks (R-04, O-03)
--- raw_request eval
"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nGET /y HTTP/1.1\r\nHost: a\r\n\r\n"
--- error_code: 400
--- response_headers_like
Proxy-Status: .*malformed_request.*



=== TEST 32: both framings
--- raw_request eval
"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
--- error_code: 400



=== TEST 33: an unknown transfer coding
--- raw_request eval
"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"
--- error_code: 501
--- response_headers_like
Proxy-Status: .*malformed_request.*



=== TEST 34: HTTP/1.0 is served, HTTP/0.9 is not (R-03)
--- raw_request eval
"GET /x\r\n"
--- ignore_response
--- error_log
egress request refused: malformed_request



=== TEST 35: forty pipelined requests, each judged by itself (R-17)
--- pipelined_requests eval
[map { $_ % 2 ? "POST /x$_\na" : "GET /x$_" } 0 .. 39]
--- error_code eval
[map { $_ % 2 ? 403 : 200 } 0 .. 39]



=== TEST 36: query and path apart (R-08)
--- main_config eval
$::Main->('refuse * /denied;')
--- request eval
["GET /allowed?x=/denied", "GET /denied?/allowed"]
--- error_code eval
[200, 403]
