#!/usr/bin/python3
"""Secrets: a value goes to the hosts it is bound to and to no other, in fields of a request alone, and no answer has it
(F8 of the list of attacks). An egress process without an engine (tests/lib/egress.py), against servers on loopback that
repeat what they are sent, in every way that is known."""
from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import ssl
import sys
import threading
import urllib.parse
from typing import Any, Callable

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from check import check, contains, equal, main  # noqa: E402
from egress import Cell, Egress  # noqa: E402
from repeating import VALUE, Host, echo, forms, must_be_covered, sized  # noqa: E402
from test_ca import TestCa  # noqa: E402

PLACEHOLDER = "krait-secret-" + "0123456789abcdefghijklmnopqrstuv"
OTHER_VALUE, OTHER = "another-value-of-31", "krait-secret-" + "x" * 32


def secret(host: str, value: str = VALUE, placeholder: str = PLACEHOLDER, name: str = "service") -> dict:
    return {"name": name, "placeholder": placeholder, "value": value, "hosts": [host]}


def http_read(s: socket.socket, method: str = "GET") -> tuple[int, bytes, bytes]:
    """Status, head and body of a reply, as they came, chunks taken off."""
    reply = http.client.HTTPResponse(s, method=method)
    reply.begin()
    head = b"".join(b"%s: %s\r\n" % (k.encode(), v.encode("latin-1")) for k, v in reply.getheaders())
    return reply.status, reply.reason.encode() + b"\r\n" + head, reply.read()


def ask(cell: Cell, host: Host, *fields: str, path: str = "/", method: str = "GET", body: bytes = b"",
        version: str = "1.1") -> tuple[int, bytes, bytes]:
    """A request of plain HTTP through the proxy."""
    with socket.create_connection(("127.0.0.1", cell.port), 30) as s:
        more = ["Content-Length: %d" % len(body)] if body else []
        s.sendall(("%s http://%s%s HTTP/%s\r\n" % (method, host.name, path, version)).encode() +
                  "".join(f + "\r\n" for f in ["Host: " + host.name, *fields, *more]).encode() + b"\r\n" + body)
        return http_read(s, method)


def tunnel(cell: Cell, host: Host, trust: TestCa | None) -> ssl.SSLSocket:
    """TLS through the proxy, as a client in a cell has it that trusts `trust` alone."""
    s = socket.create_connection(("127.0.0.1", cell.port), 30)
    s.sendall(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (host.name.encode(), host.name.encode()))
    got = b""
    while b"\r\n\r\n" not in got:
        piece = s.recv(1)
        assert piece, "closed after %r" % got
        got += piece
    contains(got, b" 200 ")
    context = ssl.create_default_context(cafile=str(trust.pem) if trust else None)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context.wrap_socket(s, server_hostname="localhost")


def ask_tls(s: ssl.SSLSocket, host: Host, *fields: str, path: str = "/", method: str = "GET",
            body: bytes = b"") -> tuple[int, bytes, bytes]:
    more = ["Content-Length: %d" % len(body)] if body else []
    s.sendall(("%s %s HTTP/1.1\r\n" % (method, path)).encode() +
              "".join(f + "\r\n" for f in ["Host: " + host.name, *fields, *more]).encode() + b"\r\n" + body)
    return http_read(s)


AUTH = "Authorization: Bearer " + PLACEHOLDER


# ---- plain HTTP ----

