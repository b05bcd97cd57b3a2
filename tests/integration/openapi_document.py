#!/usr/bin/python3
"""/openapi.json tells what this server does: bounds are those in force, null is taken where the document says so, and
the native API and MCP come first.

That the document is valid is for tests/unit/contract/openapi.py; what generators make of it for openapi_client.py; that
it follows the listener and the settings for contracts/listeners.py and server_reload.py.
"""
from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/lib")]
from check import check, contains, equal  # noqa: E402
from krait_server import Server  # noqa: E402
from openapi_structure import problems  # noqa: E402
from serving import kept, main  # noqa: E402

RUNS, LINKS = "/api/v1/runs", "/api/v1/sandboxes/default/links"
RIGHTS = ["read", "run", "admin"]
DOCUMENTS = ["document 000 (sandbox-mcp)", "document 002 (sandbox-service)", "document 004 (mcp-sandbox)"]


def document(s: Server) -> dict:
    return s.get("/openapi.json").json()


def fields(told: dict, name: str) -> dict:
    return told["components"]["schemas"][name]["properties"]


def most(told: dict) -> dict:
    """Of `timeout`, by what asks for it; of the tools only the one that refuses more."""
    tool = told["paths"]["/api/v1/tools/create_sandbox"]["post"]["requestBody"]["content"]["application/json"]
    return {"run": fields(told, "RunRequest")["timeout"].get("maximum"),
            "execute": fields(told, "ExecuteRequest")["timeout"].get("maximum"),
            "service": fields(told, "ServiceExecuteRequest")["timeout"].get("maximum"),
            "sandbox": tool["schema"]["properties"]["timeout"].get("maximum")}


def asked(s: Server, seconds: float) -> "tuple[int, str]":
    reply = s.post(RUNS, {"code": "1", "stream": False, "timeout": seconds})
    return reply.status, "" if reply.status == 200 else reply.json()["error"]["message"]


@check
def the_most_of_timeout_is_the_one_in_force():
    s = kept()
    equal(most(document(s)), {"run": 3600, "execute": 3600, "service": 120, "sandbox": 3600})
    equal((asked(s, 3600)[0], asked(s, 3600.5)), (200, (400, "timeout: at most 3600 s")))
    equal(s.post("/api/v1/tools/create_sandbox", {"name": "longer", "timeout": 3601}).status, 400)
    for name, seconds in (("longest", 3600), ("a-third", 1 / 3)):
        equal(s.post("/api/v1/tools/create_sandbox", {"name": name, "timeout": seconds}).status, 200, name)
    with Server(args=["--max-timeout", "2500ms", "--timeout", "1s"]) as short:
        told = document(short)
        equal(most(told), {"run": 2.5, "execute": 2, "service": 2, "sandbox": 2.5})
        timeout = fields(told, "ServiceExecuteRequest")["timeout"]
        equal((timeout["default"], timeout["examples"]), (2, [2]), "what is proposed is allowed")
        equal((asked(short, 2.5)[0], asked(short, 2.6)), (200, (400, "timeout: at most 2.5 s")))
        for body, status in (({}, 200), ({"timeout": 2}, 200), ({"timeout": 3}, 422)):
            equal(short.post("/execute", {"code": "1", **body}).status, status, str(body))


@check
def a_link_is_good_for_what_is_told():
    s = kept()
    equal(s.put("/api/v1/sandboxes/default/files/a.txt", b"a").status, 201)
    longest = fields(document(s), "LinkRequest")["expires_in"]["maximum"]
    equal(longest, 86400)
    equal(s.post(LINKS, {"path": "a.txt", "expires_in": longest}).status, 201)
    equal(s.post(LINKS, {"path": "a.txt", "expires_in": longest + 1}).status, 400)
    equal(s.post(LINKS, {"path": "a.txt", "path_b64": None, "expires_in": None, "download": None}).status, 201)


@check
def rights_are_an_enum_wherever_they_are():
    told = document(kept())
    found = {name: schema["properties"]["rights"]["items"].get("enum")
             for name, schema in told["components"]["schemas"].items() if "rights" in schema.get("properties", {})}
    equal(found, dict.fromkeys(("Key", "KeyCreate", "KeyMade", "Me", "User", "UserChange", "UserCreate"), RIGHTS))


@check
def null_is_the_default_where_a_field_has_one():
    s = kept()
    told = document(s)
    for name, schema in told["components"]["schemas"].items():
        for key, field in schema.get("properties", {}).items():
            assert "default" not in field or "null" in field["type"], "%s.%s" % (name, key)
    for path, body in ((RUNS, "RunRequest"), ("/api/v1/execute", "ExecuteRequest"),
                       ("/execute", "ServiceExecuteRequest")):
        nulls = {key: None for key, field in fields(told, body).items() if "null" in field.get("type", ())}
        reply = s.post(path, {**nulls, "code": "print(6 * 7)"})
        equal((reply.status, "42" in reply.text), (200, True), reply.text)
        equal(s.post(path, {"code": None}).status // 100, 4, "%s: the control" % path)


@check
def the_native_api_and_mcp_come_first():
    s = kept()
    told = document(s)
    lead = told["info"]["description"].split("Routes that clients of other servers know")[0]
    contains(lead, "`/api/v1`")
    contains(lead, "`/mcp`")
    tags = [tag["name"] for tag in told["tags"]]
    equal(tags[:9], ["runs", "sessions", "sandboxes", "packages", "templates", "terminals", "jobs", "files", "tools"])
    equal(tags[-3:], DOCUMENTS)
    groups = []
    for path, item in told["paths"].items():
        for operation in item.values():
            one = operation["tags"][0] if operation["tags"][0] in DOCUMENTS else "krait"
            if not groups or groups[-1] != one:
                groups.append(one)
    equal(groups, ["krait"] + DOCUMENTS, "one group each, krait's own first")


@check
def the_root_leads_with_mcp_and_the_api():
    root = kept().get("/", headers={"Accept": "application/json"}).json()
    equal(list(root), ["name", "version", "status", "mcp_endpoint", "api_endpoint", "openapi", "docs", "documents"])
    equal([one.split()[0] for one in root["documents"]], ["000", "001", "002", "003", "004"])


@check
def a_name_of_generated_code_is_no_component():
    """The control of the rule beside it: `File` is what generators call a body of bytes."""
    told = document(kept())
    equal(problems(told), [])
    schemas = told["components"]["schemas"]
    schemas["File"] = schemas.pop("FileEntry")
    contains("; ".join(problems(told)), "schemas File: is also a type of generated code")


if __name__ == "__main__":
    main()
