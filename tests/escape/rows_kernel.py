"""Section A, first half: the kernel's own surface, call by call (A1 to A17).

Each probe runs in a session and, as its control, in a plain python3 outside. Calls are made with arguments that the
kernel itself would refuse (bad pointers, bad descriptors), so that outside they reach the kernel and do nothing:
EFAULT, EBADF or EINVAL there against EPERM here shows that a policy stands in front.
"""
from model import REACHED, SYS_RESOURCE, Row, expect
from probe import *  # noqa: F403  (the probes' text runs behind probe.py)


def a1():
    return {
        "io_uring_setup": call(425, 8, None),
        "io_uring_enter": call(426, -1, 0, 0, 0, None, 0),
        "io_uring_register": call(427, -1, 0, None, 0),
    }


def a2():
    fd, error = sc(323, 1)  # UFFD_USER_MODE_ONLY, which needs no privilege
    if fd >= 0:
        os.close(fd)
    return {"userfaultfd": error or "ok"}


def a3():
    return {"bpf": call(321, 0, None, 0), "perf_event_open": call(298, None, 0, -1, -1, 0)}


def a4():
    key_text = read_text("/proc/keys", 200) if INSIDE else {"text": read_text("/proc/keys").get("text", "")}
    return {
        "keyctl_session": call(250, 0, -3, 0),  # KEYCTL_GET_KEYRING_ID, never creating
        "add_key": call(248, b"user", b"k", b"v", 1, -2) if INSIDE else call(248, None, None, None, 0, 0),
        "request_key": call(249, None, None, None, 0),
        "proc_keys": key_text.get("error") or ("ok" if key_text["text"] else "empty"),
    }


def a5():
    child, end = sleeping_child()
    memory = ctypes.create_string_buffer(16)
    iov = struct.pack("QQ", ctypes.addressof(memory), 8)
    targets = {"child": child}
    if INSIDE:
        targets.update(outsiders())
    seen = {}
    for name, pid in targets.items():
        seen[name + ".process_vm_readv"] = call(310, pid, iov, 1, iov, 1, 0)
        seen[name + ".process_vm_writev"] = call(311, pid, iov, 1, iov, 1, 0)
        seen[name + ".kcmp"] = call(312, pid, pid, 0, 0, 0)
        handle = sc(434, pid, 0)[0]
        seen[name + ".pidfd_getfd"] = call(438, handle, 0, 0)
        seen[name + ".process_madvise"] = call(
            440, handle, iov, 1, 4, 0
        )  # MADV_DONTNEED is EINVAL for another
        seen[name + ".process_mrelease"] = call(448, handle, 0xFFFF)
        seen[name + ".ptrace_seize"] = call(101, 0x4206, pid, 0, 0)
        seen[name + ".ptrace_attach"] = call(101, 16, pid, 0, 0) if INSIDE else call(101, 17, pid, 0, 0)
        if handle >= 0:
            os.close(handle)
    end()
    seen["self.ptrace_traceme"] = word(forked(lambda: call(101, 0, 0, 0, 0)))
    return seen


def a6():
    def patch():
        buffer = ctypes.create_string_buffer(b"before")
        with open("/proc/self/mem", "r+b", buffering=0) as f:
            f.seek(ctypes.addressof(buffer))
            f.write(b"after!")
        assert buffer.value == b"after!"

    # A process that is not dumpable has a /proc/self/mem of root's: less than "own mem allowed", never more.
    seen = {"own": attempt(patch) if L.prctl(3, 0, 0, 0, 0) == 1 else "undumpable"}
    targets = outsiders() if INSIDE else {"victim": PARAMS["victim"], "parent": os.getppid()}
    for name, pid in targets.items():
        for flags, kind in ((os.O_RDONLY, "read"), (os.O_RDWR, "write")):
            seen["%s.%s" % (name, kind)] = try_open("/proc/%d/mem" % pid, flags)
    return seen


