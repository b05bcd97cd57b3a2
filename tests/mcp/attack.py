#!/usr/bin/python3
"""MCP under a hostile client: keys with fewer rights, keys that were revoked, ids of others, streams that end in an
odd order, requests that are held open to fill memory. Each refusal has beside it what is allowed.
"""
from __future__ import annotations

import atexit
import functools
import itertools
import json
import os
import select
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))

from check import check, contains, equal, main  # noqa: E402
from krait_server import Server  # noqa: E402
from mcp import MODERN, Http, HttpError, RpcError, Sse, events  # noqa: E402

ROOT_KEY = "root-key-of-the-attack-suite"
TASKS = "io.modelcontextprotocol/tasks"
ABLE = {"elicitation": {}, "extensions": {TASKS: {}}}
MIB = 1 << 20
ASKS = "print('got', repr(input('Who? ')))"
_names = itertools.count()


@functools.cache
def server() -> Server:
    s = Server(args=["--require-auth"], env={"API_KEY": ROOT_KEY}, key=ROOT_KEY, validate=False).start()
    atexit.register(s.close, False)
    return s


@functools.cache
def user(name: str) -> str:
    return server().post("/api/v1/users", {"name": name, "rights": ["read", "run"]}).json()["id"]


def new_key(name: str, *rights: str) -> dict:
    made = server().post("/api/v1/keys", {"user": user(name), "name": "k%d" % next(_names), "rights": list(rights)})
    assert made.status in (200, 201), made.text
    return made.json()


@functools.cache
def key(name: str, *rights: str) -> str:
    return new_key(name, *(rights or ("read", "run")))["key"]


def client(name: str = "ann", *rights: str, **how) -> Http:
    return Http(server().port, key=key(name, *rights), **how)


def name() -> str:
    return "a%d" % next(_names)


def text(result: dict) -> str:
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


def code_of(function, *args) -> int | None:
    """The code of the error, or None: it was answered."""
    try:
        function(*args)
    except RpcError as why:
        return why.code
    return None


