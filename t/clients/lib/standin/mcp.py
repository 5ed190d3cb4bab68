"""An MCP server over streamable HTTP with a session, two tools that look and one that would change something."""

import json
import secrets

from serve import reply

sessions = set()

TOOLS = [{'name': name, 'description': name, 'inputSchema': {'type': 'object', 'properties': {'id': {'type': 'string'}}}}
         for name in ('issue_read', 'issue_search', 'issue_delete')]


def answer(q):
    if not q.known:
        return reply(401, {'error': 'a token is needed'}, WWW_Authenticate='Bearer')
    if q.path != '/mcp':
        return reply(404, {'error': 'not here'})
    session = q.headers.get('Mcp-Session-Id')
    if q.method == 'GET':
        return reply(405, '', Allow='POST, DELETE')
    if q.method == 'DELETE':
        q.note['writes'] = False
        sessions.discard(session)
        return reply(200, {})
    message = q.json()
    method, params = message.get('method'), message.get('params') or {}
    tool = params.get('name') if method == 'tools/call' else None
    q.note.update(operation=method + (' ' + tool if tool else ''), writes=tool == 'issue_delete')
    if 'id' not in message:
        return reply(202, '')
    more = {}
    if method == 'initialize':
        session = secrets.token_hex(8)
        sessions.add(session)
        more['Mcp-Session-Id'] = session
    elif session not in sessions:
        return reply(404, {'error': 'no such session'})
    body = {'jsonrpc': '2.0', 'id': message['id'], 'result': result(method, params)}
    if method == 'tools/list':

        # one answer as an event stream, the others as plain JSON: a client takes both

        return reply(200, 'event: message\ndata: %s\n\n' % json.dumps(body), Content_Type='text/event-stream', **more)
    return reply(200, body, **more)


def result(method, params):
    if method == 'initialize':
        return {'protocolVersion': params.get('protocolVersion'), 'serverInfo': {'name': 'stand-in', 'version': '1'},
                'capabilities': {'tools': {}, 'resources': {}, 'prompts': {}}}
    if method == 'tools/list':
        return {'tools': TOOLS}
    if method == 'tools/call':
        text = '%s of %s done' % (params.get('name'), (params.get('arguments') or {}).get('id'))
        return {'content': [{'type': 'text', 'text': text}]}
    if method == 'resources/list':
        return {'resources': [{'uri': 'note://1', 'name': 'a note'}]}
    if method == 'resources/read':
        return {'contents': [{'uri': params['uri'], 'text': 'what the note says'}]}
    if method == 'prompts/list':
        return {'prompts': [{'name': 'ask'}]}
    return {}