def a7():
    return {
        "mount": call(165, None, None, None, 0, None),
        "umount2": call(166, None, 0),
        "pivot_root": call(155, None, None),
        "chroot": call(161, None),
        "open_tree": call(428, -1, None, 0),
        "open_tree_clone": call(428, -100, b"/", 1) if INSIDE else call(428, -100, None, 1),
        "move_mount": call(429, -1, None, -1, None, 0),
        "fsopen": call(430, None, 0),
        "fsopen_tmpfs": call(430, b"tmpfs", 0) if INSIDE else call(430, b"tmpfs", 0xFFFF),
        "fsconfig": call(431, -1, 0, None, None, 0),
        "fsmount": call(432, -1, 0xFFFF, 0),
        "fspick": call(433, -1, None, 0),
        "mount_setattr": call(442, -1, None, 0, None, 0),
    }


def a8():
    flags = {
        "newns": 0x20000,
        "newcgroup": 0x2000000,
        "newuts": 0x4000000,
        "newipc": 0x8000000,
        "newuser": 0x10000000,
        "newpid": 0x20000000,
        "newnet": 0x40000000,
        "newtime": 0x80,
    }

    def clone(flag):
        pid, error = sc(56, flag | signal.SIGCHLD, 0, 0, 0, 0)
        if pid == 0:
            os._exit(0)
        if pid > 0:
            os.waitpid(pid, 0)
        return error or "ok"

    seen = {}
    for name, flag in flags.items():
        seen["unshare." + name] = word(forked(lambda: call(272, flag)))
        if name != "newtime":  # its bit is part of clone's exit signal
            seen["clone." + name] = word(forked(lambda: clone(flag)))
    seen["unshare.newuser_newns"] = word(forked(lambda: call(272, 0x10020000)))
    return seen


def a9():
    def clone3(flags):
        args = struct.pack("11Q", flags, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
        pid, error = sc(435, args, len(args))
        if pid == 0:
            os._exit(0)
        if pid > 0:
            os.waitpid(pid, 0)
        return error or "ok"

    return {
        "plain": word(forked(lambda: clone3(0))),
        "newuser": word(forked(lambda: clone3(0x10000000))),
        "newuser_newnet": word(forked(lambda: clone3(0x50000000))),
        "bad_pointer": call(435, None, 88),
    }


def a10():
    handle = struct.pack("Ii", 128, 0) + bytes(128)
    return {
        "setns": call(308, -1, 0),
        "setns_newuser": call(308, -1, 0x10000000),
        "name_to_handle_at": call(
            303, -100, b"/usr", ctypes.create_string_buffer(handle), ctypes.create_string_buffer(8), 0
        ),
        "open_by_handle_at": call(304, -1, None, 0),
    }


def a11():
    # The arguments are such that no user, root included, gets more than an error out of the kernel.
    seen = {
        "init_module": call(175, None, 0, None),
        "finit_module": call(313, -1, None, 0),
        "delete_module": call(176, None, 0),
        "kexec_load": call(246, 0, 0, None, 0xFFFF),
        "kexec_file_load": call(320, -1, -1, 0, None, 0xFFFF),
        "reboot": call(169, 0, 0, 0, None),
        "swapon": call(167, None, 0),
        "swapoff": call(168, None),
        "acct": call(163, 1),
        "quotactl": call(179, -1, None, 0, None),
        "quotactl_fd": call(443, -1, -1, 0, None),
        "syslog": call(103, -1, None, 0),
        "iopl": call(172, 9),
        "ioperm": call(173, 1 << 20, 1, 1),
        "settimeofday": call(164, 1, None),
        "clock_settime": call(227, -1, None),
        "adjtimex": call(159, None),
        "clock_adjtime": call(305, 0, None),
        "sethostname": call(170, None, -1),
        "setdomainname": call(171, None, -1),
        "move_pages": call(279, 0, 1, None, None, None, 0xFFFF),
        "migrate_pages": call(256, 0, 1 << 40, None, None),
        "memfd_secret": call(447, 0xFFFF),
    }
    buffer = ctypes.create_string_buffer(16)
    seen["modify_ldt"] = word(forked(lambda: call(154, 0, buffer, 0)))  # reads nothing
    seen["personality_exec"] = word(forked(lambda: call(135, 0x0400000)))
    seen["personality_no_random"] = word(forked(lambda: call(135, 0x0040000)))
    return seen


def a12():
    def x32(number):
        r, error = sc(0x40000000 | number)
        return error or "ok"

    def int80(code):
        r = machine(code)(0, 0, 0, 0, 0, 0, 0)
        r = ctypes.c_int(r).value
        return err_name(-r) if -4096 < r < 0 else "ok"

    return {
        "x32_getpid": word(forked(lambda: x32(39))),
        "x32_execve": word(forked(lambda: x32(520))),
        "x32_ptrace": word(forked(lambda: x32(521))),
        "int80_getpid": word(forked(lambda: int80(b"\xb8\x14\0\0\0\xcd\x80\xc3"))),
        # push rbx; mov eax,310 (unshare); xor ebx,ebx; int 0x80; pop rbx; ret
        "int80_unshare": word(forked(lambda: int80(b"\x53\xb8\x36\x01\0\0\x31\xdb\xcd\x80\x5b\xc3"))),
    }


def a13():
    # -1 everywhere: no call this kernel or a later one has can do anything with it.
    return {str(n): word(forked(lambda: call(n, -1, -1, -1, -1, -1, -1))) for n in range(449, 481)}


def a14():
    allow_all = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000))  # ret ALLOW
    program = struct.pack("HxxxxxxQ", 1, ctypes.addressof(allow_all))

    def listener():
        L.prctl(38, 1, 0, 0, 0)
        return call(317, 1, 8, program)

    def listener_wait_kill():
        L.prctl(38, 1, 0, 0, 0)
        return call(317, 1, 8 | 32, program)

    def stack(how):
        L.prctl(38, 1, 0, 0, 0)
        got = {
            "seccomp": lambda: call(317, 1, 0, program),
            "tsync": lambda: call(317, 1, 1, program),
            "prctl": lambda: call(157, 22, 2, program),
        }[how]()
        return [got, call(272, 0x10000000), call(425, 8, None), L.prctl(39, 0, 0, 0, 0)]

    def drop_nnp():
        return call(157, 38, 0, 0, 0, 0)

    seen = {
        "listener": word(forked(listener)),
        "listener_wait_kill": word(forked(listener_wait_kill)),
        "nnp_off": word(forked(drop_nnp)),
    }
    for how in ("seccomp", "tsync", "prctl"):
        seen["after_" + how] = forked(lambda: stack(how)).get("value")
    return seen


