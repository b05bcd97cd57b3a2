"""Forged and replayed frames: a session that writes to its own channel whatever it likes.

What a session says of itself is its claim, so a forged end of the current run is believed as far as
a claim goes. What must hold: no frame of another run counts, what is no frame ends this session
alone and as `lost`, no descriptor arrives, no memory piles up.
"""

from __future__ import annotations

import os
import re
import time

from census import Census, descriptors
from engine import Engine, Run
from model import QUICK

HERE = os.path.dirname(os.path.realpath(__file__))


def frame_numbers() -> dict:
    """Name -> number of each frame type, from the header that defines them."""
    with open(os.path.join(HERE, "../../src/wire/proto.h")) as f:
        body = re.search(r"enum kr_frame_type \{(.*?)\};", f.read(), re.S).group(1)
    found = re.findall(r"^\s*(KR_\w+)", re.sub(r"/\*.*?\*/", "", body, flags=re.S), re.M)
    return {name[3:]: number for number, name in enumerate(found)}


FORGE = f"""
import array, json, os, socket, struct, sys, threading, time
T = {frame_numbers()!r}
def frame(kind, run, body=b'', size=None, nfds=0):
    if not isinstance(body, bytes): body = json.dumps(body).encode()
    return struct.pack('<IHHII', len(body) if size is None else size, T.get(kind, kind), nfds, run, 0) + body
def end(result, **more):
    return dict(dict(cause='ok', exit_code=0, result=result, error=None, variables=['forged'], hint=None, copy=False), **more)
def say(data):
    view = memoryview(data)
    while view: view = view[os.write(3, view):]
def this_run():
    f = sys._getframe()
    while 'run_id' not in f.f_locals: f = f.f_back
    return f.f_locals['run_id']
me = this_run()
"""
OWN = "time.sleep(0.1)\nprint('own')\n6 * 9"


def own_words(run: Run) -> list[str]:
    if (run.cause, run.stdout, run.end.get("result"), run.displays) != (
        "ok",
        "own\n",
        "54",
        [],
    ) or not run.alive:
        return [
            f"the run did not end by its own words: {run} {run.end.get('result')!r} {run.displays[:1]}"
        ]
    return []


def one(engine: Engine, code: str, **fields) -> Run:
    session = engine.open(QUICK)
    run = session.run(FORGE + code, **fields)
    session.close()
    return run


def other_runs(engine: Engine) -> list[str]:
    """Ends, displays and questions of every run but the current one are dropped."""
    return own_words(
        one(
            engine,
            """
for run in [r for r in (0, me - 1, me + 1, me + 2, 0xffffffff) if r != me and r >= 0] * 50:
    say(frame('S_DISPLAY', run, {'data': {'text/plain': 'forged'}, 'metadata': {}}))
    say(frame('S_INPUT', run, {'prompt': 'forged', 'password': False}))
    say(frame('S_END', run, end('forged')))
""" + OWN,
        )
    )


def replayed(engine: Engine) -> list[str]:
    """The true end of the first run, said again between runs and during the second."""
    session = engine.open(QUICK)
    first = session.run(FORGE + """
def replay():
    time.sleep(0.1)
    for _ in range(30):
        say(frame('S_END', me, end('replayed'))); time.sleep(0.01)
threading.Thread(target=replay, daemon=True).start()
'first'
""")
    bad = [] if first.end.get("result") == "'first'" else [f"the first run: {first}"]
    for _ in range(3):
        bad += own_words(
            session.run("import time\n" + OWN)
        )  # 0.1 s each: the first begins before the replay, the others meet it
    session.close()
    return bad


def ahead(engine: Engine) -> list[str]:
    """An end of the next run, sent while this one still goes on, does not end the next one."""
    session = engine.open(QUICK)
    session.run(FORGE + "for n in range(1, 6): say(frame('S_END', me + n, end('ahead')))")
    bad = []
    for _ in range(3):
        bad += own_words(session.run("import time\n" + OWN))
    session.close()
    return bad


