#!/usr/bin/python3
"""The disk limit of sandboxes: ways to pass it, each with a control, and what is told when it holds."""
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal, main, skip
from krait_server import KRAIT, Server
from serving import eventually, kept

RUNS = "/api/v1/runs"
LIMITS = {"disk": "8M", "file_size": "64M"}
B = "import os, time\nB = b'x' * (1 << 20)\n"
WAIT = "time.sleep(6)\nprint('survived')\n"  # several looks at the folder


def server(kind: str):
    if kind == "image":
        only_image()
    return kept(shelf=kind)


def sandbox(s, name: str, **limits) -> str:
    s.delete("/api/v1/sandboxes/" + name)
    made = s.post("/api/v1/sandboxes", {"name": name, "limits": {**LIMITS, **limits}})
    equal(made.status, 201, made.text[:300])
    return name


def run(s, code: str, name: str, **more) -> dict:
    return s.run(code, sandbox_id=name, timeout=60, **more)


def refused(end: dict, *words: str) -> None:
    """The run did not get past its limit: it was killed for it, or a write failed."""
    equal(end["cause"], "disk_limit", str(end)[:600])
    assert "survived" not in end["stdout"], end["stdout"]
    for word in words:
        contains(end["message"], word)


def attack(s, name: str, code: str, *words: str, **limits) -> None:
    sandbox(s, name, **limits)
    refused(run(s, B + code + WAIT, name), *words)
    equal(run(s, "1", name).get("session_notice"), None, "its run has told why it ended")
    equal(s.post("/api/v1/sandboxes/%s/reset" % name).status, 200)
    control = "open('small', 'wb').write(B * 4)\nos.remove('small')\nopen('again', 'wb').write(B * 6)\n"
    end = run(s, B + control + "print(os.path.getsize('again'))\ntime.sleep(1)", name)
    equal((end["cause"], end["stdout"]), ("ok", "6291456\n"), "control: %s" % end)
    s.delete("/api/v1/sandboxes/" + name)


# ---- ways to hide bytes -------------------------------------------------------------------------------


def plain_file(kind: str) -> None:
    attack(server(kind), "plain", "with open('big', 'wb') as f:\n    for i in range(60): f.write(B)\n", "disk limit of 8 MiB")


UNLINKED = "fd = os.open('u', os.O_CREAT | os.O_RDWR)\nos.unlink('u')\nfor i in range(%d): os.write(fd, B)\n"


def unlinked_file(kind: str) -> None:
    attack(server(kind), "unlinked", UNLINKED % 60, "disk limit of 8 MiB")


def small_unlinked_file(kind: str) -> None:
    """A control: what stays within the limit passes, however often it is open and by how many processes."""
    s = server(kind)
    sandbox(s, "loose")
    end = run(s, B + UNLINKED % 5 + "import subprocess\nmore = [os.dup(fd) for i in range(9)]\n"
              "p = subprocess.Popen(['sleep', '60'], pass_fds=more)\ntime.sleep(2)\np.kill()\n"
              "print(os.fstat(fd).st_nlink)", "loose")
    equal((end["cause"], end["stdout"]), ("ok", "0\n"), str(end)[:600])
    end = run(s, B + "os.close(fd)\n[os.close(i) for i in more]\nopen('named', 'wb').write(B * 6)\n"
              "time.sleep(2)\nprint(1)", "loose")
    equal((end["cause"], end["stdout"]), ("ok", "1\n"), "what was closed does not count: %s" % str(end)[:600])
    s.delete("/api/v1/sandboxes/loose")


def unlinked_file_of_a_child(kind: str) -> None:
    """Open in a process beside the session alone, and without a name from the start. On an image its writes fail."""
    attack(server(kind), "child", """if os.fork() == 0:
    fd = os.open('.', os.O_TMPFILE | os.O_RDWR)
    for i in range(60): os.write(fd, B)
    time.sleep(60)
""", "disk limit of 8 MiB")


def unlinked_file_of_a_thread(kind: str) -> None:
    """The first thread of the process has ended: its own table of descriptors is empty."""
    attack(server(kind), "thread", OF_A_THREAD, "disk limit of 8 MiB")


