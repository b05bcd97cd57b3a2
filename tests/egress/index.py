#!/usr/bin/python3
"""The package index as cells have it: /index/… of their listener. An egress process without an engine
(tests/lib/egress.py), an index on loopback. That pip itself is content with it: tests/integration/index_in_cell.py."""
from __future__ import annotations

import json
import os
import re
import socket
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import wheels  # noqa: E402
from check import check, contains, equal, main  # noqa: E402
from egress import HOST, Cell, Egress  # noqa: E402
from index import Index  # noqa: E402
from test_ca import TestCa  # noqa: E402

WHEEL = "thing-1.0-py3-none-any.whl"
JSON = "application/vnd.pypi.simple.v1+json"
PAGE = "/index/simple/thing/"


def in_folder(function):
    def with_folder():
        with tempfile.TemporaryDirectory(prefix="kr-wheels-") as folder:
            function(Path(folder))
    with_folder.__name__ = function.__name__
    return check(with_folder)


def link_of(cell: Cell, name: str = WHEEL) -> str:
    status, headers, page = cell.get(PAGE, headers={"Accept": JSON})
    equal((status, headers["content-type"]), (200, JSON), page.decode())
    rows = {row["filename"]: row for row in json.loads(page)["files"]}
    return rows[name]["url"].partition("#")[0]


@in_folder
def pages_and_files_reach_the_cell(folder: Path):
    ca = TestCa()
    with Index(tls=ca, auth=("user", "w0rd-of-the-index"), apart=True) as index, \
            Egress(index_url=index.plain_url, ca_file=str(ca.pem),
                   index_hosts=["localhost:%d" % index.files_port],
                   setup={"index_user": "user", "index_password": "w0rd-of-the-index"}) as egress:
        file = index.add(wheels.wheel(folder, "thing", pad=3_000_000))
        cell = egress.cell(rule="index")
        status, headers, page = cell.get(PAGE)
        equal((status, headers["cache-control"]), (200, "no-store"))
        contains(headers["content-type"], "text/html")
        link = link_of(cell)
        status, headers, data = cell.get(link)
        equal((status, data, headers["content-length"]), (200, file.data, str(len(file.data))))
        status, headers, data = cell.get(link + ".metadata")
        equal((status, data), (200, file.metadata))
        status, headers, data = cell.get(link, method="HEAD")
        equal((status, data, headers["content-length"]), (200, b"", str(len(file.data))))
        equal(index.requests("/files/" + WHEEL)[-1].method, "HEAD")
        row = egress.row(lambda r: r["port"] == index.files_port and r["received"] > len(file.data))
        equal((row["how"], row["method"], row["host"], row["address"], row["status"], row["verdict"], row["cell"]),
              ("index", "GET", "localhost", "127.0.0.1", 200, "ok", cell.number))
        told = json.dumps([page.decode(), headers, egress.rows])
        assert "w0rd" not in told and "user:" not in told


@in_folder
def parts_of_files_reach_the_cell(folder: Path):
    """So that a resolver need not fetch a wheel as a whole where the index has no metadata beside it."""
    with Index(ranges=True) as index, Egress(index_url=index.plain_url) as egress:
        data = index.add(wheels.wheel(folder, "thing", pad=100_000)).data
        cell = egress.cell(rule="index")
        link = link_of(cell)
        equal(cell.get(link, method="HEAD")[1]["accept-ranges"], "bytes")
        for asked, part, at in (("bytes=10-19", data[10:20], 10), ("bytes=100-", data[100:], 100),
                                ("bytes=-7", data[-7:], len(data) - 7)):
            status, headers, told = cell.get(link, headers={"Range": asked})
            equal((status, told), (206, part), asked)
            equal(headers["content-range"], "bytes %d-%d/%d" % (at, at + len(part) - 1, len(data)))
        for asked in ("bytes=0-1,5-6", "bytes=-", "items=0-1", "bytes=1-2x", "bytes=0-" + "1" * 80):
            status, headers, told = cell.get(link, headers={"Range": asked})
            equal((status, told, "content-range" in headers), (200, data, False), asked)
        equal(index.requests("/files/" + WHEEL)[-1].headers.get("range"), None)
        equal(cell.get(PAGE, headers={"Range": "bytes=0-9"})[0], 200)
        index.fault(WHEEL, headers={"Content-Range": "items 1 of 2"})
        equal(cell.get(link, headers={"Range": "bytes=0-9"})[0], 502)
    with Index() as index, Egress(index_url=index.plain_url) as egress:  # one that has no parts
        data = index.add(wheels.wheel(folder, "thing")).data
        cell = egress.cell(rule="index")
        status, headers, told = cell.get(link_of(cell), headers={"Range": "bytes=0-9"})
        equal((status, told, "accept-ranges" in headers), (200, data, False))


