#!/usr/bin/python3
"""SIGHUP reads the settings again: what can change does, what cannot is named, and a wrong file changes nothing.

Each check gives a setting two values in the file and sees the difference in the same process, whose session and
variables stay."""
from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests/lib")]
from check import check, contains, equal, main, skip  # noqa: E402
from krait_server import Server  # noqa: E402
from serving import eventually  # noqa: E402
from two_values import KEY, OTHER_KEY, RUNS, run  # noqa: E402

ENDS = ("settings read again", "settings stay as they are")


class Reloading:
    """A server with a file of settings, and what its log said of each new reading."""

    def __init__(self, text: str, args: tuple[str, ...] = (), name: str = "krait.toml", **more):
        self.folder = tempfile.TemporaryDirectory(prefix="krait-test-")
        self.path = Path(self.folder.name, name)
        self.write(text)
        flag = "--config" if name.endswith(".toml") else "--env-file"
        self.server = Server(args=[flag, str(self.path), *args], **more)

    def write(self, text: str) -> None:
        """As editors do: a new file under the old name, which only the user who starts the server can read."""
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.chmod(0o600)
        new.replace(self.path)

    def __enter__(self) -> Reloading:
        self.server.__enter__()
        return self

    def __exit__(self, *what) -> None:
        self.server.__exit__(*what)
        self.folder.cleanup()

    def ends(self) -> list[str]:
        return [line for line in self.server.log_text().splitlines() if any(end in line for end in ENDS)]

    def reload(self, text: str) -> tuple[set[str], set[str], str]:
        """What changed, what needs a restart, and what was wrong."""
        before = len(self.ends())
        self.write(text)
        self.server.process.send_signal(signal.SIGHUP)
        eventually(lambda: len(self.ends()) > before, 30, "a line about the settings")
        self.server.get("/health")  # a request later: what belongs to the reload is in the log
        line = self.ends()[before]
        told = self.server.log_text()
        told = told[told.rindex(line):]
        wrong = re.search(r'error="(.*?)"$', line)
        return set(names(line)), set(names(told, "need a restart")), wrong.group(1) if wrong else ""


def names(text: str, marker: str = "settings read again") -> Iterator[str]:
    for line in text.splitlines():
        found = re.search(r'changed="([^"]*)"', line)
        if marker in line and found:
            yield from found.group(1).split()


def limits(s: Server) -> dict:
    return s.get("/api/v1/info").json()["defaults"]["limits"]


@check
def limits_change_for_new_sessions_and_live_ones_go_on():
    with Reloading('[limits]\ntimeout = "20s"\nopen_files = 64\n') as r:
        s = r.server
        code = "import resource; resource.getrlimit(resource.RLIMIT_NOFILE)[0]"
        equal(s.run("x = 1\n" + code)["result"], "64")
        equal(r.reload('[limits]\ntimeout = "25s"\nopen_files = 96\n'),
              ({"limits.timeout", "limits.open_files"}, set(), ""))
        equal((limits(s)["timeout"], limits(s)["open_files"]), (25, 96))
        one = s.run("assert x == 1\n" + code)
        equal((one["result"], one["session_restarted"]), ("64", False))  # it was opened with them
        equal(s.run(code, session="new")["result"], "96")
        equal(r.reload('[limits]\ntimeout = "25s"\nopen_files = 96\n'), (set(), set(), ""))  # nothing is different


@check
def a_ceiling_moves_below_that_of_the_start_alone():
    with Reloading('[limits]\nmax_timeout = "60s"\n') as r:
        s = r.server
        asked = {"code": "1", "stream": False, "timeout": 40}
        equal(s.post(RUNS, asked).status, 200)
        equal(r.reload('[limits]\nmax_timeout = "30s"\n')[0] & {"limits.max_timeout"}, {"limits.max_timeout"})
        equal(s.post(RUNS, asked).status, 400)
        changed, waiting, _ = r.reload('[limits]\nmax_timeout = "90s"\nmax_open_files = 1000\n')
        equal((changed, "limits.max_timeout" in waiting), ({"limits.max_open_files"}, True))
        equal(s.post(RUNS, asked).status, 400)  # the warden gives no more than it was told at the start
        changed, waiting, _ = r.reload('[limits]\nmax_timeout = "60s"\n')
        equal(("limits.max_timeout" in changed, waiting), (True, set()))
        equal(s.post(RUNS, asked).status, 200)


