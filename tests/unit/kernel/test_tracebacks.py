#!/usr/bin/python3
"""The error of an END frame: tracebacks without our frames, bounded, whatever the exception is."""
from fake_krait import Zygote
from check import check, contains, equal, main

zygote = Zygote()


def run(*codes, **how):
    """Runs snippets in one new session; the last one's end."""
    with zygote.session() as session:
        for code in codes[:-1]:
            end = session.run(code)
            assert end["cause"] in ("ok", "exception", "exit"), end
        return session.run(codes[-1], **how)


def error(*codes):
    end = run(*codes)
    equal(end["cause"], "exception")
    equal(end["stderr"], "", "a session does not print the traceback as well")
    return end["error"]


@check
def traceback_shows_lines_of_earlier_runs_and_none_of_ours():
    got = error("def f(x):\n    return 1 / x", "\ny = f(0)")
    equal(
        (got["type"], got["message"], got["line"], got["errno"]),
        ("ZeroDivisionError", "division by zero", 2, 0),
    )
    contains(got["traceback"], 'File "<run 2>", line 2, in <module>\n    y = f(0)\n')
    contains(got["traceback"], 'File "<run 1>", line 2, in f\n    return 1 / x\n')
    assert "krait" not in got["traceback"] and "\x1b" not in got["traceback"], got["traceback"]


@check
def traceback_lines_survive_a_cleared_linecache():
    got = error(
        "def f():\n    raise KeyError('k')", "import linecache\nlinecache.clearcache()", "f()"
    )
    contains(got["traceback"], "    raise KeyError('k')\n")


@check
def traceback_from_await_has_no_frames_of_asyncio():
    got = error("async def g():\n    raise KeyError('a')\nawait g()")
    assert "asyncio" not in got["traceback"], got["traceback"]
    equal(got["line"], 2)


@check
def chained_exceptions():
    text = error("try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise ValueError('b') from e")[
        "traceback"
    ]
    contains(text, "direct cause")
    contains(text, "ZeroDivisionError: division by zero")
    contains(
        error("try:\n    1/0\nexcept ZeroDivisionError:\n    raise ValueError('b')")["traceback"],
        "During handling of",
    )


@check
def exception_groups():
    end = run(
        "import sys\nsys.version_info[:2] >= (3, 11) and eval(\"(_ for _ in ()).throw(ExceptionGroup('g', "
        "[ValueError('v'), KeyError('k')]))\")"
    )
    if end["cause"] == "ok":
        return
    contains(end["error"]["traceback"], "ExceptionGroup: g (2 sub-exceptions)")
    contains(end["error"]["traceback"], "KeyError: 'k'")


@check
def syntax_error_has_a_caret_and_no_heading():
    got = error("x = 1\ny = = 2")
    equal((got["type"], got["line"]), ("SyntaxError", 2))
    equal(
        got["traceback"],
        '  File "<run 1>", line 2\n    y = = 2\n        ^\nSyntaxError: invalid syntax\n',
    )


@check
def errors_of_the_compiler():
    equal(error("return 1")["type"], "SyntaxError")
    assert error("x = '\\0'\n\0")["type"] in ("SyntaxError", "ValueError")
    assert run("(" * 5000 + ")" * 5000)["error"]["type"] in (
        "SyntaxError",
        "MemoryError",
        "RecursionError",
    )
    equal(error("f(\n")["type"], "SyntaxError")


@check
def code_indented_as_a_whole_runs():
    equal(run("    x = 1\n    if x:\n        x = 2\n    x")["result"], "2")


@check
def recursion_error():
    got = error("def r(): r()\nr()")
    equal(got["type"], "RecursionError")
    contains(got["traceback"], "more times]")


@check
def unprintable_exceptions():
    got = error("class E(Exception):\n    def __str__(self): raise RuntimeError('no')\nraise E")
    contains(got["message"], "unprintable E")
    got = error(
        "class B(BaseException):\n    def __repr__(self): raise 1\n    __str__ = __repr__\nraise B"
    )
    equal(got["type"], "B")
    got = error(
        "class C(Exception):\n    @property\n    def __cause__(self): raise ValueError('x')\nraise C('hello')"
    )
    equal((got["type"], got["message"]), ("C", "hello"))
    got = error(
        "class M(type):\n    def __getattribute__(c, n):\n"
        "        if n in ('__name__', '__qualname__', '__module__'): raise ValueError\n"
        "        return type.__getattribute__(c, n)\nclass E(Exception, metaclass=M): pass\nraise E('m')"
    )
    equal((got["type"], got["message"]), ("E", "m"))
    contains(got["traceback"], "E: m")
    got = error(
        "class S(str):\n    def encode(self, *a): return 1\n    def __len__(self): return -5\n"
        "class E(Exception):\n    def __str__(self): return S('odd')\nraise E"
    )
    equal(got["message"], "odd")


@check
def weird_text_is_carried():
    got = error("raise ValueError('a\\ud800b\\0c\\u2028 \\U0001f600')")
    equal(got["message"], "a\\ud800b\\x00c\u2028 \U0001f600")


@check
def huge_messages_are_bounded():
    got = error("raise ValueError('x' * 10_000_000)")
    assert len(got["message"]) < 70000 and len(got["traceback"]) < 70000
    contains(got["traceback"], "characters cut")


@check
def long_chain_of_contexts():
    got = error(
        "e = None\nfor i in range(3000):\n    n = ValueError(i); n.__context__ = e; e = n\nraise e"
    )
    equal((got["type"], got["message"]), ("ValueError", "2999"))


@check
def memory_errors_of_libraries_are_memory_errors():
    equal(
        error("class _ArrayMemoryError(MemoryError): pass\nraise _ArrayMemoryError('big')")["type"],
        "MemoryError",
    )


@check
def errno_is_told():
    equal(error("raise OSError(28, 'No space left')")["errno"], 28)
    equal(error('raise RuntimeError("can\'t start new thread")')["errno"], 11)


main()
