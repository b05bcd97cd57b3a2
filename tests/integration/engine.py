#!/usr/bin/python3
"""krait-engine as a whole: its protocol, the pool, zygotes that are replaced, its end."""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal, main, skip
from drive import KRAIT_ENGINE, Engine, children
from processes import depth_of, started_at


def parked(count: int):
    return lambda info: info["pool"]["basic"]["parked"] == count


def alive(pid: int) -> bool:
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@check
def info_and_wrong_requests():
    with Engine() as engine:
        engine.open()
        info = engine.ask("info")
        equal((info["event"], info["sessions"], info["zygotes"][0]["state"]), ("info", 1, "ready"))
        contains(info["hello"]["layers"], "landlock")
        for fields, word in ((dict(op="fly"), "fly"), (dict(op="run", session=99, code="1"), "session"),
                             (dict(op="open", preload="data"), "data"),
                             (dict(op="open", limits={"memory": "1Q"}), "--memory"),
                             (dict(op="open", limits={"nope": 1}), "nope"),
                             (dict(op="open", network="wifi"), "network"), (dict(op="open", workspace=3), "workspace"),
                             (dict(op="open", env={"A": 1}), "env"), (dict(op="close", session="x"), "session")):
            answer = engine.ask(**fields)
            equal(answer["event"], "error", str(fields))
            contains(answer["message"], word)
        engine.process.stdin.write(b"this is no JSON\n[1]\n{\"op\":\"info\"}\n\n")
        engine.process.stdin.flush()
        engine.until(lambda _: sum(1 for e in engine.unasked if e["event"] == "error") == 3)
        equal(engine.stop(), 0)


@check
def end_of_input_ends_everything():
    with Engine("--pool", "1") as engine:
        s = engine.open()
        engine.start(s, "while True: pass")
        time.sleep(0.3)
        before = [pid for pid, _ in children(engine.process.pid)]
        assert before
        equal(engine.stop(), 0)
    time.sleep(1)
    equal([pid for pid in before if alive(pid)], [])


@check
def killed_engine_leaves_nothing():
    """The whole program killed with SIGKILL: cells are gone within a second or so."""
    with Engine("--pool", "1") as engine:
        s = engine.open()
        engine.start(s, "import subprocess, time; subprocess.Popen(['sleep', '60']); time.sleep(60)")
        time.sleep(0.5)
        before = [pid for pid, _ in children(engine.process.pid)]
        engine.process.kill()
        engine.process.wait()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and any(alive(pid) for pid in before):
            time.sleep(0.05)
        equal([pid for pid in before if alive(pid)], [])


@check
def workspace_folder_and_env():
    import tempfile

    with tempfile.TemporaryDirectory(prefix="krait-ws-") as folder:
        os.chmod(folder, 0o755)
        with Engine("--workspace", folder, "--pool", "1") as engine:
            engine.until(parked(1))
            for pooled in (False, True):
                s = engine.open(workspace=0, pooled=pooled, env={"NAME": "value"})
                result = engine.run(s, "import os\nopen('f%d', 'w').write('x')\nprint(os.environ['NAME'], os.getcwd())"
                                    % pooled)
                equal((result.cause, result.stdout), ("ok", "value /workspace\n"), str(result.end["error"]))
                engine.close(s)
        equal(sorted(os.listdir(folder)), ["f0", "f1"])


@check
def pool_hands_over():
    with Engine("--pool", "2") as engine:
        engine.until(parked(2))
        equal(engine.ask("info")["sessions"], 0)
        a = engine.open(pooled=True, limits={"memory": "64M", "disk": "1M"})
        result = engine.run(a, "x = 1\nprint('pooled')")
        equal((result.stdout, result.end["variables"], result.end["limits"]["memory"]), ("pooled\n", ["x"], 64 << 20))
        equal(engine.run(a, "y = bytearray(1 << 28)").cause, "memory_limit")
        equal(engine.run(a, "open('/tmp/x', 'wb').write(b'x' * 3000000)").cause, "disk_limit")
        equal(engine.run(a, "sorted(n for n in globals() if not n.startswith('_'))").end["result"], "['x']")
        engine.until(parked(2))
        sessions = [engine.open(pooled=True) for _ in range(6)]  # more than are parked
        equal([engine.run(s, "%d * 2" % s).end["result"] for s in sessions], ["%d" % (s * 2) for s in sessions])
        engine.until(parked(2))


