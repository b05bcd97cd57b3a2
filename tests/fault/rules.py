"""The tables of the suite: which calls are failed, which of them at every place, and which failures
a cell may survive.

Invariant: a cell in which user code ran after a failed call has a row here for that failure, and
the row says why it is right. Whatever is not listed must be refused.
"""
from __future__ import annotations

import re
from dataclasses import dataclass

from strace import Call

ERRORS = ("EPERM", "ENOSYS", "ENOMEM")
# What is not there in a cell without gauges.
GAUGES = ("gauges",) + tuple(
    "mount /proc/" + name
    for name in "stat meminfo uptime loadavg vmstat version filesystems diskstats cpuinfo sys".split()
)

NO_GAUGES = ("/proc", "ns time", *GAUGES)

# Failed at every place, with every error: what makes the cell, and what its parts say to each
# other.
SECURITY = frozenset(
    """
    setns clone clone3 fork vfork unshare mount move_mount open_tree mount_setattr pivot_root
    umount2 setresuid setresgid setgroups capset capget prctl seccomp landlock_create_ruleset
    landlock_add_rule landlock_restrict_self setrlimit prlimit64 setsid close_range dup2 dup3
    fcntl openat write mkdirat sethostname pidfd_open pidfd_send_signal sendmsg recvmsg
    socketpair socket ioctl pipe2 epoll_ctl chdir execve mkdir symlink signalfd4 epoll_create1
    rt_sigprocmask fsopen fsconfig fsmount mknod mknodat symlinkat renameat fchmodat chroot fchdir
    faccessat
    """.split()
)

# Never failed: call -> why.
CANNOT_FAIL = {
    "exit_group": "does not return",
    "exit": "does not return",
    "rt_sigreturn": "not a request",
    "getpid": "has no error",
    "gettid": "has no error",
    "getppid": "has no error",
    "getuid": "has no error",
    "geteuid": "has no error",
    "getgid": "has no error",
    "getegid": "has no error",
    "umask": "has no error",
}

# How often these are called depends on who is faster; that the nth was not reached is no failure of
# the suite.
FUZZY = frozenset(
    "recvmsg ppoll poll epoll_wait wait4 waitid futex brk mmap munmap madvise mprotect read "
    "rt_sigprocmask".split()
)
# Nor is it for what the warden does by the clock: the files of its cells' gauges, and the counters that they show.
TIMED = r"(cpuacct|memory|cpu|pids)\.(usage|stat|usage_in_bytes|current)\b|\d+/krait/(stat|meminfo|uptime|loadavg)\b"


@dataclass(frozen=True)
class Row:
    role: str  # a regular expression, like the next two
    syscall: str
    args: str
    errors: tuple[str, ...]
    why: str
    differs: tuple[str, ...] = ()  # names of the proof that may then be different
    layer: str = ""  # which must then be reported as missing
    stays: str = ""  # what may stay: after the cell until krait ends, or until the next start
    replaced: bool = False  # only where the family ended and the cell is one of the next
    cuts: bool = False  # a run that had begun may be lost before it has told its proof

    def fits(self, role: str, call: Call, replaced: bool) -> bool:
        return (
            re.fullmatch(self.role, role) is not None
            and re.fullmatch(self.syscall, call.name) is not None
            and call.error in self.errors
            and re.search(self.args, call.args) is not None
            and self.replaced == replaced
        )