def judge_a14(o, ctx):
    bad = expect(
        {"listener": "EPERM", "listener_wait_kill": "EPERM", "nnp_off": "EPERM EINVAL", "after_*": None}
    )(o, ctx)
    for how in ("seccomp", "tsync", "prctl"):
        got = o.get("after_" + how)
        if not got or got[0] not in ("ok", "EPERM"):
            bad.append(f"a filter by {how}: {got}")
        elif got[1:] != ["EPERM", "EPERM", 1]:
            bad.append(f"weaker after a filter by {how}: unshare, io_uring_setup, no_new_privs = {got[1:]}")
    return bad


def control_a14(o, ctx):
    bad = expect({"listener": "ok", "listener_wait_kill": "ok EINVAL", "nnp_off": "EINVAL", "after_*": None})(
        o, ctx
    )
    for how in ("seccomp", "tsync", "prctl"):
        got = o.get("after_" + how)
        if not got or got[0] != "ok" or got[1] != "ok":
            bad.append(f"{how}: {got}")
    return bad


def a15():
    wanted = (
        "Uid",
        "Gid",
        "Groups",
        "CapInh",
        "CapPrm",
        "CapEff",
        "CapBnd",
        "CapAmb",
        "NoNewPrivs",
        "Seccomp",
    )
    text = read_text("/proc/self/status", 8000)
    status = {}
    for line in text.get("text", "").splitlines():
        key, _, value = line.partition(":")
        if key in wanted:
            status[key] = " ".join(value.split())
    head = struct.pack("Ii", 0x20080522, 0)
    data = ctypes.create_string_buffer(24)
    capget = call(125, ctypes.create_string_buffer(head), data)
    auxv = {}
    for path in ("/usr/bin/passwd", "/usr/bin/su", "/usr/bin/chsh", "/bin/mount"):
        if os.path.exists(path) and os.stat(path).st_mode & stat.S_ISUID:
            # ld.so shows the auxiliary vector, unless the kernel says that the program gained rights.
            done = subprocess.run(
                [path, "--help"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env={"LD_SHOW_AUXV": "1"},
                **({} if INSIDE else {"user": 54321, "group": 54321}),
            )
            lines = dict(
                x.split(":", 1) for x in done.stdout.decode("latin-1").splitlines() if x.startswith("AT_")
            )
            auxv = {
                "path": path,
                "shown": bool(lines),
                "secure": lines.get("AT_SECURE", "").strip(),
                "euid": lines.get("AT_EUID", "").strip(),
            }
            break
    return {
        "status": status,
        "status_error": text.get("error"),
        "nnp": L.prctl(39, 0, 0, 0, 0),
        "capget": capget,
        "caps": any(data.raw),
        "euid": os.geteuid(),
        "uids": list(os.getresuid()),
        "groups": os.getgroups(),
        "auxv": auxv,
        "setuid0": attempt(lambda: os.setresuid(0, 0, 0)) if INSIDE else "ok",
        "setgid0": attempt(lambda: os.setresgid(0, 0, 0)) if INSIDE else "ok",
        "setgroups": attempt(lambda: os.setgroups([0])) if INSIDE else "ok",
    }


def judge_a15(o, ctx):
    bad = []
    status = o["status"]
    if ctx.contained and not status:
        ctx.note("A15: /proc/self/status is not readable here; judged by prctl and capget")
    else:
        wanted = {
            "NoNewPrivs": "1",
            "Seccomp": "2",
            "CapInh": "0" * 16,
            "CapPrm": "0" * 16,
            "CapEff": "0" * 16,
            "CapAmb": "0" * 16,
        }
        if not ctx.contained:  # only CAP_SETPCAP lowers it there, and no_new_privs makes it moot
            wanted["CapBnd"] = "0" * 16
        bad += [f"{k} is {status.get(k)}, not {v}" for k, v in wanted.items() if status.get(k) != v]
    if o["nnp"] != 1:
        bad.append("no_new_privs is not set")
    if o["caps"]:
        bad.append("capget shows capabilities")
    if len(set(o["uids"])) != 1 or o["euid"] == 0:
        bad.append(f"uids {o['uids']}")
    if not ctx.contained and o["euid"] != 1000:
        bad.append(f"uid {o['euid']}, not 1000")
    if 0 in o["groups"]:
        bad.append(f"groups {o['groups']}")
    for key in ("setuid0", "setgid0", "setgroups"):
        if o[key] not in ("EPERM", "EINVAL"):
            bad.append(f"{key}: {o[key]}")
    # When a setuid program cannot be started at all there is nothing to gain from it either.
    if o["auxv"] and o["auxv"]["shown"] and (o["auxv"]["secure"] != "0" or o["auxv"]["euid"] == "0"):
        bad.append(f"a setuid program gained rights: {o['auxv']}")
    if o["auxv"] and not o["auxv"]["shown"]:
        bad.append(f"{o['auxv']['path']} did not show its auxiliary vector: the kernel called it secure")
    return bad


def control_a15(o, ctx):
    bad = []
    if o["nnp"] != 0 or o["status"].get("Seccomp") != "0" or set(o["status"].get("CapEff", "0")) == {"0"}:
        bad.append(f"the control process is confined itself: {o['status']}")
    if o["auxv"].get("shown") is not False:
        bad.append(f"no rights gained by a setuid program outside: {o['auxv']}")
    return bad


def a15s():
    folder = scratch()
    seen = {}

    def bits(path):
        return "set" if os.stat(path).st_mode & 0o6000 else "clean"

    def record(name, path, result):
        seen[name] = bits(path) if result == "ok" else result

    for name, mode in (("suid", 0o4755), ("sgid", 0o2755)):
        path = os.path.join(folder, name)
        open(path, "w").close()
        fd = os.open(path, os.O_RDWR)
        raw = path.encode()
        record("chmod." + name, path, call(90, raw, mode))
        record("fchmod." + name, path, call(91, fd, mode))
        record("fchmodat." + name, path, call(268, -100, raw, mode))
        record("fchmodat2." + name, path, call(452, -100, raw, mode, 0))
        os.close(fd)
        os.umask(0)
        for how, number in (("open", 2), ("openat", 257), ("creat", 85), ("mknod", 133)):
            new = os.path.join(folder, how + name)
            raw = new.encode()
            args = {
                "open": (raw, os.O_CREAT | os.O_WRONLY, mode),
                "openat": (-100, raw, os.O_CREAT | os.O_WRONLY, mode),
                "creat": (raw, mode),
                "mknod": (raw, stat.S_IFREG | mode, 0),
            }[how]
            record("%s.%s" % (how, name), new, call(number, *args))
        how = struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, mode, 0)
        new = os.path.join(folder, "openat2" + name)
        record("openat2." + name, new, call(437, -100, new.encode(), how, len(how)))
    shutil.rmtree(folder)
    return seen


