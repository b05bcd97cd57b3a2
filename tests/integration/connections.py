#!/usr/bin/python3
"""Connections to the outside as their owner sees them: the list over REST with its filters, users kept apart,
retention, what goes with a sandbox and a user, krait://connections over MCP. Most rows are written into the store by the
checks; the last ones are of code that connects, with what the audit log and the metrics have of it."""
import contextlib
import json
import os
import sqlite3
import sys
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal
from file_host import DATA, serve_files
from krait_server import Server, data_folder
from mcp import Http
from serving import eventually, kept, main

KEY = "an-administrators-key-of-the-tests"
LIST = "/api/v1/connections"
COLUMNS = ("id", "owner", "sandbox", "run", "at", "ms", "how", "method", "host", "verdict", "port", "address", "sent",
           "received", "status", "why")


def server() -> Server:
    return kept(env={"API_KEY": KEY}, args=["--require-auth"], key=KEY)


def put_rows(s: Server, rows: list) -> None:
    """Each is a dict of columns that differ from the usual."""
    now = time.time_ns() // 1000
    usual = dict(owner="root", sandbox="", run="", at=now, ms=250, how="connect", method="", host="files.example",
                 verdict="ok", port=443, address="192.0.2.7", sent=100, received=2000, status=0, why="")
    with contextlib.closing(sqlite3.connect(os.path.join(s.data, "data/krait.db"), timeout=30)) as db, db:
        first = db.execute("SELECT ifnull(max(n), 0) FROM connections").fetchone()[0]
        for i, row in enumerate(rows):
            whole = {**usual, "id": "%026d" % (first + i), **row}
            db.execute("INSERT INTO connections (%s) VALUES (%s)" % (", ".join(COLUMNS), ", ".join("?" * len(COLUMNS))),
                       [whole[name] for name in COLUMNS])


def stored(s: Server, where: str = "1") -> int:
    with contextlib.closing(sqlite3.connect(os.path.join(s.data, "data/krait.db"), timeout=30)) as db:
        return db.execute("SELECT count(*) FROM connections WHERE " + where).fetchone()[0]


def new_user(s: Server, name: str) -> tuple:
    made = s.post("/api/v1/users", {"name": name, "rights": ["read", "run"]})
    equal(made.status, 201, made.text)
    key = s.post("/api/v1/keys", {"user": made.json()["id"]}).json()["key"]
    return made.json()["id"], key


def new_sandbox(s: Server, key: str) -> str:
    made = s.request("POST", "/api/v1/sandboxes", {}, key=key)
    equal(made.status, 201, made.text)
    return made.json()["id"]


def listed(s: Server, query: str = "", key=None) -> list:
    reply = s.get(LIST + query, key=key)
    equal(reply.status, 200, reply.text)
    return reply.json()["connections"]


@check
def a_row_says_what_happened() -> None:
    s = server()
    user, key = new_user(s, "row")
    box = new_sandbox(s, key)
    put_rows(s, [dict(owner=user, sandbox=box, run="r" * 26, how="http", method="GET", host="a.example", port=80,
                      verdict="denied", status=403, address="", why="a.example is not in the sandbox's network")])
    (row,) = listed(s, key=key)
    at = row.pop("at")
    assert abs(time.time() - at) < 600, at
    equal({k: v for k, v in row.items() if k != "connection_id"},
          {"user_id": user, "sandbox_id": box, "run_id": "r" * 26, "seconds": 0.25, "how": "http", "method": "GET",
           "host": "a.example", "port": 80, "address": None, "sent_bytes": 100, "received_bytes": 2000, "status": 403,
           "verdict": "denied", "why": "a.example is not in the sandbox's network", "secrets": []})


