"""Rows, judges and the report. Used by every rows_*.py and by run.py.

A row is one class of attack: a probe that runs inside and gives observations, a judge of them, and the same probe (or a
harmless variant) outside with a judge of its own, the control. Invariant: a row without a control says why in
`no_control`, and a control whose answer could not tell policy from kernel fails instead of passing quietly.
"""
from __future__ import annotations

import fnmatch
import os
import sys
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Union

Judge = Callable[[dict, "Context"], list]
Wanted = Union[dict, Judge]
# What says "the kernel has no such thing" rather than "a policy refuses".
ABSENT = (
    "ENOSYS",
    "EAFNOSUPPORT",
    "EPROTONOSUPPORT",
    "ESOCKTNOSUPPORT",
    "ENODEV",
    "ENXIO",
    "ENOTSUP",
    "ENOENT",
)
REFUSED = ("EPERM", "EACCES")
SYS_RESOURCE = 24  # a root may lack it, and the kernel then refuses outside what the sandbox refuses inside


@dataclass
class Context:
    """Where observations come from: what a judge may take into account."""

    way: str = "control"
    preload: str = ""
    mode: str = ""
    contained: bool = False
    abi: int = 0  # Landlock
    bait: Any = None  # what the suite has put up outside
    notes: list = field(default_factory=list)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    @property
    def init_is_kin(self) -> bool:
        """Has the cell's init the session's own uid, and no Landlock scope between (ABI 6)? Then the kernel takes a
        signal to it and drops it: PID 1 of a namespace gets from inside only what it has a handler for."""
        return not self.contained and self.abi < 6 and self.way in ("user", "userns")

    @staticmethod
    def has_cap(number: int) -> bool:
        """Has the suite itself this capability? Controls of some rows need it."""
        with open("/proc/self/status") as f:
            line = next(x for x in f if x.startswith("CapEff"))
        return bool(int(line.split()[1], 16) >> number & 1)


def expect(table: dict) -> Judge:
    """A judge from a table: pattern of the observation's name -> the words it may be; None: anything."""

    def judge(seen: dict, ctx: Context) -> list:
        bad = []
        for name, got in seen.items():
            key = (
                name
                if name in table
                else next((k for k in table if k != "*" and fnmatch.fnmatchcase(name, k)), "*")
            )
            if key not in table:
                bad.append(f"{name}: {got}, and no rule for it")
                continue
            wanted = table[key]
            if wanted is not None and got not in wanted.split():
                bad.append(f"{name}: {got}, not {' or '.join(wanted.split())}")
        for key in table:
            if key != "*" and not fnmatch.filter(seen, key):
                bad.append(f"{key}: not observed")
        if not seen:
            bad.append("nothing observed")
        return bad

    return judge


def REACHED(seen: dict, ctx: Context) -> list:
    """The control's usual judge: every call came as far as the kernel. What this kernel lacks is noted."""
    bad, absent, reached = [], [], 0
    for name, got in seen.items():
        if got in REFUSED:
            bad.append(f"{name}: {got} outside too, so the refusal inside proves nothing")
        elif got in ABSENT:
            absent.append(name)
        else:
            reached += 1
    if absent:
        ctx.note(f"not in this kernel, so its refusal cannot be told from its absence: {', '.join(absent)}")
    if not reached:
        bad.append("nothing of it reached the kernel")
    return bad


def judge_of(wanted: Wanted) -> Judge:
    return expect(wanted) if isinstance(wanted, dict) else wanted


@dataclass
class Row:
    id: str
    title: str
    probe: Callable[[], dict]
    cell: Wanted  # what must be seen in a cell
    contained: Union[Wanted, str, None] = None  # None: the same; text: does not apply there, and why
    control: Optional[Wanted] = None  # what must be seen outside
    control_probe: Optional[Callable[[], dict]] = None  # None: the same probe
    control_says: str = ""  # what of the control is not the attack itself, and why
    no_control: str = ""  # why none can be had
    inline: bool = False  # in the session's own process instead of a fork of it
    raw: bool = False  # again by raw syscall instructions and from a thread (E3, E4)
    network: str = "none"
    helpers: tuple = ()  # functions the probe uses

    def __post_init__(self) -> None:
        assert bool(self.control) != bool(self.no_control), f"{self.id}: a control, or why there is none"

    def judge(self, result: dict, ctx: Context) -> list:
        if "error" in result:
            return [f"the probe failed: {result['error']}"]
        if "signal" in result:
            return [f"the probe died by {result['signal']}"]
        wanted = self.cell
        if ctx.contained and self.contained is not None:
            wanted = self.contained
        return judge_of(wanted)(result["value"], ctx)

    def judge_control(self, result: dict, ctx: Context) -> list:
        if "value" not in result:
            return [f"the control failed: {result}"]
        return judge_of(self.control)(result["value"], ctx)


@dataclass
class Scenario:
    """A row that needs more than one session or step: a function over a running engine."""

    id: str
    title: str
    run: Callable[..., list]  # (stage: Stage) -> complaints
    control: Optional[Callable[..., list]] = None
    control_says: str = ""
    no_control: str = ""
    contained: Optional[str] = None  # why it does not apply there
    modes: tuple = ("pooled", "unpooled")

    def __post_init__(self) -> None:
        assert bool(self.control) != bool(self.no_control), f"{self.id}: a control, or why there is none"


# Rows of the checklist that are not here. Printed by --list.
OMITTED = [
    (
        "A16 (handler)",
        "only with --own-machine: it sets the machine's core_pattern to a program for a moment",
    ),
    ("B5 (downloads)", "symlink, rename and hard link races against the file API: unit/files and integration/files"),
    (
        "B6 (collector)",
        "how special files are listed: unit/files and integration/files; that they block no caller is here",
    ),
    ("B7", "archives on upload and export: krait unpacks and packs none"),
    ("C2 hash(\"x\")", "siblings share the hash seed until their zygote is rotated: documented"),
    ("C4", "fork of a fork, undo, branch: there are no checkpoints yet"),
    ("C5", "checkpoint with threads and sockets: there are no checkpoints yet"),
    ("C6", "clock of a frozen branch: there are no checkpoints yet"),
    ("C7", "another's checkpoint as a base: there are no checkpoints yet"),
    ("D (exhaustion)", "bombs, fills and hangs are tests/exhaust; only what is about isolation is here"),
    (
        "E7",
        "scripts and escapes in rich output: tests/web; krait run passes them on as python3 does",
    ),
    ("E8", "cut connection and resume: tests/integration/server.py and tests/server"),
    ("E9", "another tenant's id or cursor: tests/server/isolation.py"),
]


class Report:
    """PASS, FAIL, SKIP and note lines, each as it comes."""

    def __init__(self) -> None:
        self.passed = self.failed = self.skipped = 0
        self.must_work = os.environ.get("KR_MUST_WORK") == "1"

    def say(self, text: str) -> None:
        sys.stdout.write(text.replace("\n", "\\n") + "\n")
        sys.stdout.flush()

    def result(self, name: str, complaints: list) -> None:
        if complaints:
            self.failed += 1
            text = "; ".join(str(c) for c in complaints)
            self.say(f"FAIL {name}: {text[:1500]}")
        else:
            self.passed += 1
            self.say(f"PASS {name}")

    def skip(self, name: str, why: str) -> None:
        if self.must_work:
            self.result(name, [f"skipped: {why}"])
        else:
            self.skipped += 1
            self.say(f"SKIP {name}: {why}")

    def note(self, name: str, text: str) -> None:
        self.say(f"note {name}: {text}")
