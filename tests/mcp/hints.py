#!/usr/bin/python3
"""What a run is told to do next: in the text of MCP, its structure, and REST alike; and that there is nothing to tell
otherwise."""
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
from check import check, contains, equal, main  # noqa: E402
from executing import text  # noqa: E402
from krait_server import Server  # noqa: E402
from mcp import Http  # noqa: E402

LOOPBACK = 'a sandbox made with network="loopback" has 127.0.0.1 of its own'
OUTSIDE = "import urllib.request as u\nu.urlopen('http://example.org/')"
NO_PACKAGES = "packages cannot be installed"
FILL = """
try:
    with open(%r, "wb") as file:
        while True:
            file.write(b"0" * 500_000)
except OSError as e:
    print("caught", e.errno)
"""


def hint_of(c, s: Server, tool: str, **args):
    """The hint, which every voice must have alike; None."""
    result = c.tool(tool, args, timeout=150)
    made = result["structuredContent"]
    shown = [line for line in text(result).splitlines() if line.startswith("[hint] ")]
    equal([line[len("[hint] "):] for line in shown], [made["hint"]] if made["hint"] else [], text(result)[-400:])
    log = s.get("/api/v1/runs/%s/events" % made["run_id"]).body.decode()
    equal(json.loads(log.splitlines()[-1])["hint"], made["hint"], "REST")
    again = c.tool("read_run", run_id=made["run_id"])["structuredContent"]
    equal(again["hint"], made["hint"], "read_run")
    return made["hint"]


def python(c, s, code: str, **args):
    return hint_of(c, s, "execute_python", code=code, **args)


def shell(c, s, command: str, **args):
    return hint_of(c, s, "execute_terminal_command", command=command, **args)


def connect(s: Server):
    return Http(s.port, path="/mcp?structured=1", rev="2025-06-18")


def sandbox(s: Server, name: str, **settings) -> str:
    made = s.post("/api/v1/sandboxes", {"name": name, **settings})
    assert made.status == 201, made.text
    return name


@check
def no_network_names_what_the_caller_may_choose():
    with connect(server) as c:
        for got in (python(c, server, OUTSIDE), shell(c, server, "curl -sS http://example.org/"),
                    shell(c, server, "git clone http://example.org/a"), python(c, server, "!curl -sS http://a.example"),
                    python(c, server, "import socket\nsocket.create_connection(('127.0.0.1', 1))")):
            contains(got or "", "no network: nothing outside can be reached")
            contains(got, LOOPBACK)
        box = sandbox(server, "looped", network="loopback")
        got = python(c, server, OUTSIDE, sandbox_id=box)
        contains(got or "", "no network but 127.0.0.1")
        assert "network=" not in got, got
        for got in (python(c, server, "import socket\nsocket.create_connection(('127.0.0.1', 1))", sandbox_id=box),
                    shell(c, server, "curl -sS http://127.0.0.1:1/", sandbox_id=box)):
            contains(got or "", "nothing listens there")


@check
def no_network_offers_nothing_that_the_server_refuses():
    with Server(args=["--max-network", "none"]) as s, connect(s) as c:
        equal(s.post("/api/v1/sandboxes", {"network": "loopback"}).status, 400, "control")
        got = python(c, s, OUTSIDE)
        contains(got or "", "max_network allows none")
        assert "loopback" not in got, got


@check
def packages():
    with Server(args=["--packages=false"]) as s, connect(s) as c:
        for command in ("pip install surely-not-there", "python3 -m pip install surely-not-there",
                        "pip install surely-not-there 2>&1 | tail -1", "python3 -c 'import surely_not_there'"):
            contains(shell(c, s, command) or "", NO_PACKAGES, command)
        for code in ("!pip install surely-not-there", "%pip install surely-not-there",
                     "import subprocess, sys\n"
                     "subprocess.check_call([sys.executable, '-m', 'pip', 'install', 'surely-not-there'])"):
            contains(python(c, s, code) or "", NO_PACKAGES, code)
        equal(shell(c, s, "pip --version; pip list | head -3"), None)
        equal(python(c, s, "%pip list"), None)
        contains(python(c, s, "import surely_not_there") or "", "`pip list` names those that are there")
        contains(python(c, s, "raise ModuleNotFoundError('x', name='cv2.aruco')") or "",
                 "module cv2 (package opencv-python-headless) is not installed, and packages cannot be installed here")


@check
def packages_that_can_be_installed():
    """By an index that is not there: nothing is fetched for a hint."""
    with Server(args=["--pypi-index-url", "http://127.0.0.1:9/simple/", "--blocked-packages", "torch,umap-learn"]) as s, \
            connect(s) as c:
        for module, package in (("cv2.aruco", "opencv-python-headless"), ("surely_not", "surely-not")):
            got = python(c, s, "raise ModuleNotFoundError('x', name=%r)" % module) or ""
            contains(got, 'install_package(packages="%s")' % package)
        contains(shell(c, s, "python3 -c 'import surely_not_there.part'") or "",
                 'install_package(packages="surely-not-there")')
        contains(shell(c, s, "conda install x") or "", 'packages are installed by install_package(packages="NAME")')
        got = python(c, s, "import surely_not", sandbox_id=sandbox(s, "named")) or ""
        contains(got, 'install_package(packages="surely-not", sandbox_id=…)')
        for where in ("default", "named"):
            told = s.run("import surely_not", **({} if where == "default" else {"sandbox": where}))["hint"]
            place = "default" if where == "default" else "{sandbox_id}"
            contains(told, 'POST /api/v1/sandboxes/%s/packages {"packages":["surely-not"]}' % place)
        for module in ("torch", "umap"):
            got = python(c, s, "raise ModuleNotFoundError('x', name=%r)" % module) or ""
            contains(got, "this server does not allow it")
            assert "install_package" not in got, got
        equal(python(c, s, "import jsson"), "there is no module jsson; did you mean json?")
        contains(python(c, s, "raise ModuleNotFoundError('x', name='reqeusts_of_mine')") or "", "is not installed")


