#!/usr/bin/python3
"""Users, keys, logins and the audit log over HTTP, and the account routes of document 004 (mcp-sandbox), on one server.
Every reply is held against the published schema."""
import os
import subprocess
import sys
import threading
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, contains, equal, main
from krait_server import KRAIT, Server

server: Server
admin = ""
count = 0


def name(kind: str = "user") -> str:
    """One that no user has yet."""
    global count
    count += 1
    return "%s%d" % (kind, count)


def make_user(rights: list | None = None, **more) -> tuple:
    """A user and a key of theirs."""
    body = {"name": name(), **more, **({"rights": rights} if rights else {})}
    made = server.post("/api/v1/users", body, key=admin)
    equal(made.status, 201, made.text)
    key = server.post("/api/v1/keys", {"user": made.json()["id"], **({"rights": rights} if rights else {})}, key=admin)
    equal(key.status, 201, key.text)
    return made.json(), key.json()["key"]


def register(password: str = "correct horse") -> dict:
    user = name("reg")
    done = server.post("/api/register", {"username": user, "email": user + "@example.org", "password": password},
                       key="")
    equal(done.status, 200, done.text)
    return done.json()


def token(user: str, password: str = "correct horse"):
    return server.post("/api/token", "username=%s&password=%s" % (user, password.replace(" ", "+")), key="",
                       headers={"Content-Type": "application/x-www-form-urlencoded"})


def error(reply) -> tuple:
    return reply.status, reply.json()["error"]["kind"]


def rows(key: str = "", **filters) -> list:
    query = "&".join("%s=%s" % pair for pair in filters.items())
    return server.get("/api/v1/audit?limit=500&" + query, key=key or admin).json()["rows"]


# ---- users ---------------------------------------------------------------------------------------


@check
def administrators_make_read_and_list_users() -> None:
    user, _key = make_user(email="a%d@example.org" % count)
    equal((user["rights"], user["has_password"], user["disabled_at"]), (["read", "run"], False, None))
    equal(server.get("/api/v1/users/" + user["id"], key=admin).json(), user)
    listed, after = [], ""
    while after is not None:
        page = server.get("/api/v1/users?limit=1" + ("&after=" + after if after else ""), key=admin).json()
        assert len(page["users"]) <= 1
        listed += page["users"]
        after = page["next"]
    contains(listed, user)
    equal(len({u["id"] for u in listed}), len(listed))
    again = server.post("/api/v1/users", {"name": user["name"].upper()}, key=admin)
    equal(error(again), (409, "conflict"))
    equal(again.json()["error"]["field"], "name")
    equal(error(server.get("/api/v1/users/nonesuch", key=admin)), (404, "not_found"))
    equal(rows(what="user.create", object=user["id"])[0]["user"], "root")


@check
def others_see_no_users() -> None:
    user, key = make_user()
    other, _key = make_user()
    for method, path, body in (("GET", "/api/v1/users", None), ("POST", "/api/v1/users", {"name": name()}),
                               ("GET", "/api/v1/users/" + other["id"], None),
                               ("GET", "/api/v1/users/" + user["id"], None),
                               ("PATCH", "/api/v1/users/" + user["id"], {"rights": ["admin"]}),
                               ("DELETE", "/api/v1/users/" + other["id"], None)):
        equal(error(server.request(method, path, body, key=key)), (403, "forbidden"), method + path)
    me = server.get("/api/v1/users/me", key=key).json()
    equal((me["user"]["id"], me["known_by"], me["rights"]), (user["id"], "key", ["read", "run"]))


@check
def a_disabled_user_is_refused_at_once_and_ended() -> None:
    user, key = make_user()
    equal(server.run("x = 1", session="main", key=key)["cause"], "ok")
    runner = threading.Thread(target=lambda: ends.append(server.run("import time; time.sleep(60)", key=key)))
    ends: list = []
    runner.start()
    while not [s for s in server.get("/api/v1/runs", key=key).json()["runs"] if s["cause"] is None]:
        time.sleep(0.05)
    changed = server.patch("/api/v1/users/" + user["id"], {"disabled": True}, key=admin)
    assert changed.json()["disabled_at"]
    equal(error(server.get("/api/v1/users/me", key=key)), (403, "forbidden"))
    runner.join(20)
    equal([e["cause"] for e in ends], ["cancelled"])
    equal(server.patch("/api/v1/users/" + user["id"], {"disabled": False}, key=admin).json()["disabled_at"], None)
    equal(server.get("/api/v1/users/me", key=key).status, 200)


