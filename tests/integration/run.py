#!/usr/bin/python3
"""`krait run`: a sandboxed python3, as a script expects it."""
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal, main, skip
from drive import KRAIT, PYTHON, run, run_json


def script(text: str, name: str = "script.py") -> str:
    folder = tempfile.mkdtemp(prefix="krait-run-")
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


@check
def code_runs():
    done = run("-c", "print(2 ** 100)")
    equal((done.returncode, done.stdout, done.stderr), (0, b"1267650600228229401496703205376\n", b""))


@check
def started_without_standard_descriptors():
    for closed in ((0,), (1,), (2,), (0, 1), (0, 1, 2)):
        done = subprocess.run([PYTHON, "-c",
                               "import os, sys\nfor fd in %r: os.close(fd)\nos.execv(sys.argv[1], sys.argv[1:])"
                               % (closed,),
                               KRAIT, "run", "-c",
                               "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        equal((done.returncode, done.stdout, done.stderr),
              (3, b"" if 1 in closed else b"out\n", b"" if 2 in closed else b"err\n"), str(closed))


@check
def argv_is_pythons():
    code = "import sys; print(sys.argv)"
    for args in (["-c", code, "a", "--json", "-x"], [script(code), "a", "--", "-c"]):
        ours, theirs = run(*args), subprocess.run([PYTHON, *args], stdout=subprocess.PIPE)
        equal(ours.stdout, theirs.stdout)
    equal(run("-", "q", stdin=code.encode()).stdout, b"['-', 'q']\n")


@check
def file_name_and_main():
    path = script("import os, sys; print(__name__, __file__, os.path.exists(__file__), os.getcwd(), sys.path[0])")
    equal(run(path).stdout, b"__main__ /workspace/script.py True /workspace /workspace\n")


@check
def traceback_names_the_file():
    done = run(script("def f():\n    return 1 / 0\nf()\n"))
    equal(done.returncode, 1)
    contains(done.stderr, b'File "/workspace/script.py", line 2, in f')
    contains(done.stderr, b"ZeroDivisionError: division by zero")
    assert b"krait" not in done.stderr, done.stderr


@check
def stdin_is_passed():
    equal(run("-c", "import sys; print(sys.stdin.read().upper())", stdin=b"hello").stdout, b"HELLO\n")
    equal(run("-c", "print(input(), input())", stdin=b"a\nb\n").stdout, b"a b\n")
    done = run("-c", "input()", stdin=b"")
    equal(done.returncode, 1)
    contains(done.stderr, b"EOFError")


@check
def stdin_may_be_a_file_or_nothing():
    with tempfile.TemporaryFile() as file:
        file.write(b"x" * 1000000)
        file.seek(0)
        equal(run("-c", "import sys; print(len(sys.stdin.buffer.read()))", stdin=file).stdout, b"1000000\n")
    equal(run("-c", "import sys; print(repr(sys.stdin.read()))", stdin=subprocess.DEVNULL).stdout, b"''\n")


@check
def much_stdin_without_a_reader():
    done = run("-c", "print('done')", stdin=b"x" * 3000000)
    equal((done.returncode, done.stdout), (0, b"done\n"))


@check
def stdin_both_ways():
    code = ("import sys, hashlib\nh = hashlib.sha256()\nwhile (b := sys.stdin.buffer.read(65536)):\n"
            "    h.update(b); sys.stdout.buffer.write(b)\n")
    data = os.urandom(5000000)
    equal(run("-c", code, stdin=data).stdout, data)


@check
def output_is_bytes():
    data = bytes(range(256)) * 100
    done = run("-c",
               "import sys; sys.stdout.buffer.write(bytes(range(256)) * 100); "
               "sys.stderr.buffer.write(bytes(range(256)))")
    equal(done.stdout, data)
    equal(done.stderr, bytes(range(256)))


@check
def output_streams_live():
    code = "import time\nprint('first', flush=True)\ntime.sleep(20)\n"
    with subprocess.Popen([KRAIT, "run", "-c", code], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        ready, _, _ = select.select([process.stdout], [], [], 15)
        assert ready, "nothing came while the program was running"
        equal(os.read(process.stdout.fileno(), 100), b"first\n")
        process.send_signal(signal.SIGTERM)
        equal(process.wait(10), 143)


@check
def output_order_of_both_streams():
    code = "import sys\nfor i in range(200):\n    print(i, file=sys.stderr if i % 3 == 0 else sys.stdout)\n"
    done = subprocess.run([KRAIT, "run", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, timeout=60)
    equal(done.stdout.decode().split(), [str(i) for i in range(200)])


@check
def a_slow_reader_holds_it_back():
    code = ("import sys\nfor i in range(200):\n    sys.stdout.write('x' * 100000)\nprint()\n"
            "print('end', file=sys.stderr)\n")
    with subprocess.Popen([KRAIT, "run", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL) as process:
        time.sleep(1.5)
        ready, _, _ = select.select([process.stderr], [], [], 0)
        assert not ready, "the program ran on though its output was not read"
        out, err = process.communicate(timeout=60)
    equal((process.returncode, len(out), err), (0, 20000001, b"end\n"))


@check
def no_cap_without_output_flag():
    done = run("-c", "print('x' * 20000000)")
    equal(len(done.stdout), 20000001)


@check
def output_flag_cuts_with_a_mark():
    done = run("--output", "10K", "-c", "import sys\nprint('x' * 100000)\nprint('y', file=sys.stderr)\nsys.exit(5)")
    equal(done.returncode, 5)
    assert done.stdout.startswith(b"x" * 10240) and len(done.stdout) < 10500, len(done.stdout)
    equal(done.stdout.count(b"[output cut: "), 1)


@check
def a_closed_reader_ends_it():
    code = "while True: print('x' * 1000)"
    read, write = os.pipe()
    with subprocess.Popen([KRAIT, "run", "-c", code], stdout=write, stdin=subprocess.DEVNULL,
                          stderr=subprocess.PIPE) as process:
        os.close(write)
        os.read(read, 1000)
        os.close(read)
        equal(process.wait(20), 141)


@check
def exit_statuses():
    for code, status in (("pass", 0), ("import sys; sys.exit(7)", 7), ("raise SystemExit", 0),
                         ("import os; os._exit(9)", 9),
                         ("import sys; sys.exit('message')", 1), ("import sys; sys.exit(-1)", 255),
                         ("raise ValueError", 1),
                         ("import os; os.abort()", 134),
                         ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 143), ("(", 1)):
        done = run("-c", code)
        equal(done.returncode, status, code)
    contains(run("-c", "import sys; sys.exit('message')").stderr, b"message\n")
    contains(run("-c", "import os; os.abort()").stderr, b"krait: the program was ended by signal 6")


@check
def atexit_and_threads_are_awaited():
    path = script("import atexit, threading, time\natexit.register(lambda: print('atexit'))\n"
                  "threading.Thread(target=lambda: (time.sleep(0.3), print('thread'))).start()\nprint('main')\n")
    equal(run(path).stdout, b"main\nthread\natexit\n")


@check
def children_are_waited_for_or_ended():
    equal(run("-c", "import subprocess; print(subprocess.check_output(['echo', 'hi']).decode())").stdout, b"hi\n\n")
    begun = time.monotonic()
    equal(run("-c", "import subprocess; subprocess.Popen(['sleep', '60']); print('gone')").stdout, b"gone\n")
    assert time.monotonic() - begun < 15


@check
def workspace_in_and_out():
    with tempfile.TemporaryDirectory(prefix="krait-ws-") as folder:
        os.chmod(folder, 0o755)
        with open(os.path.join(folder, "beside.py"), "w") as file:
            file.write("def f(): return 'beside'\n")
        os.mkdir(os.path.join(folder, "sub"))
        with open(os.path.join(folder, "sub", "main.py"), "w") as file:
            file.write("import sys; sys.path.insert(0, '/workspace')\nimport beside\nprint(beside.f(), __file__)\n"
                       "open('/workspace/made.txt', 'w').write('made')\n")
        with open(os.path.join(folder, "top.py"), "w") as file:
            file.write("import beside; print(beside.f(), __file__)\n")
        equal(run("--workspace", folder, os.path.join(folder, "top.py")).stdout, b"beside /workspace/top.py\n")
        done = run("--workspace", folder, os.path.join(folder, "sub", "main.py"))
        equal(done.stdout, b"beside /workspace/sub/main.py\n", done.stderr.decode())
        with open(os.path.join(folder, "made.txt")) as file:
            equal(file.read(), "made")
        equal(os.stat(os.path.join(folder, "made.txt")).st_uid, os.getuid())
        done = run("--workspace", folder, "--read-only", "-c", "open('/workspace/no.txt', 'w')")
        equal(done.returncode, 1)
        assert not os.path.exists(os.path.join(folder, "no.txt"))
        # a program from elsewhere leaves no copy in the folder
        equal(run("--workspace", folder, script("print(__file__)", "else.py")).stdout, b"/tmp/else.py\n")
        equal(sorted(one for one in os.listdir(folder) if one != "__pycache__"),
              ["beside.py", "made.txt", "sub", "top.py"])


@check
def environment():
    done = run("-e", "A=1", "--env", "B=x=y", "-c",
               "import os; print(os.environ['A'], os.environ['B'], os.environ['HOME'], os.environ['LANG'])",
               env=dict(os.environ, SECRET="1"))
    equal(done.stdout, b"1 x=y /workspace C.UTF-8\n")
    equal(run("-c", "import os; print('SECRET' in os.environ)", env=dict(os.environ, SECRET="1")).stdout, b"False\n")


@check
def timeout_124():
    begun = time.monotonic()
    done = run("--timeout", "1s", "-c", "import time; print('begun', flush=True); time.sleep(60)")
    equal((done.returncode, done.stdout), (124, b"begun\n"))
    contains(done.stderr, b"KeyboardInterrupt")
    equal(done.stderr.decode().splitlines()[-1], "krait: timeout after 1 s: the program was interrupted")
    assert time.monotonic() - begun < 20
    done = run("--timeout", "500ms", "--grace", "300ms", "-c",
               "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(60)")
    equal(done.returncode, 124)
    equal(done.stderr.decode().splitlines()[-1], "krait: timeout after 500 ms: the program was killed")


@check
def memory_137():
    for code in ("x = bytearray(1 << 30)", "x = []\nwhile True: x.append(bytearray(1 << 20))"):
        done = run("--memory", "128M", "-c", code)
        equal(done.returncode, 137, code)
        contains(done.stderr.decode().splitlines()[-1], "krait: memory limit of 128 MiB reached")


@check
def a_fifo_in_the_place_of_a_figure_holds_nothing_up():
    code = ("import os\nos.mkfifo('figure-1.png')\n"
            "class Figure:\n    def _repr_png_(self): return b'x' * 100\ndisplay(Figure())\n")
    with tempfile.TemporaryDirectory() as folder:
        done = run("--workspace", folder, "--figures", folder, "-c", code)
        contains(done.stderr, b"cannot save figure-1.png")
        equal(done.returncode, 0)


@check
def figures_are_saved_or_counted():
    code = ("class F:\n    def _repr_png_(self): return b'\\x89PNG fake'\n    def __repr__(self): return 'F'\n"
            "from builtins import display\ndisplay(F()); display(F())\n")
    probe = run_json("-c", code)
    if probe["cause"] != "ok" or len(probe["displays"]) != 2:
        raise AssertionError(probe)
    done = run("-c", code)
    equal((done.returncode, done.stderr), (0, b"krait: 2 figures not saved (use --figures DIR)\n"))
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "new")
        done = run("--figures", target, "-c", code)
        equal((done.returncode, done.stderr), (0, b""))
        equal(sorted(os.listdir(target)), ["figure-1.png", "figure-2.png"])
        with open(os.path.join(target, "figure-2.png"), "rb") as file:
            equal(file.read(), b"\x89PNG fake")


@check
def hint_after_the_traceback():
    done = run("-c", "import cv2_that_is_not_there")
    lines = done.stderr.decode().splitlines()
    contains(lines[-2], "ModuleNotFoundError")
    contains(lines[-1], "krait: hint: ")


@check
def ctrl_c_is_keyboard_interrupt():
    code = ("import time\ntry:\n    print('begun', flush=True)\n    time.sleep(60)\nexcept KeyboardInterrupt:\n"
            "    print('caught')\n")
    with subprocess.Popen([KRAIT, "run", "-c", code], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        equal(process.stdout.readline(), b"begun\n")
        process.send_signal(signal.SIGINT)
        equal(process.stdout.read(), b"caught\n")
        equal(process.wait(10), 0)
    code = "print('begun', flush=True)\nwhile True: pass"
    with subprocess.Popen([KRAIT, "run", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL) as process:
        equal(process.stdout.readline(), b"begun\n")
        process.send_signal(signal.SIGINT)
        contains(process.stderr.read(), b"KeyboardInterrupt")
        equal(process.wait(10), 130)


@check
def second_ctrl_c_kills():
    code = ("import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('begun', flush=True)\n"
            "time.sleep(60)")
    with subprocess.Popen([KRAIT, "run", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL) as process:
        equal(process.stdout.readline(), b"begun\n")
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        equal(process.poll(), None)
        process.send_signal(signal.SIGINT)
        equal(process.wait(10), 130)


@check
def ctrl_c_on_a_terminal():
    """As a person types it: the terminal signals the whole foreground group, and that is one interrupt, not two."""
    # In short sleeps: a signal that comes just before a sleep begins is handled after it.
    code = ("import time\ntry:\n    print('begun', flush=True)\n    for _ in range(300): time.sleep(0.1)\n"
            "except KeyboardInterrupt:\n    time.sleep(0.5)\n    print('caught once')\n")
    pid, master = pty.fork()
    if pid == 0:
        os.execv(KRAIT, [KRAIT, "run", "-c", code])
    text, deadline, sent = b"", time.monotonic() + 30, False
    while time.monotonic() < deadline:
        if not select.select([master], [], [], 1)[0]:
            continue
        try:
            data = os.read(master, 4096)
        except OSError:
            break
        if not data:
            break
        text += data
        if b"begun" in text and not sent:
            os.write(master, b"\x03")
            sent = True
    _, status = os.waitpid(pid, 0)
    os.close(master)
    contains(text, b"caught once")
    equal(os.waitstatus_to_exitcode(status), 0)


@check
def terminate_cleans_up():
    with subprocess.Popen([KRAIT, "run", "-c", "import time; print('begun', flush=True); time.sleep(60)"],
                          stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        equal(process.stdout.readline(), b"begun\n")
        process.send_signal(signal.SIGTERM)
        equal(process.wait(10), 143)


@check
def wrong_use():
    for args, words in ((["--memry", "1G", "x.py"], ("--memory",)),
                        (["--memory", "lots", "x.py"], ("--memory", '"lots"', "512M")),
                        (["--preload", "all", "x.py"], ("--preload", "basic or data")), ([], ("FILE",)),
                        (["--timeout"], ("--timeout",)),
                        (["--env", "noequals", "-c", "1"], ("--env", "NAME=VALUE")),
                        (["--workspace", "/nonexistent", "-c", "1"], ("--workspace",)),
                        (["/nonexistent.py"], ("/nonexistent.py",)),
                        (["--python", "python3", "-c", "1"], ("--python", "absolute"))):
        done = run(*args)
        equal(done.returncode, 2, str(args))
        equal(done.stdout, b"")
        equal(done.stderr.count(b"\n"), 1, str(args))
        for word in words:
            contains(done.stderr.decode(), word)
    done = subprocess.run([KRAIT, "rnu"], stderr=subprocess.PIPE)
    equal(done.returncode, 2)
    contains(done.stderr, b"krait run")


@check
def help_and_version():
    for args in (["--help"], ["run", "--help"], ["doctor", "--help"], ["dump", "--help"], ["--version"]):
        done = subprocess.run([KRAIT, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        equal((done.returncode, done.stderr), (0, b""), str(args))
        assert done.stdout
    text = subprocess.run([KRAIT, "dump", "config"], stdout=subprocess.PIPE).stdout
    contains(text, b"## krait run")
    contains(text, b"| `--workspace DIR` |")
    text = subprocess.run([KRAIT, "dump", "limits"], stdout=subprocess.PIPE).stdout
    contains(text, b"| `memory` | `--memory SIZE` |")
    text = subprocess.run([KRAIT, "dump", "seccomp"], stdout=subprocess.PIPE).stdout
    contains(text, b"ptrace")


@check
def loopback_network():
    code = ("import socket, threading\ns = socket.create_server(('127.0.0.1', 0))\n"
            "threading.Thread(target=lambda: s.accept()[0].sendall(b'ok')).start()\n"
            "print(socket.create_connection(s.getsockname()).recv(9))\n")
    report = run_json("--network", "loopback", "-c", code)
    if not report["layers"]["network_namespace"]:
        skip("no network namespace at this level")
    equal((report["cause"], report["stdout"]), ("ok", "b'ok'\n"), report["stderr"])
    equal(run_json("--network", "none", "-c", code)["cause"], "exception")


@check
def a_preloaded_library_is_no_hindrance():
    """One that is loaded before the C library and is called by every process, also by a cell's init."""
    with tempfile.TemporaryDirectory(prefix="krait-preload-") as folder:
        os.chmod(folder, 0o755)
        source, library = os.path.join(folder, "close.c"), os.path.join(folder, "close.so")
        with open(source, "w", encoding="utf-8") as file:
            file.write("#include <sys/syscall.h>\n#include <unistd.h>\n"
                       "int close(int fd) { return (int)syscall(SYS_close, fd); }\n")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
        done = subprocess.run([KRAIT, "run", "-c", "print(6 * 7)"], env={**os.environ, "LD_PRELOAD": library},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        equal((done.returncode, done.stdout), (0, b"42\n"), done.stderr.decode(errors="replace"))


main()
