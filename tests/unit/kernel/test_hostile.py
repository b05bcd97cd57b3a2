#!/usr/bin/python3
"""Interrupts, forked copies, and user code that patches what the kernel stands on: each run
still ends with one END frame.
"""
import asyncio
import importlib.util
import os
import signal
import time

from fake_krait import END, INPUT, KERNEL, RUN, Ended, Zygote
from check import check, contains, equal, main

zygote = Zygote()


def interrupt_when(text):
    """Sends SIGINT once the run has printed that."""
    sent = []

    def on_output(session, got):
        if text in got["stdout"] and not sent:
            sent.append(1)
            time.sleep(0.05)
            session.interrupt()

    return on_output


def interrupted(session, code, **how):
    end = session.run(code, on_output=interrupt_when(b"go\n"), timeout=30, **how)
    equal(
        (end["cause"], end["error"]["type"] if end["error"] else end),
        ("exception", "KeyboardInterrupt"),
        code,
    )
    return end


@check
def interrupt_keeps_variables():
    with zygote.session() as session:
        end = interrupted(session, "x = 1\nprint('go')\nwhile True: pass")
        contains(end["error"]["traceback"], 'File "<run 1>", line 3')
        equal(end["variables"], ["x"])
        interrupted(session, "import time\nprint('go')\ntime.sleep(60)")
        equal(session.run("x")["result"], "1")


@check
def interrupt_of_an_await_cancels_it_and_shows_where():
    with zygote.session() as session:
        end = interrupted(
            session,
            "import asyncio\nlog = []\nasync def f():\n    try:\n        print('go')\n"
            "        await asyncio.sleep(60)\n    finally:\n        log.append('cleaned')\n"
            "await f()",
        )
        contains(end["error"]["traceback"], "await asyncio.sleep(60)")
        assert "krait" not in end["error"]["traceback"]
        equal(session.run("log")["result"], "['cleaned']")
        equal(session.run("await asyncio.sleep(0.01)\n'fine'")["result"], "'fine'")


@check
def interrupt_of_input():
    with zygote.session() as session:
        session.number += 1
        session.send(RUN, session.number, {"code": "input('?')", "name": "<run 1>"})
        got = None
        deadline = time.time() + 20
        sent = False
        while got is None and time.time() < deadline:
            data = session.channel.recv(65536)
            session.buffer += data
            for frame in session.frames():
                if frame[0] == INPUT and not sent:
                    sent = True
                    time.sleep(0.1)
                    session.interrupt()
                if frame[0] == END:
                    got = frame[2]
        equal((got["cause"], got["error"]["type"]), ("exception", "KeyboardInterrupt"))
        equal(session.run("1 + 1")["result"], "2")


@check
def interrupt_of_endless_repr_and_str():
    with zygote.session() as session:
        interrupted(
            session,
            "class R:\n    def __repr__(self):\n        print('go')\n        while True: pass\nR()",
        )
        interrupted(
            session,
            "class E(Exception):\n    def __str__(self):\n        print('go')\n        while True: pass\nraise E",
        )
        interrupted(
            session,
            "class H:\n    def _repr_html_(self):\n        print('go')\n        while True: pass\nH()",
        )
        equal(session.run("2")["result"], "2")


def wait_until_taken(pid):
    """Until a thread of the process has taken its SIGINT."""
    for _ in range(500):
        with open("/proc/%d/status" % pid) as file:
            pending = [line.split()[1] for line in file if line.startswith("ShdPnd:")][0]
        if not int(pending, 16) & 2:
            break
        time.sleep(0.01)
    time.sleep(0.05)


@check
def late_interrupts_do_no_harm():
    with zygote.session() as session:
        for attempt in range(10):
            session.interrupt()
            end = session.run("x = %d\nx" % attempt)
            equal((end["cause"], end["result"]), ("ok", str(attempt)))
        session.run(
            "import threading, time\nthreading.Thread(target=time.sleep, args=(3,), daemon=True).start()"
        )
        for attempt in range(
            10
        ):  # the thread has SIGINT unblocked and takes the signal between the runs
            session.interrupt()
            wait_until_taken(session.pid)
            end = session.run("'ok'")
            equal((end["result"], end["error"]), ("'ok'", None))


