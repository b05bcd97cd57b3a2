#!/usr/bin/python3
"""Document 003 (python-executor: Python Code Executor, port 8000, texts): its contract's rows about packages, the
environment and the network, against an index on loopback."""
import re
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
import real_client  # noqa: E402
from check import check, contains, equal, skip  # noqa: E402
from krait_server import Server  # noqa: E402
from mcp import Sse  # noqa: E402
from package_shelf import shelf  # noqa: E402
from serving import kept, main  # noqa: E402

DIALECT = ["--dialect", "python-executor"]
GET = "import os, urllib.request\nprint(urllib.request.urlopen(os.environ['PIP_INDEX_URL'] + 'tiny/', timeout=20).status)"


def server() -> Server:
    return kept(args=[*DIALECT, *shelf().args("--installs-per-minute", "0")])


def text_of(s: Server, name: str, **arguments) -> str:
    with Sse(s.port) as c:
        result = c.tool(name, arguments)
    assert not result.get("isError"), result
    equal([block["type"] for block in result["content"]], ["text"])
    return result["content"][0]["text"]


def text(name: str, **arguments) -> str:
    return text_of(server(), name, **arguments)


def run(code: str) -> str:
    return text("execute_python", code=code)


@check
def row_003_03_one_package():
    got = text("install_package", package_names="numpy")
    assert got.startswith("Successfully installed: numpy\n\n"), got
    assert got.split("\n\n", 1)[1].strip(), "what the installer printed follows"
    equal(run("import numpy; print('imported')"), "imported\n")


@check
def row_003_04_several_packages():
    got = text("install_package", package_names="pandas matplotlib seaborn")
    assert got.startswith("Successfully installed: pandas matplotlib seaborn\n\n"), got
    equal(run("import pandas, matplotlib, seaborn; print('imported')"), "imported\n")


@check
def row_003_05_a_version():
    got = text("install_package", package_names="requests>=2.28.0")
    assert got.startswith("Successfully installed: requests>=2.28.0\n\n"), got
    version = run("import importlib.metadata as m; print(m.version('requests'))").strip()
    assert tuple(int(n) for n in version.split(".")[:2]) >= (2, 28), version
    equal(run("import os; print([f for f in os.listdir() if '2.28' in f])"), "[]\n", "no shell saw the >")
    exact = text("install_package", package_names="requests==2.31.0")
    assert exact.startswith("Successfully installed: requests==2.31.0"), exact
    equal(run("import requests; print(requests.VERSION)"), "2.31.0\n")


@check
def row_003_06_the_list_is_pips():
    text("install_package", package_names="tiny")
    lines = text("list_installed_packages").splitlines()
    assert re.match(r"Package +Version$", lines[0]), lines[:3]
    assert re.match(r"-+ -+$", lines[1]), lines[:3]
    rows = dict(line.split() for line in lines[2:])
    contains(rows, "pip")
    equal(rows["tiny"], "9.9")


@check
def row_003_07_a_reset_takes_packages_away():
    with Server(args=[*DIALECT, *shelf().args()]) as s:
        assert text_of(s, "install_package", package_names="with-extras").startswith("Successfully installed")
        contains(text_of(s, "list_installed_packages"), "with-extras")
        equal(text_of(s, "execute_python", code="import with_extras; print('there')"), "there\n")
        equal(text_of(s, "reset_sandbox"), "Sandbox environment has been reset successfully.")
        assert "with-extras" not in text_of(s, "list_installed_packages")
        contains(text_of(s, "execute_python", code="import with_extras"), "ModuleNotFoundError")
        assert text_of(s, "install_package", package_names="with-extras").startswith("Successfully installed")
        equal(text_of(s, "execute_python", code="import with_extras; print('again')"), "again\n")


@check
def row_003_13_what_goes_wrong():
    for nothing in ("", "   "):
        equal(text("install_package", package_names=nothing), "Error: No package names provided")
    got = text("install_package", package_names="nonsense-that-no-index-has")
    assert got.startswith("Installation failed:\n") and "nonsense-that-no-index-has" in got, got
    for options in ("--index-url http://127.0.0.1:1/ x", "-r /etc/passwd", "x; touch y", "./here", "x @ file:///etc"):
        got = text("install_package", package_names=options)
        assert got.startswith("Installation failed:\n"), (options, got)
    got = text("install_package", package_names="fromsource")
    assert got.startswith("Installation failed:\n") and "fromsource" in got, got
    assert text("install_package", package_names="tiny-two").startswith("Successfully installed"), "the control"


@check
def row_003_n2_an_environment_of_its_own():
    equal(run("import sys; print(sys.prefix, sys.prefix != sys.base_prefix)"), "/venv True\n")
    contains(text("get_sandbox_info").splitlines(), "- Environment Path: /venv")


@check
def row_003_n7_the_network_is_configurable():
    closed = run("import urllib.request\ntry:\n    urllib.request.urlopen('http://127.0.0.1:1/', timeout=5)\n"
                 "except OSError as e:\n    print('no way out')")
    equal(closed, "no way out\n")
    with Server(args=[*DIALECT, *shelf().args("--network", "index", "--max-network", "index")]) as s:
        equal(text_of(s, "execute_python", code=GET), "200\n")


@check
def rows_go_through_a_client_that_others_wrote():
    c = real_client.at(server().port, "/sse", "sse-only")
    if not c:
        skip("npm could not fetch mcp-remote")
    begun = time.monotonic()
    got = c.tool("install_package", package_names="speedy")["content"][0]["text"]
    assert got.startswith("Successfully installed: speedy\n\n"), (got, time.monotonic() - begun)
    contains(c.tool("list_installed_packages")["content"][0]["text"], "speedy")
    equal(c.tool("execute_python", code="import _speedy; print(_speedy.VALUE)")["content"][0]["text"], "42\n")


main()
