"""What the suites of the execution tools share: one server, clients of every era, short words for calls."""
import functools
import os
import struct
import time
from base64 import b64decode
from pathlib import Path

from check import check, main
from krait_server import KRAIT, Server
from mcp import MODERN, Http, Stdio

ANSWER_AFTER = "4"  # seconds; 50 is what people have
_names = iter(range(10**6))


class state:
    server: Server


def serve() -> None:
    """Runs the checks against a server of their own."""
    with Server(args=["--answer-after", ANSWER_AFTER]) as state.server:
        main()


def word(prefix: str) -> str:
    """A number that no other process of the machine has in its arguments."""
    return "%s%d" % (prefix, os.getpid() * 1000 + next(_names))


def client(era: str, **how):
    if era == "stdio":  # joins the server
        argv = [os.path.abspath(KRAIT), "mcp", "--data", os.path.join(state.server.data, "data")]
        return Stdio(argv, cwd=state.server.data, **how)
    return Http(state.server.port, rev=MODERN if era == "modern" else "2025-11-25", **how)


def eras(function):
    """One check for each way in."""
    for era in ("legacy", "modern", "stdio"):

        @functools.wraps(function)
        def one(era=era):
            with client(era) as c:
                function(c)

        one.__name__ = "%s_%s" % (function.__name__, era)
        check(one)
    return function


def session() -> str:
    return "s%d" % next(_names)


def run(c, code: str, token=None, **args) -> dict:
    """execute_python, in a session of its own unless one is named."""
    args = {"code": code, "session_id": session(), **args}
    return c.tool("execute_python", args, token=token, timeout=150)


def said(c, code: str, **args) -> str:
    return text(run(c, code, **args))


def begun(c, code: str, token=None, **args):
    args = {"code": code, "session_id": session(), **args}
    return c.begin("tools/call", {"name": "execute_python", "arguments": args}, token=token)


def shell(c, command: str, token=None, **args) -> dict:
    return c.tool("execute_terminal_command", {"command": command, **args}, token=token)


def typed(c, command: str, **args) -> str:
    return text(shell(c, command, **args))


def text(result: dict) -> str:
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


def images(result: dict) -> list:
    return [b64decode(block["data"]) for block in result["content"] if block["type"] == "image"]


def size_of(png: bytes) -> tuple:
    assert png[:8] == b"\x89PNG\r\n\x1a\n", png[:20]
    return struct.unpack(">II", png[16:24])


def running(word: str) -> bool:
    """Is a process of the machine called so?"""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if word in Path("/proc", entry, "cmdline").read_text(errors="replace"):
                    return True
            except OSError:
                pass
    return False


def until(what, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "not within %g s" % seconds
        time.sleep(0.05)


def last_run() -> dict:
    return state.server.get("/api/v1/runs?limit=1").json()["runs"][0]
