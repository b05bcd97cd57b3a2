#!/usr/bin/python3
"""Templates: sandboxes that are saved, and sandboxes that begin with them; on an image and in a plain folder."""
import os
import signal
import sqlite3
import sys
import threading
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal, skip
from file_server import keyed_server, user_key
from krait_server import Server, data_folder
from serving import eventually, kept, main

BOXES, TEMPLATES = "/api/v1/sandboxes", "/api/v1/templates"
KINDS = ("folder", "image")
WORK = """
import os
os.makedirs("data/deep", exist_ok=True)
open("data/deep/numbers", "w").write("1 2 3")
open("run.sh", "w").write("#!/bin/sh")
os.chmod("run.sh", 0o755)
os.symlink("data/deep", "short")
os.mkfifo("pipe")
os.utime("run.sh", (1000, 2000))
"""
LOOK = """
import os
print(open("short/numbers").read(), oct(os.stat("run.sh").st_mode)[-3:], int(os.stat("run.sh").st_mtime),
      os.readlink("short"), os.environ.get("MODE"))
"""
SEEN = "1 2 3 755 2000 data/deep test\n"


def server(kind: str) -> Server:
    if kind == "image" and os.geteuid() != 0:
        skip("an image needs root")
    return kept(shelf=kind)


def fresh(s: Server, name: str, **settings) -> str:
    s.delete(f"{BOXES}/{name}")
    made = s.post(BOXES, {"name": name, **settings})
    equal(made.status, 201, made.text)
    return made.json()["id"]


def saved(s: Server, name: str, sandbox: str, **more) -> dict:
    s.delete(f"{TEMPLATES}/{name}")
    reply = s.post(TEMPLATES, {"sandbox_id": sandbox, "name": name, **more})
    equal(reply.status, 201, reply.text)
    return reply.json()


def begun(s: Server, name: str, template: str, **more) -> dict:
    s.delete(f"{BOXES}/{name}")
    reply = s.post(BOXES, {"name": name, "template": template, **more})
    equal(reply.status, 201, reply.text)
    equal(reply.header("location"), f"{BOXES}/{reply.json()['id']}")
    return reply.json()


def out(s: Server, sandbox: str, code: str, **more) -> str:
    end = s.run(code, sandbox_id=sandbox, **more)
    equal(end["cause"], "ok", str(end)[:500])
    return end["stdout"]


@check
def files_and_settings_come_along():
    for kind in KINDS:
        s = server(kind)
        fresh(s, "source", env={"MODE": "test"}, limits={"memory": "300M"})
        out(s, "source", WORK)
        template = saved(s, "one", "source", description="numbers")
        equal((template["name"], template["description"], template["shared"], template["own"]),
              ("one", "numbers", False, True))
        made = begun(s, "copy", "one")
        equal(made["limits"]["memory"], 300 << 20)
        equal(out(s, "copy", LOOK), SEEN, kind)
        equal(out(s, begun(s, "by-id", template["id"])["id"], LOOK), SEEN, kind)
        # Each goes its own way.
        out(s, "copy", "open('data/deep/numbers', 'w').write('9')")
        equal(out(s, "source", LOOK), SEEN)
        equal(out(s, "by-id", LOOK), SEEN)
        # The source and the template may go.
        equal(s.delete(f"{BOXES}/source").status, 204)
        equal(out(s, begun(s, "later", "one")["id"], LOOK), SEEN)
        equal(s.delete(f"{TEMPLATES}/one").status, 204)
        equal(out(s, "later", LOOK), SEEN)
        equal(s.post(BOXES, {"template": "one"}).status, 404)


@check
def settings_of_the_request_come_first():
    s = server("folder")
    fresh(s, "source", env={"MODE": "test", "LEFT": "1"}, limits={"memory": "300M", "timeout": 20})
    saved(s, "set", "source")
    made = begun(s, "own", "set", limits={"memory": "200M"}, env={"MODE": "mine", "LEFT": None})
    equal((made["limits"]["memory"], made["limits"]["timeout"]), (200 << 20, 20))
    equal(out(s, "own", "import os; print(os.environ['MODE'], 'LEFT' in os.environ)"), "mine False\n")
    refused = s.post(BOXES, {"template": "set", "limits": {"memory": "900T"}})
    equal(refused.status, 400, refused.text)


