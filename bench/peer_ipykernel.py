#!/usr/bin/python3
"""ipykernel beside krait: Debian's python3-ipykernel, driven by its own client over ipc.

bench/run starts it and sends lines; one line of JSON answers each (microseconds, like the C programs).
    cold COUNT     start a kernel, wait for it, run print(1): from the start to the first output
    warm COUNT [MS]  print(1) in a live kernel, each after a pause: to the output, and to the reply
    memory         KB of proportional set size of a live kernel
"""
import json
import os
import sys
import time

os.environ["PATH"] = "/usr/bin:/bin"
os.environ.setdefault("HOME", "/tmp")

from jupyter_client.manager import KernelManager  # noqa: E402

TIMEOUT = 60


def now() -> float:
    return time.perf_counter() * 1e6


class Kernel:
    def __init__(self) -> None:
        self.manager = KernelManager(transport="ipc", kernel_name="python3")
        self.manager.start_kernel()
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIMEOUT)

    def run(self) -> tuple:
        """When the output came, and when the reply did."""
        request = self.client.execute("print(1)")
        output = None
        while output is None:
            message = self.client.get_iopub_msg(timeout=TIMEOUT)
            if message["parent_header"].get("msg_id") == request and message["msg_type"] == "stream":
                if message["content"]["text"] not in ("1\n", "1"):  # the newline may come in a message of its own
                    raise RuntimeError("it printed %r" % message["content"]["text"])
                output = now()
        self.client.get_shell_msg(timeout=TIMEOUT)
        end = now()
        while True:  # until idle, so that nothing of this run is left for the next
            message = self.client.get_iopub_msg(timeout=TIMEOUT)
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle" \
                    and message["parent_header"].get("msg_id") == request:
                return output, end

    def pss(self) -> int:
        with open("/proc/%d/smaps_rollup" % self.manager.provisioner.pid, encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Pss:"))

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def answer(kernel, words: list) -> tuple:
    if words[0] == "cold":
        times = []
        for _ in range(int(words[1])):
            if kernel is not None:
                kernel.close()
            start = now()
            kernel = Kernel()
            times.append(kernel.run()[0] - start)
        return kernel, {"output": times}
    if kernel is None:
        kernel = Kernel()
        kernel.run()
    if words[0] == "memory":
        return kernel, {"pss_kb": [kernel.pss()]}
    outputs, ends = [], []
    pause = float(words[2]) / 1e3 if len(words) > 2 else 0
    for _ in range(int(words[1])):
        if pause:
            time.sleep(pause)
        start = now()
        output, end = kernel.run()
        outputs.append(output - start)
        ends.append(end - start)
    return kernel, {"output": outputs, "end": ends}


def main() -> None:
    kernel = None
    for line in sys.stdin:
        try:
            kernel, result = answer(kernel, line.split())
            print(json.dumps({"ok": True, **result}), flush=True)
        except Exception as exc:  # sent to the driver, which reports that it could not be measured
            print(json.dumps({"ok": False, "error": "%s: %s" % (type(exc).__name__, exc)}), flush=True)
    if kernel is not None:
        kernel.close()


if __name__ == "__main__":
    main()
