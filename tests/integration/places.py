#!/usr/bin/python3
"""Sandboxes, sessions, info and the pages over HTTP, each reply held against /openapi.json."""
import gzip
import json
import os
import re
import sys
import threading
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal, main
from krait_server import Server
from openapi_structure import problems
from serving import Stream

SECRET = "hunter2-of-nobody"


class Shared:
    """One server for the checks that leave nothing behind; started by the first."""

    server: Server = None


def server() -> Server:
    if Shared.server is None:
        Shared.server = Server().start()
    return Shared.server


def error(reply, status: int, kind: str, field=None) -> str:
    equal(reply.status, status, reply.text[:300])
    told = reply.json()["error"]
    equal((told["kind"], told["field"]), (kind, field), reply.text[:300])
    return told["message"]


def detail(reply, status: int, text: str) -> None:
    equal((reply.status, reply.detail()), (status, text))


# ---- sandboxes ------------------------------------------------------------------------------------


@check
def sandbox_lives_from_creation_to_deletion():
    s = server()
    made = s.post("/api/v1/sandboxes", {"name": "life", "limits": {"memory": "512M", "timeout": 120},
                                        "network": "loopback"})
    equal(made.status, 201, made.text[:300])
    box = made.json()
    equal(made.header("location"), "/api/v1/sandboxes/" + box["id"])
    equal((box["limits"]["memory"], box["limits"]["timeout"], box["network"]), (512 << 20, 120, "loopback"))
    equal(s.get("/api/v1/sandboxes/" + box["id"]).json(), s.get("/api/v1/sandboxes/life").json())
    equal(s.run("open('kept', 'w').write('x')", sandbox_id="life")["cause"], "ok")
    equal(s.post("/api/v1/sandboxes/life/reset").json()["id"], box["id"])
    equal(s.run("import os; print(os.listdir())", sandbox_id="life")["stdout"], "[]\n")
    equal(s.delete("/api/v1/sandboxes/life").status, 204)
    error(s.get("/api/v1/sandboxes/" + box["id"]), 404, "not_found")
    error(s.delete("/api/v1/sandboxes/life"), 404, "not_found")


@check
def sandbox_changes_by_patch_and_null_takes_away():
    s = server()
    s.post("/api/v1/sandboxes", {"name": "p1", "limits": {"memory": "512M", "cpu": 0.5}, "env": {"A": "1", "B": "2"}})
    box = s.patch("/api/v1/sandboxes/p1", {"name": "p2", "limits": {"memory": None}, "env": {"A": None}}).json()
    equal((box["name"], box["settings"]), ("p2", {"limits": {"cpu": 0.5}, "env": {"B": "***"}}))
    box = s.patch("/api/v1/sandboxes/p2", {"limits": None, "env": None}).json()
    equal(box["settings"], {})
    s.post("/api/v1/sandboxes", {"name": "p3"})
    error(s.patch("/api/v1/sandboxes/p2", {"name": "p3", "limits": {"cpu": 0.25}}), 409, "conflict", "name")
    equal(s.get("/api/v1/sandboxes/p2").json()["settings"], {}, "a change that fails changes nothing")
    error(s.patch("/api/v1/sandboxes/default", {"name": "other"}), 409, "conflict", "name")
    for name in ("p2", "p3"):
        s.delete("/api/v1/sandboxes/" + name)


@check
def default_is_there_and_stays():
    s = server()
    contains([box["name"] for box in s.get("/api/v1/sandboxes").json()["sandboxes"]], "default")
    contains(error(s.delete("/api/v1/sandboxes/default"), 409, "conflict"), "reset")


@check
def what_is_wrong_is_named():
    s = server()
    for body, status, kind, field in (
        ({"limits": {"memory": "9000G"}}, 400, "invalid", "limits.memory"),
        ({"limits": {"memory": "5G"}}, 400, "invalid", "limits.memory"),  # past the server's ceiling
        ({"limits": {"memry": 1}}, 400, "invalid", "limits.memry"),
        ({"env": {"X": 5}}, 400, "invalid", "env.X"),
        ({"env": {"KRAIT_X": "y"}}, 400, "invalid", "env"),
        ({"mounts": ["nothing"]}, 400, "invalid", "mounts"),
        ({"network": "open"}, 400, "invalid", "network"),
        ({"name": "x" * 65}, 400, "invalid", "name"),
        ({"name": "é" * 40}, 400, "invalid", "name"),
        ({"name": "default"}, 409, "conflict", "name"),
        ({"colour": "red"}, 400, "invalid", "colour"),
    ):
        error(s.post("/api/v1/sandboxes", body), status, kind, field)
    error(s.get("/api/v1/sandboxes?limit=0"), 400, "invalid", "limit")
    error(s.get("/api/v1/sandboxes?after=nonsense"), 400, "invalid", "after")


