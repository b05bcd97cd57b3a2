#!/usr/bin/python3
"""Displays: the formats of an object, figures, tables, images, their bounds. The `data` preload
and, where it matters, `basic`.
"""
import base64
import struct
import subprocess

from fake_krait import END, PYTHON, Zygote
from check import check, contains, equal, main, skip

basic = Zygote()
data = None
PNG = b"\x89PNG\r\n\x1a\n"


def need(module):
    if (
        subprocess.run(
            [PYTHON, "-c", "import " + module], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ).returncode
        != 0
    ):
        skip("%s is not installed for %s" % (module, PYTHON))


def data_zygote():
    global data
    if data is None:
        for module in ("numpy", "pandas", "scipy", "matplotlib"):
            need(module)
        data = Zygote("data")
    return data


def run(zygote, *codes, **how):
    with zygote.session() as session:
        for code in codes[:-1]:
            end = session.run(code)
            assert end["cause"] == "ok", end
        return session.run(codes[-1], **how)


def png_size(text):
    raw = base64.b64decode(text, validate=True)
    assert raw.startswith(PNG), raw[:20]
    return struct.unpack(">II", raw[16:24])


@check
def plain_values_are_no_displays():
    for code in ("5", "'text'", "[1, {}]", "object", "None", "print", "lambda: 0"):
        equal(run(basic, code)["displays"], [], code)


@check
def display_is_a_builtin():
    end = run(basic, "display('a', 2)\ndisplay({'text/html': '<b>'}, raw=True)")
    equal(
        [one["data"] for one in end["displays"]],
        [{"text/plain": "'a'"}, {"text/plain": "2"}, {"text/html": "<b>"}],
    )


@check
def every_repr_method_is_a_format():
    code = (
        "class A:\n    def __repr__(self): return 'A!'\n    def _repr_html_(self): return '<i>'\n"
        "    def _repr_markdown_(self): return '# m'\n"
        "    def _repr_latex_(self): return '$x$'\n    def _repr_svg_(self): return '<svg/>'\n"
        "    def _repr_png_(self): return b'\\x89PNG'\n"
        "    def _repr_jpeg_(self): return b'\\xff\\xd8', {'width': 3}\n"
        "    def _repr_json_(self): return {'a': [1, None, float('nan'), 2**70]}\nA()"
    )
    end = run(basic, code)
    equal(end["result"], "A!")
    equal(
        end["displays"],
        [
            {
                "data": {
                    "text/html": "<i>",
                    "text/markdown": "# m",
                    "text/latex": "$x$",
                    "image/svg+xml": "<svg/>",
                    "image/png": "iVBORw==",
                    "image/jpeg": "/9g=",
                    "application/json": {"a": [1, None, None, 2.0**70]},
                    "text/plain": "A!",
                },
                "metadata": {"image/jpeg": {"width": 3}},
            }
        ],
    )


@check
def mimebundle_with_metadata():
    end = run(
        basic,
        "class B:\n    def _repr_mimebundle_(self, **k): return {'text/html': 'h', 'x/y': {'k': 1}, 'z/z': None}, "
        "{'m': 1}\nB()",
    )
    data_ = end["displays"][0]["data"]
    equal(
        (data_["text/html"], data_["x/y"], "z/z" in data_, end["displays"][0]["metadata"]),
        ("h", {"k": 1}, False, {"m": 1}),
    )


@check
def failing_and_odd_methods():
    end = run(
        basic,
        "class F:\n    def _repr_html_(self): raise ValueError('bad')\n    def __repr__(self): return 'F'\nF()",
    )
    equal((end["cause"], end["result"], end["displays"]), ("ok", "F", []))
    contains(end["stderr"], "F._repr_html_ failed: ValueError: bad")
    end = run(basic, "from unittest.mock import MagicMock\nm = MagicMock()\nm")
    equal((end["cause"], end["displays"]), ("ok", []))
    end = run(basic, "class K:\n    def _repr_html_(self): return 'x'\nK")
    equal(end["displays"], [])
    end = run(
        basic,
        "class N:\n    def _repr_json_(self):\n        d = l = []\n        for i in range(500):\n"
        "            l.append([]); l = l[0]\n        return d\nN()",
    )
    contains(end["displays"][0]["data"]["text/plain"], "nested too deep")


