"""The shape of a row: code that uses something up, and how it must end, as root and as an ordinary
user."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Callable, Optional

from engine import Run

QUICK = {"grace": "1s", "memory": "256M"}  # of every row unless it says otherwise


@dataclass(frozen=True)
class Expect:
    """How a run must have ended. hits are all of limits_hit. None: not looked at."""

    cause: Optional[str]
    hits: Optional[tuple] = ()
    alive: Optional[bool] = None
    exit_code: Optional[int] = None
    stdout: Optional[str] = None  # the whole of it
    says: Optional[str] = None  # a part of stdout
    error: Optional[str] = None  # the type of the exception
    truncated: bool = False
    within: float = 30  # seconds
    check: Optional[Callable[[Run], Optional[str]]] = None  # more; a complaint or None

    def complaints(self, run: Run) -> list[str]:
        bad = []

        def same(what: str, got, wanted) -> None:
            if wanted is not None and got != wanted:
                bad.append(f"{what} is {got!r}, not {wanted!r}")

        same("cause", run.cause, self.cause)
        same("limits_hit", run.hits, None if self.hits is None else sorted(self.hits))
        same("session_alive", run.alive, self.alive)
        same("exit_code", run.end.get("exit_code"), self.exit_code)
        same("stdout", run.stdout, self.stdout)
        same("truncated", run.end.get("truncated"), self.truncated)
        if self.error is not None:
            same("error", (run.end.get("error") or {}).get("type"), self.error)
        if self.says is not None and self.says not in run.stdout:
            bad.append(f"stdout has no {self.says!r}")
        if run.seconds > self.within:
            bad.append(f"it took {run.seconds:.1f} s, more than {self.within:.1f}")
        more = self.check(run) if self.check else None
        if more:
            bad.append(more)
        return bad + [f"({run})"] if bad else []


@dataclass(frozen=True)
class Row:
    name: str
    code: str
    root: Expect
    user: Optional[Expect] = None  # None: as root
    differs: str = ""  # why an ordinary user's is not root's
    limits: dict = field(default_factory=dict)
    timeout: str = "10s"
    only: str = ""  # "root" or "user"
    again: bool = True  # a session that lives must answer the next run

    def expect(self, who: str) -> Expect:
        return self.user if who == "user" and self.user is not None else self.root

    def __post_init__(self) -> None:
        assert bool(self.user) == bool(
            self.differs
        ), f"{self.name}: what differs for a user must be said, and only then"


def needs(*what: str) -> Callable:
    """Of a scenario: what a level must have for it, a layer of the engine's or AROUND. The runner leaves it out of a level
    without that: a scenario that does nothing must not pass."""

    def mark(scenario: Callable) -> Callable:
        scenario.needs = what
        return scenario

    return mark


AROUND = "a control group around the engine"


def but(expect: Expect, **changes) -> Expect:
    return replace(expect, **changes)


def peak_within(limit: int) -> Callable[[Run], Optional[str]]:
    """The cell's peak, by the kernel's own count, stayed at its limit."""

    def check(run: Run) -> Optional[str]:
        peak = run.end.get("peak_memory_bytes")
        if not isinstance(peak, int) or peak <= 0:
            return f"peak_memory_bytes is {peak!r}"
        return None if peak <= limit else f"the peak was {peak >> 20} MiB of {limit >> 20} MiB"

    return check


def peak_unknown(run: Run) -> Optional[str]:
    """Without a cgroup nothing is counted, and the result must say so rather than give a number."""
    layers = run.end.get("layers") or {}
    if run.end.get("peak_memory_bytes") is not None or layers.get("cgroup_memory"):
        return f"memory is told as if it were counted: {run.end.get('peak_memory_bytes')} {layers}"
    return None
