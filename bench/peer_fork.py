#!/usr/bin/python3
"""A simple fork server to compare krait with: one Python that has imported what a zygote has, os.fork() for
each snippet, no isolation.

bench/run starts one for each preload and sends lines; one line of JSON answers each.
    churn MS INFLIGHT     fork, run print(1), read its output, reap, as fast as it goes: done (how many), elapsed
    (microseconds)
It has none of what makes krait's own zygotes cheap to fork (src/kernel/python/forktricks.py) but gc.freeze(), and its
children do none of what a session does at its start: the `bare fork` of bench-layers has both.
"""
import gc
import importlib.util
import json
import os
import select
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CODE = "print(1)"


def load_preload():
    spec = importlib.util.spec_from_file_location("preload", os.path.join(HERE, "../src/kernel/python/preload.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def child(out: int, err: int) -> None:
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        exec(compile(CODE, "<run>", "exec"), {"__name__": "__main__"})
        sys.stdout.flush()
        os._exit(0)
    finally:
        os._exit(1)


class Run:
    """One snippet: its process and what it prints."""

    def __init__(self, poll) -> None:
        out, their_out = os.pipe()
        err, their_err = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            child(their_out, their_err)
        os.close(their_out)
        os.close(their_err)
        self.out, self.err, self.text = out, err, b""
        poll.register(out, select.EPOLLIN)

    def read(self, poll) -> bool:
        """Whether it has ended."""
        data = os.read(self.out, 65536)
        self.text += data
        if data:
            return False
        poll.unregister(self.out)
        wrong = os.read(self.err, 65536)
        os.close(self.out)
        os.close(self.err)
        status = os.waitpid(self.pid, 0)[1]
        if status or wrong or self.text != b"1\n":
            raise RuntimeError("the child ended with status %d and printed %r, %r" % (status, self.text, wrong))
        return True


def churn(ms: float, inflight: int) -> dict:
    poll = select.epoll()
    start = time.perf_counter()
    runs, done = {}, 0
    for _ in range(inflight):
        run = Run(poll)
        runs[run.out] = run
    while runs:
        for fd, _event in poll.poll():
            if not runs[fd].read(poll):
                continue
            del runs[fd]
            done += 1
            if time.perf_counter() - start < ms / 1e3:
                run = Run(poll)
                runs[run.out] = run
    poll.close()
    return {"done": [done], "elapsed": [(time.perf_counter() - start) * 1e6]}


def main() -> None:
    load_preload().imports(sys.argv[1])
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        words = line.split()
        try:
            print(json.dumps({"ok": True, **churn(float(words[1]), int(words[2]))}), flush=True)
        except Exception as exc:  # sent to the driver, which reports that it could not be measured
            print(json.dumps({"ok": False, "error": "%s: %s" % (type(exc).__name__, exc)}), flush=True)


if __name__ == "__main__":
    main()
