"""A container registry and the host that gives out its tokens, which are good for a few minutes. A push would be done."""

import base64
import gzip
import hashlib
import io
import json
import re
import secrets
import tarfile

import store
from serve import reply

AUTH = 'auth.example.test'
MANIFEST = 'application/vnd.oci.image.manifest.v1+json'
blobs, tags, given = {}, {}, {}


def digest(data):
    return 'sha256:' + hashlib.sha256(data).hexdigest()


def prepare(_):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w') as tar:
        info = tarfile.TarInfo('hello')
        info.size = 6
        tar.addfile(info, io.BytesIO(b'hello\n'))
    layer = gzip.compress(out.getvalue(), mtime=0)
    config = json.dumps({'architecture': 'amd64', 'os': 'linux', 'config': {}, 'created': '2024-01-01T00:00:00Z',
                         'rootfs': {'type': 'layers', 'diff_ids': [digest(out.getvalue())]}, 'history': []}).encode()
    for data in layer, config:
        blobs[digest(data)] = data
        store.files['/blobs/' + digest(data)] = data
    manifest = json.dumps({
        'schemaVersion': 2, 'mediaType': MANIFEST,
        'config': {'mediaType': 'application/vnd.oci.image.config.v1+json', 'digest': digest(config), 'size': len(config)},
        'layers': [{'mediaType': 'application/vnd.oci.image.layer.v1.tar+gzip', 'digest': digest(layer), 'size': len(layer)}],
    }).encode()
    tags['v1'] = tags[digest(manifest)] = manifest


def answer(q):
    return token(q) if q.host == AUTH else registry(q)


def token(q):
    if not q.known:
        return reply(401, {'errors': [{'code': 'UNAUTHORIZED', 'message': 'who are you'}]},
                     WWW_Authenticate='Basic realm="tokens"')
    value = 'short.' + secrets.token_hex(16)
    given[value] = q.args.get('scope') or ''
    return reply(200, {'token': value, 'expires_in': 300})


def registry(q):
    scheme, _, value = q.auth.partition(' ')
    m = re.fullmatch(r'/v2/(?:(octo/app)/(manifests|blobs|tags)/(.*))?', q.path)
    writes = q.method not in ('GET', 'HEAD')
    if scheme.lower() != 'bearer' or value not in given:
        scope = ',scope="repository:octo/app:pull"' if m and m.group(1) else ''
        return reply(401, {'errors': [{'code': 'UNAUTHORIZED', 'message': 'a token is needed'}]},
                     WWW_Authenticate='Bearer realm="https://%s/token",service="registry"%s' % (AUTH, scope),
                     Docker_Distribution_Api_Version='registry/2.0')
    if writes:
        return change(q)
    if not m:
        return reply(404, {'errors': [{'code': 'NAME_UNKNOWN', 'message': 'no such name'}]})
    if not m.group(1):
        return reply(200, {}, Docker_Distribution_Api_Version='registry/2.0')
    kind, which = m.group(2), m.group(3)
    if kind == 'tags':
        return reply(200, {'name': 'octo/app', 'tags': ['v1']})
    if kind == 'manifests' and which in tags:
        return reply(200, tags[which], Content_Type=MANIFEST, Docker_Content_Digest=digest(tags[which]))
    if kind == 'blobs' and which in blobs:
        return reply(307, '', Location='https://%s:%d/blobs/%s?X-Signature=abc' % ('objects.example.test', q.state.port, which))
    return reply(404, {'errors': [{'code': 'MANIFEST_UNKNOWN', 'message': 'not there'}]})


def change(q):
    if q.method == 'POST':
        return reply(202, '', Location='/v2/octo/app/blobs/uploads/1', Docker_Upload_UUID='1', Range='0-0')
    if q.method == 'PATCH':
        return reply(202, '', Location='/v2/octo/app/blobs/uploads/1', Range='0-%d' % (len(q.body) - 1))
    if q.method == 'PUT' and '/manifests/' in q.path:
        tags[q.path.split('/')[-1]] = q.body
        return reply(201, '', Docker_Content_Digest=digest(q.body))
    return reply(202 if q.method == 'DELETE' else 201, '', Docker_Content_Digest=q.args.get('digest') or '')
