"""A forge's git side: git http-backend and git LFS, as github.com and as a host of somebody's own.

github.com keeps LFS objects on another host, at addresses that need no credential; every other host keeps them itself.
"""

import hashlib
import os
import re
import subprocess

from serve import reply

objects = {}
locks = {}
OBJECTS_HOST = 'objects.example.test'
LFS_TYPE = 'application/vnd.git-lfs+json'


def prepare(state):
    root = state.dir + '/repos'
    repo = root + '/octo/private.git'
    os.makedirs(root + '/octo', exist_ok=True)
    os.makedirs(state.dir + '/home', exist_ok=True)
    run(state, 'git', '-c', 'init.defaultBranch=main', 'init', '-q', '--bare', repo)
    for key in ('uploadpack.allowFilter', 'uploadpack.allowAnySHA1InWant', 'http.receivepack', 'http.uploadarchive'):
        run(state, 'git', '-C', repo, 'config', key, 'true')
    run(state, 'git', '-C', repo, 'fast-import', '--quiet', data=history(int(os.environ.get('STANDIN_FILES') or 0)))


def environment(state):
    return {'PATH': os.environ['PATH'], 'HOME': state.dir + '/home', 'GIT_CONFIG_NOSYSTEM': '1', 'LC_ALL': 'C'}


def run(state, *command, data=b''):
    subprocess.run(command, input=data, check=True, env=environment(state), stdout=subprocess.DEVNULL)


