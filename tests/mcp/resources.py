#!/usr/bin/python3
"""Resources: lists, templates, reading of files, folders, sessions and runs, updates; what is not there, and what is
another's, is not found in the same words."""
import base64
import json
import sys
import time
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
from check import check, contains, equal  # noqa: E402
from krait_server import Server  # noqa: E402
from mcp import LEGACY, MODERN, Http, RpcError, Sse  # noqa: E402
from serving import kept, main  # noqa: E402


def server() -> Server:
    return kept()


def users() -> Server:
    return kept(args=["--dialect", "mcp-sandbox", "--require-auth"])


def client(**how) -> Http:
    return Http(server().port, **how)


def new_sandbox(c, *code: str) -> str:
    box = json.loads(c.tool("create_sandbox")["content"][0]["text"])["sandbox_id"]
    for one in code:
        assert not c.tool("execute_python", sandbox_id=box, code=one).get("isError"), one
    return box


def read(c, uri: str) -> dict:
    contents = c.call("resources/read", {"uri": uri})["contents"]
    equal((len(contents), contents[0]["uri"]), (1, uri))
    return contents[0]


def error_of(c, uri) -> RpcError:
    try:
        got = c.call("resources/read", {"uri": uri})
    except RpcError as e:
        return e
    raise AssertionError("%r was read: %r" % (uri, str(got)[:200]))


def uris(c) -> list:
    return [one["uri"] for one in c.call("resources/list")["resources"]]


@check
def files_sessions_and_runs_are_listed():
    with client() as c:
        box = new_sandbox(c, "open('old','w').write('1')",
                          "import os\nos.makedirs('d')\nopen('d/new & 图.csv','w').write('a,b')")
        items = c.call("resources/list")["resources"]
        by_uri = {one["uri"]: one for one in items}
        equal(items[0]["uri"], "krait://guide")
        new = "sandbox://%s/%s" % (box, quote("d/new & 图.csv"))
        old = "sandbox://%s/old" % box
        equal((by_uri[new]["name"], by_uri[new]["mimeType"], by_uri[new]["size"]), ("d/new & 图.csv", "text/csv", 3))
        order = [one["uri"] for one in items]
        assert order.index(new) < order.index(old), "the last changed first"
        assert any(u.startswith("session://mcp-") for u in order) and any(u.startswith("run://") for u in order), order
        for uri in order:
            read(c, uri)  # whatever is listed can be read
        try:
            c.call("resources/list", {"cursor": "x"})
        except RpcError as e:
            equal(e.code, -32602)
        else:
            raise AssertionError("a cursor that is none of ours was taken")


@check
def the_list_is_bounded():
    with client() as c:
        new_sandbox(c, "for i in range(400): open('%03d' % i, 'w').close()")
        files = [u for u in uris(c) if u.startswith("sandbox://")]
        equal(len(files), 200)


@check
def templates_are_listed():
    with client() as c:
        listed = c.call("resources/templates/list")["resourceTemplates"]
        equal([one["uriTemplate"] for one in listed],
              ["sandbox://{sandbox}/{+path}", "session://{session_id}", "run://{run_id}"])


@check
def files_are_read_as_they_are():
    with client() as c:
        box = new_sandbox(c, "open('t.json','w').write('{\"ü\": 1}')\nopen('b','wb').write(bytes(range(256)))\n"
                             "open('none','w').close()\nopen(b'bad\\xff','w').write('x')\nimport os\n"
                             "os.makedirs('d/e')\n"
                             "open('esc','w').write('\\x1b' * 2_000_000)")
        text = read(c, "sandbox://%s/t.json" % box)
        equal((text["mimeType"], text["text"]), ("application/json", '{"ü": 1}'))
        equal(base64.b64decode(read(c, "sandbox://%s/b" % box)["blob"]), bytes(range(256)))
        equal(read(c, "sandbox://%s/none" % box)["text"], "")
        equal(read(c, "sandbox://%s/bad%%FF" % box)["text"], "x")
        # as text it would be 12 MB
        equal(base64.b64decode(read(c, "sandbox://%s/esc" % box)["blob"]), b"\x1b" * 2_000_000)
        folder = json.loads(read(c, "sandbox://%s/d" % box)["text"])
        equal([(one["path"], one["type"]) for one in folder["files"]], [("d/e", "folder")])
        contains(read(c, "sandbox://%s/" % box)["text"], "t.json")
        c.tool("execute_python", code="open('in_default','w').write('y')")
        equal(read(c, "sandbox://default/in_default")["text"], "y")


