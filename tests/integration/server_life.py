#!/usr/bin/python3
"""A server's life: what it refuses to start with, how it stops, what is there again after a restart or SIGKILL."""
import contextlib
import fcntl
import glob
import http.client
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import termios
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/lib"))
from check import check, contains, equal, main, skip  # noqa: E402
from processes import below, cgroups_of, is_alive, leftovers, roles  # noqa: E402
from krait_server import KRAIT, Server  # noqa: E402
from serving import Meanwhile, Stream, eventually  # noqa: E402

RUNS = "/api/v1/runs"
SLEEP = "import time\nprint('begun', flush=True)\ntime.sleep(%g)\nprint('done')"


class Folder:
    """A folder in which a server may keep its data."""

    def __enter__(self) -> str:
        self.path = tempfile.mkdtemp(prefix="krait-test-")
        os.chmod(self.path, 0o755)
        return self.path

    def __exit__(self, *_what) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def refused(*args: str, env: dict | None = None, seconds: float = 30) -> tuple:
    """Starts a server that must not start: its exit status and its one line."""
    with Folder() as data:
        base = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "ASAN_OPTIONS", "UBSAN_OPTIONS")}
        where = [] if "--data" in args else ["--data", os.path.join(data, "data")]
        port = [] if "--port" in args or "--listen" in args else ["--port", "0"]
        done = subprocess.run([os.path.abspath(KRAIT), "serve", "--no-files", "--preload", "basic", *where, *port,
                               *args],
                              env={**base, **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=seconds, cwd="/")
        equal(done.stdout, "", "nothing is announced")
        lines = [line for line in done.stderr.splitlines() if not re.match("(ts=\\S+ )?level=(info|warn) ", line)]
        equal(len(lines), 1, "lines of %r" % done.stderr)
        return done.returncode, lines[0]


class Traces:
    """What a running server has on this machine; later, what of it is still there."""

    def __init__(self, s: Server):
        self.data = s.data
        self.pids = [s.process.pid, *below(s.process.pid)]
        self.groups = cgroups_of(self.pids)

    def left(self) -> list:
        found = ["process %d" % pid for pid in self.pids if is_alive(pid)]
        found += leftovers(self.groups)
        with open("/proc/self/mountinfo") as f:
            found += [line for line in f if self.data in line]
        return found


def begin(s: Server, code: str, **more) -> Stream:
    stream = Stream(s, "POST", RUNS, {"code": code, **more})
    stream.first = stream.until("stdout")
    stream.id = stream.first[0]["run_id"]
    return stream


# ---- what it does not start with -----------------------------------------------------------------


@check
def a_taken_port_is_98():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, line = refused("--port", str(port))
    equal(status, 98, line)
    for part in (str(port), "127.0.0.1", "taken", "--port"):
        contains(line, part)


@check
def a_data_directory_that_cannot_be_used_is_73():
    with Folder() as here:
        file = os.path.join(here, "file")
        open(file, "w").close()
        for path in (file, os.path.join(file, "below"), "/proc/nowhere/krait", "/sys/krait"):
            status, line = refused("--data", path)
            equal(status, 73, line)
            contains(line, "--data")
        if os.geteuid() == 0:
            theirs = os.path.join(here, "theirs")
            os.mkdir(theirs)
            os.chown(theirs, 12345, 12345)
            status, line = refused("--data", theirs)
            equal(status, 73, line)
            for part in ("12345", theirs, "--data", "--user"):
                contains(line, part)
            equal(os.listdir(theirs), [])
            closed = os.path.join(here, "closed")
            os.mkdir(closed, 0o700)
            status, line = refused("--data", os.path.join(closed, "data"))
            equal(status, 73, line)
            contains(line, closed)


@check
def an_empty_data_directory_of_root_is_taken_over():
    if os.geteuid() != 0:
        return skip("needs root: a folder is handed to another user")
    with Folder() as here:
        empty = os.path.join(here, "data")
        os.mkdir(empty, 0o755)
        with Server(data=here) as s:
            equal(s.run("open('kept', 'w').write('x')")["cause"], "ok")
        assert os.stat(empty).st_uid != 0, "it is still root's"
        contains(os.listdir(empty), "sandboxes")
        for name, mode, content in (("full", 0o755, "letter"), ("open", 0o777, None)):
            folder = os.path.join(here, name)
            os.mkdir(folder)
            os.chmod(folder, mode)
            if content:
                open(os.path.join(folder, content), "w").close()
            status, line = refused("--data", folder)
            equal(status, 73, line)
            for part in ("uid 0", folder, "--data", "only an empty one"):
                contains(line, part)
            equal((os.stat(folder).st_uid, os.listdir(folder)), (0, [content] if content else []))
        target, link = os.path.join(here, "target"), os.path.join(here, "link")
        os.mkdir(target)
        os.symlink(target, link)
        status, line = refused("--data", link)
        equal(status, 73, line)
        equal((os.stat(target).st_uid, os.listdir(target)), (0, []), "a link was followed")


@check
def an_open_address_without_a_key_is_refused():
    for args in (["--host", "0.0.0.0"], ["--host", "::"], ["--listen", "0.0.0.0:0"],
                 ["--host", "0.0.0.0", "--dialect", "sandbox-mcp"]):
        status, line = refused(*args)
        equal(status, 2, line)
        for part in ("key", "--allow-anonymous"):
            contains(line, part, str(args))
    status, line = refused(env={"HOST": "0.0.0.0"})
    equal(status, 2, line)


@check
def a_wrong_setting_is_named():
    for args, parts in ((["--max-sesions", "3"], ["max-sesions", "--max-sessions"]),
                        (["--memory", "much"], ["--memory", "much"]),
                        (["--memory", "2G", "--max-memory", "1G"], ["memory"]),
                        (["--user", "nobody-of-that-name"], ["--user"])):
        if "--user" in args and os.geteuid() != 0:
            continue
        status, line = refused(*args)
        contains((2, 125), status, line)
        for part in parts:
            contains(line, part)


@check
def the_data_of_a_newer_krait_is_left_alone():
    with Folder() as data:
        with Server(data=data) as s:
            s.run("1")
        (path,) = [one for one in glob.glob(data + "/data/*") if os.path.isfile(one)
                   and open(one, "rb").read(15) == b"SQLite format 3"]
        base = sqlite3.connect(path)
        base.execute("PRAGMA user_version = 9999")
        base.close()
        before = open(path, "rb").read()
        status, line = refused("--data", os.path.join(data, "data"))
        contains((2, 125), status, line)
        for part in ("9999", "newer", "--data"):
            contains(line, part)
        equal(open(path, "rb").read(), before, "its bytes")


@check
def two_servers_do_not_share_their_data():
    with Server() as s:
        s.run("1")
        status, line = refused("--data", os.path.join(s.data, "data"))
        equal(status, 125, line)
        contains(line, "--data")
        contains(line, os.path.join(s.data, "data"))
        equal(s.run("2")["result"], "2", "the first goes on")


@check
def anonymous_must_be_said_out_loud():
    with Server(args=["--host", "0.0.0.0", "--allow-anonymous"]) as s:
        with socket.create_connection(("127.0.0.2", s.port), timeout=5) as other:
            other.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.2\r\nConnection: close\r\n\r\n")
            equal(other.recv(12), b"HTTP/1.1 200")
        assert [line for line in s.log_text().splitlines() if "level=warn" in line and "--allow-anonymous" in line], (
            s.log_text())
    with Server(args=["--host", "0.0.0.0"], env={"API_KEY": "a-key-0123456789abcdef"}) as s:
        equal((s.get("/api/v1/sessions", key="").status,
               s.get("/api/v1/sessions", key="a-key-0123456789abcdef").status), (401, 200))


@check
def a_document_s_open_default_binds_loopback_and_says_so():
    with Server(args=["--dialect", "sandbox-mcp"]) as s:
        contains(s.log_text(), "127.0.0.1 instead")
        with socket.socket() as other:
            other.settimeout(5)
            contains((111,), other.connect_ex(("127.0.0.2", s.port)))

@check
def a_tight_umask_hides_no_counters():
    """The service's own (deploy/krait.service): the server still reads a run's counters itself, so one ends while the
    warden sleeps."""
    with Server(wrap=["/bin/sh", "-c", "umask 077; exec \"$0\" \"$@\""]) as s:
        code = {"code": "1 + 1", "session_id": "kept", "stream": False}
        equal(s.post(RUNS, code).json()["result"], "2")
        os.kill(s.process.pid, signal.SIGSTOP)
        try:
            answer = s.post(RUNS, code, timeout=6)  # less than a question to the warden may take
        finally:
            os.kill(s.process.pid, signal.SIGCONT)
        equal((answer.status, answer.json()["result"]), (200, "2"))


@check
def what_is_announced_works_as_printed():
    with Folder() as data:
        process = subprocess.Popen([os.path.abspath(KRAIT), "serve", "--no-files", "--port", "0", "--preload", "basic",
                                    "--data",
                                    os.path.join(data, "data")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        try:
            said = "".join(process.stdout.readline() for _ in range(4))
            url = re.search(r"krait is ready: (http://127\.0\.0\.1:\d+)/\n", said).group(1)
            contains(said, url + "/docs")
            command = re.search(r"curl -s .*", said).group(0)
            contains(command, url)
            if not shutil.which("curl"):
                skip("curl is not installed")
            told = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, timeout=30, check=True).stdout
            equal(json.loads(told)["stdout"], "42\n")
        finally:
            process.terminate()
            equal(process.wait(20), 0)
            process.stdout.close()


# ---- stopping ------------------------------------------------------------------------------------


def stops(how) -> None:
    with Server(args=["--stop-timeout", "60s"]) as s:
        s.run("x = 1", session_id="idle")
        s.run("import subprocess; subprocess.Popen(['sleep', '1000'])", session_id="with a child")
        stream = begin(s, SLEEP % 4)
        whole = Meanwhile(s.post, RUNS, {"code": SLEEP % 4, "stream": False, "session_id": "other"})
        eventually(lambda: s.get("/api/v1/sessions/other").status == 200
                   and s.get("/api/v1/sessions/other").json()["state"] == "running")
        traces = Traces(s)
        assert len(traces.pids) > 6, traces.pids
        began = time.monotonic()
        how(s)
        lines = stream.rest()
        equal((lines[-1]["cause"], "".join(line["text"] for line in lines if line["type"] == "stdout")),
              ("ok", "done\n"))
        equal(whole.end().json()["cause"], "ok")
        equal(s.process.wait(60), 0, "exit status")
        took = time.monotonic() - began
        assert 1 < took < 40, "it took %.1f s" % took
        eventually(lambda: not traces.left(), 20, "nothing is left: %s" % traces.left())
        contains(s.log_text(), 'msg="stopping"')
        assert "level=error" not in s.log_text(), s.log_text()[-2000:]


@check
def sigterm_lets_runs_end_and_leaves_nothing():
    stops(lambda s: s.process.send_signal(signal.SIGTERM))


@check
def sigint_is_the_same():
    stops(lambda s: s.process.send_signal(signal.SIGINT))


@check
def ctrl_c_leaves_nothing():
    """On a terminal, which sends the signal to warden and server alike: a run is still given its time."""
    with Folder() as data:
        s = Server(data=data)
        s.process, terminal = on_terminal([os.path.abspath(KRAIT), "serve", "--no-files", "--port", "0",
                                           "--preload", "basic", "--data", os.path.join(data, "data")])
        try:
            said = b""
            while not (found := re.search(rb"krait is ready: http://127\.0\.0\.1:(\d+)/", said)):
                said += os.read(terminal, 65536)
            s.port = int(found.group(1))
            stream = begin(s, SLEEP % 1)
            traces = Traces(s)
            os.write(terminal, b"\x03")
            equal(stream.rest()[-1]["cause"], "ok")
            drain = Meanwhile(read_to_end, terminal)
            equal(s.process.wait(15), 0)
            eventually(lambda: not traces.left(), 20, "nothing is left")
            drain.end(5)
        finally:
            s.process.kill()
            s.process.wait()
            os.close(terminal)


def on_terminal(argv: list) -> tuple:
    """A process that has a terminal of its own; the terminal's other side."""
    master, slave = os.openpty()

    def take() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    env = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "ASAN_OPTIONS", "UBSAN_OPTIONS")}
    process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, preexec_fn=take,
                               env=env)
    os.close(slave)
    return process, master


