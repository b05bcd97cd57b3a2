"""What the way out costs, for bench/run: requests and a download through the proxy of a sandbox beside the same client
and server without it, and the memory of the egress process for each sandbox more."""
import contextlib
import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from typing import Iterator

from programs import Failed, PYTHON, held_kb

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "lib"))

HOW = (  # key, label, unit, scale
    ("direct", "a request (GET, 100 bytes, kept alive), direct", "ms", 1e-3),
    ("proxied", "the same from a sandbox, by its proxy", "ms", 1e-3),
    ("adds", "what the proxy adds to the request", "ms", 1e-3),
    ("get_direct", "a download on loopback, direct", "MB/s", 1),
    ("get_proxied", "the same from a sandbox, by a tunnel (CONNECT)", "MB/s", 1),
    ("get_share", "of a direct download", "×", 1),
    ("link_direct", "a download over a link of 1 Gbit/s, direct", "MB/s", 1),
    ("link_proxied", "the same from a sandbox, by a tunnel (CONNECT)", "MB/s", 1),
    ("link_plain", "the same from a sandbox, by plain HTTP", "MB/s", 1),
    ("link_share", "of a direct download over the link: the tunnel", "×", 1),
    ("link_plain_share", "of a direct download over the link: plain HTTP", "×", 1),
    ("sandbox", "memory of the egress process for a sandbox that has used it (private)", "KB", 1),
)
BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b"x" * 100
REQUESTS, SANDBOXES = 300, 20
DOWNLOAD, LINK_DOWNLOAD = 256 << 20, 64 << 20
CLONE_NEWNET = 0x40000000
NEAR, FAR = "10.91.0.1", "10.91.0.2"  # the two ends of the link, in namespaces of their own
CLIENT = '''
import json, socket, time
HOST = "localhost"
def connect(port, proxied, tunnel):
    s = socket.create_connection(("127.0.0.1", 3128) if proxied else (HOST, port))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if proxied and tunnel:
        there = b"%s:%d" % (HOST.encode(), port)
        s.sendall(b"CONNECT %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % (there, there))
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
def download(port, proxied, size, plain=False):
    s = connect(port, proxied, not plain)
    room = memoryview(bytearray(1 << 20))
    began = time.perf_counter()
    there = "%s:%d" % (HOST, port)
    s.sendall(("GET %s/ HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % ("http://" + there if plain else "", there)).encode())
    left = size
    while left > 0:
        n = s.recv_into(room)
        assert n, left
        left -= n
    return size / 1e6 / (time.perf_counter() - began)
'''


def serve(handle, address: str = "127.0.0.1") -> socket.socket:
    listener = socket.create_server((address, 0))

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


def send_file(conn: socket.socket, size: int = DOWNLOAD) -> None:
    fd = os.memfd_create("download")
    with conn, open(fd, "w+b") as file:
        os.truncate(fd, size)
        conn.recv(4096)
        try:
            conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % size)
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


def enter(fd: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, CLONE_NEWNET) < 0:
        raise OSError(ctypes.get_errno(), "setns")


def command(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20)
    if done.returncode != 0:
        raise Failed("%s: %s" % (" ".join(argv[:4]), done.stderr.strip()[-200:]))


@contextlib.contextmanager
def linked() -> Iterator[socket.socket]:
    """This thread, and what it starts, at one end of a link of 1 Gbit/s; a server of files at the other."""
    if os.geteuid() != 0:
        raise Failed("a link needs root")
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    ends = []
    try:
        for _ in range(2):
            with subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; read end"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE) as holder:
                holder.stdout.read(1)
                ends.append(os.open("/proc/%d/ns/net" % holder.pid, os.O_RDONLY))
                holder.stdin.close()
        enter(ends[0])
        command("ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns",
                "/proc/%d/fd/%d" % (os.getpid(), ends[1]))
        for end, name, address in zip(ends, ("near", "far"), (NEAR, FAR)):
            enter(end)
            command("ip", "addr", "add", address + "/24", "dev", name)
            for one in ("lo", name):
                command("ip", "link", "set", one, "up")
            command("tc", "qdisc", "add", "dev", name, "root", "tbf", "rate", "1gbit", "burst", "256kb", "latency", "20ms")
        listener = serve(lambda conn: send_file(conn, LINK_DOWNLOAD), FAR)
        enter(ends[0])
        yield listener
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
    finally:
        enter(home)
        for fd in [home, *ends]:
            os.close(fd)


