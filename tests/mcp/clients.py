#!/usr/bin/python3
"""Clients that others wrote, against krait: the TypeScript SDKs (1.x with every revision it can be
made to offer, 2.x in its three modes), the Inspector's command line and its elicitation client, and
two bridges. Over HTTP, HTTP+SSE and stdio.

Each does the same short session of work (clients/session.mjs) and must see the same: that is the
matrix. The clients come from npm (tests/lib/npm_clients.py); where they cannot be had, everything
here is skipped.
"""
from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Iterator

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "lib")]
import npm_clients
from check import check, contains, equal, main, skip
from krait_server import KRAIT, Server
from mcp import Http, RpcError, Sse

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
WORK_S = 110
INSPECTOR = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
MCPDO = "@modelcontextprotocol/inspector/clients/mcpdo/build/mcp-bin.js"
HELLO = {"code": "print(6 * 7)"}

_kept: list[Server] = []
_numbers = itertools.count(1)


TOKENS = {"all": 2200, "core": 1250}  # of tools/list, at most, in every revision; what later tools add has to fit, too
STRUCTURED = {"all": 7600, "core": 4500}  # with outputSchema, which a program asks for and a model need not see


# ---- what they run against ---------------------------------------------------------------------


def clients() -> npm_clients.Clients:
    try:
        return npm_clients.provide()
    except npm_clients.Missing as why:
        skip(str(why))
        raise


def url(path: str = "/mcp") -> str:
    """One server for all that speak HTTP."""
    if not _kept:
        server = Server(validate=False)
        _kept.append(server.start())
    return "http://127.0.0.1:%d%s" % (_kept[0].port, path)


def tokens(listed: dict) -> int:
    """By o200k_base of gpt-tokenizer."""
    done = subprocess.run([clients().node, npm_clients.script(clients(), "tokens.mjs")], timeout=60,
                          input=json.dumps(listed).encode(), capture_output=True)
    equal(done.returncode, 0, done.stderr.decode())
    return int(done.stdout)


@check
def the_list_of_tools_is_short() -> None:
    """Also that `tools` in the address chooses, over both transports."""
    port = int(url().split(":")[2].split("/")[0])
    sizes, seen = {}, {}
    for which, rev in itertools.product(TOKENS, (*LEGACY, MODERN)):
        for structured, bounds in ((0, TOKENS), (1, STRUCTURED)):
            with Http(port, path="/mcp?tools=%s&structured=%d" % (which, structured), rev=rev) as c:
                listed = c.call("tools/list")
            sizes[which] = len(listed["tools"])
            equal("outputSchema" in json.dumps(listed), structured == 1 and rev >= "2025-06-18", rev)
            seen[which, rev, structured] = tokens(listed)
            assert 100 < seen[which, rev, structured] <= bounds[which], "tokens of tools/list: %s" % seen
    print("# tokens of tools/list:", ", ".join("%s %s%s %d" % (*key[:2], " structured" * key[2], n)
                                               for key, n in seen.items() if key[1] >= "2025-11-25"))
    assert 0 < sizes["core"] < sizes["all"], sizes
    for which in TOKENS:
        with Sse(port, path="/sse?tools=" + which) as c:
            equal(len(c.call("tools/list")["tools"]), sizes[which])
    with Http(port) as c:
        equal(len(c.call("tools/list")["tools"]), sizes["all"])
    try:
        with Http(port, path="/mcp?tools=few") as c:
            raise AssertionError("tools=few was taken")
    except RpcError as e:
        equal(e.message, "tools: core or all")


@contextlib.contextmanager
def stdio() -> Iterator[list[str]]:
    """A command that is a server of its own, with data of its own."""
    with tempfile.TemporaryDirectory(prefix="krait-test-") as data:
        os.chmod(data, 0o755)
        yield [os.path.abspath(KRAIT), "mcp", "--no-files", "--preload", "basic", "--data", os.path.join(data, "data")]


