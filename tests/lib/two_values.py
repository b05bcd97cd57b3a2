"""What the suites of settings share (tests/integration/settings*.py): servers with the defaults or other values, and
ways to look at them. Every setting of `krait serve` has a check that gives it two values and asserts the difference
that a client sees; the table of settings (src/cli/config) names it, and tools/tree_gates.py holds the two together."""
from __future__ import annotations

import os
import re
import socket
import subprocess
from typing import Any

from check import equal, skip
from krait_server import KRAIT, Server
from serving import kept

RUNS = "/api/v1/runs"
BOXES = "/api/v1/sandboxes"
FILES = BOXES + "/default/files"
KEY, OTHER_KEY = "a-key-of-the-settings-suite", "another-key-of-the-settings-suite"
SOON = 15.0  # seconds in which something of a fraction of a second happens, also on a busy machine


def plain() -> Server:
    return kept()


def run(s: Server, code: str, **more: Any) -> dict:
    return s.run(code, fresh=True, **more)


def start(*args: str, seconds: float = 30, wrap: tuple | list = (), env: dict | None = None, cwd: str = "/",
          command: str = "serve", stdin: bytes = b"") -> subprocess.CompletedProcess:
    """A krait that ends by itself."""
    base = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "ASAN_OPTIONS", "UBSAN_OPTIONS")}
    return subprocess.run([*wrap, os.path.abspath(KRAIT), *command.split(), *args], env={**base, **(env or {})},
                          input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds, cwd=cwd)


def setting(section: str, key: str, *args: str, **how: Any) -> str:
    """What `krait dump settings` says of it."""
    done = start(*args, command="dump settings", **how)
    equal(done.returncode, 0, done.stderr.decode())
    found = re.search(r"(?ms)^\[%s\]$.*?^%s = (.*?)  #" % (section, key), done.stdout.decode())
    assert found, done.stdout.decode()
    return found.group(1)


def is_open(sock: socket.socket, seconds: float) -> bool:
    """Is the connection still there after so long, with nothing sent on it?"""
    sock.settimeout(seconds)
    try:
        return sock.recv(65536) != b""
    except TimeoutError:
        return True
    except ConnectionError:
        return False


def closed_within(sock: socket.socket, seconds: float) -> bytes:
    """What comes until the peer closes, which it does within that time."""
    got = b""
    sock.settimeout(seconds)
    try:
        while piece := sock.recv(65536):
            got += piece
    except ConnectionError:
        pass
    return got


def listed(s: Server) -> set:
    return set(s.get("/api/v1/sessions").json()["sessions"])


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def only_root() -> None:
    if os.geteuid() != 0:
        skip("needs root")
