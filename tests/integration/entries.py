#!/usr/bin/python3
"""Entries of a sandbox on an image are counted by the numbers of its inodes: it is walked only when these show too many."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, equal, main, skip
from krait_server import Server
from serving import Meanwhile, eventually

BUSY = "import os\nwhile not os.path.exists('stop'): sum(range(1000))\nprint(len(os.listdir()))"


class Seen:
    """What the server does with folders while a run computes in a sandbox that a first run has prepared."""

    def __init__(self, shelf: str, prepare: str, looks: str) -> None:
        with Server(shelf=shelf) as s, tempfile.NamedTemporaryFile("r", prefix="krait-test-") as told:
            made = s.post("/api/v1/sandboxes", {"name": "many", "limits": {"inodes": 350}})
            equal(made.status, 201, made.text[:300])
            equal(s.run("import os\n" + prepare, sandbox_id="many")["cause"], "ok")
            run = Meanwhile(s.run, BUSY, sandbox_id="many", timeout=300)
            tracer = subprocess.Popen(["strace", "-f", "-qq", "-e", "trace=getdents64,openat", "-o", told.name,
                                       "-p", str(s.server_pid())])
            try:
                eventually(lambda: self.read(told).count(looks) >= 8, 60, "no looks: " + looks)
            finally:
                tracer.terminate()
                tracer.wait(60)
                s.put("/api/v1/sandboxes/many/files/stop", b"")
                self.end = run.end(120)

    def read(self, told) -> str:
        told.seek(0)
        self.text = told.read()
        return self.text


def only_image() -> None:
    if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
        skip("needs root and loop devices")
    if not shutil.which("strace"):
        skip("needs strace")


@check
def what_the_numbers_show_is_not_walked():
    only_image()
    seen = Seen("image", "for i in range(300): os.mkdir(str(i))", "O_TMPFILE")
    equal((seen.end["cause"], seen.end["stdout"]), ("ok", "301\n"), str(seen.end)[:300])
    equal(seen.text.count("getdents64"), 0, seen.text[-600:])


@check
def what_they_do_not_show_is_walked():
    """A control: 400 inodes were made, and 110 are there."""
    only_image()
    prepare = "for i in range(300): os.mkdir(str(i))\nfor i in range(290): os.rmdir(str(i))\n"
    seen = Seen("image", prepare + "for i in range(100): os.mkdir('x%d' % i)", "getdents64")
    equal((seen.end["cause"], seen.end["stdout"]), ("ok", "111\n"), str(seen.end)[:300])


@check
def a_plain_folder_is_walked():
    """Another control."""
    only_image()
    seen = Seen("folder", "for i in range(300): os.mkdir(str(i))", "getdents64")
    equal((seen.end["cause"], seen.end["stdout"], "O_TMPFILE" in seen.text), ("ok", "301\n", False))


if __name__ == "__main__":
    main()
