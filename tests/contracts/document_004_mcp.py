#!/usr/bin/python3
"""Document 004 (mcp-sandbox: MCP Sandbox, port 8181): its contract's rows about MCP, a check a row. Its HTTP side is
document_004.py.

Links are fetched as a browser would: without a key.
"""
import json
import os
import sys
import tempfile
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
import npm_clients  # noqa: E402
from check import check, contains, equal, skip  # noqa: E402
from krait_server import KRAIT, Server  # noqa: E402
from mcp import HttpError, Sse, Stdio  # noqa: E402
from serving import kept, main  # noqa: E402

DIALECT = ["--dialect", "mcp-sandbox"]
TOOLS = ["create_sandbox", "list_sandboxes", "execute_python_code", "install_package_in_sandbox",
         "check_package_installation_status", "execute_terminal_command", "upload_file_to_sandbox", "delete_sandbox"]
WRITES = """
import csv, struct, zlib, zipfile
def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
with open('plot.png', 'wb') as f:
    f.write(b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 1, 1, 8, 0, 0, 0, 0))
            + chunk(b'IDAT', zlib.compress(b'\\0\\0')) + chunk(b'IEND', b''))
with open('table.csv', 'w', newline='') as f:
    csv.writer(f).writerows([['a', 'b'], [1, 2]])
with zipfile.ZipFile('sheet.xlsx', 'w') as z:
    z.writestr('[Content_Types].xml', '<Types/>')
print('written')
"""


def server() -> Server:
    return kept(args=DIALECT)


def guarded() -> Server:
    return kept(args=[*DIALECT, "--require-auth"])


def key_of(name: str) -> str:
    body = {"username": name, "email": name + "@example.org", "password": "correct horse battery"}
    return guarded().post("/api/register", body).json()["api_key"]


def value(result: dict):
    assert not result.get("isError"), result
    assert result["content"], "never an empty list of content"
    return json.loads(result["content"][0]["text"])


def fetch(url: str) -> tuple:
    with urllib.request.urlopen(url, timeout=30) as reply:
        return reply.status, reply.headers.get_content_type(), reply.headers["Content-Disposition"], reply.read()


@check
def row_004_02_no_sandboxes_is_an_empty_list():
    with Server(args=DIALECT) as s, Sse(s.port) as c:
        result = c.tool("list_sandboxes")
        equal([(block["type"], block["text"]) for block in result["content"]], [("text", "[]")])


@check
def row_004_03_made_listed_reused():
    with Server(args=DIALECT) as s, Sse(s.port) as c:
        equal([t["name"] for t in c.call("tools/list")["tools"]], TOOLS)
        made = value(c.tool("create_sandbox"))
        equal((set(made), made["name"], made["status"]),
              ({"sandbox_id", "user_id", "name", "status"}, "Sandbox 1", "active"))
        named = value(c.tool("create_sandbox", {"name": "mine"}))
        listed = value(c.tool("list_sandboxes"))
        equal({(one["sandbox_id"], one["name"]) for one in listed},
              {(made["sandbox_id"], "Sandbox 1"), (named["sandbox_id"], "mine")})
        assert isinstance(listed[0]["installed_packages"], list), listed
        box = made["sandbox_id"]
        value(c.tool("execute_python_code", sandbox_id=box, code="open('kept','w').write('x')"))
        equal(value(c.tool("execute_python_code", sandbox_id=box, code="print(open('kept').read())"))["stdout"], "x\n")
        third = value(c.tool("create_sandbox"))
        over = value(c.tool("create_sandbox"))
        assert third["sandbox_id"] and over["error"] is True, (third, over)
        contains(over["message"], "3")


