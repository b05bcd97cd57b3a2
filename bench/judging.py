"""The judge of `restricted`, alone, for bench/run: src/kernel/python/policy_judge.py in an interpreter of its own.

A line `judge LINES` is answered with the processor time, in microseconds, of parsing so many lines of the ordinary programs in
tests/policy, and of judging their tree; `text LINES` with such lines. Each answer begins with another program than the one
before."""
import ast
import json
import os
import sys
import time
from pathlib import Path
from types import ModuleType

ROOT = Path(os.path.abspath(__file__)).parent.parent
KERNEL = ROOT / "src/kernel/python"
FAMILIES = ("algorithms", "classes", "language", "library")

sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests/lib"))
package = sys.modules["krait_kernel"] = ModuleType("krait_kernel")
package.__path__ = [str(KERNEL)]
import policies  # noqa: E402
from krait_kernel import policy_judge  # noqa: E402


def is_plain(code: str, policy) -> bool:
    """Whether it can stand behind another program: no magics, no imports from the future, no findings."""
    try:
        return "__future__" not in code and not policy_judge.judge(ast.parse(code), policy)
    except SyntaxError:
        return False


def corpus(policy) -> list:
    """Programs of every family in turn."""
    families = [[code for _name, code in policies.programs(ROOT / "tests/policy/ordinary" / (family + ".txt")) if is_plain(code, policy)]
                for family in FAMILIES]
    return [family[i] for i in range(max(map(len, families))) for family in families if i < len(family)]


def text_of(programs: list, lines: int, first: int) -> tuple:
    """Exactly so many lines, and the program after the last. The end is filled with short programs, and then with assignments."""
    made: list = []
    at, passed = first, 0
    while len(made) < lines and passed < len(programs):
        code = programs[at % len(programs)].splitlines()
        passed = 0 if len(made) + len(code) <= lines else passed + 1
        if passed == 0:
            made += code
        at += 1
    made += ["filler = %d" % n for n in range(lines - len(made))]
    return "\n".join(made) + "\n", (first + 1) % len(programs)


def main() -> None:
    policy = policy_judge.Policy(policies.modules("basic"), ["basic"])
    programs = corpus(policy)
    first = 0
    for line in sys.stdin:
        what, lines = line.split()
        text, first = text_of(programs, int(lines), first)
        if what == "text":
            print(json.dumps({"ok": True, "text": text}), flush=True)
            continue
        began = time.process_time()
        tree = ast.parse(text)
        parsed = time.process_time()
        found = policy_judge.judge(tree, policy)
        judged = time.process_time()
        reply = {"ok": True, "parse": [(parsed - began) * 1e6], "judge": [(judged - parsed) * 1e6]}
        if found:
            reply = {"ok": False, "error": "an ordinary program was refused"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
