"""What the suites of packages share: an index on loopback with wheels that the test builds, and a server that has it.

    with site() as (index, folder), Server(args=index_args(index)) as s:
        index.add(wheels.wheel(folder, "thing"))
        done = install(s, "thing")
        assert done["ok"] and names(done) == ["thing"]
"""
from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Iterator

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib")]

from index import Index  # noqa: E402
from krait_server import Server  # noqa: E402

JOB_S = 120


@contextlib.contextmanager
def site(**how: Any) -> Iterator[tuple[Index, Path]]:
    """An index, and a folder to build wheels in."""
    with tempfile.TemporaryDirectory(prefix="kr-wheels-") as folder, Index(**how) as index:
        yield index, Path(folder)


def index_args(index: Index, *more: str) -> list[str]:
    return ["--pypi-index-url", index.url, "--max-network", "open", *more]


def packages_path(sandbox: str) -> str:
    return "/api/v1/sandboxes/%s/packages" % sandbox


def ask(s: Server, *packages: str, sandbox: str = "default", key: str | None = None, **more: Any):
    """The reply to an ask, whatever it is."""
    body = {"packages": list(packages), **more} if packages else more
    return s.post(packages_path(sandbox), body, key=key)


def await_job(s: Server, job: str, key: str | None = None) -> dict:
    """The job once it has ended."""
    deadline = time.monotonic() + JOB_S
    while True:
        reply = s.get("/api/v1/jobs/" + job, key=key)
        assert reply.status == 200, reply.text
        if reply.json()["ended_at"] is not None:
            return reply.json()
        assert time.monotonic() < deadline, reply.text
        time.sleep(0.05)


def started(reply) -> str:
    assert reply.status in (200, 202), "%d %s" % (reply.status, reply.text)
    return reply.json()["job_id"]


def install(s: Server, *packages: str, key: str | None = None, **more: Any) -> dict:
    """The result of an install, which may have failed."""
    job = await_job(s, started(ask(s, *packages, key=key, **more)), key)
    assert job["result"], job
    return job["result"]


def uninstall(s: Server, *packages: str, sandbox: str = "default") -> dict:
    reply = s.post(packages_path(sandbox) + "/uninstall", {"packages": list(packages)})
    return await_job(s, started(reply))["result"]


def listed(s: Server, sandbox: str = "default", key: str | None = None) -> dict:
    """Versions by name."""
    reply = s.get(packages_path(sandbox), key=key)
    assert reply.status == 200, reply.text
    return {one["name"]: one["version"] for one in reply.json()["packages"]}


def names(result: dict) -> list:
    return sorted(one["name"] for one in result["installed"])
