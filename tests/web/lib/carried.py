"""What the program carries of the web pages, read back through build/tests/dump-assets; and a server
that sends it as krait does, for the browser."""
from __future__ import annotations

import http.server
import json
import os
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

BUILD = Path(os.environ.get("KR_BUILD", Path(__file__).resolve().parents[3] / "build"))


@dataclass(frozen=True)
class Asset:
    path: str
    is_page: bool
    headers: dict[str, str]
    data: bytes
    etag: str
    gzip: bytes | None
    gzip_etag: str | None


@dataclass(frozen=True)
class Carried:
    complete: bool
    assets: dict[str, Asset]
    file_headers: dict[str, str]  # of a user's file

    def pages(self) -> list[Asset]:
        return [a for a in self.assets.values() if a.is_page]


def carried() -> Carried:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([str(BUILD / "tests/dump-assets"), name], check=True, timeout=60)
        index = json.loads((folder / "index.json").read_text())
        assets = {}
        for row in index["assets"]:
            gzip = row.get("gzip")
            assets[row["path"]] = Asset(
                row["path"], row["is_page"], row["headers"],
                (folder / row["identity"]["file"]).read_bytes(), row["identity"]["etag"],
                (folder / gzip["file"]).read_bytes() if gzip else None, gzip and gzip["etag"])
        return Carried(index["complete"], assets, index["file_headers"])


def serve(what: Carried, replies: dict[str, object]) -> tuple[http.server.ThreadingHTTPServer, list[str]]:
    """Serves the pages with their headers on a free port of the loopback; `replies` are JSON answers to
    other paths. Returns the server and the list of paths that were asked for and not there."""
    missing: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            asset = what.assets.get(path)
            if asset:
                body, headers = asset.data, asset.headers
            elif path in replies:
                body, headers = json.dumps(replies[path]).encode(), {"Content-Type": "application/json"}
            else:
                missing.append(path)
                self.send_error(404)
                return
            self.send_response(200)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, missing
