#!/usr/bin/python3
"""`krait doctor` in every way krait is started in: what it finds, what it says when nothing is there
to be found, and that it notices a broken layer.

A layer is broken with strace, which lets one system call of the whole tree do nothing and call it
success: the cell comes up and is less than it should be, which is what doctor is there to see.
"""
import ctypes
import glob
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests/lib"), str(ROOT / "tests/escape")]
from check import check, contains, equal, main, skip  # noqa: E402
from krait_server import Server, data_folder  # noqa: E402
from ways import WAYS  # noqa: E402

KRAIT = os.environ.get("KRAIT", str(ROOT / "build/krait"))
SECONDS = 180
NAMESPACES = [kind + "_namespace" for kind in "user pid mount network ipc uts cgroup".split()]
RESTRICTIONS = ["landlock", "seccomp", "no_new_privs", "capabilities", "core_dumps"]
CGROUP = ["cgroup_backend", "cgroup_memory", "cgroup_pids", "cgroup_cpu"]
REQUIRED = NAMESPACES + RESTRICTIONS + ["disk_quota", "zygote_basic"]
EVERY = REQUIRED + CGROUP + ["unique_ids", "proc", "private_files", "private_devices", "terminals", "gauges",
                            "disk_quota_folders", "disk_quota_sandboxes", "zygote_data"]
STATES = {"ok", "degraded", "missing", "failed"}
NO_NAMESPACES = ["unshare", "-Ur", "sh", "-c",
                 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" "$@"']
ESCAPE = "\033["


def run(argv, env=None):
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=SECONDS, env={**os.environ, "LANG": "C.UTF-8", **(env or {})})


def read_report(done):
    """The JSON of a run, its shape checked."""
    assert done.returncode in (0, 1), f"exit status {done.returncode}: {done.stderr[-1000:]}"
    report = json.loads(done.stdout)
    equal(done.stdout.count("\n"), 1, "lines")
    equal(report["ok"], done.returncode == 0)
    assert report["level"] in (None, "root", "user", "contained"), report["level"]
    equal(sorted(row["name"] for row in report["layers"]), sorted(EVERY))
    for row in report["layers"]:
        assert row["state"] in STATES, row
        for key in ("detail", "lost", "fix"):
            assert isinstance(row[key], str) and row[key], row
        equal(row["required"], row["name"] in REQUIRED, row["name"])
    layers = {row["name"]: row for row in report["layers"]}
    holds = all(layers[name]["state"] == "ok" for name in REQUIRED)
    failed = any(row["state"] == "failed" for row in report["layers"])
    equal(report["ok"], holds and not failed and report["error"] is None, "ok")
    return report, layers


def examine(way, *options):
    if (why := WAYS[way].cannot()):
        skip(why)
    return read_report(run(WAYS[way].wrap([KRAIT, "doctor", "--json", *options])))


def are(layers, names, *states):
    wrong = [layers[name] for name in names if layers[name]["state"] not in states]
    assert not wrong, "not %s: %s" % (" or ".join(states), wrong)


def every_cell_holds(layers):
    are(layers, REQUIRED + ["proc", "private_files", "terminals", "zygote_data"], "ok")
    contains(layers["terminals"]["detail"], "/dev/pts/0")
    contains(layers["private_files"]["detail"], "a lock on /usr beside the host's: ok")
    are(layers, ["disk_quota_folders"], "degraded")
    contains(layers["disk_quota_folders"]["detail"], "accounted, not enforced")
    contains(layers["disk_quota"]["detail"], "sized tmpfs, enforced")
    contains(layers["seccomp"]["detail"], "open outside")
    for name in ("zygote_basic", "zygote_data"):
        detail = layers[name]["detail"]
        assert re.search(r"ready after \d+ ms.*Python 3\.\d+", detail), detail
    contains(layers["zygote_data"]["detail"], "numpy")
    # A limit that is there and does not bite would be a failure, not one word less.
    with_cgroups = layers["cgroup_backend"]["state"] == "ok"
    are(layers, ["gauges"], "ok" if with_cgroups else "missing")
    are(layers, CGROUP, *(["ok"] if with_cgroups else ["degraded", "missing"]))
    memory = layers["cgroup_memory"]["detail"]
    contains(memory, "killed by its cgroup" if with_cgroups else "96 MiB shared: got them")
    contains(memory, "MemoryError (RLIMIT_DATA)")


