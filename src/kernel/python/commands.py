"""Notebook habits, part two: carrying them out. `__krait__`, a builtin of user code, is the
Commands object here.

magics.py writes the calls. Output of shell commands goes straight to fd 1 and 2, in order with
what Python writes. An unknown magic is a MagicError that names it.
"""
import ast
import os
import re
import shlex
import subprocess
import sys
import time
import timeit

from krait_kernel import channel, hints, names, streams

SHELL_ALIASES = (
    "ls",
    "cat",
    "mkdir",
    "rmdir",
    "rm",
    "cp",
    "mv",
    "head",
    "tail",
    "wc",
    "tree",
    "echo",
    "touch",
    "pip3",
    "ll",
)
NOTHING = (
    "matplotlib",
    "load_ext",
    "reload_ext",
    "autoreload",
    "config",
    "pylab",
    "precision",
    "colors",
    "xmode",
    "automagic",
)
PIP = re.compile(
    r"(?:python[\d.]*\s+-m\s+)?(?:pip[\d.]*|uv\s+pip|conda|mamba|poetry)\s+"
    r"(?P<verb>install|uninstall|add|remove|download)\b(?P<args>.*)$",
    re.S,
)
VARIABLE = re.compile(r"(?<!\$)\{([^{}\n]+)\}|(?<![\\$\w])\$([A-Za-z_]\w*)")
HELP_CHARS = 20_000  # of one part of name?
LISTED = 150  # packages named in one answer

pending_hint = None  # set when a shell command failed for a reason we know


class MagicError(Exception):
    """A magic that is unknown or was used wrongly."""


MagicError.__module__ = "builtins"


def expand(command: str, frame) -> str:
    """{expression} and $name of the user's variables. What is none of those is the shell's."""
    names = dict(frame.f_globals)
    names.update(frame.f_locals)

    def value(found) -> str:
        text = found.group(1) or found.group(2)
        try:
            tree = ast.parse(text.strip(), mode="eval")
            used = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
            if not any(name in names for name in used) or isinstance(tree.body, ast.Tuple):
                return found.group()
            return str(eval(text.strip(), names))
        except Exception:
            return found.group()

    return VARIABLE.sub(value, command)


def run(argv, **options) -> int:
    """Runs something with our fd 1 and 2. Returns its status."""
    global pending_hint
    streams.barrier()
    stdin = None if streams.script_stdin or "input" in options else subprocess.DEVNULL
    status = subprocess.run(argv, stdin=stdin, **options).returncode
    streams.barrier()
    if status != 0:
        pending_hint = hints.of_command(argv, status)
    if channel.venv:
        names.refresh_imports()  # it may have installed something
    return status


class Commands:
    """What a magic becomes a call of."""

    def system(self, command: str) -> None:
        command = expand(command, sys._getframe(1))
        pip = None if channel.venv else PIP.match(command)
        if pip is not None:
            packages(pip.group("verb"), pip.group("args"))
        elif command.split()[:1] == ["cd"]:
            change_directory(command[2:].strip(), False)
        else:
            run(command, shell=True)

    def lines(self, command: str) -> list:
        command = expand(command, sys._getframe(1))
        streams.barrier()
        made = subprocess.run(command, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        streams.barrier()
        return made.stdout.decode("utf-8", "backslashreplace").splitlines()

    def help(self, name: str, signs: int) -> None:
        print(describe(name, signs > 1, sys._getframe(1)))

    def magic(self, text: str):
        name, _, args = text.replace("\\\n", " ").partition(" ")
        args, frame = args.strip(), sys._getframe(1)
        if name in SHELL_ALIASES:
            return (
                run(expand(("ls -l" if name == "ll" else name) + " " + args, frame), shell=True)
                and None
            )
        if name in NOTHING:
            return None
        function = LINE_MAGICS.get(name)
        if function is None:
            raise MagicError(
                "unknown magic %%%s; known are %s"
                % (name, ", ".join("%" + one for one in sorted(LINE_MAGICS)))
            )
        return function(args, frame)


def describe(name: str, with_source: bool, frame) -> str:
    """What `name?` shows; with_source, for `name??`, the source instead of the docstring."""
    import inspect

    try:
        value = eval(name, frame.f_globals, frame.f_locals)
    except Exception:
        return "%s: not found" % name
    rows = []
    try:
        rows.append(("Signature", name.rpartition(".")[2] + str(inspect.signature(value))))
    except Exception:
        pass
    kind = type(value)
    home = "" if kind.__module__ == "builtins" else kind.__module__ + "."
    rows.append(("Type", home + kind.__name__))
    if not callable(value) and kind.__name__ != "module":
        rows.append(("Value", short(repr, value)))
        if hasattr(kind, "__len__"):
            rows.append(("Length", short(len, value)))
    for title, ask in (("File", inspect.getfile), ("Docstring", inspect.getdoc)):
        try:
            rows.append((title, ask(value) or "none"))
        except Exception:
            pass
    if with_source:
        try:
            rows[-1] = ("Source", inspect.getsource(value))
        except Exception:
            pass  # C code, or a value
    return "\n".join(
        "%s:%s%s" % (title, "\n" if "\n" in text else " ", text[:HELP_CHARS])
        for title, text in rows
    )


def short(function, value) -> str:
    try:
        text = str(function(value))
    except Exception as exc:
        text = "<%s>" % type(exc).__name__
    return text if len(text) <= 300 else text[:300] + "…"


def packages(verb: str, args: str) -> None:
    """pip install and its like: what is there already, and that nothing can be added."""
    global pending_hint
    have = installed()
    asked = (
        [word for word in shlex.split(args) if not word.startswith("-")]
        if verb in ("install", "add")
        else []
    )
    missing = []
    for word in asked:
        name = re.split(r"[<>=!~\[; ]", word)[0]
        found = have.get(name.lower().replace("_", "-"))
        if found:
            print("already installed: %s %s" % found)
        else:
            missing.append(name)
    if missing or not asked:
        if missing:
            print("not installed: %s" % ", ".join(missing))
        pending_hint = hints.NO_PACKAGES
        print(
            "Packages cannot be installed, changed or removed in this sandbox yet. Installed are:"
        )
        print(
            ", ".join(
                [
                    "%s %s" % one
                    for one in sorted(have.values(), key=lambda one: one[0].lower())[:LISTED]
                ]
            )
        )


def installed() -> dict:
    """Normalised name -> (name, version) of every distribution on sys.path."""
    from importlib import metadata

    found = {}
    for one in metadata.distributions():
        name = one.metadata["Name"]
        if name:
            found.setdefault(name.lower().replace("_", "-"), (name, one.version))
    return found


def pip_magic(args: str, frame) -> None:
    verb, _, rest = expand(args, frame).partition(" ")
    if channel.venv:
        run("pip " + expand(args, frame), shell=True)
    elif verb in ("install", "uninstall", "download", "add", "remove"):
        packages(verb, rest)
    elif verb in ("list", "freeze"):
        for name, version in sorted(installed().values(), key=lambda one: one[0].lower()):
            print("%s==%s" % (name, version))
    else:
        run([sys.executable, "-m", "pip"] + shlex.split(args))


def install_missing(exc: ModuleNotFoundError) -> bool:
    """Whether what the import lacks was installed now. The server decides what that is, and whether
    it is well enough known to be installed unasked.
    """
    global pending_hint
    words = hints.hint(exc)
    if not isinstance(words, str) or words.split(" ")[0] not in ("module", "standard"):
        return False
    done = run(["pip", "krait-auto", words]) == 0
    pending_hint = None
    return done


def change_directory(path: str, tell: bool = True) -> None:
    path = path.strip().strip("'\"")
    os.chdir(os.path.expanduser(path or "~"))
    if tell:
        print(os.getcwd())


def environment(args: str, _frame):
    if not args:
        return dict(os.environ)
    name, sign, value = (
        args.partition("=") if "=" in args.split()[0] or " = " in args else args.partition(" ")
    )
    name = name.strip()
    if not sign:
        return os.environ.get(name)
    os.environ[name] = value.strip()
    print("env: %s=%s" % (name, value.strip()))
    return None


def _statement(text: str, frame):
    """Executes the rest of a line where it stands; gives the value if it is an expression."""
    tree = ast.parse(text, frame.f_code.co_filename, "exec")
    ast.increment_lineno(tree, frame.f_lineno - 1)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, frame.f_code.co_filename, "exec"), frame.f_globals, frame.f_locals)
    if last is None:
        return None
    return eval(
        compile(ast.Expression(last.value), frame.f_code.co_filename, "eval"),
        frame.f_globals,
        frame.f_locals,
    )


