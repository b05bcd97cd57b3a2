#!/usr/bin/python3
"""Packages: from a request to an import, against an index on loopback; what is refused before anything runs, what fails
later and how, and every setting of [packages]."""
from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "lib")]
import wheels
from check import check, contains, equal, main
from index import Index
from installing import ask, await_job, index_args, install, listed, names, packages_path, site, started, uninstall
from krait_server import Server
from serving import eventually


@contextlib.contextmanager
def place(*args: str, **how):
    """An index with a few wheels, their folder, and a server."""
    with site(**how) as (index, folder):
        index.add(wheels.wheel(folder, "lone-thing", modules={"lone_thing.py": "VALUE = 1\n"}))
        index.add(wheels.wheel(folder, "lone-thing", "2.0", modules={"lone_thing.py": "VALUE = 2\n"}))
        index.add(wheels.wheel(folder, "needs-lone", depends=["lone-thing>=1"], modules={"needs_lone.py": ""}))
        with Server(args=index_args(index, *args)) as s:
            yield s, index, folder


def value_of(s: Server, code: str, **more) -> str:
    done = s.run(code, **more)
    assert done["cause"] == "ok", done
    return done["stdout"].strip()


# ---- the main path ----

@check
def an_install_is_imported_by_a_live_session() -> None:
    with place() as (s, index, _folder):
        equal(value_of(s, "x = 5; print(x)", session="work"), "5")
        done = install(s, "needs-lone")
        assert done["ok"], done
        equal(names(done), ["lone-thing", "needs-lone"])
        equal([one["requested"] for one in done["installed"]], [False, True])
        equal(done["asked"], ["needs-lone"])
        for one in done["installed"]:
            equal(len(one["sha256"]), 64)
            equal(one["index"], index.plain_url)
            assert one["file"].endswith(".whl"), one
        contains(done["output"], "Successfully installed")
        equal(value_of(s, "import lone_thing, needs_lone; print(lone_thing.VALUE, x)", session="work"), "2 5")
        equal(listed(s), {"lone-thing": "2.0", "needs-lone": "1.0"})


@check
def the_second_sandbox_fetches_nothing() -> None:
    with place() as (s, index, _folder):
        first = install(s, "lone-thing")
        assert first["ok"] and first["downloaded"] > 0 and first["cached"] == 0, first
        contains(s.get("/metrics").text, 'krait_package_wheels_total{from="index"} 1\n')
        other = s.post("/api/v1/sandboxes", {"name": "other"}).json()["id"]
        index.forget()
        second = install(s, "lone-thing", sandbox=other)
        assert second["ok"] and second["downloaded"] == 0 and second["cached"] == 1, second
        equal(index.count("/files/lone_thing-2.0-py3-none-any.whl"), 0)
        contains(s.get("/metrics").text, 'krait_package_wheels_total{from="store"} 1\n')
        equal(value_of(s, "import lone_thing; print(lone_thing.VALUE)", sandbox=other), "2")


@check
def versions_are_chosen_replaced_and_taken_away() -> None:
    with place() as (s, _index, _folder):
        assert install(s, "lone-thing==1.0")["ok"]
        again = install(s, "lone-thing")
        assert again["ok"] and not again["installed"], again
        equal([one["name"] for one in again["satisfied"]], ["lone-thing"])
        newer = install(s, "lone-thing", upgrade=True)
        equal([(one["version"], one["was"]) for one in newer["installed"]], [("2.0", "1.0")])
        gone = uninstall(s, "lone-thing")
        equal(gone["removed"], [{"name": "lone-thing", "version": "2.0"}])
        equal(listed(s), {})
        absent = uninstall(s, "lone-thing")
        equal((absent["ok"], absent["kind"], absent["names"]), (False, "not_found", ["lone-thing"]))


