#!/usr/bin/python3
"""Templates whose packages are preloaded: sessions of sandboxes with these packages begin with them imported, others do
not; what the imports may do, and what keeps a zygote from being used."""
from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "lib")]
import wheels  # noqa: E402
from check import check, contains, equal, main, skip  # noqa: E402
from installing import index_args, install, site  # noqa: E402
from krait_server import KRAIT, Server  # noqa: E402
from processes import below  # noqa: E402
from serving import eventually  # noqa: E402

BOXES, TEMPLATES = "/api/v1/sandboxes", "/api/v1/templates"
READY_S = 120
IS_THERE = "import sys; 'lone_thing' in sys.modules"
# A zygote has the last id of its user namespace, a session 1000.
FALLS_BACK = "import lone_thing, os; lone_thing.UID == os.getuid()"
LONE = "import os\nVERSION = %s\nUID = os.getuid()\nSEEN = {}\n"
# What code of a package tries while the zygote imports it: name -> whether it could. Those in capitals are the controls.
TRIES = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def tried(name, call):
    try:
        SEEN[name] = call() not in (-1,)
    except OSError as exc:
        SEEN[name] = False
def opened(path, how):
    os.close(os.open(path, how))
def of(*args):
    return libc.syscall(*args)
def other_pids():
    return [one for one in os.listdir("/proc") if one.isdigit() and int(one) != os.getpid()]
tried("OWN_MEMORY", lambda: opened("/proc/self/mem", os.O_RDONLY))
tried("SEES_OTHERS", lambda: -1 if not other_pids() else 0)
for pid in other_pids():
    tried("memory of a process", lambda: opened("/proc/%s/mem" % pid, os.O_RDONLY))
    tried("root of a process", lambda: os.listdir("/proc/%s/root" % pid))
    tried("signal", lambda: os.kill(int(pid), 0))
tried("OWN_SIGNAL", lambda: os.kill(os.getpid(), 0))
for name, family, kind in (("netlink", 16, 3), ("packet", 17, 3), ("vsock", 40, 1), ("raw", 2, 3)):
    tried(name, lambda: socket.socket(family, kind).close())
tried("INET", lambda: socket.socket().close())
tried("connect", lambda: socket.create_connection(("127.0.0.1", PORT), 2).close())
for name, flag in (("user", 0x10000000), ("mount", 0x20000), ("net", 0x40000000), ("pid", 0x20000000)):
    tried("unshare " + name, lambda: of(272, flag))
tried("mount", lambda: libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None))
tried("chroot", lambda: os.chroot("/tmp"))
for path in ("/usr/x", "/venv/x", "/krait/x", "/krait/packages/x", "/x", "/workspace/x", "/etc/x", "/.view/x"):
    tried("write " + path, lambda: opened(path, os.O_WRONLY | os.O_CREAT))
tried("write /proc/sys", lambda: opened("/proc/sys/net/ipv4/ip_forward", os.O_WRONLY))
tried("write /proc", lambda: opened("/proc/self/oom_score_adj", os.O_WRONLY))
tried("device", lambda: os.mknod("/tmp/device", 0o20600, os.makedev(1, 3)))
tried("list the store", lambda: os.listdir("/krait/packages"))
tried("what is for cells", lambda: -1 if not os.listdir("/.view") else 0)
tried("TMP", lambda: opened("/tmp/x", os.O_WRONLY | os.O_CREAT))
tried("VENV", lambda: opened("/venv/current/krait.json", os.O_RDONLY))
def children():
    made = []
    try:
        while len(made) < 100:
            pid = os.fork()
            if pid == 0:
                import time
                time.sleep(30)
                os._exit(0)
            made.append(pid)
    except OSError:
        pass
    for pid in made:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    SEEN["SOME PROCESSES"] = len(made) > 10
    return len(made)
tried("processes", lambda: -1 if children() < 100 else 0)
# In a copy that is to become a session: what it could do with the cell that it is given.
def in_the_cell():
    for name in os.listdir("/proc/self/fd"):
        try:
            kind = os.readlink("/proc/self/fd/" + name).split(":")[0]
        except OSError:
            continue
        if kind in ("user", "mnt"):
            SPACES[kind] = int(name)
    tried("ENTERED", lambda: libc.setns(SPACES["user"], 0) or libc.setns(SPACES["mnt"], 0))
    libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE
    tried("CELL_IS_SEEN", lambda: os.stat("/proc/self/status"))
    tried("OWN_MEMORY_THERE", lambda: opened("/proc/self/mem", os.O_RDONLY))
    tried("memory of the init", lambda: opened("/proc/1/mem", os.O_RDWR))
    tried("namespaces of the init", lambda: os.readlink("/proc/1/ns/net"))
    tried("mount there", lambda: libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None))
    tried("pivot there", lambda: of(155, b"/tmp", b"/tmp"))
    tried("unshare there", lambda: of(272, 0x10000000))
