"""Section E: the channel between a session and the engine, and what comes out of a session.

Whatever a session says is its claim, so forging one's own end is no break. A break is: the engine stops, another
session or a later run gets another's output, a descriptor arrives, or output stops being plain data.
"""
from __future__ import annotations

import os
import re

from drive import CAUSES, Stage, plain
from model import Row, Scenario
from probe import *  # noqa: F403


def frame_types() -> dict:
    """Name -> number, from the header that defines them."""
    path = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../src/wire/proto.h")
    with open(path) as f:
        body = re.search(r"enum kr_frame_type \{(.*?)\};", f.read(), re.S).group(1)
    names = re.findall(r"\b(KR_[A-Z_]+)\b\s*(?:=\s*0)?,", re.sub(r"/\*.*?\*/", "", body, flags=re.S))
    return {name: number for number, name in enumerate(names)}


FORGE = r'''
import json, os, socket, stat, struct
def frame(kind, run, payload=b'', nfds=0, length=None):
    if not isinstance(payload, bytes): payload = json.dumps(payload).encode()
    return struct.pack('IHHII', len(payload) if length is None else length, kind, nfds, run, 0) + payload
def channels():
    found = []
    for fd in range(3, 1024):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode): found.append(fd)
        except OSError: pass
    return found
def end(cause='ok', result=None, **more):
    return dict({'cause': cause, 'exit_code': 0, 'result': result, 'error': None, 'variables': ['forged'],
                 'hint': None, 'copy': False}, **more)
def current():
    """The number of the run this code is, from the runner's own frames."""
    import sys
    f = sys._getframe()
    while f and 'run_id' not in f.f_locals: f = f.f_back
    return f.f_locals['run_id']
def say(data):
    for fd in channels():
        try: os.write(fd, data)
        except OSError: pass
'''


def prelude() -> str:
    return f"T = {frame_types()!r}\n" + FORGE


def well_formed(end) -> list:
    told = end.end
    if told.get("event") != "end" or told.get("cause") not in CAUSES:
        return [f"an end without a true cause: {str(told)[:200]}"]
    return []


def alive_beside(stage: Stage, bystander) -> list:
    got = bystander.run("print(6 * 7)\nkept")
    if got.cause != "ok" or got.stdout != "42\n" or got.end.get("result") != "'mine'":
        return [f"the session beside it is disturbed: {got.cause} {got.stdout!r} {got.end.get('result')}"]
    return []


def bystander_of(stage: Stage):
    session = stage.open()
    session.run("kept = 'mine'")
    return session


# ---- E1 ----


def frames_on_streams(stage: Stage) -> list:
    """Every frame, written to stdout and stderr, is text there and nothing else."""
    session = stage.open()
    end = session.run(
        prelude()
        + """
import sys
data = b''.join(frame(t, r, end(result='forged')) for t in T.values() for r in (0, 1, 2)) + bytes(range(256)) + b'\\n'
sys.stdout.flush()
for fd in (1, 2):
    view = memoryview(data)
    while view: view = view[os.write(fd, view):]
len(data)
"""
    )
    bad = well_formed(end)
    for name, text in (("stdout", end.stdout), ("stderr", end.stderr)):
        if text.count("forged") < 3 * (len(frame_types()) - 1):
            bad.append(f"{name} lost some of it: {len(text)} characters")
    if end.cause != "ok" or not str(end.end.get("result", "")).isdigit():
        bad.append(f"the end was believed from a stream: {end.cause} {end.end.get('result')}")
    if session.run("print('next')").stdout != "next\n":
        bad.append("the next run is disturbed")
    session.close()
    return bad


