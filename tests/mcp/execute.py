#!/usr/bin/python3
"""The execution tools through real connections, in both eras and over stdio: what a model reads, sessions, limits,
figures, files, progress, cancelling, the shell."""
import json
import re
import sys
import time
import urllib.request
from base64 import b64decode
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
from check import check, contains, equal, skip  # noqa: E402
from executing import (  # noqa: E402
    begun,
    client,
    eras,
    images,
    last_run,
    run,
    running,
    said,
    serve,
    session,
    shell,
    size_of,
    state,
    text,
    typed,
    until,
    word,
)
from krait_server import Server  # noqa: E402
from mcp import Http, RpcError  # noqa: E402


# ---- what a model reads ------------------------------------------------------------------------


@eras
def plain(c):
    result = run(c, "print(6 * 7)")
    equal(result["content"], [{"type": "text", "text": "42"}])
    assert "isError" not in result and "structuredContent" not in result


@eras
def variables_stay(c):
    name = session()
    run(c, "x = 41", session_id=name)
    equal(said(c, "x + 1", session_id=name), "[result] 42")
    contains(said(c, "x"), "NameError")
    contains(c.text("execute_python", code="x", fresh=True), "NameError")


@eras
def order_and_failure(c):
    result = run(c, "import sys\nprint('out')\nprint('err', file=sys.stderr)\n1/0")
    assert result["isError"] is True
    lines = text(result).splitlines()
    equal(lines[:3], ["out", "[STDERR]:", "err"])
    equal(lines[-1], "ZeroDivisionError: division by zero")
    equal(lines[3], "Traceback (most recent call last):")


@check
def no_output_is_said():
    with client("modern") as c:
        equal(said(c, "x = 1"), "[no output]")


@check
def exit_codes():
    with client("modern") as c:
        result = run(c, "import sys; sys.exit(3)")
        contains(text(result), "[exit code 3")
        assert result["isError"]
        result = run(c, "import sys; sys.exit(0)")
        assert "isError" not in result, result


@eras
def stdin_env_variables(c):
    equal(said(c, "print(input('? '), input())", stdin="Ada\nLovelace\n"), "? Ada Lovelace")
    equal(said(c, "import os; print(os.environ['MODE'])", env={"MODE": "test"}), "test")
    equal(said(c, "n * 2", variables={"n": 21}), "[result] 42")


@check
def arguments_in_strings_and_by_other_names():
    with client("legacy") as c:
        equal(
            c.text(
                "execute_python",
                {
                    "code": "import os; print(os.environ['A'])",
                    "env": '{"A":"1"}',
                    "timeout": "10",
                    "fresh": "true",
                },
            ),
            "1",
        )
        equal(c.text("execute_python", code="print(1)", session=session(), timeout_seconds=5), "1")
        result = c.tool("execute_python", code="print(1)", sesion_id="x")
        assert result["isError"]
        contains(text(result), "did you mean session_id?")
        contains(text(result), "code (required)")
        result = c.call("tools/call", {"name": "execute_python"})
        assert result["isError"]
        contains(text(result), "code is missing")
        try:
            c.tool("execute_pyton", code="1")
            raise AssertionError("an unknown tool was called")
        except RpcError as e:
            equal(e.code, -32602)
            contains(e.message, "execute_python")


@eras
def timeout_keeps_variables(c):
    name = session()
    run(c, "kept = 7", session_id=name)
    result = run(c, "import time\nprint('so far')\ntime.sleep(60)", session_id=name, timeout=1)
    assert result["isError"]
    equal(text(result).splitlines()[0], "so far")
    equal(text(result).splitlines()[-1], "[timeout after 1 s; variables kept]")
    equal(said(c, "kept", session_id=name), "[result] 7")


@check
def timeout_loses_variables():
    with client("modern", level="info") as c:
        name = session()
        code = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(1)"
        result = run(c, code, token="t", session_id=name, timeout=1)
        equal(text(result).splitlines()[-1], "[timeout after 1 s; variables gone]")
        equal(
            said(c, "print(1)", session_id=name),
            "1\n[session restarted: variables gone, files kept]",
        )
        told = c.noted("notifications/message")
        equal(
            [(m["level"], m["data"]["event"]) for m in told[-1:]], [("notice", "session_restarted")]
        )


