#!/usr/bin/python3
"""What is no MCP, or is it wrongly: every door answers it, says what was wrong, and goes on. Each refusal has a good
message beside it.
"""
from __future__ import annotations

import atexit
import functools
import json
import os
import random
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))

from check import check, contains, equal, main  # noqa: E402
from krait_server import Server  # noqa: E402
from mcp import META, MODERN, Http, HttpError, RpcError, Sse  # noqa: E402

JSON = {"Content-Type": "application/json"}
PING = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
MIB = 1 << 20


@functools.cache
def server() -> Server:
    s = Server(validate=False).start()
    atexit.register(s.close, False)
    return s


def client(**how) -> Http:
    return Http(server().port, **how)


def modern(method: str, params: dict | None = None, **meta) -> tuple[dict, dict]:
    """A request and its headers; keyword arguments replace members of _meta (None: leave out)."""
    c = client(rev=MODERN)
    message = c.request(method, params)
    for key, value in meta.items():
        message["params"]["_meta"].pop(META + key, None)
        if value is not None:
            message["params"]["_meta"][META + key] = value
    return message, c.head(message)


def error(reply: tuple) -> tuple:
    """(status, code) of a JSON-RPC error; the code is None for anything else."""
    try:
        body = json.loads(reply[2])
    except ValueError:
        return reply[0], None
    return reply[0], body.get("error", {}).get("code") if isinstance(body, dict) else None


def alive() -> None:
    equal(json.loads(client().raw(PING, JSON)[2]), {"jsonrpc": "2.0", "id": 0, "result": {}})


# ---- bodies ----------------------------------------------------------------------------------------


@check
def what_is_no_json_is_refused():
    for body in (b"", b"{", b"nonsense", b"\x00", b"\xff\xfe", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}x",
                 b"{\"a\":1,\"a\":2}", b"'{}'", b"\xef\xbb\xbf{}", b"NaN", b"{\"a\":NaN}"):
        for head in (JSON, {**JSON, "MCP-Protocol-Version": MODERN}):
            reply = client().raw(body, head)
            equal(error(reply), (400, -32700), repr(body))
            id = {"id": 1} if body.endswith(b"}x") else {}
            equal({k: v for k, v in json.loads(reply[2]).items() if k == "id"}, id, repr(body))
    alive()


@check
def an_error_names_the_request_where_its_id_can_be_read():
    """Whatever else is wrong with the text: a client that waits for this id goes on."""
    for body, id in ((b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":NaN}}', 7),
                     (b'{"params":{"id":1,"x":[Infinity]},"id":"a\\"b","method":"ping","jsonrpc":"2.0"}', 'a"b'),
                     (b'{"jsonrpc":"2.0","id":8,"method":"ping","method":"ping"}', 8),
                     (b'{"id":9,"params":' + b"[" * 500 + b"]" * 500 + b"}", 9),
                     (b'{"params":' + b"[" * 500 + b"]" * 500 + b',"id":10}', 10),
                     (b'{"params":[' + b"1," * 200000 + b'1],"id":11}', 11),
                     (b'{"jsonrpc":"2.0","id":12,"method":"ping"', 12), (b'{"id":2.50,"x":\xff}', 2.5),
                     (b'{"jsonrpc":"2.0","id":99999999999999999999,"x"', 99999999999999999999)):
        reply = client().raw(body, JSON)
        equal(reply[0], 400)
        equal(json.loads(reply[2])["id"], id, repr(body[:60]))
        with Sse(server().port) as c:
            c.send(body)  # on the stream, where such a client looks
            equal(c.noted("")[-1]["id"], id, repr(body[:60]))
            equal(c.call("ping"), {})


LARGE = '{"n":9223372036854775808,"m":-123456789012345678901234567890,"f":1e400,"g":[0.1,1e22,-0.0],"s":"\\ud83d"}'
SHOW = "print(n, m, f, g, ascii(s))"
SHOWN = "9223372036854775808 -123456789012345678901234567890 inf [0.1, 1e+22, -0.0] '\\ufffd'"


@check
def numbers_of_any_size_reach_python_and_come_back():
    call = '{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"execute_python","arguments":%s}}'
    arguments = '{"code":%s,"variables":%s,"session_id":"n"}' % (json.dumps(SHOW), LARGE)
    for one in (arguments, json.dumps(arguments), '{"code":%s,"variables":%s}' % (json.dumps(SHOW), json.dumps(LARGE))):
        reply = client().raw((call % one).encode(), JSON)
        equal(json.loads(reply[2])["result"]["content"][0]["text"], SHOWN)
    for path in ("/api/v1/tools/execute_python", "/api/v1/runs"):
        reply = server().request("POST", path, arguments.encode(), headers=JSON)
        equal(reply.status, 200)
        contains(reply.text, SHOWN.replace("\\", "\\\\"))
    code = "class J:\n    def _repr_mimebundle_(self, **_): return {'application/json': {'n': 2**70}}\nJ()"
    reply = server().request("POST", "/api/v1/runs", {"code": code})
    contains(reply.text, '"n":1180591620717411303424')
    for value in ("9223372036854775808", "1e400", "-1e400"):  # past every bound, and told so
        reply = server().request("POST", "/api/v1/runs", b'{"code":"1","timeout":%s}' % value.encode(), headers=JSON)
        equal(reply.status, 400)
        contains(reply.text, "must be at %s" % ("least" if value[0] == "-" else "most"))
        contains(reply.text, "timeout")
    reply = server().request("POST", "/api/v1/runs", b'{"code":"1","variables":9223372036854775808}', headers=JSON)
    contains(reply.text, "variables must be an object")


@check
def what_is_no_message_is_refused():
    for body in (1, "x", None, True, {}, [], [1], [[]], {"jsonrpc": "2.0"},
                 {"jsonrpc": "1.0", "id": 1, "method": "ping"},
                 {"id": 1, "method": "ping"}, {**PING, "jsonrpc": 2.0}, {**PING, "method": 1}, {**PING, "method": ""},
                 {**PING, "method": "p\0ing"}, {**PING, "method": "x" * 200}, {**PING, "params": []},
                 {**PING, "params": "x"},
                 {**PING, "params": None}, {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}},
                 {"jsonrpc": "2.0", "result": {}}):
        equal(error(client().raw(json.dumps(body).encode(), JSON)), (400, -32600), repr(body))
    alive()