OF_A_THREAD = """import ctypes, threading
leave = {'x86_64': 60, 'aarch64': 93}[os.uname().machine]  # SYS_exit
def write():
    time.sleep(0.5)
    fd = os.open('u', os.O_CREAT | os.O_RDWR)
    os.unlink('u')
    for i in range(60): os.write(fd, B)
    time.sleep(60)
if os.fork() == 0:
    threading.Thread(target=write).start()
    ctypes.CDLL(None).syscall(leave, 0)
"""


def unlinked_files_of_two_sessions(kind: str) -> None:
    s = server(kind)
    sandbox(s, "two")
    equal(run(s, B + UNLINKED % 5, "two", session_id="a")["cause"], "ok")
    end = run(s, B + UNLINKED % 5 + WAIT, "two", session_id="b")
    if end["cause"] != "disk_limit":  # else it was the other that had to go, between two runs
        equal(end["cause"], "ok", str(end)[:600])
        end = run(s, "1", "two", session_id="a")
        contains(end.get("session_notice") or "", "disk limit of 8 MiB")
    s.delete("/api/v1/sandboxes/two")
    sandbox(s, "pair", disk="16M")
    equal(run(s, B + UNLINKED % 5, "pair", session_id="a")["cause"], "ok")
    equal(run(s, B + UNLINKED % 5 + "time.sleep(2)", "pair", session_id="b")["cause"], "ok", "control")
    equal(run(s, "1", "pair", session_id="a")["session_restarted"], False, "control")
    s.delete("/api/v1/sandboxes/pair")


def closed_folder(kind: str) -> None:
    attack(server(kind), "closed",
           "os.mkdir('h')\nf = open('h/a', 'wb')\nos.chmod('h', 0)\nfor i in range(60): f.write(B)\nf.flush()\n",
           "disk limit of 8 MiB")


def closed_workspace(kind: str) -> None:
    attack(server(kind), "shut",
           "f = open('a', 'wb')\nos.chmod('/workspace', 0)\nfor i in range(60): f.write(B)\nf.flush()\n",
           "disk limit of 8 MiB")


def deep_file(kind: str) -> None:
    attack(server(kind), "deep", """d = os.open('/workspace', os.O_RDONLY)
for i in range(70):
    os.mkdir('d', dir_fd=d)
    n = os.open('d', os.O_RDONLY, dir_fd=d)
    os.close(d)
    d = n
f = os.open('a', os.O_CREAT | os.O_WRONLY, dir_fd=d)
for i in range(60): os.write(f, B)
""", "disk limit of 8 MiB")


def many_entries(kind: str) -> None:
    s = server(kind)
    sandbox(s, "links", inodes=1000)
    end = run(s, B + "os.mkdir('m')\nfor i in range(20000): os.symlink('x', 'm/%d' % i)\n" + WAIT, "links")
    refused(end, "inodes limit of 1000")
    equal(end["limits_hit"], ["inodes"])
    s.post("/api/v1/sandboxes/links/reset")
    end = run(s, B + "for i in range(900): os.symlink('x', str(i))\ntime.sleep(1)\nprint(len(os.listdir()))", "links")
    equal((end["cause"], end["stdout"]), ("ok", "900\n"), "control")
    s.delete("/api/v1/sandboxes/links")


def countless_entries(kind: str) -> None:
    with tempfile.TemporaryDirectory(prefix="krait-test-", dir="/dev/shm") as memory:  # not the disk's speed
        os.chmod(memory, 0o755)
        if kind == "image":
            only_image()
        with Server(data=memory, shelf=kind) as s:
            make_countless(s, kind)


def make_countless(s: Server, kind: str) -> None:
    """A measurement ends at 200,000 entries; the filesystem's own numbers reach further."""
    inodes, words = (1000000, "200000") if kind == "folder" else (202000, "inodes limit of 202000")
    sandbox(s, "countless", inodes=inodes, disk="1G")
    code = """import sys
for i in range(205000):
    if i == 201000:
        time.sleep(2)
        print('below', flush=True)
    if i % 1000 == 0:
        os.mkdir('d%d' % i)
        d = os.open('d%d' % i, os.O_RDONLY)
    os.symlink('x', str(i), dir_fd=d)
    if i % 1000 == 999:
        os.close(d)
"""
    end = run(s, B + code + "time.sleep(40)\nprint('survived')", "countless")
    refused(end, words)
    if kind == "image":
        contains(end["stdout"], "below")


