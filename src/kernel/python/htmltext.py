"""HTML as text: tables become Markdown tables, the rest its words in lines.

readable.py and pictures.py call to_text(). Invariants: time is linear in the input, whatever it
is (each character is passed over a fixed number of times; a search that has found nothing is not
made again); nothing is loaded, and nothing of the input is run. html.parser is not used: its
searches begin anew at each "<" that is never closed.
"""
import re
from html import unescape

MAX_ROWS = 100  # of a table that are written
MAX_COLUMNS = 50
MAX_CELL = 400  # characters
SKIPPED = frozenset("script style head template noscript title iframe object".split())
BLOCKS = frozenset(
    "address article aside blockquote body br caption center dd details div dl dt fieldset "
    "figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr html legend li main nav ol option p "
    "pre section select summary svg text ul".split()
)
HEADINGS = {"h%d" % n: "#" * n + " " for n in range(1, 7)}
_NAME = re.compile(r"/?[a-zA-Z][^\s/>]*")
_STOP = re.compile("[\"'>]")
_SPACE = re.compile(r"\s+")
_ATTRIBUTE = re.compile(r"""([a-zA-Z-]+)\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""")


def tokens(text: str):
    """("text", words, "") and ("tag", name, attributes); closing tags begin with a slash."""
    at, size, missing = 0, len(text), set()
    odd: list = []  # quotes that have no end

    def find(what, start):
        if what in missing:
            return -1
        found = text.find(what, start)
        if found < 0:
            missing.add(what)
        return found

    def tag_end(start):
        stop = _STOP.search(text, start)
        while stop and stop.group() != ">":
            close = -1 if odd else find(stop.group(), stop.end())
            if close < 0:  # from here on a quote is a character like others
                odd.append(stop.group())
                return find(">", start)
            stop = _STOP.search(text, close + 1)
        return stop.start() if stop else -1

    while at < size:
        begin = find("<", at)
        if begin < 0:
            yield "text", text[at:], ""
            return
        if begin > at:
            yield "text", text[at:begin], ""
        name = _NAME.match(text, begin + 1)
        if text.startswith("<!--", begin):
            end = find("-->", begin + 4)
            at = end + 3 if end >= 0 else size
        elif name is None and text[begin + 1 : begin + 2] not in ("!", "?"):
            yield "text", "<", ""
            at = begin + 1
        else:
            end = tag_end(name.end() if name else begin + 1) if ">" not in missing else -1
            if end < 0:
                missing.add(">")
                return
            if name:
                yield "tag", name.group().lower(), text[name.end() : end]
            at = end + 1


def attribute(attributes: str, name: str) -> str:
    for found in _ATTRIBUTE.finditer(attributes[:4000]):
        if found.group(1).lower() == name:
            return unescape(found.group(2).strip("\"'"))
    return ""


class _Table:
    def __init__(self) -> None:
        self.rows: list = []
        self.count = 0
        self.heads: list = []  # of each row, whether all its cells are <th>
        self.cell = None  # the text of the cell that is open, a list of pieces
        self.spans: dict = {}  # column -> rows below that a cell reaches

    def begin_row(self) -> None:
        self.end_cell()
        self.count += 1
        if self.count <= MAX_ROWS:
            self.rows.append([])
            self.heads.append(True)

    def begin_cell(self, name: str, attributes: str) -> None:
        self.end_cell()
        if not self.count:
            self.begin_row()
        self.cell = []
        self.kept = self.count <= MAX_ROWS
        if not self.kept:
            return
        row = self.rows[-1]
        self._skip_spans(row)
        self.heads[-1] = self.heads[-1] and name == "th"
        self.columns = self._number(attribute(attributes, "colspan"))
        down = self._number(attribute(attributes, "rowspan"))
        for column in range(len(row), len(row) + self.columns):
            if down > 1:
                self.spans[column] = down - 1

    def _skip_spans(self, row: list) -> None:
        while self.spans.get(len(row)) and len(row) < MAX_COLUMNS:
            self.spans[len(row)] -= 1
            row.append("")

    @staticmethod
    def _number(text: str) -> int:
        return min(int(text), MAX_COLUMNS) if text.isdigit() and len(text) < 6 else 1

    def end_cell(self) -> None:
        if self.cell is not None and self.kept and len(self.rows[-1]) < MAX_COLUMNS:
            text = _SPACE.sub(" ", "".join(self.cell)).strip()
            if len(text) > MAX_CELL:
                text = text[:MAX_CELL] + "…"
            self.rows[-1] += [text.replace("|", "\\|")] + [""] * (self.columns - 1)
        self.cell = None

    def text(self) -> str:
        """Markdown; a table of one column, which lays out a page, as its words."""
        self.end_cell()
        both = zip(self.rows, self.heads)
        rows = [(row, head) for row, head in both if any(row)]
        width = min(max([len(row) for row, _head in rows] or [0]), MAX_COLUMNS)
        if not rows:
            return ""
        if width < 2:
            return "\n".join([row[0] for row, _head in rows])
        lines = [
            "| %s |" % " | ".join((row + [""] * (width - len(row)))[:width]) for row, _head in rows
        ]
        lines.insert(1, "|%s" % ("---|" * width))
        if self.count > MAX_ROWS:
            lines.append("[%d of %d rows]" % (MAX_ROWS, self.count))
        return "\n".join(lines)


