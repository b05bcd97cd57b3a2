"""A krait-engine that cells are opened in, one after the other, with or without a fault.

Used by the workers of the suite. The warden, the builder and the zygote of a box live for many
cases; a box in which one of them has ended, or that leaks on purpose (a failed close), is not used
again. Between two cases nothing of a cell may be there: no process, no cgroup folder, no
descriptor.
"""
from __future__ import annotations

import json
import os
import re
import selectors
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

import proof
import strace
from left import Patience, Traces, tree
from proof import children

START_S = 60
# Longer than the longest deadline of krait's own on this way (10 s, for a GO that does not come).
ANSWER_S = 60
LOOK_S = 4.0  # of calm: a session that cannot be seen whole by then is gone
ASKED = {
    "memory": "64M",
    "processes": 11,
    "disk": "8M",
    "inodes": 500,
    "file_size": "4M",
    "open_files": 64,
    "cpu": 1.5,
    "cpu_time": "77s",
}
NO_PROOF = "user code ran and did not come to its proof"
GROUP = 31337  # a supplementary group that no session may inherit


class Dead(Exception):
    """The engine has ended or says nothing."""


@dataclass(frozen=True)
class Scenario:
    name: str
    options: tuple[str, ...] = ()
    workspace: bool = True
    network: str = "none"
    user: int = 0
    owner: int = 0
    read_only: bool = False

    def request(self) -> dict:
        return {
            "op": "open",
            "preload": "basic",
            "network": self.network,
            "pooled": False,
            "workspace": 0 if self.workspace else None,
            "limits": ASKED,
            "owner": self.owner,
            "read_only": self.read_only,
            "env": {},
        }


SCENARIOS = {
    "root": Scenario("root"),
    "loopback": Scenario("loopback", workspace=False, network="loopback"),
    "user": Scenario("user", user=64123),
    "owner": Scenario("owner", ("--user-memory", str(1 << 28)), workspace=False, owner=7,
                      read_only=True),
}


@dataclass
class Outcome:
    """What became of one open and one run."""

    opened: bool = False
    ran: bool = False  # the marker came: user code has run
    ran_at: float = 0.0
    session: int = -1  # where it ran, if that could be seen
    init: int = -1  # of that cell
    inside: dict | None = None
    outside: dict | None = None
    layers: dict | None = None
    dac: str = ""
    message: str = ""  # how it was refused
    cause: str = ""
    status: int | None = None  # of krait, where it has ended
    problems: list[str] = field(default_factory=list)
    hits: list[strace.Call] = field(default_factory=list)
    seconds: float = 0.0
    late: bool = False  # the fault came after user code had begun
    replaced: bool = False  # the family had ended, and the cell is one of the next
    roles: dict[int, str] = field(default_factory=dict)  # whose calls the hits are


def numbers(pid: int) -> list[str]:
    """Its pids, from our pid namespace inwards; none if it has ended."""
    try:
        return proof.status_of(pid)["NSpid"].split()
    except (OSError, KeyError):
        return []


def levels(pid: int) -> int:
    return len(numbers(pid))


def number(pid: int) -> str:
    """Its pid in its innermost namespace."""
    return (numbers(pid) or [""])[-1]


