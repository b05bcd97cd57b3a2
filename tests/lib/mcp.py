"""MCP clients for tests: Streamable HTTP in every revision, HTTP+SSE, and stdio. Stdlib only.

    with Http(port) as c:                                  # 2025-11-25; rev="2026-07-28" is stateless
        c.tool("execute_python", code="print(1)")          # the result object of tools/call
        c.call("tools/list")["tools"]                      # any method; raises RpcError
    with Sse(port) as c: …                                 # 2024-11-05's transport
    with Stdio(["build/krait", "mcp"]) as c: …             # one message a line

`capabilities` is what the client declares, `answer(method, params)` gives its answer to what the server asks (None: an
error), `c.notes` collects notifications (method, params). `c.begin(…)` starts a request without waiting:
`.result(timeout)`, `.cancel()`. Every wait has a deadline.
"""
from __future__ import annotations

import http.client
import itertools
import json
import os
import queue
import subprocess
import threading
import time
from typing import Any, Callable, Iterator

MODERN = "2026-07-28"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
META = "io.modelcontextprotocol/"
WAIT_S = 60.0
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri", "tasks/get": "taskId",
         "tasks/update": "taskId", "tasks/cancel": "taskId"}

Answer = Callable[[str, dict], Any]


class RpcError(Exception):
    def __init__(self, error: dict, status: int = 0) -> None:
        super().__init__("%s %s" % (error.get("code"), error.get("message")))
        self.code, self.message, self.data = error.get("code"), error.get("message"), error.get("data")
        self.status = status


class HttpError(Exception):
    def __init__(self, status: int, headers: dict, body: bytes) -> None:
        super().__init__("HTTP %d %r" % (status, body[:200]))
        self.status, self.headers, self.body = status, headers, body


class Pending:
    """A request that is under way."""

    def __init__(self, client: "Client", id: Any) -> None:
        self.client, self.id = client, id
        self.answers: queue.Queue = queue.Queue()

    def result(self, timeout: float = WAIT_S) -> Any:
        try:
            message = self.answers.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError("no answer to %r within %g s" % (self.id, timeout)) from None
        if isinstance(message, Exception):
            raise message
        if "error" in message:
            raise RpcError(message["error"], message.get("_status", 0))
        return message["result"]

    def done(self) -> bool:
        return not self.answers.empty()

    def cancel(self) -> None:
        self.client.cancel(self)


class Client:
    def __init__(self, rev: str = "2025-11-25", capabilities: dict | None = None, answer: Answer | None = None,
                 level: str = "", name: str = "test") -> None:
        self.name = name
        self.rev, self.capabilities, self.answer, self.level = rev, capabilities or {}, answer, level
        self.notes: list = []
        self.asked: list = []
        self.pending: dict = {}
        self.ids = itertools.count(0)  # 0 is a legal id, and some server will mistake it for none
        self.info: dict = {}

    @property
    def modern(self) -> bool:
        return self.rev == MODERN

    # ---- what a test calls -------------------------------------------------------------------

    def __enter__(self) -> "Client":
        self.open()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def open(self) -> None:
        if self.modern:
            return
        self.info = self.call("initialize", {"protocolVersion": self.rev, "capabilities": self.capabilities,
                                             "clientInfo": {"name": self.name, "version": "1"}})
        self.rev = self.info["protocolVersion"]
        self.notify("notifications/initialized")

    def call(self, method: str, params: dict | None = None, *, token: Any = None, timeout: float = WAIT_S) -> Any:
        return self.begin(method, params, token=token).result(timeout)

    def tool(self, name: str, arguments: dict | None = None, *, token: Any = None, timeout: float = WAIT_S,
             **more: Any) -> dict:
        return self.call("tools/call", {"name": name, "arguments": {**(arguments or {}), **more}}, token=token,
                         timeout=timeout)

    def text(self, name: str, arguments: dict | None = None, **more: Any) -> str:
        """The texts of a tool's result, joined."""
        result = self.tool(name, arguments, **more)
        return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")

    def begin(self, method: str, params: dict | None = None, *, token: Any = None, id: Any = None) -> Pending:
        message = self.request(method, params, token=token, id=id)
        pending = Pending(self, message["id"])
        self.pending[json.dumps(message["id"])] = pending
        self.send_request(message, pending)
        return pending

    def request(self, method: str, params: dict | None = None, *, token: Any = None, id: Any = None) -> dict:
        """The message of a request, with what the revision wants in it."""
        params = dict(params or {})
        meta = dict(params.get("_meta", {}))
        if token is not None:
            meta["progressToken"] = token
        if self.modern:
            meta.setdefault(META + "protocolVersion", self.rev)
            meta.setdefault(META + "clientCapabilities", self.capabilities)
            meta.setdefault(META + "clientInfo", {"name": self.name, "version": "1"})
            if self.level:
                meta.setdefault(META + "logLevel", self.level)
        if meta:
            params["_meta"] = meta
        return {"jsonrpc": "2.0", "id": next(self.ids) if id is None else id, "method": method, "params": params}

    def notify(self, method: str, params: dict | None = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {})})

    def cancel(self, pending: Pending) -> None:
        self.notify("notifications/cancelled", {"requestId": pending.id, "reason": "test"})

    def noted(self, method: str, seconds: float = 10, count: int = 1) -> list:
        """Params of the notifications of that method, once there are so many."""
        deadline = time.monotonic() + seconds
        while True:
            found = [params for name, params in list(self.notes) if name == method]
            if len(found) >= count:
                return found
            assert time.monotonic() < deadline, "%d of %d %s within %g s" % (len(found), count, method, seconds)
            time.sleep(0.01)

    # ---- what came ---------------------------------------------------------------------------

    def received(self, message: Any, status: int = 0) -> None:
        for one in message if isinstance(message, list) else [message]:
            self._received(one, status)

    def _received(self, message: dict, status: int) -> None:
        if "method" in message and "id" in message:
            self.asked.append((message["method"], message.get("params", {})))
            result = self.answer(message["method"], message.get("params", {})) if self.answer else None
            reply = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no"}}
            self.send({"jsonrpc": "2.0", "id": message["id"], **reply})
        elif "method" in message:
            self.notes.append((message["method"], message.get("params", {})))
        else:
            pending = self.pending.pop(json.dumps(message.get("id")), None)
            if pending:
                pending.answers.put({**message, "_status": status})
            else:
                self.notes.append(("", message))  # an answer to nothing: a test may want to see it

    def broken(self, why: Exception) -> None:
        for key in list(self.pending):
            self.pending.pop(key).answers.put(why)

    def send_request(self, message: dict, pending: Pending) -> None:
        self.send(message)

    def send(self, message: Any) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


