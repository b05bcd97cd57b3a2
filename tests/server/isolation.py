#!/usr/bin/python3
"""Two users under load: neither can see, run in, read, change or even confirm the existence of anything of the other's.

The published document is walked, not a list of our own: for every operation with a parameter that names something, user
B sends what is A's, and the same request with names that never existed. Both must be answered alike to the byte, and
what belongs in the path as 404. A parameter that this file does not know is a failure, so that a new route cannot be
forgotten. Beside each refusal stands its control: A, with the same request, is served.
"""
import base64
import contextlib
import http.client
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlencode

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
from check import check, contains, equal, main  # noqa: E402
from krait_server import KRAIT, Reply, Server  # noqa: E402

SEED = int(os.environ.get("KR_SEED", "0")) or int.from_bytes(os.urandom(4), "big")
PASSWORD = "nobody else knows it"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
# What a parameter names, by where it is and what it is called. `None`: nothing that belongs to a user.
NAMES = {
    ("path", "sandbox_id"): "sandbox", ("query", "sandbox_id"): "sandbox", ("body", "sandbox_id"): "sandbox",
    ("path", "key_id"): "key", ("path", "user_id"): "user", ("query", "user_id"): "user", ("body", "user_id"): "user",
    ("path", "run_id"): "run", ("path", "session_id"): "session",
    ("path", "path"): "file", ("query", "path"): "file", ("query", "file_path"): "file", ("body", "path"): "file",
    ("query", "path_b64"): "file_b64", ("body", "path_b64"): "file_b64",
    ("path", "token"): "token", ("query", "token"): "signature",
    ("query", "session_id"): "session", ("body", "session_id"): "session",
    ("query", "object"): "run", ("query", "request_id"): "request", ("query", "after"): "cursor",
    ("body", "username"): "username", ("query", "run_id"): "run", ("path", "job_id"): "job",
    ("path", "template_id"): "template", ("body", "template"): "template", ("path", "terminal_id"): "terminal",
    ("path", "secret_name"): "secret",
}
PLAIN = set("""limit recursive download after_b64 from since until what outcome cause running all code timeout variables stdin env
    stream file_urls files fresh interactive max_output text eof limits mounts network preload dir file expires_in rights email
    password old new disabled package version background readable verdict allow_build auto_install url overwrite wait system
    packages requirements upgrade allow_similar build description shared cols rows term command data kind rule policy
    profiles allowed_imports value hosts secrets secrets_tls""".split())
TOOLS = "/api/v1/tools"
NOWHERE = "http://127.0.0.1:9/file"  # a private address: its fetch is a job that has failed
NAMED_IN = {"/api/v1/login": "username", "/api/v1/sandboxes": "sandbox", "/api/v1/sandboxes/{sandbox_id}": "sandbox",
            "/api/users/me/sandboxes": "sandbox"}  # what a body's `name` is there; elsewhere it is free


def kind_of(path: str, place: str, name: str):
    """The kind of thing a parameter names, None for a plain value."""
    if (place, name) == ("body", "name"):
        return NAMED_IN.get(path)
    if (place, name) in NAMES:
        return NAMES[place, name]
    assert name in PLAIN, (
        f"{path}: {place} parameter {name!r} is new: say in NAMES what it names, or in PLAIN that it is nothing's name")
    return None


@dataclass
class World:
    """Names of everything a user has, by kind."""
    names: dict = field(default_factory=dict)
    key: str = ""
    secrets: set = field(default_factory=set)


@dataclass
class Operation:
    method: str
    path: str
    rights: list
    path_names: list
    query: list  # (name, required)
    body: dict  # the example, or None
    body_names: list
    media: str


