#!/usr/bin/python3
"""The policy `restricted` from the engine's end: what is refused before a run and while it runs, what validating says,
and that a session keeps its policy. tests/policy has the corpora. Real zygote and sessions, with fake_krait.py in place
of the extension.
"""
import re
from pathlib import Path

from fake_krait import Zygote
from check import check, contains, equal, main
from policies import ROOT, restricted

zygote = Zygote()
BASIC = restricted()


def run(*codes, policy=BASIC, **more):
    """Runs snippets in one new session; the last one's end."""
    with zygote.session() as session:
        for code in codes[:-1]:
            session.run(code, policy=policy)
        return session.run(codes[-1], policy=policy, **more)


def judged(code, **policy):
    end = run(code, policy=restricted(judge_only=True, **policy))
    equal((end["cause"], end["stdout"], end["variables"]), ("ok", "", []))
    return end


def ids(end):
    return [one["id"] for one in end.get("findings", [])]


@check
def rules_are_those_of_the_table():
    text = (ROOT / "src/policy/policy_rules.c").read_text()
    reasons = dict(re.findall(r'#define (WHY_\w+) "(.*)"', text))
    rows = {}
    for rule, why in re.findall(r'\{"(P\d+)", "[^"]*", "(?:[^"\\]|\\.)*",\s*("[^"]*"|WHY_\w+),', text):
        rows[rule] = why.strip('"') if why.startswith('"') else reasons[why]
    space = {}
    exec(Path(ROOT / "src/kernel/python/policy_rules.py").read_text(), space)
    equal(rows, space["WHY"])


@check
def import_is_refused_before_the_run():
    end = run("print('ran')\nimport os\nos.system('x')")
    equal((end["cause"], end["exit_code"], end["stdout"]), ("denied", 126, ""))
    equal(end["error"]["message"], "Line 2: Import 'os' is not allowed")
    equal(end["findings"][0]["text"], "Import 'os' is not allowed")
    equal({k: end["findings"][0][k] for k in ("id", "line", "column", "end_line", "end_column")},
          {"id": "P101", "line": 2, "column": 8, "end_line": 2, "end_column": 10})
    equal(end["hint"], "policy os")


@check
def import_is_refused_while_it_runs():
    end = run("import math\nm = type(math)\nfrom urllib import parse\nprint(parse.quote('a b'))")
    equal((end["cause"], end["stdout"]), ("ok", "a%20b\n"))
    session = zygote.session()
    with session:
        session.run("def later():\n    import json\n    return json.dumps(1)", policy=BASIC)
        equal(session.run("later()", policy=BASIC)["result"], "'1'")
        end = session.run("later()", policy=restricted(imports=["math"]))
    equal(end["error"]["message"], "Import of 'json' is not allowed in sandbox")
    equal(end["refused"], [{"id": "P201", "line": 2, "text": "Import of 'json' is not allowed in sandbox"}])


@check
def refusals_that_are_caught_are_told():
    end = run("try:\n    getattr((), '__cla' + 'ss__')\nexcept Exception as e:\n    print(type(e).__name__)\n")
    equal((end["cause"], end["stdout"]), ("ok", "PolicyError\n"))
    equal(end["refused"], [{"id": "P202", "line": 2, "text": "Attribute '__class__' is not allowed"}])


@check
def every_finding_is_told():
    end = judged("import os, sys\nx = eval('1')\n().__class__.__bases__\n'{0.__globals__}'.format(1)\n!ls\n")
    equal(ids(end), ["P101", "P101", "P102", "P103", "P104", "P106"])
    equal([one["line"] for one in end["findings"]], [1, 1, 2, 3, 4, 5])


@check
def a_syntax_error_has_its_place():
    end = judged("x = 1\ny = (2,\nz é w\n")
    equal(ids(end), ["P100"])
    contains(end["findings"][0]["caret"], "^")
    equal(run("x = (", policy=BASIC)["error"]["type"], "SyntaxError", "a run has Python's own error")


@check
def figures_are_counted():
    end = judged("import os\nos.system('rm -rf /')")
    figures = end["analysis"]
    equal((figures["line_count"], figures["character_count"], figures["estimated_complexity"]), (2, 31, "low"))
    equal(end["recommendations"], ["Some operations may be restricted in sandbox environment"])
    code = "def f(n):\n    return 1 if n < 2 else n * f(n - 1)\n"
    code += "for i in range(3):\n    for j in range(3):\n        f(i + j)\n"
    figures = judged(code)["analysis"]
    equal((figures["complexity"]["branches"], figures["complexity"]["nesting"], figures["complexity"]["recursion"]),
          (3, 2, True))
    equal(figures["estimated_complexity"], "medium")


