"""Clients that change a krait's sandboxes, files and runs, and a model of what it acknowledged. For tests that kill it
under them."""
import hashlib
import http.client
import json
import random
import threading
import time
from urllib.parse import quote

BOXES_MAX = 40
ZYGOTE_S = 20.0  # so long after a zygote's death a new session works
DEAD_LINK = (ConnectionError, TimeoutError, http.client.HTTPException, OSError)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16] + f"/{len(data)}"


class Box:
    """A sandbox: each fact is the set of what it may be; one element once it was acknowledged."""

    def __init__(self, box_id: str, name: str, settings: dict) -> None:
        self.id, self.names, self.settings = box_id, {name}, [settings]
        self.there = {True}
        self.files: dict = {}  # path -> set of digests, None: not there
        self.sessions: set = set()
        self.lock = threading.Lock()  # one client at a time changes it


class Model:
    def __init__(self) -> None:
        self.boxes: dict = {}
        self.ended: dict = {}  # run -> cause as it was told
        self.open: dict = {}  # run -> how it was started: not ended when its stream broke off
        self.unsure: set = set()  # names of sandboxes whose creation was not answered
        self.lock = threading.Lock()
        self.acknowledged = 0


class Clients:
    """The load. `server`, `victim` and `killed_at` are set by the caller that kills; `wrong` collects what must not
    be."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.model = Model()
        self.problems: dict = {}
        self.counts: dict = {}
        self.server = None
        self.victim = ""
        self.under_way: set = set()  # runs, in the moment of the kill
        self.killed_at = 0.0  # 0: no process was killed in this life
        self.over = threading.Event()
        self.threads: list = []
        self.serial = 0

    def wrong(self, what: str, text: str) -> None:
        self.problems.setdefault(what, []).append(text)

    def count(self, what: str, n: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + n

    def next_name(self, prefix: str) -> str:
        with self.model.lock:
            self.serial += 1
            return f"{prefix}-{self.serial}"

    def begin(self) -> None:
        self.over.clear()
        self.threads = [threading.Thread(target=self.client, args=(work, self.random.random()), daemon=True)
                        for work in (self.make_boxes, self.upload, self.upload, self.run_here, self.run_here,
                                     self.stream, self.stream, self.run_fresh)]
        for one in self.threads:
            one.start()

    def client(self, work, seed: float) -> None:
        r = random.Random(seed)
        while not self.over.is_set():
            try:
                work(r)
            except DEAD_LINK as e:
                if not self.killed_at or self.victim == "zygote":
                    self.wrong("answers", f"{work.__name__}: {type(e).__name__}: {e}, and no process was killed")
                return
            except Exception as e:  # a client's own mistake must not look like silence
                self.wrong("answers", f"{work.__name__}: {type(e).__name__}: {e}")
                return
            time.sleep(r.uniform(0, 0.02))

    def end_clients(self) -> None:
        self.over.set()
        for one in self.threads:
            one.join(30)
            if one.is_alive():
                self.wrong("answers", "a client hangs: its connection was neither answered nor closed")
        self.threads = []

    def excused(self) -> bool:
        """A process was killed: a refusal or a `lost` is expected. Not when it was a zygote: its sessions live on, and
        an open waits for its successor."""
        return self.killed_at != 0.0 and self.victim != "zygote"

    def expect(self, reply, *statuses) -> bool:
        if reply.status in statuses:
            return True
        if not (self.excused() and reply.status in (500, 503)):
            self.wrong("answers", f"status {reply.status}: {reply.text[:200]}")
        return False

    def new_box(self, r: random.Random):
        name = self.next_name("box")
        settings = {"limits": {"timeout": r.randrange(30, 300), "processes": r.randrange(16, 64)},
                    "env": {"MARK": name}, "network": r.choice(["none", "loopback"])}
        with self.model.lock:
            self.model.unsure.add(name)
        reply = self.server.post("/api/v1/sandboxes", {"name": name, **settings})
        if not self.expect(reply, 201):
            return None
        box = Box(reply.json()["id"], name, settings)
        with self.model.lock:
            self.model.unsure.discard(name)
            self.model.boxes[box.id] = box
            self.model.acknowledged += 1
        return box

    def some_box(self, r: random.Random):
        """One that no other thread uses now; its lock is taken."""
        with self.model.lock:
            boxes = [b for b in self.model.boxes.values() if b.there == {True}]
        r.shuffle(boxes)
        for box in boxes[:8]:
            if box.lock.acquire(blocking=False):
                if box.there == {True}:
                    return box
                box.lock.release()
        box = self.new_box(r)
        if box:
            box.lock.acquire()
        return box

    def make_boxes(self, r: random.Random) -> None:
        count = sum(b.there == {True} for b in list(self.model.boxes.values()))
        if count < BOXES_MAX:
            self.new_box(r)
        box = self.some_box(r)
        if not box:
            return
        try:
            if count > BOXES_MAX // 2 and r.random() < 0.6:
                box.there.add(False)
                if self.expect(self.server.delete(f"/api/v1/sandboxes/{box.id}"), 204):
                    box.there = {False}
                    self.model.acknowledged += 1
                return
            name, timeout = self.next_name("renamed"), r.randrange(30, 300)
            last = box.settings[-1]
            changed = {**last, "limits": {**last["limits"], "timeout": timeout}}
            box.names.add(name)
            box.settings.append(changed)
            if self.expect(self.server.patch(f"/api/v1/sandboxes/{box.id}",
                                             {"name": name, "limits": {"timeout": timeout}}), 200):
                box.names, box.settings = {name}, [changed]
                self.model.acknowledged += 1
        finally:
            box.lock.release()

    def upload(self, r: random.Random) -> None:
        box = self.some_box(r)
        if not box:
            return
        try:
            path = r.choice(["a.txt", "b.bin", "folder/c.bin", "folder/deep/d.bin", "ü ö.txt"])
            url = f"/api/v1/sandboxes/{box.id}/files/{quote(path)}"
            old = box.files.get(path, {None})
            if old != {None} and len(old) == 1 and r.random() < 0.15:
                box.files[path] = old | {None}
                if self.expect(self.server.delete(url), 200, 204):
                    box.files[path] = {None}
                    self.model.acknowledged += 1
                return
            data = r.randbytes(r.choice([10, 3000, 70_000, 400_000]))
            box.files[path] = old | {digest(data)}
            if self.expect(self.server.put(url, data), 200, 201):
                box.files[path] = {digest(data)}
                self.model.acknowledged += 1
        finally:
            box.lock.release()

    def note_end(self, run_id: str, cause: str, expected: str) -> None:
        with self.model.lock:
            self.model.open.pop(run_id, None)
            self.model.ended[run_id] = cause
        if cause != expected and not (cause == "lost" and self.excused()):
            self.wrong("answers", f"run {run_id} ended as {cause}, not {expected}")

    def run_here(self, r: random.Random) -> None:
        box = self.some_box(r)
        if not box:
            return
        try:
            session, text = r.choice(["main", "one", "two"]), self.next_name("text")
            path = f"run-{session}.txt"
            code = f"open({path!r}, 'w').write({text!r})\nlast = {text!r}\nlast"
            box.files[path] = box.files.get(path, {None}) | {digest(text.encode()), digest(b"")}
            reply = self.server.post("/api/v1/runs",
                                     {"code": code, "sandbox_id": box.id, "session_id": session, "stream": False})
            if not self.expect(reply, 200):
                return
            told = reply.json()
            self.note_end(told["run_id"], told["cause"], "ok")
            box.sessions.add(session)
            if told["cause"] == "ok":
                box.files[path] = {digest(text.encode())}
                self.model.acknowledged += 1
        finally:
            box.lock.release()

    def run_fresh(self, r: random.Random) -> None:
        reply = self.server.post("/api/v1/runs", {"code": "sum(range(1000))", "fresh": True, "stream": False})
        if self.expect(reply, 200):
            told = reply.json()
            self.note_end(told["run_id"], told["cause"], "ok")

    def stream(self, r: random.Random) -> None:
        ticks = r.choice([5, 400])
        code = f"import time\nfor i in range({ticks}):\n    print('tick', i, flush=True)\n    time.sleep(0.03)"
        connection = self.server.connect(30)
        run_id = None
        try:
            connection.request("POST", "/api/v1/runs",
                               json.dumps({"code": code, "session_id": self.next_name("stream")}))
            answer = connection.getresponse()
            if answer.status != 200:
                answer.read()
                if not (self.excused() and answer.status in (500, 503)):
                    self.wrong("answers", f"stream: {answer.status}")
                return
            run_id = answer.getheader("X-Run-Id")
            with self.model.lock:
                self.model.open[run_id] = (f"{ticks} ticks", time.monotonic())
            self.follow(answer, run_id)
        finally:
            connection.close()

    def follow(self, answer, run_id: str) -> None:
        seq = 0
        for raw in answer:
            line = json.loads(raw)
            if line["seq"] != seq + 1:
                self.wrong("answers", f"run {run_id}: line {line['seq']} after {seq}")
            seq = line["seq"]
            if 0.0 < self.killed_at < time.monotonic() - 0.3 and run_id in self.under_way:
                self.under_way.discard(run_id)
                self.count("over a zygote's death")
            if line["type"] == "end":
                self.note_end(run_id, line["cause"], "ok")
                return
            if self.over.is_set():  # the load is over: leave it, it is cancelled by and by
                with self.model.lock:
                    self.model.open.pop(run_id, None)
                return
        raise ConnectionResetError("the stream broke off")
