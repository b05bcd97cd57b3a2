"""What takes more than one run: daemons, things between runs, neighbours under load, `krait run`."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import time

import census
from census import Census
from engine import Engine, Gone, as_user, krait, krait_engine, run_once
from model import QUICK, needs

DAEMON = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT): signal.signal(number, signal.SIG_IGN)
        while True:
            with open('/tmp/beat', 'a') as f: f.write('.')
            time.sleep(0.02)
    os._exit(0)
os.wait()
"""
BEATS = "import os, time\na = os.path.getsize('/tmp/beat')\ntime.sleep(0.3)\nprint(os.path.getsize('/tmp/beat') > a)"


def await_event(engine: Engine, session, event: str, seconds: float = 20) -> None:
    """Returns once the engine has told it of this session, or at the end of the time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if any(e.get("event") == event and e.get("session") == session.number for e in list(engine.unasked)):
            return
        time.sleep(0.05)


def daemons(engine: Engine) -> list[str]:
    """A daemon lives on between the runs of its session, and dies with it."""
    state, bad = Census(engine.pid), []
    session = engine.open(QUICK)
    first = session.run(DAEMON)
    time.sleep(1)
    second = session.run(BEATS)
    if first.cause != "ok" or second.stdout != "True\n":
        bad.append(f"the daemon does not live between runs: {first}; {second}")
    if len(state.in_cells()) != 3:
        bad.append(f"not init, session and daemon, but {len(state.in_cells())} processes")
    session.close()
    return bad + state.wait_empty()


def daemon_of_a_dead_session(engine: Engine) -> list[str]:
    """A session that kills itself takes its daemons along."""
    session = engine.open(QUICK)
    run = session.run(DAEMON + "os.kill(os.getpid(), 9)")
    return ([] if run.cause == "signal" else [str(run)]) + Census(engine.pid).wait_empty()


def late_output(engine: Engine) -> list[str]:
    """What a copy prints after the end of its run is told as between runs, not in another run."""
    session = engine.open(QUICK)
    run = session.run(
        "import os, time\nif os.fork() == 0:\n    time.sleep(1)\n    print('late')\nelse: print('early')"
    )
    await_event(engine, session, "between_runs")
    later = session.run("print('next')")
    heard = [
        e
        for e in engine.unasked
        if e.get("event") == "between_runs" and e.get("session") == session.number
    ]
    session.close()
    bad = [] if (run.stdout, later.stdout) == ("early\n", "next\n") else [f"{run}; {later}"]
    if "".join(e["text"] for e in heard) != "late\n":
        bad.append(f"between runs was heard: {heard}")
    return bad


def flood_between_runs(engine: Engine) -> list[str]:
    """A child that floods between runs is read, cut and does not disturb the next run's end."""
    session, state = engine.open(dict(QUICK, output="64K")), Census(engine.pid)
    state.reset_peaks()
    session.run(
        "import os\npid = os.fork()\nif pid == 0:\n    while True: os.write(1, b'x' * 65536)"
    )
    time.sleep(0.5)
    later = session.run("os.kill(pid, 9); os.waitpid(pid, 0)\n'done'")
    last = session.run("print('clean')")
    heard = sum(
        len(e["text"])
        for e in engine.unasked
        if e.get("event") == "between_runs" and e.get("session") == session.number
    )
    session.close()
    bad = (
        []
        if later.end.get("result") == "'done'" and last.stdout == "clean\n"
        else [f"{later}; {last}"]
    )
    if not 60_000 < heard < 70_000:
        bad.append(f"{heard} characters were told of a flood between runs, cap 65536")
    return bad + (
        [f"the engine grew to {state.peaks_mib()[1]:.0f} MiB"] if state.peaks_mib()[1] > 64 else []
    )