class Walk:
    """The document, and requests made from it."""

    def __init__(self, document: dict) -> None:
        self.document = document
        self.operations = [self.read(path, method, op) for path, ops in document["paths"].items()
                           for method, op in ops.items()
                           if not path.startswith(TOOLS)]
        # A tool answers 200 and says in its result that there is no such thing: they have a check of their own.
        self.tools = [self.read(path, "post", ops["post"]) for path, ops in document["paths"].items()
                      if path.startswith(TOOLS + "/") and "{" not in path]

    def resolve(self, schema: dict) -> dict:
        while "$ref" in schema:
            at = self.document
            for part in schema["$ref"][2:].split("/"):
                at = at[part]
            schema = at
        return schema

    def read(self, path: str, method: str, op: dict) -> Operation:
        parameters = [self.resolve(p) for p in op.get("parameters", [])]
        content = (op.get("requestBody") or {}).get("content", {})
        media = next(iter(content), "")
        schema = self.resolve(content[media].get("schema", {})) if media else {}
        return Operation(method.upper(), path, op.get("x-rights") or [],
                         [p["name"] for p in parameters if p["in"] == "path"],
                         [(p["name"], p.get("required", False)) for p in parameters if p["in"] == "query"],
                         content[media].get("example") if media else None, list(schema.get("properties", {})), media)

    def variants(self, op: Operation) -> list:
        """The optional parameters that name something, one at a time, and none of them."""
        found = [("", "")]
        found += [("query", name) for name, required in op.query if not required and kind_of(op.path, "query", name)]
        found += [("body", name) for name in op.body_names if kind_of(op.path, "body", name)]
        return found

    def request(self, op: Operation, names: dict, variant: tuple) -> tuple:
        """Path, body and headers with these names in it."""
        path = op.path
        for name in op.path_names:
            path = path.replace("{%s}" % name,
                                quote(names[kind_of(op.path, "path", name)] if name not in PLAIN else "six",
                                      safe="/" if name == "path" else ""))
        query = {name: names[kind_of(op.path, "query", name)] for name, required in op.query
                 if required or variant == ("query", name)}
        body, headers = op.body, {}
        if isinstance(body, dict):
            body = {k: names["file"] if kind_of(op.path, "body", k) == "file" else v for k, v in body.items()}
            if variant[0] == "body":
                body[variant[1]] = names[kind_of(op.path, "body", variant[1])]
                if variant[1] == "path_b64":
                    body.pop("path", None)
        if op.media == "multipart/form-data":
            headers["Content-Type"] = "multipart/form-data; boundary=XX"
            part = '--XX\r\nContent-Disposition: form-data; name="%s"; filename="x"\r\n\r\n%s\r\n'
            body = "".join(part % item for item in op.body.items()) + "--XX--\r\n"
        elif op.media == "application/x-www-form-urlencoded":
            headers["Content-Type"] = op.media
            body = urlencode(body)
        return path + ("?" + urlencode(query) if query else ""), body, headers


# ---- what the users have ----

r = random.Random(SEED)
server: Server
walk: Walk
admin = ""
alice: World
bob: World


def made_up(length: int = 26) -> str:
    return "".join(r.choice(ALPHABET) for _ in range(length))


def send(op_method: str, path: str, body=None, headers=None, key: str = "") -> Reply:
    return server.request(op_method, path, body, headers=headers, key=key, timeout=30)


def good(reply: Reply, *statuses: int) -> Reply:
    assert reply.status in (statuses or (200, 201)), f"{reply.status}: {reply.text[:300]}"
    return reply


def cli(*words: str) -> str:
    return subprocess.run([os.path.abspath(KRAIT), *words, "--data", os.path.join(server.data, "data")], check=True,
                          capture_output=True, text=True, timeout=30).stdout.strip()


