"""What a zygote has imported before it forks: `basic` (the standard library models use) or
`data` (numpy, pandas, scipy, matplotlib too).

boot.py calls imports() and then runs WARM once, so that lazily made state lies in the shared
pages. Invariant: one thread afterwards.
"""
import importlib
import os
import subprocess

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
WARM = {"basic": _WARM_BASIC, "data": _WARM_BASIC + _WARM_DATA}


class PreloadError(Exception):
    """A preload that cannot be had on this machine."""


def imports(name: str) -> None:
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
