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

from viewlet.calculus.domains import domain
from viewlet.calculus.expr import (
    ONE,
    ZERO,
    Add,
    Assign,
    Delta,
    Exists,
    Expr,
    Extreme,
    Lift,
    MapRef,
    Mul,
    Rel,
    Sum,
    constant,
    exists_of,
    extreme,
    factors_of,
    lift,
    negate,
    product_of,
    sum_of,
    sum_over,
    transform,
)
from viewlet.calculus.scope import Names, outputs
from viewlet.functions import Ref

Change = Callable[[Rel | MapRef], Expr]
"""The change of an atom; ZERO for atoms that do not change."""


def batch(relation: str) -> Change:
    """The change that a batch ΔR makes: R(x) -> ΔR(x)."""

    def change(atom: Rel | MapRef) -> Expr:
        if isinstance(atom, Rel) and atom.name == relation:
            return Delta(atom.name, atom.variables)
        return ZERO

    return change


def delta(expr: Expr, change: Change) -> Expr:
    """The change of an expression, not simplified."""
    if isinstance(expr, Rel | MapRef):
        return change(expr)
    if isinstance(expr, Add):
        return sum_of(*(delta(term, change) for term in expr.terms))
    if isinstance(expr, Sum):
        inner = delta(expr.body, change)
        return ZERO if inner == ZERO else sum_over(expr.keys, inner)
    if isinstance(expr, Mul):
        return _delta_product(expr.factors, change)
    if isinstance(expr, Lift | Extreme | Exists):
        return _delta_product((expr,), change)
    return ZERO


def _delta_product(factors: tuple[Expr, ...], change: Change) -> Expr:
    """The product rule, telescoped: sum over i of old_1 .. old_i-1 * Δ_i * new_i+1 .. new_n."""
    flat: list[tuple[Expr, Expr, Expr]] = []  # old, new, delta
    nested: list[tuple[Lift | Extreme | Exists, Expr]] = []
    for factor in factors:
        if isinstance(factor, Lift | Extreme | Exists):
            inner = delta(factor.body, change)
            if inner != ZERO:
                nested.append((factor, inner))
                continue
        own = delta(factor, change) if not isinstance(factor, Lift | Extreme | Exists) else ZERO
        flat.append((factor, sum_of(factor, own), own))
    parts = flat + _nested_groups(nested)
    terms: list[Expr] = []
    for i, (_, _, own) in enumerate(parts):
        if own != ZERO:
            before = (old for old, _, _ in parts[:i])
            after = (new for _, new, _ in parts[i + 1 :])
            terms.append(product_of(own, *before, *after))
    return sum_of(*terms)


def _nested_groups(
    nested: list[tuple[Lift | Extreme | Exists, Expr]],
) -> list[tuple[Expr, Expr, Expr]]:
    """Nested factors that change together, as (old, new, delta).

    The sum and the count of one subquery change in the same places; taken as one factor they need
    one comparison of new and old, not two.
    """
    groups: dict[Names, list[tuple[Lift | Extreme | Exists, Expr]]] = {}
    for factor, inner in nested:
        groups.setdefault(_targets(factor), []).append((factor, inner))
    found = []
    for targets, members in groups.items():
        old = product_of(*(factor for factor, _ in members))
        new = product_of(*(_with_body(f, sum_of(f.body, inner)) for f, inner in members))
        where = domain(_comparable(members), targets)
        found.append((old, new, product_of(where or ONE, sum_of(new, negate(old)))))
    return found


def _targets(factor: Lift | Extreme | Exists) -> Names:
    target = {factor.target} if isinstance(factor, Extreme) else set()
    return outputs(factor.body) - target


def _comparable(members: list[tuple[Lift | Extreme | Exists, Expr]]) -> list[Expr]:
    return [
        sum_over(_targets(f), exists_of(inner)) if isinstance(f, Extreme) else inner
        for f, inner in members
    ]


def _with_body(factor: Lift | Extreme | Exists, body: Expr) -> Expr:
    if isinstance(factor, Lift):
        return lift(factor.variable, body)
    if isinstance(factor, Extreme):
        return extreme(factor.variable, factor.kind, factor.target, body)
    return exists_of(body)


def unbounded(expr: Expr, change: Change) -> list[Expr]:
    """The nested factors whose change may touch everything: those are better recomputed (3.5)."""
    found: list[Expr] = []
    for factor in factors_of(expr):
        if isinstance(factor, Lift | Extreme | Exists):
            inner = delta(factor.body, change)
            if inner != ZERO and domain(_comparable([(factor, inner)]), _targets(factor)) is None:
                found.append(factor)
    return found


def single_tuple(expr: Expr, relation: str, sign: int, parameters: tuple[str, ...]) -> Expr:
    """ΔR(x, y) -> ±(x := @x) * (y := @y): the batch delta for one inserted or deleted tuple."""

    def rule(node: Expr) -> Expr:
        if isinstance(node, Delta) and node.name == relation:
            binds = (
                Assign(variable, Ref(parameter))
                for variable, parameter in zip(node.variables, parameters, strict=True)
            )
            return product_of(constant(sign), *binds)
        return node

    return transform(expr, rule)