@in_folder
def a_connection_serves_one_after_the_other(folder: Path):
    with Index() as index, Egress(index_url=index.plain_url) as egress:
        file = index.add(wheels.wheel(folder, "thing", pad=100_000))
        cell = egress.cell(rule="index")
        link = link_of(cell)
        with socket.create_connection(("127.0.0.1", cell.port), timeout=20) as s:
            for path in (link, PAGE, link):  # sent at once
                s.sendall(b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (path.encode(), HOST.encode()))
            reader = s.makefile("rb")
            for expected in (file.data, None, file.data):
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    head += reader.readline()
                contains(head, b"HTTP/1.1 200")
                length = re.search(rb"Content-Length: (\d+)", head)
                if length:
                    equal(reader.read(int(length[1])), expected)
                else:
                    while size := int(reader.readline(), 16):
                        reader.read(size + 2)
                    reader.readline()
        with socket.create_connection(("127.0.0.1", cell.port), timeout=20) as s:  # no chunks for HTTP/1.0
            s.sendall(b"GET %s HTTP/1.0\r\nHost: %s\r\n\r\n" % (PAGE.encode(), HOST.encode()))
            text = s.makefile("rb").read()
            assert b"chunked" not in text and text.endswith(b"</html>\n"), text[-200:]


@in_folder
def what_the_index_is_not_for_is_refused(folder: Path):
    with Index() as index, Index() as other, Egress(index_url=index.plain_url) as egress:
        index.add(wheels.wheel(folder, "thing"))
        other.add(folder / WHEEL)
        cell = egress.cell(rule="index")
        link = link_of(cell)
        before = index.count()
        for path, wanted in (("/index/simple/thing", 200), ("/index/", 404), ("/index/simple/../simple/thing/", 404),
                             ("/index/simple/thing/?x=1", 404), ("/index/simple/a%2f..%2f/", 404), ("/other", 404),
                             (link.replace("thing", "other"), 403), (link.replace("/file/", "/file/0"), 404),
                             (re.sub("127.0.0.1%3A[0-9]+", "127.0.0.1%%3A%d" % other.port, link), 403)):
            status, headers, text = cell.get(path)
            equal(status, wanted, path + " " + text.decode())
            equal("x-krait-denied" in headers, wanted == 403, path)
        equal(cell.get(PAGE, method="POST", body=b"x")[0], 405)
        equal(cell.get(PAGE, method="GET", body=b"x")[0], 400)
        equal((index.count() - before, other.count()), (1, 0))
        equal(cell.get(link)[0], 200)
        contains(egress.row(lambda r: r["status"] == 403)["why"], "no page of the index named this file")