def later_run(stage: Stage) -> list:
    """Ends, displays and questions for runs that are not current, the very next ones among them, are dropped."""
    session, bystander = stage.open(), bystander_of(stage)
    first = session.run(
        prelude()
        + """
import time
here = current()
for run in list(range(here + 1, here + 50)) + [r for r in (0, here - 1, 0xffffffff) if r != here and r >= 0]:
    say(frame(T['KR_S_DISPLAY'], run, {'data': {'text/plain': 'forged'}, 'metadata': {}}))
    say(frame(T['KR_S_INPUT'], run, {'prompt': 'forged', 'password': False}))
    say(frame(T['KR_S_END'], run, end(result='forged')))
time.sleep(0.2)
print('said')
6 * 9
"""
    )
    bad = well_formed(first)
    if first.end.get("session_alive") and (first.stdout != "said\n" or first.end.get("result") != "54"):
        bad.append(f"the run itself got forged words: {first.stdout!r} {str(first.end)[:200]}")
    for n in range(2):
        got = session.run(f"print('run', {n})\n{n} + 40")
        if got.end.get("event") == "error" or got.cause == "lost":
            break  # the session was ended for it, which is right too
        if got.end.get("result") != str(n + 40) or got.stdout != f"run {n}\n" or got.end.get("displays"):
            bad.append(f"a later run got forged words: {got.cause} {got.end.get('result')} {got.stdout!r}")
    bad += alive_beside(stage, bystander)
    session.close()
    bystander.close()
    return bad


def own_end(stage: Stage) -> list:
    """Its own end is a session's to claim, early or twice; what it says about itself reaches no other session."""
    session, bystander = stage.open(), bystander_of(stage)
    first = session.run(
        prelude()
        + "import time\nfor _ in range(3): say(frame(T['KR_S_END'], current(), end(result='claimed')))\n"
        "print('late')\ntime.sleep(0.3)\nprint('later')"
    )
    bad = well_formed(first) + alive_beside(stage, bystander)
    if first.end.get("limits_hit"):
        bad.append(f"limits were claimed: {first.end['limits_hit']}")
    later = session.run("print('next')", timeout="10s")
    if later.end.get("event") == "end":
        bad += well_formed(later)
    bad += alive_beside(stage, bystander)
    session.close()
    bystander.close()
    return bad


GARBAGE = {
    "random bytes": "say(os.urandom(65536))",
    "a length past every bound": "say(frame(T['KR_S_END'], 1, b'', length=0xffffffff) + b'x' * 100000)",
    "a frame cut short": "say(frame(T['KR_S_END'], 1, b'', length=100))",
    "every type there is": "say(b''.join(frame(t, 1, {'cause': 'ok'}) for t in list(T.values()) + [999, 65535]))",
    "descriptors announced": "say(frame(T['KR_S_END'], 1, end(), nfds=3))",
    "the warden's own words": "say(b''.join(frame(T[n], 1, bytes(64)) for n in T if n[:5] in "
    "('KR_W_', 'KR_Z_', 'KR_B_', 'KR_I_')))",
    "a second start": "say(frame(T['KR_S_STARTED'], 0, {'landlock_abi': 99}) + "
    "frame(T['KR_S_READY'], 0, {'uid': 0}) + frame(T['KR_S_FAILED'], 0, bytes(248)))",
    "its channel closed": "[os.close(fd) for fd in channels()]",
    "its channel shut down": "[socket.socket(fileno=os.dup(fd)).shutdown(2) for fd in channels()]",
}


def garbage(stage: Stage) -> list:
    bystander, bad = bystander_of(stage), []
    for what, code in GARBAGE.items():
        session = stage.open()
        bad += [
            f"{what}: {b}"
            for b in well_formed(session.run(prelude() + code + "\nprint('done')", timeout="5s"))
        ]
        bad += [f"{what}: {b}" for b in alive_beside(stage, bystander)]
        session.close()
    bystander.close()
    return bad


