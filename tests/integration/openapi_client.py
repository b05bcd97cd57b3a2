#!/usr/bin/python3
"""What other programs make of /openapi.json. Two generators make clients that run the examples of README.md:
openapi-typescript writes types, against which TypeScript checks openapi_client/readme.ts; @hey-api/openapi-ts writes
types and functions, with which openapi_client/sdk.ts does the same. Spectral finds nothing to say of it.

The packages come from npm (tests/lib/npm_clients.py): 231 of them (100 MB), with their hashes in the lock file. Of
Spectral these are its core and its rules without the command line, of @hey-api/openapi-ts the last version that runs
on Debian's Node.
"""
from __future__ import annotations

import json
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
PROGRAMS = ((".", "readme"), ("tsconfig.sdk.json", "sdk"))  # a project of TypeScript, and what it makes
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


def take_document() -> dict:
    """The one that the server itself gives out, into a new folder."""
    clients()  # first: WORK is beneath the packages
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()
    (WORK / "openapi.json").write_bytes(kept().get("/openapi.json").body)
    for path in SOURCE.iterdir():
        if path.suffix in (".js", ".json", ".ts") and path.name != "package-lock.json":
            shutil.copyfile(path, WORK / path.name)
    return json.loads((WORK / "openapi.json").read_bytes())


def generate() -> None:
    # A field with a default need not be given in a request.
    types = (clients().path(GENERATOR), "openapi.json", "--default-non-nullable=false", "-o", "krait.d.ts")
    for words in (types, ("generate.js",)):
        status, said = node(*words)
        equal(status, 0, said)


def compiled(project: str, *more: str) -> "tuple[int, str]":
    return node(clients().path(COMPILER), "-p", project, *more)


@check
def the_examples_of_the_readme_run_in_generated_clients():
    take_document()
    generate()
    for project, program in PROGRAMS:
        equal(compiled(project), (0, ""), "TypeScript's verdict on %s" % program)
        status, said = node("out/%s.js" % program, "http://127.0.0.1:%d" % kept().port)
        equal((status, said), (0, "ok\n"), "the examples of %s" % program)


@check
def a_wrong_use_does_not_compile():
    """The control: the types say something. It looks at what the check above has generated."""
    if not (WORK / "krait.d.ts").exists() or not (WORK / "sdk").exists():
        take_document()
        generate()
    for project, program in PROGRAMS:
        text = (SOURCE / (program + ".ts")).read_text()
        for good, bad in (('code: "print(6 * 7)"', 'code: 42'), ("done.exit_code", "done.exit_status"),
                          ("path: { session_id } }", "path: { id: session_id } }")):
            assert good in text, good
            text = text.replace(good, bad)
        (WORK / (program + ".ts")).write_text(text)
        status, said = compiled(project, "--noEmit")
        assert status != 0, said
        for word in ("'number' is not assignable", "exit_status", "id"):
            contains(said, word)


@check
def spectral_has_nothing_to_say():
    """But of a document with flaws, which is the control."""
    document = take_document()
    equal(node("lint.js"), (0, ""))
    run = document["paths"]["/api/v1/runs"]["post"]
    del run["description"], document["info"]["contact"]
    document["components"]["schemas"]["RunRequest"]["properties"]["timeout"]["default"] = "soon"
    (WORK / "openapi.json").write_text(json.dumps(document))
    status, said = node("lint.js")
    equal((status, {line.split()[0] for line in said.splitlines()}),
          (0, {"info-contact", "operation-description", "oas3-valid-schema-example"}), said)


if __name__ == "__main__":
    main()
