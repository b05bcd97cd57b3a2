"""Drives the program under test: `krait run --json -c CODE`, krait-engine, and plain python3 for the controls.

Used by run.py and the scenarios. Invariant: everything started here is ended here, and every wait has a deadline.
"""
from __future__ import annotations

import atexit
import base64
import inspect
import itertools
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time
import zlib
from dataclasses import dataclass, field
from typing import Any, Optional

import probe
from model import Context

PYTHON = "/usr/bin/python3"
RUN_SECONDS = 600  # never reached unless something hangs; emulation is slow
ROTATION_SECONDS = 120  # a start of a zygote, with all that it imports
CAUSES = (
    "ok exception exit timeout memory_limit cpu_limit disk_limit process_limit signal denied interrupted cancelled "
    "lost"
).split()


class Gone(Exception):
    """The engine is not there any more, or does not answer."""


@dataclass
class Result:
    stdout: str = ""
    stderr: str = ""
    end: dict = field(default_factory=dict)
    events: list = field(default_factory=list)

    @property
    def cause(self) -> str:
        return str(self.end.get("cause"))

    def marked(self) -> Any:
        """The JSON behind the first `@` line of stdout."""
        for line in self.stdout.splitlines():
            if line.startswith(("@{", "@[")):
                return json.loads(line[1:])
        raise ValueError(
            f"no answer: cause {self.cause}, stdout {self.stdout[-200:]!r}, stderr {self.stderr[-300:]!r}, "
            f"error {str(self.end.get('error') or self.end.get('message'))[-400:]}"
        )

    def rows(self) -> dict:
        """Row id -> what its probe gave."""
        found = {}
        for line in self.stdout.splitlines():
            if line.startswith(probe.MARK):
                name, result = json.loads(line[len(probe.MARK) :])
                found[name] = result
        return found


# ---- batches of probes ----


def batch(rows: list, params: dict, inside: bool, raw: bool = False, before: Optional[list] = None) -> str:
    """Python text that runs the rows' probes, one after another, and prints a line for each."""
    with open(probe.__file__) as f:
        parts = [f.read()]
    parts.append(f"INSIDE = {inside}\nRAW = {raw}\nPARAMS = {params!r}\n")
    functions: dict = {}
    for row in rows:
        for fn in (*row.helpers, row.probe if inside or not row.control_probe else row.control_probe):
            functions[fn.__name__] = inspect.getsource(fn)
    for fn in before or []:
        functions[fn.__name__] = inspect.getsource(fn)
    parts += functions.values()
    main = [f"{fn.__name__}()" for fn in before or []]
    for row in rows:
        fn = row.probe if inside or not row.control_probe else row.control_probe
        main.append(f"run_one({row.id!r}, {fn.__name__}, {row.inline})")
    if raw:  # from a thread, so that a restriction of the first thread alone would show
        body = "\n".join("    " + line for line in main)
        parts.append(
            f"def everything():\n{body}\nt = threading.Thread(target=everything)\nt.start()\nt.join()\n"
        )
    else:
        parts.append("\n".join(main))
    packed = base64.b85encode(zlib.compress("\n".join(parts).encode(), 9)).decode()
    # A namespace of its own: nothing of the probes stays in the session's variables.
    return (
        f"import base64, zlib\nexec(compile(zlib.decompress(base64.b85decode({packed!r})), '<probes>', 'exec'), "
        "{'__name__': 'probes'})"
    )


# ---- controls ----

_scratch: list = []


def scratch_dir() -> str:
    """One directory for the controls of this run, removed at its end."""
    if not _scratch:
        _scratch.append(tempfile.mkdtemp(prefix="escape-control-"))
        atexit.register(shutil.rmtree, _scratch[0], ignore_errors=True)
    return _scratch[0]