def history(many):
    """Commits for fast-import; media/*.bin are LFS pointers whose objects are in the store. With a number there is a branch
    of that many files more."""

    def commit(branch, when, text, *parent):
        return b'commit refs/heads/%s\ncommitter Octo Cat <octo@example.test> %d +0000\ndata %d\n%s\n' % (
            branch, when, len(text), text) + b''.join(b'from %s\n' % p for p in parent)

    def blob(name, text):
        return b'M 100644 inline %s\ndata %d\n%s\n' % (name, len(text), text)

    out = [commit(b'main', 1700000000, b'First commit'), blob(b'README.md', b'A private repository.\n'),
           blob(b'.gitattributes', b'*.bin filter=lfs diff=lfs merge=lfs -text\n'),
           commit(b'main', 1700000100, b'Add some files')]
    for n in range(20):
        out.append(blob(b'src/file-%d.txt' % n, b'This is file number %d.\n' % n))
    for n in range(3):
        data = b'large object %d\n' % n * 2000
        oid = hashlib.sha256(data).hexdigest()
        objects[oid] = data
        out.append(blob(b'media/%d.bin' % n, b'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n' % (
            oid.encode(), len(data))))
    out += [commit(b'topic', 1700000200, b'A topic', b'refs/heads/main'), blob(b'topic.txt', b'On a branch.\n'),
            commit(b'main', 1700000300, b'Third commit'), blob(b'README.md', b'Still private.\n'),
            b'reset refs/tags/v1\nfrom refs/heads/main\n\n']
    if many:
        out.append(commit(b'many', 1700000400, b'Many files', b'refs/heads/main'))
        out += [blob(b'many/part-%d/file-%d.txt' % (n // 100, n), b'This is one of many: %d.\n' % n) for n in range(many)]
    return b''.join(out)


def unauthorized():
    return reply(401, 'Repository not found.\n', Content_Type='text/plain', WWW_Authenticate='Basic realm="GitHub"',
                 Lfs_Authenticate='Basic realm="GitHub"')


def answer(q):
    m = re.match(r'/octo/private(?:\.git)?/(.*)', q.path)
    if not m:
        return reply(200, '<p>here is a page</p>\n', Content_Type='text/html')
    if not q.known:
        return unauthorized()
    rest = m.group(1)
    if rest.startswith('info/lfs/'):
        return lfs(q, rest[len('info/lfs/'):])
    if rest.startswith('archive/'):
        return archive(q, rest[len('archive/'):])
    return backend(q)


def backend(q):
    env = environment(q.state)
    env.update({
        'GIT_PROJECT_ROOT': q.state.dir + '/repos', 'GIT_HTTP_EXPORT_ALL': '', 'REMOTE_USER': 'octocat',
        'REMOTE_ADDR': '127.0.0.1', 'PATH_INFO': re.sub(r'^/octo/private/', '/octo/private.git/', q.path),
        'QUERY_STRING': q.query, 'REQUEST_METHOD': q.method, 'CONTENT_TYPE': q.headers.get('Content-Type') or '',
        'CONTENT_LENGTH': str(len(q.body)), 'GIT_PROTOCOL': q.headers.get('Git-Protocol') or '',
        'HTTP_CONTENT_ENCODING': q.headers.get('Content-Encoding') or '',
    })
    done = subprocess.run(['git', 'http-backend'], input=q.body, env=env, stdout=subprocess.PIPE)
    head, _, body = done.stdout.partition(b'\r\n\r\n')
    status, fields = 200, []
    for line in head.decode('latin-1').split('\r\n'):
        name, _, value = line.partition(': ')
        if name == 'Status':
            status = int(value.split()[0])
        elif name:
            fields.append((name, value))
    return status, fields, body


def archive(q, name):
    ref = re.sub(r'\.tar\.gz$', '', name)
    done = subprocess.run(['git', '-C', q.state.dir + '/repos/octo/private.git', 'archive', '--format=tar.gz', ref],
                          env=environment(q.state), stdout=subprocess.PIPE)
    if done.returncode:
        return reply(404, 'no such ref\n', Content_Type='text/plain')
    return reply(200, done.stdout, Content_Type='application/gzip')


def lfs(q, rest):
    base = 'https://%s/octo/private.git/info/lfs' % q.host
    if rest == 'objects/batch':
        what = q.json()
        q.note['operation'] = what.get('operation')
        return reply(200, {'transfer': 'basic', 'objects': [entry(q, base, what['operation'], o)
                                                            for o in what['objects']]}, Content_Type=LFS_TYPE)
    m = re.fullmatch(r'objects/([0-9a-f]{64})', rest)
    if m:
        return stored(q, m.group(1))
    if rest == 'verify':
        return reply(200, {}, Content_Type=LFS_TYPE)
    if rest == 'locks' and q.method == 'GET':
        return reply(200, {'locks': list(locks.values())}, Content_Type=LFS_TYPE)
    if rest == 'locks':
        n = str(len(locks) + 1)
        locks[n] = lock(n, q.json()['path'])
        return reply(201, {'lock': locks[n]}, Content_Type=LFS_TYPE)
    if rest == 'locks/verify':
        return reply(200, {'ours': list(locks.values()), 'theirs': []}, Content_Type=LFS_TYPE)
    m = re.fullmatch(r'locks/(\w+)/unlock', rest)
    if m and m.group(1) in locks:
        return reply(200, {'lock': locks.pop(m.group(1))}, Content_Type=LFS_TYPE)
    return reply(404, {'message': 'not found'}, Content_Type=LFS_TYPE)


def lock(n, path):
    return {'id': n, 'path': path, 'locked_at': '2024-01-01T00:00:00Z', 'owner': {'name': 'octocat'}}


def entry(q, base, operation, o):
    oid, size = o['oid'], o['size']
    if q.host == 'github.com':
        place = 'https://%s:%d/lfs/%s?X-Signature=abc' % (OBJECTS_HOST, q.state.port, oid)
    else:
        place = '%s/objects/%s' % (base, oid)
    if operation == 'download':
        if oid not in objects:
            return {'oid': oid, 'size': size, 'error': {'code': 404, 'message': 'no such object'}}
        return {'oid': oid, 'size': size, 'actions': {'download': {'href': place, 'expires_in': 3600}}}
    if oid in objects:
        return {'oid': oid, 'size': size}
    return {'oid': oid, 'size': size, 'actions': {'upload': {'href': place, 'expires_in': 3600},
                                                  'verify': {'href': base + '/verify', 'expires_in': 3600}}}


def stored(q, oid):
    if q.method == 'PUT':
        objects[oid] = q.body
        return reply(200)
    if oid not in objects:
        return reply(404, {'message': 'no such object'})
    return reply(200, objects[oid], Content_Type='application/octet-stream')