@check
def ids_that_cannot_be_echoed_are_refused():
    for id in (None, [], {}, True, "x" * 2000):
        reply = client().raw({**PING, "id": id}, JSON)
        equal(error(reply), (400, -32600), repr(id))
        contains(json.loads(reply[2])["error"]["message"], "id")
    for id in (0, "", "0", -(2**63), 2**63 - 1, "\u0000", "\U0001f40d"):
        equal(json.loads(client().raw({**PING, "id": id}, JSON)[2]), {"jsonrpc": "2.0", "id": id, "result": {}})
    for id in (b"9223372036854775808", b"-1180591620717411303424", b"1.50", b"1e3", b"1e400", b"-0.0"):
        equal(client().raw(b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % id, JSON)[2],
              b'{"jsonrpc":"2.0","id":%s,"result":{}}' % id)  # as it came


@check
def messages_are_bounded():
    def padded(size: int) -> bytes:
        body = json.dumps({**PING, "params": {"pad": ""}}).encode()
        return body.replace(b'""', b'"' + b"x" * (size - len(body)) + b'"')

    equal(client().raw(padded(4 * MIB), JSON)[0], 200)
    reply = client().raw(padded(4 * MIB + 1), JSON)
    equal(error(reply), (413, -32600))
    equal(client().raw(padded(300 << 10), JSON)[0], 200)  # parsed off the loop

    def nested(depth: int) -> bytes:
        return b'{"jsonrpc":"2.0","id":0,"method":"ping","params":{"a":%s%s}}' % (b"[" * depth, b"]" * depth)

    equal(client().raw(nested(62), JSON)[0], 200)
    equal(error(client().raw(nested(63), JSON)), (400, -32600))
    equal(error(client().raw(b"[" * 100000, JSON)), (400, -32600))
    equal(error(client().raw(b'{"a":' * 100000, JSON)), (400, -32600))
    equal(error(client().raw(b"[" + b"1," * 200000 + b"1]", JSON)), (400, -32600))
    equal(error(client().raw(b"[" + b"1," * 400000, JSON)), (400, -32600))
    alive()


@check
def types_are_asked_for():
    body = json.dumps(PING).encode()
    for kind in (None, "text/plain", "application/json5", "multipart/form-data", "application/x-www-form-urlencoded"):
        equal(error(client().raw(body, {"Content-Type": kind} if kind else {})), (415, -32600), str(kind))
    for kind in ("application/json", "Application/JSON; charset=utf-8", "application/json ;x=y"):
        equal(client().raw(body, {"Content-Type": kind})[0], 200, kind)


