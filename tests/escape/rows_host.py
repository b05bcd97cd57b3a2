"""Section A, second half: ways out to the machine through sockets, signals, terminals, IPC, devices (A18 to A26).

The bait (bait.py) stands outside: a process that counts signals, listening sockets, IPC objects, a readable secret
file. The control finds every piece of it with the same code; a session must find none.
"""
from model import REACHED, Row, expect
from probe import *  # noqa: F403


def families():
    """name -> (family, type, protocol) of everything that must not be handed out by default."""
    return {
        "inet_stream": (2, 1, 0),
        "inet_dgram": (2, 2, 0),
        "inet_raw": (2, 3, 1),
        "inet_ping": (2, 2, 1),
        "inet6_stream": (10, 1, 0),
        "inet6_dgram": (10, 2, 0),
        "inet6_raw": (10, 3, 58),
        "inet_mptcp": (2, 1, 262),
        "inet_sctp": (2, 1, 132),
        "packet": (17, 3, 0x300),
        "packet_old": (2, 10, 0x300),
        "netlink_route": (16, 3, 0),
        "netlink_netfilter": (16, 3, 12),
        "netlink_audit": (16, 3, 9),
        "netlink_uevent": (16, 3, 15),
        "vsock": (40, 1, 0),
        "alg": (38, 5, 0),
        "xdp": (44, 3, 0),
        "can": (29, 3, 1),
        "tipc": (30, 5, 0),
        "kcm": (41, 2, 0),
        "rds": (21, 5, 0),
        "bluetooth": (31, 5, 0),
        "key": (15, 3, 2),
        "smc": (43, 1, 0),
        "appletalk": (5, 2, 0),
        "x25": (9, 5, 0),
        "nfc": (39, 5, 0),
        "qipcrtr": (42, 2, 0),
        "phonet": (35, 2, 0),
    }


def socket_word(number, *args):
    fd, error = sc(number, *args)
    if fd >= 0:
        os.close(fd)
    return error or "ok"


def a18():
    seen = {name: socket_word(41, *three) for name, three in families().items()}
    seen["inet_high"] = socket_word(41, (1 << 32) | 2, 1, 0)  # the kernel looks at the low half only
    pair = ctypes.create_string_buffer(8)
    seen["pair_netlink"] = call(53, 16, 3, 0, pair)
    seen["pair_tipc"] = call(53, 30, 1, 0, pair)
    seen["unix"] = socket_word(41, 1, 1, 0)
    seen["unix_pair"] = attempt(lambda: [s.close() for s in socket.socketpair()])
    return seen


REFUSED_SOCKET = "EPERM EACCES EAFNOSUPPORT"
A18_CELL = {"unix": "ok", "unix_pair": "ok", "pair_*": REFUSED_SOCKET + " ENOTSUP", "*": REFUSED_SOCKET}
A18_CONTAINED = dict(A18_CELL, unix="EPERM EACCES", unix_pair="ok EPERM")


def control_a18(o, ctx):
    seen = dict(o)
    if seen.pop("inet_ping") in ("EACCES", "EPERM"):
        ctx.note("A18: net.ipv4.ping_group_range refuses ping sockets on this machine too")
    for key in [k for k in seen if k.startswith("pair_")]:
        if seen.pop(key) in ("EPERM", "EACCES"):
            return [f"{key} is refused outside too"]
    return REACHED(seen, ctx)


def connect_word(family, address, kind=socket.SOCK_STREAM):
    def go():
        with socket.socket(family, kind) as s:
            s.settimeout(3)
            s.connect(address)

    return attempt(go)


