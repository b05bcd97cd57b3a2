#!/usr/bin/python3
"""What an agent sees: tasks as a model attempts them (agent_tasks.json), step by step through MCP, each transcript
judged by the lines that its next step needs. One server for all, an MCP session for each task.

A step: a tool with its arguments; `has`: texts of the answer; `error`: isError; `image`: how many
pictures. `$run`, `$from`, `$offset` are those that the answer before it named. With SHOW=1 all transcripts are printed.
"""
import json
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
from check import check, contains, equal  # noqa: E402
from mcp import Http  # noqa: E402
from serving import kept, main  # noqa: E402

TASKS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
NAMED = re.compile(r'run_id="(?P<run>\w+)", from=(?P<from>\d+)(?:, offset=(?P<offset>\d+))?')


def attempt(c: Http, step: dict, said: str) -> str:
    named = NAMED.search(said)
    arguments = {k: named[v[1:]] if isinstance(v, str) and v[:1] == "$" else v for k, v in step["arguments"].items()}
    result = c.tool(step["tool"], arguments)
    text = "\n".join(b["text"] for b in result["content"] if b["type"] == "text")
    if os.environ.get("SHOW"):
        print("--- %s %s\n%s" % (step["tool"], json.dumps(arguments, ensure_ascii=False)[:300], text[-1500:]))
    for want in step["has"]:
        contains(text, want)
    equal(result.get("isError", False), step.get("error", False), text[-300:])
    if "image" in step:
        equal(sum(b["type"] == "image" for b in result["content"]), step["image"])
    return text


def add(task: dict) -> None:
    def run() -> None:
        said = ""
        with Http(kept(args=["--preload", "data"]).port) as c:
            for step in task["steps"]:
                said = attempt(c, step, said)

    run.__name__ = re.sub(r"\W+", "_", task["task"]).lower()
    check(run)


for one in TASKS:
    add(one)
assert len(TASKS) >= 40
main()