@check
def what_is_not_there_is_not_found():
    for rev in (*LEGACY[1:], MODERN):
        with client(rev=rev) as c:
            box = new_sandbox(c,
                              "import os\nos.symlink('/etc/passwd','l')\nos.mkfifo('p')\nopen('f','w').write('x')\n"
                              "os.symlink('.','here')")
            code = -32602 if rev == MODERN else -32002
            for uri in ("sandbox://%s/nothing" % box, "sandbox://%s/../f" % box, "sandbox://%s/%%2e%%2e/f" % box,
                        "sandbox://%s/l" % box, "sandbox://%s/p" % box, "sandbox://%s/here/f" % box,
                        "sandbox://%s/f/g" % box,
                        "sandbox://%s/%%zz" % box, "sandbox://%s/%%00" % box, "sandbox://%s/f?x=1" % box, "sandbox://",
                        "sandbox:///f",
                        "sandbox://nobodys/f", "session://never", "session://a/b", "run://never", "run://" + "0" * 26,
                        "krait://other", "file:///etc/passwd", "",
                        *(() if rev == MODERN else ("x" * 20000, "sandbox://" + "x" * 17000))):
                e = error_of(c, uri)
                equal((e.code, e.data), (code, {"uri": uri}), rev + " " + uri[:60])
            for wrong in (5, None, ["a"], {}):
                try:
                    c.call("resources/read", {"uri": wrong})
                except RpcError as e:
                    equal(e.code, -32602)
                else:
                    raise AssertionError("%r was read" % wrong)
            equal(read(c, "sandbox://%s/f" % box)["text"], "x")


@check
def a_huge_file_is_refused_with_the_way_to_it():
    with client() as c:
        box = new_sandbox(c, "open('h','wb').truncate(200_000_000)\nopen('fits','wb').truncate(3 << 20)")
        e = error_of(c, "sandbox://%s/h" % box)
        equal((e.code, e.data["size"]), (-32602, 200_000_000))
        contains(e.message, "read_file")
        equal(len(base64.b64decode(read(c, "sandbox://%s/fits" % box)["blob"])), 3 << 20)


@check
def sessions_and_runs_are_told():
    with client() as c:
        box = new_sandbox(c)
        c.tool("execute_python", sandbox_id=box, session_id="a name with ümlaut", code="print('seen'); 1 / 0")
        uri = "session://" + quote("a name with ümlaut", safe="")
        assert uri in uris(c)
        session = json.loads(read(c, uri)["text"])
        equal((session["session_id"], session["sandbox_id"], session["execution_count"]),
              ("a name with ümlaut", box, 1))
        run = next(json.loads(read(c, u)["text"]) for u in uris(c) if u.startswith("run://"))
        equal((run["stdout"], run["cause"], run["session_id"], run["still_running"]),
              ("seen\n", "exception", "a name with ümlaut", False))


@check
def a_run_that_goes_on_can_be_read():
    with client() as c:
        box = new_sandbox(c)
        pending = c.begin("tools/call", {"name": "execute_python", "arguments": {
            "sandbox_id": box, "code": "import time\nprint('begun', flush=True)\ntime.sleep(30)"}})
        deadline = time.monotonic() + 20
        while True:
            told = [json.loads(read(c, u)["text"]) for u in uris(c)[:260] if u.startswith("run://")][:1]
            if told and told[0].get("stdout") == "begun\n":
                break
            assert time.monotonic() < deadline, told
            time.sleep(0.1)
        equal(told[0]["still_running"], True)
        pending.cancel()


