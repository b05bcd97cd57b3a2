"""A browser without a window, driven by its debugging protocol: opens pages, evaluates, clicks, and
keeps what the page complained of."""
from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

START_S = 60
WAIT_S = 20


def program() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    def __init__(self) -> None:
        import websocket  # python3-websocket

        self.folder = tempfile.TemporaryDirectory(prefix="krait-browser-", ignore_cleanup_errors=True)
        # No sandbox of its own: the suite may run as root, and only our own pages are opened. Its own
        # services look for updates and the like; nothing of that leaves the machine.
        self.process = subprocess.Popen(
            [program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", "--remote-debugging-port=0",
             "--remote-allow-origins=*", f"--user-data-dir={self.folder.name}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            port = self.wait_port()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=WAIT_S) as reply:
                page = next(t for t in json.load(reply) if t["type"] == "page")
            self.socket = websocket.create_connection(page["webSocketDebuggerUrl"], timeout=WAIT_S)
            self.number, self.complaints = 0, []
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def wait_port(self) -> int:
        path, deadline = Path(self.folder.name, "DevToolsActivePort"), time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"the browser ended with {self.process.returncode}")
            if path.exists() and (lines := path.read_text().split("\n"))[0]:
                return int(lines[0])
            time.sleep(0.1)
        raise RuntimeError("the browser did not start in time")

    def close(self) -> None:
        if hasattr(self, "socket"):
            self.socket.close()
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.folder.cleanup()

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_why) -> None:
        self.close()

    def call(self, method: str, **params):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.note(message)

    def note(self, message: dict) -> None:
        """Keeps what a person would see in red in the console: errors, refusals by the policy, requests that failed."""
        params = message.get("params", {})
        if message.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        elif message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"])[:500])
        elif message.get("method") == "Runtime.consoleAPICalled" and params["type"] == "error":
            self.complaints.append(json.dumps(params["args"])[:500])

    def open(self, url: str) -> None:
        self.complaints = []
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, expression: str):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails'].get('exception', {}).get('description')}")
        return result["result"].get("value")

    def wait(self, expression: str):
        """Waits until it is true; returns its value."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            if value := self.evaluate(expression):
                return value
            time.sleep(0.05)
        raise AssertionError(f"not in {WAIT_S} s: {expression}; complaints: {self.complaints}")

    def click(self, selector: str) -> None:
        self.wait(f"document.querySelector({json.dumps(selector)}) !== null")
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    def dark(self, on: bool) -> None:
        value = "dark" if on else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def screenshot(self, path: str) -> None:
        import base64

        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
