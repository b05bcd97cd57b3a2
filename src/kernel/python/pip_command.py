"""What `pip` and `uv` are in a cell: they ask the server for a job and print how it goes.

Started as `pip`, `pip3`, `uv` (src/view/programs.c) or `python -m pip` (the file is linked into the
environment's site-packages as pip.py). /venv is read-only here and no index can be reached, so
installing and uninstalling are requests to the session's kernel (relay.py), which hands them to the
engine; what only looks (list, freeze, show) is done here, and all other commands are the system's
pip. Where there is no environment, every command is. Invariants: an option does what it does in pip
or is refused with the reason; no request is sent of which a part was left out.
"""
import os
import sys

VENV = "/venv"
ADDRESS = "/tmp/.krait-pip"
ASK_MAX = 40 << 10  # characters of a request
FILES_MAX = 16  # of -r, one in another
FILE_BYTES = 256 << 10
NOBODY_S = 30  # until the session's kernel answers
ANSWER_S = 2 * 3600  # the server's own limit comes far before
KICK_S = 0.1
VERSION = "23.0.1"  # whose options these are

INDEX = "the index is the server's: its administrator chooses it (pypi_index_url)"
PLACE = "packages go into the sandbox's /venv, which every session of it has"
SOURCE = "only packages of the index can be installed, by their names"
# Options of install and uninstall: what they mean. "": accepted, and nothing here to do; "=": the
# same, with a value; else the reason why they are refused.
OPTIONS = {
    "-q": "",
    "--quiet": "",
    "-v": "",
    "--verbose": "",
    "--no-cache-dir": "",
    "--no-cache": "",
    "--user": "",
    "--system": "",
    "--disable-pip-version-check": "",
    "--break-system-packages": "",
    "--no-input": "",
    "--no-color": "",
    "--isolated": "",
    "--prefer-binary": "",
    "--no-warn-script-location": "",
    "--no-warn-conflicts": "",
    "--no-python-version-warning": "",
    "--compile": "",
    "--no-compile": "",
    "--use-pep517": "",
    "--require-virtualenv": "",
    "--no-progress": "",
    "--progress-bar": "=",
    "--timeout": "=",
    "--default-timeout": "=",
    "--retries": "=",
    "--exists-action": "=",
    "--root-user-action": "=",
    "--upgrade-strategy": "=",
    "--only-binary": "=",
    "--cache-dir": "=",
    "--log": "=",
    "-i": INDEX,
    "--index-url": INDEX,
    "--extra-index-url": INDEX,
    "--index": INDEX,
    "--default-index": INDEX,
    "--no-index": INDEX,
    "-f": INDEX,
    "--find-links": INDEX,
    "--proxy": INDEX,
    "--cert": INDEX,
    "--client-cert": INDEX,
    "--trusted-host": INDEX,
    "-t": PLACE,
    "--target": PLACE,
    "--prefix": PLACE,
    "--root": PLACE,
    "--src": PLACE,
    "--python": PLACE,
    "-e": SOURCE,
    "--editable": SOURCE,
    "-c": "bounds go into the requirements themselves (name>=1,<2)",
    "--constraint": "bounds go into the requirements themselves (name>=1,<2)",
    "--pre": "name the version of a pre-release (name==2.0rc1)",
    "--no-deps": "what a package needs is installed with it",
    "--no-binary": "building from source is the sandbox's setting allow_build",
    "--no-build-isolation": "building from source is the sandbox's setting allow_build",
    "--force-reinstall": "what is installed is as it was published: uninstall it first to have it anew",
    "-I": "what is installed is as it was published: uninstall it first to have it anew",
    "--ignore-installed": "what is installed is as it was published: uninstall it first to have it anew",
    "--ignore-requires-python": "there is one Python, and a package must be made for it",
    "--dry-run": "it cannot be tried without doing it",
    "--report": "it cannot be tried without doing it",
}
UV_OPTIONS = {"--dev": "", "--frozen": "", "--no-sync": "", "--active": "", "--native-tls": ""}


class Refused(Exception):
    """The command is not carried out; the text says why."""

    def __init__(self, text, status=1):
        super().__init__(text)
        self.status = status


# ---- arguments ----------------------------------------------------------------------------------


