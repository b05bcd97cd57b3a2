"""Section C: what a session inherits by being forked from a warm interpreter, and who is signalled. All are scenarios.

C4 to C7 are about checkpoints, which do not exist yet (model.OMITTED).
"""
from __future__ import annotations

import ctypes
import json
import os
import re
import secrets
import subprocess
import tempfile
import time

from drive import PYTHON, Engine, Stage, plain
from model import Scenario

# ---- C1: other people's bytes in the memory one starts with ----

# The needle is never whole in the scanner's memory: its first eight bytes are looked for, and what follows is compared
# byte by byte with a coded copy.
SCAN = """
import ctypes, json, re
def scan(coded, key):
    heads = {bytes(c ^ key for c in code[:8]): (name, code[8:]) for name, code in coded.items()}
    pattern = re.compile(b'|'.join(re.escape(h) for h in heads))
    hits, total, failed = {}, 0, 0
    with open('/proc/self/maps') as f: maps = f.read().splitlines()
    try: mem = open('/proc/self/mem', 'rb', buffering=0)
    except PermissionError: mem = None  # not dumpable, or not Landlock's: read as any code can
    def read(at, size):
        if mem is None: return ctypes.string_at(at, size)
        mem.seek(at)
        return mem.read(size)
    for line in maps:
        span, rights = line.split()[:2]
        low, high = (int(x, 16) for x in span.split('-'))
        if 'r' not in rights or '[v' in line: continue
        at, tail = low, b''
        while at < high:
            try: piece = read(at, min(1 << 20, high - at))
            except (OSError, OverflowError): failed += 1; break
            if not piece: break
            data = tail + piece
            for m in pattern.finditer(data):
                name, rest = heads[m.group()]
                there = data[m.end():m.end() + len(rest)]
                if len(there) == len(rest) and all(a == b ^ key for a, b in zip(there, rest)):
                    hits.setdefault(name, []).append(line.split()[-1] if len(line.split()) > 5 else hex(at))
            at += len(piece); total += len(piece); tail = data[-64:]
            del data, piece
    return {'hits': hits, 'bytes': total, 'failed': failed}
print('@' + json.dumps(scan({k: bytes.fromhex(v) for k, v in CODED.items()}, KEY)))
"""
KEY = 0xA5


def scanner(canaries: dict) -> str:
    coded = {name: bytes(b ^ KEY for b in value.encode()).hex() for name, value in canaries.items()}
    return f"CODED = {coded!r}\nKEY = {KEY}\n" + SCAN


def judge_scan(seen: dict, least: int = 4 << 20) -> list:
    bad = [f"{name} found in {places[:3]}" for name, places in seen["hits"].items()]
    if seen["bytes"] < least:
        bad.append(f"only {seen['bytes']} bytes could be read: the scan shows nothing")
    return bad


def inherited(stage: Stage) -> list:
    code, variable, text, environ = ("kr" + secrets.token_hex(16) for _ in range(4))
    canaries = {
        "the caller's environment and arguments": stage.bait.canary,
        "another's code": code,
        "another's variable": variable,
        "another's stdin": text,
        "another's environment": environ,
    }
    first = stage.open(env={"CANARY": environ})
    half = len(variable) // 2
    end = first.run(
        f"# {code}\nkept = {variable[:half]!r} + {variable[half:]!r}\nlist_of = [kept * 3 for _ in range(100)]\n"
        "import sys\ntry: line = input()\nexcept EOFError: line = ''\nprint(len(kept), repr(line)[:5])",
        stdin=text + "\n",
    )
    bad = [] if end.cause == "ok" else [f"the first session: {end.cause} {end.end.get('error')}"]
    own = first.run(scanner({"variable": variable})).marked()
    if "variable" not in own["hits"]:
        bad.append("the scanner does not find a session's own variable: the row shows nothing")
    beside = stage.open()
    bad += [f"beside it: {b}" for b in judge_scan(beside.run(scanner(canaries)).marked())]
    first.close()
    after = stage.open()
    bad += [f"after it: {b}" for b in judge_scan(after.run(scanner(canaries)).marked())]
    beside.close()
    after.close()
    return bad


def inherited_control() -> list:
    canary = "kr" + secrets.token_hex(16)
    absent = plain(scanner({"x": canary})).marked()
    in_environ = plain(scanner({"x": canary}), env={"KRAIT_TEST_SECRET": canary}).marked()
    forked = plain(
        f"kept = bytearray(b{canary!r})\nimport os, sys\nif os.fork(): os.wait(); sys.exit()\n"
        + scanner({"x": canary})
    ).marked()
    bad = [] if not absent["hits"] else [f"the scanner finds itself: {absent}"]
    bad += [] if in_environ["hits"] else ["a secret in the environment of a plain process is not found"]
    bad += [] if forked["hits"] else ["a forked process's inherited bytes are not found"]
    return bad


