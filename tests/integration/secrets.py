#!/usr/bin/python3
"""Secrets over REST and in sandboxes: stored and never shown, placeholders in the environment, values in requests to
their hosts alone, over plain HTTP and inside TLS; who may not, what goes with whom, what is on disk."""
from __future__ import annotations

import base64
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal, main
from krait_server import Reply, Server
from mcp import Http
from repeating import VALUE, Host, echo, must_be_covered
from serving import eventually
from test_ca import TestCa

ALL = "/api/v1/secrets"
ASK = """
import os, ssl, urllib.error, urllib.request
for name in ("no_proxy", "NO_PROXY"):  # the hosts of this test are on this machine
    os.environ.pop(name, None)
def ask(url, **fields):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=fields), timeout=60) as reply:
            return reply.status, str(reply.headers) + reply.read().decode("latin-1")
    except urllib.error.HTTPError as e:
        return e.code, str(e.headers) + e.read().decode("latin-1")
key = os.environ.get("SERVICE_KEY")
"""


def serve(*hosts: Host, args: Any = (), **more: Any) -> Server:
    private = ["--egress-private-hosts", ",".join(h.name for h in hosts)] if hosts else []
    return Server(args=["--network", "open", "--max-network", "open", *private, *args], **more)


def run(s: Server, code: str, sandbox: str = "default", key: str | None = None) -> Any:
    """What the code leaves in `out`."""
    reply = s.post("/api/v1/runs", {"code": ASK + code + "\nprint(repr(out))", "stream": False, "timeout": 60,
                                    "sandbox_id": sandbox}, key=key)
    equal(reply.status, 200, reply.text)
    assert reply.json()["stdout"], reply.text
    return eval(reply.json()["stdout"])


def put(s: Server, name: str, value: str, *hosts: str, key: str | None = None) -> Reply:
    return s.put("%s/%s" % (ALL, name), {"value": value, "hosts": list(hosts)}, key=key)


def sandbox(s: Server, name: str, tls: bool = False, **more: Any) -> str:
    made = s.post("/api/v1/sandboxes", {"name": name, "secrets": {"SERVICE_KEY": "service"},
                                        **({"secrets_tls": "yes"} if tls else {}), **more})
    equal(made.status, 201, made.text)
    return made.json()["id"]


def on_disk(s: Server, text: str) -> list[str]:
    """Files of the data folder, and the log, that have the text."""
    found = ["the log"] if text in s.log_text() else []
    for path in Path(s.data).rglob("*"):
        if path.is_file() and not path.is_symlink() and text.encode() in path.read_bytes():
            found.append(str(path))
    return found


# ---- over REST ----

@check
def a_value_is_stored_and_never_shown():
    with serve() as s:
        made = put(s, "service", VALUE, "API.example.org", "http://10.0.0.1:8080", "https://api.example.org:443")
        equal(made.status, 200, made.text)
        shown = made.json()
        equal({k: shown[k] for k in ("name", "hosts")},
              {"name": "service", "hosts": ["https://api.example.org:443", "http://10.0.0.1:8080"]})
        assert abs(shown["changed_at"] - time.time()) < 600
        equal(s.get(ALL).json(), {"secrets": [shown]})
        equal(s.get(ALL + "/service").json(), shown)
        audit = s.get("/api/v1/audit").text
        contains(audit, "secret.put")
        for reply in (made.text, s.get(ALL).text, audit):
            assert VALUE not in reply and json.dumps(VALUE)[1:-1] not in reply, reply
        equal(on_disk(s, VALUE), [])
        data = Path(s.data, "data")
        equal([oct((data / f).stat().st_mode & 0o777) for f in ("secrets.key", "ca.pem")], ["0o600", "0o600"])
        equal(s.delete(ALL + "/service").status, 204)
        equal([s.delete(ALL + "/service").status, s.get(ALL + "/service").status], [404, 404])
        equal(s.get(ALL).json(), {"secrets": []})