@check
def the_document_tells_the_bounds_of_now():
    def told(s: Server) -> "tuple[float, float, str]":
        reply = s.get("/openapi.json")
        schemas = reply.json()["components"]["schemas"]
        return (schemas["RunRequest"]["properties"]["timeout"]["maximum"],
                schemas["LinkRequest"]["properties"]["expires_in"]["maximum"], reply.headers["etag"])

    with Reloading('[limits]\nmax_timeout = "60s"\n[auth]\nlink_ttl = "1h"\n') as r:
        before = told(r.server)
        r.reload('[limits]\nmax_timeout = "30s"\n[auth]\nlink_ttl = "2m"\n')
        after = told(r.server)
        equal((before[:2], after[:2]), ((60, 3600), (30, 120)))
        assert before[2] != after[2], "one ETag for two documents"
        equal(told(r.server), after)


@check
def the_log_level_changes():
    with Reloading('[log]\nlevel = "info"\n') as r:
        run(r.server, "secret_of_mine = 1")
        equal("secret_of_mine" in r.server.log_text(), False)
        equal(r.reload('[log]\nlevel = "debug"\n'), ({"log.level"}, set(), ""))
        run(r.server, "secret_of_mine = 2")
        eventually(lambda: "secret_of_mine" in r.server.log_text(), 30, "code in the log at level debug")


def who_may(s: Server) -> list[int]:
    return [s.get(RUNS, headers={"Authorization": "Bearer " + key}).status for key in (KEY, OTHER_KEY)]


@check
def another_key_takes_the_place_of_the_first():
    with Reloading("KRAIT_API_KEY=%s\n" % KEY, name="krait.env", key=KEY) as r:
        equal(who_may(r.server), [200, 401])
        equal(r.reload("KRAIT_API_KEY=%s\n" % OTHER_KEY), ({"auth.api_key"}, set(), ""))
        equal(who_may(r.server), [401, 200])
        for key in (KEY, OTHER_KEY):
            assert key not in r.server.log_text()
        equal(r.reload("\n")[:2], (set(), {"auth.api_key"}))  # no key at all is not for a server that runs
        equal(who_may(r.server), [401, 200])


@check
def a_key_in_a_file_of_its_own_is_read_again():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "key")
        path.write_text(KEY + "\n")
        path.chmod(0o600)
        text = '[auth]\napi_key_file = "%s"\n' % path
        with Reloading(text, key=KEY) as r:
            equal(who_may(r.server), [200, 401])
            path.write_text(OTHER_KEY + "\n")
            equal(r.reload(text), ({"auth.api_key"}, set(), ""))
            equal(who_may(r.server), [401, 200])


@check
def what_the_server_s_user_can_choose_is_not_read_for_it():
    """As root. A server that was taken over puts a link where its key is read from; a link of root's is followed."""
    if os.geteuid() != 0:
        skip("needs root: another user's server has that user's files anyway")
    with tempfile.TemporaryDirectory() as folder:
        key, place = Path(folder, "key"), Path(folder, "place")
        key.write_text(KEY + "\n")
        key.chmod(0o600)
        place.mkdir()
        path = place / "key"
        path.symlink_to(key)
        text = '[auth]\napi_key_file = "%s"\n' % path
        with Reloading(text, key=KEY) as r:
            uid = os.stat("/proc/%d" % r.server.server_pid()).st_uid
            equal(uid == 0, False, "runs as root")
            key.write_text(OTHER_KEY + "\n")
            equal(r.reload(text), ({"auth.api_key"}, set(), ""))
            equal(who_may(r.server), [401, 200])
            key.write_text(KEY + "\n")
            for owned in (path, place, key):
                os.chown(owned, uid, uid, follow_symlinks=False)
                changed, _waiting, wrong = r.reload(text)
                equal((changed, "uid %d" % uid in wrong, str(path) in wrong), (set(), True, True), wrong)
                os.chown(owned, 0, 0, follow_symlinks=False)
            place.chmod(0o777)
            equal("can write it" in r.reload(text)[2], True)
            place.chmod(0o1777)  # in a sticky folder root's link stays root's
            equal(r.reload(text), ({"auth.api_key"}, set(), ""))
            equal(who_may(r.server), [200, 401])
            os.chown(r.folder.name, uid, uid)
            equal(str(r.path) in r.reload(text)[2], True)
            os.chown(r.folder.name, 0, 0)