# ---- C2, C3: random numbers and addresses ----

RANDOM = """
import json, os, random, secrets, ssl, tempfile, uuid
seen = {'random': random.random(), 'randbytes': random.getrandbits(128), 'uuid4': str(uuid.uuid4()),
  'uuid1': str(uuid.uuid1()), 'secrets': secrets.token_hex(16), 'ssl': ssl.RAND_bytes(16).hex(),
  'urandom': os.urandom(16).hex(), 'mktemp': tempfile.mktemp(),
  'system_random': random.SystemRandom().random(), 'new_random': random.Random().random()}
try:
    import numpy
    seen['numpy'] = numpy.random.random()
    seen['numpy_int'] = int(numpy.random.randint(0, 2**62))
    seen['numpy_rng'] = numpy.random.default_rng().random()
    seen['numpy_state'] = str(numpy.random.get_state()[1][:4])
except ImportError:
    pass
print('@' + json.dumps(seen))
"""


def same_values(answers: list) -> list:
    return [
        f"{name}: {values}"
        for name in answers[0]
        for values in [[a.get(name) for a in answers]]
        if len({json.dumps(v) for v in values}) != len(values)
    ]


def randomness(stage: Stage) -> list:
    sessions = [stage.open() for _ in range(4)]
    answers = [s.run(RANDOM).marked() for s in sessions]
    again = sessions[0].run(RANDOM).marked()
    for s in sessions:
        s.close()
    # Drawing a number need not change the part of the state that is looked at: not compared with itself in that.
    bad = same_values(answers) + [
        f"the same again: {name}"
        for name in again
        if name != "numpy_state" and again[name] == answers[0][name]
    ]
    if stage.preload == "data" and "numpy" not in answers[0]:
        bad.append("numpy is not there")
    return bad


def randomness_control() -> list:
    # Forked without reseeding, generators do repeat: shown with one that Python itself does not reseed.
    seen = plain(
        "import json, os, random\nr = random.Random()\n"
        "try:\n import numpy\nexcept ImportError:\n numpy = None\n"
        "def one():\n a, b = os.pipe()\n if os.fork() == 0:\n"
        "  os.write(b, json.dumps([r.random(), float(numpy.random.random()) if numpy else 0]).encode()); os._exit(0)\n"
        " os.wait(); return json.loads(os.read(a, 1000))\nprint('@' + json.dumps([one(), one()]))"
    ).marked()
    return [] if seen[0] == seen[1] else [f"forked generators differ without being reseeded: {seen}"]


ADDRESSES = """
import json
maps = open('/proc/self/maps').read().splitlines()
print('@' + json.dumps({'libc': next(m for m in maps if 'libc.so' in m or 'libc-2' in m).split('-')[0],
  'heap': next((m.split('-')[0] for m in maps if '[heap]' in m), '')}))
"""


def addresses(stage: Stage) -> list:
    first = stage.open()
    one = first.run(ADDRESSES).marked()
    first.close()
    if not stage.rotate():
        return ["the zygote was never replaced, though the engine was told to"]
    second = stage.open()
    two = second.run(ADDRESSES).marked()
    second.close()
    return (
        []
        if one["libc"] != two["libc"]
        else [f"the libraries are at the same place in another zygote: {one}"]
    )


def addresses_control() -> list:
    seen = {plain(ADDRESSES).marked()["libc"] for _ in range(3)}
    return [] if len(seen) > 1 else ["this machine does not randomise addresses at all"]


# ---- C8: signals go to whom they are meant for ----

CHURN = """
import os
print('started', flush=True)
try:
    for _ in range(300):
        if os.fork() == 0: os._exit(0)
        os.wait()
    print('churned', flush=True)
    while True: pass
except KeyboardInterrupt:
    print('interrupted', flush=True)
"""


def right_pid(stage: Stage) -> list:
    with tempfile.TemporaryDirectory(prefix="escape-strace-") as folder:
        traced = (
            stage.way == "root" and stage.preload == "basic"
        )  # the warden's code is the same in all others, and tracing is slow
        trace = os.path.join(folder, "trace") if traced else None
        engine = Engine(
            stage.krait, stage.the_way, stage.bait, stage.preload, pool=1 if stage.pooled else 0, strace=trace
        )
        inner = Stage(**{**stage.__dict__, "engine": engine})
        try:
            bad = churn_and_interrupt(inner)
        finally:
            bad_end = engine.close()
        if trace:
            with open(trace) as f:
                calls = f.read()
            bad += by_number(calls)
    return bad + bad_end


