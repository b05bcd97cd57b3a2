"""Carries what programs of the cell ask for (pip: pip_command.py) to the engine, and its answers
back.

Loaded by start.py's handler of SIGURG, which such a program sends when it has something to say or
waits for an answer; there is no thread, and nothing of this exists in a session that no program
asks. A turn never waits. Invariants: what a program sends is a line of JSON of limited length, and
goes to the engine as it is: nothing of it is used here; a program that is gone is told of; past
CLIENTS programs the next waits for its turn; with an answer that is not read, or as one of more than
WAITING, a program is let go of; a turn is not begun within another, by a signal that comes meanwhile.
"""
import os
from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM, socket

import _krait
from krait_kernel import channel

ADDRESS = "/tmp/.krait-pip"  # only this cell has this folder
CLIENTS = 8  # that are served
WAITING = 128
REQUEST = 60 << 10  # bytes; a frame takes 64 KiB
UNREAD = 512 << 10  # bytes of answers
TURN = 256  # answers of a turn
TURNS = 4  # at a time

_listener = None
_clients: list = []
_handed: list = []  # answers for the turn that is on, as (number, payload)
_taken = 0  # how many answers there were
_last = 0  # number of a question
_turning = _again = False  # again: a signal has come within the turn
_unlink, _stat = os.unlink, os.stat


class Client:
    def __init__(self, fd: int) -> None:
        self.socket = socket(fileno=fd)
        self.socket.setblocking(False)
        self.number = 0  # of its question; 0: it has asked nothing yet
        self.run = 0  # in which it asked
        self.came, self.leaves = b"", b""
        self.ended = False  # it has its last answer

    def read(self) -> bool:
        """False: it is gone."""
        try:
            part = self.socket.recv(REQUEST + 1)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not part or self.number:
            return False
        self.came += part
        if self.came.endswith(b"\n"):
            return self.ask()
        return len(self.came) <= REQUEST

    def ask(self) -> bool:
        global _last
        if len(self.came) > REQUEST or not self.came.startswith(b"{"):
            return False
        _last = _last % 0x7FFFFFFF + 1
        self.number, self.run = _last, channel.run
        if channel.is_open():
            _krait.send(_krait.PACKAGES, self.number, self.came)
        else:
            self.refuse(b"packages are installed while a run is on")
        self.came = b""
        return True

    def answer(self, line: bytes) -> None:
        self.leaves += line + b"\n"
        self.ended = self.ended or b'"end":true' in line or b'"end": true' in line

    def refuse(self, why: bytes) -> None:
        self.answer(b'{"end":true,"ok":false,"error":"%s"}' % why)

    def look(self) -> None:
        if self.number and not self.ended and self.run != channel.run:
            self.refuse(b"the run that asked has ended")

    def write(self) -> bool:
        try:
            while self.leaves:
                self.leaves = self.leaves[self.socket.send(self.leaves) :]
        except BlockingIOError:
            return len(self.leaves) <= UNREAD
        except OSError:
            return False
        return True

    def close(self) -> None:
        if self.number and not self.ended and channel.is_open():
            _krait.send(_krait.PACKAGES, self.number, b'{"op":"cancel"}')
        self.socket.close()


def turn() -> None:
    """Takes what has come from either side."""
    global _turning, _again
    if _turning or channel.is_copy():
        _again = True
        return
    try:
        _turning = True
        for _more in range(TURNS):
            _again = False
            _turn()
            if not _again:
                break
    finally:
        _turning = False


def _turn() -> None:
    global _taken
    had = bool(_clients)
    for _answer in range(TURN):
        got = _handed.pop(0) if _handed else _krait.recv_packaged()
        if got is None:
            break
        _taken += 1
        _answered(*got)
    _listen()
    _accept()
    for one in _clients[:CLIENTS]:
        one.look()
        if not one.read() or not one.write():
            _clients.remove(one)
            one.close()
    if had and not _clients:
        _handed.clear()
        _close()


def take() -> bool:
    """Reads the answers that are next on the channel. False: none was taken.

    A turn does it, as none can begin within it: of two answers the later one cannot be the first,
    nor can a client leave the list that is walked. In a handler of the user's that came within a
    turn, they are kept for that.
    """
    before = _taken
    if not _turning:
        turn()
        return _taken != before
    got = _krait.recv_packaged()
    if got is not None:
        _handed.append(got)
    return got is not None


def _answered(number: int, payload: bytes) -> None:
    for one in _clients:
        if one.number == number:
            one.answer(payload)


def _listen() -> None:
    global _listener
    if _listener is not None:
        try:
            _stat(ADDRESS)
            return
        except OSError:  # somebody has cleared the folder
            _close()
    try:
        _unlink(ADDRESS)
    except OSError:
        pass
    made = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC)
    made.bind(ADDRESS)
    made.listen(WAITING)
    _listener = made


def _accept() -> None:
    for _one in range(WAITING - len(_clients)):
        try:
            fd, _address = _listener._accept()
        except OSError:
            return
        _clients.append(Client(fd))


def _close() -> None:
    """The name goes first: a program that has found it is accepted."""
    global _listener
    try:
        _unlink(ADDRESS)
    except OSError:
        pass
    _accept()
    _listener, old = None, _listener
    old.close()
