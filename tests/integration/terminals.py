#!/usr/bin/python3
"""Terminals over REST and as WebSockets: what goes in and comes out, bounds, idle time, owners, and what is left."""
import base64
import json
import os
import signal
import struct
import sys
import time

import websocket

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal  # noqa: E402
from file_server import ROOT_KEY, keyed_server, user_key  # noqa: E402
from krait_server import Server  # noqa: E402
from serving import Meanwhile, Stream, eventually, kept, main  # noqa: E402

TERMINALS = "/api/v1/terminals"
KEPT = 256 << 10
COUNT = ["python3", "-c", "import sys; [print('%07d' % i, flush=i % 64 == 0) for i in range(int(sys.argv[1]))]"]
TICK = 10
SOON = 60


def opened(s: Server, *command: str, **more) -> str:
    key = more.pop("key", None)
    reply = s.post(TERMINALS, {**({"command": list(command)} if command else {}), **more}, key=key)
    equal(reply.status, 201, reply.text)
    contains(reply.header("location"), reply.json()["terminal_id"])
    return reply.json()["terminal_id"]


def told(s: Server, t: str) -> dict:
    return s.get(f"{TERMINALS}/{t}").json()


def output_of(lines: list) -> bytes:
    return b"".join(base64.b64decode(one["data"]) for one in lines if one["type"] == "output")


def all_of(s: Server, t: str, **query) -> list:
    return s.get(f"{TERMINALS}/{t}/output?" + "&".join("%s=%s" % pair for pair in query.items())).lines()


def closed(s: Server, *ids: str) -> None:
    for t in ids:
        s.delete(f"{TERMINALS}/{t}")


def write(s: Server, t: str, data: bytes, **more):
    return s.post(f"{TERMINALS}/{t}/input", {"data": base64.b64encode(data).decode()}, **more)


class Socket:
    def __init__(self, s: Server, t: str, query: str = "", **how):
        how.setdefault("subprotocols", ["krait.terminal"])
        url = f"ws://127.0.0.1:{s.port}{TERMINALS}/{t}/socket{query}"
        self.ws = websocket.create_connection(url, timeout=30, **how)
        self.output, self.texts, self.code = b"", [], None

    def __enter__(self) -> "Socket":
        return self

    def __exit__(self, *_) -> None:
        self.ws.close()

    def step(self) -> None:
        op, data = self.ws.recv_data()
        if op == websocket.ABNF.OPCODE_BINARY:
            self.output += data
        elif op == websocket.ABNF.OPCODE_TEXT:
            self.texts.append(json.loads(data))
        elif op == websocket.ABNF.OPCODE_CLOSE:
            self.code = struct.unpack("!H", data[:2])[0] if data else 1005
            self.reason = data[2:].decode()

    def until(self, part: bytes) -> "Socket":
        deadline = time.monotonic() + SOON  # the server's pings keep it awake
        while part not in self.output:
            assert time.monotonic() < deadline, self.output
            assert self.code is None, (self.code, self.output)
            self.step()
        return self

    def to_end(self) -> "Socket":
        while self.code is None:
            self.step()
        return self


# ---- one terminal ----------------------------------------------------------------------------------------------------


@check
def a_shell_is_typed_into_and_ends_with_its_status():
    s = kept()
    t = opened(s, cols=100, rows=30)
    equal(write(s, t, b"stty size; tty; echo $TERM; pwd\n").status, 204)
    equal(s.post(f"{TERMINALS}/{t}/input", {"text": "exit 7\n"}).status, 204)
    lines = all_of(s, t)
    for part in (b"30 100\r\n", b"/dev/pts/0\r\n", b"xterm-256color\r\n", b"/workspace\r\n"):
        contains(output_of(lines), part)
    equal([lines[-1][k] for k in ("type", "cause", "exit_code")], ["end", "exit", 7])
    one = told(s, t)
    equal([one[k] for k in ("running", "cause", "exit_code", "next")], [False, "exit", 7, lines[-1]["at"]])
    equal(write(s, t, b"x").status, 409)
    equal(s.put(f"{TERMINALS}/{t}/size", {"cols": 1, "rows": 1}).status, 409)


@check
def it_works_on_the_files_of_its_sandbox():
    s = kept()
    equal(s.run("open('from-run', 'w').write('seen')")["cause"], "ok")
    t = opened(s, "sh", "-c", "cat from-run; echo written > from-terminal")
    contains(output_of(all_of(s, t)), b"seen")
    equal(s.run("print(open('from-terminal').read())")["stdout"], "written\n\n")


