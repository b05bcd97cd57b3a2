"""Drives krait-engine and `krait run --json` for the suites that use things up: tests/exhaust and
tests/soak.

Invariants: everything started here is ended here; every wait has a deadline; of a run's output only
a bounded head is kept, so that a flood is the engine's burden and not the test's.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from own_user import own_user  # noqa: E402

CAUSES = (
    "ok exception exit timeout memory_limit cpu_limit disk_limit process_limit signal denied interrupted cancelled "
    "lost"
).split()
KEPT = 1 << 20  # characters of each stream that are kept for looking at
SLOWER = float(os.environ.get("KR_SLOWER", "1"))  # an emulated machine is waited for so much longer
USER = own_user()


class Gone(Exception):
    """The engine is not there any more, or does not answer."""


def krait() -> str:
    here = os.path.dirname(os.path.realpath(__file__))
    return os.environ.get("KRAIT") or os.path.join(here, "../../build/krait")


def krait_engine() -> str:
    """The engine driven by lines of JSON: tests/programs/engine."""
    return os.path.join(os.path.dirname(krait()), "tests/krait-engine")


def as_user(user: int | None) -> dict:
    """Arguments of Popen that make the child that user, with nothing of ours but a clean
    environment.
    """
    env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/"}
    if user is None:
        return {"env": env, "cwd": "/"}
    return {"env": env, "cwd": "/", "user": user, "group": user, "extra_groups": []}


@dataclass
class Run:
    """What one run gave. stdout and stderr are heads; the lengths are true."""

    stdout: str = ""
    stderr: str = ""
    lengths: dict = field(default_factory=lambda: {"stdout": 0, "stderr": 0})
    tails: dict = field(default_factory=lambda: {"stdout": "", "stderr": ""})
    displays: list = field(default_factory=list)
    end: dict = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def cause(self) -> str:
        return str(self.end.get("cause"))

    @property
    def hits(self) -> list:
        return sorted(self.end.get("limits_hit") or [])

    @property
    def alive(self) -> bool:
        return bool(self.end.get("session_alive"))

    def take(self, event: dict) -> None:
        kind = event.get("event")
        if kind in ("stdout", "stderr"):
            text, kept = event["text"], getattr(self, kind)
            self.lengths[kind] += len(text)
            self.tails[kind] = (self.tails[kind] + text)[-200:]
            if len(kept) < KEPT:
                setattr(self, kind, kept + text[: KEPT - len(kept)])
        elif kind == "display":
            self.displays.append(event)
        else:
            self.end = event

    def __str__(self) -> str:
        error = self.end.get("error") or {}
        return (
            f"cause {self.cause}, exit {self.end.get('exit_code')}, hits {self.hits}, alive {self.alive}, "
            f"{self.seconds:.1f} s, stdout {self.stdout[-120:]!r}, stderr {self.stderr[-120:]!r}, "
            f"message {self.end.get('message')!r}, error {str(error.get('type'))} {str(error.get('message'))[-120:]!r}"
        )


class Engine:
    """One krait-engine and its line protocol. The process started is the warden; the engine
    proper is its child.
    """

    def __init__(self, *options: str, user: int | None = None, wrap: tuple = ()) -> None:
        """wrap: a program that executes the rest of its arguments, such as prlimit."""
        self.user = user
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [*wrap, krait_engine(), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            **as_user(user),
        )
        self.next_id, self.unasked, self.broken, self.ended = 1, [], [], False
        self.boxes: dict[int, queue.Queue] = {}
        self.lock = threading.Lock()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def _box(self, number: int) -> queue.Queue:
        with self.lock:
            if number not in self.boxes:
                self.boxes[number] = queue.Queue()
                if self.ended:
                    self.boxes[number].put(None)
            return self.boxes[number]

    def _read(self) -> None:
        for line in self.process.stdout:
            try:
                event = json.loads(line.decode("utf-8"))
                number = event.get("id")
            except (ValueError, AttributeError) as e:
                self.broken.append(f"{e}: {line[:100]!r}")
                continue
            if number is None:
                if len(self.unasked) < 100_000:
                    self.unasked.append(event)
            else:
                self._box(number).put(event)
        with self.lock:
            self.ended = True
            for box in self.boxes.values():
                box.put(None)

    def send(self, op: str, **fields: Any) -> int:
        with self.lock:
            number = self.next_id
            self.next_id += 1
            try:
                self.process.stdin.write(
                    json.dumps({"id": number, "op": op, **fields}).encode() + b"\n"
                )
                self.process.stdin.flush()
            except OSError as e:
                raise Gone(f"the engine is gone: {e}: {self.said()}") from e
        return number

    def events(self, number: int, last: tuple, seconds: float):
        """The events of a request up to one of `last`."""
        seconds *= SLOWER
        box, deadline = self._box(number), time.monotonic() + seconds
        while True:
            try:
                event = box.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                raise Gone(
                    f"no {' or '.join(last)} within {seconds:.0f} s: {self.said()}"
                ) from None
            if event is None:
                raise Gone(f"the engine ended: {self.said()}")
            yield event
            if event.get("event") in last:
                with self.lock:
                    del self.boxes[number]
                return

    def answer(self, number: int, *last: str, seconds: float = 60) -> dict:
        event: dict = {}
        for event in self.events(number, last, seconds):
            pass
        return event

    def info(self) -> dict:
        return self.answer(self.send("info"), "info")

    def open(self, limits: dict | None = None, **fields: Any) -> Session:
        return self._opened(self.send("open", limits=limits or {}, **fields))

    def _opened(self, number: int) -> Session:
        got = self.answer(number, "opened", "error")
        if got.get("event") != "opened":
            raise Gone(f"no session: {got.get('message')}")
        return Session(self, got["session"], got["ms"])

    def open_many(self, limits: list[dict]) -> list[Session]:
        """Asks for all of them at once."""
        return [
            self._opened(number) for number in [self.send("open", limits=one) for one in limits]
        ]

    def close_many(self, sessions: list[Session]) -> None:
        for number in [self.send("close", session=session.number) for session in sessions]:
            self.answer(number, "closed", "error")

    def said(self) -> str:
        self.errors.seek(0)
        return f"status {self.process.poll()}, stderr {self.errors.read()[-600:].decode('utf-8', 'replace')!r}"

    def close(self) -> list[str]:
        """Ends it as its users do, by end of input. Complaints."""
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            status = self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return ["the engine did not end within 30 s of its end of input"]
        self.reader.join(timeout=5)
        bad = [f"not a line of JSON: {b}" for b in self.broken[:3]]
        return bad + ([f"the engine ended with {self.said()}"] if status != 0 else [])


class Session:
    def __init__(self, engine: Engine, number: int, ms: float) -> None:
        self.engine, self.number, self.ms = engine, number, ms

    def start(self, code: str, timeout: str = "20s", **fields: Any) -> int:
        return self.engine.send("run", session=self.number, code=code, timeout=timeout, **fields)

    def wait(self, number: int, seconds: float = 60) -> Run:
        run, begun = Run(), time.monotonic()
        for event in self.engine.events(number, ("end", "error"), seconds):
            run.take(event)
        run.seconds = time.monotonic() - begun
        if run.end.get("event") == "error":
            run.end["cause"] = "error: " + str(run.end.get("message"))
        return run

    def run(self, code: str, timeout: str = "20s", seconds: float = 60, **fields: Any) -> Run:
        return self.wait(self.start(code, timeout, **fields), seconds)

    def interrupt(self) -> None:
        self.engine.answer(self.engine.send("interrupt", session=self.number), "done", "error")

    def close(self) -> str:
        """`closed`, or the error's text when it was gone before."""
        got = self.engine.answer(self.engine.send("close", session=self.number), "closed", "error")
        return "closed" if got.get("event") == "closed" else str(got.get("message"))


def run_once(
    code: str, *options: str, user: int | None = None, seconds: float = 90, stdin: str | None = None
) -> Run:
    """`krait run --json OPTIONS -c CODE`."""
    run, begun = Run(), time.monotonic()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            [krait(), "run", "--json", *options, "-c", code],
            stdout=out,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            **as_user(user),
        )
        try:
            said = process.communicate(timeout=seconds)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            run.end = {"cause": f"krait run did not end in {seconds:.0f} s"}
            return run
        run.seconds = time.monotonic() - begun
        out.seek(0)
        text = out.read()
    try:
        run.end = json.loads(text)
        for kind in ("stdout", "stderr"):
            run.take({"event": kind, "text": run.end.pop(kind)})
        run.end["status"] = process.returncode
    except (ValueError, KeyError) as e:
        run.end = {"cause": f"no answer: {e}: status {process.returncode}: {said[-300:]!r}"}
    return run