class _Page:
    """Lines on their way."""

    def __init__(self) -> None:
        self.lines: list = []  # finished
        self.line: list = []  # pieces of the one that is open
        self.tables: list = []  # that are open, inner ones behind outer ones
        self.finished = 0  # tables
        self.skip = ""  # the element whose text is left out
        self.pre = 0
        self.link = None

    def put(self, text: str) -> None:
        (self.tables[-1].cell if self._in_cell() else self.line).append(text)

    def _in_cell(self) -> bool:
        return bool(self.tables) and self.tables[-1].cell is not None

    def words(self, text: str) -> None:
        text = unescape(text)
        if self.skip or (self.tables and not self._in_cell()):
            return
        if self.pre and not self._in_cell():
            first, *rest = text.split("\n")
            self.put(first)
            for one in rest:
                self.end_line()
                self.line.append(one)
        else:
            self.put(_SPACE.sub(" ", text))

    def end_line(self) -> None:
        if self._in_cell():
            self.put(" ")
            return
        text = "".join(self.line)
        text = text.rstrip() if self.pre else _SPACE.sub(" ", text).strip()
        if text and text not in ("-", "#"):
            self.lines.append(text)
        self.line = []

    def tag(self, name: str, attributes: str) -> None:
        bare = name.lstrip("/")
        if self.skip:
            if name == "/" + self.skip:
                self.skip = ""
        elif name in SKIPPED:
            self.skip = name
        elif bare in ("table", "tr", "td", "th"):
            self._table(name, attributes)
        elif bare == "a":
            self._anchor(name, attributes)
        elif name == "img":
            self.put(" [image%s] " % (": " + attribute(attributes, "alt")).rstrip(": "))
        elif bare in BLOCKS:
            self._block(name, bare)

    def _table(self, name: str, attributes: str) -> None:
        if name == "table":
            if not self._in_cell():
                self.end_line()
            self.tables.append(_Table())
        elif not self.tables:
            self.end_line()
        elif name == "/table":
            self._end_table()
        elif name == "tr":
            self.tables[-1].begin_row()
        elif name in ("td", "th"):
            self.tables[-1].begin_cell(name, attributes)
        else:
            self.tables[-1].end_cell()

    def _end_table(self) -> None:
        made = self.tables.pop().text()
        if self._in_cell():  # one inside another is words
            self.put(" %s " % made.replace("\n", " "))
        elif made:
            self.finished += made.startswith("| ")
            self.lines.append(made)

    def _anchor(self, name: str, attributes: str) -> None:
        if name == "a":
            self.link = attribute(attributes, "href")
        elif self.link:
            if self.link.startswith(("http://", "https://")) and len(self.link) < 300:
                self.put(" (%s)" % self.link)
            self.link = None

    def _block(self, name: str, bare: str) -> None:
        self.end_line()
        if bare == "pre":
            self.pre = max(0, self.pre + (1 if name == bare else -1))
        elif not self._in_cell():
            if name == "li":
                self.line.append("- ")
            elif name in HEADINGS:
                self.line.append(HEADINGS[name])

    def text(self) -> str:
        while self.tables:
            self._end_table()
        self.pre = 0
        self.end_line()
        return "\n".join(self.lines)


def to_text(html: str) -> tuple:
    """(text, how many tables are in it)."""
    page = _Page()
    for kind, text, attributes in tokens(html):
        if kind == "text":
            page.words(text)
        else:
            page.tag(text, attributes)
    return page.text(), page.finished
