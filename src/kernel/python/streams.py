"""sys.stdout, sys.stderr and sys.stdin of a session.

stdout and stderr are text writers over fd 1 and 2, flushed at each newline. The two pipes behind
them are read by another process, so when Python code changes from one stream to the other the
writer flushes the first and waits (bounded) until its pipe is empty: the order is kept. stdin
asks the engine for a line with an INPUT frame, or is the text that came with the run, or
(scripts) the real fd 0. Invariant: whatever user code closes, detaches or replaces, `ready()`
gives the next run streams that work.
"""
import builtins as _user_builtins
import io
import os
import sys
from _thread import get_ident
import getpass as _getpass_module

import _krait
from krait_kernel import channel

_text_write = io.TextIOWrapper.write
_buffer_write = io.BufferedWriter.write
_write, _fstat, _dup2, _fcntl_dup = os.write, os.fstat, os.dup2, os.dup
_drain = _krait.drain
_original_input = _user_builtins.input
_original_getpass = _getpass_module.getpass

NAMES = {1: "<stdout>", 2: "<stderr>"}
OUTS = {1: "stdout", 2: "stderr"}
_saved: dict = {}  # fd -> (a private duplicate, (device, inode) of the pipe)
_stuck = set()  # outs whose last flush failed
_outs: dict = {}  # fd -> the writer we gave out last
_last = None  # the _Out or its buffer that wrote last
_stdin = None
_main_thread = 0
_prompt, _password = "", False  # of the line that input() is about to read
_canned = None  # the text that stands for stdin in this run, or None
script_stdin = False


class _Buffer(io.BufferedWriter):
    fd = 1

    def write(self, data):
        if _last != self.fd:
            _switch(self.fd)
        return _buffer_write(self, data)


class _Out(io.TextIOWrapper):
    fd = 1

    def write(self, text):
        if _last != self.fd:
            _switch(self.fd)
        return _text_write(self, text)


def _switch(fd: int) -> None:
    """The barrier: what the other stream has is flushed and read before this one writes."""
    global _last
    before, _last = _last, fd
    if before is not None and before in _outs:
        _flush(_outs[before])
        _drain(before)


def _flush(stream) -> bool:
    try:
        stream.flush()
    except (ValueError, OSError, AttributeError):
        return False  # closed, detached or without a reader: the user's doing, and no reason to stop
    return True


def _open(fd: int) -> _Out:
    raw = io.FileIO(fd, "wb", closefd=False)
    raw.name = NAMES.get(fd, "<null>")
    buffer = _Buffer(raw)
    out = _Out(buffer, "utf-8", "backslashreplace", "\n", line_buffering=True)
    buffer.fd = out.fd = fd
    out.mode = "w"
    return out


def _usable(stream) -> bool:
    try:
        return stream is not None and not stream.closed
    except AttributeError:
        return hasattr(stream, "write") or hasattr(stream, "readline")
    except Exception:
        return False  # detached


def _same_pipe(fd: int) -> bool:
    try:
        now = _fstat(fd)
    except OSError:
        return False
    return (now.st_dev, now.st_ino) == _saved[fd][1]


def _restore_fd(fd: int) -> None:
    """Keeps fd 1 and 2 the session's own pipes at the start of a run, also after os.close(1) or
    a dup2 that was never undone.
    """
    if fd not in _saved:
        try:
            copy = _fcntl_dup(fd)  # not inheritable
            stat = _fstat(fd)
        except OSError:
            return
        _saved[fd] = (copy, (stat.st_dev, stat.st_ino))
    elif not _same_pipe(fd):
        try:
            _dup2(_saved[fd][0], fd)
        except OSError:
            pass  # the duplicate was closed as well


def settle() -> None:
    """In the zygote: makes the streams of its sessions. They remember what kind of file they
    were made on, so for the moment 1 and 2 are pipes, as they will be.
    """
    ends = os.pipe()
    for fd in (1, 2):
        try:
            kept = _fcntl_dup(fd)
        except OSError:
            kept = -1
        _dup2(ends[1], fd)
        _give_out(fd)
        if kept < 0:
            os.close(fd)
        else:
            _dup2(kept, fd)
            os.close(kept)
    for fd in ends:
        os.close(fd)
    _ready_stdin()


def _give_out(fd: int) -> None:
    """A new writer, which replaces the one given out before it."""
    name = OUTS[fd]
    old = _outs.get(fd)
    _outs[fd] = _open(fd)
    setattr(sys, "__%s__" % name, _outs[fd])
    if old is None or getattr(sys, name, None) is old:
        setattr(sys, name, _outs[fd])


def _discard(fd: int) -> None:
    """What the run before could not write (os.close(1)) is not the next one's output. With its file
    closed the old writer can write nothing, not even when it is collected.
    """
    _stuck.discard(fd)
    try:
        _outs[fd].buffer.raw.close()
    except Exception:
        pass
    _give_out(fd)


def ready(canned=None) -> None:
    """Called before each run."""
    global _main_thread, _canned
    _main_thread = get_ident()
    if canned is not None or _canned is not None:  # text of one run is never read by another
        _canned = None if canned is None else _Canned(canned)
        _new_stdin(_frame_stdin() if canned is not None or not script_stdin else _real_stdin())
    for fd, name in OUTS.items():
        _restore_fd(fd)
        if fd in _stuck:
            _discard(fd)
        if fd not in _outs or not _usable(_outs[fd]):
            _give_out(fd)
        if not _usable(getattr(sys, name, None)):
            setattr(sys, name, _outs[fd])
    _ready_stdin()


