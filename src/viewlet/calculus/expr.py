"""The nodes of the calculus and the constructors that build them in normal form.

    q ::= R(x, y) | ΔR(x, y) | M[x, y].column        relations, their deltas, materialized maps
        | c | x | [f(x, y)]                          values: the weight is the number
        | {x < y}                                    conditions: weight 1 where TRUE, else 0
        | (x := [f(y)]) | (x := q)                   assignment; lift of a weight to a value
        | (x := min y in q) | (x := max y in q)      lift of an extreme value of q's support
        | (x := up to [f(y)])                         x is each of 1, 2, ... up to the value
        | Exists(q) | Sum[x, y](q) | q + q | q * q

A node maps tuples over its output variables to weights, given values for its input variables
(scope.py). Products pass bindings from left to right. Other modules build nodes with the lower-case
functions below, never with the dataclasses: those functions keep the invariants that

    sums and products are flat, have no neutral or absorbing parts and at least two members,
    a product has at most one constant, in front,
    conditions are single conjuncts, and lifts of plain values are assignments.

What a node means, binds, prints as and how it changes is found from nodes.py, a record for each
class. What holds for several classes is a class above them here (Atom, Binder, Nested), and fields
say by their types whether they are variables, scalars or parts of the node, so that a walk over an
expression names no class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from viewlet.calculus.fields import HasFields, Role, Rules, Variable, node, remembered
from viewlet.functions import Const, Ref, ScalarExpr, apply, conjuncts, evaluate
from viewlet.schema import Scalar

E = TypeVar("E", bound="Expr")


class Expr(HasFields):
    """Any node."""

    zero_one: ClassVar[bool] = False
    """Whether weights are 0 or 1 by construction: q * q is q then."""


class Atom(Expr):
    """Tuples over variables that are looked up: a relation, its delta, or a map."""

    name: str

    @property
    def arguments(self) -> tuple[str, ...]:
        """The variables, by position."""
        return own_variables(self)


class Binder(Expr):
    """Binds one variable to a computed value, with weight 1; compares where it is bound already."""

    variable: str
    zero_one = True


class Nested(Expr):
    """A node whose weight is not linear in its body."""

    body: Expr
    zero_one = True

    @property
    def local(self) -> frozenset[str]:
        """Variables of the body that mean nothing outside, and do not correlate it."""
        return frozenset()


class NestedValue(Nested, Binder):
    """A value that is computed from a body: what subqueries and aggregates become."""


@node
class Rel(Atom):
    """A base relation: its rows and how often each occurs."""

    name: str
    variables: tuple[Variable, ...]


@node
class Delta(Atom):
    """The change that a batch makes to a base relation."""

    name: str
    variables: tuple[Variable, ...]


@node
class MapRef(Atom):
    """One value column of a materialized map, or of a buffer, which holds a part of the batch."""

    name: str
    column: str
    keys: tuple[Variable, ...]
    buffer: bool = False


@node
class Value(Expr):
    """The weight of the empty tuple is the number; NULL weighs 0."""

    scalar: ScalarExpr


@node
class Cond(Expr):
    """Weight 1 where the scalar is TRUE, 0 where it is FALSE or NULL."""

    zero_one = True
    scalar: ScalarExpr


@node
class Assign(Binder):
    """Binds a variable to a scalar's value, with weight 1; compares where it is bound already."""

    variable: Variable
    scalar: ScalarExpr


@node
class Lift(NestedValue):
    """Binds a variable to the weight of the body, with weight 1; compares where it is bound.

    Where all of the body's variables are bound there is exactly one such tuple, and a body that
    finds nothing gives the value 0.
    """

    variable: Variable
    body: Expr


@node
class Extreme(NestedValue):
    """Binds a variable to the least or greatest non-NULL `target` of the body, NULL if none."""

    variable: Variable
    kind: str
    target: Variable
    body: Expr

    @property
    def local(self) -> frozenset[str]:
        return frozenset((self.target,))


@node
class Each(Expr):
    """Binds a variable to each of 1, 2, ... up to a scalar's value; compares where it is bound."""

    zero_one = True
    variable: Variable
    scalar: ScalarExpr


@node
class Exists(Nested):
    """Weight 1 where the body's weight is not 0."""

    body: Expr


@node
class Sum(Expr):
    """Projection to the keys, adding up the weights."""

    keys: tuple[Variable, ...]
    body: Expr


@node
class Add(Expr):
    """The sum of the terms' weights."""

    terms: tuple[Expr, ...]


@node
class Mul(Expr):
    """The natural join of the factors, weights multiplied."""

    factors: tuple[Expr, ...]


PRESENCE = "*"
"""The column of every map that weighs 1 where the map has a record: any of its columns is not 0."""

ZERO = Value(Const(0))
ONE = Value(Const(1))


def constant(number: Scalar) -> Expr:
    """A number as an expression: the empty row with that weight."""
    return Value(Const(number))


def is_constant(expr: Expr) -> bool:
    """Whether the expression is a weight without variables: [5], and not [x]."""
    return isinstance(expr, Value) and isinstance(expr.scalar, Const)


def value_of(scalar: ScalarExpr) -> Expr:
    """[NULL] -> 0. What may be split, and how, depends on types and NULLs: frontend.ring_values."""
    if isinstance(scalar, Const) and scalar.value is None:
        return ZERO
    return Value(scalar)


