#!/usr/bin/python3
"""The policy file of an administrator: what it allows is what code of each user may do, over REST and MCP, whatever a
caller asks for; ceilings of limits; what SIGHUP changes, for sessions that live too; what is refused at the start."""
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal
from krait_server import KRAIT, Server, data_folder
from mcp import Http, Stdio
from serving import eventually, kept, main

KEY = "an-administrators-key-of-the-tests"
FOLDER = tempfile.TemporaryDirectory(prefix="krait-policy-")
TRY = """
def may(name):
    try:
        __import__(name)
        return True
    except ImportError:
        return False
"""
USERS = """
[policy]
policy = "restricted"
allow = ["shlex"]
deny = ["csv"]
memory = "512M"
timeout = "20s"

[user-ada]
allow = []
profiles = ["network"]
deny = []
timeout = "30s"

[user-ops]
policy = "open"
memory = "700M"
"""


def put(text: str, name: str = "policy.toml") -> str:
    """As editors do: a new file under the old name."""
    path = os.path.join(FOLDER.name, name)
    with open(path + ".new", "w") as file:
        file.write(text)
    os.chmod(path + ".new", 0o600)
    os.replace(path + ".new", path)
    return path


def server() -> Server:
    return kept(env={"API_KEY": KEY}, key=KEY, args=["--require-auth", "--policy-file", put(USERS, "users.toml")])


def new_user(s: Server, name: str) -> str:
    made = s.post("/api/v1/users", {"name": name, "rights": ["read", "run"]})
    equal(made.status, 201, made.text)
    return s.post("/api/v1/keys", {"user": made.json()["user_id"]}).json()["key"]


def ask(s: Server, code: str, key=None, **more: object):
    return s.post("/api/v1/runs", {"code": code, "stream": False, "fresh": True, **more}, key=key)


def run(s: Server, code: str, key=None, **more: object) -> dict:
    reply = ask(s, code, key, **more)
    equal(reply.status, 200, reply.text)
    return reply.json()


def denied(s: Server, module: str, key=None, **more: object) -> bool:
    ran = run(s, "import %s\nprint('it ran')" % module, key, **more)
    assert (ran["cause"], ran["stdout"]) in (("ok", "it ran\n"), ("denied", "")), ran
    return ran["cause"] == "denied"


def refusal(reply, *parts: str) -> None:
    assert reply.status in (400, 403, 409, 422), (reply.status, reply.text)
    for part in parts:
        contains(reply.json()["error"]["message"], part)


@check
def file() -> None:
    """Without users: what it says of all."""
    with data_folder() as data, Server(data=data, args=["--policy-file", put('[policy]\npolicy = "restricted"\n')]) as s:
        equal((denied(s, "os"), denied(s, "math")), (True, False))
        refusal(ask(s, "1", policy="open"), "policy: open is more than the sandbox allows")
        refusal(ask(s, "1", allowed_imports=["os"]), "allowed_imports: os is more than")
        refusal(s.post("/api/v1/sandboxes", {"policy": "open"}), "policy: open is more than the server allows")
        refusal(s.post("/api/v1/sandboxes", {"profiles": ["network"]}), "profiles: network is more than")
        equal(s.post("/api/v1/sandboxes", {"allowed_imports": ["math"]}).status, 201)  # less is fine
    with data_folder() as data, Server(data=data) as s:
        equal(denied(s, "os"), False)  # the control: no file


@check
def users_have_rules_of_their_own() -> None:
    s = server()
    ada, ops, bob = new_user(s, "ada"), new_user(s, "ops"), new_user(s, "bob")
    modules = ("math", "shlex", "csv", "http.client", "os")
    equal([denied(s, name, ada) for name in modules], [False, True, False, False, True])
    equal([denied(s, name, bob) for name in modules], [False, False, True, True, True])
    equal([denied(s, name, ops) for name in modules], [False] * 5)
    for key in (ada, bob):
        refusal(ask(s, "1", key, policy="open"), "policy: open is more than")
    refusal(ask(s, "1", bob, allowed_imports=["csv"]), "allowed_imports: csv is more than")
    equal(run(s, "1", ops, policy="restricted")["cause"], "ok")
    equal(denied(s, "os", ops, policy="restricted"), True)


