#!/usr/bin/python3
"""stdout, stderr and stdin of a session: order, encoding, what user code may do to them, input
by frames.
"""
from fake_krait import DISPLAY, END, INPUT, Zygote
from check import check, contains, equal, main

zygote = Zygote()


def run(*codes, **how):
    with zygote.session() as session:
        for code in codes[:-1]:
            session.run(code)
        return session.run(codes[-1], **how)


def merged(end):
    """The order in which things arrived: runs of bytes of one stream, and frames by type."""
    told = []
    for one in end["order"]:
        if one[0] in ("stdout", "stderr"):
            if told and told[-1][0] == one[0]:
                told[-1] = (one[0], told[-1][1] + one[1])
            else:
                told.append((one[0], one[1]))
        else:
            told.append((one[0],))
    return told


@check
def order_between_the_streams_is_kept():
    code = ("import sys\nfor i in range(20):\n    print('o', i)\n    print('e', i, file=sys.stderr)\n"
            "    sys.stdout.buffer.write(b'b\\n')\n")
    end = run(code)
    expected = []
    for i in range(20):
        expected += [
            ("stdout", b"o %d\n" % i if i == 0 else b"b\no %d\n" % i),
            ("stderr", b"e %d\n" % i),
        ]
    equal([one for one in merged(end) if one != (END,)], expected + [("stdout", b"b\n")])


@check
def unfinished_line_comes_before_the_other_stream():
    got = merged(run("import sys\nprint('a', end='')\nprint('b', file=sys.stderr)"))
    equal([one for one in got if one != (END,)], [("stdout", b"a"), ("stderr", b"b\n")])


@check
def display_and_input_come_after_the_output_before_them():
    end = run("print('a', end='')\ndisplay('x')\nprint('b')\ninput('p')", replies=[{"text": "t"}])
    equal(merged(end)[:4], [("stdout", b"a"), (DISPLAY,), ("stdout", b"b\n"), (INPUT,)])


@check
def any_text_can_be_printed():
    equal(
        run("print('é中\\U0001f600', '\\ud800', 'a\\0b')")["stdout"], "é中\U0001f600 \\ud800 a\0b\n"
    )


@check
def large_output_is_whole():
    equal(
        len(
            run(
                "print('x' * 3_000_000)\nimport sys\nfor i in range(20000): sys.stdout.write('0123456789\\n')"
            )["stdout"]
        ),
        3_000_001 + 220_000,
    )


@check
def stream_objects_look_like_pythons():
    end = run(
        "import sys, io\n[isinstance(sys.stdout, io.TextIOBase), sys.stdout.encoding, sys.stdout.isatty(), "
        "sys.stdout.fileno(), sys.stderr.fileno(),"
        " sys.stdout.name, sys.stdout.writable(), sys.stdout.errors, sys.__stdout__ is sys.stdout, sys.stdin.fileno(), "
        "sys.stdout.mode]"
    )
    equal(
        end["result"],
        "[True, 'utf-8', False, 1, 2, '<stdout>', True, 'backslashreplace', True, 0, 'w']",
    )


@check
def bytes_through_the_buffer():
    equal(
        run(
            "import sys\nsys.stdout.buffer.write(b'raw\\n')\nsys.stdout.buffer.flush()\nprint('text')"
        )["stdout"],
        "raw\ntext\n",
    )


@check
def reconfigure_works():
    equal(
        run("import sys\nsys.stdout.reconfigure(encoding='ascii', errors='replace')\nprint('é')")[
            "stdout"
        ],
        "?\n",
    )


@check
def closed_stdout_raises_and_is_fresh_in_the_next_run():
    with zygote.session() as session:
        end = session.run("import sys\nsys.stdout.close()\nprint('x')")
        equal(
            (end["error"]["type"], end["error"]["message"]),
            ("ValueError", "I/O operation on closed file."),
        )
        equal(session.run("print('back')")["stdout"], "back\n")
        equal(session.run("sys.stdout is sys.__stdout__")["result"], "True")
        session.run("sys.stderr.close()")
        equal(session.run("print('e', file=sys.stderr)")["stderr"], "e\n")
        session.run("sys.stdout.detach()")
        equal(session.run("print('again')")["stdout"], "again\n")
        session.run("sys.stdout = None")
        equal(session.run("print('none')")["stdout"], "none\n")
        session.run("del sys.stdout, sys.stderr")
        equal(session.run("print('deleted')")["stdout"], "deleted\n")


@check
def closed_descriptor_is_back_in_the_next_run():
    with zygote.session() as session:
        end = session.run("import os\nos.close(1)\nprint('x')")
        equal(end["error"]["type"], "OSError")
        contains(session.run("print('back')")["stdout"], "back\n")
        session.run(
            "fd = os.open('/dev/null', os.O_WRONLY)\nos.dup2(fd, 1)\nos.dup2(fd, 2)\nprint('lost')"
        )
        equal(
            session.run("print('mine again')\nos.system('echo child')")["stdout"],
            "mine again\nchild\n",
        )


