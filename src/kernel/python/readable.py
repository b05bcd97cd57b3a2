"""Displays as a model can read them: what a bundle of formats says as text, beside the formats.

display.py imports this when the first display of a run for a model is sent (`readable` of the RUN
frame), and adds what enrich() finds under TEXT and ABOUT. Everything here works on data of user
code, in its process and its time. Invariants: what is read and what is made is bounded; one that
fails leaves the bundle as it was.
"""
import sys

from krait_kernel import channel, htmltext, pictures
from krait_kernel.display import READABLE as TEXT

ABOUT = "text/vnd.krait.about"  # of a figure: what it shows, for a reader who gets no image
MAX_TEXT = 24 << 10  # characters
MAX_HTML = 1 << 20  # characters of HTML that are read
MAX_JSON = 2000  # values of a JSON display that are written out
MAX_DTYPES = 400  # characters of a line of dtypes
IMAGES = ("image/png", "image/jpeg")


def enrich(value, data: dict) -> None:
    """Adds TEXT, and an image where one can be made of what is there. Never raises an
    Exception.
    """
    try:
        note = pictures.fit(value, data)
        text = note if note is not None else words(value, data)
        if text:
            data[TEXT] = channel.cut(text, MAX_TEXT)
        if any(kind in data for kind in IMAGES):
            about = pictures.about(value)
            if about:
                data[ABOUT] = channel.cut(about, 1000)
    except Exception:
        data.pop(TEXT, None)


def words(value, data: dict):
    """The text of a bundle without an image, or None: text/plain says it best."""
    plain = data.get("text/plain")
    plain = plain if isinstance(plain, str) else ""
    if value is not None and _is_frame(value):
        return plain + "\n" + frame_line(value, plain)
    if isinstance(data.get("text/markdown"), str):
        return data["text/markdown"]
    html = data.get("text/html")
    if isinstance(html, str):
        text = _of_html(html[:MAX_HTML], plain)
        if len(html) > MAX_HTML:
            text = (text or plain) + "\n[of %d characters of HTML %d are read]" % (
                len(html),
                MAX_HTML,
            )
        return text
    if "application/json" in data:
        return _of_json(data["application/json"])
    if isinstance(data.get("text/latex"), str) and not is_telling(plain):
        return data["text/latex"]
    return None


def is_telling(plain: str) -> bool:
    """Whether a repr says more than that there is an object."""
    return bool(plain) and not (plain.startswith("<") and plain.endswith(">") and "\n" not in plain)


def _of_html(html: str, plain: str):
    """Tables as tables, anything else as its text. A repr of several lines is a table already
    (a frame, a summary, an array with its coordinates), one of one line says what the table is.
    """
    if is_telling(plain) and "\n" in plain.strip():
        return None
    text, tables = htmltext.to_text(html)
    if not text:
        return None if is_telling(plain) else "[HTML of %d characters without text: %s]" % (
            len(html),
            "it draws in a browser; save it to a file to keep it",
        )
    if not is_telling(plain):
        return text
    return plain + "\n" + text if tables else None


def _of_json(value) -> str:
    import json

    text = channel.dumps(value)
    if len(text) <= 200 or channel.counted > MAX_JSON:
        return text
    return json.dumps(json.loads(text), indent=1, ensure_ascii=False)


# ---- frames -------------------------------------------------------------------------------------


def _is_frame(value) -> bool:
    kind = getattr(sys.modules.get("pandas.core.frame"), "DataFrame", None)
    return isinstance(kind, type) and issubclass(type(value), kind)


def frame_line(frame, plain: str) -> str:
    """[3 rows x 2 columns; int64 a, b; object c], without the shape where the repr ends with
    it.
    """
    rows, columns = frame.shape
    shape = "%d rows x %d columns" % (rows, columns)
    groups: dict = {}
    for name, dtype in zip(frame.columns, frame.dtypes):
        groups.setdefault(str(dtype), []).append(str(name))
        if len(groups) > 50:
            break
    line = "; ".join(["%s %s" % (kind, ", ".join(names)) for kind, names in groups.items()])
    if len(line) > MAX_DTYPES:
        line = "; ".join(["%s ×%d" % (kind, len(names)) for kind, names in groups.items()])
        line = line[:MAX_DTYPES]
    if plain.endswith("[%s]" % shape):
        return "[dtypes: %s]" % line if line else ""
    return "[%s]" % "; ".join([one for one in (shape, line) if one])
