#!/usr/bin/python3
"""Every cause by its own means, as `krait run --json` tells it, and the limits that are hit and survived."""
import os
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal, main, skip
from drive import Engine, run_json


def ends(report, cause, exit_code, hits=()):
    equal((report["cause"], report["exit_code"]), (cause, exit_code),
          "%s %s" % (report["stderr"][-400:], report["message"]))
    equal(report["status"], exit_code)
    equal(report["limits_hit"], list(hits))


def layers():
    return run_json("-c", "pass")["layers"]


@check
def ok():
    report = run_json("-c", "x = 1\nprint('out')\nimport sys\nprint('err', file=sys.stderr)\nx + 1")
    ends(report, "ok", 0)
    equal((report["stdout"], report["stderr"], report["result"]), ("out\n", "err\n", "2"))
    equal((report["error"], report["truncated"], report["displays"], report["hint"], report["message"]),
          (None, False, [], None, None))
    assert 0 < report["wall_s"] < 20
    equal(report["limits"]["memory"], 1 << 30)


@check
def limits_are_told():
    limits = run_json("--memory", "128M", "--cpu", "0.5", "--timeout", "30s", "--processes", "20", "--disk", "10M",
                      "-c", "pass")["limits"]
    equal((limits["memory"], limits["cpu"], limits["timeout"], limits["processes"], limits["disk"]),
          (128 << 20, 0.5, 30, 20, 10 << 20))
    equal(run_json("-c", "pass")["limits"]["timeout"], None)


@check
def exception():
    report = run_json("-c", "def f():\n    raise ValueError('why')\nf()")
    ends(report, "exception", 1)
    equal((report["error"]["type"], report["error"]["message"], report["error"]["line"]), ("ValueError", "why", 2))
    contains(report["error"]["traceback"], "ValueError: why")
    contains(report["stderr"], "ValueError: why")
    ends(run_json("-c", "def"), "exception", 1)


@check
def exits():
    ends(run_json("-c", "import sys; sys.exit(3)"), "exit", 3)
    ends(run_json("-c", "import os; os._exit(4)"), "exit", 4)
    ends(run_json("-c", "import os; print('x', flush=True); os._exit(0)"), "exit", 0)


@check
def signals():
    ends(run_json("-c", "import os; os.abort()"), "signal", 134)
    ends(run_json("-c", "import ctypes; ctypes.string_at(0)"), "signal", 139)
    ends(run_json("-c", "import os; os.kill(os.getpid(), 9)"), "signal", 137)
    ends(run_json("-c", "import sys\nsys.setrecursionlimit(10**9)\nx = []\nfor _ in range(10**6): x = [x]\nrepr(x)"),
         "signal", 139)


@check
def limits_that_a_program_raises_itself():
    for statement in ("raise MemoryError", "raise OSError(28, 'x')", "raise OSError(27, 'x')",
                      "raise OSError(122, 'x')"):
        report = run_json("-c", "def f():\n    %s\nf()" % statement)
        ends(report, "exception", 1)
        assert "raised" not in report["error"], report["error"]
    report = run_json("--disk", "4M", "-c",
                      "try:\n    with open('/workspace/f', 'wb') as f:\n"
                      "        for _ in range(99): f.write(bytes(1 << 20))\nexcept OSError:\n    raise")
    ends(report, "disk_limit", 137, ["disk"])  # raised again, but first by the system


@check
def denied():
    report = run_json("-c", "import os, signal; os.kill(os.getpid(), signal.SIGSYS)")
    ends(report, "denied", 125)


@check
def timeout():
    report = run_json("--timeout", "500ms", "-c", "while True: pass")
    ends(report, "timeout", 124, ["timeout"])
    equal(report["error"]["type"], "KeyboardInterrupt")
    assert 0.5 <= report["wall_s"] < 10
    report = run_json("--timeout", "500ms", "--grace", "300ms", "-c",
                      "import time\nwhile True:\n    try:\n        time.sleep(1)\n    except BaseException: pass")
    ends(report, "timeout", 124, ["timeout"])
    contains(report["message"], "killed")


@check
def memory():
    for code in ("x = bytearray(1 << 30)", "x = []\nwhile True: x.append(' ' * 1000003)",
                 "x = 'x'\nwhile True: x += x"):
        ends(run_json("--memory", "128M", "-c", code), "memory_limit", 137, ["memory"])


@check
def memory_of_children_and_files():
    if not layers()["cgroup_memory"]:
        skip("no memory cgroup at this level")
    code = ("import os\nif os.fork() == 0:\n    import mmap\n    m = mmap.mmap(-1, 1 << 30)\n"
            "    for _ in range(1000): m.write(b'x' * (1 << 20))\n    os._exit(0)\nprint(os.wait()[1] & 127)")
    report = run_json("--memory", "128M", "-c", code)
    equal((report["cause"], report["stdout"]), ("ok", "9\n"), report["stderr"])
    equal(report["limits_hit"], ["memory"])
    report = run_json("--memory", "64M", "--disk", "1G", "--file-size", "1G", "-c",
                      "f = open('/tmp/x', 'wb')\nfor _ in range(500): f.write(b'x' * (1 << 20))")
    ends(report, "memory_limit", 137, ["memory"])
    assert report["peak_memory_bytes"] >= 60 << 20, report["peak_memory_bytes"]


@check
def a_caught_memory_error_is_ok():
    report = run_json("--memory", "128M", "-c",
                      "try:\n    bytearray(1 << 30)\nexcept MemoryError:\n    print('caught')")
    equal((report["cause"], report["stdout"]), ("ok", "caught\n"))


@check
def cpu_time():
    report = run_json("--cpu-time", "1s", "-c", "while True: pass")
    ends(report, "cpu_limit", 137, ["cpu_time"])
    assert report["wall_s"] < 20


