#!/usr/bin/python3
"""Packages over HTTP: how an ask is answered (with the job, at its end, line by line, as events), what is listed, and
what is refused. What an install does is in packages.py."""
from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "lib")]
from check import check, contains, equal
from krait_server import Server
from package_shelf import shelf
from serving import Stream, eventually, kept, main


def server() -> Server:
    return kept(args=shelf().args("--installs-per-minute", "0"))


def new_box(s: Server, name: str) -> str:
    made = s.post("/api/v1/sandboxes", {"name": name})
    equal(made.status, 201, made.text)
    return "/api/v1/sandboxes/%s" % name


def result(reply) -> dict:
    equal(reply.status, 200, reply.text)
    assert reply.json()["result"], reply.text
    return reply.json()["result"]


@check
def answered_at_once_or_at_the_end() -> None:
    s = server()
    box = new_box(s, "answers")
    first = s.post(box + "/packages", {"packages": ["slow"]})
    equal(first.status, 202, first.text)
    job = first.json()
    equal((job["kind"], job["still_running"], job["result"]), ("packages.install", True, None))
    equal(first.header("location"), "/api/v1/jobs/" + job["job_id"])
    equal(first.header("x-job-id"), job["job_id"])
    joined = s.post(box + "/packages", {"packages": ["slow"]})
    equal(joined.json()["job_id"], job["job_id"], "the same ask joins it")
    status = s.get(box + "/packages/slow").json()
    equal((status["state"], status["job_id"], status["version"]), ("installing", job["job_id"], None))
    done = eventually(lambda: (lambda j: not j["still_running"] and j)(s.get(first.header("location")).json()), 90)
    equal((done["cause"], done["result"]["ok"]), ("ok", True))
    status = s.get(box + "/packages/slow").json()
    equal((status["state"], status["version"], status["ended_at"]), ("success", "1.0", done["ended_at"]))
    waited = result(s.post(box + "/packages", {"packages": ["tiny"], "wait": 60}))
    equal([(one["name"], one["version"], one["was"]) for one in waited["installed"]], [("tiny", "9.9", None)])


@check
def followed_line_by_line_and_as_events() -> None:
    s = server()
    box = new_box(s, "lines")
    with Stream(s, "POST", box + "/packages", {"packages": ["numpy==9.26.4"]},
                {"Accept": "application/x-ndjson"}) as stream:
        equal(stream.status, 200)
        lines = stream.rest()
    equal([line["seq"] for line in lines], list(range(1, len(lines) + 1)))
    equal((lines[0]["type"], lines[-1]["type"], lines[-1]["cause"]), ("started", "end", "ok"))
    equal(lines[-1]["result"]["ok"], True)
    told = [line["text"] for line in lines if line["type"] == "notice" and line["code"] == "progress"]
    assert told, lines
    with Stream(s, "POST", box + "/packages", {"packages": ["foo"]}, {"Accept": "text/event-stream"}) as stream:
        events = stream.events()
    equal((events[0]["event"], events[-1]["event"]), ("started", "end"))


@check
def listed_and_frozen() -> None:
    s = server()
    box = new_box(s, "lists")
    equal(s.get(box + "/packages").json(), {"packages": []})
    equal(s.get(box + "/requirements").text, "")
    done = result(s.post(box + "/packages", {"requirements": "# ours\nrequests==2.31.0\n", "wait": 60}))
    assert done["ok"], done
    rows = {one["name"]: one for one in s.get(box + "/packages").json()["packages"]}
    one = rows["requests"]
    equal((one["version"], one["requested"], one["system"], one["file"], one["index"]),
          ("2.31.0", True, False, "requests-2.31.0-py3-none-any.whl", shelf().index.plain_url))
    frozen = s.get(box + "/requirements")
    equal(frozen.header("content-type").split(";")[0], "text/plain")
    contains(frozen.text, "requests==2.31.0\n")
    whole = {one["name"]: one for one in s.get(box + "/packages?system=true").json()["packages"]}
    equal((whole["requests"]["system"], whole["pip"]["system"]), (False, True))
    other = new_box(s, "lists-again")
    again = result(s.post(other + "/packages", {"requirements": frozen.text, "wait": 60}))
    equal((again["ok"], again["downloaded"]), (True, 0), "what was frozen comes back, from the store")
    equal(s.get(other + "/requirements").text, frozen.text)


@check
def uninstalled_one_and_several() -> None:
    s = server()
    box = new_box(s, "gone")
    assert result(s.post(box + "/packages", {"packages": ["tiny", "foo", "tiny-two"], "wait": 60}))["ok"]
    equal(result(s.delete(box + "/packages/tiny?wait=60"))["removed"], [{"name": "tiny", "version": "9.9"}])
    gone = result(s.post(box + "/packages/uninstall", {"packages": ["foo", "tiny-two"], "wait": 60}))
    equal(sorted(one["name"] for one in gone["removed"]), ["foo", "tiny-two"])
    equal(s.get(box + "/packages").json(), {"packages": []})
    absent = s.delete(box + "/packages/tiny?wait=60")
    equal((absent.json()["cause"], absent.json()["result"]["kind"]), ("exception", "not_found"))


@check
def what_is_refused() -> None:
    s = server()
    box = new_box(s, "refusals")
    rows = [
        ({"packages": ["os"]}, 403, "denied", "Package os is blocked for security reasons"),
        ({"packages": ["json"]}, 400, "invalid", "a module of Python itself"),
        ({"packages": ["reqeusts"]}, 400, "invalid", "requests"),
        ({"packages": ["x @ http://127.0.0.1/x.whl"]}, 400, "invalid", ""),
        ({"packages": ["--pre"]}, 400, "invalid", ""),
        ({"requirements": "-r other.txt\n"}, 400, "invalid", ""),
        ({"packages": []}, 400, "invalid", "packages"),
        ({}, 400, "invalid", "exactly one"),
        ({"packages": ["tiny"], "requirements": "tiny"}, 400, "invalid", "exactly one"),
        ({"packages": ["tiny"], "build": True}, 403, "denied", "allow_build"),
        ({"packages": ["tiny"], "index": "x"}, 400, "invalid", "index"),
    ]
    for body, status, kind, words in rows:
        reply = s.post(box + "/packages", body)
        equal((reply.status, reply.json()["error"]["kind"]), (status, kind), str(body))
        contains(reply.json()["error"]["message"], words)
    for method, path in (("GET", "/packages"), ("GET", "/packages/tiny"), ("GET", "/requirements"),
                         ("DELETE", "/packages/tiny")):
        equal(s.request(method, "/api/v1/sandboxes/nobodys" + path).status, 404, path)
    equal(s.post("/api/v1/sandboxes/nobodys/packages", {"packages": ["tiny"]}).status, 404)
    equal(s.get(box + "/packages/a;b").status, 400)
    assert result(s.post(box + "/packages", {"packages": ["reqeusts"], "allow_similar": True, "wait": 60}))["ok"]
    equal(s.get("/api/v1/info").json()["features"]["packages"], True)


main()
