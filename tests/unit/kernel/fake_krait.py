#!/usr/bin/python3
"""A stand-in for the extension _krait, and a driver: the Python side of the kernel is tried in
real processes without cells.

As a program with the word `zygote` it becomes the zygote: it puts itself where `_krait` is
imported from and runs boot.py. Its serve() forks a session for each message on the control
socket, as the extension does, but without namespaces and restrictions. Test files import Zygote
from here. Run without arguments it checks itself.
"""
import builtins

__builtins__ = dict(
    vars(builtins)
)  # user code that patches the real ones shall hit the kernel's Python side, not this stand-in

import _signal
import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
import time
from array import array
from os import _exit as _os_exit, read as _os_read, write as _os_write  # user code may put others there
from select import select as _select

PROGRAM = os.path.abspath(__file__)
HERE = os.path.dirname(PROGRAM)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
KERNEL = os.path.join(ROOT, "src/kernel/python")
PYTHON = os.environ.get("KR_TEST_PYTHON", "/usr/bin/python3")
if sys.argv[1:2] != ["zygote"]:
    import atexit
    import shutil
    import tempfile

    sys.path.insert(0, os.path.join(ROOT, "tests/lib"))
    # User code runs without a cell here, so what it leaves in its temporary folder has to go with the suite.
    SCRATCH = tempfile.mkdtemp(prefix="kernel-test-")
    _maker = os.getpid()
    atexit.register(lambda: os.getpid() == _maker and shutil.rmtree(SCRATCH, ignore_errors=True))
    tempfile.tempdir = SCRATCH
HEAD = struct.Struct("=IHHII")  # length, type, descriptors, id, pad: as in src/wire/frame.h
START, STARTED, RUN, DISPLAY, INPUT, REPLY, END, FORKED, INTERRUPT = range(1, 10)
PACKAGES, PACKAGED = 20, 21

# ---- the module `_krait`, in the zygote and its sessions ----------------------------------------

_hooks: list = []
_channel = -1
_recv = None
_run = 0
calls: list = []  # what start() asked for


def set_hooks(after_fork, start, run, venv, packaged, terminal):
    _hooks[:] = [after_fork, start, run, venv, packaged]


def _read(fd, size):
    data = b""
    while len(data) < size:
        part = _os_read(fd, size - len(data))
        if not part:
            return b""
        data += part
    return data


def send(kind, run, payload):
    data = HEAD.pack(len(payload), kind, 0, run, 0) + payload
    while data:
        data = data[_os_write(_channel, data) :]


def recv_frame():
    head = _read(_channel, HEAD.size)
    if not head:
        return None
    size, kind, _fds, run, _pad = HEAD.unpack(head)
    return kind, run, _read(_channel, size)


def recv_reply(run):
    while True:
        _select([_channel], [], [])
        if _take_packaged():
            continue
        frame = recv_frame()
        if frame is None:
            return b'{"eof":true}'
        if frame[0] == REPLY and frame[1] == run:
            return frame[2]


def _is_packaged():
    if not _select([_channel], [], [], 0)[0]:
        return False
    head = _recv(HEAD.size, socket.MSG_PEEK)
    return len(head) == HEAD.size and HEAD.unpack(head)[1] == PACKAGED


def recv_packaged():
    return recv_frame()[1:] if _is_packaged() else None


def _take_packaged():
    if not _is_packaged():
        return False
    if not _hooks[4]() and _is_packaged():
        recv_frame()
    return True


def drain(fd):
    count = array("i", [0])
    for _ in range(2000):
        try:
            fcntl.ioctl(fd, 0x541B, count)  # FIONREAD
        except OSError:
            return
        if count[0] == 0:
            return
        time.sleep(0.0005)


def _take_interrupt():
    """Whether the run was interrupted before its code began, as session.c finds it out."""
    if not _select([_channel], [], [], 0)[0]:
        return False
    head = _recv(HEAD.size, socket.MSG_PEEK)
    if len(head) < HEAD.size or HEAD.unpack(head)[1::2] != (INTERRUPT, _run):
        return False
    _read(_channel, HEAD.size)
    return True


def _hold_back():
    for _ in range(8):
        try:
            return _signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        except BaseException:
            continue


def _let_through(body):
    while _signal.sigtimedwait([signal.SIGINT], 0) is not None:
        pass
    early = _take_interrupt()
    try:
        try:
            _signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            if early:
                _signal.raise_signal(signal.SIGINT)
            body()
        finally:
            _signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    except BaseException as exc:
        return exc


