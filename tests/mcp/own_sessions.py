#!/usr/bin/python3
"""Whose session a call is in that names none: an MCP session over HTTP has one of its own for Python and one for shell
commands, which end with it; what has no MCP session shares `main` and `terminal`."""
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
from check import check, contains, equal  # noqa: E402
from executing import client, run, running, serve, session, state, typed, until, word  # noqa: E402
from krait_server import Server  # noqa: E402
from mcp import MODERN, Http, Sse  # noqa: E402

MCP_SESSIONS = 1024  # of one user: KR_MCP_SESSIONS_PER_USER


def connect(rev: str = "2025-06-18", port: int = 0) -> Http:
    return Http(port or state.server.port, path="/mcp?structured=1", rev=rev)


def live(c: Http) -> list:
    return [s["session_id"] for s in json.loads(c.text("list_active_sessions"))["sessions"]]


def own_of(c, **where: str) -> tuple:
    """The sessions in which its calls run that name none: Python's, the shell's."""
    return tuple(c.tool(tool, {**args, **where})["structuredContent"]["session_id"]
                 for tool, args in (("execute_python", {"code": "x = 1"}),
                                    ("execute_terminal_command", {"command": "true"})))


@check
def clients_without_a_session_do_not_share_variables():
    """Each MCP session over HTTP has a session of its own; a name is shared, files are."""
    port = state.server.port

    def here(c, code: str, **where: str) -> str:
        return c.text("execute_python", {"code": code, **where})

    with Http(port) as a, Http(port) as b, Sse(port) as old, Http(port, rev="2026-07-28") as modern:
        for number, c in enumerate((a, b, old)):
            here(c, "mine = %d; open('own.txt', 'w').write('%d')" % (number, number))
        equal([here(c, "mine") for c in (a, b, old)], ["[result] 0", "[result] 1", "[result] 2"])
        for c in (a, b, old, modern):
            equal(here(c, "open('own.txt').read()"), "[result] '2'")
        contains(here(modern, "mine"), "NameError")  # `main`, with all that have no MCP session
        here(modern, "shared = 5")
        equal(here(a, "shared", session_id="main"), "[result] 5")
        equal(here(a, "mine", sandbox_id="default"), "[result] 0")
        again = Http(port)  # another connection with the same MCP session goes on
        again.rev, again.session = a.rev, a.session
        equal(here(again, "mine"), "[result] 0")
        names = [s["session_id"] for s in json.loads(a.text("list_active_sessions"))["sessions"]]
        equal(len([n for n in names if n.startswith("mcp-")]) >= 3, True, str(names))


@check
def delete_ends_the_session_of_its_own():
    """And only that: one that was named stays, and a run that goes on in it has its time."""
    def connect():
        return Http(state.server.port, path="/mcp?structured=1", rev="2025-06-18")

    def live() -> list:
        return [s["session_id"] for s in json.loads(keeper.text("list_active_sessions"))["sessions"]]

    with connect() as keeper:
        with connect() as a:
            kept = session()
            run(a, "x = 1", session_id=kept)
            own = a.tool("execute_python", code="x = 1")["structuredContent"]["session_id"]
            assert state.server.post("/api/v1/sandboxes", {"name": "elsewhere"}).status == 201
            a.tool("execute_python", code="x = 1", sandbox_id="elsewhere")
            equal((live().count(own), live().count(kept)), (2, 1), "control")
        until(lambda: own not in live())
        equal(live().count(kept), 1)
        with connect() as b:
            made = b.tool("execute_python", code="import time\ntime.sleep(7)\nprint('done')")["structuredContent"]
            assert made["still_running"], made
        equal(live().count(made["session_id"]), 1, "its run goes on")
        end = keeper.tool("read_run", run_id=made["run_id"], wait_s=50)["structuredContent"]
        equal((end["cause"], end["stdout"]), ("ok", "done\n"))
        until(lambda: made["session_id"] not in live())


@check
def clients_without_a_session_do_not_share_a_shell():
    """Neither /tmp nor processes: those of a named one are shared, as the files are."""
    port = state.server.port
    with Http(port) as a, Http(port) as b, Sse(port) as old:
        for number, c in enumerate((a, b, old)):
            typed(c, "echo %d > /tmp/own; echo %d > /workspace/shared" % (number, number))
        equal([typed(c, "cat /tmp/own /workspace/shared") for c in (a, b, old)], ["0\n2", "1\n2", "2\n2"])
        seconds = word("9")
        typed(a, "sleep %s > /dev/null 2>&1 &" % seconds)
        until(lambda: running(seconds))
        assert typed(a, "pgrep -x sleep").isdigit(), "control: its own it sees"
        contains(typed(b, "pgrep -x sleep"), "[exit code 1]")
        typed(a, "echo named > /tmp/own", session_id="together")
        equal(typed(b, "cat /tmp/own", session_id="together"), "named")


@check
def shells_without_an_mcp_session_share_terminal():
    with client("modern") as modern, client("stdio") as stdio, client("legacy") as other:
        typed(modern, "echo all > /tmp/shared")
        equal(typed(stdio, "cat /tmp/shared"), "all")
        equal(typed(other, "cat /tmp/shared", session_id="terminal"), "all")
        contains(typed(other, "cat /tmp/shared"), "No such file")
    with connect(MODERN) as c:
        equal(own_of(c), ("main", "terminal"))


@check
def delete_ends_both():
    with connect() as keeper:
        with connect() as a:
            own = own_of(a)
            assert own[0].startswith("mcp-") and own[1] == own[0] + "-terminal", own
            equal([n in live(keeper) for n in own], [True, True], "control")
            seconds = word("9")
            typed(a, "sleep %s > /dev/null 2>&1 &" % seconds)
            until(lambda: running(seconds))
        until(lambda: not set(own) & set(live(keeper)))
        until(lambda: not running(seconds))


@check
def the_end_of_an_event_stream_ends_both():
    with connect() as keeper, Sse(state.server.port, path="/sse?structured=1", rev="2025-06-18") as old:
        own = own_of(old)
        equal([n in live(keeper) for n in own], [True, True], "control")
        old.close()
        until(lambda: not set(own) & set(live(keeper)))


@check
def an_mcp_session_that_goes_for_another_ends_both():
    """The one that was used longest ago, when a user has as many as there may be."""
    with Server() as s:
        first, keeper = connect(port=s.port), connect(port=s.port)
        first.open()
        own = own_of(first)
        keeper.open()
        for _ in range(MCP_SESSIONS - 2):
            Http(s.port, rev="2025-06-18").open()
        equal([n in live(keeper) for n in own], [True, True], "control: there is room for all")
        Http(s.port, rev="2025-06-18").open()
        until(lambda: not set(own) & set(live(keeper)))


@check
def instructions_state_the_rule():
    """And are true: the names are those of the sessions that calls have."""
    port = state.server.port
    for rev in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN):
        with Http(port, rev=rev) as c:
            told = (c.call("server/discover") if rev == MODERN else c.info)["instructions"]
            contains(told, "over HTTP those of this MCP session alone, else `main` and `terminal`")
            contains(told, "Give a session_id")
            listed = {t["name"]: t for t in c.call("tools/list")["tools"]}
            for name in ("execute_python", "execute_terminal_command"):
                described = json.dumps(listed[name])
                assert "`main`" not in described and "`terminal`" not in described, described
            contains(c.call("prompts/get", {"name": "use_krait"})["messages"][0]["content"]["text"],
                     "over HTTP in a session of this MCP session alone")


serve()