def a18l():
    seen = {name: socket_word(41, *three) for name, three in families().items()}
    seen["bait_tcp"] = connect_word(socket.AF_INET, ("127.0.0.1", PARAMS["tcp_port"]))
    seen["bait_tcp6"] = connect_word(socket.AF_INET6, ("::ffff:127.0.0.1", PARAMS["tcp_port"]))
    seen["bait_abstract"] = connect_word(socket.AF_UNIX, "\0" + PARAMS["abstract"])
    # Connecting a datagram socket only looks for a route: no packet leaves, inside or outside.
    seen["route_out"] = connect_word(socket.AF_INET, ("192.0.2.1", 9), socket.SOCK_DGRAM)
    seen["route_metadata"] = connect_word(socket.AF_INET, ("169.254.169.254", 80), socket.SOCK_DGRAM)

    def own(family, host):
        with socket.socket(family) as server:
            server.bind((host, 0))
            server.listen(1)
            with socket.create_connection(server.getsockname()[:2], 3) as client:
                peer = server.accept()[0]
                client.sendall(b"x")
                assert peer.recv(1) == b"x"
                peer.close()

    seen["own_tcp"] = attempt(lambda: own(socket.AF_INET, "127.0.0.1"))
    return seen


LOOPBACK_OPEN = (
    "ok EPERM EAFNOSUPPORT"  # what of it the rule opens is the policy's business; where it leads is ours
)
A18_LOOPBACK = {
    "inet_stream": "ok",
    "inet_dgram": "ok",
    "inet6_stream": "ok EAFNOSUPPORT",
    "inet6_dgram": "ok EAFNOSUPPORT",
    "own_tcp": "ok",
    "bait_tcp": "ECONNREFUSED",
    "bait_tcp6": "ECONNREFUSED EAFNOSUPPORT ENETUNREACH EADDRNOTAVAIL",
    "bait_abstract": "ECONNREFUSED EPERM",
    "route_out": "ENETUNREACH",
    "route_metadata": "ENETUNREACH",
    "inet_ping": "EPERM EACCES EAFNOSUPPORT EPROTONOSUPPORT",
    "inet_mptcp": "EPERM EACCES EPROTONOSUPPORT",
    "inet_sctp": "EPERM EACCES EPROTONOSUPPORT ESOCKTNOSUPPORT",
    "*": REFUSED_SOCKET,
}


def control_a18l(o, ctx):
    routes = {k: o[k] for k in ("route_out", "route_metadata")}
    if set(routes.values()) == {"ENETUNREACH"}:
        ctx.note("this machine has no route out, so that a session has none cannot be shown by this control")
    return expect(
        {
            "bait_tcp": "ok",
            "bait_tcp6": "ok EAFNOSUPPORT ENETUNREACH",
            "bait_abstract": "ok",
            "own_tcp": "ok",
            "inet_*": None,
            "inet6_*": None,
            "route_*": "ok ENETUNREACH",
            "*": None,
        }
    )(o, ctx)


def a19():
    seen = {
        "abstract": connect_word(socket.AF_UNIX, "\0" + PARAMS["abstract"]),
        "path": connect_word(socket.AF_UNIX, PARAMS["socket_path"]),
        "docker": connect_word(socket.AF_UNIX, "/var/run/docker.sock") if INSIDE else "ok",
        "journal": connect_word(socket.AF_UNIX, "/run/systemd/journal/dev-log", socket.SOCK_DGRAM)
        if INSIDE
        else "ok",
    }
    names = []
    for path in ("/proc/net/unix", "/proc/self/net/unix"):
        for line in read_text(path, 200000).get("text", "").splitlines()[1:]:
            parts = line.split(None, 7)
            if len(parts) == 8 and parts[7] not in names:
                names.append(parts[7])
    seen["names"] = names[:50] if INSIDE else [n for n in names if PARAMS["abstract"] in n]
    found = []
    for top in (
        ("/run", "/var", "/tmp", "/dev", "/etc", "/home", "/root", "/srv", "/opt", "/workspace", "/mnt")
        if INSIDE
        else (os.path.dirname(PARAMS["socket_path"]),)
    ):
        for folder, _, files in os.walk(top):
            for name in files:
                path = os.path.join(folder, name)
                try:
                    if stat.S_ISSOCK(os.lstat(path).st_mode):
                        found.append([path, connect_word(socket.AF_UNIX, path)])
                except OSError:
                    pass
    seen["found"] = found[:50]
    return seen


