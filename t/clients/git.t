# git by CONNECT through the gateway: each protocol, shallow and partial clones, a fetch of 3,000 objects, archives, and
# pushes, which are refused. The octets of HTTP/1.1 and 2, and the forms of a credential, are in github.t.
#
#     prove t/clients/git.t           KEEP=1: leave the directory with logs and outputs

use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";

use Clients;
use MIME::Base64;
use Test::More;

my $lacks = Clients::lacks('curl');
plan skip_all => "needs $lacks" if $lacks;

$SIG{INT} = $SIG{TERM} = sub { exit 1 };

my $g = Clients->start(
    services => { 'github.com' => 'git', 'git.example.test' => 'git' },
    env => { STANDIN_FILES => 3000 },
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
my $repo = "$dir/standin/repos/octo/private.git";
my $clones = 0;

my ($rc, $version) = $g->git('--version');
note($version =~ /(.*)/);
my ($major, $minor) = $version =~ /(\d+)\.(\d+)/;

my (undef, $refs) = $g->local_git("--git-dir=$repo", 'for-each-ref');
my (undef, $head) = $g->local_git("--git-dir=$repo", 'rev-parse', 'refs/heads/main');

sub url { my $host = shift; return "https://x-access-token:$P\@$host/octo/private.git" }

# a clone that is whole: the same head, and every object good

sub whole {
    my ($name, $clone) = @_;
    my ($rc, $out) = $g->local_git('-C', $clone, 'rev-parse', 'HEAD');
    is($out, $head, "$name: the same HEAD");
    ($rc, $out) = $g->local_git('-C', $clone, 'fsck', '--full', '--strict');
    is($rc, 0, "$name: git fsck") or diag($out);
}

for my $host ('github.com', 'git.example.test') {
    (my $name = $host) =~ s/\./\\./g;
    my $discovery = "GET $name/octo/private\\.git/info/refs\\?service=git-upload-pack";
    my $pack = "POST $name/octo/private\\.git/git-upload-pack";

    $g->reads("$host: ls-remote", {}, ['git', 'ls-remote', url($host)], print => qr{refs/tags/v1}, token => [$discovery],
        bare => [$discovery]);

    for my $v (0, 1, 2) {
        my $to = "$dir/work/clone-" . ++$clones;
        $g->reads("$host: clone, protocol $v", {}, ['git', '-c', "protocol.version=$v", 'clone', '-q', '--single-branch', '-b', 'main', url($host), $to],
            token => [$discovery, $pack], bare => [$discovery]);
        is((grep { $_->{git_protocol} eq ($v ? "version=$v" : '') } $g->seen), scalar $g->seen, "$host, $v: so git asked");
        whole("$host: clone, protocol $v", $to);
    }

    my $to = "$dir/work/shallow-$host";
    $g->reads("$host: shallow clone", {}, ['git', 'clone', '-q', '--depth', 1, url($host), $to], token => [$pack]);
    my (undef, $count) = $g->local_git('-C', $to, 'rev-list', '--count', 'HEAD');
    is($count, "1\n", "$host: shallow clone: one commit");
    $g->reads("$host: deepen", {}, ['git', '-C', $to, 'fetch', '-q', '--unshallow'], token => [$pack]);
    whole("$host: deepened", $to);

    # a partial clone asks for blobs by name at the checkout, here for 3,000

    for my $how (['gzip'], $host eq 'github.com' ? ['chunked', '-c', 'http.postBuffer=66000'] : ()) {
        my ($kind, @how) = @$how;
        $to = "$dir/work/partial-$host-$kind";
        $g->reads("$host: partial clone, $kind", {},
            ['git', 'clone', '-q', '--filter=blob:none', '--no-checkout', '-b', 'many', url($host), $to], token => [$pack]);
        $g->reads("$host: fetch of 3,000 objects, $kind", {}, ['git', @how, '-C', $to, 'checkout', '-q', 'many'], token => [$pack]);
        my ($largest) = sort { $b <=> $a } map { $_->{received} } $g->seen;
        cmp_ok($largest, '>', $kind eq 'gzip' ? 50_000 : 140_000, "$host: $kind: a body with all of their names arrived");
        is((grep { $_->{content_encoding} eq 'gzip' && $_->{received} > 50_000 } $g->seen), $kind eq 'gzip' ? 1 : 0,
            "$host: $kind: compressed or not, as git sent it");
        is(scalar(() = glob "$to/many/*/*.txt"), 3000, "$host: $kind: the files are there");
    }

    $to = "$dir/work/clone-$clones";
    $g->reads("$host: fetch of a branch", {}, ['git', '-C', $to, 'fetch', '-q', 'origin', 'topic:topic'], token => [$discovery]);
    $g->reads("$host: pull", {}, ['git', '-C', $to, 'pull', '-q', '--ff-only'], token => [$discovery]);
    $g->reads("$host: remote show", {}, ['git', '-C', $to, 'remote', 'show', 'origin'], print => qr/HEAD branch: main/,
        token => [$discovery]);

    # writes

    my @commit = ('-c', 'user.name=t', '-c', 'user.email=t@example.test', 'commit', '-q', '--allow-empty', '-m', 'Not wanted');
    $g->local_git('-C', $to, @commit);
    my @pushes = (['push', 'origin', 'main'], ['push', '--mirror', 'origin']);
    push @pushes, ['push', '--dry-run', 'origin', 'main'], ['push', '--force', 'origin', 'HEAD:v2'],
        ['push', 'origin', ':topic'], ['push', 'origin', '--tags'] if $host eq 'github.com';
    for my $push (@pushes) {
        $g->refused("$host: @$push: refused", {}, ['git', '-C', $to, @$push], rc => 128, write => ['.*receive-pack'],
            print => qr/^remote: .*write_refused.*\n^fatal: unable to access .* The requested URL returned error: 403/m);
    }
}

# an archive: git asks a server for one by HTTP since 2.44 only

my @archive = ('git', 'archive', "--remote=https://x-access-token:$P\@github.com/octo/private.git", '-o', "$dir/work/a.tar", 'main');

SKIP: {
    if ($major * 1000 + $minor < 2044) {
        my ($rc, $out) = $g->client({}, @archive);
        is($rc, 128, 'git archive --remote: this git has no such request');
        like($out, qr/operation not supported by protocol/, 'and says so');
        skip 'git archive --remote needs git 2.44', 1;
    }
    $g->reads('git archive --remote', {}, \@archive, token => ['POST github\.com/octo/private\.git/git-upload-archive']);
}

$g->reads('an archive by its address', {}, ['curl', '-q', '-sS', '-f', '-u', "x-access-token:$P", '-o', "$dir/work/main.tar.gz",
    'https://github.com/octo/private/archive/main.tar.gz'], token => ['GET github\.com/octo/private/archive/main\.tar\.gz']);
my $listing = `tar -tzf $dir/work/main.tar.gz`;
is(scalar(() = $listing =~ /\.txt$/mg), 20, 'an archive by its address: all files are in it');

my (undef, $now) = $g->local_git("--git-dir=$repo", 'for-each-ref');
is($now, $refs, 'the repository is as it was');

$g->finish;
done_testing();