@check
def modules():
    with connect(server) as c:
        equal(python(c, server, "import jsson"), "there is no module jsson; did you mean json?")
        equal(python(c, server, "import scikit_learn"), "the package scikit-learn is imported as sklearn")
        contains(python(c, server, "import urllib2") or "", "its place has urllib.request")
        contains(shell(c, server, "python3 -c 'import surely_not_there.part'") or "", "module surely_not_there is not")
        equal(python(c, server, "import os.nothing"), None, "a part of what is there")
        equal(python(c, server, "raise ModuleNotFoundError('install my thing first')"), None, "the user's own words")
        equal(python(c, server, "import os\nos.makedirs('lib')\nopen('lib/own_tools.py', 'w').close()\nimport own_tools"),
              "own_tools.py lies in lib/: `import lib.own_tools`, or put 'lib' into sys.path")
        equal(python(c, server, "open('OwnThings.py', 'w').close()\nimport ownthings"),
              "there is no module ownthings; did you mean OwnThings?")
        equal(python(c, server, "try:\n    import surely_not_there\nexcept ImportError:\n    pass"), None)


@check
def a_full_tmp_that_was_survived():
    box = sandbox(server, "tmp", limits={"disk": "64M"})
    with connect(server) as c:
        contains(python(c, server, FILL % "/tmp/x", sandbox_id=box) or "", "/tmp is nearly full")
        contains(python(c, server, "1", sandbox_id=box) or "", "/tmp is nearly full", "a short run too, from then on")
        equal(python(c, server, "import os, time\nos.unlink('/tmp/x')\ntime.sleep(0.1)", sandbox_id=box), None)
        equal(python(c, server, "1", sandbox_id=box), None)


@check
def a_full_workspace_that_was_survived():
    box = sandbox(server, "files", limits={"disk": "64M", "file_size": "62M"})
    with connect(server) as c:
        got = python(c, server, FILL % "/workspace/x", sandbox_id=box) or ""
        contains(got, "/workspace is nearly full: its files add up to")
        contains(got, "its disk limit is 64 MiB")
        contains(python(c, server, "1", sandbox_id=box) or "", "/workspace is nearly full")
        equal(python(c, server, "import os\nos.unlink('/workspace/x')", sandbox_id=box), None)


@check
def files_past_the_limit_are_told_where_the_run_went_on():
    """Where krait counts, a run is over before it is looked at; where a filesystem refuses, a limit is lowered."""
    write = "open('/workspace/x', 'wb').write(bytes(70 << 20)); 'went on'"
    told = "the files in /workspace add up to 70.0 MiB, past its disk limit of 64 MiB: delete some"
    with Server(args=["--shelf", "folder"]) as s, connect(s) as c:
        box = sandbox(s, "counted", limits={"disk": "64M", "file_size": "100M"})
        python(c, s, "1", sandbox_id=box)  # its start is not what is measured
        contains(python(c, s, write, sandbox_id=box) or "", told)
        contains(python(c, s, "1", sandbox_id=box) or "", told, "and from then on")
        equal(python(c, s, "import os\nos.unlink('/workspace/x')", sandbox_id=box), None)
    with connect(server) as c:
        box = sandbox(server, "lowered", limits={"disk": "128M", "file_size": "100M"})
        equal(python(c, server, write, sandbox_id=box), None, "control")
        assert server.request("PATCH", "/api/v1/sandboxes/" + box, {"limits": {"disk": "64M"}}).status == 200
        contains(python(c, server, "1", sandbox_id=box, session_id="later") or "", told)


@check
def a_memory_error_that_was_survived():
    box = sandbox(server, "memory", limits={"memory": "300M"})
    keep = "kept = []\ntry:\n    while True: kept.append(bytearray(1 << 20))\nexcept MemoryError: print('caught')"
    with connect(server) as c:
        contains(python(c, server, keep, sandbox_id=box) or "", "memory is nearly full")
        equal(python(c, server, "del kept\nimport time\ntime.sleep(0.1)", sandbox_id=box), None)
        huge = "try: bytearray(1 << 50)\nexcept MemoryError: import time; time.sleep(0.1)"
        equal(python(c, server, huge, sandbox_id=box), None, "there is room for all else")


@check
def words_of_a_shell_count_only_where_it_failed():
    with connect(server) as c:
        contains(shell(c, server, "echo 'Could not resolve host' >&2; false") or "", "no network")
        equal(shell(c, server, "echo 'Could not resolve host' >&2"), None)


@check
def nothing_to_tell():
    with connect(server) as c:
        for code in ("1", "1/0", "raise SystemExit(3)", "import time\ntime.sleep(0.1)", "open('a', 'w').write('x')"):
            equal(python(c, server, code), None, code)
        for command in ("true", "exit 3", "echo words >&2; false"):
            equal(shell(c, server, command), None, command)


with Server() as server:
    main()
