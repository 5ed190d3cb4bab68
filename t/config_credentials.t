# what "nginx -t" refuses of secrets, placeholders, credentials and variables,
# DESIGN 6.10: file, line, directive and value

use lib 't/lib', 't/fixture';
use Fixture;
use Test::Nginx::Socket 'no_plan';
use Conf;

my $D = Fixture::dir();

Fixture::write_file('group', "x\n", 0660);
Fixture::write_file('world', "x\n", 0644);
Fixture::write_file('two', "one\ntwo\n", 0600);
Fixture::write_file('space', "one two\n", 0600);
Fixture::write_file('control', "one\x01\n", 0600);
Fixture::write_file('huge', 'x' x 20000, 0600);
Fixture::write_file('short.ph', "short\n", 0644);
mkdir "$D/dir.secret";
system 'mkfifo', '-m', '600', "$D/fifo" if !-e "$D/fifo";

no_long_string();
run_tests();

__DATA__

=== TEST 1: secret: writable by the group
--- main_config eval
::binding('secret $TEST_NGINX_FIXTURE_DIR/group static;')
--- error_log
/group" is writable by its group
could not read the secret



=== TEST 2: secret: readable by others
--- main_config eval
::binding('secret $TEST_NGINX_FIXTURE_DIR/world static;')
--- error_log
/world" is accessible to others



=== TEST 3: secret: readable by others, and allowed
--- main_config eval
::binding('secret $TEST_NGINX_FIXTURE_DIR/world static insecure_permissions; inject always;')
--- request
GET /none
--- error_code: 204



=== TEST 4: secret: two lines
--- main_config eval
::binding('secret $TEST_NGINX_FIXTURE_DIR/two static;')
--- error_log
/two" has more than one line



=== TEST 5: secret: inner white space
--- main_config eval
::binding('secret $TEST_NGINX_FIXTURE_DIR/space static;')
--- error_log
/space" has white space in it



=== TEST 6: secret: a control byte
--- main_config eval
::binding('secret $TEST_NGINX_FIXTURE_DIR/control static;')
--- error_log
/control" has a control byte in it



=== TEST 7: secret: over 16 KiB
--- main_config eval
::binding('secret $TEST_NGINX_FIXTURE_DIR/huge static;')
--- error_log
/huge" is too large



=== TEST 8: secret: a directory
--- main_config eval
::binding('secret $TEST_NGINX_FIXTURE_DIR/dir.secret static;')
--- error_log
/dir.secret" is not a regular file



=== TEST 9: secret: a FIFO does not block
--- main_config eval
::binding('secret $TEST_NGINX_FIXTURE_DIR/fifo static;')
--- error_log
/fifo" is not a regular file



=== TEST 10: secret: a device
--- main_config eval
::binding('secret /dev/zero static;')
--- error_log
"/dev/zero" is not a regular file



=== TEST 11: secret: unknown parameter
--- main_config eval
::binding('secret $TEST_NGINX_SECRET often;')
--- error_log
invalid parameter "often"



=== TEST 12: secret twice
--- main_config eval
::binding("$::S $::S")
--- error_log
"secret" directive is duplicate



=== TEST 13: secret that is not there: a warning
--- main_config eval
::binding('secret /nonexistent/secret static; inject always;')
--- request
GET /none
--- error_code: 204
--- error_log
secret "/nonexistent/secret" is not there



=== TEST 14: placeholder: too short
--- main_config eval
::binding('placeholder fifteen-letters;')
--- error_log
placeholder of 15 characters is too short



=== TEST 15: placeholder: too short in its file
--- main_config eval
::binding('placeholder file:$TEST_NGINX_FIXTURE_DIR/short.ph;')
--- error_log
placeholder of 5 characters is too short



=== TEST 16: placeholder: no such file
--- main_config eval
::binding('placeholder file:/nonexistent/ph;')
--- error_log
could not read the placeholder "/nonexistent/ph"



