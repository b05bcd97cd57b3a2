#!/usr/bin/python3
"""Tools about sandboxes and sessions: made, listed, told about, emptied, deleted; what is another's is unknown."""
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
from check import check, contains, equal  # noqa: E402
from krait_server import Server  # noqa: E402
from mcp import LEGACY, MODERN, Http, RpcError  # noqa: E402
from serving import kept, main  # noqa: E402

ID = re.compile(r"^[0-9a-z]{26}$")


def server() -> Server:
    return kept()


def users() -> Server:
    return kept(args=["--dialect", "mcp-sandbox", "--require-auth"])


def client(**how) -> Http:
    return Http(server().port, **how)


def value(result: dict) -> dict:
    assert not result.get("isError"), result
    return json.loads(result["content"][-1]["text"])


def refused(result: dict) -> str:
    assert result.get("isError") is True, result
    return result["content"][0]["text"]


def run(c, box: str, code: str, **more) -> str:
    return "\n".join(b["text"] for b in c.tool("execute_python", code=code, sandbox_id=box, **more)["content"]
                     if b["type"] == "text")


@check
def a_sandbox_begins_with_a_template():
    with client() as c:
        box = value(c.tool("create_sandbox", {"name": "to save"}))
        run(c, "to save", "open('f','w').write('kept')")
        saved = value(c.tool("save_template", {"sandbox_id": box["sandbox_id"], "name": "tmpl", "description": "one file"}))
        equal((saved["name"], saved["own"]), ("tmpl", True))
        listed = value(c.tool("list_templates"))
        assert "tmpl" in [t["name"] for t in listed["templates"]] and not listed["more"], listed
        assert "save_template" not in {t["name"] for t in c.call("tools/list")["tools"]}, "it is called, and not listed"
        value(c.tool("create_sandbox", {"name": "begun", "template": "tmpl"}))
        contains(run(c, "begun", "print(open('f').read())"), "kept")
        contains(refused(c.tool("create_sandbox", {"template": "nothere"})), "no template")
        contains(refused(c.tool("save_template", sandbox_id="nothere")), "no sandbox")
        contains(c.tool("delete_template", template="tmpl")["content"][0]["text"], "gone")
        contains(refused(c.tool("delete_template", template="tmpl")), "no template")


@check
def a_sandbox_has_files_and_sessions_of_its_own():
    with client() as c:
        one, two = value(c.tool("create_sandbox")), value(c.tool("create_sandbox", {"name": "named here"}))
        assert ID.match(one["sandbox_id"]) and one["name"], one
        equal((two["name"], two["network"], two["sessions"]), ("named here", "none", 0))
        run(c, one["sandbox_id"], "open('f','w').write('1'); x = 5")
        contains(run(c, two["sandbox_id"], "import os\nprint(os.listdir(), 'x' in globals())"), "[] False")
        contains(run(c, "named here", "print(7)"), "7")  # the name finds it too
        listed = value(c.tool("list_sandboxes"))["sandboxes"]
        names = [s["name"] for s in listed]
        assert names.index("named here") < names.index(one["name"]), "newest first"
        assert "default" in names, names
        equal([s["sessions"] for s in listed if s["name"] == "named here"], [1])


@check
def settings_hold_for_what_runs_there():
    with client() as c:
        box = value(c.tool("create_sandbox",
                           {"memory": "200M", "timeout": 1.5, "env": {"COLOUR": "green"}, "network": "loopback"}))
        equal((box["limits"]["memory"], box["limits"]["timeout"], box["network"]), (200 << 20, 1.5, "loopback"))
        assert "green" not in json.dumps(box), "values of env are never shown"
        contains(run(c, box["sandbox_id"], "import os\nprint(os.environ['COLOUR'])"), "green")
        contains(run(c, box["sandbox_id"], "while True: pass"), "timeout")
        contains(refused(c.tool("create_sandbox", memory="900T")), "memory")
        contains(refused(c.tool("create_sandbox", network="everything")), "network")
        value(c.tool("create_sandbox", {"name": "named twice"}))
        contains(refused(c.tool("create_sandbox", {"name": "named twice"})), "named twice")


@check
def reset_and_delete_take_away_what_they_say():
    with client() as c:
        box = value(c.tool("create_sandbox", {"name": "to be emptied"}))["sandbox_id"]
        run(c, box, "open('f','w').write('1'); x = 5")
        emptied = value(c.tool("reset_sandbox", sandbox_id=box))
        equal((emptied["sandbox_id"], emptied["name"], emptied["sessions"]), (box, "to be emptied", 0))
        contains(run(c, box, "import os\nprint(os.listdir(), 'x' in globals())"), "[] False")
        assert not c.tool("delete_sandbox", sandbox_id=box).get("isError")
        refused(c.tool("execute_python", code="1", sandbox_id=box))
        refused(c.tool("delete_sandbox", sandbox_id=box))
        contains(refused(c.tool("delete_sandbox", sandbox_id="default")), "reset_sandbox")
        contains(refused(c.tool("delete_sandbox")), "sandbox_id")


@check
def info_tells_the_truth():
    with client() as c:
        box = value(c.tool("create_sandbox"))["sandbox_id"]
        run(c, box, "open('f','wb').write(b'x' * 100_000)", session_id="here")
        info = value(c.tool("get_sandbox_info", sandbox_id=box))
        contains(run(c, box, "import sys\nprint(sys.version.split()[0])"), info["python"])
        assert info["disk"]["bytes"] >= 100_000, info["disk"]
        equal([s["session_id"] for s in info["sessions"]], ["here"])
        equal(info["isolation"]["layers"]["seccomp"], True)
        there = {p["name"].lower(): p["version"] for p in info["packages"]}
        told = run(c, box,
                   "from importlib.metadata import version\nprint(version('numpy'))") if "numpy" in there else ""
        contains(told, there.get("numpy", ""))
        names = sorted(s["session_id"] for s in value(c.tool("list_active_sessions", sandbox_id=box))["sessions"])
        assert len(names) == 2 and names[0] == "here" and names[1].startswith("mcp-"), names


