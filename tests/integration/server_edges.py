#!/usr/bin/python3
"""What a server says at its edges: paths without a route, a full disk, names that no path could hold, figures of what
is there now, and a store whose log is moved while it runs."""
import ctypes
import gzip
import json
import os
import socket
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/lib"))
from check import Skip, check, contains, equal  # noqa: E402
from krait_server import Server  # noqa: E402
from serving import Stream, eventually, kept, main  # noqa: E402

RUNS, SANDBOXES, SESSIONS = "/api/v1/runs", "/api/v1/sandboxes", "/api/v1/sessions"
WAL_PAGES, PAGE = 1000, 4096
CLONE_NEWNS = 0x20000


def metric(s: Server, line: str) -> float:
    found = [one for one in s.get("/metrics").text.splitlines() if one.startswith(line + " ")]
    assert len(found) == 1, (line, found)
    return float(found[0].rsplit(" ", 1)[1])


@check
def what_the_engine_refuses_has_the_id_of_its_request():
    s = kept()
    for method, path, status in (("GET", "/api/v1/nowhere", 404), ("DELETE", RUNS, 405)):
        reply = s.request(method, path, headers={"X-Request-ID": "mine-1"})
        equal((reply.status, reply.header("x-request-id")), (status, "mine-1"))
        equal(reply.json()["error"]["request_id"], "mine-1")
        reply = s.request(method, path)
        assert reply.header("x-request-id"), reply.headers
        equal(reply.json()["error"]["request_id"], reply.header("x-request-id"))


def raw(s: Server, request: bytes) -> "tuple[int, dict[str, str], bytes]":
    """What comes back for these bytes: status, head, body."""
    with socket.create_connection(("127.0.0.1", s.port), timeout=20) as peer:
        peer.sendall(request)
        got = b""
        while True:
            piece = peer.recv(65536)
            if not piece:
                break
            got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    return int(lines[0].split()[1]), dict(line.lower().split(": ", 1) for line in lines[1:]), body


@check
def a_head_that_is_refused_has_the_shape_of_its_path():
    s = kept()
    for target, ours in (("/api/v1/runs?x=", True), ("/execute?x=", False)):
        for status, head in ((414, "GET %s%s HTTP/1.1\r\nHost: a\r\n\r\n" % (target, "a" * 9000)),
                             (431, "GET %s HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n" % (target, "a" * 17000)),
                             (400, "GET %s HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" % target)):
            got, _, body = raw(s, head.encode())
            equal((got, list(json.loads(body))), (status, ["error"] if ours else ["error", "detail"]))


