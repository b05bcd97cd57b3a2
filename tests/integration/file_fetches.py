#!/usr/bin/python3
"""Files by their address, as jobs: POST /api/v1/sandboxes/{id}/fetches against a server on loopback. Names, folders,
what is there already, limits, cancel, the user's disk account, what no rule lets be fetched, another user's sandbox."""
import hashlib
import os
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal
from file_host import DATA, ELSEWHERE, LARGE, Files, serve_files
from krait_server import Server
from serving import Meanwhile, eventually, kept, main

KEY = "an-administrators-key-of-the-tests"
STUB = serve_files()
PORT = STUB.server_address[1]
HERE = "127.0.0.1:%d" % PORT
WAY = ["--egress-private-hosts", HERE, "--fetch-network", "allow:" + HERE]


def server() -> Server:
    return kept(env={"API_KEY": KEY}, args=["--require-auth", *WAY], key=KEY)


def fetch(s: Server, file: str, box: str = "default", key=None, **more):
    """The job that the answer has, or the reply of one that was refused."""
    body = {"url": "http://%s%s" % (HERE, file), "wait": 30, **more}
    reply = s.post("/api/v1/sandboxes/%s/fetches" % box, body, key=key)
    return reply.json() if reply.status in (200, 202) else reply


def fetched(s: Server, file: str, **more) -> dict:
    job = fetch(s, file, **more)
    assert isinstance(job, dict), job.text
    equal((job["cause"], job["message"], job["still_running"]), ("ok", None, False), str(job))
    return job["result"]


def failed(s: Server, file: str, *words: str, **more) -> dict:
    job = fetch(s, file, **more)
    assert isinstance(job, dict), job.text
    equal((job["cause"], job["result"]), ("exception", None), str(job))
    for word in words:
        contains(job["message"], word)
    return job


def content(s: Server, path: str, box: str = "default") -> bytes:
    reply = s.get("/api/v1/sandboxes/%s/files/%s" % (box, path))
    equal(reply.status, 200, reply.text)
    return reply.body


def new_box(s: Server, key=None, **settings) -> str:
    made = s.post("/api/v1/sandboxes", settings, key=key)
    equal(made.status, 201, made.text)
    return made.json()["id"]


def names(s: Server, box: str) -> list:
    listed = s.get("/api/v1/sandboxes/%s/files?recursive=true" % box).json()
    return sorted(one["path"] for one in listed["files"] if one["type"] == "file")


@check
def a_file_comes_with_its_name_size_and_hash() -> None:
    s = server()
    box = new_box(s)
    result = fetched(s, "/data.csv?x=1", box=box)
    equal(result, {"path": "data.csv", "name": "data.csv", "size": len(DATA), "type": "text/csv",
                   "sha256": hashlib.sha256(DATA).hexdigest(), "created": True, "url": "http://%s/data.csv?x=1" % HERE})
    equal(content(s, "data.csv", box), DATA)
    run = s.post("/api/v1/runs", {"code": "print(len(open('data.csv').read()))", "stream": False, "sandbox_id": box})
    equal(run.json()["stdout"], "%d\n" % len(DATA))


@check
def names_are_harmless_and_go_where_they_were_told() -> None:
    s = server()
    box = new_box(s)
    for path, to, expected in (("/named", None, "table one.csv"), ("/evil", None, "bashrc"), ("/folder", None, "c.txt"),
                               ("/", None, "download"), ("/data.csv", "deep/er/", "deep/er/data.csv"),
                               ("/data.csv", "deep/x.csv", "deep/x.csv"), ("/named", "deep", "deep/table one.csv")):
        result = fetched(s, path, box=box, **({"path": to} if to else {}))
        equal(result["path"], expected, path)
    equal(names(s, box), sorted(["table one.csv", "bashrc", "c.txt", "download", "deep/er/data.csv", "deep/x.csv",
                                 "deep/table one.csv"]))
    refused = fetch(s, "/data.csv", box=box, path="../out.csv")
    equal(refused.status, 400, refused.text)


@check
def what_is_there_is_replaced_or_kept_as_was_asked() -> None:
    s = server()
    box = new_box(s)
    equal(s.request("PUT", "/api/v1/sandboxes/%s/files/data.csv" % box, b"mine").status, 201)
    failed(s, "/data.csv", "there", box=box, overwrite=False)
    failed(s, "/data.csv", "there", box=box, overwrite=False, path="data.csv")
    equal(content(s, "data.csv", box), b"mine")
    equal(fetched(s, "/data.csv", box=box)["created"], False)
    equal(content(s, "data.csv", box), DATA)


@check
def what_fails_says_why_and_leaves_nothing() -> None:
    s = server()
    box = new_box(s)
    failed(s, "/missing", "404", box=box)
    failed(s, "/slow", box=box, timeout=1)
    failed(s, "/to/elsewhere", "elsewhere.invalid", "fetch_network", box=box)
    equal(names(s, box), [])
    for url in ("ftp://%s/x" % HERE, "file:///etc/passwd", "/etc/passwd", "http://"):
        reply = s.post("/api/v1/sandboxes/%s/fetches" % box, {"url": url})
        equal(reply.status, 400, reply.text)
    equal(s.post("/api/v1/sandboxes/nonesuch/fetches", {"url": "http://%s/x" % HERE}).status, 404)
    fetched(s, "/data.csv", box=box)  # the control


