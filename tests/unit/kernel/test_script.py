#!/usr/bin/python3
"""Script mode beside the real python3: the same program gives the same stdout, stderr and
status.
"""
import os
import re
import subprocess
import tempfile

from fake_krait import PYTHON, Ended, Zygote
from check import check, contains, equal, main

zygote = Zygote()
folder = os.path.realpath(tempfile.mkdtemp())


def script(code, argv=(), stdin=b"", name="a.py", exits=True, cwd=folder, **script_more):
    """(end, later output) of a script run to the end of its process."""
    path = os.path.join(folder, name) if name not in ("-c", "-", None) else name
    with zygote.session(mode="script", stdin=stdin, cwd=cwd) as session:
        spec = dict(
            {
                "file": path,
                "argv": [name or "-c"] + list(argv),
                "write": path == os.path.join(folder, str(name)),
                "exit": exits,
            },
            **script_more,
        )
        end = session.run(code, script=spec, timeout=60)
        if exits:
            later = session.rest()
            equal(later, {"stdout": "", "stderr": ""}, "after END")
            assert not session.pipes, "the process did not end"
        return end


def python(code, argv=(), stdin=b"", name="a.py"):
    if name == "-c":
        command = [PYTHON, "-c", code] + list(argv)
    else:
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(code)
        command = [PYTHON, os.path.join(folder, name)] + list(argv)
    return subprocess.run(
        command,
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
    )


def depthless(text):
    """Our own frames count against the recursion limit: a dozen of a thousand."""
    return re.sub(r"repeated 9\d\d more", "repeated N more", text)


def same(code, argv=(), stdin=b"", name="a.py"):
    end = script(code, argv, stdin, name)
    real = python(code, argv, stdin, name)
    equal(
        (end["stdout"], depthless(end["stderr"]), end["exit_code"]),
        (real.stdout.decode(), depthless(real.stderr.decode()), real.returncode & 0xFF),
        code,
    )
    return end


@check
def main_module_as_scripts_expect_it():
    end = same(
        "import sys\nprint(__name__, __file__, sys.argv[1:], sys.path[0], __doc__, __package__, __spec__)\n"
        "import __main__\nprint(__main__.__dict__ is globals(), sorted(k for k in globals() if k != '__cached__'))",
        ["x", "--y"],
    )
    equal(end["variables"], [])


@check
def command_given_as_text():
    same(
        "import sys\nprint(sys.argv, repr(sys.path[0]), '__file__' in globals())\nprint(1)",
        ["x"],
        name="-c",
    )


@check
def module_beside_the_script():
    with open(os.path.join(folder, "beside.py"), "w") as file:
        file.write("value = 7\n")
    end = same("import beside\nprint(beside.value)")
    equal(end["cause"], "ok")
    assert "__pycache__" not in os.listdir(folder)


@check
def code_is_written_first():
    script("print('ä')\r\n")
    with open(os.path.join(folder, "a.py"), "rb") as file:
        equal(file.read(), "print('ä')\r\n".encode())


@check
def tracebacks_are_printed_as_python_does():
    for code in (
        "def f():\n    return 1 / 0\n\nf()\n",
        "try:\n    {}['a']\nexcept KeyError:\n    raise ValueError('v')\n",
        "x = = 1\n",
        "import json\njson.loads('{')\n",
        "class E(Exception): pass\nraise E('own')\n",
        "def r(): r()\nr()\n",
    ):
        end = same(code)
        equal((end["cause"], end["exit_code"]), ("exception", 1), code)
        assert "krait" not in end["stderr"]
        contains(end["stderr"], end["error"]["type"])
        contains(end["error"]["traceback"], end["error"]["type"])


@check
def excepthook_is_honoured():
    same(
        "import sys\ndef hook(t, v, tb):\n    print('hook', t.__name__, v, tb.tb_lineno)\nsys.excepthook = hook\n1/0\n"
    )
    end = script(
        "import sys\ndef hook(*a): raise KeyError('in hook')\nsys.excepthook = hook\n1/0\n"
    )
    contains(end["stderr"], "Error in sys.excepthook:")
    contains(end["stderr"], "Original exception was:")
    contains(end["stderr"], "ZeroDivisionError")


@check
def exits():
    for code in (
        "import sys\nsys.exit(3)",
        "raise SystemExit",
        "import sys\nsys.exit('message')",
        "exit(5)",
        "import sys\nsys.exit(-1)",
        "import sys\nsys.exit([1])",
    ):
        end = same(code)
        equal((end["cause"], end["error"]), ("exit", None), code)


