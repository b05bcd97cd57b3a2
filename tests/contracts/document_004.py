#!/usr/bin/python3
"""Document 004 (mcp-sandbox: MCP Sandbox, port 8181): what its clients rely on over plain HTTP, a check a row of its
contract.

Rows that are MCP tools or the page have their own suites. Where the original is wrong (keys in links, one shared
current user, secrets in the source, /health behind the key) what is right is asserted.
"""
import errno
import os
import re
import socket
import sys
import tempfile
import time
from urllib.parse import quote, urlencode

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/lib"))
from check import check, contains, equal, skip  # noqa: E402
from krait_server import Reply, Server  # noqa: E402
from serving import Stream, eventually, kept, main  # noqa: E402

DIALECT = ["--dialect", "mcp-sandbox"]
PASSWORD = "correct horse battery"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def server() -> Server:
    """With authentication, and registration open as the document has it."""
    return kept(args=[*DIALECT, "--require-auth"])


def register(name: str) -> dict:
    reply = server().post("/api/register", {"username": name, "email": name + "@example.org", "password": PASSWORD})
    equal(reply.status, 200, reply.text)
    return reply.json()


def token(name: str, password: str = PASSWORD) -> Reply:
    return server().post("/api/token", urlencode({"username": name, "password": password}), headers=FORM)


def addresses() -> list:
    """Addresses of this machine that are not 127.0.0.1: what other machines would use, and another one of loopback,
    which a listener on 127.0.0.1 does not have either."""
    found = re.findall(r"\|-- (\S+)\n\s+/32 host LOCAL", open("/proc/net/fib_trie").read())
    return sorted({one for one in found if not one.startswith("127.")}) + ["127.0.0.2"]


def answers(address: str, port: int) -> bool:
    """Does an HTTP server answer there?"""
    try:
        with socket.create_connection((address, port), timeout=5) as s:
            s.sendall(b"GET /health HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % address.encode())
            return s.recv(12) == b"HTTP/1.1 200"
    except OSError as exc:
        equal(exc.errno, errno.ECONNREFUSED, address)
        return False


def port_is_free(port: int) -> bool:
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def opened(s: Server, query: str) -> Stream:
    """The event stream of the document."""
    return Stream(s, "GET", "/sse" + query, None, {"Accept": "text/event-stream"})


# ---- 01: where it listens ------------------------------------------------------------------------


@check
def row_004_01_the_default_is_loopback_8181():
    deadline = time.monotonic() + 60
    while not port_is_free(8181):
        if time.monotonic() > deadline:
            skip("port 8181 is taken by another program")
        time.sleep(0.5)
    with Server(args=DIALECT, usual=["--no-files"]) as s:
        equal(s.port, 8181)
        assert answers("127.0.0.1", 8181)
        for address in addresses():
            assert not answers(address, 8181), address
        with opened(s, "") as stream:
            equal((stream.status, stream.headers["content-type"].split(";")[0]), (200, "text/event-stream"))
            assert stream.event(), "nothing comes"


@check
def row_004_01_a_host_in_config_toml_opens_it():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="krait-test-") as here:
        path = os.path.join(here, "config.toml")
        with open(path, "w") as f:  # the document's own sections and keys
            f.write("""[server]
host = "0.0.0.0"
port = %d

[auth]
require_auth = true
default_user_id = "root"
user_sandbox_limit = 3

[docker]
default_image = "python-sandbox:latest"
dockerfile_path = "sandbox_images/Dockerfile"
check_dockerfile_changes = true

[logging]
level = "INFO"
log_file = "mcp_sandbox.log"

[mirror]
pypi_index_url = "https://pypi.example.org/simple"
""" % port)
        with Server(args=[*DIALECT, "--config", path], usual=[], cwd=here) as s:
            equal(s.port, port)
            for address in ["127.0.0.1", *addresses()]:
                assert answers(address, port), address


# ---- 10: keys ------------------------------------------------------------------------------------


@check
def row_004_10_a_stream_needs_a_key_which_may_be_in_the_query():
    s = server()
    key = register("streamer")["api_key"]
    for path, text in (("", "required"), ("?api_key=wrong", "not known"), ("?api_key=" + key[:-1], "not known")):
        with opened(s, path) as stream:
            equal(stream.status, 401, path)
            equal(stream.headers["www-authenticate"], "Bearer")
            contains(stream.raw_line().decode(), text)
    with opened(s, "?api_key=" + key) as stream:
        equal((stream.status, stream.headers["content-type"].split(";")[0]), (200, "text/event-stream"))
        assert stream.event(), "nothing comes"
    assert key not in eventually(s.log_text), "the key is in the log"


