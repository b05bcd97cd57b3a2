"""The probes of `krait doctor`: what a session tries against its own walls.

This text is carried inside the program and sent as the code of a run, so no session can import it.
doctor_app.c puts `main({…})` behind it, with the name of one probe and what stands outside as bait.
A probe answers with one line of JSON, name -> word: "ok" for what went through, the errno's name
for what was refused, "skipped" for what has no bait. Which word is right is judged outside
(doctor_judge.c); nothing in here knows it. Plain Python from 3.8 on; leaves no process and no file
behind.
"""
import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
import signal
import socket
import time

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long


def word(fn, *args):
    """fn(*args) as one word."""
    try:
        fn(*args)
        return "ok"
    except OSError as e:
        return errno.errorcode.get(e.errno, "errno %s" % e.errno)
    except Exception as e:
        return type(e).__name__


def syscall(number, *args):
    ctypes.set_errno(0)
    words = [ctypes.c_void_p(a & (1 << 64) - 1) if isinstance(a, int) else a for a in args]
    r = LIBC.syscall(ctypes.c_long(number), *words, *[ctypes.c_void_p(0)] * (6 - len(words)))
    if r == -1:
        raise OSError(ctypes.get_errno(), "syscall")
    return r


def in_child(fn, *args):
    """fn(*args) in a fork, whose ids may change: the text it returns, or how it ended."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write_end, str(fn(*args)).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    text = os.read(read_end, 4096).decode()
    os.close(read_end)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return "signal %d" % os.WTERMSIG(status)
    return text or "exit %d" % os.WEXITSTATUS(status)


def read(path):
    with open(path) as f:
        return f.read(65536)


def first_terminal():
    """Numbered anew in each cell: another number says that others count along."""
    try:
        return os.ttyname(os.openpty()[1])
    except OSError as e:
        return errno.errorcode.get(e.errno, "errno %s" % e.errno)


def lock(path):
    """Wants a lock alone; one that is held outside on the same inode is in the way."""
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(fd)


def touch(path):
    """Opens for writing what is not there, and removes it if that went through."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    os.unlink(path)


# ---- looking around ----

def id_map():
    try:
        lines = read("/proc/self/uid_map").splitlines()
        return " ".join("%s=%s" % tuple(line.split()[:2]) for line in lines)
    except OSError:
        return "unknown"


def status():
    try:
        lines = read("/proc/self/status").splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)
    except OSError:
        return {}


def namespaces(outside):
    """own, shared with the host, or unknown where there is no /proc."""
    seen = {}
    for name, link in outside.items():
        try:
            seen["ns_" + name] = "shared" if os.readlink("/proc/self/ns/" + name) == link else "own"
        except OSError:
            seen["ns_" + name] = "unknown"
    return seen


def capabilities():
    """Every set in which there is still something, or none."""
    have = status()
    if have:
        sets = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
        return " ".join(n for n in sets if int(have.get(n, "1"), 16)) or "none"
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if LIBC.capget(header, data) != 0:
        return "unknown"
    bounding = any(LIBC.prctl(23, number, 0, 0, 0) == 1 for number in range(64))
    return "some" if any(data) or bounding else "none"


def process_count():
    try:
        return str(sum(1 for name in os.listdir("/proc") if name.isdigit()))
    except OSError as e:
        return errno.errorcode.get(e.errno, "?")


def interfaces():
    try:
        lines = read("/proc/self/net/dev").splitlines()[2:]
        return " ".join(line.split(":")[0].strip() for line in lines) or "none"
    except OSError:
        return "unknown"


def cgroup_paths():
    try:
        lines = read("/proc/self/cgroup").splitlines()
        return " ".join(sorted({line.split(":", 2)[2] for line in lines}))[:200]
    except OSError:
        return "unknown"


# ---- reaching out ----

def same_folder(path, device, inode):
    """ok if this is the very folder of the host, hidden if another one has its name."""
    try:
        st = os.stat(path)
    except OSError as e:
        return errno.errorcode.get(e.errno, "?")
    return word(os.listdir, path) if (st.st_dev, st.st_ino) == (device, inode) else "hidden"


def make_socket(family):
    kind = socket.SOCK_RAW if family == socket.AF_NETLINK else socket.SOCK_STREAM
    socket.socket(family, kind).close()


def connect_abstract(name):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(2)
        s.connect("\0" + name)


def look_at_shm(number):
    if LIBC.shmctl(number, 2, ctypes.create_string_buffer(256)) < 0:  # IPC_STAT
        raise OSError(ctypes.get_errno(), "shmctl")


def landlock_rooms(create, restrict):
    """Landlock domains this process can still be put into: the kernel stops at 16, and each one it
    is in already costs one."""
    for count in range(32):
        try:
            fd = syscall(create, ctypes.byref(ctypes.c_uint64(1)), 8, 0)
            syscall(restrict, fd, 0)
            os.close(fd)
        except OSError as e:
            return count if e.errno == errno.E2BIG else errno.errorcode.get(e.errno, "?")
    return 32


def abort():
    """What is left of a process that crashes."""
    pid = os.fork()
    if pid == 0:
        os.abort()
    end = os.waitpid(pid, 0)[1]
    return "core" if os.WCOREDUMP(end) else "none"


