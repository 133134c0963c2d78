"""Dates and timestamps of NumPy and Arrow, in any unit -> days or microseconds, in range.

Nothing is multiplied before it is known to fit: 2**62 seconds are an error of their row, and not
some moment of 1970. What is finer than a microsecond is cut; a DATE is never cut out of a
moment in the middle of a day.
"""

from __future__ import annotations

import numpy as np

from viewlet.engine.values.row_errors import InRow, range_error
from viewlet.errors import DataError
from viewlet.schema import DATE_RANGE, TIMESTAMP_RANGE, Column, Kind
from viewlet.storage.columns import Array

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 1_000_000_000,
    "h": 3600 * 1_000_000_000,
    "D": 86_400 * 1_000_000_000,
    "W": 7 * 86_400 * 1_000_000_000,
}
_MONTHS = {"M": 1, "Y": 12}
_FIRST_MONTH, _LAST_MONTH = -1969 * 12, (9999 - 1969) * 12 - 1
"""Of the years 1 and 9999, counted from January 1970."""


def instants(ticks: Array, unit: str, gaps: Array, column: Column) -> Array:
    """Whole numbers of a unit since 1970 -> what the column keeps; where `gaps` is, 0."""
    ticks = np.where(gaps, 0, ticks.astype(np.int64, copy=False))
    if gaps.all():
        return ticks  # NumPy's NaT need not have a unit
    target = "D" if column.type.kind is Kind.DATE else "us"
    if unit in _MONTHS:
        size = _MONTHS[unit]
        _check(ticks, -(-_FIRST_MONTH // size), _LAST_MONTH // size, unit, column)
        moments = ticks.astype(f"datetime64[{unit}]").astype(f"datetime64[{target}]")
        return np.ascontiguousarray(moments.astype(np.int64))
    if unit not in _NANOSECONDS:
        raise DataError(f"column {column.name} is {column.type}, and its values have no unit")
    size, target_size = _NANOSECONDS[unit], _NANOSECONDS[target]
    low, high = DATE_RANGE if target == "D" else TIMESTAMP_RANGE
    # The first and the last whole number of units that lie within the range.
    _check(
        ticks, -(-low * target_size // size), ((high + 1) * target_size - 1) // size, unit, column
    )
    if size >= target_size:
        return ticks * (size // target_size)
    step = target_size // size
    if target == "D" and (ticks % step).any():
        row = int(np.argmax(ticks % step != 0))
        raise InRow(
            row,
            DataError(
                f"column {column.name} is DATE, and {_moment(ticks[row], unit)} is not",
                hint="give a value that converts to DATE without loss",
            ),
        )
    return ticks // step


def _check(ticks: Array, low: int, high: int, unit: str, column: Column) -> None:
    """RangeError for the first value that is not between the bounds."""
    bounds = np.iinfo(np.int64)
    low, high = max(low, bounds.min), min(high, bounds.max)
    if len(ticks) and (int(ticks.min()) < low or int(ticks.max()) > high):
        row = int(np.argmax((ticks < low) | (ticks > high)))
        raise range_error(
            row,
            column,
            f"{int(ticks[row])} {unit} since 1970",
            "dates and timestamps are of the years 1 to 9999",
        )


def _moment(tick: int, unit: str) -> str:
    return str(np.asarray(tick).astype(f"datetime64[{unit}]"))