SPACES = {}
def on_fork():
    if SPACES:
        return
    SPACES["begun"] = 1
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        in_the_cell()
        os.write(w, repr(SEEN).encode())
        os._exit(0)
    os.close(w)
    os.waitpid(pid, 0)
    SEEN.update(eval(os.read(r, 65536)))
    os.close(r)
os.register_at_fork(after_in_child=on_fork)
"""
# What imports leave behind, and what is said of it.
LEFT = {
    "thread": ("import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n",
               "a thread"),
    "child": ("import subprocess\nCHILD = subprocess.Popen(['/bin/sleep', '1000'])\n", "a child process"),
    "daemon": ("import subprocess\nsubprocess.run(['/bin/sh', '-c', 'setsid sleep 1000 >/dev/null 2>&1 &'])\n",
               "2 processes"),
    "descriptor": ("FILE = open('/usr/bin/env')\n", "an open descriptor: /usr/bin/env"),
    "mapping": ("import mmap\nMAP = mmap.mmap(-1, 4096)\n", "a shared writable mapping"),
    "exit": ("raise SystemExit(3)\n", "SystemExit"),
    "crash": ("os.kill(os.getpid(), 11)\n", "it ended while"),
    "lie": ("import _krait\n_krait.fail(3, 'all\\x1b[31m is \"well\"')\nos._exit(0)\n", "all'[31m is 'well'"),
}
# Frames of src/wire: Z_HELLO is 23, Z_FORK 24, Z_FORKED 25, Z_FAILED 27. On cgroup v1 the tasks files of the cell come
# with Z_FORK.
LIES = """
def lie():
    import array, socket, struct, time
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=3)
    s.send(struct.pack("=IHHII II Q 64s", 80, 23, 0, 0, 0, 2, 1, 0, b"3"))
    while True:
        data, more = s.recvmsg(4096, 4096)[:2]
        if not data:
            os._exit(0)
        kind, number = struct.unpack_from("=4x H 2x I", data)
        if kind != 24:
            continue
        got = array.array("i", b"".join(one[2] for one in more))
        pid = os.fork()
        if pid == 0:
            for fd in got:
                if HIDES and os.readlink("/proc/self/fd/%d" % fd).endswith("tasks"):
                    os.write(fd, b"0")
            time.sleep(1000)
            os._exit(0)
        for fd in got:
            os.close(fd)
        if HIDES:
            time.sleep(0.5)
            s.send(struct.pack("=IHHII HHi 240s", 248, 27, 0, number, 0, 1, 0, 0, b"no"))
            continue
        named = array.array("i", [os.pidfd_open(pid)])
        s.sendmsg([struct.pack("=IHHII 8s ii", 16, 25, 1, number, 0, data[16:24], pid, 0)],
                  [(socket.SOL_SOCKET, socket.SCM_RIGHTS, named)])
if UID != 1000:
    lie()