# ---- between runs --------------------------------------------------------------------------------------

WRITER = """import subprocess, sys
subprocess.Popen([sys.executable, '-c', '''
import time
time.sleep(1)
f = open("/workspace/bg", "wb")
for i in range(60):
    f.write(b"x" * (1 << 20))
    f.flush()
    time.sleep(%g)
time.sleep(600)
'''], start_new_session=True)
print('run ends')
"""


def work_after_the_end(kind: str) -> None:
    s = server(kind)
    sandbox(s, "after")
    equal(run(s, WRITER % 0.02, "after")["cause"], "ok")
    if kind == "image":  # its writes fail
        size = "import os\nprint(os.path.exists('bg') and 7 << 20 < os.path.getsize('bg') < 9 << 20)"
        eventually(lambda: run(s, size, "after")["stdout"] == "True\n", 60, "it writes up to its limit")
        time.sleep(1)
        end = run(s, size, "after")
        equal((end["cause"], end["stdout"], end["session_restarted"]), ("ok", "True\n", False), str(end))
        s.delete("/api/v1/sandboxes/after")
        return
    eventually(lambda: not s.get("/api/v1/sessions?sandbox_id=after").json()["sessions"], 30, "the session lives")
    end = run(s, "import os\nprint(os.path.getsize('bg') < 40 << 20)", "after")
    equal((end["cause"], end["stdout"], end["session_restarted"]), ("ok", "True\n", True), str(end))
    for word in ("between two runs", "disk limit of 8 MiB"):
        contains(end["session_notice"], word)
    equal(run(s, "1", "after").get("session_notice"), None, "told once")
    s.delete("/api/v1/sandboxes/after")
    # A control: one that stays below its limit lives on.
    sandbox(s, "quiet", disk="128M")
    equal(run(s, "x = 7\n" + WRITER % 0.005, "quiet")["cause"], "ok")
    time.sleep(4)  # several looks between two runs
    seen = "import os\nprint(x, os.path.exists('bg') and os.path.getsize('bg') >> 20)"
    eventually(lambda: run(s, seen, "quiet")["stdout"] == "7 60\n", 60, "all of it is written")
    end = run(s, seen, "quiet")
    equal((end["stdout"], end["session_restarted"]), ("7 60\n", False))
    s.delete("/api/v1/sandboxes/quiet")


def unlinked_file_after_the_end(kind: str) -> None:
    s = server(kind)
    sandbox(s, "later")
    equal(run(s, WRITER.replace('f = open("/workspace/bg", "wb")', 'import os; f = os.fdopen(os.open("/workspace", '
                                'os.O_TMPFILE | os.O_RDWR), "wb")') % 0.02, "later")["cause"], "ok")
    eventually(lambda: not s.get("/api/v1/sessions?sandbox_id=later").json()["sessions"], 30, "the session lives")
    contains(run(s, "1", "later")["session_notice"], "disk limit of 8 MiB")
    s.delete("/api/v1/sandboxes/later")


@check
def a_workspace_that_was_closed_is_open_to_the_next_session():
    s = server("folder")
    sandbox(s, "shut")
    equal(run(s, "import os\nopen('kept', 'w').write('7')\nos.chmod('/workspace', 0)", "shut")["cause"], "ok")
    end = run(s, "print(open('kept').read())", "shut", fresh=True)
    equal((end["cause"], end["stdout"]), ("ok", "7\n"), str(end)[:300])
    s.delete("/api/v1/sandboxes/shut")


# ---- what was there before -----------------------------------------------------------------------------


def the_limit_is_of_the_whole_sandbox(kind: str) -> None:
    s = server(kind)
    sandbox(s, "whole")
    for name in ("a", "b"):
        end = run(s, B + "open('%s', 'wb').write(B * 5)\n" % name + WAIT, "whole", fresh=True)
    refused(end, "disk limit of 8 MiB")
    end = run(s, "import os, time\ntime.sleep(1)\nos.remove('a')\nprint(os.listdir())", "whole", fresh=True)
    equal(end["cause"], "ok", "what is over can be deleted: %s" % end)
    s.delete("/api/v1/sandboxes/whole")


# ---- what another session did, and undid ------------------------------------------------------------------