@check
def another_size_reaches_the_program():
    s = kept()
    code = ("import os, signal\n"
            "def told(*_):\n    print(os.get_terminal_size().columns, flush=True)\n"
            "    if os.get_terminal_size().columns == 132: os._exit(0)\n"
            "signal.signal(signal.SIGWINCH, told)\nprint('ready', flush=True)\nwhile True: signal.pause()")
    t = opened(s, "python3", "-c", code)
    eventually(lambda: told(s, t)["next"] > 0)
    reply = s.put(f"{TERMINALS}/{t}/size", {"cols": 132, "rows": 50})
    equal([reply.json().get(k) for k in ("cols", "rows")], [132, 50], reply.text)
    contains(output_of(all_of(s, t)), b"132\r\n")


@check
def a_program_that_is_not_there_says_so():
    s = kept()
    lines = all_of(s, opened(s, "no-such-program"))
    contains(output_of(lines), b"cannot be started")
    equal(lines[-1]["exit_code"], 127)


@check
def closing_ends_what_runs_in_it():
    s = kept()
    t = opened(s, "sh", "-c", "sleep 1000 & sleep 1000")
    with Stream(s, "GET", f"{TERMINALS}/{t}/output") as stream:
        equal(s.delete(f"{TERMINALS}/{t}").status, 204)
        end = stream.line()
        equal((end["type"], end["cause"]), ("end", "cancelled"))
    equal(told(s, t)["running"], False)
    equal(s.delete(f"{TERMINALS}/{t}").status, 204, "and forgets it")
    equal(s.get(f"{TERMINALS}/{t}").status, 404)


# ---- followers -------------------------------------------------------------------------------------------------------


@check
def a_follower_goes_on_from_a_byte():
    s = kept()
    t = opened(s, *COUNT, "1000")
    whole = output_of(all_of(s, t))
    equal(whole, b"".join(b"%07d\r\n" % i for i in range(1000)))
    for at in (1, 900, 5000, len(whole)):
        lines = all_of(s, t, **{"from": at})
        equal((output_of(lines), lines[0]["at"]), (whole[at:], at))
    events = s.get(f"{TERMINALS}/{t}/output", headers={"Accept": "text/event-stream", "Last-Event-ID": "900"}).text
    contains(events, "event: output\nid: ")
    sent = b"".join(base64.b64decode(json.loads(one[6:])["data"]) for one in events.splitlines()
                    if one.startswith("data: ") and '"output"' in one)
    equal(sent, whole[900:])
    equal(output_of(all_of(s, t, **{"from": -1})), b"", "only what comes from now on")


@check
def several_follow_and_a_quick_one_loses_nothing():
    s = kept()
    t = opened(s, "sh", "-c", "read go; exec \"$@\"", "-", *COUNT, "200000")
    slow = s.raw()
    slow.sendall(b"GET %s/%s/output HTTP/1.1\r\nHost: localhost\r\n\r\n" % (TERMINALS.encode(), t.encode()))
    quick = Meanwhile(all_of, s, t)
    eventually(lambda: told(s, t)["followers"] == 2)
    equal(write(s, t, b"\n").status, 204)
    lines = quick.end()
    equal([one for one in lines if one["type"] == "lost"], [])
    contains(output_of(lines), b"0000000\r\n0000001\r\n")
    contains(output_of(lines), b"0199999\r\n")
    slow.settimeout(30)
    got = b""
    while b'"type":"end"' not in got:
        piece = slow.recv(1 << 20)
        assert piece
        got += piece
    slow.close()
    contains(got, b'"type":"lost"', "and the slow one is told")


@check
def without_a_follower_the_oldest_bytes_go():
    s = kept()
    t = opened(s, *COUNT, "100000")
    eventually(lambda: not told(s, t)["running"])
    one = told(s, t)
    equal((one["next"], one["next"] - one["first"]), (900000, KEPT))
    lines = all_of(s, t)
    equal((lines[0]["type"], lines[0]["at"], len(output_of(lines))), ("output", one["first"], KEPT))
    lines = all_of(s, t, **{"from": 9})
    equal((lines[0]["type"], lines[0]["at"], lines[0]["bytes"]), ("lost", 9, one["first"] - 9))


# ---- WebSockets ------------------------------------------------------------------------------------------------------


