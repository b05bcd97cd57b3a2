"""Builds wheels and sdists for suites, with the standard library alone (and cc for an extension).

    path = wheel(folder, "Some-Thing", "1.0", modules={"some_thing.py": "VALUE = 1"}, depends=["other>=2"],
                 extras={"fast": ["other[more]"]}, scripts={"some-thing": "some_thing:main"})
    path = wheel(folder, "speedy", extension={"_speedy": 42})      # a compiled module whose VALUE is 42
    path = sdist(folder, "fromsource", at_build="print('code of the package runs')")
    path = hostile(folder, "absolute")                              # one of HOSTILE

Invariant: the same arguments give the same bytes, so a suite can name hashes; nothing outside `folder` is written,
except compiled extensions in a temporary folder of this process.
"""
from __future__ import annotations

import atexit
import base64
import gzip
import hashlib
import io
import platform
import re
import shutil
import stat
import subprocess
import tarfile
import tempfile
import warnings
import zipfile
from pathlib import Path

_WHEN = (2024, 1, 1, 0, 0, 0)
_MACHINE = platform.machine()
NATIVE_TAG = "cp38-abi3-linux_%s" % _MACHINE
PURE_TAG = "py3-none-any"


def canonical(name: str) -> str:
    """The name as an index has it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def file_name_part(name: str) -> str:
    """The name as a wheel's file name has it."""
    return re.sub(r"[-_.]+", "_", name).lower()


