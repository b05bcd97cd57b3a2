#!/usr/bin/python3
"""All five documents in one process, a listener each, beside krait's own: what each document's clients rely on holds on
its listener, and only there. Rows 000-N7, 004-N5 and the isolation half of 003-07; each has its control on another
listener.
"""
import copy
import json
import os
import socket
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
import real_client  # noqa: E402
from check import check, contains, equal  # noqa: E402
from krait_server import KRAIT, Server  # noqa: E402
from mcp import Http, Sse, Stdio  # noqa: E402
from serving import kept, main  # noqa: E402

NAMES = ["krait", "sandbox-mcp", "python-sandbox", "sandbox-service", "python-executor", "mcp-sandbox"]
KEEP = "open('kept.txt', 'w').write('%s')"
LOOK = "import os; print(os.path.exists('kept.txt') and open('kept.txt').read())"
ports: dict = {}


def listening(*more: str) -> list:
    """Arguments that make krait listen once for each dialect, on ports that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in NAMES]
    numbers = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    ports[numbers[0]] = dict(zip(NAMES, numbers))
    return ["--listen", ",".join(f"127.0.0.1:{n}={name}" for name, n in zip(NAMES, numbers)), *more]


every = listening("--pool-size", "0")


def server() -> Server:
    return kept(args=every)


def at(dialect: str, of: Server | None = None) -> Server:
    """The same server by the listener of that dialect."""
    one = copy.copy(of or server())
    one.port = ports[(of or server()).port][dialect]
    one.openapi = None
    return one


def stream(s: Server, code: str, **more) -> list:
    """POST /api/v1/execute as the document's curl sends it."""
    reply = s.post("/api/v1/execute", {"code": code, **more})
    equal(reply.status, 200)
    return reply.lines()


def said(s: Server, code: str, **more) -> str:
    return "".join(line.get("text", "") + line.get("error", "") for line in stream(s, code, **more))


def executor(name: str, **arguments) -> str:
    """A tool of the document python-executor over /sse: by a client that others wrote if it is there."""
    port = at("python-executor").port
    client = real_client.at(port, "/sse", "sse-only")
    if client:
        return client.tool(name, arguments)["content"][0]["text"]
    with Sse(port) as c:
        return c.tool(name, arguments)["content"][0]["text"]


def info(dialect: str, of: Server | None = None) -> dict:
    return at(dialect, of).get("/api/v1/info").json()


# ---- 000-N7 -----------------------------------------------------------------------------------


@check
def row_000_N7_memory_is_the_documents():
    code = "x = bytearray(700 << 20); print('held'); del x"
    contains(said(at("sandbox-mcp"), code, session_id="memory"), "MemoryError")
    equal(said(at("krait"), code, session_id="memory"), "held\n")
    equal(said(at("sandbox-mcp"), "print('small')", session_id="memory-2"), "small\n")


@check
def row_000_N7_a_longer_timeout_is_refused():
    body = {"code": "print(1)", "timeout": 31}
    equal(at("sandbox-mcp").post("/api/v1/execute", body).status, 422)
    equal(at("sandbox-mcp").post("/api/v1/execute", {**body, "timeout": 30}).status, 200)
    equal(at("krait").post("/api/v1/execute", body).status, 200)
    with Http(at("sandbox-mcp").port) as c:
        assert c.tool("execute_python_code", body).get("isError"), "the tool takes more than the route"


@check
def row_000_N7_the_eleventh_session_takes_the_place_of_the_oldest():
    def live(s: Server, prefix: str) -> list:
        return sorted((n for n in s.get("/api/v1/sessions").json()["sessions"] if n.startswith(prefix)))

    for i in range(12):
        equal(said(at("krait"), f"print({i})", session_id=f"own-{i:02}"), f"{i}\n")
    for i in range(12):
        equal(said(at("sandbox-mcp"), f"print({i})", session_id=f"kernel-{i:02}"), f"{i}\n")
    left = live(at("sandbox-mcp"), "kernel-")
    assert len(left) <= 10 and "kernel-11" in left and "kernel-00" not in left, left
    equal(len(live(at("krait"), "own-")), 12)  # none of these made room
    equal(info("sandbox-mcp")["bounds"]["sessions"], 10)
    equal(info("krait")["bounds"]["sessions"], None)


@check
def row_000_N7_idle_sessions_end_after_five_minutes():
    equal(info("sandbox-mcp")["bounds"]["idle_timeout"], 300)
    equal(info("krait")["bounds"]["idle_timeout"], 4 * 3600)


