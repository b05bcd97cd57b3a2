"""The guards: what user code calls in place of some builtins, and in place of attributes that only
the run can judge.

policy_run.py puts them into the builtins of user code. They do what the builtin does, or refuse
with an exception and a record of it. Invariants: a name is looked at as the exact text that is
then used, whatever the object that was given says it is; a module comes out of here as the facade
of one that is allowed, or not at all; nothing here calls user code before the name is judged.
"""
import io
import operator
import re
import sys
from types import (
    BuiltinMethodType,
    CellType,
    ClassMethodDescriptorType,
    CodeType,
    FrameType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    TracebackType,
    WrapperDescriptorType,
)
from unicodedata import normalize

from krait_kernel import commands, policy_judge, policy_names as names, policy_report as report

_NOTHING = object()
MAX_KEPT, MAX_KEPT_TEXT = 1000, 200
_plain_names: set = set()  # that have been judged
_plain_texts: set = set()  # the same of format strings
_HARMLESS = frozenset([int, str, float, bool, bytes, list, tuple, set, complex, type(None)])
_WORD = re.compile(r"[^\W\d]\w*")
_super_self = super.__dict__["__self__"].__get__
_FORMATS = ("format", "format_map")
_METHODS = ("format", "format_map", "obj", "mro", "query", "eval")  # that are looked at as values
_getattr, _hasattr, _setattr, _delattr = getattr, hasattr, setattr, delattr
_exact_str = str.__str__
_INTERNAL = (
    FrameType,
    CodeType,
    TracebackType,
    CellType,
    MappingProxyType,
    GetSetDescriptorType,
    MemberDescriptorType,
)
_CALLED = (
    BuiltinMethodType,
    ClassMethodDescriptorType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    WrapperDescriptorType,
)
facade_of = None  # policy_modules puts its own here: the facade of a module, or None


# ---- names -------------------------------------------------------------------------------------


def exact(name):
    """The text that a name is. What is no text is the real function's to refuse."""
    kind = type(name)
    if kind is str:
        return name
    return _exact_str(name) if issubclass(kind, str) else name


def judge_name(name, written: bool = False):
    """The name as an exact text, or an exception."""
    name = exact(name)
    if type(name) is str and not (names.may_write(name) if written else names.may_compute(name)):
        report.refuse("P202", "Attribute '%s' is not allowed" % name[:100])
    return name


def judge_path(path):
    """A dotted name, as operator.attrgetter takes it."""
    path = exact(path)
    if type(path) is str:
        for part in path.split("."):
            judge_name(part)
            if part in names.GUARDED:
                report.refuse("P202", "Attribute '%s' is not allowed here" % part[:100])
    return path


# ---- values ------------------------------------------------------------------------------------


def value_of(value, what: str):
    """A value on its way to user code."""
    if issubclass(type(value), ModuleType):
        made = facade_of(value)
        if made is None:
            report.refuse("P207", "Module '%s' is not allowed (reached through '%s')" % (_module_name(value), what))
        return made
    return value


def checked(value):
    """A value that a class pattern has taken by its position: an attribute that the class named."""
    kind = type(value)
    if kind in _HARMLESS:
        return value
    if issubclass(kind, _INTERNAL) or (issubclass(kind, dict) and _is_namespace(value)):
        report.refuse("P202", "A pattern reads an attribute that is not allowed")
    if issubclass(kind, _CALLED):
        name = _getattr(value, "__name__", "")
        if not names.may_compute(name) or name in names.GUARDED:
            report.refuse("P202", "A pattern reads an attribute that is not allowed")
    return value_of(value, "a pattern")


def _is_namespace(value) -> bool:
    if value is report.user_builtins() or value is report.main_names():
        return True
    return any(_getattr(one, "__dict__", None) is value for one in list(sys.modules.values()))


def _module_name(module) -> str:
    name = ModuleType.__getattribute__(module, "__dict__").get("__name__")
    return name if type(name) is str else "?"


# ---- attributes that stand in the text ---------------------------------------------------------


def attribute(obj, name: str):
    """`obj.name` for the names in GUARDED. The judge writes the call."""
    if type(obj) is str and name in _FORMATS and obj in _plain_texts:
        return _getattr(obj, name)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(obj, name)
    if type(obj) is ModuleType:
        return _member(obj, name)
    value = _getattr(obj, name)
    return value_of(value, name) if issubclass(type(value), ModuleType) else value


