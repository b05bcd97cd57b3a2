#!/usr/bin/python3
"""Running snippets: values, variables, await, tracebacks, exits. A real zygote and sessions,
with fake_krait.py in place of the extension.
"""
from fake_krait import SCRATCH, Zygote
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
def last_expression_is_the_result():
    end = run("x = 20\nx * 2 + 2")
    equal((end["cause"], end["exit_code"], end["result"], end["variables"]), ("ok", 0, "42", ["x"]))


@check
def value_is_bound_to_underscore():
    equal(run("6 * 7", "_ + 1")["result"], "43")


@check
def users_own_underscore_is_kept():
    equal(run("1 + 1", "_ = 'mine'", "5", "_")["result"], "'mine'")


@check
def none_is_no_result():
    equal(run("None")["result"], None)


@check
def variables_that_come_with_a_run_are_set():
    end = run("n * 2 + len(words)", variables={"n": 20, "words": ["a", "b"]})
    equal((end["result"], end["variables"]), ("42", []))
    with zygote.session() as session:
        session.run("0", variables={"kept": "yes"})
        equal(session.run("kept")["result"], "'yes'")


@check
def environment_of_one_run_is_taken_back():
    with zygote.session() as session:
        session.run("import os\nos.environ['OLD'] = 'old'")
        code = "import os\nvalue = os.environ['OLD'], os.environ['NEW']\nos.environ['NEW'] = 'x'\nvalue"
        equal(session.run(code, env={"OLD": "lent", "NEW": "lent"})["result"], "('lent', 'lent')")
        equal(session.run("os.environ['OLD'], os.environ.get('NEW')")["result"], "('old', None)")
        session.run("1/0", env={"OLD": "lent"})
        equal(session.run("os.environ['OLD']")["result"], "'old'")


@check
def semicolon_silences():
    equal(run("5;")["result"], None)
    equal(run("5 ;  # comment")["result"], None)
    equal(run("(5)")["result"], "5")
    equal(run("'a;b'  # ;")["result"], "'a;b'")


@check
def variable_result_is_the_result_without_a_last_expression():
    equal(run("result = 2 + 2\nprint('x')")["result"], "4")  # the last expression has no value
    equal(run("result = 2 + 2\n5")["result"], "5")
    equal(run("result = 2 + 2")["result"], "4")
    equal(run("result = 2 + 2", "y = 1")["result"], None)


@check
def result_is_bounded():
    end = run("'x' * 1000000")
    assert len(end["result"]) < 263000, len(end["result"])
    contains(end["result"], "characters cut")


@check
def variables_in_binding_order_without_modules_and_underscores():
    end = run(
        "import os, math as m\nfrom math import pi\nb = 1\n_p = 2\na, (c, *d) = 1, (2, 3)\ndef f(): z = 1\n"
        "class K: q = 1\n"
        "for i in (1,): inner = i\nwith open('/dev/null') as file: pass\nglobals()['dyn'] = 1\ndel b"
    )
    equal(end["variables"], ["pi", "a", "c", "d", "f", "K", "i", "inner", "file", "dyn"])


@check
def rebound_names_are_variables_again():
    with zygote.session() as session:
        session.run("x = 5\ny = 6")
        equal(session.run("x = 5")["variables"], ["x"])
        equal(session.run("y")["variables"], [])


@check
def variables_up_to_the_failure():
    with zygote.session() as session:
        session.run("b = 1")
        equal(session.run("a = 1\n1/0\nb = 2")["variables"], ["a"])


@check
def variables_are_bounded():
    equal(len(run("for i in range(3000): globals()['v%d' % i] = i")["variables"]), 1000)


@check
def deleted_object_is_freed_during_the_run():
    end = run(
        "class Big:\n    def __del__(self): print('freed')\nbig = Big()", "del big\nprint('after')"
    )
    equal(end["stdout"], "freed\nafter\n")


@check
def namespace_is_fresh():
    end = run("sorted(globals())")
    equal(
        eval(end["result"]),
        [
            "__annotations__",
            "__builtins__",
            "__doc__",
            "__loader__",
            "__name__",
            "__package__",
            "__spec__",
        ],
    )
    equal(
        run("import sys\n__name__, sys.argv, sys.modules['__main__'].__dict__ is globals()")[
            "result"
        ],
        "('__main__', [''], True)",
    )


@check
def what_comes_before_an_await_may_make_its_tasks():
    make = "import asyncio\nasync def f(n):\n    await asyncio.sleep(0)\n    return n\n"
    with zygote.session() as session:
        end = session.run(make + "t = [asyncio.create_task(f(n)) for n in (1, 2)]\nawait asyncio.gather(*t)")
        equal((end["cause"], end["result"]), ("ok", "[1, 2]"))
        equal(session.run("n = await f(3)\nt = asyncio.create_task(f(n))\ntype(t).__name__")["result"], "'Task'")
        equal(session.run("asyncio.run(f(4))")["result"], "4")
        end = session.run("def g():\n    1 / 0\ng()\nawait f(5)")
        equal(end["error"]["type"], "ZeroDivisionError")
        equal(end["error"]["traceback"].count("File "), 2)
        equal(session.run("raise SystemExit(6)\nawait f(7)")["exit_code"], 6)


@check
def a_tree_is_made_though_a_finalizer_makes_one_too():
    """CPython 3.11 loses count of its depth then, once."""
    code = "a = [" + ", ".join("(1, [i])" for _ in range(5000)) + "] if 0 else 5\na"
    with zygote.session() as session:
        session.run("import ast, gc\nclass D:\n    def __del__(self): ast.parse('x')\ngc.set_threshold(5000)")
        for _ in range(5):
            equal(session.run("gc.collect()\nd = D(); d.d = d; del d")["cause"], "ok")
            equal(session.run(code)["result"], "5")


