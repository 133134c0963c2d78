"""A view on the Spark engine, and the same view recomputed by Spark SQL over cached tables."""

from __future__ import annotations

import os
import re
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from viewlet.distributed.compile import Level
from viewlet.distributed.hints import Hints
from viewlet.engine.partitions import session
from viewlet.engine.partitions.metrics import Metrics
from viewlet.engine.partitions.worker import partition_of
from viewlet.engine.spark.dataframes import WeightedFrame, arrow_batches
from viewlet.engine.spark.frame_columns import RowWeights, spark_type
from viewlet.engine.spark.spark_engine import SparkEngine
from viewlet.engine.values.batching import Batch, make_batch
from viewlet.program.ir import Program
from viewlet.schema import Column, Kind, Relation, decode
from viewlet_bench.data import generated, read
from viewlet_bench.duck import equal_results
from viewlet_bench.workload import CompiledQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOAD = 1_000_000
_NOTHING = Program((), (), ())

Changes = list[tuple[str, Batch]]
Frames = list[tuple[str, Any, RowWeights]]


def bench_session(master: str = "local[2]") -> SparkSession:
    """A session with room for the tables of scale 1; one that is there already is used."""
    from pyspark.sql import SparkSession

    session.ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("viewlet-bench")
    settings = {"spark.driver.memory": "6g", "spark.sql.shuffle.partitions": "2"}
    for key, value in (session.session_settings() | settings).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _unread(column: Column) -> str:
    """Text that can be cast to the type of a column that no query reads; NULL may not be there."""
    return "1970-01-01" if column.type.kind in (Kind.DATE, Kind.TIMESTAMP) else "0"


class QueryTables:
    """The rows of a query's relations, as batches in the driver's memory and as DataFrames."""

    def __init__(self, compiled: CompiledQuery, sf: float) -> None:
        self.compiled = compiled
        self.sf = sf
        self.directory = generated(compiled.workload, sf, (*compiled.static, *compiled.streamed))
        self.static = {name: self._batch(name) for name in compiled.static}
        self.rows = {name: self._batch(name) for name in compiled.streamed}
        self.sizes = {name: len(rows) for name, rows in (self.static | self.rows).items()}
        self.total = sum(map(len, self.rows.values()))
        self._last: dict[str, tuple[int, Any]] = {}  # the Arrow rows from some row on

    def _batch(self, name: str) -> Batch:
        """All columns, as users' rows have them; those that the SQL does not name are blank."""
        relation = self.compiled.program.relation(name)
        column_names = set(relation.names) if relation.static else set(self._mentioned(name))
        chosen = [column for column in relation.columns if column.name in column_names]
        table = read(self.directory, name, [column.name for column in chosen])
        batch = make_batch(Relation(name, tuple(chosen)), table)
        blank = np.broadcast_to(np.int64(0), len(batch))  # takes no room, and nobody reads it
        columns, nulls = iter(batch.columns), iter(batch.nulls)
        is_chosen = [column.name in column_names for column in relation.columns]
        return Batch(
            [next(columns) if is_here else blank for is_here in is_chosen],
            [next(nulls) if is_here else None for is_here in is_chosen],
            batch.weights,
        )

    def _mentioned(self, name: str) -> list[str]:
        names = self.compiled.program.relation(name).names
        return self.compiled.mentioned(name) or list(names[:1])

    def frames(self, spark: SparkSession, low: float, high: float, workers: int) -> Frames:
        """The same as `part`, cached in the memory of the executors."""
        frames: Frames = []
        for name, rows in self.rows.items():
            first, last = round(low * len(rows)), round(high * len(rows))
            if last == first:
                continue
            if name not in self._last or self._last[name][0] > first:
                self._last[name] = (first, self._arrow(name, first))
            start, table = self._last[name]
            frame = spark.createDataFrame(table.slice(first - start, last - first))
            blank = [
                f"CAST('{_unread(column)}' AS {spark_type(column)}) AS {column.name}"
                for column in self.compiled.program.relation(name).columns
                if column.name not in table.column_names
            ]
            # Round-robin, as the paper has it: every worker gets an equal part of every batch.
            frame = frame.repartition(workers).selectExpr("*", *blank).cache()
            frame.count()
            frames.append((name, frame, RowWeights()))
        return frames

    def _arrow(self, name: str, first: int) -> pa.Table:
        table = read(self.directory, name, self._mentioned(name)).slice(first)
        plain = [
            pa.field(f.name, pa.string() if pa.types.is_string_view(f.type) else f.type)
            for f in table.schema
        ]
        return table.cast(pa.schema(plain)).combine_chunks()

    def part(self, low: float, high: float) -> Changes:
        """The rows between two shares of every relation: one batch that changes all of them."""
        changes = []
        for name, rows in self.rows.items():
            first, last = round(low * len(rows)), round(high * len(rows))
            if last > first:
                changes.append((name, rows.rows(first, last)))
        return changes

    def shares(self, size: int, start: float = 0.0) -> Iterator[tuple[float, float]]:
        """The rows from a share to their end in batches of about `size`: from where to where."""
        step = size / self.total
        count = max(1, round((1.0 - start) / step))
        for n in range(count):
            low, high = (start + (1.0 - start) * k / count for k in (n, n + 1))
            yield low, high

    def parts(self, size: int, start: float = 0.0) -> Iterator[Changes]:
        """The same as batches."""
        return (self.part(low, high) for low, high in self.shares(size, start))


