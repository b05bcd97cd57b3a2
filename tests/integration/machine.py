#!/usr/bin/python3
"""A session looks like a normal machine: programs under their usual names, a home, a user, names of the workspace,
terminals."""
import json
import os
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal, main
from drive import Engine, run_json

engine = None
SHELL = """
import json, subprocess
done = subprocess.run(%r, shell=True, capture_output=True, text=True, timeout=50, executable="/bin/bash")
print(json.dumps([done.returncode, done.stdout, done.stderr]))
"""


def shell(command: str, *levels: str) -> tuple:
    """(status, stdout, stderr) of a shell command in a fresh session, or in `krait run` with these options."""
    if levels:
        return tuple(json.loads(run_json(*levels, "-c", SHELL % command)["stdout"]))
    s = engine.open()
    result = engine.run(s, SHELL % command)
    equal(result.cause, "ok", str(result.end["error"]))
    engine.close(s)
    return tuple(json.loads(result.stdout))


def python(code: str) -> str:
    s = engine.open()
    result = engine.run(s, code)
    equal(result.cause, "ok", str(result.end["error"]) + result.stderr)
    engine.close(s)
    return result.stdout


@check
def python_and_pip_are_those_of_the_session():
    own = python("import sys; print(sys.version_info[:3], sys.prefix)")
    for name in ("python", "python3", "/usr/bin/env python", "bash -lc 'python \"$@\"' -"):
        equal(shell("%s -c 'import sys; print(sys.version_info[:3], sys.prefix)'" % name), (0, own, ""), name)
    for name in ("pip", "pip3", "python -m pip"):
        status, out, err = shell(name + " --version")
        equal((status, err), (0, ""), name)
        contains(out, "(python %d.%d)" % sys.version_info[:2])
    # Without a network pip does not try again and again, and the reason is said.
    status, _out, err = shell("pip install a-package-that-is-nowhere")
    assert status != 0 and "externally-managed" not in err, err
    contains(err.splitlines()[-1], "no network")
    status, out, err = shell("mkdir p && echo 'from setuptools import setup; setup(name=\"p\", py_modules=[\"pm\"])' "
                             "> p/setup.py && echo x=7 > p/pm.py && pip install -q --no-build-isolation --no-deps ./p "
                             "&& python -c 'import pm; print(pm.x)'")
    equal((status, out), (0, "7\n"), err)


@check
def python_is_the_session_s_at_level_contained():
    options = ("--level", "contained", "--allow-contained")
    status, out, err = shell("python --version && pip --version", *options)
    equal((status, err), (0, ""))
    contains(out, "Python %d.%d" % sys.version_info[:2])


@check
def home_belongs_to_user():
    status, out, err = shell("id -un; id -gn; whoami; cd /tmp; echo ~ ~user; cd; pwd; echo $SHELL; touch ~/f && ls ~")
    equal((status, out, err), (0, "user\nuser\nuser\n/workspace /workspace\n/workspace\n/bin/bash\nf\n", ""))
    equal(python("import getpass, os, pathlib, pwd, grp\n"
                 "print(getpass.getuser(), pathlib.Path.home(), os.path.expanduser('~user'), os.path.expanduser('~'), "
                 "pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name)"),
          "user /workspace /workspace /workspace user user\n")


@check
def home_is_writable_where_the_workspace_is_not():
    with tempfile.TemporaryDirectory(prefix="krait-home-") as folder:
        os.chmod(folder, 0o755)
        for level in ((), ("--level", "contained", "--allow-contained")):
            for rights, same in (((), True), (("--read-only",), False)):
                status, out, err = shell("echo > ~/.setting && ls -A ~ && echo > x", *level,
                                         "--workspace", folder, *rights)
                equal((status == 0, out), (same, ".setting\n"), err)
                equal(".setting" in os.listdir(folder), same)
                for name in os.listdir(folder):
                    os.remove(os.path.join(folder, name))


