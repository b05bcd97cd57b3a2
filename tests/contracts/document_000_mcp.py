#!/usr/bin/python3
"""Document 000 (sandbox-mcp: Python Sandbox MCP Server): the MCP half of its contract's row 18."""
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
import real_client  # noqa: E402
from check import check, contains, equal, skip  # noqa: E402
from krait_server import Server  # noqa: E402
from mcp import Http  # noqa: E402
from serving import kept, main  # noqa: E402

PATHS = ("/ai/sandbox/v1/mcp", "/ai/sandbox/v1/mcp/", "/mcp", "/mcp/")
TOOLS = ["execute_python_code", "list_active_sessions", "terminate_session", "create_session_with_files"]


def server() -> Server:
    return kept(args=["--dialect", "sandbox-mcp"], validate=False)  # what is MCP is no part of OpenAPI


def posted(path: str, method: str, **params) -> dict:
    """As the document's clients send it: no session, no initialize, both types accepted."""
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    reply = server().post(path, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers=headers)
    equal(reply.status, 200, reply.text[:300])
    body = reply.text
    if reply.header("content-type").startswith("text/event-stream"):
        body = next(line[6:] for line in body.splitlines() if line.startswith("data: ") and len(line) > 6)
    message = json.loads(body)
    equal(message["id"], 1)
    return message["result"]


@check
def row_000_18_tools_are_listed_on_its_own_path():
    for path in PATHS:
        equal([t["name"] for t in posted(path, "tools/list")["tools"]], TOOLS, path)


@check
def row_000_18_tools_answer_without_a_session():
    for path in PATHS:
        result = posted(path, "tools/call", name="execute_python_code",
                        arguments={"code": "print('Hello')", "session_id": "s"})
        equal(json.loads(result["content"][0]["text"]), {"output": "Hello\n", "images": [], "session_id": "s"}, path)


@check
def row_000_18_a_client_that_others_wrote():
    c = real_client.at(server().port, PATHS[0])
    if not c:
        skip("npm could not fetch mcp-remote")
    equal([t["name"] for t in c.call("tools/list")["tools"]], TOOLS)
    result = c.tool("execute_python_code", code="print('Hello')", session_id="remote")
    equal(json.loads(result["content"][0]["text"]), {"output": "Hello\n", "images": [], "session_id": "remote"})


@check
def row_000_18_the_resource_and_the_prompt():
    with Http(server().port, PATHS[0]) as c:
        c.tool("execute_python_code", code="1", session_id="told")
        contains([t["uriTemplate"] for t in c.call("resources/templates/list")["resourceTemplates"]],
                 "session://{session_id}")
        told = json.loads(c.call("resources/read", {"uri": "session://told"})["contents"][0]["text"])
        equal((told["session_id"], told["execution_count"]), ("told", 1))
        equal([p["name"] for p in c.call("prompts/list")["prompts"]], ["code_execution_prompt"])


main()
