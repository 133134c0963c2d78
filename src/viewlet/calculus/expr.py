"""The nodes of the calculus and the constructors that build them in normal form.

    q ::= R(x, y) | ΔR(x, y) | M[x, y].column        relations, their deltas, materialised maps
        | c | x | [f(x, y)]                          values: the weight is the number
        | {x < y}                                    conditions: weight 1 where TRUE, else 0
        | (x := [f(y)]) | (x := q)                   assignment; lift of a weight to a value
        | (x := min y in q) | (x := max y in q)      lift of an extreme value of q's support
        | Exists(q) | Sum[x, y](q) | q + q | q * q

A node maps tuples over its output variables to weights, given values for its input variables
(scope.py). Products pass bindings from left to right. Other modules build nodes with the lower-case
functions below, never with the dataclasses: those functions keep the invariants that

    sums and products are flat, have no neutral or absorbing parts and at least two members,
    a product has at most one constant, in front,
    conditions are single conjuncts, and lifts of plain values are assignments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

from viewlet.functions import Apply, Const, Ref, ScalarExpr, apply, conjuncts, evaluate
from viewlet.schema import Scalar

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def _node(cls: type[T]) -> type[T]:
    """A frozen dataclass that computes its hash once: nodes are shared, and looked up often."""
    made = dataclass(frozen=True)(cls)
    compute = made.__hash__

    def cached(self: T) -> int:
        known: int | None = self.__dict__.get("_hash")
        if known is None:
            known = compute(self)
            self.__dict__["_hash"] = known
        return known

    made.__hash__ = cached  # type: ignore[assignment, method-assign]
    return made


@_node
class Rel:
    """A base relation: its rows and how often each occurs."""

    name: str
    variables: tuple[str, ...]


@_node
class Delta:
    """The change that a batch makes to a base relation."""

    name: str
    variables: tuple[str, ...]


@_node
class MapRef:
    """One value column of a materialised map."""

    name: str
    column: str
    keys: tuple[str, ...]


@_node
class Value:
    """The weight of the empty tuple is the number; NULL weighs 0."""

    scalar: ScalarExpr


@_node
class Cond:
    """Weight 1 where the scalar is TRUE, 0 where it is FALSE or NULL."""

    scalar: ScalarExpr


@_node
class Assign:
    """Binds a variable to a scalar's value, with weight 1; compares where it is bound already."""

    variable: str
    scalar: ScalarExpr


@_node
class Lift:
    """Binds a variable to the weight of the body, with weight 1; compares where it is bound.

    Where all of the body's variables are bound there is exactly one such tuple, and a body that
    finds nothing gives the value 0.
    """

    variable: str
    body: Expr


@_node
class Extreme:
    """Binds a variable to the least or greatest non-NULL `target` of the body, NULL if none."""

    variable: str
    kind: str
    target: str
    body: Expr


@_node
class Exists:
    """Weight 1 where the body's weight is not 0."""

    body: Expr


@_node
class Sum:
    """Projection to the keys, adding up the weights."""

    keys: tuple[str, ...]
    body: Expr


@_node
class Add:
    terms: tuple[Expr, ...]


@_node
class Mul:
    factors: tuple[Expr, ...]


Expr = Rel | Delta | MapRef | Value | Cond | Assign | Lift | Extreme | Exists | Sum | Add | Mul
Atom = Rel | Delta | MapRef
Nested = Lift | Extreme | Exists
"""Nodes whose weight is not linear in their body."""

PRESENCE = "*"
"""The column of every map that weighs 1 where the map has a record: any of its columns is not 0."""

BUFFER = "d_"
"""The start of a buffer's name: d_m holds the change of map m in the running trigger."""

ZERO = Value(Const(0))
ONE = Value(Const(1))


def constant(number: Scalar) -> Expr:
    return Value(Const(number))


def is_constant(expr: Expr) -> bool:
    return isinstance(expr, Value) and isinstance(expr.scalar, Const)


