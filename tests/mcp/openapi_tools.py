#!/usr/bin/python3
"""The tools over plain HTTP (/api/v1/tools), and what OpenAPI clients read of them: the same tools,
checks and refusals as over MCP. Every reply is held against /openapi.json.
"""
from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
from check import check, contains, equal  # noqa: E402
from krait_server import Reply, Server  # noqa: E402
from mcp import Http  # noqa: E402
from openapi_structure import problems  # noqa: E402
from serving import eventually, kept, main  # noqa: E402

ROOT_KEY = "root-key-of-the-tools-suite"
TOOLS = "/api/v1/tools"
DIALECTS = (
    "krait",
    "sandbox-mcp",
    "python-sandbox",
    "sandbox-service",
    "python-executor",
    "mcp-sandbox",
)
_names = itertools.count()


def server() -> Server:
    return kept()


def users() -> Server:
    return kept(args=["--require-auth"], env={"API_KEY": ROOT_KEY}, key=ROOT_KEY)


def key(*rights: str) -> str:
    """Of a user who was not there before."""
    s, number = users(), next(_names)
    user = s.post("/api/v1/users", {"name": "u%d" % number, "rights": ["read", "run"]}).json()["id"]
    return s.post(
        "/api/v1/keys", {"user": user, "name": "k", "rights": list(rights or ("read", "run"))}
    ).json()["key"]


def call(name: str, arguments: dict | None = None, **more) -> dict:
    reply = server().post("%s/%s" % (TOOLS, name), {} if arguments is None else arguments, **more)
    equal(reply.status, 200, reply.text)
    return reply.json()


def text(result: dict) -> str:
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


def failed(reply: Reply, status: int, kind: str) -> str:
    equal((reply.status, reply.json()["error"]["kind"]), (status, kind), reply.text)
    return reply.json()["error"]["message"]


def schema_in(document: dict, name: str) -> dict:
    operation = document["paths"]["%s/%s" % (TOOLS, name)]["post"]
    return operation["requestBody"]["content"]["application/json"]["schema"]


# ---- the list and its description --------------------------------------------------------------


@check
def the_list_is_that_of_mcp():
    for query in ("", "?dialect=mcp-sandbox", "?structured=1"):
        with Http(server().port, path="/mcp" + query, rev="2025-06-18") as c:
            reply = server().get(TOOLS + query)
            equal((reply.status, reply.json()), (200, c.call("tools/list")), query)
    names = [tool["name"] for tool in server().get(TOOLS).json()["tools"]]
    assert "execute_python" in names and "create_python_env" not in names, names
    contains(failed(server().get(TOOLS + "?dialect=nobody"), 400, "invalid"), "dialect: one of")
    contains(failed(server().get(TOOLS + "?structured=x"), 400, "invalid"), "structured")


@check
def every_dialects_document_is_valid_and_has_its_tools():
    for dialect in DIALECTS:
        with Server(args=["--dialect", dialect], validate=False) as s:
            document = s.get("/openapi.json").json()
            equal(problems(document), [], dialect)
            listed = s.get(TOOLS).json()["tools"]
            assert listed, dialect
            told = {p[len(TOOLS) + 1:] for p in document["paths"] if p.startswith(TOOLS + "/")}
            equal(told - {"{name}"}, {tool["name"] for tool in listed}, dialect)
            for tool in listed:
                runs = tool["name"].startswith("execute_")  # of a run the most is advice to models: more is clamped
                if dialect == "krait" and runs:
                    del tool["inputSchema"]["properties"]["timeout"]["maximum"]
                equal(schema_in(document, tool["name"]), tool["inputSchema"], tool["name"])


