"""Members of allowed modules that would lead out of the policy: hidden, or given in another form.

policy_modules.py asks here for each member, by the name that user code imports the module by.
"""
import builtins
import contextlib
import dataclasses
import functools
import io
import operator
import string
import sys
import types
import typing
from _string import formatter_field_name_split, formatter_parser

from krait_kernel import policy_guards as guards, policy_names as names, policy_report as report

# Members that run text or programs, or make what only the interpreter should.
HIDDEN = {
    "enum": {"global_enum", "global_enum_repr", "global_flag_repr", "global_str"},
    "numpy": {"ctypeslib", "distutils", "f2py", "test"},
    "numpy.testing": {"runstring", "rundocs", "measure", "Tester"},
    "pandas": {"eval", "read_pickle", "test", "to_pickle"},
    "scipy": {"test"},
    "statsmodels": {"test"},
    "sympy": {"preview", "test", "doctest"},
    "zipfile": {"PyZipFile", "main"},
}


# ---- operator, functools -----------------------------------------------------------------------


def _getter(path: str):
    names_ = path.split(".")
    if len(names_) == 1:
        return lambda obj: guards.guarded_getattr(obj, path)

    def getter(obj):
        for one in names_:
            obj = guards.guarded_getattr(obj, one)
        return obj

    return getter


def attrgetter(attr, /, *attrs):
    """Return a callable object that fetches the given attribute(s) from its operand."""
    paths = [guards.judge_path(path) for path in (attr, *attrs)]
    if not all(type(path) is str for path in paths):
        raise TypeError("attribute name must be a string")
    getters = [_getter(path) for path in paths]
    if len(getters) == 1:
        return getters[0]
    return lambda obj: tuple([getter(obj) for getter in getters])


def methodcaller(name, /, *args, **values):
    """Return a callable object that calls the given method on its operand."""
    name = guards.judge_name(name)
    if type(name) is not str:
        raise TypeError("method name must be a string")
    return lambda obj: guards.guarded_getattr(obj, name)(*args, **values)


def _judged_names(listed):
    return tuple(guards.judge_name(one, written=False) for one in listed)


_UPDATED = functools.WRAPPER_ASSIGNMENTS


_real_update_wrapper = functools.update_wrapper


def update_wrapper(wrapper, wrapped, assigned=_UPDATED, updated=("__dict__",)):
    """Update a wrapper function to look like the wrapped function."""
    if assigned is not _UPDATED:
        assigned = _judged_names(assigned)
    if tuple(updated) not in ((), ("__dict__",)):
        report.refuse("P202", "update_wrapper() with a list of attributes to update is not allowed")
    return _real_update_wrapper(wrapper, wrapped, assigned, updated if type(wrapper) is types.FunctionType else ())


def wraps(wrapped, assigned=_UPDATED, updated=("__dict__",)):
    """Decorator factory to apply update_wrapper() to a wrapper function."""
    return lambda wrapper: update_wrapper(wrapper, wrapped, assigned, updated)


# ---- string ------------------------------------------------------------------------------------


class Formatter:
    """string.Formatter, which reads the attributes that code may read. Not derived from the real
    one, whose methods super() would find.
    """

    def format(self, format_string, /, *args, **kwargs):
        return self.vformat(format_string, args, kwargs)

    def vformat(self, format_string, args, kwargs):
        used: set = set()
        result, _next = self._vformat(format_string, args, kwargs, used, 2)
        self.check_unused_args(used, args, kwargs)
        return result

    def _vformat(self, format_string, args, kwargs, used, depth, auto=0):
        if depth < 0:
            raise ValueError("Max string recursion exceeded")
        result = []
        for literal, field, spec, conversion in self.parse(format_string):
            if literal:
                result.append(literal)
            if field is None:
                continue
            if field == "" or field[:1] in ".[":
                if auto is False:
                    raise ValueError("cannot switch from manual field specification to automatic field numbering")
                field, auto = str(auto) + field, auto + 1
            elif field[:1].isdigit():
                if auto:
                    raise ValueError("cannot switch from manual field specification to automatic field numbering")
                auto = False
            obj, first = self.get_field(field, args, kwargs)
            used.add(first)
            obj = self.convert_field(obj, conversion)
            spec, auto = self._vformat(spec, args, kwargs, used, depth - 1, auto)
            result.append(self.format_field(obj, spec))
        return "".join(result), auto

    def get_value(self, key, args, kwargs):
        return args[key] if isinstance(key, int) else kwargs[key]

    def check_unused_args(self, used_args, args, kwargs):
        pass

    def format_field(self, value, format_spec):
        return format(value, format_spec)

    def convert_field(self, value, conversion):
        if conversion is None:
            return value
        convert = {"s": str, "r": repr, "a": ascii}.get(conversion)
        if convert is None:
            raise ValueError("Unknown conversion specifier %r" % (conversion,))
        return convert(value)

    def parse(self, format_string):
        return formatter_parser(format_string)

    def get_field(self, field_name, args, kwargs):
        first, rest = formatter_field_name_split(field_name)
        obj = self.get_value(first, args, kwargs)
        for is_attr, one in rest:
            obj = guards.guarded_getattr(obj, one) if is_attr else obj[one]
        return obj, first