@check
def early_interrupts_are_not_lost():
    with zygote.session() as session:
        for code in ("x = 1", "while True: pass", "import time\ntime.sleep(9)", "await __import__('asyncio').sleep(9)"):
            session.interrupt()  # the last run's, or the user's own: no event says which
            end = session.run(code, early=True, timeout=5)
            equal((end["cause"], end["error"]["type"]), ("exception", "KeyboardInterrupt"))
            equal(session.run("'ok'")["result"], "'ok'")
        equal(session.run("'x' in globals()")["result"], "False")
        session.run("import signal\nsignal.signal(signal.SIGINT, lambda *_: print('mine'))")
        equal(session.run("print('code')", early=True)["stdout"], "mine\ncode\n")


@check
def interrupts_of_an_await_leave_other_tasks_alone():
    with zygote.session() as session:
        for _ in range(10):
            session.run(
                "import asyncio\nn = [0]\nasync def tick():\n    while True:\n        n[0] += 1\n"
                "        await asyncio.sleep(0.001)\n"
                "async def slow():\n    await asyncio.sleep(0.05)\n    return 'kept'\n"
                "t, q = asyncio.create_task(tick()), asyncio.create_task(slow())\nawait asyncio.sleep(0)"
            )
            end = session.run("await asyncio.sleep(9)", early=True, timeout=5)
            equal(end["error"]["type"], "KeyboardInterrupt")
            equal(session.run("m = n[0]\n(await q, t.done(), n[0] > m)")["result"], "('kept', False, True)")
            equal(session.run("t.cancel()")["result"], "True")


class Blind(asyncio.SelectorEventLoop):
    """Whose list of steps says nothing: it is no API."""

    def call_soon(self, call, *args, context=None):
        return super().call_soon(lambda *a: call(*a), *args, context=context)


@check
def only_a_step_that_is_gone_makes_a_task_lost():
    spec = importlib.util.spec_from_file_location("aio", os.path.join(KERNEL, "aio.py"))
    aio = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(aio)

    async def step():
        await asyncio.sleep(0)
        return 5

    for kind, can_tell in ((asyncio.SelectorEventLoop, True), (Blind, False)):
        aio._loop = loop = kind()
        asyncio.set_event_loop(loop)
        equal(aio.wait(step()), 5)
        task = loop.create_task(step())
        aio._bury_lost(loop)
        equal(task.cancelled(), False)
        loop._ready.clear()  # as an interrupt does that comes between the loop's list and the step
        equal(aio._is_lost(loop, task), can_tell)
        aio._bury_lost(loop)
        equal(task.cancelled(), can_tell)
        task._log_destroy_pending = False
        task.get_coro().close()
        loop.close()
    asyncio.set_event_loop(None)


@check
def storm_of_interrupts_never_loses_an_end():
    with zygote.session() as session:
        stop = os.fork()
        if stop == 0:
            try:
                until = time.time() + 6
                while time.time() < until:
                    os.kill(session.pid, signal.SIGINT)
                    time.sleep(0.0007)
            finally:
                os._exit(0)
        try:
            causes = set()
            for number in range(150):
                end = session.run(
                    "y = [i for i in range(2000)]\nprint(len(y))\n{'a': y[:3]}", timeout=20
                )
                causes.add((end["cause"], end["error"] and end["error"]["type"]))
                equal(len(end["ends"]), 1)
        finally:
            os.kill(stop, signal.SIGKILL)
            os.waitpid(stop, 0)
        assert causes <= {("ok", None), ("exception", "KeyboardInterrupt")}, causes
        assert ("exception", "KeyboardInterrupt") in causes, "no interrupt arrived at all"
        equal(session.run("'alive'")["result"], "'alive'")


@check
def an_interrupt_the_user_ignores_stays_ignored():
    with zygote.session() as session:
        session.run("import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)")
        end = session.run(
            "print('go')\nt = time.time()\nwhile time.time() - t < 0.5: pass\n'through'",
            on_output=interrupt_when(b"go\n"),
        )
        equal(end["result"], "'through'")


