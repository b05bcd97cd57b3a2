#!/usr/bin/python3
"""Settings of sessions, users, limits and sandboxes: two values each, and what differs."""
from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests/lib"), str(ROOT / "tests/escape")]
from check import check, contains, equal, skip, main  # noqa: E402
from krait_server import Server  # noqa: E402
from mcp import Http  # noqa: E402
from serving import Stream, eventually, kept  # noqa: E402
from two_values import BOXES, FILES, RUNS, SOON, plain, run, start, listed, only_root  # noqa: E402
from ways import WAYS  # noqa: E402


def bounded() -> Server:
    """Other values of what concerns sessions and users."""
    return kept(args=["--linger", "0", "--queue-max", "0", "--max-sandboxes-per-user", "1", "--max-disk-per-user", "1M",
                      "--pool-size", "0", "--network", "loopback"])


def narrow() -> Server:
    """Small limits."""
    return kept(args=["--memory", "96M", "--disk", "1M", "--inodes", "64", "--file-size", "256K", "--output", "2K",
                      "--processes", "8", "--open-files", "32"])


def short() -> Server:
    """Short limits of time."""
    return kept(args=["--timeout", "1s", "--cpu-time", "1s", "--grace", "50ms"])


# ---- sessions --------------------------------------------------------------------------------------------------------


@check
def max_sessions():
    for bound, left in (("1", {"b"}), ("2", {"a", "b"})):
        with Server(args=["--max-sessions", bound]) as s:
            for name in "ab":
                s.run("1", session_id=name)
            equal(listed(s), left)


@check
def total_memory():
    only_root()
    code = "x = bytearray(b'x') * (200 << 20)\nprint(len(x))"
    equal(run(plain(), code)["cause"], "ok")
    with Server(args=["--total-memory", "128M", "--pool-size", "0"]) as s:
        told = run(s, code)
        equal((told["cause"], "short of memory" in str(told["message"])), ("lost", True), told)
        equal(run(s, "print(1)")["cause"], "ok", "a small one beside it")


@check
def total_processes():
    only_root()
    code = "import os, time\nfor _ in range(20):\n    if os.fork() == 0: time.sleep(5); os._exit(0)\nprint('all')"
    equal(run(plain(), code)["cause"], "ok")
    with Server(args=["--total-processes", "16", "--pool-size", "0"]) as s:
        equal(run(s, code)["cause"] != "ok", True)
        equal(run(s, "print(1)")["cause"], "ok", "a small one beside it")


@check
def idle_timeout():
    with Server(args=["--idle-timeout", "1s", "--cleanup-interval", "100ms"]) as s:
        s.run("1", session_id="idle")
        eventually(lambda: not listed(s), SOON)
    with Server(args=["--idle-timeout", "1h", "--cleanup-interval", "100ms"]) as s:
        s.run("1", session_id="idle")
        time.sleep(2)
        equal(listed(s), {"idle"})


@check
def cleanup_interval():
    with Server(args=["--idle-timeout", "1s", "--cleanup-interval", "1h"]) as s:
        s.run("1", session_id="idle")
        time.sleep(2.5)
        equal(listed(s), {"idle"}, "idle for long enough, and not looked at")


def second_run(s: Server) -> int:
    """The status of a run in a session that has one."""
    with Stream(s, "POST", RUNS,
                {"code": "import time\nprint(1, flush=True)\ntime.sleep(1)", "session_id": "one"}) as first:
        first.until("stdout")
        status = s.post(RUNS, {"code": "2", "session_id": "one", "stream": False}).status
        first.rest()
        return status


@check
def queue_max():
    equal(second_run(plain()), 200)
    equal(second_run(bounded()), 429)


@check
def queue_wait():
    for wait, status in (("0", 503), ("60s", 200)):
        with Server(args=["--max-sessions", "1", "--queue-wait", wait]) as s:
            with Stream(s, "POST", RUNS,
                        {"code": "import time\nprint(1, flush=True)\ntime.sleep(1)", "session_id": "a"}) as first:
                first.until("stdout")
                equal(s.post(RUNS, {"code": "2", "session_id": "b", "stream": False}).status, status, wait)


