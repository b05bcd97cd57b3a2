#!/usr/bin/python3
"""A storm of clients that start, queue, read half, leave, cancel, interrupt, answer, open and end sessions, change,
reset and delete sandboxes, while the server is stopped at random moments, again and again, on one data directory.

    tests/server/storm.py [--seconds 30] [--seed N] [--clients 16] [--who root|user]

As root it runs as root and then as an ordinary user, half of the time each. KRAIT names the program: one built with
address and undefined-behaviour sanitizers is what this is for. Held, in every life of the server: no report of a
sanitizer, no answer but those a client may get, a stop in time and with its exit status; afterwards no process, cgroup,
mount or temporary file. And after a calm in which every client has left: no run that still runs or waits, no unnamed
session, figures that are back at zero.
"""
import argparse
import contextlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests/lib"), str(ROOT / "tests/server/lib")]
from krait_server import Server  # noqa: E402
from processes import become_subreaper, below, cgroups_of, leftovers, own_mounts, wait_for_none  # noqa: E402

USER = 1000
RUNS, SANDBOXES, SESSIONS = "/api/v1/runs", "/api/v1/sandboxes", "/api/v1/sessions"
STOP_S = 15.0  # the longest that any way to stop may take, under sanitizers and on a loaded machine
CALM_S = 60.0  # until every trace of the clients is gone; seconds on a quiet machine
QUEUED_MOST = 100  # a figure that fell below zero is far more: each session's queue is short
ALLOWED = {200, 201, 202, 204, 400, 404, 409, 413, 422, 429, 503}
NAMES = ["main", "a", "b", "c", "ünï"]
BOXES = ["default", "one", "two", "three"]

# Settings that make every queue short and every clock fast.
SETTINGS = {
    "max-sessions": "6", "max-sessions-per-user": "5", "queue-max": "3", "queue-wait": "400ms", "linger": "200ms",
    "idle-timeout": "1s", "cleanup-interval": "150ms", "stop-timeout": "300ms", "max-sandboxes-per-user": "6",
    "grace": "200ms", "retention": "3s", "output": "128K", "max-body": "1M", "log-level": "warn", "timeout": "4s",
}  # fmt: skip
CODES = [
    "print(1)",
    "x = globals().get('x', 0) + 1\nx",
    "import time\ntime.sleep({t})",
    "import time\ntry:\n    time.sleep({t})\nexcept KeyboardInterrupt:\n    print('no')\n    time.sleep({t})",
    "import os\nos._exit(3)",
    "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "print('x' * 300000)",
    "for i in range(2000): print(i)",
    "import os, time\nfor i in range(200): open(f'f{{i % 7}}-{{time.time()}}', 'w').write('x' * 100)",
    "import os\nos.makedirs('d/e', exist_ok=True)\nopen('d/e/f', 'w').close()\nos.chmod('d/e', 0)",
    "import shutil, os\nfor n in os.listdir('.'): shutil.rmtree(n, ignore_errors=True)",
    "print(input('? '))",
    "import os\nif os.fork() == 0:\n    import time\n    time.sleep(30)",
    "import threading, time\ndef f():\n    while True: print('.', end='', flush=True); time.sleep(0.01)\n"
    "threading.Thread(target=f, daemon=True).start()",
    "1 / 0",
    "import os\nos.close(3)",
    "b = bytearray(400 << 20)",
]


