#!/usr/bin/python3
"""Packages as code in a cell sees them: pip in all its spellings, what a live session imports, what is installed unasked,
against an index on loopback."""
from __future__ import annotations

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "lib")]
import wheels  # noqa: E402
from check import check, contains, equal, main  # noqa: E402
from installing import index_args, site  # noqa: E402
from krait_server import Server  # noqa: E402


def run(s: Server, code: str, **more) -> dict:
    done = s.run(code, **more)
    assert done["cause"] == "ok", done
    return done


@check
def every_spelling_of_pip_installs() -> None:
    for number, code in enumerate((
            "!pip install %s", "%%pip install %s", "!python -m pip install %s", "import os; os.system('pip3 install -q %s')",
            "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'pip', 'install', '%s'], check=True)",
            "!uv pip install %s", "!uv add %s")):
        name = "inside-%d" % number
        run(server, code % name)
        equal(run(server, "import inside_%d; inside_%d.VALUE" % (number, number))["result"], str(number), code)
    frozen = run(server, "!pip freeze")["stdout"]
    for number in range(7):
        contains(frozen, "inside-%d==1.0\n" % number)


@check
def files_of_requirements_and_programs() -> None:
    code = "open('requirements.txt', 'w').write('# ours\\nwith-program>=1\\n')\n!pip install -r requirements.txt"
    contains(run(server, code)["stdout"], "Successfully installed with-program-1.0")
    contains(run(server, "!with-program")["stdout"], "hello from with_program")
    contains(run(server, "!pip show with-program")["stdout"], "Location: /venv/lib/python")
    contains(run(server, "!pip install with-program")["stdout"], "Requirement already satisfied")
    contains(run(server, "!pip uninstall -y with-program")["stdout"], "with-program-1.0")
    assert "with-program" not in run(server, "!pip freeze")["stdout"]


@check
def what_fails_has_a_status_and_says_why() -> None:
    for words, why in (("surely-not-there", "no package surely-not-there"), ("os", "blocked"), ("-e .", "only packages"),
                       ("reqeusts", "looks like"), ("'a b c;'", "")):
        done = run(server, "!pip install %s; echo status $?" % words)
        contains(done["stdout"], "status 1", words)
        contains(done["stderr"], "ERROR: ", words)
        contains(done["stderr"], why, words)
    equal(run(server, "import subprocess\nsubprocess.run(['pip', 'install', 'inside-0']).returncode")["result"], "0",
          "control")


@check
def auto_install_runs_the_code_again() -> None:
    made = server.post("/api/v1/sandboxes", {"name": "unasked", "auto_install": "yes"})
    assert made.status == 201, made.text
    code = "print('began')\nimport lazy_thing\nprint(lazy_thing.VALUE)"
    done = server.run(code, sandbox="unasked")
    equal((done["cause"], done["stdout"]), ("ok", "began\nbegan\n5\n"), done)
    contains(done["stderr"], "auto_install: installed lazy-thing 1.0")
    equal(server.run(code, sandbox="unasked")["stdout"], "began\n5\n", "once")
    equal(server.run("import reqeusts_not", sandbox="unasked")["cause"], "exception")
    equal(server.run("import torch", sandbox="unasked")["cause"], "exception", "blocked")
    equal(server.run(code)["cause"], "exception", "off by default")


with site() as (index, folder):
    for i in range(7):
        index.add(wheels.wheel(folder, "inside-%d" % i, modules={"inside_%d.py" % i: "VALUE = %d\n" % i}))
    index.add(wheels.wheel(folder, "lazy-thing", modules={"lazy_thing.py": "VALUE = 5\n"}))
    index.add(wheels.wheel(folder, "with-program", modules={
        "with_program.py": "def main():\n    print('hello from with_program')\n"},
        scripts={"with-program": "with_program:main"}))
    with Server(args=index_args(index, "--blocked-packages", "os,torch", "--installs-per-minute", "100")) as server:
        main()
