"""`viewlet bench outlet`: what answers cost after a change, by the size of the view.

A view has so many rows (`batch`); before each read one row comes in, whose time is not counted.

    len, key, limit      len(v), v[k], the ten rows of ORDER BY ... LIMIT 10
    query by key         db.query with all keys of the view in WHERE
    arrow, rows, items   all of the view
    subscriber           a batch that changes every row, at most 100,000, with a callback that
                         counts; `ratio` is over the same batch without it
    watchers             a row with 100 watches that nobody reads; `ratio` is over a row without
    new string           a row with a string that has not been before, under MIN of strings

`growth` is the time over that of the smallest view.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import viewlet
from viewlet_bench.output import Row
from viewlet_bench.workload import whole_number

if TYPE_CHECKING:
    import pyarrow as pa

OPTIONS = frozenset({"batches", "seconds", "progress"})
COLUMNS = ("query", "batch", "us", "lowest", "highest", "target", "growth", "ratio")
SIZES = (10_000, 100_000, 1_000_000)
QUICK_SIZES = (10_000, 100_000)
MOST_CHANGED = 100_000
WATCHERS = 100

TARGETS = {"len": 50.0, "key": 50.0, "limit": 50.0}
"""Microseconds that were asked for, at any size."""
SUBSCRIBED_TARGET = 1.3

SCHEMA = """
CREATE STREAM t (k INTEGER NOT NULL, x DECIMAL(12, 2) NOT NULL, s VARCHAR NOT NULL);
CREATE MATERIALIZED VIEW v AS SELECT k, SUM(x) AS total, COUNT(*) AS n FROM t GROUP BY k;
"""
TOP = """
CREATE MATERIALIZED VIEW top AS
SELECT k, SUM(x) AS total FROM t GROUP BY k ORDER BY total DESC, k LIMIT 10
"""
STRINGS = "CREATE MATERIALIZED VIEW least AS SELECT k, MIN(s) AS s FROM t GROUP BY k"


@dataclass(frozen=True)
class Reading:
    """One kind of read: what comes before it, and what is timed."""

    name: str
    before: Callable[[], object]
    call: Callable[[], object]


def run(
    quick: bool = False,
    *,
    batches: Sequence[str] | None = None,
    seconds: float | None = None,
    progress: Callable[[Row], None] | None = None,
) -> list[Row]:
    """A row for every kind of read and size of the view."""
    sizes = tuple(map(_size, batches)) if batches else QUICK_SIZES if quick else SIZES
    limit = seconds if seconds is not None else 0.2 if quick else 1.0
    smallest: dict[str, float] = {}
    rows = []
    for size in sizes:
        for row in measured(size, limit):
            growth = row["us"] / smallest.setdefault(row["query"], row["us"])
            rows.append(row | {"growth": growth})
            if progress is not None:
                progress(rows[-1])
    return rows


def _size(text: str) -> int:
    return whole_number(text, "number of rows", "give numbers: 10000,1000000")


def measured(size: int, limit: float) -> Iterator[Row]:
    """All kinds of reads of a view of one size."""
    with viewlet.connect() as db:
        db.execute(SCHEMA + TOP)
        _fill(db, size)
        view, top = db.view("v"), db.view("top")
        put = db.inserter("t")

        def one() -> None:
            put(1, "1.00", "s1")

        readings = (
            Reading("len", one, lambda: len(view)),
            Reading("key", one, lambda: view[size // 2]),
            Reading("limit", one, top.rows),
            Reading(
                "query by key",
                one,
                lambda: db.query("SELECT total FROM v WHERE k = ?", [size // 2]),
            ),
            Reading("arrow", one, view.to_arrow),
            Reading("rows", one, view.rows),
            Reading("items", one, view.items),
        )
        for reading in readings:
            yield _row(reading.name, size, _times(reading, limit))
    yield from _deliveries(size, limit)
    yield _new_strings(size, limit)


def _fill(db: viewlet.Database, size: int) -> None:
    for low in range(0, size, MOST_CHANGED):
        db.insert("t", _rows(low, min(low + MOST_CHANGED, size)))


def _rows(low: int, high: int) -> pa.Table:
    import pyarrow as pa

    keys = np.arange(low, high)
    cents = pa.array(keys % 977).cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2))
    strings = pa.array([f"s{key * 7919 % 1_000_003:07d}" for key in keys.tolist()])
    return pa.table({"k": pa.array(keys, pa.int32()), "x": cents, "s": strings})


def _times(reading: Reading, limit: float) -> list[float]:
    """Seconds of the calls, the first one left out: it loads machine code."""
    clock = time.perf_counter
    reading.before()
    reading.call()
    seconds: list[float] = []
    ends = clock() + limit
    while len(seconds) < 3 or (clock() < ends and len(seconds) < 1_000):
        reading.before()
        started = clock()
        reading.call()
        seconds.append(clock() - started)
    return seconds


def _row(name: str, size: int, seconds: Sequence[float], **more: Any) -> Row:
    times = 1e6 * np.array(seconds)
    return {
        "workload": "outlet",
        "query": name,
        "engine": "viewlet",
        "batch": size,
        "us": float(np.median(times)),
        "lowest": float(times.min()),
        "highest": float(np.quantile(times, 0.9)),
        "target": TARGETS.get(name),
        "tuples_per_s": None,
        "p50_ms": float(np.median(times)) / 1e3,
        "p99_ms": float(np.quantile(times, 0.99)) / 1e3,
        "reference": None,
        "ratio": None,
        "maps": None,
        "memory_mb": None,
    } | more


def _deliveries(size: int, limit: float) -> Iterator[Row]:
    """Batches and rows with those who hear of them, and in turn without."""
    with viewlet.connect() as db:
        db.execute(SCHEMA)
        _fill(db, size)
        batch = _rows(0, min(size, MOST_CHANGED))
        rows = [(5, "1.00", "s1")]

        def large() -> int:
            return db.insert("t", batch)

        def small() -> int:
            return db.insert("t", rows)

        changed: list[int] = []
        alone: list[float] = []
        heard: list[float] = []
        for _ in range(3):
            alone += _times(Reading("", lambda: None, large), limit / 6)
            with db.subscribe("v", lambda batch: changed.append(len(batch.inserted))):
                heard += _times(Reading("", lambda: None, large), limit / 6)
        ratio = float(np.median(heard) / np.median(alone))
        yield _row("subscriber", size, heard, ratio=ratio, target=SUBSCRIBED_TARGET)
        alone = _times(Reading("", lambda: None, small), limit / 2)
        watches = [db.watch("v", capacity=10, full="coalesce") for _ in range(WATCHERS)]
        heard = _times(Reading("", lambda: None, small), limit / 2)
        for watch in watches:
            watch.close()
        ratio = float(np.median(heard) / np.median(alone))
        yield _row("watchers", size, heard, ratio=ratio)


def _new_strings(size: int, limit: float) -> Row:
    with viewlet.connect() as db:
        db.execute(SCHEMA + STRINGS)
        _fill(db, size)
        put = db.inserter("t")
        numbers = iter(range(10**9))

        def fresh() -> None:
            number = next(numbers)
            put(number % size, "1.00", f"s{number * 7919 % 1_000_003:07d} {number}")

        return _row("new string", size, _times(Reading("", lambda: None, fresh), limit))