class timed:
    """Prints the CPU and wall time of its block."""

    def __enter__(self):
        self.wall, self.cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_error) -> None:
        wall, cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu
        print("CPU times: total: %s\nWall time: %s" % (span(cpu), span(wall)))


def span(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return "%.3g %s" % (seconds / size, unit)
    return "%.3g ns" % (seconds / 1e-9)


def time_magic(args: str, frame):
    with timed():
        return _statement(args, frame)


def timeit_magic(args: str, frame, setup: str = "pass"):
    number, repeat, words = 0, 5, args
    while True:
        option = re.match(r"\s*-([nr])\s*(\d+)\s+|\s*-([qoctpv])\s+", words)
        if option is None:
            break
        if option.group(1) == "n":
            number = int(option.group(2))
        elif option.group(1) == "r":
            repeat = max(1, int(option.group(2)))
        words = words[option.end() :]
    names = frame if isinstance(frame, dict) else dict(frame.f_globals, **frame.f_locals)
    timer = timeit.Timer(words, setup, globals=names)
    if not number:
        number, _spent = timer.autorange()
    each = [spent / number for spent in timer.repeat(repeat, number)]
    mean = sum(each) / len(each)
    spread = (sum((one - mean) ** 2 for one in each) / len(each)) ** 0.5
    print(
        "%s ± %s per loop (mean ± std. dev. of %d runs, %s loops each)"
        % (span(mean), span(spread), repeat, format(number, ","))
    )


def who(_args: str, frame) -> None:
    kinds = (type(os), type(lambda: 0), type)
    print(
        "  ".join(
            [
                name
                for name, value in list(frame.f_globals.items())
                if not name.startswith("_") and not isinstance(value, kinds)
            ]
        )
        or "no variables"
    )


def run_file(args: str, frame) -> None:
    words = shlex.split(expand(args, frame))
    if not words:
        raise MagicError("%run needs the name of a file")
    kept = sys.argv
    sys.argv = words
    try:
        with open(words[0], "rb") as file:
            code = compile(file.read(), os.path.abspath(words[0]), "exec", 0, True)
        exec(code, frame.f_globals)
    finally:
        sys.argv = kept


LINE_MAGICS = {
    "pip": pip_magic,
    "conda": pip_magic,
    "uv": lambda args, frame: pip_magic(
        args[3:].strip() if args.startswith("pip") else args, frame
    ),
    "cd": lambda args, frame: change_directory(expand(args, frame)),
    "pwd": lambda args, frame: os.getcwd(),
    "env": environment,
    "set_env": environment,
    "time": time_magic,
    "timeit": timeit_magic,
    "who": who,
    "whos": who,
    "run": run_file,
    "system": lambda args, frame: run(expand(args, frame), shell=True) and None,
    "sx": lambda args, frame: Commands().lines(expand(args, frame)),
}
