"""An npm registry with a package, a scoped one that needs it, and what npm asks beside them. A publish would be done."""

import base64
import hashlib
import io
import json
import re
import tarfile
from urllib.parse import unquote

from serve import reply

packages = {}


def prepare(_):
    add('lefty', '1.0.0', {})
    add('lefty', '1.1.0', {})
    add('@octo/kit', '2.0.0', {'lefty': '^1.0.0'})


def add(name, version, needs):
    manifest = {'name': name, 'version': version, 'main': 'index.js', 'dependencies': needs}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w:gz') as tar:
        for file, text in ('package.json', json.dumps(manifest)), ('index.js', 'module.exports = %r;\n' % version):
            info = tarfile.TarInfo('package/' + file)
            info.size, info.mode = len(text), 0o644
            tar.addfile(info, io.BytesIO(text.encode()))
    packages.setdefault(name, {})[version] = dict(manifest, tarball=out.getvalue())


def packument(q, name):
    versions = {}
    for version, p in packages[name].items():
        file = '%s-%s.tgz' % (name.split('/')[-1], version)
        versions[version] = {k: v for k, v in p.items() if k != 'tarball'}
        versions[version]['dist'] = {
            'tarball': 'https://%s/%s/-/%s' % (q.host, name, file), 'shasum': hashlib.sha1(p['tarball']).hexdigest(),
            'integrity': 'sha512-' + base64.b64encode(hashlib.sha512(p['tarball']).digest()).decode()}
    return {'_id': name, 'name': name, 'dist-tags': {'latest': max(versions)}, 'versions': versions,
            'time': dict({v: '2024-01-01T00:00:00Z' for v in versions}, modified='2024-01-01T00:00:00Z'),
            'maintainers': [{'name': 'octocat', 'email': 'octo@example.test'}]}


def answer(q):
    if not q.known:
        return reply(401, {'error': 'a token is needed'}, WWW_Authenticate='Bearer')
    path = unquote(q.path)
    name = path[1:]
    if q.method not in ('GET', 'HEAD'):
        return change(q, path)
    if name in packages:
        return reply(200, packument(q, name))
    m = re.fullmatch(r'/(.+)/-/[^/]+-(\d+\.\d+\.\d+)\.tgz', path)
    if m and m.group(2) in packages.get(m.group(1), {}):
        return reply(200, packages[m.group(1)][m.group(2)]['tarball'], Content_Type='application/octet-stream')
    if path == '/-/whoami':
        return reply(200, {'username': 'octocat'})
    if path.startswith('/-/user/org.couchdb.user:'):
        return reply(200, {'name': path.split(':')[1], 'email': 'someone@example.test'})
    if path == '/-/npm/v1/tokens':
        return reply(200, {'objects': [{'token': 'abcdef', 'key': 'abcdef012345', 'created': '2024-01-01T00:00:00Z',
                                        'readonly': False, 'cidr_whitelist': None}], 'urls': {}})
    if path == '/-/ping':
        return reply(200, {})
    if path == '/-/v1/search':
        return reply(200, {'total': 1, 'time': '2024', 'objects': [{'package': {
            'name': 'lefty', 'version': '1.1.0', 'description': 'leans left', 'date': '2024-01-01T00:00:00Z', 'links': {},
            'maintainers': [{'username': 'octocat', 'email': 'octo@example.test'}], 'keywords': []}, 'score': {}}]})
    m = re.fullmatch(r'/-/package/(.+)/dist-tags', path)
    if m and m.group(1) in packages:
        return reply(200, {'latest': max(packages[m.group(1)])})
    return reply(404, {'error': 'Not found'})


def change(q, path):
    if path == '/-/npm/v1/security/advisories/bulk':
        q.note['writes'] = False
        return reply(200, {})
    return reply(201, {'ok': True, 'token': 'npm_made', 'success': True})