@check
def workspace_has_further_names():
    out = python("""
import os
for name in ("/home/user", "/mnt/data", "/app/results"):
    with open(name + "/a.txt", "w") as f:
        f.write(name)
    print(open("/workspace/a.txt").read(), os.path.samefile(name, "/workspace"), os.path.realpath(name))
    os.rename(name + "/a.txt", "/workspace/b.txt")
    os.chdir(name)
    print(os.getcwd(), sorted(os.listdir("/workspace")))
    os.remove("b.txt")
""")
    equal(out, "".join("%s True /workspace\n/workspace ['b.txt']\n" % name
                       for name in ("/home/user", "/mnt/data", "/app/results")))


@check
def usual_tools_work():
    status, out, err = shell("""
set -e
printf 'b\\na\\n' | sort > f && tar czf f.tgz f && tar tzf f.tgz
git init -q r && cd r && cp ../f . && git add f && git commit -qm one && git log --format='%an %ae %s' && cd ..
git init -q . && git status --short | head -1
git clone -q r s && cat s/f
""")
    equal((status, out), (0, "f\nuser user@localhost one\n?? f\na\nb\n"), err)
    status, out, err = shell("curl -sS http://example.com/")
    equal((status, out), (6, ""))
    contains(err, "Could not resolve host")
    status, out, err = shell("bash -l -c 'shopt -q login_shell && echo login $HOME'")
    equal((status, out, err), (0, "login /workspace\n", ""))


@check
def one_s_own_ids_can_be_set():
    out = python("""
import os, subprocess, sys
u, g = os.getuid(), os.getgid()
calls = [("setuid", u), ("setgid", g), ("seteuid", u), ("setegid", g), ("setreuid", u, u), ("setregid", -1, g),
         ("setresuid", u, -1, u), ("setresgid", g, g, g)]
def word(name, *args):
    try:
        getattr(os, name)(*args)
        return "ok"
    except OSError as e:
        return e.errno
print([word(*call) for call in calls])
print([word(name, *[0 if one > 0 else one for one in args]) for name, *args in calls])
print(word("setgroups", [0]), os.getresuid() == (u, u, u), os.getresgid() == (g, g, g))
print(os.waitpid(os.posix_spawn("/bin/true", ["true"], {}, resetids=True), 0)[1])
print(subprocess.run(["id", "-u"], user=u, group=g, capture_output=True, text=True).stdout.strip())
""")
    equal(out, "%s\n%s\n1 True True\n0\n1000\n" % (["ok"] * 8, [1] * 8))


@check
def terminals_work():
    out = python("""
import os, pty, subprocess, sys, termios, tty
seen = []
def read(fd):
    data = os.read(fd, 1024)
    seen.append(data)
    return data
print(pty.spawn([sys.executable, "-c", "import os; print(os.ttyname(0), os.get_terminal_size())"], read))
print(b"".join(seen).split(b" ")[0])
pid, fd = pty.fork()  # a controlling terminal: setsid, TIOCSCTTY
if pid == 0:
    os.tcsetpgrp(0, os.getpgrp())
    with open("/dev/tty", "w") as t:
        t.write("hello %d" % os.isatty(0))
    os._exit(0)
print(os.read(fd, 100), os.waitpid(pid, 0)[1])
a, b = os.openpty()
tty.setraw(b)
termios.tcsetwinsize(b, (7, 9)) if hasattr(termios, "tcsetwinsize") else None
os.write(a, b"x\\n")
print(os.read(b, 10), os.ttyname(b))
""")
    equal(out.replace("\r", ""), "/dev/pts/0 os.terminal_size(columns=0, lines=0)\n0\nb'/dev/pts/0'\n"
                                 "b'hello 1' 0\nb'x\\n' /dev/pts/1\n")
    status, out, err = shell("script -qc 'tty; stty size; bash -ic \"sleep 0 & wait; echo jobs\" 2>&1' "
                             "/dev/null < /dev/null")
    equal((status, err), (0, ""))
    contains(out, "/dev/pts/0")
    assert "no job control" not in out and "jobs" in out, out


