#!/usr/bin/python3
"""A client that a generator makes from /openapi.json runs the examples of README.md: openapi-typescript writes
the types, TypeScript checks openapi_client/readme.ts against them, and Node runs it against a server.

The packages come from npm (tests/lib/npm_clients.py): 35 of them, with their hashes in the lock file.
"""
from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lib"))
import npm_clients  # noqa: E402
from check import check, contains, equal, skip  # noqa: E402
from serving import kept, main  # noqa: E402

SOURCE = ROOT / "tests/integration/openapi_client"
PLACE = ROOT / "build/npm-openapi"
WORK = PLACE / "work"  # beneath the packages, where imports find them
GENERATOR, COMPILER = "openapi-typescript/bin/cli.js", "typescript/bin/tsc"
STEP_S = 240


def clients() -> npm_clients.Clients:
    try:
        return npm_clients.provide(SOURCE, PLACE)
    except npm_clients.Missing as why:
        skip(str(why))
        raise


def node(*words: str) -> "tuple[int, str]":
    done = subprocess.run([clients().node, *words], cwd=WORK, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=STEP_S)
    return done.returncode, done.stdout.decode(errors="replace")


def generate() -> None:
    """The types, from the document that the server itself gives out."""
    c = clients()
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()
    (WORK / "openapi.json").write_bytes(kept().get("/openapi.json").body)
    for name in ("package.json", "readme.ts", "tsconfig.json"):
        shutil.copyfile(SOURCE / name, WORK / name)
    # A field with a default need not be given in a request.
    status, said = node(c.path(GENERATOR), "openapi.json", "--default-non-nullable=false", "-o", "krait.d.ts")
    equal(status, 0, said)


@check
def the_examples_of_the_readme_run_in_a_generated_client():
    generate()
    status, said = node(clients().path(COMPILER), "-p", ".")
    equal((status, said), (0, ""), "TypeScript's verdict")
    status, said = node("out/readme.js", "http://127.0.0.1:%d" % kept().port)
    equal((status, said), (0, "ok\n"), "the examples")


@check
def a_wrong_use_does_not_compile():
    """The control: the types say something. It looks at what the check above has generated."""
    if not (WORK / "krait.d.ts").exists():
        generate()
    text = (SOURCE / "readme.ts").read_text()
    for good, bad in (('code: "print(6 * 7)"', 'code: 42'), ("done.exit_code", "done.exit_status"),
                      ("path: { session_id } }", "path: { id: session_id } }")):
        assert good in text, good
        text = text.replace(good, bad)
    (WORK / "readme.ts").write_text(text)
    status, said = node(clients().path(COMPILER), "-p", ".", "--noEmit")
    assert status != 0, said
    for word in ("'number' is not assignable", "exit_status", "id"):
        contains(said, word)


if __name__ == "__main__":
    main()