def interruptible(body):
    """The extension does this in C, where nothing comes between; here an interrupt may follow another at once."""
    try:
        try:
            raised = _let_through(body)
        except BaseException as exc:
            raised = exc
            _hold_back()
    except BaseException as exc:
        raised = exc
        _hold_back()
    return raised


def restrict(paths):
    calls.append(("restrict", paths))
    return 7


def fail(_control, text):
    sys.stderr.write(text + "\n")


def scratch():
    return None  # as in a cell


def setrlimits(limits):
    import resource

    for name, value in limits.items():
        resource.setrlimit(getattr(resource, "RLIMIT_" + name.upper()), (value, value))


def npseed(address):
    ctypes.memmove(address, os.urandom(2496), 2496)
    ctypes.c_int.from_address(address + 2496).value = 624


def madvise(start, end, advice):
    return ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), advice)


def anonify(start, end, protection):
    assert start < end and protection & 1
    return 0


def _session(fds):
    global _channel, _recv
    _signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    _channel = fcntl.fcntl(fds[0], fcntl.F_DUPFD_CLOEXEC, 50)
    _recv = socket.socket(fileno=fcntl.fcntl(fds[0], fcntl.F_DUPFD_CLOEXEC, 50)).recv
    for target, fd in ((1, fds[1]), (2, fds[2]), (0, fds[3])):
        os.dup2(fd, target)
    for fd in fds:
        if fd > 2:
            os.close(fd)
    _hooks[0]()
    while True:
        try:  # the extension waits in C, where no handler of the user's can raise
            while True:
                _serve_one()
        except Failed:
            raise
        except BaseException:
            pass


class Failed(Exception):
    """START did."""


def _serve_one():
    global _run
    _signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM, signal.SIGINT])
    for _ in range(10):
        _nothing()
    _select([_channel], [], [])
    if _take_packaged():
        return
    frame = recv_frame()
    if frame is None:
        _os_exit(0)
    if frame[0] == START:
        try:
            reply = _hooks[1](frame[2])
        except Exception as exc:
            raise Failed from exc
        send(STARTED, 0, reply)
    elif frame[0] == RUN:
        _run = frame[1]
        try:
            _signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
            for _ in range(10):
                _nothing()
        except BaseException:
            pass
        try:
            _hooks[2](frame[1], frame[2])
        except BaseException as exc:  # as the extension does
            lost = {
                "cause": "exception",
                "exit_code": 1,
                "result": None,
                "error": {
                    "type": "SystemError",
                    "message": repr(exc),
                    "traceback": "",
                    "line": None,
                    "errno": 0,
                },
                "variables": [],
                "hint": None,
                "copy": False,
            }
            send(END, frame[1], json.dumps(lost).encode())


def _nothing():
    pass


def serve(control):
    ctl = socket.socket(fileno=control)
    pids = set()
    while True:
        data, ancillary, _flags, _address = ctl.recvmsg(16, socket.CMSG_SPACE(16))
        if not data:
            os._exit(0)
        fds = array("i")
        for _level, _kind, body in ancillary:
            fds.frombytes(body[:16])
        pid = os.fork()
        if pid == 0:
            ctl.detach()
            try:
                _session(list(fds))
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                os._exit(99)
        for fd in fds:
            os.close(fd)
        pids = {one for one in pids if os.waitpid(one, os.WNOHANG)[0] == 0} | {pid}
        ctl.send(struct.pack("=i", pid))


def become_zygote(folder, preload, control):
    sys.modules["_krait"] = sys.modules["__main__"]
    _boot(folder)["main"](["boot.py", preload, control])


def _boot(folder):
    path = os.path.join(folder, "boot.py")
    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), path, "exec")
    names = {"__name__": "boot", "__file__": path, "__builtins__": builtins}
    exec(code, names)
    return names


def self_check():
    from check import check, equal, main

    @check
    def fake_session_answers_start_and_run():
        with Zygote() as zygote, zygote.session() as session:
            equal(session.start_reply, {"landlock_abi": 7})
            end = session.run("print('a')\n1 + 1")
            equal(
                (end["cause"], end["result"], end["stdout"], len(end["ends"])),
                ("ok", "2", "a\n", 1),
            )

    main()


if sys.argv[1:2] != ["zygote"]:
    sys.modules.setdefault("fake_krait", sys.modules[__name__])
    from kernel_driver import Ended, Session, Zygote, load_kernel  # noqa: E402,F401


if __name__ == "__main__":
    if sys.argv[1:2] == ["zygote"]:
        become_zygote(*sys.argv[2:])
    else:
        self_check()
