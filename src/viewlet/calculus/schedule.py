"""The order of factors: bindings flow from left to right, cheap and selective factors first."""

from __future__ import annotations

from viewlet.calculus.expr import (
    Add,
    Assign,
    Cond,
    Exists,
    Expr,
    Extreme,
    Lift,
    MapRef,
    Mul,
    Rel,
    Sum,
    Value,
    exists_of,
    extreme,
    is_batch,
    lift,
    product_of,
    sum_of,
    sum_over,
)
from viewlet.calculus.scope import NONE, Names, inputs, outputs
from viewlet.calculus.text import to_text
from viewlet.errors import ProgramError


def schedule(expr: Expr, bound: Names = NONE) -> Expr:
    """The same expression with every product in an order in which it can be evaluated.

    R(a) * {a < b} * S(b)  ->  R(a) * S(b) * {a < b}
    """
    if isinstance(expr, Mul):
        return product_of(*_order(list(expr.factors), bound))
    if isinstance(expr, Add):
        return sum_of(*(schedule(term, bound) for term in expr.terms))
    if isinstance(expr, Sum):
        return sum_over(expr.keys, schedule(expr.body, bound))
    if isinstance(expr, Exists):
        return exists_of(schedule(expr.body, bound))
    if isinstance(expr, Lift):
        return lift(expr.variable, schedule(expr.body, bound))
    if isinstance(expr, Extreme):
        return extreme(expr.variable, expr.kind, expr.target, schedule(expr.body, bound))
    return expr


def _order(factors: list[Expr], bound: Names) -> list[Expr]:
    ordered: list[Expr] = []
    while factors:
        ready = [f for f in factors if _ready(f, bound)]
        if not ready:
            rest = to_text(product_of(*factors))
            raise ProgramError(f"no factor can be evaluated next in {rest}")
        best = min(ready, key=lambda f: _rank(f, bound))
        factors.remove(best)
        ordered.append(schedule(best, bound))
        bound |= outputs(best)
    return ordered


def _ready(factor: Expr, bound: Names) -> bool:
    if not inputs(factor) <= bound:
        return False
    if isinstance(factor, Add):
        # Terms that bind different variables need the difference from outside.
        return len({outputs(term) - bound for term in factor.terms}) <= 1
    return True


def _rank(factor: Expr, bound: Names) -> tuple[int, int]:
    """Filters, then computed values, then lookups, then the batch, then slices, then scans."""
    unbound = len(outputs(factor) - bound)
    if isinstance(factor, Cond | Value):
        return (0, 0)
    if isinstance(factor, Assign):
        return (1, 0)
    if unbound == 0:
        return (2, 1 if isinstance(factor, Lift | Extreme) else 0)
    if is_batch(factor):
        return (3, unbound)
    if isinstance(factor, Lift | Extreme):
        return (2, 2)
    touched = len(outputs(factor) & bound)
    simple = isinstance(factor, Rel | MapRef)
    return (4 if touched else 5, unbound * 2 + (not simple))