def value_of(scalar: ScalarExpr) -> Expr:
    """[a * b] -> [a] * [b],  [neg(a)] -> -1 * [a];  a NULL on either side weighs 0 in both forms.

    [a + b] is left whole here: where a is NULL it weighs 0, and [a] + [b] would weigh b. The
    frontend, which knows what can be NULL, splits sums with `polynomial`.
    """
    if isinstance(scalar, Const) and scalar.value is None:
        return ZERO
    if isinstance(scalar, Apply):
        if scalar.function == "*":
            return product_of(*(value_of(a) for a in scalar.arguments))
        if scalar.function == "neg":
            return product_of(constant(-1), value_of(scalar.arguments[0]))
    return Value(scalar)


def polynomial(scalar: ScalarExpr) -> Expr:
    """A number without NULLs as a polynomial:  [a * (b - c)] -> [a] * ([b] + -1 * [c])"""
    if isinstance(scalar, Apply):
        parts = (
            [polynomial(a) for a in scalar.arguments] if scalar.function in ("+", "-", "*") else []
        )
        if scalar.function == "+":
            return sum_of(*parts)
        if scalar.function == "-":
            return sum_of(parts[0], negate(parts[1]))
        if scalar.function == "*":
            return product_of(*parts)
        if scalar.function == "neg":
            return negate(polynomial(scalar.arguments[0]))
    return value_of(scalar)


def cond(scalar: ScalarExpr) -> Expr:
    """{a and b} -> {a} * {b},  {TRUE} -> 1,  {FALSE} -> 0,  {NULL} -> 0"""
    parts = conjuncts(scalar)
    if len(parts) != 1:
        return product_of(*(cond(part) for part in parts))
    if isinstance(parts[0], Const):
        return ONE if parts[0].value is True else ZERO
    return Cond(parts[0])


def assign(variable: str, scalar: ScalarExpr) -> Expr:
    return ONE if scalar == Ref(variable) else Assign(variable, scalar)


def lift(variable: str, body: Expr) -> Expr:
    """(x := value) is an assignment."""
    if isinstance(body, Value):
        return assign(variable, body.scalar)
    return Lift(variable, body)


def extreme(variable: str, kind: str, target: str, body: Expr) -> Expr:
    if body == ZERO:
        return Assign(variable, Const(None))
    return Extreme(variable, kind, target, body)


def exists_of(body: Expr) -> Expr:
    """Exists(Exists(q)) -> Exists(q),  Exists({c}) -> {c},  Exists(3 * q) -> Exists(q)"""
    if is_constant(body):
        return ZERO if body == ZERO else ONE
    if is_zero_one(body):
        return body
    if isinstance(body, Mul) and is_constant(body.factors[0]):
        return exists_of(product_of(*body.factors[1:]))
    return Exists(body)


def is_zero_one(expr: Expr) -> bool:
    """Nodes whose weights are 0 or 1 by construction."""
    if isinstance(expr, Mul):
        return all(is_zero_one(f) for f in expr.factors)
    if isinstance(expr, MapRef):
        return expr.column == PRESENCE
    return expr == ONE or isinstance(expr, Exists | Cond | Assign | Lift | Extreme)


def sum_over(keys: Iterable[str], body: Expr) -> Expr:
    """Sum[k](c) -> c,  Sum[k](c * q) -> c * Sum[k](q),  Sum[k](Sum[k, l](q)) -> Sum[k](q)"""
    keys = tuple(sorted(set(keys)))
    if is_constant(body):
        return body
    if isinstance(body, Mul) and is_constant(body.factors[0]):
        return product_of(body.factors[0], sum_over(keys, product_of(*body.factors[1:])))
    if isinstance(body, Sum):
        return Sum(keys, body.body)
    return Sum(keys, body)


def negate(expr: Expr) -> Expr:
    return product_of(constant(-1), expr)


def sum_of(*terms: Expr) -> Expr:
    """q + 0 -> q,  (a + b) + c -> a + b + c,  1 + 2 -> 3"""
    flat: list[Expr] = []
    total: Expr = ZERO
    for term in _flatten(terms, Add):
        if is_constant(term):
            total = _fold("+", total, term)
        else:
            flat.append(term)
    if total != ZERO:
        flat.append(total)
    if not flat:
        return ZERO
    return flat[0] if len(flat) == 1 else Add(tuple(flat))