@check
def what_is_installed_has_no_part_in_the_resolver() -> None:
    """Modules that are named as those of Python would be imported by pip."""
    with place() as (s, index, folder):
        modules = {one + ".py": "raise SystemExit('imported')\n" for one in sys.stdlib_module_names if one[:2] != "__"}
        index.add(wheels.wheel(folder, "shadow", modules={**modules, "keyring.py": "raise SystemExit('imported')\n"}))
        assert install(s, "shadow")["ok"]
        done = install(s, "needs-lone")
        assert done["ok"], done
        equal(names(done), ["lone-thing", "needs-lone"])


@check
def a_requirements_txt_is_understood() -> None:
    with place() as (s, _index, folder):
        digest = wheels.sha256(folder / "lone_thing-1.0-py3-none-any.whl")
        text = "# what is needed\nlone-thing==1.0 \\\n    --hash=sha256:%s\n" % digest
        done = install(s, requirements=text)
        assert done["ok"], done
        equal(done["installed"][0]["sha256"], digest)
        wrong = install(s, requirements=text.replace(digest, "0" * 64), sandbox=fresh(s))
        equal((wrong["ok"], wrong["kind"]), (False, "hash"))


def fresh(s: Server) -> str:
    return s.post("/api/v1/sandboxes", {}).json()["id"]


# ---- before anything runs ----

@check
def what_is_no_requirement_is_refused_at_once() -> None:
    with place() as (s, index, _folder):
        for text, part in (("--index-url=http://x lone-thing", "option"), ("lone-thing @ http://x/y.whl", "address"),
                           ("./lone", "path"), ("lone-thing; rm -rf /", "marker"), ("lone thing==", ""),
                           ("$(id)", "")):
            reply = ask(s, text)
            equal(reply.status, 400 if reply.status == 400 else 422, text)
            contains(reply.text.lower(), part, text)
        equal(index.count(), 0)
        assert install(s, "lone-thing")["ok"]


@check
def a_module_of_python_is_explained_and_a_look_alike_questioned() -> None:
    with place() as (s, index, folder):
        index.add(wheels.wheel(folder, "reqeusts", modules={"reqeusts.py": ""}))
        contains(ask(s, "json").text, "is a module of Python itself")
        contains(ask(s, "reqeusts").text, "looks like")
        assert install(s, "reqeusts", allow_similar=True)["ok"]
        assert install(s, "reqeusts!")["ok"]


# ---- what fails later ----

def failure(result: dict, kind: str, part: str = "") -> None:
    equal((result["ok"], result.get("kind")), (False, kind), str(result))
    contains(result["error"], part)


@check
def failures_have_their_kinds() -> None:
    with place() as (s, index, folder):
        index.add(wheels.sdist(folder, "from-source"))
        index.add(wheels.wheel(folder, "wrong-hash"), wrong_hash=True)
        index.add(wheels.hostile(folder, "dotdot"))
        index.add(wheels.wheel(folder, "wants-two", depends=["lone-thing==1.0", "needs-two"]))
        index.add(wheels.wheel(folder, "needs-two", depends=["lone-thing==2.0"]))
        index.add(wheels.wheel(folder, "cut-off"), cut=100)
        failure(install(s, "not-there-at-all"), "not_found", "not-there-at-all")
        failure(install(s, "lone-thing==9"), "no_version", "1.0, 2.0")
        failure(install(s, "from-source"), "needs_build", "from-source")
        failure(install(s, "wants-two"), "conflict", "lone-thing")
        failure(install(s, "wrong-hash"), "hash")
        failure(install(s, "evil"), "broken")
        failure(install(s, "cut-off"), "index")
        equal(listed(s), {})
        assert install(s, "needs-lone")["ok"]


@check
def a_blocked_dependency_blocks() -> None:
    with place("--blocked-packages", "lone_thing") as (s, _index, _folder):
        failure(install(s, "needs-lone"), "blocked", "Package lone-thing is blocked for security reasons")


