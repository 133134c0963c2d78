"""Scalar expressions over whole columns: the same values as functions.evaluate row by row.

A vector is an array with a null mask (None: no NULLs). What has no form here, or would leave the
range of int64, raises NotColumnar, and the caller evaluates row by row.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from viewlet.functions import Const, Ref, ScalarExpr
from viewlet.storage.columns import Array


class NotColumnar(Exception):
    """This scalar is for the row-by-row evaluator."""


@dataclass(frozen=True)
class Vector:
    values: Array
    nulls: Array | None = None

    def gaps(self) -> Array:
        return np.zeros(len(self.values), bool) if self.nulls is None else self.nulls.astype(bool)

    def take(self, places: Array) -> Vector:
        return Vector(self.values[places], None if self.nulls is None else self.nulls[places])


def evaluate_vector(scalar: ScalarExpr, environment: Mapping[str, Vector], length: int) -> Vector:
    """The scalar for each row of the environment's columns."""
    if isinstance(scalar, Ref):
        return environment[scalar.name]
    if isinstance(scalar, Const):
        return _constant(scalar, length)
    arguments = [evaluate_vector(a, environment, length) for a in scalar.arguments]
    if scalar.function == "case":
        return _case(arguments)
    rule = _STRICT.get(scalar.function)
    if rule is not None:
        with np.errstate(all="ignore"):
            made = rule(*arguments)
        return Vector(made.values, _any_null([*arguments, made]))
    special = _SPECIAL.get(scalar.function)
    if special is None:
        raise NotColumnar(scalar.function)
    return special(*arguments)


def truths(scalar: ScalarExpr, environment: Mapping[str, Vector], length: int) -> Array:
    """Where a condition is TRUE."""
    found = evaluate_vector(scalar, environment, length)
    return found.values.astype(bool) & ~found.gaps()


def _constant(scalar: Const, length: int) -> Vector:
    value = scalar.value
    if value is None:
        return Vector(np.zeros(length, np.int64), np.ones(length, bool))
    if isinstance(value, str):
        texts = np.empty(length, object)
        texts[:] = value
        return Vector(texts)
    if isinstance(value, int) and abs(value) >= 2**63:
        raise NotColumnar("a large constant")
    return Vector(np.full(length, value))


def _any_null(vectors: list[Vector]) -> Array | None:
    masks = [v.gaps() for v in vectors if v.nulls is not None]
    return np.logical_or.reduce(masks) if masks else None


def _numbers(*vectors: Vector) -> None:
    if any(v.values.dtype == object for v in vectors):
        raise NotColumnar("strings")


def _arithmetic(
    operation: Callable[[Array, Array], Array], bound: Callable[[float, float], float]
) -> Callable[[Vector, Vector], Vector]:
    """`bound` says how large the result can be where the arguments are so large."""

    def rule(a: Vector, b: Vector) -> Vector:
        _numbers(a, b)
        if "f" not in (a.values.dtype.kind, b.values.dtype.kind):
            # Integers are exact: what might leave int64 is for Python's own.
            if bound(_reach(a), _reach(b)) >= 2.0**62:
                raise NotColumnar("large numbers")
            return Vector(operation(a.values.astype(np.int64), b.values.astype(np.int64)))
        return Vector(operation(a.values, b.values))

    return rule


def _reach(vector: Vector) -> float:
    return float(np.abs(vector.values.astype(np.float64)).max(initial=0.0))


def _divide(a: Vector, b: Vector) -> Vector:
    """Division by zero is NULL. Integers beyond 2**53 are divided exactly by Python alone."""
    _numbers(a, b)
    for vector in (a, b):
        if vector.values.dtype.kind != "f" and _reach(vector) > 2.0**53:
            raise NotColumnar("large numbers")
    zero = b.values == 0
    return Vector(a.values / np.where(zero, 1, b.values), zero if zero.any() else None)


def _comparison(operation: Callable[[Array, Array], Array]) -> Callable[[Vector, Vector], Vector]:
    def rule(a: Vector, b: Vector) -> Vector:
        _numbers(a, b)
        return Vector(operation(a.values, b.values))

    return rule


def _root(a: Vector) -> Vector:
    _numbers(a)
    bad = ~(a.values >= 0)
    return Vector(np.sqrt(np.where(bad, 0, a.values)), bad if bad.any() else None)


def _case(arguments: list[Vector]) -> Vector:
    *branches, otherwise = arguments
    values, gaps = otherwise.values, otherwise.gaps()
    pairs = list(zip(branches[::2], branches[1::2], strict=True))
    for test, then in reversed(pairs):
        chosen = test.values.astype(bool) & ~test.gaps()
        values = _where(chosen, then.values, values, then.gaps(), gaps)
        gaps = np.where(chosen, then.gaps(), gaps)
    return Vector(values, gaps if gaps.any() else None)


def _where(chosen: Array, then: Array, other: Array, then_gaps: Array, gaps: Array) -> Array:
    """Branches that are NULL throughout have no representation of their own."""
    if then_gaps.all():
        return other
    if gaps.all():
        return then
    if (then.dtype == object) != (other.dtype == object):
        raise NotColumnar("mixed branches")
    return np.where(chosen, then, other)


def _coalesce(*arguments: Vector) -> Vector:
    values, gaps = arguments[-1].values, arguments[-1].gaps()
    for vector in reversed(arguments[:-1]):
        own = vector.gaps()
        values = _where(~own, vector.values, values, own, gaps)
        gaps = own & gaps
    return Vector(values, gaps if gaps.any() else None)


def _and(*arguments: Vector) -> Vector:
    false = np.logical_or.reduce([~v.values.astype(bool) & ~v.gaps() for v in arguments])
    unknown = np.logical_or.reduce([v.gaps() for v in arguments]) & ~false
    return Vector(~false & ~unknown, unknown if unknown.any() else None)


def _or(*arguments: Vector) -> Vector:
    true = np.logical_or.reduce([v.values.astype(bool) & ~v.gaps() for v in arguments])
    unknown = np.logical_or.reduce([v.gaps() for v in arguments]) & ~true
    return Vector(true, unknown if unknown.any() else None)


def _extreme(operation: Callable[[Array, Array], Array]) -> Callable[..., Vector]:
    def rule(*arguments: Vector) -> Vector:
        _numbers(*arguments)
        if len({v.values.dtype.kind for v in arguments}) > 1:
            raise NotColumnar("mixed numbers")
        found = arguments[0].values
        for vector in arguments[1:]:
            # As Python's min and max choose where NaN takes part.
            found = np.where(operation(vector.values, found), vector.values, found)
        return Vector(found)

    return rule


_STRICT: dict[str, Callable[..., Vector]] = {
    "+": _arithmetic(np.add, operator.add),
    "-": _arithmetic(np.subtract, operator.add),
    "*": _arithmetic(np.multiply, operator.mul),
    "/": _divide,
    "=": _comparison(np.equal),
    "<>": _comparison(np.not_equal),
    "<": _comparison(np.less),
    "<=": _comparison(np.less_equal),
    ">": _comparison(np.greater),
    ">=": _comparison(np.greater_equal),
    "not": lambda a: Vector(~a.values.astype(bool)),
    "to_float": lambda a: Vector(a.values.astype(np.float64)),
    "sqrt": _root,
    "least": _extreme(np.less),
    "greatest": _extreme(np.greater),
}

_SPECIAL: dict[str, Callable[..., Vector]] = {
    "and": _and,
    "or": _or,
    "coalesce": _coalesce,
    "is_null": lambda a: Vector(a.gaps()),
    "is_true": lambda a: Vector(a.values.astype(bool) & ~a.gaps()),
}
