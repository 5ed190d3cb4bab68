# inspectors, repos, repo, repo_free, inspect_body_max: DESIGN 5.2, 6.4 to 6.6
# (R-10, R-12 to R-15)

use lib 't/lib', 't/fixture';
use Fixture;
use Test::Nginx::Socket 'no_plan';
use Rules;
use JSON::PP ();

our $Graphql = 'read GET,POST = /graphql graphql;';
our $Rpc = 'read GET,POST,DELETE = /mcp json_rpc tool=get_file tool=search;';

# a POST with a JSON body

sub post { return "POST $_[0]\n$_[1]" }

sub q1 { return JSON::PP->new->canonical->encode({ query => $_[0] }) }

sub rpc {
    return JSON::PP->new->canonical->encode(
        { jsonrpc => '2.0', id => 7, method => $_[0],
          $_[1] ? (params => $_[1]) : () });
}

Rules::by_default($Graphql);

no_root_location();
no_long_string();
run_tests();

__DATA__

=== TEST 1: graphql: queries pass, with the secret
--- request eval
[main::post('/graphql', main::q1('{viewer{login}}')),
 main::post('/graphql', main::q1('query A{a} query B{b}')),
 main::post('/graphql?', main::q1("fragment f on Q{a}\nquery B{...f}")),
 "GET /graphql", "GET /graphql?query=%7Bviewer%7Blogin%7D%7D"]
--- error_code eval
[200, 200, 200, 200, 200]
--- response_headers eval
[map { 'X-Auth: bearer-secret' } 1 .. 5]



=== TEST 2: graphql: a mutation anywhere is a write (R-12)
--- request eval
[main::post('/graphql', main::q1('mutation{addStar{id}}')),
 main::post('/graphql', main::q1('query A{a} mutation B{b}')),
 main::post('/graphql', "{\"query\":\"mut\\u0061tion{b}\"}"),
 "GET /graphql?query=mutation%7Bb%7D",
 "GET /graphql?query=%7Ba%7D%20mut%61tion%20B%7Bb%7D"]
--- error_code eval
[403, 403, 403, 403, 403]
--- response_headers_like eval
[map { 'Proxy-Status: nginx-egress; error=http_request_denied; details="write_refused: .*' } 1 .. 5]
--- response_body_like eval
[map { '"message":"nginx-egress: write_refused: .*binding api' } 1 .. 5]



=== TEST 3: graphql: with "access write" it passes
--- main_config eval
$::Main->("access write; $::Graphql")
--- request eval
[main::post('/graphql', main::q1('mutation{addStar{id}}')),
 main::post('/graphql', main::q1('type Q{a:Int}'))]
--- error_code eval
[200, 403]



=== TEST 4: graphql: what is no query is unknown, under "access write" too
--- main_config eval
$::Main->("access write; $::Graphql")
--- request eval
[main::post('/graphql', '{'), main::post('/graphql', '[]'),
 main::post('/graphql', main::q1('{a')), main::post('/graphql', '{"query":1}'),
 main::post('/graphql', '{"query":"{a}","query":"{a}"}'),
 "GET /graphql?query=%7Ba%7D&query=%7Ba%7D"]
--- error_code eval
[map { 403 } 1 .. 6]
--- response_headers_like eval
[map { 'Proxy-Status: .*details="class_unknown: .*' } 1 .. 6]



=== TEST 5: graphql: a query beside a body
--- request eval
[main::post('/graphql?query={a}', main::q1('{a}')),
 main::post('/graphql?query=mutation%7Bb%7D', main::q1('{a}')),
 main::post('/graphql?operation%4eame=B', main::q1('{a}')),
 main::post('/graphql?id=1', main::q1('{a}')), "GET /graphql?id=1",
 "GET /graphql?extensions=%7B%7D"]
--- error_code eval
[403, 403, 403, 403, 403, 403]
--- response_headers_like eval
[map { 'Proxy-Status: .*details="class_unknown: .*' } 1 .. 6]



=== TEST 6: graphql: the exact path only, and no other method
--- request eval
[main::post('/graphql/', main::q1('{a}')),
 main::post('/GraphQL', main::q1('{a}')),
 "PUT /graphql\n" . main::q1('{a}')]
--- error_code eval
[403, 403, 403]



