#!/usr/bin/python3
"""Runs over HTTP, from outside: the three forms of a stream, picking one up again, queues, places, leaving and
cancelling, what a run is given (variables, environment, data sets, input) and how it is bounded.

How the server starts, stops and restarts is in server_life.py, who may use it and what it says of itself in
server_watch.py.
"""
import fcntl
import http.client
import json
import os
import random
import sqlite3
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/lib"))
from check import check, contains, equal  # noqa: E402
from krait_server import Reply, Server  # noqa: E402
from serving import Meanwhile, Stream, eventually, kept, main  # noqa: E402

RUNS = "/api/v1/runs"
EVENTS = {"Accept": "text/event-stream"}
TICKS = "import time\nfor i in range(%d):\n    print(i, flush=True)\n    time.sleep(%g)"


def server() -> Server:
    return kept()


def follow(s: Server, run: str, start: int = 0, headers=None) -> Stream:
    return Stream(s, "GET", "%s/%s/events%s" % (RUNS, run, "?from=%d" % start if start else ""), None, headers)


def started(s: Server, code: str, **more) -> Stream:
    """A streamed run that has begun."""
    stream = Stream(s, "POST", RUNS, {"code": code, **more})
    equal(stream.status, 200, "run")
    stream.first = stream.until("started")
    stream.id = stream.first[-1]["run_id"]
    return stream


def read(s: Server, run: str) -> dict:
    reply = s.get("%s/%s" % (RUNS, run))
    equal(reply.status, 200, reply.text)
    return reply.json()


def ended(s: Server, run: str, seconds: float = 10) -> dict:
    return eventually(lambda: (lambda one: one if not one["still_running"] else None)(read(s, run)), seconds,
                      "the run's end")


def text_of(lines: list, kind: str = "stdout") -> str:
    return "".join(line["text"] for line in lines if line["type"] == kind)


def numbers(lines: list) -> list:
    return [line["seq"] for line in lines]


def error(reply: Reply, status: int, kind: str, field=None) -> str:
    equal(reply.status, status, reply.text[:300])
    told = reply.json()["error"]
    equal((told["kind"], told["field"]), (kind, field), reply.text[:300])
    return told["message"]


# ---- the three forms -----------------------------------------------------------------------------

SAMPLE = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nopen('sample.txt', 'w').write('x')\n6 * 7"


@check
def lines_are_numbered_without_gap():
    s = server()
    s.delete("/api/v1/sandboxes/default/files/sample.txt")
    before = time.time()
    reply = s.post(RUNS, {"code": SAMPLE})
    equal(reply.header("content-type").split(";")[0], "application/x-ndjson")
    lines = reply.lines()
    equal(numbers(lines), list(range(1, len(lines) + 1)))
    equal([line["type"] for line in lines], ["started", "stdout", "stderr", "result", "end"])
    first, end = lines[0], lines[-1]
    equal((first["run_id"], first["session_id"]), (reply.header("x-run-id"), reply.header("x-session-id")))
    equal((end["run_id"], end["cause"], end["exit_code"], end["result"]), (first["run_id"], "ok", 0, "42"))
    assert before - 1 < end["started_at"] <= end["ended_at"] < time.time() + 1, end
    equal(end["files"], [{"path": "sample.txt", "change": "created", "size": 1}])
    equal((end["truncated"], end["session_alive"], end["output_bytes"]), (False, True, 8))


@check
def events_are_the_same_objects_with_ids():
    s = server()
    stream = Stream(s, "POST", RUNS, {"code": SAMPLE}, EVENTS)
    equal(stream.headers["content-type"].split(";")[0], "text/event-stream")
    events = stream.events()
    lines = [json.loads(event["data"]) for event in events]
    equal([(event["id"], event["event"]) for event in events], [(str(line["seq"]), line["type"]) for line in lines])
    equal(numbers(lines), list(range(1, len(lines) + 1)))
    equal([line["type"] for line in lines], ["started", "stdout", "stderr", "result", "end"])
    equal(follow(s, stream.headers["x-run-id"]).rest(), lines, "the same run as lines")


