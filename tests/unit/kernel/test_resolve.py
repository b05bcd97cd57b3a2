#!/usr/bin/python3
"""resolve.py against an index on loopback: what it would install, what it fetches, and its errors."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, os.path.join(ROOT, "tests/lib"))
import wheels
from check import check, contains, equal, main, skip
from index import Index

RESOLVE = os.path.join(ROOT, "src/kernel/python/resolve.py")
PYTHON = os.environ.get("KR_TEST_PYTHON", "/usr/bin/python3")
folder = tempfile.TemporaryDirectory(prefix="kr-resolve-")
WHEELS = (
    ("alpha", "1.0", {"depends": ["beta>=1"]}),
    ("alpha", "2.0", {"depends": ["beta>=2"]}),
    ("Beta", "1.0", {}),
    ("Beta", "2.0", {"extras": {"fast": ["gamma[x]"]}}),
    ("gamma", "1.0", {}),
    ("old", "1.0", {"depends": ["beta<2"]}),
    ("astray", "1.0", {"depends": ["beta @ http://elsewhere.example/beta.whl"]}),
    ("orphan", "1.0", {"depends": ["nothere"]}),
    ("both", "1.0", {}),
    ("backthen", "1.0", {"requires_python": "<3.0"}),
)


def fill(index):
    for name, version, more in WHEELS:
        path = wheels.wheel(folder.name, name, version, **more)
        index.add(path, requires_python=more.get("requires_python", ""))
    index.add(wheels.sdist(folder.name, "both", "2.0"))
    index.add(wheels.sdist(folder.name, "fromsource", "1.0"))
    return index


def ask(index, *requirements, venv="", **more):
    """The answer, and the lines of progress."""
    request = dict(more, requirements=list(requirements), index=getattr(index, "url", index))
    program = "import runpy, sys; sys.argv[1:] = []; runpy.run_path(%r, {'REQUEST': %r}, '__main__')"
    code = program % (RESOLVE, request)
    if venv:
        with open(RESOLVE, encoding="utf-8") as file:
            text = file.read().replace('VENV = "/venv"', "VENV = %r" % venv)
        code = "REQUEST = %r\nexec(%r)" % (request, text)
    done = subprocess.run(
        [PYTHON, "-c", code], stdout=subprocess.PIPE, universal_newlines=True, timeout=120
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    answer = rows.pop()
    if answer.get("kind") == "resolver" and "pip is not installed" in answer["error"]:
        skip(answer["error"])
    return answer, [row["progress"] for row in rows]


def names(answer):
    return ["%s %s" % (one["name"], one["version"]) for one in answer["install"]]


@check
def dependencies_come_first():
    with fill(Index()) as index:
        answer, progress = ask(index, "alpha", "beta[fast]")
    equal(sorted(names(answer)), ["alpha 2.0", "beta 2.0", "gamma 1.0"])
    equal(names(answer)[-1], "alpha 2.0")
    by_name = {one["name"]: one for one in answer["install"]}
    equal({n: one["requested"] for n, one in by_name.items()}, {"alpha": True, "beta": True, "gamma": False})
    equal(by_name["gamma"]["sha256"], index.files["gamma-1.0-py3-none-any.whl"].sha256)
    equal(by_name["gamma"]["url"], index.file_url("gamma-1.0-py3-none-any.whl"))
    assert "Collecting alpha" in progress, progress


@check
def no_wheel_is_downloaded_where_there_is_metadata():
    for pages in (True, False):  # JSON, HTML
        with fill(Index(json_pages=pages)) as index:
            ask(index, "alpha", "beta[fast]")
        fetched = [one.path for one in index.requests() if one.path.endswith(".whl")]
        equal(fetched, [], "pages as JSON: %s" % pages)
    with fill(Index(metadata=False)) as index:  # the control: here it has to be
        equal(len(names(ask(index, "alpha")[0])), 2)
    assert any(one.path.endswith(".whl") for one in index.requests())


@check
def what_is_there_is_left_alone():
    with tempfile.TemporaryDirectory(prefix="kr-venv-") as venv, fill(Index()) as index:
        version = subprocess.check_output(
            [PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], universal_newlines=True
        ).strip()
        packages = "%s/lib/python%s/site-packages" % (venv, version)
        info = packages + "/beta-1.0.dist-info"
        os.makedirs(info)
        with open(info + "/METADATA", "w") as file:
            file.write(wheels.metadata_text("Beta", "1.0"))
        answer, _progress = ask(index, "beta", venv=venv)
        equal((answer["install"], answer["satisfied"][0]["version"]), ([], "1.0"))
        equal(answer["satisfied"][0]["location"], packages)
        equal(names(ask(index, "beta", venv=venv, upgrade=True)[0]), ["beta 2.0"])
        equal(names(ask(index, "alpha", venv=venv)[0]), ["beta 2.0", "alpha 2.0"])
        old = packages + "/old-1.0.dist-info"
        os.makedirs(old)
        with open(old + "/METADATA", "w") as file:
            file.write(wheels.metadata_text("old", "1.0", ["beta<2"]))
        answer, _progress = ask(index, "alpha", venv=venv)
        equal(answer["warnings"], ["old 1.0 needs beta<2, but beta will be 2.0"])


@check
def constraints_hold():
    with fill(Index()) as index:
        equal(names(ask(index, "alpha", constraints=["beta<2"])[0]), ["beta 1.0", "alpha 1.0"])
        answer, _progress = ask(index, "alpha>1", constraints=["beta<2"])
    equal(answer["kind"], "conflict")
    contains(answer["error"], "alpha 2.0 needs beta>=2")
    contains(answer["error"], "the constraint is beta<2")


@check
def errors_say_what_is_wrong():
    rows = (
        ("nothere", "not_found", "the index has no package nothere"),
        ("orphan", "not_found", "the index has no package nothere (needed by orphan)"),
        ("alpha==3", "no_version", "no version fits alpha==3; there are: 1.0, 2.0"),
        ("fromsource", "needs_build", "only source code (1.0)"),
        ("both>=2", "needs_build", "wheels are there of 1.0"),
        ("astray", "conflict", "astray wants beta from an address"),
        ("backthen", "python", "Requires-Python <3.0"),
        ("beta @ http://elsewhere.example/b.whl", "invalid", "names an address"),
        ("al pha", "invalid", "Invalid requirement: 'al pha'"),
        ("--index-url=http://elsewhere.example/", "invalid", "is not the name of a package"),
        ("", "invalid", "is not the name of a package"),
    )
    with fill(Index()) as index:
        for requirement, kind, text in rows:
            answer, _progress = ask(index, requirement)
            equal(answer.get("kind"), kind, requirement)
            contains(answer["error"], text)
        answer, _progress = ask(index, "alpha>=2", "old")
        equal((answer["kind"], answer["names"]), ("conflict", ["alpha", "beta", "old"]))
        contains(answer["error"], "alpha 2.0 needs beta>=2")
        contains(answer["error"], "old 1.0 needs beta<2")
        index.fault("/simple/alpha/", status=403)
        contains(ask(index, "alpha")[0]["error"], "status 403 a fault of the test")
        index.fault("/simple/alpha/", status=503)
        equal(ask(index, "alpha")[0]["error"], "the index does not answer for alpha: status 503")
    answer, _progress = ask("http://127.0.0.1:1/simple/", "alpha")
    equal(answer["kind"], "index")
    contains(answer["error"], "Connection refused")


@check
def source_code_only_where_building_is_allowed():
    with fill(Index()) as index:
        equal(names(ask(index, "both")[0]), ["both 1.0"])
        answer, _progress = ask(index, "fromsource", build=True)
        equal([(one["name"], one["sdist"]) for one in answer["install"]], [("fromsource", True)])
        equal(names(ask(index, "both", build=True)[0]), ["both 1.0"], "a wheel is preferred")


@check
def markers_are_judged():
    with fill(Index()) as index:
        equal(ask(index, "nothere; python_version < '3'")[0]["install"], [])
        equal(names(ask(index, "gamma; python_version >= '3'")[0]), ["gamma 1.0"])


main()
