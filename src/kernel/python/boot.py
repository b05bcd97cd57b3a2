"""Entry of a zygote: `python3 -I -S boot.py PRELOAD CTL_FD [MODULES]`.

Builds the package krait_kernel from the files beside this one, imports the preload, runs it
warm, freezes it and hands itself over to _krait.serve(), which forks sessions. In a session
_krait calls back: after_fork() at once, start() for the START frame, run() for each RUN.
Invariants: nothing is ever imported from /workspace here, and from /venv only by the preload
`template`, after it is confined; our modules have their own
copy of the builtins, so that user code cannot change what they call; user code finds a fresh
__main__ and the sys.path of a normal python3; the zygote has one thread.
"""
import builtins
import marshal
import os
import sys
from types import ModuleType

PACKAGE = "krait_kernel"
# In the order in which they need each other.
MODULES = (
    "forktricks",
    "channel",
    "streams",
    "tracebacks",
    "hints",
    "names",
    "display",
    "magics",
    "commands",
    "cells",
    "aio",
    "reserve",
    "shortage",
    "guard",
    "policy_rules",
    "policy_names",
    "policy_report",
    "policy_judge",
    "policy_guards",
    "policy_members",
    "policy_audit",
    "policy_modules",
    "policy_analysis",
    "policy_run",
    "run",
    "script",
    "afterimport",
    "libs",
    "preload",
    "start",
)
REHEARSALS = 40
EARLY = ("forktricks", "preload")  # what the imports of the preload need, loaded again later
# Compiled here, run when they are asked for.
LAZY = ("mplbackend", "spawnmain", "readable", "htmltext", "pictures", "plotlydraw", "relay")


def _compiled(folder: str, name: str):
    path = os.path.join(folder, name + ".py")
    with open(path, encoding="utf-8") as file:
        return compile(file.read(), path, "exec", dont_inherit=True)


def load(folder: str, names: tuple = MODULES, codes: dict = {}) -> ModuleType:
    """The package, with these of its modules loaded, from their compiled form where there is
    one.
    """
    package = ModuleType(PACKAGE)
    package.__path__ = []  # nothing of it is looked for in files later on
    sys.modules[PACKAGE] = package
    if "_krait" not in sys.modules:
        sys.path.insert(0, folder)
        import _krait  # noqa: F401

        sys.path.remove(folder)
    private = dict(vars(builtins))
    modules = {name: ModuleType("%s.%s" % (PACKAGE, name)) for name in names}
    for name, module in modules.items():
        module.__file__ = os.path.join(folder, name + ".py")
        module.__package__ = PACKAGE
        module.__dict__["__builtins__"] = private
        sys.modules[module.__name__] = module
        setattr(package, name, module)
        code = marshal.loads(codes[name]) if name in codes else _compiled(folder, name)
        exec(code, module.__dict__)
        if name == "forktricks":
            module.collect()
    return package


def site_folders() -> list:
    """Where a python3 that had run `site` would look for packages. -S keeps it from running; we
    add the folders alone.
    """
    version = "python%d.%d" % sys.version_info[:2]
    prefix = sys.prefix
    config = os.path.join(os.path.dirname(os.path.dirname(sys.executable or "")), "pyvenv.cfg")
    folders = []
    system = True
    if os.path.exists(config):  # the interpreter of a virtual environment
        with open(config, encoding="utf-8") as file:
            settings = dict(
                [part.strip().lower() for part in line.split("=", 1)]
                for line in file
                if "=" in line
            )
        folders.append(os.path.join(os.path.dirname(config), "lib", version, "site-packages"))
        system = settings.get("include-system-site-packages") == "true"
    if system and prefix == "/usr":
        folders += [
            "/usr/local/lib/%s/dist-packages" % version,
            "/usr/lib/python3/dist-packages",
            "/usr/lib/%s/dist-packages" % version,
        ]
    if system:
        folders += [os.path.join(prefix, lib, version, "site-packages") for lib in ("lib", "lib64")]
    return [one for one in folders if os.path.isdir(one)]


