"""Malformed, smuggling and limit cases: what a peer sends and the one status it gets.

A row is (name, status, bytes). A refused request gets one answer and the end of the connection, and
whatever is smuggled behind it is never answered; a 200 gets one answer and an open connection.
"""
NEXT = b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"
OLD_BODY = b"3\r\nabc\r\n0\r\n\r\n"


def post(*lines: bytes, body: bytes = b"", version: bytes = b"1.1") -> bytes:
    head = [b"POST /echo HTTP/" + version, b"Host: a", *lines]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def get(*lines: bytes) -> bytes:
    return b"\r\n".join([b"GET /hello HTTP/1.1", b"Host: a", *lines]) + b"\r\n\r\n"


def chunks(body: bytes) -> bytes:
    return post(b"Transfer-Encoding: chunked", body=body)


def length(value: bytes, body: bytes = b"abc" + NEXT) -> bytes:
    return post(b"Content-Length: " + value, body=body)


def coding(value: bytes, body: bytes = b"0\r\n\r\n" + NEXT) -> bytes:
    return post(b"Transfer-Encoding: " + value, body=body)


GOOD = [
    ("chunked body", 200, chunks(OLD_BODY)),
    ("chunk extension", 200, chunks(b"3;a=b\r\nabc\r\n0\r\n\r\n")),
    ("trailer", 200, chunks(b"3\r\nabc\r\n0\r\nX-T: 1\r\n\r\n")),
    ("expect 100-continue with its body", 200, post(b"Expect: 100-continue", b"Content-Length: 3", body=b"abc")),
    ("absolute-form", 200, b"GET http://a/hello HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("absolute-form with a query", 200, b"GET HTTP://A/hello?x=y HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("empty line in front", 200, b"\r\n" + get()),
    ("Transfer-Encoding in any case", 200, post(b"Transfer-Encoding: ChUnKeD", body=OLD_BODY)),
    ("GET with Content-Length", 200, get(b"Content-Length: %d" % len(NEXT)) + NEXT),
    ("GET with chunked body", 200, get(b"Transfer-Encoding: chunked") + b"20\r\n" + NEXT + b"\r\n0\r\n\r\n"),
]

FRAMING = [
    ("length and coding", 400, post(b"Content-Length: 6", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + NEXT)),
    ("coding and length", 400, post(b"Transfer-Encoding: chunked", b"Content-Length: 4", body=b"0\r\n\r\n" + NEXT)),
    ("two lengths", 400, post(b"Content-Length: 3", b"Content-Length: 0", body=b"abc" + NEXT)),
    ("length 3, 3", 400, length(b"3, 3")),
    ("length +3", 400, length(b"+3")),
    ("length -1", 400, length(b"-1", NEXT)),
    ("length 0x3", 400, length(b"0x3")),
    ("length 3abc", 400, length(b"3abc")),
    ("length empty", 400, length(b"", NEXT)),
    ("length past 64 bits", 400, length(b"18446744073709551619")),
    ("coding xchunked", 501, coding(b"xchunked")),
    ("coding chunked, identity", 501, coding(b"chunked, identity")),
    ("coding gzip, chunked", 501, coding(b"gzip, chunked")),
    ("coding in quotes", 501, coding(b'"chunked"')),
    ("coding identity and a length", 400, post(b"Transfer-Encoding: identity", b"Content-Length: 3", body=b"abc")),
    ("coding chunked twice", 400, post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=OLD_BODY)),
    ("coding identity, then chunked", 400,
     post(b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + NEXT)),
    ("blank before the colon", 400, post(b"Transfer-Encoding : chunked", b"Content-Length: 3", body=b"abc")),
    ("vertical tab before chunked", 400, post(b"Transfer-Encoding: \x0bchunked", b"Content-Length: 3", body=b"abc")),
    ("coding in HTTP/1.0", 400, post(b"Transfer-Encoding: chunked", body=OLD_BODY, version=b"1.0")),
    ("coding on a folded line", 400, post(b"Transfer-Encoding:\r\n chunked", b"Content-Length: 3", body=b"abc")),
]

