#!/usr/bin/python3
"""Security events: what code was refused and which limits it hit, as a row, a line of the log and a figure; the list
over REST and MCP with its filters, users kept apart, retention. Rows of many are written into the store by the checks;
the others are of code that was refused."""
import contextlib
import os
import sqlite3
import sys
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal
from krait_server import Server, data_folder
from mcp import Http
from serving import eventually, kept, main

KEY = "an-administrators-key-of-the-tests"
LIST = "/api/v1/security-events"
COLUMNS = ("id", "owner", "sandbox", "run", "at", "kind", "rule", "line", "count", "text")


def server() -> Server:
    return kept(env={"API_KEY": KEY}, args=["--require-auth", "--max-network", "open"], key=KEY)


def database(s: Server) -> contextlib.closing:
    return contextlib.closing(sqlite3.connect(os.path.join(s.data, "data/krait.db"), timeout=30))


def put_rows(s: Server, rows: list) -> None:
    """Each is a dict of columns that differ from the usual."""
    usual = dict(owner="root", sandbox="", run="", at=time.time_ns() // 1000, kind="policy", rule="P101", line=1,
                 count=1, text="Import 'os' is not allowed")
    with database(s) as db, db:
        first = db.execute("SELECT ifnull(max(n), 0) FROM security_events").fetchone()[0]
        for i, row in enumerate(rows):
            whole = {**usual, "id": "%026d" % (first + i), **row}
            db.execute("INSERT INTO security_events (%s) VALUES (%s)" % (
                ", ".join(COLUMNS), ", ".join("?" * len(COLUMNS))), [whole[name] for name in COLUMNS])


def stored(s: Server) -> int:
    with database(s) as db:
        return db.execute("SELECT count(*) FROM security_events").fetchone()[0]


def new_user(s: Server, name: str) -> tuple:
    made = s.post("/api/v1/users", {"name": name, "rights": ["read", "run"]})
    equal(made.status, 201, made.text)
    return made.json()["user_id"], s.post("/api/v1/keys", {"user": made.json()["user_id"]}).json()["key"]


def new_sandbox(s: Server, key: str, **settings: object) -> str:
    made = s.post("/api/v1/sandboxes", settings, key=key)
    equal(made.status, 201, made.text)
    return made.json()["sandbox_id"]


def listed(s: Server, query: str = "", key=None) -> list:
    reply = s.get(LIST + query, key=key)
    equal(reply.status, 200, reply.text)
    return reply.json()["events"]


def run(s: Server, code: str, key=None, **more: object) -> dict:
    reply = s.post("/api/v1/runs", {"code": code, "stream": False, "fresh": True, **more}, key=key)
    equal(reply.status, 200, reply.text)
    return reply.json()


def events_of(s: Server, ran: dict, key=None) -> list:
    return [(row["kind"], row["rule"], row["line"], row["count"]) for row in listed(s, "?run_id=" + ran["run_id"], key)]


def figure(s: Server, name: str) -> float:
    return sum(float(line.split()[-1]) for line in s.get("/metrics").text.splitlines() if line.startswith(name))


# ---- of code that was refused ----


@check
def a_refused_file_is_an_event() -> None:
    s = server()
    user, key = new_user(s, "files")
    box = new_sandbox(s, key)
    ran = run(s, "x = 1\nopen('/etc/krait-was-here', 'w')", key, sandbox_id=box, fresh=False)
    equal(ran["cause"], "exception", str(ran))
    (row,) = listed(s, "?run_id=" + ran["run_id"], key)
    at, name, text = row.pop("at"), row.pop("rule"), row.pop("text")
    assert abs(time.time() - at) < 600, at
    assert name in ("EACCES", "EPERM", "EROFS"), name
    contains(text, "/etc/krait-was-here")
    equal({k: v for k, v in row.items() if k != "event_id"},
          {"user_id": user, "sandbox_id": box, "run_id": ran["run_id"], "kind": "permission", "line": 2, "count": 1})
    for harmless in ("try:\n    open('/etc/krait-was-here', 'w')\nexcept OSError:\n    pass",  # survived
                     "raise PermissionError(13, 'a lie')", "1 / 0", "open('/nowhere')", "print(1)"):
        equal(events_of(s, run(s, harmless, key), key), [], harmless)


@check
def a_call_that_the_filter_ends_is_an_event() -> None:
    s = server()
    _, key = new_user(s, "calls")
    ran = run(s, "import os, signal\nos.kill(os.getpid(), signal.SIGSYS)", key)
    equal((ran["cause"], events_of(s, ran, key)), ("denied", [("syscall", "seccomp", None, 1)]))