@check
def limits_of_the_other_documents_are_theirs():
    """001-N16, 002-N3 and 003-N4 on a listener: memory, time, processor and output."""
    limits = {name: info(name)["limits"] for name in NAMES}
    equal([limits[n]["memory"] >> 20 for n in NAMES], [1024, 512, 128, 512, 2048, 1024])
    equal([limits[n]["timeout"] for n in NAMES], [45, 30, 30, 30, 60, 3600])
    equal([info(n)["ceilings"]["timeout"] for n in NAMES], [3600, 30, 300, 120, 300, 3600])
    equal(limits["python-executor"]["cpu"], 2)
    equal(limits["python-sandbox"]["output"], 1 << 20)
    big = "x = bytearray(%d << 20); print('held')"
    equal(executor("execute_python", code=big % 1500), "held\n")
    contains(executor("execute_python", code=big % 2300), "MemoryError")
    with Http(at("python-sandbox").port) as c:
        contains(c.tool("execute_code", {"code": big % 300})["content"][0]["text"], "memory")
    got = at("sandbox-service").post("/execute", {"code": big % 700}).json()
    assert not got["success"] and at("krait").run(big % 700)["stdout"] == "held\n", got


@check
def each_listeners_document_tells_its_most_of_timeout():
    for dialect, most in (("krait", 3600), ("sandbox-mcp", 30), ("sandbox-service", 120), ("python-executor", 300)):
        s = at(dialect)
        schemas = s.get("/openapi.json").json()["components"]["schemas"]
        equal(schemas["RunRequest"]["properties"]["timeout"]["maximum"], most, dialect)
        for seconds, status in ((most, 200), (most + 1, 400)):
            reply = s.post("/api/v1/runs", {"code": "1", "stream": False, "timeout": seconds})
            equal(reply.status, status, "%s: %s" % (dialect, reply.text))


@check
def what_the_administrator_gives_holds_on_every_listener():
    args = listening("--memory", "300M", "--max-sandboxes-per-user", "2", "--max-sessions", "3",
                     "--allow-registration=false", "--pool-size", "0")
    with Server(args=args) as s:
        for name in NAMES:
            got = info(name, s)
            equal((got["limits"]["memory"] >> 20, got["bounds"]["sandboxes_per_user"], got["bounds"]["sessions"]),
                  (300, 2, 3))
            equal(got["features"]["registration"], False)
        equal(info("sandbox-mcp", s)["limits"]["timeout"], 30)  # which was not given


# ---- 004-N5 -----------------------------------------------------------------------------------


@check
def row_004_N5_the_fourth_sandbox_is_refused():
    client = real_client.at(at("mcp-sandbox").port, "/sse", "sse-only")
    with Sse(at("mcp-sandbox").port) as own:
        c = client or own
        made = [json.loads(c.tool("create_sandbox", {})["content"][0]["text"]) for _ in range(3)]
        contains(json.dumps(c.tool("create_sandbox", {})), "at most 3 sandboxes a user: delete one first")
        listed = json.loads(c.tool("list_sandboxes", {})["content"][0]["text"])
        equal(sorted(one["sandbox_id"] for one in listed), sorted(one["sandbox_id"] for one in made))
        fourth = at("krait").post("/api/v1/sandboxes", {"name": "fourth"})
        equal(fourth.status, 201)
        for one in made:
            c.tool("delete_sandbox", {"sandbox_id": one["sandbox_id"]})
    equal(at("krait").delete("/api/v1/sandboxes/fourth").status, 204)


@check
def row_004_N5_registration_is_open():
    body = {"username": "ada", "email": "ada@example.org", "password": "correct horse battery"}
    equal(at("krait").post("/api/register", body).status, 403)
    equal(at("sandbox-mcp").post("/api/register", body).status, 403)
    equal(at("mcp-sandbox").post("/api/register", body).status, 200)
    lasts = {}
    for name in ("mcp-sandbox", "krait"):
        got = at(name).post("/api/v1/login", {"name": "ada", "password": body["password"]})
        equal(got.status, 200)
        lasts[name] = got.json()["expires_at"] - time.time()
    assert abs(lasts["mcp-sandbox"] - 300 * 60) < 60 and abs(lasts["krait"] - 12 * 3600) < 60, lasts


# ---- 003-07: one document's reset -------------------------------------------------------------


def service(code: str) -> str:
    return at("sandbox-service").post("/execute", {"code": code}).json()["stdout"]


def ran_at(dialect: str, code: str) -> str:
    """In the sandbox `default` of that listener, in krait's own voice, which every listener has."""
    return at(dialect).run(code, sandbox="default", fresh=True)["stdout"]


