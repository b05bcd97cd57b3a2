"""Section B, what needs several sessions or a workspace: links and special files (B5, B6), quota (B8), files
left behind (B9), pages of a shared layer (B10). All are scenarios over a running engine.
"""
from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time

from drive import Stage, plain, scratch_dir
from model import Scenario, expect

FILL = """
import os, json, errno
def fill(folder):
    os.makedirs(folder, exist_ok=True); seen = {}; name = lambda e: errno.errorcode.get(e.errno)
    path = os.path.join(folder, 'big'); size = 0
    try:
        with open(path, 'wb', buffering=0) as f:
            while size < 16 << 20: size += f.write(b'x' * 65536)
        seen['bytes'] = 'ok'
    except OSError as e: seen['bytes'] = name(e)
    seen['size'] = size
    os.unlink(path)
    fd = os.open(path, os.O_CREAT | os.O_RDWR); os.unlink(path); size = 0
    try:
        while size < 16 << 20: size += os.write(fd, b'x' * 65536)
        seen['unlinked'] = 'ok'
    except OSError as e: seen['unlinked'] = name(e)
    os.close(fd)
    made = 0
    try:
        while made < 2000:
            os.close(os.open(os.path.join(folder, 'f%d' % made), os.O_CREAT)); made += 1
        seen['inodes'] = 'ok'
    except OSError as e: seen['inodes'] = name(e)
    seen['made'] = made
    for i in range(made): os.unlink(os.path.join(folder, 'f%d' % i))
    try:
        os.close(os.open(os.path.join(folder, 'x'), os.O_CREAT))
        for i in range(4096): os.setxattr(os.path.join(folder, 'x'), 'user.k%d' % i, b'v' * 1024)
        seen['xattr'] = 'ok'
    except OSError as e: seen['xattr'] = name(e)
    return seen
out = {'cwd': fill('probe'), 'tmp': fill('/tmp/probe')}
print('@' + json.dumps(out))
"""


def quota(stage: Stage) -> list:
    session = stage.open(limits={"disk": "4M", "inodes": "200", "memory": "256M"})
    end = session.run(FILL)
    bad = []
    try:
        seen = end.marked()
    except ValueError as e:
        return [str(e)]
    for place, got in seen.items():
        for what in ("bytes", "unlinked", "inodes"):
            if got[what] not in ("ENOSPC", "EDQUOT", "EFBIG"):
                bad.append(f"{place}: {what}: {got[what]}")
        if got["size"] > 5 << 20 or got["made"] > 220:
            bad.append(f"{place}: {got['size']} bytes, {got['made']} files")
        if got["xattr"] not in ("ENOSPC", "EDQUOT", "EOPNOTSUPP", "ENOTSUP", "EPERM", "E2BIG"):
            bad.append(f"{place}: extended attributes: {got['xattr']}")
    if session.run("print(6 * 7)").stdout != "42\n":
        bad.append("the session did not survive")
    session.close()
    return bad


def quota_control() -> list:
    seen = plain(FILL.replace("/tmp/probe", scratch_dir() + "/tmp"), cwd="scratch").marked()
    return [
        f"{p}: {w}: {g[w]}" for p, g in seen.items() for w in ("bytes", "unlinked", "inodes") if g[w] != "ok"
    ]


PLANT = """
import os, site, json, sys
home = os.path.expanduser('~'); seen = {}
lib = '%s/.local/lib/python%d.%d/site-packages' % (home, *sys.version_info[:2])
poison = 'import os; os.environ["POISON"] = "1"'; std = os.path.dirname(os.__file__)
spots = {lib + '/usercustomize.py': poison, lib + '/sitecustomize.py': 'poison = 1', lib + '/probe.pth': poison}
for path in ('.config/pip/pip.conf', '.pip/pip.conf', '.gitconfig', '.bashrc', '.pythonrc', '.cache/probe-plant',
             '.config/matplotlib/matplotlibrc'): spots[home + '/' + path] = ''
for path in ('/tmp/probe-plant', '/dev/shm/probe-plant', '/var/tmp/probe-plant', 'probe-plant', '/etc/ld.so.preload',
             '/usr/lib/python3/dist-packages/probe_plant.py', std + '/__pycache__/probe_plant.pyc',
             std + '/probe_plant.py', sys.prefix + '/probe_plant', '/venv/probe_plant', '/run/probe_plant',
             '/probe_plant', '/dev/probe_plant'): spots[path] = 'x'
for path, text in spots.items():
    try:
        if os.path.dirname(path): os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w') as f: f.write(text)
        seen[path] = 'ok'
    except OSError as e: seen[path] = e.errno
"""
LOOK = (
    PLANT.split("for path, text")[0]
    + """
print('@' + json.dumps({p: os.path.exists(p) for p in spots}), flush=True)
"""
)
READ_ONLY_SPOTS = ("/usr/", "/etc/", "/dev/probe", "/probe")


