"""Bombs: memory, processes, processor time, disk. What a limit must stop, and under which word.

As an ordinary user there is no cgroup on most machines: RLIMIT_DATA bounds the private memory of
each process, RLIMIT_NPROC the processes of the cell, RLIMIT_CPU each process's time, sized tmpfs
the files. What that does not reach is said in `differs`, and the row then shows that it is not
held, with amounts that do no harm.
"""

from __future__ import annotations

from model import Expect, Row, but, peak_unknown, peak_within

MIB = 1 << 20
M64, M128 = {"memory": "64M"}, {"memory": "128M"}
# A MemoryError leaves the session, the kernel's kill does not; which of the two comes first is a
# matter of pages.
MEMORY_64 = Expect("memory_limit", ("memory",), exit_code=137, check=peak_within(64 * MIB))
MEMORY_128 = Expect("memory_limit", ("memory",), exit_code=137, check=peak_within(128 * MIB))
BY_RLIMIT = Expect("memory_limit", ("memory",), exit_code=137, alive=True, check=peak_unknown)
SEEN_BY_RLIMIT = "RLIMIT_DATA refuses, so it is always a MemoryError and the variables are kept; no peak is counted"
NOT_HELD = "no cgroup: memory that is no process's private data is bounded by nothing but its own kind of limit"


def held_elsewhere(**more) -> Expect:
    return Expect("ok", alive=True, says="filled", check=peak_unknown, **more)


FILL = """
import os
def fill(path, mib, chunk=b'x' * (1 << 20)):
    with open(path, 'wb') as f:
        for _ in range(mib): f.write(chunk)
"""

