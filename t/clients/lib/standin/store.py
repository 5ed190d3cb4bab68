"""A store at addresses that are their own permission. A credential beside one is refused, as such stores do."""

import re

import git
from serve import reply

files = {}


def answer(q):
    if q.auth:
        return reply(400, '<Error><Code>InvalidArgument</Code><Message>Only one auth mechanism allowed</Message></Error>',
                     Content_Type='application/xml')
    m = re.fullmatch(r'/lfs/([0-9a-f]{64})', q.path)
    if m:
        return git.stored(q, m.group(1))
    if q.host == 'codeload.github.com':
        status, fields, body = git.archive(q, q.path.split('/')[-1])
        return status, fields + [('Content-Disposition', 'attachment; filename=private-v1.tar.gz')], body
    if q.path in files:
        return reply(200, files[q.path], Content_Type='application/octet-stream')
    return reply(404, 'no such file\n', Content_Type='text/plain')