@check
def runs_of_a_minute_change():
    with Reloading("\n") as r:
        s = r.server
        for _ in range(3):
            run(s, "1")
        equal(r.reload("[users]\nruns_per_minute = 1\n"), ({"users.runs_per_minute"}, set(), ""))
        told = [s.post(RUNS, {"code": "1", "stream": False}).status for _ in range(2)]
        equal(told, [200, 429])
        r.reload("\n")
        equal(s.post(RUNS, {"code": "1", "stream": False}).status, 200)


@check
def bodies_links_and_retention_change():
    with Reloading('[http]\nmax_body = "64K"\n') as r:
        s = r.server
        large = {"code": "#" * 100000, "stream": False}
        equal(s.post(RUNS, large).status, 413)
        text = '[http]\nmax_body = "1M"\n[auth]\nlink_ttl = "60s"\n[data]\nretention = "1h"\n'
        equal(r.reload(text), ({"http.max_body", "auth.link_ttl", "data.retention"}, set(), ""))
        equal(s.post(RUNS, large).status, 200)
        equal(s.get("/api/v1/info").json()["bounds"]["retention"], 3600)


@check
def what_cannot_change_is_named_and_stays():
    with Reloading('[sessions]\npool_size = 1\n') as r:
        text = '[server]\nhost = "127.0.0.2"\n[sessions]\npool_size = 3\n[http]\ncors_origins = ["https://a.example"]\n'
        equal(r.reload(text), (set(), {"server.host", "sessions.pool_size", "http.cors_origins"}, ""))
        equal(r.server.get("/ready").status, 200)
        size = re.search(r'krait_pool_size\{[^}]*\} (\d+)', r.server.get("/metrics").text)
        equal(size.group(1) if size else None, "1")


@check
def a_wrong_file_changes_nothing_and_its_line_is_named():
    good = '[limits]\ntimeout = "20s"\n'
    with Reloading(good) as r:
        for text, said in (('[limits]\ntimeout = "30s"\nmemmory = "1G"\n', "krait.toml:3: unknown key 'memmory'"),
                           ('[limits]\ntimeout = "30s"\n[log]\nlevel = "loud"\n', "krait.toml:4"),
                           ('[limits\n', "krait.toml:1")):
            changed, waiting, wrong = r.reload(text)
            equal((changed, waiting), (set(), set()))
            contains(wrong, said)
            equal(limits(r.server)["timeout"], 20)
        r.path.unlink()
        before = len(r.ends())
        r.server.process.send_signal(signal.SIGHUP)
        eventually(lambda: len(r.ends()) > before, 30, "a line about the file that is gone")
        contains(r.ends()[-1], "No such file")
        equal(r.reload('[limits]\ntimeout = "30s"\n'), ({"limits.timeout"}, set(), ""))  # and the next one counts


@check
def options_come_before_the_file_as_at_the_start():
    with Reloading('[limits]\ntimeout = "20s"\n', args=("--timeout", "15s")) as r:
        equal(r.reload('[limits]\ntimeout = "30s"\n'), (set(), set(), ""))
        equal(limits(r.server)["timeout"], 15)


@check
def many_signals_leave_no_process():
    with Reloading('[limits]\ntimeout = "20s"\n') as r:
        for i in range(50):
            r.write('[limits]\ntimeout = "%ds"\n' % (21 + i))
            r.server.process.send_signal(signal.SIGHUP)
        eventually(lambda: limits(r.server)["timeout"] == 70, 30, "the last value")
        pid = r.server.process.pid

        def zombies() -> list[str]:
            found = []
            for child in Path("/proc/%d/task/%d/children" % (pid, pid)).read_text().split():
                state = Path("/proc", child, "stat").read_text().rsplit(")", 1)[1].split()[0]
                found += [child] if state == "Z" else []
            return found
        eventually(lambda: not zombies(), 30, "children of the warden are reaped")
        equal(run(r.server, "1 + 1")["result"], "2")


if __name__ == "__main__":
    os.umask(0o022)
    main()
