"""Puts one fault in the way of one process, and lets a cell be opened.

Used by work.py. Those that live all the time are simply attached to. A process that an open brings
forth is reached in one of two ways, both by stopping another process on its way out of a call that
the recording names: late, while the warden has not yet said GO to it; early, by its parent just
before it is born, whose tracer is then changed for one that follows.
"""
from __future__ import annotations

import os
import time

import plan
import rules
import strace
from box import Box, Outcome
from plan import Case, Recording

STOP_S = 30
BIRTH_S = 0.4  # from its parent's clone() to its wait for GO, and the warden's to its gate


class Aim:
    def __init__(self, case: Case, box: Box, clean: Recording, folder: str) -> None:
        self.case, self.box, self.clean = case, box, clean
        self.path = os.path.join(folder, "strace")
        self.tracers: list[strace.Strace] = []
        self.gate: strace.Strace | None = None
        self.go: strace.Strace | None = None
        self.roles = {box.warden: "warden", box.builder: "builder", box.zygote: "zygote"}

    def attempt(self) -> Outcome:
        """One open and run with the fault in place."""
        case, box, out = self.case, self.box, Outcome()
        try:
            if case.role in plan.PLAIN:
                self.attach(getattr(box, case.role))
                box.open_and_run(out)
            elif case.early:
                name, n = self.clean.births[case.role]
                self.gate = self.stop_at("gate", getattr(box, plan.PARENTS[case.role]), name, n)
                if case.syscall in rules.FUZZY and case.role in self.clean.gates:
                    self.go = self.hold_go()
                box.open_and_run(out, while_opening=self.follow_from_birth)
            else:
                self.gate = self.hold_go()
                box.open_and_run(out, while_opening=self.attach_before_go)
        except RuntimeError as e:
            out.problems.append(str(e))
            box.spoiled = True
        finally:
            for pid in self.roles:
                strace.let_go(pid)
            for tracer in self.tracers:
                tracer.stop()
        self.read_back(out)
        return out

    def attach(self, pid: int, *options: str) -> None:
        case = self.case
        inject = strace.fault(case.syscall, case.error, case.n)
        self.tracers.append(
            strace.Strace(self.path, [pid], f"--trace={case.syscall},openat", inject, *options)
        )

    def stop_at(self, name: str, pid: int, syscall: str, n: int) -> strace.Strace:
        tracer = strace.Strace(
            f"{self.path}-{name}", [pid], f"--trace={syscall}", strace.stop_at(syscall, n)
        )
        self.tracers.append(tracer)
        return tracer

    def hold_go(self) -> strace.Strace:
        """Stops the warden before it says GO to the init or the session."""
        return self.stop_at("go", self.box.warden, *self.clean.gates[self.case.role])

    def come_to_gate(self) -> None:
        if not self.gate.wait_for(strace.STOPPED, STOP_S):
            raise RuntimeError(
                f"no process reached the gate of the {self.case.role}: {self.gate.text()[-300:]}"
            )

    def attach_before_go(self) -> None:
        self.come_to_gate()
        session, init = self.box.session_and_init()
        pid = init if self.case.role == "init" else session
        self.roles[pid] = self.case.role
        self.attach(pid)
        strace.let_go(self.box.warden)

    def follow_from_birth(self) -> None:
        parent = self.gate.pids[0]
        self.come_to_gate()
        self.gate.stop()
        if self.case.role == "helper":  # which the warden kills as soon as it has its namespace
            self.attach(parent, "-f", strace.stop_at("openat", 1))
            strace.let_go(parent)
            if self.tracers[-1].wait_for(strace.STOPPED, BIRTH_S):
                time.sleep(BIRTH_S / 4)
        else:
            self.attach(parent, "-f")
        strace.let_go(parent)
        if self.go and self.go.wait_for(strace.STOPPED, BIRTH_S):
            time.sleep(BIRTH_S / 4)  # the new process waits for its GO by now
            strace.let_go(self.box.warden)

    def read_back(self, out: Outcome) -> None:
        """Which calls were failed, and whose."""
        for tracer in self.tracers:
            for call in (
                strace.parse(tracer.text(), tracer.pids[0]) if tracer.path == self.path else []
            ):
                if call.injected and out.ran and call.time > out.ran_at:
                    out.late = True
                elif call.injected:
                    call.args = call.args.strip()
                    out.hits.append(call)
                    out.roles[call.pid] = self.roles.get(call.pid, self.case.role)
