#!/usr/bin/python3
"""An image on a host that fills up: writers in it are refused in time, the image stays whole, and goes on when there is
room again. The host is a small ext4 of its own, in a mount namespace of its own."""
import contextlib
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "lib"))
import shelves  # noqa: E402
from shelves import MIB, Data, Shelf, fill  # noqa: E402
from check import check, equal, main  # noqa: E402

HOST = 1024 * MIB
RESERVE = 64 * MIB
LOOK_S = 2.5  # a second between two looks of the keeper, and some


@contextlib.contextmanager
def small_host():
    """A data directory on a filesystem of HOST bytes, and the folder beside it for other writers."""
    with tempfile.TemporaryDirectory(prefix="krait-host-") as folder:
        shelves.mkfs("ext4", f"{folder}/disk", HOST, "-F", "-m", "0")
        shelves.mount(f"{folder}/disk", f"{folder}/host")
        try:
            with Data(f"{folder}/host") as data:
                yield data
        finally:
            shelves.unmount(f"{folder}/host")


def still_works(shelf: Shelf, name: str) -> None:
    """Reads and deletes: the filesystem was not made read-only."""
    with open(f"{shelf.path}/{name}/before", "rb") as f:
        equal(f.read(), b"here")
    os.unlink(f"{shelf.path}/{name}/before")
    os.unlink(f"{shelf.path}/{name}/file")


def open_folder(shelf: Shelf, name: str) -> str:
    answer = shelf.ask("make", name, 0)
    assert not answer.error, answer.text
    with open(f"{shelf.path}/{name}/before", "wb") as f:
        f.write(b"here")
    return f"{shelf.path}/{name}"


@check
def cells_cannot_fill_the_host():
    shelves.need_btrfs()
    with small_host() as data, Shelf(data, size=8 << 30) as shelf:
        equal(shelf.image, 1)
        path = open_folder(shelf, "aa")
        with open(f"{path}/file", "wb", buffering=0) as f:
            taken = fill(f.fileno(), 4 * HOST)
            os.fsync(f.fileno())
        assert HOST // 2 < taken < HOST - RESERVE, f"{taken >> 20} MiB"
        left = os.statvfs(data)
        assert left.f_bavail * left.f_frsize > RESERVE // 2, f"{left.f_bavail * left.f_frsize >> 20} MiB left"
        answer = shelf.ask("usage", "aa")
        assert answer.room < 8 * MIB and answer.max_bytes == 0, answer
        assert answer.host_free > RESERVE // 2, answer
        still_works(shelf, "aa")
        time.sleep(LOOK_S)
        with open(f"{path}/file", "wb", buffering=0) as f:
            assert fill(f.fileno(), 100 * MIB) >= 100 * MIB, "what was deleted is free again"


@check
def other_writers_can_and_the_image_survives():
    shelves.need_btrfs()
    with small_host() as data, Shelf(data, size=8 << 30, discard=True) as shelf:
        path = open_folder(shelf, "aa")
        with open(f"{path}/file", "wb"):
            pass
        # All but a few MiB, as another program of the host may: faster than the keeper looks.
        free = os.statvfs(data)
        with open(f"{os.path.dirname(data)}/other", "wb") as f:
            os.posix_fallocate(f.fileno(), 0, free.f_bavail * free.f_frsize - 24 * MIB)
        time.sleep(LOOK_S)
        with open(f"{path}/file", "r+b", buffering=0) as f:
            taken = fill(f.fileno(), HOST)
            os.fsync(f.fileno())
        assert taken < 4 * MIB, f"{taken >> 20} MiB on a host that is full"
        still_works(shelf, "aa")
        os.unlink(f"{os.path.dirname(data)}/other")
        time.sleep(LOOK_S)
        with open(f"{path}/file", "wb", buffering=0) as f:
            assert fill(f.fileno(), 200 * MIB) >= 200 * MIB, "there is room again"


@check
def deleted_bytes_return_to_the_host():
    shelves.need_btrfs()
    for discard in (True, False):
        with Data() as data, Shelf(data, discard=discard) as shelf:
            path = open_folder(shelf, "aa")
            with open(f"{path}/file", "wb", buffering=0) as f:
                fill(f.fileno(), 200 * MIB)
                os.fsync(f.fileno())
            image = f"{data}/sandboxes.image"
            assert os.stat(image).st_blocks * 512 > 200 * MIB
            equal(shelf.ask("drop", "aa").error, 0)
            for _ in range(200):
                if os.stat(image).st_blocks * 512 < 50 * MIB:
                    break
                time.sleep(0.1 if discard else 0.02)
            equal(os.stat(image).st_blocks * 512 < 50 * MIB, discard, "given back")


if __name__ == "__main__":
    shelves.alone()
    main()