@check
def rights_change_at_once() -> None:
    user, key = make_user()
    equal(server.get("/api/v1/users", key=key).status, 403)
    equal(server.patch("/api/v1/users/" + user["id"], {"rights": ["read"]}, key=admin).json()["rights"], ["read"])
    equal(error(server.post("/api/v1/runs", {"code": "1"}, key=key)), (403, "forbidden"))
    contains(rows(what="auth.refused", user=user["id"])[0]["outcome"], "rights")


@check
def root_and_oneself_stay() -> None:
    equal(error(server.delete("/api/v1/users/root", key=admin)), (409, "conflict"))
    boss, key = make_user(["read", "run", "admin"])
    equal(error(server.delete("/api/v1/users/root", key=key)), (403, "denied"))
    equal(error(server.delete("/api/v1/users/" + boss["id"], key=key)), (409, "conflict"))
    equal(error(server.patch("/api/v1/users/" + boss["id"], {"disabled": True}, key=key)), (409, "conflict"))


@check
def deleting_takes_everything_along() -> None:
    user, key = make_user()
    equal(server.run("open('f', 'w').write('x')", session="main", key=key)["cause"], "ok")
    run = server.get("/api/v1/runs", key=key).json()["runs"][0]["run_id"]
    sandbox = server.post("/api/v1/sandboxes", {"name": "mine"}, key=key).json()["id"]
    equal(server.delete("/api/v1/users/" + user["id"], key=admin).status, 204)
    equal(error(server.get("/api/v1/users/" + user["id"], key=admin)), (404, "not_found"))
    equal(error(server.get("/api/v1/users/me", key=key)), (401, "unauthorized"))
    for path in ("/api/v1/runs/" + run, "/api/v1/sandboxes/" + sandbox):
        equal(server.get(path, key=admin).status, 404, path)
    equal(rows(what="user.delete")[0]["object"], user["id"])
    equal(error(server.delete("/api/v1/users/" + user["id"], key=admin)), (404, "not_found"))


# ---- keys ----------------------------------------------------------------------------------------


@check
def a_key_is_shown_once() -> None:
    user, key = make_user()
    made = server.post("/api/v1/keys", {"name": "laptop", "expires_in": 3600}, key=key).json()
    equal((made["user"], made["name"], made["rights"]), (user["id"], "laptop", ["read", "run"]))
    equal(round(made["expires_at"] - made["created_at"]), 3600)
    equal(server.get("/api/v1/users/me", key=made["key"]).json()["user"]["id"], user["id"])
    read = server.get("/api/v1/keys/" + made["id"], key=key)
    assert made["key"] not in read.text and made["key"].startswith(read.json()["prefix"])
    assert read.json()["last_used_at"]
    equal({k["id"] for k in server.get("/api/v1/keys", key=key).json()["keys"]} >= {made["id"]}, True)
    equal(server.delete("/api/v1/keys/" + made["id"], key=key).status, 204)
    equal(error(server.get("/api/v1/users/me", key=made["key"])), (401, "unauthorized"))
    assert server.get("/api/v1/keys/" + made["id"], key=key).json()["revoked_at"]
    equal(server.delete("/api/v1/keys/" + made["id"], key=key).status, 204)
    assert made["key"] not in server.log_text()


@check
def ids_are_named_the_same_in_every_reply() -> None:
    user, key = make_user()
    equal(user["user_id"], user["id"])
    made = server.post("/api/v1/keys", {"user_id": user["user_id"]}, key=key).json()
    equal((made["key_id"], made["user_id"]), (made["id"], made["user"]))
    equal(server.post("/api/v1/keys", {"user": user["user_id"]}, key=key).json()["user_id"], user["user_id"])
    equal(error(server.post("/api/v1/keys", {"user": "a", "user_id": "a"}, key=key)), (400, "invalid"))
    listed = [[one["key_id"] for one in server.get("/api/v1/keys?%s=%s" % (name, user["id"]), key=key).json()["keys"]]
              for name in ("user", "user_id")]
    assert made["key_id"] in listed[0] and listed[0] == listed[1], listed
    for name in ("user", "user_id"):
        row = server.get("/api/v1/audit?%s=%s&limit=1" % (name, user["id"])).json()["rows"][0]
        equal((row["user_id"], row["request_id"]), (user["id"], row["request"]))