def descriptors(stage: Stage) -> list:
    """Descriptors sent along the channel never arrive."""
    bystander, session = bystander_of(stage), stage.open()
    pids = tree_of(stage.engine.process.pid)
    before = {pid: count_fds(pid) for pid in pids}
    end = session.run(
        prelude()
        + """
import array
given = [os.open('/dev/null', os.O_RDONLY) for _ in range(50)]
sent = 0
for fd in channels():
    s = socket.socket(fileno=os.dup(fd))
    for _ in range(20):
        try:
            s.sendmsg([frame(T['KR_S_DISPLAY'], 999999, {'data': {}, 'metadata': {}})],
                      [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', given))])
            sent += 1
        except OSError as e: print(e)
    s.close()
for fd in given: os.close(fd)  # what is counted is what arrived
print('@' + json.dumps([sent]))
"""
    )
    bad = alive_beside(stage, bystander)
    after = {pid: count_fds(pid) for pid in before}
    grown = {pid: (before[pid], after[pid]) for pid in before if after[pid] > before[pid] + 20}
    if grown:
        bad.append(f"descriptors arrived: {grown}")
    if end.cause == "ok" and end.marked() == [0]:
        stage.note("E1: the kernel refused to send descriptors at all")
    session.close()
    bystander.close()
    return bad


def tree_of(pid: int) -> list:
    """The process and its descendants."""
    parents: dict = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as f:
                parents.setdefault(int(f.read().rsplit(")", 1)[1].split()[1]), []).append(int(name))
        except OSError:
            pass
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        todo += parents.get(found[-1], [])
    return found


