# the runner's checks can fail: small files that must come out red

use strict;
use warnings;

use File::Temp ();
use Test::More;

my $dir = File::Temp::tempdir(CLEANUP => 1);
my $canary = 'canary0123456789abcdefghij';

my @cases = (
    ['right', 1, "--- request\nGET /t\n--- response_body\nhello\n"],
    ['wrong status', 0, "--- request\nGET /t\n--- error_code: 404\n"],
    ['wrong body', 0, "--- request\nGET /t\n--- response_body\nbye\n"],
    ['body like', 0, "--- request\nGET /t\n--- response_body_like: bye\n"],
    ['wrong header', 0,
     "--- request\nGET /t\n--- response_headers\nX-A: c\n"],
    ['missing header', 0,
     "--- request\nGET /t\n--- response_headers\nX-B: c\n"],
    ['header that is there', 0,
     "--- request\nGET /t\n--- response_headers\n! X-A\n"],
    ['raw headers', 0,
     "--- request\nGET /t\n--- raw_response_headers_unlike: X-A\n"],
    ['no such log line', 0,
     "--- request\nGET /t\n--- error_log\nno such line\n"],
    ['a log line that is there', 0,
     "--- request\nGET /t\n--- no_error_log\nhttp header\n"],
    ['no such access line', 0,
     "--- request\nGET /t\n--- access_log\nPOST\n"],
    ['must die, and does not', 0,
     "--- must_die\n--- error_log\nunknown\n"],
    ['an alarm in the log', 0, "--- request\nGET /crit\n--- error_code: 502\n"],
    ['an alarm that was asked for', 1,
     "--- request\nGET /crit\n--- error_code: 502\n--- error_log\n"
     . "connect() to unix:/nonexistent/socket failed\n"],
    ['canary in a log', 0,
     "--- request\nGET /t?$canary\n--- response_body\nhello\n"],
    ['canary in an answer, as hex', 0,
     "--- request\nGET /hex\n--- error_code: 200\n"],
    ['canary in an answer, as base64', 0,
     "--- request\nGET /base64\n--- error_code: 200\n"],
);

require MIME::Base64;

my $hex = unpack 'H*', $canary;
my $base64 = MIME::Base64::encode("x:$canary", '');

for my $case (@cases) {
    my ($name, $pass, $text) = @$case;

    open my $out, '>', "$dir/case.t" or die $!;
    print $out <<"END";
use lib 't/lib';
use Test::Nginx::Socket 'no_plan';
run_tests();

__DATA__

=== TEST 1: $name
--- config
location /t { add_header X-A b; return 200 "hello\\n"; }
location /hex { return 200 "$hex"; }
location /base64 { return 200 "$base64"; }
location /crit {
    proxy_pass http://unix:/nonexistent/socket;
}
$text
END
    close $out;

    local $ENV{TEST_NGINX_SERVROOT} = "$dir/servroot";
    local $ENV{TEST_NGINX_STRICT_LOG} = 1;
    local $ENV{TEST_NGINX_CANARY_SCAN} = 1;
    local $ENV{TEST_NGINX_CANARY} = $canary;
    local $ENV{TEST_NGINX_LOAD_MODULES} = '';

    my $output = `$^X -It/lib $dir/case.t 2>&1`;
    my $ok = $? == 0 && $output !~ /^not ok/m && $output =~ /^ok/m;

    is($ok ? 1 : 0, $pass, $pass ? "$name: green" : "$name: red")
        or diag($output);
}

done_testing();
