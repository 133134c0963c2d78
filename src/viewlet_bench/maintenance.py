"""`viewlet bench maintenance`: one stream in every maintenance mode, with reads now and then.

Lineitem of TPC-H comes in, through `db.inserter` row by row or through `db.insert` in batches of
Arrow; everything else is there before. After every so many batches the view is read, which is when
split and deferred views do their work: its time is part of the run. `ratio` is the rate over that
of eager maintenance in the same run, `read_p50_ms` what a read takes, `idle_read_us` what one takes
when nothing has come since the last.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import viewlet
from viewlet.interfaces.mode_choice import Strategy
from viewlet_bench import aim, writers
from viewlet_bench.data import generated, read
from viewlet_bench.output import Row
from viewlet_bench.workload import batch_sizes, chosen, compiled, query_text, schema_text

if TYPE_CHECKING:
    import pyarrow as pa

OPTIONS = frozenset({"sf", "queries", "batches", "seconds", "progress"})
COLUMNS = (
    "query",
    "mode",
    "batch",
    "reads_every",
    "tuples_per_s",
    "ratio",
    "p50_ms",
    "p99_ms",
    "read_p50_ms",
    "idle_read_us",
    "maps",
    "memory_mb",
    "chosen",
    "value",
    "target",
    "met",
)
MODES = ("eager", "split", "leaves", "deferred", "auto")
"""`leaves` is what auto may choose and no option names."""
QUICK_QUERIES = ("q15", "q3")
_STREAM = "lineitem"
_SINGLE_ROWS = 60_000


@dataclass(frozen=True)
class MaintenanceRun:
    """One run: for every query, batch size and number of batches between reads, all modes."""

    sf: float
    queries: tuple[str, ...]
    batches: tuple[int, ...]
    reads_every: tuple[int, ...]
    seconds: float


def run(
    quick: bool = False,
    *,
    sf: float | None = None,
    queries: Sequence[str] | None = None,
    batches: Sequence[str] | None = None,
    seconds: float | None = None,
    progress: Callable[[Row], None] | None = None,
) -> list[Row]:
    """A row for every query, batch size, number of batches between reads, and mode.

    Unless queries are named, also the AIM benchmark and several writers, each with its target.
    """
    names = chosen("tpch", queries) if queries is not None or not quick else QUICK_QUERIES
    settings = MaintenanceRun(
        sf if sf is not None else 0.05 if quick else 1.0,
        tuple(names),
        batch_sizes(batches) if batches else (1,) if quick else (1, 1000),
        (1, 1000) if quick else (1, 100, 10_000),
        seconds if seconds is not None else 0.5 if quick else 2.0,
    )
    rows = []
    measured_rows = [measure(settings)]
    if queries is None:
        customer_count = 20_000 if quick else 1_000_000
        measured_rows.append(aim.measure(customer_count, settings.seconds))
        measured_rows.append(writers.measure(20_000 if quick else 200_000, settings.seconds))
    for row in itertools.chain.from_iterable(measured_rows):
        rows.append(row)
        if progress is not None:
            progress(row)
    return rows


def measure(settings: MaintenanceRun) -> Iterator[Row]:
    """Query by query; the modes of one stand side by side."""
    for query in settings.queries:
        program = compiled("tpch", query).program
        names = [relation.name for relation in program.relations]
        if _STREAM not in names:
            continue
        directory = generated("tpch", settings.sf, names)
        tables = {
            relation.name: read(directory, relation.name, relation.names)
            for relation in program.relations
        }
        for batch in settings.batches:
            parts = list(_parts(tables[_STREAM], batch))
            for every in settings.reads_every:
                eager: float | None = None
                for mode in MODES:
                    row = measured(query, mode, tables, parts, every, settings.seconds)
                    eager = row["tuples_per_s"] if mode == "eager" else eager
                    yield row | {
                        "batch": batch,
                        "reference": "eager",
                        "ratio": row["tuples_per_s"] / eager if eager else None,
                        "sf": settings.sf,
                        "workload": "maintenance",
                    }


def _parts(table: pa.Table, batch: int) -> Iterator[Any]:
    if batch == 1:
        few = table.slice(0, _SINGLE_ROWS)
        yield from zip(*(column.to_pylist() for column in few.columns), strict=True)
        return
    for low in range(0, table.num_rows - batch + 1, batch):
        yield table.slice(low, batch).combine_chunks()


def measured(
    query: str,
    mode: str,
    tables: dict[str, pa.Table],
    parts: Sequence[Any],
    every: int,
    limit: float,
) -> Row:
    """One mode of one query: inserts and reads until the time is up."""
    text = query_text("tpch", query)
    name = re.findall(r"(?i)create\s+(?:materialized\s+)?view\s+(\w+)", text)[-1]
    with viewlet.connect() as db:
        db.execute(schema_text("tpch"))
        for other, table in tables.items():
            if other != _STREAM:
                db.insert(other, table)
        db.execute(text)
        if mode == "leaves":
            db._maintenance.choose(name, Strategy.LEAVES.view_mode("measured"))
        else:
            db.execute(f"ALTER MATERIALIZED VIEW {name} SET (maintenance = '{mode}')")
        single = isinstance(parts[0], tuple)
        put = db.inserter(_STREAM)

        def insert(part: Any) -> None:
            if single:
                put(*part)
            else:
                db.insert(_STREAM, part)

        view = db.view(name)
        insert(parts[0])
        view.to_arrow()  # machine code is made here
        writes, reads = _replayed(insert, view.to_arrow, parts[1:], every, limit)
        started = time.perf_counter()
        for _ in range(100):
            view.to_arrow()
        idle = (time.perf_counter() - started) / 100
        stats = db.stats(name)
    rows = len(writes) * (1 if single else len(parts[0]))
    return {
        "query": query,
        "engine": "viewlet",
        "mode": mode,
        "reads_every": every,
        "tuples_per_s": rows / (sum(writes) + sum(reads)),
        "p50_ms": 1e3 * float(np.median(writes)),
        "p99_ms": 1e3 * float(np.quantile(writes, 0.99)),
        "read_p50_ms": 1e3 * float(np.median(reads)),
        "idle_read_us": 1e6 * idle,
        "maps": len(stats.maps),
        "memory_mb": stats.bytes / 2**20,
        "chosen": stats.maintenance,
    }


def _replayed(
    insert: Callable[[Any], None],
    look: Callable[[], Any],
    parts: Sequence[Any],
    every: int,
    limit: float,
) -> tuple[list[float], list[float]]:
    """The seconds of every insert and every read; a read comes last in any case."""
    writes: list[float] = []
    reads: list[float] = []
    clock = time.perf_counter
    began = clock()
    for number, part in enumerate(parts, 1):
        started = clock()
        insert(part)
        written = clock()
        writes.append(written - started)
        if number % every == 0:
            look()
            reads.append(clock() - written)
        if clock() - began > limit:
            break
    started = clock()
    look()
    reads.append(clock() - started)
    return writes, reads
