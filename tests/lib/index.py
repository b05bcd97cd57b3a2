"""A package index on loopback for suites: PEP 503 pages, PEP 691 JSON, PEP 658 metadata, hashes, and faults.

    with Index() as index:
        index.add(wheels.wheel(folder, "thing"))              # a file, yanked="why", requires_python=">=3.8"
        index.fault("thing-1.0-py3-none-any.whl", slow=50_000)
        run(["pip", "download", "--index-url", index.url, "thing"])
        assert index.count("/files/thing-1.0-py3-none-any.whl") == 1

    Index(auth=("user", "word"))     # Basic, for pages and files; index.url has it in
    Index(tls=TestCa())              # https://localhost:PORT/simple/
    Index(ranges=True)               # answers Range with 206
    Index(apart=True)                # files on a server of their own: another port, which asks for no credentials

Faults of a file or of a page ("/simple/thing/"): see Fault. Invariant: it listens on 127.0.0.1, on a port the kernel
chose, and is gone when the block is left.
"""
from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import threading
import time
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import wheels

_JSON = "application/vnd.pypi.simple.v1+json"
_PIECE = 16384


@dataclass
class Fault:
    slow: int = 0  # bytes a second
    stall: float = 0  # seconds before the first byte of the answer
    cut: int | None = None  # bytes after which the connection ends, though Content-Length says more
    status: int = 0  # instead of 200, for the first `times` requests
    times: int = 1 << 30
    wrong_hash: bool = False  # the page names another hash
    no_hash: bool = False  # the page names none
    no_length: bool = False  # HTTP/1.0: no Content-Length, the end is the end of the connection
    chunked: bool = False
    redirect: str = ""  # 302 to this address
    body: bytes | None = None  # instead of the file
    headers: dict[str, str] = field(default_factory=dict)  # beside the others


@dataclass
class File:
    name: str
    project: str
    data: bytes
    sha256: str
    metadata: bytes | None
    yanked: str | None
    requires_python: str
    fault: Fault = field(default_factory=Fault)


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    port: int