=== TEST 7: graphql: what is judged is sent, with its length
--- request eval
main::post('/graphql', main::q1("query Zwölf{a(s:\"" . ('x' x 30000) . "\"){b}}"))
--- error_code: 403



=== TEST 8: graphql: a long query
--- request eval
main::post('/graphql', main::q1("query A{a(s:\"" . ('x' x 300000) . "\"){b}}"))
--- error_code: 200
--- response_body
POST /graphql



=== TEST 9: no body is no query
--- raw_request eval
"POST /graphql HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
--- error_code: 403
--- response_headers_like
Proxy-Status: .*details="class_unknown: .*



=== TEST 10: a chunked body
--- raw_request eval
"POST /graphql HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
. "8\r\n{\"query\"\r\n6\r\n:\"{a}\"\r\n1\r\n}\r\n0\r\n\r\n"
--- error_code: 200



=== TEST 11: a chunked mutation
--- raw_request eval
"POST /graphql HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
. "8\r\n{\"query\"\r\n14\r\n:\"mutation{a}\"      \r\n1\r\n}\r\n0\r\n\r\n"
--- error_code: 403



=== TEST 12: encoded bodies are not looked into (G27, DESIGN 6.4)
--- request eval
[main::post('/graphql', main::q1('{a}')), main::post('/graphql', main::q1('{a}')),
 main::post('/graphql', main::q1('{a}'))]
--- more_headers eval
["Content-Encoding: gzip", "Content-Encoding: identity, br",
 "Content-Encoding: Identity"]
--- error_code eval
[415, 415, 200]
--- response_headers_like eval
['Proxy-Status: .*error=http_request_error; details="body_unsupported: .*',
 'Proxy-Status: .*error=http_request_error; details="body_unsupported: .*',
 'X-Auth: .*']



=== TEST 13: charsets
--- request eval
[map { main::post('/graphql', main::q1('{a}')) } 1 .. 6]
--- more_headers eval
["Content-Type: application/json; charset=utf-8",
 "Content-Type: application/json;Charset=\"UTF-8\"; x=y",
 "Content-Type: application/json; charset=utf-16",
 "Content-Type: application/json; x=y; charset=utf-7",
 "Content-Type: text/plain;charset=latin1",
 "Content-Type: text/plain"]
--- error_code eval
[200, 200, 415, 415, 415, 200]



=== TEST 14: what is no UTF-8
--- request eval
[main::post('/graphql', "{\"query\":\"{a} \xff\"}"),
 main::post('/graphql', "\xef\xbb\xbf{\"query\":\"{a}\"}")]
--- error_code eval
[415, 415]
--- response_headers_like eval
[map { 'Proxy-Status: .*details="body_unsupported: .*' } 1 .. 2]



=== TEST 15: inspect_body_max
--- main_config eval
$::Main->("$::Graphql inspect_body_max 64;")
--- request eval
[main::post('/graphql', main::q1('{' . 'a' x 49 . '}')),
 main::post('/graphql', main::q1('{' . 'a' x 51 . '}')),
 main::post('/graphql', main::q1('{' . 'a' x 5100 . '}'))]
--- error_code eval
[200, 413, 413]
--- response_headers_like eval
['X-Auth: .*', map { 'Proxy-Status: .*details="body_too_large: .*' } 1 .. 2]



=== TEST 16: inspect_body_max, of a chunked body
--- main_config eval
$::Main->("$::Graphql inspect_body_max 64;")
--- raw_request eval
"POST /graphql HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
. "8\r\n{\"query\"\r\n1000\r\n" . ' ' x 4096 . "\r\n"
--- error_code: 413



=== TEST 17: what the header can refuse is refused before the body is read
--- main_config eval
$::Main->("foreign_credential refuse; $::Graphql")
--- raw_request eval
"POST /graphql HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1000\r\nAuthorization: Bearer mine\r\n\r\n" . '[' x 1000
--- error_code: 403
--- response_headers_like
Proxy-Status: .*details="foreign_credential: .*



=== TEST 18: the operation is told
--- config
location / { egress_pass api; add_header X-Op "$egress_class|$egress_operation|$egress_repo" always; }
--- main_config eval
$::Main->("$::Graphql $::Rpc git on;")
--- request eval
[main::post('/graphql', main::q1('query Who{viewer{login}}')),
 main::post('/graphql', main::q1('query A{a} mutation B{b}')),
 main::post('/mcp', main::rpc('tools/call', { name => 'get_file' })),
 main::post('/o/r.git/info/lfs/objects/batch', '{"operation":"upload"}')]
