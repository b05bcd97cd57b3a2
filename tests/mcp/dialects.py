#!/usr/bin/python3
"""The documents' dialects over MCP: what each lists, the form of its answers (text, structure, errors), its defaults,
and that its answers are whole whatever a program writes. Rows of the contracts by number are in tests/contracts."""
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
from check import check, contains, equal  # noqa: E402
from krait_server import Server  # noqa: E402
from mcp import LEGACY, MODERN, Http, RpcError  # noqa: E402
from serving import kept, main  # noqa: E402

LISTED = {
    "krait": ["execute_python", "read_run", "stop_run", "execute_terminal_command", "install_package", "list_files",
              "read_file", "upload_file_to_sandbox", "get_sandbox_info", "create_sandbox", "list_sandboxes",
              "reset_sandbox", "delete_sandbox", "validate_code", "list_active_sessions", "terminate_session",
              "list_installed_packages", "check_package_installation_status"],
    "sandbox-mcp": ["execute_python_code", "list_active_sessions", "terminate_session", "create_session_with_files"],
    "python-sandbox": ["execute_code", "validate_code", "get_sandbox_info"],
    "sandbox-service": ["execute_python", "pip_install"],
    "python-executor": ["execute_python", "install_package", "list_installed_packages", "get_sandbox_info",
                        "reset_sandbox"],
    "mcp-sandbox": ["create_sandbox", "list_sandboxes", "execute_python_code", "install_package_in_sandbox",
                    "check_package_installation_status", "execute_terminal_command", "upload_file_to_sandbox",
                    "delete_sandbox"],
}
HUGE = "print('\\x01\"\\\\' * 1_500_000)"  # each byte is up to six as JSON, and that is JSON in JSON


def server() -> Server:
    return kept()


def client(dialect: str, **how) -> Http:
    return Http(server().port, "/mcp?dialect=" + dialect, **how)


def value(result: dict):
    assert not result.get("isError"), result
    return json.loads(result["content"][0]["text"])


def bad(result: dict) -> str:
    assert result.get("isError") is True, result
    return result["content"][0]["text"]


@check
def each_lists_its_documents_tools():
    for dialect, names in LISTED.items():
        with client(dialect) as c:
            tools = c.call("tools/list")["tools"]
            equal([t["name"] for t in tools], names, dialect)
            for tool in tools:
                assert tool["description"] and tool["inputSchema"]["type"] == "object", tool
                for name, prop in tool["inputSchema"].get("properties", {}).items():
                    # ours say nothing where the name says it: every word is read with every list
                    assert prop.get("description") or dialect == "krait", (dialect, tool["name"], name)


@check
def every_documents_tool_is_callable_everywhere():
    for dialect in LISTED:
        with client(dialect) as c:
            equal(value(c.tool("execute_code", code="2 + 2"))["result"], 4, dialect)
            equal(value(c.tool("execute_code_execute_post", code="print(1)"))["stdout"], "1\n", dialect)
            equal(value(c.tool("health_check_health_get")), {"status": "healthy"}, dialect)
            equal(value(c.tool("list_capabilities"))["restricted_python_available"], True, dialect)
            assert "session_id" in value(c.tool("create_session_with_files")), dialect


@check
def the_same_name_means_what_its_dialect_says():
    with client("krait") as c:
        c.tool("execute_python", code="kept = 1")
        contains(c.tool("execute_python", code="kept + 1")["content"][0]["text"], "2")
    with client("sandbox-service") as c:
        c.tool("execute_python", code="kept = 1")
        equal(value(c.tool("execute_python", code="print('kept' in globals())"))["stdout"], "False\n")
    with client("python-executor") as c:
        equal(c.tool("execute_python", code="print('kept' in globals())")["content"][0]["text"], "False\n")


@check
def forms_follow_the_stack_and_the_revision():
    for rev in (*LEGACY[1:], MODERN):
        has = rev >= "2025-06-18"
        with client("sandbox-mcp", rev=rev) as c:
            result = c.tool("execute_python_code", code="print('é')")
            contains(result["content"][0]["text"], '{\n  "output": "é\\n"')
            equal(result.get("structuredContent"), {"result": value(result)} if has else None, rev)
            opened = c.tool("create_session_with_files")
            assert "structuredContent" not in opened, rev
        with client("python-sandbox", rev=rev) as c:
            result = c.tool("execute_code", code="1")
            assert result["content"][0]["text"].startswith('{"success":true,"execution_id":"'), result
            equal(result.get("structuredContent"), value(result) if has else None, rev)
        with client("python-executor", rev=rev) as c:
            result = c.tool("execute_python", code="print(1)")
            equal(result.get("structuredContent"), {"result": "1\n"} if has else None, rev)
        for dialect, name in (("sandbox-service", "execute_python"), ("mcp-sandbox", "list_sandboxes")):
            with client(dialect, rev=rev) as c:
                result = c.tool(name, code="print(1)")
                assert "structuredContent" not in result, (dialect, rev)
                assert "\n  " in result["content"][0]["text"] or result["content"][0]["text"] == "[]", result


@check
def a_program_that_fails_is_no_error_of_the_tool():
    for dialect, name in (("sandbox-mcp", "execute_python_code"), ("python-sandbox", "execute_code"),
                          ("sandbox-service", "execute_python"), ("python-executor", "execute_python")):
        with client(dialect) as c:
            for code in ("1 / 0", "import sys; sys.exit(3)", "def", "import os; os.kill(os.getpid(), 9)"):
                result = c.tool(name, code=code)
                assert not result.get("isError"), (dialect, code, result)
            bad(c.tool(name))  # but no code is
            contains(bad(c.tool(name, code=5)), "code")
            assert not c.tool(name, code="1", unheard_of=True).get("isError"), (
                "their servers ignore what they do not know")


