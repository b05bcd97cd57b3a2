#!/usr/bin/python3
"""What the data directory keeps: a part that is missing or damaged stops the start, with a line that names the file and
what to do; reading needs no room on a full disk."""
import glob
import os
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal, main, skip
from krait_server import KRAIT, Server, data_folder

RUNS = "/api/v1/runs"


def refused(data: str, *words: str, args=(), shelf: str = "folder") -> None:
    done = subprocess.run([os.path.abspath(KRAIT), "serve", "--no-files", "--port", "0", "--data", data + "/data",
                           "--preload", "basic", "--shelf", shelf, *args],
                          capture_output=True, text=True, timeout=60, cwd="/", stdin=subprocess.DEVNULL)
    equal(done.returncode, 125, done.stderr)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("krait serve: ")]
    for word in words:
        contains(line, word)


def one_run(data: str) -> None:
    with Server(data=data) as s:
        equal(s.run("open('a', 'w').write('x')")["cause"], "ok")


@check
def sandboxes_that_are_gone_stop_the_start():
    with data_folder() as data:
        one_run(data)
        folder = data + "/data/sandboxes"
        owner = os.stat(folder)
        shutil.move(folder, data + "/kept")
        for shelf in ("folder", "auto"):
            refused(data, "1 sandboxes", folder, "--accept-loss", shelf=shelf)
        os.mkdir(folder, 0o700)  # the empty mount point of a volume that is not mounted
        os.chown(folder, owner.st_uid, owner.st_gid)
        refused(data, folder, "--accept-loss", shelf="auto")
        assert not os.path.exists(data + "/data/sandboxes.image"), "an image hides the mount point"
        os.rmdir(folder)
        shutil.move(data + "/kept", folder)
        with Server(data=data) as s:
            equal(s.run("print(open('a').read())")["stdout"], "x\n", "control: it is back")
        shutil.rmtree(folder)
        with Server(data=data, args=["--accept-loss"]) as s:
            equal(s.run("import os\nprint(os.listdir())")["stdout"], "[]\n")


def killed_with_notes(data: str) -> tuple:
    """A server that was killed; the file of its notes, and where its records begin that are not in the store."""
    server = Server(data=data)
    server.start()
    try:
        for _ in range(4):
            equal(server.run("print(1)")["cause"], "ok")
    finally:
        os.kill(server.server_pid(), signal.SIGKILL)
        server.process.wait(60)
        server.close(check=False)
    (notes,) = glob.glob(data + "/data/krait.notes.*")
    with sqlite3.connect(data + "/data/krait.db") as db:
        row = db.execute("SELECT value FROM settings WHERE key = ?", [os.path.basename(notes)]).fetchone()
    db.close()
    known = int.from_bytes(row[0], sys.byteorder) if row else 0
    whole, at, spots = open(notes, "rb").read(), 0, []
    while at + 24 <= len(whole):
        size, _kind, generation = struct.unpack_from("=IIQ", whole, at + 8)
        if generation <= known or (spots and generation != first):
            break
        first = generation
        spots.append(at)
        at += 24 + size
    return notes, spots


@check
def damaged_notes_stop_the_start():
    with data_folder() as data:
        spots = []
        for _ in range(20):  # they are in the store 200 ms later: until a kill is faster
            if len(spots) < 3:
                notes, spots = killed_with_notes(data)
        assert len(spots) >= 3, "no server was killed with notes"
        whole = open(notes, "rb").read()
        for spot in (spots[0] + 30, spots[1] + 30):
            with open(notes, "wb") as f:
                f.write(whole[:spot] + bytes([whole[spot] ^ 1]) + whole[spot + 1:])
            refused(data, os.path.basename(notes), "damaged at byte", "--accept-loss")
        with Server(data=data, args=["--accept-loss"]) as s:
            contains(s.log_text(), "are set aside")
        assert os.path.exists(notes + ".damaged") and not os.path.exists(notes)
        with Server(data=data) as s:
            equal(s.get(RUNS).status, 200, "control: once is enough")


@check
def a_wrong_pepper_is_named():
    with data_folder() as data:
        one_run(data)
        pepper = data + "/data/pepper"
        whole = open(pepper, "rb").read()
        with open(pepper, "wb") as f:
            f.write(whole[:20])
        refused(data, pepper, "20 bytes", "backup")
        with open(pepper, "wb") as f:
            f.write(whole)
        with Server(data=data) as s:
            equal(s.get(RUNS).status, 200, "control")


@check
def reading_needs_no_room():
    if os.geteuid() != 0:
        skip("needs root: a mount")
    with data_folder() as data:
        mounting = 'mount -t tmpfs -o mode=755,size=32M tmpfs "$1" && shift && exec "$@"'
        with Server(data=data, wrap=["unshare", "--mount", "sh", "-c", mounting, "sh", data]) as s:
            equal(s.post("/api/v1/sandboxes", {"name": "before"}).status, 201)
            inside = "/proc/%d/root%s/data" % (s.server_pid(), data)
            with open(inside + "/ballast", "wb", buffering=0) as f:
                size = 1 << 20
                while size:
                    try:
                        f.write(bytes(size))
                    except OSError:
                        size //= 2
            equal(s.post("/api/v1/sandboxes", {"name": "after"}).status, 507, "control: the disk is full")
            for path in ("/api/v1/sandboxes", "/api/v1/sandboxes/before", "/api/v1/sandboxes/before/files", RUNS,
                         "/api/v1/sessions", "/api/v1/keys", "/api/v1/users", "/api/v1/audit", "/api/v1/info"):
                reply = s.get(path)
                assert reply.status == 200, (path, reply.status, reply.text[:200])
            os.remove(inside + "/ballast")
            names = [box["name"] for box in s.get("/api/v1/sandboxes").json()["sandboxes"]]
            equal(sorted(names), ["before", "default"], "control: with room the default is made")


main()
