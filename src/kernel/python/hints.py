"""One line after a failure that the author of the code can do something about; None after all
others.

Called by run.py with the uncaught exception. A hint says what the sandbox lacks and what to do
instead; it never guesses. NETWORK, REFUSED and PACKAGES are words, as are those of a module that was
not found: the engine, which knows the rule of the session, the names of packages and what its
caller may choose, puts the line in their place (src/engine/hint.c).
"""
import errno
import os
import re
import sys
CHAIN = 12  # how far causes and contexts are followed
WRITABLE = (
    "/workspace",
    "/tmp",
    "/dev/shm",
    "/dev/null",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/fd",
    "/app/results",
    "/home/user",
    "/mnt/data",
)
# Where people keep their files, and files that were handed over are looked for.
HOST = ("/home/", "/Users/", "/root/", "/mnt/", "/media/", "/srv/", "/opt/", "/data/", "/content/", "/kaggle/")

NETWORK = "network"
REFUSED = "refused"
PACKAGES = "packages"
NO_PACKAGES = "no packages"  # of a program that says itself what is wrong, unless nothing can be installed
MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*\Z")
FOLDERS = 200  # that are looked into for a module of the workspace
NO_ROOT = (
    "no root: system packages cannot be installed in this sandbox "
    "(apt, sudo and the like do not work); use what is installed"
)
NO_HOST = (
    "%s: this sandbox does not see files of the machine it runs on; files that were brought in "
    "are in /workspace"
)
NO_SOCKET = "a socket file cannot be made in /workspace, which sessions share; make it in /tmp"
READ_ONLY = "%s cannot be written: files go below /workspace (kept) or /tmp"

# Libraries whose connection errors do not derive from OSError, and what their names have in common.
_NET_LIBRARIES = {
    "requests",
    "httpx",
    "httpcore",
    "urllib3",
    "aiohttp",
    "urllib",
    "http",
    "websocket",
    "websockets",
    "smtplib",
    "ftplib",
}
_NET_NAMES = (
    "Connect",
    "URLError",
    "ProxyError",
    "Timeout",
    "MaxRetry",
    "NameResolution",
    "WebSocketAddress",
)
_NET_ERRNOS = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EAFNOSUPPORT}
_NET_FILES = ("/socket.py", "/asyncio/", "/http/client.py", "/urllib3/", "/httpcore/")

ROOT_COMMANDS = {
    "apt",
    "apt-get",
    "aptitude",
    "sudo",
    "su",
    "dpkg",
    "yum",
    "dnf",
    "apk",
    "brew",
    "snap",
}
_NET_STATUS = {("curl", 6), ("wget", 4), ("ping", 2)}  # the name of a host is not found
_GIT_REMOTE = {"clone", "fetch", "pull", "push", "ls-remote"}

PACKAGE_COMMANDS = {"pip", "pip3", "uv", "conda", "mamba", "poetry", "pipx", "easy_install"}
# What is named of the modules that are there, and how many of it.
USEFUL = (
    "numpy",
    "pandas",
    "scipy",
    "matplotlib",
    "sklearn",
    "statsmodels",
    "sympy",
    "seaborn",
    "requests",
    "PIL",
    "bs4",
    "lxml",
)
NAMED = 6
CLOSE = 0.75  # how alike two names are that are mixed up, as difflib counts


def hint(exc: BaseException):
    """The line, or None."""
    chain = _chain(exc)
    for one in chain:
        if isinstance(one, ModuleNotFoundError):
            text = _module(one)
            if text:
                return text
    if any(_is_socket_file(one) for one in chain):
        return NO_SOCKET
    if any(_is_network(one) for one in chain):
        return NETWORK
    if any(isinstance(one, ConnectionRefusedError) for one in chain):
        return REFUSED
    for one in chain:
        text = _of_program(one)
        if text:
            return text
    return _read_only(chain[0]) or _not_there(chain[0])


def _chain(exc: BaseException) -> list:
    chain, queue = [], [exc]
    while queue and len(chain) < CHAIN:
        one = queue.pop(0)
        if one is None or any(one is other for other in chain):
            continue
        chain.append(one)
        queue += [one.__cause__, None if one.__suppress_context__ else one.__context__]
        queue += [arg for arg in one.args[:4] if isinstance(arg, BaseException)]
        reason = getattr(one, "reason", None)  # URLError and MaxRetryError carry theirs
        queue += [reason] if isinstance(reason, BaseException) else []
        queue += list(getattr(one, "exceptions", ()))[:4]
    return chain


def _module(exc: ModuleNotFoundError):
    """The words for the engine, which knows the packages (src/packages/import_name.c); a line where
    the answer is among the files here; None.
    """
    name = exc.name
    if not isinstance(name, str) or not MODULE.match(name):
        return None
    top = name.partition(".")[0]
    known = sys.modules.get(top)
    if known is not None:  # a part of something that is there: only of a namespace others can add to
        spec = getattr(known, "__spec__", None)
        shared = top != name and hasattr(known, "__path__") and getattr(spec, "origin", 1) is None
        return "module %s - -" % name if shared else None
    standard = getattr(sys, "stdlib_module_names", ())
    if top in standard:
        return "standard " + top if top == name and _is_absent(top) else None
    there = _modules()
    if top in there:
        return None  # what is missing is a part of it
    near, place = _close_to(top, there), _below(top)
    if place and (not near or near.lower() != top.lower()):
        return "%s.py lies in %s/: `import %s.%s`, or put %s into sys.path" % (
            top,
            place,
            place,
            top,
            ascii(place),
        )
    named = ",".join([one for one in USEFUL if one in there][:NAMED])
    return "module %s %s %s" % (top, near or "-", named or "-")


