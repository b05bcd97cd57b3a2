#!/usr/bin/python3
"""pip and uv in a terminal: the same job as in a run, its progress where it was typed, Ctrl-C, and terminals that close,
against an index on loopback."""
from __future__ import annotations

import base64
import os
import sys

import pexpect

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "lib")]
import wheels  # noqa: E402
from check import check, contains, equal, main  # noqa: E402
from installing import ask, await_job, index_args, listed, site, started  # noqa: E402
from krait_server import KRAIT, Server  # noqa: E402
from serving import Stream, eventually  # noqa: E402

TERMINALS = "/api/v1/terminals"
SOON = 120
SLOW = {"slow": 20_000}  # bytes a second: minutes, so it is under way until it is cancelled


def opened(*command: str, **more) -> str:
    reply = server.post(TERMINALS, {**({"command": list(command)} if command else {}), **more})
    equal(reply.status, 201, reply.text)
    return reply.json()["terminal_id"]


def all_of(t: str, of: Server | None = None) -> str:
    """What it shows until its program ends."""
    lines = (of or server).get(f"{TERMINALS}/{t}/output").lines()
    equal(lines[-1]["type"], "end", lines[-1:])
    return b"".join(base64.b64decode(one["data"]) for one in lines if one["type"] == "output").decode()


def shows(t: str, *parts: str) -> None:
    """Reads what it shows until one of the parts is in it."""
    text = ""
    with Stream(server, "GET", f"{TERMINALS}/{t}/output", seconds=SOON) as stream:
        while not any(part in text for part in parts):
            line = stream.line()
            assert line and line["type"] != "end", "it ended before %s: %s" % (parts, text)
            text += base64.b64decode(line["data"]).decode() if line["type"] == "output" else ""


def typed(t: str, text: str) -> None:
    reply = server.post(f"{TERMINALS}/{t}/input", {"text": text})
    equal(reply.status, 204, reply.text)


def jobs(sandbox: str) -> list:
    reply = server.get("/api/v1/jobs")
    equal(reply.status, 200, reply.text)
    return [one for one in reply.json()["jobs"] if one["subject"] == sandbox]


def made(name: str, **settings) -> str:
    reply = server.post("/api/v1/sandboxes", {"name": name, **settings})
    equal(reply.status, 201, reply.text)
    return reply.json()["sandbox_id"]


def under_way(sandbox: str, wheel: str) -> dict:
    """The one job of the sandbox, once it fetches."""
    eventually(lambda: index.count("/files/" + wheel), SOON, "the wheel is asked for")
    (one,) = [job for job in jobs(sandbox) if job["ended_at"] is None]
    return one


def cancelled(job: dict) -> None:
    done = await_job(server, job["job_id"])
    equal((done["cause"], done["result"]["ok"], done["result"]["kind"]), ("cancelled", False, "cancelled"), done)


@check
def every_spelling_installs_with_its_progress() -> None:
    words = ("pip install here-0; uv pip install here-1; uv add here-2; python3 -m pip install -q here-3; "
             "pip install here-0 surely-not-there; echo status $?; pip uninstall -y here-2; "
             "python3 -c 'import here_0, here_1, here_3; print(here_0.VALUE, here_1.VALUE, here_3.VALUE)'; "
             "pip list --local; env -i /krait/bin/pip install here-0")
    text = all_of(opened("sh", "-c", words))
    for part in ("Collecting here-0", "Successfully installed here-0-1.0\r\n", "Successfully installed here-1-1.0\r\n",
                 "no package surely-not-there", "status 1\r\n", "0 1 3\r\n", "Requirement already satisfied"):
        contains(text, part)
    assert "here-3" not in text.split("Package")[0], "it was to be quiet: %s" % text
    equal(listed(server), {"here-0": "1.0", "here-1": "1.0", "here-3": "1.0"})
    equal(server.run("import here_1; here_1.VALUE")["result"], "1", "a run has it, too")
    rows = server.get("/api/v1/audit?limit=20&what=package.install").json()["rows"]
    assert [row for row in rows if row["object"] == "here-1==1.0" and row["outcome"] == "ok"], rows


@check
def a_session_of_python_in_the_terminal_finds_it() -> None:
    made("live")
    t = opened("python3", "-iq", sandbox="live")
    typed(t, "import subprocess\nsubprocess.run(['pip', 'install', '-q', 'here-1']).returncode + 40\n")
    shows(t, "\n40\r")
    typed(t, "import importlib; importlib.invalidate_caches(); import here_1; print('is', here_1.VALUE)\nexit()\n")
    contains(all_of(t), "is 1\r\n")


@check
def ctrl_c_cancels_the_job_and_leaves_the_shell() -> None:
    box = made("stopped")
    t = opened(sandbox="stopped")
    typed(t, "pip install slow-c; echo status $?\n")
    job = under_way(box, "slow_c-1.0-py3-none-any.whl")
    shows(t, "Collecting slow-c")
    typed(t, "\x03")
    cancelled(job)
    typed(t, "pip install here-0; exit\n")
    text = all_of(t)
    contains(text, "Operation cancelled by user")
    contains(text, "Successfully installed here-0-1.0")
    equal(listed(server, "stopped"), {"here-0": "1.0"})


