#!/usr/bin/python3
"""krait's own environment and arguments end where sandboxes begin: not in builders and inits, nor in zygotes and
sessions."""
import os
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, equal, main
from drive import Engine

SECRET = "sentinel-4711-of-the-environment"
# What Python, the loader's children, BLAS or matplotlib would act on, and keys.
NAMES = ("PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONINSPECT PYTHONWARNINGS PYTHONUSERBASE PYTHONBREAKPOINT "
         "MPLCONFIGDIR MATPLOTLIBRC API_KEY KRAIT_API_KEY SANDBOX_API_TOKEN KRAIT_NO_FORK_TRICKS KRAIT_SCRATCH "
         "AWS_SECRET_ACCESS_KEY OPENBLAS_CORETYPE HTTP_PROXY").split()


def descendants(root: int) -> list:
    """Processes below this one."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parents[int(entry)] = int(Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = [root]
    for one in found:
        found += [pid for pid, parent in parents.items() if parent == one]
    return found[1:]


def holds_the_secret(pid: int) -> bool:
    """In its arguments or environment, as far as we may look."""
    for name in ("environ", "cmdline"):
        try:
            if SECRET.encode() in Path("/proc", str(pid), name).read_bytes():
                return True
        except OSError:
            continue
    return False


def modules(folder: str) -> None:
    """Modules that would come before the standard library's if PYTHONPATH counted."""
    for name in ("sitecustomize", "usercustomize", "json", "colorsys"):
        Path(folder, name + ".py").write_text("raise SystemExit('%s was imported')\n" % SECRET)


@check
def nothing_reaches_a_sandbox():
    saved = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="krait-env-") as folder:
        os.chmod(folder, 0o755)
        modules(folder)
        os.environ.update({name: SECRET for name in NAMES}, PYTHONPATH=folder + ":" + SECRET)
        try:
            engine = Engine("--pool", "1")
        finally:
            os.environ.clear()
            os.environ.update(saved)
        with engine:
            for pooled in (False, True):
                s = engine.open(pooled=pooled)
                result = engine.run(s, "import os, sys, json, colorsys, subprocess\n"
                                       "print(dict(os.environ), sys.path, sys.flags, json.__file__, "
                                       "colorsys.__file__)\n"
                                       "print(open('/proc/self/environ', 'rb').read())\n"
                                       "print(subprocess.run(['env'], capture_output=True).stdout)\n")
                equal(result.cause, "ok", str(result.end["error"]) + result.stderr)
                assert SECRET not in result.stdout and folder not in result.stdout, result.stdout
                for name in NAMES:
                    # MPLCONFIGDIR is set, but by us
                    assert name == "MPLCONFIGDIR" or "'%s'" % name not in result.stdout, (name, result.stdout)
            below = descendants(engine.process.pid)
            assert len(below) >= 4, below  # the engine, a builder, its zygote, inits and sessions
            # The one below that may have it is the engine: a copy of the warden, and no part of any cell.
            assert holds_the_secret(engine.process.pid), "the secret is not found where it is"
            equal(len([pid for pid in below if holds_the_secret(pid)]), 1)


if __name__ == "__main__":
    main()
