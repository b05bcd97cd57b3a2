"""Images of displays for a model: SVG and plotly figures drawn as PNG, and every image made to fit.

readable.py calls fit() and about(). A run's images share a sum of bytes (`figure_bytes` of the RUN
frame, base64): each may take half of what is left, and never less than LEAST, so none is left out.
Invariants: a drawing has a deadline, and bounds of memory and output; the formats that were there
stay, but for an image that is too large.
"""
import base64
import io
import os
import re
import struct
import sys

from krait_kernel import display, htmltext

LEAST = 8 << 10  # bytes of base64 that any image may have
SVG_MAX = 4 << 20  # characters that are drawn
SVG_SECONDS = 10  # of the drawing
SVG_KIB = 512 << 10  # of memory, for it
SMALL = 300  # pixels: an SVG that is smaller is drawn larger
USUAL = 800  # pixels of one that names no size
MOST = 1568  # pixels where the run names none
RENDERER = "rsvg-convert"
OTHERS = ("image/gif", "image/webp", "image/bmp", "image/tiff")
_ROOT = re.compile(r"<svg\b[^>]*>", re.I)
_LENGTH = re.compile(r"\s*([0-9]{1,6}(?:\.[0-9]{0,6})?)\s*(px|pt|in|cm|mm)?\s*$")
_UNITS = {None: 1, "px": 1, "pt": 4 / 3, "in": 96, "cm": 37.8, "mm": 3.78}


def fit(value, data: dict):
    """Makes an image where a format can be drawn, and makes it small enough. Returns the line
    that says what there is to see; None without an image, and without one that could not be drawn.
    """
    note = ""
    kind = next((one for one in ("image/png", "image/jpeg") + OTHERS if _image(data, one)), None)
    if kind is None and "application/vnd.plotly.v1+json" in data:
        from krait_kernel import plotlydraw

        png, note = plotlydraw.draw(data["application/vnd.plotly.v1+json"], _longest())
        if png is None:
            return note
        kind = "image/png"
        data[kind] = base64.b64encode(png).decode("ascii")
    if kind is None:
        svg = _svg_of(data)
        if svg is None:
            return None
        png, why = draw_svg(svg)
        if png is None:
            return _svg_words(svg, why)
        kind, note = "image/png", "drawn from SVG"
        data[kind] = base64.b64encode(png).decode("ascii")
    size, smaller = _shrink(data, kind)
    parts = [one for one in (size, note, smaller) if one]
    return "[figure%s]" % (" " + "; ".join(parts) if parts else "")


def _image(data: dict, kind: str) -> bool:
    return isinstance(data.get(kind), str) and bool(data[kind])


def _longest() -> int:
    return display.longest or MOST


# ---- SVG ----------------------------------------------------------------------------------------


def _svg_of(data: dict):
    """The SVG of a bundle, or the one that is all of its HTML."""
    svg = data.get("image/svg+xml")
    if isinstance(svg, str):
        return svg
    html = data.get("text/html")
    if not isinstance(html, str) or "<svg" not in html[: 64 << 10]:
        return None
    begin, end = html.find("<svg"), html.rfind("</svg>")
    if end < begin or htmltext.to_text(html[:begin] + html[end + 6 :][: 64 << 10])[0]:
        return None
    svg = html[begin : end + 6]
    if "xmlns=" not in svg[:2000]:
        svg = svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    return svg


def _svg_words(svg: str, why: str) -> str:
    text = htmltext.to_text(svg[: 256 << 10])[0]
    line = "[SVG of %d characters, not drawn: %s]" % (len(svg), why)
    return line + "\n" + text if text else line


def _pixels(svg: str) -> int:
    """The longer side that it asks for, within bounds."""
    root = _ROOT.search(svg[: 64 << 10])
    sides = []
    for name in ("width", "height"):
        found = _LENGTH.match(htmltext.attribute(root.group()[4:], name)) if root else None
        if found:
            sides.append(float(found.group(1)) * _UNITS[found.group(2)])
    if not sides and root:
        box = htmltext.attribute(root.group()[4:], "viewbox").replace(",", " ").split()
        sides = [float(one) for one in box[2:4] if _LENGTH.match(one)]
    wanted = max(sides) if sides else USUAL
    return int(min(max(wanted, min(SMALL, _longest())), _longest()))


def renderer():
    """The path of the renderer, or None."""
    for folder in ("/usr/bin", "/usr/local/bin", "/bin"):
        path = "%s/%s" % (folder, RENDERER)
        if os.access(path, os.X_OK):
            return path
    return None


