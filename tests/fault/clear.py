#!/usr/bin/python3 -u
"""The warden's calls failed, one at a time, while it ends what a run has started: W_SIGNAL and W_CLEAR.

Two runs, each recorded once without a fault: one that a timeout ends beside a process of an earlier run, which is
spared, and a fork bomb, for whose end no process may be started. Whatever call fails: the run ends as it would, what it
started is gone, its session can start processes again, and after the session nothing is left. The process of the
earlier run may die with the others only where what tells its age cannot be read, and the session only where its
interrupt cannot be sent, or its pace not be set.

    tests/fault/clear.py [NAME…]     calls of these names only
"""
import collections
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../exhaust")]
from census import Census  # noqa: E402
from engine import Engine, Gone  # noqa: E402
from strace import Strace, fault, parse  # noqa: E402

# What the warden does there; of its sockets and its loop the suite `fault` fails each call.
CALLS = "openat read write close fstat newfstatat pidfd_open pidfd_send_signal getpgid lseek".split()
MUST = {"timeout": ("pidfd_open", "pidfd_send_signal", "openat", "getpgid"),
        "bomb": ("pidfd_open", "pidfd_send_signal", "openat", "write")}
MOST = 16  # of one name: after these come repetitions for the next process
SPARES = ("openat", "read", "fstat", "newfstatat", "lseek", "close")  # of these some tell how old a process is
START = "import os, subprocess\nme = os.getpid()\nearly = subprocess.Popen(['sleep', '600'])"
RUNS = {
    "timeout": ("own = subprocess.Popen(['sleep', '600'], start_new_session=True)\nimport time\ntime.sleep(60)", "1s"),
    "bomb": ("while True:\n    if os.fork() == 0:\n        while True:\n            try: os.fork()\n"
             "            except OSError: pass", "20s"),
}
LEFT = {
    "timeout": "print(own.poll() is not None, early.poll() is None)",
    "bomb": "print(True, True)",
}
AGAIN = "print([subprocess.run(['true']).returncode for _ in range(8)])"


def settle(session, name: str) -> tuple:
    """What the session says once the dead have had a moment: what the run started is gone; the earlier one lives."""
    run = session.run(LEFT[name])
    return tuple(word == "True" for word in run.stdout.split()) if run.cause == "ok" else (False, False)


def one(engine: Engine, name: str, options: list, log: str, call: str = "") -> str:
    """A session with that run, and the fault in it; what is wrong, or ""."""
    session = engine.open({"processes": 24, "grace": "2s", "memory": "256M"})
    why, alive = judge(engine, session, name, options, log, call)
    if alive:
        session.close()
    return why or "; ".join(Census(engine.pid).wait_empty(20))


def judge(engine: Engine, session, name: str, options: list, log: str, call: str) -> tuple:
    """What is wrong, or "", and whether the session lives."""
    code, timeout = RUNS[name]
    session.run(START)
    time.sleep(0.05)  # the age of a process is told in ticks of 10 ms, and one of the same tick is not spared
    trace = Strace(log, [engine.pid], *options)
    run = session.run(code, timeout, seconds=120)
    trace.stop()
    hit = " ".join(one.args for one in parse(trace.text()) if one.injected)
    if not run.alive and call == "pidfd_send_signal" and run.cause == "timeout":
        return "", False  # its SIGINT failed: the end of the grace is that of the cell
    if not run.alive and "/cpu." in hit and run.cause == "signal":
        return "", False  # its pace could not be set
    if not run.alive:
        return f"the session has ended: {run}", False
    if name == "timeout" and run.cause != "timeout":
        return f"it ended otherwise: {run}", True
    gone, spared = settle(session, name)
    if not gone:
        return f"what it started lives: {run}", True
    if not spared and call not in SPARES:
        return f"the process of an earlier run was ended: {run}", True
    again = session.run(AGAIN)
    if again.stdout.strip() != str([0] * 8):
        return f"no process can be started after it: {again}", True
    return "", True


def record(engine: Engine, name: str, log: str) -> dict:
    why = one(engine, name, [f"--trace={','.join(CALLS)}"], log)
    assert not why, f"without a fault: {why}"
    with open(log) as f:
        return collections.Counter(call.name for call in parse(f.read()))


def fail_each(engine: Engine, name: str, call: str, count: int, log: str) -> list:
    wrong = []
    for n in range(1, min(count, MOST) + 1):
        why = one(engine, name, ["-y", f"--trace={call}", fault(call, "EPERM", n)], log, call)
        if why:
            wrong.append(f"#{n}: {why}")
    return wrong


def main() -> None:
    wanted, failed = sys.argv[1:], 0
    engine = Engine("--stock", "0")
    engine.open({}).close()
    if not Census(engine.pid).folders():
        print("SKIP clear: no control groups here")
        sys.exit(bool(engine.close()))
    with tempfile.TemporaryDirectory(prefix="krait-fault-") as folder:
        log = f"{folder}/log"
        for name in RUNS:
            found = record(engine, name, log)
            for must in MUST[name]:
                if must not in found:
                    print(f"FAIL {name}:{must}: is not in the recording")
                    failed = 1
            for call, count in sorted(found.items()):
                if wanted and call not in wanted:
                    continue
                try:
                    wrong = fail_each(engine, name, call, count, log)
                except Gone as e:
                    wrong = [str(e)]
                    engine.close()
                    engine = Engine("--stock", "0")
                failed |= bool(wrong)
                said = "; ".join(wrong)[:1500]
                print(f"FAIL {name}:{call}: {said}" if wrong else f"PASS {name}:{call} ({min(count, MOST)})")
    bad = engine.close()
    print(f"FAIL the-engine-ends: {bad}" if bad else "PASS the-engine-ends")
    sys.exit(failed or bool(bad))


if __name__ == "__main__":
    main()
