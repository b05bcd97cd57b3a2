"""A preview of a plotly figure, drawn by matplotlib from the figure's own JSON.

Plotly draws in a browser, and there is none in a cell. pictures.py calls draw() for displays that
a model reads. The common traces are drawn, on the axes that the layout lays out; what is not drawn
is said. Invariants: at most MAX_TRACES traces of MAX_POINTS points; the figure is not touched.
"""
import io
import re

MAX_TRACES = 40
MAX_POINTS = 20_000
MAX_NAMED = 12  # traces that are named in the text
COLORS = "#636efa #EF553B #00cc96 #ab63fa #FFA15A #19d3f3 #FF6692 #B6E880 #FF97FF #FECB52".split()
SYMBOLS = {"square": "s", "diamond": "D", "cross": "P", "x": "X", "triangle-up": "^", "star": "*"}
DASHES = {"dash": "--", "dot": ":", "dashdot": "-.", "longdash": "--"}
HOW = "to see it as plotly draws it, save it with fig.write_html('figure.html')"
_DATE = re.compile(r"\d{4}-\d\d(-\d\d|$)")
_RGB = re.compile(r"rgba?\(([^)]{1,60})\)")


def draw(spec: dict, longest: int) -> tuple:
    """(PNG, what it is) or (None, the figure in words)."""
    traces = [one for one in spec.get("data") or [] if isinstance(one, dict)]
    layout = spec.get("layout") if isinstance(spec.get("layout"), dict) else {}
    words = summary(traces, layout)
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None, "[%s; not drawn: matplotlib is not installed; %s]" % (words, HOW)
    width, height = [
        min(max(_number(layout.get(key), usual), 100), longest)
        for key, usual in (("width", 700), ("height", 450))
    ]
    figure = Figure(figsize=(width / 100, height / 100), dpi=100)
    FigureCanvasAgg(figure)
    sheet = _Sheet(figure, layout)
    sheet.bars = min(len([one for one in traces if one.get("type") == "bar"]), MAX_TRACES)
    for trace in traces[:MAX_TRACES]:
        sheet.add(trace)
    if not sheet.drawn:
        return None, "[%s; not drawn here; %s]" % (words, HOW)
    sheet.finish()
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    left = ["%s %s" % (kind, why) for kind, why in sheet.left.items()]
    if len(traces) > MAX_TRACES:
        left.append("%d traces left out" % (len(traces) - MAX_TRACES))
    said = "; ".join(["preview by matplotlib of a %s" % words] + left + [HOW])
    return buffer.getvalue(), said


# ---- in words -----------------------------------------------------------------------------------


def summary(traces: list, layout: dict) -> str:
    title = _title(layout)
    said = ["plotly figure%s" % (" %r" % title[:200] if title else "")]
    for name in ("xaxis", "yaxis"):
        label = _title(layout.get(name))
        if label:
            said.append("%s %r" % (name[0], label[:100]))
    for trace in traces[:MAX_NAMED]:
        name = trace.get("name")
        said.append(
            "%s%s%s"
            % (
                str(trace.get("type", "scatter"))[:40],
                " %r" % str(name)[:60] if name else "",
                _count(trace),
            )
        )
    if len(traces) > MAX_NAMED:
        said.append("%d more traces" % (len(traces) - MAX_NAMED))
    return ", ".join(said if traces else said + ["empty"])


def _count(trace: dict) -> str:
    for key in ("y", "x", "values", "z", "r", "locations"):
        found = _values(trace.get(key))
        if found is not None and len(found):
            return " (%d points)" % len(found) if key != "z" else " (%d rows)" % len(found)
    return ""


def _title(holder) -> str:
    title = holder.get("title") if isinstance(holder, dict) else None
    title = title.get("text") if isinstance(title, dict) else title
    return re.sub(r"<[^>]{0,200}>", " ", title).strip() if isinstance(title, str) else ""


def _number(value, usual):
    return value if isinstance(value, (int, float)) and value == value else usual