def judge_a19(o, ctx):
    bad = []
    wanted = {
        "abstract": ("EPERM", "EACCES") if ctx.contained else ("ECONNREFUSED", "EPERM"),
        "path": ("EPERM", "EACCES") if ctx.contained else ("ENOENT", "EACCES"),
    }
    for key in ("abstract", "path"):
        if o[key] not in wanted[key]:
            bad.append(f"{key}: {o[key]}, not {wanted[key]}")
    for key in ("docker", "journal"):
        if o[key] not in ("ENOENT", "EPERM", "EACCES"):
            bad.append(f"{key}: {o[key]}")
    # Without a network namespace /proc/self/net is the container's: names are seen there, and socket() is refused.
    if o["names"] and not ctx.contained:
        bad.append(f"names of sockets outside: {o['names']}")
    if any(got == "ok" for _, got in o["found"]) or (o["found"] and not ctx.contained):
        bad.append(f"sockets in the tree: {o['found']}")
    return bad


def control_a19(o, ctx):
    bad = [f"{k}: {o[k]}" for k in ("abstract", "path") if o[k] != "ok"]
    if not o["names"] or not any(got == "ok" for _, got in o["found"]):
        bad.append(f"the bait is not to be found: {o['names']}, {o['found']}")
    return bad


def a20():
    victim, quiet = PARAMS["victim"], signal.SIGWINCH  # ignored by a process that does not count it
    info = struct.pack("iii", quiet, 0, -1) + bytes(116)
    seen = {
        "kill": call(62, victim, quiet),
        "tkill": call(200, victim, quiet),
        "tgkill": call(234, victim, victim, quiet),
        "rt_sigqueueinfo": call(129, victim, quiet, info),
        "rt_tgsigqueueinfo": call(297, victim, victim, quiet, info),
    }
    handle, error = sc(434, victim, 0)
    seen["pidfd_send_signal"] = error or call(424, handle, quiet, None, 0)
    if handle >= 0:
        os.close(handle)
    read_end, write_end = os.pipe()
    try:
        fcntl.fcntl(read_end, 10, quiet)  # F_SETSIG
        fcntl.fcntl(read_end, fcntl.F_SETOWN, victim)
        fcntl.fcntl(read_end, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        os.write(write_end, b"x")
        seen["sigio"] = "ok"
    except OSError as e:
        seen["sigio"] = err_name(e.errno)
    event = struct.pack("Qiii", 0, quiet, 4, victim) + bytes(44)  # SIGEV_THREAD_ID
    seen["timer"] = call(222, 1, event, ctypes.create_string_buffer(8))
    if INSIDE:
        signal.signal(quiet, signal.SIG_IGN)
        seen["everyone"] = call(62, -1, quiet)
        seen["init_kill"] = call(62, 1, signal.SIGKILL)
        alive, there = [], []
        for pid in range(1, 40000):
            if L.kill(pid, 0) == 0:
                alive.append(pid)
            elif ctypes.get_errno() != errno.ESRCH:
                there.append(pid)
        seen["alive"] = sorted(set(alive) - {os.getpid(), os.getppid()})[:50]
        seen["there"] = [len(there), there[:5]]
    return seen


def judge_a20(o, ctx):
    refused = "EPERM ESRCH EACCES ENOSYS"
    bad = expect(
        {
            "kill": refused,
            "tkill": refused,
            "tgkill": refused,
            "rt_*": refused,
            "pidfd_send_signal": refused,
            "timer": "EINVAL EPERM ENOSYS",
            "init_kill": "EPERM ok" if ctx.init_is_kin else "EPERM",
            # Landlock judges the owner of a descriptor when the signal is sent, not when it is set
            "sigio": "ok EPERM ESRCH" if ctx.contained else "ESRCH EPERM",
            "everyone": "ok EPERM ESRCH",
            "alive": None,
            "there": None,
        }
    )(o, ctx)
    if o["alive"] and not (ctx.init_is_kin and o["alive"] == [1]):
        bad.append(f"may signal {o['alive']}")
    if not ctx.contained and o["there"][1] not in ([], [1]):
        bad.append(f"sees processes {o['there']}")
    hits = ctx.bait.victim_hits()
    if hits:
        bad.append(f"the process outside got {hits} signals")
    return bad


def control_a20(o, ctx):
    bad = expect({"timer": "EINVAL", "*": "ok"})(o, ctx)
    hits = ctx.bait.victim_hits(wait=True)
    if hits < 1:  # signals of one number merge while pending: on a busy machine all of them into one
        bad.append("the victim counted no signal")
    return bad


def a20c():
    pid = PARAMS["victim"]
    mask = ctypes.create_string_buffer(struct.pack("Q", 1))
    limit = ctypes.create_string_buffer(16)
    seen = {
        "prlimit_get": call(302, pid, 7, None, limit),
        "setpriority": call(141, 0, pid, 19),
        "sched_setaffinity": call(203, pid, 8, mask),
        "sched_setscheduler": call(144, pid, 0, bytes(4)),
        "sched_setparam": call(142, pid, bytes(4)),
        "sched_setattr": call(314, pid, struct.pack("IIQiIQQQ", 48, 0, 0, 19, 0, 0, 0, 0), 0),
        "ioprio_set": call(251, 1, pid, (3 << 13) | 7),
        "get_robust_list": call(274, pid, ctypes.create_string_buffer(8), ctypes.create_string_buffer(8)),
    }
    seen["prlimit_set"] = call(302, pid, 7, limit if not INSIDE else struct.pack("QQ", 5, 5), None)
    return seen


def a21():
    def tries(fd):
        buffer = ctypes.create_string_buffer(b"x")
        return {
            "tiocsti": call(16, fd, 0x5412, buffer),
            "tiocsti_high": call(16, fd, (1 << 32) | 0x5412, buffer),
            "tioclinux": call(16, fd, 0x541C, ctypes.create_string_buffer(b"\x03")),
            "tiocsctty": call(16, fd, 0x540E, 1),
            "tioccons": call(16, fd, 0x541D, 0) if INSIDE else "ok",
        }

    def with_terminal():
        os.setsid()
        fd = os.openpty()[1]
        fcntl.ioctl(fd, 0x540E, 0)
        seen = {k + ".0": v for k, v in tries(fd).items()}
        seen["dev_tty"] = try_open("/dev/tty", os.O_RDWR)
        return seen

    if INSIDE:
        seen = {"%s.%d" % (k, fd): v for fd in (0, 1, 2) for k, v in tries(fd).items()}
        seen["dev_tty"] = try_open("/dev/tty", os.O_RDWR)
        seen["dev_console"] = try_open("/dev/console", os.O_RDWR)
        seen["ptmx"] = try_open("/dev/ptmx", os.O_RDWR)
        if seen["ptmx"] == "ok":  # a terminal of the cell's own can be owned, and still not be typed into
            own = forked(with_terminal).get("value") or {"none": "failed"}
            seen.update({"own_" + k: v for k, v in own.items()})
        return seen

    return forked(with_terminal).get("value") or {}


def a22():
    key = PARAMS["ipc_key"]
    shm = (
        [n for n in (os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else [])]
        if attempt(os.listdir, "/dev/shm") == "ok"
        else []
    )
    seen = {
        "shmget": call(29, key, 0, 0),
        "semget": call(64, key, 0, 0),
        "msgget": call(68, key, 0),
        "mq_open": call(240, PARAMS["mq_name"].encode(), os.O_RDONLY | os.O_NONBLOCK, 0, None),
        "shm_open": try_open("/dev/shm/" + PARAMS["shm_name"]),
        "mqueue_fs": attempt(os.listdir, "/dev/mqueue") if INSIDE else "ok",
        "sysvipc": attempt(os.listdir, "/proc/sysvipc") if INSIDE else "ok",
    }
    seen["shm_names"] = shm if INSIDE else [n for n in shm if n == PARAMS["shm_name"]]
    return seen


def judge_a22(o, ctx):
    got = dict(o)
    names = got.pop("shm_names")
    bad = expect(
        {
            "shm_open": "ENOENT EACCES",
            "mqueue_fs": "ENOENT EACCES",
            "sysvipc": "ENOENT EACCES",
            "*": "EPERM ENOSYS" if ctx.contained else "ENOENT EPERM ENOSYS",
        }
    )(got, ctx)
    if names:
        bad.append(f"in /dev/shm: {names}")
    return bad


def a23():
    fd, error = sc(294, os.O_CLOEXEC | os.O_NONBLOCK)
    own = scratch()
    seen = {
        "init": error or "ok",
        "own": call(254, fd, own.encode(), 0xFFF),
        "secret": call(254, fd, PARAMS["secret_file"].encode(), 0xFFF),
        "shadow": call(254, fd, b"/etc/shadow", 0xFFF),
        "host_tmp": call(254, fd, os.path.dirname(PARAMS["secret_file"]).encode(), 0xFFF),
        "fanotify_init": call(300, 0x8000, 0) if INSIDE else call(300, 0xFFFFFFFF, 0),
        "fanotify_unprivileged": call(300, 0x200, 0) if INSIDE else call(300, 0xFFFFFFFF, 0),
        "read_secret": try_open(PARAMS["secret_file"]),
    }
    if fd >= 0:
        os.close(fd)

    def lease(path):
        with open(path) as f:
            fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_UNLCK)

    seen["lease"] = attempt(lease, "/usr/lib/os-release" if INSIDE else PARAMS["secret_file"])
    shutil.rmtree(own)
    return seen