def sha256(path: Path | str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


# ---- metadata ----

def metadata_text(name: str, version: str, depends=(), extras: dict | None = None, requires_python: str = "") -> str:
    lines = ["Metadata-Version: 2.1", "Name: " + name, "Version: " + version, "Summary: a package of the test suite"]
    if requires_python:
        lines.append("Requires-Python: " + requires_python)
    lines += ["Requires-Dist: " + one for one in depends]
    for extra, wanted in (extras or {}).items():
        lines.append("Provides-Extra: " + extra)
        for one in wanted:
            what, _, marker = one.partition(";")
            condition = "(%s) and extra == '%s'" % (marker.strip(), extra) if marker else "extra == '%s'" % extra
            lines.append("Requires-Dist: %s ; %s" % (what.strip(), condition))
    return "\n".join(lines) + "\n\nBuilt by tests/lib/wheels.py.\n"


def metadata_of(path: Path | str) -> bytes:
    """The METADATA of a wheel, as an index offers it beside the file (PEP 658)."""
    with zipfile.ZipFile(path) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return archive.read(name)


def _record_line(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return "%s,sha256=%s,%d" % (name, digest, len(data))


# ---- extensions ----

_EXTENSION = """\
#define Py_LIMITED_API 0x03080000
#include <Python.h>
{declare}
static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, "{name}", NULL, -1, NULL, NULL, NULL, NULL, NULL}};
PyMODINIT_FUNC PyInit_{name}(void)
{{
    PyObject *m = PyModule_Create(&module);
    if (m && PyModule_AddIntConstant(m, "VALUE", {value}) < 0)
        return NULL;
    return m;
}}
"""
_built: dict[tuple, bytes] = {}
_scratch: list[str] = []


def _scratch_folder() -> Path:
    if not _scratch:
        _scratch.append(tempfile.mkdtemp(prefix="kr-wheels-"))
        atexit.register(shutil.rmtree, _scratch[0], True)
    return Path(_scratch[0])


def _compile(source: str, out: str, *more: str) -> bytes:
    folder = Path(tempfile.mkdtemp(dir=_scratch_folder()))
    (folder / "source.c").write_text(source)
    include = subprocess.run(["/usr/bin/python3", "-c", "import sysconfig; print(sysconfig.get_path('include'))"],
                             capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-s", "-I", include, "source.c", "-o", out, *more], cwd=folder,
                   check=True, timeout=120)
    return (folder / out).read_bytes()


def extension(name: str, value: int) -> bytes:
    """A compiled module (stable ABI of Python 3.8) whose VALUE is `value`."""
    key = ("extension", name, value)
    if key not in _built:
        _built[key] = _compile(_EXTENSION.format(name=name, value=value, declare=""), name + ".abi3.so")
    return _built[key]


def shared_library(name: str, value: int) -> bytes:
    """lib`name`.so with `int name_value(void)`."""
    key = ("library", name, value)
    if key not in _built:
        _built[key] = _compile("int %s_value(void) { return %d; }\n" % (name, value), "lib%s.so" % name,
                               "-Wl,-soname,lib%s.so" % name)
    return _built[key]


def linked_extension(name: str, library: str, where: str) -> bytes:
    """A compiled module whose VALUE comes from shared_library(`library`, …), which the loader finds in `where`, such as
    "$ORIGIN/../other.libs"."""
    key = ("linked", name, library, where)
    if key not in _built:
        stub = _scratch_folder() / ("lib%s.so" % library)
        stub.write_bytes(shared_library(library, 0))
        source = _EXTENSION.format(name=name, value="%s_value()" % library, declare="int %s_value(void);" % library)
        _built[key] = _compile(source, name + ".abi3.so", "-L", str(stub.parent), "-l" + library,
                               "-Wl,-rpath," + where)
    return _built[key]


# ---- wheels ----

def _put(archive: zipfile.ZipFile, name: str, data: bytes, mode: int = 0o644, kind: int = stat.S_IFREG) -> None:
    info = zipfile.ZipInfo(name, _WHEN)
    info.create_system = 3
    info.external_attr = (kind | mode) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, data)


def _padding(size: int) -> bytes:
    """Bytes that do not compress, the same ones each time."""
    out, block = bytearray(), b"krait"
    while len(out) < size:
        block = hashlib.sha512(block).digest()
        out += block * 16 if size > 1 << 24 else block
    return bytes(out[:size])


def wheel_entries(name: str, version: str, *, modules: dict | None = None, depends=(), extras: dict | None = None,
                  scripts: dict | None = None, data: dict | None = None, extension: dict | None = None, pad: int = 0,
                  requires_python: str = "", tag: str = "", metadata: str | None = None) -> dict[str, bytes]:
    """What is in a wheel, without RECORD: name → bytes, in order."""
    part = file_name_part(name)
    info, extra = "%s-%s.dist-info" % (part, version), "%s-%s.data" % (part, version)
    files: dict[str, bytes] = {}
    if modules is None and not extension:
        modules = {part + ".py": "VERSION = %r\n\n\ndef main():\n    print(%r, VERSION)\n" % (version, name)}
    for path, source in (modules or {}).items():
        files[path] = source.encode() if isinstance(source, str) else source
    for module, value in (extension or {}).items():
        folder, _, base = module.rpartition("/")
        body = value if isinstance(value, bytes) else globals()["extension"](base, value)
        files["%s%s.abi3.so" % (folder + "/" if folder else "", base)] = body
    if pad:
        files[part + "_padding.bin"] = _padding(pad)
    for path, body in (data or {}).items():  # "scripts/x", "data/share/x", "headers/x", "purelib/x"
        files["%s/%s" % (extra, path)] = body.encode() if isinstance(body, str) else body
    text = metadata if metadata is not None else metadata_text(name, version, depends, extras, requires_python)
    files[info + "/METADATA"] = text.encode()
    pure = "false" if extension else "true"
    files[info + "/WHEEL"] = ("Wheel-Version: 1.0\nGenerator: krait-tests\nRoot-Is-Purelib: %s\nTag: %s\n"
                              % (pure, tag or (NATIVE_TAG if extension else PURE_TAG))).encode()
    if scripts:
        lines = ["[console_scripts]"] + ["%s = %s" % pair for pair in scripts.items()]
        files[info + "/entry_points.txt"] = ("\n".join(lines) + "\n").encode()
    return files


def wheel(folder: Path | str, name: str, version: str = "1.0", **more) -> Path:
    """Writes a wheel, whole and correct, into the folder. The arguments are those of wheel_entries()."""
    tag = more.get("tag") or (NATIVE_TAG if more.get("extension") else PURE_TAG)
    entries = wheel_entries(name, version, **more)
    path = Path(folder) / ("%s-%s-%s.whl" % (file_name_part(name), version, tag))
    record = "%s-%s.dist-info/RECORD" % (file_name_part(name), version)
    with zipfile.ZipFile(path, "w") as archive:
        for entry, body in entries.items():
            _put(archive, entry, body, 0o755 if entry.endswith(".so") or ".data/scripts/" in entry else 0o644)
        lines = [_record_line(entry, body) for entry, body in entries.items()] + [record + ",,"]
        _put(archive, record, ("\n".join(lines) + "\n").encode())
    return path


# ---- sdists ----

_BACKEND = '''\
"""The build backend of this source distribution: it needs nothing."""
import base64, hashlib, os, zipfile

NAME, VERSION, PART, FILES = {name!r}, {version!r}, {part!r}, {files!r}


def _at_build():
{at_build}


def get_requires_for_build_wheel(config_settings=None):
    return {requires!r}


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _at_build()
    out = "%s-%s-py3-none-any.whl" % (PART, VERSION)
    record = []
    with zipfile.ZipFile(os.path.join(wheel_directory, out), "w") as archive:
        for name, text in FILES.items():
            data = text.encode()
            archive.writestr(name, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append("%s,sha256=%s,%d" % (name, digest, len(data)))
        name = "%s-%s.dist-info/RECORD" % (PART, VERSION)
        archive.writestr(name, "\\n".join(record + [name + ",,"]) + "\\n")
    return out
'''
_SETUP = """\
from setuptools import setup


def _at_build():
{at_build}


_at_build()
setup(name={name!r}, version={version!r}, py_modules=[{part!r}], install_requires={depends!r})
"""


def _indented(source: str) -> str:
    return "\n".join("    " + line for line in (source or "pass").splitlines())


def sdist(folder: Path | str, name: str, version: str = "1.0", *, modules: dict | None = None, depends=(),
          at_build: str = "", requires=(), setup_py: bool = False, pad: int = 0) -> Path:
    """A source distribution: pyproject.toml with a backend in the tree, or a setup.py. `at_build` is Python that runs
    when it is built, `requires` what the backend asks for."""
    part = file_name_part(name)
    top = "%s-%s" % (part, version)
    entries = wheel_entries(name, version, modules=modules, depends=depends)
    files = {"PKG-INFO": metadata_text(name, version, depends).encode()}
    files.update({n: b for n, b in entries.items() if ".dist-info/" not in n})
    if setup_py:
        files["setup.py"] = _SETUP.format(at_build=_indented(at_build), name=name, version=version, part=part,
                                          depends=list(depends)).encode()
    else:
        files["pyproject.toml"] = (b'[build-system]\nrequires = []\nbuild-backend = "backend"\n'
                                   b'backend-path = ["."]\n')
        files["backend.py"] = _BACKEND.format(
            name=name, version=version, part=part, files={n: b.decode() for n, b in entries.items()},
            at_build=_indented(at_build), requires=list(requires)).encode()
    if pad:
        files["padding.bin"] = _padding(pad)
    return tar_gz(Path(folder) / (top + ".tar.gz"), {"%s/%s" % (top, n): body for n, body in files.items()})


def tar_gz(path: Path, files: dict[str, bytes]) -> Path:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, body in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(body), 1704067200, 0o644
            archive.addfile(info, io.BytesIO(body))
    with open(path, "wb") as out, gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packed:
        packed.write(raw.getvalue())
    return path


# ---- hostile wheels ----
# Each row: what it does to the archive beside an ordinary module. (entry name, bytes, kind of file, mode)

_R, _L, _C, _F, _D = stat.S_IFREG, stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO, stat.S_IFDIR
_ODD_ENTRIES = {
    "absolute": [("/tmp/kr-escaped", b"x", _R, 0o644)],
    "dotdot": [("evil/../../../kr-escaped", b"x", _R, 0o644)],
    "dotdot-plain": [("../kr-escaped", b"x", _R, 0o644)],
    "dot": [("evil/./x.py", b"x", _R, 0o644)],
    "empty-part": [("evil//x.py", b"x", _R, 0o644)],
    "backslash": [("evil\\..\\..\\kr-escaped", b"x", _R, 0o644)],
    "symlink": [("evil/link", b"/etc/passwd", _L, 0o777)],
    "symlink-folder": [("evil/there", b"/tmp", _L, 0o777), ("evil/there/kr-escaped", b"x", _R, 0o644)],
    "device": [("evil/null", b"", _C, 0o666)],
    "fifo": [("evil/pipe", b"", _F, 0o666)],
    "setuid": [("evil/tool", b"#!/bin/sh\n", _R, 0o4755)],
    "control-name": [("evil/a\x01b.py", b"x", _R, 0o644)],
    "newline-name": [("evil/a\nb.py", b"x", _R, 0o644)],
    "case-clash": [("evil/Twice.py", b"A = 1\n", _R, 0o644), ("evil/twice.py", b"A = 2\n", _R, 0o644)],
    "twice": [("evil/again.py", b"A = 1\n", _R, 0o644), ("evil/again.py", b"A = 2\n", _R, 0o644)],
    "file-and-folder": [("evil/both", b"x", _R, 0o644), ("evil/both/inner.py", b"x", _R, 0o644)],
    "pth": [("evil.pth", b"import os; os.system('true')\n", _R, 0o644)],
    "data-absolute": [("evil-1.0.data/data//etc/kr-escaped", b"x", _R, 0o644)],
    "data-dotdot": [("evil-1.0.data/scripts/../../kr-escaped", b"x", _R, 0o755)],
    "data-unknown": [("evil-1.0.data/elsewhere/x", b"x", _R, 0o644)],
    "long-name": [("evil/" + "n" * 300 + ".py", b"x", _R, 0o644)],
    "deep": [("/".join(["d"] * 300) + "/x.py", b"x", _R, 0o644)],
    "other-dist-info": [("other-2.0.dist-info/METADATA", b"Name: other\nVersion: 2.0\n", _R, 0o644)],
    "bomb": [("evil/bomb.bin", b"\0" * (300 << 20), _R, 0o644)],
    "many": [("evil/f%d.py" % i, b"", _R, 0o644) for i in range(60000)],
}
_ODD_RECORDS = ("record-hash", "record-missing", "record-extra", "record-garbage", "record-absent", "record-size")
_ODD_METADATA = {
    "metadata-absent": None,
    "metadata-empty": "",
    "metadata-name": metadata_text("another", "1.0"),
    "metadata-version": metadata_text("evil", "2.0"),
    "metadata-binary": "\0\1\2\3" * 50,
    "metadata-huge": metadata_text("evil", "1.0") + "x" * (8 << 20),
    "metadata-requirement": metadata_text("evil", "1.0", ["--index-url=http://elsewhere.example x"]),
    "metadata-address": metadata_text("evil", "1.0", ["other @ http://elsewhere.example/other.whl"]),
}
_ODD_BYTES = ("not-a-zip", "truncated", "lying-size", "crc", "empty")
HOSTILE = tuple(_ODD_ENTRIES) + _ODD_RECORDS + tuple(_ODD_METADATA) + _ODD_BYTES


def _odd_record(kind: str, lines: list[str], record: str) -> str | None:
    if kind == "record-absent":
        return None
    if kind == "record-garbage":
        return "\0\xff not,a\nrecord"
    if kind == "record-hash":
        lines = [re.sub("sha256=.", "sha256=%s" % ("B" if "sha256=A" in line else "A"), line) for line in lines]
    if kind == "record-size":
        lines = [line + "0" for line in lines]
    if kind == "record-missing":
        lines = lines[1:]
    if kind == "record-extra":
        lines = lines + [_record_line("evil/not_there.py", b"x")]
    return "\n".join(lines + [record + ",,"]) + "\n"


def _odd_bytes(kind: str, data: bytes) -> bytes:
    if kind == "not-a-zip":
        return b"<html>not a wheel</html>" * 100
    if kind == "empty":
        return b""
    if kind == "truncated":
        return data[:len(data) // 2]
    at = data.index(b"PK\x01\x02")  # the first entry of the central directory
    flip = 16 if kind == "crc" else 24  # its CRC-32, or its size when unpacked
    return data[:at + flip] + bytes([data[at + flip] ^ 1]) + data[at + flip + 1:]


def hostile(folder: Path | str, kind: str, name: str = "evil", version: str = "1.0") -> Path:
    """A wheel that must be refused (`pth`, `setuid`, `case-clash`: at least handled), one of HOSTILE. Only its oddity
    is wrong: RECORD matches what is in it otherwise. The rows of entries say `evil` whatever the name is."""
    assert kind in HOSTILE, kind
    part = file_name_part(name)
    path = Path(folder) / ("%s-%s-py3-none-any.whl" % (part, version))
    entries = wheel_entries(name, version, modules={"evil/__init__.py": "HELD = False\n"})
    meta = "%s-%s.dist-info/METADATA" % (part, version)
    if kind in _ODD_METADATA:
        del entries[meta]
        text = _ODD_METADATA[kind]
        if text is not None:
            entries[meta] = text.encode("latin-1")
    rows = [(entry, body, _R, 0o644) for entry, body in entries.items()] + _ODD_ENTRIES.get(kind, [])
    record = "%s-%s.dist-info/RECORD" % (part, version)
    lines = [_record_line(entry, body) for entry, body, file_kind, _ in rows]
    text = _odd_record(kind, lines, record)
    with zipfile.ZipFile(path, "w") as archive:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the same name twice is what one of them is about
            for entry, body, file_kind, mode in rows:
                _put(archive, entry, body, mode, file_kind)
        if text is not None:
            _put(archive, record, text.encode("latin-1"))
    if kind in _ODD_BYTES:
        path.write_bytes(_odd_bytes(kind, path.read_bytes()))
    return path