def early_end(engine: Engine) -> list[str]:
    """An end of its own that comes early is the run's. The code that goes on holds up the next run
    until that is over its time.
    """
    session = engine.open(QUICK)
    first = session.run(
        FORGE + "say(frame('S_END', me, end('early')))\nwhile True: time.sleep(0.01)", timeout="5s"
    )
    second = session.run("print('second')", timeout="1s")
    session.close()
    bad = (
        []
        if first.cause == "ok" and first.end.get("result") == "early"
        else [f"the claim was not taken: {first}"]
    )
    if second.cause != "timeout":
        bad.append(f"the run behind it, which did not begin in time: {second}")
    return bad


def unbelieved_limits(engine: Engine) -> list[str]:
    """A session cannot say that a limit ended it: such a cause is no claim at all."""
    bad = []
    for (
        word
    ) in "memory_limit cpu_limit disk_limit process_limit timeout signal denied interrupted cancelled lost root".split():
        run = one(engine, f"say(frame('S_END', me, end(None, cause={word!r})))\ntime.sleep(5)")
        if run.cause != "lost" or run.hits:
            bad.append(f"{word}: {run}")
    return bad


LOST = {
    "bytes that are no frame": "say(os.urandom(4096))",
    "zeros": "say(bytes(4096))",
    "a length past the most": "say(frame('S_END', me, b'', size=(16 << 20) + 1))",
    "an end of more than an end may have": "say(frame('S_END', me, b'', size=15 << 20))",
    "20000 questions, none awaited": "for _ in range(20000):"
    " say(frame('S_INPUT', me, {'prompt': 'x', 'password': False}))",
    "a length of 4 GB": "say(frame('S_END', me, b'', size=0xffffffff))",
    "an unknown type": "say(frame(999, me))",
    "descriptors announced": "say(frame('S_END', me, end('x'), nfds=2))",
    "an end that is no JSON": "say(frame('S_END', me, b'nonsense'))",
    "an end nested 100000 deep": "say(frame('S_END', me, b'[' * 100000))",
    "a second S_READY": "say(frame('S_READY', 0, {'pid': 2, 'uid': 0, 'seccomp': True, 'no_new_privs': True, 'python': "
                        "'3'}))",
    "a second S_STARTED": "say(frame('S_STARTED', 0, {'landlock_abi': 7}))",
    "a late S_FAILED": "say(frame('S_FAILED', 0, bytes(248)))",
    "its channel shut down": "socket.socket(fileno=os.dup(3)).shutdown(socket.SHUT_RDWR)",
}


def not_frames(engine: Engine) -> list[str]:
    """Each ends its session, soon, and as lost."""
    bad = []
    for what, code in LOST.items():
        run = one(engine, code + "\ntime.sleep(30)", timeout="20s")
        if (
            run.cause != "lost"
            or run.alive
            or run.seconds > 5
            or "lost" not in str(run.end.get("message"))
        ):
            bad.append(f"{what}: {run}")
    return bad


def not_its_own(engine: Engine) -> list[str]:
    """Every type that is not a session's to send."""
    theirs = {"S_READY", "S_FAILED", "S_STARTED", "S_DISPLAY", "S_INPUT", "S_END"}
    bad = []
    for name in frame_numbers():
        if name not in theirs:
            run = one(engine, f"say(frame({name!r}, me, bytes(64)))\ntime.sleep(30)", timeout="20s")
            if run.cause != "lost" or run.seconds > 5:
                bad.append(f"{name}: {run}")
    return bad


def unfinished(engine: Engine) -> list[str]:
    """A frame that claims 16 MB and stops swallows the true end: the wall time ends the run. Half a
    frame and an exit is an exit.
    """
    run = one(
        engine, "say(frame('S_DISPLAY', me, b'x' * 1000, size=16 << 20))", timeout="1s"
    )
    bad = [] if (run.cause, run.alive) == ("timeout", False) else [f"unfinished: {run}"]
    run = one(engine, "say(frame('S_END', me, end('x'))[:20])\nos._exit(7)")
    if (run.cause, run.end.get("exit_code")) != ("exit", 7):
        bad.append(f"half a frame and an exit: {run}")
    return bad


def closed(engine: Engine) -> list[str]:
    """Without its channel a session can tell no end: that never looks like a success, and does not
    last.
    """
    bad = []
    for code in (
        "os.close(3)",
        "os.dup2(1, 3)",
        "os.dup2(os.open('/dev/null', os.O_RDWR), 3)",
        "os.close(3)\ntime.sleep(30)",
    ):
        run = one(engine, code, timeout="20s")
        ended = run.cause == "lost" or (run.cause == "exit" and run.end.get("exit_code") != 0)
        if not ended or run.alive or run.seconds > 5:
            bad.append(f"{code}: {run}")
    return bad


