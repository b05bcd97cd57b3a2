#!/usr/bin/python3
"""Every row of [egress] and [mirror], by what it does: a server with it, beside one without, and code in a sandbox that
asks for what lies on this machine's loopback (tests/lib/outside.py). Root: servers have a resolv.conf of their own."""
from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import wheels  # noqa: E402
from check import check, contains, equal, main, skip  # noqa: E402
from index import Index  # noqa: E402
from krait_server import Server  # noqa: E402
from outside import ASK, Deaf, Echo, Resolver, Web  # noqa: E402
from serving import eventually  # noqa: E402
from test_ca import TestCa  # noqa: E402

WHEEL = "thing-1.0-py3-none-any.whl"


def server(rule: str, *private: int, **more: Any) -> Server:
    """With a rule, and these ports of localhost although they are on loopback."""
    hosts = ",".join("localhost:%d" % port for port in private)
    args = ["--network", rule, "--max-network", "open", *(["--egress-private-hosts", hosts] if hosts else [])]
    return Server(args=args + more.pop("args", []), **more)


def run(s: Server, code: str) -> Any:
    """What the code leaves in `out`."""
    reply = s.post("/api/v1/runs", {"code": ASK + code + "\nprint(repr(out))", "stream": False, "timeout": 60})
    equal(reply.status, 200, reply.text)
    body = reply.json()
    assert body["stdout"], reply.text
    return eval(body["stdout"])


def local(*ports: int) -> str:
    return "allow:" + ",".join("localhost:%d" % port for port in ports)


# ---- [egress] --------------------------------------------------------------------------------


@check
def connections():
    code = """
held = [tunnel("localhost:%d") for _ in range(4)]
out = [line.split()[1] for _, line in held]
held[0][0].close()
for _ in range(100):
    again = tunnel("localhost:%d")[1].split()[1]
    if again == "200":
        break
    time.sleep(0.1)
out.append(again)
"""
    with Echo() as echo:
        with server(local(echo.port), echo.port, args=["--egress-connections", "2"]) as s:
            equal(run(s, code % (echo.port, echo.port)), ["200", "200", "429", "429", "200"])
        with server(local(echo.port), echo.port) as s:
            equal(run(s, code % (echo.port, echo.port)), ["200"] * 5)


@check
def max_connections():
    code = """
first, line = tunnel("localhost:%d")
second = socket.create_connection(("127.0.0.1", 3128), 1)
second.sendall(b"CONNECT localhost:%d HTTP/1.0\\r\\n\\r\\n")
try:
    early = second.recv(12)
except socket.timeout:
    early = None
first.close()
second.settimeout(20)
out = early, early or second.recv(12)
"""
    with Echo() as echo:
        with server(local(echo.port), echo.port, args=["--egress-max-connections", "1"]) as s:
            equal(run(s, code % (echo.port, echo.port)), (None, b"HTTP/1.1 200"))
        with server(local(echo.port), echo.port) as s:
            equal(run(s, code % (echo.port, echo.port))[1], b"HTTP/1.1 200")


@check
def resolve_timeout():
    if os.geteuid() != 0:
        skip("needs root: a resolv.conf of its own")
    code = 'out = ask("http://%s/", timeout=60)'
    with Web() as web, Resolver({"silent.example.test": None, "here.example.test": ["127.0.0.1"]}) as names:
        hosts = "here.example.test:%d" % web.port
        with server("open", args=["--egress-resolve-timeout", "1s", "--egress-private-hosts", hosts],
                    wrap=names.wrap) as s:
            status, _, body = run(s, code % "silent.example.test")
            equal(status, 504)
            contains(body, b"not resolved within 1000 ms")
            equal(run(s, code % hosts), (200, "", b"outside"))


@check
def connect_timeout():
    with Deaf() as deaf, Web() as web:
        with server(local(deaf.port, web.port), deaf.port, web.port, args=["--egress-connect-timeout", "2s"]) as s:
            status, _, body = run(s, 'out = ask("http://localhost:%d/")' % deaf.port)
            equal(status, 504)
            contains(body, b"no connection within 2000 ms")
            equal(run(s, 'out = ask("http://localhost:%d/")' % web.port), (200, "", b"outside"))


IDLE = """
s, line = tunnel("localhost:%d")
s.sendall(b"hello")
out = [s.recv(5)]
try:
    s.settimeout(%d)
    out.append(s.recv(1))
except socket.timeout:
    out.append("open")
"""


