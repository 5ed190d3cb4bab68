# what "nginx -t" refuses, DESIGN 6.10: file, line, directive and value

use lib 't/lib', 't/fixture';
use Fixture;
use Test::Nginx::Socket 'no_plan';

my $D = Fixture::dir();

Fixture::write_file('group', "x\n", 0660);
Fixture::write_file('world', "x\n", 0644);
Fixture::write_file('two', "one\ntwo\n", 0600);
Fixture::write_file('space', "one two\n", 0600);
Fixture::write_file('control', "one\x01\n", 0600);
Fixture::write_file('huge', 'x' x 20000, 0600);
Fixture::write_file('short.ph', "short\n", 0644);
Fixture::write_file('world.key', Fixture::read_file('ca.key'), 0644);
Fixture::write_file('inc.conf', "hosts\n    api.test;\nnonsense on;\n", 0644);
mkdir "$D/dir.secret";
system 'mkfifo', '-m', '600', "$D/fifo" if !-e "$D/fifo";

our $U = 'upstream https://127.0.0.1:$TEST_NGINX_UPSTREAM_PORT;';
our $H = 'trusted_certificate $TEST_NGINX_FIXTURE_DIR/trusted.pem;
          audit_log $TEST_NGINX_FIXTURE_DIR/audit.json;';
our $CA = 'ca $TEST_NGINX_FIXTURE_DIR/ca.pem $TEST_NGINX_FIXTURE_DIR/ca.key;';
our $S = 'secret $TEST_NGINX_SECRET static; placeholder $TEST_NGINX_PLACEHOLDER;';

# an egress block with one binding
sub binding { "egress { $H binding b { hosts api.test; $U $_[0] } }" }
sub egress { "egress { $H $_[0] }" }

add_block_preprocessor(sub {
    my $block = shift;

    $block->set_value(config => 'location /none { return 204; }')
        unless defined $block->config;
    $block->set_value(must_die => '')
        unless defined $block->request || defined $block->must_die;
});

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



=== TEST 34: secret: writable by the group
--- main_config eval
::binding('secret $TEST_NGINX_FIXTURE_DIR/group static;')
--- error_log
/group" is writable by its group
could not read the secret



=== TEST 35: secret: readable by others
--- main_config eval
::binding('secret $TEST_NGINX_FIXTURE_DIR/world static;')
--- error_log
/world" is accessible to others



=== TEST 36: secret: readable by others, and allowed
--- main_config eval
::binding('secret $TEST_NGINX_FIXTURE_DIR/world static insecure_permissions; inject always;')
--- request
GET /none
--- error_code: 204



=== TEST 37: secret: two lines
--- main_config eval
::binding('secret $TEST_NGINX_FIXTURE_DIR/two static;')
--- error_log
/two" has more than one line



=== TEST 38: secret: inner white space
--- main_config eval
::binding('secret $TEST_NGINX_FIXTURE_DIR/space static;')
--- error_log
/space" has white space in it



=== TEST 39: secret: a control byte
--- main_config eval
::binding('secret $TEST_NGINX_FIXTURE_DIR/control static;')
--- error_log
/control" has a control byte in it



=== TEST 40: secret: over 16 KiB
--- main_config eval
::binding('secret $TEST_NGINX_FIXTURE_DIR/huge static;')
--- error_log
/huge" is too large



=== TEST 41: secret: a directory
--- main_config eval
::binding('secret $TEST_NGINX_FIXTURE_DIR/dir.secret static;')
--- error_log
/dir.secret" is not a regular file



=== TEST 42: secret: a FIFO does not block
--- main_config eval
::binding('secret $TEST_NGINX_FIXTURE_DIR/fifo static;')
--- error_log
/fifo" is not a regular file



=== TEST 43: secret: a device
--- main_config eval
::binding('secret /dev/zero static;')
--- error_log
"/dev/zero" is not a regular file



=== TEST 44: secret: unknown parameter
--- main_config eval
::binding('secret $TEST_NGINX_SECRET often;')
--- error_log
invalid parameter "often"



=== TEST 45: secret twice
--- main_config eval
::binding("$::S $::S")
--- error_log
"secret" directive is duplicate



