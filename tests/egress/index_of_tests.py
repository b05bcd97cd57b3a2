#!/usr/bin/python3
"""The index and the wheels that the suites use (tests/lib/index.py, wheels.py) are what pip takes them for: Debian's own
pip and zipfile are the judges, outside of any sandbox."""
from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import wheels  # noqa: E402
from check import check, contains, equal, main  # noqa: E402
from index import Index  # noqa: E402
from test_ca import TestCa  # noqa: E402

PYTHON = "/usr/bin/python3"
JSON = "application/vnd.pypi.simple.v1+json"


def pip(*args: str, ok: bool = True, index: str = "") -> str:
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PIP_CONFIG_FILE": "/dev/null", "LC_ALL": "C.UTF-8",
           "PIP_NO_CACHE_DIR": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_RETRIES": "0", "NO_PROXY": "*"}
    where = ["--index-url", index] if index else []
    done = subprocess.run([PYTHON, "-m", "pip", *args, *where], env=env, capture_output=True, text=True, timeout=120)
    text = done.stdout + done.stderr
    assert (done.returncode == 0) == ok, text[-2000:]
    return text


def download(index: Index, *what: str, ok: bool = True, more: tuple = ()) -> tuple[set, str]:
    """The names of the files that pip gets, and what it says."""
    with tempfile.TemporaryDirectory() as folder:
        text = pip("download", "--dest", folder, *more, *what, ok=ok, index=index.url)
        return {p.name for p in Path(folder).iterdir()}, text


def get(url: str, **headers: str) -> tuple[int, bytes, dict]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, headers=headers), timeout=20) as reply:
            return reply.status, reply.read(), dict(reply.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), dict(error.headers)


def in_folder(function):
    def with_folder():
        with tempfile.TemporaryDirectory(prefix="kr-index-") as folder:
            function(Path(folder))
    with_folder.__name__ = function.__name__
    return check(with_folder)


@in_folder
def pip_resolves_dependencies_and_extras(folder: Path):
    with Index() as index:
        index.add(wheels.wheel(folder, "Top.Thing", "1.2", depends=["base>=2"], extras={"fast": ["quick"]}))
        index.add(wheels.wheel(folder, "base", "1.0"))
        index.add(wheels.wheel(folder, "base", "2.5"))
        index.add(wheels.wheel(folder, "quick"))
        got, _ = download(index, "top-thing")
        equal(got, {"top_thing-1.2-py3-none-any.whl", "base-2.5-py3-none-any.whl"})
        equal(index.count("/files/base-1.0-py3-none-any.whl"), 0)
        got, _ = download(index, "top-thing[fast]")
        equal(len(got), 3)
        equal(index.count("/simple/quick/"), 1)
        _, text = download(index, "no-such-thing", ok=False)
        contains(text, "No matching distribution")


@in_folder
def pip_installs_what_wheels_py_builds(folder: Path):
    wheels.wheel(folder, "tool", scripts={"tool": "tool:main"}, data={"data/share/tool.txt": "x"})
    wheels.wheel(folder, "speedy", extension={"_speedy": 42})
    wheels.wheel(folder, "holder", modules={"holder/__init__.py": ""},
                 data={"platlib/holder.libs/libdeep.so": wheels.shared_library("deep", 7)},
                 extension={"holder/_deep": wheels.linked_extension("_deep", "deep", "$ORIGIN/../holder.libs")})
    wheels.sdist(folder, "fromsource", depends=["tool"])
    at = folder / "there"
    pip("install", "--no-index", "--find-links", str(folder), "--target", str(at), "tool", "speedy", "holder",
        "fromsource")
    code = ("import tool, _speedy, fromsource, holder._deep; "
            "print(tool.VERSION, _speedy.VALUE, fromsource.VERSION, holder._deep.VALUE)")
    done = subprocess.run([PYTHON, "-c", code], env={"PYTHONPATH": str(at)}, capture_output=True, text=True, timeout=60)
    equal(done.stdout.strip(), "1.0 42 1.0 7", done.stderr[-500:])
    assert (at / "bin/tool").exists() and (at / "share/tool.txt").exists()


@in_folder
def code_of_an_sdist_runs_when_it_is_built(folder: Path):
    mark = folder / "mark"
    with Index() as index:
        index.add(wheels.sdist(folder, "marker", at_build="open(%r, 'w').write('built')" % str(mark)))
        download(index, "marker", ok=False, more=("--only-binary", ":all:"))
        assert not mark.exists()
        pip("wheel", "--no-deps", "--wheel-dir", str(folder), "marker", index=index.url)
        equal(mark.read_text(), "built")
        assert (folder / "marker-1.0-py3-none-any.whl").exists()


