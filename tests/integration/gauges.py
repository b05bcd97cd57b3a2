#!/usr/bin/python3
"""What programs in a cell find out about their machine: its limits, its own use, and nothing of the host's."""
import ast
import json
import os
import re
import sys
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal, main, skip
from drive import Engine, Result, run_json

MIB = 1 << 20
SLOW_S = 300  # for a second of processor time, beside other work
COMMANDS = ("free -b", "top -b -n1", "ps aux", "uptime", "vmstat", "lscpu", "nproc", "nproc --all", "df /workspace",
            "mount", "cat /proc/mounts /proc/net/dev /proc/sys/kernel/osrelease /sys/devices/system/cpu/online")
ASK = """
import json, os, subprocess
told = {}
for command in %r:
    done = subprocess.run(command.split(), capture_output=True, text=True)
    told[command] = [done.returncode, done.stdout, done.stderr]
told["python"] = [os.cpu_count(), len(os.sched_getaffinity(0)), os.sysconf("SC_NPROCESSORS_ONLN")]
told["pages"] = [os.sysconf(n) * os.sysconf("SC_PAGESIZE") for n in ("SC_PHYS_PAGES", "SC_AVPHYS_PAGES")]
told["child"] = subprocess.run(["python3", "-c", "import os; print(os.cpu_count())"], capture_output=True, text=True,
                               env={"PATH": "/usr/bin"}).stdout
told["listed"] = sorted(n for n in os.listdir("/proc") if not n.isdigit())
print(json.dumps(told))
""" % (COMMANDS,)


def ask(*options: str) -> dict:
    report = run_json(*options, "-c", ASK)
    equal(report["cause"], "ok", report["stderr"])
    if not report["layers"]["gauges"]:
        skip("no cgroups here")
    told = json.loads(report["stdout"])
    wrong = {c: told[c] for c in COMMANDS if told[c][0] != 0 or told[c][2]}
    assert not wrong, wrong
    return told


@check
def programs_show_the_limits_of_the_cell():
    told = ask("--cpu", "2", "--memory", "512M")
    equal(int(told["free -b"][1].splitlines()[1].split()[1]), 512 * MIB)
    contains(told["top -b -n1"][1], "MiB Mem :    512.0 total")
    contains(told["top -b -n1"][1], "load average: ")
    equal(told["nproc"][1] + told["nproc --all"][1], "2\n2\n")
    assert re.search(r"^CPU\(s\): +2$", told["lscpu"][1], re.M), told["lscpu"]
    contains(told["cat /proc/mounts /proc/net/dev /proc/sys/kernel/osrelease /sys/devices/system/cpu/online"][1],
             os.uname().release + "\n0-1\n")
    equal((told["python"], told["child"]), ([2, min(2, len(os.sched_getaffinity(0))), 2], "2\n"))
    equal((told["pages"][0], told["pages"][1] <= 512 * MIB), (512 * MIB, True))
    equal(told["listed"], ["self", "thread-self"])
    # A process has not started before its machine, nor in the future.
    started = re.search(r"^user +\d+ +[\d.]+ +[\d.]+ .* (\d\d):(\d\d) +\d:\d\d /.*boot.py", told["ps aux"][1], re.M)
    assert started, told["ps aux"]
    now = time.gmtime()
    ago = (now.tm_hour * 60 + now.tm_min - int(started[1]) * 60 - int(started[2])) % (24 * 60)
    assert ago < 10, (started[0], now)


@check
def half_a_processor_is_shown_as_one():
    told = ask("--cpu", "0.5")
    equal((told["python"], told["child"], told["nproc"][1]), ([1, 1, 1], "1\n", "1\n"))
    contains(told["cat /proc/mounts /proc/net/dev /proc/sys/kernel/osrelease /sys/devices/system/cpu/online"][1], "\n0\n")


WATCH = """
import re, time
def read():
    cpu = [int(n) for n in open("/proc/stat").readline().split()[1:]]
    mem = {k: int(v) << 10 for k, v in re.findall(r"^(\\w+): +(\\d+) kB$", open("/proc/meminfo").read(), re.M)}
    return (cpu[0] + cpu[2]) / 100, mem["MemTotal"] - mem["MemFree"], float(open("/proc/uptime").read().split()[0])
def a_second_later():
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    before = time.process_time(), time.clock_gettime(time.CLOCK_BOOTTIME)
    start, late = time.monotonic(), 0
    while (passed := time.monotonic() - start) < 1 + 10 * late:
        time.sleep(0.05)
        late = max(late, time.monotonic() - start - passed - 0.05)
    return before, read()
"""
ROUNDING_S = 0.02  # /proc/stat counts hundredths, of user and system time each