def stream(key: str, **body) -> str:
    """Begins a run and leaves it; its id."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("POST", "/api/v1/runs", json.dumps(body), {"Authorization": "Bearer " + key})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    for line in answer:  # until it is what it is to be
        if json.loads(line)["type"] in ("queued", "input") or (json.loads(line)["type"] == "started"
                                                               and not body.get("interactive")):
            break
    connection.close()
    return answer.getheader("X-Run-Id")


def furnish(who: World) -> World:
    """A sandbox with a file, a session with a variable, a run of every state, a key, a link: all new."""
    mark = made_up(10)
    w = World(key=who.key)
    session, busy, asking = f"session-{mark}", f"busy-{mark}", f"asking-{mark}"
    box = good(send("POST", "/api/v1/sandboxes", {"name": f"box-{mark}", "env": {f"ENV_{mark}": "x"}},
                    key=w.key)).json()
    file = f"file-{mark}.txt"
    good(send("PUT", f"/api/v1/sandboxes/{box['id']}/files/{file}", f"content-{mark}", key=w.key))
    ended = good(send("POST", "/api/v1/runs", {"code": f"secret = 'variable-{mark}'\nsecret", "stream": False,
                                               "sandbox_id": box["id"], "session_id": session}, key=w.key))
    running = stream(w.key, code=f"mark = '{mark}'\nimport time\ntime.sleep(600)", sandbox_id=box["id"],
                     session_id=busy, timeout=3000)
    queued = stream(w.key, code=f"'queued-{mark}'", sandbox_id=box["id"], session_id=busy)
    waiting = stream(w.key, code=f"input('prompt-{mark}')", sandbox_id=box["id"], session_id=asking,
                     interactive=True, timeout=3000)
    key = good(send("POST", "/api/v1/keys", {"name": f"key-{mark}"}, key=w.key)).json()
    link = good(send("POST", f"/api/v1/sandboxes/{box['id']}/links", {"path": file}, key=w.key)).json()["url"]
    token = re.search(r"/files/([^/]+)/", link).group(1)
    job = good(send("POST", f"/api/v1/sandboxes/{box['id']}/fetches", {"url": NOWHERE, "wait": 30}, key=w.key)).json()
    template = good(send("POST", "/api/v1/templates", {"sandbox_id": box["id"], "name": f"template-{mark}"},
                         key=w.key)).json()
    terminals = [good(send("POST", "/api/v1/terminals", {"sandbox_id": box["id"], "command": [program]},
                           key=w.key)).json()["terminal_id"] for program in ("cat", "true")]
    secret = "secret-" + mark
    good(send("PUT", "/api/v1/secrets/" + secret, {"value": f"value-of-{mark}", "hosts": [f"{mark}.example"]}, key=w.key))
    w.names = {**who.names, "secret": [secret], "sandbox": [box["id"], box["name"]], "file": [file],
               "file_b64": [base64.b64encode(file.encode()).decode()],
               "session": [session, busy], "run": [ended.json()["run_id"], running, queued, waiting],
               "job": [job["job_id"]], "template": [template["id"], template["name"]], "terminal": terminals,
               "key": [key["id"]], "token": [token], "signature": [token], "request": [ended.header("x-request-id")]}
    w.secrets = who.secrets | {mark}  # it is in every name and text, and the ids are their own
    w.secrets |= {box["id"], ended.json()["run_id"], running, queued, waiting, key["id"], key["prefix"],
                  w.names["request"][0], job["job_id"], template["id"], *terminals}
    return w


def make_user(name: str, through_cli: bool = False, **more) -> World:
    w = World()
    user = good(send("POST", "/api/v1/users", {"name": name, "email": name + "@example.org", **more}, key=admin)).json()
    if through_cli:
        w.key = cli("keys", "create", "--user", name, "--name", "first")
    else:
        w.key = good(send("POST", "/api/v1/keys", {"user": user["id"], "name": "first"}, key=admin)).json()["key"]
    w.names = {"user": [user["id"]], "username": [name]}
    w.secrets = {user["id"], name, w.key}
    return w


def cursors(w: World) -> None:
    """Of a list with more than one page."""
    w.names["cursor"] = [good(send("GET", "/api/v1/runs?limit=1", key=w.key)).json()["next"]]


def never(world: World) -> dict:
    """Names of the same form that no user ever had. A link is one of B's own for another sandbox: a made-up one fails
    for its form."""
    own = bob.names["token"][0]
    box = made_up()
    return {"sandbox": box, "file": "no-such-file.txt", "file_b64": base64.b64encode(b"no-such-file.txt").decode(),
            "session": "no-such-session", "run": made_up(), "job": made_up(), "template": made_up(), "secret": made_up(),
            "terminal": made_up(), "key": made_up(), "user": made_up(),
            "username": "nobody-" + made_up(6), "request": made_up(16),
            "token": own.replace(bob.names["sandbox"][0], box), "signature": own.replace(bob.names["sandbox"][0], box),
            "cursor": world.names["cursor"][0]}


def stolen(world: World) -> list:
    """Every thing of A's in turn, the others beside it."""
    first = {kind: values[0] for kind, values in world.names.items()}
    own, box = bob.names["token"][0], world.names["sandbox"][0]
    first["token"] = first["signature"] = own.replace(bob.names["sandbox"][0], box)
    return [{**first, kind: value} for kind, values in world.names.items()
            if kind not in ("token", "signature", "cursor")
            for value in values if kind == "sandbox" or value != values[0]]


