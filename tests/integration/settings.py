#!/usr/bin/python3
"""Settings of the server, its listeners, keys, MCP, data and log: two values each, and what differs."""
from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests/lib"), str(ROOT / "tests/escape")]
from check import check, contains, equal, main  # noqa: E402
from krait_server import KRAIT, Server  # noqa: E402
from mcp import Http, Stdio  # noqa: E402
from serving import Stream, eventually, kept  # noqa: E402
from two_values import (  # noqa: E402
    BOXES, FILES, KEY, OTHER_KEY, RUNS, SOON, plain, run, start, setting, is_open, closed_within, free_port, only_root)


def web() -> Server:
    """Other values of what concerns connections, requests and accounts."""
    return kept(args=["--public-url", "https://krait.example.org", "--allowed-hosts", "other.example.org",
                      "--cors-origins",
                      "https://app.example.org", "--cors-credentials", "--max-body", "64K", "--max-upload", "64K",
                      "--head-timeout", "300ms", "--body-timeout", "300ms", "--keep-alive", "300ms",
                      "--ping-interval", "200ms",
                      "--max-connections-per-address", "4", "--allow-registration", "--link-ttl", "1s",
                      "--login-ttl", "1m"])


# ---- files -----------------------------------------------------------------------------------------------------------


@check
def config():
    with tempfile.TemporaryDirectory() as folder:
        for name, port in (("a.toml", "81"), ("b.toml", "82")):
            Path(folder, name).write_text("[server]\nport = %s\n" % port)
            equal(setting("server", "port", "--config", folder + "/" + name), port)


@check
def env_file():
    with tempfile.TemporaryDirectory() as folder:
        for name, port in (("a.env", "81"), ("b.env", "82")):
            Path(folder, name).write_text("KRAIT_PORT=%s\n" % port)
            equal(setting("server", "port", "--env-file", folder + "/" + name), port)


@check
def no_files():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "krait.toml").write_text("[server]\nport = 81\n")
        equal(setting("server", "port", cwd=folder), "81")
        equal(setting("server", "port", "--no-files", cwd=folder), "8642")


@check
def sse():
    for args, said in (([], False), (["--sse"], True)):
        with Server(args=args, validate=False) as s:
            equal(b"/sse" in s.said, said, str(args))


# ---- server ----------------------------------------------------------------------------------------------------------


@check
def host():
    for own, other in (("127.0.0.1", "127.0.0.2"), ("127.0.0.2", "127.0.0.1")):
        with Server(args=["--host", own], validate=False) as s:
            socket.create_connection((own, s.port), timeout=SOON).close()
            try:
                socket.create_connection((other, s.port), timeout=SOON).close()
            except ConnectionRefusedError:
                continue
            raise AssertionError("%s answers too" % other)


@check
def port():
    for number in (free_port(), free_port()):
        with Server(args=["--port", str(number)]) as s:
            equal((s.port, s.get("/health").status), (number, 200))


@check
def listen():
    one, two = free_port(), free_port()
    for text, ports in (("127.0.0.1:%d" % one, {one}),
                        ("127.0.0.1:%d,127.0.0.1:%d=sandbox-mcp" % (one, two), {one, two})):
        with Server(args=["--listen", text], usual=["--no-files"], validate=False) as s:
            found = set()
            for number in (one, two):
                s.port = number
                try:
                    equal(s.get("/health").status, 200)
                    found.add(number)
                except ConnectionRefusedError:
                    pass
            equal(found, ports)


@check
def dialect():
    """The document of sandbox-mcp has no page of the API."""
    equal(plain().get("/docs").status, 200)
    equal(kept(args=["--dialect", "sandbox-mcp"]).get("/docs").status, 404)


@check
def transport():
    equal(plain().get("/health").status, 200)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        argv = [os.path.abspath(KRAIT), "serve", "--no-files", "--transport", "stdio", "--data", folder + "/data"]
        with Stdio(argv) as c:
            assert c.call("tools/list")["tools"], "no tools"


@check
def public_url():
    for s, status in ((plain(), 400), (web(), 200)):
        equal(s.get("/health", headers={"Host": "krait.example.org"}).status, status)


@check
def user():
    only_root()
    for uid in (4242, 4243):
        with Server(args=["--user", str(uid)]) as s:
            equal(os.stat("/proc/%d" % s.server_pid()).st_uid, uid)
            equal(os.stat(s.data + "/data").st_uid, uid)