def probe_battery(p):
    """Every wall of the cell, tried once."""
    seen = namespaces(p["namespaces"])
    seen.update({
        "uid": str(os.getuid()),
        "processes": process_count(),
        "hostname": os.uname().nodename,
        "usr_owner": str(os.stat("/usr").st_uid),
        "cgroup": cgroup_paths(),
        "interfaces": interfaces(),
        "capabilities": capabilities(),
        "no_new_privs": str(LIBC.prctl(39, 0, 0, 0, 0)),  # PR_GET_NO_NEW_PRIVS
        "seccomp": str(LIBC.prctl(21, 0, 0, 0, 0)),  # PR_GET_SECCOMP
        "become_root": in_child(lambda: word(os.setuid, 0)),
        "signal": word(os.kill, p["pid"], 0) if p["pid"] else "skipped",
        "file": word(read, p["file"]) if p["file"] else "skipped",
        "home": same_folder(*p["home"]) if p["home"] else "skipped",
        "shadow": word(read, "/etc/shadow"),
        "write_usr": word(touch, "/usr/.krait-doctor"),
        "write_etc": word(touch, "/etc/.krait-doctor"),
        "inet": word(make_socket, socket.AF_INET),
        "netlink": word(make_socket, socket.AF_NETLINK),
        "abstract": word(connect_abstract, p["abstract"]) if p["abstract"] else "skipped",
        "shm": word(look_at_shm, p["shm"]) if p["shm"] is not None else "skipped",
        "proc_self": word(read, "/proc/self/status"),
        "proc_host": word(read, "/proc/interrupts"),
        "proc_sys": word(os.listdir, "/proc/sys/kernel/random"),
        "gauges": word(read, "/proc/meminfo"),
        "write_gauges": word(os.open, "/proc/meminfo", os.O_WRONLY),
        "lock_usr": word(lock, "/usr") if p["lock_usr"] else "skipped",
        "lock_null": word(lock, "/dev/null") if p["lock_null"] else "skipped",
        "terminal": in_child(first_terminal),
        "landlock": in_child(landlock_rooms, *p["landlock"]),
        "core_limit": str(resource.getrlimit(resource.RLIMIT_CORE)[1]),
        "core": abort(),
    })
    for name, number, args in p["calls"]:
        seen["call_" + name] = in_child(lambda: word(syscall, number, *args))
    return seen


# ---- limits, each in a small cell of its own ----

def probe_data(p):
    """What the data zygote has imported before it forked us."""
    import sys
    names = [n for n in ("numpy", "pandas", "scipy", "matplotlib") if n in sys.modules]
    return {"libraries": ", ".join("%s %s" % (n, sys.modules[n].__version__) for n in names)}


def probe_own_memory(p):
    return {"own": word(lambda: bytearray(p["bytes"]))}


def probe_shared_memory(p):
    """Shared pages are no process's own, so that only a cgroup counts them."""
    with mmap.mmap(-1, p["bytes"]) as pages:
        for at in range(0, p["bytes"], 4096):
            pages[at] = 1
    return {"shared": "ok"}


def probe_processes(p):
    children, how = [], "ok"
    try:
        while len(children) < p["most"]:
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)
                signal.pause()
                os._exit(0)
            children.append(pid)
    except OSError as e:
        how = errno.errorcode.get(e.errno, "?")
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return {"started": str(len(children)), "how": how}


def probe_processor(p):
    began, used = time.monotonic(), time.process_time()
    while time.monotonic() - began < p["seconds"]:
        pass
    return {"cores": "%.2f" % ((time.process_time() - used) / (time.monotonic() - began))}


def fill(folder, most):
    """Bytes that fit into one file of a folder, and why it ended."""
    path, size, how = os.path.join(folder, ".krait-doctor"), 0, "ok"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as e:
        return 0, errno.errorcode.get(e.errno, "?")
    try:
        while size < most:
            size += os.write(fd, bytes(65536))
    except OSError as e:
        how = errno.errorcode.get(e.errno, "?")
    os.close(fd)
    os.unlink(path)
    return size, how


def crowd(folder, most):
    """Files that fit into a folder, and why it ended."""
    where, count, how = os.path.join(folder, ".krait-doctor"), 0, "ok"
    os.mkdir(where)
    try:
        while count < most:
            os.close(os.open(os.path.join(where, str(count)), os.O_WRONLY | os.O_CREAT))
            count += 1
    except OSError as e:
        how = errno.errorcode.get(e.errno, "?")
    for name in os.listdir(where):
        os.unlink(os.path.join(where, name))
    os.rmdir(where)
    return count, how


def probe_disk(p):
    seen = {}
    for name, folder in (("workspace", os.getcwd()), ("tmp", "/tmp"), ("shm", "/dev/shm")):
        size, seen[name] = fill(folder, p["bytes"])
        seen[name + "_bytes"] = str(size)
    count, seen["inodes"] = crowd(os.getcwd(), p["files"])
    seen["files"] = str(count)
    return seen


def probe_folder(p):
    """Writes what the engine finds again outside, then more than may be."""
    with open("word", "w") as f:
        f.write(p["word"])
    with open("much", "wb") as f:
        f.write(bytes(p["bytes"]))
    time.sleep(p["seconds"])
    return {"folder": "ok"}


def main(p):
    answer = globals()["probe_" + p["probe"]](p)
    answer["map"] = id_map()
    print(json.dumps(answer), flush=True)
