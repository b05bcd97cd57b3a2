#!/usr/bin/python3
"""A server among faults: signals that mean nothing, parts that stop, disks that are full or read-only. What it says of
itself must be true, and it must be well again when they are."""
import atexit
import fcntl
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/lib"))
from check import check, contains, equal, skip  # noqa: E402
from processes import below, children, is_alive, name_of, roles, stat_of  # noqa: E402
from krait_server import KRAIT, Server  # noqa: E402
from serving import Meanwhile, eventually, kept, main  # noqa: E402

STRAYS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF,
          signal.SIGIO, signal.SIGPIPE,
          signal.SIGHUP)


def server() -> Server:
    return kept(args=["--pool-size", "1"])


def asks_a_stopped_warden() -> tuple:
    """The answer to a run that needs a new session; it takes the whole of the warden's deadline."""
    with Server(args=["--pool-size", "0"]) as s:
        os.kill(s.process.pid, signal.SIGSTOP)
        try:
            reply = s.post("/api/v1/runs", {"code": "1", "stream": False, "fresh": True})
        finally:
            os.kill(s.process.pid, signal.SIGCONT)
        return reply.status, reply.header("retry-after"), reply.text


asked = Meanwhile(asks_a_stopped_warden)  # beside the other checks
atexit.register(asked.end)  # its server ends with it, also when only some checks are run


# ---- signals -------------------------------------------------------------------------------------


@check
def signals_without_a_meaning_end_no_process():
    s = server()
    equal(s.run("x = 41")["cause"], "ok")
    pids = {s.process.pid, *children(s.process.pid), *roles(s.process.pid)["zygote"]}
    assert len(pids) >= 4, "warden, server, builder, zygote: %s" % pids
    for pid in pids:
        for number in STRAYS:
            os.kill(pid, number)
    for pid in roles(s.process.pid)["zygote"]:
        os.kill(pid, signal.SIGTERM)  # a service manager may send it to each process; a zygote ends by its family
    one = s.run("x + 1")
    equal((one["result"], one["session_restarted"]), ("42", False))
    equal(s.run("1 + 1", fresh=True)["result"], "2")
    equal([pid for pid in pids if not is_alive(pid)], [], "processes that ended")
    # A session has the usual dispositions: there the same signal is the end of a child.
    equal(s.run("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import os; os.kill(os.getpid(), 10)'])"
                ".returncode")["result"], "-10")


@check
def a_keeper_that_is_killed_is_reaped_and_replaced():
    with Server(shelf="auto") as s:
        equal(s.post("/api/v1/sandboxes", {"name": "one"}).status, 201)
        def find() -> list:
            return [pid for pid in children(s.process.pid) if name_of(pid) == "krait-keeper"]

        keepers = find()
        if os.geteuid() != 0 or len(keepers) != 1:
            skip("no keeper here: %s" % keepers)
        os.kill(keepers[0], signal.SIGKILL)
        eventually(lambda: stat_of(str(keepers[0]))[0] == "X", 10, "it is reaped, and not a zombie")
        ready(s)
        equal(s.post("/api/v1/sandboxes", {"name": "two"}).status, 201)
        now = eventually(find, 10, "another keeper")
        os.kill(now[0], signal.SIGSTOP)
        try:
            contains(not_ready(s)["shelf"], "no answer")
        finally:
            os.kill(now[0], signal.SIGCONT)
        ready(s)


# ---- starts that cannot be ------------------------------------------------------------------------


def refused(*args: str, wrap: tuple = ()) -> tuple:
    """A server that must not start: its exit status and its own line (the interpreter's may be beside it)."""
    data = tempfile.mkdtemp(prefix="krait-test-")
    os.chmod(data, 0o755)
    try:
        done = subprocess.run([*wrap, os.path.abspath(KRAIT), "serve", "--no-files", "--port", "0", "--preload",
                               "basic", "--data", os.path.join(data, "data"), *args],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=30, cwd="/")
    finally:
        shutil.rmtree(data, ignore_errors=True)
    equal(done.stdout, "", "nothing is announced")
    lines = re.findall(r"^krait serve: .*$", done.stderr, re.M)
    equal(len(lines), 1, "lines of %r" % done.stderr)
    return done.returncode, lines[0]


@check
def an_interpreter_that_cannot_start_is_125_and_named():
    status, line = refused("--python", "/bin/sh")
    equal(status, 125, line)
    contains(line, "zygote cannot start (--python, --preload)")
    contains(line, os.path.realpath("/bin/sh"))