@check
def timeout_past_the_ceiling_is_clamped():
    with client("legacy") as c:
        shown = text(run(c, "print(1)", timeout=10**9))
        contains(shown, "1\n[timeout: 1000000000 s was asked for, 3600 s is the most]")


@check
def hints():
    with client("modern") as c:
        shown = said(c, "import nothing_like_this")
        contains(shown.splitlines()[-1], "[hint] module nothing_like_this is not installed")


@check
def memory_limit():
    made = state.server.post("/api/v1/sandboxes", {"name": "small", "limits": {"memory": "200M"}})
    assert made.status in (200, 201), made.text
    with client("modern") as c:
        result = c.tool("execute_python", code="x = bytearray(1 << 30)", sandbox_id="small")
        assert result["isError"]
        contains(text(result), "memory limit of")


# ---- figures -----------------------------------------------------------------------------------


@check
def figures_are_images_of_1568_px_at_most():
    with client("modern") as c:
        code = "import matplotlib.pyplot as plt\nplt.figure(figsize=(20, 10), dpi=300)\nplt.plot([1, 2])\nplt.show()"
        args = {"code": code, "session_id": session(), "timeout": 120}
        result = c.call(
            "tools/call", {"name": "execute_python", "arguments": args}, token="t", timeout=120
        )
        if "No module named" in text(result):
            skip("no matplotlib")
        shown = images(result)
        equal(len(shown), 1)
        width, height = size_of(shown[0])
        assert 1400 <= width <= 1568 and height < width, (width, height)
        # the same over REST is as it was drawn
        drawn = state.server.run(code, timeout=120)
        width, _ = size_of(b64decode(drawn["displays"][0]["data"]["image/png"]))
        assert width > 3000, width


@check
def small_figures_stay_small():
    with client("modern") as c:
        code = "import matplotlib.pyplot as plt\nplt.figure(figsize=(4, 3), dpi=100)\nplt.plot([1, 2])\nprint('drawn')"
        result = c.call(
            "tools/call",
            {"name": "execute_python", "arguments": {"code": code, "timeout": 120}},
            token="t",
            timeout=120,
        )
        if "No module named" in text(result):
            skip("no matplotlib")
        equal([b["type"] for b in result["content"]], ["text", "image"])
        assert max(size_of(images(result)[0])) <= 420


@check
def displays_without_an_image_are_text():
    with client("modern") as c:
        code = ("class T:\n    def _repr_html_(self): return '<b>x</b>'\n    def __repr__(self): return 'a table'\n"
                "display(T())\nT()")
        equal(said(c, code), "[result] a table")
        code = code.replace("\nT()", "")
        equal(said(c, code), "a table")


@check
def a_table_as_the_result_keeps_its_columns():
    with client("modern") as c:
        code = "class T:\n    def __repr__(self): return '   a\\n0  1'\nT()"
        equal(said(c, code), "[result]\n   a\n0  1")


@check
def images_too_large_are_left_out():
    with client("modern") as c:
        code = (
            "import os\nclass P:\n    def _repr_png_(self): return b'\\x89PNG' + os.urandom(6 << 20)\n"
            "    def __repr__(self): return 'P'\nP()"
        )
        result = run(c, code)
        equal(images(result), [])
        contains(text(result), "[output limit: displays past it are not kept]")
        result = run(c, code.replace("6 << 20", "(11 << 20) // 2"))
        equal(images(result), [])
        contains(text(result), "left out: 5 MB at most")


# ---- much output -------------------------------------------------------------------------------


def pages(c, one: str, at: str, offset: str = "0") -> list:
    """What read_run gives from there on, page by page, without the lines that lead on."""
    found = []
    while at:
        page = c.text("read_run", {"run_id": one, "from": int(at), "offset": int(offset or 0), "wait_s": 0})
        more = re.search(
            r"\n\[more: (?:[\w. ]+, )?read_run\(run_id=\"\w+\", from=(\d+)(?:, offset=(\d+))?\)\]$", page
        )
        found.append(page[: more.start()] if more else page)
        assert len(found[-1]) < 100_000, len(found[-1])
        at, offset = more.groups() if more else ("", "")
    return found