@check
def no_key_makes_a_better_one() -> None:
    user, key = make_user(["read", "run"])
    equal(error(server.post("/api/v1/keys", {"rights": ["read", "admin"]}, key=key)), (403, "forbidden"))
    equal(error(server.post("/api/v1/keys", {"user": "root"}, key=key)), (403, "forbidden"))
    read = server.post("/api/v1/keys", {"rights": ["read"]}, key=key).json()["key"]
    equal(error(server.post("/api/v1/keys", {}, key=read)), (403, "forbidden"))
    equal(server.post("/api/users/me/api-key/regenerate", key=read).status, 403)
    short = server.post("/api/v1/keys", {"expires_in": 600}, key=key).json()
    longer = server.post("/api/v1/keys", {"expires_in": 6000}, key=short["key"]).json()
    equal(longer["expires_at"], short["expires_at"])
    equal(server.post("/api/v1/keys", {}, key=short["key"]).json()["expires_at"], short["expires_at"])
    bad = server.post("/api/v1/keys", {"rights": ["everything"]}, key=key)
    equal((error(bad), bad.json()["error"]["field"]), ((400, "invalid"), "rights"))


@check
def keys_of_others_are_unknown() -> None:
    _user, key = make_user()
    other, other_key = make_user()
    theirs = server.get("/api/v1/keys", key=other_key).json()["keys"][0]["id"]
    for method in ("GET", "DELETE"):
        stranger = server.request(method, "/api/v1/keys/" + theirs, key=key)
        nobody = server.request(method, "/api/v1/keys/" + "0" * 26, key=key)
        equal((stranger.status, stranger.json()["error"]["message"]), (404, nobody.json()["error"]["message"]))
    equal(error(server.get("/api/v1/keys?all=true", key=key)), (403, "forbidden"))
    equal(error(server.get("/api/v1/keys?user=" + other["id"], key=key)), (403, "forbidden"))
    equal(server.get("/api/v1/keys/" + theirs, key=admin).json()["user"], other["id"])
    equal([k["id"] for k in server.get("/api/v1/keys?user=" + other["id"], key=admin).json()["keys"]], [theirs])
    contains([k["id"] for k in server.get("/api/v1/keys?all=true&limit=500", key=admin).json()["keys"]], theirs)
    equal(server.delete("/api/v1/keys/" + theirs, key=admin).status, 204)
    equal(server.get("/api/v1/users/me", key=other_key).status, 401)


# ---- logins --------------------------------------------------------------------------------------


@check
def logging_in_and_out() -> None:
    user, _key = make_user(password="correct horse")
    done = server.post("/api/v1/login", {"name": user["name"].upper(), "password": "correct horse"}, key="")
    equal(done.status, 200, done.text)
    login = done.json()
    equal(login["user"]["id"], user["id"])
    assert 11 * 3600 < login["expires_at"] - time.time() <= 12 * 3600
    equal(server.get("/api/v1/users/me", key=login["token"]).json()["known_by"], "token")
    equal(server.post("/api/v1/logout", key=login["token"]).status, 204)
    equal(server.get("/api/v1/users/me", key=login["token"]).status, 401)
    equal(error(server.post("/api/v1/logout", key=admin)), (409, "conflict"))
    equal([r["outcome"] for r in rows(what="login", object=user["name"])], ["ok"])
    assert login["token"] not in server.log_text() and "correct horse" not in server.log_text()


@check
def wrong_logins_tell_nothing() -> None:
    user, _key = make_user(password="correct horse")
    plain, _key = make_user()  # without a password
    replies = []
    for who in (user["name"], plain["name"], "nobody-at-all"):
        began = time.monotonic()
        replies.append(server.post("/api/v1/login", {"name": who, "password": "wrong horse"}, key=""))
        assert time.monotonic() - began > 0.02, "no work was done"
    equal([error(r) for r in replies], [(401, "unauthorized")] * 3)
    equal(len({r.json()["error"]["message"] for r in replies}), 1)
    equal({r.header("www-authenticate") for r in replies}, {"Bearer"})
    equal(error(server.post("/api/v1/login", {"name": "x", "password": "y", "more": 1}, key="")), (400, "invalid"))


@check
def one_changes_ones_own_password() -> None:
    user, key = make_user(password="correct horse")
    login = server.post("/api/v1/login", {"name": user["name"], "password": "correct horse"}, key="").json()["token"]
    path = "/api/v1/users/me/password"
    equal(error(server.put(path, {"old": "wrong horse", "new": "another horse"}, key=login)), (403, "forbidden"))
    equal(error(server.put(path, {"old": "correct horse", "new": "short"}, key=login)), (400, "invalid"))
    equal(server.put(path, {"old": "correct horse", "new": "another horse"}, key=login).status, 204)
    equal(server.get("/api/v1/users/me", key=login).status, 401)  # all logins end
    equal(server.get("/api/v1/users/me", key=key).status, 200)
    equal(server.post("/api/v1/login", {"name": user["name"], "password": "another horse"}, key="").status, 200)
    _plain, key = make_user()
    equal(error(server.put(path, {"old": "correct horse", "new": "another horse"}, key=key)), (409, "conflict"))


