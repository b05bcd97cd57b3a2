#!/usr/bin/python3
"""Files of a sandbox over HTTP: a real `krait serve`, its replies held against its own OpenAPI. Most checks share one
server without keys; what needs other limits starts its own.
"""
from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import socket
import sys
import threading
import time
from urllib.parse import quote

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))

from check import check, contains, equal, main  # noqa: E402
from file_server import (  # noqa: E402
    FILES, PNG, TEMP, Server, eventually, form, get, open_server, path_of, post, put, server_memory, temp_files
)

# ---- writing and reading ----


@check
def a_file_comes_back_as_it_was():
    s = open_server()
    for size in (0, 1, 1023, 1024, 131071, 131072, 131073, 1000000):
        data = os.urandom(size)
        made = put(s, "round/%d.bin" % size, data)
        equal((made.status, made.json()), (201, {"path": "round/%d.bin" % size, "size": size, "created": True}))
        got = get(s, "round/%d.bin" % size)
        equal((got.status, got.header("content-length"), got.body == data), (200, str(size), True), str(size))
        equal(got.header("etag"), made.header("etag"))
    again = put(s, "round/1.bin", b"other")
    equal((again.status, again.json()["created"]), (200, False))
    equal(get(s, "round/1.bin").body, b"other")


@check
def a_program_sees_it_and_it_is_not_the_programs_change():
    s = open_server()
    s.run("open('before.txt', 'w').write('x')")
    equal(put(s, "in/data.csv", b"a,b\n1,2\n").status, 201)
    end = s.run("print(open('/workspace/in/data.csv').read()); open('out.txt', 'w').write('y')")
    contains(json.dumps(end), "a,b\\n1,2")
    changed = {f["path"] for f in end["files"]}
    equal(changed, {"out.txt"})
    equal(get(s, "out.txt").body, b"y")


@check
def chunked_bodies_are_taken():
    s = open_server()
    c = s.connect()
    c.putrequest("PUT", FILES + "/chunked.bin")
    c.putheader("Transfer-Encoding", "chunked")
    c.endheaders()
    for piece in (b"one ", b"two ", b"three" * 100000):
        c.send(b"%x\r\n%s\r\n" % (len(piece), piece))
    c.send(b"0\r\n\r\n")
    got = c.getresponse()
    equal((got.status, json.loads(got.read())["size"]), (201, 500008))
    c.close()
    equal(get(s, "chunked.bin").body[:10], b"one two th")


@check
def create_only_and_only_if_it_is_the_same():
    s = open_server()
    none = {"If-None-Match": "*"}
    equal(put(s, "cond.txt", b"1", headers=none).status, 201)
    refused = put(s, "cond.txt", b"2", headers=none)
    equal((refused.status, refused.json()["error"]["kind"]), (412, "conflict"))
    equal(get(s, "cond.txt").body, b"1")
    etag = get(s, "cond.txt").header("etag")
    equal(put(s, "cond.txt", b"3", headers={"If-Match": '"nope"'}).status, 412)
    equal(put(s, "cond.txt", b"3", headers={"If-Match": etag}).status, 200)
    equal(put(s, "cond.txt", b"4", headers={"If-Match": etag}).status, 412)
    equal(put(s, "cond-new.txt", b"4", headers={"If-Match": "*"}).status, 412)
    equal(put(s, "cond.txt", b"4", headers={"If-None-Match": etag}).status, 400)
    equal(get(s, "cond.txt").body, b"3")
    equal(temp_files(s), [])


