#!/usr/bin/python3
"""Fetches of the server itself: by an address and a rule, and of the index. An egress process without an
engine (tests/lib/egress.py), against servers on loopback."""
from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import wheels  # noqa: E402
from check import check, contains, equal, main  # noqa: E402
from egress import Egress  # noqa: E402
from index import Index  # noqa: E402
from test_ca import TestCa  # noqa: E402

WHEEL = "thing-1.0-py3-none-any.whl"
JSON = "application/vnd.pypi.simple.v1+json"


class Fetcher(Egress):
    """With the credentials as the engine tells them."""

    def __init__(self, *, index_user: str | None = None, index_password: str | None = None, **config: Any):
        limits = {"idle_ms": 2000, **{k: config.pop(k) for k in ("fetches", "hour_bytes") if k in config}}
        super().__init__(setup={"index_user": index_user, "index_password": index_password}, limits=limits, **config)

    def refused(self, word: str, why: str, url: str, **how: Any) -> None:
        end, _ = self.fetch(url, **how)
        equal(end.get("error"), word, str(end))
        contains(end["why"], why)


def private(*servers: Any) -> list[str]:
    return ["%s:%d" % (s.name, port) for s in servers for port in {s.port, s.files_port}]


def in_folder(function):
    def with_folder():
        with tempfile.TemporaryDirectory(prefix="kr-wheels-") as folder:
            function(Path(folder))
    with_folder.__name__ = function.__name__
    return check(with_folder)


def link_of(page: bytes, name: str) -> str:
    """The path of a file on a page in JSON, beneath "index:"."""
    rows = {row["filename"]: row for row in json.loads(page)["files"]}
    assert name in rows, "%s is not on the page" % name
    assert rows[name]["url"].startswith("/index/")
    return rows[name]["url"].removeprefix("/index/").partition("#")[0]


# ---- by an address ----

@in_folder
def an_address_is_fetched_with_its_hash(folder: Path):
    with Index() as server, Fetcher(private_hosts=private(server)) as f:
        file = server.add(wheels.wheel(folder, "thing", pad=300_000))
        end, data = f.fetch(server.file_url(WHEEL))
        equal((end["status"], end["bytes"], end["sha256"], end["name"], end["promised"]),
              (200, len(file.data), file.sha256, WHEEL, ""))
        equal(data, file.data)
        end, data = f.fetch(server.file_url("none.whl"))
        equal((end["status"], data), (404, b"not here\n"))
        end, data = f.fetch(server.file_url("none.whl"), accept="text/plain;q=0.5")
        equal(server.requests()[-1].headers["accept"], "text/plain;q=0.5")
        row = f.rows[0]
        equal((row["how"], row["method"], row["host"], row["port"], row["address"], row["status"], row["verdict"]),
              ("fetch", "GET", "127.0.0.1", server.port, "127.0.0.1", 200, "ok"))
        assert row["received"] > len(file.data) and row["sent"] > 0


@in_folder
def every_way_to_end_a_body_is_read(folder: Path):
    with Index() as server, Fetcher(private_hosts=private(server)) as f:
        file = server.add(wheels.wheel(folder, "thing", pad=200_000))
        for fault in ({"no_length": True}, {"chunked": True}, {}):
            server.fault(WHEEL, **fault)
            equal(f.fetch(server.file_url(WHEEL))[1], file.data, str(fault))
        for fault in ({"cut": 1000}, {"cut": 1000, "chunked": True}):
            server.fault(WHEEL, **fault)
            f.refused("failed", "cut the answer short", server.file_url(WHEEL))


@in_folder
def names_come_from_the_header_or_the_address(folder: Path):
    with Index() as server, Fetcher(private_hosts=private(server)) as f:
        server.add(wheels.wheel(folder, "thing"), name="a b.bin")
        equal(f.fetch(server.file_url("a b.bin"))[0]["name"], "a b.bin")
        for header, name in (('attachment; filename="x y.csv"', "x y.csv"), ("attachment; filename=z.csv", "z.csv"),
                             ('attachment; filename="../../etc/passwd"', "passwd"), ("attachment", "a b.bin"),
                             ('attachment; filename=".."', "a b.bin")):
            server.fault("a b.bin", headers={"Content-Disposition": header})
            equal(f.fetch(server.file_url("a b.bin"))[0]["name"], name, header)


