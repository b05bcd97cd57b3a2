#!/usr/bin/python3
"""The package index in real cells: Debian's own pip installs from it, by `krait run` and by a server, and what it needs
for that is nowhere in the cell."""
import contextlib
import os
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
import wheels
from check import check, contains, equal, main
from drive import run
from index import Index
from krait_server import Server
from test_ca import TestCa

WORD = "w0rd-of-the-index:/%41"  # which an address cannot have as it is
PIP = """
import os, subprocess, sys
def pip(*args):  # the system's, not the request to the server that pip of the environment is
    done = subprocess.run(["/usr/bin/python3", "-m", "pip", "--disable-pip-version-check", "--no-input", "--retries", "0",
                           *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.returncode, done.stdout[-1500:])
"""
INSTALL = PIP + """
pip("install", "--no-cache-dir", "--target", "/tmp/there", %r)
sys.path.insert(0, "/tmp/there")
print("FOUND", sorted(n for n in os.listdir("/tmp/there") if n.endswith("-info")) if os.path.isdir("/tmp/there") else None)
"""
ASK = """
import urllib.error, urllib.request
try:
    print(urllib.request.urlopen("http://127.0.0.1:3128/index/simple/top/").status)
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""
# Everything of a cell that a program in it can read and that could hold a word of its host's.
LOOK = """
import os
seen = [repr(dict(os.environ))]
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline"):
        try:
            seen.append(open("/proc/%s/%s" % (pid, name)).read())
        except OSError:
            pass
print("WORDS", "w0rd" in "".join(seen), "PIP_INDEX_URL" in seen[0])
"""


@contextlib.contextmanager
def wheel_folder():
    with tempfile.TemporaryDirectory(prefix="kr-wheels-") as folder:
        os.chmod(folder, 0o755)  # the egress process has a user of its own
        yield Path(folder)


def run_with(index_url: str, code: str, *args: str) -> str:
    done = run(*(args or ("--network", "index")), "-c", code, env={**os.environ, "PIP_INDEX_URL": index_url})
    return (done.stdout + done.stderr).decode()


@check
def pip_installs_in_a_program():
    with wheel_folder() as folder:
        with Index(auth=("user", WORD)) as index:
            index.add(wheels.wheel(folder, "top", depends=["base>=2"]))
            index.add(wheels.wheel(folder, "base", "1.0"))
            index.add(wheels.wheel(folder, "base", "2.5", pad=1_000_000))
            text = run_with(index.url, INSTALL % "top" + LOOK)
            contains(text, "FOUND ['base-2.5.dist-info', 'top-1.0.dist-info']")
            contains(text, "WORDS False True")
            assert "w0rd" not in text
            text = run_with(index.url, INSTALL % "no-such-thing")
            contains(text, "No matching distribution")
            index.fault("base-2.5-py3-none-any.whl", wrong_hash=True)
            contains(run_with(index.url, INSTALL % "top"), "DO NOT MATCH THE HASHES")
            before = index.count()
            contains(run_with(index.url, INSTALL % "top", "--network", "loopback"), "FOUND None")
            equal(index.count(), before)


@check
def a_folder_is_an_index_for_a_program():
    with wheel_folder() as folder:
        wheels.wheel(folder, "top", depends=["base"])
        wheels.wheel(folder, "base")
        contains(run_with("file://%s" % folder, INSTALL % "top"), "FOUND ['base-1.0.dist-info', 'top-1.0.dist-info']")


def run_in(server: Server, code: str) -> str:
    sandbox = server.post("/api/v1/sandboxes", {"network": "index"}).json()
    done = server.run(code, sandbox=sandbox["id"])
    return done["stdout"] + done["stderr"]


@check
def pypi_index_url():
    with wheel_folder() as folder:
        with Index(tls=TestCa()) as index:
            index.add(wheels.wheel(folder, "top"))
            with Server(args=["--pypi-index-url", index.plain_url, "--max-network", "index"]) as server:
                text = run_in(server, ASK)  # the system's certificates do not know this one
                contains(text, "502 krait: the certificate of localhost is not accepted")
        with Server(args=["--pypi-index-url", str(folder), "--max-network", "index"]) as server:
            contains(run_in(server, INSTALL % "top"), "FOUND ['top-1.0.dist-info']")


@check
def ca_file():
    with wheel_folder() as folder:
        ca = TestCa()
        ca.folder.chmod(0o755)
        with Index(tls=ca) as index:
            index.add(wheels.wheel(folder, "top"))
            args = ["--pypi-index-url", index.plain_url, "--max-network", "index", "--egress-ca-file"]
            with Server(args=[*args, str(ca.pem)]) as server:
                contains(run_in(server, INSTALL % "top"), "FOUND ['top-1.0.dist-info']")
            before = index.count()
            with Server(args=[*args, str(TestCa(name="Another CA").pem)]) as server:
                contains(run_in(server, INSTALL % "top"), "FOUND None")
            nothing = folder / "no-certificates.pem"
            nothing.write_text("none")
            with Server(args=[*args, str(nothing)]) as server:  # what needs none still works
                contains(run_in(server, ASK), "502 krait: krait has no certificates to check servers with")
            equal(index.count(), before)


@check
def pypi_credentials():
    with wheel_folder() as folder:
        with Index(auth=("user", WORD)) as index:
            index.add(wheels.wheel(folder, "top"))
            for args in (["--pypi-index-url", index.plain_url, "--pypi-credentials", "user:" + WORD],
                         ["--pypi-index-url", index.url]):
                with Server(args=[*args, "--max-network", "index"]) as server:
                    text = run_in(server, INSTALL % "top" + LOOK)
                    contains(text, "FOUND ['top-1.0.dist-info']")
                    contains(text, "WORDS False True")
                    assert "w0rd" not in server.log_text() + text
            with Server(args=["--pypi-index-url", index.plain_url, "--max-network", "index"]) as server:
                contains(run_in(server, INSTALL % "top"), "FOUND None")


@check
def pypi_file_hosts():
    with wheel_folder() as folder:
        with Index(apart=True) as index:
            index.add(wheels.wheel(folder, "top"))
            args = ["--pypi-index-url", index.plain_url, "--max-network", "index", "--pypi-file-hosts"]
            with Server(args=[*args, "127.0.0.1:%d" % index.files_port]) as server:
                contains(run_in(server, INSTALL % "top"), "FOUND ['top-1.0.dist-info']")
            with Server(args=[*args, "files.example.org"]) as server:
                contains(run_in(server, INSTALL % "top"), "FOUND None")
                equal(index.count("/files/top-1.0-py3-none-any.whl"), 1)


main()
