#!/usr/bin/python3
"""The stored work of an agent (story/agent.json) played in every revision over every transport: each step shows what it
must, and every era tells the same story.
"""
from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
from check import check, equal  # noqa: E402
from krait_server import KRAIT  # noqa: E402
from mcp import LEGACY, MODERN, Client, Http, Sse, Stdio  # noqa: E402
from serving import kept, main  # noqa: E402

STORY = json.loads((Path(__file__).parent / "story/agent.json").read_text())
ID = re.compile(r"\b[0-9a-z]{26}\b")
FILE = re.compile(r"^(\S+) \d+ \w+ (http://|sandbox://|/)")  # a line beneath [files]
HOW: dict = {"capabilities": {"elicitation": {}}}
CANCEL_S = 20.0
WARM_S = 300.0


def filled(value: Any, kept_values: dict) -> Any:
    if isinstance(value, str):
        for key, text in kept_values.items():
            value = value.replace("{%s}" % key, text)
        return value
    return {k: filled(v, kept_values) for k, v in value.items()} if isinstance(value, dict) else value


def told(result: dict) -> dict:
    """What a model reads of it, whatever the era's way to write it."""
    texts, images, files = [], 0, set()
    for block in result["content"]:
        if block["type"] == "text":
            files |= {m[1] for m in map(FILE.match, block["text"].splitlines()) if m}
            texts += [line for line in block["text"].splitlines() if not FILE.match(line)]
        elif block["type"] == "image":
            images += 1
    text = ID.sub("ID", "\n".join(texts))
    text = re.sub(r"http://\S+", "LINK", re.sub(r"\d{10}\.\d+", "TIME", text))
    return {"error": bool(result.get("isError")), "text": text, "images": images, "files": sorted(files)}


def answered(client: Client, step: dict, arguments: dict) -> dict:
    """A call whose program asks: before 2026-07-28 the client's own answer() has done it by the time of the result."""
    if "input" in step and client.rev < "2025-06-18":  # whose clients cannot be asked
        arguments = {**arguments, "stdin": "".join(text + "\n" for text in step["input"].values())}
    result = client.tool(step["tool"], arguments)
    if result.get("resultType") == "input_required":
        replies = {key: {"action": "accept", "content": step["input"]} for key in result["inputRequests"]}
        result = client.call("tools/call", {"name": step["tool"], "arguments": arguments, "inputResponses": replies,
                                            "requestState": result["requestState"]})
    return result


def cancelled(client: Client, step: dict, arguments: dict) -> dict:
    """Cancels it once it is seen to run; then its session must take the next run, which waits behind it."""
    pending = client.begin("tools/call", {"name": step["tool"], "arguments": arguments})
    deadline = time.monotonic() + CANCEL_S
    box = {"sandbox_id": arguments["sandbox_id"]}
    while client.tool("read_file", box, path="began").get("isError"):
        assert time.monotonic() < deadline, "it never began"
        time.sleep(0.05)
    pending.cancel()
    after = client.tool("execute_python", box, code="print('free again')", timeout=CANCEL_S)
    assert "free again" in told(after)["text"], after
    return {"content": []}


def progressed(client: Client, step: dict, arguments: dict) -> dict:
    result = client.tool(step["tool"], arguments, token="p%s" % step["name"])
    notes = [params for method, params in client.notes if method == "notifications/progress"]
    said = "".join(params.get("message", "") for params in notes)
    numbers = [params["progress"] for params in notes]
    assert numbers == sorted(set(numbers)), "progress must rise: %r" % numbers
    if client.rev != "2024-11-05":  # which has no message
        for text in step["progress"][:1]:
            assert text in said, (text, said)
    assert numbers, "no progress"
    return result


def warmed(client: Client) -> None:
    """A server of one's own imports its modules first, and answers "still running" where a slow machine takes long."""
    deadline = time.monotonic() + WARM_S
    while "[still running" in told(client.tool("execute_python", session_id="warm", code="import pandas"))["text"]:
        assert time.monotonic() < deadline, "its modules are never imported"


def played(client: Client) -> list:
    kept_values: dict = {}
    story = []
    for step in STORY["steps"]:
        arguments = filled(step["arguments"], kept_values)
        play = cancelled if step.get("cancel") else progressed if "progress" in step else answered
        result = play(client, step, arguments)
        seen = told(result)
        equal((step["name"], seen["error"]), (step["name"], step.get("error", False)))
        for text in step.get("text", []):
            assert text in seen["text"], "%s: %r is not in %r" % (step["name"], text, seen["text"])
        equal((step["name"], seen["images"]), (step["name"], step.get("images", 0)))
        assert set(step.get("files", [])) <= set(seen["files"]), (step["name"], seen)
        for name, member in step.get("keep", {}).items():
            kept_values[name] = json.loads(result["content"][0]["text"])[member]
        story.append((step["name"], seen if step["tool"] != "create_sandbox" else {"images": 0}))
    return story


def answer(method: str, params: dict) -> Any:
    return {"action": "accept", "content": {"line": "Ada"}} if method == "elicitation/create" else None


FIRST: list = []  # the story as the first player told it


def same(client: Client) -> None:
    client.answer = answer
    with client:
        if isinstance(client, Stdio):
            warmed(client)
        story = played(client)
    FIRST.append(story)
    for mine, first in zip(story, FIRST[0]):
        equal(mine, first)


def over_http(rev: str) -> None:
    same(Http(kept().port, rev=rev, **HOW))


def over_sse(rev: str) -> None:
    same(Sse(kept().port, rev=rev, **HOW))


def over_stdio(rev: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # the server has a user of its own
        same(Stdio([KRAIT, "mcp", "--data", folder + "/data"], rev=rev, **HOW))


def player(play: Callable[[str], None], rev: str) -> None:
    def told_alike() -> None:
        play(rev)

    told_alike.__name__ = "%s_%s" % (play.__name__, rev.replace("-", "_"))
    check(told_alike)


for REV in (*reversed(LEGACY), MODERN):
    player(over_http, REV)
player(over_sse, "2024-11-05")
for REV in (*LEGACY, MODERN):
    player(over_stdio, REV)

if __name__ == "__main__":
    main()