def product_of(*factors: Expr) -> Expr:
    """q * 1 -> q,  q * 0 -> 0,  (a * b) * c -> a * b * c,  2 * q * 3 -> 6 * q"""
    flat: list[Expr] = []
    coefficient: Expr = ONE
    for factor in _flatten(factors, Mul):
        if is_constant(factor):
            coefficient = _fold("*", coefficient, factor)
        else:
            flat.append(factor)
    if isinstance(coefficient, Value) and coefficient.scalar in (Const(0), Const(0.0)):
        return ZERO
    if coefficient != ONE or not flat:
        flat.insert(0, coefficient)
    return flat[0] if len(flat) == 1 else Mul(tuple(flat))


def _flatten(parts: Iterable[Expr], kind: type[Add] | type[Mul]) -> Iterator[Expr]:
    for part in parts:
        if isinstance(part, kind):
            yield from part.terms if isinstance(part, Add) else part.factors
        else:
            yield part


def _fold(operator: str, left: Expr, right: Expr) -> Expr:
    assert isinstance(left, Value) and isinstance(right, Value)
    return Value(Const(evaluate(apply(operator, left.scalar, right.scalar), {})))


def terms_of(expr: Expr) -> tuple[Expr, ...]:
    """The members of a sum; a sum of one is itself, zero has none."""
    if isinstance(expr, Add):
        return expr.terms
    return () if expr == ZERO else (expr,)


def factors_of(expr: Expr) -> tuple[Expr, ...]:
    """The members of a product; a product of one is itself, one has none."""
    if isinstance(expr, Mul):
        return expr.factors
    return () if expr == ONE else (expr,)


def children(expr: Expr) -> tuple[Expr, ...]:
    if isinstance(expr, Add):
        return expr.terms
    if isinstance(expr, Mul):
        return expr.factors
    if isinstance(expr, Lift | Extreme | Exists | Sum):
        return (expr.body,)
    return ()


def rebuild(expr: Expr, parts: Iterable[Expr]) -> Expr:
    """The same node over other children, normalised."""
    parts = tuple(parts)
    if isinstance(expr, Add):
        return sum_of(*parts)
    if isinstance(expr, Mul):
        return product_of(*parts)
    if isinstance(expr, Lift):
        return lift(expr.variable, parts[0])
    if isinstance(expr, Extreme):
        return extreme(expr.variable, expr.kind, expr.target, parts[0])
    if isinstance(expr, Exists):
        return exists_of(parts[0])
    if isinstance(expr, Sum):
        return sum_over(expr.keys, parts[0])
    return expr


def transform(expr: Expr, rule: Callable[[Expr], Expr]) -> Expr:
    """Apply a rule to every node, children first."""
    parts = children(expr)
    if parts:
        new = tuple(transform(part, rule) for part in parts)
        if any(a is not b for a, b in zip(new, parts, strict=True)):
            expr = rebuild(expr, new)
    return rule(expr)


def walk(expr: Expr) -> Iterator[Expr]:
    """Every node, parents first."""
    yield expr
    for part in children(expr):
        yield from walk(part)


def relations(expr: Expr) -> frozenset[str]:
    """The base relations that the expression reads."""
    return frozenset(node.name for node in walk(expr) if isinstance(node, Rel))


def is_buffer(expr: Expr) -> bool:
    return isinstance(expr, MapRef) and expr.name.startswith(BUFFER)


def is_batch(expr: Expr) -> bool:
    """Made of the batch alone: ΔR, buffers, and Exists over them, with whatever filters."""
    atoms = [node for node in walk(expr) if isinstance(node, Rel | Delta | MapRef)]
    if not atoms or isinstance(expr, Lift | Extreme):
        return False
    return all(isinstance(atom, Delta) or is_buffer(atom) for atom in atoms)