@check
def over_mcp_too() -> None:
    s = server()
    key = new_user(s, "eve")
    with Http(s.port, "/mcp", key=key) as e:
        found = e.tool("execute_python", code="import csv\nprint(6 * 7000)")
        contains(str(found["content"]), "Import 'csv' is not allowed")
        contains(str(e.tool("execute_python", code="import shlex\nprint(6 * 7000)")["content"]), "42000")
    with Http(s.port, "/mcp?dialect=sandbox-service", key=key) as e:  # another dialect is no way around it
        found = e.tool("execute_python", code="import csv\nprint(6 * 7000)")
        assert "42000" not in str(found["content"]), found


@check
def over_stdio_too() -> None:
    with data_folder() as data, Stdio([os.path.abspath(KRAIT), "mcp", "--data", os.path.join(data, "data"),
                                       "--policy-file", put(USERS, "stdio.toml")]) as c:
        contains(str(c.tool("execute_python", code="import csv")["content"]), "Import 'csv' is not allowed")
        contains(str(c.tool("execute_python", code="import shlex\nprint(6 * 7000)")["content"]), "42000")
        contains(c.tool("list_security_events", kind="policy")["content"][0]["text"], '"rule":"P101"')


@check
def ceilings_of_limits() -> None:
    s = server()
    bob = new_user(s, "cy")
    refusal(s.post("/api/v1/sandboxes", {"limits": {"memory": 600 << 20}}, key=bob), "limits.memory: ")
    equal(s.post("/api/v1/sandboxes", {"limits": {"memory": 300 << 20}}, key=bob).status, 201)
    refusal(ask(s, "1", bob, timeout=25), "timeout: at most 20 s")
    equal(run(s, "1", bob, timeout=15)["cause"], "ok")
    with data_folder() as data, Server(data=data) as other:
        equal(other.post("/api/v1/sandboxes", {"limits": {"memory": 600 << 20}}).status, 201)  # the control
        equal(run(other, "1", timeout=25)["cause"], "ok")


@check
def refusals_are_security_events() -> None:
    s = server()
    key = new_user(s, "eventful")
    ran = run(s, "import math\nimport csv\nimport os", key)
    rows = s.get("/api/v1/security-events?run_id=" + ran["run_id"], key=key).json()["events"]
    equal(sorted((row["kind"], row["rule"], row["line"], row["text"]) for row in rows),
          [("policy", "P101", 2, "Import 'csv' is not allowed"), ("policy", "P101", 3, "Import 'os' is not allowed")])
    ran = run(s, TRY + "print(may('o' + 's'))", key)
    assert "True" not in ran["stdout"], ran
    rows = s.get("/api/v1/security-events?run_id=" + ran["run_id"], key=key).json()["events"]
    assert rows and {row["kind"] for row in rows} == {"policy"}, rows
    equal(s.get("/api/v1/security-events?run_id=" + run(s, "import math", key)["run_id"], key=key).json()["events"], [])


# ---- another reading ----


def reload(s: Server, text: str) -> str:
    """The line of the log that ends it."""
    ends = ("settings read again", "settings stay as they are")
    before = [line for line in s.log_text().splitlines() if any(end in line for end in ends)]
    put(text, "again.toml")
    s.process.send_signal(signal.SIGHUP)

    def line():
        lines = [one for one in s.log_text().splitlines() if any(end in one for end in ends)]
        return lines[len(before):]
    return eventually(line, 60, "a line about the settings")[0]


@check
def another_reading_takes_effect() -> None:
    with data_folder() as data, Server(data=data, args=["--policy-file", put('[policy]\npolicy = "restricted"\n',
                                                                              "again.toml")]) as s:
        equal((denied(s, "csv"), denied(s, "os")), (False, True))
        contains(reload(s, '[policy]\npolicy = "restricted"\ndeny = ["csv"]\nmemory = "128M"\n'), "policy.file")
        equal(denied(s, "csv"), True)
        refusal(s.post("/api/v1/sandboxes", {"limits": {"memory": 200 << 20}}), "limits.memory: ")
        contains(reload(s, '[policy]\npolicy = "restricted"\ndeny = ["csv"]\nmemory = "128M"\n'), 'changed=""')
        wrong = reload(s, '[policy]\npolicy = "open"\n\nmemry = "1G"\n')
        for part in ("settings stay as they are", "again.toml:4: memry is not a key of a policy file"):
            contains(wrong, part)
        equal(denied(s, "csv"), True)  # nothing of it counts
        contains(reload(s, '[policy]\npolicy = "open"\n'), "policy.file")
        equal((denied(s, "csv"), denied(s, "os")), (False, False))


