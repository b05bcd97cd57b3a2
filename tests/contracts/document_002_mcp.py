#!/usr/bin/python3
"""Document 002 (sandbox-service: Sandbox Service, port 8001): its contract's rows about MCP that need no packages."""
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
import real_client  # noqa: E402
from check import check, equal, skip  # noqa: E402
from krait_server import Server  # noqa: E402
from mcp import Sse  # noqa: E402
from serving import Stream, kept, main  # noqa: E402

FIELDS = {"stdout", "stderr", "exit_code", "execution_time", "success"}
FIBONACCI = "a, b = 0, 1\nfor _ in range(10):\n    print(a)\n    a, b = b, a + b"


def server() -> Server:
    return kept(args=["--dialect", "sandbox-service"], validate=False)  # what is MCP is no part of OpenAPI


@check
def row_002_07_the_stream_opens_and_stays():
    for path in ("/mcp/sse", "/mcp"):
        with Stream(server(), "GET", path, None, {"Accept": "*/*"}) as stream:
            equal((stream.status, stream.headers["content-type"].split(";")[0]), (200, "text/event-stream"), path)
            first = stream.event()
            equal(first["event"], "endpoint", path)
            assert first["data"].startswith("/mcp/messages/?"), first
            stream.connection.sock.settimeout(1.5)
            try:
                equal(stream.raw_line()[:1], b":", "nothing but a comment follows of its own accord")
            except TimeoutError:
                pass  # silence, and the stream is still open


@check
def row_002_07_tools_work_on_it():
    for path in ("/mcp/sse", "/mcp"):
        with Sse(server().port, path) as c:
            equal([t["name"] for t in c.call("tools/list")["tools"]], ["execute_python", "pip_install"])
            got = json.loads(c.tool("execute_python", code=FIBONACCI)["content"][0]["text"])
            equal((set(got), got["stdout"].split()[-1], got["success"]), (FIELDS, "34", True))


@check
def row_002_07_a_client_that_others_wrote():
    for path in ("/mcp/sse", "/mcp"):
        c = real_client.at(server().port, path, "sse-only")
        if not c:
            skip("npm could not fetch mcp-remote")
        equal([t["name"] for t in c.call("tools/list")["tools"]], ["execute_python", "pip_install"])
        got = json.loads(c.tool("execute_python", code=FIBONACCI)["content"][0]["text"])
        equal((set(got), got["stdout"].split()[-1], got["success"]), (FIELDS, "34", True))


@check
def row_002_13_posted_with_curls_headers():
    def post(method: str, **params) -> dict:
        message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        reply = server().post("/mcp", message, headers={"Accept": "*/*", "Content-Type": "application/json"})
        equal(reply.status, 200, reply.text[:300])
        answer = reply.json()
        equal((answer["jsonrpc"], answer["id"]), ("2.0", 7))
        return answer["result"]

    equal([t["name"] for t in post("tools/list")["tools"]], ["execute_python", "pip_install"])
    began = time.monotonic()
    got = json.loads(post("tools/call", name="execute_python",
                          arguments={"code": "print('Hello, World!')", "timeout": 10})["content"][0]["text"])
    assert time.monotonic() - began < 60
    equal((got["stdout"], got["stderr"], got["exit_code"], got["success"]), ("Hello, World!\n", "", 0, True))
    failed = json.loads(post("tools/call", name="execute_python", arguments={"code": "1 / 0"})["content"][0]["text"])
    equal((failed["exit_code"], failed["success"]), (1, False))
    assert "ZeroDivisionError" in failed["stderr"], failed


main()
