"""From a recording of clean opens to the list of cases.

Called by run. Nothing here knows which calls krait makes: a case is a call that a process of the
recording made between the create request and the first byte of user code, its number among the
calls of its name, and an error.
"""
from __future__ import annotations

import re
import time
from dataclasses import dataclass, field

import proof
import rules
from box import Box, Outcome
from left import Patience, tree
from strace import Call, Strace, parse

# How a process is reached. "late": it exists and waits for the warden's GO; "early": from its birth
# on, through its parent.
PLAIN = ("warden", "builder", "zygote")
PARENTS = {"init": "builder", "session": "zygote", "helper": "warden"}


@dataclass(frozen=True)
class Case:
    scenario: str
    role: str  # warden builder zygote init session helper
    early: bool
    fresh: bool  # in a box that has no network namespace to use again
    syscall: str
    n: int
    error: str
    args: str = ""  # as strace showed them in the recording

    def __str__(self) -> str:
        where = (
            ""
            if self.role == "any"
            else ("early " if self.early else "") + ("first " if self.fresh else "")
        )
        return f"{where}{self.role} {self.syscall} #{self.n} {self.error} ({self.args[:90]})"


@dataclass
class Recording:
    outcome: Outcome = field(default_factory=Outcome)
    calls: dict[tuple[str, bool], list[Call]] = field(
        default_factory=dict
    )  # (role, early) -> those of the window
    before: dict[tuple[str, bool], list[Call]] = field(
        default_factory=dict
    )  # counted by strace, but not in the window
    gates: dict[str, tuple[str, int]] = field(
        default_factory=dict
    )  # init, session -> the warden's last call before its GO, and which of its name
    births: dict[str, tuple[str, int]] = field(
        default_factory=dict
    )  # role -> its parent's last call before it, and which of its name


class Broken(Exception):
    """The recording is not what a clean open looks like."""


def channel_of(calls: list[Call]) -> str:
    """The init's end of its channel, A->B, turned round: the warden's."""
    for call in calls:
        match = call.name == "dup3" and re.match(
            r"\d+<UNIX(?:-\w+)?:\[(\d+)->(\d+)\]>, 0", call.args
        )
        if match:
            return f"[{match.group(2)}->{match.group(1)}]"
    raise Broken("the init takes no channel")


def first(calls: list[Call], what: str, wanted) -> Call:
    for call in calls:
        if wanted(call):
            return call
    raise Broken(f"no {what} in the recording")


def record(box: Box, path: str) -> Recording:
    """One clean open and run under strace."""
    found = Recording()
    pids: dict[str, int] = {}

    def note() -> None:
        pids["session"], pids["init"] = box.session_and_init()

    patience = Patience(0.1)
    while not patience.is_over(tree(box.warden)):  # some process is still busy with the last cell
        time.sleep(0.003)
    tracer = Strace(path, [box.warden, box.builder, box.zygote], "-f", "-yy")
    box.open_and_run(found.outcome, prepare=note)
    tracer.stop()
    if not found.outcome.ran:
        raise Broken(f"a clean open was refused: {found.outcome.message}")
    by_pid: dict[int, list[Call]] = {}
    for call in parse(tracer.text()):
        by_pid.setdefault(call.pid, []).append(call)
    sort_calls(
        found, by_pid, {**pids, "warden": box.warden, "builder": box.builder, "zygote": box.zygote}
    )
    return found


def sort_calls(found: Recording, by_pid: dict[int, list[Call]], pids: dict[str, int]) -> None:
    role_of = {pid: role for role, pid in pids.items()}
    calls = {role_of.get(pid, "helper"): mine for pid, mine in by_pid.items()}
    warden = calls["warden"]
    begin = first(warden, "create request", lambda c: c.name == "recvmsg" and not c.error).begin
    mark = first(
        calls["session"], "user code", lambda c: c.name == "write" and proof.MARK in c.args
    ).begin
    channel = channel_of(calls["init"])
    go = {
        "init": first(
            warden,
            "GO to the init",
            lambda c: c.name == "sendmsg" and channel in c.args.split(",")[0],
        ).begin,
        "session": first(
            warden,
            "GO to the session",
            lambda c: c.name == "sendmsg" and "<UNIX-STREAM:" in c.args.split(",")[0],
        ).begin,
    }
    for role, at in go.items():
        before = [c for c in warden if c.begin < at and c.name not in rules.FUZZY]
        found.gates[role] = (before[-1].name, sum(c.name == before[-1].name for c in before))
    for role in set(calls) & set(PARENTS):
        parent = calls[PARENTS[role]]
        at = parent.index(
            first(parent, f"birth of the {role}", lambda c: c.name in ("clone", "clone3"))
        )
        last = parent[at - 1]
        found.births[role] = (last.name, sum(c.name == last.name for c in parent[:at]))
    for role, mine in calls.items():
        mine = [c for c in mine if c.begin < mark]
        if role in go:
            heard = first(
                mine,
                f"GO heard by the {role}",
                lambda c: c.name in ("read", "recvmsg") and not c.error,
            ).begin
            found.calls[role, True] = [c for c in mine if c.begin < heard]
            found.calls[role, False] = [c for c in mine if c.begin >= heard]
        else:
            early = role == "helper"
            found.calls[role, early] = [c for c in mine if c.begin >= begin]
            found.before[role, early] = [c for c in mine if c.begin < begin]


def errors_for(name: str, at: int, count: int, mode: str) -> tuple[str, ...]:
    """EPERM always; the others everywhere for what makes the cell, else at the first, the middle
    and the last place.
    """
    if mode == "full" or (
        mode == "normal" and (name in rules.SECURITY or at in (0, count // 2, count - 1))
    ):
        return rules.ERRORS
    return rules.ERRORS[:1]


def chosen(name: str, count: int, mode: str) -> list[int]:
    """The places to fail, from 0. Only --quick leaves any out: the 2nd to the last but one of a
    long row.
    """
    if mode != "quick" or count <= 6:
        return list(range(count))
    return sorted({0, 1, count // 2, count - 2, count - 1})


def cases_of(scenario: str, recording: Recording, fresh: bool, mode: str) -> list[Case]:
    cases = []
    for (role, early), calls in recording.calls.items():
        for name in sorted({c.name for c in calls} - set(rules.CANNOT_FAIL)):
            mine = [c for c in calls if c.name == name]
            skipped = sum(c.name == name for c in recording.before.get((role, early), []))
            for at in chosen(name, len(mine), mode):
                for error in errors_for(name, at, len(mine), mode):
                    cases.append(
                        Case(
                            scenario,
                            role,
                            early,
                            fresh,
                            name,
                            skipped + at + 1,
                            error,
                            mine[at].args,
                        )
                    )
    return cases


def only_here(cases: list[Case], others: list[Case]) -> list[Case]:
    """Those whose call, by role and name, the other list does not have as often."""

    def key(case: Case) -> tuple:
        return case.role, case.early, case.syscall, case.n, case.error

    known = {key(case) for case in others}
    names = {(case.role, case.syscall) for case in cases if key(case) not in known}
    return [case for case in cases if (case.role, case.syscall) in names and case.role == "builder"]
