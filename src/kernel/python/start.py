"""The START frame: makes a fresh copy of the zygote into this sandbox's session.

boot.py calls settle() in the zygote: what all sessions have in common is set there, because each
page a session writes to is a page of its own. _krait calls
start() in a session for which the START frame has something special to say, before any user code;
it sets what differs. What fails here is raised, and the session is not used.
Landlock comes after everything but threads, because a mount attached after it could not be
reached, and before those, because it binds only the thread that asks for it and the later ones.
"""
import _signal
import math
import os
import sys
import threading
import time

import _krait
from krait_kernel import channel, forktricks, names, preload, streams

STACK = 1 << 20  # of a thread; the default of 8 MB would count against RLIMIT_DATA
HOME = "/workspace"
PROGRAMS = os.path.join(os.path.dirname(__file__), "bin")  # python and pip of this interpreter
VENV = "/venv"  # the sandbox's environment, where it has one
SITE = "%s/lib/python%d.%d/site-packages" % ((VENV,) + sys.version_info[:2])
OWN = "KRAIT_"  # variables for ourselves: the C side reads them in a new session, user code never
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
MEMORY = {"SC_PHYS_PAGES": "MemTotal:", "SC_AVPHYS_PAGES": "MemFree:"}  # lines of /proc/meminfo

_cpus = 1  # what the zygote was settled for, then what the session has
_sched_getaffinity = os.sched_getaffinity
_getloadavg = os.getloadavg
_sysconf = os.sysconf
_posix_spawn, _waitpid = os.posix_spawn, os.waitpid
_own: list = []  # names with OWN that the zygote still has


def base_environment() -> dict:
    """What every session has before its own variables."""
    folder = os.path.dirname(sys.executable or "")
    path = ["/usr/local/bin", "/usr/bin", "/bin"]
    base = {
        "HOME": HOME,
        "USER": "user",
        "LOGNAME": "user",
        "SHELL": "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
        "PATH": ":".join([VENV + "/bin", PROGRAMS] + ([folder] if folder and folder not in path else []) + path),
        "MPLBACKEND": "Agg",  # for children; in this process the backend is ours
        "MPLCONFIGDIR": "/tmp/.matplotlib",
        "PYTHONDONTWRITEBYTECODE": "1",  # no __pycache__ among the user's files,
        "XDG_CACHE_HOME": "/tmp/.cache",  # nor fontconfig's and pip's
        "PYTHONIOENCODING": "utf-8:backslashreplace",
    }
    base.update((name, str(_cpus)) for name in THREADS)
    return base


def cpu_count():
    """Return the number of CPUs this session may use."""
    return _cpus


def sched_getaffinity(pid):
    """Return the processors that a process may use: as many as the session, of those it has.

    A session is not bound to single processors; its share of time is limited instead.
    """
    return set(sorted(_sched_getaffinity(pid))[:_cpus])


def getloadavg():
    """Return the cell's load; sysinfo(2), which the C library asks, gives the machine's."""
    try:
        with open("/proc/loadavg") as f:
            return tuple(float(field) for field in f.read().split()[:3])
    except OSError:
        return _getloadavg()


def sysconf(name):
    """Return a setting of the system; of memory the cell's, where sysinfo(2) gives the machine's."""
    field = MEMORY.get(name)
    if field is None:
        return _sysconf(name)
    try:
        with open("/proc/meminfo") as f:
            kib = next(int(line.split()[1]) for line in f if line.startswith(field))
    except (OSError, StopIteration):
        return _sysconf(name)
    return kib * 1024 // _sysconf("SC_PAGESIZE")


def on_urgent(_signal, _frame) -> None:
    """A program of the cell that asks for packages has something to say (relay.py). SIGURG, because
    a process without this handler ignores it.
    """
    try:
        from krait_kernel import relay

        relay.turn()
    except Exception:
        pass  # the program says that it has no answer


def on_packaged() -> bool:
    """An answer for such a program is next on the channel, which the session reads for something
    else. False: it is to be dropped.
    """
    try:
        from krait_kernel import relay

        return relay.take()
    except Exception:
        return False


def on_terminal(number: int) -> None:
    """The terminal of that number begins: its programs may ask for packages, as those of a run."""
    channel.run = number