@check
def top_level_await_and_one_loop():
    with zygote.session() as session:
        end = session.run(
            "import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 7\nv = await f()\nawait f() + v"
        )
        equal((end["result"], end["variables"]), ("14", ["f", "v"]))
        session.run(
            "loop = asyncio.get_running_loop() if False else None\nasync def g(): return asyncio.get_running_loop()\n"
            "l1 = await g()"
        )
        equal(session.run("(await g()) is l1")["result"], "True")
        equal(session.run("asyncio.run(f())")["result"], "7")
        equal(session.run("(await g()) is l1")["result"], "True")
        equal(session.run("asyncio.get_event_loop() is l1")["result"], "True")


@check
def pending_tasks_survive_between_runs():
    with zygote.session() as session:
        session.run(
            "import asyncio\nlog = []\nasync def w():\n    await asyncio.sleep(0.05)\n    log.append('done')\n"
            "t = asyncio.ensure_future(w())\nawait asyncio.sleep(0)"
        )
        equal(session.run("log")["result"], "[]")
        equal(session.run("await t\nlog")["result"], "['done']")


@check
def async_for_with_and_comprehension():
    end = run(
        "async def gen():\n    for i in range(3): yield i\nout = []\nasync for i in gen(): out.append(i)\n"
        "[i async for i in gen()] + out"
    )
    equal(end["result"], "[0, 1, 2, 0, 1, 2]")


@check
def future_annotations_hold_for_later_runs():
    equal(
        run(
            "from __future__ import annotations",
            "def f(x: undefined_name): pass\nf.__annotations__",
        )["result"],
        "{'x': 'undefined_name'}",
    )


@check
def exits_are_no_exceptions_and_the_session_lives():
    with zygote.session() as session:
        for code, status, text in (
            ("exit()", 0, ""),
            ("import sys; sys.exit(3)", 3, ""),
            ("quit(True)", 1, ""),
            ("sys.exit(-1)", 255, ""),
            ("sys.exit('bye')", 1, "bye\n"),
            ("raise SystemExit", 0, ""),
            ("sys.exit(256)", 0, ""),
            ("sys.exit(2**70)", 255, ""),
            ("async def f(): sys.exit(4)\nawait f()", 4, ""),
        ):
            end = session.run(code)
            equal(
                (end["cause"], end["exit_code"], end["stderr"], end["error"]),
                ("exit", status, text, None),
                code,
            )
        session.run("x = 1\nexit()")
        equal(session.run("x")["result"], "1")


@check
def failing_repr_is_the_runs_error():
    got = error("class R:\n    def __repr__(self): raise ValueError('r')\nR()")
    equal((got["type"], got["line"]), ("ValueError", 2))


@check
def warm_run_leaves_no_trace():
    with zygote.session(started=False) as session:
        end = session.run(
            "x = 1\nprint('hello')\nimport sys; print('e', file=sys.stderr)\ndisplay(5)\n"
            "await __import__('asyncio').sleep(0)\n41 + 1",
            warm=True,
        )
        equal(
            (end["cause"], end["stdout"], end["stderr"], end["variables"], end["displays"]),
            ("ok", "", "", [], []),
        )
        session.start()
        equal(session.run("'x' in globals() or '_' in globals()")["result"], "False")
        equal(
            session.run(
                "import asyncio\nasync def f(): return 1\nasyncio.get_event_loop().run_until_complete(f())"
            )["result"],
            "1",
        )
        equal(session.run("print('real')")["stdout"], "real\n")


@check
def pickling_and_introspection_of_user_classes():
    end = run(
        "import pickle, inspect\nclass P:\n    a = 1\ndef fn():\n    return 5\np = pickle.loads(pickle.dumps(P()))\n"
        "type(p) is P, inspect.getsource(fn)"
    )
    equal(end["result"], "(True, 'def fn():\\n    return 5\\n')")


@check
def module_written_a_moment_ago_is_found():
    end = run(
        "import os, sys, tempfile\nos.chdir(tempfile.mkdtemp(dir='%s'))\ntry:\n    import fresh_mod\nexcept ImportError: pass\n"
        "open('fresh_mod.py', 'w').write('v = 5\\n')" % SCRATCH,
        "import fresh_mod\nfresh_mod.v, os.listdir('.')",
    )
    equal(end["result"], "(5, ['fresh_mod.py'])")


@check
def a_session_with_an_environment_imports_and_starts_programs_from_it():
    tell = (
        "import os, sys\nat = [i for i, one in enumerate(sys.path) if one.startswith('/venv/lib/python')]\n"
        "system = [i for i, one in enumerate(sys.path) if 'dist-packages' in one or one.endswith('site-packages')]\n"
        "(len(at), at == system[:1], os.environ['PATH'].split(':')[0], sys.executable == '/venv/bin/python', "
        "os.environ.get('VIRTUAL_ENV'))"
    )
    with zygote.session(started=False) as session:
        session.start(venv=True)
        equal(session.run(tell)["result"], "(1, True, '/venv/bin', True, '/venv')")
    with zygote.session() as session:
        equal(session.run(tell)["result"], "(1, True, '/venv/bin', False, None)", "without one")


@check
def one_end_for_each_run():
    with zygote.session() as session:
        for code in ("1", "1/0", "exit()", "x = =", "await 1"):
            equal(len(session.run(code)["ends"]), 1, code)


main()
