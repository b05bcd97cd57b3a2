"""Memory held back, so that user code which has used up its own still gets a report of that.

run.py gives it back on a MemoryError: the traceback needs some memory, and so does compiling the
`del` that frees the rest. Invariant: it is address space only (private, never touched), so it
costs a session nothing but address space below RLIMIT_DATA.
"""
import mmap

SIZE = 4 << 20

_held = None


def hold() -> None:
    """Taken in the zygote, and again before each run that finds it gone, if there is room."""
    global _held
    if _held is None:
        try:
            _held = mmap.mmap(-1, SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, ValueError, MemoryError):
            pass


def free() -> bool:
    """Whether there was anything to give back."""
    global _held
    held, _held = _held, None
    if held is not None:
        held.close()
    return held is not None