--- error_code eval
[200, 403, 200, 403]
--- response_headers_like eval
['X-Op: read\|query Who\|', 'X-Op: write\|mutation B\|', 'X-Op: read\|tools/call get_file\|',
 'X-Op: write\|lfs-upload\|o/r']



=== TEST 19: git LFS: batch requests (B4)
--- main_config eval
$::Main->('git on;')
--- request eval
[main::post('/o/r.git/info/lfs/objects/batch', '{"operation":"download"}'),
 main::post('/o/r.git/info/lfs/objects/batch', '{"operation":"upload"}'),
 main::post('/o/r.git/info/lfs/objects/batch', '{"operation":"Download"}'),
 main::post('/o/r.git/info/lfs/objects/batch', '{"operation":"download","operation":"download"}')]
--- error_code eval
[200, 403, 403, 403]
--- response_headers eval
['X-Auth: bearer-secret', map { 'Content-Type: application/vnd.git-lfs+json' } 1 .. 3]
--- response_body_like eval
['.', '^\{"message":"nginx-egress: write_refused: ', '"reason":"class_unknown"', '"reason":"class_unknown"']



=== TEST 20: lfs_batch, where a server has the API at another path
--- main_config eval
$::Main->('read POST = /lfs/objects/batch lfs_batch;')
--- request eval
[main::post('/lfs/objects/batch', '{"operation":"download"}'),
 main::post('/lfs/objects/batch', '{"operation":"upload"}'), "GET /lfs/objects/batch"]
--- error_code eval
[200, 403, 200]
--- response_headers eval
['X-Auth: bearer-secret', 'Content-Type: application/vnd.git-lfs+json', 'X-Auth: bearer-secret']



=== TEST 21: json_rpc: reads and listed tools
--- main_config eval
$::Main->($::Rpc)
--- request eval
[main::post('/mcp', main::rpc('tools/list')),
 main::post('/mcp', main::rpc('tools/call', { name => 'search' })),
 main::post('/mcp', main::rpc('notifications/initialized')),
 "GET /mcp", "DELETE /mcp"]
--- error_code eval
[200, 200, 200, 200, 200]



=== TEST 22: json_rpc: an error that carries the request's id
--- main_config eval
$::Main->($::Rpc)
--- request eval
[main::post('/mcp', main::rpc('tools/call', { name => 'rm' })),
 main::post('/mcp', '{"id":"a\"b","jsonrpc":"2.0","method":"tools/call","params":{"name":"rm"}}'),
 main::post('/mcp', main::rpc('resources/subscribe', { uri => 'x' })),
 main::post('/mcp', '[]'),
 "PUT /mcp\n{}"]
--- error_code eval
[403, 403, 403, 403, 403]
--- response_headers eval
[(map { 'Content-Type: application/json' } 1 .. 4), 'Content-Type: application/problem+json']
--- response_body_like eval
['^\{"jsonrpc":"2.0","id":7,"error":\{"code":-32000,"message":"nginx-egress: tool_refused: .*"data":\{"reason":"tool_refused"',
 '"id":"a\\\\"b"', '"id":7,.*"reason":"class_unknown"', '"id":null,.*"reason":"class_unknown"', 'write_refused']



=== TEST 23: json_rpc: tool=*, and access write
--- main_config eval
$::Main->('read POST = /mcp json_rpc tool=*;')
--- request eval
[main::post('/mcp', main::rpc('tools/call', { name => 'rm' })),
 main::post('/mcp', main::rpc('tools/delete', { name => 'rm' }))]
--- error_code eval
[200, 403]



=== TEST 24: json_rpc: access write lets every tool pass, and nothing else
--- main_config eval
$::Main->("access write; $::Rpc")
--- request eval
[main::post('/mcp', main::rpc('tools/call', { name => 'rm' })),
 main::post('/mcp', main::rpc('tools/delete', { name => 'rm' }))]
--- error_code eval
[200, 403]



