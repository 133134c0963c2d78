"""`viewlet bench spark`: refreshing a view on Spark beside Spark SQL computing it again.

Both run in one session on local[2] and take turns. A batch changes all relations of the query, in
proportion to their sizes; `p50_ms` is the time until it is committed, sending its rows from the
driver included. Spark SQL computes the same view over the whole tables, cached in memory.
`overhead_ms` is what is left of a refresh above the kernels and above empty jobs of its stages.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from viewlet.distributed.compile import Level
from viewlet.errors import ResolutionError
from viewlet.interfaces.bench.output import Row
from viewlet.interfaces.bench.scaling import QUERIES as SCALED
from viewlet.interfaces.bench.scaling import predictions
from viewlet.interfaces.bench.scaling_runs import checked, machine, work
from viewlet.interfaces.bench.spark_runs import (
    EmptyJobs,
    Recomputed,
    SparkView,
    Tables,
    bench_session,
    equal,
    median_ms,
    stages_of,
    summed,
)
from viewlet.interfaces.bench.workload import chosen, compiled, queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = frozenset({"sf", "queries", "parts", "progress"})
COLUMNS = (
    "part",
    "query",
    "engine",
    "batch",
    "workers",
    "tuples_per_s",
    "p50_ms",
    "p99_ms",
    "reference",
    "reference_ms",
    "ratio",
    "growth",
    "kernel_ms",
    "empty_ms",
    "overhead_ms",
    "jobs",
    "stages",
    "paper_jobs",
    "paper_stages",
    "equal",
    "memory_mb",
)
REFRESHED = ("q1", "q3", "q6", "q7", "q17", "q18")
PARTS = ("refresh", "levels", "growth", "counts", "scaling")
BATCH = 100_000
TABLE_3 = {
    f"q{number}": (int(jobs), int(stages))
    for number, (jobs, stages) in enumerate(
        zip("1111213231212113111122", "1332516673424235232343", strict=True), 1
    )
}
"""Jobs and stages of a batch in the paper's Table 3."""

_WARM, _ROUNDS = 3, 7
_QUICK_ROUNDS = (1, 3)
_BUDGET = 20.0


def run(
    quick: bool = False,
    *,
    sf: float | None = None,
    queries: Sequence[str] | None = None,
    parts: Sequence[str] | None = None,
    progress: Callable[[Row], None] | None = None,
) -> list[Row]:
    """All parts, or some; a quick run refreshes small tables and ends when its time is over."""
    scale = sf if sf is not None else 0.02 if quick else 1.0
    names = chosen("tpch", queries or (("q6", "q3") if quick else REFRESHED))
    wanted = tuple(parts or (("refresh",) if quick else PARTS))
    for part in wanted:
        if part not in PARTS:
            raise ResolutionError(f"there is no part {part}", hint=f"parts are {', '.join(PARTS)}")
    started = time.monotonic()
    spark = bench_session()
    rows: list[Row] = []
    rounds = _QUICK_ROUNDS if quick else (_WARM, _ROUNDS)
    for row in _measured(spark, wanted, names, scale, rounds):
        rows.append(row)
        if progress is not None:
            progress(row)
        if quick and time.monotonic() - started > _BUDGET:
            print("no time left for the other queries", file=sys.stderr)
            break
    spark.stop()
    return rows


def _measured(
    spark: SparkSession,
    parts: Sequence[str],
    names: Sequence[str],
    sf: float,
    rounds: tuple[int, int],
) -> Iterator[Row]:
    for part in parts:
        if part == "refresh":
            for query in names:
                yield refresh(spark, query, sf, rounds)
        elif part == "levels":
            yield from levels(spark, sf)
        elif part == "growth":
            for query in names:
                yield growth(spark, query, sf)
        elif part == "counts":
            yield from counts(spark, sf / 100)
        elif part == "scaling":
            yield from scaling(spark, sf)
        gc.collect()


