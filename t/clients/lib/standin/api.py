"""GitHub's API: as much of REST and GraphQL as gh asks for, and the uploads host. Writes would be done."""

import re

import store
from serve import reply

REPO = 'octo/private'
OWNER = {'id': 'O_1', 'login': 'octo', 'name': 'Octo', 'type': 'Organization'}
WHEN = '2024-01-01T00:00:00Z'
ASSET = b'what the asset holds\n' * 1000


def prepare(state):
    store.files['/releases/kit.bin'] = ASSET


def answer(q):
    if not q.known:
        return reply(401, {'message': 'Requires authentication'})
    if q.host == 'uploads.github.com':
        return reply(201, asset(q, 6, q.args.get('name') or 'x'))
    if q.path == '/graphql':
        return graphql(q)
    for method, pattern, do in ROUTES:
        m = re.fullmatch(pattern, q.path)
        if m and q.method in method.split(','):
            return do(q, *m.groups())
    if q.method in ('GET', 'HEAD'):
        return reply(404, {'message': 'Not Found'})
    return reply(204 if q.method in ('PUT', 'DELETE') else 201, None if q.method in ('PUT', 'DELETE') else issue(9))


# --- REST ---------------------------------------------------------------------------------------

def repository():
    return {'id': 1, 'node_id': 'R_1', 'name': 'private', 'full_name': REPO, 'owner': OWNER, 'private': True, 'fork': False,
            'html_url': 'https://github.com/' + REPO, 'clone_url': 'https://github.com/%s.git' % REPO,
            'description': 'a private repository', 'default_branch': 'main', 'visibility': 'private', 'updated_at': WHEN}


def issue(n):
    return {'id': n, 'number': n, 'title': 'Issue %d' % n, 'state': 'open', 'user': OWNER, 'labels': [], 'body': '',
            'html_url': 'https://github.com/%s/issues/%d' % (REPO, n), 'created_at': WHEN, 'updated_at': WHEN,
            'repository_url': 'https://api.github.com/repos/' + REPO, 'comments': 0, 'author_association': 'OWNER'}


def asset(q, n, name):
    return {'id': n, 'name': name, 'size': len(ASSET), 'state': 'uploaded',
            'url': 'https://api.github.com/repos/%s/releases/assets/%d' % (REPO, n),
            'browser_download_url': 'https://github.com/%s/releases/download/v1/%s' % (REPO, name)}


def release(q):
    return {'id': 1, 'tag_name': 'v1', 'name': 'Release one', 'draft': False, 'prerelease': False, 'body': 'Notes',
            'author': OWNER, 'created_at': WHEN, 'published_at': WHEN, 'assets': [asset(q, 5, 'kit.bin')],
            'url': 'https://api.github.com/repos/%s/releases/1' % REPO, 'html_url': 'https://github.com/%s/releases/v1' % REPO,
            'upload_url': 'https://uploads.github.com/repos/%s/releases/1/assets{?name,label}' % REPO,
            'tarball_url': 'https://api.github.com/repos/%s/tarball/v1' % REPO}


def run():
    return {'id': 7, 'name': 'build', 'display_title': 'A run', 'head_branch': 'main', 'head_sha': 'a' * 40, 'event': 'push',
            'status': 'completed', 'conclusion': 'success', 'workflow_id': 3, 'number': 1, 'run_attempt': 1,
            'html_url': 'https://github.com/%s/actions/runs/7' % REPO, 'created_at': WHEN, 'updated_at': WHEN,
            'run_started_at': WHEN, 'head_commit': {'id': 'a' * 40, 'message': 'A run'}, 'head_repository': repository(),
            'jobs_url': 'https://api.github.com/repos/%s/actions/runs/7/jobs' % REPO}


def workflow():
    return {'id': 3, 'name': 'build', 'path': '.github/workflows/build.yml', 'state': 'active'}


def found(*items):
    return {'total_count': len(items), 'incomplete_results': False, 'items': list(items)}


def pages(q):
    """Two pages of issues, the second told by Link."""

    n = int(q.args.get('page') or 1)
    more = {'Link': '<https://api.github.com/repos/%s/issues?page=2>; rel="next"' % REPO} if n == 1 else {}
    return reply(200, [issue(n)], **more)


def redirect(q):
    place = 'https://%s:%d/releases/kit.bin?X-Signature=abc' % ('objects.example.test', q.state.port)
    return reply(302, '', Location=place)


