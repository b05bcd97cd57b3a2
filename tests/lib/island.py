"""A network namespace for a suite, in which nothing is but loopback and one way out that is a file: whatever would
leave this machine is read there, packet by packet. Root.

    island = Island()                       # before any thread; all that is started from now on is on it
    island.add("93.184.216.34")             # an address of loopback, to stand for one of the public internet
    with island.watch() as seen: …          # seen.packets: those that would have left meanwhile

Invariant: the process and its children are on the island for good, so nothing has to be put back.
"""
from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import Iterator

CLONE_NEWNET = 0x40000000
SIOCADDRT, SIOCSIFFLAGS, SIOCSIFADDR, SIOCGIFINDEX, TUNSETIFF = 0x890B, 0x8914, 0x8916, 0x8933, 0x400454CA
IFF_UP, IFF_RUNNING, IFF_TUN, IFF_NO_PI, RTF_UP = 1, 64, 1, 0x1000, 1
DOOR = "out0"


class NoIsland(Exception):
    pass


@dataclass
class Packet:
    version: int
    source: str
    target: str
    protocol: int
    data: bytes  # as a whole

    @property
    def port(self) -> int:
        """That it is for, of TCP and UDP."""
        head = 40 if self.version == 6 else (self.data[0] & 15) * 4
        return struct.unpack(">H", self.data[head + 2:head + 4])[0] if self.protocol in (6, 17) else 0


@dataclass
class Seen:
    packets: list[Packet] = field(default_factory=list)

    def of(self, target: str = "", token: bytes = b"") -> list[Packet]:
        return [p for p in self.packets if (not target or p.target == target) and token in p.data]


def _request(name: str, *rest: bytes) -> bytes:
    return (name.encode().ljust(16, b"\0") + b"".join(rest)).ljust(40, b"\0")


def _inet(address: str) -> bytes:
    return struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))


class Island:
    def __init__(self) -> None:
        if os.geteuid() != 0:
            raise NoIsland("needs root")
        if not os.path.exists("/dev/net/tun"):
            raise NoIsland("needs /dev/net/tun")
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
            raise NoIsland("no network namespace: " + os.strerror(ctypes.get_errno()))
        self.count = 0
        self.ioctl = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._up("lo")
        try:
            self.door = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            fcntl.ioctl(self.door, TUNSETIFF, _request(DOOR, struct.pack("=H", IFF_TUN | IFF_NO_PI)))
        except OSError as e:
            raise NoIsland("no way out to watch: %s" % e) from e
        fcntl.ioctl(self.ioctl, SIOCSIFADDR, _request(DOOR, _inet("100.127.0.2")))
        self._up(DOOR)
        self._route4()
        self.has_v6 = self._route6()

    def _up(self, name: str) -> None:
        fcntl.ioctl(self.ioctl, SIOCSIFFLAGS, _request(name, struct.pack("=h", IFF_UP | IFF_RUNNING)))

    def _route4(self) -> None:
        """struct rtentry: everything goes out by the door."""
        name = ctypes.create_string_buffer(DOOR.encode())
        any_address = _inet("0.0.0.0")
        entry = struct.pack("@L16s16s16sHhLPhPLLH", 0, any_address, any_address, any_address, RTF_UP, 0, 0, 0, 0,
                            ctypes.addressof(name), 0, 0, 0)
        fcntl.ioctl(self.ioctl, SIOCADDRT, entry)

    def _route6(self) -> bool:
        """struct in6_ifreq, struct in6_rtmsg."""
        try:
            with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as six:
                index = struct.unpack("=i", fcntl.ioctl(self.ioctl, SIOCGIFINDEX, _request(DOOR))[16:20])[0]
                own = socket.inet_pton(socket.AF_INET6, "fd77::2")
                fcntl.ioctl(six, SIOCSIFADDR, struct.pack("=16sIi", own, 64, index))
                fcntl.ioctl(six, SIOCADDRT, struct.pack("@48xIHHILIi", 0, 0, 0, 1, 0, RTF_UP, index))
            return True
        except OSError:
            return False

    def add(self, address: str) -> None:
        """To loopback: it stands for a host outside, and is reached without leaving."""
        self.count += 1
        fcntl.ioctl(self.ioctl, SIOCSIFADDR, _request("lo:%d" % self.count, _inet(address)))

    def _take(self, seen: Seen) -> None:
        while True:
            try:
                data = os.read(self.door, 65536)
            except BlockingIOError:
                return
            if data[0] >> 4 == 4:
                seen.packets.append(Packet(4, socket.inet_ntoa(data[12:16]), socket.inet_ntoa(data[16:20]), data[9],
                                           data))
            elif data[0] >> 4 == 6:
                ends = [socket.inet_ntop(socket.AF_INET6, data[a:a + 16]) for a in (8, 24)]
                seen.packets.append(Packet(6, ends[0], ends[1], data[6], data))

    @contextlib.contextmanager
    def watch(self) -> Iterator[Seen]:
        """Router and neighbour solicitations of the interface itself are left out."""
        ended = threading.Event()
        seen = Seen()
        self._take(Seen())

        def read() -> None:
            while not ended.is_set():
                if select.select([self.door], [], [], 0.05)[0]:
                    self._take(seen)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            yield seen
        finally:
            time.sleep(0.2)  # what is on its way
            ended.set()
            reader.join(5)
            self._take(seen)
            seen.packets = [p for p in seen.packets if not p.target.startswith("ff02::")]
