"""DataFrames as batches: checked against a relation, then encoded where their rows are.

    frame -> its columns in the relation's order -> mapInArrow -> (partition, message) pairs

The rows of a table go to the partition that has their key; those of a stream stay together. Rows
that do not fit (a NULL in a NOT NULL column, a number out of range) travel as the error that they
are, so that the step that meets them is refused as a whole.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from viewlet.errors import DataError, ViewletError
from viewlet.runtime.batching import Batch, make_batch
from viewlet.runtime.chunks import Message, batch_columns, spread
from viewlet.runtime.worker import problem_of
from viewlet.schema import Column, Kind, Relation

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import RDD
    from pyspark.sql import DataFrame

_INTEGERS = {"tinyint", "smallint", "int", "bigint"}
_FITTING: dict[Kind, set[str]] = {
    Kind.BOOLEAN: {"boolean"},
    Kind.INTEGER: _INTEGERS,
    Kind.BIGINT: _INTEGERS,
    Kind.DOUBLE: _INTEGERS | {"float", "double"},
    Kind.DECIMAL: _INTEGERS | {"decimal"},
    Kind.DATE: {"date"},
    Kind.TIMESTAMP: {"timestamp", "timestamp_ntz"},
    Kind.VARCHAR: {"string", "varchar", "char"},
}
"""The Spark types that a column takes; values are checked when they come."""


def check_frame(frame: DataFrame, relation: Relation) -> None:
    """One error for a column that is missing or of another type; further columns do not matter."""
    types = dict(frame.dtypes)
    for column in relation.columns:
        found = types.get(column.name)
        if found is None:
            raise DataError(
                f"the DataFrame for {relation.name} has no column {column.name}",
                hint=f"its columns are ({', '.join(types)}), and {relation.name} has "
                f"({', '.join(relation.names)})",
            )
        if found.partition("(")[0] not in _FITTING[column.type.kind]:
            raise DataError(
                f"column {column.name} of the DataFrame for {relation.name} is {found}, "
                f"not {column.type}",
                hint=f'cast it: frame.withColumn("{column.name}", '
                f'col("{column.name}").cast("{_spark_type(column)}"))',
            )


def _spark_type(column: Column) -> str:
    names = {Kind.VARCHAR: "string", Kind.INTEGER: "int", Kind.TIMESTAMP: "timestamp_ntz"}
    return names.get(column.type.kind, str(column.type).lower())


def frame_messages(
    frame: DataFrame,
    relation: Relation,
    table: Relation | None,
    used: Sequence[int],
    partitions: int,
    weight: int,
) -> RDD[tuple[int, bytes]]:
    """The frame's rows as packed messages for the partitions."""
    from pyspark.sql import functions

    check_frame(frame, relation)
    columns = []
    for column in (relation.columns[i] for i in used):
        found = functions.col(f"`{column.name}`")
        if column.type.kind is Kind.TIMESTAMP:
            found = found.cast("timestamp_ntz")  # as the session shows it
        columns.append(found.alias(column.name))
    if not columns:  # only the number of rows matters
        columns = [functions.lit(1).alias("one")]
    encode = partial(_encoded, relation, table, tuple(used), partitions, weight)
    pairs = frame.select(*columns).mapInArrow(encode, "p int, data binary")
    return pairs.rdd.map(_pair)


def _pair(row: Any) -> tuple[int, bytes]:
    return row[0], bytes(row[1])


def _encoded(
    relation: Relation,
    table: Relation | None,
    used: tuple[int, ...],
    partitions: int,
    weight: int,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """One task: all of its rows, by partition."""
    import pyarrow as pa
    from pyspark import TaskContext

    given = [batch for batch in batches if batch.num_rows]
    if not given:
        return
    context = TaskContext.get()
    here = context.partitionId() if context is not None else 0
    rows = pa.Table.from_batches(given)
    try:
        batch = _batch(relation, used, rows, weight)
        sent = batch_columns(relation, batch, used)
        parts = spread(sent, table, partitions) if table is not None else [sent]
        messages = [Message(columns=[part]) for part in parts]
    except ViewletError as problem:
        messages = [Message(problem=pickle.dumps(problem_of(problem)))]
    places = list(range(partitions)) if len(messages) > 1 else [here % partitions]
    yield pa.record_batch(
        [
            pa.array(places, pa.int32()),
            pa.array([message.pack() for message in messages], pa.binary()),
        ],
        names=["p", "data"],
    )


def _batch(relation: Relation, used: tuple[int, ...], rows: pa.Table, weight: int) -> Batch:
    """The used columns encoded; the others stay empty, for nobody reads them."""
    chosen = tuple(relation.columns[i] for i in used)
    weights = np.full(rows.num_rows, weight, np.int64)
    columns: list[Any] = [None] * len(relation.columns)
    nulls: list[Any] = [None] * len(relation.columns)
    if chosen:
        part = make_batch(Relation(relation.name, chosen), rows, weights)
        for i, values, gaps in zip(used, part.columns, part.nulls, strict=True):
            columns[i], nulls[i] = values, gaps
    return Batch(columns, nulls, weights)
