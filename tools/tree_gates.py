"""Three rules of tools/check-tree.py about the whole of src: a public function has a caller in another file, a setting
has a test that tells two values of it apart, and a buffer that is freed by its scope has a value at each return."""
import re
from pathlib import Path

# Public functions that only their own file or a test calls, by the reason why they stay public.
CALLED_BY_TESTS = {name: reason for reason, names in {
    "a test sets the clock, or looks inside":
        "kr_auth_set_clock kr_link_sign kr_link_add_path kr_crc32c_add_plain "
        "kr_config_is_loopback kr_landlock_restrict_abi kr_seccomp_simulate kr_snapshot_count "
        "kr_runlog_end kr_eg_authority_read kr_egress_connected kr_log_set_rate kr_log_open_sized "
        "kr_notify_close",
    "a test program is built on it":
        "kr_mcp_list_changed kr_report_layers",
    "one of a set that a module offers whole; its test covers it":
        "kr_requirement_applies kr_marker_env_init",
    "a handler in a table of its own file, declared by its type":
        "kr_mcp_http_metadata",
}.items() for name in names.split()}

COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STRINGS = re.compile(r'"(?:\\.|[^"\\\n])*"')
DEFINITION = re.compile(r"^(?!static\b|typedef\b|#)[A-Za-z_][^;{}()=]*?\b(kr_\w+)\([^;{}]*\)\n\{", re.M)
NAME = re.compile(r"\bkr_\w+")
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.M)


def bare(text: str) -> str:
    return STRINGS.sub('""', COMMENTS.sub(" ", text))


def used_by_header(text: str) -> set[str]:
    """Names in macros and in the bodies of inline functions; a prototype is no use."""
    found = {name for line in DIRECTIVE.findall(text) for name in NAME.findall(line)}
    depth, inside = 0, []
    for char in DIRECTIVE.sub("", text):
        depth += (char == "{") - (char == "}")
        inside.append(char if depth else " ")
    return found | set(NAME.findall("".join(inside)))


def public_functions_have_callers(root: Path) -> list[str]:
    texts = {path: bare(path.read_text()) for path in sorted((root / "src").rglob("*.[ch]"))}
    uses = {path: used_by_header(text) if path.suffix == ".h" else set(NAME.findall(text))
            for path, text in texts.items()}
    by_name: dict[str, set[Path]] = {}
    for path, names in uses.items():
        for name in names:
            by_name.setdefault(name, set()).add(path)
    wrong = []
    for path, text in texts.items():
        for name in DEFINITION.findall(text) if path.suffix == ".c" else []:
            if not by_name[name] - {path} and name not in CALLED_BY_TESTS:
                wrong.append(f"{path.relative_to(root)}: {name} has no caller in another file of src: "
                             f"make it static, or remove it")
            if by_name[name] - {path} and name in CALLED_BY_TESTS:
                wrong.append(f"{path.relative_to(root)}: {name} has a caller: take it out of CALLED_BY_TESTS")
    return wrong + [f"tools/tree_gates.py: {name} of CALLED_BY_TESTS does not exist" for name in CALLED_BY_TESTS
                    if name not in by_name]


# ---- settings
# ----------------------------------------------------------------------------------------------------------------

# A setting without a test, and why.
UNTESTED: dict[str, str] = {}

ROW = re.compile(r"^    \{ (\.(?:section|flag) = .*?)^(?=    \{ \.|\};|\n)", re.M | re.S)
LIMIT = re.compile(r'^    \{"(\w+)", +"[^"]*", +"([^"]*)", +"([^"]*)"\},', re.M)


def has_check(root: Path, test: str, flag: str) -> str | None:
    """Is there a check of this name ("suite:check") in a suite that gives the setting? None, or what is wrong."""
    suite, _, name = test.partition(":")
    path = root / "tests" / (suite + ".py")
    if not path.is_file():
        return f"there is no suite tests/{suite}.py"
    text = path.read_text()
    if not re.search(r"^@check\ndef %s\(" % re.escape(name), text, re.M):
        return f"tests/{suite}.py has no check {name}"
    ways = (f'"--{flag}"', "KRAIT_" + flag.upper().replace("-", "_"), flag + "=")
    return None if any(way in text for way in ways) else f"tests/{suite}.py never gives --{flag}"


def settings_have_tests(root: Path) -> list[str]:
    text = (root / "src/cli/config/config.c").read_text()
    tests = {}
    for row in ROW.findall(text):
        found = re.search(r'\.test = "([^"]+)"', row)
        tests[re.search(r'\.flag = "([^"]+)"', row)[1]] = found[1] if found else ""
    for limit, own, ceiling in LIMIT.findall(text):
        flag = limit.replace("_", "-")
        tests[flag], tests["max-" + flag] = own, ceiling
    limits = re.findall(r'^    \{ "(\w+)", +AT', (root / "src/wire/limits.c").read_text(), re.M)
    wrong = [f"src/cli/config/config.c: {name} is not in limit_settings" for name in limits
             if name.replace("_", "-") not in tests]
    for flag, test in tests.items():
        why = None if flag in UNTESTED else has_check(root, test, flag) if test else "its row names no test"
        wrong += [f"--{flag}: {why}"] if why else []
        wrong += [f"--{flag}: it has a test: take it out of UNTESTED"] if test and flag in UNTESTED else []
    return wrong + [f"--{flag} of UNTESTED is no setting" for flag in UNTESTED if flag not in tests]


UNSET_BUFFER = re.compile(r"cleanup_buf struct kr_buf (\w+);\n((?:(?!\b\1\b)[\s\S])*?)\b(return|goto)\b")


def buffers_have_values(root: Path) -> list[str]:
    wrong = []
    for path in sorted((root / "src").rglob("*.c")):
        text = path.read_text()
        for found in UNSET_BUFFER.finditer(text):
            if "\n}" not in found[2]:
                line = text.count("\n", 0, found.start()) + 1
                wrong.append(f"{path.relative_to(root)}:{line}: {found[1]} is freed without a value by a {found[3]}: = {{0}}")
    return wrong
