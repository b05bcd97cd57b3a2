#!/usr/bin/python3
"""Settings of `krait serve` through `krait dump settings`: where they come from, what is refused, the example files."""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal, main, skip
from drive import KRAIT

OTHER = 12345  # a uid that no user has
LINE = re.compile(r"^([a-z_]+) = (.*)  # (.*)$")


def dump(table: str, *args: str, env: dict = {}, cwd: str = "/", user: int = -1) -> subprocess.CompletedProcess:
    how = {"user": user, "group": user, "extra_groups": []} if user >= 0 else {}
    base = {"PATH": "/usr/bin:/bin", "HOME": "/home/me"}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
        if name in os.environ:
            base[name] = os.environ[name]
    try:
        return subprocess.run([KRAIT, "dump", table, *args], env={**base, **env}, cwd=cwd, text=True, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, **how)
    except PermissionError:
        if user < 0:
            raise
        return skip("another user cannot reach %s" % KRAIT)


def settings(*args: str, **how) -> dict:
    """section.key -> (value as TOML, origin); "" has the lines above the sections."""
    done = dump("settings", *args, **how)
    equal((done.returncode, done.stderr), (0, ""))
    found: dict = {"": []}
    section = ""
    for line in done.stdout.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif not section and line:
            found[""].append(line[2:])
        elif match := LINE.match(line):
            found[section + "." + match.group(1)] = match.group(2, 3)
    return found


def refused(*args: str, **how) -> str:
    done = dump("settings", *args, **how)
    equal((done.returncode, done.stdout), (2, ""))
    equal(done.stderr.count("\n"), 1, done.stderr)
    assert done.stderr.startswith("krait dump settings: "), done.stderr
    return done.stderr


class Folder:
    """A folder with these files; use as a context."""

    def __init__(self, mode: int = 0o600, **files: str) -> None:
        self.temporary = tempfile.TemporaryDirectory(prefix="krait-config-")
        os.chmod(self.temporary.name, 0o755)
        self.path = Path(self.temporary.name)
        for name, text in files.items():
            self.put({"env": ".env", "toml": "krait.toml"}[name], text, mode)

    def put(self, name: str, text: str, mode: int = 0o600) -> str:
        path = self.path / name
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    def __enter__(self) -> "Folder":
        return self

    def __exit__(self, *exc) -> None:
        self.temporary.cleanup()


def shown_as_config(text: str) -> str:
    """The settings without what does not parse: the redacted key and comments."""
    return "\n".join(line for line in text.splitlines() if not line.startswith(("#", "api_key =")))


@check
def defaults():
    got = settings()
    equal(got[""], ["listens on 127.0.0.1:8642, dialect krait"])
    equal(got["server.port"], ("8642", "default"))
    equal(got["limits.timeout"], ('"45s"', "default"))
    equal(got["limits.max_timeout"], ('"1h"', "default"))


@check
def order_of_places():
    with Folder(env="PORT=3\n", toml="[server]\nport = 4\n") as folder:
        here = str(folder.path)
        equal(settings("--port", "1", env={"PORT": "2"}, cwd=here)["server.port"], ("1", "--port (command line)"))
        equal(settings(env={"KRAIT_PORT": "2"}, cwd=here)["server.port"], ("2", "KRAIT_PORT (environment)"))
        equal(settings(cwd=here)["server.port"], ("3", "PORT (.env:1)"))
        (folder.path / ".env").unlink()
        equal(settings(cwd=here)["server.port"], ("4", "server.port (krait.toml:2)"))
        equal(settings("--no-files", cwd=here)["server.port"], ("8642", "default"))
        other = folder.put("other.toml", "[server]\nport = 5\n")
        equal(settings("--config", "other.toml", cwd=here)["server.port"], ("5", "server.port (%s:2)" % other))


