#!/usr/bin/python3
"""Document 003 (python-executor: Python Code Executor, port 8000, texts): what its clients rely on over MCP, a check
a row of its contract.

Rows about packages (03 to 07, 13) and about containers (12) have their own suites.
"""
import os
import re
import socket
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
import real_client  # noqa: E402
from check import check, contains, equal, skip  # noqa: E402
from krait_server import KRAIT, Server  # noqa: E402
from mcp import Http, Sse, Stdio  # noqa: E402
from serving import kept, main  # noqa: E402

DIALECT = ["--dialect", "python-executor"]
HELLO = "print('Hello, World!')"


def server() -> Server:
    return kept(args=DIALECT)


def real():
    return real_client.at(server().port, "/sse", "sse-only")


def result(name: str, **arguments) -> dict:
    """By the suite's client, and by one that others wrote: both are told the same."""
    with Sse(server().port) as c:
        got = c.tool(name, arguments)
    if real():
        again = real().tool(name, arguments)
        equal([b["text"] for b in again["content"]], [b["text"] for b in got["content"]])
    assert not got.get("isError"), got
    return got


def text(name: str, **arguments) -> str:
    blocks = result(name, **arguments)["content"]
    equal([block["type"] for block in blocks], ["text"])
    return blocks[0]["text"]


@check
def row_003_01_hello():
    equal(text("execute_python", code=HELLO), "Hello, World!\n")


@check
def row_003_02_an_import():
    equal(text("execute_python", code="import math; print(math.sqrt(16))"), "4.0\n")


@check
def row_003_08_sandbox_info_is_three_labelled_lines():
    lines = text("get_sandbox_info").splitlines()
    equal(lines[0], "Sandbox Environment Info:")
    assert re.match(r"- Python Version: Python 3\.\d+\.\d+", lines[1]), lines
    assert re.match(r"- Environment Path: /", lines[2]), lines
    equal(lines[3:], ["- Status: Initialized"])


@check
def row_003_09_timeouts_are_brought_into_range():
    equal(text("execute_python", code="import time; time.sleep(10)", timeout=1),
          "Error: Execution timed out after 1 seconds")
    none = result("execute_python", code="import time; time.sleep(10)", timeout=0)["content"]
    equal(none[0]["text"], "Error: Execution timed out after 1 seconds")
    contains(none[1]["text"], "1 s was given")
    long = result("execute_python", code="print(1)", timeout=9999)["content"]
    equal(long[0]["text"], "1\n")
    contains(long[1]["text"], "300 s was given")
    begun = text("execute_python", code="print('begun', flush=True)\nwhile True: pass", timeout=1)
    assert begun.startswith("Error: Execution timed out after 1 seconds\n"), begun
    contains(begun, "begun")
    with Http(server().port) as c:
        field = next(t for t in c.call("tools/list")["tools"]
                     if t["name"] == "execute_python")["inputSchema"]["properties"]["timeout"]
        contains(field["description"], "60")


@check
def row_003_10_what_is_shown():
    equal(text("execute_python", code="x=1"), "Code executed successfully (no output).")
    equal(text("execute_python", code="import sys; print('e', file=sys.stderr)"), "[STDERR]:\ne\n")
    equal(text("execute_python", code="import sys; print('o'); print('e', file=sys.stderr)"), "o\n\n[STDERR]:\ne\n")
    for code, word in (("def", "SyntaxError"), ("raise ValueError('test error')", "ValueError: test error")):
        shown = text("execute_python", code=code)
        assert shown.startswith("[STDERR]:\n"), shown
        contains(shown, word)
    equal(text("execute_python", code="7"), "Code executed successfully (no output).", "a script shows no last value")


@check
def row_003_10_variables_go_and_files_stay():
    text("execute_python", code="x = 1\nopen('kept.txt','w').write('y')")
    equal(text("execute_python", code="print('x' in globals(), open('kept.txt').read())"), "False y\n")
    equal(text("reset_sandbox"), "Sandbox environment has been reset successfully.")
    equal(text("execute_python", code="import os; print(os.listdir())"), "[]\n")


@check
def row_003_11_stdio_says_nothing_but_messages():
    with tempfile.TemporaryDirectory(prefix="krait-test-") as here:
        os.chmod(here, 0o755)
        for start in (["mcp"], ["serve", "--transport", "stdio"]):
            argv = [os.path.abspath(KRAIT), *start, *DIALECT, "--no-files", "--preload", "basic",
                    "--data", here + "/data"]
            with Stdio(argv) as c:
                equal(c.tool("execute_python", code=HELLO)["content"][0]["text"], "Hello, World!\n")
                equal(c.garbage, [])


def port_is_free(port: int) -> bool:
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@check
def row_003_11_sse_on_its_port_and_on_another():
    for args, port in (([], 8000), (["--port", "3000"], 3000)):
        deadline = time.monotonic() + 60
        while not port_is_free(port):
            if time.monotonic() > deadline:
                skip("port %d is taken by another program" % port)
            time.sleep(0.5)
        with Server(args=[*DIALECT, "--sse", *args], usual=["--no-files"]) as s:
            equal(s.port, port)
            with Sse(port) as c:
                equal(c.tool("execute_python", code=HELLO)["content"][0]["text"], "Hello, World!\n")


@check
def rows_went_through_a_client_that_others_wrote():
    if not real():
        skip("npm could not fetch mcp-remote: the rows went through the suite's own client alone")


main()
