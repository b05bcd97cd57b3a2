"""Runs one snippet: the code of a RUN frame in, an END frame out.

_krait calls run() for each RUN frame. While user code may be running (the "region" below) SIGINT
is unblocked and a KeyboardInterrupt may come out of any line, ours included; outside of it
SIGINT is blocked. Everything that can call user code (the run itself, repr, displays, `__str__`
of an exception) is inside the region, so that an endless one can be interrupted. Invariants:
each RUN is answered by one END, whatever user code does to the interpreter; a copy of the
process that user code forked never comes back to the loop; one run's exception, frames and
values are let go before the next.
"""
import ast
import builtins as _user_builtins
import __future__ as _features
import os
import sys
from ast import Expr, Expression
from types import ModuleType

from krait_kernel import (
    aio,
    cells,
    channel,
    commands,
    display,
    guard,
    hints,
    magics,
    names,
    policy_run,
    reserve,
    shortage,
    streams,
    tracebacks,
)

MAX_RESULT = (256 << 10) + 64  # characters: what display.py has cut, with the mark of it
MAX_VARIABLES = 1000
LOWEST_LIMIT = 500  # of recursion, for our own sake
ONLY_AST = ast.PyCF_ONLY_AST
AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
CO_COROUTINE = 0x80
FUTURE_FLAGS = (
    _features.annotations.compiler_flag
)  # from __future__ import annotations holds for later runs, as in a REPL

_exit = os._exit
_settrace, _setprofile = sys.settrace, sys.setprofile
_getlimit, _setlimit = sys.getrecursionlimit, sys.setrecursionlimit
main = None  # the __main__ module of user code
exit_after = None  # the status to end the process with once the END frame is out, or None
_future = 0
_last = None  # what we bound to `_`


def new_main() -> dict:
    """A fresh __main__, without a trace of how the zygote was started."""
    global main, _future
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = _user_builtins
    main.__dict__["__annotations__"] = {}
    sys.modules["__main__"] = main
    _future = 0
    return main.__dict__


async def _plain(code, variables: dict):
    return eval(code, variables)


