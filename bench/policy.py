"""What `restricted` costs, for bench/run: judging code of 100 to 10,000 lines, and programs that keep a processor busy,
under `open` and `restricted` in turns, over HTTP; beside them RestrictedPython, if KR_RESTRICTEDPYTHON names a folder in which
its wheel was unpacked.

Invariants: times are processor time, with all that a policy adds (judging, guards); a program must leave the same result
under each of the four."""
import os
import sys
from pathlib import Path

from programs import Failed, HERE, Program, PYTHON
from report import Bar, Row, show

sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests", "lib"))
import policies  # noqa: E402
from krait_server import Server  # noqa: E402

PEER_ENV = "KR_RESTRICTEDPYTHON"
LINES = (100, 1000, 10000)
SAMPLES = {100: 20, 1000: 3, 10000: 1}  # a round
JUDGE_MS, LINEAR, RATIO = 1, 2, 1.3
NOT_IN_BAR = "(not in the bar)"
MODES = ("open", "restricted")
HEADS = ["processor time, ms", "open", "restricted", "×", "least ×", "most ×"]
PEER_HEADS = ["plain Python", "RestrictedPython", "×"]
RUN_S = 60


def plan(rows: dict) -> None:
    for lines in LINES:
        rows["policy_parse_%d" % lines] = Row("policy", "Python's parser, %d lines" % lines)
        rows["policy_judge_%d" % lines] = Row("policy", "judging their tree, %d lines" % lines)
    rows["policy_adds"] = Row("policy", "what `restricted` adds to the processor time of a warm run of 100 lines, over HTTP")
    for number in range(len(corpus())):
        for kind in (*MODES, "plain", "peer"):
            rows["policy_%s_%d" % (kind, number)] = Row("policy-programs", kind)
        for kind in ("ratio", "peer_ratio"):
            rows["policy_%s_%d" % (kind, number)] = Row("policy-programs", kind, "×", 1)


def corpus() -> list:
    return policies.programs(Path(HERE) / "policy_programs.txt")


class Policy:
    def __init__(self, build: str, rows: dict) -> None:
        self.rows, self.programs, self.peer, self.version = rows, corpus(), None, ""
        self.judging = Program(PYTHON, os.path.join(HERE, "judging.py"))
        folder = os.environ.get(PEER_ENV)
        if folder:
            self.peer = Program(PYTHON, os.path.join(HERE, "peer_restrictedpython.py"), folder)
            self.peer.name = "peer_restrictedpython.py"
        self.server = Server(program=os.path.join(build, "krait"), validate=False)
        try:
            if self.peer:
                self.version = self.peer.ask("version")["version"]
            self.server.start()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.server.close(check=False)
        self.judging.close()
        if self.peer:
            self.peer.close()

    def add(self, key: str, value: float) -> None:
        self.rows["policy_" + key].samples.append(value)

    def run(self, code: str, mode: str) -> dict:
        done = self.server.run(code, session_id=mode, policy=mode, timeout=RUN_S)
        if done["cause"] != "ok":
            raise Failed("under %s: %s" % (mode, str(done["error"] or done["cause"])[:200]))
        return done

    def in_turns(self, code: str, turn: int) -> dict:
        """The runs of both modes, the one first that was second the last time."""
        return {mode: self.run(code, mode) for mode in (MODES if turn % 2 else MODES[::-1])}

    def judge(self, turn: int, keep: bool) -> None:
        for lines in LINES:
            for _ in range(SAMPLES[lines]):
                reply = self.judging.ask("judge %d" % lines)
                if keep:
                    self.add("parse_%d" % lines, reply["parse"][0])
                    self.add("judge_%d" % lines, reply["judge"][0])
        for _ in range(SAMPLES[100]):
            code = self.judging.ask("text 100")["text"]
            # Compiled and judged, and not run; one line more.
            done = self.in_turns("if len(''):\n" + "".join("    " + line for line in code.splitlines(True)), turn)
            if keep:
                self.add("adds", (done["restricted"]["cpu_s"] - done["open"]["cpu_s"]) * 1e6)

    def program(self, number: int, turn: int, keep: bool) -> None:
        name, code = self.programs[number]
        done = self.in_turns(code + "print(result)\n", turn)
        left = {one["stdout"].strip() for one in done.values()}
        beside = self.peer.ask("run %d" % number) if self.peer else None
        left.update(beside["result"] if beside else ())
        if len(left) != 1:
            raise Failed("%s: different results: %s" % (name, sorted(left)))
        if not keep:
            return
        times = {mode: one["cpu_s"] * 1e6 for mode, one in done.items()}
        for mode, took in times.items():
            self.add("%s_%d" % (mode, number), took)
        self.add("ratio_%d" % number, times["restricted"] / times["open"])
        if beside:
            plain, peer = beside["plain"][0], beside["restricted"][0]
            self.add("plain_%d" % number, plain)
            self.add("peer_%d" % number, peer)
            self.add("peer_ratio_%d" % number, peer / plain)