# ---- the envelope ----------------------------------------------------------------------------------


@check
def envelopes_are_checked():
    for changed in ({"protocolVersion": 7}, {"protocolVersion": None}, {"protocolVersion": []},
                    {"clientCapabilities": None}, {"clientCapabilities": []}, {"clientCapabilities": "x"}):
        message, head = modern("tools/list", **changed)
        reply = client().raw(message, head)
        equal(error(reply), (400, -32602), str(changed))
        equal(json.loads(reply[2])["id"], message["id"])
    message, head = modern("tools/list", clientInfo=None)
    equal(client().raw(message, head)[0], 200)
    message, head = modern("tools/list", logLevel="loud")
    equal(error(client().raw(message, head)), (200, -32602))
    for meta in (7, [], "x"):
        message["params"]["_meta"] = meta
        equal(error(client().raw(message, head)), (400, -32602), repr(meta))


@check
def headers_are_checked():
    message, head = modern("tools/call", {"name": "nobody", "arguments": {}})
    good = (200, -32602)  # no such tool
    equal(error(client().raw(message, head)), good)
    for name in ("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"):
        less = {k: v for k, v in head.items() if k != name}
        equal(error(client().raw(message, less)), (400, -32020), name)
        for value in ("", "x", head[name].upper() + "x", head[name] + "\xe9"):
            equal(error(client().raw(message, {**head, name: value})), (400, -32020), name + repr(value))
        equal(error(client().raw(message, {**head, name: "  " + head[name] + " \t"})), good, name)
    for value in ("=?base64??=", "=?base64?bm9ib2R5?=x", "=?base64?!!!?=", "=?base64?bm9ib2R5=?=",
                  "=?base64?bm9ib2R4?="):
        equal(error(client().raw(message, {**head, "Mcp-Name": value})), (400, -32020), value)
    equal(error(client().raw(message, {**head, "Mcp-Name": "=?base64?bm9ib2R5?="})), good)


@check
def a_header_twice_is_refused():
    message, head = modern("tools/list")
    body = json.dumps(message).encode()

    def post(more: str) -> bytes:
        with socket.create_connection(("127.0.0.1", server().port), 10) as sock:
            lines = "".join("%s: %s\r\n" % one for one in head.items()) + more
            sock.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s"
                         % (lines.encode(), len(body), body))
            got = b""
            while piece := sock.recv(65536):
                got += piece
            return got

    contains(post(""), b" 200 OK")
    for name in ("MCP-Protocol-Version", "mcp-method"):
        got = post("%s: %s\r\n" % (name, "x"))
        contains(got, b" 400 ")
        contains(got, b"-32020")


# ---- conversations ---------------------------------------------------------------------------------


@check
def an_id_in_flight_is_not_taken_again():
    with client() as c:
        call = {"name": "execute_python",
                "arguments": {"code": "import time\nprint(1, flush=True)\ntime.sleep(2)", "session_id": "d"}}
        first = c.begin("tools/call", call, token=1, id="same")
        c.noted("notifications/progress")
        reply = c.raw(c.request("ping", id="same"), c.head())
        equal(error(reply), (200, -32600))
        contains(json.loads(reply[2])["error"]["message"], "in flight")
        contains(first.result()["content"][0]["text"], "1")
        equal(error(c.raw(c.request("ping", id="same"), c.head())), (200, None))


@check
def requests_in_flight_are_bounded():
    """64 of one conversation; the next is told so, and the others go on."""
    with Sse(server().port, rev=MODERN) as c:
        many = [c.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True}}) for _ in range(65)]
        try:
            many[-1].result(20)
        except RpcError as e:
            equal(e.code, -32603)
            contains(e.message, "64")
        else:
            raise AssertionError("65 at once")
        equal(len(c.noted("notifications/subscriptions/acknowledged", count=64)), 64)
        assert not any(one.done() for one in many[:64]), "one of them ended"
        many[0].cancel()
        c.call("server/discover")


