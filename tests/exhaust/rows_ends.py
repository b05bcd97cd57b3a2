"""Runs that end badly or will not end: signals, crashes, hangs, closed and flooded streams, rights
asked for in vain."""

from __future__ import annotations

import json

from model import Expect, Row

TIMEOUT_KEPT = Expect("timeout", ("timeout",), exit_code=124, alive=True, within=20)
TIMEOUT_KILLED = Expect("timeout", ("timeout",), exit_code=124, alive=False, within=20)
GB = 1 << 30


def killed_by(number: int, **more) -> Expect:
    return Expect("signal", exit_code=128 + number, alive=False, **more)


def says_killed(run) -> str | None:
    message = str(run.end.get("message"))
    return (
        None
        if "killed" in message and "variables gone" in message
        else f"the message is {message!r}"
    )


def out_of_frames(run) -> str | None:
    """Its frames are on the heap, so it ends at the memory limit. Where the MemoryError comes first,
    CPython 3.11 may lose it (a SystemError) or overflow its stack while it unwinds a million frames.
    """
    ends = {
        ("memory_limit", 137, ("memory",), "None"),
        ("memory_limit", 137, ("memory",), "MemoryError"),
        ("signal", 139, (), "None"),
        ("exception", 1, (), "SystemError"),
    }
    error = str((run.end.get("error") or {}).get("type"))
    got = (run.cause, run.end.get("exit_code"), tuple(run.hits), error)
    return None if got in ends else f"it ended as {got}"