class Job:
    """One run: what it was asked, and how it went."""

    def __init__(self, spec: dict) -> None:
        self.code = spec.get("code") or ""
        self.name = spec.get("name") or "<run>"
        self.warm = bool(spec.get("warm"))
        self.auto_install = bool(spec.get("auto_install")) and channel.venv
        self.cause, self.exit_code = "ok", 0
        self.result = self.error = self.hint = None
        self.variables: list = []
        self.names_modules = bool(spec.get("names_modules"))
        self.finished = (
            False  # user code is through, and nothing of its outcome is still to be computed
        )
        self.names = (
            main.__dict__
            if not self.warm
            else {"__name__": "__main__", "__builtins__": _user_builtins}
        )
        self.tree = None
        self.started = False  # user code has run

    # ---- inside the region ----------------------------------------------------------------------

    def region(self) -> None:
        before = names.snapshot(self.names)
        try:
            self.attempt()
            if channel.is_copy():
                guard.end_copy(None)
            display.show_figures()
        except BaseException as exc:
            if channel.is_copy():
                guard.end_copy(exc)
            self.fail(exc)
            self.leftovers(exc)
        self.variables = names.changed(
            before, self.names, self.tree, self.cause == "ok", self.names_modules
        )[:MAX_VARIABLES]
        if self.hint is None:
            self.hint = commands.pending_hint
        streams.flush()
        self.finished = True

    def attempt(self) -> None:
        try:
            self.execute()
        except ModuleNotFoundError as exc:
            if not self.auto_install or not commands.install_missing(exc):
                raise
            self.auto_install = False
            self.tree, self.result = None, None
            self.execute()  # from its beginning: what it did before the import is done again
        except MemoryError:
            if self.started or not reserve.free():
                raise
            self.execute()  # only the compiler was short of memory: the code may be what frees some

    def execute(self) -> None:
        cell, code = None, self.code
        if policy_run.active(self):
            policy_run.check(code)
        try:
            self.tree = self.parse(code)
        except SyntaxError:
            cell = magics.cell(code)
            if cell is None:
                raise
        if cell is None:
            self.judge()
            return self.evaluate()
        self.remember(code, frozenset([cell.first_line]))
        if policy_run.active(self):
            policy_run.judge_cell(cell, code)
        around = cells.around(cell, self.names)
        if around is None:
            return cells.run_cell(cell, self.names)
        self.tree = self.parse("\n" * cell.first_line + cell.body, code)
        self.judge()
        with around:
            return self.evaluate()

    def judge(self) -> None:
        """Raises if the policy does not allow what is in the tree; else the tree is fit to run."""
        if policy_run.active(self):
            policy_run.judge(self.tree, self.code)

    def parse(self, source: str, shown: str = ""):
        """The tree of the code. Magics and a common indent are tried only on text that is not
        Python as it stands.
        """
        self.remember(shown or source)
        try:
            return self._tree(source)
        except SyntaxError as exc:
            made = magics.transform(source)
            if made is None:
                tree = self._dedented(source, exc)
                if tree is None:
                    raise
                return tree
            self.remember(shown or source, made[1])
            source = made[0]
        return self._tree(source)

    def _tree(self, source: str):
        try:
            return compile(source, self.name, "exec", ONLY_AST | AWAIT | _future, True)
        except SystemError:
            # CPython 3.11: the garbage collector ran a __del__ meanwhile that showed a traceback,
            # for which it parses too.
            return compile(source, self.name, "exec", ONLY_AST | AWAIT | _future, True)

    def _dedented(self, source: str, exc: SyntaxError):
        if not isinstance(exc, IndentationError):
            return None
        from textwrap import dedent

        made = dedent(source)
        if made == source:
            return None
        try:
            return self._tree(made)
        except SyntaxError:
            return None

    def remember(self, source: str, magic_lines=frozenset()) -> None:
        if not self.warm:
            tracebacks.remember(self.name, source, magic_lines)

    def evaluate(self) -> None:
        body = self.tree.body
        last = body.pop() if body and type(body[-1]) is Expr else None
        value = final = None
        first = self.compiled(self.tree, "exec") if body else None
        if last is not None:
            final = self.compiled(Expression(last.value), "eval")
        awaits = any(code is not None and code.co_flags & CO_COROUTINE for code in (first, final))
        if first is not None:
            self.step(first, awaits)
        if final is not None:
            value = self.step(final, awaits)
            body.append(last)
        if channel.is_copy():
            return
        if value is None:
            self.named_result()
        elif not self.silenced(last):
            self.show(value)

    def named_result(self) -> None:
        """Without a last value, a variable called `result` that this run has bound is the
        result.
        """
        if "result" in self.names and names.binds(self.tree.body, "result"):
            self.result = channel.clean(channel.cut(repr(self.names["result"]), MAX_RESULT))

    def compiled(self, tree, mode: str):
        global _future
        code = compile(tree, self.name, mode, AWAIT | _future, True)
        _future |= code.co_flags & FUTURE_FLAGS if not self.warm else 0
        return code

    def step(self, code, awaits: bool):
        """What awaits nothing itself is run by the loop too where the rest of the run awaits: it
        may have made the tasks.
        """
        self.started = True
        if code.co_flags & CO_COROUTINE:
            return aio.wait(eval(code, self.names))
        return aio.wait(_plain(code, self.names)) if awaits else eval(code, self.names)

    def silenced(self, last) -> bool:
        """Whether the last expression ends in a semicolon."""
        lines = self.code.split("\n")
        try:
            tail = lines[last.end_lineno - 1].encode("utf-8")[last.end_col_offset :].decode("utf-8")
        except (IndexError, UnicodeError, TypeError):
            return False
        return tail.lstrip().startswith(";")

    def show(self, value) -> None:
        global _last
        data, metadata = display.bundle(value)
        text, rich = data["text/plain"], display.is_rich(data)
        if rich:
            display.enrich(value, data)
            text = display.text_of(data)
        self.result = channel.clean(channel.cut(text, MAX_RESULT))
        if rich:
            display.send(data, metadata)
        if "_" not in self.names or self.names["_"] is _last:  # else it is the user's own
            self.names["_"] = value
            _last = value if not self.warm else _last

    def fail(self, exc: BaseException) -> None:
        """An exception came out of user code."""
        if isinstance(exc, MemoryError):
            reserve.free()
        if isinstance(exc, SystemExit):
            self.cause = "exit"
            self.exit_code = guard.exit_status(exc)
            return
        if isinstance(exc, policy_run.Refused):
            self.refuse(exc)
            return
        self.cause, self.exit_code = "exception", 1
        self.error = tracebacks.describe(exc, self.name)
        try:
            self.hint = policy_run.hint_of(exc) or hints.hint(exc)
        except Exception:
            self.hint = None

    def refuse(self, exc) -> None:
        """The policy does not let the code run."""
        self.cause, self.exit_code = "denied", policy_run.EXIT_REFUSED
        self.error, self.hint = policy_run.refused_error(exc), policy_run.hint_of(exc)

    def leftovers(self, exc: BaseException) -> None:
        """Figures that were open when the run failed. Their own errors are not reported."""
        try:
            if not isinstance(exc, (KeyboardInterrupt, MemoryError)):
                display.show_figures()
        except Exception:
            pass

    # ---- outside of it --------------------------------------------------------------------------

    def late(self, exc: BaseException) -> None:
        """An exception came while we were busy: an interrupt, a handler of the user's, no
        memory.
        """
        if not self.finished:
            self.cause, self.exit_code = "exception", 1
            self.error = tracebacks.bare(exc)

    def perform(self) -> None:
        if not self.warm:
            guard.shielded(self, self.region)
            return
        with streams.scratch():
            guard.shielded(self, self.region)
        aio.close()

    def end(self) -> bytes:
        """The END frame."""
        dumps = channel.dumps
        return (
            '{"cause":"%s","exit_code":%d,"result":%s,"error":%s,"variables":%s,"hint":%s%s,'
            '"copy":false}'
            % (
                self.cause,
                self.exit_code,
                dumps(self.result),
                dumps(self.error),
                dumps([] if self.warm else self.variables),
                dumps(self.hint),
                policy_run.members() if policy_run.active(self) else "",
            )
        ).encode("utf-8")


