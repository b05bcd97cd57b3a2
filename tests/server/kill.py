#!/usr/bin/python3
"""SIGKILL of server, warden and zygote at random moments under load, KILLS times on one data directory.

Clients create sandboxes, change and delete them, upload files, run code and follow streams. A model keeps what was
acknowledged; a request that was under way when the kill came may have happened or not, but nothing in between. After
each kill what is left of the processes is looked for (this program is their subreaper, so an orphan is found below it),
the store is checked on a copy, krait is started again, and everything acknowledged must be there. KR_SEED repeats a
sequence of kills.
"""
import glob
import os
import re
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests/lib"), str(ROOT / "tests/server/lib")]
from check import check, main, skip  # noqa: E402
from clients import ZYGOTE_S, Box, Clients, digest  # noqa: E402
from krait_server import Server  # noqa: E402
from processes import become_subreaper, below, cgroups_of, leftovers, roles, stat_of, wait_for_none  # noqa: E402

SEED = int(os.environ.get("KR_SEED", "0")) or int.from_bytes(os.urandom(4), "big")
KILLS = int(os.environ.get("KR_KILLS", "50"))
SHELF = os.environ.get("KR_SHELF", "folder")  # server/kill_image.py: "image"
# Shares of the kills. "start": the warden or the server while krait starts; "both": warden and server at once.
VICTIMS = {"server": 15, "warden": 13, "zygote": 12, "both": 4, "start": 6}
GONE_S = 20.0  # until when processes must have ended
START_S = 30.0  # and five times the usual, whichever is more
WRITTEN_S = 3.0  # what a run said so long ago is in its log's file