def read_to_end(fd: int) -> None:
    try:
        while os.read(fd, 65536):
            pass
    except OSError:  # a terminal without its other side
        pass


@check
def a_run_past_the_time_to_stop_is_cancelled():
    with Folder() as data:
        with Server(args=["--stop-timeout", "1s"], data=data) as s:
            stream = begin(s, SLEEP % 60)
            waits = Stream(s, "POST", RUNS, {"code": "1"})
            equal(waits.line()["type"], "queued")
            traces = Traces(s)
            began = time.monotonic()
            s.process.send_signal(signal.SIGTERM)
            equal(stream.rest()[-1]["cause"], "cancelled")
            equal(waits.rest()[-1]["cause"], "cancelled")
            equal(s.process.wait(40), 0)
            assert 0.8 < time.monotonic() - began < 40, time.monotonic() - began  # it sleeps for 60
            eventually(lambda: not traces.left(), 20, "nothing is left")
        with Server(data=data) as s:
            equal(s.get("%s/%s" % (RUNS, stream.id)).json()["cause"], "cancelled")


@check
def a_second_signal_does_not_wait():
    with Server(args=["--stop-timeout", "60s"]) as s:
        stream = begin(s, SLEEP % 60)
        traces = Traces(s)
        s.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        equal(s.process.poll(), None)
        began = time.monotonic()
        s.process.send_signal(signal.SIGTERM)
        s.process.wait(40)
        assert time.monotonic() - began < 40  # it sleeps for 60
        stream.cut()
        eventually(lambda: not traces.left(), 20, "nothing is left")


@check
def sighup_begins_a_new_log_file_and_ends_nothing():
    with Folder() as data:
        folder = os.path.join(data, "log")
        with Server(args=["--log-dir", folder], data=data) as s:
            s.run("x = 1")
            os.rename(os.path.join(folder, "krait.log"), os.path.join(folder, "old.log"))
            s.process.send_signal(signal.SIGHUP)
            eventually(lambda: os.path.exists(os.path.join(folder, "krait.log")), 5, "a new file")
            one = s.run("x")
            equal((one["result"], one["session_restarted"]), ("1", False))
            with open(os.path.join(folder, "krait.log")) as new, open(os.path.join(folder, "old.log")) as old:
                contains(new.read(), one["run_id"])
                assert one["run_id"] not in old.read()


@check
def while_it_stops_nothing_new_is_taken():
    with Server(args=["--stop-timeout", "60s"]) as s:
        stream = begin(s, SLEEP % 8)
        held = s.connect()
        held.connect()
        s.process.send_signal(signal.SIGTERM)
        eventually(lambda: 'msg="stopping"' in s.log_text())
        held.request("GET", "/ready")  # on a connection that was idle
        reply = held.getresponse()
        equal((reply.status, json.loads(reply.read())["status"], reply.getheader("Connection")),
              (503, "stopping", "close"))
        for _ in range(2):  # and on new ones, for as long as a run has its time
            told = s.get("/ready")
            equal((told.status, told.json()["status"], told.header("retry-after")), (503, "stopping", "1"))
        equal(s.get("/health").status, 200)
        late = s.post(RUNS, {"code": "1", "stream": False})
        equal((late.status, late.json()["error"]["message"], late.header("retry-after")),
              (503, "krait is stopping", "1"))
        equal(s.get("%s/%s" % (RUNS, stream.id)).status, 200, "what is there can be read")
        equal(stream.rest()[-1]["cause"], "ok")
        equal(s.process.wait(30), 0)