@check
def alarm_of_the_users_in_our_own_code():
    with zygote.session() as session:
        session.run(
            "import signal, time\ndef h(*a): raise TimeoutError('alarm')\nsignal.signal(signal.SIGALRM, h)"
        )
        equal(session.run("signal.alarm(1)\ntime.sleep(5)")["error"]["type"], "TimeoutError")
        for wait in (0.0001, 0.0002, 0.0003, 0.0005, 0.001):
            for _ in range(10):
                end = session.run("signal.setitimer(signal.ITIMER_REAL, %s);" % wait)
                assert end["cause"] in ("ok", "exception"), end
                assert (
                    1 <= len(end["ends"]) <= 2
                ), end  # sent again if the handler raised just after; the engine drops the second
                time.sleep(0.002)
        equal(session.run("3")["result"], "3")


@check
def forked_copy_ends_with_the_snippet():
    with zygote.session() as session:
        end = session.run(
            "import os\npid = os.fork()\nprint('copy' if pid == 0 else 'self', flush=True)\nif pid:\n"
            "    status = os.waitpid(pid, 0)[1]\npid != 0"
        )
        equal(
            (end["result"], len(end["ends"]), sorted(end["stdout"].split())),
            ("True", 1, ["copy", "self"]),
        )
        equal(session.run("status")["result"], "0")
        end = session.run(
            "pid = os.fork()\nif pid == 0: raise ValueError('in the copy')\nstatus = os.waitpid(pid, 0)[1]\n"
            "os.WEXITSTATUS(status)"
        )
        equal((end["result"], len(end["ends"])), ("1", 1))
        contains(end["stderr"], "ValueError: in the copy")
        assert "krait" not in end["stderr"]
        end = session.run(
            "pid = os.fork()\nif pid == 0: exit(7)\nos.WEXITSTATUS(os.waitpid(pid, 0)[1])"
        )
        equal((end["result"], end["stderr"]), ("7", ""))


@check
def forked_copy_does_not_touch_the_channel():
    with zygote.session() as session:
        end = session.run(
            "import os\npid = os.fork()\nif pid == 0:\n    display('shown in the copy')\n    try: input('x')\n"
            "    except EOFError: print('no input')\n"
            "    import sys\n    sys.exit(0)\nos.waitpid(pid, 0);"
        )
        equal((end["displays"], end["inputs"], len(end["ends"])), ([], [], 1))
        equal(end["stdout"], "'shown in the copy'\nno input\n")
        end = session.run("pid = os.fork()\nif pid: os.waitpid(pid, 0)\n'value'")
        equal((end["result"], len(end["ends"])), ("'value'", 1))
        end = session.run(
            "async def f():\n    pid = os.fork()\n    if pid: os.waitpid(pid, 0)\nawait f()"
        )
        equal((end["cause"], len(end["ends"])), ("ok", 1))


@check
def multiprocessing_works():
    with zygote.session() as session:
        end = session.run(
            "import multiprocessing as mp\ndef sq(x): return x * x\nwith mp.get_context('fork').Pool(2) as p:\n"
            "    r = p.map(sq, range(5))\nr"
        )
        equal(end["result"], "[0, 1, 4, 9, 16]")
        end = session.run(
            "import os, sys, subprocess\nq = mp.get_context('spawn').Process(target=print, args=('spawned',))\n"
            "q.start(); q.join(); q.exitcode"
        )
        equal((end["result"], end["stdout"]), ("0", "spawned\n"))
        equal(
            session.run(
                "from concurrent.futures import ThreadPoolExecutor as T\nlist(T(2).map(sq, range(3)))"
            )["result"],
            "[0, 1, 4]",
        )


@check
def at_fork_hooks_of_python_are_there_for_user_forks():
    with zygote.session() as session:
        code = (
            "import os, threading, time, random\n"
            "t = threading.Thread(target=time.sleep, args=(2,), daemon=True); t.start()\nr, w = os.pipe()\n"
            "pid = os.fork()\n"
            "if pid == 0:\n    os.write(w, repr((threading.active_count(), random.random())).encode())\n"
            "    os._exit(0)\n"
            "os.waitpid(pid, 0)\nn, value = eval(os.read(r, 100))\nn, value != random.random()"
        )
        equal(session.run(code)["result"], "(1, True)")


