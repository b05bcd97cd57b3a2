"""Section B: the file system, /proc and /sys. What needs several sessions or a workspace is in rows_workspace.py.

A cell has a tree of its own, so most of what is looked for is not there (ENOENT). The contained level has the machine's
tree behind Landlock: what may not be read is EACCES there, and what Landlock cannot hide (names, the mount table) is
said in the row.
"""
import re

from model import Row
from probe import *  # noqa: F403


def b1():
    seen = []
    for fd in range(0, 1024):
        try:
            mode = os.fstat(fd).st_mode
        except OSError:
            continue
        try:
            link = os.readlink("/proc/self/fd/%d" % fd)
        except OSError as e:
            link = err_name(e.errno)
        kind = (
            "dir"
            if stat.S_ISDIR(mode)
            else "socket"
            if stat.S_ISSOCK(mode)
            else "pipe"
            if stat.S_ISFIFO(mode)
            else "char"
            if stat.S_ISCHR(mode)
            else "file"
        )
        moved = word(
            forked(lambda: [attempt(os.fchdir, fd), attempt(os.stat, "../../../../../../etc/shadow")])
        )
        through = attempt(os.stat, "/proc/self/fd/%d/../../../../../../etc/shadow" % fd)
        seen.append({"fd": fd, "kind": kind, "link": link, "fchdir": moved, "through": through})
    program = (
        "import os,json\nfound=[]\nfor n in range(1024):\n try: os.fstat(n); found.append(n)\n"
        " except OSError: pass\nprint(json.dumps(found))"
    )
    done = subprocess.run(
        [interpreter(), "-S", "-c", program], stdin=subprocess.DEVNULL, capture_output=True, close_fds=False
    )
    return {"fds": seen, "after_exec": json.loads(done.stdout.decode() or "null")}


def judge_b1(o, ctx):
    bad = [f"fd {f['fd']} is a directory: {f['link']}" for f in o["fds"] if f["kind"] == "dir"]
    bad += [
        f"out through fd {f['fd']}: {f['fchdir']}, {f['through']}"
        for f in o["fds"]
        if f["fchdir"].startswith("['ok'") or f["through"] == "ok"
    ]
    streams = [
        f["link"] for f in o["fds"] if f["fd"] <= 2
    ]  # copies of them, kept for the drain barrier, are no more than they are
    more = [f for f in o["fds"] if f["fd"] > 2 and f["link"] not in streams]
    if len(more) > 1 or any(f["kind"] != "socket" for f in more):
        bad.append(f"more than the three streams and the channel: {more}")
    if [f["fd"] for f in o["fds"] if f["fd"] <= 2] != [0, 1, 2]:
        bad.append(f"streams {o['fds']}")
    if o["after_exec"] != [0, 1, 2]:
        bad.append(f"a started program inherits {o['after_exec']}")
    return bad


def control_b1(o, ctx):
    leaked = [f for f in o["fds"] if f["kind"] == "dir"]
    if not leaked or leaked[0]["through"] != "ok" or leaked[0]["fd"] not in (o["after_exec"] or []):
        return [f"the directory leaked to the control on purpose was not found: {o}"]
    return [] if leaked[0]["fchdir"].count("'ok'") == 2 else [f"no way out through it: {leaked}"]


def b2():
    seen = {"exe_write": try_open("/proc/self/exe", os.O_RDWR)}
    targets = outsiders() if INSIDE else {"parent": os.getppid()}
    for name, pid in targets.items():
        seen[name + ".exe"] = try_open("/proc/%d/exe" % pid)
        seen[name + ".exe_write"] = try_open("/proc/%d/exe" % pid, os.O_RDWR)
        seen[name + ".root"] = attempt(os.listdir, "/proc/%d/root/" % pid)
        seen[name + ".root_passwd"] = try_open("/proc/%d/root/etc/passwd" % pid)
        seen[name + ".cwd"] = attempt(os.listdir, "/proc/%d/cwd/" % pid)
        seen[name + ".fd"] = attempt(os.listdir, "/proc/%d/fd" % pid)
        seen[name + ".environ"] = attempt(lambda: open("/proc/%d/environ" % pid, "rb").read())
        seen[name + ".maps"] = attempt(lambda: open("/proc/%d/maps" % pid, "rb").read())
        seen[name + ".ns"] = try_open("/proc/%d/ns/user" % pid)
    return seen


