#!/usr/bin/python3
"""`krait mcp --connect URL`: stdin and stdout on one side, a server's /mcp on the other; against a real krait, and
against servers that misbehave."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Callable

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/lib"))
from check import check, contains, equal, main  # noqa: E402
from krait_server import Server  # noqa: E402
from mcp import LEGACY, MODERN, RpcError, Stdio  # noqa: E402
from processes import become_subreaper, below  # noqa: E402

KRAIT = os.path.abspath(os.environ.get("KRAIT", "build/krait"))
KEY = "0123456789abcdef0123456789abcdef"


def relay(url: object, *more: str) -> list:
    return [KRAIT, "mcp", "--connect", url if isinstance(url, str) else "http://127.0.0.1:%d" % url, *more]


@check
def every_revision_passes() -> None:
    with Server() as s:
        for rev in (*LEGACY, MODERN):
            with Stdio(relay(s.port), rev=rev) as c:
                equal(set(below(c.process.pid)), set(), "it has no engine")
                contains([tool["name"] for tool in c.call("tools/list")["tools"]], "execute_python")
                equal(c.text("execute_python", code="print('é', 6 * 7)").splitlines()[0], "é 42", rev)
                equal(c.garbage, [])
            equal(c.process.returncode, 0)


@check
def calls_go_on_side_by_side_and_are_cancelled() -> None:
    with Server() as s:
        for rev in ("2025-11-25", MODERN):
            with Stdio(relay(s.port), rev=rev) as c:
                slow = c.begin("tools/call", {"name": "execute_python",
                                              "arguments": {"code": "import time; time.sleep(300)",
                                                            "session_id": "slow"}})
                equal(c.text("execute_python", code="print(1)", session_id="quick").splitlines()[0], "1")
                assert not slow.done()
                slow.cancel()
                again = c.text("execute_python", code="print(2)", session_id="slow", timeout=30)
                contains(again, "2", "the session is free again")
                assert not slow.done(), "a cancelled request is not answered"


@check
def progress_arrives_while_it_runs() -> None:
    with Server() as s:
        for rev in ("2025-06-18", MODERN):
            with Stdio(relay(s.port), rev=rev) as c:
                code = "import time\nfor i in range(5):\n    print('step', i, flush=True)\n    time.sleep(0.3)"
                call = c.begin("tools/call", {"name": "execute_python", "arguments": {"code": code}}, token="t")
                notes = c.noted("notifications/progress")
                assert not call.done(), "before the answer"
                equal(notes[0]["progressToken"], "t")
                call.result()


@check
def questions_reach_the_client() -> None:
    with Server() as s:
        answer = {"action": "accept", "content": None}

        def reply(_method: str, params: dict) -> dict:
            field = next(iter(params["requestedSchema"]["properties"]))
            return {**answer, "content": {field: "Ada"}}

        with Stdio(relay(s.port), rev="2025-06-18", capabilities={"elicitation": {}}, answer=reply) as c:
            said = c.text("execute_python", code="name = input('who? ')\nprint('hello', name)")
            contains(said, "hello Ada")
            equal([method for method, _ in c.asked], ["elicitation/create"])


@check
def the_key_comes_from_the_environment_or_a_file() -> None:
    place = tempfile.mkdtemp(prefix="krait-test-")
    try:
        with Server(env={"API_KEY": KEY}, key=KEY) as s:
            with Stdio(relay(s.port), env={"KRAIT_API_KEY": KEY}) as c:
                equal(c.text("execute_python", code="print(1)").splitlines()[0], "1")
                with open("/proc/%d/cmdline" % c.process.pid, "rb") as f:
                    assert KEY.encode() not in f.read()
            path = os.path.join(place, "key")
            with open(path, "w") as f:
                f.write(KEY + "\n")
            os.chmod(path, 0o600)
            with Stdio(relay(s.port, "--api-key-file", path)) as c:
                equal(c.text("execute_python", code="print(1)").splitlines()[0], "1")
            c = Stdio(relay(s.port))
            try:
                c.open()
                raise AssertionError("without a key it was let in")
            except RpcError as error:
                contains(error.message, "KRAIT_API_KEY")
                contains(error.message, "krait keys create")
            finally:
                c.close()
    finally:
        shutil.rmtree(place, ignore_errors=True)


@check
def the_session_is_closed_at_the_end() -> None:
    with Server() as s:
        with Stdio(relay(s.port)) as c:
            c.call("ping")
        log = s.log_text()
        contains(log, "DELETE")


@check
def no_server_there_is_an_error_and_not_the_end() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    c = Stdio(relay(port)).start()
    for _ in range(2):
        try:
            c.call("initialize",
                   {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
            raise AssertionError("it was answered")
        except RpcError as error:
            equal(error.code, -32603)
            contains(error.message, "cannot be reached")
    equal(c.close(), 0)


@check
def a_server_that_was_restarted_is_told() -> None:
    place = tempfile.mkdtemp(prefix="krait-test-")
    os.chmod(place, 0o755)
    try:
        with Server(data=place) as s:
            port = s.port
            c = Stdio(relay(port))
            c.open()
            s.stop()
        with Server(data=place, usual=["--no-files", "--port", str(port)]) as s:
            try:
                c.call("tools/list")
                raise AssertionError("the old session was taken")
            except RpcError as error:
                contains(error.message.lower(), "session")
            # and a client that opens again gets on
            c.call("initialize",
                   {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
            c.notify("notifications/initialized")
            assert c.call("tools/list")["tools"]
            equal(c.close(), 0)
    finally:
        shutil.rmtree(place, ignore_errors=True)


@check
def garbage_on_stdin_is_answered_here() -> None:
    with Server() as s, Stdio(relay(s.port)) as c:
        for line in (b"foo", b"{", b"17", b'{"jsonrpc":"2.0","id":null,"method":"ping"}', b"x" * (5 << 20), b"",
                     b"\xff"):
            c.line(line)
            equal(c.call("ping"), {}, "after %r" % line[:30])
        equal(c.garbage, [])


@check
def it_ends_with_its_input_and_by_signals() -> None:
    with Server() as s:
        for how in ("eof", signal.SIGTERM, signal.SIGINT):
            c = Stdio(relay(s.port))
            c.open()
            c.begin("tools/call", {"name": "execute_python", "arguments": {"code": "import time; time.sleep(300)"}})
            time.sleep(0.3)
            if how == "eof":
                equal(c.close(10), 0)
            else:
                c.process.send_signal(how)
                equal(c.process.wait(10), 0)
                c.close()


# ---- servers that are not krait -------------------------------------------------------------------


class Odd:
    """A server on loopback whose answers a function writes, byte by byte."""

    def __init__(self, answer: Callable) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                message = json.loads(body) if body else {}
                odd.seen.append((self.command, dict(self.headers.items()), message))
                answer(self, message)
                self.close_connection = True

            do_GET = do_POST = do_DELETE = handle_any

            def log_message(self, *_: object) -> None:
                pass

        odd = self
        self.seen: list = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self) -> "Odd":
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def raw(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    handler.wfile.write(data)
    handler.wfile.flush()


def ask(c: Stdio, method: str = "tools/list", params: dict | None = None) -> object:
    try:
        return c.call(method, params, timeout=30)
    except RpcError as error:
        return error


@check
def damaged_answers_are_errors() -> None:
    good = b'{"jsonrpc":"2.0","id":0,"result":{}}'
    answers = {
        "garbage": b"hello\r\n\r\n",
        "no end": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{",
        "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        "both codings": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        "bad chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        "huge head": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100000 + b"\r\n\r\n",
        "not json": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\nhello",
        "html": b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
        "nothing": b"",
        "empty stream": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hi\n\n",
        "half event": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: " + good,
        "announced without end": b"HTTP/1.1 100 \r\n\r\n" * 4000,
        "negative": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "too large": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + b" " * (10 << 20),
    }
    current = [b""]
    with Odd(lambda handler, _m: raw(handler, current[0])) as odd:
        c = Stdio(relay(odd.port), rev=MODERN).start()
        for name, answer in answers.items():
            current[0] = answer
            error = ask(c)
            assert isinstance(error, RpcError) and error.code == -32603, "%s: %r" % (name, error)
        equal(c.garbage, [])
        for head in (b"Content-Length: %d\r\n", b"X: %d\r\n"):  # controls: whole, and ended by the connection
            c.ids = iter([0])
            current[0] = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + head % len(good) + b"\r\n" + good
            equal(ask(c), {})
        c.ids = iter([0])
        pretty = b'{\r\n "jsonrpc": "2.0",\n "id": 0,\n "result": {}\n}'
        current[0] = (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                      b"Transfer-Encoding: chunked\r\n\r\n"
                      + b"%x\r\n" % len(pretty) + pretty + b"\r\n0\r\n\r\n")
        equal(ask(c), {}, "line ends inside a message do not break the line")
        equal(c.close(), 0)


@check
def headers_of_the_modern_era() -> None:
    def answer(handler: BaseHTTPRequestHandler, message: dict) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": {}}).encode()
        raw(handler, b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            + body)

    with Odd(answer) as odd, Stdio(relay("http://127.0.0.1:%d/here?x=1" % odd.port), rev=MODERN) as c:
        c.call("tools/call", {"name": "plain", "arguments": {}})
        c.call("tools/call", {"name": "größe", "arguments": {}})
        c.call("resources/read", {"uri": "sandbox://a/b"})
        headers = [{k.lower(): v for k, v in seen[1].items()} for seen in odd.seen]
        equal([h.get("mcp-protocol-version") for h in headers], [MODERN] * 3)
        equal([h.get("mcp-method") for h in headers], ["tools/call", "tools/call", "resources/read"])
        equal([h.get("mcp-name") for h in headers], ["plain", "=?base64?Z3LDtsOfZQ==?=", "sandbox://a/b"])
        assert all("mcp-session-id" not in h for h in headers)
        equal({h["accept"] for h in headers}, {"application/json, text/event-stream"})


@check
def a_broken_stream_is_picked_up_again() -> None:
    """2025-11-25: the server ends the connection and the answer comes on a GET with Last-Event-ID."""
    def answer(handler: BaseHTTPRequestHandler, message: dict) -> None:
        stream = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
        if message.get("method") == "initialize":
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "serverInfo": {"name": "odd", "version": "1"}}}).encode()
            raw(handler,
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: s1\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body) + body)
        elif handler.command == "GET" and handler.headers.get("Last-Event-ID") == "e1":
            raw(handler,
                stream + b'id: e2\nevent: message\ndata: {"jsonrpc":"2.0","id":1,\ndata: "result":{"late":true}}\n\n')
        elif handler.command == "GET":
            raw(handler, b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")
        elif "id" in message:
            raw(handler, stream + b"id: e1\nretry: 50\ndata: \n\n")
        else:
            raw(handler, b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")

    with Odd(answer) as odd:
        with Stdio(relay(odd.port)) as c:
            equal(c.call("tools/list"), {"late": True})
            equal(c.garbage, [])
        contains([seen[0] for seen in odd.seen], "DELETE")
        versions = {seen[1].get("MCP-Protocol-Version") for seen in odd.seen if seen[2].get("method") == "tools/list"}
        equal(versions, {"2025-11-25"})


become_subreaper()
main()
