#!/usr/bin/python3
"""`krait check`: files, folders, stdin and notebooks are judged and not run; exit statuses; text, JSON and SARIF; a policy
file, profiles and lists; what cannot be judged costs itself alone."""
import json
import os
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal, main
from drive import KRAIT

FOLDER = tempfile.TemporaryDirectory(prefix="krait-check-")
CLEAN = "import math\nprint(math.pi)\n"
DIRTY = "import math\nimport os\nx = 1\n"


def put(name: str, text, mode: int = 0o644) -> str:
    path = os.path.join(FOLDER.name, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    os.chmod(path, mode)
    return path


def krait(*args: str, stdin: bytes = b"") -> tuple:
    done = subprocess.run([KRAIT, "check", *args], input=stdin, capture_output=True, timeout=300, cwd=FOLDER.name)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def found(*args: str, stdin: bytes = b"") -> list:
    status, out, err = krait("--format", "json", *args, stdin=stdin)
    report = json.loads(out)
    equal(status, 2 if report["not_judged"] else 1 if report["findings"] else 0, out + err)
    return [(row["rule"], row["line"]) for row in report["findings"]]


@check
def a_line_for_each_finding() -> None:
    put("lines/dirty.py", DIRTY + "import socket\n")
    status, out, err = krait("lines/dirty.py")
    equal((status, err), (1, "krait check: 2 findings\n"), out)
    equal([line.split(" ", 1)[0] for line in out.splitlines()], ["lines/dirty.py:2:8:", "lines/dirty.py:4:8:"])
    contains(out, "lines/dirty.py:2:8: P101 Import 'os' is not allowed")
    equal(krait(put("lines/clean.py", CLEAN)), (0, "", ""))
    equal(krait("-", stdin=CLEAN.encode()), (0, "", ""))
    contains(krait("-", stdin=DIRTY.encode())[1], "<stdin>:2:8: P101 ")


@check
def nothing_runs() -> None:
    put("runs/loop.py", "while True:\n    pass\n")
    put("runs/exit.py", "raise SystemExit(77)\n")
    put("runs/says.py", "print('it ran')\n")
    equal(krait("runs"), (0, "", ""))


@check
def a_syntax_error_is_a_finding() -> None:
    status, out, _ = krait(put("syntax.py", "x = 1\ndef f(:\n    pass\n"))
    equal(status, 1, out)
    contains(out, "syntax.py:2:")
    contains(out, " P100 ")


@check
def folders_are_walked() -> None:
    for name in ("b.py", "a.py", "deep/er/c.py", "deep/n.txt", ".hidden/d.py", "__pycache__/e.py", "node_modules/f.py"):
        put("walk/" + name, "import os\n")
    os.symlink("/etc", os.path.join(FOLDER.name, "walk/link"))
    os.symlink("/etc/passwd", os.path.join(FOLDER.name, "walk/link.py"))
    equal([line.split(":")[0] for line in krait("walk")[1].splitlines()],
          ["walk/a.py", "walk/b.py", "walk/deep/er/c.py"])
    put("none/x.txt", "")
    status, _, err = krait("none")
    equal((status, err), (2, 'krait check: "none" has no file that ends in .py or .ipynb\n'))


@check
def cells_of_notebooks() -> None:
    cells = [{"cell_type": "markdown", "source": "import os"}, {"cell_type": "code", "source": "import math"},
             {"cell_type": "code", "source": ["x = 1\n", "import os\n"]}, {"cell_type": "code", "source": []}]
    put("book.ipynb", json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}))
    status, out, _ = krait("book.ipynb")
    equal((status, out), (1, "book.ipynb[cell 2]:2:8: P101 Import 'os' is not allowed\n"))
    for text, why in (("[1", "is not a notebook"), ("{}", "no array of cells"), ("[" * 500, "too deep")):
        status, out, _ = krait(put("broken.ipynb", text))
        equal(status, 2, out)
        contains(out, why)


@check
def profiles_and_lists() -> None:
    path = put("profiles.py", "import numpy\nimport shutil\nimport math\n")
    equal(found(path), [("P101", 1), ("P101", 2)])
    equal(found("--profile", "data_science", path), [("P101", 2)])
    equal(found("--profile", "data_science,filesystem", path), [])
    equal(found("--allowed-imports", "shutil", path), [("P101", 1), ("P101", 3)])
    equal(found("--allowed-imports", "shutil", "--allowed-imports", "numpy,math", path), [])