def draw_svg(svg: str) -> tuple:
    """(PNG, "") or (None, why). The renderer is a process: what it does not finish in time, or
    within its memory, is given up. It reads from a pipe, so names of files in the SVG lead
    nowhere.
    """
    import subprocess

    path = renderer()
    if path is None:
        return None, "%s is not installed (Debian: librsvg2-bin)" % RENDERER
    if len(svg) > SVG_MAX:
        return None, "%d characters at most" % SVG_MAX
    side = str(_pixels(svg))
    limits = "ulimit -v %d -t %d" % (SVG_KIB, SVG_SECONDS)
    script = "%s; exec %s -a -w %s -h %s -b white -f png" % (limits, path, side, side)
    child = subprocess.Popen(
        ["/bin/sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        png, complaint = child.communicate(svg.encode("utf-8", "replace"), timeout=SVG_SECONDS)
    except subprocess.TimeoutExpired:
        return None, "it takes longer than %d s" % SVG_SECONDS
    finally:
        if child.poll() is None:
            child.kill()
        child.communicate()
    if child.returncode != 0 or not png.startswith(b"\x89PNG"):
        why = complaint.decode("utf-8", "replace").strip().split("\n")[0][:200]
        return None, why or "%s ended with %d" % (RENDERER, child.returncode)
    return png, ""


# ---- images that fit ----------------------------------------------------------------------------


def _shrink(data: dict, kind: str) -> tuple:
    """("640x480", what was done about its size). The image of the bundle is then one that every
    client takes, within the run's sum.
    """
    allowed = max(LEAST, display.figure_left // 2) if display.figure_bytes else 0
    text = data[kind]
    size = _png_size(text) if kind == "image/png" else None
    fits = not allowed or len(text) <= allowed
    if fits and size is not None and (not display.longest or max(size) <= display.longest):
        display.figure_left -= len(text)
        return "%dx%d" % size, ""
    try:
        made, name, size, was = _smaller(base64.b64decode(text), allowed, kind)
    except Exception as exc:
        display.figure_left -= len(text) if fits else 0
        return "", "" if fits else "%s of %d KB is too large: %s" % (kind, len(text) // 1366, exc)
    if made is not None:
        for one in ("image/png", "image/jpeg"):
            data.pop(one, None)
        data[name] = base64.b64encode(made).decode("ascii")
    display.figure_left -= len(data[name])
    said = "made smaller: it was %dx%d, %d KB" % (was + (len(text) // 1366,))
    return "%dx%d" % size, said if made is not None and kind in ("image/png", "image/jpeg") else ""


def _png_size(text: str):
    head = base64.b64decode(text[:32])
    return struct.unpack(">II", head[16:24]) if head[:4] == b"\x89PNG" else None


def _smaller(raw: bytes, allowed: int, kind: str) -> tuple:
    """(bytes or None, media type, size, size before). None: it fits as it is."""
    from PIL import Image

    most = allowed * 3 // 4 or len(raw) + 1
    with Image.open(io.BytesIO(raw)) as image:
        was, side = image.size, display.longest or max(image.size)
        if kind == "image/jpeg" and len(raw) <= most and max(was) <= side:
            return None, kind, was, was
        image.draft("RGB", (side, side))
        image.load()
        if max(image.size) > side:
            image = image if image.mode not in ("P", "1") else image.convert("RGBA")
            image.thumbnail((side, side))
        made = _encode(image, "PNG") if kind != "image/jpeg" else b""
        if made and len(made) <= most:
            return made, "image/png", image.size, was
        flat = _flat(image)
    made = _encode(flat, "JPEG")
    for _attempt in range(12):
        if len(made) <= most or max(flat.size) <= 32:
            break
        factor = min(0.8, (most / len(made)) ** 0.5)
        flat = flat.resize([max(1, int(one * factor)) for one in flat.size])
        made = _encode(flat, "JPEG")
    return made, "image/jpeg", flat.size, was


def _flat(image):
    """Without what a JPEG has no word for: transparency becomes white."""
    from PIL import Image

    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        ground = Image.new("RGB", image.size, "white")
        ground.paste(image, mask=image.getchannel("A"))
        return ground
    return image.convert("RGB")


def _encode(image, name: str) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, name, **({"quality": 85} if name == "JPEG" else {}))
    return buffer.getvalue()


# ---- what a figure shows ------------------------------------------------------------------------


def about(value) -> str:
    """A line on a matplotlib figure: titles, labels, what is drawn, and its ranges."""
    kind = getattr(sys.modules.get("matplotlib.figure"), "Figure", None)
    if not isinstance(kind, type) or not issubclass(type(value), kind):
        return ""
    title = getattr(value, "_suptitle", None)
    parts = ["title %r" % title.get_text()] if title is not None else []
    for axes in value.axes[:6]:
        parts.append(_axes(axes))
    return "; ".join([one for one in parts if one])


def _axes(axes) -> str:
    said = ["axes %r" % axes.get_title() if axes.get_title() else "axes"]
    for name in ("x", "y"):
        label = getattr(axes, "get_%slabel" % name)()
        low, high = getattr(axes, "get_%slim" % name)()
        said.append("%s%s %.4g to %.4g" % (name, " %r" % label if label else "", low, high))
    for name, found in (
        ("lines", axes.lines),
        ("bars", axes.patches),
        ("collections", axes.collections),
        ("images", axes.images),
    ):
        if len(found):
            said.append("%d %s" % (len(found), name))
    labels = [str(one) for one in axes.get_legend_handles_labels()[1][:10]]
    if labels:
        said.append("labelled %s" % ", ".join(labels))
    return ", ".join(said)