def _member(module, name: str):
    if not is_facade(module):
        report.refuse("P207", "Module '%s' is not allowed" % _module_name(module))
    try:
        return value_of(_getattr(module, name), name)
    except AttributeError as exc:
        if not isinstance(exc, report.PolicyError):
            report.record("P207", str(exc))
        raise


def is_facade(module) -> bool:
    return False  # policy_modules puts its own here


def _format(obj, name: str):
    """A bound method of a text is judged by the text, one that is not bound when it is called."""
    found = _getattr(obj, name)
    kind = type(found)
    if kind is BuiltinMethodType and issubclass(type(found.__self__), str):
        _judge_format(found.__self__)
    elif kind is MethodDescriptorType and found.__objclass__ is str:
        return _unbound_format if name == "format" else _unbound_format_map
    return value_of(found, name)


def _judge_format(text) -> None:
    text = _exact_str(text)
    if not policy_judge.field_is_plain(text):
        report.refuse("P204", "Format string reads attributes that are not allowed")
    if len(_plain_texts) < MAX_KEPT and len(text) < MAX_KEPT_TEXT:
        _plain_texts.add(text)


def _unbound_format(text, /, *args, **values):
    if issubclass(type(text), str):
        _judge_format(text)
    return str.format(text, *args, **values)


def _unbound_format_map(text, mapping, /):
    if issubclass(type(text), str):
        _judge_format(text)
    return str.format_map(text, mapping)


def _obj(obj, name: str):
    if issubclass(type(obj), BaseException) and issubclass(type(obj), AttributeError):
        report.refuse("P202", "Attribute 'obj' of an exception is not allowed")
    return value_of(_getattr(obj, name), name)


def _accessor(obj, name: str):
    """What a property reads by. The class of an attrgetter makes others, which read anything."""
    found = value_of(_getattr(obj, name), name)
    if type(found) in (operator.attrgetter, operator.methodcaller):
        report.refuse("P202", "Attribute '%s' of this property is not allowed" % name)
    return found


def _mro(obj, name: str):
    if issubclass(type(obj), type):
        report.refuse("P202", "Attribute 'mro' is not allowed")
    return value_of(_getattr(obj, name), name)


def _dict(obj, _name: str):
    """The variables of an instance of a class that user code has defined."""
    kind = type(obj)
    if issubclass(kind, (type, ModuleType, FunctionType, MethodType)) or not report.is_user_class(kind):
        report.refuse("P202", "Attribute '__dict__' is allowed for instances of your own classes alone")
    return object.__getattribute__(obj, "__dict__")


def _reader(obj, name: str):
    """`super().__getattribute__` and its like: the attribute is named when they are called."""
    call = _getattr(obj, name)

    def reader(*args):
        if issubclass(type(obj), type) and len(args) > 1:
            found = _read(args[0], args[1])
            args = (args[0], found) + args[2:]
        elif args:
            found = _read(obj, args[0])
            args = (found,) + args[1:]
        return value_of(call(*args), name)

    return reader


def _read(obj, name):
    """The name that is read from an object itself: what the guard of that name would refuse is refused here, too."""
    name = exact(name)
    if name == "__class__":
        return name  # what type() tells; Python asks for it by this road
    name = judge_name(name)
    if type(name) is str and name in names.GUARDED and name not in _METHODS:
        whose = type(_super_self(obj) if type(obj) is super else obj)
        if name != "__dict__" or issubclass(whose, type) or not report.is_user_class(whose):
            report.refuse("P202", "Attribute '%s' is not allowed here" % name[:100])
    return name


def _writer(obj, name: str):
    call = _getattr(obj, name)

    def writer(*args):
        at = 1 if issubclass(type(obj), type) and len(args) > (2 if name == "__setattr__" else 1) else 0
        if len(args) > at:
            args = args[:at] + (judge_name(args[at], written=True),) + args[at + 1 :]
        return call(*args)

    return writer


def _expression(obj, name: str):
    """query() and eval() of pandas run a language of their own, which reads attributes."""
    found = value_of(_getattr(obj, name), name)
    function = found.__func__ if type(found) is MethodType else found
    if type(function) is not FunctionType or not function.__globals__.get("__name__", "").startswith("pandas."):
        return found

    def expression(*args, **values):
        for one in args + tuple(values.values()):
            judge_expression(one)
        values["level"] = values.get("level", 0) + 1  # this frame is one more between it and the variables
        return found(*args, **values)

    return expression


def judge_expression(text) -> None:
    text = exact(text)
    if type(text) is not str:
        return
    for one in _WORD.findall(normalize("NFKC", text)):
        if not names.may_compute(one) or not names.may_stand_in_text(one):
            report.refuse("P208", "Expression uses '%s', which is not allowed" % one[:100])


