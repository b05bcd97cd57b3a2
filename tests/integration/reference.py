#!/usr/bin/python3
"""The committed reference pages and example files are what the program prints: docs/reference/*.md, .env.example and
krait.toml.example against `krait dump`."""
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
from check import check, main  # noqa: E402

KRAIT = os.environ.get("KRAIT", str(ROOT / "build/krait"))


def compare(name: str, path: str = "") -> None:
    path = path or "docs/reference/%s.md" % name
    printed = subprocess.run([KRAIT, "dump", name], check=True, capture_output=True, text=True, timeout=30).stdout
    assert len(printed.splitlines()) > 10, printed
    committed = (ROOT / path).read_text()
    assert printed == committed, "%s is old: krait dump %s > %s" % (path, name, path)


@check
def reference_config():
    compare("config")


@check
def reference_limits():
    compare("limits")


@check
def reference_sandbox_settings():
    compare("sandbox-settings")


@check
def reference_imports():
    compare("imports")


@check
def reference_metrics():
    compare("metrics")


@check
def reference_policy_rules():
    compare("policy-rules")


@check
def example_env():
    compare("env-example", ".env.example")


@check
def example_toml():
    compare("toml-example", "krait.toml.example")


@check
def reference_tools():
    compare("tools")


@check
def reference_seccomp():
    compare("seccomp")


def words(text: str) -> str:
    return " ".join(text.replace("\\|", "|").split())


@check
def help_texts_are_whole():
    """The page is written from the rows as they are; what `--help` prints passes through buffers of its own."""
    seen = 0
    for part in (ROOT / "docs/reference/config.md").read_text().split("\n## krait ")[1:]:
        command = part.split()[0]
        shown = words(subprocess.run([KRAIT, command, "--help"], check=True, capture_output=True, text=True,
                                     timeout=30).stdout)
        for line in part.splitlines():
            cells = [words(cell) for cell in line.replace("\\|", "\0").split("|")[1:-1]]
            if len(cells) == 4 and cells[0].startswith("`-") and cells[3]:
                seen += 1
                assert cells[3].replace("\0", "|") in shown, (command, cells)
    assert seen > 40, seen


if __name__ == "__main__":
    main()
