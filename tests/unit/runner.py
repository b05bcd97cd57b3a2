#!/usr/bin/python3
"""The test runner, tried on small suites made for it: what must count as a failure is counted.

Run by tests/run itself."""
import importlib.machinery
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
loader = importlib.machinery.SourceFileLoader("runner", str(ROOT / "tests/run"))
spec = importlib.util.spec_from_loader("runner", loader)
runner = importlib.util.module_from_spec(spec)
sys.modules["runner"] = runner
sys.dont_write_bytecode = True
loader.exec_module(runner)
temporary = tempfile.TemporaryDirectory(prefix="krait-runner-")  # of every runner that is made here
tempfile.tempdir = temporary.name

failed = False


class Quiet(runner.Screen):
    def __init__(self) -> None:
        super().__init__()
        self.tty = False
        self.text = io.StringIO()

    def line(self, text: str) -> None:
        self.text.write(text + "\n")


def check(name: str, good: bool, why: object = "") -> None:
    global failed
    print(f"PASS {name}" if good else f"FAIL {name}: {why!r}", flush=True)
    failed |= not good


def run_suite(body: str, timeout: int = 20, must_work: bool = False) -> tuple:
    """One fake suite with this shell text; its result and what was shown."""
    with tempfile.TemporaryDirectory(prefix="krait-runner-") as folder:
        path = Path(folder, "suite")
        path.write_text("#!/bin/sh\n" + body)
        path.chmod(0o755)
        screen = Quiet()
        suite = runner.Suite("fake", ("suite",), timeout)
        result = runner.Runner(screen, root=Path(folder), must_work=must_work).run(suite)
        return result, screen.text.getvalue()


# name, shell text, passed, failed, skipped, a word of the failure
CASES = [
    ("all_pass", "echo PASS a; echo PASS b", 2, 0, 0, ""),
    ("a_fail_is_counted", "echo PASS a; echo 'FAIL b: broken'; exit 1", 1, 1, 0, "broken"),
    ("fail_with_exit_0_is_counted", "echo 'FAIL b: broken'", 0, 1, 0, "broken"),
    ("a_skip_is_counted", "echo 'SKIP a: not here'", 0, 0, 1, ""),
    ("silence_is_a_failure", "exit 0", 0, 1, 0, "printed no"),
    ("words_are_not_lines", "echo 'it did PASS'; echo PASSED x", 0, 1, 0, "printed no"),
    ("stderr_is_not_counted", "echo PASS a >&2", 0, 1, 0, "printed no"),
    ("bad_exit_without_fail", "echo PASS a; exit 3", 1, 1, 0, "exit status 3"),
    ("a_crash_is_a_failure", "echo PASS a; kill -SEGV $$", 1, 1, 0, "SIGSEGV"),
    ("status_77_is_a_skip", "exit 77", 0, 0, 1, ""),
    ("status_77_after_a_line_is_a_failure", "echo PASS a; exit 77", 1, 1, 0, "exit status 77"),
    ("last_line_without_newline", "printf 'PASS a\\nFAIL b: cut'; exit 1", 1, 1, 0, "cut"),
]


def cases() -> None:
    for name, body, passed, failures, skipped, word in CASES:
        result, _ = run_suite(body)
        got = (result.passed, len(result.failures), len(result.skips))
        good = got == (passed, failures, skipped) and (not word or word in result.failures[0])
        check(name, good, (got, result.failures))


def lives(pid: str) -> bool:
    try:
        return " Z " not in Path("/proc", pid, "stat").read_text()
    except OSError:
        return False