@check
def linger():
    def left_alone(s: Server) -> str:
        with Stream(s, "POST", RUNS,
                    {"code": "import time\nprint(1, flush=True)\ntime.sleep(1.5)", "session_id": "left"}) as stream:
            run = stream.until("stdout")[0]["run_id"]
        return eventually(lambda: s.get("%s/%s" % (RUNS, run)).json().get("cause"), SOON)

    equal(left_alone(plain()), "ok")
    equal(left_alone(bounded()), "cancelled")


def figure(s: Server, name: str) -> float:
    return max(float(line.split()[-1]) for line in s.get("/metrics").text.splitlines() if line.startswith(name))


def pool(s: Server) -> float:
    return figure(s, "krait_pool_parked{")


def still() -> Server:
    """Its pool does not grow."""
    return kept(args=["--preload", "basic", "--pool-size", "2", "--pool-max", "0"])


@check
def pool_size():
    eventually(lambda: pool(still()) == 2, SOON)
    equal(pool(bounded()), 0)


def rush(s: Server) -> float:
    """Eight new sessions at once: how many of them lay ready."""
    before = figure(s, 'krait_sessions_opened_total{how="pool"}')
    streams = [Stream(s, "POST", RUNS, {"code": "print(1, flush=True)\nimport time\ntime.sleep(3)", "fresh": True})
               for _ in range(8)]
    for stream in streams:
        with stream:
            stream.until("stdout")
    return figure(s, 'krait_sessions_opened_total{how="pool"}') - before


@check
def pool_max():
    with Server(args=["--preload", "basic", "--pool-size", "2", "--pool-max", "6"]) as s:
        eventually(lambda: pool(s) == 2, SOON)
        assert rush(s) <= 4, "the first eight were not expected"
        rush(s)
        eventually(lambda: pool(s) == 6, SOON)  # and no more
        equal(figure(s, "krait_pool_size{"), 6)
        assert rush(s) >= 6, "six lay ready"
        equal(figure(s, "krait_pool_size{"), 6)
    for _ in range(2):
        eventually(lambda: pool(still()) == 2, SOON)
        rush(still())
        equal(figure(still(), "krait_pool_size{"), 2)


# ---- users -----------------------------------------------------------------------------------------------------------


@check
def max_sessions_per_user():
    def statuses(s: Server) -> list:
        with Stream(s, "POST", RUNS,
                    {"code": "import time\nprint(1, flush=True)\ntime.sleep(1)", "session_id": "a"}) as first:
            first.until("stdout")
            return [s.post(RUNS, {"code": "2", "session_id": "b", "stream": False}).status]

    for bound, expected in (("0", [200]), ("1", [503])):
        with Server(args=["--max-sessions-per-user", bound, "--queue-wait", "0"]) as s:
            equal(statuses(s), expected, bound)


@check
def max_memory_per_user():
    only_root()
    code = "x = bytearray(b'x') * (200 << 20)\nprint(len(x))"
    equal(run(plain(), code)["cause"], "ok")
    with Server(args=["--max-memory-per-user", "128M"]) as s:
        told = run(s, code)
        equal((told["cause"], "short of memory" in str(told["message"])), ("lost", True), told)
        equal(run(s, "print(1)")["cause"], "ok", "a small one beside it")


@check
def max_processes_per_user():
    only_root()
    code = "import os, time\nfor _ in range(20):\n    if os.fork() == 0: time.sleep(5); os._exit(0)\nprint('all')"
    equal(run(plain(), code)["cause"], "ok")
    with Server(args=["--max-processes-per-user", "8"]) as s:
        equal(run(s, code)["cause"] != "ok", True)
        equal(run(s, "print(1)")["cause"], "ok", "a small one beside it")


