#!/usr/bin/python3
"""Document 000 (sandbox-mcp: Python Sandbox MCP Server, port 16010): what its clients rely on, a check a row of its
contract.

Rows that only a container or MCP can answer (16, the MCP half of 18) have their own suites.
"""
import base64
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/lib"))
from check import check, contains, equal  # noqa: E402
from krait_server import Reply, Server  # noqa: E402
from serving import Meanwhile, Stream, eventually, kept, main  # noqa: E402

# The document's own example, as printed: the shell would have to be given its quotes differently to send this.
EXAMPLE = rb"""{
    "code": "print('Hello, World!')\nimport matplotlib.pyplot as plt\nplt.plot([1,2,3], [1,4,9])\nplt.show()",
    "session_id": "my-session"
  }"""
# … and as a person types it.
TYPED = r"""curl -X POST "http://localhost:16010/api/v1/execute" \
  -H "Content-Type: application/json" \
  -d '{
    "code": "print('Hello, World!')\nimport matplotlib.pyplot as plt\nplt.plot([1,2,3], [1,4,9])\nplt.show()",
    "session_id": "my-session"
  }'
"""
HELLO = rb"""{"code": "print('Hello, World!')"}"""
JSON = {"Content-Type": "application/json"}
PREFIXES = ("/api/v1", "/ai/sandbox/v1/api")


def server() -> Server:
    """As the document starts it: its dialect, no key. numpy and matplotlib are there, as they are in its image."""
    return kept(args=["--dialect", "sandbox-mcp"], preload="data")


def execute(s: Server, code: str, **more) -> Reply:
    key = more.pop("key", None)
    return s.post("/api/v1/execute", {"code": code, **more}, key=key)


def texts(lines: list) -> str:
    return "".join(line["text"] for line in lines if "text" in line)


def must_be_png(text: str) -> None:
    data = base64.b64decode(text, validate=True)
    equal(data[:8], b"\x89PNG\r\n\x1a\n")
    at, kinds, pixels = 8, [], b""
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8:at + 8 + length]
        equal(zlib.crc32(kind + body), struct.unpack_from(">I", data, at + 8 + length)[0], "the checksum of a chunk")
        pixels += body if kind == b"IDAT" else b""
        kinds.append(kind)
        at += 12 + length
    equal((kinds[0], kinds[-1], at), (b"IHDR", b"IEND", len(data)))
    assert zlib.decompress(pixels), "no pixels"


@check
def row_000_01_execute_streams_text_and_figure():
    reply = server().post("/api/v1/execute", EXAMPLE, headers=JSON)
    equal(reply.status, 200, reply.text[:300])
    equal(reply.header("content-type").split(";")[0], "application/x-ndjson")
    lines = reply.lines()
    equal(lines[0], {"text": "Hello, World!\n"})
    equal(len(lines), 2, "lines")
    equal((set(lines[1]), lines[1]["format"]), ({"image", "format"}, "png"))
    assert lines[1]["image"].startswith("iVBORw0KGgo"), lines[1]["image"][:20]
    must_be_png(lines[1]["image"])


@check
def row_000_02_the_example_typed_literally_is_422():
    catch = 'curl() { while [ $# -gt 0 ]; do if [ "$1" = -d ]; then printf %s "$2"; return; fi; shift; done; }\n'
    sent = subprocess.run(["sh", "-c", catch + TYPED], stdout=subprocess.PIPE, check=True, timeout=10).stdout
    contains(sent, b'"code": "print(Hello,')
    assert b"World" not in sent, sent
    s = server()
    reply = s.post("/api/v1/execute", sent, headers=JSON)
    equal(reply.status, 422, reply.text)
    flaw = reply.json()["detail"][0]
    equal((flaw["type"], flaw["loc"][0]), ("json_invalid", "body"))
    equal(s.get("/api/v1/health").status, 200)
    equal(execute(s, "1 + 1").lines(), [{"text": "2"}])


@check
def row_000_03_bearer_key():
    s = kept(args=["--dialect", "sandbox-mcp"], env={"API_KEY": "k"})

    def with_key(key: str) -> Reply:
        return s.post("/api/v1/execute", HELLO, headers=JSON, key=key)

    equal(with_key("k").lines(), [{"text": "Hello, World!\n"}])
    wrong = with_key("wrong")
    equal((wrong.status, wrong.detail()), (401, "Invalid API key"))
    none = with_key("")
    equal((none.status, none.detail()), (401, "API key required"))
    basic = s.post("/api/v1/execute", HELLO, headers={**JSON, "Authorization": "Basic azo="}, key="")
    equal((basic.status, basic.detail()), (401, "API key required"))