=== TEST 25: json_rpc: fields that tell something else (malformed)
--- main_config eval
$::Main->($::Rpc)
--- request eval
[map { main::post('/mcp', main::rpc('tools/call', { name => 'search' })) } 1 .. 4]
--- more_headers eval
["Mcp-Method: tools/call\nMcp-Name: search", "Mcp-Method: tools/list",
 "Mcp-Method: tools/call\nMcp-Name: rm", "Mcp-Method: tools/call\nMcp-Method: tools/call"]
--- error_code eval
[200, 400, 400, 400]
--- response_headers_like eval
['X-Auth: .*', map { 'Proxy-Status: .*details="malformed_request: .*' } 1 .. 3]



=== TEST 26: json_rpc: the end of a session has no body
--- main_config eval
$::Main->($::Rpc)
--- raw_request eval
"DELETE /mcp HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
--- error_code: 403



=== TEST 27: repos: by path
--- main_config eval
$::Main->('repos google/sam acme/* octo/lib.js#4711;
           repo ~ ^/repos/([^/]+)/([^/]+); repo ~ ^/repositories/([^/]+);
           repo_free GET = /user; repo_free GET,HEAD /licenses;')
--- request eval
["GET /repos/google/sam", "GET /repos/Google/SAM/pulls", "GET /repos/acme/x",
 "GET /repositories/4711/issues", "GET /user", "GET /licenses/mit",
 "GET /repos/google/sam2", "GET /repos/googl/sam", "GET /repos/google/sam.git",
 "GET /repositories/4712", "GET /repositories/x", "GET /user/repos",
 "GET /licensesx", "GET /repos/google", "OPTIONS /user"]
--- error_code eval
[(map { 200 } 1 .. 6), (map { 403 } 1 .. 9)]
--- response_headers_like eval
[(map { 'X-Auth: bearer-secret' } 1 .. 6),
 (map { 'Proxy-Status: .*error=http_request_denied; details="repo_refused: .*' } 1 .. 3),
 (map { 'Proxy-Status: .*error=http_request_denied; details="repo_unknown: .*' } 1 .. 6)]



=== TEST 28: repos: git paths
--- main_config eval
$::Main->('git on; repos google/sam;')
--- request eval
["GET /google/sam.git/info/refs?service=git-upload-pack",
 "GET /Google/Sam/info/refs?service=git-upload-pack",
 "GET /google/sam.wiki.git/info/refs?service=git-upload-pack",
 "GET /google/other.git/info/refs?service=git-upload-pack",
 "GET /a/google/sam.git/info/refs?service=git-upload-pack"]
--- error_code eval
[200, 200, 200, 403, 403]
--- response_headers_like eval
[(map { 'X-Auth: .*' } 1 .. 3),
 (map { 'Proxy-Status: .*details="repo_refused: .*' } 1 .. 2)]



=== TEST 29: repos: git LFS, whose path is judged before its body
--- main_config eval
$::Main->('git on; repos google/sam;')
--- request eval
[main::post('/google/sam.git/info/lfs/objects/batch', '{"operation":"download"}'),
 main::post('/google/sam2.git/info/lfs/objects/batch', '{"operation":"download"}')]
--- error_code eval
[200, 403]
--- response_body_like eval
['.', 'repo_refused']



=== TEST 30: repos: nested groups, also with "%2F" between them
--- main_config eval
$::Main->('git on; encoded_slash on; repos a/b/c;
           repo ~ ^/projects/([^/]+)%2[Ff]([^/%]+);')
--- request eval
["GET /a/b/c.git/info/refs?service=git-upload-pack", "GET /projects/a%2Fb%2Fc/x",
 "GET /projects/A%2fb%2FC", "GET /projects/a%2Fb%2Fd", "GET /projects/b%2Fc",
 "GET /b/c.git/info/refs?service=git-upload-pack"]
--- error_code eval
[200, 200, 200, 403, 403, 403]



=== TEST 31: repos: roots of a query (B6)
--- main_config eval
$::Main->("$::Graphql repos google/sam;")
--- request eval
[main::post('/graphql', main::q1('{repository(owner:"google",name:"sam"){id}}')),
 main::post('/graphql', '{"query":"query($o:String!){repository(owner:$o,name:\"sam\"){id}}","variables":{"o":"Google"}}'),
 main::post('/graphql', main::q1('{viewer{login}}')),
 "GET /graphql",
 main::post('/graphql', main::q1('{repository(owner:"evil",name:"sam"){id}}')),
 "GET /graphql?query=%7Brepository(owner:%22evil%22,name:%22x%22)%7Bid%7D%7D",
 main::post('/graphql', main::q1('{node(id:"x"){id}}')),
 main::post('/graphql', main::q1('{...f} fragment f on Query{viewer{login}}'))]
--- error_code eval
[200, 200, 200, 200, 403, 403, 403, 403]
--- response_headers_like eval
[(map { 'X-Auth: bearer-secret' } 1 .. 4),
 (map { 'Proxy-Status: .*details="repo_refused: .*' } 1 .. 2),
 (map { 'Proxy-Status: .*details="repo_unknown: .*' } 1 .. 2)]



=== TEST 32: repos all: the name is told all the same
--- config
location / { egress_pass api; add_header X-Op "$egress_repo" always; }
--- main_config eval
$::Main->('repos all; repo ~ ^/repos/([^/]+)/([^/]+);')
--- request eval
["GET /repos/any/thing", "GET /x"]
--- error_code eval
[200, 200]
--- response_headers_like eval
['X-Op: any/thing', 'X-Op: ']



=== TEST 33: the class is told before the repository
--- main_config eval
$::Main->('repos google/sam; repo ~ ^/repos/([^/]+)/([^/]+);')
--- request eval
["POST /repos/evil/x\na", "GET /repos/evil/x"]
--- error_code eval
[403, 403]
--- response_headers_like eval
['Proxy-Status: .*details="write_refused: .*', 'Proxy-Status: .*details="repo_refused: .*']



=== TEST 34: an inspector of no "read"
--- main_config eval
$::Main->('write POST = /graphql graphql;')
--- must_die
--- error_log
invalid number of arguments in "write" directive



=== TEST 35: an unknown inspector
--- main_config eval
$::Main->('read POST = /graphql grapql;')
--- must_die
--- error_log
unknown inspector "grapql"



=== TEST 36: tools of another inspector
--- main_config eval
$::Main->('read POST = /graphql graphql tool=a;')
--- must_die
--- error_log
invalid parameter "tool=a"



=== TEST 37: repositories that are none
--- main_config eval
$::Main->('repos google;')
--- must_die
--- error_log
invalid repository "google"



=== TEST 38: repositories that are none, by a star
--- main_config eval
$::Main->('repos google/s*;')
--- must_die
--- error_log
invalid repository "google/s*"



=== TEST 39: all, and a list
--- main_config eval
$::Main->('repos google/sam; repos all;')
--- must_die
--- error_log
has both "all" and a list



=== TEST 40: a pattern without captures
--- main_config eval
$::Main->('repo ~ ^/repos/;')
--- must_die
--- error_log
needs two captures



=== TEST 41: a pattern that is no regex
--- main_config eval
$::Main->('repo = /repos;')
--- must_die
--- error_log
invalid pattern "="



=== TEST 42: an unsafe "read" with an inspector needs no exact path
--- main_config eval
$::Main->('read POST /mcp json_rpc; read POST /api;')
--- request eval
main::post('/mcp/x', main::rpc('ping'))
--- error_code: 200
--- grep_error_log eval
qr/"read \w+" allows an unsafe method for more than one exact path in/
--- grep_error_log_out
"read POST" allows an unsafe method for more than one exact path in
--- no_error_log
[error]



=== TEST 43: oci_scope: pull and nothing else, in the query and in a form
--- main_config eval
$::Main->('read GET,POST = /token oci_scope;')
--- request eval
["GET /token?service=r&scope=repository:a/b:pull",
 "GET /token?scope=repository%3Aa%2Fb%3Apull&scope=repository:c:pull", "GET /token",
 "POST /token\nscope=repository:a/b:pull&service=r",
 "GET /token?scope=repository:a/b:pull,push", "GET /token?scope=repository:a/b:*",
 "GET /token?scope=registry:catalog:*",
 "POST /token\nscope=repository:a/b:push", "POST /token?scope=repository:a:push\nscope=repository:a/b:pull",
 "PUT /token\nscope=repository:a/b:pull"]
--- more_headers
Content-Type: application/x-www-form-urlencoded; charset=utf-8
--- error_code eval
[(map { 200 } 1 .. 4), (map { 403 } 1 .. 6)]



=== TEST 44: oci_scope: a body that is no form
--- main_config eval
$::Main->('read GET,POST = /token oci_scope;')
--- request eval
"POST /token\nscope=repository:a/b:pull"
--- more_headers
Content-Type: application/json
--- error_code: 403
--- response_headers_like
Proxy-Status: .*details="class_unknown: .*



=== TEST 45: oci_scope: under a list
--- main_config eval
$::Main->('read GET,POST = /token oci_scope; repos a/b;')
--- request eval
["GET /token?scope=repository:a/b:pull", "GET /token?scope=repository:a/c:pull"]
--- error_code eval
[200, 403]



=== TEST 46: graphql: members in which some servers look for another query
--- request eval
[main::post('/graphql', '{"query":"{a}","_json":[{"query":"mutation{b}"}]}'),
 main::post('/graphql', '{"documentId":"x","query":"{a}"}'),
 main::post('/graphql', '{"query":"{a}","id":"x","variables":{}}'),
 "GET /graphql?query=%7Ba%7D&_json[][query]=mutation%7Bb%7D",
 "GET /graphql?query=%7Ba%7D&id=x",
 main::post('/graphql', '{"query":"{a}","operationName":null,"variables":{"id":"x"},"extensions":{"a":1}}'),
 "GET /graphql?query=%7Ba%7D&operationName=&variables=&extensions=%7B%7D"]
--- error_code eval
[(map { 403 } 1 .. 5), 200, 200]
--- response_headers_like eval
[(map { 'Proxy-Status: .*details="class_unknown: .*' } 1 .. 5), ('X-Auth: bearer-secret') x 2]



=== TEST 47: graphql: a form for servers that go by the type
--- request eval
[map { main::post('/graphql', main::q1('{a(s:"&query=mutation{b}&")}')) } 1 .. 13]
--- more_headers eval
my @form = ('Content-Type: application/x-www-form-urlencoded',
            'Content-Type: Application/X-WWW-Form-Urlencoded; charset=utf-8',
            'Content-Type: application/x-www-form-urlencoded, application/json',
            'Content-Type: application/json, application/x-www-form-urlencoded',
            'Content-Type: application/jsonx', 'Content-Type: multipart/form-data; boundary=x',
            'Content-Type: text/plain2', 'Content-Type: ', 'X-Y: z');
my @json = ('application/json', 'Application/JSON ; charset=utf-8',
            'application/vnd.api+json', 'text/plain');
[map { "Authorization: Bearer $ENV{TEST_NGINX_PLACEHOLDER}\r\n$_" } @form,
 map { "Content-Type: $_" } @json]
--- error_code eval
[(map { 403 } 1 .. 9), (map { 200 } 1 .. 4)]
--- response_headers_like eval
[(map { 'Proxy-Status: .*details="class_unknown: .*' } 1 .. 9), ('X-Auth: bearer-secret') x 4]



=== TEST 48: lfs_batch, json_rpc: a form, too
--- main_config eval
$::Main->("git on; $::Rpc")
--- request eval
[main::post('/o/r.git/info/lfs/objects/batch', '{"operation":"download","x":"&operation=upload&"}'),
 main::post('/o/r.git/info/lfs/objects/batch', '{"operation":"download","x":";operation=upload;"}'),
 main::post('/mcp', main::rpc('ping', { x => '&method=tools/call&' })),
 main::post('/o/r.git/info/lfs/objects/batch', '{"operation":"download"}'),
 main::post('/o/r.git/info/lfs/objects/batch?operation=upload', '{"operation":"download"}')]
--- more_headers eval
[('Content-Type: application/x-www-form-urlencoded') x 4, 'Content-Type: application/json']
--- error_code eval
[403, 403, 403, 200, 403]



=== TEST 49: charsets that servers find where others do not
--- request eval
[map { main::post('/graphql', main::q1('{a}')) } 1 .. 9]
--- more_headers eval
[map { "Content-Type: application/json$_" }
 '; charset =utf-7', '; charset = utf-7', ', charset=utf-7', "; charset*=utf-8''utf-7",
 '; "charset"=utf-7', '; charset="utf-8"16', '; charset=utf-8 utf-7', "; charset='utf-7'",
 ' charset=utf-7']
--- error_code eval
[map { 415 } 1 .. 9]