@check
def without_a_stream_it_is_one_object():
    s = server()
    reply = s.post(RUNS, {"code": SAMPLE, "stream": False})
    equal(reply.header("content-type").split(";")[0], "application/json")
    one = reply.json()
    equal((one["stdout"], one["stderr"], one["result"], one["cause"]), ("out\n", "err\n", "42", "ok"))
    lines = follow(s, one["run_id"]).rest()
    equal({name: value for name, value in lines[-1].items() if name not in ("seq", "type")},
          {name: value for name, value in one.items() if name not in ("stdout", "stderr", "displays", "log_cut")})


@check
def an_exception_is_an_error_line_and_the_cause():
    lines = server().post(RUNS, {"code": "print(1)\n1/0"}).lines()
    equal([line["type"] for line in lines], ["started", "stdout", "error", "end"])
    equal((lines[-1]["cause"], lines[-1]["exit_code"], lines[-1]["error"]["type"]),
          ("exception", 1, "ZeroDivisionError"))
    equal(lines[-2]["error"], lines[-1]["error"])
    assert "\x1b" not in lines[-1]["error"]["traceback"], lines


@check
def a_silent_stream_shows_signs_of_life():
    with Server(args=["--ping-interval", "300ms"]) as s:
        began = time.monotonic()
        with Stream(s, "POST", RUNS, {"code": "import time; time.sleep(1.5)"}, EVENTS) as stream:
            raw = b""
            while line := stream.raw_line():
                raw += line
        comments = [line for line in raw.splitlines() if line.startswith(b":")]
        assert 2 <= len(comments) <= (time.monotonic() - began) / 0.3 + 1, raw  # never more often
        contains(raw, b"event: end")


# ---- again from a number -------------------------------------------------------------------------


@check
def a_cut_stream_is_picked_up_without_loss_or_repetition():
    s = server()
    for attempt in range(4):
        stream = started(s, TICKS % (60, 0.01))
        seen = list(stream.first)
        while seen[-1]["type"] != "end":
            for _ in range(random.randrange(1, 25)):
                line = stream.line()
                if line is None:
                    break
                seen.append(line)
            stream.cut()
            time.sleep(random.random() * 0.1)
            stream = follow(s, seen[0]["run_id"], seen[-1]["seq"] + 1)
        equal(stream.rest(), [], "nothing is behind the end")
        equal(numbers(seen), list(range(1, len(seen) + 1)))
        equal(text_of(seen), "".join("%d\n" % i for i in range(60)))
        equal(seen[-1]["cause"], "ok")


@check
def last_event_id_goes_on_behind_it():
    s = server()
    with Stream(s, "POST", RUNS, {"code": TICKS % (40, 0.01)}, EVENTS) as stream:
        seen = [stream.event() for _ in range(5)]
        run = stream.headers["x-run-id"]
    while seen[-1]["event"] != "end":
        with follow(s, run, 0, {**EVENTS, "Last-Event-ID": seen[-1]["id"]}) as again:
            seen += [event for event in (again.event() for _ in range(random.randrange(1, 12))) if event]
    equal([int(event["id"]) for event in seen], list(range(1, len(seen) + 1)))
    equal(text_of([json.loads(event["data"]) for event in seen]), "".join("%d\n" % i for i in range(40)))


@check
def a_run_can_be_read_after_its_end_and_by_several():
    s = server()
    first = s.post(RUNS, {"code": "print('kept')\n1"}).lines()
    run = first[0]["run_id"]
    equal(follow(s, run).rest(), first)
    equal(follow(s, run, 3).rest(), first[2:])
    equal(follow(s, run, first[-1]["seq"]).rest(), first[-1:])
    equal(follow(s, run, first[-1]["seq"] + 1).rest(), [])
    live = started(s, TICKS % (10, 0.05), session_id="shared")
    others = [Meanwhile(lambda: follow(s, live.id).rest()) for _ in range(3)]
    whole = live.first + live.rest()
    for other in others:
        equal(other.end(), whole)
    error(s.get(RUNS + "/01hv5k8m2nq7r9t3w6x8y0z2a4/events"), 404, "not_found")
    error(s.get("%s/%s/events?from=-1" % (RUNS, run)), 400, "invalid", "from")
    error(s.get("%s/%s/events?form=1" % (RUNS, run)), 400, "invalid", "form")