MEMORY = [
    Row(
        "memory-at-once",
        "x = bytearray(2 << 30)",
        but(MEMORY_128, alive=True, error="MemoryError"),
        limits=M128,
        user=but(BY_RLIMIT, error="MemoryError"),
        differs=SEEN_BY_RLIMIT,
    ),
    Row(
        "memory-fast",
        "x = []\nwhile True: x.append(bytearray(b'x') * (10 << 20))",
        MEMORY_128,
        limits=M128,
        user=BY_RLIMIT,
        differs=SEEN_BY_RLIMIT,
    ),
    Row(
        "memory-numpy",
        "import numpy\nx = []\nwhile True: x.append(numpy.ones(1 << 20))",
        but(MEMORY_128, check=peak_within(256 * MIB)),
        user=BY_RLIMIT,
        differs=SEEN_BY_RLIMIT,
    ),
    Row(
        "memory-slow",
        "import time\nx = []\nwhile True:\n    x.append(str(len(x)) * 20)\n"
        "    if len(x) % 50000 == 0: time.sleep(0.01)",
        MEMORY_64,
        limits=M64,
        user=BY_RLIMIT,
        differs=SEEN_BY_RLIMIT,
    ),
    Row(
        "memory-doubled",
        "x = 'x'\nwhile True: x += x",
        MEMORY_128,
        limits=M128,
        user=BY_RLIMIT,
        differs=SEEN_BY_RLIMIT,
    ),
    Row(
        "memory-in-a-thread",
        """
import threading
def grow():
    x = []
    while True: x.append(bytearray(b'x') * (1 << 20))
t = threading.Thread(target=grow)
t.start(); t.join()
""",
        Expect(
            "ok",
            alive=True,
            check=lambda run: None if "MemoryError" in run.stderr else "no MemoryError",
        ),
        limits=M128,
        only="user",
    ),  # as root the kernel's kill may come first, and takes the interpreter along
    Row(
        "memory-in-a-child",
        """
import os
if os.fork() == 0:
    x = []
    while True: x.append(bytearray(b'x') * (1 << 20))
print('child', os.waitstatus_to_exitcode(os.wait()[1]))
""",
        # by its own MemoryError, which is not counted
        Expect("ok", alive=True, stdout="child 1\n", check=peak_within(128 * MIB)),
        limits=M128,
        user=Expect("ok", alive=True, stdout="child 1\n", check=peak_unknown),
        differs="no peak is counted",
    ),
    Row(
        "memory-of-many-children",
        """
import os, signal
children = []
for _ in range(6):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        x = bytearray(b'x') * (40 << 20)
        os.write(w, b'x'); signal.pause()
    os.close(w); os.read(r, 1)
    children.append(pid)
for pid in children: os.kill(pid, signal.SIGTERM)
killed = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children].count(-9)
print('killed', killed > 0)
""",
        Expect("ok", ("memory",), alive=True, stdout="killed True\n", check=peak_within(128 * MIB)),
        limits=M128,
        user=Expect("ok", alive=True, stdout="killed False\n", check=peak_unknown),
        differs="RLIMIT_DATA is per process: six children have 240 MiB under a limit of 128; at most processes times "
                "memory is held",
    ),
    Row(
        "memory-in-tmp",
        FILL + "fill('/tmp/x', 160)\nprint('filled')",
        MEMORY_128,
        limits={"memory": "128M", "disk": "200M"},
        user=held_elsewhere(),
        differs=NOT_HELD,
    ),
    Row(
        "memory-in-workspace",
        FILL + "fill('/workspace/x', 160)\nprint('filled')",
        MEMORY_128,
        limits={"memory": "128M", "disk": "200M"},
        user=held_elsewhere(),
        differs=NOT_HELD,
    ),
    Row(
        "memory-in-shm",
        FILL + "fill('/dev/shm/x', 160)\nprint('filled')",
        MEMORY_128,
        limits={"memory": "128M", "disk": "200M"},
        user=held_elsewhere(),
        differs=NOT_HELD,
    ),
    Row(
        "memory-in-memfd",
        """
import os
fds = [os.memfd_create('x') for _ in range(4)]
for _ in range(40):
    for fd in fds: os.write(fd, b'x' * (1 << 20))
print('filled')
""",
        MEMORY_128,
        limits=M128,
        user=held_elsewhere(),
        differs=NOT_HELD,
    ),
    Row(
        "memory-in-shared-mmap",
        """
import mmap
m = mmap.mmap(-1, 160 << 20)
for at in range(0, len(m), 4096): m[at] = 1
print('filled')
""",
        MEMORY_128,
        limits=M128,
        user=held_elsewhere(),
        differs=NOT_HELD,
    ),
    Row(
        "memory-in-sysv-shm",
        """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
at = libc.shmat(libc.shmget(0, ctypes.c_size_t(160 << 20), 0o1600), None, 0)
ctypes.memset(at, 1, 160 << 20)
print('filled')
""",
        MEMORY_128,
        limits=M128,
        user=held_elsewhere(),
        differs=NOT_HELD,
    ),
    Row(
        "memory-in-pipes",
        """
import fcntl, os
held = 0
for _ in range(1200):
    r, w = os.pipe()
    try: fcntl.fcntl(w, 1031, 1 << 20)  # F_SETPIPE_SZ
    except PermissionError: pass
    os.set_blocking(w, False)
    try:
        while True: held += os.write(w, b'x' * 65536)
    except BlockingIOError: pass
print('filled' if held > 100 << 20 else 'held %d MiB' % (held >> 20))
""",
        Expect(
            "memory_limit", ("memory",), exit_code=137, alive=False, check=peak_within(32 * MIB)
        ),
        limits={"memory": "32M", "open_files": "4096"},
        user=Expect("ok", alive=True, says="held"),
        differs="no cgroup counts pipe buffers, but the kernel lets one user have 64 MiB of them "
                "(fs.pipe-user-pages-soft)",
    ),
    Row(
        "memory-in-sockets",
        """
import socket
held, kept = 0, []
while held < 100 << 20 and len(kept) < 1500:
    a, b = socket.socketpair()
    a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
    a.setblocking(False)
    kept.append((a, b))
    try:
        while held < 100 << 20: held += a.send(b'x' * 65536)
    except BlockingIOError: pass
print('filled')
""",
        Expect(
            "memory_limit", ("memory",), exit_code=137, alive=False, check=peak_within(64 * MIB)
        ),
        limits={"memory": "64M", "open_files": "4096"},
        user=held_elsewhere(),
        differs=NOT_HELD,
    ),
    Row(
        "memory-a-million-files",
        "for i in range(10**6): open('/workspace/%d' % i, 'w').close()",
        MEMORY_64,
        limits={"memory": "64M", "inodes": "2000000"},
        timeout="30s",
        only="root",
    ),
    Row(
        "memory-caught",
        """
x = []
try:
    while True: x.append(bytearray(b'x') * (4 << 20))
except MemoryError:
    n = len(x)
    del x
print('caught', n > 4)
""",
        Expect("ok", alive=True, stdout="caught True\n"),
        limits=M128,
        user=Expect("ok", alive=True, stdout="caught True\n", check=peak_unknown),
        differs="no peak is counted",
    ),
    Row(
        "memory-error-raised",
        "raise MemoryError('mine')",
        Expect("exception", exit_code=1, alive=True, error="MemoryError"),
    ),
    Row(
        "memory-error-of-the-parser",
        "eval('-' * 100000 + '1')",
        Expect("exception", exit_code=1, alive=True, error="MemoryError"),
    ),
]