SIGNALS = [
    Row("interrupt", "while True: pass", TIMEOUT_KEPT, timeout="500ms"),
    Row(
        "interrupt-swallowed",
        "import time\nwhile True:\n    try: time.sleep(0.01)\n    except KeyboardInterrupt: pass",
        Expect("timeout", ("timeout",), exit_code=124, alive=False, within=20, check=says_killed),
        timeout="500ms",
    ),
    Row(
        "interrupt-ignored",
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        TIMEOUT_KILLED,
        timeout="500ms",
    ),
    Row(
        "interrupt-blocked",
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass",
        TIMEOUT_KILLED,
        timeout="500ms",
    ),
    Row(
        "interrupt-ignored-by-children",
        """
import os, signal
pid = os.fork()
if pid == 0:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setsid()
    while True: signal.pause()
os.waitpid(pid, 0)
""",
        TIMEOUT_KEPT,
        timeout="500ms",
    ),
    Row(
        "interrupt-handler-hangs",
        "import signal, time\nsignal.signal(signal.SIGINT, lambda *a: time.sleep(1000))\ntime.sleep(1000)",
        TIMEOUT_KILLED,
        timeout="500ms",
    ),
    Row(
        "interrupt-answered-by-death",
        "import os, signal\nsignal.signal(signal.SIGINT, lambda *a: os.kill(os.getpid(), 9))\nwhile True: pass",
        Expect("timeout", ("timeout",), exit_code=124, alive=False, within=20, check=says_killed),
        timeout="500ms",
    ),
    Row(
        "stop-itself",
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
        TIMEOUT_KILLED,
        timeout="500ms",
    ),
    Row(
        "stop-the-group",
        "import os, signal\nif os.fork() == 0: signal.pause()\nos.killpg(0, signal.SIGSTOP)",
        TIMEOUT_KILLED,
        timeout="500ms",
    ),
    Row("c-loop", "import itertools\n1 in itertools.repeat(0)", TIMEOUT_KILLED, timeout="500ms"),
    Row(
        "c-loop-in-a-thread",
        "import itertools, threading\nt = threading.Thread(target=lambda: 1 in itertools.repeat(0))\n"
        "t.start(); t.join()",
        TIMEOUT_KILLED,
        timeout="500ms",
    ),
    Row(
        "big-power",
        "pow(10**9, 10**8)",
        TIMEOUT_KEPT,
        timeout="1s",
        limits={"grace": "5s", "memory": "512M"},
    ),
    Row("regex", "import re\nre.match(r'(a+)+$', 'a' * 60 + 'b')", TIMEOUT_KEPT, timeout="500ms"),
    Row(
        "switch-interval",
        """
import sys, threading, time
sys.setswitchinterval(1e9)
def spin():
    while True: pass
threading.Thread(target=spin, daemon=True).start()
time.sleep(0.1)
print('never')
""",
        TIMEOUT_KILLED,
        timeout="500ms",
    ),
    Row("abort", "import os\nos.abort()", killed_by(6)),
    Row("segfault", "import ctypes\nctypes.string_at(0)", killed_by(11)),
    Row("kill-itself", "import os\nos.kill(os.getpid(), 9)", killed_by(9)),
    Row(
        "kill-everybody",
        """
import os, time
for _ in range(5):
    if os.fork() == 0: time.sleep(1000)
os.kill(-1, 9)  # everything but the caller and the init, which takes no signal from inside
print(sorted(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(5)))
""",
        Expect("ok", alive=True, stdout="[-9, -9, -9, -9, -9]\n"),
    ),
    Row("exit-at-once", "import os\nos._exit(3)", Expect("exit", exit_code=3, alive=False)),
    Row(
        "exit-in-a-thread",
        "import sys, threading\nt = threading.Thread(target=lambda: sys.exit(5))\nt.start(); t.join()\nprint('on')",
        Expect("ok", exit_code=0, alive=True, stdout="on\n"),
    ),
    Row(
        "exit-at-once-in-a-thread",
        "import os, threading, time\nthreading.Thread(target=lambda: os._exit(5)).start()\ntime.sleep(10)",
        Expect("exit", exit_code=5, alive=False),
    ),
    Row(
        "stack-overflow",
        "import sys\nsys.setrecursionlimit(10**9)\nclass A:\n    def __getattr__(self, n): return getattr(self, n)\n"
        "A().x",
        killed_by(11),
        timeout="20s",
    ),
    Row(
        "stack-overflow-in-a-thread",
        """
import sys, threading
sys.setrecursionlimit(10**9)
class A:
    def __getattr__(self, n): return getattr(self, n)
t = threading.Thread(target=lambda: A().x)
t.start(); t.join()
""",
        killed_by(11),
        timeout="20s",
    ),
    Row(
        "recursion",
        "def f(n): return f(n + 1)\nf(0)",
        Expect("exception", exit_code=1, alive=True, error="RecursionError"),
    ),
    Row(
        "recursion-unbounded",
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(n): return f(n + 1)\nf(0)",
        Expect(None, None, check=out_of_frames),
        limits={"memory": "64M"},
        timeout="20s",
    ),
    Row(
        "destructor-hangs",
        "class A:\n    def __del__(self):\n        while True: pass\nA()\nNone",
        TIMEOUT_KEPT,
        timeout="500ms",
    ),
    Row(
        "repr-hangs",
        "class A:\n    def __repr__(self):\n        while True: pass\nA()",
        TIMEOUT_KEPT,
        timeout="500ms",
    ),
    Row(
        "error-text-hangs",
        "class A(Exception):\n    def __str__(self):\n        while True: pass\nraise A()",
        TIMEOUT_KEPT,
        timeout="500ms",
    ),
    Row(
        "result-huge",
        "'x' * (60 << 20)",
        Expect(
            "ok",
            alive=True,
            check=lambda run: (
                None
                if 1000 < len(run.end["result"]) < 1 << 20
                else f"the result has {len(run.end['result'])} characters"
            ),
        ),
        limits={"memory": "1G"},
    ),
    Row(
        "error-huge",
        "raise ValueError('x' * (60 << 20))",
        Expect(
            "exception",
            alive=True,
            check=lambda run: (
                None if len(json.dumps(run.end["error"])) < 1 << 20 else "the error is not cut"
            ),
        ),
        limits={"memory": "1G"},
    ),
    Row(
        "result-deep",
        "x = []\nfor _ in range(10**5): x = [x]\nx",
        Expect("exception", alive=True, error="RecursionError"),
    ),
    Row(
        "variables-many",
        "for i in range(200000): globals()['v%d' % i] = i",
        Expect(
            "ok",
            alive=True,
            check=lambda run: (
                None if len(run.end["variables"]) <= 1000 else "the list of variables is not cut"
            ),
        ),
    ),
]

