#!/usr/bin/python3
"""The pages in a real browser, sent with the headers krait sends: they work, and the browser has
nothing to complain of. A page that breaks the policy is refused, so that silence means something."""
from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

sys.path[:0] = [str(Path(__file__).resolve().parent / "lib"), str(Path(__file__).resolve().parents[1] / "lib")]
import browser_client
from browser_client import Browser
from carried import Asset, Carried, carried, serve
from check import check, main, skip

API = {
    "openapi": "3.1.0",
    "info": {"title": "krait", "version": "0.1.0", "description": "**Bold** and `code`."},
    "tags": [{"name": "watch"}, {"name": "runs"}],  # neither by name nor as the paths are
    "paths": {
        "/api/v1/execute": {"post": {
            "summary": "Run code", "tags": ["runs"], "operationId": "execute",
            "requestBody": {"content": {"application/json": {
                "schema": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
                "example": {"code": "print(1)"}}}},
            "responses": {"200": {"description": "lines"}}}},
        "/health": {"get": {"summary": "How the server is", "tags": ["watch"], "operationId": "health",
                            "responses": {"200": {"description": "well"}}}},
    },
    "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    "security": [{"key": []}],
}
HEALTH = {"status": "healthy", "version": "0.1.0", "active_sessions": 2}

_opened: list[Browser] = []


def browser() -> Browser:
    if not browser_client.program():
        skip("chromium is not installed")
    if not _opened:
        _opened.append(Browser())
    return _opened[0]


def complete() -> Carried:
    what = carried()
    if not what.complete:
        skip("this build has no web pages: npm was missing")
    return what


def user_file(path: str, kind: str, data: bytes) -> Asset:
    return Asset(path, False, {"Content-Type": kind, **carried().file_headers}, data, '""', None, None)


@contextmanager
def served(what: Carried) -> Iterator[str]:
    server, missing = serve(what, {"/openapi.json": API, "/health": HEALTH})
    try:
        yield f"http://127.0.0.1:{server.server_port}"
        assert not missing, f"asked for and not there: {missing}"
    finally:
        server.shutdown()
        server.server_close()


@check
def start_page_works():
    with served(complete()) as base:
        b = browser()
        b.open(base + "/")
        b.wait("document.querySelector('#health').textContent === 'healthy · version 0.1.0 · 2 sessions'")
        assert b.evaluate("document.querySelector('#curl').textContent").startswith(f"curl -N {base}/api/v1/runs")
        assert b.evaluate("document.querySelector('#mcp').textContent") == f"{base}/mcp"
        assert b.evaluate("getComputedStyle(document.querySelector('nav')).display") == "grid"
        assert not b.complaints, b.complaints


@check
def start_page_is_dark_in_the_dark():
    with served(complete()) as base:
        b = browser()
        colours = {}
        for on in (False, True):
            b.dark(on)
            b.open(base + "/")
            colours[on] = b.wait("getComputedStyle(document.body).backgroundColor")
        b.dark(False)
        assert colours[False] != colours[True], colours


@check
def docs_page_shows_and_tries_the_api():
    with served(complete()) as base:
        b = browser()
        b.open(base + "/docs")
        b.wait("document.querySelectorAll('.opblock').length === 2")
        b.click("#operations-watch-health .opblock-summary-control")
        # It reads an operation's references in the background, and refuses who is quicker than that.
        b.wait("window.performance.now() - (window.opened ??= window.performance.now()) > 1500")
        b.click("#operations-watch-health .execute")
        b.wait("document.querySelector('#operations-watch-health .live-responses-table')"
               "?.textContent.includes('healthy')")
        b.click("#operations-runs-execute .opblock-summary-control")
        b.wait("document.querySelector('#operations-runs-execute textarea')?.value.includes('print(1)')")
        b.click(".btn.authorize")
        b.wait("document.querySelector('.dialog-ux input') !== null")
        assert not b.complaints, b.complaints