@check
def pexpect_drives_programs_that_need_a_terminal():
    """An interpreter's prompt, top(1) and a pager, each with keys that it reads from its terminal."""
    out = python("""
import os, pexpect
how = dict(timeout=40, dimensions=(24, 80), env=dict(os.environ, TERM="xterm"))
def leave(p, key):
    p.send(key)
    p.expect(pexpect.EOF)
    p.close()
    print(p.exitstatus, p.signalstatus)
p = pexpect.spawn("python3", ["-q"], **how)
p.expect(">>> ")
p.sendline("6 * 7")
p.expect("42.*>>> ")
p.sendline("exec('print(1 + 6)\\\\nwhile True: pass')")
p.expect("\\n7\\r")  # it has begun
p.sendintr()  # by the terminal's own job control
p.expect("KeyboardInterrupt.*>>> ")
p.sendline("6 * 9")  # else it ends by SIGINT, as a Python does whose last statement was interrupted
p.expect("54.*>>> ")
leave(p, "\\x04")
p = pexpect.spawn("top", **how)
p.expect("load average")
p.expect("PID")
leave(p, "q")
with open("long.txt", "w") as f:
    f.writelines("line %d\\n" % i for i in range(1000))
p = pexpect.spawn("less", ["long.txt"], **how)
p.expect("line 0")
p.send("G")
p.expect("line 999")
leave(p, "q")
""")
    equal(out, "0 None\n" * 3)


@check
def a_terminal_is_its_cell_s_alone():
    a, b = engine.open(), engine.open()
    equal(engine.run(a, "import os\nm, s = os.openpty()\nprint(os.ttyname(s), os.listdir('/dev/pts'))").stdout,
          "/dev/pts/0 ['0', 'ptmx']\n")
    equal(engine.run(b, "import os\nprint(os.listdir('/dev/pts'))\nopen('/dev/pts/0')").stdout, "['ptmx']\n")
    # Positive control: in the cell that has it, it opens.
    equal(engine.run(a, "open('/dev/pts/0').isatty()").end["result"], "True")
    assert engine.run(b, "1").end["layers"]["terminals"]
    engine.close(a)
    engine.close(b)


@check
def spawned_processes_find_what_runs_defined():
    s = engine.open()
    engine.run(s, "import math, multiprocessing as mp\nfrom concurrent.futures import ProcessPoolExecutor\n"
                  "from math import sqrt as root\nSCALE = 3\nclass P:\n    def __init__(self, x): self.x = x")
    engine.run(s, "def f(x):\n    return SCALE * root(x) + math.floor(0.5)\ndef g(x): return P(x)\nprint('once')")
    for way in ("spawn", "forkserver"):
        result = engine.run(s, "with mp.get_context('%s').Pool(2) as p: print(p.map(f, [1, 4]))" % way, timeout=50)
        equal((result.cause, result.stdout), ("ok", "[3.0, 6.0]\n"), result.stderr)
    result = engine.run(s, "with ProcessPoolExecutor(1, mp_context=mp.get_context('spawn')) as p:\n"
                           "    print(list(p.map(f, [1, 4])), [type(one) is P for one in p.map(g, [1])])", timeout=50)
    equal((result.cause, result.stdout), ("ok", "[3.0, 6.0] [True]\n"), result.stderr)
    # What cannot be made anew is an error of the call, and no worker dies of it.
    result = engine.run(s, "exec('def h(x): return x')\nwith mp.get_context('spawn').Pool(1) as p:\n"
                           "    def late(x): return x\n"
                           "    for one in (h, late):\n"
                           "        try: p.map(one, [1])\n"
                           "        except RuntimeError as e: print(e)", timeout=50)
    equal(result.cause, "ok", result.stderr)
    contains(result.stdout, "h of __main__ cannot be used in this process: its source is not known\n")
    contains(result.stdout, "late of __main__ cannot be used in this process: it was defined after")
    engine.close(s)


if __name__ == "__main__":
    with Engine() as engine:
        main()
