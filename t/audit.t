# the audit log, DESIGN 6.11

use lib 't/lib', 't/fixture';
use Fixture;
use Test::Nginx::Socket 'no_plan';
use JSON::PP ();

our $P = $ENV{TEST_NGINX_PLACEHOLDER};
our $A = Fixture::dir() . '/a.json';

our $Main = sub {
    my ($audit, $more) = @_;
    $more //= '';
    return <<"CONF";
egress {
    name                 egress-1;
    $audit
    trusted_certificate  \$TEST_NGINX_FIXTURE_DIR/trusted.pem;
    binding api {
        hosts        api.test;
        upstream     https://127.0.0.1:\$TEST_NGINX_UPSTREAM_PORT;
        secret       \$TEST_NGINX_SECRET static;
        placeholder  \$TEST_NGINX_PLACEHOLDER;
        git on;
        refuse * /login;
        $more
    }
}
CONF
};

# the lines so far, each of which must be one JSON object

sub lines {
    my ($file) = @_;
    my @all;

    for my $line (split /\n/, Fixture::read_file($file || $A)) {
        my $rec = eval { JSON::PP->new->utf8->decode($line) };
        Test::More::ok(ref $rec eq 'HASH', 'a line is valid JSON')
            or Test::More::diag($line);
        push @all, $rec if $rec;
    }

    return @all;
}

# records are written after the response has been sent

sub pause { select undef, undef, undef, 0.1 }

add_block_preprocessor(sub {
    my $block = shift;

    unlink $A;
    $block->set_value(main_config =>
                      $Main->('audit_log $TEST_NGINX_FIXTURE_DIR/a.json;'))
        unless defined $block->main_config;
    $block->set_value(config => 'location /api/ { egress_pass api; }')
        unless defined $block->config;
});

no_shuffle();
no_long_string();
run_tests();

__DATA__

=== TEST 1: an allowed request has two lines with one id
--- request
GET /api/user?token=x
--- more_headers eval
"Authorization: Bearer $::P"
--- error_code: 200



=== TEST 2: a refused one has one
--- init
my $port = Test::Nginx::Socket::server_port_for_client();
`curl -s 'http://127.0.0.1:$port/api/user?token=x' -H 'Authorization: Bearer $main::P'`;
main::pause();
my ($d, $c, @more) = main::lines();
Test::More::is(scalar @more, 0, 'two lines');
Test::More::is($d->{event}, 'decision', 'first the decision');
Test::More::is($c->{event}, 'completion', 'then the completion');
Test::More::is($d->{id}, $c->{id}, 'of one id');
Test::More::is($c->{seq}, $d->{seq} + 1, 'numbered');
Test::More::is($d->{decision}, 'allow', 'allowed');
Test::More::is($d->{reason}, 'allowed', 'with that reason');
Test::More::is($d->{class}, 'read', 'as a read');
Test::More::is($d->{binding}, 'api', 'of the binding');
Test::More::is($d->{role}, 'default', 'in the role');
Test::More::is($d->{via}, 'base_url', 'by a base URL');
Test::More::is($d->{host}, 'api.test', 'for the host');
Test::More::is($d->{port}, 443, 'and port');
Test::More::is($d->{method}, 'GET', 'method');
Test::More::is($d->{path}, '/user', 'path without its query');
Test::More::is($d->{client}, '127.0.0.1', 'client');
Test::More::is($d->{credential}, 'swapped', 'swapped');
require Digest::SHA;
Test::More::is($d->{credential_id}, substr(Digest::SHA::sha256_hex($ENV{TEST_NGINX_CANARY}), 0, 8), 'credential_id');
Test::More::like($d->{time}, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, 'time');
Test::More::ok(!exists $d->{status}, 'no status yet');
Test::More::is($c->{status}, 200, 'status');
Test::More::is($c->{upstream_status}, 200, 'of the upstream');
Test::More::is($c->{upstream_addr}, "127.0.0.1:$ENV{TEST_NGINX_UPSTREAM_PORT}", 'its address');
Test::More::ok($c->{bytes_in} > 0 && $c->{bytes_out} > 0, 'sizes');
Test::More::ok($c->{duration_ms} >= 0, 'time taken');
unlink $main::A;
--- request
POST /api/user
x
--- error_code: 403



=== TEST 3: refusals, and what nginx refuses itself
--- init
my $port = Test::Nginx::Socket::server_port_for_client();
`curl -s -X POST 'http://127.0.0.1:$port/api/user' -d x`;
`curl -s 'http://127.0.0.1:$port/api/login'`;
`curl -s 'http://127.0.0.1:$port/api/Octo/Hello.git/info/refs?service=git-receive-pack'`;
`curl -s 'http://127.0.0.1:$port/api/x%zz'`;
main::pause();
my @l = main::lines();
Test::More::is(scalar @l, 4, 'a line each');
Test::More::is($l[0]{decision}, 'deny', 'denied');
Test::More::is($l[0]{reason}, 'write_refused', 'reason');
Test::More::is($l[0]{status}, 403, 'status');
Test::More::is($l[0]{class}, 'write', 'class');
Test::More::is($l[1]{rule}, 'refuse * /login', 'the rule as it is written');
Test::More::is($l[1]{reason}, 'rule_refused', 'its reason');
Test::More::is($l[2]{operation}, 'git-receive-pack', 'operation');
Test::More::is($l[2]{repo}, 'octo/hello', 'repository, case folded');
Test::More::is($l[2]{rule}, 'git on', 'by the git rule');
Test::More::is($l[3]{reason}, 'malformed_request', 'of core');
Test::More::is($l[3]{status}, 400, 'with its status');
--- request
GET /api/user
--- error_code: 200



