#!/usr/bin/python3
"""input() in its three ways, tasks, and runs that outlive the call that started them: read_run and stop_run."""
import functools
import json
import re
import sys
import threading
import time
from http.client import HTTPException
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
from check import check, contains, equal  # noqa: E402
from executing import (  # noqa: E402
    client,
    eras,
    last_run,
    run,
    running,
    said,
    serve,
    session,
    text,
    typed,
    until,
    word,
)
from mcp import MODERN, RpcError  # noqa: E402

TASKS = "io.modelcontextprotocol/tasks"

# ---- input() -----------------------------------------------------------------------------------

ASKS = {"elicitation": {}}
NAME = "name = input('Name? ')\nprint('hello', name)"


def ask_modern(c, code: str, answer, **args) -> dict:
    """One round; `answer` is what inputResponses has, or None."""
    params = {"name": "execute_python", "arguments": {"code": code, **args}}
    first = c.call("tools/call", params)
    equal(first["resultType"], "input_required")
    return c.call(
        "tools/call", {**params, "inputResponses": answer, "requestState": first["requestState"]}
    )


def line(value) -> dict:
    return {"line": {"action": "accept", "content": {"line": value}}}


@check
def input_modern_goes_on_with_the_same_run():
    for era in ("modern", "stdio"):
        with client(era, capabilities=ASKS, **({"rev": MODERN} if era == "stdio" else {})) as c:
            name = session()
            params = {
                "name": "execute_python",
                "arguments": {
                    "code": "n = globals().get('n', 0) + 1\nprint('run', n)\n" + NAME,
                    "session_id": name,
                },
            }
            first = c.call("tools/call", params)
            equal(first["resultType"], "input_required")
            form = first["inputRequests"]["line"]
            equal((form["method"], form["params"]["message"]), ("elicitation/create", "Name? "))
            result = c.call(
                "tools/call",
                {**params, "inputResponses": line("Ada"), "requestState": first["requestState"]},
            )
            equal(text(result), "run 1\nName? hello Ada")


@check
def input_modern_several_questions():
    with client("modern", capabilities=ASKS) as c:
        params = {
            "name": "execute_python",
            "arguments": {"code": "print(input('a? ') + input('b? '))", "session_id": session()},
        }
        first = c.call("tools/call", params)
        second = c.call(
            "tools/call",
            {**params, "inputResponses": line("1"), "requestState": first["requestState"]},
        )
        equal(second["resultType"], "input_required")
        equal(second["inputRequests"]["line"]["params"]["message"], "b? ")
        assert second["requestState"] != first["requestState"]
        third = c.call(
            "tools/call",
            {**params, "inputResponses": line("2"), "requestState": second["requestState"]},
        )
        equal(text(third), "a? b? 12")


@check
def input_modern_declined_and_empty():
    with client("modern", capabilities=ASKS) as c:
        for action in ("decline", "cancel"):
            result = ask_modern(c, NAME, {"line": {"action": action}}, session_id=session())
            assert result["isError"]
            contains(text(result), "EOFError")
        result = ask_modern(c, NAME, line(""), session_id=session())
        equal(text(result), "Name? hello ")


@check
def input_modern_asks_again_for_what_is_missing():
    with client("modern", capabilities=ASKS) as c:
        params = {"name": "execute_python", "arguments": {"code": NAME, "session_id": session()}}
        state = c.call("tools/call", params)["requestState"]
        for answer in (
            {},
            {"other": {"action": "accept"}},
            {"line": 7},
            {"line": {"action": "perhaps"}},
            {"line": {"action": "accept", "content": {"line": 7}}},
        ):
            again = c.call(
                "tools/call", {**params, "inputResponses": answer, "requestState": state}
            )
            equal(again["resultType"], "input_required", json.dumps(answer))
            equal(again["inputRequests"]["line"]["params"]["message"], "Name? ")
            state = again["requestState"]
        result = c.call(
            "tools/call", {**params, "inputResponses": line("Ada"), "requestState": state}
        )
        equal(text(result), "Name? hello Ada")


@check
def input_modern_state_is_good_once_and_for_its_call():
    with client("modern", capabilities=ASKS) as c:
        params = {"name": "execute_python", "arguments": {"code": NAME, "session_id": session()}}
        state = c.call("tools/call", params)["requestState"]
        bad = [
            {**params, "requestState": state[:-2] + ("AA" if state[-2:] != "AA" else "BB")},
            {**params, "requestState": "nonsense"},
            {
                "name": "execute_python",
                "arguments": {"code": "print('other')"},
                "requestState": state,
            },
        ]
        for one in bad:
            try:
                c.call("tools/call", {**one, "inputResponses": line("Eve")})
                raise AssertionError("a wrong state was taken: %r" % one)
            except RpcError as e:
                equal(e.code, -32602)
        good = {**params, "inputResponses": line("Ada"), "requestState": state}
        equal(text(c.call("tools/call", good)), "Name? hello Ada")
        try:
            c.call("tools/call", good)
            raise AssertionError("a state was taken twice")
        except RpcError as e:
            equal(e.code, -32602)