@in_folder
def the_rule_judges_the_address_and_every_redirect(folder: Path):
    with Index() as server, Index() as other, Fetcher(private_hosts=private(server, other)) as f:
        server.add(wheels.wheel(folder, "thing"))
        other.add(folder / WHEEL)
        rule = "allow:127.0.0.1:%d" % server.port
        equal(f.fetch(server.file_url(WHEEL), rule=rule)[0]["status"], 200)
        f.refused("denied", "not allowed by the network rule", other.file_url(WHEEL), rule=rule)
        f.refused("denied", "not allowed by the network rule", server.file_url(WHEEL), rule="none")
        server.fault(WHEEL, redirect=other.file_url(WHEEL))
        f.refused("denied", "not allowed by the network rule", server.file_url(WHEEL), rule=rule)
        equal(other.count(), 0)
        end, _ = f.fetch(server.file_url(WHEEL), rule=rule + ",127.0.0.1:%d" % other.port)
        equal((end["status"], other.count()), (200, 1))
        equal([r["verdict"] for r in f.rows], ["ok", "denied", "denied", "ok", "denied", "ok", "ok"])
        f.refused("failed", "more than 10 redirects", _loop(server, folder))


def _loop(server: Index, folder: Path) -> str:
    server.add(folder / WHEEL, name="loop.whl", redirect=server.file_url("loop.whl"))
    return server.file_url("loop.whl")


@in_folder
def private_addresses_are_refused(folder: Path):
    with Index() as server, Fetcher() as f:
        server.add(wheels.wheel(folder, "thing"))
        f.refused("denied", "not on the public internet", server.file_url(WHEEL))
        f.refused("denied", "not on the public internet", "http://localhost:%d/" % server.port)
        f.refused("denied", "not on the public internet", "http://169.254.169.254/latest/meta-data/")
        for url in ("ftp://127.0.0.1/", "http://u:p@127.0.0.1/", "http://127.0.0.1:0/", "file:///etc/passwd"):
            equal(f.fetch(url)[0]["error"], "failed", url)
        equal(server.count(), 0)
    with Index() as server, Index() as inner, Fetcher(private_hosts=private(server)) as f:
        server.add(folder / WHEEL, redirect=inner.file_url(WHEEL))
        f.refused("denied", "not on the public internet", server.file_url(WHEEL))
        equal((server.count(), inner.count()), (1, 0))


@in_folder
def bytes_and_time_are_bounded(folder: Path):
    with Index() as server, Fetcher(private_hosts=private(server)) as f:
        size = len(server.add(wheels.wheel(folder, "thing", pad=100_000)).data)
        equal(f.fetch(server.file_url(WHEEL), max_bytes=size)[0]["bytes"], size)
        f.refused("limit", "larger than", server.file_url(WHEEL), max_bytes=size - 1)
        server.fault(WHEEL, chunked=True)
        number = f.start(server.file_url(WHEEL), max_bytes=50_000)
        equal(f.end(number)["error"], "limit")
        assert f.path(number).stat().st_size <= 50_000
        server.fault(WHEEL, slow=10_000)
        f.refused("timeout", "in time", server.file_url(WHEEL), timeout_ms=500)
        server.fault(WHEEL, stall=4)
        f.refused("timeout", "sent nothing", server.file_url(WHEEL))
    with Index() as server, Fetcher(private_hosts=private(server), hour_bytes=50_000) as f:
        server.add(folder / WHEEL)
        f.refused("limit", "hour", server.file_url(WHEEL))


@in_folder
def progress_is_told_and_a_fetch_is_cancelled(folder: Path):
    with Index() as server, Fetcher(private_hosts=private(server)) as f:
        size = len(server.add(wheels.wheel(folder, "thing", pad=200_000), slow=400_000).data)
        f.fetch(server.file_url(WHEEL))
        told = [(done, total) for _, done, total in f.progress]
        assert len(told) >= 2 and told == sorted(told) and {total for _, total in told} == {size}, told
        server.fault(WHEEL, slow=10_000)
        number = f.start(server.file_url(WHEEL))
        while not any(row[0] == number for row in f.progress):
            f.take()
        f.tell(cancel=number)
        equal(f.end(number), {"error": "failed", "why": "cancelled"})


@in_folder
def so_many_run_at_a_time(folder: Path):
    with Index() as server, Fetcher(private_hosts=private(server), fetches=2) as f:
        server.add(wheels.wheel(folder, "thing", pad=20_000), slow=50_000)
        numbers = [f.start(server.file_url(WHEEL)) for _ in range(6)]
        f.tell(cancel=numbers[5])
        equal(f.end(numbers[5])["error"], "failed")
        equal(server.count() <= 2, True)
        for number in numbers[:5]:
            equal(f.end(number)["status"], 200)
        equal(server.count(), 5)


# ---- TLS ----