@check
def a_policy_file() -> None:
    path = put("pol.py", "import numpy\nimport yaml\nimport csv\n")
    put("policy.toml", '[policy]\npolicy = "restricted"\nallow = ["yaml"]\ndeny = ["csv"]\n'
                       '[user-ada]\nprofiles = ["data_science"]\ndeny = []\n[user-root]\npolicy = "open"\n')
    equal(found("--policy-file", "policy.toml", path), [("P101", 1), ("P101", 3)])
    equal(found("--policy-file", "policy.toml", "--user", "ada", path), [])
    equal(found("--policy-file", "policy.toml", "--user", "root", path), [])
    equal(found("--policy-file", "policy.toml", "--user", "eve", path), [("P101", 1), ("P101", 3)])
    status, _, err = krait("--policy-file", "policy.toml", "--allowed-imports", "os", path)
    equal(status, 2, err)
    contains(err, "os is more than the policy file allows")
    put("wrong.toml", '[policy]\npolicy = "tight"\n')
    status, _, err = krait("--policy-file", "wrong.toml", path)
    equal((status, err), (2, 'krait check: wrong.toml:2: policy: "tight" is neither open nor restricted\n'))
    equal(krait("--policy-file", "nowhere.toml", path)[0], 2)


@check
def what_cannot_be_judged_costs_itself_alone() -> None:
    put("odd/1.py", b"x = '\xff'\n")
    put("odd/2.py", b"x = 1\x00\n")
    put("odd/3.py", b"#" * (11 << 20))
    put("odd/4.py", DIRTY)
    status, out, err = krait("odd", "nowhere.py")
    equal(status, 2, out + err)
    equal([line.split(":")[0] for line in out.splitlines()],
          ["odd/1.py", "odd/2.py", "odd/3.py", "odd/4.py", "nowhere.py"])
    for part in ("odd/1.py: not judged: is not UTF-8 (byte 5)", "odd/2.py: not judged: has a NUL character (byte 5)",
                 "odd/3.py: not judged: cannot be read: larger than 10 MiB", "odd/4.py:2:8: P101 ",
                 "nowhere.py: not judged: cannot be read: No such file or directory"):
        contains(out, part)


@check
def bombs_of_the_parser() -> None:
    """A parser that is overwhelmed ends with a finding, or with its session; the next file is judged all the same."""
    put("bombs/1.py", "x = " + "(" * 5000 + ")" * 5000 + "\n")
    put("bombs/2.py", "x = " + "-" * 100000 + "1\n")
    put("bombs/3.py", "x = " + " + ".join(["1"] * 50000) + "\n")
    put("bombs/4.py", "x = [" + "1," * 2000000 + "]\n")
    put("bombs/5.py", DIRTY)
    status, out, err = krait("bombs")
    assert status in (1, 2), (status, out[-2000:], err)
    contains(out, "bombs/5.py:2:8: P101 Import 'os' is not allowed")
    contains(out, "bombs/1.py:")


@check
def wrong_use() -> None:
    for args, why in (((), "what is to be checked?"), (("--format", "xml", "x.py"), "--format"),
                      (("--profile", "everything", "x.py"), "everything"), (("--nope", "x.py"), "nope"),
                      (("--user", "ada", "x.py"), "--user: needs --policy-file"),
                      (("--allowed-imports", "a b-c", "x.py"), "b-c")):
        status, out, err = krait(*args)
        equal((status, out), (2, ""), err)
        contains(err, why)
        assert err.startswith("krait check: ") and err.count("\n") == 1, err


# ---- SARIF ----

# What SARIF 2.1.0's schema says of the members that are written here: type, required members, pattern. A member that is
# not named is a failure, so that nothing is written unjudged.
TEXT = {"type": str}
COUNT = {"type": int, "least": 1}
MESSAGE = {"type": dict, "required": ("text",), "members": {"text": TEXT}}
LOCATION = {"type": dict, "members": {
    "physicalLocation": {"type": dict, "required": ("artifactLocation",), "members": {
        "artifactLocation": {"type": dict, "required": ("uri",), "members": {"uri": TEXT}},
        "region": {"type": dict, "required": ("startLine",), "members": {
            "startLine": COUNT, "startColumn": COUNT, "endLine": COUNT, "endColumn": COUNT}}}},
    "logicalLocations": {"type": list, "of": {"type": dict, "members": {"name": TEXT}}}}}
RULE = {"type": dict, "required": ("id",), "members": {
    "id": TEXT, "name": TEXT, "shortDescription": MESSAGE, "fullDescription": MESSAGE, "help": MESSAGE,
    "helpUri": TEXT}}