def set_path() -> None:
    sys.path[:] = [one for one in sys.path if one]
    for folder in site_folders():
        if folder not in sys.path:
            sys.path.append(folder)


def user_builtins(kernel) -> None:
    """What `site` adds to the builtins, and what we do."""
    import _sitebuiltins

    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
    builtins.help = _sitebuiltins._Helper()
    builtins.display = kernel.display.display
    builtins.__krait__ = kernel.commands.Commands()
    kernel.streams.install()


def warm(kernel, preload: str) -> None:
    """Runs the preload's snippets as warm-ups, so that what they make the interpreter allocate
    is shared.
    """
    kernel.run.new_main()
    for code in kernel.preload.WARM[preload]:
        kernel.display.begin({})
        job = kernel.run.Job({"code": code, "name": "<warm>", "warm": True})
        job.perform()
        if job.error is not None and job.error["type"] not in ("ValueError", "SyntaxError"):
            raise RuntimeError("the warm-up failed:\n" + job.error["traceback"])
    import linecache

    linecache.clearcache()
    kernel.run.new_main()


def rehearse(kernel) -> None:
    """What a session does with a run that prints, many times over: the interpreter rewrites code
    that has run often (PEP 659), better here than in each session's own copy of it.
    """
    for _turn in range(REHEARSALS):
        job = kernel.run._begin(0, b'{"code":"print(1)","name":"<warm>","warm":true}')
        job.perform()
        kernel.run._finish(job)
    kernel.channel.quiet = False
    kernel.run.new_main()


def _load_dense(folder: str, preload: str, modules: str) -> ModuleType:
    """Imports the preload, then loads our modules into memory of their own: a session writes to
    (counts references of) most of what is ours and little of the rest, and each page it writes
    to becomes a page more.
    """
    codes = {name: marshal.dumps(_compiled(folder, name)) for name in MODULES}
    early = load(folder, EARLY, codes)
    early.preload.imports(preload, modules)
    early.forktricks.release()
    early.forktricks.pack()
    kernel = load(folder, MODULES, codes)
    kernel.forktricks.release()
    kernel.forktricks.adopt(early.forktricks)
    return kernel


def prepare(folder: str, preload: str, modules: str = "") -> ModuleType:
    """Everything up to the point where forking can begin."""
    set_path()
    # First, so that the imports use again what compiling has used.
    texts = {"%s.%s" % (PACKAGE, name): marshal.dumps(_compiled(folder, name)) for name in LAZY}
    kernel = _load_dense(folder, preload, modules)
    user_builtins(kernel)
    kernel.afterimport.install(kernel.libs.ACTIONS, texts)
    warm(kernel, preload)
    kernel.libs.forget()
    kernel.reserve.hold()
    kernel.forktricks.pack()
    kernel.forktricks.prepare()
    kernel.start.settle()
    rehearse(kernel)
    sys.argv[:] = [""]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [sys.executable]
    return kernel


def main(argv: list) -> None:
    folder = os.path.dirname(os.path.abspath(__file__))
    preload, control = argv[1], int(argv[2])
    try:
        kernel = prepare(folder, preload, "".join(argv[3:4]))
    except Exception as exc:
        sys.path.insert(0, folder)
        import _krait

        _krait.fail(control, "the %s zygote cannot start: %s" % (preload, exc))
        raise SystemExit(1)
    import _krait

    def after_fork() -> None:
        kernel.channel.pid = os.getpid()
        kernel.forktricks.in_child()

    count = kernel.forktricks.threads()
    if count > 1:
        raise RuntimeError(
            "a zygote must have one thread, this one has %d after its imports" % count
        )
    start = kernel.start
    _krait.set_hooks(
        after_fork,
        start.start,
        kernel.run.run,
        start.use_venv,
        start.on_packaged,
        start.on_terminal,
    )
    sys.stdout.flush()
    sys.stderr.flush()
    kernel.forktricks.share()
    _krait.serve(control)


if __name__ == "__main__":
    main(sys.argv)
