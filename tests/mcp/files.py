#!/usr/bin/python3
"""Tools about files: list, read, upload. What is shown and how, what is refused (paths out of the workspace, links, the
server's own files, others' sandboxes), what happens at the limits. Beside each refusal stands what is allowed."""
import base64
import json
import os
import sys
import tempfile
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
from check import check, contains, equal  # noqa: E402
from krait_server import KRAIT, Server  # noqa: E402
from mcp import Http, Stdio  # noqa: E402
from serving import kept, main  # noqa: E402

PNG = (b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR\0\0\0\1\0\0\0\1\10\0\0\0\0:~\x9bU" + b"\0\0\0\nIDAT"
       + zlib.compress(b"\0\0") + b"\0\0\0\0" + b"\0\0\0\0IEND\xaeB`\x82")
folders: dict = {}


def roots() -> str:
    """A folder of the machine that may be uploaded from, with a link out of it."""
    if not folders:
        top = tempfile.mkdtemp(prefix="krait-roots-")
        os.chmod(top, 0o755)
        os.mkdir(top + "/in")
        Path(top + "/in/table.csv").write_text("a,b\n1,2\n")
        Path(top + "/secret").write_text("not yours")
        os.symlink(top + "/secret", top + "/in/link")
        os.symlink(top, top + "/in/up")
        os.mkfifo(top + "/in/pipe")
        folders["top"] = top
    return folders["top"]


def server() -> Server:
    return kept(args=["--upload-roots", roots() + "/in"])


def users() -> Server:
    return kept(args=["--dialect", "mcp-sandbox", "--require-auth"])


def client(**how) -> Http:
    return Http(server().port, **how)


def texts(result: dict) -> str:
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


def refused(result: dict) -> str:
    assert result.get("isError") is True, result
    return texts(result)


def good(result: dict) -> str:
    assert not result.get("isError"), result
    return texts(result)


def new_sandbox(c) -> str:
    return json.loads(good(c.tool("create_sandbox")))["sandbox_id"]


# ---- list ----------------------------------------------------------------------------------------


@check
def list_shows_what_code_wrote():
    with client() as c:
        box = new_sandbox(c)
        contains(good(c.tool("list_files", sandbox_id=box)), "0 entries")
        c.tool("execute_python", sandbox_id=box,
               code="import os\nos.makedirs('d/e')\nopen('d/e/f.txt','w').write('12345')\n"
               "open('top.csv','w').write('a')\nos.symlink('/etc/passwd', 'away')")
        flat = good(c.tool("list_files", sandbox_id=box)).splitlines()
        equal([line.split("  ")[0] for line in flat[1:]], ["away", "d/", "top.csv"])
        deep = good(c.tool("list_files", sandbox_id=box, recursive=True))
        contains(deep, "d/e/f.txt  5 bytes")
        contains(deep, "away  (link)")
        contains(good(c.tool("list_files", sandbox_id=box, path="/workspace/d/e")), "d/e/f.txt")
        contains(good(c.tool("list_files", sandbox_id=box, path="/app/results/d")), "d/e/")


@check
def list_comes_in_pages():
    with client(rev="2025-11-25", path="/mcp?structured=1") as c:
        box = new_sandbox(c)
        c.tool("execute_python", sandbox_id=box, code="for i in range(25): open('%02d' % i, 'w').close()")
        seen, after = [], None
        for _ in range(4):
            page = c.tool("list_files", sandbox_id=box, limit=10,
                          **({"after": after} if after else {}))["structuredContent"]
            seen += [one["path"] for one in page["files"]]
            after = page["next"]
            if after is None:
                break
        equal(seen, ["%02d" % i for i in range(25)])


@check
def list_refuses_what_is_not_there():
    with client() as c:
        contains(refused(c.tool("list_files", path="../..")), "..")
        refused(c.tool("list_files", path="/etc"))
        refused(c.tool("list_files", path="nothing"))
        refused(c.tool("list_files", sandbox_id="nobodys"))
        contains(refused(c.tool("list_files", limit=0)), "limit")
        contains(refused(c.tool("list_files", pathh="x")), "pathh")
        good(c.tool("list_files"))


# ---- read ----------------------------------------------------------------------------------------


