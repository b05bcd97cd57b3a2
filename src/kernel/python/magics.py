"""Notebook habits, part one: finding them. `!cmd`, `x = !cmd`, `%name args`, `%%name`, `name?` and
`name??` become calls; commands.py carries them out.

run.py calls transform() only when the text does not compile as Python, so valid code is never
touched. Invariants: only the first characters of a statement make a magic (never a line inside a
string, brackets or a continuation), and each line keeps its number.
"""
import re

MAGIC = re.compile(
    r"(?P<indent>\s*)(?P<sign>!!?|%)(?P<rest>(?<=!)\s*\S.*|(?<=%)[A-Za-z_].*)$", re.S
)
ASSIGN = re.compile(
    r"(?P<indent>\s*)(?P<target>[A-Za-z_][\w.]*(?:\[[^\]=]*\])?(?:\s*,\s*[A-Za-z_]\w*)*)"
    r"\s*=\s*(?P<sign>!|%)(?P<rest>(?<=!)\s*\S.*|(?<=%)[A-Za-z_].*)$",
    re.S,
)
HELP = re.compile(
    r"(?P<indent>\s*)(?:(?P<before>\?\??)\s*(?P<name>[A-Za-z_][\w.]*)"
    r"|(?P<called>[A-Za-z_][\w.]*)\s*(?P<behind>\?\??))\s*;?\s*$"
)
CELL = re.compile(r"\s*%%(?P<name>!|[A-Za-z_]\w*)(?P<args>[^\n]*)(?:\n|$)(?P<body>.*)$", re.S)


class Cell:
    """A snippet that starts with %%name: its arguments and the lines below."""

    def __init__(self, name: str, args: str, body: str, first_line: int) -> None:
        self.name, self.args, self.body, self.first_line = name, args, body, first_line


def cell(source: str):
    """The Cell, or None if the text is not one."""
    found = CELL.match(source)
    if found is None:
        return None
    first = source[: found.start("body")].count("\n")
    return Cell(found.group("name"), found.group("args").strip(), found.group("body"), first)


def transform(source: str):
    """(the text with calls in place of magics, the numbers of the lines that changed), or None
    if there is no magic in it.
    """
    lines = source.split("\n")
    made, changed, state, at = [], set(), _State(), 0
    while at < len(lines):
        line = lines[at]
        call = None if state.inside() else _call(line)
        if call is None:
            state.feed(line)
            made.append(line)
            at += 1
            continue
        first = at
        while lines[at].endswith("\\") and at + 1 < len(lines):
            at += 1
        whole = "\n".join(lines[first : at + 1])
        made.append(_call(whole) if at > first else call)
        made += [""] * (at - first)
        changed.update(range(first + 1, at + 2))
        at += 1
    return ("\n".join(made), frozenset(changed)) if changed else None


def _call(line: str):
    """The call that a line is, or None."""
    found = MAGIC.match(line)
    if found is not None:
        sign, rest = found.group("sign"), found.group("rest").strip()
        if sign == "%":
            return "%s__krait__.magic(%s)" % (found.group("indent"), ascii(rest))
        what = "lines" if sign == "!!" else "system"
        return "%s__krait__.%s(%s)" % (found.group("indent"), what, ascii(rest))
    found = HELP.match(line)
    if found is not None:
        return "%s__krait__.help(%r, %d)" % (
            found.group("indent"),
            found.group("name") or found.group("called"),
            len(found.group("before") or found.group("behind")),
        )
    found = ASSIGN.match(line)
    if found is not None:
        what = "magic" if found.group("sign") == "%" else "lines"
        return "%s%s = __krait__.%s(%s)" % (
            found.group("indent"),
            found.group("target"),
            what,
            ascii(found.group("rest").strip()),
        )
    return None


class _State:
    """Where a line starts: inside a triple-quoted string, inside brackets, after a backslash, or
    at a statement.
    """

    def __init__(self) -> None:
        self.quote = ""  # of the string that is open
        self.depth = 0
        self.continued = False

    def inside(self) -> bool:
        return bool(self.quote) or self.depth > 0 or self.continued

    def feed(self, line: str) -> None:
        self.continued = False
        at, size = 0, len(line)
        while at < size:
            char = line[at]
            if self.quote:
                at = self._in_string(line, at)
                continue
            if char == "#":
                return
            if char in "\"'":
                self.quote = char * 3 if line.startswith(char * 3, at) else char
                at += len(self.quote)
                continue
            if char in "([{":
                self.depth += 1
            elif char in ")]}":
                self.depth = max(0, self.depth - 1)
            elif char == "\\" and at == size - 1:
                self.continued = True
            at += 1
        if len(self.quote) == 1 and not line.endswith("\\"):
            self.quote = ""  # an error of the text, not ours to report

    def _in_string(self, line: str, at: int) -> int:
        if line[at] == "\\":  # also in a raw string it keeps a quote from ending it
            return at + 2
        if line.startswith(self.quote, at):
            at += len(self.quote)
            self.quote = ""
            return at
        return at + 1