=== TEST 46: secret that is not there: a warning
--- main_config eval
::binding('secret /nonexistent/secret static; inject always;')
--- request
GET /none
--- error_code: 204
--- error_log
secret "/nonexistent/secret" is not there



=== TEST 47: placeholder: too short
--- main_config eval
::binding('placeholder fifteen-letters;')
--- error_log
placeholder of 15 characters is too short



=== TEST 48: placeholder: too short in its file
--- main_config eval
::binding('placeholder file:$TEST_NGINX_FIXTURE_DIR/short.ph;')
--- error_log
placeholder of 5 characters is too short



=== TEST 49: placeholder: no such file
--- main_config eval
::binding('placeholder file:/nonexistent/ph;')
--- error_log
could not read the placeholder "/nonexistent/ph"



=== TEST 50: placeholder: a character that no credential has
--- main_config eval
::binding('placeholder "sixteen or more of them";')
--- error_log
has a character that a credential can't hold



=== TEST 51: placeholders that overlap (H-07)
--- main_config eval
::binding('placeholder aaaaaaaaaaaaaaaa1; placeholder Xaaaaaaaaaaaaaaaa1;')
--- error_log
placeholder "aaaaaaaaaaaaaaaa1" is a part of placeholder "Xaaaaaaaaaaaaaaaa1"



=== TEST 52: the same placeholder twice
--- main_config eval
::binding('placeholder aaaaaaaaaaaaaaaa1; placeholder aaaaaaaaaaaaaaaa1;')
--- error_log
is a part of placeholder



=== TEST 53: inject: unknown mode
--- main_config eval
::binding('inject sometimes;')
--- error_log
invalid value "sometimes"



=== TEST 54: inject swap without a placeholder
--- main_config eval
::binding('secret $TEST_NGINX_SECRET static;')
--- error_log
"inject swap" without a "placeholder" in binding "b"



=== TEST 55: inject always without a secret
--- main_config eval
::binding('inject always;')
--- error_log
"inject" without a "secret" in binding "b"



=== TEST 56: header: a reserved one
--- main_config eval
::binding('header Host;')
--- error_log
header "Host" can't carry a credential



=== TEST 57: header: not a name
--- main_config eval
::binding('header "X Y";')
--- error_log
invalid header name "X Y"



=== TEST 58: header: unknown parameter
--- main_config eval
::binding('header X-Key infix=1;')
--- error_log
invalid parameter "infix=1"



=== TEST 59: header twice
--- main_config eval
::binding('header X-Key; header x-key;')
--- error_log
duplicate header "x-key" in binding "b"



=== TEST 60: basic_user: a colon
--- main_config eval
::binding('basic_user a:b;')
--- error_log
invalid user name "a:b"



=== TEST 61: basic_user: unknown parameter
--- main_config eval
::binding('basic_user a somewhere;')
--- error_log
invalid parameter "somewhere"



=== TEST 62: path_prefix: not a canonical path
--- main_config eval
::binding('path_prefix /a/../b;')
--- error_log
invalid path "/a/../b"



=== TEST 63: access: unknown
--- main_config eval
::binding('access all;')
--- error_log
invalid value "all"



=== TEST 64: no upstream
--- main_config eval
::egress("binding b { hosts a.test; }")
--- error_log
no "upstream" in binding "b"



=== TEST 65: upstream: no scheme
--- main_config eval
::egress("binding b { hosts a.test; upstream 127.0.0.1; }")
--- error_log
invalid upstream "127.0.0.1"



=== TEST 66: upstream: a name
--- main_config eval
::egress("binding b { hosts a.test; upstream https://localhost:80; }")
--- error_log
invalid address in upstream "https://localhost:80"



=== TEST 67: upstream: a path
--- main_config eval
::egress("binding b { hosts a.test; upstream https://127.0.0.1:80/x; }")
--- error_log
invalid address in upstream "https://127.0.0.1:80/x"



=== TEST 68: upstream: clear text with a secret, not loopback
--- main_config eval
::egress("binding b { hosts a.test; upstream http://192.0.2.1; $::S }")
--- error_log
the upstream "http://192.0.2.1:80" of binding "b", which has a secret, is neither loopback nor "unix:"



=== TEST 69: upstream: clear text without a secret
--- main_config eval
::egress("binding b { hosts a.test; upstream http://192.0.2.1; }")
--- request
GET /none
--- error_code: 204



