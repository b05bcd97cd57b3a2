#!/usr/bin/python3
"""Notebook habits: which lines are magics, and what the magics do."""
import re

from fake_krait import SCRATCH, Zygote, load_kernel
from check import check, contains, equal, main

zygote = Zygote()
magics = load_kernel().magics


def run(*codes, **how):
    with zygote.session() as session:
        session.run("import os, tempfile\nos.chdir(tempfile.mkdtemp(dir='%s'))\ndel os, tempfile" % SCRATCH)
        for code in codes[:-1]:
            session.run(code)
        return session.run(codes[-1], **how)


@check
def only_lines_that_begin_a_statement_are_magics():
    for text in (
        "x = (1\n%time)",
        's = """\n!ls\n%pwd\n"""',
        "s = '''a\n'''\nx = [\n!a\n]",
        "a = 5 \\\n%b",
        "f(a,\n  %b)",
        "x = '!ls'",
        "x = len?",
        "f(x)?",
        "a b?",
        "len???",
        "# !ls\n#%pwd",
        "s = r'''\\'''  ",
        "a = 7 % 3",
        "d = {\n'a': 1, # comment with ' quote\n!x\n}",
    ):
        equal(magics.transform(text), None, text)
    for text, call in (
        ("len?", "__krait__.help('len', 1)"),
        ("  os.path.join??", "  __krait__.help('os.path.join', 2)"),
        ("?len", "__krait__.help('len', 1)"),
        ("??x.y ;", "__krait__.help('x.y', 2)"),
        ("!ls", "__krait__.system('ls')"),
        ("  !ls -l", "  __krait__.system('ls -l')"),
        ("%pwd", "__krait__.magic('pwd')"),
        ("x = !ls", "x = __krait__.lines('ls')"),
        ("a, b = !ls", "a, b = __krait__.lines('ls')"),
        ("x = %pwd", "x = __krait__.magic('pwd')"),
        ("!!ls", "__krait__.lines('ls')"),
        ("d['k'] = !ls", "d['k'] = __krait__.lines('ls')"),
        ("!echo 'it''s'", "__krait__.system(\"echo 'it''s'\")"),
    ):
        equal(magics.transform(text)[0], call, text)
    made, changed = magics.transform(
        "x = 1\nif x:\n    !echo a \\\n  b\ny = '''\n!no\n'''\n%time y"
    )
    equal(
        made.split("\n"),
        [
            "x = 1",
            "if x:",
            "    __krait__.system('echo a \\\\\\n  b')",
            "",
            "y = '''",
            "!no",
            "'''",
            "__krait__.magic('time y')",
        ],
    )
    equal(sorted(changed), [3, 4, 8])


@check
def valid_python_is_never_touched():
    equal(run("a = 7\nb = 4\nx = (a\n%b)\nx")["result"], "3")
    equal(run("s = '''\n!ls\n'''\ns")["result"], "'\\n!ls\\n'")


@check
def shell_lines_stream_in_order():
    end = run("print('a')\n!echo b; echo c >&2; echo d\nprint('e')\nif True:\n    !echo f")
    equal((end["stdout"], end["stderr"], end["cause"]), ("a\nb\nd\ne\nf\n", "c\n", "ok"))


@check
def shell_lines_take_variables():
    equal(
        run(
            "name = 'wörld'\nn = [1, 2]\n"
            "!echo {name.upper()} $name {n[1]} ${HOME} '{print $1}' {undefined} $undefined_x end"
        )["stdout"],
        "WÖRLD wörld 2 /workspace {print $1} {undefined} end\n",
    )
    equal(run("print_ = 1\n!echo x | awk '{print}'")["stdout"], "x\n")


@check
def captured_lines():
    end = run("x = !printf 'a\\nb c\\n'; echo err >&2\nx")
    equal((end["result"], end["stderr"], end["variables"]), ("['a', 'b c']", "err\n", ["x"]))
    equal(run("def f():\n    v = !echo inner\n    return v\nf()")["result"], "['inner']")


@check
def failing_command_is_no_exception():
    equal(run("!exit 3\n'after'")["result"], "'after'")


@check
def root_commands_leave_a_hint():
    end = run("!sudo_is_not_here; false")
    equal(end["hint"], None)
    end = run("!sudo -n true 2>/dev/null || exit 1; exit 1")
    contains(end["hint"], "no root")


@check
def pip_install_says_what_is_there():
    for line in (
        "%pip install surely-not-there==1.0 -q",
        "!pip install surely-not-there",
        "!python -m pip install surely-not-there",
        "!pip3 install -U surely-not-there",
        "%conda install surely-not-there",
        "!uv pip install surely-not-there",
    ):
        end = run(line)
        equal(end["cause"], "ok", line)
        contains(end["stdout"], "not installed: surely-not-there", line)
        contains(end["stdout"], "cannot be installed", line)


