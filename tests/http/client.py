"""The test server as a context, and connections that see every byte."""
import json
import os
import resource
import select
import socket
import subprocess
import time
from dataclasses import dataclass

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("KR_BUILD", os.path.join(ROOT, "build"))
SANITIZED = "ASAN_OPTIONS" in os.environ
WAIT_S = 10.0


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    interim: list[int]  # 1xx answers before it

    @property
    def json(self) -> dict:
        return json.loads(self.body)


class Conn:
    """One connection; bytes that came but were not asked for stay in `rest`."""

    def __init__(self, address, timeout: float = WAIT_S, rcvbuf: int = 0) -> None:
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.sock = socket.socket(family)
        self.sock.settimeout(timeout)
        if rcvbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        if family == socket.AF_INET:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.connect(address)
        self.rest = b""

    def __enter__(self) -> "Conn":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        self.sock.close()

    def reset(self) -> None:
        """Closes with RST instead of FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def try_send(self, data: bytes) -> bool:
        """False if the server has gone away meanwhile, which is its right when it refuses."""
        try:
            self.sock.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def more(self) -> bool:
        try:
            data = self.sock.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        self.rest += data
        return bool(data)

    def until(self, mark: bytes) -> bytes:
        while mark not in self.rest:
            assert self.more(), "the connection ended before %r; there was %r" % (mark, self.rest[-200:])
        text, self.rest = self.rest.split(mark, 1)
        return text

    def exactly(self, n: int) -> bytes:
        parts, have = [self.rest], len(self.rest)
        while have < n:
            data = self.sock.recv(1 << 18)
            assert data, "the connection ended after %d of %d bytes" % (have, n)
            parts.append(data)
            have += len(data)
        whole = b"".join(parts)
        self.rest = whole[n:]
        return whole[:n]

    def head(self) -> tuple[int, dict[str, str]]:
        first, *lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status, _ = first.split(" ", 2)
        assert version == "HTTP/1.1", first
        return int(status), {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}

    def chunk(self) -> bytes:
        """One chunk; empty at the end of the body."""
        data = self.exactly(int(self.until(b"\r\n"), 16) + 2)
        assert data.endswith(b"\r\n")
        return data[:-2]

    def answer(self, to_head: bool = False) -> Answer:
        interim = []
        status, headers = self.head()
        while status < 200:
            interim.append(status)
            status, headers = self.head()
        body = b""
        if to_head or status in (204, 304):
            pass
        elif headers.get("transfer-encoding") == "chunked":
            pieces = []
            while piece := self.chunk():
                pieces.append(piece)
            body = b"".join(pieces)
        elif "content-length" in headers:
            body = self.exactly(int(headers["content-length"]))
        else:
            while self.more():
                pass
            body, self.rest = self.rest, b""
        return Answer(status, headers, body, interim)

    def ask(self, method: str, path: str, *lines: str, body: bytes | None = None) -> Answer:
        more = list(lines) + ([] if body is None else ["Content-Length: %d" % len(body)])
        text = "\r\n".join(["%s %s HTTP/1.1" % (method, path), "Host: test", *more]) + "\r\n\r\n"
        self.send(text.encode() + (body or b""))
        return self.answer(to_head=method == "HEAD")

    def get(self, path: str, *lines: str) -> Answer:
        return self.ask("GET", path, *lines)

    def ended(self, within: float = WAIT_S) -> bool:
        """True if the server closes within that time; what it still sends is kept in `rest`."""
        deadline = time.monotonic() + within
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self.sock], [], [], left)[0] and not self.more():
                return True
        return False

    def silent(self, seconds: float) -> bool:
        """True if nothing comes, not even the end, for that time."""
        return not self.rest and not select.select([self.sock], [], [], seconds)[0]


class Server:
    """build/tests/http-server with the settings; ends cleanly and says so, or the check fails."""

    def __init__(self, **settings: int) -> None:
        self.settings = settings

    def __enter__(self) -> "Server":
        argv = [os.path.join(BUILD, "tests", "http-server")]
        argv += ["%s=%d" % item for item in self.settings.items()]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        words = self.process.stdout.readline().split()
        assert words[:1] == [b"ports"], "the test server did not start"
        self.address = ("127.0.0.1", int(words[1]))
        self.other = ("127.0.0.1", int(words[2]))
        self.unix = words[3].decode()
        self.watcher = Conn(self.unix)  # not counted by address
        return self

    def __exit__(self, kind, *_) -> None:
        self.watcher.close()
        self.process.stdin.close()
        try:
            status = self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.process.stdout.close()
        if kind is None:
            assert status == 0, "the test server ended with status %d" % status

    def conn(self, **options) -> Conn:
        return Conn(self.address, **options)

    def stats(self) -> dict:
        try:
            return self.watcher.get("/stats").json
        except (BrokenPipeError, ConnectionResetError, AssertionError):  # closed for being idle
            self.watcher.close()
            self.watcher = Conn(self.unix)
            return self.watcher.get("/stats").json

    def wait_for(self, what: str, value: int, within: float = 20.0) -> float:
        """Seconds until a figure of /stats has that value."""
        start = time.monotonic()
        while (now := self.stats()[what]) != value:
            assert time.monotonic() < start + within, "%s is %s, not %s" % (what, now, value)
            time.sleep(0.002)
        return time.monotonic() - start

    def cpu(self) -> float:
        with open("/proc/%d/schedstat" % self.process.pid) as f:
            return int(f.read().split()[0]) / 1e9


def room_for_connections(wanted: int) -> int:
    """As many as RLIMIT_NOFILE allows, raising the soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(wanted, hard - 300)
    if soft < most + 300:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most + 300, hard))
    return most
