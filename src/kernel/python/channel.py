"""What a session says to the engine: JSON frames, written only by the session itself and only
while a run is on.

Everything here is private on purpose: user code may patch json, os or builtins, and the frames
must come out the same. Our modules run on their own copy of the builtins (boot.py), so what is
looked up here at run time is what was there before user code. Invariants: a copy of the
interpreter that user code forked writes nothing; every payload is valid UTF-8 and JSON a strict
parser takes (no lone surrogate, no NUL, no NaN, no integer past 400 digits).
"""
import _krait
from _json import encode_basestring as _quote
from _thread import RLock
from json import JSONDecoder
from os import getpid

MAX_DEPTH = 60  # the engine takes 64, and the frame around it has some of its own
MAX_VALUES = 49_000  # of a frame, keys among them; the engine takes 50,000
MAX_DIGITS = 400  # of an integer; the engine takes 512 bytes
MAX_PROMPT = 8 << 10  # characters; the engine takes 64 KiB of JSON

pid = 0  # of the session; 0 in the zygote
run = 0  # the run that is on; 0 between runs
quiet = False  # a warm-up: no frame is sent
folder = None  # what stands for /workspace where it is not mounted (level contained)
venv = False  # the sandbox has an environment, and packages can be asked for
counted = 0  # values and keys in what dumps() has last made
_lock = RLock()  # reentrant: a signal handler of the user's may display while we do
_scan = JSONDecoder().scan_once


def located(path):
    """A path of the engine's as this process sees it."""
    for prefix, base in (("/workspace/", folder), ("/tmp/", _krait.scratch())):
        if folder is not None and isinstance(path, str) and path.startswith(prefix):
            return base + "/" + path[len(prefix) :]
    return path


def is_copy() -> bool:
    """True in a process that user code forked off the session."""
    return pid != 0 and getpid() != pid


def is_open() -> bool:
    """Whether a frame for the run that is on may be written now, by us."""
    return run != 0 and not quiet and not is_copy()


def clean(text: str) -> str:
    """An exact str that UTF-8 and a strict JSON parser can carry. Takes subclasses of str
    without calling their methods.
    """
    exact = str.encode(text, "utf-8", "backslashreplace").decode("utf-8")
    return exact.replace("\0", "\\x00") if "\0" in exact else exact


def cut(text: str, limit: int) -> str:
    """At most about `limit` characters: the head and the tail, with a mark between them that
    says how much is missing.
    """
    size = str.__len__(text)
    if size <= limit:
        return text
    head = limit // 4
    tail = limit - head
    return "%s\n… [%d characters cut] …\n%s" % (
        str.__getitem__(text, slice(0, head)),
        size - limit,
        str.__getitem__(text, slice(size - tail, size)),
    )


def dumps(value: object, depth: int = 0) -> str:
    """JSON of plain values. What JSON has no word for becomes a string, NaN and infinities null.
    ValueError if nested too deep, or more than the engine takes.
    """
    global counted
    counted = counted + 1 if depth else 1
    if counted > MAX_VALUES:
        raise ValueError("too many values")
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    kind = type(value)
    if kind is int:
        return int.__repr__(value) if -(2**63) <= value < 2**63 else _large(value)
    if kind is float:
        return float.__repr__(value) if value - value == 0 else "null"
    if issubclass(kind, str):
        return _quote(clean(value))
    if depth >= MAX_DEPTH:
        raise ValueError("nested too deep")
    if issubclass(kind, dict):
        plain = {
            (clean(k) if issubclass(type(k), str) else clean(str(k))): v
            for k, v in dict.items(value)
        }
        counted += len(plain)
        return "{%s}" % ",".join(
            ["%s:%s" % (_quote(k), dumps(v, depth + 1)) for k, v in plain.items()]
        )
    if issubclass(kind, (list, tuple)):
        return "[%s]" % ",".join([dumps(v, depth + 1) for v in kind.__iter__(value)])
    item = getattr(value, "tolist", None) or getattr(
        value, "item", None
    )  # numpy's arrays and scalars
    if item is not None and kind.__module__ == "numpy":
        return dumps(item(), depth + 1)
    return _quote(clean(str(value)))


def _large(value: int) -> str:
    """Its digits, as a number where the engine takes that many, else as a string."""
    if value.bit_length() > 10_000:  # more than Python writes out
        return _quote("an integer of %d bits" % value.bit_length())
    text = int.__repr__(value)
    return text if len(text) <= MAX_DIGITS else _quote(text)


def loads(payload: bytes) -> dict:
    """The object of a frame's payload. ValueError if it is none."""
    text = payload.decode("utf-8")
    try:
        value, _end = _scan(text, 0)
    except StopIteration:
        raise ValueError("a frame without JSON") from None
    if not isinstance(value, dict):
        raise ValueError("a frame that is no object")
    return value


def send(kind: int, value: object) -> None:
    """Writes one frame of the run that is on, if one is and it is ours to write."""
    send_bytes(kind, dumps(value).encode("utf-8"))


def send_bytes(kind: int, payload: bytes) -> None:
    if is_open():
        with _lock:
            _krait.send(kind, run, payload)


def send_end(run_id: int, payload: bytes) -> None:
    """The END frame, which goes out whether or not displays may."""
    with _lock:
        _krait.send(_krait.END, run_id, payload)
