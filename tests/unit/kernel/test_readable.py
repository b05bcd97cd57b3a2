#!/usr/bin/python3
"""Displays as a model reads them: texts of HTML, Markdown and JSON, frames with shape and dtypes.
Each has a control: a run that is not for a model has the formats as before.
"""
import subprocess
import time

from fake_krait import PYTHON, Zygote
from check import check, contains, equal, main, skip

READABLE = "text/vnd.krait.readable"
basic = Zygote()
data = None


def need(module):
    if subprocess.run([PYTHON, "-c", "import " + module], stderr=subprocess.DEVNULL).returncode != 0:
        skip("%s is not installed for %s" % (module, PYTHON))


def data_zygote():
    global data
    if data is None:
        for module in ("numpy", "pandas", "scipy", "matplotlib"):
            need(module)
        data = Zygote("data")
    return data


def run(code, zygote=basic, **how):
    how = {"readable": True, "figure_px": 1568, "timeout": 120, **how}
    with zygote.session() as session:
        end = session.run(code, **how)
    equal((end["cause"], end["stderr"]), ("ok", ""), str(end["error"]))
    return end


def text_of(code, **how):
    """What a model reads of the one display."""
    shown = run(code, **how)["displays"]
    equal(len(shown), 1)
    return shown[0]["data"].get(READABLE)


def html(text):
    return text_of("display({'text/html': %r, 'text/plain': '<H object>'}, raw=True)" % text)


@check
def runs_for_others_have_no_text_of_ours():
    code = "display({'text/html': '<b>x</b>', 'text/markdown': '# m'}, raw=True)"
    for how in ({"readable": False}, {}):
        shown = run(code, **{"readable": False, **how})["displays"][0]["data"]
        equal(shown, {"text/html": "<b>x</b>", "text/markdown": "# m"})
    equal(text_of(code), "# m")


@check
def the_rich_form_stays():
    shown = run("display({'text/html': '<p>a</p><p>b</p>'}, raw=True)")["displays"][0]["data"]
    equal(shown, {"text/html": "<p>a</p><p>b</p>", READABLE: "a\nb"})


@check
def markdown_and_json_are_text():
    equal(text_of("display({'text/markdown': '# T\\n- a'}, raw=True)"), "# T\n- a")
    equal(text_of("display({'application/json': {'a': [1, None]}}, raw=True)"), '{"a":[1,null]}')
    long = text_of("display({'application/json': {'k%02d' % i: 'é' * 9 for i in range(20)}}, raw=True)")
    contains(long, '{\n "k00": "ééééééééé",\n "k01"')


@check
def tables_become_markdown_tables():
    equal(
        html(
            "<style>td {color: red}</style><table><thead><tr><th></th><th>a</th><th>b|c</th></tr></thead>"
            "<tbody><tr><th>0</th><td>1</td><td>x &amp; y</td></tr><tr><th>1</th><td> 2 </td></tr></table>"
        ),
        "|  | a | b\\|c |\n|---|---|---|\n| 0 | 1 | x & y |\n| 1 | 2 |  |",
    )
    equal(
        html("<table><tr><td colspan=2>w</td><td>e</td><tr><td rowspan=2>t<td>1<td>2<tr><td>3<td>4</table>after"),
        "| w |  | e |\n|---|---|---|\n| t | 1 | 2 |\n|  | 3 | 4 |\nafter",
    )
    equal(html("<table><tr><td>lays</td></tr><tr><td>out</td></tr></table>"), "lays\nout")
    inner = "<table><tr><td>in</td><td>side</td></tr></table>"
    contains(html("<table><tr><td>a</td><td>%s</td></tr></table>" % inner), "| a | \\| in \\| side \\|")


@check
def tables_are_bounded():
    rows = "".join("<tr><td>%d</td><td>x</td></tr>" % i for i in range(500))
    text = html("<table>%s</table>" % rows)
    assert text.endswith("| 99 | x |\n[100 of 500 rows]"), text[-60:]
    wide = html("<table><tr>%s</tr></table>" % ("<td>y</td>" * 5000))
    assert wide.split("\n")[0].count("y") == 50, wide[:200]
    contains(html("<table><tr><td>%s</td><td>b</td></tr></table>" % ("z" * 9000)), "z… | b |")


@check
def other_html_is_its_text():
    equal(
        html(
            "<!DOCTYPE html><!-- no --><head><title>t</title></head><body><h2>Head</h2><p>one <b>bold</b>\n  word</p>"
            "<script>var no = '</p>';</script><ul><li>a</li><li>b</li></ul><pre>x  =\n  1</pre>"
            "<a href='https://e.org/?a=1&amp;b'>link</a><br><img alt='a cat' src=x> 1 &lt; 2 < 3</body>"
        ),
        "## Head\none bold word\n- a\n- b\nx  =\n  1\nlink (https://e.org/?a=1&b)\n[image: a cat] 1 < 2 < 3",
    )
    contains(html("<div id='b'></div><script>draw()</script>"), "[HTML of 41 characters without text: it draws in a ")
    for odd in ("<", "<<<", "<p", "a<p title='", "<!--", "</", "<p>\0", "&#xffffffff;", "<table><td>", "</table></td>"):
        run("display({'text/html': %r}, raw=True)" % odd)


