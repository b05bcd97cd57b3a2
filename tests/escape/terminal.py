"""A21 with a real terminal: `krait run` is started on one of our own, and the session tries to type into it.

A scenario for the unpooled mode: only `krait run` has a terminal to inherit. The control is a plain python3 there.
"""
from __future__ import annotations

import fcntl
import json
import os
import select
import subprocess
import termios
import time
import tty

from drive import PYTHON, Stage
from model import Scenario

TYPE = """
import ctypes, errno, json, os
L = ctypes.CDLL(None, use_errno=True)
def go(fd, request):
    ctypes.set_errno(0)
    r = L.syscall(16, ctypes.c_long(fd), ctypes.c_ulong(request), ctypes.c_char_p(b'x'))
    return 'ok' if r == 0 else errno.errorcode.get(ctypes.get_errno())
seen = {'%s.%d' % (n, fd): go(fd, r) for fd in (0, 1, 2) for n, r in (('sti', 0x5412), ('high', (1 << 32) | 0x5412))}
seen['tty'] = [os.isatty(fd) for fd in (0, 1, 2)]
try: os.close(os.open('/dev/tty', os.O_RDWR)); seen['dev_tty'] = 'ok'
except OSError as e: seen['dev_tty'] = errno.errorcode.get(e.errno)
print('@' + json.dumps(seen))
"""


def on_terminal(argv: list, env: dict) -> tuple:
    """Runs it with a terminal as all three streams; (what it printed, what was typed into the terminal)."""
    master, slave = os.openpty()
    tty.setraw(slave, termios.TCSANOW)

    def own() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        argv, stdin=slave, stdout=slave, stderr=slave, env=env, cwd="/", preexec_fn=own
    )
    printed, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([master], [], [], 0.1)[0]:
            printed += os.read(master, 65536)
        elif process.poll() is not None:
            break
    if process.poll() is None:
        process.kill()
    process.wait()
    typed = os.read(slave, 100) if select.select([slave], [], [], 0.1)[0] else b""
    os.close(master)
    os.close(slave)
    return printed.decode("utf-8", "replace"), typed


def seen_in(printed: str) -> dict:
    for line in printed.splitlines():
        if line.startswith("@{"):
            return json.loads(line[1:])
    raise ValueError(f"no answer: {printed[-300:]!r}")


def typing(stage: Stage) -> list:
    way = stage.the_way
    argv = way.wrap([stage.krait, "run", "--preload", stage.preload, *way.krait, "-c", TYPE])
    printed, typed = on_terminal(argv, stage.bait.environ())
    seen = seen_in(printed)
    bad = [
        f"{k}: {v}"
        for k, v in seen.items()
        if k[:4] in ("sti.", "high") and v not in ("EPERM", "ENOTTY", "EBADF")
    ]
    if typed:
        bad.append(f"typed into the terminal: {typed!r}")
    if any(seen["tty"]):
        bad.append(f"the session has the terminal itself: {seen['tty']}")
    if seen["dev_tty"] not in ("ENOENT", "ENXIO", "EACCES", "EPERM"):
        bad.append(f"/dev/tty: {seen['dev_tty']}")
    return bad


def typing_control() -> list:
    printed, typed = on_terminal([PYTHON, "-c", TYPE], dict(os.environ))
    seen = seen_in(printed)
    if (
        "x" not in typed.decode()
        or seen["sti.0"] != "ok"
        or seen["high.0"] != "ok"
        or seen["dev_tty"] != "ok"
    ):
        return [f"a plain process cannot type into its terminal either: {seen} {typed!r}"]
    return []


SCENARIOS = [
    Scenario(
        "A21-terminal",
        "keys typed into the terminal krait run was started on",
        typing,
        control=typing_control,
        modes=("unpooled",),
    )
]