@in_folder
def pages_have_both_forms(folder: Path):
    with Index() as index:
        one = index.add(wheels.wheel(folder, "thing"), yanked="bad <one>", requires_python=">=3.8")
        _, page, headers = get(index.url + "thing/")
        contains(headers["Content-Type"], "text/html")
        for part in ("#sha256=" + one.sha256, 'data-yanked="bad &lt;one&gt;"', 'data-requires-python="&gt;=3.8"',
                     'data-dist-info-metadata="sha256='):
            contains(page.decode(), part)
        _, page, headers = get(index.url + "thing/", Accept=JSON)
        equal(headers["Content-Type"], JSON)
        row = json.loads(page)["files"][0]
        equal((row["hashes"]["sha256"], row["yanked"], row["requires-python"]), (one.sha256, "bad <one>", ">=3.8"))
        status, text, _ = get(index.file_url(one.name) + ".metadata")
        equal((status, hashlib.sha256(text).hexdigest()), (200, row["core-metadata"]["sha256"]))
        equal(get(index.url + "nothing/")[0], 404)


@in_folder
def pip_sees_yanked_and_requires_python(folder: Path):
    with Index() as index:
        index.add(wheels.wheel(folder, "thing", "1.0"))
        index.add(wheels.wheel(folder, "thing", "2.0"), yanked="")
        index.add(wheels.wheel(folder, "thing", "3.0"), requires_python=">=9")
        equal(download(index, "thing")[0], {"thing-1.0-py3-none-any.whl"})
        equal(download(index, "thing==2.0")[0], {"thing-2.0-py3-none-any.whl"})


@in_folder
def faults_are_felt(folder: Path):
    name = "thing-1.0-py3-none-any.whl"
    with Index() as index:
        file = index.add(wheels.wheel(folder, "thing", pad=200_000))
        equal(download(index, "thing")[0], {name})
        for fault in ({"wrong_hash": True}, {"status": 404}, {"status": 500}, {"body": b"junk"}):
            index.fault(name, **fault)
            assert not download(index, "thing", ok=False)[0], fault
        index.fault(name, slow=200_000)
        began = time.monotonic()
        equal(get(index.file_url(name))[1], file.data)
        assert time.monotonic() - began > 0.8
        for fault in ({"no_length": True}, {"chunked": True}, {"redirect": index.file_url(name) + "?"}):
            index.fault(name, **fault)
            if "redirect" in fault:
                index.add(folder / name, name="other.whl")
                index.fault(name, redirect=index.file_url("other.whl"))
            equal(get(index.file_url(name))[1], file.data, str(fault))
        index.fault(name, cut=1000)
        try:
            got = get(index.file_url(name))[1]
        except Exception as error:  # http.client.IncompleteRead
            got = getattr(error, "partial", b"")
        equal(len(got), 1000)
        index.fault(name, status=503, times=1)
        equal([get(index.file_url(name))[0] for _ in range(2)], [503, 200])
        index.fault("/simple/thing/", status=500)
        equal(get(index.url + "thing/")[0], 500)


@in_folder
def credentials_are_asked_for(folder: Path):
    with Index(auth=("user", "p:w/d"), apart=True) as index:
        index.add(wheels.wheel(folder, "thing"))
        equal(download(index, "thing")[0], {"thing-1.0-py3-none-any.whl"})
        equal(get(index.plain_url + "thing/")[0], 401)
        word = base64.b64encode(b"user:p:w/d").decode()
        equal(get(index.plain_url + "thing/", Authorization="Basic " + word)[0], 200)
        equal(get(index.file_url("thing-1.0-py3-none-any.whl"))[0], 200)
        assert index.port != index.files_port


@in_folder
def tls_is_checked(folder: Path):
    ca = TestCa()
    with Index(tls=ca) as index:
        index.add(wheels.wheel(folder, "thing"))
        equal(download(index, "thing", more=("--cert", str(ca.pem)))[0], {"thing-1.0-py3-none-any.whl"})
        _, text = download(index, "thing", ok=False)
        contains(text, "CERTIFICATE_VERIFY_FAILED")
    with Index(tls=TestCa(name="Another CA")) as index:
        index.add(folder / "thing-1.0-py3-none-any.whl")
        download(index, "thing", more=("--cert", str(ca.pem)), ok=False)


@in_folder
def hostile_wheels_are_what_they_say(folder: Path):
    for kind in wheels.HOSTILE:
        if kind in ("bomb", "many"):
            continue  # as the others, but slow to write
        path = wheels.hostile(folder, kind)
        if kind in ("not-a-zip", "empty", "truncated"):
            assert not zipfile.is_zipfile(path), kind
            continue
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            bad = None
            try:
                bad = archive.testzip()
            except zipfile.BadZipFile:
                bad = "size"
        equal(bool(bad), kind in ("crc", "lying-size"), kind)
        assert "evil/__init__.py" in names, kind
        equal("evil-1.0.dist-info/RECORD" in names, kind != "record-absent", kind)
        equal("evil-1.0.dist-info/METADATA" in names, kind != "metadata-absent", kind)


@in_folder
def the_same_arguments_give_the_same_bytes(folder: Path):
    for make in (wheels.wheel, wheels.sdist):
        first = wheels.sha256(make(folder, "thing", pad=5000))
        equal(wheels.sha256(make(folder, "thing", pad=5000)), first)
        assert wheels.sha256(make(folder, "thing", pad=5001)) != first


main()
