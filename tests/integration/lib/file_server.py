"""What the suites of files share: two servers, one without keys and one with a root key and users, and shorthands.

Servers that are started here end with the program.
"""
from __future__ import annotations

import atexit
import base64
import functools
import os
import re
import sys
import time
from urllib.parse import quote, urlsplit

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))

from check import equal  # noqa: E402
from krait_server import Server  # noqa: E402

ROOT_KEY = "root-key-of-the-files-suite"
FILES = "/api/v1/sandboxes/default/files"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
TEMP = ".krait-upload-"


def started(*args: str, **more) -> Server:
    server = Server(args=list(args), **more).start()
    atexit.register(server.close, False)
    return server


@functools.cache
def open_server() -> Server:
    return started()


@functools.cache
def keyed_server() -> Server:
    return started("--require-auth", env={"API_KEY": ROOT_KEY}, key=ROOT_KEY)


@functools.cache
def user_key(name: str, rights: tuple = ("read", "run")) -> str:
    s = keyed_server()
    who = user_id(name)
    reply = s.post("/api/v1/keys", {"user": who, "name": "k", "rights": list(rights)})
    equal(reply.status, 201, reply.text)
    return reply.json()["key"]


@functools.cache
def user_id(name: str) -> str:
    reply = keyed_server().post("/api/v1/users", {"name": name, "rights": ["read", "run"]})
    equal(reply.status, 201, reply.text)
    return reply.json()["id"]


def put(s: Server, path: str, body: bytes, **more):
    return s.put(FILES + "/" + quote(path), body, **more)


def get(s: Server, path: str, query: str = "", **more):
    return s.get(FILES + "/" + quote(path) + query, **more)


def temp_files(s: Server) -> list[str]:
    """Temporary files of uploads anywhere in the data directory."""
    return [name for _, _, names in os.walk(s.data) for name in names if name.startswith(TEMP)]


def eventually(what, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "did not come true in %s s" % seconds
        time.sleep(0.02)


def server_memory(s: Server) -> int:
    """Resident bytes of the process that serves, its peak."""
    with open("/proc/%d/status" % s.server_pid()) as status:
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read()).group(1)) << 10


def form(*parts: tuple, boundary: str = "xX-bound-Xx") -> tuple[bytes, dict]:
    """multipart/form-data of (name, filename or None, bytes)."""
    out = b""
    for name, filename, data in parts:
        what = 'form-data; name="%s"' % name
        if filename is not None:
            what += '; filename="%s"' % filename
        out += ("--%s\r\nContent-Disposition: %s\r\n\r\n" % (boundary, what)).encode() + data + b"\r\n"
    return out + ("--%s--\r\n" % boundary).encode(), {"Content-Type": "multipart/form-data; boundary=" + boundary}


def post(s: Server, *parts: tuple, **more):
    body, headers = form(*parts)
    return s.post(FILES, body, headers=headers, **more)


def path_of(url: str) -> str:
    parts = urlsplit(url)
    return parts.path + ("?" + parts.query if parts.query else "")


def link_to(s: Server, path: str, **more) -> dict:
    key = more.pop("key", None)
    reply = s.post("/api/v1/sandboxes/default/links", {"path": path, **more}, key=key)
    equal(reply.status, 201, reply.text)
    return reply.json()
