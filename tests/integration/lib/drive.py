"""Drives the program under test for the integration suites: `krait run` once, krait-engine as long as needed.

Invariant: everything started here is ended here, and every wait has a deadline.
"""
from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
import time
from typing import Any, Callable, Optional

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
KRAIT = os.path.abspath(os.environ.get("KRAIT", os.path.join(ROOT, "build/krait")))
# The engine driven by lines of JSON: tests/programs/engine.
KRAIT_ENGINE = os.path.join(os.environ.get("KR_BUILD", os.path.dirname(KRAIT)), "tests/krait-engine")
PYTHON = "/usr/bin/python3"
CAUSES = ("ok exception exit timeout memory_limit cpu_limit disk_limit process_limit signal denied interrupted "
          "cancelled lost").split()
RUN_FIELDS = set("cause exit_code stdout stderr result error displays variables truncated limits_hit wall_s cpu_s "
                 "peak_memory_bytes hint limits layers message output_bytes background".split())
SECONDS = 60


def run(*args: str, stdin: Any = b"", seconds: float = SECONDS, **kwargs) -> subprocess.CompletedProcess:
    """`krait run` with these arguments; stdin as bytes or a file."""
    how = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    return subprocess.run([KRAIT, "run", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds, **how,
                          **kwargs)


def run_json(*args: str, **kwargs) -> dict:
    """`krait run --json`: its one object, whose shape is checked, and the exit status as "status"."""
    done = run("--json", *args, **kwargs)
    assert done.stdout.endswith(b"\n") and done.stdout.count(b"\n") == 1, (
        "not one line: %r %r" % (done.stdout[:300], done.stderr[-300:]))
    report = json.loads(done.stdout)
    check_report(report)
    assert RUN_FIELDS == set(report), RUN_FIELDS ^ set(report)
    report["status"] = done.returncode
    report["krait_stderr"] = done.stderr.decode()
    return report


def check_report(report: dict) -> None:
    """What every end of a run must look like."""
    assert report["cause"] in CAUSES, report["cause"]
    assert isinstance(report["exit_code"], int) and 0 <= report["exit_code"] <= 255
    assert report["result"] is None or isinstance(report["result"], str)
    error = report["error"]
    assert error is None or {"type", "message", "traceback", "line", "errno"} <= set(error), error
    assert all(isinstance(name, str) for name in report["variables"])
    assert isinstance(report["truncated"], bool) and isinstance(report["limits_hit"], list)
    assert report["wall_s"] >= 0 and (report["cpu_s"] is None or report["cpu_s"] >= 0)
    assert report["peak_memory_bytes"] is None or report["peak_memory_bytes"] >= 0
    assert report["limits"]["memory"] > 0 and report["layers"]["level"] in ("root", "user", "contained")


class Gone(Exception):
    """The engine does not answer any more."""


class Result:
    """One run of krait-engine."""

    def __init__(self) -> None:
        self.stdout, self.stderr = "", ""
        self.displays: list = []
        self.end: dict = {}
        self.order: list = []  # (event, text) as they came

    @property
    def cause(self) -> str:
        return self.end["cause"]


class Engine:
    """A krait-engine; use as a context."""

    def __init__(self, *args: str) -> None:
        self.process = subprocess.Popen([KRAIT_ENGINE, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.lock = threading.Condition()
        self.answers: dict = {}  # id -> queue of events
        self.unasked: list = []
        self.log = b""
        self.last_id = 0
        self.over = False
        self.threads = [threading.Thread(target=one, daemon=True) for one in (self._read, self._read_log)]
        for thread in self.threads:
            thread.start()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *exc) -> None:
        self.stop()

    def stop(self, seconds: float = 20) -> int:
        """End of input; returns the exit status."""
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def _read(self) -> None:
        for line in self.process.stdout:
            event = json.loads(line)
            with self.lock:
                if event.get("id") is None:
                    self.unasked.append(event)
                else:
                    self.answers.setdefault(event["id"], queue.Queue()).put(event)
                self.lock.notify_all()
        with self.lock:
            self.over = True
            for one in self.answers.values():
                one.put(None)
            self.lock.notify_all()

    def _read_log(self) -> None:
        for line in self.process.stderr:
            self.log += line

    def send(self, op: str, **fields) -> int:
        with self.lock:
            self.last_id += 1
            number = self.last_id
            self.answers[number] = queue.Queue()
        self.process.stdin.write(json.dumps(dict(fields, id=number, op=op)).encode() + b"\n")
        self.process.stdin.flush()
        return number

    def next(self, number: int, seconds: float = SECONDS) -> dict:
        try:
            event = self.answers[number].get(timeout=seconds)
        except queue.Empty:
            raise Gone("no answer to %d within %s s; log %r" % (number, seconds, self.log[-500:])) from None
        if event is None:
            raise Gone("the engine ended; log %r" % self.log[-500:])
        return event

    def ask(self, op: str, **fields) -> dict:
        return self.next(self.send(op, **fields))

    def open(self, **fields) -> int:
        answer = self.ask("open", **fields)
        assert answer["event"] == "opened", answer
        return answer["session"]

    def start(self, session: int, code: str, **fields) -> int:
        return self.send("run", session=session, code=code, **fields)

    def result(self, number: int, seconds: float = SECONDS, on_event: Optional[Callable] = None) -> Result:
        """Follows a run to its end."""
        r = Result()
        while True:
            event = self.next(number, seconds)
            kind = event["event"]
            if on_event:
                on_event(event)
            if kind in ("stdout", "stderr"):
                setattr(r, kind, getattr(r, kind) + event["text"])
                r.order.append((kind, event["text"]))
            elif kind == "display":
                r.displays.append(event)
                r.order.append((kind, ""))
            elif kind == "end":
                check_report(event)
                r.end = event
                return r
            elif kind != "input":
                raise AssertionError(event)

    def run(self, session: int, code: str, **fields) -> Result:
        return self.result(self.start(session, code, **fields))

    def close(self, session: int) -> None:
        answer = self.ask("close", session=session)
        assert answer["event"] == "closed", answer

    def wait(self, found: Callable[[dict], bool], seconds: float = SECONDS) -> dict:
        """An event that no request asked for."""
        deadline = time.monotonic() + seconds
        with self.lock:
            while True:
                for event in self.unasked:
                    if found(event):
                        return event
                left = deadline - time.monotonic()
                if left <= 0 or self.over:
                    raise Gone("it did not come; unasked %r log %r" % (self.unasked[-5:], self.log[-500:]))
                self.lock.wait(left)

    def until(self, true: Callable[[dict], bool], seconds: float = SECONDS) -> dict:
        """Asks for info until it is as wanted."""
        deadline = time.monotonic() + seconds
        while True:
            info = self.ask("info")
            if true(info):
                return info
            assert time.monotonic() < deadline, info
            time.sleep(0.05)


def children(pid: int) -> list:
    """Descendants of a process as (pid, command line), by walking /proc."""
    parents: dict = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name) as file:
                parents.setdefault(int(file.read().rsplit(")", 1)[1].split()[1]), []).append(int(name))
        except OSError:
            continue
    found, queue_ = [], [pid]
    while queue_:
        for child in parents.get(queue_.pop(), []):
            try:
                with open("/proc/%d/cmdline" % child, "rb") as file:
                    found.append((child, file.read().replace(b"\0", b" ").decode(errors="replace")))
            except OSError:
                continue
            queue_.append(child)
    return found
