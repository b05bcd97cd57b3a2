#!/usr/bin/python3
"""Power cuts and kills under load. The image lies on an outer btrfs; a reflink copy of it, taken while processes write,
is what a power cut would leave. Each copy is brought up as at a start, scrubbed by the kernel, and every file whose
fsync had returned before the copy was begun must be in it, with the limit of its folder; beneath a server, every file
that it had answered for. KR_CUTS is how many."""
import contextlib
import fcntl
import glob
import hashlib
import os
import random
import shutil
import struct
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "lib"))
import shelves  # noqa: E402
from shelves import MIB, SERVER, Data, Shelf  # noqa: E402
from check import check, equal, main  # noqa: E402
from krait_server import Server  # noqa: E402

CUTS = int(os.environ.get("KR_CUTS", "12"))
KILLS = int(os.environ.get("KR_KILLS", "6"))
WRITERS = 3
LIMIT = 400 * MIB
FICLONE, SCRUB = 0x40049409, 0xC400941B
SCRUB_ERRORS = {4: "read", 5: "checksum", 6: "verify", 9: "superblock", 10: "memory", 11: "uncorrectable",
                12: "corrected"}


def content(name: str) -> bytes:
    seed = hashlib.sha256(name.encode()).digest()
    return (seed * 4096)[:seed[0] * 500 + 1]  # up to 125 KiB


def sync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_on(path: str, who: int, ack: int) -> None:
    """Files that stay, and files that do not, until killed. A name is acknowledged when it would survive a cut."""
    for i in range(1 << 30):
        name = f"w{who}f{i}"
        with open(f"{path}/.new{who}", "wb") as f:
            f.write(content(name))
            f.flush()
            os.fsync(f.fileno())
        os.rename(f"{path}/.new{who}", f"{path}/{name}")
        sync(path)
        os.write(ack, f"{path.split('/')[-2]}/{name}\n".encode())
        with open(f"{path}/waste{who}", "ab") as f:  # never synced
            f.write(b"y" * 300000)
        if i % 10 == 9:
            os.unlink(f"{path}/waste{who}")


