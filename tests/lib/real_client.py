"""A client that others wrote, for the rows of a contract: mcp-remote, which is the TypeScript SDK's client behind a
stdin and stdout of its own.

    c = real_client.at(server.port, "/mcp")                 # opened once, kept; None: npm cannot fetch it
    c = real_client.at(server.port, "/sse", "sse-only")     # the older transport
"""
from __future__ import annotations

import atexit
import shutil
import tempfile

import npm_clients
from mcp import Stdio

_kept: dict = {}


def at(port: int, path: str, transport: str = "http-only") -> Stdio | None:
    key = (port, path, transport)
    if key not in _kept:
        _kept[key] = _open(*key)
    return _kept[key]


def _open(port: int, path: str, transport: str) -> Stdio | None:
    try:
        clients = npm_clients.provide()
    except npm_clients.Missing:
        return None
    home = tempfile.mkdtemp(prefix="krait-test-")
    argv = [clients.node, clients.path("mcp-remote/dist/proxy.js"), "http://127.0.0.1:%d%s" % (port, path),
            "--transport", transport, "--silent"]
    client = Stdio(argv, env=clients.env(home))
    atexit.register(shutil.rmtree, home, True)
    atexit.register(client.close)  # before the server of the suite, which was registered earlier
    client.open()
    return client