@check
def an_open_policy_is_validated_for_syntax_alone():
    policy = {"mode": "open", "imports": [], "profiles": [], "judge_only": True}
    end = run("import os\nopen('/tmp/made-by-judge', 'w')", policy=policy)
    equal((end["cause"], end["findings"]), ("ok", []))
    equal(ids(run("x = = 1", policy=policy)), ["P100"])


@check
def what_cannot_be_parsed_is_told():
    for code in ("x = 1\0", "(" * 5000, "-" * 200_000 + "1", "x" * 500_001, "\xed\xa0\x80", "a" + ".b" * 200_000,
                 "if 1:\n" + " " * 3 + "x\n  y", "x = '''"):
        end = judged(code)
        equal(len(end["findings"]), 1, code[:20])
        assert end["findings"][0]["id"] in ("P100", "P108"), end["findings"]


@check
def a_session_keeps_its_policy():
    open_policy = {"mode": "open", "imports": [], "profiles": [], "judge_only": False}
    with zygote.session() as session:
        equal(session.run("x = 1", policy=BASIC)["cause"], "ok")
        for other in (None, open_policy, restricted("filesystem")):
            end = session.run("x", policy=other)
            equal((end["cause"], ids(end)), ("denied", ["P109"]))
        equal(session.run("x", policy=restricted(imports=["math"]))["result"], "1")
        equal(ids(session.run("import os", policy=restricted(imports=["math"]))), ["P101"])
        equal(session.run("import json", policy=BASIC)["cause"], "ok")  # the list is each run's own
    with zygote.session() as session:
        equal(session.run("x = 1")["cause"], "ok")
        equal(ids(session.run("x", policy=BASIC)), ["P109"])
        equal(session.run("import os\nx")["result"], "1")


@check
def variables_and_magics_work():
    end = run("import math\ndef f(x):\n    return math.sqrt(x)\n_k = 3", "%time f(16)")
    equal((end["cause"], end["result"]), ("ok", "4.0"))
    equal(run("%%time\nx = 2\nx")["result"], "2")
    for code, rule in (("!ls", "P106"), ("x = !ls", "P106"), ("%pip install a", "P106"),
                       ("%%bash\nls", "P106"), ("%run a.py", "P106"),
                       ("%time import os", "P106"), ("%time eval('1')", "P102")):
        equal(ids(run(code)), [rule], code)
    equal(run("n + 1", variables={"n": 1})["result"], "2")


@check
def scripts_are_judged():
    script = {"file": None, "argv": ["-c"], "write": False, "exit": False}
    with zygote.session(mode="script") as session:
        end = session.run("import os\nprint('ran')", policy=BASIC, script=script)
    equal((end["cause"], end["exit_code"], end["stdout"]), ("denied", 126, ""))
    contains(end["stderr"], "Line 1: Import 'os' is not allowed")
    with zygote.session(mode="script") as session:
        end = session.run("print(hasattr((), '__cla' + 'ss__'))", policy=BASIC, script=script)
    equal((end["cause"], end["error"]["type"]), ("exception", "PolicyError"))


@check
def guards_show_nothing_of_themselves():
    for name in "globals code defaults kwdefaults closure builtins self dict".split():
        name = "__%s__" % name
        for guard in ("getattr", "open", "help", "print", "PolicyError.__init__", "math.sqrt"):
            end = run("import math\n%s.%s" % (guard, name))
            assert end["cause"] == "denied" or end.get("refused"), (guard, name, end)
    end = run("import math\nprint(getattr(math, '__get' + 'attr__', None), math.__name__)")
    equal((end["cause"], end["stdout"]), ("ok", "None math\n"))


@check
def variables_of_the_caller_leave_the_guards():
    end = run("getattr((), '__cla' + 'ss__')", variables={"__builtins__": {"x": 1}, "__krait_attr__": 1, "n": 1})
    equal((end["error"]["type"], end["refused"][0]["id"]), ("PolicyError", "P202"))
    equal(ids(run("%%capture __builtins__\nx = 1")), ["P105"])


@check
def files_are_read_and_not_written():
    equal(run("with open('/dev/null') as f:\n    x = f.read()\nx")["result"], "''")
    end = run("open('/tmp/judged', 'w')")
    equal((end["error"]["type"], end["refused"][0]["id"]), ("PermissionError", "P205"))
    contains(end["error"]["message"], "the profile filesystem is needed")


main()
