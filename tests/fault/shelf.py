#!/usr/bin/python3 -u
"""The shelf's calls failed, one at a time: while an image is made and mounted, and while its keeper makes, limits,
measures and drops a folder.

Which calls there are is taken from a recording of a clean life of tests/programs/shelf. strace fails the nth of a name in
every process that makes so many, mkfs included. Whatever fails: what is called enforced is enforced; nothing of it is
left, no loop device, no mount, no file but a whole image; and the next start works.

    tests/fault/shelf.py [NAME…]     calls of these names only
"""
import collections
import contextlib
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "../shelf/lib"))
import shelves  # noqa: E402
from shelves import FOLDER, MIB, SLACK, Data, Shelf, fill  # noqa: E402

STRACE = "/usr/bin/strace"
CALLS = ("unshare mount openat openat2 ioctl fsopen fsconfig fsmount move_mount linkat fsync syncfs ftruncate fallocate"
         " fchown fchmod flock clone clone3 socketpair fstatfs newfstatat mkdirat unlinkat pipe2 dup2 execve pidfd_open poll"
         " capset capget prctl close_range quotactl_fd umount2 sendmsg recvmsg read sysinfo wait4").split()
MOST = 45  # of one name: after these come repetitions of the keeper's questions
LIMIT = 2 * MIB
SCRIPT = (("make", LIMIT), ("usage", 0), ("limit", 2 * LIMIT), ("limit", LIMIT))


class Traced(Shelf):
    """A shelf under strace. The driver is strace's child."""

    def __init__(self, data: str, log: str, *options: str) -> None:
        super().__init__(data, "image", start=[STRACE, "-f", "-qq", "-o", log, *options, "--", shelves.DRIVER])


def live(shelf: Shelf, name: str) -> str:
    """Asks all questions; what is wrong, or ""."""
    enforced = False
    try:
        for op, size in SCRIPT:
            answer = shelf.ask(op, name, size)
            enforced = enforced or (not answer.error and answer.kind != FOLDER)
        if enforced and os.path.isdir(f"{shelf.path}/{name}"):
            with open(f"{shelf.path}/{name}/file", "wb", buffering=0) as f:
                taken = fill(f.fileno(), 8 * LIMIT)
            if taken > 2 * LIMIT + SLACK:  # the second LIMIT may be what failed
                return f"{taken} bytes were written in a folder of {LIMIT}"
            shelf.ask("drop", name)
        shelf.ask("usage")
    except (EOFError, BrokenPipeError):
        pass  # the keeper or the driver has ended: nothing more can be asked
    return ""


def one(options: list[str], log: str) -> str:
    """A life with a fault in it, and the clean one after it; what is wrong, or ""."""
    with Data() as data:
        shelf = Traced(data, log, *options)
        wrong = live(shelf, "aa") if shelf.up else ""
        with contextlib.suppress(BrokenPipeError):
            shelf.process.stdin.close()
        try:
            shelf.process.wait(20)
        except subprocess.TimeoutExpired:
            subprocess.run(["kill", "-9", str(shelf.process.pid)], check=False)
            shelf.process.wait()
            wrong = wrong or "it hung"
        shelf.process.stdout.close()
        wrong = wrong or shelves.nothing_left(data)
        if not wrong:
            with Shelf(data, "image") as again:
                wrong = live(again, "bb")
                answer = again.ask("make", "bb", LIMIT)  # it was dropped
                if answer.error:
                    wrong = wrong or f"the next start: {answer.text}"
    return wrong


def record(log: str) -> dict[str, int]:
    """How often each call is made by the process that makes it most."""
    assert not one([f"--trace={','.join(CALLS)}"], log), "a clean life fails"
    counts: collections.Counter = collections.Counter()
    with open(log) as f:
        for line in f:
            if found := re.match(r"(\d+) +(\w+)\(", line):
                counts[found[1], found[2]] += 1
    most: dict[str, int] = {}
    for (_, name), n in counts.items():
        most[name] = max(most.get(name, 0), n)
    return most


def main() -> None:
    shelves.alone()
    wanted = sys.argv[1:]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="krait-fault-") as folder:
        log = f"{folder}/log"
        found = record(log)
        for must in ("unshare", "mount", "ioctl", "fsopen", "fsmount", "move_mount", "linkat", "fchown", "execve"):
            if must not in found:
                print(f"FAIL {must}: is not in the recording", flush=True)
                failed = 1
        for name, count in sorted(found.items()):
            if wanted and name not in wanted:
                continue
            wrong = []
            for n in range(1, min(count, MOST) + 1):
                why = one([f"--trace={name}", f"--inject={name}:error=EPERM:when={n}"], log)
                if why:
                    wrong.append(f"#{n}: {why}")
            failed |= bool(wrong)
            print(f"FAIL {name}: {'; '.join(wrong)[:1500]}" if wrong else f"PASS {name} ({min(count, MOST)})", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