def tarball(q):
    return reply(302, '', Location='https://codeload.github.com/octo/private/legacy.tar.gz/v1')


ROUTES = (
    ('GET,HEAD', r'/', lambda q: reply(200, {}, X_OAuth_Scopes='repo, read:org')),
    ('GET,HEAD', r'/user', lambda q: reply(200, {'login': 'octocat', 'id': 1, 'type': 'User'}, X_OAuth_Scopes='repo')),
    ('GET,HEAD', r'/repos/octo/private', lambda q: reply(200, repository())),
    ('GET', r'/repos/octo/private/readme', lambda q: reply(200, {
        'name': 'README.md', 'encoding': 'base64', 'content': 'QSBwcml2YXRlIHJlcG9zaXRvcnku\n', 'html_url': 'x'})),
    ('GET', r'/repos/octo/private/issues', pages),
    ('GET', r'/repos/octo/private/labels', lambda q: reply(200, [])),
    ('GET', r'/repos/octo/private/releases/(?:tags/v1|latest|1)', lambda q: reply(200, release(q))),
    ('GET', r'/repos/octo/private/releases', lambda q: reply(200, [release(q)])),
    ('GET', r'/repos/octo/private/releases/assets/5', redirect),
    ('GET', r'/repos/octo/private/tarball/v1', tarball),
    ('GET', r'/repos/octo/private/actions/runs', lambda q: reply(200, {'total_count': 1, 'workflow_runs': [run()]})),
    ('GET', r'/repos/octo/private/actions/runs/7', lambda q: reply(200, run())),
    ('GET', r'/repos/octo/private/actions/runs/7/jobs', lambda q: reply(200, {'total_count': 0, 'jobs': []})),
    ('GET', r'/repos/octo/private/actions/runs/7/artifacts', lambda q: reply(200, {'total_count': 0, 'artifacts': []})),
    ('GET', r'/repos/octo/private/actions/workflows', lambda q: reply(200, {'total_count': 1, 'workflows': [workflow()]})),
    ('GET', r'/repos/octo/private/actions/workflows/3', lambda q: reply(200, workflow())),
    ('GET', r'/search/repositories', lambda q: reply(200, found(repository()))),
    ('GET', r'/search/issues', lambda q: reply(200, found(issue(1)))),
    ('GET', r'/search/commits', lambda q: reply(200, found())),
)


# --- GraphQL ------------------------------------------------------------------------------------

def graphql(q):
    body = q.json() if q.method == 'POST' else {'query': q.args.get('query') or ''}
    document = body.get('query') or ''
    m = re.search(r'\b(query|mutation)\b\s*(\w*)', document)
    kind, name = m.groups() if m else ('query', '')
    q.note.update(operation=name or kind, writes=bool(re.search(r'\bmutation\b', document)))
    if name in QUERIES:
        return reply(200, {'data': QUERIES[name](body.get('variables') or {})})
    return reply(200, {'errors': [{'type': 'UNKNOWN', 'message': 'the stand-in knows no %s %s' % (kind, name)}]})


def node(n):
    return {'id': 'I_%d' % n, 'number': n, 'title': 'Number %d' % n, 'state': 'OPEN', 'body': 'Text %d' % n,
            'url': 'https://github.com/%s/pull/%d' % (REPO, n), 'createdAt': WHEN, 'updatedAt': WHEN,
            'author': {'login': 'octocat'}, 'authorAssociation': 'OWNER', 'labels': {'nodes': [], 'totalCount': 0},
            'assignees': {'nodes': [], 'totalCount': 0}, 'comments': {'nodes': [], 'totalCount': 0, 'pageInfo': NO_MORE},
            'reactionGroups': [], 'milestone': None, 'projectCards': {'nodes': [], 'totalCount': 0},
            'projectItems': {'nodes': [], 'totalCount': 0, 'pageInfo': NO_MORE}}


NO_MORE = {'hasNextPage': False, 'endCursor': ''}


def pull(n):
    return dict(node(n), headRefName='topic', baseRefName='main', headRefOid='a' * 40, isDraft=False, isCrossRepository=False,
                headRepositoryOwner={'id': 'O_1', 'login': 'octo'}, headRepository={'id': 'R_1', 'name': 'private'},
                mergeable='MERGEABLE', mergeStateStatus='CLEAN', additions=1, deletions=0, changedFiles=1,
                maintainerCanModify=False, reviewDecision='', reviewRequests={'nodes': [], 'totalCount': 0},
                reviews={'nodes': [], 'totalCount': 0, 'pageInfo': NO_MORE}, latestReviews={'nodes': []},
                commits={'totalCount': 1, 'nodes': []}, statusCheckRollup={'nodes': []}, autoMergeRequest=None)


