#!/usr/bin/python3
"""Pictures for a model: SVG and plotly figures drawn as PNG, images made to fit, what is said of
them. Controls: a run that is not for a model has what it had.
"""
import base64
import os
import struct
import subprocess

from fake_krait import PYTHON, Zygote
from check import check, contains, equal, main, skip

READABLE = "text/vnd.krait.readable"
SVG = (
    "<svg xmlns='http://www.w3.org/2000/svg' width='400' height='200'><rect width='400' height='200' fill='red'/>"
    "<text x='5' y='20'>words</text></svg>"
)
PNG = b"\x89PNG\r\n\x1a\n"
zygotes = {}


def zygote(preload="basic"):
    if preload not in zygotes:
        zygotes[preload] = Zygote(preload)
    return zygotes[preload]


def need(module):
    if subprocess.run([PYTHON, "-c", "import " + module], stderr=subprocess.DEVNULL).returncode != 0:
        skip("%s is not installed for %s" % (module, PYTHON))


def need_renderer():
    if not os.path.exists("/usr/bin/rsvg-convert"):
        skip("rsvg-convert is not installed")


def run(code, preload="basic", **how):
    how = {"readable": True, "figure_px": 1568, "figure_bytes": 4 << 20, "timeout": 240, **how}
    with zygote(preload).session() as session:
        end = session.run(code, **how)
    equal((end["cause"], end["stderr"]), ("ok", ""), str(end["error"]))
    return [one["data"] for one in end["displays"]]


def show(bundle, **how):
    return run("display(%r, raw=True)" % bundle, **how)[0]


def size_of(shown):
    raw = base64.b64decode(shown["image/png"], validate=True)
    assert raw.startswith(PNG), raw[:20]
    return struct.unpack(">II", raw[16:24])


@check
def svg_is_drawn():
    need_renderer()
    shown = show({"image/svg+xml": SVG})
    equal((size_of(shown), shown["image/svg+xml"]), ((400, 200), SVG))
    equal(shown[READABLE], "[figure 400x200; drawn from SVG]")
    equal(sorted(show({"image/svg+xml": SVG}, readable=False)), ["image/svg+xml"])


@check
def svg_has_a_fitting_size():
    need_renderer()
    box = "<svg xmlns='http://www.w3.org/2000/svg' %s><circle cx='5' cy='5' r='4'/></svg>"
    for given, expected in (
        ("width='20' height='10'", (300, 150)),
        ("viewBox='0 0 900 300'", (900, 300)),
        ("width='90000' height='45000'", (1568, 784)),
        ("width='10cm' height='5cm'", (378, 189)),
        ("width='1e99' height='1'", None),
        ("", None),
    ):
        shown = show({"image/svg+xml": box % given})
        if expected:
            equal(size_of(shown), expected, given)
        elif "image/png" in shown:
            assert max(size_of(shown)) <= 1568, given


@check
def svg_in_html_is_drawn():
    need_renderer()
    bare = SVG.replace(" xmlns='http://www.w3.org/2000/svg'", "")
    equal(size_of(show({"text/html": "<div>%s</div>" % bare})), (400, 200))
    shown = show({"text/html": "<p>a report</p>" + bare})
    equal(shown.get(READABLE, "").split("\n")[0], "a report")


@check
def svg_that_cannot_be_drawn_is_told_in_words():
    need_renderer()
    shown = show({"image/svg+xml": "<svg><text>half"})
    assert "image/png" not in shown
    contains(shown[READABLE], "[SVG of 15 characters, not drawn: ")
    contains(shown[READABLE], "\nhalf")


@check
def hostile_svg_ends():
    """Entities that multiply, a filter that wants all memory, patterns within patterns, a file of the machine."""
    need_renderer()
    laughs = "<!DOCTYPE svg [<!ENTITY a0 'ha'>%s]><svg xmlns='http://www.w3.org/2000/svg'><text>&a9;</text></svg>" % (
        "".join("<!ENTITY a%d '%s'>" % (n, "&a%d;" % (n - 1) * 10) for n in range(1, 10))
    )
    deep = "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'>%s<use href='#g29'/></svg>" % "".join(
        "<g id='g%d'>%s</g>" % (n, "<use href='#g%d'/>" % (n - 1) * 10 if n else "<rect width='1' height='1'/>")
        for n in range(30)
    )
    for svg in (laughs, deep):
        shown = show({"image/svg+xml": svg})
        assert "image/png" in shown or "not drawn" in shown[READABLE], shown
    page = "<svg xmlns='http://www.w3.org/2000/svg' width='40' height='40'>%s</svg>"
    plain = show({"image/svg+xml": page % ""})
    secret = show({"image/svg+xml": page % "<image href='file:///usr/share/pixmaps/debian-logo.png' width='40' height='40'/>"})
    equal(secret["image/png"], plain["image/png"])


