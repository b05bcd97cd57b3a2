"""The audit hook: what the interpreter itself reports while user code runs under `restricted`.

It is the line behind the judge and the guards. An operation counts as user code's own if a frame
of user code began it, and as a library's if user code has called a module that the policy allows,
which does inside itself what it does. Installed once in a session, before the first run; it
cannot be taken out. Invariants: events that no rule is for cost one look into a dict; the hook
never raises where there is no user code on the stack.
"""
import sys
from types import CodeType

from krait_kernel import policy_names as names, policy_report as report

_getframe = sys._getframe
_installed = False
_OURS = "krait_kernel"
_IMPORT = "<frozen importlib"  # how the names of the files of the import begin
# Events of programs and processes: user code may bring them about through an allowed library alone.
_STARTS = {
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.startfile",
    "os.system",
    "pty.spawn",
    "subprocess.Popen",
}
# Beginnings of events that user code's own frames may cause if the module of that name is allowed.
_MODULES = {
    "_thread": "threading",
    "code": None,
    "cpython": None,
    "ctypes": "ctypes",
    "fcntl": "fcntl",
    "ftplib": "ftplib",
    "function": None,
    "gc": "gc",
    "glob": "glob",
    "imaplib": "imaplib",
    "marshal": "marshal",
    "mmap": "mmap",
    "msvcrt": None,
    "object": None,
    "os": "os",
    "pdb": "pdb",
    "resource": "resource",
    "setopencodehook": None,
    "shutil": "shutil",
    "signal": "signal",
    "socket": "socket",
    "sqlite3": "sqlite3",
    "sys": "sys",
    "syslog": "syslog",
    "tempfile": "tempfile",
    "webbrowser": "webbrowser",
}
_IGNORED = {"sys._getframe", "object.__setattr__", "object.__delattr__", "gc.get_objects"}
_WRITES = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND
_checks: dict = {}  # event -> what looks at it, or None


def install() -> None:
    global _installed
    if not _installed:
        _installed = True
        sys.addaudithook(_hook)


def _hook(event: str, args: tuple) -> None:
    try:
        check = _checks[event]
    except KeyError:
        check = _checks[event] = _check_of(event)
    if check is not None and report.policy() is not None:
        check(event, args, _getframe(1))


def _check_of(event: str):
    special = _SPECIAL.get(event)
    if special is not None or event in _IGNORED:
        return special
    if event in _STARTS:
        return _start
    return _direct if event.partition(".")[0] in _MODULES else None


def _entered(frame):
    """The module that user code has called, and that this frame works for; "" if the frame is user
    code's own, None if there is no user code on the stack.
    """
    inner = None
    while frame is not None and not report.is_user_frame(frame):
        inner, frame = frame, frame.f_back
    if frame is None:
        return None
    return "" if inner is None else str(inner.f_globals.get("__name__", "?"))


def _start(event: str, _args: tuple, frame) -> None:
    module = _entered(frame)
    if module is None or module.startswith(_OURS):
        return
    if module == "" or not report.policy().allows(module):
        report.refuse("P206", "Operation '%s' is not allowed" % event)


def _direct(event: str, args: tuple, frame) -> None:
    if not report.is_user_frame(frame):
        return
    module = _MODULES[event.partition(".")[0]]
    if module is None or not report.policy().allows(module):
        shown = "%s of '%s'" % (event, args[1]) if event == "object.__getattr__" and len(args) > 1 else event
        report.refuse("P206", "Operation '%s' is not allowed" % shown)


def _open(event: str, args: tuple, frame) -> None:
    """Files that are written past the guard of open()."""
    flags = args[2] if len(args) > 2 and type(args[2]) is int else 0
    if flags & _WRITES and not report.policy().writes and report.is_user_frame(frame):
        report.refuse("P205", "Opening a file for writing is not allowed: the profile filesystem is needed")


def _compile(event: str, _args: tuple, frame) -> None:
    if report.is_user_frame(frame):
        report.refuse("P203", "Operation '%s' is not allowed" % event)


def _exec(event: str, args: tuple, frame) -> None:
    """Code that a library has made of text: dataclasses, namedtuple, type hints, sympy."""
    home = str(frame.f_globals.get("__name__", ""))
    if home.startswith(_OURS):
        return
    if frame.f_code.co_filename.startswith(_IMPORT):
        return _module(args, frame)
    if report.is_user_frame(frame):
        report.refuse("P203", "Operation '%s' is not allowed" % event)
    if not _is_asked(frame) or not args or type(args[0]) is not CodeType:
        return
    word = _word_of(args[0])
    if word is None and home == "typing":
        word = _hint_of(args[0], frame)
    if word is not None:
        report.refuse("P208", "Text that a library runs as code uses '%s', which is not allowed" % word[:100])


def _is_asked(frame) -> bool:
    """Whether user code has called what runs here; not the text of a library that is being imported."""
    while frame is not None and not report.is_user_frame(frame):
        if frame.f_code.co_filename.startswith(_IMPORT):
            return False
        frame = frame.f_back
    return frame is not None


def _module(args: tuple, frame) -> None:
    """A module that a library loads: not from where user code can write."""
    file = args[0].co_filename if args and type(args[0]) is CodeType else ""
    if is_own_file(file) and report.user_frame(frame) is not None:
        report.refuse("P201", "Import of the file '%s' is not allowed in sandbox" % file[:200])


def is_own_file(file: str) -> bool:
    """Whether user code can write there; policy_modules puts its own here."""
    return False


def _word_of(code):
    """A name in the code, or in code that is in it, that such text may not use; None."""
    stack, policy = [code], report.policy()
    while stack:
        one = stack.pop()
        for name in one.co_names:
            if not names.may_stand_in_text(name) or (name in names.POWERS and not policy.allows(name)):
                return name
        stack.extend(const for const in one.co_consts if type(const) is CodeType)
    return None


def _hint_of(code, frame):
    """A type hint that stands in a string names types, and nothing else, of other modules."""
    space = frame.f_locals.get("globalns")
    if space is None or space is report.main_names() or type(space) is not dict:
        return None
    for name in code.co_names:
        value = space.get(name)
        if value is not None and not isinstance(value, type) and type(value).__module__ != "typing":
            return name
    return None


def _unpickled(_event: str, args: tuple, frame) -> None:
    if report.user_frame(frame) is None:
        return
    module, name = (str(args[0]), str(args[1])) if len(args) > 1 else ("?", "?")
    policy = report.policy()
    plain = module in ("builtins", "__builtin__") and name in _PLAIN or module == "copyreg" and name in _REBUILD
    if not (plain or policy.allows(module) or module in ("__main__", "_codecs")) or not names.may_compute(name):
        report.refuse("P209", "Unpickling '%s.%s' is not allowed" % (module[:100], name[:100]))


_PLAIN = frozenset(
    "bool bytearray bytes complex dict float frozenset int list object range set slice str tuple".split()
)
_REBUILD = ("_reconstructor", "__newobj__", "__newobj_ex__")
_SPECIAL = {
    "open": _open,
    "compile": _compile,
    "exec": _exec,
    "pickle.find_class": _unpickled,
}
