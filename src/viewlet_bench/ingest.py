"""`viewlet bench ingest`: what a user gets, from `insert` to current views, by shape of rows.

All 16 columns of TPC-H's lineitem go into a stream or a table under one view; whatever else the
view reads is there before. Times are those of the calls: rows are converted, checked, kept where it
is a table, and the view is current afterwards. Making the objects is not part of it, nor is machine
code. Beside it DuckDB appends the same objects to a table without a key, and maintains nothing;
`ratio` is viewlet's rate over DuckDB's.

    arrow, polars     as tpcgen-cli writes them: 64-bit keys, decimals, dates, views of strings
    pandas            doubles for decimals, datetime64[ns] for dates, objects for strings
    numpy             the same columns as a dict of NumPy arrays
    tuples, dicts     Decimal, date and str
    row, inserter     one tuple after the other: db.insert, and the function of db.inserter
"""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

import viewlet
from viewlet.errors import ResolutionError
from viewlet_bench.data import generated, read
from viewlet_bench.output import Row
from viewlet_bench.workload import batch_sizes, chosen, query_text, schema_text

if TYPE_CHECKING:
    import pyarrow as pa

OPTIONS = frozenset({"sf", "queries", "batches", "seconds", "progress"})
COLUMNS = (
    "query",
    "into",
    "shape",
    "batch",
    "tuples_per_s",
    "lowest",
    "highest",
    "target",
    "reference_per_s",
    "ratio",
    "p50_ms",
    "p99_ms",
)

QUERIES = ("q1", "q3", "q6", "q18")
QUICK_QUERIES = ("q1", "q6")
BATCHES = (1, 100, 10_000, 100_000)
QUICK_BATCHES = (1, 100, 10_000, 100_000)
SHAPES = ("arrow", "polars", "pandas", "numpy", "tuples", "dicts")
QUICK_SHAPES = ("arrow", "polars", "pandas", "tuples", "dicts")
SINGLE = ("row", "inserter")
OBJECTS = ("tuples", "dicts", *SINGLE)
"""Shapes of which rows are made a few at a time: each value is an object."""

TARGETS = {
    ("arrow", 100_000, "stream"): 8e6,
    ("arrow", 100_000, "table"): 3e6,
    ("arrow", 100, "stream"): 4e5,
    ("arrow", 100, "table"): 4e5,
    ("polars", 100_000, "stream"): 2e6,
    ("polars", 100_000, "table"): 2e6,
    ("pandas", 100_000, "stream"): 2e6,
    ("pandas", 100_000, "table"): 2e6,
    ("tuples", 10_000, "stream"): 4e5,
    ("tuples", 10_000, "table"): 4e5,
    ("dicts", 10_000, "stream"): 4e5,
    ("dicts", 10_000, "table"): 4e5,
}
"""Rows per second that were asked for on two cores, by shape, batch size and kind of relation."""

_TABLE = "lineitem"
_OTHERS = {"q3": ("customer", "orders"), "q18": ("customer", "orders")}
_MOST_OBJECTS = 200_000


@dataclass(frozen=True)
class Settings:
    """One run. A measurement is repeated on a new database in each of its turns."""

    sf: float
    queries: tuple[str, ...]
    shapes: tuple[str, ...]
    batches: tuple[int, ...]
    seconds: float
    turns: int


@dataclass
class Timed:
    """The calls of one turn."""

    rows: int
    seconds: list[float]

    @property
    def per_s(self) -> float:
        """Rows for each second of the calls."""
        return self.rows / sum(self.seconds)


