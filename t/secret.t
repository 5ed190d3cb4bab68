# secret files while nginx runs: DESIGN 6.8, cases O-20 and O-21, security A-09

use lib 't/lib', 't/fixture';
use Fixture;
use Test::Nginx::Socket 'no_plan';

our $P = $ENV{TEST_NGINX_PLACEHOLDER};
our $C = $ENV{TEST_NGINX_CANARY};
our $D = Fixture::dir() . '/live';

# a file as it is before nginx starts, and again for each block

sub fresh {
    system 'rm', '-rf', $D;
    mkdir $D or die "$D: $!";
    Fixture::write_file("$D/secret", "$C\n", 0640);
}

sub request { "GET /api/user" }

# a request in the middle of a change, as any client may send one
sub ask {
    my $port = Test::Nginx::Socket::server_port_for_client();
    my $out = `curl -s -o /dev/null -D - -H 'Authorization: Bearer $P' http://127.0.0.1:$port/api/user`;
    return $out =~ /X-Auth: bearer-secret/ ? 'secret'
           : $out =~ /^Proxy-Status: .*details="(\w+):/m ? $1
           : $out =~ /^X-Auth: (\S+)/m ? $1 : "?$out";
}

sub pause { select undef, undef, undef, $_[0] }

our $Main = sub {
    my ($check, $more) = @_;
    $more //= '';
    return <<"CONF";
egress {
    audit_log            \$TEST_NGINX_FIXTURE_DIR/audit.json;
    trusted_certificate  \$TEST_NGINX_FIXTURE_DIR/trusted.pem;
    secret_check         $check;
    binding api {
        hosts        api.test;
        upstream     https://127.0.0.1:\$TEST_NGINX_UPSTREAM_PORT;
        secret       \$TEST_NGINX_FIXTURE_DIR/live/secret $more;
        placeholder  \$TEST_NGINX_PLACEHOLDER;
    }
}
CONF
};

add_block_preprocessor(sub {
    my $block = shift;

    fresh();

    $block->set_value(main_config => $Main->('0'))
        unless defined $block->main_config;
    $block->set_value(config => 'location /api/ { egress_pass api; }');
    $block->set_value(request => 'GET /api/user');
    $block->set_value(more_headers => "Authorization: Bearer $P");
});

no_shuffle();
no_long_string();
run_tests();

__DATA__

=== TEST 1: as it was read
--- response_headers
X-Auth: bearer-secret



=== TEST 2: removed: refused at once, and nothing goes upstream
--- init
main::ask(); unlink "$main::D/secret";
--- error_code: 403
--- response_headers_like
Proxy-Status: nginx-egress; error=http_request_denied; details="credential_missing: .*"
--- response_body_like chop
"reason":"credential_missing","binding":"api"
--- error_log
has been removed



=== TEST 3: put back: works again
--- init
unlink "$main::D/secret";
Test::More::is(main::ask(), 'credential_missing', 'removed');
Fixture::write_file("$main::D/secret", "$main::C\n", 0640);
--- response_headers
X-Auth: bearer-secret
--- error_log
is there again



=== TEST 4: replaced by rename
--- init
Fixture::write_file("$main::D/secret", "old\n", 0640);
Test::More::is(main::ask(), 'other', 'another value');
Fixture::write_file("$main::D/new", "$main::C\n", 0640);
rename "$main::D/new", "$main::D/secret" or die;
--- response_headers
X-Auth: bearer-secret



=== TEST 5: truncated, then written: the old value until there is a new one
--- init
Fixture::write_file("$main::D/secret", '', 0640);
Test::More::is(main::ask(), 'secret', 'just emptied: the last value');
Fixture::write_file("$main::D/secret", "q\n", 0640);
--- response_headers
X-Auth: bearer-one



=== TEST 6: empty for longer than 200 ms: revoked
--- init
Fixture::write_file("$main::D/secret", '', 0640);
main::pause(0.3);
--- error_code: 403
--- response_headers_like
Proxy-Status: .*credential_missing.*



=== TEST 7: only a line end: as if it were empty (O-20)
--- init
Fixture::write_file("$main::D/secret", "\n", 0640);
main::pause(0.3);
--- error_code: 403
--- response_headers_like
Proxy-Status: .*credential_missing.*



=== TEST 8: CR LF at the end is stripped (O-20)
--- init
Fixture::write_file("$main::D/secret", "$main::C\r\n", 0640);
--- response_headers
X-Auth: bearer-secret



=== TEST 9: two lines: unreadable, after it has settled
--- init
Fixture::write_file("$main::D/secret", "$main::C\nX-Evil: 1\n", 0640);
Test::More::is(main::ask(), 'secret', 'just written: the last value');
main::pause(0.3);
--- error_code: 503
--- response_headers_like
Proxy-Status: .*error=proxy_internal_error; details="secret_unreadable: .*"
--- error_log
has more than one line
can't be read



