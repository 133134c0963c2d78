"""Columns of encoded values -> Arrow, without a Python object for each value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from viewlet.calculus.query import Query
from viewlet.engine.values.batching import Batch, batch_of, plain_values
from viewlet.engine.values.reading import repeated_positions
from viewlet.errors import RangeError
from viewlet.schema import INT32, Column, Kind, Relation, Scalar, Type, decode
from viewlet.storage.columns import Array

if TYPE_CHECKING:
    import pyarrow as pa


_FEW = 1_000
"""Strings that are laid out one by one."""


def arrow_type(type: Type) -> pa.DataType:
    """How Arrow holds values of a type."""
    import pyarrow as pa

    if type.kind is Kind.DECIMAL:
        return pa.decimal128(min(type.precision or 38, 38), type.scale)
    return {
        Kind.BOOLEAN: pa.bool_(),
        Kind.INTEGER: pa.int32(),
        Kind.BIGINT: pa.int64(),
        Kind.DOUBLE: pa.float64(),
        Kind.DATE: pa.date32(),
        Kind.TIMESTAMP: pa.timestamp("us"),
        Kind.VARCHAR: pa.string(),
        Kind.NULL: pa.null(),
    }[type.kind]


def to_arrow(columns: Sequence[tuple[str, Type]], batch: Batch) -> pa.Table:
    """Encoded columns -> a table with these names; each row stands as often as its weight says.

    RangeError where a number outgrew its type.
    """
    import pyarrow as pa

    row_indexes = None
    if (batch.weights != 1).any():
        row_indexes = repeated_positions(np.arange(len(batch)), batch.weights)
    arrays = []
    for (name, type), values, nulls in zip(columns, batch.columns, batch.nulls, strict=True):
        if row_indexes is not None:
            values, nulls = values[row_indexes], None if nulls is None else nulls[row_indexes]
        try:
            arrays.append(_arrow_array(values, nulls, type))
        except (pa.ArrowInvalid, OverflowError) as error:
            raise RangeError(f"column {name} left the range of {type}: {error}") from None
    schema = pa.schema([(name, arrow_type(type)) for name, type in columns])
    return pa.Table.from_arrays(arrays, schema=schema)


def doubles(table: pa.Table) -> pa.Table:
    """The same table with DECIMAL columns as the nearest doubles."""
    import pyarrow as pa

    for position, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type):
            column = table.column(position).cast(pa.float64())
            table = table.set_column(position, field.name, column)
    return table


def _arrow_array(values: Array, nulls: Array | None, type: Type) -> Any:
    import pyarrow as pa

    kind, target = type.kind, arrow_type(type)
    mask = None if nulls is None else np.asarray(nulls, bool)
    is_integral = values.dtype.kind in "iub"
    if kind is Kind.VARCHAR:
        few = len(values) <= _FEW
        return _strings(values, mask) if few else pa.array(values, target, mask=mask)
    if kind is Kind.DECIMAL and is_integral:
        return _decimals(values.astype(np.int64), mask, target)
    if kind in (Kind.INTEGER, Kind.DATE) and is_integral:
        if len(values) and not (INT32[0] <= values.min() and values.max() <= INT32[1]):
            raise OverflowError(f"{values.min()} to {values.max()}")
        return _of_words(values.astype(np.int32), mask, target)
    if kind in (Kind.BIGINT, Kind.TIMESTAMP) and is_integral:
        return _of_words(values.astype(np.int64, copy=False), mask, target)
    if kind is Kind.DOUBLE and values.dtype != object:
        return _of_words(values.astype(np.float64, copy=False), mask, target)
    if kind is Kind.BOOLEAN and values.dtype != object:
        bits = pa.py_buffer(_bits(values.astype(bool)))
        return pa.Array.from_buffers(target, len(values), [_validity(mask), bits])
    return pa.array([decode(value, type) for value in plain_values(values, nulls)], target)


# Arrow's arrays are made of their buffers: without a copy where they lie as Arrow has them. And
# `pa.array` imports pandas, if it is installed, which takes longer than all else that a query does.


def _of_words(values: Array, mask: Array | None, target: Any) -> Any:
    """Numbers as they lie in memory."""
    import pyarrow as pa

    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(target, len(values), [_validity(mask), data])


def _validity(mask: Array | None) -> Any:
    """A mask of NULLs as Arrow's bits of what is there."""
    import pyarrow as pa

    return None if mask is None else pa.py_buffer(_bits(~mask))


def _bits(truths: Array) -> Array:
    return np.packbits(truths, bitorder="little")


def _strings(values: Array, mask: Array | None) -> Any:
    """A few strings, one by one."""
    import pyarrow as pa

    gaps = np.fromiter((value is None for value in values), bool, len(values))
    gaps = gaps if mask is None else gaps | mask
    texts = [
        b"" if gap else value.encode() for value, gap in zip(values, gaps.tolist(), strict=True)
    ]
    ends = np.zeros(len(texts) + 1, np.int32)
    np.cumsum([len(text) for text in texts], out=ends[1:])
    buffers = [
        _validity(gaps) if gaps.any() else None,
        pa.py_buffer(ends),
        pa.py_buffer(b"".join(texts)),
    ]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)


def _decimals(values: Array, mask: Array | None, target: Any) -> Any:
    """Scaled integers are the low words of Arrow's 128 bits, and their signs the high ones."""
    limit = 10**target.precision
    if len(values) and (int(values.max()) >= limit or int(values.min()) <= -limit):
        raise OverflowError(f"more than {target.precision} digits")
    words = np.empty((len(values), 2), np.int64)
    words[:, 0] = values
    words[:, 1] = values >> 63
    return _of_words(words, mask, target)


def table_columns(relation: Relation) -> list[tuple[str, Type]]:
    """Names and types of a relation's columns."""
    return [(column.name, column.type) for column in relation.columns]


def changes_arrow(query: Query, changes: Iterable[tuple[Sequence[Scalar], int]]) -> pa.Table:
    """Changed rows with their weights as a column."""
    import pyarrow as pa

    shape = Relation(query.name, tuple(Column(c.name, c.type, True) for c in query.columns))
    batch = batch_of(shape, changes)
    weights: Any = batch.weights.copy()
    batch.weights[:] = 1
    table = to_arrow([(c.name, c.type) for c in query.columns], batch)
    return table.append_column("_weight", pa.array(weights, pa.int64()))
