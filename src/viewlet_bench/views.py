"""`viewlet bench tpch|tpcds|finance`: streams of changes through one view at a time.

For every query and batch size all rows come round-robin through a new engine, which keeps the view
and all of its auxiliary maps. `tuples_per_s` and the latencies count the engine's work on coded
batches; coding the strings (`code_s`) is apart. `user_per_s` is what a user gets: the same stream
as Arrow tables, or as single tuples, from a call to its return. Against DuckDB, `ratio` is the mean
time that re-evaluating takes, sampled along the stream, over the mean time of a batch in the
engine, and `user_ratio` over that of a user's batch; `ratio_end` is the engine's at the end of the
stream, where the tables are full.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.engine.local.native_engine import NativeEngine
from viewlet.errors import ResolutionError
from viewlet_bench.duck import Duck
from viewlet_bench.end_to_end import end_to_end
from viewlet_bench.feed import RowFeed, RowSource, make_feed
from viewlet_bench.growth import growth_row
from viewlet_bench.output import Row
from viewlet_bench.replay import SINGLE, Replay, fastest, state, warm_up
from viewlet_bench.startup import startup
from viewlet_bench.workload import CompiledQuery, chosen, compiled

OPTIONS = frozenset(
    {"sf", "queries", "batches", "against", "seconds", "growth", "startup", "progress"}
)
"""What `run` of these workloads takes beside `quick`."""

COLUMNS = (
    "query",
    "batch",
    "user_per_s",
    "tuples_per_s",
    "tuples_per_cpu_s",
    "p50_ms",
    "p99_ms",
    "user_ratio",
    "ratio",
    "ratio_end",
    "growth",
    "equal",
    "maps",
    "memory_mb",
    "bytes_per_row",
    "ratio_to_calibration",
    "plan_s",
    "jit_s",
    "cold_s",
    "cached_s",
    "complete",
)
"""What the terminal shows of a row; the JSON has more."""

BATCHES = ("single", "1000", "10000", "100000")
QUICK_BATCHES = ("single", "1000")
REFERENCES = ("duckdb",)
_SAMPLES = (1 / 6, 3 / 6, 5 / 6)
_BUDGET = 18.0

Sources = Callable[[CompiledQuery, float], RowSource]
"""The rows of a query at a scale."""


@dataclass(frozen=True)
class BenchSettings:
    """One run, as a user asked for it."""

    sf: float
    queries: tuple[str, ...]
    batches: tuple[str, ...]
    against: bool
    seconds: float
    startup: bool


@dataclass(frozen=True)
class ViewBench:
    """A workload of views: where its rows come from, and what a quick run looks at."""

    workload: str
    sources: Sources
    quick_sf: float
    quick_queries: tuple[str, ...]

    def run(
        self,
        quick: bool = False,
        *,
        sf: float | None = None,
        queries: Sequence[str] | None = None,
        batches: Sequence[str] | None = None,
        against: str | None = None,
        seconds: float | None = None,
        growth: Sequence[float] | None = None,
        startup: bool = False,
        progress: Callable[[Row], None] | None = None,
    ) -> list[Row]:
        """All measurements, or with `growth` the time of a batch at these scales of the state.

        A quick run leaves out the queries for which its time does not suffice, and says so.
        """
        _check(batches, against, growth)
        names = queries if queries is not None or not quick else self.quick_queries
        settings = BenchSettings(
            sf if sf is not None else self.quick_sf if quick else 1.0,
            tuple(chosen(self.workload, names)),
            tuple(batches or (QUICK_BATCHES if quick else BATCHES)),
            against is not None or quick,
            seconds if seconds is not None else 1.0 if quick else 10.0,
            startup,
        )
        started = time.monotonic()
        rows: list[Row] = []
        for number, query in enumerate(settings.queries):
            if quick and time.monotonic() - started > _BUDGET:
                print(f"no time left for {', '.join(settings.queries[number:])}", file=sys.stderr)
                break
            program = compiled(self.workload, query)
            measured = (
                iter([growth_row(program, self.workload, growth, settings.seconds)])
                if growth is not None
                else measure(program, self.sources(program, settings.sf), settings)
            )
            for row in measured:
                rows.append(row)
                if progress is not None:
                    progress(row)
            gc.collect()
        return rows


def _check(
    batches: Sequence[str] | None, against: str | None, growth: Sequence[float] | None
) -> None:
    if against is not None and against not in REFERENCES:
        raise ResolutionError(
            f"there is no reference {against}", hint=f"references are {', '.join(REFERENCES)}"
        )
    for batch in batches or ():
        if batch != "single" and not (batch.isdigit() and int(batch) > 0):
            raise ResolutionError(
                f"{batch} is no batch size", hint="give `single` or numbers: single,1,1000"
            )
    if growth is not None and len(growth) != 2:
        raise ResolutionError("growth is between two scales", hint="--growth 0.1,1")


def measure(query: CompiledQuery, source: RowSource, settings: BenchSettings) -> Iterator[Row]:
    """One row for every batch size."""
    feed = make_feed(query, source)
    extra: Row = {"workload": query.workload, "sf": settings.sf, "plan_s": query.plan_s}
    if settings.startup:
        extra |= startup(query.workload, query.query)
    jit: dict[bool, float] = {}
    for batch in settings.batches:
        single = batch == "single"
        for shape in (single, False) if any(feed.begin().values()) else (single,):
            if shape not in jit:
                jit[shape] = warm_up(feed, shape)
        done = fastest(feed, single, SINGLE if single else int(batch), settings.seconds)
        row = batch_row(query.query, batch, done)
        row |= extra | {"jit_s": jit[single], "code_s": feed.code_s}
        started = time.perf_counter()
        NativeEngine.over(done.engine).rows(query.result_view.name)
        row["read_ms"] = 1e3 * (time.perf_counter() - started)
        row |= end_to_end(feed, batch, settings.seconds)
        if settings.against:
            row |= against_duckdb(feed, done, single, 3 * settings.seconds)
            if row["reference_ms"] is not None:
                row["user_ratio"] = row["reference_ms"] / row["user_ms"]
        yield row
        del done
        gc.collect()


def batch_row(query: str, batch: str, done: Replay) -> Row:
    """What a replay measured, and the state that it left."""
    single = batch == "single"
    return {
        "query": query,
        "engine": "viewlet",
        "batch": batch if single else int(batch),
        "tuples_per_s": done.tuples_per_s,
        "p50_ms": done.quantile_ms(0.5, single),
        "p99_ms": done.quantile_ms(0.99, single),
        "reference": None,
        "ratio": None,
        **state(done.engine),
        "rows": done.total,
        "seconds": sum(done.seconds),
        "complete": done.complete,
        "tuples_per_cpu_s": done.tuples_per_cpu_s,
        "calibration_per_s": done.probes,
        "ratio_to_calibration": done.tuples_per_cpu_s / done.probes,
    }


def against_duckdb(feed: RowFeed, done: Replay, single: bool, limit: float) -> Row:
    """DuckDB at points along the part of the stream that viewlet has done, and at its end."""
    duck = Duck(feed, limit)
    try:
        times: list[float | None] = []
        for share in _SAMPLES:
            duck.fill(done.position(feed, share))
            times.append(duck.evaluate())
        duck.fill(done.done)
        end = duck.evaluate()
        equal = duck.agrees(done.engine) if end is not None else None
    finally:
        duck.close()
    mine = np.array(done.seconds) / (np.array(done.rows) if single else 1)
    tail = mine[-max(1, len(mine) // 10) :]
    measured = [t for t in times if t is not None]
    mean = float(np.mean(measured)) if len(measured) == len(times) else None
    figures: dict[str, Any] = {
        "reference": "duckdb",
        "ratio": mean / float(np.mean(mine)) if mean is not None else None,
        "ratio_end": end / float(np.mean(tail)) if end is not None else None,
        "reference_ms": 1e3 * mean if mean is not None else None,
        "reference_end_ms": 1e3 * end if end is not None else None,
        "equal": equal,
    }
    if end is None:
        figures["note"] = f"DuckDB did not finish in {limit:g} s"
    return figures
