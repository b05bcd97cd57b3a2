#!/usr/bin/python3
"""Policies as settings: of the server, of a sandbox, of a run, and what the cell enforces of them. What the judge and
the guards refuse is in tests/policy."""
from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests/lib")]
from check import check, contains, equal  # noqa: E402
from krait_server import Server  # noqa: E402
from mcp import Http  # noqa: E402
from serving import Stream, kept, main  # noqa: E402
from two_values import BOXES, RUNS, plain, setting, start  # noqa: E402

WRITE = "open('/workspace/a', 'w').write('x')"


def restricted() -> Server:
    return kept(args=["--policy", "restricted"])


def rich() -> Server:
    """All profiles."""
    return kept(args=["--policy", "restricted", "--policy-data-science", "--policy-filesystem", "--network", "loopback"])


def box(s: Server, **settings: Any) -> dict:
    """A new sandbox."""
    reply = s.post(BOXES, settings)
    equal(reply.status, 201, reply.text)
    return reply.json()


def told(s: Server) -> dict:
    """What the default sandbox has."""
    reply = s.get(BOXES + "/default").json()
    return {name: reply[name] for name in ("policy", "profiles", "allowed_imports", "network")}


def refused(s: Server, path: str, body: dict, status: int, *words: str) -> None:
    reply = s.post(path, body)
    equal(reply.status, status, reply.text)
    for word in words:
        contains(reply.json()["error"]["message"], word)


def cannot_write(outcome: dict) -> None:
    """The judge refuses it, or the kernel does."""
    equal(outcome["cause"] in ("denied", "exception"), True, str(outcome))


# ---- of the server ---------------------------------------------------------------------------------------------------


@check
def mode():
    equal(told(plain()), {"policy": "open", "profiles": [], "allowed_imports": [], "network": "none"})
    has = told(restricted())
    equal((has["policy"], has["profiles"]), ("restricted", ["basic"]))
    equal({"math", "xml.etree", "urllib.parse", "dataclasses"} - set(has["allowed_imports"]), set())
    equal({"os", "numpy", "httpx"} & set(has["allowed_imports"]), set())
    equal(plain().run(WRITE, fresh=True)["cause"], "ok")
    cannot_write(restricted().run(WRITE, fresh=True))


@check
def data_science():
    equal("numpy" in told(rich())["allowed_imports"], True)
    equal("numpy" in told(restricted())["allowed_imports"], False)


@check
def network():
    equal(told(rich())["network"], "loopback")
    equal("network" in told(rich())["profiles"], True)
    with Server(args=["--policy", "restricted", "--network", "loopback", "--policy-network=false"]) as s:
        has = told(s)
        equal((has["profiles"], has["network"]), (["basic"], "none"), "whatever the sandbox has")
        refused(s, RUNS, {"code": "1", "network": "loopback", "stream": False}, 400, "network")


@check
def filesystem():
    equal("tempfile" in told(rich())["allowed_imports"], True)
    equal(rich().run(WRITE, fresh=True)["cause"], "ok")
    equal(rich().run(WRITE, session_id="files")["cause"], "ok")
    cannot_write(restricted().run(WRITE, session_id="files"))


@check
def allowed_imports():
    with Server(args=["--allowed-imports", "math,os.path"]) as s:
        has = told(s)
        equal((has["policy"], has["allowed_imports"]), ("restricted", ["math", "os.path"]))
    with Server(env={"SANDBOX_ALLOWED_IMPORTS": "json"}) as s:
        equal(told(s)["allowed_imports"], ["json"])


@check
def what_cannot_be_kept_is_refused_at_the_start():
    for args, env, word in (
        (("--allowed-imports", "math", "--policy", "open"), {}, "needs the policy restricted"),
        (("--allowed-imports", "7z"), {}, "is not the name of a module"),
        ((), {"SANDBOX_ENABLE_FILESYSTEM": "false"}, "SANDBOX_ENABLE_FILESYSTEM (environment)"),
        (("--policy", "closed"), {}, "open, restricted"),
    ):
        done = start(*args, env=env)
        equal(done.returncode, 2, done.stderr.decode())
        contains(done.stderr.decode(), word)


@check
def a_document_without_a_listener_is_no_way_out():
    with Server(args=["--dialect", "python-sandbox"]) as s:
        equal(told(s)["policy"], "restricted")
        with Http(s.port, "/mcp?dialect=krait") as c:
            text = c.tool("execute_python", {"code": WRITE, "fresh": True})
            equal(text["isError"], True, text)