@check
def input_legacy_is_elicited():
    for era in ("legacy", "stdio"):
        asked = []

        def answer(method, params):
            asked.append((method, params))
            return {"action": "accept", "content": {"line": "Ada"}}

        with client(era, capabilities=ASKS, answer=answer) as c:
            equal(said(c, NAME), "Name? hello Ada")
        equal(asked[0][0], "elicitation/create")
        equal(asked[0][1]["message"], "Name? ")
        equal(asked[0][1]["requestedSchema"]["properties"]["line"]["type"], "string")


@check
def input_legacy_declined():
    with client("legacy", capabilities=ASKS, answer=lambda m, p: {"action": "decline"}) as c:
        result = run(c, NAME)
        assert result["isError"]
        contains(text(result), "EOFError")
        contains(text(result), "[hint] the client gave no answer to input()")


@eras
def input_without_a_client_is_the_end_of_input(c):
    result = run(c, NAME)
    assert result["isError"]
    contains(text(result), "EOFError")
    contains(text(result).splitlines()[-1], "`stdin`")


@check
def passwords_are_never_asked_for():
    asked = []
    with client("legacy", capabilities=ASKS, answer=lambda m, p: asked.append(m)) as c:
        result = run(c, "import getpass; getpass.getpass()")
        contains(text(result), "EOFError")
        contains(text(result).splitlines()[-1], "[hint] passwords are not asked for here")
    equal(asked, [])


@check
def waiting_for_input_is_not_running():
    def answer(method, params):
        time.sleep(3)
        return {"action": "accept", "content": {"line": "Ada"}}

    with client("legacy", capabilities=ASKS, answer=answer) as c:
        equal(text(run(c, NAME, timeout=1.5)), "Name? hello Ada")
        result = run(c, NAME + "\nimport time; time.sleep(20)", timeout=1.5)
        contains(text(result), "[timeout after 1.5 s; variables kept]")


@check
def input_in_a_task():
    extensions = {"extensions": {TASKS: {}}, **ASKS}
    with client("modern", capabilities=extensions) as c:
        code = "import time; time.sleep(5.6)\n" + NAME
        made = c.call(
            "tools/call",
            {"name": "execute_python", "arguments": {"code": code, "session_id": session()}},
        )
        equal(made["resultType"], "task")
        get = functools.partial(c.call, "tasks/get", {"taskId": made["taskId"]})
        until(lambda: get()["status"] == "input_required")
        key, asked = next(iter(get()["inputRequests"].items()))
        equal(asked["params"]["message"], "Name? ")
        c.call(
            "tasks/update",
            {
                "taskId": made["taskId"],
                "inputResponses": {key: {"action": "accept", "content": {"line": "Ada"}}},
            },
        )
        until(lambda: get()["status"] == "completed")
        equal(text(get()["result"]), "Name? hello Ada")


# ---- tasks -------------------------------------------------------------------------------------


@check
def tasks_the_client_asks_for():
    with client("legacy") as c:
        tool = next(t for t in c.call("tools/list")["tools"] if t["name"] == "execute_python")
        equal(tool["execution"], {"taskSupport": "optional"})
        made = c.call(
            "tools/call",
            {"name": "execute_python", "arguments": {"code": "print(1)"}, "task": {"ttl": 60000}},
        )
        result = c.call("tasks/result", {"taskId": made["task"]["taskId"]})
        equal(text(result), "1")
        try:
            c.call("tools/call", {"name": "read_run", "arguments": {"run_id": "x"}, "task": {}})
            raise AssertionError("read_run ran as a task")
        except RpcError as e:
            equal(e.code, -32601)


@check
def tasks_that_are_cancelled_stop():
    with client("legacy") as c:
        mark = word("87")
        made = c.call(
            "tools/call",
            {
                "name": "execute_terminal_command",
                "arguments": {"command": "sleep %s" % mark, "timeout": 300},
                "task": {},
            },
        )
        until(lambda: running(mark))
        c.call("tasks/cancel", {"taskId": made["task"]["taskId"]})
        until(lambda: not running(mark))


# ---- runs that outlive their call --------------------------------------------------------------


