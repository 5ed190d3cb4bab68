# The checks of the runner can fail.  Each case is a small test file of its
# own, which runs in a child process and must end as said here.

use strict;
use warnings;

use Cwd ();
use File::Spec ();
use File::Temp ();
use MIME::Base64 qw(encode_base64);
use Test::More;

my $lib = File::Spec->rel2abs('t/lib');

if (!-f "$lib/Test/Nginx/Socket.pm") {
    plan skip_all => 'it is our own runner that is tested here';
}

my $root = File::Temp->newdir();
my $canary = 'canary' . join '', map { ('a' .. 'z', 0 .. 9)[rand 36] } 1 .. 24;
my $count = 0;

my $plain = "    location = /t {\n        return 200 \"ok\\n\";\n    }";


# Runs a block; returns whether the file passed, and all that it said.

sub outcome {
    my ($text, %env) = @_;

    my $dir = "$root/" . ++$count;
    my $setup = delete $env{setup} // '';
    my $plan = delete $env{plan} // "'no_plan'";

    mkdir $dir;
    mkdir "$dir/t";

    open my $out, '>', "$dir/t/x.t" or die "$dir: $!";
    print $out <<"END_TEST";
use lib '$lib';
use Test::Nginx::Socket $plan;
$setup
run_tests();

__DATA__

$text
END_TEST
    close $out;

    my $pid = open my $in, '-|';
    defined $pid or die "fork: $!";

    if ($pid == 0) {
        delete @ENV{grep { /^TEST_NGINX_/ && $_ ne 'TEST_NGINX_BINARY' }
                         keys %ENV};
        @ENV{keys %env} = values %env;
        $ENV{TEST_NGINX_RANDOMIZE} = 1;
        $ENV{TEST_NGINX_CANARY} = $canary;
        chdir $dir or die;
        open STDERR, '>&', \*STDOUT;
        exec $^X, 't/x.t' or die;
    }

    local $/;
    my $said = <$in> // '';
    close $in;

    return ($? == 0, $said, [glob "$dir/t/servroot*"]);
}

sub red {
    my ($name, $pattern, $text, %env) = @_;

    my ($passed, $said) = outcome("=== TEST 1: case\n$text", %env);

    # What has failed matters, not only that something has.
    ok(!$passed && $said =~ $pattern, "red: $name") or diag($said);
}

sub green {
    my ($name, $text, %env) = @_;

    my ($passed, $said) = outcome("=== TEST 1: case\n$text", %env);

    ok($passed && $said =~ /^ok 1/m && $said !~ /^not ok/m, "green: $name")
        or diag($said);
}


# A case that passes, and leaves nothing behind.

{
    my ($passed, $said, $left) = outcome(
        "=== TEST 1: case\n--- config\n$plain\n--- request\nGET /t\n"
        . "--- response_body\nok\n--- no_error_log\n[error]");

    ok($passed, 'green: a block that is right') or diag($said);
    like($said, qr/^1\.\.3$/m, 'green: with three checks');
    is(scalar @$left, 0, 'green: and no servroot is left');
}


# Wrong expectations of a response.

my $get = "--- config\n$plain\n--- request\nGET /t\n";

my @wrong = (
    ['a status' => qr/^not ok 1 .*status code/m,
     "--- error_code: 404"],
    ['the default status' => qr/^not ok 1 .*status code/m,
     undef, "--- config\n--- request\nGET /nothing"],
    ['a status by pattern' => qr/^not ok 1 .*status code/m,
     "--- error_code_like: ^4"],
    ['a header' => qr/^not ok 2 .*header Content-Type ok/m,
     "--- response_headers\nContent-Type: text/html"],
    ['a header that is missing' => qr/^not ok 2 .*header X-None ok/m,
     "--- response_headers\nX-None: 1"],
    ['a header that must not be there' => qr/^not ok 2 .*not present/m,
     "--- response_headers\n! Content-Type"],
    ['a header by pattern' => qr/^not ok 2 .*Content-Length like/m,
     "--- response_headers_like\nContent-Length: \\d"
     . "\\d"],
    ['raw headers' => qr/^not ok 2 .*raw resp headers like/m,
     "--- raw_response_headers_like: X-None"],
    ['raw headers, unlike' => qr/^not ok 2 .*raw resp headers unlike/m,
     "--- raw_response_headers_unlike: Content-Type"],
    ['a body' => qr/^not ok 2 .*response_body/m,
     "--- response_body\nno"],
    ['a body without its newline' => qr/^not ok 2 .*response_body/m,
     "--- response_body chop\nok"],
    ['a body by pattern' => qr/^not ok 2 .*response_body_like/m,
     "--- response_body_like: ^no"],
    ['a body, unlike' => qr/^not ok 2 .*response_body_unlike/m,
     "--- response_body_unlike: ok"],
    ['a filtered body' => qr/^not ok 2 .*response_body/m,
     "--- response_body_filters: uc\n--- response_body\nok"],
);