@check
def an_operation_says_what_the_tool_is():
    document = server().get("/openapi.json").json()
    tools = {tool["name"]: tool for tool in server().get(TOOLS).json()["tools"]}
    found = {name: document["paths"]["%s/%s" % (TOOLS, name)]["post"] for name in tools}
    run = found["execute_python"]
    equal(run["operationId"], "execute_python")
    equal(found["read_file"]["operationId"], "tool_read_file")  # read_file is a route's already
    equal((run["tags"], run["x-rights"]), (["tools"], ["run"]))
    for name, operation in found.items():
        equal(operation["summary"], tools[name]["title"])
        equal(operation["description"], tools[name]["description"])
        equal(operation["requestBody"]["required"], "required" in tools[name]["inputSchema"], name)
        answer = operation["responses"]["200"]["content"]["application/json"]["schema"]
        equal(answer, {"$ref": "#/components/schemas/CallToolResult"})


@check
def a_short_list_has_a_short_description():
    with Server(args=["--tools", "core"], validate=False) as s:
        listed = {tool["name"] for tool in s.get(TOOLS).json()["tools"]}
        paths = set(s.get("/openapi.json").json()["paths"])
        equal({p[len(TOOLS) + 1:] for p in paths if p.startswith(TOOLS + "/")}, listed | {"{name}"})
        every = {tool["name"] for tool in server().get(TOOLS).json()["tools"]}
        assert listed < every, (listed, every)


# ---- calls ---------------------------------------------------------------------------------------


@check
def a_call_answers_as_over_mcp():
    answer = call("execute_python", {"code": "x = 6 * 7\nprint(x)"})
    equal(answer, {"content": [{"type": "text", "text": "42"}]})
    equal(text(call("execute_python", {"code": "x + 1"})), "[result] 43")  # MCP's session
    with Http(server().port) as c:
        equal(c.text("execute_python", code="x + 2", session_id="main"), "[result] 44")
    structured = server().post(TOOLS + "/execute_python?structured=1", {"code": "print(1)"}).json()
    equal(structured["structuredContent"]["stdout"], "1\n")
    code = "open('made.txt', 'w').write(',\"result\":}')"
    blocks = call("execute_python", {"code": code})["content"]
    equal([b["resource"]["text"] for b in blocks if b["type"] == "resource"], [',"result":}'])
    contains(text(call("read_file", {"path": "made.txt"})), ',"result":}')


@check
def a_body_may_be_missing_or_large_or_without_its_type():
    reply = server().post(TOOLS + "/list_sandboxes")
    contains(text(reply.json()), "default")
    equal(text(call("execute_python", {"code": "#%s\nprint(7)" % ("a" * (1 << 20))})), "7")
    reply = server().post(TOOLS + "/execute_python", json.dumps({"code": "print(8)"}).encode())
    equal(text(reply.json()), "8")


@check
def a_body_past_four_mib_is_refused_by_its_head():
    for size, status in ((5 << 20, b"413"), (2, b"200")):
        head = "POST %s/list_sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
        with server().raw() as s:
            s.sendall((head % (TOOLS, size)).encode() + b"{}")  # of a large one not the rest
            equal(s.recv(4096).split()[1], status)


@check
def what_is_no_call_is_refused_in_our_voice():
    s = server()
    contains(failed(s.post(TOOLS + "/execute_pyton", {}), 404, "not_found"), "execute_python")
    contains(failed(s.post(TOOLS + "/nobody_knows_this_one", {}), 404, "not_found"), "Unknown tool")
    failed(s.post(TOOLS + "/%ff%fe", {}), 400, "invalid")
    contains(failed(s.post(TOOLS + "/list_sandboxes", b"{"), 400, "invalid"), "not JSON")
    contains(failed(s.post(TOOLS + "/list_sandboxes", b"[]"), 400, "invalid"), "object")
    deep = b'{"a":' * 5000 + b"1" + b"}" * 5000
    contains(failed(s.post(TOOLS + "/list_sandboxes", deep), 400, "invalid"), "the body")
    contains(failed(s.post(TOOLS + "/list_sandboxes?dialect=x", {}), 400, "invalid"), "dialect")
    equal(s.get(TOOLS + "/list_sandboxes").status, 405)
    equal(s.post(TOOLS + "/list_sandboxes", {}).status, 200)


