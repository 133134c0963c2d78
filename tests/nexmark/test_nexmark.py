"""Nexmark's queries as views: equal to DuckDB after every batch, with late rows and deletes."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pytest

import viewlet
from viewlet_bench.nexmark_queries import QUERIES, TABLES, count_char, in_duckdb

START = datetime(2026, 1, 1, 23, 59, 20)
RELATIONS = ("person", "auction", "bid")
BID = ("auction", "bidder", "price", "channel", "url", "dateTime", "extra")


class Events:
    """Persons, auctions and bids, at most eleven seconds out of order, no two bids alike."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.count = 0
        self.now = START
        self.rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in RELATIONS}

    def batch(self, size: int) -> list[viewlet.Change]:
        changes = []
        for _ in range(size):
            name = self.rng.choices(RELATIONS, (1, 3, 12))[0]
            row = getattr(self, f"_{name}")()
            self.rows[name].append(row)
            rows: list[Any] = [row]
            if name == "bid":  # p_time is left to the clock
                rows = [dict(zip(BID, row, strict=False))]
            changes.append(viewlet.Change(name, rows))
            if self.rng.random() < 0.15:
                gone = self.rng.choice(RELATIONS)
                if self.rows[gone]:
                    at = self.rng.randrange(len(self.rows[gone]))
                    changes.append(viewlet.Change(gone, [self.rows[gone].pop(at)], -1))
        return changes

    def _time(self) -> datetime:
        self.count += 1
        late = self.rng.choice([0, 0, 0, 11])
        return START + timedelta(seconds=0.7 * self.count - late, microseconds=self.count)

    def _person(self) -> tuple[Any, ...]:
        key = self.rng.randrange(6)
        state = self.rng.choice(["OR", "ID", "CA", "WA"])
        return (key, f"p{key}", "a@b", "1234", "Bend", state, self._time(), "x" * key)

    def _auction(self) -> tuple[Any, ...]:
        key, now = self.count, self._time()
        expires = now + timedelta(seconds=self.rng.choice([5, 30, 200]))
        seller, category = self.rng.randrange(6), self.rng.choice([10, 11])
        return (key, f"item{key}", None, 1, 2, now, expires, seller, category, "")

    def _bid(self) -> tuple[Any, ...]:
        auctions = [row[0] for row in self.rows["auction"]] or [246]
        price = self.rng.choice([500, 20_000, 2_000_000]) + self.count
        channel = self.rng.choice(["Apple", "baidu", "channel-7", None])
        url = self.rng.choice(["https://a.b/x/y/z/item.htm", "https://a/&channel_id=77", None])
        auction, bidder = self.rng.choice(auctions[-8:]), self.rng.randrange(6)
        return (
            auction,
            bidder,
            price,
            channel,
            url,
            self._time(),
            f"ce{self.count}c"[self.count % 3 :],
            self.now,
        )


def plain(rows: list[tuple[Any, ...]]) -> Counter[Any]:
    """Rows as a bag, whether a number is whole, decimal or double."""
    return Counter(
        tuple(float(v) if isinstance(v, int | float | Decimal) else v for v in row) for row in rows
    )


@pytest.mark.parametrize(
    ("engine", "seed"),
    [
        ("interpreter", 1),
        pytest.param("local", 2, marks=pytest.mark.slow),
        pytest.param("local", 3, marks=pytest.mark.slow),
    ],
)
def test_queries_follow_events(engine: Any, seed: int) -> None:
    events = Events(seed)
    mirror = duckdb.connect()
    mirror.execute(TABLES.replace("STREAM", "TABLE").replace("WITH (static = true)", ""))
    side_input = [(key, f"value {key}") for key in range(0, 500, 3)]
    mirror.executemany("INSERT INTO side_input VALUES (?, ?)", side_input)
    with viewlet.connect(engine) as db:
        db.function("count_char", count_char)
        db.execute(TABLES)
        db.insert("side_input", side_input)
        db.execute(";".join(f"CREATE MATERIALIZED VIEW {n} AS {q}" for n, q in QUERIES.items()))
        for size in (1, 2, 10, 40, 60, 60):
            events.now += timedelta(seconds=4)
            db.clock.set(events.now)
            changes = events.batch(size)
            db.apply(changes)
            for name in RELATIONS:
                mirror.execute(f"DELETE FROM {name}")
                if events.rows[name]:
                    marks = ", ".join("?" * len(events.rows[name][0]))
                    mirror.executemany(f"INSERT INTO {name} VALUES ({marks})", events.rows[name])
            for name in QUERIES:
                expected = mirror.execute(in_duckdb(name)).fetchall()
                rows = [tuple(row) for row in db.view(name).rows()]
                ours, theirs = plain(rows), plain(expected)
                assert ours == theirs, (name, ours - theirs, theirs - ours)
        assert all(len(db.view(name)) for name in QUERIES if name not in ("q2",)), (
            "something to see"
        )
