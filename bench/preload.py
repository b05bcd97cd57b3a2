"""The first import of a package of a template, for bench/run: in new sessions of a sandbox whose template is preloaded, beside
one whose template is not. Two packages of the same shape, since a session is given by the packages of its sandbox. As root;
the server is one of our own."""
import os
import shutil
import sys
import tempfile
import time

from packages import make_module
from programs import Failed

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "integration", "lib"))
import wheels  # noqa: E402
from installing import install  # noqa: E402
from krait_server import Server  # noqa: E402

MODULES, BYTES = 100, 4000  # of a package
READY_S = 120
LOOK_S = 0.2
KINDS = (("plain", "not preloaded"), ("preloaded", "preloaded"))
HOW = tuple((prefix + kind, text % label) for prefix, text in (
    ("import_", "the first import of a package of %d modules in a new session, %%s" % MODULES),
    ("run_", "the run and its new session, %s: request → end")) for kind, label in KINDS)
CODE = """
import sys, time
there = "%s" in sys.modules
began = time.perf_counter()
import %s
print(there, (time.perf_counter() - began) * 1e6, %s.COUNT)
"""


def package(kind: str) -> str:
    return "bench_" + kind


class Preload:
    def __init__(self, build: str) -> None:
        if os.geteuid() != 0:
            raise Failed("templates are preloaded only by root")
        self.top = tempfile.mkdtemp(prefix="krait-bench-preload-")
        os.chmod(self.top, 0o755)  # the server has a user of its own
        self.server = Server(program=os.path.join(build, "krait"), validate=False, args=[
            "--pypi-index-url", self.top, "--max-network", "open", "--installs-per-minute", "0", "--template-preload", "preloaded"])
        try:
            for kind, _label in KINDS:
                self.make_wheel(package(kind))
            self.server.start()
            for kind, _label in KINDS:
                self.make_template(kind)
            self.await_zygote()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.server.close(check=False)
        shutil.rmtree(self.top, ignore_errors=True)

    def make_wheel(self, name: str) -> None:
        """A package whose first module imports all others."""
        modules = {"%s/m%d.py" % (name, number): make_module(name, number, BYTES) for number in range(1, MODULES)}
        first = "from %s import %s\n" % (name, ", ".join("m%d" % number for number in range(1, MODULES)))
        modules[name + "/__init__.py"] = first + "COUNT = %d\n" % MODULES
        wheels.wheel(self.top, name.replace("_", "-"), "1.0", modules=modules)

    def post(self, path: str, body: dict) -> None:
        reply = self.server.post(path, body)
        if reply.status != 201:
            raise Failed("%s: %d %s" % (path, reply.status, reply.text[:200]))

    def make_template(self, kind: str) -> None:
        """A template of that name, and a sandbox that has begun with it."""
        self.post("/api/v1/sandboxes", {"name": "source-" + kind})
        done = install(self.server, package(kind).replace("_", "-"), sandbox="source-" + kind)
        if not done["ok"]:
            raise Failed("the template's package: %s" % str(done)[:200])
        self.post("/api/v1/templates", {"sandbox_id": "source-" + kind, "name": kind, "shared": True})
        self.post("/api/v1/sandboxes", {"name": kind, "template": kind})

    def await_zygote(self) -> None:
        deadline = time.monotonic() + READY_S
        while True:
            one = self.server.get("/api/v1/info").json()["preloaded_templates"][0]
            if one["state"] == "ready":
                return
            if one["state"] == "failed" or time.monotonic() > deadline:
                raise Failed("the template is not preloaded: %s" % one)
            time.sleep(LOOK_S)

    def sample(self, kind: str) -> tuple:
        """Microseconds of the import, and of the run."""
        name = package(kind)
        began = time.perf_counter()
        done = self.server.run(CODE % (name, name, name), sandbox_id=kind, fresh=True)
        took = (time.perf_counter() - began) * 1e6
        words = done["stdout"].split()
        if done["cause"] != "ok" or words[0] != str(kind == "preloaded") or words[2] != str(MODULES):
            raise Failed("%s: %s" % (kind, str(done)[:300]))
        return float(words[1]), took


def measure(build: str, rounds: int, rows: dict) -> None:
    """Adds samples to rows["preload_" + key], one of each kind in turn, with rests between."""
    try:
        one = Preload(build)
    except (Failed, OSError, RuntimeError, AssertionError) as exc:
        for key, _label in HOW:
            rows["preload_" + key].failed = str(exc)
        return
    try:
        for turn in range(rounds + 1):
            for kind, _label in KINDS:
                time.sleep(0.05)
                took = one.sample(kind)
                if turn > 0:  # the first reads the files from the disk
                    for key, value in zip(("import_", "run_"), took):
                        rows["preload_%s%s" % (key, kind)].samples.append(value)
    except (Failed, OSError, AssertionError) as exc:
        for key, _label in HOW:
            rows["preload_" + key].failed = str(exc)
    finally:
        one.close()
