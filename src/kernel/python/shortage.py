"""What is nearly used up after a run, as its hint: code that catches the error of a full /tmp or
memory leaves no other trace of it.

Called by run.py. Invariant: a run that was too short to use anything up, in a session that was
not short before, makes no system call for this. What is in /workspace the server adds up itself.
"""
import os
import resource
from time import monotonic

LONG = 0.02  # seconds: to fill a sixteenth of the smallest /tmp or memory takes about as long
PART = 16  # nearly: less than this part is left

MEMORY = (
    "memory is nearly full: %s of %s are in use after this run; del what is not needed, or work in parts"
)
DISK = "/tmp is nearly full: %s of %s are left; delete what is not needed there"
NAMES = "/tmp is nearly full: %d of %d files can still be made; delete what is not needed there"

_open, _read, _close, _statvfs = os.open, os.read, os.close, os.statvfs
_getrlimit, _PAGE = resource.getrlimit, resource.getpagesize()
_began = 0.0
_short = False  # the last look found something


def begin() -> None:
    global _began
    _began = monotonic()


def look(in_cell: bool):
    """The line, or None. Does not raise."""
    global _short
    if not _short and monotonic() - _began < LONG:
        return None
    text = None
    try:
        limit = _getrlimit(resource.RLIMIT_DATA)[0]
        if limit != resource.RLIM_INFINITY:
            text = _memory(limit) or (_files() if in_cell else None)
    except Exception:
        pass
    _short = text is not None
    return text


def _memory(limit: int):
    """Against RLIMIT_DATA, which refuses before the control group kills: what it counts is the
    sixth number of statm.
    """
    fd = _open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    try:
        used = int(_read(fd, 200).split()[5]) * _PAGE
    finally:
        _close(fd)
    return MEMORY % (_size(used), _size(limit)) if limit - used < limit // PART else None


def _files():
    v = _statvfs("/tmp")
    if v.f_bavail < v.f_blocks // PART:
        return DISK % (_size(v.f_bavail * v.f_frsize), _size(v.f_blocks * v.f_frsize))
    if v.f_favail < v.f_files // PART:
        return NAMES % (v.f_favail, v.f_files)
    return None


def _size(count: int) -> str:
    return "%.1f MiB" % (count / (1 << 20)) if count < 1 << 30 else "%.2f GiB" % (count / (1 << 30))