@check
def subscribers_hear_of_changes_by_id_and_by_name():
    with client() as c:
        box = json.loads(c.tool("create_sandbox", {"name": "watched"})["content"][0]["text"])["sandbox_id"]
        c.stream()
        for uri in ("sandbox://%s/by_id" % box, "sandbox://watched/by_name", "sandbox://%s/sent" % box):
            c.call("resources/subscribe", {"uri": uri})
        c.tool("execute_python", sandbox_id=box, code="for n in ('by_id', 'by_name', 'other'): open(n, 'w').write('x')")
        c.tool("upload_file_to_sandbox", sandbox_id=box, path="sent", content="x")
        heard = {note["uri"] for note in c.noted("notifications/resources/updated", count=3)}
        equal(heard, {"sandbox://%s/by_id" % box, "sandbox://watched/by_name", "sandbox://%s/sent" % box})
        c.call("resources/unsubscribe", {"uri": "sandbox://%s/by_id" % box})
        c.notes.clear()
        c.tool("execute_python", sandbox_id=box, code="for n in ('by_id', 'by_name'): open(n, 'w').write('yy')")
        equal([note["uri"] for note in c.noted("notifications/resources/updated", count=1)],
              ["sandbox://watched/by_name"])


@check
def clients_hear_that_files_came_or_went():
    """Once for what happens within a moment; not of a file that only changed."""
    said = "notifications/resources/list_changed"
    with client() as c, Sse(server().port) as other:
        c.stream()
        listen = Http(server().port, rev=MODERN).begin(
            "subscriptions/listen", {"notifications": {"resourcesListChanged": True}})
        listen.client.noted("notifications/subscriptions/acknowledged")
        for n, act in enumerate((lambda: c.tool("execute_python", code="for i in range(9): open('n%d' % i, 'w')"),
                                 lambda: c.tool("execute_python", code="import os; os.remove('n0')"),
                                 lambda: c.tool("upload_file_to_sandbox", path="sent", content="x"),
                                 lambda: server().request("DELETE", "/api/v1/sandboxes/default/files/sent"),
                                 lambda: c.tool("execute_terminal_command", command="touch made")), 1):
            act()
            for one in (c, other, listen.client):
                equal(len(one.noted(said, count=n)), n)
        c.tool("execute_python", code="open('n1', 'a').write('y')")  # it was there before
        c.tool("execute_python", code="open('last', 'w')")
        for one in (c, other, listen.client):
            equal(len(one.noted(said, count=n + 1)), n + 1)
        listen.cancel()


@check
def runs_over_rest_are_heard_of_too():
    with client() as c:
        c.stream()
        c.call("resources/subscribe", {"uri": "sandbox://default/from_rest"})
        c.call("resources/subscribe", {"uri": "session://resty"})
        server().run("open('from_rest','w').write('x')", session_id="resty")
        heard = {note["uri"] for note in c.noted("notifications/resources/updated", count=2)}
        equal(heard, {"sandbox://default/from_rest", "session://resty"})
        for method, body in (("PUT", b"new"), ("DELETE", None)):
            c.notes.clear()
            server().request(method, "/api/v1/sandboxes/default/files/from_rest", body)
            equal([note["uri"] for note in c.noted("notifications/resources/updated")], ["sandbox://default/from_rest"],
                  method)


@check
def nothing_of_anothers_is_listed_or_read_or_heard():
    keys = []
    for name in ("ada", "eve"):
        body = {"username": name, "email": name + "@example.org", "password": "correct horse battery"}
        keys.append(users().post("/api/register", body).json()["api_key"])
    path = "/mcp?dialect=krait"
    with Http(users().port, path, key=keys[0]) as a, Http(users().port, path, key=keys[1]) as e:
        box = new_sandbox(a)
        e.stream()
        e.call("resources/subscribe", {"uri": "sandbox://%s/s" % box})
        a.tool("execute_python", sandbox_id=box, session_id="hers", code="open('s','w').write('secret')")
        mine = [u for u in uris(a) if not u.startswith("krait://")]
        assert len(mine) >= 3, mine
        for uri in mine:
            read(a, uri)
            error = error_of(e, uri)
            equal((error.code, error.data), (-32002, {"uri": uri}), uri)
        equal(uris(e), ["krait://guide", "krait://connections"])
        time.sleep(0.3)
        equal([n for n in e.notes if "updated" in json.dumps(n)], [])


@check
def the_oldest_transport_reads_them_too():
    with Sse(server().port) as c:
        contains(read(c, "krait://guide")["text"], "execute_python")
        assert "title" not in c.call("resources/list")["resources"][0], "2024-11-05 has no titles"


main()
