#!/usr/bin/python3
"""The escapes with the judge off, in a real cell: what they reach is the cell's own, and it holds alone.

All programs of tests/policy/escapes that need no library run one after the other under `open`, each in a process of its
own in one cell; then the cell is asked what it is. tests/escape tries the walls themselves.
"""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lib")]

from check import check, equal, main  # noqa: E402
from policies import programs  # noqa: E402

KRAIT = os.path.abspath(os.environ.get("KRAIT", str(HERE.parent.parent / "build/krait")))
LEAST = 250  # programs that reach what they came for
SECONDS = 120

DRIVER = """
import ast, json, os, sys
programs, secret = json.load(open("programs.json"))
def one(code):
    sys.stderr = open(os.devnull, "w")
    made = compile(code, "<trick>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    space = {"__name__": "__main__", "__builtins__": __builtins__}
    done = eval(made, space)
    if done is not None:
        import asyncio
        asyncio.run(done)
reached = 0
for code in programs:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writer, 1)
        sys.stdout = os.fdopen(1, "w")
        try:
            one(code)
        except BaseException:
            pass
        try:
            sys.stdout.flush()
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as said:
        reached += b"REACHED" in said.read()
    os.waitpid(child, 0)
def fails(what):
    try:
        what()
    except OSError as exc:
        return True
    return False
import socket
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
print("VERDICT", json.dumps({
    "reached": reached,
    "uid": os.getuid(),
    "capabilities": status["CapEff"].strip().strip("0"),
    "no_new_privs": status["NoNewPrivs"].strip(),
    "filter": status["Seccomp"].strip(),
    "secret": not fails(lambda: open(secret).read()),
    "usr": not fails(lambda: open("/usr/reached", "w")),
    "network": not fails(lambda: socket.create_connection(("192.0.2.1", 9), 1)),
    "processes": sum(name.isdigit() for name in os.listdir("/proc")),
}))
"""


@check
def cell_holds_without_the_judge():
    found = [code for path in sorted((HERE / "escapes").glob("*.txt")) if path.stem != "data"
             for _name, code in programs(path)]
    with tempfile.TemporaryDirectory() as outside, tempfile.TemporaryDirectory() as folder:
        secret = Path(outside) / "secret"
        secret.write_text("secret")
        os.chmod(folder, 0o777)
        (Path(folder) / "programs.json").write_text(json.dumps([found, str(secret)]))
        (Path(folder) / "driver.py").write_text(DRIVER)
        for path in Path(folder).iterdir():
            path.chmod(0o644)
        argv = [KRAIT, "run", "--json", "--workspace", folder, str(Path(folder) / "driver.py")]
        done = subprocess.run(argv, timeout=SECONDS, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        report = json.loads(done.stdout)
        assert report["cause"] == "ok" and "VERDICT " in report["stdout"], (done.stdout[-2000:], done.stderr[-500:])
        verdict = json.loads(report["stdout"].split("VERDICT ", 1)[1])
        equal(secret.read_text(), "secret")
        equal([path.name for path in Path(outside).iterdir()], ["secret"])
    assert verdict.pop("reached") >= LEAST, verdict
    assert verdict.pop("processes") < 10, verdict
    equal(verdict, {"uid": 1000, "capabilities": "", "no_new_privs": "1", "filter": "2", "secret": False, "usr": False,
                    "network": False})


main()
