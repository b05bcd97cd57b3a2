"""The second install of ten wheels: out of krait's store, beside pip and uv, for bench/run. The wheels are made here;
pip, uv and krait's server find them in their folder. uv is that of PATH, or of the environment's KR_UV."""
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

from programs import Failed, Program, PYTHON

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "lib"))
import wheels  # noqa: E402
from krait_server import Server  # noqa: E402

# name -> (modules, bytes of each, folders they are in, console scripts): like numpy, pandas, requests …, in small
SHAPES = {
    "bench-numbers": (640, 9000, 40, 2), "bench-frames": (820, 11000, 60, 0), "bench-plots": (260, 9000, 20, 0),
    "bench-client": (20, 6000, 2, 0), "bench-web": (240, 5000, 30, 3), "bench-zones": (420, 900, 45, 0),
    "bench-text": (60, 7000, 6, 1), "bench-tables": (90, 8000, 8, 0), "bench-small": (6, 1200, 1, 1),
    "bench-tiny": (1, 400, 1, 0),
}
HOW = (  # key, label
    ("server", "krait, over HTTP: from the request to the end of the job, in a new sandbox"),
    ("resolve", "the same with `upgrade`: the resolver runs in a cell each time"),
    ("krait", "krait's store and environment alone, by the functions that the job calls"),
    ("pip", "pip install into a new virtual environment"),
    ("pip_bare", "the same with --no-compile: krait and uv compile nothing either"),
    ("uv", "uv pip install, with a warm cache"),
)
COMMAND_S = 120
LOOK_S = 0.003  # between two looks at a job


def make_module(name: str, number: int, size: int) -> str:
    """Source of about `size` bytes which compresses as source does."""
    lines = ['"""Part %d of %s."""' % (number, name)]
    while sum(map(len, lines)) < size:
        at = len(lines) + number
        lines.append("def function_%d(first, second=%d):\n    if first > second * %d:\n        return {'%x': first, 'b': second}\n"
                     "    return [first + %d for _ in range(second %% 7)]\n" % (at, at * 7919 % 1000, at, at * 2654435761 % (1 << 32), at))
    return "\n".join(lines)


def make_wheels(folder: str) -> list:
    made = []
    for name, (count, size, folders, scripts) in SHAPES.items():
        part = wheels.file_name_part(name)
        modules = {part + "/__init__.py": "VERSION = '1.0'\n"}
        for number in range(count):
            modules["%s/part%d/m%d.py" % (part, number % folders, number)] = make_module(name, number, size)
        commands = {"%s-%d" % (name, n): "%s:main" % part for n in range(scripts)}
        made.append(str(wheels.wheel(folder, name, "1.0", modules=modules, scripts=commands)))
    return made


