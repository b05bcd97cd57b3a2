"""Figures of a text that is validated, and what its author could do: from the tree, without
running anything.

policy_run.py calls of() and recommend(). Invariant: one pass without recursion, so that the depth
of the code costs nothing but time.
"""
import ast

LONG = 50  # lines of a snippet, or of a function
DEEP = 4  # blocks inside one another
MAX_CARET = 200  # characters of a line that is shown with a caret

_BRANCHES = tuple(
    getattr(ast, name)
    for name in "If For AsyncFor While IfExp ExceptHandler comprehension match_case Assert".split()
    if hasattr(ast, name)
)
_BLOCKS = tuple(
    getattr(ast, name)
    for name in "If For AsyncFor While With AsyncWith Try TryStar Match".split()
    if hasattr(ast, name)
)
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.comprehension)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class _Count:
    def __init__(self) -> None:
        self.branches = self.nesting = self.loops = self.functions = self.classes = self.comprehensions = 0
        self.imports: list = []
        self.recursion: set = set()
        self.long_functions: list = []
        self.bare_excepts: list = []
        self.endless: list = []


def _measure(tree) -> _Count:
    made = _Count()
    stack = [(tree, 0, 0, ())]  # node, blocks and loops around it, names of the functions around it
    while stack:
        node, depth, loops, inside = stack.pop()
        kind = type(node)
        if kind in _BRANCHES:
            made.branches += 1
        elif kind is ast.BoolOp:
            made.branches += len(node.values) - 1
        if kind in _BLOCKS:
            depth += 1
            made.nesting = max(made.nesting, depth)
        if kind in _LOOPS:
            loops += 1
            made.loops = max(made.loops, loops)
            made.comprehensions += kind is ast.comprehension
        if kind in _FUNCTIONS:
            made.functions += 1
            inside, depth, loops = (*inside[-20:], node.name), 0, 0
            if (getattr(node, "end_lineno", None) or node.lineno) - node.lineno >= LONG:
                made.long_functions.append((node.lineno, node.name))
        _note(made, node, kind, inside)
        for child in ast.iter_child_nodes(node):
            stack.append((child, depth, loops, inside))
    return made


def _note(made: _Count, node, kind, inside: tuple) -> None:
    if kind is ast.ClassDef:
        made.classes += 1
    elif kind is ast.Call:
        name = node.func.id if type(node.func) is ast.Name else None
        if type(node.func) is ast.Attribute and type(node.func.value) is ast.Name:
            name = node.func.attr if node.func.value.id in ("self", "cls") else None
        if name in inside:
            made.recursion.add(name)
    elif kind is ast.ExceptHandler and node.type is None:
        made.bare_excepts.append(node.lineno)
    elif kind is ast.Import:
        made.imports += [alias.name for alias in node.names]
    elif kind is ast.ImportFrom:
        made.imports.append("." * node.level + (node.module or ""))
    elif kind is ast.While and _is_endless(node):
        made.endless.append(node.lineno)


def _is_endless(node) -> bool:
    """`while True:` that nothing in it leaves."""
    if type(node.test) is not ast.Constant or not node.test.value:
        return False
    stack = list(node.body)
    while stack:
        one = stack.pop()
        if isinstance(one, (ast.Break, ast.Return, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await, ast.Call)):
            if not isinstance(one, ast.Call) or _may_leave(one):
                return False
        stack.extend(ast.iter_child_nodes(one))
    return True


def _may_leave(call) -> bool:
    """Whether a call may raise what ends the loop: all but print() may."""
    return not (type(call.func) is ast.Name and call.func.id == "print")


def _grade(count: _Count) -> str:
    paths = count.branches + 1
    if paths > 20 or count.loops >= 3 or count.nesting > DEEP or (count.recursion and paths > 10):
        return "high"
    if paths > 5 or count.loops >= 2 or count.nesting > 2 or count.recursion or count.classes:
        return "medium"
    return "low"


def of(source: str, tree) -> dict:
    """The `analysis` of the END frame. Without a tree the counts of the text alone."""
    made = {
        "line_count": len(source.split("\n")) - (1 if source.endswith("\n") else 0) if source else 0,
        "character_count": len(source),
    }
    if tree is None:
        made.update(complexity=None, estimated_complexity=None)
        return made
    count = _measure(tree)
    made["complexity"] = {
        "branches": count.branches,
        "paths": count.branches + 1,
        "nesting": count.nesting,
        "loop_nesting": count.loops,
        "functions": count.functions,
        "classes": count.classes,
        "comprehensions": count.comprehensions,
        "recursion": bool(count.recursion),
        "recursive_functions": sorted(count.recursion)[:20],
        "imports": list(dict.fromkeys(count.imports))[:50],
    }
    made["estimated_complexity"] = _grade(count)
    made["notes"] = _notes(count)
    return made


def _notes(count: _Count) -> list:
    notes = []
    for line, name in count.long_functions[:3]:
        notes.append("Line %d: function '%s' has more than %d lines; divide it" % (line, name, LONG))
    for line in count.endless[:3]:
        notes.append("Line %d: this loop has no way out; the run would end by its timeout" % line)
    for line in count.bare_excepts[:3]:
        notes.append("Line %d: 'except:' hides every error, also an interrupt; name the exception" % line)
    if count.nesting > DEEP:
        notes.append("Blocks are nested %d deep; return early or use functions" % count.nesting)
    return notes


_ADVICE = (
    (("P101", "P105", "P103", "P106"), "Some operations may be restricted in sandbox environment"),
    (("P102",), "Write the computation as code: text is not run as code here; json.loads() reads data"),
    (("P104",), "Give format() the values themselves: '{}'.format(obj.name) in place of '{0.name}'"),
    (("P106",), "Do in Python what the command does; programs are not started here"),
    (("P107",), "Write __match_args__ as a tuple of names, or match by keywords"),
    (("P108",), "Divide the code into several runs: variables are kept between them"),
)


def recommend(analysis: dict, findings: list) -> list:
    """Sentences for the code's author: about what is refused, then about the code itself."""
    ids = {one["id"] for one in findings}
    made = [text for rules, text in _ADVICE if ids.intersection(rules)]
    for one in findings:
        if one["id"] == "P100":
            made.append("Correct the syntax error in line %d first" % one["line"])
            break
    made += analysis.pop("notes", [])
    if (analysis.get("line_count") or 0) > 10 * LONG:
        made.append("Consider dividing the code: it has %d lines" % analysis["line_count"])
    return made


def caret(source: str, line: int, column: int) -> str:
    """The line, and below it a caret at the column."""
    lines = source.split("\n")
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    start = max(0, column - 1 - MAX_CARET // 2) if len(text) > MAX_CARET else 0
    shown = text[start : start + MAX_CARET].replace("\t", " ")
    return "%s\n%s^" % (shown, " " * max(0, min(column - 1 - start, len(shown))))
