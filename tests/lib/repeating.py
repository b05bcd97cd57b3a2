"""A server on loopback that repeats what it is asked, and what of a secret's value must be in no answer.

    with Host(echo) as host:                      # or Host(echo, tls=TestCa().server("localhost"))
        …                                         # host.url, host.name, host.asked, host.field("authorization")
    must_be_covered(head, body)
"""
from __future__ import annotations

import base64
import html
import json
import socket
import ssl
import threading
import urllib.parse
from typing import Any, Callable

VALUE = 'sk-7Q"x/Z9&fw+Kd<mT2 uV4\\pR'


def forms(value: str) -> list[bytes]:
    """What of a value must be nowhere: as it is, and as servers write it. Of base64 what stands at any place."""
    raw = value.encode()
    found = [raw, raw.upper(), raw.hex().encode(), urllib.parse.quote(value, safe="").encode(),
             urllib.parse.quote_plus(value).encode(), json.dumps(value)[1:-1].encode(),
             json.dumps(value)[1:-1].replace("/", "\\/").encode()]
    # What encoders write that leave some characters as they are: quote(), .NET and Go and Rails, Python's and Go's HTML.
    found += [urllib.parse.quote(value, safe="/").encode(), escaped(value, '+"&<>', "\\u%04X"),
              escaped(value, "&<>", "\\u%04x"), html.escape(value).encode(),
              html.escape(value).replace("&quot;", "&#34;").replace("&#x27;", "&#39;").encode()]
    for before in range(3):
        text = base64.b64encode(b"\0" * before + raw)[(before * 8 + 5) // 6:(before + len(raw)) * 8 // 6]
        found += [text, text.replace(b"+", b"-").replace(b"/", b"_")]
    return found


def escaped(value: str, which: str, form: str) -> bytes:
    """As JSON, with these characters in that form."""
    return "".join(form % ord(c) if c in which else json.dumps(c)[1:-1] for c in value).encode()


class Host:
    """A server on loopback. `answer` is given a request (head and body) and returns the bytes of the reply, or a list of
    pieces that are sent one by one, in which a function is called. TLS with a context."""

    def __init__(self, answer: Callable[[bytes], Any], tls: ssl.SSLContext | None = None):
        self.answer, self.tls = answer, tls
        self.asked: list[bytes] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.name = "localhost:%d" % self.port
        self.url = "%s://%s" % ("https" if tls else "http", self.name)
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Host":
        return self

    def __exit__(self, *_: Any) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._run, args=(s,), daemon=True).start()

    def _run(self, s: socket.socket) -> None:
        s.settimeout(30)
        try:
            with self.tls.wrap_socket(s, server_side=True) if self.tls else s as s:
                request = self._read(s)
                while request:
                    self.asked.append(request)
                    reply = self.answer(request)
                    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    pieces = reply if isinstance(reply, list) else [reply]
                    for piece in pieces:
                        if callable(piece):
                            piece()
                        else:
                            s.sendall(piece)
                    if b"Content-Length" not in pieces[0]:
                        return
                    request = self._read(s)
        except OSError:
            pass

    @staticmethod
    def _read(s: socket.socket) -> bytes:
        got = b""
        while b"\r\n\r\n" not in got:
            piece = s.recv(65536)
            if not piece:
                return b""
            got += piece
        head, _, body = got.partition(b"\r\n\r\n")
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                while len(body) < int(line.split(b":")[1]):
                    body += s.recv(65536)
        return head + b"\r\n\r\n" + body

    def field(self, name: str) -> str | None:
        """Of the last request."""
        for line in self.asked[-1].split(b"\r\n\r\n")[0].split(b"\r\n")[1:]:
            key, _, value = line.decode().partition(": ")
            if key.lower() == name.lower():
                return value
        return None


def sized(body: bytes, *fields: str, status: str = "200 OK") -> bytes:
    head = "".join(f + "\r\n" for f in fields)
    return b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s" % (status.encode(), head.encode(), len(body), body)


def echo(request: bytes) -> bytes:
    return sized(request)


def must_be_covered(*texts: bytes, value: str = VALUE) -> None:
    for text in texts:
        for form in forms(value):
            assert form.lower() not in text.lower(), "the value came back: %r in %r" % (form, text[:400])