=== TEST 70: rule: no pattern
--- main_config eval
::binding('read GET x;')
--- error_log
invalid pattern "x"



=== TEST 71: rule: a bad method
--- main_config eval
::binding('read get /x;')
--- error_log
invalid method in "get"



=== TEST 72: rule: an empty method
--- main_config eval
::binding('refuse GET,,POST /x;')
--- error_log
invalid method in "GET,,POST"



=== TEST 73: rule: a bad regex
--- main_config eval
::binding('read GET ~ "^/(";')
--- error_log
failed



=== TEST 74: rule: an unknown inspector
--- main_config eval
::binding('read POST /graphql magic;')
--- error_log
unknown inspector "magic"



=== TEST 75: rule: an unsafe method for more than one path warns
--- main_config eval
::binding('read POST /search;')
--- request
GET /none
--- error_code: 204
--- error_log
"read POST" allows an unsafe method for more than one exact path



=== TEST 81: rule: a regex over the whole path is one exact path
--- main_config eval
::binding('read POST ~ "^/[^/]+/search$"; read POST = /x;')
--- request
GET /none
--- error_code: 204
--- no_error_log
allows an unsafe method



=== TEST 76: git: a bad value
--- main_config eval
::binding('git maybe;')
--- error_log
invalid value "maybe" in "git" directive



=== TEST 77: git: segments
--- main_config eval
::binding('git on segments=0;')
--- error_log
invalid number of segments "segments=0"



=== TEST 78: encoded_slash: a bad pattern
--- main_config eval
::binding('encoded_slash sometimes;')
--- error_log
invalid pattern "sometimes"



=== TEST 79: trusted_certificate: no such file
--- main_config eval
"egress { trusted_certificate /nonexistent.pem; audit_log off; binding b { hosts a.test; $::U } }"
--- config
location /b/ { egress_pass b; }
--- error_log
/nonexistent.pem



=== TEST 80: nothing of a secret in the configuration that nginx -T prints (X-45)
--- main_config eval
::binding($::S)
--- config
location /b/ { egress_pass b; }
--- request
GET /b/x
--- init
my $conf = $ENV{TEST_NGINX_SERVER_ROOT} . '/conf/nginx.conf';
my $out = `${\($ENV{TEST_NGINX_BINARY} || 'nginx')} -T -e /dev/null -p $ENV{TEST_NGINX_SERVER_ROOT} -c $conf 2>&1`;
Test::More::unlike($out, qr/\Q$ENV{TEST_NGINX_CANARY}\E/, 'no secret in nginx -T');
Test::More::like($out, qr/binding b/, 'the binding is in nginx -T');
--- error_code: 200



=== TEST 81: credential: a bad name
--- main_config eval
::binding('credential "a b" { }')
--- error_log
invalid credential name "a b"



=== TEST 82: credential: the name of its binding
--- main_config eval
::binding('credential b { header X-A; }')
--- error_log
credential "b" has the name of its binding



=== TEST 83: credential: a directive of another place
--- main_config eval
::binding('credential c { hosts a.test; }')
--- error_log
"hosts" directive is not allowed here



=== TEST 84: credential: within a credential
--- main_config eval
::binding('credential c { credential d { } }')
--- error_log
"credential" directive is not allowed here



=== TEST 85: credential: in a host
--- main_config eval
::binding('host a.test { credential c { } }')
--- error_log
"credential" directive is not allowed here



=== TEST 86: credential: too many
--- main_config eval
::binding('credential c0 { header X-0; } credential c1 { header X-1; } credential c2 { header X-2; } credential c3 { header X-3; } credential c4 { header X-4; } credential c5 { header X-5; } credential c6 { header X-6; } credential c7 { header X-7; } credential c8 { header X-8; } credential c9 { header X-9; } credential c10 { header X-10; } credential c11 { header X-11; } credential c12 { header X-12; } credential c13 { header X-13; } credential c14 { header X-14; } credential c15 { header X-15; }')
--- error_log
too many credentials in binding "b"



=== TEST 87: credential: a header of another
--- main_config eval
::binding('header X-Key; credential c { header x-key; }')
--- error_log
duplicate header "x-key" in binding "b"



