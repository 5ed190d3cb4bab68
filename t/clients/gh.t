# gh through the gateway: everything that reads works, everything that writes is refused and says why. The stand-in's
# record decides: a read arrived with the real token, a write not at all.
#
#     prove t/clients/gh.t            KEEP=1: leave the directory with logs and outputs

use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";

use Clients;
use JSON::PP;
use Test::More;

my $lacks = Clients::lacks('gh');
plan skip_all => "needs $lacks" if $lacks;

$SIG{INT} = $SIG{TERM} = sub { exit 1 };

my $g = Clients->start(
    services => {
        'github.com' => 'git', 'api.github.com' => 'api', 'uploads.github.com' => 'api', 'objects.example.test' => 'store',
        'codeload.github.com' => 'store',
    },
    allow => ['objects.example.test'],
    bindings => <<'CONF',
    binding github {
        include @PRESETS@/github.conf;
    }
    binding github-downloads { # bare
        include @PRESETS@/github-downloads.conf;
    }
CONF
);
END { local $?; $g->stop if $g }

my $dir = $g->{dir};
my $P = $g->{placeholder};
my %env = (GH_TOKEN => $P, GH_PROMPT_DISABLED => 1, PAGER => 'cat');
my @R = ('-R', 'octo/private');
my $api = 'api\.github\.com';
my $query = "POST $api/graphql";

sub gh { my ($args, %want) = @_; $g->reads("gh @$args", \%env, ['gh', @$args], %want) }
sub no_gh { my ($args, %want) = @_; $g->refused("gh @$args: refused", \%env, ['gh', @$args], %want) }

my ($rc, $version) = $g->client({}, 'gh', '--version');
note($version =~ /(.*)/);


# --- reads --------------------------------------------------------------------------------------

gh(['auth', 'status'], print => qr/Logged in to github\.com as octocat/, token => ["GET $api/", "$query UserCurrent"]);
gh(['api', 'user'], print => qr/"login":\s*"octocat"/, token => ["GET $api/user"]);
gh(['api', 'user', '-q', '.login'], print => qr/^octocat$/);
gh(['api', '-X', 'GET', 'search/issues', '-f', 'q=repo:octo/private is:open'], print => qr/Issue 1/,
    token => ["GET $api/search/issues\\?q=repo%3Aocto%2Fprivate"]);
gh(['api', '--paginate', 'repos/octo/private/issues'], print => qr/Issue 1.*Issue 2/s,
    token => ["GET $api/repos/octo/private/issues\\?per_page=100\$", "GET $api/repos/octo/private/issues\\?page=2"]);
gh(['api', 'graphql', '-f', 'query=query UserCurrent { viewer { login } }'], print => qr/octocat/, token => ["$query UserCurrent"]);
gh(['api', 'graphql', '-F', 'number=3', '-f', 'query=query IssueByNumber($number: Int!) { repository(owner: "octo", name: '
    . '"private") { issue(number: $number) { title } } } # mutation'], print => qr/Number 3/);

gh(['repo', 'view', 'octo/private'], print => qr/octo\/private.*A private repository\./s, token => ["$query RepositoryInfo"]);
gh(['repo', 'view', 'octo/private', '--json', 'name,owner,defaultBranchRef'], print => qr/"name":"main"/);
gh(['repo', 'list', 'octo'], print => qr/octo\/private/, token => ["$query RepositoryList"]);

gh(['pr', 'list', @R], print => qr/^1\tNumber 1\ttopic\t/m, token => ["$query PullRequestList"]);
gh(['pr', 'list', @R, '--json', 'number,title,headRefName'], print => qr/"headRefName":"topic"/);
gh(['pr', 'view', '1', @R], print => qr/title:\tNumber 1.*Text 1/s, token => ["$query PullRequestByNumber"]);
gh(['pr', 'view', '1', @R, '--comments'], rc => 0);
gh(['issue', 'list', @R], print => qr/^3\tOPEN\tNumber 3/m, token => ["$query IssueList"]);
gh(['issue', 'view', '3', @R], print => qr/title:\tNumber 3/, token => ["$query IssueByNumber"]);
gh(['label', 'list', @R], rc => 0);

gh(['run', 'list', @R], print => qr/completed\tsuccess\tA run\tbuild\tmain/, token => ["GET $api/repos/octo/private/actions/runs\\?"]);
gh(['run', 'view', '7', @R], print => qr/main build/);
gh(['workflow', 'list', @R], print => qr/build\tactive/);

gh(['release', 'list', @R], print => qr/Release one\tLatest\tv1/);
gh(['release', 'view', 'v1', @R], print => qr/tag:\tv1/);
gh(['release', 'download', 'v1', @R, '-D', "$dir/work/release"],
    token => ["GET $api/repos/octo/private/releases/assets/5"], bare => ['GET objects\.example\.test:\d+/releases/kit\.bin']);
is(-s "$dir/work/release/kit.bin", 21_000, 'gh release download: the asset is there, from a host without a binding');

# gh shows its credential to codeload.github.com too, which does not like to see one beside a signature