@check
def docs_page_keeps_the_order_of_the_document():
    """What the document says first (the native API and MCP) is what a reader sees first."""
    with served(complete()) as base:
        b = browser()
        b.open(base + "/docs")
        b.wait("document.querySelectorAll('.opblock').length === 2")
        shown = b.evaluate("[...document.querySelectorAll('.info .description, .opblock-tag')]"
                           ".map(one => one.dataset.tag || one.textContent.trim()).join()")
        assert shown == "Bold and code.,watch,runs", shown


@check
def docs_page_is_dark_in_the_dark():
    with served(complete()) as base:
        b = browser()
        b.dark(True)
        b.open(base + "/docs")
        b.wait("document.documentElement.classList.contains('dark-mode')")
        b.dark(False)
        b.wait("!document.documentElement.classList.contains('dark-mode')")
        assert not b.complaints, b.complaints


@check
def the_policy_refuses():
    """The positive control: inline script, inline style, another host; each is complained of."""
    real = carried().assets["/"]
    text = b"<!doctype html><title>x</title><p id=p style='color: red'>x</p><script>document.title = 'ran'</script>" \
           b"<img src='http://other.example/x.png'>"
    page = Asset("/", True, real.headers, text, '""', None, None)
    with served(Carried(True, {"/": page, "/favicon.ico": real}, {})) as base:
        b = browser()
        b.open(base + "/")
        b.wait("document.querySelector('#p') !== null")
        assert b.evaluate("document.title") == "x"
        for directive in ("script-src", "style-src", "img-src"):
            assert any(directive in c for c in b.complaints), (directive, b.complaints)


@check
def a_user_s_page_draws_but_reaches_nothing():
    """Scripts of a report run; our origin, its storage and the network are not theirs."""
    text = b"""<!doctype html><title>report</title><style>p { color: rgb(1, 2, 3) }</style><p id=p>x</p><script>
        const found = {origin: self.origin};
        try { localStorage.length; found.storage = 'open'; } catch (e) { found.storage = 'refused'; }
        try { document.cookie; found.cookie = 'open'; } catch (e) { found.cookie = 'refused'; }
        fetch('/health').then(() => found.fetch = 'open', () => found.fetch = 'refused');
        window.found = found;
    </script>"""
    report = user_file("/report.html", "text/html", text)
    real = carried().assets["/"]
    control = Asset("/control.html", True, {"Content-Type": "text/html"}, text, '""', None, None)
    files = {a.path: a for a in (report, control)} | {"/favicon.ico": real}
    with served(Carried(True, files, {})) as base:
        b = browser()
        open_to_it = {}
        for name in ("report", "control"):
            b.open(f"{base}/{name}.html")
            open_to_it[name] = b.wait("window.found?.fetch && window.found")
        assert b.evaluate("getComputedStyle(document.querySelector('#p')).color") == "rgb(1, 2, 3)"
        refused = {"origin": "null", "storage": "refused", "cookie": "refused", "fetch": "refused"}
        assert open_to_it["report"] == refused, open_to_it
        assert open_to_it["control"] == {"origin": base, "storage": "open", "cookie": "open", "fetch": "open"}, (
            open_to_it)


@check
def a_user_s_picture_is_seen():
    pixel = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c"
                          "6360000002000001e221bc330000000049454e44ae426082")
    real = carried().assets["/favicon.svg"]
    files = {"/x.png": user_file("/x.png", "image/png", pixel), "/favicon.ico": real,
             "/x.svg": user_file("/x.svg", "image/svg+xml", real.data)}
    with served(Carried(True, files, {})) as base:
        b = browser()
        b.open(base + "/x.png")
        b.wait("document.images[0]?.naturalWidth === 1")
        b.open(base + "/x.svg")
        b.wait("document.documentElement.getBoundingClientRect().width > 0")


try:
    main()
finally:
    for opened in _opened:
        opened.close()
