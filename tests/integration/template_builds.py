#!/usr/bin/python3
"""The template that the settings ask for: built at start from its requirements, kept, built anew when they change, and
what happens where that fails."""
from __future__ import annotations

import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "lib")]
import wheels  # noqa: E402
from check import check, contains, equal, main  # noqa: E402
from installing import index_args, site  # noqa: E402
from krait_server import Server, data_folder  # noqa: E402
from serving import eventually  # noqa: E402

TEMPLATES, BOXES = "/api/v1/templates", "/api/v1/sandboxes"
BUILT_S = 120
USE = "import lone_thing; print(lone_thing.VALUE)"


def lone_things(index, folder) -> None:
    for version in ("1.0", "2.0"):
        index.add(wheels.wheel(folder, "lone-thing", version, modules={"lone_thing.py": "VALUE = %s\n" % version[0]}))


def builds(s: Server, result: str) -> int:
    line = [one for one in s.get("/metrics").text.splitlines()
            if one.startswith('krait_template_builds_total{result="%s"}' % result)]
    return int(float(line[0].split()[-1]))


def built(s: Server) -> list:
    """The templates, once the build has ended well and its sandbox is gone."""
    eventually(lambda: builds(s, "success") + builds(s, "error"), BUILT_S, s.log_text()[-500:])
    equal(builds(s, "error"), 0, s.log_text()[-1500:])
    equal([one["name"] for one in s.get(BOXES).json()["sandboxes"] if one["name"].startswith("template-")], [])
    return s.get(TEMPLATES).json()["templates"]


def value_in_a_new_sandbox(s: Server, template: str, name: str, key=None) -> str:
    made = s.post(BOXES, {"name": name, "template": template}, key=key)
    equal(made.status, 201, made.text)
    return s.run(USE, sandbox_id=made.json()["id"], key=key)["stdout"].strip()


@check
def template_requirements():
    with site() as (index, folder), Server(args=index_args(index)) as s:
        equal(s.get(TEMPLATES).json()["templates"], [], "none is asked for")
    with site() as (index, folder), data_folder() as data:
        lone_things(index, folder)
        with Server(args=index_args(index, "--template-requirements", "lone-thing==1.0"), data=data) as s:
            first = built(s)
            equal([(one["name"], one["shared"]) for one in first], [("packages", True)])
            contains(first[0]["description"], "lone-thing==1.0")
            equal(value_in_a_new_sandbox(s, "packages", "one"), "1")
        with Server(args=index_args(index, "--template-requirements", "lone-thing==1.0"), data=data) as s:
            eventually(lambda: "template is as its requirements say" in s.log_text())
            equal(s.get(TEMPLATES).json()["templates"], first, "it is kept")
            equal(builds(s, "success"), 0)
        with Server(args=index_args(index, "--template-requirements", "lone-thing==2.0"), data=data) as s:
            second = built(s)
            equal([one["name"] for one in second], ["packages"])
            assert second[0]["id"] != first[0]["id"]
            equal(value_in_a_new_sandbox(s, "packages", "two"), "2")
            equal(s.run(USE, sandbox_id="one")["stdout"].strip(), "1", "sandboxes that began with the old one stay")


@check
def template_name():
    for args, name in (((), "packages"), (("--template-name", "science"), "science")):
        with site() as (index, folder):
            lone_things(index, folder)
            with Server(args=index_args(index, "--template-requirements", "lone-thing", *args)) as s:
                equal([one["name"] for one in built(s)], [name])


@check
def template_shared():
    for args, status in (((), 201), (("--template-shared=false",), 404)):
        with site() as (index, folder):
            lone_things(index, folder)
            with Server(args=index_args(index, "--require-auth", "--template-requirements", "lone-thing", *args),
                        env={"API_KEY": "root-key"}, key="root-key") as s:
                equal([one["shared"] for one in built(s)], [status == 201])
                user = s.post("/api/v1/users", {"name": "ann", "rights": ["read", "run"]}).json()["id"]
                key = s.post("/api/v1/keys", {"user": user, "name": "k", "rights": ["read", "run"]}).json()["key"]
                equal(s.post(BOXES, {"name": "mine", "template": "packages"}, key=key).status, status)


@check
def a_list_of_the_file_may_have_commas():
    with site() as (index, folder), data_folder() as data:
        lone_things(index, folder)
        os.makedirs(data + "/conf")
        with open(data + "/conf/krait.toml", "w") as f:
            f.write('[templates]\nrequirements = ["lone-thing>=1,<2"]\n')
        with Server(args=index_args(index), data=data, usual=["--port", "0"], cwd=data + "/conf") as s:
            built(s)
            equal(value_in_a_new_sandbox(s, "packages", "one"), "1")


@check
def what_cannot_be_built_leaves_the_one_before():
    with site() as (index, folder), data_folder() as data:
        lone_things(index, folder)
        with Server(args=index_args(index, "--template-requirements", "lone-thing==1.0"), data=data) as s:
            first = built(s)
        with Server(args=index_args(index, "--template-requirements", "no-such-thing-at-all"), data=data) as s:
            eventually(lambda: builds(s, "error"), BUILT_S)
            contains(s.log_text(), "template not built")
            contains(s.log_text(), "no-such-thing-at-all")
            equal(s.get(TEMPLATES).json()["templates"], first)
            equal([one["name"] for one in s.get(BOXES).json()["sandboxes"] if "template" in one["name"]], [])


@check
def a_server_that_is_killed_builds_it_anew():
    with site() as (index, folder), data_folder() as data:
        lone_things(index, folder)
        args = index_args(index, "--template-requirements", "lone-thing==1.0")
        with Server(args=args, data=data) as s:
            eventually(lambda: "building a template" in s.log_text(), 30)
            os.kill(s.server_pid(), signal.SIGKILL)
            s.process.wait(20)
        with Server(args=args, data=data) as s:
            built(s)
            equal(value_in_a_new_sandbox(s, "packages", "one"), "1")


if __name__ == "__main__":
    main()
