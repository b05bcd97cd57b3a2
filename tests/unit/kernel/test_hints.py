#!/usr/bin/python3
"""The one line after a failure that can be helped, and that there is none after others."""
import subprocess

from fake_krait import PYTHON, SCRATCH, Zygote
from check import check, contains, equal, main, skip

zygote = Zygote()


def hint(code):
    with zygote.session() as session:
        return session.run(code, timeout=120)["hint"]


def need(module):
    if (
        subprocess.run(
            [PYTHON, "-c", "import " + module], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ).returncode
        != 0
    ):
        skip("%s is not installed for %s" % (module, PYTHON))


# What a cell without a network does to names.
OFFLINE = "import socket\ndef no(*a, **k): raise socket.gaierror(-3, 'Temporary failure in name resolution')\n"


@check
def no_network():
    for code in (
        "import urllib.request as u\nsocket.getaddrinfo = no\nu.urlopen('http://example.org/')",
        "socket.getaddrinfo = no\nsocket.create_connection(('example.org', 80))",
        "raise OSError(101, 'Network is unreachable')",
        "import http.client\nsocket.getaddrinfo = no\nhttp.client.HTTPConnection('example.org').request('GET', '/')",
        "import asyncio\nsocket.getaddrinfo = no\nawait asyncio.open_connection('example.org', 80)",
    ):
        equal(hint(OFFLINE + code), "network", code)


@check
def refused_socket():
    code = (
        "import types, socket, sys\ncode = compile('def make():\\n"
        "    raise PermissionError(1, \"Operation not permitted\")', '/usr/lib/python3/socket.py', 'exec')\n"
        "names = {}\nexec(code, names)\nnames['make']()"
    )
    equal(hint(code), "network")


@check
def refused_socket_file():
    code = (
        "import asyncio, socket\nclass Refused(socket.socket):\n    def bind(self, at): raise PermissionError(13, 'x')\n"
        "socket.socket = Refused\nawait asyncio.start_unix_server(print, '/workspace/s')"
    )
    contains(hint(code) or "", "make it in /tmp")
    equal(hint("raise PermissionError(13, 'x')"), None)


@check
def no_network_in_libraries():
    for module, call in (
        ("requests", "requests.get('http://example.org')"),
        ("httpx", "httpx.get('http://example.org')"),
        ("urllib3", "urllib3.PoolManager(retries=False).request('GET', 'http://example.org')"),
    ):
        need(module)
        equal(
            hint(OFFLINE + "import %s\nsocket.getaddrinfo = no\n%s" % (module, call)),
            "network",
            module,
        )


@check
def errors_of_a_reachable_server():
    equal(hint("raise ConnectionRefusedError(111, 'Connection refused')"), "refused")
    equal(
        hint("import urllib.error\nraise urllib.error.HTTPError('http://x', 404, 'no', {}, None)"),
        None,
    )
    equal(
        hint(
            "import urllib.error\nraise urllib.error.URLError(ConnectionRefusedError(111, 'Connection refused'))"
        ),
        "refused",
    )


@check
def missing_modules():
    assert (hint("import surely_not_there") or "").startswith("module surely_not_there - ")
    for wrong, right in (("jsson", "json"), ("Numbers", "numbers"), ("colections", "collections")):
        assert (hint("import " + wrong) or "").startswith("module %s %s " % (wrong, right)), wrong
    assert (hint("import torch") or "").startswith("module torch - ")
    for name, sent in (("cv2", "module cv2 "), ("umap.plot", "module umap ")):
        got = hint("raise ModuleNotFoundError('x', name=%r)" % name) or ""
        assert got.startswith(sent), (name, got)
    equal(hint("import os.nothing"), None)
    equal(hint("from math import nothing"), None)
    contains(
        hint(
            "try:\n    import surely_not_there\nexcept ImportError as e:\n    raise RuntimeError('install it') from e"
        ),
        "surely_not_there",
    )


@check
def modules_that_python_lacks():
    lack = "import sys, importlib.util\nsys.stdlib_module_names |= {'surelynot'}\nimport surelynot"
    equal(hint(lack), "standard surelynot")
    equal(hint("raise ModuleNotFoundError('x', name='json')"), None, "it is there")