@check
def row_000_04_sessions_lists_it():
    s = Server(args=["--dialect", "sandbox-mcp"], preload="data")
    with s:
        s.post("/api/v1/execute", EXAMPLE, headers=JSON)
        reply = s.get("/api/v1/sessions")
        equal(reply.status, 200)
        listed = reply.json()
        assert listed["total"] >= 1, listed
        session = listed["sessions"]["my-session"]
        equal((session["execution_count"], session["is_busy"]), (1, False))
        now = time.time()
        assert now - 60 < session["created_at"] <= session["last_activity"] <= now, session


@check
def row_000_05_health_needs_no_key():
    for s in (server(), kept(args=["--dialect", "sandbox-mcp"], env={"API_KEY": "k"})):
        reply = s.get("/api/v1/health", key="")
        equal(reply.status, 200)
        health = reply.json()
        equal(health["status"], "healthy")
        assert isinstance(health["version"], str) and health["version"], health
        assert isinstance(health["active_sessions"], int) and health["uptime"] > 0, health
    before = s.get("/api/v1/health").json()["active_sessions"]
    execute(s, "1", session_id="one more", key="k")
    equal(s.get("/api/v1/health").json()["active_sessions"], before + 1)


@check
def row_000_06_an_exception_is_one_error_line():
    reply = execute(server(), "undefined_var")
    equal(reply.status, 200)
    (line,) = reply.lines()
    equal(line["error"], "NameError: name 'undefined_var' is not defined")
    equal(line["traceback"][0], "Traceback (most recent call last):")
    assert all(isinstance(one, str) and "\x1b" not in one for one in line["traceback"]), line


@check
def row_000_07_text_figure_text_in_order():
    lines = execute(server(), """
print("Hello from sandbox!")
for i in range(5):
    print(f"Count: {i}")
import numpy as np
import matplotlib.pyplot as plt
x = np.linspace(0, 10, 100)
plt.figure(figsize=(8, 6))
plt.plot(x, np.sin(x))
plt.title("Sine")
plt.xlabel("x")
plt.ylabel("sin(x)")
plt.grid(True)
plt.show()
print("Plot generated!")
""").lines()
    images = [n for n, line in enumerate(lines) if "image" in line]
    equal(len(images), 1, "images")
    must_be_png(lines[images[0]]["image"])
    equal(texts(lines[:images[0]]), "Hello from sandbox!\n" + "".join("Count: %d\n" % i for i in range(5)))
    equal(texts(lines[images[0]:]), "Plot generated!\n")
    assert not any("error" in line for line in lines), lines


@check
def row_000_08_what_follows_an_exception_does_not_run():
    lines = execute(server(), 'print("This will work")\nundefined_variable\nprint("This will not")').lines()
    equal([set(line) for line in lines], [{"text"}, {"error", "traceback"}])
    equal(lines[0]["text"], "This will work\n")
    equal(lines[1]["error"], "NameError: name 'undefined_variable' is not defined")


@check
def row_000_09_variables_belong_to_a_session():
    s = server()
    equal(execute(s, "x = 41", session_id="a").lines(), [])
    equal(execute(s, "x + 1", session_id="a").lines(), [{"text": "42"}])
    equal(execute(s, "x", session_id="b").lines()[0]["error"], "NameError: name 'x' is not defined")


@check
def row_000_10_idle_sessions_go_busy_ones_stay():
    with Server(args=["--dialect", "sandbox-mcp"], env={"KERNEL_TIMEOUT": "2", "KERNEL_CLEANUP_INTERVAL": "1"}) as s:
        busy = Meanwhile(execute, s, "import time; time.sleep(15); print('done')", session_id="busy")
        eventually(lambda: s.get("/api/v1/sessions").json()["sessions"].get("busy", {}).get("is_busy"))
        began = time.monotonic()
        execute(s, "1", session_id="idle")
        contains(s.get("/api/v1/sessions").json()["sessions"], "idle")
        eventually(lambda: "idle" not in s.get("/api/v1/sessions").json()["sessions"], 10, "the idle session is gone")
        assert time.monotonic() - began > 1.5, "it went before its time"
        contains(s.get("/api/v1/sessions").json()["sessions"], "busy")
        equal(busy.end().lines(), [{"text": "done\n"}])
        eventually(lambda: "busy" not in s.get("/api/v1/sessions").json()["sessions"], 20,
                   "the other one is gone as well")