"""


class Shop:
    """A server with one template of one package, which can be made anew."""

    def __init__(self, index, folder, s: Server) -> None:
        self.index, self.folder, self.s, self.version = index, folder, s, 0

    def save(self, text: str = "", name: str = "science", **more) -> str:
        """A template whose package has this text; the sandbox that it was saved from."""
        s = self.s
        self.version += 1
        self.index.add(wheels.wheel(self.folder, "lone-thing", "%d.0" % self.version,
                                    modules={"lone_thing.py": LONE % self.version + text}))
        box = "source-%d" % self.version
        equal(s.post(BOXES, {"name": box}).status, 201)
        done = install(s, "lone-thing==%d.0" % self.version, sandbox=box)
        assert done["ok"], done
        s.delete("%s/%s" % (TEMPLATES, name))
        reply = s.post(TEMPLATES, {"sandbox_id": box, "name": name, "shared": True, **more})
        equal(reply.status, 201, reply.text)
        return box

    def begin(self, name: str, template: str = "science") -> str:
        self.s.delete("%s/%s" % (BOXES, name))
        made = self.s.post(BOXES, {"name": name, "template": template})
        equal(made.status, 201, made.text)
        return name

    def preloaded(self) -> dict:
        return {one["template"]: one for one in self.s.get("/api/v1/info").json()["preloaded_templates"]}

    def until(self, *states: str, template: str = "science", sign: str = "") -> dict:
        """The template in one of these states, and with these words as the reason."""
        def is_so():
            one = self.preloaded()[template]
            return one["state"] in states and sign in (one["reason"] or "")
        try:
            eventually(is_so, READY_S)
        except AssertionError:
            raise AssertionError("%s: %s" % (self.preloaded(), self.s.log_text()[-3000:])) from None
        return self.preloaded()[template]

    def value(self, code: str, box: str, **more) -> str:
        done = self.s.run(code, sandbox_id=box, **more)
        equal(done["cause"], "ok", str(done)[:800])
        return done["result"]


@contextlib.contextmanager
def shop(*args: str, preload: str = "science"):
    if os.geteuid() != 0:
        skip("packages of templates are preloaded only by root")
    with site() as (index, folder), Server(args=index_args(index, "--template-preload", preload, *args)) as s:
        yield Shop(index, folder, s)


@check
def template_preload() -> None:
    with shop() as it:
        equal(it.until("absent")["reason"], "there is no shared template of that name")
        equal(it.s.get("/ready").status, 200, "runs are taken without it")
        contains(it.s.get("/ready").text, "template science")
        source = it.save()
        equal(it.until("ready"), {"template": "science", "state": "ready", "reason": None})
        assert "template" not in it.s.get("/ready").text
        box = it.begin("one")
        equal(it.value(IS_THERE, box), "True")
        equal(it.value("import lone_thing, os; (lone_thing.VERSION, lone_thing.UID)", box), "(1, 65535)")
        equal(it.value(IS_THERE, source), "True", "the sandbox that it was saved from has the same packages")
        equal(it.value(IS_THERE, "default"), "False", "a sandbox without them")
        equal(it.value("import os; os.getuid(), os.getpid() > 1, sorted(os.listdir('/workspace'))", box), "(1000, True, [])")
        what_a_session_can_do(it, box)
        what_is_changed_is_one_session_s(it, box)
        changed_packages_come_from_elsewhere(it, box)
        a_new_one_takes_its_place(it)
        an_end_is_survived(it)
        gone_is_gone(it)
    with site() as (index, folder), Server(args=index_args(index)) as s:
        equal(s.get("/api/v1/info").json()["preloaded_templates"], [], "none is asked for")


def what_a_session_can_do(it: Shop, box: str) -> None:
    """What the zygote has taken on does not narrow its sessions."""
    code = """
import os, socket, subprocess, threading, tempfile, multiprocessing
os.makedirs("a/b", exist_ok=True); os.makedirs("c", exist_ok=True)
open("a/b/x", "w").write("1"); os.rename("a/b/x", "c/x"); os.link("c/x", "a/y")
with tempfile.TemporaryDirectory() as t: os.mkdir(t + "/d"); open(t + "/e", "w").close(); os.rename(t + "/e", t + "/d/e")
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen()
client = socket.create_connection(server.getsockname()); server.accept()[0].send(b"x")
t = threading.Thread(target=lambda: None); t.start(); t.join()
p = subprocess.Popen(["sleep", "100"]); p.terminate(); p.wait()
import pty
(client.recv(1), subprocess.run([__import__("sys").executable, "-c", "import lone_thing; print(lone_thing.VERSION)"],
                                capture_output=True, text=True).stdout, open("/proc/self/status").read().count("Seccomp:\\t2"))
