"""Builds a wheel of a source distribution of the index, with pip.

The server runs this file as ordinary code in a cell of its own with the rule `index`, which is
thrown away afterwards. The request is the global REQUEST:

    {"url": "http://127.0.0.1:3128/index/file/…", "sha256": "…" or null, "file": "x-1.0.tar.gz",
     "index": "http://127.0.0.1:3128/index/simple/"}

It prints lines of JSON: {"progress": text}, then {"wheel": name, "bytes": n}, {"data": base64} as
often as it takes and {"end": true}, or {"error": text}. The archive's hash is checked before
anything in it runs; from then on all that is printed may be the package's own word, and the server
takes the wheel for no more than that.
"""
import base64
import hashlib
import json
import os
import subprocess
import sys
import urllib.request

VENV = "/venv"
WHEELED_PIP = "/usr/share/python-wheels"  # Debian's python3-pip-whl
PIECE = 48 << 10
TAIL = 3000  # characters of what a build has said last
TIMEOUT = 60  # seconds without a byte from the index


class Trouble(Exception):
    """It cannot be built."""


def put(value):
    print(json.dumps(value), flush=True)


def pip_command():
    """The system's pip, never one of /venv."""
    for folder in sys.path:
        if folder.startswith(VENV) or not os.path.isdir(os.path.join(folder, "pip")):
            continue
        return [sys.executable, os.path.join(folder, "pip")]
    try:
        wheels = [one for one in os.listdir(WHEELED_PIP) if one.startswith("pip-")]
        return [sys.executable, os.path.join(WHEELED_PIP, wheels[0], "pip")]
    except (OSError, IndexError):
        raise Trouble("pip is not installed on the server") from None


def fetch(request):
    path = os.path.join("/tmp", os.path.basename(request["file"]))
    digest = hashlib.sha256()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request["url"], timeout=TIMEOUT) as answer, open(path, "wb") as file:
        for piece in iter(lambda: answer.read(1 << 16), b""):
            digest.update(piece)
            file.write(piece)
    if request["sha256"] and digest.hexdigest() != request["sha256"]:
        text = "hash: its hash is %s, and the index says %s"
        raise Trouble(text % (digest.hexdigest(), request["sha256"]))
    return path


def build(request, path):
    command = pip_command() + ["wheel", "--isolated", "--no-deps", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--no-input", "--prefer-binary", "--retries", "2"]
    command += ["--index-url", request["index"], "--wheel-dir", "/tmp/wheels", path]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    variables.update(NO_PROXY="*", PIP_CONFIG_FILE=os.devnull, HOME="/tmp")
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=variables,
        cwd="/tmp",
        check=False,
    )
    if done.returncode != 0:
        raise Trouble(done.stdout.decode("utf-8", "replace").strip()[-TAIL:])
    wheels = [one for one in os.listdir("/tmp/wheels") if one.endswith(".whl")]
    if len(wheels) != 1:
        raise Trouble("the build has made %d wheels" % len(wheels))
    return os.path.join("/tmp/wheels", wheels[0])


def send(path):
    put({"wheel": os.path.basename(path), "bytes": os.path.getsize(path)})
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(PIECE), b""):
            put({"data": base64.b64encode(piece).decode("ascii")})
    put({"end": True})


def main(request):
    try:
        put({"progress": "downloading " + request["file"]})
        path = fetch(request)
        put({"progress": "building " + request["file"]})
        send(build(request, path))
    except Trouble as exc:
        put({"error": str(exc)})
    except Exception as exc:
        put({"error": "%s: %s" % (type(exc).__name__, exc)})


if __name__ == "__main__":
    main(globals()["REQUEST"])
