# what "nginx -t" refuses, DESIGN 6.10: file, line, directive and value; that
# of credentials is in config_credentials.t

use lib 't/lib', 't/fixture';
use Fixture;
use Test::Nginx::Socket 'no_plan';
use Conf;

Fixture::write_file('world.key', Fixture::read_file('ca.key'), 0644);
Fixture::write_file('inc.conf', "hosts\n    api.test;\nnonsense on;\n", 0644);

our $CA = 'ca $TEST_NGINX_FIXTURE_DIR/ca.pem $TEST_NGINX_FIXTURE_DIR/ca.key;';

no_long_string();
run_tests();

__DATA__

=== TEST 1: egress after http
--- post_main_config
egress { }
--- error_log
the "egress" block must come before the "http" block



=== TEST 2: egress twice
--- main_config
egress { audit_log off; }
egress { audit_log off; }
--- error_log
"egress" directive is duplicate



=== TEST 3: a directive of another place
--- main_config
egress { hosts a.test; }
--- error_log
"hosts" directive is not allowed here



=== TEST 4: a directive of ours outside
--- main_config
hosts a.test;
--- error_log
"hosts" directive is not allowed here



=== TEST 5: an unknown directive in an include names the file and line
--- main_config
egress { binding b { include $TEST_NGINX_FIXTURE_DIR/inc.conf; } }
--- error_log
unknown directive "nonsense"
inc.conf:3



=== TEST 6: name
--- main_config
egress { name "a b"; }
--- error_log
invalid name "a b"



=== TEST 7: name twice
--- main_config
egress { name a; name b; }
--- error_log
"name" directive is duplicate



=== TEST 8: ca: no such file
--- main_config
egress { ca /nonexistent/ca.pem /nonexistent/ca.key; }
--- error_log
CA certificate "/nonexistent/ca.pem": BIO_new_file() failed



=== TEST 9: ca: key of another
--- main_config
egress { ca $TEST_NGINX_FIXTURE_DIR/ca.pem $TEST_NGINX_FIXTURE_DIR/ca2.key; }
--- error_log
ca.pem" does not match its key



=== TEST 10: ca: a leaf
--- main_config
egress { ca $TEST_NGINX_FIXTURE_DIR/up.pem $TEST_NGINX_FIXTURE_DIR/up.key; }
--- error_log eval
qr/up\.pem" (has no keyCertSign|is not a CA certificate)/



=== TEST 11: ca: without keyCertSign
--- main_config
egress { ca $TEST_NGINX_FIXTURE_DIR/nosign.pem $TEST_NGINX_FIXTURE_DIR/nosign.key; }
--- error_log eval
qr/nosign\.pem" (has no keyCertSign|is not a CA certificate)/



=== TEST 12: ca: key that others can read
--- main_config
egress { ca $TEST_NGINX_FIXTURE_DIR/ca.pem $TEST_NGINX_FIXTURE_DIR/world.key; }
--- error_log
world.key" is accessible to others



=== TEST 13: ca that ends soon: a warning
--- main_config eval
"egress { $::H ca \$TEST_NGINX_FIXTURE_DIR/short.pem \$TEST_NGINX_FIXTURE_DIR/short.key; }"
--- request
GET /none
--- error_code: 204
--- error_log
short.pem" expire in



=== TEST 14: leaf_validity: a warning below 30 days
--- main_config eval
"egress { $::H $::CA leaf_validity 20d; }"
--- request
GET /none
--- error_code: 204
--- error_log
ca.pem" expire in 480 hours



=== TEST 15: leaf_validity: not a time
--- main_config
egress { leaf_validity soon; }
--- error_log
"leaf_validity" directive invalid value



=== TEST 16: secret_check: not a time
--- main_config
egress { secret_check often; }
--- error_log
"secret_check" directive invalid value



=== TEST 17: zone: too small names the size
--- main_config
egress { audit_log off; zone 4k; }
--- error_log eval
qr/zone of 4096 bytes is too small, \d+ bytes are needed/



=== TEST 18: zone: no size
--- main_config
egress { zone big; }
--- error_log
invalid size "big"



=== TEST 19: audit_log: unknown parameter
--- main_config
egress { audit_log logs/a.json format=xml; }
--- error_log
invalid parameter "format=xml"



=== TEST 20: audit_log: syslog alone can't be had
--- main_config
egress { audit_log syslog:server=127.0.0.1; }
--- error_log
invalid audit log "syslog:server=127.0.0.1"



=== TEST 21: audit_log off beside another
--- main_config
egress { audit_log logs/a.json; audit_log off; }
--- error_log
"audit_log off" beside another "audit_log"



=== TEST 22: audit_log off warns
--- main_config
egress { audit_log off; }
--- request
GET /none
--- error_code: 204
--- error_log
no audit log



=== TEST 23: audit_log that can't be opened
--- main_config
egress { audit_log /nonexistent/a.json; }
--- error_log
open() "/nonexistent/a.json" failed



=== TEST 24: binding: bad name
--- main_config
egress { binding "a b" { } }
--- error_log
invalid binding name "a b"



