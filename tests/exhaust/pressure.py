"""Too little memory around the cells: the whole of krait in a small control group of its own."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import contextmanager

import census
from census import Census
from engine import Engine, Gone
from model import QUICK

MIB = 1 << 20


def own_group() -> tuple[str, str]:
    """Our own memory control group and the file of its limit; "" where we cannot have one below."""
    for line in census.text("/proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if "memory" in names.split(","):
            return f"{census.CGROUPS}/memory{path}".rstrip("/"), "memory.limit_in_bytes"
    return "", ""


@contextmanager
def small_machine(mib: int):
    """A memory control group of so many MiB: the words before a command that runs in it. None where
    this machine has no cgroup v1 of memory."""
    parent, limit = own_group()
    if not parent or os.geteuid() != 0:
        yield None
        return
    folder = f"{parent}/exhaust-{os.getpid()}-{mib}"
    os.mkdir(folder)
    try:
        with open(f"{folder}/{limit}", "w") as f:
            f.write(str(mib * MIB))
        yield ("sh", "-c", f'echo 0 >{folder}/cgroup.procs && exec "$@"', "sh")
    finally:
        for _ in range(200):
            try:
                os.rmdir(folder)
                break
            except OSError:
                time.sleep(0.02)
        else:
            subprocess.run(["rmdir", folder], check=False)  # says why


HOLD = "x = bytearray(b'x') * (75 << 20)\nimport time\ntime.sleep(2)\nprint(len(x) >> 20)"


def small_machine_kills_cells(engine: Engine) -> list[str]:
    """With all of krait in 600 MB eight runs of 75 MB are too many: the kernel kills cells and nothing
    else, and no run is told that its own limit of 1 GiB was reached.
    """
    if engine.user is not None:
        return []  # it has no cgroup of its own to be put into
    with small_machine(600) as wrap:
        if wrap is None:
            return []
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
        [int(census.text(f"{path}/memory.limit_in_bytes") or 1 << 60) for path in state.folders()]
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


def sessions_wait_for_memory(engine: Engine) -> list[str]:
    """Where sessions use nearly all that they may have together the next is refused with that
    reason; the others live on, and the end of one makes room.
    """
    if engine.user is not None:
        return []
    with small_machine(600) as wrap:
        if wrap is None:
            return []
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


SCENARIOS = [small_machine_kills_cells, sessions_wait_for_memory]