def b3():
    paths = {
        "core_pattern": "/proc/sys/kernel/core_pattern",
        "modprobe": "/proc/sys/kernel/modprobe",
        "sysrq": "/proc/sysrq-trigger",
        "binfmt": "/proc/sys/fs/binfmt_misc/register",
        "drop_caches": "/proc/sys/vm/drop_caches",
        "overcommit": "/proc/sys/vm/overcommit_memory",
        "ip_forward": "/proc/sys/net/ipv4/ip_forward",
        "uevent_helper": "/sys/kernel/uevent_helper",
        "power": "/sys/power/state",
        "thp": "/sys/kernel/mm/transparent_hugepage/enabled",
        "panic": "/proc/sys/kernel/panic",
        "userns": "/proc/sys/user/max_user_namespaces",
        "mtrr": "/proc/mtrr",
        "release_agent": PARAMS["cgroup"] + "/release_agent",
        "cgroup_procs": PARAMS["cgroup"] + "/cgroup.procs",
    }
    seen = {name: try_open(path, os.O_WRONLY) for name, path in paths.items()}
    if INSIDE:

        def write(path, text):
            with open(path, "wb", buffering=0) as f:
                f.write(text)

        seen["uid_map"] = attempt(write, "/proc/self/uid_map", b"0 0 1")
        seen["oom_lower"] = attempt(write, "/proc/self/oom_score_adj", b"-1000")
        seen["oom_to_0"] = attempt(write, "/proc/self/oom_score_adj", b"0")
        with open("/proc/self/oom_score_adj") as f:
            seen["oom"] = "first" if int(f.read()) >= 500 else "not first"
        seen["attr"] = attempt(write, "/proc/self/attr/exec", b"unconfined")
        found = []
        for folder, _, files in os.walk("/sys/fs/cgroup"):
            found += [os.path.join(folder, f) for f in files if os.access(os.path.join(folder, f), os.W_OK)]
        seen["cgroup_writable"] = "ok" if found else "none"
    return seen


B3_REFUSED = "ENOENT EACCES EROFS EPERM"
B3_CELL = {
    "uid_map": "EPERM EACCES EROFS",
    "oom_lower": "EACCES EPERM EROFS",
    "oom_to_0": "EACCES EPERM EROFS",
    "oom": "first",  # to be killed for memory
    "attr": "EINVAL EACCES EPERM ENOENT EROFS",
    "cgroup_writable": "none",
    "*": B3_REFUSED,
}


def control_b3(o, ctx):
    opened = [k for k, v in o.items() if v == "ok"]
    for name in ("core_pattern", "panic", "cgroup_procs"):
        if name not in opened:
            return [f"{name} cannot be opened for writing outside either: {o[name]}"]
    missing = [k for k, v in o.items() if v != "ok"]
    if missing:
        ctx.note(f"B3: not to be opened on this machine by root either: {', '.join(missing)}")
    return []


def leak_paths():
    proc = (
        "kallsyms modules config.gz cmdline version timer_list sched_debug keys key-users swaps partitions diskstats "
        "pressure/cpu pressure/memory meminfo cpuinfo stat uptime loadavg interrupts iomem ioports kcore kmsg "
        "vmallocinfo slabinfo pagetypeinfo zoneinfo buddyinfo locks cgroups filesystems mounts sysvipc/shm net/tcp "
        "net/unix net/route net/arp net/dev net/fib_trie 1/environ 1/cmdline 1/maps 1/mountinfo 1/cgroup "
        "sys/kernel/random/boot_id sys/kernel/hostname sys/kernel/osrelease sys/kernel/random/uuid self/mountinfo "
        "self/cgroup self/mounts self/environ self/cmdline self/net/unix self/net/tcp self/net/arp self/net/route "
        "self/net/dev self/loginuid "
        "self/sessionid self/cpuset self/mountstats"
    ).split()
    sys_ = (
        "firmware kernel/debug kernel/tracing fs/bpf class/dmi/id class/net block devices bus fs/cgroup "
        "kernel/security module"
    ).split()
    etc = (
        "hosts resolv.conf machine-id hostname shadow gshadow passwd group fstab sudoers crontab os-release ssh "
        "ssl/private ssh/ssh_host_ed25519_key ssh/ssh_host_rsa_key environment mtab netplan NetworkManager apt systemd"
    ).split()
    return (
        ["/proc/" + p for p in proc],
        ["/sys"] + ["/sys/" + p for p in sys_],
        ["/etc/" + p for p in etc],
        [
            "/root",
            "/home",
            "/var/log",
            "/var/lib",
            "/run",
            "/boot",
            "/srv",
            "/opt",
            "/mnt",
            "/var/spool/cron",
        ],
    )


