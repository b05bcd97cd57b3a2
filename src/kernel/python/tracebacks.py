"""Turns an exception of user code into the error of an END frame.

Called by run.py while SIGINT may still come, because formatting calls user code (`__str__`).
Invariants: no frame of ours, no ANSI, bounded text, and no exception out of here but those user
code raises on purpose (KeyboardInterrupt, MemoryError): what cannot be formatted is
reported in fewer words.
"""
import errno
import linecache
import os
import resource
import sys
from opcode import opmap
from traceback import TracebackException, format_tb

from krait_kernel import channel

MAX_TEXT = 64 << 10
MAX_FRAMES = 2000  # of one stack; past it only the last ones are read
KEPT_SOURCES = 200
KEPT_CHARS = 4 << 20
MAX_NAME = 200  # characters of a class's name
RAISE = opmap["RAISE_VARARGS"]

OURS = (
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    "<figure>",
)  # how names of our files begin
_sources: dict = {}  # file name of a run -> (lines, numbers of the lines that were magics)
_chars = 0


def remember(name: str, source: str, magic_lines=frozenset()) -> None:
    """Keeps the text of a run, so that tracebacks of this and later runs show its lines."""
    global _chars
    old = _sources.pop(name, None)
    if old is not None:
        _chars -= old[2]
    lines = [
        line + "\n" for line in source.split("\n")
    ]  # as linecache has them: the carets are counted from there
    _sources[name] = (lines, magic_lines, len(source))
    _chars += len(source)
    while len(_sources) > KEPT_SOURCES or (_chars > KEPT_CHARS and len(_sources) > 1):
        gone = next(iter(_sources))
        _chars -= _sources.pop(gone)[2]
        _uncache(gone)
    _cache(name)


def _cache(name: str) -> None:
    lines, _magic, size = _sources[name]
    try:
        linecache.cache[name] = (size, None, lines, name)
    except Exception:
        pass  # replaced by user code


def _uncache(name: str) -> None:
    try:
        linecache.cache.pop(name, None)
    except Exception:
        pass


def _recache() -> None:
    for name in _sources:
        try:
            if name not in linecache.cache:
                _cache(name)
        except Exception:
            return


_type_name = type.__dict__["__name__"].__get__


def type_name(exc: BaseException) -> str:
    """The name of its class. A memory error of any library is a MemoryError: the engine compares
    this word with its counters.
    """
    if isinstance(exc, MemoryError):
        return "MemoryError"
    return channel.clean(_type_name(type(exc))[:MAX_NAME])


def message_of(exc: BaseException) -> str:
    try:
        return channel.clean(channel.cut(str(exc), MAX_TEXT))
    except Exception:
        return "<unprintable %s object>" % type_name(exc)


def errno_of(exc: BaseException) -> int:
    if isinstance(exc, OSError):
        code = exc.errno
        return code if type(code) is int and 0 <= code < 4096 else 0
    if isinstance(exc, RuntimeError) and str(exc) == "can't start new thread":
        return errno.EAGAIN  # what pthread_create said
    return 0


def raised(exc: BaseException) -> bool:
    """Whether a `raise` statement of user code made it, and not something the system refused."""
    tb = exc.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    if tb is None:
        return False
    code = tb.tb_frame.f_code
    name = code.co_filename
    return (
        name in _sources or name.startswith(("/workspace/", "/tmp/", "/home/user/", "/mnt/data/"))
    ) and code.co_code[tb.tb_lasti] == RAISE


def line_of(exc: BaseException, name: str):
    """The last line of the run's own text that was being executed, or None."""
    line = None
    tb = exc.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == name:
            line = tb.tb_lineno
        tb = tb.tb_next
    if line is None and isinstance(exc, SyntaxError) and exc.filename == name:
        line = exc.lineno
    return line if type(line) is int else None


_statvfs = os.statvfs
_getrlimit, _RLIMIT_DATA = resource.getrlimit, resource.RLIMIT_DATA
FOLDERS = ("/workspace", "/tmp", "/dev/shm")
ALMOST_FULL = 1 << 16
# Where the processes and threads of the library are made.
MAKERS = ("subprocess.py", "popen_fork.py", "popen_spawn_posix.py", "popen_forkserver.py", "threading.py", "pty.py")


def is_full() -> str:
    """What one of the session's own filesystems has no room for: bytes, files, or "" for neither."""
    for folder in FOLDERS:
        try:
            now = _statvfs(folder)
        except OSError:
            continue
        if now.f_files and now.f_favail == 0:
            return "files"
        if now.f_bavail * now.f_frsize < ALMOST_FULL:
            return "bytes"
    return ""


def makes_processes(exc: BaseException) -> bool:
    """Whether the exception came from where a process or thread is made, and not from a read that would block."""
    if isinstance(exc, RuntimeError):
        return True  # errno_of() knows it by its text
    file, line = _place(exc)
    return file in MAKERS or "fork" in line


