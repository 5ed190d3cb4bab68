# inject, header, basic_user, placeholder, path_prefix: DESIGN 5.2, 6.3

use lib 't/lib', 't/fixture';
use Fixture;
use Test::Nginx::Socket 'no_plan';
use MIME::Base64 ();

our $P = $ENV{TEST_NGINX_PLACEHOLDER};

sub basic { 'Basic ' . MIME::Base64::encode($_[0], '') }

# base-URL mode: the whole request is ours to write

our $Main = sub {
    my ($binding, $more) = @_;

    return <<"CONF";
egress {
    name                 egress-1;
    audit_log            \$TEST_NGINX_FIXTURE_DIR/audit.json;
    trusted_certificate  \$TEST_NGINX_FIXTURE_DIR/trusted.pem;

    binding api {
        hosts        api.test;
        upstream     https://127.0.0.1:\$TEST_NGINX_UPSTREAM_PORT;
        secret       \$TEST_NGINX_SECRET static;
        $binding
    }
}
CONF
};

our $Swap = $Main->('placeholder $TEST_NGINX_PLACEHOLDER;');

add_block_preprocessor(sub {
    my $block = shift;

    if (!defined $block->main_config) {
        $block->set_value(main_config => $Swap);
    }

    if (!defined $block->config) {
        $block->set_value(config => 'location /api/ { egress_pass api; }');
    }
});

no_long_string();
run_tests();

__DATA__

=== TEST 1: Bearer
--- request
GET /api/user
--- more_headers eval
"Authorization: Bearer $::P"
--- response_headers
X-Auth: bearer-secret
X-Host: api.test
X-Target: /user
X-Via: 1.1 egress-1



=== TEST 2: the scheme's case and spaces stay
--- request
GET /api/user
--- more_headers eval
"Authorization: bearer $::P"
--- response_headers
X-Auth: bearer-secret-lower



=== TEST 3: token
--- request
GET /api/user
--- more_headers eval
"Authorization: token $::P"
--- response_headers
X-Auth: token-secret



=== TEST 4: a bare placeholder
--- request
GET /api/user
--- more_headers eval
"Authorization: $::P"
--- response_headers
X-Auth: bare-secret



=== TEST 5: Basic, as the password
--- request
GET /api/user
--- more_headers eval
"Authorization: " . main::basic("x-access-token:$::P")
--- response_headers
X-Auth: basic-password-secret



=== TEST 6: Basic, as the user
--- request
GET /api/user
--- more_headers eval
"Authorization: " . main::basic("$::P:")
--- response_headers
X-Auth: basic-user-secret



=== TEST 7: Basic, as the user of an old form
--- request
GET /api/user
--- more_headers eval
"Authorization: " . main::basic("$::P:x-oauth-basic")
--- response_headers
X-Auth: basic-user-oauth-secret



=== TEST 8: the field's name in capitals, the scheme in lower case
--- request
GET /api/user
--- more_headers eval
"AUTHORIZATION: basic " . MIME::Base64::encode("x-access-token:$::P", '')
--- response_headers
X-Auth: basic-lower-secret



