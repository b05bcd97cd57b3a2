#!/usr/bin/python3
"""pip in a cell: its arguments, what it looks up itself, and its way by relay.py to the engine."""
import json
import os
import subprocess
import sys
import tempfile

from fake_krait import KERNEL, PACKAGED, PACKAGES, PYTHON, Zygote
from check import check, contains, equal, main

sys.path.insert(0, KERNEL)
import pip_command as pip  # noqa: E402

zygote = Zygote()
place = tempfile.TemporaryDirectory()
LINK = os.path.join(place.name, "link")
VENV = os.path.join(place.name, "venv")
os.makedirs(VENV)
open(VENV + "/pyvenv.cfg", "w").close()
# pip_command.py as it stands, with this test's places in it.
PROGRAM = """
import sys
sys.path.insert(0, %r)
import pip_command as pip
pip.ADDRESS, pip.VENV, pip.NOBODY_S = %r, %r, 10
pip.session = lambda: int(sys.argv[1])
sys.exit(pip.main(sys.argv[3:], sys.argv[2]))
""" % (KERNEL, LINK, VENV)
SETUP = "from krait_kernel import relay\nimport os, subprocess, sys\nrelay.ADDRESS = %r\n" % LINK
SETUP += "def pip(*words, program='pip', **more):\n"
SETUP += "    argv = [%r, '-c', %r, str(os.getpid()), program] + list(words)\n" % (PYTHON, PROGRAM)
SETUP += "    return subprocess.run(argv, capture_output=True, text=True, **more)\n"


def refused(op, *words):
    try:
        pip.parse(op, words)
    except pip.Refused as exc:
        return str(exc)
    return None


def engine(*answers):
    """Answers every question with these; the questions are in `asked`."""
    asked = []

    def on_frame(session, frame):
        kind, number, ask = frame
        if kind == PACKAGES:
            asked.append(ask)
            for answer in answers:
                session.send(PACKAGED, number, answer)

    on_frame.asked = asked
    return on_frame


def run(session, code, on_frame, **more):
    """The frames of questions have numbers of their own: they are let through whatever the run."""
    real = session.frames

    def frames():
        for kind, number, value in real():
            if kind == PACKAGES:
                on_frame(session, (kind, number, value))
            else:
                yield kind, number, value

    session.frames = frames
    try:
        return session.run(SETUP + code, **more)
    finally:
        session.frames = real


DONE = {"end": True, "ok": True, "notes": [], "restart": False}


@check
def options_mean_what_they_mean_in_pip():
    for words, names, files, upgrade in (
        (["a"], ["a"], [], False),
        (["-qU", "a", "b>=1,<2"], ["a", "b>=1,<2"], [], True),
        (["--upgrade", "--user", "--no-cache-dir", "--break-system-packages", "a"], ["a"], [], True),
        (["-rx.txt", "-r", "y.txt", "--requirement=z.txt"], [], ["x.txt", "y.txt", "z.txt"], False),
        (["--only-binary", ":all:", "--timeout=5", "a"], ["a"], [], False),
        (["--disable-pip-version-check", "a", "--quiet"], ["a"], [], False),
    ):
        got = pip.parse("install", words)
        equal((got.names, got.files, got.upgrade), (names, files, upgrade), words)


@check
def what_makes_no_sense_is_refused_with_the_reason():
    for words, why in (
        (["--index-url", "http://x", "a"], "administrator chooses it"),
        (["-ihttp://x", "a"], "administrator chooses it"),
        (["--extra-index-url=http://x", "a"], "administrator chooses it"),
        (["--target", "lib", "a"], "every session of it has"),
        (["-e", "."], "only packages of the index"),
        (["."], "only packages of the index"),
        (["./a-1.0-py3-none-any.whl"], "only packages of the index"),
        (["git+https://example.org/a"], "only packages of the index"),
        (["https://example.org/a.whl"], "only packages of the index"),
        (["--pre", "a"], "name==2.0rc1"),
        (["--no-deps", "a"], "installed with it"),
        (["--surely-not", "a"], "no such option"),
        (["-r"], "requires 1 argument"),
        ([], "at least one requirement to install"),
    ):
        contains(refused("install", *words) or "", why, words)
    equal(refused("install", "a"), None, "control")
    equal(refused("uninstall", "-y", "a"), None, "control")