@check
def stop_timeout():
    for grace, cause in (("0", "cancelled"), ("60s", "ok")):
        with Server(args=["--stop-timeout", grace], validate=False) as s:
            with Stream(s, "POST", RUNS, {"code": "import time\nprint('begun', flush=True)\ntime.sleep(1)"}) as stream:
                stream.until("stdout")
                s.process.send_signal(signal.SIGTERM)
                equal(stream.rest()[-1]["cause"], cause, grace)


# ---- auth ------------------------------------------------------------------------------------------------------------


def who_may(s: Server) -> list:
    return [s.get(RUNS, key=key).status for key in ("", KEY, OTHER_KEY)]


@check
def api_key():
    equal(who_may(plain()), [200, 200, 200], "no key is asked for")
    equal(who_may(kept(env={"KRAIT_API_KEY": KEY}, key=KEY)), [401, 200, 401])
    equal(who_may(kept(env={"KRAIT_API_KEY": OTHER_KEY}, key=OTHER_KEY)), [401, 401, 200])


@check
def api_key_file():
    with tempfile.TemporaryDirectory() as folder:
        for key, may in ((KEY, [401, 200, 401]), (OTHER_KEY, [401, 401, 200])):
            path = Path(folder, "key")
            path.write_text(key + "\n")
            path.chmod(0o600)
            with Server(args=["--api-key-file", str(path)], key=key) as s:
                equal(who_may(s), may)


@check
def require_auth():
    equal(plain().get(RUNS).status, 200)
    equal(kept(args=["--require-auth"], validate=False).get(RUNS).status, 401)


@check
def allow_anonymous():
    with tempfile.TemporaryDirectory() as folder:
        done = start("--no-files", "--host", "0.0.0.0", "--port", "0", "--data", folder + "/data")
        equal(done.returncode, 2)
        contains(done.stderr.decode(), "--allow-anonymous")
    with Server(args=["--host", "0.0.0.0", "--allow-anonymous"]) as s:
        equal(s.get(RUNS).status, 200)


@check
def accept_loss():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        with Server(data=folder) as s:
            equal(s.run("1")["cause"], "ok")
        shutil.rmtree(folder + "/data/sandboxes")
        done = start("--no-files", "--port", "0", "--data", folder + "/data")
        equal(done.returncode, 125)
        contains(done.stderr.decode(), "--accept-loss")
        with Server(data=folder, args=["--accept-loss"]) as s:
            equal(s.run("1")["cause"], "ok")


@check
def allow_registration():
    body = {"username": "ada", "email": "ada@example.org", "password": "correct horse"}
    equal(plain().post("/api/register", body).status, 403)
    equal(web().post("/api/register", body).status, 200)


@check
def open_metrics():
    equal(kept(args=["--require-auth"], validate=False).get("/metrics").status, 401)
    equal(kept(args=["--require-auth", "--open-metrics"], validate=False).get("/metrics").status, 200)


@check
def login_ttl():
    for args, seconds in ((["--login-ttl", "1m"], 60), (["--login-ttl", "1h"], 3600)):
        with Server(args=["--allow-registration", *args]) as s:
            s.post("/api/register", {"username": "eve", "email": "eve@example.org", "password": "correct horse"})
            made = s.post("/api/v1/login", {"name": "eve", "password": "correct horse"})
            equal(made.status, 200, made.text)
            assert abs(made.json()["expires_at"] - time.time() - seconds) < 30, made.json()


@check
def link_ttl():
    def link(s: Server) -> str:
        s.put(FILES + "/a.txt", b"x")
        made = s.post(BOXES + "/default/links", {"path": "a.txt"})
        equal(made.status, 201, made.text)
        return "/" + made.json()["url"].split("/", 3)[3]

    long, brief = link(plain()), link(web())
    eventually(lambda: web().get(brief).status == 403, SOON)
    equal(plain().get(long).status, 200)


# ---- http ------------------------------------------------------------------------------------------------------------


@check
def allowed_hosts():
    for s, status in ((plain(), 400), (web(), 200)):
        equal(s.get("/health", headers={"Host": "other.example.org"}).status, status)


@check
def cors_origins():
    for s, status in ((plain(), 403), (web(), 200)):
        equal(s.get(RUNS, headers={"Origin": "https://app.example.org"}).status, status)


@check
def cors_credentials():
    with Server(args=["--cors-origins", "https://app.example.org"]) as s:
        reply = s.get(RUNS, headers={"Origin": "https://app.example.org"})
        equal((reply.header("access-control-allow-origin"), reply.header("access-control-allow-credentials")),
              ("https://app.example.org", None))
    reply = web().get(RUNS, headers={"Origin": "https://app.example.org"})
    equal(reply.header("access-control-allow-credentials"), "true")


