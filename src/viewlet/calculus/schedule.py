"""The order of factors: bindings flow from left to right, cheap and selective factors first."""

from __future__ import annotations

from typing import Protocol

from viewlet.calculus.expr import (
    Add,
    Assign,
    Cond,
    Delta,
    Each,
    Expr,
    MapRef,
    Mul,
    NestedValue,
    Rel,
    Value,
    children,
    is_batch,
    product_of,
    rebuild,
    walk,
)
from viewlet.calculus.scope import NONE, Names, inputs, outputs
from viewlet.calculus.text import to_text
from viewlet.errors import ProgramError
from viewlet.functions import demands_one_row


class Costs(Protocol):
    """What is known about the records that an access meets."""

    def is_single(self, factor: Expr, bound: Names) -> bool: ...
    def filters(self, factor: Expr) -> int: ...
    def distance(self, factor: Expr, bound: Names, placed: list[Expr]) -> int: ...


def schedule(expr: Expr, bound: Names = NONE, costs: Costs | None = None) -> Expr:
    """The same expression with every product in an order in which it can be evaluated.

    R(a) * {a < b} * S(b)  ->  R(a) * S(b) * {a < b}
    """
    parts = children(expr)
    if isinstance(expr, Mul):
        ordered = _order(list(parts), bound, costs)
    else:
        ordered = [schedule(part, bound, costs) for part in parts]
    # What is in order already stays the same node, with all that is remembered of it.
    if len(ordered) == len(parts) and all(a is b for a, b in zip(ordered, parts, strict=True)):
        return expr
    return product_of(*ordered) if isinstance(expr, Mul) else rebuild(expr, ordered)


def _order(factors: list[Expr], bound: Names, costs: Costs | None) -> list[Expr]:
    ordered: list[Expr] = []
    late = _late(factors)
    while factors:
        ready = [f for f in factors if _ready(f, bound)]
        early = [f for f in ready if id(f) not in late and outputs(f).isdisjoint(late.values())]
        ready = early or ready
        tests = [f for f in ready if isinstance(f, Cond | Value)]
        if tests:
            # All at once, because they bind nothing that would change what comes next.
            ordered += tests
            test_ids = set(map(id, tests))
            factors = [f for f in factors if id(f) not in test_ids]
            continue
        if not ready:
            unscheduled = to_text(product_of(*factors))
            raise ProgramError(f"no factor can be evaluated next in {unscheduled}")
        best = min(ready, key=lambda f: _rank(f, bound, ordered, factors, costs))
        factors.remove(best)
        ordered.append(schedule(best, bound, costs))
        bound |= outputs(best)
    return ordered


def _late(factors: list[Expr]) -> dict[int, str]:
    """What is computed for rows that are there alone, with the variables that it binds.

    Where rows say which subquery is meant, one of several rows is an error only for those rows.
    """
    correlated = {f.variable for f in factors if isinstance(f, NestedValue) and inputs(f)}
    return {
        id(f): f.variable if isinstance(f, Assign) else ""
        for f in factors
        if isinstance(f, Assign | Cond | Value)
        and demands_one_row(f.scalar)
        and not correlated.isdisjoint(inputs(f))
    }


def _ready(factor: Expr, bound: Names) -> bool:
    if not inputs(factor) <= bound:
        return False
    if isinstance(factor, Add):
        # Terms that bind different variables need the difference from outside.
        return len({outputs(term) - bound for term in factor.terms}) <= 1
    return True


def _rank(
    factor: Expr, bound: Names, placed: list[Expr], unscheduled: list[Expr], costs: Costs | None
) -> tuple[int, ...]:
    """Behind filters: computed values, then lookups, then the batch, then slices, then scans.

    Of lookups, those come first whose maps have passed conditions, then nested values that are
    lookups themselves and are tested at once, then those that drop no row unless it refers to
    nothing.
    """
    unbound = len(outputs(factor) - bound)
    if isinstance(factor, Assign):
        return (1,)
    if unbound == 0:
        nested = isinstance(factor, NestedValue)
        return (2, 1) if nested else (2, 0, -costs.filters(factor) if costs else 0, 1)
    if is_batch(factor):
        # ΔR before buffers of the batch: they can then be looked up, ΔR never can.
        return (3, 0 if isinstance(factor, Delta) else 1, unbound)
    if isinstance(factor, Each) and inputs(factor):
        # As many as were counted, of which each leads to a row, where a slice is of any size.
        return (3, 2, 0)
    if isinstance(factor, NestedValue):
        return (2, 0, 0, 0) if costs and _is_test(factor, bound, unscheduled) else (2, 2)
    touched = outputs(factor) & bound
    size = unbound * 2 + (not isinstance(factor, Rel | MapRef))
    if costs is None or not touched:
        return (4 if touched else 5, size)
    if costs.is_single(factor, bound):
        return (2, 0, -costs.filters(factor), 1)
    return (4, costs.distance(factor, bound, placed), size, -costs.filters(factor))


def _is_test(factor: NestedValue, bound: Names, unscheduled: list[Expr]) -> bool:
    """A nested value that is made of lookups, and that a condition waits for."""
    names_in_scope = bound | {factor.variable}
    return any(
        isinstance(f, Cond) and factor.variable in inputs(f) and inputs(f) <= names_in_scope
        for f in unscheduled
    ) and all(outputs(n) <= bound for n in walk(factor.body) if isinstance(n, MapRef | Delta))