@check
def a_slow_reader_gets_everything():
    s = server()
    code = "for i in range(60000): print('%06d' % i, 'x' * 40)"
    whole = "".join("%06d %s\n" % (i, "x" * 40) for i in range(60000))
    with Stream(s, "POST", RUNS, {"code": code}) as stream:
        lines = []
        for _ in range(5):
            lines.append(stream.line())
            time.sleep(0.2)
        lines += stream.rest()
    equal(numbers(lines), list(range(1, len(lines) + 1)))
    assert text_of(lines) == whole, "%d characters of %d" % (len(text_of(lines)), len(whole))


@check
def what_is_past_the_cap_is_cut_and_said_to_be():
    one = server().run("print('x' * 100000)", max_output=5000)
    equal((one["truncated"], one["cause"], one["output_bytes"]), (True, "ok", 100001))
    assert 4000 < len(one["stdout"]) < 6000, len(one["stdout"])


# ---- queues --------------------------------------------------------------------------------------


@check
def runs_of_a_session_go_in_the_order_they_came():
    s = server()
    name = "order"
    s.run("order = []", session_id=name)
    first = started(s, "import os, time\nwhile not os.path.exists('go-on'): time.sleep(0.01)\norder.append(0)",
                    session_id=name)
    streams = []
    for i in range(1, 6):
        streams.append(Stream(s, "POST", RUNS, {"code": "order.append(%d)" % i, "session_id": name}))
        line = streams[-1].line()
        equal((line["seq"], line["type"], line["ahead"], line["session_id"]), (1, "queued", i - 1, name))
        equal((line["behind"], line["behind_asks"]), (first.id, False))
    equal(s.get("/api/v1/sessions/" + name).json()["queued"], 5)
    equal(s.run("open('go-on', 'w').close()", session_id="another")["cause"], "ok", "another session does not wait")
    for stream in [first, *streams]:
        equal(stream.rest()[-1]["cause"], "ok")
    equal(s.run("order", session_id=name)["result"], "[0, 1, 2, 3, 4, 5]")


@check
def the_seventeenth_that_waits_is_refused():
    s = server()
    name = "full"
    first = started(s, "import time; time.sleep(30)", session_id=name)
    waiting = [Stream(s, "POST", RUNS, {"code": "1", "session_id": name}) for _ in range(16)]
    for n, stream in enumerate(waiting):
        equal((stream.status, stream.line()["ahead"]), (200, n))
    for body in ({"code": "1", "session_id": name}, {"code": "1", "session_id": name, "stream": False}):
        reply = s.post(RUNS, body)
        contains(error(reply, 429, "too_many"), "16")
        assert int(reply.header("retry-after")) >= 1, reply.headers
    equal(s.post("/api/v1/execute", {"code": "1", "session_id": name}).status, 429)
    equal(s.delete("/api/v1/sessions/" + name).status, 200)
    for stream in [first, *waiting]:
        equal(stream.rest()[-1]["cause"], "cancelled")
    one = s.run("2", session_id=name)
    equal((one["result"], one["session_restarted"]), ("2", True))


# ---- places --------------------------------------------------------------------------------------


def names(s: Server) -> set:
    return set(s.get("/api/v1/sessions").json()["sessions"])


@check
def the_oldest_idle_session_makes_room_and_no_other():
    with Server(args=["--max-sessions", "3", "--queue-wait", "1s"]) as s:
        for name in "abc":
            s.run("x = 1", session_id=name)
        s.run("x", session_id="a")
        s.run("1", session_id="d")
        equal(names(s), {"a", "c", "d"})
        one = s.run("'x' in globals()", session_id="b")
        equal((one["result"], one["session_restarted"]), ("False", True))
        equal(names(s), {"a", "d", "b"})
        equal(s.run("x", session_id="a")["result"], "1", "those who stayed have their variables")


@check
def with_all_busy_one_waits_and_then_is_refused():
    with Server(args=["--max-sessions", "2", "--queue-wait", "1500ms"]) as s:
        busy = [started(s, "import time; time.sleep(3); print('mine')", session_id=name) for name in "ab"]
        bodies = ({"session_id": "c"}, {"session_id": "d", "stream": False}, {"fresh": True},
                  {"fresh": True, "stream": False})
        began = time.monotonic()
        for one in [Meanwhile(s.post, RUNS, {"code": "1", **body}) for body in bodies]:
            reply = one.end()
            contains(error(reply, 503, "busy"), "busy")
            assert int(reply.header("retry-after")) >= 1, reply.headers
            # Not at once, and not for as long as the others are busy.
            assert one.ended_at - began > 1.2, "after %.1f s" % (one.ended_at - began)
        equal(names(s), {"a", "b"})
        late = Meanwhile(s.run, "'got in'", session_id="c")
        for stream in busy:
            lines = stream.rest()
            equal((text_of(lines), lines[-1]["cause"]), ("mine\n", "ok"))
        equal(late.end()["result"], "'got in'", "a place that comes free is given to who waits")