@check
def pooled_sessions_differ():
    with Engine("--pool", "2") as engine:
        engine.until(parked(2))
        code = "import random, uuid, os; print(random.random(), uuid.uuid4(), os.urandom(8).hex())"
        seen = set()
        for _ in range(4):
            seen.update(engine.run(engine.open(pooled=True), code).stdout.split())
        equal(len(seen), 12)


@check
def zygotes_are_rotated():
    with Engine("--rotate", "3", "--pool", "1") as engine:
        old = engine.open()
        engine.run(old, "x = 'old'")
        for _ in range(6):
            s = engine.open()
            equal(engine.run(s, "1").end["result"], "1")
            engine.close(s)
        engine.wait(lambda e: e["event"] == "zygote" and e["state"] == "ready" and e["generation"] >= 2)
        equal(engine.run(old, "x").end["result"], "'old'")  # a session outlives its retired zygote's service
        result = engine.run(old, "import os; os._exit(3)")
        equal((result.cause, result.end["exit_code"]), ("exit", 3))  # and its status is still known
        engine.until(parked(1))


def kill_the_young(engine: Engine, old: int, over: threading.Event, killed: list) -> None:
    """Zygotes that start, as long as the old one is there: one that was ready before it was seen has replaced it."""
    while not over.wait(0.002) and alive(old):
        for pid, command in children(engine.process.pid):
            if pid != old and "boot.py" in command and depth_of(pid) == 2:  # sessions are a namespace further in
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)


def rotates_in_vain(engine: Engine) -> bool:
    """Runs sessions while every younger zygote is killed. False: one was ready before it was seen."""
    engine.close(engine.open())  # it is there
    (old,) = [pid for pid, command in children(engine.process.pid) if "boot.py" in command and depth_of(pid) == 2]
    over, killed = threading.Event(), []
    killer = threading.Thread(target=kill_the_young, args=(engine, old, over, killed))
    killer.start()
    begun = time.monotonic()
    try:
        while alive(old) and (time.monotonic() < begun + 3 or (not killed and time.monotonic() < begun + 60)):
            s = engine.open()
            equal(engine.run(s, "6 * 7").end["result"], "42")
            engine.close(s)
    except Exception:
        if alive(old):
            raise
    finally:
        over.set()
        killer.join()
    assert killed or not alive(old), "no younger zygote was seen"
    return alive(old)


@check
def a_rotation_that_fails_disturbs_no_session():
    """The younger ones are killed while they start: the old one serves on, and no event names them."""
    for _ in range(8):  # on a busy machine the killer may be late
        with Engine("--rotate", "3") as engine:
            if not rotates_in_vain(engine):
                continue
            engine.wait(lambda e: e["event"] == "zygote" and e["state"] == "ready" and e["generation"] > 1, 120)
            equal(engine.run(engine.open(), "1").end["result"], "1")
            return
    raise AssertionError("each time a younger zygote was ready before it could be killed")


@check
def a_session_that_changes_streams_is_not_held_up():
    """Python waits at each change of stream until the other pipe is read. Sixteen small reads in a row are no flood
    then."""
    code = """
import sys, time
took = []
for i in range(200):
    began = time.perf_counter()
    print('out'); print('err', file=sys.stderr)
    took.append(time.perf_counter() - began)
few, many = sorted(took[1:8]), sorted(took[-100:])
many[50] / few[3]
"""
    with Engine() as engine:
        ratios = []
        while not ratios or (ratios[-1] >= 6 and len(ratios) < 5):  # other work may begin in its middle
            result = engine.run(engine.open(), code)
            equal((result.stdout.count("out"), result.stderr.count("err")), (200, 200))
            ratios.append(float(result.end["result"]))
        assert ratios[-1] < 6, ratios


def zygote_pid(engine: Engine) -> int:
    found = zygote_pids(engine)
    if not found:
        skip("no zygote to be seen in /proc")
    return found[0]


def zygote_pids(engine: Engine) -> list:
    """The Pythons below a builder and in its pid namespace; the oldest first."""
    found = []
    for pid, command in children(engine.process.pid):
        with contextlib.suppress(OSError):
            up = parent(pid)
            if ("python" in command.split(" ")[0] and parent(up) == engine.process.pid and alive(pid)
                    and depth_of(pid) == depth_of(up)):
                found.append((started_at(pid), pid))
    return [pid for _, pid in sorted(found)]