@check
def replaced_stdout():
    with zygote.session() as session:
        end = session.run(
            "import io, contextlib, sys\nb = io.StringIO()\nwith contextlib.redirect_stdout(b):\n    print('in')\n"
            "print('out')\nb.getvalue()"
        )
        equal((end["stdout"], end["result"]), ("out\n", "'in\\n'"))
        session.run(
            "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\nprint('wrapped', end='')"
        )
        session.run(
            "class Bad:\n    def write(self, s): raise ZeroDivisionError\n"
            "    def flush(self): raise ZeroDivisionError\nsys.stdout = Bad()"
        )
        end = session.run("5")
        equal((end["cause"], end["result"]), ("ok", "5"))
        equal(session.run("print(1)")["error"]["type"], "ZeroDivisionError")
        equal(session.run("sys.stdout = sys.__stdout__\nprint('ok')")["stdout"], "ok\n")


@check
def wrapped_buffer_is_flushed_at_the_end():
    equal(
        run(
            "import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\nprint('wrapped')"
        )["stdout"],
        "wrapped\n",
    )


@check
def children_write_in_order():
    equal(
        run(
            "import os, subprocess\nprint('a')\nos.system('echo b')\nprint('c')\nsubprocess.run(['echo', 'd'])\n"
            "print('e')"
        )["stdout"],
        "a\nb\nc\nd\ne\n",
    )


@check
def print_from_threads():
    end = run(
        "import threading, sys\ndef f(n):\n    for i in range(200): print(n, i, file=(sys.stdout, sys.stderr)[i % 2])\n"
        "ts = [threading.Thread(target=f, args=(n,)) for n in range(4)]\n[t.start() for t in ts]\n"
        "[t.join() for t in ts];",
        timeout=60,
    )
    equal(end["cause"], "ok")
    equal((len(end["stdout"].splitlines()), len(end["stderr"].splitlines())), (400, 400))


@check
def input_asks_by_frames():
    end = run(
        "a = input('name? ')\nb = input()\nimport getpass\nc = getpass.getpass('secret: ')\n(a, b, c)",
        replies=[{"text": "Zoë"}, {"text": ""}, {"text": "pw"}],
    )
    equal(end["result"], "('Zoë', '', 'pw')")
    equal(
        end["inputs"],
        [
            {"prompt": "name? ", "password": False},
            {"prompt": "", "password": False},
            {"prompt": "secret: ", "password": True},
        ],
    )


@check
def input_at_the_end():
    end = run(
        "try:\n    input()\nexcept EOFError as e:\n    print(e)\ninput('p')",
        replies=[{"eof": True}, {"eof": True}],
    )
    equal((end["stdout"], end["error"]["type"]), ("EOF when reading a line\n", "EOFError"))
    equal(end["error"]["traceback"].count("File"), 1)


@check
def stdin_as_a_file_asks_by_frames():
    lines = [
        {"text": "1"},
        {"text": "2"},
        {"text": "3"},
        {"eof": True},
        {"text": "4"},
        {"eof": True},
        {"text": "5"},
    ]
    end = run(
        "import sys\na = sys.stdin.readline()\nb = [l for l in sys.stdin]\nc = sys.stdin.read()\n"
        "d = sys.stdin.buffer.readline()\n(a, b, c, d)",
        replies=lines,
    )
    equal(end["result"], "('1\\n', ['2\\n', '3\\n'], '4\\n', b'5\\n')")


@check
def stdin_that_came_with_the_run():
    with zygote.session() as session:
        end = session.run(
            "import sys\na = input('? ')\nb = sys.stdin.read(1)\nc = input()\ntry:\n    input()\nexcept EOFError:\n"
            "    d = 'eof'\n(a, b, c, d)",
            stdin="one\ntwo\n",
        )
        equal(
            (end["result"], end["inputs"], end["stdout"]), ("('one', 't', 'wo', 'eof')", [], "? ")
        )
        equal(session.run("sys.stdin.read(2)", stdin="abcdef")["result"], "'ab'")
        equal(session.run("sys.stdin.read()", stdin="xy")["result"], "'xy'")
        equal(session.run("input()", replies=[{"text": "frame"}])["result"], "'frame'")


@check
def replaced_or_closed_stdin():
    with zygote.session() as session:
        equal(
            session.run("import io, sys\nsys.stdin = io.StringIO('own\\n')\ninput('p')")["result"],
            "'own'",
        )
        session.run("sys.stdin = sys.__stdin__\nexit()")  # exit() closes it
        equal(session.run("input()", replies=[{"text": "t"}])["result"], "'t'")


@check
def input_from_a_thread_is_refused():
    end = run(
        "import threading\nr = []\ndef f():\n    try: input()\n    except Exception as e: r.append(str(e))\n"
        "t = threading.Thread(target=f); t.start(); t.join()\nr"
    )
    equal(
        (end["result"], end["inputs"]),
        ("['a session can ask for input only in its main thread']", []),
    )


@check
def output_between_runs_is_not_lost():
    with zygote.session() as session:
        session.run(
            "import threading, time\ndef f():\n    time.sleep(0.2)\n    print('late')\n    display('x')\n"
            "threading.Thread(target=f).start()"
        )
        end = session.run("time.sleep(0.5)")
        equal(end["stdout"], "late\n")


main()
