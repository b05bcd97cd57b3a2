#!/usr/bin/python3
"""Rich output as a model reads it, through real connections and in real cells: Markdown, JSON, HTML, SVG, plotly
figures, images past a limit. The formats themselves stay for REST."""
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
from check import check, contains, equal, skip  # noqa: E402
from executing import client, eras, images, last_run, run, said, serve, size_of, state, text  # noqa: E402
from mcp import Http  # noqa: E402

TABLE = "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>x</td></tr></table>"
READABLE = "text/vnd.krait.readable"


def show(bundle: dict) -> str:
    return "display(%r, raw=True)" % bundle


def need(found: bool, what: str) -> None:
    if not found:
        skip("no %s" % what)


def need_module(c, name: str) -> None:
    need("[result] True" in said(c, "import importlib.util\nimportlib.util.find_spec(%r) is not None" % name), name)


@eras
def markdown_json_and_html_are_text(c):
    equal(said(c, show({"text/markdown": "# T\n- a"})), "# T\n- a")
    equal(said(c, show({"application/json": {"a": [1, None]}})), '{"a":[1,null]}')
    equal(said(c, show({"text/html": "<p>one<p>two <b>words</b>"})), "one\ntwo words")
    equal(said(c, show({"text/html": TABLE})), "| a | b |\n|---|---|\n| 1 | x |")


@check
def the_result_is_the_text_once():
    with client("modern") as c:
        code = "class H:\n    def _repr_html_(self): return %r\nH()" % TABLE
        equal(said(c, code), "[result]\n| a | b |\n|---|---|\n| 1 | x |")
        # the formats are in the run, for REST and the page
        displays = state.server.get("/api/v1/runs/%s?stream=false" % last_run()["run_id"])
        contains(displays.text, "<table>")


@check
def rest_has_the_text_when_asked():
    with_text = state.server.run(show({"text/html": TABLE}), readable=True)
    equal(with_text["displays"][0]["data"], {"text/html": TABLE, READABLE: "| a | b |\n|---|---|\n| 1 | x |"})
    equal(state.server.run(show({"text/html": TABLE}))["displays"][0]["data"], {"text/html": TABLE})


@check
def svg_is_an_image():
    need(os.path.exists("/usr/bin/rsvg-convert"), "rsvg-convert")
    svg = "<svg xmlns='http://www.w3.org/2000/svg' width='400' height='300'><circle cx='50' cy='50' r='40'/></svg>"
    with client("modern") as c:
        result = run(c, show({"image/svg+xml": svg}))
        equal([size_of(one) for one in images(result)], [(400, 300)])
        equal(result["content"][0], {"type": "text", "text": "[figure 400x300; drawn from SVG]"})
        # one that multiplies without end neither holds the run up nor ends it
        groups = "".join("<g id='g%d'>%s</g>" % (n, "<use href='#g%d'/>" % (n - 1) * 10 if n else "<rect/>")
                         for n in range(30))
        result = run(c, show({"image/svg+xml": svg.replace("<circle", groups + "<use href='#g29'/><circle")})
                     + "\nprint('on')", timeout=100, token="t")
        contains(text(result), "on")
        assert "isError" not in result


@check
def plotly_figures_are_images():
    with client("modern") as c:
        for module in ("plotly", "matplotlib"):
            need_module(c, module)
        code = "import plotly.graph_objects as go\nfig = go.Figure(go.Bar(x=['a', 'b'], y=[1, 2]), layout={'title': 'Sales'})\n"
        result = run(c, code + "fig.show()", timeout=100, token="t")
        equal(len(images(result)), 1)
        contains(text(result), "preview by matplotlib of a plotly figure 'Sales', bar (2 points)")
        result = run(c, "import plotly.graph_objects as go\ngo.Figure(go.Surface(z=[[1]]))", timeout=100, token="t")
        equal(images(result), [])
        contains(text(result), "surface (1 rows); not drawn here")