class Index:
    def __init__(self, *, auth: tuple[str, str] | None = None, tls: Any = None, apart: bool = False,
                 metadata: bool = True, json_pages: bool = True, relative: bool = False, ranges: bool = False):
        self.auth, self.metadata, self.json_pages, self.relative = auth, metadata, json_pages, relative
        self.ranges = ranges
        self.files: dict[str, File] = {}
        self.faults: dict[str, Fault] = {}  # of pages, by path
        self.pages: dict[str, tuple[str, bytes]] = {}  # path → type, bytes: instead of what we would write
        self.asked: list[Asked] = []
        self.lock = threading.Lock()
        self.tls = tls
        self.servers = [self._listen() for _ in range(2 if apart else 1)]
        self.scheme = "https" if tls else "http"
        self.name = "localhost" if tls else "127.0.0.1"

    # ---- life ----

    def _listen(self) -> ThreadingHTTPServer:
        index = self

        class Handler(_Handler):
            owner = index

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        if self.tls:
            server.socket = self.tls.server("localhost", "127.0.0.1").wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False)
        return server

    def __enter__(self) -> "Index":
        for server in self.servers:
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        for server in self.servers:
            server.shutdown()
            server.server_close()

    # ---- addresses ----

    @property
    def port(self) -> int:
        return self.servers[0].server_address[1]

    @property
    def files_port(self) -> int:
        return self.servers[-1].server_address[1]

    @property
    def plain_url(self) -> str:
        """Without credentials."""
        return "%s://%s:%d/simple/" % (self.scheme, self.name, self.port)

    @property
    def url(self) -> str:
        user = "%s:%s@" % tuple(quote(part, safe="") for part in self.auth) if self.auth else ""
        return "%s://%s%s:%d/simple/" % (self.scheme, user, self.name, self.port)

    def file_url(self, name: str) -> str:
        return "%s://%s:%d/files/%s" % (self.scheme, self.name, self.files_port, quote(name))

    # ---- what it has ----

    def add(self, path: Path | str, *, name: str = "", yanked: str | None = None, requires_python: str = "",
            metadata: bytes | None = None, **fault: Any) -> File:
        """A file, under the project that its name says. `fault`: the members of Fault."""
        path = Path(path)
        file_name = name or path.name
        if metadata is None and path.suffix == ".whl":
            try:
                metadata = wheels.metadata_of(path)
            except Exception:  # what is no wheel has no metadata
                metadata = None
        project = file_name.split("-")[0] if file_name.endswith(".whl") else file_name.rsplit("-", 1)[0]
        one = File(file_name, wheels.canonical(project), path.read_bytes(), wheels.sha256(path), metadata, yanked,
                   requires_python, Fault(**fault))
        with self.lock:
            self.files[file_name] = one
        return one

    def fault(self, name: str, **fault: Any) -> None:
        """Of a file by its name, or of a page by its path; without members: none any more."""
        with self.lock:
            if name in self.files:
                self.files[name].fault = Fault(**fault)
            else:
                self.faults[name] = Fault(**fault)

    # ---- what was asked ----

    def count(self, path: str = "", method: str = "GET") -> int:
        """Requests for a path, or all."""
        with self.lock:
            return sum(1 for one in self.asked if one.method == method and path in ("", one.path))

    def requests(self, path: str = "") -> list[Asked]:
        with self.lock:
            return [one for one in self.asked if path in ("", one.path)]

    def forget(self) -> None:
        with self.lock:
            self.asked.clear()

    # ---- pages ----

    def _rows(self, project: str) -> list[dict]:
        rows = []
        for one in self.files.values():
            if one.project != project:
                continue
            digest = ("0" * 64 if one.fault.wrong_hash else one.sha256)
            rows.append({"file": one, "hash": "" if one.fault.no_hash else digest,
                         "url": "../../files/" + quote(one.name) if self.relative else self.file_url(one.name)})
        return rows

    def page(self, project: str, as_json: bool) -> bytes:
        out = []
        for row in self._rows(project):
            one, digest = row["file"], row["hash"]
            core = None
            if one.metadata is not None and self.metadata:
                core = hashlib.sha256(one.metadata).hexdigest()
            if as_json:
                entry = {"filename": one.name, "url": row["url"], "hashes": {"sha256": digest} if digest else {},
                         "yanked": (one.yanked or True) if one.yanked is not None else False, "size": len(one.data)}
                if one.requires_python:
                    entry["requires-python"] = one.requires_python
                if core:
                    entry["core-metadata"] = {"sha256": core}
                    entry["data-dist-info-metadata"] = {"sha256": core}
                out.append(entry)
                continue
            more = ""
            if one.requires_python:
                more += ' data-requires-python="%s"' % html.escape(one.requires_python)
            if one.yanked is not None:
                more += ' data-yanked="%s"' % html.escape(one.yanked)
            if core:
                more += ' data-dist-info-metadata="sha256=%s" data-core-metadata="sha256=%s"' % (core, core)
            href = row["url"] + ("#sha256=" + digest if digest else "")
            out.append('    <a href="%s"%s>%s</a><br/>' % (html.escape(href), more, html.escape(one.name)))
        if as_json:
            return json.dumps({"meta": {"api-version": "1.1"}, "name": project, "files": out}).encode()
        return ('<!DOCTYPE html>\n<html>\n  <head>\n    <meta name="pypi:repository-version" content="1.1">\n'
                "    <title>Links for %s</title>\n  </head>\n  <body>\n    <h1>Links for %s</h1>\n%s\n"
                "  </body>\n</html>\n" % (project, project, "\n".join(out))).encode()

    def root(self, as_json: bool) -> bytes:
        names = sorted({one.project for one in self.files.values()})
        if as_json:
            return json.dumps({"meta": {"api-version": "1.0"}, "projects": [{"name": n} for n in names]}).encode()
        links = "\n".join('    <a href="/simple/%s/">%s</a>' % (n, n) for n in names)
        return ("<!DOCTYPE html>\n<html>\n  <body>\n%s\n  </body>\n</html>\n" % links).encode()