@check
def answers_are_whole_whatever_a_program_writes():
    for dialect, name in (("sandbox-mcp", "execute_python_code"), ("python-sandbox", "execute_code"),
                          ("sandbox-service", "execute_python")):
        with client(dialect) as c:
            for code in (HUGE, "raise ValueError('\\x02' * 3_000_000)", "result = ['x' * 400_000] * 10",
                         "import sys; sys.stdout.buffer.write(bytes(range(256)) * 1000)"):
                result = c.tool(name, code=code)
                assert len(json.dumps(result)) < 8 << 20, (dialect, code)
                assert isinstance(value(result), dict), dialect
    with client("python-executor") as c:
        text = c.tool("execute_python", code=HUGE)["content"][0]["text"]
        assert text.endswith("[output was cut here]\n") and len(text) <= 1 << 20, len(text)


@check
def execute_code_gives_values_not_their_repr():
    with client("python-sandbox") as c:
        for code, expected in (("result = {'a': [1, 2.5, None, True], 'ü': (1,)}",
                                {"a": [1, 2.5, None, True], "ü": [1]}),
                               ("'it\\'s \"q\"\\n\\x00\\u20ac'", "it's \"q\"\n\x00€"),
                               ("{1: 2, None: 3}", {"1": 2, "null": 3}),
                               ("2 ** 70", str(2 ** 70)), ("float('nan')", "nan"), ("{1}", "{1}"),
                               ("object", "<class 'object'>"),
                               ("b'x'", "b'x'"), ("None", None), ("x = 3", None), ("[[]]", [[]]), ("-1e300", -1e300)):
            equal(value(c.tool("execute_code", code=code))["result"], expected, code)


@check
def execute_code_says_what_it_refuses():
    with client("python-sandbox") as c:
        equal("security_warnings" in value(c.tool("execute_code", code="result = 1")), False)
        refused = value(c.tool("execute_code", code="import os"))
        equal((refused["error"], refused["security_event"]), ("Line 1: Import 'os' is not allowed", "blocked_import"))
        contains(value(c.tool("execute_code", code="1", use_container=True))["error"],
                 "Container runtime not available")
        equal(value(c.tool("execute_code", code="1", memory_limit="256m"))["warnings"],
              ["memory_limit is for container mode and was not applied."])
        equal(value(c.tool("execute_code", code="  \n"))["error"], "Empty code provided")
        equal(value(c.tool("execute_code", code="#" * 100_001))["error"], "Code too large (max 100KB)")
        silent = value(c.tool("execute_code", code="print(1)", capture_output=False))
        equal((silent["success"], silent["stdout"]), (True, ""))
        contains(bad(c.tool("execute_code", {"code": "1", "timeout": 301})), "300")
        over = value(c.tool("execute_code", {"code": "while True: pass", "timeout": 1}))
        equal((over["success"], over["error"], over["error_category"]),
              (False, "Execution timed out after 1 seconds", "timeout"))
        syntax = value(c.tool("execute_code", code="def"))
        equal((syntax["error_category"], syntax["error"].split(":")[0]), ("syntax", "SyntaxError"))


@check
def sessions_of_sandbox_mcp():
    with client("sandbox-mcp") as c:
        first = value(c.tool("execute_python_code", code="x = 41"))
        again = value(c.tool("execute_python_code", code="x + 1", session_id=first["session_id"]))
        equal((again["output"], again["session_id"]), ("42", first["session_id"]))
        other = value(c.tool("execute_python_code", code="x"))
        equal((other["error"], other["traceback"][0]), ("NameError", "Traceback (most recent call last):"))
        listed = value(c.tool("list_active_sessions"))
        equal(listed["sessions"][first["session_id"]]["execution_count"], 2)
        equal((listed["total"], listed["sessions"][first["session_id"]]["status"]), (len(listed["sessions"]), "active"))
        equal(value(c.tool("terminate_session", session_id=first["session_id"]))["status"], "success")
        equal(value(c.tool("terminate_session", session_id=first["session_id"]))["status"], "warning")
        opened = value(c.tool("create_session_with_files", session_id="with-files",
                              file_urls=["http://127.0.0.1:1/a.csv"]))
        equal((opened["session_id"], opened["status"], opened["downloaded_files"], len(opened["errors"])),
              ("with-files", "success", [], 1))
        contains(opened["errors"][0], "http://127.0.0.1:1/a.csv")
        assert "with-files" in value(c.tool("list_active_sessions"))["sessions"]


@check
def figures_of_sandbox_mcp():
    with client("sandbox-mcp") as c:
        box = json.loads(Http.tool(c, "create_sandbox")["content"][0]["text"])
        assert box["sandbox_id"]
        drawn = value(c.tool("execute_python_code", code="from PIL import Image\nImage.new('RGB', (3, 3))"))
        if "error" in drawn:  # no Pillow on this machine: a bundle of one's own does
            drawn = value(c.tool("execute_python_code",
                                 code="class P:\n    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n'\nP()"))
        equal([(i["type"], i["format"], i["data"][:11]) for i in drawn["images"]], [("image", "png", "iVBORw0KGgo")])


@check
def unknown_tools_are_unknown():
    for dialect in LISTED:
        with client(dialect) as c:
            try:
                c.tool("no_such_tool")
            except RpcError as e:
                equal(e.code, -32602, dialect)
            else:
                raise AssertionError("answered")


main()
