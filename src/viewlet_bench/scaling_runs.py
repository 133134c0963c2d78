"""The costs that the scaling model is made of, measured; and how well it predicts this machine.

    python -m viewlet_bench.scaling_runs EXECUTORS QUERY,QUERY SF ROWS

runs batches of ROWS rows per executor on as many executors, processes of their own on this machine
(local-cluster), and prints the median seconds of each query as it has them: what `checked` compares
the model with. As in the paper, the rows of a batch are on the workers before it begins.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewlet.engine.partitions.metrics import Metrics
from viewlet.engine.partitions.worker import partition_of
from viewlet.errors import StateError
from viewlet_bench.output import Row
from viewlet_bench.scaling import SparkCosts, Work, line, seconds
from viewlet_bench.spark_runs import (
    EmptyJobs,
    QueryTables,
    SparkView,
    bench_session,
    release,
    stages_of,
)
from viewlet_bench.workload import compiled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS = 5
_WARM = 3
_COLD = 40  # jobs until the JVM has compiled what all of them run: the first take much longer
_LOADED = 0.2  # the share of the rows that are there before batches come


def machine(spark: SparkSession) -> SparkCosts:
    """Empty jobs of one to three stages; many tasks; many blocks; many bytes."""
    with closing(EmptyJobs(spark, 2)) as jobs:
        for _ in range(_COLD):
            jobs.run([3])
    job, stage = line([(n, _median(EmptyJobs(spark, 2), [n])) for n in (1, 2, 3)])
    _, task = line([(n, _tasks(spark, n)) for n in (2, 32, 128)])
    cores = spark.sparkContext.defaultParallelism
    # n * n blocks are moved by these cores here, and by W workers there. Two jobs of one stage have
    # the same tasks as one of two stages, and no blocks.
    _, block = line([(n * n / cores, _blocks(spark, n)) for n in (2, 8, 16)])
    small, large = (_shuffle(spark, size) for size in (1 << 16, 1 << 24))
    each = 2 * ((1 << 24) - (1 << 16))
    return SparkCosts(job, stage, task, block, each / max(large - small, 1e-3))


def _median(jobs: EmptyJobs, stages: Sequence[int]) -> float:
    for _ in range(_WARM):
        jobs.run(stages)
    middle = statistics.median(jobs.run(stages) for _ in range(ROUNDS))
    jobs.close()
    return middle


def _blocks(spark: SparkSession, count: int) -> float:
    """What a shuffle between so many tasks takes longer than the tasks by themselves."""
    together, apart = (_median(EmptyJobs(spark, count), stages) for stages in ([2], [1, 1]))
    return together - apart


def _tasks(spark: SparkSession, count: int) -> float:
    """A job of so many tasks that never leave the JVM: what starting a task costs the driver."""
    # A list, not a range: the numbers of a range are made in Python workers.
    rdd: Any = spark.sparkContext.parallelize(list(range(count)), count)
    times = []
    for _ in range(_WARM + ROUNDS):
        started = time.perf_counter()
        rdd._jrdd.count()
        times.append(time.perf_counter() - started)
    return statistics.median(times[_WARM:])


def _shuffle(spark: SparkSession, size: int) -> float:
    """Two workers that send one record of so many bytes to each of the two."""
    anchor = spark.sparkContext.parallelize(range(2), 2)
    times = []
    for _ in range(_WARM + ROUNDS):
        started = time.perf_counter()
        sent = anchor.flatMap(lambda p: [(q, bytes(size)) for q in range(2)])
        sent.partitionBy(2, partition_of).map(lambda pair: len(pair[1])).collect()
        times.append(time.perf_counter() - started)
    return statistics.median(times[_WARM:])


def work(spark: SparkSession, machine: SparkCosts, query: str, sf: float, rows: int) -> Work:
    """A query's costs, from batches of two sizes and from two numbers of partitions.

    What the tasks of a batch take is the time of the whole less what the machine takes for its
    jobs and for moving its bytes: reading the rows, Arrow and kernels, in proportion to the rows.
    Plans copy no table to every node: with a thousand workers none is small.
    """
    tables = QueryTables(compiled("tpch", query, keyed=False), sf)
    with closing(SparkView(spark, tables, 2, sized=False)) as view:
        stages = stages_of(view.engine, list(tables.rows))
        quarter, full = _batches(spark, view, 2, [rows // 4, rows])
    four = _shuffled(spark, tables, 4, rows // 4)
    two = statistics.median(m.bytes_shuffled for _, m in full) / rows
    copied = max(0.0, (four - two) / 2)
    moved = max(0.0, two - 2 * copied)
    collected = statistics.median(m.bytes_collected for _, m in full) / 2
    bare = Work(query, len(stages), sum(stages), 0.0, 0.0, moved, copied, collected)
    points = []
    for size, measured in ((rows // 4, quarter), (rows, full)):
        unexplained = statistics.median(t for t, _ in measured) - seconds(machine, bare, 2, size)
        points.append((size / 2, unexplained))
    fixed, per_row = line(points)
    return replace(bare, fixed=fixed, per_row=per_row)


def _batches(
    spark: SparkSession, view: SparkView, workers: int, sizes: Sequence[int]
) -> list[list[tuple[float, Metrics]]]:
    """Seconds and figures of some batches of each size, over a state that is loaded first."""
    tables = view.tables
    share = sum((ROUNDS + 1) * size for size in sizes) / tables.total
    if share > 1.0 - _LOADED:
        raise StateError(
            f"{tables.total:,} rows are too few for batches of {max(sizes):,}",
            hint="give a larger scale or smaller batches",
        )
    view.load(_LOADED)
    low = _LOADED
    measured: list[list[tuple[float, Metrics]]] = []
    for size in sizes:
        seconds_of_batches = []
        for _ in range(ROUNDS + 1):
            high = low + size / tables.total
            frames = tables.frames(spark, low, high, workers)
            seconds_of_batches.append((view.refresh_frames(frames), view.metrics()))
            release(frames)
            low = high
        measured.append(seconds_of_batches[1:])
    return measured


def _shuffled(spark: SparkSession, tables: QueryTables, partitions: int, rows: int) -> float:
    """Bytes that a row sends through shuffles, with so many partitions."""
    with closing(SparkView(spark, tables, partitions, sized=False)) as view:
        (measured,) = _batches(spark, view, partitions, [rows])
        return statistics.median(m.bytes_shuffled for _, m in measured) / rows


def checked(machine: SparkCosts, works: Sequence[Work], sf: float, rows: int) -> Iterator[Row]:
    """The model beside real executors, one and two of them, each a process with one core."""
    for executors in (1, 2):
        for one, real in _on_executors(executors, works, sf, rows):
            predicted = seconds(machine, one, executors, rows * executors)
            yield {
                "part": "check",
                "query": one.query,
                "engine": "spark",
                "batch": rows * executors,
                "workers": executors,
                "tuples_per_s": rows * executors / real,
                "p50_ms": 1e3 * real,
                "p99_ms": None,
                "reference": "model",
                "reference_ms": 1e3 * predicted,
                "ratio": predicted / real,
                "maps": None,
                "memory_mb": None,
            }


def _on_executors(
    executors: int, works: Sequence[Work], sf: float, rows: int
) -> Iterator[tuple[Work, float]]:
    """What batches take there, query by query as the other process says it."""
    source = str(Path(__file__).parents[1])
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    names = ",".join(one.query for one in works)
    with subprocess.Popen(
        [sys.executable, "-m", __name__, str(executors), names, f"{sf:g}", str(rows)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        assert process.stdout is not None
        missing = {one.query: one for one in works}
        for text in process.stdout:
            if text.startswith("{"):
                for query, measured in json.loads(text).items():
                    yield missing.pop(query), measured
    if missing:
        raise StateError(
            f"{executors} executors gave no figure for {', '.join(missing)}",
            hint=f"see what says: python -m {__name__} {executors} {names} {sf:g} {rows}",
        )


def main() -> None:
    """The command at the module's head."""
    executors, queries, sf, rows = sys.argv[1:]
    count = int(executors)
    spark = bench_session(f"local-cluster[{count},1,1024]")
    for query in queries.split(","):
        tables = QueryTables(compiled("tpch", query, keyed=False), float(sf))
        with closing(SparkView(spark, tables, count, sized=False)) as view:
            (measured,) = _batches(spark, view, count, [int(rows) * count])
        print(json.dumps({query: statistics.median(t for t, _ in measured)}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