@check
def a_method_that_a_path_lacks_is_405_and_allow_says_the_rest():
    s = kept()
    for method, path, allow in (("TRACE", RUNS, "GET, HEAD, POST, OPTIONS"), ("TRACE", "/health", "GET, HEAD, OPTIONS"),
                                ("QUERY", RUNS, "GET, HEAD, POST, OPTIONS"),
                                ("PROPFIND", "/", "GET, HEAD, POST, DELETE, OPTIONS"),
                                ("DELETE", "/api/v1/users/me", "GET, HEAD, OPTIONS"),
                                ("PATCH", "/api/v1/users/me", "GET, HEAD, OPTIONS"),
                                ("GET", "/mcp", "POST, DELETE, OPTIONS"), ("HEAD", "/mcp", "POST, DELETE, OPTIONS")):
        status, head, _ = raw(s, ("%s %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % (method, path)).encode())
        equal((status, head["allow"]), (405, allow.lower()), (method, path))
    _, head, _ = raw(s, b"OPTIONS /api/v1/users/root HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    equal(head["allow"], "get, head, patch, delete, options")
    equal(raw(s, b"BREW /api/v1/runs HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")[0], 501)


@check
def bodies_say_whether_they_take_unknown_fields():
    s = kept()
    document = s.get("/openapi.json").json()
    for path, closed, status in (("/api/v1/runs", True, 400), ("/api/v1/sandboxes", True, 400),
                                 ("/api/v1/execute", False, 200), ("/execute", False, 200)):
        body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        schema = document["components"]["schemas"][body["schema"]["$ref"].rsplit("/", 1)[1]]
        equal(schema.get("additionalProperties", True), not closed, path)
        given = {"name": "closed"} if path.endswith("sandboxes") else {"code": "1"}
        equal(s.post(path, {**given, "no_such_field": 1}).status, status, path)


@check
def http_1_0_needs_no_host_on_loopback():
    s = kept()
    equal(raw(s, b"GET /api/v1/info HTTP/1.0\r\n\r\n")[0], 200)
    equal(raw(s, b"GET /api/v1/info HTTP/1.0\r\nHost: evil.example.com\r\n\r\n")[0], 400)
    equal(raw(s, b"GET /api/v1/info HTTP/1.1\r\nConnection: close\r\n\r\n")[0], 400)


@check
def an_absolute_target_is_judged_by_its_host():
    s = kept()
    for host, named, status in (("localhost", "localhost", 200), ("localhost", "127.0.0.1", 400),
                                ("evil.example.com", "evil.example.com", 400), ("evil.example.com", "localhost", 400)):
        head = "GET http://%s/api/v1/info HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (host, named)
        equal(raw(s, head.encode())[0], status, "%s %s" % (host, named))


def ask(s: Server, line: str, body: bytes = b"", **head: str) -> "tuple[int, dict[str, str], bytes]":
    lines = "".join("%s: %s\r\n" % (name.replace("_", "-"), value) for name, value in head.items())
    return raw(s, ("%s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n"
                   "Content-Length: %d\r\n%s\r\n" % (line, len(body), lines)).encode() + body)


@check
def coded_bodies_are_taken_by_every_voice():
    s = kept()
    code = json.dumps({"code": "print(6 * 7)", "stream": False}).encode()
    call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    for path, body, part in ((RUNS, code, b'"42\\n"'), ("/execute", code, b"42"), ("/mcp", call, b'"id":1')):
        head = {"Content_Encoding": "gzip", "Accept": "application/json, text/event-stream"}
        status, _, answer = ask(s, "POST " + path, gzip.compress(body), **head)
        equal((status, part in answer), (200, True), (path, answer))
        status, head_, _ = ask(s, "POST " + path, body, **{**head, "Content_Encoding": "br"})
        equal((status, head_["accept-encoding"]), (415, "gzip, deflate"), path)
    status, _, answer = ask(s, "POST " + RUNS, b"{}", Content_Encoding="gzip")
    equal((status, json.loads(answer)["error"]["kind"]), (400, "invalid"))
    contains(answer.decode(), "Content-Encoding")


@check
def large_answers_are_compressed_when_asked_for():
    s = kept()
    plain = ask(s, "GET /openapi.json")
    coded = ask(s, "GET /openapi.json", Accept_Encoding="gzip")
    equal((coded[0], coded[1]["content-encoding"], gzip.decompress(coded[2])), (200, "gzip", plain[2]))
    assert len(coded[2]) * 4 < len(plain[2]), (len(coded[2]), len(plain[2]))
    equal((plain[1]["vary"], coded[1]["vary"]), ("accept-encoding", "accept-encoding"))
    assert coded[1]["etag"] != plain[1]["etag"]
    equal(ask(s, "GET /openapi.json", Accept_Encoding="gzip", If_None_Match=coded[1]["etag"])[0], 304)
    equal(ask(s, "GET /openapi.json", Accept_Encoding="gzip", If_None_Match=plain[1]["etag"])[0], 200)
    for size in (3000, 300000):  # here, and on a thread
        body = json.dumps({"code": "print('x' * %d)" % size, "stream": False}).encode()
        status, head, answer = ask(s, "POST " + RUNS, body, Accept_Encoding="gzip")
        equal((status, head["content-encoding"], head["vary"]), (200, "gzip", "accept-encoding"))
        equal(len(json.loads(gzip.decompress(answer))["stdout"]), size + 1)
        equal("content-encoding" in ask(s, "POST " + RUNS, body)[1], False)
    body = json.dumps({"code": "print('x' * 9000)"}).encode()
    equal("content-encoding" in ask(s, "POST " + RUNS, body, Accept_Encoding="gzip")[1], False)  # a stream


@check
def lines_say_their_charset():
    with Stream(kept(), "POST", RUNS, {"code": "1"}) as stream:
        equal(stream.headers["content-type"], "application/x-ndjson; charset=utf-8")
        equal(stream.rest()[-1]["type"], "end")


@check
def a_session_name_that_no_path_can_hold_is_refused():
    s = kept()
    for name in ("a/b", "/", ".", ".."):
        for path, body in ((SESSIONS, {}), (RUNS, {"code": "1", "stream": False})):
            reply = s.post(path, {"session_id": name, **body})
            assert reply.status in (400, 422), (name, path, reply.status, reply.text)  # a document's route says 422
            contains(reply.text, "session_id")
            contains(reply.text, "slash")
    for name in ("a.b", "...", "a b", "\u00e4"):  # and what can be addressed is taken
        equal(s.run("1", session_id=name)["session_id"], name)


@check
def figures_of_sandboxes_and_sessions():
    with Server() as s:
        equal(s.run("1")["cause"], "ok")
        before = metric(s, "krait_sandboxes")
        assert before >= 1, before
        made = s.post(SANDBOXES, {"name": "counted"})
        equal(made.status, 201, made.text)
        equal(metric(s, "krait_sandboxes"), before + 1)
        equal(s.delete(SANDBOXES + "/" + made.json()["id"]).status, 204)
        equal(metric(s, "krait_sandboxes"), before)
        equal(metric(s, 'krait_sessions{state="idle"}'), 1)
        equal(metric(s, 'krait_sessions{state="opening"}'), 0)
        equal(metric(s, "krait_http_cut_total"), 0)


def have_mounts_of_our_own() -> None:
    """Hides the mount of a small disk from other suites, which compare the mounts of the machine."""
    if os.geteuid() != 0 or ctypes.CDLL(None).unshare(CLONE_NEWNS) != 0:
        raise Skip("needs root, to mount a small disk")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


@check
def a_full_disk_is_507_and_says_so():
    have_mounts_of_our_own()
    with tempfile.TemporaryDirectory(prefix="krait-full-") as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=0755", "tmpfs", folder], check=True)
        try:
            with Server(data=folder, args=["--max-sandboxes-per-user", "0"]) as s:
                equal(s.post(SANDBOXES, {"name": "first"}).status, 201)
                filler = os.path.join(folder, "filler")
                with open(filler, "wb", buffering=0) as f:
                    try:
                        while True:
                            f.write(b"x" * 4096)
                    except OSError:
                        pass
                statuses = []
                while 507 not in statuses and len(statuses) < 200:  # the store's last pages may still have room
                    reply = s.post(SANDBOXES, {"name": "more-%d" % len(statuses)})
                    statuses.append(reply.status)
                    assert reply.status in (201, 507), (reply.status, reply.text)
                equal(statuses[-1], 507)
                equal(reply.json()["error"]["kind"], "no_space")
                contains(reply.json()["error"]["message"], "the server's disk is full")
                os.unlink(filler)
                equal(s.post(SANDBOXES, {"name": "last"}).status, 201)
        finally:
            subprocess.run(["umount", "-l", folder], check=True)


@check
def a_run_that_fills_the_servers_disk_is_told_so():
    have_mounts_of_our_own()
    with tempfile.TemporaryDirectory(prefix="krait-full-") as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=0755", "tmpfs", folder], check=True)
        try:
            with Server(data=folder) as s:
                write = "open('/%s/big', 'wb').write(b'x' * (64 << 20))"
                told = s.run(write % "workspace", session_id="a")
                equal(told["cause"], "exception", str(told))  # no limit of its own
                contains(told["message"], "the server's disk is full")
                s.run("import os; os.unlink('/workspace/big')", session_id="a")
                limited = s.post(SANDBOXES, {"name": "small", "limits": {"disk": "4M"}}).json()["id"]
                told = s.run(write % "tmp", sandbox_id=limited)  # and its own limit is its own
                equal(told["cause"], "disk_limit", str(told))
                contains(told["message"], "disk limit of 4 MiB reached")
        finally:
            subprocess.run(["umount", "-l", folder], check=True)


@check
def the_stores_log_is_moved_while_it_runs():
    with Server() as s:
        database = os.path.join(s.data, "data", "krait.db")
        before = os.path.getsize(database)
        text = "x" * 30000  # a row of settings of several pages
        made = s.post(SANDBOXES, {"name": "large", "env": {"TEXT": text}}).json()["id"]
        for n in range(8 * WAL_PAGES):
            wal = os.path.getsize(database + "-wal")
            if os.path.getsize(database) > before or wal > 2 * WAL_PAGES * PAGE:
                break
            equal(s.patch(SANDBOXES + "/" + made, {"env": {"TEXT": text[n % 100:]}}).status, 200)
        assert WAL_PAGES * PAGE <= wal < 4 * WAL_PAGES * PAGE, wal  # far from where a commit would do it
        eventually(lambda: os.path.getsize(database) > before, 20, "the database grew, with %d bytes of log" % wal)


if __name__ == "__main__":
    main()
