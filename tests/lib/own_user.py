"""An ordinary user of a suite's own: an id that no other suite has at the same time, on a machine shared with others.

The kernel counts processes, pipe buffers and descriptors in flight per user id. At level contained these counts are
the limits of a session, so what runs beside a suite under the same id makes its sessions fail.
"""
import atexit
import os
import shutil

FIRST, EACH = 0x10000000, 8  # above what distributions and container engines allocate


def own_user(number: int = 0) -> int:
    """The id `number` of this process, fewer than EACH. Its runtime folder is removed when the process ends."""
    uid = FIRST + os.getpid() * EACH + number
    atexit.register(shutil.rmtree, f"/tmp/krait-{uid}", ignore_errors=True)
    return uid