@check
def idle_sessions_are_culled_and_busy_ones_never():
    with Server(args=["--idle-timeout", "1s", "--cleanup-interval", "200ms"]) as s:
        s.run("x = 1", session_id="idle")
        busy = started(s, "import time; time.sleep(3); print('done')", session_id="busy")
        asks = started(s, "print(input('name? '))", session_id="asks", interactive=True)
        equal(asks.line()["type"], "input")
        eventually(lambda: "idle" not in names(s), 4, "the idle one goes")
        equal(names(s), {"busy", "asks"})
        equal(text_of(busy.rest()), "done\n")
        equal(s.post("%s/%s/input" % (RUNS, asks.id), {"text": "Ada"}).status, 202)
        equal(text_of(asks.rest()), "Ada\n")
        eventually(lambda: not names(s), 4, "and in the end all")
        one = s.run("'x' in globals()", session_id="idle")
        equal((one["result"], one["session_restarted"]), ("False", True))


@check
def runs_per_minute_are_bounded():
    with Server(args=["--runs-per-minute", "3"]) as s:
        for _ in range(3):
            equal(s.run("1")["cause"], "ok")
        reply = s.post(RUNS, {"code": "1", "stream": False})
        equal(reply.status, 429, reply.text)
        assert 1 <= int(reply.header("retry-after")) <= 60, reply.headers
        equal(s.post("/execute", {"code": "1"}).status, 429)


# ---- leaving, cancelling, interrupting -----------------------------------------------------------


def leave(s: Server, path: str, body: dict) -> None:
    """Sends a request, waits until its run goes, and is gone."""
    raw = json.dumps(body).encode()
    before = {one["run_id"] for one in running(s)}
    with s.raw() as socket:
        socket.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
                       % (path.encode(), len(raw), raw))
        run = eventually(lambda: [one["run_id"] for one in running(s) if one["run_id"] not in before])[0]
        time.sleep(0.2)
    return run


def running(s: Server) -> list:
    return s.get(RUNS + "?running=true").json()["runs"]


@check
def leaving_a_call_without_a_stream_cancels_it():
    s = server()
    sleep = "import time; time.sleep(30)"
    for path, body in ((RUNS, {"stream": False, "session_id": "left"}), ("/api/v1/execute", {"stream": False}),
                       ("/api/v1/execute_sync", {}), ("/execute_sync", {}), ("/execute", {})):
        run = leave(s, path, {"code": sleep, **body})
        equal(ended(s, run)["cause"], "cancelled", path)  # they sleep for 30 s
    busy = started(s, sleep, session_id="left")
    run = leave(s, RUNS, {"code": "open('never', 'w')", "stream": False, "session_id": "left"})
    equal(ended(s, run)["cause"], "cancelled", "while it waits")
    equal(read(s, busy.id)["still_running"], True)
    s.post("%s/%s/cancel" % (RUNS, busy.id))
    equal(busy.rest()[-1]["cause"], "cancelled")
    equal(s.run("import os; os.path.exists('never')")["result"], "False")


@check
def a_streamed_run_lives_on_for_a_while():
    with Server(args=["--linger", "4s"]) as s:
        left = started(s, TICKS % (3000, 0.02), session_id="left")
        came_back = started(s, TICKS % (500, 0.02), session_id="back")
        left.cut()
        came_back.cut()
        time.sleep(0.5)
        equal([read(s, one.id)["still_running"] for one in (left, came_back)], [True, True])
        with follow(s, came_back.id) as again:
            time.sleep(5)
            equal(read(s, came_back.id)["still_running"], True, "a client reads it")
            lines = again.rest()
        equal((lines[-1]["cause"], text_of(lines)), ("ok", "".join("%d\n" % i for i in range(500))))
        equal(ended(s, left.id, 20)["cause"], "cancelled")
        lines = follow(s, left.id).rest()
        equal(numbers(lines), list(range(1, len(lines) + 1)))
        shown = text_of(lines).splitlines()
        assert shown == [str(i) for i in range(len(shown))] and 40 < len(shown) < 2000, len(shown)