@check
def a_session_in_the_making_is_refused_with_the_reason():
    """Its zygote is held, so that it is not made when the stop comes. What was asked for it is told, and no mishap is
    logged."""
    with Server(args=["--pool-size", "0", "--stop-timeout", "5s"]) as s:
        equal(s.run("6 * 7", fresh=True)["result"], "42")
        zygotes = roles(s.process.pid)["zygote"]
        told = []
        asks = threading.Thread(target=lambda: told.append(s.post(RUNS, {"code": "1", "stream": False, "fresh": True})))
        for pid in zygotes:
            os.kill(pid, signal.SIGSTOP)
        try:
            asks.start()
            time.sleep(0.5)
            equal(told, [])
            for _ in range(3):  # the third does not wait for it
                s.process.send_signal(signal.SIGTERM)
                time.sleep(0.2)
            asks.join(10)
        finally:
            for pid in zygotes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        equal(s.process.wait(15), 0)
        equal((told[0].status, told[0].json()["error"]["message"]), (503, "krait is stopping"))
        assert "level=error" not in s.log_text(), s.log_text()


# ---- again ---------------------------------------------------------------------------------------

KEY = "root-key-0123456789abcdef"


def fill(s: Server) -> dict:
    """Puts something of every lasting kind into a server."""
    had = {"box": s.post("/api/v1/sandboxes", {"name": "lasting", "limits": {"memory": "128M", "timeout": 77},
                                               "network": "loopback", "env": {"A": "of the sandbox"}}).json()}
    had["run"] = s.run("import os\nos.makedirs('deep/er')\nopen('deep/er/\u56fe.txt', 'w').write('kept')\nx = 1\n"
                       "print(x)", sandbox_id="lasting")
    s.run("import os; os.chmod('deep/er', 0o700); os.symlink('er', 'deep/link')", sandbox_id="lasting")
    equal(s.put("/api/v1/sandboxes/default/files/up.bin", bytes(range(256)) * 100).status, 201)
    had["lines"] = s.get("%s/%s/events" % (RUNS, had["run"]["run_id"])).lines()
    had["user"] = s.post("/api/v1/users", {"name": "ada", "rights": ["read", "run"]}).json()
    had["key"] = s.post("/api/v1/keys", {"user": had["user"]["id"], "name": "k"}).json()
    had["theirs"] = s.run("open('mine', 'w').write('ada')", key=had["key"]["key"])
    return had