@check
def limits_that_were_hit_are_events() -> None:
    s = server()
    _, key = new_user(s, "limits")
    ran = run(s, "\nwhile True: pass", key, timeout=0.5)
    equal(ran["cause"], "timeout", str(ran))
    (row,) = listed(s, "?run_id=" + ran["run_id"], key)
    equal((row["kind"], row["rule"]), ("limit", "timeout"))
    contains(row["text"], "timeout after")
    ran = run(s, "print('x' * 100000)", key, max_output=1000)
    equal((ran["cause"], events_of(s, ran, key)), ("ok", [("limit", "output", None, 1)]))
    ran = run(s, "\nx = bytearray(1 << 45)", key)
    equal((ran["cause"], events_of(s, ran, key)), ("memory_limit", [("limit", "memory", 2, 1)]))


GET = """
import os, urllib.request, urllib.error
def get(url):
    try:
        return urllib.request.urlopen(url, timeout=60).status
    except urllib.error.HTTPError as e:
        return e.code
"""


@check
def refused_connections_are_one_event_with_their_number() -> None:
    s = server()
    user, key = new_user(s, "net")
    box = new_sandbox(s, key, network="allow:files.example")
    before = figure(s, 'krait_security_events_total{kind="egress"}')
    ran = run(s, GET + "print({get('http://other.example/%d' % i) for i in range(200)})", key, sandbox_id=box)
    equal(ran["stdout"], "{403}\n", str(ran))
    rows = listed(s, "?run_id=" + ran["run_id"], key)
    equal({(row["kind"], row["rule"], row["sandbox_id"], row["user_id"]) for row in rows},
          {("egress", "denied", box, user)})
    equal(sum(row["count"] for row in rows), 200)
    assert len(rows) < 200 and rows[0]["text"].startswith("other.example:80: "), rows[:2]
    equal(figure(s, 'krait_security_events_total{kind="egress"}') - before, 200)


@check
def it_is_counted_and_a_line_of_the_log() -> None:
    with data_folder() as data, Server(data=data) as s:
        before = figure(s, 'krait_security_events_total{kind="permission"}')
        runs = [run(s, "open('/etc/krait-was-here', 'w')", fresh=False)["run_id"] for _ in range(15)]
        equal(figure(s, 'krait_security_events_total{kind="permission"}') - before, 15)
        equal(figure(s, "krait_security_events_dropped_total"), 0)
        equal(len(listed(s)), 15)
        lines = [line for line in s.log_text().splitlines() if "security event" in line]
        equal(len(lines), 10, "lines of one user in a minute")
        for line, name in zip(lines, runs):
            for part in ("kind=permission", "run=" + name, "line=1", "user=root"):
                contains(line, part)
        equal(s.stop(), 0)
        with Server(data=data) as again:
            equal(len(listed(again)), 15)  # rows outlive the server


# ---- the list ----


