"""A `krait serve` for tests: on loopback and a free port, in a data directory of its own, ended by pid.

    with Server() as s:
        reply = s.post("/api/v1/runs", {"code": "print(1)", "stream": False})
        equal(reply.json()["stdout"], "1\\n")

Every JSON reply is held against /openapi.json of the same server (tests/lib/openapi.py); what does not obey it is a
problem in `s.problems`, which `close()` raises. Stdlib only.
"""
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

KRAIT = os.environ.get("KRAIT", "build/krait")
# The same program with the tools of MCP's conformance suite.
KRAIT_FIXTURES = os.path.join(os.environ.get("KR_BUILD", os.path.dirname(KRAIT)), "tests/krait-fixtures")
READY_S = 60
STOP_S = 20
PAGES = re.compile(r"/(openapi\.json|docs/?|redoc|favicon\.svg|assets/.*)$")  # not operations of the API


@contextlib.contextmanager
def data_folder():
    """A folder for `Server(data=…)` that outlives servers; its data directory is `data` in it."""
    with tempfile.TemporaryDirectory(prefix="krait-test-") as folder:
        os.chmod(folder, 0o755)
        yield folder


@dataclass
class Reply:
    status: int
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)

    def detail(self):
        """What a document's client reads of an error, which has krait's shape beside it."""
        body = self.json()
        if list(body) != ["error", "detail"] or list(body["error"]) != ["kind", "message", "field", "request_id"]:
            raise AssertionError("not the shape of a document's error: %s" % self.text)
        if isinstance(body["detail"], str) and body["error"]["message"] != body["detail"]:
            raise AssertionError("two messages in one error: %s" % self.text)
        return body["detail"]

    def lines(self) -> list:
        """Of NDJSON."""
        return [json.loads(line) for line in self.body.splitlines() if line]

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def header(self, name: str):
        return self.headers.get(name.lower())


@dataclass
class Server:
    args: list = field(default_factory=list)
    env: dict = field(default_factory=dict)
    data: str = ""
    key: str = ""
    validate: bool = True
    preload: str = "basic"
    wrap: list = field(default_factory=list)  # a command in front of krait: setpriv …
    cwd: str = "/"
    program: str = KRAIT
    shelf: str = "folder"  # tests look at sandboxes' files from outside, and an image is made in a moment, not at once
    usual: list = field(default_factory=lambda: ["--no-files", "--port", "0"])  # options that keep tests apart

    def __post_init__(self) -> None:
        self.own_data = not self.data
        self.data = self.data or tempfile.mkdtemp(prefix="krait-test-")
        if self.own_data:
            os.chmod(self.data, 0o755)  # the server has a user of its own
        self.problems: list = []
        self.process = None
        self.openapi = None
        self.port = 0

    # ---- life --------------------------------------------------------------------------------

    def start(self) -> "Server":
        env = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "ASAN_OPTIONS", "UBSAN_OPTIONS")}
        env["KRAIT_SHELF"] = self.shelf
        env.update(self.env)
        self.log = tempfile.TemporaryFile()
        argv = [*self.wrap, os.path.abspath(self.program), "serve", *self.usual,
                "--data", os.path.join(self.data, "data"), "--preload", self.preload, *self.args]
        self.process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, env=env, cwd=self.cwd,
            start_new_session=True,
        )
        deadline = time.monotonic() + READY_S
        said = b""
        os.set_blocking(self.process.stdout.fileno(), False)
        while b"\n" not in said:
            said += self.process.stdout.read() or b""
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"krait serve did not start: {self.log_text()[-2000:]}")
            time.sleep(0.01)
        found = re.search(rb"http://\S+?:(\d+)/", said)
        if not found:
            raise RuntimeError(f"no address in {said!r}")
        self.port, self.said = int(found.group(1)), said
        return self

    def __enter__(self) -> "Server":
        try:
            return self.start()
        except BaseException:
            self.close(check=False)
            raise

    def __exit__(self, kind, *_rest) -> None:
        self.close(check=kind is None)

    def log_text(self) -> str:
        self.log.seek(0)
        return self.log.read().decode("utf-8", "replace")

    def server_pid(self) -> int:
        """The process that serves: the warden's child that is neither builder nor keeper (it has the listening
        socket)."""
        children = open(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read().split()
        return int(children[0])

    def stop(self, how: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(STOP_S)

    def close(self, check: bool = True) -> None:
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired, ProcessLookupError):
                self.stop()
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            self.process.stdout.close()
        if self.own_data:
            shutil.rmtree(self.data, ignore_errors=True)
        if check and self.problems:
            raise AssertionError("; ".join(self.problems[:5]))

    # ---- requests ----------------------------------------------------------------------------

    def connect(self, timeout: float = 60) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method: str, path: str, body=None, headers=None, key=None, timeout: float = 60) -> Reply:
        headers = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        key = self.key if key is None else key
        if key:
            headers.setdefault("Authorization", "Bearer " + key)
        connection = self.connect(timeout)
        try:
            connection.request(method, path, body, headers)
            got = connection.getresponse()
            reply = Reply(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())
        finally:
            connection.close()
        self.judge(method, path, reply)
        return reply

    def get(self, path: str, **more) -> Reply:
        return self.request("GET", path, **more)

    def post(self, path: str, body=None, **more) -> Reply:
        return self.request("POST", path, body, **more)

    def put(self, path: str, body=None, **more) -> Reply:
        return self.request("PUT", path, body, **more)

    def patch(self, path: str, body=None, **more) -> Reply:
        return self.request("PATCH", path, body, **more)

    def delete(self, path: str, **more) -> Reply:
        return self.request("DELETE", path, **more)

    def run(self, code: str, **more) -> dict:
        """A run to its end, as one object."""
        key = more.pop("key", None)
        reply = self.post("/api/v1/runs", {"code": code, "stream": False, **more}, key=key)
        if reply.status != 200:
            raise AssertionError(f"run answered {reply.status}: {reply.text[:300]}")
        return reply.json()

    def raw(self) -> socket.socket:
        s = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    # ---- the schema --------------------------------------------------------------------------

    def judge(self, method: str, path: str, reply: Reply) -> None:
        if not self.validate or PAGES.match(path.split("?")[0]):
            return
        if self.openapi is None:
            self.openapi = self.load_openapi()
        try:
            self.openapi.check(method, path, reply.status, reply.headers, reply.body)
        except AssertionError as e:
            self.problems.append(f"{method} {path} {reply.status}: {e}")

    def load_openapi(self):
        from openapi import Validator

        connection = self.connect()
        connection.request("GET", "/openapi.json", headers={"Authorization": "Bearer " + self.key} if self.key else {})
        got = connection.getresponse()
        document = json.loads(got.read())
        connection.close()
        return Validator(document)