class Killer(threading.Thread):
    """Kills the zygotes with these preloads while they start, below whichever process the server is."""

    def __init__(self, s: Server, *preloads: bytes):
        super().__init__(daemon=True)
        self.server, self.preloads, self.over, self.killed = s, preloads, threading.Event(), 0
        self.start()

    def run(self) -> None:
        while not self.over.wait(0.005):
            for pid in below(self.server.process.pid) if self.server.process else ():
                try:
                    words = pathlib.Path("/proc/%d/cmdline" % pid).read_bytes().split(b"\0")
                    if any(word.endswith(b"boot.py") for word in words) and set(words) & set(self.preloads):
                        os.kill(pid, signal.SIGKILL)
                        self.killed += 1
                except OSError:
                    pass


@check
def a_preload_that_cannot_start_is_done_without_and_named():
    s = Server(preload="basic,data", args=["--pool-size", "0"])
    killer = Killer(s, b"data")
    with s:
        killer.over.set()
        assert killer.killed >= 2, killer.killed
        reply = s.get("/ready")
        equal((reply.status, reply.json()["status"], [m["what"] for m in reply.json()["missing"]]),
              (200, "degraded", ["zygote data"]))
        contains(s.get("/metrics").text, "krait_ready 1")
        line = next(line for line in s.log_text().splitlines() if "serving without a preload" in line)
        contains(line, "preload=data default=basic")
        equal(s.run("6 * 7")["result"], "42")  # of a sandbox that chooses no preload
        equal(s.get("/api/v1/info").json()["default_preload"], "basic")
        for preload, status in (("basic", 200), ("data", 503)):
            equal(s.post("/api/v1/sandboxes", {"name": preload, "preload": preload}).status, 201)
            told = s.post("/api/v1/runs", {"code": "1", "stream": False, "sandbox": preload})
            equal(told.status, status, told.text)
        contains(told.text, "krait serves without it: choose preload basic")
        assert told.header("retry-after")


@check
def no_preload_that_can_start_is_125():
    for _ in range(8):  # on a busy machine the killer may be late
        s = Server(preload="basic,data", args=["--pool-size", "0"])
        killer = Killer(s, b"basic", b"data")
        try:
            s.start()
        except RuntimeError:
            equal(s.process.wait(30), 125)
            equal(len(re.findall(r"^krait serve: ", s.log_text(), re.M)), 1, s.log_text())
            return
        finally:
            killer.over.set()
            s.close(check=False)
    raise AssertionError("it started each time")


