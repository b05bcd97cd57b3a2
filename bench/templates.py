"""A sandbox that begins with a template, over HTTP, for bench/run: on the image, where the copy is a snapshot, beside an
empty sandbox there. As root; the server is one of our own, the template holds files as an environment does."""
import http.client
import json
import os
import shutil
import subprocess
import tempfile
import time

from programs import Failed

FILES, BYTES = 3000, 8000  # of the template
START_S = 60
HOW = (  # key, label
    ("template", "a sandbox from a template of %d files, on the image: POST → 201" % FILES),
    ("empty", "an empty sandbox, there"),
)
LIMIT_MS = 5
FILL = """
import os
for i in range(%d):
    os.makedirs("lib/part%%d" %% (i %% 60), exist_ok=True)
    open("lib/part%%d/m%%d.py" %% (i %% 60, i), "wb").write(os.urandom(%d))
print("filled")
""" % (FILES, BYTES)


class Templates:
    def __init__(self, build: str) -> None:
        self.top = tempfile.mkdtemp(prefix="krait-bench-templates-")
        os.chmod(self.top, 0o755)  # the server has a user of its own
        self.count = 0
        self.log = open(os.path.join(self.top, "log"), "w+b")
        self.server = subprocess.Popen(
            [os.path.join(build, "krait"), "serve", "--no-files", "--port", "0", "--data", self.top + "/data", "--shelf",
             "image", "--preload", "basic", "--max-sandboxes-per-user", "0", "--max-disk-per-user", "0"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, start_new_session=True)
        try:
            self.connect()
            ran = self.ask("POST", "/api/v1/runs", {"code": FILL, "stream": False})
            if ran.get("stdout") != "filled\n":
                raise Failed("the template's files: %s" % str(ran)[:200])
            self.ask("POST", "/api/v1/templates", {"sandbox_id": "default", "name": "bench"})
        except BaseException:
            self.close()
            raise

    def connect(self) -> None:
        deadline, said = time.monotonic() + START_S, b""
        os.set_blocking(self.server.stdout.fileno(), False)
        while b"\n" not in said:
            said += self.server.stdout.read() or b""
            if self.server.poll() is not None or time.monotonic() > deadline:
                self.log.seek(0)
                raise Failed("krait serve did not start: %s" % self.log.read().decode("utf-8", "replace")[-200:])
            time.sleep(0.01)
        port = int(said.decode().split("http://", 1)[1].split("/", 1)[0].rsplit(":", 1)[1])
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method: str, path: str, body: dict) -> dict:
        self.connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        got = self.connection.getresponse()
        text = got.read()
        if got.status not in (200, 201, 204):
            raise Failed("%s %s: %d %s" % (method, path, got.status, text[:200].decode("utf-8", "replace")))
        return json.loads(text) if text else {}

    def sample(self, how: str) -> float:
        """Microseconds of one; the sandbox is deleted again."""
        self.count += 1
        body = {"name": "bench-%d" % self.count, **({"template": "bench"} if how == "template" else {})}
        began = time.perf_counter()
        made = self.ask("POST", "/api/v1/sandboxes", body)
        took = time.perf_counter() - began
        self.ask("DELETE", "/api/v1/sandboxes/" + made["id"], {})
        return took * 1e6

    def close(self) -> None:
        if self.server.poll() is None:
            self.server.terminate()
        try:
            self.server.wait(30)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()
        self.server.stdout.close()
        self.log.close()
        shutil.rmtree(self.top, ignore_errors=True)


def measure(build: str, rounds: int, rows: dict) -> None:
    """Adds samples to rows["templates_" + key], one of each in turn, with rests between: folders are made ahead."""
    try:
        one = Templates(build)
    except (Failed, OSError) as exc:
        for key, _label in HOW:
            rows["templates_" + key].failed = str(exc)
        return
    try:
        for _ in range(rounds):
            for key, _label in HOW:
                time.sleep(0.05)
                rows["templates_" + key].samples.append(one.sample(key))
    except (Failed, OSError) as exc:
        for key, _label in HOW:
            rows["templates_" + key].failed = str(exc)
    finally:
        one.close()
