#!/usr/bin/python3
"""Jobs: a user's deletion goes on without its client, and after a restart when the server was killed in the middle of
it."""
import contextlib
import http.client
import json
import os
import signal
import sqlite3
import sys
import tempfile
import threading
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib")]
from check import check, equal, main
from krait_server import Server
from serving import eventually

KEY = "an-administrators-key-of-the-tests"
RUNS = 60_000  # rows: seconds of deleting


def again(data: str) -> Server:
    return Server(data=data, env={"API_KEY": KEY}, args=["--require-auth"], key=KEY)


def db(data: str, sql: str, *values) -> list:
    with contextlib.closing(sqlite3.connect(os.path.join(data, "data/krait.db"), timeout=30)) as base, base:
        return base.execute(sql, values).fetchall()


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory(prefix="krait-test-") as path:
        os.chmod(path, 0o755)
        yield path


def runs_left(data: str, user: str) -> int:
    return db(data, "SELECT count(*) FROM runs WHERE owner = ?", user)[0][0]


def make_user(data: str) -> str:
    """A user with a sandbox, a file and RUNS runs; no server is left."""
    with again(data) as s:
        made = s.post("/api/v1/users", {"name": "worker"})
        equal(made.status, 201, made.text)
        user = made.json()["id"]
        key = s.post("/api/v1/keys", {"user": user}).json()["key"]
        equal(s.request("PUT", "/api/v1/sandboxes/default/files/a.txt", b"x", key=key).status, 201)
        equal(s.stop(), 0)
    now = time.time_ns() // 1000  # retention leaves them alone
    with contextlib.closing(sqlite3.connect(os.path.join(data, "data/krait.db"))) as base, base:
        base.executemany(
            "INSERT INTO runs (id, owner, sandbox, session, code, holder, started, ended, cause, size) "
            "VALUES (?, ?, '', '', 'pass', 1, ?, ?, 'ok', 500)",
            (("%026d" % i, user, now + i, now + i) for i in range(RUNS)))
    return user


def kill(s: Server) -> None:
    os.kill(s.server_pid(), signal.SIGKILL)
    os.kill(s.process.pid, signal.SIGKILL)
    s.process.wait()
    s.process.stdout.close()


def ask_to_delete(s: Server, user: str) -> threading.Thread:
    def ask():
        with contextlib.suppress(OSError, http.client.HTTPException):
            s.delete("/api/v1/users/" + user)

    thread = threading.Thread(target=ask)
    thread.start()
    return thread


def interrupt_a_deletion(data: str, user: str) -> None:
    """The server is killed when some of the user's runs are gone, and some are not."""
    s = again(data).start()
    thread = ask_to_delete(s, user)
    eventually(lambda: runs_left(data, user) < RUNS, 30, "the deletion began")
    kill(s)
    thread.join()
    left = runs_left(data, user)
    assert 0 < left < RUNS, left
    (row,) = db(data, "SELECT kind, subject, owner, attempt, ended FROM jobs")
    equal(row, ("user.delete", user, "root", 1, None))


def audited(s: Server, user: str) -> list:
    rows = s.get("/api/v1/audit?limit=100&what=user.delete").json()["rows"]
    return [row["outcome"] for row in rows if row["object"] == user]


@check
def a_deletion_that_was_killed_is_completed_by_the_next_start() -> None:
    with folder() as data:
        user = make_user(data)
        interrupt_a_deletion(data, user)
        with again(data) as s:
            eventually(lambda: s.get("/api/v1/users/" + user).status == 404, 60, "the user is gone")
            eventually(lambda: db(data, "SELECT ended IS NOT NULL FROM jobs") == [(1,)], 5, "the job has ended")
            equal(db(data, "SELECT cause, attempt, text, total FROM jobs"), [("ok", 2, "runs deleted", 0)])
            equal(runs_left(data, user), 0)
            equal(db(data, "SELECT count(*) FROM sandboxes WHERE owner = ?", user), [(0,)])
            eventually(lambda: audited(s, user) == ["ok"], 5, "one row of the audit log: %s" % audited(s, user))
            equal(s.stop(), 0)
        with again(data) as s:  # a third start has nothing to do
            equal(db(data, "SELECT cause, attempt FROM jobs"), [("ok", 2)])
            equal(s.stop(), 0)


