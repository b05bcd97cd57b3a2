#!/usr/bin/python3
"""The shelf's limits, at the level of the keeper: what a process can write in a folder, by every way around a count that
walks. Beside each attack, the same in a plain folder passes, so the attack is one.

What holds of the image holds where the data directory has project quotas of its own, on ext4 and XFS. Where the kernel
has none of them that is not looked at, and said; KR_QUOTAS names the filesystems of which it must have them."""
import contextlib
import ctypes
import fcntl
import functools
import hashlib
import os
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "lib"))
import shelves  # noqa: E402
from shelves import BTRFS, FOLDER, MIB, PROJECT, SERVER, SLACK, Data, Shelf, fill, in_user  # noqa: E402
from check import check, contains, equal, main  # noqa: E402

LIMIT = 8 * MIB
MOST = 32 * MIB


def unlinked(path: str) -> int:
    fd = os.open(f"{path}/gone", os.O_CREAT | os.O_WRONLY)
    os.unlink(f"{path}/gone")
    return fill(fd, MOST)


def forbidden(path: str) -> int:
    os.mkdir(f"{path}/dark")
    fd = os.open(f"{path}/dark/file", os.O_CREAT | os.O_WRONLY)
    os.chmod(f"{path}/dark", 0)
    return fill(fd, MOST)


def deep(path: str) -> int:
    os.chdir(path)
    for _ in range(70):
        os.mkdir("d")
        os.chdir("d")
    return fill(os.open("file", os.O_CREAT | os.O_WRONLY), MOST)


def background(path: str) -> int:
    """A process that outlives the one that made it."""
    r, w = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        time.sleep(0.2)
        os.write(w, str(fill(os.open(f"{path}/late", os.O_CREAT | os.O_WRONLY), MOST)).encode())
        os._exit(0)
    os.close(w)
    return int(os.read(r, 20))


def many(path: str) -> int:
    """Small files: each costs metadata, which counts too."""
    done = 0
    try:
        for i in range(20000):
            with open(f"{path}/f{i}", "wb") as f:
                f.write(b"x" * 2000)
            done += 2000
    except OSError:
        pass
    return done