FLOOD = "import os\nblock = b'x' * 65535 + b'\\n'\nfor _ in range(%d >> 16): os.write(1, block)"


def counted(size: int):
    """Everything was read and counted, the head kept, the mark last."""

    def check(run) -> str | None:
        kept = run.lengths["stdout"] + run.lengths["stderr"]
        if run.end.get("output_bytes") != size:
            return f"output_bytes is {run.end.get('output_bytes')}, not {size}"
        if not MIB_8 <= kept < MIB_8 + 200:
            return f"{kept} characters were kept"
        return (
            None
            if any("output cut" in tail for tail in run.tails.values())
            else "there is no mark at the cut"
        )

    return check


MIB_8 = 8 << 20
CUT = {"exit_code": 0, "truncated": True, "alive": True}
OUTPUT = [
    Row(
        "flood-10-gb",
        FLOOD % (10 * GB),
        Expect("ok", ("output",), check=counted(10 * GB), within=150, **CUT),
        timeout="140s",
        only="root",
    ),
    Row(
        "flood-1-gb",
        FLOOD % GB,
        Expect("ok", ("output",), check=counted(GB), within=60, **CUT),
        timeout="60s",
        only="user",
    ),
    Row(
        "flood-of-both-streams",
        """
import os, threading
block = b'x' * 65535 + b'\\n'
def flood(fd):
    for _ in range(2048): os.write(fd, block)
threads = [threading.Thread(target=flood, args=(fd,)) for fd in (1, 2)]
for t in threads: t.start()
for t in threads: t.join()
""",
        Expect("ok", ("output",), check=counted(256 << 20), **CUT),
        timeout="30s",
    ),
    Row(
        "flood-by-a-child",
        "import subprocess\nsubprocess.run(['head', '-c', str(512 << 20), '/dev/zero'])",
        Expect("ok", ("output",), check=counted(512 << 20), **CUT),
        timeout="30s",
    ),
    Row(
        "line-without-end",
        "import os\nblock = b'y' * (1 << 20)\nfor _ in range(1024):\n    view = memoryview(block)\n"
        "    while view: view = view[os.write(1, view):]",
        Expect("ok", ("output",), check=counted(GB), **CUT),
        timeout="60s",
    ),
    Row(
        "line-of-256-mb",
        "import sys\nsys.stdout.write('y' * (256 << 20))\nsys.stdout.flush()",
        Expect("ok", ("output",), check=counted(256 << 20), **CUT),
        limits={"memory": "1G"},
        timeout="60s",
    ),
    Row(
        "flood-past-the-timeout",
        "import os\nwhile True: os.write(1, b'x' * 65536)",
        Expect(
            "timeout", ("output", "timeout"), exit_code=124, alive=True, truncated=True, within=20
        ),
        timeout="1s",
    ),
    Row(
        "flood-small-cap",
        "for i in range(1000): print('%09d' % i)",
        Expect(
            "ok",
            ("output",),
            truncated=True,
            alive=True,
            check=lambda run: (
                None
                if run.stdout.startswith("000000000\n")
                and "000000409\n" not in run.stdout
                and run.end["output_bytes"] == 10000
                else f"kept {len(run.stdout)} of {run.end['output_bytes']}"
            ),
        ),
        limits={"output": "4K"},
    ),
    Row(
        "flood-of-characters",
        "print('\\U0001f40d' * 3000)",
        Expect(
            "ok",
            ("output",),
            truncated=True,
            alive=True,
            check=lambda run: "a character was cut in two" if "\ufffd" in run.stdout else None,
        ),
        limits={"output": "4K"},
    ),
    Row(
        "stdout-closed",
        "import os\nos.close(1)\nprint('x')",
        Expect("exception", alive=True, error="OSError"),
    ),
    Row(
        "stdout-object-closed",
        "import sys\nsys.stdout.close()\nprint('x')",
        Expect("exception", alive=True, error="ValueError"),
    ),
    Row(
        "stdout-all-closed",
        "import os\nos.closerange(0, 3)\n6 * 7",
        Expect("ok", alive=True, stdout=""),
    ),
    Row(
        "stdout-replaced",
        "import sys\nclass Never:\n    def write(self, text): raise OSError('no')\n"
        "    def flush(self): raise OSError('no')\n"
        "sys.stdout = Never()\nprint('x')",
        Expect("exception", alive=True, error="OSError"),
        again=False,
    ),
    Row("stdin-of-nobody", "input('who? ')", Expect("exception", alive=True, error="EOFError")),
]