OVERS = {"bytes": "with open('over', 'wb') as f:\n    for i in range(12): f.write(B)\n",
         "entries": "os.mkdir('over')\nfor i in range(300): os.symlink('x', 'over/%d' % i)\n"}
UNDO = "import os, shutil\nshutil.rmtree('over') if os.path.isdir('over') else os.remove('over')\n"


def undone_excess(s, name: str, over: str) -> bool:
    """One round: False if `main` was looked at while the folder was over, and ended for that between two runs."""
    sandbox(s, name, inodes=100)
    equal(run(s, "x = 7\nimport time", name)["cause"], "ok")
    run(s, B + over, name, session="a")
    if run(s, "time.sleep(0.26)", name)["cause"] != "ok":  # it was over, and seen to be
        return False
    equal(run(s, UNDO, name, fresh=True)["cause"], "ok")
    end = run(s, "import time\ntime.sleep(1.2)\nprint('x' in globals())", name)
    equal(end["cause"], "ok", "the excess is gone since before the run: %s" % str(end)[:500])
    s.delete("/api/v1/sandboxes/" + name)
    return not end["session_restarted"] and end["stdout"] == "True\n"


def an_excess_that_is_undone_ends_no_later_run(kind: str) -> None:
    s = server(kind)
    for over in OVERS.values():
        assert any(undone_excess(s, "undone", over) for _ in range(20)), "main was restarted each time"
    # A control: one that is still there when the run begins ends it.
    if kind == "folder":
        sandbox(s, "still")
        equal(run(s, "import time", "still")["cause"], "ok")
        run(s, B + OVERS["bytes"], "still", session="a")
        refused(run(s, WAIT, "still"), "disk limit of 8 MiB")


# ---- where a filesystem enforces it ----------------------------------------------------------------------


@check
def a_caught_refusal_is_survived_on_image():
    s = server("image")
    sandbox(s, "caught")
    end = run(s, B + """
try:
    with open('big', 'wb') as f:
        for i in range(60): f.write(B)
except OSError as e:
    print(e.errno)
os.remove('big')
open('small', 'wb').write(B)
""", "caught")
    equal((end["cause"], end["stdout"]), ("ok", "122\n"), str(end)[:600])
    s.delete("/api/v1/sandboxes/caught")


@check
def a_changed_limit_holds_at_once_on_image():
    s = server("image")
    sandbox(s, "changed")
    write = B + "with open('f%d', 'wb') as f: f.write(B * 12)\nprint('written')"
    equal(run(s, write % 1, "changed")["cause"], "disk_limit")
    equal(s.patch("/api/v1/sandboxes/changed", {"limits": {"disk": "64M"}}).status, 200)
    eventually(lambda: run(s, write % 2, "changed")["stdout"] == "written\n", 30)
    equal(s.patch("/api/v1/sandboxes/changed", {"limits": {"disk": "8M"}}).status, 200)
    eventually(lambda: run(s, write % 3, "changed")["cause"] == "disk_limit", 30)
    s.delete("/api/v1/sandboxes/changed")


def keeper_of(s: Server) -> int:
    """The process that sets the limits: root's, with the image's device open."""
    for pid in open(f"/proc/{s.process.pid}/task/{s.process.pid}/children").read().split():
        links = (f"/proc/{pid}/fd/{fd}" for fd in os.listdir(f"/proc/{pid}/fd"))
        if os.stat("/proc/" + pid).st_uid == 0 and any(os.readlink(one).startswith("/dev/loop") for one in links):
            return int(pid)
    raise AssertionError("no keeper")


