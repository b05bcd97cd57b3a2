"""Too little memory around the cells: the whole of krait in a small control group of its own."""

from __future__ import annotations

import glob
import os
import re
import subprocess
import time
from contextlib import contextmanager
from typing import Callable

import census
from census import Census
from engine import Engine, Gone
from model import AROUND, QUICK, needs

MIB = 1 << 20


def place_for_group() -> tuple[str, str]:
    """A control group of memory to make another in, and the file of its limit; "" where there is none.
    On v1 our own; on v2 the one around it, for ours has processes."""
    lines = [line.split(":", 2) for line in census.text("/proc/self/cgroup").splitlines()]
    for _, names, path in lines:
        if "memory" in names.split(","):
            return f"{census.CGROUPS}/memory{path}".rstrip("/"), "memory.limit_in_bytes"
    for _, names, path in lines:
        parent = census.CGROUPS + os.path.dirname(path)
        if not names and "memory" in census.text(f"{parent}/cgroup.subtree_control").split():
            return parent, "memory.max"
    return "", ""


def remove_group(folder: str) -> None:
    """It, and what krait made in it to be in."""
    for _ in range(200):
        try:
            for inner in glob.glob(f"{folder}/*/"):
                os.rmdir(inner)
            os.rmdir(folder)
            return
        except OSError:
            time.sleep(0.02)
    subprocess.run(["rmdir", folder], check=False)  # says why


@contextmanager
def small_machine(mib: int):
    """A memory control group of so many MiB: the words before a command that runs in it."""
    parent, limit = place_for_group()
    folder = f"{parent}/exhaust-{os.getpid()}-{mib}"
    os.mkdir(folder)
    try:
        with open(f"{folder}/{limit}", "w") as f:
            f.write(str(mib * MIB))
        yield ("sh", "-c", f'echo 0 >{folder}/cgroup.procs && exec "$@"', "sh")
    finally:
        remove_group(folder)


HOLD = "x = bytearray(b'x') * (75 << 20)\nimport time\ntime.sleep(6)\nprint(len(x) >> 20)"


@needs(AROUND)
def small_machine_kills_cells(engine: Engine) -> list[str]:
    """With all of krait in 600 MB eight runs of 75 MB are too many: the kernel kills cells and nothing
    else, and no run is told that its own limit of 1 GiB was reached.
    """
    with small_machine(600) as wrap:
        other = Engine("--preload", "basic,data", "--stock", "0", wrap=wrap)
        try:
            return judge_small_machine(other) + other.close()
        except Gone as e:
            return [str(e)] + other.close()


def judge_small_machine(other: Engine) -> list[str]:
    limits = dict(QUICK, memory="1G")
    beside = other.open(limits, preload="data")
    beside.run("kept = 42")
    state = Census(other.pid)
    before = (sorted(state.builders()), sorted(state.zygotes()))
    bad, causes = [], []
    bound = min(
        int(census.text(f"{path}/{name}") or 1 << 60)
        for path in state.folders()
        for name in ("memory.limit_in_bytes", "memory.max")
    )
    if bound > 480 * MIB:
        bad.append(f"all cells together may have {bound >> 20} MiB of 600")
    for _ in range(3):
        sessions = other.open_many([limits] * 8)
        runs = [session.start(HOLD) for session in sessions]
        for session, number in zip(sessions, runs):
            run = session.wait(number)
            causes.append(run.cause)
            message = str(run.end.get("message"))
            if run.cause == "lost" and "short of memory" not in message:
                bad.append(f"killed for want of memory, and told otherwise: {run}")
            if run.cause not in ("ok", "lost"):
                bad.append(f"its own limit was far: {run}")
            if run.alive:
                session.close()
    if "ok" not in causes or "lost" not in causes:
        bad.append(f"some run must fit, and some not: {causes}")
    if (sorted(state.builders()), sorted(state.zygotes())) != before:
        bad.append("a builder or a zygote was killed before the cells were")
    kept = beside.run("print(kept)")
    if kept.stdout != "42\n":
        bad.append(f"a small session beside them: {kept}")
    return bad


@needs(AROUND)
def sessions_wait_for_memory(engine: Engine) -> list[str]:
    """Where sessions use nearly all that they may have together the next is refused with that
    reason; the others live on, and the end of one makes room.
    """
    with small_machine(600) as wrap:
        other = Engine("--stock", "0", wrap=wrap)
        limits, bad = dict(QUICK, memory="1G"), []
        sessions = [other.open(limits) for _ in range(6)]
        for session in sessions:
            run = session.run("x = bytearray(b'x') * (75 << 20)\nprint(len(x) >> 20)")
            bad += [] if run.stdout == "75\n" else [f"there is room for six of them: {run}"]
        try:
            other.open(limits)
            bad.append("a seventh session was opened with 30 MiB left")
        except Gone as e:
            bad += [] if "may have together" in str(e) else [f"refused without its reason: {e}"]
        bad += [] if sessions[1].run("print(len(x) >> 20)").stdout == "75\n" else ["the second is gone"]
        sessions[0].close()
        try:
            fresh = other.open(limits).run("print(6 * 7)")
            bad += [] if fresh.stdout == "42\n" else [f"after one has ended: {fresh}"]
        except Gone as e:
            bad.append(f"after one has ended: {e}")
        return bad + other.close()


TAKE = "x = bytearray(b'x') * (150 << 20)\nprint(len(x) >> 20)"


def user_engine(engine: Engine) -> Engine:
    """One in which the sessions of an owner have 256 MiB together."""
    return Engine("--stock", "2", "--pool", "2", "--user-memory", str(256 * MIB), user=engine.user)


