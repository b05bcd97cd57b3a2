"""Counts what an engine has in the machine: processes, cgroup folders, descriptors, memory, mounts.

Used by tests/exhaust and tests/soak. It only looks. What it knows of krait: the process started is
the warden, its children are the engine (in our own pid namespace) and the builders (PID 1 of a
namespace); a builder's children are zygotes and the inits of cells; whatever is two namespaces down
is in a cell.
"""

from __future__ import annotations

import glob
import os
import re
import time

GONE_S = 30.0  # until when the processes of an ended cell must be gone: a deadline, what it took is told at the end
CGROUPS = "/sys/fs/cgroup"


def text(path: str) -> str:
    try:
        with open(path) as f:
            return f.read()
    except OSError:  # gone while we looked, or not to be read
        return ""


def status(pid: int) -> dict[str, str]:
    return dict(
        line.split(":\t", 1) for line in text(f"/proc/{pid}/status").splitlines() if ":\t" in line
    )


def kib(pid: int, key: str) -> int:
    """A size of /proc/PID/status in KiB; 0 if there is none."""
    return int((status(pid).get(key) or "0").split()[0])


def private_kib(pid: int) -> int:
    """Memory that is not shared, in KiB, as of a session whose pages are mostly its zygote's. Not
    clean file pages: whether those are shared depends on who else runs.
    """
    found = re.search(r"^Private_Dirty:\s+(\d+)", text(f"/proc/{pid}/smaps_rollup"), re.M)
    return int(found.group(1)) if found else 0


def descriptors(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def mounts(pid: int) -> int:
    return text(f"/proc/{pid}/mountinfo").count("\n")


def tree(root: int) -> list[int]:
    """The living descendants of a process."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        stat = text(f"/proc/{name}/stat")
        if stat:
            children.setdefault(int(stat.rsplit(")", 1)[1].split()[1]), []).append(int(name))
    found, todo = [], [root]
    while todo:
        more = children.get(todo.pop(), [])
        found += more
        todo += more
    return found


def depth(pid: int) -> int:
    """How many pid namespaces below ours; -1 when it is gone."""
    return len((status(pid).get("NSpid") or "").split()) - 1


class Census:
    """One engine's processes and cgroups."""

    def __init__(self, warden: int) -> None:
        self.warden = warden
        self.slowest_end = 0.0
        self.noted: list[str] = []

    def engine(self) -> int:
        return next(pid for pid in tree(self.warden) if depth(pid) == 0)

    def builders(self) -> list[int]:
        return [
            pid
            for pid in tree(self.warden)
            if (status(pid).get("NSpid") or "").split()[1:] == ["1"]
        ]

    def zygotes(self) -> list[int]:
        return [pid for pid in tree(self.warden) if depth(pid) == 1 and pid not in self.builders()]

    def in_cells(self) -> list[int]:
        return [pid for pid in tree(self.warden) if depth(pid) >= 2]

    def folders(self) -> list[str]:
        """krait's own cgroup folders of this engine, one for each hierarchy, as noted in the lock
        file that its warden holds.
        """
        for fd in glob.glob(f"/proc/{self.warden}/fd/*"):
            try:
                path = os.readlink(fd)
            except OSError:
                continue
            if re.search(r"/krait(-\d+)?/\d+\.lock$", path):
                self.noted = re.findall(r"^cgroup (.*)$", text(path), re.M)
        return [path for path in self.noted if os.path.isdir(path)]

    def cell_folders(self) -> list[str]:
        """Of cells, and of users, who have one as long as they have cells."""
        return [
            path
            for folder in self.folders()
            for shape in ("/c*/", "/u*/c*/", "/u*/")
            for path in glob.glob(folder + shape)
        ]

    def in_cgroups(self) -> list[int]:
        return sorted(
            {
                int(pid)
                for path in self.cell_folders()
                for pid in text(path + "cgroup.procs").split()
            }
        )

    def cpu_seconds(self) -> float:
        """Processor time of all living cells, as their cgroups count it."""
        spent = 0.0
        for path in self.cell_folders():
            spent += int(text(path + "cpuacct.usage") or 0) / 1e9
            found = re.search(r"^usage_usec (\d+)", text(path + "cpu.stat"), re.M)
            spent += int(found.group(1)) / 1e6 if found else 0
        return spent

    def wait_empty(self, seconds: float = GONE_S) -> list[str]:
        """Waits until no process and no cgroup of a cell is there. Complaints."""
        begun = time.monotonic()
        while True:
            left, counted, folders = self.in_cells(), self.in_cgroups(), self.cell_folders()
            spent = time.monotonic() - begun
            if not (left or counted or folders):
                self.slowest_end = max(self.slowest_end, spent)
                return []
            if spent > seconds:
                shown = [
                    f"{pid} {status(pid).get('Name')} {status(pid).get('State')}"
                    for pid in (left or counted)[:4]
                ]
                return [
                    f"after {seconds:.0f} s {len(left)} processes and {len(folders)} cgroups of cells are left: {shown}"
                ]
            time.sleep(0.01)

    def reset_peaks(self) -> None:
        for pid in (self.warden, self.engine()):
            try:
                with open(f"/proc/{pid}/clear_refs", "w") as f:
                    f.write("5")  # the peak starts again from what it is now
            except OSError:
                pass

    def peaks_mib(self) -> tuple[float, float]:
        """The most memory the warden and the engine had since reset_peaks()."""
        return kib(self.warden, "VmHWM") / 1024, kib(self.engine(), "VmHWM") / 1024