@check
def limits_hold_in_the_copy():
    for kind in KINDS:
        s = server(kind)
        fresh(s, "source")
        out(s, "source", "open('three', 'wb').write(b'x' * (3 << 20))")
        saved(s, "three", "source")
        begun(s, "tight", "three", limits={"disk": "8M"})
        equal(out(s, "tight", "import os; print(os.path.getsize('three'))"), f"{3 << 20}\n")
        end = s.run("import time\nwith open('more', 'wb') as f:\n    for _ in range(20):\n"
                    "        f.write(b'x' * (1 << 20))\n        f.flush()\ntime.sleep(6)", sandbox_id="tight", timeout=30)
        equal(end["cause"], "disk_limit", f"{kind}: {str(end)[:400]}")


@check
def what_is_wrong_is_named():
    s = server("folder")
    fresh(s, "source")
    saved(s, "taken", "source")
    for body, status, words in (
        ({"name": "x"}, 400, "sandbox"),
        ({"sandbox_id": "nothere", "name": "x"}, 404, "no sandbox"),
        ({"sandbox_id": "source", "name": "taken"}, 409, "there is a template called taken"),
        ({"sandbox_id": "source", "name": ""}, 400, "name"),
        ({"sandbox_id": "source", "name": "x" * 300}, 400, "name"),
        ({"sandbox_id": "source", "description": "x" * 501}, 400, "description"),
        ({"sandbox_id": "source", "colour": "red"}, 400, "colour"),
    ):
        reply = s.post(TEMPLATES, body)
        equal(reply.status, status, f"{body}: {reply.text}")
        contains(reply.text, words)
    for body, status, words in (
        ({"template": "nothere"}, 404, "no template"),
        ({"template": "taken", "name": "source"}, 409, "there is a sandbox called source"),
        ({"template": "taken", "name": "default"}, 409, "default"),
        ({"template": ""}, 400, "template"),
    ):
        reply = s.post(BOXES, body)
        equal(reply.status, status, f"{body}: {reply.text}")
        contains(reply.text, words)
    equal(s.get(f"{TEMPLATES}/nothere").status, 404)
    equal(s.patch(f"{TEMPLATES}/taken", {"name": "renamed", "description": "d"}).json()["name"], "renamed")
    equal(s.get(f"{TEMPLATES}/renamed").json()["description"], "d")
    equal(s.get(f"{TEMPLATES}/taken").status, 404)


@check
def pages_of_templates():
    s = server("folder")
    fresh(s, "source")
    names = [f"page-{i}" for i in range(3)]
    for name in names:
        saved(s, name, "source")
    first = s.get(f"{TEMPLATES}?limit=2").json()
    equal([t["name"] for t in first["templates"]], names[:0:-1])
    second = s.get(f"{TEMPLATES}?limit=2&after={first['next']}").json()
    equal(second["templates"][0]["name"], names[0])
    equal(s.get(f"{TEMPLATES}?after=nonsense").status, 400)


