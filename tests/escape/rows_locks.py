"""Section B, what a cell shares with the machine: locks on inodes (B13), and that locks still work inside (B14). B15 is
about places of /usr that hold secrets.

A lock belongs to an inode. The host here is the suite's own process, which is root where the suite is: what blocks it
would block every program of the machine.
"""
from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import secrets
import subprocess
import tempfile
import time

from drive import Stage, plain
from model import Scenario, expect

FILES = ("/usr/bin/env", "/usr/lib/os-release", "/etc/hostname", "/etc/passwd", "/", "/usr", "/usr/lib", "/etc")
# krait's own files of /proc: some are written by the warden, which must not wait for locks, others every cell has.
GAUGES = ("/proc/stat", "/proc/uptime", "/proc/version", "/proc/cpuinfo", "/proc/sys", "/proc/sys/kernel/osrelease")
DEVICES = ("/dev", "/dev/null", "/dev/zero", "/dev/urandom")
# Every kind of lock that a session can take, on everything that it has not made itself. The locks live as long as the
# session; 200 of them make a list, which is what slows others down.
TAKE = """
import fcntl, json, os, sys, time
held, out = [], {}
def lock(fd):  # another program of the machine may have it for a moment, where the node is the machine's
    end = time.monotonic() + 30
    while True:
        try: return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end: raise
            time.sleep(0.05)
for path in PATHS:
    try:
        fd = os.open(path, os.O_RDONLY)
        lock(fd)
        if not os.path.isdir(path):
            fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 0)
        held.append(fd); out[path] = 'held'
    except OSError as e:
        out[path] = e.strerror
try:  # either the same node, which is locked by now, or another
    if not os.path.samestat(os.fstat(0), os.stat('/dev/null')): fcntl.flock(0, fcntl.LOCK_EX | fcntl.LOCK_NB)
    out['fd 0'] = 'held'
except OSError as e:
    out['fd 0'] = e.strerror
null = os.open('/dev/null', os.O_RDWR)
for i in range(200):
    fcntl.lockf(null, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * i)
exe = 'refused'
try:
    fcntl.flock(os.open('/proc/self/exe', os.O_RDONLY), fcntl.LOCK_SH); exe = 'open'
except OSError: pass
kinds = {}
for line in open('/proc/self/mountinfo'):
    fields = line.split()
    kinds[fields[4]] = fields[fields.index('-') + 1]
print('@' + json.dumps({'locks': out, 'exe': exe, 'kinds': kinds}), flush=True)
"""
TRY = """
import fcntl, json, os
out = {}
for path in PATHS:
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB); out[path] = 'free'
    except OSError as e:
        out[path] = e.strerror
    os.close(fd)
print('@' + json.dumps(out))
"""


@contextlib.contextmanager
def in_turn():
    """One row of this page at a time on the machine: suites run beside each other, and what a control or a cell without
    nodes of its own locks is the machine's."""
    path = os.path.join(tempfile.gettempdir(), f"krait-escape-locks-{os.getuid()}")
    with open(path, "w") as turn:
        deadline = time.monotonic() + 120
        while True:
            try:
                fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{path} was locked for 120 s") from None
                time.sleep(0.02)
        yield


def alone(row):
    """The row, in its turn."""
    @functools.wraps(row)
    def waits(*stage):
        with in_turn():
            return row(*stage)
    return waits


def host_tries(paths: tuple) -> dict:
    seen = {}
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            seen[path] = "free"
        except OSError as e:
            seen[path] = str(e.strerror)
        finally:
            os.close(fd)
    return seen


def locks_on(path: str) -> int:
    """How many locks the machine knows on this inode of the host's."""
    st = os.stat(path)
    name = f"{os.major(st.st_dev):02x}:{os.minor(st.st_dev):02x}:{st.st_ino}"
    with open("/proc/locks") as f:
        return sum(name in line.split() for line in f)


def on_the_host(paths: tuple, own: tuple, before: dict) -> tuple[dict, dict]:
    """What the host gets, and how many locks there are more. Other programs of the machine (`krait doctor` is one) hold
    locks on the same inodes for a moment; those of a cell are held until it ends."""
    deadline = time.monotonic() + 30
    while True:
        here = host_tries(paths)
        grown = {path: locks_on(path) - before[path] for path in paths}
        if all(here[path] == "free" and grown[path] <= 0 for path in own) or time.monotonic() > deadline:
            return here, grown
        time.sleep(0.1)