@check
def the_documents_variables_count_in_stdio_mode():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, ".env").write_text("SANDBOX_ALLOWED_IMPORTS=math\nDATABASE_URL=postgres://x\nPORT=1\n")
        done = start("--dialect", "python-sandbox", command="mcp", cwd=folder, env={"SANDBOX_ENABLE_CONTAINER_MODE": "true"})
        equal(done.returncode, 2, done.stderr.decode())
        contains(done.stderr.decode(), "SANDBOX_ENABLE_CONTAINER_MODE")
        Path(folder, ".env").write_text("SANDBOX_ALLOWED_IMPORT=math\n")
        done = start("--dialect", "python-sandbox", command="mcp", cwd=folder)
        equal(done.returncode, 2, done.stderr.decode())
        contains(done.stderr.decode(), "SANDBOX_ALLOWED_IMPORT'")
    equal(setting("policy", "mode", "--dialect", "python-sandbox"), '"restricted"')


# ---- of a sandbox ----------------------------------------------------------------------------------------------------


@check
def a_sandbox_narrows_what_the_server_has():
    s = plain()
    made = box(s, policy="restricted", profiles=["data_science"], network="loopback")
    equal((made["policy"], made["profiles"], made["network"]), ("restricted", ["basic", "data_science"], "none"))
    cannot_write(s.run(WRITE, sandbox_id=made["id"], fresh=True))
    listed = box(s, allowed_imports=["math", "json"])
    equal((listed["policy"], listed["allowed_imports"]), ("restricted", ["math", "json"]))
    refused(s, BOXES, {"policy": "open", "profiles": ["network"]}, 400, "profiles: needs the policy restricted")
    refused(s, BOXES, {"profiles": ["disk"]}, 400, 'profiles: "disk" is not one of')
    refused(s, BOXES, {"allowed_imports": ["a b"]}, 400, "allowed_imports")


@check
def a_sandbox_cannot_widen_it():
    refused(restricted(), BOXES, {"policy": "open"}, 400, "policy: open is more than the server allows")
    refused(restricted(), BOXES, {"profiles": ["filesystem"]}, 400, "profiles: filesystem is more than the server")
    refused(restricted(), BOXES, {"allowed_imports": ["os"]}, 400, "allowed_imports: os is more than the server allows")
    equal(box(restricted(), allowed_imports=["math"])["allowed_imports"], ["math"])


@check
def a_session_that_is_there_follows_its_sandbox():
    s = plain()
    made = box(s)
    equal(s.run("x = 1\n" + WRITE, sandbox_id=made["id"])["cause"], "ok")
    equal(s.patch(f"{BOXES}/{made['id']}", {"policy": "restricted"}).status, 200)
    outcome = s.run(WRITE, sandbox_id=made["id"])
    cannot_write(outcome)
    equal(outcome["session_restarted"], True)
    equal(s.patch(f"{BOXES}/{made['id']}", {"policy": None}).status, 200)
    equal(s.run(WRITE, sandbox_id=made["id"])["cause"], "ok")


@check
def terminals_and_shells_are_not_for_restricted():
    s = plain()
    made = box(s, policy="restricted")
    reply = s.post("/api/v1/terminals", {"sandbox_id": made["id"]})
    equal((reply.status, reply.json()["error"]["kind"]), (403, "denied"), reply.text)
    with Http(s.port) as c:
        said = c.tool("execute_terminal_command", {"command": "id", "sandbox_id": made["id"]})
        equal(said["isError"], True)
        contains(said["content"][0]["text"], "shell commands are not allowed")


@check
def the_cell_keeps_what_the_judge_allows():
    s = plain()
    made = box(s, network="loopback")
    for code, module, profile in (("import os\nos.mkdir('/workspace/d')\nos.rmdir('/workspace/d')", "os", "filesystem"),
                                  ("import socket\nsocket.socket().close()", "socket", "network")):
        asked = {"fresh": True, "sandbox_id": made["id"], "allowed_imports": [module]}
        outcome = s.run(code, profiles=["basic"], **asked)
        equal(outcome["cause"], "exception", str(outcome))
        contains(outcome["error"]["type"], "Error")
        equal(s.run(code, profiles=[profile], **asked)["cause"], "ok")


# ---- of a run --------------------------------------------------------------------------------------------------------


@check
def a_run_narrows_what_its_sandbox_has():
    s = plain()
    cannot_write(s.run(WRITE, fresh=True, policy="restricted"))
    equal(s.run(WRITE, fresh=True, policy="restricted", profiles=["filesystem"])["cause"], "ok")
    cannot_write(s.run(WRITE, fresh=True, allowed_imports=["math"]))
    refused(s, RUNS, {"code": "1", "policy": "open", "allowed_imports": ["math"]}, 400, "allowed_imports: needs")
    refused(s, RUNS, {"code": "1", "policy": "shut"}, 400, "policy")
    refused(s, RUNS, {"code": "1", "fresh": True, "policy": "restricted", "network": "loopback"}, 400, "network")
    refused(restricted(), RUNS, {"code": "1", "fresh": True, "policy": "open"}, 400, "policy: open is more than the sandbox")
    refused(restricted(), RUNS, {"code": "1", "allowed_imports": ["os"]}, 400, "allowed_imports: os is more")


