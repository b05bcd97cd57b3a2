#!/usr/bin/python3
"""A storm of clients that leave in the middle: every transport, every kind of call, connections reset, half closed and
abandoned at random moments. Afterwards the server is there, answers, holds nothing of theirs, and ends properly (under
AddressSanitizer: without a word).

    tests/mcp/storm.py [SEED [SECONDS]]       default: a seed of its own, which is printed, and 12 seconds
"""
from __future__ import annotations

import json
import os
import random
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))

from check import check, equal, main  # noqa: E402
from krait_server import KRAIT_FIXTURES, Server  # noqa: E402
from mcp import LEGACY, META, MODERN, Http  # noqa: E402

ARGS = [a for a in sys.argv[1:] if a.isdigit()]
SEED = int(ARGS[0]) if ARGS else int(time.time())
SECONDS = float(ARGS[1]) if len(ARGS) > 1 else 12.0
ACTORS = 10
TASKS = "io.modelcontextprotocol/tasks"
ABLE = {"elicitation": {}, "sampling": {}, "roots": {}, "extensions": {TASKS: {}}}
CODE = (
    "print(1)",
    "print(input('Who? '), input('And? '))",
    "import time\nfor i in range(%d):\n    print('x' * 200, flush=True)\n    time.sleep(0.01)",
    "import time\ntime.sleep(%d)",
    "print('y' * 3000000)",
    "open('f%d', 'w').write('z' * 500)",
    "1 / 0",
    "import getpass\ngetpass.getpass()",
)