@check
def what_is_wrong_is_named_and_not_repeated():
    with serve() as s:
        for name, value, hosts, why in (
                ("service", "line\r\nX: 1", ["api.example.org"], "value"), ("service", "short", ["a.example"], "value"),
                ("service", "x1" * 1500, ["a.example"], "value"), ("service", "späte Werte", ["a.example"], "ASCII"),
                ("service", " blank at front", ["a.example"], "blank"),
                ("service", "repeated" * 3, ["a.example"], "come again"),
                ("service", "krait-secret-0123", ["a.example"], "placeholder"),
                ("service", VALUE, [], "hosts"), ("service", VALUE, ["*.example.org"], "no pattern"),
                ("service", VALUE, ["http://api.example.org"], "port"), ("service", VALUE, ["a.example/x"], "hosts"),
                ("service", VALUE, ["a%d.example" % i for i in range(9)], "hosts"),
                ("a%20b", VALUE, ["a.example"], "secret_name"), ("x" * 65, VALUE, ["a.example"], "secret_name")):
            refused = put(s, name, value, *hosts)
            assert refused.status in (400, 422), "%s %s %s" % (value[:40], hosts, refused.text)
            contains(refused.text, why)
            assert value[:2000] not in refused.text, refused.text
        for body in ('{"value": "not-to-be-seen\\q"}', '{"value": "not-to-be-seen', '{"value": "not-to-be-seen",}',
                     '["not-to-be-seen"]', '{"value": ["not-to-be-seen"], "hosts": ["a.example"]}',
                     '{"value": "12345678", "hosts": "not-to-be-seen"}', '"not-to-be-seen"'):
            refused = s.put(ALL + "/service", body, headers={"Content-Type": "application/json"})
            assert refused.status in (400, 422) and "not-to-be-seen" not in refused.text, refused.text
        assert "not-to-be-seen" not in s.log_text(), "it is in the log"
        equal(s.get(ALL).json(), {"secrets": []})
        for change, why in (({"secrets": {"SERVICE_KEY": "none"}}, "no secret called none"),
                            ({"secrets": {"KRAIT_X": "none"}}, "KRAIT_X"), ({"secrets": {"A=B": "none"}}, "A=B"),
                            ({"secrets": {"A": "no name"}}, "secrets.A"), ({"secrets": "service"}, "secrets"),
                            ({"secrets_tls": "perhaps"}, "secrets_tls")):
            refused = s.patch("/api/v1/sandboxes/default", change)
            assert refused.status in (400, 422), refused.text
            contains(refused.text, why)
        equal(put(s, "service", VALUE, "api.example.org").status, 200)
        equal(s.patch("/api/v1/sandboxes/default", {"secrets": {"A": "service"}}).json()["settings"]["secrets"],
              {"A": "service"})


@check
def users_have_their_own():
    with serve(args=["--require-auth"], env={"API_KEY": "an-administrators-key-of-the-tests"},
               key="an-administrators-key-of-the-tests") as s:
        keys = []
        for name in ("ann", "bob"):
            user = s.post("/api/v1/users", {"name": name, "rights": ["read", "run"]}).json()["id"]
            keys.append((user, s.post("/api/v1/keys", {"user": user}).json()["key"]))
        (ann, her), (_, his) = keys
        equal(put(s, "service", VALUE, "api.example.org", key=her).status, 200)
        for other in (his, None):  # also an administrator
            equal(s.get(ALL, key=other).json(), {"secrets": []})
            equal([s.get(ALL + "/service", key=other).status, s.delete(ALL + "/service", key=other).status], [404, 404])
            equal(s.request("POST", "/api/v1/sandboxes", {"secrets": {"A": "service"}}, key=other).status, 400)
        equal(s.get(ALL + "/service", key=her).status, 200)
        equal(s.request("POST", "/api/v1/sandboxes", {"secrets": {"A": "service"}}, key=her).status, 201)
        reader = s.post("/api/v1/keys", {"rights": ["read"]}, key=her).json()["key"]
        equal([put(s, "other", VALUE, "a.example", key=reader).status, s.get(ALL, key=reader).status], [403, 200])
        assert s.delete("/api/v1/users/" + ann).status in (202, 204)
        eventually(lambda: s.get("/api/v1/users/" + ann).status == 404)
        equal(s.get(ALL, key=his).json(), {"secrets": []})


# ---- in sandboxes ----

@check
def code_has_a_placeholder_and_its_host_the_value():
    with Host(echo) as host, Host(echo) as other, serve(host, other) as s:
        equal(put(s, "service", VALUE, host.url).status, 200)
        box, second = sandbox(s, "one"), sandbox(s, "two")
        key, (status, text) = run(s, 'out = key, ask("%s/", Authorization="Bearer " + key)' % host.url, box)
        assert key.startswith("krait-secret-") and len(key) == 45, key
        equal((status, host.field("authorization")), (200, "Bearer " + VALUE))
        must_be_covered(text.encode("latin-1"))
        run(s, 'out = ask("%s/", Authorization="Bearer " + key)' % other.url, box)
        equal(other.field("authorization"), "Bearer " + key)
        theirs = run(s, 'out = key, ask("%s/", X=%r)' % (host.url, key), second)[0]
        assert theirs != key, "two sandboxes have one placeholder"
        equal(host.field("x"), key)  # that of another sandbox is a text
        rows = s.get("/api/v1/connections?sandbox_id=" + box).json()["connections"]
        equal(sorted((r["port"], r["secrets"]) for r in rows), sorted([(host.port, ["service"]), (other.port, [])]))
        equal(run(s, "out = key, [k for k in os.environ if 'SSL' in k]"), (None, []))  # the default sandbox has none
        equal(on_disk(s, VALUE), [])