def _is_absent(name: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(name) is None
    except (ImportError, ValueError):
        return False


def _below(name: str):
    """The folder of the working one, by name, in which there is a module of that name; None."""
    try:
        with os.scandir(".") as found:
            for _turn, one in zip(range(FOLDERS), found):
                if one.name.isidentifier() and os.path.isfile(os.path.join(one.name, name + ".py")):
                    return one.name
    except OSError:
        pass
    return None


def _modules() -> set:
    """Names that can be imported, without importing any."""
    from pkgutil import iter_modules

    there = set(sys.builtin_module_names) | set(getattr(sys, "stdlib_module_names", ()))
    there.update(one.name for one in iter_modules() if not one.name.startswith("_"))
    return there


def _close_to(name: str, there: set):
    """The one that was meant: the same in another case, or a few letters off."""
    from difflib import get_close_matches

    there = [one for one in there if MODULE.match(one)]
    for other in there:
        if other.lower() == name.lower():
            return other
    if len(name) < 4:
        return None
    return next(iter(get_close_matches(name, there, 1, CLOSE)), None)


def _is_socket_file(exc: BaseException) -> bool:
    """asyncio's bind() to a path names no file."""
    if not isinstance(exc, PermissionError) or exc.errno != errno.EACCES or exc.filename is not None:
        return False
    tb = exc.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_name == "create_unix_server":
            return True
        tb = tb.tb_next
    return False


def _is_network(exc: BaseException) -> bool:
    kind = type(exc)
    if isinstance(exc, OSError):
        if kind.__name__ in ("gaierror", "herror") and kind.__module__ in ("socket", "_socket"):
            return True
        if exc.errno in _NET_ERRNOS:
            return True
        if (
            exc.errno in (errno.EPERM, errno.EACCES)
            and exc.filename is None
            and _raised_in(exc, _NET_FILES)
        ):
            return True
    if (
        kind.__module__.split(".")[0] not in _NET_LIBRARIES
        or "HTTPStatus" in kind.__name__
        or kind.__name__ == "HTTPError"
    ):
        return False
    if isinstance(exc, ConnectionRefusedError) or "refused" in _text(exc):
        return False  # the address was reached: a server of the session's own that is not up
    return any(word in kind.__name__ for word in _NET_NAMES)


def _text(exc: BaseException) -> str:
    try:
        return str(exc)[:2000].lower()
    except Exception:
        return ""


def _raised_in(exc: BaseException, files: tuple) -> bool:
    tb = exc.__traceback__
    while tb is not None:
        name = tb.tb_frame.f_code.co_filename
        if any(part in name for part in files):
            return True
        tb = tb.tb_next
    return False


def of_command(command, status: int):
    """The line for a shell line, or an argument list, that failed with a status; None."""
    if isinstance(command, (list, tuple)):
        words = [os.fsdecode(word) for word in command[:4] if isinstance(word, (str, bytes))]
    elif isinstance(command, (str, bytes)):
        words = os.fsdecode(command).split()[:4]
    else:
        words = []
    program = os.path.basename(words[0]) if words else ""
    if program.startswith("python") and words[1:2] == ["-m"]:
        program = "".join(words[2:3])
    if program in ROOT_COMMANDS:
        return NO_ROOT
    if program in PACKAGE_COMMANDS:
        return NO_PACKAGES if program in ("pip", "pip3", "uv") else PACKAGES
    if (program, status) in _NET_STATUS or (program == "git" and set(words[1:3]) & _GIT_REMOTE):
        return NETWORK
    return REFUSED if program == "curl" and status == 7 else None


def _of_program(exc: BaseException):
    if isinstance(exc, (FileNotFoundError, PermissionError)) and isinstance(
        exc.filename, (str, bytes)
    ):
        known = of_command([exc.filename], 127)
        return known if _raised_in(exc, ("/subprocess.py", "/asyncio/")) else None
    if type(exc).__name__ == "CalledProcessError":
        return of_command(getattr(exc, "cmd", None), getattr(exc, "returncode", 1))
    return None


def _read_only(exc: BaseException):
    if not isinstance(exc, OSError) or exc.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
        return None
    name = exc.filename2 or exc.filename
    if isinstance(name, bytes):
        name = os.fsdecode(name)
    if not isinstance(name, str) or not name:
        return None
    path = os.path.normpath(os.path.join(_cwd(), name))
    if any(path == top or path.startswith(top + "/") for top in WRITABLE):
        return None
    if exc.errno == errno.EPERM and not os.path.isabs(name):
        return None
    return READ_ONLY % path[:200]


def _not_there(exc: BaseException):
    """A path of the author's own machine: absolute, and in a folder that no sandbox has."""
    if not isinstance(exc, FileNotFoundError) or not isinstance(exc.filename, (str, bytes)):
        return None
    name = os.fsdecode(exc.filename)
    if name[1:3] in (":\\", ":/"):  # C:\data.csv
        return NO_HOST % name[:200]
    path = os.path.normpath(name)
    if not path.startswith(HOST) or os.path.exists(os.path.dirname(path)):
        return None
    return NO_HOST % path[:200]


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"