def stopped_between_runs(engine: Engine) -> list[str]:
    """A session that stops itself after the end of a run cannot hold up the next for ever."""
    session = engine.open(QUICK)
    first = session.run(
        "import os, signal, threading\nthreading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGSTOP)).start()"
    )
    time.sleep(2)
    second = session.run("print('never')", timeout="1s")
    if (first.cause, second.cause, second.stdout, second.alive) != ("ok", "timeout", "", False):
        return [f"{first}; {second}"]
    return []


def dead_between_runs(engine: Engine) -> list[str]:
    """A session that ends between runs says how, and a run sent to it is refused."""
    session = engine.open(QUICK)
    session.run("import os, threading\nthreading.Timer(0.2, os.abort).start()")
    await_event(engine, session, "session_ended")
    told = [
        e.get("cause")
        for e in engine.unasked
        if e.get("event") == "session_ended" and e.get("session") == session.number
    ]
    run = session.run("print('never')")
    return (
        [] if told == ["signal"] and run.cause.startswith("error") else [f"told {told}, then {run}"]
    )


@needs("cgroup_cpu")
def cpu_between_runs(engine: Engine) -> list[str]:
    """Processor time used between runs is the session's too: its limit ends it then, or at the next
    run. RLIMIT_CPU is per process: a chain of short ones passes it (row cpu-in-children).
    """
    state = Census(engine.pid)
    session = engine.open(dict(QUICK, cpu_time="1s", cpu="1"))
    first = session.run("""
import os, time
if os.fork() == 0:
    while True:
        if os.fork(): os._exit(0)
        begun = time.process_time()
        while time.process_time() < begun + 0.2: pass
""")
    deadline = time.monotonic() + 20
    used, causes = 0.0, []
    while used < 3 and not causes and time.monotonic() < deadline:
        time.sleep(0.2)
        used = state.cpu_seconds()
        causes = [
            e.get("cause")
            for e in engine.unasked
            if e.get("event") == "session_ended" and e.get("session") == session.number
        ]
    if first.cause != "ok" or causes != ["cpu_limit"]:
        second = session.run("import time\ntime.sleep(1)\nprint('free')")
        session.close()
        return [
            f"limit 1 s, {used:.1f} s were used between runs; session_ended {causes}, and the next run: {second}"
        ]
    return []


def session_killed_by_interrupt(engine: Engine) -> list[str]:
    """A client interrupts a run that ignores it: interrupted, killed after the grace."""
    session = engine.open(QUICK)
    number = session.start(
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('deaf', flush=True)\nwhile True: pass"
    )
    engine.answer(number, "stdout")  # it is deaf from then on
    session.interrupt()
    run = session.wait(number)
    return [] if (run.cause, run.alive, run.hits) == ("interrupted", False, []) else [str(run)]


# ---- a reader that does not read, a folder that fills ----


