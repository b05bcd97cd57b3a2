#!/usr/bin/python3
"""What krait's own processes may still do, as the kernel tells it in /proc/PID/status, while they serve."""
import array
import ctypes
import errno
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, equal, main, skip
from drive import KRAIT, run
from krait_server import Server, data_folder
from mcp import Stdio
from processes import children, is_alive, name_of, roles
from serving import eventually

NOTHING = "0" * 16
SO_PASSRIGHTS = 83  # Linux 6.16
PIDFD_GETFD = 438
# A table whose rows never end, as a server that was taken over could leave it.
ENDLESS = """
ALTER TABLE sandboxes RENAME TO kept;
CREATE VIEW sandboxes AS WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)
    SELECT n, n AS id, n AS owner, n AS created, n + 1 AS used FROM c;
"""
SLEEP = "import time; print('begun', flush=True); time.sleep(60)"
FILL = """
import time
with open("big", "wb") as f:
    for _ in range(16):
        f.write(bytes(1 << 20)); f.flush(); time.sleep(0.3)
"""


def status_of(pid: int) -> dict:
    with open("/proc/%d/status" % pid, encoding="ascii", errors="replace") as f:
        return {key: " ".join(value.split()) for key, _, value in (line.partition(":") for line in f)}


def powerless(pid: int) -> None:
    """No capability in any set, none to be had, and a filter on every thread."""
    seen = status_of(pid)
    filters = {status_of(int(task))["Seccomp"] for task in os.listdir("/proc/%d/task" % pid)}
    equal(filters, {"2"}, "threads")
    sets = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    equal({name: seen[name] for name in sets}, {name: NOTHING for name in sets})
    equal((seen["NoNewPrivs"], seen["Seccomp"]), ("1", "2"))


def sockets_of(pid: int) -> list:
    """The process's unix stream sockets, as descriptors of ours."""
    libc, handle, found = ctypes.CDLL(None, use_errno=True), os.pidfd_open(pid), []
    for name in os.listdir("/proc/%d/fd" % pid):
        fd = libc.syscall(PIDFD_GETFD, handle, int(name), 0)
        try:
            s = socket.socket(fileno=fd)
        except OSError:  # closed since, or no socket
            if fd >= 0:
                os.close(fd)
            continue
        if (s.family, s.type) == (socket.AF_UNIX, socket.SOCK_STREAM):
            found.append(s)
    os.close(handle)
    return found


def hand_over(to: socket.socket) -> str:
    """Sends a descriptor: "ok" or the errno's name."""
    try:
        to.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))])
        return "ok"
    except OSError as e:
        return errno.errorcode[e.errno]


def root_only() -> None:
    if os.geteuid() != 0:
        skip("needs root: another user's bounding set stays as it is")


@check
def server_has_no_capability_and_a_filter():
    root_only()
    with Server() as s:
        equal(s.run("6 * 7")["result"], "42")
        powerless(s.server_pid())
        equal(status_of(s.server_pid())["Uid"].split()[0] == "0", False, "runs as root")


@check
def server_of_a_plain_user_has_no_capability():
    """It cannot empty its bounding set, and nothing can be drawn from it."""
    root_only()
    with tempfile.TemporaryDirectory(prefix="krait-test-") as folder:
        os.chown(folder, 65534, 65534)
        wrap = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"]
        with Server(data=folder, wrap=wrap, env={"HOME": folder, "XDG_RUNTIME_DIR": folder}) as s:
            equal(s.run("6 * 7")["result"], "42")
            seen = status_of(s.server_pid())
            equal([seen[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs", "Seccomp")],
                  [NOTHING] * 4 + ["1", "2"])


@check
def server_hands_no_descriptor_to_a_session():
    """Its listeners are sockets of the host's network, and a session may connect. The server's end of a channel is
    known by what was set on it for its own sake; a pair of ours shows that a descriptor would arrive."""
    root_only()
    ours, theirs = socket.socketpair()
    try:
        ours.getsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS)
    except OSError:
        return  # before Linux 6.16 they can be handed over: SECURITY.md says what that leaves
    equal((hand_over(ours), len(socket.recv_fds(theirs, 1, 1)[1])), ("ok", 1))
    with Server() as s:
        equal(s.run("6 * 7")["result"], "42")
        channels = [c for c in sockets_of(s.server_pid())
                    if c.getsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS) == 0]
        equal(len(channels) > 0, True, "channels")
        equal({hand_over(c) for c in channels}, {"EPERM"})
        equal(s.run("6 * 7")["result"], "42")