@check
def row_004_10_every_carrier_of_a_key():
    s = server()
    user = register("carrier")
    bearer = token("carrier").json()["access_token"]
    for path, headers in (("", {"Authorization": "Bearer " + bearer}), ("", {"X-API-Key": user["api_key"]}),
                          ("?api_key=" + user["api_key"], {}), ("", {"Authorization": "Bearer " + user["api_key"]})):
        reply = s.get("/api/users/me" + path, headers=headers)
        equal((reply.status, reply.json()["id"]), (200, user["id"]), headers)
    equal(s.get("/health").status, 200, "open, unlike the original's")


# ---- 11: two users -------------------------------------------------------------------------------


@check
def row_004_11_two_users_have_nothing_of_each_other():
    s = server()
    anna, bert = register("anna"), register("bert")
    boxes = {}
    for user in (anna, bert):
        made = s.post("/api/users/me/sandboxes", {"name": "mine"}, key=user["api_key"])
        equal((made.status, made.json()["user_id"]), (200, user["id"]), made.text)
        boxes[user["username"]] = made.json()["id"]
        wrote = s.run("open('secret.txt', 'w').write(%r); session_secret = 1" % user["username"],
                      sandbox_id=boxes[user["username"]], key=user["api_key"])
        equal([one["path"] for one in wrote["files"]], ["secret.txt"])
    hers, key = boxes["anna"], bert["api_key"]
    listed = s.get("/api/users/me/sandboxes", key=key).json()["sandboxes"]
    equal([one["id"] for one in listed], [boxes["bert"]])
    tries = [
        ("GET", "/api/users/me/sandboxes/" + hers, None),
        ("DELETE", "/api/users/me/sandboxes/" + hers, None),
        ("GET", "/sandbox/file?sandbox_id=%s&file_path=%s" % (hers, quote("/app/results/secret.txt")), None),
        ("GET", "/api/v1/sandboxes/" + hers, None),
        ("PATCH", "/api/v1/sandboxes/" + hers, {"name": "taken"}),
        ("POST", "/api/v1/sandboxes/%s/reset" % hers, None),
        ("DELETE", "/api/v1/sandboxes/" + hers, None),
        ("GET", "/api/v1/sandboxes/%s/files" % hers, None),
        ("GET", "/api/v1/sandboxes/%s/files/secret.txt" % hers, None),
        ("PUT", "/api/v1/sandboxes/%s/files/planted.txt" % hers, b"x"),
        ("POST", "/api/v1/sandboxes/%s/execute" % hers, {"code": "print(open('secret.txt').read())"}),
        ("POST", "/api/v1/execute", {"code": "print(open('secret.txt').read())", "sandbox_id": hers}),
        ("POST", "/api/v1/runs", {"code": "print(session_secret)", "sandbox_id": hers}),
    ]
    for method, path, body in tries:
        theirs = s.request(method, path, body, key=key)
        nobodys = s.request(method, path.replace(hers, "01hv5k8m2nq7r9t3w6x8y0z2a4"),
                            dict(body, sandbox_id="01hv5k8m2nq7r9t3w6x8y0z2a4") if isinstance(body, dict)
                            and "sandbox_id" in body else body, key=key)
        equal(theirs.status, 404, "%s %s: %s" % (method, path, theirs.text[:200]))
        equal(re.sub(r'"request_id":"[^"]*"', "", theirs.text), re.sub(r'"request_id":"[^"]*"', "", nobodys.text),
              "another user's is as unknown as one that never was")
    reply = s.get("/sandbox/file?sandbox_id=%s&file_path=%s" % (hers, quote("/app/results/secret.txt")),
                  key=anna["api_key"])
    equal((reply.status, reply.body), (200, b"anna"))
    equal(s.run("session_secret", sandbox_id=hers, key=anna["api_key"])["result"], "1")


# ---- 16: the account routes ----------------------------------------------------------------------