@check
def pages_of_sandboxes_neither_lose_nor_repeat():
    s = server()
    names = {"page-%d" % i for i in range(7)}
    for name in names:
        s.post("/api/v1/sandboxes", {"name": name})
    seen, after = [], ""
    while after is not None:
        page = s.get("/api/v1/sandboxes?limit=3" + ("&after=" + after if after else "")).json()
        seen += [box["name"] for box in page["sandboxes"]]
        after = page["next"]
    equal(len(seen), len(set(seen)))
    assert names | {"default"} <= set(seen), seen
    for name in names:
        s.delete("/api/v1/sandboxes/" + name)


@check
def values_of_env_come_out_nowhere():
    with Server() as s:
        made = s.post("/api/v1/sandboxes", {"name": "secret", "env": {"TOKEN": SECRET}})
        equal(made.json()["settings"]["env"], {"TOKEN": "***"})
        equal(s.run("import os; print(os.environ['TOKEN'])", sandbox_id="secret")["stdout"], SECRET + "\n")
        bad = s.patch("/api/v1/sandboxes/secret", {"env": {"TOKEN": SECRET, "KRAIT_Y": SECRET}})
        for reply in (made, bad, s.get("/api/v1/sandboxes"), s.get("/api/v1/sandboxes/secret"), s.get("/api/v1/audit")):
            assert SECRET not in reply.text, reply.text[:300]
        assert SECRET not in s.log_text()


@check
def a_run_right_after_a_reset_is_in_the_new_folder():
    s = server()
    s.post("/api/v1/sandboxes", {"name": "again"})
    for i in range(5):
        s.run("open('old-%d', 'w')" % i, sandbox_id="again")
        s.post("/api/v1/sandboxes/again/reset")
        end = s.run("import os; print(os.listdir()); open('new', 'w')", sandbox_id="again")
        equal((end["stdout"], end["session_restarted"]), ("[]\n", True))
        equal([f["path"] for f in s.get("/api/v1/sandboxes/again/files").json()["files"]], ["new"])
    s.delete("/api/v1/sandboxes/again")


# ---- sessions -------------------------------------------------------------------------------------


@check
def session_has_the_document_s_members():
    s = server()
    s.run("open('table.csv', 'w').write('a,b')", session_id="m1")
    listed = s.get("/api/v1/sessions").json()
    entry = listed["sessions"]["m1"]
    assert {"created_at", "last_activity", "is_busy", "execution_count"} <= set(entry), entry
    equal((entry["execution_count"], entry["is_busy"], listed["total"] >= 1), (1, False, True))
    one = s.get("/ai/sandbox/v1/api/sessions/m1").json()
    equal((one["session_id"], one["working_directory"]), ("m1", "/workspace"))
    file = next(f for f in one["files"] if f["filename"] == "table.csv")
    equal(file, {"id": "table.csv", "filename": "table.csv", "exists": True, "size": 3, "path": "/workspace/table.csv"})
    equal(one["total_files"], len(one["files"]))
    equal(s.delete("/api/v1/sessions/m1").json(), {"message": "Session m1 terminated"})
    detail(s.get("/api/v1/sessions/m1"), 404, "Session not found")
    assert "m1" not in s.get("/api/v1/sessions").json()["sessions"]


@check
def session_is_opened_by_the_document_s_envelope():
    s = server()
    for prefix in ("/api/v1", "/ai/sandbox/v1/api"):
        reply = s.post(prefix + "/sessions", {"session_id": "o1", "file_urls": ["https://example.org/x.csv"],
                                              "files": [{"url": "https://example.org/y.csv", "id": "y"}]}).json()
        equal((reply["resultCode"], reply["resultMsg"]), (0, "success"))
        data = reply["data"]
        equal((data["session_id"], data["working_directory"], data["downloaded_files"]), ("o1", "/workspace", []))
        equal(len(data["errors"]), 2)
        contains(data["errors"][0], "https://example.org/x.csv: ")
        contains(data["errors"][0], "fetch_network")
        s.delete(prefix + "/sessions/o1")
    made_up = s.post("/api/v1/sessions", {}).json()["data"]["session_id"]
    equal(s.get("/api/v1/sessions/" + made_up).json()["execution_count"], 0)
    s.delete("/api/v1/sessions/" + made_up)
    equal(s.post("/api/v1/sessions", {"session_id": "é" * 70}).status, 422)
    equal(s.post("/api/v1/sessions", {"files": [{}]}).json()["detail"][0]["loc"], ["body", "files", 0, "url"])


