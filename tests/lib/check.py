"""The Python side of the test protocol: a suite prints `PASS name`, `FAIL name: why` or `SKIP
name: why`, one a line; tests/run counts them.

    from check import check, main, skip

    @check
    def two_and_two():
        assert 2 + 2 == 4

    main()

Arguments of the suite choose checks by name. KR_MUST_WORK=1 turns a skip into a failure.
"""
import os
import sys
import traceback

_checks: list = []


class Skip(Exception):
    pass


def check(function):
    """Registers a check under its function's name."""
    _checks.append(function)
    return function


def skip(why: str) -> None:
    """Leaves the check that calls it."""
    raise Skip(why)


def equal(got, expected, what: str = "") -> None:
    assert got == expected, "%sgot %r, expected %r" % (what + ": " if what else "", got, expected)


def contains(text, part, what: str = "") -> None:
    assert part in text, "%s%r is not in %r" % (what + ": " if what else "", part, text)


def _line(word: str, name: str, why: str = "") -> None:
    text = " ".join(why.split())[:2000]
    print("%s %s%s" % (word, name, ": " + text if text else ""), flush=True)


def _why(exc: BaseException) -> str:
    frames = traceback.extract_tb(exc.__traceback__)
    place = frames[-1] if frames else None
    where = "%s:%d" % (os.path.basename(place.filename), place.lineno) if place else "?"
    return "%s: %s: %s" % (where, type(exc).__name__, str(exc) or (place.line if place else ""))


def run(function) -> bool:
    """One check. True unless it failed."""
    name = function.__name__
    try:
        function()
    except Skip as exc:
        word = "FAIL" if os.environ.get("KR_MUST_WORK") == "1" else "SKIP"
        _line(word, name, str(exc))
        return word == "SKIP"
    except Exception as exc:
        _line("FAIL", name, _why(exc))
        return False
    _line("PASS", name)
    return True


def main() -> None:
    """Runs what is registered, or what the arguments name, and exits."""
    wanted = sys.argv[1:]
    unknown = set(wanted) - {one.__name__ for one in _checks}
    for name in sorted(unknown):
        _line("FAIL", name, "there is no such check")
    good = [run(one) for one in _checks if not wanted or one.__name__ in wanted]
    sys.exit(0 if all(good) and not unknown and good else 1)