@check
def row_000_11_at_the_limit_the_oldest_idle_session_makes_room():
    with Server(args=["--dialect", "sandbox-mcp", "--queue-wait", "1s"], env={"MAX_KERNELS": "2"}) as s:
        def names() -> set:
            return set(s.get("/api/v1/sessions").json()["sessions"])

        for name in ("one", "two", "three"):
            equal(execute(s, "1", session_id=name).status, 200)
        equal(names(), {"two", "three"})
        execute(s, "1", session_id="two")
        equal(execute(s, "1", session_id="four").status, 200)
        equal(names(), {"two", "four"}, "the one that was used longest ago went")
        busy = [Meanwhile(execute, s, "import time; time.sleep(12); print('mine')", session_id=name)
                for name in ("two", "four")]
        eventually(lambda: all(one["is_busy"] for one in s.get("/api/v1/sessions").json()["sessions"].values()))
        began = time.monotonic()
        refused = execute(s, "1", session_id="five")
        contains((429, 503), refused.status)
        assert time.monotonic() - began < 10, "refused only after %.1f s" % (time.monotonic() - began)
        assert int(refused.header("retry-after")) >= 1, refused.headers
        assert isinstance(refused.detail(), str), refused.text
        equal(names(), {"two", "four"})
        equal(s.get("/api/v1/health").json()["active_sessions"], 2)
        for one in busy:
            equal(one.end().lines(), [{"text": "mine\n"}])


@check
def row_000_12_a_timeout_is_told_and_keeps_the_variables():
    s = kept(args=["--dialect", "sandbox-mcp"], env={"MAX_EXECUTION_TIME": "1"})
    execute(s, "kept = 'still here'", session_id="t")
    began = time.monotonic()
    lines = execute(s, "while True: pass", session_id="t").lines()
    took = time.monotonic() - began
    assert 0.9 < took < 15, "after %.1f s" % took
    equal(len(lines), 1, lines)
    contains(lines[0]["error"].lower(), "time")
    assert lines[0]["error"].startswith("TimeoutError"), lines[0]["error"]
    assert isinstance(lines[0]["traceback"], list), lines
    equal(execute(s, "print(kept)", session_id="t").lines(), [{"text": "still here\n"}])
    told = s.post("/api/v1/execute_sync", {"code": "while True: pass"}).json()["data"]["errors"]
    assert len(told) == 1 and told[0]["error"].startswith("TimeoutError"), told


@check
def row_000_13_memory_is_bounded():
    s = kept(args=["--dialect", "sandbox-mcp"], env={"MAX_MEMORY_MB": "128"})
    execute(s, "mine = 1", session_id="other")
    codes = ["x = bytearray(1 << 30)", "x = []\nwhile True: x.append(bytearray(1 << 20))"]
    if os.geteuid() == 0:  # shared memory is bounded by a control group alone, which an ordinary user may not have
        codes.append("import mmap\nm = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): m[i] = 1")
    for code in codes:
        lines = execute(s, code, session_id="greedy").lines()
        equal([set(line) for line in lines], [{"error", "traceback"}], code)
        assert "MemoryError" in lines[0]["error"] or "kernel died" in lines[0]["error"], lines
    equal(s.get("/api/v1/health").json()["status"], "healthy")
    equal(execute(s, "mine", session_id="other").lines(), [{"text": "1"}])
    equal(execute(s, "2 + 2", session_id="greedy").lines(), [{"text": "4"}])


@check
def row_000_14_lines_come_while_the_code_runs():
    began = time.monotonic()
    with Stream(server(), "POST", "/api/v1/execute",
                {"code": "import time\nfor i in range(3):\n    print(i)\n    time.sleep(3)"}) as stream:
        times = []
        for i in range(3):
            equal(stream.line(), {"text": "%d\n" % i})
            times.append(time.monotonic() - began)
        equal(stream.line(), None)
        times.append(time.monotonic() - began)
    # Each came before the next was printed: collected until the end they would come together.
    assert times[3] > 8.9 and all(b - a > 1 for a, b in zip(times, times[1:])), times


@check
def row_000_15_the_example_environment_starts():
    with tempfile.TemporaryDirectory(prefix="krait-test-") as here:
        shutil.copy(os.path.join(ROOT, ".env.example"), os.path.join(here, ".env"))
        with Server(cwd=here, usual=["--port", "0"]) as s:
            equal(s.get("/health").json()["status"], "healthy")
            assert not [line for line in s.log_text().splitlines() if "level=error" in line], s.log_text()
        # … and so does what the document's own .env.example sets, which stops the original.
        with open(os.path.join(here, ".env"), "w") as f:
            f.write("HOST=127.0.0.1\nDEBUG=false\nAPI_KEY=from-the-file\nMAX_KERNELS=10\nKERNEL_TIMEOUT=300\n"
                    "MAX_EXECUTION_TIME=30\nMAX_MEMORY_MB=512\nALLOWED_HOSTS=*\nLOG_LEVEL=INFO\n")
        os.chmod(os.path.join(here, ".env"), 0o600)
        with Server(cwd=here, usual=["--port", "0"], key="from-the-file") as s:
            equal(s.get("/api/v1/sessions", key="").status, 401)
            equal(s.get("/api/v1/sessions").status, 200)


