#!/usr/bin/python3
"""MCP's transports over HTTP: Streamable HTTP of every revision, sessions, streams that are picked up again, HTTP+SSE,
the paths they are at, and who may use them.
"""
from __future__ import annotations

import atexit
import functools
import json
import os
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))

from check import check, contains, equal, main  # noqa: E402
from krait_server import Server  # noqa: E402
from mcp import LEGACY, META, MODERN, Http, HttpError, RpcError, Sse, events  # noqa: E402

JSON = {"Content-Type": "application/json"}
BOTH = {**JSON, "Accept": "application/json, text/event-stream"}
PING = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
ROOT_KEY = "root-key-of-the-transport-suite"
SLOW = "import time\nfor i in range(%d):\n    print(i, flush=True)\n    time.sleep(0.2)"


@functools.cache
def server() -> Server:
    s = Server(validate=False).start()
    atexit.register(s.close, False)
    return s


@functools.cache
def keyed() -> Server:
    s = Server(args=["--require-auth", "--public-url", "http://krait.example.org", "--authorization-servers",
                     "https://login.example.org"], env={"API_KEY": ROOT_KEY}, key=ROOT_KEY, validate=False).start()
    atexit.register(s.close, False)
    return s


@functools.cache
def user_key(name: str) -> str:
    who = keyed().post("/api/v1/users", {"name": name, "rights": ["read", "run"]}).json()["id"]
    return keyed().post("/api/v1/keys", {"user": who, "name": "k", "rights": ["read", "run"]}).json()["key"]


def client(**how) -> Http:
    return Http(server().port, **how)