def a16():
    import resource

    before = resource.getrlimit(resource.RLIMIT_CORE)

    def abort_plain():
        os.abort()

    def abort_prepared():
        call(157, 4, 1, 0, 0, 0)  # PR_SET_DUMPABLE
        for want in ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), (before[1], before[1]), (0, 0)):
            attempt(lambda: resource.setrlimit(resource.RLIMIT_CORE, want))
            if want != (0, 0) and resource.getrlimit(resource.RLIMIT_CORE)[0] not in (0, 1):
                break
        os.chdir(folder)
        os.abort()

    def abort_after_exec():
        os.chdir(folder)
        os.execv(interpreter(), ["python3", "-S", "-c", "import os; os.abort()"])

    def lowered():
        attempt(lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
        attempt(lambda: call(302, 0, 4, struct.pack("QQ", 0, 0), None))
        return list(resource.getrlimit(resource.RLIMIT_CORE))

    def high_limit():
        resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20))

    folder = scratch()
    seen = {
        "limit": list(before),
        "raise": word(forked(lambda: attempt(high_limit))),
        "lowered": forked(lowered).get("value"),
    }
    for name, fn in (("plain", abort_plain), ("prepared", abort_prepared), ("exec", abort_after_exec)):
        got = forked(fn)
        seen[name] = got.get("signal", str(got))
        seen[name + "_core"] = bool(got.get("core"))
    seen["files"] = os.listdir(folder)
    shutil.rmtree(folder)
    seen["set_mm"] = call(157, 35, 1, 0, 0, 0)
    seen["set_mm_high"] = call(157, (1 << 32) | 35, 1, 0, 0, 0)  # the kernel looks at the low half only
    seen["securebits"] = call(157, 28, 0x2F, 0, 0, 0) if INSIDE else call(157, 28, 1 << 20, 0, 0, 0)
    seen["ambient"] = call(157, 47, 2, 21, 0, 0) if INSIDE else call(157, 47, 2, 4096, 0, 0)
    seen["core_pattern"] = read_text("/proc/sys/kernel/core_pattern", 100)
    return seen