@check
def max_body():
    code = {"code": "#" + "x" * 100_000, "stream": False}
    for s, status in ((plain(), 200), (web(), 413)):
        equal(s.post(RUNS, code).status, status)


@check
def max_upload():
    for s, status in ((plain(), 201), (web(), 413)):
        equal(s.put(FILES + "/large", b"x" * 100_000).status, status)


def answered(s: Server, count: int) -> int:
    """Of so many connections at once, how many get an answer?"""
    good, held = 0, []
    for _ in range(count):
        one = s.raw()
        held.append(one)
        try:
            one.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            good += one.recv(16).startswith(b"HTTP/1.1 200")
        except ConnectionError:
            pass
    for one in held:
        one.close()
    return good


@check
def max_connections():
    equal(answered(plain(), 12), 12)
    with Server(args=["--max-connections", "8"], validate=False) as s:
        equal(answered(s, 12), 8)


@check
def max_connections_per_address():
    for bound, count in (("4", 4), ("0", 12)):
        with Server(args=["--max-connections-per-address", bound], validate=False) as s:
            equal(answered(s, 12), count, bound)


def read_late(s: Server, pause: float) -> int:
    """Bytes of a reply of 40 MB that come to a client which begins to read after the pause."""
    s.put(FILES + "/zeros", b"\0" * (40 << 20))
    with s.raw() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        one.sendall(b"GET %s/zeros HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % FILES.encode())
        time.sleep(pause)
        return len(closed_within(one, SOON))


@check
def write_timeout():
    assert read_late(plain(), 1.5) >= 40 << 20
    with Server(args=["--write-timeout", "300ms"], validate=False) as s:
        assert read_late(s, 1.5) < 40 << 20


def large_outcome(s: Server) -> int:
    """Bytes of an outcome of 12 MB in one piece that come to a client which is slow to read."""
    body = json.dumps({"code": "print('x' * 12_000_000)", "stream": False}).encode()
    with s.raw() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        one.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                    % (RUNS.encode(), len(body), body))
        eventually(lambda: s.get(RUNS).json()["runs"] and not s.get(RUNS + "?running=true").json()["runs"], SOON)
        time.sleep(0.5)
        return len(closed_within(one, SOON))


@check
def max_unsent():
    for bound, whole in (("256M", True), ("1M", False)):
        with Server(args=["--max-unsent", bound, "--output", "16M"], validate=False) as s:
            equal(large_outcome(s) > 12_000_000, whole, bound)


@check
def head_timeout():
    with plain().raw() as slow, web().raw() as quick:
        for one in (slow, quick):
            one.sendall(b"GET /health HTTP/1.1\r\nHo")
        contains(closed_within(quick, SOON), b"HTTP/1.1 408")
        assert is_open(slow, 0.5)


