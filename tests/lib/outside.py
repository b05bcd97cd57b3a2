"""What lies outside of a sandbox, on loopback: a web server that notes what it was asked, an echo, a resolver.

    with Web() as web, Resolver({"a.example.test": ["127.0.0.1"]}) as names:
        with Server(args=rule_for(web), wrap=names.wrap) as s: …

`Resolver.wrap` is a command in front of krait: it starts with a resolv.conf of its own that names this resolver (a
mount namespace: root only). Invariant: everything listens on loopback, and is gone when its block is left.
"""
from __future__ import annotations

import os
import socket
import struct
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# For code in a sandbox: one request to the proxy, and what came back.
ASK = '''
import http.client, json, socket, ssl, time

def ask(url, method="GET", body=None, headers={}, timeout=20):
    """(status, what was refused, body)"""
    c = http.client.HTTPConnection("127.0.0.1", 3128, timeout=timeout)
    try:
        c.request(method, url, body, headers)
        r = c.getresponse()
        try:
            data = r.read()
        except http.client.IncompleteRead as cut:
            return r.status, "cut", cut.partial
        return r.status, r.headers.get("X-Krait-Denied", ""), data
    except (OSError, http.client.HTTPException) as e:
        return 0, type(e).__name__, b""
    finally:
        c.close()

def tunnel(target, timeout=20):
    """A socket, and the line that the proxy answered with."""
    s = socket.create_connection(("127.0.0.1", 3128), timeout)
    s.sendall(("CONNECT %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % (target, target)).encode())
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        piece = s.recv(1)
        if not piece:
            break
        head += piece
    return s, head.split(b"\\r\\n")[0].decode("latin-1")

def raw(data, timeout=20):
    """All that the proxy answers to these bytes."""
    s = socket.create_connection(("127.0.0.1", 3128), timeout)
    got = b""
    try:
        s.sendall(data)
        while True:
            piece = s.recv(65536)
            if not piece:
                return got
            got += piece
            if b"\\r\\n\\r\\n" in got and b"Connection: close" not in got:
                return got
    except OSError as e:
        return got + b" " + type(e).__name__.encode()
    finally:
        s.close()
'''


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        web = self.server.web
        with web.lock:
            web.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        kind, _, rest = self.path.lstrip("/").partition("/")
        if kind == "bytes":
            self._answer(200, b"x" * int(rest.split("?")[0]))
        elif kind == "cut":
            self._answer(200, b"half", length=8)
            self.close_connection = True
        elif kind == "redirect":
            self._answer(302, b"", {"Location": rest})
        elif kind == "echo":
            self._answer(200, body)
        elif kind == "wait":
            web.go_on.wait(60)
            self._answer(200, b"waited")
        elif kind == "chunked":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
        elif kind == "drip":
            self._drip()
        elif kind in web.raw:
            self.wfile.write(web.raw[kind])
            self.close_connection = True
        else:
            self._answer(200, b"outside")

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = _serve

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None,
                length: int | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _drip(self) -> None:
        """A byte now and then, for as long as it is read."""
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        try:
            while not self.server.web.ended.wait(0.1):
                self.wfile.write(b".")
        except OSError:
            pass
        self.close_connection = True


class Web:
    def __init__(self, tls: Any = None, names: tuple = ("localhost",), address: str = "127.0.0.1"):
        self.asked: list[tuple] = []  # (method, path, headers in lower case, body)
        self.raw: dict[str, bytes] = {}  # path → what is sent for it, byte for byte
        self.lock, self.ended, self.go_on = threading.Lock(), threading.Event(), threading.Event()
        self.server = ThreadingHTTPServer((address, 0), _Handler)
        self.server.daemon_threads = True
        self.server.web = self
        if tls:
            self.server.socket = tls.server(*names).wrap_socket(self.server.socket, server_side=True)

    @property
    def port(self) -> int:
        return self.server.server_address[1]

    def paths(self) -> list[str]:
        with self.lock:
            return [path for _, path, _, _ in self.asked]

    def __enter__(self) -> "Web":
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.ended.set()
        self.go_on.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(10)


