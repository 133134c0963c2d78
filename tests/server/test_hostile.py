"""Bytes that nobody should send, and a server that is killed: nothing fails, nothing is lost."""

from __future__ import annotations

import json
import logging
import random
import socket
import struct
from pathlib import Path

import httpx
import psycopg
import pytest

import viewlet
from tests.server.running import SHOP, Serving, process, serving

SQL = (
    "SELECT * FROM totals", "INSERT INTO sales (id, shop) VALUES (1, 'x')", "BEGIN", "ROLLBACK",
    "COPY sales FROM STDIN", "DECLARE c CURSOR FOR SELECT 1", "FETCH 5 FROM c", "SHOW timezone",
    "SELECT $1", "SUBSCRIBE TO", "SELECT * FROM pg_catalog.pg_class", "COPY (SELECT 1) TO STDOUT",
    "SAVEPOINT a", "ROLLBACK TO a", "RELEASE b", "CLOSE ALL", "SET x = 1", ";", "'", "$$", "/*",
)  # fmt: skip


def startup() -> bytes:
    content = struct.pack("!i", 196608) + b"user\0viewlet\0\0"
    return struct.pack("!i", len(content) + 4) + content


def message(numbers: random.Random) -> bytes:
    """A message that is nearly one."""
    letter = numbers.choice(b"QPBDECSHdcfXp\x00z")
    text = numbers.choice(SQL).encode()
    content = numbers.choice(
        (
            text + b"\0",
            b"\0" + text + b"\0\0\0",
            b"\0\0" + numbers.randbytes(numbers.randrange(12)),
            b"S\0",
            b"P\0",
            b"\0\0\0\0\0",
            b"1\t2\t3\n",
            numbers.randbytes(numbers.randrange(40)),
        )
    )
    size = len(content) + 4
    if numbers.random() < 0.05:
        size = numbers.choice((-1, 0, 3, 2**31 - 1, size + 7))
    return bytes([letter]) + struct.pack("!i", size) + content


def attack(port: int, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        client.settimeout(5)
        try:
            while client.recv(65536):
                pass
        except ConnectionError:
            return


def check(served: Serving, caplog: pytest.LogCaptureFixture) -> None:
    """Everybody else is still served, and nothing but errors of the family has happened."""
    assert served.client.get("/healthz").status_code == 200
    with psycopg.connect(f"host=127.0.0.1 port={served.pg_port} user=viewlet") as connection:
        assert connection.execute("SELECT COUNT(*) >= 0 FROM totals").fetchone() == (True,)
    failed = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert failed == []


@pytest.mark.parametrize("seed", range(3))
def test_a_hostile_wire(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    numbers = random.Random(seed)
    with viewlet.connect("interpreter") as database:
        database.execute(SHOP)
        with serving(database) as served:
            for _ in range(60):
                data = b"".join(message(numbers) for _ in range(numbers.randrange(1, 15)))
                if numbers.random() < 0.1:
                    attack(served.pg_port, numbers.randbytes(numbers.randrange(1, 60)))
                attack(served.pg_port, startup() + data)
            check(served, caplog)


@pytest.mark.parametrize("seed", range(3))
def test_hostile_requests(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    numbers = random.Random(seed)
    kinds = ("application/json", "application/x-ndjson", "text/csv", "x/y", "")
    kinds += ("application/vnd.apache.arrow.stream",)
    bodies = (b"{", b"[[", b"[1,2]", b'{"id": 1e999}', b"\xff\xfe", b"id,shop\n1", b"[" * 9999, b"")
    names = ("totals", "sales", "..%2f..%2fetc%2fpasswd", "%00", "a'b", "\u00e9", "x" * 3000)
    queries = ("", "limit=-1", "offset=99999999999999999999", "order=--", "format=exe", "batch=x")
    with viewlet.connect("interpreter") as database:
        database.execute(SHOP)
        with serving(database) as served:
            for _ in range(150):
                method = numbers.choice(("GET", "POST", "DELETE", "PUT", "HEAD"))
                path = numbers.choice(
                    ("/views/{}", "/tables/{}/rows", "/query", "/views/{}/explain", "/static/{}")
                ).format(numbers.choice(names))
                body = numbers.choice(
                    (*bodies, numbers.randbytes(50), numbers.choice(SQL).encode())
                )
                try:
                    answer = served.client.request(
                        method,
                        f"{path}?{numbers.choice(queries)}",
                        content=body,
                        headers={"content-type": numbers.choice(kinds)},
                    )
                except httpx.InvalidURL:
                    continue
                assert answer.status_code < 500, (method, path, body, answer.text)
                assert "root:" not in answer.text
                if answer.status_code >= 400 and method != "HEAD" and answer.text.startswith("{"):
                    assert "Traceback" not in json.dumps(answer.json())
            attack(served.port, numbers.randbytes(500))
            check(served, caplog)


@pytest.mark.slow
def test_a_killed_server_has_lost_nothing(tmp_path: Path) -> None:
    """SIGKILL after rows came in over HTTP: what was acknowledged is there."""
    path = tmp_path / "shop.viewlet"
    with viewlet.connect(path) as database:
        database.execute(
            "CREATE TABLE t (id INT PRIMARY KEY); CREATE VIEW n AS SELECT COUNT(*) AS n FROM t"
        )
    acknowledged = 0
    for round in range(3):
        with process(str(path)) as (child, port):
            url = f"http://127.0.0.1:{port}/tables/t/rows"
            with httpx.Client(timeout=30) as client:
                for _ in range(40 + 10 * round):
                    content = json.dumps([acknowledged]).encode()
                    headers = {"content-type": "application/jsonl"}
                    assert client.post(url, content=content, headers=headers).status_code == 200
                    acknowledged += 1
            child.kill()
            child.wait()
        with viewlet.connect(path) as database:
            assert database.view("n")[()].n == acknowledged
            ids = database.query("SELECT id FROM t ORDER BY id").column("id").to_pylist()
            assert ids == list(range(acknowledged))