@check
def max_sandboxes_per_user():
    def statuses(s: Server) -> list:
        return [s.post(BOXES, {"name": "box-%d" % i}).status for i in range(3)]

    equal(statuses(plain()), [201, 201, 201])
    contains(statuses(bounded()), 429)


@check
def max_templates_per_user():
    for bound, last in (("0", 201), ("1", 429)):
        with Server(args=["--max-templates-per-user", bound]) as s:
            equal([s.post("/api/v1/templates", {"sandbox_id": "default"}).status for _ in range(2)][-1], last)


# ---- terminals -------------------------------------------------------------------------------------------------------


def two_terminals(s: Server) -> int:
    """The status of the second."""
    return [s.post("/api/v1/terminals", {"command": ["cat"]}).status for _ in range(2)][-1]


def bounds_terminals(option: str) -> None:
    for bound, last in (("0", 201), ("1", 429)):
        with Server(args=[option, bound]) as s:
            equal(two_terminals(s), last, bound)


@check
def max_terminals():
    bounds_terminals("--max-terminals")


@check
def max_terminals_per_user():
    bounds_terminals("--max-terminals-per-user")


@check
def max_terminals_per_sandbox():
    bounds_terminals("--max-terminals-per-sandbox")


@check
def terminal_idle_timeout():
    def running(s: Server, one: dict) -> bool:
        return s.get("/api/v1/terminals/" + one["terminal_id"]).json()["running"]

    asked = {"command": ["cat"]}
    stays = plain().post("/api/v1/terminals", asked).json()
    with Server(args=["--terminal-idle-timeout", "1s"]) as s:
        one = s.post("/api/v1/terminals", asked).json()
        eventually(lambda: not running(s, one), SOON, "the end of a terminal that idles")
    equal(running(plain(), stays), True)


@check
def runs_per_minute():
    for bound, last in (("0", 200), ("2", 429)):
        with Server(args=["--runs-per-minute", bound]) as s:
            equal([s.post(RUNS, {"code": "1", "stream": False}).status for _ in range(3)][-1], last)


@check
def max_disk_per_user():
    for s, status in ((plain(), 201), (bounded(), 507)):
        equal(s.put(FILES + "/two-megabytes", b"x" * (2 << 20)).status, status)


# ---- limits ----------------------------------------------------------------------------------------------------------


def differ(code: str, seen: Callable, of_plain: Any, of_other: Any, other: Callable = narrow, **more: Any) -> None:
    equal(seen(run(plain(), code, **more)), of_plain, "with the default")
    equal(seen(run(other(), code, **more)), of_other, "with the other value")


def cause(one: dict) -> str:
    return one["cause"]


def kind(one: dict) -> Any:
    return one["error"]["type"] if one["error"] else None


@check
def memory():
    differ("len(bytearray(200 << 20))", kind, None, "MemoryError")


@check
def disk():
    differ("for i in range(8):\n    open('/tmp/%d' % i, 'wb').write(bytes(200_000))", cause, "ok", "disk_limit")


@check
def inodes():
    differ("for i in range(200):\n    open('/tmp/%d' % i, 'w').close()", cause, "ok", "disk_limit")


@check
def file_size():
    differ("open('/tmp/x', 'wb').write(bytes(300_000))", cause, "ok", "disk_limit")


@check
def output():
    differ("print('x' * 5000)", lambda one: len(one["stdout"]) > 5000, True, False)


@check
def processes():
    differ("import threading, time\nfor i in range(20):\n    threading.Thread(target=time.sleep, args=(1,)).start()",
           cause, "ok", "process_limit")


@check
def open_files():
    differ("held = [open('/dev/null') for i in range(60)]", kind, None, "OSError")


@check
def timeout():
    differ("import time\ntime.sleep(2)", cause, "ok", "timeout", short)


@check
def cpu_time():
    differ("import time\nwhile time.process_time() < 2: pass", cause, "ok", "cpu_limit", short, timeout=40)