=== TEST 9: no credential is none of ours (git's first request)
--- request
GET /api/status/401
--- error_code: 401
--- response_headers
X-Auth: none
WWW-Authenticate: Basic realm="up"
--- response_body
up says 401



=== TEST 10: a credential of the client's own passes as it is
--- request
GET /api/user
--- more_headers
Authorization: Bearer something-of-their-own
--- response_headers
X-Auth: other



=== TEST 11: a placeholder with more behind it stays text
--- request
GET /api/user
--- more_headers eval
"Authorization: Bearer ${main::P}x"
--- response_headers
X-Auth: other



=== TEST 12: two fields are refused
--- request
GET /api/user
--- more_headers eval
"Authorization: Bearer $::P\nAuthorization: Bearer $::P"
--- error_code: 400
--- response_headers_like
Proxy-Status: egress-1; error=http_request_error; details="malformed_request: .*"



=== TEST 13: the placeholder in the query, in other fields and in cookies
--- request eval
"GET /api/user?k=$::P"
--- more_headers eval
"Authorization: Bearer $::P\nX-Data: $::P\nCookie: t=$::P\nX-Api-Key: $::P"
--- response_headers eval
"X-Auth: bearer-secret
X-Key: bare-placeholder
X-Target: /user?k=$::P"
--- response_headers_like eval
"X-Fields: .* data=$::P"



=== TEST 14: another field, bare
--- main_config eval
$::Main->('placeholder $TEST_NGINX_PLACEHOLDER; header X-Api-Key;')
--- request
GET /api/user
--- more_headers eval
"X-Api-Key: $::P\nAuthorization: Bearer $::P"
--- response_headers
X-Key: bare-secret
X-Auth: bearer-placeholder



=== TEST 15: two fields, a binding's both
--- main_config eval
$::Main->('placeholder $TEST_NGINX_PLACEHOLDER; header X-Api-Key; header Authorization;')
--- request
GET /api/user
--- more_headers eval
"X-Api-Key: $::P\nAuthorization: Bearer $::P"
--- response_headers
X-Key: bare-secret
X-Auth: bearer-secret



=== TEST 16: prefix and suffix
--- main_config eval
$::Main->('placeholder $TEST_NGINX_PLACEHOLDER; header X-Api-Key prefix=key= "suffix=;";')
--- request
GET /api/user
--- more_headers eval
"X-Api-Key: key=$::P;"
--- response_headers
X-Key: affixed-secret



=== TEST 17: without the prefix it is foreign
--- main_config eval
$::Main->('placeholder $TEST_NGINX_PLACEHOLDER; header X-Api-Key prefix=key= "suffix=;";')
--- request
GET /api/user
--- more_headers eval
"X-Api-Key: $::P"
--- response_headers
X-Key: bare-placeholder



=== TEST 18: a second field of a bound name is refused
--- main_config eval
$::Main->('placeholder $TEST_NGINX_PLACEHOLDER; header X-Api-Key;')
--- request
GET /api/user
--- more_headers eval
"X-Api-Key: $::P\nX-Api-Key: $::P"
--- error_code: 400



=== TEST 19: placeholder from a file
--- main_config eval
$::Main->('placeholder file:$TEST_NGINX_FIXTURE_DIR/placeholder;')
--- request
GET /api/user
--- more_headers eval
"Authorization: Bearer $::P"
--- response_headers
X-Auth: bearer-secret



=== TEST 20: inject always, Bearer by default
--- main_config eval
$::Main->('inject always;')
--- request
GET /api/user
--- more_headers
Authorization: Bearer theirs
--- response_headers
X-Auth: bearer-secret



=== TEST 21: inject always with a prefix
--- main_config eval
$::Main->('inject always; header Authorization "prefix=token ";')
--- request
GET /api/user
--- response_headers
X-Auth: token-secret



=== TEST 22: inject always in another field, the client's is replaced
--- main_config eval
$::Main->('inject always; header X-Api-Key;')
--- request
GET /api/user
--- more_headers
X-Api-Key: theirs
Authorization: Bearer theirs
--- response_headers
X-Key: bare-secret
X-Auth: other



=== TEST 23: basic_user everywhere
--- main_config eval
$::Main->('inject always; basic_user robot everywhere;')
--- request
GET /api/user
--- response_headers
X-Auth: basic-robot-secret



=== TEST 24: basic_user on git paths
--- main_config eval
$::Main->('inject always; basic_user robot; git on;')
--- request eval
["GET /api/o/r.git/info/refs?service=git-upload-pack", "GET /api/user"]
--- response_headers eval
["X-Auth: basic-robot-secret", "X-Auth: bearer-secret"]



=== TEST 25: if_absent sets
--- main_config eval
$::Main->('inject if_absent;')
--- request
GET /api/user
--- response_headers
X-Auth: bearer-secret



=== TEST 26: if_absent leaves what is there
--- main_config eval
$::Main->('inject if_absent;')
--- request
GET /api/user
--- more_headers
Authorization: Bearer theirs
--- response_headers
X-Auth: other



=== TEST 27: if_absent swaps
--- main_config eval
$::Main->('inject if_absent; placeholder $TEST_NGINX_PLACEHOLDER;')
--- request
GET /api/user
--- more_headers eval
"Authorization: token $::P"
--- response_headers
X-Auth: token-secret



=== TEST 28: strip
--- main_config eval
$::Main->('inject strip;')
--- request
GET /api/user
--- more_headers
Authorization: Bearer theirs
--- response_headers
X-Auth: none



=== TEST 29: off
--- main_config eval
$::Main->('inject off; placeholder $TEST_NGINX_PLACEHOLDER;')
--- request
GET /api/user
--- more_headers eval
"Authorization: Bearer $::P"
--- response_headers
X-Auth: bearer-placeholder



=== TEST 30: only below path_prefix
--- main_config eval
$::Main->('placeholder $TEST_NGINX_PLACEHOLDER; path_prefix /v1;')
--- request eval
["GET /api/v1/x", "GET /api/v1", "GET /api/v2/x", "GET /api/v1x", "GET /api/V1/x"]
--- more_headers eval
"Authorization: Bearer $::P"
--- response_headers eval
["X-Auth: bearer-secret", "X-Auth: bearer-secret", "X-Auth: none",
 "X-Auth: none", "X-Auth: none"]



=== TEST 31: anonymous: the bound fields are removed
--- main_config eval
$::Main->('placeholder $TEST_NGINX_PLACEHOLDER; anonymous GET /web;')
--- request eval
["GET /api/web/page", "GET /api/user"]
--- more_headers eval
"Authorization: Bearer $::P"
--- response_headers eval
["X-Auth: none", "X-Auth: bearer-secret"]



=== TEST 32: a binding without a secret is policy only
--- main_config
egress {
    trusted_certificate  $TEST_NGINX_FIXTURE_DIR/trusted.pem;
    audit_log            off;
    binding api {
        hosts     api.test;
        upstream  https://127.0.0.1:$TEST_NGINX_UPSTREAM_PORT;
    }
}
--- request eval
["GET /api/user", "POST /api/user\nx"]
--- more_headers eval
"Authorization: Bearer $::P"
--- error_code eval
[200, 403]
--- response_headers eval
["X-Auth: bearer-placeholder", "Content-Type: application/problem+json"]



=== TEST 33: Connection can't take our field away, client-made ones go (O-24, H-01)
--- request
GET /api/user
--- more_headers eval
"Authorization: Bearer $::P
Connection: close, Authorization, X-Forwarded-Host, X-Foo
X-Foo: 1
X-Forwarded-Host: evil.test
X-Forwarded-For: 10.0.0.1
X-Real-IP: 10.0.0.1
Forwarded: for=10.0.0.1
Proxy-Authorization: Basic YTpi
Proxy-Connection: keep-alive
TE: trailers
Upgrade: websocket"
--- response_headers
X-Auth: bearer-secret
X-Fields: conn= te= up= fwd= xff= xfh= real= pa= pc= mo= foo= data=



=== TEST 34: a secret may be far longer than its placeholder (H-10)
--- main_config eval
my $long = Fixture::write_file('long', $ENV{TEST_NGINX_CANARY} x 150, 0600);
my $c = $::Main->('placeholder $TEST_NGINX_PLACEHOLDER;');
$c =~ s/secret .*?;/secret $long static;/;
$c
--- request
GET /api/user
--- more_headers eval
"Authorization: Bearer $::P"
--- response_headers
X-Auth: bearer-long-secret



=== TEST 35: a secret of one octet
--- main_config eval
my $one = Fixture::write_file('one', 'q', 0600);
my $c = $::Main->('placeholder $TEST_NGINX_PLACEHOLDER;');
$c =~ s/secret .*?;/secret $one static;/;
$c
--- request
GET /api/user
--- more_headers eval
"Authorization: Bearer $::P"
--- response_headers
X-Auth: bearer-one



=== TEST 36: one of many placeholders
--- main_config eval
$::Main->(CORE::join ' ', map({ sprintf 'placeholder placeholder-number-%02d;', $_ } 1 .. 20), 'placeholder $TEST_NGINX_PLACEHOLDER;')
--- request eval
["GET /api/user", "GET /api/user", "GET /api/user"]
--- more_headers eval
["Authorization: Bearer $::P", "Authorization: token placeholder-number-07", "Authorization: token placeholder-number-21"]
--- response_headers eval
["X-Auth: bearer-secret", "X-Auth: token-secret", "X-Auth: other"]