def run(
    quick: bool = False,
    *,
    sf: float | None = None,
    queries: Sequence[str] | None = None,
    batches: Sequence[str] | None = None,
    seconds: float | None = None,
    progress: Callable[[Row], None] | None = None,
) -> list[Row]:
    """A row for every query, kind of relation, shape and batch size."""
    names = chosen("tpch", queries) if queries is not None else QUICK_QUERIES if quick else QUERIES
    for name in names:
        if name not in QUERIES:
            raise ResolutionError(
                f"ingest does not measure {name}", hint=f"queries are {', '.join(QUERIES)}"
            )
    settings = Settings(
        sf if sf is not None else 0.05 if quick else 1.0,
        tuple(names),
        QUICK_SHAPES if quick else SHAPES,
        batch_sizes(batches) if batches else QUICK_BATCHES if quick else BATCHES,
        seconds if seconds is not None else 0.15 if quick else 2.0,
        1 if quick else 3,
    )
    rows = []
    for row in measure(settings):
        rows.append(row)
        if progress is not None:
            progress(row)
    return rows


def measure(settings: Settings) -> Iterator[Row]:
    """Shape by shape, so that the objects of one are there at a time."""
    directory = generated("tpch", settings.sf, (_TABLE, "customer", "orders"))

    @cache
    def table_of(name: str) -> pa.Table:
        return read(directory, name, [column for column, _ in _columns(name)])

    for shape, size in _shapes(settings):
        parts = list(batches(table_of(_TABLE), shape, size))
        reference = [appended(shape, parts, settings.seconds) for _ in range(settings.turns)]
        for query in settings.queries:
            others = {name: table_of(name) for name in _OTHERS.get(query, ())}
            for into in ("stream", "table"):
                turns = [
                    inserted(query, into, shape, parts, others, settings.seconds)
                    for _ in range(settings.turns)
                ]
                row = _row(query, into, shape, size, [timed for timed, _ in turns], reference)
                yield row | turns[-1][1] | {"workload": "ingest", "sf": settings.sf}
        del parts
        gc.collect()


def _shapes(settings: Settings) -> Iterator[tuple[str, int]]:
    for shape in settings.shapes:
        for size in settings.batches:
            if size > 1:
                yield shape, size
    if 1 in settings.batches:
        for shape in ("arrow", *SINGLE):
            yield shape, 1


def _row(
    query: str, into: str, shape: str, size: int, turns: list[Timed], reference: list[Timed]
) -> Row:
    rates = [turn.per_s for turn in turns]
    rate, other = float(np.median(rates)), float(np.median([turn.per_s for turn in reference]))
    times = np.concatenate([turn.seconds for turn in turns])
    return {
        "query": query,
        "engine": "viewlet",
        "into": into,
        "shape": shape,
        "batch": size,
        "tuples_per_s": rate,
        "lowest": min(rates),
        "highest": max(rates),
        "target": TARGETS.get((shape, size, into)),
        "p50_ms": 1e3 * float(np.median(times)),
        "p99_ms": 1e3 * float(np.quantile(times, 0.99)),
        "reference": "duckdb append",
        "reference_per_s": other,
        "ratio": rate / other,
        "rows": sum(turn.rows for turn in turns),
    }


# Rows.


def batches(table: pa.Table, shape: str, size: int) -> Iterator[Any]:
    """The table in batches of `size` rows, as a user with rows of this shape has them."""
    count = table.num_rows
    if shape in OBJECTS or size < 1000:
        count = min(count, _MOST_OBJECTS, 2000 * size)
    for low in range(0, count - size + 1, size):
        yield _shaped(table.slice(low, size), shape)


def _shaped(part: pa.Table, shape: str) -> Any:
    if shape == "polars":
        import polars as pl

        return pl.from_arrow(part)
    if shape == "pandas":
        return _as_numbers(part).to_pandas()
    if shape == "numpy":
        frame = _as_numbers(part).to_pandas()
        return {name: frame[name].to_numpy() for name in frame.columns}
    if shape == "dicts":
        return part.to_pylist()
    if shape == "tuples":
        return list(zip(*(column.to_pylist() for column in part.columns), strict=True))
    if shape in SINGLE:
        return tuple(column[0].as_py() for column in part.columns)
    return part.combine_chunks()


