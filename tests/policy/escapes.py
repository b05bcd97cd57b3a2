#!/usr/bin/python3
"""Escapes: each of tests/policy/escapes/*.txt works under `open`, which proves that the trick is one, and is refused
under `restricted`: by the judge, with a finding, or by a guard, with a record.

A program prints REACHED when it has what it came for. Real zygotes and sessions; no cells, which hold what is left.
"""
from __future__ import annotations

import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lib"), str(HERE.parent / "unit/kernel")]

from check import check, main  # noqa: E402
from fake_krait import Zygote  # noqa: E402
from policies import programs, restricted  # noqa: E402

LEAST = 150
PROFILES = {"data": ("data_science",), "files": ("filesystem",)}  # of families that need more than basic
zygotes: dict = {}
folder = tempfile.TemporaryDirectory()  # what the programs write


def session(preload: str):
    if preload not in zygotes:
        zygotes[preload] = Zygote(preload)
    return zygotes[preload].session(cwd=folder.name)


def reaches(code: str, policy, preload: str):
    for one in Path(folder.name).iterdir():
        one.unlink()
    with session(preload) as s:
        end = s.run(code, policy=policy)
    return "REACHED" in end["stdout"], end


def tried(code: str, family: str):
    """Why this trick proves nothing, or is not held; None."""
    preload = "data" if family == "data" else "basic"
    worked, end = reaches(code, None, preload)
    if not worked:
        return "does not work under open: %s" % (end["error"] or end["cause"],)
    worked, end = reaches(code, restricted(*PROFILES.get(family, ())), preload)
    if worked:
        return "is not held: %r" % end["stdout"][:300]
    if end["cause"] == "ok" and not end.get("refused"):
        return "ends without a finding or a record: %s" % (end["error"] or end["cause"],)
    return None


def add(family: str) -> int:
    found = programs(HERE / "escapes" / (family + ".txt"))
    @check
    def held():
        wrong = ["%s: %s" % (name, why) for name, code in found if (why := tried(code, family))]
        assert not wrong, "%d of %d\n    %s" % (len(wrong), len(found), "\n    ".join(wrong))

    held.__name__ = family
    return len(found)


count = sum(add(path.stem) for path in sorted((HERE / "escapes").glob("*.txt")))


@check
def there_are_enough():
    assert count >= LEAST, count


main()