@check
def directory_and_environment():
    with zygote.session() as session:
        session.run(
            "import os, tempfile\nd = os.path.realpath(tempfile.mkdtemp(dir='%s'))\nos.makedirs(d + '/sub')" % SCRATCH
        )
        equal(session.run("%cd {d}")["stdout"].strip(), session.run("print(d)")["stdout"].strip())
        equal(session.run("x = %pwd\nx == d")["result"], "True")
        equal(session.run("!cd sub\nos.getcwd() == d + '/sub'")["result"], "True")
        contains(session.run("%env KR_X=abc")["stdout"], "KR_X=abc")
        equal(session.run("%env KR_X")["result"], "'abc'")
        equal(session.run("%env KR_Y some value\nos.environ['KR_Y']")["result"], "'some value'")
        equal(session.run("%ls ..")["stdout"], "sub\n")
        equal(session.run("%cd /does/not/exist")["error"]["type"], "FileNotFoundError")


@check
def timing():
    end = run("%time x = sum(range(1000))")
    assert re.search(r"CPU times: .*\nWall time: ", end["stdout"]), end["stdout"]
    equal(end["variables"], ["x"])
    end = run("%time 1 + 1")
    equal(end["result"], "2")
    end = run("%%time\ny = 5\ny + 1")
    equal((end["result"], end["variables"]), ("6", ["y"]))
    contains(end["stdout"], "Wall time: ")
    end = run("n = 3\n%timeit -n 10 -r 2 sum(range(n))")
    contains(end["stdout"], "per loop (mean ± std. dev. of 2 runs, 10 loops each)")
    end = run("%%timeit -n 3 -r 2\nz = 1\nz + 1")
    contains(end["stdout"], "3 loops each")


@check
def errors_in_timed_code_have_their_lines():
    end = run("x = 1\n%time 1/0")
    equal((end["error"]["type"], end["error"]["line"]), ("ZeroDivisionError", 2))
    assert "krait" not in end["error"]["traceback"], end["error"]["traceback"]
    contains(end["error"]["traceback"], "    %time 1/0\n")
    end = run("%%time\nx = 1\n1/0")
    equal((end["error"]["type"], end["error"]["line"]), ("ZeroDivisionError", 3))
    contains(end["error"]["traceback"], "    1/0\n")


@check
def shell_cells():
    end = run("%%bash\nx=5\necho $((x + 1))\nfor i in a b; do echo $i; done")
    equal((end["stdout"], end["cause"]), ("6\na\nb\n", "ok"))
    equal(run("%%sh\nexit 4")["error"]["type"], "CalledProcessError")


@check
def written_files():
    with zygote.session() as session:
        session.run("import os, tempfile\nos.chdir(tempfile.mkdtemp(dir='%s'))" % SCRATCH)
        equal(
            session.run("%%writefile a.py\nx = '!ls'\n%not a magic here\n")["stdout"],
            "Writing a.py\n",
        )
        equal(session.run("open('a.py').read()")["result"], repr("x = '!ls'\n%not a magic here\n"))
        equal(session.run("%%writefile -a a.py\nmore")["stdout"], "Appending to a.py\n")
        equal(session.run("open('a.py').read()[-5:]")["result"], "'more\\n'")
        session.run("%%writefile b.py\nv = 41 + 1\n")
        equal(session.run("%run b.py\nv")["result"], "42")
        equal(session.run("%%writefile")["error"]["type"], "MagicError")


@check
def other_cells_and_lines():
    equal(run("%%html\n<b>x</b>")["displays"][0]["data"]["text/html"], "<b>x</b>")
    equal(run("%%capture out\nprint('hidden')\n5")["stdout"], "")
    equal(run("%%capture out\nprint('hidden')", "out.stdout")["result"], "'hidden\\n'")
    for line in (
        "%matplotlib inline",
        "%load_ext autoreload\n%autoreload 2",
        "%config InlineBackend.figure_format = 'svg'",
    ):
        end = run(line)
        equal((end["cause"], end["stdout"], end["stderr"]), ("ok", "", ""), line)
    equal(run("import os\nfoo = 5\n%who")["stdout"], "foo\n")


@check
def unknown_magics_are_named():
    end = run("%frobnicate x")
    equal(end["error"]["type"], "MagicError")
    contains(end["error"]["message"], "unknown magic %frobnicate")
    contains(
        end["error"]["traceback"],
        'File "<run 2>", line 1, in <module>\n    %frobnicate x\nMagicError: unknown',
    )
    contains(run("%%frobnicate\nx")["error"]["message"], "unknown magic %%frobnicate")


@check
def syntax_errors_beside_magics_are_the_users():
    end = run("!echo a\nx = = 1")
    equal((end["error"]["type"], end["error"]["line"], end["stdout"]), ("SyntaxError", 2, ""))
    contains(end["error"]["traceback"], "    x = = 1\n")


@check
def a_question_mark_shows_help():
    told = run("len?")
    contains(told["stdout"], "Signature: len(obj, /)")
    contains(told["stdout"], "Return the number of items in a container.")
    code = 'def f(a, b=2):\n    """Adds."""\n    return a + b  # here'
    told = run(code, "f?\n?f")
    equal(told["stdout"].count("Signature: f(a, b=2)"), 2)
    equal(told["stdout"].count("Docstring: Adds."), 2)
    assert "# here" not in told["stdout"]
    contains(run(code, "f??")["stdout"], "return a + b  # here")
    contains(run("x = [1, 2]", "x?")["stdout"], "Value: [1, 2]\nLength: 2")
    equal(run("no_such.thing?")["stdout"], "no_such.thing: not found\n")
    equal(run("x = len?")["error"]["type"], "SyntaxError")


main()