@check
def every_option_has_a_reason_or_none():
    for name, meaning in pip.OPTIONS.items():
        assert name.startswith("-") and (meaning in ("", "=") or len(meaning) > 20), name


@check
def requirements_files_are_read_with_those_they_name():
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(folder + "/more")
        with open(folder + "/a.txt", "w") as file:
            file.write("one>=1\n-r more/b.txt\nthree\n")
        with open(folder + "/more/b.txt", "w") as file:
            file.write("two  # it\n")
        equal(pip.read_files([folder + "/a.txt"]), "one>=1\ntwo  # it\nthree\n")
        with open(folder + "/more/b.txt", "w") as file:
            file.write("-r ../a.txt\n")
        try:
            pip.read_files([folder + "/a.txt"])
            raise AssertionError("files that name each other")
        except pip.Refused as exc:
            contains(str(exc), "more than 16")
        try:
            pip.read_files([folder + "/none.txt"])
            raise AssertionError("a file that is not there")
        except pip.Refused as exc:
            contains(str(exc), "Could not open requirements file")


@check
def a_request_reaches_the_engine_while_code_waits_for_the_program():
    answers = engine({"text": "Collecting a\n"}, {"text": "Successfully installed a-1.0\n"}, DONE)
    with zygote.session(venv=True) as session:
        end = run(session, "r = pip('install', '-U', 'a>=1')\nr.returncode, r.stdout, r.stderr", answers)
        equal(end["result"], "(0, 'Collecting a\\nSuccessfully installed a-1.0\\n', '')")
        equal(answers.asked, [{"op": "install", "upgrade": True, "names": ["a>=1"]}])
        equal(run(session, "os.path.exists(%r)" % LINK, answers)["result"], "False", "the socket is gone")


@check
def it_works_whatever_the_code_waits_in():
    answers = engine(DONE)
    with zygote.session(venv=True) as session:
        for code in (
            "import shlex\nargv = [%r, '-c', %r, str(os.getpid()), 'pip', 'install', 'a']\n"
            "os.system(' '.join(map(shlex.quote, argv)))" % (PYTHON, PROGRAM),
            "from threading import Thread\nfound = []\n"
            "one = Thread(target=lambda: found.append(pip('install', 'a').returncode))\none.start(); one.join()\nfound[0]",
            "import asyncio\nargv = [%r, '-c', %r, str(os.getpid()), 'pip', 'install', 'a']\n"
            "p = await asyncio.create_subprocess_exec(*argv)\nawait p.wait()" % (PYTHON, PROGRAM),
            "pid = os.fork()\nif not pid: os._exit(subprocess.run([%r, '-c', %r, str(os.getppid()), 'pip', 'install', "
            "'a']).returncode)\nos.waitpid(pid, 0)[1]" % (PYTHON, PROGRAM),
            "p = pip('install', 'a', timeout=60)\np.returncode",
        ):
            end = run(session, code, answers)
            equal((end["cause"], end["result"]), ("ok", "0"), (code, end["stderr"], end["error"]))
        equal(len(answers.asked), 5)


@check
def errors_are_the_programs():
    with zygote.session(venv=True) as session:
        answers = engine({"end": True, "ok": False, "error": "the index has no package a"})
        end = run(session, "r = pip('install', 'a')\nr.returncode, r.stdout, r.stderr", answers)
        equal(end["result"], "(1, '', 'ERROR: the index has no package a\\n')")
        answers = engine(dict(DONE, restart=True, notes=["x and y share a file"]))
        end = run(session, "r = pip('install', '-q', 'a')\nr.returncode, r.stdout, r.stderr", answers)
        contains(end["result"], "WARNING: x and y share a file")
        contains(end["result"], "restart the session")