COPIES = [
    Row(
        "copy-past-the-end",
        "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('here')",
        Expect("ok", alive=True, stdout="here\nhere\n"),
    ),
    Row(
        "copy-that-raises",
        "import os\npid = os.fork()\nif pid == 0: 1 / 0\nos.waitpid(pid, 0)\nprint('on')",
        Expect(
            "ok",
            alive=True,
            stdout="on\n",
            check=lambda run: (
                None if "ZeroDivisionError" in run.stderr else "the copy's error is not told"
            ),
        ),
    ),
    Row(
        "copy-that-exits",
        "import os, sys\npid = os.fork()\nif pid == 0: sys.exit(9)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))",
        Expect("ok", alive=True, stdout="9\n"),
    ),
    Row(
        "copy-asks",
        "import os\npid = os.fork()\nif pid == 0:\n    try: input()\n    except EOFError: os._exit(4)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))",
        Expect("ok", alive=True, stdout="4\n"),
    ),
    Row(
        "copies-of-copies",
        """
import os
for _ in range(4): os.fork()
while True:
    try: os.wait()
    except ChildProcessError: break
print('x', end='')
""",
        Expect("ok", alive=True, stdout="x" * 16),
    ),
]

RIGHTS = [
    Row(
        "rlimits-raised",
        """
import resource
for name in 'DATA FSIZE NOFILE NPROC CORE MEMLOCK MSGQUEUE SIGPENDING NICE RTPRIO'.split():
    number = getattr(resource, 'RLIMIT_' + name)
    soft, hard = resource.getrlimit(number)
    assert hard >= 0, name
    try: resource.setrlimit(number, (soft, hard + 1))
    except (ValueError, PermissionError): print('refused', end=' ')
    else: print('raised', name, end=' ')
""",
        Expect("ok", alive=True, stdout="refused " * 10),
    ),
    Row(
        "priority",
        """
import os
for ask in (lambda: os.nice(-20), lambda: os.setpriority(os.PRIO_PROCESS, 0, -20),
            lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)),
            lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))):
    try: ask()
    except PermissionError: print('refused', end=' ')
before = os.nice(0)
print(os.nice(5) - before)
""",
        Expect("ok", alive=True, stdout="refused refused refused refused 5\n"),
    ),
    Row(
        "locked-memory",
        """
import ctypes, mmap
libc = ctypes.CDLL(None, use_errno=True)
m = mmap.mmap(-1, 64 << 20)
at = ctypes.addressof(ctypes.c_char.from_buffer(m))
print(libc.mlock(ctypes.c_void_p(at), ctypes.c_size_t(64 << 20)), libc.mlockall(1))
""",
        Expect("ok", alive=True, stdout="-1 -1\n"),
    ),
    Row(
        "terminals",
        """
import os
have = []
try:
    while len(have) < 100: have.append(os.openpty())
except OSError as e: print(len(have), e.errno)
for pair in have:
    for fd in pair: os.close(fd)
print(len(os.listdir('/dev/pts')), os.ttyname(os.openpty()[1]), os.path.exists('/dev/console'))
""",
        Expect("ok", alive=True, stdout="32 28\n1 /dev/pts/0 False\n"),
    ),
]

ROWS = SIGNALS + OUTPUT + COPIES + RIGHTS