class Request:
    """What install and uninstall are asked for."""

    def __init__(self, op):
        self.op, self.upgrade, self.yes = op, False, op == "install"
        self.quiet = 0
        self.names, self.files = [], []


def parse(op, words, more=None):
    """The Request of the words behind the command. Raises Refused."""
    request, rest = Request(op), list(words)
    options = dict(OPTIONS, **(more or {}))
    while rest:
        word = rest.pop(0)
        if word == "--":
            request.names += rest
            break
        if not word.startswith("-") or word == "-":
            request.names.append(word)
            continue
        name, equals, value = word.partition("=")
        if not word.startswith("--") and len(word) > 2:
            if set(word[1:]) <= set("qvUy"):  # -qU
                rest[:0] = ["-" + letter for letter in word[1:]]
                continue
            name, equals, value = word[:2], "=", word[2:]  # -rfile
        if name in ("-U", "--upgrade"):
            request.upgrade = True
        elif name in ("-y", "--yes"):
            request.yes = True
        elif name in ("-r", "--requirement", "--requirements"):
            if not equals and not rest:
                raise Refused("%s option requires 1 argument" % name, 2)
            request.files.append(value if equals else rest.pop(0))
        elif name not in options:
            raise Refused("no such option: %s" % name, 2)
        elif options[name] == "=":
            if not equals and not rest:
                raise Refused("%s option requires 1 argument" % name, 2)
            if not equals:
                rest.pop(0)
        elif options[name]:
            raise Refused("%s cannot be used here: %s" % (name, options[name]))
        else:
            request.quiet += name in ("-q", "--quiet")
    check(request)
    return request


def check(request):
    if not request.names and not request.files:
        verb = request.op
        raise Refused(
            'You must give at least one requirement to %s (see "pip help %s")' % (verb, verb)
        )
    for name in request.names:
        if "://" in name or name.startswith(("git+", "hg+", "svn+", "bzr+", "file:")):
            raise Refused("%s is an address: %s" % (name, SOURCE))
        path = name.split("[")[0]
        if path in (".", "..") or "/" in path or path.endswith((".whl", ".tar.gz", ".zip")):
            raise Refused("%s is a file or folder: %s" % (name, SOURCE))


def read_files(paths):
    """The text of requirements.txt files, with those that they name by -r in their place."""
    lines = []
    for path in paths:
        add_file(path, lines, [0])
    return "\n".join(lines) + "\n"


def add_file(path, lines, count):
    count[0] += 1
    if count[0] > FILES_MAX:
        raise Refused("more than %d requirements files" % FILES_MAX)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(FILE_BYTES + 1)
    except (OSError, UnicodeDecodeError) as exc:
        why = getattr(exc, "strerror", None) or "it is not UTF-8"
        number = getattr(exc, "errno", 0)
        raise Refused(
            "Could not open requirements file: [Errno %s] %s: %r" % (number, why, path)
        ) from None
    if len(text) > FILE_BYTES:
        raise Refused("%s is longer than %d KiB" % (path, FILE_BYTES >> 10))
    for line in text.splitlines():
        words = line.split()
        if words[:1] in (["-r"], ["--requirement"]) and len(words) == 2:
            add_file(os.path.join(os.path.dirname(path), words[1]), lines, count)
        else:
            lines.append(line)


# ---- the way to the server ----------------------------------------------------------------------


def session():
    """The pid of the session's process: of the cell's two eldest the one that is not its init."""
    for name in ["2"] + [one for one in os.listdir("/proc") if one.isdigit()]:
        try:
            with open("/proc/%s/stat" % name, encoding="latin-1") as file:
                parent = file.read().rpartition(")")[2].split()[1]
        except (OSError, IndexError):
            continue
        if parent == "0" and name != "1":
            return int(name)
    raise Refused("packages can only be installed from within a session")