@check
def a_telling_repr_is_kept():
    method = "class T:\n    def __repr__(self): return %r\n    def _repr_html_(self): return %r\nT()"
    table = "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"
    end = run(method % ("Model(depth=3)", "<div>a diagram</div>"))
    equal((end["result"], READABLE in end["displays"][0]["data"]), ("Model(depth=3)", False))
    end = run(method % ("T of 1", table))
    equal(end["result"], "T of 1\n| a | b |\n|---|---|\n| 1 | 2 |")
    equal(end["displays"][0]["data"][READABLE], end["result"])
    equal(end["displays"][0]["data"]["text/plain"], "T of 1")
    equal(run(method % ("a b\n1 2", table))["result"], "a b\n1 2")
    equal(run("class H:\n    def _repr_html_(self): return '<i>x</i> y'\nH()")["result"], "x y")


@check
def hostile_html_takes_linear_time():
    """Twice the input takes about twice the time; a quadratic reader takes four times as long, and
    minutes for these.
    """
    htmltext = load_htmltext()
    for piece in ("<", "<a ", "<!--", "<a \">\" ", "<a '\">", "<table>", "<table><tr><td>", "&", "<p/", "</", "<!", "<td colspan=50>",
                  "<a href=\"x\" ", "<li>"):
        took = []
        for count in (40_000, 160_000):
            begun = time.process_time()
            htmltext.to_text((piece * count)[: 1 << 20] + "'")
            took.append(time.process_time() - begun)
        assert took[1] < 9 * took[0] + 1, (piece, took)


def load_htmltext():
    import importlib.util

    spec = importlib.util.spec_from_file_location("htmltext", "src/kernel/python/htmltext.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@check
def long_html_is_cut_and_said():
    text = html("<p>%s</p>" % ("word " * 300_000))
    contains(text, "characters cut")
    contains(text, "[of 1500007 characters of HTML 1048576 are read]")
    assert len(text) < 26_000, len(text)


@check
def user_code_that_breaks_things_gets_the_formats():
    end = run("import sys\nsys.meta_path.clear()\ndisplay({'text/html': '<b>x'}, raw=True)")
    equal(end["displays"][0]["data"], {"text/html": "<b>x"})
    end = run("import re\nre.compile = None\nimport html\nhtml.unescape = None\ndisplay({'text/html': '<b>x'}, raw=True)")
    equal(end["displays"][0]["data"]["text/html"], "<b>x")


@check
def plain_runs_import_nothing():
    with basic.session() as session:
        end = session.run("print(1)\n2", readable=True)
        equal(end["result"], "2")
        end = session.run("import sys\n[m for m in sys.modules if 'krait_kernel.readable' in m]", readable=True)
        equal(end["result"], "[]")


@check
def frames_tell_shape_and_dtypes():
    code = "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2], 'b': ['x', 'é'], 'c': [3, 4]})\ndf"
    line = "[2 rows x 3 columns; int64 a, c; object b]"
    end = run(code, zygote=data_zygote())
    equal(end["result"], "   a  b  c\n0  1  x  3\n1  2  é  4\n" + line)
    equal(end["displays"][0]["data"][READABLE], end["result"])
    equal(end["displays"][0]["data"]["text/plain"], "   a  b  c\n0  1  x  3\n1  2  é  4")
    end = run(code, zygote=data_zygote(), readable=False)
    equal(end["result"], "   a  b  c\n0  1  x  3\n1  2  é  4")
    end = run("import pandas as pd\npd.DataFrame({'a': range(500)})", zygote=data_zygote())
    assert end["result"].endswith("[500 rows x 1 columns]\n[dtypes: int64 a]"), end["result"][-100:]
    end = run("import pandas as pd\npd.DataFrame()", zygote=data_zygote())
    contains(end["result"], "[0 rows x 0 columns]")
    end = run("import pandas as pd\npd.DataFrame([range(300)])", zygote=data_zygote())
    contains(end["result"], "[dtypes: int64 ×300]")


@check
def frames_show_their_columns():
    code = "import pandas as pd\ndf = pd.DataFrame({'column_%02d' % i: [i * 1000] for i in range(40)})\nprint(df)"
    for zygote in (data_zygote(), basic):
        for readable in (True, False):
            end = run(code, zygote=zygote, readable=readable)
            missing = [i for i in range(40) if "column_%02d" % i not in end["stdout"]]
            equal((missing, max(map(len, end["stdout"].split("\n"))) <= 200), ([], True))
    end = run(code + "\ndf", zygote=data_zygote())
    contains(end["result"], "column_39")
    contains(end["result"], "[1 rows x 40 columns; int64 ×40]")
    end = run("import pandas as pd\npd.set_option('display.max_columns', 4)\n" + code, zygote=data_zygote())
    assert "column_20" not in end["stdout"] and "..." in end["stdout"], end["stdout"]


main()