@check
def row_004_05_files_come_back_as_links():
    with Sse(server().port) as c:
        box = value(c.tool("create_sandbox"))["sandbox_id"]
        got = value(c.tool("execute_python_code", sandbox_id=box, code=WRITES))
        equal((got["stdout"], got["exit_code"], got["stderr"]), ("written\n", 0, ""))
        equal(sorted(got["files"]), ["/app/results/plot.png", "/app/results/sheet.xlsx", "/app/results/table.csv"])
        equal(len(got["file_links"]), 3)
        kinds = {}
        for link in got["file_links"]:
            contains(link, "/sandbox/file?sandbox_id=" + box)
            status, kind, disposition, body = fetch(link)
            assert status == 200 and disposition.startswith("inline") and body, (link, disposition)
            kinds[kind] = body
        equal(sorted(kinds),
              ["application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "image/png", "text/csv"])
        equal(kinds["text/csv"], b"a,b\r\n1,2\r\n")
        again = value(c.tool("execute_python_code", sandbox_id=box, code="print(1)"))
        equal((again["files"], again["file_links"]), ([], []))
        value(c.tool("delete_sandbox", sandbox_id=box))


@check
def row_004_05_files_of_the_libraries_people_use():
    with Sse(server().port) as c:
        box = value(c.tool("create_sandbox"))["sandbox_id"]
        code = ("import matplotlib.pyplot as plt, pandas as pd\nplt.plot([1, 2])\nplt.savefig('plot.png')\n"
                "plt.close()\nd = pd.DataFrame({'a': [1, 2]})\nd.to_csv('table.csv')\nd.to_excel('sheet.xlsx')\nprint('written')")
        got = value(c.tool("execute_python_code", {"sandbox_id": box, "code": code}, timeout=120))
        if "No module named" in got["stderr"]:
            skip("no matplotlib, pandas or openpyxl on this machine")
        equal((got["stdout"], got["exit_code"]), ("written\n", 0))
        begins = {"image/png": b"\x89PNG", "text/csv": b",a\n0,1\n",
                  "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": b"PK"}
        fetched = [fetch(link) for link in got["file_links"]]
        equal(sorted(kind for _, kind, _, _ in fetched), sorted(begins))
        for status, kind, disposition, body in fetched:
            assert status == 200 and disposition.startswith("inline") and body.startswith(begins[kind]), (
                kind, body[:20])
        value(c.tool("delete_sandbox", sandbox_id=box))


@check
def row_004_06_an_exception():
    with Sse(server().port) as c:
        box = value(c.tool("create_sandbox"))["sandbox_id"]
        got = value(c.tool("execute_python_code", sandbox_id=box, code="raise ValueError('no')"))
        equal((got["exit_code"], got["files"], got["stdout"]), (1, [], ""))
        contains(got["stderr"], "Traceback (most recent call last):")
        contains(got["stderr"], "ValueError: no")
        equal(got["error"], "ValueError: no")
        value(c.tool("delete_sandbox", sandbox_id=box))


@check
def row_004_07_a_figure_that_is_shown_does_no_harm():
    with Sse(server().port) as c:
        box = value(c.tool("create_sandbox"))["sandbox_id"]
        result = c.tool("execute_python_code", sandbox_id=box,
                        code="import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint('after')",
                        timeout=120)
        got = value(result)
        if "No module named" in got["stderr"]:
            skip("no matplotlib on this machine")
        equal((got["stdout"], got["exit_code"]), ("after\n", 0))
        equal([block["mimeType"] for block in result["content"][1:]], ["image/png"])
        value(c.tool("delete_sandbox", sandbox_id=box))


@check
def row_004_08_commands_have_a_shell():
    with Sse(server().port) as c:
        box = value(c.tool("create_sandbox"))["sandbox_id"]
        got = value(c.tool("execute_terminal_command", sandbox_id=box, command="ls -la | wc -l"))
        equal(set(got), {"stdout", "stderr", "exit_code"})
        assert int(got["stdout"]) >= 2, got
        equal(got["exit_code"], 0)
        equal(value(c.tool("execute_terminal_command", sandbox_id=box, command="false"))["exit_code"], 1)
        both = value(c.tool("execute_terminal_command", sandbox_id=box,
                            command="echo out; echo err >&2; echo x > f; exit 7"))
        equal((both["stdout"], both["stderr"], both["exit_code"]), ("out\n", "err\n", 7))
        equal(value(c.tool("execute_python_code", sandbox_id=box, code="print(open('f').read())"))["stdout"], "x\n\n")
        value(c.tool("delete_sandbox", sandbox_id=box))


@check
def row_004_09_uploads():
    with tempfile.TemporaryDirectory(prefix="krait-test-") as here:
        os.chmod(here, 0o755)
        Path(here, "data.csv").write_text("a,b\n1,2\n")
        argv = [os.path.abspath(KRAIT), "mcp", *DIALECT, "--no-files", "--preload", "basic", "--data", here + "/data"]
        with Stdio(argv) as c:
            box = value(c.tool("create_sandbox"))["sandbox_id"]
            sent = value(c.tool("upload_file_to_sandbox", sandbox_id=box, local_file_path=here + "/data.csv"))
            equal(sent["success"], True)
            contains(sent["message"], "Uploaded data.csv to /app/results/data.csv in sandbox " + box)
            value(c.tool("upload_file_to_sandbox", sandbox_id=box, local_file_path=here + "/data.csv",
                         dest_path="/app/results/in/two.csv"))
            got = value(c.tool("execute_python_code", sandbox_id=box,
                               code="print(open('/app/results/data.csv').read() == open('in/two.csv').read())"))
            equal(got["stdout"], "True\n")
            missing = value(c.tool("upload_file_to_sandbox", sandbox_id=box, local_file_path=here + "/nothing.csv"))
            equal(missing["error"], True)
            contains(missing["message"], "not found")


@check
def row_004_09_the_servers_own_files_are_not_for_remote_clients():
    with Sse(server().port) as c:
        box = value(c.tool("create_sandbox"))["sandbox_id"]
        for path in ("/etc/passwd", "/etc/hostname", "/proc/self/environ", "relative"):
            got = value(c.tool("upload_file_to_sandbox", sandbox_id=box, local_file_path=path))
            equal(got["error"], True, path)
            contains(got["message"], "upload_roots")
        sent = value(c.tool("upload_file_to_sandbox", sandbox_id=box, content="hello", dest_path="/app/results/h.txt"))
        equal(sent["success"], True)
        equal(value(c.tool("execute_terminal_command", sandbox_id=box, command="cat h.txt"))["stdout"], "hello")
        value(c.tool("delete_sandbox", sandbox_id=box))


@check
def row_004_10_the_stream_needs_a_key():
    key = key_of("keyed")
    for query in ("", "?api_key=wrong"):
        try:
            with Sse(guarded().port, "/sse" + query):
                raise AssertionError("opened with " + query)
        except HttpError as e:
            equal(e.status, 401, query)
    with Sse(guarded().port, "/sse?api_key=" + key) as c:
        equal(value(c.tool("list_sandboxes")), [])
    with Sse(guarded().port, key=key) as c:
        equal(value(c.tool("list_sandboxes")), [])


@check
def row_004_11_two_users_over_mcp():
    anna, bert = key_of("annamcp"), key_of("bertmcp")
    port = guarded().port
    with Sse(port, "/sse?api_key=" + anna) as a, Sse(port, "/sse?api_key=" + bert) as b:
        box = value(a.tool("create_sandbox"))["sandbox_id"]
        wrote = value(a.tool("execute_python_code", sandbox_id=box, code="open('secret.txt','w').write('hers')"))
        equal(value(b.tool("list_sandboxes")), [])
        for name, more in (("execute_python_code", {"code": "print(open('secret.txt').read())"}),
                           ("execute_terminal_command", {"command": "cat secret.txt"}),
                           ("upload_file_to_sandbox", {"content": "x", "dest_path": "planted"}),
                           ("delete_sandbox", {})):
            got = value(b.tool(name, sandbox_id=box, **more))
            equal(got, {"error": True, "message": "Sandbox not found: " + box}, name)
        link = wrote["file_links"][0]
        contains(urlsplit(link).query, "token=")  # signed, so that a browser needs no key
        assert anna not in link, "no key in a link"
        equal(fetch(link)[3], b"hers")
        equal(value(a.tool("execute_terminal_command", sandbox_id=box, command="ls"))["stdout"], "secret.txt\n")


@check
def row_004_13_through_supergateway():
    try:
        clients = npm_clients.provide()
    except npm_clients.Missing as why:
        skip(str(why))
    key = key_of("gateway")
    with tempfile.TemporaryDirectory(prefix="krait-test-") as home:
        for url in ("http://127.0.0.1:%d/sse" % server().port,
                    "http://127.0.0.1:%d/sse?api_key=%s" % (guarded().port, key)):
            argv = [clients.node, clients.path("supergateway/dist/index.js"), "--sse", url]
            with Stdio(argv, env=clients.env(home)) as c:
                equal([t["name"] for t in c.call("tools/list")["tools"]], TOOLS)
                box = value(c.tool("create_sandbox"))["sandbox_id"]
                equal(value(c.tool("execute_python_code", sandbox_id=box, code="print(6 * 7)"))["stdout"], "42\n")
                made = value(c.tool("execute_python_code", sandbox_id=box, code=WRITES))
                equal([fetch(link)[0] for link in made["file_links"]], [200] * 3)
                failed = value(c.tool("execute_python_code", sandbox_id=box, code="raise ValueError('no')"))
                equal((failed["exit_code"], failed["files"]), (1, []))
                equal(value(c.tool("execute_terminal_command", sandbox_id=box, command="echo a | tr a b"))["stdout"],
                      "b\n")
                sent = value(c.tool("upload_file_to_sandbox", sandbox_id=box, content="x",
                                    dest_path="/app/results/in.txt"))
                equal(sent["success"], True)
                assert box in [one["sandbox_id"] for one in value(c.tool("list_sandboxes"))]
                value(c.tool("delete_sandbox", sandbox_id=box))


main()