def many(*nodes):
    return {'totalCount': len(nodes), 'nodes': list(nodes), 'pageInfo': NO_MORE}


def info(_):
    return {'repository': {
        'id': 'R_1', 'name': 'private', 'nameWithOwner': REPO, 'owner': {'id': 'O_1', 'login': 'octo'},
        'hasIssuesEnabled': True, 'hasWikiEnabled': False, 'description': 'a private repository', 'homepageUrl': '',
        'viewerPermission': 'ADMIN', 'defaultBranchRef': {'name': 'main'}, 'parent': None, 'isPrivate': True,
        'mergeCommitAllowed': True, 'rebaseMergeAllowed': True, 'squashMergeAllowed': True, 'isEmpty': False,
        'url': 'https://github.com/' + REPO, 'visibility': 'PRIVATE', 'stargazerCount': 0, 'forkCount': 0,
        'isArchived': False, 'isFork': False, 'issueTemplates': [], 'pullRequestTemplates': []}}


def repo(**fields):
    return {'repository': fields}


def fields(*names):
    return {'fields': [{'name': n} for n in names]}


QUERIES = {
    'UserCurrent': lambda v: {'viewer': {'login': 'octocat'}},
    'RepositoryInfo': info,
    'IssueRepositoryInfo': info,
    'RepositoryNetwork': lambda v: {'viewer': {'login': 'octocat'}, 'repo_000': info(v)['repository']},
    'PullRequestList': lambda v: repo(pullRequests=many(pull(1), pull(2))),
    'PullRequestForBranch': lambda v: repo(pullRequests=many(), defaultBranchRef={'name': 'main'}),
    'PullRequestByNumber': lambda v: repo(pullRequest=pull(v.get('pr_number') or 1)),
    'PullRequestProjectItems': lambda v: repo(pullRequest={'projectItems': many()}),
    'IssueProjectItems': lambda v: repo(issue={'projectItems': many()}),
    'CommentsForIssue': lambda v: {'node': {'comments': many()}},
    'CommentsForPullRequest': lambda v: {'node': {'comments': many()}},
    'PullRequestTemplates': lambda v: repo(pullRequestTemplates=[]),
    'IssueTemplates': lambda v: repo(issueTemplates=[]),
    'PullRequest_fields': lambda v: {'PullRequest': fields('number', 'title')},
    'Repository_fields': lambda v: {'Repository': fields('pullRequestTemplates', 'visibility', 'autoMergeAllowed')},
    'Issue_fields': lambda v: {'Issue': fields('stateReason')},
    'IssueList': lambda v: repo(hasIssuesEnabled=True, issues=many(node(3), node(4))),
    'IssueByNumber': lambda v: repo(hasIssuesEnabled=True, issue=dict(node(3), __typename='Issue')),
    'RepositoryReleaseList': lambda v: repo(releases={'pageInfo': NO_MORE, 'nodes': [{
        'name': 'Release one', 'tagName': 'v1', 'isDraft': False, 'isLatest': True, 'isPrerelease': False,
        'createdAt': WHEN, 'publishedAt': WHEN}]}),
    'PullRequestForRun': lambda v: repo(pullRequests=many()),
    'RepositoryReleaseByTag': lambda v: repo(release=None),
    'RepositoryList': lambda v: {'repositoryOwner': {'login': 'octo', 'repositories': many(info(v)['repository'])}},
    'LabelList': lambda v: repo(labels=many()),
    'PullRequestCreate': lambda v: {'createPullRequest': {'pullRequest': {'id': 'PR_9', 'url': pull(9)['url']}}},
    'IssueCreate': lambda v: {'createIssue': {'issue': {'id': 'I_9', 'url': node(9)['url']}}},
    'IssueClose': lambda v: {'closeIssue': {'issue': {'id': 'I_3'}}},
    'PullRequestMerge': lambda v: {'mergePullRequest': {'clientMutationId': ''}},
    'CommentCreate': lambda v: {'addComment': {'commentEdge': {'node': {'url': node(9)['url']}}}},
}