def ended(engine: Engine, session) -> list[str]:
    told = [e for e in engine.unasked if e.get("event") == "session_ended"]
    return [str(e.get("cause")) for e in told if e.get("session") == session.number]


def left_by_next_starts(engine: Engine, folders: list[str]) -> list[str]:
    """Starts instances until one takes the lock of the one that was killed: others may end and begin
    on this machine meanwhile."""
    started, left = [], folders
    while left and len(started) < 16:
        started.append(Engine("--stock", "0", user=engine.user))
        started[-1].open(QUICK).close()
        left = [path for path in folders if os.path.exists(path)]
    bad = [complaint for one in started for complaint in one.close()]
    return bad + ([f"{len(started)} starts left {left}"] if left else [])


@needs("cgroup_memory")
def users_are_bounded(engine: Engine) -> list[str]:
    """Two sessions of one user that each stay below their own limit cannot have more than that user
    may; another user's session of the same size is not touched. What a user leaves is removed.
    """
    other = user_engine(engine)
    limits, bad = dict(QUICK, memory="200M"), []
    first = other.open(limits, owner=7, pooled=True)
    second = other.open(limits, owner=7, pooled=True, joins=True)
    beside = other.open(limits, owner=8, pooled=True)
    runs = [session.run(TAKE) for session in (beside, first, second)]
    deadline = time.monotonic() + 20
    while not ended(other, first) + ended(other, second) and time.monotonic() < deadline:
        time.sleep(0.02)
    lost = ended(other, first) + ended(other, second)
    if runs[0].stdout != "150\n" or ended(other, beside):
        bad.append(f"another user's session: {runs[0]}, {ended(other, beside)}")
    # One is enough; where memory of the killed one comes back late the kernel kills the other as well.
    if lost not in (["lost"], ["lost", "lost"]):
        bad.append(f"300 MiB of 256 for one user, and lost were {lost}: {runs[1]}; {runs[2]}")
    for session in (first, second, beside):
        session.close()
    state = Census(other.pid)
    folders = state.folders()
    pids = [other.pid, *census.tree(other.pid)]
    other.open(limits, owner=9)  # lives when its warden is killed
    os.kill(other.pid, 9)
    other.process.wait()
    deadline = time.monotonic() + 10
    while any(census.status(pid).get("Name") for pid in pids[1:]) and time.monotonic() < deadline:
        time.sleep(0.05)
    bad += left_by_next_starts(engine, folders)
    return bad


@needs("cgroup_memory")
def user_waits_for_memory(engine: Engine) -> list[str]:
    """A user whose sessions use nearly all that they may have gets no further one, other users do."""
    other = user_engine(engine)
    limits, bad = dict(QUICK, memory="300M"), []
    first = other.open(limits, owner=7)
    run = first.run("x = bytearray(b'x') * (240 << 20)\nprint(len(x) >> 20)")
    bad += [] if run.stdout == "240\n" else [f"240 MiB of 256: {run}"]
    try:
        other.open(limits, owner=7, joins=True)
        bad.append("a second session was opened with 10 MiB left")
    except Gone as e:
        bad += [] if "the user's sessions use" in str(e) else [f"refused without its reason: {e}"]
    beside = other.open(limits, owner=8).run("print(6 * 7)")
    bad += [] if beside.stdout == "42\n" else [f"another user: {beside}"]
    return bad + other.close()


def weight_of_user(state: Census, pid: int) -> int:
    """Of the control group around the cell of this process, among those of other users; 0: gone."""
    for line in census.text(f"/proc/{pid}/cgroup").splitlines():
        found = re.search(r"/(krait-[^/]*/u[0-9a-f]*)/c[0-9a-f]*$", line)
        for folder in state.folders() if found else ():
            if folder.endswith("/" + found.group(1).split("/")[0]):
                user = folder + "/" + found.group(1).split("/")[1]
                weight = census.text(user + "/cpu.shares") or census.text(user + "/cpu.weight")
                if weight:
                    return int(weight)
    return 0


def weight_once(state: Census, pid: int, is_wanted: Callable) -> int:
    """The weight once it is as wanted, or after 5 s."""
    deadline = time.monotonic() + 5
    while not is_wanted(weight := weight_of_user(state, pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return weight


@needs("cgroup_cpu")
def user_rests(engine: Engine) -> list[str]:
    """Work that a run leaves has the lowest weight among all users' too, not only in its own user's
    control group; the next run has its weight again.
    """
    other = user_engine(engine)
    state, bad = Census(other.pid), []
    session = other.open(QUICK, owner=7)
    child = session.run("import os\nn = os.fork()\nif n == 0:\n    while True: pass\nprint(n)").stdout.strip()
    # By its number inside: others that the pool parks meanwhile have greater ones outside.
    found = [pid for pid in state.in_cgroups() if census.status(pid).get("NSpid", "").split()[-1:] == [child]]
    if len(found) != 1:
        return [f"processes {child} of cells: {found}", *other.close()]
    pid = found[0]
    number = session.start("import time\ntime.sleep(6)")
    full = weight_once(state, pid, lambda weight: weight > 2)  # it may have fallen since the first run ended
    session.wait(number)
    deadline = time.monotonic() + 10
    while weight_of_user(state, pid) > 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    if not 0 < weight_of_user(state, pid) <= 2 < full:
        bad.append(f"the weight of a user at rest is {weight_of_user(state, pid)} of {full}")
    number = session.start("import time\ntime.sleep(6)")
    if (weight := weight_once(state, pid, lambda weight: weight == full)) != full:
        bad.append(f"in a run it is {weight} of {full}")
    session.wait(number)
    session.close()
    return bad + other.close()


SCENARIOS = [
    small_machine_kills_cells,
    sessions_wait_for_memory,
    users_are_bounded,
    user_waits_for_memory,
    user_rests,
]