def cond(scalar: ScalarExpr) -> Expr:
    """{a and b} -> {a} * {b},  {TRUE} -> 1,  {FALSE} -> 0,  {NULL} -> 0"""
    parts = conjuncts(scalar)
    if len(parts) != 1:
        return product_of(*(cond(part) for part in parts))
    if isinstance(parts[0], Const):
        return ONE if parts[0].value is True else ZERO
    return Cond(parts[0])


def assign(variable: str, scalar: ScalarExpr) -> Expr:
    """(x := [x]) -> 1; other assignments stay."""
    return ONE if scalar == Ref(variable) else Assign(variable, scalar)


def lift(variable: str, body: Expr) -> Expr:
    """(x := value) is an assignment."""
    if isinstance(body, Value):
        return assign(variable, body.scalar)
    return Lift(variable, body)


def extreme(variable: str, kind: str, target: str, body: Expr) -> Expr:
    """(x := min y in 0) -> (x := [NULL]); other extremes stay."""
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
    return expr == ONE or expr.zero_one


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
    """q -> -1 * q"""
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
        if isinstance(factor, Value) and isinstance(factor.scalar, Const):
            coefficient = factor if coefficient is ONE else _fold("*", coefficient, factor)
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


BUILD: Rules[Callable[..., Expr]] = Rules("constructor")
"""From the values of a class' fields to a node in normal form."""


@remembered
def children(expr: Expr) -> tuple[Expr, ...]:
    """The parts of a node, from left to right."""
    parts: tuple[Expr, ...] = ()
    for field in expr.FIELDS:
        if field.role is Role.PART:
            value = getattr(expr, field.name)
            parts += value if field.many else (value,)
    return parts


def own_variables(expr: Expr) -> tuple[str, ...]:
    """The variables that the node itself names, its scalars and parts aside."""
    names: tuple[str, ...] = ()
    for field in expr.FIELDS:
        if field.role is Role.VARIABLE:
            value = getattr(expr, field.name)
            names += value if field.many else (value,)
    return names


def own_scalars(expr: Expr) -> tuple[ScalarExpr, ...]:
    """The scalars of the node itself, its parts aside."""
    return tuple(getattr(expr, f.name) for f in expr.FIELDS if f.role is Role.SCALAR)


def mapped(expr: Expr, **changes: Callable[[Any], Any]) -> Expr:
    """The same node with its fields changed according to their roles, normalized.

    mapped(q, variable=rename_it, part=walk_on) leaves scalars as they are.
    """
    return BUILD[type(expr)](*_changed_fields(expr, changes))


def with_fields(expr: E, **changes: Callable[[Any], Any]) -> E:
    """The same as `mapped`, not normalized: for texts and orders, and where the class must stay."""
    return type(expr)(*_changed_fields(expr, changes))


def _changed_fields(expr: Expr, changes: Mapping[str, Callable[[Any], Any]]) -> list[Any]:
    values = []
    for field in expr.FIELDS:
        value = getattr(expr, field.name)
        change = changes.get(field.role.value)
        if change is not None:
            value = tuple(map(change, value)) if field.many else change(value)
        values.append(value)
    return values


def rebuild(expr: Expr, parts: Iterable[Expr]) -> Expr:
    """The same node over other children, normalized."""
    new_parts = iter(parts)
    return mapped(expr, part=lambda _: next(new_parts))


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
    waiting = [expr]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(children(node))


@remembered
def relations(expr: Expr) -> frozenset[str]:
    """The base relations that the expression reads."""
    own = frozenset((expr.name,)) if isinstance(expr, Rel) else frozenset[str]()
    return own.union(*map(relations, children(expr)))


@remembered
def map_columns(expr: Expr) -> frozenset[tuple[str, str]]:
    """The maps and buffers that the expression reads, with the column."""
    if isinstance(expr, MapRef):
        return frozenset(((expr.name, expr.column),))
    return frozenset[tuple[str, str]]().union(*map(map_columns, children(expr)))


@remembered
def node_count(expr: Expr) -> int:
    """How many nodes the expression has."""
    return 1 + sum(map(node_count, children(expr)))


def is_buffer(expr: Expr) -> bool:
    """Whether it is what a buffer holds."""
    return isinstance(expr, MapRef) and expr.buffer


@remembered
def is_batch(expr: Expr) -> bool:
    """Made of the batch alone: ΔR, buffers, and Exists over them, with whatever filters."""
    if isinstance(expr, Atom):
        return isinstance(expr, Delta) or is_buffer(expr)
    if isinstance(expr, NestedValue):
        return False
    atoms = [node for node in walk(expr) if isinstance(node, Atom)]
    if not atoms:
        return False
    return all(isinstance(atom, Delta) or is_buffer(atom) for atom in atoms)


def starts_from_batch(expr: Expr) -> bool:
    """Whether every term has a factor of the batch: it has no more tuples than that brings."""
    if isinstance(expr, Exists | Sum):
        return starts_from_batch(expr.body)
    if len(terms_of(expr)) > 1:
        return all(starts_from_batch(term) for term in terms_of(expr))
    factors = factors_of(expr)
    return is_batch(expr) or (len(factors) > 1 and any(starts_from_batch(f) for f in factors))
