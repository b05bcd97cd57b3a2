"""Modules as user code sees them under `restricted`: facades, and the import that hands them out.

A facade is a module with the public names of the real one, fetched when they are first asked for.
Modules that a name leads to are facades in turn, or are not there. Libraries see each other as
they are. Invariants: no real module reaches user code from here; a facade is of a module that the
policy allows, or shows nothing but what is allowed below it; nothing is imported from the
workspace, whose files nobody has judged.
"""
import builtins
import sys
from types import ModuleType

from krait_kernel import channel, policy_audit as audit, policy_guards as guards, policy_members as members
from krait_kernel import policy_names as names, policy_report as report

MAX_NAME = 200
OWN_FOLDERS = ("/workspace", "/tmp", "/home", "/dev/shm", "/mnt/data", "/app")

_LOADERS = frozenset("exec_module import_module load_module run_module run_path".split())
_import = builtins.__import__
_namespace = ModuleType.__getattribute__
_made: dict = {}  # (imports, name) -> facade
_reals: dict = {}  # id of a facade -> the module it stands for; the facade is kept by _made


def is_facade(module) -> bool:
    return id(module) in _reals


def real_of(module):
    return _reals.get(id(module), module)


def facade(real, name: str):
    """The facade of a module that goes by this name."""
    policy = report.policy()
    key = (policy.imports, name)
    made = _made.get(key)
    if made is None or _reals[id(made)] is not real:
        made = ModuleType(name, _docstring(real))
        _made[key] = made
        _reals[id(made)] = real
        _furnish(made, real, name, policy)
    return made


def _docstring(real):
    text = _namespace(real, "__dict__").get("__doc__")
    return text if type(text) is str else None


def _furnish(made, real, name: str, policy) -> None:
    space = _namespace(made, "__dict__")
    file = _namespace(real, "__dict__").get("__file__")
    if type(file) is str:
        space["__file__"] = file

    if "__path__" not in _namespace(real, "__dict__") and not hasattr(real, "__getattr__"):
        _fill_whole(space, real, name, policy)
        return

    def __getattr__(attr):
        value = fetch(real, name, attr, policy)
        space[attr] = value
        return value

    def __dir__():
        return [one for one in dir(real) if isinstance(one, str) and _is_shown(one)]

    space["__getattr__"], space["__dir__"] = __getattr__, __dir__


def _fill_whole(space: dict, real, name: str, policy) -> None:
    """A module that is no package, and makes no members up, is filled at once: Python is faster with
    a module that has no __getattr__.
    """
    whole, hidden = policy.allows(name), members.HIDDEN.get(name, ())
    for attr, value in _namespace(real, "__dict__").items():
        if attr[:1] == "_" and attr not in names.SHOWN or attr in hidden or attr in space:
            continue
        value = members.instead(value)
        if value is members.HIDE or attr in _LOADERS:
            continue
        if issubclass(type(value), ModuleType):
            part = "%s.%s" % (name, attr)
            if sys.modules.get(part) is value and policy.allows(part):  # os.path
                space[attr] = facade(value, part)
        elif whole:
            space[attr] = value


def _is_shown(attr: str) -> bool:
    return attr[:1] != "_" or attr in names.SHOWN


def fetch(real, name: str, attr: str, policy):
    """A member for the facade; AttributeError if there is none to be had."""
    attr = guards.exact(attr)
    if not _is_shown(attr):
        _hide(name, attr)
    if policy.allows(name):
        hidden = members.HIDDEN.get(name, ())
        if attr in hidden:
            _hide(name, attr)
        value = members.instead(getattr(real, attr))
        given = members.GIVEN.get((name, attr))
        if given is not None:
            return given(value)
        if value is members.HIDE or attr in _LOADERS:
            _hide(name, attr)
    else:  # it is there for what lies below it
        value = getattr(real, attr)
        if not issubclass(type(value), ModuleType):
            _hide(name, attr)
    if issubclass(type(value), ModuleType):
        return _below(value, name, attr, policy)
    return value


def _below(value, name: str, attr: str, policy):
    """A module that is a member of another: as the part of it that it is, or by its own name."""
    part = "%s.%s" % (name, attr)
    own = guards._module_name(value)
    if sys.modules.get(part) is value and (policy.allows(part) or policy.leads(part)):
        if own.partition(".")[0] not in names.POWERS or own == part or part == "os.path":
            return facade(value, part)
    if is_facade(value) or policy.allows(own):
        return value if is_facade(value) else facade(value, own)
    raise _member(name, attr, "'%s.%s' is the module '%s', which is not allowed" % (name, attr, own))


