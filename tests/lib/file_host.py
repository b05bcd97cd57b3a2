"""Files at addresses on loopback, for what fetches them: a server with names, redirects, a slow and a large answer."""
import contextlib
import http.server
import threading
import time

DATA = b"a,b\n1,2\n" * 1000
LARGE = 5 << 20
ELSEWHERE = "http://elsewhere.invalid/data.csv"  # no rule of a test names it


class Files(http.server.BaseHTTPRequestHandler):
    """/data.csv and any other name: DATA. /large, /slow, /missing, /to/…: as they are called."""
    protocol_version = "HTTP/1.1"
    asked: list = []
    named = {"/named": 'attachment; filename="table one.csv"', "/evil": 'attachment; filename="../../.bashrc"',
             "/folder": 'attachment; filename="a/b\\\\c.txt"'}

    def log_message(self, *_args) -> None:
        pass

    def do_GET(self) -> None:
        self.asked.append(self.path)
        path = self.path.partition("?")[0]
        if path == "/missing":
            self.send_error(404)
        elif path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.server.redirect)
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif path == "/slow":
            self.send_response(200)
            self.send_header("Content-Length", str(LARGE))
            self.end_headers()
            with contextlib.suppress(OSError):
                for _ in range(600):
                    self.wfile.write(b"x" * 1000)
                    time.sleep(0.05)
            self.close_connection = True
        else:
            body = b"y" * LARGE if path == "/large" else DATA
            self.send_response(200)
            self.send_header("Content-Type", "text/csv")
            self.send_header("Content-Length", str(len(body)))
            if path in self.named:
                self.send_header("Content-Disposition", self.named[path])
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)


def serve_files() -> http.server.ThreadingHTTPServer:
    stub = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
    stub.daemon_threads = True
    stub.redirect = ELSEWHERE
    threading.Thread(target=stub.serve_forever, daemon=True).start()
    return stub