@check
def read_gives_text_by_lines():
    with client(path="/mcp?structured=1") as c:
        box = new_sandbox(c)
        c.tool("execute_python", sandbox_id=box,
               code="open('n.txt','w').write(''.join('line %d\\n' % i for i in range(1, 5001)))")
        first = c.tool("read_file", sandbox_id=box, path="n.txt")
        text = first["content"][0]["text"]
        equal(text.splitlines()[0], "line 1")
        equal(text.splitlines()[-1], "line 2000")
        contains(first["content"][1]["text"], "offset=2001")
        equal(first["structuredContent"]["next_line"], 2001)
        second = c.tool("read_file", sandbox_id=box, path="n.txt", offset=4999, limit=10)
        equal([block["text"] for block in second["content"]], ["line 4999\nline 5000\n"])
        equal(second["structuredContent"]["next_line"], None)
        contains(good(c.tool("read_file", sandbox_id=box, path="n.txt", offset=9999)), "5000 lines")
        exact = c.tool("read_file", sandbox_id=box, path="n.txt", offset=5000, limit=1)
        equal([block["text"] for block in exact["content"]], ["line 5000\n"])


@check
def read_bounds_long_lines_and_large_files():
    with client() as c:
        box = new_sandbox(c)
        c.tool("execute_python", sandbox_id=box, code="open('one','w').write('x' * 3_000_000)\n"
               "open('wide','w').write(('y' * 60_000 + '\\n') * 10)\nopen('none','w').close()\n"
               "f = open('sparse.bin','wb'); f.truncate(200_000_000)")
        one = c.tool("read_file", sandbox_id=box, path="one")
        assert len(one["content"][0]["text"]) <= 96 << 10, len(one["content"][0]["text"])
        contains(one["content"][1]["text"], "line 1 is cut")
        wide = c.tool("read_file", sandbox_id=box, path="wide")
        equal(wide["content"][0]["text"], "y" * 60000 + "\n")  # whole lines, as many as fit
        contains(wide["content"][1]["text"], "offset=2)")
        contains(good(c.tool("read_file", sandbox_id=box, path="none")), "empty")
        large = c.tool("read_file", sandbox_id=box, path="sparse.bin")
        equal((large["content"][0]["type"], large["content"][0]["size"]), ("resource_link", 200_000_000))
        contains(texts(large), "too large")
        contains(texts(large), "/files/")


@check
def refusals_name_the_way_on():
    with client() as c:
        box = new_sandbox(c)
        good(c.tool("upload_file_to_sandbox", sandbox_id=box, path="d/f.txt", content="x"))
        rows = (("read_file", {"path": "d"}, "/workspace/d is a folder; list_files"),
                ("read_file", {"path": "/workspace"}, "/workspace is a folder; list_files"),
                ("list_files", {"path": "d/f.txt"}, "/workspace/d/f.txt is a file and no folder; read_file"),
                ("upload_file_to_sandbox", {"content": "x"}, "/workspace is a folder; name the file"),
                ("read_file", {"path": "x", "sandbox_id": "nobodys"}, "list_sandboxes names yours"),
                ("execute_python", {"code": "1", "sandbox_id": "nobodys"}, "list_sandboxes names yours"),
                ("terminate_session", {"session_id": "nobodys"}, "list_active_sessions names yours"),
                ("create_sandbox", {"memory": "99T"}, "memory: \"99T\" is out of range"))
        for name, arguments, words in rows:
            said = refused(c.tool(name, {"sandbox_id": box, **arguments} if name != "create_sandbox" else arguments))
            contains(said, words)
            assert "Invalid argument" not in said and "limits." not in said, said
        said = refused(c.tool("execute_python", code="1", session_id="a/b"))
        equal(said, "session_id: has a slash, or is only dots")


@check
def read_gives_pictures_and_bytes_as_such():
    with client() as c:
        box = new_sandbox(c)
        for name, data in (("p.png", PNG), ("b.bin", bytes(range(256)))):
            good(c.tool("upload_file_to_sandbox", sandbox_id=box, path=name, content=base64.b64encode(data).decode(),
                        encoding="base64"))
        picture = c.tool("read_file", sandbox_id=box, path="p.png")["content"]
        equal((picture[0]["type"], picture[0]["mimeType"], base64.b64decode(picture[0]["data"])),
              ("image", "image/png", PNG))
        blob = c.tool("read_file", sandbox_id=box, path="b.bin")["content"][0]["resource"]
        equal((blob["uri"], base64.b64decode(blob["blob"])), ("sandbox://%s/b.bin" % box, bytes(range(256))))


