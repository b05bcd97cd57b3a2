"""What the way out costs, for bench/run: requests and a download through the proxy of a sandbox beside the same client
and server without it, and the memory of the egress process for each sandbox more."""
import json
import os
import socket
import subprocess
import sys
import threading

from programs import Failed, PYTHON, held_kb

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "lib"))

HOW = (  # key, label, unit, scale
    ("direct", "a request (GET, 100 bytes, kept alive), direct", "ms", 1e-3),
    ("proxied", "the same from a sandbox, by its proxy", "ms", 1e-3),
    ("adds", "what the proxy adds to the request", "ms", 1e-3),
    ("get_direct", "a download, direct", "MB/s", 1),
    ("get_proxied", "the same from a sandbox, by a tunnel (CONNECT)", "MB/s", 1),
    ("get_share", "of a direct download", "×", 1),
    ("sandbox", "memory of the egress process for a sandbox that has used it (private)", "KB", 1),
)
BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b"x" * 100
REQUESTS, SANDBOXES = 300, 20
DOWNLOAD = 256 << 20
CLIENT = '''
import json, socket, time
def connect(port, proxied, tunnel):
    s = socket.create_connection(("127.0.0.1", 3128 if proxied else port))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if proxied and tunnel:
        s.sendall(b"CONNECT localhost:%d HTTP/1.1\\r\\nHost: localhost:%d\\r\\n\\r\\n" % (port, port))
        assert b" 200 " in s.recv(200)
    return s
def requests(port, proxied, count):
    s = connect(port, proxied, False)
    ask = (b"GET http://localhost:%d/ HTTP/1.1\\r\\nHost: localhost:%d\\r\\n\\r\\n" if proxied
           else b"GET / HTTP/1.1\\r\\nHost: localhost:%d\\r\\n\\r\\n")
    ask = ask % ((port, port) if proxied else port)
    took = []
    for _ in range(count + 20):
        began = time.perf_counter()
        s.sendall(ask)
        got = b""
        while not got.endswith(b"x" * 100):
            piece = s.recv(4096)
            assert piece, got
            got += piece
        took.append((time.perf_counter() - began) * 1e6)
    return took[20:]
def download(port, proxied, size):
    s = connect(port, proxied, True)
    room = memoryview(bytearray(1 << 20))
    began = time.perf_counter()
    s.sendall(b"go")
    left = size
    while left > 0:
        n = s.recv_into(room)
        assert n, left
        left -= n
    return size / 1e6 / (time.perf_counter() - began)
'''


def serve(handle) -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                conn, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=handle, args=(conn,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener


def answer(conn: socket.socket) -> None:
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with conn:
        while conn.recv(65536):
            conn.sendall(BODY)


def send_file(conn: socket.socket) -> None:
    fd = os.memfd_create("download")
    with conn, open(fd, "w+b") as file:
        os.truncate(fd, DOWNLOAD)
        conn.recv(2)
        try:
            conn.sendfile(file)
            conn.recv(1)
        except OSError:
            pass  # a client that has ended


def egress_pid(warden: int) -> int:
    """The child of the warden that has /dev/null for input and output, and a filter."""
    with open("/proc/%d/task/%d/children" % (warden, warden), encoding="ascii") as file:
        for pid in file.read().split():
            with open("/proc/%s/status" % pid, encoding="ascii") as status:
                filtered = "Seccomp:\t2" in status.read()
            if filtered and [os.readlink("/proc/%s/fd/%d" % (pid, fd)) for fd in (0, 1)] == ["/dev/null"] * 2:
                return int(pid)
    raise Failed("the egress process is not found")


class Egress:
    def __init__(self, build: str) -> None:
        from krait_server import Server  # tests/lib, as wheels are

        self.web, self.files = serve(answer), serve(send_file)
        self.web_port, self.files_port = (one.getsockname()[1] for one in (self.web, self.files))
        hosts = "localhost:%d,localhost:%d" % (self.web_port, self.files_port)
        self.server = Server(program=os.path.join(build, "krait"), validate=False, args=[
            "--network", "allow:" + hosts, "--max-network", "open", "--egress-private-hosts", hosts,
            "--egress-max-bytes", "1T", "--egress-hour-bytes", "100T"])
        self.server.start()

    def close(self) -> None:
        self.server.close(False)
        for listener in (self.web, self.files):
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def inside(self, call: str, sandbox: str = "default"):
        reply = self.server.post("/api/v1/runs", {"code": CLIENT + "print(json.dumps(%s))" % call, "stream": False,
                                                  "sandbox_id": sandbox, "timeout": 120}).json()
        if reply.get("cause") != "ok":
            raise Failed("in the sandbox: %s" % (reply.get("stderr") or reply))
        return json.loads(reply["stdout"])

    @staticmethod
    def outside(call: str):
        done = subprocess.run([PYTHON, "-c", CLIENT + "print(json.dumps(%s))" % call], capture_output=True, text=True,
                              timeout=120)
        if done.returncode != 0:
            raise Failed(done.stderr[-300:])
        return json.loads(done.stdout)

    def round(self, rows: dict) -> None:
        direct = self.outside("requests(%d, False, %d)" % (self.web_port, REQUESTS))
        proxied = self.inside("requests(%d, True, %d)" % (self.web_port, REQUESTS))
        rows["egress_direct"].samples += direct
        rows["egress_proxied"].samples += proxied
        rows["egress_adds"].samples.append(sorted(proxied)[REQUESTS // 2] - sorted(direct)[REQUESTS // 2])
        rate = self.outside("download(%d, False, %d)" % (self.files_port, DOWNLOAD))
        through = self.inside("download(%d, True, %d)" % (self.files_port, DOWNLOAD))
        rows["egress_get_direct"].samples.append(rate)
        rows["egress_get_proxied"].samples.append(through)
        rows["egress_get_share"].samples.append(through / rate)

    def memory(self, row) -> None:
        """What the process has more after sandboxes that keep a session each."""
        pid = egress_pid(self.server.process.pid)
        before = held_kb(pid)[1]
        for _ in range(SANDBOXES):
            made = self.server.post("/api/v1/sandboxes", {}).json()["id"]
            self.inside("requests(%d, True, 20)" % self.web_port, made)
        row.samples.append((held_kb(pid)[1] - before) / SANDBOXES)


def measure(build: str, rounds: int, rows: dict) -> str:
    """Adds samples to rows["egress_" + key]. What must be said beside the table, or ""."""
    try:
        one = Egress(build)
    except (Failed, OSError, RuntimeError) as exc:
        for key, *_ in HOW:
            rows["egress_" + key].failed = str(exc)
        return "egress: %s" % exc
    try:
        for _ in range(rounds):
            one.round(rows)
        one.memory(rows["egress_sandbox"])
    except (Failed, OSError) as exc:
        for key, *_ in HOW:
            if not rows["egress_" + key].samples:
                rows["egress_" + key].failed = str(exc)
    finally:
        one.close()
    return "the way out: client and server are the same Python on both ways; a download has %d MiB" % (DOWNLOAD >> 20)
