"""The tests of other projects inside a session as outside it: every difference is listed, with why it is right.

Outside they run as an ordinary user in a network namespace with lo only; inside under rule `loopback`. A test that ends
otherwise inside than outside is a FAIL unless a row of the suite names it; a row that no longer differs is one too, so
that the list stays true. Used by tests/cpython/run and tests/libraries/run.
"""
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
KRAIT = os.environ.get("KRAIT", str(ROOT / "build/krait"))
PYTHON = "/usr/bin/python3"
TIMEOUT_S = 900  # minutes on a quiet machine; many times that beside other work
AGAIN = 2
UID = "54321"


def results(path: Path) -> dict:
    """Test name -> ok, skipped, failed. pytest has the class beside the name."""
    found = {}
    for case in ET.parse(path).getroot().iter("testcase"):
        name = ".".join(filter(None, (case.get("classname"), case.get("name"))))
        word = "ok"
        if case.find("skipped") is not None or case.get("result") == "skipped" or case.get("status") == "notrun":
            word = "skipped"
        if case.find("failure") is not None or case.find("error") is not None:
            word = "failed"
        found[name] = word
    return found


def outside(argv: list, folder: Path) -> subprocess.CompletedProcess:
    inner = "exec setpriv --reuid %s --regid %s --clear-groups env -i PATH=/usr/bin:/bin HOME=%s LANG=C.UTF-8 %s" % (
        UID, UID, folder, shlex.join([PYTHON] + argv))
    return subprocess.run(["unshare", "-n", "sh", "-c",
                           "ip link set lo up 2>/dev/null || true; ulimit -n 1024; cd %s; %s" % (folder, inner)],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S)


def inside(argv: list, folder: Path) -> subprocess.CompletedProcess:
    code = "import subprocess, sys; sys.exit(subprocess.run(%r).returncode)" % ([PYTHON] + argv,)
    return subprocess.run([KRAIT, "run", "--network", "loopback", "--memory", "2G", "--processes", "512",
                           "--open-files", "1024", "--disk", "1G", "--cpu", "2", "--timeout", "%ds" % TIMEOUT_S,
                           "--workspace", str(folder), "-c", code],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S + 30)


def differences(out: dict, into: dict) -> dict:
    """What goes well inside is no difference: outside is a busy machine with much on it, where tests of others fail."""
    return {name: (out.get(name, "absent"), into.get(name, "absent")) for name in sorted(set(out) | set(into))
            if into.get(name) not in ("ok", out.get(name))}


class Comparison:
    """`command`: a module and the path of its results -> the interpreter's arguments; `different`: (module, pattern
    over the rest of a test's name, why inside is right to differ)."""

    def __init__(self, suite: str, command, different: tuple) -> None:
        self.suite, self.command, self.different = suite, command, different
        self.base = Path(tempfile.mkdtemp(prefix="krait-%s-" % suite, dir="/var/tmp"))
        self.base.chmod(0o755)

    def why(self, module: str, name: str):
        return next((why for of, pattern, why in self.different if of == module and re.search(pattern, name)), None)

    def run(self, where, module: str, turn: int = 0) -> dict:
        folder = self.base / ("%s-%s-%d" % (where.__name__, module, turn))
        folder.mkdir()
        os.chown(folder, int(UID), int(UID))
        seen = "/workspace" if where is inside else str(folder)
        done = where(self.command(module, seen + "/results.xml"), folder)
        path = folder / "results.xml"
        if not path.exists():
            raise RuntimeError("%s %s left no results: %s" % (where.__name__, module,
                                                              (done.stdout + done.stderr)[-2000:]))
        return results(path)

    def settle(self, module: str, out: dict, into: dict) -> dict:
        """The differences that stay. Tests of others have races, which lose on a busy machine inside or outside alike:
        what is not listed is tried again, and counts if it differs in the same way each time. So does a row that
        nothing differs by."""
        differ = differences(out, into)
        for turn in range(1, AGAIN + 1):
            strange = [name for name in differ if self.why(module, name) is None]
            if not strange and not self.idle_rows(module, differ):
                break
            print("# %s: tried again for %s" % (module, ", ".join(strange + self.idle_rows(module, differ))[:300]))
            now = differences(self.run(outside, module, turn), self.run(inside, module, turn))
            differ = {name: how for name, how in differ.items()
                      if self.why(module, name) is not None or now.get(name) == how}
            differ.update((name, how) for name, how in now.items() if self.why(module, name) is not None)
        return differ

    def idle_rows(self, module: str, differ: dict) -> list:
        return [pattern for of, pattern, _why in self.different
                if of == module and not any(re.search(pattern, name) for name in differ)]

    def judge(self, module: str, out: dict, differ: dict) -> bool:
        wrong = []
        for name, (o, i) in differ.items():
            why = self.why(module, name)
            if why is None:
                wrong.append("%s: outside %s, inside %s" % (name, o, i))
            else:
                print("# %s: outside %s, inside %s: %s" % (name, o, i, why))
        wrong += ["%s: no test differs by the row %s any more" % (module, row) for row in self.idle_rows(module, differ)]
        if all(word != "ok" for word in out.values()):
            wrong.append("%s: nothing ran outside" % module)
        for text in wrong:
            print("FAIL %s:%s" % (self.suite, text))
        if not wrong:
            print("PASS %s:%s (%d tests, %d different and listed)" % (self.suite, module, len(out), len(differ)))
        sys.stdout.flush()
        return not wrong

    def compare(self, modules: list) -> int:
        good = True
        try:
            with ThreadPoolExecutor(2) as pool:
                jobs = [(m, pool.submit(self.run, outside, m), pool.submit(self.run, inside, m)) for m in modules]
                for module, out, into in jobs:
                    try:
                        good &= self.judge(module, out.result(), self.settle(module, out.result(), into.result()))
                    except Exception as exc:
                        good = False
                        print("FAIL %s:%s: %s" % (self.suite, module, str(exc).replace("\n", " | ")[-1500:]))
        finally:
            shutil.rmtree(self.base, ignore_errors=True)
        return 0 if good else 1