@check
def idle_timeout():
    with Echo() as echo:
        with server(local(echo.port), echo.port, args=["--egress-idle-timeout", "3s"]) as s:
            equal(run(s, IDLE % (echo.port, 40)), [b"hello", b""])
        with server(local(echo.port), echo.port) as s:
            equal(run(s, IDLE % (echo.port, 5)), [b"hello", "open"])


@check
def max_time():
    code = """
s, line = tunnel("localhost:%d")
out = "open"
for _ in range(%d):
    try:
        s.sendall(b".")
        if s.recv(1) == b"":
            out = "closed"
            break
    except OSError:
        out = "closed"
        break
    time.sleep(0.1)
"""
    with Echo() as echo:
        with server(local(echo.port), echo.port, args=["--egress-max-time", "2s"]) as s:
            equal(run(s, code % (echo.port, 300)), "closed")
        with server(local(echo.port), echo.port) as s:
            equal(run(s, code % (echo.port, 30)), "open")


@check
def max_bytes():
    code = """
small = ask("http://localhost:%d/bytes/1000")
large = ask("http://localhost:%d/bytes/500000")
out = small[0], len(small[2]), large[0] in (200, 429), len(large[2]) == 500000
"""
    with Web() as web:
        with server(local(web.port), web.port, args=["--egress-max-bytes", "64K"]) as s:
            equal(run(s, code % (web.port, web.port)), (200, 1000, True, False))  # cut, or refused before its head
        with server(local(web.port), web.port) as s:
            equal(run(s, code % (web.port, web.port)), (200, 1000, True, True))


@check
def a_limit_that_is_met_before_the_reply_is_told():
    code = """
got = ask("http://localhost:%d/long-head")
out = got[0], got[2][-80:]
"""
    with Web() as web:
        web.raw["long-head"] = b"HTTP/1.1 200 OK\r\nX-Long: %s\r\nContent-Length: 4\r\n\r\ndone" % (b"x" * 5000)
        for args, setting in ((["--egress-max-bytes", "4K"], b"max_bytes"), (["--egress-hour-bytes", "4K"], b"hour_bytes")):
            with server(local(web.port), web.port, args=args) as s:
                status, why = run(s, code % web.port)
                equal(status, 429)
                contains(why, setting)
        with server(local(web.port), web.port) as s:
            equal(run(s, code % web.port), (200, b"done"))


@check
def the_public_address_is_krait_itself():
    code = 'out = ask("http://localhost:%d/")'
    with Web() as web:
        with server(local(web.port), web.port, args=["--public-url", "http://localhost:%d/krait" % web.port]) as s:
            status, why, _ = run(s, code % web.port)
            equal(status, 403)
            contains(why, "localhost is krait itself")
        with server(local(web.port), web.port, args=["--public-url", "http://localhost:%d" % (web.port ^ 1)]) as s:
            equal(run(s, code % web.port), (200, "", b"outside"))


@check
def hour_bytes():
    code = """
got = [ask("http://localhost:%d/bytes/40000") for _ in range(4)]
out = got[0][0], len(got[0][2]), [g[0] for g in got if g[0] != 200], [g[2] for g in got[-1:]][0][-60:]
"""
    with Web() as web:
        with server(local(web.port), web.port, args=["--egress-hour-bytes", "100K"]) as s:
            first, size, refused, last = run(s, code % web.port)
            equal((first, size), (200, 40000))
            assert refused[-1] == 429 and set(refused) <= {0, 429}, refused  # 0: cut off in its middle
            contains(last, b"hour_bytes")
        with server(local(web.port), web.port) as s:
            equal(run(s, code % web.port)[2], [])


@check
def private_hosts():
    code = 'out = ask("http://localhost:%d/")'
    with Web() as web, Web() as other:
        with server(local(web.port, other.port), web.port) as s:
            equal(run(s, code % web.port), (200, "", b"outside"))
            status, why, _ = run(s, code % other.port)
            equal(status, 403)
            contains(why, "not on the public internet")
        with server("allow:elsewhere.example", web.port) as s:  # a rule must name it as well
            status, why, _ = run(s, code % web.port)
            equal(status, 403)
            contains(why, "network rule")
        equal(other.paths(), [])


