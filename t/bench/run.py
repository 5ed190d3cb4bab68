#!/usr/bin/env python3
"""Worker CPU time per request of the gateway, against a stock nginx.

usage: run.py [--rounds N] [--secs S] [--conns C] [--bindings N]
              [--only keep,audit,connect,handover,pass,redact,inspect,parse,
               bindings,sandboxes,revoke]
              [--modules DIR]

EGRESS_MODULES names the folder of the modules (build/modules), NGINX the
nginx to run.  Prints the figures, their targets and "met" or "not met"; the
exit code tells only whether the measurement itself went well.
"""

import argparse
import atexit
import os
import random
import re
import select
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

NGINX = os.environ.get("NGINX") or shutil.which("nginx") or "/usr/sbin/nginx"
STREAM = os.environ.get("STREAM_MODULE",
                        "/usr/lib/nginx/modules/ngx_stream_module.so")

HOST = "api.test"
PLACEHOLDER = "PLACEHOLDER_API_KEY_%05d"
SECRET = "real-secret-token-%05d"

# what both proxies are told, so that only the gateway's work differs
COMMON = """
    access_log off;
    keepalive_requests 100000000;
    client_body_temp_path temp; proxy_temp_path temp; fastcgi_temp_path temp;
    uwsgi_temp_path temp; scgi_temp_path temp;
    proxy_http_version 1.1;
    proxy_buffering off;
    proxy_request_buffering off;
    proxy_buffer_size 16k; proxy_buffers 8 16k;
"""

UPSTREAM = """
http {
    access_log off;
    keepalive_requests 100000000;
    keepalive_timeout 600s;
    client_body_temp_path temp; proxy_temp_path temp; fastcgi_temp_path temp;
    uwsgi_temp_path temp; scgi_temp_path temp;
    map $http_authorization $real {
        default 0;
        "~^Bearer real-secret-token-[0-9]+$" 1;
    }
    server {
        listen 127.0.0.1:%(port)d ssl backlog=1024;
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_certificate %(certs)s/up.pem;
        ssl_certificate_key %(certs)s/up.key;
        default_type application/json;
        location / {
            if ($real = 0) { return 401; }
            return 200 '%(body)s';
        }
    }
    server {
        listen 127.0.0.1:%(status)d;
        location / { stub_status; }
    }
    server {
        listen 127.0.0.1:%(clear)d;
        root %(files)s;
        default_type text/plain;
    }
}
"""

STOCK = """
http {
    %(common)s
    upstream up {
        server 127.0.0.1:%(upstream)d;
        keepalive 32;
        keepalive_requests 100000000;
    }
    server {
        listen 127.0.0.1:%(port)d ssl backlog=1024;
        ssl_certificate %(certs)s/leaf.pem;
        ssl_certificate_key %(certs)s/leaf.key;
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_session_cache off;
        ssl_session_tickets off;
        # without it two stateful tickets are sent with TLS 1.3
        ssl_conf_command NumTickets 0;
        location / {
            %(log)s
            proxy_pass https://up;
            proxy_set_header Connection "";
            proxy_set_header Host $host;
            proxy_set_header Authorization "Bearer real-secret-token-00000";
            proxy_ssl_protocols TLSv1.2 TLSv1.3;
            proxy_ssl_server_name on;
            proxy_ssl_name $host;
            proxy_ssl_verify on;
            proxy_ssl_verify_depth 5;
            proxy_ssl_trusted_certificate %(certs)s/ca.pem;
        }
    }
}
"""

GATEWAY = """
egress {
    ca %(certs)s/ca.pem %(certs)s/ca.key;
    trusted_certificate %(certs)s/ca.pem;
    audit_log %(audit)s;
%(bindings)s}
http {
    %(common)s
    server {
        listen 127.0.0.1:%(port)d ssl backlog=1024;
        egress_terminate on;
        location / { egress_pass; }
    }
}
"""

