# the parsers of src/inspect over the test vectors in t/data/vectors

use strict;
use warnings;

use FindBin ();
use Test::More;

my $T = $FindBin::Bin;
my $build = ($ENV{EGRESS_BUILD} || 'build') . '/unit';
my $nginx = $ENV{EGRESS_NGINX_SRC} || 'build/nginx';

my @kinds = qw(hosts targets overrides authorization git lfs
               clienthello connect socks5 addresses redact
               graphql_document graphql jsonrpc bodies);

plan tests => 1 + @kinds;

my $log = qx("$T/unit/build.sh" "$build" "$nginx" 2>&1);
my $built = ok($? == 0, 'the harness builds') || diag($log) && 0;

for my $kind (@kinds) {
    my $file = "$T/data/vectors/$kind.jsonl";

    if (!$built) {
        fail("$kind: no harness");
        next;
    }

    open my $in, '<', $file or die "$file: $!";
    my $lines = grep { /\S/ } <$in>;
    close $in;

    my @tap = qx("$build/vectors" $kind "$file");
    my $status = $?;

    chomp @tap;

    my ($plan) = map { /^1\.\.(\d+)$/ ? $1 : () } @tap;
    my @failed = grep { /^not ok / } @tap;
    my $skipped = grep { /^ok .*# SKIP / } @tap;
    my $passed = grep { /^ok / && !/# SKIP / } @tap;

    # a harness that dies halfway or reads no lines has passed nothing

    ok($status == 0 && !@failed && $passed && ($plan // 0) == $lines
       && $passed + $skipped == $lines, "vectors of $kind");

    note("$kind: $passed passed, $skipped skipped, " . @failed . ' failed');
    diag($_) for @failed;
    diag("$kind: exit status $status") if $status && !@failed;
}
