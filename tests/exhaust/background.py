"""Work after the end of a run: its budget, the weight it has, what is frozen and what is ended.

Without control groups (an ordinary user without delegation) none of it is held, and the first
scenario shows that, with an amount that does no harm.
"""

from __future__ import annotations

import glob
import os
import signal
import subprocess
import time
from typing import Callable

from census import Census, depth, text, tree
from engine import Engine, Session
from model import QUICK, needs

BUDGET, SLACK = 1.0, 0.6  # seconds of processor time; two looks, and a slow machine between them
BURN = """
import subprocess, sys
burner = subprocess.Popen([sys.executable, '-c', 'while True: pass'], start_new_session=True)
kept = 42
"""
USED = "print(sum(map(int, open(f'/proc/{burner.pid}/stat').read().rsplit(')', 1)[1].split()[11:13])) / 100)"
THREAD = """
import threading, time
beats = []
def beat():
    while True:
        beats.append(time.monotonic())
        time.sleep(0.02)
threading.Thread(target=beat, daemon=True).start()
"""
SERVE = """
import subprocess, sys
open('/tmp/page', 'w').write('still here')
server = subprocess.Popen([sys.executable, '-m', 'http.server', '-d', '/tmp', '-b', '127.0.0.1', '8123'],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
"""
GET = """
import time, urllib.request
for _ in range(100):
    try: print(urllib.request.urlopen('http://127.0.0.1:8123/page', timeout=5).read().decode()); break
    except OSError as e: time.sleep(0.1)
"""
# Each of them, and each child, goes on making others for half a minute.
BREED = """
import os, time
if os.fork() == 0:
    os.setsid()
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try: os.fork()
        except OSError: time.sleep(0.001)
    os._exit(0)
time.sleep(0.2)
"""


def is_held(engine: Engine) -> bool:
    return bool(engine.info()["hello"]["layers"]["cgroup_cpu"])


def wrong(what: str, *runs) -> list[str]:
    return [f"{what}: " + "; ".join(map(str, runs))]


def weights(state: Census) -> set[str]:
    """What the cells' folders say: the word for the lowest, for the usual one, or the number."""
    words = {"2": "lowest", "1": "lowest", "1024": "usual", "100": "usual"}
    found = (text(p + f).strip() for p in state.cell_folders() for f in ("cpu.shares", "cpu.weight"))
    return {words.get(one, one) for one in found if one}


def wait_spent(state: Census, before: float, seconds: float = 20) -> float:
    """Processor time used since `before`, once it stands still."""
    last, deadline = -1.0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        now = state.cpu_seconds() - before
        if now - last < 0.02 and now > 0.1:
            return now
        last = now
        time.sleep(1)
    return state.cpu_seconds() - before


def frozen_session(engine: Engine, **fields) -> Session:
    session = engine.open(dict(QUICK, background_cpu="100ms"), **fields)
    session.run(BURN)
    wait_spent(Census(engine.pid), 0)
    return session


def background_budget(engine: Engine) -> list[str]:
    """A detached child computes until the budget is used up; the next run says so and goes on."""
    state, session = Census(engine.pid), engine.open(dict(QUICK, background_cpu=f"{BUDGET}s"))
    first, before = session.run(BURN), state.cpu_seconds()
    if not is_held(engine):
        for _ in range(20):
            time.sleep(BUDGET)
            again = session.run(USED + "\nprint(kept)")
            if float(again.stdout.split()[0]) > BUDGET:
                break
        session.close()
        if again.end.get("session_frozen") or float(again.stdout.split()[0]) < BUDGET:
            return wrong("not held without control groups, and yet", again)
        return []
    used = wait_spent(state, before)
    second = session.run(USED + "\nprint(kept)")
    third = session.run("print(kept)")
    session.close()
    bad = [] if BUDGET * 0.9 < used < BUDGET + SLACK else [f"{used:.2f} s were used of {BUDGET} s"]
    if (first.cause, second.cause, third.stdout) != ("ok", "ok", "42\n"):
        bad += wrong("the session does not go on", first, second, third)
    if float(second.stdout.split()[0]) > BUDGET + SLACK + second.seconds:  # it goes on during the run
        bad += wrong("the child used more than the budget", second)
    told = [bool(run.end.get("session_frozen")) for run in (first, second, third)]
    return bad + ([] if told == [False, True, False] else [f"session_frozen was told as {told}"])


