"""Finds out which files of the index an install needs, with pip's own resolver; installs nothing.

The server runs this file as ordinary code in a cell with the rule `index` and the sandbox's /venv.
The request is the global REQUEST (an object or its JSON), else standard input:

    {"requirements": ["numpy>=2"], "constraints": [], "upgrade": false, "build": false,
     "index": "http://127.0.0.1:3128/index/simple/"}

It prints lines of JSON: {"progress": "Collecting numpy>=2"} any number of times, then one object,
{"install": [{"name", "version", "url", "sha256", "requested", "sdist"}], "satisfied": [{"name",
"version", "requested", "location"}], "warnings": [text]}, the first in order of installation, or
{"error": text, "kind": word, "names": [name]}. Kinds: invalid, not_found, no_version, needs_build,
python, conflict, index, build, resolver.

pip 23.0 is used as a library: metadata comes from the index (PEP 658) or from a part of the wheel,
and whole wheels only where neither is offered. Another pip is asked with --dry-run --report, which
downloads. Invariant: without "build" no code of a package runs here: /venv is read for what is
installed, and nothing is imported from it. With "build" some runs, so what is printed is that
code's claim; the server checks each field in any case.
"""
import functools
import json
import logging
import os
import re
import subprocess
import sys

VENV = "/venv"
PACKAGES = "%s/lib/python%d.%d/site-packages" % ((VENV,) + sys.version_info[:2])
WHEELED_PIP = "/usr/share/python-wheels"  # Debian's python3-pip-whl
LIBRARY = "23.0"  # versions of pip whose inside this file knows
MAX_PROGRESS = 500  # lines
MAX_VERSIONS = 12  # named in an error
MAX_TEXT = 4000
TIMEOUT = "15"  # seconds without a byte from the index
NO_PIP = "pip is not installed on the server (on Debian: apt-get install python3-pip)"


class Trouble(Exception):
    """An answer that is an error."""

    def __init__(self, kind, text, names=()):
        super().__init__(text)
        self.kind, self.names = kind, list(names)


def put(value):
    print(json.dumps(value), flush=True)


class Closed:
    """The finder of a folder from which nothing is imported; what is installed there is found."""

    @staticmethod
    def find_spec(_name, _target=None):
        return None

    find_module = find_spec  # by which pip's pkg_resources asks


class Progress(logging.Handler):
    """What pip would print, as lines of ours."""

    lines = 0

    def emit(self, record):
        text = record.getMessage().strip().split("\n")[0]
        if text.startswith("Collecting ") or "looking at multiple versions" in text:
            self.lines += 1
            if self.lines <= MAX_PROGRESS:
                put({"progress": text[:200]})


def settle():
    """pip is the system's, never one of /venv; what is installed there counts all the same. No
    setting of pip's comes from outside.
    """
    for name in list(os.environ):
        if name.startswith("PIP_"):
            del os.environ[name]
    os.environ.update(PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_INPUT="1")
    os.environ["PIP_CONFIG_FILE"] = os.devnull
    inside = [one for one in sys.path if one == VENV or one.startswith(VENV + "/")]
    sys.path[:] = [one for one in sys.path if one and one not in inside]
    try:
        import pip
    except ImportError:
        try:
            wheels = [one for one in os.listdir(WHEELED_PIP) if one.startswith("pip-")]
            sys.path.append(os.path.join(WHEELED_PIP, wheels[0]))
            import pip
        except (OSError, IndexError, ImportError):
            raise Trouble("resolver", NO_PIP) from None
    if os.path.isdir(PACKAGES):
        sys.path_importer_cache[PACKAGES] = Closed()
        sys.path.insert(0, PACKAGES)
    return pip


def cut(text, limit=MAX_TEXT):
    return text if len(text) <= limit else text[:limit] + "…"


def some(versions):
    """The newest few, oldest first."""
    kept = versions[-MAX_VERSIONS:]
    return ("… " if len(kept) < len(versions) else "") + ", ".join([str(one) for one in kept])


def why(exc):
    """What went wrong with a request, without the classes and addresses of urllib3's text."""
    text = str(exc)
    status = re.search(r"too many (\d+) error responses", text)
    if status:
        return "status " + status.group(1)
    if "timed out" in text.lower():
        return "no answer within %s seconds" % TIMEOUT
    return cut(text.rstrip(")'\"").rpartition(": ")[2] or type(exc).__name__, 200)


