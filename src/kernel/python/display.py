"""Displays: what an object looks like in richer formats than text, sent as DISPLAY frames.

`display()` is a builtin of user code; run.py shows the last value of a run and the figures left
open through here; libs.py leads plt.show(), fig.show() and Image.show() here. Invariants: a
payload is at most MAX_PAYLOAD bytes and a run has at most MAX_COUNT displays, and a note
stands for what is left out; output written before a display is read before it.
"""
import base64
import io
import sys

import _krait
from krait_kernel import channel, streams

MAX_PAYLOAD = 12 << 20
MAX_COUNT = 200
MAX_PIXELS = 40_000_000  # of a figure; past it the resolution is lowered
MAX_TEXT = 64 << 10  # bytes of metadata
MAX_PLAIN = 256 << 10  # characters of text/plain

# Method, media type, whether its value is bytes. `_repr_mimebundle_` may give several at once.
METHODS = (
    ("_repr_html_", "text/html", False),
    ("_repr_markdown_", "text/markdown", False),
    ("_repr_latex_", "text/latex", False),
    ("_repr_svg_", "image/svg+xml", False),
    ("_repr_png_", "image/png", True),
    ("_repr_jpeg_", "image/jpeg", True),
    ("_repr_json_", "application/json", False),
)
# Warnings of the drawing name the line that called it: a file of ours would mean nothing to the
# reader.
_save = eval(
    compile("lambda figure, target, **how: figure.savefig(target, **how)", "<figure>", "eval")
)
READABLE = "text/vnd.krait.readable"  # what a model reads, in runs for one
CANARY = "_krait_no_object_has_this_method_"

figures = "png"  # or "svg"
longest = 0  # pixels of the longer side of a figure or image that is shown; 0: as it was drawn
readable = False  # a model reads them: each gets its text, and figures fit (readable.py)
figure_bytes = 0  # of base64 that the images of a run may have together, for a model; 0: no bound
figure_left = 0  # of them
_count = 0
_shown: list = []  # figures displayed in this run: they are not shown again at its end


def begin(spec: dict) -> None:
    """Before each run, with what was asked of it."""
    global figures, longest, readable, figure_bytes, figure_left, _count
    figures = "svg" if spec.get("figures") == "svg" else "png"
    longest = spec.get("figure_px") or 0
    readable = spec.get("readable") is True
    figure_bytes = figure_left = spec.get("figure_bytes") or 0
    _count = 0
    _shown.clear()


def enrich(value, data: dict) -> None:
    """For a model: adds the text of what has richer formats. Imported when first needed."""
    if readable and is_rich(data) and channel.is_open() and _count <= MAX_COUNT:
        try:
            from krait_kernel import readable as texts
        except Exception:  # user code has taken our finder away
            return
        texts.enrich(value, data)


def text_of(data: dict) -> str:
    """What stands for the object as the value of a run."""
    if "image/png" in data or "image/jpeg" in data:
        return data["text/plain"]
    return data.get(READABLE) or data["text/plain"]


def send(data: dict, metadata: dict) -> None:
    """One DISPLAY frame, or a note in its place."""
    global _count
    if channel.is_copy():
        streams.emit(1, str(data.get("text/plain", "")) + "\n")
        return
    if not channel.is_open():
        return
    _count += 1
    if _count > MAX_COUNT + 1:
        return
    if _count == MAX_COUNT + 1:
        data, metadata = {
            "text/plain": "[more displays are left out: a run has at most %d]" % MAX_COUNT
        }, {}
    streams.barrier()
    channel.send_bytes(_krait.DISPLAY, _payload(data, metadata))