def must_be_there(s: Server, had: dict) -> None:
    box = s.get("/api/v1/sandboxes/lasting").json()
    same = ("id", "name", "created_at", "limits", "network", "env", "settings")
    equal({name: box.get(name) for name in same}, {name: had["box"].get(name) for name in same})
    equal((box["limits"]["memory"], box["limits"]["timeout"]), (128 << 20, 77))
    equal(s.get("%s/%s/events" % (RUNS, had["run"]["run_id"])).lines(), had["lines"])
    one = s.run("import os; print(open('deep/link/\u56fe.txt').read(), 'x' in globals(), os.environ['A'])",
                sandbox_id="lasting")
    equal((one["stdout"], one["session_restarted"]), ("kept False of the sandbox\n", True))
    equal(s.run("1", sandbox_id="lasting")["session_restarted"], False)
    equal(s.run("1", sandbox_id="lasting", session_id="new name")["session_restarted"], False)
    equal(s.get("/api/v1/sandboxes/default/files/up.bin").body, bytes(range(256)) * 100)
    equal(s.run("open('mine').read()", key=had["key"]["key"])["result"], "'ada'")


def again(data: str) -> Server:
    return Server(data=data, env={"API_KEY": KEY}, args=["--require-auth"], key=KEY)


@check
def a_restart_keeps_what_lasts_and_says_what_does_not():
    with Folder() as data:
        with again(data) as s:
            had = fill(s)
            equal(s.stop(), 0)
        with again(data) as s:
            must_be_there(s, had)


@check
def sigkill_keeps_what_lasts_and_says_what_does_not():
    with Folder() as data:
        s = again(data).start()
        had = fill(s)
        stream = begin(s, SLEEP % 60, session_id="unlucky")
        time.sleep(1.5)  # what a run has said is on disk within a second
        traces = Traces(s)
        os.kill(s.server_pid(), signal.SIGKILL)
        os.kill(s.process.pid, signal.SIGKILL)
        s.process.wait()
        eventually(lambda: not [one for one in traces.left() if one.startswith("process")], 20, "no process is left")
        s.process.stdout.close()
        with again(data) as s:
            equal(s.server_pid() in traces.pids, False)
            must_be_there(s, had)
            run = s.get("%s/%s" % (RUNS, stream.id)).json()
            equal((run["still_running"], run["cause"]), (False, "lost"))
            lines = s.get("%s/%s/events" % (RUNS, stream.id)).lines()
            equal([line["type"] for line in lines], ["started", "stdout", "end"])
            equal((lines[1]["text"], lines[2]["cause"]), ("begun\n", "lost"))
            equal(s.run("1", session_id="unlucky")["session_restarted"], True)
            clean = Traces(s)
            equal(s.stop(), 0)
            eventually(lambda: not clean.left() and not traces.left(), 20,
                       "the next start cleans up: %s" % traces.left())


@check
def zygote_that_is_killed_in_its_first_start_is_started_again():
    with Folder() as data:
        s = again(data)
        starting = threading.Thread(target=s.start)
        starting.start()
        eventually(lambda: s.process and roles(s.process.pid)["zygote"], 10, "a zygote is there")
        os.kill(roles(s.process.pid)["zygote"][0], signal.SIGKILL)
        starting.join()
        try:
            eventually(lambda: s.post(RUNS, {"code": "6 * 7", "stream": False}).json().get("result") == "42", 20,
                       "a run works")
            contains(s.log_text(), "state=ended generation=1")
        finally:
            equal(s.stop(), 0)


main()
