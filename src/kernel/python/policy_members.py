"""Members of allowed modules that would lead out of the policy: hidden, or given in another form.

policy_modules.py asks here for each member, by the name that user code imports the module by.
"""
import functools
import sys
import types
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
    "typing": {"ForwardRef"},
    "zipfile": {"PyZipFile", "main"},
}


# ---- operator, functools -----------------------------------------------------------------------


def _attrgetter(real):
    def attrgetter(*paths):
        """Return a callable object that fetches the given attribute(s) from its operand."""
        return real(*[guards.judge_path(path) for path in paths])

    return attrgetter


def _methodcaller(real):
    def methodcaller(name, /, *args, **values):
        """Return a callable object that calls the given method on its operand."""
        name = guards.judge_name(name)
        if type(name) is str and name in names.GUARDED:
            return lambda obj: guards.attribute(obj, name)(*args, **values)
        return real(name, *args, **values)

    return methodcaller


def _judged_names(listed):
    return tuple(guards.judge_name(one, written=False) for one in listed)


_UPDATED = functools.WRAPPER_ASSIGNMENTS


def _update_wrapper(real):
    def update_wrapper(wrapper, wrapped, assigned=_UPDATED, updated=("__dict__",)):
        """Update a wrapper function to look like the wrapped function."""
        if assigned is not _UPDATED:
            assigned = _judged_names(assigned)
        if tuple(updated) not in ((), ("__dict__",)):
            report.refuse("P202", "update_wrapper() with a list of attributes to update is not allowed")
        return real(wrapper, wrapped, assigned, () if not isinstance(wrapper, types.FunctionType) else updated)

    return update_wrapper


def _wraps(real):
    update = _update_wrapper(functools.update_wrapper)

    def wraps(wrapped, assigned=_UPDATED, updated=("__dict__",)):
        """Decorator factory to apply update_wrapper() to a wrapper function."""
        return lambda wrapper: update(wrapper, wrapped, assigned, updated)

    return wraps


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


Formatter.__module__ = "string"


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


for _kind in (redirect_stdout, redirect_stderr):
    _kind.__module__ = "contextlib"


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


def _get_type_hints(real):
    def get_type_hints(obj, globalns=None, localns=None, include_extras=False):
        """Return type hints for an object."""
        if not (_is_plain_namespace(globalns) and _is_plain_namespace(localns)):
            report.refuse("P208", "get_type_hints() with such a namespace is not allowed")
        if globalns is None:
            globalns = report.main_names()
        else:
            globalns = dict(globalns, __builtins__=report.user_builtins())
        try:
            return real(obj, globalns, localns, include_extras)
        except TypeError:
            if sys.version_info >= (3, 9):
                raise
            return real(obj, globalns, localns)

    return get_type_hints


def _judge_fields(kind) -> None:
    """The names of a dataclass's fields become text of functions that are compiled."""
    for base in type.__getattribute__(kind, "__mro__"):
        found = type.__getattribute__(base, "__dict__").get("__annotations__")
        if found is None or base is object:
            continue
        if type(found) is not dict or not all(
            type(one) is str and one.isidentifier() and names.may_bind(one) for one in found
        ):
            report.refuse("P208", "A dataclass whose fields are not plain names is not allowed")


def _dataclass(real):
    def dataclass(cls=None, /, **options):
        """Add dunder methods based on the fields defined in the class."""
        if cls is None:
            return lambda kind: dataclass(kind, **options)
        if issubclass(type(cls), type):
            _judge_fields(cls)
        return real(cls, **options)

    return dataclass


def _make_dataclass(real):
    def make_dataclass(cls_name, fields, **options):
        """Return a new dynamically created dataclass."""
        space = options.get("namespace") or {}
        for one in ("__annotations__", "__module__"):
            if one in space:
                report.refuse("P208", "make_dataclass() with %s is not allowed" % one)
        if "module" in options:
            report.refuse("P208", "make_dataclass() with a module is not allowed")
        return real(cls_name, fields, **options)

    return make_dataclass


# ---- numpy -------------------------------------------------------------------------------------


def _load(real):
    def load(file, *args, **values):
        """Load arrays from a file; objects that were pickled are not loaded."""
        if len(args) > 1 and args[1] or values.get("allow_pickle"):
            report.refuse("P209", "numpy.load() with allow_pickle is not allowed")
        return real(file, *args, **values)

    return load


GIVEN = {
    ("operator", "attrgetter"): _attrgetter,
    ("operator", "methodcaller"): _methodcaller,
    ("functools", "update_wrapper"): _update_wrapper,
    ("functools", "wraps"): _wraps,
    ("string", "Formatter"): lambda _real: Formatter,
    ("contextlib", "redirect_stdout"): lambda _real: redirect_stdout,
    ("contextlib", "redirect_stderr"): lambda _real: redirect_stderr,
    ("typing", "get_type_hints"): _get_type_hints,
    ("dataclasses", "dataclass"): _dataclass,
    ("dataclasses", "make_dataclass"): _make_dataclass,
    ("numpy", "load"): _load,
}
for _name in ("FunctionType", "LambdaType", "CodeType", "CellType", "FrameType", "TracebackType", "ModuleType"):
    GIVEN[("types", _name)] = _stand_in
