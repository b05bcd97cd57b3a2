#!/usr/bin/python3
"""The pure parts: our JSON writer beside json, bounds of texts, which names a text binds."""
import ast
import json
import math

from fake_krait import load_kernel
from check import check, equal, main

kernel = load_kernel()
channel, names = kernel.channel, kernel.names


@check
def json_is_what_json_reads():
    for value in (
        None,
        True,
        [],
        {},
        -1,
        2**63 - 1,
        -(2**63),
        0.1,
        1e300,
        "é\n\t\"\\\x7f\x01中\U0001f600\u2028",
        [1, [2, (3,)], {"a": {"b": None}}],
        {"": 0},
    ):
        equal(json.loads(channel.dumps(value)), json.loads(json.dumps(value)), repr(value))


@check
def what_json_has_no_word_for():
    equal(channel.dumps([math.nan, math.inf, -math.inf]), "[null,null,null]")
    equal(channel.dumps([2**63, -(2**70), 10**399]), "[%d,%d,%d]" % (2**63, -(2**70), 10**399))
    equal(json.loads(channel.dumps(10**400)), str(10**400))
    equal(json.loads(channel.dumps(1 << 20_000)), "an integer of 20001 bits")
    equal(json.loads(channel.dumps(10**400))[:5], "10000")
    equal(json.loads(channel.dumps({1: 2, None: 3, "1": 4})), {"1": 4, "None": 3})
    equal(json.loads(channel.dumps([{1}, b"x"])), ["{1}", "b'x'"])
    equal(channel.dumps("a\0\ud800"), '"a\\\\x00\\\\ud800"')


@check
def subclasses_are_taken_by_their_base():
    class Text(str):
        def encode(self, *_args):
            return "no"

    class Map(dict):
        def items(self):
            raise ValueError

    class Sequence(list):
        pass

    equal(channel.dumps([Text("t"), Map(a=1), Sequence([1])]), '["t",{"a":1},[1]]')


@check
def depth_is_bounded():
    deep = []
    for _ in range(channel.MAX_DEPTH + 5):
        deep = [deep]
    try:
        channel.dumps(deep)
    except ValueError:
        return
    raise AssertionError("no error")


@check
def frames_that_are_no_objects_are_refused():
    for payload in (b"", b"[]", b"5", b"{", b"nonsense", b'{"a":', b"\xff"):
        try:
            channel.loads(payload)
        except ValueError:
            continue
        raise AssertionError(payload)
    equal(channel.loads(b'{"a":[1,"\\u00e9"]}'), {"a": [1, "é"]})


@check
def cut_texts_keep_head_and_tail():
    text = "h" * 100 + "m" * 1000 + "t" * 300
    short = channel.cut(text, 400)
    assert short.startswith("h" * 100) and short.endswith("t" * 300), short
    assert "[1000 characters cut]" in short, short
    equal(channel.cut(text, 1400), text)


@check
def names_a_text_binds():
    def bound(text):
        return list(names.bound(ast.parse(text).body))

    equal(bound("a = b = 1; c += 1; d: int = 2; e: int"), ["a", "b", "c", "d"])
    equal(bound("x.y = z[0] = 1; (p, [q, *r]) = t"), ["p", "q", "r"])
    equal(bound("import a.b, c as d\nfrom e import f, g as h"), ["a", "d", "f", "h"])
    equal(bound("if x:\n  a = 1\nelif y:\n  b = 1\nelse:\n  c = 1"), ["a", "b", "c"])
    equal(bound("try:\n  a = 1\nexcept E as e:\n  b = 1\nelse:\n  c = 1\nfinally:\n  d = 1"), ["a", "b", "c", "d"])
    equal(bound("async def f():\n  x = 1\nclass C:\n  y = 1\nwhile 1:\n  w = 1"), ["f", "C", "w"])
    equal(bound("with a as (b, c), d as e: pass\nfor i, j in k: pass\ndel z"), ["b", "c", "e", "i", "j"])


main()