@check
def a_session_keeps_the_rights_that_it_was_opened_with():
    s = plain()
    equal(s.run("x = 2", session_id="mine", policy="restricted")["cause"], "ok")
    cannot_write(s.run(WRITE, session_id="mine"))
    equal(s.run("x", session_id="mine", allowed_imports=["math"])["result"], "2")
    equal(s.run("y = 3", session_id="open")["cause"], "ok")
    refused(s, RUNS, {"code": "1", "session_id": "open", "policy": "restricted"}, 409, "session open is there already")
    refused(s, RUNS, {"code": "1", "session_id": "mine", "profiles": ["filesystem"]}, 400, "profiles: filesystem is more")


@check
def a_run_that_waits_under_another_policy_is_told():
    s = plain()
    made = box(s)
    with Stream(s, "POST", RUNS, {"code": "print(1, flush=True)\ninput()", "sandbox_id": made["id"], "interactive": True}) as first:
        started = first.until("stdout")
        equal(s.patch(f"{BOXES}/{made['id']}", {"policy": "restricted"}).status, 200)
        with Stream(s, "POST", RUNS, {"code": WRITE, "sandbox_id": made["id"]}) as second:
            second.until("queued")
            s.post(f"{RUNS}/{started[-2]['run_id']}/cancel", {})
            end = second.until("end")[-1]
    equal(end["cause"], "denied", end)
    contains(end["message"], "policy")


# ---- judging without running -----------------------------------------------------------------------------------------


def validated(s: Server, code: str, **asked: Any) -> dict:
    reply = s.post("/api/v1/validate", {"code": code, **asked})
    equal(reply.status, 200, reply.text)
    return reply.json()


@check
def code_is_judged_and_not_run():
    s = plain()
    made = box(s, policy="restricted", allowed_imports=["math"])
    code = "import os\nimport math\neval('1')"
    found = validated(s, code, sandbox_id=made["id"])
    equal((found["valid"], [one["line"] for one in found["findings"]]), (False, [1, 3]))
    equal(found["findings"][0]["text"], "Import 'os' is not allowed")
    equal((found["analysis"]["line_count"], found["analysis"]["character_count"]), (3, len(code)))
    equal(validated(s, "while True:\n    pass\nraise SystemExit")["valid"], True, "it would not end")
    equal(validated(s, "import math", sandbox_id=made["id"])["valid"], True)


@check
def a_policy_to_judge_by_can_be_given():
    s = plain()
    equal(validated(s, "import os")["valid"], True, "an open policy finds syntax errors alone")
    equal(validated(s, "import (")["findings"][0]["id"], "P100")
    equal(validated(s, "import os", policy="restricted")["valid"], False)
    equal(validated(s, "import tempfile", policy="restricted", profiles=["filesystem"])["valid"], True)
    equal(validated(s, "import math", allowed_imports=["json"])["valid"], False)
    refused(s, "/api/v1/validate", {"code": "1", "policy": "shut"}, 400, "policy")
    refused(s, "/api/v1/validate", {"code": "a\0b"}, 400, "code")
    refused(restricted(), "/api/v1/validate", {"code": "1", "policy": "open"}, 400, "policy: open is more than")


@check
def what_cannot_be_judged_is_not_valid():
    s = plain()
    for code in ("(" * 100000, "x = [" + "[" * 5000, "a" * 3_000_000 + " = 1"):
        found = validated(s, code, policy="restricted")
        equal((found["valid"], len(found["findings"])), (False, 1), code[:20])
        equal(found["findings"][0]["id"] in ("P100", "P108"), True, str(found["findings"]))


@check
def a_model_reads_a_line_for_each_finding():
    s = plain()
    with Http(s.port) as c:
        said = c.text("validate_code", {"code": "import os\nimport sys", "policy": "restricted"})
        contains(said, "not valid\nLine 1, column 8: Import 'os' is not allowed [P101: ")
        contains(said, "Line 2, column 8: Import 'sys' is not allowed")
        contains(said, "[2 lines, 20 characters, complexity low]")
        contains(c.text("validate_code", {"code": "import os"}), "valid\n[1 lines")
    with Http(s.port, "/mcp?structured=1") as c:
        equal(c.tool("validate_code", {"code": "1"})["structuredContent"]["valid"], True)


main()