@check
def disk():
    ends(run_json("--disk", "1M", "-c", "open('/workspace/x', 'wb').write(b'x' * 5000000)"), "disk_limit", 137,
         ["disk"])
    ends(run_json("--disk", "1M", "-c", "open('/tmp/x', 'wb').write(b'x' * 5000000)"), "disk_limit", 137, ["disk"])
    ends(run_json("--inodes", "50", "-c", "for i in range(100): open('/tmp/%d' % i, 'w')"), "disk_limit", 137,
         ["inodes"])
    ends(run_json("--file-size", "1M", "-c", "open('/tmp/x', 'wb').write(b'x' * 5000000)"), "disk_limit", 137,
         ["file_size"])
    report = run_json("--disk", "1M", "-c",
                      "try:\n    open('/tmp/x', 'wb').write(b'x' * 5000000)\nexcept OSError as e: print(e.errno)")
    equal((report["cause"], report["stdout"]), ("ok", "28\n"))


@check
def disk_of_a_host_folder():
    with tempfile.TemporaryDirectory(prefix="krait-ws-") as folder:
        os.chmod(folder, 0o755)
        code = ("import time\nf = open('/workspace/x', 'wb')\n"
                "for _ in range(40): f.write(b'x' * (1 << 20)); f.flush()\ntime.sleep(30)")
        report = run_json("--workspace", folder, "--disk", "10M", "-c", code)
        ends(report, "disk_limit", 137, ["disk"])
        with open(os.path.join(folder, "old"), "wb") as file:
            file.write(b"x" * (30 << 20))
        ends(run_json("--workspace", folder, "--disk", "10M", "-c", "import time; time.sleep(1)"), "ok", 0)


@check
def processes():
    code = "import os, time\nwhile True:\n    if os.fork() == 0:\n        time.sleep(60)\n        os._exit(0)"
    ends(run_json("--processes", "10", "-c", code), "process_limit", 137, ["processes"])
    code = ("import threading, time\nfor _ in range(100): threading.Thread(target=time.sleep, args=(30,), "
            "daemon=True).start()")
    ends(run_json("--processes", "10", "-c", code), "process_limit", 137, ["processes"])
    code = ("import os, time\nn = 0\ntry:\n    while True:\n        if os.fork() == 0:\n            time.sleep(60)\n"
            "            os._exit(0)\n        n += 1\nexcept BlockingIOError:\n    print(n)")
    report = run_json("--processes", "10", "-c", code)
    equal(report["cause"], "ok", report["stderr"])
    assert 5 <= int(report["stdout"]) <= 10, report["stdout"]
    if layers()["cgroup_pids"]:
        equal(report["limits_hit"], ["processes"])


@check
def an_eagain_that_is_no_limit():
    if not layers()["cgroup_pids"]:
        skip("no pids counter at this level")
    code = "import os\nr, w = os.pipe()\nos.set_blocking(r, False)\nos.read(r, 1)"
    ends(run_json("-c", code), "exception", 1)


@check
def output_limit():
    report = run_json("--output", "10K", "-c", "print('é' * 100000)")
    ends(report, "ok", 0, ["output"])
    equal((report["truncated"], report["output_bytes"]), (True, 200001))
    assert "\ufffd" not in report["stdout"]
    equal(report["stdout"].count("[output cut: "), 1)
    equal(report["stdout"].split("\n")[0], "é" * 5120)


@check
def utf8_is_never_torn():
    code = ("import os, time\nfor b in 'é€🐍'.encode():\n    os.write(1, bytes([b]))\n    time.sleep(0.02)\n"
            "os.write(1, b'\\n\\xff|\\xe2\\x82')")
    equal(run_json("-c", code)["stdout"], "é€🐍\n\ufffd|\ufffd")


@check
def closed_descriptors():
    equal(run_json("-c", "import os; os.close(1); os.close(2)")["cause"], "ok")
    report = run_json("-c", "import os; print('x', flush=True); os.close(0); os.close(1)")
    equal((report["cause"], report["stdout"]), ("ok", "x\n"))


@check
def forged_frames_decide_nothing():
    """Garbage on the channel's descriptor is `lost`, wherever it is; a flood of it harms no other session."""
    code = ("import os, stat\nfor fd in range(3, 20):\n    try:\n"
            "        if stat.S_ISSOCK(os.fstat(fd).st_mode): os.write(fd, b'\\xff' * 4096)\n"
            "    except OSError: pass\nimport time; time.sleep(5)")
    ends(run_json("-c", code), "lost", 125)
    with Engine() as engine:
        good = engine.open()
        bad = engine.open()
        engine.run(good, "x = 5")
        result = engine.run(bad, code)
        equal((result.cause, result.end["session_alive"]), ("lost", False))
        equal(engine.run(good, "x").end["result"], "5")


@check
def a_closed_channel_is_lost():
    code = ("import os, stat, time\nfor fd in range(3, 20):\n    try:\n"
            "        if stat.S_ISSOCK(os.fstat(fd).st_mode): os.close(fd)\n    except OSError: pass\ntime.sleep(30)")
    report = run_json("-c", code)
    ends(report, "lost", 125)
    assert report["wall_s"] < 15


@check
def stopped_by_itself():
    report = run_json("--timeout", "1s", "--grace", "500ms", "-c",
                      "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)")
    ends(report, "timeout", 124, ["timeout"])


@check
def a_fork_that_runs_past_the_end():
    code = ("import os\npid = os.fork()\nprint('child' if pid == 0 else 'parent', flush=True)\n"
            "if pid: os.waitpid(pid, 0)")
    report = run_json("-c", code)
    equal((report["cause"], sorted(report["stdout"].split())), ("ok", ["child", "parent"]))


main()
