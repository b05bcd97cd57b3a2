"""One worker: takes cases, keeps boxes, aims, judges.

Started by run, one per core. A case is judged by what really happened: the call that strace says it
failed, the marker that user code prints first of all, the proof, and what is left. A case whose
call did not come is tried again, then reported as missed.
"""
from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass, field

import left
import proof
import rules
import start
from aim import Aim
from box import NO_PROOF, SCENARIOS, Box, Dead, Outcome
from plan import Case, Recording

CASES_PER_BOX = 40
TRIES = 5
MESSAGE_MAX = 300


@dataclass
class Verdict:
    case: Case
    problems: list[str] = field(default_factory=list)
    missed: bool = False
    refused: bool = False
    message: str = ""
    why: str = ""  # of the row that tolerates it
    hits: list[str] = field(default_factory=list)
    rows: list = field(default_factory=list)  # of rules.py, one for each hit, or None
    seconds: float = 0.0


class Worker:
    def __init__(self, krait: str, clean: dict[str, Recording]) -> None:
        left.isolate()
        self.krait, self.clean = krait, clean
        self.folder = tempfile.mkdtemp(prefix="krait-fault-")
        os.chmod(self.folder, 0o755)
        self.bait = os.path.join(self.folder, "bait")
        with open(self.bait, "w", encoding="ascii") as file:
            file.write("a file of the host\n")
        self.box: Box | None = None
        self.since: list[Verdict] = []  # judged in this box

    # ---- boxes -----------------------------------------------------------------------------------

    def new_box(self, scenario: str) -> Box:
        self.drop_box()
        self.box = Box(self.krait, SCENARIOS[scenario], self.folder, self.bait)
        return self.box

    def drop_box(self) -> None:
        """Ends the box. What it leaves behind is charged to the case it was ended for, or to all it
        has served.
        """
        if self.box is None:
            return
        problems, self.box = [f"left behind: {what}" for what in self.box.end()], None
        if problems:
            guilty = self.since[-1:] if self.since and self.since[-1].hits else self.since
            for verdict in guilty:
                verdict.problems += problems
        self.since = []

    def box_for(self, case: Case) -> Box:
        box = self.box
        if (
            box is None
            or box.spoiled
            or not box.whole()
            or case.fresh
            or box.scenario.name != case.scenario
            or box.cases >= CASES_PER_BOX
        ):
            box = self.new_box(case.scenario)
        if not case.fresh and not box.has_stock() and box.scenario.network == "none":
            box.open_and_run(Outcome())
            box.settle()
        box.cases += 1
        return box

    def run_start(self, case: Case, verdict: Verdict) -> None:
        self.drop_box()
        out = start.attempt(self.krait, self.folder, self.bait, case)
        verdict.seconds += out.seconds
        self.judge(case, out, verdict)

    # ---- judging ---------------------------------------------------------------------------------

    def run(self, case: Case) -> Verdict:
        verdict = Verdict(case)
        for _ in range(TRIES):
            if case.scenario == start.SCENARIO:
                self.run_start(case, verdict)
            else:
                self.run_open(case, verdict)
            if verdict.hits or verdict.problems:
                break
            if case.syscall in rules.FUZZY and case.n > 1:  # as good an answer as any
                break
        verdict.missed = not any(
            hit.startswith(case.role) or case.role == "any" for hit in verdict.hits
        )
        return verdict

    def run_open(self, case: Case, verdict: Verdict) -> None:
        try:
            box = self.box_for(case)
        except Dead as e:
            verdict.problems.append(f"no box: {e}")
            return
        self.since.append(verdict)
        out = Aim(case, box, self.clean[case.scenario], self.folder).attempt()
        verdict.seconds += out.seconds
        if out.late:  # what follows from a failure after the window is not judged here
            box.spoiled = True
        else:
            self.judge(case, out, verdict)
        what = box.settle() if not out.late else []
        if (
            case.syscall == "close"
        ):  # the descriptor stays open, which no kernel does to a closed one
            what = [row for row in what if "descriptors" not in row]
            box.spoiled = True
        verdict.problems += [
            f"still there after the cell's end: {row}" for row in rules.unexpected(what, verdict.rows)
        ]
        if what or box.spoiled:
            self.drop_box()

    def judge(self, case: Case, out: Outcome, verdict: Verdict) -> None:
        verdict.hits = [
            f"{out.roles[c.pid]} {c.name}({c.args[:120]}) = {c.result[:60]}" for c in out.hits
        ]
        verdict.message = out.message
        verdict.refused = not out.ran
        verdict.rows = rows = [rules.row_for(out.roles[c.pid], c, out.replaced) for c in out.hits]
        if out.ran:
            self.judge_run(case, out, rows, verdict)
        elif out.hits and not clear(out.message):
            verdict.problems.append(f"refused without a clear message: {out.message!r}")
        elif not out.hits:
            verdict.problems.append(f"refused although nothing was failed: {out.message!r}")
        verdict.problems += rules.unexpected(out.problems, rows)

    def judge_run(self, case: Case, out: Outcome, rows: list, verdict: Verdict) -> None:
        clean = self.clean[case.scenario].outcome
        allowed = {name for row in rows if row for name in row.differs}
        # A session that ended before it was ready, with an unknown status, is made again; so is one whose init gave up
        # while it was on its way. What ran in the other cell was not failed.
        ran_in = {"session": out.session, "init": out.init}
        again = [ran_in.get(out.roles[c.pid], -1) not in (-1, c.pid) for c in out.hits]
        if not all(row or other for row, other in zip(rows, again)):
            verdict.problems.append("user code ran, and no row says that it may")
        verdict.why = "; ".join(sorted({row.why for row in rows if row}))
        is_cut = out.cause == "lost" and not out.inside and bool(rows) and all(row and row.cuts for row in rows)
        if is_cut:
            out.problems = [what for what in out.problems if NO_PROOF not in what]
        for where, before, now in (
            ("inside", clean.inside, out.inside),
            ("outside", clean.outside, out.outside),
            ("reported", clean.layers, out.layers),
        ):
            if is_cut and now is None:  # it was gone before it could be seen
                continue
            differences = proof.difference(before or {}, now or {})
            verdict.problems += [
                f"{where}: {name} is {what}"
                for name, what in differences.items()
                if name not in allowed
            ]
        for row in rows:
            if row and row.layer and (out.layers or {}).get(row.layer) is not False:
                verdict.problems.append(f"{row.layer} is lost and not reported")
        if out.dac != "ok" and not (is_cut and out.outside is None):
            verdict.problems.append("the folder aside could not be mounted: Landlock was not tried")


def clear(message: str) -> bool:
    return (
        8 <= len(message) <= MESSAGE_MAX
        and "\n" not in message
        and re.search("[a-z]{3}", message) is not None
    )
