"""How scalars and conditions move when some of their variables rise.

A condition that can only turn once, from false to true or back, while the key of a sorted map
rises holds for a range of keys; the border of that range is found by one descent in the tree.
How a single function moves is in its record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from viewlet.functions import (
    FUNCTIONS,
    NULL,
    Apply,
    Const,
    Ref,
    ScalarExpr,
    fold,
    free_variables,
)
from viewlet.functions.trends import CONSTANT, FALLS, RISES, Trend, together, turned

__all__ = ["CONSTANT", "FALLS", "RISES", "Test", "arithmetic", "tests_of", "trend"]


@dataclass(frozen=True)
class Test:
    """A condition that stays true once it is, while the variables rise (RISES) or fall (FALLS)."""

    scalar: ScalarExpr
    trend: int


def arithmetic(scalar: ScalarExpr) -> bool:
    """Whether a scalar can be computed inside a descent: from numbers alone."""
    return fold(scalar, _is_number, _is_computed)


def _is_number(scalar: Const | Ref) -> bool:
    return not (isinstance(scalar, Const) and isinstance(scalar.value, str))


def _is_computed(scalar: Apply, parts: Sequence[bool]) -> bool:
    return FUNCTIONS[scalar.function].monotone.in_descents and all(parts)


def trend(scalar: ScalarExpr, rising: frozenset[str]) -> Trend:
    """RISES: never less while the variables rise; FALLS: never more; None: not known."""

    def leaf(scalar: Const | Ref) -> _Moves:
        is_rising = isinstance(scalar, Ref) and scalar.name in rising
        return _Moves(RISES if is_rising else CONSTANT)

    def enter(scalar: Apply) -> _Moves | None:
        return None if free_variables(scalar) & rising else _Moves(CONSTANT)

    def leave(scalar: Apply, parts: Sequence[_Moves]) -> _Moves:
        rule = FUNCTIONS[scalar.function].monotone.trend
        return _Moves(rule(scalar.arguments, [part.trend for part in parts]))

    return fold(scalar, leaf, leave, enter).trend


@dataclass(frozen=True)
class _Moves:
    """A trend as the result of a walk, where None would say that there is none yet."""

    trend: Trend


def tests_of(
    condition: ScalarExpr, rising: frozenset[str], *, counts: bool = False
) -> list[Test] | None:
    """A condition as tests that must all be true, None where one does not turn just once.

    a > b                  RISES  where a rises or b falls
    a > case(n = 0, NULL, b)  ->  a > b  and  n > 0     where no variable is negative (`counts`)
    """
    if isinstance(condition, Apply) and condition.function == "and":
        parts = [tests_of(part, rising, counts=counts) for part in condition.arguments]
        return None if None in parts else [test for part in parts if part for test in part]
    if not isinstance(condition, Apply) or condition.function not in ("<", "<=", ">", ">="):
        return None
    guards: list[ScalarExpr] = []
    left, right = (_unguarded(side, rising, guards) for side in condition.arguments)
    tests = [Test(Apply(condition.function, (left, right)), CONSTANT)]
    if guards and not counts:
        return None
    for guard in guards:
        if not isinstance(guard, Apply) or guard.function != "=":
            return None
        counted, nothing = guard.arguments
        # Of a count alone is it known that it is positive where it is not zero.
        if not isinstance(counted, Ref) or counted.name not in rising or nothing != Const(0):
            return None
        tests.append(Test(Apply(">", guard.arguments), CONSTANT))
    return _with_trends(tests, rising)


def _with_trends(tests: list[Test], rising: frozenset[str]) -> list[Test] | None:
    directed = []
    for test in tests:
        assert isinstance(test.scalar, Apply)
        left, right = (trend(side, rising) for side in test.scalar.arguments)
        if test.scalar.function in ("<", "<="):
            left, right = right, left
        direction = together(left, turned(right))
        if direction is None:
            return None
        directed.append(Test(test.scalar, direction))
    return directed


def _unguarded(scalar: ScalarExpr, rising: frozenset[str], guards: list[ScalarExpr]) -> ScalarExpr:
    """case(n = 0, NULL, x) inside strict functions -> x, with the guard n = 0"""

    def enter(scalar: Apply) -> _Freed | Apply | None:
        if not free_variables(scalar) & rising:
            return _Freed(scalar)
        if scalar.function == "case" and len(scalar.arguments) == 3 and scalar.arguments[1] == NULL:
            guards.append(scalar.arguments[0])
            inner = scalar.arguments[2]
            return inner if isinstance(inner, Apply) else _Freed(inner)
        record = FUNCTIONS[scalar.function]
        return None if record.nulls.is_strict and record.monotone.in_descents else _Freed(scalar)

    def leave(scalar: Apply, parts: Sequence[_Freed]) -> _Freed:
        return _Freed(Apply(scalar.function, tuple(part.scalar for part in parts)))

    return fold(scalar, _Freed, leave, enter).scalar


@dataclass(frozen=True)
class _Freed:
    """A scalar as the result of a walk, where a bare one would be walked through."""

    scalar: ScalarExpr