class Link:
    """A request on its way. The session's kernel looks at it when it gets SIGURG, which is sent
    again and again while an answer is awaited: nothing runs there for that meanwhile.
    """

    def __init__(self):
        import signal
        import socket
        import time

        self.clock, self.pid, self.signal = time.monotonic, session(), signal.SIGURG
        self.socket = socket.socket(socket.AF_UNIX)
        self.rest = b""
        until = self.clock() + NOBODY_S
        while True:
            self.kick()
            try:
                self.socket.connect(ADDRESS)
                return
            except OSError:
                if self.clock() > until:
                    raise Refused(
                        "the session does not answer: it is busy in code that cannot be "
                        "interrupted, or has none to install into"
                    ) from None
            time.sleep(0.01)

    def kick(self):
        try:
            os.kill(self.pid, self.signal)
        except OSError:
            pass

    def close(self):
        self.socket.close()
        self.kick()

    def ask(self, request):
        import json

        try:
            self.socket.sendall(json.dumps(request).encode("ascii") + b"\n")
        except OSError:
            raise Refused("the session let go of the request") from None

    def answers(self):
        """Objects, the last of which has "end"."""
        import json

        until, answered = self.clock() + ANSWER_S, False
        self.kick()
        while self.clock() < until:
            self.socket.settimeout(KICK_S)
            try:
                part = self.socket.recv(1 << 16)
            except OSError as exc:
                if not isinstance(exc, TimeoutError) and type(exc).__name__ != "timeout":
                    part = b""
                else:
                    self.kick()
                    continue
            if not part:
                break
            *lines, self.rest = (self.rest + part).split(b"\n")
            for line in lines:
                answer = json.loads(line)
                yield answer
                if answer.get("end"):
                    return
        raise Refused("the server's answer was cut off")


def carry_out(request):
    """Sends it and prints what happens. The exit status."""
    ask = {"op": request.op, "upgrade": request.upgrade}
    if request.files:
        ask["file"] = read_files(request.files) + "\n".join(request.names) + "\n"
    else:
        ask["names"] = request.names
    if len(str(ask)) > ASK_MAX:
        raise Refused("the requirements are longer than %d KiB" % (ASK_MAX >> 10))
    link = Link()
    try:
        link.ask(ask)
        for answer in link.answers():
            lines = (answer.get("text") or answer.get("output") or "").splitlines(True)
            if not request.quiet:  # how it failed is said at the end, and not here
                say("".join(line for line in lines if not line.startswith("ERROR: ")))
    finally:
        link.close()
    return finish(answer)


def finish(answer):
    if not answer.get("ok"):
        sys.stdout.flush()
        lines = (answer.get("error") or "it failed").split("\n")
        say("".join("ERROR: %s\n" % line for line in lines), sys.stderr)
        return 1
    for note in answer.get("notes") or ():
        say("WARNING: %s\n" % note, sys.stderr)
    if answer.get("restart"):
        say(
            "NOTE: a running session may have loaded another version of this: restart the session "
            "to use the new one.\n",
            sys.stderr,
        )
    return 0


def say(text, to=None):
    to = to or sys.stdout
    to.write(text)
    to.flush()


# ---- what is there ------------------------------------------------------------------------------


def canonical(name):
    import re

    return re.sub(r"[-_.]+", "-", name).lower()


def distributions(local=False):
    """canonical name -> distribution, the first of each name on sys.path."""
    from importlib import metadata

    found = {}
    path = [one for one in sys.path if one.startswith(VENV)] if local else sys.path
    for one in metadata.distributions(path=path):
        name = one.metadata["Name"]
        if name:
            found.setdefault(canonical(name), one)
    return found


def uninstall(request):
    if request.files:
        text = read_files(request.files)
        lines = [line.split("#")[0].strip() for line in text.splitlines()]
        request.names += [line for line in lines if line]
        request.files = []
    ours, every = distributions(True), distributions()
    kept = []
    for name in request.names:
        key = canonical(name)
        if key in ours:
            kept.append(name)
        elif key in every:
            one = every[key]
            place = str(one.locate_file(""))
            say(
                "Found existing installation: %s %s\nNot uninstalling %s at %s, outside environment "
                "%s\nCan't uninstall '%s'. No files were found to uninstall.\n"
                % (one.metadata["Name"], one.version, key, place, VENV, one.metadata["Name"])
            )
        else:
            say("WARNING: Skipping %s as it is not installed.\n" % name, sys.stderr)
    request.names = kept
    if not kept:
        return 0
    if not request.yes:
        if not sys.stdin.isatty():
            raise Refused("nothing can be asked here: add -y to uninstall %s" % ", ".join(kept))
        say("Would remove: %s\nProceed (Y/n)? " % ", ".join(kept))
        if sys.stdin.readline().strip().lower() not in ("", "y", "yes"):
            return 0
    return carry_out(request)


