#!/usr/bin/python3
"""The escape suite: the attack checklist's rows that need no server, from inside a session and, as controls, outside.

    tests/escape/run                      everything: all ways, both preloads, pooled and unpooled
    tests/escape/run --ways root,user     some ways: root, user, userns, userns-range, contained (userns means both)
    tests/escape/run --preloads basic     some preloads
    tests/escape/run --modes pooled       pooled or unpooled alone
    tests/escape/run --only A8,E1         rows whose id starts so
    tests/escape/run --controls           the controls alone; needs no krait
    tests/escape/run --no-controls        without them: they show what this machine is like, which is known
    tests/escape/run --list               the rows, what their controls are, and the rows that are left out
    tests/escape/run --own-machine        also what changes the machine for a moment (core_pattern): for a throw-away VM

Probes are batched: one session runs all rows that need only one (rows_*.ROWS), one engine serves all that need
several (SCENARIOS). Unpooled sessions of the first kind come from `krait run --json`, pooled ones from
krait-engine. A line is `PASS escape:WAY:PRELOAD:MODE:ROW`; controls are `escape:control:ROW`. Rows under
E4 are section A again, after memory corruption, by raw syscall instructions and from a thread.
"""
from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile

import rows_channel
import rows_files
import rows_fork
import rows_host
import rows_kernel
import rows_limits
import rows_locks
import rows_shared
import rows_workspace
import terminal
from bait import Bait
from drive import Engine, Gone, Result, Stage, batch, krait_run, plain
from model import OMITTED, Context, Report, Row
from ways import WAYS, Way

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
ROWS: list = [
    row
    for module in (rows_kernel, rows_host, rows_shared, rows_files, rows_limits, rows_channel)
    for row in module.ROWS
]
SCENARIOS: list = [
    s for module in (rows_workspace, rows_locks, rows_fork, rows_channel) for s in module.SCENARIOS
] + terminal.SCENARIOS
CONTAINED_ABI = 6  # below it Landlock cannot keep signals and abstract sockets inside
# Crashes with every limit a session may try to set, and in a program it starts.
ABORTS = """
import os, resource, time
for limit in ((0, 0), (1, 1), None):
    if os.fork() == 0:
        try:
            if limit: resource.setrlimit(resource.RLIMIT_CORE, limit)
        except (ValueError, OSError): pass
        os.abort()
    os.wait()
if os.fork() == 0:
    os.execv('/usr/bin/python3', ['python3', '-S', '-c', 'import os; os.abort()'])
os.wait()
time.sleep(1)
print('done')
"""
USERNS_WAYS = ("userns", "userns-range")


def landlock_abi() -> int:
    return max(0, ctypes.CDLL(None).syscall(444, None, 0, 1))


class Suite:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.report = Report()
        self.krait = os.path.abspath(options.krait)
        self.abi = landlock_abi()

    def wanted(self, items: list) -> list:
        only = self.options.only
        return [i for i in items if not only or any(i.id.startswith(o) for o in only)]

    # ---- controls ----

    def controls(self) -> None:
        """Every probe outside any sandbox: what a session is refused must work here, or reach the kernel."""
        ctx = Context(bait=Bait(os.geteuid()))
        try:
            rows = [r for r in self.wanted(ROWS) if r.control]
            found = self.control_batch(rows, ctx).rows() if rows else {}
            for row in rows:
                result = found.get(row.id, {"error": "did not run"})
                self.judge(f"escape:control:{row.id}", lambda: row.judge_control(result, ctx))
            for item in self.wanted(ROWS) + self.wanted(SCENARIOS):
                if item.no_control:
                    self.report.note(f"escape:control:{item.id}", f"no control: {item.no_control}")
                elif item.control_says:
                    self.report.note(f"escape:control:{item.id}", item.control_says)
            for scenario in self.wanted(SCENARIOS):
                if scenario.control:
                    self.judge(f"escape:control:{scenario.id}", scenario.control)
            for text in ctx.notes:
                self.report.note("escape:control", text)
        finally:
            ctx.bait.done()

    @staticmethod
    def control_batch(rows: list, ctx: Context) -> Result:
        code = batch(rows, ctx.bait.params, inside=False)
        leak = os.open("/", os.O_RDONLY | os.O_DIRECTORY)  # for B1 to find
        try:
            return plain(code, cwd="/", pass_fds=(leak,), env=ctx.bait.environ())
        finally:
            os.close(leak)

    # ---- inside ----

    def way(self, way: Way) -> None:
        name = f"escape:{way.name}"
        why = way.cannot()
        if why:
            self.report.skip(name, why)
            return
        if way.contained and self.abi < CONTAINED_ABI:
            self.refused_for_want_of_landlock(way, name)
            return
        for preload in self.options.preloads:
            bait = Bait(way.uid)
            try:
                self.preload(way, preload, bait)
            finally:
                if not bait.victim_alive():
                    self.report.result(f"{name}:{preload}:victim", ["the process outside was killed"])
                bait.done()

    def refused_for_want_of_landlock(self, way: Way, name: str) -> None:
        """`contained` stands on Landlock's scopes: without them it must refuse, not run with less."""
        bait = Bait(way.uid)
        try:
            end = krait_run(self.krait, way, bait, "print('ran')")
            bad = (
                []
                if "ran" not in end.stdout and "andlock" in end.stderr
                else [f"{end.cause}: {end.stdout!r} {end.stderr[-200:]!r}"]
            )
            self.report.result(f"{name}:refused-without-landlock-{CONTAINED_ABI}", bad)
        finally:
            bait.done()

    def preload(self, way: Way, preload: str, bait: Bait) -> None:
        if "unpooled" in self.options.modes:
            self.batches(self.stage(way, preload, "unpooled", bait, None))
        if "pooled" not in self.options.modes and not self.wanted(SCENARIOS):
            return
        engine = Engine(self.krait, way, bait, preload)
        try:
            for mode in self.options.modes:
                stage = self.stage(way, preload, mode, bait, engine)
                if mode == "pooled":
                    self.batches(stage)
                engine = self.scenarios(stage)
        finally:
            bad = engine.close()
        self.report.result(f"escape:{way.name}:{preload}:engine-end", bad)

    def stage(self, way: Way, preload: str, mode: str, bait: Bait, engine: Engine | None) -> Stage:
        return Stage(
            way=way.name,
            preload=preload,
            mode=mode,
            contained=way.contained,
            abi=self.abi,
            bait=bait,
            engine=engine,
            krait=self.krait,
            the_way=way,
        )

    def batches(self, stage: Stage) -> None:
        rows = self.wanted(ROWS)
        self.one_batch(stage, [r for r in rows if r.network == "none"])
        loopback = [r for r in rows if r.network == "loopback"]
        if loopback and stage.contained:
            self.loopback_refused(stage, loopback)
        else:
            self.one_batch(stage, loopback, network="loopback")
        again = (
            [r for r in ROWS if r.raw]
            if not self.options.only
            else [
                r
                for r in ROWS
                if r.raw and any("E4".startswith(o) or o.startswith("E4") for o in self.options.only)
            ]
        )
        self.one_batch(stage, again, raw=True)
        for text in stage.notes:
            self.report.note(f"escape:{stage.way}:{stage.preload}:{stage.mode}", text)

    def one_batch(self, stage: Stage, rows: list, network: str = "none", raw: bool = False) -> None:
        if not rows:
            return
        name = f"escape:{stage.way}:{stage.preload}:{stage.mode}"
        code = batch(
            rows, stage.bait.params, inside=True, raw=raw, before=[rows_channel.corrupt] if raw else []
        )
        try:
            if stage.mode == "unpooled":
                options = () if network == "none" else ("--network", network)
                end = krait_run(self.krait, stage.the_way, stage.bait, code, options, stage.preload)
            else:
                session = stage.open(network=network)
                end = session.run(code)
                session.close()
            found = end.rows()
            end.end.pop("stdout", None)
            why = str(end.end.get("error") or end.end.get("message") or "")
            ended = f"the batch ended early: {end.cause} {why[-300:]} {end.stderr[-200:]}"
        except Gone as e:
            found, ended = {}, str(e)
        if not found:
            what = "E4" if raw else network if network != "none" else "batch"
            self.report.result(f"{name}:{what}", [f"none of {len(rows)} rows ran: {ended}"])
            return
        if not raw and network == "none" and not self.options.only:
            self.report.result(f"{name}:level", self.level(stage, end))
        for row in rows:
            result = found.get(row.id, {"error": ended})
            row_name = f"{name}:E4:{row.id}" if raw else f"{name}:{row.id}"
            if stage.contained and isinstance(row.contained, str):
                self.report.note(row_name, row.contained)
            else:
                self.judge(row_name, lambda: row.judge(result, stage))

    def level(self, stage: Stage, end: Result) -> list:
        """The run says which level held it, and it is the one this way stands for."""
        wanted = {"root": ("root",), "user": ("user",), "contained": ("contained",)}.get(
            stage.way, ("user", "root")
        )
        layers = end.end.get("layers") or {}
        bad = (
            []
            if layers.get("level") in wanted
            else [f"level {layers.get('level')}, not {' or '.join(wanted)}"]
        )
        if layers.get("landlock_abi", 0) > self.abi or not layers.get("landlock_abi"):
            bad.append(f"Landlock ABI {layers.get('landlock_abi')}, and the kernel's is {self.abi}")
        return bad + (
            []
            if end.cause == "ok"
            else [f"the batch ended with {end.cause}: {str(end.end.get('error'))[-300:]}"]
        )

    def loopback_refused(self, stage: Stage, rows: list) -> None:
        end = krait_run(
            self.krait, stage.the_way, stage.bait, "print('ran')", ("--network", "loopback"), stage.preload
        )
        for row in rows:
            self.report.result(
                f"escape:{stage.way}:{stage.preload}:{stage.mode}:{row.id}",
                [f"loopback was granted: {end.cause}"] if "ran" in end.stdout else [],
            )

    def scenarios(self, stage: Stage) -> Engine:
        """Runs them on the stage's engine; one that takes the engine down is told, and the next gets a new engine."""
        for scenario in self.wanted(SCENARIOS):
            name = f"escape:{stage.way}:{stage.preload}:{stage.mode}:{scenario.id}"
            if stage.mode not in scenario.modes:
                continue
            if stage.contained and scenario.contained:
                self.report.note(name, scenario.contained)
                continue
            self.judge(name, lambda: scenario.run(stage))
            if stage.engine.process.poll() is not None:
                self.report.result(f"{name}:engine", [f"the engine ended: {stage.engine.said()}"])
                stage.engine.close()
                stage.engine = Engine(self.krait, stage.the_way, stage.bait, stage.preload)
        return stage.engine

    def judge(self, name: str, fn) -> None:
        """A complaint, an engine that went away and an unforeseen observation all fail the row."""
        try:
            self.report.result(name, fn() or [])
        except Gone as e:
            self.report.result(name, [f"the engine: {e}"])
        except (
            ValueError,
            KeyError,
            IndexError,
            TypeError,
            AttributeError,
            OSError,
            subprocess.SubprocessError,
        ) as e:
            self.report.result(name, [f"{type(e).__name__}: {e}"])

    # ---- the machine's core handler ----

    def core_handler(self) -> None:
        """A program in core_pattern is started even at a limit of 0. Only on a machine of one's own."""
        pattern = "/proc/sys/kernel/core_pattern"
        with tempfile.TemporaryDirectory(prefix="escape-core-") as folder, open(pattern) as f:
            os.chmod(folder, 0o777)
            before, log, program = f.read().strip(), folder + "/log", folder + "/handler"
            with open(program, "w") as p:
                p.write(f"#!/bin/sh\ncat >/dev/null\necho \"$@\" >>{log}\n")
            os.chmod(program, 0o755)
            code = ABORTS
            try:
                with open(pattern, "w") as w:
                    w.write(f"|{program} %p %u")
                plain(code)
                self.report.result(
                    "escape:control:A16-handler",
                    [] if os.path.exists(log) else ["the handler did not run for a plain process"],
                )
                for way in self.chosen():
                    if way.cannot() or way.contained and self.abi < CONTAINED_ABI:
                        continue
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(log)
                    bait = Bait(way.uid)
                    end = krait_run(self.krait, way, bait, code)
                    bait.done()
                    bad = [] if "done" in end.stdout else [f"{end.cause} {end.stderr[-200:]}"]
                    if os.path.exists(log):
                        with open(log) as said:
                            bad.append(f"the machine's handler ran {len(said.read().splitlines())} times")
                    self.report.result(f"escape:{way.name}:A16-handler", bad)
            finally:
                with open(pattern, "w") as w:
                    w.write(before)

    def chosen(self) -> list:
        names = []
        for name in self.options.ways:
            names += USERNS_WAYS if name == "userns" else (name,)
        return [WAYS[n] for n in dict.fromkeys(names)]

    def run(self) -> int:
        if self.options.no_controls:
            self.report.note("escape:control", "not run, as asked")
        elif os.geteuid() == 0:
            self.controls()
        else:
            self.report.skip(
                "escape:control",
                "the controls need root: most of what they show is refused to an ordinary user anyway",
            )
        if not self.options.controls:
            if not os.access(self.krait, os.X_OK):
                self.report.result("escape:krait", [f"{self.krait} is missing: build it first"])
            else:
                for way in self.chosen():
                    self.way(way)
                if self.options.own_machine:
                    self.core_handler()
        print(f"{self.report.passed} passed, {self.report.failed} failed, {self.report.skipped} skipped")
        return 1 if self.report.failed else 0


