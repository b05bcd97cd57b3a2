#!/usr/bin/python3
"""`krait run` with packages: --with, --requirements, what a script says of itself, pip within, the cache, and what is
left by one that is stopped or killed, against an index on loopback."""
from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile

import pexpect

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "lib")]
import wheels  # noqa: E402
from check import check, contains, equal, main, skip  # noqa: E402
from installing import site  # noqa: E402
from krait_server import KRAIT  # noqa: E402
from serving import eventually  # noqa: E402

SOON = 120
KRAIT = os.path.abspath(KRAIT)


def environment() -> dict:
    return {**os.environ, "PIP_INDEX_URL": index.url}


def argv(*args: str) -> list:
    return [KRAIT, "run", "--cache", cache, *args]


def run(*args: str, status: int = 0, **more) -> subprocess.CompletedProcess:
    done = subprocess.run(argv(*args), capture_output=True, text=True, timeout=SOON, env=environment(), **more)
    equal(done.returncode, status, done.stdout + done.stderr)
    return done


def script(text: str) -> str:
    path = folder / "script.py"
    path.write_text(text)
    return str(path)


def left() -> list:
    return os.listdir(os.path.join(cache, "runs"))


def begun(*args: str) -> subprocess.Popen:
    """A run whose install hangs."""
    before = index.count(SLOW)
    p = subprocess.Popen(argv(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
                         start_new_session=True)
    eventually(lambda: index.count(SLOW) > before or p.poll() is not None, SOON, "the wheel is asked for")
    assert p.poll() is None, p.communicate()
    return p


@check
def what_is_named_is_there_and_is_gone_with_the_program() -> None:
    done = run("--with", "here-0", "--with", "needs-here>=1", "-c",
               "import here_0, needs_here, here_1, sys; print(here_0.VALUE, here_1.VALUE, sys.executable)")
    equal(done.stdout, "0 1 /venv/bin/python\n")
    contains(done.stderr, "krait: Successfully installed ")
    assert "\033" not in done.stderr, "no terminal is there to be written over"
    equal(left(), [])
    fetched = index.count("/files/here_0-1.0-py3-none-any.whl")
    contains(run("--with", "here-0", "-c", "import here_0").stderr, "Using cached here_0")
    equal(index.count("/files/here_0-1.0-py3-none-any.whl"), fetched, "the cache has it")
    contains(run("--packages", "-c", "import here_0", status=1).stderr, "No module named 'here_0'")


@check
def a_program_that_asks_for_none_is_as_before() -> None:
    code = "import os, sys; print(os.path.exists('/venv/pyvenv.cfg'), sys.executable, open('/proc/self/mountinfo').read())"
    plain, equipped = run_plain("-c", code).stdout, run("--packages", "-c", code).stdout
    assert plain.startswith("False ") and "/venv" not in plain, plain
    assert equipped.startswith("True /venv/bin/python ") and "/venv" in equipped, equipped
    block = "# /// script\n# dependencies = ['surely-not-there']\n# ///\nprint('ran')\n"
    equal(run_plain(script(block)).stdout, "ran\n")


def run_plain(*args: str) -> subprocess.CompletedProcess:
    done = subprocess.run([KRAIT, "run", *args], capture_output=True, text=True, timeout=SOON, env=environment())
    equal(done.returncode, 0, done.stdout + done.stderr)
    return done


@check
def files_of_requirements_and_what_a_script_says_of_itself() -> None:
    wanted = folder / "requirements.txt"
    wanted.write_text("# ours\nhere-0 == 1.0 \\\n  --hash=sha256:%s\n" % wheels.sha256(folder / "here_0-1.0-py3-none-any.whl"))
    equal(run("--requirements", str(wanted), "-c", "import here_0; print(here_0.VALUE)").stdout, "0\n")
    wanted.write_text("here-0 --hash=sha256:%s\n" % ("0" * 64))
    contains(run("--requirements", str(wanted), "-c", "1", status=125).stderr, "krait: packages: ")
    text = ("#!/usr/bin/env python3\n# /// script\n# requires-python = '>=3.8'\n# dependencies = [\n#   'here-0',  # ours\n#\n"
            "#   'needs-here',\n# ]\n#\n# [tool.other]\n# x = {a = [1, 2]}\n# ///\nimport here_0, here_1\nprint(here_0.VALUE, "
            "here_1.VALUE)\n")
    equal(run("--packages", script(text)).stdout, "0 1\n")
    equal(run("--with", "here-2", script(text + "import here_2\n")).stdout, "0 1\n")
    unclosed = "# /// script\n# dependencies = ['surely-not-there']\n\nprint('ran')\n"
    equal(run("--packages", script(unclosed)).stdout, "ran\n", "a comment like others")


@check
def what_is_wrong_is_named_before_anything_starts() -> None:
    for args, why in ((("--with", "no pe"), '--with: "no pe"'), (("--with", "-e."), "--with"),
                      (("--with", "here-0\nhere-1"), "--with"), (("--requirements", "/nonexistent"), "/nonexistent"),
                      (("--cache", ""), "--cache")):
        contains(run(*args, *(() if args[0] != "--cache" else ("--packages",)), "-c", "print('ran')", status=2).stderr, why)
    for block, why in (("requires-python = '>=9'", "requires Python >=9"), ("dependencies = 'here-0'", "array of strings"),
                       ("dependencies = ['a @ http://x/y']", "metadata of"), ("dependencies = [", "metadata of")):
        text = "# /// script\n# %s\n# ///\nprint('ran')\n" % block
        contains(run("--packages", script(text), status=2).stderr, why, block)
    twice = "# /// script\n# ///\n# x\n# /// script\n# ///\n"
    contains(run("--packages", script(twice), status=2).stderr, "two blocks")
    done = subprocess.run(argv("-c", "print('ran')"), capture_output=True, text=True)
    equal((done.returncode, done.stdout), (2, ""), "a cache alone means nothing")
    contains(run("--with", "surely-not-there", "-c", "print('ran')", status=125).stderr,
             "krait: packages: the index has no package surely-not-there")
    contains(run("--with", "reqeusts", "-c", "print('ran')", status=125).stderr, "looks like")
    equal(left(), [])


@check
def pip_within_installs_for_this_program_alone() -> None:
    code = ("import subprocess, sys\nrun = subprocess.run\n"
            "print(run(['pip', 'install', 'here-1']).returncode, run([sys.executable, '-m', 'pip', 'install', '-q', 'here-2'])"
            ".returncode, run('uv pip install surely-not-there', shell=True).returncode, flush=True)\n"
            "import here_1, here_2\nprint(here_1.VALUE, here_2.VALUE)")
    done = run("--packages", "-c", code)
    contains(done.stdout, "Successfully installed here-1-1.0\n")
    contains(done.stdout, "0 0 1\n1 2\n")
    contains(done.stderr, "ERROR: the index has no package surely-not-there")
    contains(run("--packages", "-c", "import here_1", status=1).stderr, "No module named 'here_1'")
    code = "import socket\ntry: socket.create_connection(('127.0.0.1', %d), 5)\nexcept OSError as e: print('refused')" % index.port
    equal(run("--packages", "-c", code).stdout, "refused\n", "the program itself has no network")


@check
def limits_are_the_program_s_and_not_the_install_s() -> None:
    done = run("--with", "here-0", "--memory", "48M", "--timeout", "20s", "--processes", "4", "--preload", "data", "--json",
               "-c", "import here_0, numpy; print(here_0.VALUE)")
    contains(done.stdout, '"stdout":"0\\n"')
    contains(run("--with", "here-0", "--memory", "48M", "-c", "x = bytearray(200 << 20)", status=137).stderr, "memory")


@check
def a_terminal_has_one_line_that_is_written_over() -> None:
    p = pexpect.spawn(KRAIT, argv("--with", "slow-one", "-c", "print('ran')")[1:], env={**environment(), "TERM": "vt220"},
                      dimensions=(30, 100), timeout=SOON)
    p.expect_exact("\r\033[KDownloading slow_one")
    p.sendintr()
    p.expect(pexpect.EOF)
    p.close()
    equal(p.exitstatus, 130)
    assert p.before.endswith(b"\r\033[K") or p.before.rstrip().endswith(b"\033[K"), p.before
    assert b"ran" not in p.before, p.before
    eventually(lambda: not left(), SOON, "its folder is gone")


@check
def a_signal_ends_the_install_and_leaves_nothing() -> None:
    for signo in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        p = begun("--with", "slow-one", "-c", "print('ran')")
        equal(len(left()), 1)
        p.send_signal(signo)
        out, err = p.communicate(timeout=SOON)
        equal((p.returncode, out), (128 + signo, ""), err)
        equal(left(), [])


@check
def one_that_was_killed_is_cleared_by_the_next() -> None:
    p = begun("--with", "slow-one", "-c", "print('ran')")
    other = begun("--with", "slow-one", "-c", "print('ran')")
    equal(len(left()), 2)
    os.kill(p.pid, signal.SIGKILL)
    p.communicate(timeout=SOON)  # its engine, which has the pipes too, ends with it

    def cleared() -> bool:
        equal(run("--with", "here-0", "-c", "import here_0; print(here_0.VALUE)").stdout, "0\n")
        return len(left()) == 1

    eventually(cleared, SOON, "the folder of the one that was killed is gone, and that of the other is there")
    assert other.poll() is None
    other.terminate()
    other.communicate(timeout=SOON)
    equal(left(), [])


@check
def several_at_once_share_the_wheels() -> None:
    shutil.rmtree(cache)
    ps = [subprocess.Popen(argv("--with", "needs-here", "--with", "here-%d" % (i % 2), "-c", "import needs_here; print('has')"),
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()) for i in range(4)]
    for p in ps:
        out, err = p.communicate(timeout=SOON)
        equal((p.returncode, out), (0, "has\n"), err)
    equal(left(), [])
    equal(len(os.listdir(os.path.join(cache, "packages/store"))), 3)


@check
def an_ordinary_user_has_a_cache_of_their_own() -> None:
    if os.geteuid() != 0:
        skip("the other checks are an ordinary user's already")
    home = tempfile.mkdtemp(prefix="krait-home-")
    user = pwd.getpwnam("nobody")
    program = os.path.join(home, "krait")
    try:
        shutil.copy(KRAIT, program)
        os.chown(home, user.pw_uid, user.pw_gid)
        done = subprocess.run(["setpriv", "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups", "env",
                               "-u", "XDG_CACHE_HOME", "HOME=" + home, program, "run", "--with", "here-0", "-c",
                               "import here_0; print(here_0.VALUE)"], capture_output=True, text=True, timeout=SOON,
                              env=environment(), cwd=home)
        if "no user namespace" in done.stderr or "cannot start" in done.stderr:
            skip(done.stderr.strip())
        equal((done.returncode, done.stdout), (0, "0\n"), done.stderr)
        equal(sorted(os.listdir(home + "/.cache/krait")), ["packages", "runs"])
        equal(os.stat(home + "/.cache/krait").st_uid, user.pw_uid)
    finally:
        shutil.rmtree(home)


@check
def the_level_contained_has_none_and_says_so() -> None:
    contains(run("--level", "contained", "--with", "here-0", "-c", "print('ran')", status=125).stderr, "level contained")


SLOW = "/files/slow_one-1.0-py3-none-any.whl"

with site() as (index, folder), tempfile.TemporaryDirectory(prefix="krait-cache-") as above:
    cache = os.path.join(above, "cache")
    os.chmod(above, 0o711)
    for i in range(3):
        index.add(wheels.wheel(folder, "here-%d" % i, modules={"here_%d.py" % i: "VALUE = %d\n" % i}))
    index.add(wheels.wheel(folder, "needs-here", depends=["here-1"], modules={"needs_here.py": ""}))
    index.add(wheels.wheel(folder, "slow-one", pad=4 << 20), slow=20_000)
    main()
