"""`viewlet bench nexmark`: Nexmark's queries as views, each by itself over the same events.

Events come in Arrow batches through `db.apply`, and the time of a call is counted to the end: rows
read, views current. The first batch, which compiles, is left out. As is published for other
engines, `tuples_per_s` counts all events, whatever relations a query reads. `state_mb` are the maps
of the view behind the last event, `state_growth` that size over the one behind the first half: 2
grows with the events, 1 does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

import viewlet
from viewlet.errors import ResolutionError
from viewlet_bench.nexmark_events import Generator
from viewlet_bench.nexmark_queries import QUERIES, TABLES, count_char
from viewlet_bench.output import Row

OPTIONS = frozenset({"queries", "batches", "progress"})
COLUMNS = (
    "query",
    "batch",
    "events",
    "tuples_per_s",
    "p50_ms",
    "p99_ms",
    "state_mb",
    "state_growth",
)
EVENTS, QUICK_EVENTS = 1_000_000, 100_000
SIZE = 10_000
QUICK_QUERIES = ("q0", "q1", "q2", "q3", "q8", "q20", "q22")


def run(
    quick: bool = False,
    *,
    queries: Sequence[str] | None = None,
    batches: Sequence[str] | None = None,
    progress: Callable[[Row], None] | None = None,
) -> list[Row]:
    """A row for every query and size of batches."""
    names = list(queries or (QUICK_QUERIES if quick else QUERIES))
    for name in names:
        if name not in QUERIES:
            raise ResolutionError(
                f"there is no query {name}", hint=f"there are {', '.join(QUERIES)}"
            )
    sizes = [_size(text) for text in batches or ()] or [SIZE]
    rows = []
    for name in names:
        for size in sizes:
            rows.append(measured(name, QUICK_EVENTS if quick else EVENTS, size))
            if progress is not None:
                progress(rows[-1])
    return rows


def _size(text: str) -> int:
    if not (text.isdigit() and int(text) > 0):
        raise ResolutionError(f"{text} is no number of events", hint="give numbers: 1000,10000")
    return int(text)


def measured(name: str, events: int, size: int) -> Row:
    """One query over so many events."""
    with viewlet.connect() as db:
        db.function("count_char", count_char)
        db.execute(TABLES)
        db.insert("side_input", {"key": range(10_000), "value": [f"v{n}" for n in range(10_000)]})
        db.execute(f"CREATE MATERIALIZED VIEW v AS {QUERIES[name]}")
        seconds: list[float] = []
        half = 0
        count = -(-events // size)
        for number, batch in enumerate(Generator().batches(events + size, size)):
            changes = [viewlet.Change(relation, table) for relation, table in batch.items()]
            started = time.perf_counter()
            db.apply(changes)
            if number:  # the first batch compiles
                seconds.append(time.perf_counter() - started)
            if number == (count + 1) // 2:
                half = _state(db)
        state = _state(db)
    return {
        "workload": "nexmark",
        "query": name,
        "engine": "local",
        "batch": size,
        "events": events,
        "tuples_per_s": events / sum(seconds),
        "p50_ms": 1000 * float(np.percentile(seconds, 50)),
        "p99_ms": 1000 * float(np.percentile(seconds, 99)),
        "state_mb": state / 1e6,
        "state_growth": state / half if half else None,
    }


def _state(db: viewlet.Database) -> int:
    """The bytes of all maps."""
    return sum(size.bytes for size in db._state.engine.sizes().values())
