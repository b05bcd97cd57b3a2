#!/usr/bin/python3 -u
"""The shelf's calls failed, one at a time: while an image is made and mounted, and while its keeper makes, limits,
measures and drops a folder, and grows the image.

Which calls there are is taken from a recording of a clean life of tests/programs/shelf. strace fails the nth of a name in
every process that makes so many, mkfs included. A call that fails at the start keeps the keeper from making its own,
so those of the keeper, which GROW has beside others, are failed once more in a keeper that is up. Whatever fails: what is called enforced is enforced; nothing of it is
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
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "../shelf/lib"))
import shelves  # noqa: E402
from shelves import FOLDER, MIB, SLACK, Data, Shelf, fill, in_user  # noqa: E402

STRACE = "/usr/bin/strace"
CALLS = ("unshare mount openat openat2 ioctl fsopen fsconfig fsmount move_mount linkat fsync syncfs ftruncate fallocate"
         " fchown fchmod flock clone clone3 socketpair fstatfs newfstatat mkdirat unlinkat pipe2 dup2 execve pidfd_open poll"
         " capset capget prctl close_range quotactl_fd umount2 sendmsg recvmsg read sysinfo wait4").split()
MOST = 45  # of one name: after these come repetitions of the keeper's questions
# What a full or a broken disk says: instead of EPERM, and beside it.
INSTEAD = {"fsync": "EIO", "syncfs": "EIO", "read": "EIO", "ftruncate": "ENOSPC", "quotactl_fd": "EIO"}
BESIDE = {"ioctl": "ENOSPC", "mkdirat": "ENOSPC", "linkat": "ENOSPC", "fallocate": "ENOSPC"}
KEEPERS = "ioctl ftruncate fallocate quotactl_fd mkdirat fchown".split()
LIMIT = 2 * MIB
GROWN = 1536 * MIB
SCRIPT = (("make", LIMIT), ("usage", 0), ("limit", 2 * LIMIT), ("limit", LIMIT), ("copy", LIMIT))


class Traced(Shelf):
    """A shelf under strace. The driver is strace's child."""

    def __init__(self, data: str, log: str, *options: str) -> None:
        super().__init__(data, "image", start=[STRACE, "-f", "-qq", "-o", log, *options, "--", shelves.DRIVER])


class KeeperTraced(Shelf):
    """A shelf that is up, and its keeper under strace from then on."""

    def __init__(self, data: str, log: str, *options: str) -> None:
        super().__init__(data, "image")
        assert self.up, self.error
        keeper, deadline = self.keeper(), time.monotonic() + 20
        self.tracer = subprocess.Popen([STRACE, "-qq", "-o", log, *options, "-p", str(keeper)])
        while f"TracerPid:\t{self.tracer.pid}\n" not in open(f"/proc/{keeper}/status").read():
            assert time.monotonic() < deadline, "strace does not attach"
            time.sleep(0.002)


def write(path: str) -> int:
    """As much as is taken, as the server's user: root may pass a project's limit."""
    with open(f"{path}/file", "wb", buffering=0) as f:
        taken = fill(f.fileno(), 8 * LIMIT)
    os.unlink(f"{path}/file")
    return taken


