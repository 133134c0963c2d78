"""DataFrames as batches: checked against a relation, then encoded where their rows are.

    frame -> its columns in the relation's order -> mapInArrow -> (partition, message) pairs
    frame -> its columns -> Arrow batches, in the JVM -> the trigger's first stage -> its records

The rows of a table go to the partition that has their key; those of a stream stay together, and
where the trigger's first stage needs no partition (engine/spark/opening_stage.py) it runs in the
task that reads them. Rows that do not fit (a NULL in a NOT NULL column, a number out of range)
travel as the error that they are, so that the step that meets them is refused as a whole.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from viewlet.engine.partitions.partition_program import (
    ClusterSite,
    Status,
    program_of,
    spare_collector,
)
from viewlet.engine.partitions.worker import (
    CHUNK,
    DRIVER,
    FAILURE,
    OUTPUT,
    WORKED,
    Record,
    problem_of,
)
from viewlet.engine.spark.chunks import Columns, Message, batch_columns, spread
from viewlet.engine.spark.frame_columns import FrameReading, RowWeights, selected
from viewlet.errors import ViewletError
from viewlet.schema import Relation

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import RDD, Accumulator
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class WeightedFrame:
    """A DataFrame with the weights of its rows, and the columns of it that are used."""

    frame: DataFrame
    relation: Relation
    used: tuple[int, ...]
    weights: RowWeights


def frame_messages(
    weighted: WeightedFrame, table: Relation | None, partitions: int, counter: Accumulator[int]
) -> RDD[tuple[int, bytes]]:
    """The frame's rows as packed messages for the partitions; `counter` counts them."""
    frame, reading = selected(weighted.frame, weighted.relation, weighted.used, weighted.weights)
    encode = partial(_encoded, reading, table, partitions, counter)
    return frame.mapInArrow(encode, "p int, data binary").rdd.map(_pair)


def _pair(row: Any) -> tuple[int, bytes]:
    return row[0], bytes(row[1])


def _encoded(
    reading: FrameReading,
    table: Relation | None,
    partitions: int,
    counter: Accumulator[int],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """One task: all of its rows, by partition."""
    import pyarrow as pa
    from pyspark import TaskContext

    nonempty_batches = [batch for batch in batches if batch.num_rows]
    if not nonempty_batches:
        return
    context = TaskContext.get()
    here = context.partitionId() if context is not None else 0
    rows = pa.Table.from_batches(nonempty_batches)
    counter.add(rows.num_rows)
    try:
        batch = reading.batch(rows)
        sent = batch_columns(reading.relation, batch, reading.used)
        parts = spread(sent, table, partitions) if table is not None else [sent]
        messages = [Message(columns=[part]) for part in parts]
    except ViewletError as problem:
        messages = [Message(problem=problem_of(problem))]
    targets = list(range(partitions)) if len(messages) > 1 else [here % partitions]
    yield pa.record_batch(
        [
            pa.array(targets, pa.int32()),
            pa.array([message.pack() for message in messages], pa.binary()),
        ],
        names=["p", "data"],
    )


# --- the first stage where the rows are -----------------------------------------------------------

OPENING = -1  # the stage of its records: before all others


class Opens(Protocol):
    """What runs a trigger's first stage; engine.spark.sql_program.SqlProgram does."""

    def open(
        self, number: int, parts: Sequence[Columns], constants: bytes, partitions: int
    ) -> dict[int, Message]: ...


@dataclass(frozen=True)
class Source:
    """Where the rows of a range of tasks, from `first` on, come from."""

    first: int
    reading: FrameReading
    schema: pa.Schema


@dataclass(frozen=True)
class Opener:
    """The task: `number` is the trigger, `constants` the maps that its first stage reads."""

    site: ClusterSite
    number: int
    constants: bytes
    partitions: int
    counter: Accumulator[int]
    sources: tuple[Source, ...] = ()

    def __call__(self, index: int, chunks: Iterable[bytes]) -> Iterator[tuple[int, Record]]:
        """The Arrow batches of one task -> what it sends on, as (destination, record) pairs."""
        import pyarrow as pa

        at = bisect_right([source.first for source in self.sources], index) - 1
        source = self.sources[at]
        batches = [pa.ipc.read_record_batch(pa.py_buffer(c), source.schema) for c in chunks]
        rows = pa.Table.from_batches(batches, source.schema)
        started = time.perf_counter()
        try:
            sent = self._sent(index, source, rows)
        except ViewletError as problem:
            data = problem_of(problem)
            for target in range(self.partitions):
                yield target, (FAILURE, OPENING, index, data)
            return
        ran = time.perf_counter() - started
        status = Status("", run_seconds=[ran])
        here = index % self.partitions
        for target, message in sent.items():
            data = message.pack()
            if target == DRIVER:
                yield here, (OUTPUT, OPENING, index, data)
            else:
                status.shuffled += len(data)
                yield target, (CHUNK, OPENING, (index, 0), data)
        spare_collector()
        yield here, (WORKED, OPENING, index, status)

    def _sent(self, index: int, source: Source, rows: pa.Table) -> dict[int, Message]:
        sent: dict[int, Message] = {}
        if rows.num_rows:
            self.counter.add(rows.num_rows)
            batch = source.reading.batch(rows)
            parts = [batch_columns(source.reading.relation, batch, source.reading.used)]
            program = cast(Opens, program_of(self.site))
            sent = program.open(self.number, parts, self.constants, self.partitions)
        if index == 0:  # says which job it was, even where no row matters
            sent.setdefault(DRIVER, Message())
        if DRIVER in sent:
            sent[DRIVER].origin = (self.number, 0)
        return sent


def opened_frames(
    spark: SparkSession, frames: Sequence[WeightedFrame], opener: Opener, most: int
) -> RDD[Any]:
    """The records that a trigger's first stage makes of DataFrames, in the tasks that read them.

    At most so many tasks for each DataFrame.
    """
    rows, sources = arrow_batches(spark, frames, most)
    return rows.mapPartitionsWithIndex(replace(opener, sources=sources))


def arrow_batches(
    spark: SparkSession, frames: Sequence[WeightedFrame], most: int
) -> tuple[RDD[bytes], tuple[Source, ...]]:
    """The rows of DataFrames as Arrow batches, in at most so many tasks for each.

    The JVM itself makes them: mapInArrow would start a Python process, and reading the rows that
    it returns a second one.
    """
    from pyspark import RDD
    from pyspark.serializers import NoOpSerializer
    from pyspark.sql.pandas.types import to_arrow_schema

    context = spark.sparkContext
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    sources: list[Source] = []
    parts: list[RDD[Any]] = []
    count = 0
    for weighted in frames:
        chosen, reading = selected(
            weighted.frame, weighted.relation, weighted.used, weighted.weights
        )
        schema = to_arrow_schema(chosen.schema, timezone=zone)
        batches = chosen._jdf.toArrowBatchRdd(_ROWS, zone, False, False).toJavaRDD()
        if batches.getNumPartitions() > most:
            batches = batches.coalesce(most)
        sources.append(Source(count, reading, schema))
        parts.append(RDD(batches, context, NoOpSerializer()))
        count += batches.getNumPartitions()
    return context.union(parts) if len(parts) > 1 else parts[0], tuple(sources)


_ROWS = 1 << 17  # of an Arrow batch
