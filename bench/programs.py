"""The programs that bench/run drives: each is started once, takes a line, answers with a line of JSON.

Invariant: what is measured is measured inside those programs; here only lines are passed, so that Python's own pace is
in no figure (ipykernel's client is Python by nature). A program that fails, ends or does not answer in time raises
Failed.
"""
import json
import os
import resource
import select
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"
PSS_SAMPLES = 500  # processes that are looked at: with many that share their pages one takes tens of milliseconds


class Failed(Exception):
    """Something could not be measured."""


class Program:
    def __init__(self, *argv: str, greets: bool = False) -> None:
        self.name = os.path.basename(argv[-1] if argv[0] == PYTHON else argv[0])
        self.argv = argv
        self.greets = greets
        self.process = None
        self.rest = b""
        self.broken = ""  # why it is asked no more: an answer that comes late must not be taken for the next

    def _start(self) -> None:
        try:
            self.process = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.DEVNULL,
                                            env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/tmp",
                                                 "LANG": "C.UTF-8"})
        except OSError as exc:
            raise Failed("%s cannot be started: %s" % (self.name, exc)) from None
        if self.greets:
            self._answer(120)

    def ask(self, command: str, timeout: float = 120) -> dict:
        if self.broken:
            raise Failed(self.broken)
        if self.process is None:
            self._start()
        try:
            self.process.stdin.write((command + "\n").encode())
            self.process.stdin.flush()
        except OSError:
            raise Failed("%s has ended" % self.name) from None
        return self._answer(timeout)

    def _answer(self, timeout: float) -> dict:
        deadline = time.monotonic() + timeout
        output = self.process.stdout.fileno()
        while b"\n" not in self.rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([output], [], [], left)[0]:
                self.broken = "%s did not answer within %d s" % (self.name, timeout)
                raise Failed(self.broken)
            data = os.read(output, 1 << 20)
            if not data:
                self.broken = "%s has ended" % self.name
                raise Failed(self.broken)
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        reply = json.loads(line)
        if not reply.pop("ok"):
            raise Failed("%s: %s" % (self.name, reply["error"]))
        return reply

    def hang_up(self) -> None:
        """Its end of input: it begins to stop."""
        if self.process is not None:
            self.process.stdin.close()

    def close(self, timeout: float = 15) -> None:
        if self.process is None:
            return
        self.hang_up()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.process = None

    def pid(self) -> int:
        return self.process.pid


def children(pid: int) -> list:
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as file:
            return [int(one) for one in file.read().split()]
    except OSError:
        return []


def held_kb(pid: int) -> tuple:
    """Proportional set size, and what is dirty and private; zeros for a process that has gone."""
    try:
        with open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as file:
            fields = dict(line.split()[:2] for line in file if line.count(":") == 1 and line.endswith("kB\n"))
    except OSError:
        return 0, 0
    return int(fields.get("Pss:", 0)), int(fields.get("Private_Dirty:", 0))


def available_kb() -> int:
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable:"))


def settled_kb() -> int:
    """MemAvailable once it stands still: the kernel frees what ended sessions leave (cgroups, namespaces) in its own
    time."""
    last = available_kb()
    for _turn in range(20):
        time.sleep(0.5)
        now = available_kb()
        if abs(now - last) < 512:
            return now
        last = now
    return last


def descriptors() -> int:
    """That a server may have: the hard limit, which only CAP_SYS_RESOURCE (24) raises; then what the kernel has as its
    bound."""
    with open("/proc/self/status", encoding="ascii") as status:
        caps = next(int(line.split()[1], 16) for line in status if line.startswith("CapEff"))
    if caps >> 24 & 1:
        with open("/proc/sys/fs/nr_open", encoding="ascii") as bound:
            return int(bound.read())
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def shares_of(count: int) -> list:
    """So many sessions, over as few servers as can hold them: three descriptors each, and a tenth for everything
    else."""
    most = descriptors() * 9 // 10 // 3
    servers = -(-count // most)
    return [count // servers + (1 if i < count % servers else 0) for i in range(servers)]


def sessions_kb(warden: int) -> tuple:
    """The same, of all sessions and inits beneath a warden: what is a child of a zygote or of a builder, but the
    zygotes themselves."""
    pids = []
    for builder in children(warden):
        for child in children(builder):
            pids += children(child) if _is_python(child) else [child]
    sample = pids[::max(1, len(pids) // PSS_SAMPLES)]
    held = [held_kb(pid) for pid in sample]
    scale = len(pids) / max(1, len(sample))
    return sum(pss for pss, _private in held) * scale, sum(private for _pss, private in held) * scale


def _is_python(pid: int) -> bool:
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return b"python" in file.read()
    except OSError:
        return True