@check
def without_a_renderer_the_text_says_how():
    code = "import os\nos.access = lambda *a, **k: False\ndisplay({'image/svg+xml': %r}, raw=True)" % SVG
    shown = run(code)[0]
    equal(
        shown[READABLE],
        "[SVG of %d characters, not drawn: rsvg-convert is not installed (Debian: librsvg2-bin)]\nwords" % len(SVG),
    )


# ---- images that fit ---------------------------------------------------------------------------


@check
def images_past_the_limit_are_made_smaller():
    need("PIL")
    code = "from PIL import Image\nimport os\nn = 1400\nImage.frombytes('RGB', (n, n), os.urandom(3 * n * n))"
    shown = run(code)[0]
    kind = next(one for one in ("image/jpeg", "image/png") if one in shown)
    assert len(shown[kind]) <= 2 << 20, len(shown[kind])
    contains(shown[READABLE], "made smaller: it was 1400x1400, ")
    shown = run(code, readable=False)[0]
    assert len(shown["image/png"]) > 5 << 20
    shown = run(code, figure_bytes=0)[0]
    assert len(shown["image/png"]) > 5 << 20
    for mode, depth in (("RGBA", 4), ("L", 1)):
        odd = code.replace("'RGB'", repr(mode)).replace("3 * n", "%d * n" % depth)
        shown = run(odd, figure_bytes=400 << 10)[0]
        assert len(shown["image/jpeg"]) <= 200 << 10 and "image/png" not in shown, mode


@check
def all_figures_of_a_run_fit_together():
    need("PIL")
    code = (
        "from PIL import Image\nimport os\nn = 300\nfor i in range(60):\n"
        "    display(Image.frombytes('RGB', (n, n), os.urandom(3 * n * n)))"
    )
    shown = run(code, figure_bytes=1 << 20)
    equal(len(shown), 60)
    sizes = [len(one.get("image/png") or one["image/jpeg"]) for one in shown]
    assert sum(sizes) < (1 << 20) + 60 * (8 << 10), sum(sizes)
    assert min(sizes) > 500, sizes


@check
def images_of_bytes_are_scaled_to_what_models_see():
    need("PIL")
    code = (
        "from PIL import Image\nimport io\nb = io.BytesIO()\nImage.new('RGB', (4000, 2000)).save(b, %r)\n"
        "class P:\n    def %s(self): return b.getvalue()\nP()"
    )
    shown = run(code % ("PNG", "_repr_png_"))[0]
    equal(size_of(shown), (1568, 784))
    contains(shown[READABLE], "[figure 1568x784; made smaller: it was 4000x2000, ")
    shown = run(code % ("JPEG", "_repr_jpeg_"))[0]
    contains(shown[READABLE], "[figure 1568x784; made smaller")
    equal(size_of(run(code % ("PNG", "_repr_png_"), readable=False)[0]), (4000, 2000))
    gif = code % ("GIF", "_repr_png_")
    shown = run(gif.replace("_repr_png_(self): return b.getvalue()", "_repr_mimebundle_(self, **k): return "
                            "{'image/gif': b.getvalue()}"))[0]
    equal((size_of(shown), "image/gif" in shown), ((1568, 784), True))


@check
def images_that_are_none_are_left_alone():
    shown = show({"image/png": "AAAA" * 400_000}, figure_bytes=1 << 20)
    contains(shown[READABLE], "[figure image/png of ")
    equal(len(shown["image/png"]), 1_600_000)
    equal(show({"image/png": "AAAA"})[READABLE], "[figure]")


@check
def figures_say_their_size_and_what_they_show():
    need("matplotlib")
    shown = run(
        "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9], label='squares')\nplt.plot([1, 2], label='two')\n"
        "plt.title('T')\nplt.xlabel('time')\nplt.legend();",
        "data",
    )[0]
    width, height = size_of(shown)
    equal(shown[READABLE], "[figure %dx%d]" % (width, height))
    about = shown["text/vnd.krait.about"]
    for part in ("axes 'T'", "x 'time' -0.1 to 2.1", "y 0.6 to 9.4", "2 lines", "labelled squares, two"):
        contains(about, part)


# ---- plotly ------------------------------------------------------------------------------------

