"""Delta rules, one for each node (thesis 2.2.3, 3.2.3 and 3.4.2).

    Δ(a + b)     = Δa + Δb                         ΔSum[k](q) = Sum[k](Δq)
    Δ(a * b)     = Δa * (b + Δb) + a * Δb          Δ[f] = Δ{c} = Δ(x := [f]) = 0
    Δ(x := q)    = dom * ((x := q + Δq) - (x := q))         dom = domain(Δq)
    ΔExists(q)   = dom * (Exists(q + Δq) - Exists(q))

The product rule of the thesis has three terms, Δa * b + a * Δb + Δa * Δb. The two-term form is the
same polynomial; with a flat and b nested it gives Δa * b_new + a * dom * (b_new - b_old), where the
three-term form would compute Δa * b_old twice with opposite signs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from viewlet.calculus.domains import domain
from viewlet.calculus.expr import (
    ONE,
    ZERO,
    Add,
    Delta,
    Expr,
    MapRef,
    Mul,
    Nested,
    Rel,
    Sum,
    factors_of,
    negate,
    product_of,
    rebuild,
    sum_of,
    sum_over,
)
from viewlet.calculus.fields import Rules
from viewlet.calculus.scope import Names, outputs

Change = Callable[[Rel | MapRef], Expr]
"""The change of an atom; ZERO for atoms that do not change."""


def batch(relation: str) -> Change:
    """The change that a batch ΔR makes: R(x) -> ΔR(x)."""

    def change(atom: Rel | MapRef) -> Expr:
        if isinstance(atom, Rel) and atom.name == relation:
            return Delta(atom.name, atom.variables)
        return ZERO

    return change


DELTAS: Rules[Callable[[Any, Change], Expr]] = Rules("delta rule")


def delta(expr: Expr, change: Change) -> Expr:
    """The change of an expression, not simplified."""
    return DELTAS[type(expr)](expr, change)


def no_delta(expr: Expr, change: Change) -> Expr:
    """Δ[f] = Δ{c} = Δ(x := [f]) = 0, and a batch is the same before and after."""
    return ZERO


def atom_delta(expr: Rel | MapRef, change: Change) -> Expr:
    """ΔR, as it is given."""
    return change(expr)


def add_delta(expr: Add, change: Change) -> Expr:
    """Δ(a + b) = Δa + Δb"""
    return sum_of(*(delta(term, change) for term in expr.terms))


def sum_delta(expr: Sum, change: Change) -> Expr:
    """ΔSum[k](q) = Sum[k](Δq)"""
    inner = delta(expr.body, change)
    return ZERO if inner == ZERO else sum_over(expr.keys, inner)


def mul_delta(expr: Mul, change: Change) -> Expr:
    """Δ(a * b) = Δa * (b + Δb) + a * Δb"""
    return _delta_product(expr.factors, change)


def nested_delta(expr: Nested, change: Change) -> Expr:
    """Δ(x := q) = domain(Δq) * ((x := q + Δq) - (x := q)), and the same for all nested nodes"""
    return _delta_product((expr,), change)


def _delta_product(factors: tuple[Expr, ...], change: Change) -> Expr:
    """The product rule, telescoped: sum over i of old_1 .. old_i-1 * Δ_i * new_i+1 .. new_n."""
    flat: list[tuple[Expr, Expr, Expr]] = []  # old, new, delta
    nested: list[tuple[Nested, Expr]] = []
    for factor in factors:
        if isinstance(factor, Nested):
            inner = delta(factor.body, change)
            if inner != ZERO:
                nested.append((factor, inner))
                continue
        own = delta(factor, change) if not isinstance(factor, Nested) else ZERO
        flat.append((factor, sum_of(factor, own), own))
    parts = flat + _nested_groups(nested)
    terms: list[Expr] = []
    for i, (_, _, own) in enumerate(parts):
        if own != ZERO:
            before = (old for old, _, _ in parts[:i])
            after = (new for _, new, _ in parts[i + 1 :])
            terms.append(product_of(own, *before, *after))
    return sum_of(*terms)


def _nested_groups(nested: list[tuple[Nested, Expr]]) -> list[tuple[Expr, Expr, Expr]]:
    """Nested factors that change together, as (old, new, delta).

    The sum and the count of one subquery change in the same places; taken as one factor they need
    one comparison of new and old, not two.
    """
    groups: dict[Names, list[tuple[Nested, Expr]]] = {}
    for factor, inner in nested:
        groups.setdefault(correlation(factor), []).append((factor, inner))
    changes = []
    for targets, members in groups.items():
        old = product_of(*(factor for factor, _ in members))
        new = product_of(*(rebuild(f, (sum_of(f.body, inner),)) for f, inner in members))
        where = domain([inner for _, inner in members], targets)
        changes.append((old, new, product_of(where or ONE, sum_of(new, negate(old)))))
    return changes


def correlation(factor: Nested) -> Names:
    """The variables that the body binds and that mean the same outside."""
    return outputs(factor.body) - factor.local


def unbounded(expr: Expr, change: Change) -> list[Expr]:
    """Nested factors whose change may touch everything are better recomputed (thesis 3.5)."""
    changes = ((f, delta(f.body, change)) for f in factors_of(expr) if isinstance(f, Nested))
    return [
        factor
        for factor, inner in changes
        if inner != ZERO and domain([inner], correlation(factor)) is None
    ]