PROCESSES_DIFFER = "RLIMIT_NPROC refuses, and has no counter"
BOMB = Expect("process_limit", ("processes",), exit_code=137, alive=True)
PROCESSES = [
    Row("fork-bomb", "import os\nwhile True: os.fork()", BOMB, limits={"processes": "32"}),
    Row(
        "fork-bomb-kept",
        "import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(1000)",
        BOMB,
        limits={"processes": "32"},
    ),
    Row(
        "fork-bomb-caught",
        """
import os
while True:
    try: os.fork()
    except (OSError, KeyboardInterrupt): pass
""",
        Expect("timeout", ("processes", "timeout"), exit_code=124, within=20),
        timeout="1s",
        limits={"processes": "32"},
        user=Expect("timeout", ("timeout",), exit_code=124, within=20),
        differs=PROCESSES_DIFFER,
    ),
    Row(
        "fork-bomb-of-daemons",
        """
import os
if os.fork() == 0:
    os.setsid()
    while True:  # each generation replaces the one before: no process lives long enough to be found by its number
        try:
            if os.fork(): os._exit(0)
        except OSError: pass
print('started')
""",
        Expect("ok", alive=True, stdout="started\n"),
        limits={"processes": "8"},
        again=True,
    ),
    Row(
        "thread-bomb",
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()",
        but(BOMB, error="RuntimeError"),
        limits={"processes": "32"},
    ),
    Row(
        "spawn-bomb",
        "import subprocess\nkept = []\nwhile True: kept.append(subprocess.Popen(['sleep', '1000']))",
        but(BOMB, error="BlockingIOError"),
        limits={"processes": "32"},
    ),
    Row(
        "fork-survived",
        """
import os, time
children = []
try:
    while True:
        pid = os.fork()
        if pid == 0: time.sleep(1000)
        children.append(pid)
except BlockingIOError:
    for pid in children: os.kill(pid, 9)
    for pid in children: os.waitpid(pid, 0)
print('survived', len(children) <= 32)
""",
        Expect("ok", ("processes",), alive=True, stdout="survived True\n"),
        limits={"processes": "32"},
        user=Expect("ok", alive=True, stdout="survived True\n"),
        differs=PROCESSES_DIFFER,
    ),
    Row(
        "eagain-of-a-pipe",
        "import os\nr, w = os.pipe()\nos.set_blocking(r, False)\nos.read(r, 1)",
        Expect("exception", exit_code=1, alive=True, error="BlockingIOError"),
    ),
]

CPU_USED = Expect("cpu_limit", ("cpu_time",), exit_code=137, alive=False)
CPU = [
    Row("cpu-loop", "while True: pass", CPU_USED, limits={"cpu_time": "1s"}, timeout="30s"),
    Row(
        "cpu-signal-ignored",
        "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
        CPU_USED,
        limits={"cpu_time": "1s"},
        timeout="30s",
    ),
    Row(
        "cpu-in-children",
        """
import os, time
for _ in range(8):
    if os.fork() == 0:
        while time.process_time() < 0.5: pass
        os._exit(0)
for _ in range(8): os.wait()
print('burnt')
""",
        CPU_USED,
        limits={"cpu_time": "1s"},
        timeout="30s",
        user=Expect("ok", alive=True, stdout="burnt\n"),
        differs="RLIMIT_CPU is per process: eight children of half a second each pass a limit of one second",
    ),
    Row(
        "cpu-signal-forged",
        "import os, signal\nos.kill(os.getpid(), signal.SIGXCPU)",
        Expect("signal", exit_code=152, alive=False),
        limits={"cpu_time": "60s"},
    ),
]

