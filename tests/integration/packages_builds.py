#!/usr/bin/python3
"""Builds of source distributions: a malicious one is held, building allowed or not. Each attack writes down what it
could do, and the same attack outside of a cell is the positive control: there it can."""
from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "lib")]
import wheels
from check import check, contains, equal, main
from installing import ask, await_job, index_args, install, listed, names, site, started, uninstall
from krait_server import Server
from serving import eventually

SECRET = "a-secret-of-the-host-0123456789"

# What a hostile build tries. `found` is what it got; the wheel that it makes carries it home.
ATTACK = """
import json, os, socket, subprocess, sys
found = {}
def attempt(name, what):
    try:
        found[name] = str(what())[:300]
    except BaseException as exc:
        found[name] = None
attempt("key", lambda: open(%(key)r).read())
attempt("database", lambda: open(%(data)r + "/krait.db", "rb").read(16))
attempt("environment", lambda: [v for v in os.environ.values() if %(secret)r in v][0])
def has_secret(p):
    try:
        environ = open("/proc/%%s/environ" %% p, "rb").read() if p.isdigit() else b""
        return %(secret)r.encode() in environ and int(p) != os.getpid()
    except OSError:
        return False
attempt("others", lambda: [p for p in os.listdir("/proc") if has_secret(p)][0])
attempt("network", lambda: socket.create_connection(("127.0.0.1", %(port)d), 3).sendall(b"x") or "sent")
attempt("written", lambda: open(%(outside)r, "w").write("x"))
attempt("venv", lambda: open("/venv/current/planted", "w").write("x"))
attempt("store", lambda: os.listdir("/krait/packages") or 1/0)
subprocess.Popen([sys.executable, "-c", "import time; %(mark)r; time.sleep(600)"], stdin=subprocess.DEVNULL,
                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
found["ran"] = "yes"
"""

class Trap:
    """A listener on the host's loopback, which hears whether something reached it."""

    def __enter__(self) -> "Trap":
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port, self.hits = self.socket.getsockname()[1], 0
        self.socket.settimeout(0.2)
        self.open = True
        self.thread = threading.Thread(target=self._listen)
        self.thread.start()
        return self

    def _listen(self) -> None:
        while self.open:
            with contextlib.suppress(OSError):
                self.socket.accept()[0].close()
                self.hits += 1

    def __exit__(self, *_rest) -> None:
        self.open = False
        self.thread.join()
        self.socket.close()


def attack_of(key: Path, data: str, port: int, outside: Path, mark: str) -> str:
    return ATTACK % {"key": str(key), "data": data, "secret": SECRET, "port": port, "outside": str(outside),
                     "mark": mark}


def processes_with(mark: str) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark.encode() in Path("/proc/%s/cmdline" % name).read_bytes():
                    found.append(int(name))
    return found


@contextlib.contextmanager
def scene(*args: str):
    """A server, its index, a key of the host's, a trap, and the text of the attack."""
    with site() as (index, folder), tempfile.TemporaryDirectory(prefix="kr-host-") as host, Trap() as trap:
        key = Path(host) / "key"
        key.write_text(SECRET)
        mark = "kr_build_%d_%d" % (os.getpid(), time.monotonic_ns())
        with Server(args=index_args(index, *args), env={"SOME_SECRET": SECRET}) as s:
            text = attack_of(key, os.path.join(s.data, "data"), trap.port, Path(host) / "planted", mark)
            yield s, index, folder, text, trap, Path(host), mark


def found_by(result: dict) -> dict:
    """What the attack says that it got, from the error that it ends with."""
    for line in result["error"].splitlines():
        if "FOUND {" in line:
            return json.JSONDecoder().raw_decode(line[line.index("FOUND {") + 6:])[0]
    raise AssertionError("the attack did not run: " + result["error"])


@check
def the_attack_works_where_nothing_holds_it() -> None:
    """The positive control: the same text, run by an ordinary Python of the host."""
    with scene() as (_s, _index, folder, text, trap, host, mark):
        script = folder / "control.py"
        script.write_text(text + "\nprint(json.dumps(found))\n")
        holder = subprocess.Popen(["sleep", "60"], env={"PATH": "/usr/bin:/bin", "SOME_SECRET": SECRET})
        done = subprocess.run([sys.executable, str(script)], env={"PATH": "/usr/bin:/bin", "SOME_SECRET": SECRET},
                              capture_output=True, text=True, timeout=60)
        holder.kill()
        holder.wait()
        found = json.loads(done.stdout)
        equal([found[name] is not None for name in ("key", "environment", "others", "network", "written", "ran")],
              [True] * 6, str(found))
        eventually(lambda: trap.hits, 10, "the trap heard it")
        left = eventually(lambda: processes_with(mark), 10, "it stays on")
        for pid in left:
            os.kill(pid, 9)
        assert (host / "planted").exists()


def add_malicious(index, folder: Path, text: str, only_at_build: bool = False, **how) -> None:
    """It says what it has got by failing: at once, while the resolver asks for metadata, or only in the cell of the
    build (whose HOME is /tmp), so that it gets that far."""
    when = "os.environ.get('HOME') == '/tmp'" if only_at_build else "True"
    fail = "if %s:\n    raise RuntimeError('FOUND ' + json.dumps(found))\n" % when
    index.add(wheels.sdist(folder, "malicious", at_build=text + fail, **how))


