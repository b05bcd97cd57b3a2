#!/usr/bin/python3
"""The rules of the tree that no other tool checks, for tools/lint: one PASS or FAIL line each.

    check-tree.py            checks
    check-tree.py --fix      writes the file lists of src/*/meson.build anew from what is there
"""
import ast
import os
import re
import sys
from pathlib import Path
from typing import Iterator

import tree_gates

ROOT = Path(__file__).resolve().parent.parent
SKIP = {".git", "node_modules", "dist", ".state", "build", "build-asan", "build-clang", "build-fuzz", "__pycache__",
        "corpus"}
MAX_LINES = 800
MAX_COLUMNS = 120
MAX_FILES = 30
# Spelled in two halves, so that this file obeys the rule.
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")


def files() -> Iterator[Path]:
    for folder, names, found in os.walk(ROOT):
        names[:] = sorted(n for n in names if n not in SKIP)
        for name in sorted(found):
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                yield path


def text_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def is_python(path: Path, text: str) -> bool:
    return path.suffix == ".py" or text.startswith("#!/usr/bin/python3")


def rule_every_source_is_built(path: Path, text: str) -> str | None:
    """A C file beneath src or tests is named by a meson.build, or it is not compiled."""
    if path.suffix != ".c" or path.relative_to(ROOT).parts[0] not in ("src", "tests"):
        return None
    builders = [p / "meson.build" for p in path.parents if ROOT in (p, *p.parents)]
    for build in builders:
        here = build.is_file() and path.relative_to(build.parent)
        # tests/meson.build names a unit test by its path beneath tests/unit, without the ending
        names = here and (f"'{here}'", f"'{str(here).removeprefix('unit/')}'",
                          f"'{str(here)[:-2].removeprefix('unit/')}'")
        if here and any(n in build.read_text() for n in names):
            return None
    return "no meson.build above it names it"


def rule_every_python_file_is_carried(path: Path, text: str) -> str | None:
    """A Python file of the kernel is named by its meson.build, or it is not in the program."""
    folder = ROOT / "src/kernel/python"
    if folder not in path.parents or path.suffix != ".py":
        return None
    named = f"'{path.relative_to(folder)}'" in (ROOT / "src/kernel/meson.build").read_text()
    return None if named else "src/kernel/meson.build does not name it"


def rule_files_are_small(path: Path, text: str) -> str | None:
    if path.suffix not in (".c", ".h") and not is_python(path, text):
        return None
    count = text.count("\n")
    return f"{count} lines, at most {MAX_LINES}" if count > MAX_LINES else None


def wide_lines(path: Path, text: str) -> Iterator[int]:
    """Numbers of lines past MAX_COLUMNS. In Markdown what cannot be broken may be longer: rows of tables, code, links."""
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        fenced ^= line.lstrip().startswith("```")
        whole = path.suffix == ".md" and (fenced or line.lstrip().startswith("|") or re.search(r"\S{80}|`[^`]{80}", line))
        if len(line) > MAX_COLUMNS and not whole:
            yield number


def rule_lines_are_short(path: Path, text: str) -> str | None:
    """C and Markdown; what is printed from tables (docs/reference) is as wide as its rows."""
    if path.suffix not in (".c", ".h", ".md") or ROOT / "docs/reference" in path.parents:
        return None
    first = next(wide_lines(path, text), None)
    return f"line {first} has more than {MAX_COLUMNS} columns" if first else None


def rule_rooms_are_small(path: Path, text: str) -> str | None:
    """A folder with more files is two rooms."""
    if path.name != "meson.build" or ROOT / "src" not in path.parents:
        return None
    count = sum(1 for p in path.parent.iterdir() if p.suffix in (".c", ".h"))
    return f"{count} files in its folder, at most {MAX_FILES}" if count > MAX_FILES else None


def rule_names_are_unique(path: Path, text: str) -> str | None:
    """A file of src is found by its name alone."""
    if path.suffix not in (".c", ".h", ".py") or ROOT / "src" not in path.parents:
        return None
    others = [p for p in (ROOT / "src").rglob(path.name) if p != path]
    return f"is also the name of {others[0].relative_to(ROOT)}" if others else None