# ---- the ways ----

@check
def as_root():
    report, layers = examine("root")
    equal((report["ok"], report["level"], report["error"]), (True, "root", None))
    every_cell_holds(layers)
    are(layers, ["unique_ids", "private_devices"], "ok")
    contains(layers["private_devices"]["detail"], "a lock on /dev/null beside the host's: ok")
    contains(layers["unique_ids"]["detail"], "two live cells: 0=")
    are(layers, ["disk_quota_sandboxes"], "ok")
    found = re.search(r"in an image, enforced; limit 1 MiB: .* after (\d+) KiB \(EDQUOT\)",
                      layers["disk_quota_sandboxes"]["detail"])
    assert found and 512 < int(found[1]) < 2048, layers["disk_quota_sandboxes"]


def disk_row(*options, env=None):
    return read_report(run([KRAIT, "doctor", "--json", *options], env))[1]["disk_quota_sandboxes"]


@check
def disks_of_a_data_folder_that_is_not_there():
    with tempfile.TemporaryDirectory() as top:
        row = disk_row("--data", top + "/none")
        contains(row["detail"], "there is no data folder %s/none yet" % top)
        equal(os.listdir(top), [])


@check
def disks_of_an_old_plain_folder():
    with tempfile.TemporaryDirectory() as top:
        os.makedirs(top + "/sandboxes/old/files")
        row = disk_row(env={"KRAIT_DATA": top})
        equal(row["state"], "degraded", str(row))
        contains(row["detail"], "counted by the server, not enforced")
        contains(row["detail"], "made in a plain folder")
        contains(row["detail"], "data folder " + top)
        equal(os.listdir(top), ["sandboxes"])


@check
def disks_by_the_setting():
    with tempfile.TemporaryDirectory() as top:
        for options, env in ((("--shelf", "folder"), None), ((), {"KRAIT_SHELF": "folder"})):
            row = disk_row("--data", top, *options, env=env)
            equal(row["state"], "degraded", str(row))
            contains(row["detail"], "shelf = folder")
        done = run([KRAIT, "doctor", "--shelf", "box"])
        equal(done.returncode, 2)
        contains(done.stderr, "image")
        equal(os.listdir(top), [])


@check
def disks_of_an_image_beside_its_server_and_without():
    if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
        skip("needs root and loop devices")
    with data_folder() as top:
        with Server(data=top, shelf="image", args=["--shelf-size", "512M"]) as s:
            equal(s.run("open('a', 'w').write('kept')")["cause"], "ok")
            beside = disk_row("--data", top + "/data")
            equal(s.run("print(open('a').read())")["stdout"], "kept\n")
        names = sorted(os.listdir(top + "/data"))
        for row in (beside, disk_row("--data", top + "/data")):
            equal(row["state"], "ok", str(row))
            contains(row["detail"], "data folder %s/data, its image" % top)
        equal(sorted(os.listdir(top + "/data")), names)
        row = disk_row("--data", top + "/data", "--shelf", "folder")  # as a server with it refuses to start
        equal(row["state"], "missing", str(row))
        contains(row["detail"], "shelf = folder, but the sandboxes are in")


@check
def as_root_without_loop_devices():
    hidden = ["unshare", "-m", "sh", "-c", 'mount --bind /etc/hostname /dev/loop-control && exec "$0" "$@"']
    report, layers = read_report(run([*hidden, KRAIT, "doctor", "--json"]))
    equal(report["ok"], True)
    are(layers, ["disk_quota_sandboxes"], "degraded")
    contains(layers["disk_quota_sandboxes"]["detail"], "counted by the server, not enforced")
    contains(layers["disk_quota_sandboxes"]["detail"], "loop device")


@check
def as_an_ordinary_user():
    report, layers = examine("user")
    equal((report["ok"], report["level"]), (True, "user"))
    every_cell_holds(layers)
    are(layers, ["unique_ids", "private_devices"], "missing")
    contains(layers["private_devices"]["lost"], "a lock on /dev/null")
    contains(layers["unique_ids"]["detail"], "uid %d" % WAYS["user"].uid)
    are(layers, ["disk_quota_sandboxes"], "degraded")
    contains(layers["disk_quota_sandboxes"]["detail"], "not root")
    assert "deleted files" not in layers["disk_quota_sandboxes"]["detail"], layers["disk_quota_sandboxes"]


