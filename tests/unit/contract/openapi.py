#!/usr/bin/python3
"""The validator that the integration suite trusts (tests/lib/openapi.py), on the document of
test-api-routes: it must find good what is good, and beside each such case stands one that it must refuse.
"""

import copy
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "lib"))
from check import check, equal, main  # noqa: E402
from openapi import Mismatch, Schemas, Validator  # noqa: E402
from openapi_structure import problems  # noqa: E402

BUILD = os.environ.get("KR_BUILD", "build")
DOCUMENT = json.loads(
    subprocess.run(
        [os.path.join(BUILD, "tests/test-api-routes"), "openapi"],
        check=True,
        capture_output=True,
        timeout=30,
    ).stdout
)
RUN = {"id": "r1", "seconds": 0.5, "state": "quick", "tags": ["a"], "env": {"A": "1"}}
JSON = {"Content-Type": "application/json"}
ERROR = {"error": {"kind": "busy", "message": "no", "field": None, "request_id": "x"}}


def refuses(method: str, path: str, status: int, headers: dict, body, part: str) -> None:
    body = body if isinstance(body, (str, bytes)) else json.dumps(body)
    try:
        Validator(DOCUMENT).check(method, path, status, headers, body)
    except Mismatch as exc:
        assert part in str(exc), "%r is not in %r" % (part, str(exc))
        return
    raise AssertionError("%s %s %d %r is taken for good" % (method, path, status, body))


def takes(method: str, path: str, status: int, headers: dict, body, operation: str | None) -> None:
    body = body if isinstance(body, (str, bytes)) else json.dumps(body)
    equal(Validator(DOCUMENT).check(method, path, status, headers, body), operation)


@check
def the_document_is_valid():
    equal(problems(DOCUMENT), [])


@check
def operations_are_described():
    op = DOCUMENT["paths"]["/api/v1/runs"]["post"]
    equal(op["operationId"], "run_create")
    equal(op["x-rights"], ["run"])
    equal(
        sorted(op["responses"]),
        ["200", "400", "401", "403", "409", "413", "429", "500", "503", "507", "default"],
    )
    equal(
        sorted(op["responses"]["200"]["content"]),
        ["application/json", "application/x-ndjson", "text/event-stream"],
    )
    equal(op["requestBody"]["required"], True)
    equal(op["requestBody"]["content"]["application/json"]["example"], {"code": "print(1)"})
    equal(DOCUMENT["paths"]["/execute"]["post"]["operationId"], "execute_2")
    equal(DOCUMENT["paths"]["/api/token"]["post"]["security"], [])
    assert "422" in DOCUMENT["paths"]["/execute"]["post"]["responses"]
    assert "/{path}" not in DOCUMENT["paths"], "what is hidden is left out"


@check
def fields_become_json_schema():
    request = DOCUMENT["components"]["schemas"]["RunIt"]
    equal(request["required"], ["code"])
    equal(
        request["properties"]["timeout"],
        {
            "type": ["integer", "null"],
            "minimum": 1,
            "maximum": 120,
            "default": 30,
            "description": "Seconds.",
            "examples": [10],
        },
    )
    equal(
        request["properties"]["session"]["description"], "Where. Also taken as `session_id`, `sid`."
    )
    equal(request["properties"]["mode"]["enum"], ["quick", "careful"])
    equal(request["properties"]["env"]["additionalProperties"], {"type": "string"})
    equal(request["properties"]["password"]["format"], "password")
    equal(request["properties"]["limits"]["allOf"], [{"$ref": "#/components/schemas/Limits"}])
    equal(
        DOCUMENT["components"]["schemas"]["Run"]["required"],
        ["id", "seconds", "state", "tags", "env"],
    )
    limit = DOCUMENT["paths"]["/api/v1/runs"]["get"]["parameters"][0]
    equal(limit["schema"], {"type": "integer", "minimum": 1, "maximum": 100, "default": 20})


