#!/usr/bin/python3
"""The domain under clients that misbehave: runs that are refused late, clients that leave after a start, sessions that
are no longer used, slots that are fought for, stops at the wrong moment. Each check starts a `krait serve` of its own.

    tests/server/domain.py            all
    tests/server/domain.py NAME…      some

KRAIT names the program; one built with sanitizers makes every check stricter, for whatever it reports is a failure.
"""
import contextlib
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))

from check import check, contains, equal, main, skip  # noqa: E402
from krait_server import Server  # noqa: E402

RUNS = "/api/v1/runs"
MANY_FILES = "import os\nfor i in range(15000): open(f'f{i}', 'w').close()"


@contextlib.contextmanager
def serving(*args: str, wrap=(), env=None):
    """A server whose log must hold no report of a sanitizer at the end."""
    server = Server(args=list(args), wrap=list(wrap), env=env or {}, validate=False)
    with server:
        yield server
        server.stop()
        text = server.log_text()
        assert "Sanitizer" not in text and "runtime error" not in text, text[-6000:]


def run(server, code: str, **more):
    return server.request("POST", RUNS, {"code": code, "stream": False, **more}, timeout=60)


def sessions(server) -> int:
    return server.request("GET", "/health").json()["active_sessions"]


def wait_for(what, seconds: float = 10, why: str = "") -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, why or "it did not come"
        time.sleep(0.02)


def begin(server, code: str, **more) -> socket.socket:
    """A request whose answer is not read yet."""
    body = json.dumps({"code": code, **more}).encode()
    head = f"POST {RUNS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    s = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    s.sendall(head + body)
    return s


def runs_of(server, **query) -> list:
    text = "&".join(f"{k}={v}" for k, v in query.items())
    return server.request("GET", f"{RUNS}?{text}").json()["runs"]


def wait_running(server, count: int = 1) -> None:
    wait_for(lambda: metric(server, "krait_runs_active") >= count, 10, "no run began")


def metric(server, name: str, labels: str = "") -> float:
    for line in server.request("GET", "/metrics").text.splitlines():
        if line.startswith(name + labels):
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"no metric {name}{labels}")


def read_all(s: socket.socket) -> bytes:
    with contextlib.suppress(ConnectionError):
        answer = http.client.HTTPResponse(s)
        answer.begin()
        with contextlib.suppress(http.client.IncompleteRead):
            return answer.read()
    return b""


# ---- refused late ----------------------------------------------------------------------------


@check
def code_too_large_for_a_live_session_is_refused():
    with serving("--max-body", "64M") as s:
        equal(run(s, "1").json()["cause"], "ok")
        for _ in range(3):
            reply = run(s, "#" * (17 << 20))
            equal(reply.status, 400, reply.text[:200])
        equal(run(s, "print(2)").json()["stdout"], "2\n")


@check
def code_too_large_for_a_new_session_leaves_none():
    with serving("--max-body", "64M") as s:
        for _ in range(3):
            equal(run(s, "#" * (17 << 20), fresh=True).status, 400)
        wait_for(lambda: sessions(s) == 0, 5, "a session was left for a run that never began")


# ---- starters who leave ----------------------------------------------------------------------


@check
def a_streamed_run_whose_starter_left_early_does_not_go_on_for_ever():
    with serving("--max-sessions", "1", "--linger", "1s", "--queue-wait", "30s") as s:
        first = begin(s, "import time; time.sleep(2)", fresh=True)
        wait_running(s)
        begin(s, "import time; time.sleep(600)", session_id="late", timeout=3000).close()
        read_all(first)
        wait_for(lambda: any(r["session_id"] == "late" and not r["still_running"] for r in runs_of(s)), 10,
                 "it goes on without a reader")


@check
def sessions_are_not_opened_for_those_who_left():
    with serving("--max-sessions", "1", "--queue-wait", "30s") as s:
        first = begin(s, "import time; time.sleep(2)", fresh=True)
        wait_running(s)
        late = [begin(s, "1", fresh=i % 2 == 0, stream=False, **({} if i % 2 == 0 else {"session_id": f"s{i}"}))
                for i in range(8)]
        wait_for(lambda: metric(s, "krait_runs_queued") == 8)
        for one in late:
            one.close()
        read_all(first)
        wait_for(lambda: sessions(s) == 0 and len(runs_of(s, cause="cancelled")) == 8, 20, "sessions or runs are left")
        time.sleep(0.5)
        equal(sessions(s), 0)


# ---- places ----------------------------------------------------------------------------------


