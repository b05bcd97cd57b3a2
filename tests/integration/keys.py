#!/usr/bin/python3
"""`krait keys` and `krait users`: what they print, refuse and leave in the store; beside a running server."""
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import termios
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal, main
from drive import KRAIT
from krait_server import Server

KEY = re.compile(r"^kr_[0-9a-hjkmnp-tv-z]{52}\n$")
SERVER_FORGETS_S = 2  # KR_AUTH_REMEMBER_MS


class Data:
    """A data directory; use as a context."""

    def __enter__(self) -> "Data":
        self.top = tempfile.mkdtemp(prefix="krait-keys-")
        os.chmod(self.top, 0o755)  # as root the data is another user's, who must be able to get there
        self.path = os.path.join(self.top, "data")
        return self

    def __exit__(self, *exc) -> None:
        shutil.rmtree(self.top)

    def krait(self, *args: str, stdin: str = "", env: dict = {}) -> subprocess.CompletedProcess:
        data = [] if "KRAIT_DATA" in env else ["--data", self.path]
        base = {k: v for k, v in os.environ.items() if k in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS")}
        return subprocess.run([os.path.abspath(KRAIT), *args, *data], input=stdin, text=True, timeout=60,
                              capture_output=True, env={**base, "HOME": "/nonexistent", **env}, cwd="/")

    def good(self, *args: str, **how) -> str:
        done = self.krait(*args, **how)
        equal(done.returncode, 0, done.stderr)
        return done.stdout

    def json(self, *args: str, **how) -> dict:
        return json.loads(self.good(*args, "--json", **how))

    def refused(self, status: int, *args: str, **how) -> str:
        done = self.krait(*args, **how)
        equal((done.returncode, done.stdout), (status, ""), done.stderr)
        equal(done.stderr.count("\n"), 1, done.stderr)
        assert done.stderr.startswith("krait %s: " % args[0]), done.stderr
        return done.stderr


@check
def a_key_is_the_only_line_on_stdout() -> None:
    with Data() as d:
        done = d.krait("keys", "create")
        equal(done.returncode, 0)
        assert KEY.match(done.stdout), done.stdout
        contains(done.stderr, 'key" of root, rights read,run,admin')
        assert done.stdout.strip() not in done.stderr
        equal(os.stat(d.path).st_mode & 0o777, 0o700)
        listed = d.json("keys", "list")["keys"]
        equal([k["prefix"] for k in listed], [done.stdout[:11]])
        assert done.stdout.strip() not in json.dumps(listed)


@check
def a_key_has_name_rights_and_end() -> None:
    with Data() as d:
        d.good("users", "add", "alice")
        made = d.json("keys", "create", "--user", "alice", "--name", "laptop", "--rights", "read", "--expires", "90d")
        equal((made["name"], made["rights"], made["user_name"]), ("laptop", ["read"], "alice"))
        equal(round(made["expires_at"] - made["created_at"]), 90 * 86400)
        assert KEY.match(made["key"] + "\n")
        equal(d.json("keys", "create", "--user", "alice")["rights"], ["read", "run"])
        equal([k["name"] for k in d.json("keys", "list", "--user", "alice")["keys"]], ["key", "laptop"])
        equal(d.json("keys", "list", "--user", "root")["keys"], [])
        table = d.good("keys", "list").splitlines()
        equal(len(table), 3)
        assert re.match(r"^\S{26}  kr_\S{8}  alice +key +read,run +good ", table[1]), table[1]


@check
def a_key_is_revoked_by_id_or_prefix() -> None:
    with Data() as d:
        one, two = d.json("keys", "create"), d.json("keys", "create")
        d.good("keys", "revoke", one["id"])
        equal(d.json("keys", "revoke", two["prefix"])["id"], two["id"])
        assert all(k["revoked_at"] for k in d.json("keys", "list")["keys"])
        d.good("keys", "revoke", one["id"])  # again is no error
        contains(d.refused(127, "keys", "revoke", "nonesuch"), "no key has the id")
        contains(d.refused(127, "keys", "revoke", "kr_00000000"), "no good key begins like this")


@check
def users_are_made_changed_and_deleted() -> None:
    with Data() as d:
        made = d.json("users", "add", "alice", "--email", "alice@example.org", "--rights", "read,run,admin")
        equal((made["name"], made["email"], made["rights"], made["has_password"]),
              ("alice", "alice@example.org", ["read", "run", "admin"], False))
        contains(d.refused(2, "users", "add", "ALICE"), "already registered")
        contains(d.refused(2, "users", "add", "bob", "--email", "alice@example.org"), "email: already registered")
        equal(d.json("users", "rights", "alice", "read")["rights"], ["read"])
        assert d.json("users", "disable", "alice")["disabled_at"]
        equal(d.json("users", "enable", made["id"])["disabled_at"], None)
        equal([u["name"] for u in d.json("users", "list")["users"]], ["alice", "root"])
        contains(d.good("users", "list"), "alice@example.org")
        contains(d.refused(2, "users", "delete", "alice"), "--yes confirms it")
        d.good("users", "delete", "alice", "--yes")
        contains(d.refused(127, "users", "disable", "alice"), 'no user is called "alice"')


@check
def root_stays_as_it_is() -> None:
    with Data() as d:
        d.good("keys", "create")
        for words in (("disable", "root"), ("delete", "root", "-y"), ("rights", "root", "read")):
            contains(d.refused(126, "users", *words), "the local user root stays as it is")


@check
def passwords_come_from_stdin() -> None:
    with Data() as d:
        assert d.json("users", "add", "alice", "--password", stdin="correct horse\nnot this\n")["has_password"]
        contains(d.refused(2, "users", "passwd", "alice", stdin="short\n"), "fewer than 8 characters")
        contains(d.refused(2, "users", "passwd", "alice", stdin=""), "empty")
        contains(d.refused(2, "users", "passwd", "alice", stdin="x" * 1025), "more than 1024 bytes")
        contains(d.refused(2, "users", "passwd", "alice", stdin="nul\0nul\0nul"), "NUL")
        d.good("users", "passwd", "alice", stdin="another horse")  # no line end
        equal(d.json("users", "passwd", "alice", "--remove")["has_password"], False)


def typed(d: Data, lines: list, *args: str) -> tuple:
    """The command on a terminal of its own, lines typed one at a time: exit status, what the terminal showed."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(os.path.abspath(KRAIT), [KRAIT, *args, "--data", d.path])
    shown = b""
    for line in lines:
        prompts = shown.count(b": ")
        deadline = time.monotonic() + 30
        while shown.count(b": ") <= prompts and time.monotonic() < deadline:
            shown += os.read(fd, 1000)
        while termios.tcgetattr(fd)[3] & termios.ECHO:  # the prompt comes before the echo is off
            assert time.monotonic() < deadline, shown
            time.sleep(0.002)
        os.write(fd, line)
    try:
        while chunk := os.read(fd, 1000):
            shown += chunk
    except OSError:
        pass
    os.close(fd)
    return os.waitpid(pid, 0)[1], shown.decode()


@check
def passwords_are_typed_without_echo() -> None:
    with Data() as d:
        d.good("users", "add", "alice")
        status, shown = typed(d, [b"correct horse\n", b"correct horse\n"], "users", "passwd", "alice")
        equal(os.waitstatus_to_exitcode(status), 0, shown)
        contains(shown, "New password again")
        assert "horse" not in shown, shown
        status, shown = typed(d, [b"correct horse\n", b"other horse\n"], "users", "passwd", "alice")
        equal(os.waitstatus_to_exitcode(status), 2, shown)
        contains(shown, "not the same")
        status, shown = typed(d, [b"\x03"], "users", "passwd", "alice")
        equal(os.waitstatus_to_exitcode(status), -2, shown)


@check
def mistakes_are_one_line_and_change_nothing() -> None:
    with Data() as d:
        contains(d.refused(2, "keys"), "say what to do: create, list or revoke")
        contains(d.refused(2, "keys", "creat"), "did you mean create?")
        contains(d.refused(2, "keys", "list", "--name", "x"), "--name has no meaning for list")
        contains(d.refused(2, "keys", "revoke"), "ID is missing")
        contains(d.refused(2, "keys", "create", "x"), '"x" is too much')
        contains(d.refused(2, "users", "add", "alice", "--password=x"), "--password")
        assert not os.path.exists(d.path)
        contains(d.refused(127, "keys", "list"), d.path)  # nothing is made by looking
        assert not os.path.exists(d.path)
        contains(d.refused(127, "keys", "create", "--user", "nobody"), 'no user is called "nobody"')
        contains(d.refused(2, "keys", "create", "--expires", "soon"), "expires")
        contains(d.refused(2, "keys", "create", "--rights", "everything"), "none of read, run, admin")
        contains(d.refused(2, "keys", "create", "--name", "x" * 65), "name")
        equal(d.json("keys", "list")["keys"], [])


@check
def the_data_folder_is_that_of_serve() -> None:
    with Data() as d:
        d.good("keys", "create")
        equal(len(d.json("keys", "list", env={"KRAIT_DATA": d.path, "PORT": "no number"})["keys"]), 1)


@check
def help_tells_verbs_and_options() -> None:
    with Data() as d:
        for command, verb in (("keys", "revoke ID"), ("users", "rights NAME LIST")):
            for words in ((command, "--help"), (command, verb.split()[0], "--help")):
                text = subprocess.run([KRAIT, *words], capture_output=True, text=True, timeout=30, check=True).stdout
                contains(text, verb)
                contains(text, "--data DIR")
        assert not os.path.exists(d.path)


def reach(d: Data, s: Server, admin: str) -> None:
    equal(s.get("/api/v1/users/me", key=admin).json()["user"]["name"], "root")
    d.good("users", "add", "alice")
    made = d.json("keys", "create", "--user", "alice")
    equal(s.get("/api/v1/users/me", key=made["key"]).json()["user"]["name"], "alice")
    d.good("users", "disable", "alice")
    time.sleep(SERVER_FORGETS_S + 0.1)
    equal(s.get("/api/v1/users/me", key=made["key"]).status, 403)
    d.good("users", "enable", "alice")
    equal(s.get("/api/v1/users/me", key=made["key"]).status, 200)
    d.good("keys", "revoke", made["id"])
    time.sleep(SERVER_FORGETS_S + 0.1)
    equal(s.get("/api/v1/users/me", key=made["key"]).status, 401)
    rows = s.get("/api/v1/audit?limit=500", key=admin).json()["rows"]
    mine = [r["what"] for r in rows if r["address"] == "command line"][::-1]
    equal(mine, ["key.create", "user.create", "key.create", "user.disable", "user.enable", "key.revoke"])
    assert made["key"] not in s.log_text() and admin not in s.log_text()


@check
def changes_reach_a_running_server() -> None:
    with Data() as d:
        admin = d.good("keys", "create").strip()  # before there is a server
        with Server(args=["--require-auth"], data=d.top, validate=False) as s:
            reach(d, s, admin)


if __name__ == "__main__":
    main()
