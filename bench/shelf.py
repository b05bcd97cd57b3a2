"""File work on the shelf's image beside the same in a plain folder of the same disk, for bench/run. As root, with
build/tests/shelf-driver: the image is the one that a server makes."""
import os
import shutil
import subprocess
import tempfile
import time

GIB = 1 << 30
BLOCK = 1 << 20
FILES = 10000
SYNCED = 200
PAIRS = 10  # reads of the large file, one on the image and one in the folder
# key, label, bar (image / folder)
WORK = (
    ("create", "create %d files of 1 KB" % FILES, 0.7),
    ("delete", "delete them", 0.7),
    ("write", "write a large file and fsync it", 0.45),
    ("read", "read it, from the disk", 0.7),
    ("fsync", "fsync of a new small file, and of its folder", None),
)


class Shelf:
    """An image that is mounted in the driver's namespace, and a plain folder beside it."""

    def __init__(self, build: str, size: int) -> None:
        self.size = size
        self.top = tempfile.mkdtemp(prefix="krait-bench-")
        self.folder = os.path.join(self.top, "plain")
        os.mkdir(self.folder)
        os.mkdir(os.path.join(self.top, "sandboxes"))
        self.driver = subprocess.Popen([os.path.join(build, "tests/shelf-driver"), self.top + "/sandboxes", "image", str(16 * GIB), "1"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        words = self.driver.stdout.readline().split()
        if words[:1] != ["up"]:
            raise OSError("no image: " + " ".join(words))
        self.driver.stdin.write("make bench %d 0\n" % (8 * GIB))
        if not self.driver.stdout.readline().startswith("ok"):
            raise OSError("no folder on the image")
        self.image = "/proc/%s/root%s/sandboxes/bench" % (words[3], self.top)

    def close(self) -> None:
        self.driver.stdin.close()
        self.driver.wait()
        shutil.rmtree(self.top, ignore_errors=True)

    def rates(self, path: str) -> dict:
        """Per second: files, bytes or calls. Each piece of work is as far apart from the one before as a sync makes
        it. The large file stays."""
        done = {}
        for key in ("create", "delete", "write", "fsync"):
            os.sync()
            done[key] = self.rate(key, path)
        shutil.rmtree(path + "/synced")
        return done

    def rate(self, key: str, path: str) -> float:
        began = time.perf_counter()
        count = getattr(self, key)(path)
        return count / (time.perf_counter() - began)

    def reads(self, count: int):
        """Pairs of rates, of the image and of the folder, each read from the disk right after the other: its pace
        differs by more than twice from one second to the next. Every other pair begins with the folder."""
        os.sync()
        for turn in range(count):
            pair = {}
            for place in ("image", "folder") if turn % 2 == 0 else ("folder", "image"):
                path = getattr(self, place)
                forget(path + "/large")
                pair[place] = self.rate("read", path)
            yield pair["image"], pair["folder"]

    def create(self, path: str) -> int:
        os.mkdir(path + "/many")
        for i in range(FILES):
            with open("%s/many/f%d" % (path, i), "wb") as f:
                f.write(b"x" * 1024)
        return FILES

    def delete(self, path: str) -> int:
        shutil.rmtree(path + "/many")
        return FILES

    def write(self, path: str) -> int:
        block = os.urandom(BLOCK)
        with open(path + "/large", "wb", buffering=0) as f:
            for _ in range(self.size // BLOCK):
                f.write(block)
            os.fsync(f.fileno())
        return self.size

    def read(self, path: str) -> int:
        with open(path + "/large", "rb", buffering=0) as f:
            while f.read(BLOCK):
                pass
        return self.size

    def fsync(self, path: str) -> int:
        os.mkdir(path + "/synced")
        folder = os.open(path + "/synced", os.O_RDONLY)
        for i in range(SYNCED):
            with open("%s/synced/f%d" % (path, i), "wb", buffering=0) as f:
                f.write(b"x" * 1024)
                os.fsync(f.fileno())
            os.fsync(folder)
        os.close(folder)
        return SYNCED


def forget(path: str) -> None:
    """Its pages leave the cache, so that reading is reading."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
