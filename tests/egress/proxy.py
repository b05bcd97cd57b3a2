#!/usr/bin/python3
"""The proxy against servers and clients that close, reset and speak when they should not. An egress process without an
engine (tests/lib/egress.py), which has to be there afterwards, against servers on loopback."""
from __future__ import annotations

import ctypes
import os
import socket
import stat
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Callable

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from check import check, equal, main, skip  # noqa: E402
from egress import Cell, Egress  # noqa: E402

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


class Host:
    """A server whose connections are each answered by `serve`, in a thread of its own."""

    def __init__(self, serve: Callable[[socket.socket], None]):
        self.serve = serve
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.name = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.ended = threading.Semaphore(0)  # connections
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        try:
            while True:
                s, _ = self.listener.accept()
                s.settimeout(20)
                threading.Thread(target=self._run, args=(s,), daemon=True).start()
        except OSError:
            pass

    def _run(self, s: socket.socket) -> None:
        with s:
            try:
                self.serve(s)
            except OSError:
                pass
        self.ended.release()

    def __enter__(self) -> "Host":
        return self

    def __exit__(self, *_) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def wait(self) -> None:
        assert self.ended.acquire(timeout=20), "the server's connection does not end"


def head(s: socket.socket) -> bytes:
    got = b""
    while b"\r\n\r\n" not in got:
        piece = s.recv(1)
        assert piece, "closed after %r" % got
        got += piece
    return got


def connect(cell: Cell) -> socket.socket:
    return socket.create_connection(("127.0.0.1", cell.port), 20)


def ask(s: socket.socket, host: str) -> bytes:
    s.sendall(("GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n" % (host, host)).encode())
    return head(s) + s.recv(2)


def reset(s: socket.socket) -> None:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


# ---- between two requests ----


def is_asked_again(last: Callable[[socket.socket], None]) -> None:
    """What a server does to a connection that lies open between two requests is nothing to its client."""
    def serve(s: socket.socket) -> None:
        head(s)
        s.sendall(REPLY)
        go_on.acquire(timeout=20)
        last(s)

    go_on = threading.Semaphore(0)
    with Host(serve) as host, Egress(private_hosts=[host.name]) as egress:
        with connect(egress.cell()) as s:
            equal(ask(s, host.name), REPLY)
            go_on.release()
            host.wait()
            go_on.release()
            equal(ask(s, host.name), REPLY)


@check
def a_server_closes_between_two_requests():
    is_asked_again(lambda s: None)


@check
def a_server_resets_between_two_requests():
    is_asked_again(reset)


@check
def a_server_speaks_between_two_requests():
    is_asked_again(lambda s: s.sendall(REPLY))


@check
def a_body_is_no_request():
    """Some servers leave the body of a GET unread, and would read it as their next request."""
    class Careless(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        asked: list[str] = []

        def log_message(self, *_) -> None:
            pass

        def do_GET(self) -> None:
            self.asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"hi")

    with ThreadingHTTPServer(("127.0.0.1", 0), Careless) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = "127.0.0.1:%d" % server.server_port
        with Egress(private_hosts=[host]) as egress:
            cell = egress.cell(rule="allow:http://%s/pub/*" % host)
            inner = ("GET /secret HTTP/1.1\r\nHost: %s\r\n\r\n" % host).encode()
            equal(cell.get("http://%s/pub/a" % host, host=host, body=inner)[0], 200)
            equal(cell.get("http://%s/pub/b" % host, host=host)[0], 200)
        server.shutdown()
    equal(Careless.asked, ["/pub/a", "/pub/b"])


# ---- ends ----


