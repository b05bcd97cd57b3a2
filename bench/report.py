"""Tables and verdicts of bench/run: rows of samples in, text or Markdown out. Pure: nothing is measured and no figure
is written here."""
import math


def quantile(samples: list, q: float) -> float:
    """Nearest rank."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)]


class Row:
    """One configuration and one series of it, in microseconds unless a unit is given."""

    def __init__(self, section: str, label: str, unit: str = "ms", scale: float = 1e-3) -> None:
        self.section, self.label, self.unit, self.scale = section, label, unit, scale
        self.samples: list = []
        self.failed = ""

    def measured(self) -> bool:
        return bool(self.samples) and not self.failed

    def at(self, q: float) -> float:
        return quantile(self.samples, q) * self.scale

    def named(self, label: str) -> "Row":
        """The same samples under another label."""
        row = Row(self.section, label, self.unit, self.scale)
        row.samples, row.failed = self.samples, self.failed
        return row

    def cells(self) -> list:
        if not self.measured():
            return [self.label, "not measured", "", "", "", ""]
        return [self.label, show(self.at(0)), show(self.at(0.5)), show(self.at(0.99)), self.unit,
                str(len(self.samples))]


def show(value: float) -> str:
    return ("%.0f" % value if value >= 100 else "%.1f" % value if value >= 10
            else "%.2f" % value if value >= 1 else "%.3f" % value)


class Bar:
    """A ratio, or a size, that is to hold. `better` is above or below."""

    def __init__(self, label: str, value: float, limit: float, better: str, note: str = "", best=None) -> None:
        self.label, self.value, self.limit, self.better, self.note, self.best = label, value, limit, better, note, best

    def holds(self) -> bool:
        return self.value >= self.limit if self.better == "above" else self.value <= self.limit

    def cells(self) -> list:
        sign = "≥" if self.better == "above" else "≤"
        off = self.value / self.limit if self.better == "below" else self.limit / self.value
        verdict = "HOLDS" if self.holds() else "MISSES by %s×" % show(off)
        return [self.label, "%s %g" % (sign, self.limit), show(self.value),
                show(self.best) if self.best is not None else "", verdict, self.note]


def text_table(title: str, heads: list, rows: list) -> str:
    widths = [max(len(row[i]) for row in [heads] + rows) for i in range(len(heads))]
    lines = [title, "-" * len(title)]
    for row in [heads] + rows:
        lines.append("  ".join(cell.ljust(w) if i == 0 else cell.rjust(w)
                               for i, (cell, w) in enumerate(zip(row, widths))).rstrip())
    return "\n".join(lines) + "\n"


def markdown_table(title: str, heads: list, rows: list) -> str:
    lines = ["## " + title, "", "| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


PRINTED_BY = "Printed by `%s`"


def split_page(text: str) -> list:
    """(title, text) of each section of a page; the first has no title."""
    parts = text.split("\n## ")
    return [("", parts[0])] + [(part.split("\n", 1)[0], "## " + part) for part in parts[1:]]


def whole_page(command: str, facts: list, tables: list, old: str) -> str:
    """A new page. Of the old one the sections stay that another command has printed."""
    head = ["# Measurements", "", PRINTED_BY % command + "; nothing here is written by hand. A figure in another document names this "
            "page.", ""]
    head += ["- " + fact for fact in facts] + [""]
    titles = [table[0] for table in tables]
    kept = [text for title, text in split_page(old)
            if title and title not in titles and PRINTED_BY.split("%s")[0] in text]
    return "\n".join(head + [markdown_table(*table) for table in tables] + kept).rstrip() + "\n"


def merged_page(command: str, facts: list, tables: list, old: str) -> str:
    """The old page, with these sections instead of those of the same titles, or behind all."""
    sections = split_page(old)
    for table in tables:
        title, rest = markdown_table(*table).split("\n", 1)
        text = "\n".join([title, "", PRINTED_BY % command + ":", ""] + ["- " + fact for fact in facts]) + "\n" + rest
        at = [i for i, (name, _text) in enumerate(sections) if name == table[0]]
        if at:
            sections[at[0]] = (table[0], text)
        else:
            sections.append((table[0], text))
    return "\n".join(text.strip("\n") + "\n" for _title, text in sections)


def staircase(steps: list) -> list:
    """The layers' rows with what each adds to the row named beside it (None: nothing) and how many times the first row
    it is."""
    out = []
    first = steps[0][0]
    for row, base in steps:
        cells = row.cells()[:4]
        if not row.measured() or not first.measured():
            out.append(cells + ["", "", ""])
            continue
        adds = "%+.3f" % (row.at(0.5) - base.at(0.5)) if base is not None and base.measured() else ""
        out.append(cells + [adds, "%.2f" % (row.at(0.5) / first.at(0.5)), "%.2f" % (row.at(0) / first.at(0))])
    return out
