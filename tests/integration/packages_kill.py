#!/usr/bin/python3
"""Two installs at once, and kill -9 of the server in the middle: after a restart each environment is as before or
complete."""
from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "lib")]
import wheels
from check import check, equal, main
from installing import ask, await_job, index_args, install, listed, site, started
from krait_server import Server, data_folder

PARTS = 12  # packages of each install
ROUNDS = int(os.environ.get("KR_KILL_ROUNDS", "6"))


def kill(s: Server) -> None:
    os.kill(s.server_pid(), signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(s.process.pid, signal.SIGKILL)
    s.process.wait()
    s.process.stdout.close()


def add_parts(index, folder, generation: int) -> None:
    """bundle-N needs PARTS parts of the same version, each with a few files."""
    version = "%d.0" % generation
    parts = ["part-%d" % i for i in range(PARTS)]
    for name in parts:
        module = name.replace("-", "_")
        index.add(wheels.wheel(folder, name, version, modules={
            "%s/__init__.py" % module: "VERSION = %d\n" % generation,
            **{"%s/m%d.py" % (module, k): "X = %d\n" % k for k in range(20)}}))
    index.add(wheels.wheel(folder, "bundle", version, depends=["%s==%s" % (one, version) for one in parts],
                           modules={"bundle.py": "VERSION = %d\n" % generation}))


CODE = """
import importlib, importlib.metadata, os
names = ["bundle"] + ["part_%%d" %% i for i in range(%d)]
print(sorted({importlib.import_module(n).VERSION for n in names}))
""" % PARTS


def state_of(s: Server, sandbox: str) -> int:
    """Which generation is there, whole; 0: none."""
    have = listed(s, sandbox)
    if not have:
        return 0
    versions = set(have.values())
    equal((len(have), len(versions)), (PARTS + 1, 1), str(have))
    generation = int(float(versions.pop()))
    done = s.run(CODE, sandbox=sandbox)
    equal((done["cause"], done["stdout"].strip()), ("ok", "[%d]" % generation), str(done))
    return generation


@check
def two_installs_at_once_are_both_there() -> None:
    with site() as (index, folder), Server(args=index_args(index)) as s:
        add_parts(index, folder, 1)
        index.add(wheels.wheel(folder, "lone-thing"))
        other = s.post("/api/v1/sandboxes", {"name": "other"}).json()["id"]
        jobs = [started(ask(s, "bundle")), started(ask(s, "bundle", sandbox=other)), started(ask(s, "lone-thing"))]
        for job in jobs:
            assert await_job(s, job)["result"]["ok"], job
        equal(state_of(s, other), 1)
        have = listed(s)
        equal(len(have), PARTS + 2, str(have))


@check
def a_server_that_was_killed_leaves_environments_whole() -> None:
    seed = int(os.environ.get("KR_SEED", random.randrange(1 << 30)))
    print("# KR_SEED=%d" % seed, flush=True)
    dice = random.Random(seed)
    with site() as (index, folder), data_folder() as data:
        add_parts(index, folder, 1)
        with Server(data=data, args=index_args(index)) as s:
            began = time.monotonic()
            assert install(s, "bundle")["ok"]
            took = time.monotonic() - began
            other = s.post("/api/v1/sandboxes", {"name": "other"}).json()["id"]
        before = {"default": 1, other: 0}
        for generation in range(2, 2 + ROUNDS):
            add_parts(index, folder, generation)
            s = Server(data=data, args=index_args(index)).start()
            asked = [started(ask(s, "bundle", sandbox=one, upgrade=True)) for one in before]
            time.sleep(dice.random() * took * 2.5)
            kill(s)
            with Server(data=data, args=index_args(index)) as s:
                for job in asked:
                    assert not await_job(s, job)["still_running"]
                for one, old in before.items():
                    now = state_of(s, one)
                    assert now in (old, generation), (one, old, now)
                    before[one] = now
        with Server(data=data, args=index_args(index)) as s:
            for one in before:
                assert install(s, "bundle", sandbox=one, upgrade=True)["ok"]
                equal(state_of(s, one), 1 + ROUNDS)


main()
