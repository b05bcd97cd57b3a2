#!/usr/bin/python3
"""What krait's own processes may still do, as the kernel tells it in /proc/PID/status, while they serve."""
import os
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, equal, main, skip
from drive import KRAIT
from krait_server import Server

NOTHING = "0" * 16


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
def root_without_setpcap_does_not_serve():
    """Its server's bounding set could not be emptied: nothing is started."""
    root_only()
    done = subprocess.run(["setpriv", "--bounding-set", "-setpcap", KRAIT, "run", "-c", "print(1)"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    equal((done.returncode != 0, done.stdout), (True, b""), done.stderr)
    equal(b"bounding set" in done.stderr, True, done.stderr)


main()