def judge_a16(o, ctx):
    bad = [f"a core was written: {name}" for name in ("plain", "prepared", "exec") if o[name + "_core"]]
    bad += [
        f"{name}: ended by {o[name]}, not SIGABRT"
        for name in ("plain", "prepared", "exec")
        if o[name] != "SIGABRT"
    ]
    if o["files"]:
        bad.append(f"core files: {o['files']}")
    # A handler in core_pattern is run at a limit of 0 and not at 1, so 1 must hold, also against being lowered.
    if o["limit"] == [0, 0]:
        ctx.note(
            "A16: RLIMIT_CORE was 0 before krait started; a handler is kept away by other means or not at all"
        )
    elif o["limit"] != [1, 1] or o["lowered"] != [1, 1]:
        bad.append(f"RLIMIT_CORE {o['limit']}, {o['lowered']} after lowering it")
    if o["raise"] == "ok":
        bad.append("RLIMIT_CORE could be raised")
    for key in ("set_mm", "set_mm_high", "securebits", "ambient"):
        if o[key] != "EPERM":
            bad.append(f"prctl {key}: {o[key]}")
    if "error" not in o["core_pattern"] and not ctx.contained:
        bad.append("core_pattern is readable")
    if o["core_pattern"].get("error") not in ("ENOENT", "EACCES", "EPERM") and ctx.contained:
        bad.append("core_pattern is readable")
    return bad


