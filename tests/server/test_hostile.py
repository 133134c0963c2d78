"""Bytes that nobody should send, and a server that is killed: nothing fails, nothing is lost."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

import viewlet
from tests.server.running import SHOP, Serving, process, serving

SQL = (
    "SELECT * FROM totals", "INSERT INTO sales (id, shop) VALUES (1, 'x')", "BEGIN", "ROLLBACK",
    "COPY sales FROM STDIN", "DECLARE c CURSOR FOR SELECT 1", "FETCH 5 FROM c", "SHOW timezone",
    "SELECT $1", "SUBSCRIBE TO", "SELECT * FROM pg_catalog.pg_class", "COPY (SELECT 1) TO STDOUT",
    "PREPARE p (int) AS SELECT $1", "PREPARE p AS INSERT INTO sales (id, shop) VALUES ($1,$2)",
    "EXECUTE p (1)", "EXECUTE p (1, 'x')", "EXECUTE p ((", "DEALLOCATE p", "DEALLOCATE ALL",
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


SEEDS = [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 30))]


@pytest.mark.parametrize("seed", SEEDS)
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


def pieces(numbers: random.Random) -> bytes:
    """Messages that fit together, with values of wrong types, sizes and formats inside of them."""

    def counted(values: list[int], format: str) -> bytes:
        return struct.pack(f"!h{len(values)}{format}", len(values), *values)

    def whole(letter: bytes, content: bytes) -> bytes:
        return letter + struct.pack("!i", len(content) + 4) + content

    oids = [numbers.choice((0, 16, 20, 23, 25, 701, 1082, 1114, 1184, 1700, 1007, 1009, 2950, 99))]
    random_bytes = numbers.randbytes(numbers.randrange(30))
    value = numbers.choice((b"", b"1", b"{1,2}", b"{", b"x", b"2024-01-01", random_bytes))
    size = numbers.choice((len(value), len(value), len(value), -1, len(value) + 1, -7))
    text = numbers.choice(
        (
            "SELECT * FROM sales WHERE id = $1",
            "SELECT id FROM sales WHERE id = ANY($1) AND shop = ANY($1)",
            "INSERT INTO sales (id, shop, price, day, moment) VALUES (1, 'x', $1, $1, $1)",
            "UPDATE sales SET weight = $1 WHERE paid = $1 LIMIT $2",
            "SELECT oid FROM pg_class WHERE relname = $1 AND oid = ANY($1::oid[])",
            "SELECT $1::int, $2::numeric[], 'x'::regclass::oid, '{a,\"}'::text[]",
        )
    ).encode()
    bind = b"\0\0" + counted([numbers.choice((0, 1, 7))], "h")
    bind += struct.pack("!hi", 1, size) + value + counted([1], "h")
    prepared = whole(b"P", b"\0" + text + b"\0" + counted(oids, "I")) + whole(b"D", b"S\0")
    prepared += whole(b"B", bind) + whole(b"D", b"P\0") + whole(b"E", b"\0\0\0\0\1")
    rows = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, numbers.choice((0, 0, -1, 5)))
    for _ in range(numbers.randrange(3)):
        rows += struct.pack("!hi", 2, 4) + b"\0\0\0\1" + struct.pack("!i", size) + value
    option = numbers.choice(("BINARY", "(FORMAT binary)", "CSV", "(FORMAT csv, QUOTE 'é')", "(X)"))
    copy = whole(b"Q", f"COPY sales (id, shop) FROM STDIN {option}\0".encode())
    copy += whole(b"d", rows if numbers.random() < 0.7 else b'1,"a\n') + whole(b"c", b"")
    return prepared + whole(b"S", b"") + copy


@pytest.mark.parametrize("seed", SEEDS)
def test_a_wire_of_wrong_values(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    numbers = random.Random(seed)
    with viewlet.connect("interpreter") as database:
        database.execute(SHOP)
        with serving(database) as served:
            for _ in range(25):
                data = b"".join(pieces(numbers) for _ in range(6))
                if numbers.random() < 0.3:
                    at = numbers.randrange(len(data))
                    data = data[:at] + numbers.randbytes(2) + data[at + 2 :]
                attack(served.pg_port, startup() + data)
            check(served, caplog)


@pytest.mark.parametrize("seed", SEEDS)
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


@pytest.mark.slow
def test_a_server_that_is_killed_while_rows_come(tmp_path: Path) -> None:
    """Over HTTP, as INSERT and as COPY: what was acknowledged is there, each batch whole."""
    path = tmp_path / "shop.viewlet"
    with viewlet.connect(path) as database:
        database.execute(
            "CREATE TABLE t (id BIGINT PRIMARY KEY, part BIGINT NOT NULL);"
            "CREATE VIEW n AS SELECT part, COUNT(*) AS n FROM t GROUP BY part"
        )
    acknowledged: set[int] = set()
    numbers = itertools.count(1)
    pick = random.Random(11)

    def post(port: int) -> None:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            while True:
                part = next(numbers)
                rows = [[3 * part + at, part] for at in range(3)]
                headers = {"content-type": "application/jsonl"}
                answer = client.post("/tables/t/rows", content=json.dumps(rows), headers=headers)
                if answer.status_code == 200:
                    acknowledged.add(part)

    def insert(port: int, is_copy: bool) -> None:
        place = f"host=127.0.0.1 port={port} user=viewlet"
        with psycopg.connect(place, autocommit=True) as connection:
            while True:
                part = next(numbers)
                rows = [(3 * part + at, part) for at in range(3)]
                if is_copy:
                    with connection.cursor().copy("COPY t FROM STDIN") as copy:
                        for row in rows:
                            copy.write_row(row)
                else:
                    with connection.transaction():
                        connection.cursor().executemany("INSERT INTO t VALUES (%s, %s)", rows)
                acknowledged.add(part)

    def until_it_is_gone(write: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(httpx.HTTPError, psycopg.Error, OSError):
            write(*arguments)

    for _ in range(4):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            pg_port = free.getsockname()[1]
        with process(str(path), "--pg-port", str(pg_port)) as (child, port):
            httpx.get(f"http://127.0.0.1:{port}/views")
            works: list[Any] = [(post, port), (post, port)]
            works += [(insert, pg_port, False), (insert, pg_port, True)]
            threads = [threading.Thread(target=until_it_is_gone, args=work) for work in works]
            for thread in threads:
                thread.start()
            before = len(acknowledged)
            while len(acknowledged) < before + 30:
                time.sleep(0.01)
            time.sleep(pick.random() / 5)
            child.kill()
            child.wait()
            for thread in threads:
                thread.join(60)
        with viewlet.connect(path) as database:
            parts = {row.part: row.n for row in database.view("n").rows()}
            stored = database.query("SELECT part, COUNT(*) AS n FROM t GROUP BY part").to_pylist()
        assert parts == {row["part"]: row["n"] for row in stored}
        assert set(parts.values()) == {3}
        assert acknowledged <= parts.keys()
    print(f"{len(acknowledged)} batches acknowledged, {len(parts)} there")
