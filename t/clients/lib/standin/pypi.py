"""A simple package index, whose files are on a host of their own. An upload would be done."""

import hashlib
import io
import re
import zipfile

from serve import reply

FILES = 'files.example.test'
wheels = {}


def prepare(_):
    for name, version, needs in ('kit', '2.0', ['lefty>=1.0']), ('lefty', '1.0', []), ('lefty', '1.1', []):
        out = io.BytesIO()
        info = '%s-%s.dist-info/' % (name, version)
        with zipfile.ZipFile(out, 'w') as z:
            z.writestr(name + '.py', 'VERSION = %r\n' % version)
            z.writestr(info + 'METADATA', 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n%s' % (
                name, version, ''.join('Requires-Dist: %s\n' % n for n in needs)))
            z.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\nGenerator: stand-in\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
            z.writestr(info + 'RECORD', '%s.py,,\n%sMETADATA,,\n%sWHEEL,,\n%sRECORD,,\n' % (name, info, info, info))
        wheels['%s-%s-py3-none-any.whl' % (name, version)] = out.getvalue()


def answer(q):
    if not q.known:
        return reply(401, 'a token is needed\n', WWW_Authenticate='Basic realm="index"', Content_Type='text/plain')
    if q.method not in ('GET', 'HEAD'):
        return reply(200, 'done\n', Content_Type='text/plain')
    m = re.fullmatch(r'/simple/([a-z]+)/', q.path)
    if m:
        links = ['<a href="https://%s/packages/%s#sha256=%s">%s</a><br>\n' % (
            FILES if name.startswith('lefty') else q.host, name, hashlib.sha256(data).hexdigest(), name)
            for name, data in wheels.items() if name.startswith(m.group(1) + '-')]
        return reply(200 if links else 404, '<!DOCTYPE html><html><body>\n%s</body></html>\n' % ''.join(links),
                     Content_Type='text/html')
    m = re.fullmatch(r'/packages/([^/]+)', q.path)
    if m and m.group(1) in wheels:
        return reply(200, wheels[m.group(1)], Content_Type='application/octet-stream')
    return reply(404, 'not found\n', Content_Type='text/plain')