=== TEST 17: placeholder: a character that no credential has
--- main_config eval
::binding('placeholder "sixteen or more of them";')
--- error_log
has a character that a credential can't hold



=== TEST 18: placeholders that overlap (H-07)
--- main_config eval
::binding('placeholder aaaaaaaaaaaaaaaa1; placeholder Xaaaaaaaaaaaaaaaa1;')
--- error_log
placeholder "aaaaaaaaaaaaaaaa1" is a part of placeholder "Xaaaaaaaaaaaaaaaa1"



=== TEST 19: the same placeholder twice
--- main_config eval
::binding('placeholder aaaaaaaaaaaaaaaa1; placeholder aaaaaaaaaaaaaaaa1;')
--- error_log
is a part of placeholder



=== TEST 20: inject: unknown mode
--- main_config eval
::binding('inject sometimes;')
--- error_log
invalid value "sometimes"



=== TEST 21: inject swap without a placeholder
--- main_config eval
::binding('secret $TEST_NGINX_SECRET static;')
--- error_log
"inject swap" without a "placeholder" in binding "b"



=== TEST 22: inject always without a secret
--- main_config eval
::binding('inject always;')
--- error_log
"inject" without a "secret" in binding "b"



=== TEST 23: header: a reserved one
--- main_config eval
::binding('header Host;')
--- error_log
header "Host" can't carry a credential



=== TEST 24: header: not a name
--- main_config eval
::binding('header "X Y";')
--- error_log
invalid header name "X Y"



=== TEST 25: header: unknown parameter
--- main_config eval
::binding('header X-Key infix=1;')
--- error_log
invalid parameter "infix=1"



=== TEST 26: header twice
--- main_config eval
::binding('header X-Key; header x-key;')
--- error_log
duplicate header "x-key" in binding "b"



=== TEST 27: basic_user: a colon
--- main_config eval
::binding('basic_user a:b;')
--- error_log
invalid user name "a:b"



=== TEST 28: basic_user: unknown parameter
--- main_config eval
::binding('basic_user a somewhere;')
--- error_log
invalid parameter "somewhere"



=== TEST 29: nothing of a secret in the configuration that nginx -T prints (X-45)
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



=== TEST 30: credential: a bad name
--- main_config eval
::binding('credential "a b" { }')
--- error_log
invalid credential name "a b"



=== TEST 31: credential: the name of its binding
--- main_config eval
::binding('credential b { header X-A; }')
--- error_log
credential "b" has the name of its binding



=== TEST 32: credential: a directive of another place
--- main_config eval
::binding('credential c { hosts a.test; }')
--- error_log
"hosts" directive is not allowed here



=== TEST 33: credential: within a credential
--- main_config eval
::binding('credential c { credential d { } }')
--- error_log
"credential" directive is not allowed here



=== TEST 34: credential: in a host
--- main_config eval
::binding('host a.test { credential c { } }')
--- error_log
"credential" directive is not allowed here



=== TEST 35: credential: too many
--- main_config eval
::binding('credential c0 { header X-0; } credential c1 { header X-1; } credential c2 { header X-2; } credential c3 { header X-3; } credential c4 { header X-4; } credential c5 { header X-5; } credential c6 { header X-6; } credential c7 { header X-7; } credential c8 { header X-8; } credential c9 { header X-9; } credential c10 { header X-10; } credential c11 { header X-11; } credential c12 { header X-12; } credential c13 { header X-13; } credential c14 { header X-14; } credential c15 { header X-15; }')
--- error_log
too many credentials in binding "b"



=== TEST 36: credential: a header of another
--- main_config eval
::binding('header X-Key; credential c { header x-key; }')
--- error_log
duplicate header "x-key" in binding "b"



=== TEST 37: credential: Authorization, which the binding has without a word
--- main_config eval
::binding('placeholder $TEST_NGINX_PLACEHOLDER; secret $TEST_NGINX_SECRET static; credential c { header Authorization; }')
--- error_log
duplicate header "Authorization" in binding "b"



