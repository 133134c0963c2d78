"""Aggregates of two values: COVAR_POP, CORR, REGR_SLOPE and the like. Y comes before X, as in SQL.

    n                     pairs of which neither is NULL
    Sxx = sum((x - mean(x)) ** 2)                       as VARIANCE has it, which does not cancel
    Sxy = sum((x - mean(x)) * (y - mean(y)))            from such parts of x, y and x * y

They are sums that change with the rows; the formulas are evaluated when the view is read. Where
nothing is defined the result is NULL, as in PostgreSQL: of no pair, or for lack of a spread.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from sqlglot import exp

from viewlet.frontend.moments import minus, times
from viewlet.functions import NULL, Const, ScalarExpr, apply
from viewlet.schema import BIGINT, DOUBLE, Type


class PairSums(Protocol):
    """The pairs of a group."""

    def count(self) -> ScalarExpr:
        """n"""
        ...

    def mean(self, which: str) -> ScalarExpr:
        """Of "x" or "y"."""
        ...

    def spread(self, which: str) -> ScalarExpr:
        """The sum of squares around the mean, of "x" or "y"."""
        ...

    def products(self) -> ScalarExpr:
        """Sxy"""
        ...


def _ratio(above: ScalarExpr, below: ScalarExpr) -> ScalarExpr:
    """above / below, NULL where below is 0"""
    return apply("case", apply(">", below, Const(0.0)), apply("/", above, below), NULL)


def _slope(pairs: PairSums) -> ScalarExpr:
    return _ratio(pairs.products(), pairs.spread("x"))


def _correlation(pairs: PairSums) -> ScalarExpr:
    """Rounding does not lead beyond -1 and 1; NaN, which is greater than all, stays."""
    roots = times(apply("sqrt", pairs.spread("x")), apply("sqrt", pairs.spread("y")))
    ratio = _ratio(pairs.products(), roots)
    is_beyond = apply("and", apply(">", ratio, Const(1.0)), apply("<=", ratio, Const(math.inf)))
    above = apply("case", is_beyond, Const(1.0), ratio)
    return apply("case", apply("<", ratio, Const(-1.0)), Const(-1.0), above)


def _fit(pairs: PairSums) -> ScalarExpr:
    """R2: 1 where y does not spread, NULL where x does not"""
    square = _ratio(times(pairs.products(), pairs.products()), pairs.spread("y"))
    flat = apply("=", pairs.spread("y"), Const(0.0))
    part = apply("case", flat, Const(1.0), apply("/", square, pairs.spread("x")))
    return apply("case", apply(">", pairs.spread("x"), Const(0.0)), part, NULL)


def _intercept(pairs: PairSums) -> ScalarExpr:
    return apply("-", pairs.mean("y"), times(_slope(pairs), pairs.mean("x")))


def _of_some(
    value: Callable[[PairSums], ScalarExpr], least: int = 1
) -> Callable[[PairSums], ScalarExpr]:
    def known(pairs: PairSums) -> ScalarExpr:
        enough = apply(">=", pairs.count(), Const(least))
        return apply("case", enough, value(pairs), NULL)

    return known


PAIRED: dict[type[exp.Expr], tuple[Type, Callable[[PairSums], ScalarExpr]]] = {
    exp.RegrCount: (BIGINT, lambda pairs: pairs.count()),
    exp.CovarPop: (DOUBLE, _of_some(lambda p: apply("/", p.products(), p.count()))),
    exp.CovarSamp: (DOUBLE, _of_some(lambda p: apply("/", p.products(), minus(p.count(), 1)), 2)),
    exp.Corr: (DOUBLE, _of_some(_correlation)),
    exp.RegrSlope: (DOUBLE, _of_some(_slope)),
    exp.RegrIntercept: (DOUBLE, _of_some(_intercept)),
    exp.RegrR2: (DOUBLE, _of_some(_fit)),
    exp.RegrAvgx: (DOUBLE, _of_some(lambda pairs: pairs.mean("x"))),
    exp.RegrAvgy: (DOUBLE, _of_some(lambda pairs: pairs.mean("y"))),
    exp.RegrSxx: (DOUBLE, _of_some(lambda pairs: pairs.spread("x"))),
    exp.RegrSyy: (DOUBLE, _of_some(lambda pairs: pairs.spread("y"))),
    exp.RegrSxy: (DOUBLE, _of_some(lambda pairs: pairs.products())),
}
"""Aggregate -> the type of its result, and its formula."""


def further_operands(node: exp.Expr) -> list[exp.Expr]:
    """What an aggregate takes from a row beside its first operand."""
    if isinstance(node, exp.Count):
        return list(node.expressions)
    second = node.args.get("expression")
    return [second] if type(node) in PAIRED and second is not None else []
