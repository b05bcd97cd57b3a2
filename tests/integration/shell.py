#!/usr/bin/python3
"""`krait shell` on a pseudo-terminal: what is typed and shown, sizes, leaving, statuses, errors, and that the terminal
is as before."""
import os
import signal
import subprocess
import sys
import termios

import pexpect

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal  # noqa: E402
from file_server import keyed_server, user_key  # noqa: E402
from krait_server import KRAIT, Server  # noqa: E402
from serving import eventually, kept, main  # noqa: E402

SOON = 30
TERMINALS = "/api/v1/terminals"


def shell(s: Server, *args: str, **env: str) -> pexpect.spawn:
    """With a terminal whose settings can be read after its end."""
    return pexpect.spawn(os.path.abspath(KRAIT), ["shell", "--connect", f"http://127.0.0.1:{s.port}", *args],
                         env={**os.environ, "TERM": "vt220", **env}, dimensions=(30, 100), timeout=SOON, echo=True)


def ended(p: pexpect.spawn) -> int:
    p.expect(pexpect.EOF)
    p.close()
    return p.exitstatus


def running(s: Server, **more) -> list:
    return [one for one in s.get(TERMINALS, **more).json()["terminals"] if one["running"]]


@check
def a_shell_types_shows_and_ends_with_its_status():
    s = kept()
    p = shell(s)
    p.expect(r"\$ ")
    p.sendline("stty size; echo $TERM; pwd")
    p.expect("30 100\r\n.*vt220\r\n/workspace\r\n")
    p.setwinsize(20, 50)
    p.sendline("sleep 0.5; stty size")
    p.expect("20 50\r\n")
    # Said by the program itself: between reading a line and the start of its program bash loses an interrupt.
    p.sendline("sh -c 'echo be''gun; exec sleep 1000'")
    p.expect("begun\r\n")
    p.sendintr()
    p.expect(r"\$ ")
    p.sendline("exit 7")
    equal(ended(p), 7)
    equal(running(s), [])


@check
def another_sandbox_and_a_command():
    s = kept()
    equal(s.post("/api/v1/sandboxes", {"name": "work"}).status, 201)
    equal(s.run("open('here', 'w').write('1')", sandbox_id="work")["cause"], "ok")
    p = shell(s, "work", "ls", "-l", "--quoting-style=c")
    p.expect('"here"')
    equal(ended(p), 0)
    p = shell(s, "default", "no-such-program")
    p.expect("cannot be started")
    equal(ended(p), 127)


@check
def the_escape_key_leaves_and_ends_the_program():
    s = kept()
    for args, key in (((), "\x1d"), (("--escape", "^B"), "\x02")):
        p = shell(s, *args, "default", "sh", "-c", "echo begun; sleep 1000")
        p.expect("begun")
        p.send("x" + key + "never typed")
        equal(ended(p), 129)
        eventually(lambda: not running(s))
    p = shell(s, "--escape", "none", "default", "sh", "-c", "stty raw; echo begun; head -c 1 | od -An -tx1")
    p.expect("begun")
    p.send("\x1d")
    p.expect("1d")
    equal(ended(p), 0)


@check
def the_terminal_is_as_before_at_every_end():
    s = kept()
    for how in ("exit", "escape", "term", "hangup"):
        p = pexpect.spawn("/bin/sh", timeout=SOON, env={**os.environ, "PS1": "outer> "}, cwd="/tmp")
        p.expect("outer> ")
        before = termios.tcgetattr(p.child_fd)
        p.sendline(f"{os.path.abspath(KRAIT)} shell --connect http://127.0.0.1:{s.port} default "
                   "sh -c 'echo be''gun; read x; exit 3'; echo status=$?")
        p.expect("begun")
        assert termios.tcgetattr(p.child_fd) != before, "it is raw meanwhile"
        if how == "exit":
            p.sendline("")
        elif how == "escape":
            p.send("\x1d")
        else:
            child = open(f"/proc/{p.pid}/task/{p.pid}/children").read().split()[0]
            os.kill(int(child), {"term": signal.SIGTERM, "hangup": signal.SIGHUP}[how])
        p.expect(r"status=(\d+)")
        equal(int(p.match[1]), {"exit": 3, "escape": 129, "term": 143, "hangup": 129}[how], how)
        p.expect("outer> ")
        equal(termios.tcgetattr(p.child_fd), before, how)
        p.sendline("exit")
        p.expect(pexpect.EOF)
        p.close()
        eventually(lambda: not running(s))


@check
def a_server_that_stops_or_dies_is_told_and_leaves_the_terminal():
    for how in (signal.SIGTERM, signal.SIGKILL):
        with Server() as s:
            p = shell(s, "default", "sh", "-c", "echo begun; sleep 1000")
            p.expect("begun")
            os.kill(s.server_pid() if how == signal.SIGKILL else s.process.pid, how)
            status = ended(p)
            equal(status != 0, True)
            contains(p.before.decode(), "krait shell: ")


@check
def errors_say_what_to_do():
    s = keyed_server()
    mine = user_key("ann")

    def said(status_is: int, part: str, p: pexpect.spawn) -> None:
        status = ended(p)
        contains(p.before.decode(), part)
        equal(status, status_is, part)

    no_tty = subprocess.run([os.path.abspath(KRAIT), "shell"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=SOON)
    equal(no_tty.returncode != 0, True)
    contains(no_tty.stderr, "must be a terminal")
    p = shell(s, "--connect", "http://127.0.0.1:1")
    assert ended(p) != 0
    contains(p.before.decode(), "krait serve")
    p = shell(s)
    assert ended(p) != 0
    contains(p.before.decode(), "KRAIT_API_KEY")
    p = shell(s, "no-such-sandbox", KRAIT_API_KEY=mine)
    assert ended(p) != 0
    contains(p.before.decode(), "refuses (404)")
    said(2, "--escape", shell(s, "--escape", "x"))
    said(2, "--api-key-file", shell(s, "--api-key-file", "/no/such/file"))
    said(2, "did you mean --connect", shell(s, "--conect", "x"))
    p = shell(s, "default", "true", KRAIT_API_KEY=mine)
    equal(ended(p), 0, "with a good key it works")


@check
def a_bound_is_told():
    with Server(args=["--max-terminals", "1"]) as s:
        first = shell(s, "default", "sh", "-c", "echo begun; sleep 1000")
        first.expect("begun")
        second = shell(s)
        assert ended(second) != 0
        contains(second.before.decode(), "the server has 1 terminals")
        first.send("\x1d")
        ended(first)


@check
def much_output_comes_whole():
    s = kept()
    p = shell(s, "default", "python3", "-c", "for i in range(50000): print('%07d' % i)")
    p.expect(pexpect.EOF)
    p.close()
    equal(p.exitstatus, 0)
    equal(p.before, b"".join(b"%07d\r\n" % i for i in range(50000)))


if __name__ == "__main__":
    main()
