"""Notebook habits, part three: snippets that start with %%name. run.py asks here what to do with
one (magics.Cell).

Some wrap a body that is itself a snippet (around() gives what it runs in); the others are
carried out by run_cell().
"""
import contextlib
import io
import os
import shlex
import subprocess
import sys

from krait_kernel import commands, display


class Captured:
    """What %%capture NAME leaves in NAME."""

    def __init__(self) -> None:
        self._out, self._err = io.StringIO(), io.StringIO()

    stdout = property(lambda self: self._out.getvalue())
    stderr = property(lambda self: self._err.getvalue())

    def show(self) -> None:
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)


@contextlib.contextmanager
def captured(args: str, names: dict):
    made = Captured()
    words = [word for word in args.split() if word.isidentifier()]
    with contextlib.redirect_stdout(made._out), contextlib.redirect_stderr(made._err):
        yield made
    if words:
        names[words[0]] = made


def around(cell, names: dict):
    """For cell magics whose body is a snippet: what it runs in. None for all others."""
    if cell.name == "time":
        return commands.timed()
    if cell.name == "capture":
        return captured(cell.args, names)
    return None


def run_cell(cell, names: dict) -> None:
    """The cell magics whose body is not Python to be run as a snippet."""
    if cell.name in ("bash", "sh", "script", "!", "system", "sx"):
        shell = "/bin/bash" if cell.name == "bash" and os.path.exists("/bin/bash") else "/bin/sh"
        argv = shlex.split(cell.args) if cell.name == "script" and cell.args else [shell]
        status = commands.run(argv, input=cell.body.encode("utf-8"))
        if status != 0:
            raise subprocess.CalledProcessError(status, "%%" + cell.name)
    elif cell.name in ("writefile", "file"):
        _write_file(cell)
    elif cell.name == "timeit":
        options = cell.args.startswith("-")
        commands.timeit_magic(
            cell.args + "\n" + cell.body if options else cell.body,
            names,
            "pass" if options else cell.args or "pass",
        )
    elif cell.name in ("html", "HTML", "markdown", "latex", "svg", "SVG"):
        kind = {
            "html": "text/html",
            "markdown": "text/markdown",
            "latex": "text/latex",
            "svg": "image/svg+xml",
        }[cell.name.lower()]
        display.display({kind: cell.body, "text/plain": cell.body}, raw=True)
    else:
        raise commands.MagicError(
            "unknown magic %%%%%s; known are %s"
            % (cell.name, ", ".join("%%" + one for one in CELL_MAGICS))
        )


CELL_MAGICS = (
    "bash",
    "capture",
    "file",
    "html",
    "latex",
    "markdown",
    "script",
    "sh",
    "svg",
    "time",
    "timeit",
    "writefile",
)


def _write_file(cell) -> None:
    words = shlex.split(cell.args)
    append = "-a" in words or "--append" in words
    paths = [word for word in words if not word.startswith("-")]
    if len(paths) != 1:
        raise commands.MagicError("%%writefile needs one file name")
    path = os.path.expanduser(paths[0])
    what = (
        "Appending to"
        if append and os.path.exists(path)
        else "Overwriting"
        if os.path.exists(path)
        else "Writing"
    )
    with open(path, "a" if append else "w", encoding="utf-8") as file:
        file.write(cell.body if cell.body.endswith("\n") or not cell.body else cell.body + "\n")
    print("%s %s" % (what, paths[0]))
