"""An egress process of a test's own, without an engine (tests/programs/egress): cells, fetches, rows.

    with Egress(private_hosts=["127.0.0.1:80"], limits={"fetches": 2}) as egress:
        end, data = egress.fetch("http://127.0.0.1:80/")           # as the server itself fetches
        cell = egress.cell(rule="index")                           # a listener, as the code in a cell has it
        status, headers, body = cell.get("/index/simple/")
        row = egress.row(lambda r: r["how"] == "index")

Invariant: the process ends with the block, by itself.
"""
from __future__ import annotations

import http.client
import json
import os
import queue
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Callable

BUILD = os.environ.get("KR_BUILD", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build"))
HOST = "127.0.0.1:3128"  # as which a cell knows its listener


class Cell:
    """What the code in a cell has: the address of its listener."""

    def __init__(self, egress: "Egress", number: int, port: int, said: dict):
        self.egress, self.number, self.port, self.said = egress, number, port, said

    def change(self, **more: Any) -> None:
        self.said.update(more)
        self.egress.tell(rule=self.said)

    def drop(self) -> None:
        self.egress.tell(drop=self.number)

    def get(self, target: str, *, method: str = "GET", host: str = HOST, headers: dict | None = None,
            body: bytes | None = None, seconds: float = 30) -> tuple[int, dict, bytes]:
        """A request on a connection of its own: a path of the listener, or an absolute address (and its host)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        try:
            connection.request(method, target, body, {"Host": host, **(headers or {})})
            reply = connection.getresponse()
            return reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read()
        finally:
            connection.close()


class Egress:
    def __init__(self, *, setup: dict | None = None, **config: Any):
        self.folder = tempfile.TemporaryDirectory(prefix="kr-egress-")
        self.process = subprocess.Popen([os.path.join(BUILD, "tests/egress-driver"), json.dumps(config)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.rows: list[dict] = []
        self.progress: list[tuple] = []
        self.ends: dict[int, dict] = {}
        self.ports: dict[int, int] = {}
        self.count = 0
        self.lines: queue.Queue = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        if setup is not None:
            self.tell(setup=setup)

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def __enter__(self) -> "Egress":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.process.stdin.close()
        status = self.process.wait(20)
        self.folder.cleanup()
        assert kind is not None or status == 0, "the egress process left with %d" % status

    def tell(self, **line: Any) -> None:
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()

    def take(self, seconds: float = 30) -> None:
        """The next line of the process."""
        line = self.lines.get(timeout=seconds)
        assert line is not None, "the egress process is gone"
        if "connection" in line:
            self.rows.append(line["connection"])
        elif "progress" in line:
            self.progress.append((line["id"], *line["progress"]))
        elif "listening" in line:
            self.ports[line["listening"]] = line["port"]
        else:
            assert line["id"] not in self.ends, "a fetch ended twice"
            self.ends[line["id"]] = line["fetched"]

    # ---- cells ----

    def cell(self, *, rule: str = "open", sandbox: str = "s1", **more: Any) -> Cell:
        self.count += 1
        said = {"cell": self.count, "sandbox": sandbox, "user": "u1", "run": "r1", "rule": rule, **more}
        self.tell(cell=said)
        while self.count not in self.ports:
            self.take()
        return Cell(self, self.count, self.ports[self.count], said)

    def row(self, which: Callable[[dict], bool], seconds: float = 20) -> dict:
        """The first row of which it is true, among those that came and those that come."""
        deadline = time.monotonic() + seconds
        while True:
            for row in self.rows:
                if which(row):
                    return row
            try:
                self.take(max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError("no such row among %s" % self.rows) from None

    # ---- fetches ----

    def path(self, number: int) -> Path:
        return Path(self.folder.name) / str(number)

    def start(self, url: str, *, rule: str = "open", max_bytes: int = 1 << 30, timeout_ms: int = 20000,
              **more: Any) -> int:
        self.count += 1
        self.tell(fetch={"url": url, "rule": rule, "sandbox": "s1", "user": "u1", "max_bytes": max_bytes,
                         "timeout_ms": timeout_ms, **more}, id=self.count, file=str(self.path(self.count)))
        return self.count

    def end(self, number: int) -> dict:
        while number not in self.ends:
            self.take()
        return self.ends[number]

    def fetch(self, url: str, **how: Any) -> tuple[dict, bytes]:
        number = self.start(url, **how)
        end = self.end(number)
        return end, self.path(number).read_bytes()