@needs("cgroup_cpu")
def background_thread(engine: Engine) -> list[str]:
    """A thread of the interpreter counts, too, and the budget is that of each stretch anew."""
    state, session = Census(engine.pid), engine.open(dict(QUICK, background_cpu=f"{BUDGET}s"))
    session.run("import threading\ndef burn():\n    while True: pass\nthreading.Thread(target=burn, daemon=True).start()")
    bad = []
    for _ in range(2):
        used = wait_spent(state, state.cpu_seconds())
        bad += [] if BUDGET * 0.9 < used < BUDGET + SLACK else [f"{used:.2f} s were used of {BUDGET} s"]
        run = session.run("print(6 * 7)")
        if run.stdout != "42\n" or not run.end.get("session_frozen"):
            bad += wrong("the next run", run)
    session.close()
    return bad


def settled(look: Callable, wanted, seconds: float):
    """What `look` sees once that is as wanted, or at the end of the time."""
    deadline = time.monotonic() + seconds
    while (seen := look()) != wanted and time.monotonic() < deadline:
        time.sleep(0.05)
    return seen


@needs("cgroup_cpu")
def background_weight(engine: Engine) -> list[str]:
    """Between runs a cell has the lowest weight, in a run the usual one."""
    state, session = Census(engine.pid), engine.open(QUICK)
    session.run("import time")
    idle = settled(lambda: weights(state), {"lowest"}, 20)
    number = session.start("time.sleep(5)")
    busy = settled(lambda: weights(state), {"usual"}, 4)
    session.wait(number)
    session.run(BURN)
    session.run("1")  # by its end the burner is at work, and the first look sees it
    burning = settled(lambda: weights(state), {"lowest"}, 0.8)  # before a session at rest would be
    session.close()
    got = (idle, busy, burning)
    return [] if got == ({"lowest"}, {"usual"}, {"lowest"}) else [f"idle, in a run, computing on: {got}"]


def background_server(engine: Engine) -> list[str]:
    """A server on loopback that one run starts answers the next ones, resting or thawed."""
    bad = []
    for background in ("keep", "freeze"):
        session = engine.open(dict(QUICK, processes=32), background=background, network="loopback")
        runs = [session.run(SERVE)]
        for pause in (0, 1.5, 0.1):
            time.sleep(pause)
            runs.append(session.run(GET))
        session.close()
        if [run.stdout for run in runs] != [""] + ["still here\n"] * 3:
            bad += wrong(background, *runs)
    return bad


@needs("cgroup_cpu")
def background_freeze(engine: Engine) -> list[str]:
    """background = freeze: nothing runs between runs, clocks and sleeps are sane afterwards."""
    state, session = Census(engine.pid), engine.open(QUICK, background="freeze")
    session.run(BURN + THREAD)
    time.sleep(1)
    before = state.cpu_seconds()
    time.sleep(2)
    used = state.cpu_seconds() - before
    run = session.run("at = time.monotonic()\ntime.sleep(0.3)\nprint(max(b - a for a, b in zip(beats, beats[1:])) > 0.5,"
                      "0.25 < time.monotonic() - at < 3, beats[-1] > at, kept)")
    late = session.run("time.sleep(30)", timeout="300ms")
    number = session.start("time.sleep(30)")
    time.sleep(0.3)
    session.interrupt()
    stopped = session.wait(number)
    session.close()
    bad = [] if used < 0.1 else [f"{used:.2f} s were used by a frozen session"]
    if run.stdout != "True True True 42\n" or run.end.get("session_frozen"):
        bad += wrong("the run after it", run)
    if (late.cause, late.alive, stopped.cause, stopped.alive) != ("timeout", True, "interrupted", True):
        bad += wrong("timeout and interrupt after it", late, stopped)
    return bad


@needs("cgroup_cpu")
def background_end(engine: Engine) -> list[str]:
    """background = end: processes that a run leaves are ended with it, variables and threads stay."""
    state, session = Census(engine.pid), engine.open(dict(QUICK, processes=32), background="end")
    clean = session.run("print(6 * 7)")
    first = session.run(BURN + THREAD)
    count = len(state.in_cgroups())
    second = session.run("print(burner.poll(), kept)\nn = len(beats)\ntime.sleep(0.2)\nprint(len(beats) > n)")
    bred = session.run(BREED)
    after = len(state.in_cgroups())
    last = session.run("print(kept)")
    session.close()
    bad = []
    if clean.end.get("message") or first.end.get("message") != "1 process that the run left behind was ended":
        bad += wrong("what was ended is not told", clean, first)
    if count != 1 or second.stdout != "-9 42\nTrue\n":
        bad += wrong(f"{count} processes, not the session alone", second)
    if after != 1 or bred.cause != "ok" or last.stdout != "42\n":
        bad += wrong(f"{after} processes behind those that fork on", bred, last)
    return bad