@check
def one_place_wanted_is_one_place_taken():
    with serving("--max-sessions", "12") as s:
        for i in range(11):
            equal(run(s, "1", session_id=f"s{i}").json()["cause"], "ok")
        stop = threading.Event()

        def busy() -> None:  # its turns of the loop are what evicted one session after the other
            while not stop.is_set():
                run(s, "1", session_id="busy")

        thread = threading.Thread(target=busy)
        thread.start()
        try:
            for i in range(5):
                equal(run(s, "1", session_id=f"new{i}").json()["cause"], "ok")
                time.sleep(0.1)
                equal(sessions(s), 12, f"after {i + 1} newcomers")
        finally:
            stop.set()
            thread.join()


@check
def who_waits_for_a_place_hears_in_time():
    with serving("--max-sessions", "1", "--queue-wait", "1s", "--cleanup-interval", "1h") as s:
        first = begin(s, "import time; time.sleep(100)", fresh=True, timeout=100)
        wait_running(s)
        began = time.monotonic()
        reply = run(s, "1", fresh=True)  # told while the first still runs
        took = time.monotonic() - began
        equal(reply.status, 503, reply.text)
        assert reply.header("Retry-After"), "no Retry-After"
        assert 0.9 < took, f"told after {took:.1f} s"
        first.close()


@check
def without_waiting_an_idle_session_still_makes_room():
    with serving("--max-sessions", "1", "--queue-wait", "0") as s:
        for i in range(5):
            equal(run(s, "1", session_id=f"s{i}").status, 200)


@check
def idle_sessions_make_room_where_the_machine_is_the_bound():
    with serving("--pool-size", "0", wrap=["prlimit", "--nofile=384:384"]) as s:
        for i in range(150):
            reply = run(s, "print(1)", session_id=f"s{i}")
            equal(reply.status, 200, f"session {i}: {reply.text[:200]}")


@check
def what_waits_is_bounded():
    with serving("--max-sessions", "1", "--max-body", "16M", "--queue-wait", "60s") as s:
        first = begin(s, "import time; time.sleep(55)", fresh=True, timeout=60)
        wait_running(s)
        big = "#" * (8 << 20)
        waiting, refused = [begin(s, big, fresh=True, stream=False) for _ in range(40)], set()
        wait_for(lambda: refused.update(select.select(waiting, [], [], 0)[0]) or len(refused) > 5, seconds=30)
        for one in refused:
            assert one.recv(100).startswith(b"HTTP/1.1 429")
        queued = metric(s, "krait_runs_queued")
        assert queued >= 10, queued
        for one in [*waiting, first]:
            one.close()
        wait_for(lambda: metric(s, "krait_runs_queued") == 0)
        equal(run(s, "1", fresh=True).status, 200)


# ---- the right run ---------------------------------------------------------------------------


@check
def interrupting_a_run_that_waits_leaves_the_other_alone():
    with serving() as s:
        first = begin(s, "import time; time.sleep(8); print('whole')")
        wait_running(s)
        begin(s, "1")
        wait_for(lambda: metric(s, "krait_runs_queued") == 1)
        waits = next(r for r in runs_of(s, running="true") if r["code"] == "1")
        reply = s.request("POST", f"{RUNS}/{waits['run_id']}/interrupt", b"")
        equal(reply.status, 409, reply.text)
        contains(read_all(first).decode(), "whole")


@check
def input_without_a_client_to_answer_is_the_end_of_input():
    with serving() as s:
        for _ in range(20):
            equal(run(s, "input('? ')").json()["error"]["type"], "EOFError")


@check
def an_answer_without_a_question_is_a_conflict():
    with serving() as s:
        one = begin(s, "import time; time.sleep(3)")
        wait_running(s)
        run_id = runs_of(s, running="true")[0]["run_id"]
        for _ in range(20):
            equal(s.request("POST", f"{RUNS}/{run_id}/input", {"text": "x"}).status, 409)
        one.close()