def _payload(data: dict, metadata: dict) -> bytes:
    """The frame, without the largest formats if it would be too large, and a note for each that
    is left out.
    """
    parts, notes, room = {}, [], channel.MAX_VALUES
    for kind, value in data.items():
        try:
            part = channel.dumps(value).encode("utf-8")
            if channel.counted + 1 > room:
                raise ValueError("too many values")
            parts[kind] = part
            room -= channel.counted + 1
        except RecursionError:
            notes.append("[%s cannot be sent: nested too deep]" % kind)
        except ValueError as exc:
            notes.append("[%s cannot be sent: %s]" % (kind, exc))
    while sum(map(len, parts.values())) > MAX_PAYLOAD:
        kind = max(parts, key=lambda one: len(parts[one]))
        size = len(parts.pop(kind)) / 1e6
        notes.append(
            "[%s of %.1f MB is too large to show, %d MB at most]" % (kind, size, MAX_PAYLOAD >> 20)
        )
    if notes:
        text = [str(data["text/plain"])] if "text/plain" in parts else []
        parts["text/plain"] = channel.dumps("\n".join(text + notes)).encode("utf-8")
    try:
        about = channel.dumps(metadata).encode("utf-8")
    except (ValueError, RecursionError):
        about = b"{}"
    if len(about) > MAX_TEXT or channel.counted > room:
        about = b"{}"
    items = b",".join(
        [
            b"%s:%s" % (channel.dumps(str(kind)).encode("utf-8"), part)
            for kind, part in parts.items()
        ]
    )
    return b'{"data":{%s},"metadata":%s}' % (items, about)


def display(*objects, include=None, exclude=None, metadata=None, raw=False, **_ignored):
    """Show objects: as a figure, an image, a table or HTML if they know how, else as text."""
    for one in objects:
        if raw and isinstance(one, dict):
            data, about = dict(one), {}
        else:
            data, about = bundle(one)
        if include:
            data = {kind: value for kind, value in data.items() if kind in include}
        if exclude:
            data = {kind: value for kind, value in data.items() if kind not in exclude}
        if data:
            enrich(None if raw else one, data)
            send(data, dict(about, **(metadata or {})))


def bundle(value) -> tuple:
    """(data, metadata) of an object. `text/plain` is always there, and its repr may raise: that
    is the user's error.
    """
    data, metadata = _special(value)
    if data is None:
        data, metadata = _methods(value)
    if "text/plain" not in data:
        data["text/plain"] = channel.cut(repr(value), MAX_PLAIN)
    return data, metadata


def is_rich(data: dict) -> bool:
    return any(kind != "text/plain" for kind in data)


def _loaded(module: str, name: str):
    """A class of a module that user code has imported, else None. Never imports."""
    return getattr(sys.modules.get(module), name, None)


def _is(value, module: str, name: str) -> bool:
    kind = _loaded(module, name)
    return isinstance(kind, type) and issubclass(type(value), kind)


def _special(value) -> tuple:
    """Objects we render ourselves because their own methods need a notebook or fail on some of
    them.
    """
    if _is(value, "matplotlib.figure", "Figure"):
        return figure_bundle(value), {}
    if _is(value, "PIL.Image", "Image"):
        return _image_bundle(value), {}
    if _is(value, "plotly.basedatatypes", "BaseFigure"):
        return _plotly_bundle(value), {}
    return None, {}


def _methods(value) -> tuple:
    data, metadata = {}, {}
    kind = type(value)
    if (
        issubclass(kind, type)
        or kind in (int, str, float, bool, list, dict, tuple, bytes, type(None))
        or _answers_all(value)
    ):
        return data, metadata
    got = _call(value, "_repr_mimebundle_")
    if isinstance(got, tuple) and len(got) == 2:
        got, metadata = got[0], dict(got[1] or {})
    if isinstance(got, dict):
        data = {str(kind): _text(kind, item) for kind, item in got.items() if item is not None}
    for method, kind, _is_bytes in METHODS:
        if kind in data:
            continue
        got = _call(value, method)
        if isinstance(got, tuple) and len(got) == 2:
            got, metadata[kind] = got
        if got is not None:
            data[kind] = _text(kind, got)
    return data, metadata