class _Handler(BaseHTTPRequestHandler):
    owner: Index
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, *_: Any) -> None:
        pass

    def handle(self) -> None:
        try:
            super().handle()
        except (OSError, ValueError):  # the client has gone, or did not trust the certificate
            pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        owner, path = self.owner, unquote(urlsplit(self.path).path)
        port = self.server.server_address[1]
        with owner.lock:
            owner.asked.append(Asked(self.command, path, {k.lower(): v for k, v in self.headers.items()}, port))
        if owner.auth and port == owner.port:
            word = base64.b64encode(("%s:%s" % owner.auth).encode()).decode()
            if self.headers.get("Authorization") != "Basic " + word:
                self._answer(401, "text/plain", b"credentials are needed\n",
                             Fault(headers={"WWW-Authenticate": 'Basic realm="test"'}))
                return
        kind, body, fault = self._find(path)
        if fault.status and fault.times > 0:
            fault.times -= 1
            self._answer(fault.status, "text/plain", b"a fault of the test\n", fault)
        elif fault.redirect:
            self._answer(302, "text/plain", b"", Fault(headers={"Location": fault.redirect, **fault.headers}))
        elif body is None:
            self._answer(404, "text/plain", b"not here\n", fault)
        else:
            self._answer_part(kind, fault.body if fault.body is not None else body, fault)

    def _find(self, path: str) -> tuple[str, bytes | None, Fault]:
        owner = self.owner
        as_json = owner.json_pages and _JSON in (self.headers.get("Accept") or "")
        kind = _JSON if as_json else "text/html; charset=utf-8"
        fault = owner.faults.get(path, Fault())
        if path in owner.pages:
            return (*owner.pages[path], fault)
        if path == "/simple/":
            return kind, owner.root(as_json), fault
        parts = path.strip("/").split("/")
        if parts[0] == "simple" and len(parts) == 2 and path.endswith("/"):
            known = any(one.project == parts[1] for one in owner.files.values())
            return kind, owner.page(parts[1], as_json) if known else None, fault
        if parts[0] == "files" and len(parts) == 2:
            name = parts[1]
            one = owner.files.get(name)
            if one:
                return "application/octet-stream", one.data, one.fault
            base = owner.files.get(name[:-len(".metadata")]) if name.endswith(".metadata") else None
            if base and owner.metadata:
                return "application/octet-stream", base.metadata, fault
        return "", None, fault

    def _answer_part(self, kind: str, body: bytes, fault: Fault) -> None:
        """All of it, or what Range asks for where the index has parts."""
        part = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range") or "") if self.owner.ranges else None
        if not part:
            headers = {"Accept-Ranges": "bytes"} if self.owner.ranges else {}
            self._answer(200, kind, body, replace(fault, headers={**headers, **fault.headers}))
            return
        first, last = part.groups()
        begin = int(first) if first else max(len(body) - int(last), 0)
        end = min(int(last) + 1, len(body)) if first and last else len(body)
        told = {"Content-Range": "bytes %d-%d/%d" % (begin, end - 1, len(body))}
        self._answer(206, kind, body[begin:end], replace(fault, headers={**told, **fault.headers}))

    def _answer(self, status: int, kind: str, body: bytes, fault: Fault) -> None:
        if fault.stall:
            time.sleep(fault.stall)
        if fault.no_length:
            self.protocol_version = "HTTP/1.0"
            self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if fault.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        elif not fault.no_length:
            self.send_header("Content-Length", str(len(body)))
        for name, value in fault.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        self._send(body if fault.cut is None else body[:fault.cut], fault)
        if fault.cut is not None:
            self.close_connection = True

    def _send(self, body: bytes, fault: Fault) -> None:
        piece = max(1, min(_PIECE, fault.slow // 20)) if fault.slow else 1 << 18
        for at in range(0, len(body), piece):
            part = body[at:at + piece]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part) if fault.chunked else part)
            if fault.slow:
                self.wfile.flush()
                time.sleep(len(part) / fault.slow)
        if fault.chunked and fault.cut is None:
            self.wfile.write(b"0\r\n\r\n")
