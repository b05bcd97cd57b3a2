#!/usr/bin/python3
"""What cells see of the host where its root is not a plain disk, and what two cells share of it."""
import json
import os
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal, main, skip
from drive import KRAIT
from krait_server import Server

# The host's root beneath as many overlays as are asked for, with a mount inside /usr if that is: a container's, made and
# forgotten with its mount namespace. $1 folder, $2 overlays, $3 mount or none; the rest is the command.
CONTAINER = """
set -e
top=$1 depth=$2 inside=$3; shift 3
mount --make-rprivate /
mount -t tmpfs tmpfs "$top"
root=/
for i in $(seq "$depth"); do
    mkdir "$top/upper$i" "$top/work$i" "$top/root$i"
    mount -t overlay overlay -o "lowerdir=$root,upperdir=$top/upper$i,workdir=$top/work$i" "$top/root$i"
    root=$top/root$i
done
for d in proc dev sys tmp run; do mount --rbind "/$d" "$root/$d"; done
mkdir -p "$root$(dirname "$0")" && mount --bind "$(dirname "$0")" "$root$(dirname "$0")"
mkdir -p "$root/old-root" && cd "$root" && pivot_root . old-root && umount -l /old-root && cd /
[ "$inside" = none ] || mount -t tmpfs tmpfs "$inside"
exec "$0" "$@"
"""
LOOK = """
import json, os
print(json.dumps({
    "mounts": open("/proc/self/mountinfo").read(),
    "hidden": [p for p in ("/usr/local/etc", "/usr/src") if os.path.exists(p) and os.listdir(p)],
    "root": sorted(os.listdir("/")), "games": sorted(os.listdir("/usr/games")), "usr": os.path.isdir("/usr/lib")}))
"""


def in_container(depth: int, inside: str = "none") -> tuple:
    """(layers, what the session saw)"""
    if os.geteuid() != 0:
        skip("needs root")
    with tempfile.TemporaryDirectory(prefix="krait-view-") as top:
        done = subprocess.run(["unshare", "-m", "sh", "-c", CONTAINER, KRAIT, top, str(depth), inside,
                               "run", "--json", "-c", LOOK],
                              capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr[-500:] + done.stdout[-500:]
    told = json.loads(done.stdout)
    seen = json.loads(told["stdout"])
    equal((seen["hidden"], seen["usr"]), ([], True))
    assert ".view" not in seen["root"], seen["root"]
    return told["layers"], seen


@check
def the_root_of_a_container_may_be_an_overlay():
    layers, seen = in_container(1)
    equal((layers["private_files"], layers["private_devices"]), (True, True))
    for word in ("upperdir", "krait-view-"):
        assert word not in seen["mounts"], seen["mounts"]


@check
def an_overlay_on_an_overlay_is_reported():
    layers, seen = in_container(2)
    equal((layers["private_files"], layers["private_devices"]), (False, True))
    contains(seen["mounts"], " /usr /usr ro")


@check
def a_mount_inside_usr_is_seen_and_reported():
    layers, _ = in_container(1, "/usr/games")
    equal(layers["private_files"], False)


MAP = """
import mmap, os
f = open(%r, "rb")
m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
sum(m[i] for i in range(0, len(m), 4096))
part = open("/proc/self/smaps").read().split(f.name + "\\n")[1]
print(*[part.split(k + ":")[1].split()[0] for k in ("Rss", "Pss")])
"""


def large_file() -> str:
    """A file of /usr that no process has mapped."""
    places = ("/usr/share/misc/magic.mgc", "/usr/share/i18n/locales/cns11643_stroke", "/usr/lib/locale/C.utf8/LC_CTYPE")
    for path in places:
        if os.path.exists(path) and os.path.getsize(path) > 200_000:
            return os.path.realpath(path)
    folder = "/usr/share/perl/" if os.path.isdir("/usr/share/perl/") else "/usr/share/"
    found = [os.path.join(d, n) for d, _, names in os.walk(folder) for n in names]
    return max((p for p in found if os.path.isfile(p) and not os.path.islink(p)), key=os.path.getsize)


@check
def two_cells_share_the_pages_of_a_file():
    """Each has its own inode, and there is one copy in memory."""
    code = MAP % large_file()
    with Server() as s:
        for name in ("one", "two"):
            equal(s.post("/api/v1/sandboxes", {"name": name}).status, 201)
        first = s.run(code, sandbox_id="one")
        equal(first["cause"], "ok", str(first["error"]))
        rss, pss = map(int, s.run(code, sandbox_id="two")["stdout"].split())
    assert rss > 100 and pss <= rss * 6 // 10, (rss, pss)


if __name__ == "__main__":
    main()