@check
def names_in_several_sandboxes_are_told_apart():
    s = server()
    s.post("/api/v1/sandboxes", {"name": "twin"})
    s.run("where = 'default'", session_id="both")
    s.run("where = 'twin'", session_id="both", sandbox_id="twin")
    listed = s.get("/api/v1/sessions").json()["sessions"]
    equal(listed["both"]["sandbox_name"], "twin", "the last used has the bare name")
    other = next(v for k, v in listed.items() if k.endswith("/both"))
    equal((other["session_id"], other["sandbox_name"]), ("both", "default"))
    equal(s.get("/api/v1/sessions/both?sandbox=default").json()["sandbox_name"], "default")
    equal(set(s.get("/api/v1/sessions?sandbox=twin").json()["sessions"]), {"both"})
    s.patch("/api/v1/sandboxes/twin", {"name": "renamed"})
    equal(s.get("/api/v1/sessions/both?sandbox=renamed").json()["sandbox_name"], "renamed")
    s.delete("/api/v1/sessions/both?sandbox=renamed")
    equal(s.run("print(where)", session_id="both")["stdout"], "default\n")
    detail(s.get("/api/v1/sessions?sandbox=twin"), 404, "Sandbox not found")
    s.delete("/api/v1/sessions/both")
    s.delete("/api/v1/sandboxes/renamed")


@check
def interrupt_ends_what_runs_and_keeps_the_session():
    s = server()
    s.run("x = 41", session_id="i1")
    ends: list = []
    thread = threading.Thread(target=lambda: ends.append(s.run("import time; time.sleep(30)", session_id="i1")))
    thread.start()
    deadline = time.monotonic() + 10
    while not s.get("/api/v1/sessions/i1").json()["is_busy"] and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.2)
    equal(s.post("/api/v1/sessions/i1/interrupt").json(), {"message": "Session i1 interrupted"})
    thread.join(15)
    equal([e["cause"] for e in ends], ["interrupted"])
    equal(s.run("print(x + 1)", session_id="i1")["stdout"], "42\n")
    s.delete("/api/v1/sessions/i1")
    detail(s.post("/api/v1/sessions/i1/interrupt"), 404, "Session not found")


@check
def a_session_can_be_ended_and_opened_at_once():
    s = server()
    for _ in range(10):
        equal(s.post("/api/v1/sessions", {"session_id": "quick"}, timeout=10).status, 200)
        equal(s.delete("/api/v1/sessions/quick", timeout=10).status, 200)
    equal(s.post("/api/v1/sessions", {"session_id": "quick"}, timeout=10).status, 200)
    equal(s.get("/api/v1/sessions/quick").json()["execution_count"], 0)
    s.delete("/api/v1/sessions/quick")


# ---- info, pages ----------------------------------------------------------------------------------


@check
def info_tells_what_holds():
    info = server().get("/api/v1/info").json()
    equal((info["name"], info["status"], info["dialect"]), ("krait", "running", "krait"))
    contains(("root", "user", "contained"), info["isolation"]["level"])
    assert info["isolation"]["layers"]["seccomp"] is True, info["isolation"]
    assert len(info["isolation"]["layers"]) >= 13, info["isolation"]
    contains(info["dialects"], "sandbox-mcp")
    equal([p["name"] for p in info["preloads"]], ["basic"])


@check
def root_negotiates():
    s = server()
    equal(s.get("/", headers={"Accept": "*/*"}).json()["status"], "running")
    equal(s.get("/").json()["api_endpoint"], "/api/v1")
    page = s.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    contains(page.header("content-type"), "text/html")
    contains(page.header("content-security-policy"), "script-src 'self'")
    contains(page.header("vary"), "Accept")
    contains(s.get("/", headers={"Accept": "text/html;q=0.1, application/json"}).header("content-type"), "json")
    with Stream(s, "GET", "/", None, {"Accept": "text/event-stream"}) as stream:  # MCP's first transport
        equal(stream.headers["content-type"].split(";")[0], "text/event-stream")