@check
def cancelling():
    s = server()
    s.run("kept = 1", session_id="cancel")
    stream = started(s, "import time; time.sleep(30)", session_id="cancel")
    waits = Stream(s, "POST", RUNS, {"code": "1", "session_id": "cancel"})
    equal(waits.line()["type"], "queued")
    reply = s.post("%s/%s/cancel" % (RUNS, waits.headers["x-run-id"]))
    equal(reply.status, 202, reply.text)
    end = waits.rest()[-1]
    equal((end["type"], end["cause"], end["exit_code"]), ("end", "cancelled", -1))
    equal(s.post("%s/%s/cancel" % (RUNS, stream.id)).status, 202)
    end = stream.rest()[-1]
    equal((end["cause"], end["session_alive"]), ("cancelled", True))
    equal(s.run("kept", session_id="cancel")["result"], "1")
    error(s.post("%s/%s/cancel" % (RUNS, stream.id)), 409, "conflict")
    error(s.post(RUNS + "/01hv5k8m2nq7r9t3w6x8y0z2a4/cancel"), 404, "not_found")


@check
def a_run_that_does_not_listen_is_killed():
    s = server()
    stream = started(s,
                     "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('deaf', flush=True)\n"
                     "while True: pass",
                     session_id="deaf")
    equal(stream.until("stdout")[-1]["text"], "deaf\n")
    s.post("%s/%s/cancel" % (RUNS, stream.id))
    end = stream.rest()[-1]
    equal((end["cause"], end["session_alive"]), ("cancelled", False))
    one = s.run("1", session_id="deaf")
    equal((one["result"], one["session_restarted"]), ("1", True))


# In short sleeps: a signal that comes just before a sleep begins is handled after it.
IN_STEPS = "import time\ntry:\n    print('in', flush=True)\n    for _ in range(300): time.sleep(0.1)\n"


@check
def interrupting():
    s = server()
    s.run("kept = 1", session_id="interrupt")
    for path in ("%s/%%s/interrupt" % RUNS, "/api/v1/sessions/interrupt/interrupt"):
        stream = started(s, IN_STEPS + "finally:\n    kept += 1", session_id="interrupt")
        stream.until("stdout")
        contains((200, 202), s.post(path % stream.id if "%s" in path else path).status)
        end = stream.rest()[-1]
        equal((end["cause"], end["error"]["type"], end["session_alive"]), ("interrupted", "KeyboardInterrupt", True))
    equal(s.run("kept", session_id="interrupt")["result"], "3")
    stream = started(s, IN_STEPS + "except KeyboardInterrupt:\n    print('no')", session_id="interrupt")
    stream.until("stdout")
    s.post("%s/%s/interrupt" % (RUNS, stream.id))
    lines = stream.rest()
    equal((text_of(lines), lines[-1]["cause"]), ("no\n", "ok"), "code that catches it goes on")
    contains((404, 409), s.post("%s/%s/interrupt" % (RUNS, stream.id)).status)


@check
def what_ends_a_session_is_told_and_so_is_the_next_one():
    s = server()
    for code, cause in (("import os; os._exit(3)", "exit"), ("import os; os.kill(os.getpid(), 9)", "signal"),
                        ("import ctypes; ctypes.string_at(0)", "signal")):
        s.run("x = 1", session_id="ends")
        one = s.run(code, session_id="ends")
        equal((one["cause"], one["session_alive"]), (cause, False), code)
        lines = s.post(RUNS, {"code": "'x' in globals()", "session_id": "ends"}).lines()
        equal((lines[0]["session_restarted"], lines[-1]["session_restarted"], lines[-1]["result"]),
              (True, True, "False"))
        equal(s.run("1", session_id="ends")["session_restarted"], False, "told once")
    equal(s.run("1", session_id="never before")["session_restarted"], False)