@check
def row_000_17_debug_shows_docs_and_details():
    quiet = server()
    for path in ("/docs", "/redoc"):
        equal(quiet.get(path).status, 404, path)
    equal(quiet.get("/health").json()["docs"], "disabled")
    assert "level=debug" not in quiet.log_text()
    with Server(args=["--dialect", "sandbox-mcp"], env={"DEBUG": "true"}) as s:
        page = s.get("/docs")
        equal((page.status, page.header("content-type").split(";")[0]), (200, "text/html"))
        contains((200, 307), s.get("/redoc").status)
        equal(s.get("/health").json()["docs"], "/docs")
        execute(s, "1")
        contains(s.log_text(), "level=debug")


@check
def row_000_18_an_empty_body_and_an_unknown_session():
    s = server()
    for prefix in PREFIXES:
        for path in ("/execute", "/execute_sync"):
            reply = s.post(prefix + path, {})
            equal(reply.status, 422)
            equal(reply.detail(), [{"type": "missing", "loc": ["body", "code"], "msg": "Field required", "input": {}}])
            equal(reply.json()["error"]["field"], "code")
        for method, path in (("DELETE", "/sessions/nobody"), ("GET", "/sessions/nobody"),
                             ("POST", "/sessions/nobody/interrupt")):
            reply = s.request(method, prefix + path)
            equal((reply.status, reply.detail()), (404, "Session not found"), path)
        equal(s.get(prefix + "/nowhere").status, 404)
        wrong = s.get(prefix + "/execute")
        equal(wrong.status, 405)
        equal(s.post(prefix + "/execute", {"code": "1", "timeout": 1.5}).status, 422)
        for timeout in (10, 10.0, "10"):
            equal(s.post(prefix + "/execute", {"code": "1", "timeout": timeout, "unknown": 1}).status, 200)


@check
def row_000_18_both_prefixes_answer_alike():
    s = server()
    lines, sync, opened, listed, read, ended = [], [], [], [], [], []
    for prefix in PREFIXES:
        lines.append(s.post(prefix + "/execute", {"code": "import sys\nprint(1)\nprint(2, file=sys.stderr)\nn * 2",
                                                  "variables": {"n": 21}}).lines())
        sync.append(s.post(prefix + "/execute_sync", {"code": "print('t')\n1/0"}).json())
        opened.append(s.post(prefix + "/sessions", {"session_id": "alike"}).json())
        listed.append(sorted(s.get(prefix + "/sessions").json()["sessions"]["alike"]))
        read.append(s.get(prefix + "/sessions/alike").json())
        told = s.post(prefix + "/sessions/alike/interrupt")
        equal((told.status, told.json()), (200, {"message": "Session alike interrupted"}))
        told = s.delete(prefix + "/sessions/alike")
        equal((told.status, told.json()), (200, {"message": "Session alike terminated"}))
        eventually(lambda: s.get(prefix + "/sessions/alike").status == 404)
        health = s.get(prefix + "/health").json()
        ended.append(sorted(health))
    equal(lines[0], lines[1])
    equal((texts(lines[0][:-1]), lines[0][-1]), ("1\n2\n", {"text": "42"}))
    equal(sync[0], sync[1])
    equal((sync[0]["resultCode"], sync[0]["resultMsg"]), (0, "success"))
    equal((sync[0]["data"]["texts"], sync[0]["data"]["images"]), (["t\n"], []))
    equal(sync[0]["data"]["errors"][0]["error"], "ZeroDivisionError: division by zero")
    equal(opened[0], opened[1])
    equal(opened[0]["resultCode"], 0)
    equal({name: opened[0]["data"][name] for name in ("session_id", "downloaded_files", "errors")},
          {"session_id": "alike", "downloaded_files": [], "errors": []})
    assert opened[0]["data"]["working_directory"].startswith("/"), opened
    for one in read:
        assert {"session_id", "created_at", "last_activity", "is_busy", "execution_count", "working_directory", "files",
                "total_files"} <= set(one), one
        equal((one["session_id"], one["is_busy"], one["execution_count"]), ("alike", False, 0))
    equal(listed[0], listed[1])
    equal(ended[0], ended[1])


@check
def row_000_18_root_and_health():
    s = server()
    root = s.get("/").json()
    equal((root["status"], root["docs"], root["api_endpoint"]), ("running", "disabled", "/api/v1"))
    health = s.get("/health").json()
    assert {"status", "version", "active_sessions", "uptime", "name", "docs", "mcp_endpoint",
            "api_endpoint"} <= set(health), health
    equal(json.dumps(root["version"]), json.dumps(health["version"]))


main()