@check
def templates_of_users_and_shared_ones():
    s = keyed_server()
    ann, bob = user_key("ann"), user_key("bob")
    for key in (ann, bob):
        equal(s.post(BOXES, {"name": "mine"}, key=key).status, 201)
    equal(s.post(TEMPLATES, {"sandbox_id": "mine", "name": "private"}, key=ann).status, 201)
    equal(s.get(f"{TEMPLATES}/private", key=ann).status, 200, "the control")
    equal(s.get(f"{TEMPLATES}/private", key=bob).status, 404)
    equal(s.get(TEMPLATES, key=bob).json()["templates"], [])
    equal(s.post(BOXES, {"template": "private"}, key=bob).status, 404)
    refused = s.post(TEMPLATES, {"sandbox_id": "mine", "name": "all", "shared": True}, key=ann)
    equal(refused.status, 403, refused.text)
    contains(refused.text, "administrator")
    equal(s.post(BOXES, {"name": "root-box"}).status, 201)
    s.put(f"{BOXES}/root-box/files/hello", b"hello all")
    shared = s.post(TEMPLATES, {"sandbox_id": "root-box", "name": "all", "shared": True})
    equal(shared.status, 201, shared.text)
    seen = s.get(f"{TEMPLATES}/all", key=bob).json()
    equal((seen["shared"], seen["own"]), (True, False))
    equal(s.post(BOXES, {"template": "all", "name": "from-all"}, key=bob).status, 201)
    equal(s.get(f"{BOXES}/from-all/files/hello", key=bob).body, b"hello all")
    for reply in (s.patch(f"{TEMPLATES}/all", {"description": "mine now"}, key=bob),
                  s.delete(f"{TEMPLATES}/all", key=bob)):
        equal(reply.status, 403, reply.text)
    equal(s.patch(f"{TEMPLATES}/all", {"shared": False}).json()["shared"], False)
    equal(s.get(f"{TEMPLATES}/all", key=bob).status, 404)
    equal(s.patch(f"{TEMPLATES}/private", {"shared": True}, key=ann).status, 403)


@check
def a_template_counts_for_its_owners_disk():
    with Server(args=["--max-disk-per-user", "11M"]) as s:
        s.put(f"{BOXES}/default/files/five", b"x" * (5 << 20))
        equal(s.post(TEMPLATES, {"sandbox_id": "default", "name": "five"}).status, 201)
        equal(s.post(TEMPLATES, {"sandbox_id": "default", "name": "more"}).status, 429, "it would be past the limit")
        full = s.put(f"{BOXES}/default/files/more", b"x" * (2 << 20))
        equal(full.status, 507, full.text)
        equal(s.delete(f"{TEMPLATES}/five").status, 204)
        equal(s.put(f"{BOXES}/default/files/more", b"x" * (2 << 20)).status, 201)


def folders(s: Server) -> set:
    return set(os.listdir(f"{s.data}/data/sandboxes"))


@check
def a_deleted_template_leaves_no_folder():
    with Server(args=["--cleanup-interval", "1s"]) as s:
        s.put(f"{BOXES}/default/files/one", b"1")
        before = folders(s)
        equal(s.post(TEMPLATES, {"sandbox_id": "default", "name": "gone"}).status, 201)
        equal(len(folders(s)), len(before) + 1)
        equal(s.delete(f"{TEMPLATES}/gone").status, 204)
        eventually(lambda: folders(s) == before, 20)


@check
def killed_in_the_middle_of_a_copy():
    """What a copy has begun is on lease: the store names it as a folder to remove."""
    with data_folder() as folder:
        with Server(data=folder) as s:
            fill = "for i in range(30000):\n    open('f%d' % i, 'w').write('x')"
            equal(s.run(fill, sandbox_id="default", timeout=120)["cause"], "ok")
            before = folders(s)
            thread = threading.Thread(target=lambda: _quietly(s, {"sandbox_id": "default", "name": "half"}), daemon=True)
            thread.start()
            deadline = time.monotonic() + 20
            while folders(s) == before and time.monotonic() < deadline:
                time.sleep(0.002)
            new = folders(s) - before
            equal(len(new), 1, "a copy has begun")
            os.kill(s.server_pid(), signal.SIGKILL)
            s.process.wait(20)
            thread.join(20)
        name = new.pop()
        db = sqlite3.connect(f"{folder}/data/krait.db")
        equal(db.execute("SELECT count(*) FROM templates").fetchone()[0], 0)
        equal(db.execute("SELECT count(*) FROM doomed WHERE folder = ?", (name,)).fetchone()[0], 1)
        db.execute("UPDATE doomed SET since = 1")  # as if the lease had ended
        db.commit()
        db.close()
        with Server(data=folder, args=["--cleanup-interval", "1s"]) as s:
            equal(s.get(f"{TEMPLATES}/half").status, 404)
            eventually(lambda: name not in folders(s), 30)


def _quietly(s: Server, body: dict) -> None:
    try:
        s.post(TEMPLATES, body)
    except OSError:
        pass


if __name__ == "__main__":
    main()