# the same, reached through the gateway's own port
HANDOVER = """
egress {
    ca %(certs)s/ca.pem %(certs)s/ca.key;
    trusted_certificate %(certs)s/ca.pem;
    audit_log off;
%(bindings)s}
http {
    %(common)s
    server {
        listen unix:%(socket)s ssl;
        egress_terminate gateway;
        location / { egress_pass; }
    }
}
stream {
    server {
        listen 127.0.0.1:%(port)d backlog=1024;
        egress_gateway unix:%(socket)s;
    }
}
"""

# a tunnel to an address, against the stock stream proxy
PASS = """
egress {
    ca %(certs)s/ca.pem %(certs)s/ca.key;
    audit_log off;
    role default {
        allow_cidr 127.0.0.1:%(clear)d;
        allow_private 127.0.0.1;
    }
}
http {
    %(common)s
    server {
        listen unix:%(socket)s ssl;
        egress_terminate gateway;
    }
}
stream {
    server {
        listen 127.0.0.1:%(port)d;
        egress_gateway unix:%(socket)s;
    }
}
"""

STREAM_PROXY = """
stream {
    server {
        listen 127.0.0.1:%(port)d;
        proxy_pass 127.0.0.1:%(clear)d;
    }
}
"""

# one text, looked at for the secret or not
REDACT = """
egress {
    ca %(certs)s/ca.pem %(certs)s/ca.key;
    audit_log off;
    binding b {
        hosts api.test;
        upstream http://127.0.0.1:%(clear)d;
        secret %(secret)s;
        placeholder PLACEHOLDER_API_KEY_00000;
        redact %(redact)s;
    }
}
http {
    %(common)s
    server {
        listen 127.0.0.1:%(port)d;
        location / { egress_pass b; }
    }
}
"""

BULK = 64 << 20         # octets of one download

# a query as clients send it, looked into or let through by its path
QUERY = ('{"query":"query RepositoryInfo($owner: String!, $name: String!) {'
         '\\n  repository(owner: $owner, name: $name) {\\n    id name '
         'owner { login } hasIssuesEnabled description viewerPermission\\n'
         '  }\\n}","variables":{"owner":"google","name":"sam"}}')


class Broken(Exception):
    pass


def command(*args, **kw):
    p = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True, **kw)
    if p.returncode:
        raise Broken("%s\n%s" % (" ".join(args), p.stdout))
    return p.stdout


def free_port():
    """A free port below those that the kernel gives to clients."""
    for _ in range(200):
        port = random.randrange(12000, 32000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise Broken("no free port")


def write(path, text, mode=0o644):
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)


