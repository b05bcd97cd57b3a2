#!/usr/bin/python3
"""`krait mcp` with an engine of its own: its start, garbage on its input, its end, an ordinary user, a folder of the
host's."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/lib"))
from check import check, contains, equal, main, skip  # noqa: E402
from mcp import Pending, RpcError, Stdio  # noqa: E402
from processes import become_subreaper, below, is_alive  # noqa: E402

KRAIT = os.path.abspath(os.environ.get("KRAIT", "build/krait"))
USER = 1000  # an ordinary one, of whom nothing is on this machine
ENDS_S = 15  # far more than it takes


class Place:
    """A data directory, and the way to start a krait on it."""

    def __init__(self, user: int = 0) -> None:
        self.path = tempfile.mkdtemp(prefix="krait-test-")
        os.chmod(self.path, 0o755)
        self.wrap = []
        if user and os.geteuid() == 0:
            os.chown(self.path, user, user)
            self.wrap = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", "--"]

    def argv(self, *more: str) -> list:
        return [*self.wrap, KRAIT, "mcp", "--data", os.path.join(self.path, "data"), "--preload", "basic", *more]

    def __enter__(self) -> "Place":
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def ends_cleanly(pid: int, before: dict) -> None:
    """None of its processes is left: our own descendants are those of before."""
    deadline = time.monotonic() + ENDS_S
    while True:
        left = [one for one in below(os.getpid()) if one not in before and is_alive(one)]
        if not left and not is_alive(pid):
            return
        assert time.monotonic() < deadline, "left behind: %s" % left
        time.sleep(0.02)


def zygotes(pid: int) -> dict:
    """Of a krait: preload -> pid."""
    found = {}
    for one in below(pid):
        try:
            with open("/proc/%d/cmdline" % one, "rb") as f:
                words = f.read().split(b"\0")
            with open("/proc/%d/stat" % one, encoding="ascii") as f:
                parent = int(f.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if b"/krait/boot.py" in words and parent not in found.values():  # else a session of it
            found[words[words.index(b"/krait/boot.py") + 1].decode()] = one
    return found


def until(what, seconds: float = 30):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "not within %d s" % seconds
        time.sleep(0.005)


@check
def nothing_is_started_before_the_first_message() -> None:
    with Place() as place:
        before = set(below(os.getpid()))
        p = subprocess.Popen(place.argv(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        time.sleep(0.5)  # what would start of its own accord would have
        equal(len(set(below(os.getpid())) - before), 2, "the warden and the server")
        p.stdin.close()
        equal(p.wait(ENDS_S), 0)
        p.stdout.close()


@check
def initialize_starts_the_zygotes_that_runs_will_need() -> None:
    """basic first; no run was asked for."""
    with Place() as place, Stdio([*place.argv(), "--preload", "basic,data"]) as c:
        equal(c.info["serverInfo"]["name"], "krait")
        contains([tool["name"] for tool in c.call("tools/list")["tools"]], "execute_python")
        until(lambda: zygotes(c.process.pid))
        contains(zygotes(c.process.pid), "basic")
        until(lambda: "data" in zygotes(c.process.pid))
        equal(c.text("execute_python", code="print(6 * 7)"), "42")


def begin_with_token(c: Stdio, code: str):
    """A call in a session of its own that is not answered before its end."""
    return c.begin("tools/call", {"name": "execute_python", "_meta": {"progressToken": "t"},
                                  "arguments": {"code": code, "session_id": "other"}})


@check
def a_run_without_its_modules_does_not_wait_for_data() -> None:
    """The zygote of data is held while it imports; the control is code that names one of them."""
    with Place() as place, Stdio([*place.argv(), "--preload", "data,basic"]) as c:
        until(lambda: "data" in zygotes(c.process.pid))
        data = zygotes(c.process.pid)["data"]
        os.kill(data, signal.SIGSTOP)
        try:
            equal(c.text("execute_python", code="import json; print(json.dumps([1]))"), "[1]")
            late = begin_with_token(c, "import numpy; print(numpy.arange(3).sum())")
            time.sleep(1)
            assert not late.done(), "what needs the module waits for it"
        finally:
            os.kill(data, signal.SIGCONT)
        equal(late.result()["content"][0]["text"].strip(), "3")


@check
def a_run_whose_interpreter_starts_late_is_answered_early() -> None:
    """Some clients give a call 5 s. Only an early answer can come while the zygote is held: its usual time is set high."""
    with Place() as place, Stdio([*place.argv(), "--preload", "data,basic", "--answer-after", "10m"]) as c:
        until(lambda: "data" in zygotes(c.process.pid))
        data = zygotes(c.process.pid)["data"]
        os.kill(data, signal.SIGSTOP)
        try:
            begun = begin_with_token(c, "import numpy; print('b')")
            text = c.text("execute_python", code="import numpy; print(numpy.arange(3).sum())")
            contains(text, "[waits until the modules that come with the interpreter are imported]")
            run_id = re.search(r'still running: go on with read_run\(run_id="([^"]+)", from=(\d+)\)', text)
            # With a token the client hears of it instead, before 5 s are over and again.
            until(lambda: sum("waits until the modules" in note[1].get("message", "")
                              for note in c.notes if note[0] == "notifications/progress") >= 2)
        finally:
            os.kill(data, signal.SIGCONT)
        equal(begun.result()["content"][0]["text"].strip(), "b")
        contains(c.text("read_run", run_id=run_id[1], **{"from": int(run_id[2]), "wait_s": 50}), "3")


@check
def variables_and_files_stay() -> None:
    with Place() as place:
        with Stdio(place.argv()) as c:
            c.text("execute_python", code="x = 5; open('a.txt', 'w').write('here')")
            equal(c.text("execute_python", code="print(x)"), "5")
        with Stdio(place.argv()) as c:  # another process, the same sandbox
            contains(c.text("execute_python", code="print(open('a.txt').read())"), "here")


@check
def stdout_has_messages_alone() -> None:
    with Place() as place, Stdio(place.argv("--log-level", "debug")) as c:
        contains(c.text("execute_python", code="import os; os.system('echo shell'); print('py')"), "shell")
        c.tool("execute_python", code="import os; os.write(1, b'\\n{\"jsonrpc\": raw')")
        equal(c.garbage, [])


@check
def garbage_is_answered_and_survived() -> None:
    lines = [b"foo", b"{", b"[1,", b"\xff\xfe\x00", b'"text"', b"17", b"null", b"{}", b"[]",
             b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
             b'{"jsonrpc":"2.0","id":null,"method":"ping"}', b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
             b'{"jsonrpc":"2.0","id":1}', b"[" * 5000, b'{"a":' * 200 + b"1" + b"}" * 200,
             b'{"jsonrpc":"2.0","id":7,"method":"ping","method":"ping"}', b'{"jsonrpc":"2.0","method":"no/such"}',
             b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', b"\x00" * 100, b"", b"   ", b"\r"]
    with Place() as place, Stdio(place.argv()) as c:
        for line in lines:
            c.line(line)
            equal(c.call("ping"), {}, "after %r" % line[:40])
        equal(c.garbage, [])
        codes = {note[1]["error"]["code"] for note in c.notes if note[0] == "" and "error" in note[1]}
        assert codes and codes <= {-32700, -32600}, codes


@check
def every_number_and_escape_is_answered_with_its_id() -> None:
    """A client over stdio waits for ever for an answer that does not name its request."""
    call = b'{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"execute_python","arguments":{%s}}}'
    shown = [(b'{"n":9223372036854775808}', "n", "9223372036854775808"),
             (b'{"n":-18446744073709551617}', "n", "-18446744073709551617"),
             (b'{"n":1e400}', "n", "inf"), (b'{"n":-1.5E+999}', "n", "-inf"),
             (b'{"n":%s}' % (b"7" * 4300), "str(n) == '7' * 4300", "True"),
             (b'{"n":"\\ud800"}', "ascii(n)", "'\\ufffd'"), (b'{"n":"a\\udc00b"}', "ascii(n)", "'a\\ufffdb'"),
             (b'{"n":"\\ud83d\\udc0d"}', "ascii(n)", "'\\U0001f40d'")]
    refused = [b'"code":"1","timeout":-1e400',
               b'"code":"1","variables":9223372036854775808', b'"code":"n","variables":{"n":%s}' % (b"7" * 4301),
               b'"code":"1","variables":{"n":NaN}', b'"code":"1","code":"2"', b'"code":"1","session_id":"\\udfff/"']

    def answered(c: Stdio, id: bytes, arguments: bytes) -> dict:
        pending = c.pending[json.dumps(json.loads(id))] = Pending(c, json.loads(id))
        c.line(call % (id, arguments))
        return pending.answers.get(timeout=60)

    with Place() as place, Stdio(place.argv()) as c:
        for n, (variables, what, want) in enumerate(shown):
            code = json.dumps("print(%s)" % what).encode()
            answer = answered(c, b"%d" % (1000 + n), b'"code":%s,"variables":%s' % (code, variables))
            equal(answer["result"]["content"][0]["text"], want)
        for n, arguments in enumerate(refused):
            answer = answered(c, b'"r%d"' % n, arguments)
            assert "error" in answer or answer["result"].get("isError"), (arguments[:60], answer)
        clamped = answered(c, b"2000", b'"code":"print(1)","timeout":9223372036854775808')["result"]
        contains(clamped["content"][0]["text"], "is the most")
        for id in (b"9223372036854775808", b"-123456789012345678901234567890", b"1e3"):
            equal(answered(c, id, b'"code":"print(1)"')["result"]["content"][0]["text"], "1")
        equal((c.garbage, [note for note in c.notes if note[0] == ""]), ([], []), "none without its request")


@check
def a_line_past_the_cap_is_refused_and_the_next_one_served() -> None:
    with Place() as place, Stdio(place.argv()) as c:
        big = json.dumps({"jsonrpc": "2.0", "id": "big", "method": "ping", "params": {"x": "y" * (5 << 20)}}).encode()
        c.line(big)
        equal(c.call("ping"), {})
        refusals = [note[1]["error"] for note in c.notes if note[0] == "" and "error" in note[1]]
        equal([one["code"] for one in refusals], [-32600])
        contains(refusals[0]["message"], "4 MiB")
        equal([note[1]["id"] for note in c.notes if note[0] == ""], ["big"], "the id is found in what was skipped")
        late = b'{"params":{"x":"%s"},"id":"late"}' % (b"y" * (5 << 20))
        c.line(late)
        equal(c.call("ping"), {})
        equal([note[1].get("id") for note in c.notes if note[0] == ""], ["big", "late"])
        c.line(b"z" * (9 << 20))
        equal(c.call("ping"), {})
        # positive control: just below it is a message like any other
        fits = {"jsonrpc": "2.0", "id": "fits", "method": "ping", "params": {"x": "y" * ((4 << 20) - 200)}}
        pending = c.begin("ping", {"x": "y" * ((4 << 20) - 300)})
        equal(pending.result(), {})
        assert len(json.dumps(fits)) < 4 << 20


@check
def messages_come_in_pieces_and_in_heaps() -> None:
    with Place() as place, Stdio(place.argv()) as c:
        text = b'{"jsonrpc":"2.0","id":"slow","method":"ping"}\n'
        for i in range(len(text)):
            c.process.stdin.write(text[i:i + 1])
            c.process.stdin.flush()
        c.call("ping")
        contains([note[1].get("id") for note in c.notes if note[0] == ""], "slow")
        heap = b"".join(b'{"jsonrpc":"2.0","id":"h%d","method":"ping"}\r\n' % i for i in range(2000))
        c.process.stdin.write(heap)
        c.process.stdin.flush()
        c.call("ping")
        got = [note[1]["id"] for note in c.notes if note[0] == "" and str(note[1].get("id", "")).startswith("h")]
        equal(got, ["h%d" % i for i in range(2000)], "every one, in order")


@check
def the_end_of_input_ends_it_whatever_runs() -> None:
    with Place() as place:
        before = below(os.getpid())
        c = Stdio(place.argv())
        c.open()
        c.text("execute_python", code="1")
        pending = c.begin("tools/call",
                          {"name": "execute_python", "arguments": {"code": "import time; time.sleep(600)"}})
        time.sleep(0.5)
        equal(c.close(ENDS_S), 0)
        assert pending.answers.qsize() <= 1
        ends_cleanly(c.process.pid, before)


@check
def sigterm_and_sigint_end_it() -> None:
    for signo in (signal.SIGTERM, signal.SIGINT):
        with Place() as place:
            before = below(os.getpid())
            c = Stdio(place.argv())
            c.open()
            c.begin("tools/call", {"name": "execute_python", "arguments": {"code": "import time; time.sleep(600)"}})
            time.sleep(0.3)
            c.process.send_signal(signo)
            equal(c.process.wait(ENDS_S), 0, "status after %s" % signo.name)
            ends_cleanly(c.process.pid, before)
            c.close()


@check
def killed_it_leaves_no_process() -> None:
    with Place() as place:
        before = below(os.getpid())
        c = Stdio(place.argv())
        c.open()
        c.begin("tools/call", {"name": "execute_python", "arguments": {"code": "import time; time.sleep(600)"}})
        time.sleep(0.5)
        c.process.kill()
        c.process.wait(ENDS_S)
        ends_cleanly(c.process.pid, before)
        with Stdio(place.argv()) as again:  # and the next one finds everything in order
            equal(again.text("execute_python", code="print(1)").splitlines()[0], "1")


@check
def a_reader_that_does_not_read_is_waited_for() -> None:
    """Answers pile up to a bound, then the input is not read: the writer blocks instead of krait growing."""
    with Place() as place:
        p = subprocess.Popen(place.argv(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        wrote = []

        def write() -> None:
            try:
                for i in range(20000):
                    p.stdin.write(b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}\n' % i)
                    p.stdin.flush()
                    wrote.append(i)
            except OSError:
                pass

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        time.sleep(3)
        stuck = len(wrote)
        time.sleep(1)
        assert len(wrote) - stuck < 200, "it goes on reading: %d, then %d" % (stuck, len(wrote))
        server = [pid for pid in below(p.pid)]
        rss = sum(int(open("/proc/%d/statm" % pid).read().split()[1]) * 4096 for pid in [p.pid, *server])
        assert rss < 300 << 20, "%d MiB" % (rss >> 20)
        first = json.loads(p.stdout.readline())  # positive control: who reads gets on
        equal(first["id"], 0)
        count = 1
        deadline = time.monotonic() + 60
        while count < 20000 and time.monotonic() < deadline:
            count += bool(p.stdout.readline())
            if len(wrote) > stuck + 1000:
                break
        assert len(wrote) > stuck + 1000, "reading did not set it going again: %d" % len(wrote)
        p.kill()
        p.wait()


@check
def input_from_a_file() -> None:
    messages = [{"jsonrpc": "2.0", "id": 0, "method": "initialize",
                 "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                            "clientInfo": {"name": "t", "version": "1"}}},
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                {"jsonrpc": "2.0", "id": "p", "method": "ping"}]
    with Place() as place, tempfile.TemporaryFile() as script:
        script.write("\n".join(json.dumps(one) for one in messages).encode())  # the last line without its end
        script.seek(0)
        done = subprocess.run(place.argv(), stdin=script, stdout=subprocess.PIPE, timeout=ENDS_S, check=False)
        equal(done.returncode, 0)
        equal([json.loads(line)["id"] for line in done.stdout.splitlines()], [0, "p"])
        done = subprocess.run(place.argv(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=ENDS_S,
                              check=False)
        equal((done.returncode, done.stdout), (0, b""))


@check
def an_ordinary_user_with_a_home() -> None:
    if os.geteuid() != 0:
        skip("needs root to become another user")
    with Place(USER) as place:
        env = {"HOME": place.path, "XDG_STATE_HOME": "", "HOST": "not-an-address", "DEBUG": "maybe"}
        argv = [*place.wrap, KRAIT, "mcp", "--preload", "basic"]
        with Stdio(argv, env=env) as c:
            equal(c.text("execute_python", code="open('x', 'w').write('1'); print(sum(range(10)))").splitlines()[0],
                  "45")
            info = c.text("get_sandbox_info")
            contains(info, "user")
        state = os.path.join(place.path, ".local/state/krait")
        equal(os.stat(state).st_uid, USER)
        equal(os.stat(state).st_mode & 0o777, 0o700)


@check
def what_this_machine_cannot_give_is_told_by_the_call() -> None:
    """The start looks at nothing, so it is the first run that finds out; and the server goes on."""
    if os.geteuid() != 0:
        skip("needs root to become another user")
    with Place(USER) as place, Stdio(place.argv("--level", "root"), env={"HOME": place.path}) as c:
        for _ in range(2):
            try:
                result = c.tool("execute_python", code="print(1)")
                assert result["isError"], result
                text = result["content"][0]["text"]
            except RpcError as error:
                text = error.message
            contains(text, "root")
            assert "[1]" not in text and not text.startswith("1\n"), text
        equal(c.call("ping"), {})
        equal(len(below(c.process.pid)), 1)
    with Place(USER) as place, Stdio(place.argv("--level", "user"), env={"HOME": place.path}) as c:
        equal(c.text("execute_python", code="print(1)").splitlines()[0], "1", "control: the level it can have")


def workspace_round_trip(user: int) -> None:
    with Place(user) as place:
        folder = os.path.join(place.path, "project")
        os.mkdir(folder)
        with open(os.path.join(folder, "data.csv"), "w") as f:
            f.write("a,b\n1,2\n")
        if user:
            os.chown(folder, user, user)
        with Stdio(place.argv("--workspace", folder)) as c:
            code = "t = open('data.csv').read()\nopen('out.txt', 'w').write(t.upper())\nprint(len(t))"
            text = c.text("execute_python", code=code)
            equal(text.splitlines()[0], "8")
            contains(text, os.path.join(folder, "out.txt"), "results name the host's path")
            listed = c.text("list_files")
            contains(listed, "data.csv")
            contains(c.text("read_file", path="out.txt"), "A,B")
            contains(c.text("read_file", path=os.path.join(folder, "out.txt")), "A,B", "as results name it")
            if user:  # as root, the server has dropped to a user of its own, who may not write there
                contains(c.text("upload_file_to_sandbox", path=folder + "/up.txt", content="up"), "/workspace/up.txt")
            refused = c.tool("read_file", path=folder + "-other/x")
            assert refused.get("isError"), refused
            contains(c.info["instructions"], folder)
            files = [r["name"] for r in c.call("resources/list")["resources"] if r["uri"].startswith("sandbox://")]
            equal(sorted(files), ["data.csv", "out.txt"] + ["up.txt"] * (user > 0), "the resources are the folder's")
            try:
                refused = c.tool("reset_sandbox", sandbox_id="default")
                assert refused.get("isError"), refused
            except RpcError:
                pass
        with open(os.path.join(folder, "out.txt")) as f:
            equal(f.read(), "A,B\n1,2\n")
        assert os.path.exists(os.path.join(folder, "data.csv")), "nothing of it was deleted"
        equal(os.stat(os.path.join(folder, "out.txt")).st_uid, os.stat(folder).st_uid, "whose it is")


@check
def a_folder_of_the_host_is_the_workspace() -> None:
    workspace_round_trip(0)


@check
def so_it_is_for_an_ordinary_user() -> None:
    if os.geteuid() != 0:
        skip("needs root to become another user")
    workspace_round_trip(USER)


@check
def mistakes_are_told_in_one_line() -> None:
    rows = [(["--workspace", "/no/such/folder"], "--workspace"), (["--workspace", "/etc/passwd"], "not a folder"),
            (["--workspace"], "is missing"), (["--no-such"], "no-such"), (["--dialect", "klingon"], "dialect"),
            (["--connect", "https://example.org/mcp"], "https is not spoken"),
            (["--connect", "ftp://x"], "does not begin with http://"),
            (["--connect", "http://a:99999999/"], "port"), (["--connect", "http://u:p@h/"], "KRAIT_API_KEY"),
            (["--api-key", "0123456789abcdef0123", "--connect", "http://127.0.0.1:1"], "KRAIT_API_KEY"),
            (["--connect", "http://127.0.0.1:1", "--workspace", "/tmp"], "--workspace")]
    with Place() as place:
        for args, text in rows:
            done = subprocess.run(place.argv(*args), stdin=subprocess.DEVNULL, capture_output=True, timeout=ENDS_S,
                                  check=False)
            said = done.stderr.decode()
            assert done.returncode not in (0, None), args
            equal(done.stdout, b"", "stdout of %s" % args)
            contains(said, text, str(args))
            equal(len(said.splitlines()), 1, said)


become_subreaper()
main()
