#!/usr/bin/python3
"""Document 002 (sandbox-service: Sandbox Service, port 8001): its contract's rows about packages, over HTTP and MCP,
against an index on loopback."""
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
import real_client  # noqa: E402
from check import check, contains, equal, skip  # noqa: E402
from krait_server import Server  # noqa: E402
from mcp import Sse  # noqa: E402
from package_shelf import shelf  # noqa: E402
from serving import eventually, kept, main  # noqa: E402

DIALECT = ["--dialect", "sandbox-service"]
JSON = {"Content-Type": "application/json"}
FOUR = {"success", "message", "installed_version", "installation_time"}
BLOCKED = ("os", "subprocess", "sys", "importlib", "ctypes", "multiprocessing", "threading")
FIBONACCI = "a, b = 0, 1\nfor _ in range(10):\n    print(a)\n    a, b = b, a + b"


def server() -> Server:
    return kept(args=[*DIALECT, *shelf().args("--installs-per-minute", "0")])


def install(s: Server, package: str, version: str | None = None, path: str = "/pip_install") -> dict:
    """The outcome, with the fields of the document and their types."""
    reply = s.post(path, {"package": package, **({"version": version} if version else {})}, headers=JSON)
    equal(reply.status, 200, reply.text[:300])
    found = reply.json()
    assert set(found) >= FOUR, found
    assert isinstance(found["success"], bool) and isinstance(found["message"], str) and found["message"], found
    assert isinstance(found["installation_time"], (int, float)) and found["installation_time"] >= 0, found
    equal(found["installed_version"] is not None, found["success"])
    return found


def printed(s: Server, code: str) -> str:
    found = s.post("/execute", {"code": code}, headers=JSON).json()
    assert found["success"], found
    return found["stdout"].strip()


def version_inside(s: Server, package: str) -> str:
    return printed(s, "import importlib.metadata as m; print(m.version(%r))" % package)


def metric(s: Server, name: str) -> float:
    found = re.search(r"^%s (\S+)$" % re.escape(name), s.get("/metrics").text, re.M)
    return float(found.group(1)) if found else 0


def warnings_of(s: Server, package: str) -> list:
    return [line for line in s.log_text().splitlines()
            if "blocked package" in line and "level=warn" in line and "package=" + package in line.replace('"', "")]


@check
def row_002_03_the_latest_version():
    s = server()
    reply = s.post("/pip_install", b'{\n    "package": "requests",\n    "version": "latest"\n  }', headers=JSON)
    equal((reply.status, set(reply.json())), (200, FOUR))
    found = reply.json()
    equal((found["success"], found["installed_version"]), (True, "2.99.0"))
    contains(found["message"], "requests-2.99.0")
    equal(printed(s, "import requests; print(requests.VERSION)"), "2.99.0")
    equal(version_inside(s, "requests"), "2.99.0")


@check
def row_002_04_versions_as_they_were_asked_for():
    s = server()
    for package, version in (("requests", "2.31.0"), ("numpy", "1.24.0")):
        found = install(s, package, version)
        equal((found["success"], found["installed_version"]), (True, version), found["message"])
        equal(version_inside(s, package), version)
    found = install(s, "requests", "9999.0")
    equal((found["success"], found["installed_version"]), (False, None))
    contains(found["message"], "requests")
    equal(version_inside(s, "requests"), "2.31.0", "what failed changes nothing")


@check
def row_002_08_curls_own_content_type():
    s = server()
    reply = s.post("/pip_install", b'{"package": "suspicious-package"}',
                   headers={"Content-Type": "application/x-www-form-urlencoded"})
    equal(reply.status, 200, reply.text)
    equal(reply.json()["success"], False)
    contains(reply.json()["message"], "suspicious-package")


@check
def row_002_09_seven_names_are_blocked():
    s = server()
    for name in BLOCKED:
        before = metric(s, 'sandbox_package_installs_total{result="blocked"}')
        errors = metric(s, 'sandbox_errors_total{type="blocked_package"}')
        reply = s.post("/pip_install", {"package": name}, headers=JSON)
        equal(reply.status, 400, name)
        assert reply.detail().startswith("Package %s is blocked for security reasons" % name), reply.detail()
        eventually(lambda name=name: warnings_of(s, name), why="a warning in the log")
        equal(metric(s, 'sandbox_package_installs_total{result="blocked"}') - before, 1, name)
        equal(metric(s, 'sandbox_errors_total{type="blocked_package"}') - errors, 1, name)
    equal(install(s, "foo")["success"], True)