def append(path: str) -> int:
    fd = os.open(f"{path}/file", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    done = fill(fd, MOST)
    os.close(fd)
    return done


def link(path: str) -> int:
    """Entries without a byte."""
    made = 0
    try:
        for i in range(300):
            os.symlink("x", f"{path}/l{i}")
            made += 1
    except OSError:
        pass
    return made


ATTACKS = [unlinked, forbidden, deep, background, many]


def folder(shelf: Shelf, name: str, limit: int = LIMIT, inodes: int = 0) -> str:
    """As the server makes it."""
    a = shelf.ask("make", name, limit, inodes)
    assert not a.error, a.text
    assert a.kind == shelf.kind, a
    path = f"{shelf.path}/{name}"
    st = os.stat(path)
    equal((st.st_uid, st.st_gid, st.st_mode & 0o7777), (SERVER, SERVER, 0o700), "owner and mode")
    in_user(os.mkdir, f"{path}/files")
    return f"{path}/files"


CASES = []


def case(function):
    """A check of the image; projects_of_own_disk() asks the same of other shelves."""

    @functools.wraps(function)
    def on_image():
        with Data() as data, Shelf(data) as shelf:
            assert shelf.image, shelf.why
            function(shelf)

    CASES.append(function)
    return check(on_image)


@case
def no_way_past_a_limit(shelf):
    assert shelf.kind in (BTRFS, PROJECT), shelf.why
    for attack in ATTACKS:
        path = folder(shelf, attack.__name__)
        got = in_user(attack, path)
        assert got <= LIMIT + SLACK, f"{attack.__name__} wrote {got}"
        assert got >= LIMIT // 3, f"{attack.__name__} was refused at {got}"
        used = shelf.ask("usage", attack.__name__)
        assert used.bytes <= used.max_bytes <= LIMIT + SLACK, used


@check
def a_plain_folder_is_passed():
    with Data() as data, Shelf(data, "folder") as shelf:
        equal((shelf.kind, shelf.image), (FOLDER, 0))
        equal(shelf.ask("make", "aa", LIMIT).kind, FOLDER)
        assert not os.path.exists(f"{data}/sandboxes/aa"), "a plain folder is the server's to make"
        for attack in ATTACKS:
            path = f"{data}/sandboxes/{attack.__name__}"
            in_user(os.mkdir, path)
            assert in_user(attack, path) >= MOST, attack.__name__


@case
def limits_change_while_a_process_writes(shelf):
    path = folder(shelf, "aa")
    first = in_user(append, path)
    assert first < LIMIT + SLACK
    equal(shelf.ask("limit", "aa", 2 * LIMIT).error, 0)
    more = in_user(append, path)
    assert LIMIT // 2 < more < LIMIT + SLACK, more
    equal(shelf.ask("limit", "aa", LIMIT).error, 0)
    equal(in_user(append, path), 0, "written over a lowered limit")
    equal(shelf.ask("limit", "aa", 0).max_bytes, 0)
    assert in_user(append, path) >= MOST, "no limit"


@case
def a_full_folder_can_be_emptied(shelf):
    path = folder(shelf, "aa")
    for _ in range(3):
        assert LIMIT // 2 < in_user(append, path) < LIMIT + SLACK
        os.unlink(f"{path}/file")


@case
def the_smallest_limit_holds_a_file(shelf):
    path = folder(shelf, "aa", 64 * 1024)
    with open(f"{path}/file", "wb") as f:
        f.write(b"x" * 4096)
    got = in_user(unlinked, path)
    assert got <= 64 * 1024 + SLACK, got
    used = shelf.ask("usage", "aa")
    assert 0 < used.bytes <= used.max_bytes, used


@case
def inodes_are_limited_by_projects(shelf):
    path = folder(shelf, "aa", LIMIT, 100)
    made = in_user(link, path)
    if shelf.kind == PROJECT:
        equal(made, 98, "besides the folder and files/")
        equal(shelf.ask("usage", "aa").inodes, 100)
    else:
        equal((made, shelf.ask("usage", "aa").inodes), (300, 0), "btrfs does not count them")


@case
def a_dropped_folder_gives_its_room_back(shelf):
    path = folder(shelf, "aa", 200 * MIB)
    with open(f"{path}/file", "wb") as f:
        fill(f.fileno(), 100 * MIB)
    if shelf.kind == PROJECT:
        equal(shelf.ask("drop", "aa").error, 39, "a project's folder must be empty")
        os.unlink(f"{path}/file")
        os.rmdir(path)
    before = shelf.ask("usage")
    start = time.monotonic()
    equal(shelf.ask("drop", "aa").error, 0)
    assert time.monotonic() - start < 20.0  # it is dropped as a whole, not file by file
    equal(shelf.ask("usage", "aa").error, 2)
    for _ in range(100):
        if shelf.kind == PROJECT or before.bytes - shelf.ask("usage").bytes > 90 * MIB:
            break
        time.sleep(0.1)
    else:
        raise AssertionError(f"{before} became {shelf.ask('usage')}")
    folder(shelf, "aa")  # the name is free again


@case
def questions_are_checked(shelf):
    for name in ("../x", "a/b", "A", "a.b", "x" * 32, "-x"):
        equal(shelf.ask("make", name, LIMIT).error, 22, name)
    equal(shelf.ask("make", "-", LIMIT).error, 22)
    equal(shelf.ask("grow", "aa", 1 << 31).error, 22)
    equal(shelf.ask("nonsense", "aa").error, 22)
    equal(shelf.ask("make", "aa", 1 << 60).error, 34)
    equal(shelf.ask("make", "aa", 0, 1 << 40).error, 34)
    equal(shelf.ask("limit", "nothere", LIMIT).error, 2)
    folder(shelf, "aa")
    equal(shelf.ask("make", "aa", LIMIT).error, 17)
    os.symlink("/etc", f"{shelf.path}/link")
    assert shelf.ask("usage", "link").error in (40, 20)


def numbers(path: str) -> dict[str, bytes]:
    found = {}
    for name in os.listdir(path):
        with open(f"{path}/{name}", "rb") as f:
            found[name] = f.read()
    return found


@case
def a_copy_is_whole_and_limited(shelf):
    path = folder(shelf, "aa")
    for i in range(50):
        with open(f"{path}/f{i}", "w") as f:
            f.write(f"{i}" * 5000)
    a = shelf.ask("copy", "bb", LIMIT, 0, "aa")
    if shelf.kind != BTRFS:
        equal(a.error, 95, a.text)
        assert not os.path.exists(f"{shelf.path}/bb"), "nothing is left of it"
        return
    equal(a.error, 0, a.text)
    copy = f"{shelf.path}/bb/files"
    equal(numbers(copy), numbers(path))
    st = os.stat(f"{shelf.path}/bb")
    equal((st.st_uid, st.st_gid, st.st_mode & 0o7777), (SERVER, SERVER, 0o700), "owner and mode")
    got = in_user(unlinked, copy)  # its own limit, from its first moment
    assert LIMIT // 3 <= got <= LIMIT + SLACK, f"{got} bytes could be written"
    os.unlink(f"{copy}/f0")
    assert os.path.exists(f"{path}/f0"), "the copy is apart from what it was made of"
    equal(shelf.ask("drop", "aa").error, 0)
    equal(len(numbers(copy)), 49)


@case
def copies_are_checked(shelf):
    folder(shelf, "aa")
    for source in ("../x", "a/b", "-x", "-"):
        equal(shelf.ask("copy", "bb", LIMIT, 0, source).error, 22, source)
    equal(shelf.ask("copy", "-", LIMIT, 0, "aa").error, 22)
    equal(shelf.ask("make", "bb", LIMIT, 0, "aa").error, 22, "only a copy has a source")
    equal(shelf.ask("copy", "bb", LIMIT, 0, "nothere").error, 2)
    os.symlink("aa", f"{shelf.path}/link")
    assert shelf.ask("copy", "bb", LIMIT, 0, "link").error in (22, 40, 20)
    if shelf.kind == BTRFS:
        equal(shelf.ask("copy", "aa", LIMIT, 0, "aa").error, 17)
        os.chown(f"{shelf.path}/aa", 0, 0)  # as one that is not finished
        equal(shelf.ask("copy", "bb", LIMIT, 0, "aa").error, 1)
        os.chown(f"{shelf.path}/aa", SERVER, SERVER)
        equal(shelf.ask("copy", "bb", LIMIT, 0, "aa").error, 0)


@case
def what_a_server_made_itself_is_a_plain_folder(shelf):
    in_user(os.mkdir, f"{shelf.path}/old")
    equal(shelf.ask("usage", "old").kind, FOLDER)
    equal(shelf.ask("limit", "old", LIMIT).kind, FOLDER)
    equal(shelf.ask("drop", "old").kind, FOLDER)
    assert os.path.isdir(f"{shelf.path}/old")


@check
def a_restart_finds_folders_and_limits():
    with Data() as data:
        with Shelf(data) as shelf:
            path = folder(shelf, "aa")
            with open(f"{path}/file", "w") as f:
                f.write("kept")
            limit = shelf.ask("usage", "aa").max_bytes
        assert not os.listdir(f"{data}/sandboxes"), "the folder beneath is empty"
        with Shelf(data) as shelf:
            with open(f"{shelf.path}/aa/files/file") as f:
                equal(f.read(), "kept")
            equal(shelf.ask("usage", "aa").max_bytes, limit)
            assert in_user(unlinked, f"{shelf.path}/aa/files") <= LIMIT + SLACK


@check
def two_processes_share_one_image():
    with Data() as data, Shelf(data) as one, Shelf(data) as two:
        equal(len(shelves.devices(data)), 1)
        path = folder(one, "aa")
        with open(f"{path}/file", "w") as f:
            f.write("seen")
        with open(f"{two.path}/aa/files/file") as f:
            equal(f.read(), "seen")
        equal(two.ask("limit", "aa", 2 * LIMIT).max_bytes, one.ask("usage", "aa").max_bytes)
        one.close()
        folder(two, "bb")


@check
def an_image_grows_while_it_is_used():
    with Data() as data, Shelf(data, size=512 * MIB) as shelf, contextlib.ExitStack() as stack:
        path = folder(shelf, "aa", 0)
        fd = stack.enter_context(open(f"{path}/file", "wb", buffering=0)).fileno()
        small = fill(fd, 2 << 30)
        assert small < 512 * MIB
        grown = shelf.ask("grow", "-", 1 << 30)
        assert not grown.error, grown.text
        assert grown.size > 900 * MIB, grown
        time.sleep(1.5)
        assert fill(fd, 300 * MIB) >= 300 * MIB
        equal(shelf.ask("grow", "-", 512 * MIB).error, 22, "it does not shrink")
    with Data() as data, Shelf(data, "folder") as shelf:
        equal(shelf.ask("grow", "-", 1 << 30).error, 95)


@check
def a_folder_with_sandboxes_stays_one():
    with Data() as data:
        os.mkdir(f"{data}/sandboxes/old")
        with Shelf(data) as shelf:
            equal((shelf.kind, shelf.image), (FOLDER, 0))
            contains(shelf.why, "krait shelf move")
        refused = Shelf(data, "image")
        assert not refused.up
        contains(refused.error, "shelf = image")
        assert not os.path.exists(f"{data}/sandboxes.image")


@check
def an_image_that_is_not_ours_is_left_alone():
    with Data() as data:
        image = f"{data}/sandboxes.image"
        with Shelf(data):
            pass
        os.chown(image, SERVER, SERVER)
        contains(Shelf(data).error, "must be a file of uid 0")
        os.chown(image, 0, 0)
        os.link(image, f"{data}/second")
        contains(Shelf(data).error, "must be a file of uid 0")
        os.unlink(f"{data}/second")
        contains(Shelf(data, "folder").error, "krait shelf move")
        with Shelf(data):
            pass
        with open(image, "r+b") as f:
            f.truncate(0)
            f.write(b"precious" * 100000)
        sum_before = hashlib.sha256(open(image, "rb").read()).digest()
        contains(Shelf(data).error, "left alone")
        with open(image, "r+b") as f:
            f.seek(0x10040)
            f.write(b"_BHRfS_M")
        contains(Shelf(data).error, "mount the image")
        with open(image, "r+b") as f:
            f.seek(0x10040)
            f.write((b"precious" * 100000)[0x10040:0x10048])
        equal(hashlib.sha256(open(image, "rb").read()).digest(), sum_before, "the file was changed")
        os.unlink(image)
        os.symlink("/etc/passwd", image)
        assert not Shelf(data).up
        os.unlink(image)


QUOTA_CTL, FULL, OFF, SIMPLE = 0xC0109428, 1, 2, 4


def switch_quotas_off(image: str, kind: int) -> None:
    with tempfile.TemporaryDirectory(prefix="krait-own-") as place:
        if kind == PROJECT:
            subprocess.run(["/usr/sbin/tune2fs", "-Q", "^prjquota", image], check=True, stdout=subprocess.DEVNULL)
            return
        shelves.mount(image, f"{place}/image")
        top = os.open(f"{place}/image", os.O_RDONLY)
        fcntl.ioctl(top, QUOTA_CTL, bytearray(struct.pack("QQ", OFF, 0)))
        os.close(top)
        shelves.unmount(f"{place}/image")


@check
def an_image_without_quotas_is_refused():
    with Data() as data:
        for _ in range(2):  # the second is the control: it is mounted again as it was left
            with Shelf(data) as shelf:
                kind = shelf.kind
                assert shelf.image, shelf.why
        switch_quotas_off(f"{data}/sandboxes.image", kind)
        for choice in ("auto", "image"):
            refused = Shelf(data, choice)
            assert not refused.up, f"{choice}: it is used without quotas"
            contains(refused.error, "quota" if kind == BTRFS else "image")
        assert os.path.exists(f"{data}/sandboxes.image"), "it is left alone"


@contextlib.contextmanager
def mounted(kind: str, *options: str, mount: str = ""):
    """A filesystem that krait did not make."""
    with tempfile.TemporaryDirectory(prefix="krait-own-") as place:
        os.chmod(place, 0o755)
        shelves.mkfs(kind, f"{place}/disk", 1 << 30, *options)
        shelves.mount(f"{place}/disk", f"{place}/own", mount)
        try:
            yield f"{place}/own"
        finally:
            shelves.unmount(f"{place}/own")


@contextlib.contextmanager
def disk(kind: str, *options: str):
    """A data directory on one."""
    with mounted(kind, *options) as point, Data(point) as data:
        yield data


# Options of mkfs that make them, with which project quotas can be on.
PROJECT_DISKS = {"ext4": ("-F", "-O", "project,quota", "-E", "quotatype=prjquota"), "xfs": ("-f",)}


def has_projects(kind: str) -> bool:
    """Whether the kernel has project quotas of this filesystem: a disk that it mounts without them is refused with them.
    mkfs must work everywhere."""
    if kind in os.environ.get("KR_QUOTAS", "").split():
        return True
    with mounted(kind, *PROJECT_DISKS[kind][:1]):
        pass
    with tempfile.TemporaryDirectory(prefix="krait-own-") as place:
        shelves.mkfs(kind, f"{place}/disk", 1 << 30, *PROJECT_DISKS[kind])
        try:
            shelves.mount(f"{place}/disk", f"{place}/own", "prjquota")
        except subprocess.CalledProcessError:
            return False
        shelves.unmount(f"{place}/own")
    return True


def projects_of_own_disk(kind: str) -> None:
    """All that holds of an image, on a disk of this kind with project quotas on."""
    with mounted(kind, *PROJECT_DISKS[kind], mount="prjquota") as point:
        with Data(point) as data:
            own_quota_holds(data, PROJECT)
        for one in CASES:
            with Data(point) as data, Shelf(data) as shelf:
                equal((shelf.kind, shelf.image), (PROJECT, 0), one.__name__)
                one(shelf)
        with Data(point) as data:
            with Shelf(data) as shelf:
                folder(shelf, "aa", LIMIT, 100)
            with Shelf(data) as shelf:
                used = shelf.ask("usage", "aa")
                assert LIMIT <= used.max_bytes <= LIMIT + SLACK and used.max_inodes == 100, f"after a restart: {used}"
                assert in_user(unlinked, f"{shelf.path}/aa/files") <= LIMIT + SLACK


def own_quota_holds(data: str, kind: int) -> None:
    with Shelf(data) as shelf:
        equal((shelf.kind, shelf.image, shelf.why), (kind, 0, ""))
        assert in_user(unlinked, folder(shelf, "aa")) <= LIMIT + SLACK
        assert in_user(unlinked, folder(shelf, "bb", 3 * LIMIT)) > LIMIT + SLACK
        used = shelf.ask("usage")
        assert used.room == used.host_free > 0, used
        equal(shelf.ask("grow", "-", 1 << 31).error, 95, "not ours to grow")
        for name in ("aa", "bb"):
            if kind == PROJECT:
                os.rmdir(f"{shelf.path}/{name}/files")
            equal(shelf.ask("drop", name).error, 0)
        assert not os.path.exists(f"{data}/sandboxes.image")


QUOTACTL_FD, PRJQUOTA, GETQUOTA, SETQUOTA, LIMITS = 443, 2, 0x800007, 0x800008, 5
DQBLK = "8QI4x"  # struct dqblk: the limits of bytes (in KiB) are the first two, those of inodes the fourth and fifth
OURS = range(0x6B000000, 0x6C000000)  # project ids that krait gives away


def quota(top: str, command: int, project: int, block: bytes = bytes(struct.calcsize(DQBLK))) -> tuple:
    data = ctypes.create_string_buffer(block, len(block))
    fd = os.open(top, os.O_RDONLY)
    r = shelves.libc.syscall(QUOTACTL_FD, fd, command << 8 | PRJQUOTA, project, data)
    os.close(fd)
    assert r == 0, os.strerror(ctypes.get_errno())
    return struct.unpack(DQBLK, data.raw)


def limits_of_other_projects_stay(kind: str) -> None:
    with mounted(kind, *PROJECT_DISKS[kind], mount="prjquota") as point, Data(point) as data:
        others = (1, OURS[0] - 1, OURS[-1] + 1)
        for project in others:
            quota(data, SETQUOTA, project, struct.pack(DQBLK, 4096, 2048, 0, 400, 200, 0, 0, 0, LIMITS))
        with Shelf(data) as shelf:
            equal((shelf.kind, shelf.ask("make", "aa", LIMIT).error), (PROJECT, 0))
            equal(shelf.ask("drop", "aa").error, 0)
        for project in others:
            q = quota(data, GETQUOTA, project)
            equal((q[0], q[1], q[3], q[4]), (4096, 2048, 400, 200), f"limits of project {project:#x}")


def add_projects_of(kind: str) -> None:
    for name, row in (("projects_of_" + kind, projects_of_own_disk),
                      ("limits_of_other_projects_stay_on_" + kind, limits_of_other_projects_stay)):
        def holds(row=row) -> None:
            row(kind)
        holds.__name__ = name
        if has_projects(kind):
            check(holds)
        else:
            print(f"# {name}: not here, this kernel has no project quotas of {kind}", flush=True)


@check
def quotas_of_the_data_directory_come_first():
    with open("/proc/filesystems") as f:
        has_btrfs = "\tbtrfs\n" in f.read()
    simple = has_btrfs and tuple(int(x) for x in os.uname().release.split("-")[0].split(".")[:2]) >= (6, 7)
    for command in [FULL] * has_btrfs + [SIMPLE] * simple:
        with disk("btrfs") as data:
            top = os.open(data, os.O_RDONLY)
            fcntl.ioctl(top, QUOTA_CTL, bytearray(struct.pack("QQ", command, 0)))
            os.close(top)
            own_quota_holds(data, BTRFS)
    with disk("ext4", "-F") as data, Shelf(data, size=512 * MIB) as shelf:
        equal(shelf.image, 1, "quotas are off there")
    if has_btrfs:
        with disk("btrfs") as data, Shelf(data, size=512 * MIB) as shelf:
            equal(shelf.image, 1, "quotas are off there")


@check
def without_root_it_is_a_folder():
    def as_user():
        os.setgroups([])
        os.setresgid(SERVER, SERVER, SERVER)
        os.setresuid(SERVER, SERVER, SERVER)
    with Data() as data:
        with Shelf(data, preexec_fn=as_user) as shelf:
            equal(shelf.kind, FOLDER)
            contains(shelf.why, "not root")
        contains(Shelf(data, "image", preexec_fn=as_user).error, "not root")


@check
def too_little_room_for_an_image():
    with Data() as data:
        with Shelf(data, size=16 * MIB) as shelf:
            equal(shelf.kind, FOLDER)
            contains(shelf.why, "256 MiB")
        contains(Shelf(data, "image", size=16 * MIB).error, "256 MiB")


if __name__ == "__main__":
    shelves.alone()
    for filesystem in PROJECT_DISKS:
        add_projects_of(filesystem)
    main()