@check
def control_without_its_job_the_user_stays_half_deleted() -> None:
    with folder() as data:
        user = make_user(data)
        interrupt_a_deletion(data, user)
        db(data, "DELETE FROM jobs")
        left = runs_left(data, user)
        with again(data) as s:
            time.sleep(3)
            equal(runs_left(data, user), left)
            found = s.get("/api/v1/users/" + user)
            equal(found.status, 200)
            assert found.json()["disabled_at"], found.text
            equal(s.delete("/api/v1/users/" + user).status, 204)  # it can be asked for again
            equal(runs_left(data, user), 0)
            equal(s.stop(), 0)


@check
def a_job_that_cannot_be_continued_is_ended_as_lost() -> None:
    with folder() as data:
        user = make_user(data)
        interrupt_a_deletion(data, user)
        db(data, "UPDATE jobs SET kind = 'nonesuch'")
        with again(data) as s:
            equal(db(data, "SELECT cause, ended IS NOT NULL FROM jobs"), [("lost", 1)])
            equal(s.get("/api/v1/users/" + user).status, 200)
            equal(s.stop(), 0)


@check
def a_deletion_goes_on_when_its_client_has_left_and_over_a_graceful_stop() -> None:
    with folder() as data:
        user = make_user(data)
        with again(data) as s:
            left = http.client.HTTPConnection("127.0.0.1", s.port)
            left.request("DELETE", "/api/v1/users/" + user, headers={"Authorization": "Bearer " + KEY})
            eventually(lambda: runs_left(data, user) < RUNS, 30, "the deletion began")
            left.close()
            equal(s.stop(), 0)
            some = runs_left(data, user)
            assert 0 < some < RUNS, some
        with again(data) as s:
            eventually(lambda: s.get("/api/v1/users/" + user).status == 404, 60, "the user is gone")
            eventually(lambda: db(data, "SELECT cause, attempt FROM jobs") == [("ok", 2)], 5, "the job has ended")
            equal(s.stop(), 0)


@check
def jobs_are_listed_read_and_followed_by_their_owner() -> None:
    with folder() as data, again(data) as s:
        worker, other = (s.post("/api/v1/users", {"name": name}).json()["id"] for name in ("worker", "other"))
        others_key = s.post("/api/v1/keys", {"user": other}).json()["key"]
        equal(s.get("/api/v1/jobs").json(), {"jobs": [], "next": None})
        equal(s.delete("/api/v1/users/" + worker).status, 204)
        (job,) = s.get("/api/v1/jobs").json()["jobs"]
        equal((job["kind"], job["subject"], job["cause"], job["still_running"]), ("user.delete", worker, "ok", False))
        assert "result" not in job, job
        path = "/api/v1/jobs/" + job["job_id"]
        equal(s.get(path).json(), dict(job, result=None))
        lines = [json.loads(line) for line in s.get(path + "/events").text.splitlines()]
        equal((lines[0]["type"], lines[0]["kind"], lines[-1]["type"], lines[-1]["cause"]),
              ("started", "user.delete", "end", "ok"))
        rest = s.get(path + "/events?from=%d" % lines[-1]["seq"]).text.splitlines()
        equal([json.loads(line) for line in rest], lines[-1:])
        events = s.request("GET", path + "/events", headers={"Accept": "text/event-stream",
                                                             "Last-Event-ID": str(lines[-1]["seq"] - 1)})
        assert events.text.startswith("id: %d\nevent: end\n" % lines[-1]["seq"]) or \
            events.text.startswith("event: end\nid: %d\n" % lines[-1]["seq"]), events.text
        for refused in (s.post(path + "/cancel"), s.delete(path)):
            equal((refused.status, refused.json()["error"]["kind"]), (409, "conflict"))
        for method, theirs in (("GET", path), ("GET", path + "/events"), ("POST", path + "/cancel"), ("DELETE", path)):
            equal(s.request(method, theirs, key=others_key).status, 404, theirs)
        equal(s.request("GET", "/api/v1/jobs", key=others_key).json()["jobs"], [])
        equal(s.stop(), 0)


if __name__ == "__main__":
    main()