@check
def inside_tls_only_where_the_sandbox_says_so():
    theirs = TestCa()
    theirs.folder.chmod(0o755)
    code = 'out = key, ask("%s/", Authorization="Bearer " + key)'
    with Host(echo, theirs.server("localhost")) as host, \
            serve(host, args=["--egress-ca-file", str(theirs.pem)]) as s:
        equal(put(s, "service", VALUE, host.name).status, 200)
        box, plain = sandbox(s, "opened", tls=True), sandbox(s, "passed")
        key, (status, text) = run(s, code % host.url, box)
        equal((status, host.field("authorization")), (200, "Bearer " + VALUE))
        must_be_covered(text.encode("latin-1"))
        code = """
context = ssl.create_default_context()
context.load_verify_locations(cadata=%r)
urllib.request.install_opener(urllib.request.build_opener(urllib.request.HTTPSHandler(context=context)))
""" % theirs.pem.read_text() + code
        key, (status, _) = run(s, code % host.url, plain)
        equal((status, host.field("authorization")), (200, "Bearer " + key))
        (row,) = [r for r in s.get("/api/v1/connections?sandbox_id=" + box).json()["connections"] if r["secrets"]]
        equal((row["how"], row["host"], row["port"], row["secrets"]), ("https", "localhost", host.port, ["service"]))
        own = Path(s.data, "data", "ca.pem").read_text()
        certificate, _, private = own.partition("-----END CERTIFICATE-----")
        file, trusts, keys, written = run(s, """
file = os.environ["SSL_CERT_FILE"]
trusts = open(file).read()
try:
    written = open(file, "a")
except OSError as e:
    written = None
keys = [k for k, v in os.environ.items() if v == file]
out = file, trusts, sorted(keys), written""", box)
        contains(trusts, certificate)
        contains(trusts, theirs.pem.read_text().strip())
        assert "PRIVATE" not in trusts and "PRIVATE" in private, "a key is in the cell"
        equal(written, None)
        equal(keys, ["CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "REQUESTS_CA_BUNDLE",
                     "SSL_CERT_FILE"])


@check
def a_change_holds_at_once():
    code = 'out = ask("%s/", X=key)[0]'
    with Host(echo) as host, serve(host) as s:
        equal(put(s, "service", VALUE, host.url).status, 200)
        box = sandbox(s, "changing")
        session = {"session_id": "kept", "sandbox_id": box, "stream": False}

        def sent() -> str | None:
            reply = s.post("/api/v1/runs", {"code": ASK + code % host.url, "timeout": 60, **session})
            equal(reply.status, 200, reply.text)
            return host.field("x")

        equal(sent(), VALUE)
        equal(put(s, "service", "another-value", host.url).status, 200)
        equal(sent(), "another-value")
        equal(put(s, "service", "another-value", "api.example.org").status, 200)
        contains(sent(), "krait-secret-")
        equal(put(s, "service", VALUE, host.url).status, 200)
        equal(sent(), VALUE)
        equal(s.delete(ALL + "/service").status, 204)
        contains(sent(), "krait-secret-")


@check
def a_template_takes_no_secret_along():
    with serve() as s:
        equal(put(s, "service", VALUE, "api.example.org").status, 200)
        box = sandbox(s, "saved", env={"MODE": "test"})
        equal(s.post("/api/v1/templates", {"sandbox_id": box, "name": "t"}).status, 201)
        made = s.post("/api/v1/sandboxes", {"name": "from", "template": "t"})
        equal(made.status, 201, made.text)
        settings = made.json()["settings"]
        equal((settings.get("env"), settings.get("secrets")), ({"MODE": "***"}, None))


@check
def what_is_stored_outlasts_the_server_and_needs_its_key():
    code = 'out = ask("%s/", X=key)[0]'
    with Host(echo) as host, serve(host) as s:
        equal(put(s, "service", VALUE, host.url).status, 200)
        box = sandbox(s, "kept")
        authority = Path(s.data, "data", "ca.pem").read_bytes()
        equal(s.stop(), 0)
        s.start()
        equal(run(s, code % host.url, box), 200)
        equal(host.field("x"), VALUE)
        equal(Path(s.data, "data", "ca.pem").read_bytes(), authority)
        equal(s.stop(), 0)
        Path(s.data, "data", "secrets.key").write_bytes(os.urandom(32))
        s.start()
        equal(run(s, code % host.url, box), 200)
        contains(host.field("x"), "krait-secret-")  # it does not open, and nothing is made up
        contains(s.log_text(), "does not open")
        equal(put(s, "service", VALUE, host.url).status, 200)
        equal(run(s, code % host.url, box), 200)
        equal(host.field("x"), VALUE)


@check
def tools_take_no_secrets():
    with serve() as s:
        equal(put(s, "service", VALUE, "api.example.org").status, 200)
        with Http(s.port) as c:
            tools = {t["name"]: t for t in c.call("tools/list")["tools"]}
        assert "network" in tools["create_sandbox"]["inputSchema"]["properties"]
        assert "secrets" not in json.dumps(tools), "a tool takes secrets"


if __name__ == "__main__":
    main()