@check
def a_crashed_zygote_is_replaced():
    with Engine("--pool", "1") as engine:
        engine.until(parked(1))
        before = engine.ask("info")["zygotes"][0]["generation"]
        os.kill(zygote_pid(engine), signal.SIGKILL)
        event = engine.wait(lambda e: e["event"] == "zygote" and e["state"] == "ended")
        equal(event["generation"], before)
        s = engine.open(pooled=True)  # waits for the new one
        equal(engine.run(s, "6 * 7").end["result"], "42")
        assert engine.ask("info")["zygotes"][0]["generation"] > before
        engine.until(parked(1))


def kill_zygote(engine: Engine) -> int:
    """Its builder, when the engine knows that the zygote has ended."""
    zygote = zygote_pid(engine)
    builder = parent(zygote)
    os.kill(zygote, signal.SIGKILL)
    engine.wait(lambda e: e["event"] == "zygote" and e["state"] == "ended")
    return builder


def wait_gone(pid: int, seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pid)


@check
def sessions_outlive_their_zygote():
    """Runs end as they should, variables stay, ends and causes are told as before, and nothing is left."""
    with Engine("--pool", "1", "--stock", "2") as engine:
        engine.until(parked(1))
        kept, running, leaves, crashes, waits = (engine.open() for _ in range(5))
        engine.run(kept, "x = 'kept'")
        numbers = [engine.start(running, "import time; time.sleep(2); print('over')"),
                   engine.start(waits, "import time; time.sleep(60)")]
        time.sleep(0.3)
        builder = kill_zygote(engine)
        result = engine.result(numbers[0], 20)
        equal((result.cause, result.stdout), ("ok", "over\n"))
        equal(engine.run(kept, "x").end["result"], "'kept'")
        result = engine.run(leaves, "import os; os._exit(3)")
        equal((result.cause, result.end["exit_code"]), ("exit", 3))
        result = engine.run(crashes, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
        equal((result.cause, result.end["exit_code"]), ("signal", 128 + signal.SIGSEGV))
        equal(engine.ask("interrupt", session=waits)["event"], "done")
        equal(engine.result(numbers[1], 20).cause, "interrupted")
        s = engine.open(pooled=True)  # of the next zygote
        equal(engine.run(s, "6 * 7").end["result"], "42")
        assert alive(builder), "the builder ended before its sessions"
        for one in (kept, running, waits):
            engine.close(one)
        assert wait_gone(builder), "the builder stays after its last session"
        equal(engine.run(s, "7").end["result"], "7")


@check
def limits_hold_after_the_zygote():
    with Engine() as engine:
        s = engine.open(limits={"memory": "96M"})
        if not engine.ask("info")["hello"]["layers"]["cgroup_memory"]:
            skip("no cgroups here")
        kill_zygote(engine)
        code = "import os\nfd = os.memfd_create('x')\nfor _ in range(200): os.write(fd, b'x' * (1 << 20))"
        equal(engine.run(s, code).cause, "memory_limit")
        equal(engine.run(engine.open(), "1").end["result"], "1")


@check
def a_zygote_killed_again_and_again_ends_no_session():
    """Under load: opens and runs all the time. What is being forked in that moment is made again."""
    with Engine("--pool", "2", "--stock", "2") as engine:
        engine.until(parked(2))
        old = engine.open()
        engine.run(old, "x = 0")
        over, bad, kills = threading.Event(), [], []

        def kill_zygotes() -> None:
            while not over.wait(0.4):
                for pid in zygote_pids(engine):
                    with contextlib.suppress(OSError):
                        if children(pid):  # it has been ready: one that dies while it starts is a failed start
                            os.kill(pid, signal.SIGKILL)
                            kills.append(pid)

        killer = threading.Thread(target=kill_zygotes)
        killer.start()
        try:
            end, rounds = time.monotonic() + 6, 0
            while time.monotonic() < end or (len(kills) < 3 and time.monotonic() < end + 60):
                asked = [engine.send("open", pooled=i % 2 == 0) for i in range(4)]
                for event in (engine.next(n, 30) for n in asked):
                    if event["event"] != "opened":
                        bad.append(event)
                        continue
                    result = engine.run(event["session"], "import time; time.sleep(0.05); 6 * 7")
                    if (result.cause, result.end["result"]) != ("ok", "42"):
                        bad.append(result.end)
                    engine.close(event["session"])
                rounds += 1
                equal(engine.run(old, "x += 1; x").end["result"], str(rounds))
        finally:
            over.set()
            killer.join()
        assert not bad, bad[:3]
        assert len(kills) >= 3, kills
        engine.close(old)
        engine.until(parked(2))
        end = time.monotonic() + 60  # the last new zygote may still be starting, slowly under the sanitizers
        while len(left := own_children(engine)) > 2 and time.monotonic() < end:
            time.sleep(0.05)
        equal(len(left), 2)  # the engine and one builder: those of the dead zygotes have ended


def own_children(engine: Engine) -> list:
    found = []
    for pid, _ in children(engine.process.pid):
        with contextlib.suppress(OSError):
            if alive(pid) and parent(pid) == engine.process.pid:
                found.append(pid)
    return found


def parent(pid: int) -> int:
    with open("/proc/%d/stat" % pid) as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


def hangs(whom, lives: bool) -> None:
    """One of a family stops: only what it owes is waited for. It is replaced, and the opens are served."""
    with Engine() as engine:
        s = engine.open()
        number = engine.start(s, "print('on', flush=True)\nwhile True: pass")
        equal(engine.next(number)["event"], "stdout")
        os.kill(whom(zygote_pid(engine)), signal.SIGSTOP)
        opens = [engine.send("open") for _ in range(20)]
        time.sleep(0.3)
        equal(engine.ask("interrupt", session=s)["event"], "done")
        equal(engine.result(number, 20).cause, "interrupted")
        assert not [e for e in engine.unasked if e.get("state") == "ended"], "the interrupt waited for the stopped one"
        engine.wait(lambda e: e["event"] == "zygote" and e["state"] == "ended", 60)
        sessions = [engine.next(n, 60) for n in opens]
        equal({e["event"] for e in sessions}, {"opened"}, str(sessions))
        equal(engine.run(sessions[-1]["session"], "6 * 7").end["result"], "42")
        if lives:
            equal(engine.run(s, "6 * 7").end["result"], "42")


@check
def a_zygote_that_hangs_delays_no_other():
    hangs(lambda zygote: zygote, True)


@check
def a_builder_that_hangs_delays_no_other():
    hangs(parent, False)


@check
def an_end_waits_for_what_hangs_and_no_longer():
    with Engine("--stock", "2") as engine:
        engine.open()
        zygote = zygote_pid(engine)
        os.kill(zygote, signal.SIGSTOP)
        for _ in range(20):
            engine.send("open")
        time.sleep(0.3)
        equal(engine.stop(9), 0)  # a stopped zygote reaps no process, until the answers it owes are overdue
    assert not alive(zygote)


@check
def an_init_that_is_killed_costs_its_cell_alone():
    with Engine("--stock", "3") as engine:
        s = engine.open()
        zygote = zygote_pid(engine)
        for _ in range(5):
            builder, inits = parent(zygote), []
            for pid, _ in children(builder):
                with contextlib.suppress(OSError):
                    if pid != zygote and parent(pid) == builder:
                        inits.append(pid)
            for pid in inits[1:]:  # the first is the session's; the others are in stock, being built, or just leaving
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            opens = [engine.next(engine.send("open")) for _ in range(3)]
            for event in opens:
                if event["event"] == "opened":
                    equal(engine.run(event["session"], "1").end["result"], "1")
                    engine.close(event["session"])
                else:  # it was killed on the way
                    assert event["message"], event
        equal(engine.run(s, "2").end["result"], "2")
        equal(engine.ask("info")["zygotes"][0]["generation"], 1)


@check
def the_stock_goes_with_its_zygote():
    with Engine("--rotate", "3", "--stock", "2") as engine:
        for _ in range(5):
            engine.close(engine.open())
        engine.wait(lambda e: e["event"] == "zygote" and e["state"] == "ended" and e["generation"] == 1)
        equal(engine.run(engine.open(), "1").end["result"], "1")


def groups(engine: Engine) -> set:
    """The folders that the sessions of an engine are in."""
    found = set()
    for pid, _ in children(engine.process.pid):
        try:
            with open("/proc/%d/cgroup" % pid) as file:
                found |= set(re.findall(r"/(c[0-9a-f]{16})$", file.read(), re.M))
        except OSError:
            pass
    return found


@check
def a_folder_used_again_tells_nothing_of_who_was_there():
    with Engine("--stock", "2") as engine:
        engine.close(engine.open())
        if not engine.ask("info")["hello"]["layers"]["cgroup_memory"]:
            skip("no cgroups here")
        seen: set = set()
        sizes = ("512M", "64M", "300M", "64M", "1G", "64M", "512M", "64M")
        for memory in sizes:
            time.sleep(0.1)
            s = engine.open(limits={"memory": memory, "processes": 20})
            seen |= groups(engine)
            if memory == "64M":
                end = engine.run(s, "open('/tmp/a', 'wb').write(bytes(1 << 20)); print(1)").end
                equal((end["cause"], end["limits_hit"]), ("ok", []))
                assert end["cpu_s"] < 0.2 and end["peak_memory_bytes"] < 16 << 20, end
                equal(engine.run(s, "x = bytearray(200 << 20)").cause, "memory_limit")
            else:
                code = "import os, time\nx = bytearray(b'x') * (100 << 20)\nwhile time.process_time() < 0.3: pass"
                end = engine.run(s, code).end
                assert end["cpu_s"] > 0.2 and end["peak_memory_bytes"] > 100 << 20, end
            engine.close(s)
        time.sleep(0.3)
        equal(groups(engine), set())
        engine.open()
        engine.open()
        assert len(groups(engine)) == 2, groups(engine)
        if not os.path.exists("/sys/fs/cgroup/cgroup.controllers"):  # on v2 none is used again
            assert 0 < len(seen) < len(sizes), seen


@check
def a_zygote_that_cannot_start_is_an_error():
    done = subprocess.run([KRAIT_ENGINE, "--python", "/bin/true"], input=b'{"id":1,"op":"open"}\n',
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=90)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode in (0, 125) and not events:
        contains(done.stderr, b"krait-engine: ")
        return
    assert any(e["event"] in ("error", "zygote") for e in events), events
    assert not any(e["event"] == "opened" for e in events)


@check
def terminate():
    with Engine() as engine:
        s = engine.open()
        number = engine.start(s, "while True: pass")
        time.sleep(0.2)
        engine.process.send_signal(signal.SIGTERM)
        equal(engine.result(number).cause, "cancelled")
        equal(engine.process.wait(15), 143)


@check
def a_dead_warden_loses_the_runs():
    with Engine() as engine:
        s = engine.open()
        number = engine.start(s, "import time; time.sleep(60)")
        time.sleep(0.3)
        engine.process.kill()  # the process as started is the warden
        equal(engine.result(number, 20).cause, "lost")
        engine.process.wait(10)


@check
def a_slow_reader_does_not_fill_memory():
    process = subprocess.Popen([KRAIT_ENGINE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        process.stdin.write(b'{"id":1,"op":"open","limits":{"output":"1G"}}\n')
        process.stdin.flush()
        session = None
        while session is None:
            event = json.loads(process.stdout.readline())
            assert event["event"] != "error", event
            session = event.get("session") if event["event"] == "opened" else None
        process.stdin.write(json.dumps({"id": 2, "op": "run", "session": session, "timeout": "20s",
                                        "code": "import os\nfor _ in range(3000): os.write(1, b'x' * 100000)"}).encode()
                            + b"\n")
        process.stdin.flush()
        time.sleep(3)
        most = max(int(open("/proc/%d/statm" % pid).read().split()[1]) * 4
                   for pid in [process.pid] + [p for p, _ in children(process.pid)])
        assert most < 300000, "%d kB" % most
    finally:
        process.stdin.close()
        process.stdout.read()
        equal(process.wait(30), 0)


@check
def many_sessions_at_once():
    with Engine("--pool", "2") as engine:
        numbers = [engine.send("open", pooled=i % 2 == 0) for i in range(40)]
        sessions = [engine.next(n)["session"] for n in numbers]
        runs = [engine.start(s, "import os; x = %d; print(os.getpid() > 0, x)" % s) for s in sessions]
        equal([engine.result(n).stdout for n in runs], ["True %d\n" % s for s in sessions])
        closes = [engine.send("close", session=s) for s in sessions]
        equal({engine.next(n)["event"] for n in closes}, {"closed"})
        equal(engine.ask("info")["sessions"], 0)


main()
