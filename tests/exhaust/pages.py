"""Memory that is to outlive its cell: pages in a descriptor that another session has, and whom the kernel kills for it."""

from __future__ import annotations

import contextlib
import glob
import os
import tempfile
import time

import census
from census import Census
from engine import Engine, Gone, Session
from model import QUICK, needs

MIB = 1 << 20
CAP_SYS_RESOURCE = 24

# A session that has 40 MiB in a memfd and offers it to others by every road; it waits at none.
OFFER = """
import json, os, socket, threading
fd = os.memfd_create('gift')
os.truncate(fd, 40 << 20)
for _ in range(40): os.write(fd, b'x' * (1 << 20))
kept, made = [], {}
def listen(name):
    s = socket.socket(socket.AF_UNIX)
    s.bind(name)
    s.listen(8)
    kept.append(s)
    def give():
        while True:
            try: socket.send_fds(s.accept()[0], [b'x'], [fd])
            except OSError: pass
    threading.Thread(target=give, daemon=True).start()
def attempt(road, work):
    try: made[road] = work() or 'ok'
    except OSError as e: made[road] = e.strerror
attempt('path', lambda: listen('/workspace/gift.sock'))
attempt('abstract', lambda: listen('\\0krait-gift'))
attempt('link', lambda: os.symlink(f'/proc/{os.getpid()}/fd/{fd}', '/workspace/gift.link'))
attempt('control', lambda: listen('/tmp/gift.sock'))
print(json.dumps(made))
"""
# A session that takes what is offered. It keeps it in `taken`.
TAKE = """
import ctypes, glob, json, os, socket
found, taken = {}, globals().get('taken', [])
def receive(name):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(5)
        s.connect(name)
        taken.extend(socket.recv_fds(s, 1, 4)[1])
def is_gift(fd): return os.fstat(fd).st_size == 40 << 20
def opened(paths):
    for path in paths:
        try: fd = os.open(path, os.O_RDONLY)
        except OSError: continue
        if is_gift(fd): taken.append(fd)
def stolen():
    libc = ctypes.CDLL(None, use_errno=True)
    for pid in range(2, 64):
        if pid == os.getpid(): continue
        held = libc.syscall(434, pid, 0)
        for number in range(3, 64):
            fd = libc.syscall(438, held, number, 0) if held >= 0 else -1
            if fd >= 0 and is_gift(fd): taken.append(fd)
def attempt(road, work):
    before = len(taken)
    try: work()
    except OSError: pass
    found[road] = len(taken) - before
attempt('path', lambda: receive('/workspace/gift.sock'))
attempt('abstract', lambda: receive('\\0krait-gift'))
attempt('link', lambda: opened(['/workspace/gift.link']))
attempt('proc', lambda: opened(p for p in glob.glob('/proc/[0-9]*/fd/*') if not p.startswith(f'/proc/{os.getpid()}/')))
attempt('pidfd', stolen)
attempt('control', lambda: receive('/tmp/gift.sock'))
print(json.dumps(found))
"""


def passes_to_itself(engine: Engine) -> list[str]:
    session = engine.open(QUICK, workspace=0)
    made, found = session.run(OFFER), session.run(TAKE)
    session.close()
    if '"control": "ok"' not in made.stdout or '"control": 1' not in found.stdout:
        return [f"control: nothing passes in one session: {made}; {found}"]
    return []


def descriptors_stay_in_their_session(engine: Engine) -> list[str]:
    """Six sessions of one folder each fill a memfd and offer it by socket files, abstract names and /proc; a seventh gets
    none of them. Within one session a socket in /tmp passes it on.
    """
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        if engine.user is not None:
            os.chown(folder, engine.user, engine.user)
        other = Engine("--stock", "0", "--workspace", folder, user=engine.user)
        bad = passes_to_itself(other)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{folder}/gift.link")
        receiver, got = other.open(QUICK, workspace=0, owner=7), []
        for _ in range(6):
            giver = other.open(QUICK, workspace=0, owner=7, joins=True)
            made = giver.run(OFFER)
            got.append(receiver.run(TAKE).stdout)
            giver.close()
            if '"path": "Permission denied"' not in made.stdout:
                bad.append(f"a socket file was made in the workspace: {made}")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{folder}/gift.link")
        held = receiver.run("print(len(taken))")
        if held.stdout != "0\n":
            bad.append(f"passed on were {held.stdout.strip()} of 6: {got}")
        return bad + other.close()


# ---- to whom they count ----


def user_bytes(state: Census) -> int:
    """What the control groups of users have, by the kernel's count."""
    files = [path for folder in state.folders() for path in glob.glob(f"{folder}/u*/memory.*")]
    return sum(
        int(census.text(path) or 0)
        for path in files
        if path.endswith(("/memory.usage_in_bytes", "/memory.current"))
    )


def session_process(state: Census, before: list[int]) -> int:
    """Of a session that was opened meanwhile: what runs its code."""
    found = [pid for pid in state.in_cells() if pid not in before]
    return next(pid for pid in found if census.status(pid)["NSpid"].split()[-1] != "1")


@needs("cgroup_memory")
def dead_cells_count_to_their_user(engine: Engine) -> list[str]:
    """A memfd of 150 MiB that outlives its session, since the test itself holds it, is its user's still: the next session
    cannot have 200 MiB of 256. When the memfd is closed another one can.
    """
    other = Engine("--stock", "0", "--user-memory", str(256 * MIB), user=engine.user)
    state, limits, bad = Census(other.pid), dict(QUICK, memory="240M"), []
    other.open(QUICK, owner=7)  # so that the user has a control group throughout
    before = state.in_cells()
    first = other.open(limits, owner=7, joins=True)
    number = first.run(
        "import os\nfd = os.memfd_create('left')\nfor _ in range(150): os.write(fd, b'x' * (1 << 20))\nprint(fd)"
    ).stdout.strip()
    with open(f"/proc/{session_process(state, before)}/fd/{number}", "rb") as held:
        first.close()
        if os.fstat(held.fileno()).st_size != 150 * MIB:
            bad.append("control: the memfd is not what is held")
        if user_bytes(state) < 150 * MIB:
            bad.append(f"150 MiB of a dead session, and its user has {user_bytes(state) >> 20} MiB")
        bad += [f"beside 150 MiB of a dead session: {e}" for e in takes(other, limits) if "lost" not in e]
        if not bad and not takes(other, limits):
            bad.append("a session had 200 MiB beside 150 MiB of a dead one, of 256")
    deadline = time.monotonic() + 20
    while user_bytes(state) > 50 * MIB and time.monotonic() < deadline:
        time.sleep(0.05)
    bad += [f"control, with nothing left: {e}" for e in takes(other, limits)]
    return bad + other.close()


def takes(other: Engine, limits: dict) -> list[str]:
    """A session of the user that takes 200 MiB; what went wrong."""
    try:
        session: Session = other.open(limits, owner=7, joins=True)
    except Gone as e:
        return [f"lost: {e}"]
    run = session.run("x = bytearray(b'x') * (200 << 20)\nprint(len(x) >> 20)")
    if run.alive:
        session.close()
    return [] if run.stdout == "200\n" else [str(run)]


def scores(top: int) -> tuple[list[int], list[int]]:
    """The oom_score_adj of the processes of sessions, and of krait's own, beneath a process of krait."""
    theirs: list[int] = []
    ours: list[int] = []
    for pid in [top, *census.tree(top)]:
        is_session = census.depth(pid) >= 2 and census.status(pid).get("NSpid", "1").split()[-1] != "1"
        score = census.text(f"/proc/{pid}/oom_score_adj")
        if score:
            (theirs if is_session else ours).append(int(score))
    return theirs, ours


def cells_are_killed_first(engine: Engine) -> list[str]:
    """Every process that a session has, pooled or not, has a greater oom_score_adj than any of krait's own; those are
    protected where that is allowed. The init of a cell is krait's.
    """
    other = Engine("--stock", "1", "--pool", "1", user=engine.user)
    other.open(QUICK).run("import subprocess\nchild = subprocess.Popen(['sleep', '60'])")
    other.open(QUICK, pooled=True).run("1")
    theirs, ours = scores(other.pid)
    until = time.monotonic() + 10
    while min(theirs, default=0) <= max(ours, default=0) and time.monotonic() < until:
        time.sleep(0.1)  # a session that has just been forked waits for its score before it does anything
        theirs, ours = scores(other.pid)
    bad = other.close()
    if len(theirs) < 3 or len(ours) < 5:
        bad.append(f"seen were {len(theirs)} processes of sessions and {len(ours)} of krait")
    elif min(theirs) <= max(ours):
        bad.append(f"sessions have {sorted(theirs)}, krait's own {sorted(ours)}")
    if engine.user is None and int(census.status(os.getpid())["CapEff"], 16) >> CAP_SYS_RESOURCE & 1 and max(ours) >= 0:
        bad.append(f"not protected: {sorted(ours)}")
    return bad


SCENARIOS = [descriptors_stay_in_their_session, dead_cells_count_to_their_user, cells_are_killed_first]