def control_a16(o, ctx):
    known = "EINVAL"
    if not ctx.has_cap(SYS_RESOURCE):
        known = "EPERM EINVAL"
        ctx.note("A16: root has no CAP_SYS_RESOURCE here, so PR_SET_MM is refused outside too")
    bad = expect(
        {
            "raise": "ok",
            "set_mm": known,
            "set_mm_high": known,
            "securebits": "EPERM EINVAL",
            "ambient": "EINVAL",
            "plain": "SIGABRT",
            "prepared": "SIGABRT",
            "exec": "SIGABRT",
            "*": None,
        }
    )(o, ctx)
    if not o["prepared_core"] and "text" in o["core_pattern"]:
        bad.append(f"no core outside either: {o}")
    return bad


def a17():
    code = (
        "import ctypes,errno,json\nL=ctypes.CDLL(None,use_errno=True)\nr=L.unshare(0x10000000)\n"
        "e=errno.errorcode.get(ctypes.get_errno()) if r else 'ok'\n"
        "r=L.syscall(425,8,None)\nu=errno.errorcode.get(ctypes.get_errno())\n"
        "print(json.dumps([e,u,L.prctl(39,0,0,0,0)]))"
    )
    with open(interpreter(), "rb") as f:
        elf = f.read()
    env = {"PYTHONHOME": sys.base_prefix, "PATH": "/usr/bin:/bin"}
    tail = ["-S", "-c", code]

    def start(exec_fn):
        """Runs exec_fn in a child with stdout on a pipe: "ENOEXEC"-like word, or what the program printed."""
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.dup2(write_end, 1)
                os.dup2(os.open("/dev/null", os.O_RDWR), 2)
                exec_fn()
            except OSError as e:
                os.write(1, json.dumps(err_name(e.errno)).encode())
            finally:
                os._exit(1)
        os.close(write_end)
        with os.fdopen(read_end, "rb") as f:
            out = f.read()
        status = os.waitpid(pid, 0)[1]
        try:
            return json.loads(out.decode())
        except ValueError:
            return "status %d, said %r" % (status, out[:80])

    def executable(path, flags):  # from its birth: chmod is refused where files are shared
        return os.open(path, flags, 0o755)

    def memfd():
        fd = os.memfd_create("x", 0)
        view = memoryview(elf)
        while view:
            view = view[os.write(fd, view) :]
        return fd

    def execveat():
        fd = memfd()
        words = [b"python3"] + [t.encode() for t in tail]
        argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
        pairs = [("%s=%s" % kv).encode() for kv in env.items()]
        envp = (ctypes.c_char_p * (len(pairs) + 1))(*pairs, None)
        error = call(322, fd, b"", argv, envp, 0x1000)
        os.write(1, json.dumps(error).encode())

    def copy(folder, then):
        path = os.path.join(tempfile.mkdtemp(prefix="probe-", dir=folder), "x")
        try:
            with open(path, "wb", opener=executable) as f:
                f.write(elf)
            return start(lambda: then(path))
        finally:
            shutil.rmtree(os.path.dirname(path))

    run = lambda path: os.execve(path, ["python3"] + tail, env)  # noqa: E731
    loader = "/lib64/ld-linux-x86-64.so.2"
    seen = {
        "memfd_path": start(lambda: run("/proc/self/fd/%d" % memfd())),
        "memfd_execveat": start(execveat),
        "ordinary": start(lambda: run(interpreter())),
    }
    for name, folder in (("tmp", "/tmp"), ("shm", "/dev/shm"), ("here", os.getcwd() if INSIDE else "/tmp")):
        try:
            seen[name] = copy(folder, run)
        except OSError as e:
            seen[name] = err_name(e.errno)
    seen["loader"] = copy(None, lambda path: os.execve(loader, [loader, path] + tail, env))
    script = os.path.join(scratch(), "s")
    with open(script, "w", opener=executable) as f:
        f.write("#!%s -S\n%s\n" % (interpreter(), code))
    seen["script"] = start(lambda: os.execve(script, [script], env))
    shutil.rmtree(os.path.dirname(script))
    return seen


def judge_a17(o, ctx):
    bad = []
    for name, got in o.items():
        if isinstance(got, list):
            if got != ["EPERM", "EPERM", 1]:
                bad.append(f"{name}: started less confined: unshare, io_uring_setup, no_new_privs = {got}")
        elif got not in ("EACCES", "EPERM", "ENOENT"):
            bad.append(f"{name}: {got}")
    if not isinstance(o["ordinary"], list):
        bad.append(f"no program could be started at all: {o['ordinary']}")
    return bad