def rule_rooms_are_documented(path: Path, text: str) -> str | None:
    """ARCHITECTURE.md has a row for each room of src/meson.build, and what it names is there."""
    if path != ROOT / "ARCHITECTURE.md":
        return None
    rooms = re.findall(r"^  \['\w+', '([\w/]+)', \[", (ROOT / "src/meson.build").read_text(), re.M)
    missing = [room for room in rooms if f"| `src/{room}` |" not in text]
    named = re.findall(r"`((?:\w+/)+\w+\.(?:c|h|py))`", text)
    stale = [n for n in named if not any((ROOT / top / n).is_file() for top in ("", "src", "src/http"))]
    if missing:
        return f"has no row for src/{missing[0]}"
    return f"names {stale[0]}, which is not there" if stale else None


def rule_files_say_what_they_are(path: Path, text: str) -> str | None:
    if path.suffix in (".c", ".h"):
        return None if text.startswith("/*") else "does not open with a comment"
    if is_python(path, text) and text.strip():
        return None if ast.get_docstring(ast.parse(text)) else "has no docstring"
    return None


def rule_headers_are_read_once(path: Path, text: str) -> str | None:
    return "has no #pragma once" if path.suffix == ".h" and "#pragma once" not in text else None


def rule_nothing_is_unfinished(path: Path, text: str) -> str | None:
    match = UNFINISHED.search(text)
    if not match or path.name == "LICENSE":
        return None
    return f"line {text[:match.start()].count(chr(10)) + 1}: {match.group()}"


def rule_whitespace(path: Path, text: str) -> str | None:
    if path.suffix in (".patch", ".svg"):
        return None
    if text and not text.endswith("\n"):
        return "does not end with a newline"
    for number, line in enumerate(text.split("\n"), 1):
        if line != line.rstrip():
            return f"line {number} ends with blanks"
        if "\t" in line and path.suffix in (".c", ".h", ".py", ".build"):
            return f"line {number} has a tab"
    return None


def rule_python_is_the_system_s(path: Path, text: str) -> str | None:
    """Another Python in front of PATH must not run our scripts."""
    first = text.split("\n", 1)[0]
    by_path = first.startswith("#!") and "env python" in first
    return "its first line finds python by PATH" if by_path else None


def rule_scripts_can_be_run(path: Path, text: str) -> str | None:
    """What starts with #! is executable."""
    good = not text.startswith("#!") or os.access(path, os.X_OK)
    return None if good else "starts with #! but is not executable"


def fix_lists() -> None:
    """`sources = files(` … `)` and `kernel_python = [` … `]` name every file of their folder that no other list has."""
    for build in sorted(ROOT.glob("src/**/meson.build")):
        folder, text = build.parent, build.read_text()
        lists = [("sources = files(\n", ")", folder, "*.c"),
                 ("kernel_python = [\n", "]", folder / "python", "**/*.py")]
        for head, end, where, pattern in lists:
            if not re.search("(^|\\W|_)" + re.escape(head), text):
                continue
            before, rest = text.split(head, 1)
            after = rest[rest.index("\n" + end) + 1:] if not rest.startswith(end) else rest
            names = sorted(str(p.relative_to(where)) for p in where.glob(pattern))
            names = [n for n in names if f"'{n}'" not in before + after and n != "main.c"]
            text = before + head + "".join(f"  '{n}',\n" for n in names) + after
        if text != build.read_text():
            build.write_text(text)
            print(f"wrote {build.relative_to(ROOT)}")


def main() -> int:
    if sys.argv[1:] == ["--fix"]:
        fix_lists()
        return 0
    rules = [(name[5:], rule) for name, rule in globals().items() if name.startswith("rule_")]
    texts = [(path, text) for path in files() if (text := text_of(path)) is not None]
    failed = False
    found = {name: [f"{path.relative_to(ROOT)}: {why}" for path, text in texts if (why := rule(path, text))]
             for name, rule in rules}
    found["public_functions_have_callers"] = tree_gates.public_functions_have_callers(ROOT)
    found["settings_have_tests"] = tree_gates.settings_have_tests(ROOT)
    found["buffers_have_values"] = tree_gates.buffers_have_values(ROOT)
    for name, wrong in found.items():
        for line in wrong:
            print("  " + line)
        print(f"FAIL {name}: {len(wrong)} of them, {wrong[0]}" if wrong else f"PASS {name}")
        failed |= bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