def b4():
    seen = {}
    for group in leak_paths():
        for path in group:
            if os.path.isdir(path):
                try:
                    seen[path] = {"text": "\n".join(sorted(os.listdir(path)))[:1500]}
                except OSError as e:
                    seen[path] = {"error": err_name(e.errno)}
            else:
                seen[path] = read_text(path, 20000 if path.startswith("/proc/self") else 1500)
    seen["uname"] = {"text": " ".join(os.uname())}
    seen["gethostname"] = {"text": socket.gethostname()}
    return seen


B4_CELL_MAY = (
    {
        "/proc/self/" + n
        for n in "mountinfo cgroup mounts environ cmdline net/unix net/tcp net/arp net/route net/dev loginuid "
        "sessionid cpuset mountstats".split()
    }
    | {"/proc/1/cmdline", "/proc/1/mountinfo", "/proc/1/cgroup", "/proc/mounts"}
    # krait's own files (B16), and links to /proc/self.
    | {"/proc/" + n for n in "stat meminfo cpuinfo uptime loadavg version filesystems".split()}
    | {"/proc/sys/kernel/hostname", "/proc/sys/kernel/osrelease", "/sys", "/sys/devices", "/home", "/mnt"}
    | {"/proc/net/" + n for n in "tcp unix route arp dev fib_trie".split()}
    | {
        "/etc/hosts",
        "/etc/passwd",
        "/etc/group",
        "/etc/os-release",
        "/etc/hostname",
        "/etc/resolv.conf",
        "uname",
        "gethostname",
    }
)
# Landlock gives /proc/self and some of /etc as they are; what they show is the container's, and said in SECURITY.
# /proc/net and /proc/mounts are links to it.
B4_CONTAINED_MAY = (
    B4_CELL_MAY
    - {"/proc/1/cmdline", "/proc/1/mountinfo", "/proc/1/cgroup", "/sys", "/sys/devices", "/home", "/mnt"}
    - {"/proc/" + n for n in "stat meminfo cpuinfo uptime loadavg version filesystems".split()}
    - {"/proc/sys/kernel/hostname", "/proc/sys/kernel/osrelease"}
    | {"/etc/mtab"}
)
B4_ABSENT = ("ENOENT", "EACCES", "EPERM", "EIO", "EINVAL", "ENOTDIR")

B4_OWN = {"/home": "user", "/mnt": "data"}  # names of the workspace, and nothing beside them


def judge_b4(o, ctx):
    may = B4_CONTAINED_MAY if ctx.contained else B4_CELL_MAY
    bad = []
    for path, got in o.items():
        if "error" in got:
            if got["error"] not in B4_ABSENT:
                bad.append(f"{path}: {got['error']}")
            continue
        text = got["text"]
        if path not in may:
            if text and (ctx.contained or text != B4_OWN.get(path)):  # an empty directory or file tells nothing
                bad.append(f"{path} is readable: {text[:60]!r}")
            continue
        hidden = {"canary": ctx.bait.needles["canary"]} if ctx.contained else ctx.bait.needles
        # As a word: a machine's name may be as short as a syllable of a file's.
        bad += [f"{path} shows the machine's {name}" for name, needle in hidden.items()
                if re.search(r"(?<![a-z0-9_])%s(?![a-z0-9_])" % re.escape(needle), text)]
    if ctx.contained:
        return bad
    for path in ("/proc/self/cgroup", "/proc/1/cgroup"):
        for line in o[path].get("text", "").splitlines():
            if line.split(":", 2)[-1] != "/":
                bad.append(f"{path}: {line}")
    for path in ("/proc/self/mountinfo", "/proc/1/mountinfo"):
        bad += [f"{path}: {line}" for line in o[path].get("text", "").splitlines() if mount_tells(line)]
    holds = {"/sys": "devices", "/sys/devices": "system", "/home": "user", "/mnt": "data"}
    bad += [f"{path}: {o[path]['text']}" for path, text in holds.items() if o[path].get("text", text) != text]
    for path in ("/etc/passwd", "/etc/group"):
        with open(path) as f:
            if o[path].get("text") == f.read():
                bad.append(f"{path} is the machine's")
    for line in o["/proc/self/net/dev"].get("text", "").splitlines()[2:]:
        if line.split(":")[0].strip() != "lo":
            bad.append(f"network interface {line.split(':')[0]}")
    return bad