# ---- contextlib --------------------------------------------------------------------------------


class _Redirect:
    """contextlib.redirect_stdout and redirect_stderr; which stream it is cannot be changed."""

    __slots__ = ("_target", "_before")

    def __init__(self, new_target):
        self._target, self._before = new_target, []

    def __enter__(self):
        stream = _stream_of(self)
        self._before.append(getattr(sys, stream))
        setattr(sys, stream, self._target)
        return self._target

    def __exit__(self, kind, value, trace):
        setattr(sys, _stream_of(self), self._before.pop())


class redirect_stdout(_Redirect):
    __slots__ = ()


class redirect_stderr(_Redirect):
    __slots__ = ()


def _stream_of(obj) -> str:
    return "stderr" if issubclass(type(obj), redirect_stderr) else "stdout"


# ---- types -------------------------------------------------------------------------------------


class _Meta(type):
    """Classes that tell instances of another, and make none."""

    def __instancecheck__(cls, obj):
        return issubclass(type(obj), _STANDS[cls])

    def __subclasscheck__(cls, kind):
        return issubclass(kind, _STANDS.get(cls, cls))

    def __call__(cls, *_args, **_values):
        report.refuse("P203", "Making an object of '%s' is not allowed" % cls.__name__)


_STANDS: dict = {}


def _stand_in(real):
    made = _Meta(real.__name__, (), {"__module__": "types", "__doc__": real.__doc__, "__slots__": ()})
    _STANDS[made] = real
    return made


# ---- typing and dataclasses --------------------------------------------------------------------


def _is_plain_namespace(space) -> bool:
    return space is None or type(space) is dict and "__builtins__" not in space


_real_hints = typing.get_type_hints


def get_type_hints(obj, globalns=None, localns=None, include_extras=False):
    """Return type hints for an object."""
    if not (_is_plain_namespace(globalns) and _is_plain_namespace(localns)):
        report.refuse("P208", "get_type_hints() with such a namespace is not allowed")
    if globalns is None:
        globalns = report.main_names()
    else:
        globalns = dict(globalns, __builtins__=report.user_builtins())
    if sys.version_info >= (3, 9):
        return _real_hints(obj, globalns, localns, include_extras)
    return _real_hints(obj, globalns, localns)


_real_dataclass, _real_make_dataclass, _Field = dataclasses.dataclass, dataclasses.make_dataclass, dataclasses.Field


def _is_field(name) -> bool:
    return type(name) is str and name.isidentifier() and names.may_bind(name)


def _judge_fields(kind) -> None:
    """The names of a dataclass's fields become text of functions that are compiled."""
    for base in type.__getattribute__(kind, "__mro__"):
        space = type.__getattribute__(base, "__dict__")
        written, made = space.get("__annotations__", {}), space.get("__dataclass_fields__", {})
        plain = base is object or type(written) is dict and all(map(_is_field, written))
        if plain and type(made) is dict and all(type(one) is _Field and _is_field(one.name) for one in made.values()):
            continue
        report.refuse("P208", "A dataclass whose fields are not plain names is not allowed")


def dataclass(cls=None, /, **options):
    """Add dunder methods based on the fields defined in the class."""
    if cls is None:
        return lambda kind: dataclass(kind, **options)
    if issubclass(type(cls), type):
        _judge_fields(cls)
    return _real_dataclass(cls, **options)


