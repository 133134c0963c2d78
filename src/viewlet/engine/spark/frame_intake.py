"""DataFrames of a batch -> the RDD that its first job reads, and how many rows they had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from viewlet.engine.partitions.cluster import Cluster
from viewlet.engine.spark.conductor import Conductor
from viewlet.engine.spark.dataframes import Opener, WeightedFrame, frame_messages, opened_frames
from viewlet.engine.spark.frame_columns import RowWeights

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession

    FrameChange = tuple[str, DataFrame, RowWeights]


class FrameIntake:
    """How the rows of DataFrames get to the partitions of a session's clusters."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._counter = spark.sparkContext.accumulator(0)

    @property
    def rows_read(self) -> int:
        """Rows of all batches so far; those of a task that Spark repeats count again."""
        return int(self._counter.value)

    def rdd(
        self, conductor: Conductor, cluster: Cluster, frames: Sequence[FrameChange]
    ) -> tuple[RDD[Any], bool]:
        """What the partitions' first stage reads; True if the rows went through it already."""
        weighted = weighted_frames(conductor, frames)
        names = [name for name, _, _ in frames]
        number = conductor.opening(names)
        if number is not None:
            constant_maps = conductor.plan.triggers[number].opening
            assert constant_maps is not None
            constants = conductor.constants(constant_maps)
            opener = Opener(cluster.site, number, constants, cluster.partitions, self._counter)
            return opened_frames(self._spark, weighted, opener, cluster.tasks), True
        parts = [
            frame_messages(frame, conductor.tables.get(name), cluster.partitions, self._counter)
            for name, frame in zip(names, weighted, strict=True)
        ]
        return (self._spark.sparkContext.union(parts) if len(parts) > 1 else parts[0]), False


def weighted_frames(conductor: Conductor, frames: Sequence[FrameChange]) -> list[WeightedFrame]:
    """DataFrames with the columns of them that a batch reads."""
    return [
        WeightedFrame(frame, conductor.relation(name), tuple(conductor.columns_sent(name)), weights)
        for name, frame, weights in frames
    ]