@check
def a_figure_past_the_limit_is_made_smaller():
    with client("modern") as c:
        for module in ("PIL", "matplotlib"):
            need_module(c, module)
        code = "from PIL import Image\nimport os\nn = 1500\nfor i in range(4):\n    " \
               "display(Image.frombytes('RGB', (n, n), os.urandom(3 * n * n)))"
        result = run(c, code, timeout=100, token="t")
        equal(len([b for b in result["content"] if b["type"] == "image"]), 4)
        assert "left out" not in text(result), text(result)
        contains(text(result), "made smaller: it was 1500x1500, ")
        code = "import matplotlib.pyplot as plt, numpy as np\nplt.figure(figsize=(15, 15))\n" \
               "plt.imshow(np.random.rand(1400, 1400, 3))\nplt.show()"
        result = run(c, code, timeout=100, token="t")
        equal(len([b for b in result["content"] if b["type"] == "image"]), 1)
        contains(text(result), "made smaller")


@eras
def the_first_block_is_text(c):
    """Adapters read content[0].text: an image in that place is an exception there."""
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
    result = run(c, show({"image/png": png}))
    equal([b["type"] for b in result["content"]], ["text", "image"])
    equal(result["content"][0]["text"], "[figure 1x1]")


@check
def clients_that_read_the_first_block_are_told_what_a_figure_shows():
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9], label='sq')\nplt.title('Growth')\nplt.xlabel('t')\nplt.show()"
    for era in ("legacy", "modern", "stdio"):
        for name, told in (("mcp", True), ("test", False)):
            with client(era, name=name) as c:
                need_module(c, "matplotlib")
                result = run(c, code, timeout=100, token="t")
                equal([b["type"] for b in result["content"]], ["text", "image"])
                first = result["content"][0]["text"]
                equal("[it shows: axes 'Growth', x 't' " in first and "1 lines" in first, told, first)


@check
def documents_keep_their_habits():
    """Runs of the documents' tools have displays as they are."""
    with client("modern") as c:
        code = "class H:\n    def __repr__(self): return 'H!'\n    def _repr_html_(self): return %r\nH()" % TABLE
        contains(said(c, code), "| a | b |")
        result = c.tool("execute_python_code", {"code": code})
        contains(text(result), "H!")
        assert "| a |" not in text(result), text(result)


PROGRESS = (
    "import sys, time\nfor i in range(0, 101, 5):\n    sys.stdout.write('\\r%3d%%|%s|' % (i, '#' * (i // 10)))\n"
    "    sys.stdout.flush()\n    time.sleep(0.01)\nprint()\nprint('trained')\n"
    "sys.stderr.write('a\\rb\\rlast\\n');"
)


@eras
def progress_is_its_last_state(c):
    equal(said(c, PROGRESS), "100%|##########|\ntrained\n[STDERR]:\nlast")
    # as written for REST, whole pieces or not
    done = state.server.run(PROGRESS)
    equal((done["stdout"].count("\r"), done["stderr"]), (21, "a\rb\rlast\n"))


@check
def much_progress_leaves_room_for_the_rest():
    """More than a model is shown, as it was written; and a cut that names where to go on."""
    with client("modern") as c:
        code = "for i in range(4000):\n    print('\\r%5d of 4000 steps' % i, end='')\nprint('\\nmean 3.5')"
        equal(said(c, code), " 3999 of 4000 steps\nmean 3.5")
        code = ("for i in range(300):\n    print('\\rstep %d' % i, end='')\nprint()\n"
                "for i in range(3000): print('line %04d' % i)")
        shown = said(c, code)
        contains(shown, "step 299\nline 0000\n")
        named = re.search(r'read_run\(run_id="(\w+)", from=(\d+)\)', shown)
        first = shown[: shown.index("[…")].rstrip().splitlines()[-1]
        page = c.text("read_run", run_id=named[1], **{"from": int(named[2])})
        contains(page, "%s\nline %04d\n" % (first, int(first[5:]) + 1))


@check
def structure_has_the_last_state_too():
    with Http(state.server.port, path="/mcp?structured=1", rev="2025-06-18") as c:
        equal(run(c, PROGRESS)["structuredContent"]["stdout"], "100%|##########|\ntrained\n")


if __name__ == "__main__":
    serve()