@check
def filters_and_pages() -> None:
    s = server()
    user, key = new_user(s, "pages")
    one, two = new_sandbox(s, key), new_sandbox(s, key)
    put_rows(s, [dict(owner=user, sandbox=two if i % 2 else one, run="run-7" if i % 3 == 0 else "",
                      verdict="denied" if i % 5 == 0 else "ok", at=1_700_000_000_000_000 + i * 1_000_000 * 3600)
                 for i in range(30)])  # retention is at the next upkeep: a minute
    equal(len(listed(s, key=key)), 30)
    times = [row["at"] for row in listed(s, key=key)]
    equal(times, sorted(times, reverse=True))
    equal(len(listed(s, "?sandbox_id=" + one, key)), 15)
    equal(len(listed(s, "?run_id=run-7", key)), 10)
    equal(len(listed(s, "?verdict=denied", key)), 6)
    equal(len(listed(s, "?verdict=denied&sandbox_id=" + one, key)), 3)
    equal(len(listed(s, "?since=%d" % (1_700_000_000 + 20 * 3600), key)), 10)
    equal(len(listed(s, "?until=%d" % (1_700_000_000 + 20 * 3600), key)), 20)
    seen, after = [], ""
    while True:
        reply = s.get(LIST + "?limit=7" + after, key=key).json()
        seen += [row["connection_id"] for row in reply["connections"]]
        if not reply["next"]:
            break
        after = "&after=" + reply["next"]
    equal((len(seen), len(set(seen))), (30, 30))
    for query, named in (("?verdict=fine", "verdict"), ("?limit=0", "limit"), ("?after=x", "after"),
                         ("?since=never", "since"), ("?sandbox=x", "sandbox")):
        reply = s.get(LIST + query, key=key)
        equal((reply.status, reply.json()["error"]["field"]), (400, named), reply.text)


@check
def another_user_sees_none_of_it() -> None:
    s = server()
    (ada, ada_key), (eve, eve_key) = new_user(s, "ada"), new_user(s, "eve")
    box = new_sandbox(s, ada_key)
    put_rows(s, [dict(owner=ada, sandbox=box, run="adas-run", verdict="denied")])
    equal(len(listed(s, key=ada_key)), 1)
    equal(len(listed(s, "?user_id=" + ada, ada_key)), 1)  # the control
    for query in ("", "?sandbox_id=" + box, "?run_id=adas-run", "?verdict=denied", "?user_id=" + eve):
        equal(listed(s, query, eve_key), [], query)
    refused = s.get(LIST + "?user_id=" + ada, key=eve_key)
    equal((refused.status, refused.json()["error"]["kind"]), (403, "forbidden"))
    equal([row["user_id"] for row in listed(s, "?user_id=" + ada)], [ada])  # an administrator
    assert {ada} <= {row["user_id"] for row in listed(s, "?limit=500")}, "all users, for an administrator"
    equal(s.get(LIST, key="").status, 401)
    reader = s.post("/api/v1/keys", {"user": ada, "rights": ["run"]}).json()["key"]
    equal(s.get(LIST, key=reader).status, 403)


@check
def mcp_has_them_as_a_resource() -> None:
    s = server()
    (ada, ada_key), (_, eve_key) = new_user(s, "mcp-ada"), new_user(s, "mcp-eve")
    box = new_sandbox(s, ada_key)
    put_rows(s, [dict(owner=ada, sandbox=box, host="n%d.example" % i) for i in range(103)])
    with Http(s.port, "/mcp", key=ada_key) as a, Http(s.port, "/mcp", key=eve_key) as e:
        contains([one["uri"] for one in a.call("resources/list")["resources"]], "krait://connections")
        found = json.loads(a.call("resources/read", {"uri": "krait://connections"})["contents"][0]["text"])
        equal((len(found["connections"]), found["more"]), (100, True))
        equal({row["user_id"] for row in found["connections"]}, {ada})
        found = json.loads(e.call("resources/read", {"uri": "krait://connections"})["contents"][0]["text"])
        equal(found, {"connections": [], "more": False})


