#!/usr/bin/python3
"""`krait backup`, `krait restore`, `krait verify`: a backup taken while runs write, restored and served again; each
part of it, and of a data directory, damaged in turn."""
import fcntl
import glob
import hashlib
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal, main, skip
from krait_server import KRAIT, Server, data_folder

FILL = """import os
for i in range(40):
    os.makedirs('d %d' % (i % 3), exist_ok=True)
    open('d %d/f%%%d' % (i % 3, i), 'w').write('%d ' % i * 300)
os.symlink('/etc/passwd', 'link')
os.chmod('d 0', 0)
print('x' * 20000)
"""
LOOK = """import hashlib, os
os.chmod('d 0', 0o755)
seen = hashlib.sha256()
for name in sorted(os.path.join(d, f) for d, _, fs in os.walk('.') for f in fs if not f.startswith('now')):
    seen.update(name.encode() + (b'link' if os.path.islink(name) else open(name, 'rb').read()))
os.chmod('d 0', 0)
print(seen.hexdigest())
"""


def krait(*args: str, status: int = 0) -> str:
    done = subprocess.run([os.path.abspath(KRAIT), *args], capture_output=True, text=True, timeout=120, cwd="/",
                          stdin=subprocess.DEVNULL)
    equal(done.returncode, status, "%s: %s%s" % (args, done.stdout, done.stderr))
    return done.stdout + done.stderr


def there_and_back(kind: str, told: str) -> None:
    """A backup beside a server that is busy; what it has is what was there."""
    with data_folder() as top:
        with Server(data=top, shelf=kind, args=["--shelf-size", "512M"]) as s:
            equal(s.run(FILL)["cause"], "ok")
            seen = s.run(LOOK)["stdout"]
            first = s.post("/api/v1/runs", {"code": "print('kept' * 9000)", "stream": False}).json()
            stop = threading.Event()

            def busy() -> None:
                while not stop.is_set():
                    s.post("/api/v1/runs", {"code": "open('now', 'w').write('n' * 100000)", "session": "other",
                                            "stream": False})

            thread = threading.Thread(target=busy)
            thread.start()
            try:
                krait("backup", top + "/copy", "--data", top + "/data")
            finally:
                stop.set()
                thread.join(60)
            contains(krait("backup", top + "/copy", "--data", top + "/data", status=125), "not empty")
            contains(krait("verify", top + "/copy"), "no damage")
            contains(krait("verify", "--data", top + "/data"), "no damage")
            contains(krait("restore", top + "/copy", "--data", top + "/data", status=125), "not empty")
        contains(open(top + "/copy/MANIFEST").read(), "\nsandboxes " + told + "\n")
        shutil.rmtree(top + "/data")
        os.mkdir(top + "/data")
        krait("restore", top + "/copy", "--data", top + "/data")
        with Server(data=top) as s:
            equal(s.run(LOOK)["stdout"], seen)
            equal(s.get("/api/v1/runs/" + first["run_id"]).json()["cause"], "ok")
            contains(s.get("/api/v1/runs/%s/events" % first["run_id"]).text, "kept" * 1000)
        contains(krait("verify", "--data", top + "/data"), "no damage")


@check
def a_backup_of_a_plain_folder_is_restored():
    there_and_back("folder", "copied")


@check
def a_backup_of_an_image_is_restored_from_snapshots():
    if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
        skip("needs root and loop devices")
    there_and_back("image", "snapshots")


def flip(path: str, at: int) -> None:
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 1]))


def one_server(top: str) -> None:
    with Server(data=top) as s:
        equal(s.run(FILL)["cause"], "ok")
        for _ in range(3):
            equal(s.run("print('y' * 30000)")["cause"], "ok")


def only(pattern: str) -> str:
    found = sorted(name for name in glob.glob(pattern) if os.path.isfile(name) and not os.path.islink(name))
    assert found, pattern
    return found[-1]


def log_of(data: str) -> str:
    return only(data + "/logs/*.log")


def copy_log(data: str, name: str) -> None:
    shutil.copy2(log_of(data), "%s/logs/%s.log" % (data, name))


STRAY = "0123456789abcdefghjkmnpqrs"  # looks like the id of a run