def _batch(tables: Tables, most: int = BATCH) -> int:
    """The batch size: a tenth of the rows are enough for all rounds, where tables are small."""
    return min(most, tables.total // (3 * (_WARM + _ROUNDS)))


def refresh(spark: SparkSession, query: str, sf: float, rounds: tuple[int, int]) -> Row:
    """One query: refresh, recomputation and empty jobs in turn, after some rounds of warming up."""
    warm = rounds[0]
    tables = Tables(compiled("tpch", query), sf)
    size = _batch(tables)
    view, recomputed = SparkView(spark, tables), Recomputed(spark, tables)
    empty = EmptyJobs(spark, view.engine.partitions)
    stages = stages_of(view.engine, list(tables.rows))
    start = 1.0 - sum(rounds) * size / tables.total
    view.load(start)
    ours, theirs, nothing, moved = [], [], [], []
    for changes in tables.parts(size, start):
        ours.append(view.refresh(changes))
        moved.append(view.metrics())
        theirs.append(recomputed.run())
        nothing.append(empty.run(stages))
    row = _row("refresh", query, "spark", size, sf, ours[warm:])
    found = summed(moved[warm:])
    row |= {
        "reference": "spark sql",
        "reference_ms": median_ms(theirs[warm:]),
        "ratio": median_ms(theirs[warm:]) / row["p50_ms"],
        "kernel_ms": 1e3 * found["run_seconds"],
        "empty_ms": median_ms(nothing[warm:]),
        "jobs": moved[-1].jobs,
        "stages": moved[-1].stages,
        "bytes_scattered": found["bytes_scattered"],
        "bytes_shuffled": found["bytes_shuffled"],
        "equal": equal(view, recomputed),
        **_state(view),
    }
    row["overhead_ms"] = row["p50_ms"] - row["kernel_ms"] - row["empty_ms"]
    for made in (view, recomputed, empty):
        made.close()
    return row


def levels(spark: SparkSession, sf: float) -> Iterator[Row]:
    """Q3 compiled with less and with more of the distributed optimiser (Figure 13)."""
    tables = Tables(compiled("tpch", "q3"), sf)
    size = _batch(tables)
    start = 1.0 - (_WARM + _ROUNDS) * size / tables.total
    base: float | None = None
    for level in Level:
        view = SparkView(spark, tables, level=level)
        view.load(start)
        times = [view.refresh(changes) for changes in tables.parts(size, start)]
        row = _row("levels", "q3", f"spark/{level.name.lower()}", size, sf, times[_WARM:])
        base = base if base is not None else row["p50_ms"]
        found = view.metrics()
        row |= {"reference": "spark/naive", "reference_ms": base, "ratio": base / row["p50_ms"]}
        row |= {"jobs": found.jobs, "stages": found.stages, **_state(view)}
        row["bytes_shuffled"] = found.bytes_shuffled
        view.close()
        yield row


def growth(spark: SparkSession, query: str, sf: float) -> Row:
    """The same batches over a tenth of the state and over all of it."""
    times = []
    size = _batch(Tables(compiled("tpch", query), sf / 10))
    for scale in (sf / 10, sf):
        tables = Tables(compiled("tpch", query), scale)
        start = 1.0 - (_WARM + _ROUNDS) * size / tables.total
        view = SparkView(spark, tables)
        view.load(start)
        times.append([view.refresh(c) for c in tables.parts(size, start)][_WARM:])
        kept = _state(view)
        view.close()
    row = _row("growth", query, "spark", size, sf, times[1]) | kept
    before = median_ms(times[0])
    row |= {"reference": f"spark at {sf / 10:g}", "reference_ms": before}
    return row | {"ratio": before / row["p50_ms"], "growth": row["p50_ms"] / before}


def counts(spark: SparkSession, sf: float) -> Iterator[Row]:
    """Jobs and stages of a batch over all relations, as Spark counts them, for every query."""
    for query in queries("tpch"):
        tables = Tables(compiled("tpch", query), sf)
        view = SparkView(spark, tables)
        times = [view.refresh(changes) for changes in tables.parts(tables.total // 4)]
        found = view.metrics()
        jobs, stages = TABLE_3[query]
        yield _row("counts", query, "spark", tables.total // 4, sf, times[1:]) | {
            "jobs": found.jobs,
            "stages": found.stages,
            "paper_jobs": jobs,
            "paper_stages": stages,
            **_state(view),
        }
        view.close()


def scaling(spark: SparkSession, sf: float) -> Iterator[Row]:
    """The model's costs, its predictions, and its check on one and two executors."""
    rows = int(min(1.0, sf) * BATCH)
    costs = machine(spark)
    works = [work(spark, query, sf, rows) for query in SCALED]
    blank: Row = dict.fromkeys(("batch", "tuples_per_s", "p50_ms", "p99_ms", "reference"))
    blank |= dict.fromkeys(("ratio", "maps", "memory_mb"))
    yield {"part": "machine", "query": "", "engine": "spark", **blank, **asdict(costs)}
    for one in works:
        # The costs' own jobs and stages stand beside those of other parts.
        yield {"part": "work", "engine": "spark", **blank, **asdict(one)}
    yield from checked(costs, works, sf, rows)
    yield from predictions(costs, works)


def _row(part: str, query: str, engine: str, size: int, sf: float, times: Sequence[float]) -> Row:
    p50 = median_ms(times)
    return {
        "part": part,
        "query": query,
        "engine": engine,
        "batch": size,
        "tuples_per_s": 1e3 * size / p50,
        "p50_ms": p50,
        "p99_ms": 1e3 * float(np.quantile(times, 0.99)),
        "reference": None,
        "ratio": None,
        "maps": None,
        "memory_mb": None,
        "sf": sf,
    }


def _state(view: SparkView) -> Row:
    sizes = view.engine.sizes()
    return {"maps": len(sizes), "memory_mb": sum(s.bytes for s in sizes.values()) / 2**20}