@check
def a_value_goes_to_its_host_alone():
    with Host(echo) as bound, Host(echo) as other, Egress(private_hosts=[bound.name, other.name]) as egress:
        cell = egress.cell(secrets=[secret(bound.url)])
        status, head, body = ask(cell, bound, AUTH, "X-Two: %s, a %s" % (PLACEHOLDER, PLACEHOLDER))
        equal(status, 200)
        equal(bound.field("authorization"), "Bearer " + VALUE)
        equal(bound.field("x-two"), "%s, a %s" % (VALUE, VALUE))
        must_be_covered(head, body)
        contains(body, b"Bearer " + b"*" * len(VALUE))
        equal(egress.row(lambda r: r["host"] == "localhost" and r["port"] == bound.port)["secrets"], "service")
        equal(ask(cell, other, AUTH)[0], 200)  # what the code has it can send anywhere: it is no secret
        equal(other.field("authorization"), "Bearer " + PLACEHOLDER)
        equal(egress.row(lambda r: r["port"] == other.port)["secrets"], "")
        assert VALUE not in json.dumps(egress.rows), "a row has the value"


@check
def one_of_another_cell_or_another_binding_is_a_text():
    with Host(echo) as host, Egress(private_hosts=[host.name]) as egress:
        for secrets in ([], [secret("https://" + host.name)], [secret("http://localhost:1")],
                        [secret("http://127.0.0.1:%d" % host.port)], [secret(host.url, placeholder=OTHER)]):
            equal(ask(egress.cell(secrets=secrets), host, AUTH)[0], 200)
            equal(host.field("authorization"), "Bearer " + PLACEHOLDER, str(secrets))


@check
def basic_authentication_has_it_inside():
    with Host(echo) as host, Egress(private_hosts=[host.name]) as egress:
        cell = egress.cell(secrets=[secret(host.url)])
        token = base64.b64encode(("user:" + PLACEHOLDER).encode()).decode()
        status, head, body = ask(cell, host, "Authorization: Basic " + token)
        equal(host.field("authorization"), "Basic " + base64.b64encode(("user:" + VALUE).encode()).decode())
        must_be_covered(head, body)
        for text in ("Basic ", "Basic !!", "Basic " + token[:-1], "Basic " + base64.b64encode(b"user:none").decode()):
            equal(ask(cell, host, "Authorization: " + text)[0], 200)
            equal(host.field("authorization"), text.strip())


@check
def addresses_bodies_and_names_have_no_value():
    with Host(echo) as host, Egress(private_hosts=[host.name]) as egress:
        cell = egress.cell(secrets=[secret(host.url)])
        equal(ask(cell, host, PLACEHOLDER + ": 1", path="/%s?q=%s" % (PLACEHOLDER, PLACEHOLDER), method="POST",
                  body=PLACEHOLDER.encode())[0], 200)
        assert VALUE.encode() not in host.asked[-1], "it went out: %r" % host.asked[-1]
        equal(host.asked[-1].count(PLACEHOLDER.encode()), 4)
        equal(ask(cell, host, "X: " + PLACEHOLDER[:-1] + "!", "Y: " + PLACEHOLDER.upper())[0], 200)
        assert VALUE.encode() not in host.asked[-1], "a part of a placeholder is none"


@check
def answers_come_as_they_are_and_whole():
    """What would hide a value is not asked for; what hides it all the same is not passed on."""
    codings = {b" /gzip": ("gzip",), b" /two": ("identity", "gzip"), b" /list": ("identity, gzip",)}

    def answer(request: bytes) -> bytes:
        for path, coding in codings.items():
            if path in request:
                return sized(b"\x1f\x8b", *("Content-Encoding: " + c for c in coding))
        return sized(request, "Content-Encoding: identity")

    with Host(answer) as host, \
            Egress(private_hosts=[host.name]) as egress:
        cell = egress.cell(secrets=[secret(host.url)])
        ask(cell, host, "Accept-Encoding: gzip, br", "Range: bytes=3-9", "If-Range: x")
        equal((host.field("accept-encoding"), host.field("range"), host.field("if-range")), ("identity", None, None))
        for path in ("/gzip", "/two", "/list"):
            status, _, body = ask(cell, host, AUTH, path=path)
            equal(status, 502, path)
            contains(body, b"compressed")
        equal(ask(egress.cell(), host, path="/gzip")[0], 200)  # of a cell without secrets it is not our business


