"""`viewlet bench spark`: refreshing a view on Spark beside Spark SQL computing it again.

Both run in one session on local[2] and take turns. A batch changes all relations of the query, in
proportion to their sizes; `p50_ms` is the time until it is committed. Its rows are either in the
memory of the driver (engine `spark`), sending them included, or in DataFrames in the memory of the
executors (`spark/frames`). Spark SQL computes the same view over the whole tables, cached in
memory. `overhead_ms` is what is left of a refresh above the kernels and above empty jobs of the
stages that it ran, over the same DataFrames where it has some.

A measurement that fails is a row with its `error`, and the others go on.
"""

from __future__ import annotations

import gc
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from viewlet.distributed.compile import Level
from viewlet.engine.partitions.anchored_jobs import reason_of
from viewlet.engine.partitions.metrics import Metrics
from viewlet.errors import ResolutionError
from viewlet_bench.output import FIELDS, Row
from viewlet_bench.scaling import QUERIES as SCALED
from viewlet_bench.scaling import predictions
from viewlet_bench.scaling_runs import checked, machine, work
from viewlet_bench.spark_runs import (
    CachedTables,
    EmptyJobs,
    Frames,
    QueryTables,
    Recomputed,
    SparkView,
    bench_session,
    equal,
    median_ms,
    release,
    stages_of,
    summed,
)
from viewlet_bench.workload import chosen, compiled, queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = frozenset({"sf", "queries", "parts", "seconds", "progress"})
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
    "error",
)
REFRESHED = ("q1", "q3", "q6", "q7", "q17", "q18")
PARTS = ("refresh", "levels", "overhead", "growth", "scaling", "counts")
BATCH = 100_000
TABLE_3 = {
    f"q{number}": (int(jobs), int(stages))
    for number, (jobs, stages) in enumerate(
        zip("1111213231212113111122", "1332516673424235232343", strict=True), 1
    )
}
"""Jobs and stages of a batch in paper 000 Table 3."""

_WARM, _ROUNDS = 3, 5
_QUICK_ROUNDS = (1, 3)
_LIMIT, _QUICK_LIMIT = 900.0, 20.0
"""Seconds after which no further measurement begins."""


def run(
    quick: bool = False,
    *,
    sf: float | None = None,
    queries: Sequence[str] | None = None,
    parts: Sequence[str] | None = None,
    seconds: float | None = None,
    progress: Callable[[Row], None] | None = None,
) -> list[Row]:
    """All parts, or some; a quick run refreshes small tables. `seconds`: none begins after them."""
    scale = sf if sf is not None else 0.02 if quick else 1.0
    names = chosen("tpch", queries or (("q6", "q3") if quick else REFRESHED))
    chosen_parts = tuple(parts or (("refresh",) if quick else PARTS))
    for part in chosen_parts:
        if part not in PARTS:
            raise ResolutionError(f"there is no part {part}", hint=f"parts are {', '.join(PARTS)}")
    limit = seconds if seconds is not None else _QUICK_LIMIT if quick else _LIMIT
    bench = Bench(bench_session(), scale, names, _QUICK_ROUNDS if quick else (_WARM, _ROUNDS))
    rows: list[Row] = []
    started = time.monotonic()
    for part, query, measure in bench.measurements(chosen_parts):
        if time.monotonic() - started > limit:
            print(f"no time left for {part} {query}", file=sys.stderr)
            continue
        try:
            for row in measure():
                rows.append(row)
                if progress is not None:
                    progress(row)
        except Exception as problem:  # whatever it is, the figures of the others count
            error = f"{type(problem).__name__}: {reason_of(str(problem))}"
            rows.append(_blank(part, query) | {"error": error})
            traceback.print_exc()
            print(f"{part} {query} failed: {error}", file=sys.stderr)
        gc.collect()
    bench.spark.stop()
    return rows