class Load:
    """Writers in folders of a shelf, and what they had acknowledged."""

    def __init__(self, shelf: Shelf, first: int) -> None:
        self.shelf, self.first = shelf, first
        self.acked: set[str] = set()
        self.pids: list[int] = []
        self.r, w = os.pipe()
        os.set_blocking(self.r, False)
        for who in range(first, first + WRITERS):
            self.start(who, w)
        os.close(w)
        self.rest = b""

    def start(self, who: int, ack: int) -> None:
        answer = self.shelf.ask("make", f"s{who}", LIMIT)
        assert not answer.error, answer.text
        path = f"{self.shelf.path}/s{who}/files"
        os.mkdir(path)
        pid = os.fork()
        if pid == 0:
            try:
                write_on(path, who, ack)
            except BaseException as e:  # noqa: BLE001, the shelf was killed beneath it
                os.write(2, f"writer {who}: {e}\n".encode() if not isinstance(e, OSError) else b"")
            os._exit(0)
        self.pids.append(pid)

    def look(self) -> set[str]:
        """What was acknowledged by now."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self.r, 65536):
                self.rest += chunk
        *lines, self.rest = self.rest.split(b"\n")
        self.acked |= {line.decode() for line in lines}
        return set(self.acked)

    def end(self) -> None:
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
            os.waitpid(pid, 0)
        self.pids = []
        self.look()
        os.close(self.r)


def scrub(path: str) -> None:
    args = bytearray(1024)
    struct.pack_into("QQQQ", args, 0, 1, 0, (1 << 64) - 1, 1)  # device 1, all of it, read-only
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, SCRUB, args)
    finally:
        os.close(fd)
    progress = struct.unpack_from("15Q", args, 32)
    wrong = {what: progress[i] for i, what in SCRUB_ERRORS.items() if progress[i]}
    assert not wrong, f"scrub found errors: {wrong}"
    assert progress[1] > 0, "nothing was scrubbed"


def look_through(shelf: Shelf, acked: set[str]) -> None:
    scrub(shelf.path)
    for line in sorted(acked):
        folder, name = line.split("/")
        with open(f"{shelf.path}/{folder}/files/{name}", "rb") as f:
            assert f.read() == content(name), f"{line} has other bytes"
    for folder in {line.split("/")[0] for line in acked}:
        usage = shelf.ask("usage", folder)
        assert LIMIT <= usage.max_bytes < LIMIT + MIB, f"{folder}: {usage}"


@contextlib.contextmanager
def outer_disk():
    with tempfile.TemporaryDirectory(prefix="krait-outer-") as folder:
        shelves.mkfs("btrfs", f"{folder}/disk", 8 << 30)
        shelves.mount(f"{folder}/disk", f"{folder}/outer")
        for path in (folder, f"{folder}/outer"):
            os.chmod(path, 0o755)  # a server has a user of its own
        try:
            yield f"{folder}/outer"
        finally:
            shelves.unmount(f"{folder}/outer")


def clone(source: str, target: str) -> None:
    with open(source, "rb") as f, open(target, "wb") as g:
        os.fchmod(g.fileno(), 0o600)
        fcntl.ioctl(g.fileno(), FICLONE, f.fileno())


@check
def every_file_survives_a_power_cut():
    shelves.need_btrfs()
    with outer_disk() as outer:
        cuts: list[tuple[str, set[str]]] = []
        with Data(outer) as data:
            with Shelf(data, size=2 << 30) as shelf:
                equal(shelf.image, 1)
                load = Load(shelf, 0)
                for i in range(CUTS):
                    time.sleep(random.uniform(0.05, 0.6))
                    acked = load.look()
                    os.mkdir(f"{outer}/cut{i}")
                    os.mkdir(f"{outer}/cut{i}/sandboxes", 0o700)
                    os.chown(f"{outer}/cut{i}/sandboxes", SERVER, SERVER)
                    clone(f"{data}/sandboxes.image", f"{outer}/cut{i}/sandboxes.image")
                    cuts.append((f"{outer}/cut{i}", acked))
                load.end()
        assert len(cuts[-1][1]) > CUTS, f"only {len(cuts[-1][1])} files: no load"
        for path, acked in cuts:
            with Shelf(path) as shelf:
                look_through(shelf, acked)
            equal(shelves.nothing_left(path), "", path)
            shutil.rmtree(path)


class Uploads:
    """Clients of a server: new files in new folders, several in one request, and one that is replaced over and over."""
    AT = "/api/v1/sandboxes/default/files"

    def __init__(self, server: Server) -> None:
        self.server, self.stop, self.lock = server, threading.Event(), threading.Lock()
        self.acked: set[str] = set()
        self.version = 0
        self.wrong: list[str] = []
        self.threads = [threading.Thread(target=self.work, args=(one,)) for one in
                        (self.put_new, self.put_new, self.post_two, self.replace)]
        for thread in self.threads:
            thread.start()

    def work(self, one) -> None:
        me = threading.get_ident()
        for i in range(1 << 30):
            if self.stop.is_set() or self.wrong:
                return
            try:
                one(f"{me:x}n{i}", i + 1)
            except (AssertionError, OSError) as e:
                self.wrong.append(str(e))

    def note(self, *names: str) -> None:
        with self.lock:
            self.acked |= set(names)

    def put_new(self, name: str, i: int) -> None:
        path = f"d{i % 7}/{name}/file"
        equal(self.server.put(f"{self.AT}/{path}", content(path)).status, 201)
        self.note(path)

    def post_two(self, name: str, _i: int) -> None:
        parts = b"".join(b'--x\r\nContent-Disposition: form-data; name="files"; filename="%s"\r\n\r\n%s\r\n'
                         % (n.encode(), content(n)) for n in (name + "a", name + "b"))
        reply = self.server.post(self.AT, parts + b"--x--\r\n",
                                 headers={"Content-Type": "multipart/form-data; boundary=x"})
        assert reply.status in (200, 201), reply.text
        self.note(name + "a", name + "b")

    def replace(self, _name: str, i: int) -> None:
        assert self.server.put(f"{self.AT}/same", b"%08d" % i * 2000).status in (200, 201)
        with self.lock:
            self.version = i

    def look(self) -> tuple[set[str], int]:
        with self.lock:
            return set(self.acked), self.version

    def end(self) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join(60)
        equal(self.wrong, [])


def find_uploads(shelf: Shelf, acked: set[str], version: int) -> None:
    scrub(shelf.path)
    files, = glob.glob(f"{shelf.path}/*/files")
    for name in sorted(acked):
        with open(f"{files}/{name}", "rb") as f:
            assert f.read() == content(name), f"{name} has other bytes"
    if version:
        with open(f"{files}/same", "rb") as f:
            same = f.read()
        equal(same, same[:8] * 2000, "one version of it, whole")
        assert int(same[:8]) >= version, f"version {int(same[:8])} after {version} was acknowledged"


@check
def every_upload_that_a_server_answered_for_survives_a_power_cut():
    shelves.need_btrfs()
    with outer_disk() as outer:
        cuts = []
        with Server(data=outer, shelf="image", args=["--shelf-size", "2G"], validate=False) as s:
            load = Uploads(s)
            owner = os.stat(f"{outer}/data")
            for i in range(CUTS):
                time.sleep(random.uniform(0.2, 1.0))
                seen = load.look()
                os.mkdir(f"{outer}/cut{i}")
                os.mkdir(f"{outer}/cut{i}/sandboxes", 0o700)
                os.chown(f"{outer}/cut{i}/sandboxes", owner.st_uid, owner.st_gid)
                clone(f"{outer}/data/sandboxes.image", f"{outer}/cut{i}/sandboxes.image")
                cuts.append((f"{outer}/cut{i}", *seen))
            load.end()
        assert len(cuts[-1][1]) > CUTS and cuts[-1][2] > 1, f"{len(cuts[-1][1])} files, {cuts[-1][2]} versions: no load"
        for path, acked, version in cuts:
            with Shelf(path) as shelf:
                find_uploads(shelf, acked, version)
            equal(shelves.nothing_left(path), "", path)
            shutil.rmtree(path)


@check
def every_file_survives_a_kill_of_everything():
    with Data() as data:
        acked: set[str] = set()
        for i in range(KILLS):
            shelf = Shelf(data, size=2 << 30)
            assert shelf.up, shelf.error
            load = Load(shelf, i * WRITERS)
            time.sleep(random.uniform(0.1, 1.0))
            shelf.kill()
            load.end()
            acked |= load.acked
            equal(shelves.nothing_left(data), "", f"after kill {i}")
        with Shelf(data) as shelf:
            if shelf.kind == shelves.BTRFS:
                look_through(shelf, acked)
            assert len(acked) > KILLS, f"only {len(acked)} files: no load"


@check
def a_kill_while_an_image_is_made_leaves_all_or_nothing():
    made = none = 0
    for i in range(24):
        with Data() as data:
            pid = os.fork()
            if pid == 0:
                os.setpgid(0, 0)
                null = os.open("/dev/null", os.O_RDWR)
                os.dup2(null, 0)
                os.dup2(null, 1)
                os.execv(shelves.DRIVER, [shelves.DRIVER, f"{data}/sandboxes", "image", str(1 << 30), "0"])
            with contextlib.suppress(OSError):  # the child did it
                os.setpgid(pid, pid)
            time.sleep(i * 0.003)
            os.killpg(pid, 9)
            os.waitpid(pid, 0)
            equal(shelves.nothing_left(data), "", f"after {i * 3} ms")
            if os.path.exists(f"{data}/sandboxes.image"):
                made += 1
            else:
                none += 1
            with Shelf(data, "image", size=1 << 30) as shelf:
                equal(shelf.ask("make", "aa", MIB).error, 0)
    assert none > 0, "no kill came before the image was whole"


if __name__ == "__main__":
    shelves.alone()
    main()