@in_folder
def certificates_are_checked(folder: Path):
    ca, stranger = TestCa(), TestCa(name="Another CA")
    with Index(tls=ca) as server, Fetcher(private_hosts=private(server), ca_file=str(ca.pem)) as f:
        file = server.add(wheels.wheel(folder, "thing", pad=500_000))
        equal(f.fetch(server.file_url(WHEEL))[1], file.data)
        equal(f.rows[-1]["status"], 200)
        server.fault(WHEEL, cut=1000)
        equal(f.fetch(server.file_url(WHEEL))[0]["error"], "failed")
        server.fault(WHEEL, redirect="http://localhost:%d/" % server.port)
        f.refused("failed", "https to http", server.file_url(WHEEL))
    with Index(tls=stranger) as server, Fetcher(private_hosts=private(server), ca_file=str(ca.pem)) as f:
        server.add(folder / WHEEL)
        f.refused("failed", "certificate of localhost is not accepted", server.file_url(WHEEL))
        equal(server.count(), 0)
    with Index(tls=ca) as server, Fetcher(private_hosts=private(server)) as f:  # the system's do not know it
        f.refused("failed", "is not accepted", server.file_url(WHEEL))


class _Names:
    """A CA whose servers have other names, or too old certificates."""

    def __init__(self, ca: TestCa, *names: str, **how: Any):
        self.ca, self.names, self.how = ca, names, how

    def server(self, *_: str) -> Any:
        return self.ca.server(*self.names, **self.how)


@in_folder
def the_name_and_the_time_are_checked(folder: Path):
    ca = TestCa()
    wheels.wheel(folder, "thing")
    for names, how, why in ((("other.example",), {}, "ostname mismatch"), (("localhost",), {"days": -1}, "expired"),
                            (("127.0.0.1",), {}, "ostname mismatch")):
        with Index(tls=_Names(ca, *names, **how)) as server, \
                Fetcher(private_hosts=private(server), ca_file=str(ca.pem)) as f:
            f.refused("failed", why, server.file_url(WHEEL))
            equal(server.count(), 0)
    with Index(tls=_Names(ca, "127.0.0.1")) as server, \
            Fetcher(private_hosts=["127.0.0.1"], ca_file=str(ca.pem)) as f:
        server.add(folder / WHEEL)
        equal(f.fetch("https://127.0.0.1:%d/files/%s" % (server.port, WHEEL))[0]["status"], 200)


# ---- the index ----

@in_folder
def pages_and_files_of_the_index_are_fetched(folder: Path):
    ca = TestCa()
    for more in ({}, {"auth": ("user", "p:w/d"), "apart": True}, {"tls": ca}, {"relative": True}):
        with Index(**more) as index:
            user, word = index.auth or (None, None)
            with Fetcher(index_url=index.plain_url, index_user=user, index_password=word, ca_file=str(ca.pem),
                         index_hosts=["%s:%d" % (index.name, index.files_port)]) as f:
                file = index.add(wheels.wheel(folder, "thing", pad=100_000))
                end, page = f.fetch("index:simple/thing/", accept=JSON, rule="none")
                equal((end["status"], end["type"]), (200, JSON), str(end))
                end, data = f.fetch("index:" + link_of(page, WHEEL))
                equal((data, end["promised"], end["sha256"], end["name"]),
                      (file.data, file.sha256, file.sha256, WHEEL))
                end, data = f.fetch("index:" + link_of(page, WHEEL) + ".metadata")
                equal((data, end["promised"]), (file.metadata, ""))
                end, page = f.fetch("index:simple/thing/")
                contains(end["type"], "text/html")
                contains(page.decode(), "#sha256=" + file.sha256)
                end, page = f.fetch("index:simple/")
                contains(page.decode(), ">thing</a>")
                end, page = f.fetch("index:simple/no-such/")
                equal((end["status"], page), (404, b""))


@in_folder
def credentials_go_to_the_index_alone(folder: Path):
    with Index(auth=("user", "word"), apart=True) as index:
        file = index.add(wheels.wheel(folder, "thing"))
        with Fetcher(index_url=index.plain_url, index_user="user", index_password="word",
                     index_hosts=["127.0.0.1:%d" % index.files_port]) as f:
            page = f.fetch("index:simple/thing/", accept=JSON)[1]
            equal(f.fetch("index:" + link_of(page, WHEEL))[1], file.data)
            equal([("authorization" in one.headers, one.port == index.port) for one in index.requests()],
                  [(True, True), (False, False)])
            index.fault("/simple/thing/", redirect="http://127.0.0.1:%d/simple/thing/" % index.files_port)
            f.fetch("index:simple/thing/")
            assert "authorization" not in index.requests()[-1].headers
        with Fetcher(index_url=index.plain_url) as f:
            f.refused("failed", "wants credentials", "index:simple/thing/")
        with Fetcher(index_url=index.plain_url, index_user="user", index_password="s3cr3t") as f:
            f.refused("failed", "does not accept the credentials", "index:simple/thing/")
            assert "s3cr3t" not in json.dumps([f.rows, f.ends])


