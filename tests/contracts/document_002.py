#!/usr/bin/python3
"""Document 002 (sandbox-service: Sandbox Service, port 8001): what its clients rely on, a check a row of its contract.

Rows about packages and MCP (03, 04, 07 to 09, 12, 13, 17) have their own suites.
"""
import os
import re
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/lib"))
from check import check, contains, equal  # noqa: E402
from krait_server import Reply, Server  # noqa: E402
from serving import Meanwhile, eventually, kept, main  # noqa: E402

JSON = {"Content-Type": "application/json"}
FIELDS = {"stdout", "stderr", "exit_code", "execution_time", "success"}
FOUR = ("sandbox_executions_total", "sandbox_execution_duration_seconds", "sandbox_package_installs_total",
        "sandbox_errors_total")


def server() -> Server:
    return kept(args=["--dialect", "sandbox-service"])


def execute(s: Server, body) -> Reply:
    return s.post("/execute", body, headers=JSON)


def outcome(reply: Reply) -> dict:
    """The five fields, all there, and of their types."""
    equal(reply.status, 200, reply.text[:300])
    found = reply.json()
    equal(set(found), FIELDS)
    equal([type(found[name]) for name in ("stdout", "stderr", "exit_code", "success")], [str, str, int, bool])
    assert isinstance(found["execution_time"], (int, float)) and found["execution_time"] >= 0, found
    equal(found["success"], found["exit_code"] == 0)
    return found


def figures(s: Server) -> dict:
    """Every sample of /metrics by its name with labels."""
    reply = s.get("/metrics")
    equal((reply.status, reply.header("content-type").split(";")[0]), (200, "text/plain"))
    found = {}
    for line in reply.text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


def total(samples: dict, name: str) -> float:
    """Of all labels; of a histogram, its count."""
    whole = re.compile(r"%s(_count)?(\{.*\})?$" % name)
    return sum(value for sample, value in samples.items() if whole.match(sample))


@check
def row_002_01_execute_gives_five_fields():
    found = outcome(execute(server(), rb"""{
    "code": "print('Hello, World!')\nresult = 2 + 2\nprint(f'2 + 2 = {result}')",
    "timeout": 10
  }"""))
    equal((found["stdout"], found["stderr"], found["exit_code"], found["success"]),
          ("Hello, World!\n2 + 2 = 4\n", "", 0, True))


@check
def row_002_02_output_is_utf_8():
    reply = execute(server(), '''{
    "code": "import math\\nprint(f\\"\u03c0 = {math.pi}\\")",
    "timeout": 10
  }'''.encode())
    equal(outcome(reply)["stdout"], "\u03c0 = 3.141592653589793\n")
    contains(reply.body, "\u03c0 = 3.141592653589793\\n".encode())


@check
def row_002_05_health():
    reply = server().get("/health")
    equal((reply.status, reply.json()["status"]), (200, "healthy"))


@check
def row_002_06_the_smoke_test_of_the_document():
    found = outcome(execute(server(), rb"""{"code": "print(\"Hello from sandbox!\")"}"""))
    equal((found["stdout"], found["success"]), ("Hello from sandbox!\n", True))


@check
def row_002_10_timeouts():
    s = server()
    equal(outcome(execute(s, {"code": "print(1)", "timeout": 60}))["stdout"], "1\n")
    equal(outcome(execute(s, {"code": "print(1)", "timeout": 120}))["stdout"], "1\n")
    for timeout in (121, 0, -1, "soon"):
        reply = execute(s, {"code": "print(1)", "timeout": timeout})
        equal((reply.status, reply.json()["detail"][0]["loc"]), (422, ["body", "timeout"]), timeout)
    began = time.monotonic()
    found = outcome(execute(s, {"code": "print('before', flush=True)\nwhile True: pass", "timeout": 1}))
    took = time.monotonic() - began
    assert 0.9 < took < 15, "after %.1f s" % took
    equal((found["success"], found["stdout"]), (False, "before\n"))
    assert found["exit_code"] != 0, found
    assert 0.9 < found["execution_time"] <= took, found
    contains(found["stderr"], "1 s", "the reason is told")
    line = eventually(lambda: [one for one in s.log_text().splitlines() if 'msg="run timed out"' in one])[0]
    contains(line, "level=error")
    seconds = re.search(r" seconds=(\d+\.\d\d)( |$)", line)
    assert seconds and 0.9 < float(seconds.group(1)) <= took + 0.01, line