def by_number(trace: str) -> list:
    """A number may have been given to another process meanwhile. Only a child that is not reaped yet keeps its own."""
    parents = {
        int(child): int(parent)
        for parent, child in re.findall(r"^(\d+) .*\b(?:clone3?|v?fork)\b.* = (\d+)$", trace, re.M)
    }
    bad = []
    for caller, target, result in re.findall(r"^(\d+) +t?kill\((\d+), SIG\w+\) += (.*)$", trace, re.M):
        if target == "0":
            continue  # one's own group
        if parents.get(int(target)) != int(caller):
            bad.append(f"{caller} signals {target} by number, which is not its child")
        elif result != "0":
            bad.append(f"{caller} signals its child {target} by number after having reaped it: {result}")
    if "pidfd_send_signal" not in trace:
        bad.append("no signal by pidfd was seen: the trace shows nothing")
    return bad


def churn_and_interrupt(stage: Stage) -> list:
    bad = []
    bystander, closed, busy = stage.open(), stage.open(), stage.open()
    waiting = bystander.start(
        "import time\ntry:\n    print('asleep', flush=True)\n    time.sleep(90)\n"
        "except KeyboardInterrupt:\n    print('hit')"
    )
    stage.engine.wait_text(waiting, "asleep")
    closed.close()
    got = closed.interrupt()
    if got.get("event") != "error":
        bad.append(f"a session that is gone was interrupted: {got}")
    run = busy.start(CHURN)
    stage.engine.wait_text(run, "churned")
    busy.interrupt()
    end = busy.wait(run, 30)
    if "interrupted" not in end.stdout:
        bad.append(f"the interrupt did not arrive: {end.cause} {end.stdout!r}")
    if not stage.engine.box(waiting).empty():
        bad.append("another session was hit")
    bystander.interrupt()
    quiet = bystander.wait(waiting, 30)
    if quiet.stdout != "hit\n":
        bad.append(f"the other session cannot be interrupted: {quiet.cause} {quiet.stdout!r}")
    if not stage.bait.victim_alive():
        bad.append("a process outside was hit")
    busy.close()
    bystander.close()
    return bad


# ---- D, as far as it is about isolation: what outlives its session ----

DAEMON = """
import os, subprocess, sys, time
WORD = 'outlives-' + MARK_
code = "import signal, sys, time\\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\\ntime.sleep(600)"
for _ in range(3):
    if os.fork() == 0:
        try: os.setsid()
        except OSError: pass
        if os.fork() == 0:
            os.execv('/usr/bin/python3', ['python3', '-S', '-c', code, WORD])
        os._exit(0)
    os.wait()
time.sleep(0.3)
print('left', flush=True)
"""


def processes_with(word: str) -> list:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if word.encode() in f.read().split(b"\0"):
                    found.append(int(pid))
        except OSError:
            pass
    return found