@check
def a_timeout_beyond_all_numbers_is_refused():
    with serving() as s:
        for seconds in (18446744073709552, 9223372036854775807):
            reply = s.request("POST", "/api/v1/execute_sync", {"code": "1", "timeout": seconds})
            equal(reply.status // 100, 4, f"{seconds}: {reply.text[:200]}")


@check
def a_timeout_below_a_millisecond_is_not_the_default():
    with serving() as s:
        began = time.monotonic()
        equal(run(s, "import time; time.sleep(60)", timeout=0.0001).json()["cause"], "timeout")  # 30 s are the default
        assert time.monotonic() - began < 25


@check
def much_output_does_not_stop_the_next_run():
    with serving("--output", "64M") as s:
        for _ in range(6):
            equal(run(s, "import sys\nfor _ in range(40): sys.stdout.write('x' * (1 << 20))").json()["cause"], "ok")
            reply = run(s, "import sys\nfor _ in range(4): sys.stdout.write('y' * (1 << 16))", timeout=10).json()
            equal((reply["cause"], len(reply["stdout"])), ("ok", 4 << 16))


@check
def a_log_of_many_small_events_reaches_the_disk():
    with serving() as s:
        one = begin(s, "import time\nfor i in range(1600):\n    print(i, flush=True); time.sleep(0.001)")
        lines = read_all(one).splitlines()
        assert len(lines) > 520, f"{len(lines)} lines are too few to show anything"
        run_id = json.loads(lines[-1])["run_id"]
        logs = os.path.join(s.data, "data/logs")
        wait_for(lambda: any(run_id in name for name in os.listdir(logs)), 5, "it is in memory alone")


@check
def an_outcome_too_large_for_one_answer_comes_without_its_output():
    with serving("--output", "32M") as s:
        code = "print(chr(1) * 15_000_000)\n6 * 7"
        reply = run(s, code).json()
        equal((reply["stdout"], reply["log_cut"], reply["result"], reply["cause"]), ("", True, "42", "ok"))
        reply = s.request("POST", "/execute_sync", {"code": code}).json()
        equal(reply["data"]["texts"], ["\n[output was cut here]\n", "42"])


@check
def what_is_past_its_time_goes_however_much_there_is():
    with serving("--retention", "1s", "--cleanup-interval", "20s") as s:
        connection = s.connect()
        for _ in range(400):
            connection.request("POST", RUNS, json.dumps({"code": "1", "stream": False}))
            connection.getresponse().read()
        connection.close()
        equal(len(runs_of(s, limit=500)) > 300, True, "there were runs to forget")
        wait_for(lambda: len(runs_of(s, limit=500)) == 0, 60, "old runs are left")


# ---- sandboxes -------------------------------------------------------------------------------


def folders(server) -> int:
    return len(os.listdir(os.path.join(server.data, "data/sandboxes")))


@check
def a_reset_sandbox_is_empty_at_once_and_its_folder_goes():
    with serving("--cleanup-interval", "200ms") as s:
        for i in range(5):
            equal(run(s, "import os; os.makedirs('a/b'); open('a/b/c', 'w').write('x'); os.chmod('a/b', 0);"
                         "os.chmod('a', 0)").json()["cause"], "ok")
            equal(s.request("POST", "/api/v1/sandboxes/default/reset", b"").status, 200)
            equal(run(s, "import os; print(os.listdir('.'))").json()["stdout"], "[]\n", f"round {i}")
        wait_for(lambda: folders(s) == 1, 10, "folders of the past are left")


@check
def a_sandbox_that_is_reset_under_load_never_shows_old_files():
    with serving() as s:
        for i in range(30):
            slow = begin(s, "open('old', 'w').write('x'); import time; time.sleep(0.05)")
            time.sleep(0.03)
            equal(s.request("POST", "/api/v1/sandboxes/default/reset", b"").status, 200)
            equal(run(s, "import os; print(os.listdir('.'))").json()["stdout"], "[]\n", f"round {i}")
            slow.close()


@check
def programs_do_not_pass_their_users_disk():
    with serving("--max-disk-per-user", "8M", "--disk", "64M") as s:
        write = "import time\nfor i in range(8):\n    open(f'{n}-{i}', 'wb').write(bytes(1 << 20)); time.sleep(0.15)\n"
        causes = []
        for n in range(6):
            reply = run(s, write, variables={"n": n}, session_id=f"s{n}").json()
            causes.append(reply["cause"])
            time.sleep(2.1)  # until it may be measured again
        assert causes[0] in ("ok", "disk_limit") and causes[2:] == ["disk_limit"] * 4, causes
        code = "import os\nfor name in os.listdir('.'): os.unlink(name)\nprint(6 * 7)"
        equal(run(s, code, session_id="delete").json()["stdout"], "42\n")
        time.sleep(2.1)
        run(s, "1", session_id="measure")
        time.sleep(0.5)
        equal(run(s, "open('x', 'wb').write(bytes(1 << 20)); import time; time.sleep(1)",
                  session_id="again").json()["cause"],
              "ok")


# ---- what watching shows ---------------------------------------------------------------------


@check
def figures_never_fall_below_nothing():
    with serving() as s:
        equal(run(s, MANY_FILES, timeout=60).json()["cause"], "ok")
        for _ in range(5):
            one = begin(s, "import time; time.sleep(60)")
            wait_running(s)
            s.request("DELETE", "/api/v1/sessions/main")
            for _ in range(20):
                idle = metric(s, "krait_sessions", '{state="idle"}')
                assert 0 <= idle < 1000, idle
            one.close()


@check
def a_chatty_thread_does_not_fill_the_log():
    with serving() as s:
        equal(run(s, "import os, threading, time\n"
                     "def f():\n"
                     "    while True:\n"
                     "        os.write(1, b'x'); time.sleep(0.0005)\n"
                     "threading.Thread(target=f, daemon=True).start()").json()["cause"], "ok")
        time.sleep(2)
        lines = s.log_text().count("output between runs")
        assert 1 <= lines <= 3, f"{lines} lines"


# ---- the end ---------------------------------------------------------------------------------


def alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


@check
def a_stop_ends_what_runs_and_what_waits():
    with serving("--stop-timeout", "1s", "--max-sessions", "2", "--queue-wait", "60s") as s:
        held = [begin(s, "import time; time.sleep(60)", timeout=100)]
        wait_running(s)
        held += [begin(s, "1") for _ in range(5)]
        held += [begin(s, "import time; time.sleep(60)", fresh=True) for _ in range(4)]
        time.sleep(0.5)
        began = time.monotonic()
        equal(s.stop(), 0)
        took = time.monotonic() - began
        assert took < 40, f"it took {took:.1f} s"  # they sleep and wait for 60
        ends = [json.loads(body.splitlines()[-1]) for body in map(read_all, held) if body.strip().startswith(b'{"seq"')]
        assert len(ends) >= 6 and all(e["type"] == "end" for e in ends), ends
        equal({e["cause"] for e in ends}, {"cancelled"})


@check
def a_stop_while_folders_are_looked_at():
    for i in range(4):
        with serving("--stop-timeout", "0") as s:
            equal(run(s, MANY_FILES, timeout=60).json()["cause"], "ok")
            s.request("DELETE", "/api/v1/sessions/main")
            held = [begin(s, "import time; time.sleep(60)", session_id=f"s{k}") for k in range(6)]
            time.sleep(0.01 * i)
            equal(s.stop(), 0)
            for one in held:
                one.close()


@check
def a_second_signal_ends_it_at_once():
    with serving("--stop-timeout", "1h") as s:
        held = [begin(s, "import time; time.sleep(60)", session_id=f"s{k}", timeout=100) for k in range(4)]
        wait_running(s, 4)
        s.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "stopping" in s.get("/ready").text, 20)  # else the two signals may become one
        began = time.monotonic()
        s.process.send_signal(signal.SIGTERM)
        s.process.wait(40)
        assert time.monotonic() - began < 40  # they sleep for 60
        for one in held:
            one.close()


