"""The border between our code and the user's: signals, late exceptions, and processes that user
code has forked off.

run.py and script.py run everything that may call user code through shielded(). Invariants:
SIGINT is unblocked in there and nowhere else; no exception comes out of it; a forked copy of the
process does not come out of it either.
"""
import gc
import os

import _krait
from krait_kernel import channel, reserve, streams, tracebacks

ATTEMPTS = 8  # a handler of the user's may raise again and again, but not for ever
# The error when not even the class of an exception can be found.
LATE = {"type": "KeyboardInterrupt", "message": "", "traceback": "", "line": None, "errno": 0}
_exit, _interruptible, _listdir = os._exit, _krait.interruptible, os.listdir
_waitpid, _NOHANG = os.waitpid, os.WNOHANG
# Of a class itself, whatever its metaclass makes of the names.
_mro_of, _name_of = type.__dict__["__mro__"].__get__, type.__dict__["__name__"].__get__


def exit_status(exc: SystemExit) -> int:
    """The status a SystemExit asks for; a message goes to stderr, as under python3."""
    code = exc.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -(2**31) <= code < 2**31 else 255
    streams.emit(2, "%s\n" % (code,))
    return 1


def end_copy(exc) -> None:
    """The end of a process that user code forked: it flushes and is gone, without a word to us."""
    status = 0
    try:
        if isinstance(exc, SystemExit):
            status = exit_status(exc)
        elif exc is not None:
            status = 1
            streams.emit(2, tracebacks.text_of(exc))
        streams.flush()
    finally:
        _exit(status)


def _nothing() -> None:
    pass


def settle() -> None:
    """Lets signals that were caught but not yet handled be handled here, where they do no harm."""
    for _attempt in range(ATTEMPTS):
        try:
            for _step in range(4):
                _nothing()
            return
        except BaseException:
            continue


def await_dead() -> None:
    """The engine has ended processes that the last run had started. Those that were our children
    count against `processes` until they are awaited, as do those that had ended by themselves:
    that happens here, except where an object of the user's does it (subprocess.Popen,
    multiprocessing.Process).
    """
    awaited = set()
    for one in gc.get_objects():
        if any(_name_of(base) == "Popen" for base in _mro_of(type(one))):
            try:
                awaited.add(dict.get(object.__getattribute__(one, "__dict__"), "pid"))
            except Exception:  # it is the user's: it may have no __dict__, or a property of that name
                pass
    for name in _listdir("/proc"):
        if not name.isdigit() or int(name) in awaited:
            continue
        try:
            _waitpid(int(name), _NOHANG)
        except OSError:
            pass  # no child of ours


def shielded(job, body) -> None:
    """Runs body() with SIGINT unblocked; comes back with it blocked, whatever happened."""
    try:
        late = _interruptible(body)
    except BaseException as exc:  # of a handler of the user's for another signal
        late = exc
    if late is not None:
        _late(job, late)
        late = None
    settle()
    if channel.is_copy():
        end_copy(None if job.error is None else KeyboardInterrupt())


def _late(job, exc: BaseException) -> None:
    for _attempt in range(ATTEMPTS):
        try:
            if isinstance(exc, MemoryError):
                reserve.free()
            job.late(exc)
            return
        except BaseException:
            continue
    job.cause, job.exit_code, job.error = "exception", 1, dict(LATE)