@check
def logs_that_do_not_belong_to_the_rows_are_found_in_a_backup():
    with data_folder() as top:
        one_server(top)
        for word, damage in (("", lambda d: None), ("missing logs/", lambda d: os.remove(log_of(d))),
                             ("unknown logs/" + STRAY, lambda d: copy_log(d, STRAY))):
            damaged, copy = top + "/damaged", top + "/copy"
            subprocess.run(["cp", "-a", top + "/data", damaged], check=True)
            damage(damaged)
            krait("backup", copy, "--data", damaged)
            contains(krait("verify", copy, status=1 if word else 0), word or "no damage")
            shutil.rmtree(damaged)
            shutil.rmtree(copy)


@check
def logs_that_retention_removed_are_not_missing():
    with data_folder() as top:
        with Server(data=top, args=["--max-data", "16M", "--cleanup-interval", "200ms"]) as s:
            ids = [s.run("print('y' * 4000000)")["run_id"] for _ in range(7)]
            until = time.monotonic() + 60
            while os.path.exists("%s/data/logs/%s.log" % (top, ids[0])) and time.monotonic() < until:
                time.sleep(0.05)
            time.sleep(2)  # what is removed next to a run's end excuses it: a second is the clocks' difference
            ids.append(s.run("print('y' * 40000)")["run_id"])
            krait("backup", top + "/copy", "--data", top + "/data")
        gone = [i for i in ids if not os.path.exists("%s/data/logs/%s.log" % (top, i))]
        db = sqlite3.connect(top + "/data/krait.db")
        rows = {row[0] for row in db.execute("SELECT id FROM runs")}
        db.close()
        assert gone and rows >= set(ids), "nothing to excuse: %s %s" % (gone, rows)
        for where in ((top + "/copy",), ("--data", top + "/data")):
            contains(krait("verify", *where), "no damage")
        os.remove("%s/data/logs/%s.log" % (top, ids[-1]))
        contains(krait("verify", "--data", top + "/data", status=1), "missing logs/" + ids[-1])


@check
def logs_of_jobs_and_of_runs_in_notes_are_known():
    with data_folder() as top:
        one_server(top)
        data = top + "/data"
        copy_log(data, STRAY + "-2")
        contains(krait("verify", "--data", data, status=1), "unknown logs/" + STRAY + "-2")
        with sqlite3.connect(data + "/krait.db") as db:
            db.execute("INSERT INTO jobs (id, owner, kind, subject, params, address, request, attempt, holder, started)"
                       " VALUES (?, 'root', 'k', 's', '{}', '', '', 2, 1, 1)", (STRAY,))
        db.close()
        contains(krait("verify", "--data", data), "no damage", "a job's")
        os.remove("%s/logs/%s-2.log" % (data, STRAY))
        copy_log(data, STRAY[::-1])
        contains(krait("verify", "--data", data, status=1), "unknown logs/" + STRAY[::-1])
        with open(data + "/krait.notes.7", "wb") as f:  # a record that was cut off, as a kill leaves it
            f.write(bytes(40) + STRAY[::-1].encode())
        contains(krait("verify", "--data", data), "no damage", "a run's that is on its way into the store")


