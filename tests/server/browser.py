"""Debian's Chromium without a screen, driven through its own protocol over a WebSocket."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1280,800",
    "--remote-debugging-port=0",
    "about:blank",
)


class Page:
    """One tab."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.problems: list[str] = []
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """One command of the protocol and its answer; what the page complains of is kept."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(30))
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            if message.get("method") == "Runtime.exceptionThrown":
                self.problems.append(str(message["params"]["exceptionDetails"]))
            if message.get("method") == "Log.entryAdded":
                entry = message["params"]["entry"]
                if entry["level"] == "error":
                    self.problems.append(f"{entry['text']} {entry.get('url', '')}")

    def open(self, url: str) -> None:
        """Go there, from a page that asks for nothing more."""
        self.call("Page.navigate", url="about:blank")
        self.problems.clear()
        self.call("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && location.href.startsWith({url!r})")

    def value(self, script: str) -> Any:
        """What an expression of JavaScript is."""
        answer = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, script: str, seconds: float = 20.0) -> Any:
        """Until an expression is true."""
        until = time.monotonic() + seconds
        while not (value := self.value(f"!!({script})")):
            assert time.monotonic() < until, f"{script}; the page ends with {self.text()[-500:]}"
            time.sleep(0.05)
        return value

    def click(self, selector: str) -> None:
        """Click on the first element of a selector."""
        self.value(f"document.querySelector({json.dumps(selector)}).click()")

    def text(self) -> str:
        """All that can be read."""
        text: str = self.value("document.body.innerText")
        return text

    def screenshot(self, file: Path) -> None:
        """A picture of the tab."""
        data = self.call("Page.captureScreenshot", format="png")["data"]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(data))


@contextmanager
def browser() -> Iterator[Page]:
    """A new Chromium with an empty profile."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        child = subprocess.Popen(
            [CHROMIUM, f"--user-data-dir={profile}", *FLAGS],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            port_file = Path(profile) / "DevToolsActivePort"
            until = time.monotonic() + 60
            while not (port_file.exists() and port_file.read_text().count("\n")):
                assert time.monotonic() < until, "Chromium did not start"
                time.sleep(0.05)
            port = port_file.read_text().split()[0]
            tabs = httpx.get(f"http://127.0.0.1:{port}/json", timeout=30).json()
            url = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
            with connect(url, max_size=None) as socket:
                yield Page(socket)
        finally:
            child.terminate()
            child.wait(30)
