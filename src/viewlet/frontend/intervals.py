"""INTERVAL literals: constant spans of time, written with one unit or with several."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from viewlet.errors import UnsupportedError
from viewlet.frontend.syntax import fault, sql_of


@dataclass(frozen=True)
class Interval:
    """A constant span of time; months have no fixed length, so they are kept apart."""

    months: int = 0
    days: int = 0
    microseconds: int = 0

    def negated(self) -> Interval:
        """-(3 months) -> -3 months"""
        return Interval(-self.months, -self.days, -self.microseconds)

    @property
    def length(self) -> int:
        """Its microseconds as PostgreSQL compares intervals: a month is 30 days."""
        return (self.months * 30 + self.days) * DAY + self.microseconds


DAY = 86_400_000_000
_SECOND = 1_000_000

WRITTEN = "written"
"""Where the parser leaves a string that has its units inside: sqlglot keeps the first alone."""

_UNITS: Mapping[str, Interval] = {
    "MILLENNIUM": Interval(months=12000),
    "CENTURY": Interval(months=1200),
    "DECADE": Interval(months=120),
    "YEAR": Interval(months=12),
    "QUARTER": Interval(months=3),
    "MONTH": Interval(months=1),
    "WEEK": Interval(days=7),
    "DAY": Interval(days=1),
    "HOUR": Interval(microseconds=3600 * _SECOND),
    "MINUTE": Interval(microseconds=60 * _SECOND),
    "SECOND": Interval(microseconds=_SECOND),
    "MILLISECOND": Interval(microseconds=1000),
    "MICROSECOND": Interval(microseconds=1),
}

_SHORT: Mapping[str, str] = {
    "Y": "YEAR",
    "YR": "YEAR",
    "MON": "MONTH",
    "W": "WEEK",
    "D": "DAY",
    "H": "HOUR",
    "HR": "HOUR",
    "M": "MINUTE",
    "MIN": "MINUTE",
    "S": "SECOND",
    "SEC": "SECOND",
    "MS": "MILLISECOND",
    "MSEC": "MILLISECOND",
    "US": "MICROSECOND",
    "USEC": "MICROSECOND",
    "CENTURIE": "CENTURY",
    "MILLENNIA": "MILLENNIUM",
}
"""Other words for units, without the S of a plural."""

_PART = re.compile(
    r"\s*(?:([+-]?)(\d+):(\d\d)(?::(\d\d(?:\.\d+)?))?|([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+))\s*"
)
"""04:05:06.5, or a number and its unit."""


def interval_literal(node: exp.Interval) -> Interval:
    """INTERVAL '3' MONTH, INTERVAL '1 day 2 hours -3 minutes', INTERVAL '1 day 04:05:06'"""
    amount, unit = node.this, node.args.get("unit")
    text = amount.name if isinstance(amount, exp.Literal) else ""
    if isinstance(amount, exp.Neg) and isinstance(amount.this, exp.Literal):
        text = f"-{amount.this.name}"
    if unit is not None and "." not in text:
        text = f"{text} {unit.name}"
    text = node.meta.get(WRITTEN, text)
    interval = _read(text)
    if interval is None:
        raise fault(
            UnsupportedError,
            f"interval {sql_of(node)} is not supported",
            node,
            "write numbers and units, as in INTERVAL '3' MONTH or INTERVAL '1 day 2 hours'",
        )
    return interval


def _read(text: str) -> Interval | None:
    """The sum of the parts of a text; None where it has others, or a fraction of a month."""
    months, days, microseconds = Fraction(0), Fraction(0), Fraction(0)
    at = 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            return None
        at = part.end()
        sign, hours, minutes, seconds, number, word = part.groups()
        if hours is not None:
            span = 3600 * int(hours) + 60 * int(minutes) + Fraction(seconds or 0)
            microseconds += (-span if sign == "-" else span) * _SECOND
            continue
        unit = _unit(word)
        if unit is None:
            return None
        months += Fraction(number) * unit.months
        days += Fraction(number) * unit.days
        microseconds += Fraction(number) * unit.microseconds
    if not at or months.denominator > 1:
        return None
    # Half a day is twelve hours.
    whole = int(days)
    return Interval(int(months), whole, round(microseconds + (days - whole) * DAY))


def _unit(word: str) -> Interval | None:
    name = word.upper()
    for spelling in (name, name.removesuffix("S")):
        unit = _UNITS.get(_SHORT.get(spelling, spelling))
        if unit is not None:
            return unit
    return None