@check
def a_store_that_can_only_be_read_is_125_and_named():
    with Server(args=["--pool-size", "0"]) as s:
        store = os.path.join(s.data, "data/krait.db")
        s.stop()
        os.chmod(store, 0o400)
        done = subprocess.run([os.path.abspath(KRAIT), "serve", "--no-files", "--port", "0", "--preload", "basic",
                               "--shelf", "folder", "--data", os.path.dirname(store)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=30, cwd="/")
        equal(done.returncode, 125, done.stderr)
        contains(done.stderr, "krait.db can only be read: let its owner write it (chmod u+w)")
        os.chmod(store, 0o600)
        s.start()
        ready(s)


@check
def too_few_descriptors_are_125_and_named():
    """Root raises its own limit where it may: so without the capability to."""
    without = ("setpriv", "--bounding-set", "-sys_resource", "--inh-caps", "-all") if os.geteuid() == 0 else ()
    status, line = refused(wrap=(*without, "prlimit", "--nofile=64:64"))
    equal(status, 125, line)
    contains(line, "RLIMIT_NOFILE allows 64 descriptors")


# ---- readiness is true ---------------------------------------------------------------------------

RUNS = "/api/v1/runs"
GOINGDOWN = 0x8004587D  # the filesystem fails everything from now on, as a disk that broke


def not_ready(s: Server) -> dict:
    """What is missing, by its name; waits until the server knows."""
    def told() -> dict:
        reply = s.get("/ready")
        found = {one["what"]: one["why"] for one in reply.json()["missing"]}
        equal((reply.status, reply.header("retry-after") or ""), (503, "1") if found else (200, ""), reply.text)
        if found:
            equal(reply.json()["status"], "unavailable")
        return found
    return eventually(told, 10, "/ready says what does not work")


def ready(s: Server) -> None:
    eventually(lambda: s.get("/ready").status == 200, 10, "ready again: " + s.get("/ready").text)


@check
def a_warden_that_is_stopped_is_not_ready():
    s = server()
    ready(s)
    os.kill(s.process.pid, signal.SIGSTOP)
    try:
        contains(not_ready(s)["warden"], "no answer")
        equal(s.get("/health").status, 200, "it is alive all the same")
        contains(s.get("/metrics").text, "\nkrait_ready 0\n")
    finally:
        os.kill(s.process.pid, signal.SIGCONT)
    ready(s)
    equal(s.run("6 * 7", fresh=True)["result"], "42")


class Disk:
    """A small filesystem of its own as data directory; unmounted at the end."""

    def __init__(self, kind: str):
        if os.geteuid() != 0:
            skip("mounting needs root")
        self.kind = kind

    def __enter__(self) -> "Disk":
        self.folder = tempfile.mkdtemp(prefix="krait-test-")
        self.at = os.path.join(self.folder, "disk")
        os.mkdir(self.at)
        os.chmod(self.folder, 0o755)
        if self.kind == "tmpfs":
            command = ["mount", "-t", "tmpfs", "-o", "size=32m,mode=755", "krait-test", self.at]
        else:
            image = os.path.join(self.folder, "image")
            with open(image, "wb") as f:
                f.truncate(64 << 20)
            subprocess.run(["mkfs.ext4", "-q", image], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            command = ["mount", "-o", "loop", image, self.at]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            shutil.rmtree(self.folder)
            skip("no %s here: %s" % (self.kind, done.stderr.strip()))
        return self

    def break_down(self) -> None:
        fd = os.open(self.at, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, GOINGDOWN, struct.pack("I", 2))
        finally:
            os.close(fd)

    def __exit__(self, *_what) -> None:
        eventually(lambda: subprocess.run(["umount", self.at], stderr=subprocess.DEVNULL).returncode == 0, 10,
                   "unmount")
        shutil.rmtree(self.folder)


@check
def a_full_disk_is_not_ready_until_it_has_room():
    with Disk("tmpfs") as disk, Server(data=disk.at) as s:
        ready(s)
        equal(s.post("/api/v1/sandboxes", {"name": "before"}).status, 201)
        full = os.path.join(disk.at, "full")
        with open(full, "wb") as f:
            try:
                while True:
                    f.write(bytes(1 << 16))
                    f.flush()
            except OSError:
                pass
        contains(not_ready(s)["disk"], "in reserve")
        refused_run = s.post(RUNS, {"code": "1", "stream": False})
        assert refused_run.status == 200 and s.get(RUNS + "/" + refused_run.json()["run_id"]).status == 200 or (
            refused_run.status == 507), "a run is kept or refused: " + refused_run.text
        os.unlink(full)
        ready(s)
        equal(s.run("6 * 7")["result"], "42")
        equal(s.post("/api/v1/sandboxes", {"name": "after"}).status, 201)


@check
def a_store_that_fails_is_not_ready_and_no_run_is_ok():
    """What cannot be noted is not answered as if it had been: neither a run that was under way, nor the next ones."""
    with Disk("ext4") as disk, Server(data=disk.at, args=["--stop-timeout", "1s"]) as s:
        one = s.run("x = 1")
        equal((one["cause"], s.get(RUNS + "/" + one["run_id"]).status), ("ok", 200))
        ready(s)
        disk.break_down()
        first = s.post(RUNS, {"code": "x + 1", "stream": False})
        if first.status == 200:  # it was begun before the fault was known
            equal(first.json()["cause"], "lost", first.text)
            contains(first.json()["message"], "it ended as ok, but the server could not note it")
        else:
            equal(first.status, 503, first.text)
        second = s.post(RUNS, {"code": "x + 1", "stream": False})
        equal((second.status, second.header("retry-after")), (503, "1"), second.text)
        contains(second.text, "runs cannot be noted")
        assert "store" in not_ready(s), s.get("/ready").text
        equal(s.get("/health").status, 200)
        made = s.post("/api/v1/sandboxes", {"name": "never"})
        equal((made.status, made.header("retry-after")), (503, "1"), made.text)


@check
def a_new_session_of_a_stopped_warden_is_503_and_worth_a_retry():
    status, retry, text = asked.end()
    equal((status, retry), (503, "1"), text)


main()
