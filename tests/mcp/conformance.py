#!/usr/bin/python3
"""The official conformance suite against build/tests/krait-fixtures (krait with the tools, prompts and
resources that the suite calls), and its scenarios that need no fixture against krait itself.

What counts is what the suite wrote to checks.json, not its exit status and not its totals (both are
kind): every scenario that is asked for must be there with at least one SUCCESS, and a check that is
a FAILURE, a WARNING, SKIPPED or untestable fails it.
"""
from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "lib")]
import npm_clients
from check import check, main, skip
from krait_server import KRAIT, KRAIT_FIXTURES, Server

SUITE = "@modelcontextprotocol/conformance/dist/index.js"
RUN_S = 280
SCENARIO_MS = 20000

PENDING = {
    "2025-03-26": ["server-session-lifecycle"],
    "2025-11-25": ["server-session-lifecycle", "json-schema-2020-12", "server-sse-polling"],
    "2026-07-28": ["json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation"],
}
TASKS = ["tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal",
         "tasks-mrtr-input", "tasks-request-headers", "tasks-dispatch-and-envelope", "tasks-required-task-error",
         "tasks-mrtr-composition"]
# What needs no fixture: the server as it is shipped.
PRODUCT = {
    "2025-11-25": ["server-initialize", "server-session-lifecycle", "ping", "logging-set-level", "completion-complete",
                   "tools-list", "server-sse-multiple-streams", "resources-list", "prompts-list",
                   "dns-rebinding-protection"],
    "2026-07-28": ["tools-list", "server-sse-multiple-streams", "resources-list", "prompts-list", "caching",
                   "dns-rebinding-protection", "sep-2164-resource-not-found", "http-header-validation",
                   "input-required-result-unsupported-methods"],
}


@dataclass(frozen=True)
class Verdict:
    scenario: str
    flaws: tuple[str, ...]


def clients() -> npm_clients.Clients:
    try:
        return npm_clients.provide()
    except npm_clients.Missing as why:
        skip(str(why))
        raise


def suite(*words: str) -> str:
    """Runs the suite's program; what it printed."""
    with tempfile.TemporaryDirectory(prefix="krait-test-") as home:
        ours = clients()
        done = subprocess.run([ours.node, ours.path(SUITE), *words], env=ours.env(home), cwd=home, timeout=RUN_S,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout


def required(revision: str) -> list[str]:
    """The frozen, scored server scenarios of a revision."""
    text = suite("list", "--requirements", revision)
    section = text.split("Server scenarios", 1)[1].split("Client scenarios", 1)[0]
    return re.findall(r"^\s+- (\S+)", section, re.M)


def judge(scenario: str, folder: Path) -> Verdict:
    found = [path for path in folder.glob("server-%s-*/checks.json" % scenario)
             if re.fullmatch(r"server-%s-\d.*" % re.escape(scenario), path.parent.name)]
    if not found:
        return Verdict(scenario, ("it was not run",))
    checks = [one for path in found for one in json.loads(path.read_text())]
    flaws = [problem for one in checks if (problem := flaw(one))]
    if not any(one["status"] == "SUCCESS" for one in checks):
        flaws.append("not one check succeeded")
    return Verdict(scenario, tuple(flaws))


def flaw(one: dict) -> str:
    """What is wrong with a check, or nothing."""
    status, name = one["status"], one["id"]
    untestable = isinstance(one.get("details"), dict) and one["details"].get("untestable")
    if status in ("SUCCESS", "INFO") and not untestable:
        return ""
    return "%s %s: %s" % (status, name, one.get("errorMessage") or "")


def expect_all(verdicts: list[Verdict], what: str) -> None:
    good = [one for one in verdicts if not one.flaws]
    print("%s: %d/%d" % (what, len(good), len(verdicts)), flush=True)
    bad = ["%s (%s)" % (one.scenario, "; ".join(one.flaws)) for one in verdicts if one.flaws]
    assert not bad, "%d/%d: %s" % (len(good), len(verdicts), " | ".join(bad))


def run_set(what: str, names: list[str], *words: str) -> None:
    """One run of the suite: every name must be in it and good, and so must be whatever else it ran."""
    clients()
    with tempfile.TemporaryDirectory(prefix="krait-test-") as out, Server(program=KRAIT_FIXTURES, validate=False) as s:
        said = suite("server", "--url", "http://127.0.0.1:%d/mcp" % s.port, "--timeout", str(SCENARIO_MS), "-o", out,
                     *words)
        folder = Path(out)
        ran = {re.sub(r"^server-(.*?)-\d{4}-\d\d-\d\d.*$", r"\1", path.name) for path in folder.glob("server-*")}
        assert ran, "nothing ran: %s" % said[-1000:]
        expect_all([judge(name, folder) for name in names], what)
        others = sorted(one for one in ran - set(names) if not optional(one))
        expect_all([judge(name, folder) for name in others], what + ", the rest of it")


def optional(scenario: str) -> bool:
    """Of extensions that krait does not declare (skills), or that the suite itself always skips."""
    return scenario.startswith("sep-2640-") or scenario == "tasks-status-notifications"


def run_each(what: str, names: list[str], version: str, program: str) -> None:
    """Scenario by scenario at one revision's wire ("": of an extension, which is of none)."""
    clients()
    verdicts = []
    at = ["--spec-version", version] if version else []
    with Server(program=program, validate=False) as s:
        for name in names:
            with tempfile.TemporaryDirectory(prefix="krait-test-") as out:
                suite("server", "--url", "http://127.0.0.1:%d/mcp" % s.port, "--timeout", str(SCENARIO_MS), "-o", out,
                      "--scenario", name, *at)
                verdicts.append(judge(name, Path(out)))
    expect_all(verdicts, what)


@check
def required_at_2025_11_25() -> None:
    names = required("2025-11-25")
    assert len(names) == 30, "the suite requires %d, not 30" % len(names)
    run_set("2025-11-25, scored", names, "--requirements", "2025-11-25")


@check
def required_at_2026_07_28() -> None:
    names = required("2026-07-28")
    assert len(names) == 37, "the suite requires %d, not 37" % len(names)
    run_set("2026-07-28, scored", names, "--requirements", "2026-07-28")


@check
def everything_at_2025_06_18() -> None:
    run_set("2025-06-18, suite all", ["server-initialize"], "--suite", "all", "--spec-version", "2025-06-18")


@check
def pending() -> None:
    for version, names in PENDING.items():
        run_each("%s, pending" % version, names, version, KRAIT_FIXTURES)


@check
def tasks() -> None:
    run_each("tasks", TASKS, "", KRAIT_FIXTURES)


@check
def without_fixtures() -> None:
    """krait itself: nothing of the suite's own is there, and no option brings it."""
    done = subprocess.run([KRAIT, "mcp", "--conformance-fixtures"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 2 and "no such option" in done.stderr, done
    for version, names in PRODUCT.items():
        run_each("%s, without fixtures" % version, names, version, KRAIT)


@check
def the_judge_sees_a_bad_server() -> None:
    """Positive control: without fixtures the scenarios that need them fail, whatever the suite says itself."""
    clients()
    with tempfile.TemporaryDirectory(prefix="krait-test-") as out, Server(validate=False) as s:
        suite("server", "--url", "http://127.0.0.1:%d/mcp" % s.port, "-o", out, "--scenario", "tools-call-image",
              "--spec-version", "2025-11-25")
        assert judge("tools-call-image", Path(out)).flaws
        assert judge("no-such-scenario", Path(out)).flaws


main()
