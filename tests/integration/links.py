#!/usr/bin/python3
"""Links to files, the document's own /sandbox/file, and who may do what with files: two servers, one of them with keys.
"""
from __future__ import annotations

import base64
import os
import re
import sys
import time
from urllib.parse import quote, urlsplit

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))

from check import check, contains, equal, main  # noqa: E402
from file_server import (  # noqa: E402
    FILES, PNG, ROOT_KEY, Server, eventually, form, get, keyed_server, link_to, open_server, path_of, post, put,
    user_id, user_key
)

@check
def a_link_needs_no_key():
    s = keyed_server()
    put(s, "plots/图 1.png", PNG)
    link = link_to(s, "/app/results/plots/图 1.png")
    equal(urlsplit(link["url"]).netloc, "127.0.0.1:%d" % s.port)
    equal(link["path"], "plots/图 1.png")
    assert 86300 < link["expires_at"] - time.time() <= 86400, link
    got = s.get(path_of(link["url"]), key="")
    equal((got.status, got.body, got.header("content-type")), (200, PNG, "image/png"))
    equal(got.header("cross-origin-resource-policy"), "cross-origin")
    contains(got.header("content-disposition"), "inline; ")
    contains(got.header("content-disposition"), "%E5%9B%BE%201.png")
    equal(s.get(path_of(link["url"]) + "?utm=1", key="").status, 200)
    equal(s.get(path_of(link["url"]), key="", headers={"Range": "bytes=0-3"}).status, 206)
    # An image in another site's page; everything else of ours is refused there.
    foreign = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    equal(s.get(path_of(link["url"]), key="", headers=foreign).status, 200)
    equal(get(s, "plots/图 1.png", headers=foreign).status, 403)
    saved = link_to(s, "plots/图 1.png", download=True)
    contains(s.get(path_of(saved["url"]), key="").header("content-disposition"), "attachment; ")
    equal(s.get(FILES + "/plots/x", key="").status, 401)


@check
def a_link_opens_nothing_else():
    s = keyed_server()
    put(s, "one.txt", b"1")
    put(s, "two.txt", b"2")
    path = path_of(link_to(s, "one.txt")["url"])
    equal(s.get(path, key="").body, b"1")
    equal(s.get(path.replace("one.txt", "two.txt"), key="").status, 404)
    equal(s.get(path + "?path_b64=" + base64.b64encode(b"two.txt").decode(), key="").status, 404)
    equal(s.get(path.replace("one.txt", ""), key="").status, 404)
    token = path.split("/")[2]
    for i in range(len(token)):
        other = token[:i] + ("0" if token[i] != "0" else "1") + token[i + 1:]
        equal(s.get("/files/%s/one.txt" % other, key="").status, 404, other)
    for junk in ("x", "root.x.1.y", "." * 20, "a" * 300):
        equal(s.get("/files/%s/one.txt" % junk, key="").status, 404)
    equal(s.put(path, b"x", key="").status, 405)
    equal(s.delete(FILES + "/one.txt").status, 204)
    equal(s.get(path, key="").status, 404)


@check
def a_link_ends():
    s = keyed_server()
    put(s, "short.txt", b"1")
    link = link_to(s, "short.txt", expires_in=1)
    equal(s.get(path_of(link["url"]), key="").status, 200)
    eventually(lambda: s.get(path_of(link["url"]), key="").status == 403, 5)
    for bad in ({"path": "short.txt", "expires_in": 0}, {"path": "short.txt", "expires_in": 86401}, {"path": "../x"},
                {}, {"path": "plots"}):
        equal(s.post("/api/v1/sandboxes/default/links", bad).status, 400, str(bad))
    equal(s.post("/api/v1/sandboxes/default/links", {"path": "nowhere"}).status, 404)
    # with its owner, and with its sandbox
    key = user_key("fleeting")
    put(s, "mine.txt", b"1", key=key)
    link = link_to(s, "mine.txt", key=key)
    equal(s.get(path_of(link["url"]), key="").status, 200)
    equal(s.patch("/api/v1/users/" + user_id("fleeting"), {"disabled": True}).status, 200)
    equal(s.get(path_of(link["url"]), key="").status, 404)
    equal(s.patch("/api/v1/users/" + user_id("fleeting"), {"disabled": False}).status, 200)
    equal(s.get(path_of(link["url"]), key="").status, 200)
    equal(s.post("/api/v1/sandboxes/default/reset", key=key).status, 200)
    equal(s.get(path_of(link["url"]), key="").status, 404)


@check
def links_are_written_for_the_public_url():
    with Server(args=["--public-url", "https://krait.example.org/k/"]) as s:
        put(s, "a.txt", b"1")
        url = link_to(s, "a.txt")["url"]
        assert url.startswith("https://krait.example.org/k/files/root."), url


# ---- the document's own route ----


def document(sandbox: str, path: str, more: str = "") -> str:
    return "/sandbox/file?sandbox_id=%s&file_path=%s%s" % (quote(sandbox, safe=""), quote(path, safe=""), more)


