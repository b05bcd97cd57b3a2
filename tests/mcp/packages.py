#!/usr/bin/python3
"""krait's own tools about packages, over real connections and against an index on loopback: what a model reads,
progress with phases and bytes, cancelling, tasks, structure, refusals, and stdio."""
from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "lib")]
from check import check, contains, equal
from krait_server import KRAIT, Server
from mcp import MODERN, Http, Stdio
from package_shelf import shelf
from serving import eventually, kept, main

TASKS = "io.modelcontextprotocol/tasks"


def server() -> Server:
    return kept(args=shelf().args("--installs-per-minute", "0"), validate=False)


def client(**how) -> Http:
    return Http(server().port, **how)


def box(c) -> str:
    made = c.tool("create_sandbox", {"name": "box-%d" % time.monotonic_ns()})
    return json.loads(text(made))["sandbox_id"]


def text(result: dict) -> str:
    return "\n".join(block["text"] for block in result["content"])


def good(result: dict) -> str:
    assert not result.get("isError"), text(result)
    return text(result)


def bad(result: dict) -> str:
    assert result.get("isError"), text(result)
    return text(result)


def jobs(kind: str = "packages.install") -> list:
    return [one for one in server().get("/api/v1/jobs?limit=100").json()["jobs"] if one["kind"] == kind]


@check
def installed_imported_listed_and_taken_away():
    with client() as c:
        mine = box(c)
        shown = good(c.tool("install_package", packages="pandas==9.1.0 with-extras[fast]", sandbox_id=mine))
        contains(shown, "Installed: ")
        for name in ("pandas 9.1.0", "speedy 1.0", "with-extras 1.0"):
            contains(shown, name)
        ran = good(c.tool("execute_python", code="import pandas, _speedy; print(pandas.VERSION, _speedy.VALUE)",
                          sandbox_id=mine))
        contains(ran, "9.1.0 42")
        contains(good(c.tool("install_package", packages="pandas", sandbox_id=mine)), "Already there: pandas 9.1.0")
        listed = good(c.tool("list_installed_packages", sandbox_id=mine))
        assert listed.startswith("Package"), listed
        for name in ("pandas", "with-extras", "pip"):
            contains(listed, name)
        contains(good(c.tool("uninstall_package", packages="with-extras", sandbox_id=mine)),
                 "Removed: with-extras 1.0")
        assert "\nwith-extras " not in good(c.tool("list_installed_packages", sandbox_id=mine))
        contains(good(c.tool("check_package_installation_status", package_name="with-extras", sandbox_id=mine)),
                 '"state":"not_found"')


@check
def a_requirements_txt_and_the_documents_names():
    with client() as c:
        mine = box(c)
        shown = good(c.tool("install_package", packages="# what we use\ntiny>=2\ntiny-two  # and this\n",
                            sandbox_id=mine))
        contains(shown, "tiny 9.9")
        contains(shown, "tiny-two 1.0")
        contains(good(c.tool("install_package", package_names="foo", sandbox_id=mine)), "foo 1.0")
        contains(good(c.tool("install_package", requirements="requests==2.31.0", sandbox_id=mine)), "requests 2.31.0")
        newer = good(c.tool("install_package", packages="requests", upgrade=True, sandbox_id=mine))
        contains(newer, "requests 2.99.0 (was 2.31.0)")


@check
def what_is_refused_says_why():
    with client() as c:
        mine = box(c)
        contains(bad(c.tool("install_package", packages="os", sandbox_id=mine)),
                 "Package os is blocked for security reasons")
        contains(bad(c.tool("install_package", packages="json", sandbox_id=mine)), "a module of Python itself")
        contains(bad(c.tool("install_package", packages="reqeusts", sandbox_id=mine)), '"requests"')
        contains(good(c.tool("install_package", packages="reqeusts", allow_similar=True, sandbox_id=mine)), "reqeusts")
        for words in ("--index-url=http://127.0.0.1/ x", "x @ http://127.0.0.1/x.whl", "./x", "x;y", ""):
            bad(c.tool("install_package", packages=words, sandbox_id=mine))
        contains(bad(c.tool("install_package", packages="no-index-has-this", sandbox_id=mine)), "no-index-has-this")
        contains(bad(c.tool("install_package", packages="altered", sandbox_id=mine)).lower(), "hash")
        contains(bad(c.tool("install_package", packages="fromsource", sandbox_id=mine)), "fromsource")
        for name in ("install_package", "uninstall_package"):
            bad(c.tool(name, packages="tiny", sandbox_id="nobodys"))
        bad(c.tool("list_installed_packages", sandbox_id="nobodys"))
        contains(good(c.tool("check_package_installation_status", package_name="altered", sandbox_id=mine)),
                 '"state":"failed"')