@check
def a_client_that_leaves_while_a_password_is_checked_does_no_harm() -> None:
    user, _key = make_user(password="correct horse")
    body = b'{"name":"%s","password":"correct horse"}' % user["name"].encode()
    for _ in range(8):
        with server.raw() as s:
            s.sendall(b"POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
                      % (len(body), body))
            time.sleep(0.01)
    equal(server.post("/api/v1/login", {"name": user["name"], "password": "correct horse"}, key="").status, 200)


# ---- the routes of document 004 (mcp-sandbox) --------------------------------------------------------------------


@check
def an_account_of_the_document() -> None:
    made = register()
    equal(set(made), {"email", "username", "id", "created_at", "is_active", "api_key"})
    equal((made["email"], made["is_active"]), (made["username"] + "@example.org", True))
    twice = {"username": made["username"], "email": "x@example.org", "password": "p"}
    equal(server.post("/api/register", twice, key="").detail(), "Username already registered")
    twice = {"username": name("reg"), "email": made["email"], "password": "p"}
    reply = server.post("/api/register", twice, key="")
    equal((reply.status, reply.detail()), (400, "Email already registered"))
    flaw = server.post("/api/register", {"username": "x", "email": "no address", "password": "p"}, key="")
    equal((flaw.status, flaw.json()["detail"][0]["loc"]), (422, ["body", "email"]))
    assert "secretish" not in server.post("/api/register", {"password": "secretish"}, key="").text
    got = token(made["username"])
    equal((got.status, set(got.json()), got.json()["token_type"]), (200, {"access_token", "token_type"}, "bearer"))
    bearer = got.json()["access_token"]
    equal(server.get("/api/users/me", key=bearer).json(), {**made, "api_key": None})
    equal(server.get("/api/users/me", key=made["api_key"]).json(), made)
    wrong = token(made["username"], "wrong")
    equal((wrong.status, wrong.detail()), (401, "Incorrect username or password"))
    equal(token("", "").status, 422)


@check
def the_key_of_the_document() -> None:
    made = register()
    bearer = token(made["username"]).json()["access_token"]
    equal(server.get("/api/users/me/api-key", key=made["api_key"]).json(), {"api_key": made["api_key"]})
    hidden = server.get("/api/users/me/api-key", key=bearer).json()
    equal((hidden["api_key"], hidden["prefix"]), (None, made["api_key"][:11]))
    fresh = server.post("/api/users/me/api-key/regenerate", key=bearer).json()["api_key"]
    assert fresh != made["api_key"]
    equal(server.get("/api/users/me/api-key", key=fresh).json(), {"api_key": fresh})
    old = server.get("/api/users/me", key=made["api_key"])
    equal((old.status, old.detail()), (401, "Could not validate credentials"))
    equal(server.get("/api/users/me", headers={"X-API-Key": fresh}, key="").status, 200)
    equal(server.get("/api/users/me?api_key=" + fresh, key="").status, 200)
    assert fresh not in server.log_text()
    server.patch("/api/v1/users/" + made["id"], {"disabled": True}, key=admin)
    inactive = server.get("/api/users/me", key=fresh)
    equal((inactive.status, inactive.detail()), (400, "Inactive user"))
    inactive = token(made["username"])
    equal((inactive.status, inactive.detail()), (400, "Inactive user"))


@check
def the_sandboxes_of_the_document() -> None:
    made, other = register(), register()
    key = made["api_key"]
    path = "/api/users/me/sandboxes"
    equal(server.get(path, key=key).json(), {"sandboxes": []})
    one = server.post(path, {}, key=key).json()
    equal((set(one), one["name"], one["user_id"]),
          ({"id", "user_id", "name", "created_at", "docker_container_id"}, "Sandbox 1", made["id"]))
    two = server.post(path, {"name": "mine"}, key=key).json()
    equal(server.post(path, {}, key=key).json()["name"], "Sandbox 3")
    equal([s["name"] for s in server.get(path, key=key).json()["sandboxes"]], ["Sandbox 3", "mine", "Sandbox 1"])
    equal(server.get(path + "/" + two["id"], key=key).json(), two)
    for method in ("GET", "DELETE"):
        stranger = server.request(method, path + "/" + two["id"], key=other["api_key"])
        equal((stranger.status, stranger.detail()), (404, "Sandbox not found"))
    equal(server.delete(path + "/" + two["id"], key=key).json(), {"message": "Sandbox deleted successfully"})
    equal(server.delete(path + "/" + two["id"], key=key).status, 404)