LOGGING = """
import logging, os, select, threading, time
handler = logging.StreamHandler()
logging.getLogger().addHandler(handler)
def hold():
    with handler.lock:
        time.sleep(2)
threading.Thread(target=hold).start()
time.sleep(0.2)
r, w = os.pipe()
pid = os.fork()
if pid == 0:
    logging.warning('from the copy')
    os.write(w, b'logged')
    os._exit(0)
got = os.read(r, 10) if select.select([r], [], [], 5)[0] else b'stuck'
os.kill(pid, 9)
got
"""


@check
def logging_works_in_a_copy_forked_while_a_thread_logs():
    with zygote.session() as session:
        equal(session.run(LOGGING)["result"], "b'logged'")


@check
def patched_builtins_and_modules_do_not_break_later_runs():
    patches = (
        "import builtins; builtins.len = None",
        "builtins.repr = lambda x: 1/0",
        "builtins.isinstance = None\nbuiltins.compile = None\nbuiltins.eval = 5",
        "import json\njson.dumps = json.loads = None\njson.encoder.JSONEncoder = None\njson.decoder.scanstring = None",
        "import os\nos.getpid = lambda: 1\nos.write = None\nos._exit = None\nos.fstat = None",
        "import sys\nsys.displayhook = sys.excepthook = None",
        "import traceback, linecache\ntraceback.TracebackException = None\nlinecache.cache = None\n"
        "linecache.getline = None",
        "import ast\nast.Expr = ast.Expression = None",
        "import io\nio.TextIOWrapper = io.FileIO = None",
        "sys.settrace(lambda *a: 1/0)",
        "import asyncio\nasyncio.get_event_loop = None",
        "import threading\nthreading.main_thread = None",
        "import base64\nbase64.b64encode = None",
        "builtins.str = builtins.int = builtins.dict = builtins.type = builtins.getattr = None",
    )
    with zygote.session() as session:
        for patch in patches:
            session.run(patch)
            end = session.run("z = 5\nz")
            equal((end["cause"], end["result"], end["variables"]), ("ok", "5", ["z"]), patch)
            end = session.run("1 / 0")
            equal(
                (end["cause"], end["error"]["type"], len(end["ends"])),
                ("exception", "ZeroDivisionError", 1),
                patch,
            )
            contains(end["error"]["traceback"], "ZeroDivisionError", patch)


@check
def low_recursion_limit():
    with zygote.session() as session:
        session.run("import sys\nsys.setrecursionlimit(60)")
        for _ in range(3):
            equal(len(session.run("x = 1\n1/0")["ends"]), 1)
        equal(session.run("4")["result"], "4")


@check
def cleared_modules_and_namespace():
    with zygote.session() as session:
        session.run(
            "import sys\nfor name in list(sys.modules):\n"
            "    if name.startswith('krait_kernel') or name in ('_krait', 'json', 'traceback', 'ast'): del "
            "sys.modules[name]"
        )
        equal(session.run("1 + 1")["result"], "2")
        session.run("globals().clear()")
        end = session.run("3")
        equal((end["cause"], end["result"]), ("ok", "3"))
        equal(session.run("print('x')")["stdout"], "x\n")


@check
def no_memory_left():
    with zygote.session() as session:
        session.run(
            "import resource\nhave = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
            "resource.setrlimit(resource.RLIMIT_AS, (have + (40 << 20),) * 2)"
        )
        end = session.run("keep = []\nwhile True: keep.append(bytearray(1 << 20))")
        equal((end["cause"], end["error"]["type"]), ("exception", "MemoryError"))
        end = session.run("while True: keep.append('x' * 100 + str(len(keep)))")
        equal((end["cause"], end["error"]["type"]), ("exception", "MemoryError"))
        session.run("del keep")
        equal(session.run("'usable'")["result"], "'usable'")


@check
def os_exit_ends_the_session():
    with zygote.session() as session:
        try:
            session.run("print('a')\nimport os\nos._exit(5)")
        except Ended:
            return
        raise AssertionError("the session is still there")


main()