@check
def row_004_16_register():
    s = server()
    user = register("reg")
    equal(set(user), {"email", "username", "id", "created_at", "is_active", "api_key"})
    equal((user["email"], user["username"], user["is_active"]), ("reg@example.org", "reg", True))
    assert user["id"] and user["created_at"] and len(user["api_key"]) >= 32, user
    again = s.post("/api/register", {"username": "reg", "email": "other@example.org", "password": PASSWORD})
    equal((again.status, again.detail()), (400, "Username already registered"))
    again = s.post("/api/register", {"username": "reg2", "email": "reg@example.org", "password": PASSWORD})
    equal((again.status, again.detail()), (400, "Email already registered"))
    bad = s.post("/api/register", {"username": "reg3", "email": "nonsense", "password": PASSWORD})
    equal((bad.status, bad.json()["detail"][0]["loc"]), (422, ["body", "email"]))
    assert PASSWORD not in bad.text
    missing = s.post("/api/register", {"username": "reg3"})
    equal((missing.status, [one["loc"][1] for one in missing.json()["detail"]]), (422, ["email", "password"]))


@check
def row_004_16_token():
    register("tok")
    good = token("tok")
    equal((good.status, set(good.json()), good.json()["token_type"]), (200, {"access_token", "token_type"}, "bearer"))
    for name, password in (("tok", "wrong"), ("nobody-at-all", PASSWORD)):
        bad = token(name, password)
        equal((bad.status, bad.detail()), (401, "Incorrect username or password"))
        equal(bad.header("www-authenticate"), "Bearer")


@check
def row_004_16_me_and_the_key():
    s = server()
    user = register("me")
    bearer = token("me").json()["access_token"]
    me = s.get("/api/users/me", key=bearer)
    equal(me.status, 200)
    equal({name: me.json()[name] for name in ("email", "username", "id", "created_at", "is_active")},
          {name: user[name] for name in ("email", "username", "id", "created_at", "is_active")})
    for key in ("", "wrong", bearer[:-1]):
        refused = s.get("/api/users/me", key=key)
        equal((refused.status, refused.detail()), (401, "Could not validate credentials"))
    equal(s.get("/api/users/me/api-key", key=user["api_key"]).json()["api_key"], user["api_key"])
    contains(s.get("/api/users/me/api-key", key=bearer).json(), "api_key")
    fresh = s.post("/api/users/me/api-key/regenerate", key=bearer)
    equal(fresh.status, 200)
    fresh = fresh.json()["api_key"]
    assert fresh and fresh != user["api_key"], "the same key again"
    equal(s.get("/api/users/me", key=fresh).json()["id"], user["id"])
    equal(s.get("/api/users/me", key=user["api_key"]).status, 401, "the old one is over")


@check
def row_004_16_a_disabled_user():
    root = "root-key-0123456789abcdef"
    s = kept(args=[*DIALECT, "--require-auth"], env={"API_KEY": root})
    made = s.post("/api/register", {"username": "gone", "email": "gone@example.org", "password": PASSWORD}).json()
    reply = s.patch("/api/v1/users/" + made["id"], {"disabled": True}, key=root)
    equal(reply.status, 200, reply.text)
    refused = s.get("/api/users/me", key=made["api_key"])
    equal((refused.status, refused.detail()), (400, "Inactive user"))


@check
def row_004_16_sandboxes():
    s = server()
    user = register("boxes")
    key = user["api_key"]
    equal(s.get("/api/users/me/sandboxes", key=key).json(), {"sandboxes": []})
    made = [s.post("/api/users/me/sandboxes", {}, key=key) for _ in range(3)]
    equal([one.status for one in made], [200, 200, 200], made[-1].text)
    equal([one.json()["name"] for one in made], ["Sandbox 1", "Sandbox 2", "Sandbox 3"])
    fourth = s.post("/api/users/me/sandboxes", {"name": "one too many"}, key=key)
    contains((400, 403, 409, 429), fourth.status, fourth.text)
    contains(fourth.json()["detail"], "3", "the limit is named")
    s.run("1", key=key)  # in `default`, which every user has and which is neither listed nor counted
    listed = s.get("/api/users/me/sandboxes", key=key).json()["sandboxes"]
    equal(sorted(one["name"] for one in listed), ["Sandbox 1", "Sandbox 2", "Sandbox 3"])
    for one in listed:
        equal(set(one), {"id", "user_id", "name", "created_at", "docker_container_id"})
        equal(one["user_id"], user["id"])
        equal(s.get("/api/users/me/sandboxes/" + one["id"], key=key).json(), one)
    gone = s.delete("/api/users/me/sandboxes/" + listed[0]["id"], key=key)
    equal((gone.status, gone.json()), (200, {"message": "Sandbox deleted successfully"}))
    equal(s.delete("/api/users/me/sandboxes/" + listed[0]["id"], key=key).status, 404)
    equal(s.post("/api/users/me/sandboxes", {"name": "in its place"}, key=key).status, 200)


main()
