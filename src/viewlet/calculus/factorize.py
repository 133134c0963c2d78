"""Factoring: the polynomial expansion in reverse, once normal form is not needed (thesis 3.1.3).

`separate` takes loops apart that have nothing to do with each other,

    Sum[](a(x) * b(y))        ->  Sum[](a(x)) * Sum[](b(y))

and `factorize` collects what terms have in common:

    a * b + a * c             ->  a * (b + c)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from viewlet.calculus.expr import (
    Add,
    Atom,
    Binder,
    Expr,
    Mul,
    Sum,
    factors_of,
    is_batch,
    mapped,
    product_of,
    sum_of,
    sum_over,
    terms_of,
)
from viewlet.calculus.schedule import Costs
from viewlet.calculus.scope import NONE, Names, inputs, outputs, visible


def separate(expr: Expr, shown: Names, bound: Names = NONE, costs: Costs | None = None) -> Expr:
    """Independent loops of every product, each summed by itself.

    `shown` are the variables that the surroundings read. The factor that drives the loop, a batch
    if there is one, stays outside, and so does what binds a shown variable, meets one record at
    most or is the only loop.
    """
    if isinstance(expr, Add):
        return sum_of(*(separate(term, shown, bound, costs) for term in expr.terms))
    if isinstance(expr, Sum):
        inner = separate(expr.body, frozenset(expr.keys), bound, costs)
        return inner if outputs(inner) <= frozenset(expr.keys) else sum_over(expr.keys, inner)
    if isinstance(expr, Mul):
        return _separate_product(expr.factors, shown, bound, costs)
    return mapped(expr, part=lambda body: separate(body, outputs(body), bound, costs))


def _separate_product(
    factors: tuple[Expr, ...], shown: Names, bound: Names, costs: Costs | None
) -> Expr:
    remaining: list[Expr] = []
    unbound: list[Expr] = []
    for factor in factors:
        if is_batch(factor):
            remaining.append(factor)
            bound |= outputs(factor)
        else:
            unbound.append(factor)
    progress = True
    while progress:
        progress = False
        for factor in list(unbound):
            computed = isinstance(factor, Binder)
            single = costs is not None and costs.is_single(factor, bound)
            if single or (inputs(factor) if computed else visible(factor)) <= bound:
                unbound.remove(factor)
                remaining.append(factor)
                bound |= outputs(factor)
                progress = True
    groups = connected(unbound, bound)
    alone = len(groups) == 1 and not any(is_batch(f) for f in remaining)
    summed: list[Expr] = []
    for group in groups:
        loops = [f for f in group if outputs(f)]
        # A join of maps stays a loop, so that all columns of a statement share it; a map with
        # conditions is summed, by a range of an ordered index if it can.
        alone |= len(groups) == 1 and len(loops) == len(group) > 1
        if alone or not loops or any(outputs(f) & shown - bound for f in loops):
            remaining += group
        else:
            product = product_of(*group)
            summed.append(sum_over(outputs(product) & bound, product))
    separated = [separate(f, outputs(f), bound, costs) for f in remaining]
    return product_of(*separated, *summed)


def connected(factors: Iterable[Expr], bound: Names) -> list[list[Expr]]:
    """Groups of factors that share a variable which is not bound."""
    groups: list[tuple[Names, list[Expr]]] = []
    for factor in factors:
        names = visible(factor) - bound
        joined = [g for g in groups if g[0] & names]
        groups = [g for g in groups if not g[0] & names]
        groups.append(
            (names.union(*(g[0] for g in joined)), [f for g in joined for f in g[1]] + [factor])
        )
    return [members for _, members in groups]


def factorize(expr: Expr) -> Expr:
    """a * b + a * c -> a * (b + c), greedily by the factor that most terms share."""
    terms = terms_of(expr)
    if len(terms) < 2:
        return expr
    uses = Counter(f for term in terms for f in dict.fromkeys(factors_of(term)) if _may_move(f))
    shared = [f for f, times in uses.most_common() if times > 1]
    if not shared:
        return expr
    common = max(shared, key=lambda f: (uses[f], isinstance(f, Atom)))
    inside = [_without(term, common) for term in terms if common in factors_of(term)]
    outside = [term for term in terms if common not in factors_of(term)]
    gathered = product_of(common, factorize(sum_of(*inside)))
    return sum_of(gathered, factorize(sum_of(*outside))) if outside else gathered


def _may_move(factor: Expr) -> bool:
    """Factors that need nothing from the left may stand in front of the rest."""
    return not inputs(factor)


def _without(term: Expr, factor: Expr) -> Expr:
    factors = list(factors_of(term))
    factors.remove(factor)
    return product_of(*factors)