class Actor:
    """One client after the other, each of which does a few things and leaves."""

    def __init__(self, server: Server, number: int) -> None:
        self.server = server
        self.random = random.Random(SEED * 1000 + number)
        self.ids = 0
        self.tasks: list = []
        self.runs: list = []
        self.done: dict = {}

    # ---- messages ----------------------------------------------------------------------------

    def message(self, rev: str) -> dict:
        r = self.random
        method, params = r.choice((self.code, self.code, self.code, self.tool, self.task, self.other, self.listen))(rev)
        meta: dict = {"progressToken": r.choice(("t", 7))} if r.random() < 0.6 else {}
        if rev == MODERN:
            meta.update({META + "protocolVersion": rev, META + "clientCapabilities": r.choice((ABLE, ABLE, {})),
                         META + "logLevel": "debug"})
        self.ids += 1
        id = self.ids if r.random() < 0.9 else 1  # sometimes one that is in flight
        return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, **({"_meta": meta} if meta else {})}}

    def code(self, rev: str) -> tuple:
        r = self.random
        code = r.choice(CODE)
        params: dict = {"name": "execute_python", "arguments": {
            "code": code % r.randrange(1, 40) if "%d" in code else code, "session_id": "s%d" % r.randrange(4)}}
        if rev == "2025-11-25" and r.random() < 0.4:
            params["task"] = {"ttl": r.choice((1000, 5000, 60000))}
        return "tools/call", params

    def tool(self, rev: str) -> tuple:
        r = self.random
        run = r.choice(self.runs or ["none"])
        return "tools/call", {"name": (pick := r.choice((
            ("read_run", {"run_id": run, "wait_s": r.choice((0, 1, 20))}), ("stop_run", {"run_id": run}),
            ("get_sandbox_info", {}), ("list_files", {"recursive": True}), ("read_file", {"path": "f1"}),
            ("upload_file_to_sandbox", {"path": "up%d" % r.randrange(9), "content": "c" * r.randrange(300000)}),
            ("execute_terminal_command", {"command": "sleep 0.2; seq 2000"}), ("list_active_sessions", {}),
            ("terminate_session", {"session_id": "s%d" % r.randrange(4)}), ("test_tool_with_progress", {}),
            ("test_elicitation", {"message": "m"}), ("test_sampling", {"prompt": "p"}), ("no_such_tool", {}))))[0],
            "arguments": pick[1]}

    def task(self, rev: str) -> tuple:
        r = self.random
        task = {"taskId": r.choice(self.tasks or ["none"])}
        return r.choice((("tasks/get", task), ("tasks/result", task), ("tasks/cancel", task), ("tasks/list", {}),
                         ("tasks/update", {**task, "inputResponses": {"input-1": {"action": "accept",
                                                                                  "content": {"line": "x"}}}})))

    def other(self, rev: str) -> tuple:
        r = self.random
        run = r.choice(self.runs or ["none"])
        return r.choice((("tools/list", {}), ("resources/list", {}), ("prompts/list", {}), ("nonsense/x", {}),
                         ("resources/read", {"uri": "run://" + run}),
                         ("resources/read", {"uri": "sandbox://default/f1"}),
                         ("resources/subscribe", {"uri": "sandbox://default/f%d" % r.randrange(40)}),
                         ("completion/complete", {"ref": {"type": "ref/resource", "uri": "sandbox://{sandbox}/{+path}"},
                                                  "argument": {"name": "path", "value": "f"}})))

    def listen(self, rev: str) -> tuple:
        return "subscriptions/listen", {"notifications": {
            "toolsListChanged": True, "taskIds": self.tasks[-3:],
            "resourceSubscriptions": ["sandbox://default/f%d" % i for i in range(20)]}}

    # ---- what came ---------------------------------------------------------------------------

    def learn(self, data: bytes) -> None:
        for word, found in ((b'"taskId":"', self.tasks), (b'"run_id":"', self.runs)):
            at = data.find(word)
            if at >= 0:
                value = data[at + len(word):at + len(word) + 40].split(b'"')[0].decode("ascii", "replace")
                found.append(value)
                del found[:-20]

    def read(self, s: socket.socket, seconds: float) -> bytes:
        got = b""
        deadline = time.monotonic() + seconds
        try:
            while (left := deadline - time.monotonic()) > 0:
                s.settimeout(left)
                piece = s.recv(65536)
                if not piece:
                    break
                self.learn(piece)
                got = (got + piece)[-200000:]
        except OSError:
            pass
        return got

    def leave(self, s: socket.socket) -> None:
        how = self.random.randrange(4)
        try:
            if how == 0:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif how == 1:
                s.shutdown(socket.SHUT_WR)
                time.sleep(self.random.random() * 0.05)
        except OSError:
            pass
        s.close()

    # ---- transports --------------------------------------------------------------------------

    def post(self, path: str, body: bytes, head: dict, method: str = "POST") -> socket.socket:
        s = self.server.raw()
        lines = "".join("%s: %s\r\n" % pair for pair in head.items())
        data = ("%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n"
                % (method, path, lines, len(body))).encode() + body
        cut = self.random.randrange(len(data)) if self.random.random() < 0.05 else len(data)
        try:
            s.sendall(data[:cut])
        except OSError:
            pass
        return s

    def accept(self) -> dict:
        return {"Accept": self.random.choice(("application/json, text/event-stream", "text/event-stream",
                                              "application/json", "application/json, text/event-stream"))}

    def modern(self) -> None:
        m = self.message(MODERN)
        head = {**self.accept(), "MCP-Protocol-Version": MODERN, "Mcp-Method": m["method"]}
        for member in ("name", "uri", "taskId"):
            if member in m["params"]:
                head["Mcp-Name"] = m["params"][member]
        s = self.post("/mcp", json.dumps(m).encode(), head)
        self.read(s, self.random.random() * 0.6)
        self.leave(s)

    def session(self) -> None:
        r = self.random
        rev = r.choice(LEGACY[1:])
        s = self.post("/mcp", json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": rev, "capabilities": ABLE, "clientInfo": {"name": "s", "version": "1"}}}).encode(),
            {"Accept": "application/json, text/event-stream"})
        got = b""
        for _ in range(20):
            got += self.read(s, 0.1)
            if b"mcp-session-id: " in got.lower():
                break
        s.close()
        if b"mcp-session-id: " not in got.lower():
            return
        at = got.lower().index(b"mcp-session-id: ") + 16
        head = {"Mcp-Session-Id": got[at:].split(b"\r\n")[0].decode(), "MCP-Protocol-Version": rev}
        open_ones = []
        for _ in range(r.randrange(1, 7)):
            what = r.random()
            if what < 0.6:
                m: object = self.message(rev)
                if rev == "2025-03-26" and r.random() < 0.3:
                    m = [self.message(rev) for _ in range(r.randrange(1, 6))]
                open_ones.append(self.post("/mcp", json.dumps(m).encode(), {**head, **self.accept()}))
            elif what < 0.75:
                last = {"Last-Event-ID": "%d_%d" % (r.randrange(6), r.randrange(4))} if r.random() < 0.7 else {}
                open_ones.append(self.post("/mcp", b"", {**head, **last, "Accept": "text/event-stream"}, "GET"))
            else:
                note: dict = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": self.ids}}
                if what > 0.85:
                    note = {"jsonrpc": "2.0", "id": r.randrange(3),
                            "result": {"action": "accept", "content": {"line": "l"}}}
                self.post("/mcp", json.dumps(note).encode(), head).close()
            if open_ones and r.random() < 0.6:
                self.read(r.choice(open_ones), r.random() * 0.4)
            if open_ones and r.random() < 0.3:
                self.leave(open_ones.pop(r.randrange(len(open_ones))))
        if r.random() < 0.5:
            self.post("/mcp", b"", head, "DELETE").close()
        for s in open_ones:
            self.leave(s)

    def sse(self) -> None:
        r = self.random
        s = self.post("/sse", b"", {"Accept": "text/event-stream"}, "GET")
        got = b""
        for _ in range(20):
            got += self.read(s, 0.1)
            if b"data: /messages/" in got:
                break
        if b"data: /messages/" in got:
            path = got[got.index(b"data: /messages/") + 6:].split(b"\n")[0].strip().decode()
            first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2024-11-05", "capabilities": ABLE, "clientInfo": {"name": "s", "version": "1"}}}
            for m in (first, *(self.message("2024-11-05") for _ in range(r.randrange(5)))):
                self.post(path, json.dumps(m).encode(), {}).close() if r.random() < 0.1 else self.read(
                    self.post(path, json.dumps(m).encode(), {}), 0.02)
            self.read(s, r.random() * 0.5)
        self.leave(s)

    def lines(self) -> None:
        r = self.random
        s = socket.socket(socket.AF_UNIX)
        try:
            s.connect(os.path.join(self.server.data, "data", "mcp.sock"))
            s.sendall(b'{"krait":{"version":1,"dialect":"krait","structured":false}}\n')
            self.read(s, 0.05)
            rev = r.choice((*LEGACY, MODERN))
            if rev != MODERN:
                s.sendall(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                    "protocolVersion": rev, "capabilities": ABLE,
                    "clientInfo": {"name": "s", "version": "1"}}}).encode() + b"\n")
            for _ in range(r.randrange(8)):
                s.sendall(r.choice((json.dumps(self.message(rev)).encode(), json.dumps(self.message(rev)).encode(),
                                    b"nonsense", b'{"jsonrpc":"2.0","id":0,"result":{"action":"decline"}}',
                                    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}'
                                    % self.ids)) + b"\n")
                if r.random() < 0.5:
                    self.read(s, r.random() * 0.2)
        except OSError:
            pass
        self.leave(s)

    def play(self, until: float) -> None:
        while time.monotonic() < until:
            what = self.random.choice((self.modern, self.modern, self.session, self.session, self.sse, self.lines))
            try:
                what()
            except OSError:
                time.sleep(0.05)
            self.done[what.__name__] = self.done.get(what.__name__, 0) + 1