A23_CELL = {
    "init": "ok EPERM",
    "own": "ok EPERM EBADF",
    "secret": "ENOENT EPERM EBADF EACCES",
    "shadow": "ENOENT EPERM EBADF EACCES",
    "host_tmp": "ENOENT EPERM EBADF EACCES",
    "fanotify_*": "EPERM",
    "read_secret": "ENOENT",
    "lease": "EACCES EPERM EINVAL ENOENT",
}
# Landlock does not see inotify and cannot hide names, so there the calls themselves are refused.
A23_CONTAINED = dict(
    A23_CELL,
    init="EPERM ok",
    secret="EPERM EACCES EBADF",
    host_tmp="EPERM EACCES EBADF",
    shadow="EPERM EACCES EBADF",
    read_secret="EACCES",
)


def a24():
    names = (
        "mem",
        "kmem",
        "port",
        "kmsg",
        "kvm",
        "fuse",
        "net/tun",
        "loop0",
        "loop-control",
        "uinput",
        "input/event0",
        "nvidia0",
        "nvidiactl",
        "dri/card0",
        "dri/renderD128",
        "vda",
        "sda",
        "nvme0n1",
        "mapper/control",
        "vhost-net",
        "vhost-vsock",
        "vsock",
        "userfaultfd",
        "ppp",
        "rtc0",
        "hwrng",
        "cpu/0/msr",
        "snapshot",
        "btrfs-control",
        "autofs",
        "cuse",
        "vfio/vfio",
        "sgx_enclave",
        "tpm0",
        "hpet",
        "pts/0",
        "tty0",
        "ttyS0",
    )
    # Opening a terminal or a disk for reading changes nothing; outside only what is harmless is opened at all.
    harmless = (
        "kmsg",
        "kvm",
        "fuse",
        "net/tun",
        "loop-control",
        "vsock",
        "userfaultfd",
        "hwrng",
        "btrfs-control",
        "vda",
        "sda",
    )
    seen = {"open." + n: try_open("/dev/" + n) for n in names if INSIDE or n in harmless}
    folder = scratch()
    for name, mode, number in (
        ("mem", stat.S_IFCHR, os.makedev(1, 1)),
        ("disk", stat.S_IFBLK, os.makedev(8, 0)),
        ("null", stat.S_IFCHR, os.makedev(1, 3)),
        ("whiteout", stat.S_IFCHR, 0),
    ):
        path = os.path.join(folder, name)
        seen["mknod." + name] = attempt(lambda: os.mknod(path, mode | 0o600, number))
        if INSIDE and os.path.exists(path):
            seen["mknod_open." + name] = try_open(path)
    shutil.rmtree(folder)
    if INSIDE:
        seen["listing"] = sorted(os.listdir("/dev")) if attempt(os.listdir, "/dev") == "ok" else []
    return seen