class Bench:
    def __init__(self, args):
        self.args = args
        self.servers = []
        self.dir = tempfile.mkdtemp(prefix="egress-bench-")
        atexit.register(self.close)
        os.chmod(self.dir, 0o755)

        cores = sorted(os.sched_getaffinity(0))
        self.worker_core = cores[0]
        self.load_core = cores[1] if len(cores) > 1 else cores[0]

        self.root = os.geteuid() == 0
        self.user = "nobody"
        self.modules = args.modules
        self.status_port = free_port()
        self.clear_port = free_port()

        self.load = os.path.join(self.dir, "tlsload")
        command("cc", "-O2", "-o", self.load, os.path.join(HERE, "tlsload.c"),
                "-lssl", "-lcrypto")

        self.make_certs()
        self.make_secrets(args.bindings if "bindings" in args.only else
                          1000 if "revoke" in args.only else 1)
        self.redact_off = self.knows_redact()

    def close(self):
        for s in list(self.servers):
            s.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def make_certs(self):
        certs = self.path("certs")
        os.mkdir(certs)

        def key(name):
            command("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-out", "%s/%s.key"
                    % (certs, name))

        key("ca")
        command("openssl", "req", "-x509", "-new", "-key", certs + "/ca.key",
                "-sha256", "-days", "30", "-subj", "/CN=bench CA",
                "-addext", "keyUsage=critical,keyCertSign,cRLSign",
                "-out", certs + "/ca.pem")

        # stock nginx serves "leaf", the upstream "up": the same names
        last = "b%05d.test" % (self.args.bindings - 1)
        write(certs + "/ext", "subjectAltName=DNS:%s,DNS:%s,DNS:b00999.test\n"
              "basicConstraints=critical,CA:FALSE\n"
              "keyUsage=critical,digitalSignature\n"
              "extendedKeyUsage=serverAuth\n"
              "subjectKeyIdentifier=hash\n"
              "authorityKeyIdentifier=keyid\n" % (HOST, last))

        for name in "leaf", "up":
            key(name)
            command("openssl", "req", "-new", "-key",
                    "%s/%s.key" % (certs, name), "-subj", "/CN=" + HOST,
                    "-out", "%s/%s.csr" % (certs, name))
            command("openssl", "x509", "-req", "-in",
                    "%s/%s.csr" % (certs, name), "-sha256", "-days", "30",
                    "-CA", certs + "/ca.pem", "-CAkey", certs + "/ca.key",
                    "-CAcreateserial", "-extfile", certs + "/ext",
                    "-out", "%s/%s.pem" % (certs, name))

        os.chmod(certs + "/ca.key", 0o600)

    def make_secrets(self, count):
        os.mkdir(self.path("secrets"))
        os.chmod(self.path("secrets"), 0o755)

        group = None
        if self.root:
            import grp
            import pwd
            group = pwd.getpwnam(self.user).pw_gid
            self.user += " " + grp.getgrgid(group).gr_name

        for i in range(count):
            path = self.path("secrets", "%05d" % i)
            write(path, SECRET % i + "\n", 0o640 if self.root else 0o600)
            if group is not None:
                os.chown(path, 0, group)

    def bindings(self, count, redact):
        out = []
        for i in range(count):
            host = HOST if count == 1 else "b%05d.test" % i
            out.append(
                "    binding b%05d {\n        hosts %s;\n"
                "        upstream https://127.0.0.1:%d;\n"
                "        secret %s;\n        placeholder %s;\n%s    }\n"
                % (i, host, self.upstream.port,
                   self.path("secrets", "%05d" % i), PLACEHOLDER % i,
                   "" if redact else self.redact_off))
        return "".join(out)

    def knows_redact(self):
        """Redaction is left out where only the swap is measured."""
        with open(os.path.join(self.modules, "ngx_http_egress_module.so"),
                  "rb") as f:
            return "        redact off;\n" if b"\0redact\0" in f.read() else ""

    def start_upstream(self):
        self.upstream = Server(self, "upstream", self.load_core)
        os.makedirs(self.path("files"), exist_ok=True)
        with open(self.path("files", "bulk"), "wb") as f:
            f.write(self.text(BULK))
        body = '{"data":"%s"}' % ("x" * 1013)
        self.upstream.start(UPSTREAM % {
            "port": self.upstream.port, "status": self.status_port,
            "clear": self.clear_port, "files": self.path("files"),
            "certs": self.path("certs"), "body": body})

    def text(self, size):
        """JSON as services send it, without any secret in it."""
        rnd = random.Random(1)
        words = ["id", "name", "full_name", "html_url", "description",
                 "created_at", "node_id", "https://api.test/repos/o/r",
                 "ghp_", "Bearer", "true", "null"]
        part = ",".join('"%s":"%s %x"' % (rnd.choice(words),
                                          rnd.choice(words),
                                          rnd.getrandbits(64))
                        for _ in range(20000))
        return (part * (size // len(part) + 1))[:size].encode()

    def stock(self, name, log=False):
        s = Server(self, name, self.worker_core)
        s.config = STOCK % {
            "common": COMMON, "port": s.port, "upstream": self.upstream.port,
            "certs": self.path("certs"),
            "log": "access_log %s;" % s.path("access.log") if log else ""}
        return s

    def stream(self, name, config):
        """A server of the stream module, gateway or stock."""
        s = Server(self, name, self.worker_core)
        s.auth = "Bearer " + PLACEHOLDER % 0
        s.modules = [STREAM]
        if "egress" in config:
            s.modules += [os.path.join(self.modules, m + ".so") for m in
                          ("ngx_http_egress_module",
                           "ngx_stream_egress_module")]
        s.config = config % {
            "common": COMMON, "port": s.port, "certs": self.path("certs"),
            "clear": self.clear_port, "socket": s.path("terminator.sock"),
            "bindings": self.bindings(1, False)}
        return s

    def redact(self, name, on):
        s = Server(self, name, self.worker_core)
        s.modules = [os.path.join(self.modules, m + ".so") for m in
                     ("ngx_http_egress_module", "ngx_stream_egress_module")]
        s.modules.insert(0, STREAM)
        s.config = REDACT % {
            "common": COMMON, "port": s.port, "certs": self.path("certs"),
            "clear": self.clear_port, "secret": self.path("secrets", "00000"),
            "redact": "on" if on else "off"}
        return s

    def tunnel(self, server, connect):
        """One round of downloads: the worker's CPU time per MiB."""
        server.start(server.config)
        try:
            cpu, took, n = server.cpu(), time.monotonic(), 0
            while time.monotonic() - took < self.args.secs:
                self.download(server, connect)
                n += 1
            took = time.monotonic() - took
            mib = n * BULK / (1 << 20)
            return {"us": (server.cpu() - cpu) / 1e3 / mib,
                    "rate": mib / took}
        finally:
            server.stop()

    def download(self, server, connect):
        with socket.create_connection(("127.0.0.1", server.port), 10) as s:
            if connect:
                s.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n"
                          % self.clear_port)
                if not s.recv(4096).startswith(b"HTTP/1.1 200 "):
                    raise Broken("%s: no tunnel\n%s" % (server.name,
                                                        server.errors()))
            s.sendall(b"GET /bulk HTTP/1.0\r\n\r\n")
            buf, got = bytearray(1 << 20), 0
            while True:
                n = s.recv_into(buf)
                if n == 0:
                    break
                got += n
        if got < BULK:
            raise Broken("%s: %d octets" % (server.name, got))

    def compare_tunnels(self, stock, gateway, connect=True):
        rounds = {stock.name: [], gateway.name: []}
        for n in range(self.args.rounds):
            pair = [(stock, False), (gateway, connect)]
            for s, c in pair if n % 2 == 0 else pair[::-1]:
                rounds[s.name].append(self.tunnel(s, c))
        return rounds

    def parse(self):
        """Inspectors over bodies of 1 MiB, each kind by itself."""
        src = os.path.join(ROOT, "build", "nginx")
        nginx = [os.path.join(src, "src", d) for d in
                 ("core", "event", "event/modules", "event/quic", "os/unix")]
        inspect = os.path.join(ROOT, "src", "inspect")
        out = self.path("parse")
        command("cc", "-O2", "-o", out, "-I", os.path.join(src, "objs"),
                *[x for d in nginx for x in ("-I", d)], "-I", inspect,
                os.path.join(HERE, "parse.c"),
                *sorted(os.path.join(inspect, f) for f in os.listdir(inspect)
                        if f.endswith(".c")), "-lyajl", "-lcrypto")
        print(command(out).rstrip())

    def make_sandboxes(self, count):
        """Files of sandboxes, in the group of the worker."""
        path = self.path("sandboxes")
        if os.path.isdir(path):
            return path
        os.mkdir(path, 0o750)
        group = os.stat(self.path("secrets", "00000")).st_gid
        os.chown(path, -1, group)
        for i in range(count):
            f = os.path.join(path, "box-%05d.json" % i)
            write(f, "{}", 0o640)
            os.chown(f, -1, group)
        return path

    def boxes(self, name, active, files=100000, count=1):
        """Requests of so many sandboxes, told by a header."""
        s = self.gateway(name, count)
        s.ids = active
        s.config = s.config.replace(
            "egress {\n", "egress {\n    sandboxes %s;\n"
            % self.make_sandboxes(files), 1).replace(
            "location / {", "location / { egress_sandbox $http_x_sandbox;"
            " keepalive_timeout 600s;", 1)
        return s

    def revoke(self, conns=2000, bindings=1000, times=200):
        """How soon open connections end once their sandbox's file is gone."""
        ids = conns // 10
        s = self.boxes("revoke", 1, 100000, bindings)
        path = self.path("sandboxes")
        s.start(s.config)
        open_, took = {}, []
        try:
            ctx = ssl.create_default_context(
                cafile=self.path("certs", "ca.pem"))
            for n in range(conns):
                c = ctx.wrap_socket(
                    socket.create_connection(("127.0.0.1", s.port), 20),
                    server_hostname=s.host)
                c.sendall((s.request().replace(
                    "box-00000", "box-%05d" % (1 + n % ids)) + "\r\n")
                    .encode())
                if b" 200 OK" not in c.recv(65536):
                    raise Broken("revoke: no answer\n" + s.errors())
                c.setblocking(False)
                open_.setdefault(1 + n % ids, []).append(c)

            load = subprocess.Popen(
                [self.load, "-a", "127.0.0.1:%d" % s.port, "-c", "16", "-s",
                 s.host, "-A", s.auth, "-i", "1", "-d", "60"],
                stdout=subprocess.DEVNULL, preexec_fn=lambda:
                os.sched_setaffinity(0, {self.load_core}))
            try:
                rnd = random.Random(1)
                gone = rnd.sample(sorted(open_), min(times, ids))
                poll = select.poll()
                when, left = {}, {}
                for box in gone:
                    for c in open_[box]:
                        poll.register(c.fileno(), select.POLLIN)
                        left[c.fileno()] = (box, c)
                while left:
                    if gone:
                        box = gone.pop()
                        os.unlink(os.path.join(path, "box-%05d.json" % box))
                        when[box] = time.monotonic()
                    for fd, _ in poll.poll(20):
                        box, c = left[fd]
                        if not self.ended(c):
                            continue
                        if box not in when:
                            raise Broken("revoke: box-%05d ended" % box)
                        took.append(time.monotonic() - when[box])
                        poll.unregister(fd)
                        del left[fd]
                    if when and time.monotonic() - max(when.values()) > 20:
                        break
            finally:
                load.kill()
                load.wait()
        finally:
            for cs in open_.values():
                for c in cs:
                    c.close()
            s.stop()
        took.sort()
        if len(left):
            raise Broken("revoke: %d connections stayed open" % len(left))
        print("revocation of %d sandboxes, %d of %d connections, %d bindings,"
              " under load: p50 %.2f s, p99 %.2f s, worst %.2f s; targets 2 "
              "and 5 s, %s" % (min(times, ids), len(took), conns, bindings,
                               took[len(took) // 2],
                               took[len(took) * 99 // 100], took[-1],
                               "met" if took[len(took) * 99 // 100] <= 2
                               and took[-1] <= 5 else "not met"))

    @staticmethod
    def ended(c):
        """Whether the other side has ended the connection, in any way."""
        try:
            return not c.recv(65536)
        except ssl.SSLWantReadError:
            return False
        except OSError:
            return True

    def inspect(self, name, rule):
        """The gateway with one more rule, and a body for it."""
        s = self.gateway(name)
        s.body = QUERY
        s.config = s.config.replace("        hosts ", "        %s\n        "
                                    "hosts " % rule)
        return s

    def gateway(self, name, count=1, audit=False):
        s = Server(self, name, self.worker_core)
        s.host = HOST if count == 1 else "b%05d.test" % (count - 1)
        s.auth = "Bearer " + PLACEHOLDER % (count - 1)
        s.modules = [os.path.join(self.modules, m + ".so") for m in
                     ("ngx_http_egress_module", "ngx_stream_egress_module")]
        s.modules.insert(0, STREAM)
        s.config = GATEWAY % {
            "common": COMMON, "port": s.port, "certs": self.path("certs"),
            "audit": s.path("audit.json") if audit else "off",
            "bindings": self.bindings(count, audit)}
        return s

    def accepted(self):
        """Connections that the upstream has seen."""
        with socket.create_connection(("127.0.0.1", self.status_port)) as s:
            s.sendall(b"GET / HTTP/1.0\r\n\r\n")
            text = b""
            while True:
                data = s.recv(4096)
                if not data:
                    break
                text += data
        return int(re.search(rb"requests\s+(\d+)", text).group(1))

    def measure(self, server, new):
        """One round: figures of tlsload, and the worker's CPU time."""
        conns = self.args.conns
        cmd = [self.load, "-a", "127.0.0.1:%d" % server.port, "-c",
               str(conns), "-s", server.host, "-A", server.auth]
        if new:
            cmd.append("-k")
        if server.body:
            cmd += ["-p", "/graphql", "-b", server.body]
        if server.ids:
            cmd += ["-i", str(server.ids)]

        def run(secs):
            out = command(*cmd, "-d", str(secs), preexec_fn=lambda:
                          os.sched_setaffinity(0, {self.load_core}))
            out, last = out.strip().split(" last=", 1) \
                if " last=" in out else (out, "")
            kv = {k: float(v) for k, v in
                  (x.split("=", 1) for x in out.split())}
            if kv["bad"] or kv["errors"] or not kv["requests"]:
                raise Broken("%s: %s %s\n%s" % (server.name, out, last,
                                                server.errors()))
            return kv

        server.start(server.config)
        try:
            server.probe()
            run(4 if server.ids > 1 else 0.3)
            before, cpu = self.accepted(), server.cpu()
            kv = run(self.args.secs)
            kv["us"] = (server.cpu() - cpu) / 1e3 / kv["requests"]
            opened = self.accepted() - before - 1
            kv["hits"] = 100 * (1 - max(opened, 0) / kv["requests"])
            kv["mib"] = server.memory()
        finally:
            server.stop()

        # else something else than the same work is compared
        if opened > kv["requests"] / 50 + conns:
            raise Broken("%s: %d upstream connections for %d requests"
                         % (server.name, opened, kv["requests"]))
        if not new and kv["handshakes"] > conns:
            raise Broken("%s: client connections were not kept alive"
                         % server.name)
        return kv

    def compare(self, new, *servers):
        rounds = {s.name: [] for s in servers}
        for n in range(self.args.rounds):
            for s in servers if n % 2 == 0 else servers[::-1]:
                rounds[s.name].append(self.measure(s, new))
                if self.args.verbose:
                    print("# round %d %s %.2f us" % (
                        n + 1, s.name, rounds[s.name][-1]["us"]))
        return rounds


class Server:
    """An nginx of its own: a master, one worker, one core."""

    def __init__(self, bench, name, core):
        self.bench, self.name, self.core = bench, name, core
        self.port = free_port()
        self.host = HOST
        self.auth = "Bearer " + PLACEHOLDER % 0
        self.modules = []
        self.body = None
        self.ids = 0
        self.master = None
        self.prefix = bench.path(name)
        os.makedirs(self.path("temp"))

    def path(self, *names):
        return os.path.join(self.prefix, *names)

    def argv(self, *more):
        return [NGINX, "-p", self.prefix, "-e", self.path("error.log"),
                "-c", self.path("nginx.conf")] + list(more)

    def configure(self, config):
        text = "".join("load_module %s;\n" % m for m in self.modules)
        if self.bench.root:
            text += "user %s;\n" % self.bench.user
        text += ("worker_processes 1;\ndaemon off;\npid %s;\n"
                 "error_log %s warn;\nworker_rlimit_nofile 8192;\n"
                 "events { worker_connections 4096; }\n"
                 % (self.path("nginx.pid"), self.path("error.log")))
        write(self.path("nginx.conf"), text + config)

    def start(self, config):
        self.configure(config)
        core = self.core
        self.master = subprocess.Popen(
            self.argv(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: os.sched_setaffinity(0, {core}))
        self.bench.servers.append(self)

        end = time.monotonic() + 60
        while time.monotonic() < end:
            if self.master.poll() is not None:
                raise Broken("%s did not start\n%s"
                             % (self.name, self.errors()))
            kids = self.children()
            if len(kids) == 1 and self.listening():
                self.worker = kids[0]
                time.sleep(0.1)
                return
            time.sleep(0.02)
        raise Broken("%s did not start in time\n%s"
                     % (self.name, self.errors()))

    def children(self):
        pid = self.master.pid
        try:
            with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
                return [int(x) for x in f.read().split()]
        except OSError:
            return []

    def listening(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def stop(self):
        if self.master is not None and self.master.poll() is None:
            self.master.terminate()
            try:
                self.master.wait(10)
            except subprocess.TimeoutExpired:
                for pid in self.children():
                    os.kill(pid, 9)
                self.master.kill()
                self.master.wait()
        self.master = None
        if self in self.bench.servers:
            self.bench.servers.remove(self)

    def errors(self):
        try:
            with open(self.path("error.log")) as f:
                return "".join(f.readlines()[-5:])
        except OSError:
            return ""

    def cpu(self):
        """Nanoseconds on the processor."""
        total = 0
        base = "/proc/%d/task" % self.worker
        for task in os.listdir(base):
            with open("%s/%s/schedstat" % (base, task)) as f:
                total += int(f.read().split()[0])
        return total

    def memory(self):
        with open("/proc/%d/status" % self.worker) as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024

    def request(self):
        lines = ["GET / HTTP/1.1", "Host: " + self.host,
                 "Authorization: " + self.auth]
        if self.ids:
            lines.append("X-Sandbox: box-00000")
        return "\r\n".join(lines) + "\r\n"

    def probe(self):
        """One verified request: 200 with the placeholder."""
        ctx = ssl.create_default_context(
            cafile=self.bench.path("certs", "ca.pem"))
        with socket.create_connection(("127.0.0.1", self.port), 10) as s:
            with ctx.wrap_socket(s, server_hostname=self.host) as t:
                t.sendall((self.request() + "Connection: close\r\n\r\n")
                          .encode())
                line = t.recv(4096).split(b"\r\n")[0].decode()
                version = t.version()
        if line != "HTTP/1.1 200 OK":
            raise Broken("%s: %s\n%s" % (self.name, line, self.errors()))
        if version != "TLSv1.3":
            raise Broken("%s: %s, not TLSv1.3" % (self.name, version))

    def load_time(self, config):
        self.configure(config)
        start = time.monotonic()
        command(*self.argv("-t"))
        return time.monotonic() - start


def median(rounds, key):
    return statistics.median(r[key] for r in rounds)


HEAD = "%-34s %11s %11s %7s %15s %8s  %s" % (
    "figure", "base", "gateway", "ratio", "rounds", "target", "")


def line(figure, base, value, unit, ratio, spread, target):
    over = ratio if spread else value
    print("%-34s %11s %11s %7s %15s %8s  %s" % (
        figure,
        "%.2f %s" % (base, unit), "%.2f %s" % (value, unit),
        "%.3f" % ratio if spread else "",
        "%.3f..%.3f" % spread if spread else "",
        "<= %.2f" % target if spread else "<= %g %s" % (target, unit),
        "met" if over <= target else "not met"), flush=True)


def ratio_line(figure, rounds, target):
    base, value = rounds.values()
    each = [v["us"] / b["us"] for b, v in zip(base, value)]
    b, v = median(base, "us"), median(value, "us")
    line(figure, b, v, "us", v / b, (min(each), max(each)), target)


def main():
    names = ["keep", "audit", "connect", "handover", "pass", "redact",
             "inspect", "parse", "bindings", "sandboxes", "revoke"]
    ap = argparse.ArgumentParser(description="See README.md.")
    ap.add_argument("--rounds", type=int, default=9)
    ap.add_argument("--secs", type=float, default=1.5)
    ap.add_argument("--conns", type=int, default=16)
    ap.add_argument("--bindings", type=int, default=10000)
    ap.add_argument("--only", default=",".join(names))
    ap.add_argument("--modules", default=os.environ.get(
        "EGRESS_MODULES", os.path.join(ROOT, "build", "modules")))
    ap.add_argument("--verbose", action="store_true")
    args = ap.parse_args()

    args.modules = os.path.abspath(args.modules)
    args.only = args.only.split(",")
    for name in args.only:
        if name not in names:
            ap.error("--only: one or more of " + ",".join(names))
    if args.rounds < 1 or args.bindings < 2 or not 1 <= args.conns <= 32:
        ap.error("at least 1 round and 2 bindings, 1 to 32 connections")

    b = Bench(args)
    b.start_upstream()

    print("%d rounds of %g s, %d connections, worker on core %d, load and "
          "upstream on core %d" % (args.rounds, args.secs, args.conns,
                                   b.worker_core, b.load_core))
    if b.worker_core == b.load_core:
        print("one core only: the figures are less steady")
    print(HEAD, flush=True)

    if "keep" in args.only:
        rounds = b.compare(False, b.stock("stock"), b.gateway("gateway"))
        ratio_line("keep-alive, swap only", rounds, 1.05)
        hits = median(rounds["gateway"], "hits")
        print("upstream connections used again: %.2f %%, target > 99 %%, %s"
              % (hits, "met" if hits > 99 else "not met"))

    if "audit" in args.only:
        ratio_line("keep-alive, audit log", b.compare(
            False, b.stock("stock-log", log=True),
            b.gateway("gateway-audit", audit=True)), 1.20)

    if "connect" in args.only:
        ratio_line("new TLS connection a request", b.compare(
            True, b.stock("stock-new"), b.gateway("gateway-new")), 1.05)

    if "handover" in args.only:
        ratio_line("new TLS connection, gateway", b.compare(
            True, b.stock("stock-direct"),
            b.stream("handover-new", HANDOVER)), 1.05)
        ratio_line("keep-alive, handed over", b.compare(
            False, b.gateway("direct"), b.stream("handover", HANDOVER)),
            1.05)

    if "pass" in args.only:
        rounds = b.compare_tunnels(b.stream("stream-proxy", STREAM_PROXY),
                                   b.stream("pass", PASS))
        ratio_line("pass-through, CPU per MiB", rounds, 1.05)
        base, value = (median(r, "rate") for r in rounds.values())
        print("pass-through, MiB/s: stock %.0f, gateway %.0f (%.3f)"
              % (base, value, value / base))

    if "redact" in args.only:
        rounds = b.compare_tunnels(b.redact("redact-off", False),
                                   b.redact("redact-on", True), False)
        base, value = (median(r, "us") for r in rounds.values())
        more = (value - base) / 1e3
        print("redaction: %.3f ms/MiB, target <= 0.5, %s"
              % (more, "met" if more <= 0.5 else "not met"))

    if "inspect" in args.only:
        ratio_line("an inspected GraphQL query", b.compare(
            False, b.inspect("uninspected", "read POST = /graphql;"),
            b.inspect("inspected", "read POST = /graphql graphql;")), 1.15)

    if "parse" in args.only:
        b.parse()

    if "bindings" in args.only:
        one = b.gateway("one")
        many = b.gateway("many", args.bindings)
        rounds = b.compare(False, one, many)
        ratio_line("%d bindings against 1" % args.bindings, rounds, 1.05)
        times = {s: statistics.median(s.load_time(s.config)
                                      for _ in range(3)) for s in (one, many)}
        line("load time, 1 and %d bindings" % args.bindings, times[one],
             times[many], "s", 0, None, 5)
        print("worker memory, 1 and %d bindings: %.1f and %.1f MiB" % (
            args.bindings, median(rounds["one"], "mib"),
            median(rounds["many"], "mib")))


    if "sandboxes" in args.only:
        rounds = b.compare(False, b.boxes("box", 1), b.boxes("boxes", 10000))
        ratio_line("10000 sandboxes active against 1", rounds, 1.05)
        print("worker memory, 1 and 10000 sandboxes of 100000: %.1f and %.1f "
              "MiB" % (median(rounds["box"], "mib"),
                       median(rounds["boxes"], "mib")))

    if "revoke" in args.only:
        b.revoke()


if __name__ == "__main__":
    # so that the servers are stopped
    signal.signal(signal.SIGTERM, lambda *a: sys.exit(1))
    try:
        main()
    except Broken as e:
        print("run.py: " + str(e), file=sys.stderr)
        sys.exit(1)
