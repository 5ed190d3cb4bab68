# git LFS through the gateway: pull, and what else reads, works; push, lock and unlock are refused. The stand-in's record
# decides: a read arrived with the real token, a write not at all.
#
#     prove t/clients/lfs.t           KEEP=1: leave the directory with logs and outputs

use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";

use Clients;
use Test::More;

my $lacks = Clients::lacks('git-lfs');
plan skip_all => "needs $lacks" if $lacks;

$SIG{INT} = $SIG{TERM} = sub { exit 1 };

# github.com keeps the objects on another host, which is passed through; git.example.test keeps them itself

my $g = Clients->start(
    services => { 'github.com' => 'git', 'git.example.test' => 'git', 'objects.example.test' => 'store' },
    allow => ['objects.example.test'],
    bindings => <<'CONF',
    binding github {
        include @PRESETS@/github.conf;
    }
    binding forge {
        host git.example.test { git on; }
    }
CONF
);
END { local $?; $g->stop if $g }

my $dir = $g->{dir};
my $P = $g->{placeholder};

my ($rc, $version) = $g->client({}, 'git-lfs', 'version');
note($version =~ /(.*)/);
($rc, my $out) = $g->git('lfs', 'install', '--skip-repo');
is($rc, 0, 'git lfs install') or diag($out);

my $object = "large object 1\n" x 2000;

sub content { my $file = shift; return -e $file ? Gateway::slurp($file) : 'no such file' }

for my $host ('github.com', 'git.example.test') {
    (my $name = $host) =~ s/\./\\./g;
    my $lfs = "$name/octo/private\\.git/info/lfs";
    my $url = "https://x-access-token:$P\@$host/octo/private.git";
    my $to = "$dir/work/$host";
    my @in = ('git', '-C', $to);
    my %from = $host eq 'github.com' ? (bare => ['GET objects\.example\.test:\d+/lfs/'])
        : (token => ["GET $lfs/objects/[0-9a-f]{64}"]);
    my @token = @{$from{token} || []};

    $g->reads("$host: clone", {}, ['git', 'clone', '-q', $url, $to], %from, token => ["POST $lfs/objects/batch download", @token]);
    is(content("$to/media/1.bin"), $object, "$host: clone: what the pointer stands for is there");

    $to = "$dir/work/later-$host";
    @in = ('git', '-C', $to);
    $g->reads("$host: clone without objects", { GIT_LFS_SKIP_SMUDGE => 1 }, ['git', 'clone', '-q', $url, $to]);
    like(content("$to/media/1.bin"), qr/^version /, "$host: pointers only");
    is((grep { $_->{uri} =~ /lfs/ } $g->seen), 0, "$host: no LFS request arrived");
    $g->reads("$host: git lfs fetch --all", {}, [@in, 'lfs', 'fetch', '--all'], %from,
        token => ["POST $lfs/objects/batch download", @token]);
    $g->reads("$host: git lfs pull", {}, [@in, 'lfs', 'pull']);
    is(content("$to/media/1.bin"), $object, "$host: git lfs pull: the object is there");
    $g->reads("$host: git lfs fsck", {}, [@in, 'lfs', 'fsck'], print => qr/OK/);

    $g->reads("$host: git lfs locks", {}, [@in, 'lfs', 'locks'], token => ["GET $lfs/locks"]);
    $g->reads("$host: git lfs locks --verify", {}, [@in, 'lfs', 'locks', '--verify'], token => ["POST $lfs/locks/verify"]);

    # writes; a push asks for locks first, which may arrive

    my $verify = ["POST $lfs/locks/verify", "POST $name/octo/private\\.git/git-upload-pack"];
    my @write = (reads => $verify, write => ['.*receive-pack', '.* upload$', 'PUT ']);

    $g->refused("$host: git lfs lock: refused", {}, [@in, 'lfs', 'lock', 'media/1.bin'], rc => 2, @write,
        print => qr/^Locking media\/1\.bin failed: .*write_refused/m);
    $g->refused("$host: git lfs unlock: refused", {}, [@in, 'lfs', 'unlock', '--force', '--id', '1'], rc => 2, @write,
        print => qr/write_refused/);

    Gateway::spew("$to/media/new.bin", "new for $host\n" x 1000);
    $g->client({}, @in, 'add', 'media/new.bin');
    ($rc, $out) = $g->client({}, @in, '-c', 'user.name=t', '-c', 'user.email=t@example.test', 'commit', '-q', '-m', 'Not wanted');
    is($rc, 0, "$host: a commit with a new object") or diag($out);

    $g->refused("$host: git lfs push: refused", {}, [@in, 'lfs', 'push', 'origin', 'main'], rc => 2, @write,
        token => ["POST $lfs/locks/verify"], print => qr/batch response: .*write_refused/);
    $g->refused("$host: git lfs push --all: refused", {}, [@in, 'lfs', 'push', '--all', 'origin'], rc => 2, @write,
        print => qr/batch response: .*write_refused/);
    $g->refused("$host: git push: refused", {}, [@in, 'push', 'origin', 'main'], rc => 128, @write,
        print => qr/^remote: .*write_refused/m);

    # what lies there already need not be sent, but this is no way to ask

    $g->refused("$host: git lfs push of what is there: refused", {},
        [@in, 'lfs', 'push', '--object-id', 'origin', (split ' ', `sha256sum $to/media/1.bin`)[0]], rc => 2, @write,
        print => qr/batch response: .*write_refused/);
}

is((grep { $_->{method} eq 'PUT' } do { $g->{mark} = 0; $g->seen }), 0, 'no object arrived anywhere');

$g->finish;
done_testing();