@check
def rows_go_with_their_sandbox_and_their_user() -> None:
    with data_folder() as data, Server(data=data, env={"API_KEY": KEY}, key=KEY,
                                       args=["--require-auth", "--cleanup-interval", "1s"]) as s:
        user, key = new_user(s, "gone")
        one, two = new_sandbox(s, key), new_sandbox(s, key)
        put_rows(s, [dict(owner=user, sandbox=two if i % 2 else one) for i in range(400)])
        equal(s.request("DELETE", "/api/v1/sandboxes/" + one, key=key).status, 204)
        equal({row["sandbox_id"] for row in listed(s, "?limit=500", key)}, {two})  # at once
        eventually(lambda: stored(s) == 200, 30, "the rows of the deleted sandbox are removed")
        equal(s.delete("/api/v1/users/" + user).status, 204)
        equal((stored(s), listed(s)), (0, []))


@check
def rows() -> None:
    """The oldest of the user with the most go; those of one with few stay, but for retention."""
    with data_folder() as data, Server(data=data, env={"API_KEY": KEY}, key=KEY,
                                       args=["--require-auth", "--cleanup-interval", "1s", "--egress-rows", "100"]) as s:
        (many, many_key), (few, few_key) = new_user(s, "many"), new_user(s, "few")
        now = time.time_ns() // 1000
        put_rows(s, [dict(owner=few, at=now - 500_000_000 + i) for i in range(20)] +
                 [dict(owner=few, at=1_700_000_000_000_000)] +
                 [dict(owner=many, at=now - 400_000_000 + i) for i in range(300)])
        eventually(lambda: stored(s) == 100, 30, "the rows past the setting are removed")
        equal((len(listed(s, "?limit=500", few_key)), len(listed(s, "?limit=500", many_key))), (20, 80))
        oldest = listed(s, "?limit=500", many_key)[-1]["at"]
        assert oldest >= (now - 400_000_000 + 220) / 1e6 - 0.001, (oldest, now)
    with data_folder() as data, Server(data=data, env={"API_KEY": KEY}, key=KEY,
                                       args=["--require-auth", "--cleanup-interval", "1s"]) as s:
        put_rows(s, [dict()] * 300)
        time.sleep(2.5)
        equal(stored(s), 300)  # the control: the usual setting


# ---- of code that connects ----

STUB = serve_files()
PORT = STUB.server_address[1]
HERE = "127.0.0.1:%d" % PORT
GET = """
import os, urllib.request, urllib.error
for name in ("no_proxy", "NO_PROXY"):  # 127.0.0.1 is the stub outside, not the cell's own
    os.environ.pop(name, None)
def get(url):
    try:
        with urllib.request.urlopen(url, timeout=20) as reply:
            reply.read()  # or the proxy sees that the client has closed it
            return reply.status
    except urllib.error.HTTPError as e:
        return e.code
"""


def open_server() -> Server:
    return kept(env={"API_KEY": KEY}, key=KEY,
                args=["--require-auth", "--max-network", "open", "--egress-private-hosts", HERE])


def reaching(s: Server, key=None) -> str:
    made = s.post("/api/v1/sandboxes", {"network": "allow:" + HERE}, key=key)
    equal(made.status, 201, made.text)
    return made.json()["id"]


def run(s: Server, box: str, code: str, key=None) -> dict:
    reply = s.post("/api/v1/runs", {"code": GET + code, "stream": False, "sandbox_id": box}, key=key)
    equal(reply.status, 200, reply.text)
    return reply.json()


@check
def a_runs_connections_are_listed_when_it_has_ended() -> None:
    s = open_server()
    box = reaching(s)
    ran = run(s, box, "print(get('http://%s/data.csv'))" % HERE)
    equal(ran["stdout"], "200\n", str(ran))
    (row,) = listed(s, "?run_id=" + ran["run_id"])
    equal((row["sandbox_id"], row["how"], row["method"], row["host"], row["port"], row["verdict"], row["status"]),
          (box, "http", "GET", "127.0.0.1", PORT, "ok", 200), str(row))
    assert row["received_bytes"] >= len(DATA) and row["sent_bytes"] > 0 and row["address"] == "127.0.0.1", row
    assert abs(time.time() - row["at"]) < 600, row