@check
def good_replies_pass():
    takes("POST", "/api/v1/runs", 200, JSON, RUN, "run_create")
    takes("POST", "/api/v1/runs", 200, JSON, {**RUN, "seconds": None, "parent": "r0"}, "run_create")
    takes(
        "POST",
        "/api/v1/runs",
        200,
        {"content-type": "application/x-ndjson; charset=utf-8"},
        '{"text":"a"}\n{"end":true}\n',
        "run_create",
    )
    takes(
        "POST",
        "/api/v1/runs",
        200,
        {"Content-Type": "text/event-stream"},
        ': beat\n\nevent: text\nid: 1\ndata: {"text":"a"}\n\ndata: {"end":\ndata: true}\n\n',
        "run_create",
    )
    takes(
        "GET",
        "/api/v1/runs?limit=3",
        200,
        JSON,
        {"runs": [RUN], "by_id": {"r1": RUN}, "last": None},
        "runs_list",
    )
    takes("HEAD", "/api/v1/runs", 200, JSON, "", "runs_list")
    takes("DELETE", "/api/v1/runs/a%20b", 204, {}, "", "run_delete")
    takes(
        "GET",
        "/api/v1/sandboxes/s/files/a/b/c",
        200,
        {"Content-Type": "application/octet-stream"},
        b"\0",
        "file_read",
    )


@check
def good_errors_pass():
    takes("POST", "/api/v1/runs", 503, JSON, ERROR, "run_create")
    takes("POST", "/api/v1/runs", 431, JSON, ERROR, "run_create")  # by the default
    takes(
        "POST",
        "/execute",
        422,
        JSON,
        {
            **ERROR,
            "detail": [
                {"type": "missing", "loc": ["body", "code"], "msg": "Field required", "input": {}}
            ]
        },
        "execute_2",
    )
    takes("POST", "/execute", 500, JSON, {**ERROR, "detail": "internal error"}, "execute_2")
    takes("GET", "/nowhere", 404, JSON, {**ERROR, "detail": "Not Found"}, None)
    takes("PUT", "/api/v1/runs", 405, JSON, ERROR, None)


@check
def wrong_replies_are_refused():
    post = ("POST", "/api/v1/runs", 200)
    refuses(*post, JSON, {**RUN, "id": 1}, "not of type string")
    refuses(*post, JSON, {**RUN, "more": 1}, "unknown field more")
    refuses(*post, JSON, {**RUN, "state": "slow"}, "none of")
    refuses(*post, JSON, {**RUN, "seconds": True}, "not of type number")
    refuses(*post, JSON, {**RUN, "tags": ["a", None]}, "tags[1]")
    refuses(*post, JSON, {**RUN, "env": {"A": 1}}, "env.A")
    refuses(*post, JSON, {k: v for k, v in RUN.items() if k != "id"}, "id is missing")
    refuses(*post, JSON, '{"id":"a","id":"b"}', "a key twice")
    refuses(*post, JSON, '{"id":NaN}', "NaN is not JSON")
    refuses(*post, JSON, b"\xff", "not JSON")
    refuses(*post, {"Content-Type": "text/html"}, "x", "type 'text/html'")
    refuses(*post, {}, RUN, "type ''")
    refuses("POST", "/api/v1/runs", 201, JSON, RUN, "an undocumented status")
    refuses("DELETE", "/api/v1/runs/a", 204, {}, "x", "a body where there is none")
    refuses("HEAD", "/api/v1/runs", 200, JSON, "{}", "a body where there is none")
    refuses(
        "GET",
        "/api/v1/runs",
        200,
        JSON,
        {"runs": [{**RUN, "id": None}], "by_id": {}, "last": None},
        "runs[0].id",
    )
    refuses(
        "GET", "/api/v1/runs", 200, JSON, {"runs": [], "by_id": {"x": {}}, "last": None}, "by_id.x"
    )
    refuses(
        "GET", "/api/v1/runs", 200, JSON, {"runs": [], "by_id": {}, "last": 1}, "fits none of 2"
    )


@check
def wrong_streams_are_refused():
    lines = {"Content-Type": "application/x-ndjson"}
    refuses("POST", "/api/v1/runs", 200, lines, '{"text":"a"}\n{"x":1}\n', "line 1")
    refuses("POST", "/api/v1/runs", 200, lines, '{"text":"a"}\n{"end"', "cut off")
    refuses("POST", "/api/v1/runs", 200, lines, '{"text":"a"}\n\n', "not JSON")
    refuses(
        "POST",
        "/api/v1/runs",
        200,
        {"Content-Type": "text/event-stream"},
        'data: {"text":1}\n\n',
        "event 0",
    )


@check
def wrong_errors_are_refused():
    refuses("POST", "/api/v1/runs", 503, JSON, {"detail": "x"}, "error is missing")
    refuses("POST", "/execute", 500, JSON, ERROR, "detail is missing")
    refuses("POST", "/execute", 422, JSON, {**ERROR, "detail": "x"}, "not of type array")
    refuses("POST", "/execute", 500, JSON, {"detail": "x"}, "error is missing")
    refuses("GET", "/nowhere", 404, JSON, {"message": "x"}, "fits none")
    refuses("GET", "/nowhere", 200, JSON, {}, "no operation has this path")
    refuses("PUT", "/api/v1/runs", 200, JSON, {}, "no operation has this path")