def look(words):
    """Options of list and freeze as a dict."""
    found, rest = {}, list(words)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name in ("--format", "--exclude"):
            value = value if equals else (rest.pop(0) if rest else "")
            found.setdefault(name, []).append(value)
        elif name in ("-l", "--local", "--all", "-q", "--quiet", "--disable-pip-version-check"):
            found[name] = True
        else:
            return None  # the system's pip knows more of it
    return found


def list_packages(words, verb):
    how = look(words)
    form = (how or {}).get("--format", ["freeze" if verb == "freeze" else "columns"])[-1]
    if how is None or form not in ("columns", "freeze", "json"):
        return system_pip([verb] + words)
    left_out = {canonical(name) for name in how.get("--exclude", ())}
    every = distributions("--local" in how or "-l" in how)
    rows = [(one.metadata["Name"], one.version) for key, one in every.items() if key not in left_out]
    rows.sort(key=lambda row: row[0].lower())
    if form == "json":
        import json

        say(json.dumps([{"name": name, "version": version} for name, version in rows]) + "\n")
    elif form == "freeze":
        say("".join("%s==%s\n" % row for row in rows))
    elif rows:
        wide = max(max(len(row[0]) for row in rows), 7)
        last = max(max(len(row[1]) for row in rows), 7)
        say("%-*s %s\n%s %s\n" % (wide, "Package", "Version", "-" * wide, "-" * last))
        say("".join("%-*s %s\n" % (wide, row[0], row[1]) for row in rows))
    return 0


def show(words):
    names = [word for word in words if not word.startswith("-")]
    if len(names) != len(words):
        return system_pip(["show"] + words)
    if not names:
        raise Refused("Please provide a package name or names.")
    every, texts, missing = distributions(), [], []
    for name in names:
        one = every.get(canonical(name))
        if one is None:
            missing.append(name)
            continue
        needs = sorted({requirement_name(text) for text in one.requires or () if is_plain(text)})
        users = sorted(
            other.metadata["Name"]
            for other in every.values()
            if canonical(name)
            in {canonical(requirement_name(text)) for text in other.requires or () if is_plain(text)}
        )
        rows = [("Name", one.metadata["Name"]), ("Version", one.version)]
        for field in ("Summary", "Home-page", "Author", "Author-email", "License"):
            rows.append((field, one.metadata[field] or ""))
        rows += [("Location", str(one.locate_file("")).rstrip("/")), ("Requires", ", ".join(needs))]
        rows.append(("Required-by", ", ".join(users)))
        texts.append("".join("%s: %s\n" % row for row in rows))
    if missing:
        say("WARNING: Package(s) not found: %s\n" % ", ".join(missing), sys.stderr)
    say("---\n".join(texts))
    return 0 if texts else 1


def requirement_name(text):
    import re

    return re.match(r"[A-Za-z0-9][\w.-]*", text).group()


def is_plain(text):
    import re

    return bool(re.match(r"[A-Za-z0-9]", text)) and "extra ==" not in text.partition(";")[2]


# ---- commands -----------------------------------------------------------------------------------


def system_pip(words):
    """The pip of the system, in this process's place."""
    for folder in sys.path:
        if not folder.startswith(VENV) and os.path.isfile(os.path.join(folder, "pip/__main__.py")):
            say("")
            os.execv(sys.executable, [sys.executable, os.path.join(folder, "pip")] + words)
    raise Refused("the command %s needs pip itself, which is not installed here" % words[0])


def version(_words=()):
    where = "%s/lib/python%d.%d/site-packages/pip" % ((VENV,) + sys.version_info[:2])
    say("pip %s from %s (python %d.%d)\n" % ((VERSION, where) + sys.version_info[:2]))
    return 0


def install(words, more=None):
    request = parse("install", words, more)
    own = [name for name in request.names if canonical(name).split("[")[0] in ("pip", "uv")]
    for name in own:  # what this is, and no index has a newer one
        say("Requirement already satisfied: %s\n" % name)
        request.names.remove(name)
    return carry_out(request) if request.names or request.files else 0