# Which mounts a cell may show: its own filesystems, whose root is "/", a folder of krait's own tmpfs, and where it has
# none of its own the machine's device nodes.
MOUNT_ROOTS = ("/", "/dev", "/null", "/zero", "/full", "/random", "/urandom", "/tty")
IN_MEMORY = {"/tmp": "/tmp", "/dev/shm": "/shm", "/workspace": "/workspace"}
LOWER = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "root", "mask-root", "mask-usr", "mask-none", "source")


def mount_tells(line):
    """Does a line of mountinfo show a path or a disk of the machine?"""
    fields = line.split()
    kind, source, options = fields[fields.index("-") + 1 :][:3]
    folder = fields[3].startswith("/krait/") if kind == "overlay" else kind == "tmpfs" and (
        fields[3][1:].isdigit() or fields[3] == IN_MEMORY.get(fields[4])
    )
    if source.startswith("/") or not (fields[3] in MOUNT_ROOTS or folder):
        return True
    named = dict(o.split("=", 1) for o in options.split(",") if "=" in o)
    lower = [p for k in ("lowerdir", "lowerdir+") if k in named for p in named[k].split(":")]
    return "upperdir" in named or not {p for p in lower if not re.fullmatch(r"gauges/\d+", p)} <= set(LOWER)


def control_b4(o, ctx):
    readable = [p for p, got in o.items() if got.get("text")]
    bad = [
        f"{p} cannot be read outside either"
        for p in (
            "/proc/cmdline",
            "/proc/self/mountinfo",
            "/etc/passwd",
            "/etc/shadow",
            "/proc/1/cmdline",
            "/sys",
        )
        if p not in readable
    ]
    if not any(
        needle in got.get("text", "")
        for got in o.values()
        for name, needle in ctx.bait.needles.items()
        if name == "hostname"
    ):
        bad.append("the machine's name is nowhere to be found outside either")
    return bad


def b16():
    names = "stat meminfo uptime loadavg cpuinfo vmstat version filesystems diskstats sys/kernel/osrelease".split()
    paths = ["/proc/" + n for n in names] + ["/sys/devices/system/cpu/online"]
    if not INSIDE:  # the same to a file of one's own; the machine's are only read
        paths = [os.path.join(scratch(), "file")]
        open(paths[0], "w").close()
    seen = {}

    def reopen(path):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.close(os.open("/proc/self/fd/%d" % fd, os.O_RDWR))
        finally:
            os.close(fd)

    for path in paths:
        seen["write " + path] = try_open(path, os.O_WRONLY)
        seen["read " + path] = try_open(path)
        seen["reopen " + path] = attempt(reopen, path)
        seen["truncate " + path] = attempt(os.truncate, path, 0)
        seen["chmod " + path] = attempt(os.chmod, path, 0o666)
        seen["utime " + path] = attempt(os.utime, path)
        seen["unlink " + path] = attempt(os.unlink, path)
    # Every other name that a kernel may have there, also after others were found, listed, and looked for in vain.
    rest = (
        "acpi asound bootconfig buddyinfo bus cgroups cmdline config.gz consoles cpu crypto devices dma driver "
        "dynamic_debug execdomains fb fs interrupts iomem ioports irq kallsyms kcore key-users keys kmsg kpagecgroup "
        "kpagecount kpageflags latency_stats locks mdstat misc modules mpt mtrr pagetypeinfo partitions pressure scsi "
        "sched_debug schedstat slabinfo softirqs swaps sysrq-trigger sysvipc timer_list tty vmallocinfo zoneinfo"
    ).split()
    attempt(os.listdir, "/proc")
    for i in range(2):
        for name in sorted({*rest, *PARAMS["proc_names"]}):
            seen["name%d %s" % (i, name)] = attempt(os.lstat, "/proc/" + name)
    seen["beneath"] = []
    attempt(lambda: seen["beneath"].extend(sorted(os.listdir("/proc/sys"))))
    for name in ("stat", "meminfo", "uptime", "cpuinfo"):
        seen["text " + name] = read_text("/proc/" + name, 20000).get("text", "")
    return seen


