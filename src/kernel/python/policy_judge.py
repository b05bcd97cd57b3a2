"""The judge: reads the tree of a snippet under `restricted`, and finds what the policy does not allow.

run.py calls judge() before the code runs. The same pass puts a guard where only the run can tell
(an attribute called `os`, a computed format string, a pattern that reads attributes by position);
everything else is left as it is, so that it runs as fast as under `open`. Invariants: every node
is looked at once, without recursion; nothing of the code is run; each name is judged as Python
will look it up.
"""
import ast
from _string import formatter_field_name_split, formatter_parser

from krait_kernel import policy_names as names, policy_rules

MAX_FINDINGS = 200
MAX_TEXT = 300  # characters of one finding
MAX_SOURCE = 500_000  # characters of code that is judged: its tree takes some hundred times as many bytes
MAX_LITERAL = 200  # characters of an annotation that stands in a string

_Attribute, _Call, _Constant, _Load, _Name = ast.Attribute, ast.Call, ast.Constant, ast.Load, ast.Name
_NONE: tuple = ()
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_PATTERN = getattr(ast, "pattern", _NONE)


class _Ours(_Name):
    """A name that the judge has put there."""


class _Plain(ast.Store):
    """The context of a target that has been judged."""


def _child_fields(kind) -> tuple:
    if kind in (_Name, _Constant):
        return _NONE
    return tuple(
        one for one in kind._fields if one not in ("ctx", "id", "attr", "arg", "kind", "op", "ops", "type_comment")
    )


