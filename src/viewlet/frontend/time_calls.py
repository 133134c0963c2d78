"""Calls about spans of time: buckets, and differences of timestamps.

A difference of timestamps is an INTERVAL, which no column can have; it is read where a number of
it is wanted, or a comparison.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping

from sqlglot import exp

from viewlet.errors import TypingError, UnsupportedError
from viewlet.frontend.intervals import Interval, interval_literal
from viewlet.frontend.syntax import fault, sql_of, unwrapped
from viewlet.frontend.types import Typed, as_moment, convert, text_as
from viewlet.functions import Const, ScalarExpr, apply
from viewlet.schema import BIGINT, DOUBLE, EPOCH, TIMESTAMP, Kind

Lower = Callable[[exp.Expr], Typed]
"""An expression of SQL -> a typed scalar"""

MONDAY = dt.datetime(2000, 1, 3)
"""Where TIME_BUCKET counts from, as in DuckDB and TimescaleDB; DATE_BIN counts from 1970."""


def bucket(lower: Lower, node: exp.Anonymous) -> Typed:
    """DATE_BIN(stride, ts [, origin]), TIME_BUCKET(stride, ts [, origin])"""
    name, operands = node.name.upper(), node.expressions
    if len(operands) not in (2, 3):
        raise fault(TypingError, f"{name} takes 2 or 3 arguments, not {len(operands)}", node)
    width = Const(stride_of(operands[0], name))
    moment = _timestamp(lower(operands[1]), operands[1], name)
    start: ScalarExpr = Const(0 if name == "DATE_BIN" else (MONDAY - EPOCH) // _MICROSECOND)
    if len(operands) == 3:
        start = _timestamp(lower(operands[2]), operands[2], name).scalar
    return Typed(apply("timestamp_bin", moment.scalar, width, start), TIMESTAMP)


_MICROSECOND = dt.timedelta(microseconds=1)


def stride_of(node: exp.Expr, what: str) -> int:
    """INTERVAL '5 minutes' or '5 minutes' -> its microseconds, if it is a constant width"""
    literal = unwrapped(node)
    if isinstance(literal, exp.Literal) and literal.is_string:
        literal = exp.Interval(this=literal.copy())
    if not isinstance(literal, exp.Interval):
        raise fault(TypingError, f"{what} needs an INTERVAL, not {sql_of(node)}", node)
    interval = interval_literal(literal)
    if interval.months:
        hint = "use DATE_TRUNC('month', ...) for months, quarters and years"
        raise fault(UnsupportedError, f"{what} with months is not supported", node, hint)
    if interval.length <= 0:
        raise fault(TypingError, f"{what} needs a positive INTERVAL", node)
    return interval.length


def _timestamp(value: Typed, node: exp.Expr, what: str) -> Typed:
    if value.type.kind is Kind.VARCHAR and isinstance(value.scalar, Const):
        return text_as(value, TIMESTAMP, node)
    return convert(as_moment(value, node, what), TIMESTAMP, node)


# Differences.


def difference(lower: Lower, node: exp.Expr) -> ScalarExpr | None:
    """a - b of timestamps -> its microseconds; None for other expressions"""
    node = unwrapped(node)
    if not isinstance(node, exp.Sub) or isinstance(unwrapped(node.right), exp.Interval):
        return None
    left, right = lower(node.left), lower(node.right)
    if {left.type.kind, right.type.kind} not in ({Kind.TIMESTAMP}, {Kind.TIMESTAMP, Kind.DATE}):
        return None
    a, b = (convert(side, TIMESTAMP, node).scalar for side in (left, right))
    return apply("-", a, b)


def seconds(lower: Lower, node: exp.Expr) -> Typed | None:
    """EXTRACT(EPOCH FROM a - b); None where it is about no difference"""
    span = difference(lower, node)
    if span is None:
        return None
    return Typed(apply("/", apply("to_float", span), Const(1e6)), DOUBLE)


def spans(lower: Lower, left: exp.Expr, right: exp.Expr) -> tuple[Typed, Typed] | None:
    """Both sides of a - b < INTERVAL '5 minutes' in microseconds, if one is a literal"""
    sides = unwrapped(left), unwrapped(right)
    if not any(isinstance(side, exp.Interval) for side in sides):
        return None
    lengths: list[Typed] = []
    for side in sides:
        if isinstance(side, exp.Interval):
            lengths.append(Typed(Const(interval_literal(side).length), BIGINT))
            continue
        span = difference(lower, side)
        if span is None:
            return None
        lengths.append(Typed(span, BIGINT))
    return lengths[0], lengths[1]


_PARTS: Mapping[str, str] = {"YEAR": "year", "QUARTER": "quarter", "MONTH": "month"}
_STEPS: Mapping[str, tuple[str, int]] = {
    "WEEK": ("timestamp_trunc_week", Interval(days=7).length),
    "DAY": ("timestamp_trunc_day", Interval(days=1).length),
    "HOUR": ("timestamp_trunc_hour", 3_600_000_000),
    "MINUTE": ("timestamp_trunc_minute", 60_000_000),
    "SECOND": ("timestamp_trunc_second", 1_000_000),
    "MILLISECOND": ("timestamp_trunc_millisecond", 1000),
    "MICROSECOND": ("timestamp_trunc_microsecond", 1),
}


def date_diff(lower: Lower, node: exp.DateDiff) -> Typed:
    """DATE_DIFF('hour', a, b): how many starts of an hour lie after a and not after b"""
    unit = node.args.get("unit")
    name = unit.name.upper() if unit is not None else ""
    name = name.removesuffix("S")
    if name not in _STEPS and name not in _PARTS:
        names = ", ".join(word.lower() for word in (*_PARTS, *_STEPS))
        message = f"DATE_DIFF has no unit {name.lower() or sql_of(node)}"
        raise fault(UnsupportedError, message, node, f"units are {names}")
    moments = [_timestamp(lower(n), n, "DATE_DIFF").scalar for n in (node.this, node.expression)]
    last, first = (_count(name, moment) for moment in moments)
    if name in _PARTS:
        return Typed(apply("-", last, first), BIGINT)
    return Typed(apply("div", apply("-", last, first), Const(_STEPS[name][1])), BIGINT)


def _count(unit: str, moment: ScalarExpr) -> ScalarExpr:
    """The number of a year, quarter or month; the start of a shorter unit."""
    if unit in _STEPS:
        return apply(_STEPS[unit][0], moment)
    year = apply("timestamp_year", moment)
    if unit == "YEAR":
        return year
    per_year = 4 if unit == "QUARTER" else 12
    return apply("+", apply("*", year, Const(per_year)), apply(f"timestamp_{_PARTS[unit]}", moment))