# ---- pip 23.0 as a library ----------------------------------------------------------------------


def metadata_word(value):
    """What the index says of a file's metadata (PEP 658, 691, 714), as pip 23.0 takes it."""
    if isinstance(value, dict):
        return "sha256=" + value["sha256"] if isinstance(value.get("sha256"), str) else "true"
    return "true" if value is True else value or None


def teach_links():
    """pip 23.0 knows neither `core-metadata` nor an object in its place."""
    from pip._internal.models.link import Link

    of_json, of_element = Link.from_json.__func__, Link.from_element.__func__

    def from_json(cls, data, page_url):
        keys = ("core-metadata", "dist-info-metadata", "data-dist-info-metadata")
        found = next((data[key] for key in keys if data.get(key)), None)
        return of_json(cls, dict(data, **{keys[1]: metadata_word(found)}), page_url)

    def from_element(cls, attributes, page_url, base_url):
        keys = ("data-core-metadata", "data-dist-info-metadata")
        found = next((attributes[key] for key in keys if attributes.get(key)), None)
        return of_element(cls, dict(attributes, **{keys[1]: found}), page_url, base_url)

    Link.from_json, Link.from_element = classmethod(from_json), classmethod(from_element)


@functools.lru_cache(None)
def preparer_class():
    """Made late, because its base is pip's."""
    from pip._internal.metadata import get_metadata_distribution
    from pip._internal.operations.prepare import RequirementPreparer, get_http_url
    from pip._vendor.packaging.utils import canonicalize_name

    class Preparer(RequirementPreparer):
        def _fetch_metadata_using_link_data_attr(self, req):
            link = req.link.metadata_link()
            if link is None:
                return None
            file = get_http_url(link, self._download, hashes=link.as_hashes())
            with open(file.path, "rb") as stream:
                found = get_metadata_distribution(stream.read(), req.link.filename, req.req.name)
            same = canonicalize_name(found.raw_name) == canonicalize_name(req.req.name)
            return found if same else None  # pip 23.0 compares the spelling, too

        def _fetch_metadata_using_lazy_wheel(self, link):
            try:
                return super()._fetch_metadata_using_lazy_wheel(link)
            except Exception:
                return None  # no ranges, or not a zip file: the whole wheel tells

        def prepare_linked_requirements_more(self, reqs, parallel_builds=False):
            pass  # this would download

    return Preparer


class Watch:
    """Remembers how requests for pages of the index ended; pip only says that it found nothing."""

    def __init__(self, session, index):
        self._request, self._index = session.request, index
        self.pages = {}  # canonical name -> what went wrong, or 404
        session.request = self.request
        session.trust_env = False  # the index is on loopback: no proxy, no netrc

    def request(self, method, url, *args, **options):
        name = url[len(self._index) :].strip("/") if url.startswith(self._index) else None
        try:
            answer = self._request(method, url, *args, **options)
        except Exception as exc:
            if name:
                self.pages[name] = why(exc)
            raise
        status = answer.status_code
        if name and status == 404:
            self.pages[name] = 404
        elif name and status != 200:
            text = answer.text.strip() if status == 403 else ""
            self.pages[name] = cut("status %d %s" % (status, text), 300).strip()
        return answer