@check
def clients_that_leave_in_the_middle_leave_nothing() -> None:
    print("storm: seed %d, %g s" % (SEED, SECONDS), file=sys.stderr, flush=True)
    with Server(program=KRAIT_FIXTURES, validate=False) as s:
        actors = [Actor(s, i) for i in range(ACTORS)]
        until = time.monotonic() + SECONDS
        threads = [threading.Thread(target=a.play, args=(until,), daemon=True) for a in actors]
        for t in threads:
            t.start()
        for t in threads:
            t.join(SECONDS + 60)
        assert s.process.poll() is None, "the server is gone: " + s.log_text()[-3000:]
        done: dict = {}
        for a in actors:
            for kind, count in a.done.items():
                done[kind] = done.get(kind, 0) + count
        print("storm: %s" % done, file=sys.stderr, flush=True)
        assert all(done.get(kind, 0) >= 3 for kind in ("modern", "session", "sse", "lines")), done
        with Http(s.port) as c:
            for task in c.call("tasks/list")["tasks"]:
                try:
                    c.call("tasks/cancel", {"taskId": task["taskId"]})
                except Exception:  # it is over
                    pass
            for name in ("s0", "s1", "s2", "s3", "new"):
                c.tool("terminate_session", session_id=name)  # calls of sessions go on when their client leaves
                result = c.tool("execute_python", code="print('free')", session_id=name, timeout=90)
                assert "free" in json.dumps(result), (name, result)
        equal(s.stop(), 0, s.log_text()[-3000:])
        assert "Sanitizer" not in s.log_text(), s.log_text()[-6000:]


if __name__ == "__main__":
    sys.argv[1:] = [a for a in sys.argv[1:] if not a.isdigit()]
    main()