gh(['release', 'download', 'v1', @R, '--archive', 'tar.gz', '-D', "$dir/work/release"],
    token => ["GET $api/repos/octo/private/tarball/v1"], bare => ['GET codeload\.github\.com/octo/private/(legacy\.)?tar\.gz/v1']);
like(join(' ', glob "$dir/work/release/*.tar.gz"), qr/private-v1\.tar\.gz/, 'gh release download --archive: the archive is there');

gh(['search', 'repos', 'private', '--owner', 'octo'], print => qr/octo\/private/, token => ["GET $api/search/repositories"]);
gh(['search', 'issues', 'one', '--repo', 'octo/private'], print => qr/Issue 1/);
gh(['search', 'prs', 'one', '--repo', 'octo/private'], print => qr/Issue 1/);


# --- git by gh ----------------------------------------------------------------------------------

($rc, my $out) = $g->client(\%env, 'gh', 'auth', 'setup-git', '-h', 'github.com');
is($rc, 0, 'gh auth setup-git') or diag($out);

gh(['repo', 'clone', 'octo/private', "$dir/work/clone"],
    token => ["$query RepositoryInfo", 'POST github\.com/octo/private\.git/git-upload-pack']);
ok(-s "$dir/work/clone/README.md", 'gh repo clone: the files are there');

{
    my @repo = ('git', '-C', "$dir/work/clone", '-c', 'user.name=t', '-c', 'user.email=t@example.test');
    $g->local_git(@repo[1 .. $#repo], 'checkout', '-q', '-b', 'wanted');
    $g->local_git(@repo[1 .. $#repo], 'commit', '-q', '--allow-empty', '-m', 'Not wanted');
    $g->refused('git push with the credentials of gh: refused', \%env, [@repo, 'push', 'origin', 'wanted'], rc => 128,
        print => qr/^remote: .*write_refused.*github/m, write => ['.*receive-pack']);
}


# --- writes -------------------------------------------------------------------------------------

sub no_query { my ($args, %want) = @_; no_gh($args, rc => 1, %want) }

my @pr = ('pr', 'create', @R, '--title', 'T', '--body', 'B', '--head', 'topic', '--base', 'main');
no_query(\@pr, print => qr/pull request create failed: HTTP 403: .*write_refused.* \(https:\/\/api\.github\.com\/graphql\)/,
    token => ["$query RepositoryInfo", "$query PullRequestForBranch"]);
no_query(['issue', 'create', @R, '--title', 'T', '--body', 'B'], print => qr/HTTP 403: .*write_refused/);
no_query(['issue', 'close', '3', @R], print => qr/write_refused/);
no_query(['issue', 'comment', '3', @R, '--body', 'B'], print => qr/write_refused/);
no_query(['pr', 'merge', '1', @R, '--merge'], print => qr/write_refused/);
no_query(['api', 'graphql', '-f', 'query=mutation IssueClose { closeIssue(input: {issueId: "x"}) { clientMutationId } }'],
    print => qr/^gh: .*write_refused.* \(HTTP 403\)$/m);
no_query(['api', 'graphql', '-f', 'query=query UserCurrent { viewer { login } } mutation IssueClose { closeIssue(input: '
    . '{issueId: "x"}) { clientMutationId } }', '-f', 'operationName=UserCurrent'], print => qr/write_refused/);

my @rest = (rc => 1, print => qr/^gh: .*write_refused.* \(HTTP 403\)$/m);
no_gh(['api', '-X', 'POST', 'repos/octo/private/issues', '-f', 'title=x'], @rest);
no_gh(['api', 'repos/octo/private/issues', '-f', 'title=x'], @rest);
no_gh(['api', '-X', 'DELETE', 'repos/octo/private'], @rest);
no_gh(['api', '-X', 'PUT', 'user/starred/octo/private'], @rest);
no_gh(['api', '-X', 'PATCH', 'repos/octo/private', '-f', 'private=false'], @rest);
no_gh(['workflow', 'run', '3', @R], rc => 1, print => qr/write_refused/);
no_gh(['run', 'rerun', '7', @R], rc => 1);
no_gh(['label', 'create', 'new', @R], rc => 1, print => qr/write_refused/);
no_gh(['repo', 'delete', 'octo/private', '--confirm'], rc => 1, print => qr/write_refused/);
no_gh(['gist', 'create', "$dir/placeholder"], rc => 1, print => qr/write_refused/);

Gateway::spew("$dir/work/up.bin", 'x' x 1000);
no_gh(['release', 'upload', 'v1', "$dir/work/up.bin", @R], rc => 1,
    print => qr/HTTP 403: .*write_refused.* \(https:\/\/uploads\.github\.com\//);
no_gh(['release', 'create', 'v2', @R, '--title', 'T', '--notes', 'N'], rc => 1, print => qr/write_refused/);
no_gh(['release', 'delete', 'v1', @R, '--yes'], rc => 1, print => qr/write_refused/);


# --- a token of nobody --------------------------------------------------------------------------

($rc, $out) = $g->client({%env, GH_TOKEN => Gateway::random_token('ghp_')}, 'gh', 'api', 'user');
is($rc, 1, 'gh with another token fails');
like($out, qr/gh: Requires authentication \(HTTP 401\)$/m, 'and prints what the service said');

$g->finish;
done_testing();