@check
def row_003_07_reset_empties_the_documents_own_sandbox_alone():
    said(at("sandbox-mcp"), KEEP % "000" + "; y = 7", session_id="reset")
    service(KEEP % "002")
    ran_at("krait", KEEP % "krait")
    ran_at("mcp-sandbox", KEEP % "004")
    executor("execute_python", code=KEEP % "003")
    equal(executor("execute_python", code=LOOK), "003\n")
    equal(executor("reset_sandbox"), "Sandbox environment has been reset successfully.")
    equal(executor("execute_python", code=LOOK), "False\n")
    # its session was not ended, either
    equal(said(at("sandbox-mcp"), LOOK + "; print(y)", session_id="reset"), "000\n7\n")
    equal([service(LOOK), ran_at("krait", LOOK), ran_at("mcp-sandbox", LOOK)], ["002\n", "krait\n", "004\n"])


@check
def resetting_kraits_default_empties_no_documents():
    executor("execute_python", code=KEEP % "003 again")
    ran_at("krait", KEEP % "krait again")
    equal(at("krait").post("/api/v1/sandboxes/default/reset").status, 200)
    equal([executor("execute_python", code=LOOK), ran_at("krait", LOOK)], ["003 again\n", "False\n"])


@check
def an_mcp_client_that_asks_for_a_dialect_has_its_sandbox_and_limits():
    executor("execute_python", code=KEEP % "by /sse")
    with Http(at("krait").port, "/mcp?dialect=python-executor") as c:
        equal(c.text("execute_python", {"code": LOOK}), "by /sse\n")
        equal(c.text("execute_python", {"code": "x = bytearray(1500 << 20); print('held')"}), "held\n")
        c.tool("reset_sandbox", {})
    equal(executor("execute_python", code=LOOK), "False\n")


@check
def krait_mcp_has_the_sandbox_of_its_dialect_joined_or_not():
    """An agent's files do not depend on whether a server runs, nor on whose dialect it has."""
    executor("execute_python", code=KEEP % "by the server")
    ran_at("krait", KEEP % "by krait")
    argv = [os.path.abspath(KRAIT), "mcp", "--data", os.path.join(server().data, "data"),
            "--dialect", "python-executor"]
    with Stdio(argv) as joined, Stdio([*argv, "--no-join", "--preload", "basic"]) as alone:
        for c in (joined, alone):
            equal(c.text("execute_python", {"code": LOOK}), "by the server\n")
    with Stdio(argv[:-2]) as own:
        equal(own.text("execute_python", {"code": LOOK}).splitlines()[0], "by krait")


@check
def defaults_keep_their_names_and_are_listed_by_krait_alone():
    service("pass"), ran_at("krait", "pass")
    names = [one["name"] for one in at("krait").get("/api/v1/sandboxes").json()["sandboxes"]]
    assert {"default", "default@sandbox-service"} <= set(names), names
    equal(at("krait").run(LOOK, sandbox="default@sandbox-service", fresh=True)["stdout"], service(LOOK))
    with Sse(at("mcp-sandbox").port) as c:
        equal([one["name"] for one in json.loads(c.text("list_sandboxes")) if one["name"].startswith("default")], [])
    for name in ("default", "default@sandbox-service"):
        equal(at("krait").delete(f"/api/v1/sandboxes/{name}").status, 409)
        equal(at("krait").patch(f"/api/v1/sandboxes/{name}", {"name": "mine"}).status, 409)
    equal(at("krait").post("/api/v1/sandboxes", {"name": "default@mine"}).status, 400)


# ---- data from before -------------------------------------------------------------------------


def forget_dialects(data: str) -> int:
    """Makes the store what it was before each dialect had a default sandbox of its own. How many were renamed."""
    with sqlite3.connect(next(Path(data).rglob("krait.db"))) as db:
        db.execute("DELETE FROM settings WHERE key = 'default_sandboxes'")
        return db.execute("UPDATE sandboxes SET name = 'default' WHERE name GLOB 'default@*'").rowcount


@check
def files_from_before_stay_with_the_servers_own_dialect():
    for dialect, stored in (("sandbox-service", 1), ("krait", 0)):
        with tempfile.TemporaryDirectory(prefix="krait-test-") as data:
            os.chmod(data, 0o755)
            how = {"data": data, "args": ["--dialect", dialect, "--pool-size", "0"]}
            with Server(**how) as s:
                s.run(KEEP % "before", sandbox="default", fresh=True)
            equal(forget_dialects(data), stored)
            for _ in range(2):  # the second start changes nothing
                with Server(**how) as s:
                    equal(s.run(LOOK, sandbox="default", fresh=True)["stdout"], "before\n")
            with Server(data=data, args=["--dialect", "python-executor", "--pool-size", "0"]) as s:
                equal(s.run(LOOK, sandbox="default", fresh=True)["stdout"], "False\n")


main()