@check
def a_long_result_can_be_read_in_full():
    with client("modern") as c:
        for code, whole in (("list(range(20000))", repr(list(range(20000)))), ("'é' * 30000", repr("é" * 30000))):
            shown = said(c, code)
            cut = re.search(r"\n\[cut: (\S+ \S+) in all, "
                            r"read_run\(run_id=\"(\w+)\", from=(\d+), offset=(\d+)\)\]", shown)
            equal(cut[1], "%.1f KB" % (len(whole.encode()) / 1000))
            head = shown[len("[result] ") :].encode()[: int(cut[4])].decode()
            rest = "".join(re.sub(r"\A\[from byte \d+ on\]\n", "", one) for one in pages(c, cut[2], cut[3], cut[4]))
            assert head + rest == whole, (head[-50:], rest[:50], rest[-50:])
            assert "".join(re.sub(r"\A\[from byte \d+ on\]\n|\A\[result\] ", "", one)
                           for one in pages(c, cut[2], "1")) == whole
        shown = said(c, "raise ValueError('x' * 50000)")
        cut = re.search(r"\[cut: .* in all, read_run\(run_id=\"(\w+)\", from=(\d+), offset=(\d+)\)\]", shown)
        equal("".join(pages(c, cut[1], "1")).count("x"), 50001)  # with that of the line
        # Past what a session keeps of a result its middle is lost, and the text says how much.
        shown = said(c, "'y' * 1_000_000")
        cut = re.search(r"run_id=\"(\w+)\", from=(\d+), offset=(\d+)\)\]", shown)
        contains("".join(pages(c, cut[1], cut[2], cut[3])), "… [737858 characters cut] …")
        # The same of output past the sandbox's limit.
        made = state.server.post("/api/v1/sandboxes", {"name": "few", "limits": {"output": "100K"}})
        assert made.status in (200, 201), made.text
        contains(said(c, "print('z' * 300_000)", sandbox_id="few"),
                 "[output limit: 102.5 KB of 300.0 KB are kept, the rest is lost]\n[cut: 102.5 KB in all, read_run(")


@check
def huge_output_is_cut_and_can_be_read_in_full():
    with client("modern") as c:
        shown = said(c, "for i in range(200000): print('line', i)", token="t")
        assert len(shown) <= 24200, len(shown)
        contains(shown, "line 0\n")
        contains(shown, "line 199999\n")
        found = re.search(
            r"\[cut: 2\.\d MB in all, read_run\(run_id=\"(\w+)\", from=(\d+)\)\]", shown
        )
        assert found, shown[-300:]
        head = shown[: shown.index("[…")].replace("\n", "")
        one, at, pages = found.group(1), int(found.group(2)), []
        for _ in range(400):
            page = c.text("read_run", {"run_id": one, "from": at, "wait_s": 0})
            assert len(page) <= 33000, len(page)
            more = re.search(r"\n\[more: read_run\(run_id=\"\w+\", from=(\d+)\)\]$", page)
            pages.append(page[: more.start()] if more else page)
            if not more:
                break
            at = int(more.group(1))
        # a page may end within a line: what counts is that no character is missing or there twice
        whole = "".join("line %d" % i for i in range(200000))
        rest = "".join(pages).replace("\n", "")
        assert whole.endswith(rest), "something is missing in the pages"
        assert len(rest) + len(head) >= len(whole), "a gap between what was shown and what was read"


@check
def binary_output_is_text():
    with client("legacy") as c:
        shown = said(c, "import os; os.write(1, b'a\\xff\\x00b')")
        contains(shown, "a\ufffd\x00b")
        contains(said(c, "print('\\ud800')"), "")


# ---- files -------------------------------------------------------------------------------------


@check
def files_are_named_and_linked():
    with client("modern") as c:
        folder = word("f")
        code = (
            "import os\nos.makedirs('%s')\nopen('%s/note.txt', 'w').write('hello')\n"
            "open('%s/data.bin', 'wb').write(bytes(5000))" % (folder, folder, folder)
        )
        result = run(c, code)
        shown = text(result)
        contains(shown, "[files]\n")
        url = re.search(r"%s/data.bin 5.0 KB (http://\S+)" % folder, shown).group(1)
        with urllib.request.urlopen(url, timeout=20) as reply:
            equal(len(reply.read()), 5000)
        # no key is asked for here, so that the link is the short one; elsewhere it is signed
        # (contracts/document_004_mcp)
        contains(url, "/api/v1/sandboxes/")
        blocks = {b["type"]: b for b in result["content"]}
        equal(blocks["resource"]["resource"]["text"], "hello")
        assert blocks["resource"]["resource"]["uri"].endswith(folder + "/note.txt")
        assert blocks["resource_link"]["uri"].startswith("sandbox://")
        equal(blocks["resource_link"]["size"], 5000)
        shown = said(c, "import shutil; shutil.rmtree('%s')" % folder)
        contains(shown, "%s/note.txt deleted" % folder)


