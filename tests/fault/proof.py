"""What a cell must be when user code runs in it, asked twice: by the code itself (INSIDE) and by
root from outside.

Both give plain dictionaries without anything that differs from cell to cell, so that a cell built
under a fault can be compared with one built without. That the clean one is what it should be is
checked by ideal().
"""
from __future__ import annotations

import ctypes
import json
import os
import re
import signal

MARK = "KRAIT-FAULT-RAN"
PROOF = "KRAIT-FAULT-PROOF "
# A folder of the cell that is empty, of no use, and neither /workspace nor /tmp.
ASIDE = "/home"

INSIDE = r"""
import os, time
os.write(1, b"KRAIT-FAULT-RAN %f\n" % time.time())
def proof(bait):
    import errno, json, socket
    def tried(call, *args):
        try:
            call(*args)
        except OSError as e:
            return errno.errorcode.get(e.errno, str(e.errno))
        return "ok"
    def pids():
        try:
            return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
        except OSError as e:
            return str(e)
    return json.dumps({
        "uid": os.getresuid(),
        "gid": os.getresgid(),
        "groups": os.getgroups(),
        "pid": os.getpid(),
        "parent": os.getppid(),
        "leader": os.getsid(0) == os.getpgid(0) == os.getpid(),
        "cwd": os.getcwd(),
        "host name": os.uname().nodename,
        "/proc": pids(),
        "host file": tried(open, bait),
        "AF_INET": tried(socket.socket, socket.AF_INET),
        "AF_NETLINK": tried(socket.socket, socket.AF_NETLINK),
        "write aside": tried(open, "/home/by-user-code", "w"),
        "write /usr": tried(open, "/usr/krait-fault", "w"),
        "write /tmp": tried(open, "/tmp/krait-fault", "w"),
        "write /workspace": tried(open, "/workspace/krait-fault", "w"),
        "become root": tried(os.setuid, 0),
        "chroot": tried(os.chroot, "/tmp"),
        "kill init": tried(os.kill, 1, 9),
        "umask": os.umask(0o022),
    }, sort_keys=True)
"""

NAMESPACES = ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup")
V1 = ("memory", "pids", "cpu", "cpuacct")
STATUS = (
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "NoNewPrivs",
    "Seccomp",
    "Seccomp_filters",
    "Groups",
    "SigBlk",
    "SigIgn",
)
LIMITS = (
    "Max cpu time",
    "Max file size",
    "Max data size",
    "Max core file size",
    "Max processes",
    "Max open files",
)
CELL = re.compile(r"/c[0-9a-f]{16}$")
MEMORY = 64 << 20  # what the suite asks for
INHERITED_MAX = 64 << 20
libc = ctypes.CDLL(None, use_errno=True)


def read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in read(f"/proc/{pid}/task/{pid}/children").split()]
    except OSError:
        return []


def status_of(pid: int) -> dict[str, str]:
    rows = (line.partition(":") for line in read(f"/proc/{pid}/status").splitlines())
    return {name: value.strip() for name, _, value in rows}


# ---- from outside --------------------------------------------------------------------------------


def ids(session: dict[str, str], init: dict[str, str]) -> str:
    """Host ids of session and init: own (of no other process), shared (the caller's) or wrong."""
    uids, gids = set(session["Uid"].split()), set(session["Gid"].split())
    if len(uids) != 1 or len(gids) != 1 or len(set(init["Uid"].split())) != 1:
        return f"mixed: {session['Uid']} / {session['Gid']} / {init['Uid']}"
    uid, gid, init_uid = int(uids.pop()), int(gids.pop()), int(init["Uid"].split()[0])
    if uid == gid == init_uid + 1 and uid > 0x70000000:
        return "own"
    return (
        "shared" if uid == init_uid and uid not in (0, 65534) else f"wrong: {uid} {gid} {init_uid}"
    )


def mounts(pid: int) -> dict[str, list[str]]:
    """For each mount point what is stacked there: rights, kind, size, without numbers that are the
    kernel's own.
    """
    rows: dict[str, list[str]] = {}
    for line in read(f"/proc/{pid}/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        point = fields[4]
        size = ",".join(
            sorted(re.findall(r"(?:size|nr_inodes|mode|subset|hidepid)=[^,]+|\bro\b", kind[2]))
        )
        rows.setdefault(point, []).append(f"{fields[5]} {' '.join(fields[6:])} {kind[0]} {size}")
    return rows


def cgroups(pid: int, mine: str) -> dict[str, str]:
    """For each controller whether the process is in a cell's cgroup, and the limits that stand
    there.
    """
    found: dict[str, str] = {}
    files = {
        "memory": ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
        "pids": ("pids.max",),
        "cpu": ("cpu.cfs_quota_us",),
        "cpuacct": (),
        "": ("memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.max"),
    }
    for line in mine.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            if name not in files or not (CELL.search(path) or name in V1):
                continue
            found[name or "v2"] = "in its cell's" if CELL.search(path) else "in " + path
            for file in files[name]:
                for root in ("/sys/fs/cgroup/" + names, "/sys/fs/cgroup/" + name, "/sys/fs/cgroup"):
                    try:
                        found[file] = read(root + path + "/" + file).strip()
                        break
                    except OSError:
                        continue
    return found


def namespaces(session: int, init: int, zygote: int) -> dict[str, str]:
    def link(pid: int | str, name: str) -> str:
        return os.readlink(f"/proc/{pid}/ns/{name}")

    found = {}
    for name in NAMESPACES:
        mine = link(session, name)
        others = {"the host's": link("self", name), "the zygote's": link(zygote, name)}
        wrong = [whose for whose, what in others.items() if what == mine]
        # The cgroup namespace is the session's own making: its init is in no cgroup of the cell.
        same = name == "cgroup" or mine == link(init, name)
        found[name] = "in " + wrong[0] if wrong else "own" if same else "not its init's"
    return found


def descriptors(pid: int) -> list[str]:
    """Numbers and kinds; a copy of stdout or stderr says so."""
    links = {
        int(name): os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")
    }
    rows = []
    for number, link in sorted(links.items()):
        twin = next((n for n in (1, 2) if number > n and links.get(n) == link), None)
        rows.append(f"{number} {'copy of %d' % twin if twin else link.split(':')[0]}")
    return rows


def limits(pid: int) -> dict[str, str]:
    rows = {}
    for line in read(f"/proc/{pid}/limits").splitlines():
        for name in LIMITS:
            if line.startswith(name):
                rows[name] = " ".join(line[len(name) :].split()[:2])
    # How much data the session inherited differs by pages; that the limit is the asked one plus an
    # inheritance is enough.
    soft = rows["Max data size"].split()[0]
    if soft.isdigit() and MEMORY <= int(soft) < MEMORY + INHERITED_MAX:
        rows["Max data size"] = "as asked, and what was inherited"
    return rows


def named(kind: str, rows: dict) -> dict:
    return {f"{kind} {name}": value for name, value in rows.items()}


def outside(session: int, init: int, zygote: int) -> dict:
    """What root sees of a session that is about to run user code."""
    status, inits = status_of(session), status_of(init)
    return {
        **{name: status.get(name, "absent") for name in STATUS},
        "ids": ids(status, inits),
        "pids inside": [status["NSpid"].split()[-1], inits["NSpid"].split()[-1]],
        "leads": status["NSsid"].split()[-1]
        == status["NSpgid"].split()[-1]
        == status["NSpid"].split()[-1],
        "threads": status["Threads"],
        "descriptors": descriptors(session),
        "cwd": os.readlink(f"/proc/{session}/cwd"),
        **named("namespace", namespaces(session, init, zygote)),
        **named("mount", mounts(session)),
        **named("cgroup", cgroups(session, read(f"/proc/{session}/cgroup"))),
        **named("limit", limits(session)),
        "init's rights": [inits[name] for name in ("CapPrm", "CapEff", "NoNewPrivs")],
        "init hides its memory": os.stat(f"/proc/{init}/mem").st_uid
        != int(inits["Uid"].split()[0]),
    }


def mount_aside(session: int) -> str:
    """Puts a folder that every user may write to into the cell's tree, and writes to it as the
    session's uid. What then keeps user code from writing there is Landlock alone.
    """
    uid = int(status_of(session)["Uid"].split()[0])
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            fd = os.open(f"/proc/{session}/ns/mnt", os.O_RDONLY)
            flags = 2 | 4  # MS_NOSUID | MS_NODEV
            if (
                libc.setns(fd, 0) < 0
                or libc.mount(b"tmpfs", ASIDE.encode(), b"tmpfs", flags, b"mode=777,size=64k") < 0
            ):
                os._exit(2)
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            with open(ASIDE + "/by-root", "w", encoding="ascii") as file:
                file.write("x")
            code = 0
        finally:
            os._exit(code)
    return "ok" if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0 else "failed"


# ---- what a clean cell is ------------------------------------------------------------------------


def ideal(inside: dict, out: dict, user_level: bool, loopback: bool, read_only: bool = False) -> list[str]:
    """What is wrong with the clean cell that the others are compared with."""
    none = "0" * 16
    expected = {
        "uid": [1000] * 3,
        "gid": [1000] * 3,
        "groups": [],
        "pid": 2,
        "parent": 0,
        "leader": True,
        "cwd": "/workspace",
        "host name": "krait",
        "/proc": [2],
        "host file": "ENOENT",
        "AF_INET": "ok" if loopback else "EPERM",
        "AF_NETLINK": "EPERM",
        "write aside": "EACCES",
        "write /usr": ("EROFS", "EACCES"),
        "write /tmp": "ok",
        "write /workspace": "EROFS" if read_only else "ok",
        "become root": "EPERM",
        "chroot": "EPERM",
        "kill init": "EPERM",
        "umask": 0o022,
    }
    wanted = {
        "CapInh": none,
        "CapPrm": none,
        "CapEff": none,
        "CapBnd": none,
        "CapAmb": none,
        "NoNewPrivs": "1",
        "Seccomp": "2",
        "Seccomp_filters": "2",
        "Groups": "",
        "ids": "shared" if user_level else "own",
        "pids inside": ["2", "1"],
        "leads": True,
        "threads": "1",
        **{f"namespace {name}": "own" for name in NAMESPACES},
        "cwd": "/workspace",
        "init's rights": [none, none, "1"],
        "init hides its memory": True,
    }
    wrong = [
        f"inside: {name} is {inside.get(name)!r}, not {want!r}"
        for name, want in expected.items()
        if inside.get(name) not in (want if isinstance(want, tuple) else (want,))
    ]
    wrong += [
        f"outside: {name} is {out.get(name)!r}, not {want!r}"
        for name, want in wanted.items()
        if out.get(name) != want
    ]
    if not user_level:
        groups = {name: value for name, value in out.items() if name.startswith("cgroup ")}
        if not groups or any(value.startswith("in /") for value in groups.values()):
            wrong.append(f"outside: cgroups are {groups}")
        if not {str(MEMORY), "11"} <= set(groups.values()):
            wrong.append(f"outside: the limits asked for are not in {groups}")
    return wrong


def ran_at(text: str) -> float:
    """When user code began, by its own word; 0 if it did not."""
    found = re.search(MARK + r" (\d+\.\d+)", text)
    return float(found.group(1)) if found else 0.0


def difference(clean: dict, now: dict) -> dict[str, str]:
    return {
        name: f"{now.get(name)!r} instead of {clean.get(name)!r}"
        for name in sorted(set(clean) | set(now))
        if json.dumps(clean.get(name), sort_keys=True) != json.dumps(now.get(name), sort_keys=True)
    }


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False


def end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