def _as_numbers(part: pa.Table) -> pa.Table:
    """Decimals as doubles, dates as timestamps: what a data frame is mostly read from files as."""
    import pyarrow as pa

    kinds = [
        pa.float64()
        if pa.types.is_decimal(field.type)
        else pa.timestamp("ns")
        if pa.types.is_date(field.type)
        else pa.string()
        if pa.types.is_string_view(field.type)
        else field.type
        for field in part.schema
    ]
    fields = zip(part.schema.names, kinds, strict=True)
    return part.cast(pa.schema([pa.field(name, kind) for name, kind in fields]))


def _columns(relation: str) -> list[tuple[str, str]]:
    """The names and types of a relation in the schema."""
    match = re.search(rf"CREATE TABLE {relation} \((.*?)\n\);", schema_text("tpch"), re.DOTALL)
    assert match is not None, relation
    return re.findall(
        r"([a-z]+_\w+) ((?:INTEGER|DECIMAL|CHAR|VARCHAR|DATE)(?:\([\d,]+\))?)", match[1]
    )


# The two systems.


def inserted(
    query: str,
    into: str,
    shape: str,
    parts: Sequence[Any],
    others: dict[str, pa.Table],
    limit: float,
) -> tuple[Timed, Row]:
    """One turn of viewlet, and what its view takes at the end."""
    schema = schema_text("tpch")
    if into == "stream":
        schema = schema.replace(f"CREATE TABLE {_TABLE}", f"CREATE STREAM {_TABLE}")
    text = query_text("tpch", query)
    with viewlet.connect() as db:
        db.execute(schema)
        db.execute(text)
        for name, table in others.items():
            db.insert(name, table)
        put = db.inserter(_TABLE) if shape == "inserter" else None

        def insert(part: Any) -> None:
            if put is not None:
                put(*part)
            else:
                db.insert(_TABLE, part)

        timed = _timed(insert, parts, shape, limit)
        names = re.findall(r"(?i)create\s+(?:materialized\s+)?view\s+(\w+)", text)
        stats = db.stats(names[-1])
    return timed, {"maps": len(stats.maps), "memory_mb": stats.bytes / 2**20}


def appended(shape: str, parts: Sequence[Any], limit: float) -> Timed:
    """One turn of DuckDB, which appends the same objects."""
    import duckdb

    columns = _columns(_TABLE)
    marks = ", ".join("?" * len(columns))
    with duckdb.connect(":memory:") as connection:
        shown = ", ".join(f"{name} {kind}" for name, kind in columns)
        connection.execute(f"CREATE TABLE {_TABLE} ({shown})")

        def insert(part: Any) -> None:
            if shape in SINGLE:
                connection.execute(f"INSERT INTO {_TABLE} VALUES ({marks})", part)
            elif shape == "tuples":
                connection.executemany(f"INSERT INTO {_TABLE} VALUES ({marks})", part)
            elif shape == "dicts":
                values = [list(row.values()) for row in part]
                connection.executemany(f"INSERT INTO {_TABLE} VALUES ({marks})", values)
            else:
                connection.register("part", part)
                connection.execute(f"INSERT INTO {_TABLE} SELECT * FROM part")

        # DuckDB takes many objects of Python very slowly: a few are enough.
        few = [part[:100] for part in parts] if shape in ("tuples", "dicts") else parts
        return _timed(insert, few, shape, limit)


def _timed(insert: Callable[[Any], None], parts: Sequence[Any], shape: str, limit: float) -> Timed:
    """All parts, one call each, until the time is up; the first call is for the machine code."""
    seconds: list[float] = []
    rows, spent, clock = 0, 0.0, time.perf_counter
    for number, part in enumerate(parts):
        started = clock()
        insert(part)
        elapsed = clock() - started
        if number == 0 and len(parts) > 1:
            continue
        seconds.append(elapsed)
        spent += elapsed
        rows += 1 if shape in SINGLE else _length(part)
        if spent > limit:
            break
    return Timed(rows, seconds)


def _length(part: Any) -> int:
    return len(next(iter(part.values()))) if isinstance(part, dict) else len(part)