@check
def of_many_who_create_one_does():
    s = open_server()
    for turn in range(5):
        statuses: list[int] = []
        threads = [
            threading.Thread(target=lambda: statuses.append(put(s, "race-%d" % turn, b"x" * 1000,
                                                                headers={"If-None-Match": "*"}).status))
            for _ in range(8)
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        equal(sorted(statuses), [201] + [412] * 7)


@check
def of_many_who_replace_the_same_content_one_does():
    """Each of two pages that save at once must learn of the other."""
    s = open_server()
    put(s, "replaced.txt", b"0")
    for turn in range(20):
        etag = get(s, "replaced.txt").header("etag")
        replies = {}

        def replace(n: int) -> None:
            replies[n] = put(s, "replaced.txt", b"%d by %d" % (turn, n), headers={"If-Match": etag})

        threads = [threading.Thread(target=replace, args=(n,)) for n in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        equal(sorted(r.status for r in replies.values()), [200] + [412] * 7)
        winner = next(n for n, r in replies.items() if r.status == 200)
        equal(get(s, "replaced.txt").body, b"%d by %d" % (turn, winner))
        equal(replies[winner].header("etag"), get(s, "replaced.txt").header("etag"))


@check
def parts_of_a_file():
    s = open_server()
    data = bytes(range(256)) * 2000  # 512,000: more than a piece
    put(s, "parts.bin", data)
    etag = get(s, "parts.bin").header("etag")
    for header, first, end in (
        ("bytes=0-0", 0, 1), ("bytes=0-9", 0, 10), ("bytes=131070-131075", 131070, 131076),
        ("bytes=131072-", 131072, 512000),
        ("bytes=-5", 511995, 512000), ("bytes=400000-999999999", 400000, 512000), ("bytes=1-300000", 1, 300001),
    ):
        got = get(s, "parts.bin", headers={"Range": header})
        equal((got.status, got.header("content-range")), (206, "bytes %d-%d/512000" % (first, end - 1)), header)
        assert got.body == data[first:end], header
    for header in ("bytes=512000-", "bytes=-0"):
        got = get(s, "parts.bin", headers={"Range": header})
        equal((got.status, got.header("content-range")), (416, "bytes */512000"), header)
    for header in ("bytes=0-1,5-6", "lines=0-1", "bytes=9-1"):
        got = get(s, "parts.bin", headers={"Range": header})
        equal((got.status, got.body == data), (200, True), header)
    equal(get(s, "parts.bin", headers={"Range": "bytes=0-0", "If-Range": etag}).status, 206)
    equal(get(s, "parts.bin", headers={"Range": "bytes=0-0", "If-Range": '"other"'}).status, 200)


@check
def heads_and_validators():
    s = open_server()
    put(s, "head.csv", b"a,b\n" * 100000)
    head = s.request("HEAD", FILES + "/head.csv")
    equal((head.status, head.header("content-length"), head.body), (200, "400000", b""))
    etag = head.header("etag")
    for match in (etag, "*", '"x", W/' + etag):
        same = get(s, "head.csv", headers={"If-None-Match": match})
        equal((same.status, same.body, same.header("etag")), (304, b"", etag), match)
    equal(get(s, "head.csv", headers={"If-None-Match": '"x"'}).status, 200)
    put(s, "head.csv", b"a,b\n" * 100000)
    equal(get(s, "head.csv", headers={"If-None-Match": etag}).status, 200)


@check
def types_and_what_a_browser_may_do():
    s = open_server()
    rows = {
        "a.png": (PNG, "image/png"), "a.csv": (b"a,b\n", "text/csv; charset=utf-8"),
        "a.html": (b"<p>hi", "text/html; charset=utf-8"),
        "a.svg": (b"<svg/>", "image/svg+xml; charset=utf-8"), "a.pdf": (b"%PDF-1.4", "application/pdf"),
        "a.xlsx": (b"PK\3\4", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        "a.json": (b"[]", "application/json; charset=utf-8"), "noext": (b"plain", "text/plain; charset=utf-8"),
        "blob": (b"\0\1\2", "application/octet-stream"), "latin.txt": (b"\xe9", "text/plain"),
        "page": (b"<html><script>", "text/plain; charset=utf-8"),
    }
    for name, (data, kind) in rows.items():
        put(s, "types/" + name, data)
        got = get(s, "types/" + name)
        equal((got.status, got.header("content-type"), got.body), (200, kind, data), name)
        equal(got.header("x-content-type-options"), "nosniff", name)
        csp = got.header("content-security-policy")
        contains(csp, "default-src 'none'")
        assert name == "a.pdf" or csp.startswith("sandbox allow-scripts;") and "allow-same-origin" not in csp, csp
        equal(got.header("content-disposition"), 'inline; filename="%s"' % name)
        equal(got.header("cross-origin-resource-policy"), "same-origin")
    saved = get(s, "types/a.html", "?download=1")
    equal(saved.header("content-disposition"), 'attachment; filename="a.html"')


@check
def names_of_all_kinds():
    s = open_server()
    for name in ("图 1.png", "a b", "100%.txt", "what?.txt", "a#b", "semi;colon", 'quo"te', "it's", "a&b=c", "..hidden",
                 ".dot", "x" * 255, "é/ü/ö"):
        equal(put(s, "names/" + name, b"x").status, 201, name)
        got = get(s, "names/" + name)
        equal((got.status, got.body), (200, b"x"), name)
    contains(get(s, "names/图 1.png").header("content-disposition"), "filename*=UTF-8''%E5%9B%BE%201.png")
    listed = {f["path"] for f in s.get(FILES + "?path=names").json()["files"]}
    assert {"names/图 1.png", "names/100%.txt", 'names/quo"te'} <= listed, listed
    equal(s.put(FILES + "/names%2Fenc%2Foded", b"y").status, 201)  # as generated clients write it
    equal((get(s, "names/enc/oded").body, s.get(FILES + "/names%2fenc/oded").body), (b"y", b"y"))
    for raw in ("a%2F..%2Fb", "..%2F..%2Fetc%2Fpasswd", "%2e%2e%2fb", "a%2F.", "a%2F%5Cb", "a%2F%00", "a%5Cb",
                "a%00b", "a%0Ab", "..", "a/../b", "%ff", "%", "x" * 256, "a/%2e%2e/b"):
        equal(s.put(FILES + "/names/" + raw, b"x").status, 400, raw)
    equal(put(s, TEMP + "0123", b"x").status, 400)


@check
def names_that_no_url_can_carry():
    s = open_server()
    s.run("import os; os.mkdir('odd'); [open(b'odd/' + n, 'w').write('odd') for n in (b'a\\xff', b'a\\nb', b'a\\\\b')]")
    files = s.get(FILES + "?path=odd").json()["files"]
    equal(len(files), 3)
    for name in (b"odd/a\xff", b"odd/a\nb", b"odd/a\\b"):
        b64 = quote(base64.b64encode(name).decode(), safe="")
        equal(s.get(FILES + "/any?path_b64=" + b64).body, b"odd")
        link = s.post("/api/v1/sandboxes/default/links", {"path_b64": base64.b64encode(name).decode()})
        equal((link.status, s.get(path_of(link.json()["url"])).body), (201, b"odd"), repr(name))
        equal(s.delete(FILES + "/any?path_b64=" + b64).status, 204)
    equal(files[-1].get("path_b64"), base64.b64encode(b"odd/a\xff").decode())
    equal(s.get(FILES + "/any?path_b64=%21").status, 400)
    equal(s.get(FILES + "?path=odd").json()["files"], [])


# ---- lists, folders, deletion ----


@check
def lists_come_in_pages():
    s = open_server()
    s.run("import os\nfor d in ('p', 'p/b'):\n os.mkdir(d)\n [open('%s/%02d' % (d, i), 'w').close() for i in range(7)]")
    whole = s.get(FILES + "?path=p&recursive=1").json()
    names = [f["path"] for f in whole["files"]]
    equal(len(names), 15)
    equal((whole["next"], whole["incomplete"]), (None, False))
    equal(sorted(names, key=lambda p: p.split("/")), names)
    seen, after = [], ""
    for _ in range(20):
        page = s.get(FILES + "?path=p&recursive=true&limit=4" + after).json()
        seen += [f["path"] for f in page["files"]]
        if page["next"] is None:
            break
        after = "&after=" + quote(page["next"], safe="")
    equal(seen, names)
    equal([f["type"] for f in s.get(FILES + "?path=/workspace/p").json()["files"]], ["file"] * 7 + ["folder"])
    equal(get(s, "p").json()["path"], "p")
    equal(get(s, "p/").json()["path"], "p")
    entry = whole["files"][0]
    assert abs(entry["modified_at"] - time.time()) < 60, entry
    for query, status in (("path=nowhere", 404), ("path=p/00", 404), ("limit=0", 400), ("limit=10001", 400),
                          ("what=1", 400), ("path=../x", 400), ("path=/etc", 400)):
        equal(s.get(FILES + "?" + query).status, status, query)


@check
def folders_are_made():
    s = open_server()
    folders = "/api/v1/sandboxes/default/folders"
    made = s.post(folders, {"path": "made/in/there"})
    equal((made.status, made.json()), (201, {"path": "made/in/there", "created": True}))
    equal((s.post(folders, {"path": "made/in"}).status), 200)
    put(s, "made/file", b"x")
    equal(s.post(folders, {"path": "made/file"}).status, 409)
    equal(s.post(folders, {"path": "made/file/deeper"}).status, 409)
    for bad in ({"path": "../x"}, {"path": ""}, {}, {"path": "/"}, {"path": "a\nb"}, {"path": "x", "mode": 7}):
        equal(s.post(folders, bad).status, 400, str(bad))
    equal(put(s, "made/in", b"x").status, 409)


@check
def deletion():
    s = open_server()
    put(s, "del/a", b"x")
    put(s, "del/b/c", b"x")
    equal(s.delete(FILES + "/del").status, 409)
    equal(s.delete(FILES + "/del/a").status, 204)
    equal(s.delete(FILES + "/del/a").status, 404)
    equal(s.delete(FILES + "/del/b/c/d").status, 404)
    equal(s.delete(FILES + "/del?recursive=1").status, 204)
    equal(get(s, "del").status, 404)
    equal(s.delete(FILES + "//workspace?recursive=1").status, 400)
    s.run("import os\nfor i in range(300):\n os.makedirs('many/%d' % i)\n"
          " for k in range(50): open('many/%d/%d' % (i, k), 'w').close()")
    equal(s.delete(FILES + "/many?recursive=1").status, 204)  # more than one piece of work
    equal(get(s, "many").status, 404)


@check
def links_and_pipes_of_a_program_lead_nowhere():
    s = open_server()
    s.run("import os; os.mkdir('trap'); os.symlink('/etc/passwd', 'trap/l'); os.symlink('/', 'trap/root'); "
          "os.symlink('x', 'trap/in'); "
          "open('trap/x', 'w').write('x'); os.mkfifo('trap/fifo')")
    for name in ("trap/l", "trap/in", "trap/root/etc/passwd"):
        equal(get(s, name).status, 403, name)
    equal(get(s, "trap/fifo").status, 404)
    equal(put(s, "trap/root/tmp/x", b"x").status, 409)
    equal(put(s, "trap/l", b"mine").status, 200)  # the link is replaced, not followed
    equal(get(s, "trap/l").body, b"mine")
    kinds = {f["path"]: f["type"] for f in s.get(FILES + "?path=trap").json()["files"]}
    equal(kinds, {"trap/l": "file", "trap/root": "link", "trap/in": "link", "trap/x": "file", "trap/fifo": "other"})
    equal(s.post("/api/v1/sandboxes/default/links", {"path": "trap/in"}).status, 400)
    equal(s.delete(FILES + "/trap?recursive=1").status, 204)


# ---- multipart ----


@check
def a_form_of_files():
    s = open_server()
    big = os.urandom(400000)
    reply = post(s, ("dir", None, b"form/in"), ("file", "a.txt", b"A"), ("file", "图.bin", big),
                 ("path", None, b"form/renamed.txt"), ("f2", "b.txt", b"B"),
                 ("file", "sub/c.txt", b""), ("file", "", b""))
    equal(reply.status, 201, reply.text)
    equal([(f["path"], f["size"]) for f in reply.json()["files"]],
          [("form/in/a.txt", 1), ("form/in/图.bin", 400000), ("form/renamed.txt", 1), ("form/in/sub/c.txt", 0)])
    equal(reply.json()["failed"], [])
    equal(get(s, "form/in/图.bin").body == big, True)
    equal(get(s, "form/renamed.txt").body, b"B")


@check
def a_file_of_a_form_that_cannot_be_stored_does_not_stop_the_others():
    s = open_server()
    put(s, "partly/folder/x", b"x")
    reply = post(s, ("dir", None, b"partly"), ("f", "one", b"1"), ("f", "../../two", b"2"), ("f", "folder", b"3"),
                 ("f", "four", b"4"))
    equal(reply.status, 207, reply.text)
    equal([f["path"] for f in reply.json()["files"]], ["partly/one", "partly/four"])
    equal([(f["name"], f["kind"]) for f in reply.json()["failed"]],
          [("../../two", "invalid"), ("partly/folder", "conflict")])
    equal(post(s, ("f", "../x", b"x")).status, 400)
    equal(post(s, ("f", "partly/folder", b"x")).status, 409)
    equal(temp_files(s), [])


@check
def forms_that_are_wrong():
    s = open_server()
    equal(s.post(FILES, b"{}", headers={"Content-Type": "application/json"}).status, 415)
    equal(s.post(FILES, b"x").status, 415)
    equal(s.post(FILES, b"x", headers={"Content-Type": "multipart/form-data"}).status, 400)
    equal(post(s).status, 400)
    equal(post(s, ("dir", None, b"x")).status, 400)
    equal(post(s, ("what", None, b"x"), ("f", "a", b"a")).status, 400)
    equal(post(s, ("dir", None, b"x" * 5000), ("f", "a", b"a")).status, 400)
    body, headers = form(("f", "wrong/one", b"1"), ("f", "wrong/two", b"2" * 1000))
    cut = s.post(FILES, body[:-500], headers=headers)  # the second never ends
    equal(cut.status, 207)
    equal([f["path"] for f in cut.json()["files"]], ["wrong/one"])
    equal(cut.json()["failed"][0]["name"], None)
    equal(get(s, "wrong/two").status, 404)
    equal(temp_files(s), [])


# ---- limits, size, leaving ----


@check
def measuring_a_disk_makes_no_folder():
    """The folder of a sandbox goes while its row is being walked: it is not made again, the rest is measured."""
    with Server(args=["--max-disk-per-user", "3M"]) as s:
        shelf = os.path.join(s.data, "data/sandboxes")
        equal(s.post("/api/v1/sandboxes", {"name": "going"}).status, 201)
        going, = os.listdir(shelf)
        os.rmdir(os.path.join(shelf, going, "files"))
        os.rmdir(os.path.join(shelf, going))
        equal(put(s, "one", b"x" * 1000).status, 201)  # measures
        assert going not in os.listdir(shelf)
        equal(put(s, "much", b"x" * (3 << 20)).status, 507)


@check
def limits_of_size_and_disk():
    with Server(args=["--max-upload", "1M", "--max-disk-per-user", "3M"]) as s:
        equal(put(s, "fits", b"x" * (1 << 20)).status, 201)
        too_long = put(s, "long", b"x" * ((1 << 20) + 1), headers={"Expect": "100-continue"})
        equal((too_long.status, too_long.json()["error"]["kind"]), (413, "too_large"))
        c = s.connect()
        c.putrequest("PUT", FILES + "/chunked")
        c.putheader("Transfer-Encoding", "chunked")
        c.endheaders()
        try:
            for _ in range(20):
                c.send(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        except OSError:
            pass
        equal(c.getresponse().status, 413)
        c.close()
        eventually(lambda: temp_files(s) == [])
        equal(put(s, "second", b"x" * 900000).status, 201)
        equal(put(s, "third", b"x" * 900000).status, 201)
        full = put(s, "fourth", b"x" * 900000)
        equal((full.status, full.json()["error"]["kind"]), (507, "limit"))
        equal(post(s, ("f", "fourth", b"x" * 900000)).status, 507)
        equal(get(s, "fourth").status, 404)
        equal(s.delete(FILES + "/third").status, 204)
        equal(put(s, "fourth", b"x" * 900000).status, 201)
        # In a form that brings more than there is room for, what fits is stored.
        s.delete(FILES + "/fourth")
        equal(put(s, "fourth", b"x" * 400000).status, 201)
        body, headers = form(("f", "small", b"s" * 1000), ("f", "large", b"x" * 1000000))
        c = s.connect()
        c.putrequest("POST", FILES)
        c.putheader("Transfer-Encoding", "chunked")
        c.putheader("Content-Type", headers["Content-Type"])
        c.endheaders()
        try:
            for at in range(0, len(body), 65536):
                piece = body[at:at + 65536]
                c.send(b"%x\r\n%s\r\n" % (len(piece), piece))
                time.sleep(0.01)
            c.send(b"0\r\n\r\n")
        except OSError:
            pass
        got = c.getresponse()
        reply = json.loads(got.read())
        c.close()
        equal(got.status, 207, str(reply))
        equal(([f["path"] for f in reply["files"]], [f["kind"] for f in reply["failed"]]), (["small"], ["limit"]))
        eventually(lambda: temp_files(s) == [])


@check
def a_hundred_megabytes_pass_through_without_being_held():
    with Server(args=["--max-upload", "200M"]) as s:
        piece = os.urandom(1 << 20)
        digest = hashlib.sha256(piece * 100).hexdigest()
        s.run("1")
        before = server_memory(s)
        slowest = [0.0]
        stop = threading.Event()

        def others() -> None:
            c = s.connect()
            while not stop.is_set():
                start = time.monotonic()
                c.request("GET", "/health")
                c.getresponse().read()
                slowest[0] = max(slowest[0], time.monotonic() - start)
                time.sleep(0.005)
            c.close()

        watcher = threading.Thread(target=others)
        watcher.start()
        c = s.connect()
        c.putrequest("PUT", FILES + "/big.bin")
        c.putheader("Content-Length", str(100 << 20))
        c.endheaders()
        for _ in range(100):
            c.send(piece)
        equal(c.getresponse().status, 201)
        c.close()
        got = hashlib.sha256()
        c = s.connect()
        c.request("GET", FILES + "/big.bin")
        answer = c.getresponse()
        while data := answer.read(1 << 16):
            got.update(data)
        c.close()
        stop.set()
        watcher.join()
        equal(got.hexdigest(), digest)
        contains(json.dumps(s.run("import hashlib; print(hashlib.sha256(open('big.bin', 'rb').read()).hexdigest())")),
                 digest)
        grown = server_memory(s) - before
        assert grown < 24 << 20, "the server grew by %.1f MB" % (grown / 1e6)
        assert slowest[0] < 2, "another client waited %.2f s" % slowest[0]


@check
def a_reader_who_does_not_read_holds_little():
    with Server(args=["--max-upload", "200M"]) as s:
        c = s.connect()
        c.request("PUT", FILES + "/big.bin", b"x" * (60 << 20))
        equal(c.getresponse().status, 201)
        c.close()
        before = server_memory(s)
        readers = []
        for _ in range(20):
            one = s.raw()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.sendall(("GET %s/big.bin HTTP/1.1\r\nHost: localhost\r\n\r\n" % FILES).encode())
            readers.append(one)
        for one in readers:
            contains(one.recv(64), b"200 OK")
        time.sleep(0.5)
        grown = server_memory(s) - before
        assert grown < 30 << 20, "20 readers take %.1f MB" % (grown / 1e6)
        for one in readers:
            one.close()
        eventually(lambda: open_descriptors(s, "big.bin") == 0)


@check
def one_users_readers_leave_room_for_others():
    with Server(env={"API_KEY": "k"}, key="k") as s:
        who = s.post("/api/v1/users", {"name": "other", "rights": ["read", "run"]}).json()["id"]
        other = s.post("/api/v1/keys", {"user": who, "name": "k"}).json()["key"]
        put(s, "big.bin", b"x" * (16 << 20))
        readers = []
        for _ in range(256):
            one = s.raw()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.sendall(("GET %s/big.bin HTTP/1.1\r\nHost: localhost\r\nX-API-Key: k\r\n\r\n" % FILES).encode())
            contains(one.recv(64), b"200 OK")
            readers.append(one)
        refused = get(s, "big.bin")
        equal((refused.status, refused.json()["error"]["kind"], refused.header("retry-after")), (429, "too_many", "1"))
        equal(put(s, "mine.txt", b"1", key=other).status, 201)
        for one in readers:
            one.close()
        eventually(lambda: get(s, "big.bin").status == 200)


def open_descriptors(s: Server, name: str) -> int:
    found = 0
    folder = "/proc/%d/fd" % s.server_pid()
    for fd in os.listdir(folder):
        try:
            found += name in os.readlink(os.path.join(folder, fd))
        except OSError:
            pass
    return found


@check
def who_leaves_in_the_middle_leaves_nothing():
    s = open_server()
    for how in ("put", "post"):
        one = s.raw()
        if how == "put":
            head = "PUT %s/left.bin HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000000\r\n\r\n" % FILES
        else:
            head = ("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000000\r\n"
                    "Content-Type: multipart/form-data; boundary=b\r\n\r\n"
                    "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"kept.bin\"\r\n\r\nkept\r\n"
                    "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"left.bin\"\r\n\r\n") % FILES
        one.sendall(head.encode() + b"x" * 3000000)
        eventually(lambda: temp_files(s) != [])
        one.close()
        eventually(lambda: temp_files(s) == [])
        equal(get(s, "left.bin").status, 404)
        equal(get(s, "kept.bin").status, 404 if how == "put" else 200)
    for _ in range(50):  # at any moment
        one = s.raw()
        one.sendall(("PUT %s/left.bin HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n" % FILES).encode())
        one.sendall(os.urandom(1000) * int.from_bytes(os.urandom(1), "big"))
        one.close()
    eventually(lambda: temp_files(s) == [])
    equal(get(s, "left.bin").status, 404)
    eventually(lambda: open_descriptors(s, "/files") == 0)


@check
def a_sandbox_that_is_reset_takes_no_upload_from_before():
    s = open_server()
    name = s.post("/api/v1/sandboxes", {"name": "reset-me"}).json()["id"]
    c = s.connect()
    c.putrequest("PUT", "/api/v1/sandboxes/%s/files/late.txt" % name)
    c.putheader("Content-Length", "10")
    c.endheaders()
    c.send(b"12345")
    eventually(lambda: temp_files(s) != [])
    equal(s.post("/api/v1/sandboxes/%s/reset" % name).status, 200)
    c.send(b"67890")
    equal(c.getresponse().status, 409)
    c.close()
    equal(s.get("/api/v1/sandboxes/%s/files" % name).json()["files"], [])


@check
def a_stop_in_the_middle_is_clean():
    with Server() as s:
        one = s.raw()
        one.sendall(("PUT %s/left.bin HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000000\r\n\r\n"
                     % FILES).encode() + b"x" * 1000000)
        eventually(lambda: temp_files(s) != [])
        start = time.monotonic()
        status = s.stop(signal.SIGTERM)
        assert time.monotonic() - start < 15
        equal(status, 0, s.log_text()[-500:])
        equal(temp_files(s), [])
        one.close()


@check
def every_reply_obeyed_the_published_schema():
    equal(open_server().problems, [])


main()