"""
    equal(it.s.patch("%s/%s" % (BOXES, box), {"network": "loopback"}).status, 200)
    equal(it.value(code, box, session_id="able"), "(b'x', '1\\n', 1)")


def what_is_changed_is_one_session_s(it: Shop, box: str) -> None:
    equal(it.value("import lone_thing; lone_thing.SEEN['me'] = 1; len(lone_thing.SEEN)", box, session_id="a"), "1")
    equal(it.value("import lone_thing; len(lone_thing.SEEN)", box, session_id="b"), "0")
    equal(it.value("import lone_thing; len(lone_thing.SEEN)", it.begin("two")), "0")


def changed_packages_come_from_elsewhere(it: Shop, box: str) -> None:
    it.index.add(wheels.wheel(it.folder, "plain-thing"))
    assert install(it.s, "plain-thing", sandbox=box)["ok"]
    equal(it.value(IS_THERE, box, session_id="changed"), "False")
    equal(it.value(FALLS_BACK, box, session_id="changed"), "True", "it is there all the same")


def a_new_one_takes_its_place(it: Shop) -> None:
    """The template is made anew: sandboxes of the old one no longer begin with it."""
    old = it.begin("old")
    it.save()
    eventually(lambda: it.value("import sys; getattr(sys.modules.get('lone_thing'), 'VERSION', 0)",
                                it.begin("new")) == "2", READY_S)
    equal(it.value(IS_THERE, old), "False")
    equal(it.value("import lone_thing; lone_thing.VERSION", old), "1")


def an_end_is_survived(it: Shop) -> None:
    box = it.begin("survivor")
    equal(it.value("import lone_thing; x = 7; lone_thing.VERSION", box, session_id="live"), "2")
    for pid in zygotes_of(it.s):
        os.kill(pid, signal.SIGKILL)
    equal(it.value("import lone_thing; lone_thing.VERSION", box, session_id="next"), "2", "with it or without it")
    equal(it.value("x", box, session_id="live"), "7", "a live session goes on")
    eventually(lambda: it.value(IS_THERE, box, fresh=True) == "True", READY_S)


def gone_is_gone(it: Shop) -> None:
    box = it.begin("last")
    equal(it.s.patch(TEMPLATES + "/science", {"shared": False}).status, 200)
    contains(it.until("absent")["reason"], "not shared")
    equal(it.value(FALLS_BACK, box), "True")
    equal(it.s.patch(TEMPLATES + "/science", {"shared": True}).status, 200)
    it.until("ready")
    equal(it.value(IS_THERE, box, fresh=True), "True")
    equal(it.s.delete(TEMPLATES + "/science").status, 204)
    it.until("absent")
    equal(it.value(FALLS_BACK, box, fresh=True), "True")


def interpreters_of(s: Server) -> dict:
    """Zygotes of templates and the sessions that are copies of them, and so have the same words: pid -> its parent."""
    parents = {}
    for pid in below(s.process.pid):
        with contextlib.suppress(OSError), open("/proc/%d/cmdline" % pid, "rb") as words, open("/proc/%d/stat" % pid) as stat:
            if b"template" in words.read().split(b"\0"):
                parents[pid] = int(stat.read().rsplit(")", 1)[1].split()[1])
    return parents


def zygotes_of(s: Server) -> list:
    """Their parents have other words."""
    parents = interpreters_of(s)
    found = [pid for pid, parent in parents.items() if parent not in parents]
    assert found, "there is a zygote"
    return found


@check
def imports_are_confined() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with shop() as it, listener:
        it.save(TRIES.replace("PORT", str(listener.getsockname()[1])))
        it.until("ready")
        seen = eval(it.value("import lone_thing; lone_thing.SEEN", it.begin("one")))  # a dict of ours
        equal(sorted(name for name, could in seen.items() if could != name.isupper()), [], str(seen))
        assert seen["SOME PROCESSES"] and seen["ENTERED"] and "memory of the init" in seen, seen


@check
def what_imports_leave_behind() -> None:
    """Such a zygote is not used, and sessions import by themselves."""
    with shop() as it:
        for name, (text, sign) in LEFT.items():
            it.save("if UID != 1000:\n    " + text.replace("\n", "\n    "))
            contains(it.until("failed", sign=sign)["reason"], sign)
            contains(it.s.get("/ready").text, "template science")
            equal(it.value(FALLS_BACK, it.begin("box-" + name)), "True")
        contains(it.s.log_text(), "preload=template state=failed")
        it.save()
        it.until("ready")
        equal(it.value(IS_THERE, it.begin("one")), "True", "the control")


@check
def zygotes_that_end() -> None:
    """One that has been replaced ends beside its live sessions; so does one that is given up, and with the last of its
    sessions goes all that is left of it."""
    code = "import lone_thing; x = lone_thing.VERSION; x"
    with shop() as it:
        s = it.s

        def times_ready() -> int:
            return s.log_text().count("preload=template state=ready")
        it.save()
        it.until("ready")
        old, live = zygotes_of(s)[0], it.begin("live")
        equal(it.value(code, live, session_id="live"), "1")
        known = times_ready()
        seen = set(interpreters_of(s))  # sessions, and zygotes that have ended or are to end
        it.save()
        eventually(lambda: old not in interpreters_of(s), READY_S)
        equal(it.value("x", live, session_id="live"), "1", "a live session goes on")

        def fresh() -> set:
            return set(interpreters_of(s)) - seen if times_ready() > known else set()
        last = it.begin("last")
        for left in range(6):
            zygote = eventually(fresh, READY_S)
            equal(len(zygote), 1)
            seen |= zygote
            if left == 0:
                equal(it.value(code, last, session_id="last"), "2")
                sessions = set(interpreters_of(s)) - seen
                equal(len(sessions), 1)
                seen |= sessions
            known = times_ready()
            os.kill(zygote.pop(), signal.SIGKILL)
        contains(it.until("failed", sign="ended 6 times")["reason"], "given up")
        contains(s.get("/ready").text, "template science")
        equal(it.value("x", last, session_id="last"), "2", "a live session goes on")
        equal(it.value(FALLS_BACK, it.begin("next")), "True")
        builder = interpreters_of(s)[sessions.pop()]
        equal(s.delete("%s/last" % BOXES).status, 204)
        eventually(lambda: not os.path.exists("/proc/%d" % builder), READY_S)
        it.save()
        it.until("ready")
        equal(it.value(IS_THERE, it.begin("control")), "True")


@check
def sessions_that_are_none() -> None:
    """Packages that speak in the zygote's place, and have a child of theirs named or hidden where a session should be."""
    on_v1 = os.path.isdir("/sys/fs/cgroup/memory")  # else there is no way to hide
    for hides, sign in (("False", "the session named is not in its cell"),
                        ("True", "in the cgroup of an ended cell are killed" if on_v1 else "")):
        with shop() as it:
            it.save("HIDES = %s\n" % hides + LIES)
            it.until("ready")
            equal(it.value(FALLS_BACK, it.begin("one")), "True")
            eventually(lambda s=it.s, sign=sign: sign in s.log_text(), READY_S)
            it.save()
            box = it.begin("control")
            eventually(lambda it=it, box=box: it.value(IS_THERE, box, fresh=True) == "True", READY_S)