class Bench:
    """The measurements of a run, and what they share: the session and the cached tables."""

    def __init__(
        self, spark: SparkSession, sf: float, names: Sequence[str], rounds: tuple[int, int]
    ) -> None:
        self.spark = spark
        self.sf = sf
        self.names = names
        self.warm, self.rounds = rounds
        self._compiled = {query: compiled("tpch", query, keyed=False) for query in names}
        self._cached = CachedTables(spark, sf, list(self._compiled.values()))
        self._tables: QueryTables | None = None

    def measurements(
        self, parts: Sequence[str]
    ) -> Iterator[tuple[str, str, Callable[[], Iterable[Row]]]]:
        """Part, query, and what measures it; whole tables go when Spark SQL has had its turn."""
        for part in parts:
            if part == "refresh":
                for query in self.names:
                    yield part, query, partial(self.refresh, query, against=True)
                self._cached.close()
            elif part == "overhead" and "refresh" not in parts:
                for query in self.names:
                    yield part, query, partial(self.refresh, query, against=False)
            elif part == "levels":
                yield part, "q3", self.levels
            elif part == "growth":
                for query in self.names:
                    yield part, query, partial(self.growth, query)
            elif part == "scaling":
                yield part, ",".join(SCALED), partial(scaling, self.spark, self.sf)
            elif part == "counts":
                for query in queries("tpch"):
                    yield part, query, partial(counts, self.spark, query, self.sf / 100)

    def tables(self, query: str, sf: float) -> QueryTables:
        """The rows of a query; those of the one asked for last are kept."""
        last = self._tables
        if last is None or (last.compiled.query, last.sf) != (query, sf):
            self._tables = None  # one at a time: at scale 1 they are large
            self._tables = QueryTables(
                self._compiled.get(query) or compiled("tpch", query, keyed=False), sf
            )
        assert self._tables is not None
        return self._tables

    def refresh(self, query: str, *, against: bool) -> Iterator[Row]:
        """Refreshes both ways, recomputation and empty jobs in turn, after some to warm up.

        Without `against` Spark SQL has no turn: what is left is what the overhead is made of.
        """
        part = "refresh" if against else "overhead"
        tables = self.tables(query, self.sf)
        turns = 2 * (self.warm + self.rounds)
        size = _batch(tables, turns)
        start = 1.0 - turns * size / tables.total
        recomputed = Recomputed(self.spark, tables.compiled, self._cached) if against else None
        with closing(SparkView(self.spark, tables)) as view:
            view.load(start)
            names = list(tables.rows)
            stages = [stages_of(view.engine, names, opened=opened) for opened in (True, False)]
            ours: list[RefreshTimes] = [RefreshTimes(), RefreshTimes()]
            theirs: list[float] = []
            with closing(EmptyJobs(self.spark, view.engine.partitions)) as empty:
                for turn, (low, high) in enumerate(tables.shares(size, start)):
                    frames: Frames = []
                    if turn % 2:
                        frames = tables.frames(self.spark, low, high, view.engine.partitions)
                        elapsed = view.refresh_frames(frames)
                    else:
                        elapsed = view.refresh(tables.part(low, high))
                    nothing = empty.run(stages[turn % 2], view.engine.weighted_frames(frames))
                    ours[turn % 2].add(elapsed, view.metrics(), nothing)
                    release(frames)
                    if turn % 2 and recomputed is not None:
                        theirs.append(recomputed.run())
            state = _state(view)
            same = equal(view, recomputed) if recomputed is not None else None
        for engine, mine in zip(("spark", "spark/frames"), ours, strict=True):
            row = _row(part, query, engine, size, self.sf, mine.times[self.warm :])
            row |= mine.figures(self.warm) | {"equal": same} | state
            row["overhead_ms"] = row["p50_ms"] - row["kernel_ms"] - row["empty_ms"]
            if theirs:
                row["reference"] = "spark sql"
                row["reference_ms"] = median_ms(theirs[self.warm :])
                row["ratio"] = row["reference_ms"] / row["p50_ms"]
            yield row

    def levels(self) -> Iterator[Row]:
        """Q3 with less and with more of the distributed optimizer (paper 000 Figure 13)."""
        tables = self.tables("q3", self.sf)
        turns = self.warm + self.rounds
        size = _batch(tables, turns)
        start = 1.0 - turns * size / tables.total
        base: float | None = None
        expected = None
        for level in Level:
            with closing(SparkView(self.spark, tables, level=level, sized=False)) as view:
                view.load(start)
                times = [view.refresh(changes) for changes in tables.parts(size, start)]
                engine = f"spark/{level.name.lower()}"
                row = _row("levels", "q3", engine, size, self.sf, times[self.warm :])
                metrics, state = view.metrics(), _state(view)
                rows = sorted(view.result_rows(), key=repr)
            base = base if base is not None else row["p50_ms"]
            expected = expected if expected is not None else rows
            row |= {"reference": "spark/naive", "reference_ms": base, "ratio": base / row["p50_ms"]}
            row |= {"jobs": metrics.jobs, "stages": metrics.stages, **state}
            row |= {"bytes_shuffled": metrics.bytes_shuffled + metrics.bytes_scattered}
            row["equal"] = rows == expected
            yield row

    def growth(self, query: str) -> Iterator[Row]:
        """The same batches over a tenth of the state and over all of it, in turn."""
        scales = (self.sf / 10, self.sf)
        both = [QueryTables(self._compiled[query], scales[0]), self.tables(query, scales[1])]
        turns = self.warm + _GROWTH * self.rounds
        size = _batch(both[0], turns)
        starts = [1.0 - turns * size / tables.total for tables in both]
        times: list[list[float]] = [[], []]
        with (
            closing(SparkView(self.spark, both[0])) as small,
            closing(SparkView(self.spark, both[1])) as large,
        ):
            views = (small, large)
            for view, start in zip(views, starts, strict=True):
                view.load(start)
            batches = (t.parts(size, s) for t, s in zip(both, starts, strict=True))
            for pair in zip(*batches, strict=False):
                for view, changes, mine in zip(views, pair, times, strict=True):
                    mine.append(view.refresh(changes))
            state = _state(large)
        row = _row("growth", query, "spark", size, self.sf, times[1][self.warm :]) | state
        before = median_ms(times[0][self.warm :])
        row |= {"reference": f"spark at {scales[0]:g}", "reference_ms": before}
        yield row | {"ratio": before / row["p50_ms"], "growth": row["p50_ms"] / before}