class Box:
    def __init__(self, krait: str, scenario: Scenario, folder: str, bait: str) -> None:
        self.scenario, self.bait = scenario, bait
        self.folder = tempfile.mkdtemp(dir=folder)
        self.engine = self.builder = self.zygote = -1
        self.workspace = os.path.join(self.folder, "workspace")
        self.traces = Traces()
        self.buffer = b""
        self.number = 0
        self.cases = 0
        self.spoiled = False
        os.chmod(self.folder, 0o755)
        os.mkdir(self.workspace)
        argv = [
            os.path.join(os.path.dirname(krait), "tests", "krait-engine"),
            "--pool",
            "0",
            "--stock",
            "0",
            "--preload",
            "basic",
            *scenario.options,
        ]
        if scenario.workspace:
            argv += ["--workspace", self.workspace]
        who: dict = (
            {"extra_groups": [GROUP]}
            if scenario.user == 0
            else {"user": scenario.user, "group": scenario.user, "extra_groups": []}
        )
        if scenario.user:
            os.chown(self.workspace, scenario.user, scenario.user)
        self.log = open(os.path.join(self.folder, "stderr"), "w+b")
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, cwd="/", **who
        )
        self.warden = self.process.pid
        os.set_blocking(self.process.stdout.fileno(), False)
        self.wait_ready()
        self.traces.look(self.warden)
        self.find_roles()
        self.descriptors = self.count_descriptors()

    def wait_ready(self) -> None:
        words = ("ready", "failed")
        event = self.wait_event(
            lambda e: e.get("event") == "zygote" and e.get("state") in words, START_S
        )
        if event["state"] == "failed":
            raise Dead(f"the zygote cannot start: {event} {self.said()}")

    def find_roles(self) -> None:
        """By the tree: the engine is the warden's first child, the youngest one with a child in its own
        pid namespace is the builder, and that child the zygote.
        """
        mine = children(self.warden)
        self.engine = mine[0] if mine else -1
        for pid in mine[1:]:
            near = [one for one in children(pid) if levels(one) == levels(pid) > 0]
            if near:
                self.builder, self.zygote = pid, near[0]

    # ---- lines -----------------------------------------------------------------------------------

    def send(self, request: dict) -> int:
        self.number += 1
        try:
            self.process.stdin.write(json.dumps({"id": self.number, **request}).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # its end is noticed where an answer is awaited
        return self.number

    def next_event(self, seconds: float) -> dict:
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.buffer:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise Dead(f"nothing for {seconds:.0f} s")
                data = os.read(self.process.stdout.fileno(), 65536)
                if not data:
                    raise Dead("krait has ended: " + self.said())
                self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    def wait_event(self, wanted, seconds: float = ANSWER_S) -> dict:
        deadline = time.monotonic() + seconds
        while True:
            event = self.next_event(max(0.1, deadline - time.monotonic()))
            if wanted(event):
                return event
            if event.get("event") == "session_ended":
                self.ended_session = event

    def said(self) -> str:
        self.log.seek(0)
        return self.log.read().decode("utf-8", "replace").strip()[-500:]

    # ---- one cell --------------------------------------------------------------------------------

    def session_and_init(self) -> tuple[int, int]:
        """Of the first family that has a session. One whose zygote has ended is a child of the builder, as
        the inits are, which have the number 1 in their cell.
        """
        sessions, inits = [], []
        for builder in children(self.warden)[1:]:
            here = []
            for pid in children(builder):
                if levels(pid) == levels(builder):
                    sessions += children(pid)
                elif number(pid) == "1":
                    here.append(pid)
                else:
                    sessions.append(pid)
            inits = here or inits
            if sessions:
                break
        return (sessions[0] if sessions else -1), (inits[0] if inits else -1)

    def use(self, answer: dict, out: Outcome, prepare=None) -> None:
        """After the open was answered: looks from outside, runs the proof, closes."""
        if answer["event"] != "opened":
            out.message = answer.get("message") or ""
            return
        out.opened = True
        self.look(out)
        if prepare:
            prepare()
        code = proof.INSIDE + f"print({proof.PROOF!r} + proof({self.bait!r}))\n"
        number = self.send(
            {"op": "run", "session": answer["session"], "code": code, "timeout": "10s"}
        )
        self.read_run(number, out)
        self.close(answer["session"])

    def look(self, out: Outcome) -> None:
        """From outside. The family may be another by now, and the old one not gone yet; or the session has
        outlived its zygote, and the next one is awaited to compare with.
        """
        patience = Patience(LOOK_S)
        while out.outside is None and not patience.is_over(tree(self.warden)):
            before = self.builder
            self.find_roles()
            out.replaced = out.replaced or self.builder != before
            self.spoiled = self.spoiled or out.replaced
            try:
                session, init = self.session_and_init()
                out.outside = proof.outside(session, init, self.zygote)
                out.session, out.init = session, init
                out.dac = proof.mount_aside(session)
            except (OSError, IndexError, KeyError, ValueError) as e:
                out.message = f"(gone while it was looked at: {e})"
                time.sleep(0.01)

    def read_run(self, number: int, out: Outcome) -> None:
        text = ""
        while True:
            event = self.wait_event(lambda e: e.get("id") == number)
            if event["event"] in ("stdout", "stderr"):
                text += event["text"]
            if event["event"] in ("end", "error"):
                break
        out.cause = event.get("cause") or "error"
        out.ran, out.ran_at = proof.MARK in text, proof.ran_at(text)
        error = event.get("error") or {}
        words = (
            out.cause,
            event.get("exit_code"),
            event.get("message"),
            error.get("type"),
            error.get("message"),
        )
        out.message = " ".join(str(word) for word in words if word not in (None, ""))
        if not out.ran and out.cause == "exit" and event.get("exit_code") == 0:
            out.problems.append("user code did not run, and the end says that it exited with 0")
        out.layers = event.get("layers")
        found = re.search("^" + proof.PROOF + "(.*)$", text, re.M)
        if found:
            out.inside = json.loads(found.group(1))
        elif out.ran:
            out.problems.append(
                f"{NO_PROOF}: {text[-300:]!r} {event.get('error')}"
            )

    def close(self, session: int) -> None:
        number = self.send({"op": "close", "session": session})
        self.wait_event(lambda e: e.get("id") == number)

    def open_and_run(self, out: Outcome, while_opening=None, prepare=None) -> None:
        began = time.monotonic()
        number = self.send(self.scenario.request())
        try:
            if while_opening:
                while_opening()
            self.use(self.wait_event(lambda e: e.get("id") == number), out, prepare)
        except Dead as e:
            out.message = out.message or str(e)
            self.spoiled = True
            if "nothing for" in str(e):
                out.problems.append(f"krait says nothing any more ({e})")
        out.seconds = time.monotonic() - began

    # ---- between cases ---------------------------------------------------------------------------

    def count_descriptors(self) -> dict[str, int]:
        """Of the three that stay. Network namespaces in the builder's stock are not leaks."""
        counts = {}
        for role in ("warden", "builder", "zygote"):
            folder = f"/proc/{getattr(self, role)}/fd"
            links = []
            for name in os.listdir(folder):
                try:
                    links.append(os.readlink(f"{folder}/{name}"))
                except OSError:
                    pass
            counts[role] = sum(not link.startswith("net:[") for link in links)
        return counts

    def has_stock(self) -> bool:
        """Whether the builder has a network namespace to use again."""
        folder = f"/proc/{self.builder}/fd"
        return any(
            os.readlink(f"{folder}/{name}").startswith("net:[") for name in os.listdir(folder)
        )

    def whole(self) -> bool:
        """Whether the three that stay are the same as at the start."""
        return (
            self.process.poll() is None
            and proof.alive(self.builder)
            and proof.alive(self.zygote)
            and self.builder in children(self.warden)
            and self.zygote in children(self.builder)
        )

    def keepers(self) -> list[int]:
        """One, once a run has lasted long enough for a question about its open files; it stays."""
        return [pid for pid in children(self.warden) if proof.read(f"/proc/{pid}/comm") == "krait-keeper\n"][:1]

    def residue(self) -> list[str]:
        found, keepers = [], self.keepers()
        for pid in tree(self.warden):
            if pid not in (self.engine, self.builder, self.zygote, *keepers):
                found.append(f"process {pid}")
        found += [f"cgroup {path}" for path in self.traces.cells()]
        now = self.count_descriptors()
        now["warden"] -= len(keepers)  # its end of the keeper's socket
        found += [
            f"{role} has {now[role]} descriptors, not {count}"
            for role, count in self.descriptors.items()
            if now[role] != count
        ]
        return found

    def settle(self) -> list[str]:
        """Waits until nothing of the last cell is left; what is left when nothing goes any more. A box that has
        lost a part is spoiled.
        """
        patience = Patience()
        while True:
            if not self.whole():
                self.spoiled = True
                return []
            try:
                found = self.residue()
            except OSError:
                continue
            if not found or patience.is_over(tree(self.warden)):
                return found
            time.sleep(0.003)

    def end(self) -> list[str]:
        """Ends the engine as its user would; what is left of it."""
        self.traces.look(self.warden)
        self.process.stdin.close()
        problems = []
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            problems.append("krait does not end at the end of its input")
            self.process.kill()
            self.process.wait()
        problems += self.traces.left_at_rest(set())
        self.process.stdout.close()
        self.log.close()
        return problems