@check
def a_malicious_source_is_not_run_where_building_is_not_allowed() -> None:
    with scene() as (s, index, folder, text, trap, host, mark):
        add_malicious(index, folder, text)
        done = install(s, "malicious")
        equal((done["ok"], done["kind"]), (False, "needs_build"))
        equal(ask(s, "malicious", build=True).status, 403)
        equal((trap.hits, processes_with(mark), (host / "planted").exists()), (0, [], False))
        equal(listed(s), {})


@check
def a_malicious_build_is_held() -> None:
    for setup_py, only_at_build in ((False, False), (False, True), (True, False)):
        with scene("--packages-allow-build=true") as (s, index, folder, text, trap, host, mark):
            add_malicious(index, folder, text, only_at_build, setup_py=setup_py)
            index.add(wheels.sdist(folder, "harmless", modules={"harmless.py": "VALUE = 4\n"}))
            made = s.post("/api/v1/sandboxes", {"name": "builder", "allow_build": "yes"}).json()["id"]
            holder = subprocess.Popen(["sleep", "100"], env={"PATH": "/usr/bin:/bin", "SOME_SECRET": SECRET})
            done = install(s, "malicious", sandbox=made)
            holder.kill()
            holder.wait()
            equal((done["ok"], done["kind"]), (False, "build"), str(done))
            equal("building malicious-1.0.tar.gz" in done["output"], only_at_build, done["output"])
            if not setup_py:  # an old setup.py may need a setuptools that the index has not
                found = found_by(done)
                equal(found.pop("ran"), "yes")
                equal(found, {name: None for name in found}, "nothing was got")
            equal((trap.hits, (host / "planted").exists()), (0, False))
            eventually(lambda: not processes_with(mark), 20, "nothing stays on")
            good = install(s, "harmless", sandbox=made)
            assert good["ok"], good
            equal(s.run("import harmless; print(harmless.VALUE)", sandbox=made)["stdout"], "4\n")
            equal(good["installed"][0]["index"], "")


@check
def a_build_that_lies_about_its_wheel_is_refused() -> None:
    """It prints the server's lines itself: a wheel of another name, then one that is none."""
    lie = ("import sys, json\n"
           "for fd in (1, 2):\n"
           "    pass\n"
           "sys.__stdout__.write(json.dumps({'wheel': 'requests-99.0-py3-none-any.whl', 'bytes': 5}) + '\\n')\n")
    with scene("--packages-allow-build=true") as (s, index, folder, *_rest):
        index.add(wheels.sdist(folder, "liar", at_build=lie, modules={"liar.py": "VALUE = 5\n"}))
        made = s.post("/api/v1/sandboxes", {"name": "builder", "allow_build": "yes"}).json()["id"]
        done = install(s, "liar", sandbox=made)
        assert "requests" not in listed(s, made), done


@check
def a_resolution_with_a_built_package_is_for_its_own_kind() -> None:
    """What was built can ask for anything; who has the index's wheel of that version gets another answer."""
    with scene("--packages-allow-build=true") as (s, index, folder, *_rest):
        index.add(wheels.wheel(folder, "planted"))
        index.add(wheels.wheel(folder, "asker", depends=["paired-thing==1.0"]))
        index.add(wheels.sdist(folder, "paired-thing", depends=["planted"]))
        made = s.post("/api/v1/sandboxes", {"name": "builder", "allow_build": "yes"}).json()["id"]
        assert install(s, "paired-thing", sandbox=made)["ok"] and uninstall(s, "planted", sandbox=made)["ok"]
        s.patch("/api/v1/sandboxes/" + made, {"allow_build": "no"})
        index.add(wheels.wheel(folder, "paired-thing"))
        assert install(s, "paired-thing")["ok"]
        equal((listed(s), listed(s, made)), ({"paired-thing": "1.0"}, {"paired-thing": "1.0"}))
        equal(names(install(s, "asker", sandbox=made)), ["asker", "planted"])
        equal(names(install(s, "asker")), ["asker"])


@check
def what_was_built_counts() -> None:
    with scene("--packages-allow-build=true", "--packages-max-files=20") as (s, index, folder, *_rest):
        for name in ("first-half", "second-half"):
            part = name.replace("-", "_")
            index.add(wheels.sdist(folder, name, modules={"%s/f%d.py" % (part, i): "" for i in range(8)}))
        made = s.post("/api/v1/sandboxes", {"name": "builder", "allow_build": "yes"}).json()["id"]
        assert install(s, "first-half", sandbox=made)["ok"]
        done = install(s, "second-half", sandbox=made)
        equal((done["ok"], done["kind"]), (False, "too_large"), str(done))


@check
def a_build_is_cancelled() -> None:
    with scene("--packages-allow-build=true") as (s, index, folder, _text, _trap, _host, mark):
        index.add(wheels.sdist(folder, "sleepy", at_build="import time; %r; time.sleep(300)" % mark))
        made = s.post("/api/v1/sandboxes", {"name": "builder", "allow_build": "yes"}).json()["id"]
        job = started(ask(s, "sleepy", sandbox=made))
        time.sleep(3)
        equal(s.delete("/api/v1/jobs/" + job).status // 100, 2)
        equal(await_job(s, job)["cause"], "cancelled")
        contains(str(install(s, "not-there", sandbox=made)["kind"]), "not_found")


main()
