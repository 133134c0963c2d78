"""Numbers of one type as scalars of another, where SQL converts without being asked."""

from __future__ import annotations

from viewlet.functions.evaluation import apply
from viewlet.functions.scalars import Const, ScalarExpr
from viewlet.schema import Kind, Type


def scale_up(value: ScalarExpr, digits: int) -> ScalarExpr:
    """A DECIMAL with more digits after the point."""
    return apply("*", value, Const(10**digits)) if digits > 0 else value


def as_double(value: ScalarExpr, type: Type) -> ScalarExpr:
    """A number as DOUBLE; constants fold to the nearest double."""
    if type.kind in (Kind.DOUBLE, Kind.NULL):
        return value
    if type.kind is Kind.DECIMAL and type.scale:
        if isinstance(value, Const) and isinstance(value.value, int):
            return Const(value.value / 10**type.scale)
        return apply("/", apply("to_float", value), Const(float(10**type.scale)))
    return apply("to_float", value)
