"""Section A, last part: what cells have in common with the host and each other beneath their namespaces: the page cache
(A27), processes behind sockets (A28), processors (A29), signed segments (A30), options of the architecture (A31), and
connections without connect() (A32).

Each refusal stands beside a use of the same call that has to work in a session.
"""
from model import REACHED, Row, expect
from probe import *  # noqa: F403  (the probes' text runs behind probe.py)


def a27():
    path = "/usr/lib/os-release"
    fd = os.open(path, os.O_RDONLY)
    buffer = ctypes.create_string_buffer(64)
    iov = struct.pack("QQ", ctypes.addressof(buffer), 64)
    seen = {
        "preadv2": call(327, fd, iov, 1, 0, 0, 0),
        "preadv2_nowait": call(327, fd, iov, 1, 0, 0, 8),
        "preadv2_nowait_more": call(327, fd, iov, 1, 0, 0, 8 | 1),
        "fadvise_sequential": call(221, fd, 0, 0, 2),
        "fadvise_willneed": call(221, fd, 0, 0, 3),
        "fadvise_dontneed": call(221, fd, 0, 0, 4),
        "cachestat": call(451, fd, struct.pack("QQ", 0, 0), ctypes.create_string_buffer(64), 0),
    }
    os.close(fd)
    return seen


def control_a27(o, ctx):
    if o["preadv2_nowait"] == "ENOTSUP":
        ctx.note("A27: this filesystem has no RWF_NOWAIT, so its refusal cannot be told from its absence")
    return expect({"preadv2_nowait*": "ok EAGAIN ENOTSUP", "cachestat": "ok ENOSYS", "*": "ok"})(o, ctx)


def a28():
    a, b = socket.socketpair()
    four = ctypes.create_string_buffer(4)
    twelve = ctypes.create_string_buffer(12)

    def asked(fd, option, room, size):
        return call(55, fd, socket.SOL_SOCKET, option, room, struct.pack("i", size))

    seen = {
        "peercred": asked(a.fileno(), 17, twelve, 12),
        "pair.peerpidfd": asked(a.fileno(), 77, four, 4),
        "pair.passpidfd": call(54, b.fileno(), socket.SOL_SOCKET, 76, struct.pack("i", 1), 4),
        "pair.passrights": call(54, b.fileno(), socket.SOL_SOCKET, 83, struct.pack("i", 1), 4),
    }
    if INSIDE:
        seen["channel.peerpidfd"] = asked(3, 77, four, 4)
        seen["channel.passpidfd"] = call(54, 3, socket.SOL_SOCKET, 76, struct.pack("i", 1), 4)
        seen["channel.passrights"] = call(54, 3, socket.SOL_SOCKET, 83, struct.pack("i", 1), 4)
    return seen


def control_a28(o, ctx):
    if o["pair.peerpidfd"] == "ENOPROTOOPT":
        ctx.note("A28: this kernel has no SO_PEERPIDFD, so its refusal cannot be told from its absence")
    return expect({"peercred": "ok", "*": "ok ENOPROTOOPT"})(o, ctx)


def a29():
    return {
        "query": call(324, 0, 0, 0),
        "register_own": call(324, 16, 0, 0),
        "own": call(324, 8, 0, 0),
        "global": call(324, 1, 0, 0),
        "global_register": call(324, 4, 0, 0),
        "global_expedited": call(324, 2, 0, 0),
        "global_high": call(324, 1 | 1 << 40, 0, 0),
    }


def a30():
    tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    one = struct.pack("i", 1)
    names = {"md5": 14, "md5_ext": 32, "ao_add": 38, "ao_del": 39, "ao_info": 40, "ao_repair": 42}
    seen = {name: call(54, tcp.fileno(), 6, option, one, 4) for name, option in names.items()}
    seen["nodelay"] = call(54, tcp.fileno(), 6, 1, one, 4)
    tcp.close()
    return seen


def a31():
    room = ctypes.create_string_buffer(8)
    return {
        "get_fs": call(158, 0x1003, room),
        "map_vdso": word(forked(lambda: call(158, 0x2003, 1))),
        "set_cpuid": word(forked(lambda: call(158, 0x1012, 1))),
        "tagged": word(forked(lambda: call(158, 0x4002, 99))),
        "unknown": call(158, 0x7777, 0),
    }


def a32():
    target = socket.socket()
    target.bind(("127.0.0.1", 0))
    target.listen(8)
    target.settimeout(10)
    where = target.getsockname()
    name = struct.pack("=H", socket.AF_INET) + struct.pack("!H", where[1]) + socket.inet_aton(where[0]) + bytes(8)
    room, byte = ctypes.create_string_buffer(name, 16), ctypes.create_string_buffer(b"x", 1)
    part = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(byte), 1), 16)
    head = struct.pack("QQQQQQQ", ctypes.addressof(room), 16, ctypes.addressof(part), 1, 0, 0, 0)

    def spent():
        """A listener that was shut down: a TCP socket that could be connected."""
        s = socket.socket()
        s.bind(("127.0.0.1", 0))
        s.listen(1)
        s.shutdown(socket.SHUT_RD)
        return s

    seen = {}
    for way in ("connect", "sendto", "sendmsg", "sendmmsg"):
        with spent() as s:
            if way == "connect":
                seen[way] = attempt(s.connect, where)
            elif way == "sendto":
                seen[way] = call(44, s.fileno(), byte, 1, 0x20000000, room, 16)
            elif way == "sendmsg":
                seen[way] = call(46, s.fileno(), head, 0x20000000)
            else:
                seen[way] = call(307, s.fileno(), head + bytes(8), 1, 0x20000000)
            if seen[way] == "ok":
                seen[way] = attempt(lambda: target.accept()[0].close())
    target.close()
    return seen


def control_a32(o, ctx):
    if o["sendto"] == "ENOTSUP":
        ctx.note("A32: this machine has net.ipv4.tcp_fastopen off, so the refusal cannot be told from its absence")
    return expect({"connect": "ok", "*": "ok ENOTSUP"})(o, ctx)


ROWS = [
    Row(
        "A27",
        "whether pages of shared files are in memory, and throwing them out",
        a27,
        {
            "preadv2": "ok",
            "preadv2_nowait*": "ENOTSUP",
            "fadvise_sequential": "ok",
            "fadvise_willneed": "ok",
            "fadvise_dontneed": "EPERM",
            "cachestat": "ENOSYS",
        },
        control=control_a27,
        raw=True,
    ),
    Row(
        "A28",
        "handles on the process at the other end of a socket, and descriptors from it",
        a28,
        {"peercred": "ok", "*": "ENOPROTOOPT"},
        control=control_a28,
        raw=True,
    ),
    Row(
        "A29",
        "barriers on every processor",
        a29,
        {"query": "ok", "register_own": "ok", "own": "ok", "global*": "EPERM"},
        control={"*": "ok", "global_expedited": "ok", "global_high": "ok"},
        raw=True,
    ),
    Row(
        "A30",
        "signed segments over loopback",
        a30,
        {"nodelay": "ok", "*": "EPERM"},
        control=REACHED,
        network="loopback",
    ),
    Row(
        "A31",
        "options of the architecture",
        a31,
        {"get_fs": "ok", "unknown": "EINVAL", "*": "EPERM"},
        control=REACHED,
    ),
    Row(
        "A32",
        "TCP connections that a send opens",
        a32,
        {"connect": "ok", "*": "ENOTSUP"},
        control=control_a32,
        network="loopback",
    ),
]