=== TEST 25: binding twice
--- main_config eval
::egress("binding b { hosts a.test; $::U } binding b { hosts c.test; $::U }")
--- error_log
duplicate binding "b"



=== TEST 26: binding without hosts
--- main_config eval
::egress("binding b { $::U }")
--- error_log
no "hosts" and no "host" in binding "b"



=== TEST 27: a host in two bindings
--- main_config eval
::egress("binding b { hosts a.test; $::U } binding c { hosts A.test.; $::U }")
--- error_log
host "a.test" of binding "c" is bound already by binding "b"



=== TEST 28: the same host at other ports and prefixes is another
--- main_config eval
::egress("binding b { hosts a.test; $::U }
          binding c { hosts a.test:8443; $::U }
          binding d { hosts a.test; path_prefix /d; $::U }")
--- request
GET /none
--- error_code: 204



=== TEST 29: the same path_prefix is not
--- main_config eval
::egress("binding b { hosts a.test; path_prefix /d; $::U }
          binding d { hosts a.test; path_prefix /d; $::U }")
--- error_log
host "a.test" of binding "d" is bound already by binding "b"



=== TEST 30: hosts: a wildcard
--- main_config eval
::egress("binding b { hosts *.test; $::U }")
--- error_log
invalid host "*.test"



=== TEST 31: hosts: an address
--- main_config eval
::egress("binding b { hosts 127.0.0.1; $::U }")
--- error_log
invalid host "127.0.0.1": an address can't be bound



=== TEST 32: hosts: a bad port
--- main_config eval
::egress("binding b { hosts a.test:0; $::U }")
--- error_log
invalid host "a.test:0"



=== TEST 33: host block: a bad name
--- main_config eval
::egress("binding b { host a..test { } $::U }")
--- error_log
invalid host "a..test"



=== TEST 34: path_prefix: not a canonical path
--- main_config eval
::binding('path_prefix /a/../b;')
--- error_log
invalid path "/a/../b"



=== TEST 35: access: unknown
--- main_config eval
::binding('access all;')
--- error_log
invalid value "all"



=== TEST 36: no upstream
--- main_config eval
::egress("binding b { hosts a.test; }")
--- error_log
no "upstream" in binding "b"



=== TEST 37: upstream: no scheme
--- main_config eval
::egress("binding b { hosts a.test; upstream 127.0.0.1; }")
--- error_log
invalid upstream "127.0.0.1"



=== TEST 38: upstream: a name
--- main_config eval
::egress("binding b { hosts a.test; upstream https://localhost:80; }")
--- error_log
invalid address in upstream "https://localhost:80"



=== TEST 39: upstream: a path
--- main_config eval
::egress("binding b { hosts a.test; upstream https://127.0.0.1:80/x; }")
--- error_log
invalid address in upstream "https://127.0.0.1:80/x"



=== TEST 40: upstream: clear text with a secret, not loopback
--- main_config eval
::egress("binding b { hosts a.test; upstream http://192.0.2.1; $::S }")
--- error_log
the upstream "http://192.0.2.1:80" of binding "b", which has a secret, is neither loopback nor "unix:"



=== TEST 41: upstream: clear text without a secret
--- main_config eval
::egress("binding b { hosts a.test; upstream http://192.0.2.1; }")
--- request
GET /none
--- error_code: 204



=== TEST 42: rule: no pattern
--- main_config eval
::binding('read GET x;')
--- error_log
invalid pattern "x"



=== TEST 43: rule: a bad method
--- main_config eval
::binding('read get /x;')
--- error_log
invalid method in "get"



=== TEST 44: rule: an empty method
--- main_config eval
::binding('refuse GET,,POST /x;')
--- error_log
invalid method in "GET,,POST"



=== TEST 45: rule: a bad regex
--- main_config eval
::binding('read GET ~ "^/(";')
--- error_log
failed



=== TEST 46: rule: an unknown inspector
--- main_config eval
::binding('read POST /graphql magic;')
--- error_log
unknown inspector "magic"



=== TEST 47: rule: an unsafe method for more than one path warns
--- main_config eval
::binding('read POST /search;')
--- request
GET /none
--- error_code: 204
--- error_log
"read POST" allows an unsafe method for more than one exact path



=== TEST 48: rule: a regex over the whole path is one exact path
--- main_config eval
::binding('read POST ~ "^/[^/]+/search$"; read POST = /x;')
--- request
GET /none
--- error_code: 204
--- no_error_log
allows an unsafe method



=== TEST 49: git: a bad value
--- main_config eval
::binding('git maybe;')
--- error_log
invalid value "maybe" in "git" directive



=== TEST 50: git: segments
--- main_config eval
::binding('git on segments=0;')
--- error_log
invalid number of segments "segments=0"



=== TEST 51: encoded_slash: a bad pattern
--- main_config eval
::binding('encoded_slash sometimes;')
--- error_log
invalid pattern "sometimes"



=== TEST 52: trusted_certificate: no such file
--- main_config eval
"egress { trusted_certificate /nonexistent.pem; audit_log off; binding b { hosts a.test; $::U } }"
--- config
location /b/ { egress_pass b; }
--- error_log
/nonexistent.pem