@check
def what_was_refused_is_in_the_audit_log_bounded() -> None:
    s = open_server()
    user, key = new_user(s, "refused")
    box = reaching(s, key)
    before = s.get("/metrics").text
    ran = run(s, box, "print({get('http://other.example/%d' % i) for i in range(200)})", key)
    equal(ran["stdout"], "{403}\n", str(ran))
    contains(ran["hint"], "other.example")
    rows = listed(s, "?limit=500&verdict=denied", key)
    equal((len(rows), {row["host"] for row in rows}, {row["run_id"] for row in rows}),
          (200, {"other.example"}, {ran["run_id"]}))
    assert all(row["why"] and row["address"] is None for row in rows), rows[0]
    audit = s.get("/api/v1/audit?limit=500&what=connection.refused", key=key).json()["rows"]
    equal((len(audit), {row["outcome"] for row in audit}, {row["object"] for row in audit}),
          (10, {"denied"}, {"other.example:80"}))
    equal({(row["detail"]["sandbox"], row["detail"]["run"]) for row in audit}, {(box, ran["run_id"])})

    def figure(text: str, name: str) -> float:
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))

    after = s.get("/metrics").text
    for name, count in (('krait_connections_total{how="http",verdict="denied"}', 200),
                        ("krait_connection_unaudited_total", 190), ("krait_connection_rows_dropped_total", 0)):
        equal(figure(after, name) - figure(before, name), count, name)
    equal(s.get("/api/v1/audit?what=connection.refused&user_id=" + user).json()["rows"][0]["user_id"], user)


@check
def open_ones_are_counted() -> None:
    with Server(args=["--max-network", "open", "--egress-private-hosts", HERE]) as s:
        box = reaching(s)

        def shown() -> float:
            lines = s.get("/metrics").text.splitlines()
            return next(float(line.split()[1]) for line in lines if line.startswith("krait_connections_open "))

        equal(shown(), 0)
        run(s, box, "import socket\nheld = [socket.create_connection(('127.0.0.1', 3128)) for _ in range(3)]")
        eventually(lambda: shown() == 3, 30, "three open connections")
        run(s, box, "for one in held: one.close()")
        eventually(lambda: shown() == 0, 30, "no open connection")


@check
def the_rest_of_the_refused_is_a_number_at_the_end() -> None:
    with data_folder() as data:
        with Server(data=data, args=["--max-network", "open", "--egress-private-hosts", HERE]) as s:
            run(s, reaching(s), "[get('http://other.example/') for _ in range(25)]")
            equal(s.stop(), 0)
        with Server(data=data) as s:
            audit = s.get("/api/v1/audit?what=connection.refused").json()["rows"]
            equal(len(audit), 11)
            equal((audit[0]["object"], audit[0]["detail"]), ("", {"refused": 25, "left_out": 15}))
            equal(len(listed(s, "?verdict=denied")), 25)  # rows outlive the server


@check
def two_users_that_connect_see_their_own() -> None:
    s = open_server()
    (ada, ada_key), (eve, eve_key) = new_user(s, "net-ada"), new_user(s, "net-eve")
    for key, name in ((ada_key, "adas"), (eve_key, "eves")):
        equal(run(s, reaching(s, key), "print(get('http://%s/%s'))" % (HERE, name), key)["stdout"], "200\n")
    equal({row["user_id"] for row in listed(s, "?limit=500", ada_key)}, {ada})
    equal({row["user_id"] for row in listed(s, "?limit=500", eve_key)}, {eve})
    equal(len(listed(s, "?user_id=" + ada)), 1)


main()
