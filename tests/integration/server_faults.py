#!/usr/bin/python3
"""A server among faults: signals that mean nothing, parts that stop, disks that are full or read-only. What it says of
itself must be true, and it must be well again when they are."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/lib"))
from check import check, contains, equal  # noqa: E402
from processes import children, is_alive, roles  # noqa: E402
from krait_server import KRAIT, Server  # noqa: E402
from serving import kept, main  # noqa: E402

STRAYS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGPIPE,
          signal.SIGHUP)


def server() -> Server:
    return kept(args=["--pool-size", "1"])


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


@check
def too_few_descriptors_are_125_and_named():
    """Root raises its own limit where it may: so without the capability to."""
    without = ("setpriv", "--bounding-set", "-sys_resource", "--inh-caps", "-all") if os.geteuid() == 0 else ()
    status, line = refused(wrap=(*without, "prlimit", "--nofile=64:64"))
    equal(status, 125, line)
    contains(line, "RLIMIT_NOFILE allows 64 descriptors")


main()