# ---- comparing ----

def plain(reply: Reply, sent: dict) -> tuple:
    """An answer without what differs from request to request."""
    text = re.sub(r'"request_id": ?"[^"]*"', '"request_id":""', reply.text)
    for value in sorted(set(map(str, sent.values())), key=len, reverse=True):
        text = text.replace(value, "*")
    return reply.status, sorted(name for name in reply.headers if name != "content-length"), text


def tells(reply: Reply, sent: dict, secrets: set) -> list:
    """What of A's is in an answer to B, beyond what B has said himself."""
    text = reply.text + " ".join(reply.headers.values())
    said = " ".join(map(str, sent.values()))
    return [one for one in secrets if one in text and one not in said]


def makes_something(op: Operation) -> bool:
    """A session, a sandbox, a run of one's own, under a name that may be A's as well."""
    return op.method == "POST" and not op.path_names or op.path == "/api/v1/secrets/{secret_name}" and op.method == "PUT"


def try_operation(op: Operation, problems: list) -> int:
    """B tries everything of A's at one operation. How many requests."""
    count = 0
    # A user who makes things under A's names has some that look like A's from then on.
    thief = make_user("thief-" + made_up(8)) if makes_something(op) else bob
    for variant in walk.variants(op):
        if not op.path_names and variant == ("", "") and not any(required for _name, required in op.query):
            continue  # nothing of A's is in it
        nothing = never(alice)
        there_is_none = send(op.method, *walk.request(op, nothing, variant), key=thief.key)
        tried = set()
        for names in stolen(alice):
            request = walk.request(op, names, variant)
            if str(request) in tried:
                continue
            tried.add(str(request))
            reply = send(op.method, *request, key=thief.key)
            count += 1
            where = f"{op.method} {request[0]} {variant}"
            leaks = tells(reply, names, alice.secrets)
            if leaks:
                problems.append(f"{where} tells {leaks}: {reply.text[:200]}")
            not_yours = 403 if "admin" in op.rights else 404
            if op.path_names and reply.status != not_yours and "token" not in op.path_names and \
                    not makes_something(op):
                problems.append(f"{where} is {reply.status}: {reply.text[:200]}")
            same = reply.status == there_is_none.status if makes_something(op) and reply.status < 300 else \
                plain(reply, names) == plain(there_is_none, nothing)
            if not same:
                problems.append(
                    f"{where}: {plain(reply, names)}, but of what never was: {plain(there_is_none, nothing)}")
    return count


# ---- load ----

over = threading.Event()
load_problems: list = []
load_runs = [0]