@check
def inside_a_user_namespace():
    report, layers = examine("userns")
    equal(report["ok"], True)
    every_cell_holds(layers)


@check
def inside_a_user_namespace_with_a_range():
    report, layers = examine("userns-range")
    equal((report["ok"], report["level"]), (True, "root"))
    every_cell_holds(layers)
    are(layers, ["unique_ids"], "ok")


@check
def level_that_is_asked_for():
    report, layers = examine("user", "--level", "user")
    equal((report["ok"], report["level"]), (True, "user"))
    are(layers, ["unique_ids"], "missing")
    report, _ = examine("root", "--level", "user")  # cells without ids of their own would be the host's root
    equal((report["ok"], report["level"]), (False, None))
    contains(report["error"], "host's root")


# ---- where there is nothing ----

@check
def without_user_namespaces():
    report, layers = read_report(run([*NO_NAMESPACES, KRAIT, "doctor", "--json"]))
    equal((report["ok"], report["level"]), (False, None))
    are(layers, NAMESPACES + ["zygote_basic", "disk_quota"], "missing")
    contains(layers["user_namespace"]["detail"], "user.max_user_namespaces is 0")
    for name in NAMESPACES:
        contains(layers[name]["fix"], "user.max_user_namespaces")
    contains(layers["cgroup_backend"]["fix"], "systemd-run")
    are(layers, ["seccomp", "landlock"], "ok")
    contains(report["error"], "no user namespaces")
    table = run([*NO_NAMESPACES, KRAIT, "doctor"])
    equal(table.returncode, 1)
    for word in ("Namespaces", "Limits", "Zygotes", "no cells", "does not hold",
                 "sysctl -w user.max_user_namespaces"):
        contains(table.stdout, word)


@check
def behind_a_container_s_filter():
    report, layers = examine("contained")
    equal((report["ok"], report["level"]), (False, None))
    contains(layers["user_namespace"]["fix"], "deploy/seccomp-krait.json")
    contains(layers["user_namespace"]["detail"], "a seccomp filter is set")
    assert (ROOT / "deploy/seccomp-krait.json").is_file()


@check
def contained_is_reported_as_less():
    report, layers = examine("contained", "--allow-contained")
    equal((report["ok"], report["level"]), (False, "contained"))
    are(layers, NAMESPACES + ["unique_ids", "private_files", "private_devices", "terminals"], "missing")
    are(layers, RESTRICTIONS + ["zygote_basic"], "ok")
    are(layers, ["disk_quota_sandboxes"], "degraded")
    contains(layers["disk_quota_sandboxes"]["detail"], "deleted files that are still open are not counted")
    for word in ("/etc/shadow: EACCES", "signal to krait outside: EPERM"):
        contains(layers["landlock"]["detail"], word)


@check
def a_python_that_is_none():
    report, layers = read_report(run([KRAIT, "doctor", "--json", "--python", "/bin/false"]))
    equal(report["ok"], False)
    are(layers, ["zygote_basic"], "failed")
    are(layers, NAMESPACES, "missing")


# ---- layers that are broken ----

def broken(call):
    """What doctor finds when this call does nothing, wherever it is made."""
    if os.geteuid() != 0:
        skip("needs root")
    return read_report(run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + call,
                            "-e", "inject=%s:retval=0" % call, KRAIT, "doctor", "--json"]))


@check
def no_landlock_is_noticed():
    report, layers = broken("landlock_restrict_self")
    are(layers, ["landlock"], "failed")
    are(layers, NAMESPACES + ["seccomp"], "ok")
    equal(report["ok"], False)


@check
def no_seccomp_is_noticed():
    report, layers = broken("seccomp")
    are(layers, ["seccomp", "network_namespace"], "failed")
    contains(layers["seccomp"]["detail"], "unshare: ok (want EPERM)")
    contains(layers["network_namespace"]["detail"], "internet socket: ok")
    contains(layers["seccomp"]["fix"], "SECURITY.md")
    equal(report["ok"], False)


@check
def a_host_name_is_noticed():
    report, layers = broken("sethostname")
    are(layers, ["uts_namespace"], "failed")
    contains(layers["uts_namespace"]["detail"], os.uname().nodename)
    equal(report["ok"], False)