def _text(kind, item):
    """Bytes travel as base64, everything else as it is."""
    if isinstance(item, (bytes, bytearray, memoryview)):
        if str(kind).startswith("text/") or kind == "image/svg+xml":
            return bytes(item).decode("utf-8", "replace")
        return base64.b64encode(item).decode("ascii")
    return item


def _answers_all(value) -> bool:
    """Mocks and proxies that have any attribute one asks for: their answers mean nothing."""
    try:
        return callable(getattr(value, CANARY, None))
    except Exception:
        return True


def _call(value, method: str):
    try:
        function = getattr(value, method, None)
        return function() if callable(function) else None
    except NotImplementedError:
        return None
    except Exception as exc:
        name = type(value).__name__
        streams.emit(2, "%s.%s failed: %s: %s\n" % (name, method, type(exc).__name__, exc))
        return None


def figure_bundle(figure) -> dict:
    """A matplotlib figure as PNG or SVG. Marks it as shown."""
    _shown.append(figure)
    buffer = io.BytesIO()
    width, height = figure.get_size_inches()
    dpi = figure.dpi
    if width * height * dpi * dpi > MAX_PIXELS:
        dpi = max(1, int((MAX_PIXELS / (width * height)) ** 0.5))
    if longest and figures == "png":
        box = _tight(figure)
        dpi = max(1, min(dpi, (longest - 1) / max(box)))
    _save(figure, buffer, format=figures, dpi=dpi, bbox_inches="tight")
    kind = "image/svg+xml" if figures == "svg" else "image/png"
    return {kind: _text(kind, buffer.getvalue()), "text/plain": repr(figure)}


def _tight(figure) -> tuple:
    """Inches that bbox_inches="tight" will make of it, its padding included."""
    try:
        box = figure.get_tightbbox(figure.canvas.get_renderer())
        pad = 2 * float(sys.modules["matplotlib"].rcParams["savefig.pad_inches"])
        return box.width + pad, box.height + pad
    except Exception:
        return tuple(figure.get_size_inches())


def show_figure(figure) -> None:
    data = figure_bundle(figure)
    enrich(figure, data)
    send(data, {})


def show_figures() -> None:
    """Sends the figures pyplot holds open, and closes them all. Without pyplot it does nothing."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    pyplot = sys.modules.get("matplotlib.pyplot")
    if helpers is None or pyplot is None or not getattr(helpers.Gcf, "figs", None):
        return
    managers = list(helpers.Gcf.get_all_fig_managers())
    try:
        for manager in sorted(managers, key=lambda one: one.num):
            figure = manager.canvas.figure
            if not any(figure is one for one in _shown):
                show_figure(figure)
    finally:
        pyplot.close("all")


def _image_bundle(image) -> dict:
    buffer = io.BytesIO()
    shown = image
    if longest and max(image.size) > longest:
        shown = image.copy()
        shown.thumbnail((longest, longest))
    try:
        shown.save(buffer, "PNG")
    except (OSError, ValueError, KeyError):  # CMYK, floats and others have no PNG
        buffer = io.BytesIO()
        shown.convert("RGB").save(buffer, "PNG")
    return {"image/png": _text("image/png", buffer.getvalue()), "text/plain": repr(image)}


def _plotly_bundle(figure) -> dict:
    spec = channel.loads(figure.to_json().encode("utf-8"))
    title = (spec.get("layout") or {}).get("title")
    title = title.get("text") if isinstance(title, dict) else title
    kinds = ", ".join(
        [str(trace.get("type", "scatter")) for trace in (spec.get("data") or [])[:20]]
    )
    text = "plotly figure%s: %s" % (" %r" % title if title else "", kinds or "empty")
    return {
        "application/vnd.plotly.v1+json": {
            "data": spec.get("data", []),
            "layout": spec.get("layout", {}),
        },
        "text/plain": text,
    }