def control_a17(o, ctx):
    return [f"{name}: {got}" for name, got in o.items() if got != ["ok", "EFAULT", 0]]


ROWS = [
    Row("A1", "io_uring", a1, {"*": "EPERM"}, control=REACHED, raw=True),
    Row("A2", "userfaultfd", a2, {"*": "EPERM"}, control={"*": "ok ENOSYS"}, raw=True),
    Row("A3", "bpf, perf_event_open", a3, {"*": "EPERM"}, control=REACHED, raw=True),
    Row(
        "A4",
        "keyrings",
        a4,
        {"proc_keys": "ENOENT EACCES", "*": "EPERM"},
        control={
            "keyctl_session": "ok ENOKEY",
            "add_key": "EFAULT",
            "request_key": "EFAULT",
            "proc_keys": "ok",
        },
        raw=True,
    ),
    Row(
        "A5",
        "ptrace, process_vm_*, pidfd_getfd, kcmp on the runner, siblings and outsiders",
        a5,
        {"child.*": "EPERM", "self.*": "EPERM", "*": "EPERM ESRCH"},
        control={
            "child.ptrace_attach": "ok ESRCH EIO",
            "child.process_madvise": "EINVAL EBADF EPERM ok",
            "*": "ok EINVAL ENOSYS",
        },
        raw=True,
        control_says="ptrace's attach is shown by PTRACE_SEIZE, so that the child is not left stopped",
    ),
    Row(
        "A6",
        "/proc/PID/mem of others, and one's own to write",
        a6,
        {"own": "EACCES undumpable", "*": "EACCES EPERM ENOENT"},
        contained={
            "own": "ok EACCES undumpable",
            "*": "EACCES EPERM ENOENT",
        },
        control={"*": "ok"},
        inline=True,
    ),
    Row("A7", "mounting, old calls and new", a7, {"*": "EPERM"}, control=REACHED, raw=True),
    Row(
        "A8",
        "namespaces by unshare and clone",
        a8,
        {"*": "EPERM"},
        control={"*": "ok", "unshare.newtime": "ok EINVAL"},
        raw=True,
    ),
    Row(
        "A9",
        "clone3, whose flags no filter can see",
        a9,
        {"*": "ENOSYS"},
        control={"bad_pointer": "EFAULT EINVAL", "*": "ok"},
        raw=True,
    ),
    Row(
        "A10",
        "setns, file handles",
        a10,
        {"*": "EPERM"},
        control={"name_to_handle_at": "ok EOVERFLOW", "open_by_handle_at": "EFAULT EBADF", "*": "EBADF"},
        raw=True,
    ),
    Row(
        "A11",
        "modules, kexec, reboot, swap, clocks, ports, LDT, personality",
        a11,
        {"*": "EPERM"},
        control=REACHED,
        raw=True,
    ),
    Row(
        "A12",
        "the x32 and 32-bit system call tables",
        a12,
        {"*": "SIGSYS ENOSYS"},
        control={"x32_*": "ENOSYS ok EFAULT EIO", "int80_*": "ok ENOSYS SIGSEGV"},
        control_says="where the kernel was built without x32 or IA-32 emulation it refuses them itself",
    ),
    Row("A13", "calls newer than the table", a13, {"*": "ENOSYS"}, control=REACHED, raw=True),
    Row(
        "A14",
        "the filter itself: a second one, a listener, no_new_privs taken back",
        a14,
        judge_a14,
        control=control_a14,
    ),
    Row(
        "A15",
        "no_new_privs, capabilities, uids, setuid programs",
        a15,
        judge_a15,
        control=control_a15,
        inline=True,
    ),
    Row(
        "A15-setid",
        "set-id bits on files of one's own",
        a15s,
        {"openat2.*": "ENOSYS EPERM", "fchmodat2.*": "ENOSYS EPERM", "*": "EPERM clean"},
        control={"fchmodat2.*": "set ENOSYS", "*": "set"},
    ),
    Row("A16", "core dumps, PR_SET_MM, securebits", a16, judge_a16, control=control_a16),
    Row(
        "A17",
        "programs from memory, shm, /tmp, through the loader, by #!: confined like their parent",
        a17,
        judge_a17,
        control=control_a17,
    ),
]
