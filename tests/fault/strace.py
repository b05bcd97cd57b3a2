"""strace: attaching it with one fault to inject, and reading what it wrote.

Used by box.py and start.py. strace counts the calls of a name per process, from the moment it is
attached; which call a fault really hit is therefore always read back from its output
(`(INJECTED)`), never taken from the plan.
"""
from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass

STRACE = "/usr/bin/strace"
STOPPED = "stopped by SIGSTOP"
ATTACH_S = 30
# Instead of no call at all: the session's filter must let through what stands in for the failed
# call.
STAND_IN = "getpid"

COMPLETE = re.compile(r"^(\w+)\((.*)\)\s+= (.*)$", re.S)
UNFINISHED = re.compile(r"^(\w+)\((.*?)\s*<unfinished \.\.\.>$", re.S)
RESUMED = re.compile(r"^<\.\.\. (\w+) resumed>\s*(.*)\)\s+= (.*)$", re.S)
LEAD = re.compile(r"^(?:(\d+)\s+)?(?:(\d+\.\d+)\s+)?(.*)$", re.S)


@dataclass
class Call:
    pid: int
    name: str
    args: str
    result: str
    begin: int  # line numbers: the order in which strace saw them
    end: int
    time: float = 0.0

    @property
    def injected(self) -> bool:
        return "(INJECTED)" in self.result

    @property
    def error(self) -> str:
        match = re.match(r"-1 (E\w+)", self.result)
        return match.group(1) if match else ""


def parse(text: str, pid: int = 0) -> list[Call]:
    """The calls of a strace output, in the order in which they began. `pid` is whose they are where
    lines do not say it.
    """
    calls: list[Call] = []
    open_calls: dict[int, Call] = {}
    for number, line in enumerate(text.split("\n")):
        lead = LEAD.match(line)
        who, when, line = int(lead.group(1) or pid), float(lead.group(2) or 0), lead.group(3)
        match = UNFINISHED.match(line)
        if match:
            call = Call(who, match.group(1), match.group(2), "?", number, number, when)
            open_calls[who] = call
            calls.append(call)
            continue
        match = RESUMED.match(line)
        if match:
            call = open_calls.pop(who, None)
            if call is not None and call.name == match.group(1):
                call.args, call.result, call.end = (
                    call.args + match.group(2),
                    match.group(3),
                    number,
                )
            continue
        match = COMPLETE.match(line)
        if match:
            calls.append(
                Call(who, match.group(1), match.group(2), match.group(3), number, number, when)
            )
    return [call for call in calls if call.name != "restart_syscall"]


def tracer_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("TracerPid:"):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


class Strace:
    """One strace attached to running processes."""

    def __init__(self, path: str, pids: list[int], *options: str) -> None:
        self.path, self.pids = path, pids
        argv = [STRACE, "-qq", "-ttt", "-s", "200", "-o", path, *options]
        for pid in pids:
            argv += ["-p", str(pid)]
        self.process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        deadline = time.monotonic() + ATTACH_S
        while not all(tracer_of(pid) == self.process.pid for pid in pids):
            if self.process.poll() is not None and "(INJECTED)" in self.text():
                return  # a call that was waiting is begun anew when we attach: failed, and the end of it
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"strace did not attach to {pids}: {self.stop()}")
            time.sleep(0.001)
        time.sleep(0.002)  # PTRACE_SEIZE is seen at once, PTRACE_INTERRUPT follows it

    def text(self) -> str:
        try:
            with open(self.path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def wait_for(self, text: str, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while text not in self.text():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.001)
        return True

    def stop(self) -> str:
        """Detaches; returns what it said on stderr."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            said = self.process.communicate(timeout=30)[1]
        except subprocess.TimeoutExpired:
            self.process.kill()
            said = self.process.communicate()[1]
        return said.decode("utf-8", "replace").strip()


def fault(syscall: str, error: str, n: int) -> str:
    return f"--inject={syscall}:error={error}:syscall={STAND_IN}:when={n}"


def stop_at(syscall: str, n: int) -> str:
    """The process stops on its way out of its nth call."""
    return f"--inject={syscall}:signal=SIGSTOP:when={n}"


def let_go(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass
