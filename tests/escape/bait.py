"""What stands outside for sessions to find: a process that counts signals, sockets, IPC objects, a secret file.

One Bait for each way, made by run.py; its victim has the uid krait has there, so that nothing but the sandbox keeps a
session from it. Invariant: done() takes away everything that was put up.
"""
from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time

PYTHON = "/usr/bin/python3"
LOW_PID = 1000
VICTIM = """
import os, signal
signal.signal(signal.SIGWINCH, lambda *_: os.write(1, b'x'))
os.write(2, b'ready')
while os.read(0, 1): pass
"""


def names_of_proc() -> list:
    """What this machine's /proc has beside processes, and no cell: neither krait's files nor links to /proc/self."""
    ours = "cpuinfo diskstats filesystems loadavg meminfo mounts net self stat sys thread-self uptime version vmstat"
    return sorted(n for n in os.listdir("/proc") if not n.isdigit() and n not in ours.split())


class Bait:
    def __init__(self, uid: int) -> None:
        self.uid = uid
        self.libc = ctypes.CDLL(None, use_errno=True)
        # No canary may be found by accident, so each is new.
        self.canary = "kr" + secrets.token_hex(16)
        word = secrets.token_hex(6)
        self.dir = tempfile.mkdtemp(prefix=f"bait-{word}-")
        os.chmod(self.dir, 0o755)
        self.home = os.path.join(self.dir, "home")
        self.workspace = os.path.join(self.dir, "ws-" + self.canary)
        self.runtime = os.path.join(self.dir, "runtime")
        for path in (self.home, self.workspace, self.runtime):
            os.mkdir(path, 0o700)
            if os.geteuid() == 0:
                os.chown(path, uid, uid)
        secret = os.path.join(self.dir, "secret")
        with open(secret, "w") as f:
            f.write("secret")
        os.chmod(secret, 0o644)
        self.params = {
            "suite": os.getpid(),
            "secret_file": secret,
            "abstract": "bait-" + word,
            "mq_name": "bait-" + word,
            "shm_name": "bait-" + word,
            "ipc_key": 0x4B000000 | secrets.randbits(20),
            "cgroup": find_cgroup(),
            "proc_names": names_of_proc(),
        }
        self.start_victim()
        self.listen()
        self.make_ipc()
        self.needles = self.find_needles()

    def start_victim(self) -> None:
        burn_low_pids()
        self.hits = tempfile.TemporaryFile(dir=self.dir)
        who = (
            {"user": self.uid, "group": self.uid, "extra_groups": []}
            if os.geteuid() == 0 and self.uid
            else {}
        )
        self.victim = subprocess.Popen(
            [PYTHON, "-c", VICTIM], stdin=subprocess.PIPE, stdout=self.hits, stderr=subprocess.PIPE, **who
        )
        assert self.victim.stderr is not None and self.victim.stderr.read(5) == b"ready"
        self.params["victim"] = self.victim.pid

    def listen(self) -> None:
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.params["tcp_port"] = self.tcp.getsockname()[1]
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind("\0" + self.params["abstract"])
        self.abstract.listen(64)
        self.params["socket_path"] = os.path.join(self.dir, "socket")
        self.path_socket = socket.socket(socket.AF_UNIX)
        self.path_socket.bind(self.params["socket_path"])
        os.chmod(self.params["socket_path"], 0o777)
        self.path_socket.listen(64)

    def make_ipc(self) -> None:
        key, old = self.params["ipc_key"], os.umask(0)
        self.shm = self.libc.shmget(key, 4096, 0o1666)
        self.sem = self.libc.semget(key, 1, 0o1666)
        self.msg = self.libc.msgget(key, 0o1666)
        self.mq = self.libc.syscall(240, self.params["mq_name"].encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
        with open("/dev/shm/" + self.params["shm_name"], "w") as f:
            f.write("bait")
        os.umask(old)

    def find_needles(self) -> dict[str, str]:
        """name -> text that must not be seen inside."""
        found = {
            "hostname": os.uname().nodename,
            "folder": os.path.basename(self.dir),
            "canary": self.canary,
            "socket name": self.params["abstract"],
        }
        for name, path in (("machine-id", "/etc/machine-id"), ("boot id", "/proc/sys/kernel/random/boot_id")):
            with contextlib.suppress(OSError), open(path) as f:
                found[name] = f.read().strip()
        return {k: v for k, v in found.items() if v}

    def environ(self) -> dict[str, str]:
        """The environment krait is started with: little, and a secret that must stay outside."""
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": self.home,
            "XDG_RUNTIME_DIR": self.runtime,
            "LANG": "C.UTF-8",
            "KRAIT_TEST_SECRET": self.canary,
            "AWS_SECRET_ACCESS_KEY": self.canary,
            "PYTHONPATH": self.home + "/" + self.canary,
            "LD_LIBRARY_PATH": "/nowhere/" + self.canary,
        }

    def victim_hits(self, wait: bool = False) -> int:
        deadline = time.monotonic() + (2 if wait else 0.05)
        while time.monotonic() < deadline and not os.fstat(self.hits.fileno()).st_size > 1:
            time.sleep(0.02)
        return os.fstat(self.hits.fileno()).st_size

    def victim_alive(self) -> bool:
        return self.victim.poll() is None

    def done(self) -> None:
        for s in (self.tcp, self.abstract, self.path_socket, self.victim.stdin, self.hits):
            with contextlib.suppress(OSError):
                s.close()
        try:
            self.victim.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.victim.kill()
            self.victim.wait()
        self.libc.shmctl(self.shm, 0, None)
        self.libc.semctl(self.sem, 0, 0, 0)
        self.libc.msgctl(self.msg, 0, None)
        if self.mq >= 0:
            with contextlib.suppress(OSError):
                os.close(self.mq)
            self.libc.syscall(241, self.params["mq_name"].encode())
        with contextlib.suppress(OSError):
            os.unlink("/dev/shm/" + self.params["shm_name"])
        shutil.rmtree(self.dir, ignore_errors=True)


def burn_low_pids() -> None:
    """Goes on until numbers are past those of a cell's processes, so that none in there has the victim's."""
    while True:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        if pid >= LOW_PID:
            return


def find_cgroup() -> str:
    """A cgroup directory of this machine with cgroup.procs in it."""
    for path in (
        "/sys/fs/cgroup/memory",
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/unified",
        "/sys/fs/cgroup/systemd",
    ):
        if os.path.exists(path + "/cgroup.procs"):
            return path
    return "/sys/fs/cgroup"


@contextlib.contextmanager
def secret_for_control():
    """(folder, path of a secret file beside it) for a control."""
    top = tempfile.mkdtemp(prefix="bait-control-")
    try:
        os.mkdir(top + "/work")
        with open(top + "/secret", "w") as f:
            f.write("secret")
        yield top + "/work", top + "/secret"
    finally:
        shutil.rmtree(top)