@check
def a_memory_limit_ends_a_session_and_is_named():
    s = server()
    box = s.post("/api/v1/sandboxes", {"name": "small", "limits": {"memory": "64M"}})
    equal(box.status, 201, box.text)
    one = s.run("x = []\nwhile True: x.append(bytearray(1 << 20))", sandbox_id="small")
    equal((one["cause"], one["limits_hit"]), ("memory_limit", ["memory"]))
    if os.geteuid() == 0:  # shared memory is bounded by a control group alone, which an ordinary user may not have
        one = s.run("import mmap\nm = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): m[i] = 1",
                    sandbox_id="small")
        equal((one["cause"], one["limits_hit"], one["session_alive"]), ("memory_limit", ["memory"], False))
    again = s.run("1", sandbox_id="small")
    equal((again["result"], again["session_restarted"]), ("1", not one["session_alive"]))


# ---- what a run is given -------------------------------------------------------------------------


@check
def variables_are_really_set():
    s = server()
    given = {"n": 3, "text": "\u03c0 'quoted'\n", "deep": {"list": [1, 2.5, None, True]}, "big": 2 ** 53}
    one = s.run("print(n, repr(text), deep, big)", variables=given, session_id="given")
    equal(one["stdout"], "%s %r %s %s\n" % (given["n"], given["text"], given["deep"], given["big"]))
    equal(s.run("n + 1", session_id="given")["result"], "4", "they stay")
    for path in ("/api/v1/execute", "/ai/sandbox/v1/api/execute"):
        equal(s.post(path, {"code": "n * 2", "variables": {"n": 21}}).lines(), [{"text": "42"}])
    equal(s.run("\u03c0", variables={"\u03c0": 3})["result"], "3")
    for wrong in ("not a name", "1x", "", "a.b"):
        error(s.post(RUNS, {"code": "1", "variables": {wrong: 1}}), 400, "invalid", "variables")
    error(s.post(RUNS, {"code": "1", "variables": [1]}), 400, "invalid", "variables")


@check
def the_environment_of_a_run_is_its_own():
    s = server()
    equal(s.run("import os; os.environ['MODE']", env={"MODE": "test"}, session_id="env")["result"], "'test'")
    equal(s.run("'MODE' in os.environ", session_id="env")["result"], "False")
    equal(s.run("import subprocess; subprocess.run(['printenv', 'MODE'])", env={"MODE": "child"},
                session_id="env")["stdout"], "child\n")
    box = s.post("/api/v1/sandboxes", {"name": "with env", "env": {"A": "of the sandbox", "B": "b"}})
    equal(box.status, 201, box.text)
    equal(s.run("import os; os.environ['A'], os.environ['B']", env={"A": "of the run"},
                sandbox_id="with env")["result"],
          "('of the run', 'b')")
    equal(s.run("os.environ['A']", sandbox_id="with env")["result"], "'of the sandbox'")
    for wrong in ({"": "x"}, {"A=B": "x"}, {"KRAIT_KEY": "x"}, {"A": 1}):
        reply = s.post(RUNS, {"code": "1", "env": wrong})
        equal((reply.status, reply.json()["error"]["field"].split(".")[0]), (400, "env"), reply.text)
    seen = json.loads(s.run("import os, json; json.dumps(dict(os.environ))", fresh=True)["result"].strip("'"))
    assert not [name for name in seen if name.startswith(("KRAIT", "API_KEY", "ASAN"))], seen


@check
def input_is_given_or_asked_for():
    s = server()
    equal(s.run("a = input(); b = input('? '); print(a + b)", stdin="Ada\nLovelace\n")["stdout"], "? AdaLovelace\n")
    equal(s.run("input()")["error"]["type"], "EOFError")
    stream = started(s, "print(input('name? '))\nimport getpass\nprint(len(getpass.getpass()))", interactive=True)
    asked = stream.until("input")[-1]
    equal((asked["prompt"], asked["password"]), ("name? ", False))
    answer = "%s/%s/input" % (RUNS, stream.id)
    equal(s.post(answer, {"text": "Ada"}).status, 202)
    equal(stream.until("input")[-1]["password"], True)
    error(s.post(answer, {}), 400, "invalid")
    equal(s.post(answer, {"text": "secret"}).status, 202)
    lines = stream.rest()
    equal(lines[-1]["cause"], "ok")
    contains(text_of(lines), "6\n")
    contains((404, 409), s.post(answer, {"text": "too late"}).status)


