#!/usr/bin/python3
"""Ordinary programs: each of tests/policy/ordinary/*.txt ends under `restricted` exactly as it does under `open`.

Compared are cause, exit code, result, variables, output, displays and the error with its line. Real zygotes and
sessions, with the profiles that the family needs.
"""
from __future__ import annotations

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lib"), str(HERE.parent / "unit/kernel")]

from check import check, main  # noqa: E402
from fake_krait import Zygote  # noqa: E402
from policies import programs, restricted  # noqa: E402

LEAST = 200
zygotes: dict = {}


def end_of(code: str, policy, preload: str) -> dict:
    if preload not in zygotes:
        zygotes[preload] = Zygote(preload)
    with zygotes[preload].session() as session:
        end = session.run(code, policy=policy)
    seen = {name: end[name] for name in ("cause", "exit_code", "result", "variables", "stdout", "stderr")}
    seen["error"] = end["error"] and {name: end["error"][name] for name in ("type", "message", "line")}
    seen["displays"] = [sorted(one["data"]) for one in end["displays"]]
    told = end.get("findings", []) + end.get("refused", [])
    return {name: without_times(value) for name, value in seen.items()} | {"told": told}


def without_times(value):
    """What a clock and an address make differ."""
    if not isinstance(value, str):
        return value
    return re.sub(r"(?<![\w.])\d+(\.\d+)? ?(ns|µs|us|ms|s)\b", "TIME", re.sub(r"0x[0-9a-f]+", "0x", value))


def difference(code: str, preload: str):
    policy = restricted("data_science") if preload == "data" else restricted()
    before, after = end_of(code, None, preload), end_of(code, policy, preload)
    if before == after:
        return None
    names = [name for name in before if before[name] != after[name]]
    return "; ".join("%s %r, not %r" % (name, after[name], before[name]) for name in names)[:400]


def add(family: str) -> int:
    found = programs(HERE / "ordinary" / (family + ".txt"))
    preload = "data" if family == "data" else "basic"

    @check
    def same():
        wrong = ["%s: %s" % (name, why) for name, code in found if (why := difference(code, preload))]
        assert not wrong, "%d of %d\n    %s" % (len(wrong), len(found), "\n    ".join(wrong))

    same.__name__ = family
    return len(found)


count = sum(add(path.stem) for path in sorted((HERE / "ordinary").glob("*.txt")))


@check
def there_are_enough():
    assert count >= LEAST, count


main()