def make_dataclass(cls_name, fields, **options):
    """Return a new dynamically created dataclass."""
    space = options.get("namespace") or {}
    if "module" in options or any(one in space for one in ("__annotations__", "__module__", "__dataclass_fields__")):
        report.refuse("P208", "make_dataclass() with a module, or with fields in its namespace, is not allowed")
    for base in options.get("bases") or ():
        if issubclass(type(base), type):
            _judge_fields(base)
    return _real_make_dataclass(cls_name, fields, **options)


# ---- pandas ------------------------------------------------------------------------------------


def _judge_expressions(module) -> None:
    """Expressions of query() and eval(), by whatever road they come: what reads their attributes."""
    visitor = module.BaseExprVisitor
    visit = visitor.visit_Attribute

    def visit_Attribute(self, node, **kwargs):
        if not names.may_compute(node.attr) or node.attr in names.GUARDED:
            report.refuse("P208", "Expression uses '%s', which is not allowed" % node.attr[:100])
        return visit(self, node, **kwargs)

    visitor.visit_Attribute = visit_Attribute


# ---- numpy -------------------------------------------------------------------------------------


def _load(real):
    def load(file, *args, **values):
        """Load arrays from a file; objects that were pickled are not loaded."""
        if len(args) > 1 and args[1] or values.get("allow_pickle"):
            report.refuse("P209", "numpy.load() with allow_pickle is not allowed")
        return real(file, *args, **values)

    return load


# Of modules that are imported later.
GIVEN = {("numpy", "load"): _load}
ADJUSTED = {"pandas.core.computation.expr": _judge_expressions}
_adjusted: set = set()
_INSTEAD: dict = {}  # id of a real member -> what stands for it wherever it turns up; HIDE: nothing
_kept: list = []  # so that the ids stay theirs
HIDE = object()


def _stand_for(real, made) -> None:
    _kept.append(real)
    _INSTEAD[id(real)] = made


def instead(value):
    """What user code is given for a member of a module; HIDE: nothing."""
    return _INSTEAD.get(id(value), value)


def adjust() -> None:
    """Libraries that run a language of their own, once they are there."""
    for name, action in ADJUSTED.items():
        if name not in _adjusted and name in sys.modules:
            _adjusted.add(name)
            action(sys.modules[name])


def _prepare() -> None:
    """Other modules have these, too, under their own names."""
    for home, made in (
        (operator, (attrgetter, methodcaller)),
        (functools, (update_wrapper, wraps)),
        (string, (Formatter,)),
        (contextlib, (redirect_stdout, redirect_stderr)),
        (typing, (get_type_hints,)),
        (dataclasses, (dataclass, make_dataclass)),
    ):
        for one in made:
            one.__module__, one.__qualname__ = home.__name__, one.__name__
            _stand_for(getattr(home, one.__name__), one)
    for name in ("FunctionType", "CodeType", "CellType", "FrameType", "TracebackType", "ModuleType"):
        if hasattr(types, name):
            _stand_for(getattr(types, name), _stand_in(getattr(types, name)))
    _stand_for(io.open, guards.guarded_open)
    for name in names.NO_BUILTINS | {"__import__"}:
        _stand_for(vars(builtins)[name], HIDE)
    for module, listed in _NOT_SHOWN.items():
        for name in listed.split():
            if hasattr(sys.modules.get(module), name):
                _stand_for(getattr(sys.modules[module], name), HIDE)


# Functions that other modules may have imported by name.
_NOT_SHOWN = {
    "ctypes": "CDLL PyDLL cdll pydll pythonapi cast memmove memset string_at",
    "gc": "get_objects get_referrers get_referents",
    "importlib": "import_module reload __import__",
    "importlib.util": "find_spec module_from_spec spec_from_file_location spec_from_loader",
    "inspect": "currentframe stack trace getmembers_static getattr_static getclosurevars",
    "marshal": "loads load",
    "os": "system popen execv execve fork forkpty kill posix_spawn posix_spawnp spawnv spawnve _exit",
    "pickle": "loads load Unpickler",
    "subprocess": "Popen run call check_call check_output getoutput getstatusoutput",
    "sys": "_getframe modules meta_path path_hooks settrace setprofile _current_frames",
    "typing": "ForwardRef",
}
_prepare()
