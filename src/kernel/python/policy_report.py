"""What the policy holds for the run that is on, and what it has refused.

The other modules of the policy ask here; policy_run.py sets it at the start of a run. Invariants:
a refusal is an exception in the code and a record for the END frame, whether or not the code
catches the exception; records are bounded.
"""
import sys

MAX_RECORDS = 100
MAX_TEXT = 300

_policy = None  # of the run that is on, or the last one; None: open
_names: dict = {}  # the builtins that tell user code from all other
_main: dict = {}  # the variables of user code
_records: list = []
_seen: set = set()
_getframe = sys._getframe
_module_of = type.__dict__["__module__"].__get__


class PolicyError(Exception):
    """Something that the policy of this sandbox does not allow."""


class ImportRefused(PolicyError, ImportError):
    """An import that the policy does not allow."""


class MemberRefused(PolicyError, AttributeError):
    """A member of a module that the policy does not show."""


class WriteRefused(PolicyError, PermissionError):
    """A file that is opened for writing without the right to."""


PolicyError.__module__ = "builtins"
for _kind, _name in (
    (ImportRefused, "ImportError"),
    (MemberRefused, "AttributeError"),
    (WriteRefused, "PermissionError"),
):
    _kind.__module__, _kind.__name__, _kind.__qualname__ = "builtins", _name, _name
_KINDS = {"P201": ImportRefused, "P207": MemberRefused, "P205": WriteRefused}


def begin(policy, user_builtins: dict, main_names: dict) -> None:
    global _policy, _names, _main
    _policy, _names, _main = policy, user_builtins, main_names
    _records.clear()
    _seen.clear()


def policy():
    return _policy


def user_builtins() -> dict:
    return _names


def main_names() -> dict:
    return _main


def records() -> list:
    return list(_records)


def is_user_frame(frame) -> bool:
    """Frames of user code, and no others, run on its builtins."""
    return frame.f_builtins is _names


def user_frame(frame):
    """The innermost frame of user code, from this one on; None."""
    while frame is not None and frame.f_builtins is not _names:
        frame = frame.f_back
    return frame


def is_user_class(kind) -> bool:
    try:
        return _module_of(kind) == "__main__"
    except AttributeError:
        return False


def record(rule: str, text: str) -> None:
    frame = user_frame(_getframe(1))
    line = frame.f_lineno if frame is not None else None
    key = (rule, line, text)
    if key in _seen or len(_records) >= MAX_RECORDS:
        return
    _seen.add(key)
    _records.append({"id": rule, "line": line, "text": text[:MAX_TEXT]})


def refuse(rule: str, text: str, **more) -> None:
    """Records the refusal and raises it."""
    text = text[:MAX_TEXT]
    record(rule, text)
    raise _KINDS.get(rule, PolicyError)(text, **more)
