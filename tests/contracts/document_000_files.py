#!/usr/bin/python3
"""Document 000 (sandbox-mcp): row N12 of its contract, the files of a session by their addresses, over HTTP and MCP."""
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
from check import check, contains, equal  # noqa: E402
from file_host import DATA, ELSEWHERE, Files, serve_files  # noqa: E402
from krait_server import Server  # noqa: E402
from mcp import Http  # noqa: E402
from serving import kept, main  # noqa: E402

STUB = serve_files()
HERE = "127.0.0.1:%d" % STUB.server_address[1]
CSV, NAMED, MISSING = ("http://%s/%s" % (HERE, name) for name in ("data.csv", "named", "missing"))
PREFIXES = ("/api/v1", "/ai/sandbox/v1/api")


def server() -> Server:
    """In its dialect; the administrator lets these addresses be fetched."""
    return kept(args=["--dialect", "sandbox-mcp", "--egress-private-hosts", HERE, "--fetch-network", "allow:" + HERE])


def closed() -> Server:
    """As it starts: no address is fetched."""
    return kept(args=["--dialect", "sandbox-mcp", "--egress-private-hosts", HERE])


def opened(s: Server, prefix: str = PREFIXES[0], **body) -> dict:
    reply = s.post(prefix + "/sessions", body)
    equal(reply.status, 200, reply.text)
    equal((reply.json()["resultCode"], reply.json()["resultMsg"]), (0, "success"))
    return reply.json()["data"]


def by_tool(s: Server, **arguments) -> dict:
    with Http(s.port, "/mcp") as c:
        result = c.tool("create_session_with_files", **arguments)
    assert "structuredContent" not in result, result
    return json.loads(result["content"][0]["text"])


def output(s: Server, session: str, code: str) -> str:
    lines = s.post("/api/v1/execute", {"code": code, "session_id": session}).lines()
    return "".join(line.get("text", "") for line in lines)


@check
def row_000_n12_file_urls_are_in_the_session_that_is_opened():
    s = server()
    for number, prefix in enumerate(PREFIXES):
        name = "files-%d" % number
        data = opened(s, prefix, session_id=name, file_urls=[CSV, NAMED])
        equal((data["session_id"], data["errors"]), (name, []))
        equal(sorted(data["downloaded_files"]), ["data.csv", "table one.csv"])
        equal(output(s, name, "print(len(open('data.csv').read()), len(open('table one.csv').read()))"),
              "%d %d\n" % (len(DATA), len(DATA)))


@check
def row_000_n12_what_cannot_be_fetched_is_a_line_of_errors():
    s = server()
    before = len(Files.asked)
    data = opened(s, session_id="some", file_urls=[MISSING, ELSEWHERE, CSV, "ftp://x/y"])
    equal((data["session_id"], data["downloaded_files"]), ("some", ["data.csv"]))
    told = {line.split(": ")[0]: line for line in data["errors"]}
    equal(sorted(told), sorted([MISSING, ELSEWHERE, "ftp://x/y"]))
    contains(told[MISSING], "404")
    contains(told[ELSEWHERE], "fetch_network")
    equal(len(Files.asked) - before, 2)


@check
def row_000_n12_a_file_id_that_is_there_is_not_fetched_again():
    s = server()
    files = [{"url": CSV + "?once", "id": "data-1"}]
    equal(opened(s, session_id="ids", files=files)["downloaded_files"], ["data.csv"])
    before = Files.asked.count("/data.csv?once")
    again = opened(s, session_id="ids", files=files)
    equal((again["downloaded_files"], again["errors"]), ([], []))
    equal(Files.asked.count("/data.csv?once"), before)
    output(s, "ids", "import os; os.remove('data.csv')")
    equal(opened(s, session_id="ids", files=files)["downloaded_files"], ["data.csv"])  # the control
    equal(Files.asked.count("/data.csv?once"), before + 1)


@check
def row_000_n12_by_the_tool_too():
    s = server()
    told = by_tool(s, session_id="tool", file_urls=[CSV, MISSING])
    equal({k: v for k, v in told.items() if k != "errors"},
          {"session_id": "tool", "working_directory": "/workspace", "downloaded_files": ["data.csv"],
           "status": "success"})
    equal(len(told["errors"]), 1)
    contains(told["errors"][0], MISSING + ": ")
    equal(output(s, "tool", "print(open('data.csv').readline().strip())"), "a,b\n")


@check
def row_000_n12_each_is_a_job_and_a_row():
    s = server()
    before = len(s.get("/api/v1/jobs?limit=500").json()["jobs"])
    session = opened(s, session_id="jobs", file_urls=[CSV, CSV])
    jobs = s.get("/api/v1/jobs?limit=500").json()["jobs"]
    equal(len(jobs) - before, 2)
    equal({(job["kind"], job["subject"], job["cause"]) for job in jobs[:2]},
          {("files.fetch", session["sandbox_id"], "ok")})
    rows = s.get("/api/v1/connections?limit=2&sandbox_id=" + session["sandbox_id"]).json()["connections"]
    equal([(row["how"], row["verdict"], row["host"]) for row in rows], [("fetch", "ok", "127.0.0.1")] * 2)


@check
def row_000_n12_refused_where_no_rule_lets_it():
    s = closed()
    before = len(Files.asked)
    data = opened(s, session_id="closed", file_urls=[CSV])
    equal((data["session_id"], data["downloaded_files"]), ("closed", []))
    contains(data["errors"][0], CSV + ": ")
    contains(data["errors"][0], "fetch_network")
    told = by_tool(s, session_id="closed-too", file_urls=[CSV])
    equal((told["status"], told["downloaded_files"], len(told["errors"])), ("success", [], 1))
    equal(len(Files.asked), before)


@check
def row_000_n12_the_time_is_bounded():
    s = server()
    data = opened(s, session_id="slow", timeout=1, file_urls=["http://%s/slow" % HERE])
    equal((data["downloaded_files"], len(data["errors"])), ([], 1))
    equal(output(s, "slow", "print(1)"), "1\n")


main()