def install_missing(miss):
    """What an import lacks, in the words of a hint; the server knows the package. Silent unless it
    is installed.
    """
    link = Link()
    try:
        link.ask({"op": "auto", "names": [miss]})
        for answer in link.answers():
            pass
    finally:
        link.close()
    if not answer.get("ok"):
        return 1
    done = ["%s %s" % (one.get("name"), one.get("version")) for one in answer.get("installed") or ()]
    say("auto_install: installed %s; the code runs again\n" % ", ".join(done), sys.stderr)
    return 0 if done else 1


def pip(words):
    while words and words[0].startswith("-"):
        name = words[0].partition("=")[0]
        if name in ("-V", "--version"):
            return version()
        if name in ("-h", "--help"):
            return system_pip(words)
        meaning = OPTIONS.get(name)
        if meaning is None:
            raise Refused("no such option: %s" % name, 2)
        if meaning not in ("", "="):
            raise Refused("%s cannot be used here: %s" % (name, meaning))
        words = words[2:] if meaning == "=" and "=" not in words[0] else words[1:]
    verb, rest = (words[0], words[1:]) if words else ("--help", [])
    if "-h" in rest or "--help" in rest:
        return system_pip([verb] + rest)
    if verb == "install":
        return install(rest)
    if verb == "krait-auto" and len(rest) == 1:  # of commands.py
        return install_missing(rest[0])
    if verb == "uninstall":
        return uninstall(parse("uninstall", rest))
    if verb in ("list", "freeze"):
        return list_packages(rest, verb)
    if verb == "show":
        return show(rest)
    return system_pip([verb] + rest)


def real_uv(words):
    own = os.path.dirname(os.path.abspath(sys.argv[1] if sys.argv[1:2] else "/krait/bin/uv"))
    for folder in os.environ.get("PATH", "").split(":"):
        path = os.path.join(folder, "uv")
        if folder not in ("/krait/bin", own) and os.access(path, os.X_OK):
            os.execv(path, [path] + words)
    say("uv: command not found\n", sys.stderr)
    return 127


def uv(words):
    rest = [word for word in words if word not in ("-q", "--quiet", "--offline", "--no-cache")]
    if rest[:1] == ["add"]:
        return install(rest[1:], UV_OPTIONS)
    if rest[:1] == ["remove"]:
        return uninstall(parse("uninstall", rest[1:] + ["-y"], UV_OPTIONS))
    if rest[:2] == ["pip", "install"]:
        return install(rest[2:], UV_OPTIONS)
    if rest[:2] == ["pip", "uninstall"]:
        return uninstall(parse("uninstall", rest[2:] + ["-y"], UV_OPTIONS))
    if rest[:1] == ["pip"] and rest[1:2] in (["list"], ["freeze"], ["show"]):
        return pip(rest[1:])
    return real_uv(words)


def main(words=None, program="pip"):
    """What the command does. Its exit status; `pip.main([...])` of old is this, too."""
    words = list(sys.argv[1:] if words is None else words)
    try:
        if not os.path.exists(VENV + "/pyvenv.cfg"):
            return real_uv(words) if program == "uv" else system_pip(words)
        return uv(words) if program == "uv" else pip(words)
    except Refused as exc:
        say("ERROR: %s\n" % exc, sys.stderr)
        return exc.status
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:
        say("ERROR: Operation cancelled by user\n", sys.stderr)
        return 1


def as_package():
    """`import pip` finds its version, and the entries that programs call."""
    from types import ModuleType

    module = sys.modules[__name__]
    module.__version__ = VERSION
    for name in ("pip._internal", "pip._internal.cli", "pip._internal.cli.main"):
        made = ModuleType(name)
        made.main, made.__path__ = main, []
        sys.modules[name] = made
    module.__path__ = []


if __name__ == "pip":
    as_package()
elif __name__ == "__main__":
    BY_NAME = os.path.basename(__file__) == "pip_command.py"
    CALLED = os.path.basename(sys.argv[1]) if BY_NAME and sys.argv[1:] else "pip"
    sys.exit(main(sys.argv[2:] if BY_NAME else sys.argv[1:], "uv" if CALLED == "uv" else "pip"))
