"""Which conditions turn just once while their variables rise."""

from __future__ import annotations

import pytest

from viewlet.calculus.text import parse_scalar
from viewlet.kernels import monotone
from viewlet.kernels.monotone import CONSTANT, FALLS, RISES, trend

X = frozenset(("x", "n"))


@pytest.mark.parametrize(
    ("scalar", "expected"),
    [
        ("a", CONSTANT),
        ("x", RISES),
        ("a - x", FALLS),
        ("2 * x + n", RISES),
        ("x * -0.5", FALLS),
        ("neg(a - to_float(x))", RISES),
        ("x / 4", RISES),
        ("x - n", None),
        ("a * x", None),
        ("x * 0", None),
        ("4 / x", None),
        ("mod(x, 3)", None),
    ],
)
def test_trend(scalar: str, expected: int | None) -> None:
    assert trend(parse_scalar(scalar), X) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x > a", [("x > a", RISES)]),
        ("a >= 0.25 * x", [("a >= 0.25 * x", FALLS)]),
        ("x < a and n > 2", [("x < a", FALLS), ("n > 2", RISES)]),
        ("a > case(n = 0, NULL, x)", [("a > x", FALLS), ("n > 0", RISES)]),
        ("case(a = 0, NULL, a) > x", [("case(a = 0, NULL, a) > x", FALLS)]),
        ("x = a", None),
        ("x > n", None),
        ("a > case(n = 1, NULL, x)", None),
        ("a > case(n = 0, 5, x)", None),
        ("a > case(n - 1 = 0, NULL, x)", None),
    ],
)
def test_conditions(condition: str, expected: list[tuple[str, int]] | None) -> None:
    found = monotone.tests_of(parse_scalar(condition), X, counts=True)
    assert (found and [(str(test.scalar), test.trend) for test in found]) == expected


def test_a_count_that_may_be_negative_guards_nothing() -> None:
    assert monotone.tests_of(parse_scalar("a > case(n = 0, NULL, x)"), X) is None
