#!/usr/bin/python3
"""Sessions through krait-engine: variables, timeouts, interrupts, input, output between runs."""
import contextlib
import ctypes
import os
import re
import signal
import struct
import sys
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal, main, skip
from drive import Engine
from processes import below, name_of, roles

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
engine = None


def session(**fields) -> int:
    return engine.open(**fields)


@check
def variables_are_kept():
    s = session()
    equal(engine.run(s, "x = 41").end["variables"], ["x"])
    result = engine.run(s, "def f(): return x + 1\nprint(f())\nf()")
    equal((result.stdout, result.end["result"], result.end["session_alive"]), ("42\n", "42", True))
    engine.run(s, "raise ValueError")
    equal(engine.run(s, "x").end["result"], "41")
    engine.close(s)


@check
def sessions_share_nothing():
    a, b = session(), session()
    engine.run(a, "secret = 1; open('/tmp/f', 'w').write('a'); open('/workspace/f', 'w').write('a')")
    equal(engine.run(b, "secret").end["error"]["type"], "NameError")
    equal(engine.run(b, "import os; print(os.path.exists('/tmp/f'), os.path.exists('/workspace/f'))").stdout,
          "False False\n")
    engine.close(a)
    equal(engine.run(b, "1").end["result"], "1")
    engine.close(b)


@check
def a_timeout_keeps_variables():
    s = session()
    engine.run(s, "x = 7")
    result = engine.run(s, "y = 1\nwhile True: pass", timeout="500ms")
    equal((result.cause, result.end["session_alive"]), ("timeout", True))
    contains(result.end["message"], "variables kept")
    equal(engine.run(s, "x, y").end["result"], "(7, 1)")
    result = engine.run(s, "import time; time.sleep(60)", timeout=0.3)
    equal((result.cause, result.end["session_alive"]), ("timeout", True))
    equal(engine.run(s, "x").end["result"], "7")
    engine.close(s)


@check
def a_deaf_run_is_killed():
    s = session(limits={"grace": "500ms"})
    engine.run(s, "x = 7")
    result = engine.run(s, "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
                        timeout="500ms")
    equal((result.cause, result.end["session_alive"]), ("timeout", False))
    contains(result.end["message"], "variables gone")
    engine.wait(lambda e: e["event"] == "session_ended" and e["session"] == s)
    answer = engine.ask("run", session=s, code="x")
    equal((answer["event"], answer["kind"]), ("error", "not_found"))


@check
def a_late_interrupt_never_reaches_the_next_run():
    s = session()
    for i in range(30):
        number = engine.start(s, "import time; time.sleep(0.02)")
        time.sleep(0.015 + i * 0.0004)
        engine.ask("interrupt", session=s)
        assert engine.result(number).cause in ("ok", "interrupted")
        equal(engine.run(s, "print('next')").stdout, "next\n")
    engine.close(s)


def early(s: int, code: str) -> tuple:
    """All of krait's Python is held, so that code and signal are both there when it goes on. What the run's end
    says."""
    held = [pid for pid in below(engine.process.pid) if name_of(pid).startswith("python")]
    assert held
    for pid in held:
        os.kill(pid, signal.SIGSTOP)
    number = engine.start(s, code, timeout="5s")
    engine.ask("interrupt", session=s)
    time.sleep(0.1)
    for pid in held:
        os.kill(pid, signal.SIGCONT)
    result = engine.result(number)
    return result.cause, result.end["session_alive"]


@check
def an_interrupt_before_the_code_begins_is_not_lost():
    s = session()
    sleep = "import time; time.sleep(5)"
    for code in (sleep, sleep, "import asyncio; await asyncio.sleep(5)", sleep):  # nor for that of the run before
        equal(early(s, code), ("interrupted", True))  # by the signal, not by what follows it
    equal(engine.run(s, "print('next')").stdout, "next\n")
    engine.run(s,
               "import threading, time\n"
               "for _ in range(8): threading.Thread(target=time.sleep, args=(9,), daemon=True).start()")
    for _ in range(4):  # each has SIGINT unblocked and may take it
        equal(early(s, sleep), ("interrupted", True))
    engine.close(s)