@check
def filters_and_pages() -> None:
    s = server()
    user, key = new_user(s, "pages")
    one, two = new_sandbox(s, key), new_sandbox(s, key)
    put_rows(s, [dict(owner=user, sandbox=two if i % 2 else one, run="run7" if i % 3 == 0 else "",
                      kind="limit" if i % 5 == 0 else "policy", rule="memory" if i % 5 == 0 else "P101",
                      at=time.time_ns() // 1000 - (40 - i) * 60_000_000) for i in range(30)])
    now = time.time()
    equal(len(listed(s, key=key)), 30)
    times = [row["at"] for row in listed(s, key=key)]
    equal(times, sorted(times, reverse=True))
    for query, count in (("sandbox_id=" + one, 15), ("run_id=run7", 10), ("kind=limit", 6), ("rule=P101", 24),
                         ("kind=limit&sandbox_id=" + one, 3), ("kind=limit&rule=P101", 0), ("kind=syscall", 0),
                         ("since=%d" % (now - 20 * 60 - 30), 10), ("until=%d" % (now - 20 * 60 - 30), 20)):
        equal(len(listed(s, "?" + query, key)), count, query)
    seen, after = [], ""
    while True:
        reply = s.get(LIST + "?limit=7" + after, key=key).json()
        seen += [row["event_id"] for row in reply["events"]]
        if not reply["next"]:
            break
        after = "&after=" + reply["next"]
    equal((len(seen), len(set(seen))), (30, 30))
    for query, named in (("?kind=fine", "kind"), ("?limit=0", "limit"), ("?after=x", "after"), ("?since=never", "since"),
                         ("?sandbox=x", "sandbox")):
        reply = s.get(LIST + query, key=key)
        equal((reply.status, reply.json()["error"]["field"]), (400, named), reply.text)


@check
def another_user_sees_none_of_it() -> None:
    s = server()
    (ada, ada_key), (eve, eve_key) = new_user(s, "ada"), new_user(s, "eve")
    box = new_sandbox(s, ada_key)
    put_rows(s, [dict(owner=ada, sandbox=box, run="adasrun")])
    equal(len(listed(s, "?user_id=" + ada, ada_key)), 1)  # the control
    for query in ("", "?sandbox_id=" + box, "?run_id=adasrun", "?kind=policy", "?rule=P101", "?user_id=" + eve):
        equal(listed(s, query, eve_key), [], query)
    refused = s.get(LIST + "?user_id=" + ada, key=eve_key)
    equal((refused.status, refused.json()["error"]["kind"]), (403, "forbidden"))
    equal([row["user_id"] for row in listed(s, "?user_id=" + ada)], [ada])  # an administrator
    contains({row["user_id"] for row in listed(s, "?limit=500")}, ada)
    equal(s.get(LIST, key="").status, 401)
    runner = s.post("/api/v1/keys", {"user": ada, "rights": ["run"]}).json()["key"]
    equal(s.get(LIST, key=runner).status, 403)


@check
def mcp_has_them_as_a_tool_that_is_not_listed() -> None:
    s = server()
    (ada, ada_key), (_, eve_key) = new_user(s, "mcp-ada"), new_user(s, "mcp-eve")
    put_rows(s, [dict(owner=ada, line=i + 1) for i in range(60)])
    with Http(s.port, "/mcp", key=ada_key) as a, Http(s.port, "/mcp", key=eve_key) as e:
        assert "list_security_events" not in [tool["name"] for tool in a.call("tools/list")["tools"]]
        found = a.tool("list_security_events", limit=7)
        contains(found["content"][0]["text"], '"rule":"P101"')
        contains(found["content"][0]["text"], '"next":"')
        equal(a.tool("list_security_events", kind="limit")["content"][0]["text"], '{"events":[],"next":null}')
        equal(e.tool("list_security_events")["content"][0]["text"], '{"events":[],"next":null}')
        assert e.tool("list_security_events", user_id=ada)["isError"]
        assert not a.tool("list_security_events", user_id=ada).get("isError")  # the control


@check
def rows_outlive_their_sandbox_and_go_with_their_user() -> None:
    s = server()
    user, key = new_user(s, "gone")
    box = new_sandbox(s, key)
    put_rows(s, [dict(owner=user, sandbox=box) for _ in range(150)])
    equal(s.request("DELETE", "/api/v1/sandboxes/" + box, key=key).status, 204)
    equal(len(listed(s, "?limit=500&sandbox_id=" + box, key)), 150)
    equal(s.delete("/api/v1/users/" + user).status, 204)
    equal(listed(s, "?sandbox_id=" + box), [])


@check
def security_rows() -> None:
    """The oldest of the user with the most go; those of one with few stay, but for retention."""
    with data_folder() as data, Server(data=data, env={"API_KEY": KEY}, key=KEY,
                                       args=["--require-auth", "--cleanup-interval", "1s", "--security-rows", "100"]) as s:
        (many, many_key), (few, few_key) = new_user(s, "many"), new_user(s, "few")
        now = time.time_ns() // 1000
        put_rows(s, [dict(owner=few, at=now - 500_000_000 + i) for i in range(20)] +
                 [dict(owner=few, at=1_700_000_000_000_000)] +
                 [dict(owner=many, at=now - 400_000_000 + i) for i in range(300)])
        eventually(lambda: stored(s) == 100, 60, "the rows past the setting are removed")
        equal((len(listed(s, "?limit=500", few_key)), len(listed(s, "?limit=500", many_key))), (20, 80))
    with data_folder() as data, Server(data=data, env={"API_KEY": KEY}, key=KEY,
                                       args=["--require-auth", "--cleanup-interval", "1s"]) as s:
        put_rows(s, [dict()] * 300 + [dict(at=1_700_000_000_000_000)])
        eventually(lambda: stored(s) == 300, 60, "retention removed the old one")  # the control: the usual setting


main()