@check
def row_002_09_another_list():
    with Server(args=[*DIALECT, *shelf().args()], env={"BLOCKED_PACKAGES": "foo,bar"}) as s:
        for name in ("foo", "bar", "Foo"):
            reply = s.post("/pip_install", {"package": name}, headers=JSON)
            equal((reply.status, reply.detail()), (400, "Package %s is blocked for security reasons" % name))
        eventually(lambda: warnings_of(s, "foo"), why="a warning in the log")
        equal(install(s, "tiny")["success"], True)


def mcp_value(result: dict) -> dict:
    equal([block["type"] for block in result["content"]], ["text"])
    return json.loads(result["content"][0]["text"])


def goes_through(c) -> None:
    """Row 12, by any client."""
    names = [tool["name"] for tool in c.call("tools/list")["tools"]]
    equal(names, ["execute_python", "pip_install"])
    equal(mcp_value(c.tool("execute_python", code=FIBONACCI))["stdout"].split()[-1], "34")
    found = mcp_value(c.tool("pip_install", package="numpy", version="9.26.4"))
    equal((set(found), found["success"], found["installed_version"]), (FOUR, True, "9.26.4"))
    made = mcp_value(c.tool("execute_python", code="import numpy; print(numpy.__version__, len(numpy.random.rand(4)))"))
    equal(made["stdout"], "9.26.4 4\n", made["stderr"])


@check
def row_002_12_installed_over_mcp_and_used_by_the_next_run():
    with Sse(server().port, "/mcp/sse") as c:
        goes_through(c)
        refused = c.tool("pip_install", package="os")
        equal((refused.get("isError"), mcp_value(refused)["success"]), (True, False))
        contains(mcp_value(refused)["message"], "Package os is blocked for security reasons")
        failed = mcp_value(c.tool("pip_install", package="nowhere-to-be-found"))
        equal(failed["success"], False)


@check
def row_002_12_a_client_that_others_wrote():
    c = real_client.at(server().port, "/mcp/sse", "sse-only")
    if not c:
        skip("npm could not fetch mcp-remote")
    goes_through(c)


@check
def row_002_17_the_other_path_and_names_that_are_none():
    s = server()
    found = install(s, "tiny-two", path="/pip/install")
    equal(set(found), FOUR | {"output", "error"})
    equal((found["success"], found["error"]), (True, None))
    for name in ("a;b", "../x", "-r", "--index-url=http://127.0.0.1/", "a b", "x @ http://127.0.0.1/x.whl", "$(id)"):
        for path in ("/pip_install", "/pip/install"):
            reply = s.post(path, {"package": name}, headers=JSON)
            equal(reply.status, 400, name)
            contains(reply.detail(), "Invalid package name format")
    for name in ("", "x" * 101):
        equal(s.post("/pip_install", {"package": name}, headers=JSON).status, 422, name)
    for version in ("1 || id", "1;b", "1 -r x"):
        reply = s.post("/pip_install", {"package": "idna", "version": version}, headers=JSON)
        equal(reply.status, 400, version)


@check
def row_002_n10_rate_size_and_source():
    with Server(args=[*DIALECT, *shelf().args("--installs-per-minute", "3", "--packages-max-download", "1M")]) as s:
        found = install(s, "large")
        equal(found["success"], False)
        equal(install(s, "tiny")["success"], True, "what is small comes in")
        altered = install(s, "altered")
        equal(altered["success"], False)
        contains(altered["message"].lower(), "hash")
        late = s.post("/pip_install", {"package": "tiny-two"}, headers=JSON)
        equal(late.status, 429, late.text)
        contains(late.detail(), "installs_per_minute")
        equal(printed(s, "import tiny; print(tiny.VERSION)"), "9.9")
    s = server()
    cut = install(s, "cut-off")
    equal(cut["success"], False, "a file that ends before its end")
    reply = s.post("/pip_install", {"package": "reqeusts"}, headers=JSON)
    equal(reply.status, 400)
    contains(reply.detail(), "requests")


@check
def row_002_n12_the_generated_name():
    with Sse(server().port, "/mcp/sse") as c:
        found = mcp_value(c.tool("pip_install_pip_install_post", package="with-extras[fast]"))
        equal((set(found), found["success"], found["installed_version"]), (FOUR, True, "1.0"))
        used = mcp_value(c.tool("execute_code_execute_post", code="import _speedy; print(_speedy.VALUE)"))
        equal(used["stdout"], "42\n", used["stderr"])


main()
