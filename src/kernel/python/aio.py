"""The event loop of a session: one for all its runs, made when the first run awaits something.

Tasks that are still pending when a run ends stay, and go on when a later run awaits. Invariant:
an interrupted run leaves no top-level coroutine of its own behind.
"""
import warnings
from types import TracebackType

_loop = None
_asyncio = None
_sees_steps = False  # whether a task's next step can be seen in the loop's list, which is not an API


def _get():
    global _loop, _asyncio
    import asyncio

    _asyncio = asyncio
    if _loop is None or _loop.is_closed():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                _loop = (
                    asyncio.get_event_loop()
                )  # the one user code may have been using without await
            except RuntimeError:
                _loop = None
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
    asyncio.set_event_loop(_loop)  # asyncio.run() takes it away
    return _loop


def begin() -> None:
    """Before each run: asyncio.get_event_loop() in user code finds ours again after an
    asyncio.run().
    """
    if _loop is not None and not _loop.is_closed():
        try:
            _asyncio.set_event_loop(_loop)
        except Exception:
            pass  # patched by user code


def close() -> None:
    """After a warm-up: user code finds asyncio as if nothing had been."""
    global _loop
    loop, _loop = _loop, None
    if loop is None:
        return
    loop.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _asyncio.set_event_loop_policy(
            None
        )  # a new one makes a loop on demand, where this Python does that


def wait(coroutine):
    """Runs a run's top-level coroutine to its end."""
    global _sees_steps
    loop = _get()
    _forget_stop(loop)
    task = loop.create_task(coroutine)
    _sees_steps = any(step is task for step in _steps(loop))
    try:
        return loop.run_until_complete(task)
    except KeyboardInterrupt as exc:
        if task.done():
            raise
        where = _place(coroutine)  # the interrupt came while the loop waited
        _cancel(loop, task)
        raise exc.with_traceback(where) from None


def _place(coroutine):
    """A traceback of where a suspended coroutine is, through all it awaits; None if that cannot
    be seen.
    """
    frames = []
    while coroutine is not None and len(frames) < 100:
        frame = (
            getattr(coroutine, "cr_frame", None)
            or getattr(coroutine, "gi_frame", None)
            or getattr(coroutine, "ag_frame", None)
        )
        if frame is None:
            break
        frames.append(frame)
        coroutine = (
            getattr(coroutine, "cr_await", None)
            or getattr(coroutine, "gi_yieldfrom", None)
            or getattr(coroutine, "ag_await", None)
        )
    trace = None
    for frame in reversed(frames):
        trace = TracebackType(trace, frame, max(frame.f_lasti, 0), frame.f_lineno or 1)
    return trace


def _forget_stop(loop) -> None:
    """A run that was interrupted just as its task ended has left word for the loop to stop, and
    the next await is not meant.
    """
    for handle in list(getattr(loop, "_ready", ())):
        callback = getattr(handle, "_callback", None)
        if getattr(callback, "__name__", "") == "_run_until_complete_cb":
            handle.cancel()


def _steps(loop) -> list:
    """Whose steps the loop will take."""
    callbacks = [getattr(handle, "_callback", None) for handle in list(getattr(loop, "_ready", ()))]
    return [getattr(callback, "__self__", None) for callback in callbacks]


def _is_lost(loop, task) -> bool:
    """Waits for nothing, and has no step to take."""
    future = getattr(task, "_fut_waiter", task)
    if not _sees_steps or (future is not None and not future.done()):
        return False
    return all(step is not task for step in _steps(loop))


def _bury_lost(loop) -> None:
    """An interrupt that comes after the loop has taken a task's next step from its list, and
    before it takes the step, leaves a task that nothing will ever wake, not even its cancel().
    """
    for task in _asyncio.all_tasks(loop):
        if _is_lost(loop, task):
            try:
                task.get_coro().close()
            finally:
                _asyncio.Future.cancel(task)  # wakes those who wait for it


def _cancel(loop, task) -> None:
    """Ends the coroutine, so that it does not go on in the next run. User code may take its time
    over it.
    """
    try:
        _bury_lost(loop)
    except Exception:
        pass  # what it raised on being closed
    task.cancel()
    try:
        loop.run_until_complete(task)
    except _asyncio.CancelledError:
        pass
    except Exception:
        pass  # what it raised on being cancelled
