"""CAST between every two types that PostgreSQL converts."""

from __future__ import annotations

from sqlglot import exp

from viewlet.errors import TypingError
from viewlet.frontend.syntax import fault
from viewlet.frontend.types import Typed, convert, is_text_constant, text_as, to_double
from viewlet.functions import Const, ScalarExpr, apply
from viewlet.schema import Kind, Type


def cast(value: Typed, target: Type, node: exp.Expr) -> Typed:
    """CAST(value AS target); strings of a column convert to VARCHAR only."""
    kind, to = value.type.kind, target.kind
    if kind is Kind.NULL or value.type == target:
        return Typed(value.scalar, target)
    if is_text_constant(value):
        return text_as(value, target, node)
    if to is Kind.VARCHAR:
        return Typed(_as_text(value), target)
    if to is Kind.DOUBLE and value.type.is_number:
        return to_double(value)
    if to in (Kind.INTEGER, Kind.BIGINT):
        scalar = _as_integer(value)
        if scalar is not None:
            return Typed(scalar, target)
    if to is Kind.DECIMAL:
        if value.type.is_exact:
            return convert(value, target, node)
        if kind is Kind.DOUBLE:
            shifted = apply("*", value.scalar, Const(float(10**target.scale)))
            return Typed(apply("to_int", apply("round", shifted, Const(0))), target)
    if to is Kind.DATE and kind is Kind.TIMESTAMP:
        return Typed(apply("date_of_timestamp", value.scalar), target)
    if to is Kind.TIMESTAMP and kind is Kind.DATE:
        return convert(value, target, node)
    if to is Kind.BOOLEAN and kind in (Kind.INTEGER, Kind.BIGINT):
        return Typed(apply("<>", value.scalar, Const(0)), target)
    raise fault(TypingError, f"{value.type} cannot be cast to {target}", node)


def _as_text(value: Typed) -> ScalarExpr:
    if value.type.kind is Kind.DECIMAL:
        return apply("decimal_text", value.scalar, Const(value.type.scale))
    if value.type.kind is Kind.DATE:
        return apply("date_text", value.scalar)
    if value.type.kind is Kind.TIMESTAMP:
        return apply("timestamp_text", value.scalar)
    return apply("to_text", value.scalar)


def _as_integer(value: Typed) -> ScalarExpr | None:
    kind = value.type.kind
    if kind in (Kind.INTEGER, Kind.BIGINT):
        return value.scalar
    if kind is Kind.DECIMAL:
        return apply("rescale", value.scalar, Const(10**value.type.scale))
    if kind is Kind.DOUBLE:
        return apply("to_int", value.scalar)
    return apply("bool_to_int", value.scalar) if kind is Kind.BOOLEAN else None