@check
def grace():
    code = "import time\ntry:\n    time.sleep(60)\nexcept BaseException:\n    time.sleep(0.7)\n    print('cleaned')"
    differ(code, lambda one: "cleaned" in one["stdout"], True, False, short, timeout=0.5)


@check
def cpu():
    only_root()
    code = "import time\nbegun, used = time.monotonic(), time.process_time()\n" \
           "while time.process_time() - used < 0.3: pass\ntime.monotonic() - begun"
    with Server(args=["--cpu", "0.1"]) as s:
        slow = float(run(s, code)["result"])
    assert slow > 2, slow
    quick = min(float(run(plain(), code)["result"]) for _ in range(3))
    assert quick < slow / 1.5, (quick, slow)


BURN = "import subprocess, sys\nleft = subprocess.Popen([sys.executable, '-c', 'while True: pass'])"


@check
def background_cpu():
    only_root()
    told = {}

    def frozen(server: Server) -> int:
        return server.log_text().count("session frozen, its background_cpu is used up")

    with Server(args=["--background-cpu", "300ms"]) as s:
        for name, one in (("default", plain()), ("300ms", s)):
            one.run(BURN, session_id="burns")
            if one is s:  # what is left has the lowest weight, and next to nothing on a busy machine
                eventually(lambda: frozen(s) == 1, 120, "a frozen session")
            else:
                time.sleep(2)
            told[name] = [one.run("1", session_id="burns")["session_frozen"] for _ in range(2)]
            one.delete("/api/v1/sessions/burns")
        s.run(BURN, session_id="burns")
        eventually(lambda: frozen(s) == 2, 120, "the second frozen session")
        contains(s.run("1", session_id="burns")["session_notice"], "background_cpu of 300 ms was used up")
    equal(told, {"default": [False, False], "300ms": [True, False]})


@check
def background_of_a_sandbox():
    """What a run leaves is kept, frozen or ended, as its sandbox says."""
    only_root()
    ticks = "open('/proc/%d/stat' % left.pid).read().rsplit(')', 1)[1].split()[11]"
    for word, alive, moves in (("keep", "None", True), ("freeze", "None", False), ("end", "-9", False)):
        made = plain().post(BOXES, {"name": "leaves-" + word, "background": word})
        equal((made.status, made.json()["background"]), (201, word), made.text)
        first = plain().run(BURN, sandbox_id="leaves-" + word, session_id="burns")
        equal((first["message"], first["background"]),
              ("1 process that the run left behind was ended", 0) if word == "end"
              else ("1 process still runs in the background", 1))
        for _ in range(90 if moves else 1):
            time.sleep(1)
            second = plain().run("print(left.poll(), %s)" % (ticks if word != "end" else "0"),
                                 sandbox_id="leaves-" + word, session_id="burns")
            polled, used = second["stdout"].split()
            if int(used) > 20:
                break
        equal((polled, int(used) > 20, second["session_frozen"]), (alive, moves, False), word)
        plain().delete("%s/leaves-%s" % (BOXES, word))
    reply = plain().post(BOXES, {"name": "odd", "background": "stop"})
    equal(reply.status, 400, reply.text)


ASKED = {"memory": "256M", "disk": "2M", "inodes": 200, "file_size": "2M", "output": "8K", "cpu": 1, "cpu_time": 20,
         "timeout": 10, "grace": 2, "processes": 32, "open_files": 128, "background_cpu": 120}


@check
def ceilings():
    """Each ceiling: a sandbox may ask for so much under the default, and may not under half of it."""
    with Server(args=["--max-memory", "128M", "--max-disk", "1M", "--max-inodes", "100", "--max-file-size", "1M",
                      "--max-output", "4K",
                      "--max-cpu", "0.5", "--max-cpu-time", "10s", "--max-timeout", "5s", "--max-grace", "1s",
                      "--max-processes", "16", "--max-open-files", "64", "--max-background-cpu", "1m"]) as s:
        for limit, value in ASKED.items():
            body = {"name": "asks-" + limit.replace("_", "-"), "limits": {limit: value}}
            equal(plain().post(BOXES, body).status, 201, limit)
            reply = s.post(BOXES, body)
            equal((reply.status, reply.json()["error"]["field"]), (400, "limits." + limit), reply.text)