def live(shelf: Shelf, name: str, is_clean: bool = False) -> str:
    """Asks all questions; what is wrong, or "". Without a fault something can be written."""
    enforced = False
    try:
        for op, size in SCRIPT:
            is_copy = op == "copy"
            answer = shelf.ask(op, f"{name}c" if is_copy else name, size, 0, name if is_copy else "-")
            if is_copy:  # what it says it has made is limited; what failed is not there
                if answer.error and os.path.isdir(f"{shelf.path}/{name}c") and answer.error != 17:
                    limits = shelf.ask("usage", f"{name}c")
                    if not limits.error and not 0 < limits.max_bytes <= LIMIT + SLACK:
                        return f"a copy without its limit: {limits}"
                shelf.ask("drop", f"{name}c")
                continue
            enforced = enforced or (not answer.error and answer.kind != FOLDER)
        if enforced and os.path.isdir(f"{shelf.path}/{name}"):
            taken = 0
            with contextlib.suppress(OSError):  # a folder that stayed root's, or that is full already
                taken = in_user(write, f"{shelf.path}/{name}")
            if is_clean and taken < LIMIT // 2:
                return f"{taken} bytes could be written in a folder of {LIMIT}"
            if taken > 2 * LIMIT + SLACK:  # the second LIMIT may be what failed
                return f"{taken} bytes were written in a folder of {LIMIT}"
            shelf.ask("drop", name)
        grown = shelf.ask("grow", "-", GROWN)
        if not grown.error and grown.size < GROWN - GROWN // 10:
            return f"grown to {grown.size} bytes, not {GROWN}"
        shelf.ask("usage")
    except (EOFError, BrokenPipeError):
        pass  # the keeper or the driver has ended: nothing more can be asked
    return ""


def one(how: type, options: list[str], log: str) -> str:
    """A life with a fault in it, and the clean one after it; what is wrong, or ""."""
    with Data() as data:
        shelf = how(data, log, *options)
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
        if how is KeeperTraced:
            shelf.tracer.wait(20)
        wrong = wrong or shelves.nothing_left(data)
        if not wrong:
            with Shelf(data, "image") as again:
                wrong = live(again, "bb", is_clean=True)
                answer = again.ask("make", "bb", LIMIT)  # it was dropped
                grown = again.ask("grow", "-", GROWN)
                if answer.error or grown.error:
                    wrong = wrong or f"the next start: {answer.text}{grown.text}"
    return wrong


def record(how: type, log: str) -> dict[str, int]:
    """How often each call is made by the process that makes it most."""
    why = one(how, [f"--trace={','.join(CALLS)}"], log)
    assert not why, f"a clean life fails: {why}"
    counts: collections.Counter = collections.Counter()
    with open(log) as f:
        for line in f:
            if found := re.match(r"(\d* *)(\w+)\(", line):
                counts[found[1], found[2]] += 1
    most: dict[str, int] = {}
    for (_, name), n in counts.items():
        most[name] = max(most.get(name, 0), n)
    return most


def fail_each(how: type, name: str, error: str, count: int, log: str) -> bool:
    """Whether one of them went wrong."""
    wrong = []
    for n in range(1, count + 1):
        why = one(how, [f"--trace={name}", f"--inject={name}:error={error}:when={n}"], log)
        if why:
            wrong.append(f"#{n}: {why}")
    what = f"{'keeper ' if how is KeeperTraced else ''}{name} {error}"
    print(f"FAIL {what}: {'; '.join(wrong)[:1500]}" if wrong else f"PASS {what} ({count})", flush=True)
    return bool(wrong)


def main() -> None:
    shelves.alone()
    wanted = sys.argv[1:]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="krait-fault-") as folder:
        log = f"{folder}/log"
        found = record(Traced, log)
        for must in ("unshare", "mount", "ioctl", "fsopen", "fsmount", "move_mount", "linkat", "fchown", "execve"):
            if must not in found:
                print(f"FAIL {must}: is not in the recording", flush=True)
                failed = 1
        for name, count in sorted(found.items()):
            if wanted and name not in wanted:
                continue
            for error in filter(None, (INSTEAD.get(name, "EPERM"), BESIDE.get(name))):
                failed |= fail_each(Traced, name, error, min(count, MOST), log)
        for name, count in sorted(record(KeeperTraced, log).items()):
            if name in KEEPERS and (not wanted or name in wanted):
                error = BESIDE.get(name) or INSTEAD.get(name, "EPERM")
                failed |= fail_each(KeeperTraced, name, error, min(count, MOST), log)
    sys.exit(failed)


if __name__ == "__main__":
    main()
