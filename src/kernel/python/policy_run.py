"""The policy of a run: from the RUN frame to what the END frame says about it.

run.py calls begin() for each RUN frame, judge() with the tree before it is compiled, and puts what
members() gives into the END frame. A session keeps the rights that its first run came with; the
list of modules is each run's own, which the server keeps within the session's. Invariants: under
`restricted` no code is run that has not been judged; the guards stand before the first run.
"""
import builtins

from krait_kernel import channel, policy_analysis as analysis, policy_audit as audit, policy_guards as guards
from krait_kernel import policy_judge, policy_modules as modules, policy_report as report

MAX_IMPORTS = 2000
WARM_UP = "<warm>"  # the name of krait's own runs in a session that is parked
EXIT_REFUSED = 126  # a program that was found and must not run, as a shell has it
Refused = policy_judge.Refused

current = None  # the policy of the run that is on, restricted; None: open
judging = False  # the run is judged, and not run
_opened = None  # (restricted, profiles) of the session's first run
_user_builtins: dict = {}
_findings: list = []
_analysis = None
_recommendations: list = []
_other = None  # why the run does not fit its session


def begin(spec: dict, main_names) -> None:
    """Takes the policy of a run. A session that was parked has run krait's own code, under none."""
    global current, judging, _analysis, _other
    if spec.get("name") == WARM_UP:
        return
    asked = spec.get("policy")
    judging = bool(asked and asked.get("judge_only"))
    _findings.clear()
    _recommendations.clear()
    _analysis = _other = None
    wanted = _policy_of(asked)
    if judging:
        current = wanted
        return
    current = None
    _other = _compare(wanted)
    if wanted.restricted or _other is not None:
        current = wanted
    if wanted.restricted and _other is None:
        _establish(wanted, main_names())


def lent(variables: dict) -> dict:
    """Variables that come with a run: under a policy none with a name of Python's own."""
    return variables if current is None else {name: one for name, one in variables.items() if name[:2] != "__"}


def active(job) -> bool:
    """Whether this run is judged."""
    return not job.warm and (current is not None or judging)


def _policy_of(asked) -> policy_judge.Policy:
    if not asked or asked.get("mode") != "restricted":
        return policy_judge.Policy(restricted=False)
    imports = [one for one in asked.get("imports") or () if isinstance(one, str)][:MAX_IMPORTS]
    profiles = [one for one in asked.get("profiles") or () if isinstance(one, str)]
    return policy_judge.Policy(imports, profiles)


def _compare(wanted):
    """Why the session does not take the run; None."""
    global _opened
    mine = (wanted.restricted, wanted.profiles)
    if _opened is None:
        _opened = mine
        return None
    return None if _opened == mine else "This session was opened with another policy: use a new session"


def _establish(policy, main_names: dict) -> None:
    if not _user_builtins:
        _user_builtins.update(guards.make_builtins(vars(builtins), modules.guarded_import))
        audit.install()
    modules.protect_path()
    main_names["__builtins__"] = _user_builtins
    report.begin(policy, _user_builtins, main_names)


def settle(main_names: dict) -> None:
    """A script has made a new __main__, and put its folder into sys.path."""
    if current is not None and not judging:
        _establish(current, main_names)


# ---- judging -----------------------------------------------------------------------------------


def check(source: str) -> None:
    if _other is not None:
        _refuse([policy_judge.Finding("P109", None, _other)], "")
    if len(source) > policy_judge.MAX_SOURCE:
        text = "Code of %d characters is too large to be judged: at most %d" % (len(source), policy_judge.MAX_SOURCE)
        _refuse([policy_judge.Finding("P108", None, text)], "")


def judge(tree, source: str) -> None:
    """Puts the guards into the tree. Raises Refused if the code may not run."""
    found = policy_judge.judge(tree, current)
    if found:
        _refuse(found, source)


def judge_cell(cell, source: str) -> None:
    found = policy_judge.cell(cell, current)
    if found:
        _refuse(found, source)


def _refuse(found: list, source: str) -> None:
    _findings[:] = policy_judge.report(found, source)
    raise policy_judge.Refused(_findings)


def refused_error(exc) -> dict:
    """The error of the END frame for code that was not run."""
    first = exc.findings[0]
    message = "Line %d: %s" % (first["line"], first["text"])
    return {
        "type": "PolicyError",
        "message": message,
        "traceback": "".join("Line %d: %s\n" % (one["line"], one["text"]) for one in exc.findings[:20]),
        "line": first["line"],
        "errno": 0,
    }


def hint_of(exc):
    """Words for the engine, which knows the profiles: the module that is missing from the list."""
    if isinstance(exc, policy_judge.Refused):
        for one in exc.findings:
            if one["id"] == "P101" and "'" in one["text"]:
                return "policy " + one["text"].split("'")[1]
        return None
    if isinstance(exc, report.ImportRefused) and isinstance(exc.name, str):
        return "policy " + exc.name
    return None


# ---- validate ----------------------------------------------------------------------------------


def validate(source: str, parse) -> None:
    """Every finding and the figures of a text that is not run."""
    global _analysis
    tree, found = None, []
    if len(source) > policy_judge.MAX_SOURCE:
        text = "Code of %d characters is too large to be judged: at most %d" % (len(source), policy_judge.MAX_SOURCE)
        found = [policy_judge.Finding("P108", None, text)]
    else:
        try:
            tree = parse(source)
        except SyntaxError as exc:
            found = [syntax_finding(exc)]
        except (ValueError, RecursionError, MemoryError, OverflowError) as exc:
            found = [policy_judge.Finding("P108", None, _unparsed(exc))]
    _analysis = analysis.of(source, tree)
    if tree is not None and not found and current is not None and current.restricted:
        found = policy_judge.judge(tree, current)
    _findings[:] = policy_judge.report(found, source)
    for one in _findings:
        if one["id"] == "P100":
            one["caret"] = analysis.caret(source, one["line"], one["column"])
    _recommendations[:] = analysis.recommend(_analysis, _findings)


def _unparsed(exc) -> str:
    if isinstance(exc, ValueError) and "null" in str(exc):
        return "Code has a NUL byte, which Python does not take"
    if isinstance(exc, RecursionError):
        return "Code is nested too deep for Python's parser"
    if isinstance(exc, MemoryError):
        return "Code is nested too deep for Python's parser, or too large for the memory there is"
    return "Code cannot be parsed: %s" % (str(exc) or type(exc).__name__)


def syntax_finding(exc):
    finding = policy_judge.Finding("P100", None, "%s: %s" % (type(exc).__name__, exc.msg))
    line = exc.lineno if type(exc.lineno) is int and exc.lineno > 0 else 1
    start = max(0, (exc.offset or 1) - 1)
    end_line = getattr(exc, "end_lineno", None)
    end = getattr(exc, "end_offset", None)
    finding.at = (
        line,
        start,
        end_line if type(end_line) is int and end_line >= line else line,
        max(start, end - 1) if type(end) is int and end > 0 else start,
    )
    finding.in_characters = True
    return finding


def members() -> str:
    """What the END frame has beside its own members, with a comma before each."""
    made = []
    if _findings or judging:
        made.append(("findings", _findings))
    records = report.records() if current is not None and not judging else []
    if records:
        made.append(("refused", records))
    if judging:
        made += [("analysis", _analysis or {}), ("recommendations", _recommendations)]
    return "".join(',"%s":%s' % (name, channel.dumps(value)) for name, value in made)


