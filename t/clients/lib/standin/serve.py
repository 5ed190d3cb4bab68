"""The services that the tests with real clients talk to, all on one TLS port.

    serve.py DIR HOST=SERVICE...

A SERVICE is a module beside this file with a function answer(request), which is asked for each request to HOST. DIR holds
leaf.pem and leaf.key, and `token`: who sends that in Authorization may do everything here, and who does not gets a 401
where the service wants one. Written to DIR:

    address      address and port of the TLS listener
    resolver     address and port of a name server that says 127.0.0.1 to every name
    record.log   each request as it arrived, one JSON object a line, written before it is answered

It ends when its standard input does.
"""

import base64
import hmac
import importlib
import json
import os
import socket
import socketserver
import ssl
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qsl, urlsplit


class State:
    """What the services share."""

    def __init__(self, directory):
        self.dir = directory
        self.token = read(directory + '/token').decode().strip()
        self.lock = threading.Lock()
        self.record = open(directory + '/record.log', 'a', buffering=1)
        self.port = 0

    def write(self, line):
        with self.lock:
            self.record.write(json.dumps(line) + '\n')
            self.record.flush()

    def is_token(self, text):
        return hmac.compare_digest(text.encode(), self.token.encode())


def read(path):
    with open(path, 'rb') as f:
        return f.read()


class Request:
    """One request, with its body, and what it says about who sent it."""

    def __init__(self, handler, body):
        self.state = handler.server.state
        self.method = handler.command
        self.target = handler.path
        self.headers = handler.headers
        self.body = body
        self.host = (handler.headers.get('Host') or '').split(':')[0].lower()
        parts = urlsplit(handler.path)
        self.path = parts.path
        self.query = parts.query
        self.args = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.auth = handler.headers.get('Authorization') or ''
        self.known = self.has_token()
        self.note = {}

    def has_token(self):
        scheme, _, value = self.auth.partition(' ')
        scheme = scheme.lower()
        if scheme in ('bearer', 'token'):
            return self.state.is_token(value.strip())
        if scheme != 'basic':
            return False
        try:
            pair = base64.b64decode(value.strip(), validate=True).decode()
        except ValueError:
            return False
        return any(self.state.is_token(s) for s in pair.split(':', 1))

    def json(self):
        return json.loads(self.body or b'{}')


def reply(status, value=None, **headers):
    """An answer: status, header fields, body. Underscores in names of fields stand for hyphens."""

    fields = [(k.replace('_', '-'), v) for k, v in headers.items()]
    if isinstance(value, bytes):
        body = value
    elif isinstance(value, str):
        body = value.encode()
    elif value is None:
        body = b''
    else:
        body = json.dumps(value).encode()
    if not any(k.lower() == 'content-type' for k, _ in fields):
        fields.append(('Content-Type', 'application/json; charset=utf-8'))
    return status, fields, body


class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    wbufsize = -1

    def log_message(self, *_):
        pass

    def body(self):
        if 'chunked' in (self.headers.get('Transfer-Encoding') or '').lower():
            parts = []
            while True:
                size = int(self.rfile.readline().split(b';')[0], 16)
                if size == 0:
                    while self.rfile.readline().strip():
                        pass
                    return b''.join(parts)
                parts.append(self.rfile.read(size))
                self.rfile.readline()
        return self.rfile.read(int(self.headers.get('Content-Length') or 0))

    def any_method(self):
        h = self.headers
        line = {
            'method': self.command, 'host': h.get('Host') or '', 'sni': getattr(self.connection, 'name', '') or '',
            'uri': self.path, 'authorization': h.get('Authorization') or '', 'via': h.get('Via') or '',
            'user_agent': h.get('User-Agent') or '', 'accept': ', '.join(h.get_all('Accept') or []),
            'content_type': h.get('Content-Type') or '', 'content_length': h.get('Content-Length') or '',
            'content_encoding': h.get('Content-Encoding') or '', 'transfer_encoding': h.get('Transfer-Encoding') or '',
            'git_protocol': h.get('Git-Protocol') or '',
        }
        try:
            body = self.body()
            request = Request(self, body)
            service = self.server.services.get(request.host)
            answer = service.answer(request) if service else reply(421, {'message': 'no such host here'})
            line.update(request.note, status=answer[0], received=len(body), known=request.known)
        except Exception as e:
            line.update(status=0, broken=repr(e))
            raise
        finally:
            self.server.state.write(line)
        self.send(*answer)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = any_method

    def send(self, status, fields, body):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        if status != 204 and not any(k.lower() == 'content-length' for k, _ in fields):
            self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        if self.command != 'HEAD' and status not in (204, 304):
            self.wfile.write(body)
        self.wfile.flush()


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    request_queue_size = 64
    allow_reuse_address = True

    def finish_request(self, request, client_address):
        request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with self.context.wrap_socket(request, server_side=True) as tls:
                self.RequestHandlerClass(tls, client_address, self)
        except (OSError, ssl.SSLError):
            pass

    def handle_error(self, request, client_address):
        import traceback
        traceback.print_exc()


def name_server(sock):
    """127.0.0.1 to every question for an IPv4 address, nothing to others."""

    while True:
        data, peer = sock.recvfrom(2048)
        try:
            end = data.index(b'\0', 12) + 5
            question = data[12:end]
            is_a = struct.unpack('>H', question[-4:-2])[0] == 1
            answer = b'\xc0\x0c' + struct.pack('>HHIH', 1, 1, 60, 4) + socket.inet_aton('127.0.0.1')
            head = data[:2] + struct.pack('>HHHHH', 0x8180, 1, 1 if is_a else 0, 0, 0)
            sock.sendto(head + question + (answer if is_a else b''), peer)
        except (ValueError, struct.error):
            pass


def main(directory, *pairs):
    state = State(directory)
    services = {}
    for pair in pairs:
        host, _, name = pair.partition('=')
        services[host] = importlib.import_module(name)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(directory + '/leaf.pem', directory + '/leaf.key')
    context.sni_callback = lambda sock, name, _: setattr(sock, 'name', name)

    server = Server(('127.0.0.1', 0), Handler)
    server.context, server.state, server.services = context, state, services
    state.port = server.server_address[1]

    for module in set(services.values()):
        if hasattr(module, 'prepare'):
            module.prepare(state)

    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind(('127.0.0.1', 0))
    threading.Thread(target=name_server, args=(names,), daemon=True).start()
    threading.Thread(target=server.serve_forever, kwargs={'poll_interval': 5}, daemon=True).start()

    for name, port in ('resolver', names.getsockname()[1]), ('address', state.port):
        with open('%s/%s.new' % (directory, name), 'w') as f:
            f.write('127.0.0.1:%d\n' % port)
        os.rename('%s/%s.new' % (directory, name), '%s/%s' % (directory, name))

    sys.stdin.read()


if __name__ == '__main__':
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.dont_write_bytecode = True
    sys.modules['serve'] = sys.modules['__main__']
    main(*sys.argv[1:])
