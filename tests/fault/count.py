#!/usr/bin/python3 -u
"""The calls that count deleted files which are still open, failed: the keeper's and the warden's.

A server on a plain folder. Every call of one name fails, from before a run begins until it has ended; the run writes an
unlinked file past its limit. Whatever fails: the run does not get past it. Its end says either that the limit was
reached, or that its files could not be counted. Then, without a fault, a file within the limit passes, one past it does
not. A keeper that a fault ends takes a question with it: the engine asks again when that is past its deadline.

    tests/fault/count.py [NAME…]     calls of these names only
"""
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../lib")]
from krait_server import Server  # noqa: E402
from strace import Strace  # noqa: E402

LONG = 45  # seconds: past the deadline of a question
HIDDEN = "files that its processes have open cannot be counted"
REACHED = "disk limit of 8 MiB reached"
# Who makes it, its name, what the run is told. EACCES: no error that a process which has just ended would give.
CALLS = [("keeper", "openat", HIDDEN), ("keeper", "getdents64", HIDDEN), ("keeper", "statx", HIDDEN),
         ("keeper", "recvmsg", REACHED), ("keeper", "sendmsg", REACHED), ("keeper", "poll", REACHED),
         ("warden", "openat", HIDDEN), ("warden", "fstatfs", HIDDEN)]
WRITE = """import os, time
fd = os.open('u', os.O_CREAT | os.O_RDWR)
os.unlink('u')
for i in range(%d): os.write(fd, b'x' * (1 << 20))
time.sleep(%d)
os.close(fd)
print('survived')
"""


def keeper_of(s: Server) -> int:
    """The one child of the warden that is root's; 0: there is none."""
    warden = s.process.pid
    with open(f"/proc/{warden}/task/{warden}/children", encoding="ascii") as f:
        found = [int(pid) for pid in f.read().split() if os.stat(f"/proc/{pid}").st_uid == 0]
    assert len(found) <= 1, found
    return found[0] if found else 0


def run(s: Server, mib: int, seconds: int) -> dict:
    return s.run(WRITE % (mib, seconds), sandbox_id="counted", timeout=60)


def one(s: Server, who: str, call: str, told: str, log: str) -> str:
    """What is wrong, or ""."""
    s.run("1", sandbox_id="counted")  # its session is there: what fails is the count
    run(s, 1, 1)  # and the keeper
    pid = keeper_of(s) if who == "keeper" else s.process.pid
    tracer = Strace(log, [pid], f"--trace={call}", f"--inject={call}:error=EACCES")
    end = run(s, 60, LONG)
    tracer.stop()
    if "(INJECTED)" not in tracer.text():
        return "no call of that name was made"
    if end["cause"] != "disk_limit" or told not in (end["message"] or ""):
        return f"the run: {end['cause']}, {end['message']}, {end['stdout']!r}"
    end = run(s, 5, 2)
    if end["cause"] != "ok":
        return f"afterwards, 5 MiB: {end['cause']}, {end['message']}"
    end = run(s, 60, LONG)
    return "" if REACHED in (end["message"] or "") else f"afterwards, 60 MiB: {end['cause']}, {end['message']}"


def main() -> None:
    wanted = sys.argv[1:]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="krait-fault-") as folder, Server(shelf="folder") as s:
        made = s.post("/api/v1/sandboxes", {"name": "counted", "limits": {"disk": "8M", "file_size": "64M"}})
        assert made.status == 201, made.text
        for who, call, told in CALLS:
            if wanted and call not in wanted:
                continue
            why = one(s, who, call, told, f"{folder}/log")
            failed |= bool(why)
            print(f"FAIL {who} {call}: {why}" if why else f"PASS {who} {call}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