@check
def pages_and_their_files_are_served():
    s = server()
    page = s.get("/docs")
    equal(page.status, 200)
    packed = s.get("/docs", headers={"Accept-Encoding": "gzip"})
    equal((packed.header("content-encoding"), gzip.decompress(packed.body)), ("gzip", page.body))
    assert packed.header("etag") != page.header("etag")
    equal(s.get("/docs", headers={"If-None-Match": page.header("etag")}).status, 304)
    for path in re.findall(r'(?:src|href)="(?:\./)?(assets/[^"]+)"', page.text):
        file = s.get("/" + path)
        equal(file.status, 200, path)
        equal(gzip.decompress(s.get("/" + path, headers={"Accept-Encoding": "gzip"}).body), file.body, path)
    for path, where in (("/docs/", "../docs"), ("/redoc", "docs")):
        moved = s.get(path)
        equal((moved.status, moved.header("location")), (307, where))
    detail(s.get("/assets/nothing.js"), 404, "Not Found")
    detail(s.get("/assets/../docs.html"), 400, s.get("/assets/../docs.html").json()["detail"])


@check
def openapi_is_well_formed_and_remembered():
    s = server()
    reply = s.get("/openapi.json")
    document = json.loads(reply.body)
    equal(problems(document), [])
    equal(s.get("/openapi.json").body, reply.body)
    equal(s.get("/openapi.json", headers={"If-None-Match": reply.header("etag")}).status, 304)


@check
def docs_are_hidden_where_the_document_hides_them():
    for debug, status in (("false", 404), ("true", 200)):
        with Server(args=["--dialect", "sandbox-mcp"], env={"KRAIT_DEBUG": debug}) as s:
            equal((s.get("/docs").status, s.get("/redoc").status == 404), (status, debug == "false"))
            equal(s.get("/").json()["docs"], "/docs" if debug == "true" else "disabled")


# ---- two users ------------------------------------------------------------------------------------


@check
def another_s_things_are_as_unknown_as_what_never_was():
    with Server(env={"KRAIT_API_KEY": "k" * 32}, key="k" * 32) as s:
        keys = {}
        for name in ("ada", "eve"):
            made = s.post("/api/v1/users", {"name": name})
            equal(made.status, 201, made.text[:300])
            reply = s.post("/api/v1/keys", {"name": name, "user": made.json()["id"]})
            equal(reply.status, 201, reply.text[:300])
            keys[name] = reply.json()["key"]
        box = s.post("/api/v1/sandboxes", {"name": "hers"}, key=keys["ada"]).json()["id"]
        s.run("x = 1", sandbox_id=box, session_id="priv", key=keys["ada"])
        never = "z" * 26
        for method, path, body in (
            ("GET", "/api/v1/sandboxes/%s", None),
            ("PATCH", "/api/v1/sandboxes/%s", {"limits": {"cpu": 0.5}}),
            ("POST", "/api/v1/sandboxes/%s/reset", None),
            ("DELETE", "/api/v1/sandboxes/%s", None),
            ("GET", "/api/v1/sessions?sandbox=%s", None),
            ("GET", "/api/v1/sessions/priv?sandbox=%s", None),
            ("DELETE", "/api/v1/sessions/priv?sandbox=%s", None),
            ("POST", "/api/v1/sessions/priv/interrupt?sandbox=%s", None),
            ("POST", "/api/v1/sessions", {"session_id": "priv", "sandbox_id": "%s"}),
        ):
            told = []
            for place in (box, never, "hers"):
                text = json.dumps(body).replace("%s", place) if body else None
                target = path.replace("%s", place)
                reply = s.request(method, target, text, key=keys["eve"])
                told.append((reply.status, re.sub(r'"request_id":"[^"]*"', "", reply.text)))
            equal(told[0], told[1], method + " " + path)
            equal((told[0], told[0][0]), (told[2], 404), method + " " + path)
        detail(s.get("/api/v1/sessions/priv", key=keys["eve"]), 404, "Session not found")
        equal(s.get("/api/v1/sessions", key=keys["eve"]).json(), {"sessions": {}, "total": 0})
        equal(s.run("print(x)", sandbox_id=box, session_id="priv", key=keys["ada"])["stdout"], "1\n")
        equal(s.get("/api/v1/sessions", key="").detail(), "API key required")
        equal(s.get("/docs", key="").status, 200)


@check
def every_reply_obeyed_the_document():
    equal(Shared.server.problems if Shared.server else [], [])


try:
    main()
finally:
    if Shared.server is not None:
        Shared.server.close(check=False)