for my $case (@wrong) {
    my ($name, $pattern, $more, $whole) = @$case;

    red($name, $pattern, $whole // "$get$more");
}

red('the second of two requests', qr/^ok 1 .*^not ok 3 .*status/ms,
    "--- config\n$plain\n--- request eval\n[\"GET /t\", \"GET /u\"]\n"
    . "--- error_code eval\n[200, 200]\n--- response_body eval\n"
    . "[\"ok\\n\", qr/404/]");
red('the second of pipelined requests', qr/^not ok 2 .*status/m,
    "--- config\n$plain\n--- pipelined_requests eval\n"
    . "[\"GET /t\", \"GET /u\"]\n--- error_code eval\n[200, 200]");
red('one expectation for two requests', qr/^Bail out!/m,
    "--- config\n$plain\n--- request eval\n[\"GET /t\", \"GET /t\"]\n"
    . "--- response_body\nok");
red('a check of the file\'s own', qr/^not ok 2 - mine/m, $get,
    setup => 'add_response_body_check(sub { is($_[1], "x", "mine") });');
red('a numeric plan', qr/planned 5 tests but ran 1/, $get,
    plan => 'tests => 5');


# Logs.

red('a line that the error log lacks', qr/^not ok 2 .*"no such text"/m,
    "$get--- error_log\nno such text");
red('a pattern that the error log lacks', qr/^not ok 2 /m,
    "$get--- error_log eval: qr/no such (?:text|word)/");
red('a line that the error log must not have',
    qr/^not ok 2 .*"GET \/t" should not match/m,
    "$get--- no_error_log\nGET /t");
red('pieces of the error log', qr/^not ok 2 .*grep_error_log_out/m,
    "$get--- grep_error_log eval: qr/http request line: \"[^\"]+\"/\n"
    . "--- grep_error_log_out\nsomething");
red('a line that the access log lacks', qr/^not ok 2 .*access\.log/m,
    "$get--- access_log\nPOST");
red('a line that the access log must not have', qr/^not ok 2 .*access\.log/m,
    "$get--- no_access_log\nGET");
red('a line of the shutdown', qr/^not ok 2 .*"no such text"/m,
    "$get--- shutdown_error_log\nno such text");
red('a line that the shutdown must not have', qr/^not ok 2 .*"exit"/m,
    "$get--- no_shutdown_error_log\nexit");


# nginx itself.

red('nginx that starts but must die', qr/^not ok 1 .*die as expected/m,
    "--- config\n--- must_die");
red('another exit code', qr/^not ok 1 .*exit code/m,
    "--- config\n    bad on;\n--- must_die: 2\n--- suppress_stderr");
red('another reason to die', qr/^ok 1 .*^not ok 2 .*"other"/ms,
    "--- config\n    bad on;\n--- must_die\n--- error_log\nother\n"
    . "--- suppress_stderr");
red('a configuration that does not load', qr/^Bail out!.*cannot start/m,
    "--- config\n    bad on;\n--- request\nGET /t");
red('a variable that is not there', qr/^Bail out!.*TEST_NGINX_NOT_THERE/m,
    "--- config\n    root \$TEST_NGINX_NOT_THERE;\n--- request\nGET /t");
red('a section that this runner does not know', qr/^Bail out!.*udp_listen/m,
    "$get--- udp_listen: 1\n--- udp_reply: x");


# The connection.

my $peer = "--- config\n    location = /t {\n"
    . "        proxy_pass http://127.0.0.1:\$TEST_NGINX_RAND_PORT_1;\n    }\n"
    . "--- request\nGET /t\n--- tcp_listen: \$TEST_NGINX_RAND_PORT_1\n";

red('a server that does not answer in time', qr/client socket timed out/,
    "$peer--- tcp_reply_delay: 5\n--- tcp_reply: x\n--- timeout: 0.3");
red('a query that did not come', qr/^not ok \d+ .*tcp_query ok/m,
    "$peer--- tcp_query eval\n\"GET /other\"\n"
    . "--- tcp_reply eval\n\"HTTP/1.0 200 OK\\r\\n\\r\\n\"");
red('a query of another length', qr/^not ok \d+ .*query length/m,
    "$peer--- tcp_query_len: 3\n"
    . "--- tcp_reply eval\n\"HTTP/1.0 200 OK\\r\\n\\r\\n\"");
red('a chunk that is too short', qr/^not ok \d+ .*invalid chunked data/m,
    "--- config\n--- request\nGET /t\n--- init\n"
    . "# the client talks to the peer\n"
    . "Test::Nginx::Util::server_port_for_client(\n"
    . "    \$ENV{TEST_NGINX_SERVER_PORT} + 1);\n"
    . "--- tcp_listen eval: \$ENV{TEST_NGINX_SERVER_PORT} + 1\n"
    . "--- tcp_reply eval\n\"HTTP/1.1 200 OK\\r\\n"
    . "Transfer-Encoding: chunked\\r\\n\\r\\n9\\r\\nabc\\r\\n\"");


# What TEST_NGINX_STRICT_LOG=1 adds.

my @strict = (TEST_NGINX_STRICT_LOG => 1);

my $crit = "--- config\n    location = /t {\n"
    . "        proxy_pass http://unix:/nowhere/x.sock;\n    }\n"
    . "--- request\nGET /t\n--- error_code: 502\n";

green('[crit] without strict logs', $crit);
red('[crit] with strict logs', qr/^not ok 2 .*unexpected line.*\[crit\]/m,
    $crit, @strict);
red('[crit] while another is expected', qr/^not ok \d .*unexpected line/m,
    "$crit--- grep_error_log: [crit] other\n--- grep_error_log_out\n",
    @strict);
red('[crit] that only a numeric plan would count', qr/^not ok 2 .*\[crit\]/m,
    $crit, @strict, plan => 'tests => 1');
green('[crit] that the block expects by its level',
      "$crit--- error_log\n[crit]", @strict);
green('[crit] that the block expects by its text',
      "$crit--- error_log eval: qr/connect\\(\\) to unix.*failed/", @strict);
red('[alert]', qr/^not ok 2 .*unexpected line.*\[alert\]/m,
    "$get--- init\nopen my \$out, '>>', \$Test::Nginx::Util::ErrLogFile;\n"
    . "print \$out \"x [alert] open socket left\\n\";\n", @strict);
green('[emerg] of a block that must die',
      "--- config\n    bad on;\n--- must_die\n--- suppress_stderr", @strict);

for my $text ('==1==ERROR: AddressSanitizer: heap-use-after-free',
              'x.c:1:2: runtime error: signed integer overflow',
              '==1==ERROR: LeakSanitizer: detected memory leaks')
{
    my $wrapper = "$root/nginx-wrapper";
    my $nginx = $ENV{TEST_NGINX_BINARY} || 'nginx';

    open my $out, '>', $wrapper or die;
    print $out "#!/bin/sh\n[ \"\$1\" = -V ] || echo '$text' >&2\n"
               . "exec $nginx \"\$\@\"\n";
    close $out;
    chmod 0755, $wrapper;

    my ($word) = $text =~ /(\w+Sanitizer|runtime error)/;

    red("$word on the standard error", qr/^not ok 2 .*stderr\.log.*$word/m,
        $get, @strict, TEST_NGINX_BINARY => $wrapper);
    red("$word in the error log", qr/^not ok 2 .*error\.log.*$word/m,
        "$get--- init\nopen my \$out, '>>', "
        . "\$Test::Nginx::Util::ErrLogFile;\nprint \$out \"$text\\n\";\n",
        @strict);
}


# What TEST_NGINX_CANARY_SCAN=1 adds.

my @scan = (TEST_NGINX_CANARY_SCAN => 1);

# A block which writes text into a file below the servroot.
sub leak {
    my ($path, $text) = @_;

    return "$get--- log_level: warn\n--- init\n"
        . "use File::Path (); use File::Basename ();\n"
        . "my \$file = \"\$ENV{TEST_NGINX_SERVER_ROOT}/$path\";\n"
        . "File::Path::make_path(File::Basename::dirname(\$file));\n"
        . "open my \$out, '>>', \$file or die;\n"
        . "print \$out pack 'H*', '" . unpack('H*', $text) . "';\n"
        . "close \$out;\n";
}

my %form = (
    'raw' => "x $canary y",
    'hex' => unpack('H*', "x $canary y"),
    'hex in capitals' => uc unpack('H*', $canary),
    'percent' => join('', map { sprintf '%%%02X', ord } split //, $canary),
    'partly percent' => $canary =~ s/^c/%63/r,
    (map { ("base64 at $_" => encode_base64('u' x $_ . ":$canary:p", '')) }
         0 .. 3),
);

for my $name (sort keys %form) {
    red("canary: $name", qr/^not ok 2 .*canary found in logs\/a\.log/m,
        leak('logs/a.log', $form{$name}), @scan);
}

green('canary without the scan', leak('logs/a.log', $canary));
green('a part of the canary', leak('logs/a.log', substr $canary, 0, 20),
      @scan);
green('the record of the upstream', leak('logs/upstream-1.log', $canary),
      @scan);
green('what the test itself has written', leak('html/a.log', $canary), @scan);
red('a temporary file', qr/^not ok 2 .*canary found in proxy_temp\/1\/x/m,
    leak('proxy_temp/1/x', $canary), @scan);

my $echo = "--- config\n    location = /t {\n        return 200 \$arg_k;\n"
    . "    }\n    access_log off;\n--- log_level: warn\n";

red('canary: a request line in the access log',
    qr/^not ok 2 .*canary found in logs\/access\.log/m,
    "--- config\n$plain\n--- log_level: warn\n--- request\n"
    . "GET /t?k=\$TEST_NGINX_CANARY", @scan);
red('canary: a header in the debug log',
    qr/^not ok 2 .*canary found in logs\/error\.log/m,
    "$get--- more_headers\nX-Key: \$TEST_NGINX_CANARY", @scan);
red('canary: a response', qr/^not ok 2 .*canary found in response 1/m,
    "$echo--- request\nGET /t?k=\$TEST_NGINX_CANARY", @scan);
red('canary: a response that is not looked at',
    qr/^not ok \d .*canary found in response 1/m,
    "$echo--- request\nGET /t?k=\$TEST_NGINX_CANARY\n--- ignore_response\n"
    . "--- no_error_log\n[error]", @scan);
green('canary: an answer that only says that it came',
      "--- config\n    location = /t {\n        access_log off;\n"
      . "        if (\$arg_k = \"\$TEST_NGINX_CANARY\") {\n"
      . "            return 200 \"ok\\n\";\n        }\n        return 403;\n"
      . "    }\n--- log_level: warn\n--- request\n"
      . "GET /t?k=\$TEST_NGINX_CANARY\n--- response_body\nok", @scan);

{
    my $half = substr $canary, 0, 15;
    my $rest = substr $canary, 15;

    red('canary: a response whose chunks divide it',
        qr/^not ok \d .*canary found in response/m,
        "$peer--- tcp_reply eval\n\"HTTP/1.1 200 OK\\r\\n"
        . "Transfer-Encoding: chunked\\r\\n\\r\\n"
        . sprintf('%x', length $half) . "\\r\\n$half\\r\\n"
        . sprintf('%x', length $rest) . "\\r\\n$rest\\r\\n0\\r\\n\\r\\n\"\n"
        . "--- log_level: warn", @scan);
}


# The last block is judged as those before it.

{
    my ($passed, $said) = outcome(
        "=== TEST 1: bad\n$crit\n\n\n=== TEST 2: good\n$get",
        @strict, setup => 'no_shuffle();');

    ok(!$passed && $said =~ /^not ok \d .*TEST 1: bad - unexpected/m,
       'red: a block before the last') or diag($said);

    ($passed, $said) = outcome(
        "=== TEST 1: good\n$get\n\n\n=== TEST 2: bad\n$crit",
        @strict, setup => 'no_shuffle();');

    ok(!$passed && $said =~ /^not ok \d .*TEST 2: bad - unexpected/m,
       'red: the last block') or diag($said);
}

done_testing();