@check
def uv_is_the_same():
    answers = engine(DONE)
    with zygote.session(venv=True) as session:
        for words in (("pip", "install", "a"), ("add", "a"), ("pip", "install", "--system", "a")):
            equal(run(session, "pip(*%r, program='uv').returncode" % (words,), answers)["result"], "0", words)
        end = run(session, "r = pip('venv', program='uv', env={'PATH': '/nowhere'})\nr.returncode, r.stderr", answers)
        equal(end["result"], "(127, 'uv: command not found\\n')")
    equal([one["names"] for one in answers.asked], [["a"]] * 3)


@check
def a_program_that_is_killed_withdraws_its_request():
    answers = engine()
    with zygote.session(venv=True) as session:
        code = "try:\n    pip('install', 'a', timeout=2)\nexcept subprocess.TimeoutExpired: pass\n"
        code += "os.kill(os.getpid(), 23)\n'ended'"
        end = run(session, code, answers)
        equal((end["cause"], end["result"]), ("ok", "'ended'"))
    equal([one["op"] for one in answers.asked], ["install", "cancel"])


@check
def what_is_no_request_is_not_handed_on():
    answers = engine(DONE)
    send = (
        "import socket, signal, time\ndef say(data, wait=0.2):\n    s = socket.socket(socket.AF_UNIX)\n"
        "    os.kill(os.getpid(), signal.SIGURG)\n    s.connect(relay.ADDRESS)\n"
        "    try: s.sendall(data)\n    except OSError: pass\n    os.kill(os.getpid(), signal.SIGURG)\n    s.settimeout(wait)\n"
        "    try: return s.recv(100)\n    except OSError as e: return type(e).__name__\n    finally:\n        s.close()\n"
        "        os.kill(os.getpid(), signal.SIGURG)\n"
    )
    with zygote.session(venv=True) as session:
        for data in ("b'garbage\\n'", "b'{' * 100000", "b'\\0' * 70000 + b'\\n'"):
            got = run(session, send + "say(%s)" % data, answers)["result"]
            assert got in ("b''", "'ConnectionResetError'", "'BrokenPipeError'"), (data, got)
        equal(answers.asked, [])
        flood = send + "many = []\nfor i in range(200):\n    s = socket.socket(socket.AF_UNIX)\n"
        flood += "    os.kill(os.getpid(), signal.SIGURG)\n    s.connect(relay.ADDRESS)\n    many.append(s)\n"
        flood += "os.kill(os.getpid(), signal.SIGURG)\nheld = len(relay._clients)\nfor s in many: s.close()\n"
        flood += "for i in range(40): os.kill(os.getpid(), signal.SIGURG)\nheld, len(relay._clients)"
        equal(run(session, flood, answers)["result"], "(128, 0)")
        equal(run(session, "pip('install', 'a').returncode", answers)["result"], "0", "control")


@check
def many_programs_at_once_are_all_answered():
    many = "relay.CLIENTS = 1\nargv = [%r, '-c', %r, str(os.getpid()), 'pip', 'install', 'a']\n" % (PYTHON, PROGRAM)
    many += "ps = [subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) for _ in range(12)]\n"
    many += "{(p.communicate()[1], p.returncode) for p in ps}"
    with zygote.session(venv=True) as session:
        equal(run(session, many, engine(DONE))["result"], "{('', 0)}")


@check
def a_signal_within_a_turn_begins_no_other():
    code = "import signal\nclass Urged(relay.socket):\n    many = 1\n    def listen(self, waiting):\n"
    code += "        for _ in range(Urged.many):\n            Urged.many = 0\n            os.kill(os.getpid(), signal.SIGURG)\n"
    code += "        super().listen(waiting)\nrelay.socket = Urged\nr = pip('install', 'a')\nr.returncode, r.stderr"
    again = "turns, real = [], relay._turn\ndef turn():\n    turns.append(1)\n    if len(turns) == 1:\n"
    again += "        os.kill(os.getpid(), signal.SIGURG)\n    real()\nrelay._turn = turn\n"
    again += "os.kill(os.getpid(), signal.SIGURG)\nrelay._turn = real\nlen(turns)"
    with zygote.session(venv=True) as session:
        equal(run(session, code, engine(DONE))["result"], "(0, '')")
        equal(run(session, again, engine(DONE))["result"], "2")