@check
def threads_are_awaited_then_atexit_then_objects():
    same(
        "import threading, time, atexit\natexit.register(print, 'atexit')\ndef f():\n    time.sleep(0.3)\n"
        "    print('thread')\nthreading.Thread(target=f).start()\n"
        "class D:\n    def __del__(self): print('deleted')\nd = D()\nprint('main')\n"
    )
    same("import atexit\n@atexit.register\ndef f(): print('atexit')\n1/0\n")
    same(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(30,), daemon=True).start()\nprint('main')\n"
    )


@check
def open_files_are_written_out():
    script(
        "f = open('left-open.txt', 'w')\nf.write('data')\nclass K: pass\n"
        "k = K(); k.k = k; k.f = open('cycle.txt', 'w'); k.f.write('more')\n"
    )
    for name, text in (("left-open.txt", "data"), ("cycle.txt", "more")):
        with open(os.path.join(folder, name)) as file:
            equal(file.read(), text)


@check
def real_stdin():
    same(
        "import sys\na = input('name? ')\nprint(a)\nprint(sys.stdin.read().upper())\n",
        stdin="zoë\nrest\nof it".encode(),
    )
    end = same("input('p')\n")
    equal(end["error"]["type"], "EOFError")
    equal(end["inputs"], [])
    same("import sys\nprint(sys.stdin.buffer.read(), sys.stdin.isatty())\n", stdin=b"\xff\x00raw")


@check
def given_text_as_stdin():
    with zygote.session(mode="script", cwd=folder) as session:
        end = session.run(
            "print(input(), input())",
            script={"file": "-c", "argv": ["-c"], "write": False, "exit": True},
            stdin="a\nb\n",
        )
        equal(end["stdout"], "a b\n")


@check
def forked_children_end_like_processes():
    same(
        "import os, sys, atexit\natexit.register(print, 'bye')\npid = os.fork()\nif pid == 0:\n    sys.exit(7)\n"
        "print(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))\n"
    )
    same(
        "import os\npid = os.fork()\nif pid:\n    os.waitpid(pid, 0)\nprint('parent' if pid else 'child')\n"
    )


@check
def multiprocessing_in_a_script():
    same(
        "import multiprocessing as mp\ndef f(x): return x + 1\nif __name__ == '__main__':\n"
        "    mp.set_start_method('spawn')\n    with mp.Pool(2) as p: print(p.map(f, [1, 2]))\n"
    )


@check
def result_and_variables_are_told():
    end = script("x = 4\nx * 2\n")
    equal((end["result"], end["variables"], end["displays"], end["stdout"]), ("8", ["x"], [], ""))


@check
def interrupted_script():
    sent = []

    def on_output(session, got):
        if b"go" in got["stdout"] and not sent:
            sent.append(1)
            session.interrupt()

    with zygote.session(mode="script", cwd=folder) as session:
        end = session.run(
            "import time, atexit\natexit.register(print, 'cleaned')\nprint('go')\ntime.sleep(30)\n",
            on_output=on_output,
            script={"file": folder + "/i.py", "argv": ["i.py"], "write": True, "exit": True},
        )
        equal(
            (end["cause"], end["error"]["type"], end["exit_code"], end["stdout"]),
            ("exception", "KeyboardInterrupt", 130, "go\ncleaned\n"),
        )
        contains(end["stderr"], "KeyboardInterrupt\n")


@check
def script_that_does_not_end_the_session():
    with zygote.session(cwd=folder) as session:
        session.run("x = 5")
        end = session.run(
            "y = 1\nprint('x' in globals())",
            script={"file": folder + "/s.py", "argv": ["s.py"], "write": True, "exit": False},
        )
        equal((end["stdout"], end["variables"]), ("False\n", ["y"]))
        equal(session.run("1")["result"], "1")


@check
def os_exit_and_status():
    with zygote.session(mode="script", cwd=folder) as session:
        try:
            session.run(
                "import os\nprint('x', flush=True)\nos._exit(9)",
                script={"file": "-c", "argv": ["-c"], "write": False, "exit": True},
            )
        except Ended as end:
            equal(end.got["stdout"] + session.rest()["stdout"].encode(), b"x\n")
            return
        raise AssertionError("an END came")


main()