@check
def older_revisions_get_lines_instead_of_links():
    with Http(state.server.port, rev="2025-03-26") as c:
        result = run(c, "open('old.bin', 'wb').write(bytes(5000))")
        equal([b["type"] for b in result["content"]], ["text"])
        contains(text(result), "old.bin 5.0 KB http://")


@check
def structure_of_a_shell_command():
    """Its end is the shell's."""
    with Http(state.server.port, path="/mcp?structured=1", rev="2025-06-18") as c:
        for command, cause, code in (("true", "ok", 0), ("exit 2", "exit", 2), ("kill -9 $$", "exit", 137),
                                     ("kill -TERM $$", "exit", 143), ("no_such_program", "exit", 127),
                                     ("python3 -c 'import sys; sys.exit(3)'", "exit", 3)):
            result = shell(c, command)
            made = result["structuredContent"]
            equal((made["cause"], made["exit_code"], made["result"], made["error"]), (cause, code, None, None), command)
            equal(result.get("isError", False), code != 0, command)
            again = c.tool("read_run", run_id=made["run_id"])["structuredContent"]
            equal((again["cause"], again["exit_code"]), (cause, code), command)
        made = shell(c, "sleep 30", timeout=1)["structuredContent"]
        equal((made["cause"], made["error"]), ("timeout", None))
        assert made["exit_code"] != 0, made


@check
def rest_has_the_exit_of_a_shell_command():
    """The row of the run, its log and the answer of the tool over plain HTTP say the same."""
    with Http(state.server.port, path="/mcp?structured=1", rev="2025-06-18") as c:
        for command, cause, code in (("true", "ok", 0), ("exit 2", "exit", 2), ("kill -9 $$", "exit", 137)):
            made = shell(c, command)["structuredContent"]
            row = state.server.get("/api/v1/runs/" + made["run_id"]).json()
            equal((row["cause"], row["exit_code"]), (cause, code), command)
            listed = state.server.get("/api/v1/runs").json()["runs"][0]
            equal((listed["run_id"], listed["cause"], listed["exit_code"]), (made["run_id"], cause, code), command)
            log = state.server.get("/api/v1/runs/%s/events" % made["run_id"]).body.decode()
            end = json.loads(log.splitlines()[-1])
            equal((end["cause"], end["exit_code"], end["session_alive"]), (cause, code, True), command)
        same = state.server.post("/api/v1/tools/execute_terminal_command?structured=1", {"command": "exit 3"}).json()
        equal((same["structuredContent"]["cause"], same["structuredContent"]["exit_code"]), ("exit", 3))


@check
def structure_when_asked_for():
    with Http(state.server.port, path="/mcp?structured=1", rev="2025-06-18") as c:
        tool = next(t for t in c.call("tools/list")["tools"] if t["name"] == "execute_python")
        result = run(c, "print(1)\n2")
        made = result["structuredContent"]
        equal(
            (made["stdout"], made["result"], made["cause"], made["exit_code"]),
            ("1\n", "2", "ok", 0),
        )
        equal(sorted(made), sorted(tool["outputSchema"]["required"]))
        contains(text(result), "[result] 2")
    with Http(state.server.port, path="/mcp?structured=1", rev="2025-03-26") as c:
        assert "structuredContent" not in run(c, "print(1)")
    try:
        with Http(state.server.port, path="/mcp?structured=perhaps", rev="2025-06-18"):
            raise AssertionError("structured=perhaps was taken")
    except RpcError as e:
        equal(e.message, "structured: 1 or 0")


# ---- progress and cancelling -------------------------------------------------------------------