@check
def answers_that_the_session_comes_upon_keep_their_order():
    """One is come upon, and a signal comes, while the one before is handed to its program."""
    code = "import signal, socket\nfrom krait_kernel import channel, start\nframes = [(9, b'1'), (9, b'2'), (9, b'3')]\n"
    code += "class Fake:\n    recv_packaged = staticmethod(lambda: frames.pop(0) if frames else None)\n"
    code += "class Nesting(relay.Client):\n    def answer(self, line):\n        if line == b'1':\n"
    code += "            os.kill(os.getpid(), signal.SIGURG)\n            start.on_packaged()\n"
    code += "        super().answer(line)\nreal, relay._krait = relay._krait, Fake\nours, theirs = socket.socketpair()\n"
    code += "one = Nesting(ours.detach())\none.number, one.run, one.ended = 9, channel.run, True\n"
    code += "relay._clients[:] = [one]\ntook = start.on_packaged(), start.on_packaged()\nrelay._krait = real\n"
    code += "theirs.settimeout(10)\ngot = theirs.recv(100)\ntheirs.close()\nos.kill(os.getpid(), signal.SIGURG)\n"
    code += "took, got, len(relay._clients)"
    with zygote.session(venv=True) as session:
        end = run(session, code, engine())
        equal(end["result"], repr(((True, False), b"1\n2\n3\n", 0)), end)


@check
def a_program_is_answered_after_the_folder_was_cleared():
    code = "import signal\nos.kill(os.getpid(), signal.SIGURG)\nos.unlink(relay.ADDRESS)\npip('install', 'a').returncode"
    with zygote.session(venv=True) as session:
        equal(run(session, code, engine(DONE))["result"], "0")


@check
def without_an_environment_it_is_the_systems():
    made = subprocess.run(
        [PYTHON, "-I", KERNEL + "/pip_command.py", "/krait/bin/pip", "--version"],
        capture_output=True,
        text=True,
    )
    assert made.stdout.startswith("pip ") or "needs pip itself" in made.stderr, made
    if not os.path.exists("/venv/pyvenv.cfg"):
        assert "/venv" not in made.stdout, made


@check
def what_is_installed_is_looked_up_here():
    with tempfile.TemporaryDirectory() as folder:
        info = folder + "/minor_thing-1.5.dist-info"
        os.makedirs(info)
        with open(info + "/METADATA", "w") as file:
            file.write("Metadata-Version: 2.1\nName: minor-thing\nVersion: 1.5\nRequires-Dist: other>=1\n")
        code = "import sys; sys.path[:0] = [%r, %r]; import pip_command as pip; pip.VENV = %r\n" % (KERNEL, folder, VENV)
        code += "sys.exit(pip.main(sys.argv[1:]))"

        def say(*words):
            return subprocess.run([PYTHON, "-c", code, *words], capture_output=True, text=True)

        contains(say("freeze").stdout, "minor-thing==1.5\n")
        contains(say("list").stdout, "minor-thing ")
        contains(json.loads(say("list", "--format=json").stdout), {"name": "minor-thing", "version": "1.5"})
        contains(say("show", "Minor_Thing").stdout, "Name: minor-thing\nVersion: 1.5\n")
        contains(say("show", "Minor_Thing").stdout, "Requires: other\n")
        equal(say("show", "surely-not").returncode, 1)
        assert say("--version").stdout.startswith("pip "), say("--version")
        kept = say("uninstall", "-y", "minor-thing")
        equal(kept.returncode, 0)
        contains(kept.stdout, "outside environment")
        contains(say("uninstall", "-y", "surely-not").stderr, "as it is not installed")


main()
place.cleanup()