def gone(pids: list) -> bool:
    """Whether they end: who was killed needs a processor to die."""
    deadline = time.monotonic() + 20
    while any(lives(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(lives(pid) for pid in pids)


def special() -> None:
    started = time.monotonic()
    result, _ = run_suite("echo PASS a; sleep 60 & sleep 60", timeout=1)
    quick = time.monotonic() - started < 15
    check("past_its_time", "ran past" in "".join(result.failures) and quick, result.failures)

    with tempfile.NamedTemporaryFile() as pid_file:
        run_suite(f"setsid sh -c 'echo $$ > {pid_file.name}; exec sleep 60' & sleep 60", timeout=1)
        pid = Path(pid_file.name).read_text().strip()
        deadline = time.monotonic() + 10
        while lives(pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        check("past_its_time_with_a_session_of_its_own", pid.isdigit() and not lives(pid), pid)

    result, _ = run_suite("exec >&- 2>&-; sleep 60", timeout=1)
    good = "ran past" in "".join(result.failures)
    check("past_its_time_with_closed_streams", good, result.failures)

    result, _ = run_suite("echo PASS a; sleep 300 & echo $!")
    check("a_process_left_behind", "left a process" in "".join(result.failures), result.failures)

    result, _ = run_suite("echo 'SKIP a: not here'", must_work=True)
    good = len(result.failures) == 1 and not result.skips
    check("must_work_turns_skip_into_fail", good, result.failures)

    result, shown = run_suite("echo some context; echo PASS a; exit 3")
    check("a_broken_suite_shows_its_tail", "| some context" in shown, shown)

    suite = runner.Suite("gone", ("no/such/file",), 5)
    result = runner.Runner(Quiet()).run(suite)
    check("a_missing_file_is_a_failure", "missing" in "".join(result.failures), result.failures)

    empty = runner.table([("group", "no/such/*.py", 5)])
    result = runner.Runner(Quiet()).run(empty[0])
    check("an_empty_group_is_a_failure", len(empty) == 1 and result.failures, result.failures)

    screen = Quiet()
    good, _ = run_suite("echo PASS a; echo 'SKIP b: no'")
    bad, _ = run_suite("echo 'FAIL c: no'; exit 1")
    status = runner.report([good, bad], screen)
    shown = screen.text.getvalue()
    good = status == 1 and shown.endswith("\n1 passed, 1 failed, 1 skipped\n")
    check("last_line_and_status", good, shown)
    screen = Quiet()
    status = runner.report([run_suite("echo PASS a")[0]], screen)
    shown = screen.text.getvalue()
    good = status == 0 and shown.endswith("\n1 passed, 0 failed\n")
    check("last_line_when_all_is_well", good, shown)


# A suite that says when it is there, and looks who is there with it.
MEETS = """
touch {me}.here
for i in $(seq 1000); do [ -e {other}.met ] || [ -e {other}.here ] && touch {me}.met && break; sleep 0.02; done
[ -e {me}.met ] && echo PASS met || echo "FAIL met: no other test came"
rm {me}.here
"""
ALONE = """
sleep 0.2
[ -z "$(ls *.here 2>/dev/null)" ] && echo PASS alone || echo "FAIL alone: $(ls *.here)"
"""


def lanes() -> None:
    with tempfile.TemporaryDirectory(prefix="krait-runner-") as folder:
        bodies = {"alone": ALONE, "a": MEETS.format(me="a", other="b"), "b": MEETS.format(me="b", other="a"),
                  "busy": MEETS.format(me="busy", other="long"), "long": MEETS.format(me="long", other="busy")}
        for name, body in bodies.items():
            Path(folder, name).write_text("#!/bin/sh\n" + body)
            Path(folder, name).chmod(0o755)
        suites = [runner.Suite(name, (name,), 30 + 30 * (name == "long"), (name,) if name in ("busy", "alone") else ())
                  for name in bodies]
        results = runner.Runner(Quiet(), root=Path(folder), jobs=3).run_all(suites)
        check("lanes_are_shared_but_by_those_alone", all(r.passed == 1 and not r.failures for r in results),
              [r.failures for r in results])
        check("results_are_in_the_order_of_the_suites", [r.suite.name for r in results] == list(bodies), results)
    order = runner.Lanes([runner.Suite(n, (), t, needs) for n, t, needs in (
        ("short", 5, ()), ("alone", 99, ("alone",)), ("long", 50, ()), ("busy", 9, ("busy",)))], 4)
    check("busy_and_long_first_alone_last", order.waiting == [3, 2, 0, 1], order.waiting)


def stopping() -> None:
    """A signal ends what runs, with what it started, and nothing more begins."""
    with tempfile.TemporaryDirectory(prefix="krait-runner-") as folder:
        path = Path(folder, "suite")
        path.write_text("#!/bin/sh\necho PASS a; setsid sleep 60 & echo $! > $$.pid; wait")
        path.chmod(0o755)
        one = runner.Runner(Quiet(), root=Path(folder), jobs=2)
        threading.Timer(1, one.stop, (15,)).start()
        began = time.monotonic()
        results = one.run_all([runner.Suite(f"fake/{i}", ("suite",), 50) for i in range(4)])
        told = [r.failures for r in results]
        pids = [p.read_text().strip() for p in Path(folder).glob("*.pid")]
        check("a_signal_ends_what_runs", told == [["was stopped"]] * 2 and time.monotonic() - began < 30, told)
        check("and_what_it_started", len(pids) == 2 and gone(pids), pids)


def command() -> None:
    wrong = subprocess.run([ROOT / "tests/run", "no-such-suite"], capture_output=True, text=True)
    good = wrong.returncode != 0 and "no-such-suite" in wrong.stderr
    check("an_unknown_name_is_refused", good, wrong.stderr)
    listed = subprocess.run([ROOT / "tests/run", "--list"], capture_output=True, text=True)
    check("list_has_every_row", all(row[0] in listed.stdout for row in runner.ROWS), listed.stdout)


if __name__ == "__main__":
    os.chdir(ROOT)
    cases()
    special()
    lanes()
    stopping()
    command()
    sys.exit(1 if failed else 0)
