"""PEP 249's constructors of values and its kinds of columns."""

from __future__ import annotations

import datetime as dt

Date = dt.date
Time = dt.time
Timestamp = dt.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> dt.date:
    """The local date of a time since the epoch."""
    return dt.date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> dt.time:
    """The local time of day of a time since the epoch."""
    return TimestampFromTicks(ticks).time()


def TimestampFromTicks(ticks: float) -> dt.datetime:
    """The local date and time of a time since the epoch."""
    return dt.datetime.fromtimestamp(ticks)


class ColumnKind:
    """Equal to the names of all types that it is for: `cursor.description[0][1] == NUMBER`."""

    def __init__(self, *prefixes: str) -> None:
        self._prefixes = prefixes

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ColumnKind):
            return self._prefixes == other._prefixes
        return isinstance(other, str) and other.startswith(self._prefixes)

    def __hash__(self) -> int:
        return hash(self._prefixes)


STRING = ColumnKind("string", "large_string", "dictionary")
BINARY = ColumnKind("binary", "large_binary", "fixed_size_binary")
NUMBER = ColumnKind("int", "uint", "float", "double", "halffloat", "decimal", "bool")
DATETIME = ColumnKind("date", "time")
ROWID = ColumnKind("rowid")