@check
def a_slow_disk_lets_no_session_begin_without_its_limit():
    """The keeper stands still, as it does when the filesystem commits: a session that needs it waits, others do not."""
    only_image()
    write = B + "with open('big', 'wb') as f: f.write(B * 40)\nprint('survived')"
    with Server(shelf="image", args=["--shelf-size", "512M", "--queue-wait", "3s"]) as s:
        sandbox(s, "first")
        equal(run(s, "print(1)", "first")["cause"], "ok")
        log = s.log_text()
        assert "removed a folder without a sandbox" not in log, log[-600:]
        keeper = keeper_of(s)
        os.kill(keeper, signal.SIGSTOP)
        try:
            sandbox(s, "late")
            made = [s.post("/api/v1/sandboxes", {"name": "n%d" % i}).status for i in range(20)]  # more than are spare
            equal(set(made), {201})
            for name in ("late", "n19"):
                asked = time.monotonic()
                told = s.post(RUNS, {"code": write, "sandbox_id": name, "stream": False})
                assert told.status == 503 or told.json()["cause"] == "lost", told.text[:300]
                assert time.monotonic() - asked < 60, "refused too late"
            waiting = threading.Thread(target=s.post, args=(RUNS, {"code": "1", "sandbox_id": "n18", "stream": False}))
            waiting.start()
            equal(run(s, "print(2)", "first", session_id="another")["cause"], "ok", "control: its limits were set")
            waiting.join()
        finally:
            os.kill(keeper, signal.SIGCONT)

        def limited() -> bool:
            told = s.post(RUNS, {"code": write, "sandbox_id": "late", "stream": False})  # 503 while it works off the rest
            return told.status == 200 and told.json()["cause"] == "disk_limit"

        eventually(limited, 30)


@check
def an_upload_past_the_limit_is_507_on_image():
    s = server("image")
    sandbox(s, "full")

    def put(i: int) -> int:
        return s.request("PUT", "/api/v1/sandboxes/full/files/%d" % i, b"x" * (1 << 20),
                         headers={"Content-Type": "application/octet-stream"}).status

    eventually(lambda: put(0) in (200, 201), 10, "503: its folder is not there yet")
    told = [201] + [put(i) for i in range(1, 10)]
    equal((told[:6], told[-1]), ([201] * 6, 507), str(told))
    equal(int(run(s, "import os\nprint(len(os.listdir()))", "full")["stdout"]), told.count(201))
    s.delete("/api/v1/sandboxes/full")