def work(who: World, others: World, name: str) -> None:
    i = 0
    while not over.wait(0.02):
        i += 1
        text = f"{name}-{made_up(8)}"
        try:
            reply = send("POST", "/api/v1/runs", {"code": f"print({text!r})", "stream": False,
                                                  "session_id": f"load-{i % 3}", "fresh": i % 7 == 0}, key=who.key)
            told = reply.json()
            if told.get("stdout") != text + "\n":
                load_problems.append(f"{name}: {reply.status} {reply.text[:200]}")
            load_runs[0] += 1
            if i % 5 == 0:
                lists = "".join(send("GET", p, key=who.key).text
                                for p in ("/api/v1/runs", "/api/v1/sessions", "/api/v1/sandboxes"))
                load_problems.extend(f"{name} sees {one}" for one in others.secrets if one in lists)
        except (OSError, http.client.HTTPException, ValueError) as e:
            load_problems.append(f"{name}: {type(e).__name__} {e}")
            return


# ---- checks ----

def tool_arguments(op: Operation, names: dict) -> dict:
    """What the tool's example says, with these names in it."""
    body = dict(op.body or {})
    known = {"sandbox_id": "sandbox", "session_id": "session", "run_id": "run", "path": "file"}
    body.update({name: names[kind] for name, kind in known.items() if name in op.body_names})
    return {k: v for k, v in body.items() if k in op.body_names}


@check
def tools_know_nothing_of_the_other():
    """Every tool that names something, with A's names: the same answer as for what never was, and nothing of A's in
    it."""
    tried, problems = 0, []
    thing = furnish(alice)
    for op in walk.tools:
        if not {"sandbox_id", "run_id"} & set(op.body_names) and op.path != TOOLS + "/terminate_session":
            continue
        nothing = tool_arguments(op, {kind: value for kind, value in never(alice).items()})
        none = good(send("POST", op.path, nothing, key=bob.key), 200, 400, 404)
        if none.status == 200 and none.json().get("isError") is not True:
            problems.append(f"{op.path} finds what never was: {none.text[:200]}")
        for box, run in zip(thing.names["sandbox"] * 2, thing.names["run"]):
            names = {"sandbox": box, "run": run, "file": thing.names["file"][0], "session": thing.names["session"][0]}
            sent = tool_arguments(op, names)
            reply = good(send("POST", op.path, sent, key=bob.key), 200, 400, 404)
            tried += 1
            if reply.status != none.status or plain(reply, sent) != plain(none, nothing):
                problems.append(f"{op.path}: {plain(reply, sent)}, but of what never was: {plain(none, nothing)}")
            problems += [f"{op.path} tells {one}" for one in tells(reply, sent, thing.secrets)]
    assert tried >= 20, tried
    assert not problems, "; ".join(problems[:5])
    # The owner is served with the very same words.
    own = {"sandbox": thing.names["sandbox"][0], "run": thing.names["run"][0], "file": thing.names["file"][0],
           "session": thing.names["session"][0]}
    served = [op.path for op in walk.tools
              if op.path in (TOOLS + "/get_sandbox_info", TOOLS + "/read_file", TOOLS + "/read_run")
              and not good(send("POST", op.path, tool_arguments(op, own), key=alice.key), 200).json().get("isError")]
    equal(len(served), 3)


@check
def lists_never_show_the_other():
    """Every GET without a name in its path, to its last page. First of all: later B's own audit has the ids that B has
    tried."""
    pages = 0
    for op in walk.operations:
        if op.method != "GET" or op.path_names or any(required for _n, required in op.query):
            continue
        after = ""
        for _ in range(50):
            query = {"limit": 20} if any(n == "limit" for n, _ in op.query) else {}
            reply = send("GET", op.path + ("?" + urlencode({**query, **({"after": after} if after else {})}) if query
                                           else ""), key=bob.key)
            leaks = tells(reply, {}, alice.secrets)
            assert not leaks, f"{op.path} shows {leaks}: {reply.text[:300]}"
            pages += 1
            after = reply.json().get("next") if query and reply.status == 200 else None
            if not after:
                break
    assert pages > 15, pages


@check
def every_operation_with_a_name_is_refused_to_the_other():
    problems, requests, operations = [], 0, 0
    for op in walk.operations:
        places = (("path", op.path_names), ("query", [q for q, _ in op.query]), ("body", op.body_names))
        # a list: every one is looked at
        if any([kind_of(op.path, place, name) for place, names in places for name in names]):
            operations += 1
            requests += try_operation(op, problems)
    print(f"{requests} requests with A's names at {operations} operations")
    assert not problems, f"seed {SEED}: {len(problems)}: " + "; ".join(problems[:5])
    assert operations >= 35 and requests >= 100, (operations, requests)


@check
def every_other_method_is_as_unknown():
    """Also where the document has no operation: the answer must not depend on whose the id is."""
    problems = []
    for path in {op.path for op in walk.operations if op.path_names}:
        known = {op.method for op in walk.operations if op.path == path}
        model = next(op for op in walk.operations if op.path == path)
        for method in METHODS:
            if method in known:
                continue
            op = Operation(method, path, model.rights, model.path_names, [], None, [], "")
            nothing = never(alice)
            there_is_none = send(method, *walk.request(op, nothing, ("", "")), key=bob.key)
            for names in stolen(alice):
                reply = send(method, *walk.request(op, names, ("", "")), key=bob.key)
                if plain(reply, names) != plain(there_is_none, nothing) or reply.status < 400:
                    problems.append(f"{method} {path}: {plain(reply, names)} and {plain(there_is_none, nothing)}")
    assert not problems, "; ".join(problems[:5])


@check
def audit_shows_only_ones_own():
    rows, after = [], ""
    while after is not None:
        page = good(send("GET", "/api/v1/audit?limit=200" + ("&after=" + after if after else ""), key=bob.key)).json()
        rows += page["rows"]
        after = page["next"]
    assert rows and {row["user"] for row in rows} == {bob.names["user"][0]}, {row["user"] for row in rows}
    mine = good(send("GET", f"/api/v1/audit?object={alice.names['run'][0]}", key=alice.key)).json()["rows"]
    assert mine, "the control: A sees her own"
    equal(good(send("GET", f"/api/v1/audit?object={alice.names['run'][0]}", key=bob.key)).json()["rows"], [])


@check
def a_session_of_the_same_name_is_another():
    name = alice.names["session"][0]
    thief = make_user("thief-" + made_up(8))
    told = good(send("POST", "/api/v1/runs", {"code": "'secret' in globals()", "session_id": name, "stream": False},
                     key=thief.key)).json()
    equal(told["result"], "False")
    told = good(send("POST", "/api/v1/runs", {"code": "secret", "session_id": name,
                                              "sandbox_id": alice.names["sandbox"][0], "stream": False}, key=alice.key)).json()
    contains(told["result"], "variable-")


@check
def nothing_of_the_other_was_touched():
    """After all that B has tried."""
    key, box, file = alice.key, alice.names["sandbox"], alice.names["file"][0]
    ended, running, queued, waiting = alice.names["run"]
    equal(good(send("GET", f"/api/v1/sandboxes/{box[0]}", key=key)).json()["name"], box[1])
    assert good(send("GET", f"/api/v1/sandboxes/{box[0]}/files/{file}", key=key)).text.startswith("content-")
    files = good(send("GET", f"/api/v1/sandboxes/{box[0]}/files?recursive=true", key=key)).json()["files"]
    equal([f["path"] for f in files], [file])
    for run in (running, queued, waiting):
        assert good(send("GET", f"/api/v1/runs/{run}", key=key)).json()["still_running"], run
    equal(good(send("GET", f"/api/v1/keys/{alice.names['key'][0]}", key=key)).json()["revoked_at"], None)
    equal(good(send("GET", f"/api/v1/users/{alice.names['user'][0]}", key=admin)).json()["disabled_at"], None)
    good(send("POST", f"/api/v1/runs/{waiting}/input", {"text": "from A"}, key=key), 202)
    lines = good(send("GET", f"/api/v1/runs/{waiting}/events", key=key)).lines()
    contains([line.get("text") for line in lines], "'from A'")
    good(send("POST", f"/api/v1/runs/{running}/cancel", key=key), 202)
    assert good(send("GET", f"/api/v1/runs/{queued}/events", key=key)).lines()[-1]["cause"] == "ok"