# ---- sandboxes -------------------------------------------------------------------------------------------------------


@check
def python():
    with tempfile.TemporaryDirectory(prefix="krait-test-") as folder:
        os.chmod(folder, 0o755)
        done = start("--no-files", "--port", "0", "--data", folder + "/data", "--python", "/usr/bin/python3.nowhere")
        contains(done.stderr.decode(), "/usr/bin/python3.nowhere")
        assert done.returncode != 0
    equal(run(plain(), "1 + 1")["result"], "2")


@check
def preload():
    def has_numpy(s: Server) -> str:
        return run(s, "import sys\n'numpy' in sys.modules")["result"]

    if subprocess.run(["/usr/bin/python3", "-c", "import numpy"], capture_output=True).returncode:
        skip("numpy is not installed")
    equal(has_numpy(plain()), "False")
    with Server(preload="basic,data") as s:
        equal(has_numpy(s), "True")


@check
def network():
    code = ("import socket\ns = socket.create_server(('127.0.0.1', 0))\n"
            "socket.create_connection(s.getsockname()).close()")
    equal((run(plain(), code)["cause"], run(bounded(), code)["cause"]), ("exception", "ok"))


@check
def max_network():
    def ask(s: Server, network: str) -> tuple[int, str]:
        reply = s.post(BOXES, {"network": network})
        return reply.status, (reply.json().get("error") or {}).get("message", "")

    equal(ask(plain(), "loopback"), (201, ""))
    with Server(args=["--max-network", "none"]) as s:
        status, message = ask(s, "loopback")
        equal(status, 400)
        contains(message, "max_network is none")
        equal(ask(s, "none"), (201, ""))
        equal(s.get("/api/v1/info").json()["networks"], ["none"])
    status, message = ask(plain(), "open")
    equal(status, 400)
    contains(message, "the server's max_network is index")


def level_of(s: Server) -> str:
    return s.get("/api/v1/info").json()["isolation"]["level"]


@check
def level():
    only_root()
    equal(level_of(plain()), "root")
    with Server(args=["--level", "contained"]) as s:
        equal(level_of(s), "contained")


@check
def allow_contained():
    way = WAYS["contained"]
    if why := way.cannot():
        skip(why)
    with tempfile.TemporaryDirectory(prefix="krait-test-") as folder:
        os.chmod(folder, 0o777)
        done = start("--no-files", "--port", "0", "--data", folder + "/data", wrap=way.wrap([]))
        assert done.returncode != 0 and b"namespace" in done.stderr, done
        with Server(args=["--allow-contained"], wrap=way.wrap([]), data=folder) as s:
            equal(level_of(s), "contained")


@check
def mounts():
    with tempfile.TemporaryDirectory(prefix="krait-test-") as data:
        os.chmod(data, 0o755)
        with Server(args=["--mounts", "census=" + data]) as s:
            equal(s.post(BOXES, {"name": "with", "mounts": ["census"]}).status, 201)
    equal(plain().post(BOXES, {"name": "with", "mounts": ["census"]}).status, 400)


@check
def upload_roots():
    with tempfile.TemporaryDirectory(prefix="krait-test-") as folder:
        os.chmod(folder, 0o755)
        Path(folder, "table.csv").write_text("a,b\n")
        for args, refused in (([], True), (["--upload-roots", folder], False)):
            with Server(args=args, validate=False) as s, Http(s.port) as c:
                equal(bool(c.tool("upload_file_to_sandbox", {"local_file_path": folder + "/table.csv"}).get("isError")),
                      refused)


main()