@check
def parts_of_a_namespace():
    make = "import os, sys\nos.makedirs('%s/ns/spaced/inner')\nsys.path.append('%s/ns')\n" % (SCRATCH, SCRATCH)
    assert (hint(make + "import spaced.inner.more") or "").startswith("module spaced.inner.more - -")


@check
def modules_of_the_workspace():
    make = "import os\nos.makedirs('%s/ws/parts')\nos.chdir('%s/ws')\n" % (SCRATCH, SCRATCH)
    contains(
        hint(make + "open('parts/tools_of_mine.py', 'w').close()\nimport tools_of_mine") or "",
        "tools_of_mine.py lies in parts/: `import parts.tools_of_mine`",
    )
    make = make.replace("/ws", "/wsb")
    got = hint(make + "open('MyTools.py', 'w').close()\nimport mytools") or ""
    assert got.startswith("module mytools MyTools "), got


@check
def what_is_no_name_is_not_sent():
    for name in ("'a b'", "'a-b'", "'x' * 5000 + ' '", "'\u00e9'", "7", "'.a'", "''"):
        equal(hint("raise ModuleNotFoundError('x', name=%s)" % name), None, name)


@check
def read_only_paths():
    for number in (30, 13):
        equal(
            hint("raise OSError(%d, 'x', '/usr/share/new.txt')" % number),
            "/usr/share/new.txt cannot be written: files go below /workspace (kept) or /tmp",
        )
    contains(
        hint("import os\nos.chdir('/usr')\nraise PermissionError(13, 'x', 'relative.txt')"),
        "/usr/relative.txt",
    )
    equal(hint("raise PermissionError(13, 'x', '/workspace/locked')"), None)
    equal(hint("raise PermissionError(13, 'x', '/tmp/locked')"), None)
    equal(hint("raise FileNotFoundError(2, 'x', '/usr/nothing')"), None)


@check
def programs_that_cannot_work():
    for code in (
        "import subprocess\nsubprocess.run(['apt-get', 'install', 'x'], check=True, env={'PATH': '/nowhere'})",
        "import subprocess\nraise subprocess.CalledProcessError(100, 'sudo apt install x')",
        "import subprocess\nraise subprocess.CalledProcessError(100, ['/usr/bin/apt', 'install'])",
    ):
        contains(hint(code) or "", "no root", code)
    for code in (
        "import subprocess\nraise subprocess.CalledProcessError(1, ['/usr/bin/python3.11', '-m', 'pip', 'install', 'x'])",
        "import subprocess\nraise subprocess.CalledProcessError(1, 'pip install x')",
        "import subprocess\nsubprocess.run(['uv', 'add', 'x'], env={'PATH': '/nowhere'})",
        "!pip install surely-not-there",
        "%pip install surely-not-there",
    ):
        equal(hint(code), "no packages", code)
    equal(hint("import subprocess\nraise subprocess.CalledProcessError(1, 'conda install x')"), "packages")
    equal(hint("import subprocess\nraise subprocess.CalledProcessError(6, 'curl http://x.org')"), "network")
    equal(hint("import subprocess\nraise subprocess.CalledProcessError(128, 'git clone http://x.org')"), "network")
    equal(hint("import subprocess\nraise subprocess.CalledProcessError(1, 'git diff --exit-code')"), None)
    equal(hint("import subprocess\nsubprocess.run(['surely-not-there'])"), None)
    equal(hint("import subprocess\nsubprocess.run('exit 2', shell=True, check=True)"), None)


@check
def files_of_another_machine():
    for path in ("/home/me/data.csv", "/Users/me/data.csv", "C:\\\\data.csv", "/mnt/surely-not/data.csv"):
        contains(hint("open('%s')" % path) or "", "does not see files of the machine", path)
    equal(hint("open('data.csv')"), None)
    equal(hint("open('/workspace/data.csv')"), None)
    equal(hint("open('/tmp/data.csv')"), None)


@check
def none_otherwise():
    for code in (
        "1/0",
        "x = =",
        "exit(1)",
        "raise KeyError('a')",
        "5",
        "raise MemoryError",
        "raise KeyboardInterrupt",
        "class E(Exception):\n    args = 5\nraise E",
        "class E(OSError):\n    errno = property(lambda s: 1/0)\nraise E",
        "raise OSError(28, 'No space left', '/usr/x')",
    ):
        equal(hint(code), None, code)


main()