# ---- HTTP ------------------------------------------------------------------------------------------


def events(stream: Any) -> Iterator[dict]:
    """Server-sent events as {"event", "id", "data", "retry"} (missing: not said); comments are skipped."""
    event: dict = {}
    for raw in stream:
        line = raw.decode("utf-8").rstrip("\r\n")
        if not line:
            if event:
                yield event
            event = {}
            continue
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "data" and "data" in event:
            event["data"] += "\n" + value
        elif name:
            event[name] = value


class Http(Client):
    """Streamable HTTP. `session`: the id; `stream()` opens the GET stream."""

    def __init__(self, port: int, path: str = "/mcp", rev: str = "2025-11-25", key: str = "",
                 headers: dict | None = None, **how: Any) -> None:
        super().__init__(rev, **how)
        self.port, self.path, self.key, self.headers = port, path, key, headers or {}
        self.session = ""
        self.last_event = ""
        self.primed: list = []  # ids of events without data
        self.types: list = []   # Content-Type of each answer to a request
        self.connections: dict = {}
        self.own: Any = None
        self.closing = False

    def head(self, message: Any = None, **more: str) -> dict:
        head = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **self.headers}
        if self.key:
            head["Authorization"] = "Bearer " + self.key
        if self.modern and isinstance(message, dict):
            head["MCP-Protocol-Version"] = self.rev
            head["Mcp-Method"] = message.get("method", "")
            name = message.get("params",
                               {}).get(NAMED.get(message.get("method", ""), "")) if message.get("params") else None
            if isinstance(name, str):
                head["Mcp-Name"] = name
        elif self.session:
            head["Mcp-Session-Id"] = self.session
            head["MCP-Protocol-Version"] = self.rev
        head.update({k.replace("_", "-"): v for k, v in more.items()})
        return head

    def connect(self, timeout: float = WAIT_S) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def raw(self, body: Any = None, headers: dict | None = None, method: str = "POST", path: str = "") -> tuple:
        """One exchange as it is: (status, headers, body)."""
        connection = self.connect()
        try:
            data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
            connection.request(method, path or self.path, data, self.head(body) if headers is None else headers)
            reply = connection.getresponse()
            found: dict = {}
            for name, value in reply.getheaders():
                found[name.lower()] = found[name.lower()] + ", " + value if name.lower() in found else value
            return reply.status, found, reply.read()
        finally:
            connection.close()

    def send(self, message: Any) -> None:
        status, headers, body = self.raw(message)
        if status != 202:
            raise HttpError(status, headers, body)

    def send_request(self, message: dict, pending: Pending) -> None:
        thread = threading.Thread(target=self._exchange, args=(message, pending), daemon=True)
        thread.start()
        pending.thread = thread  # type: ignore[attr-defined]

    def _exchange(self, message: dict, pending: Pending) -> None:
        connection = self.connect()
        self.connections[json.dumps(message["id"])] = connection
        try:
            connection.request("POST", self.path, json.dumps(message).encode(), self.head(message))
            self._read(connection.getresponse(), pending)
        except Exception as e:  # the waiter is told
            pending.answers.put(e)
        finally:
            self.connections.pop(json.dumps(message["id"]), None)
            connection.close()

    def _read(self, reply: Any, pending: Pending) -> None:
        kind = reply.getheader("Content-Type") or ""
        self.types.append(kind)
        if reply.getheader("Mcp-Session-Id"):
            self.session = reply.getheader("Mcp-Session-Id")
        if kind.startswith("text/event-stream"):
            self._events(reply)
            if json.dumps(pending.id) in self.pending:
                pending.answers.put(ConnectionError("the stream ended without an answer"))
            return
        body = reply.read()
        try:
            message = json.loads(body)
        except ValueError:
            message = {}
        if "error" in message and "id" not in message:
            message["id"] = pending.id
        if isinstance(message, dict) and ("error" in message or "result" in message) and "jsonrpc" in message:
            self.received(message, reply.status)
        else:
            pending.answers.put(HttpError(reply.status, dict(reply.getheaders()), body))

    def _events(self, stream: Any) -> None:
        for event in events(stream):
            self.last_event = event.get("id", self.last_event)
            if event.get("data"):
                self.received(json.loads(event["data"]), 200)
            elif "id" in event:
                self.primed.append(event["id"])

    def cancel(self, pending: Pending) -> None:
        if not self.modern:
            super().cancel(pending)
            return
        connection = self.connections.get(json.dumps(pending.id))
        if connection and connection.sock:
            connection.sock.shutdown(2)

    def stream(self, last_event: str = "") -> None:
        """Opens the session's own stream, or picks one up; messages are received in a thread."""
        connection = self.connect(timeout=600)
        head = self.head(**({"Last_Event_ID": last_event} if last_event else {}))
        head["Accept"] = "text/event-stream"
        connection.request("GET", self.path, headers=head)
        reply = connection.getresponse()
        if reply.status != 200:
            body = reply.read()
            connection.close()
            raise HttpError(reply.status, dict(reply.getheaders()), body)
        self.own = connection

        def read() -> None:
            try:
                self._events(reply)
            except Exception:  # the test ended it
                pass
            finally:
                connection.close()

        threading.Thread(target=read, daemon=True).start()

    def close(self) -> None:
        self.closing = True
        if self.own and self.own.sock:
            self.own.sock.shutdown(2)
        if self.session and not self.modern:
            self.raw(None, self.head(), "DELETE")
            self.session = ""