=== TEST 88: credential: Authorization, which the binding has without a word
--- main_config eval
::binding('placeholder $TEST_NGINX_PLACEHOLDER; secret $TEST_NGINX_SECRET static; credential c { header Authorization; }')
--- error_log
duplicate header "Authorization" in binding "b"



=== TEST 89: credential: two that name no header
--- main_config eval
::binding('credential c { } credential d { }')
--- error_log
duplicate header "Authorization" in binding "b"



=== TEST 90: credential: a second block goes on, and repeats nothing
--- main_config eval
::binding('credential c { header X-A; secret $TEST_NGINX_SECRET static; } credential c { secret $TEST_NGINX_SECRET static; }')
--- error_log
"secret" directive is duplicate



=== TEST 91: credential: swap without a placeholder
--- main_config eval
::binding('placeholder $TEST_NGINX_PLACEHOLDER; secret $TEST_NGINX_SECRET static; credential c { header X-A; secret $TEST_NGINX_SECRET static; }')
--- error_log
"inject swap" without a "placeholder" in credential "c"



=== TEST 92: credential: inject without a secret
--- main_config eval
::binding('credential c { inject always; }')
--- error_log
"inject" without a "secret" in credential "c"



=== TEST 93: credential: the placeholder of another
--- main_config eval
::binding('placeholder $TEST_NGINX_PLACEHOLDER; secret $TEST_NGINX_SECRET static; credential c { header X-A; placeholder $TEST_NGINX_PLACEHOLDER; secret $TEST_NGINX_SECRET static; }')
--- error_log
is a part of placeholder



=== TEST 94: credential: a part of the placeholder of another
--- main_config eval
::binding('credential c { header X-A; placeholder Xaaaaaaaaaaaaaaaa1; } credential d { placeholder aaaaaaaaaaaaaaaa1; }')
--- error_log
placeholder "aaaaaaaaaaaaaaaa1" is a part of placeholder "Xaaaaaaaaaaaaaaaa1"



=== TEST 95: credential: its secret, over plain HTTP to a network
--- main_config eval
"egress { $::H binding b { hosts a.test; upstream http://192.0.2.1; credential c { $::S } } }"
--- error_log
the upstream "http://192.0.2.1:80" of binding "b", which has a secret



=== TEST 96: env: the name "1A"
--- main_config eval
::binding('env "1A";')
--- error_log
invalid variable "1A": a letter



=== TEST 97: env: the name "A-B"
--- main_config eval
::binding('env "A-B";')
--- error_log
invalid variable "A-B": a letter



=== TEST 98: env: the name "A B"
--- main_config eval
::binding('env "A B";')
--- error_log
invalid variable "A B": a letter



=== TEST 99: env: the name ""
--- main_config eval
::binding('env "";')
--- error_log
invalid variable "": a letter



=== TEST 100: env: the name "=x"
--- main_config eval
::binding('env "=x";')
--- error_log
invalid variable "": a letter



=== TEST 101: env: the name "Ä"
--- main_config eval
::binding('env "Ä";')
--- error_log
invalid variable "Ä": a letter



=== TEST 102: env: PATH
--- main_config eval
::binding('env A=1 PATH=/x;')
--- error_log
invalid variable "PATH": it is not for a binding to set



=== TEST 103: env: LD_PRELOAD
--- main_config eval
::binding('env A=1 LD_PRELOAD=x;')
--- error_log
invalid variable "LD_PRELOAD": it is not for a binding to set



=== TEST 104: env: DYLD_INSERT_LIBRARIES
--- main_config eval
::binding('env A=1 DYLD_INSERT_LIBRARIES=x;')
--- error_log
invalid variable "DYLD_INSERT_LIBRARIES": it is not for a binding to set



=== TEST 105: env: IFS
--- main_config eval
::binding('env A=1 IFS=x;')
--- error_log
invalid variable "IFS": it is not for a binding to set



=== TEST 106: env: ENV
--- main_config eval
::binding('env A=1 ENV=x;')
--- error_log
invalid variable "ENV": it is not for a binding to set



=== TEST 107: env: BASH_ENV
--- main_config eval
::binding('env A=1 BASH_ENV=x;')
--- error_log
invalid variable "BASH_ENV": it is not for a binding to set