def _place(exc: BaseException):
    """File and source line of the innermost frame."""
    tb = exc.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    if tb is None:
        return "", ""
    file = tb.tb_frame.f_code.co_filename
    return os.path.basename(file), linecache.getline(file, tb.tb_lineno)


def from_parser(exc: BaseException) -> bool:
    """Whether this MemoryError means that source is nested too deep for CPython's parser. It does when
    the line compiles something and at least a tenth of the memory allowed is free.
    """
    file, line = _place(exc)
    if file != "ast.py" and not any(word in line for word in ("eval(", "exec(", "compile(")):
        return False
    limit = _getrlimit(_RLIMIT_DATA)[0]
    used = 0
    with open("/proc/self/statm") as pages:
        used = int(pages.read().split()[5]) * 4096
    return limit < 0 or used < limit - limit // 10


def not_ours(exc: BaseException, code: int) -> bool:
    """Whether the system refused it for another reason than a limit of the session: /dev/full, an empty pipe."""
    if code == errno.ENOSPC:
        return not is_full()
    if isinstance(exc, MemoryError):
        return from_parser(exc)
    return code == errno.EAGAIN and not makes_processes(exc)


def describe(exc: BaseException, name: str) -> dict:
    """The error of an END frame. `name` is the run's file name."""
    try:
        code, line = errno_of(exc), line_of(exc, name)
        own = raised(exc) or not_ours(exc, code)
    except Exception:
        code, line, own = 0, None, False
    error = {
        "type": type_name(exc),
        "message": message_of(exc),
        "traceback": text_of(exc),
        "line": line,
        "errno": code,
    }
    if own:
        error["raised"] = True
    elif code in (errno.ENOSPC, errno.EDQUOT) and is_full() == "files":
        error["inodes"] = True
    return error


def bare(exc: BaseException) -> dict:
    """The same without calling anything of the user's: for exceptions that came while we were
    busy with another.
    """
    kind = type_name(exc)
    return {"type": kind, "message": "", "traceback": kind + "\n", "line": None, "errno": 0}


def text_of(exc: BaseException) -> str:
    """The whole traceback, bounded."""
    _recache()
    try:
        text = "".join(_format(exc))
    except Exception:
        text = _plain(exc)
    return channel.clean(channel.cut(text, MAX_TEXT))


def _depth(tb) -> int:
    count = 0
    while tb is not None and count <= MAX_FRAMES:
        count += 1
        tb = tb.tb_next
    return count


def _format(exc: BaseException):
    tb = strip(exc.__traceback__)
    limit = None if _depth(tb) <= MAX_FRAMES else -(MAX_FRAMES // 10)
    formatted = TracebackException(type(exc), exc, tb, limit=limit)
    seen = set()
    stack = [formatted]
    while stack:
        one = stack.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        _tidy(one)
        stack += [one.__cause__, one.__context__] + list(getattr(one, "exceptions", None) or ())
    return formatted.format()


def strip(tb):
    """The traceback from the first frame of a run's text on; without one, from the first frame
    that is not ours.
    """
    first = tb
    while first is not None and first.tb_frame.f_code.co_filename not in _sources:
        first = first.tb_next
    if first is not None:
        return first
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(OURS):
        tb = tb.tb_next
    return tb


def cut_ours(tb):
    """The same traceback without the frames of ours at its end, where a guard has refused something."""
    last, one = None, tb
    while one is not None:
        if not one.tb_frame.f_code.co_filename.startswith(OURS):
            last = one
        one = one.tb_next
    if last is not None:
        last.tb_next = None
    return tb


def _tidy(formatted) -> None:
    """Takes our frames out of one exception of the chain, and puts back the lines as they were
    written.
    """
    if formatted.stack is not None:
        formatted.stack[:] = [frame for frame in formatted.stack if not frame.filename.startswith(OURS)]
        for frame in formatted.stack:
            source = _sources.get(frame.filename)
            if source is not None and frame.lineno in source[1] and hasattr(frame, "colno"):
                frame.colno = frame.end_colno = None  # columns of the text we made of it
        if not formatted.stack:
            formatted.exc_traceback = None  # 3.8 and 3.9 print the heading for this
            if sys.version_info >= (3, 10):
                formatted.stack = None
    source = _sources.get(getattr(formatted, "filename", None))
    if source is not None and getattr(formatted, "lineno", None) is not None:
        try:
            line = int(formatted.lineno)
        except ValueError:
            return
        if line in source[1] and line <= len(source[0]):
            formatted.text = source[0][line - 1]
            formatted.offset = None


def _plain(exc: BaseException) -> str:
    """When the traceback module cannot: the frames, the class, the message if it has one."""
    try:
        frames = "".join(
            [
                text
                for text in format_tb(strip(exc.__traceback__), -50)
                if not any(one in text for one in OURS)
            ]
        )
    except Exception:
        frames = ""
    head = "Traceback (most recent call last):\n" if frames else ""
    message = message_of(exc)
    return "%s%s%s%s\n" % (head, frames, type_name(exc), ": " + message if message else "")
