#!/usr/bin/python3
"""Zygote and START: what siblings must not share, what a session finds (environment, path,
limits), and what boot refuses.
"""
import os
import subprocess

from fake_krait import KERNEL, PYTHON, Zygote, load_kernel
from check import check, contains, equal, main, skip

zygote = Zygote()
kernel = load_kernel()
data = None


def need(module):
    if (
        subprocess.run(
            [PYTHON, "-c", "import " + module], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ).returncode
        != 0
    ):
        skip("%s is not installed for %s" % (module, PYTHON))


def run(code, source=None, **how):
    with (source or zygote).session(**how) as session:
        end = session.run(code)
        assert end["cause"] == "ok", end
        return end["result"]


# One row for each source of randomness user code may draw from.
DRAWS = {
    "random": "import random\n[random.random(), random.gauss(0, 1), random.getrandbits(64)]",
    "secrets": "import secrets\nsecrets.token_hex()",
    "uuid1": "import uuid\n[uuid.uuid1().clock_seq, uuid.uuid1().node, uuid.uuid1().time]",
    "uuid4": "import uuid\nuuid.uuid4()",
    "getnode": "import uuid\nuuid._node, uuid._last_timestamp",
    "tempfile": "import tempfile\nn = tempfile._get_candidate_names()\n[next(n) for _ in range(3)]",
    "ssl": "import ssl\nssl.RAND_bytes(16)",
    "authkey": "import multiprocessing\nbytes(multiprocessing.current_process().authkey)",
    "urandom": "import os\nos.urandom(8)",
}
NUMPY = {
    "numpy": "import numpy as np\n[np.random.rand(), np.random.normal(), np.random.randint(10**9)]",
    "default_rng": "import numpy as np\nnp.random.default_rng().random()",
    "scipy": "from scipy import stats\nstats.norm.rvs()",
    "pandas": "import pandas as pd\npd.Series(range(10**5)).sample(3).tolist()",
}


@check
def siblings_draw_different_numbers():
    for name, code in DRAWS.items():
        drawn = [run(code) for _ in range(3)]
        if name == "getnode":
            equal(drawn, ["(None, None)"] * 3, name)
        else:
            equal(len(set(drawn)), 3, "%s: %r" % (name, drawn))


@check
def siblings_draw_different_numbers_even_with_equal_pids():
    with zygote.session() as first, zygote.session() as second:
        for session in (first, second):  # what namespaces do: the same pid in each cell
            session.run("import os\nos.getpid = lambda: 2")
        for name in ("random", "tempfile", "uuid4"):
            assert first.run(DRAWS[name])["result"] != second.run(DRAWS[name])["result"], name


@check
def siblings_of_the_data_zygote_draw_different_numbers():
    global data
    for module in ("numpy", "pandas", "scipy", "matplotlib"):
        need(module)
    data = Zygote("data")
    for name, code in list(NUMPY.items()) + [("random", DRAWS["random"]), ("ssl", DRAWS["ssl"])]:
        drawn = [run(code, data) for _ in range(3)]
        equal(len(set(drawn)), 3, "%s: %r" % (name, drawn))


@check
def every_generator_object_of_the_zygote_is_reseeded():
    code = (
        "import gc, random\ngc.unfreeze()\n"
        "found = [o for o in gc.get_objects() if issubclass(type(o), random.Random) and not issubclass(type(o), "
        "random.SystemRandom)]\n"
        "sorted(str(o.random()) for o in found)"
    )
    drawn = [set(eval(run(code))) for _ in range(2)]
    assert drawn[0], "no generator found at all"
    equal(drawn[0] & drawn[1], set())


@check
def the_table_of_random_state_is_complete_for_what_is_loaded():
    loaded = set(eval(run("import sys\nsorted(sys.modules)")))
    for name in ("random", "ssl", "uuid", "tempfile"):
        assert name in loaded and name in {row[0] for row in kernel.forktricks.RESEED}, name