@check
def an_install_is_cancelled_while_it_downloads() -> None:
    with place() as (s, index, folder):
        index.add(wheels.wheel(folder, "slow-one", pad=4 << 20), slow=100_000)
        job = started(ask(s, "slow-one"))
        eventually(lambda: "downloading" in s.get("/api/v1/jobs/" + job).json()["text"], 60, "it downloads")
        equal(s.delete("/api/v1/jobs/" + job).status, 202)
        done = await_job(s, job)
        equal(done["cause"], "cancelled")
        failure(done["result"], "cancelled")
        equal(listed(s), {})


@check
def jobs_are_cancelled_at_each_step_and_end_with_the_server() -> None:
    """Waiting, reading, resolving, downloading: whichever the pause hits."""
    with place() as (s, index, folder):
        index.add(wheels.wheel(folder, "slow-one", pad=4 << 20), slow=400_000)
        for pause in (0, 0.1, 0.4, 1.5):
            jobs = [started(ask(s, "slow-one")), started(ask(s, "needs-lone"))]
            time.sleep(pause)
            for job in reversed(jobs):
                equal(s.delete("/api/v1/jobs/" + job).status, 202)
            equal([await_job(s, job)["cause"] for job in jobs], ["cancelled"] * 2)
        equal(listed(s), {})
        started(ask(s, "slow-one"))
        time.sleep(1)
        equal(s.stop(), 0)


@check
def one_job_of_a_sandbox_at_a_time_and_an_equal_one_is_joined() -> None:
    with place() as (s, index, folder):
        index.add(wheels.wheel(folder, "slow-one", pad=1 << 20), slow=500_000)
        first = started(ask(s, "slow-one"))
        equal(started(ask(s, "slow-one")), first)
        second = started(ask(s, "lone-thing"))
        assert second != first
        equal(s.get("/api/v1/jobs/" + second).json()["text"], "waiting")
        assert await_job(s, second)["result"]["ok"]
        assert s.get("/api/v1/jobs/" + first).json()["ended_at"] is not None, "the first was done before"
        equal(sorted(listed(s)), ["lone-thing", "slow-one"])


@check
def the_audit_log_names_hash_file_and_index() -> None:
    with place() as (s, index, folder):
        assert install(s, "lone-thing")["ok"]
        rows = s.get("/api/v1/audit?limit=20&what=package.install").json()["rows"]
        row = next(row for row in rows if row["object"] == "lone-thing==2.0")
        for part in (wheels.sha256(folder / "lone_thing-2.0-py3-none-any.whl"), "lone_thing-2.0", index.plain_url):
            contains(str(row), part)


# ---- settings ----

@check
def blocked() -> None:
    with place("--blocked-packages", "lone-thing,subprocess") as (s, index, _folder):
        reply = ask(s, "Lone.Thing")
        equal(reply.status, 403)
        contains(reply.text, "Package Lone.Thing is blocked for security reasons")
        contains(s.log_text(), "blocked package")
        equal(index.count(), 0)
        contains(s.get("/metrics").text, 'sandbox_package_installs_total{result="blocked"} 1')


@check
def enabled() -> None:
    with place("--packages=false") as (s, _index, _folder):
        reply = ask(s, "lone-thing")
        equal(reply.status, 403)
        contains(reply.text, "packages.enabled")


@check
def allow_build() -> None:
    with place() as (s, _index, _folder):
        equal(ask(s, "lone-thing", build=True).status, 403)
    with place("--packages-allow-build=true") as (s, index, folder):
        index.add(wheels.sdist(folder, "from-source", modules={"from_source.py": "VALUE = 3\n"}))
        failure(install(s, "from-source"), "needs_build")
        made = s.post("/api/v1/sandboxes", {"name": "builder", "allow_build": "yes"}).json()["id"]
        done = install(s, "from-source", sandbox=made)
        assert done["ok"], done
        equal(value_of(s, "import from_source; print(from_source.VALUE)", sandbox=made), "3")