# The fields of each kind of node that hold nodes.
_FIELDS = {
    kind: _child_fields(kind)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
if hasattr(ast, "match_case"):
    _FIELDS[ast.match_case] = ("guard", "body")  # patterns hold no expressions that can be replaced


class Refused(Exception):
    """The code is not run. `findings` says why."""

    def __init__(self, findings: list) -> None:
        super().__init__(findings[0]["text"])
        self.findings = findings


class Policy:
    """What a run may do. `imports` are modules, each with what is below it."""

    def __init__(self, imports=(), profiles=(), restricted=True) -> None:
        self.imports = frozenset(imports) | {"__future__"}
        self.profiles = frozenset(profiles)
        self.restricted = restricted
        self.writes = not restricted or "filesystem" in self.profiles

    def allows(self, module: str) -> bool:
        """Whether it, or what a dotted prefix of it names, is in the list."""
        while module:
            if module in self.imports:
                return True
            if module in names.NEVER:
                return False
            module = module.rpartition(".")[0]
        return False

    def leads(self, module: str) -> bool:
        """Whether something below it is in the list."""
        start = module + "."
        return any(one.startswith(start) for one in self.imports)

    def refused_of(self, module: str, names_: tuple) -> list:
        """The names of `from module import names_` that may not be imported, as modules."""
        if self.allows(module):
            return []
        if not names_ or not self.leads(module):
            return [module]
        return ["%s.%s" % (module, one) for one in names_ if not self.allows("%s.%s" % (module, one))]


class Finding:
    """One finding, from the place in the text to the object of the END frame."""

    def __init__(self, rule: str, node, text: str) -> None:
        self.rule, self.text = rule, text[:MAX_TEXT]
        self.in_characters = False  # as syntax errors have their place; trees have it in bytes
        self.at = (
            getattr(node, "lineno", None) or 1,
            getattr(node, "col_offset", None) or 0,
            getattr(node, "end_lineno", None) or getattr(node, "lineno", None) or 1,
            getattr(node, "end_col_offset", None) or getattr(node, "col_offset", None) or 0,
        )


def column(lines: list, line: int, offset: int) -> int:
    """The character, from 1 on, at a number of bytes of UTF-8."""
    if line < 1 or line > len(lines):
        return offset + 1
    return len(lines[line - 1].encode("utf-8", "surrogatepass")[:offset].decode("utf-8", "ignore")) + 1


def field_is_plain(text: str) -> bool:
    """Whether a format string reads no attribute that code may not read."""
    if not any(part in text for part in names.FIELD):
        return True
    try:
        for _literal, field, spec, _conversion in formatter_parser(text):
            if field:
                _first, rest = formatter_field_name_split(field)
                if not all(not is_attr or names.may_compute(one) for is_attr, one in rest):
                    return False
            if spec and not field_is_plain(spec):
                return False
    except (ValueError, RecursionError):
        return False
    return True


class Judge:
    """One pass over one tree."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.found: list = []
        self.bound: set = set()  # names that the text binds, which are then not the builtins
        self.builtins: list = []  # findings that count only if their name is not among those
        self.privates: list = []  # findings that count only if their name is a module's
        self.modules: set = set()  # names that imports bind, and nothing else does
        self.in_class: set = set()  # ids of the cases that stand in the body of a class
        self.captures = 0

    def find(self, rule: str, node, text: str) -> None:
        if len(self.found) < 4 * MAX_FINDINGS:
            self.found.append(Finding(rule, node, text))

    def walk(self, tree) -> None:
        stack, handlers, fields = [tree], _HANDLERS, _FIELDS
        pop, push = stack.pop, stack.append
        while stack:
            node = pop()
            kind = type(node)
            handle = handlers.get(kind)
            if handle is not None:
                handle(self, node)
                kind = type(node)
            for field in fields.get(kind, _NONE):
                value = getattr(node, field, None)
                if value.__class__ is list:
                    for one in value:
                        if isinstance(one, ast.AST):
                            push(one)
                elif isinstance(value, ast.AST):
                    push(value)

    # ---- names --------------------------------------------------------------------------------

    def bind(self, name, node) -> None:
        if name is None:
            return
        self.bound.add(name)
        if name[:2] == "__" and not names.may_bind(name):
            self.find("P105", node, "Name '%s' is not allowed" % name)

    def name(self, node) -> None:
        name = node.id
        if type(node.ctx) is not _Load:
            self.bind(name, node)
            if name == "__match_args__" and type(node.ctx) is not _Plain:
                self.find("P107", node, "__match_args__ must be a tuple of names that stand in the text")
        elif name in names.NO_BUILTINS:
            self.builtins.append((name, Finding("P102", node, "Builtin '%s' is not allowed" % name)))
        elif name[:2] == "__" and _is_reserved(name) and name not in names.READ:
            rule, what = ("P101", "Import by") if name == "__import__" else ("P105", "Name")
            self.find(rule, node, "%s '%s' is not allowed" % (what, name))

    def declared(self, node) -> None:
        for name in node.names:
            self.bind(name, node)

    def argument(self, node) -> None:
        self.bind(node.arg, node)
        self.annotation(node.annotation)

    def function(self, node) -> None:
        self.bind(node.name, node)
        self.annotation(node.returns)
        if node.name == "__match_args__":
            self.find("P107", node, "__match_args__ must be a tuple of names that stand in the text")

    def defined(self, node) -> None:
        self.bind(node.name, node)

    def class_(self, node) -> None:
        """The names of a class body are looked up and bound in a mapping of the metaclass's own
        making, which would see what a pattern captures before it is looked at.
        """
        self.bind(node.name, node)
        stack = list(node.body)
        while stack:
            one = stack.pop()
            if isinstance(one, _SCOPES):
                continue
            if type(one).__name__ == "match_case":
                self.in_class.add(id(one))
            stack.extend(ast.iter_child_nodes(one))

    # ---- attributes ---------------------------------------------------------------------------

    def attribute(self, node) -> None:
        name = node.attr
        if type(node.ctx) is not _Load:
            if not names.may_write(name):
                self.find("P103", node, "Attribute '%s' must not be set" % name)
        elif name in names.GUARDED:
            self.guarded(node)
        elif name[:1] == "_" and type(node.value) is _Name and name not in names.READ:
            self.private(node)
        elif not names.may_read(name):
            self.find("P103", node, "Attribute '%s' is not allowed" % name)

    def private(self, node) -> None:
        """`_name` of what may be a module."""
        if not names.may_read(node.attr):
            self.find("P103", node, "Attribute '%s' is not allowed" % node.attr)
        else:
            text = "Attribute '%s' of the module '%s' is private to it" % (node.attr, node.value.id)
            self.privates.append((node.value.id, Finding("P103", node, text)))

    def guarded(self, node) -> None:
        """Makes `value.name` a call of the guard, in its place."""
        name, value = node.attr, node.value
        if name in ("format", "format_map") and type(value) is _Constant and type(value.value) is str:
            if not field_is_plain(value.value):
                self.find("P104", node, "Format string reads attributes that are not allowed")
            return
        del node.attr, node.value, node.ctx
        node.__class__ = _Call
        node.func = _made(_Ours(names.ATTRIBUTE, _Load()), node)
        node.args = [value, _made(_Constant(name), node)]
        node.keywords = []

    # ---- imports ------------------------------------------------------------------------------

    def imports(self, node) -> None:
        for alias in node.names:
            self.module(alias.asname or alias.name.partition(".")[0], node)
            if not self.policy.allows(alias.name):
                self.find("P101", _place(alias, node), "Import '%s' is not allowed" % alias.name)

    def module(self, name: str, node) -> None:
        self.modules.add(name)
        if name[:2] == "__":
            self.bind(name, node)

    def imports_from(self, node) -> None:
        for alias in node.names:
            self.bind(alias.asname or alias.name, node)
            if names.is_special(alias.name) and alias.name not in names.SHOWN or alias.name in names.DENIED:
                self.find("P103", _place(alias, node), "Attribute '%s' is not allowed" % alias.name)
        if node.level:
            what = "." * node.level + (node.module or "")
            self.find("P101", node, "Import '%s' is not allowed" % what)
            return
        for one in self.policy.refused_of(node.module, tuple(alias.name for alias in node.names)):
            self.find("P101", node, "Import '%s' is not allowed" % one)

    # ---- calls --------------------------------------------------------------------------------

    def call(self, node) -> None:
        func = node.func
        if type(func) is _Attribute and type(func.value) is _Name and func.value.id == "__krait__":
            self.magic(node, func.attr)
        elif type(func) is _Name:
            if func.id in ("getattr", "hasattr", "setattr", "delattr"):
                self.computed(node, func.id)
            elif func.id == "vars" and not node.args:
                self.builtins.append(("vars", Finding("P102", node, "Builtin 'vars' is not allowed")))

    def computed(self, node, what: str) -> None:
        name = node.args[1].value if len(node.args) > 1 and type(node.args[1]) is _Constant else None
        if type(name) is not str:
            return
        may = names.may_compute(name) if what in ("getattr", "hasattr") else names.may_write(name)
        if not may:
            self.builtins.append((what, Finding("P103", node, "Attribute '%s' is not allowed" % name)))

    # ---- annotations that are strings ---------------------------------------------------------

    def annotation(self, node) -> None:
        """What stands in a string becomes code when a library asks for it."""
        if node is None or type(node) not in (_Constant, ast.Subscript, ast.BinOp, ast.Tuple, ast.List):
            return
        stack = [node]
        while stack:
            one = stack.pop()
            if type(one) is _Constant and type(one.value) is str:
                self.text(one)
            elif type(one) in (ast.Subscript, ast.BinOp, ast.Tuple, ast.List):
                stack.extend(ast.iter_child_nodes(one))

    def text(self, node) -> None:
        try:
            inner = ast.parse(node.value.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        judge = Judge(self.policy)
        judge.walk(inner)
        for one in judge.all():
            self.find(one.rule, node, one.text)

    def annotated(self, node) -> None:
        self.annotation(node.annotation)

    def assigned(self, node) -> None:
        """`__match_args__ = ("x", "y")`, a tuple of plain names, is the one way to set it."""
        if any(type(one) is _Name and one.id == "__match_args__" for one in node.targets):
            value = node.value
            plain = type(value) is ast.Tuple and all(
                type(one) is _Constant and type(one.value) is str and _is_plain(one.value) for one in value.elts
            )
            if plain and len(node.targets) == 1:
                node.targets[0].ctx = _Plain()

    # ---- patterns -----------------------------------------------------------------------------

    def case(self, node) -> None:
        """Where a class pattern takes something by position (which attribute that is, only the
        class knows), all that the pattern captures is renamed, looked at, and only then bound.
        """
        captures: list = []  # nodes and the field that holds the name
        if not self.pattern(node.pattern, captures):
            return
        if id(node) in self.in_class:
            self.find("P107", node.pattern, "A class pattern by position must not stand in the body of a class")
        hidden: dict = {}
        captures.sort(key=lambda one: (one[0].lineno, one[0].col_offset))
        for one, field in captures:
            name = getattr(one, field)
            if name not in hidden:
                hidden[name] = names.CAPTURE % self.captures
                self.captures += 1
            setattr(one, field, hidden[name])
        at = node.pattern
        parts = []
        for name, made in hidden.items():
            value = _made(_Call(_made(_Ours(names.CHECKED, _Load()), at), [_made(_Ours(made, _Load()), at)], []), at)
            parts.append(_made(ast.NamedExpr(_made(_Name(name, ast.Store()), at), value), at))
        bound = _made(ast.Tuple(parts, _Load()), at)
        node.guard = bound if node.guard is None else _made(ast.BoolOp(ast.And(), [bound, node.guard]), at)

    def pattern(self, top, captures: list) -> bool:
        """Judges a pattern; whether anything in it is captured by its position in a class."""
        stack, by_position = [(top, False)], False
        while stack:
            node, inside = stack.pop()
            kind = type(node)
            if kind is ast.MatchClass:
                for name in node.kwd_attrs:
                    if name in names.GUARDED or not names.may_read(name):
                        self.find("P103", node, "Attribute '%s' is not allowed" % name)
                self.reference(node.cls)
                stack.extend((one, True) for one in node.patterns)
                stack.extend((one, inside) for one in node.kwd_patterns)
                continue
            if kind is ast.MatchValue:
                self.reference(node.value)
                continue
            field = "rest" if kind is ast.MatchMapping else "name"
            name = getattr(node, field, None)
            if name is not None:
                self.bind(name, node)
                captures.append((node, field))
                by_position |= inside
            for one in getattr(node, "keys", _NONE):
                self.reference(one)
            for one in ast.iter_child_nodes(node):
                if isinstance(one, _PATTERN):
                    stack.append((one, inside))
        return by_position

    def reference(self, node) -> None:
        """`a.b.c` in a pattern, where no guard can stand."""
        while type(node) is _Attribute:
            if node.attr in names.GUARDED or not names.may_read(node.attr):
                self.find("P103", node, "Attribute '%s' is not allowed in a pattern" % node.attr)
                return
            node = node.value
        if type(node) is _Name:
            self.name(node)

    # ---- magics -------------------------------------------------------------------------------

    def magic(self, node, kind: str) -> None:
        first = node.args[0] if node.args else None
        if kind not in _KINDS or type(first) is not _Constant or type(first.value) is not str:
            return  # not made of a command: the name is refused
        text = first.value
        node.func.value = _made(_Ours("__krait__", _Load()), node)
        if kind in ("system", "lines"):
            self.find("P106", node, "Shell command '!%s' is not allowed" % _short(text))
        elif kind == "help":
            for part in text.split("."):
                if not names.may_compute(part):
                    self.find("P103", node, "Attribute '%s' is not allowed" % part)
        elif kind == "magic":
            name, _, rest = text.partition(" ")
            if name == "time" and rest.strip():
                self.timed(node, rest.strip())
            elif name not in HARMLESS_MAGICS:
                self.find("P106", node, "Command '%%%s' is not allowed" % _short(name))

    def timed(self, node, text: str) -> None:
        """`%time expression` becomes a call of the clock with the expression in a lambda."""
        try:
            inner = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self.find("P106", node, "Command '%%time' takes one expression: use %%%%time for '%s'" % _short(text))
            return
        for one in ast.walk(inner):
            if hasattr(one, "lineno"):
                ast.copy_location(one, node)
        none = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        node.func = _made(_Ours(names.TIMED, _Load()), node)
        node.args = [_made(ast.Lambda(none, inner), node)]

    # ---- the end ------------------------------------------------------------------------------

    def all(self) -> list:
        kept = self.found + [one for name, one in self.builtins if name not in self.bound]
        kept += [one for name, one in self.privates if name in self.modules and name not in self.bound]
        kept.sort(key=lambda one: one.at[:2])
        return kept


_KINDS = ("system", "lines", "help", "magic")  # what magics.py writes
HARMLESS_MAGICS = frozenset(
    "autoreload config load_ext matplotlib precision pylab reload_ext xmode colors automagic".split()
)


def _is_plain(name: str) -> bool:
    return name.isidentifier() and name not in names.GUARDED and names.may_read(name)


def _is_reserved(name: str) -> bool:
    return names.is_special(name) or name.startswith(names.OURS)


def _short(text) -> str:
    line = str(text).split("\n")[0]
    return line if len(line) <= 60 else line[:59] + "…"


def _made(node, at):
    return ast.copy_location(node, at)


def _place(alias, node):
    return alias if hasattr(alias, "lineno") else node


_HANDLERS = {
    _Name: Judge.name,
    _Attribute: Judge.attribute,
    _Call: Judge.call,
    ast.Import: Judge.imports,
    ast.ImportFrom: Judge.imports_from,
    ast.Global: Judge.declared,
    ast.Nonlocal: Judge.declared,
    ast.arg: Judge.argument,
    ast.FunctionDef: Judge.function,
    ast.AsyncFunctionDef: Judge.function,
    ast.ClassDef: Judge.class_,
    ast.ExceptHandler: Judge.defined,
    ast.AnnAssign: Judge.annotated,
    ast.Assign: Judge.assigned,
}
if hasattr(ast, "match_case"):
    _HANDLERS[ast.match_case] = Judge.case
for _kind in ("TypeVar", "ParamSpec", "TypeVarTuple"):
    if hasattr(ast, _kind):
        _HANDLERS[getattr(ast, _kind)] = Judge.defined


def judge(tree, policy: Policy) -> list:
    """What is wrong with the tree, in the order of the text, and the tree with the guards in it."""
    one = Judge(policy)
    one.walk(tree)
    return one.all()


def cell(made, policy: Policy) -> list:
    """The same of a snippet that starts with %%name."""
    word = made.args.strip()
    if made.name == "capture" and word and not (word.isidentifier() and not word.startswith("_")):
        return [Finding("P105", None, "Name '%s' is not allowed" % _short(word))]
    if made.name in ("time", "capture", "html", "HTML", "markdown", "latex", "svg", "SVG"):
        return []
    if made.name in ("writefile", "file") and policy.writes:
        return []
    return [Finding("P106", None, "Command '%%%%%s' is not allowed" % _short(made.name))]


def report(found: list, source: str) -> list:
    """Findings as the END frame has them: bounded, with columns in characters."""
    lines = source.split("\n") if len(found) else []
    rows, seen = [], set()
    for one in found:
        line, start, end_line, end = one.at
        key = (one.rule, line, start, one.text)
        if key in seen:
            continue
        seen.add(key)
        rows.append(
            {
                "id": one.rule,
                "line": line,
                "column": start + 1 if one.in_characters else column(lines, line, start),
                "end_line": end_line,
                "end_column": end + 1 if one.in_characters else column(lines, end_line, end),
                "text": one.text,
                "why": policy_rules.WHY[one.rule],
            }
        )
        if len(rows) == MAX_FINDINGS:
            break
    return rows
