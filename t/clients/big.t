# A repository of 200 MB by git through the gateway, octet by octet what it was, and the worker does not grow by it.
#
#     prove t/clients/big.t
#
# EGRESS_MODULES: directory with the module (build/modules).  KEEP=1: leave the directory with logs and outputs.
# EGRESS_BIG_MB: another size.

use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";

use File::Path qw(remove_tree);
use Gateway;
use IO::Select;
use JSON::PP;
use MIME::Base64;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep);

my $lacks = Gateway::lacks();
plan skip_all => "needs $lacks" if $lacks;

$SIG{INT} = $SIG{TERM} = sub { exit 1 };
$SIG{PIPE} = 'IGNORE';

my $g = Gateway->start(files => 4);
END { local $?; $g->stop if $g }

my $dir = $g->{dir};
my $P = $g->{placeholder};
my $S = $g->{secret};
my $basic = 'Basic ' . encode_base64("x-access-token:$S", '');
my $mb = $ENV{EGRESS_BIG_MB} || 200;
my $repo = "$dir/standin/repos/octo/private.git";
my $url = "https://x-access-token:$P\@github.com/octo/private.git";


# --- the repository: nothing in it can be made smaller ------------------------------------------

sub repository {
    my ($size) = @_;

    open my $random, '<:raw', '/dev/urandom' or die "urandom: $!";
    open my $import, '|-', 'git', '-C', $repo, '-c', 'core.compression=0', '-c', 'safe.directory=*',
        '-c', "fastimport.unpackLimit=0", 'fast-import', '--quiet', '--force' or die "fast-import: $!";
    binmode $import;

    print $import "commit refs/heads/main\ncommitter Octo Cat <octo\@example.test> 1700000400 +0000\ndata 3\nbig\n",
        "from refs/heads/main^0\n";

    for my $n (1 .. $size / 10) {
        read $random, my $data, 10_000_000;
        print $import "M 100644 inline big/file-$n.bin\ndata ", length $data, "\n", $data, "\n";
    }

    print $import "\n";
    close $import or die 'fast-import failed';
}

repository($mb);

# the stand-in's user has to read it, and what is packed is sent as it is

system('chown', '-R', '--reference', "$dir/standin/repos", $repo) == 0 or die 'chown failed';

my (undef, $head) = $g->local_git('-C', $repo, 'rev-parse', 'refs/heads/main');
my (undef, $tree) = $g->local_git('-C', $repo, 'rev-parse', 'refs/heads/main^{tree}');
chomp($head, $tree);

cmp_ok((split ' ', `du -sk $repo`)[0], '>', $mb * 950, "a repository of $mb MB");


# --- the worker ---------------------------------------------------------------------------------

sub worker {
    my ($not) = @_;
    for (1 .. 200) {
        my ($pid) = grep { $_ != $not } split ' ', `pgrep -P $g->{nginx}`;
        return $pid if $pid;
        sleep 0.05;
    }
    return;
}

my $worker = worker(0);

sub rss { return (Gateway::slurp("/proc/$worker/status") =~ /^VmRSS:\s+(\d+)/m)[0] }

# the most that it had while something ran

sub watched {
    my (@git) = @_;

    my $before = rss();
    pipe my $stop, my $end or die "pipe: $!";
    pipe my $result, my $to or die "pipe: $!";

    my $pid = fork;
    die "fork: $!" unless defined $pid;

    if ($pid == 0) {
        close $end;
        my $most = $before;
        until (IO::Select->new($stop)->can_read(0.02)) {
            my $now = rss();
            $most = $now if $now > $most;
        }
        syswrite $to, "$most\n";
        POSIX::_exit(0);
    }

    close $to;
    my @got = $g->git(@git);
    close $end;
    chomp(my $most = <$result>);
    waitpid $pid, 0;

    return ($most - $before, @got);
}

# without the debug log, which would be larger than the repository

my $conf = Gateway::slurp("$dir/nginx.conf");
$conf =~ s/error\.log debug/error.log info/;
Gateway::spew("$dir/nginx.conf", $conf);
kill 'HUP', $g->{nginx};

$worker = worker($worker);
ok($worker, 'a worker that writes no debug log') or BAIL_OUT('no worker');


# --- clones -------------------------------------------------------------------------------------

# what a first connection needs, the others have

my ($rc, $out) = $g->git('ls-remote', $url);
is($rc, 0, 'git ls-remote') or diag($out);
like($out, qr/^\Q$head\E\s+refs\/heads\/main$/m, 'tells the new head');

my %protocol = ('HTTP/1.1' => 'HTTP/1.1', 'HTTP/2' => 'HTTP/2.0');

for my $version ('HTTP/1.1', 'HTTP/2') {
    my $to = "$dir/work/clone";
    $g->mark;

    (my $growth, $rc, $out) = watched('-c', "http.version=$version", 'clone', '-q', '--no-checkout', $url, $to);

    is($rc, 0, "$version: git clone") or diag($out);
    cmp_ok($growth, '<', 8192, "$version: the worker does not grow by it, in kB");

    ($rc, $out) = $g->local_git('-C', $to, 'rev-parse', 'HEAD', 'HEAD^{tree}');
    is($out, "$head\n$tree\n", "$version: the same commit and tree");

    # every octet of every object is in the name of it

    ($rc, $out) = $g->local_git('-C', $to, 'fsck', '--full', '--strict', '--no-dangling');
    is($rc, 0, "$version: git fsck") or diag($out);

    my ($ours, $theirs) = map { ($g->local_git('-C', $_, 'rev-list', '--objects', '--all', '--count'))[1] } $to, $repo;
    is($ours, $theirs, "$version: as many objects");

    my ($packed) = glob "$to/.git/objects/pack/*.pack";
    cmp_ok(-s $packed // 0, '>', $mb * 990_000, "$version: and the size of it");

    my @seen = $g->seen;
    cmp_ok(scalar @seen, '>=', 2, "$version: requests arrived");
    is((grep { $_->{authorization} ne '' && $_->{authorization} ne $basic } @seen), 0,
        "$version: with the token or with nothing");

    my @access = grep { m{POST /octo/private\.git/git-upload-pack } } split /^/, Gateway::slurp("$dir/logs/access.log");
    like($access[-1], qr{ \Q$protocol{$version}\E \|}, "$version: it was that version");

    remove_tree($to);
}

# --- the end ------------------------------------------------------------------------------------

my @done = grep { $_->{event} eq 'completion' && $_->{path} =~ /git-upload-pack$/ }
    map { JSON::PP->new->latin1->decode($_) } split /^/, Gateway::slurp("$dir/logs/egress.json");
my @big = grep { $_->{bytes_out} > $mb * 990_000 } @done;
is(scalar @big, 2, 'the records of both tell how much it was');
is(join(' ', map { "$_->{status} $_->{reason}" } @big), '200 allowed 200 allowed', 'and that it went well');

ok($g->stop_gateway, 'the gateway ends when told to');

my @files = grep { -f } glob("$dir/logs/*"), glob("$dir/out/*");
is(join("\n", Gateway::search(Gateway::shapes($S), @files)), '', 'no log and no output holds the secret');
is(join('', grep { /\[(alert|crit|emerg)\]/ } split /^/, Gateway::slurp("$dir/logs/error.log")), '', 'no alarms');

done_testing();