@check
def what_was_not_tried_is_told():
    validator = Validator(DOCUMENT)
    every = validator.unseen()
    validator.check("POST", "/api/v1/runs", 200, JSON, json.dumps(RUN))
    equal(sorted(set(every) - set(validator.unseen())), ["run_create"])


# What is done to the document, and the words of the problem that must be found.
DAMAGES = [
    (lambda d: d.update(openapi="3.0.3"), "is not 3.1"),
    (lambda d: d["info"].pop("version"), "version is missing"),
    (lambda d: d["paths"]["/execute"]["post"].pop("responses"), "responses is missing"),
    (
        lambda d: d["paths"]["/execute"]["post"].update(operationId="execute"),
        "execute is there 2 times",
    ),
    (lambda d: d["paths"]["/execute"]["post"].update(colour="red"), "has no key colour"),
    (lambda d: d["paths"]["/execute"]["post"].update(tags=["x"]), "no entry describes the tag x"),
    (
        lambda d: d["paths"]["/execute"]["post"]["responses"].update({"20": {"description": "x"}}),
        "is no status",
    ),
    (lambda d: d["paths"].update(execute={}), "does not begin with a slash"),
    (lambda d: d["paths"].update({"/api/v1/runs/{x}": {}}), "again"),
    (
        lambda d: d["paths"]["/api/v1/runs/{id}"]["delete"].pop("parameters"),
        "template and its parameters differ",
    ),
    (lambda d: d["components"]["schemas"].pop("Run"), "leads nowhere"),
    (
        lambda d: d["components"]["schemas"]["Run"].update(pattern="x"),
        "a word krait does not write",
    ),
    (
        lambda d: d["components"]["schemas"]["Run"]["required"].append("x"),
        "required but not described",
    ),
    (
        lambda d: d["components"]["schemas"]["Run"]["properties"]["id"].update(type="text"),
        "no type is called text",
    ),
    (
        lambda d: d["components"]["schemas"]["Run"]["properties"]["id"].update(examples=[1]),
        "not of type string",
    ),
    (lambda d: d["components"]["schemas"].update(Lonely={"type": "object"}), "nothing refers to it"),
    (
        lambda d: d["components"]["securitySchemes"].pop("bearer"),
        "no security scheme is called bearer",
    ),
    (lambda d: d["components"]["securitySchemes"]["query"].pop("in"), "in is missing"),
    (lambda d: d["components"]["schemas"]["Run"]["properties"]["tags"].pop("items"), "without items"),
    (lambda d: d["paths"]["/execute"]["post"].pop("description"), "has no description"),
    (
        lambda d: d["components"]["schemas"].update(RunTags={"type": "object"})
        or d["components"]["schemas"]["Run"]["properties"]["tags"].update(allOf=[{"type": "array"}]),
        "is also what generators call Run.tags",
    ),
    (
        lambda d: d["paths"]["/api/v1/runs"]["post"]["responses"]["200"]["content"][
            "application/x-ndjson"
        ].pop("schema"),
        "has no schema",
    ),
]


@check
def damage_to_the_document_is_found():
    for number, (damage, words) in enumerate(DAMAGES):
        broken = copy.deepcopy(DOCUMENT)
        damage(broken)
        found = problems(broken)
        assert any(words in one for one in found), "damage %d: %r is not among %s" % (
            number,
            words,
            found,
        )


@check
def true_is_not_one():
    schemas = Schemas({})
    equal(schemas.flaws({"enum": [1]}, 1, ""), [])
    assert schemas.flaws({"enum": [1]}, True, "")
    assert schemas.flaws({"type": "integer"}, True, "")
    equal(schemas.flaws({"type": "integer"}, 2.0, ""), [])
    assert schemas.flaws({"type": "integer"}, 2.5, "")
    for name, good, bad in (
        ("byte", "aGk=", "a b"),
        ("date-time", "2026-01-02T03:04:05.678Z", "2026-01-02 03:04"),
        ("uuid", "0f8fad5b-d9cb-469f-a165-70867728950e", "x"),
        ("uri", "https://x", "x"),
    ):
        equal(schemas.flaws({"format": name}, good, ""), [])
        assert schemas.flaws({"format": name}, bad, ""), name


main()