@check
def the_documents_route_without_keys():
    s = open_server()
    put(s, "图 1.png", PNG)
    put(s, "folder/x", b"x")
    sandbox = s.get("/api/v1/sandboxes/default").json()["id"]
    for path in ("/app/results/图 1.png", "/workspace/图 1.png", "图 1.png"):
        got = s.get(document(sandbox, path))
        equal((got.status, got.body, got.header("content-type")), (200, PNG, "image/png"), path)
        contains(got.header("content-disposition"), "inline; ")
    equal(s.get(document("default", "图 1.png")).status, 200)
    missing = s.get("/sandbox/file?sandbox_id=" + sandbox)
    equal((missing.status, missing.json()["detail"][0]["type"], missing.json()["detail"][0]["loc"]),
          (422, "missing", ["query", "file_path"]))
    equal(s.get("/sandbox/file").status, 422)
    for where in (document(sandbox, "nowhere"), document("0" * 26, "图 1.png"), document(sandbox, "folder")):
        got = s.get(where)
        equal((got.status, type(got.detail())), (404, str), where)
    for path in ("/etc/passwd", "../../etc/passwd", "/app/results/../x"):
        equal(s.get(document(sandbox, path)).status, 400, path)
    # A client that sends a token is judged by it, also here: another site's page may come with a made-up one.
    for token in ("&token=junk", "&token="):
        equal(s.get(document(sandbox, "图 1.png", token)).status, 404)
    foreign = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    equal(s.get(document(sandbox, "图 1.png"), headers=foreign).status, 403)
    equal(s.get(document(sandbox, "图 1.png", "&token=junk"), headers=foreign).status, 404)


@check
def the_documents_route_with_keys():
    s = keyed_server()
    put(s, "doc.csv", b"a,b\n")
    sandbox = s.get("/api/v1/sandboxes/default").json()["id"]
    where = document(sandbox, "/app/results/doc.csv")
    refused = s.get(where, key="")
    equal((refused.status, refused.json()["detail"], refused.header("www-authenticate")),
          (401, "Authentication required", "Bearer"))
    equal(s.get(where + "&api_key=wrong", key="").status, 401)
    equal(s.get(where + "&api_key=" + ROOT_KEY, key="").body, b"a,b\n")
    equal(s.get(where, headers={"X-API-Key": ROOT_KEY}, key="").status, 200)
    token = path_of(link_to(s, "doc.csv")["url"]).split("/")[2]
    good = s.get(where + "&token=" + token, key="")
    equal((good.status, good.body, good.header("cross-origin-resource-policy")), (200, b"a,b\n", "cross-origin"))
    equal(s.get(document(sandbox, "other.csv", "&token=" + token), key="").status, 404)
    equal(s.get(document("default", "doc.csv", "&token=" + token), key="").status, 404)
    equal(s.get(where, key=user_key("bob")).status, 404)


# ---- who may ----


@check
def no_user_sees_anothers_files():
    s = keyed_server()
    alice, bob = user_key("alice"), user_key("bob")
    put(s, "secret.txt", b"alice's", key=alice)
    sandbox = s.get("/api/v1/sandboxes/default", key=alice).json()["id"]
    base = "/api/v1/sandboxes/" + sandbox
    body, headers = form(("f", "x", b"x"))
    equal(s.get(base + "/files/secret.txt", key=alice).status, 200)
    unknown = base.replace(sandbox, "0" * 26)
    for method, path, data, more in (
        ("GET", "/files", None, {}), ("GET", "/files/secret.txt", None, {}), ("HEAD", "/files/secret.txt", None, {}),
        ("PUT", "/files/secret.txt", b"x", {}),
        ("PUT", "/files/new.txt", b"x", {}), ("DELETE", "/files/secret.txt", None, {}),
        ("POST", "/files", body, headers),
        ("POST", "/folders", {"path": "x"}, {}), ("POST", "/links", {"path": "secret.txt"}, {}),
    ):
        for other in (bob, ROOT_KEY):
            theirs = s.request(method, base + path, data, headers=more, key=other)
            nowhere = s.request(method, unknown + path, data, headers=more, key=other)
            equal(theirs.status, 404, "%s %s" % (method, path))
            strip = lambda r: re.sub(rb'"request_id":"[^"]*"', b"", r.body)  # noqa: E731
            equal(strip(theirs), strip(nowhere))
        equal(s.request(method, base + path, data, headers=more, key="").status, 401)
    equal(s.get(base + "/files", key=alice).json()["files"][0]["path"], "secret.txt")


@check
def a_key_that_may_only_read():
    s = keyed_server()
    reader = user_key("alice", ("read",))
    put(s, "readable.txt", b"1", key=user_key("alice"))
    equal(get(s, "readable.txt", key=reader).status, 200)
    equal(put(s, "x", b"1", key=reader).status, 403)
    equal(post(s, ("f", "x", b"1"), key=reader).status, 403)
    equal(s.delete(FILES + "/readable.txt", key=reader).status, 403)
    equal(s.post("/api/v1/sandboxes/default/folders", {"path": "x"}, key=reader).status, 403)


@check
def changes_are_audited():
    s = keyed_server()
    key = user_key("audited")
    put(s, "a/one.txt", b"12345", key=key)
    post(s, ("f", "two.txt", b"2"), ("f", "three.txt", b"3"), key=key)
    s.post("/api/v1/sandboxes/default/folders", {"path": "made"}, key=key)
    link_to(s, "two.txt", key=key)
    s.delete(FILES + "/a?recursive=1", key=key)
    sandbox = s.get("/api/v1/sandboxes/default", key=key).json()["id"]
    rows = s.get("/api/v1/audit?object=" + sandbox).json()["rows"]
    found = {row["what"]: row for row in rows if row["user"] == user_id("audited")}
    equal(found["file.write"]["detail"], {"path": "a/one.txt", "size": 5})
    equal(found["file.upload"]["detail"], {"files": 2, "size": 2, "paths": ["two.txt", "three.txt"]})
    equal(found["file.delete"]["detail"], {"path": "a"})
    assert {"folder.create", "link.create"} <= set(found), sorted(found)
    assert all(found[w]["outcome"] == "ok" and found[w]["address"] == "127.0.0.1"
               for w in ("file.write", "file.delete"))


@check
def every_reply_obeyed_the_published_schema():
    for s in (open_server(), keyed_server()):
        equal(s.problems, [])


main()