class Judged(Job):
    """A run that is judged, and not run."""

    def region(self) -> None:
        try:
            policy_run.validate(self.code, self.parse)
        except BaseException as exc:
            self.fail(exc)
        self.finished = True


def _main_names() -> dict:
    return main.__dict__


def run(run_id: int, payload: bytes) -> None:
    """What _krait calls. Does not raise."""
    global exit_after
    exit_after = None
    try:
        job = _twice(_begin, run_id, payload)
        job.perform()
        answer = _twice(_finish, job)
    except BaseException as exc:
        kind = tracebacks.type_name(exc).encode("ascii", "replace")
        answer = (
            b'{"cause":"exception","exit_code":1,"result":null,"error":{"type":"%s","message":"",'
            b'"traceback":"%s","line":null,"errno":0},"variables":[],"hint":null,"copy":false}'
            % (kind, kind)
        )
    try:
        _send_end(run_id, answer)
    finally:
        channel.run = 0
        if exit_after is not None:
            _exit(exit_after)


def _send_end(run_id: int, answer: bytes) -> None:
    for _attempt in range(guard.ATTEMPTS):
        try:
            channel.send_end(run_id, answer)
            return
        except BaseException:
            continue  # a handler of the user's; a second END is dropped


def _twice(step, *args):
    """A step of ours that was short of memory is done again once the reserve is given back."""
    try:
        return step(*args)
    except MemoryError:
        if not reserve.free():
            raise
        return step(*args)


def _begin(run_id: int, payload: bytes):
    guard.settle()
    reserve.hold()
    spec = channel.loads(payload)
    if "dead" in spec:
        try:
            guard.await_dead()
        except OSError:
            pass  # no /proc
    channel.run = run_id
    channel.quiet = bool(spec.get("warm"))
    display.begin(spec)
    commands.pending_hint = None
    shortage.begin()
    if not channel.quiet:
        streams.ready(spec.get("stdin"))
    aio.begin()
    names.refresh_imports()
    if not channel.quiet:
        policy_run.begin(spec, _main_names)
    if policy_run.judging:
        return Judged(spec)
    if "variables" in spec:
        main.__dict__.update(policy_run.lent(spec["variables"]))
    if "env" in spec:
        names.lend_environment(spec["env"])
    return (make_script if spec.get("script") else Job)(spec)


def _finish(job) -> bytes:
    _settrace(None)
    _setprofile(None)
    if _getlimit() < LOWEST_LIMIT:
        _setlimit(1000)
    streams.flush_ours()
    names.take_environment_back()
    if job.hint is None and type(job) is Job and not job.warm:
        job.hint = shortage.look(channel.folder is None)
    return job.end()


make_script = Job  # script.py puts its own here