@check
def an_interrupt_of_a_loop_that_awaits_costs_nothing():
    s = session()
    for i in range(40):
        number = engine.start(s, "import asyncio\nwhile True: await asyncio.sleep(0)", timeout="8s")
        time.sleep(0.02 + 0.3 * (i % 4 == 0))
        engine.ask("interrupt", session=s)
        result = engine.result(number)
        equal((result.cause, result.end["session_alive"]), ("interrupted", True))
        equal(engine.run(s, "await asyncio.sleep(0.001); 'next'").end["result"], "'next'")
    engine.close(s)


@check
def interrupt():
    s = session()
    number = engine.start(s, "x = 3\nimport time\ntime.sleep(60)")
    time.sleep(0.3)
    equal(engine.ask("interrupt", session=s)["event"], "done")
    result = engine.result(number)
    equal((result.cause, result.end["exit_code"], result.end["session_alive"]), ("interrupted", 130, True))
    equal(engine.run(s, "x").end["result"], "3")
    equal(engine.ask("interrupt", session=s)["event"], "done")  # nothing runs: nothing happens
    engine.close(s)


SLICE = """
import ctypes, struct
room = ctypes.create_string_buffer(48)
assert ctypes.CDLL(None).syscall(315, 0, room, 48, 0) == 0
struct.unpack("IIQiIQQQ", room.raw)[5]
"""


def slice_of(pid: int) -> int:
    """Nanoseconds; 0 on kernels whose scheduler takes no requested slice (before 6.12)."""
    room = ctypes.create_string_buffer(48)
    equal(ctypes.CDLL(None).syscall(315, pid, room, 48, 0), 0, "sched_getattr")
    return struct.unpack("IIQiIQQQ", room.raw)[5]


@check
def slices_are_short():
    """A session among busy ones waits for no slice of the kernel's usual length, and the engine for less."""
    usual = slice_of(0)
    s = session()
    wanted = ("500000", 100000) if usual else ("0", 0)
    own = roles(engine.process.pid)["server"][0]
    equal((engine.run(s, SLICE).end["result"], slice_of(own)), wanted)
    engine.close(s)


