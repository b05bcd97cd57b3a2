#!/usr/bin/python3
"""`krait shelf`: what it shows, files that lie in an image, growth, and moves between an image and a folder."""
import json
import os
import subprocess
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal, main, skip
from krait_server import KRAIT, Server, data_folder

FILL = """import os
os.makedirs('deep/er')
open('deep/er/file', 'w').write('content')
os.chmod('deep/er/file', 0o640)
os.link('deep/er/file', 'twin')
os.symlink('/etc/passwd', 'link')
with open('holes', 'wb') as f:
    f.truncate(64 << 20)
os.utime('deep/er/file', (1e9, 1e9))
os.chmod('deep', 0)
"""
LOOK = """import os
os.chmod('deep', 0o755)
st = os.stat('deep/er/file')
print(open('twin').read(), oct(st.st_mode & 0o777), st.st_nlink, int(st.st_mtime), os.readlink('link'),
      os.stat('twin').st_ino == st.st_ino, os.stat('holes').st_size >> 20, os.stat('holes').st_blocks < 2048)
open('more', 'w').write('x')
os.chmod('deep', 0)
"""
SEEN = "content 0o640 2 1000000000 /etc/passwd True 64 True\n"


def only_root() -> None:
    if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
        skip("needs root and loop devices")


def shelf(data: str, *args: str, status: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([os.path.abspath(KRAIT), "shelf", *args, "--data", data + "/data"], capture_output=True,
                          text=True, timeout=120, cwd="/", stdin=subprocess.DEVNULL)
    equal(done.returncode, status, done.stderr)
    return done


def serve(data: str, kind: str = "auto") -> Server:
    return Server(data=data, shelf=kind, args=["--shelf-size", "512M"])


@check
def sandboxes_move_to_an_image_and_back():
    only_root()
    with data_folder() as data:
        with serve(data, "folder") as s:
            equal(s.run(FILL)["cause"], "ok")
            shelf(data, "move", "--to", "image", status=125)  # a server runs
        equal(json.loads(shelf(data, "show", "--json").stdout)["kind"], "folder")
        shelf(data, "move", "--to", "image", "--size", "512M")
        equal(os.listdir(data + "/data/sandboxes"), [])
        told = json.loads(shelf(data, "--json").stdout)
        equal((told["kind"], told["image"], len(told["sandboxes"])), ("btrfs", True, 1), str(told))
        with serve(data) as s:
            contains(s.log_text(), "disk limits are enforced")
            equal(s.run(LOOK)["stdout"], SEEN)
            shelf(data, "move", "--to", "folder", status=125)
        shelf(data, "move", "--to", "folder")
        shelf(data, "move", "--to", "folder")  # nothing is left to do
        assert not os.path.exists(data + "/data/sandboxes.image")
        with serve(data, "folder") as s:
            equal(s.run(LOOK)["stdout"], SEEN)
            equal(sorted(os.listdir(data + "/data")).count("sandboxes-moving"), 0)


@check
def an_interrupted_move_is_repeated():
    only_root()
    with data_folder() as data:
        with serve(data, "folder") as s:
            equal(s.run(FILL)["cause"], "ok")
        # What a kill during the copy leaves, and what one before the last step leaves.
        os.mkdir(data + "/data/sandboxes-moving")
        open(data + "/data/sandboxes-moving.image", "w").close()
        shelf(data, "move", "--to", "image", "--size", "512M")
        os.makedirs(data + "/data/sandboxes/stale/files")
        shelf(data, "move", "--to", "image")
        equal(os.listdir(data + "/data/sandboxes"), [])
        os.makedirs(data + "/data/sandboxes/stale/files")
        os.makedirs(data + "/data/sandboxes-moving/half")
        shelf(data, "move", "--to", "folder")
        assert "stale" not in os.listdir(data + "/data/sandboxes")
        with serve(data, "folder") as s:
            equal(s.run(LOOK)["stdout"], SEEN)


@check
def a_stranger_in_the_folder_stops_a_move():
    only_root()
    with data_folder() as data:
        with serve(data, "folder") as s:
            equal(s.run(FILL)["cause"], "ok")
        open(data + "/data/sandboxes/Letter", "w").close()
        done = shelf(data, "move", "--to", "image", "--size", "512M", status=125)
        contains(done.stderr, "Letter")
        assert not [name for name in os.listdir(data + "/data") if "image" in name or "moving" in name]
        os.remove(data + "/data/sandboxes/Letter")
        with serve(data, "folder") as s:
            equal(s.run(LOOK)["stdout"], SEEN, "control: the source is whole")


@check
def an_image_is_shown_grown_and_read_while_a_server_runs():
    only_root()
    with data_folder() as data, serve(data, "image") as s:
        equal(s.run("import os\nopen('a', 'wb').write(b'x' * (5 << 20))\nos.fsync(os.open('a', 0))\n"
                    "os.symlink('/etc', 'out')")["cause"], "ok")
        told = json.loads(shelf(data, "show", "--json").stdout)
        (box,) = told["sandboxes"]
        assert 5 << 20 <= box["bytes"] < 7 << 20, box
        equal(told["size"] >> 20, 512)
        contains(shelf(data).stdout, "limits are enforced by btrfs")
        shelf(data, "grow", "1G")
        equal(json.loads(shelf(data, "show", "--json").stdout)["size"] >> 20, 1024)
        shelf(data, "grow", "512M", status=2)
        contains(shelf(data, "ls", "default").stdout, "  a\n")
        shelf(data, "cp", "default/a", data + "/copy")
        equal(os.path.getsize(data + "/copy"), 5 << 20)
        shelf(data, "cp", "default/a", data + "/copy", status=125)
        shelf(data, "cp", "default", data + "/all")
        equal(sorted(os.listdir(data + "/all")), ["a", "out"])
        equal(os.readlink(data + "/all/out"), "/etc")
        shelf(data, "cp", "default/out/passwd", data + "/stolen", status=126)
        assert not os.path.exists(data + "/stolen")
        equal(s.run("import os\nprint(os.path.getsize('a'))")["stdout"], "5242880\n")


@check
def what_is_wrong_is_said():
    with data_folder() as data, Server(data=data) as s:
        equal(s.run("1")["cause"], "ok")
        for args, status, text in ((["move"], 2, "--to"), (["move", "--to", "tape"], 2, "--to"),
                                   (["grow", "much"], 2, "much"), (["grow", "1G"], 125, "no image"),
                                   (["ls", "nowhere"], 127, "nowhere"), (["sing"], 2, "sing"),
                                   (["show", "--to", "image"], 2, "--to")):
            contains(shelf(data, *args, status=status).stderr, text, str(args))
        contains(shelf(data, "--help").stdout, "Verbs:")


main()
