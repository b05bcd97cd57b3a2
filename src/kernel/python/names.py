"""Which names a run has bound, and small services around user code's namespace. Used by run.py
and script.py.
"""
import os
import sys
from ast import List, Name, Starred, Tuple, walk
from types import ModuleType

MAX_NAME = 200  # characters of a name that is reported
_getcwd = os.getcwd
_environ = os.environ
site = None  # the folder of the sandbox's packages
_lent = None  # what the variables lent to this run were before it


def snapshot(names: dict) -> dict:
    """What the names are bound to, without keeping it alive."""
    return {name: id(value) for name, value in names.items()}


def changed(before: dict, after: dict, tree, complete: bool, modules: bool = False) -> list:
    """Names the run has bound, in the order in which its text binds them, then those bound in
    other ways. A complete run has also bound what looks the same as before; of a failed one only
    differences count. No modules unless they are asked for, nothing with a leading underscore, no
    name that is no text.
    """
    order = bound(tree.body) if tree is not None else {}
    found = [
        name
        for name in order
        if name in after and (complete or before.get(name) != id(after[name]))
    ]
    for name, value in list(after.items()):
        if name not in order and before.get(name) != id(value):
            found.append(name)
    return [
        name
        for name in found
        if isinstance(name, str)
        and len(name) <= MAX_NAME
        and not name.startswith("_")
        and (modules or not isinstance(after.get(name), ModuleType))
    ]


def lend_environment(given: dict) -> None:
    """Variables of the environment for one run."""
    global _lent
    take_environment_back()
    _lent = {name: _environ.get(name) for name in given}
    _environ.update(given)


def take_environment_back() -> None:
    """Whatever the run did to them, they are as before it."""
    global _lent
    lent, _lent = _lent, None
    for name, value in (lent or {}).items():
        if value is None:
            _environ.pop(name, None)
        else:
            _environ[name] = value


def binds(body: list, name: str) -> bool:
    return name in bound(body)


def bound(body: list) -> dict:
    """Names that statements bind at the top level, as the keys of a dict, in order. Functions
    and classes are not entered.
    """
    found: dict = {}
    for statement in body:
        _statement(statement, found)
    return found


def _statement(node, found: dict) -> None:
    kind = type(node).__name__
    if kind in ("FunctionDef", "AsyncFunctionDef", "ClassDef"):
        found[node.name] = True
        return
    if kind in ("Import", "ImportFrom"):
        for alias in node.names:
            found[alias.asname or alias.name.split(".")[0]] = True
        return
    for target in getattr(node, "targets", None) or (
        [node.target] if hasattr(node, "target") else []
    ):
        if kind != "Delete" and not (kind == "AnnAssign" and node.value is None):
            _target(target, found)
    for item in getattr(node, "items", ()):  # with
        if item.optional_vars is not None:
            _target(item.optional_vars, found)
    for part in ("body", "handlers", "orelse", "finalbody", "cases"):
        for inner in getattr(node, part, ()):
            if part == "cases":
                _pattern(inner.pattern, found)
            _statement(inner, found)


def _target(node, found: dict) -> None:
    if isinstance(node, Name):
        found[node.id] = True
    elif isinstance(node, (Tuple, List)):
        for one in node.elts:
            _target(one, found)
    elif isinstance(node, Starred):
        _target(node.value, found)


def _pattern(node, found: dict) -> None:
    for one in walk(node):
        for field in ("name", "rest"):
            name = getattr(one, field, None)
            if isinstance(name, str):
                found[name] = True


def refresh_imports() -> None:
    """A module file that was written, and a package that was installed, a moment ago is found: the
    directory's cached listing goes by a coarse clock.
    """
    try:
        for folder in (_getcwd(), site):
            finder = sys.path_importer_cache.get(folder)
            if finder is not None:
                finder.invalidate_caches()
    except Exception:
        pass