@check
def numpy_seed_still_repeats():
    need("numpy")
    code = "import numpy as np, random\nnp.random.seed(1)\nrandom.seed(1)\n[np.random.rand(), random.random()]"
    equal(run(code), run(code))


@check
def nothing_of_ours_in_the_users_eyes():
    equal(run("import builtins\nsorted(n for n in dir(builtins) if 'krait' in n)"), "['__krait__']")
    equal(
        run(
            "import sys\n[n for n in globals() if 'krait' in n], [p for p in sys.path if 'krait' in p or 'src/kernel' "
            "in p]"
        ),
        "([], [])",
    )


@check
def the_path_is_a_normal_pythons():
    real = subprocess.run(
        [PYTHON, "-c", "import sys; print(sys.path)"],
        stdout=subprocess.PIPE,
        cwd="/tmp",
        env={"LANG": "C.UTF-8"},
    ).stdout.decode()
    mine = eval(run("import sys\nsys.path"))
    equal(
        [one for one in mine if os.path.exists(one or ".")],
        [one for one in eval(real) if os.path.exists(one or ".")],
    )


@check
def site_builtins_are_there():
    equal(
        run("[callable(f) for f in (exit, quit, help, display, input)]"),
        "[True, True, True, True, True]",
    )


@check
def environment_of_a_session():
    result = eval(
        run(
            "import os, time\ndict(os.environ), time.tzname, os.getcwd(), os.path.expanduser('~')",
            env={"MY": "välue", "TZ": "Europe/Paris", "TERM": None},
            cwd="/tmp",
        )
    )
    env = result[0]
    equal(
        (
            env["HOME"],
            env["LANG"],
            env["USER"],
            env["MPLBACKEND"],
            env["MY"],
            env["OMP_NUM_THREADS"],
        ),
        ("/workspace", "C.UTF-8", "user", "Agg", "välue", "1"),
    )
    assert "TERM" not in env and "KRAIT_NO_FORK_TRICKS" not in env
    equal(result[1:], (("CET", "CEST"), "/tmp", "/workspace"))
    equal(run("import time\ntime.tzname"), "('UTC', 'UTC')")
    equal(
        run(
            "import subprocess\nsubprocess.run('echo $HOME', shell=True, capture_output=True, text=True).stdout"
        ),
        "'/workspace\\n'",
    )


@check
def processors_follow_the_limit():
    equal(
        run(
            "import os, multiprocessing\n"
            "os.cpu_count(), multiprocessing.cpu_count(), os.environ['OPENBLAS_NUM_THREADS']",
            cpus=3,
        ),
        "(3, 3, '3')",
    )
    equal(run("import os\nos.cpu_count()", cpus=0.5), "1")


@check
def threads_have_small_stacks():
    equal(run("import threading\nthreading.stack_size()"), str(1 << 20))


@check
def limits_are_set_and_landlock_is_last():
    equal(
        run(
            "import resource\nresource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_FSIZE)",
            rlimits={"nofile": 99, "fsize": 5 << 20, "cpu": 0},
        ),
        "((99, 99), (5242880, 5242880))",
    )
    with zygote.session(landlock=False) as session:
        equal(session.start_reply, {"landlock_abi": 0})
    with zygote.session(landlock=True) as session:
        equal(session.start_reply, {"landlock_abi": 7})


@check
def start_in_a_directory_that_is_not_there_fails():
    from fake_krait import Ended

    try:
        zygote.session(cwd="/does/not/exist")
    except Ended as exc:
        assert exc.got is not None
        return
    raise AssertionError("the session started")


@check
def missing_packages_are_named():
    preload = kernel.preload
    kept = preload.DATA
    preload.DATA = {"python3-frobnicate": ("frobnicate",)}
    try:
        preload.imports("data")
    except preload.PreloadError as exc:
        contains(str(exc), "apt-get install python3-frobnicate")
    else:
        raise AssertionError("no error")
    finally:
        preload.DATA = kept
    try:
        preload.imports("nonsense")
    except preload.PreloadError as exc:
        contains(str(exc), "basic and data")
    else:
        raise AssertionError("no error")