@check
def unknown_keys():
    with Folder(toml="# x\n[server]\nprot = 1\n") as folder:
        contains(refused(cwd=str(folder.path)), "krait.toml:3: unknown key 'prot', did you mean 'port'?")
    with Folder(env="MAX_KERNLES=1\n") as folder:
        contains(refused(cwd=str(folder.path)), ".env:1: unknown name 'MAX_KERNLES', did you mean 'MAX_KERNELS'?")
    contains(refused(env={"KRAIT_PROT": "1"}),
             "KRAIT_PROT (environment): no setting is called so, did you mean 'KRAIT_PORT'?")
    contains(refused("--prot=1"), "did you mean --port?")


@check
def files_of_others():
    if os.geteuid() != 0:
        skip("needs root: a file of another user")
    with Folder(toml="[server]\nport = 4\n") as folder:
        here, file = str(folder.path), folder.path / "krait.toml"
        os.chown(file, OTHER, OTHER)
        got = settings(cwd=here)
        equal(got["server.port"], ("8642", "default"))
        contains(got[""][1], "krait.toml in the current folder does not count: it belongs to another user")
        # it counts for its owner, and root's counts for every user
        equal(settings(cwd=here, user=OTHER)["server.port"][0], "4")
        os.chown(file, 0, 0)
        file.chmod(0o644)
        equal(settings(cwd=here, user=OTHER)["server.port"][0], "4")
        # what root may read and others may not does not stop them
        file.chmod(0o600)
        got = settings(cwd=here, user=OTHER)
        equal(got["server.port"][0], "8642")
        contains(got[""][1], "it cannot be opened")


@check
def files_others_can_write():
    for mode in (0o620, 0o602, 0o666):
        with Folder(mode=mode, toml="[server]\nport = 4\n", env="API_KEY=x\n") as folder:
            got = settings(cwd=str(folder.path))
            equal((got["server.port"][0], "auth.api_key" in got), ("8642", False))
            equal(len([line for line in got[""] if "others can write it" in line]), 2, str(got[""]))
    with Folder() as folder:
        path = folder.put("x.toml", "[server]\nport = 4\n", 0o666)
        contains(refused("--config", path), "can be written by every user")


@check
def a_fifo_or_a_link_does_not_count():
    with Folder() as folder:
        os.mkfifo(folder.path / "krait.toml", 0o600)
        os.symlink("/etc/passwd", folder.path / ".env")
        got = settings(cwd=str(folder.path))
        equal(sorted(line.rpartition(": ")[2].partition(";")[0] for line in got[""][1:]),
              ["it is a symbolic link", "it is not a plain file"])