def left_running(c, code: str, **args) -> tuple:
    shown = text(run(c, code, timeout=120, **args))
    found = re.search(
        r"\[still running: go on with read_run\(run_id=\"(\w+)\", from=(\d+)\)", shown
    )
    assert found, shown
    return found.group(1), int(found.group(2)), shown


@eras
def long_runs_answer_and_go_on(c):
    one, at, shown = left_running(
        c, "import time\nprint('begun', flush=True)\ntime.sleep(7)\nprint('done')\n42"
    )
    contains(shown, "begun\n")
    assert "done" not in shown
    shown = c.text("read_run", run_id=one, wait_s=0, **{"from": at})
    contains(shown, "still running")
    result = c.tool("read_run", run_id=one, wait_s=30, **{"from": at})
    equal(text(result), "done\n[result] 42")
    equal(text(c.tool("read_run", run_id=one)), "begun\ndone\n[result] 42")


@eras
def stop_run_stops(c):
    mark = word("88")
    one, _, _ = left_running(
        c, "import subprocess\nprint('begun', flush=True)\nsubprocess.run(['sleep', '%s'])" % mark
    )
    assert running(mark)
    result = c.tool("stop_run", run_id=one)
    contains(text(result), "begun")
    contains(text(result), "[the program was interrupted; variables kept]")
    assert "isError" not in result
    until(lambda: not running(mark))
    contains(c.text("stop_run", run_id=one), "begun")  # over already


@check
def questions_of_a_run_that_was_left():
    code = "import time; time.sleep(5)\n" + NAME
    with client("modern") as c:  # no client can be asked: the end of input, once a client reads
        one, _, _ = left_running(c, code)
        shown = c.text("read_run", run_id=one, wait_s=20)
        contains(shown, "EOFError")
    with client("modern", capabilities=ASKS) as c:
        one, _, _ = left_running(c, code)
        params = {"name": "read_run", "arguments": {"run_id": one, "wait_s": 20}}
        asks = c.call("tools/call", params)
        equal(asks["resultType"], "input_required")
        result = c.call(
            "tools/call",
            {**params, "inputResponses": line("Ada"), "requestState": asks["requestState"]},
        )
        equal(text(result), "Name? hello Ada")


@check
def an_abandoned_question_ends_with_the_runs_own_timeout():
    """A call behind it says what it waits for, and has its turn."""
    name = session()
    with client("modern", capabilities=ASKS) as c, client("modern") as other:
        params = {"name": "execute_python", "arguments": {"code": NAME, "session_id": name, "timeout": 9}}
        equal(c.call("tools/call", params)["resultType"], "input_required")
        asks = last_run()["run_id"]
        one, at, shown = left_running(other, "print('my turn')", session_id=name)
        contains(shown, "[queued behind run %s, which waits for input since " % asks)
        shown = other.text("read_run", run_id=one, wait_s=0)
        contains(shown, "[queued behind run %s, which waits for input since " % asks)
        equal(other.text("read_run", run_id=one, wait_s=30), "my turn")
        shown = other.text("read_run", run_id=asks)
        contains(shown, "EOFError")
        contains(shown, "[input() was not answered, and had the end of input]")


def asks_and_is_cut_off(c, name: str) -> str:
    """Its run asks, for ten minutes at most, and the connection goes with the question on it: the run."""
    asked = threading.Event()

    def answer(method, params):
        asked.set()
        next(iter(c.connections.values())).sock.shutdown(2)
        raise SystemExit  # of the reader's thread: no answer, not even an error

    c.answer = answer
    c.begin(
        "tools/call",
        {"name": "execute_python", "arguments": {"code": NAME, "session_id": name, "timeout": 300}},
    )
    assert asked.wait(60)
    return last_run()["run_id"]


@check
def a_question_whose_client_is_gone_ends_soon():
    """Long before the run's own timeout; the call behind it has its turn."""
    name = session()
    gone = client("legacy", capabilities=ASKS)
    gone.open()
    asks = asks_and_is_cut_off(gone, name)
    with client("modern") as other:
        one, at, shown = left_running(other, "print('my turn')", session_id=name)
        contains(shown, "[queued behind run %s, which waits for input since " % asks)
        until(lambda: other.text("read_run", run_id=one, wait_s=5) == "my turn", 90)
        shown = other.text("read_run", run_id=asks)
        contains(shown, "EOFError")
        contains(shown, "[input() was not answered, and had the end of input]")
    gone.close()


@check
def a_client_that_comes_back_in_time_is_waited_for():
    with client("legacy", capabilities=ASKS) as c:
        asks = asks_and_is_cut_off(c, session())
        c.stream()  # the session's own: the client is there, and has the question
        time.sleep(15)
        c.answer = lambda method, params: {"action": "accept", "content": {"line": "Ada"}}
        c.stream(c.last_event[: c.last_event.index("_")] + "_0")  # the call's, from its beginning
        until(lambda: c.text("read_run", run_id=asks, wait_s=5) == "Name? hello Ada", 90)