@in_folder
def files_come_from_named_hosts_alone(folder: Path):
    with Index(apart=True) as index, Index() as other:
        index.add(wheels.wheel(folder, "thing"))
        other.add(folder / WHEEL)
        with Fetcher(index_url=index.plain_url) as f:
            equal(json.loads(f.fetch("index:simple/thing/", accept=JSON)[1])["files"], [])
        with Fetcher(index_url=index.plain_url, index_hosts=["127.0.0.1:%d" % index.files_port]) as f:
            link = link_of(f.fetch("index:simple/thing/", accept=JSON)[1], WHEEL)
            equal(f.fetch("index:" + link)[0]["status"], 200)
            index.fault(WHEEL, redirect=other.file_url(WHEEL))
            f.refused("denied", "pypi-file-hosts", "index:" + link)
            equal(other.count(), 0)
            mac = link.split("/")[1]
            for wrong in ("file/%s/-/%s/x.whl" % (mac, quote(other.file_url(WHEEL), safe="")),
                          link.replace("file/", "file/0", 1), link.replace("thing", "other")):
                assert f.fetch("index:" + wrong)[0].get("error") in ("denied", "failed"), wrong
            equal(other.count(), 0)
        with Fetcher(index_url=index.plain_url, index_hosts=["127.0.0.1:%d" % index.files_port]) as f:
            f.refused("denied", "read the project's page again", "index:" + link)  # another process, another key


@in_folder
def a_bad_index_gives_a_clear_error(folder: Path):
    with Index() as index, Fetcher(index_url=index.plain_url) as f:
        index.add(wheels.wheel(folder, "thing"))
        page = "/simple/thing/"
        for fault, word, why in (({"status": 500}, "failed", "answered 500"), ({"cut": 20}, "failed", "cut the answer"),
                                 ({"stall": 5}, "timeout", "the package index sent nothing"),
                                 ({"headers": {"Content-Encoding": "gzip"}}, "failed", "compressed")):
            index.fault(page, **fault)
            f.refused(word, why, "index:simple/thing/")
        index.fault(page)
        index.pages[page] = (JSON, b'{"files": [')
        f.refused("failed", "no page of an index", "index:simple/thing/")
        index.pages[page] = ("image/png", b"x")
        f.refused("failed", "image/png", "index:simple/thing/")
        index.pages[page] = ("text/html", b"<a href='" + b"x" * 70_000 + b"'>x</a>")
        f.refused("limit", "more than 65536 bytes", "index:simple/thing/")
        index.pages[page] = ("text/html", b"<p>padding</p>\n" * (70 << 16))
        f.refused("limit", "more than 64 MiB", "index:simple/thing/")
        for path in ("", "simple/thing/more", "simple/../thing/", "other/", "simple/thing/?x", "simple/a%2fb/"):
            assert "error" in f.fetch("index:" + path)[0], path
        del index.pages[page]
        equal(f.fetch("index:simple/thing/")[0]["status"], 200)
    with Fetcher() as f:
        f.refused("failed", "no package index", "index:simple/thing/")


@in_folder
def a_folder_of_wheels_is_an_index(folder: Path):
    with Fetcher(index_url="file://%s" % folder) as f:
        equal(f.fetch("index:simple/thing/")[0]["status"], 404)
        path = wheels.wheel(folder, "Some.Thing", pad=600_000)
        wheels.wheel(folder, "some_thing", "2.0")
        wheels.sdist(folder, "some-thing", "3.0")
        wheels.wheel(folder, "other")
        (folder / "some_thing-9-py3-none-any.whl").symlink_to("/etc/passwd")
        (folder / "notes.txt").write_text("x")
        page = f.fetch("index:simple/some-thing/")[1].decode()
        equal(page.count("<a "), 3, page)
        contains(page, "#sha256=" + wheels.sha256(path))
        link = next(part for part in page.split('"') if path.name in part and part.startswith("/index/"))
        link = link.removeprefix("/index/").partition("#")[0]
        end, data = f.fetch("index:" + link)
        equal((data, end["promised"], end["sha256"], end["name"]),
              (path.read_bytes(), wheels.sha256(path), wheels.sha256(path), path.name))
        projects = f.fetch("index:simple/")[1].decode()
        equal((projects.count(">some-thing</a>"), projects.count(">other</a>"), projects.count("<a ")), (1, 1, 2))
        equal(f.rows, [])
        wheels.wheel(folder, "some_thing", "2.0", pad=10)  # other bytes of the same name are seen
        newer = folder / "some_thing-2.0-py3-none-any.whl"
        contains(f.fetch("index:simple/some_thing/")[1].decode(), wheels.sha256(newer))
        path.unlink()
        equal(f.fetch("index:" + link)[0]["status"], 404)


main()