def with_paths(code: str, paths: tuple) -> str:
    return f"PATHS = {paths!r}\n{code}"


@alone
def locks(stage: Stage) -> list:
    everything = FILES + GAUGES + DEVICES
    before = {path: locks_on(path) for path in everything}
    holder, other = stage.open(), stage.open()
    end = holder.run(with_paths(TAKE, everything))
    told = end.marked()
    layers = end.end.get("layers") or {}
    bad = [f"{p}: not locked, so nothing is shown: {got}" for p, got in told["locks"].items() if got != "held"]
    if told["exe"] == "open":
        bad.append("/proc/self/exe opens the interpreter that all sessions share")
    bad += [f"{path} is the warden's inode, or one that cells share: {told['kinds'].get(path)}" for path in GAUGES[:-1]
            if told["kinds"].get(path) != "overlay"]
    there = other.run(with_paths(TRY, everything)).marked()
    # Where device nodes cannot be made their locks are the host's, and the layer is reported as missing.
    own = FILES + GAUGES + (DEVICES if layers.get("private_devices") else ())
    here, grown = on_the_host(everything, own, before)
    for path in own:
        if here[path] != "free":
            bad.append(f"{path}: the host is blocked: {here[path]}")
        if there[path] != "free":
            bad.append(f"{path}: another cell is blocked: {there[path]}")
        if grown[path] > 0:
            bad.append(f"{path}: {grown[path]} locks on the host's inode")
    if not layers.get("private_files"):
        bad.append(f"private_files is not reported: {layers}")
    if stage.way == "root" and not layers.get("private_devices"):
        bad.append("root has no device nodes of its own")
    if not layers.get("private_devices") and here["/dev/null"] == "free":
        bad.append("private_devices is reported as missing, but /dev/null is not shared")
    holder.close()
    other.close()
    return bad