PLOTS = {
    "lines": "go.Figure([go.Scatter(x=[1, 2, 3], y=[1, 4, 9], name='a'), go.Scatter(y=[3, 2, None, 1], name='b')])",
    "dates": "go.Figure(go.Scatter(x=['2024-01-01', '2024-02-01'], y=[1, 2], mode='markers'))",
    "bars": "go.Figure([go.Bar(x=['u', 'v'], y=[1, 2], name='a'), go.Bar(x=['u', 'v'], y=[2, 1], name='b')])",
    "stack": "go.Figure([go.Bar(x=['u'], y=[1]), go.Bar(x=['u'], y=[2])], layout={'barmode': 'stack'})",
    "flat": "go.Figure(go.Bar(x=[3, 4], y=['u', 'v'], orientation='h', marker={'color': 'rgb(9, 200, 9)'}))",
    "histogram": "go.Figure(go.Histogram(x=[1, 1, 2, 5]))",
    "words": "go.Figure(go.Histogram(x=['a', 'b', 'a']))",
    "pie": "go.Figure(go.Pie(labels=['a', 'b'], values=[1, 3], hole=0.3))",
    "box": "go.Figure([go.Box(y=[1, 2, 3, 9], name='a'), go.Box(x=['k', 'k', 'l'], y=[1, 2, 3])])",
    "heatmap": "go.Figure(go.Heatmap(z=[[1, 2], [3, None]], x=['p', 'q']))",
    "sizes": "go.Figure(go.Scatter(x=[1, 2], y=[1, 2], mode='markers+text', text=['p', 'q'], "
    "marker={'size': [5, 30], 'color': [1, 2]}))",
    "subplots": "make_subplots(rows=1, cols=2, subplot_titles=('l', 'r')).add_scatter(y=[1, 2], row=1, col=1)"
    ".add_bar(y=[1, 2], row=1, col=2)",
    "second axis": "make_subplots(specs=[[{'secondary_y': True}]]).add_scatter(y=[1, 2])"
    ".add_scatter(y=[9, 8], secondary_y=True)",
}


@check
def plotly_figures_are_drawn():
    need("plotly")
    need("matplotlib")
    head = "import plotly.graph_objects as go\nfrom plotly.subplots import make_subplots\n"
    codes = "".join("display(%s.update_layout(title='Plot %s'))\n" % (code, name) for name, code in PLOTS.items())
    shown = run(head + codes, "data")
    for name, one in zip(PLOTS, shown):
        width, height = size_of(one)
        assert 300 < width < 1000 and 200 < height < 800, (name, width, height)
        contains(one[READABLE], "preview by matplotlib of a plotly figure 'Plot %s'" % name)
        assert "not drawn" not in one[READABLE], one[READABLE]
        contains(one["text/plain"], "plotly figure")
        assert "application/vnd.plotly.v1+json" in one
        folder = os.environ.get("KR_KEEP_PICTURES")
        if folder:
            with open("%s/%s.png" % (folder, name), "wb") as file:
                file.write(base64.b64decode(one["image/png"]))
    equal(len(shown), len(PLOTS))


@check
def plotly_figures_that_are_not_drawn_are_told():
    need("plotly")
    code = "import plotly.graph_objects as go\ngo.Figure(go.Surface(z=[[1, 2], [3, 4]]), layout={'title': 'Hill'})"
    shown = run(code, "data")[0]
    assert "image/png" not in shown
    equal(
        shown[READABLE],
        "[plotly figure 'Hill', surface (2 rows); not drawn here; to see it as plotly draws it, save it with "
        "fig.write_html('figure.html')]",
    )
    mixed = "import plotly.graph_objects as go\ngo.Figure([go.Scatter(y=[1, 2]), go.Scatterpolar(r=[1], theta=[2])])"
    shown = run(mixed, "data")[0]
    contains(shown[READABLE], "scatterpolar is not drawn")
    size_of(shown)


@check
def hostile_plotly_json_ends():
    odd = [None, {"type": "bar", "x": {"bdata": "!", "dtype": "f8"}}, {"type": "pie", "values": ["x"]}, 7,
           {"type": "heatmap", "z": [1]}, {"type": "_style"}, {"type": "histogram", "x": [1], "nbinsx": 10**9}]
    for layout in ({}, {"width": 1e9, "height": -1}, {"xaxis": 5, "template": {"layout": {"colorway": [1]}}}):
        shown = show({"application/vnd.plotly.v1+json": {"data": odd, "layout": layout}}, preload="data")
        if "image/png" in shown:
            assert max(size_of(shown)) <= 2000, layout


main()
