#!/usr/bin/python3
"""Prompts and completion: what is listed where, arguments that are checked, words that are offered."""
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
from check import check, contains, equal  # noqa: E402
from krait_server import Server  # noqa: E402
from mcp import MODERN, Http, RpcError  # noqa: E402
from serving import kept, main  # noqa: E402

FILE = {"type": "ref/resource", "uri": "sandbox://{sandbox}/{+path}"}


def server() -> Server:
    return kept()


def users() -> Server:
    return kept(args=["--dialect", "mcp-sandbox", "--require-auth"])


def client(dialect: str = "krait", **how) -> Http:
    return Http(server().port, "/mcp?dialect=" + dialect, **how)


def code_of(call, *args, **more) -> int:
    try:
        call(*args, **more)
    except RpcError as e:
        return e.code
    return 0


def get(c, name: str, **arguments) -> str:
    result = c.call("prompts/get", {"name": name, "arguments": arguments})
    equal([m["role"] for m in result["messages"]], ["user"])
    return result["messages"][0]["content"]["text"]


def complete(c, ref: dict, name: str, value: str, **context) -> dict:
    params = {"ref": ref, "argument": {"name": name, "value": value}}
    if context:
        params["context"] = {"arguments": context}
    return c.call("completion/complete", params)["completion"]


@check
def each_dialect_lists_its_own():
    for dialect, names in (("krait", ["use_krait"]), ("sandbox-mcp", ["code_execution_prompt"]), ("python-sandbox", []),
                           ("mcp-sandbox", ["sandbox_workflow"])):
        with client(dialect) as c:
            equal([p["name"] for p in c.call("prompts/list")["prompts"]], names, dialect)
            contains(get(c, "use_krait"), "execute_python")  # asked for by its name it is everywhere
    with client() as c:
        equal(code_of(c.call, "prompts/list", {"cursor": "x"}), -32602)


@check
def arguments_go_into_the_text_and_are_checked():
    with client("sandbox-mcp") as c:
        row = c.call("prompts/list")["prompts"][0]
        equal([(a["name"], a["required"]) for a in row["arguments"]],
              [("task_description", True), ("code_style", False), ("include_comments", False)])
        clean = get(c, "code_execution_prompt", task_description="sort {these} %s numbers")
        contains(clean, "sort {these} %s numbers")
        minimal = get(c, "code_execution_prompt", task_description="t", code_style="minimal", include_comments="false")
        assert minimal != get(c, "code_execution_prompt", task_description="t"), "the style changes nothing"
        for wrong in ({}, {"task_description": 5}, {"task_description": "t", "code_style": "pretty"},
                      {"task_description": "t", "include_comments": "perhaps"}, {"task_description": "a\0b"},
                      {"task_description": "x" * 70_000}):
            equal(code_of(c.call, "prompts/get", {"name": "code_execution_prompt", "arguments": wrong}), -32602,
                  str(wrong)[:60])
        equal(code_of(c.call, "prompts/get", {"name": "nobodys"}), -32602)
        equal(code_of(c.call, "prompts/get", {}), -32602)
        equal(code_of(c.call, "prompts/get", {"name": "use_krait", "arguments": []}), -32602)
        contains(get(c, "use_krait", task="count to ten", unknown="ignored"), "count to ten")


@check
def titles_where_the_revision_has_them():
    for rev, has in (("2025-03-26", False), ("2025-06-18", True), (MODERN, True)):
        with client("sandbox-mcp", rev=rev) as c:
            row = c.call("prompts/list")["prompts"][0]
            equal(("title" in row, "title" in row["arguments"][0]), (has, has), rev)


@check
def words_of_prompts_are_offered():
    ref = {"type": "ref/prompt", "name": "code_execution_prompt"}
    with client() as c:
        equal(complete(c, ref, "code_style", ""),
              {"values": ["clean", "verbose", "minimal"], "total": 3, "hasMore": False})
        equal(complete(c, ref, "code_style", "m")["values"], ["minimal"])
        equal(complete(c, ref, "task_description", "m")["values"], [])
        equal(complete(c, {"type": "ref/prompt", "name": "nobodys"}, "x", "")["values"], [])
        for wrong in ({}, {"ref": ref}, {"ref": {"type": "ref/other"}, "argument": {"name": "a", "value": ""}},
                      {"ref": ref, "argument": {"name": "a", "value": 5}}, {"ref": [], "argument": []}):
            equal(code_of(c.call, "completion/complete", wrong), -32602, str(wrong))


@check
def ids_and_paths_are_offered():
    with client() as c:
        box = json.loads(c.tool("create_sandbox", {"name": "completed"})["content"][0]["text"])["sandbox_id"]
        c.tool("execute_python", sandbox_id=box, session_id="sess-1", code="import os\nos.makedirs('data')\n"
               "for i in range(150): open('data/%03d.csv' % i, 'w').close()\nopen('date.txt','w').close()")
        equal(complete(c, FILE, "sandbox", "compl")["values"], ["completed"])
        contains(complete(c, FILE, "sandbox", box[:10])["values"], box)
        equal(complete(c, FILE, "path", "da", sandbox=box)["values"], ["data", "date.txt"])
        many = complete(c, FILE, "path", "data/", sandbox="completed")
        equal((len(many["values"]), many["total"], many["hasMore"]), (100, 150, True))
        equal(complete(c, FILE, "path", "data/14", sandbox=box)["values"], ["data/%d.csv" % i for i in range(140, 150)])
        equal(complete(c, FILE, "path", "../", sandbox=box)["values"], [])
        equal(complete(c, FILE, "path", "x", sandbox="nobodys")["values"], [])
        equal(complete(c, FILE, "path", "x" * 9000, sandbox=box)["values"], [])
        contains(complete(c, {"type": "ref/resource", "uri": "session://{session_id}"}, "session_id", "sess")["values"],
                 "sess-1")
        runs = complete(c, {"type": "ref/resource", "uri": "run://{run_id}"}, "run_id", "")["values"]
        assert runs and all(len(one) == 26 for one in runs), runs
        equal(complete(c, {"type": "ref/resource", "uri": "http://{x}"}, "x", "")["values"], [])


@check
def nothing_of_anothers_is_offered():
    keys = []
    for name in ("ada", "eve"):
        body = {"username": name, "email": name + "@example.org", "password": "correct horse battery"}
        keys.append(users().post("/api/register", body).json()["api_key"])
    path = "/mcp?dialect=krait"
    with Http(users().port, path, key=keys[0]) as a, Http(users().port, path, key=keys[1]) as e:
        a.tool("create_sandbox", {"name": "adas"})
        a.tool("execute_python", sandbox_id="adas", session_id="hers", code="open('secret.txt','w').close()")
        for ref, name, value, context in ((FILE, "sandbox", "adas", {}), (FILE, "path", "se", {"sandbox": "adas"}),
                                          ({"type": "ref/resource", "uri": "session://{session_id}"}, "session_id",
                                           "hers", {}),
                                          ({"type": "ref/resource", "uri": "run://{run_id}"}, "run_id", "", {})):
            assert complete(a, ref, name, value, **context)["values"], (name, "the control")
            equal(complete(e, ref, name, value, **context)["values"], [], name)


main()
