#!/usr/bin/python3
"""The ways krait is started in: as root, as an ordinary user, inside user namespaces, inside a container's filter.

As a module it gives run.py the table WAYS. As a program (`ways.py WAY UID COMMAND…`) it becomes what the way says and
executes the command, so that its pid stays the command's. Invariants: what it cannot become ends it with status 125; a
way's user id belongs to it and to the process that imported this module alone.
"""
from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from dataclasses import dataclass

import container_filter

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
from own_user import own_user  # noqa: E402

PYTHON = "/usr/bin/python3"
FIRST_RANGE, RANGE_COUNT = 0x30000000, 65_536
CLONE_NEWUSER = 0x10000000


@dataclass(frozen=True)
class Way:
    name: str
    about: str
    uid: int  # whose krait's files are, on the machine
    needs_root: bool = False
    contained: bool = False
    krait: tuple = ()  # options it needs

    def wrap(self, argv: list[str]) -> list[str]:
        if self.name == "root":
            return argv
        return [PYTHON, os.path.join(HERE, "ways.py"), self.name, str(self.uid), *argv]

    def cannot(self) -> str | None:
        """Why this way does not exist on this machine, or None."""
        if self.needs_root and os.geteuid() != 0:
            return "needs root"
        done = subprocess.run(self.wrap(["/bin/true"]), capture_output=True, text=True)
        return (
            None
            if done.returncode == 0
            else done.stderr.strip().splitlines()[-1]
            if done.stderr.strip()
            else "cannot be entered"
        )


ME = os.geteuid()


def ordinary(number: int) -> int:
    return own_user(number) if ME == 0 else ME


WAYS = {
    way.name: way
    for way in (
        Way("root", "as it is", 0, needs_root=True),
        Way("user", "an ordinary user", ordinary(0)),
        Way("userns", "root of a user namespace with one id", ordinary(1)),
        Way(
            "userns-range",
            "root of a user namespace with a range of ids",
            FIRST_RANGE + os.getpid() % 8192 * RANGE_COUNT,
            needs_root=True,
        ),
        Way(
            "contained",
            "an ordinary user behind a container's default filter",
            ordinary(2),
            contained=True,
            krait=("--level", "contained", "--allow-contained"),
        ),
    )
}


def unshare(flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def become_user(uid: int) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # changing the uid made /proc/self root's


def put(path: str, text: str) -> None:
    with open(path, "w") as f:
        f.write(text)


def become_userns(uid: int) -> None:
    """Like `unshare -Ur` of an ordinary user."""
    become_user(uid)
    uid, gid = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER)
    put("/proc/self/setgroups", "deny")
    put("/proc/self/uid_map", f"0 {uid} 1")
    put("/proc/self/gid_map", f"0 {gid} 1")


def become_userns_range(first: int) -> None:
    """Like a rootless container engine with subordinate ids: the maps are written from outside."""
    ready, go = os.pipe(), os.pipe()
    target = os.getpid()
    helper = os.fork()
    if helper == 0:
        os.read(ready[0], 1)
        for name in ("uid_map", "gid_map"):
            put(f"/proc/{target}/{name}", f"0 {first} {RANGE_COUNT}")
        os.write(go[1], b"x")
        os._exit(0)
    unshare(CLONE_NEWUSER)
    os.write(ready[1], b"x")
    os.read(go[0], 1)
    os.waitpid(helper, 0)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)


def main() -> int:
    way, uid, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    signal.alarm(20)  # nothing here may wait for long
    try:
        {
            "user": become_user,
            "userns": become_userns,
            "userns-range": become_userns_range,
            "contained": container_filter.install,
        }[way](uid)
        signal.alarm(0)
        os.execvp(command[0], command)
    except OSError as e:
        print(f"ways.py: {way}: {e}", file=sys.stderr)
    return 125


if __name__ == "__main__":
    sys.exit(main())