@check
def garbage_on_the_old_stream_leaves_it_standing():
    with Sse(server().port) as c:
        for body in (b"", b"{", b"\xff", b"[" * 1000):
            try:
                c.send(body)
            except HttpError as e:
                equal(e.status, 400)
            else:
                raise AssertionError("taken: %r" % body)
        for body in (b"1", b"[]", b"{}", b'{"jsonrpc":"2.0","id":null,"method":"ping"}'):
            count = len([one for one in c.notes if not one[0]])
            c.send(body)  # 202: it is JSON; what is wrong comes on the stream
            equal(c.noted("", count=count + 1)[-1]["error"]["code"], -32600, repr(body))
        equal(c.call("ping"), {})


@check
def cancelling_what_is_not_there_is_nothing():
    with client() as c:
        for params in (None, {}, {"requestId": 99}, {"requestId": None}, {"requestId": {}},
                       {"requestId": "x", "reason": 1}):
            c.notify("notifications/cancelled", params)
        equal(c.call("ping"), {})


@check
def answers_to_nothing_are_nothing():
    with client() as c:
        for id in (0, 1, "x", 2**62, -1):
            c.send({"jsonrpc": "2.0", "id": id, "result": {"action": "accept"}})
            c.send({"jsonrpc": "2.0", "id": id, "error": {"code": 1, "message": "x"}})
        c.send({"jsonrpc": "2.0", "id": 0, "result": 7})
        equal(c.call("ping"), {})


@check
def params_of_the_wrong_kind_are_refused():
    with client() as c:
        for method, params in (("tools/call", {}), ("tools/call", {"name": 1}), ("tools/call", {"name": "x" * 10000}),
                               ("tools/call", {"name": "nobody"}), ("resources/read", {}),
                               ("resources/read", {"uri": 1}),
                               ("resources/subscribe", {"uri": ""}), ("resources/subscribe", {"uri": "x" * 5000}),
                               ("prompts/get", {}), ("prompts/get", {"name": "nobody"}), ("logging/setLevel", {}),
                               ("tools/list", {"cursor": "x"}), ("tasks/get", {"taskId": "x"}), ("tasks/get", {})):
            try:
                c.call(method, params)
            except RpcError as e:
                assert e.code in (-32602, -32002) and e.message, (method, params, e.code)
            else:
                raise AssertionError("taken: %s %s" % (method, params))
        # A tool that is there and arguments that are not right: a result, for a model to mend.
        for arguments in ({}, {"code": 7}, {"code": "1", "timeout": "soon"}):
            equal(c.tool("execute_python", arguments).get("isError"), True, str(arguments))
        equal(c.call("ping"), {})


@check
def strings_of_any_kind_reach_python():
    with client() as c:
        for text in ("\u0000", "\u2028\u2029", "\U0001f40d", "\x7f", "a\r\nb", "\\u0000", "'\""):
            got = c.text("execute_python", code="print(ascii(%s))" % ascii(text), session_id="s")
            equal(got, ascii(text), "written as an escape")
        result = c.tool("execute_python", code="x = '\u0000'", session_id="s")
        equal(result.get("isError"), True, "Python takes no NUL in its source")
        equal(c.text("execute_python", code="print('\U0001f40d\u2028')", session_id="s"), "\U0001f40d\u2028")
        equal(c.text("execute_python", code="print('\\ud800')\nimport sys; sys.stdout.buffer.write(b'\\xff')",
                     session_id="s", ).encode("utf-8", "surrogatepass").decode("utf-8") != "", True)


@check
def random_bytes_are_survived():
    """Ten connections at once, each with mutated messages; the server answers all of them and still speaks."""
    seed = random.randrange(1 << 32)
    message, head = modern("tools/list")
    seeds = [json.dumps(message).encode(), json.dumps(PING).encode(), b"[" + json.dumps(PING).encode() + b"]"]
    bad: list = []

    def attack(number: int) -> None:
        chance = random.Random(seed + number)
        c = client()
        for _ in range(60):
            body = bytearray(chance.choice(seeds))
            for _ in range(chance.randrange(1, 8)):
                at = chance.randrange(len(body))
                body[at:at + chance.randrange(3)] = bytes(chance.randrange(256) for _ in range(chance.randrange(4)))
                body = body or bytearray(b" ")
            status = c.raw(bytes(body), {**head} if chance.random() < 0.5 else JSON)[0]
            if status not in (200, 202, 400, 404):
                bad.append((status, bytes(body)))

    threads = [threading.Thread(target=attack, args=(i,)) for i in range(10)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(120)
    assert not bad, "seed %d: %r" % (seed, bad[:3])
    alive()


main()