@check
def no_client_is_let_in_while_it_stops():
    with serving("--stop-timeout", "30s") as s:
        one = begin(s, "import time; time.sleep(8)")
        wait_running(s)
        s.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "stopping" in s.get("/ready").text, 6)
        for reply in (s.get("/ready"), s.post("/api/v1/runs", {"code": "1"})):  # clients are told, and nothing begins
            equal(reply.status, 503)
            contains(reply.text, "stopping")
        contains(read_all(one).decode(), '"cause":"ok"')


@check
def a_lost_warden_is_told_to_readers():
    with serving() as s:
        held = [begin(s, "import time; time.sleep(60)", session_id=f"s{k}") for k in range(3)]
        wait_running(s, 3)
        server = s.server_pid()
        os.kill(s.process.pid, signal.SIGKILL)
        for one in held:
            end = json.loads(read_all(one).splitlines()[-1])
            equal((end["type"], end["cause"]), ("end", "lost"))
        wait_for(lambda: not alive(server), 10, "the server lives on without its warden")


# ---- where it runs ---------------------------------------------------------------------------


@check
def root_of_a_user_namespace_can_serve():
    if os.geteuid() != 0:
        skip("needs root to make the outer namespace as another user")
    me = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "unshare", "-rm"]
    if subprocess.run([*me, "true"], check=False).returncode != 0:
        skip("no user namespaces for ordinary users here")
    server = Server(wrap=me, validate=False)
    os.chmod(server.data, 0o777)
    with server:
        equal(run(server, "print(1)").json()["stdout"], "1\n")


@check
def a_link_is_no_data_directory():
    server = Server(validate=False)
    os.chmod(server.data, 0o755)
    os.mkdir(os.path.join(server.data, "elsewhere"))
    os.symlink("elsewhere", os.path.join(server.data, "data"))
    try:
        server.start()
        raise AssertionError("it started")
    except RuntimeError as why:
        contains(str(why), "--data")
        equal(os.listdir(os.path.join(server.data, "elsewhere")), [])
    finally:
        server.close(check=False)


if __name__ == "__main__":
    main()