@check
def row_002_10_nothing_else_waits_for_a_loop():
    s = server()
    slow = Meanwhile(execute, s, {"code": "while True: pass", "timeout": 12})
    eventually(lambda: figures(s).get("krait_runs_active"))
    equal(outcome(execute(s, {"code": "print(1)"}))["stdout"], "1\n")
    assert not slow.is_over, "it waited"
    equal(slow.end().json()["success"], False)


@check
def row_002_11_output_is_cut_at_10000_characters():
    s = server()
    for letter in ("x", "\u03c0", "\U0001f40d"):
        found = outcome(execute(s, {"code": "print(%r * 20000)" % letter}))
        equal(found["stdout"][:10000], letter * 10000)
        mark = found["stdout"][10000:]
        assert mark.strip() and len(mark) < 100 and letter not in mark.replace("max", ""), mark
        equal(found["success"], True)
    found = outcome(execute(s, {"code": "import sys; sys.stderr.write('e' * 20000)"}))
    assert found["stderr"].startswith("e" * 10000) and 10000 < len(found["stderr"]) < 10100, len(found["stderr"])
    found = outcome(execute(s, {"code": "print('y' * 9999)"}))
    equal(found["stdout"], "y" * 9999 + "\n", "what fits is whole")


@check
def row_002_14_four_metrics_move():
    s = server()
    before = figures(s)
    execute(s, {"code": "1"})
    execute(s, {"code": "1/0"})
    assert s.post("/pip_install", b'{"package": "os", "version": "latest"}').status == 400  # on the block list
    after = figures(s)
    text = s.get("/metrics").text
    for name, kind in zip(FOUR, ("counter", "histogram", "counter", "counter")):
        contains(text, "# TYPE %s %s\n" % (name, kind))
        contains(text, "# HELP %s " % name)
        assert total(after, name) > total(before, name), "%s stays at %s" % (name, total(before, name))
    equal(total(after, FOUR[0]) - total(before, FOUR[0]), 2)
    equal(total(after, FOUR[1]) - total(before, FOUR[1]), 2)
    equal(after['sandbox_errors_total{type="exception"}'] - before['sandbox_errors_total{type="exception"}'], 1)


@check
def row_002_15_docs_is_a_page_of_the_routes():
    s = server()
    page = s.get("/docs")
    equal((page.status, page.header("content-type").split(";")[0]), (200, "text/html"))
    contains(page.text.lower(), "<html")
    contains(page.text, "openapi.json", "what the page shows")
    paths = s.get("/openapi.json").json()["paths"]
    for method, path in (("post", "/execute"), ("post", "/pip_install"), ("get", "/health"), ("get", "/metrics")):
        contains(paths[path], method, path)


@check
def row_002_16_debug_lines_and_at_most_100_characters_of_code():
    code = "# " + "\u03c0" * 98 + "THE-101ST-AND-WHAT-FOLLOWS" + "z" * 200
    promised = server()
    outcome(execute(promised, {"code": "print('at info')"}))
    contains(eventually(lambda: [one for one in promised.log_text().splitlines() if "at info" in one])[0], "level=info")
    with Server(args=["--dialect", "sandbox-service"], env={"LOG_LEVEL": "DEBUG"}) as s:
        outcome(execute(s, {"code": code}))
        outcome(execute(s, {"code": "print('short')"}))
        log = eventually(lambda: s.log_text() if s.log_text().count('msg="run ended"') == 2 else "")
    contains(log, "level=debug")
    starts = [line for line in log.splitlines() if 'msg="run started"' in line]
    equal(len(starts), 2, log[-2000:])
    contains(starts[0], code[:100])
    assert "THE-101ST" not in log and "zzz" not in log, starts[0]
    contains(starts[1], "print('short')")
    ends = [line for line in log.splitlines() if 'msg="run ended"' in line]
    for line in ends:
        assert re.search(r" seconds=\d+\.\d\d( |$)", line), line


main()