@check
def the_owner_is_served_at_every_operation():
    """The control: the same requests, by the user whom the things belong to."""
    problems, served = [], 0
    for op in walk.operations:
        if not op.path_names and not any(required for _n, required in op.query):
            continue
        admin_only = "admin" in op.rights
        w = furnish(alice)
        names = {kind: values[0] for kind, values in w.names.items()}
        if op.path.endswith("/input"):
            names["run"] = w.names["run"][3]
        elif op.path.endswith(("/cancel", "/interrupt")):
            names["run"], names["session"] = w.names["run"][1], w.names["session"][1]
        elif op.path.endswith("/folders"):
            names["file"] = "new"
        elif op.path.endswith("/output"):
            names["terminal"] = w.names["terminal"][1]  # that has ended, and its output with it
        elif op.path.endswith("/socket"):
            continue  # a WebSocket
        if admin_only:
            names["user"] = good(send("POST", "/api/v1/users", {"name": "user-" + made_up(8)}, key=admin)).json()["id"]
        request = walk.request(op, names, ("", ""))
        reply = send(op.method, *request, key=admin if admin_only else w.key)
        served += 1
        if op.path_names == ["job_id"] and op.method != "GET":
            equal(reply.status, 409, reply.text)  # it is found, and has ended
        elif not 200 <= reply.status < 300:
            problems.append(f"{op.method} {request[0]} is {reply.status}: {reply.text[:200]}")
        if not (op.method == "DELETE" and op.path_names == ["sandbox_id"]):
            good(send("DELETE", f"/api/v1/sandboxes/{w.names['sandbox'][0]}", key=w.key), 204)
    print(f"{served} operations served to their owner")
    assert served >= 30 and not problems, "; ".join(problems[:5])


@check
def rights_are_held_to():
    """A read-only key runs nothing, a run key administers nothing, at every operation that says what it needs."""
    user = alice.names["user"][0]
    keys = {"read": good(send("POST", "/api/v1/keys", {"user": user, "rights": ["read"]}, key=admin)).json()["key"],
            "run": good(send("POST", "/api/v1/keys", {"user": user, "rights": ["read", "run"]},
                             key=admin)).json()["key"]}
    w = furnish(alice)
    names = {kind: values[0] for kind, values in w.names.items()}
    refused, allowed, problems = 0, 0, []
    for op in walk.operations:
        request = walk.request(op, names, ("", ""))
        if "run" in op.rights or "admin" in op.rights:
            for key in ("read",) if "run" in op.rights else ("read", "run"):
                reply = send(op.method, *request, key=keys[key])
                refused += 1
                if reply.status != 403:
                    problems.append(f"{op.method} {op.path} by a {key} key: {reply.status}")
        elif op.rights == ["read"] and op.method == "GET" and not op.path.endswith(("events", "output", "socket")):
            reply = send(op.method, *request, key=keys["read"])
            allowed += 1
            if not 200 <= reply.status < 300:
                problems.append(f"{op.method} {op.path} by a read key: {reply.status} {reply.text[:100]}")
    # nothing was deleted
    equal(good(send("GET", f"/api/v1/sandboxes/{names['sandbox']}/files/{names['file']}", key=w.key)).status, 200)
    assert not problems and refused > 20 and allowed > 8, (refused, allowed, problems[:5])
    equal(send("POST", "/api/v1/keys", {"rights": ["read", "run"]}, key=keys["read"]).status, 403)
    for body in ({"rights": ["admin"]}, {"user": bob.names["user"][0]}, {"user": "root"}):
        assert send("POST", "/api/v1/keys", body, key=keys["run"]).status in (403, 404), body
    equal(send("GET", "/api/v1/keys?all=true", key=keys["run"]).status, 403)
    good(send("DELETE", f"/api/v1/sandboxes/{names['sandbox']}", key=w.key), 204)