def plain(
    code: str, cwd: Optional[str] = None, home: Optional[str] = None, env: Optional[dict] = None, **more: Any
) -> Result:
    """The code in a plain python3, outside any sandbox."""
    full = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **(env or {}))
    if home:
        full["HOME"] = scratch_dir() if home == "scratch" else home
    where = scratch_dir() if cwd == "scratch" else cwd
    done = subprocess.run(
        [PYTHON, "-c", code],
        cwd=where,
        env=full,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        stdin=subprocess.DEVNULL,
        **more,
    )
    return Result(
        done.stdout, done.stderr, {"cause": "ok" if done.returncode == 0 else f"status {done.returncode}"}
    )


# ---- krait run ----


def krait_run(
    krait: str, way: Any, bait: Any, code: str, options: tuple = (), preload: str = "basic"
) -> Result:
    argv = way.wrap(
        [krait, "run", "--json", "--timeout", "500s", "--preload", preload, *way.krait, *options, "-c", code]
    )
    try:
        done = subprocess.run(
            argv,
            cwd="/",
            env=bait.environ(),
            capture_output=True,
            timeout=RUN_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return Result(end={"cause": "no end", "message": f"krait run did not end in {RUN_SECONDS} s"})
    try:
        told = json.loads(done.stdout.decode("utf-8"))
        return Result(told["stdout"], told["stderr"] + done.stderr.decode("utf-8", "replace"), told)
    except (ValueError, KeyError, TypeError):
        said = (done.stderr or done.stdout).decode("utf-8", "replace")
        return Result(
            "",
            said,
            {
                "cause": "no answer",
                "exit_code": done.returncode,
                "message": f"status {done.returncode}: {said[-400:]}",
            },
        )


# ---- krait-engine ----


class Engine:
    """One krait-engine and its line protocol."""

    def __init__(
        self,
        krait: str,
        way: Any,
        bait: Any,
        preload: str,
        pool: int = 2,
        rotate: int = 24,
        strace: Optional[str] = None,
    ) -> None:
        argv = [
            os.path.join(os.path.dirname(os.path.abspath(krait)), "tests", "krait-engine"),
            "--preload",
            preload,
            "--pool",
            str(pool),
            "--rotate",
            str(rotate),
            "--workspace",
            bait.workspace,
            *way.krait,
        ]
        if strace:
            argv = [
                "strace",
                "-f",
                "-qq",
                "-o",
                strace,
                "-e",
                "trace=kill,tkill,pidfd_send_signal,clone,clone3,fork,vfork",
                *argv,
            ]
        self.preload, self.broken = preload, []
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            way.wrap(argv),
            cwd="/",
            env=bait.environ(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
        )
        self.next_id, self.unasked, self.ended = 1, [], False
        self.boxes: dict = {}  # request id -> its events
        self.lock = threading.Lock()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def box(self, number: int) -> queue.Queue:
        with self.lock:
            if number not in self.boxes:
                self.boxes[number] = queue.Queue()
                if self.ended:
                    self.boxes[number].put(None)
            return self.boxes[number]

    def read(self) -> None:
        """Every line must be one JSON object in strict UTF-8, whatever sessions say."""
        for line in self.process.stdout:
            try:
                event = json.loads(line.decode("utf-8"))
                number = event.get("id")
            except (ValueError, AttributeError) as e:
                self.broken.append(f"{e}: {line[:100]!r}")
                continue
            if number is None:
                self.unasked.append(event)
            else:
                self.box(number).put(event)
        with self.lock:
            self.ended = True
            for box in self.boxes.values():
                box.put(None)

    def send(self, op: str, **fields: Any) -> int:
        number = self.next_id
        self.next_id += 1
        data = json.dumps({"id": number, "op": op, **fields}).encode() + b"\n"
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except OSError as e:
            raise Gone(f"the engine is gone: {e}: {self.said()}") from e
        return number

    def events(self, number: int, last: tuple, seconds: float = 120):
        """The events of a request up to one of `last`."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                event = self.box(number).get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                raise Gone(f"no {' or '.join(last)} in {seconds:.0f} s: {self.said()}") from None
            if event is None:
                self.reader.join(timeout=1)
                raise Gone(f"the engine ended: {self.said()}")
            yield event
            if event.get("event") in last:
                return

    def wait_text(self, number: int, text: str) -> None:
        """Reads a run's events until it has printed the text."""
        said = ""
        while text not in said:
            for event in self.events(number, ("end", "error", "stdout")):
                said += event.get("text", "")
                if event["event"] in ("end", "error"):
                    raise Gone(f"a run ended before it said {text!r}: {str(event)[:300]}")

    def ask(self, op: str, last: tuple, **fields: Any) -> dict:
        event: dict = {}
        for event in self.events(self.send(op, **fields), last):
            pass
        return event

    def said(self) -> str:
        self.errors.seek(0)
        return (
            f"status {self.process.poll()}, stderr {self.errors.read()[-500:].decode('utf-8', 'replace')!r}"
        )

    def close(self) -> list:
        """Ends it as its users do, by end of input; complaints."""
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            status = self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return ["the engine did not end within 20 s of its end of input"]
        self.reader.join(timeout=5)
        bad = [f"not a line of JSON: {b}" for b in self.broken]
        if status != 0:
            bad.append(f"the engine ended with {self.said()}")
        return bad


class Session:
    def __init__(self, engine: Engine, number: int) -> None:
        self.engine, self.number = engine, number

    def start(self, code: str, **fields: Any) -> int:
        fields.setdefault("timeout", "500s")
        return self.engine.send("run", session=self.number, code=code, **fields)

    def wait(self, run: int, seconds: float = RUN_SECONDS) -> Result:
        result = Result()
        for event in self.engine.events(run, ("end", "error"), seconds):
            kind = event.get("event")
            result.events.append(event)
            if kind == "stdout":
                result.stdout += event["text"]
            elif kind == "stderr":
                result.stderr += event["text"]
            else:
                result.end = event
        if result.end.get("event") == "error":
            result.end.setdefault("cause", "error: " + str(result.end.get("message")))
        return result

    def run(self, code: str, **fields: Any) -> Result:
        return self.wait(self.start(code, **fields))

    def interrupt(self) -> dict:
        return self.engine.ask("interrupt", ("done", "error"), session=self.number)

    def close(self) -> dict:
        return self.engine.ask("close", ("closed", "error"), session=self.number)


@dataclass
class Stage(Context):
    """What a scenario works with: an engine that runs, the bait, and how sessions are to be opened."""

    engine: Any = None
    krait: str = ""
    the_way: Any = None

    @property
    def pooled(self) -> bool:
        return self.mode == "pooled"

    @property
    def workspace(self) -> str:
        return self.bait.workspace

    @property
    def owner(self) -> int:
        return self.bait.uid

    def open(self, **fields: Any) -> Session:
        fields.setdefault("network", "none")
        fields.setdefault("pooled", self.pooled)
        fields.setdefault("workspace", None)
        got = self.engine.ask("open", ("opened", "error"), preload=self.preload, **fields)
        if got.get("event") != "opened":
            raise Gone(f"no session: {got}")
        return Session(self.engine, got["session"])

    def generation(self) -> int:
        told = self.engine.ask("info", ("info", "error"))
        return max(
            [z.get("generation", 0) for z in told.get("zygotes", []) if z.get("preload") == self.preload]
            or [0]
        )

    def rotate(self) -> bool:
        """Opens sessions until the zygote is another one and none of its predecessor's is parked. The old one serves
        until the new one is ready, which under emulation takes its time."""
        before, end = self.generation(), time.monotonic() + ROTATION_SECONDS
        for number in itertools.count():
            if time.monotonic() > end:
                break
            if number < 40:
                self.open().close()
            else:
                time.sleep(0.05)
            if self.generation() > before:
                time.sleep(0.1)
                for session in [self.open() for _ in range(4)]:
                    session.close()
                return True
        return False