@check
def fetch_network():
    """What is fetched by its address, whatever the sandbox's own network."""
    def fetch(s: Server) -> tuple:
        reply = s.post("/api/v1/sandboxes/default/fetches", {"url": url, "wait": 30})
        body = reply.json()
        return reply.status, body.get("cause") or body.get("error", {}).get("message", "")

    with Web() as web:
        url = "http://localhost:%d/bytes/100" % web.port
        args = ["--egress-private-hosts", "localhost:%d" % web.port]
        with Server(args=[*args, "--fetch-network", local(web.port)]) as s:
            equal(fetch(s), (200, "ok"))
        equal(web.paths(), ["/bytes/100"])
        with Server(args=args) as s:
            assert fetch(s)[1] != "ok"
        equal(web.paths(), ["/bytes/100"])


@check
def rows():
    """Of many connections the newest are kept."""
    code = """
c = http.client.HTTPConnection("127.0.0.1", 3128, timeout=20)
out = 0
for i in range(130):
    c.request("GET", "http://localhost:%d/bytes/" + str(i))
    out += len(c.getresponse().read())
"""
    def kept_rows(s: Server) -> list:
        return [r["received_bytes"] for r in s.get("/api/v1/connections?limit=500").json()["connections"]]

    with Web() as web:
        for more, count in ((["--egress-rows", "100"], 100), ([], 130)):
            with server(local(web.port), web.port, args=["--cleanup-interval", "1s", *more]) as s:
                equal(run(s, code % web.port), sum(range(130)))
                eventually(lambda: len(kept_rows(s)) == count, 20, "as many rows as are kept")


# ---- [mirror] --------------------------------------------------------------------------------

PAGE = 'out = ask("http://127.0.0.1:3128/index/simple/thing/")'
FILE = PAGE + """
import re
links = re.findall(rb'href="([^"#]+)', out[2])
base = "http://127.0.0.1:3128"
path = links[0].decode() if links else "/"
out = out[0], ask(base + path if path.startswith("/") else path)
"""


def wheel(folder: str) -> str:
    return str(wheels.wheel(folder, "thing"))


@check
def ca_file():
    with tempfile.TemporaryDirectory() as folder, Index(tls=TestCa(folder)) as index:
        os.chmod(folder, 0o755)
        ca = os.path.join(folder, "ca.pem")
        index.add(wheel(folder))
        with server("index", args=["--pypi-index-url", index.url, "--egress-ca-file", ca]) as s:
            status, _, body = run(s, PAGE)
            equal(status, 200)
            contains(body, WHEEL.encode())
        with server("index", args=["--pypi-index-url", index.url]) as s:
            equal(run(s, PAGE)[0], 502)


@check
def pypi_index_url():
    with tempfile.TemporaryDirectory() as folder, Index() as index:
        index.add(wheel(folder))
        with server("index", args=["--pypi-index-url", index.url]) as s:
            status, (file_status, _, data) = run(s, FILE)
            equal((status, file_status, data[:2]), (200, 200, b"PK"))
        os.chmod(folder, 0o755)
        index.forget()
        with server("index", args=["--pypi-index-url", folder]) as s:
            contains(run(s, PAGE)[2], WHEEL.encode())
        equal(index.requests(), [])


@check
def pypi_credentials():
    with tempfile.TemporaryDirectory() as folder, Index(auth=("reader", "secret")) as index:
        index.add(wheel(folder))
        with server("index", args=["--pypi-index-url", index.plain_url],
                    env={"KRAIT_PYPI_CREDENTIALS": "reader:secret"}) as s:
            equal(run(s, PAGE)[0], 200)
            seen = run(s, "import os; out = repr(dict(os.environ)) + open('/proc/self/mountinfo').read()")
            assert "secret" not in seen, seen
        with server("index", args=["--pypi-index-url", index.plain_url]) as s:
            assert run(s, PAGE)[0] != 200


@check
def pypi_file_hosts():
    with tempfile.TemporaryDirectory() as folder, Index(apart=True) as index:
        index.add(wheel(folder))
        args = ["--pypi-index-url", index.url]
        with server("index", args=[*args, "--pypi-file-hosts", "127.0.0.1:%d" % index.files_port]) as s:
            equal(run(s, FILE)[1][0], 200)
        with server("index", args=[*args, "--pypi-file-hosts", "files.example.org"]) as s:
            status, answer = run(s, FILE)
            assert answer[0] != 200, answer
        equal(index.count("/files/" + WHEEL), 1)


if __name__ == "__main__":
    main()