def persistence(stage: Stage) -> list:
    first = stage.open()
    planted = first.run(PLANT + "print('@' + json.dumps(seen))").marked()
    bad = [
        f"could write {path}"
        for path, got in planted.items()
        if path.startswith(READ_ONLY_SPOTS) and got == "ok"
    ]
    if "ok" not in planted.values():
        bad.append("nothing could be planted at all: the row shows nothing")
    for when in ("beside it", "after its end", "from another zygote"):
        if when == "after its end":
            first.close()
        if when == "from another zygote" and not stage.rotate():
            stage.note("B9: the zygote was not rotated; looked from the same one only")
        other = stage.open()
        end = other.run(
            LOOK + "\nassert 'POISON' not in os.environ\n"
            "import subprocess\ncode = 'import os; print(os.environ.get(\"POISON\"))'\n"
            "print(subprocess.run(['/usr/bin/python3', '-c', code],"
            "capture_output=True, text=True).stdout)"
        )
        bad += [
            f"{when}: {path} is there"
            for path, there in end.marked().items()
            if there and planted.get(path) == "ok"
        ]
        if end.cause != "ok" or "1" in end.stdout.splitlines()[-2:]:
            bad.append(f"{when}: poisoned: {end.cause} {end.stdout[-200:]}")
        other.close()
    return bad


def persistence_control() -> list:
    # Only below a home of its own: the spots in /usr and /etc are not touched outside.
    safe = PLANT.replace(
        "for path, text in spots.items():",
        "for path, text in spots.items():\n    if not path.startswith(home): continue",
    )
    with_home = "scratch"
    plain(safe + "print('@' + json.dumps(seen))", home=with_home).marked()
    second = plain(LOOK + "\nprint(os.environ.get('POISON'))", home=with_home)
    there = second.marked()
    if not any(there.values()) or second.stdout.strip().splitlines()[-1] != "1":
        return [f"planted files have no effect outside either: {second.stdout[-200:]}"]
    return []


DIRTY = """
import ctypes, json, os
maps = open('/proc/self/maps').read().splitlines()
shared = []  # mappings others may have too, and that can be written or be made so
for m in maps:
    low, high = (int(x, 16) for x in m.split()[0].split('-'))
    if not m.split()[1].endswith('s'): continue
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(low), ctypes.c_size_t(high - low), 3) == 0: shared.append(m)
libc = next(m for m in maps if 'libc.so' in m or 'libc-2' in m)
base = int(libc.split('-')[0], 16); path = libc.split()[-1]
pyth = [m for m in maps if 'python3' in m and m.split()[1].startswith('r--p')]
spots = [base + 12] + ([int(pyth[0].split('-')[0], 16) + 12] if pyth else [])
"""
DIRTY_WRITE = (
    DIRTY
    + """
wrote = []
for at in spots:
    c = ctypes.CDLL(None, use_errno=True)
    if c.mprotect(ctypes.c_void_p(at & ~4095), ctypes.c_size_t(4096), 3) == 0:
        ctypes.memset(at, 90, 1); wrote.append(1)
    else: wrote.append(-ctypes.get_errno())
"""
)
DIRTY_READ = """
print('@' + json.dumps({'bytes': [ctypes.string_at(a, 1)[0] for a in spots], 'shared': shared,
  'file': list(open(path, 'rb').read(16))[12], 'wrote': globals().get('wrote')}))
"""


def shared_pages(stage: Stage) -> list:
    before, first = stage.open(), stage.open()
    clean = before.run(DIRTY + DIRTY_READ).marked()
    mine = first.run(DIRTY_WRITE + DIRTY_READ).marked()
    after = stage.open()
    bad = [f"shared mappings: {s['shared']}" for s in (clean, mine) if s["shared"]]
    if mine["bytes"] != [ord("Z")] * len(mine["bytes"]) and min(mine["wrote"]) > 0:
        bad.append(f"the write did not land in the writer itself: {mine}")
    for who, seen in (
        ("a sibling", before.run(DIRTY + DIRTY_READ).marked()),
        ("a later session", after.run(DIRTY + DIRTY_READ).marked()),
    ):
        if seen["bytes"] != clean["bytes"] or seen["file"] != 0:
            bad.append(f"{who} sees the change: {seen}")
    for s in (before, first, after):
        s.close()
    return bad