@alone
def locks_control() -> list:
    """The same locks, held by a process of the machine, block the suite and are counted on the inode."""
    paths = ("/usr/lib/os-release", "/usr", "/dev/null")
    code = with_paths(TAKE, paths) + "\nsys.stdin.read()"
    before = locks_on("/dev/null")
    with subprocess.Popen(
        ["/usr/bin/python3", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        seen, grown = host_tries(paths), locks_on("/dev/null") - before
        process.communicate("")
    bad = [f"{path} is not blocked" for path, got in seen.items() if got == "free"]
    return bad if grown >= 200 else [*bad, f"{grown} locks on /dev/null are counted"]


# What must go on working: locks between processes of a cell, SQLite on each kind of folder.
WORKS = """
import fcntl, json, os, sqlite3, subprocess, sys
out = {}
def blocked(path):
    fd = os.open(path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    code = 'import fcntl,os,sys\\nfcntl.flock(os.open(sys.argv[1], 0), fcntl.LOCK_SH | fcntl.LOCK_NB)'
    done = subprocess.run([INTERPRETER, '-S', '-c', code, path], capture_output=True, text=True)
    os.close(fd)
    return 'ok' if 'BlockingIOError' in done.stderr else 'not blocked: ' + done.stderr[-200:]
def database(folder):
    path = os.path.join(folder, 'locks.db')
    for mode in ('delete', 'wal'):
        with sqlite3.connect(path) as db:
            db.execute('pragma journal_mode=' + mode)
            db.execute('create table if not exists t (x)')
            db.execute('insert into t values (1)')
    one, two = sqlite3.connect(path, isolation_level=None), sqlite3.connect(path, timeout=0, isolation_level=None)
    one.execute('begin immediate')
    try:
        two.execute('begin immediate')
        return 'two writers at once'
    except sqlite3.OperationalError as e:
        one.execute('rollback')
        return 'ok' if 'locked' in str(e) else str(e)
    finally:
        one.close(); two.close()
        for name in ('locks.db', 'locks.db-wal', 'locks.db-shm'):
            if os.path.exists(os.path.join(folder, name)): os.unlink(os.path.join(folder, name))
for path in ('/usr/lib/os-release', '/usr', '/dev/null'):
    out['flock ' + path] = blocked(path)
for folder in FOLDERS:
    out['sqlite ' + folder] = database(folder)
for name in ('json', 'email', 'xml.dom.minidom', 'unittest.mock', 'ctypes.util'):
    __import__(name)
done = subprocess.run('cat /etc/ssl/certs/ca-certificates.crt | wc -c; head -c 8 /dev/zero | wc -c; ls /usr/share | wc -l',
                      shell=True, capture_output=True, text=True)
numbers = [int(x) for x in done.stdout.split()]
out['programs'] = 'ok' if len(numbers) == 3 and numbers[1] == 8 and numbers[2] > 10 else done.stdout + done.stderr
try:
    with open('/dev/full', 'w') as f: f.write('x')
    out['full'] = 'written'
except OSError as e: out['full'] = e.strerror
out['random'] = 'ok' if len(open('/dev/urandom', 'rb').read(16)) == 16 else 'short'
print('@' + json.dumps(out))
"""
WORKING = {"full": None, "*": "ok"}


@alone
def working(stage: Stage) -> list:
    session = stage.open(workspace=0)
    folders = "(os.getcwd(),)" if stage.contained else "('/workspace', '/tmp', '/dev/shm')"
    code = f"import os, sys\nFOLDERS = {folders}\nINTERPRETER = sys.executable\n" + WORKS
    seen = session.run(code).marked()
    session.close()
    bad = expect(WORKING)(seen, stage)
    return bad if seen["full"] == "No space left on device" else [*bad, f"/dev/full: {seen['full']}"]


@alone
def working_control() -> list:
    with tempfile.TemporaryDirectory() as folder:
        code = f"FOLDERS = ({folder!r},)\nimport sys\nINTERPRETER = sys.executable\n"
        return expect(WORKING)(plain(code + WORKS).marked(), None)


HIDDEN = ("/usr/local/etc", "/usr/src", "/usr/local/src", "/usr/local/sbin", "/usr/lib/modules", "/usr/lib/credstore")
LOOK = """
import json, os
out = {}
for path in PATHS:
    try: out[path] = sorted(os.listdir(path))
    except OSError as e: out[path] = e.strerror
print('@' + json.dumps(out))
"""


@contextlib.contextmanager
def planted():
    """A file of a name that no other has, in a place that is to be hidden; only root can put it there."""
    name = "krait-bait-" + secrets.token_hex(6)
    folders = [p for p in ("/usr/local/etc", "/usr/src") if os.path.isdir(p) and os.access(p, os.W_OK)]
    for folder in folders:
        with open(os.path.join(folder, name), "w") as f:
            f.write("secret")
    try:
        yield name, folders
    finally:
        for folder in folders:
            os.unlink(os.path.join(folder, name))


def hidden(stage: Stage) -> list:
    with planted():
        session = stage.open()
        seen = session.run(with_paths(LOOK, HIDDEN)).marked()
        near = session.run(with_paths(LOOK, ("/usr/local", "/usr", "/usr/lib"))).marked()
        session.close()
    bad = [f"{path}: {got}" for path, got in seen.items() if got != "No such file or directory"]
    for path, got in near.items():
        if not isinstance(got, list) or not got:
            bad.append(f"{path} cannot be listed: {got}")
        elif {"etc", "src", "sbin", "modules"} & set(got) and path != "/usr":
            bad.append(f"{path} names what is hidden: {got}")
    return bad


def hidden_control() -> list:
    with planted() as (name, folders):
        seen = plain(with_paths(LOOK, tuple(folders))).marked()
    if folders:
        return [f"{path}: {got}" for path, got in seen.items() if name not in got]
    there = tuple(path for path in HIDDEN if os.path.isdir(path))  # a machine whose /usr is read-only
    seen = plain(with_paths(LOOK, there)).marked()
    return [f"{path}: {got}" for path, got in seen.items() if not isinstance(got, list)] if there else ["nothing to hide"]


THE_HOSTS = "the machine's own tree is seen there, behind Landlock: doctor says so"
SCENARIOS = [
    Scenario("B13", "locks reach neither the machine nor another cell", locks, control=locks_control, contained=THE_HOSTS),
    Scenario("B14", "locks and SQLite work inside a cell", working, control=working_control),
    Scenario("B15", "places of /usr that may hold secrets", hidden, control=hidden_control, contained=THE_HOSTS),
]
