"""Dates and timestamps in what a query gives: of the years 1 to 9999, as in tables and views.

DuckDB counts on, to the year 294247 and to infinity; Python, pandas and Spark have no such dates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from viewlet.errors import RangeError
from viewlet.schema import DATE_RANGE, TIMESTAMP_RANGE

if TYPE_CHECKING:
    import pyarrow as pa

_PER_MICROSECOND = {"s": (1, 10**6), "ms": (1, 10**3), "us": (1, 1), "ns": (1000, 1)}
"""Unit -> how many of them are how many microseconds."""


def check_moments(table: pa.Table) -> None:
    """RangeError where a value, or one inside of a list or struct, is out of the range."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if any(_is_outside(array) for chunk in column.chunks for array in _flat(chunk)):
            raise RangeError(
                f"column {name} has a date or timestamp that is out of range",
                hint="dates and timestamps are of the years 1 to 9999; CAST(... AS VARCHAR) shows "
                "others",
            )


def _flat(array: Any) -> Iterator[Any]:
    """The arrays without lists and structs that an array is made of."""
    import pyarrow as pa

    types = pa.types
    if types.is_struct(array.type):
        parts = array.flatten()
    elif types.is_map(array.type):
        parts = [array.keys, array.items]
    elif types.is_nested(array.type) and not types.is_union(array.type):
        parts = [array.flatten()]
    else:
        yield array
        return
    for part in parts:
        yield from _flat(part)


def _is_outside(array: Any) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_date32(array.type):
        numbers, (low, high) = array.view(pa.int32()), DATE_RANGE
    elif pa.types.is_timestamp(array.type):
        count, size = _PER_MICROSECOND[array.type.unit]
        first, last = TIMESTAMP_RANGE
        numbers = array.view(pa.int64())
        low, high = -(-first * count // size), ((last + 1) * count - 1) // size
    else:
        return False
    extent = pc.min_max(numbers).as_py()
    return extent["min"] is not None and not (low <= extent["min"] and extent["max"] <= high)