def run(*argv: str, seconds: float = WORK_S, home: str = "", **more: str) -> subprocess.CompletedProcess:
    """A client's program with our Node, in a process group that ends with it."""
    ours = clients()
    with tempfile.TemporaryDirectory(prefix="krait-test-") as own:
        process = subprocess.Popen([ours.node, *argv], env=ours.env(home or own, **more), cwd=home or own,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True)
        try:
            out, err = process.communicate(timeout=seconds)
        finally:
            end_group(process)
    return subprocess.CompletedProcess(argv, process.returncode, out, err)


def end_group(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def session(script: str, *argv: str, **more: str) -> dict:
    """What the session of work saw."""
    done = run(npm_clients.script(clients(), script), *argv, SESSION="s%d" % next(_numbers), **more)
    assert done.returncode == 0 and done.stdout.strip(), "%d: %s" % (done.returncode, done.stderr[-1500:])
    return json.loads(done.stdout.strip().splitlines()[-1])


def judge(seen: dict, version: str, elicits: bool = True) -> None:
    """The same for every client, whatever it speaks."""
    equal(seen["version"], version)
    equal(seen["server"], "krait")
    assert seen["instructions"]
    equal(seen["tools"][0], "execute_python")
    equal(seen["first"], "42")
    equal(seen["kept"], "42")
    assert seen["failed"]["isError"], seen["failed"]
    contains(seen["failed"]["text"], "ZeroDivisionError")
    assert seen["prompts"] > 0
    contains(seen["templates"], "sandbox://{sandbox}/{+path}")
    equal(seen["unknownTool"], -32602)
    assert seen["badArguments"]
    assert seen["progressed"]["count"] >= 2 and seen["progressed"]["rising"], seen["progressed"]
    equal(seen["progressed"]["text"].splitlines(), ["step %d" % i for i in range(6)])
    if elicits:
        assert seen["asked"].endswith("hello Ada"), seen["asked"]
        contains(seen["asked"], "before")
    else:  # input() has no client to ask: the run ends with an EOFError and says what helps
        contains(seen["asked"], "EOFError")
        contains(seen["asked"], "stdin")
    equal(seen["cancelled"], {"how": True, "after": "free"})
    equal(seen["values"], {"large": "9223372036854776000 -590295810358705700000", "nulls": "nulls", "shell": "nulls"})
    assert seen["changed"], "the client did not hear of a file that code made"
    if "apart" in seen:
        judge_apart(seen["apart"], version == MODERN)
    equal(seen["problems"], [])


def judge_apart(seen: dict, shared: bool) -> None:
    """An MCP session has its own; without one, in 2026-07-28, both are in `main` and `terminal`."""
    equal(seen["kept"], ["first", "first"], "control")
    if shared:
        equal((seen["python"], seen["shell"]), ("first", "first"))
    else:
        contains(seen["python"], "NameError")
        contains(seen["shell"], "No such file")


# ---- the SDKs ----------------------------------------------------------------------------------


def sdk1(kind: str, revision: str) -> None:
    asks = revision not in ("2024-11-05", "2025-03-26")  # no elicitation before
    if kind == "stdio":
        with stdio() as command:
            judge(session("sdk1.mjs", "stdio", revision, *command), revision, asks)
    else:
        judge(session("sdk1.mjs", kind, url("/sse" if kind == "sse" else "/mcp"), revision), revision, asks)


def sdk2(kind: str, mode: str) -> None:
    version = "2025-11-25" if mode == "default" else MODERN
    if kind == "stdio":
        with stdio() as command:
            judge(session("sdk2.mjs", "stdio", mode, *command), version)
    else:
        judge(session("sdk2.mjs", "http", url(), mode), version)


def row(name: str, function: Any, *args: str) -> None:
    """A check of the matrix."""

    def one() -> None:
        function(*args)

    one.__name__ = name.replace("-", "_").replace(".", "_")
    check(one)


for _kind in ("http", "sse", "stdio"):
    for _revision in LEGACY:
        if (_kind, _revision) != ("http", "2024-11-05"):  # that revision has no Streamable HTTP
            row("sdk1_%s_%s" % (_kind, _revision), sdk1, _kind, _revision)
for _kind in ("http", "stdio"):
    for _mode in ("default", "auto", MODERN):
        row("sdk2_%s_%s" % (_kind, _mode), sdk2, _kind, _mode)


@check
def sdk1_task_that_asks() -> None:
    seen = session("sdk1_tasks.mjs", url())
    equal((seen["kinds"][0], seen["kinds"][-1]), ("taskCreated", "result"))
    contains(seen["statuses"], "input_required")
    assert seen["text"].endswith("hello Ada"), seen
    contains(seen["listed"], "completed")


# ---- Inspector ---------------------------------------------------------------------------------


def inspector(*argv: str) -> dict:
    done = run(clients().path(INSPECTOR), "--cli", *argv)
    assert done.returncode == 0, "%d: %s %s" % (done.returncode, done.stdout[-500:], done.stderr[-1500:])
    return json.loads(done.stdout)["result"]


def inspect(target: list[str], tail: list[str]) -> None:
    """Lists, a call, a read and a prompt."""
    listed = inspector(*target, "--method", "tools/list", "--strict", "--format", "json", *tail)["tools"]
    equal(listed[0]["name"], "execute_python")
    called = inspector(*target, "--method", "tools/call", "--tool-name", "execute_python", "--tool-args-json",
                       json.dumps(HELLO), "--format", "json", *tail)
    equal(called["content"][0]["text"].strip(), "42")
    assert inspector(*target, "--method", "prompts/list", "--format", "json", *tail)["prompts"]
    assert inspector(*target, "--method", "resources/templates/list", "--format", "json", *tail)["resourceTemplates"]


@check
def inspector_http_legacy() -> None:
    clients()
    inspect([url(), "--transport", "http"], [])


@check
def inspector_http_modern() -> None:
    clients()
    inspect([url(), "--transport", "http", "--protocol-era", "modern"], [])


@check
def inspector_http_auto() -> None:
    clients()
    inspect([url(), "--transport", "http", "--protocol-era", "auto"], [])


@check
def inspector_sse() -> None:
    clients()
    inspect([url("/sse"), "--transport", "sse"], [])


@check
def inspector_stdio_legacy() -> None:
    clients()
    with stdio() as command:
        inspect(["-q"], ["--", *command])


@check
def inspector_stdio_modern() -> None:
    clients()
    with stdio() as command:
        inspect(["-q", "--protocol-era", "modern"], ["--", *command])


@check
def inspector_sees_an_error() -> None:
    """Positive control: the exit status of a result that is an error is another."""
    done = run(clients().path(INSPECTOR), "--cli", url(), "--transport", "http", "--method", "tools/call",
               "--tool-name", "execute_python", "--tool-args-json", json.dumps({"code": "1 / 0"}), "--format", "json")
    equal(done.returncode, 5)


@contextlib.contextmanager
def mcpdo(era: str) -> Iterator[Any]:
    """The Inspector's client with a daemon, connected; a function that runs one of its commands."""
    path, target = clients().path(MCPDO), url()
    with tempfile.TemporaryDirectory(prefix="krait-test-") as home:

        def command(*argv: str, status: int = 0) -> str:
            done = run(path, *argv, "--format", "json", home=home)
            equal(min(done.returncode, 1), status, "%s: %s %s" % (argv, done.stdout[-800:], done.stderr[-800:]))
            return done.stdout + (done.stderr if status else "")

        try:
            command("connect", target, "--transport", "http", "--era", era, "--elicit", "form")
            yield lambda *argv, **how: command("--connection", target, *argv, **how)
        finally:
            run(path, "disconnect", target, home=home)
            run(path, "daemon", "stop", home=home)


def elicits(era: str) -> None:
    """It keeps the question until a client answers it."""
    code = "code:=" + json.dumps("print('hello', input('Who? '))")
    with mcpdo(era) as command:
        asked = json.loads(command("tools/call", "execute_python", code))["elicitationPending"]
        contains(command("elicitation/respond", asked["elicitationId"], "line:=Ada"), "hello Ada")
        asked = json.loads(command("tools/call", "execute_python", code))["elicitationPending"]
        contains(command("elicitation/respond", asked["elicitationId"], "--decline", status=1), "EOFError")


def tasks(era: str) -> None:
    code = "code:=" + json.dumps("import time\ntime.sleep(6)\nprint(6 * 7)")
    with mcpdo(era) as command:
        equal(json.loads(command("tools/call", "execute_python", code, "--task"))["content"][0]["text"].strip(), "42")


@check
def mcpdo_tasks_legacy() -> None:
    tasks("legacy")


@check
def mcpdo_tasks_modern() -> None:
    tasks("modern")


@check
def mcpdo_elicits_legacy() -> None:
    elicits("legacy")


@check
def mcpdo_elicits_modern() -> None:
    elicits("modern")


# ---- bridges -----------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def background(*argv: str) -> Iterator[subprocess.Popen]:
    ours = clients()
    with tempfile.TemporaryDirectory(prefix="krait-test-") as home, tempfile.TemporaryFile() as log:
        process = subprocess.Popen([ours.node, *argv], env=ours.env(home), cwd=home, stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=log, start_new_session=True)
        try:
            yield process
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            end_group(process)


def wait_for_port(port: int, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError("no process listens on the bridge's port")


def through_supergateway(mode: str, *more: str) -> None:
    """krait's stdio behind another project's HTTP."""
    port = free_port()
    with stdio() as command, background("--require", npm_clients.script(clients(), "loopback.cjs"),
                                        clients().path("supergateway/dist/index.js"), "--stdio", " ".join(command),
                                        "--outputTransport", "streamableHttp", "--port", str(port), *more) as bridge:
        wait_for_port(port, bridge)
        target = ["http://127.0.0.1:%d/mcp" % port, "--transport", "http", "--protocol-era", mode]
        called = inspector(*target, "--method", "tools/call", "--tool-name", "execute_python", "--tool-args-json",
                           json.dumps(HELLO), "--format", "json")
        equal(called["content"][0]["text"].strip(), "42")


@check
def supergateway_legacy() -> None:
    through_supergateway("legacy", "--stateful", "--protocolVersion", "2025-11-25")


@check
def supergateway_modern() -> None:
    through_supergateway("modern")


def through_mcp_remote(revision: str, *flags: str) -> None:
    """krait's HTTP behind another project's stdio."""
    ours = clients()
    target = url("/sse" if "sse-only" in flags else "/mcp")
    bridge = [ours.node, ours.path("mcp-remote/dist/proxy.js"), target, *flags]
    if revision == MODERN:  # it posts a notification to cancel, where 2026-07-28 wants the connection closed
        seen = session("sdk2.mjs", "stdio", "auto", *bridge, NO_CANCEL="1")
    else:
        seen = session("sdk1.mjs", "stdio", revision, *bridge)
    equal((seen["version"], seen["first"], seen["kept"]), (revision, "42", "42"))


@check
def mcp_remote_http() -> None:
    through_mcp_remote("2025-11-25", "--transport", "http-only")


@check
def mcp_remote_http_auto() -> None:
    through_mcp_remote(MODERN, "--transport", "http-only", "--protocol", "auto")


@check
def mcp_remote_sse() -> None:
    through_mcp_remote("2025-11-25", "--transport", "sse-only")


@check
def mcp_remote_falls_back_to_sse() -> None:
    """Given the old address it tries HTTP first: POST /sse is refused in the way that makes it go on."""
    ours = clients()
    bridge = [ours.node, ours.path("mcp-remote/dist/proxy.js"), url("/sse"), "--transport", "http-first"]
    seen = session("sdk1.mjs", "stdio", "2025-11-25", *bridge)
    equal((seen["first"], seen["kept"]), ("42", "42"))


try:
    main()
finally:
    for _server in _kept:
        _server.close(check=False)