@check
def answers_come_whole_and_not_in_parts():
    """Servers have other names for a range than Range. What comes in parts is not passed on, but for a head alone."""
    def answer(request: bytes) -> bytes:
        for path, status in ((b" /range", "206 Partial Content"), (b" /difference", "226 IM Used")):
            if path in request:
                reply = sized(VALUE.encode()[:9], "Content-Range: bytes 0-8/40", status=status)
                return reply[:-9] if request.startswith(b"HEAD") else reply
        return sized(request)

    with Host(answer) as host, Egress(private_hosts=[host.name]) as egress:
        cell = egress.cell(secrets=[secret(host.url)])
        ask(cell, host, "Request-Range: bytes=3-9", "X-Other: 1")
        equal((host.field("request-range"), host.field("x-other")), (None, "1"))
        for path in ("/range", "/difference"):
            status, _, body = ask(cell, host, AUTH, "x-ms-range: bytes=0-8", path=path)
            equal(status, 502, path)
            contains(body, b"a part of what was asked for")
            assert VALUE.encode()[:9] not in body, "it was passed on: %r" % body
            equal(ask(cell, host, path=path, method="HEAD")[0] // 100, 2)
            equal(ask(egress.cell(), host, path=path)[2], VALUE.encode()[:9])  # of a cell without secrets


@check
def what_is_too_like_a_value_is_not_passed_on():
    """A value and a reply that were chosen to make the search slow: given up, and others go on."""
    value = "2F" + "ABCDEF/" * 200
    with Host(lambda r: sized(b"%2FABCDEF" * 2000 if b" /like " in r else r)) as host, \
            Egress(private_hosts=[host.name]) as egress:
        cell = egress.cell(secrets=[secret(host.url, value)])
        try:
            status, _, body = ask(cell, host, AUTH, path="/like")
            raise AssertionError("it was passed on: %d %r" % (status, body[:200]))
        except (http.client.IncompleteRead, ConnectionError):
            pass
        contains(egress.row(lambda r: r["verdict"] == "failed")["why"], "values of secrets")
        status, head, body = ask(cell, host, AUTH)
        equal(status, 200)
        must_be_covered(head, body, value=value)


@check
def a_head_that_is_too_long_is_said():
    """With the values that are put in, and with a body that has come already."""
    value = "".join(chr(33 + i % 90) if i % 90 != 1 else "x" for i in range(2048))
    value = "beginning" + value[9:]
    with Host(echo) as host, Egress(private_hosts=[host.name]) as egress:
        cell = egress.cell(secrets=[secret(host.url, value)])
        for count, body, status in ((100, b"y" * 9000, 200), (127, b"y" * 9000, 431), (140, b"", 431)):
            equal(ask(cell, host, *["X: " + " ".join([PLACEHOLDER] * count)], method="POST", body=body)[0], status,
                  "%d values" % count)


@check
def answers_are_covered_in_every_form():
    with Host(lambda r: sized(json.dumps({"v": VALUE}).encode() + b"".join(b" %s " % f for f in forms(VALUE)) +
                              base64.b64encode(b"ab" + VALUE.encode() + b"cd"),
                              "X-Value: " + VALUE, "Set-Cookie: a=" + urllib.parse.quote(VALUE))) as host, \
            Egress(private_hosts=[host.name]) as egress:
        cell = egress.cell(secrets=[secret(host.url), secret(host.url, OTHER_VALUE, OTHER, "other")])
        must_be_covered(*ask(cell, host)[1:])  # also where the request has no placeholder
        status, head, _ = ask(cell, host, method="HEAD")
        equal(status, 200)
        must_be_covered(head)


@check
def framings_of_answers_stay_whole():
    """Split, chunked, of HTTP/1.0, with interim answers and error pages: covered, and readable to the end."""
    raw = VALUE.encode()
    text = b"a" + raw + raw[:9] + raw + b"z" * 70000 + raw + raw[:-1]
    covered = text.replace(raw, b"*" * len(raw))
    chunks = b"".join(b"%x;e=%s\r\n%s\r\n" % (1, b"1", bytes([b])) for b in text[:200]) + \
        b"%x\r\n%s\r\n0\r\nX-Trailer: %s\r\n\r\n" % (len(text) - 200, text[200:], raw)
    head = b"HTTP/1.1 200 " + raw + b"\r\nX: " + raw + b"\r\n"
    replies: dict[str, Any] = {
        "/sized": [head + b"Content-Length: %d\r\n\r\n" % len(text)] + [text[i:i + 7] for i in range(0, 210, 7)] +
                  [text[210:]],
        "/chunked": head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks,
        "/end": b"HTTP/1.0 200 OK\r\n\r\n" + text,
        "/error": sized(text, "X-Error: " + VALUE, status="500 " + VALUE),
        "/none": b"HTTP/1.1 204 " + raw + b"\r\nX: " + raw + b"\r\n\r\n",
    }
    interim = b"HTTP/1.1 103 " + raw + b"\r\nLink: <" + raw + b">\r\n\r\n" + sized(text)
    with Host(lambda r: replies.get(r.split(b" ")[1].decode(), interim)) as host, Egress(private_hosts=[host.name]) as egress:
        cell = egress.cell(secrets=[secret(host.url)])
        for path in replies:
            for version in ("1.1", "1.0"):
                status, head, body = ask(cell, host, path=path, version=version)
                must_be_covered(head, body)
                equal(body, b"" if path == "/none" else covered, path + " " + version)
        with socket.create_connection(("127.0.0.1", cell.port), 30) as s:
            s.sendall(b"GET http://%s/interim HTTP/1.1\r\nHost: %s\r\n\r\n" % (2 * (host.name.encode(),)))
            got = b""
            while not got.endswith(covered):
                piece = s.recv(65536)
                assert piece, "it ends after %r" % got[:300]
                got += piece
            contains(got, b"HTTP/1.1 103 *")
            must_be_covered(got)


@check
def a_length_is_no_value():
    """A value that is a number does not change where a reply ends."""
    body = b"x" * 12345678
    with Host(lambda r: sized(body)) as host, Egress(private_hosts=[host.name]) as egress:
        cell = egress.cell(secrets=[secret(host.url, "12345678")])
        equal(len(ask(cell, host)[2]), len(body))


@check
def a_redirect_takes_none_along():
    with Host(echo) as other, Host(lambda r: sized(b"", "Location: %s/?key=%s" % (other.url, VALUE),
                                                   status="302 Found")) as host, \
            Egress(private_hosts=[host.name, other.name]) as egress:
        cell = egress.cell(secrets=[secret(host.url)])
        status, head, _ = ask(cell, host, AUTH)
        equal(status, 302)
        must_be_covered(head)
        ask(cell, other, AUTH, path="/?key=" + "*" * len(VALUE))
        assert VALUE.encode() not in other.asked[-1], "it followed"


@check
def a_slow_answer_is_not_held_back():
    """Only what may be the begin of a value waits."""
    go_on = threading.Event()

    def answer(_: bytes) -> list:
        return [b"HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\nevent one\n", lambda: go_on.wait(30),
                b"event two\n****"]

    with Host(answer) as host, Egress(private_hosts=[host.name]) as egress:
        cell = egress.cell(secrets=[secret(host.url)])
        with socket.create_connection(("127.0.0.1", cell.port), 30) as s:
            s.sendall(b"GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n" % (2 * (host.name.encode(),)))
            got = b""
            while not got.endswith(b"event one\n"):
                got += s.recv(65536)
            go_on.set()
            while not got.endswith(b"event two\n****"):
                got += s.recv(65536)


@check
def a_secret_that_is_taken_away_is_a_text_at_once():
    with Host(echo) as host, Egress(private_hosts=[host.name]) as egress:
        cell = egress.cell(secrets=[secret(host.url)])
        with socket.create_connection(("127.0.0.1", cell.port), 30) as s:
            for told, expected in ((None, VALUE), ([secret(host.url, OTHER_VALUE)], OTHER_VALUE), ([], PLACEHOLDER)):
                if told is not None:
                    cell.change(secrets=told)
                    ask(egress.cell(), host)  # what was said before that has been heard
                s.sendall(("GET http://%s/ HTTP/1.1\r\nHost: %s\r\nX: %s\r\n\r\n" %
                           (host.name, host.name, PLACEHOLDER)).encode())
                http_read(s)
                equal(host.field("x"), expected)


# ---- TLS ----

class World:
    """A host with a certificate of one authority, and an egress process with another of its own."""

    def __init__(self, answer: Callable[[bytes], Any] = echo, names: tuple = ("localhost",), own: bool = True):
        self.theirs, self.ours = TestCa(name="Theirs"), TestCa(name="Ours")
        self.host = Host(answer, self.theirs.server(*names))
        setup = {"own_ca": self.ours.pem.read_text() + self.ours.key.read_text()} if own else {}
        self.egress = Egress(setup=setup, private_hosts=[self.host.name], ca_file=str(self.theirs.pem))

    def __enter__(self) -> "World":
        self.host.__enter__()
        self.egress.__enter__()
        return self

    def __exit__(self, *why: Any) -> None:
        self.egress.__exit__(*why)
        self.host.__exit__(*why)

    def cell(self, **more: Any) -> Cell:
        return self.egress.cell(secrets=[secret(self.host.url)], **more)


@check
def inside_tls_a_value_goes_to_its_host():
    with World() as w, tunnel(w.cell(), w.host, w.ours) as s:
        equal(s.selected_alpn_protocol(), "http/1.1")
        for method, body in (("GET", b""), ("POST", b"a body"), ("GET", b""), ("POST", PLACEHOLDER.encode())):
            status, head, text = ask_tls(s, w.host, AUTH, method=method, body=body)
            equal(status, 200)
            equal(w.host.field("authorization"), "Bearer " + VALUE)
            equal(w.host.field("host"), w.host.name)
            must_be_covered(head, text)
            assert w.host.asked[-1].endswith(b"\r\n\r\n" + body), "the body is not what was sent"
        row = w.egress.row(lambda r: r["how"] == "https" and r["method"] == "POST")
        equal((row["host"], row["port"], row["status"], row["secrets"]), ("localhost", w.host.port, 200, "service"))
        equal(w.egress.row(lambda r: r["how"] == "connect")["secrets"], "")
        assert VALUE not in json.dumps(w.egress.rows), "a row has the value"


@check
def tls_of_other_hosts_is_their_own():
    """Without a secret for the host, of plain HTTP alone, or without an authority: the client sees the host's own
    certificate."""
    with World() as w:
        for secrets in ([], [secret("http://" + w.host.name)], [secret("https://localhost:1")]):
            with tunnel(w.egress.cell(secrets=secrets), w.host, w.theirs) as s:
                equal(ask_tls(s, w.host, AUTH)[0], 200)
                equal(w.host.field("authorization"), "Bearer " + PLACEHOLDER)
    with World(own=False) as w, tunnel(w.cell(), w.host, w.theirs) as s:
        equal(ask_tls(s, w.host, AUTH)[0], 200)
        equal(w.host.field("authorization"), "Bearer " + PLACEHOLDER)


@check
def a_host_that_cannot_prove_itself_gets_nothing():
    with World(names=("other.example",)) as w, tunnel(w.cell(), w.host, w.ours) as s:
        status, _, body = ask_tls(s, w.host, AUTH)
        equal(status, 502)
        contains(body, b"certificate of localhost is not accepted")
        equal(w.host.asked, [])
        equal(w.egress.row(lambda r: r["how"] == "https")["secrets"], "")  # none went out


@check
def a_host_that_is_not_there_gets_nothing():
    with Host(echo) as host, Egress(private_hosts=[host.name, "localhost:1"]) as egress:
        cell = egress.cell(secrets=[secret(host.url), secret("http://localhost:1", OTHER_VALUE, OTHER, "other")])
        with socket.create_connection(("127.0.0.1", cell.port), 30) as s:
            s.sendall(("GET http://localhost:1/ HTTP/1.1\r\nHost: localhost:1\r\nX: %s\r\n\r\n" % OTHER).encode())
            equal(http_read(s)[0], 502)
        equal(egress.row(lambda r: r["port"] == 1)["secrets"], "")
        equal(ask(cell, host, AUTH)[0], 200)
        equal(egress.row(lambda r: r["port"] == host.port)["secrets"], "service")


@check
def an_authority_that_goes_ends_the_tunnel():
    """E_SETUP without one, between the 200 of CONNECT and the ClientHello."""
    with World() as w:
        s = socket.create_connection(("127.0.0.1", w.cell().port), 30)
        s.sendall(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (2 * (w.host.name.encode(),)))
        while not s.recv(65536).endswith(b"\r\n\r\n"):
            pass
        w.egress.tell(setup={})
        ask(w.egress.cell(rule="index"), w.host)  # refused, and what was said before has been heard
        try:
            ssl.create_default_context(cafile=str(w.ours.pem)).wrap_socket(s, server_hostname="localhost").close()
            raise AssertionError("it was accepted")
        except OSError:
            pass
        contains(w.egress.row(lambda r: r["how"] == "connect")["why"], "TLS could not be set up")
        with tunnel(w.cell(), w.host, w.theirs) as s:  # the process is there, and passes TLS as it is
            equal(ask_tls(s, w.host, AUTH)[0], 200)
        equal(w.host.field("authorization"), "Bearer " + PLACEHOLDER)


@check
def a_client_that_does_not_trust_us_gets_nothing():
    with World() as w:
        try:
            tunnel(w.cell(), w.host, w.theirs).close()
            raise AssertionError("it was accepted")
        except ssl.SSLCertVerificationError:
            pass
        contains(w.egress.row(lambda r: r["verdict"] == "failed")["why"], "TLS")
        equal(w.host.asked, [])


@check
def requests_inside_are_for_the_tunnels_host():
    for line, host, status in (("GET / HTTP/1.1", "other.example", 403), ("GET http://other.example/ HTTP/1.1",
                                                                           "other.example", 400),
                               ("CONNECT other.example:443 HTTP/1.1", "other.example:443", 400)):
        with World() as w, tunnel(w.cell(), w.host, w.ours) as s:
            s.sendall(("%s\r\nHost: %s\r\n%s\r\n\r\n" % (line, host, AUTH)).encode())
            equal(http_read(s)[0], status, line)
            equal(w.host.asked, [])


@check
def a_rule_that_changes_ends_what_is_inside():
    with World() as w:
        cell = w.cell(rule="allow:" + w.host.name)
        with tunnel(cell, w.host, w.ours) as s:
            equal(ask_tls(s, w.host, AUTH)[0], 200)
            cell.change(rule="allow:example.org")
            ask(w.egress.cell(rule="index"), w.host)  # refused, and what was said before has been heard
            equal(ask_tls(s, w.host, AUTH)[0], 403)
            equal(len(w.host.asked), 1)


@check
def another_name_inside_is_refused():
    """SNI of another host: as for every tunnel."""
    with World() as w:
        s = socket.create_connection(("127.0.0.1", w.cell().port), 30)
        s.sendall(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (2 * (w.host.name.encode(),)))
        while not s.recv(65536).endswith(b"\r\n\r\n"):
            pass
        context = ssl.create_default_context(cafile=str(w.ours.pem))
        try:
            context.wrap_socket(s, server_hostname="other.example").close()
            raise AssertionError("it was accepted")
        except OSError:
            pass
        contains(w.egress.row(lambda r: r["verdict"] == "denied")["why"], "other.example")


if __name__ == "__main__":
    main()
