"""A server in a process or in a thread of this one, for tests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from viewlet.interfaces.database import Database
from viewlet.server.gateway import Gateway
from viewlet.server.serve import RunningServer
from viewlet.server.settings import ServeSettings

ROOT = Path(__file__).parents[2]

SHOP = """
CREATE TABLE sales (id INT PRIMARY KEY, shop VARCHAR NOT NULL, price DECIMAL(12,2), day DATE,
                    moment TIMESTAMP, weight DOUBLE, paid BOOLEAN);
CREATE STREAM clicks (shop VARCHAR, n BIGINT);
CREATE MATERIALIZED VIEW totals AS
SELECT shop, SUM(price) AS total, COUNT(*) AS n FROM sales GROUP BY shop;
CREATE MATERIALIZED VIEW heavy AS SELECT id, weight, day FROM sales WHERE paid;
"""


@dataclass
class Serving:
    """A running server and a client of it."""

    database: Database
    gateway: Gateway
    client: httpx.Client
    url: str
    port: int
    pg_port: int


@contextmanager
def serving(database: Database, **options: Any) -> Iterator[Serving]:
    """The database served from a thread of this process, on free ports of loopback."""
    settings = ServeSettings(port=0, pg_port=0, **options)
    server = RunningServer(database, settings)
    thread = threading.Thread(target=server.run, name="serving")
    thread.start()
    try:
        server.started.wait(30)
        headers = {"authorization": f"Bearer {settings.token}"} if settings.token else {}
        url = f"http://127.0.0.1:{server.port}"
        with httpx.Client(base_url=url, headers=headers, timeout=30) as client:
            yield Serving(database, server.gateway, client, url, server.port, server.pg_port or 0)
    finally:
        server.stop()
        thread.join(30)


@contextmanager
def process(*arguments: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """`viewlet serve` as a process of its own, and its HTTP port."""
    command = [sys.executable, "-m", "viewlet.cli", "serve", "--port", "0", "--quiet", *arguments]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**environ, **environment}
    ) as child:
        assert child.stdout is not None
        try:
            found = re.search(r":(\d+)/", child.stdout.readline())
            assert found, "the server did not start"
            yield child, int(found.group(1))
        finally:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
                child.wait(30)
