"""Entry of the bench's zygote: `python3 -I -S boot.py PRELOAD CTL_FD`, instead of the product's own boot.py
(kernel_boot.py here).

It is prepared by the product's prepare() and share(), so that its memory is a zygote's; only the loop that forks is
another (zygote.c), because it must be able to leave layers out. perform() is what a session does between its fork and
the end of its first snippet: the same at-fork work, START (done in C there, step by step here) and run, called directly
instead of by frames.
"""
import os
import sys
from types import ModuleType

CGROUP, NAMESPACES, LANDLOCK = 1, 2, 8
RLIMITS = {"data": 1 << 30, "fsize": 1 << 30, "nofile": 1024, "nproc": 80}
RUN = b'{"code":"print(1)","name":"<run 1>","warm":false,"figures":"png","stdin":null,"script":null}'


def load_boot(folder: str) -> ModuleType:
    module = ModuleType("kernel_boot")
    path = os.path.join(folder, "kernel_boot.py")
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), module.__dict__)
    return module


def main(argv: list) -> None:
    folder = os.path.dirname(os.path.abspath(__file__))
    preload, control = argv[1], int(argv[2])
    kernel = load_boot(folder).prepare(folder, preload)
    sys.path.insert(0, folder)
    import _bench
    import _krait
    sys.path.remove(folder)

    def perform(layers: int) -> None:
        kernel.channel.pid = os.getpid()
        kernel.forktricks.in_child()
        _krait.get_ready()
        if layers & NAMESPACES:
            os.chdir("/workspace")
        if layers & CGROUP:
            _krait.setrlimits(RLIMITS)
        if layers & LANDLOCK:
            _krait.restrict([])
        kernel.run.run(1, RUN)

    kernel.forktricks.share()
    _bench.serve(control, perform)


if __name__ == "__main__":
    main(sys.argv)
