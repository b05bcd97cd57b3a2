#!/usr/bin/python3
"""Whatever is killed with SIGKILL, nothing stays: processes and mounts go at once, cgroups and scratch files by the
next start.

A krait-engine with live sessions (idle, busy, with daemons of their own) loses its warden, engine, builder, zygote or
an init. What is left of its processes is counted through the tree it had; another instance beside it must not notice.
"""
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
from check import check, main  # noqa: E402
from processes import below, cgroups_of, children, is_alive, leftovers, name_of  # noqa: E402

KRAIT = os.environ.get("KRAIT", str(ROOT / "build/krait"))
KRAIT_ENGINE = os.path.join(os.environ.get("KR_BUILD", os.path.dirname(KRAIT)), "tests/krait-engine")
DEADLINE_S = 10.0  # a kill takes everything along at once; a loaded machine may need a while to see it through
DAEMON = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\nprint('started')"
BUSY = "while True:\n    pass"


class Engine:
    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen([KRAIT_ENGINE, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.last = 0

    def send(self, **request) -> int:
        self.last += 1
        self.process.stdin.write(json.dumps(dict(request, id=self.last)) + "\n")
        self.process.stdin.flush()
        return self.last

    def wait(self, number: int, *events: str) -> dict:
        for line in self.process.stdout:
            told = json.loads(line)
            if told.get("id") == number and told["event"] in events + ("error",):
                assert told["event"] != "error", told
                return told
        raise AssertionError("the engine ended before it answered")

    def session(self, code: str = "", **more) -> int:
        number = self.wait(self.send(op="open", preload="basic", **more), "opened")["session"]
        if code:
            self.wait(self.send(op="run", session=number, code=code), "end")
        return number

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait(10)


def roles(warden: int) -> dict:
    """engine, builder, zygote, inits, as the tree shows them."""
    found = {"warden": [warden], "engine": [], "builder": [], "zygote": [], "init": []}
    for one in children(warden):
        its = children(one)
        if not any(name_of(b).startswith("python") for b in its):
            found["engine"].append(one)
            continue
        found["builder"].append(one)
        for b in its:
            found["zygote" if name_of(b).startswith("python") else "init"].append(b)
    return found


def gone(pids: list) -> list:
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        if not any(is_alive(one) for one in pids):
            return []
        time.sleep(0.01)
    return [(one, name_of(one)) for one in pids if is_alive(one)]


def kill_role(role: str) -> None:
    e = Engine("--pool", "2")
    try:
        first = e.session("x = 1")
        e.session(DAEMON)
        busy = e.session()
        e.send(op="run", session=busy, code=BUSY)
        time.sleep(0.2)
        warden = e.process.pid
        everything = list(below(warden))
        victims = roles(warden)[role]
        assert len(everything) > 8 and victims, (everything, victims)
        victim = random.choice(victims)
        doomed = [victim, *below(victim)]
        os.kill(victim, signal.SIGKILL)
        expected = everything if role in ("warden", "engine", "builder") else doomed
        if role == "builder":
            expected = [one for one in everything if one not in roles(warden)["engine"]]
        if role == "zygote":  # its sessions go on
            expected = [victim]
        left = gone(expected)
        assert not left, f"still there after {DEADLINE_S} s: {left}"
        if role == "zygote":
            assert e.wait(e.send(op="run", session=first, code="x + 1"), "end")["result"] == "2"
        if role in ("builder", "zygote", "init"):  # the engine goes on, with a new zygote if it must
            assert e.wait(e.send(op="run", session=e.session(), code="6*7"), "end")["result"] == "42"
    finally:
        e.process.kill() if role in ("warden", "engine") else e.end()
        e.process.wait(10)


@check
def warden_killed():
    kill_role("warden")


@check
def engine_killed():
    kill_role("engine")


@check
def builder_killed():
    kill_role("builder")


@check
def zygote_killed():
    kill_role("zygote")


@check
def init_killed():
    kill_role("init")


@check
def next_start_cleans_up_and_spares_the_living():
    living = Engine()
    try:
        kept = living.session("x = 41")
        for _ in range(10):  # the start of a krait of another suite may clean up first
            dead = Engine()
            dead.session()
            pids = list(below(dead.process.pid))
            names = cgroups_of(pids)
            left = [os.path.join(folder, cell) for folder in leftovers(names) for cell in os.listdir(folder)
                    if cell.startswith("c0")]
            dead.process.kill()
            dead.process.wait()
            assert not gone(pids)
            if not names or any(os.path.isdir(one) for one in left):
                break
        else:
            raise AssertionError("nothing was left to clean up: the test shows nothing")
        fresh = Engine()  # takes some free slot, and cleans up after engines that are dead
        fresh.session()
        fresh.end()
        assert not [one for one in left if os.path.isdir(one)], left
        assert living.wait(living.send(op="run", session=kept, code="x + 1"), "end")["result"] == "42"
    finally:
        living.end()


@check
def killed_while_starting():
    """At any moment of the start too."""
    for _ in range(12):
        p = subprocess.Popen([KRAIT, "run", "-c", "import time; time.sleep(60)"], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
        time.sleep(random.uniform(0, 0.25))
        pids = list(below(p.pid))
        p.kill()
        p.wait()
        left = gone(pids)
        assert not left, left


if __name__ == "__main__":
    main()
