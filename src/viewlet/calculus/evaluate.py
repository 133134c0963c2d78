"""The meaning of an expression: slow, direct, and the judge of everything faster (thesis 2.2.2).

[[q]](D, t) is the weighted relation over q's unbound output variables, where D gives the relations
and t the variables that are bound already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from viewlet.calculus.expr import (
    Add,
    Assign,
    Cond,
    Delta,
    Exists,
    Expr,
    Extreme,
    Lift,
    MapRef,
    Mul,
    Rel,
    Sum,
    Value,
)
from viewlet.calculus.ring import Gmr, Key, Weight, to_value, to_weight
from viewlet.calculus.scope import outputs
from viewlet.functions import evaluate as evaluate_scalar
from viewlet.schema import Scalar

Environment = Mapping[str, Scalar]


class Database(Protocol):
    """Where atoms find their contents."""

    def contents(self, atom: Rel | Delta | MapRef) -> Gmr: ...


def evaluate(
    expr: Expr, keys: tuple[str, ...], database: Database, bound: Environment | None = None
) -> Gmr:
    """The expression's tuples over `keys`, other variables summed out."""
    result = Gmr()
    for row, weight in rows(expr, database, bound or {}):
        result.add(tuple(row[key] for key in keys), weight)
    return result


def rows(
    expr: Expr, database: Database, bound: Environment
) -> Iterator[tuple[Environment, Weight]]:
    """The bindings under which the expression has weight, each with a part of that weight."""
    if isinstance(expr, Value):
        weight = to_weight(evaluate_scalar(expr.scalar, bound))
        if weight != 0:
            yield bound, weight
    elif isinstance(expr, Cond):
        if evaluate_scalar(expr.scalar, bound) is True:
            yield bound, 1
    elif isinstance(expr, Assign):
        yield from _bind(bound, expr.variable, evaluate_scalar(expr.scalar, bound))
    elif isinstance(expr, Rel | Delta):
        yield from _atom_rows(database.contents(expr), expr.variables, bound)
    elif isinstance(expr, MapRef):
        yield from _atom_rows(database.contents(expr), expr.keys, bound)
    elif isinstance(expr, Add):
        for term in expr.terms:
            yield from rows(term, database, bound)
    elif isinstance(expr, Mul):
        yield from _product_rows(expr.factors, database, bound)
    elif isinstance(expr, Sum):
        for key, weight in _grouped(expr.body, expr.keys, database, bound).items():
            yield {**bound, **dict(zip(expr.keys, key, strict=True))}, weight
    elif isinstance(expr, Exists):
        keys = tuple(sorted(outputs(expr.body)))
        for key, _ in _grouped(expr.body, keys, database, bound).items():
            yield {**bound, **dict(zip(keys, key, strict=True))}, 1
    elif isinstance(expr, Lift):
        yield from _lift_rows(expr, database, bound)
    else:
        yield from _extreme_rows(expr, database, bound)


def _bind(bound: Environment, variable: str, value: Scalar) -> Iterator[tuple[Environment, Weight]]:
    """Bind the variable, or compare where it is bound already."""
    if variable not in bound:
        yield {**bound, variable: value}, 1
    elif bound[variable] == value:
        yield bound, 1


def _atom_rows(
    contents: Gmr, variables: tuple[str, ...], bound: Environment
) -> Iterator[tuple[Environment, Weight]]:
    positions = tuple(i for i, name in enumerate(variables) if name in bound)
    part = tuple(bound[variables[i]] for i in positions)
    for key, weight in contents.slice(positions, part):
        row = {**bound, **dict(zip(variables, key, strict=True))}
        # A variable that stands twice in the atom must have one value.
        if all(row[name] == value for name, value in zip(variables, key, strict=True)):
            yield row, weight


def _product_rows(
    factors: tuple[Expr, ...], database: Database, bound: Environment
) -> Iterator[tuple[Environment, Weight]]:
    if not factors:
        yield bound, 1
        return
    for row, left in rows(factors[0], database, bound):
        for full, right in _product_rows(factors[1:], database, row):
            yield full, left * right


def _grouped(
    body: Expr, keys: tuple[str, ...], database: Database, bound: Environment
) -> dict[Key, Weight]:
    """Total weight per key; keys that add up to nothing are left out."""
    totals: dict[Key, Weight] = {}
    for row, weight in rows(body, database, bound):
        key = tuple(row[name] for name in keys)
        totals[key] = totals.get(key, 0) + weight
    return {key: weight for key, weight in totals.items() if weight != 0}


def _lift_rows(
    expr: Lift, database: Database, bound: Environment
) -> Iterator[tuple[Environment, Weight]]:
    free = tuple(sorted(outputs(expr.body) - bound.keys()))
    totals = _grouped(expr.body, free, database, bound)
    if not free and not totals:
        totals = {(): 0}
    for key, weight in totals.items():
        row = {**bound, **dict(zip(free, key, strict=True))}
        yield from _bind(row, expr.variable, to_value(weight))


def _extreme_rows(
    expr: Extreme, database: Database, bound: Environment
) -> Iterator[tuple[Environment, Weight]]:
    inner = {name: value for name, value in bound.items() if name != expr.target}
    free = tuple(sorted(outputs(expr.body) - inner.keys() - {expr.target}))
    best: dict[Key, Scalar] = {} if free else {(): None}
    choose = min if expr.kind == "min" else max
    for (*key, value), _ in _grouped(expr.body, (*free, expr.target), database, inner).items():
        group = tuple(key)
        old = best.get(group)
        if value is not None:
            best[group] = value if old is None else choose(old, value)
        else:
            best.setdefault(group, None)
    for group, value in best.items():
        row = {**bound, **dict(zip(free, group, strict=True))}
        yield from _bind(row, expr.variable, value)