_GROWTH = 3  # times the rounds: the ratio of two times close to one another


@dataclass
class RefreshTimes:
    """What the refreshes of one kind took, beside empty jobs of the same stages."""

    times: list[float] = field(default_factory=list)
    metrics: list[Metrics] = field(default_factory=list)
    empty: list[float] = field(default_factory=list)

    def add(self, seconds: float, metrics: Metrics, empty: float) -> None:
        """Note one batch: its time, its metrics, and the time of an empty job beside it."""
        self.times.append(seconds)
        self.metrics.append(metrics)
        self.empty.append(empty)

    def figures(self, warm: int) -> Row:
        """The medians of the batches after the warm ones."""
        medians = summed(self.metrics[warm:])
        return {
            "kernel_ms": 1e3 * medians["run_seconds"],
            "empty_ms": median_ms(self.empty[warm:]),
            "jobs": self.metrics[-1].jobs,
            "stages": self.metrics[-1].stages,
            "bytes_scattered": medians["bytes_scattered"],
            "bytes_shuffled": medians["bytes_shuffled"],
        }


def _batch(tables: QueryTables, turns: int, most: int = BATCH) -> int:
    """The batch size: a third of the rows are enough for all turns, where tables are small."""
    return min(most, tables.total // (3 * turns))


def counts(spark: SparkSession, query: str, sf: float) -> Iterator[Row]:
    """Jobs and stages of a batch over all relations, as Spark counts them."""
    tables = QueryTables(compiled("tpch", query, keyed=False), sf)
    with closing(SparkView(spark, tables, sized=False)) as view:
        times = [view.refresh(changes) for changes in tables.parts(tables.total // 4)]
        metrics, state = view.metrics(), _state(view)
    jobs, stages = TABLE_3[query]
    yield _row("counts", query, "spark", tables.total // 4, sf, times[1:]) | {
        "jobs": metrics.jobs,
        "stages": metrics.stages,
        "paper_jobs": jobs,
        "paper_stages": stages,
        **state,
    }


def scaling(spark: SparkSession, sf: float) -> Iterator[Row]:
    """The model's costs, its predictions, and its check on one and two executors."""
    rows = int(min(1.0, sf) * BATCH)
    costs = machine(spark)
    yield _blank("machine", "") | asdict(costs)
    works = []
    for query in SCALED:
        one = work(spark, costs, query, sf, rows)
        works.append(one)
        # The costs' own jobs and stages stand beside those of other parts.
        yield _blank("work", query) | asdict(one)
    yield from predictions(costs, works)
    yield from checked(costs, works, sf, rows)


def _blank(part: str, query: str) -> Row:
    """A row without figures."""
    return {"part": part, "query": query, "engine": "spark"} | dict.fromkeys(FIELDS[2:])


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
