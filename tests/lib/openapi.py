"""Holds replies, and the document itself, against the OpenAPI that krait publishes.

    validator = Validator(json.load(urlopen(base + "/openapi.json")))
    validator.check("GET", "/api/v1/runs?limit=3", 200, headers, body)  # or Mismatch says why not
    validator.unseen()  # operations that no check was about

The JSON Schema words understood here are the ones krait writes; any other is an error, not
something to overlook. Objects are closed: a field that no schema names is a mismatch unless
`additionalProperties` allows it. The standard library only.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any, Iterator, Mapping

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
NO_TEXT = {
    "description",
    "examples",
    "default",
    "format",
}  # words that do not restrict by themselves
JSON_TYPES = ("application/json",)
DATE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")
FORMATS = {
    "date-time": lambda s: bool(DATE_TIME.match(s)),
    "uuid": lambda s: bool(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", s)),
    "uri": lambda s: bool(re.match(r"[a-z][a-z0-9+.-]*:", s)),
    "email": lambda s: "@" in s,
    "byte": lambda s: _is_base64(s),
    "password": lambda s: True,
    "binary": lambda s: True,
}


class Mismatch(AssertionError):
    """What came is not what the document says."""


class BadSchema(AssertionError):
    """The document itself is wrong."""


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return True


def _no_twins(pairs: list[tuple[str, Any]]) -> dict:
    if len({key for key, _ in pairs}) != len(pairs):
        raise Mismatch("an object has a key twice: %s" % [key for key, _ in pairs])
    return dict(pairs)


def _no_constant(name: str) -> None:
    raise Mismatch("%s is not JSON" % name)


def parse(text: str | bytes) -> Any:
    """Strict JSON: UTF-8, no NaN, no key twice."""
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        return json.loads(text, object_pairs_hook=_no_twins, parse_constant=_no_constant)
    except ValueError as exc:
        raise Mismatch("not JSON: %s: %.200r" % (exc, text)) from None


def events(text: str) -> Iterator[str]:
    """The data of each server-sent event."""
    data: list[str] = []
    for line in text.split("\n"):
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif line == "" and data:
            yield "\n".join(data)
            data = []


# ---- values ----


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


TYPES = {
    "null": lambda v: v is None,
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: _is_number(v) and v == int(v),
    "number": _is_number,
    "string": lambda v: isinstance(v, str),
    "array": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, dict),
}
BOUNDS = {  # word: (type it is about, is the value within?)
    "minimum": ("number", lambda v, n: v >= n),
    "maximum": ("number", lambda v, n: v <= n),
    "minLength": ("string", lambda v, n: len(v) >= n),
    "maxLength": ("string", lambda v, n: len(v) <= n),
    "minItems": ("array", lambda v, n: len(v) >= n),
    "maxItems": ("array", lambda v, n: len(v) <= n),
    "minProperties": ("object", lambda v, n: len(v) >= n),
    "maxProperties": ("object", lambda v, n: len(v) <= n),
}
KNOWN = (
    {
        "$ref",
        "type",
        "enum",
        "const",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "anyOf",
        "allOf",
        "oneOf",
    }
    | NO_TEXT
    | set(BOUNDS)
)


def same(a: Any, b: Any) -> bool:
    """Equal as JSON: true is not 1."""
    return a == b and isinstance(a, bool) == isinstance(b, bool)


class Schemas:
    """Values against schemas of one document."""

    def __init__(self, document: dict):
        self.document = document

    def resolve(self, ref: str) -> dict:
        node: Any = self.document
        if not ref.startswith("#/"):
            raise BadSchema("a reference that leaves the document: %s" % ref)
        for part in ref[2:].split("/"):
            if not isinstance(node, dict) or part not in node:
                raise BadSchema("%s leads nowhere" % ref)
            node = node[part]
        return node

    def flaws(self, schema: Any, value: Any, where: str) -> list[str]:
        """What is wrong with the value; an empty list if nothing is."""
        if schema is True:
            return []
        unknown = set(schema) - KNOWN
        if unknown:
            raise BadSchema("unknown keywords: %s in %s" % (sorted(unknown), schema))
        found: list[str] = []
        if "$ref" in schema:
            found += self.flaws(self.resolve(schema["$ref"]), value, where)
        found += self._type_flaws(schema, value, where)
        if isinstance(value, dict):
            found += self._object_flaws(schema, value, where)
        if isinstance(value, list) and "items" in schema:
            for index, item in enumerate(value):
                found += self.flaws(schema["items"], item, "%s[%d]" % (where, index))
        found += self._group_flaws(schema, value, where)
        return found

    @staticmethod
    def _type_flaws(schema: dict, value: Any, where: str) -> list[str]:
        found = []
        types = schema.get("type", [])
        types = [types] if isinstance(types, str) else types
        if not set(types) <= set(TYPES):
            raise BadSchema("no type is called %s" % " or ".join(types))
        if types and not any(TYPES[t](value) for t in types):
            return ["%s: %.100r is not of type %s" % (where, value, " or ".join(types))]
        if "enum" in schema and not any(same(value, one) for one in schema["enum"]):
            found.append("%s: %.100r is none of %s" % (where, value, schema["enum"]))
        if "const" in schema and not same(value, schema["const"]):
            found.append("%s: %.100r is not %r" % (where, value, schema["const"]))
        for word, (kind, within) in BOUNDS.items():
            if word in schema and TYPES[kind](value) and not within(value, schema[word]):
                found.append("%s: %.100r breaks %s %s" % (where, value, word, schema[word]))
        if isinstance(value, str) and "format" in schema:
            if schema["format"] not in FORMATS:
                raise BadSchema("unknown format: %s" % schema["format"])
            if not FORMATS[schema["format"]](value):
                found.append("%s: %.100r is no %s" % (where, value, schema["format"]))
        return found

    def _object_flaws(self, schema: dict, value: dict, where: str) -> list[str]:
        found = [
            "%s: %s is missing" % (where, key)
            for key in schema.get("required", [])
            if key not in value
        ]
        properties = schema.get("properties")
        rest = schema.get("additionalProperties", properties is None)
        for key, inner in value.items():
            if properties and key in properties:
                found += self.flaws(properties[key], inner, "%s.%s" % (where, key))
            elif rest is False:
                found.append("%s: unknown field %s" % (where, key))
            elif rest is not True:
                found += self.flaws(rest, inner, "%s.%s" % (where, key))
        return found

    def _group_flaws(self, schema: dict, value: Any, where: str) -> list[str]:
        found: list[str] = []
        for inner in schema.get("allOf", []):
            found += self.flaws(inner, value, where)
        for word in ("anyOf", "oneOf"):
            if word not in schema:
                continue
            tries = [self.flaws(inner, value, where) for inner in schema[word]]
            good = sum(not one for one in tries)
            if good == 0:  # tell of the nearest
                found.append(
                    "%s: fits none of %d (%s)" % (where, len(tries), "; ".join(min(tries, key=len)))
                )
            elif good > 1 and word == "oneOf":
                found.append("%s: fits %d shapes, not one" % (where, good))
        return found


# ---- replies ----


class Validator:
    """Replies against one document."""

    def __init__(self, document: dict, structure: bool = True):
        self.document = document
        self.schemas = Schemas(document)
        self.seen: set[tuple[str, str]] = set()  # operation, status
        self.paths = sorted(document["paths"].items(), key=lambda item: self._rank(item[0]))
        if structure:
            import openapi_structure

            problems = openapi_structure.problems(document)
            if problems:
                raise BadSchema("\n".join(problems))

    @staticmethod
    def _rank(path: str) -> list[tuple[int, str]]:
        """Literal segments first, as krait routes."""
        return [(1 if "{" in part else 0, part) for part in path.split("/")]

    @staticmethod
    def _pattern(path: str, item: dict) -> re.Pattern:
        rest = {
            p["name"]
            for op in item.values()
            for p in op.get("parameters", [])
            if p.get("x-rest-of-path")
        }
        parts = re.split(r"\{(\w+)\}", path)
        text = "".join(
            re.escape(part) if i % 2 == 0 else ".+" if part in rest else "[^/]+"
            for i, part in enumerate(parts)
        )
        return re.compile(text)

    def operation(self, method: str, path: str) -> dict | None:
        """What serves the request; None if nothing does."""
        method = "get" if method.upper() == "HEAD" else method.lower()
        bare = path.split("?", 1)[0]
        for template, item in self.paths:
            if method in item and self._pattern(template, item).fullmatch(bare):
                return item[method]
        return None

    def check(
        self, method: str, path: str, status: int, headers: Mapping[str, str], body: bytes | str
    ) -> str | None:
        """Raises Mismatch unless the document allows this answer. The operation's id; None if no
        operation has the path: then it must be a refusal in one of the two shapes of errors."""
        what = "%s %s → %d" % (method, path.split("?", 1)[0], status)
        operation = self.operation(method, path)
        try:
            if operation is None:
                self._check_refusal(status, body if method.upper() != "HEAD" else None)
                return None
            found = self._response(operation, status)
            self.seen.add((operation["operationId"], str(status)))
            self._check_body(
                found, {k.lower(): v for k, v in headers.items()}, body, method.upper() == "HEAD"
            )
        except Mismatch as exc:
            raise Mismatch("%s: %s" % (what, exc)) from None
        return operation["operationId"]

    def unseen(self) -> list[str]:
        """Operations that no check was about."""
        seen = {operation for operation, _ in self.seen}
        every = (op["operationId"] for _, item in self.paths for op in item.values())
        return sorted(name for name in every if name not in seen)

    def value(self, schema: str, value: Any) -> None:
        """Holds a value against a schema by its name: a line of a stream, say."""
        self._must_fit({"$ref": "#/components/schemas/" + schema}, value, schema)

    def _must_fit(self, schema: Any, value: Any, where: str) -> None:
        flaws = self.schemas.flaws(schema, value, where)
        if flaws:
            raise Mismatch("; ".join(flaws[:5]))

    def _response(self, operation: dict, status: int) -> dict:
        responses = operation["responses"]
        found = responses.get(str(status))
        if found is None and status >= 400:
            found = responses.get("default")
        if found is None:
            raise Mismatch("an undocumented status; there are %s" % ", ".join(responses))
        return self.schemas.resolve(found["$ref"]) if "$ref" in found else found

    def _check_refusal(self, status: int, body: bytes | str | None) -> None:
        if status < 400:
            raise Mismatch("no operation has this path")
        if body is not None:
            shapes = [{"$ref": "#/components/schemas/" + name} for name in ("Error", "Detail")]
            self._must_fit({"anyOf": shapes}, parse(body), "body")

    def _check_body(
        self, response: dict, headers: dict[str, str], body: bytes | str, is_head: bool
    ) -> None:
        kind = headers.get("content-type", "").split(";", 1)[0].strip().lower()
        content = response.get("content", {})
        if is_head or not content:
            if body:
                raise Mismatch("a body where there is none: %.100r" % body)
            return
        media = content.get(kind, content.get(kind.split("/")[0] + "/*", content.get("*/*")))
        if media is None:
            raise Mismatch("type %r, not one of %s" % (kind, ", ".join(content)))
        schema = media.get("x-each-schema") if "x-each" in media else media.get("schema")
        if "x-each" not in media and (kind != "application/json" or kind not in content):
            schema = None  # a text or bytes
        if schema is not None:
            for number, value in enumerate(self._values(media, body)):
                self._must_fit(
                    schema,
                    value,
                    "%s %d" % (media["x-each"], number) if "x-each" in media else "body",
                )

    @staticmethod
    def _values(media: dict, body: bytes | str) -> Iterator[Any]:
        each = media.get("x-each")
        if each is None:
            yield parse(body)
            return
        text = body.decode("utf-8") if isinstance(body, bytes) else body
        if each == "event":
            yield from map(parse, events(text))
            return
        if text and not text.endswith("\n"):
            raise Mismatch("the last line is cut off: %.100r" % text[-100:])
        yield from map(parse, text.split("\n")[:-1])
