#!/usr/bin/python3
"""`krait setup CLIENT`: what it prints is what the client reads, and works; and the flags other servers' documents
print."""
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/lib"))
from check import check, contains, equal, main  # noqa: E402
from krait_server import Server  # noqa: E402
from mcp import Stdio  # noqa: E402

KRAIT = os.path.abspath(os.environ.get("KRAIT", "build/krait"))
CLIENTS = ("claude-code", "claude-desktop", "cursor", "gemini", "vscode", "codex")
URL = "http://127.0.0.1:8642"


def setup(*args: str, status: int = 0) -> str:
    done = subprocess.run([KRAIT, "setup", *args], capture_output=True, text=True, timeout=30, check=False)
    equal(done.returncode, status, done.stderr)
    return done.stdout if status == 0 else done.stderr


def settings(text: str) -> str:
    """Without the lines for people."""
    return "".join(line for line in text.splitlines(True) if not line.startswith("#"))


def entry(client: str, *more: str) -> dict:
    """What the client would make of it: {"command", "args"} or {"url"}."""
    text = settings(setup(client, *more))
    if client == "claude-code":
        words = shlex.split(text)
        equal(words[:3], ["claude", "mcp", "add"])
        if "--" in words:
            at = words.index("--")
            return {"command": words[at + 1], "args": words[at + 2:]}
        return {"url": words[-1]}
    if client == "codex":
        return tomllib.loads(text)["mcp_servers"]["krait"]
    return json.loads(text)["servers" if client == "vscode" else "mcpServers"]["krait"]


@check
def what_goes_to_stdout_is_a_file() -> None:
    for client in ("claude-desktop", "cursor", "gemini", "vscode"):
        done = subprocess.run([KRAIT, "setup", client], capture_output=True, text=True, timeout=30, check=True)
        json.loads(done.stdout)
        contains(done.stderr, ".json", client)  # where to put it
    tomllib.loads(setup("codex"))
    equal(subprocess.run(["sh", "-n"], input=setup("claude-code"), text=True, timeout=30, check=False).returncode, 0)


@check
def every_client_can_start_it() -> None:
    with tempfile.TemporaryDirectory(prefix="krait-test-") as place:
        os.chmod(place, 0o755)
        for client in CLIENTS:
            found = entry(client)
            equal((found["command"], found["args"]), (os.path.realpath(KRAIT), ["mcp"]), client)
        with Stdio([found["command"], *found["args"], "--data", place + "/data"]) as c:
            equal(c.info["serverInfo"]["name"], "krait")


@check
def every_client_can_reach_a_server() -> None:
    for client in CLIENTS:
        found = entry(client, "--http", URL)
        if client == "claude-desktop":  # knows programs alone, so krait is one for it that passes on
            equal(found["args"], ["mcp", "--connect", URL + "/mcp"])
        else:
            equal(found.get("url") or found.get("httpUrl"), URL + "/mcp", client)
    equal(entry("cursor", "--http", "https://krait.example.org/")["url"], "https://krait.example.org/mcp")
    equal(entry("cursor", "--http", "http://h:1/other/mcp")["url"], "http://h:1/other/mcp")


@check
def the_key_is_named_and_never_printed() -> None:
    os.environ["KRAIT_API_KEY"] = "secret-0123456789"
    try:
        for client in CLIENTS:
            text = setup(client, "--http", URL, "--key")
            contains(text, "KRAIT_API_KEY", client)
            assert "secret" not in text
            assert "KRAIT_API_KEY" not in setup(client, "--http", URL), "control: %s" % client
        equal(entry("cursor", "--http", URL, "--key")["headers"], {"Authorization": "Bearer ${env:KRAIT_API_KEY}"})
        equal(entry("codex", "--http", URL, "--key")["bearer_token_env_var"], "KRAIT_API_KEY")
    finally:
        del os.environ["KRAIT_API_KEY"]
    contains(setup("cursor", "--key", status=2), "--http")


@check
def options_may_come_first() -> None:
    equal(setup("--http", URL, "vscode"), setup("vscode", "--http", URL))


@check
def what_is_wrong_is_told() -> None:
    contains(setup("curser", status=2), "did you mean cursor?")
    contains(setup("emacs", status=2), "claude-code")
    contains(setup(status=2), "which client")
    contains(setup("cursor", "vscode", status=2), "one client at a time")
    contains(setup("cursor", "--http", "not a url", status=2), "--http")
    contains(setup("claude-desktop", "--http", "https://h/", status=2), "no https")
    contains(setup("--help"), "claude-code|claude-desktop")


@check
def a_path_with_blanks_is_quoted() -> None:
    with tempfile.TemporaryDirectory(prefix="krait test ") as place:
        program = os.path.join(place, "it's krait")
        (os.link(KRAIT, program) if os.stat(KRAIT).st_dev == os.stat(place).st_dev
         else subprocess.run(["cp", KRAIT, program], check=True))
        for client in CLIENTS:
            text = subprocess.run([program, "setup", client], capture_output=True, text=True, timeout=30,
                                  check=True).stdout
            assert place.split("/")[-1] in text
            if client == "claude-code":
                contains(shlex.split(settings(text)), os.path.realpath(program))
            elif client == "codex":
                equal(tomllib.loads(settings(text))["mcp_servers"]["krait"]["command"], os.path.realpath(program))


@check
def the_server_says_how_to_reach_it() -> None:
    with tempfile.TemporaryDirectory(prefix="krait-test-") as place:
        os.chmod(place, 0o755)
        p = subprocess.Popen([KRAIT, "serve", "--sse", "--no-files", "--port", "0", "--preload", "basic",
                              "--data", place + "/data"],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        try:
            said = ""
            deadline = time.monotonic() + 60
            while "every user" not in said and time.monotonic() < deadline:
                said += p.stdout.readline()
            base = re.search(r"http://127\.0\.0\.1:\d+", said).group()
            contains(said, base + "/mcp")
            contains(said, "krait setup claude-code --http " + base)
            contains(said, base + "/sse")
        finally:
            p.send_signal(signal.SIGTERM)
            p.wait(20)


@check
def serve_speaks_stdio_when_it_is_asked_to() -> None:
    with tempfile.TemporaryDirectory(prefix="krait-test-") as place:
        os.chmod(place, 0o755)
        argv = [KRAIT, "serve", "--transport", "stdio", "--no-files", "--preload", "basic", "--data", place + "/data"]
        with Stdio(argv) as c:
            equal(c.text("execute_python", code="print(2)").splitlines()[0], "2")
            equal(c.garbage, [])
    with Server(["--transport", "http"]) as s:
        equal(s.get("/health").status, 200)


main()
