"""The start: what warden, builder and zygote do before the first create request, failed from the
first call on.

Used by run. There is no process yet to attach to, so strace starts `krait run` itself and follows
every process: the nth call fails in each process that makes so many. All hits are judged together:
either krait ends with one clear line and a status, or every hit has a row.
"""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time

import left
import plan
import proof
import rules
import strace
from box import ASKED, GROUP, NO_PROOF, Outcome
from plan import Case, Recording
from proof import children

LIMIT_S = 60
SCENARIO = "start"
# Calls whose places at the start are failed; more of them would be CPython looking for its modules.
# rt_sigprocmask is CPython's and glibc's, which end where it fails.
CALLS = (rules.SECURITY - {"recvmsg", "ioctl", "write", "openat", "rt_sigprocmask"}) | {
    "ftruncate",
    "flock",
}
# In a mount namespace with a lock folder of its own, $0: how often each call is made before a lock
# is found would else depend on how many others run on this machine. What is left of it is strace.
ALONE = ("unshare", "--mount", "sh", "-c")
WITH_LOCKS = 'mkdir -p -m 700 /run/krait && mount --bind "$0" /run/krait && exec "$@"'
FILES = {"openat", "write", "pread64", "readlink"}  # failed as often as warden or builder make them

CODE = (
    proof.INSIDE
    + """
os.mkdir("/workspace/mark")  # not a file: no process may be seen with it open
end = time.monotonic() + 40
while not os.path.exists("/workspace/go") and time.monotonic() < end:
    time.sleep(0.002)
with open("/workspace/proof", "w") as file:
    file.write(proof(BAIT))
"""
)


def answer(lines: list[str]) -> str:
    """What krait said in the end: its own lines, else an error of its log. A zygote that cannot
    start may say so at length before.
    """
    mine = [line for line in lines if line.startswith("krait")] or [
        line for line in lines if line.startswith("level=error")
    ]
    return "\n".join(mine)


def arguments(krait: str, workspace: str, bait: str) -> list[str]:
    words = [krait, "run", "--json", "--workspace", workspace]
    for name, value in ASKED.items():
        words += ["--" + name.replace("_", "-"), str(value)]
    return words + ["-c", f"BAIT = {bait!r}\n" + CODE]


class Start:
    """One `krait run` under strace."""

    def __init__(self, krait: str, folder: str, bait: str, *options: str) -> None:
        self.folder = tempfile.mkdtemp(dir=folder)
        os.chmod(self.folder, 0o755)
        self.workspace = os.path.join(self.folder, "workspace")
        self.trace = os.path.join(self.folder, "strace")
        os.mkdir(self.workspace)
        self.locks = os.path.join(self.folder, "locks")
        os.mkdir(self.locks, 0o700)
        self.traces = left.Traces(self.locks)
        argv = [
            *ALONE,
            WITH_LOCKS,
            self.locks,
            strace.STRACE,
            "-f",
            "-qq",
            "-ttt",
            "-s",
            "200",
            "-o",
            self.trace,
            *options,
            *arguments(krait, self.workspace, bait),
        ]
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            extra_groups=[GROUP],
        )
        self.krait = os.path.realpath(krait)
        self.warden = self.builder = -1
        self.roles: dict[str, int] = {}

    def path(self, name: str) -> str:
        return os.path.join(self.workspace, name)

    def is_krait(self, pid: int) -> bool:
        """strace has short-lived children of its own, too."""
        try:
            return os.readlink(f"/proc/{pid}/exe") == self.krait
        except OSError:
            return False

    def find_roles(self) -> None:
        grown = [pid for pid in children(self.warden)[1:] if children(pid)]
        if grown:
            builder = grown[-1]
            zygote, *inits = children(builder)
            sessions = children(zygote)
            self.roles = {
                "warden": self.warden,
                "builder": builder,
                "zygote": zygote,
                "init": inits[-1] if inits else -1,
                "session": sessions[0] if sessions else -1,
                "engine": next((pid for pid in children(self.warden) if pid != builder), -1),
            }

    def follow(self, out: Outcome) -> None:
        """Until krait has ended."""
        began = time.monotonic()
        while self.process.poll() is None and time.monotonic() < began + LIMIT_S:
            if self.warden < 0:
                self.warden = next(
                    (pid for pid in children(self.process.pid) if self.is_krait(pid)), -1
                )
            if self.warden > 0:
                self.traces.look(self.warden)
                self.watch_family(out)
            if not out.ran and os.path.exists(self.path("mark")):
                out.ran, out.ran_at = True, time.time()
                self.look(out)
                with open(self.path("go"), "w", encoding="ascii"):
                    pass
            time.sleep(0.002)
        out.seconds = time.monotonic() - began
        if self.process.poll() is None:
            out.problems.append(f"krait has not ended after {LIMIT_S} s")

    def watch_family(self, out: Outcome) -> None:
        grown = [pid for pid in children(self.warden)[1:] if children(pid)]
        if grown and self.builder not in (-1, grown[-1]):
            out.replaced = True
        self.builder = grown[-1] if grown else self.builder

    def look(self, out: Outcome) -> None:
        self.find_roles()
        try:
            out.outside = proof.outside(
                self.roles["session"], self.roles["init"], self.roles["zygote"]
            )
            out.dac = proof.mount_aside(self.roles["session"])
        except (OSError, IndexError, KeyError, ValueError) as e:
            out.problems.append(f"the cell could not be looked at: {e!r}")

    def finish(self, out: Outcome) -> None:
        """Takes what krait said, and what it left."""
        for what in self.traces.left_at_rest(
            set() if self.process.poll() is not None else {self.process.pid}
        ):
            out.problems.append(f"left behind: {what}")
        if self.process.poll() is None:
            self.process.kill()
        said, errors = self.process.communicate(timeout=10)
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        out.message = answer(lines)
        out.status = self.process.returncode
        try:
            report = json.loads(said or b"{}")
        except ValueError:
            report = {}
            out.problems.append(f"stdout is not one object: {said[:200]!r}")
        out.ran_at = proof.ran_at(report.get("stdout") or "") or out.ran_at
        out.layers, out.cause = report.get("layers"), report.get("cause") or ""
        if out.ran and os.path.exists(self.path("proof")):
            with open(self.path("proof"), encoding="utf-8") as file:
                out.inside = json.load(file)
        elif out.ran:
            out.problems.append(
                f"{NO_PROOF}: {said[-300:]!r} {out.message!r}"
            )
        if not out.ran and out.status == 0:
            out.problems.append("user code did not run, and the exit status is 0")

    def calls(self) -> list[strace.Call]:
        try:
            return strace.parse(proof.read(self.trace))
        except OSError:
            return []

    def role_of(self, pid: int) -> str:
        return next((role for role, its in self.roles.items() if its == pid), "unnamed")

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def run(krait: str, folder: str, bait: str, *options: str) -> tuple[Start, Outcome]:
    out = Outcome()
    start = Start(krait, folder, bait, *options)
    start.follow(out)
    start.finish(out)
    return start, out