_SPECIAL = {
    "fdel": _accessor,
    "fget": _accessor,
    "format": _format,
    "format_map": _format,
    "fset": _accessor,
    "obj": _obj,
    "mro": _mro,
    "__dict__": _dict,
    "__getattribute__": _reader,
    "__getattr__": _reader,
    "__setattr__": _writer,
    "__delattr__": _writer,
    "query": _expression,
    "eval": _expression,
}


# ---- builtins ----------------------------------------------------------------------------------


def guarded_getattr(obj, name, default=_NOTHING, /):
    """getattr(object, name[, default]) -> value"""
    if type(name) is not str or name not in _plain_names:
        name = judge_name(name)
        if type(name) is str and name in names.GUARDED:
            return _attribute_or(obj, name, default)
        if len(_plain_names) < MAX_KEPT and type(name) is str and len(name) < MAX_KEPT_TEXT:
            _plain_names.add(name)
    value = _getattr(obj, name) if default is _NOTHING else _getattr(obj, name, default)
    return value_of(value, "getattr") if issubclass(type(value), ModuleType) else value


def _attribute_or(obj, name: str, default):
    try:
        return attribute(obj, name)
    except AttributeError:
        if default is _NOTHING:
            raise
        return default


def guarded_hasattr(obj, name, /):
    """Return whether the object has an attribute with the given name."""
    return _hasattr(obj, judge_name(name))


def guarded_setattr(obj, name, value, /):
    """Sets the named attribute on the given object to the specified value."""
    _setattr(obj, judge_name(name, written=True), value)


def guarded_delattr(obj, name, /):
    """Deletes the named attribute from the given object."""
    _delattr(obj, judge_name(name, written=True))


def guarded_vars(*args):
    """vars(object) -> dictionary"""
    if len(args) != 1:
        report.refuse("P203", "Builtin 'vars' needs an object")
    return _dict(args[0], "__dict__")


def guarded_open(file, mode="r", *args, **values):
    """Open file and return a stream.  Raise OSError upon failure."""
    how = exact(mode)
    if type(how) is str and not report.policy().writes and any(one in how for one in "wax+"):
        report.refuse("P205", "Opening %s for writing is not allowed: the profile filesystem is needed" % _shown(file))
    if values.get("opener") is not None or len(args) > 5:
        report.refuse("P203", "open() with an opener is not allowed")
    return io.open(file, how, *args, **values)


def _shown(file) -> str:
    file = exact(file)
    return repr(file[:200]) if type(file) in (str, bytes, int) and type(file) is not int else "a file"


def guarded_help(*args):
    """Show the documentation of an object."""
    if len(args) != 1 or issubclass(type(args[0]), str):
        report.refuse("P203", "Builtin 'help' needs an object that is not a text")
    import builtins

    builtins.help(*args)


def _refusing(name: str):
    def refusing(*_args, **_values):
        report.refuse("P203", "Builtin '%s' is not allowed" % name)

    refusing.__name__ = refusing.__qualname__ = name
    return refusing


def timed(body):
    """%time, with what it times in a function."""
    with commands.timed():
        return body()


class Commands:
    """What stands for `__krait__`: the magics that the judge lets through."""

    __slots__ = ()

    def magic(self, _text: str) -> None:
        return None

    def help(self, name: str, signs: int) -> None:
        name = judge_path(name)
        if type(name) is not str or not all(part.isidentifier() for part in name.split(".")):
            report.refuse("P203", "Only a name can be shown")
        print(commands.describe(name, signs > 1, sys._getframe(1)))


def make_builtins(real: dict, guarded_import) -> dict:
    """The builtins of user code."""
    made = dict(real)
    for name in ("__loader__", "__spec__"):
        made.pop(name, None)
    for name in names.NO_BUILTINS:
        made[name] = _refusing(name)
    given = {
        "getattr": guarded_getattr,
        "hasattr": guarded_hasattr,
        "setattr": guarded_setattr,
        "delattr": guarded_delattr,
        "vars": guarded_vars,
        "open": guarded_open,
        "help": guarded_help,
        "__import__": guarded_import,
    }
    for name, function in given.items():
        function.__name__ = function.__qualname__ = name
        function.__module__ = "builtins"
        made[name] = function
    made["__krait__"] = Commands()
    made["PolicyError"] = report.PolicyError
    made[names.ATTRIBUTE] = attribute
    made[names.CHECKED] = checked
    made[names.TIMED] = timed
    return made
