"""Aggregates that are a formula over sums of powers: a name of SQL -> the formula.

The sums are kept as components of the view and change by the rows that come and go; the formula is
evaluated when the view is read. To add one, write it here and enter it into FORMULAS.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Protocol

from sqlglot import exp

from viewlet.functions import NULL, Const, ScalarExpr, apply


class Moments(Protocol):
    """The values of a group that are not NULL, as DOUBLE."""

    def count(self) -> ScalarExpr:
        """How many they are."""
        ...

    def power_sum(self, exponent: int) -> ScalarExpr:
        """The sum of x ** exponent."""
        ...


def skewness(moments: Moments) -> ScalarExpr:
    """sqrt(n * (n - 1)) / (n - 2) * m3 / m2 ** 1.5

    with m2 = mean(x ** 2) - mean(x) ** 2
    and  m3 = mean(x ** 3) - 3 * mean(x) * mean(x ** 2) + 2 * mean(x) ** 3.
    NULL where n < 3 or all values are equal.
    """
    n = moments.count()
    mean, square, cube = (apply("/", moments.power_sum(k), n) for k in (1, 2, 3))
    m2 = apply("-", square, times(mean, mean))
    m3 = apply(
        "+", apply("-", cube, times(Const(3.0), mean, square)), times(Const(2.0), mean, mean, mean)
    )
    factor = apply("/", apply("sqrt", apply("to_float", times(n, minus(n, 1)))), minus(n, 2))
    skew = times(factor, apply("/", m3, times(m2, apply("sqrt", m2))))
    defined = apply("and", apply(">", n, Const(2)), apply(">", m2, Const(0.0)))
    return apply("case", defined, skew, NULL)


def times(*factors: ScalarExpr) -> ScalarExpr:
    """a, b, c -> a * b * c"""
    return reduce(lambda left, right: apply("*", left, right), factors)


def minus(scalar: ScalarExpr, number: int) -> ScalarExpr:
    """n, 2 -> n - 2"""
    return apply("-", scalar, Const(number))


FORMULAS: dict[type[exp.Expr], Callable[[Moments], ScalarExpr]] = {exp.Skewness: skewness}
"""Aggregate -> its formula, a DOUBLE."""
