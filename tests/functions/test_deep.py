"""Scalars of a thousand terms: no walk over them is as deep as they are."""

from __future__ import annotations

import copy
from functools import reduce

import pytest
from tests.kernels.harness import Pair

from viewlet.calculus.text import parse_scalar
from viewlet.engine.values.reading import vector_of
from viewlet.engine.values.vectors import evaluate_vector
from viewlet.functions import (
    Apply,
    Const,
    Ref,
    apply,
    can_be_null,
    conjuncts,
    evaluate,
    format_scalar,
    free_variables,
    physical_type,
    substitute,
)
from viewlet.kernels.monotone import RISES, arithmetic, trend
from viewlet.schema import BIGINT, Physical

TERMS = 2000
SUM = reduce(lambda left, right: apply("+", left, right), [Ref("a"), Ref("b")] * (TERMS // 2))
CHOICES = [apply("=", Ref("a"), Const(i)) for i in range(500)]


def test_walks() -> None:
    assert isinstance(SUM, Apply)
    assert evaluate(SUM, {"a": 1, "b": 2}) == 3 * TERMS // 2
    assert free_variables(SUM) == {"a", "b"}
    assert physical_type(SUM, {"a": Physical.INT, "b": Physical.FLOAT}) is Physical.FLOAT
    assert can_be_null(SUM, {"a": False, "b": True})
    assert substitute(SUM, {"a": Const(1), "b": Const(2)}) == Const(3 * TERMS // 2)
    other = substitute(SUM, {"a": Ref("a")})
    assert other is not SUM and other == SUM and hash(other) == hash(SUM)
    assert other != substitute(SUM, {"a": Ref("b")})
    assert repr(SUM).startswith("Apply(function='+', arguments=(Apply(function='+'")
    assert parse_scalar(format_scalar(SUM)) == SUM
    assert trend(SUM, frozenset("ab")) == RISES and arithmetic(SUM)
    columns = {"a": vector_of([1, 2], BIGINT), "b": vector_of([2, 3], BIGINT)}
    assert evaluate_vector(SUM, columns, 2).values.tolist() == [3 * TERMS // 2, 5 * TERMS // 2]
    assert copy.copy(SUM) == SUM


@pytest.mark.parametrize("name", ["and", "or"])
def test_terms_of_conditions_are_one_level(name: str) -> None:
    left = reduce(lambda left, right: apply(name, left, right), CHOICES)
    right = reduce(lambda right, left: apply(name, left, right), reversed(CHOICES))
    assert isinstance(left, Apply) and left.arguments == tuple(CHOICES) and left == right
    assert len(conjuncts(left)) == (len(CHOICES) if name == "and" else 1)
    assert parse_scalar(format_scalar(left)) == left
    assert evaluate(left, {"a": 5}) is (name == "or")
    assert evaluate(left, {"a": None}) is None


def _alternating(terms: int) -> str:
    return " + ".join(("a", "f * 0.5", "b")[i % 3] for i in range(terms))


KERNELS: list[tuple[str, str]] = [
    (_alternating(1000), "float?"),
    (" - ".join(["a"] * 1000), "int"),
    (" or ".join(f"b = {i}" for i in range(600)), "bool?"),
    (" or ".join(f"a = {i} and b > {i % 3}" for i in range(600)), "bool?"),
    (f"case({', '.join(f'b = {i}, {i}' for i in range(200))}, NULL)", "int?"),
    (f"coalesce({', '.join(['b', 'nullif(a, 2)'] * 40)}, 7)", "int"),
    (f"greatest_known({', '.join(['b', 'a', '3'] * 15)})", "int"),
    (f"least_known({', '.join(['f', 'b'] * 15)})", "float?"),
]


@pytest.mark.parametrize(("call", "kind"), KERNELS, ids=[call[:20] for call, _ in KERNELS])
def test_kernels(call: str, kind: str) -> None:
    text = f"""
relation r(a: INTEGER not null, b: INTEGER, f: DOUBLE)
map m[y: {kind}](n: int)
on r:
  m[y] += Δr(a, b, f) * (y := [{call}]) | n: 1
"""
    pair = Pair(text)
    rows: list[tuple[tuple[int, int | None, float | None], int]] = [
        ((a, b, f), 1) for a in range(4) for b in (None, 1, 2) for f in (None, 0.25)
    ]
    pair.apply([("r", rows)])


def test_an_error_in_a_branch_that_is_not_chosen() -> None:
    """What is written apart is still computed only where it is chosen."""
    branches = ", ".join(f"a = {i}, within(a, {i}, {i})" for i in range(60))
    text = f"""
relation r(a: INTEGER not null)
map m[y: int](n: int)
on r:
  m[y] += Δr(a) * (y := [case({branches}, 0)]) | n: 1
"""
    Pair(text).apply([("r", [((i,), 1) for i in range(0, 100, 7)])])