@eras
def progress_brings_the_output(c):
    code = "import time\nfor i in range(8):\n    print('step', i, flush=True)\n    time.sleep(0.15)"
    result = run(c, code, token=0)
    notes = [p for m, p in c.notes if m == "notifications/progress"]
    assert len(notes) >= 3, notes
    numbers = [p["progress"] for p in notes]
    assert numbers == sorted(set(numbers)), numbers
    assert all(p["progressToken"] == 0 for p in notes)
    contains("".join(p["message"] for p in notes), "step 3\n")
    contains(text(result), "step 7")


@check
def progress_is_bounded():
    with client("modern") as c:
        # Slowly enough that the output's own limit, past which there is nothing to tell, is not reached at once.
        code = "import time\nend = time.time() + 1.5\nwhile time.time() < end: print('x' * 500), time.sleep(0.002)"
        run(c, code, token="p")
        notes = [p for m, p in c.notes if m == "notifications/progress"]
        assert 3 <= len(notes) <= 20, len(notes)
        assert all(len(p["message"].encode()) <= 1024 for p in notes)


@check
def without_a_token_nothing_is_told():
    with client("modern") as c:
        run(c, "import time; print(1, flush=True); time.sleep(0.5)")
        equal(c.notes, [])


@eras
def cancelling_stops_the_program(c):
    mark = word("86")
    name = session()
    run(c, "kept = 1", session_id=name)
    pending = c.begin(
        "tools/call",
        {
            "name": "execute_python",
            "arguments": {
                "code": "import subprocess; subprocess.run(['sleep', '%s'])" % mark,
                "session_id": name,
                "timeout": 300,
            },
        },
        token="t",
    )
    until(lambda: running(mark))
    pending.cancel()
    until(lambda: not running(mark))
    until(lambda: last_run()["cause"] == "cancelled")
    equal(said(c, "kept", session_id=name), "[result] 1")


@check
def cancelling_one_that_waits():
    with client("legacy") as c:
        name = session()
        first = begun(c, "import time; time.sleep(2)", session_id=name)
        until(lambda: last_run()["still_running"])
        second = begun(c, "open('never', 'w')", session_id=name)
        time.sleep(0.3)
        second.cancel()
        first.result()
        equal(said(c, "import os; os.path.exists('never')", session_id=name), "[result] False")
        try:
            raise AssertionError("a cancelled request was answered: %r" % second.result())
        except ConnectionError:
            pass


# ---- the shell ---------------------------------------------------------------------------------


@eras
def shell_pipes_redirects_and_codes(c):
    equal(
        typed(c, "printf 'b\\na\\n' | sort | head -1 > one.txt; cat one.txt").splitlines()[0], "a"
    )
    result = shell(c, "echo out; echo err >&2; exit 7")
    equal(text(result), "out\n[STDERR]:\nerr\n[exit code 7]")
    assert result["isError"]
    equal(typed(c, 'cat; echo "$X"', stdin="given\n", env={"X": "é\"'"}), "given\né\"'")
    equal(typed(c, "pwd; for i in 1 2; do echo $i; done"), "/workspace\n1\n2")
    equal(typed(c, "kill -9 $$").splitlines()[-1], "[exit code 137]")


@check
def shell_and_python_share_the_workspace_and_do_not_wait():
    with client("modern") as c:
        busy = c.begin(
            "tools/call",
            {
                "name": "execute_python",
                "arguments": {"code": "import time; time.sleep(10); open('shared.txt').read()"},
            },
            token="t",
        )
        until(lambda: last_run()["still_running"])
        equal(typed(c, "printf hello > shared.txt; echo now").splitlines()[0], "now")
        assert not busy.done()
        contains(text(busy.result()), "[result] 'hello'")


@check
def shell_timeout_ends_everything():
    with client("modern") as c:
        mark = word("90")
        command = "trap '' INT; (trap '' INT; sleep %s) | cat" % mark
        result = shell(c, command, timeout=1)
        assert result["isError"]
        # Nothing of the Python that started it. How many are left when it is interrupted is up to the scheduler.
        ended = r"(; \d process(es)? that it started (was|were) ended)?"
        assert re.fullmatch(r"\[timeout after 1 s%s\]" % ended, text(result)), text(result)
        until(lambda: not running(mark))
        equal(typed(c, "echo again").splitlines()[0], "again")


