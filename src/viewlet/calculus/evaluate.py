"""The meaning of an expression: slow, direct, and the judge of everything faster (thesis 2.2.2).

[[q]](D, t) is the weighted relation over q's unbound output variables, where D gives the relations
and t the variables that are bound already. A rule for each node gives its rows; nodes.py says which
is whose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from viewlet.calculus.expr import (
    Add,
    Assign,
    Cond,
    Delta,
    Each,
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
from viewlet.calculus.fields import Rules
from viewlet.calculus.ring import Gmr, Key, Weight, to_value, to_weight
from viewlet.calculus.scope import outputs
from viewlet.functions import evaluate as evaluate_scalar
from viewlet.schema import Scalar, ordering, same

Environment = Mapping[str, Scalar]
Row = tuple[Environment, Weight]
"""A binding of variables, and a part of its weight."""


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


ROWS: Rules[Callable[[Any, Database, Environment], Iterator[Row]]] = Rules("meaning")


def rows(expr: Expr, database: Database, bound: Environment) -> Iterator[Row]:
    """The bindings under which the expression has weight, each with a part of that weight."""
    return ROWS[type(expr)](expr, database, bound)


def atom_rows(expr: Rel | Delta | MapRef, database: Database, bound: Environment) -> Iterator[Row]:
    """R(x, y): the tuples of R that agree with what is bound."""
    variables = expr.arguments
    positions = tuple(i for i, name in enumerate(variables) if name in bound)
    part = tuple(bound[variables[i]] for i in positions)
    for key, weight in database.contents(expr).slice(positions, part):
        row = {**bound, **dict(zip(variables, key, strict=True))}
        # A variable that stands twice in the atom must have one value.
        if all(same(row[name], value) for name, value in zip(variables, key, strict=True)):
            yield row, weight


def value_rows(expr: Value, database: Database, bound: Environment) -> Iterator[Row]:
    """[f(x)]: the empty tuple, weighing the number."""
    weight = to_weight(evaluate_scalar(expr.scalar, bound))
    if weight != 0:
        yield bound, weight


def cond_rows(expr: Cond, database: Database, bound: Environment) -> Iterator[Row]:
    """{f(x)}: the empty tuple where the condition is TRUE."""
    if evaluate_scalar(expr.scalar, bound) is True:
        yield bound, 1


def assign_rows(expr: Assign, database: Database, bound: Environment) -> Iterator[Row]:
    """(x := [f(y)]): the one tuple in which x is the value."""
    yield from _bind(bound, expr.variable, evaluate_scalar(expr.scalar, bound))


def each_rows(expr: Each, database: Database, bound: Environment) -> Iterator[Row]:
    """(x := up to [f(y)]): a tuple for each of 1, 2, ... up to the value."""
    last = evaluate_scalar(expr.scalar, bound)
    assert last is None or isinstance(last, int)
    for number in range(1, (last or 0) + 1):
        yield from _bind(bound, expr.variable, number)


def add_rows(expr: Add, database: Database, bound: Environment) -> Iterator[Row]:
    """a + b: the tuples of both."""
    for term in expr.terms:
        yield from rows(term, database, bound)


def mul_rows(expr: Mul, database: Database, bound: Environment) -> Iterator[Row]:
    """a * b: each tuple of a with those of b that agree with it, weights multiplied."""
    return _product_rows(expr.factors, database, bound)


def _product_rows(
    factors: tuple[Expr, ...], database: Database, bound: Environment
) -> Iterator[Row]:
    if not factors:
        yield bound, 1
        return
    for row, left in rows(factors[0], database, bound):
        for full, right in _product_rows(factors[1:], database, row):
            yield full, left * right


def sum_rows(expr: Sum, database: Database, bound: Environment) -> Iterator[Row]:
    """Sum[x](q): q's tuples over x alone, weights added up."""
    for key, weight in _grouped(expr.body, expr.keys, database, bound).items():
        yield {**bound, **dict(zip(expr.keys, key, strict=True))}, weight


def exists_rows(expr: Exists, database: Database, bound: Environment) -> Iterator[Row]:
    """Exists(q): q's tuples, each weighing 1."""
    keys = tuple(sorted(outputs(expr.body)))
    for key, _ in _grouped(expr.body, keys, database, bound).items():
        yield {**bound, **dict(zip(keys, key, strict=True))}, 1


def lift_rows(expr: Lift, database: Database, bound: Environment) -> Iterator[Row]:
    """(x := q): x is q's weight, 0 where all of q's variables are bound and it has none."""
    free = tuple(sorted(outputs(expr.body) - bound.keys()))
    totals = _grouped(expr.body, free, database, bound)
    if not free and not totals:
        totals = {(): 0}
    for key, weight in totals.items():
        row = {**bound, **dict(zip(free, key, strict=True))}
        yield from _bind(row, expr.variable, to_value(weight))


def extreme_rows(expr: Extreme, database: Database, bound: Environment) -> Iterator[Row]:
    """(x := min y in q): x is the least y of q's tuples that is not NULL, NULL if there is none."""
    inner = {name: value for name, value in bound.items() if name != expr.target}
    free = tuple(sorted(outputs(expr.body) - inner.keys() - {expr.target}))
    best: dict[Key, Scalar] = {} if free else {(): None}
    choose = min if expr.kind == "min" else max
    for (*key, value), _ in _grouped(expr.body, (*free, expr.target), database, inner).items():
        group = tuple(key)
        old = best.get(group)
        if value is not None:
            best[group] = value if old is None else choose(old, value, key=ordering)
        else:
            best.setdefault(group, None)
    for group, value in best.items():
        row = {**bound, **dict(zip(free, group, strict=True))}
        yield from _bind(row, expr.variable, value)


def _bind(bound: Environment, variable: str, value: Scalar) -> Iterator[Row]:
    """Bind the variable, or compare where it is bound already."""
    if variable not in bound:
        yield {**bound, variable: value}, 1
    elif same(bound[variable], value):
        yield bound, 1


def _grouped(
    body: Expr, keys: tuple[str, ...], database: Database, bound: Environment
) -> dict[Key, Weight]:
    """Total weight per key; keys that add up to nothing are left out."""
    totals: dict[Key, Weight] = {}
    for row, weight in rows(body, database, bound):
        key = tuple(row[name] for name in keys)
        totals[key] = totals.get(key, 0) + weight
    return {key: weight for key, weight in totals.items() if weight != 0}