@check
def a_redirect_is_followed_by_the_same_rule() -> None:
    s = server()
    box = new_box(s)
    STUB.redirect = "http://%s/data.csv" % HERE
    try:
        equal(fetched(s, "/to/here", box=box)["size"], len(DATA))
    finally:
        STUB.redirect = ELSEWHERE


@check
def fetch_network() -> None:
    """Without it the sandbox's own network decides; and a refusal names both."""
    with Server(args=["--egress-private-hosts", HERE]) as s:
        box = new_box(s)
        refused = fetch(s, "/data.csv", box=box)
        equal((refused.status, refused.json()["error"]["kind"]), (403, "denied"), refused.text)
        for word in ("network", "allow:HOST", "fetch_network"):
            contains(refused.text, word)
    with Server(args=["--egress-private-hosts", HERE, "--max-network", "open"]) as s:
        equal(fetch(s, "/data.csv").status, 403)
        own = new_box(s, network="allow:" + HERE)
        equal(fetched(s, "/data.csv", box=own)["size"], len(DATA))
        other = new_box(s, network="allow:example.org")
        failed(s, "/data.csv", "127.0.0.1", "network", box=other)
        equal(names(s, other), [])
    with Server(args=WAY) as s:
        equal(fetched(s, "/data.csv")["size"], len(DATA))


@check
def a_fetch_is_a_row_of_its_sandbox() -> None:
    s = server()
    box = new_box(s)
    fetched(s, "/data.csv", box=box)
    (row,) = s.get("/api/v1/connections?sandbox_id=" + box).json()["connections"]
    equal((row["how"], row["host"], row["port"], row["verdict"], row["status"]),
          ("fetch", "127.0.0.1", PORT, "ok", 200), str(row))
    assert row["received_bytes"] >= len(DATA), row
    failed(s, "/to/elsewhere", box=box)
    denied = s.get("/api/v1/connections?verdict=denied&sandbox_id=" + box).json()["connections"]
    equal([(row["host"], row["how"]) for row in denied], [("elsewhere.invalid", "fetch")])
    audit = s.get("/api/v1/audit?what=connection.refused&object=elsewhere.invalid:80").json()["rows"]
    assert audit and audit[0]["detail"]["sandbox"] == box, audit
    metrics = s.get("/metrics").text
    contains(metrics, 'krait_connections_total{how="fetch",verdict="denied"}')


@check
def limits_of_size() -> None:
    with Server(args=[*WAY, "--max-upload", "1M"]) as s:
        failed(s, "/large", box="default")
        equal(names(s, "default"), [])
        fetched(s, "/data.csv")
    with Server(args=[*WAY, "--max-disk-per-user", "2M"]) as s:
        failed(s, "/large", box="default")
        equal(names(s, "default"), [])
        fetched(s, "/data.csv")
    with Server(args=WAY) as s:
        equal(fetched(s, "/large")["size"], LARGE)  # the control


@check
def a_fetch_can_be_followed_and_cancelled() -> None:
    s = server()
    box = new_box(s)
    job = fetch(s, "/slow", box=box, wait=0)
    equal((job["kind"], job["subject"], job["still_running"]), ("files.fetch", box, True), str(job))
    path = "/api/v1/jobs/" + job["job_id"]
    eventually(lambda: s.get(path).json()["done"] > 0, 20, "it has come some way")
    told = s.get(path).json()
    equal((told["total"], told["text"]), (LARGE, "downloading"))
    equal(s.post(path + "/cancel").status, 202)
    eventually(lambda: not s.get(path).json()["still_running"], 10, "it ends")
    equal(s.get(path).json()["cause"], "cancelled")
    equal(names(s, box), [])
    folder = s.get("/api/v1/sandboxes/%s/files" % box).json()["files"]
    equal(folder, [])


@check
def another_users_sandbox_is_not_there() -> None:
    s = server()
    keys = []
    for name in ("ada", "eve"):
        user = s.post("/api/v1/users", {"name": "fetch-" + name, "rights": ["read", "run"]}).json()["id"]
        keys.append(s.post("/api/v1/keys", {"user": user}).json()["key"])
    box = new_box(s, key=keys[0])
    job = fetch(s, "/data.csv", box=box, key=keys[0])
    equal(job["cause"], "ok", str(job))
    before = len(Files.asked)
    equal(fetch(s, "/data.csv", box=box, key=keys[1]).status, 404)
    equal(s.get("/api/v1/jobs/" + job["job_id"], key=keys[1]).status, 404)
    equal(s.get("/api/v1/connections?sandbox_id=" + box, key=keys[1]).json()["connections"], [])
    equal(len(Files.asked), before)
    reader = s.post("/api/v1/keys", {"rights": ["read"]}).json()["key"]
    equal(fetch(s, "/data.csv", key=reader).status, 403)


@check
def a_stop_in_the_middle_leaves_nothing() -> None:
    s = Server(args=WAY)
    with s:
        job = fetch(s, "/slow", wait=0)
        path = "/api/v1/jobs/" + job["job_id"]
        eventually(lambda: s.get(path).json()["done"] > 0, 20, "it has come some way")
        shelf = os.path.join(s.data, "data/sandboxes")
        stopping = Meanwhile(s.stop)
        stopping.end(30)
        left = [os.path.join(top, one) for top, _, files in os.walk(shelf) for one in files]
        equal(left, [])


main()