@check
def a_revoked_key_is_refused_at_once():
    made = good(send("POST", "/api/v1/keys", {}, key=bob.key)).json()
    equal(send("GET", "/api/v1/users/me", key=made["key"]).status, 200)
    good(send("DELETE", f"/api/v1/keys/{made['id']}", key=bob.key), 200, 204)
    equal(send("GET", "/api/v1/users/me", key=made["key"]).status, 401)
    equal(send("POST", "/api/v1/runs", {"code": "1"}, key=made["key"]).status, 401)
    second = good(send("POST", "/api/v1/keys", {}, key=bob.key)).json()
    equal(send("GET", "/api/v1/users/me", key=second["key"]).status, 200)
    cli("keys", "revoke", second["id"])
    time.sleep(2.1)  # what the command line changes counts two seconds later at the latest
    equal(send("GET", "/api/v1/users/me", key=second["key"]).status, 401)


@check
def a_disabled_user_is_refused_at_once():
    w = make_user("carol", through_cli=True, password=PASSWORD)
    equal(send("GET", "/api/v1/users/me", key=w.key).status, 200)
    running = stream(w.key, code="import time\ntime.sleep(600)")
    good(send("PATCH", f"/api/v1/users/{w.names['user'][0]}", {"disabled": True}, key=admin))
    for method, path, body in (("GET", "/api/v1/users/me", None), ("POST", "/api/v1/runs", {"code": "1"}),
                               ("GET", f"/api/v1/runs/{running}", None)):
        equal(send(method, path, body, key=w.key).status, 403, path)
    equal(send("POST", "/api/v1/login", {"name": "carol", "password": PASSWORD}, key="").status // 100, 4)
    good(send("PATCH", f"/api/v1/users/{w.names['user'][0]}", {"disabled": False}, key=admin))
    deadline = time.monotonic() + 20
    while ((told := good(send("GET", f"/api/v1/runs/{running}", key=w.key)).json())["still_running"]
           and time.monotonic() < deadline):
        time.sleep(0.05)
    assert told["cause"] == "cancelled", told
    cli("users", "disable", "carol")
    time.sleep(2.1)
    equal(send("GET", "/api/v1/users/me", key=w.key).status, 403)


@check
def the_load_was_served_and_saw_nothing():
    over.set()
    for one in workers:
        one.join(30)
    assert not load_problems, f"{len(load_problems)}: {load_problems[:3]}"
    assert load_runs[0] > 50, load_runs
    print(f"{load_runs[0]} runs of both beside it")


@check
def every_reply_was_as_published():
    equal(server.problems, [])


workers: list = []


def start() -> None:
    global server, walk, admin, alice, bob
    print(f"seed {SEED}", flush=True)
    server = Server(args=["--require-auth", "--log-level", "warn", "--linger", "1h", "--max-templates-per-user", "0",
                          "--fetch-network", "allow:127.0.0.1:9", "--pypi-index-url", os.path.dirname(os.path.abspath(__file__))])
    server.__enter__()
    admin = server.key = cli("keys", "create")
    walk = Walk(send("GET", "/openapi.json", key=admin).json())
    alice, bob = furnish(make_user("alice-" + made_up(6),
                                   password=PASSWORD)), furnish(make_user("bob-" + made_up(6), through_cli=True))
    cursors(alice)
    cursors(bob)
    workers.extend(threading.Thread(target=work, args=args, daemon=True)
                   for args in ((alice, bob, "A"), (bob, alice, "B")))
    for one in workers:
        one.start()


if __name__ == "__main__":
    start()
    try:
        main()
    finally:
        over.set()
        with contextlib.suppress(Exception):
            server.close(check=False)