=== TEST 38: credential: two that name no header
--- main_config eval
::binding('credential c { } credential d { }')
--- error_log
duplicate header "Authorization" in binding "b"



=== TEST 39: credential: a second block goes on, and repeats nothing
--- main_config eval
::binding('credential c { header X-A; secret $TEST_NGINX_SECRET static; } credential c { secret $TEST_NGINX_SECRET static; }')
--- error_log
"secret" directive is duplicate



=== TEST 40: credential: swap without a placeholder
--- main_config eval
::binding('placeholder $TEST_NGINX_PLACEHOLDER; secret $TEST_NGINX_SECRET static; credential c { header X-A; secret $TEST_NGINX_SECRET static; }')
--- error_log
"inject swap" without a "placeholder" in credential "c"



=== TEST 41: credential: inject without a secret
--- main_config eval
::binding('credential c { inject always; }')
--- error_log
"inject" without a "secret" in credential "c"



=== TEST 42: credential: the placeholder of another
--- main_config eval
::binding('placeholder $TEST_NGINX_PLACEHOLDER; secret $TEST_NGINX_SECRET static; credential c { header X-A; placeholder $TEST_NGINX_PLACEHOLDER; secret $TEST_NGINX_SECRET static; }')
--- error_log
is a part of placeholder



=== TEST 43: credential: a part of the placeholder of another
--- main_config eval
::binding('credential c { header X-A; placeholder Xaaaaaaaaaaaaaaaa1; } credential d { placeholder aaaaaaaaaaaaaaaa1; }')
--- error_log
placeholder "aaaaaaaaaaaaaaaa1" is a part of placeholder "Xaaaaaaaaaaaaaaaa1"



=== TEST 44: credential: its secret, over plain HTTP to a network
--- main_config eval
"egress { $::H binding b { hosts a.test; upstream http://192.0.2.1; credential c { $::S } } }"
--- error_log
the upstream "http://192.0.2.1:80" of binding "b", which has a secret



=== TEST 45: env: the name "1A"
--- main_config eval
::binding('env "1A";')
--- error_log
invalid variable "1A": a letter



=== TEST 46: env: the name "A-B"
--- main_config eval
::binding('env "A-B";')
--- error_log
invalid variable "A-B": a letter



=== TEST 47: env: the name "A B"
--- main_config eval
::binding('env "A B";')
--- error_log
invalid variable "A B": a letter



=== TEST 48: env: the name ""
--- main_config eval
::binding('env "";')
--- error_log
invalid variable "": a letter



=== TEST 49: env: the name "=x"
--- main_config eval
::binding('env "=x";')
--- error_log
invalid variable "": a letter



=== TEST 50: env: the name "Ä"
--- main_config eval
::binding('env "Ä";')
--- error_log
invalid variable "Ä": a letter



=== TEST 51: env: PATH
--- main_config eval
::binding('env A=1 PATH=/x;')
--- error_log
invalid variable "PATH": it is not for a binding to set



=== TEST 52: env: LD_PRELOAD
--- main_config eval
::binding('env A=1 LD_PRELOAD=x;')
--- error_log
invalid variable "LD_PRELOAD": it is not for a binding to set



=== TEST 53: env: DYLD_INSERT_LIBRARIES
--- main_config eval
::binding('env A=1 DYLD_INSERT_LIBRARIES=x;')
--- error_log
invalid variable "DYLD_INSERT_LIBRARIES": it is not for a binding to set



=== TEST 54: env: IFS
--- main_config eval
::binding('env A=1 IFS=x;')
--- error_log
invalid variable "IFS": it is not for a binding to set



=== TEST 55: env: ENV
--- main_config eval
::binding('env A=1 ENV=x;')
--- error_log
invalid variable "ENV": it is not for a binding to set



=== TEST 56: env: BASH_ENV
--- main_config eval
::binding('env A=1 BASH_ENV=x;')
--- error_log
invalid variable "BASH_ENV": it is not for a binding to set



