#!/usr/bin/python3
"""The HTTP engine from outside: a real server, real sockets, hostile peers. Run by tests/run.

Beside each refusal stands what must still work. Figures are bounds, not measurements.
"""
import gzip
import os
import random
import re
import socket
import sys
import threading
import time
import zlib

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib")]
from cases import CASES, NEXT  # noqa: E402
from check import check, equal, main, skip  # noqa: E402
from client import SANITIZED, Conn, Server, room_for_connections  # noqa: E402

MB = 1 << 20
MEMORY_SLACK = (64 if SANITIZED else 3) * MB  # what freed memory the allocator may keep


def bounded(before: int, after: int, what: str) -> None:
    assert after - before < MEMORY_SLACK, "%s: %d KB more memory" % (what, (after - before) // 1024)


# ---- malformed requests ----

def try_case(server: Server, name: str, status: int, data: bytes, pieces: list[bytes]) -> None:
    with server.conn() as c:
        for piece in pieces:
            if not c.try_send(piece):
                break
        got = c.answer()
        equal(got.status, status, name)
        if status == 200:
            equal(c.get("/hello").body, b"hello", name + ": the next request")
            return
        equal(got.headers.get("connection"), "close", name)
        assert c.ended(), name + ": the connection stays open"
        equal(c.rest, b"", name + ": something was answered behind the refusal")


@check
def malformed_requests_are_refused() -> None:
    with Server(linger_ms=300) as server:
        for name, status, data in CASES:
            half = len(data) // 2
            try_case(server, name, status, data, [data])
            try_case(server, name + ", in two", status, data, [data[:half], data[half:]])
            if len(data) < 400:
                single = [data[i:i + 1] for i in range(len(data))]
                try_case(server, name + ", byte by byte", status, data, single)


# ---- what works ----

@check
def requests_follow_each_other() -> None:
    with Server() as server, server.conn() as c:
        for i in range(50):
            equal(c.get("/hello").body, b"hello")
            equal(c.ask("POST", "/echo", body=b"x" * i).body, b"x" * i)
        equal(server.stats()["connections_total"], 2)


@check
def pipelined_requests_are_answered_in_order() -> None:
    paths = ["/later/%d?%d" % ((i * 7) % 20, i) if i % 3 else "/about?%d" % i for i in range(60)]
    with Server() as server, server.conn() as c:
        c.send(b"".join(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % p.encode() for p in paths))
        for i, path in enumerate(paths):
            a = c.answer()
            equal(a.body.decode() if path.startswith("/later") else a.json["query"], str(i))


@check
def methods() -> None:
    with Server() as server, server.conn() as c:
        a = c.ask("HEAD", "/hello")
        equal((a.status, a.headers["content-length"]), (200, "5"))
        equal(c.ask("HEAD", "/stream/1").status, 200)
        equal(c.ask("HEAD", "/nope").status, 404)
        a = c.ask("OPTIONS", "/files/one")
        equal((a.status, a.headers["allow"]), (204, "GET, HEAD, PUT, OPTIONS"))
        a = c.ask("OPTIONS", "*")
        equal((a.status, a.headers["allow"]), (204, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"))
        a = c.ask("DELETE", "/hello")
        equal((a.status, a.headers["allow"]), (405, "GET, HEAD, OPTIONS"))
        equal(c.ask("POST", "/nope", body=b"abc").status, 404)
        equal(c.ask("PUT", "/files/one", body=b"abc").body, b"abc")
        for method in ("BREW", "get", "TRACER"):
            equal(c.ask(method, "/hello").status, 501)
        for method in ("TRACE", "CONNECT", "QUERY", "PROPFIND", "UPDATEREDIRECTREF"):  # methods of HTTP that are served nowhere
            a = c.ask(method, "/hello")
            equal((a.status, a.headers["allow"]), (405, "GET, HEAD, OPTIONS"))
        equal(c.ask("TRACE", "/nope").status, 404)
        equal(c.get("/hello").status, 200)


@check
def http_1_0() -> None:
    with Server() as server:
        for lines, stays in (("", False), ("Connection: keep-alive\r\n", True)):
            with server.conn() as c:
                c.send(("GET /hello HTTP/1.0\r\n%s\r\n" % lines).encode())
                a = c.answer()
                equal((a.status, a.body), (200, b"hello"))
                equal(a.headers["connection"], "keep-alive" if stays else "close")
                if stays:
                    equal(c.get("/hello").status, 200)
                else:
                    assert c.ended()
        with server.conn() as c:  # a stream has no length: it goes on until the end
            c.send(b"GET /stream/3 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            a = c.answer()
            equal((len(a.body), a.headers.get("transfer-encoding")), (3 * MB, None))


def settled(c: Conn) -> None:
    """No body is held any more, and nothing waits."""
    until = time.monotonic() + 10
    while c.get("/stats").json["collected"] != 0:
        assert time.monotonic() < until, c.get("/stats").json


@check
def coded_bodies_are_decoded_within_the_limit() -> None:
    text = bytes(range(256)) * 3000
    with Server() as server, server.conn() as c:
        for coding, body, plain in (
                ("gzip", gzip.compress(b"short"), b"short"), ("x-gzip", gzip.compress(b"short"), b"short"),
                ("GZIP", gzip.compress(b""), b""), ("deflate", zlib.compress(b"short"), b"short"),
                ("gzip", gzip.compress(text), text), ("deflate", zlib.compress(text), text),
                ("gzip", gzip.compress(b"one ") + gzip.compress(b"two"), b"one two"),
                ("gzip", gzip.compress(text[:9000], 0), text[:9000]),
                ("gzip", gzip.compress(b"\0" * MB), b"\0" * MB), ("identity", b"as it is", b"as it is")):
            a = c.ask("POST", "/echo", "Content-Encoding: " + coding, body=body)
            equal((a.status, a.body), (200, plain), (coding, len(body)))
        small, large = gzip.compress(b"short"), gzip.compress(os.urandom(50000))
        for name, status, coding, body in (
                ("nothing", 400, "gzip", b"x"), ("not gzip", 400, "gzip", b"plain text"),
                ("deflate called gzip", 400, "gzip", zlib.compress(b"short")),
                ("cut off", 400, "gzip", small[:-1]), ("cut off in its data", 400, "gzip", large[:40000]),
                ("without its sum", 400, "gzip", small[:-8]), ("wrong sum", 400, "gzip", small[:-8] + b"\0" * 8),
                ("garbage behind", 400, "gzip", small + b"garbage"),
                ("garbage behind a large one", 400, "gzip", large + b"x"),
                ("garbage behind deflate", 400, "deflate", zlib.compress(b"short") + b"x"),
                ("two coded as one", 200, "gzip", gzip.compress(small)),  # the control: decoded once, as it says
                ("two codings", 415, "gzip, gzip", gzip.compress(small)), ("unknown", 415, "br", b"x"),
                ("bomb", 413, "gzip", gzip.compress(b"\0" * (64 * MB))),
                ("bomb of members", 413, "gzip", gzip.compress(b"\0" * MB) * 3),
                ("bomb of deflate", 413, "deflate", zlib.compress(b"\0" * (8 * MB)))):
            a = c.ask("POST", "/echo", "Content-Encoding: " + coding, body=body)
            equal(a.status, status, name)
            if status == 415:
                equal(a.headers["accept-encoding"], "gzip, deflate", name)
            if status == 413:
                assert b"1048576 bytes" in a.body, a.body
            if name == "two coded as one":
                equal(a.body, small)
        c.ask("POST", "/echo", "Content-Encoding: gzip", "Content-Encoding: gzip", body=small)
        equal(c.ask("POST", "/echo", "Content-Encoding: gzip", "Content-Encoding: gzip", body=small).status, 415)
        with server.conn() as d:  # in chunks
            d.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n")
            for i in range(0, len(small), 5):
                d.send(b"%x\r\n%s\r\n" % (len(small[i:i + 5]), small[i:i + 5]))
            d.send(b"0\r\n\r\n")
            equal(d.answer().body, b"short")
        with server.conn() as d:  # what is streamed is taken as it is, or not at all
            a = d.ask("PUT", "/upload", "Content-Encoding: gzip", body=small)
            equal((a.status, a.headers["accept-encoding"]), (415, "identity"))
        for _ in range(20):  # leaving while a thread decodes
            with server.conn() as d:
                d.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
                       % len(large) + large)
                d.reset()
        settled(c)


@check
def answers_are_compressed_for_who_asks() -> None:
    with Server() as server, server.conn() as c:
        for size, asked, coded in ((100, "gzip", False), (2000, "gzip", True), (2000, "br, gzip;q=0.5", True),
                                   (2000, "*", True), (2000, "gzip;q=0, *", False), (2000, "identity", False),
                                   (2000, "", False), (900000, "gzip", True), (900000, "", False)):
            a = c.ask("GET", "/text/%d" % size, *(["Accept-Encoding: " + asked] if asked else []))
            plain = gzip.decompress(a.body) if coded else a.body
            equal((a.status, a.headers.get("content-encoding"), len(plain)),
                  (200, "gzip" if coded else None, size), asked)
            equal(a.headers.get("vary"), "Accept-Encoding" if size >= 1024 else None)
            assert plain == (b"krait speaks " * (size // 13 + 1))[:size]
        gzipped = "Accept-Encoding: gzip"
        equal(c.ask("GET", "/text/2000?tag", gzipped).headers.get("content-encoding"), None)  # its bytes are its tag's
        equal(c.ask("HEAD", "/text/2000", gzipped).headers.get("content-encoding"), "gzip")
        for path in ("/stream/1", "/ndjson/100", "/big/1"):  # streams, and what is no text
            equal(c.ask("GET", path, gzipped).headers.get("content-encoding"), None, path)
        for _ in range(20):  # leaving while a thread compresses
            with server.conn() as d:
                d.send(b"GET /text/900000 HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n")
                d.reset()
        settled(c)
        with server.conn() as d:  # in order, also when one waits for a thread
            d.send(b"GET /text/900000 HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"
                   b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
            equal(len(gzip.decompress(d.answer().body)), 900000)
            equal(d.answer().body, b"hello")


@check
def parameters_and_what_a_request_says() -> None:
    with Server() as server, server.conn() as c:
        a = c.get("/about/x%20y/%C3%A9?q=%20&r", "X-TEST:  v w ").json
        equal((a["a"], a["b"], a["query"], a["x"]), ("x y", "\u00e9", "q=%20&r", "v w"))
        equal((a["peer"], a["tag"], a["pattern"]), ("127.0.0.1", 1, "/about/{a}/{b}"))
        equal(c.get("/about/x/fixed").json["pattern"], "/about/{a}/fixed")
        equal(c.get("/files/a/b%20c/").json["path"], "a/b c/")
        for path in ("/files/a%2Fb%20c%2f", "/files/a/b%20c%2F", "/files/a%2Fb%20c/"):  # within the rest of a path
            equal(c.get(path).json["path"], "a/b c/", path)
        equal(c.get("/files/a%252Fb").json["path"], "a%2Fb")  # decoded once
        for path in ("/about/a%2fb/c", "/about/%00/c", "/about/%zz/c", "/files/a/../b", "/files/%2e%2e/b",
                     "/files/a%2F..%2Fb", "/files/..%2fb", "/files/a%2F%2E%2e", "/files/a%2f.", "/files/a%5cb",
                     "/about%2Fx/c", "/files%2Fa", "/hello%2F", "/%2F", "/about/x%2Ffixed", "/about/x/%2F",
                     "/about/%ff/c"):
            equal(c.get(path).status, 400, path)
        with Conn(server.other) as other, Conn(server.unix) as unix:
            equal(other.get("/about").json["tag"], 2)
            equal((unix.get("/about").json["peer"], unix.get("/about").json["tag"]), ("unix", 3))


@check
def headers_of_an_answer() -> None:
    with Server() as server, server.conn() as c:
        h = c.get("/hello").headers
        for name in ("x-content-type-options", "referrer-policy", "x-frame-options", "content-security-policy"):
            assert name in h, name
        assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", h["date"]), h["date"]
        equal(h["cache-control"], "no-store")
        equal(c.get("/about").headers["cache-control"], "max-age=60")  # set by its handler, not twice
        assert "x-content-type-options" in c.get("/nope").headers
        a, b = c.get("/hello").headers["x-request-id"], c.get("/hello").headers["x-request-id"]
        assert a != b and re.fullmatch("[0-9a-f]{16}", a), a
        for good in ("abc-DEF_1.2:3", "x" * 128):
            equal(c.get("/hello", "X-Request-ID: " + good).headers["x-request-id"], good)
        for bad in ("", "x" * 129, "a b", "<b>", "a\u00e9"):
            got = c.get("/hello", "X-Request-ID: " + bad).headers["x-request-id"]
            assert re.fullmatch("[0-9a-f]{16}", got), got


@check
def the_gate_is_asked_before_the_body() -> None:
    with Server() as server, server.conn() as c:
        a = c.ask("PUT", "/upload", "X-Forbidden: 1", "Expect: 100-continue", "Content-Length: 5")
        equal((a.status, a.interim), (401, []))
        with server.conn() as d:
            equal(d.ask("GET", "/nope", "X-Forbidden: 1").status, 401)
            equal(d.get("/nope").status, 404)


@check
def bodies_have_a_limit() -> None:
    with Server() as server, server.conn() as c:
        equal(c.ask("POST", "/taken", body=b"x" * 1024).body, b"x" * 1024)
        equal(c.ask("POST", "/taken", body=b"").body, b"")
        equal(c.ask("POST", "/taken", "X-Limit: 4096", body=b"x" * 4096).body, b"x" * 4096)  # the gate's own
        equal(c.ask("PUT", "/upload", "X-Limit: 10", body=b"x" * 10).body, b"10")
        equal(c.ask("GET", "/hello", body=b"x" * 65536).status, 200)  # the handler does not take it: dropped
        for method, path, lines, size in (("POST", "/taken", [], 1025), ("POST", "/taken", ["X-Limit: 10"], 11),
                                          ("PUT", "/upload", ["X-Limit: 10"], 11), ("GET", "/hello", [], 65537)):
            with server.conn() as d:
                equal(d.ask(method, path, *lines, body=b"x" * size).status, 413, path)
                assert d.ended() and d.rest == b""


@check
def expect_100_continue() -> None:
    with Server() as server:
        with server.conn() as c:
            c.send(b"PUT /upload HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
            equal(c.head()[0], 100)
            c.send(b"abc")
            equal(c.answer().body, b"3")
            c.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
            equal(c.head()[0], 100)
            c.send(b"abc")
            equal(c.answer().body, b"abc")
            equal(c.ask("GET", "/hello", "Expect: 100-continue").interim, [])
        for path, size, status in (("/refuse", 3, 403), ("/echo", 2 * MB, 413), ("/nope", 3, 404)):
            with server.conn() as c:  # who is refused is not asked for the body
                a = c.ask("POST", path, "Expect: 100-continue", "Content-Length: %d" % size)
                equal((a.status, a.interim), (status, []), path)
                assert c.ended()


@check
def early_answers() -> None:
    with Server() as server:
        with server.conn() as c:
            equal(c.ask("POST", "/refuse", body=b"x" * 1000).status, 403)
            equal(c.get("/hello").status, 200)  # a short body is dropped, the connection goes on
            c.send(b"POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
            equal(c.answer().status, 403)
            c.send(b"def" + NEXT)
            equal(c.answer().body, b"hello")
        for path, status in (("/refuse", 403), ("/early", 202)):
            with server.conn() as c:  # a long one is read on for a while, so that the answer arrives
                c.send(b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n" % path.encode())
                assert c.try_send(b"x" * 2000000), path
                a = c.answer()
                equal((a.status, a.headers["connection"]), (status, "close"))
                assert c.ended()


@check
def answers_that_go_wrong() -> None:
    with Server() as server:
        with server.conn() as c:
            equal(c.get("/nothing").status, 500)
            equal(c.get("/hello").status, 200)
        with server.conn() as c:  # less than it said: the peer sees that it was cut
            c.send(b"GET /short HTTP/1.1\r\nHost: a\r\n\r\n")
            equal(c.head()[1]["content-length"], "100")
            assert c.ended() and len(c.rest) < 100
        with server.conn() as c:  # more than it said: none of that can pass for an answer
            c.send(b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n" + NEXT)
            assert c.ended() and c.rest.count(b"HTTP/1.1") <= 1, c.rest


# ---- streams ----

@check
def large_answers_arrive_whole() -> None:
    with Server() as server, server.conn() as c:
        equal(c.get("/big/20").body, b"b" * (20 * MB))
        equal(c.get("/fixed/20").body, b"s" * (20 * MB))
        equal(len(c.get("/stream/20").body), 20 * MB)
        equal(c.get("/hello").status, 200)


@check
def ndjson_and_events() -> None:
    with Server() as server, server.conn() as c:
        a = c.get("/ndjson/1000")
        equal(a.headers["content-type"], "application/x-ndjson; charset=utf-8")
        equal(a.body, b"".join(b'{"seq":%d}\n' % i for i in range(1000)))
        a = c.get("/events/2")
        equal(a.headers["content-type"], "text/event-stream")
        event = b"event: tick\nid: %d\ndata: one\ndata: two\ndata: three\ndata: four\n\n"
        equal(a.body, event % 0 + event % 1 + b"data: \n\n")


@check
def silent_event_streams_have_a_heartbeat() -> None:
    with Server(beat_ms=100) as server, server.conn() as c:
        c.send(b"GET /sse HTTP/1.1\r\nHost: a\r\n\r\n")
        equal(c.head()[1]["x-accel-buffering"], "no")
        equal(c.chunk(), b"event: hello\ndata: {}\n\n")
        for _ in range(3):
            assert re.fullmatch(rb": ping - [^\n]+\n\n", c.chunk())


# ---- slow peers ----

def drip(c: Conn, data: bytes, pause: float, most: float) -> float:
    """Sends byte by byte until the server answers or ends; seconds."""
    start = time.monotonic()
    for byte in data:
        if time.monotonic() - start > most or not c.silent(pause) or not c.try_send(bytes([byte])):
            break
    return time.monotonic() - start


@check
def slow_heads_are_cut() -> None:
    with Server(head_ms=2500) as server:
        with server.conn() as c:
            took = drip(c, b"GET /hello HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 1000, 0.05, 15)
            equal(c.answer().status, 408)
            assert c.ended() and 2 < took < 15, took
        with server.conn() as c:  # slow, but in time
            drip(c, NEXT, 0.005, 5)
            equal(c.answer().status, 200)
            took = drip(c, b"GET /hello HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 1000, 0.05, 15)
            equal(c.answer().status, 408)  # not only on a new connection
            assert took < 15, took
        with server.conn() as c:
            assert c.silent(1) and c.ended() and c.rest == b""  # nothing said, nothing answered
        assert server.stats()["timeouts"] >= 3


@check
def idle_connections_are_closed() -> None:
    with Server(idle_ms=3000, head_ms=9000) as server, server.conn() as c:
        for _ in range(3):  # each request starts the time anew
            equal(c.get("/hello").status, 200)
            assert c.silent(1.5)
        assert c.ended() and c.rest == b""


@check
def slow_bodies_are_cut() -> None:
    with Server(body_ms=1500, body_min_bytes=1000) as server:
        for path in ("/echo", "/upload"):
            method = b"POST" if path == "/echo" else b"PUT"
            head = b"%s %s HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" % (method, path.encode())
            with server.conn() as c:
                c.send(head)
                took = drip(c, b"x" * 1000, 0.02, 15)
                equal(c.answer().status, 408, path)
                assert c.ended() and 1.2 < took < 15, took
            with server.conn() as c:  # slow, but with progress
                c.send(head)
                for _ in range(20):
                    assert c.silent(0.2)
                    c.send(b"x" * 5000)
                equal(c.answer().status, 200, path)
        equal(server.stats()["gone"], 1)  # the handler of the upload was notified


@check
def a_reader_that_stops_is_cut() -> None:
    with Server(write_ms=2000) as server:
        with server.conn(rcvbuf=4096) as c:
            c.send(b"GET /stream/200 HTTP/1.1\r\nHost: a\r\n\r\n")
            assert 1.5 < server.wait_for("gone", 1), "too early"
        with server.conn() as c:  # a reader that pauses, but not so long
            c.send(b"GET /stream/60 HTTP/1.1\r\nHost: a\r\n\r\n")
            c.head()
            time.sleep(1)
            total = 0
            while piece := c.chunk():
                total += len(piece)
            equal(total, 60 * MB)


@check
def a_slow_reader_does_not_cost_memory() -> None:
    with Server() as server:
        server.conn().get("/stream/20")
        start = server.stats()
        before = start["rss"]
        with server.conn(rcvbuf=4096) as c:
            c.send(b"GET /stream/200 HTTP/1.1\r\nHost: a\r\n\r\n")
            got = 0
            for _ in range(40):
                got += len(c.sock.recv(1024))
                time.sleep(0.02)
                bounded(before, server.stats()["rss"], "a reader of 50 KB/s")
            assert got > 10000, got
            sent = server.stats()["bytes_out"] - start["bytes_out"]
            assert sent < MB, "the kernel was given %d KB that the client does not read" % (sent // 1024)
        server.wait_for("gone", 1)
        with server.conn() as c:  # a fast one gets it all
            equal(len(c.get("/stream/200").body), 200 * MB)


@check
def answers_without_a_reader_do_not_cost_memory() -> None:
    count = 30000
    with Server() as server, server.conn() as c:
        equal(c.get("/hello").status, 200)
        before = server.stats()["rss"]
        sender = threading.Thread(target=c.send, args=(NEXT * count,))
        sender.start()
        time.sleep(0.5)
        bounded(before, server.stats()["rss"], "unread answers")
        for _ in range(count):
            equal(c.answer().body, b"hello")
        sender.join()


# ---- peers that leave, and peers that flood ----

LEAVING = {"fin": Conn.close, "rst": Conn.reset, "half": lambda c: c.sock.shutdown(socket.SHUT_WR)}


@check
def a_peer_that_leaves_is_noticed_at_once() -> None:
    with Server() as server:
        gone = 0
        for path in ("/pending", "/sse", "/stream/100"):
            for how, leave in LEAVING.items():
                c = server.conn()
                c.send(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode())
                server.wait_for("exchanges", 2)
                leave(c)
                gone += 1
                took = server.wait_for("gone", gone)
                assert took < 10, "%s %s: %.3f s" % (path, how, took)  # no limit of the server's is as short
                c.close()
        with server.conn() as c:  # while it stays, no handler is notified that it left
            c.send(b"GET /pending HTTP/1.1\r\nHost: a\r\n\r\n")
            assert c.silent(0.3)
            equal(server.stats()["gone"], gone)
        server.wait_for("gone", gone + 1)
        with server.conn() as c:  # during an upload too
            c.send(b"PUT /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
            server.wait_for("exchanges", 2)
        server.wait_for("gone", gone + 2)


@check
def answers_given_before_the_peer_stopped_sending_arrive() -> None:
    with Server() as server, server.conn() as c:
        c.send(b"GET /big/8 HTTP/1.1\r\nHost: a\r\n\r\n")
        c.until(b"\r\n\r\n")
        c.sock.shutdown(socket.SHUT_WR)
        equal(len(c.exactly(8 * MB)), 8 * MB)
        assert c.ended()


@check
def a_flood_while_an_answer_is_due_is_cut() -> None:
    with Server() as server:
        for i, path in enumerate((b"/pending", b"/sse")):
            before = server.stats()["rss"]
            with server.conn() as c:
                c.send(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path)
                sent = 0
                while sent < 100 * MB and c.try_send(b"x" * 65536):
                    sent += 65536
                assert sent < 50 * MB, sent
            server.wait_for("gone", i + 1)
            bounded(before, server.stats()["rss"], "a flood")
        with server.conn() as c:  # as much as a head is kept, and answered in its turn
            c.send(b"GET /later/200?first HTTP/1.1\r\nHost: a\r\n\r\n" + NEXT * 400)
            equal(c.answer().body, b"first")
            for _ in range(400):
                equal(c.answer().body, b"hello")


# ---- uploads ----

@check
def large_uploads_do_not_cost_memory() -> None:
    with Server() as server:
        before = server.stats()["rss"]
        for path in (b"/upload", b"/slow"):
            with server.conn() as c:
                c.send(b"PUT %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (path, 100 * MB))
                for _ in range(100):
                    c.send(b"u" * MB)
                equal(c.answer().body, b"%d" % (100 * MB))
                equal(c.get("/hello").status, 200)
            bounded(before, server.stats()["rss"], "an upload of 100 MB")
        with server.conn() as c:
            c.send(b"PUT /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(20):
                c.send(b"100000\r\n" + b"u" * MB + b"\r\n")
            c.send(b"0\r\n\r\n")
            equal(c.answer().body, b"%d" % (20 * MB))
        with server.conn() as c:  # many pieces in what is read at once: a pause holds between them too
            c.send(b"PUT /slow HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            c.send((b"400\r\n" + b"u" * 1024 + b"\r\n") * 8192 + b"0\r\n\r\n")
            equal(c.answer().body, b"%d" % (8 * MB))
        with server.conn() as c:
            equal(c.ask("PUT", "/upload", body=b"").body, b"0")


@check
def answers_of_slow_readers_are_bounded_together() -> None:
    most = 16 * MB
    with Server(unsent_max=most) as server:
        slow = [server.conn(rcvbuf=4096) for _ in range(6)]
        for c in slow:
            c.send(b"GET /big/6 HTTP/1.1\r\nHost: a\r\n\r\n")  # 8 MB of memory with room to grow
            assert c.sock.recv(1)
            assert server.stats()["unsent"] <= most + 65536, server.stats()
        server.wait_for("cut", 4)  # two have room; each that comes takes the place of one
        quick = server.conn()  # and those who read are served all along
        equal(quick.get("/hello").status, 200)
        equal(len(quick.get("/big/1").body), MB)
        for c in slow:
            c.close()
        server.wait_for("connections", 2)
        equal(server.stats()["unsent"], 0)


@check
def bodies_held_in_memory_are_bounded_together() -> None:
    with Server(collected_bodies_max=3 * MB) as server:
        held = []
        for _ in range(5):
            c = server.conn()
            c.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % MB)
            c.try_send(b"x" * (MB - 1))
            held.append(c)
        time.sleep(0.3)
        for c in held:
            c.try_send(b"x")
        statuses = sorted(c.answer().status for c in held)
        assert statuses.count(503) >= 2 and statuses.count(200) >= 2, statuses
        for c in held:
            c.close()
        server.wait_for("connections", 1)
        equal(server.stats()["collected"], 0)
        equal(server.conn().ask("POST", "/echo", body=b"x" * MB).status, 200)


# ---- shortage ----

def open_stream(address) -> Conn:
    c = Conn(address)
    c.send(b"GET /sse HTTP/1.1\r\nHost: a\r\n\r\n")
    return c


@check
def connections_are_capped() -> None:
    for setting, most in (("connections_max", 9), ("per_address_max", 8)):
        with Server(**{setting: most}) as server:  # the one that watches counts for the first only
            held = [open_stream(server.address) for _ in range(8)]
            for c in held:
                equal(c.head()[0], 200)
            with server.conn() as c:
                c.try_send(NEXT)
                assert c.ended() and c.rest.startswith((b"HTTP/1.1 503 ", b"")), c.rest
                assert b"200 OK" not in c.rest
            equal(server.stats()["refused"], 1)
            held.pop().close()
            server.wait_for("connections", 8)
            equal(server.conn().get("/hello").status, 200)
            if setting == "per_address_max":
                equal(Conn(server.unix).get("/hello").status, 200)
            for c in held:
                c.close()


@check
def running_out_of_descriptors_is_survived() -> None:
    with Server(nofile=64) as server, server.conn() as c:
        fds = server.stats()["fds"]
        equal(c.ask("POST", "/eat").body, b"full")
        cpu = server.cpu()
        for _ in range(20):
            with server.conn() as d:
                d.try_send(NEXT)
                assert d.ended(2), "a newcomer was left waiting"
                assert b"200 OK" not in d.rest
        equal(c.get("/hello").body, b"hello")  # who is there already is served
        time.sleep(0.5)
        assert server.cpu() - cpu < 0.4, "the server is spinning"
        equal(c.ask("POST", "/vomit").body, b"free")
        with server.conn() as d:
            equal(d.get("/hello").body, b"hello")
        server.wait_for("fds", fds)


# ---- many ----

@check
def idle_event_streams_are_cheap() -> None:
    wanted = 2000 if SANITIZED else 12000
    count = room_for_connections(wanted)
    with Server(per_address_max=20000, connections_max=20000) as server:
        for c in [open_stream(server.address) for _ in range(100)]:
            c.close()
        server.wait_for("connections", 1)
        before = server.stats()["rss"]
        held = [open_stream(server.address) for _ in range(count)]
        server.wait_for("exchanges", count + 1, within=20)
        each = (server.stats()["rss"] - before) / count
        print("%d idle streams, %.0f bytes of memory each" % (count, each), flush=True)
        assert SANITIZED or each < 1200, "%.0f bytes each" % each
        equal(server.watcher.get("/hello").status, 200)
        cpu = server.cpu()
        time.sleep(0.5)
        assert server.cpu() - cpu < 0.1, "idle streams keep the server busy"
        for c in held[::1000]:
            equal(c.head()[0], 200)
        for c in held:
            c.close()
        server.wait_for("connections", 1, within=20)
        equal(server.stats()["gone"], count + 100)
    if count < wanted:
        skip("held %d of %d streams: RLIMIT_NOFILE allows no more" % (count, wanted))


STORM = [b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n" * 3, b"GET /pending HTTP/1.1\r\nHost: a\r\n\r\n",
         b"GET /sse HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /stream/50 HTTP/1.1\r\nHost: a\r\n\r\n",
         b"GET /later/5 HTTP/1.1\r\nHost: a\r\n\r\n" * 4, b"GET /big/2 HTTP/1.1\r\nHost: a\r\n\r\n",
         b"PUT /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n" + b"x" * 3000000,
         b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + b"3\r\nabc\r\n" * 50,
         b"POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 90000\r\n\r\n" + b"x" * 90000,
         b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 90000\r\n\r\n" + b"x" * 90000, b"\x16\x03\x01"]


def storm(address, seed: int, seconds: float, count: list[int]) -> None:
    dice = random.Random(seed)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = dice.choice(STORM)
        c = Conn(address)
        c.sock.settimeout(0.005)
        try:
            c.sock.sendall(data[:dice.randrange(1, len(data) + 1)] if dice.random() < 0.6 else data)
            if dice.random() < 0.3:
                c.sock.recv(dice.randrange(1, 1 << 16))
            if dice.random() < 0.2:
                c.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        (c.reset if dice.random() < 0.5 else c.close)()
        count[0] += 1


@check
def an_abort_storm_leaves_nothing_behind() -> None:
    with Server(linger_ms=200, body_ms=1000, head_ms=1000) as server:
        equal(server.conn().get("/hello").status, 200)
        server.wait_for("connections", 1)
        fds = server.stats()["fds"]
        counts = [[0] for _ in range(3)]
        threads = [threading.Thread(target=storm, args=(server.address, i, 4.0, n)) for i, n in enumerate(counts)]
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            equal(server.watcher.get("/hello").status, 200)  # others are served meanwhile
            time.sleep(0.05)
        total = sum(n[0] for n in counts)
        print("%d connections cut at random" % total, flush=True)
        assert total > 100, total
        server.wait_for("connections", 1)
        server.wait_for("exchanges", 1)
        server.wait_for("fds", fds)
        equal(server.stats()["collected"], 0)


# ---- the end ----

@check
def a_graceful_stop() -> None:
    with Server() as server:
        idle, busy, stream, partial = [server.conn() for _ in range(4)]
        equal(idle.get("/hello").status, 200)
        busy.send(b"GET /later/2000?done HTTP/1.1\r\nHost: a\r\n\r\n" + NEXT)
        stream.send(b"GET /sse HTTP/1.1\r\nHost: a\r\n\r\n")
        equal(stream.head()[0], 200)
        partial.send(NEXT[:20])
        server.wait_for("exchanges", 3)
        start = time.monotonic()
        equal(server.watcher.ask("POST", "/stop/5000").headers["connection"], "close")
        assert idle.ended(3), "an idle connection stays"
        try:
            server.conn().close()
            raise AssertionError("a new connection was accepted")
        except ConnectionRefusedError:
            pass
        partial.send(NEXT[20:])
        equal(partial.answer().headers["connection"], "close")
        a = busy.answer()
        equal((a.body, a.headers["connection"]), (b"done", "close"))
        assert busy.ended() and busy.rest == b""
        assert stream.ended() and time.monotonic() - start > 4.5  # had its grace
        equal(server.process.wait(5), 0)
        for c in (idle, busy, stream, partial):
            c.close()


main()