def shared_pages_control() -> list:
    seen = plain(
        DIRTY_WRITE
        + """
import mmap
page = mmap.mmap(-1, 4096)
if os.fork() == 0:
    page[0] = 90; os._exit(0)
os.wait()
print('@' + json.dumps({'bytes': [ctypes.string_at(a, 1)[0] for a in spots], 'other': page[0], 'shared':
    [m for m in open('/proc/self/maps') if m.split()[1].endswith('s')], 'wrote': wrote}))"""
    ).marked()
    if seen["bytes"][0] != 90 or seen["other"] != 90 or not seen["shared"]:
        return [f"a write to a private or a shared mapping shows nothing outside either: {seen}"]
    return []


LINKS = """
import os, json, errno, socket, time
out = {}
def t(name, fn):
    try: out[name] = fn() or 'ok'
    except OSError as e: out[name] = errno.errorcode.get(e.errno)
t('planted_file', lambda: open('to-secret').read())
t('planted_dir', lambda: open('to-root' + SECRET).read())
t('listdir', lambda: ' '.join(os.listdir('to-root')) and 'ok')
t('symlink', lambda: os.symlink('/etc/shadow', 'out.txt'))
t('hardlink', lambda: os.link('/usr/bin/env', 'env'))
t('hardlink_link', lambda: os.link('to-secret', 'hard'))
t('fifo', lambda: os.mkfifo('fifo'))
t('device', lambda: os.mknod('dev', 0o20666, os.makedev(1, 1)))
t('setuid', lambda: (open('su', 'w').close(), os.chmod('su', 0o4755))[1])
t('sparse', lambda: os.truncate('su', 1 << 40))
t('newline', lambda: open('a\\nb', 'w').close())
t('bytes', lambda: open(b'\\xff\\xfe', 'w').close())
t('long', lambda: open('n' * 255, 'w').close())
t('case', lambda: (open('Case', 'w').close(), open('case', 'w').close())[1])
def deep():
    here = os.getcwd()
    try:
        for i in range(30): os.mkdir('d' * 100); os.chdir('d' * 100)
    finally: os.chdir(here)
t('deep', deep)
def sock():
    s = socket.socket(socket.AF_UNIX); s.bind('sock'); s.close()
t('socket', sock)
print('@' + json.dumps(out))
"""


def workspace_links(stage: Stage) -> list:
    folder, secret = stage.workspace, stage.bait.params["secret_file"]
    for entry in os.scandir(folder):  # another mode's leavings
        shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
    for name, to in (("to-secret", secret), ("to-root", "/")):
        if not os.path.lexists(f"{folder}/{name}"):
            os.symlink(to, f"{folder}/{name}")
            os.lchown(f"{folder}/{name}", stage.owner, stage.owner)
    session = stage.open(workspace=0)
    started = time.monotonic()
    end = session.run("SECRET = %r\n" % secret + LINKS)
    session.close()
    seen = end.marked()
    gone = "EACCES" if stage.contained else "ENOENT EACCES"
    bad = expect(
        {
            "planted_file": gone,
            "planted_dir": gone,
            "listdir": "ok EACCES",
            "symlink": "ok EACCES",
            "hardlink": "EXDEV EPERM EACCES EROFS",
            "hardlink_link": "ok EXDEV EPERM EACCES ENOENT",
            "device": "EPERM",
            "setuid": "EPERM",
            "sparse": "EFBIG EINVAL ENOSPC",
            "socket": "EPERM" if stage.contained else "EACCES" if stage.abi >= 1 else "ok",
            "*": "ok EACCES",
        }
    )(seen, stage)
    if time.monotonic() - started > 20:
        bad.append("the session or its end hung on a special file")
    for where, folders, files in os.walk(folder):
        for name in files + folders:
            info = os.lstat(os.path.join(where, name))
            if info.st_mode & 0o6000 and not stat.S_ISDIR(info.st_mode):
                bad.append(f"{name!r} is set-id on the machine")
            if stat.S_ISCHR(info.st_mode) or stat.S_ISBLK(info.st_mode):
                bad.append(f"{name!r} is a device on the machine")
            if info.st_uid != stage.owner:
                bad.append(f"{name!r} belongs to {info.st_uid} on the machine, not to {stage.owner}")
    return bad


def workspace_links_control() -> list:
    from bait import secret_for_control

    with secret_for_control() as (folder, secret):
        os.symlink(secret, f"{folder}/to-secret")
        os.symlink("/", f"{folder}/to-root")
        seen = plain(
            "SECRET = %r\n" % secret
            + LINKS.replace(
                "os.mknod('dev', 0o20666, os.makedev(1, 1))", "os.mknod('dev', 0o20600, os.makedev(1, 3))"
            ),
            cwd=folder,
        ).marked()
    return expect(
        {
            "planted_file": "secret",
            "planted_dir": "secret",
            "hardlink": "ok EXDEV",
            "sparse": "ok EFBIG",
            "*": "ok",
        }
    )(seen, None)


