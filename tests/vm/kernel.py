"""Debian 12's cloud kernel for the test VM, fetched, unpacked and kept; used by tests/vm/run.

The package is downloaded with apt (which checks its signature) and unpacked into the cache, never
installed. Beside it lies the initramfs made of busybox, the modules below and tests/vm/init.
Invariant: a directory of the cache that has its final name is complete; its name holds the
package's version and a digest of what went into the initramfs.
"""
import fcntl
import glob
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from typing import NamedTuple

HERE = os.path.dirname(os.path.realpath(__file__))
META_PACKAGE = "linux-image-cloud-amd64"
PACKAGE = re.compile(r"linux-image-(6\.1\.[0-9.-]+-cloud-amd64)")
# Each is loaded after those that it names itself, which an update of the kernel may change. ext4 is built in; 9p does
# not exist in this kernel; overlay, loop, the quota format, btrfs and xfs, which a running Debian loads on demand, are
# there for the suites.
MODULES = "virtio_pci virtio_blk virtio_console virtio_rng virtiofs overlay loop quota_v2 btrfs xfs".split()
DEPENDS = re.compile(rb"\bdepends=([\w,-]*)\0")


class Unavailable(Exception):
    """There is no kernel to be had, and why."""


class Kernel(NamedTuple):
    release: str
    vmlinuz: str
    initramfs: str


def busybox() -> str:
    return shutil.which("busybox") or "/bin/busybox"


def output_of(*command: str) -> str:
    plain = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=plain)
    return done.stdout if done.returncode == 0 else ""


def candidate() -> tuple[str, str] | None:
    """The kernel package and version apt would install; None where it knows none of Debian 12."""
    found = PACKAGE.search(output_of("apt-cache", "depends", "--important", META_PACKAGE))
    if not found:
        return None
    version = re.search(r"Candidate: (\S+)", output_of("apt-cache", "policy", found[0]))
    return (found[0], version[1]) if version and version[1] != "(none)" else None


def digest() -> str:
    """Of all that goes into the initramfs beside the kernel's own files."""
    hashed = hashlib.sha256(" ".join(MODULES).encode())
    for path in (busybox(), f"{HERE}/init", __file__):
        with open(path, "rb") as source:
            hashed.update(source.read())
    return hashed.hexdigest()[:12]


def download(package: str, version: str, directory: str) -> str:
    command = ["apt-get", "download", "-q", f"{package}={version}"]
    for attempt in range(2):
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        debs = glob.glob(f"{directory}/*.deb")
        if done.returncode == 0 and debs:
            return debs[0]
        if attempt == 0 and os.geteuid() == 0:
            # Lists older than the archive name files that are gone from it.
            subprocess.run(["apt-get", "update", "-q"], capture_output=True, check=False)
    reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    raise Unavailable(f"cannot download {package}: {reason}")


def module_name(path: str) -> str:
    """As other modules name it: the file may have a hyphen where the name has an underscore."""
    return os.path.basename(path).removesuffix(".ko").replace("-", "_")


def loading_order(directory: str) -> list[str]:
    """The files of MODULES and of all they depend on, each after those. The package brings no modules.dep."""
    files = {module_name(path): path for path in glob.glob(f"{directory}/**/*.ko", recursive=True)}
    order: dict[str, None] = {}

    def add(name: str) -> None:
        if name not in files:
            raise Unavailable(f"there is no module {name} in {directory}")
        if files[name] in order:
            return
        with open(files[name], "rb") as source:
            found = DEPENDS.search(source.read())
        for other in (found[1].decode() if found else "").split(","):
            if other:
                add(other.replace("-", "_"))
        order[files[name]] = None

    for name in MODULES:
        add(name)
    return list(order)


def make_initramfs(unpacked: str, release: str, target: str) -> None:
    with tempfile.TemporaryDirectory(prefix="krait-vm-") as tree:
        for name in ("bin", "dev", "modules", "proc", "root"):
            os.mkdir(f"{tree}/{name}")
        shutil.copy(busybox(), f"{tree}/bin/busybox")
        for applet in "sh mount umount insmod poweroff switch_root".split():
            os.symlink("busybox", f"{tree}/bin/{applet}")
        shutil.copy(f"{HERE}/init", f"{tree}/init")
        modules = loading_order(f"{unpacked}/lib/modules/{release}/kernel")
        for path in modules:
            shutil.copy(path, f"{tree}/modules")
        with open(f"{tree}/modules/order", "w", encoding="ascii") as order:
            order.writelines(f"{os.path.basename(path)}\n" for path in modules)
        names = output_of("find", tree, "-mindepth", "1", "-printf", "%P\\n")
        with open(target, "wb") as out:
            command = ["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"]
            subprocess.run(command, cwd=tree, input=names.encode(), stdout=out, check=True)


def unpack(package: str, version: str, final: str) -> None:
    release = package.removeprefix("linux-image-")
    with tempfile.TemporaryDirectory(dir=os.path.dirname(final), prefix="new-") as work:
        deb = download(package, version, work)
        subprocess.run(["dpkg-deb", "-x", deb, f"{work}/unpacked"], check=True)
        os.mkdir(f"{work}/kernel")
        make_initramfs(f"{work}/unpacked", release, f"{work}/kernel/initramfs")
        os.rename(f"{work}/unpacked/boot/vmlinuz-{release}", f"{work}/kernel/vmlinuz")
        os.rename(f"{work}/kernel", final)


def prepare(cache: str) -> Kernel:
    """The kernel apt offers now; without apt's lists or network, the newest one kept."""
    os.makedirs(cache, exist_ok=True)
    with open(f"{cache}/lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found, made_of = candidate(), digest()
        kept = sorted(glob.glob(f"{cache}/*_{made_of}"), key=os.path.getmtime)
        if found:
            release = found[0].removeprefix("linux-image-")
            final = f"{cache}/{release}_{found[1]}_{made_of}"
            try:
                if final not in kept:
                    unpack(*found, final)
                kept.append(final)
            except Unavailable:
                if not kept:
                    raise
        if not kept:
            raise Unavailable(f"apt knows no {META_PACKAGE} of Debian 12, and none is kept")
        release = os.path.basename(kept[-1]).split("_")[0]
        return Kernel(release, f"{kept[-1]}/vmlinuz", f"{kept[-1]}/initramfs")
