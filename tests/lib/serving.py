"""What the suites that talk to a `krait serve` share: servers kept for several checks, streams read while they come,
things done meanwhile.

    s = kept(args=["--dialect", "sandbox-mcp"])         # started once, the same for the same words
    with Stream(s, "POST", "/api/v1/runs", {"code": "…"}) as stream:
        first = stream.line()                           # and leaving the block cuts the connection

    serving.main()                                      # for check.main(): ends the servers, judges replies

Invariant: every wait has a deadline, and every server that was started here is ended here, whatever a check does.
"""
from __future__ import annotations

import atexit
import http.client
import json
import threading
import time
from typing import Any, Callable

import check
from krait_server import Server

_kept: dict = {}


def kept(**how: Any) -> Server:
    key = json.dumps(how, sort_keys=True)
    if key not in _kept:
        server = Server(**how)
        atexit.register(server.close, False)
        _kept[key] = server.start()
    return _kept[key]


def every_reply_obeys_the_document() -> None:
    """The last check of a suite: /openapi.json told the truth all along."""
    assert _kept, "no server was started"
    problems = [problem for server in _kept.values() for problem in server.problems]
    assert not problems, "; ".join(problems[:5])


def main() -> None:
    check.check(every_reply_obeys_the_document)
    check.main()


def eventually(what: Callable[[], Any], seconds: float = 10, why: str = "") -> Any:
    """The first true value of `what`, which is asked until then."""
    deadline = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        assert time.monotonic() < deadline, "not within %g s: %s" % (seconds, why or what.__name__)
        time.sleep(0.02)


class Meanwhile:
    """Calls a function in a thread; `end()` waits for its value, or raises what it raised."""

    def __init__(self, what: Callable, *args: Any, **more: Any):
        self.value: Any = None
        self.error: BaseException | None = None
        self.ended_at = 0.0
        self.thread = threading.Thread(target=self._run, args=(what, args, more), daemon=True)
        self.thread.start()

    def _run(self, what: Callable, args: tuple, more: dict) -> None:
        try:
            self.value = what(*args, **more)
        except BaseException as exc:
            self.error = exc
        self.ended_at = time.monotonic()

    def end(self, seconds: float = 60) -> Any:
        self.thread.join(seconds)
        assert not self.thread.is_alive(), "still not back after %g s" % seconds
        if self.error is not None:
            raise self.error
        return self.value

    @property
    def is_over(self) -> bool:
        return not self.thread.is_alive()


class Stream:
    """A reply that is read line by line while it comes."""

    def __init__(self, server: Server, method: str, path: str, body: Any = None, headers: dict | None = None,
                 key: str | None = None, seconds: float = 30):
        headers = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        key = server.key if key is None else key
        if key:
            headers.setdefault("Authorization", "Bearer " + key)
        self.connection: http.client.HTTPConnection = server.connect(seconds)
        self.connection.request(method, path, body, headers)
        self.reply = self.connection.getresponse()
        self.status = self.reply.status
        self.headers = {name.lower(): value for name, value in self.reply.getheaders()}

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_what: Any) -> None:
        self.cut()

    def cut(self) -> None:
        """Leaves, as a client whose network went away: what has come and was not read makes it a reset."""
        self.reply.close()
        self.connection.close()

    def raw_line(self) -> bytes:
        """With its newline; b"" at the end."""
        return self.reply.readline()

    def line(self) -> dict | None:
        """The next line of NDJSON; None at the end."""
        raw = self.raw_line()
        return json.loads(raw) if raw else None

    def rest(self) -> list:
        found = []
        while (line := self.line()) is not None:
            found.append(line)
        return found

    def until(self, kind: str) -> list:
        """Lines up to and with the first of this type."""
        found = []
        while not found or found[-1]["type"] != kind:
            line = self.line()
            assert line is not None, "the stream ended before %s: %s" % (kind, found)
            found.append(line)
        return found

    def event(self) -> dict:
        """The next server-sent event as its fields; {} at the end. Comments are left out."""
        fields: dict = {}
        while raw := self.raw_line():
            text = raw.decode().rstrip("\r\n")
            if not text and fields:
                return fields
            name, _, value = text.partition(":")
            if name:
                value = value.removeprefix(" ")
                fields[name] = fields[name] + "\n" + value if name in fields else value
        return fields

    def events(self) -> list:
        found = []
        while event := self.event():
            found.append(event)
        return found