@check
def read_never_leaves_the_workspace():
    with client() as c:
        box = new_sandbox(c)
        c.tool("execute_python", sandbox_id=box,
               code="import os\nos.symlink('/etc/passwd','l')\nos.symlink('.','here')\n"
               "os.mkfifo('pipe')\nopen('mine','w').write('mine')\nos.makedirs('d')")
        for path in ("l", "here/mine", "pipe", "d", "../mine", "d/../mine", "/etc/passwd", "", "nothing", "mine/x",
                     "a" * 5000):
            text = refused(c.tool("read_file", sandbox_id=box, path=path))
            assert "root:" not in text, path
        equal(good(c.tool("read_file", sandbox_id=box, path="mine")), "mine")
        equal(good(c.tool("read_file", sandbox_id=box, path="/workspace//./mine")), "mine")
        contains(refused(c.tool("read_file", sandbox_id=box)), "path")


@check
def read_shows_names_and_texts_of_any_bytes():
    with client() as c:
        box = new_sandbox(c)
        c.tool("execute_python", sandbox_id=box, code="import os\nopen('图 1.txt','w').write('ü\\n')\n"
               "open(b'bad\\xff.txt','w').write('x')\nopen('latin','wb').write(b'caf\\xe9')")
        equal(good(c.tool("read_file", sandbox_id=box, path="图 1.txt")), "ü\n")
        contains(good(c.tool("list_files", sandbox_id=box)), "bad\ufffd.txt")
        equal(c.tool("read_file", sandbox_id=box, path="latin")["content"][0]["type"], "resource")


# ---- upload --------------------------------------------------------------------------------------


@check
def upload_writes_what_code_reads():
    with client(path="/mcp?structured=1") as c:
        box = new_sandbox(c)
        made = c.tool("upload_file_to_sandbox", sandbox_id=box, path="data/a.txt", content="ä\0b\n")
        equal(made["structuredContent"]["created"], True)
        equal(made["structuredContent"]["uri"], "sandbox://%s/data/a.txt" % box)
        contains(texts(c.tool("execute_python", sandbox_id=box, code="open('data/a.txt').read()")), r"'ä\x00b\n'")
        again = c.tool("upload_file_to_sandbox", sandbox_id=box, path="/workspace/data/a.txt", content="")
        equal((again["structuredContent"]["created"], again["structuredContent"]["size"]), (False, 0))
        contains(good(c.tool("read_file", sandbox_id=box, path="data/a.txt")), "empty")


@check
def an_upload_is_not_the_next_runs_change():
    with client() as c:
        box = new_sandbox(c)
        good(c.tool("execute_python", sandbox_id=box, code="1"))
        good(c.tool("upload_file_to_sandbox", sandbox_id=box, path="in.txt", content="x"))
        said = texts(c.tool("execute_python", sandbox_id=box, code="open('out.txt','w').write('y')"))
        contains(said, "out.txt")
        assert "in.txt" not in said, said


@check
def upload_refuses_bad_places_and_bad_bytes():
    with client() as c:
        box = new_sandbox(c)
        good(c.tool("execute_python", sandbox_id=box, code="import os\nos.symlink('/tmp','l')\nos.makedirs('d')"))
        for path in ("../x", "/etc/x", "l/x", "", "d", "d/", "x\n"):
            refused(c.tool("upload_file_to_sandbox", sandbox_id=box, path=path, content="x"))
        contains(refused(c.tool("upload_file_to_sandbox", sandbox_id=box, path="x", content="%%%", encoding="base64")),
                 "base64")
        contains(refused(c.tool("upload_file_to_sandbox", sandbox_id=box, path="x")), "either")
        contains(refused(c.tool("upload_file_to_sandbox", sandbox_id=box, path="x", content="x", local_file_path="/x")),
                 "either")
        refused(c.tool("upload_file_to_sandbox", sandbox_id="nobodys", path="x", content="x"))
        equal(good(c.tool("list_files", sandbox_id=box)).splitlines()[1:], ["d/", "l  (link)"])
        good(c.tool("upload_file_to_sandbox", sandbox_id=box, path="d/x", content="x"))