@needs("cgroup_cpu")
def frozen_sessions_end(engine: Engine) -> list[str]:
    """Frozen sessions that are closed, and one whose next run is killed, leave nothing."""
    state, closed = Census(engine.pid), frozen_session(engine)
    closed.close()
    bad = state.wait_empty()
    killed = frozen_session(engine)
    run = killed.run("import os\nos.kill(os.getpid(), 9)")
    if run.cause != "signal" or not run.end.get("session_frozen"):
        bad += wrong("the run that kills itself", run)
    return bad + state.wait_empty()


@needs("cgroup_cpu")
def frozen_sessions_at_the_end(engine: Engine) -> list[str]:
    """An engine that ends with frozen sessions leaves no process and no folder."""
    own = Engine("--stock", "0", user=engine.user)
    state = Census(own.pid)
    for background in ("keep", "freeze"):
        frozen_session(own, background=background)
    pids, folders, begun = state.in_cgroups(), state.folders(), time.monotonic()
    bad = own.close()
    took = time.monotonic() - begun
    bad += [f"its end took {took:.1f} s"] if took > 8 else []
    return bad + left_over(pids, folders, 2)


def left_over(pids: list[int], folders: list[str], seconds: float) -> list[str]:
    deadline = time.monotonic() + seconds
    while True:
        live = [pid for pid in pids if depth(pid) > 0]
        there = [path for path in folders if glob.glob(path)]
        if not live and not there:
            return []
        if time.monotonic() > deadline:
            return [f"left after {seconds:.0f} s: {live} {there}"]
        time.sleep(0.05)


@needs("cgroup_cpu")
def frozen_sessions_after_kill(engine: Engine) -> list[str]:
    """kill -9 of everything of an engine with frozen sessions: they die, the next start cleans up."""
    own = Engine("--stock", "0", user=engine.user)
    state = Census(own.pid)
    for background in ("keep", "freeze"):
        frozen_session(own, background=background)
    pids, folders = state.in_cgroups(), state.folders()
    if len(pids) < 4 or not folders:
        return [f"nothing to kill: {pids} {folders}"]
    for pid in [own.pid, *(pid for pid in tree(own.pid) if depth(pid) < 2)]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    own.process.wait()
    bad = left_over(pids, [], 10)
    following = Engine("--stock", "0", user=engine.user)
    following.open(QUICK).close()
    bad += left_over(pids, folders, 2)
    return bad + following.close()


@needs("cgroup_cpu")
def unfreezable(engine: Engine) -> list[str]:
    """A cell whose control group refuses to freeze it is ended: it does not go on unbounded."""
    state, session = Census(engine.pid), engine.open(dict(QUICK, background_cpu="100ms"))
    files = [p + f for p in state.cell_folders() for f in ("cpu.cfs_quota_us", "cgroup.freeze")]
    paths = [part for path in files if os.path.exists(path) for part in ("-P", path)]
    inject = ["-e", "trace=write,pwrite64", "-e", "inject=write,pwrite64:error=EIO", "-o", "/dev/null"]
    tracer = subprocess.Popen(["/usr/bin/strace", "-qq", *inject, *paths, "-p", str(engine.pid)])
    deadline = time.monotonic() + 10
    while f"TracerPid:\t{tracer.pid}" not in text(f"/proc/{engine.pid}/status") and time.monotonic() < deadline:
        time.sleep(0.01)
    session.run(BURN)
    bad = state.wait_empty(20)
    tracer.terminate()
    tracer.wait()
    said = session.close()
    return bad + ([] if said != "closed" else ["the session is still there"])


SCENARIOS = [
    background_budget,
    background_thread,
    background_weight,
    background_server,
    background_freeze,
    background_end,
    frozen_sessions_end,
    frozen_sessions_at_the_end,
    frozen_sessions_after_kill,
    unfreezable,
]
