"""The definitions of a session for interpreters that multiprocessing starts anew (spawn,
forkserver): they look for functions and classes of __main__, which was never a file.

libs.py loads this when the first such process is made. main_file() writes one file that makes
anew what __main__ has now: imports, functions and classes from their source, and plain values
that those use. Nothing else of the session's history is run again. Invariants: the file is
bounded; each definition stands alone, so that one that fails leaves the others; a name that
cannot be made anew becomes a function that says so when it is called, because a worker that
cannot find a name dies, and a Pool would start the next one for ever.
"""
import inspect
import os
import pickle
import sys
import tempfile
from textwrap import dedent
from types import FunctionType, ModuleType

MAX_SOURCE = 1 << 20  # of all definitions
MAX_VALUE = 1 << 20  # of all values, pickled
MAX_NAMES = 10_000

# What the file does; PARTS stands for the table.
CHILD = '''"""Definitions of a krait session, for the processes that it starts."""
import pickle as _pickle
import sys as _sys


def _missing(name, why):
    def stub(*_args, **_kwargs):
        raise RuntimeError("%s of __main__ cannot be used in this process: %s" % (name, why))

    stub.__name__ = stub.__qualname__ = name
    stub.__module__ = "__main__"
    return stub


def _define(name, kind, text, file, line):
    names = globals()
    try:
        if kind == "value":
            names[name] = _pickle.loads(text)
        elif kind == "missing":
            names[name] = _missing(name, text)
        else:
            exec(compile("\\n" * (line - 1) + text, file, "exec"), names)
    except Exception as exc:
        names[name] = _missing(name, "%s: %s" % (type(exc).__name__, exc))


def __getattr__(name):
    """A name that __main__ did not have when this process was started."""
    asks = _sys._getframe(1).f_globals.get("__name__", "")
    if name.startswith("_") or not asks.startswith(("multiprocessing.", "concurrent.futures.")):
        raise AttributeError(name)
    return _missing(name, "it was defined after the process was started; make the pool later")


for _part in PARTS:
    _define(*_part)
'''


def _import_of(name: str, value):
    """The statement that binds the name to something that another module has."""
    if isinstance(value, ModuleType):
        return "import %s as %s" % (value.__name__, name) if "." not in value.__name__ else (
            "import importlib; %s = importlib.import_module(%r)" % (name, value.__name__)
        )
    home, found = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(home, str) or not isinstance(found, str) or not found.isidentifier():
        return None
    if getattr(sys.modules.get(home), found, None) is not value:
        return None
    return "from %s import %s as %s" % (home, found, name)


def _source_of(value):
    """(text, file, first line), or None: made by exec(), or its run's text is not kept any more."""
    try:
        lines, first = inspect.getsourcelines(value)
        text = dedent("".join(lines))
        compile(text, "<definition>", "exec")
        return text, inspect.getfile(inspect.unwrap(value)), max(1, first)
    except Exception:
        pass
    try:
        if isinstance(value, type):  # inspect asks the module for a class's file: its methods know
            codes = [one.__code__ for one in vars(value).values() if isinstance(one, FunctionType)]
            return _class_source(value, codes[0].co_filename)
    except Exception:
        pass
    return None


def _class_source(value: type, file: str):
    import ast
    import linecache

    text = "".join(linecache.getlines(file))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.name == value.__name__:
            first = min([node.lineno] + [one.lineno for one in node.decorator_list])
            part = "\n".join(text.split("\n")[first - 1 : node.end_lineno])
            return dedent(part) + "\n", file, first
    return None


def _used(code, found: set) -> None:
    """Names that code may look up among the globals."""
    found.update(code.co_names)
    for const in code.co_consts:
        if hasattr(const, "co_names"):
            _used(const, found)


def _definition(name: str, value, used: set):
    """A row of the file, or None for what is not a definition."""
    if isinstance(value, ModuleType) or getattr(value, "__module__", "__main__") != "__main__":
        statement = _import_of(name, value)
        return statement and (name, "source", statement, "<import>", 1)
    value_is_type = isinstance(value, type)
    if not value_is_type and not isinstance(inspect.unwrap(value), FunctionType):
        return None
    found = _source_of(value)
    if found is None:
        return name, "missing", "its source is not known", "", 1
    try:
        _used(compile(found[0], "<definition>", "exec"), used)
    except SyntaxError:
        pass
    return (name, "source") + found


def parts(names: dict) -> list:
    """The rows of the file, values first: a default argument may be one."""
    rows, values, used, room = [], [], set(), MAX_SOURCE
    for name, value in list(names.items())[:MAX_NAMES]:
        if not isinstance(name, str) or not name.isidentifier() or name.startswith("__"):
            continue
        row = _definition(name, value, used)
        if row is None:
            continue
        room -= len(row[2])
        rows.append(row if room >= 0 else (name, "missing", "too much source", "", 1))
    room = MAX_VALUE
    have = {row[0] for row in rows}
    for name in sorted(used & set(names) - have):
        try:
            made = pickle.dumps(names[name])
        except Exception:
            continue  # a NameError of the function that needs it
        room -= len(made)
        if room >= 0:
            values.append((name, "value", made, "", 1))
    imports = [row for row in rows if row[3] == "<import>"]
    return imports + values + [row for row in rows if row[3] != "<import>"]


def main_file(main) -> str:
    """Writes the file and returns its path. One for each session, replaced as a whole."""
    path = os.path.join(tempfile.gettempdir(), ".krait-main-%d.py" % os.getpid())
    text = CHILD.replace("PARTS", repr(parts(vars(main))), 1)
    with open(path + ".new", "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(text)
    os.replace(path + ".new", path)
    return path