def flush() -> None:
    """Flushes our writers and those that user code replaced them with. May call user code."""
    for name, fd in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name, None)
        if stream is not None and stream is not _outs.get(fd):
            try:
                stream.flush()
            except Exception:
                pass
    flush_ours()


def flush_ours() -> None:
    for fd, out in list(_outs.items()):
        if not _flush(out):
            _stuck.add(fd)
    fflush = getattr(_krait, "fflush", None)  # what C code printed through stdio
    if fflush is not None:
        fflush()


def barrier() -> None:
    """Before a frame that must come after all output so far."""
    flush()
    _drain(1)
    _drain(2)


def emit(fd: int, text: str) -> None:
    """Text of ours, to fd 1 or 2, whatever sys.stdout is now."""
    out = _outs.get(fd)
    try:
        if out is not None:
            out.write(text)
        else:
            _write(fd, text.encode("utf-8", "backslashreplace"))
    except (OSError, ValueError):
        pass


class scratch:
    """For warm-up runs: the writers' code paths are touched, the text goes nowhere."""

    def __enter__(self):
        self.kept = sys.stdout, sys.stderr
        self.fd = os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
        sys.stdout, sys.stderr = _open(self.fd), _open(self.fd)
        return self

    def __exit__(self, *_error):
        global _last
        mine = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = self.kept
        for out in mine:
            _flush(out)
        os.close(self.fd)
        _last = None


class _Canned:
    """The text that stands for stdin in one run."""

    def __init__(self, text: str) -> None:
        self.lines = iter(text.splitlines(True))

    def next(self):
        return next(self.lines, None)


class _Lines(io.RawIOBase):
    """stdin as a file: each read that finds nothing asks for one more line."""

    name = "<stdin>"
    mode = "rb"

    def __init__(self) -> None:
        self.rest = b""

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 0

    def readinto(self, target) -> int:
        if not self.rest:
            line = _next_line()
            if line is None:
                return 0
            self.rest = line.encode("utf-8", "surrogateescape")
        size = min(len(target), len(self.rest))
        target[:size] = self.rest[:size]
        self.rest = self.rest[size:]
        return size


def _next_line():
    """One more line with its newline, or None at the end of input."""
    global _prompt, _password
    prompt, password = _prompt, _password
    _prompt, _password = "", False
    if _canned is not None:
        if prompt and sys.stdout is not None:  # text given in advance: no client shows the prompt
            sys.stdout.write(prompt)
            sys.stdout.flush()
        return _canned.next()
    if not channel.is_open():
        return None
    if get_ident() != _main_thread:
        raise RuntimeError("a session can ask for input only in its main thread")
    barrier()
    prompt = channel.cut(prompt, channel.MAX_PROMPT)
    channel.send(_krait.INPUT, {"prompt": prompt, "password": password})
    reply = channel.loads(_krait.recv_reply(channel.run))
    text = reply.get("text")
    return None if reply.get("eof") or not isinstance(text, str) else text + "\n"


def _ready_stdin() -> None:
    if not _usable(_stdin):
        _new_stdin(_real_stdin() if script_stdin else _frame_stdin())
    if not _usable(sys.stdin):
        sys.stdin = _stdin


def _new_stdin(stream) -> None:
    global _stdin
    old, _stdin = _stdin, stream
    sys.__stdin__ = stream
    if old is None or sys.stdin is old:
        sys.stdin = stream


def _frame_stdin():
    stdin = io.TextIOWrapper(io.BufferedReader(_Lines()), "utf-8", "surrogateescape")
    stdin.mode = "r"
    return stdin


def _real_stdin():
    try:
        return io.open(0, "r", encoding="utf-8", errors="surrogateescape", closefd=False)
    except OSError:
        return None


def use_script_stdin() -> None:
    """Scripts read the real fd 0 with Python's own input() and getpass(), as under python3."""
    global script_stdin, _stdin
    script_stdin, _stdin = True, None
    _user_builtins.input = _original_input
    _getpass_module.getpass = _original_getpass
    _ready_stdin()


def input(prompt="", /):  # noqa: A001
    """Read a string from standard input. The trailing newline is stripped. The prompt is shown
    to the person or program that answers.
    """
    if sys.stdin is not _stdin:
        return _original_input(prompt)
    return _read(str(prompt), False)


def getpass(prompt="Password: ", stream=None):
    """Read a secret without showing it."""
    if sys.stdin is not _stdin:
        return _original_getpass(prompt, stream)
    return _read(str(prompt), True)


def _read(prompt: str, password: bool) -> str:
    global _prompt, _password
    _prompt, _password = prompt, password
    try:
        line = _stdin.readline()
    finally:
        _prompt, _password = "", False
    if not line:
        raise EOFError("EOF when reading a line")
    return line[:-1] if line.endswith("\n") else line


def install() -> None:
    """In the zygote: input() and getpass() of user code are ours from now on."""
    _user_builtins.input = input
    _getpass_module.getpass = getpass