ALL = ERRORS
ANOTHER = "the family is replaced, and the cell is another's"
TOLERATED: tuple[Row, ...] = (
    # Whose failure ends builder or zygote, or makes the warden give them up: no cell has come of
    # it, the engine asks the next family.
    Row("warden", "sendmsg|ppoll|recvmsg", "", ALL, ANOTHER, replaced=True),
    Row("builder|zygote", "recvmsg|sendmsg|poll", "", ALL, ANOTHER, replaced=True),
    Row(
        "builder",
        "prctl",
        "PR_SET_DUMPABLE, SUID_DUMP_DISABLE",
        ALL,
        "readable for good: the builder ends with its cells",
        replaced=True,
    ),
    Row(
        "zygote",
        "setns",
        "CLONE_NEWPID",
        ALL,
        "no way back into its own pid namespace: the zygote ends",
        replaced=True,
    ),
    # strace holds the one that fails while the others go on: the cell may be in use before it goes.
    Row("builder", "poll", "", ALL, "its end takes the cell along, whole as it is", cuts=True),
    Row("zygote", "poll", "", ALL, "the session outlives it", cuts=True),
    # The warden gives up a zygote that it cannot hear, and reads what it has said already. A session that it has named
    # is a cell's like any other and outlives it, if the zygote was still its parent when the warden looked; else the
    # session is one of the next family (ANOTHER). Of the warden's other sockets none leads to user code without a
    # replaced family: the engine's ends the warden, the builder's the family, an init's the cell.
    Row("warden", "recvmsg", "MSG_DONTWAIT", ALL, "the session outlives the zygote that is given up"),
    # close() releases the descriptor whatever it returns (close(2)); that the injected one stays
    # open is the fault's doing alone.
    Row(
        "warden|builder|zygote|init|session|helper",
        "close",
        "",
        ALL,
        "a failed close has closed",
        differs=("descriptors",),
    ),
    # A cell whose gauges cannot be made is refused. From the hand-over on they are kept as true as it can be done.
    Row(
        "warden",
        "openat|pread64|pwrite64|ftruncate|fcntl",
        TIMED + r'|"(cpu  |MemTotal:|\d+\.\d\d )',
        ALL,
        "what cannot be read is shown as 0; what cannot be written stays as it was when the cell was built",
    ),
    # By design.
    Row(
        "init",
        "mount",
        '"/proc", "proc"',
        ("EPERM",),
        "where no /proc can be mounted an empty one stands, and is reported",
        differs=("/proc", "mount /proc", "limit Max data size", "proc", *GAUGES),
        layer="proc",
    ),
    Row(
        "warden",
        "fsopen|fsconfig|fsmount",
        "",
        ("EPERM",),
        "no filesystem of the cells' own can be made: the host's devices are mounted, or there are no gauges",
        differs=("mount /dev", "mount /dev/null", "mount /dev/zero", "mount /dev/full", "mount /dev/random",
                 "mount /dev/urandom", "mount /dev/tty", "/dev", "private_devices", "/proc", *GAUGES),
    ),
    Row(
        "builder",
        "mount",
        r'"cell(/[a-z]+)?", ("proc"|NULL, MS_BIND)|NULL, "cell", NULL, \S*MS_REMOUNT|"lowerdir=mask-root:root:gauges"',
        ("EPERM",),
        "a kernel that narrows no /proc that is mounted, or stacks no such layer: no gauges, and it is reported",
        differs=NO_GAUGES,
    ),
    Row(
        "builder",
        "openat|read",
        "/proc/(cpuinfo|sys/(kernel|vm|fs)/)",
        ALL,
        "what the host does not tell is not in the cells' files that do not change",
    ),
    Row(
        "zygote",
        "openat",
        r"/__pycache__/|/lib-dynload/|/lib\w+\.so|/ld\.so\.cache|/openssl\.cnf",
        ALL,
        "Python reads the source, and the loader looks elsewhere; an import of the preload that fails is the session's",
    ),
    Row(
        "builder",
        "unshare",
        "CLONE_NEWTIME",
        ("EPERM",),
        "a kernel without time namespaces: processes have the machine's start times",
        differs=("ns time",),
    ),
    Row(
        "warden",
        "mkdirat|mknodat|fchmod|fchmodat|symlinkat|renameat|openat",
        '"family"|"new"|'
        '"(null|zero|full|random|urandom|tty|fd|stdin|stdout|stderr|ptmx|shm|pts)"|0755',
        ("EPERM",),
        "not the host's root, or a container that forbids device nodes: the host's are mounted",
        differs=("mount /dev", "mount /dev/null", "mount /dev/zero", "mount /dev/full", "mount /dev/random",
                 "mount /dev/urandom", "mount /dev/tty", "/dev", "private_devices"),
        layer="private_devices",
    ),
    Row(
        "init",
        "mount",
        '"/dev/pts", "devpts"',
        ("EPERM",),
        "a kernel that mounts no devpts in a user namespace: the cell has no terminals, and it is reported",
        differs=("mount /dev/pts", "/dev/pts", "terminals"),
        layer="terminals",
    ),
    Row(
        "builder",
        "mount",
        '"overlay", "cell"',
        ("EPERM",),
        "a kernel that mounts no overlays in a user namespace: the host's trees are mounted, hidden places covered",
        differs=("mount /", "mount /usr", "mount /dev", "mount /usr/local/etc", "mount /usr/local/sbin",
                 "mount /usr/local/src", "mount /usr/src", "mount /usr/lib/modules", "mount /.view", "mount /.view/dev",
                 "mount /.view/root", "mount /proc", "mount /tmp", "private_files", *NO_GAUGES),
        layer="private_files",
    ),
    Row(
        "init|session",
        "setgroups",
        "^0, NULL",
        ("EPERM",),
        "denied in a namespace made without the right to it; no groups are left to drop",
    ),
    Row(
        "builder",
        "openat",
        "/proc/self/ns/net",
        ALL,
        "a network namespace that cannot be named is not used again",
    ),
    Row(
        "builder",
        "openat",
        "/net/unix",
        ALL,
        "a network namespace whose sockets cannot be listed is not used again",
    ),
    Row("builder", "read", "", ALL, "the same; a signal stays pending and is read at the next round"),
    Row("init|session", "getgroups", "^0, NULL", ALL, "/proc/self/setgroups is asked instead"),
    Row(
        "warden",
        "kill",
        "SIGKILL",
        ALL,
        "the helper of an id map also ends when its gate is closed",
    ),
    Row("helper", "prctl", "PR_SET_PDEATHSIG", ALL, "it ends at once, and its namespace stays until it is reaped"),
    Row(
        "helper",
        "read",
        "",
        ALL,
        "the helper has only to exist until its namespace is open; too early is refused",
    ),
    Row(
        "warden",
        "setsockopt",
        "SOL_SOCKET",
        ALL,
        "before Linux 6.16 no socket refuses descriptors; the engine's read() drops them, SECURITY.md says the rest",
    ),
    Row(
        "warden",
        "ioctl",
        "0xff, 0xb",
        ALL,
        "before Linux 6.13 no pidfd tells its parent; /proc is asked instead",
    ),
    # After the refusal: the folder stays until the next start, and the lock file names it.
    Row(
        "warden|unnamed",
        "openat",
        r'(/krait-\d+-\d+-[0-9a-f]+|"\.)", O_RDONLY.*O_DIRECTORY',
        ALL,
        "removed by the next start",
        stays=r"cgroup|\.lock says",
    ),
    # Cleaning up after others: of their lock files, our own apart.
    Row(
        "warden|unnamed",
        "fcntl|pread64|getdents64|ftruncate",
        "F_SETLK|, 8191, 0|",
        ALL,
        "what other dead instances left is left for the next start",
    ),
    # Asked again at the next round.
    Row(
        "warden",
        "wait4",
        "NULL, 0, NULL",
        ALL,
        "a child of one's own: only EINTR can be; what is left of the helper goes with us",
        stays="process",
    ),
    Row("warden", "epoll_wait|wait4", "", ALL, "asked again at once"),
    Row("warden", "read", "", ALL, "the signal stays pending and is read at the next round"),
    Row("init|session", "poll", "", ALL, "asked again at once"),
    # CPython's own fall-backs, and ours in what is no part of the wall.
    Row(
        "session",
        "getrandom",
        "",
        ALL,
        "CPython reads /dev/urandom instead",
        differs=("descriptors",),
    ),
    Row("session", "access|newfstatat", '"/workspace"', ALL, "where HOME is: /tmp, if the folder cannot be written"),
    Row("session", "getcwd", "", ALL, "a name for tracebacks"),
    Row("session", "recvfrom", "MSG_PEEK", ALL, "no check for an interrupt before the code"),
    Row("session", "rt_sigtimedwait", "INT", ALL, "no late SIGINT was there to take"),
    Row(
        "session",
        "set_robust_list",
        "",
        ALL,
        "glibc's list of mutexes shared between processes; there are none",
    ),
    Row(
        "session", "newfstatat", "^[12],", ALL, "CPython asks for the best buffer size of a stream"
    ),
    Row(
        "session|zygote",
        "fcntl",
        "^[12], F_DUPFD_CLOEXEC",
        ALL,
        "a copy of stdout or stderr, to restore it if user code closes it",
        differs=("descriptors",),
    ),
)


def unexpected(what: list[str], rows: list[Row | None]) -> list[str]:
    """Without what a row lets stay."""
    return [line for line in what if not any(row.stays and re.search(row.stays, line) for row in rows if row)]


def row_for(role: str, call: Call, replaced: bool) -> Row | None:
    return next((row for row in TOLERATED if row.fits(role, call, replaced)), None)
