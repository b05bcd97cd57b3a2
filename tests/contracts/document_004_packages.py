#!/usr/bin/python3
"""Document 004 (mcp-sandbox: MCP Sandbox, port 8181): its contract's rows about packages, against an index on loopback.

What takes longer than its answer waits is a wheel that an index sends slowly: no check looks at a clock but to bound a
wait.
"""
import json
import os
import sys
import tempfile
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

DIALECT = ["--dialect", "mcp-sandbox"]
UNTIL_S = 120


def server() -> Server:
    return kept(args=[*DIALECT, *shelf().args("--installs-per-minute", "0", "--max-sandboxes-per-user", "0")])


def value(result: dict):
    assert not result.get("isError"), result
    return json.loads(result["content"][0]["text"])


def new_box(c) -> str:
    return value(c.tool("create_sandbox"))["sandbox_id"]


def ask(c, box: str, package: str) -> dict:
    return value(c.tool("install_package_in_sandbox", sandbox_id=box, package_name=package))


def look(c, box: str, package: str) -> dict:
    return value(c.tool("check_package_installation_status", sandbox_id=box, package_name=package))


def complete(c, box: str, package: str) -> dict:
    """As the document's prompt says: while it is installing, check again."""
    deadline = time.monotonic() + UNTIL_S
    while True:
        got = look(c, box, package)
        if got["status"] != "installing":
            return got
        equal((got["complete"], got["success"]), (False, None))
        assert got["elapsed_seconds"] >= 0 and got["start_time"], got
        assert time.monotonic() < deadline, got


def is_success(got: dict, package: str) -> None:
    equal((got["status"], got["message"], got["complete"], got["success"]),
          ("success", "Successfully installed " + package, True, True))
    assert got["end_time"], got


@check
def row_004_04_installed_while_the_answer_waits():
    with Sse(server().port) as c:
        box = new_box(c)
        first = ask(c, box, "pandas==9.1.0")
        if first["status"] == "installing":  # a machine that is busy
            equal(first["success"], None)
            first = complete(c, box, "pandas==9.1.0")
        is_success(first, "pandas==9.1.0")
        is_success(look(c, box, "pandas"), "pandas")
        ran = value(c.tool("execute_python_code", sandbox_id=box, code="import pandas, numpy; print(pandas.VERSION)"))
        equal((ran["stdout"], ran["exit_code"]), ("9.1.0\n", 0), ran["stderr"])
        got = look(c, box, "pip")  # which no job has named
        equal((got["status"], got["message"], got["complete"], got["success"]),
              ("success", "Package pip is already installed", True, True))


@check
def row_004_04_what_takes_longer_goes_on():
    with Sse(server().port) as c:
        box = new_box(c)
        first = ask(c, box, "slow")
        equal((first["status"], first["success"]), ("installing", None))
        contains(first["message"], "in progress")
        again = ask(c, box, "slow")
        equal((again["status"], again["message"]), ("installing", "Package slow installation already in progress"))
        is_success(complete(c, box, "slow"), "slow")
        ran = value(c.tool("execute_python_code", sandbox_id=box, code="import slow; print(slow.VERSION)"))
        equal(ran["stdout"], "1.0\n", ran["stderr"])


@check
def row_004_04_it_goes_on_without_its_client():
    with Sse(server().port) as c:
        box = new_box(c)
        equal(ask(c, box, "slow-alone")["status"], "installing")
    with Sse(server().port) as c:
        is_success(complete(c, box, "slow-alone"), "slow-alone")


@check
def row_004_04_what_fails_says_why():
    with Sse(server().port) as c:
        box = new_box(c)
        for package in ("no-index-has-this", "altered", "cut-off"):
            ask(c, box, package)
            got = complete(c, box, package)
            equal((got["status"], got["complete"], got["success"]), ("failed", True, False), package)
            assert got["message"].startswith("Failed to install %s: " % package) and got["stderr"], got
        refused = ask(c, box, "os")
        equal((refused["status"], refused["success"]), ("failed", False))
        contains(refused["message"], "Package os is blocked for security reasons")
        never = look(c, box, "never-asked-for")
        equal((never["status"], never["message"], never["complete"], never["success"]),
              ("not_found", "No installation record found for never-asked-for", True, False))
        for name in ("install_package_in_sandbox", "check_package_installation_status"):
            got = value(c.tool(name, sandbox_id="nobodys", package_name="tiny"))
            equal(got, {"error": True, "message": "Sandbox not found: nobodys"})


@check
def row_004_12_the_mirror_of_config_toml():
    with tempfile.TemporaryDirectory(prefix="krait-test-") as folder:
        os.chmod(folder, 0o755)
        Path(folder, "config.toml").write_text('[mirror]\npypi_index_url = "%s"\n' % shelf().index.url)
        shelf().index.forget()
        with Server(args=DIALECT, cwd=folder, usual=["--port", "0"]) as s, Sse(s.port) as c:
            box = new_box(c)
            got = ask(c, box, "tiny")
            is_success(got if got["status"] == "success" else complete(c, box, "tiny"), "tiny")
            assert "ignoring mirror.pypi_index_url" not in s.log_text(), s.log_text()
        assert shelf().index.count("/files/tiny-9.9-py3-none-any.whl") == 1, shelf().index.requests()


def the_prompt_works(c) -> None:
    """Row 15: as the document's prompt has it."""
    listed = value(c.tool("list_sandboxes"))
    box = listed[0]["sandbox_id"] if listed else new_box(c)
    for package in ("pandas==9.1.0", "matplotlib"):
        first = ask(c, box, package)
        contains(("installing", "success"), first["status"])
        equal(complete(c, box, package)["status"], "success")
    ran = value(c.tool("execute_python_code", sandbox_id=box, code="import pandas, matplotlib\n"
                       "open('table.csv', 'w').write('a,b\\n1,2\\n')\nprint(pandas.VERSION)"))
    equal((ran["stdout"], ran["files"]), ("9.1.0\n", ["/app/results/table.csv"]), ran["stderr"])
    equal(len(ran["file_links"]), 1)


@check
def row_004_15_the_example_prompt():
    with Server(args=[*DIALECT, *shelf().args()]) as s, Sse(s.port) as c:
        the_prompt_works(c)


@check
def row_004_15_a_client_that_others_wrote():
    c = real_client.at(server().port, "/sse", "sse-only")
    if not c:
        skip("npm could not fetch mcp-remote")
    the_prompt_works(c)


@check
def row_004_n6_installed_packages_of_the_list():
    with Sse(server().port) as c:
        full, empty = new_box(c), new_box(c)
        ask(c, full, "tiny")
        complete(c, full, "tiny")
        found = {one["sandbox_id"]: one["installed_packages"] for one in value(c.tool("list_sandboxes"))}
        for row in (*found[full], *found[empty]):
            equal(set(row), {"name", "version"})
        contains(found[full], {"name": "tiny", "version": "9.9"})
        assert {"name": "tiny", "version": "9.9"} not in found[empty], found[empty]
        contains([one["name"] for one in found[empty]], "pip")  # what comes with Python is there


main()