class Sse(Client):
    """HTTP+SSE: the answers come on the stream of the GET."""

    def __init__(self, port: int, path: str = "/sse", rev: str = "2024-11-05", key: str = "", **how: Any) -> None:
        super().__init__(rev, **how)
        self.port, self.path, self.key = port, path, key
        self.endpoint = ""
        self.connection: Any = None

    def head(self) -> dict:
        return {"Content-Type": "application/json", **({"Authorization": "Bearer " + self.key} if self.key else {})}

    def open(self) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        self.connection.request("GET", self.path, headers={**self.head(), "Accept": "text/event-stream"})
        reply = self.connection.getresponse()
        if reply.status != 200:
            raise HttpError(reply.status, dict(reply.getheaders()), reply.read())
        stream = events(reply)
        first = next(stream)
        assert first.get("event") == "endpoint", first
        self.endpoint = first["data"]

        def read() -> None:
            try:
                for event in stream:
                    self.received(json.loads(event["data"]))
            except Exception:  # the test ended it
                pass
            self.broken(ConnectionError("the stream is over"))

        threading.Thread(target=read, daemon=True).start()
        super().open()

    def send(self, message: Any) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            data = message if isinstance(message, bytes) else json.dumps(message).encode()
            connection.request("POST", self.endpoint, data, self.head())
            reply = connection.getresponse()
            body = reply.read()
            if reply.status != 202:
                raise HttpError(reply.status, dict(reply.getheaders()), body)
        finally:
            connection.close()

    def close(self) -> None:
        if self.connection and self.connection.sock:
            self.connection.sock.shutdown(2)
            self.connection.close()


class Stdio(Client):
    """One message a line on the stdin and stdout of a program, which `close()` ends by closing its stdin."""

    def __init__(self, argv: list, rev: str = "2025-11-25", env: dict | None = None, cwd: str | None = None,
                 **how: Any) -> None:
        super().__init__(rev, **how)
        self.argv, self.env, self.cwd = argv, env, cwd
        self.process: Any = None
        self.garbage: list = []  # lines of stdout that are no JSON: there must be none
        self.lock = threading.Lock()

    def start(self) -> "Stdio":
        env = None if self.env is None else {**os.environ, **self.env}
        self.process = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=self.cwd)

        def read() -> None:
            for line in self.process.stdout:
                try:
                    message = json.loads(line)
                except ValueError:
                    self.garbage.append(line)
                    continue
                self.received(message)
            self.broken(ConnectionError("the program has ended"))

        threading.Thread(target=read, daemon=True).start()
        return self

    def open(self) -> None:
        if not self.process:
            self.start()
        super().open()

    def send(self, message: Any) -> None:
        self.line(json.dumps(message).encode())

    def line(self, data: bytes) -> None:
        with self.lock:
            self.process.stdin.write(data + b"\n")
            self.process.stdin.flush()

    def close(self, seconds: float = 20) -> int:
        """The exit status."""
        if not self.process:
            return 0
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("it did not end at the end of its input") from None