@check
def data_sets_are_mounted_read_only_where_they_are_asked_for():
    with tempfile.TemporaryDirectory(prefix="krait-test-") as data:
        os.chmod(data, 0o755)
        with open(os.path.join(data, "table.csv"), "w") as f:
            f.write("a,b\n1,2\n")
        os.chmod(os.path.join(data, "table.csv"), 0o644)
        with Server(args=["--mounts", "census=" + data]) as s:
            equal(s.post("/api/v1/sandboxes", {"name": "with", "mounts": ["census"]}).status, 201)
            equal(s.run("open('/data/census/table.csv').read()", sandbox_id="with")["result"], "'a,b\\n1,2\\n'")
            for code in ("open('/data/census/table.csv', 'w')", "open('/data/census/new', 'w')",
                         "import os; os.remove('/data/census/table.csv')"):
                contains(("OSError", "PermissionError"), s.run(code, sandbox_id="with")["error"]["type"], code)
            equal(os.listdir(data), ["table.csv"])
            equal(s.run("import os; os.path.exists('/data/census/table.csv')")["result"], "False",
                  "who did not ask has it not")
            contains(error(s.post("/api/v1/sandboxes", {"name": "x", "mounts": ["cencus"]}), 400, "invalid", "mounts"),
                     "cencus")
            contains(json.dumps(s.get("/api/v1/info").json()), "census")


LOCK = """
import fcntl, os
fds = [os.open(p, os.O_RDONLY) for p in ('/data/census/table.csv', '/data/census')]
for fd in fds: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
fcntl.lockf(fds[0], fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 0)
"""
# What h5py and SQLite do with a file they only read; a file and a program that only the owner may use.
READ = """
import fcntl, os, sqlite3, subprocess
with open('/data/census/table.csv') as f: fcntl.flock(f, fcntl.LOCK_SH | fcntl.LOCK_NB)
rows = sqlite3.connect('file:/data/census/base.db?mode=ro', uri=True).execute('select x from t').fetchall()
told = subprocess.run(['/data/census/own/program'], capture_output=True, text=True).stdout
print(rows, open('/data/census/own/secret').read(), told)
print([line for line in open('/proc/self/mountinfo') if '/data/census' in line])
"""


@check
def locks_on_a_data_set_stay_in_their_sandbox():
    with tempfile.TemporaryDirectory(prefix="krait-test-") as data:
        table, own = os.path.join(data, "table.csv"), os.path.join(data, "own")
        os.mkdir(own, 0o700)
        for path, text, mode in ((table, "a,b\n", 0o644), (own + "/secret", "kept", 0o600),
                                 (own + "/program", "#!/bin/sh\necho ran\n", 0o700)):
            with open(path, "w") as f:
                f.write(text)
            os.chmod(path, mode)
        with sqlite3.connect(os.path.join(data, "base.db")) as db:
            db.execute("create table t (x)")
            db.execute("insert into t values (7)")
        os.chmod(data, 0o755)
        with Server(args=["--mounts", "census=" + data]) as s:
            for name in ("one", "two"):
                equal(s.post("/api/v1/sandboxes", {"name": name, "mounts": ["census"]}).status, 201)
            for name in ("one", "two"):
                equal(s.run(LOCK, sandbox_id=name)["cause"], "ok", name + " has the locks to itself")
            for path in (table, data):  # and so has the host
                fd = os.open(path, os.O_RDONLY)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                finally:
                    os.close(fd)
            equal(s.run("fcntl.flock(os.open('/data/census', 0), fcntl.LOCK_EX | fcntl.LOCK_NB)",
                        sandbox_id="two")["error"]["type"], "BlockingIOError", "a lock still is one")
            equal(s.post("/api/v1/sandboxes", {"name": "reader", "mounts": ["census"]}).status, 201)
            told = s.run(READ, sandbox_id="reader")
            contains(told["stdout"], "[(7,)] kept ran")
            lines = told["stdout"].split("\n", 2)[2]
            assert "overlay" in lines and os.path.basename(data) not in lines, lines
            with open(table, "a") as f:
                f.write("3,4\n")
            contains(s.run("open('/data/census/table.csv').read()", sandbox_id="reader")["result"], "3,4")


# ---- bounds --------------------------------------------------------------------------------------


