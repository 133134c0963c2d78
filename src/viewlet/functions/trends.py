"""How a function's value moves while its arguments rise.

Rounding does not disturb this: sums, differences and products with a constant of doubles are
monotone after rounding too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from viewlet.functions.scalars import Const, ScalarExpr

RISES, FALLS, CONSTANT = 1, -1, 0

Trend = int | None
"""RISES: never less while the variables rise; FALLS: never more; None: not known."""

TrendRule = Callable[[Sequence[ScalarExpr], Sequence[Trend]], Trend]
"""(arguments, their trends) -> the trend of the value, where one argument at least moves"""


@dataclass(frozen=True)
class Monotone:
    """`trend` of the value; `in_descents`: it can be computed inside a search in a sorted map,
    from numbers alone and without strings, memos or calls that are large."""

    trend: TrendRule
    in_descents: bool = False


def turned(trend: Trend) -> Trend:
    """The trend of -x."""
    return None if trend is None else -trend


def together(left: Trend, right: Trend) -> Trend:
    """The trend of a sum: neither may work against the other."""
    if left is None or right is None or left * right < 0:
        return None
    return left or right


def _unknown(arguments: Sequence[ScalarExpr], trends: Sequence[Trend]) -> Trend:
    return None


def _first(arguments: Sequence[ScalarExpr], trends: Sequence[Trend]) -> Trend:
    return trends[0] if not any(trends[1:]) else None


def _negated(arguments: Sequence[ScalarExpr], trends: Sequence[Trend]) -> Trend:
    return turned(trends[0])


def _sum(arguments: Sequence[ScalarExpr], trends: Sequence[Trend]) -> Trend:
    return together(trends[0], trends[1])


def _difference(arguments: Sequence[ScalarExpr], trends: Sequence[Trend]) -> Trend:
    return together(trends[0], turned(trends[1]))


def _product(arguments: Sequence[ScalarExpr], trends: Sequence[Trend]) -> Trend:
    left, right = arguments
    if isinstance(right, Const):
        return _by_constant(right, trends[0])
    return _by_constant(left, trends[1])


def _quotient(arguments: Sequence[ScalarExpr], trends: Sequence[Trend]) -> Trend:
    return _by_constant(arguments[1], trends[0])


def _by_constant(factor: ScalarExpr, trend: Trend) -> Trend:
    if not isinstance(factor, Const) or not isinstance(factor.value, int | float):
        return None
    if factor.value > 0:
        return trend
    return turned(trend) if factor.value < 0 else None


NOT_MONOTONE = Monotone(_unknown)
COMPUTED_IN_DESCENTS = Monotone(_unknown, in_descents=True)
"""Of conditions: what they say of a range is known to kernels.monotone."""
RISING = Monotone(_first)
RISING_IN_DESCENTS = Monotone(_first, in_descents=True)
FALLING_IN_DESCENTS = Monotone(_negated, in_descents=True)
SUM = Monotone(_sum, in_descents=True)
DIFFERENCE = Monotone(_difference, in_descents=True)
PRODUCT = Monotone(_product, in_descents=True)
QUOTIENT = Monotone(_quotient, in_descents=True)
