"""The order of factors: bindings flow from left to right, cheap and selective factors first."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
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
from viewlet.calculus.fields import remembered
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
    if not parts:
        return expr
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
    late_variables = frozenset(late.values())
    tested = _tested_variables(factors) if costs is not None else {}
    blocked = list(enumerate(factors))
    ready: list[tuple[int, Expr]] = []
    ranks: dict[int, tuple[bool, tuple[int, ...]]] = {}
    looked_at: Names | None = None

    def rank(position: int, factor: Expr) -> tuple[int, ...]:
        """A lookup is one whatever is bound besides, and so is a value that no condition waits for:
        their ranks stay."""
        is_lookup = outputs(factor) <= bound
        if position in ranks and ranks[position][0] == is_lookup:
            return ranks[position][1]
        own = _rank(factor, bound, ordered, tested, costs)
        if is_lookup or (isinstance(factor, NestedValue) and factor.variable not in tested):
            ranks[position] = is_lookup, own
        return own

    while blocked or ready:
        # What can be evaluated stays so: only what waits is looked at again, when more is bound.
        now = [pair for pair in blocked if _ready(pair[1], bound)] if bound != looked_at else []
        looked_at = bound
        if now:
            now_positions = {position for position, _ in now}
            blocked = [pair for pair in blocked if pair[0] not in now_positions]
            ready = sorted((*ready, *now), key=itemgetter(0))
        candidates = ready
        if late:
            early = [
                pair
                for pair in ready
                if id(pair[1]) not in late and outputs(pair[1]).isdisjoint(late_variables)
            ]
            candidates = early or ready
        tests = [pair for pair in candidates if isinstance(pair[1], Cond | Value)]
        if tests:
            # All at once, because they bind nothing that would change what comes next.
            ordered += [factor for _, factor in tests]
            test_positions = {position for position, _ in tests}
            ready = [pair for pair in ready if pair[0] not in test_positions]
            continue
        if not ready:
            unscheduled = to_text(product_of(*(factor for _, factor in blocked)))
            raise ProgramError(f"no factor can be evaluated next in {unscheduled}")
        best = min(candidates, key=lambda pair: rank(*pair))
        ready.remove(best)
        ordered.append(schedule(best[1], bound, costs))
        bound |= outputs(best[1])
    return ordered


def _tested_variables(factors: list[Expr]) -> dict[str, list[Names]]:
    """For each variable what the conditions on it need."""
    tested: dict[str, list[Names]] = {}
    for factor in factors:
        if isinstance(factor, Cond):
            for name in inputs(factor):
                tested.setdefault(name, []).append(inputs(factor))
    return tested


def _late(factors: list[Expr]) -> dict[int, str]:
    """What is computed for rows that are there alone, with the variables that it binds.

    Where rows say which subquery is meant, one of several rows is an error only for those rows.
    """
    correlated = {f.variable for f in factors if isinstance(f, NestedValue) and inputs(f)}
    if not correlated:
        return {}
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
    factor: Expr,
    bound: Names,
    placed: list[Expr],
    tested: Mapping[str, list[Names]],
    costs: Costs | None,
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
        return (2, 0, 0, 0) if costs and _is_test(factor, bound, tested) else (2, 2)
    touched = outputs(factor) & bound
    size = unbound * 2 + (not isinstance(factor, Rel | MapRef))
    if costs is None or not touched:
        return (4 if touched else 5, size)
    if costs.is_single(factor, bound):
        return (2, 0, -costs.filters(factor), 1)
    return (4, costs.distance(factor, bound, placed), size, -costs.filters(factor))


def _is_test(factor: NestedValue, bound: Names, tested: Mapping[str, list[Names]]) -> bool:
    """A nested value that is made of lookups, and that a condition waits for."""
    names_in_scope = bound | {factor.variable}
    conditions = tested.get(factor.variable, ())
    return any(needs <= names_in_scope for needs in conditions) and _looked_up(factor) <= bound


@remembered
def _looked_up(factor: NestedValue) -> Names:
    """What must be bound for the body to be made of lookups."""
    atoms = (node for node in walk(factor.body) if isinstance(node, MapRef | Delta))
    return NONE.union(*(outputs(atom) for atom in atoms))