@check
def systemd_hears_of_a_server_that_can_name_no_address():
    """Its socket is connected before the filter is taken, which refuses sendto() with an address."""
    with tempfile.TemporaryDirectory(prefix="krait-test-") as folder, \
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        os.chmod(folder, 0o755)
        heard.bind(folder + "/notify")
        os.chmod(folder + "/notify", 0o666)
        heard.settimeout(30)
        with Server(env={"NOTIFY_SOCKET": folder + "/notify"}) as s:
            equal(heard.recv(100), b"READY=1")
            equal({status_of(int(t))["Seccomp"] for t in os.listdir("/proc/%d/task" % s.server_pid())}, {"2"})
        equal(heard.recv(100), b"STOPPING=1")


@check
def a_store_is_asked_without_privilege_and_not_for_ever():
    """Before a start, whether sandboxes that are gone were used. The server wrote the store, so a process that reads it
    has no more than the server, and one that does not answer is given up."""
    root_only()
    with data_folder() as folder:
        with Server(data=folder) as s:
            equal(s.run("open('a', 'w').write('x')")["cause"], "ok")
            uid = status_of(s.server_pid())["Uid"].split()[0]
        os.rename(folder + "/data/sandboxes", folder + "/kept")
        with sqlite3.connect(folder + "/data/krait.db") as db:
            db.executescript(ENDLESS)
        db.close()
        start = subprocess.Popen([os.path.abspath(KRAIT), "serve", "--no-files", "--port", "0", "--shelf", "folder",
                                  "--data", folder + "/data", "--preload", "basic"], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            eventually(lambda: any(status_of(pid)["Seccomp"] == "2" for pid in children(start.pid)), 30, "a filter")
            (asker,) = children(start.pid)
            powerless(asker)
            equal(set(status_of(asker)["Uid"].split()), {uid})
            _out, said = start.communicate(timeout=120)
        finally:
            left = children(start.pid)
            start.kill()
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            start.wait()
        equal((start.returncode, "krait.db" in said, "--accept-loss" in said), (125, True, True), said)
        equal(is_alive(asker), False)


@check
def root_without_setpcap_does_not_serve():
    """Its server's bounding set could not be emptied: nothing is started."""
    root_only()
    done = subprocess.run(["setpriv", "--bounding-set", "-setpcap", KRAIT, "run", "-c", "print(1)"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    equal((done.returncode != 0, done.stdout), (True, b""), done.stderr)
    equal(b"bounding set" in done.stderr, True, done.stderr)


@check
def an_engine_that_cannot_be_confined_runs_nothing():
    """Every call of a kind fails, in the warden, the engine and below: what is missing is said, and nothing is run."""
    root_only()
    if not shutil.which("strace"):
        skip("needs strace")
    for call, word in (("capset", b"capset"), ("setresuid", b"setresuid"),
                       ("landlock_restrict_self", b"Landlock"), ("seccomp", b"syscall filter")):
        done = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + call,
                               "-e", "inject=%s:error=EPERM" % call, KRAIT, "run", "-c", "print(1)"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        equal((done.returncode in (1, 125), done.stdout, word in done.stderr), (True, b"", True),
              "%s: %d %r" % (call, done.returncode, done.stderr))


class Sleeper:
    """A `krait run` whose program has begun."""

    def __init__(self, *args: str) -> None:
        self.process = subprocess.Popen([KRAIT, "run", *args, "-c", SLEEP], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def __enter__(self) -> "Sleeper":
        equal(self.process.stdout.readline(), b"begun\n")
        self.engine = roles(self.process.pid)["server"][0]
        return self

    def __exit__(self, *_what) -> None:
        self.process.terminate()
        self.process.communicate(timeout=20)


@check
def run_as_root_has_an_engine_that_no_other_process_shares_its_id_with():
    root_only()
    with Sleeper() as one, Sleeper() as other, Server() as s:
        pids = [one.engine, other.engine, s.server_pid()]
        for pid in pids:
            powerless(pid)
        uids = [status_of(pid)["Uid"].split() for pid in pids]
        equal([len(set(four)) for four in uids], [1, 1, 1], "real, effective, saved and for files are one")
        equal(len({four[0] for four in uids} - {"0"}), 3, "ids: %s" % uids)
        equal([status_of(pid)["Groups"] for pid in pids], ["", "", ""])


@check
def run_by_a_plain_user_has_a_filter_too():
    root_only()
    with tempfile.TemporaryDirectory(prefix="krait-test-") as folder:
        os.chown(folder, 65534, 65534)
        done = subprocess.Popen(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all",
                                 KRAIT, "run", "-c", SLEEP], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env={"HOME": folder, "XDG_RUNTIME_DIR": folder})
        equal(done.stdout.readline(), b"begun\n")
        seen = status_of(roles(done.pid)["server"][0])
        done.terminate()
        done.communicate(timeout=20)
        equal((seen["Uid"].split()[0], seen["CapEff"], seen["NoNewPrivs"], seen["Seccomp"]),
              ("65534", NOTHING, "1", "2"))


@check
def a_signal_ends_an_engine_of_another_id():
    root_only()
    for signo, status in ((15, 143), (2, 130)):
        with Sleeper() as s:
            s.process.send_signal(signo)
            s.process.communicate(timeout=20)
            equal(s.process.returncode, status)
            eventually(lambda: not is_alive(s.engine), 5, "the engine is gone")


@check
def a_private_folder_of_root_is_still_a_workspace_and_still_counted():
    root_only()
    with tempfile.TemporaryDirectory(prefix="krait-test-") as folder:
        os.chmod(folder, 0o700)
        done = run("--workspace", folder, "-c", "open('mine', 'w').write('x')")
        equal((done.returncode, os.stat(os.path.join(folder, "mine")).st_uid), (0, os.geteuid()), done.stderr)
        done = run("--workspace", folder, "--disk", "2M", "-c", FILL)
        equal((done.returncode, b"disk limit" in done.stderr), (137, True), done.stderr)


@check
def figures_are_the_caller_s_and_their_saver_has_no_privilege():
    root_only()
    with tempfile.TemporaryDirectory(prefix="krait-test-") as folder:
        os.chmod(folder, 0o700)
        with Sleeper("--figures", os.path.join(folder, "new")) as s:
            others = [pid for pid in children(s.process.pid) if pid != s.engine and name_of(pid) == "krait"
                      and status_of(pid)["Seccomp"] == "2"]
            equal(len(others), 1)
            powerless(others[0])
        show = ("class F:\n def _repr_svg_(self): return '<svg xmlns=\"http://www.w3.org/2000/svg\"/>'\n"
                "display(F())")
        done = run("--figures", os.path.join(folder, "new"), "-c", show)
        saved = os.path.join(folder, "new/figure-1.svg")
        equal((done.returncode, os.path.exists(saved)), (0, True), done.stderr)
        equal(os.stat(saved).st_uid, os.geteuid())


def warden_table() -> int:
    """The capabilities of src/warden/standing/warden_caps.c that are kept outside of user namespaces, as a set of bits."""
    numbers = {"CAP_CHOWN": 0, "CAP_DAC_OVERRIDE": 1, "CAP_DAC_READ_SEARCH": 2, "CAP_FOWNER": 3, "CAP_KILL": 5,
               "CAP_SETGID": 6, "CAP_SETUID": 7, "CAP_SETPCAP": 8, "CAP_SYS_ADMIN": 21, "CAP_SYS_RESOURCE": 24,
               "CAP_MKNOD": 27}
    return sum(1 << n for n in numbers.values())


@check
def warden_keeps_the_capabilities_of_the_service_unit_and_no_other():
    root_only()
    own = int(status_of(os.getpid())["CapBnd"], 16)
    with Server() as s, Sleeper() as run_too:
        for pid in (s.process.pid, run_too.process.pid):
            seen = status_of(pid)
            for name in ("CapPrm", "CapEff", "CapBnd"):
                equal(int(seen[name], 16), warden_table() & own, name)
            equal((int(seen["CapInh"], 16), int(seen["CapAmb"], 16), seen["NoNewPrivs"]), (0, 0, "1"))
        equal(s.run("6 * 7")["result"], "42")


@check
def stdio_server_has_no_capability_and_a_filter():
    root_only()
    with tempfile.TemporaryDirectory(prefix="krait-test-") as folder:
        os.chmod(folder, 0o755)
        with Stdio([KRAIT, "mcp", "--no-join", "--data", os.path.join(folder, "data")]) as c:
            equal("42" in str(c.tool("execute_python", code="print(6 * 7)")), True)
            powerless(roles(c.process.pid)["server"][0])


main()