@in_folder
def a_bad_index_is_told_in_words(folder: Path):
    with Index() as index, Egress(index_url=index.plain_url, limits={"idle_ms": 1500}) as egress:
        file = index.add(wheels.wheel(folder, "thing", pad=400_000))
        cell = egress.cell(rule="index")
        link = link_of(cell)
        for fault, status, why in (({"status": 500}, 502, "the index answered 500"), ({"stall": 5}, 504, "sent nothing"),
                                   ({"status": 404}, 404, "does not have thing"), ({"status": 401}, 502, "credentials")):
            index.fault("/simple/thing/", **fault)
            got, _, text = cell.get(PAGE)
            equal(got, status, str(fault))
            contains(text.decode(), why)
        index.fault(WHEEL, cut=200_000)
        try:
            data = cell.get(link)[2]
        except Exception as error:
            data = getattr(error, "partial", b"")
        assert len(data) < len(file.data)
        contains(egress.row(lambda r: "cut" in r["why"])["verdict"], "failed")
        index.fault(WHEEL, body=b"x" * 100)
        equal(cell.get(link)[0], 200)  # clients check the hash themselves; the row says it
        egress.row(lambda r: "not the one whose hash" in r["why"] and r["verdict"] == "failed")
        index.fault(WHEEL, stall=5)
        equal(cell.get(link)[0], 504)
        index.fault(WHEEL)
        equal(cell.get(link)[2], file.data)


@in_folder
def a_slow_client_holds_little(folder: Path):
    with Index() as index, Egress(index_url=index.plain_url) as egress:
        index.add(wheels.wheel(folder, "thing"))
        cell = egress.cell(rule="index")
        link = link_of(cell)
        large = os.urandom(1 << 20) * 30
        index.fault(WHEEL, body=large)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            s.settimeout(30)
            s.connect(("127.0.0.1", cell.port))
            s.sendall(b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (link.encode(), HOST.encode()))
            first = s.recv(65536)
            cell.get(PAGE)  # others are served meanwhile
            rest = s.makefile("rb").read()
        head, _, body = (first + rest).partition(b"\r\n\r\n")
        assert body == large, "%d bytes" % len(body)
        with socket.create_connection(("127.0.0.1", cell.port), timeout=20) as s:  # one that leaves
            s.sendall(b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (link.encode(), HOST.encode()))
            s.recv(1000)
        egress.row(lambda r: "client closed" in r["why"])
        cell.drop()
        again = egress.cell(rule="index")
        equal(again.get(PAGE)[0], 200)


@in_folder
def a_rule_without_the_index_has_none(folder: Path):
    with Index() as index, Egress(index_url=index.plain_url) as egress:
        index.add(wheels.wheel(folder, "thing", pad=3_000_000), slow=500_000)
        for rule in ("index", "allow:example.org", "open"):
            equal(egress.cell(rule=rule).get(PAGE)[0], 200, rule)
        cell = egress.cell(rule="index")
        link = link_of(cell)
        with socket.create_connection(("127.0.0.1", cell.port), timeout=20) as s:
            s.sendall(b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (link.encode(), HOST.encode()))
            s.recv(1000)
            cell.drop()  # what is under way ends with the cell
            assert len(s.makefile("rb").read()) < 3_000_000
    with Egress() as egress:
        contains(egress.cell(rule="index").get(PAGE)[2].decode(), "no package index")


@in_folder
def a_folder_of_wheels_is_served(folder: Path):
    path = wheels.wheel(folder, "thing", pad=2_000_000)
    with Egress(index_url="file://%s" % folder) as egress:
        cell = egress.cell(rule="index")
        status, headers, page = cell.get(PAGE)
        equal(status, 200)
        link = re.search(r'href="(/index/file/[^"#]+)#sha256=(\w+)">' + WHEEL, page.decode())
        equal(link[2], wheels.sha256(path))
        equal(cell.get(link[1])[2], path.read_bytes())
        equal(cell.get(link[1], method="HEAD")[1]["content-length"], str(path.stat().st_size))
        equal(cell.get("/index/simple/none/")[0], 404)
        equal(cell.get(link[1] + ".metadata")[0], 404)
        contains(cell.get("/index/simple/")[2].decode(), "/index/simple/thing/")
        path.unlink()
        equal((cell.get(link[1])[0], cell.get(PAGE)[0]), (404, 404))


main()