class Resolution:
    """One, by pip 23.0."""

    def __init__(self, request):
        self.request = request
        self.addresses = []  # what packages want from an address of its own

    def run(self):
        from pip._internal.commands import create_command
        from pip._internal.utils.temp_dir import global_tempdir_manager, tempdir_registry

        teach_links()
        log = logging.getLogger("pip")
        log.handlers[:], log.propagate = [Progress()], False
        log.setLevel(logging.INFO)
        command = create_command("install", isolated=True)
        with command.main_context():
            command.tempdir_registry = command.enter_context(tempdir_registry())
            command.enter_context(global_tempdir_manager())
            return self.with_command(command)

    def finder_for(self, command, no_binary=(), only_binary=()):
        from pip._internal.models.format_control import FormatControl

        words = ["--index-url", self.request["index"], "--no-cache-dir", "--prefer-binary"]
        options, _rest = command.parse_args(words + ["--timeout", TIMEOUT, "--retries", "2"])
        options.format_control = FormatControl(set(no_binary), set(only_binary))
        self.session = command.get_default_session(options)
        return command._build_package_finder(options=options, session=self.session)

    def with_command(self, command):
        from pip._internal.operations.build.build_tracker import get_build_tracker
        from pip._internal.req.constructors import install_req_from_req_string
        from pip._internal.resolution.resolvelib.resolver import Resolver
        from pip._internal.utils.temp_dir import TempDirectory

        only_binary = () if self.request["build"] else (":all:",)
        self.finder = self.finder_for(command, only_binary=only_binary)
        self.sources = self.finder_for(command, no_binary=(":all:",))
        self.watch = Watch(self.session, self.request["index"])
        preparer = preparer_class()(
            build_dir=TempDirectory(kind="install", globally_managed=True).path,
            src_dir="/tmp",
            download_dir=None,
            build_isolation=True,
            check_build_deps=False,
            build_tracker=command.enter_context(get_build_tracker()),
            session=self.session,
            progress_bar="off",
            finder=self.finder,
            require_hashes=False,
            use_user_site=False,
            lazy_wheel=True,
            verbosity=0,
        )
        resolver = Resolver(
            preparer=preparer,
            finder=self.finder,
            wheel_cache=None,
            make_install_req=functools.partial(install_req_from_req_string, isolated=True),
            use_user_site=False,
            ignore_dependencies=False,
            ignore_installed=False,
            ignore_requires_python=False,
            force_reinstall=False,
            upgrade_strategy="only-if-needed" if self.request["upgrade"] else "to-satisfy-only",
        )
        self.refuse_addresses(resolver.factory)
        return self.answer(resolver)

    def refuse_addresses(self, factory):
        """A package that wants another one from an address cannot be had."""
        from pip._internal.resolution.resolvelib.requirements import UnsatisfiableRequirement
        from pip._vendor.packaging.utils import canonicalize_name

        real = factory._make_requirement_from_install_req

        def judged(ireq, requested_extras):
            if not ireq.link or not ireq.match_markers(requested_extras):
                return real(ireq, requested_extras)
            parent = getattr(ireq.comes_from, "name", None)
            self.addresses.append("%s wants %s from an address" % (parent, ireq.name))
            return UnsatisfiableRequirement(canonicalize_name(ireq.name))

        factory._make_requirement_from_install_req = judged

    def roots(self):
        from pip._internal.exceptions import InstallationError
        from pip._internal.req.constructors import install_req_from_req_string as read

        found = []
        for key in ("constraints", "requirements"):
            for text in self.request[key]:
                try:
                    ireq = read(text, isolated=True, user_supplied=key == "requirements")
                except InstallationError as exc:
                    raise Trouble("invalid", str(exc)) from None
                if ireq.link:
                    raise Trouble("invalid", "%r names an address; name the package" % text)
                ireq.constraint = key == "constraints"
                found.append(ireq)
        return found

    def answer(self, resolver):
        from pip._internal.exceptions import InstallationError, NetworkConnectionError, PipError
        from pip._vendor.requests.exceptions import RequestException
        from pip._vendor.resolvelib import ResolutionImpossible

        roots = self.roots()
        try:
            chosen = resolver.resolve(roots, check_supported_wheels=True)
        except (PipError, RequestException, AssertionError) as exc:
            if isinstance(exc.__cause__, ResolutionImpossible):
                raise self.explain(exc.__cause__.causes, exc) from None
            kind = "resolver" if isinstance(exc, InstallationError) else "index"
            words = build_words(exc)
            kind = "build" if words or "subprocess" in str(exc) else kind
            kind = "index" if isinstance(exc, NetworkConnectionError) else kind
            text = "\n".join([str(exc).strip() or type(exc).__name__] + words)
            raise Trouble(kind, cut(text)) from None
        found = resolver._result.mapping.values()
        versions = {one.project_name: str(one.version) for one in found}
        order = resolver.get_installation_order(chosen)
        rows = [self.row(one, versions) for one in order]
        return {
            "install": rows,
            "satisfied": satisfied(found),
            "warnings": broken({one["name"]: one["version"] for one in rows}),
        }

    @staticmethod
    def row(ireq, versions):
        from pip._vendor.packaging.utils import canonicalize_name

        return {
            "name": ireq.name,
            "version": versions[canonicalize_name(ireq.name)],
            "url": ireq.link.url_without_fragment,
            "sha256": ireq.link._hashes.get("sha256"),
            "requested": bool(ireq.user_supplied),
            "sdist": not ireq.link.is_wheel,
        }

    # ---- why there is no solution ----

    def explain(self, causes, exc):
        from pip._internal.exceptions import UnsupportedPythonVersion

        if isinstance(exc, UnsupportedPythonVersion):
            return Trouble("python", str(exc))
        if self.addresses:
            return Trouble("conflict", self.addresses[-1] + ", which is not allowed here")
        about = {cause.requirement.project_name for cause in causes}
        trouble = self.absent(about.pop(), causes) if len(about) == 1 else None
        return trouble or self.conflict(causes)

    def conflict(self, causes):
        rows, names = {}, set()
        for requirement, parent in causes:
            who = "%s %s needs" % (parent.name, parent.version) if parent else "asked for is"
            rows["%s %s" % (who, requirement.format_for_error())] = True
            names.update([requirement.project_name] + ([parent.name] if parent else []))
        for text in self.request["constraints"]:
            if canonical(text) in names:
                rows["the constraint is %s" % text] = True
        text = "these cannot be installed together:\n  " + "\n  ".join(list(rows)[:20])
        return Trouble("conflict", text + "\nLoosen or leave out one of them.", sorted(names))

    def absent(self, name, causes):
        """Why there is nothing to choose from for the one name that all is about, or None: there
        is something.
        """
        parents = sorted({cause.parent.name for cause in causes if cause.parent})
        who = " (needed by %s)" % ", ".join(parents[:3]) if parents else ""
        status = self.watch.pages.get(name)
        if status == 404:
            return Trouble("not_found", "the index has no package %s%s" % (name, who), [name])
        if status is not None:
            text = "the index does not answer for %s%s: %s" % (name, who, status)
            return Trouble("index", text, [name])
        specifiers = self.specifiers(name, causes)

        def fitting(versions, *wanted):
            return [v for v in versions if all(one.contains(v, prereleases=True) for one in wanted)]

        there = self.versions(self.finder, name)
        if there and all(fitting(there, one) for one in specifiers):
            return None
        asked = name + ",".join(sorted({str(one) for one in specifiers if str(one)}))
        source = [] if self.request["build"] else self.versions(self.sources, name)
        built = fitting(source, *specifiers)
        if built:
            text = "%s%s has no wheel for this Python and machine, only source code (%s)"
            text = text % (asked, who, some(built)) + ", which is not built in this sandbox"
            if there:
                text += "; wheels are there of %s" % some(there)
            return Trouble("needs_build", text, [name])
        text = "no version of %s fits" % name if asked == name else "no version fits %s" % asked
        text += "%s; there are: %s" % (who, some(there) or "none")
        skipped = self.finder.requires_python_skipped_reasons()
        if skipped:
            text += "\nfor another Python: " + cut("; ".join(skipped[-4:]), 400)
        return Trouble("python" if skipped and not there else "no_version", text, [name])

    def specifiers(self, name, causes):
        from pip._vendor.packaging.requirements import Requirement

        wanted = [cause.requirement.get_candidate_lookup()[1] for cause in causes]
        limits = [one for one in self.request["constraints"] if canonical(one) == name]
        found = [one.req.specifier for one in wanted if one is not None]
        return found + [Requirement(one).specifier for one in limits]

    @staticmethod
    def versions(finder, name):
        return sorted({one.version for one in finder.find_all_candidates(name)})


