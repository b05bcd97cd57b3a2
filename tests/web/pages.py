#!/usr/bin/python3
"""Every page the program carries obeys its Content-Security-Policy: nothing inline, nothing from
another host, and all that it names is carried too. No browser is needed (tests/web/browser.py has
one)."""
from __future__ import annotations

import gzip
import html.parser
import re
import sys
from pathlib import Path
from urllib.parse import urljoin, urlsplit

sys.path[:0] = [str(Path(__file__).resolve().parent / "lib"), str(Path(__file__).resolve().parents[1] / "lib")]
from carried import Asset, Carried, carried
from check import check, main

# Paths of the server that are no files: a page may link to them.
ROUTES = {"/health", "/openapi.json", "/ready"}
# Attributes by which a page loads something, and the directive that allows it.
LOADS = {("script", "src"): "script-src", ("img", "src"): "img-src", ("source", "src"): "media-src",
         ("video", "src"): "media-src", ("audio", "src"): "media-src", ("iframe", "src"): "frame-src",
         ("embed", "src"): "object-src", ("object", "data"): "object-src", ("link", "href"): "",
         ("form", "action"): "form-action", ("base", "href"): "base-uri"}
LINK_RELS = {"stylesheet": "style-src", "icon": "img-src", "modulepreload": "script-src"}
CSS_URL = re.compile(r"""url\(\s*(?:"([^"]*)"|'([^']*)'|([^)"']*))\s*\)""")

_carried: list[Carried] = []


def everything() -> Carried:
    if not _carried:
        _carried.append(carried())
    return _carried[0]


def policy(asset: Asset) -> dict[str, list[str]]:
    words = [part.split() for part in asset.headers["Content-Security-Policy"].split(";")]
    return {w[0]: w[1:] for w in words if w}


def allows(rules: dict[str, list[str]], directive: str, url: str) -> bool:
    """May a page with these rules load this address? Only what our pages use of CSP is known here."""
    sources = rules.get(directive, rules.get("default-src", [])) if directive.endswith("-src") else \
        rules.get(directive, ["'self'"])
    parts = urlsplit(url)
    if parts.scheme and not parts.netloc:
        return parts.scheme + ":" in sources
    return not parts.scheme and not parts.netloc and "'self'" in sources


class Reader(html.parser.HTMLParser):
    """Collects what is wrong with a page."""

    def __init__(self, page: Asset, known: set[str]) -> None:
        super().__init__()
        self.page, self.known, self.rules = page, known, policy(page)
        self.wrong: list[str] = []
        self.inside: str | None = None
        self.loads = 0

    def load(self, directive: str, url: str) -> None:
        self.loads += 1
        if not allows(self.rules, directive, url):
            self.wrong.append(f"{directive} does not allow {url}")
        elif not urlsplit(url).scheme and urljoin(self.page.path, url) not in self.known:
            self.wrong.append(f"{url} is not carried")

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        for name, value in values.items():
            if name.startswith("on"):
                self.wrong.append(f"<{tag} {name}>: an inline script")
            if name == "style":
                self.wrong.append(f"<{tag} style>: an inline style")
            if value.strip().lower().startswith("javascript:"):
                self.wrong.append(f"<{tag} {name}>: a script as an address")
            if name in ("srcset", "srcdoc", "ping"):
                self.wrong.append(f"<{tag} {name}> is not looked at by this check")
        if tag == "a" and "href" in values:
            target = urljoin(self.page.path, values["href"].split("#")[0])
            if urlsplit(values["href"]).netloc or (target not in self.known and target not in ROUTES):
                self.wrong.append(f"a link to {values['href']}, which is neither carried nor a route")
        for (element, name), directive in LOADS.items():
            if element == tag and name in values:
                self.load(directive or LINK_RELS.get(values.get("rel", ""), "default-src"), values[name])
        if tag == "meta" and "http-equiv" in values:
            self.wrong.append("<meta http-equiv>")
        if tag == "style" or (tag == "script" and "src" not in values):
            self.inside = tag

    def handle_data(self, data: str) -> None:
        if self.inside and data.strip():
            self.wrong.append(f"an inline <{self.inside}>")
        self.inside = None


def faults_of_page(page: Asset, known: set[str]) -> tuple[list[str], int]:
    reader = Reader(page, known)
    reader.feed(page.data.decode("utf-8"))
    reader.close()
    return reader.wrong, reader.loads


def faults_of_style(path: str, text: str, rules: dict[str, list[str]], known: set[str]) -> list[str]:
    wrong = ["@import"] if "@import" in text else []
    for match in CSS_URL.finditer(text):
        url = next(group for group in match.groups() if group is not None)
        directive = "font-src" if re.search(r"\.(woff2?|ttf|otf)$", url) else "img-src"
        if not allows(rules, directive, url):
            wrong.append(f"{directive} does not allow {url[:60]}")
        elif not urlsplit(url).scheme and urljoin(path, url) not in known:
            wrong.append(f"{url} is not carried")
    return wrong