# The first session waits for descriptors at a path that the second can reach; what a dead session leaves there stays.
SOCKETS = """
import asyncio, errno, json, multiprocessing.managers, os, socket, stat, tempfile
out = {}
def t(name, fn):
    try: out[name] = fn() or 'ok'
    except OSError as e: out[name] = errno.errorcode.get(e.errno)
def bind(path):
    s = socket.socket(socket.AF_UNIX); s.bind(path); s.close(); os.unlink(path)
def pass_one(path):
    listener = socket.socket(socket.AF_UNIX); listener.bind(path); listener.listen()
    sender = socket.socket(socket.AF_UNIX); sender.connect(path)
    fd = os.memfd_create('x'); os.write(fd, b'pages')
    socket.send_fds(sender, [b'x'], [fd]); receiver, _ = listener.accept()
    got = socket.recv_fds(receiver, 1, 1)[1]; os.unlink(path)
    assert os.pread(got[0], 5, 0) == b'pages'
def moved(how):
    os.mknod('/tmp/made', stat.S_IFSOCK | 0o600)
    try: how('/tmp/made', WORKSPACE + '/moved-' + how.__name__)
    finally: os.path.exists('/tmp/made') and os.unlink('/tmp/made')
def served():
    async def both():
        async def answer(reader, writer):
            writer.write(await reader.read(2)); writer.close()
        path = tempfile.mkdtemp() + '/s'
        async with await asyncio.start_unix_server(answer, path):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b'hi'); assert await reader.read(2) == b'hi'; writer.close()
    import threading
    worker = threading.Thread(target=lambda: done.append(asyncio.run(both()))); done = []
    worker.start(); worker.join(); assert done
def managed():
    with multiprocessing.Manager() as m: assert list(m.list([1])) == [1]
t('workspace', lambda: bind(WORKSPACE + '/s'))
t('workspace_pass', lambda: pass_one(WORKSPACE + '/p'))
os.makedirs(WORKSPACE + '/folder', exist_ok=True)
t('folder', lambda: bind(WORKSPACE + '/folder/s'))
t('node', lambda: os.mknod(WORKSPACE + '/node', stat.S_IFSOCK | 0o600))
t('rename', lambda: moved(os.rename))
t('link', lambda: moved(os.link))
t('tmp', lambda: pass_one('/tmp/s'))
t('shm', lambda: pass_one('/dev/shm/s'))
t('asyncio', served)
t('manager', managed)
print('@' + json.dumps(out))
"""


def workspace_sockets(stage: Stage) -> list:
    bad = []
    if stage.abi < 1:
        stage.note("a kernel without Landlock lets socket files be made in a workspace")
        return []
    for where in (0, None):
        session = stage.open(workspace=where)
        seen = session.run("WORKSPACE = '/workspace'\n" + SOCKETS).marked()
        session.close()
        bad += expect(
            {
                "workspace*": "EACCES",
                "folder": "EACCES",
                "node": "EACCES",
                "rename": "EXDEV EACCES",
                "link": "EXDEV EACCES",
                "*": "ok",
            }
        )(seen, stage)
    left = ("s", "p", "node", "moved-rename", "moved-link")
    bad += [f"{n!r} is on the machine" for n in left if os.path.lexists(f"{stage.workspace}/{n}")]
    return bad


def workspace_sockets_control() -> list:
    with tempfile.TemporaryDirectory() as folder:
        seen = plain(f"WORKSPACE = {folder!r}\n" + SOCKETS).marked()
    return expect({"rename": "ok EXDEV", "link": "ok EXDEV", "*": "ok"})(seen, None)


SCENARIOS = [
    Scenario(
        "B5",
        "links and special files in a workspace (B6 as well)",
        workspace_links,
        control=workspace_links_control,
    ),
    Scenario(
        "B8",
        "bytes, files, attributes, unlinked files are counted",
        quota,
        control=quota_control,
        contained="there is no mount of its own, so disk is accounted, not enforced",
    ),
    Scenario(
        "B12",
        "socket files in a workspace, by which a session would hand on memory; in /tmp they work",
        workspace_sockets,
        control=workspace_sockets_control,
        contained="there is no socket() at all",
    ),
    Scenario("B9", "files left for the next session or zygote", persistence, control=persistence_control),
    Scenario("B10", "a dirtied page of a shared layer", shared_pages, control=shared_pages_control),
]