def record(krait: str, folder: str, bait: str) -> tuple[Recording, dict[str, dict[str, int]]]:
    """A clean run: its outcome, and how often each role makes each call."""
    start, out = run(krait, folder, bait)
    if not out.ran or out.problems:
        raise plan.Broken(f"a clean run failed: {out.message} {out.problems}")
    counts: dict[str, dict[str, int]] = {}
    calls = start.calls()
    engine = [call for call in calls if call.pid == start.roles["engine"]]
    asked = plan.first(engine, "create request", lambda c: c.name == "sendmsg").begin
    loaded = plan.first(calls, "start of the program", lambda c: c.name == "set_tid_address").begin
    for call in calls:
        mine = counts.setdefault("loader" if call.begin < loaded else start.role_of(call.pid), {})
        if call.begin < asked:
            mine[call.name] = mine.get(call.name, 0) + 1
    start.remove()
    return Recording(outcome=out), counts


def cases(counts: dict[str, dict[str, int]], mode: str) -> list[Case]:
    """Every place that some role reaches. Only what makes the cell is also failed with ENOSYS and
    ENOMEM, and thinned out in long rows.
    """
    found = []
    for name in sorted(CALLS | FILES):
        roles = ("builder",) if name in FILES else ("builder", "zygote", "unnamed")
        loader = counts["loader"].get(name, 0)
        most = max((counts.get(role, {}).get(name, 0) for role in roles), default=0)
        places = sorted(
            {*range(1, most + 1), *range(loader + 1, loader + counts["warden"].get(name, 0) + 1)}
        )
        for error in rules.ERRORS if mode != "quick" else rules.ERRORS[:1]:
            thin = "quick" if mode == "quick" or (mode == "normal" and error != "EPERM") else mode
            found += [
                Case(SCENARIO, "any", True, True, name, places[at], error)
                for at in plan.chosen(name, len(places), thin)
            ]
    return found


def attempt(krait: str, folder: str, bait: str, case: Case) -> Outcome:
    start, out = run(
        krait,
        folder,
        bait,
        f"--trace={case.syscall}",
        strace.fault(case.syscall, case.error, case.n),
    )
    for call in start.calls():
        role = start.role_of(call.pid)
        call.args = call.args.strip()
        if call.injected and out.ran and call.time > out.ran_at:  # no part of the start, but something may stay
            out.problems = rules.unexpected(out.problems, [rules.row_for(role, call, out.replaced)])
        elif call.injected:
            out.hits.append(call)
            out.roles[call.pid] = role
    start.remove()
    return out