def wait_for(what, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "not within %g s" % seconds
        time.sleep(0.05)


def begin_task(c: Http, code: str, **more) -> str:
    return c.call("tools/call", {"name": "execute_python", "arguments": {"code": code, "session_id": name()},
                                 "task": {"ttl": 120000}, **more})["task"]["taskId"]


def until(c: Http, task: str, *statuses: str) -> dict:
    got: dict = {}

    def there() -> bool:
        got.update(c.call("tasks/get", {"taskId": task}))
        return got["status"] in statuses

    wait_for(there)
    return got


# ---- streams ---------------------------------------------------------------------------------------


@check
def the_oldest_stream_that_ends_last_is_kept():
    """Sixteen ended streams are kept of a session; one that was opened before all of them and ends after them is the
    newest."""
    with client() as c:
        first: list = []
        connection = c.connect()
        slow = c.request("tools/call", {"name": "execute_python", "arguments": {
            "code": "import time\ntime.sleep(3)\nprint('late')", "session_id": name()}})
        connection.request("POST", c.path, json.dumps(slow).encode(), c.head(slow))
        stream = events(connection.getresponse())
        first.append(next(stream))  # it has begun: the priming event
        only = {**c.head(), "Accept": "text/event-stream"}
        ended = []
        for _ in range(20):
            status, _headers, body = c.raw(c.request("ping"), only)
            equal(status, 200)
            ended.append([e["id"] for e in events(body.splitlines(True)) if e.get("data") and "id" in e][0])
        answer = next(event for event in stream if event.get("data"))
        contains(answer["data"], "late")
        connection.close()
        status, _headers, body = c.raw(None, {**only, "Last-Event-ID": first[0]["id"]}, "GET")
        equal(status, 200)
        contains(body.decode(), "late", "its answer can still be picked up")
        oldest = ended[0].split("_")[0] + "_0"
        equal(c.raw(None, {**only, "Last-Event-ID": oldest}, "GET")[0], 400, "the one that ended longest ago went")
        newest = ended[-1].split("_")[0] + "_0"
        equal(c.raw(None, {**only, "Last-Event-ID": newest}, "GET")[0], 200)


# ---- keys with fewer rights ------------------------------------------------------------------------


@check
def a_key_that_reads_does_not_answer_for_runs():
    """read_run is for reading: a question that waits in the run is neither answered nor ended by a key that may not
    run."""
    c = client(rev=MODERN, capabilities=ABLE)
    args = {"code": ASKS, "session_id": name()}
    asked = c.tool("execute_python", args)
    equal(asked["resultType"], "input_required")
    run = next(r["uri"] for r in c.call("resources/list")["resources"] if r["uri"].startswith("run://"))[6:]
    reader = client("ann", "read", rev=MODERN, capabilities=ABLE)
    for _ in range(2):
        seen = reader.tool("read_run", run_id=run, wait_s=0.2)
        equal(seen.get("resultType"), "complete", "a reader is not asked")
    retry = {"name": "execute_python", "arguments": args, "requestState": asked["requestState"],
             "inputResponses": {"line": {"action": "accept", "content": {"line": "eve"}}}}
    assert reader.call("tools/call", retry)["isError"], "nor does the state help it"
    equal(code_of(client("bob", rev=MODERN, capabilities=ABLE).call, "tools/call", retry), -32602, "nor another user")
    retry["inputResponses"]["line"]["content"]["line"] = "ann"
    contains(text(c.call("tools/call", retry)), "got 'ann'")


@check
def a_reader_leaves_the_question_of_a_left_run_open():
    c = client(rev=MODERN)
    run = start_asking()
    reader = client("ann", "read", rev=MODERN)  # it cannot be asked: with the right to run that would end the input
    seen = text(reader.tool("read_run", run_id=run, wait_s=1))
    assert "EOFError" not in seen, seen
    contains(text(c.tool("read_run", run_id=run, wait_s=10)), "EOFError", "a key that may run ends it by reading on")


def start_asking() -> str:
    """A run over REST whose question no MCP client has: its stream is read to the question and held open."""
    connection = server().connect()
    connection.request("POST", "/api/v1/runs", json.dumps({"code": ASKS, "stream": True, "interactive": True,
                                                           "session_id": name()}).encode(),
                       {"Content-Type": "application/json", "Authorization": "Bearer " + key("ann"),
                        "Accept": "application/x-ndjson"})
    reply = connection.getresponse()
    run = ""
    for line in reply:
        event = json.loads(line)
        run = event.get("run_id", run)
        if event.get("type") == "input":
            break
    atexit.register(connection.close)
    return run


@check
def a_key_that_reads_neither_cancels_nor_answers_tasks():
    with client() as c:
        task = begin_task(c, "import time\ntime.sleep(60)")
        with client("ann", "read") as reader:
            equal(reader.call("tasks/get", {"taskId": task})["status"], "working", "it may look")
            assert code_of(reader.call, "tasks/cancel", {"taskId": task}) is not None
            equal(reader.call("tasks/get", {"taskId": task})["status"], "working")
        equal(c.call("tasks/cancel", {"taskId": task})["status"], "cancelled")
    m = client(rev=MODERN, capabilities=ABLE)
    with client(capabilities={"elicitation": {}}) as c:
        task = begin_task(c, ASKS)
        until(c, task, "input_required")
        reader = client("ann", "read", rev=MODERN, capabilities=ABLE)
        answers = {k: {"action": "accept", "content": {"line": "eve"}}
                   for k in reader.call("tasks/get", {"taskId": task})["inputRequests"]}
        assert code_of(reader.call, "tasks/update", {"taskId": task, "inputResponses": answers}) is not None
        equal(c.call("tasks/get", {"taskId": task})["status"], "input_required")
        m.call("tasks/update", {"taskId": task, "inputResponses": {
            k: {"action": "accept", "content": {"line": "ann"}} for k in answers}})
        contains(text(c.call("tasks/result", {"taskId": task})), "got 'ann'")


@check
def a_key_that_reads_neither_cancels_nor_answers_calls():
    """In a session each message has the rights of its own key: the lesser key cannot speak for what the greater one
    began."""
    asked: list = []
    ready = threading.Event()
    c = client(capabilities={"elicitation": {}})
    original = c._received

    def received(message: dict, status: int) -> None:
        if "method" in message and "id" in message:
            asked.append(message["id"])
            ready.set()
            return
        original(message, status)

    c._received = received
    c.open()
    pending = c.begin("tools/call", {"name": "execute_python", "arguments": {"code": ASKS, "session_id": name()}})
    assert ready.wait(20), "no question came"
    greater = c.key
    answer = {"jsonrpc": "2.0", "id": asked[0], "result": {"action": "accept", "content": {"line": "eve"}}}
    c.key = key("ann", "read")
    c.send(answer)
    c.notify("notifications/cancelled", {"requestId": pending.id})
    equal(c.raw(None, c.head(), "DELETE")[0], 403, "nor does it end the session under a call")
    equal(c.call("ping"), {}, "it may use the session for what it may do")
    assert not pending.done()
    c.key = greater
    c.send({**answer, "result": {"action": "accept", "content": {"line": "ann"}}})
    contains(text(pending.result(20)), "got 'ann'")
    c.close()


@check
def a_key_that_reads_runs_and_deletes_nothing():
    reader, c = client("ann", "read", rev=MODERN), client(rev=MODERN)
    tools = {tool["name"]: tool for tool in c.call("tools/list")["tools"]}
    refused = 0
    for dialect in ("krait", "sandbox-mcp", "python-sandbox", "sandbox-service", "python-executor", "mcp-sandbox"):
        reader.path = "/mcp?dialect=" + dialect
        for tool in reader.call("tools/list")["tools"]:
            if tool["annotations"].get("readOnlyHint") and tool["name"] != "get_sandbox_info":
                continue
            got = reader.tool(tool["name"])
            if tool["name"] == "get_sandbox_info" and dialect == "krait":
                equal(json.loads(text(got))["packages"], None, "packages are found by running code")
                continue
            assert got["isError"], (dialect, tool["name"], got)
            contains(text(got), "right", tool["name"])
            refused += 1
    assert refused >= 15, refused
    assert "execute_python" in tools and not c.tool("execute_python", code="print(1)").get("isError")


# ---- keys that were revoked ------------------------------------------------------------------------


def ends(sock: socket.socket, seconds: float = 20.0) -> bool:
    """The server ends the answer."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ready, _, _ = select.select([sock], [], [], max(0.0, deadline - time.monotonic()))
        if ready and (data := sock.recv(65536)) == b"":
            return True
        if ready and b"0\r\n\r\n" in data:
            return True
    return False


def streams_of(secret: str) -> dict:
    """One open answer of each kind, as sockets that have been read to where they wait."""
    found: dict = {}
    c = Http(server().port, key=secret)
    c.open()
    modern = Http(server().port, key=secret, rev=MODERN)

    def open_one(kind: str, method: str, path: str, message: dict | None, head: dict) -> None:
        body = json.dumps(message).encode() if message else b""
        s = server().raw()
        lines = "".join("%s: %s\r\n" % pair for pair in head.items())
        s.sendall(("%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%sContent-Length: %d\r\n\r\n"
                   % (method, path, lines, len(body))).encode()
                  + body)
        got = s.recv(65536)
        assert b" 200 " in got.split(b"\r\n")[0], (kind, got)
        found[kind] = s

    listen = modern.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    open_one("listen", "POST", "/mcp", listen, modern.head(listen))
    open_one("session", "GET", "/mcp", None, {**c.head(), "Accept": "text/event-stream"})
    open_one("sse", "GET", "/sse", None, {"Authorization": "Bearer " + secret, "Accept": "text/event-stream"})
    open_one("sse by query", "GET", "/sse?api_key=" + secret, None, {"Accept": "text/event-stream"})
    open_one("root", "GET", "/", None, {"Authorization": "Bearer " + secret, "Accept": "text/event-stream"})
    slow = modern.request("tools/call", {"name": "execute_python", "arguments": {
        "code": "import time\ntime.sleep(60)", "session_id": name()}}, token="t")
    open_one("call", "POST", "/mcp", slow, modern.head(slow))
    return found


@check
def streams_end_when_their_key_is_revoked():
    doomed, kept = new_key("ann", "read", "run"), new_key("ann", "read", "run")
    dying, living = streams_of(doomed["key"]), streams_of(kept["key"])
    equal(server().delete("/api/v1/keys/" + doomed["id"]).status in (200, 204), True)
    for kind, sock in dying.items():
        assert ends(sock), kind
    for kind, sock in living.items():
        while select.select([sock], [], [], 0)[0]:
            data = sock.recv(65536)
            assert data and b"0\r\n\r\n" not in data, kind
    for sock in (*dying.values(), *living.values()):
        sock.close()


# ---- what is another's -----------------------------------------------------------------------------


@check
def nothing_of_anothers_is_there():
    """Every id that ann has, in every place that takes one, is as unknown to bob as one that never was."""
    ann, bob = client("ann"), client("bob")
    with ann, bob:
        ann.stream()
        made = ann.tool("create_sandbox", {"name": name()})
        sandbox = json.loads(text(made))["sandbox_id"]
        ann.tool("execute_python", code="open('secret.txt', 'w').write('x')\nq = 1", sandbox_id=sandbox,
                 session_id="s-ann")
        resources = [r["uri"] for r in ann.call("resources/list")["resources"]]
        run = next(u for u in resources if u.startswith("run://"))[6:]
        task = begin_task(ann, "import time\ntime.sleep(60)")
        only = {**bob.head(), "Accept": "text/event-stream"}
        # sessions and their events
        for method in ("GET", "DELETE"):
            equal(bob.raw(None, {**only, "Mcp-Session-Id": ann.session}, method)[0], 404)
            equal(bob.raw(None, {**only, "Mcp-Session-Id": ann.session, "Last-Event-ID": "0_0"}, method)[0], 404)
        equal(bob.raw(bob.request("ping"), {**bob.head(), "Mcp-Session-Id": ann.session})[0], 404)
        equal(bob.raw(None, {**only, "Last-Event-ID": "0_0"}, "GET")[0], 400, "bob has no such stream himself")
        # tasks
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            equal(code_of(bob.call, method, {"taskId": task}), -32602, method)
        equal([t for t in bob.call("tasks/list")["tasks"] if t["taskId"] == task], [])
        # runs, sandboxes, sessions, files
        for tool, args in (("read_run", {"run_id": run}), ("stop_run", {"run_id": run}),
                           ("reset_sandbox", {"sandbox_id": sandbox}), ("delete_sandbox", {"sandbox_id": sandbox}),
                           ("list_files", {"sandbox_id": sandbox}), ("get_sandbox_info", {"sandbox_id": sandbox}),
                           ("read_file", {"sandbox_id": sandbox, "path": "secret.txt"}),
                           ("upload_file_to_sandbox", {"sandbox_id": sandbox, "path": "x", "content": "x"}),
                           ("terminate_session", {"session_id": "s-ann"}),
                           ("terminate_session", {"session_id": "s-ann", "sandbox_id": sandbox}),
                           ("execute_python", {"sandbox_id": sandbox, "code": "1"}),
                           ("install_package", {"sandbox_id": sandbox, "packages": "tiny"}),
                           ("uninstall_package", {"sandbox_id": sandbox, "packages": "tiny"}),
                           ("list_installed_packages", {"sandbox_id": sandbox}),
                           ("check_package_installation_status", {"sandbox_id": sandbox, "package_name": "tiny"}),
                           ("execute_terminal_command", {"sandbox_id": sandbox, "command": "true"})):
            assert bob.tool(tool, args).get("isError"), tool
        for uri in ("run://" + run, "session://s-ann", "sandbox://%s/secret.txt" % sandbox, "sandbox://%s/" % sandbox):
            assert code_of(bob.call, "resources/read", {"uri": uri}) in (-32002, -32602), uri
            equal(code_of(ann.call, "resources/read", {"uri": uri}), None, uri)
        # completion
        for template, argument in (("run://{run_id}", "run_id"), ("session://{session_id}", "session_id"),
                                   ("sandbox://{sandbox}/{+path}", "sandbox")):
            ask = {"ref": {"type": "ref/resource", "uri": template}, "argument": {"name": argument, "value": ""}}
            offered = bob.call("completion/complete", ask)["completion"]["values"]
            equal([v for v in offered if v in (run, "s-ann", sandbox)], [], template)
        path = {"ref": {"type": "ref/resource", "uri": "sandbox://{sandbox}/{+path}"},
                "argument": {"name": "path", "value": ""}, "context": {"arguments": {"sandbox": sandbox}}}
        equal(bob.call("completion/complete", path)["completion"]["values"], [])
        equal(ann.call("completion/complete", path)["completion"]["values"], ["secret.txt"])
        # what is told: bob subscribes to ann's addresses and hears nothing
        bob.stream()
        uri = "sandbox://%s/secret.txt" % sandbox
        for c in (ann, bob):
            c.call("resources/subscribe", {"uri": uri})
        ann.tool("execute_python", code="open('secret.txt', 'w').write('y')", sandbox_id=sandbox, session_id="s-ann")
        ann.noted("notifications/resources/updated")
        time.sleep(0.3)
        equal([n for n in bob.notes if n[0] == "notifications/resources/updated"], [])
        ann.call("tasks/cancel", {"taskId": task})


@check
def the_old_streams_are_their_users_alone():
    with Sse(server().port, key=key("ann")) as ann:
        mine = ann.endpoint
        ann.call("ping")
        stranger = Sse(server().port, key=key("bob"))
        stranger.endpoint = mine
        try:
            stranger.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
            raise AssertionError("bob spoke on ann's stream")
        except HttpError as why:
            equal(why.status, 404)
        ann.call("ping")


# ---- memory ----------------------------------------------------------------------------------------


@check
def large_requests_that_are_held_open_are_bounded():
    """A request is kept as long as its call: a client that holds many large ones open is refused more, and others are
    served."""
    c = client("eve", rev=MODERN, capabilities={})
    padding = list(range(90000))  # the worst a message of its size can cost
    held: list = []
    refused: list = []

    def hold(_: int) -> None:
        message = c.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        message["params"]["_meta"]["padding"] = padding
        body = json.dumps(message).encode()
        head = "".join("%s: %s\r\n" % pair for pair in c.head(message).items())
        s = server().raw()
        s.sendall(("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n%sContent-Length: %d\r\n\r\n"
                   % (head, len(body))).encode() + body)
        first = s.recv(65536)
        (held if b"acknowledged" in first or b"event-stream" in first else refused).append((s, first))

    for i in range(60):
        hold(i)
    assert held, "some are taken"
    assert refused, "all %d were taken" % len(held)
    contains(refused[0][1].decode(), "-32603")
    equal(client("bob", rev=MODERN).call("tools/list")["tools"] != [], True, "others are served")
    small = c.call("tools/list")
    assert small["tools"], "so are small requests of the same user"
    for s, _ in (*held, *refused):
        s.close()
    wait_for(lambda: code_of(lambda: big_call(c, padding)) is None)


def big_call(c: Http, padding: list) -> None:
    c.call("tools/list", {"_meta": {"padding": padding}})


@check
def what_is_kept_of_a_message_is_short():
    """Capabilities last as long as a session, subscriptions too, and a token is in every message of progress."""
    status, _headers, body = client("eve").raw({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {"experimental": {"x": "y" * 100000}},
        "clientInfo": {"name": "t", "version": "1"}}})
    equal((status, json.loads(body)["error"]["code"]), (200, -32602))
    with client("eve", capabilities={"experimental": {"x": "y" * 1000}}) as c:
        equal(code_of(lambda: c.call("ping", token="t" * 1025)), -32602)
        equal(code_of(lambda: c.call("ping", token="t" * 1024)), None)
        codes = [code_of(c.call, "resources/subscribe", {"uri": "sandbox://default/" + "%04d" % i + "x" * 4000})
                 for i in range(40)]
        equal((codes[0], codes[-1]), (None, -32603), "64 KiB of addresses")
        equal(code_of(c.call, "resources/unsubscribe", {"uri": "sandbox://default/0000" + "x" * 4000}), None)
        equal(code_of(c.call, "resources/subscribe", {"uri": "sandbox://default/short"}), None)


@check
def a_heap_of_large_bodies_is_answered():
    """Each body of 4 MiB is parsed by a thread: what waits for one is bounded, and every client is answered."""
    c = client("eve", rev=MODERN)
    message = c.request("tools/list")
    message["params"]["_meta"]["padding"] = "z" * (4 * MIB - 2000)
    body = json.dumps(message).encode()
    head = "".join("%s: %s\r\n" % pair for pair in c.head(message).items())
    data = ("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n%sContent-Length: %d\r\n\r\n" % (head, len(body))).encode() + body
    sockets = [server().raw() for _ in range(60)]
    found: list = []

    def send(s: socket.socket) -> None:
        try:
            s.sendall(data)
            found.append(s.recv(200).split(b" ")[1])
        except OSError as why:
            found.append(type(why).__name__.encode())

    threads = [threading.Thread(target=send, args=(s,), daemon=True) for s in sockets]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    for s in sockets:
        s.close()
    equal(set(found) - {b"200", b"503"}, set(), "each has an answer")
    equal(len(found), 60)
    assert b"200" in found, found
    assert c.call("tools/list")["tools"]


@check
def slashes_behind_an_upload_root_open_nothing_else():
    folder = os.path.join(server().data, "roots", "in")
    os.makedirs(folder, mode=0o755)
    os.chmod(os.path.dirname(folder), 0o755)
    for path in ("a.txt", "../out.txt"):
        with open(os.path.join(folder, path), "w") as f:
            f.write(path)
        os.chmod(os.path.join(folder, path), 0o644)
    with Server(args=["--upload-roots", folder + "/" * 300], validate=False) as s, Http(s.port) as c:
        def upload(path: str) -> dict:
            return c.tool("upload_file_to_sandbox", local_file_path=path, path="got.txt")

        assert not upload(folder + "/a.txt").get("isError")
        assert not upload(folder + "//a.txt").get("isError")
        for path in (folder, folder + "/", folder + "x", os.path.dirname(folder) + "/out.txt", folder + "/../out.txt",
                     "/etc/passwd", "a.txt"):
            assert upload(path).get("isError"), path


if __name__ == "__main__":
    main()