def fake_page(text: str) -> Asset:
    real = everything().assets["/"]
    return Asset("/", True, real.headers, text.encode(), '""', None, None)


@check
def policy_is_strict():
    for page in everything().pages():
        rules = policy(page)
        assert rules["default-src"] == ["'none'"], rules
        assert rules["script-src"] == ["'self'"], rules
        assert rules["frame-ancestors"] == ["'none'"], rules
        assert rules["base-uri"] == ["'none'"], rules
        assert not any("unsafe" in s or s.startswith("http") or s == "*" for v in rules.values() for s in v), rules


@check
def pages_obey_the_policy():
    known, loads = set(everything().assets), 0
    pages = everything().pages()
    assert {"/", "/docs"} <= {p.path for p in pages}
    for page in pages:
        wrong, count = faults_of_page(page, known)
        assert not wrong, f"{page.path}: {wrong}"
        loads += count
    assert loads >= 2 * len(pages), f"only {loads} loads were seen in {len(pages)} pages"


@check
def styles_obey_the_policy():
    known, rules = set(everything().assets), policy(everything().assets["/"])
    styles = [a for a in everything().assets.values() if a.headers["Content-Type"].startswith("text/css")]
    assert styles
    for asset in styles:
        wrong = faults_of_style(asset.path, asset.data.decode("utf-8"), rules, known)
        assert not wrong, f"{asset.path}: {wrong}"


@check
def the_check_finds_faults():
    """The positive control: each of these is wrong, and found."""
    known = set(everything().assets)
    bad = ["<script>alert(1)</script>", "<style>p { color: red }</style>", "<p onclick='x()'>",
           "<p style='color: red'>",
           "<script src='https://cdn.example.org/x.js'></script>", "<script src='//cdn.example.org/x.js'></script>",
           "<script src='data:text/javascript,1'></script>", "<script src='/not-carried.js'></script>",
           "<link rel='stylesheet' href='https://fonts.example.org/x.css'>", "<img src='http://example.org/x.png'>",
           "<a href='javascript:x()'>x</a>", "<a href='https://example.org/'>x</a>", "<base href='/x/'>",
           "<iframe src='/docs'></iframe>", "<form action='https://example.org/'></form>",
           "<meta http-equiv='refresh' content='0'>", "<img srcset='https://example.org/x.png 2x'>"]
    for text in bad:
        assert faults_of_page(fake_page(text), known)[0], f"not found: {text}"
    assert not faults_of_page(fake_page("<img src='data:image/png;base64,AA=='><img src='favicon.svg'>"), known)[0]
    rules = policy(everything().assets["/"])
    for text in ["@import 'x.css';", "p { background: url(https://example.org/x.png) }",
                 "p { background: url('//example.org/x.png') }", "p { background: url(\"missing.png\") }"]:
        assert faults_of_style("/assets/x.css", text, rules, known), f"not found: {text}"
    assert not faults_of_style("/assets/x.css", "p { background: url(data:image/svg+xml;utf8,x) }", rules, known)


@check
def gzip_is_the_same_file():
    packed = [a for a in everything().assets.values() if a.gzip is not None]
    assert packed
    for asset in packed:
        assert gzip.decompress(asset.gzip) == asset.data, asset.path
        assert asset.gzip_etag != asset.etag


@check
def tags_and_caching():
    tags = [t for a in everything().assets.values() for t in (a.etag, a.gzip_etag) if t]
    assert len(set(tags)) == len(tags)
    for asset in everything().assets.values():
        hashed = re.search(r"-[A-Za-z0-9_-]{8}\.\w+$", asset.path) is not None
        forever = "immutable" in asset.headers["Cache-Control"]
        assert forever == hashed, asset.path
        assert asset.headers["X-Content-Type-Options"] == "nosniff"


@check
def incomplete_pages_say_why():
    """What a build without npm carries: checked in the sources, so that every build checks it."""
    folder = Path(__file__).resolve().parents[2] / "web/fallback"
    known = {"/", "/docs", "/plain.css", "/favicon.svg"}
    for name, path in (("index.html", "/"), ("docs.html", "/docs")):
        text = (folder / name).read_text()
        assert "{{why}}" in text and "make" in text, name
        real = everything().assets["/"]
        wrong, loads = faults_of_page(Asset(path, True, real.headers, text.encode(), '""', None, None), known)
        assert not wrong and loads == 2, f"{name}: {wrong}"
        assert "<code>/mcp</code>" in text and "/api/v1" in text, f"{name} does not lead to MCP and the API"
    if not everything().complete:
        assert b"built without its web pages: " in everything().assets["/"].data
        assert b"{{" not in everything().assets["/"].data


main()