@check
def a_websocket_types_resizes_and_ends():
    s = kept()
    t = opened(s)
    with Socket(s, t) as ws:
        equal(ws.ws.subprotocol, "krait.terminal")
        ws.ws.send_binary(b"stty size\n")
        ws.until(b"24 80\r\n")
        equal(ws.texts, [{"type": "ready", "at": 0}])
        ws.ws.send(json.dumps({"type": "resize", "cols": 50, "rows": 20}))
        ws.ws.send_binary(b"stty size\n")
        ws.until(b"20 50\r\n")
        ws.ws.send_binary(b"exit 3\n")
        ws.to_end()
        equal((ws.code, ws.texts[-1]["type"], ws.texts[-1]["exit_code"]), (1000, "end", 3))
        equal(ws.texts[-1]["at"], len(ws.output))
    with Socket(s, t, "?from=5") as again:
        again.to_end()
        equal(again.output, ws.output[5:])


@check
def frames_in_pieces_pings_and_large_messages():
    s = kept()
    t = opened(s, "sh", "-c", "stty raw -echo; echo ready; head -c 300000 | sha256sum")
    data = bytes(range(256)) * 1172
    with Socket(s, t) as ws:
        ws.until(b"ready")
        raw = ws.ws
        raw.send_frame(websocket.ABNF.create_frame(data[:10], websocket.ABNF.OPCODE_BINARY, fin=0))
        raw.ping(b"still there?")
        raw.send_frame(websocket.ABNF.create_frame(data[10:70000], websocket.ABNF.OPCODE_CONT, fin=0))
        raw.send_frame(websocket.ABNF.create_frame(data[70000:], websocket.ABNF.OPCODE_CONT, fin=1))
        op, frame = raw.recv_data_frame(control_frame=True)
        equal((op, frame.data), (websocket.ABNF.OPCODE_PONG, b"still there?"))
        import hashlib
        ws.until(hashlib.sha256(data[:300000]).hexdigest().encode())


@check
def what_is_typed_waits_for_a_program_that_does_not_read():
    s = kept()
    s.run("import os\nos.path.exists('go-on') or os.mkfifo('go-on')")
    t = opened(s, "sh", "-c", "stty raw -echo; echo ready; read line < go-on; head -c 2000000 | wc -c")
    with Socket(s, t) as ws:
        ws.until(b"ready")
        sent = Meanwhile(lambda: [ws.ws.send_binary(b"x" * 100000) for _ in range(20)])
        eventually(lambda: write(s, t, b"y" * 20000).status == 503)
        equal(s.run("open('go-on', 'w').write('\\n')")["cause"], "ok")
        sent.end()
        ws.until(b"2000000")
    closed(s, *[one["terminal_id"] for one in s.get(TERMINALS).json()["terminals"]])