@check
def template_zygote_memory() -> None:
    text = "HELD = bytearray(150 << 20)\n"
    for args, state in ((("--template-zygote-memory", "96M"), "failed"), ((), "ready")):
        with shop(*args) as it:
            it.save(text)
            found = it.until("failed", "ready")
            equal(found["state"], state, str(found))
            if state == "failed":
                contains(found["reason"], "templates.zygote_memory")
                equal(it.value(FALLS_BACK, it.begin("one")), "True")


@check
def template_zygote_timeout() -> None:
    text = "import time\nif UID != 1000: time.sleep(8)\n"
    for args, state in ((("--template-zygote-timeout", "2s"), "failed"), ((), "ready")):
        with shop(*args) as it:
            it.save(text)
            if state == "failed":
                it.until("starting")
                equal(it.value(FALLS_BACK, it.begin("one")), "True", "nothing waits for it")
            found = it.until("failed", "ready")
            equal(found["state"], state, str(found))
            if state == "failed":
                contains(found["reason"], "not ready after 2 s")
                it.save("if UID != 1000:\n    import _krait, time\n    _krait.fail(3, 'it will not')\n    time.sleep(1000)\n")
                contains(it.until("failed", sign="will not")["reason"], "it will not")


@check
def template_max_zygotes() -> None:
    both = "science,other:lone_thing"
    refused = subprocess.run([KRAIT, "serve", "--no-files", "--port", "0", "--template-preload", both], capture_output=True,
                             text=True, timeout=60)
    assert refused.returncode != 0 and "max_zygotes" in refused.stderr, refused
    with shop("--template-max-zygotes", "2", preload=both) as it:
        it.save()
        it.save(name="other")
        for name, version in (("science", "1"), ("other", "2")):
            it.until("ready", template=name)
            equal(it.value("import sys; sys.modules['lone_thing'].VERSION", it.begin("box-" + name, name)), version)
    for words in ("a:", "a:1b", "a:b c", ":b", "a:b;c"):
        refused = subprocess.run([KRAIT, "serve", "--no-files", "--port", "0", "--template-preload", words],
                                 capture_output=True, text=True, timeout=60)
        assert refused.returncode != 0 and "template-preload" in refused.stderr, (words, refused)


@check
def modules_that_are_named() -> None:
    with shop(preload="science:lone_thing+no_such_module") as it:
        it.save()
        contains(it.until("failed")["reason"], "cannot import no_such_module")
    with shop(preload="science:json") as it:
        it.save()
        it.until("ready")
        equal(it.value(IS_THERE, it.begin("one")), "False", "only what is named")


if __name__ == "__main__":
    main()