@dataclass
class Tally:
    """What the clients saw, under one lock."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    problems: list = field(default_factory=list)
    answers: dict = field(default_factory=dict)
    ids: list = field(default_factory=list)  # of runs, newest last

    def problem(self, text: str) -> None:
        with self.lock:
            if len(self.problems) < 20:
                self.problems.append(text)

    def answer(self, what: str, status: int) -> None:
        with self.lock:
            self.answers[(what, status)] = self.answers.get((what, status), 0) + 1

    def seen(self, run: str) -> None:
        with self.lock:
            self.ids = [*self.ids[-60:], run]


class Client(threading.Thread):
    """One who does one thing after the other, most of them badly."""

    def __init__(self, port: int, seed: str, tally: Tally) -> None:
        super().__init__(daemon=True)
        self.port, self.tally, self.random = port, tally, random.Random(seed)
        self.over = threading.Event()
        self.left, self.socket = False, None  # of the request under way

    def leave(self) -> None:
        """In the midst of a request too: who streams a run that waits for input would stay for as long as it waits."""
        self.left = True
        self.over.set()
        with contextlib.suppress(AttributeError, OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def run(self) -> None:
        actions = [(self.create, 10), (self.abandon, 5), (self.follow, 3), (self.touch_run, 5), (self.session, 4),
                   (self.sandbox, 4), (self.file, 2), (self.look, 2), (self.execute, 4)]  # fmt: skip
        doing, weights = zip(*actions)
        while not self.over.is_set():
            try:
                self.random.choices(doing, weights)[0]()
            except (OSError, http.client.HTTPException):
                if not self.over.is_set():
                    time.sleep(0.02)
            except Exception as error:  # a client's own mistake, or an answer that is none
                if not self.left:
                    self.tally.problem(f"{type(error).__name__}: {error}")

    # ---- requests ----

    def ask(self, method: str, path: str, body=None, read: bool = True):
        """The status and the body; or the open response, for a caller that reads it itself."""
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.connect()
            self.socket = connection.sock
            if self.left:
                raise ConnectionAbortedError
            connection.request(method, path, data)
            got = connection.getresponse()
            kind = re.sub(r"/[0-9a-z]{26}", "/ID", path.split("?")[0])
            self.tally.answer(f"{method} {kind}", got.status)
            if got.status not in ALLOWED:
                self.tally.problem(f"{method} {path} -> {got.status} {got.read(300)!r}")
            if got.headers.get("X-Run-Id"):
                self.tally.seen(got.headers["X-Run-Id"])
            if not read:
                return got, connection
            return got.status, got.read()
        except BaseException:
            connection.close()
            raise
        finally:
            if read:
                connection.close()

    def code(self) -> str:
        return self.random.choice(CODES).format(t=self.random.choice([0.01, 0.1, 0.5, 3]))

    def spec(self, **more) -> dict:
        rnd = self.random
        body = {"code": self.code(), **more}
        if rnd.random() < 0.3:
            body["fresh"] = True
        elif rnd.random() < 0.8:
            body["session_id"] = rnd.choice(NAMES)
        if rnd.random() < 0.5:
            body["sandbox_id"] = rnd.choice(BOXES)
        if rnd.random() < 0.2:
            body["stdin"] = "line\n" * rnd.choice([1, 1000])
        if rnd.random() < 0.2:
            body["interactive"] = True
        if rnd.random() < 0.1:
            body.update(variables={"n": 3}, env={"MODE": "x"})
        if rnd.random() < 0.3:
            body["timeout"] = rnd.choice([0.001, 0.2, 1])
        return body

    # ---- what it does ----

    def create(self) -> None:
        stream = self.random.random() < 0.5
        status, body = self.ask("POST", RUNS, self.spec(stream=stream))
        if status != 200 or not body:
            return
        last = json.loads(body.splitlines()[-1])
        if not (last.get("cause") if not stream else last.get("type") == "end") and not self.left:
            self.tally.problem(f"a run without an end: {body[-300:]!r}")

    def abandon(self) -> None:
        """Leaves at once, in the middle of the request, or after some of the answer."""
        body = json.dumps(self.spec(stream=self.random.random() < 0.5)).encode()
        head = f"POST {RUNS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as s:
            s.sendall((head + body)[: self.random.choice([None, None, None, len(head) + 5])])
            time.sleep(self.random.choice([0, 0, 0.001, 0.01, 0.1, 0.5]))
            if self.random.random() < 0.5:
                s.settimeout(self.random.choice([0.01, 0.3]))
                with contextlib.suppress(TimeoutError):
                    s.recv(self.random.choice([1, 100, 10000]))
            if self.random.random() < 0.5:  # a reset instead of an end
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    def execute(self) -> None:
        path = self.random.choice(["/api/v1/execute", "/execute", "/execute_sync", f"{SANDBOXES}/one/execute"])
        self.ask("POST", path, {"code": self.code()})

    def some_run(self) -> str:
        with self.tally.lock:
            return self.random.choice(self.tally.ids) if self.tally.ids else "0" * 26

    def follow(self) -> None:
        where = f"{RUNS}/{self.some_run()}/events?from={self.random.choice([0, 1, 3, 1000])}"
        got, connection = self.ask("GET", where, read=False)
        with contextlib.closing(connection):
            if self.random.random() < 0.5:
                got.read(self.random.choice([10, 1000]))
            else:
                got.read()

    def touch_run(self) -> None:
        run = self.some_run()
        what = self.random.choice(["cancel", "interrupt", "input", ""])
        if what == "":
            self.ask("GET", f"{RUNS}/{run}")
        else:
            self.ask("POST", f"{RUNS}/{run}/{what}", {"text": "answer"} if what == "input" else b"")

    def session(self) -> None:
        name = self.random.choice(NAMES).replace("ü", "%C3%BC").replace("ï", "%C3%AF")
        box = self.random.choice(BOXES)
        what = self.random.choice(["open", "delete", "delete", "interrupt", "read", "list"])
        if what == "open":
            self.ask("POST", SESSIONS, {"session_id": self.random.choice(NAMES), "sandbox_id": box})
        elif what == "list":
            self.ask("GET", SESSIONS)
        elif what == "interrupt":
            self.ask("POST", f"{SESSIONS}/{name}/interrupt?sandbox_id={box}", b"")
        else:
            self.ask("DELETE" if what == "delete" else "GET", f"{SESSIONS}/{name}?sandbox_id={box}")

    def sandbox(self) -> None:
        name = self.random.choice(BOXES)
        what = self.random.choice(["create", "create", "reset", "delete", "change", "rename", "read", "list"])
        if what == "create":
            self.ask("POST", SANDBOXES, {"name": name})
        elif what == "reset":
            self.ask("POST", f"{SANDBOXES}/{name}/reset", b"")
        elif what == "delete":
            self.ask("DELETE", f"{SANDBOXES}/{name}")
        elif what == "change":
            limits = {"memory": self.random.choice(["64M", "128M", None]), "processes": 16}
            self.ask("PATCH", f"{SANDBOXES}/{name}", {"limits": limits, "env": {"A": "b"}})
        elif what == "rename":
            self.ask("PATCH", f"{SANDBOXES}/{name}", {"name": self.random.choice(BOXES)})
        else:
            self.ask("GET", f"{SANDBOXES}/{name}" if what == "read" else SANDBOXES)

    def file(self) -> None:
        where = f"{SANDBOXES}/{self.random.choice(BOXES)}/files/{self.random.choice(['f', 'd/g', 'big'])}"
        what = self.random.choice(["PUT", "PUT", "GET", "DELETE"])
        self.ask(what, where, b"x" * self.random.choice([0, 10, 200000]) if what == "PUT" else None)

    def look(self) -> None:
        path = self.random.choice(["/health", "/metrics", "/ready", f"{RUNS}?limit=5", f"{RUNS}?running=true"])
        self.ask("GET", path)


class Storm:
    """One data directory and one life of the server after the other."""

    def __init__(self, who: str, seed: int, clients: int) -> None:
        self.who, self.seed, self.clients = who, seed, clients
        self.random = random.Random(f"{seed} {who}")
        self.folder = tempfile.mkdtemp(prefix="krait-storm-")
        os.chmod(self.folder, 0o777)
        self.temp = os.path.join(self.folder, "tmp")
        os.mkdir(self.temp)
        os.chmod(self.temp, 0o1777)
        self.wrap = []
        if who == "user" and os.geteuid() == 0:
            self.wrap = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups"]
        self.tally = Tally()
        self.problems: list = []
        self.lives = self.calms = 0
        self.ways: dict = {}
        self.way = ""
        self.cgroups: set = set()
        self.mounts = self.read_mounts()

    # ---- what must not be left ----

    def read_mounts(self) -> str:
        return Path("/proc/self/mounts").read_text()

    def strange_files(self) -> list:
        """Temporary files, and what does not belong in a data directory."""
        known = {"krait.db", "krait.db-wal", "krait.db-shm", "krait.lock", "serve.lock", "pepper", "sandboxes", "logs",
                 "packages", "secrets.key", "ca.pem"}
        data = os.path.join(self.folder, "data")
        return os.listdir(self.temp) + [one for one in os.listdir(data) if one not in known]

    def check_nothing_left(self) -> None:
        alive = wait_for_none(STOP_S)
        if alive:
            self.problems.append(f"processes are left: {alive}")
            for pid, _ in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        # Those of a warden that was killed go with the next start.
        if self.way != "warden" and leftovers(self.cgroups):
            self.problems.append(f"cgroups are left: {leftovers(self.cgroups)[:3]}")
        if self.read_mounts() != self.mounts:
            self.problems.append("a mount is left")
        if self.strange_files():
            self.problems.append(f"files are left: {self.strange_files()[:5]}")

    # ---- a life ----

    def start(self) -> Server:
        args = [x for key, value in SETTINGS.items() for x in (f"--{key}", value)]
        args += ["--pool-size", str(self.random.randrange(3))]
        env = {"TMPDIR": self.temp, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "detect_stack_use_after_return=1")}
        return Server(args=args, data=self.folder, wrap=self.wrap, env=env, validate=False).start()

    def figures(self, server: Server) -> dict:
        text = server.request("GET", "/metrics").text
        names = ("krait_runs_active", "krait_runs_queued", 'krait_sessions{state="busy"}',
                 'krait_sessions{state="idle"}')
        return {n: float(line.rsplit(" ", 1)[1]) for n in names for line in text.splitlines() if line.startswith(n)}

    def check_calm(self, server: Server) -> None:
        """All clients are gone: what they left goes too, by itself."""
        self.calms += 1
        deadline = time.monotonic() + CALM_S
        while True:
            seen = self.figures(server)
            running = server.request("GET", f"{RUNS}?running=true").json()["runs"]
            bad = any(v > (QUEUED_MOST if "queued" in name else 6) for name, v in seen.items())
            if bad or (not any(seen.values()) and not running) or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        if bad or any(seen.values()) or running:
            self.problems.append(f"after the calm: {seen}, {len(running)} running {running[:1]}")
        reply = server.request("POST", RUNS, {"code": "print(6 * 7)", "stream": False, "fresh": True})
        if reply.status != 200 or reply.json()["stdout"] != "42\n":
            self.problems.append(f"after the calm it does not run: {reply.status} {reply.text[:200]}")

    def end(self, server: Server, last: bool) -> None:
        way = self.way = self.random.choices(["once", "twice", "thrice", "warden"], [4, 3, 2, 0 if last else 1])[0]
        self.ways[way] = self.ways.get(way, 0) + 1
        began, pid = time.monotonic(), server.process.pid
        if way == "warden":
            os.kill(pid, signal.SIGKILL)
        for _ in range({"once": 1, "twice": 2, "thrice": 3}.get(way, 0)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            time.sleep(self.random.choice([0, 0.01, 0.2]))
        try:
            status = server.process.wait(STOP_S)
            if way != "warden" and status != 0:
                self.problems.append(f"stopped {way}: exit status {status}")
        except subprocess.TimeoutExpired:
            self.problems.append(f"stopped {way}: alive after {STOP_S} s")
            os.killpg(pid, signal.SIGKILL)
            server.process.wait()
        if time.monotonic() - began > 8:
            self.problems.append(f"stopped {way}: it took {time.monotonic() - began:.1f} s")

    def check_log(self, text: str) -> None:
        for word in ("Sanitizer", "runtime error"):
            if word in text:
                self.problems.append(f"{word}: {text[max(0, text.index(word) - 300):][:6000]}")
                return
        # What a client did is told at that level too; a warden that was killed is no defect.
        known = ('msg="run timed out"', 'msg="run failed"', '"the warden is gone')
        for line in text.splitlines():
            if "level=error" in line and not any(one in line for one in known):
                self.problems.append(line[:500])
                return

    def live(self, seconds: float, last: bool) -> None:
        server = self.start()
        self.lives += 1
        self.cgroups |= cgroups_of(below(server.process.pid))
        running = server.request("GET", f"{RUNS}?running=true").json()["runs"]
        if running:
            self.problems.append(f"runs of an earlier life still run: {running[:2]}")
        clients = [Client(server.port, f"{self.seed} {self.who} {self.lives} {i}", self.tally)
                   for i in range(self.clients)]
        for one in clients:
            one.start()
        time.sleep(seconds)
        self.cgroups |= cgroups_of(below(server.process.pid))
        calm = self.random.random() < 0.4
        if calm:
            for one in clients:
                one.leave()
            for one in clients:
                one.join(40)
            if any(one.is_alive() for one in clients):
                self.problems.append("a client does not leave")
            self.check_calm(server)
        if server.process.poll() is not None:
            self.problems.append(f"the server ended by itself: {server.process.returncode}")
        for one in clients:
            one.over.set()
        self.end(server, last)
        for one in clients:
            one.join(40)
        if self.way == "warden":  # who waited for a session then is told of an internal error, and that is what it is
            self.tally.problems = [one for one in self.tally.problems if "-> 500" not in one]
        self.check_nothing_left()
        self.check_log(server.log_text())
        server.process.stdout.close()
        server.log.close()

    def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and len(self.problems) < 3:
            seconds = self.random.choice([0.2, 1, 3, 5])
            self.live(seconds, last=time.monotonic() + seconds >= until)
        if self.way == "warden":
            self.live(0.2, last=True)
        self.problems += self.tally.problems
        shutil.rmtree(self.folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--who", choices=["root", "user"])
    a = parser.parse_args()
    whos = [a.who] if a.who else ["root", "user"] if os.geteuid() == 0 else ["user"]
    become_subreaper()
    if os.geteuid() == 0:
        own_mounts()
    good = True
    for who in whos:
        storm = Storm(who, a.seed, a.clients)
        storm.run(a.seconds / len(whos))
        total = sum(storm.tally.answers.values())
        print(f"# {who}: seed {a.seed}, {storm.lives} lives, {storm.calms} calms, stops {storm.ways}, {total} answers")
        if not storm.problems and total < 20 * storm.lives:
            storm.problems.append(f"only {total} answers: no storm")
        for text in storm.problems:
            print(f"# {text}"[:8000])
        good &= not storm.problems
        why = " ".join(str(storm.problems[0]).split())[:300] if storm.problems else ""
        print(f"FAIL storm_as_{who}: {why}" if why else f"PASS storm_as_{who}", flush=True)
    sys.exit(not good)


if __name__ == "__main__":
    main()