def _values(value):
    """A list of plotly's: plain, or packed as base64 with its dtype."""
    if isinstance(value, dict) and isinstance(value.get("bdata"), str):
        import base64

        import numpy

        made = numpy.frombuffer(base64.b64decode(value["bdata"]), dtype=str(value.get("dtype")))
        shape = [int(one) for one in str(value.get("shape") or "").split(",") if one.strip()]
        return (made.reshape(shape) if shape else made).tolist()
    return value if isinstance(value, list) else None


def _series(value):
    """Values for matplotlib: dates as dates, None as a gap."""
    found = _values(value)
    if found is None:
        return None
    found = found[:MAX_POINTS]
    texts = [one for one in found if one is not None]
    if texts and all(isinstance(one, str) and _DATE.match(one) for one in texts):
        import numpy

        return numpy.array([one and one[:26] for one in found], dtype="datetime64[us]")
    if all(isinstance(one, (int, float, type(None))) for one in found):
        return [float("nan") if one is None else one for one in found]
    return [str(one) for one in found]


def _color(value):
    """A colour that matplotlib knows, or None."""
    if not isinstance(value, str):
        return None
    rgb = _RGB.match(value)
    if rgb:
        parts = [float(one) for one in rgb.group(1).split(",")]
        return tuple([one / 255 for one in parts[:3]] + parts[3:4])
    from matplotlib.colors import is_color_like

    return value if is_color_like(value) else None


# ---- on paper -----------------------------------------------------------------------------------


