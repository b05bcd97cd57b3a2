#!/usr/bin/python3
"""What an agent sees: tasks as a model attempts them (agent_tasks.json), step by step through MCP, each transcript
judged by the lines that its next step needs. An MCP session for each task, and one server for all that name no
arguments of their own.

A step: a tool with its arguments; `has`: texts of the answer, at least one, in which a picture is its type in brackets;
`error`: isError; `image`: how many pictures; `links`: files that come as blocks of their own. `$run`, `$from`,
`$offset`, `$link` are those that the answer before it named. The tool GET is the model's user who opens a link. With
SHOW=1 all transcripts are printed.
"""
import functools
import json
import os
import re
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
from check import check, contains, equal  # noqa: E402
from krait_server import Server  # noqa: E402
from mcp import Http  # noqa: E402
from serving import kept, main  # noqa: E402

TASKS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
NAMED = re.compile(r'run_id="(?P<run>\w+)", from=(?P<from>\d+)(?:, offset=(?P<offset>\d+))?|(?P<link>http://\S+)')


def get(url: str) -> dict:
    with urllib.request.urlopen(url, timeout=30) as reply:
        return {"content": [{"type": "text", "text": reply.read().decode()}]}


def attempt(c: Http, step: dict, said: str) -> str:
    named = NAMED.search(said)
    arguments = {k: named[v[1:]] if isinstance(v, str) and v[:1] == "$" else v for k, v in step["arguments"].items()}
    result = get(**arguments) if step["tool"] == "GET" else c.tool(step["tool"], arguments)
    text = "\n".join(b.get("text") or "[%s]" % b.get("mimeType", b["type"]) for b in result["content"])
    if os.environ.get("SHOW"):
        print("--- %s %s\n%s" % (step["tool"], json.dumps(arguments, ensure_ascii=False)[:300], text[-1500:]))
    for want in step["has"]:
        contains(text, want)
    equal(result.get("isError", False), step.get("error", False), text[-300:])
    if "image" in step:
        equal(sum(b["type"] == "image" for b in result["content"]), step["image"])
    blocks = [b.get("uri") or b.get("resource", {}).get("uri", "") for b in result["content"]]
    for name in step.get("links", []):
        assert any(uri.endswith("/" + name) for uri in blocks), blocks
    return text


@functools.cache
def server(*args: str) -> Server:
    """Once its modules are imported: a call that waits for them is answered early, which no task is about."""
    s = kept(args=["--preload", "data", *args])
    equal(s.run("import numpy", fresh=True)["cause"], "ok")
    return s


def add(task: dict) -> None:
    def run() -> None:
        said = ""
        with Http(server(*task.get("args", [])).port) as c:
            for step in task["steps"]:
                said = attempt(c, step, said)

    run.__name__ = re.sub(r"\W+", "_", task["task"]).lower()
    check(run)


for one in TASKS:
    add(one)
assert len(TASKS) >= 40 and sum(len(one["steps"]) > 2 for one in TASKS) >= 12
assert all(step["has"] for one in TASKS for step in one["steps"]), "each step asserts what the next one needs"
main()