@check
def what_is_refused_is_an_error_and_code_that_fails_a_result():
    s = server()
    cases = (({}, "code"), ({"code": 1}, "code"), ({"cod": "1"}, "did you mean code"))
    for arguments, word in cases:
        contains(failed(s.post(TOOLS + "/execute_python", arguments), 400, "invalid"), word)
    failed(s.post(TOOLS + "/read_file", {"path": "nope"}), 404, "not_found")
    failed(s.post(TOOLS + "/execute_python", {"code": "1", "sandbox_id": "nope"}), 404, "not_found")
    result = call("execute_python", {"code": "1/0"})
    equal(result.get("isError"), True)
    contains(text(result), "ZeroDivisionError")


@check
def json_is_json():
    for name in ("list_sandboxes", "get_sandbox_info", "list_active_sessions"):
        result = call(name, {})
        equal(result["structuredContent"], json.loads(text(result)), name)
    assert "structuredContent" not in call("execute_python", {"code": "print('{}', 1)"})


@check
def another_dialects_tool_has_its_own_shape():
    reply = server().post(TOOLS + "/execute_python?dialect=sandbox-service", {"code": "print(5)"})
    equal(reply.status, 200, reply.text)
    with Http(server().port, path="/mcp?dialect=sandbox-service") as c:
        other = c.tool("execute_python", code="print(5)")
    equal(set(json.loads(text(reply.json()))), set(json.loads(text(other))))


@check
def no_client_is_asked_anything():
    asks = {"code": "print(input('Who? '))", "fresh": True}
    contains(text(call("execute_python", asks)), "EOFError")
    result = call("execute_python", {**asks, "stdin": "me\n"})
    contains(text(result), "me")


# ---- who may -------------------------------------------------------------------------------------


@check
def a_key_is_needed_and_its_rights_count():
    s, reader, runner = users(), key("read"), key()
    code = {"code": "print(9)"}
    failed(s.post(TOOLS + "/execute_python", code, key="nobody"), 401, "unauthorized")
    equal(s.request("GET", TOOLS, key="nobody").status, 401)
    refused = s.post(TOOLS + "/execute_python", code, key=reader)
    contains(failed(refused, 403, "forbidden"), "needs a key with the right `run`")
    assert not s.post(TOOLS + "/list_sandboxes", {}, key=reader).json().get("isError")
    equal(text(s.post(TOOLS + "/execute_python", code, key=runner).json()), "9")


@check
def what_is_anothers_is_unknown():
    s, owner, other = users(), key(), key()
    made = s.post(TOOLS + "/create_sandbox", {"name": "mine"}, key=owner).json()
    code = {"code": "print(3)", "sandbox_id": json.loads(text(made))["sandbox_id"]}
    theirs = s.post(TOOLS + "/execute_python", code, key=other)
    nobodys = s.post(
        TOOLS + "/execute_python", {**code, "sandbox_id": "01hv5k8m2nq7r9t3w6x8y0z2a4"}, key=other
    )
    equal(
        failed(theirs, 404, "not_found").replace(code["sandbox_id"], "ID"),
        failed(nobodys, 404, "not_found").replace("01hv5k8m2nq7r9t3w6x8y0z2a4", "ID"),
    )
    equal(text(s.post(TOOLS + "/execute_python", code, key=owner).json()), "3")


@check
def leaving_stops_the_run():
    s = server()

    def newest() -> dict:
        return s.get("/api/v1/runs?limit=1").json()["runs"][0]

    before = newest()["run_id"]
    connection = s.connect()
    body = {"code": "import time\ntime.sleep(600)", "timeout": 900, "session_id": "left"}
    connection.request("POST", TOOLS + "/execute_python", json.dumps(body).encode())
    run = eventually(lambda: newest()["run_id"] != before and newest())["run_id"]
    assert s.get("/api/v1/runs/" + run).json()["still_running"]
    connection.close()
    ended = eventually(
        lambda: not (found := s.get("/api/v1/runs/" + run).json())["still_running"] and found,
        why="the run ends when its caller leaves",
    )
    equal(ended["cause"], "cancelled", str(ended))
    after = call("execute_python", {"code": "print('good as new')", "session_id": "left"})
    contains(text(after), "good as new")


if __name__ == "__main__":
    main()