@check
def every_damaged_part_of_a_backup_is_found():
    with data_folder() as top:
        one_server(top)
        os.mkdir(top + "/real")
        os.symlink("real", top + "/link")
        krait("backup", top + "/link", "--data", top + "/data")
        krait("backup", top + "/copy/", "--data", top + "/data")  # as a shell completes the name of a folder
        whole = top + "/copy"
        for name in (whole, whole + "/", whole + "//", top + "/link", top + "/real"):
            contains(krait("verify", name), "no damage")
        flip(top + "/real/pepper", 3)
        contains(krait("verify", top + "/link", status=1), "pepper")
        parts = {
            "krait.db": lambda c: flip(c + "/krait.db", os.path.getsize(c + "/krait.db") // 2 + 77),
            "pepper": lambda c: flip(c + "/pepper", 3),
            "logs/": lambda c: flip(only(c + "/logs/*.log"), 60),
            "sandboxes/": lambda c: flip(only(c + "/sandboxes/*/files/d 1/*"), 5),
            "missing sandboxes": lambda c: shutil.rmtree(c + "/sandboxes"),
            "missing pepper": lambda c: os.remove(c + "/pepper"),
            "unknown": lambda c: open(c + "/sandboxes/more", "w").close(),
            "MANIFEST": lambda c: flip(c + "/MANIFEST", 200),
        }
        for word, damage in parts.items():
            copy = top + "/damaged"
            subprocess.run(["cp", "-a", whole, copy], check=True)
            damage(copy)
            contains(krait("verify", copy, status=1), word)
            contains(krait("restore", copy, "--data", top + "/new", status=1), "damage")
            assert not os.path.exists(top + "/new"), word
            shutil.rmtree(copy)
        os.remove(whole + "/MANIFEST")
        contains(krait("verify", whole, status=127), "no complete backup")


@check
def damage_of_a_data_folder_is_found():
    with data_folder() as top:
        one_server(top)
        data = top + "/data"
        contains(krait("verify", "--data", data), "no damage", "control")

        def break_index(d: str) -> None:
            with sqlite3.connect(d + "/krait.db") as db:
                page = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'runs_owner'").fetchone()[0]
                size = db.execute("PRAGMA page_size").fetchone()[0]
            db.close()
            with open(d + "/krait.db", "r+b") as f:
                f.seek((page - 1) * size)
                content = bytearray(f.read(size))
                at = content.index(b"root", 100)
                f.seek((page - 1) * size + at)
                f.write(b"rooT")

        parts = {
            "krait.db": break_index,
            "pepper": lambda d: flip(d + "/pepper", 3),
            "logs/": lambda d: flip(only(d + "/logs/*.log"), 60),
            "missing logs/": lambda d: os.remove(log_of(d)),
            "unknown logs/" + STRAY: lambda d: copy_log(d, STRAY),
            "missing sandboxes/": lambda d: shutil.rmtree(glob.glob(d + "/sandboxes/*/files")[0]),
            "missing sandboxes": lambda d: shutil.rmtree(d + "/sandboxes"),
            "krait.notes.7": lambda d: open(d + "/krait.notes.7", "wb").write(b"?" * 8 + bytes(8) + b"\1" + bytes(23)),
        }
        for word, damage in parts.items():
            copy = top + "/damaged"
            subprocess.run(["cp", "-a", data, copy], check=True)
            damage(copy)
            contains(krait("verify", "--data", copy, status=1), word)
            shutil.rmtree(copy)


def make_older(copy: str) -> None:
    """The backup as a krait with the store's format 6 would have made it."""
    db = sqlite3.connect(copy + "/krait.db")
    for name in ("runs_sandbox", "runs_session", "runs_cause", "runs_running", "audit_what", "audit_request",
                 "audit_outcome"):
        db.execute("DROP INDEX " + name)
    db.execute("PRAGMA user_version = 6")
    db.commit()
    db.close()
    with open(copy + "/krait.db", "rb") as f:
        data = f.read()
    text = open(copy + "/MANIFEST").read().rsplit("end ", 1)[0]
    text = re.sub("f .* krait.db\n", "f %s %d krait.db\n" % (digest(data), len(data)), text)
    with open(copy + "/MANIFEST", "w") as f:
        f.write(text + "end " + digest(text.encode()) + "\n")


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()


@check
def a_backup_of_an_older_krait_is_left_as_it_is():
    with data_folder() as top:
        one_server(top)
        krait("backup", top + "/copy", "--data", top + "/data")
        make_older(top + "/copy")
        for _ in range(2):
            contains(krait("verify", top + "/copy"), "no damage")
        contains(krait("restore", top + "/copy", "--data", top + "/data", status=125), "not empty")
        krait("restore", top + "/copy", "--data", top + "/new")
        contains(krait("verify", "--data", top + "/new"), "no damage")


def contents(folder: str) -> dict:
    """Every file below it, by its hash; a link (an environment of packages has some into its cell) by where it leads."""
    def content(path: str) -> str:
        return os.readlink(path) if os.path.islink(path) else digest(open(path, "rb").read())

    return {os.path.relpath(os.path.join(at, name), folder): content(os.path.join(at, name))
            for at, _, names in os.walk(folder) for name in names}


@check
def verify_changes_nothing_in_the_data_folder_of_an_older_krait():
    with data_folder() as top:
        one_server(top)
        krait("backup", top + "/copy", "--data", top + "/data")
        krait("restore", top + "/copy", "--data", top + "/new")
        contains(krait("verify", "--data", top + "/new"), "no damage")
        make_older(top + "/copy")
        shutil.copy(top + "/copy/krait.db", top + "/new/krait.db")
        before = contents(top + "/new")
        done = subprocess.run([os.path.abspath(KRAIT), "verify", "--data", top + "/new"], capture_output=True, text=True,
                              timeout=120, cwd="/", stdin=subprocess.DEVNULL)
        equal((done.returncode, contents(top + "/new")), (0, before))
        contains(done.stderr, "older krait")
        with open(top + "/new/krait.db", "r+b") as f:  # and what is damaged there is found
            f.seek(8192)
            f.write(b"\xff" * 4096)
        contains(krait("verify", "--data", top + "/new", status=1), "damaged")


@check
def a_second_backup_at_once_is_refused_and_harms_none():
    with data_folder() as top:
        one_server(top)
        with open(top + "/data/pepper", "rb") as other:  # as a backup that runs
            fcntl.flock(other, fcntl.LOCK_EX)
            contains(krait("backup", top + "/second", "--data", top + "/data", status=125), "another backup")
            assert not os.path.exists(top + "/second"), "it made its folder all the same"
        krait("backup", top + "/first", "--data", top + "/data")


@check
def without_roots_mounts_no_copy_is_made_beside_sessions():
    if os.geteuid() != 0:
        skip("needs root, to give up its mounts")
    without = ("setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-all")
    with data_folder() as top:
        with Server(data=top, shelf="folder") as s:
            equal(s.run("open('a', 'w').write('x')")["cause"], "ok")
            done = subprocess.run([*without, os.path.abspath(KRAIT), "backup", top + "/beside", "--data", top + "/data"],
                                  capture_output=True, text=True, timeout=120, cwd="/", stdin=subprocess.DEVNULL)
            equal(done.returncode, 125, done.stderr)
            contains(done.stderr, "could follow links")
        done = subprocess.run([*without, os.path.abspath(KRAIT), "backup", top + "/still", "--data", top + "/data"],
                              capture_output=True, text=True, timeout=120, cwd="/", stdin=subprocess.DEVNULL)
        equal(done.returncode, 0, "control, no server runs: " + done.stderr)
        contains(krait("verify", top + "/still"), "no damage")


SWAP = """
import ctypes, os, time
swap = ctypes.CDLL(None).renameat2
names = [("d%%d" %% i, "l%%d" %% i) for i in range(100)]
for folder, link in names:
    os.makedirs(folder + "/x")
    os.symlink("%s", link)
open("steady", "w").write("kept")
while not os.path.exists("stop"):
    for folder, link in names:
        swap(-100, folder.encode(), -100, link.encode(), 2)
"""


@check
def links_that_a_session_puts_in_the_place_of_folders_are_not_followed():
    if os.geteuid() != 0:
        skip("needs root: the copy is of a mount on which no link is followed")
    with data_folder() as top:
        os.mkdir(top + "/host")
        with open(top + "/host/secret", "w") as f:
            f.write("of the host")
        with Server(data=top, shelf="folder") as s:
            thread = threading.Thread(target=s.post, args=("/api/v1/runs", {
                "code": SWAP % (top + "/host"), "stream": False, "session": "swap", "timeout": 60}))
            thread.start()
            try:
                until = time.monotonic() + 20
                while not glob.glob(top + "/data/sandboxes/*/files/steady") and time.monotonic() < until:
                    time.sleep(0.05)
                for number in range(3):  # cp may find fault with what moves: what counts is what it has copied
                    copy = "%s/copy%d" % (top, number)
                    subprocess.run([KRAIT, "backup", copy, "--data", top + "/data"], capture_output=True, timeout=120)
                    found = glob.glob(copy + "/sandboxes/*/files/*/secret")
                    equal([name for name in found if not os.path.islink(os.path.dirname(name))], [])
                    assert glob.glob(copy + "/sandboxes/*/files/d*"), "nothing was copied"
            finally:
                s.run("open('stop', 'w')", session="stop")
                thread.join(60)


@check
def what_is_wrong_is_said():
    with data_folder() as top:
        contains(krait("verify", top + "/nowhere", status=127), "nowhere")
        contains(krait("verify", "--data", top + "/nowhere", status=127), "nowhere")
        contains(krait("backup", "--data", top, status=2), "DIR")
        contains(krait("backup", top + "/x", "--data", top + "/nowhere", status=127), "nowhere")
        for command in ("backup", "restore", "verify"):
            contains(krait(command, "--help"), "Usage: krait " + command)


main()