@check
def a_zygote_with_threads_is_refused():
    import shutil
    import tempfile

    folder = tempfile.mkdtemp()
    try:
        for name in os.listdir(KERNEL):
            if name.endswith(".py"):
                shutil.copy(os.path.join(KERNEL, name), folder)
        with open(os.path.join(folder, "preload.py"), "a") as file:
            file.write(
                "\nimport threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
            )
        other = Zygote(folder=folder)
        told = other.process.stderr.read().decode()
        other.process.wait(20)
        other.control.close()
        contains(told, "a zygote must have one thread, this one has")
        assert other.process.returncode != 0
    finally:
        shutil.rmtree(folder)


@check
def at_fork_hooks_of_the_library_work_for_user_code_and_not_in_the_zygote():
    """random reseeds, threading and logging renew their state in a process that user code
    forks, though the zygote's own forks leave them out.
    """
    code = (
        "import logging, os, random, threading\nlogging._lock.acquire()\nrandom.seed(1)\nr, w = os.pipe()\n"
        "stop = threading.Event()\nthreading.Thread(target=stop.wait).start()\n"
        "if os.fork() == 0:\n"
        "    free = logging._lock.acquire(blocking=False)\n"
        "    os.write(w, repr((random.random(), threading.active_count(), free)).encode())\n"
        "    os._exit(0)\n"
        "os.wait()\nstop.set()\n"
        "eval(os.read(r, 100)), random.random(), threading.main_thread().native_id == os.getpid()"
    )
    (theirs, threads, free), ours, mine = eval(run(code))
    assert theirs != ours, "random was not reseeded"
    equal((threads, free, mine), (1, True, True))
    equal(run("import sys\nsys.modules['krait_kernel'].forktricks._session"), "True")
    held = ("import sys\nsorted({f.__module__ for h in sys.modules['krait_kernel'].forktricks._held for f in "
            "h.values() if hasattr(f, '__module__') and f.__module__})")
    assert {"logging", "threading"} <= set(eval(run(held))), run(held)


@check
def nothing_in_the_zygote_has_drawn_from_openssl():
    """Its generator knows a fork by the pid, and pids in two cells may be equal: either there is
    none yet, or each session stirs it.
    """
    code = (
        "import sys, ssl\nf = sys.modules['krait_kernel'].forktricks\n"
        "before = f._no_generator(ssl)\nssl.RAND_bytes(1)\nbefore, f._no_generator(ssl), len(f._reseeders)"
    )
    with_none, with_one, _count = eval(run(code))
    assert not with_one, "a generator that was just used is not seen"
    stirs = "any('_ssl' in r.__qualname__ for r in sys.modules['krait_kernel'].forktricks._reseeders)"
    assert with_none or run("import sys\n" + stirs) == "True"


@check
def data_preload_is_loaded_and_single_threaded():
    if data is None:
        skip("no data preload here")
    result = eval(
        run(
            "import sys, os\n[m in sys.modules for m in ('numpy', 'pandas', 'scipy.stats', 'matplotlib.pyplot')], "
            "len(os.listdir('/proc/self/task')), "
            "__import__('matplotlib.pyplot').get_backend()",
            data,
        )
    )
    equal(result, ([True] * 4, 1, "module://krait_kernel.mplbackend"))


@check
def blas_works_after_the_fork_and_with_more_threads():
    if data is None:
        skip("no data preload here")
    code = "import numpy as np\na = np.random.rand(600, 600)\nfloat(abs(a @ a - a.dot(a)).max()) < 1e-6"
    equal((run(code, data), run(code, data, cpus=2)), ("True", "True"))


main()