def reader_asleep(engine: Engine) -> list[str]:
    """The driver of the engine stops reading while a session prints 300 MB that are all to be
    kept: the session waits, memory does not grow.
    """
    process = subprocess.Popen(
        [krait_engine()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        **as_user(engine.user),
    )
    try:

        def ask(**request) -> None:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()

        def until(word: bytes) -> bytes:
            for line in process.stdout:
                if b'"event":"%s"' % word in line:
                    return line
            raise AssertionError("the engine ended")

        ask(id=1, op="open", limits={"output": "1G"})
        number = json.loads(until(b"opened"))["session"]
        ask(
            id=2,
            op="run",
            session=number,
            code="import os\nfor _ in range(4800): os.write(1, b'x' * 65536)",
            timeout="60s",
        )
        time.sleep(1.5)
        grown = census.kib(Census(process.pid).engine(), "VmHWM") / 1024
        end = json.loads(until(b"end"))
        bad = [f"the engine grew to {grown:.0f} MiB"] if grown > 64 else []
        if (end["cause"], end["output_bytes"], end["truncated"]) != ("ok", 4800 << 16, False):
            bad.append(f"the end is {str(end)[:300]}")
        process.stdin.close()
        process.stdout.read()
        if process.wait(20) != 0:
            bad.append(f"status {process.returncode}")
        return bad
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def folder_fills(engine: Engine) -> list[str]:
    """A folder of the host: its growth is looked at from outside, so the limit is overrun for a
    moment and then kills.
    """
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        if engine.user is not None:
            os.chown(folder, engine.user, engine.user)
        other = Engine("--workspace", folder, user=engine.user)
        session = other.open(dict(QUICK, disk="16M", file_size="1G"), workspace=0)
        run = session.run(
            "import time\nf = open('/workspace/x', 'wb')\nfor _ in range(1000):\n"
            "    f.write(b'x' * (1 << 20)); time.sleep(0.01)"
        )
        bad = (
            []
            if (run.cause, run.hits, run.alive) == ("disk_limit", ["disk"], False)
            else [str(run)]
        )
        size = os.path.getsize(folder + "/x")
        if size > 500 << 20:
            bad.append(f"{size >> 20} MiB were written past a limit of 16")
        print(
            f"# {'user' if engine.user else 'root'}: a folder with a limit of 16 MiB got {size >> 20} MiB before the "
            f"sweep saw it"
        )
        return bad + other.close()


def out_of_descriptors(engine: Engine) -> list[str]:
    """More sessions than the engine has descriptors for: the last are refused, the others live on
    and make room.
    """
    other = Engine("--stock", "0", user=engine.user, wrap=("prlimit", "--nofile=256:256"))
    sessions: list = []
    try:
        while len(sessions) < 250:
            sessions.append(other.open(QUICK))
        return ["250 sessions with 256 descriptors?"] + other.close()
    except Gone as e:
        refusal = str(e)
    try:
        answers = [session.run("print(6 * 7)").stdout for session in sessions]
        bad = (
            []
            if len(sessions) >= 8 and set(answers) == {"42\n"}
            else [f"{len(sessions)} sessions answer {sorted(set(answers))}"]
        )
        for session in sessions[:4]:
            session.close()
        fresh = other.open(QUICK)
        bad += (
            []
            if fresh.run("print(6 * 7)").stdout == "42\n"
            else ["there is no room after 4 were closed"]
        )
    except Gone as e:
        bad = [
            f"with {len(sessions)} sessions the next was refused ({refusal[:150]}), and then: {e}"
        ]
    return bad + other.close()


# ---- what the kernel keeps for a cell ----

LISTEN = """
import socket
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen(64)
"""
QUEUE_TCP = (
    LISTEN
    + """
kept, queued = [], 0
for _ in range(40):
    a = socket.create_connection(listener.getsockname(), timeout=5)
    b, _ = listener.accept()
    a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    a.setblocking(False)
    kept.append((a, b))
    try:
        while True: queued += a.send(b'x' * 65536)
    except BlockingIOError: pass
print(queued >> 20)
"""
)
PASS_TCP = (
    LISTEN
    + """
a, got = socket.create_connection(listener.getsockname()), 0
b, _ = listener.accept()
for _ in range(1600):
    a.sendall(b'x' * 65536)
    end = got + 65536
    while got < end: got += len(b.recv(65536))
print(got >> 20)
"""
)


@needs("cgroup_memory")
def tcp_buffers(engine: Engine) -> list[str]:
    """What waits in TCP sockets of a cell's own loopback counts against its memory; reading it
    makes room.
    """
    limits = dict(QUICK, memory="64M")
    session = engine.open(limits, network="loopback")
    flow = session.run(PASS_TCP)
    session.close()
    session = engine.open(limits, network="loopback")
    queued = session.run(QUEUE_TCP)
    session.close()
    bad = [] if flow.stdout == "100\n" else [f"100 MiB through one connection: {flow}"]
    held = int(queued.stdout or 1 << 30)
    if queued.cause == "ok" and held > 80 or queued.cause not in ("ok", "memory_limit"):
        bad.append(f"a cell of 64 MiB queued {held} MiB: {queued}")
    return bad


# ---- neighbours ----

LOADS = {
    "fork bomb": (
        "import os\nwhile True:\n    try: os.fork()\n    except (OSError, KeyboardInterrupt): pass",
        {"processes": "64"},
    ),
    "processor hog": ("import os\nfor _ in range(4): os.fork()\nwhile True: pass", {"cpu": "2"}),
    "memory churn": ("while True: x = bytearray(b'x') * (100 << 20)", {}),
    "output flood": ("import os\nwhile True: os.write(1, b'x' * 65536)", {}),
    "all of them": ("", {}),
}


def neighbours(engine: Engine) -> list[str]:
    """A session beside each kind of load still answers. How much later is told, not judged: a test
    is no clock.
    """
    beside, bad = engine.open(QUICK), []
    who = "user" if engine.user else "root"

    def median() -> float:
        spent = []
        for _ in range(15):
            begun = time.monotonic()
            run = beside.run("print(6 * 7)", timeout="30s")
            spent.append(time.monotonic() - begun)
            if run.stdout != "42\n":
                bad.append(f"the session beside it: {run}")
        return sorted(spent)[len(spent) // 2] * 1000

    quiet = median()
    for name, (code, limits) in LOADS.items():
        loads = [(code, limits)] if code else [load for load in LOADS.values() if load[0]]
        sessions = [engine.open(dict(QUICK, **more)) for _, more in loads]
        runs = [session.start(text, timeout="30s") for session, (text, _) in zip(sessions, loads)]
        time.sleep(0.3)
        under = median()
        begun = time.monotonic()
        fresh = engine.open(QUICK)
        opened = (time.monotonic() - begun) * 1000
        if fresh.run("print(6 * 7)", timeout="30s").stdout != "42\n":
            bad.append(f"{name}: a new session does not answer")
        fresh.close()
        print(
            f"# {who}: beside {name}: a warm run takes {under:.1f} ms, {under / quiet:.1f} times a quiet one; a new "
            f"session {opened:.0f} ms"
        )
        for session in sessions:
            session.close()
        causes = [session.wait(number).cause for session, number in zip(sessions, runs)]
        if set(causes) != {"cancelled"}:
            bad.append(f"{name}: closed sessions' runs ended as {causes}")
    beside.close()
    return bad


# ---- krait run ----


def once(code: str, *options: str, user: int | None, **wanted) -> list[str]:
    run = run_once(code, "--memory", "256M", "--grace", "500ms", *options, user=user)
    got = {"cause": run.cause, "status": run.end.get("status"), "stdout": run.stdout}
    wrong = {key: (got[key], value) for key, value in wanted.items() if got[key] != value}
    return [f"{code[:60]!r}: {wrong}: {run}"] if wrong else []


def run_command(engine: Engine) -> list[str]:
    """`krait run` ends as its script does, whatever the script leaves running or hangs in at its
    end.
    """
    user, bad = engine.user, []
    for code, options, wanted in (
        (
            "import atexit, time\natexit.register(time.sleep, 1000)\nprint('x')",
            ("--timeout", "1s"),
            ("timeout", 124, "x\n"),
        ),
        (
            "import atexit, itertools\natexit.register(lambda: 1 in itertools.repeat(0))",
            ("--timeout", "1s"),
            ("timeout", 124, ""),
        ),
        (
            "class A:\n    def __del__(self):\n        while True: pass\na = A()",
            ("--timeout", "1s"),
            ("timeout", 124, ""),
        ),
        (
            "import itertools\nclass A:\n    def __del__(self, forever=itertools.repeat): 1 in forever(0)\na = A()",
            ("--timeout", "1s"),
            ("timeout", 124, ""),
        ),
        (
            "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()",
            ("--timeout", "1s"),
            ("timeout", 124, ""),
        ),
        (
            "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()",
            (),
            ("ok", 0, ""),
        ),
        (
            "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
            ("--timeout", "1s"),
            ("timeout", 124, ""),
        ),
        (
            "import os\nif os.fork() == 0:\n    while True: os.write(2, b'x' * 65536)\nprint('end')",
            (),
            ("ok", 0, "end\n"),
        ),
        ("import os\nos.abort()", (), ("signal", 134, "")),
        ("import os\nwhile True: os.fork()", ("--processes", "32"), ("process_limit", 137, "")),
        (
            "x = []\nwhile True: x.append(bytearray(b'x') * (1 << 20))",
            ("--memory", "64M"),
            ("memory_limit", 137, ""),
        ),
        ("while True: pass", ("--cpu-time", "1s"), ("cpu_limit", 137, "")),
        (
            "with open('x', 'wb') as f:\n    while True: f.write(b'x' * (1 << 20))",
            ("--disk", "16M"),
            ("disk_limit", 137, ""),
        ),
        (
            "import sys, threading\nthreading.Thread(target=lambda: sys.exit(5)).start()",
            (),
            ("ok", 0, ""),
        ),
        ("import sys\nsys.stdout.close()\nsys.exit(4)", (), ("exit", 4, "")),
        ("import os\nos.close(1)\nos.close(2)\nos._exit(6)", (), ("exit", 6, "")),
        (
            "import os\nif os.fork() == 0: raise SystemExit(9)\nprint(os.waitstatus_to_exitcode(os.wait()[1]))",
            (),
            ("ok", 0, "9\n"),
        ),
    ):
        bad += once(code, *options, user=user, **dict(zip(("cause", "status", "stdout"), wanted)))
    return bad


def run_leaves_nothing(engine: Engine) -> list[str]:
    """Daemons of `krait run`: seen while it runs, gone when it has exited."""
    code = DAEMON + "\nprint('up', flush=True)\ntime.sleep(1)"
    process = subprocess.Popen(
        [krait(), "run", "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        **as_user(engine.user),
    )
    try:
        line = process.stdout.readline()
        seen = {pid: census.status(pid).get("Name") for pid in census.tree(process.pid)}
        inside = [pid for pid in seen if census.depth(pid) >= 2]
        status = process.wait(20)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    left = [pid for pid, name in seen.items() if census.status(pid).get("Name") == name]
    bad = (
        []
        if line == b"up\n" and len(inside) == 3
        else [f"{line!r}, {len(inside)} processes in the cell"]
    )
    return (
        bad
        + ([] if status == 0 else [f"status {status}"])
        + ([f"left behind: {left}"] if left else [])
    )


def run_passes_4_gb(engine: Engine) -> list[str]:
    """`krait run` passes 4 GB on to its reader and keeps none of it."""
    size = 4 << 30
    code = f"import os\nblock = b'x' * 65536\nfor _ in range({size} >> 16): os.write(1, block)"
    process = subprocess.Popen(
        [krait(), "run", "--timeout", "120s", "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        **as_user(engine.user),
    )
    peaks: list[int] = []

    def watch() -> None:
        while process.poll() is None:
            peaks.append(
                max(
                    [
                        census.kib(pid, "VmHWM")
                        for pid in [process.pid, *census.tree(process.pid)]
                        if census.depth(pid) == 0
                    ]
                    or [0]
                )
            )
            time.sleep(0.2)

    watcher = threading.Thread(target=watch)
    watcher.start()
    got = 0
    while data := os.read(process.stdout.fileno(), 1 << 20):
        got += len(data)
    status = process.wait(30)
    watcher.join()
    process.stdout.close()
    bad = [] if (status, got) == (0, size) else [f"status {status}, {got} bytes of {size}"]
    return bad + ([f"it grew to {max(peaks) >> 10} MiB"] if max(peaks) > 64 << 10 else [])


SCENARIOS = [
    daemons,
    daemon_of_a_dead_session,
    late_output,
    flood_between_runs,
    stopped_between_runs,
    dead_between_runs,
    cpu_between_runs,
    session_killed_by_interrupt,
    reader_asleep,
    folder_fills,
    out_of_descriptors,
    tcp_buffers,
    run_command,
    run_leaves_nothing,
    run_passes_4_gb,
    neighbours,
]
