"""Batches of changes as columns, from whatever rows a user has.

A batch holds one array for each column of its relation, in the representation of viewlet.schema:
int64 (also BOOLEAN, DATE, TIMESTAMP, scaled DECIMAL), float64, or object arrays of str; a null mask
where there are NULLs (the value beneath is then 0, 0.0 or None); and an int64 weight for each row.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsIndex

import numpy as np

from viewlet.engine.values.column_encoding import NOTHING, ColumnEncoder, as_arrays, plans_of
from viewlet.engine.values.intake import EVERYTHING, Intake
from viewlet.engine.values.row_errors import InRow
from viewlet.engine.values.shapes import columns_of
from viewlet.errors import DataError, ViewletError
from viewlet.schema import INT64, NAN, Physical, Relation, Scalar, shown_value
from viewlet.storage.columns import Array


@dataclass
class Batch:
    """Columns, null masks (None: no NULLs) and weights.

    `coded`: strings are codes already, of a store or dictionary that the engine knows. Columns that
    nobody reads may be empty arrays. What lies in arrays that are `borrowed` must not be read once
    these are given back.
    """

    columns: list[Array]
    nulls: list[Array | None]
    weights: Array
    coded: bool = False
    borrowed: list[Array] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.weights)

    def rows(self, low: int, high: int) -> Batch:
        """The rows from low up to high, as views of the same arrays."""
        return Batch(
            [column[low:high] for column in self.columns],
            [None if nulls is None else nulls[low:high] for nulls in self.nulls],
            self.weights[low:high],
            self.coded,
        )


def make_batch(
    relation: Relation, rows: Any, weights: Any = None, intake: Intake = EVERYTHING
) -> Batch:
    """Rows in any of the shapes of `shapes` -> a batch; DataError names what does not fit.

    Rows are objects of the user's: what one of them raises when it is looked at is the cause of a
    DataError.
    """
    try:
        return _make_batch(relation, rows, weights, intake)
    except (ViewletError, MemoryError):
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {shown_value(error)}"
        raise DataError(f"the rows for {relation.name} cannot be read: {reason}") from error


def _make_batch(relation: Relation, rows: Any, weights: Any, intake: Intake) -> Batch:
    sources = columns_of(relation, rows)
    length = len(sources[0]) if sources else 0
    columns: list[Array] = []
    nulls: list[Array | None] = []
    encoder = ColumnEncoder(intake.strings, intake.buffers)
    for i, (values, plan) in enumerate(zip(sources, plans_of(relation), strict=True)):
        is_read = intake.reads(i)
        try:
            encoded, gaps = encoder.encode(values, plan, is_read=is_read)
        except InRow as error:
            raise type(error.cause)(
                f"row {error.row + 1} for {relation.name}: {error.cause.message}",
                hint=error.cause.hint,
            ) from None
        columns.append(encoded if is_read else NOTHING)
        nulls.append(gaps if is_read else None)
    if weights is None or (type(weights) is int and weights == 1):
        counts = encoder.array(length, np.int64)
        counts[:] = 1
    else:
        counts = _weights(relation, weights, length)
    return Batch(columns, nulls, counts, intake.strings is not None, encoder.borrowed)


def batch_of(relation: Relation, items: Iterable[tuple[Sequence[Scalar], int]]) -> Batch:
    """Encoded rows with weights -> a batch."""
    listed = list(items)
    columns: list[Array] = []
    nulls: list[Array | None] = []
    for i, column in enumerate(relation.columns):
        values, gaps = as_arrays([row[i] for row, _ in listed], column)
        columns.append(values)
        nulls.append(gaps)
    weights = np.fromiter((int(weight) for _, weight in listed), np.int64, len(listed))
    return Batch(columns, nulls, weights)


def weighted_rows(relation: Relation, batch: Batch) -> Iterator[tuple[tuple[Scalar, ...], int]]:
    """The inverse: encoded rows with weights, of a batch whose strings are no codes."""
    columns = []
    for column, values, nulls in zip(relation.columns, batch.columns, batch.nulls, strict=True):
        truths = column.type.physical is Physical.BOOL
        columns.append(plain_values(values.astype(bool) if truths else values, nulls))
    rows: Any = zip(*columns, strict=True) if columns else iter([()] * len(batch))
    return zip(rows, batch.weights.tolist(), strict=True)


def plain_values(values: Array, nulls: Array | None) -> list[Scalar]:
    """An array and its null mask -> Python values with None, and one NaN."""
    plain: list[Scalar] = values.tolist()
    if values.dtype.kind == "f":
        for position in np.flatnonzero(np.isnan(values)).tolist():
            plain[position] = NAN
    if nulls is None:
        return plain
    return [None if gap else value for value, gap in zip(plain, nulls.tolist(), strict=True)]


def normalized_doubles(values: Array) -> Array:
    """Doubles with one zero and one NaN, as schema.normalized has them."""
    doubles = values + 0.0
    nans = np.isnan(doubles)
    if nans.any():
        doubles[nans] = NAN
    return doubles


def _weights(relation: Relation, weights: Any, length: int) -> Array:
    if isinstance(weights, SupportsIndex) and not isinstance(weights, np.ndarray):
        return np.full(length, _weight(relation, weights, None), np.int64)
    if not isinstance(weights, Iterable) or isinstance(weights, str | bytes):
        raise _weight_error(relation, weights, None)
    values = weights.to_numpy() if hasattr(weights, "to_numpy") else weights
    if not isinstance(values, np.ndarray):
        values = list(values)
    if len(values) != length:
        raise DataError(f"{len(values)} weights for {length} rows of {relation.name}")
    if isinstance(values, np.ndarray) and values.dtype.kind == "i" and values.ndim == 1:
        return np.ascontiguousarray(values, np.int64)
    listed = [_weight(relation, value, row) for row, value in enumerate(values)]
    return np.fromiter(listed, np.int64, length)


def _weight(relation: Relation, value: Any, row: int | None) -> int:
    """A whole number of 64 bits."""
    if isinstance(value, bool | np.bool_ | np.ndarray) or not isinstance(value, SupportsIndex):
        raise _weight_error(relation, value, row)
    number = operator.index(value)
    if not INT64[0] <= number <= INT64[1]:
        raise _weight_error(relation, value, row)
    return number


def _weight_error(relation: Relation, value: Any, row: int | None) -> DataError:
    where = relation.name if row is None else f"row {row + 1} for {relation.name}"
    return DataError(
        f"{shown_value(value)} is not a weight of {where}",
        hint="weights are whole numbers of 64 bits",
    )