=== TEST 108: env: PROMPT_COMMAND
--- main_config eval
::binding('env A=1 PROMPT_COMMAND=x;')
--- error_log
invalid variable "PROMPT_COMMAND": it is not for a binding to set



=== TEST 109: env: HTTPS_PROXY
--- main_config eval
::binding('env A=1 HTTPS_PROXY=x;')
--- error_log
invalid variable "HTTPS_PROXY": it is not for a binding to set



=== TEST 110: env: no_proxy
--- main_config eval
::binding('env A=1 no_proxy=x;')
--- error_log
invalid variable "no_proxy": it is not for a binding to set



=== TEST 111: env: All_Proxy
--- main_config eval
::binding('env A=1 All_Proxy=x;')
--- error_log
invalid variable "All_Proxy": it is not for a binding to set



=== TEST 112: env: SSL_CERT_FILE
--- main_config eval
::binding('env A=1 SSL_CERT_FILE=x;')
--- error_log
invalid variable "SSL_CERT_FILE": it is not for a binding to set



=== TEST 113: env: NODE_EXTRA_CA_CERTS
--- main_config eval
::binding('env A=1 NODE_EXTRA_CA_CERTS=x;')
--- error_log
invalid variable "NODE_EXTRA_CA_CERTS": it is not for a binding to set



=== TEST 114: env: npm_config_cafile
--- main_config eval
::binding('env A=1 npm_config_cafile=x;')
--- error_log
invalid variable "npm_config_cafile": it is not for a binding to set



=== TEST 115: env: JAVA_TOOL_OPTIONS
--- main_config eval
::binding('env A=1 JAVA_TOOL_OPTIONS=x;')
--- error_log
invalid variable "JAVA_TOOL_OPTIONS": it is not for a binding to set



=== TEST 116: env: GIT_CONFIG_COUNT
--- main_config eval
::binding('env A=1 GIT_CONFIG_COUNT=1;')
--- error_log
invalid variable "GIT_CONFIG_COUNT": it is not for a binding to set



=== TEST 117: env: GIT_SSL_CAINFO
--- main_config eval
::binding('env A=1 GIT_SSL_CAINFO=x;')
--- error_log
invalid variable "GIT_SSL_CAINFO": it is not for a binding to set



=== TEST 118: env: NODE_USE_ENV_PROXY
--- main_config eval
::binding('env A=1 NODE_USE_ENV_PROXY=0;')
--- error_log
invalid variable "NODE_USE_ENV_PROXY": it is not for a binding to set



=== TEST 119: env: a control character
--- main_config eval
::binding('env "A=x\ny";')
--- error_log
invalid variable "A": its text has a control character



=== TEST 120: env: the same twice
--- main_config eval
::binding('env A=1 B=2 A=3;')
--- error_log
invalid variable "A": the binding has it already



=== TEST 121: env: the same in a credential
--- main_config eval
::binding('env A=1; credential c { env A=2; }')
--- error_log
invalid variable "A": the binding has it already



=== TEST 122: env: no text and no placeholder
--- main_config eval
::binding('env A;')
--- error_log
"env A" without a text or a "placeholder" in binding "b"



=== TEST 123: env: the placeholder of another credential
--- main_config eval
::binding('placeholder $TEST_NGINX_PLACEHOLDER; credential c { header X-A; env A; }')
--- error_log
"env A" without a text or a "placeholder" in binding "b"



=== TEST 124: env: what may be
--- main_config eval
::binding('env KEY _k1=a=b "T=x y" E= "Q=\'\\"$" PATHS=1 LDX=1 path=1; ' . $::S . '
          credential c { header X-A; env APP_KEY APP=%; placeholder aaaaaaaaaaaaaaaa1; }')
--- config
location /b/ { egress_pass b; }
--- request
GET /b/x
--- error_code: 200



=== TEST 125: credential: what may be
--- main_config eval
::binding('credential c { header X-A; inject always; basic_user u; ttl 1d; ' . $::S . ' }
          credential d { } credential c { header X-B prefix=x; }
          credential e { header X-E; ' . $::S =~ s/placeholder .*//r . '
                         inject if_absent; }')
--- config
location /b/ { egress_pass b; }
--- request
GET /b/x
--- error_code: 200
