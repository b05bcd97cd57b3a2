"""Section D, as far as it is about isolation: taking more than one's share by asking the kernel for it.

Bombs, fills and hangs are tests/exhaust. Daemons that outlive their session are in rows_fork.py.
"""
from model import SYS_RESOURCE, Row, expect
from probe import *  # noqa: F403


def priority():
    attr_fifo = struct.pack("IIQiIQQQ", 48, 1, 0, 0, 50, 0, 0, 0)
    attr_deadline = struct.pack("IIQiIQQQ", 48, 6, 0, 0, 0, 10_000_000, 20_000_000, 20_000_000)
    attr_slice = struct.pack("IIQiIQQQ", 48, 0, 0, 0, 0, 100_000_000, 0, 0)
    return {
        "nice": word(forked(lambda: attempt(os.nice, -5))),
        "setpriority": word(forked(lambda: call(141, 0, 0, -20))),
        "setpriority_user": word(forked(lambda: call(141, 2, 0, -20))) if INSIDE else "ok",
        "fifo": word(forked(lambda: call(144, 0, 1, struct.pack("i", 50)))),
        "round_robin": word(forked(lambda: call(144, 0, 2, struct.pack("i", 50)))),
        "attr_fifo": word(forked(lambda: call(314, 0, attr_fifo, 0))),
        "attr_deadline": word(forked(lambda: call(314, 0, attr_deadline, 0))),
        "attr_slice": word(forked(lambda: call(314, 0, attr_slice, 0))),
        "ioprio_realtime": word(forked(lambda: call(251, 1, 0, 1 << 13))),
    }


def limits():
    import resource

    names = {n: getattr(resource, n) for n in dir(resource) if n.startswith("RLIMIT_")}
    shown = {name: list(resource.getrlimit(number)) for name, number in names.items()}

    def more(number):
        soft, hard = resource.getrlimit(number)
        resource.setrlimit(number, (soft, hard + 1 if hard >= 0 else hard))

    raised = {
        name: word(forked(lambda: attempt(more, number)))
        for name, number in names.items()
        if shown[name][1] >= 0
    }
    by_prlimit = word(forked(lambda: call(302, 0, 7, struct.pack("QQ", 1 << 20, 1 << 20), None)))
    return {"shown": shown, "raised": raised, "prlimit": by_prlimit}


# Without cgroups these are all that bounds a session, so they must be there whatever the level.
BOUNDED = (
    "RLIMIT_CORE",
    "RLIMIT_DATA",
    "RLIMIT_FSIZE",
    "RLIMIT_NOFILE",
    "RLIMIT_NPROC",
    "RLIMIT_MEMLOCK",
    "RLIMIT_MSGQUEUE",
    "RLIMIT_SIGPENDING",
)


def judge_limits(o, ctx):
    # The word is the exception's where Python raises ValueError for EPERM
    bad = [
        f"{name} could be raised: {got}"
        for name, got in o["raised"].items()
        if got not in ("EPERM", "ValueError")
    ]
    if o["prlimit"] != "EPERM":
        bad.append(f"prlimit64: {o['prlimit']}")
    bad += [f"{name} is unlimited" for name in BOUNDED if o["shown"].get(name, [0, 0])[1] < 0]
    for name in ("RLIMIT_RTPRIO", "RLIMIT_NICE"):
        if o["shown"].get(name, [0, 0])[1] != 0:
            bad.append(f"{name} is {o['shown'][name]}")
    return bad


def control_limits(o, ctx):
    if not ctx.has_cap(SYS_RESOURCE):
        ctx.note("D-limits: root has no CAP_SYS_RESOURCE here, so no limit can be raised outside either")
        return [] if o["raised"] else ["no limits were looked at"]
    bad = [
        f"{name}: {got} outside too"
        for name, got in o["raised"].items()
        if got != "ok" and name != "RLIMIT_NOFILE"
    ]
    return bad + ([] if o["prlimit"] == "ok" else [f"prlimit64: {o['prlimit']}"])


def locked():
    # More than a session may lock, less than harms a process outside.
    size = 64 << 20
    memory = mmap.mmap(-1, size)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    seen = {
        "mlock": word(forked(lambda: call(149, address, size))),
        "mlockall": word(forked(lambda: call(151, 2))),
        "hugetlb": word(forked(lambda: call(29, 0, 2 << 20, 0o4600))),  # SHM_HUGETLB
        "pipe_size": word(forked(lambda: attempt(lambda: fcntl.fcntl(os.pipe()[1], 1031, 16 << 20)))),
    }
    return seen


def control_locked(o, ctx):
    large = "ok"
    if not ctx.has_cap(SYS_RESOURCE):
        large = "ok EPERM"
        ctx.note("D-locked: root has no CAP_SYS_RESOURCE here, so a large pipe is refused outside too")
    return expect({"mlock": "ok", "mlockall": "ok", "hugetlb": "ok ENOMEM EINVAL", "pipe_size": large})(
        o, ctx
    )


ROWS = [
    Row(
        "D-priority",
        "nice, real-time scheduling, I/O priority",
        priority,
        {"*": "EPERM EACCES"},
        control={"*": "ok", "attr_deadline": "ok EBUSY EPERM"},
    ),
    Row("D-limits", "resource limits cannot be raised", limits, judge_limits, control=control_limits),
    Row(
        "D-locked",
        "locked and huge memory, large pipes",
        locked,
        {
            "mlock": "ENOMEM EPERM EAGAIN",
            "mlockall": "EPERM ENOMEM ok",
            "hugetlb": "EPERM ENOMEM ENOSYS EINVAL",
            "pipe_size": "EPERM",
        },
        control=control_locked,
    ),
]
