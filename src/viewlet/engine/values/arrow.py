"""Columns of encoded values -> Arrow, without a Python object for each value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from viewlet.engine.values.batching import Batch, plain_values
from viewlet.engine.values.reading import repeated_positions
from viewlet.errors import RangeError
from viewlet.schema import INT32, Kind, Relation, Type, decode
from viewlet.storage.columns import Array

if TYPE_CHECKING:
    import pyarrow as pa


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


def _arrow_array(values: Array, nulls: Array | None, type: Type) -> Any:
    import pyarrow as pa

    kind, target = type.kind, arrow_type(type)
    mask = None if nulls is None else np.asarray(nulls, bool)
    is_integral = values.dtype.kind in "iub"
    if kind is Kind.VARCHAR:
        return pa.array(values, target, mask=mask)
    if kind is Kind.DECIMAL and is_integral:
        return _decimals(values.astype(np.int64), mask, target)
    if kind in (Kind.INTEGER, Kind.DATE) and is_integral:
        if len(values) and not (INT32[0] <= values.min() and values.max() <= INT32[1]):
            raise OverflowError(f"{values.min()} to {values.max()}")
        array = pa.array(values.astype(np.int32), mask=mask)
        return array.view(target) if kind is Kind.DATE else array
    if kind in (Kind.BIGINT, Kind.TIMESTAMP) and is_integral:
        return pa.array(values.astype(np.int64), mask=mask).view(target)
    if kind is Kind.DOUBLE and values.dtype != object:
        return pa.array(values.astype(np.float64), mask=mask)
    if kind is Kind.BOOLEAN and values.dtype != object:
        return pa.array(values.astype(bool), mask=mask)
    return pa.array([decode(value, type) for value in plain_values(values, nulls)], target)


def _decimals(values: Array, mask: Array | None, target: Any) -> Any:
    """Scaled integers are the low words of Arrow's 128 bits, and their signs the high ones."""
    import pyarrow as pa

    limit = 10**target.precision
    if len(values) and (int(values.max()) >= limit or int(values.min()) <= -limit):
        raise OverflowError(f"more than {target.precision} digits")
    words = np.empty((len(values), 2), np.int64)
    words[:, 0] = values
    words[:, 1] = values >> 63
    valid = None if mask is None else pa.array(~mask).buffers()[1]
    return pa.Array.from_buffers(target, len(values), [valid, pa.py_buffer(words)])


def table_columns(relation: Relation) -> list[tuple[str, Type]]:
    """Names and types of a relation's columns."""
    return [(column.name, column.type) for column in relation.columns]
