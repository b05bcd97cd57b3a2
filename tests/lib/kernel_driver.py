"""Drives the Python side of the kernel from the engine's end: zygotes, sessions, runs.

Used by tests/unit/kernel, whose fake_krait.py stands in for the extension and gives the frame types.
"""
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from array import array

import fake_krait
from fake_krait import DISPLAY, END, HEAD, INPUT, INTERRUPT, KERNEL, PYTHON, REPLY, RUN, START, STARTED


class Ended(Exception):
    """The session is gone."""


class Session:
    """A session, its pipes and its channel, seen from the engine's side."""

    def __init__(self, zygote, mode="session", started=True, stdin=b"", **start):
        mine, theirs = socket.socketpair()
        self.channel = mine
        out, err, inp = os.pipe(), os.pipe(), os.pipe()
        zygote.control.sendmsg(
            [b"fork"],
            [
                (
                    socket.SOL_SOCKET,
                    socket.SCM_RIGHTS,
                    array("i", [theirs.fileno(), out[1], err[1], inp[0]]),
                )
            ],
        )
        self.pid = struct.unpack("=i", zygote.control.recv(4))[0]
        theirs.close()
        for fd in (out[1], err[1], inp[0]):
            os.close(fd)
        os.write(inp[1], stdin)
        os.close(inp[1])
        self.pipes = {out[0]: "stdout", err[0]: "stderr"}
        self.buffer = b""
        self.number = 0
        self.start_reply = self.start(mode=mode, **start) if started else None

    def start(self, mode="session", cwd="/tmp", **more):
        self.send(
            START,
            0,
            dict(
                {"mode": mode, "cwd": cwd, "env": {}, "cpus": 1, "landlock": True, "rlimits": {}},
                **more,
            ),
        )
        return self.events(until=STARTED)["frames"][-1][2]

    def send(self, kind, run, value, then=b""):
        payload = json.dumps(value).encode()
        self.channel.sendall(HEAD.pack(len(payload), kind, 0, run, 0) + payload + then)

    def frames(self):
        while len(self.buffer) >= HEAD.size:
            size, kind, _fds, run, _pad = HEAD.unpack_from(self.buffer)
            if len(self.buffer) < HEAD.size + size:
                return
            payload = self.buffer[HEAD.size : HEAD.size + size]
            self.buffer = self.buffer[HEAD.size + size :]
            yield kind, run, json.loads(payload.decode("utf-8"))

    def events(self, until, replies=(), timeout=60.0, on_frame=None, on_output=None):
        """Reads everything until a frame of that type: {"stdout", "stderr", "order", "frames"}."""
        got = {"stdout": b"", "stderr": b"", "order": [], "frames": []}
        replies = iter(replies)
        deadline = time.monotonic() + timeout
        done = False
        while True:
            wait = 0 if done else max(0, deadline - time.monotonic())
            ready = select.select([self.channel] * (not done) + list(self.pipes), [], [], wait)[0]
            if not ready:
                if done:
                    return got
                raise TimeoutError(
                    "no frame %d within %s s; stdout %r stderr %r"
                    % (until, timeout, got["stdout"], got["stderr"])
                )
            # What a frame precedes is written after it, and what it follows has been read: the
            # channel comes first.
            if self.channel in ready:
                data = self.channel.recv(1 << 20)
                if not data:
                    error = Ended(
                        "the session ended; stdout %r stderr %r" % (got["stdout"], got["stderr"])
                    )
                    error.got = got
                    raise error
                self.buffer += data
                for frame in self.frames():
                    if frame[1] not in (0, self.number):
                        continue  # of a run that is over: the engine drops these too
                    got["frames"].append(frame)
                    got["order"].append(frame)
                    if on_frame:
                        on_frame(self, frame)
                    if frame[0] == INPUT:
                        self.send(REPLY, frame[1], next(replies, {"eof": True}))
                    done = done or frame[0] == until
            for source in ready:
                if source is self.channel:
                    continue
                data = os.read(source, 65536)
                if not data:
                    os.close(source)
                    del self.pipes[source]
                    continue
                got[self.pipes[source]] += data
                got["order"].append((self.pipes[source], data))
                if on_output:
                    on_output(self, got)

    def run(self, code, replies=(), timeout=60.0, on_frame=None, on_output=None, early=False, **spec):
        """One run: the END frame's object, with stdout, stderr, displays, inputs and order
        added. early: the word that it is interrupted comes with it.
        """
        self.number += 1
        name = "<run %d>" % self.number
        self.send(
            RUN,
            self.number,
            dict(
                {
                    "code": code,
                    "name": name,
                    "warm": False,
                    "figures": "png",
                    "stdin": None,
                    "script": None,
                },
                **spec,
            ),
            then=HEAD.pack(0, INTERRUPT, 0, self.number, 0) if early else b"",
        )
        got = self.events(END, replies, timeout, on_frame, on_output)
        end = dict(got["frames"][-1][2])
        end["ends"] = [one for one in got["frames"] if one[0] == END]
        end["displays"] = [one[2] for one in got["frames"] if one[0] == DISPLAY]
        end["inputs"] = [one[2] for one in got["frames"] if one[0] == INPUT]
        end["order"] = got["order"]
        for name in ("stdout", "stderr"):
            end[name] = got[name].decode("utf-8", "backslashreplace")
        return end

    def interrupt(self):
        os.kill(self.pid, signal.SIGINT)

    def rest(self, timeout=20.0):
        """Waits for the end of the process; what was still written."""
        out = {"stdout": b"", "stderr": b""}
        deadline = time.monotonic() + timeout
        while self.pipes and time.monotonic() < deadline:
            for source in select.select(list(self.pipes), [], [], 0.2)[0]:
                data = os.read(source, 65536)
                out[self.pipes[source]] += data
                if not data:
                    os.close(source)
                    del self.pipes[source]
        return {name: data.decode("utf-8", "backslashreplace") for name, data in out.items()}

    def close(self):
        self.channel.close()
        for fd in self.pipes:
            os.close(fd)
        self.pipes = {}

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.close()


class Zygote:
    """A zygote process. `env` is its whole environment."""

    def __init__(self, preload="basic", python=PYTHON, env=None, folder=KERNEL):
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control = mine
        self.process = subprocess.Popen(
            [
                python,
                "-I",
                "-S",
                fake_krait.PROGRAM,
                "zygote",
                folder,
                preload,
                str(theirs.fileno()),
            ],
            pass_fds=[theirs.fileno()],
            env=env or {"LANG": "C.UTF-8"},
            stderr=subprocess.PIPE,
        )
        theirs.close()

    def session(self, **how):
        return Session(self, **how)

    def close(self):
        self.control.close()
        try:
            self.process.wait(20)
        finally:
            if self.process.poll() is None:
                self.process.kill()
            self.process.stderr.close()

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.close()


def load_kernel():
    """The package krait_kernel in this process, for its pure functions."""
    sys.modules["_krait"] = fake_krait
    kernel = fake_krait._boot(KERNEL)["load"](KERNEL)
    kernel.forktricks.release()
    return kernel
