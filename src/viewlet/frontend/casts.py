"""CAST between every two types that PostgreSQL converts.

Which function converts is in the records of viewlet.functions (SqlCast). What the target holds no
more of is checked or cut here: fewer digits, fewer bits, shorter text.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from viewlet.errors import TypingError
from viewlet.frontend.syntax import fault
from viewlet.frontend.types import (
    Declared,
    Typed,
    convert,
    decimal_of,
    is_text_constant,
    text_as,
    to_double,
)
from viewlet.functions import FUNCTIONS, Const, ScalarExpr, ScalarFunction, SqlCast, apply
from viewlet.schema import DECIMAL_DIGITS, INT32, Kind, Type, signed_range

_CASTS: Mapping[tuple[Kind, Kind], ScalarFunction] = {
    kinds: record
    for record in FUNCTIONS.values()
    if isinstance(record.sql, SqlCast)
    for kinds in record.sql.kinds
}


def cast(value: Typed, target: Type | Declared, node: exp.Expr) -> Typed:
    """CAST(value AS target); strings of a column convert to VARCHAR only."""
    declared = target if isinstance(target, Declared) else Declared(target)
    if value.type.kind is Kind.NULL:
        return Typed(value.scalar, declared.type)
    source = text_as(value, declared.type, node) if is_text_constant(value) else value
    scalar = _converted(source, declared.type, node)
    return Typed(_limited(scalar, source.type, declared), declared.type)


def _converted(value: Typed, target: Type, node: exp.Expr) -> ScalarExpr:
    kind, to = value.type.kind, target.kind
    if value.type == target:
        return value.scalar
    if to is Kind.DOUBLE and value.type.is_number:
        return to_double(value).scalar
    if to is Kind.DECIMAL and value.type.is_exact:
        return convert(value, target, node).scalar
    if to in (Kind.INTEGER, Kind.BIGINT) and kind in (Kind.INTEGER, Kind.BIGINT):
        return value.scalar
    if to in (Kind.INTEGER, Kind.BIGINT) and kind is Kind.DECIMAL:
        return apply("rescale", value.scalar, Const(10**value.type.scale))
    if to is Kind.BOOLEAN and kind in (Kind.INTEGER, Kind.BIGINT):
        return apply("<>", value.scalar, Const(0))
    record = _CASTS.get((kind, to))
    if record is None:
        raise fault(TypingError, f"{value.type} cannot be cast to {target}", node)
    assert isinstance(record.sql, SqlCast)
    return apply(record.name, value.scalar, *record.sql.constants(value.type, target))


def _limited(scalar: ScalarExpr, source: Type, target: Declared) -> ScalarExpr:
    """What the target cannot hold: an error of the batch for numbers, cut or rounded otherwise."""
    kind, limit = target.type.kind, target.limit
    if kind is Kind.INTEGER and source.kind is not Kind.BOOLEAN:
        if source.kind is Kind.INTEGER and limit is None:
            return scalar
        least, greatest = INT32 if limit is None else signed_range(limit)
        return apply("within", scalar, Const(least), Const(greatest))
    if kind is Kind.DECIMAL and _may_not_fit(source, target.type):
        greatest = 10**target.type.precision - 1
        return apply("within", scalar, Const(-greatest), Const(greatest))
    if kind is Kind.VARCHAR and limit is not None:
        return apply("substring", scalar, Const(1), Const(limit))
    if kind is Kind.TIMESTAMP and limit is not None:
        return apply("timestamp_round", scalar, Const(10 ** (6 - limit)))
    return scalar


def _may_not_fit(source: Type, target: Type) -> bool:
    """Whether a number can have more digits before the point; rounding can add one."""
    if target.precision > DECIMAL_DIGITS:
        return False
    if source.kind is Kind.DOUBLE:
        return True
    source_decimal = decimal_of(source)
    rounds = source_decimal.scale > target.scale
    return (
        source_decimal.precision - source_decimal.scale + rounds > target.precision - target.scale
    )