def figure(text, key):
    """The number behind a word, or None."""
    found = re.search(r"^%s\s+(\d+)" % re.escape(key), text, re.M)
    return int(found[1]) if found else None


def judge_b16(o, ctx):
    can = "EACCES" if ctx.contained else "ok"
    bad = [f"{k}: {v}" for k, v in o.items() if k.startswith("read ") and v != can]
    bad += [f"{k}: {v}" for k, v in o.items()
            if not k.startswith(("read ", "text ", "name", "beneath")) and v not in ("EROFS", "EACCES", "EPERM")]
    if not ctx.contained:  # there Landlock hides what they hold, not that they are
        bad += [f"{k}: {v}" for k, v in o.items() if k.startswith("name") and v != "ENOENT"]
        if o["beneath"] != ["devices", "fs", "kernel", "net", "vm"]:
            bad.append(f"/proc/sys is not krait's: {o['beneath']}")
    if ctx.contained:
        return bad + [f"{k} is readable" for k, v in o.items() if k.startswith("text ") and v]
    with open("/proc/stat") as f:
        booted = figure(f.read(), "btime")
    with open("/proc/meminfo") as f:
        memory = figure(f.read(), "MemTotal:")
    with open("/proc/uptime") as f:
        up = float(f.read().split()[0])
    if not (figure(o["text stat"], "btime") or 0) > booted:
        bad.append(f"the machine's boot time: {o['text stat']}")
    if figure(o["text meminfo"], "MemTotal:") in (None, memory):
        bad.append(f"the machine's memory: {o['text meminfo']}")
    if not float(o["text uptime"].split()[0]) < up - 1:
        bad.append(f"the machine's uptime: {o['text uptime']}")
    bad += [f"cpuinfo tells {key}" for key in ("cpu MHz", "microcode", "apicid")
            if re.search("^" + key, o["text cpuinfo"], re.M)]
    return bad


def control_b16(o, ctx):
    facts = ("text ", "name", "beneath")
    bad = [f"{k}: {v} outside, too" for k, v in o.items() if not k.startswith(facts) and v != "ok"]
    bad += [f"{k}: {o[k]} outside, too" for k in ("name1 interrupts", "name1 devices") if o[k] != "ok"]
    if o["beneath"] == ["devices", "fs", "kernel", "net", "vm"]:
        bad.append("/proc/sys of a plain process is like krait's")
    with open("/proc/stat") as f:
        if figure(o["text stat"], "btime") != figure(f.read(), "btime"):
            bad.append("a plain process does not see the machine's boot time either")
    return bad


def b11():
    folder = scratch()

    def classic():
        os.chdir(folder)
        os.mkdir("jail")
        fd = os.open(".", os.O_RDONLY)
        got = attempt(os.chroot, "jail")
        os.fchdir(fd)
        for _ in range(64):
            os.chdir("..")
        return [got, attempt(os.chroot, ".")]

    got = forked(classic).get("value")
    top, above = os.stat("/"), os.stat("/" + "../" * 64)
    seen = {
        "chroot": str(got[0]),
        "chroot_again": str(got[1]),
        "dotdot": "same" if (top.st_dev, top.st_ino) == (above.st_dev, above.st_ino) else "escaped",
        "secret": try_open("/" + "../" * 64 + PARAMS["secret_file"]),
        "write_root": try_open("/probe-x", os.O_CREAT | os.O_WRONLY) if INSIDE else "ok",
        "write_usr": try_open("/usr/lib/probe-x", os.O_CREAT | os.O_WRONLY) if INSIDE else "ok",
        "write_etc": try_open("/etc/probe-x", os.O_CREAT | os.O_WRONLY) if INSIDE else "ok",
        "preload": try_open("/etc/ld.so.preload", os.O_CREAT | os.O_WRONLY) if INSIDE else "ok",
        "hardlink": attempt(lambda: os.link("/usr/bin/env", os.path.join(folder, "env"))) if INSIDE else "ok",
        "proc_cwd": attempt(os.chdir, "/proc/1/cwd/..") if INSIDE else "ok",
    }
    shutil.rmtree(folder)
    return seen


READ_ONLY = "EROFS EACCES EPERM"
B11_CELL = {
    "chroot*": "EPERM",
    "dotdot": "same",
    "secret": "ENOENT",
    "write_*": READ_ONLY,
    "preload": READ_ONLY,
    "hardlink": "EXDEV EPERM EACCES EROFS",
    "proc_cwd": "EACCES EPERM ENOENT",
}