DEV_ALLOWED = {"null", "zero", "full", "random", "urandom", "fd", "stdin", "stdout", "stderr", "shm", "tty", "ptmx",
               "pts"}


def judge_a24(o, ctx):
    listing = o.get("listing", [])
    calls = {k: v for k, v in o.items() if k != "listing"}
    # An overlay's whiteout is the one device an ordinary user may make; it cannot be opened.
    bad = expect(
        {
            "open.*": "ENOENT EACCES",
            "mknod.whiteout": "EPERM ok",
            "mknod_open.whiteout": "ENXIO ENODEV EACCES EPERM",
            "mknod.*": "EPERM",
        }
        if "mknod_open.whiteout" in o
        else {"open.*": "ENOENT EACCES", "mknod.*": "EPERM"}
    )(calls, ctx)
    if not ctx.contained and not set(listing) <= DEV_ALLOWED:
        bad.append(f"/dev has {sorted(set(listing) - DEV_ALLOWED)}")
    return bad


def control_a24(o, ctx):
    bad = expect({"open.*": "ok ENOENT ENODEV ENXIO EBUSY ENOMEDIUM EPERM", "mknod.*": "ok"})(o, ctx)
    if not any(k.startswith("open.") and v == "ok" for k, v in o.items()):
        bad.append("no device could be opened outside either")
    return bad