@contextlib.contextmanager
def warden_stopped():
    os.kill(engine.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(engine.process.pid, signal.SIGCONT)


@check
def a_run_ends_without_the_warden():
    """Its counters are read by the engine itself."""
    s = session()
    engine.run(s, "0")
    with warden_stopped():
        end = engine.result(engine.start(s, "sum(range(1000))"), 6).end  # less than a question to the warden may take
    equal((end["cause"], end["result"]), ("ok", "499500"))
    assert end["cpu_s"] > 0 and end["peak_memory_bytes"] > 0, end
    engine.close(s)


@check
def a_signal_under_way_does_not_hit_the_next_run():
    """The warden is told to interrupt a run and gets to it when that run has long ended."""
    s = session()
    first = engine.start(s, "import time\nprint('on', flush=True)\ntime.sleep(0.5)")
    equal(engine.next(first)["event"], "stdout")
    with warden_stopped():
        equal(engine.ask("interrupt", session=s)["event"], "done")
        second = engine.start(s, "time.sleep(1)\nprint('next')")
        time.sleep(1)
    equal((engine.result(first).cause, engine.result(second).cause), ("ok", "ok"))
    engine.close(s)


def frame_type(name: str) -> int:
    with open(os.path.join(ROOT, "src/wire/proto.h"), encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    return re.findall(r"\bKR_[FWBIZS]_\w+(?=\s*[,=])",
                      text[text.index("KR_F_NONE"):text.index("KR_F_MAX_")]).index(name)


FORGED = """
import os, struct, time
end = b'{"cause":"ok","exit_code":0,"result":"forged","error":null,"variables":[],"hint":null,"copy":false}'
time.sleep(0.3)
os.write(3, b"".join(struct.pack("=IHHII", len(end), %d, 0, i, 0) + end for i in range(1, 8)))
time.sleep(0.3)
"""


@check
def ends_sent_ahead_are_of_no_run():
    """A session that forges frames ends its own run; the runs that wait are run all the same."""
    s = session()
    numbers = [engine.start(s, FORGED % frame_type("KR_S_END"))] + [engine.start(s, str(i)) for i in range(5)]
    equal([engine.result(number).end["result"] for number in numbers], ["forged", "0", "1", "2", "3", "4"])
    engine.close(s)


@check
def counters_are_the_runs_own():
    """Read at each run's end: what it used, not what the session has used before, nor what a pause has."""
    s = session()
    first = engine.run(s, "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass").end
    second = engine.run(s, "0").end
    assert first["cpu_s"] >= 0.28 and second["cpu_s"] < first["cpu_s"] / 2, (first["cpu_s"], second["cpu_s"])
    engine.run(s, "import threading\n"
               "def burn():\n    end = time.thread_time() + 0.3\n    while time.thread_time() < end: pass\n"
               "t = threading.Timer(0.2, burn)\nt.start()")
    deadline = time.monotonic() + 60
    alive = "True\n"
    while alive == "True\n" and time.monotonic() < deadline:  # on a loaded machine its weight is little
        time.sleep(1.5)
        third = engine.run(s, "print(t.is_alive())")
        alive = third.stdout
        assert third.end["cpu_s"] < first["cpu_s"] / 2, third.end["cpu_s"]
    equal(alive, "False\n")
    grown = engine.run(s, "x = bytearray(64 << 20)").end
    assert grown["peak_memory_bytes"] >= 64 << 20, grown["peak_memory_bytes"]
    engine.close(s)


@check
def exits_told_apart():
    s = session()
    result = engine.run(s, "import sys; sys.exit(3)")
    equal((result.cause, result.end["exit_code"], result.end["session_alive"]), ("exit", 3, True))
    result = engine.run(s, "import os; os._exit(4)")
    equal((result.cause, result.end["exit_code"], result.end["session_alive"]), ("exit", 4, False))
    s = session()
    result = engine.run(s, "import os; os.abort()")
    equal((result.cause, result.end["exit_code"], result.end["session_alive"]), ("signal", 134, False))


@check
def runs_queue_in_order():
    s = session()
    numbers = [engine.start(s, "import time; time.sleep(0.1); print(%d)" % i) for i in range(5)]
    equal([engine.result(n).stdout for n in numbers], ["%d\n" % i for i in range(5)])
    engine.close(s)


@check
def close_cancels_what_runs_and_waits():
    s = session()
    first, second = engine.start(s, "while True: pass"), engine.start(s, "print(1)")
    time.sleep(0.3)
    engine.close(s)
    equal([engine.result(n).cause for n in (first, second)], ["cancelled", "cancelled"])


@check
def stdin_text():
    s = session()
    result = engine.run(s, "a = input('? '); b = input(); import sys; print(a, b, repr(sys.stdin.read()))",
                        stdin="one\ntwo\nrest\n")
    contains(result.stdout, "one two 'rest\\n'")
    result = engine.run(s, "input()", stdin="")
    equal(result.end["error"]["type"], "EOFError")
    engine.close(s)


@check
def input_is_asked_for():
    s = session()
    prompts = []

    def answer(event):
        if event["event"] == "input":
            prompts.append(event["prompt"])
            equal(engine.ask("reply", session=s, text="Ada")["event"], "done")

    result = engine.result(engine.start(s, "print('before'); name = input('name? '); print('hello', name)", input=True),
                           on_event=answer)
    equal((prompts, result.cause), (["name? "], "ok"))
    contains(result.stdout, "hello Ada\n")
    assert result.stdout.startswith("before\n"), result.stdout
    equal(engine.run(s, "input()").end["error"]["type"], "EOFError")  # no client answers: the end of input
    number = engine.start(s, "input()", input=True)
    equal(engine.next(number)["event"], "input")
    equal(engine.ask("reply", session=s, eof=True)["event"], "done")
    equal(engine.result(number).end["error"]["type"], "EOFError")
    equal(engine.ask("reply", session=s, text="x")["event"], "error")
    engine.close(s)


@check
def input_can_be_interrupted():
    s = session()
    number = engine.start(s, "x = 1\ninput()", input=True)
    equal(engine.next(number)["event"], "input")
    equal(engine.ask("interrupt", session=s)["event"], "done")
    result = engine.result(number)
    equal((result.cause, result.end["session_alive"]), ("interrupted", True))
    equal(engine.run(s, "x").end["result"], "1")
    engine.close(s)


@check
def waiting_for_input_does_not_count():
    """The clock of a run stands still while input() waits, and goes on with the answer."""
    s = session()
    number = engine.start(s, "print(input())\nwhile True: pass", input=True, timeout="1s")
    equal(engine.next(number)["event"], "input")
    time.sleep(1.5)
    equal(engine.ask("reply", session=s, text="late")["event"], "done")
    result = engine.result(number)
    equal((result.cause, result.stdout), ("timeout", "late\n"))
    engine.close(s)


@check
def a_question_waits_as_long_as_the_run_may_take():
    s = session()
    began = time.monotonic()
    result = engine.run(s, "input()", input=True, timeout="5s")
    equal((result.cause, result.end["error"]["type"]), ("exception", "EOFError"))
    equal(result.end["message"], "input() was not answered, and had the end of input")
    assert time.monotonic() - began > 4.9, "control: it was asked, and awaited"
    engine.close(s)


@check
def output_between_runs():
    s = session()
    equal(engine.run(s,
                     "import threading, time\n"
                     "threading.Thread(target=lambda: (time.sleep(0.4), print('late'))).start()").stdout, "")
    event = engine.wait(lambda e: e["event"] == "between_runs" and e["session"] == s)
    equal((event["stream"], event["text"]), ("stdout", "late\n"))
    equal(engine.run(s, "print('next')").stdout, "next\n")
    engine.close(s)


@check
def endless_output_between_runs_is_bounded():
    s = session(limits={"output": "10K"})
    code = ("import threading, os\ndef f():\n    while True: os.write(1, b'x' * 4096)\n"
            "threading.Thread(target=f, daemon=True).start()")
    equal(engine.run(s, code).cause, "ok")
    deadline, text = time.monotonic() + 30, ""
    while "[output cut: " not in text and time.monotonic() < deadline:
        time.sleep(0.1)
        text = "".join(e["text"] for e in list(engine.unasked) if e["event"] == "between_runs" and e["session"] == s)
    time.sleep(0.5)  # nothing follows
    text = "".join(e["text"] for e in list(engine.unasked) if e["event"] == "between_runs" and e["session"] == s)
    assert 10240 <= len(text) < 11000, len(text)
    contains(text, "[output cut: ")
    equal(engine.run(s, "1 + 1").end["result"], "2")
    engine.close(s)


@check
def cpu_between_runs_is_not_the_runs():
    s = session(limits={"cpu": "1"})
    engine.run(s,
               "import threading, time\nstop = time.time() + 0.6\ndef f():\n    while time.time() < stop: pass\n"
               "threading.Thread(target=f).start()")
    time.sleep(1)
    result = engine.run(s, "1")
    if result.end["cpu_s"] is not None:
        assert result.end["cpu_s"] < 0.3, result.end["cpu_s"]
    engine.close(s)


@check
def order_of_streams_and_displays():
    s = session()
    code = ("import sys\nclass D:\n    def _repr_html_(self): return '<b>'\n    def __repr__(self): return 'D'\n"
            "for i in range(20):\n    print('o%d' % i)\n    print('e%d' % i, file=sys.stderr)\n    display(D())\n")
    result = engine.run(s, code)
    equal((result.cause, len(result.displays)), ("ok", 20), str(result.end["error"]))
    joined = "".join("|" if kind == "display" else text.replace("\n", " ") for kind, text in result.order)
    equal(joined, "".join("o%d e%d |" % (i, i) for i in range(20)))
    engine.close(s)


@check
def what_the_engine_would_not_take_is_told_in_fewer_words():
    s = session()
    shows = ("class D:\n    def __init__(self, v): self.v = v\n    def _repr_json_(self): return self.v\n"
             "    def __repr__(self): return 'D'\n")
    for value, why in (("[0] * 60000", "too many values"), ("{str(i): i for i in range(30000)}", "too many values"),
                       ("__import__('functools').reduce(lambda x, _: [x], range(70), 0)", "nested too deep")):
        result = engine.run(s, shows + "display(D(%s))" % value)
        equal((result.cause, result.end["session_alive"], len(result.displays)), ("ok", True, 1))
        equal(sorted(result.displays[0]["data"]), ["text/plain"])
        contains(result.displays[0]["data"]["text/plain"], why)
    result = engine.run(s, shows + "display(D([[0] * 100] * 480))")
    equal((result.cause, len(result.displays[0]["data"]["application/json"])), ("ok", 480))
    result = engine.run(s, "raise type('X' * 5_000_000, (Exception,), {})('y' * 5_000_000)")
    equal((result.cause, result.end["session_alive"], len(result.end["error"]["type"])), ("exception", True, 200))
    result = engine.run(s, "globals()['x' * 5_000_000] = 1; ok = 2")
    equal((result.cause, result.end["variables"]), ("ok", ["ok"]))
    result = engine.run(s, "try: input('\\x01' * 1_000_000)\nexcept EOFError: print('eof')")
    equal((result.cause, result.end["session_alive"]), ("ok", True), str(result.end["error"]))
    engine.close(s)


@check
def displays_past_the_output_limit_are_dropped():
    s = session(limits={"output": "100K"})
    result = engine.run(s, "for i in range(5): display({'text/html': 'x' * 30_000}, raw=True)")
    equal((result.cause, len(result.displays), result.end["truncated"], result.end["limits_hit"]),
          ("ok", 3, True, ["output"]))
    result = engine.run(s, "display({'text/html': 'x' * 30_000}, raw=True)")
    equal((len(result.displays), result.end["truncated"]), (1, False))
    engine.close(s)


@check
def a_bomb_in_the_channel_harms_its_sender_alone():
    neighbour = session()
    frame = ("import os, socket, struct, _krait\nbody = b'{\"data\":{\"x\":[' + b'%s' * %d + b'1]}}'\n"
             "socket.socket(fileno=os.dup(3)).sendall(struct.pack('=IHHII', len(body), _krait.DISPLAY, 0, 1, 0) + "
             "body)\n"
             "import time; time.sleep(20)")
    for unit in ("[],", "{},", "0,"):
        s = session(limits={"output": "32M"})
        number = engine.start(s, frame % (unit, (15 << 20) // len(unit)))
        equal(engine.run(neighbour, "1 + 1").end["result"], "2")
        result = engine.result(number)
        equal((result.cause, result.end["session_alive"]), ("lost", False))
        contains(result.end["message"], "too many values")
    equal(engine.run(neighbour, "1 + 1").end["result"], "2")
    engine.close(neighbour)


@check
def unicode_of_every_kind():
    s = session()
    result = engine.run(s, "print('é€🐍'); '\\ud800\\0', 'ä'")
    equal(result.stdout, "é€🐍\n")
    assert result.cause == "ok" and "ä" in result.end["result"]
    result = engine.run(s, "raise ValueError('\\ud800 \\0 é')")
    equal(result.end["error"]["type"], "ValueError")
    equal(engine.run(s, "1").end["result"], "1")
    engine.close(s)


@check
def memory_limit_and_the_next_session():
    s = session(limits={"memory": "128M"})
    result = engine.run(s, "x = []\nwhile True: x.append(bytearray(1 << 20))")
    equal(result.cause, "memory_limit")
    t = session(limits={"memory": "128M"})
    equal(engine.run(t, "len(bytearray(1 << 20))").end["result"], "1048576")


@check
def limits_of_one_run_are_not_the_next_ones():
    """A child that the out-of-memory killer took is told once, by the run in which it happened."""
    s = session(limits={"memory": "128M"})
    result = engine.run(s, "1")
    if not result.end["layers"]["cgroup_memory"]:
        return
    code = ("import os, mmap\nif os.fork() == 0:\n    m = mmap.mmap(-1, 1 << 29)\n"
            "    for _ in range(500): m.write(b'x' * (1 << 20))\n    os._exit(0)\nos.wait()[1] & 127")
    equal(engine.run(s, code).end["limits_hit"], ["memory"])
    equal(engine.run(s, "1").end["limits_hit"], [])
    engine.close(s)

# ---- what a run leaves ---------------------------------------------------------------------------------

BOMBS = {
    "forks": "import os\nwhile True: os.fork()",
    "children that wait": "import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(600)",
    "caught": "import os\ntry:\n    while True: os.fork()\nexcept OSError:\n    if os.getpid() != me:\n"
              "        while True:\n            try: os.fork()\n            except OSError: os.write(2, b'spark ')",
    "left in the background": "import os, time\nif os.fork() == 0:\n    while True:\n        try: os.fork()\n"
                              "        except OSError: os.write(2, b'spark ')\ntime.sleep(0.5)",
}


def counts(s: int) -> None:
    if engine.run(s, "import os, subprocess\nme = os.getpid()\nx = 7").end["background"] is None:
        engine.close(s)
        skip("nothing counts processes here")


@check
def a_fork_bomb_does_not_outlive_its_run():
    for name, code in BOMBS.items():
        s = session(limits={"processes": 24})
        counts(s)
        engine.run(s, code, timeout=20)
        for _ in range(3):
            after = engine.run(s, "print(x, subprocess.run(['echo', 'hi'], capture_output=True, text=True).stdout)")
            equal((after.cause, after.stdout, after.stderr), ("ok", "7 hi\n\n", ""), name)
            equal((after.end["background"], after.end["message"]), (0, None), name)
        # A control: all of its processes may be started again, so no dead one is left either.
        after = engine.run(s, "many = [subprocess.Popen(['sleep', '60']) for _ in range(20)]\n"
                              "for one in many: one.kill()\nprint({one.wait() for one in many})")
        equal((after.cause, after.stdout), ("ok", "{-9}\n"), "%s: %s" % (name, after.stderr[-300:]))
        engine.close(s)


LEAVE = "server = subprocess.Popen(['sleep', '600'])\n"
ENDS = {  # how a run ends -> code, how it is run
    "timeout": ("import time\ntime.sleep(60)", {"timeout": 3}),
    "memory_limit": ("import time\nb = []\nwhile True: b.append(bytearray(8 << 20))", {}),
    "disk_limit": ("f = open('/workspace/f', 'wb')\nwhile True: f.write(bytes(1 << 20))", {}),
    "interrupted": ("import time\nprint('on', flush=True)\nfor _ in range(600): time.sleep(0.1)", {"interrupt": True}),
    "exception": ("1 / 0", {}),
    "ok": ("pass", {}),
}


@check
def a_limit_ends_what_its_run_started():
    for cause, (code, how) in ENDS.items():
        s = session(limits={"memory": "128M", "disk": "8M"})
        counts(s)
        early = engine.run(s, LEAVE)
        equal((early.end["background"], early.end["message"]), (1, "1 process still runs in the background"))
        time.sleep(0.05)  # the starts of processes are told in ticks of 10 ms
        code = "own = subprocess.Popen(['sleep', '600'], start_new_session=True)\n" + code
        number = engine.start(s, code, **{"timeout": 60, **how})
        if "interrupt" in how:
            equal(engine.next(number)["event"], "stdout")
            engine.ask("interrupt", session=s)
        result = engine.result(number)
        stays = cause in ("exception", "ok")
        equal((result.cause, result.end["session_alive"]), (cause, True), result.stderr[-300:])
        equal(result.end["background"], 2 if stays else 1, cause)
        contains(result.end["message"],
                 "2 processes still run in the background" if stays else "1 process that it started was ended")
        result = engine.run(s, "print(server.poll(), own.poll())")
        equal(result.stdout, "None None\n" if stays else "None -9\n", cause)
        equal((result.end["background"], result.end["message"]), (2 if stays else 1, None), cause)
        engine.close(s)


@check
def what_the_dead_wrote_is_no_later_runs():
    s = session()
    counts(s)
    result = engine.run(s, "subprocess.Popen(['sh', '-c', 'while :; do echo noise; done'])\nimport time\ntime.sleep(60)",
                        timeout=3)
    equal(result.cause, "timeout")
    contains(result.stdout, "noise")
    for _ in range(5):
        equal(engine.run(s, "print('mine')").stdout, "mine\n")
    engine.close(s)


if __name__ == "__main__":
    with Engine() as engine:
        main()