def build_words(exc):
    """What a program that pip has started said last, if it is why."""
    while exc is not None and type(exc).__name__ != "InstallationSubprocessError":
        exc = exc.__cause__
    return [str(exc.context)[-MAX_TEXT // 2 :]] if exc is not None else []


def canonical(requirement):
    from pip._vendor.packaging.requirements import Requirement
    from pip._vendor.packaging.utils import canonicalize_name

    return canonicalize_name(Requirement(requirement).name)


def satisfied(candidates):
    """The packages of a resolution that are there already."""
    return [
        {
            "name": one.dist.raw_name,
            "version": str(one.version),
            "requested": bool(one._ireq.user_supplied),
            "location": one.dist.location or "",
        }
        for one in candidates
        if one.is_installed and hasattr(one, "_ireq")
    ]


def broken(new):
    """What is installed and would no longer find what it needs once these have come."""
    from pip._internal.operations import check
    from pip._vendor.packaging.utils import canonicalize_name
    from pip._vendor.packaging.version import parse

    have, _problems = check.create_package_set_from_installed()
    conflicts = check.check_package_set(have)[1].items()
    known = {(name, str(row[2])) for name, rows in conflicts for row in rows}
    for name, version in new.items():
        have[canonicalize_name(name)] = check.PackageDetails(parse(version), [])
    texts = []
    for name, rows in check.check_package_set(have)[1].items():
        for dependency, version, wanted in rows:
            if (name, str(wanted)) not in known:
                named = (name, have[name].version, wanted, dependency, version)
                texts.append("%s %s needs %s, but %s will be %s" % named)
    return sorted(texts)[:20]


# ---- any other pip ------------------------------------------------------------------------------


# Without `site`, which would run what *.pth files of /venv say; with the same path as here.
PROGRAM = """
import os, runpy, sys
class Closed:
    find_spec = find_module = staticmethod(lambda name, target=None: None)
sys.path[:], packages, pip = %r, %r, %r
if os.path.isdir(packages):
    sys.path_importer_cache[packages] = Closed()
    sys.path.insert(0, packages)
sys.argv[0] = pip
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


def ask_program(request, pip):
    """What another pip says it would install (22.2 has the report)."""
    where = [one for one in sys.path if one != PACKAGES], PACKAGES, os.path.dirname(pip.__file__)
    command = [sys.executable, "-I", "-S", "-c", PROGRAM % where]
    command += ["install", "--isolated", "--quiet"]
    command += ["--dry-run", "--report", "-", "--no-cache-dir", "--timeout", TIMEOUT]
    command += ["--index-url", request["index"], "--prefer-binary"]
    command += [] if request["build"] else ["--only-binary", ":all:"]
    command += ["--upgrade"] if request["upgrade"] else []
    if request["constraints"]:
        with open("/tmp/constraints.txt", "w", encoding="utf-8") as file:
            file.write("\n".join(request["constraints"]) + "\n")
        command += ["--constraint", "/tmp/constraints.txt"]
    command += ["--"] + request["requirements"]
    proxies = dict(os.environ, NO_PROXY="*")
    done = subprocess.run(command, capture_output=True, text=True, env=proxies)
    if done.returncode != 0:
        rows = [one[7:] if one.startswith("ERROR: ") else one for one in done.stderr.splitlines()]
        raise Trouble("resolver", cut("\n".join(rows).strip() or "pip has failed"))
    rows = json.loads(done.stdout)["install"]
    return {"install": [report_row(one) for one in rows], "satisfied": [], "warnings": []}


def report_row(one):
    info = one["download_info"]
    archive = info.get("archive_info", {})
    digest = archive.get("hashes", {}).get("sha256")
    digest = digest or archive.get("hash", "").partition("sha256=")[2]
    return {
        "name": one["metadata"]["name"],
        "version": one["metadata"]["version"],
        "url": info["url"],
        "sha256": digest or None,
        "requested": bool(one["requested"]),
        "sdist": not info["url"].endswith(".whl"),
    }


# ---- the answer ---------------------------------------------------------------------------------


def read(text):
    """The request, with all of its members."""
    request = json.loads(text) if isinstance(text, (str, bytes)) else text
    for one in list(request["requirements"]) + list(request.get("constraints") or ()):
        if not one.strip() or one.lstrip().startswith("-"):
            raise Trouble("invalid", "%r is not the name of a package" % one)
    return {
        "requirements": [str(one) for one in request["requirements"]],
        "constraints": [str(one) for one in request.get("constraints") or ()],
        "upgrade": bool(request.get("upgrade")),
        "build": bool(request.get("build")),
        "index": request["index"].rstrip("/") + "/",
    }


def main(text):
    try:
        request = read(text)
        pip = settle()
        if pip.__version__.startswith(LIBRARY):
            put(Resolution(request).run())
        else:
            put(ask_program(request, pip))
    except Trouble as exc:
        put({"error": cut(str(exc)), "kind": exc.kind, "names": exc.names})
    except Exception as exc:
        put({"error": cut("%s: %s" % (type(exc).__name__, exc)), "kind": "resolver", "names": []})


if __name__ == "__main__":
    main(globals().get("REQUEST") or sys.stdin.read())