def a25():
    text = read_text("/proc/self/status", 8000).get("text", "")
    lines = [x for x in text.splitlines() if x.startswith("Specul")]
    return {
        # xor ecx,ecx; rdpmc; ret
        "rdpmc": word(forked(lambda: machine(b"\x31\xc9\x0f\x33\xc3")(0, 0, 0, 0, 0, 0, 0) and "ok")),
        "perf_event_open": call(298, None, 0, -1, -1, 0),
        "spec_enable": word(forked(lambda: call(157, 53, 0, 2, 0, 0))),
        "core_sched": call(157, 62, 1, PARAMS["victim"], 0, 0) if INSIDE else call(157, 62, 99, 0, 0, 0),
        "cpu_dma_latency": try_open("/dev/cpu_dma_latency", os.O_WRONLY) if INSIDE else "ok",
        "speculation": lines,
    }


def judge_a25(o, ctx):
    ctx.note("A25: " + "; ".join(" ".join(x.split()) for x in o["speculation"]))
    return expect(
        {
            "rdpmc": "SIGSEGV",
            "perf_event_open": "EPERM",
            "spec_enable": "EPERM",
            "core_sched": "EPERM",
            "cpu_dma_latency": "ENOENT EACCES",
            "speculation": None,
        }
    )(o, ctx)


