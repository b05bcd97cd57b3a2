"""RestrictedPython for bench/run: the programs of policy_programs.txt, plain and restricted by it, in one interpreter.

    peer_restrictedpython.py FOLDER     the unpacked wheel is in FOLDER

Lines: `version`; `run NUMBER`, the program of that number once plain and once restricted: processor time in
microseconds, with compiling, and what it left in `result`. Guards are those that come with RestrictedPython; classes of the
program may be written to, since it could not set its own attributes otherwise."""
import json
import operator
import os
import sys
import time
from importlib import metadata

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [sys.argv[1], os.path.join(os.path.dirname(HERE), "tests", "lib")]
from pathlib import Path  # noqa: E402

import policies  # noqa: E402

IN_PLACE = {"+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv, "%=": operator.imod,
            "//=": operator.ifloordiv, "**=": operator.ipow, "|=": operator.ior, "&=": operator.iand, "^=": operator.ixor}
MODULES = ("heapq", "json", "re", "math")
MORE = {one.__name__: one for one in (list, dict, set, frozenset, sum, min, max, any, all, enumerate, map, filter, reversed)}


def import_listed(name, globals_=None, locals_=None, fromlist=(), level=0):
    if name not in MODULES:
        raise ImportError("%s is not in the list" % name)
    return __import__(name, globals_, locals_, fromlist, level)


def make_class(name, bases, members):
    return type(name, bases, {**members, "_guarded_writes": True})


def guards() -> dict:
    from RestrictedPython import Eval, Guards

    return {
        "__builtins__": {**Guards.safe_builtins, **MORE, "getattr": Guards.safer_getattr, "__import__": import_listed},
        "__name__": "program", "__metaclass__": make_class,
        "_getattr_": Guards.safer_getattr, "_getitem_": Eval.default_guarded_getitem,
        "_getiter_": Eval.default_guarded_getiter, "_write_": Guards.full_write_guard,
        "_unpack_sequence_": Guards.guarded_unpack_sequence,
        "_iter_unpack_sequence_": Guards.guarded_iter_unpack_sequence,
        "_apply_": lambda function, *args, **names: function(*args, **names),
        "_inplacevar_": lambda sign, value, other: IN_PLACE[sign](value, other),
    }


def timed(compiler, code: str, names: dict) -> tuple:
    began = time.process_time()
    exec(compiler(code, "<program>", "exec"), names)
    return (time.process_time() - began) * 1e6, str(names["result"])


def answer(words: list, programs: list) -> dict:
    from RestrictedPython import compile_restricted

    if words[0] == "version":
        return {"version": metadata.version("RestrictedPython")}
    code = programs[int(words[1])][1]
    plain, left = timed(compile, code, {"__name__": "program"})
    restricted, other = timed(compile_restricted, code, guards())
    return {"plain": [plain], "restricted": [restricted], "result": [left, other]}


def main() -> None:
    programs = policies.programs(Path(HERE) / "policy_programs.txt")
    for line in sys.stdin:
        try:
            reply = {"ok": True, **answer(line.split(), programs)}
        except Exception as exc:  # whatever the peer raises is said in the table
            reply = {"ok": False, "error": "%s: %s" % (type(exc).__name__, str(exc)[:200])}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