@check
def the_machines_own_files_need_a_root_or_a_local_client():
    top = roots()
    with client() as c:
        box = new_sandbox(c)
        for path in ("/etc/passwd", top + "/secret", top + "/in/../secret", "in/table.csv", top + "/input",
                     "/proc/self/environ"):
            text = refused(c.tool("upload_file_to_sandbox", sandbox_id=box, local_file_path=path))
            contains(text, "content")
            contains(text, "upload_roots")
        for path, word in ((top + "/in/link", "link"), (top + "/in/up/secret", "link"), (top + "/in/pipe", "regular"),
                           (top + "/in/nothing", "not found"), (top + "/in", "")):
            contains(refused(c.tool("upload_file_to_sandbox", sandbox_id=box, local_file_path=path)), word)
        good(c.tool("upload_file_to_sandbox", sandbox_id=box, local_file_path=top + "/in/table.csv"))
        good(c.tool("upload_file_to_sandbox", sandbox_id=box, local_file_path=top + "/in/table.csv",
                    path="deep/other.csv"))
        equal(good(c.tool("read_file", sandbox_id=box, path="table.csv")), "a,b\n1,2\n")
        equal(good(c.tool("read_file", sandbox_id=box, path="deep/other.csv")), "a,b\n1,2\n")


@check
def a_local_client_uploads_its_own_files():
    with tempfile.TemporaryDirectory(prefix="krait-test-") as here:
        os.chmod(here, 0o755)
        Path(here, "mine.txt").write_text("mine")
        with Stdio([os.path.abspath(KRAIT), "mcp", "--no-files", "--preload", "basic", "--data", here + "/data"]) as c:
            good(c.tool("upload_file_to_sandbox", local_file_path=here + "/mine.txt"))
            equal(good(c.tool("read_file", path="mine.txt")), "mine")
            contains(refused(c.tool("upload_file_to_sandbox", local_file_path="mine.txt")), "absolute")
            contains(refused(c.tool("upload_file_to_sandbox", local_file_path=here + "/none")), "not found")


@check
def a_full_account_takes_no_more():
    s = kept(args=["--max-disk-per-user", "1M"])
    with Http(s.port) as c:
        good(c.tool("upload_file_to_sandbox", path="a", content="x" * 600_000))
        contains(refused(c.tool("upload_file_to_sandbox", path="b", content="x" * 600_000)), "delete some")
        good(c.tool("upload_file_to_sandbox", path="c", content="x" * 1000))


# ---- others' -------------------------------------------------------------------------------------


def key_of(name: str) -> str:
    body = {"username": name, "email": name + "@example.org", "password": "correct horse battery"}
    return users().post("/api/register", body).json()["api_key"]


@check
def no_user_reaches_anothers_files():
    ada, eve = key_of("ada"), key_of("eve")
    port = users().port
    with Http(port, "/mcp?dialect=krait", key=ada) as a, Http(port, "/mcp?dialect=krait", key=eve) as e:
        box = new_sandbox(a)
        good(a.tool("upload_file_to_sandbox", sandbox_id=box, path="s.txt", content="secret"))
        for name, args in (("list_files", {}), ("read_file", {"path": "s.txt"}), ("get_sandbox_info", {}),
                           ("upload_file_to_sandbox", {"path": "s.txt", "content": "x"})):
            theirs = refused(e.tool(name, sandbox_id=box, **args))
            never = refused(e.tool(name, sandbox_id="0" * 26, **args))
            equal(theirs.replace(box, "ID"), never.replace("0" * 26, "ID"), name)
        refused(e.tool("read_file", path="s.txt"))  # her own default has none
        equal(good(a.tool("read_file", sandbox_id=box, path="s.txt")), "secret")


if __name__ == "__main__":
    try:
        main()
    finally:
        if folders:
            import shutil

            shutil.rmtree(folders["top"], ignore_errors=True)