=== TEST 10: mended: works again
--- init
Fixture::write_file("$main::D/secret", "a b\n", 0640);
main::pause(0.3);
Test::More::is(main::ask(), 'secret_unreadable', 'refused');
Fixture::write_file("$main::D/secret", "$main::C\n", 0640);
--- response_headers
X-Auth: bearer-secret



=== TEST 11: a mode that is too open
--- init
unlink "$main::D/secret";
Fixture::write_file("$main::D/secret", "$main::C\n", 0644);
main::pause(0.3);
--- error_code: 503
--- response_headers_like
Proxy-Status: .*secret_unreadable.*
--- error_log
is accessible to others



=== TEST 12: the mode mended, nothing else: works again
--- init
unlink "$main::D/secret";
Fixture::write_file("$main::D/secret", "$main::C\n", 0644);
main::pause(0.3);
Test::More::is(main::ask(), 'secret_unreadable', 'refused');
chmod 0640, "$main::D/secret";
--- response_headers
X-Auth: bearer-secret



=== TEST 13: insecure_permissions
--- main_config eval
$::Main->('0', 'insecure_permissions')
--- init
unlink "$main::D/secret";
Fixture::write_file("$main::D/secret", "$main::C\n", 0644);
--- response_headers
X-Auth: bearer-secret



=== TEST 14: a directory in its place
--- init
unlink "$main::D/secret"; mkdir "$main::D/secret"; main::pause(0.3);
--- error_code: 503



=== TEST 15: a FIFO in its place blocks nothing
--- init
unlink "$main::D/secret"; system 'mkfifo', '-m', '640', "$main::D/secret";
main::pause(0.3);
--- error_code: 503
--- error_log
is not a regular file



=== TEST 16: a dangling link
--- init
unlink "$main::D/secret"; symlink '/nonexistent/x', "$main::D/secret";
--- error_code: 403
--- response_headers_like
Proxy-Status: .*credential_missing.*



=== TEST 17: the "..data" link moves, the path stays (O-21)
--- init
unlink "$main::D/secret";
mkdir "$main::D/v1"; mkdir "$main::D/v2";
Fixture::write_file("$main::D/v1/secret", "q\n", 0640);
Fixture::write_file("$main::D/v2/secret", "$main::C\n", 0640);
symlink 'v1', "$main::D/..data";
symlink '..data/secret', "$main::D/secret";
Test::More::is(main::ask(), 'bearer-one', 'the first version');
symlink 'v2', "$main::D/..new";
rename "$main::D/..new", "$main::D/..data" or die;
--- response_headers
X-Auth: bearer-secret



=== TEST 18: over 16 KiB
--- init
Fixture::write_file("$main::D/secret", 'x' x 16385, 0640); main::pause(0.3);
--- error_code: 503
--- error_log
is too large



=== TEST 19: its folder removed
--- init
system 'rm', '-rf', $main::D;
--- error_code: 403
--- response_headers_like
Proxy-Status: .*credential_missing.*



=== TEST 20: static: no checks
--- main_config eval
$::Main->('0', 'static')
--- init
unlink "$main::D/secret";
--- response_headers
X-Auth: bearer-secret



=== TEST 21: secret_check: seen within its time
--- main_config eval
$::Main->('300ms')
--- init
main::ask(); unlink "$main::D/secret"; main::pause(0.35);
--- error_code: 403



=== TEST 22: secret_check: not before
--- main_config eval
$::Main->('1h')
--- init
main::ask(); unlink "$main::D/secret"; main::ask();
--- response_headers
X-Auth: bearer-secret



=== TEST 23: missing at the start, there later
--- main_config eval
my $c = $::Main->('0');
$c =~ s{live/secret}{live/later};
$c
--- init
Test::More::is(main::ask(), 'credential_missing', 'not there yet');
Fixture::write_file("$main::D/later", "$main::C\n", 0640);
--- response_headers
X-Auth: bearer-secret



=== TEST 24: a request without the placeholder needs no secret
--- init
unlink "$main::D/secret";
my $port = Test::Nginx::Socket::server_port_for_client();
my $code = `curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:$port/api/user`;
Test::More::is($code, 200, 'forwarded without a credential');
--- error_code: 403



=== TEST 25: a mode that became too open, nothing else changed
--- init
main::pause(0.3); main::ask(); chmod 0666, "$main::D/secret";
--- error_code: 503
--- error_log
is writable by its group



=== TEST 26: rewritten in place, with the time of change put back
--- init
my @t = (stat "$main::D/secret")[8, 9];
Fixture::write_file("$main::D/secret", "q" . ("x" x (length($main::C) - 1)) . "\n");
utime @t, "$main::D/secret";
Test::More::is(main::ask(), 'other', 'the new value');
Fixture::write_file("$main::D/secret", "$main::C\n");
utime @t, "$main::D/secret";
--- response_headers
X-Auth: bearer-secret