def slow_run(engine: Engine, session: int, code: str) -> Result:
    return engine.result(engine.start(session, code, timeout=SLOW_S), SLOW_S)


@check
def use_follows_the_control_group():
    """What was true a second ago is in the files. On a loaded machine the warden is woken late, and so is the session: it
    waits longer by ten times what it saw of that."""
    with Engine() as engine:
        s = engine.open()
        first = slow_run(engine, s, WATCH + "data = b'x' * (150 << 20)\nprint([a_second_later() for turn in range(3)])")
        equal(first.cause, "ok", first.stderr)
        if not first.end["layers"]["gauges"]:
            skip("no cgroups here")
        for (spent, clock), (cpu, used, up) in ast.literal_eval(first.stdout):
            assert cpu >= spent - ROUNDING_S and used >= 150 * MIB and up >= clock - ROUNDING_S, first.stdout
        # The kernel's own count, read after the run; nothing is shown that was not used.
        assert cpu <= first.end["cpu_s"] + ROUNDING_S, (cpu, first.end["cpu_s"])
        assert used <= first.end["peak_memory_bytes"] + MIB, (used, first.end["peak_memory_bytes"])
        second = slow_run(engine, s, "del data\nprint(a_second_later())")
        (spent, clock), (cpu, used, up) = ast.literal_eval(second.stdout)
        assert cpu >= spent - ROUNDING_S and 0 < used < 150 * MIB and up >= clock - ROUNDING_S, second.stdout
        # A cell with the same index has new files.
        engine.close(s)
        again = engine.open()
        fresh = engine.run(again, WATCH + "print(*read())")
        assert float(fresh.stdout.split()[0]) < 0.4 and float(fresh.stdout.split()[1]) < 100 * MIB, fresh.stdout


def wakes(pid: int) -> int:
    with open("/proc/%d/status" % pid) as file:
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", file.read(), re.M)[1])


@check
def an_idle_session_wakes_nothing():
    with Engine() as engine:
        s = engine.open()
        before = wakes(engine.process.pid)
        result = engine.run(s, "import time\ntime.sleep(2)")
        equal(result.cause, "ok", result.stderr)
        if not result.end["layers"]["gauges"]:
            skip("no cgroups here")
        assert wakes(engine.process.pid) - before >= 3, "control: the warden writes while a run lasts"
        deadline = time.monotonic() + 30
        while True:  # until it rests
            before = wakes(engine.process.pid)
            time.sleep(1.5)
            if wakes(engine.process.pid) == before:
                return
            assert time.monotonic() < deadline, "the warden goes on waking"


@check
def psutil_joblib_and_sklearn_work():
    report = run_json("--cpu", "2", "--timeout", "120", "-c", """
import json, math, psutil, time
from joblib import Parallel, cpu_count, delayed
me = psutil.Process()
print(json.dumps([psutil.virtual_memory().total, psutil.cpu_count(), cpu_count(), psutil.swap_memory().total,
                  psutil.cpu_times().idle >= 0, len(psutil.cpu_times(percpu=True)),
                  psutil.boot_time() <= me.create_time() <= time.time() + 0.02, me.pid in psutil.pids(),
                  list(psutil.net_io_counters(pernic=True)), max(psutil.getloadavg()) <= 2]))
print(Parallel(n_jobs=2)(delayed(math.sqrt)(i * i) for i in range(5)))
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier
found = GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2]}, n_jobs=-1, cv=3)
print(found.fit(*load_iris(return_X_y=True)).best_params_)
""")
    equal((report["cause"], report["stderr"]), ("ok", ""))
    if not report["layers"]["gauges"]:
        skip("no cgroups here")
    facts, roots, best = report["stdout"].splitlines()
    equal(json.loads(facts), [report["limits"]["memory"], 2, 2, 0, True, 2, True, True, ["lo"], True])
    equal((roots, best), ("[0.0, 1.0, 2.0, 3.0, 4.0]", "{'max_depth': 2}"))


if __name__ == "__main__":
    main()