@check
def an_end_is_told_on_whenever_it_comes():
    """Also as the last thing that one turn of the loop has time for."""
    data = b"x" * 3000000

    def serve(s: socket.socket) -> None:
        while piece := s.recv(65536):
            s.sendall(piece)

    def send(s: socket.socket) -> None:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)

    with Host(serve) as host, Egress(private_hosts=[host.name]) as egress:
        cell = egress.cell()
        for _ in range(80):
            with connect(cell) as s:
                s.sendall(("CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (host.name, host.name)).encode())
                head(s)
                sender = threading.Thread(target=send, args=(s,))
                sender.start()
                back = 0
                while piece := s.recv(65536):
                    back += len(piece)
                sender.join()
                equal(back, len(data))


# ---- another rule ----


def hidden_hello() -> bytes:
    """A ClientHello with an encrypted one inside."""
    body = b"\3\3" + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0" + b"\0\x0c" + b"\xfe\x0d\0\x08" + bytes(8)
    message = b"\1" + len(body).to_bytes(3, "big") + body
    return b"\x16\3\1" + len(message).to_bytes(2, "big") + message


@check
def a_narrower_rule_ends_what_hides_its_host():
    """The next run's rule names the host, but not for whom the TLS inside is."""
    def serve(s: socket.socket) -> None:
        while piece := s.recv(999):  # what is sent in two pieces may come as one
            if piece.endswith(b"!"):
                s.sendall(b"go on")

    with Host(serve) as host, Egress(private_hosts=[host.name]) as egress:
        for hello, verdict in ((b"plain", "ok"), (hidden_hello(), "denied")):
            cell = egress.cell(rule="open")
            with connect(cell) as s:
                s.sendall(("CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (host.name, host.name)).encode())
                head(s)
                s.sendall(hello)
                equal(cell.get("/")[0], 404)  # the words before it have been read
                cell.change(rule="allow:" + host.name)
                equal(cell.get("/")[0], 404)
                if verdict == "ok":
                    s.sendall(b"!")
                    equal(s.recv(9), b"go on")
                    s.shutdown(socket.SHUT_WR)
                egress.row(lambda row: row["how"] == "connect" and row["verdict"] == verdict)


# ---- buffers ----


def sockets_to(port: int, pids: list[int]) -> list[int]:
    """The room for what comes in, of each socket of these processes whose peer has this port."""
    libc, found = ctypes.CDLL(None, use_errno=True), []
    for pid in pids:
        pidfd = os.pidfd_open(pid)
        for name in os.listdir("/proc/%d/fd" % pid):
            fd = libc.syscall(438, pidfd, int(name), 0)  # pidfd_getfd
            if fd < 0:
                continue
            if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.close(fd)
                continue
            with socket.socket(fileno=fd) as s:
                try:
                    if s.family == socket.AF_INET and s.getpeername()[1] == port:
                        found.append(s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
                except OSError:  # a listening one
                    pass
        os.close(pidfd)
    return found


def family(pid: int) -> list[int]:
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as file:
        return [pid] + [one for child in file.read().split() for one in family(int(child))]


@check
def many_connections_have_small_buffers():
    """Of one sandbox; the first 16 of another one have what the kernel gives."""
    if os.geteuid() != 0:
        skip("needs root: the sockets of another process")
    with Host(lambda s: s.recv(1)) as host, Egress(private_hosts=[host.name]) as egress:
        port, small = int(host.name.split(":")[1]), 2 * (96 << 10)  # the kernel doubles what it is told
        for sandbox, count, wanted in (("crowded", 20, 4), ("other", 3, 4)):
            cell = egress.cell(sandbox=sandbox)
            held = []
            for _ in range(count):  # in turn: what counts is how many there are when the server is connected to
                held.append(s := connect(cell))
                s.sendall(("CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (host.name, host.name)).encode())
                head(s)
            rooms = sockets_to(port, family(egress.process.pid))
            equal(rooms.count(small), wanted, "%s of %s" % (sandbox, rooms))
            if sandbox == "crowded":
                kept = held
        for s in kept + held:
            s.close()


# ---- counted ----


@check
def what_a_reset_follows_is_counted():
    """The bytes of one turn, of which the last call fails."""
    def serve(s: socket.socket) -> None:
        try:
            while piece := s.recv(1 << 20):
                taken.append(len(piece))
        except ConnectionError:
            pass

    taken: list[int] = []
    with Host(serve) as host, Egress(private_hosts=[host.name]) as egress:
        cell = egress.cell()
        for count in range(1, 9):
            s = connect(cell)
            s.sendall(("CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (host.name, host.name)).encode())
            head(s)
            s.sendall(b"x" * 300000)
            reset(s)
            host.wait()
            egress.row(lambda row: len(egress.rows) == count)
        told = sum(row["sent"] for row in egress.rows)
        assert told >= sum(taken), "%d bytes came, %d were told" % (sum(taken), told)


main()
