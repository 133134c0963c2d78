"""Time as users write it, and as ticks: durations ("1s", Timedelta), and what a time column was.

Inside of a query time is whole numbers of ticks. A tick is `source(unit=...)` of the query; else a
microsecond where durations are used; else one unit of the time column, whatever it counts in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np

from viewlet.errors import DataError, TypingError

TimeUnit = Literal["s", "ms", "us", "ns"]
"""What a tick can be."""

Duration = int | str | timedelta | np.timedelta64
"""A span of time: ticks, "1s", "2.5ms", "1h 30min", or a timedelta of Python, NumPy or pandas."""

TICKS = "ticks"
"""The unit of a query that counts in whole numbers and does not say of what."""

DURATIONS = "durations"
"""The unit of a query that was given durations and says nothing else: microseconds."""

_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_COLUMN_UNITS = {**_UNITS, "m": 60 * 10**9, "h": 3_600 * 10**9, "D": 86_400 * 10**9}
_DAY = 86_400 * 10**9
_SYMBOLS = {
    **_UNITS,
    "d": _DAY,
    "day": _DAY,
    "days": _DAY,
    "h": 3_600 * 10**9,
    "µs": 10**3,
    "m": 60 * 10**9,
    "min": 60 * 10**9,
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zµ]+)")


def unit_of(unit: str | None) -> str | None:
    """A unit that a source may have, checked."""
    if unit is not None and unit not in get_args(TimeUnit):
        raise TypingError(f"unit={unit!r}", hint=f"use one of {', '.join(get_args(TimeUnit))}")
    return unit


def ticks_of(unit: str | None, *spans: Any) -> tuple[str | None, list[Any]]:
    """Spans as ticks, and the unit that the query counts in from here on; None stays None."""
    counts: list[Any] = []
    for span in spans:
        if span is None:
            counts.append(None)
            continue
        whole = _whole(span)
        counting = TICKS if whole is not None else DURATIONS
        if whole != 0:
            if unit is None:
                unit = counting
            elif {unit, counting} == {TICKS, DURATIONS}:
                raise TypingError(
                    f"{span!r} beside times given as {unit}: nobody said what a tick is",
                    hint='say source(unit="ms"), or give all of them as durations',
                )
        counts.append(_ticks(span, tick_of(unit)) if whole is None else whole)
    return unit, counts


def tick_of(unit: str | None) -> str:
    """What a tick is where durations become ticks."""
    return "us" if unit is None or unit not in _UNITS else unit


def common_unit(units: Iterable[str | None]) -> tuple[str | None, bool]:
    """The unit of a whole query, of those of its parts, and whether a source said it.

    None counts in the time columns' own unit.
    """
    present = set(units) - {None}
    declared = present & set(_UNITS)
    if len(declared) > 1 or (DURATIONS in present and len(present) > 1):
        named = ", ".join(sorted(str(unit) for unit in present))
        raise TypingError(
            f"parts of this query count time in {named}",
            hint="give every source the same unit=",
        )
    if declared:
        return declared.pop(), True
    return ("us" if DURATIONS in present else None), False


def _whole(span: Any) -> int | None:
    """A number of ticks; None if it is a duration."""
    if isinstance(span, np.timedelta64 | timedelta | str):
        return None
    if isinstance(span, int | np.integer) and not isinstance(span, bool):
        return int(span)
    if isinstance(span, float | np.floating) and float(span).is_integer():
        return int(span)
    raise TypingError(f"{span!r} is no span of time", hint='use whole ticks, "1s", or a timedelta')


def _ticks(span: str | timedelta | np.timedelta64, unit: str) -> int:
    exact = _nanoseconds(span) / _UNITS[unit]
    if exact.denominator != 1:
        raise TypingError(
            f"{span!r} is {float(exact):g} {unit}, not a whole number",
            hint=f'count in finer ticks, as source(unit="ns") does; this query counts in {unit}',
        )
    return int(exact)


def _nanoseconds(span: str | timedelta | np.timedelta64) -> Fraction:
    if isinstance(span, np.timedelta64):
        unit, _ = np.datetime_data(span.dtype)
        exact = None if unit in ("generic", "Y", "M") else span.astype("m8[ns]")
        if exact is None or np.isnat(span) or exact != span:
            raise TypingError(f"{span!r} is no span of time", hint='use "1s", or a timedelta')
        return Fraction(int(exact.astype(np.int64)))
    if isinstance(span, timedelta):
        seconds = Fraction(span.days * 86_400 + span.seconds)
        rest = Fraction(span.microseconds * 1000 + getattr(span, "nanoseconds", 0))
        return seconds * 10**9 + rest
    total, at = Fraction(0), 0
    text = span.strip().lower()
    sign = -1 if text.startswith("-") else 1
    text = text.removeprefix("-")
    while at < len(text):
        part = _PART.match(text, at)
        if part is None or part[2] not in _SYMBOLS:
            raise TypingError(
                f"{span!r} is no span of time", hint='write "1s", "250ms", "1h 30min" or "2d"'
            )
        total += Fraction(part[1]) * _SYMBOLS[part[2]]
        at = part.end()
    if not text:
        raise TypingError("'' is no span of time", hint='write "1s"')
    return sign * total


@dataclass(frozen=True)
class TimeStamps:
    """How times were written: whole numbers if `unit` is None, else instants of a time zone.

    `tick` is the unit that the query counts in, None with whole numbers that have none.
    """

    unit: str | None
    zone: str | None
    tick: str | None

    def shown(self, ticks: Any) -> Any:
        """Ticks as they were written, no coarser than ticks are."""
        if self.unit is None:
            return ticks
        assert self.tick is not None
        unit = min(self.unit, self.tick, key=_COLUMN_UNITS.__getitem__)
        return _exact(ticks.view(f"M8[{self.tick}]"), unit, "a result")

    def instant(self, time: Any) -> int:
        """A moment as ticks: ticks themselves, a datetime, or ISO text."""
        if isinstance(time, int | np.integer) and not isinstance(time, bool):
            return int(time)
        if isinstance(time, float) and time.is_integer():
            return int(time)
        if self.tick is None:
            raise TypingError(
                f"the moment {time!r}, where times are whole numbers", hint="give it as ticks"
            )
        try:
            if isinstance(time, str):
                time = datetime.fromisoformat(time)
            if isinstance(time, datetime) and time.tzinfo is not None:
                extra = getattr(time, "nanosecond", 0)
                time = np.datetime64(time.astimezone(UTC).replace(tzinfo=None), "us").astype(
                    "M8[ns]"
                ) + np.timedelta64(extra, "ns")
            moment = np.datetime64(time)
        except (TypeError, ValueError):
            raise TypingError(f"{time!r} is no moment", hint="give ticks or a datetime") from None
        return int(_exact(moment.reshape(1), self.tick, "the moment").view(np.int64)[0])


def own_unit(column: Any) -> str | None:
    """What a time column counts in; None for whole numbers. Weeks and longer count in days."""
    if column.dtype.kind != "M":
        return None
    unit = np.datetime_data(column.dtype)[0]
    return unit if unit in _COLUMN_UNITS else "D"


def time_ticks(column: Any, tick: str, name: str) -> Any:
    """A column of datetimes as ticks."""
    bad = np.flatnonzero(np.isnat(column))
    if len(bad):
        raise DataError(f"row {bad[0]} has no time ({name} is NaT)", hint="drop such rows")
    return _exact(column, tick, name).view(np.int64)


def _exact(column: Any, unit: str, name: str) -> Any:
    """The same instants in another unit; an error where one does not fit."""
    if column.dtype == np.dtype(f"M8[{unit}]"):
        return column
    changed = column.astype(f"M8[{unit}]")
    bad = np.flatnonzero(changed.astype(column.dtype) != column)
    if len(bad):
        raise DataError(
            f"the time {column[bad[0]]} in {name} (row {bad[0]}) is not a whole number of {unit}",
            hint='count in finer ticks: source(unit="ns")',
        )
    return changed