@check
def displays_are_bounded_in_size():
    end = run(
        basic,
        "class L:\n    def _repr_html_(self): return 'x' * (13 << 20)\n    def __repr__(self): return 'small'\nL()",
    )
    shown = end["displays"][0]["data"]
    equal(list(shown), ["text/plain"])
    contains(
        shown["text/plain"], "small\n[text/html of 13.6 MB is too large to show, 12 MB at most]"
    )
    end = run(
        basic, "display({'image/png': 'A' * (11 << 20), 'text/html': 'B' * (5 << 20)}, raw=True)"
    )
    equal(sorted(end["displays"][0]["data"]), ["text/html", "text/plain"])


@check
def displays_are_bounded_in_number():
    end = run(basic, "for i in range(1000): display(i)")
    equal(len(end["displays"]), 201)
    contains(end["displays"][200]["data"]["text/plain"], "at most 200")
    with basic.session() as session:
        session.run("for i in range(1000): display(i)")
        equal(len(session.run("display(1)")["displays"]), 1, "the count is one run's")


@check
def unclean_text_in_displays():
    end = run(basic, "display({'text/html': 'a\\ud800\\0'}, raw=True)")
    equal(end["displays"][0]["data"], {"text/html": "a\\ud800\\x00"})


@check
def figure_shown_once_as_png():
    end = run(
        data_zygote(),
        "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.title('t')\nprint('before')\nplt.show()\n"
        "print('after')",
    )
    equal((end["cause"], len(end["displays"]), end["stderr"]), ("ok", 1, ""))
    width, height = png_size(end["displays"][0]["data"]["image/png"])
    assert 300 < width < 900 and 200 < height < 700, (width, height)
    contains(end["displays"][0]["data"]["text/plain"], "<Figure size 640x480")
    kinds = [
        one[0] if isinstance(one[0], str) else "frame" for one in end["order"] if one[0] != END
    ]
    equal([one[1] for one in end["order"] if one[0] == "stdout"], [b"before\n", b"after\n"])
    equal(kinds[:3], ["stdout", "frame", "stdout"])


@check
def figures_left_open_are_sent_and_closed():
    with data_zygote().session() as session:
        end = session.run(
            "import matplotlib.pyplot as plt\nfor i in range(3):\n    plt.figure(); plt.plot([i])"
        )
        equal(len(end["displays"]), 3)
        equal(session.run("plt.get_fignums()")["result"], "[]")
        equal(session.run("1")["displays"], [])
        end = session.run("fig, ax = plt.subplots()\nax.plot([1])\nfig")
        equal(len(end["displays"]), 1, "as the last value and left open: once")
        end = session.run("fig, ax = plt.subplots()\ndisplay(fig)")
        equal(len(end["displays"]), 1)
        end = session.run("fig, ax = plt.subplots()\nfig.show()")
        equal((len(end["displays"]), end["stderr"]), (1, ""))
        end = session.run("fig, ax = plt.subplots()\n1/0")
        equal((end["cause"], len(end["displays"])), ("exception", 1))
        end = session.run("plt.plot([1]); plt.savefig('/dev/null', format='png'); plt.close()")
        equal(end["displays"], [])


@check
def figures_as_svg():
    end = run(data_zygote(), "import matplotlib.pyplot as plt\nplt.plot([1, 2]);", figures="svg")
    contains(end["displays"][0]["data"]["image/svg+xml"], "<svg")


@check
def error_of_the_drawing_is_the_runs_error():
    end = run(data_zygote(), "import matplotlib.pyplot as plt\nplt.title(r'$\\frac$');")
    equal(end["cause"], "exception")
    assert (
        "krait" not in end["error"]["traceback"] and "<figure>" not in end["error"]["traceback"]
    ), end["error"]["traceback"]


@check
def requests_for_other_backends():
    for name in (
        "Agg",
        "TkAgg",
        "Qt5Agg",
        "module://matplotlib_inline.backend_inline",
        "nbagg",
        "WebAgg",
    ):
        end = run(
            data_zygote(),
            "import matplotlib\nmatplotlib.use(%r)\nimport matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()"
            % name,
        )
        equal((end["cause"], len(end["displays"]), end["stderr"]), ("ok", 1, ""), name)
    end = run(
        data_zygote(),
        "import matplotlib.pyplot as plt\nplt.switch_backend('TkAgg')\nplt.plot([1])\nplt.pause(0.01)\n"
        "plt.show(block=False)",
    )
    equal((end["cause"], len(end["displays"])), ("ok", 1))
    end = run(
        data_zygote(),
        "import matplotlib\nmatplotlib.use('pdf')\nimport matplotlib.pyplot as plt\nplt.plot([1])\n"
        "matplotlib.get_backend()",
    )
    equal((end["result"], len(end["displays"])), ("'pdf'", 1))


