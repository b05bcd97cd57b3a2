#!/usr/bin/python3
"""Several kraits on one data directory: `krait mcp` joins a server, and engines of their own share the store."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/lib"))
from check import check, contains, equal, main, skip  # noqa: E402
from krait_server import Server  # noqa: E402
from mcp import Stdio  # noqa: E402
from processes import become_subreaper, below  # noqa: E402

KRAIT = os.path.abspath(os.environ.get("KRAIT", "build/krait"))
WAIT_S = 20


def argv(place: str, *more: str) -> list:
    return [KRAIT, "mcp", "--data", os.path.join(place, "data"), *more]


def own(place: str, *more: str) -> list:
    """One with an engine of its own."""
    return argv(place, "--preload", "basic", *more)


def pids_of(c: Stdio) -> set:
    return set(below(c.process.pid))


def folder() -> str:
    place = tempfile.mkdtemp(prefix="krait-test-")
    os.chmod(place, 0o755)
    return place


@check
def a_client_joins_the_server_that_runs() -> None:
    with Server() as s:
        s.post("/api/v1/runs", {"code": "shared = 41", "stream": False})
        with Stdio(argv(s.data)) as c:
            equal(pids_of(c), set(), "it has no engine")
            equal(c.text("execute_python", code="print(shared + 1)").splitlines()[0], "42",
                  "the server's session, with its variables")
            runs = s.get("/api/v1/runs").json()["runs"]
            assert len(runs) == 2, runs
            equal(c.garbage, [])
        equal(c.process.returncode, 0)
        with Stdio(argv(s.data, "--no-join", "--preload", "basic")) as c:
            assert pids_of(c), "asked not to join it has an engine of its own"
        with Stdio(own(s.data, "--memory", "300M")) as c:
            assert pids_of(c), "what the server cannot do for it is done by its own engine"


@check
def each_client_has_its_dialect() -> None:
    with Server() as s:
        with Stdio(argv(s.data)) as ours, Stdio(argv(s.data, "--dialect", "python-executor")) as theirs:
            equal((pids_of(ours), pids_of(theirs)), (set(), set()))
            names = [{tool["name"] for tool in c.call("tools/list")["tools"]} for c in (ours, theirs)]
            assert names[0] != names[1], names
        with Stdio(argv(s.data, "--structured")) as c:
            equal(pids_of(c), set())
            assert "structuredContent" in c.tool("execute_python", code="1")
        with Stdio(argv(s.data)) as c:
            assert "structuredContent" not in c.tool("execute_python", code="1")


@check
def a_server_that_goes_is_told() -> None:
    with Server() as s:
        c = Stdio(argv(s.data))
        c.open()
        equal(pids_of(c), set())
        os.kill(s.server_pid(), signal.SIGKILL)
        status = c.process.wait(WAIT_S)
        assert status not in (0, None), "exit status %s" % status
        c.close()
        s.process.wait(WAIT_S)


@check
def a_dead_servers_socket_is_no_obstacle() -> None:
    place = folder()
    try:
        with Server(data=place) as s:
            os.kill(s.server_pid(), signal.SIGKILL)
            s.process.wait(WAIT_S)
        assert os.path.exists(os.path.join(place, "data/mcp.sock")), "control: it was left behind"
        with Stdio(own(place)) as c:
            equal(c.text("execute_python", code="print(1)").splitlines()[0], "1")
        with Server(data=place) as s, Stdio(argv(place)) as c:
            equal(pids_of(c), set(), "the new server has the socket")
    finally:
        shutil.rmtree(place, ignore_errors=True)


@check
def a_server_that_stops_takes_its_socket_along() -> None:
    place = folder()
    try:
        with Server(data=place) as s:
            mode = os.stat(os.path.join(place, "data/mcp.sock")).st_mode
            equal(mode & 0o777, 0o600)
            c = Stdio(argv(place))
            c.open()
            equal(s.stop(), 0)
            assert c.process.wait(WAIT_S) != 0
            c.close()
        assert not os.path.exists(os.path.join(place, "data/mcp.sock"))
    finally:
        shutil.rmtree(place, ignore_errors=True)


@check
def strangers_do_not_get_in() -> None:
    """The folder keeps them out; so does the socket where the folder would not."""
    if os.geteuid() != 0:
        skip("needs root to become another user")
    with Server() as s:
        path = os.path.join(s.data, "data")
        hello = b'{"krait":{"version":1,"dialect":"krait","structured":false}}\\n'
        program = ("import socket,sys\nc=socket.socket(socket.AF_UNIX)\nc.settimeout(5)\nc.connect(sys.argv[1])\n"
                   "try:\n  c.sendall(b'%s')\n  print(c.recv(100))\nexcept ConnectionError: print(b'')"
                   % hello.decode())
        mode = os.stat(path).st_mode

        def try_as(uid: int) -> subprocess.CompletedProcess:
            return subprocess.run(["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups",
                                   "--", "/usr/bin/python3",
                                   "-c", program, os.path.join(path, "mcp.sock")], capture_output=True, timeout=30,
                                  check=False)

        contains(try_as(1000).stderr.decode(), "PermissionError")
        os.chmod(path, 0o711)
        os.chmod(os.path.join(path, "mcp.sock"), 0o666)
        try:
            refused = try_as(1000)
            equal(refused.stdout.strip(), b"b''", "let go without a word")
            contains(s.log_text(), "stranger")
            contains(try_as(0).stdout.decode(), "krait", "control: root is welcome")
            contains(try_as(os.stat(path).st_uid).stdout.decode(), "krait", "control: so is the owner of the data")
        finally:
            os.chmod(path, mode & 0o777)


@check
def a_client_that_does_not_introduce_itself_is_disconnected() -> None:
    with Server() as s:
        path = os.path.join(s.data, "data/mcp.sock")
        for first in (b"hello\n", b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', b"x" * 4096,
                      b'{"krait":{"version":99}}\n',
                      b'{"krait":{"version":1,"dialect":"klingon","structured":false}}\n', b""):
            with socket.socket(socket.AF_UNIX) as c:
                c.settimeout(10)
                c.connect(path)
                c.sendall(first)
                try:
                    said = c.recv(100)
                except ConnectionResetError:  # what it sent was not read
                    said = b""
                equal(said, b"", "after %r" % first[:50])
        with Stdio(argv(s.data)) as c:  # control
            equal(pids_of(c), set())


@check
def two_engines_and_a_later_server_share_the_store() -> None:
    place = folder()
    try:
        with Stdio(own(place)) as a, Stdio(own(place)) as b:
            assert pids_of(a) and pids_of(b) and not pids_of(a) & pids_of(b)
            a.text("execute_python", code="x = 'of a'; open('a.txt', 'w').write('from a')")
            b.text("execute_python", code="x = 'of b'")
            equal(a.text("execute_python", code="print(x)").splitlines()[0], "of a", "never a session")
            equal(b.text("execute_python", code="print(open('a.txt').read())").splitlines()[0], "from a",
                  "the same files")
            long = a.begin("tools/call", {"name": "execute_python",
                                          "arguments": {"code": "import time\nfor i in range(200): time.sleep(0.1)\n"
                                                                "print('through')",
                                                        "session_id": "long", "timeout": 60}})
            time.sleep(0.5)
            with Server(data=place) as s:  # the run of `a` is not lost to it
                seen = {run["run_id"]: run for run in s.get("/api/v1/runs").json()["runs"]}
                running = [run for run in seen.values() if not run.get("cause")]
                equal(len(running), 1, "the one that runs: %s" % seen)
                # another process's log is not touched while it is written
                equal(s.get("/api/v1/runs/%s/events" % running[0]["run_id"]).status, 409)
                ended = [run for run in seen.values() if run.get("cause")]
                time.sleep(max(0, ended[-1]["ended_at"] + 2.5 - time.time()))  # it may still be on its way to the disk
                equal(s.get("/api/v1/runs/%s/events" % ended[-1]["run_id"]).status, 200,
                      "control: that of one that has ended")
                s.post("/api/v1/runs", {"code": "y = 1", "stream": False})
                with Stdio(argv(place)) as joined:
                    equal(pids_of(joined), set())
                b.close()
                equal(a.text("execute_python", code="print(x)").splitlines()[0], "of a",
                      "b's leaving ended only its own")
                assert not long.done()
                long.cancel()
            equal(a.text("execute_python", code="print(x)").splitlines()[0], "of a", "so did the server's")
            equal(a.text("execute_python", session_id="long", code="print(2)").splitlines()[0], "2")
    finally:
        shutil.rmtree(place, ignore_errors=True)


@check
def first_starts_at_once_make_one_store() -> None:
    for _ in range(3):
        place = folder()
        try:
            several = [Stdio(own(place)).start() for _ in range(4)]
            for c in several:
                c.open()
            for c in several:
                c.text("list_sandboxes")  # the first to ask makes `default`
            ids = {c.text("list_sandboxes") for c in several}
            equal(len(ids), 1, "they see the same")
            equal([c.close() for c in several], [0] * 4)
        finally:
            shutil.rmtree(place, ignore_errors=True)


@check
def an_engine_that_is_killed_loses_only_its_own_runs() -> None:
    place = folder()
    try:
        with Stdio(own(place)) as a:
            a.begin("tools/call", {"name": "execute_python", "arguments": {"code": "import time; time.sleep(300)"}})
            b = Stdio(own(place))
            b.open()
            b.begin("tools/call", {"name": "execute_python", "arguments": {"code": "import time; time.sleep(300)"}})
            time.sleep(1.5)
            for pid in [b.process.pid, *pids_of(b)]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            b.process.wait(WAIT_S)
            b.close()
            with Server(data=place) as s:
                causes = sorted(str(run.get("cause")) for run in s.get("/api/v1/runs").json()["runs"])
                equal(causes, ["None", "lost"])
    finally:
        shutil.rmtree(place, ignore_errors=True)


@check
def a_reset_by_one_is_seen_by_the_other() -> None:
    place = folder()
    try:
        with Stdio(own(place)) as a, Stdio(own(place)) as b:
            a.text("execute_python", code="z = 1; open('old.txt', 'w').write('1')")
            contains(b.text("list_files"), "old.txt")
            assert not b.tool("reset_sandbox", sandbox_id="default").get("isError")
            time.sleep(1.5)  # a looks at most a second back
            said = a.text("execute_python", code="import os\nprint(os.listdir('.'))")
            equal(said.splitlines()[0], "[]")
            contains(said, "session restarted")
    finally:
        shutil.rmtree(place, ignore_errors=True)


@check
def two_servers_do_not_share() -> None:
    with Server() as s:
        second = Server(data=s.data)
        try:
            second.start()
            raise AssertionError("it started")
        except RuntimeError as error:
            contains(str(error), "another krait serves the data directory")
        finally:
            second.own_data = False
            second.close(check=False)
        equal(s.get("/health").status, 200)


become_subreaper()
main()