@check
def a_late_answer_is_not_the_next_questions():
    def answer(method, params):
        if params["message"] == "a? ":
            time.sleep(7)  # past the end of the first question (5 s), well before that of the second (10 s)
        return {"action": "accept", "content": {"line": "to " + params["message"]}}

    code = "try:\n    input('a? ')\nexcept EOFError:\n    print(input('b? '))"
    with client("legacy", capabilities=ASKS, answer=answer) as c:
        equal(text(run(c, code, timeout=5)), "a? b? to b? ")
        contains(json.dumps(c.noted("notifications/cancelled")), "not waited for any more")


@check
def a_queued_run_says_behind_what_in_every_voice():
    extensions = {"extensions": {TASKS: {}}, **ASKS}
    name = session()
    with client("modern", capabilities=ASKS) as c, client("modern", capabilities=extensions) as other:
        params = {"name": "execute_python", "arguments": {"code": NAME, "session_id": name, "timeout": 120}}
        state = c.call("tools/call", params)["requestState"]
        asks = last_run()["run_id"]
        made = other.call(
            "tools/call",
            {"name": "execute_python", "arguments": {"code": "print('my turn')", "session_id": name}},
        )
        one = last_run()
        equal((one["run_id"] != asks, one["behind"], one["behind_asks"]), (True, asks, True))
        behind = "queued behind run %s, which waits for input since " % asks
        get = functools.partial(other.call, "tasks/get", {"taskId": made["taskId"]})
        contains(get()["statusMessage"], behind)
        contains(other.tool("read_run", run_id=one["run_id"], wait_s=0)["content"][0]["text"], behind)
        read = other.call("resources/read", {"uri": "run://" + one["run_id"]})
        contains(read["contents"][0]["text"], behind)
        c.call("tools/call", {**params, "inputResponses": line("Ada"), "requestState": state})
        until(lambda: get()["status"] == "completed")
        equal(("statusMessage" in get(), text(get()["result"])), (False, "my turn"))
        assert "behind" not in last_run(), "control: it waits no more"


@check
def a_question_that_is_with_the_client_is_left_alone():
    with client("modern", capabilities=ASKS) as c, client("modern") as other:
        params = {"name": "execute_python", "arguments": {"code": NAME, "session_id": session()}}
        asks = c.call("tools/call", params)
        one = last_run()["run_id"]
        shown = other.text("read_run", run_id=one, wait_s=0)
        contains(shown, "[still running")
        contains(shown, "[it waits for input()]")
        result = c.call(
            "tools/call",
            {**params, "inputResponses": line("Ada"), "requestState": asks["requestState"]},
        )
        equal(text(result), "Name? hello Ada")
        asks = c.call("tools/call", params)
        contains(
            other.text("stop_run", run_id=last_run()["run_id"]),
            "[the program was interrupted; variables kept]",
        )
        result = c.call(
            "tools/call",
            {**params, "inputResponses": line("Ada"), "requestState": asks["requestState"]},
        )
        contains(text(result), "KeyboardInterrupt")


@check
def with_progress_no_call_is_answered_early():
    with client("modern") as c:
        result = run(c, "import time; time.sleep(5); print('done')", token="t")
        equal(text(result), "done")


@check
def runs_that_do_not_exist_are_unknown():
    with client("modern") as c:
        for tool in ("read_run", "stop_run"):
            result = c.tool(tool, run_id="01hv5k8m2nq7r9t3w6x8y0z2a4")
            assert result["isError"]
            contains(text(result), "there is no run of that id")
            assert c.tool(tool, run_id="../../etc/passwd")["isError"]


@check
def leaving_a_legacy_connection_is_not_cancelling():
    with client("legacy") as c:
        mark = word("89")
        pending = c.begin(
            "tools/call",
            {
                "name": "execute_terminal_command",
                "arguments": {"command": "until [ -e go ]; do sleep 0.1; done; echo %s > left" % mark},
            },
        )
        until(lambda: running(mark), 60)
        connection = c.connections[json.dumps(pending.id)]
        connection.sock.shutdown(2)
        try:
            pending.result(60)
            raise AssertionError("an answer came on a connection that was shut")
        except (OSError, HTTPException):
            pass
        time.sleep(1)
        assert running(mark), "it was cancelled"
        typed(c, "touch go", session_id=session())
        until(lambda: not running(mark), 60)
        equal(typed(c, "cat left"), mark)
        typed(c, "rm go")


if __name__ == "__main__":
    serve()