def outlive(stage: Stage) -> list:
    mark = secrets.token_hex(8)
    session = stage.open()
    end = session.run(f"MARK_ = {mark!r}\n" + DAEMON)
    bad = [] if "left" in end.stdout else [f"no daemons: {end.cause} {end.stdout} {end.stderr[-200:]}"]
    deadline = time.monotonic() + 20  # they are seen by their words, after their exec
    while not bad and not processes_with("outlives-" + mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    if not bad and not processes_with("outlives-" + mark):
        bad.append("the daemons cannot be seen from outside: the row shows nothing")
    session.close()
    deadline = time.monotonic() + 20
    while processes_with("outlives-" + mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = processes_with("outlives-" + mark)
    if left:
        bad.append(f"after the session's end {len(left)} processes are left")
    return bad


def outlive_control() -> list:
    mark = secrets.token_hex(8)
    # With our pipes in their hands the daemons would make us wait for them.
    quiet = "os.setsid()\n        except OSError: pass\n        for n in (0, 1, 2): os.dup2(os.open('/dev/null', 2), n)"
    plain(
        f"MARK_ = {mark!r}\n"
        + DAEMON.replace("sleep(600)", "sleep(5)").replace("os.setsid()\n        except OSError: pass", quiet)
    )
    left = processes_with("outlives-" + mark)
    for pid in left:
        os.kill(pid, 9)
    return [] if left else ["daemons of a plain process do not outlive it either"]


# ---- A22 between sessions: everything that two processes of one machine could share by name ----

SHARED = """
import ctypes, errno, json, os, socket, sys
L = ctypes.CDLL(None, use_errno=True)
def got(r): return 'ok' if r >= 0 else errno.errorcode.get(ctypes.get_errno())
def attempt(fn):
    try: fn(); return 'ok'
    except OSError as e: return errno.errorcode.get(e.errno)
"""
MAKE = (
    SHARED
    + """
listener = None
def listen():
    global listener
    listener = socket.socket(socket.AF_UNIX); listener.bind('\\0' + WORD); listener.listen(4)
os.umask(0)
print('@' + json.dumps({'shm': got(L.shmget(KEY, 4096, 0o1666)), 'sem': got(L.semget(KEY, 1, 0o1666)),
  'msg': got(L.msgget(KEY, 0o1666)), 'mq': got(L.syscall(240, WORD.encode(), os.O_CREAT | os.O_RDWR, 0o666, None)),
  'abstract': attempt(listen),
  'dev_shm': attempt(lambda: open('/dev/shm/' + WORD, 'w').close()), 'pid': os.getpid()}), flush=True)
"""
)
LOOK_FOR = (
    SHARED
    + """
def connect():
    with socket.socket(socket.AF_UNIX) as s: s.connect('\\0' + WORD)
def taken():
    with socket.socket(socket.AF_UNIX) as s: s.bind('\\0' + WORD)
seen = {'shm': got(L.shmget(KEY, 0, 0)), 'sem': got(L.semget(KEY, 0, 0)), 'msg': got(L.msgget(KEY, 0)),
  'mq': got(L.syscall(240, WORD.encode(), os.O_RDONLY | os.O_NONBLOCK, 0, None)), 'abstract': attempt(connect),
  'dev_shm': attempt(lambda: open('/dev/shm/' + WORD).close()),
  'name_taken': 'no' if attempt(taken) != 'EADDRINUSE' else 'ok',
  'listed': 'ok' if any(WORD in open(p).read() for p in ('/proc/self/net/unix',) if os.access(p, os.R_OK)) else 'no'}
for signal in (0, 28): seen['signal_%d' % signal] = attempt(lambda: os.kill(PID, signal)) if PID else 'no'
for name in ('mem', 'environ', 'maps', 'fd', 'root'):
    seen['proc_' + name] = attempt(lambda: os.close(os.open('/proc/%d/%s' % (PID, name), os.O_RDONLY))) if PID else 'no'
print('@' + json.dumps(seen))
"""
)


def neighbours(stage: Stage) -> list:
    head = f"WORD, KEY = {'near-' + secrets.token_hex(6)!r}, {0x4E000000 | secrets.randbits(20)}\n"
    maker, looker = stage.open(), stage.open()
    made = maker.run(head + MAKE).marked()
    # In a cell the number means another process, or the caller.
    seen = looker.run(head + f"PID = {made['pid'] if stage.contained else 0}\n" + LOOK_FOR).marked()
    bad = [f"{name}: a neighbour's is found" for name, got in seen.items() if got == "ok"]
    refused = ("EPERM", "EACCES", "ENOENT", "ENOSYS", "ECONNREFUSED", "ESRCH", "no")
    bad += [f"{name}: {got}" for name, got in seen.items() if got not in refused + ("ok",)]
    if not stage.contained and made["shm"] != "ok" and made["abstract"] != "ok" and made["dev_shm"] != "ok":
        bad.append(f"nothing could be made that a neighbour might find: {made}")
    maker.close()
    looker.close()
    return bad


def neighbours_control() -> list:
    word, key = "near-" + secrets.token_hex(6), 0x4E000000 | secrets.randbits(20)
    head = f"WORD, KEY = {word!r}, {key}\n"
    with subprocess.Popen(
        [PYTHON, "-c", head + MAKE + "sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as maker:
        made = json.loads(maker.stdout.readline()[1:])
        seen = plain(head + f"PID = {maker.pid}\n" + LOOK_FOR).marked()
        maker.stdin.close()
    libc = ctypes.CDLL(None)
    libc.shmctl(libc.shmget(key, 0, 0), 0, None)
    libc.semctl(libc.semget(key, 0, 0), 0, 0, 0)
    libc.msgctl(libc.msgget(key, 0), 0, None)
    libc.syscall(241, word.encode())
    os.unlink("/dev/shm/" + word)
    return [
        f"{name}: {got} outside too, made {made.get(name)}"
        for name, got in seen.items()
        if got != "ok" and not (name == "mq" and got == "ENOSYS")
    ]


# ---- A22: a name that outlives its session ----

# Sockets in flight, one in the other, the outermost pair in itself: when their process has ended only the kernel's
# garbage collector finds them, and each takes a tick of the clock. The innermost has the name.
LINGER = """
import os, socket
def plant(name, depth):
    inner = [socket.socket(socket.AF_UNIX)]; inner[0].bind(name); inner[0].listen(1)
    for i in range(depth):
        pair = socket.socketpair()
        socket.send_fds(pair[0], [b'x'], [s.fileno() for s in inner])
        for s in inner: s.close()
        inner = list(pair)
    last = socket.socketpair()
    socket.send_fds(last[0], [b'x'], [s.fileno() for s in inner + list(last)])
    for s in inner + list(last): s.close()
depth = 40
try: plant('\\0' + WORD + '-trial', 6)
except OSError: depth = 2  # before Linux 6.10 they nest four deep
plant('\\0' + WORD, depth)
"""
TAKE = """
import errno, json, os, socket
def t(fn):
    try: return fn() or 'ok'
    except OSError as e: return errno.errorcode.get(e.errno)
def net():
    try: return os.readlink('/proc/self/ns/net')
    except OSError: return ''
found = {'connect': t(lambda: socket.socket(socket.AF_UNIX).connect('\\0' + WORD)),
         'bind': t(lambda: socket.socket(socket.AF_UNIX).bind('\\0' + WORD)), 'net': net()}
print('@' + json.dumps(found))
"""


def planted_name(stage: Stage, bad: list) -> str:
    """The word of a session that has ended. Descriptors in flight are counted per user id of the host: while
    those of sessions that have ended are collected there is no room (ETOOMANYREFS)."""
    for _ in range(20):
        head = f"WORD = {'linger-' + secrets.token_hex(6)!r}\n"
        session = stage.open()
        end = session.run(head + LINGER)
        session.close()
        if end.cause == "ok":
            return head
        time.sleep(0.5)
    bad.append(f"nothing planted: {end.cause} {end.stderr[-200:]}")
    return head


def lingering_names(stage: Stage) -> list:
    bad = []
    for _ in range(3):
        head = planted_name(stage, bad)
        takers = [stage.open() for _ in range(3)]
        for taker in takers:
            seen = taker.run(head + TAKE).marked()
            if seen["bind"] != "ok" or seen["connect"] not in ("ECONNREFUSED", "EPERM"):
                bad.append(f"a dead session's name is there: {seen}")
            taker.close()
    # What has no socket left is still handed on: else each cell pays for a namespace of its own.
    nets = []
    for _ in range(12):
        session = stage.open()
        nets.append(session.run("WORD = 'x'\n" + TAKE).marked()["net"])
        session.close()
        time.sleep(0.05)
    if all(nets) and not stage.pooled and len(set(nets)) == len(nets):
        bad.append(f"no namespace is used again: {nets}")
    return bad


def lingering_names_control() -> list:
    """In a network namespace of its own: the name is there after its process has ended."""
    seen = plain(
        "import ctypes, os, time; assert ctypes.CDLL(None).unshare(0x40000000) == 0\n"
        f"WORD = 'linger-control'\nif os.fork() == 0:\n    exec({LINGER!r}); os._exit(0)\n"
        f"assert os.wait()[1] == 0\nexec({TAKE!r})"
    ).marked()
    if tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2]) < (6, 10):
        return []  # its garbage is collected by the process that ends
    return [] if seen["bind"] == "EADDRINUSE" else [f"the name is gone at once outside too: {seen}"]


SCENARIOS = [
    Scenario(
        "A22-linger",
        "an abstract name that outlives its session in a network namespace that is used again",
        lingering_names,
        control=lingering_names_control,
        contained="there is no socket() at all",
    ),
    Scenario(
        "A22-neighbours",
        "IPC, abstract sockets, /dev/shm, processes of another session",
        neighbours,
        control=neighbours_control,
    ),
    Scenario(
        "C1",
        "others' code, variables, input and the caller's secrets in the inherited memory",
        inherited,
        control=inherited_control,
    ),
    Scenario("C2", "random numbers differ between siblings", randomness, control=randomness_control),
    Scenario(
        "C3",
        "addresses differ between zygotes (siblings share them: documented)",
        addresses,
        control=addresses_control,
    ),
    Scenario(
        "C8",
        "an interrupt hits its session only, by pidfd",
        right_pid,
        no_control="a wrong signal needs a pid reused at the right moment; the trace shows how each one is named",
    ),
    Scenario("D-outlive", "daemons end with their session", outlive, control=outlive_control),
]