def fail(rows: dict, text: str) -> None:
    for row in rows.values():
        if row.section in ("policy", "policy-programs") and not row.samples:
            row.failed = text


def measure(build: str, rounds: int, rows: dict) -> str:
    """One of everything in each round. What must be said beside the tables."""
    try:
        one = Policy(build, rows)
    except (Failed, OSError, RuntimeError) as exc:
        fail(rows, str(exc))
        return "policy: %s" % exc
    try:
        for turn in range(rounds + 1):
            keep = turn > 0  # sessions begin in the first
            one.judge(turn, keep)
            for number in range(len(one.programs)):
                one.program(number, turn, keep)
    except (Failed, OSError, AssertionError, KeyError) as exc:
        fail(rows, str(exc))
    finally:
        one.close()
    note = "policy: the code that is judged is that of tests/policy/ordinary; programs are those of bench/policy_programs.txt, "\
           "%d rounds of each in turns, with judging and compiling; × is the median of the rounds" % rounds
    if one.peer:
        return note + "; RestrictedPython %s, from %s, has the guards that come with it" % (one.version, PEER_ENV)
    return note + "; RestrictedPython is absent (%s names no folder with it): nothing is said about it" % PEER_ENV


def has_peer(rows: dict) -> bool:
    return rows["policy_peer_0"].measured()


def table(rows: dict) -> tuple:
    """The programs: a line of each."""
    heads = HEADS + (PEER_HEADS if has_peer(rows) else [])
    lines = []
    for number, (name, _code) in enumerate(corpus()):
        ratio = rows["policy_ratio_%d" % number]
        if not ratio.measured():
            lines.append([name, "not measured"] + [""] * (len(heads) - 2))
            continue
        cells = [show(rows["policy_%s_%d" % (mode, number)].at(0.5)) for mode in MODES] + [show(ratio.at(q)) for q in (0.5, 0, 1)]
        if has_peer(rows):
            cells += [show(rows["policy_%s_%d" % (kind, number)].at(0.5)) for kind in ("plain", "peer", "peer_ratio")]
        lines.append([name] + cells)
    return "Programs under `restricted`", heads, lines


def bars(rows: dict) -> list:
    made = []
    if "policy_judge_100" not in rows:
        return made
    few, many = rows["policy_judge_100"], rows["policy_judge_10000"]
    if few.measured() and many.measured():
        made.append(Bar("judging 100 lines, ms", few.at(0.5), JUDGE_MS, "below", "%d samples" % len(few.samples), few.at(0)))
        made.append(Bar("judging, a line of 10,000 / a line of 100", many.at(0.5) / few.at(0.5) / 100, LINEAR, "below",
                        "would be 100 if it grew by the square"))
    if rows["policy_adds"].measured():
        made.append(Bar("`restricted` adds to a run of 100 lines, ms", rows["policy_adds"].at(0.5), JUDGE_MS, "below"))
    ratios = [(rows["policy_ratio_%d" % number], rows["policy_peer_ratio_%d" % number], name.split(":")[0])
              for number, (name, _code) in enumerate(corpus()) if NOT_IN_BAR not in name]
    if all(ratio.measured() for ratio, _peer, _name in ratios):
        worst, _peer, name = max(ratios, key=lambda one: one[0].at(0.5))
        note = "of %d: %s" % (len(ratios), name)
        if has_peer(rows):
            note += "; RestrictedPython's worst is %s" % show(max(peer.at(0.5) for _ratio, peer, _name in ratios))
        made.append(Bar("restricted / open, the program where it is most", worst.at(0.5), RATIO, "below", note, worst.at(0)))
    return made
