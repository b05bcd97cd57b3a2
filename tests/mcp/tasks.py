#!/usr/bin/python3
"""Runs that go on as tasks, in both designs, through real connections: their result, their input(),
cancelling that really stops them, who may see them, and what is told of them."""
from __future__ import annotations

import atexit
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "lib")]
from check import check, contains, equal, main
from krait_server import KRAIT, Server
from mcp import MODERN, Client, Http, RpcError, Stdio

TASKS = "io.modelcontextprotocol/tasks"
RELATED = "io.modelcontextprotocol/related-task"
ABLE = {"elicitation": {}, "extensions": {TASKS: {}}}
FOREVER = "import time\nwhile True:\n    time.sleep(0.05)"
SLOW = "import time\nfor i in range(13):\n    print('step', i, flush=True)\n    time.sleep(0.5)\n"  # past 5 s: a task

_servers: dict[str, Server] = {}
_names = iter(range(10**6))


def server(*flags: str) -> Server:
    key = " ".join(flags)
    if key not in _servers:
        one = Server(args=list(flags), validate=False)
        atexit.register(one.close, False)
        _servers[key] = one.start()
    return _servers[key]


def legacy(**how: Any) -> Http:
    return Http(server().port, **how)


def modern(**how: Any) -> Http:
    return Http(server().port, rev=MODERN, **{"capabilities": ABLE, **how})


def session() -> str:
    return "t%d" % next(_names)


def begin(c: Client, code: str, name: str = "", **task: Any) -> dict:
    """A task of 2025-11-25."""
    return c.call("tools/call", {"name": "execute_python", "arguments": {"code": code, "session_id": name or session()},
                                 "task": task})["task"]


def text(result: dict) -> str:
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


def until(c: Client, task: str, *statuses: str, seconds: float = 30) -> dict:
    deadline = time.monotonic() + seconds
    while True:
        got = c.call("tasks/get", {"taskId": task})
        if got["status"] in statuses:
            return got
        assert time.monotonic() < deadline, "%s, and not %s within %g s" % (got["status"], statuses, seconds)
        time.sleep(0.05)


def refused(code: int, function: Any, *args: Any) -> RpcError:
    try:
        got = function(*args)
    except RpcError as why:
        equal(why.code, code)
        return why
    raise AssertionError("it was answered: %r" % (got,))


def is_free(c: Client, name: str) -> None:
    """The session runs something else at once: what ran there is really over."""
    equal(text(c.tool("execute_python", code="print('free')", session_id=name, timeout=20)), "free")


def says(line: str) -> Any:
    answer = {"action": "accept", "content": {"line": line}}
    return lambda method, params: answer if method == "elicitation/create" else None


# ---- 2025-11-25 --------------------------------------------------------------------------------


def whole_life(c: Client) -> None:
    made = begin(c, "import time\ntime.sleep(0.4)\nprint(6 * 7)", ttl=60000)
    equal((made["status"], made["ttl"]), ("working", 60000))
    equal(c.call("tasks/get", {"taskId": made["taskId"]})["taskId"], made["taskId"])
    result = c.call("tasks/result", {"taskId": made["taskId"]})
    equal(text(result), "42")
    equal(result["_meta"][RELATED], {"taskId": made["taskId"]})
    equal(until(c, made["taskId"], "completed")["status"], "completed")
    contains([one["taskId"] for one in c.call("tasks/list")["tasks"]], made["taskId"])


@check
def legacy_task_over_http() -> None:
    with legacy() as c:
        tools = {tool["name"]: tool for tool in c.call("tools/list")["tools"]}
        equal(tools["execute_python"]["execution"], {"taskSupport": "optional"})
        whole_life(c)


@check
def legacy_task_over_stdio() -> None:
    data = os.path.join(server().data, "data")
    with Stdio([os.path.abspath(KRAIT), "mcp", "--data", data], cwd=server().data) as c:
        whole_life(c)
        noted = c.noted("notifications/tasks/status")
        equal(noted[-1]["status"], "completed")


@check
def legacy_error_is_a_failed_task_with_a_result() -> None:
    with legacy() as c:
        made = begin(c, "1 / 0")
        until(c, made["taskId"], "failed")
        result = c.call("tasks/result", {"taskId": made["taskId"]})
        assert result["isError"]
        contains(text(result), "ZeroDivisionError")


@check
def legacy_input_is_asked_on_the_stream_of_the_result() -> None:
    with legacy(capabilities={"elicitation": {}}, answer=says("Ada")) as c:
        made = begin(c, "print('hello', input('Who? '))")
        until(c, made["taskId"], "input_required")
        equal(c.asked, [])  # no client was asked yet: there was no stream to ask on
        contains(text(c.call("tasks/result", {"taskId": made["taskId"]})), "hello Ada")
        method, params = c.asked[0]
        equal((method, params["_meta"][RELATED]), ("elicitation/create", {"taskId": made["taskId"]}))


@check
def legacy_cancel_stops_the_run() -> None:
    name = session()
    with legacy() as c:
        made = begin(c, FOREVER, name)
        waiting = c.begin("tasks/result", {"taskId": made["taskId"]})
        equal(c.call("tasks/cancel", {"taskId": made["taskId"]})["status"], "cancelled")
        refused(-32602, waiting.result)
        refused(-32602, c.call, "tasks/cancel", {"taskId": made["taskId"]})
        is_free(c, name)


@check
def legacy_refusals() -> None:
    with legacy() as c:
        refused(-32601, c.call, "tools/call", {"name": "list_sandboxes", "arguments": {}, "task": {}})
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            refused(-32602, c.call, method, {"taskId": "nosuchtask"})
            refused(-32602, c.call, method, {"taskId": 7})
            refused(-32602, c.call, method)
        refused(-32602, c.call, "tasks/list", {"cursor": "7"})
        refused(-32601, c.call, "tasks/update", {"taskId": "x", "inputResponses": {}})  # of the other design
    with legacy(rev="2025-06-18") as c:
        refused(-32601, c.call, "tasks/list")
        params = {"name": "execute_python", "arguments": {"code": "print(1)"}, "task": {}}
        equal(text(c.call("tools/call", params)), "1")


# ---- 2026-07-28 --------------------------------------------------------------------------------


def slow(c: Client, code: str, name: str = "") -> dict:
    made = c.tool("execute_python", code=code, session_id=name or session())
    equal(made["resultType"], "task")
    return made


@check
def modern_long_run_becomes_a_task() -> None:
    with modern() as c:
        contains(c.call("server/discover")["capabilities"]["extensions"], TASKS)
        quick = c.tool("execute_python", code="print(1)", session_id=session())
        equal((quick["resultType"], text(quick)), ("complete", "1"))
        made = slow(c, SLOW)
        assert "result" not in made and "requestState" not in made, made
        listening = c.begin("subscriptions/listen", {"notifications": {"taskIds": [made["taskId"]]}})
        done = until(c, made["taskId"], "completed")
        equal(done["resultType"], "complete")
        equal(text(done["result"]).splitlines(), ["step %d" % i for i in range(13)])  # all of it, from the beginning
        note = c.noted("notifications/tasks")[-1]
        equal((note["taskId"], note["status"]), (made["taskId"], "completed"))
        listening.cancel()


@check
def modern_input_in_a_task_is_answered_by_update() -> None:
    with modern() as c:
        made = slow(c, "import time\ntime.sleep(5.5)\nprint('hello', input('Who? '), input('And? '))")
        keys = []
        for word in ("Ada", "Bob"):
            asked = until(c, made["taskId"], "input_required")["inputRequests"]
            (key, request), = asked.items()
            equal(request["method"], "elicitation/create")
            keys.append(key)
            c.call("tasks/update", {"taskId": made["taskId"],
                                    "inputResponses": {key: {"action": "accept", "content": {"line": word}}}})
        assert keys[0] != keys[1], "a key is never used twice"
        contains(text(until(c, made["taskId"], "completed")["result"]), "hello Ada Bob")


@check
def modern_declined_input_is_the_end_of_input() -> None:
    with modern() as c:
        made = slow(c, "import time\ntime.sleep(5.5)\ninput('Who? ')")
        key, = until(c, made["taskId"], "input_required")["inputRequests"]
        c.call("tasks/update", {"taskId": made["taskId"], "inputResponses": {key: {"action": "decline"}}})
        done = until(c, made["taskId"], "completed")
        assert done["result"]["isError"]
        contains(text(done["result"]), "EOFError")


@check
def modern_cancel_stops_the_run() -> None:
    name = session()
    with modern() as c:
        made = slow(c, FOREVER, name)
        c.call("tasks/cancel", {"taskId": made["taskId"]})
        equal(until(c, made["taskId"], "cancelled")["status"], "cancelled")
        c.call("tasks/cancel", {"taskId": made["taskId"]})  # again: the same answer
        is_free(c, name)


@check
def modern_refusals() -> None:
    with modern() as c:
        for method in ("tasks/result", "tasks/list"):
            refused(-32601, c.call, method, {"taskId": "x"})
        refused(-32602, c.call, "tasks/get", {"taskId": "nosuchtask"})
        refused(-32602, c.call, "tasks/update", {"taskId": "nosuchtask", "inputResponses": {}})
    with modern(capabilities={}) as c:
        why = refused(-32021, c.call, "tasks/get", {"taskId": "x"})
        equal(why.data, {"requiredCapabilities": {"extensions": {TASKS: {}}}})
        equal(why.status, 400)


@check
def tasks_are_their_owners_alone() -> None:
    s = server("--require-auth", "--allow-registration")
    keys = []
    for who in ("ann", "ben"):
        account = {"username": who, "email": who + "@example.org", "password": "correct horse 7"}
        keys.append(s.post("/api/register", account).json()["api_key"])
    with Http(s.port, key=keys[0]) as ann, Http(s.port, key=keys[1]) as ben:
        made = begin(ann, "print(1)")
        equal(text(ann.call("tasks/result", {"taskId": made["taskId"]})), "1")
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            refused(-32602, ben.call, method, {"taskId": made["taskId"]})
        equal(ben.call("tasks/list")["tasks"], [])
        equal(len(ann.call("tasks/list")["tasks"]), 1)


main()