def raw_socket(s: Server, t: str, *extra: str, version: str = "13", path: str = "socket"):
    """Bytes of a handshake by hand, and what was answered."""
    c = s.raw()
    lines = [f"GET {TERMINALS}/{t}/{path} HTTP/1.1", f"Host: 127.0.0.1:{s.port}", "Connection: keep-alive, Upgrade",
             "Upgrade: websocket", f"Sec-WebSocket-Version: {version}", *extra, "", ""]
    if not any(one.lower().startswith("sec-websocket-key") for one in extra):
        lines.insert(-2, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
    c.sendall("\r\n".join(lines).encode())
    got = b""
    while b"\r\n\r\n" not in got:
        piece = c.recv(1)
        if not piece:
            break
        got += piece
    return c, got


@check
def the_handshake_is_strict():
    s = kept()
    t = opened(s, "sleep", "1000")
    good, head = raw_socket(s, t)
    contains(head, b"HTTP/1.1 101 Switching Protocols\r\n")
    contains(head, b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n")
    assert b"permessage-deflate" not in raw_socket(s, t, "Sec-WebSocket-Extensions: permessage-deflate")[1]
    good.close()
    for extra, version, status in (
            ([], "8", b"426"), (["Sec-WebSocket-Key: short"], "13", b"400"),
            (["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="] * 2, "13", b"400"),
            (["Origin: https://evil.example"], "13", b"403"), (["Origin: null"], "13", b"403"),
            (["Sec-Fetch-Site: cross-site"], "13", b"403")):
        got = raw_socket(s, t, *extra, version=version)[1]
        equal(got.split(b" ")[1], status, (extra, got))
    own = raw_socket(s, t, f"Origin: http://127.0.0.1:{s.port}")[1]
    equal(own.split(b" ")[1], b"101", "a page of this server")
    equal(s.get(f"{TERMINALS}/{t}/socket").status, 426, "without an upgrade")
    c = s.raw()
    c.sendall(b"GET %s/%s/socket HTTP/1.1\r\nHost: evil.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
              b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
              % (TERMINALS.encode(), t.encode()))
    contains(c.recv(100), b"HTTP/1.1 400", "a name that was pointed at us")
    closed(s, t)


def masked(first: int, payload: bytes, length: int = -1) -> bytes:
    n = len(payload) if length < 0 else length
    size = bytes([0x80 | n]) if n < 126 else b"\xfe" + struct.pack("!H", n) if n < 65536 else b"\xff" + struct.pack(
        "!Q", n)
    return bytes([first]) + size + b"\0\0\0\0" + payload


@check
def what_breaks_the_protocol_is_closed_with_its_code():
    s = kept()
    t = opened(s, "cat")
    bad = {
        "no mask": (b"\x82\x01x", 1002), "reserved bit": (masked(0xC2, b"x"), 1002),
        "opcode": (masked(0x83, b"x"), 1002), "control opcode": (masked(0x8B, b""), 1002),
        "continuation of nothing": (masked(0x80, b"x"), 1002),
        "message in a message": (masked(0x02, b"x") + masked(0x82, b"y"), 1002),
        "fragmented ping": (masked(0x09, b"x"), 1002), "long ping": (masked(0x89, b"x" * 126), 1002),
        "long form": (b"\x82\xfe\x00\x01\0\0\0\0x", 1002), "negative length": (b"\x82\xff" + b"\xff" * 12, 1002),
        "too large": (b"\x82\xff" + struct.pack("!Q", 1 << 40) + b"\0\0\0\0", 1009),
        "large text": (masked(0x81, b"x" * 5000), 1009), "not UTF-8": (masked(0x81, b"\xff"), 1007),
        "close code": (masked(0x88, struct.pack("!H", 1005)), 1002), "half a code": (masked(0x88, b"\x03"), 1002),
        "unknown text": (masked(0x81, b'{"type":"dance"}'), 1008), "no JSON": (masked(0x81, b"["), 1008),
        "bad size": (masked(0x81, b'{"type":"resize","cols":0,"rows":1}'), 1008),
    }
    for name, (frames, code) in bad.items():
        c, head = raw_socket(s, t)
        contains(head, b" 101 ", name)
        c.sendall(frames)
        got = b""
        while True:
            piece = c.recv(4096)
            if not piece:
                break
            got += piece
        at = got.rfind(b"\x88")
        equal(struct.unpack("!H", got[at + 2:at + 4])[0], code, name)
        c.close()
    with Socket(s, t) as ws:
        ws.ws.send_binary(b"alive\n")
        ws.until(b"xalive\r\n")  # and the x of a message that was broken off
    closed(s, t)


@check
def sizes_that_come_too_quickly_are_dropped():
    s = kept()
    t = opened(s, "cat")
    c, got = raw_socket(s, t)
    with c:
        contains(got, b" 101 ")
        c.sendall(5000 * masked(0x81, b'{"type":"resize","cols":10,"rows":10}') + masked(0x82, b"still there\n"))
        eventually(lambda: told(s, t)["next"] > 0)
    closed(s, t)
    contains(output_of(all_of(s, t)), b"still there")


@check
def a_silent_websocket_is_asked_and_then_cut():
    with Server(args=["--ping-interval", "1s"]) as s:
        t = opened(s, "sleep", "1000")
        c, head = raw_socket(s, t)
        contains(head, b" 101 ")
        c.settimeout(TICK)
        got = b""
        while True:
            piece = c.recv(4096)
            if not piece:
                break
            got += piece
        contains(got, b"\x89\x00", "a ping")
        eventually(lambda: told(s, t)["followers"] == 0)
        equal(told(s, t)["running"], True)
        with Socket(s, t) as ws:
            for _ in range(4):  # which answers each
                op, _ = ws.ws.recv_data(control_frame=True)
                while op != websocket.ABNF.OPCODE_PING:
                    op, _ = ws.ws.recv_data(control_frame=True)
            equal(told(s, t)["followers"], 1, "one that answers stays")


# ---- who may, and how many -------------------------------------------------------------------------------------------


@check
def bad_input_is_named():
    s = kept()
    for body, status, part in (
            ({"cols": 0}, 400, "cols"), ({"rows": 5000}, 400, "rows"), ({"command": "ls"}, 400, "command"),
            ({"command": [""]}, 400, "command"), ({"command": ["x"] * 300}, 400, "command"),
            ({"term": "xterm; rm"}, 400, "term"), ({"sandbox_id": "none-such"}, 404, "sandbox"),
            ({"shell": True}, 400, "shell"), ({"command": ["x" * 40000]}, 400, "command")):
        reply = s.post(TERMINALS, body)
        equal(reply.status, status, reply.text)
        contains(reply.json()["error"]["message"] + str(reply.json()["error"]["field"]), part)
    t = opened(s, "cat")
    for body in ({}, {"data": "%%%"}, {"data": "YQ"}, {"data": "YQ==", "text": "a"},
                 {"data": base64.b64encode(b"x" * 70000).decode()}, {"text": "x" * 70000}):
        equal(s.post(f"{TERMINALS}/{t}/input", body).status, 400, str(body)[:60])
    for body in ({}, {"cols": 80}, {"cols": 80, "rows": 0}):
        equal(s.put(f"{TERMINALS}/{t}/size", body).status, 400)
    equal(s.get(f"{TERMINALS}/{t}/output?from=x").status, 400)
    equal(s.get(f"{TERMINALS}/nothing").status, 404)
    closed(s, t)


@check
def another_user_is_refused_and_a_key_is_needed():
    s = keyed_server()
    mine, other, reader = user_key("ann"), user_key("ben"), user_key("cay", ("read",))
    t = opened(s, "cat", key=mine)
    for method, path, body in (("GET", "", None), ("DELETE", "", None), ("GET", "/output", None),
                               ("POST", "/input", {"text": "x"}), ("PUT", "/size", {"cols": 1, "rows": 1}),
                               ("GET", "/socket", None)):
        equal(s.request(method, f"{TERMINALS}/{t}{path}", body, key=other).status, 404, method + path)
        connection = s.connect()
        connection.request(method, f"{TERMINALS}/{t}{path}")
        equal(connection.getresponse().status, 401, method + path)
        connection.close()
    equal(s.get(TERMINALS, key=other).json(), {"terminals": []})
    equal([one["terminal_id"] for one in s.get(TERMINALS, key=mine).json()["terminals"]], [t])
    equal(s.post(TERMINALS, {}, key=reader).status, 403, "a key that only reads")
    equal(s.get(f"{TERMINALS}/{t}", key=mine).status, 200)
    closed(s, t)
    equal(s.delete(f"{TERMINALS}/{t}", key=mine).status, 204)


@check
def a_page_shows_its_key_as_a_subprotocol():
    s = keyed_server()
    mine, other = user_key("ann"), user_key("ben")
    t = opened(s, "cat", key=mine)

    def offer(key: str) -> list:
        return ["krait.terminal", "krait.key." + base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")]

    with Socket(s, t, subprotocols=offer(mine)) as ws:
        equal(ws.ws.subprotocol, "krait.terminal")
        ws.ws.send_binary(b"hi\n")
        ws.until(b"hi\r\nhi\r\n")
    with Socket(s, t, header=["Authorization: Bearer " + mine]) as ws:
        ws.until(b"hi\r\n")
    for protocols, status in ((offer("wrong"), 401), (offer(other), 404), (["krait.terminal"], 401),
                              (["krait.terminal", "krait.key.%"], 401)):
        try:
            Socket(s, t, subprotocols=protocols)
            raise AssertionError("it was let in: %r" % protocols)
        except websocket.WebSocketBadStatusException as refused:
            equal(refused.status_code, status, str(protocols))
    s.delete(f"{TERMINALS}/{t}", key=mine)


@check
def a_revoked_key_ends_its_websocket():
    s = keyed_server()
    user_key("dan")
    made = s.post("/api/v1/keys", {"user": "dan", "name": "short", "rights": ["read", "run"]})
    if made.status != 201:
        made = s.post("/api/v1/keys", {"user": [u["id"] for u in s.get("/api/v1/users").json()["users"]
                                                if u["name"] == "dan"][0], "name": "short", "rights": ["read", "run"]})
    equal(made.status, 201, made.text)
    key = made.json()["key"]
    t = opened(s, "cat", key=key)
    with Socket(s, t, header=["Authorization: Bearer " + key]) as ws:
        equal(s.delete("/api/v1/keys/" + made.json()["id"]).status in (200, 204), True)
        equal(ws.to_end().code, 1008)


@check
def what_a_disabled_user_runs_ends():
    s = keyed_server()
    key = user_key("eve")
    user = [one["id"] for one in s.get("/api/v1/users").json()["users"] if one["name"] == "eve"][0]
    t = opened(s, "cat", key=key)
    equal(s.get(f"{TERMINALS}/{t}", key=key).json()["running"], True)
    equal(s.request("PATCH", "/api/v1/users/" + user, {"disabled": True}).status, 200)
    equal(s.get(f"{TERMINALS}/{t}", key=key).status, 403)
    equal(s.request("PATCH", "/api/v1/users/" + user, {"disabled": False}).status, 200)
    eventually(lambda: not s.get(f"{TERMINALS}/{t}", key=key).json()["running"])


@check
def bounds_refuse_and_name_what_is_full():
    bounds = (("--max-terminals-per-sandbox", "this sandbox"), ("--max-terminals-per-user", "you have"),
              ("--max-terminals", "the server"))
    for option, part in bounds:
        with Server(args=[option, "1"]) as s:
            t = opened(s, "cat")
            reply = s.post(TERMINALS, {"command": ["cat"]})
            equal(reply.status, 429)
            contains(reply.json()["error"]["message"], part)
            closed(s, t)
            eventually(lambda: not told(s, t).get("running"))
            closed(s, opened(s, "cat"))


@check
def a_terminal_takes_a_slot_as_a_session_does():
    with Server(args=["--max-sessions", "1", "--queue-wait", "0"]) as s:
        equal(s.run("print(1)")["cause"], "ok")
        t = opened(s, "cat")  # the idle session made room
        equal(s.post("/api/v1/runs", {"code": "1", "stream": False}).status, 503, "a terminal never does")
        equal(s.post(TERMINALS, {"command": ["cat"]}).status, 503)
        closed(s, t)
        eventually(lambda: s.post("/api/v1/runs", {"code": "1", "stream": False}).status == 200)


@check
def an_idle_one_is_closed_and_says_why():
    with Server(args=["--terminal-idle-timeout", "2s"]) as s:
        quiet, busy = opened(s, "sh", "-c", "while :; do echo x; sleep 0.1; done"), opened(s, "cat")
        followed = opened(s, "sh", "-c", "while :; do echo x; sleep 0.1; done")
        with Stream(s, "GET", f"{TERMINALS}/{followed}/output") as stream:
            def closed_meanwhile() -> bool:
                write(s, busy, b"x\n")
                stream.line()
                return not told(s, quiet)["running"]

            eventually(closed_meanwhile, 20)
            equal((told(s, busy)["running"], told(s, followed)["running"]), (True, True))
        contains(told(s, quiet)["message"], "terminals.idle_timeout")
        contains(s.get("/metrics").text, 'krait_terminals_ended_total{why="idle"} 1')


@check
def it_is_in_the_audit_log_and_the_metrics():
    s = keyed_server()
    t = opened(s, "true")
    eventually(lambda: not told(s, t)["running"])
    rows = [one for one in s.get("/api/v1/audit?limit=100").json()["rows"] if one["object"] == t]
    equal(sorted((one["what"], one["outcome"]) for one in rows), [("terminal.end", "exit"), ("terminal.open", "ok")])
    contains(s.get("/metrics").text, "krait_terminals_opened_total")


# ---- ends of the server ----------------------------------------------------------------------------------------------


def programs_named(mark: str) -> list:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark in open(f"/proc/{pid}/cmdline").read() and int(pid) != os.getpid():
                found.append(pid)
        except OSError:
            pass
    return found


@check
def a_stop_ends_it_and_tells_its_followers():
    with Server() as s:
        t = opened(s, "cat")
        with Socket(s, t) as ws:
            ws.ws.send_binary(b"x\n")
            ws.until(b"x\r\n")
            s.process.send_signal(signal.SIGTERM)
            ws.to_end()
            equal((ws.code, ws.texts[-1]["type"]), (1000, "end"))
        equal(s.process.wait(TICK), 0)


@check
def a_killed_server_leaves_nothing():
    with Server() as s:
        mark = "krait-mark-%d" % os.getpid()
        opened(s, "sh", "-c", "sleep 1000; : " + mark)
        eventually(lambda: programs_named(mark))
        os.kill(s.server_pid(), signal.SIGKILL)
        eventually(lambda: not programs_named(mark), 20)


if __name__ == "__main__":
    assert ROOT_KEY
    main()
