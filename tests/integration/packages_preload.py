#!/usr/bin/python3
"""Packages whose modules a zygote has imported before it forks: the session that is there is told, the next one imports
those of its environment. Against an index on loopback."""
from __future__ import annotations

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "lib")]
import wheels  # noqa: E402
from check import check, equal, main  # noqa: E402
from installing import index_args, install, site  # noqa: E402
from krait_server import Server  # noqa: E402

ROOT = os.path.join(HERE, "../..")
OF_PACKAGES = """import sys
sorted({name.split('.')[0] for name, one in sys.modules.items() if '/dist-packages/' in (getattr(one, '__file__', None) or '')
        and not name.split('.')[0].startswith('_')})"""


def value(code: str, **more: str) -> str:
    done = server.run(code, **more)
    assert done["cause"] == "ok", done
    return done["result"]


def make(name: str) -> str:
    made = server.post("/api/v1/sandboxes", {"name": name, "preload": "data"})
    assert made.status == 201, made.text
    return name


@check
def the_table_names_what_is_preloaded() -> None:
    with open(os.path.join(ROOT, "src/box/box_env.c"), encoding="utf-8") as f:
        table = re.search(r"preloaded\[\] = \{(.*?)\n\};", f.read(), re.S)
    assert table
    named = {module for module, _ in re.findall(r'\{"(\w+)", "([\w-]+)"\}', table[1])}
    there = set(eval(value(OF_PACKAGES, sandbox=make("fresh"))))  # a list of names, of a sandbox of ours
    assert "numpy" in there, "the control: modules are preloaded"
    equal(sorted(there - named), [], "the table of box_env.c lacks them")


@check
def the_next_session_has_the_new_one() -> None:
    box = make("shadows")
    assert value("import numpy; numpy.__version__", sandbox=box) != "'99.0'"
    assert install(server, "numpy==99.0", sandbox=box)["restart"], "a live session has the one of before"
    assert value("import numpy; numpy.__version__", sandbox=box) != "'99.0'", "which is the live one's still"
    equal(value("import numpy; numpy.__version__", sandbox=box, session_id="next"), "'99.0'")
    equal(value("import six; six.__version__ != '99.0'", sandbox=box, session_id="next"), "True")
    assert value("import numpy; numpy.__version__", sandbox=make("other")) != "'99.0'", "another sandbox's is its own"
    reply = server.delete("/api/v1/sandboxes/%s/packages/numpy?wait=60" % box)
    equal(reply.status, 200, reply.text)
    assert value("import numpy; numpy.__version__", sandbox=box, session_id="after") != "'99.0'"
    assert "pandas" in value(OF_PACKAGES, sandbox=box, session_id="after"), "preloaded again"


@check
def a_module_that_is_a_file() -> None:
    box = make("file")
    assert not install(server, "six==99.0", sandbox=box)["restart"], "there was no session"
    equal(value("import six; six.__version__", sandbox=box), "'99.0'")


@check
def what_shadows_nothing_keeps_the_preload() -> None:
    box = make("keeps")
    install(server, "plain-thing", sandbox=box)
    assert "numpy" in value(OF_PACKAGES, sandbox=box)


with site() as (index, folder):
    index.add(wheels.wheel(folder, "numpy", "99.0", modules={"numpy/__init__.py": "__version__ = '99.0'\n"}))
    index.add(wheels.wheel(folder, "six", "99.0", modules={"six.py": "__version__ = '99.0'\n"}))
    index.add(wheels.wheel(folder, "plain-thing"))
    with Server(args=index_args(index, "--preload", "basic,data")) as server:
        main()