@check
def a_shells_run_is_read_as_it_was_shown():
    with client("modern") as c:
        first = shell(c, "seq 1 20000; exit 4")
        assert first["isError"] is True
        found = re.search(r"\[exit code 4\]\n\[cut: .* read_run\(run_id=\"(\w+)\"", text(first))
        assert found, text(first)[-200:]
        again = c.tool("read_run", run_id=found.group(1))
        assert again["isError"] is True
        contains(text(again), "[exit code 4]")
        assert "[result]" not in text(again)
        resources = c.call("resources/list")["resources"]
        row = next(r for r in resources if r["uri"] == "run://" + found.group(1))
        contains(row["name"], "$ seq 1 20000; exit 4")


@check
def shell_failures_say_what_to_do():
    with client("modern") as c:
        equal(typed(c, "true", cwd="/nope"), "[STDERR]:\ncwd: /nope is no folder here\n[exit code 1]")
        equal(typed(c, "pwd", cwd="/tmp"), "/tmp", "control")
        for said_, word_ in (
            ("Could not resolve host: example.org", "no network"),
            ("error: externally-managed-environment", "packages are installed by"),
            ("sudo: command not found", "no root"),
        ):
            last = typed(c, "echo '%s' >&2; false" % said_).splitlines()[-1]
            assert last.startswith("[hint] " + word_), last
            assert "[hint]" not in typed(c, "echo '%s' >&2" % said_), "none where nothing failed"
        equal(typed(c, "echo plain >&2; exit 2"), "[STDERR]:\nplain\n[exit code 2]")
        # a line that Python's parser would take for an encoding
        equal(typed(c, "echo '-*- coding: latin-9 -*-'"), "-*- coding: latin-9 -*-")


@check
def shell_streams():
    with client("legacy") as c:
        shell(c, "for i in 1 2 3 4; do echo line $i; sleep 0.3; done", token="t")
        notes = [p["message"] for m, p in c.notes if m == "notifications/progress"]
        assert len(notes) >= 2, notes
        contains("".join(notes), "line 2\n")


# ---- rights and lists --------------------------------------------------------------------------


@check
def the_most_of_timeout_is_listed():
    """As it is configured: here, and where an administrator allows less."""
    def listed(port: int, **how) -> dict:
        with Http(port, rev="2025-06-18", **how) as c:
            fields = {tool["name"]: tool["inputSchema"]["properties"] for tool in c.call("tools/list")["tools"]}
            return {name: field["timeout"].get("maximum") for name, field in fields.items() if "timeout" in field}

    most = {"execute_python": 3600, "execute_terminal_command": 3600, "create_sandbox": 3600}
    equal(listed(state.server.port), most)
    equal(listed(state.server.port, path="/mcp?dialect=sandbox-service"), {"execute_python": 120}, "a document's own")
    with Server(args=["--max-timeout", "2m", "--timeout", "1m"]) as s:
        equal(listed(s.port), dict.fromkeys(most, 120))
        with Http(s.port, rev="2025-06-18") as c:
            contains(c.text("execute_python", {"code": "1", "timeout": 121}), "120 s is the most")


@check
def the_list_is_the_table():
    with client("modern") as c:
        tools = c.call("tools/list")["tools"]
        equal(
            [t["name"] for t in tools[:4]],
            ["execute_python", "read_run", "stop_run", "execute_terminal_command"],
        )
        equal(len({t["name"] for t in tools}), len(tools))
        for tool in tools:
            assert (
                tool["inputSchema"]["type"] == "object" and tool["description"] and tool["title"]
            ), tool
            assert "execution" not in tool and "outputSchema" not in tool
        try:
            c.call("tools/list", {"cursor": "x"})
            raise AssertionError("a made-up cursor was taken")
        except RpcError as e:
            equal(e.code, -32602)
    with Http(state.server.port, rev="2024-11-05") as c:
        for tool in c.call("tools/list")["tools"]:
            assert "title" not in tool and "annotations" not in tool


@check
def many_at_once():
    with client("legacy") as c:
        begun = [
            c.begin(
                "tools/call",
                {
                    "name": "execute_python",
                    "arguments": {"code": "print(%d)" % i, "session_id": "p%d" % (i % 4)},
                },
            )
            for i in range(24)
        ]
        for i, one in enumerate(begun):
            equal(text(one.result()), str(i))


if __name__ == "__main__":
    serve()