@check
def what_is_past_a_ceiling_is_refused_by_name():
    with Server(args=["--max-memory", "256M", "--memory", "128M", "--max-timeout", "60s", "--max-processes", "32",
                      "--processes", "16"]) as s:
        for limit, value, told in (("memory", "1G", "256"), ("memory", 1 << 40, "256"), ("timeout", 61, "1 min"),
                                   ("timeout", "2h", "timeout"),
                                   ("processes", 33, "32"), ("memory", "much", "memory"), ("memory", -1, "memory"),
                                   ("speed", 1, "speed")):
            reply = s.post("/api/v1/sandboxes", {"name": "x", "limits": {limit: value}})
            equal((reply.status, reply.json()["error"]["field"]), (400, "limits." + limit), reply.text)
            contains(reply.json()["error"]["message"], told)
        error(s.post(RUNS, {"code": "1", "timeout": 61}), 400, "invalid", "timeout")
        error(s.post(RUNS, {"code": "1", "timeout": -1}), 400, "invalid", "timeout")
        error(s.post(RUNS, {"code": "1", "timeuot": 1}), 400, "invalid", "timeuot")
        error(s.post(RUNS, {"code": 1}), 400, "invalid", "code")
        error(s.post(RUNS, {}), 400, "invalid", "code")
        error(s.post(RUNS, {"code": "1", "session_id": "x" * 129}), 400, "invalid", "session_id")
        error(s.post(RUNS, {"code": "1", "session_id": "a\nb"}), 400, "invalid", "session_id")
        error(s.post(RUNS, {"code": "1", "sandbox_id": "nowhere"}), 404, "not_found")
        reply = s.post("/api/v1/execute", {"code": "1", "timeout": 61})
        contains((400, 422), reply.status, reply.text)
        contains(json.dumps(reply.json()["detail"]), "timeout")
        equal(s.post("/api/v1/sandboxes",
                     {"name": "good", "limits": {"memory": "256M", "timeout": 60, "processes": 32}}).status, 201)


@check
def timeouts():
    s = server()
    s.run("x = 7", session_id="time")
    for code in ("while True: pass", "import time; time.sleep(60)"):
        one = s.run(code, timeout=0.5, session_id="time")
        equal((one["cause"], one["exit_code"], one["session_alive"]), ("timeout", 124, True))
        assert 0.4 < one["wall_s"] < 10, one["wall_s"]
        contains(one["message"], "variables kept")
    equal(s.run("x", session_id="time")["result"], "7")
    s.post("/api/v1/sandboxes", {"name": "quick", "limits": {"timeout": 1}})
    equal(s.run("while True: pass", sandbox_id="quick")["cause"], "timeout", "the sandbox's own limit")


@check
def a_body_that_is_too_large_is_413():
    with Server(args=["--max-body", "64K"]) as s:
        equal(s.run("len(%r)" % ("x" * 60000))["result"], "60000")
        connection = s.connect()
        connection.putrequest("POST", RUNS)
        connection.putheader("Content-Length", str(1 << 20))
        connection.endheaders()
        reply = connection.getresponse()
        said = json.loads(reply.read())["error"]
        equal((reply.status, said["kind"]), (413, "too_large"))
        contains(said["message"], "65536 bytes")
        connection.close()


# ---- many at once --------------------------------------------------------------------------------


@check
def a_connection_is_kept_and_serves_one_after_the_other():
    s = server()
    connection: http.client.HTTPConnection = s.connect()
    for i in range(20):
        connection.request("POST", RUNS, json.dumps({"code": "print(%d)" % i, "stream": bool(i % 2)}))
        reply = connection.getresponse()
        body = reply.read().decode()
        equal(reply.status, 200, body)
        contains(body, '"%d\\n"' % i)
    connection.close()


@check
def twenty_clients_at_once_have_each_their_own():
    s = server()
    failures = []

    def client(number: int) -> None:
        for turn in range(5):
            one = s.run("mine = globals().get('mine', 0) + 1\nprint(%d, mine)" % number,
                        session_id="client %d" % number)
            if one["stdout"] != "%d %d\n" % (number, turn + 1):
                failures.append((number, turn, one["stdout"], one["cause"]))

    threads = [threading.Thread(target=client, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    equal(failures, [])


main()