def release(frames: Frames) -> None:
    """Give the memory of DataFrames back."""
    for _, frame, _ in frames:
        frame.unpersist()


class SparkView:
    """The Spark engine with one view; `load` brings what is there before batches are timed.

    `sized`: it knows how large tables are, which Spark SQL knows of its own.
    """

    def __init__(
        self,
        spark: SparkSession,
        tables: QueryTables,
        partitions: int = 2,
        level: Level = Level.FULL,
        *,
        sized: bool = True,
    ) -> None:
        self.tables = tables
        program = tables.compiled.program
        hints = Hints(statistics=tables.sizes if sized else {})
        self.engine = SparkEngine(spark, partitions=partitions, level=level, hints=hints)
        static = [program.relation(name) for name in tables.static]
        self.engine.install(_NOTHING, static, {})
        self.engine.apply(list(tables.static.items()))
        self.engine.install(program, static, {})

    def load(self, share: float) -> None:
        """All rows up to a share of each relation, in large batches."""
        steps = max(1, -(-int(share * self.tables.total) // _LOAD))
        for n in range(steps):
            self.engine.apply(self.tables.part(share * n / steps, share * (n + 1) / steps))

    def refresh(self, changes: Changes) -> float:
        """Apply the changes; how many seconds that took."""
        started = time.perf_counter()
        self.engine.apply(changes)
        return time.perf_counter() - started

    def refresh_frames(self, frames: Frames) -> float:
        """The same with rows that are on the executors already."""
        started = time.perf_counter()
        self.engine.apply_frames(frames)
        return time.perf_counter() - started

    def metrics(self) -> Metrics:
        """What the last batch cost: jobs, stages, bytes."""
        return self.engine.metrics()

    def result_rows(self) -> list[tuple[Any, ...]]:
        """The rows of the view, decoded."""
        view = self.tables.compiled.result_view
        types = [column.type for column in view.query.columns]
        return [
            tuple(decode(value, kind) for value, kind in zip(row, types, strict=True))
            for row in self.engine.rows(view.name)
        ]

    def close(self) -> None:
        """Release the partitions of the engine."""
        self.engine.close()


class CachedTables:
    """Whole tables in the memory of Spark, the columns that some of the queries name."""

    def __init__(self, spark: SparkSession, sf: float, queries: Sequence[CompiledQuery]) -> None:
        self._spark = spark
        self._frames: dict[str, Any] = {}
        self._sf = sf
        self._column_names: dict[str, list[str]] = {}
        for compiled in queries:
            for name in (*compiled.static, *compiled.streamed):
                names = compiled.program.relation(name).names
                column_names = self._column_names.setdefault(name, [])
                column_names += compiled.mentioned(name) or list(names[:1])

    def use(self, compiled: CompiledQuery) -> None:
        """Have the tables of a query under their names; each is cached once."""
        names = (*compiled.static, *compiled.streamed)
        directory = generated(compiled.workload, self._sf, names)
        for name in names:
            if name not in self._frames:
                frame = self._spark.read.parquet(str(directory / f"{name}.parquet"))
                frame = frame.select(*dict.fromkeys(self._column_names[name])).coalesce(2).cache()
                frame.count()
                frame.createOrReplaceTempView(name)
                self._frames[name] = frame

    def close(self) -> None:
        """Executors may forget the tables."""
        for frame in self._frames.values():
            frame.unpersist()
        self._frames.clear()


class Recomputed:
    """Spark SQL over the whole tables, cached in memory."""

    def __init__(self, spark: SparkSession, compiled: CompiledQuery, cached: CachedTables) -> None:
        self._spark = spark
        self._name = compiled.views[-1][0]
        cached.use(compiled)
        for _, text in compiled.views:
            spark.sql(_temporary(text))

    def run(self) -> float:
        """Seconds of one recomputation whose rows come to the driver."""
        started = time.perf_counter()
        self._spark.table(self._name).collect()
        return time.perf_counter() - started

    def result_rows(self) -> list[tuple[Any, ...]]:
        """The rows of the last recomputation."""
        return [tuple(row) for row in self._spark.table(self._name).collect()]


def _temporary(text: str) -> str:
    statement = re.sub(
        r"(?i)^\s*create\s+(materialized\s+)?view", "CREATE OR REPLACE TEMPORARY VIEW", text
    )
    return statement.strip().rstrip(";")


def equal(view: SparkView, recomputed: Recomputed) -> bool:
    """The same rows; where a LIMIT cuts, the same in the columns that the order looks at."""
    query = view.tables.compiled.result_view.query
    ours, theirs = view.result_rows(), recomputed.result_rows()
    return equal_results(query, ours, theirs, ours)


class EmptyJobs:
    """Spark jobs of some stages over some partitions in which nothing happens."""

    def __init__(self, spark: SparkSession, partitions: int) -> None:
        self._spark = spark
        self._partitions = partitions
        pairs = spark.sparkContext.parallelize([(p, None) for p in range(partitions)], partitions)
        self._anchor: Any = pairs.partitionBy(partitions, partition_of).persist()
        self._anchor.count()

    def run(self, stages: Sequence[int], extra: Sequence[WeightedFrame] = ()) -> float:
        """Seconds of one job after the other, of so many stages each.

        The first one reads the DataFrames that are given: Spark plans and converts them for anyone.
        """
        started = time.perf_counter()
        for number, count in enumerate(stages):
            rdd = self._anchor
            if extra and number == 0:
                rdd, _ = arrow_batches(self._spark, extra, self._partitions)
            for stage in range(count):
                if stage:
                    shuffled = rdd.partitionBy(self._partitions, partition_of)
                    rdd = self._anchor.union(shuffled)
                rdd = rdd.mapPartitionsWithIndex(partial(_nothing, self._partitions))
            rdd.collect()
        return time.perf_counter() - started

    def close(self) -> None:
        """Executors may forget the anchor."""
        self._anchor.unpersist()


def _nothing(partitions: int, task: int, records: Any) -> list[tuple[int, None]]:
    list(records)
    return [(task % partitions, None)]


def stages_of(engine: SparkEngine, names: Sequence[str], *, opened: bool = False) -> list[int]:
    """The stages of each job that a batch of these relations runs.

    `opened`: its rows are on the driver, which runs the first stage itself where it can.
    """
    number = engine.plan.trigger_for(dict.fromkeys(names))
    if number is None:
        return []
    trigger = engine.plan.triggers[number]
    stages = [len(job.stages) for job in trigger.jobs]
    if opened and trigger.opening is not None:
        stages[0] -= 1
    return [count for count in stages if count]


def median_ms(seconds: Sequence[float]) -> float:
    """Seconds -> their median, in milliseconds."""
    return 1e3 * statistics.median(seconds)


def summed(metrics: Sequence[Metrics]) -> Mapping[str, float]:
    """Medians of what several batches moved and took inside the program."""
    names = ("bytes_scattered", "bytes_shuffled", "bytes_collected", "run_seconds", "task_seconds")
    return {name: statistics.median(getattr(m, name) for m in metrics) for name in names}