@check
def the_document_deletes_no_default_sandbox() -> None:
    key, path = register()["api_key"], "/api/users/me/sandboxes/"
    files = "/api/v1/sandboxes/default/files/kept.txt"
    equal(server.put(files, b"kept", key=key).status, 201)
    by_id = server.get(path + "default", key=key).json()["id"]
    for name in ("default", by_id):
        equal(server.delete(path + name, key=key).status, 409)
    equal((server.get(path + "default", key=key).json()["id"], server.get(files, key=key).body), (by_id, b"kept"))


# ---- audit ---------------------------------------------------------------------------------------


@check
def each_user_reads_their_own_rows() -> None:
    user, key = make_user()
    for i in range(5):
        server.post("/api/v1/keys", {"name": "k%d" % i}, key=key)
    mine, after = [], ""
    while after is not None:
        page = server.get("/api/v1/audit?what=key.create&limit=2" + ("&after=" + after if after else ""),
                          key=key).json()
        mine += page["rows"]
        after = page["next"]
        assert after is None or len(after) == 16, after
    equal(len(mine), 5)
    equal({(r["user"], r["id"]) for r in mine}, {(user["id"], None)})
    equal(error(server.get("/api/v1/audit?user=root", key=key)), (403, "forbidden"))
    equal(error(server.get("/api/v1/audit?after=12", key=key)), (400, "invalid"))
    everything = rows(user=user["id"], what="key.create")
    equal([r["at"] for r in everything], [r["at"] for r in mine])
    assert all(isinstance(r["id"], int) for r in everything)


@check
def the_audit_log_is_filtered() -> None:
    user, key = make_user()
    made = server.post("/api/v1/keys", {}, key=key, headers={"X-Request-ID": "my-request-1"}).json()
    equal([r["what"] for r in rows(request="my-request-1", what="key.create")], ["key.create"])
    equal([r["what"] for r in rows(object=made["id"])], ["key.create"])
    at = rows(object=made["id"])[0]["at"]
    equal(len(rows(object=made["id"], since="%.6f" % at)), 1)
    equal(rows(object=made["id"], until="%.6f" % at), [])
    equal(rows(user=user["id"], outcome="nonesuch"), [])
    equal(error(server.get("/api/v1/audit?nonesuch=1", key=admin)), (400, "invalid"))


# ---- last: what leaves this address throttled ----------------------------------------------------


@check
def wrong_passwords_are_throttled() -> None:
    user, key = make_user(password="correct horse")
    known, _ = make_user(password="correct donkey")
    equal(server.post("/api/v1/login", {"name": known["name"], "password": "correct donkey"}, key="").status, 200)
    replies = [server.post("/api/v1/login", {"name": user["name"], "password": "wrong horse"}, key="")
               for _ in range(12)]
    assert replies[-1].status == 429, replies[-1].text
    assert 1 <= int(replies[-1].header("retry-after")) <= 12
    equal(error(server.post("/api/v1/login", {"name": user["name"], "password": "correct horse"}, key="")),
          (429, "too_many"))
    equal(token("somebody-else").status, 429)
    # who has logged in from here before is not locked out by the others' failures, but by own ones
    equal(server.post("/api/v1/login", {"name": known["name"], "password": "correct donkey"}, key="").status, 200)
    equal(server.post("/api/v1/login", {"name": known["name"], "password": "wrong"}, key="").status, 401)
    equal(server.get("/api/v1/users/me", key=key).status, 200)
    contains(server.get("/metrics", key=admin).text, 'krait_auth_failures_total{reason="password"}')


@check
def registrations_are_throttled() -> None:
    for _ in range(12):
        user = name("reg")
        done = server.post("/api/register", {"username": user, "email": user + "@example.org", "password": "p"}, key="")
    equal(done.status, 429, done.text)


@check
def registration_is_closed_unless_allowed() -> None:
    with Server(args=["--require-auth"]) as closed:
        done = closed.post("/api/register", {"username": "a", "email": "a@example.org", "password": "p"}, key="")
        equal(done.status, 403, done.text)
        contains(done.json()["detail"], "Registration is not open")


def start() -> None:
    global server, admin
    server = Server(args=["--require-auth", "--allow-registration"])
    server.__enter__()
    admin = subprocess.run([os.path.abspath(KRAIT), "keys", "create", "--data", os.path.join(server.data, "data")],
                           check=True, capture_output=True, text=True, timeout=30).stdout.strip()
    server.key = admin


@check
def every_reply_was_as_published() -> None:
    equal(server.problems, [])


if __name__ == "__main__":
    start()
    try:
        main()
    finally:
        server.close(check=False)