@check
def large_figures_are_lowered():
    end = run(
        data_zygote(), "import matplotlib.pyplot as plt\nplt.figure(figsize=(200, 200), dpi=200);"
    )
    width, height = png_size(end["displays"][0]["data"]["image/png"])
    assert width * height <= 41_000_000, (width, height)


@check
def cjk_text_is_drawn_without_warnings():
    code = ("import matplotlib.pyplot as plt\nimport matplotlib.font_manager as fm\n"
            "names = {f.name for f in fm.fontManager.ttflist}\n")
    code += "plt.title('中文 日本語 かな')\n"
    end = run(
        data_zygote(),
        code + "'Droid Sans Fallback' in names or 'WenQuanYi Micro Hei' in names",
        "plt.rcParams['font.sans-serif']",
    )
    families = eval(end["result"])
    cjk = [name for name in families if name in ("Droid Sans Fallback", "WenQuanYi Micro Hei")]
    if not cjk:
        skip("no CJK font is installed")
    assert families.index(cjk[0]) == families.index("DejaVu Sans") + 1, families
    for setup in (
        "",
        "plt.rcParams['font.family'] = 'serif'",
        "import matplotlib; matplotlib.rcdefaults()",
        "plt.style.use('ggplot')",
    ):
        end = run(
            data_zygote(),
            "import matplotlib.pyplot as plt\n" + setup + "\nplt.title('中文 日本語 かな')\nplt.show()",
        )
        equal((end["stderr"], len(end["displays"])), ("", 1), setup)
    if "WenQuanYi Micro Hei" in cjk:
        equal(
            run(data_zygote(), "import matplotlib.pyplot as plt\nplt.title('한국어');")["stderr"], ""
        )


@check
def children_get_plain_agg():
    end = run(
        data_zygote(),
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import matplotlib; print(matplotlib.get_backend())'], "
        "capture_output=True, text=True).stdout",
    )
    equal(end["result"].lower(), "'agg\\n'")


@check
def matplotlib_in_the_basic_preload():
    need("matplotlib")
    with basic.session() as session:
        equal(
            session.run(
                "import sys\n[m for m in sys.modules if 'matplotlib' in m or m == 'numpy']"
            )["result"],
            "[]",
        )
        end = session.run(
            "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()", timeout=120
        )
        equal((end["cause"], len(end["displays"])), ("ok", 1))


@check
def data_frames_are_tables():
    end = run(
        data_zygote(), "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2], 'b': ['x', 'é']})\ndf"
    )
    contains(end["displays"][0]["data"]["text/html"], "<table")
    equal(
        (end["result"], end["displays"][0]["data"]["text/plain"]),
        ("   a  b\n0  1  x\n1  2  é",) * 2,
    )
    end = run(data_zygote(), "import pandas as pd\npd.Series([1, 2])")
    equal(end["displays"], [])


@check
def pillow_images():
    need("PIL")
    for mode in ("RGB", "L", "RGBA", "CMYK", "F", "1", "P"):
        end = run(basic, "from PIL import Image\nImage.new(%r, (7, 5))" % mode)
        equal(
            (end["cause"], png_size(end["displays"][0]["data"]["image/png"])), ("ok", (7, 5)), mode
        )
    end = run(basic, "from PIL import Image\nImage.new('L', (3, 2)).show()")
    equal(png_size(end["displays"][0]["data"]["image/png"]), (3, 2))


@check
def plotly_figures():
    need("plotly")
    end = run(
        basic,
        "import plotly.graph_objects as go\nfig = go.Figure(go.Bar(y=[1, 2]), layout={'title': 'T'})\nfig.show()\n"
        "fig.show(renderer='browser')\nfig",
        timeout=120,
    )
    equal((end["cause"], len(end["displays"]), end["stderr"]), ("ok", 3, ""))
    shown = end["displays"][0]["data"]
    equal(sorted(shown), ["application/vnd.plotly.v1+json", "text/plain"])
    equal(
        (shown["application/vnd.plotly.v1+json"]["data"][0]["type"], shown["text/plain"]),
        ("bar", "plotly figure 'T': bar"),
    )
    equal(end["result"], "plotly figure 'T': bar")


@check
def ipython_display_module():
    need("IPython")
    end = run(
        basic,
        "from IPython.display import display, HTML, Markdown, Image, clear_output\nclear_output()\n"
        "display(HTML('<b>'))\nMarkdown('# m')",
        timeout=120,
    )
    equal(
        [sorted(one["data"]) for one in end["displays"]],
        [["text/html", "text/plain"], ["text/markdown", "text/plain"]],
    )


main()