@check
def body_timeout():
    with plain().raw() as slow, web().raw() as quick:
        for one in (slow, quick):
            one.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{" % RUNS.encode())
        contains(closed_within(quick, SOON), b"HTTP/1.1 408")
        assert is_open(slow, 0.5)


@check
def keep_alive():
    with plain().raw() as slow, web().raw() as quick:
        for one in (slow, quick):
            one.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            contains(one.recv(65536), b"HTTP/1.1 200")
        equal(closed_within(quick, SOON), b"")
        assert is_open(slow, 0.5)


@check
def ping_interval():
    for s, alive in ((plain(), False), (web(), True)):
        with Stream(s, "POST", RUNS, {"code": "import time; time.sleep(1.2)"},
                    {"Accept": "text/event-stream"}) as stream:
            lines = []
            while line := stream.raw_line():
                lines.append(line)
        equal(any(line.startswith(b":") for line in lines), alive)


# ---- mcp -------------------------------------------------------------------------------------------------------------


def mcp() -> Server:
    return kept(args=["--tools", "core", "--structured", "--answer-after", "1s",
                      "--authorization-servers", "https://login.example.org"],
                validate=False)


@check
def tools():
    names = []
    for s in (plain(), mcp()):
        with Http(s.port) as c:
            names.append({tool["name"] for tool in c.call("tools/list")["tools"]})
    assert names[1] < names[0], names


@check
def structured():
    for s, has in ((plain(), False), (mcp(), True)):
        with Http(s.port) as c:
            equal("structuredContent" in c.tool("execute_python", {"code": "1"}), has)


@check
def answer_after():
    for s, whole in ((plain(), True), (mcp(), False)):
        with Http(s.port) as c:
            equal("the end" in c.text("execute_python", {"code": "import time\ntime.sleep(2.5)\nprint('the end')"}),
                  whole)


@check
def authorization_servers():
    for s, status in ((plain(), 404), (mcp(), 200)):
        connection = s.connect()
        connection.request("GET", "/.well-known/oauth-protected-resource/mcp")
        equal(connection.getresponse().status, status)
        connection.close()


# ---- data ------------------------------------------------------------------------------------------------------------


@check
def data():
    with tempfile.TemporaryDirectory(prefix="krait-test-") as one, \
         tempfile.TemporaryDirectory(prefix="krait-test-") as two:
        for folder in (one, two):
            os.chmod(folder, 0o755)
        with Server(data=one) as s:
            equal(s.post(BOXES, {"name": "mine"}).status, 201)
        for folder, status in ((one, 200), (two, 404)):
            with Server(data=folder) as s:
                equal(s.get(BOXES + "/mine").status, status)


@check
def retention():
    with Server(args=["--retention", "1s", "--cleanup-interval", "100ms"]) as s, \
            Server(args=["--retention", "1h", "--cleanup-interval", "100ms"]) as longer:
        old, kept_one = s.run("1")["run_id"], longer.run("1")["run_id"]
        eventually(lambda: s.get("%s/%s" % (RUNS, old)).status == 404, SOON)
        equal(longer.get("%s/%s" % (RUNS, kept_one)).status, 200)


@check
def max_data():
    def first_of_many(s: Server) -> str:
        ids = [s.run("import os, base64\nprint(base64.b64encode(os.urandom(4_000_000)).decode())")["run_id"]
               for _ in range(8)]
        return "%s/%s/events" % (RUNS, ids[0])

    with Server(args=["--max-data", "16M", "--cleanup-interval", "100ms"]) as s, \
         Server(args=["--cleanup-interval", "100ms"]) as large:
        path, there = first_of_many(s), first_of_many(large)
        eventually(lambda: s.get(path).status == 404, SOON)
        equal(large.get(there).status, 200)


def on_image(**more) -> Server:
    if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
        skip("needs root and loop devices")
    return Server(shelf="image", **more)


@check
def shelf():
    with Server() as s:
        equal(s.run("1")["cause"], "ok")
        contains(s.log_text(), "disk limits are counted")
        assert not os.path.exists(s.data + "/data/sandboxes.image")
    with on_image() as s:
        equal(s.run("1")["cause"], "ok")
        contains(s.log_text(), "disk limits are enforced")


@check
def shelf_size():
    for size, number in (("512M", 512 << 20), ("1G", 1 << 30)):
        with on_image(args=["--shelf-size", size]) as s:
            equal(os.stat(s.data + "/data/sandboxes.image").st_size, number)


@check
def shelf_discard():
    for value, told in (("true", True), ("false", False)):
        with on_image(args=["--shelf-size", "512M"], env={"KRAIT_SHELF_DISCARD": value}) as s:
            mounts = open("/proc/%d/mountinfo" % s.server_pid()).read().splitlines()
            (own,) = [line for line in mounts if " %s/data/sandboxes " % s.data in line]
            equal("discard=async" in own, told, own)


# ---- log -------------------------------------------------------------------------------------------------------------


@check
def log_level():
    for name, told in (("info", True), ("error", False)):
        with Server(args=["--log-level", name]) as s:
            s.run("1")
            s.stop()
            equal("run started" in s.log_text(), told, name)


@check
def log_format():
    for name, first in (("logfmt", "ts="), ("json", "{")):
        with Server(args=["--log-format", name]) as s:
            s.run("1")
            s.stop()
            (line, *_) = [line for line in s.log_text().splitlines() if "run started" in line]
            assert line.startswith(first), line


@check
def log_dir():
    with tempfile.TemporaryDirectory(prefix="krait-test-") as folder:
        os.chmod(folder, 0o755)
        with Server(args=["--log-dir", folder + "/log"], data=folder) as s:
            one = s.run("1")["run_id"]
            s.stop()
        contains(Path(folder, "log/krait.log").read_text(), one)
        with Server(data=folder) as s:
            two = s.run("1")["run_id"]
            s.stop()
        assert two not in Path(folder, "log/krait.log").read_text()


@check
def debug():
    for args, status in ((["--debug"], 200), ([], 404)):
        equal(kept(args=["--dialect", "sandbox-mcp", *args]).get("/docs").status, status)


main()