def system(command):
    """Execute the command in a subshell.

    os.system() waits in C, where no handler of a signal runs, so that pip would have no answer.
    """
    shell = os.fsencode(command)
    pid = _posix_spawn("/bin/sh", ["sh", "-c", shell], os.environ)
    try:
        return _waitpid(pid, 0)[1]
    except BaseException:
        _waitpid(pid, os.WNOHANG)
        raise


def settle() -> None:
    """In the zygote, after the last import: what every session finds, unless START says
    otherwise.
    """
    base = base_environment()
    contained = "KRAIT_SCRATCH" in os.environ  # then start() is called in every session
    for name in list(os.environ):
        if contained and name.startswith(OWN):
            _own.append(name)
        elif name not in base:
            del os.environ[name]
    os.environ.update(base)
    time.tzset()
    os.cpu_count = cpu_count
    if hasattr(os, "process_cpu_count"):
        os.process_cpu_count = cpu_count
    os.sched_getaffinity = sched_getaffinity
    os.getloadavg = getloadavg
    os.sysconf = sysconf
    os.system = system
    _signal.signal(_signal.SIGURG, on_urgent)
    os.umask(0o022)
    threading.stack_size(STACK)
    sys.dont_write_bytecode = True
    sys.path.insert(0, "")
    preload.add_site(SITE)
    names.site = SITE
    streams.settle()


def use_venv() -> None:
    """This session has an environment. What it imports from is set in the zygote for all; an
    interpreter that it starts is that of the environment.
    """
    sys.prefix = sys.exec_prefix = VENV
    sys.executable = VENV + "/bin/python"
    sys.path_importer_cache.pop(SITE, None)  # looked for before it was mounted
    os.environ["VIRTUAL_ENV"] = VENV
    channel.venv = True


def start(payload: bytes) -> bytes:
    spec = channel.loads(payload)
    cpus = max(1, math.ceil(float(spec.get("cpus") or 1)))
    channel.folder = _folder(spec)
    if spec.get("venv"):
        use_venv()
    _environment(spec, cpus)
    os.chdir(channel.folder or spec.get("cwd") or HOME)
    if spec.get("mode") == "script":
        streams.use_script_stdin()
    streams.ready()
    rlimits = {
        str(name): int(value) for name, value in (spec.get("rlimits") or {}).items() if value
    }
    if rlimits:
        _krait.setrlimits(rlimits)
    abi = 0
    if spec.get("landlock"):
        abi = int(_krait.restrict(_paths(spec)) or 0)
    forktricks.blas_threads(cpus)
    return channel.dumps({"landlock_abi": abi}).encode("utf-8")


def _folder(spec: dict):
    """What stands for /workspace at level contained, which has no mounts of its own: the host's
    folder, or a scratch one. None in a cell.
    """
    scratch = _krait.scratch()
    return None if scratch is None else spec.get("host_workspace") or scratch


def _paths(spec: dict) -> list:
    """What a contained session may reach beside the system's programs; a cell's own paths are
    fixed.
    """
    scratch = _krait.scratch()
    if scratch is None:
        return []
    paths = [
        (scratch, True),
        (PROGRAMS, False),
        (sys.prefix, False),
        (sys.base_prefix, False),
        ("/etc/python%d.%d" % sys.version_info[:2], False),
    ]
    if spec.get("host_workspace"):
        paths.append((spec["host_workspace"], not spec.get("read_only")))
    return paths


def _environment(spec: dict, cpus: int) -> None:
    """What is not as settle() left it. os.cpu_count() is what the session may use, not what the
    machine has.
    """
    global _cpus
    environ = os.environ
    for name in _own:
        del environ[name]
    _own.clear()
    if cpus != _cpus:
        _cpus = cpus
        for name in THREADS:
            environ[name] = str(cpus)
    if channel.folder:
        scratch = _krait.scratch()
        environ["HOME"] = channel.folder
        environ["TMPDIR"] = scratch
        environ["MPLCONFIGDIR"] = scratch + "/.matplotlib"
        environ["XDG_CACHE_HOME"] = scratch + "/.cache"
    home = channel.folder or HOME
    if spec.get("read_only") or (os.path.isdir(home) and not os.access(home, os.W_OK)):
        environ["HOME"] = _krait.scratch() or "/tmp"  # programs keep their settings there
    extra = spec.get("env")
    if not extra:
        return
    for name, value in extra.items():
        if value is None:
            environ.pop(name, None)
        else:
            environ[name] = str(value)
    if "TZ" in extra:
        time.tzset()