class Packages:
    def __init__(self, build: str) -> None:
        self.top = tempfile.mkdtemp(prefix="krait-bench-packages-")
        self.folder = os.path.join(self.top, "wheels")
        self.turn = 0
        self.uv = os.environ.get("KR_UV") or shutil.which("uv")
        self.program = Program(os.path.join(build, "bench", "bench-packages"))
        self.server = Server(args=["--pypi-index-url", self.folder, "--max-network", "open", "--installs-per-minute", "0"],
                             program=os.path.join(build, "krait"), validate=False)
        try:
            os.chmod(self.top, 0o755)  # the server has a user of its own
            for name in ("wheels", "data"):
                os.mkdir(os.path.join(self.top, name))
            self.wheels = make_wheels(self.folder)
            self.files = sum(count + 4 for count, _size, _folders, _scripts in SHAPES.values())
            self.program.ask("open %s/data" % self.top)
            for path in self.wheels:
                with open(path, "rb") as file:
                    self.program.ask("add %s %s" % (path, hashlib.sha256(file.read()).hexdigest()))
            self.server.start()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.program.close()
        self.server.close(check=False)
        shutil.rmtree(self.top, ignore_errors=True)

    def sample(self, how: str) -> float:
        """Microseconds of one install into something new, which is removed again."""
        self.turn += 1
        if how in ("server", "resolve"):
            return self.serve(how == "resolve")
        place = os.path.join(self.top, "place%d" % self.turn)
        try:
            if how == "krait":
                return self.program.ask("install " + place)["install"][0]
            self.command([PYTHON, "-m", "venv", "--without-pip", place])
            return getattr(self, how)(place)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def serve(self, upgrade: bool) -> float:
        sandbox = self.server.post("/api/v1/sandboxes", {}).json()["id"]
        try:
            began = time.perf_counter()
            reply = self.server.post("/api/v1/sandboxes/%s/packages" % sandbox, {"packages": list(SHAPES), "upgrade": upgrade})
            if reply.status not in (200, 202):
                raise Failed("an install was refused: " + reply.text[:200])
            job = reply.json()
            while job.get("ended_at") is None:
                if time.perf_counter() - began > COMMAND_S:
                    raise Failed("an install did not end within %d s" % COMMAND_S)
                time.sleep(LOOK_S)
                job = self.server.get("/api/v1/jobs/" + reply.json()["job_id"]).json()
            took = time.perf_counter() - began
            if not job["result"] or not job["result"]["ok"] or len(job["result"]["installed"]) != len(SHAPES):
                raise Failed("an install failed: " + str(job["result"])[:200])
            return took * 1e6
        finally:
            self.server.delete("/api/v1/sandboxes/" + sandbox)

    def pip(self, place: str, *more: str) -> float:
        return self.command([PYTHON, "-m", "pip", "--python", place + "/bin/python", "install", "--no-index", "--no-deps",
                             "--disable-pip-version-check", "--quiet", "--find-links", self.folder, *more, *SHAPES])

    def pip_bare(self, place: str) -> float:
        return self.pip(place, "--no-compile")

    def uv_install(self, place: str) -> float:
        return self.command([self.uv, "pip", "install", "--offline", "--no-index", "--no-deps", "--quiet", "--no-config",
                             "--cache-dir", os.path.join(self.top, "uv-cache"), "--python", place + "/bin/python",
                             "--find-links", self.folder, *SHAPES])

    def command(self, argv: list) -> float:
        env = {"PATH": "/usr/bin:/bin", "HOME": self.top, "LANG": "C.UTF-8", "PIP_CONFIG_FILE": "/dev/null"}
        began = time.perf_counter()
        try:
            done = subprocess.run(argv, env=env, cwd=self.top, capture_output=True, text=True, timeout=COMMAND_S)
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise Failed("%s: %s" % (argv[0], exc)) from None
        took = time.perf_counter() - began
        if done.returncode != 0:
            raise Failed("%s: %s" % (" ".join(argv[:4]), (done.stderr or done.stdout).strip()[-200:]))
        return took * 1e6


def measure(build: str, rounds: int, rows: dict) -> str:
    """Adds samples to rows["packages_" + key], one of each in turn. What must be said beside the table, or ""."""
    try:
        one = Packages(build)
    except (Failed, OSError, RuntimeError) as exc:
        for key, _label in HOW:
            rows["packages_" + key].failed = str(exc)
        return "packages: %s" % exc
    note = "%d wheels of %d files; each sample goes into a new environment" % (len(one.wheels), one.files)
    if not one.uv:
        rows["packages_uv"].failed = "uv is absent: neither in PATH nor in KR_UV"
        note += "; uv is absent (neither in PATH nor in KR_UV): nothing is said about it"
    try:
        for turn in range(rounds + 1):
            for key, _label in HOW:
                row = rows["packages_" + key]
                if row.failed:
                    continue
                try:
                    took = one.sample("uv_install" if key == "uv" else key)
                except Failed as exc:
                    row.failed = str(exc)
                    continue
                if turn > 0:  # the first fills the store, uv's cache, and the kernel's
                    row.samples.append(took)
    finally:
        one.close()
    return note
