"""What a step of the stateful-partition service costs above an empty Spark job of its stages.

    PYTHONPATH=src python benchmarks/stateful_partitions.py [--master URL] [--steps N]

Steps and empty jobs alternate, so that both meet the same machine. One row per number of stages
and size of state: medians in milliseconds, the service's share (the step less the empty job less
the program's own time), and the slowest step, with snapshots on and off.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from typing import Any

import numpy as np

from viewlet.engine.partitions import session
from viewlet.engine.partitions.cluster import Cluster
from viewlet.engine.partitions.worker import DRIVER, PartitionState, partition_of

ROWS = 10_000


class Tally:
    """Counts keys in a table of `size` slots per partition; earlier stages route the keys."""

    def __init__(self, stages: int, size: int) -> None:
        self.stages = stages
        self.size = size
        self.fingerprint = f"tally-{stages}-{size}"

    def create(self, state: PartitionState) -> None:
        state.create("count", self.size, np.int64)

    def run(
        self, state: PartitionState, stage: int, inputs: list[bytes], broadcast: bytes
    ) -> dict[int, bytes]:
        keys = np.frombuffer(b"".join(inputs), np.int64)
        if stage == self.stages - 1:
            state.array("count")[keys // state.partitions] += 1
            return {DRIVER: b"done"}
        owner = keys % state.partitions
        return {p: keys[owner == p].tobytes() for p in range(state.partitions)}

    def read(self, state: PartitionState, request: bytes) -> bytes:
        return b""

    def rollback(self, state: PartitionState) -> bool:
        return False


def empty_job(cluster: Cluster, stages: int) -> None:
    """The same lineage with nothing in it."""
    anchor: Any = cluster._jobs.anchor
    rdd = anchor
    for stage in range(stages):
        if stage:
            rdd = anchor.union(rdd.partitionBy(cluster.partitions, partition_of))
        rdd = rdd.mapPartitionsWithIndex(lambda p, records: [(p, None) for _ in [list(records)]])
    rdd.collect()


def keys_for(stages: int, partitions: int, size: int, seed: int) -> dict[int, bytes]:
    made = np.random.default_rng(seed).integers(0, size * partitions, ROWS)
    if stages == 1:
        return {p: made[made % partitions == p].tobytes() for p in range(partitions)}
    return {p: part.tobytes() for p, part in enumerate(np.array_split(made, partitions))}


def milliseconds(seconds: list[float]) -> float:
    return 1000 * statistics.median(seconds)


def measure(spark: Any, stages: int, size: int, steps: int, every: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        cluster = Cluster(
            spark, Tally(stages, size), 2, checkpoint=f"{directory}/ck", snapshot_every=every
        )
        empty, whole, run, task, commit = [], [], [], [], []
        for number in range(steps + 5):
            started = time.perf_counter()
            empty_job(cluster, stages)
            between = time.perf_counter()
            cluster.step(keys_for(stages, 2, size, number))
            ended = time.perf_counter()
            if number >= 5:  # the first ones start Python workers
                metrics = cluster.metrics()
                empty.append(between - started)
                whole.append(ended - between)
                run.append(metrics.run_seconds)
                task.append(metrics.task_seconds)
                commit.append(metrics.commit_seconds)
        share = [w - e - r for w, e, r in zip(whole, empty, run, strict=True)]
        print(
            f"{stages} stages, {2 * size:>10,} entries, "
            f"snapshot every {every:>4}: empty {milliseconds(empty):6.1f}  "
            f"step {milliseconds(whole):6.1f}  share {milliseconds(share):5.1f}  "
            f"in tasks {milliseconds(task):5.1f}  program {milliseconds(run):4.1f}  "
            f"commit {milliseconds(commit):4.1f}  slowest {1000 * max(whole):6.0f}",
            flush=True,
        )
        cluster.close()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--master", help="a cluster instead of local[2]")
    options.add_argument("--steps", type=int, default=40)
    given = options.parse_args()
    if given.master is None:
        spark = session.spark_session(cores=2)
    else:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(given.master)
        for key, value in session.session_settings().items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    for stages in (1, 2, 3):
        for size in (500_000, 5_000_000):
            measure(spark, stages, size, given.steps, every=1000)
    measure(spark, 2, 5_000_000, given.steps, every=10)
    spark.stop()


if __name__ == "__main__":
    main()