CHUNKS = [(name, 400, chunks(body)) for name, body in (
    ("chunk size 0x3", b"0x3\r\nabc\r\n0\r\n\r\n"),
    ("chunk size +3", b"+3\r\nabc\r\n0\r\n\r\n"),
    ("chunk size -1", b"-1\r\nabc\r\n0\r\n\r\n"),
    ("chunk size after a blank", b" 3\r\nabc\r\n0\r\n\r\n"),
    ("chunk size before a blank", b"3 \r\nabc\r\n0\r\n\r\n"),
    ("chunk lines end in LF", b"3\nabc\n0\n\n"),
    ("LF in an extension", b"3;a\nb\r\nabc\r\n0\r\n\r\n"),
    ("no CRLF after a chunk", b"3\r\nabc0\r\n\r\n"),
    ("XX for CRLF after a chunk", b"3\r\nabcXX0\r\n\r\n"),
    ("chunk size past 64 bits", b"10000000000000003\r\nabc\r\n0\r\n\r\n"),
    ("chunk size missing", b"\r\n3\r\nabc\r\n0\r\n\r\n"),
    ("trailer of 1 MB", b"0\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n"),
    ("extension of 1 MB", b"3;" + b"a" * (1 << 20) + b"\r\nabc\r\n0\r\n\r\n"),
)]

HEADS = [
    ("binary noise", 400, bytes(range(128, 256)) * 4),
    ("a TLS hello", 400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200)),
    ("folded line", 400, get(b"X: a\r\n b")),
    ("lines end in LF", 400, b"GET /hello HTTP/1.1\nHost: a\n\n"),
    ("CR in a value", 400, get(b"X: a\rY: b")),
    ("NUL in a value", 400, get(b"X: a\0b")),
    ("NUL in the path", 400, b"GET /hello\0x HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("field without a colon", 400, get(b"Xabc")),
    ("field without a name", 400, get(b": x")),
    ("first field begins with a blank", 400, b"GET /hello HTTP/1.1\r\n X: y\r\nHost: a\r\n\r\n"),
    ("bad character in a name", 400, get(b"X(y): 1")),
    ("no Host", 400, b"GET /hello HTTP/1.1\r\n\r\n"),
    ("two Hosts", 400, get(b"Host: b")),
    ("Host is a list", 400, b"GET /hello HTTP/1.1\r\nHost: a, b\r\n\r\n"),
    ("HTTP/0.9", 400, b"GET /hello\r\n\r\n"),
    ("HTTP/2.0", 505, b"GET /hello HTTP/2.0\r\nHost: a\r\n\r\n"),
    ("HTTP/2 preface", 505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("HTTP/1.10", 400, b"GET /hello HTTP/1.10\r\nHost: a\r\n\r\n"),
    ("http/1.1", 400, b"GET /hello http/1.1\r\nHost: a\r\n\r\n"),
    ("two blanks", 400, b"GET  /hello HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("tabs for blanks", 400, b"GET\t/hello\tHTTP/1.1\r\nHost: a\r\n\r\n"),
    ("blank in the path", 400, b"GET /hel lo HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("bad method", 400, b"G@T /hello HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("absolute-form without Host", 400, b"GET http://a/hello HTTP/1.0\r\n\r\n"),
    ("absolute-form of another host", 400, b"GET http://b/hello HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("authority-form", 400, b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("fragment", 400, b"GET /hello#x HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("unknown expectation", 417, get(b"Expect: tea")),
]

LARGE = [
    ("field of 100 KB", 431, get(b"X: " + b"a" * 100000)),
    ("10000 fields", 431, get(*[b"X: a"] * 10000)),
    ("65 fields", 431, get(*[b"X: a"] * 64)),
    ("head of 4 MB without an end", 431, b"GET /hello HTTP/1.1\r\nHost: a\r\nX: " + b"a" * (4 << 20)),
    ("target of 100 KB", 414, b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("length of 10 GB", 413, length(b"10737418240", b"abc")),
    ("body of 2 MB", 413, length(b"2097152", b"x" * 2097152)),
    ("chunked body of 2 MB", 413, chunks((b"10000\r\n" + b"x" * 65536 + b"\r\n") * 32 + b"0\r\n\r\n")),
]

CASES = GOOD + FRAMING + CHUNKS + HEADS + LARGE