DISK_FULL = Expect("disk_limit", ("disk",), exit_code=137, alive=True, error="OSError")
ENDLESS = "with open('%s/x', 'wb') as f:\n    while True: f.write(b'x' * (1 << 20))"


def names_inodes(run) -> str | None:
    message = str(run.end.get("message"))
    return None if "inode" in message else f"the message names another limit: {message!r}"


DISK = [
    Row("disk-" + name, ENDLESS % path, DISK_FULL, limits={"disk": "16M"})
    for name, path in (("workspace", "/workspace"), ("tmp", "/tmp"), ("shm", "/dev/shm"))
] + [
    Row(  # each of them alone would hold: 10 of 16 MiB
        "disk-in-memory-together",
        "for n, path in enumerate(('/workspace', '/tmp', '/dev/shm')):\n"
        "    with open(path + '/x', 'wb') as f:\n"
        "        for _ in range(10): f.write(b'x' * (1 << 20))\n"
        "    print(n, flush=True)",
        but(DISK_FULL, stdout="0\n"),
        limits={"disk": "16M"},
    ),
    Row(
        "disk-in-memory-apart",
        "import os\n"
        "for n, path in enumerate(('/workspace', '/tmp', '/dev/shm')):\n"
        "    with open(path + '/x', 'wb') as f:\n"
        "        for _ in range(10): f.write(b'x' * (1 << 20))\n"
        "    os.unlink(path + '/x')\n"
        "    print(n, flush=True)",
        Expect("ok", alive=True, stdout="0\n1\n2\n"),
        limits={"disk": "16M"},
    ),
    Row(
        "disk-file-size",
        ENDLESS % "/workspace",
        Expect("disk_limit", ("file_size",), exit_code=137, alive=True, error="OSError"),
        limits={"disk": "64M", "file_size": "16M"},
    ),
    Row(
        "disk-file-size-sparse",
        "f = open('/workspace/x', 'wb')\nf.truncate(1 << 40)",
        Expect("disk_limit", ("file_size",), exit_code=137, alive=True, error="OSError"),
    ),
    Row(
        "disk-file-size-killed",
        """
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
f = open('/workspace/x', 'wb')
while True: f.write(b'x' * (1 << 20))
""",
        Expect("disk_limit", ("file_size",), exit_code=137, alive=False),
        limits={"disk": "64M", "file_size": "16M"},
    ),
    Row(
        "disk-inodes-files",
        "for i in range(10**6): open('/workspace/%d' % i, 'w').close()",
        but(DISK_FULL, hits=None, check=names_inodes),
        limits={"inodes": "2000"},
    ),
    Row(
        "disk-inodes-folders",
        "import os\nos.chdir('/tmp')\nfor i in range(10**6):\n    os.mkdir('d')\n    os.chdir('d')",
        but(DISK_FULL, hits=None, check=names_inodes),
        limits={"inodes": "2000"},
        again=False,
    ),
    Row(
        "disk-inodes-links",
        """
import os
open('/tmp/x', 'w').close()
for i in range(10**6): os.symlink('x' * 200, '/tmp/%d' % i)
""",
        but(DISK_FULL, hits=None, check=names_inodes),
        limits={"inodes": "2000"},
    ),
    Row(
        "disk-survived",
        """
try:
    with open('/workspace/x', 'wb', buffering=0) as f:
        while True: f.write(b'x' * (1 << 20))
except OSError as e: print(e.errno)
import os
os.unlink('/workspace/x')
print(len(open('/workspace/y', 'wb').write(b'y' * 1000).__str__()))
""",
        Expect("ok", alive=True, stdout="28\n4\n"),
        limits={"disk": "16M"},
    ),
    Row(
        "disk-dev-full",
        "with open('/dev/full', 'wb', buffering=0) as f: f.write(b'x')",
        Expect("exception", exit_code=1, alive=True, error="OSError"),
    ),
    Row(
        "descriptors",
        "kept = []\nwhile True: kept.append(open('/dev/null'))",
        Expect("exception", exit_code=1, alive=True, error="OSError"),
        limits={"open_files": "64"},
    ),
]

ROWS = MEMORY + PROCESSES + CPU + DISK