@check
def sessions_are_listed_and_ended():
    with client() as c:
        box = value(c.tool("create_sandbox"))["sandbox_id"]
        run(c, box, "x = 1", session_id="one")
        run(c, box, "x = 2", session_id="two")
        listed = value(c.tool("list_active_sessions", sandbox_id=box))
        equal(([s["session_id"] for s in listed["sessions"]], listed["total"]), (["two", "one"], 2))
        equal(listed["sessions"][1]["execution_count"], 1)
        assert value(c.tool("list_active_sessions"))["total"] >= 2
        assert not c.tool("terminate_session", session_id="one", sandbox_id=box).get("isError")
        equal([s["session_id"] for s in value(c.tool("list_active_sessions", sandbox_id=box))["sessions"]], ["two"])
        contains(run(c, box, "'x' in globals()", session_id="one"), "False")
        refused(c.tool("terminate_session", session_id="never", sandbox_id=box))
        refused(c.tool("list_active_sessions", sandbox_id="nobodys"))


@check
def the_same_in_every_revision():
    for rev in (*LEGACY[1:], MODERN):
        with client(rev=rev) as c:
            box = value(c.tool("create_sandbox"))["sandbox_id"]
            contains(c.tool("list_files", sandbox_id=box)["content"][0]["text"], "0 entries")
            assert "structuredContent" not in c.tool("list_sandboxes"), rev
        with client(rev=rev, path="/mcp?structured=1") as c:
            result = c.tool("list_sandboxes")
            equal("structuredContent" in result, rev >= "2025-06-18", rev)
            if rev >= "2025-06-18":
                equal(result["structuredContent"], json.loads(result["content"][0]["text"]))
            tools = {t["name"]: t for t in c.call("tools/list")["tools"]}
            equal("outputSchema" in tools["list_sandboxes"], rev >= "2025-06-18", rev)
            equal("annotations" in tools["list_sandboxes"], True, rev)


def obeys(schema: dict, value, where: str) -> None:
    """What our schemas say: types, members that must be there, no others."""
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
             "null": type(None)}
    allowed = schema.get("type", [])
    if allowed:
        assert isinstance(value, tuple(k for t in ([allowed] if isinstance(allowed, str) else allowed)
                                       for k in (kinds[t] if isinstance(kinds[t], tuple)
                                                 else (kinds[t],)))), (where, value)
    if isinstance(value, dict) and "properties" in schema:
        assert set(schema.get("required", [])) <= set(value), (where, set(schema["required"]) - set(value))
        if schema.get("additionalProperties") is False:
            assert set(value) <= set(schema["properties"]), (where, set(value) - set(schema["properties"]))
        for name, one in value.items():
            obeys(schema["properties"].get(name, {}), one, where + "." + name)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for one in value:
            obeys(schema["items"], one, where + "[]")


@check
def structures_obey_their_schemas():
    with client(path="/mcp?structured=1") as c:
        schemas = {t["name"]: t["outputSchema"] for t in c.call("tools/list")["tools"] if "outputSchema" in t}
        box = c.tool("create_sandbox")["structuredContent"]["sandbox_id"]
        calls = [("execute_python", {"code": "open('f.txt','w').write('x\\n')"}), ("list_files", {}),
                 ("read_file", {"path": "f.txt"}),
                 ("upload_file_to_sandbox", {"path": "g", "content": "x"}), ("get_sandbox_info", {}),
                 ("create_sandbox", {}), ("list_sandboxes", {}), ("list_active_sessions", {}), ("reset_sandbox", {})]
        for name, arguments in calls:
            if name not in ("create_sandbox", "list_sandboxes"):
                arguments = {**arguments, "sandbox_id": box}
            result = c.tool(name, arguments)
            assert not result.get("isError"), (name, result)
            assert schemas[name]["type"] == "object" and schemas[name]["required"], name
            obeys(schemas[name], result["structuredContent"], name)


def key_of(name: str) -> str:
    body = {"username": name, "email": name + "@example.org", "password": "correct horse battery"}
    return users().post("/api/register", body).json()["api_key"]


@check
def no_user_reaches_anothers_sandbox():
    ada, eve = key_of("ada"), key_of("eve")
    port = users().port
    with Http(port, "/mcp?dialect=krait", key=ada) as a, Http(port, "/mcp?dialect=krait", key=eve) as e:
        box = value(a.tool("create_sandbox", {"name": "adas"}))["sandbox_id"]
        run(a, box, "x = 1", session_id="secret")
        never = "0" * 26
        for name in ("reset_sandbox", "delete_sandbox", "get_sandbox_info", "list_active_sessions"):
            for theirs, nobodys in ((box, never), ("adas", "nope")):
                equal(refused(e.tool(name, sandbox_id=theirs)).replace(theirs, "ID"),
                      refused(e.tool(name, sandbox_id=nobodys)).replace(nobodys, "ID"), name)
        refused(e.tool("terminate_session", session_id="secret"))
        equal(value(e.tool("list_active_sessions"))["total"], 0)
        equal([s["name"] for s in value(e.tool("list_sandboxes"))["sandboxes"]], ["default"])
        contains(run(a, box, "print(x)", session_id="secret"), "1")
        assert not a.tool("terminate_session", session_id="secret").get("isError")


main()
