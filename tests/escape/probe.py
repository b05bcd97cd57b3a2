"""What every probe may use. This text is put in front of the probes of a batch and runs where they run: inside a
session, and outside it, in a plain python3, for the controls.

It therefore imports nothing of ours, works on any Python from 3.8 on, and leaves no process behind. A probe returns
one dict of observations: mostly name -> "ok" or the name of an errno ("EPERM") or of a signal ("SIGSYS"). Whether
that is right is judged outside, in the rows: nothing that is said in here is believed without the control beside it.
"""
import ctypes
import errno
import fcntl
import json
import mmap
import os
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time

INSIDE = False  # True in a session
RAW = False  # True: calls go through a syscall instruction of our own, not through libc
PARAMS = {}  # what the suite tells the probes: pids, names and paths of bait it has put up outside

L = ctypes.CDLL(None, use_errno=True)
L.syscall.restype = ctypes.c_long
MARK = "@row "
PROBE_SECONDS = 120
MASK = (1 << 64) - 1


def err_name(number):
    return errno.errorcode.get(number, "errno %d" % number)


def machine(code):
    """Machine code as a function without arguments. The memory is never freed."""
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    function = ctypes.CFUNCTYPE(ctypes.c_long, *[ctypes.c_ulong] * 7)(
        ctypes.addressof(ctypes.c_char.from_buffer(memory))
    )
    function.memory = memory
    return function


RAW_CALL = None
# mov rax,rdi; rdi,rsi; rsi,rdx; rdx,rcx; r10,r8; r8,r9; r9,[rsp+8]; syscall; ret
RAW_CODE = bytes.fromhex("4889f8" "4889f7" "4889d6" "4889ca" "4d89c2" "4d89c8" "4c8b4c2408" "0f05" "c3")


def sc(number, *args):
    """A system call by its number: (value, None) or (-1, "EPERM")."""
    global RAW_CALL
    keep, words = [], []
    for a in args:
        if a is None:
            a = 0
        elif isinstance(a, bytes):
            keep.append(ctypes.create_string_buffer(a))
            a = ctypes.addressof(keep[-1])
        elif not isinstance(a, int):
            keep.append(a)
            a = ctypes.addressof(a)
        words.append(a & MASK)
    words += [0] * (6 - len(words))
    if RAW:
        if RAW_CALL is None:
            RAW_CALL = machine(RAW_CODE)
        r = RAW_CALL(number, *words)
        return (-1, err_name(-r)) if -4096 < r < 0 else (r, None)
    ctypes.set_errno(0)
    r = L.syscall(ctypes.c_long(number), *[ctypes.c_ulong(w) for w in words])
    return (-1, err_name(ctypes.get_errno())) if r == -1 else (r, None)


def call(number, *args):
    """The same as one word: "ok" or the errno's name."""
    return sc(number, *args)[1] or "ok"


def attempt(fn, *args):
    """fn(*args) as one word: "ok", the errno's name, or the exception's."""
    try:
        fn(*args)
        return "ok"
    except OSError as e:
        return err_name(e.errno) if e.errno else type(e).__name__
    except Exception as e:
        return type(e).__name__


def try_open(path, flags=os.O_RDONLY):
    """Opens and closes without reading or writing a byte."""
    return attempt(lambda: os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)))


def read_text(path, limit=4000):
    """{"text": …} or {"error": "ENOENT"}."""
    try:
        with open(path, "rb") as f:
            return {"text": f.read(limit).decode("utf-8", "replace")}
    except OSError as e:
        return {"error": err_name(e.errno)}


def forked(fn, seconds=30):
    """fn() in a forked child: {"value": …}, {"signal": "SIGSYS", "core": False} or {"error": …}."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(read_end)
            data = json.dumps({"value": fn()}).encode()
            while data:
                data = data[os.write(write_end, data) :]
            code = 0
        except BaseException as e:
            os.write(write_end, json.dumps({"error": type(e).__name__ + ": " + str(e)[:300]}).encode())
        finally:
            os._exit(code)
    os.close(write_end)
    data, deadline, late = b"", time.monotonic() + seconds, False
    while True:
        ready = select.select([read_end], [], [], max(0.0, deadline - time.monotonic()))[0]
        if not ready:
            late = True
            break
        piece = os.read(read_end, 65536)
        if not piece:
            break
        data += piece
    os.close(read_end)
    if late:
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    if late:
        return {"error": "no answer in %d s" % seconds}
    if os.WIFSIGNALED(status):
        return {"signal": signal.Signals(os.WTERMSIG(status)).name, "core": os.WCOREDUMP(status)}
    try:
        return json.loads(data.decode())
    except ValueError:
        return {"error": "exit status %d, said %r" % (os.WEXITSTATUS(status), data[:100])}


def word(result, value=None):
    """A forked() result as one word; value(v) makes a word of what came back."""
    if "signal" in result:
        return result["signal"]
    if "error" in result:
        return result["error"]
    return value(result["value"]) if value else str(result["value"])


def sleeping_child():
    """A child that waits to be killed: (pid, end)."""
    pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(30)
            signal.pause()
        finally:
            os._exit(0)

    def end():
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    return pid, end


def outsiders():
    """name -> pid of processes that are not this session's: the bait the suite started, and those next to us."""
    found = {"victim": PARAMS["victim"]}
    if INSIDE:
        found["one"] = 1
        if os.getppid() > 1:
            found["parent"] = os.getppid()
        if PARAMS.get("suite"):
            found["suite"] = PARAMS["suite"]
    return found


def scratch():
    """A new directory, to be removed by the caller (shutil.rmtree)."""
    return tempfile.mkdtemp(prefix="probe-")


def interpreter():
    """A Python that can be started as a program."""
    return sys.executable if sys.executable and os.path.exists(sys.executable) else "/usr/bin/python3"


def run_one(name, fn, inline):
    """Runs a probe and prints its line. Inline ones see the session's own process, the others a fork of it."""
    sys.stdout.flush()
    if inline:
        try:
            result = {"value": fn()}
        except BaseException as e:
            result = {"error": "%s: %s" % (type(e).__name__, str(e)[:300])}
    else:
        result = forked(fn, PROBE_SECONDS)
    sys.stdout.write(MARK + json.dumps([name, result]) + "\n")
    sys.stdout.flush()