class _Sheet:
    def __init__(self, figure, layout: dict) -> None:
        self.figure, self.layout = figure, layout
        self.axes: dict = {}  # (x axis, y axis) -> axes
        self.drawn = 0
        self.left: dict = {}  # kind -> why it is not drawn
        self.stacks: dict = {}  # axes -> what bars stand on
        self.bars = 0
        template = ((layout.get("template") or {}).get("layout") or {}).get("colorway")
        ways = layout.get("colorway") or template or COLORS
        self.colors = [one for one in ways if _color(one)] or COLORS

    def add(self, trace: dict) -> None:
        kind = str(trace.get("type", "scatter"))
        kind = {"scattergl": "scatter", "heatmapgl": "heatmap", "violin": "box"}.get(kind, kind)
        how = getattr(self, "_" + kind, None) if kind in KINDS else None
        if trace.get("visible") in (False, "legendonly"):
            return
        if how is None:
            self.left[kind[:40]] = "is not drawn"
            return
        try:
            how(self._place(trace), trace)
            self.drawn += 1
        except Exception as exc:
            self.left[kind] = "is not drawn (%s)" % type(exc).__name__

    def _domain(self, name: str) -> tuple:
        domain = (self.layout.get(name) or {}).get("domain")
        low, high = domain if isinstance(domain, list) and len(domain) == 2 else (0, 1)
        return 0.1 + 0.82 * low, 0.82 * max(high - low, 0.02)

    def _place(self, trace: dict):
        pair = str(trace.get("xaxis") or "x"), str(trace.get("yaxis") or "y")
        if trace.get("type") == "pie":
            pair = ("pie", str(len(self.axes)))
        if pair not in self.axes:
            self.axes[pair] = self._new_axes(pair, trace)
        return self.axes[pair]

    def _new_axes(self, pair: tuple, trace: dict):
        if pair[0] == "pie":
            domain = trace.get("domain") if isinstance(trace.get("domain"), dict) else {}
            x, y = [domain.get(one) or [0, 1] for one in "xy"]
            return self.figure.add_axes(
                [0.1 + 0.82 * x[0], 0.1 + 0.8 * y[0], 0.82 * (x[1] - x[0]), 0.8 * (y[1] - y[0])]
            )
        names = ["%saxis%s" % (one[0], one[1:]) for one in pair]
        over = (self.layout.get(names[1]) or {}).get("overlaying")
        under = self.axes.get((pair[0], str(over))) or self.axes.get(("x", str(over)))
        if under is not None:
            axes = under.twinx()
        else:
            left, width = self._domain(names[0])
            bottom, height = self._domain(names[1])
            axes = self.figure.add_axes([left, bottom, width, height])
        for name, which in zip(names, "xy"):
            about = self.layout.get(name) if isinstance(self.layout.get(name), dict) else {}
            getattr(axes, "set_%slabel" % which)(_title(about)[:200])
            if about.get("showticklabels") is False:  # it shares those of its neighbour
                axes.tick_params(axis=which, labelbottom=False, labelleft=False)
            if about.get("type") == "log":
                getattr(axes, "set_%sscale" % which)("log")
        return axes

    def _style(self, trace: dict) -> tuple:
        """Colour and label."""
        for key in ("line", "marker"):
            found = _color((trace.get(key) or {}).get("color"))
            if found is not None:
                break
        else:
            found = self.colors[self.drawn % len(self.colors)]
        name = trace.get("name")
        return found, str(name)[:60] if name and trace.get("showlegend") is not False else None

    def _scatter(self, axes, trace: dict) -> None:
        x, y = _series(trace.get("x")), _series(trace.get("y"))
        x = list(range(len(y))) if x is None else x
        y = list(range(len(x))) if y is None else y
        color, label = self._style(trace)
        mode = str(trace.get("mode") or ("lines+markers" if len(x) < 20 else "lines"))
        marker = trace.get("marker") or {}
        shade = _values(marker.get("color"))
        if "lines" in mode:
            dash = DASHES.get((trace.get("line") or {}).get("dash"), "-")
            axes.plot(x, y, dash, color=color, label=label, marker="o" if "mark" in mode else "")
        elif "markers" in mode:
            if shade and all(isinstance(one, (int, float)) for one in shade):
                color = shade[: len(x)]
            sizes = _values(marker.get("size"))
            area = [min(float(one), 200) ** 2 / 2 for one in sizes[: len(x)]] if sizes else 20
            symbol = SYMBOLS.get(str(marker.get("symbol")), "o")
            axes.scatter(x, y, s=area, c=color, label=label, marker=symbol, alpha=0.85)
        if trace.get("fill") in ("tozeroy", "tonexty"):
            axes.fill_between(x, y, color=color, alpha=0.3)
        if "text" in mode:
            for at, text in list(enumerate(_values(trace.get("text")) or []))[: min(len(x), 100)]:
                axes.annotate(str(text)[:60], (x[at], y[at]))

    def _bar(self, axes, trace: dict) -> None:
        x, y = _series(trace.get("x")), _series(trace.get("y"))
        flat = trace.get("orientation") == "h"
        at, size = (y, x) if flat else (x, y)
        at = list(range(len(size))) if at is None else at
        color, label = self._style(trace)
        shades = [_color(one) for one in _values((trace.get("marker") or {}).get("color")) or []]
        color = shades if shades and all(shades) else color
        if self.layout.get("barmode") in ("stack", "relative"):
            base = self.stacks.setdefault(axes, {})
            ground = [base.get(str(one), 0) for one in at]
            for one, more in zip(at, size):
                base[str(one)] = base.get(str(one), 0) + more
            (axes.barh if flat else axes.bar)(
                at, size, 0.8, ground, color=color, label=label
            )
            return
        if self.bars == 1 and len(at) > 1 and all(isinstance(one, (int, float)) for one in at):
            order = sorted(at)
            gap = min([b - a for a, b in zip(order, order[1:]) if b > a] or [1])
            (axes.barh if flat else axes.bar)(at, size, 0.8 * gap, color=color, label=label)
            return
        others = self.stacks.setdefault(axes, {"names": [], "count": 0})
        names = others["names"]
        names += [one for one in at if one not in names] if len(names) < 2000 else []
        group = max(1, self.bars)
        width = 0.8 / group
        shift = (others["count"] - (group - 1) / 2) * width
        others["count"] += 1
        places = [names.index(one) + shift for one in at]
        (axes.barh if flat else axes.bar)(places, size, width, color=color, label=label)
        (axes.set_yticks if flat else axes.set_xticks)(
            range(len(names)), [str(one)[:40] for one in names]
        )

    def _histogram(self, axes, trace: dict) -> None:
        flat = trace.get("x") is None
        values = _series(trace.get("y") if flat else trace.get("x"))
        color, label = self._style(trace)
        bins = trace.get("nbinsy" if flat else "nbinsx")
        if values and isinstance(values[0], str):
            counts: dict = {}
            for one in values:
                counts[one] = counts.get(one, 0) + 1
            axes.bar(list(counts), list(counts.values()), color=color, label=label)
            return
        axes.hist(
            values,
            bins=min(int(bins), 500) if isinstance(bins, int) and bins else "auto",
            color=color,
            label=label,
            orientation="horizontal" if flat else "vertical",
            alpha=0.7 if self.layout.get("barmode") == "overlay" else 1,
        )

    def _pie(self, axes, trace: dict) -> None:
        values = _values(trace.get("values"))
        labels = [str(one)[:40] for one in _values(trace.get("labels")) or [""] * len(values)]
        hole = _number(trace.get("hole"), 0)
        ring = {"width": 1 - hole} if hole else None
        axes.pie(values[:100], labels=labels[:100], autopct="%.1f%%", wedgeprops=ring)

    def _box(self, axes, trace: dict) -> None:
        flat = trace.get("y") is None
        values, groups = _series(trace.get("x" if flat else "y")), _series(trace.get("x"))
        sets: dict = {}
        if flat or groups is None:
            sets[str(trace.get("name") or "")] = list(values)
        else:
            for group, one in zip(groups, values):
                sets.setdefault(str(group), []).append(one)
        state = self.stacks.setdefault(axes, {"boxes": [], "at": 0})
        where = [state["at"] + 1 + n for n in range(len(sets))]
        state["at"] += len(sets)
        state["boxes"] += [name[:40] for name in sets]
        axes.boxplot(list(sets.values()), positions=where, widths=0.6, vert=not flat)
        (axes.set_yticks if flat else axes.set_xticks)(
            range(1, state["at"] + 1), state["boxes"]
        )

    def _heatmap(self, axes, trace: dict) -> None:
        z = [
            [float("nan") if one is None else float(one) for one in row[:2000]]
            for row in _values(trace.get("z"))[:2000]
        ]
        image = axes.imshow(z, aspect="auto", origin="lower", cmap="viridis")
        for key, ticks in (("x", axes.set_xticks), ("y", axes.set_yticks)):
            names = _values(trace.get(key)) or []
            step = max(1, len(names) // 20)
            ticks(range(0, len(names), step), [str(one)[:20] for one in names[::step]])
        self.figure.colorbar(image, ax=axes)

    def finish(self) -> None:
        title = _title(self.layout)
        if title:
            self.figure.suptitle(title[:200], y=1.0)
        for axes in self.axes.values():
            if len(axes.get_legend_handles_labels()[1]) > 1:
                axes.legend(fontsize="small")
            if (self.layout.get("yaxis") or {}).get("autorange") == "reversed":
                axes.invert_yaxis()
            for label in axes.get_xticklabels():
                label.set_rotation(30 if len(axes.get_xticklabels()) > 6 else 0)
        for one in (self.layout.get("annotations") or [])[:40]:
            if isinstance(one, dict) and one.get("xref") == "paper" and one.get("text"):
                x, y = _number(one.get("x"), 0.5), _number(one.get("y"), 1)
                text = _title({"title": str(one["text"])[:200]})
                self.figure.text(0.1 + 0.82 * x, 0.11 + 0.82 * y, text, ha="center")


KINDS = ("scatter", "bar", "histogram", "pie", "box", "heatmap")
