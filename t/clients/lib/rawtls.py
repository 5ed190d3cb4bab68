"""Sends requests byte for byte over TLS and tells what came back.

One JSON object a line on standard input:

    {"id": ..., "address": "127.0.0.1", "port": 443, "sni": "api.github.com", "request": base64, "head": false,
     "keep": false}

and one a line on standard output:

    {"id": ..., "status": 200, "headers": [[name, value], ...], "body": base64}

or {"id": ..., "error": "..."}. With "keep" a connection to the same name is used again while the server leaves it open;
without, each request has one of its own. The argument is the file with the authority to trust.
"""

import base64
import json
import socket
import ssl
import sys

TIMEOUT = 15


class Closed(Exception):
    pass


class Connection:

    def __init__(self, context, address, port, sni):
        raw = socket.create_connection((address, port), TIMEOUT)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.tls = context.wrap_socket(raw, server_hostname=sni)
        self.data = b''

    def close(self):
        self.tls.close()

    def more(self):
        piece = self.tls.recv(65536)
        if not piece:
            raise Closed('closed by the server')
        self.data += piece

    def until(self, mark):
        while mark not in self.data:
            self.more()
        head, self.data = self.data.split(mark, 1)
        return head

    def exactly(self, size):
        while len(self.data) < size:
            self.more()
        body, self.data = self.data[:size], self.data[size:]
        return body

    def ask(self, request, head):
        self.tls.sendall(request)

        while True:
            lines = self.until(b'\r\n\r\n').decode('latin-1').split('\r\n')
            status = int(lines[0].split(' ')[1])
            if status != 100:
                break

        headers = [[part.strip() for part in line.split(':', 1)] for line in lines[1:]]
        by_name = {name.lower(): value for name, value in headers}
        keep = by_name.get('connection', '').lower() != 'close'

        if head or status in (204, 304):
            body = b''
        elif 'chunked' in by_name.get('transfer-encoding', '').lower():
            body = b''
            while True:
                size = int(self.until(b'\r\n').split(b';')[0], 16)
                if size == 0:
                    while self.until(b'\r\n'):
                        pass
                    break
                body += self.exactly(size)
                self.exactly(2)
        elif 'content-length' in by_name:
            body = self.exactly(int(by_name['content-length']))
        else:
            keep = False
            try:
                while True:
                    self.more()
            except Closed:
                body, self.data = self.data, b''

        return status, headers, body, keep


def main():
    context = ssl.create_default_context(cafile=sys.argv[1])
    kept = {}

    for line in sys.stdin:
        job = json.loads(line)
        request = base64.b64decode(job['request'])
        name = job['sni']
        answer = {'id': job['id']}

        for attempt in (1, 2):
            connection = kept.pop(name, None) if job.get('keep') else None
            reused = connection is not None

            try:
                if connection is None:
                    connection = Connection(context, job['address'], job['port'], name)
                status, headers, body, keep = connection.ask(request, job.get('head'))

            except (OSError, Closed, ValueError, IndexError) as e:
                if connection is not None:
                    connection.close()
                if reused and attempt == 1:
                    continue            # the server closed it between two requests
                answer['error'] = '%s: %s' % (type(e).__name__, e)
                break

            answer.update(status=status, headers=headers, body=base64.b64encode(body).decode(), reused=reused)

            if job.get('keep') and keep:
                kept[name] = connection
            else:
                connection.close()
            break

        print(json.dumps(answer), flush=True)


main()
