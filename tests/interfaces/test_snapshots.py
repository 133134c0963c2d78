"""Subscriptions that begin with a snapshot, bounded queues, and batches in other shapes."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import math
import random
import threading
import time
from collections import Counter, namedtuple
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import viewlet
from viewlet.errors import ResolutionError, StateError, ViewletError
from viewlet.interfaces.batch_queue import BatchQueue
from viewlet.interfaces.database import Database
from viewlet.interfaces.json_values import json_value
from viewlet.interfaces.subscribe import ViewBatch


@pytest.fixture
def shop(db: Database) -> Database:
    db.execute(
        """
        CREATE TABLE t (a INT, b DOUBLE);
        CREATE VIEW v AS SELECT a, SUM(b) AS s FROM t GROUP BY a;
        CREATE VIEW w AS SELECT a, b FROM t
        """
    )
    db.insert("t", [(1, 1.0), (1, 2.0), (2, 5.0)])
    return db


def follow(state: Counter[Any], batch: ViewBatch) -> None:
    """Rows as text, so that NaN is equal to itself."""
    if batch.snapshot:
        state.clear()
    state.update(map(str, batch.inserted))
    state.subtract(map(str, batch.deleted))
    for row in [row for row, count in state.items() if not count]:
        del state[row]


def contents(db: Database, view: str) -> Counter[str]:
    return Counter(map(str, db.view(view).rows()))


def test_a_callback_is_given_the_view_first(shop: Database) -> None:
    seen: list[ViewBatch] = []
    shop.subscribe("v", seen.append, snapshot=True)
    (first,) = seen
    assert first.snapshot
    assert sorted(first.inserted) == [(1, 3.0), (2, 5.0)]
    shop.insert("t", (2, 1.0))
    assert not seen[1].snapshot
    assert seen[1].version > first.version
    assert (seen[1].deleted, seen[1].inserted) == ([(2, 5.0)], [(2, 6.0)])


def test_a_callback_that_refuses_its_snapshot_is_no_subscriber(shop: Database) -> None:
    def refuse(batch: ViewBatch) -> None:
        raise ValueError("no")

    with pytest.raises(ViewletError, match="failed on its snapshot"):
        shop.subscribe("v", refuse, snapshot=True)
    shop.insert("t", (9, 1.0))


def test_a_callback_cannot_change_the_database_in_its_snapshot(shop: Database) -> None:
    with pytest.raises(ViewletError, match="may not change"):
        shop.subscribe("v", lambda batch: shop.insert("t", (9, 1.0)), snapshot=True)
    assert 9 not in shop.view("v")


def test_no_snapshot_inside_of_a_batch(shop: Database) -> None:
    def nested(batch: ViewBatch) -> None:
        shop.subscribe("w", snapshot=True)

    with shop.subscribe("v", nested), pytest.raises(ViewletError, match="snapshot inside"):
        shop.insert("t", (9, 1.0))
    assert 9 not in shop.view("v")


def test_a_future_of_the_snapshot(shop: Database) -> None:
    subscription = shop.subscribe("v", snapshot=True)
    shop.insert("t", (3, 1.0))
    assert subscription.next().result(timeout=1).snapshot
    assert not subscription.next().done()


def test_a_watch_of_an_unknown_view(shop: Database) -> None:
    with pytest.raises(ResolutionError, match="no view x"):
        shop.watch("v", "x", snapshot=True)
    shop.insert("t", (3, 1.0))


@pytest.mark.parametrize("full", ["wait", "coalesce"])
@pytest.mark.parametrize("capacity", [None, 1, 3])
def test_watches_lose_nothing(shop: Database, capacity: int | None, full: Any) -> None:
    """Random changes by another thread while a slow reader follows two views."""
    states: dict[str, Counter[Any]] = {"v": Counter(), "w": Counter()}
    written = threading.Event()

    def write() -> None:
        numbers = random.Random(5)
        rows = [(1, 1.0), (1, 2.0), (2, 5.0)]
        for _ in range(60):
            if rows and numbers.random() < 0.4:
                shop.delete("t", rows.pop(numbers.randrange(len(rows))))
            else:
                row = (numbers.randrange(4), numbers.choice([1.0, -2.5, math.nan, math.inf]))
                rows.append(row)
                shop.insert("t", row)
        written.set()

    async def read() -> int:
        writer = threading.Thread(target=write)
        batches = 0
        async with shop.watch("v", "w", snapshot=True, capacity=capacity, full=full) as watch:
            writer.start()
            while True:
                try:
                    batch = await asyncio.wait_for(anext(watch), 0.5)
                except TimeoutError:
                    if written.is_set():
                        break
                    continue
                versions[batch.view].append(batch.version)
                follow(states[batch.view], batch)
                batches += 1
                await asyncio.sleep(0.001)
            assert watch.missed == 0
        writer.join()
        return batches

    versions: dict[str, list[int]] = {"v": [], "w": []}
    batches = asyncio.run(read())
    assert {view: contents(shop, view) for view in states} == states
    for seen in versions.values():
        assert seen == sorted(set(seen))
    if full == "wait":
        assert batches > 60


def test_a_queue_that_drops_says_how_much() -> None:
    queue = BatchQueue(2, "drop")
    batches = [ViewBatch("v", version, [(version,)], []) for version in range(6)]
    for batch in batches[:5]:
        queue.put(batch)
    assert queue.missed == 3
    assert [queue.pop(), queue.pop(), queue.pop()] == [batches[0], batches[1], None]
    queue.put(batches[5])
    last = queue.pop()
    assert last is not None
    assert last.missed == 3
    assert last.inserted == [(5,)]


def test_what_coalesces_to_nothing_is_nothing() -> None:
    queue = BatchQueue(1, "coalesce")
    queue.put(ViewBatch("v", 1, [(1,)], []))
    row = namedtuple("Row", ["x"])
    queue.put(ViewBatch("v", 2, [row(math.nan)], []))
    queue.put(ViewBatch("v", 3, [], [row(float("nan"))]))
    assert [queue.pop(), queue.pop()] == [ViewBatch("v", 1, [(1,)], []), None]


@pytest.mark.parametrize(
    ("options", "match"), [({"capacity": 0}, "capacity"), ({"full": "explode"}, "full")]
)
def test_options_of_a_watch(shop: Database, options: dict[str, Any], match: str) -> None:
    with pytest.raises(StateError, match=match):
        shop.watch("v", **options)


def test_a_writer_waits_for_a_slow_reader_and_readers_do_not(shop: Database) -> None:
    async def scenario() -> None:
        async with shop.watch("v", capacity=1) as watch:
            ended = threading.Event()

            def write() -> None:
                for number in range(3):
                    shop.insert("t", (number, 1.0))
                ended.set()

            thread = threading.Thread(target=write)
            thread.start()
            await asyncio.sleep(0.2)
            assert not ended.is_set()
            began = time.perf_counter()
            assert len(shop.view("v")) == 3  # the lock is free while the writer waits
            assert time.perf_counter() - began < 1
            for _ in range(3):
                await asyncio.wait_for(anext(watch), 5)
            await asyncio.to_thread(thread.join, 5)
            assert ended.is_set()

    asyncio.run(scenario())


def test_a_writer_in_the_readers_thread_does_not_hang(shop: Database) -> None:
    async def scenario() -> None:
        async with shop.watch("v", capacity=1) as watch:
            shop.insert("t", (1, 1.0))
            await anext(watch)
            shop.insert("t", (1, 1.0))
            with pytest.raises(StateError, match="in this very thread"):
                shop.insert("t", (1, 1.0))

    asyncio.run(scenario())


def test_batches_in_other_shapes() -> None:
    with viewlet.connect("interpreter") as db:
        db.execute(
            "CREATE TABLE t (a INT, p DECIMAL(12,2), d DATE, m TIMESTAMP, x DOUBLE, s VARCHAR);"
            "CREATE VIEW v AS SELECT a, p, d, m, x, s FROM t"
        )
        waiting = db.subscribe("v").next()
        row = (1, "1.50", dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 1, 2, 3), math.inf, None)
        db.insert("t", row)
        batch = waiting.result(timeout=1)
        table = batch.to_arrow()
        assert table.schema.field("p").type == pa.decimal128(12, 2)
        assert table.to_pylist() == batch.to_dicts() == db.changes("v").to_pylist()
        assert json.loads(batch.to_json()) == {
            "view": "v",
            "version": batch.version,
            "snapshot": False,
            "missed": 0,
            "deleted": [],
            "inserted": [
                {
                    "a": 1,
                    "p": "1.50",
                    "d": "2024-02-29",
                    "m": "2024-02-29T01:02:03",
                    "x": "Infinity",
                    "s": None,
                }
            ],
        }


def test_json_values_come_back() -> None:
    """What JSON has of a row, `insert` takes."""
    with viewlet.connect("interpreter") as db:
        db.execute("CREATE TABLE t (p DECIMAL(12,2), d DATE, m TIMESTAMP, b BOOLEAN)")
        moment = dt.datetime(2024, 2, 29, 1, 2, 3, 4)
        rows = [
            (Decimal("-0.05"), dt.date(1, 1, 1), moment, True),
            (None, None, None, False),
        ]
        db.insert("t", rows)
        db.insert("t", [tuple(map(json_value, row)) for row in rows])
        counts = Counter(map(tuple, (row.values() for row in db.query("FROM t").to_pylist())))
        assert set(counts.values()) == {2}


def test_what_there_is(shop: Database) -> None:
    assert (shop.tables, shop.views) == (("t",), ("v", "w"))
    shop.execute("CREATE STREAM s (k INT NOT NULL); CREATE TABLE u (k INT PRIMARY KEY)")
    assert [shop.schema(name).kind for name in ("s", "u", "v")] == ["stream", "table", "view"]
    assert shop.schema("u").key == ("k",)
    assert shop.schema("v").key == ("a",)
    assert shop.schema("w").key == ()
    assert [(c.name, c.type, c.nullable) for c in shop.schema("s").columns] == [
        ("k", "INTEGER", False)
    ]
    assert shop.schema("v").sql.startswith("CREATE VIEW v AS")
    with pytest.raises(ResolutionError, match="no table, stream or view x"):
        shop.schema("x")
