"""Policies for tests of the kernel's Python side: what the engine sends, with the modules of the one table there is."""
from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROFILES = ROOT / "src/policy/policy_profiles.c"


def modules(*profiles: str) -> list[str]:
    """The modules of these profiles, as src/policy/policy_profiles.c has them."""
    text, found = PROFILES.read_text(), []
    for profile in profiles:
        match = re.search(r"\b%s\[\] = \{(.*?)NULL,?\s*\}" % profile, text, re.S)
        assert match, f"no list of {profile}"
        found += re.findall(r'"([\w.]+)"', match.group(1))
    return found


def restricted(*profiles: str, imports: list[str] | None = None, judge_only: bool = False) -> dict:
    """The member `policy` of a RUN frame. `basic` is always among the profiles."""
    every = ("basic", *profiles)
    return {"mode": "restricted", "imports": modules(*every) if imports is None else imports, "profiles": list(every),
            "judge_only": judge_only}


def programs(path: Path) -> list[tuple[str, str]]:
    """The programs of a corpus: a line `=== name`, and the lines below it."""
    found = []
    for part in path.read_text().split("\n=== ")[1:]:
        name, _, code = part.partition("\n")
        found.append((name, code.rstrip("\n") + "\n"))
    assert len({name for name, _code in found}) == len(found), f"{path.name}: a name is there twice"
    return found