@check
def uploads_leave_a_reserve_of_the_disk_on_folder():
    """A 64th of the server's disk stays free, whatever clients store; a program of the host can have it."""
    if os.geteuid() != 0:
        skip("needs root: a mount")
    with tempfile.TemporaryDirectory(prefix="krait-test-") as folder:
        os.chmod(folder, 0o755)
        mounting = 'mount -t tmpfs -o mode=755,size=256M tmpfs "$1" && shift && exec "$@"'
        with Server(data=folder, wrap=["unshare", "--mount", "sh", "-c", mounting, "sh", folder]) as s:
            disk = "/proc/%d/root%s" % (s.process.pid, folder)

            def free() -> int:
                found = os.statvfs(disk)
                return found.f_bavail * found.f_frsize

            def put(i: int) -> int:
                return s.request("PUT", "/api/v1/sandboxes/storing/files/%d" % i, b"x" * (1 << 18),
                                 headers={"Content-Type": "application/octet-stream"}).status

            sandbox(s, "storing", disk="200M")
            equal(put(0), 201, "control: with room it is stored")
            with open(disk + "/filler", "wb") as f:
                os.posix_fallocate(f.fileno(), 0, free() - (8 << 20))
                told = [put(i) for i in range(1, 40)]
                assert told[0] == 201 and told[-1] == 507, told
                left = free()
                os.posix_fallocate(f.fileno(), f.seek(0, os.SEEK_END), left // 2)  # control: others can have it
            assert left >= 4 << 20, "%d KiB of 256 MiB are left" % (left >> 10)
            os.unlink(disk + "/filler")
            equal(put(99), 201, "room again")


@check
def an_image_lasts_and_gives_back_what_is_deleted():
    only_image()
    with tempfile.TemporaryDirectory(prefix="krait-test-") as folder:
        os.chmod(folder, 0o755)
        with Server(data=folder, shelf="image", args=["--shelf-size", "512M"]) as s:
            sandbox(s, "lasting", disk="200M", file_size="128M")
            equal(run(s, B + "open('kept', 'wb').write(B * 100)", "lasting")["cause"], "ok")
            equal(run(s, "open('mine', 'w').write('x')", "default")["cause"], "ok")
        equal(os.listdir(folder + "/data/sandboxes"), [], "files lie outside the image")
        image = folder + "/data/sandboxes.image"
        full = os.stat(image).st_blocks * 512
        assert full > 100 << 20, full
        with Server(data=folder, shelf="auto", args=["--cleanup-interval", "200ms"]) as s:
            end = run(s, "import os\nprint(os.path.getsize('kept') >> 20)", "lasting")
            equal((end["cause"], end["stdout"]), ("ok", "100\n"), str(end)[:400])
            equal(s.delete("/api/v1/sandboxes/lasting").status, 204)
            eventually(lambda: os.stat(image).st_blocks * 512 < full - (64 << 20), 60, "the image stays large")
            equal(run(s, "import os\nprint(os.listdir())", "default")["stdout"], "['mine']\n")


def full_host(kind: str, size: str, *args: str) -> None:
    """The server's data on a small filesystem of its own, which a program fills below its own limit."""
    if os.geteuid() != 0:
        skip("needs root: a mount")
    with tempfile.TemporaryDirectory(prefix="krait-test-") as folder:
        os.chmod(folder, 0o755)
        mounting = 'mount -t tmpfs -o mode=755,size=%s tmpfs "$1" && shift && exec "$@"' % size
        with Server(data=folder, shelf=kind, args=list(args), wrap=["unshare", "--mount", "sh", "-c", mounting, "sh",
                                                                   folder]) as s:
            sandbox(s, "greedy", disk="1G", file_size="1G")
            end = run(s, B + "with open('big', 'wb') as f:\n    for i in range(600): f.write(B)\n", "greedy")
            assert end["cause"] in ("exception", "lost"), str(end)[:600]
            contains(end["message"], "the server's disk is")
            equal(end["limits_hit"], [])
            end = run(s, B + "os.remove('big')\nopen('small', 'wb').write(B)", "greedy")
            equal(end["cause"], "ok", "control: deleting makes room again: %s" % end)


@check
def a_full_host_is_not_the_limit_on_folder():
    full_host("folder", "80M")


@check
def a_full_host_is_not_the_limit_on_image():
    only_image()
    full_host("image", "400M", "--shelf-size", "512M")


def only_image() -> None:
    if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
        skip("needs root and loop devices")


@check
def an_unlinked_file_of_a_plain_user():
    """Level user: the warden is the user's own process, outside of the cells' user namespaces."""
    if os.geteuid() != 0:
        skip("needs root: another user")
    with tempfile.TemporaryDirectory(prefix="krait-test-") as folder:
        os.chown(folder, 65534, 65534)
        with Server(data=folder, wrap=["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
                                       "--inh-caps=-all"], env={"HOME": folder}) as s:
            attack(s, "unlinked", UNLINKED % 60, "disk limit of 8 MiB")
            attack(s, "thread", OF_A_THREAD, "disk limit of 8 MiB")
            sandbox(s, "small")
            end = run(s, B + UNLINKED % 5 + "import subprocess\ndead = subprocess.Popen('true')\ntime.sleep(3)\n"
                      "print(1)", "small")
            equal((end["cause"], end["stdout"]), ("ok", "1\n"), "control: %s" % str(end)[:600])


@check
def an_unlinked_file_in_a_folder_of_krait_run():
    """A warden without a shelf, whose keeper is there for the count alone."""
    with tempfile.TemporaryDirectory(prefix="krait-test-") as folder:
        for count, status in ((60, 137), (5, 0)):
            done = subprocess.run([KRAIT, "run", "--workspace", folder, "--disk", "8M", "--file-size", "64M", "-c",
                                   B + UNLINKED % count + WAIT], capture_output=True, text=True, timeout=120)
            equal(done.returncode, status, done.stderr[-300:])
            equal("disk limit of 8 MiB" in done.stderr, status != 0, done.stderr[-300:])


ROWS = [plain_file, unlinked_file, small_unlinked_file, closed_folder, closed_workspace, deep_file, many_entries,
        countless_entries, work_after_the_end, the_limit_is_of_the_whole_sandbox,
        an_excess_that_is_undone_ends_no_later_run]
ON_FOLDER_ONLY = [unlinked_file_of_a_child, unlinked_file_of_a_thread, unlinked_files_of_two_sessions,
                  unlinked_file_after_the_end]
for row in ROWS + ON_FOLDER_ONLY:
    for kind in ("folder", "image") if row in ROWS else ("folder",):
        def one(row=row, kind=kind) -> None:
            row(kind)
        one.__name__ = row.__name__ + "_on_" + kind
        check(one)

if __name__ == "__main__":
    main()
