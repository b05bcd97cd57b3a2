"""What a krait leaves behind: processes, mounts, cgroup folders, lines in its lock file.

Used by box.py and start.py. A worker of the suite is a child subreaper in a mount namespace of its
own, so a process that loses its parents becomes the worker's child, and a mount that stays can only
be krait's.
"""
from __future__ import annotations

import ctypes
import errno
import fcntl
import glob
import os
import signal
import struct
import time

from proof import children, read

PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWNS = 0x20000
MS_REC, MS_PRIVATE = 0x4000, 1 << 18
CALM_S = 1.0  # what is still there when all processes have slept so long stays
BUSY_S = 20.0  # and on a loaded machine, where they want to run and cannot, after so long
FLOCK = "hhqqi"  # struct flock of x86-64 and arm64
libc = ctypes.CDLL(None, use_errno=True)


def isolate() -> None:
    """Makes this process the one that orphans come to, and its mounts its own."""
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 or libc.unshare(CLONE_NEWNS) < 0:
        raise OSError(ctypes.get_errno(), "a worker of its own")
    if libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) < 0:
        raise OSError(ctypes.get_errno(), "private mounts")


def state_of(pid: int) -> str:
    try:
        return read(f"/proc/{pid}/stat").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "X"


class Patience:
    """A wait for something to come or to go, with these processes at work on it: it is over when they have slept for a
    while, and nothing more can be expected. How loaded the machine is does not matter to that.
    """

    def __init__(self, calm: float = CALM_S) -> None:
        self.calm = calm
        self.begun = self.slept = time.monotonic()

    def is_over(self, pids: list[int]) -> bool:
        now = time.monotonic()
        if any(state_of(pid) in "RDTt" for pid in pids):  # runs or wants to; is stopped, by a tracer too
            self.slept = now
        return now > min(self.slept + self.calm, self.begun + max(self.calm, BUSY_S))


def tree(pid: int) -> list[int]:
    found = []
    for child in children(pid):
        found += [child, *tree(child)]
    return found


def lock_of(warden: int, locks: str) -> str:
    """The lock file that a krait holds, or an empty string. `locks`: its folder, if the krait sees
    it by another name.
    """
    try:
        for name in os.listdir(f"/proc/{warden}/fd"):
            path = os.readlink(f"/proc/{warden}/fd/{name}")
            if path.endswith(".lock") and "/krait" in path:
                path = os.path.join(locks, os.path.basename(path)) if locks else path
                with open(path, "rb+") as file:
                    if holder(file) == warden:  # it also opens those that others hold, to try them
                        return path
    except OSError:
        pass
    return ""


def holder(file) -> int:
    """The pid of the process that has locked it, 0 if none has."""
    want = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = struct.unpack(FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, want))
    return 0 if kind == fcntl.F_UNLCK else pid


def mounts() -> list[str]:
    return sorted(line.split(" ", 2)[2] for line in read("/proc/self/mountinfo").splitlines())


class Traces:
    """Taken while a krait lives; asked when it has ended."""

    def __init__(self, locks: str = "") -> None:
        self.mounts = mounts()
        self.locks = locks
        self.lock = ""
        self.groups: dict[
            str, int
        ] = {}  # path -> inode: another instance may make a folder of the same name

    def look(self, warden: int) -> None:
        """Where this instance puts things. It may not have got far enough to say."""
        self.lock = self.lock or lock_of(warden, self.locks)
        if not self.lock:
            return
        try:
            notes = read(self.lock).splitlines()
        except OSError:
            return
        for line in notes:
            kind, _, path = line.partition(" ")
            if kind == "cgroup" and path not in self.groups:
                try:
                    self.groups[path] = os.stat(path).st_ino
                except OSError:
                    pass

    def cells(self) -> list[str]:
        return [
            cell
            for path in self.groups
            for shape in ("/c*/", "/u*/")
            for cell in glob.glob(path + shape)
            if self.is_ours(path)
        ]

    def is_ours(self, path: str) -> bool:
        try:
            return os.stat(path).st_ino == self.groups[path]
        except OSError:
            return False

    def lock_left(self) -> list[str]:
        try:
            with open(self.lock, "rb+") as file:
                text = file.read()
                if text and not holder(file):  # locked: another instance has the slot now
                    return [f"{self.lock} says {text!r}"]
        except OSError as e:
            if e.errno != errno.ENOENT:
                return [str(e)]
        return []

    def left(self, known: set[int]) -> list[str]:
        """What is there now and should not be; `known` are processes of the suite itself."""
        found = [f"process {pid} {name_of(pid)}" for pid in tree(os.getpid()) if pid not in known]
        found += [f"cgroup {path}" for path in self.groups if self.is_ours(path)]
        found += [f"mount {row}" for row in mounts() if row not in self.mounts]
        return found + (self.lock_left() if self.lock else [])

    def left_at_rest(self, known: set[int]) -> list[str]:
        """What is left once nothing goes any more; it is removed then, so that the next case is not charged with it
        and the machine not littered.
        """
        patience = Patience()
        while True:
            reap(known)
            found = self.left(known)
            mine = [pid for pid in tree(os.getpid()) if pid not in known]
            if not found:
                return []
            if patience.is_over(mine):
                break
            time.sleep(0.005)
        for pid in mine:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.1)
        reap(known)
        self.remove_groups()
        return found

    def remove_groups(self) -> None:
        for path in filter(self.is_ours, self.groups):
            for folder, _, _ in os.walk(path, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError:
                    pass


def name_of(pid: int) -> str:
    try:
        return f"{read(f'/proc/{pid}/comm').strip()} ({state_of(pid)})"
    except OSError:
        return "?"


def reap(known: set[int]) -> None:
    """Orphans that came to us and have ended."""
    for pid in children(os.getpid()):
        if pid in known:
            continue
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass
