"""A krait's processes as /proc shows them, and what it leaves on the host. For tests that kill it."""
import ctypes
import glob
import os
import re
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWNS = 0x20000
MS_REC, MS_PRIVATE, MS_SHARED = 0x4000, 1 << 18, 1 << 20


def become_subreaper() -> None:
    """From now on a process that loses its parent becomes our child: an orphan is found below us."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")


def own_mounts() -> None:
    """From now on we have a mount namespace of our own, for a test that looks at all mounts: what else the machine
    mounts is not seen in it. It is shared with those that what we start makes, as on a host with systemd: a mount that
    such a one does not keep to itself is seen.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    for how in (MS_PRIVATE, MS_SHARED):
        if libc.mount(None, b"/", None, MS_REC | how, None) != 0:
            raise OSError(ctypes.get_errno(), "mount")


def stat_of(pid: str) -> tuple:
    """State and parent."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return fields[0], int(fields[1])
    except (OSError, IndexError):
        return "X", 0


def started_at(pid: int) -> int:
    """In ticks since the boot; pids wrap around."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    except (OSError, IndexError):
        return 0


def below(root: int) -> dict:
    """Every descendant of a process and its state."""
    seen = {int(pid): stat_of(pid) for pid in os.listdir("/proc") if pid.isdigit()}
    found, edge = {}, [root]
    while edge:
        parent = edge.pop()
        for pid, (state, its_parent) in seen.items():
            if its_parent == parent and pid not in found:
                found[pid] = state
                edge.append(pid)
    return found


def children(root: int) -> list:
    return [pid for pid in below(root) if stat_of(str(pid))[1] == root]


def is_alive(pid: int) -> bool:
    return stat_of(str(pid))[0] not in "ZX"


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def depth_of(pid: int) -> int:
    """In how many pid namespaces it has a number, of those that we see; 0 if it has ended."""
    try:
        return len(re.search(r"^NSpid:(.*)$", Path(f"/proc/{pid}/status").read_text(), re.M).group(1).split())
    except (OSError, AttributeError):
        return 0


def roles(warden: int) -> dict:
    """server and zygotes, as the tree shows them. The warden forks the server first; a builder that has no zygote yet
    looks the same but is younger. A session that has outlived its zygote is a child of the builder too, one namespace
    further down."""
    parents = {pid: stat_of(str(pid))[1] for pid in below(warden)}
    found = {"warden": [warden], "server": [], "zygote": []}
    for pid, parent in parents.items():
        if parent != warden or name_of(pid) in ("krait-egress", "krait-keeper"):
            continue
        children = [one for one, its in parents.items() if its == pid]
        pythons = [one for one in children if name_of(one).startswith("python")]
        if pythons:
            found["zygote"] += [one for one in pythons if depth_of(one) == depth_of(pid)]
        elif not children:
            found["server"].append(pid)
    born = {pid: started_at(pid) for pid in found["server"]}
    found["server"] = sorted((pid for pid in born if born[pid]), key=lambda pid: (born[pid], pid))[:1]  # 0: it has ended
    return found


def cgroups_of(pids) -> set:
    found = set()
    for pid in pids:
        try:
            found |= set(re.findall(r"/(krait-\d+-\d+-[0-9a-f]+)\b", Path(f"/proc/{pid}/cgroup").read_text()))
        except OSError:
            pass
    return found


def leftovers(names: set) -> list:
    return [one for one in glob.glob("/sys/fs/cgroup/**/krait-*", recursive=True) if os.path.basename(one) in names]


def wait_for_none(seconds: float) -> list:
    """Until nothing lives below this process; what still does after so long, with its name."""
    end = time.monotonic() + seconds
    while True:
        alive = []
        for pid, state in below(os.getpid()).items():
            if state == "Z":
                try:
                    os.waitpid(pid, os.WNOHANG)  # ours by inheritance
                except ChildProcessError:
                    pass
            elif state != "X":
                alive.append(pid)
        if not alive or time.monotonic() > end:
            return [(pid, name_of(pid)) for pid in alive]
        time.sleep(0.01)