RESULT = {"type": dict, "required": ("message",), "members": {
    "ruleId": TEXT, "ruleIndex": {"type": int, "least": 0}, "message": MESSAGE,
    "level": {"type": str, "of": ("none", "note", "warning", "error")}, "locations": {"type": list, "of": LOCATION}}}
INVOCATION = {"type": dict, "required": ("executionSuccessful",), "members": {
    "executionSuccessful": {"type": bool}, "toolExecutionNotifications": {"type": list, "of": {
        "type": dict, "required": ("message",), "members": {"level": TEXT, "message": MESSAGE,
                                                            "locations": {"type": list, "of": LOCATION}}}}}}
RUN = {"type": dict, "required": ("tool",), "members": {
    "tool": {"type": dict, "required": ("driver",), "members": {"driver": {"type": dict, "required": ("name",), "members": {
        "name": TEXT, "semanticVersion": TEXT, "rules": {"type": list, "of": RULE}}}}},
    "columnKind": {"type": str, "of": ("utf16CodeUnits", "unicodeCodePoints")},
    "invocations": {"type": list, "of": INVOCATION}, "results": {"type": list, "of": RESULT}}}
LOG = {"type": dict, "required": ("version", "runs"), "members": {
    "$schema": TEXT, "version": {"type": str, "of": ("2.1.0",)}, "runs": {"type": list, "of": RUN}}}


def obeys(value, rule: dict, where: str = "$") -> None:
    assert type(value) is rule["type"], (where, value)
    if rule["type"] is dict:
        for name in rule.get("required", ()):
            assert name in value, (where, name)
        for name, member in value.items():
            assert name in rule["members"], "%s has %s" % (where, name)
            obeys(member, rule["members"][name], where + "." + name)
    elif rule["type"] is list:
        for i, item in enumerate(value):
            obeys(item, rule["of"], "%s[%d]" % (where, i))
    elif "of" in rule:
        assert value in rule["of"], (where, value)
    elif "least" in rule:
        assert value >= rule["least"], (where, value)


@check
def sarif() -> None:
    put("s/a b.py", DIRTY + "import socket\n")
    put("s/book.ipynb", json.dumps({"nbformat": 4, "cells": [{"cell_type": "code", "source": "\nimport os"}]}))
    status, out, err = krait("--format", "sarif", "s", "nowhere.py")
    equal((status, err), (2, ""), out)
    log = json.loads(out)
    obeys(log, LOG)
    run = log["runs"][0]
    (rule,) = run["tool"]["driver"]["rules"]
    equal((rule["id"], rule["name"]), ("P101", "import"))
    assert rule["shortDescription"]["text"] and rule["fullDescription"]["text"] and rule["help"]["text"], rule
    equal([(row["ruleId"], row["ruleIndex"], row["message"]["text"]) for row in run["results"]],
          [("P101", 0, "Import 'os' is not allowed"), ("P101", 0, "Import 'socket' is not allowed"),
           ("P101", 0, "cell 1, line 2: Import 'os' is not allowed")])
    place = run["results"][0]["locations"][0]["physicalLocation"]
    equal((place["artifactLocation"]["uri"], place["region"]),
          ("s/a%20b.py", {"startLine": 2, "startColumn": 8, "endLine": 2, "endColumn": 10}))
    place = run["results"][2]["locations"][0]
    equal(("region" in place["physicalLocation"], place["logicalLocations"]), (False, [{"name": "cell 1"}]))
    equal(run["invocations"][0]["executionSuccessful"], False)
    equal(len(run["invocations"][0]["toolExecutionNotifications"]), 1)
    status, out, _ = krait("--format", "sarif", put("clean.py", CLEAN))
    log = json.loads(out)
    obeys(log, LOG)
    equal((status, log["runs"][0]["results"], log["runs"][0]["invocations"][0]["executionSuccessful"]), (0, [], True))
    for broken in ({"version": "2.0.0"}, {"runs": [{}]}, {"more": 1}):  # the control: the judge of SARIF refuses
        try:
            obeys({**log, **broken}, LOG)
        except AssertionError:
            continue
        raise AssertionError(broken)


@check
def the_hook_of_pre_commit() -> None:
    """Its file names a command that is there and takes the files behind it."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.pre-commit-hooks.yaml")) as file:
        lines = [line.strip() for line in file]
    equal([line for line in lines if line.startswith("entry:")], ["entry: krait check"])
    equal(krait(put("hook1.py", DIRTY), put("hook2.py", CLEAN))[0], 1)


main()