def rights(engine: Engine) -> list[str]:
    """Descriptors that are attached are refused (SO_PASSRIGHTS, Linux 6.16) or dropped on arrival,
    and what they held is let go.
    """
    census = Census(engine.pid)
    session = engine.open(QUICK)
    session.run("1")
    before = {pid: descriptors(pid) for pid in (engine.pid, census.engine())}
    run = session.run(FORGE + """
s = socket.socket(fileno=os.dup(3))
r, w = os.pipe()
import errno
tries = 0
while tries < 100:
    tries += 1
    try:
        s.sendmsg([frame('S_END', me + 1, end('forged'))],
                  [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [w] * 50))])
    except OSError as e:
        if e.errno == errno.EPERM: break  # the socket takes none
        assert e.errno == errno.ETOOMANYREFS, e  # as many under way as one may have open
        time.sleep(0.001)
os.close(w)
os.set_blocking(r, False)
deadline = time.monotonic() + 15
def let_go():
    try: return os.read(r, 1) == b''
    except BlockingIOError: return False
while not let_go() and time.monotonic() < deadline: time.sleep(0.01)
print(let_go())
""")
    grown = {pid: (n, descriptors(pid)) for pid, n in before.items() if descriptors(pid) > n}
    bad = [f"descriptors arrived: {grown}"] if grown else []
    if run.stdout != "True\n":
        bad.append(f"what was sent along is still held: {run}")
    session.close()
    return bad


def floods(engine: Engine) -> list[str]:
    """Many frames, large frames: the run ends in order and the engine stays small."""
    bad, census = [], Census(engine.pid)
    for what, code in {
        "100000 stale ends": "data = frame('S_END', me + 1, end('x')) * 1000\nfor _ in range(100): say(data)",
        "20 stale frames of 15 MB": "data = frame('S_DISPLAY', me + 1, b'x' * (15 << 20))\n"
                                    "for _ in range(20): say(data)",
    }.items():
        session = engine.open(dict(QUICK, memory="512M"))
        census.reset_peaks()
        bad += [
            f"{what}: {b}" for b in own_words(session.run(FORGE + code + "\n" + OWN, timeout="30s"))
        ]
        bad += [f"{what}: {b}" for b in own_words(session.run("import time\n" + OWN))]
        warden, own = census.peaks_mib()
        if max(warden, own) > 64:
            bad.append(f"{what}: the engine grew to {own:.0f} MiB, the warden to {warden:.0f}")
        session.close()
    return bad


def displays(engine: Engine) -> list[str]:
    """Displays past the most that are kept are dropped, and the end says so."""
    run = one(
        engine,
        "body = {'data': {'text/plain': 'x' * 1000}, 'metadata': {}}\n"
        "for _ in range(3000): say(frame('S_DISPLAY', me, body))\nprint('said')",
        timeout="30s",
    )
    if (
        run.cause != "ok"
        or run.stdout != "said\n"
        or not run.end.get("truncated")
        or not 1 <= len(run.displays) < 3000
    ):
        return [f"{len(run.displays)} displays came: {run} truncated {run.end.get('truncated')}"]
    return []


def unread(engine: Engine) -> list[str]:
    """A session that is stopped reads nothing; more runs than may wait are refused, the others end
    with it.
    """
    session = engine.open(QUICK)
    begun = session.start("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", timeout="2s")
    waiting = [session.start("x = " + repr("y" * (1 << 18))) for _ in range(100)]
    first = session.wait(begun)
    ends = [session.wait(number).cause for number in waiting]
    time.sleep(0.1)
    bad = [] if first.cause == "timeout" else [f"the stopped run: {first}"]
    wrong = sorted({cause for cause in ends if cause != "lost" and not cause.startswith("error: ")})
    return bad + ([f"runs behind it ended as {wrong}"] if wrong else [])


SCENARIOS = [
    other_runs,
    replayed,
    ahead,
    early_end,
    unbelieved_limits,
    not_frames,
    not_its_own,
    unfinished,
    closed,
    rights,
    floods,
    displays,
    unread,
]