class Storm(Clients):
    """One data directory, one server after the other, and the kills."""

    def __init__(self) -> None:
        super().__init__(SEED)
        self.folder = tempfile.mkdtemp(prefix="krait-kill-")
        os.chmod(self.folder, 0o755)
        self.temp = os.path.join(self.folder, "tmp")
        os.mkdir(self.temp)
        os.chmod(self.temp, 0o1777)
        self.data = os.path.join(self.folder, "data")
        self.killed_before = 0.0  # when the life before this one ended
        self.cgroups: set = set()
        self.folders: set = set()  # that sandboxes had when the store was last looked at
        self.usual_s = self.slowest_s = self.slowest_zygote_s = 0.0

    # ---- life ----

    def make(self) -> Server:
        return Server(args=["--log-level", "warn", "--max-sandboxes-per-user", "1000"], data=self.folder,
                      validate=False, env={"TMPDIR": self.temp}, shelf=SHELF)

    def start(self) -> float:
        began = time.monotonic()
        self.server = self.make()
        self.server.start()
        self.killed_before, self.killed_at = self.killed_at, 0.0
        return time.monotonic() - began

    # ---- kills ----

    def kill(self, victim: str) -> None:
        """At some moment of the load. Sets killed_at first, so that no client is surprised."""
        self.victim = victim
        warden = self.server.process.pid
        time.sleep(self.random.uniform(0.02, 0.9) if self.random.random() < 0.8
                   else self.random.uniform(WRITTEN_S, 2.2))
        self.cgroups |= cgroups_of([warden, *below(warden)])
        # On a busy machine a process can end between the look and the signal (a zygote that has forked enough, a server
        # that follows its warden): look again. Only the warden's own end, which would have no cause, is a failure.
        deadline = time.monotonic() + GONE_S
        while True:
            found = roles(warden)
            pids = {"both": found["warden"] + found["server"]}.get(victim) or found[victim]
            with self.model.lock:
                self.under_way = set(self.model.open)
            self.killed_at = time.monotonic()
            try:
                for pid in pids if victim == "both" else pids and [self.random.choice(pids)]:
                    os.kill(pid, signal.SIGKILL)
                if pids:
                    return
            except ProcessLookupError:
                if victim == "both" and pid != warden:  # the server may be faster: it ends with its warden
                    return
            if self.server.process.poll() is not None or time.monotonic() > deadline:
                self.wrong("answers",
                           f"no {victim} to kill in the tree: {found}, krait's status is {self.server.process.poll()}")
                return
            time.sleep(0.05)

    def kill_in_start(self) -> None:
        """Before it says that it is ready."""
        self.victim = "start"
        self.server = self.make()
        starter = threading.Thread(target=self.try_start, daemon=True)
        starter.start()
        end = time.monotonic() + self.random.uniform(0, 1.2 * self.usual_s)
        while self.server.process is None or time.monotonic() < end:
            time.sleep(0.002)
        warden = self.server.process.pid
        found = roles(warden)
        self.cgroups |= cgroups_of([warden, *below(warden)])
        self.killed_at = time.monotonic()
        killed = self.random.choice(found["server"] or [warden]) if self.random.random() < 0.5 else warden
        try:
            os.kill(killed, signal.SIGKILL)
        except ProcessLookupError:
            pass
        starter.join(30)
        # A child that the warden asks something of before it starts the server looks like the server. The start goes on
        # without it then, and another process is the server.
        others = [pid for pid in roles(warden)["server"] if pid != killed]
        if killed != warden and self.server.process.poll() is None and others:
            self.killed_at = time.monotonic()
            os.kill(others[0], signal.SIGKILL)

    def try_start(self) -> None:
        try:
            self.server.start()
        except RuntimeError:
            pass

    def after_death(self) -> None:
        """Everything has gone by itself; the store is whole."""
        try:
            self.server.process.wait(GONE_S)
        except Exception:
            self.wrong("orphans", f"the warden lives {GONE_S} s after a kill of {self.victim}")
        left = wait_for_none(GONE_S)
        if left:
            self.wrong("orphans", f"after a kill of {self.victim}: {left[:8]}")
            for pid, _name in left:
                os.kill(pid, signal.SIGKILL)
            wait_for_none(GONE_S)
        self.server.process.wait(10)
        self.server.process.stdout.close()
        text = self.server.log_text()
        if "Sanitizer" in text or "runtime error" in text:
            self.wrong("answers", f"after a kill of {self.victim}: {text[-1500:]}")
        self.check_store()

    def check_store(self) -> None:
        copy = os.path.join(self.folder, "copy")
        os.mkdir(copy)
        for one in glob.glob(os.path.join(self.data, "krait.db*")):
            if not one.endswith("-shm"):
                shutil.copy(one, copy)
        try:
            db = sqlite3.connect(os.path.join(copy, "krait.db"))
            whole = db.execute("PRAGMA integrity_check").fetchall()
            if whole != [("ok",)]:
                self.wrong("store", f"integrity_check: {whole[:5]}")
            loose = db.execute("PRAGMA foreign_key_check").fetchall()
            if loose:
                self.wrong("store", f"foreign_key_check: {loose[:5]}")
            self.folders = {row[0] for row in db.execute("SELECT folder FROM sandboxes")}
            db.close()
            self.count("stores checked")
        except sqlite3.Error as e:
            self.wrong("store", f"{e}")
        shutil.rmtree(copy)

    # ---- what must be there ----

    def verify(self, everything: bool = False) -> None:
        self.verify_boxes()
        self.verify_files(everything)
        self.verify_runs()
        self.verify_sessions()
        self.verify_host()

    def listed(self, path: str, member: str) -> list:
        found, after = [], ""
        while True:
            page = self.server.get(f"{path}{'&' if '?' in path else '?'}limit=100{after}").json()
            found += page[member]
            if not page["next"]:
                return found
            after = f"&after={page['next']}"

    def verify_boxes(self) -> None:
        there = {one["id"]: one for one in self.listed("/api/v1/sandboxes", "sandboxes")}
        for box in self.model.boxes.values():
            one = there.pop(box.id, None)
            if (one is not None) not in box.there:
                self.wrong("sandboxes", f"{box.id} is {'there' if one else 'gone'}")
            box.there = {one is not None}
            if one is None:
                continue
            self.count("sandboxes found")
            if one["name"] not in box.names:
                self.wrong("sandboxes", f"{box.id} is called {one['name']}, not {box.names}")
            seen = [s for s in box.settings if self.same_settings(one, s)]
            if not seen:
                self.wrong("settings", f"{box.id}: {one['settings']}, not one of {box.settings}")
            box.names, box.settings = {one["name"]}, seen[:1] or box.settings[-1:]
        for one in there.values():  # made, but the answer did not come through
            if one["name"] in self.model.unsure:
                self.model.boxes[one["id"]] = Box(
                    one["id"], one["name"],
                    {"limits": one["settings"]["limits"], "env": {"MARK": ""}, "network": one["network"]})
            elif one["name"] != "default":
                self.wrong("sandboxes", f"{one['name']} exists, and no client made it")
        self.model.unsure.clear()

    @staticmethod
    def same_settings(one: dict, settings: dict) -> bool:
        return (one["settings"].get("limits") == settings["limits"] and one["network"] == settings["network"]
                and list(one["settings"].get("env", {})) == list(settings["env"]))

    def verify_files(self, everything: bool) -> None:
        boxes = [b for b in self.model.boxes.values() if b.there == {True}]
        self.random.shuffle(boxes)
        for box in boxes if everything else boxes[:6]:
            entries = self.listed(f"/api/v1/sandboxes/{box.id}/files?recursive=true", "files")
            there = {e["path"] for e in entries if e["type"] == "file"}
            for extra in there - set(box.files):
                self.wrong("files", f"{box.id} has {extra}, which no client wrote")
            for path, known in list(box.files.items()):
                got = None
                if path in there:
                    got = digest(self.server.get(f"/api/v1/sandboxes/{box.id}/files/{quote(path)}").body)
                if got not in known:
                    self.wrong("files", f"{box.id}/{path} is {got}, not {known}")
                box.files[path] = {got}
                self.count("files found")

    def verify_runs(self) -> None:
        for one in self.listed("/api/v1/runs?running=true", "runs"):
            self.wrong("runs", f"{one['run_id']} still runs after the restart")
        for run_id, (how, began) in list(self.model.open.items()):
            age = self.killed_before - began
            one = self.server.get(f"/api/v1/runs/{run_id}")
            if one.status != 200:
                self.wrong("runs", f"{run_id} ({how}) is unknown: {one.status}")
                continue
            if one.json()["cause"] == "ok" and how == "5 ticks":  # over, and its reader was cut before it was told
                self.verify_whole(run_id)
                continue
            if one.json()["cause"] != "lost":
                self.wrong("runs", f"{run_id} ({how}) is {one.json()['cause']}, not lost")
            self.count("runs lost")
            self.verify_log(run_id, age)
        self.model.open.clear()
        ended = list(self.model.ended.items())
        for run_id, cause in self.random.sample(ended, min(10, len(ended))):
            one = self.server.get(f"/api/v1/runs/{run_id}").json()
            if one.get("cause") != cause:
                self.wrong("runs", f"{run_id} ended as {cause} and is {one} now")
        self.model.ended.clear()

    def verify_whole(self, run_id: str) -> None:
        """The log of a run that ended by itself: all of its output, and its end."""
        reply = self.server.get(f"/api/v1/runs/{run_id}/events")
        log = reply.lines() if reply.status == 200 else []
        told = "".join(line["text"] for line in log if line["type"] == "stdout")
        if not log or log[-1].get("cause") != "ok" or told.count("tick") != 5:
            self.wrong("runs", f"{run_id} is ok, and its log is {log or reply.text}")

    def verify_log(self, run_id: str, age: float) -> None:
        """What was written of a lost run's log: without gaps, and closed. The last second of it may be missing."""
        reply = self.server.get(f"/api/v1/runs/{run_id}/events")
        if reply.status == 404 and age < WRITTEN_S:
            return
        log = reply.lines() if reply.status == 200 else []
        if not log or log[-1]["type"] != "end" or log[-1]["cause"] != "lost":
            self.wrong("runs", f"the log of {run_id}, {age:.1f} s old, ends with {log[-1:] or reply.text}")
        elif [line["seq"] for line in log] != list(range(1, len(log) + 1)):
            self.wrong("runs", f"the log of {run_id} has gaps: {[line['seq'] for line in log][:20]}")
        else:
            self.count("logs of lost runs")
            # as a client that saw more
            rest = self.server.get(f"/api/v1/runs/{run_id}/events?from={len(log) + 1000}", timeout=10)
            if rest.status != 200:
                self.wrong("runs", f"the log of {run_id} past its end answers {rest.status}")

    def verify_sessions(self) -> None:
        total = self.server.get("/api/v1/sessions").json()["total"]
        if total:
            self.wrong("sessions", f"{total} sessions right after the start")
        used = [(b, s) for b in self.model.boxes.values() if b.there == {True} for s in sorted(b.sessions)]
        for box, session in self.random.sample(used, min(2, len(used))):
            for expected in (True, False):
                told = self.server.run("'last' in globals()", sandbox_id=box.id, session_id=session)
                if told["session_restarted"] is not expected or (expected and told["result"] != "False"):
                    self.wrong("sessions",
                               f"session_restarted {told['session_restarted']}, {told['result']}: {told['cause']}")
                self.count("sessions restarted", int(expected))
        for box in self.model.boxes.values():
            box.sessions.clear()

    def verify_host(self) -> None:
        """Nothing of the dead one is left: cgroups, mounts, temporary files, folders."""
        left = leftovers(self.cgroups)
        if left:
            self.wrong("cgroups", f"{left[:4]}")
        self.count("cgroups gone", len(self.cgroups))
        self.cgroups = set()
        mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if self.folder in line]
        if mounts:
            self.wrong("mounts", f"{mounts[:2]}")
        devices = [path for path in glob.glob("/sys/block/loop*/loop/backing_file") if self.is_ours(path)]
        if len(devices) != (SHELF == "image"):
            self.wrong("mounts", f"loop devices of one image: {devices}")
        end = time.monotonic() + 20
        while (found := self.strangers()) and time.monotonic() < end:  # upkeep works in pieces
            time.sleep(0.02)
        if found:
            self.wrong("leftovers", f"after a kill of {self.victim}: {found[:5]}")

    def is_ours(self, path: str) -> bool:
        try:
            return Path(path).read_text().startswith(self.folder + "/")
        except OSError:
            return False  # it was cleared meanwhile

    def strangers(self) -> list:
        """What is in the data directory and should not be. No client is at work now."""
        found = [f"tmp/{one}" for one in os.listdir(self.temp)]
        top = {"krait.db", "krait.db-wal", "krait.db-shm", "krait.lock", "pepper", "sandboxes", "logs", "serve.lock",
               "mcp.sock", "packages", "secrets.key", "ca.pem"} | ({"sandboxes.image"} if SHELF == "image" else set())
        notes = [one for one in os.listdir(self.data) if one.startswith("krait.notes.")]
        found += notes if len(notes) != 1 else []  # those of the one that lives
        found += [one for one in os.listdir(self.data) if one not in top and one not in notes]
        found += [f"logs/{one}" for one in os.listdir(f"{self.data}/logs")
                  if not re.fullmatch(r"[0-9a-z]{26}\.log", one)]
        for folder in os.listdir(f"{self.data}/sandboxes"):
            if folder not in self.folders:
                found.append(f"sandboxes/{folder}, which no sandbox has")
                continue
            if not set(os.listdir(f"{self.data}/sandboxes/{folder}")) <= {"files", "env"}:
                found.append(f"sandboxes/{folder}: {os.listdir(f'{self.data}/sandboxes/{folder}')}")
            found += [f"sandboxes/{folder}/files/{one}" for one in os.listdir(f"{self.data}/sandboxes/{folder}/files")
                      if one.startswith(".krait-")]
        return found

    # ---- a zygote alone ----

    def after_zygote(self, server: int) -> None:
        """The server lives, runs in its sessions go on, and new ones work."""
        end = time.monotonic() + ZYGOTE_S
        told = {}
        while time.monotonic() < end:
            reply = self.server.post("/api/v1/runs", {"code": "6 * 7", "fresh": True, "stream": False})
            told = reply.json() if reply.status == 200 else {"status": reply.status, "text": reply.text[:200]}
            if told.get("result") == "42":
                break
            time.sleep(0.05)
        if told.get("result") != "42":
            self.wrong("zygote", f"no run works {ZYGOTE_S} s after the zygote's death: {told}")
        if stat_of(str(server))[0] in "XZ":
            self.wrong("zygote", "the server died of it")
        self.slowest_zygote_s = max(self.slowest_zygote_s, time.monotonic() - self.killed_at)
        self.end_clients()
        with self.model.lock:
            left, self.model.open = self.model.open, {}
        for run_id, (how, _began) in left.items():
            self.wrong("zygote", f"run {run_id} ({how}) did not end")
        self.check_runs_went_on()

    def check_runs_went_on(self) -> None:
        """A run that was under way ended as it should (note_end() looks at that), and the store says the same."""
        for run_id in self.model.ended:
            if (got := self.server.get(f"/api/v1/runs/{run_id}").json()).get("cause") == "lost":
                self.wrong("zygote", f"{run_id} is lost: {got}")
        self.model.ended.clear()

    # ---- all of it ----

    def run(self) -> None:
        order = [v for v, n in VICTIMS.items() for _ in range(n)]
        order = (order * (KILLS // len(order) + 1))[:KILLS] if KILLS >= len(order) else self.random.sample(order, KILLS)
        self.random.shuffle(order)
        starts = []
        for _ in range(3):
            starts.append(self.start())
            self.end_gracefully()
        self.usual_s = sorted(starts)[1]
        self.start()
        self.server.run("1")  # makes the sandbox `default`, which the first look at the store must find
        for victim in order:
            self.one(victim)
            self.count("kills")
        self.end_gracefully()
        self.check_store()
        self.start()
        self.verify(everything=True)
        self.end_gracefully()
        shutil.rmtree(self.folder)

    def end_gracefully(self) -> None:
        status = self.server.stop()
        self.server.process.stdout.close()
        left = wait_for_none(GONE_S)
        if status != 0 or left:
            self.wrong("starts",
                       f"a graceful stop exits with {status} and leaves {left}: {self.server.log_text()[-500:]}")

    def one(self, victim: str) -> None:
        if victim == "start":
            self.end_gracefully()
            self.kill_in_start()
        else:
            self.begin()
            server = roles(self.server.process.pid)["server"]
            self.kill(victim)
            if victim == "zygote":
                self.after_zygote(server[0])
                self.killed_at = 0.0
                return
            self.end_clients()
        self.after_death()
        took = self.start()
        self.slowest_s = max(self.slowest_s, took)
        if took > max(START_S, 5 * self.usual_s):
            self.wrong("starts", f"{took:.2f} s after a kill of {victim}; usual is {self.usual_s:.2f} s")
        if "ERROR" in self.server.log_text() or "level=error" in self.server.log_text():
            self.wrong("starts", self.server.log_text()[-500:])
        self.verify()


storm = None


def outcome() -> Storm:
    """All checks look at the same storm."""
    global storm
    if storm is None:
        become_subreaper()
        storm = Storm()
        began = time.monotonic()
        print(f"seed {SEED}", flush=True)
        try:
            storm.run()
        except BaseException:
            storm.wrong("broken", traceback.format_exc()[-1500:])
            storm.server.close(check=False)
        print(f"{KILLS} kills in {time.monotonic() - began:.0f} s; a usual start takes {storm.usual_s:.2f} s, the "
              f"slowest after a kill "
              f"{storm.slowest_s:.2f} s, a run after a zygote's death at most {storm.slowest_zygote_s:.2f} s; "
              f"{storm.model.acknowledged} changes acknowledged; {storm.counts}", flush=True)
    return storm


def none_of(*kinds: str) -> Storm:
    s = outcome()
    told = [f"{kind}: {text}" for kind in (*kinds, "broken") for text in s.problems.get(kind, [])]
    assert not told, f"seed {SEED}: {len(told)} problems: " + "; ".join(told[:6])
    return s


@check
def every_next_start_is_clean():
    s = none_of("starts")
    assert s.counts["kills"] == KILLS, s.counts


@check
def answers_were_right_until_the_kill():
    none_of("answers")


@check
def store_is_intact():
    s = none_of("store")
    assert s.counts["stores checked"] >= KILLS // 2, s.counts


@check
def acknowledged_sandboxes_and_settings_are_there():
    s = none_of("sandboxes", "settings")
    assert s.counts["sandboxes found"] > KILLS, s.counts


@check
def acknowledged_files_are_there():
    s = none_of("files")
    assert s.counts["files found"] > KILLS, s.counts


@check
def runs_under_way_are_lost():
    s = none_of("runs")
    assert s.counts.get("runs lost", 0) >= KILLS // 10, s.counts


@check
def sessions_say_that_they_restarted():
    s = none_of("sessions")
    assert s.counts.get("sessions restarted", 0) >= KILLS // 10, s.counts


@check
def no_orphan_remains():
    none_of("orphans")


@check
def no_cgroup_of_a_dead_instance_remains():
    s = none_of("cgroups")
    if not s.counts.get("cgroups gone") and os.geteuid() != 0:
        skip("krait has no control groups here as an ordinary user")
    assert s.counts.get("cgroups gone", 0) > 0, s.counts


@check
def no_mount_remains():
    none_of("mounts")


@check
def no_temporary_file_remains():
    none_of("leftovers")


@check
def zygote_killed_alone():
    s = none_of("zygote")
    assert s.counts.get("over a zygote's death", 0) > 0, s.counts


if __name__ == "__main__":
    main()