@check
def other_commands_read_no_files():
    with Folder(toml="nonsense", env="nonsense") as folder:
        done = subprocess.run([KRAIT, "run", "-c", "print(1)"], cwd=folder.path, stdin=subprocess.DEVNULL, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        equal((done.returncode, done.stdout, done.stderr), (0, b"1\n", b""))


@check
def data_folder_of_a_user():
    if os.geteuid() != 0:
        skip("needs root: another user")
    equal(settings()["data.dir"][0], '"/var/lib/krait"')
    equal(settings(user=OTHER)["data.dir"][0], '"/home/me/.local/state/krait"')
    equal(settings(user=OTHER, env={"XDG_STATE_HOME": "/s"})["data.dir"][0], '"/s/krait"')
    contains(dump("settings", user=OTHER, env={"HOME": ""}).stderr, "--data: you have no home folder")


@check
def secrets_are_redacted():
    key = "topsecret-0123456789"
    done = dump("settings", "--host", "0.0.0.0", env={"API_KEY": key})
    equal(done.returncode, 0)
    contains(done.stdout, 'api_key = "…"  # API_KEY (environment)')
    assert key not in done.stdout + done.stderr
    for bad in (key + " x", key + "\n"):
        assert "topsecret" not in refused(env={"API_KEY": bad})


@check
def exposed_without_a_key():
    contains(refused("--host", "0.0.0.0"), "--host (command line): others can reach 0.0.0.0, and no key is asked for")
    got = settings("--dialect", "sandbox-mcp")
    equal(got[""][0], "listens on 127.0.0.1:16010, dialect sandbox-mcp")
    contains(got[""][1], "listens on 0.0.0.0 by default, which needs a key")
    equal(settings("--dialect", "sandbox-mcp", "--api-key", "k")[""][0],
          "listens on 0.0.0.0:16010, dialect sandbox-mcp")
    equal(settings("--host", "0.0.0.0", "--allow-anonymous")[""][0], "listens on 0.0.0.0:8642, dialect krait")


@check
def one_process_for_all_five():
    got = settings("--listen", "krait,sandbox-mcp,python-sandbox,sandbox-service,python-executor,mcp-sandbox")
    equal([line.split()[2].split(":")[1] for line in got[""] if line.startswith("listens")],
          ["8642,", "16010,", "9000,", "8001,", "8000,", "8181,"])


@check
def a_documents_env_file_loads():
    with Folder(env="HOST=127.0.0.1\nPORT=16010\nDEBUG=false\nAPI_KEY=\nMAX_KERNELS=10\nKERNEL_TIMEOUT=300\n"
                    "MAX_EXECUTION_TIME=30\nMAX_MEMORY_MB=512\nALLOWED_HOSTS=*\nLOG_LEVEL=INFO\n") as folder:
        got = settings(cwd=str(folder.path))
        equal((got["server.port"][0], got["limits.memory"][0], got["http.allowed_hosts"][0]),
              ("16010", '"512M"', '["*"]'))
        equal(got["limits.timeout"], ('"30s"', "follows max_timeout"))


@check
def example_files_load_as_they_are():
    with Folder(env=dump("env-example").stdout, toml=dump("toml-example").stdout) as folder:
        equal(settings(cwd=str(folder.path)), settings())


def uncommented(text: str, pattern: str) -> str:
    """With every setting switched on but three: there is one key or another, the policy open has no list, and a policy
    file stands in its place."""
    left = re.compile("api_key_file|allowed_imports|policy_file|#file = ", re.I)
    lines = [line[1:] if re.match(pattern, line) and not left.search(line) else line for line in text.splitlines()]
    return "\n".join(lines) + "\n"


@check
def example_files_load_with_everything_switched_on():
    for name, table, pattern in (("env", "env-example", r"#KRAIT_"), ("toml", "toml-example", r"#[a-z_]+ = ")):
        text = uncommented(dump(table).stdout, pattern)
        with Folder(**{name: text}) as folder:
            got = settings(cwd=str(folder.path))
            given = [key for key in got if key and "default" not in got[key][1]]
            assert len(given) > 60 and len(given) == len(re.findall("^%s" % pattern[1:], text, re.M)), (
                name, len(given))


@check
def what_is_shown_can_be_read():
    args = ("--listen", "[::1]:80,127.0.0.1:81=mcp-sandbox", "--mounts", 'a=/x "y",b=z', "--cpu", "0.5",
            "--max-data", "1536M", "--allowed-hosts", "a.org", "--log-dir", "/tmp/ä\\b")
    first = dump("settings", *args)
    equal((first.returncode, first.stderr), (0, ""))
    with Folder(toml=shown_as_config(first.stdout)) as folder:
        second = dump("settings", cwd=str(folder.path))
        equal((second.returncode, second.stderr), (0, ""))
        values = [[LINE.sub(r"\1 = \2", line) for line in text.splitlines() if not line.startswith("#")]
                  for text in (first.stdout, second.stdout)]
        equal(values[1], values[0])


@check
def help_and_usage():
    done = dump("settings", "--help")
    equal((done.returncode, done.stderr), (0, ""))
    assert done.stdout.startswith("Usage: krait serve [options]\n")
    flags = set(re.findall(r"^  --([a-z-]+)", done.stdout, re.M))
    documented = set(re.findall(r"`--([a-z-]+)",
                                dump("config").stdout.split("## krait serve")[1].split("### Dialects")[0]))
    equal(documented - flags, {"max-kernels", "kernel-timeout", "max-execution-time"})
    equal(flags - documented, set())
    assert all(len(line) <= 101 for line in done.stdout.splitlines())
    equal(dump("config", "x").returncode, 2)
    contains(dump("confg").stderr, "did you mean config?")


if __name__ == "__main__":
    main()