@check
def a_terminal_that_is_closed_cancels_its_job() -> None:
    box = made("closed")
    t = opened("pip", "install", "slow-d", sandbox="closed")
    job = under_way(box, "slow_d-1.0-py3-none-any.whl")
    equal(server.delete(f"{TERMINALS}/{t}").status, 204)
    cancelled(job)
    equal(listed(server, "closed"), {})


@check
def a_job_that_is_awaited_elsewhere_goes_on() -> None:
    box = made("shared")
    t = opened("pip", "install", "some-e", sandbox="shared")
    job = under_way(box, "some_e-1.0-py3-none-any.whl")
    equal(started(ask(server, "some-e", sandbox="shared")), job["job_id"], "the same one is joined")
    other = opened("pip", "install", "some-e", sandbox="shared")
    shows(other, "Collecting some-e")
    equal(server.delete(f"{TERMINALS}/{t}").status, 204)
    contains(all_of(other), "Successfully installed some-e-1.0")
    equal(await_job(server, job["job_id"])["cause"], "ok")


@check
def two_terminals_and_a_run_wait_for_each_other() -> None:
    box = made("busy")
    ts = [opened("pip", "install", "here-%d" % i, sandbox="busy") for i in range(2)]
    done = server.run("!pip install here-2", sandbox_id="busy")
    contains(done["stdout"], "Successfully installed here-2-1.0")
    for i, t in enumerate(ts):
        contains(all_of(t), "Successfully installed here-%d-1.0" % i)
    equal(sorted(listed(server, "busy")), ["here-0", "here-1", "here-2"])
    equal(len(jobs(box)), 3)


@check
def what_a_program_sends_harms_neither_the_terminal_nor_the_next() -> None:
    made("noisy")
    code = ("import os, signal, socket, sys\n"
            "stat = lambda p: open('/proc/%s/stat' % p).read().rpartition(')')[2].split()[1]\n"
            "pid = next(int(p) for p in os.listdir('/proc') if p.isdigit() and p != '1' and stat(p) == '0')\n"
            "for data in (b'', b'x', b'{', b'{}\\n', b'{\"op\":\"install\"}\\n', b'[' * 70000, b'{\"op\":\"cancel\"}\\n'):\n"
            "    for _ in range(3000): os.kill(pid, signal.SIGURG)\n"
            "    s = socket.socket(socket.AF_UNIX)\n"
            "    while s.connect_ex('/tmp/.krait-pip'): os.kill(pid, signal.SIGURG)\n"
            "    try: s.sendall(data)\n"
            "    except OSError: pass\n"
            "    os.kill(pid, signal.SIGURG)\n"
            "    s.close()\n"
            "print('sent')\n")
    t = opened(sandbox="noisy")
    typed(t, "cat > x.py <<'END'\n%sEND\nstty -echo; python3 x.py; rm -f /tmp/.krait-pip; pip install here-0; exit 3\n" % code)
    text = all_of(t)
    contains(text, "sent\r\n")
    contains(text, "Successfully installed here-0-1.0")
    equal(server.get(f"{TERMINALS}/{t}").json()["exit_code"], 3)


@check
def a_dozen_at_once_wait_for_their_turn() -> None:
    made("many")
    words = "for i in 0 1 2 3 4 5 6 7 8 9 10 11; do pip install many-$i & done; wait"
    text = all_of(opened("sh", "-c", words, sandbox="many"))
    equal(text.count("Successfully installed"), 12, text)
    equal(len(listed(server, "many")), 12)


@check
def krait_shell_installs_and_is_interrupted() -> None:
    box = made("person")
    p = pexpect.spawn(os.path.abspath(KRAIT), ["shell", "--connect", f"http://127.0.0.1:{server.port}", "person"],
                      env={**os.environ, "TERM": "vt220"}, dimensions=(30, 100), timeout=SOON)
    p.expect(r"\$ ")
    p.sendline("pip install slow-f; echo status=$?")
    p.expect("Collecting slow-f")
    job = under_way(box, "slow_f-1.0-py3-none-any.whl")
    p.sendintr()
    p.expect("Operation cancelled by user")
    cancelled(job)
    p.sendline("uv pip install here-1 && python3 -c 'import here_1; print(\"has\", here_1.VALUE)'; exit 5")
    p.expect("Successfully installed here-1-1.0")
    p.expect("has 1\r\n")
    p.expect(pexpect.EOF)
    p.close()
    equal(p.exitstatus, 5)


@check
def where_packages_are_off_it_says_so() -> None:
    with Server(args=index_args(index, "--packages=false")) as off:
        reply = off.post(TERMINALS, {"command": ["sh", "-c", "pip install here-0; echo status $?"]})
        text = all_of(reply.json()["terminal_id"], off)
        contains(text, "cannot be installed")
        contains(text, "status 1\r\n")


with site() as (index, folder):
    for i in range(4):
        index.add(wheels.wheel(folder, "here-%d" % i, modules={"here_%d.py" % i: "VALUE = %d\n" % i}))
    for i in range(12):
        index.add(wheels.wheel(folder, "many-%d" % i))
    for letter in "cdf":
        index.add(wheels.wheel(folder, "slow-" + letter, pad=4 << 20), **SLOW)
    index.add(wheels.wheel(folder, "some-e", pad=1 << 20), slow=100_000)
    with Server(args=index_args(index, "--installs-per-minute", "100", "--max-terminals-per-sandbox", "8")) as server:
        main()