@check
def sessions_that_live() -> None:
    """A session never does more than the file allows at the time of a run. A narrower list holds for its next run; one
    whose rights have changed ends, and the next run is in a new one."""
    with data_folder() as data, Server(data=data, args=["--policy-file", put('[policy]\npolicy = "restricted"\n',
                                                                              "again.toml")]) as s:
        def here(code: str) -> dict:
            return run(s, code, fresh=False)
        equal(here("x = 1\nimport csv")["cause"], "ok")
        reload(s, '[policy]\npolicy = "restricted"\ndeny = ["csv"]\n')
        equal(here("import csv")["cause"], "denied")
        equal(here("print(x)")["stdout"], "1\n")  # its variables are kept
        reload(s, '[policy]\npolicy = "restricted"\n')
        equal(here("import csv")["cause"], "ok")
        reload(s, '[policy]\npolicy = "open"\n')
        ran = here("import os\nprint('x' in globals())")  # a new session, with the new rights
        equal((ran["stdout"], ran["session_restarted"]), ("False\n", True))
        equal(here("y = 2\nprint(os.getpid() > 0)")["stdout"], "True\n")
        reload(s, '[policy]\npolicy = "restricted"\n')
        equal(here("import os")["cause"], "denied")  # what an open session holds is not for restricted code
        ran = here("print(y)")
        contains(ran["error"]["message"] if ran["error"] else ran["stdout"], "name 'y' is not defined")


@check
def a_user_who_cannot_be_told_is_refused() -> None:
    """Not given what holds for all users: another rule may be meant."""
    with data_folder() as data, Server(data=data, args=["--policy-file", put('[policy]\npolicy = "open"\n')]) as s:
        with contextlib.closing(sqlite3.connect(os.path.join(s.data, "data/krait.db"), timeout=30)) as db, db:
            equal(db.execute("UPDATE users SET id = 'lost' WHERE id = 'root'").rowcount, 1)
        reply = ask(s, "print('it ran')")
        equal((reply.status, reply.json()["error"]["kind"]), (403, "denied"), reply.text)
        contains(reply.json()["error"]["message"], "whose code this is cannot be told")
        with contextlib.closing(sqlite3.connect(os.path.join(s.data, "data/krait.db"), timeout=30)) as db, db:
            db.execute("UPDATE users SET id = 'root' WHERE id = 'lost'")
        equal(run(s, "print('it ran')")["stdout"], "it ran\n")  # the control


# ---- at the start ----


def start(*args: str) -> tuple:
    program = os.path.abspath(KRAIT)
    with data_folder() as data:
        done = subprocess.run([program, "serve", "--data", os.path.join(data, "data"), "--port", "0", *args],
                              capture_output=True, text=True, timeout=60, cwd=FOLDER.name)
    return done.returncode, done.stderr


@check
def what_is_refused_at_the_start() -> None:
    for text, why in (('[policy]\npolcy = "open"\n', "bad.toml:2: polcy is not a key of a policy file"),
                      ('[policy]\nallow = ["os"]\n', 'bad.toml:2: allow: needs policy = "restricted" beside it'),
                      ('[policy]\nmemory = "1T"\npolicy = "open"\nmemory = "2G"\n', "bad.toml:4: "),
                      ("[policy\n", "bad.toml:1: ")):
        status, err = start("--policy-file", put(text, "bad.toml"))
        equal(status, 2, err)
        contains(err, why)
    status, err = start("--policy-file", os.path.join(FOLDER.name, "nowhere.toml"))
    assert status != 0 and "--policy-file" in err and "nowhere.toml" in err, (status, err)
    for args in (["--policy", "restricted"], ["--allowed-imports", "math"], ["--policy-filesystem"]):
        status, err = start("--policy-file", put('[policy]\npolicy = "open"\n'), *args)
        equal(status, 2, err)
        contains(err, "%s (command line): the policy file says what code may do" % args[0])
    open_to_all = put("[policy]\n", "all.toml")
    os.chmod(open_to_all, 0o666)
    status, err = start("--policy-file", open_to_all)
    assert status != 0 and "all.toml" in err, (status, err)


@check
def ceilings_alone_leave_the_settings() -> None:
    path = put('[policy]\nmemory = "100M"\n[user-nobody-here]\nmemory = "64M"\n')
    with data_folder() as data, Server(data=data, args=["--policy-file", path, "--policy", "restricted"]) as s:
        equal(denied(s, "os"), True)
        refusal(s.post("/api/v1/sandboxes", {"limits": {"memory": 200 << 20}}), "limits.memory: ")
        contains(s.log_text(), "policy file names a user that is not there")
        contains(s.log_text(), "nobody-here")


main()
