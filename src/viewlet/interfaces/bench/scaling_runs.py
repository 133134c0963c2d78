"""The costs that the scaling model is made of, measured; and how well it foretells this machine.

    python -m viewlet.interfaces.bench.scaling_runs EXECUTORS QUERY SF ROWS

runs batches of ROWS rows per executor on as many executors, processes of their own on this machine
(local-cluster), and prints the median seconds: what `checked` compares the model with.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewlet.errors import StateError
from viewlet.interfaces.bench.output import Row
from viewlet.interfaces.bench.scaling import Machine, Work, line, seconds
from viewlet.interfaces.bench.spark_runs import (
    EmptyJobs,
    SparkView,
    Tables,
    bench_session,
    stages_of,
    summed,
)
from viewlet.interfaces.bench.workload import compiled
from viewlet.runtime.worker import partition_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS = 5
_WARM = 3


def machine(spark: SparkSession) -> Machine:
    """Empty jobs of one to three stages; many tasks; many blocks; many bytes."""
    job, stage = line([(n, _median(EmptyJobs(spark, 2), [n])) for n in (1, 2, 3)])
    _, task = line([(n, _tasks(spark, n)) for n in (2, 32, 128)])
    cores = spark.sparkContext.defaultParallelism
    # n * n blocks are moved by these cores here, and by W workers there. Two jobs of one stage have
    # the same tasks as one of two stages, and no blocks.
    _, block = line([(n * n / cores, _blocks(spark, n)) for n in (2, 8, 16)])
    small, large = (_shuffle(spark, size) for size in (1 << 16, 1 << 24))
    each = 2 * ((1 << 24) - (1 << 16))
    return Machine(job, stage, task, block, each / max(large - small, 1e-3))


def _median(jobs: EmptyJobs, stages: Sequence[int]) -> float:
    for _ in range(_WARM):
        jobs.run(stages)
    found = statistics.median(jobs.run(stages) for _ in range(ROUNDS))
    jobs.close()
    return found


def _blocks(spark: SparkSession, count: int) -> float:
    """What a shuffle between so many tasks takes longer than the tasks by themselves."""
    together, apart = (_median(EmptyJobs(spark, count), stages) for stages in ([2], [1, 1]))
    return together - apart


def _tasks(spark: SparkSession, count: int) -> float:
    """A job of so many tasks that never leave the JVM: what starting a task costs the driver."""
    rdd: Any = spark.sparkContext.parallelize(range(count), count)
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


def work(spark: SparkSession, query: str, sf: float, rows: int) -> Work:
    """A query's costs per row, from batches of two sizes and from two numbers of partitions."""
    tables = Tables(compiled("tpch", query), sf)
    view = SparkView(spark, tables, 2)
    share = _held(tables, [rows, rows // 4])
    view.load(share)
    points: list[tuple[float, float]] = []
    found: dict[str, float] = {}
    low = share
    for size in (rows // 4, rows):
        measured = []
        for _ in range(ROUNDS):
            high = min(1.0, low + size / tables.total)
            view.refresh(tables.part(low, high))
            measured.append(view.metrics())
            low = high
        found = dict(summed(measured))
        points.append((size / 2, found["run_seconds"]))
    names = list(tables.rows)
    stages = stages_of(view.engine, names)
    view.close()
    fixed, per_row = line(points)
    four = _moved(spark, tables, 4, rows // 4)
    two = found["bytes_shuffled"] / rows
    copied = max(0.0, (four - two) / 2)
    return Work(
        query,
        len(stages),
        sum(stages),
        fixed,
        per_row,
        max(0.0, two - 2 * copied),
        copied,
        found["bytes_collected"] / 2,
    )


def _moved(spark: SparkSession, tables: Tables, partitions: int, rows: int) -> float:
    """Bytes that a row sends through shuffles, with so many partitions."""
    view = SparkView(spark, tables, partitions)
    share = _held(tables, [rows])
    view.load(share)
    view.refresh(tables.part(share, share + rows / tables.total))
    found = view.metrics().bytes_shuffled / rows
    view.close()
    return found


def _held(tables: Tables, sizes: Sequence[int]) -> float:
    """The share of the rows to load first, so that ROUNDS batches of each size are left."""
    left = ROUNDS * sum(sizes) / tables.total
    if left > 0.9:
        raise StateError(
            f"{tables.total:,} rows are too few for batches of {max(sizes):,}",
            hint="give a larger scale or smaller batches",
        )
    return 1.0 - left


def checked(machine: Machine, works: Sequence[Work], sf: float, rows: int) -> list[Row]:
    """The model beside real executors, one and two of them, each a process with one core."""
    found = []
    for one in works:
        for executors in (1, 2):
            real = _on_executors(executors, one.query, sf, rows)
            foretold = seconds(machine, one, executors, rows * executors)
            found.append(
                {
                    "part": "check",
                    "query": one.query,
                    "engine": "spark",
                    "batch": rows * executors,
                    "workers": executors,
                    "tuples_per_s": rows * executors / real,
                    "p50_ms": 1e3 * real,
                    "p99_ms": None,
                    "reference": "model",
                    "reference_ms": 1e3 * foretold,
                    "ratio": foretold / real,
                    "maps": None,
                    "memory_mb": None,
                }
            )
    return found


def _on_executors(executors: int, query: str, sf: float, rows: int) -> float:
    source = str(Path(__file__).parents[3])
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    run = subprocess.run(
        [sys.executable, "-m", __name__, str(executors), query, f"{sf:g}", str(rows)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    if run.returncode:
        raise StateError(f"{executors} executors failed: {run.stderr.strip()[-500:]}")
    return float(json.loads(run.stdout.splitlines()[-1]))


def main() -> None:
    executors, query, sf, rows = sys.argv[1:]
    spark = bench_session(f"local-cluster[{executors},1,1024]")
    tables = Tables(compiled("tpch", query), float(sf))
    size = int(rows) * int(executors)
    view = SparkView(spark, tables, int(executors))
    low = _held(tables, [size])
    view.load(low)
    times = []
    for _ in range(ROUNDS):
        high = min(1.0, low + size / tables.total)
        times.append(view.refresh(tables.part(low, high)))
        low = high
    view.close()
    spark.stop()
    print(json.dumps(statistics.median(times[1:])))


if __name__ == "__main__":
    main()