def show_list() -> None:
    for item in ROWS + SCENARIOS:
        control = (
            f"no control: {item.no_control}"
            if item.no_control
            else "with control" + (f" ({item.control_says})" if item.control_says else "")
        )
        print(f"{item.id:<16} {item.title}\n{'':<16}   {control}")
        if isinstance(item, Row) and item.raw:
            print(f"{'':<16}   again under E4")
        if isinstance(item.contained, str):
            print(f"{'':<16}   contained: {item.contained}")
        elif isinstance(item, Row) and item.contained is not None:
            print(f"{'':<16}   contained: expectations of its own")
    print("\nLeft out:")
    for name, why in OMITTED:
        print(f"{name:<16} {why}")


def parse(argv: list) -> argparse.Namespace:
    def words(choices: tuple):
        def split(text: str) -> list:
            for w in text.split(","):
                if w not in choices:
                    raise argparse.ArgumentTypeError(f"{w!r} is not one of {', '.join(choices)}")
            return text.split(",")

        return split

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ways", type=words((*WAYS,)), default="root,user,userns,contained")
    parser.add_argument("--preloads", type=words(("basic", "data")), default="basic,data")
    parser.add_argument("--modes", type=words(("unpooled", "pooled")), default="unpooled,pooled")
    parser.add_argument("--only", type=lambda t: t.split(","), default=[])
    parser.add_argument("--krait", default=os.environ.get("KRAIT") or os.path.join(ROOT, "build/krait"))
    parser.add_argument("--controls", action="store_true")
    parser.add_argument("--no-controls", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--own-machine", action="store_true", default=os.environ.get("KR_OWN_MACHINE") == "1")
    return parser.parse_args(argv)


def main() -> int:
    options = parse(sys.argv[1:])
    if options.list:
        show_list()
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the bait is taken away
    return Suite(options).run()


if __name__ == "__main__":
    sys.exit(main())
