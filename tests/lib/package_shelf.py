"""An index with what the documents' rows install: small packages under the names that the documents use (of versions
that no machine has), under names of our own (which no machine has), one that is slow, one that is large, and those that
must not come in. Built once for a suite, served on loopback until its end.

    s = kept(args=[*DIALECT, *shelf().args()])
    s.post("/pip_install", {"package": "requests"})
    shelf().index.count("/files/…")
"""
from __future__ import annotations

import atexit
import functools
import tempfile
from pathlib import Path

import wheels
from index import Index

NUMPY = "__version__ = %r\n\n\nclass random:\n    @staticmethod\n    def rand(n):\n        return [0.5] * n\n"
SLOW = 6000  # bytes a second
SLOW_PAD = 60_000  # so that it takes longer than any answer waits, and ends


class Shelf:
    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="kr-wheels-")
        self.index = Index()
        self.index.__enter__()
        for version in ("2.27.0", "2.31.0", "2.99.0"):
            self.add("requests", version, depends=["idna>=2", "urllib3>=1.26"])
        self.add("idna", "9.9")
        self.add("urllib3", "9.0.7")
        self.add("tiny", "9.9")
        self.add("tiny-two", "1.0")
        for version in ("1.24.0", "9.26.4"):
            self.add("numpy", version, modules={"numpy/__init__.py": NUMPY % version})
        for name, depends in (("pandas", ["numpy>=1"]), ("matplotlib", ["numpy"]), ("seaborn", ["pandas", "matplotlib"])):
            self.add(name, "9.1.0", depends=depends)
        self.add("with-extras", "1.0", extras={"fast": ["speedy"]})
        self.add("speedy", "1.0", extension={"_speedy": 42})
        self.add("large", "1.0", pad=2_000_000)
        for name in ("slow", "slow-alone", "slow-cancelled", "slow-joined", "slow-task"):  # the store keeps each
            self.add(name, "1.0", pad=SLOW_PAD)
            self.index.fault(wheels.file_name_part(name) + "-1.0-py3-none-any.whl", slow=SLOW)
        self.add("altered", "1.0")
        self.index.fault("altered-1.0-py3-none-any.whl", wrong_hash=True)
        self.add("cut-off", "1.0", pad=20_000)
        self.index.fault("cut_off-1.0-py3-none-any.whl", cut=500)
        self.add("foo", "1.0")
        self.index.add(wheels.sdist(self.folder.name, "fromsource"))
        self.add("reqeusts", "1.0")

    def add(self, name: str, version: str, **more) -> None:
        self.index.add(wheels.wheel(Path(self.folder.name), name, version, **more))

    def args(self, *more: str) -> list[str]:
        return ["--pypi-index-url", self.index.url, *more]

    def close(self) -> None:
        self.index.__exit__()
        self.folder.cleanup()


@functools.lru_cache(maxsize=1)
def shelf() -> Shelf:
    one = Shelf()
    atexit.register(one.close)
    return one
