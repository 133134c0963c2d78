"""The example of a web application: votes in, changes out, a page in a browser, and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.pace import slack
from tests.server.browser import CHROMIUM, browser
from tests.server.running import ROOT


@pytest.fixture
def poll() -> Iterator[tuple[subprocess.Popen[str], str]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(ROOT / "examples/poll_app.py"), "--port", str(port)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
    ) as child:
        url = f"http://127.0.0.1:{port}"
        until = time.monotonic() + 30 * slack()
        while True:
            try:
                httpx.get(url)
                break
            except httpx.ConnectError:
                assert time.monotonic() < until
                time.sleep(0.1)
        try:
            yield child, url
        finally:
            child.kill()


def vote(url: str, voter: str, choice: str) -> int:
    return httpx.post(f"{url}/vote", json={"voter": voter, "choice": choice}).status_code


def test_votes_come_out_and_ctrl_c_ends_it(poll: tuple[subprocess.Popen[str], str]) -> None:
    child, url = poll
    assert vote(url, "ada", "tea") == 200
    assert vote(url, "ada", "poison") == 400
    assert httpx.post(f"{url}/vote", content=b"[1]").status_code == 400
    with httpx.stream("GET", f"{url}/changes", timeout=30) as answer:
        lines = (line[6:] for line in answer.iter_lines() if line.startswith("data: "))
        first = json.loads(next(lines))
        assert (first["snapshot"], first["inserted"]) == (True, [{"choice": "tea", "votes": 1}])
        assert vote(url, "ada", "coffee") == 200
        change = json.loads(next(lines))
        assert change["deleted"] == [{"choice": "tea", "votes": 1}]
        assert change["inserted"] == [{"choice": "coffee", "votes": 1}]
        child.send_signal(signal.SIGINT)  # while somebody listens
        output, problems = child.communicate(timeout=60)
    assert child.returncode == 0
    assert output.endswith("ended\n")
    assert problems == ""  # the server would say that it gave up waiting for a stream


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Debian's chromium is not installed")
def test_the_page_follows(poll: tuple[subprocess.Popen[str], str]) -> None:
    _, url = poll
    bars = "[...document.querySelectorAll('.bar')].map((bar) => bar.textContent).join()"
    with browser() as page:
        page.open(url + "/")
        page.click("button")
        page.wait(f"{bars} === 'tea 1'")
        assert vote(url, "ada", "coffee") == 200
        page.wait(f"{bars} === 'coffee 1,tea 1'")
        page.value("document.querySelectorAll('button')[1].click()")
        page.wait(f"{bars} === 'coffee 2'")
        assert page.problems == []