=== TEST 4: whatever a client sends, each line is valid JSON (A-14)
--- init
my $port = Test::Nginx::Socket::server_port_for_client();
use IO::Socket::INET;
for my $target ('/api/"\\', "/api/\xff\xfe", "/api/\x01\x1b[2J", '/api/' . 'a' x 5000,
                '/api/%22%0a', "/api/\xe2\x82", "/api/\xed\xa0\x80")
{
    my $s = IO::Socket::INET->new("127.0.0.1:$port");
    print $s "GET $target HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    1 while sysread $s, my $b, 4096;
}
main::pause();
my @l = main::lines();
Test::More::ok(scalar @l >= 7, 'a line each');
Test::More::is(scalar(grep { $_->{truncated} } @l), 2, 'the long one is cut, and says so');
--- request
GET /api/user
--- error_code: 200



=== TEST 5: a log that can't be written: no secret leaves (A-13)
--- main_config eval
$::Main->('audit_log /dev/full;')
--- request eval
["GET /api/user", "GET /api/user", "GET /api/login"]
--- more_headers eval
["Authorization: Bearer $::P", "X: y", "Authorization: Bearer $::P"]
--- error_code eval
[503, 200, 403]
--- response_headers_like eval
['Proxy-Status: egress-1; error=proxy_internal_error; details="audit_unavailable: .*"',
 'X-Auth: none', 'Proxy-Status: .*rule_refused.*']
--- error_log
audit record was not written to "/dev/full"



=== TEST 6: on_error=continue
--- main_config eval
$::Main->('audit_log /dev/full on_error=continue;')
--- request
GET /api/user
--- more_headers eval
"Authorization: Bearer $::P"
--- response_headers
X-Auth: bearer-secret
--- error_log
audit record was not written



=== TEST 7: two sinks, both must take it
--- main_config eval
$::Main->('audit_log $TEST_NGINX_FIXTURE_DIR/a.json format=native; audit_log /dev/full on_error=deny;')
--- request
GET /api/user
--- more_headers eval
"Authorization: Bearer $::P"
--- error_code: 503



=== TEST 8: off
--- main_config eval
$::Main->('audit_log off;')
--- request
GET /api/user
--- more_headers eval
"Authorization: Bearer $::P"
--- response_headers
X-Auth: bearer-secret



=== TEST 9: the default is logs/egress.json below the prefix
--- main_config eval
$::Main->('')
--- init
my $port = Test::Nginx::Socket::server_port_for_client();
`curl -s 'http://127.0.0.1:$port/api/user'`;
main::pause();
my @l = main::lines("$ENV{TEST_NGINX_SERVER_ROOT}/logs/egress.json");
Test::More::is(scalar @l, 2, 'two lines');
--- request
GET /api/user
--- error_code: 200



=== TEST 10: reopened on USR1
--- init
my $port = Test::Nginx::Socket::server_port_for_client();
`curl -s 'http://127.0.0.1:$port/api/user'`;
main::pause();
rename $main::A, "$main::A.1";
my $pid = Fixture::read_file("$ENV{TEST_NGINX_SERVER_ROOT}/logs/nginx.pid");
kill 'USR1', $pid;
for (1 .. 100) { last if -e $main::A; main::pause(); }
`curl -s 'http://127.0.0.1:$port/api/user'`;
main::pause();
Test::More::is(scalar(main::lines("$main::A.1")), 2, 'the old file has its lines');
Test::More::is(scalar(main::lines()), 2, 'the new one the rest');
--- request
GET /api/user
--- error_code: 200



=== TEST 11: $egress_audit in a log of the operator's
--- http_config
log_format eg escape=none '$egress_audit';
--- config
location /api/ { egress_pass api; access_log logs/eg.log eg; }
--- init
my $port = Test::Nginx::Socket::server_port_for_client();
`curl -s 'http://127.0.0.1:$port/api/user' -H 'Authorization: Bearer $main::P'`;
`curl -s 'http://127.0.0.1:$port/api/login'`;
main::pause();
my @l = main::lines("$ENV{TEST_NGINX_SERVER_ROOT}/logs/eg.log");
Test::More::is(scalar @l, 2, 'a line a request');
Test::More::is($l[0]{event}, 'completion', 'of the completion');
Test::More::is($l[0]{credential}, 'swapped', 'with the credential');
Test::More::is($l[1]{decision}, 'deny', 'of the refusal');
--- request
GET /api/user
--- error_code: 200