def a26():
    """Dirty Pipe: bytes written to a pipe must not reach the page cache of a file spliced into it."""
    if INSIDE:
        path = "/usr/lib/os-release"
    else:
        path = PARAMS["secret_file"]
    with open(path, "rb") as f:
        before = f.read()
    read_end, write_end = os.pipe()
    size = fcntl.fcntl(
        write_end, 1032
    )  # F_GETPIPE_SZ: fill and drain every slot, so that each could be merged into
    os.write(write_end, b"\0" * size)
    os.read(read_end, size)
    fd = os.open(path, os.O_RDONLY)
    moved = sc(275, fd, struct.pack("q", 0), write_end, None, 1, 0)[0]
    os.write(write_end, b"OVERWRITTEN")
    os.close(fd)
    with open(path, "rb") as f:
        after = f.read()
    return {
        "spliced": str(moved),
        "file": "unchanged" if before == after else "changed",
        "pipe": os.read(read_end, 100).decode("latin-1")[1:],
    }


ROWS = [
    Row(
        "A18",
        "socket families, network none",
        a18,
        A18_CELL,
        contained=A18_CONTAINED,
        control=control_a18,
        helpers=(families, socket_word),
    ),
    Row(
        "A18-loopback",
        "socket families, network loopback: one's own machine only",
        a18l,
        A18_LOOPBACK,
        network="loopback",
        contained="there is no network namespace to give, so loopback is refused (run.py asserts that)",
        control=control_a18l,
        helpers=(families, socket_word, connect_word),
    ),
    Row(
        "A19",
        "abstract and path sockets of the machine",
        a19,
        judge_a19,
        control=control_a19,
        inline=True,
        helpers=(connect_word,),
    ),
    Row(
        "A20",
        "signals to anyone outside",
        a20,
        judge_a20,
        control=control_a20,
        control_says="a timer for another's thread is refused by every kernel; kill(-1) is not tried outside",
    ),
    Row(
        "A20-control",
        "limits, priority, affinity of anyone outside",
        a20c,
        {"*": "ESRCH EPERM"},
        contained={"*": "EPERM ESRCH"},
        control={"*": "ok"},
    ),
    Row(
        "A21",
        "input pushed into a terminal",
        a21,
        {
            "dev_*": "ENOENT EACCES ENXIO",
            "ptmx": "ok",
            "own_tiocsctty.0": "ok",
            "own_dev_tty": "ok",
            "*": "EPERM ENOTTY EBADF",
        },
        contained={"dev_*": "ENOENT EACCES ENXIO", "ptmx": "ENOENT EACCES", "*": "EPERM ENOTTY EBADF"},
        control={
            "tiocsti.0": "ok EIO",
            "tiocsti_high.0": "ok EIO",
            "tioclinux.0": "ENOTTY EINVAL EFAULT EPERM ok",
            "tioccons.0": "ok",
            "tiocsctty.0": "ok",
            "dev_tty": "ok",
        },
        control_says="TIOCLINUX needs a virtual console, which a test has not",
    ),
    Row(
        "A22",
        "SysV IPC, message queues, /dev/shm of the machine",
        a22,
        judge_a22,
        control={"shm_names": None, "mq_open": "ok ENOSYS", "*": "ok"},
    ),
    Row(
        "A23",
        "inotify, fanotify, leases as an oracle",
        a23,
        A23_CELL,
        contained=A23_CONTAINED,
        control={"fanotify_*": "EINVAL ENOSYS", "*": "ok"},
    ),
    Row("A24", "devices", a24, judge_a24, control=control_a24),
    Row(
        "A25",
        "counters and speculation",
        a25,
        judge_a25,
        inline=True,
        control={
            "rdpmc": "SIGSEGV ok",
            "perf_event_open": "EFAULT",
            "spec_enable": "ok ENXIO ENODEV EPERM EINVAL",
            "core_sched": "EINVAL ENODEV",
            "cpu_dma_latency": "ok",
            "speculation": None,
        },
        control_says="rdpmc faults outside too unless an event is mapped, which perf_event_open would be needed for",
    ),
    Row(
        "A26",
        "a pipe's bytes into a read-only file (Dirty Pipe)",
        a26,
        {"spliced": "1", "file": "unchanged", "pipe": "OVERWRITTEN"},
        no_control="only kernels 5.8 to 5.16.10 would show it; the probe checks that its splice and write did happen",
    ),
]