def initialize(rev: str = "2025-11-25", id=0) -> dict:
    return {"jsonrpc": "2.0", "id": id, "method": "initialize",
            "params": {"protocolVersion": rev, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}


# ---- every revision --------------------------------------------------------------------------------


@check
def every_revision_runs_code():
    for rev in (*LEGACY, MODERN):
        with client(rev=rev) as c:
            equal(c.text("execute_python", code="print(6 * 7)", session_id="t"), "42", rev)
            equal(c.rev, rev)
            result = c.tool("execute_python", code="print(1)", session_id="t")
            equal("resultType" in result, rev == MODERN, rev)
            # Nothing but the answer went out: one JSON object, no stream.
            assert all(kind.startswith("application/json") for kind in c.types), c.types


@check
def an_unknown_version_becomes_the_newest_with_a_handshake():
    for asked in ("1999-01-01", MODERN, ""):
        status, headers, body = client().raw(initialize(asked))
        equal((status, json.loads(body)["result"]["protocolVersion"]), (200, "2025-11-25"))
        assert headers["mcp-session-id"].isascii() and len(headers["mcp-session-id"]) >= 22, headers


@check
def discover_says_what_there_is():
    with client(rev=MODERN) as c:
        found = c.call("server/discover")
    equal(found["supportedVersions"], [MODERN])
    equal(found["resultType"], "complete")
    assert found["ttlMs"] >= 0 and found["cacheScope"] in ("public", "private"), found
    equal(found["_meta"][META + "serverInfo"]["name"], "krait")
    contains(found["instructions"], "session_id")
    assert "tools" in found["capabilities"] and "tasks" not in found["capabilities"], found


@check
def answers_of_the_modern_era_have_their_status():
    c = client(rev=MODERN)
    head = c.head(c.request("tools/list"))

    def post(message: dict, **more) -> tuple:
        status, _, body = c.raw(message, {**c.head(message), **more})
        error = json.loads(body).get("error", {})
        equal(json.loads(body).get("id"), message["id"])
        return status, error.get("code")

    listing = c.request("tools/list")
    equal(post(listing), (200, None))
    equal(post(c.request("foo/bar")), (404, -32601))
    for gone in ("initialize", "ping", "logging/setLevel", "resources/subscribe"):
        equal(post(c.request(gone)), (404, -32601), gone)
    equal(post(listing, **{"Mcp-Method": "tools/call"}), (400, -32020))
    equal(post(listing, **{"MCP-Protocol-Version": "2025-11-25"}), (400, -32020))
    bare = {"jsonrpc": "2.0", "id": "x", "method": "tools/list", "params": {}}
    equal(post(bare), (400, -32602))
    other = c.request("tools/list")
    other["params"]["_meta"][META + "protocolVersion"] = "2099-01-01"
    status, _, body = c.raw(other, {**head, "MCP-Protocol-Version": "2099-01-01"})
    equal((status, json.loads(body)["error"]["code"], json.loads(body)["error"]["data"]),
          (400, -32022, {"supported": [MODERN], "requested": "2099-01-01"}))
    call = c.request("tools/call", {"name": "no_such_tool", "arguments": {}})
    equal(post(call), (200, -32602))
    equal(post(call, **{"Mcp-Name": "=?base64?bm9fc3VjaF90b29s?="}), (200, -32602))
    equal(post(call, **{"Mcp-Name": "=?base64?bm9fc3VjaF90b29?="}), (400, -32020))


@check
def notifications_and_answers_are_taken_without_a_word():
    c = client(rev=MODERN)
    note = {"jsonrpc": "2.0", "method": "notifications/whatever"}
    equal(c.raw(note)[0::2], (202, b""))
    equal(client().raw(note)[0::2], (202, b""))
    equal(client().raw({"jsonrpc": "2.0", "id": 0, "result": {}})[0], 202)
    equal(c.raw({"jsonrpc": "2.0", "id": 0, "result": {}})[0], 400)


# ---- sessions --------------------------------------------------------------------------------------


@check
def a_session_lives_until_it_is_deleted():
    c = client()
    c.open()
    equal(c.call("ping"), {})
    head = c.head()
    equal(c.raw(None, head, "DELETE")[0::2], (200, b""))
    for method, body in (("POST", PING), ("GET", None), ("DELETE", None)):
        equal(c.raw(body, {**head, "Accept": BOTH["Accept"]}, method)[0], 404, method)
    equal(c.raw(None, JSON, "DELETE")[0], 400)


@check
def a_refused_handshake_makes_no_session():
    bad = initialize()
    bad["params"]["protocolVersion"] = 7
    status, headers, body = client().raw(bad)
    equal((status, json.loads(body)["error"]["code"]), (200, -32602))
    assert "mcp-session-id" not in headers, headers


@check
def without_a_session_each_request_stands_alone():
    listing = {"jsonrpc": "2.0", "id": "a", "method": "tools/list"}
    status, headers, body = client().raw(listing, JSON)
    equal(status, 200)
    assert json.loads(body)["result"]["tools"] and "mcp-session-id" not in headers, headers
    # 2025-03-26 is what a client without the header speaks: no titles, no output schemas.
    assert not any("outputSchema" in tool for tool in json.loads(body)["result"]["tools"])
    equal(client().raw(PING, {**JSON, "Mcp-Session-Id": "nobody"})[0], 404)
    equal(client().raw(PING, {**JSON, "MCP-Protocol-Version": "1999-01-01"})[0], 400)
    status, headers, _ = client().raw(None, {"Accept": "text/event-stream"}, "GET")
    equal(status, 405)
    contains(headers["allow"], "POST")
    subscribe = {"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "a:b"}}
    equal(json.loads(client().raw(subscribe, JSON)[2])["error"]["code"], -32600)


@check
def batches_are_of_2025_03_26_only():
    batch = [PING, {"jsonrpc": "2.0", "method": "notifications/initialized"}, {**PING, "id": "b"}]
    with client(rev="2025-03-26") as c:
        status, _, body = c.raw(batch, {**c.head(), "MCP-Protocol-Version": "2025-03-26"})
        equal((status, sorted(str(one["id"]) for one in json.loads(body))), (200, ["0", "b"]))
        equal(c.raw(batch[1:2], c.head())[0], 202)
        equal(c.raw([], c.head())[0], 400)
        equal(c.raw([initialize()], c.head())[0], 400)
        equal(c.raw([PING] * 101, c.head())[0], 400)
    equal(client().raw(batch, JSON)[0], 200)
    for rev in ("2025-06-18", "2025-11-25"):
        with client(rev=rev) as c:
            status, _, body = c.raw(batch, c.head())
            equal((status, json.loads(body)["error"]["code"]), (400, -32600), rev)
    equal(client(rev=MODERN).raw([PING], {**JSON, "MCP-Protocol-Version": MODERN})[0], 400)


@check
def ids_are_echoed_as_they_came():
    with client() as c:
        for id in (0, "", "0", -1, 2**53, "é\u0001", "x" * 1000):
            status, _, body = c.raw({**PING, "id": id}, c.head())
            equal((status, json.loads(body)["id"]), (200, id))


# ---- streams ---------------------------------------------------------------------------------------


@check
def progress_makes_the_answer_a_stream():
    for rev in ("2025-03-26", "2025-11-25", MODERN):
        with client(rev=rev) as c:
            result = c.tool("execute_python", code=SLOW % 3, session_id="t", token=0)
            contains(result["content"][0]["text"], "2")
            assert c.types[-1].startswith("text/event-stream"), c.types
            told = [params for name, params in c.notes if name == "notifications/progress"]
            assert told and all(params["progressToken"] == 0 for params in told), c.notes
            rising = [params["progress"] for params in told]
            equal(rising, sorted(set(rising)))
            # Only 2025-11-25 begins with an event without data: older clients choke on it, newer ones have no ids.
            equal(len(c.primed), 1 if rev == "2025-11-25" else 0, rev)
            equal(bool(c.last_event), rev != MODERN, rev)


@check
def a_client_that_takes_no_events_gets_json():
    with client() as c:
        message = c.request("tools/call",
                            {"name": "execute_python", "arguments": {"code": SLOW % 8, "session_id": "t"}},
                            token="p")
        status, headers, body = c.raw(message, {**c.head(), "Accept": "application/json"})
        equal((status, headers["content-type"]), (200, "application/json"))
        contains(json.loads(body)["result"]["content"][0]["text"], "7")


@check
def a_long_answer_begins_as_a_stream():
    with client() as c:
        c.tool("execute_python", code="import time; time.sleep(2.5)", session_id="t")
        assert c.types[-1].startswith("text/event-stream") and len(c.primed) == 1, (c.types, c.primed)


class Cut:
    """A call whose connection is cut after its first event; `c` goes on without it."""

    def __init__(self, c: Http, code: str, token="t") -> None:
        message = c.request("tools/call", {"name": "execute_python", "arguments": {"code": code, "session_id": "cut"}},
                            token=token)
        connection = c.connect()
        connection.request("POST", c.path, json.dumps(message).encode(), c.head(message))
        reply = connection.getresponse()
        equal(reply.getheader("Content-Type"), "text/event-stream")
        self.first = next(one for one in events(reply) if "id" in one)
        self.id = message["id"]
        reply.close()
        connection.close()


def resumed(c: Http, last: str) -> list:
    """Messages of the stream that is picked up, until its end."""
    connection = c.connect()
    connection.request("GET", c.path, headers={**c.head(), "Accept": "text/event-stream", "Last-Event-ID": last})
    reply = connection.getresponse()
    equal(reply.status, 200)
    found = [(one["id"], json.loads(one["data"])) for one in events(reply) if one.get("data")]
    connection.close()
    return found


@check
def a_stream_is_picked_up_where_it_broke():
    with client() as c:
        cut = Cut(c, SLOW % 6)
        found = resumed(c, cut.first["id"])
        equal([message["id"] for _, message in found if "result" in message], [cut.id])
        contains(found[-1][1]["result"]["content"][0]["text"], "5")
        ids = [id for id, _ in found]
        equal(len(set(ids)), len(ids), "ids are unique")
        # Once more, from the middle: the same events, no more and no fewer.
        equal(resumed(c, ids[-2]), found[-1:])
        equal(resumed(c, cut.first["id"]), found)
        for wrong in ("9999_0", "x", "0_99", "", cut.first["id"].split("_")[0] + "_9999", "1_-1", "1_1_1"):
            status = c.raw(None, {**c.head(), "Accept": "text/event-stream", "Last-Event-ID": wrong or " "}, "GET")[0] \
                if wrong else 400
            equal(status, 400, wrong)


@check
def leaving_is_not_cancelling_before_2026():
    with client() as c:
        c.text("execute_python", code="left = 0", session_id="cut")
        Cut(c, "import time\nfor left in range(8):\n    print(left, flush=True)\n    time.sleep(0.1)")
        equal(c.text("execute_python", code="print(left)", session_id="cut"), "7")


@check
def leaving_is_cancelling_since_2026():
    with client(rev=MODERN) as c:
        c.text("execute_python", code="left = 0", session_id="gone")
        pending = c.begin("tools/call", {"name": "execute_python", "arguments": {
            "session_id": "gone",
            "code": "import time\nfor left in range(600):\n    print(left, flush=True)\n    time.sleep(0.1)"}},
            token=1)
        c.noted("notifications/progress")
        pending.cancel()
        left = int(c.text("execute_python", code="print(left)", session_id="gone", timeout=30))
        assert left < 100, left


@check
def a_cancelled_request_is_not_answered():
    with client() as c:
        pending = c.begin("tools/call", {"name": "execute_python", "arguments": {
            "session_id": "stop",
            "code": "import time\nfor i in range(600):\n    print(i, flush=True)\n    time.sleep(0.1)"}},
            token=1)
        c.noted("notifications/progress")
        pending.cancel()
        try:
            pending.result(20)
        except ConnectionError:
            pass  # its stream ended without one
        else:
            raise AssertionError("it was answered")
        # and one that does not take events
        message = c.request("tools/call", {"name": "execute_python", "arguments": {
            "session_id": "stop", "code": "import time; time.sleep(30)"}}, id="quiet")
        got: list = []
        thread = threading.Thread(target=lambda: got.append(c.raw(message, {**c.head(), "Accept": "application/json"})))
        thread.start()
        time.sleep(0.5)
        c.notify("notifications/cancelled", {"requestId": "quiet"})
        thread.join(20)
        equal([one[0::2] for one in got], [(202, b"")])


@check
def a_session_has_one_stream_of_its_own():
    with client() as c:
        c.stream()
        try:
            c.stream()
        except HttpError as e:
            equal(e.status, 409)
        else:
            raise AssertionError("a second one was opened")
        status = c.raw(None, {**c.head(), "Accept": "application/json"}, "GET")[0]
        equal(status, 406)


@check
def subscribers_hear_of_changes():
    with client() as c, client(rev=MODERN) as m:
        c.text("execute_python", code="open('/workspace/watched.txt', 'w').write('1')", session_id="w")
        uri = next(one["uri"] for one in c.call("resources/list")["resources"] if one["uri"].endswith("watched.txt"))
        c.stream()
        equal(c.call("resources/subscribe", {"uri": uri}), {})
        listen = m.begin("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}}, id="L1")
        ack = m.noted("notifications/subscriptions/acknowledged")[0]
        equal(ack["notifications"], {"resourceSubscriptions": [uri]})
        equal(ack["_meta"][META + "subscriptionId"], "L1")
        c.text("execute_python", code="open('/workspace/watched.txt', 'w').write('22')", session_id="w")
        equal(c.noted("notifications/resources/updated")[0]["uri"], uri)
        told = m.noted("notifications/resources/updated")[0]
        equal((told["uri"], told["_meta"][META + "subscriptionId"]), (uri, "L1"))
        equal(c.call("resources/unsubscribe", {"uri": uri}), {})
        before = len(c.notes)
        c.text("execute_python", code="open('/workspace/watched.txt', 'w').write('333')", session_id="w")
        m.noted("notifications/resources/updated", count=2)
        equal(len(c.notes), before)
        listen.cancel()


@check
def a_bad_spec_to_listen_is_refused():
    with client(rev=MODERN) as c:
        for spec in ({}, {"notifications": []}, {"notifications": {"toolsListChanged": 1}},
                     {"notifications": {"resourceSubscriptions": [1]}}, {"notifications": {"taskIds": ["x"] * 257}}):
            try:
                c.call("subscriptions/listen", spec, timeout=10)
            except RpcError as e:
                equal(e.code, -32602, str(spec))
            else:
                raise AssertionError("taken: %s" % spec)


# ---- paths -----------------------------------------------------------------------------------------


@check
def every_path_speaks():
    for path in ("/mcp", "/mcp/", "/ai/sandbox/v1/mcp", "/ai/sandbox/v1/mcp/", "/"):
        with client(path=path) as c:
            equal(c.call("ping"), {}, path)
            c.stream()
        with client(path=path, rev=MODERN) as c:
            assert c.call("tools/list")["tools"], path


@check
def the_root_is_what_is_asked_for():
    c = client(path="/")
    status, headers, body = c.raw(None, {"Accept": "text/html"}, "GET")
    equal((status, headers["content-type"].split(";")[0]), (200, "text/html"))
    status, _, body = c.raw(None, {}, "GET")
    equal((status, json.loads(body)["mcp_endpoint"]), (200, "/mcp"))
    with Sse(server().port, path="/") as old:
        equal(old.call("ping"), {})


@check
def other_methods_are_named():
    for method, path, allowed in (("PUT", "/mcp", "POST"), ("PATCH", "/mcp", "DELETE"), ("POST", "/sse", "GET"),
                                  ("POST", "/mcp/sse", "GET"), ("GET", "/messages/", "POST")):
        status, headers, body = client().raw(b"{}", JSON, method, path)
        equal(status, 405, method + path)
        contains(headers["allow"], allowed)


@check
def a_head_opens_no_stream():
    with client() as c:
        status, headers, body = c.raw(None, {**c.head(), "Accept": "text/event-stream"}, "HEAD")
        equal((status, headers["content-type"], body), (200, "text/event-stream", b""))
        c.stream()  # no client has it yet
    status, headers, body = client().raw(None, {"Accept": "text/event-stream"}, "HEAD", "/sse")
    equal((status, headers["content-type"], body), (200, "text/event-stream", b""))


@check
def a_query_names_the_dialect():
    ours = {tool["name"] for tool in client(rev=MODERN).call("tools/list")["tools"]}
    theirs = {tool["name"]
              for tool in client(rev=MODERN, path="/mcp?dialect=python-sandbox").call("tools/list")["tools"]}
    assert "execute_python" in ours and theirs and ours != theirs, theirs
    status, _, body = client().raw(PING, JSON, path="/mcp?dialect=nobody")
    equal(status, 400)
    contains(json.loads(body)["error"]["message"], "sandbox-service")


# ---- HTTP+SSE --------------------------------------------------------------------------------------


@check
def the_old_transport_speaks():
    for path, messages in (("/sse", "/messages/"), ("/mcp/sse", "/mcp/messages/")):
        for rev in ("2024-11-05", "2025-11-25"):
            with Sse(server().port, path=path, rev=rev) as c:
                contains(c.endpoint, messages + "?session_id=")
                equal(len(c.endpoint.split("=")[1]), 32)
                equal(c.text("execute_python", code="print(3)", session_id="t"), "3")
                c.tool("execute_python", code=SLOW % 3, session_id="t", token="p")
                assert c.noted("notifications/progress"), c.notes


@check
def the_old_transport_of_sandbox_service_is_at_mcp():
    with Sse(server().port, path="/mcp?dialect=sandbox-service") as c:
        contains(c.endpoint, "/mcp/messages/?session_id=")
        assert c.call("tools/list")["tools"]


@check
def the_old_transport_refuses_in_its_own_words():
    c = client()
    with Sse(server().port) as open_one:
        good = open_one.endpoint.split("=")[1]
        for path, detail in (("/messages/", False), ("/mcp/messages/", True)):
            for query, status, words in (("", 400, "session_id is required"),
                                         ("?session_id=x", 400, "Invalid session ID"),
                                         ("?session_id=" + "0" * 32, 404, "Could not find session")):
                got = c.raw(PING, JSON, path=path + query)
                equal(got[0], status, query)
                equal(got[2].decode(), json.dumps({"detail": words}, separators=(",", ":")) if detail else words)
            got = c.raw(b"{", JSON, path=path + "?session_id=" + good)
            equal(got[0], 400)
            contains(got[2].decode(), "Could not parse message")
        got = c.raw(PING, JSON, path="/messages/?session_id=" + good)
        equal(got[0::2], (202, b"Accepted"))
        got = c.raw(PING, JSON, path="/mcp/messages/?session_id=" + good)
        equal((got[0], json.loads(got[2])), (202, {"message": "Accepted"}))
    deadline = time.monotonic() + 20
    while (status := c.raw(PING, JSON, path="/messages/?session_id=" + good)[0]) != 404 and time.monotonic() < deadline:
        time.sleep(0.05)
    equal(status, 404, "the connection is the session")


# ---- who may ---------------------------------------------------------------------------------------


@check
def without_a_key_every_request_is_refused():
    s = keyed()
    c = Http(s.port)
    for method, path in (("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/sse"), ("POST", "/"),
                         ("POST", "/messages/"), ("GET", "/")):
        status, headers, body = c.raw(PING if method == "POST" else None,
                                      {**JSON, "Accept": "text/event-stream"}, method, path)
        equal(status, 401, method + path)
        contains(body.decode(), "krait keys create")
        contains(body.decode(), "Authorization: Bearer")
        contains(headers["www-authenticate"], "Bearer")
    equal(c.raw(None, {}, "GET", "/")[0], 200)
    with Http(s.port, key=ROOT_KEY) as good:
        equal(good.call("ping"), {})
    with Sse(s.port, key=ROOT_KEY) as good:
        equal(good.call("ping"), {})


@check
def a_session_is_its_users_alone():
    s = keyed()
    with Http(s.port, key=user_key("ann")) as ann, Http(s.port, key=user_key("bob")) as bob:
        equal(ann.call("ping"), {})
        stolen = {**bob.head(), "Mcp-Session-Id": ann.session, "Accept": BOTH["Accept"]}
        for method, body in (("POST", PING), ("GET", None), ("DELETE", None)):
            equal(bob.raw(body, stolen, method)[0], 404, method)
        equal(ann.call("ping"), {}, "it is still there")
    with Sse(s.port, key=user_key("ann")) as ann_old:
        got = Http(s.port).raw(PING, {**JSON, "Authorization": "Bearer " + user_key("bob")}, path=ann_old.endpoint)
        equal(got[0], 404)
        equal(ann_old.call("ping"), {})


@check
def where_tokens_come_from_is_told_if_it_is_configured():
    c = Http(keyed().port)
    for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
        status, _, body = c.raw(None, {}, "GET", path)
        equal(status, 200)
        equal(json.loads(body), {"resource": "http://krait.example.org/mcp", "scopes_supported": [],
                                 "authorization_servers": ["https://login.example.org"],
                                 "bearer_methods_supported": ["header"]})
        equal(client().raw(None, {}, "GET", path)[0], 404)
    contains(c.raw(PING, JSON)[1]["www-authenticate"], "/.well-known/oauth-protected-resource/mcp")


@check
def strangers_pages_are_refused():
    c = client()
    for path in ("/mcp", "/", "/sse", "/messages/"):
        for more in ({"Origin": "http://evil.example.com"}, {"Host": "evil.example.com"}):
            method = "GET" if path == "/sse" else "POST"
            status = c.raw(PING if method == "POST" else None, {**JSON, **more}, method, path)[0]
            assert status in (400, 403, 421), (path, more, status)
    own = "127.0.0.1:%d" % server().port
    equal(c.raw(PING, {**JSON, "Origin": "http://" + own, "Host": own})[0], 200)


@check
def a_stop_ends_streams_with_a_word():
    s = Server(validate=False).start()
    try:
        with Http(s.port, rev=MODERN) as m, Http(s.port) as c:
            pending = m.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="L")
            m.noted("notifications/subscriptions/acknowledged")
            c.stream()
            old = Sse(s.port)
            old.open()
            begun = time.monotonic()
            s.stop()
            result = pending.result(10)
            equal(result["resultType"], "complete")
            equal(result["_meta"][META + "subscriptionId"], "L")
            assert time.monotonic() - begun < 10
            c.session = ""
    finally:
        s.close()


@check
def a_client_that_sends_nothing_costs_a_connection_only():
    """Positive control for the deadlines of the server: MCP adds none of its own to a body that comes slowly."""
    with socket.create_connection(("127.0.0.1", server().port), 5) as sock:
        body = json.dumps(PING).encode()
        sock.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(body))
        for byte in body:
            sock.sendall(bytes([byte]))
        contains(sock.recv(4096).decode(), " 200 OK")


main()