@check
def limits_that_are_not_set_are_noticed():
    report, layers = broken("prlimit64")
    are(layers, ["core_dumps", "cgroup_memory"], "failed")
    assert "MemoryError" not in layers["cgroup_memory"]["detail"], layers["cgroup_memory"]
    equal(report["ok"], False)


# ---- how it looks, and what stays ----

def on_terminal(*options, **env):
    """What it writes to a terminal."""
    master, slave = pty.openpty()
    base = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    process = subprocess.Popen([*NO_NAMESPACES, KRAIT, "doctor", *options],
                               stdin=slave, stdout=slave, stderr=slave,
                               env={**base, "TERM": "xterm", "LANG": "C.UTF-8", **env})
    os.close(slave)
    data, deadline = b"", time.monotonic() + SECONDS
    while select.select([master], [], [], max(0, deadline - time.monotonic()))[0]:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        data += piece
    os.close(master)
    equal(process.wait(10), 1)
    return data.decode()


@check
def colours_on_a_terminal_only():
    coloured = on_terminal()
    contains(coloured, ESCAPE + "32m✓")
    contains(coloured, ESCAPE + "1;31mmissing")
    plain = re.sub(r"\r|\033\[[0-9;]*[mK]", "", coloured)
    for text in (on_terminal("--no-color"), on_terminal(NO_COLOR="1"), on_terminal(TERM="dumb"),
                 run([*NO_NAMESPACES, KRAIT, "doctor"]).stdout):
        assert not re.search(r"\033\[[0-9;]*m", text), text[:400]
        contains(text, "✓ seccomp")
    contains(plain, "✓ seccomp")
    contains(run([*NO_NAMESPACES, KRAIT, "doctor"], env={"LC_ALL": "C"}).stdout, "+ seccomp")


@check
def help_and_wrong_words():
    done = run([KRAIT, "doctor", "--help"])
    equal(done.returncode, 0)
    for word in ("--json", "--level", "--allow-contained", "--python", "--no-color"):
        contains(done.stdout, word)
    contains(run([KRAIT, "--help"]).stdout, "doctor")
    for argv in (["--jsn"], ["more"], ["--python", "python3"], ["--level", "king"]):
        done = run([KRAIT, "doctor", *argv])
        equal((done.returncode, done.stdout), (2, ""), str(argv))
        equal(done.stderr.count("\n"), 1)


@check
def the_probes_are_in_no_module():
    code = ("import os, sys\n"
            "names = [f for _, _, fs in os.walk('/krait') for f in fs] + list(sys.modules)\n"
            "print([n for n in names if 'doctor' in n or 'probe' in n], 'boot.py' in names)")
    done = run([KRAIT, "run", "-c", code])
    equal((done.returncode, done.stdout), (0, "[] True\n"), done.stderr)


def no_process_is_left():
    """Whatever outlives its parents becomes our child."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.05)
        except ChildProcessError:
            return
    raise AssertionError("processes are left behind")


@check
def stopped_half_way():
    """Nothing stays: no folder, no process."""
    with tempfile.TemporaryDirectory() as tmp:
        for after in (0.02, 0.1, 0.4, 0.7, 1.0):
            process = subprocess.Popen([KRAIT, "doctor", "--json"], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       env=dict(os.environ, TMPDIR=tmp))
            time.sleep(after)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=30)
            if process.returncode in (0, 1):
                skip("it was done within %s s" % after)
            equal(os.listdir(tmp), [], err)
            no_process_is_left()
            if process.returncode == -signal.SIGTERM and after < 1.0:
                equal(out, "", "the signal came before the program could take signals, and yet it has begun")
                continue
            equal(process.returncode, 128 + signal.SIGTERM, err)
            equal(json.loads(out)["ok"], False)


@check
def leaves_nothing():
    with tempfile.TemporaryDirectory() as tmp:
        os.chmod(tmp, 0o777)
        before = set(glob.glob("/run/krait/*"))
        for way in ("root", "user"):
            if not WAYS[way].cannot():
                command = WAYS[way].wrap([KRAIT, "doctor", "--json"])
                read_report(run(command, env={"TMPDIR": tmp}))
                equal(os.listdir(tmp), [], way)
                no_process_is_left()
        equal([p for p in glob.glob("/run/krait/*") if p not in before and os.path.isdir(p)], [])


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    main()
