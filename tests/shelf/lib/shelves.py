"""A shelf without a server: build/tests/shelf-driver in a data directory of its own, and what may be left of it.

A suite calls alone() first: it goes on in a mount namespace that no other process sees, with its own /tmp folder, so
that a filesystem it mounts is gone with it.
"""
import ctypes
import errno
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tests/lib"))
from check import skip  # noqa: E402

DRIVER = os.path.join(os.environ.get("KR_BUILD", os.path.join(ROOT, "build")), "tests/shelf-driver")
MIB = 1 << 20
SERVER = 1234567  # the uid and gid of a server
FOLDER, BTRFS, PROJECT = range(3)
GONE_S = 60.0  # an unmount writes what is left, and a busy disk takes its time
SLACK = 512 * 1024  # what a limit may be passed by: metadata

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 1 << 14, 1 << 18


def alone() -> None:
    if os.geteuid() != 0:
        print("SKIP shelf: needs root", flush=True)
        sys.exit(0)
    if libc.unshare(CLONE_NEWNS) < 0 or libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) < 0:
        raise OSError(ctypes.get_errno(), "a mount namespace")


@dataclass
class Answer:
    kind: int = 0
    image: int = 0
    bytes: int = 0
    inodes: int = 0
    max_bytes: int = 0
    max_inodes: int = 0
    room: int = 0
    size: int = 0
    host_free: int = 0
    error: int = 0
    text: str = ""


class Shelf:
    """One process with its keeper. As a context manager it ends properly."""

    def __init__(self, data: str, choice: str = "auto", size: int = 1 << 30, discard: bool = False,
                 start: list[str] | None = None, **how) -> None:
        self.data = data
        self.process = subprocess.Popen([*(start or [DRIVER]), f"{data}/sandboxes", choice, str(size), str(int(discard))],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, **how)
        words = (self.process.stdout.readline() or "error 0 no word").split(None, 4)
        self.up = words[0] == "up"
        self.error = "" if self.up else " ".join(words[2:])
        if self.up:
            self.kind, self.image, self.pid = int(words[1]), int(words[2]), int(words[3])
            self.why = words[4].strip() if len(words) > 4 else ""
            self.path = f"/proc/{self.pid}/root{data}/sandboxes"
        else:
            self.process.wait()

    def ask(self, op: str, name: str = "-", size: int = 0, inodes: int = 0, source: str = "-") -> Answer:
        self.process.stdin.write(f"{op} {name} {size} {inodes} {source}\n")
        words = self.process.stdout.readline().split(None, 2)
        if not words:
            raise EOFError("the driver has ended")
        if words[0] == "error":
            return Answer(error=int(words[1]), text=words[2])
        return Answer(*map(int, " ".join(words[1:]).split()))

    def keeper(self) -> int:
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as f:
            return int(f.read().split()[0])

    def kill(self) -> None:
        """Everything at once, as far as signals can."""
        keeper = self.keeper()
        os.kill(self.process.pid, 9)
        try:
            os.kill(keeper, 9)
        except ProcessLookupError:
            pass
        self.process.wait()

    def close(self) -> None:
        self.process.stdin.close()
        assert self.process.wait(GONE_S) == 0, "the driver ended with an error"

    def __enter__(self):
        assert self.up, self.error
        return self

    def __exit__(self, *exc) -> None:
        if self.process.poll() is None:
            self.close()
        self.process.stdout.close()


class Data:
    """A data directory of a server, removed at the end; nothing that was mounted or attached from it is left then."""

    def __init__(self, where: str | None = None) -> None:
        self.path = tempfile.mkdtemp(prefix="krait-shelf-", dir=where)
        os.mkdir(f"{self.path}/sandboxes", 0o700)
        for path in (self.path, f"{self.path}/sandboxes"):
            os.chown(path, SERVER, SERVER)
        os.chmod(self.path, 0o755)

    def __enter__(self) -> str:
        return self.path

    def __exit__(self, kind, *exc) -> None:
        left = "" if kind else nothing_left(self.path)
        shutil.rmtree(self.path, ignore_errors=True)
        assert not left, left


def devices(data: str) -> list[str]:
    """Loop devices whose file lies in the directory."""
    found = []
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        try:
            with open(path) as f:
                if f.read().startswith(data + "/"):
                    found.append(path.split("/")[3])
        except OSError:
            pass  # cleared meanwhile
    return found


def nothing_left(data: str) -> str:
    """What is left of a shelf whose processes have ended, or ""."""
    for _ in range(int(GONE_S / 0.02)):
        if not devices(data):
            break
        time.sleep(0.02)
    with open("/proc/self/mountinfo") as f:
        mounts = [line for line in f if f"{data}/sandboxes" in line]
    odd = sorted(set(os.listdir(data)) - {"sandboxes", "sandboxes.image"})
    return "; ".join(str(x) for x in (devices(data), mounts, odd) if x)


def in_user(work, path: str):
    """Does work(path) as the server's user without a capability, in a child, in the mount namespace of the process that
    the path names. Its result, or OSError by its errno."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            found = re.match(r"(/proc/\d+)/root(/.*)", path)
            if found:
                namespace = os.open(f"{found[1]}/ns/mnt", os.O_RDONLY)
                if libc.setns(namespace, CLONE_NEWNS) < 0:
                    raise OSError(ctypes.get_errno(), "setns")
                path = found[2]
            os.setgroups([])
            os.setresgid(SERVER, SERVER, SERVER)
            os.setresuid(SERVER, SERVER, SERVER)
            text = f"ok {work(path)}"
        except OSError as e:
            text = f"error {e.errno}"
        os.write(w, text.encode())
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as f:
        word, value = f.read().split(None, 1)
    os.waitpid(pid, 0)
    if word == "error":
        raise OSError(int(value), os.strerror(int(value)))
    return int(value) if value.lstrip("-").isdigit() else value


def fill(fd: int, most: int) -> int:
    """Writes until it is refused; how much was taken."""
    done = 0
    try:
        while done < most:
            done += os.write(fd, b"x" * 65536)
    except OSError as e:
        if e.errno not in (errno.EDQUOT, errno.ENOSPC):
            raise
    return done


def mkfs(kind: str, path: str, size: int, *options: str) -> None:
    with open(path, "wb") as f:
        f.truncate(size)
    subprocess.run([f"/usr/sbin/mkfs.{kind}", "-q", *options, path], check=True, stdout=subprocess.DEVNULL)


def mount(image: str, point: str, options: str = "") -> None:
    os.makedirs(point, exist_ok=True)
    subprocess.run(["mount", "-o", ",".join(filter(None, ["loop", options])), image, point], check=True,
                   stderr=subprocess.DEVNULL)


def unmount(point: str) -> None:
    subprocess.run(["umount", point], check=True)


def need_btrfs() -> None:
    """The kernel's simple quotas, or there is nothing to show here."""
    version = tuple(int(x) for x in os.uname().release.split("-")[0].split(".")[:2])
    with open("/proc/filesystems") as f:
        if "\tbtrfs\n" not in f.read() or version < (6, 7):
            skip("this kernel has no btrfs with simple quotas")
