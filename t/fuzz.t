# the fuzz targets over their seeds and a fixed number of runs

use strict;
use warnings;

use File::Temp ();
use FindBin ();
use Test::More;

my $T = $FindBin::Bin;
my $build = ($ENV{EGRESS_BUILD} || 'build') . '/fuzz';
my $nginx = $ENV{EGRESS_NGINX_SRC} || 'build/nginx';
my $clang = $ENV{CLANG} || 'clang';
my $runs = $ENV{EGRESS_FUZZ_RUNS} || 20000;

my @targets = qw(host target authorization git
                 client_hello connect socks5 address redact
                 graphql body);

# octets of an input; that of a hello with post-quantum keys is longer, and
# that of a text to mask, whose octets may stand for many, is shorter

my %longest = (client_hello => 4096, redact => 512);

my $dir = File::Temp->newdir();

# clang alone is not enough: its fuzzer runtime may be missing

{
    open my $out, '>', "$dir/probe.c" or die "$dir/probe.c: $!";
    print $out "int LLVMFuzzerTestOneInput(const unsigned char *p,",
               " unsigned long n);\n",
               "int LLVMFuzzerTestOneInput(const unsigned char *p,",
               " unsigned long n)\n{ return 0; }\n";
    close $out or die "$dir/probe.c: $!";

    my $log = qx($clang -fsanitize=fuzzer,address,undefined -o "$dir/probe" \\
                 "$dir/probe.c" 2>&1);

    plan skip_all => 'no clang with a fuzzer runtime' if $?;
}

plan tests => 1 + @targets;

my $log = qx("$T/fuzz/build.sh" "$build" "$nginx" 2>&1);
my $built = ok($? == 0, 'the fuzz targets build') || diag($log) && 0;

for my $target (@targets) {

    if (!$built) {
        fail("$target: no fuzz target");
        next;
    }

    # seeds count as runs; what is found goes into the first folder

    my @seeds = glob "$T/fuzz/seeds/$target/*";
    my $all = $runs + @seeds;
    my $longest = $longest{$target} || 2048;

    mkdir "$dir/$target" or die "$dir/$target: $!";

    my $log = qx("$build/fuzz_$target" -runs=$all -seed=1 -max_len=$longest \\
                 -timeout=20 -artifact_prefix="$build/$target-" \\
                 "$dir/$target" "$T/fuzz/seeds/$target" 2>&1);
    my $status = $?;

    ok($status == 0 && @seeds && $log =~ /^Done \d+ runs/m,
       "$target: " . @seeds . " seeds and $runs runs");

    diag(join '', grep defined, (split /^/, $log)[-60 .. -1]) if $status;
}
