"""Columns of a batch as their declarations hold them: schema.held for whole arrays.

VARCHAR(n), TIMESTAMP(n) and SMALLINT say more than the type that they are kept as.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.engine.values.row_errors import InRow
from viewlet.errors import RangeError
from viewlet.schema import TIMESTAMP_RANGE, Column, Kind, held, signed_range
from viewlet.storage.columns import Array


def held_column(values: Array, nulls: Array | None, source: Any, column: Column) -> Array:
    """The encoded values; `source` are those that came, whose lengths Arrow may know."""
    if column.limit is None or not len(values):
        return values
    kind = column.type.kind
    if kind is Kind.TIMESTAMP:
        rounded = _rounded(values, 10 ** (6 - column.limit))
        if int(rounded.max()) <= TIMESTAMP_RANGE[1]:
            return rounded
    elif kind is Kind.VARCHAR:
        if _longest(values, source) <= column.limit:
            return values
    else:
        low, high = signed_range(column.limit)
        if low <= int(values.min()) and int(values.max()) <= high:
            return values
    return _one_by_one(values, nulls, column)


def _one_by_one(values: Array, nulls: Array | None, column: Column) -> Array:
    """For the value that does not fit, or for blanks that are cut."""
    fitting = values.copy()
    for place, value in enumerate(values.tolist()):
        if nulls is not None and nulls[place]:
            continue
        try:
            fitting[place] = held(value, column)
        except RangeError as error:
            cause = RangeError(f"column {column.name}: {error.message}", hint=error.hint)
            raise InRow(place, cause) from None
    return fitting


def _longest(values: Array, source: Any) -> int:
    """Of strings, in characters."""
    if type(source).__module__.startswith("pyarrow"):
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_string(source.type) or pa.types.is_large_string(source.type):
            return int(pc.max(pc.utf8_length(source)).as_py() or 0)
    return max(map(len, filter(None, values.tolist())), default=0)


def _rounded(values: Array, unit: int) -> Array:
    """schema.rounded_moment"""
    whole = values // unit
    rest = 2 * (values - whole * unit)
    up = (rest > unit) | ((rest == unit) & (values >= 0))
    return np.asarray((whole + up) * unit, np.int64)
