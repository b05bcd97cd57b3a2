"""Script mode: a file run as python3 runs it (`__main__`, `__file__`, sys.argv, sys.path[0]),
and the process ended as python3 ends.

run.py gives RUN frames with a "script" to the class here. The order of the end is python3's: the
traceback by sys.excepthook, threads awaited, atexit, what the globals still held released (files
are flushed, `__del__` runs), streams flushed; then the END frame, then exit.
"""
import atexit
import gc
import io
import os
import sys
import threading

from krait_kernel import channel, display, guard, hints, names, policy_run, reserve, run, streams, tracebacks

INTERRUPTED = 130  # what a shell reports for a death by SIGINT
_run_exitfuncs, _exit = atexit._run_exitfuncs, os._exit
_dirname, _makedirs = os.path.dirname, os.makedirs
PSEUDO = {None: "<string>", "": "<string>", "-c": "<string>", "-": "<stdin>"}


class Script(run.Job):
    def __init__(self, spec: dict) -> None:
        script = spec["script"]
        script = dict(script, file=channel.located(script.get("file")))
        spec = dict(spec, name=PSEUDO.get(script.get("file"), script.get("file")))
        self.file = None if script.get("file") in PSEUDO else script["file"]
        self.argv = [str(one) for one in script.get("argv") or [script.get("file") or "-c"]]
        self.write, self.exit = bool(script.get("write")), bool(script.get("exit"))
        run.new_main()
        super().__init__(spec)

    def perform(self) -> None:
        guard.shielded(self, self.region)
        if self.exit:
            run.exit_after = self.exit_code

    def region(self) -> None:
        before = names.snapshot(self.names)
        try:
            self.prepare()
            self.execute()
            display.show_figures()
        except BaseException as exc:
            self.fail(exc)
        self.variables = names.changed(before, self.names, self.tree, self.cause == "ok")[
            : run.MAX_VARIABLES
        ]
        if self.exit or channel.is_copy():
            self.leave()
        streams.flush()
        if channel.is_copy():
            _exit(self.exit_code)
        self.finished = True

    def prepare(self) -> None:
        sys.argv[:] = self.argv
        self.find_itself()
        if policy_run.active(self):
            policy_run.settle(self.names)

    def find_itself(self) -> None:
        """Where the file lies, and what is imported from there."""
        if self.file is None:
            sys.path[0:1] = [""]
            return
        sys.path[0:1] = [_dirname(os.path.abspath(self.file))]
        self.names["__file__"] = self.file
        self.names["__cached__"] = None
        if self.write:
            _makedirs(sys.path[0], exist_ok=True)
            with io.open(
                self.file, "w", encoding="utf-8", errors="surrogatepass", newline=""
            ) as file:
                file.write(self.code)

    def execute(self) -> None:
        self.remember(self.code)
        if policy_run.active(self):
            policy_run.check(self.code)
        self.tree = compile(self.code, self.name, "exec", run.ONLY_AST | run.AWAIT, True)
        self.judge()
        self.evaluate()

    def show(self, value) -> None:
        """The value of the last expression is reported, but not displayed: python3 does not show it."""
        self.result = channel.clean(
            channel.cut(display.bundle(value)[0]["text/plain"], run.MAX_RESULT)
        )

    def fail(self, exc: BaseException) -> None:
        if isinstance(exc, SystemExit):
            self.cause, self.exit_code = "exit", guard.exit_status(exc)
            return
        if isinstance(exc, policy_run.Refused):
            self.refuse(exc)
            streams.emit(2, self.error["traceback"])
            return
        if isinstance(exc, MemoryError):
            reserve.free()
        self.cause = "exception"
        self.exit_code = INTERRUPTED if isinstance(exc, KeyboardInterrupt) else 1
        exc.__traceback__ = tb = tracebacks.cut_ours(tracebacks.strip(exc.__traceback__))
        self.error = tracebacks.describe(exc, self.name)
        try:
            self.hint = policy_run.hint_of(exc) or hints.hint(exc)
        except Exception:
            self.hint = None
        self.print_exception(exc, tb)
        try:
            display.show_figures()
        except Exception:
            pass

    def print_exception(self, exc: BaseException, tb) -> None:
        """As python3 does at the top: sys.excepthook, and if that fails both tracebacks."""
        hook = getattr(sys, "excepthook", None)
        try:
            if hook is None:
                raise AttributeError("sys.excepthook is missing")
            hook(type(exc), exc, tb)
        except SystemExit as end:
            self.exit_code = guard.exit_status(end)
        except BaseException as other:
            streams.emit(
                2,
                "Error in sys.excepthook:\n%s\nOriginal exception was:\n%s"
                % (tracebacks.text_of(other), tracebacks.text_of(exc)),
            )

    def leave(self) -> None:
        """What the interpreter does at its end, as far as user code can see it."""
        for step in (threading._shutdown, _run_exitfuncs, self.release):
            try:
                step()
            except SystemExit:
                pass
            except BaseException as exc:
                if step is not _run_exitfuncs:
                    streams.emit(2, "Exception ignored at exit:\n" + tracebacks.text_of(exc))

    def release(self) -> None:
        """Writes out files that are still open, then takes the globals apart in the
        interpreter's order, so that `__del__` runs.
        """
        for one in gc.get_objects():
            if issubclass(type(one), (io.BufferedWriter, io.BufferedRandom, io.TextIOWrapper)):
                try:
                    if not one.closed:
                        one.flush()
                except Exception:
                    pass
        for private in (True, False):
            for name in [one for one in list(self.names) if isinstance(one, str)]:
                if (
                    name != "__builtins__"
                    and name.startswith("_") == private
                    and not (private and name.startswith("__"))
                ):
                    self.names[name] = None
        gc.collect()


run.make_script = Script