def _hide(name: str, attr: str) -> None:
    raise _member(name, attr, "module '%s' has no attribute '%s' that is allowed" % (name, attr[:MAX_NAME]))


def _member(name: str, attr: str, text: str):
    """Recorded only if user code asks: libraries that are handed a facade look for what may be."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("krait_kernel.policy_"):
        frame = frame.f_back
    if frame is not None and report.is_user_frame(frame):
        report.record("P207", text)
    return report.MemberRefused(text)


def of_value(module):
    """The facade of a module that turned up as a value; None if it is not allowed."""
    if is_facade(module):
        return module
    own, policy = guards._module_name(module), report.policy()
    if sys.modules.get(own) is not module:
        return None
    return facade(module, own) if policy.allows(own) else None


# ---- import ------------------------------------------------------------------------------------


def guarded_import(name, globals=None, locals=None, fromlist=(), level=0):
    """Import a module, if the policy allows it."""
    policy = report.policy()
    name = guards.exact(name)
    if type(fromlist) is list:  # from C code, which takes what it imports from sys.modules
        _import(name)
        return None
    if type(name) is not str or level != 0:
        _refuse("." * level + (name if type(name) is str else "") if type(level) is int else "?")
    wanted = tuple(guards.exact(one) for one in fromlist or () if issubclass(type(one), str))
    refused = policy.refused_of(name, wanted)
    if refused:
        _refuse(refused[0])
    _import(name)
    members.adjust()
    if not wanted:
        return _linked(name)
    made = facade(sys.modules[name], name)
    for one in wanted:
        if one == "*":
            _fill(made, sys.modules[name])
        else:
            _found(made, name, one, policy)
    return made


def _refuse(name: str) -> None:
    report.refuse("P201", "Import of '%s' is not allowed in sandbox" % name[:MAX_NAME], name=name)


def _linked(name: str):
    """What `import a.b.c` binds: the facade of a, from which b and c can be reached."""
    parts = name.split(".")
    top = upper = facade(sys.modules[parts[0]], parts[0])
    path = parts[0]
    for part in parts[1:]:
        path = "%s.%s" % (path, part)
        lower = facade(sys.modules[path], path)
        _namespace(upper, "__dict__")[part] = lower
        upper = lower
    return top


def _found(made, name: str, one: str, policy) -> None:
    """Python looks a missing name up among all modules: it must not be missing."""
    try:
        getattr(made, one)
        return
    except report.PolicyError as exc:
        raise report.ImportRefused(str(exc), name=name) from None
    except AttributeError:
        pass
    part = "%s.%s" % (name, one)
    if policy.allows(part) and hasattr(sys.modules[name], "__path__"):
        try:
            _import(part)
        except ModuleNotFoundError as exc:
            if exc.name != part:
                raise
    if part not in sys.modules or not policy.allows(part):
        place = _namespace(made, "__dict__").get("__file__", "unknown location")
        raise ImportError("cannot import name %r from %r (%s)" % (one, name, place), name=name)
    _namespace(made, "__dict__")[one] = facade(sys.modules[part], part)


def _fill(made, real) -> None:
    """For `from m import *`: what the facade shows, and the list of it."""
    listed = getattr(real, "__all__", None)
    wanted = [one for one in (listed if listed is not None else _namespace(real, "__dict__")) if type(one) is str]
    shown = []
    for one in wanted:
        if one[:1] == "_" and one not in (listed or ()):
            continue
        try:
            getattr(made, one)
            shown.append(one)
        except AttributeError:
            continue
    _namespace(made, "__dict__")["__all__"] = shown


def protect_path() -> None:
    """Nothing is imported from where user code can write."""
    sys.path[:] = [one for one in sys.path if isinstance(one, str) and not is_own_file(one)]


def is_own_file(file: str) -> bool:
    """Whether user code may have written it. A name that is not absolute is of the working folder."""
    if file != "<string>" and not file.startswith(("/", "<frozen ")):
        return True
    mine = OWN_FOLDERS + ((channel.folder,) if channel.folder else ())
    return any(file == top or file.startswith(top + "/") for top in mine)


guards.facade_of = of_value
guards.is_facade = is_facade
audit.is_own_file = is_own_file