def new_server(build: str, hosts: str):
    from krait_server import Server  # tests/lib, as wheels are

    return Server(program=os.path.join(build, "krait"), validate=False, args=[
        "--network", "allow:" + hosts, "--max-network", "open", "--egress-private-hosts", hosts,
        "--egress-max-bytes", "1T", "--egress-hour-bytes", "100T"])


def inside(server, code: str, sandbox: str = "default"):
    reply = server.post("/api/v1/runs", {"code": CLIENT + code, "stream": False, "sandbox_id": sandbox,
                                         "timeout": 120}).json()
    if reply.get("cause") != "ok":
        raise Failed("in the sandbox: %s" % (reply.get("stderr") or reply))
    return json.loads(reply["stdout"])


def outside(code: str):
    done = subprocess.run([PYTHON, "-c", CLIENT + code], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise Failed(done.stderr[-300:])
    return json.loads(done.stdout)


def told(call: str) -> str:
    return "print(json.dumps(%s))" % call


class Egress:
    def __init__(self, build: str) -> None:
        self.web, self.files = serve(answer), serve(send_file)
        self.web_port, self.files_port = (one.getsockname()[1] for one in (self.web, self.files))
        self.server = new_server(build, "localhost:%d,localhost:%d" % (self.web_port, self.files_port))
        self.server.start()

    def close(self) -> None:
        self.server.close(False)
        for listener in (self.web, self.files):
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def round(self, rows: dict) -> None:
        direct = outside(told("requests(%d, False, %d)" % (self.web_port, REQUESTS)))
        proxied = inside(self.server, told("requests(%d, True, %d)" % (self.web_port, REQUESTS)))
        rows["egress_direct"].samples += direct
        rows["egress_proxied"].samples += proxied
        rows["egress_adds"].samples.append(sorted(proxied)[REQUESTS // 2] - sorted(direct)[REQUESTS // 2])
        rate = outside(told("download(%d, False, %d)" % (self.files_port, DOWNLOAD)))
        through = inside(self.server, told("download(%d, True, %d)" % (self.files_port, DOWNLOAD)))
        rows["egress_get_direct"].samples.append(rate)
        rows["egress_get_proxied"].samples.append(through)
        rows["egress_get_share"].samples.append(through / rate)

    def memory(self, row) -> None:
        """What the process has more after sandboxes that keep a session each."""
        pid = egress_pid(self.server.process.pid)
        before = held_kb(pid)[1]
        for _ in range(SANDBOXES):
            made = self.server.post("/api/v1/sandboxes", {}).json()["id"]
            inside(self.server, told("requests(%d, True, 20)" % self.web_port), made)
        row.samples.append((held_kb(pid)[1] - before) / SANDBOXES)


def over_a_link(build: str, rounds: int, rows: dict) -> None:
    """What a network leaves of the difference."""
    with linked() as listener:
        port, head = listener.getsockname()[1], "HOST = %r\n" % FAR
        server = new_server(build, "%s:%d" % (FAR, port))
        server.start()
        try:
            for _ in range(rounds):
                call = head + told("download(%d, %%s, %d%%s)" % (port, LINK_DOWNLOAD))
                direct = outside(call % ("False", ""))
                tunnel, plain = (inside(server, call % ("True", how)) for how in ("", ", True"))
                for key, value in (("direct", direct), ("proxied", tunnel), ("plain", plain),
                                   ("share", tunnel / direct), ("plain_share", plain / direct)):
                    rows["egress_link_" + key].samples.append(value)
        finally:
            server.close(False)


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
    try:
        over_a_link(build, rounds, rows)
    except (Failed, OSError, RuntimeError) as exc:
        for key, *_ in HOW:
            if key.startswith("link_") and not rows["egress_" + key].samples:
                rows["egress_" + key].failed = str(exc)
    return "the way out: client and server are the same Python on both ways; a download has %d MiB" % (DOWNLOAD >> 20)