def count_fds(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


# ---- E2: the runner inside ----


def e2():
    def listed():
        return sorted(int(n) for n in os.listdir("/proc") if n.isdigit())

    seen = {"processes": listed() if attempt(listed) == "ok" else []}
    own = set()
    pid = os.getpid()
    own.update((pid, 1))
    seen["strangers"] = [p for p in seen["processes"] if p not in own] if INSIDE else []
    for name in ("SIGKILL", "SIGSTOP", "SIGINT", "SIGTERM", "SIGSEGV"):
        seen["init_" + name] = call(62, 1, getattr(signal, name)) if INSIDE else "not tried"
    files = [getattr(m, "__file__", None) for n, m in list(sys.modules.items()) if "krait" in n.lower()]
    for extra in (json.__file__, os.__file__):
        files.append(extra)
    writable = {}
    for path in filter(None, files):
        for target in (path, os.path.dirname(path)):
            if os.path.exists(target):
                writable[target] = "ok" if os.access(target, os.W_OK) else "no"
        if os.path.exists(path):
            writable["open " + path] = try_open(path, os.O_RDWR)
            writable["rename " + path] = attempt(os.rename, path, path + ".x") if INSIDE else "not tried"
    seen["writable"] = writable
    return seen


def judge_e2(o, ctx):
    allowed = (
        ("EPERM", "ok") if ctx.init_is_kin else ("EPERM",)
    )  # that it survived shows in the rows after this one
    bad = [f"{k}: {v}" for k, v in o.items() if k.startswith("init_") and v not in allowed]
    if not ctx.contained and o["strangers"]:
        bad.append(f"other processes are listed: {o['strangers']}")
    if ctx.contained and o["processes"]:
        bad.append(f"/proc is listed: {len(o['processes'])} processes")
    # access(2) is not Landlock's to judge: where that is all there is, only what was really tried counts.
    bad += [
        f"{path}: {got}"
        for path, got in o["writable"].items()
        if not (ctx.contained and path.startswith("/"))
        and got not in ("no", "EROFS", "EACCES", "EPERM", "ETXTBSY", "EXDEV")
    ]
    return bad


def control_e2(o, ctx):
    opened = {v for k, v in o["writable"].items() if k.startswith("open ")}
    if opened == {"EROFS"}:
        ctx.note("E2: /usr is read-only on this machine, so its files cannot be written outside either")
    elif "ok" not in opened:
        return [f"outside no file of the interpreter can be written either: {opened}"]
    return [] if len(o["processes"]) >= 3 else ["outside no processes are listed either"]


# ---- E3: frames and objects ----


def e3():
    import gc

    frame, names = sys._getframe(), []
    while frame:
        names.append(frame.f_code.co_name)
        top = frame
        frame = frame.f_back
    reached = sorted(k for k in top.f_globals if not k.startswith("__"))[:40]

    class Walk:
        pass

    try:
        Walk().nothing
    except AttributeError as e:
        reached.append(type(e.obj).__name__ if hasattr(e, "obj") else "")
    formatted = "{0.__class__.__mro__[1].__subclasses__}".format(Walk())
    called = {}
    modules = [m for n, m in list(sys.modules.items()) if "krait" in n.lower()]

    def quietly(fn, args):
        for fd in range(3, 64):  # not the channel: what can be said there is E1's
            try:
                os.close(fd)
            except OSError:
                pass
        os.dup2(os.open("/dev/null", os.O_RDWR), 1)
        os.dup2(1, 2)
        os.dup2(1, 0)
        signal.alarm(2)
        attempt(fn, *args)
        return [
            call(272, 0x10000000),
            call(425, 8, None),
            L.prctl(39, 0, 0, 0, 0),
            call(165, None, None, None, 0, None),
            os.geteuid(),
        ]

    for module in modules:
        if getattr(module, "__file__", "") and str(module.__file__).endswith(".py"):
            continue  # Python code does what the session could do itself
        for name in dir(module):
            fn = getattr(module, name)
            if not callable(fn) or isinstance(fn, type):
                continue
            for args in ((), (0,), (0, 0), (b"",), ("",), (-1, b"x")):
                got = forked(lambda: quietly(fn, args), 4)
                if "value" in got and got["value"][:4] != ["EPERM", "EPERM", 1, "EPERM"]:
                    called["%s%r" % (name, args)] = got["value"]
    return {
        "frames": names[-8:],
        "reached": reached,
        "objects": len(gc.get_objects()),
        "formatted": formatted[:60],
        "modules": sorted(m.__name__ for m in modules),
        "weaker": called,
    }


def judge_e3(o, ctx):
    bad = [f"less confined after {name}: {got}" for name, got in o["weaker"].items()]
    if o["objects"] < 100:
        bad.append("the walk found no objects: the row shows nothing")
    return bad


def corrupt():
    """Arbitrary reads and writes, the way an interpreter bug would give them. Runs in front of section A again (E4)."""
    import types

    text = bytes(b"immutable-text")
    ctypes.memmove(id(text) + bytes.__basicsize__ - 1, b"Corrupted", 9)
    assert text.startswith(b"Corrupted")
    number = 10**30  # an int whose digits are rewritten in place
    ctypes.memset(id(number) + int.__basicsize__, 0xFF, 4)
    page = ctypes.cast(L.getpid, ctypes.c_void_p).value & ~4095
    if L.mprotect(ctypes.c_void_p(page), 4096, 7) == 0:  # libc's own text, writable and executable
        ctypes.memmove(page, ctypes.string_at(page, 16), 16)

    def forge():
        code = (lambda: None).__code__
        junk = code.replace(co_code=bytes([100, 255, 83, 0]) * 4, co_consts=(1,))
        return str(types.FunctionType(junk, {})())[:10]

    forked(forge)


# ---- E5, E6 ----

POISON = """
import builtins, json, sys, os, struct, types
json.dumps = lambda *a, **k: '{"cause":"ok","result":"poisoned"}'
json.loads = lambda *a, **k: {'code': 'print("poisoned")', 'name': 'x'}
json.JSONEncoder.encode = lambda *a: 'poisoned'
sys.displayhook = lambda v: os.write(1, b'poisoned')
sys.excepthook = lambda *a: os.write(1, b'poisoned')
struct.pack = lambda *a: b'poisoned'
builtins.repr = lambda v: 'poisoned'
builtins.print = lambda *a, **k: os.write(1, b'poisoned\\n')
builtins.len = lambda v: 0
builtins.compile = lambda *a, **k: (_ for _ in ()).throw(RuntimeError('poisoned'))
class Hook:
    def find_spec(self, name, path=None, target=None):
        os.write(1, b'poisoned import\\n'); return None
sys.meta_path.insert(0, Hook())
for name in ('base64', 'traceback', 'ast', 'io', 'linecache'): sys.modules[name] = types.ModuleType(name)
class Evil:
    def __repr__(self): raise SystemExit('poisoned')
    __str__ = __format__ = __repr__
    def _repr_html_(self): os._exit(3)
"""


def poison(stage: Stage) -> list:
    bystander, session = bystander_of(stage), stage.open()
    first = session.run(POISON)
    bad = well_formed(first)
    for code in ("6 * 7", "import csv", "1/0", "Evil()", "raise SystemExit(3)"):
        got = session.run(code, timeout="10s")
        if got.end.get("event") == "error":
            break
        bad += [f"after {code!r}: {b}" for b in well_formed(got)]
        if not isinstance(got.end.get("variables", []), list) or not isinstance(
            got.end.get("wall_s", 0), (int, float)
        ):
            bad.append(f"after {code!r}: a malformed end {str(got.end)[:200]}")
    bad += alive_beside(stage, bystander)
    later = stage.open()
    got = later.run("import json\nprint(json.dumps([1]))\n6 * 7")
    if got.stdout != "[1]\n" or got.end.get("result") != "42":
        bad.append(f"a later session is poisoned: {got.stdout!r} {got.end.get('result')}")
    for s in (session, later, bystander):
        s.close()
    return bad


CLAIMS = {
    "deep nesting": "b'[' * 200000",
    "deep objects": "b'{\"a\":' * 100000",
    "not a number": "b'{\"cause\":\"ok\",\"exit_code\":NaN,\"result\":Infinity}'",
    "lone surrogates": "b'{\"cause\":\"ok\",\"exit_code\":0,\"result\":\"\\\\ud800\",\"variables\":[\"\\\\udfff\"]}'",
    "bad UTF-8": "b'{\"cause\":\"ok\",\"result\":\"\\xff\\xfe\\xc0\\xaf\"}'",
    "NUL": "b'{\"cause\":\"ok\",\"result\":\"a\\\\u0000b\"}'",
    "wrong types": "b'{\"cause\":[],\"exit_code\":\"x\",\"result\":{},\"error\":7,\"variables\":{\"a\":1}}'",
    "a cause that is not one": "b'{\"cause\":\"root\",\"exit_code\":0}'",
    "a limit nobody saw": "json.dumps(end('memory_limit')).encode()",
    "huge numbers": "b'{\"cause\":\"ok\",\"exit_code\":' + b'9' * 5000 + b'}'",
    "twice the same key": "b'{\"cause\":\"ok\",\"cause\":\"exit\",\"exit_code\":0,\"exit_code\":1}'",
    "not JSON": "b'\\x80\\x04\\x95cos\\nsystem\\n'",
    "nothing": "b''",
    "15 MB": "json.dumps(end(result='x' * (15 << 20))).encode()",
    "many variables": "json.dumps(dict(end(), variables=['v%d' % i for i in range(200000)])).encode()",
}


def claims(stage: Stage) -> list:
    bystander, bad = bystander_of(stage), []
    for what, code in CLAIMS.items():
        session = stage.open()
        payload = f"payload = {code}\n"
        got = session.run(
            prelude()
            + payload
            + "for run in (1, 2, 3, 4):\n for kind in ('KR_S_DISPLAY', 'KR_S_INPUT', 'KR_S_END'):\n"
            "  say(frame(T[kind], run, payload))\nprint('said')",
            timeout="10s",
        )
        bad += [f"{what}: {b}" for b in well_formed(got)]
        if what == "a limit nobody saw" and got.cause == "memory_limit":
            bad.append("a limit was believed that no counter saw")
        session.close()
    bad += alive_beside(stage, bystander)
    if stage.engine.broken:
        bad.append(f"the engine passed on what is no JSON: {stage.engine.broken[:2]}")
    bystander.close()
    return bad


def odd_text(stage: Stage) -> list:
    session = stage.open()
    got = session.run(
        "import sys, os\nos.write(1, b'\\xff\\xc3(\\xed\\xa0\\x80\\x00\\x1b]0;title\\x07')\n"
        "try: print('\\ud800')\nexcept UnicodeEncodeError: print('refused')\n'\\udcff\\x00' + 'x'"
    )
    bad = well_formed(got)
    if stage.engine.broken:
        bad.append(f"broken lines: {stage.engine.broken[:2]}")
    if session.run("print('next')").stdout != "next\n":
        bad.append("the next run is disturbed")
    session.close()
    return bad


def forge_control() -> list:
    """Outside, bytes written to an inherited channel do arrive, and descriptors: only care stops them."""
    seen = plain(
        prelude()
        + """
import array
ours, theirs = socket.socketpair()
theirs.set_inheritable(True)
if os.fork() == 0:
    ours.close(); say(frame(T['KR_S_END'], 1, end(result='forged')))
    theirs.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0]))]); os._exit(0)
theirs.close(); os.wait()
data, fds, _, _ = socket.recv_fds(ours, 100000, 8)
more, fds2, _, _ = socket.recv_fds(ours, 100000, 8)
print('@' + json.dumps([b'forged' in data, len(fds) + len(fds2)]))"""
    ).marked()
    return (
        []
        if seen == [True, 1]
        else [f"forged frames and descriptors do not arrive in a plain process: {seen}"]
    )


def poison_control() -> list:
    got = plain(
        POISON.replace("builtins.compile", "_unused")
        + "\nos.write(1, json.dumps([1]).encode())\nprint(6 * 7)"
    )
    return (
        []
        if "poisoned" in got.stdout and "42" not in got.stdout
        else [f"the patches have no effect outside: {got.stdout!r}"]
    )


def claims_control() -> list:
    got = plain(
        "import json\nprint('@' + json.dumps(str(json.loads('{\"a\":NaN,\"b\":\"\\\\ud800\"}')['a'])[:3].split()))\n"
        "try: json.loads('[' * 200000)\nexcept RecursionError: print('deep')"
    )
    return (
        []
        if got.marked() == ["nan"] and "deep" in got.stdout
        else [f"a careless parser takes them no worse: {got.stdout!r} {got.stderr[-100:]}"]
    )


ROWS = [
    Row(
        "E2",
        "the runner inside: signals to it, its files",
        e2,
        judge_e2,
        control=control_e2,
        inline=True,
        control_says="signals to pid 1 are not tried outside",
    ),
    Row(
        "E3",
        "frames, objects, and every function of the extension",
        e3,
        judge_e3,
        inline=True,
        no_control="it shows the absence of a lever; that its last calls would work outside is A1's, A7's, A8's",
    ),
]
SCENARIOS = [
    Scenario("E1-streams", "frames on stdout and stderr are text", frames_on_streams, control=forge_control),
    Scenario(
        "E1-stale", "frames for runs that are not current are dropped", later_run, control=forge_control
    ),
    Scenario("E1-own", "a forged end of one's own is one's own claim", own_end, control=forge_control),
    Scenario(
        "E1-garbage", "bytes that are no frames end one session at most", garbage, control=forge_control
    ),
    Scenario("E1-descriptors", "descriptors sent along never arrive", descriptors, control=forge_control),
    Scenario("E5", "patched builtins, json, import hooks", poison, control=poison_control),
    Scenario("E6", "claims that a careless parser would choke on", claims, control=claims_control),
    Scenario("E6-text", "bytes that are no text", odd_text, control=claims_control),
]