class Echo:
    """Says `greeting` first, then what it hears."""

    def __init__(self, greeting: bytes = b""):
        self.greeting, self.heard, self.count = greeting, b"", 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.open: list[socket.socket] = []

    @property
    def port(self) -> int:
        return self.listener.getsockname()[1]

    def _accept(self) -> None:
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            self.count += 1
            self.open.append(conn)
            threading.Thread(target=self._serve, args=(conn,), daemon=True).start()

    def _serve(self, conn: socket.socket) -> None:
        try:
            conn.sendall(self.greeting)
            while data := conn.recv(65536):
                self.heard += data
                conn.sendall(data)
            conn.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def __enter__(self) -> "Echo":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for conn in self.open:
            conn.close()


class Deaf:
    """A port of loopback on which no connection comes about: its queue is full."""

    def __enter__(self) -> "Deaf":
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(0)
        self.port = self.listener.getsockname()[1]
        self.fill = []
        for _ in range(4):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(("127.0.0.1", self.port))
            self.fill.append(s)
        return self

    def __exit__(self, *_: Any) -> None:
        for s in [*self.fill, self.listener]:
            s.close()


class Resolver:
    """Answers for the names given, at 127.77.N.1:53. A name's addresses: a list, or a list of lists, of which each
    question gets the next. None: it never answers."""

    def __init__(self, names: dict[str, Any]):
        self.names, self.asked = names, []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for n in range(1, 255):
            self.address = "127.77.%d.1" % n
            try:
                self.socket.bind((self.address, 53))
                break
            except OSError:
                continue
        self.folder = tempfile.TemporaryDirectory(prefix="krait-test-names-")
        os.chmod(self.folder.name, 0o755)
        self.file = os.path.join(self.folder.name, "resolv.conf")
        with open(self.file, "w") as f:
            f.write("nameserver %s\noptions timeout:2 attempts:1\n" % self.address)

    @property
    def wrap(self) -> list[str]:
        return ["unshare", "--mount", "--propagation", "slave", "sh", "-c",
                'mount --bind "$0" /etc/resolv.conf && exec "$@"', self.file]

    @staticmethod
    def _question(data: bytes) -> tuple[str, int, int]:
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1:at + 1 + data[at]].decode("latin-1"))
            at += 1 + data[at]
        return ".".join(labels).lower(), struct.unpack(">H", data[at + 1:at + 3])[0], at + 5

    def _reply(self, data: bytes) -> bytes | None:
        name, kind, end = self._question(data)
        self.asked.append((name, kind))
        if name not in self.names:
            return data[:2] + b"\x81\x83" + data[4:6] + b"\0\0\0\0\0\0" + data[12:end]
        found = self.names[name]
        if found is None:
            return None
        if found and isinstance(found[0], list):
            turn = sum(1 for asked in self.asked if asked == (name, kind)) - 1
            found = found[min(turn, len(found) - 1)]
        family = {1: socket.AF_INET, 28: socket.AF_INET6}.get(kind)
        packed = [socket.inet_pton(family, a) for a in found if family and (":" in a) == (kind == 28)]
        answers = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(p)) + p for p in packed)
        return data[:2] + b"\x81\x80" + data[4:6] + struct.pack(">HHH", len(packed), 0, 0) + data[12:end] + answers

    def _serve(self) -> None:
        while True:
            try:
                data, who = self.socket.recvfrom(4096)
            except OSError:
                return
            if not data:
                return
            reply = self._reply(data)
            if reply:
                self.socket.sendto(reply, who)

    def __enter__(self) -> "Resolver":
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.sendto(b"", (self.address, 53))
        self.thread.join(5)
        self.socket.close()
        self.folder.cleanup()
