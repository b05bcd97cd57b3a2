"""What a zygote has imported before it forks: `basic` (the standard library models use), `data`
(numpy, pandas, scipy, matplotlib too) or `template` (basic, and modules of a template's packages).

boot.py calls imports() and then runs WARM once, so that lazily made state lies in the shared
pages. Invariants: one thread afterwards; packages of a template are imported after confine(), and
a zygote in which they leave what a fork would share does not serve.
"""
import importlib
import json
import os
import subprocess
import sys

BASIC = """
abc argparse array asyncio base64 bisect calendar cmath collections collections.abc
concurrent.futures contextlib copy csv ctypes dataclasses datetime decimal difflib enum fractions
functools getpass glob hashlib heapq hmac html importlib inspect io itertools json linecache
logging math operator os pathlib pickle platform pprint queue random re secrets shlex shutil
signal socket statistics string struct subprocess sys tempfile textwrap threading time timeit
traceback types typing unicodedata urllib.parse uuid warnings weakref xml.etree.ElementTree
zipfile zlib
""".split()

# Package of Debian -> modules of it that are imported.
DATA = {
    "python3-numpy": (
        "numpy",
        "numpy.random",
        "numpy.linalg",
        "numpy.fft",
        "numpy.ma",
        "numpy.polynomial",
    ),
    "python3-pandas": ("pandas",),
    "python3-scipy": (
        "scipy",
        "scipy.linalg",
        "scipy.optimize",
        "scipy.stats",
        "scipy.sparse",
        "scipy.interpolate",
        "scipy.integrate",
        "scipy.signal",
        "scipy.special",
        "scipy.spatial",
        "scipy.ndimage",
    ),
    "python3-matplotlib": (
        "matplotlib",
        "matplotlib.pyplot",
        "matplotlib.backends.backend_agg",
        "matplotlib.dates",
    ),
}
THREADS = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "BLIS_NUM_THREADS",
)

# Snippets of the kind models write, run once each in the zygote. Two of them fail, on purpose.
_WARM_BASIC = (
    """
import math
x = [i * i for i in range(10)]
print(x, f'{math.pi:.3f}', 'é')
class C:
    def f(self):
        return {'a': 1}
C().f()
""",
    """
import sys
print('e', file=sys.stderr)
def f():
    raise ValueError('x')
f()
""",
    """
import asyncio
async def f():
    await asyncio.sleep(0)
    return 1
await f()
""",
    """
import json, re, random, datetime
json.loads(json.dumps({'a': [1, 2.5, None]}))
re.sub('[0-9]+', 'x', 'a1')
str(datetime.datetime.now())
""",
    "x = =",
)
_WARM_DATA = (
    """
import numpy as np
a = np.arange(12.0).reshape(3, 4)
print(a.mean(axis=0), (a @ a.T).sum())
a
""",
    """
import pandas as pd
d = pd.DataFrame({'a': [1, 2, 3], 'b': list('xyx')})
print(d.describe())
d.groupby('b').sum()
""",
    """
import matplotlib.pyplot as plt
fig, ax = plt.subplots()
ax.plot([1, 2, 3], label='l')
ax.bar([1, 2], [3, 4])
ax.set_title('t 中')
ax.set_xlabel('x')
ax.legend()
fig
""",
)
WARM = {"basic": _WARM_BASIC, "data": _WARM_BASIC + _WARM_DATA, "template": _WARM_BASIC}
VENV = "/venv"
REQUESTED_MAX = 64
NOT_WANTED = {"test", "tests", "testing", "doc", "docs", "example", "examples"}


class PreloadError(Exception):
    """A preload that cannot be had on this machine."""


def imports(name: str, modules: str = "") -> None:
    """modules: of a template, with commas; "": those of the distributions that were asked for."""
    if name not in WARM:
        raise PreloadError(
            "there is no preload %r; there are %s" % (name, " and ".join(sorted(WARM)))
        )
    for variable in THREADS:
        os.environ[variable] = "1"
    os.environ.setdefault("MPLCONFIGDIR", "/tmp/.matplotlib")
    for module in BASIC:
        try:
            importlib.import_module(module)
        except ImportError:
            pass  # an interpreter built without it: user code gets the same error
    _plain_children()
    if name == "data":
        for package, modules in DATA.items():
            for module in modules:
                _need(module, package)
    if name == "template":
        _template(modules)


def add_site(site: str) -> None:
    """Packages of an environment come before those of the system."""
    others = [one for one in sys.path if one.endswith(("/site-packages", "/dist-packages"))]
    if site not in sys.path:
        sys.path.insert(sys.path.index(others[0]) if others else len(sys.path), site)


def _requested() -> list:
    """Modules of the distributions that were asked for, not of what those need."""
    with open(VENV + "/current/krait.json", encoding="utf-8") as file:
        items = json.load(file)["items"]
    found = [
        module
        for item in items
        if item.get("requested")
        for module in item.get("modules") or ()
        if not module.startswith("_") and module not in NOT_WANTED
    ]
    return found[:REQUESTED_MAX]


def _template(modules: str) -> None:
    """Runs code of packages: after confine(), which is for good."""
    import _krait

    add_site("%s/lib/python%d.%d/site-packages" % ((VENV,) + sys.version_info[:2]))
    named = [one for one in modules.split(",") if one]
    wanted = named or _requested()
    before = _descriptors()
    failed = []
    _krait.confine()
    for module in wanted:
        try:
            importlib.import_module(module)
        except BaseException as exc:  # of code that is not ours: SystemExit, too
            failed.append("%s: %s: %.100s" % (module, type(exc).__name__, exc))
    if failed and (named or len(failed) == len(wanted)):
        raise PreloadError("cannot import %s" % failed[0])
    if not wanted:
        raise PreloadError("no module of its packages is to be imported")
    left = _left(before)
    if left:
        raise PreloadError("after its imports there is %s" % left)


def _descriptors() -> set:
    numbers = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            os.fstat(int(name))  # that of the listing is closed by now
            numbers.add(int(name))
        except OSError:
            pass
    return numbers


def _left(before: set) -> str:
    """What the sessions of all users would share with the zygote, or with each other; "": nothing."""
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        return "a thread: %d of them" % threads
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass  # one that has ended
        return "a child process"
    except ChildProcessError:
        pass
    opened = sorted(_descriptors() - before)
    if opened:
        return "an open descriptor: %s" % os.readlink("/proc/self/fd/%d" % opened[0])
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            fields = line.split(None, 5)
            if "w" in fields[1] and "s" in fields[1]:
                return "a shared writable mapping: %s" % fields[-1].strip()
    return ""


def _need(module: str, package: str) -> None:
    try:
        importlib.import_module(module)
    except ImportError as exc:
        raise PreloadError(
            "preload data needs %s, which this Python cannot import (%s); "
            "on Debian: apt-get install %s" % (module, exc, package)
        ) from exc


def _plain_children() -> None:
    """We run with -I and -S, which multiprocessing would hand on to the interpreters it starts;
    those must be normal ones.
    """
    flags = subprocess._args_from_interpreter_flags

    def _args_from_interpreter_flags():
        return [one for one in flags() if one not in ("-I", "-S", "-s", "-E", "-P")]

    subprocess._args_from_interpreter_flags = _args_from_interpreter_flags