=== TEST 57: env: PROMPT_COMMAND
--- main_config eval
::binding('env A=1 PROMPT_COMMAND=x;')
--- error_log
invalid variable "PROMPT_COMMAND": it is not for a binding to set



=== TEST 58: env: HTTPS_PROXY
--- main_config eval
::binding('env A=1 HTTPS_PROXY=x;')
--- error_log
invalid variable "HTTPS_PROXY": it is not for a binding to set



=== TEST 59: env: no_proxy
--- main_config eval
::binding('env A=1 no_proxy=x;')
--- error_log
invalid variable "no_proxy": it is not for a binding to set



=== TEST 60: env: All_Proxy
--- main_config eval
::binding('env A=1 All_Proxy=x;')
--- error_log
invalid variable "All_Proxy": it is not for a binding to set



=== TEST 61: env: SSL_CERT_FILE
--- main_config eval
::binding('env A=1 SSL_CERT_FILE=x;')
--- error_log
invalid variable "SSL_CERT_FILE": it is not for a binding to set



=== TEST 62: env: NODE_EXTRA_CA_CERTS
--- main_config eval
::binding('env A=1 NODE_EXTRA_CA_CERTS=x;')
--- error_log
invalid variable "NODE_EXTRA_CA_CERTS": it is not for a binding to set



=== TEST 63: env: npm_config_cafile
--- main_config eval
::binding('env A=1 npm_config_cafile=x;')
--- error_log
invalid variable "npm_config_cafile": it is not for a binding to set



=== TEST 64: env: JAVA_TOOL_OPTIONS
--- main_config eval
::binding('env A=1 JAVA_TOOL_OPTIONS=x;')
--- error_log
invalid variable "JAVA_TOOL_OPTIONS": it is not for a binding to set



=== TEST 65: env: GIT_CONFIG_COUNT
--- main_config eval
::binding('env A=1 GIT_CONFIG_COUNT=1;')
--- error_log
invalid variable "GIT_CONFIG_COUNT": it is not for a binding to set



=== TEST 66: env: GIT_SSL_CAINFO
--- main_config eval
::binding('env A=1 GIT_SSL_CAINFO=x;')
--- error_log
invalid variable "GIT_SSL_CAINFO": it is not for a binding to set



=== TEST 67: env: NODE_USE_ENV_PROXY
--- main_config eval
::binding('env A=1 NODE_USE_ENV_PROXY=0;')
--- error_log
invalid variable "NODE_USE_ENV_PROXY": it is not for a binding to set



=== TEST 68: env: a control character
--- main_config eval
::binding('env "A=x\ny";')
--- error_log
invalid variable "A": its text has a control character



=== TEST 69: env: the same twice
--- main_config eval
::binding('env A=1 B=2 A=3;')
--- error_log
invalid variable "A": the binding has it already



=== TEST 70: env: the same in a credential
--- main_config eval
::binding('env A=1; credential c { env A=2; }')
--- error_log
invalid variable "A": the binding has it already



=== TEST 71: env: no text and no placeholder
--- main_config eval
::binding('env A;')
--- error_log
"env A" without a text or a "placeholder" in binding "b"



=== TEST 72: env: the placeholder of another credential
--- main_config eval
::binding('placeholder $TEST_NGINX_PLACEHOLDER; credential c { header X-A; env A; }')
--- error_log
"env A" without a text or a "placeholder" in binding "b"



=== TEST 73: env: what may be
--- main_config eval
::binding('env KEY _k1=a=b "T=x y" E= "Q=\'\\"$" PATHS=1 LDX=1 path=1; ' . $::S . '
          credential c { header X-A; env APP_KEY APP=%; placeholder aaaaaaaaaaaaaaaa1; }')
--- config
location /b/ { egress_pass b; }
--- request
GET /b/x
--- error_code: 200



=== TEST 74: credential: what may be
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
