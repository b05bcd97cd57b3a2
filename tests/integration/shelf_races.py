#!/usr/bin/python3
"""Moves of sandboxes that are killed while they copy, and processes that start while sandboxes are moved or find
another process in the plain folder: nothing is lost, and no process uses what was moved away."""
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal, main, skip
from krait_server import KRAIT, Server, data_folder
from mcp import Stdio

WAIT_S = 30
FILES = 3000  # so that a copy takes much longer than it takes us to see it
FILL = f"""import os
for i in range({FILES}):
    os.makedirs('d%d' % (i % 7), exist_ok=True)
    open('d%d/f%d' % (i % 7, i), 'w').write('%d ' % i * 500)
"""
LOOK = """import hashlib, os
seen = hashlib.sha256()
names = sorted(os.path.join(d, f) for d, _, fs in os.walk('.') for f in fs)
for name in names:
    seen.update(name.encode() + open(name, 'rb').read())
print(len(names), seen.hexdigest())
"""


def only_root() -> None:
    if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
        skip("needs root and loop devices")


def serve(data: str, kind: str = "auto") -> Server:
    return Server(data=data, shelf=kind, args=["--shelf-size", "512M"])


def start_move(data: str, to: str) -> subprocess.Popen:
    size = ["--size", "512M"] if to == "image" else []
    return subprocess.Popen([os.path.abspath(KRAIT), "shelf", "move", "--to", to, *size, "--data", data + "/data"],
                            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/")


def until(what, seconds: float = WAIT_S):
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.0005)
    return found


def cp_of(pid: int) -> int:
    """The copy that a move has started, once it is one."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            if Path(f"/proc/{child}/comm").read_text() == "cp\n":
                return int(child)
        except OSError:
            pass
    return 0


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def kill_amid_copy(data: str, to: str) -> None:
    move = start_move(data, to)
    copy = until(lambda: cp_of(move.pid))
    os.kill(copy, signal.SIGSTOP)  # amid the copy, for sure
    move.kill()
    move.wait(WAIT_S)
    move.stderr.close()
    try:
        until(lambda: is_gone(copy))  # with its parent
    except AssertionError:
        os.kill(copy, signal.SIGKILL)
        raise AssertionError("cp outlives the move that started it") from None


def finish_move(data: str, to: str, status: int = 0) -> str:
    move = start_move(data, to)
    text = move.communicate(timeout=120)[1].decode()
    equal(move.returncode, status, text)
    return text


@check
def a_move_that_is_killed_amid_its_copy_loses_nothing():
    only_root()
    with data_folder() as data:
        with serve(data, "folder") as s:
            equal(s.run(FILL)["cause"], "ok")
            seen = s.run(LOOK)["stdout"]
            equal(seen.split()[0], str(FILES))
        for to, other in (("image", "folder"), ("folder", "image")):
            kill_amid_copy(data, to)
            with serve(data) as s:
                equal(s.run(LOOK)["stdout"], seen, f"killed on the way to {to}")
            equal(os.path.exists(data + "/data/sandboxes.image"), other == "image")
            finish_move(data, to)
            equal(sorted(name for name in os.listdir(data + "/data") if "moving" in name), [])
            equal(os.path.exists(data + "/data/sandboxes.image"), to == "image")
        with serve(data) as s:
            equal(s.run(LOOK)["stdout"], seen)


def start_while_locked(data: str, with_image: bool) -> Server:
    """A server that has chosen the plain folder and waits for its lock, which is held as a move to an image holds it;
    in that time the image gets its name."""
    held = os.open(data + "/data/sandboxes", os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(held, fcntl.LOCK_EX)
    server = serve(data, "folder" if with_image else "auto")

    def waits() -> bool:
        if server.process is None:
            return False
        try:
            engine = server.server_pid()
            return any(os.readlink(f"/proc/{engine}/fd/{fd}").endswith("/data/logs")
                       for fd in os.listdir(f"/proc/{engine}/fd"))
        except (OSError, IndexError):
            return False

    def let_go() -> None:
        until(waits)
        if with_image:
            Path(data + "/data/sandboxes.image").touch(0o600)
        os.close(held)

    thread = threading.Thread(target=let_go)  # beside the start, which waits
    thread.start()
    try:
        return server.start()
    finally:
        thread.join(WAIT_S)


@check
def a_server_whose_sandboxes_were_moved_while_it_started_does_not_start():
    only_root()
    with data_folder() as data:
        with serve(data, "folder") as s:
            equal(s.run("open('a', 'w').write('x')")["cause"], "ok")
        server = start_while_locked(data, False)
        try:
            equal(server.run("print(open('a').read())")["stdout"], "x\n", "control: it starts when it has the lock")
        finally:
            server.close()
        try:
            start_while_locked(data, True).close()
            raise AssertionError("the server uses the folder beneath the image")
        except RuntimeError as e:
            contains(str(e), "sandboxes.image")
            contains(str(e), "start krait again")


def stdio(data: str) -> Stdio:
    return Stdio([os.path.abspath(KRAIT), "mcp", "--no-join", "--data", data + "/data"])


@check
def a_server_puts_no_image_over_a_folder_that_another_process_uses():
    only_root()
    with data_folder() as data, stdio(data) as client:  # it has begun, and has made no sandbox yet
        with serve(data) as s:
            contains(s.log_text(), "another krait keeps its sandboxes in the plain folder")
            contains(client.text("execute_python", code="open('made', 'w').write('here')\nprint('ok')"), "ok")
            equal(s.get("/api/v1/sandboxes/default/files/made").body, b"here")
    with data_folder() as data, serve(data) as s:
        contains(s.log_text(), "image=1", "control: alone it makes one")


@check
def mcp_over_stdio_beside_a_server_uses_its_image():
    only_root()
    with data_folder() as data, serve(data, "image") as s:
        equal(s.run("open('theirs', 'w').write('server')")["cause"], "ok")
        with stdio(data) as client:
            contains(client.text("execute_python", code="print(open('theirs').read())"), "server")
            contains(client.text("execute_python", code="open('ours', 'w').write('client')\nprint('ok')"), "ok")
            equal(s.get("/api/v1/sandboxes/default/files/ours").body, b"client")
            contains(finish_move(data, "folder", 125), "stop it first")
            s.stop()
            contains(finish_move(data, "folder", 125), "stop it first", "the client's process is still there")
        finish_move(data, "folder")
        with serve(data, "folder") as again:
            equal(again.run("print(open('theirs').read(), open('ours').read())")["stdout"], "server client\n")


main()
