"""How scalars and conditions move when some of their variables rise.

A condition that can only turn once, from false to true or back, while the key of a sorted map
rises holds for a range of keys; the border of that range is found by one descent in the tree.
Rounding does not disturb this: sums, differences and products with a constant of doubles are
monotone after rounding too.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewlet.functions import NULL, Apply, Const, Ref, ScalarExpr, free_variables

RISES, FALLS, STAYS = 1, -1, 0


@dataclass(frozen=True)
class Test:
    """A condition that stays true once it is, while the variables rise (RISES) or fall (FALLS)."""

    scalar: ScalarExpr
    trend: int


def arithmetic(scalar: ScalarExpr) -> bool:
    """Whether a scalar can be computed inside a descent: from numbers alone."""
    if isinstance(scalar, Const):
        return not isinstance(scalar.value, str)
    if isinstance(scalar, Ref):
        return True
    return scalar.function in _ARITHMETIC and all(map(arithmetic, scalar.arguments))


_ARITHMETIC = frozenset(
    ("+", "-", "*", "/", "neg", "to_float", "floor", "ceil", "case", "and", "or", "not", "=")
).union(("<>", "<", "<=", ">", ">="))


def trend(scalar: ScalarExpr, rising: frozenset[str]) -> int | None:
    """RISES: never less while the variables rise; FALLS: never more; None: who knows."""
    if not free_variables(scalar) & rising:
        return STAYS
    if isinstance(scalar, Ref):
        return RISES
    assert isinstance(scalar, Apply)
    arguments = scalar.arguments
    if scalar.function in ("to_float", "floor", "ceil"):
        return trend(arguments[0], rising)
    if scalar.function == "neg":
        return _turned(trend(arguments[0], rising))
    if scalar.function == "+":
        return _both(trend(arguments[0], rising), trend(arguments[1], rising))
    if scalar.function == "-":
        return _both(trend(arguments[0], rising), _turned(trend(arguments[1], rising)))
    if scalar.function in ("*", "/"):
        factor, other = arguments
        if scalar.function == "/" or isinstance(other, Const):
            factor, other = other, factor
        if not isinstance(factor, Const) or not isinstance(factor.value, int | float):
            return None
        if factor.value > 0:
            return trend(other, rising)
        return _turned(trend(other, rising)) if factor.value < 0 else None
    return None


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
    found = [Test(Apply(condition.function, (left, right)), STAYS)]
    if guards and not counts:
        return None
    for guard in guards:
        if not isinstance(guard, Apply) or guard.function != "=":
            return None
        counted, nothing = guard.arguments
        # Of a count alone is it known that it is positive where it is not zero.
        if not isinstance(counted, Ref) or counted.name not in rising or nothing != Const(0):
            return None
        found.append(Test(Apply(">", guard.arguments), STAYS))
    return _with_trends(found, rising)


def _with_trends(tests: list[Test], rising: frozenset[str]) -> list[Test] | None:
    found = []
    for test in tests:
        assert isinstance(test.scalar, Apply)
        left, right = (trend(side, rising) for side in test.scalar.arguments)
        if test.scalar.function in ("<", "<="):
            left, right = right, left
        direction = _both(left, _turned(right))
        if direction is None:
            return None
        found.append(Test(test.scalar, direction))
    return found


def _unguarded(scalar: ScalarExpr, rising: frozenset[str], guards: list[ScalarExpr]) -> ScalarExpr:
    """case(n = 0, NULL, x) inside strict functions -> x, with the guard n = 0"""
    if not isinstance(scalar, Apply) or not free_variables(scalar) & rising:
        return scalar
    if scalar.function == "case" and len(scalar.arguments) == 3 and scalar.arguments[1] == NULL:
        guards.append(scalar.arguments[0])
        return _unguarded(scalar.arguments[2], rising, guards)
    if scalar.function in ("+", "-", "*", "/", "neg", "to_float"):
        parts = tuple(_unguarded(a, rising, guards) for a in scalar.arguments)
        return Apply(scalar.function, parts)
    return scalar


def _turned(direction: int | None) -> int | None:
    return None if direction is None else -direction


def _both(left: int | None, right: int | None) -> int | None:
    """The trend of a sum: neither may work against the other."""
    if left is None or right is None or left * right < 0:
        return None
    return left or right