def environment():
    raw = read_text("/proc/self/environ", 100000)
    return {
        "python": dict(os.environ),
        "libc": ctypes_environ(),
        "proc": raw.get("text", ""),
        "argv": read_text("/proc/self/cmdline", 20000).get("text", ""),
    }


def ctypes_environ():
    table = ctypes.POINTER(ctypes.c_char_p).in_dll(L, "environ")
    found, i = [], 0
    while table and table[i]:
        found.append(table[i].decode("utf-8", "replace"))
        i += 1
    return found


# A session's whole environment. Nothing of the caller's is ever passed on.
ENVIRONMENT = {
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "USER",
    "LOGNAME",
    "SHELL",
    "PWD",
    "TMPDIR",
    "MPLBACKEND",
    "MPLCONFIGDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONNOUSERSITE",
    "PYTHONSAFEPATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONHASHSEED",
    "PYTHONIOENCODING",
    "PYTHONUTF8",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "BLIS_NUM_THREADS",
    "PYTHON_CPU_COUNT",
    "LOKY_MAX_CPU_COUNT",
    "MALLOC_ARENA_MAX",
    "VIRTUAL_ENV",
    "PIP_NO_INPUT",
    "PIP_DISABLE_PIP_VERSION_CHECK",
    "TERM",
    "COLUMNS",
    "LINES",
}


def judge_environment(o, ctx):
    canary = ctx.bait.needles["canary"]
    names = {
        "os.environ": set(o["python"]),
        "environ": {x.split("=", 1)[0] for x in o["libc"]},
        "/proc/self/environ": {x.split("=", 1)[0] for x in o["proc"].split("\0") if x},
    }
    allowed = ENVIRONMENT | ({"KRAIT_SCRATCH"} if ctx.contained else set())
    bad = [f"{where} has {sorted(got - allowed)}" for where, got in names.items() if got - allowed]
    text = repr(o)
    if canary in text or "KRAIT_TEST_SECRET" in text:
        bad.append("the caller's environment or arguments are in it")
    bad += [f"no {name}" for name in ("HOME", "LANG", "TZ", "PATH") if name not in o["python"]]
    return bad


def control_environment(o, ctx):
    got = o["python"].get("KRAIT_TEST_SECRET")
    if (
        got != ctx.bait.needles["canary"]
        or not any("KRAIT_TEST_SECRET" in x for x in o["libc"])
        or "KRAIT_TEST_SECRET" not in o["proc"]
    ):
        return [f"a plain process does not see it either: {got}"]
    return []


ROWS = [
    Row(
        "B1",
        "descriptors: the three streams and the channel, nothing else",
        b1,
        judge_b1,
        control=control_b1,
        inline=True,
        control_says="a directory is leaked to the control on purpose",
    ),
    Row(
        "B2",
        "exe, root, cwd, maps of the supervisor",
        b2,
        {"exe_write": "EACCES EROFS EPERM ETXTBSY", "*": "EACCES EPERM ENOENT"},
        contained={"exe_write": "EACCES EPERM", "*": "EACCES EPERM"},
        control={"exe_write": "ETXTBSY ok EROFS", "parent.exe_write": "ETXTBSY ok EROFS", "*": "ok"},
        inline=True,
    ),
    Row(
        "B3",
        "kernel knobs, opened for writing",
        b3,
        B3_CELL,
        control=control_b3,
        inline=True,
        control_says="opened only, never written",
    ),
    Row(
        "B4",
        "what /proc, /sys and /etc tell",
        b4,
        judge_b4,
        control=control_b4,
        inline=True,
        helpers=(leak_paths,),
    ),
    Row(
        "B11",
        "chroot classics, writes outside the workspace",
        b11,
        B11_CELL,
        contained=dict(B11_CELL, secret="EACCES"),
        control={"chroot*": "ok", "dotdot": "same", "secret": "ok", "*": "ok"},
        control_says="writes to /, /usr and /etc are not tried outside; as root they would succeed",
    ),
    Row(
        "B16",
        "krait's own files of /proc: written to, and of the machine",
        b16,
        judge_b16,
        control=control_b16,
        inline=True,
        control_says="to a file of its own; the machine's figures are read",
    ),
    Row(
        "C1-environment",
        "the caller's environment and arguments",
        environment,
        judge_environment,
        control=control_environment,
        inline=True,
        helpers=(ctypes_environ,),
    ),
]