@check
def progress_has_phases_and_bytes():
    with client() as c:
        mine = box(c)
        good(c.tool("install_package", packages="slow", sandbox_id=mine, token="t"))
        notes = [p for m, p in c.notes if m == "notifications/progress"]
        numbers = [p["progress"] for p in notes]
        equal(numbers, sorted(set(numbers)), "they rise")
        said = [p["message"] for p in notes]
        assert any("resolving" in one for one in said), said
        assert any(" of " in one and "KB" in one for one in said), said


@check
def a_client_that_cancels_ends_its_job():
    with client() as c:
        mine = box(c)
        pending = c.begin("tools/call", {"name": "install_package",
                                         "arguments": {"packages": "slow-cancelled", "sandbox_id": mine}})
        job = eventually(lambda: [one for one in jobs() if one["still_running"]], 30, "a job")[0]["job_id"]
        pending.cancel()
        ended = eventually(lambda: [one for one in jobs() if one["job_id"] == job and not one["still_running"]], 30,
                           "its end")[0]
        equal(ended["cause"], "cancelled")
        assert "slow-cancelled" not in good(c.tool("list_installed_packages", sandbox_id=mine))


@check
def a_job_that_another_call_waits_for_goes_on():
    asked = {"name": "install_package", "arguments": {"packages": "slow-joined"}}
    with client() as one, client() as two:
        asked["arguments"]["sandbox_id"] = box(one)
        first = one.begin("tools/call", asked)
        job = eventually(lambda: [j for j in jobs() if j["still_running"]], 30, "a job")[0]["job_id"]
        second = two.begin("tools/call", asked)
        eventually(lambda: "slow-joined" in good(two.tool(
            "check_package_installation_status", package_name="slow-joined", sandbox_id=asked["arguments"]["sandbox_id"])))
        first.cancel()
        contains(good(second.result()), "slow-joined 1.0")
        equal([(j["job_id"], j["cause"]) for j in jobs() if j["job_id"] == job], [(job, "ok")])


@check
def it_goes_on_as_a_task():
    able = {"extensions": {TASKS: {}}}
    with client(rev=MODERN, capabilities=able) as c:
        created = c.tool("install_package", packages="slow-task", sandbox_id=box(c))
        equal(created["resultType"], "task")
        task = created["taskId"]
        equal(c.call("tasks/get", {"taskId": task})["status"], "working")
        ended = eventually(lambda: (lambda t: t["status"] != "working" and t)(c.call("tasks/get", {"taskId": task})),
                           60, "the end of the task")
        equal(ended["status"], "completed")
        contains(text(ended["result"]), "slow-task 1.0")


@check
def structure_is_there_for_programs():
    with Http(server().port, path="/mcp?structured=1") as c:
        tools = {tool["name"]: tool for tool in c.call("tools/list")["tools"]}
        mine = box(c)
        got = c.tool("install_package", packages="tiny", sandbox_id=mine)
        value = got["structuredContent"]
        equal((value["ok"], value["still_running"], [one["name"] for one in value["installed"]]),
              (True, False, ["tiny"]))
        assert value["job_id"] and "output" not in value, value
        equal(len(value["installed"][0]["sha256"]), 64)
        failed = c.tool("install_package", packages="no-index-has-this", sandbox_id=mine)["structuredContent"]
        equal((failed["ok"], failed["kind"]), (False, "not_found"))
        listed = c.tool("list_installed_packages", sandbox_id=mine)["structuredContent"]
        contains([one["name"] for one in listed["packages"]], "tiny")
        status = c.tool("check_package_installation_status", package="tiny", sandbox_id=mine)["structuredContent"]
        equal((status["state"], status["version"]), ("success", "9.9"))
        for name in ("install_package", "list_installed_packages", "check_package_installation_status"):
            assert tools[name]["outputSchema"]["type"] == "object", name


@check
def over_stdio_too():
    with tempfile.TemporaryDirectory(prefix="krait-test-") as here:
        os.chmod(here, 0o755)
        argv = [os.path.abspath(KRAIT), "mcp", "--no-files", "--preload", "basic", "--data", here + "/data",
                *shelf().args()]
        with Stdio(argv) as c:
            contains(good(c.tool("install_package", packages="tiny")), "tiny 9.9")
            contains(good(c.tool("execute_python", code="import tiny; print(tiny.VERSION)")), "9.9")


main()
