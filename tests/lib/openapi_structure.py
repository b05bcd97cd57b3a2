"""Is a document valid OpenAPI 3.1? The objects that krait writes, by the specification's rules:
which keys an object has and must have, that references lead somewhere, that templates and parameters
agree, and that every example obeys its schema. Used by openapi.py and tests/unit/contract/openapi.py.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Iterator

from openapi import BadSchema, KNOWN, METHODS, Schemas, TYPES

NAME = re.compile(r"[a-zA-Z0-9._-]+")
# Types of the languages and libraries that generated clients rely on: a component of that name hides one.
TAKEN = {"Blob", "Client", "Date", "File", "FormData", "Headers", "Promise", "Record", "Request", "Response"}
STATUS = re.compile(r"[1-5]\d\d|default")
# object: keys it must have, keys it may have
SHAPES: dict[str, tuple[str, str]] = {
    "document": (
        "openapi info paths",
        "jsonSchemaDialect servers webhooks components security tags externalDocs",
    ),
    "info": ("title version", "summary description termsOfService contact license"),
    "license": ("name", "identifier url"),
    "server": ("url", "description variables"),
    "tag": ("name", "description externalDocs"),
    "operation": (
        "responses operationId tags summary",
        "description externalDocs parameters requestBody callbacks deprecated security servers",
    ),
    "parameter": (
        "name in schema",
        "description required deprecated allowEmptyValue style explode example examples",
    ),
    "header": ("schema", "description required deprecated style explode example examples"),
    "requestBody": ("content", "description required"),
    "response": ("description", "headers content links"),
    "media": ("", "schema example examples encoding"),
    "components": (
        "",
        "schemas responses parameters examples requestBodies headers securitySchemes links "
        "callbacks pathItems",
    ),
    "http scheme": ("type scheme", "description bearerFormat"),
    "apiKey scheme": ("type name in", "description"),
}


class Structure:
    """Collects what is wrong."""

    def __init__(self, document: dict):
        self.document = document
        self.schemas = Schemas(document)
        self.found: list[str] = []

    def problem(self, where: str, text: str) -> None:
        self.found.append("%s: %s" % (where, text))

    def shape(self, kind: str, node: Any, where: str) -> bool:
        """The keys of an object; x-anything is always allowed."""
        if not isinstance(node, dict):
            self.problem(where, "is not an object")
            return False
        must, may = (words.split() for words in SHAPES[kind])
        for key in must:
            if key not in node:
                self.problem(where, "%s is missing" % key)
        for key in node:
            if key not in must and key not in may and not key.startswith("x-"):
                self.problem(where, "a %s has no key %s" % (kind, key))
        return all(key in node for key in must)

    def of_ref(self, node: dict, where: str) -> dict:
        """What a reference is about; the node itself if it is none."""
        if "$ref" not in node:
            return node
        try:
            return self.schemas.resolve(node["$ref"])
        except BadSchema as exc:
            self.problem(where, str(exc))
            return {}

    # ---- schemas and examples ----

    def schema(self, node: Any, where: str) -> None:
        if isinstance(node, bool):
            return
        if not isinstance(node, dict):
            return self.problem(where, "a schema is an object or a boolean")
        for key in sorted(set(node) - KNOWN):
            self.problem(where, "a word krait does not write: %s" % key)
        self.of_ref(node, where)
        types = node.get("type", [])
        for kind in [types] if isinstance(types, str) else types:
            if kind not in TYPES:
                self.problem(where, "no type is called %s" % kind)
        if "array" in types and "items" not in node:
            self.problem(where, "an array without items, which generators refuse")
        for key in node.get("required", []):
            if key not in node.get("properties", {}):
                self.problem(where, "%s is required but not described" % key)
        for key, inner in node.get("properties", {}).items():
            self.schema(inner, where + "." + key)
        for word in ("items", "additionalProperties"):
            if word in node:
                self.schema(node[word], where + "." + word)
        for word in ("anyOf", "allOf", "oneOf"):
            if word in node and not node[word]:
                self.problem(where, "%s is empty" % word)
            for inner in node.get(word, []):
                self.schema(inner, where + "." + word)
        for example in node.get("examples", []) + ([node["default"]] if "default" in node else []):
            self.example(
                {k: v for k, v in node.items() if k not in ("examples", "default")}, example, where
            )

    def example(self, schema: Any, value: Any, where: str) -> None:
        try:
            for flaw in self.schemas.flaws(schema, value, "example"):
                self.problem(where, flaw)
        except BadSchema as exc:
            self.problem(where, str(exc))

    def media(self, content: Any, where: str) -> int:
        """The number of its examples."""
        count = 0
        for kind, media in content.items():
            if not re.fullmatch(r"[\w.+-]+/[\w.+-]+|[\w.+-]+/\*|\*/\*", kind):
                self.problem(where, "%s is no media type" % kind)
            if not self.shape("media", media, where + " " + kind):
                continue
            if "schema" not in media and kind != "application/json":
                self.problem(where, "%s has no schema: generators leave it out" % kind)
            if "x-each" in media and media.get("schema", {}).get("type") != "string":
                self.problem(where, "a stream is a text to generators")
            if media.get("x-each", "line") not in ("line", "event"):
                self.problem(where, "x-each is line or event")
            self.schema(media.get("schema", True), where + " " + kind)
            self.schema(media.get("x-each-schema", True), where + " " + kind)
            if "example" in media:
                count += 1
                self.example(media.get("schema", True), media["example"], where + " " + kind)
        return count

    # ---- operations ----

    def headers(self, node: dict, where: str) -> None:
        for name, header in node.items():
            if self.shape("header", header, "%s header %s" % (where, name)):
                self.schema(header["schema"], where)
                self.example(
                    header["schema"], header.get("example", ""), "%s header %s" % (where, name)
                )

    def response(self, node: dict, where: str) -> int:
        node = self.of_ref(node, where)
        if not self.shape("response", node, where):
            return 0
        self.headers(node.get("headers", {}), where)
        return self.media(node.get("content", {}), where)

    def parameters(self, path: str, rows: list[dict], where: str) -> int:
        wanted = re.findall(r"\{([^}]*)\}", path)
        names = [(row.get("in"), row.get("name")) for row in rows]
        count = 0
        if sorted(wanted) != sorted(name for place, name in names if place == "path"):
            self.problem(where, "the template and its parameters differ")
        if len(set(names)) != len(names):
            self.problem(where, "a parameter is there twice")
        for row in rows:
            if not self.shape("parameter", row, where):
                continue
            if row["in"] not in ("path", "query", "header", "cookie"):
                self.problem(where, "no parameter is in %s" % row["in"])
            if row["in"] == "path" and row.get("required") is not True:
                self.problem(where, "%s: a parameter of the path is required" % row["name"])
            self.schema(row["schema"], "%s %s" % (where, row["name"]))
            if "example" in row:
                count += 1
                self.example(row["schema"], row["example"], "%s %s" % (where, row["name"]))
        return count

    def operation(self, path: str, node: dict, where: str) -> None:
        if not self.shape("operation", node, where):
            return
        examples = self.parameters(path, node.get("parameters", []), where)
        if "requestBody" in node and self.shape("requestBody", node["requestBody"], where):
            if not node["requestBody"]["content"]:
                self.problem(where, "a body of no type")
            examples += self.media(node["requestBody"]["content"], where + " body")
        if not node.get("description"):
            self.problem(where, "has no description")
        if not any(status.startswith(("1", "2", "3")) for status in node["responses"]):
            self.problem(where, "says only how it fails")
        for status, response in node["responses"].items():
            if not STATUS.fullmatch(status):
                self.problem(where, "%s is no status" % status)
            examples += self.response(response, "%s %s" % (where, status))
        if not examples:
            self.problem(where, "has no example")
        self.security(node.get("security", []), where)
        for tag in node["tags"]:
            if tag not in [one["name"] for one in self.document.get("tags", [])]:
                self.problem(where, "no entry describes the tag %s" % tag)

    def paths(self) -> None:
        ids: list[str] = []
        shapes: dict[str, str] = {}
        for path, item in self.document["paths"].items():
            if not path.startswith("/"):
                self.problem(path, "does not begin with a slash")
            bare = re.sub(r"\{[^}]*\}", "{}", path)
            if bare in shapes:
                self.problem(path, "is %s again" % shapes[bare])
            shapes[bare] = path
            for method, operation in item.items():
                if method not in METHODS:
                    self.problem(path, "no method is called %s" % method)
                    continue
                self.operation(path, operation, "%s %s" % (method.upper(), path))
                ids.append(operation.get("operationId", ""))
        for name in sorted({name for name in ids if ids.count(name) > 1}):
            self.problem("operationId", "%s is there %d times" % (name, ids.count(name)))

    # ---- the rest ----

    def security(self, rows: list[dict], where: str) -> None:
        schemes = self.document.get("components", {}).get("securitySchemes", {})
        for row in rows:
            for name in row:
                if name not in schemes:
                    self.problem(where, "no security scheme is called %s" % name)

    def components(self) -> None:
        node = self.document.get("components", {})
        self.shape("components", node, "components")
        parts: dict[str, Callable[[Any, str], Any]] = {
            "schemas": self.schema,
            "responses": self.response,
            "securitySchemes": self.scheme,
        }
        for part, look in parts.items():
            for name, inner in node.get(part, {}).items():
                if not NAME.fullmatch(name):
                    self.problem(part, "%s is not a valid name" % name)
                if part == "schemas" and name in TAKEN:
                    self.problem("schemas " + name, "is also a type of generated code")
                look(inner, "%s %s" % (part, name))
        for name, inner in node.get("schemas", {}).items():  # generators name an inner object so
            for key, prop in inner.get("properties", {}).items() if isinstance(inner, dict) else ():
                made = name + "".join(word.capitalize() for word in key.split("_"))
                own = {"$ref": "#/components/schemas/" + made}
                parts = prop.get("allOf", prop.get("anyOf", []))
                if made in node["schemas"] and (parts or "properties" in prop) and own not in parts:
                    self.problem("schemas " + made, "is also what generators call %s.%s" % (name, key))
        used = set(_refs(self.document))
        for name in node.get("schemas", {}):
            if "#/components/schemas/" + name not in used:
                self.problem("schemas " + name, "nothing refers to it")

    def scheme(self, node: dict, where: str) -> None:
        kind = "%s scheme" % node.get("type")
        if kind not in SHAPES:
            self.problem(where, "no security scheme is of type %s" % node.get("type"))
        else:
            self.shape(kind, node, where)

    def run(self) -> list[str]:
        document = self.document
        if not self.shape("document", document, "document"):
            return self.found
        if not re.fullmatch(r"3\.1\.\d+", document["openapi"]):
            self.problem("openapi", "%s is not 3.1" % document["openapi"])
        if self.shape("info", document["info"], "info") and "license" in document["info"]:
            self.shape("license", document["info"]["license"], "license")
        for server in document.get("servers", []):
            self.shape("server", server, "server")
        tags = document.get("tags", [])
        for tag in tags:
            self.shape("tag", tag, "tag")
        if len({tag.get("name") for tag in tags}) != len(tags):
            self.problem("tags", "one is there twice")
        self.security(document.get("security", []), "security")
        self.paths()
        self.components()
        return self.found


def _refs(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for inner in node.values():
            yield from _refs(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _refs(inner)


def problems(document: dict) -> list[str]:
    """What is wrong with the document; an empty list if nothing is."""
    return Structure(document).run()