@check
def installs_per_minute() -> None:
    with place("--installs-per-minute", "2") as (s, _index, _folder):
        started(ask(s, "lone-thing"))
        started(ask(s, "needs-lone"))
        reply = ask(s, "lone-thing==1.0")
        equal(reply.status, 429)
        contains(reply.text, "installs_per_minute")


@check
def timeout() -> None:
    with place("--packages-timeout", "4s") as (s, index, folder):
        index.add(wheels.wheel(folder, "slow-one", pad=8 << 20), slow=100_000)
        failure(install(s, "slow-one"), "timeout")
        equal(listed(s), {})


@check
def max_download() -> None:
    with place("--packages-max-download", "64K") as (s, index, folder):
        index.add(wheels.wheel(folder, "large-one", pad=1 << 20))
        failure(install(s, "large-one"), "too_large", "max_download")
        assert install(s, "lone-thing")["ok"]


@check
def max_installed() -> None:
    with place("--packages-max-installed", "64K") as (s, index, folder):
        index.add(wheels.wheel(folder, "large-one", pad=1 << 20))
        failure(install(s, "large-one"), "too_large")
        assert install(s, "lone-thing")["ok"]


@check
def names_of_modules_are_bounded() -> None:
    """Facts that could not be read again would hide a folder from store_size."""
    with place() as (s, index, folder):
        modules = {"m%05d_%s.py" % (i, "x" * 230): "" for i in range(36000)}
        index.add(wheels.wheel(folder, "many-names", modules=modules))
        failure(install(s, "many-names"), "too_large", "names")
        equal([], list(Path(s.data, "data/packages/store").iterdir()))


@check
def max_files() -> None:
    with place("--packages-max-files", "20") as (s, index, folder):
        index.add(wheels.wheel(folder, "many-files", modules={"many/f%d.py" % i: "" for i in range(40)}))
        failure(install(s, "many-files"), "too_large")
        assert install(s, "lone-thing")["ok"]


@check
def store_size() -> None:
    """A bound below what is installed takes nothing away that is in use."""
    with place("--packages-store-size", "1K") as (s, _index, _folder):
        assert install(s, "lone-thing")["ok"]
        equal(value_of(s, "import lone_thing; print(lone_thing.VALUE)"), "2")


@check
def a_smaller_store_is_swept_for_at_once() -> None:
    """What no environment refers to goes, what one does stays."""
    with site() as (index, folder):
        all_names = ["fresh-thing", "kept-thing", "more-thing", "old-thing"]
        for name in all_names:
            module = name.replace("-", "_")
            index.add(wheels.wheel(folder, name, modules={module + ".py": "VALUE = 1\n"}))
        settings = Path(folder, "krait.toml")
        settings.write_text("[packages]\nstore_size = \"1G\"\n")
        with Server(args=["--config", str(settings), *index_args(index)]) as s:
            store, marks = (Path(s.data, "data/packages", one) for one in ("store", "index"))
            assert install(s, "kept-thing", "old-thing", "fresh-thing")["ok"]
            uninstall(s, "old-thing", "fresh-thing")
            assert install(s, "more-thing")["ok"]  # the generation before the last one counts as well
            keys = {json.loads((one / "krait.json").read_text())["name"]: one.name for one in store.iterdir()}
            equal(sorted(keys), all_names)
            for name in ("kept-thing", "old-thing"):
                os.utime(marks / keys[name], (1, 1))
            settings.write_text("[packages]\nstore_size = \"1K\"\n")
            s.process.send_signal(signal.SIGHUP)
            eventually(lambda: not (store / keys["old-thing"]).exists(), 60, "the sweep")
            eventually(lambda: "store of packages swept" in s.log_text(), 30, "a line about the sweep")
            equal({one.name for one in store.iterdir()}, set(keys.values()) - {keys["old-thing"]})
            equal(value_of(s, "import kept_thing; print(kept_thing.VALUE)"), "1")


main()
