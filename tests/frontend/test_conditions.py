"""Conditions of AND and OR: what they say of one relation alone, and what they have in common."""

from random import Random

import pytest
from tests.frontend.oracle import compare, load
from tests.frontend.test_features import CATALOG, random_database

from viewlet.calculus.expr import factors_of, product_of
from viewlet.calculus.text import parse, to_text
from viewlet.frontend.conditions import with_common_conjuncts_outside, with_implied
from viewlet.frontend.types import without_common_factor
from viewlet.functions import Const, Ref, ScalarExpr, apply

ATOMS = "r(a, b) * s(x, y) * "


@pytest.mark.parametrize(
    ("given", "implied"),
    [
        ("{a = 1 and x = 2 or a = 3 and x = 4}", ["{a = 1 or a = 3}", "{x = 2 or x = 4}"]),
        ("{a = 1 and b > x or a = 3}", ["{a = 1 or a = 3}"]),
        ("{a = 1 and x = 2 or b > y}", []),
        ("{(a = 1 or x = 1 and b = 2) and x > 3 or a = 4}", ["{a = 1 or b = 2 or a = 4}"]),
        ("{a = 1 and x = 2 or a = 1 and x = 4}", ["{a = 1}", "{x = 2 or x = 4}"]),
        ("{a = x}", []),
        ("{a = 1 or b = 2}", []),
    ],
)
def test_what_a_condition_implies(given: str, implied: list[str]) -> None:
    factors = factors_of(parse(ATOMS + given))
    (whole,) = factors[2:]
    found = [to_text(f) for f in with_implied(factors)]
    assert found[:2] == [to_text(f) for f in factors[:2]]
    assert found[-1] == to_text(whole)
    assert [_arms(text) for text in found[2:-1]] == [_arms(text) for text in implied]


def _arms(text: str) -> set[str]:
    return set(text.strip("{}").split(" or "))


def test_mirrored_conditions_imply_one_condition_in_one_order() -> None:
    text = "r(a, b) * r(x, y) * {a = 1 and x = 2 or a = 2 and x = 1}"
    first, second = (to_text(f) for f in with_implied(factors_of(parse(text)))[2:4])
    assert first.replace("a", "x") == second


def test_what_is_said_already_is_not_said_again() -> None:
    once = with_implied(factors_of(parse(ATOMS + "{a = 1 and x = 2 or a = 3 and x = 4}")))
    assert with_implied(factors_of(product_of(*once))) == once


def test_common_conjuncts_come_outside() -> None:
    (test,) = factors_of(parse("{a = 1 and b = 2 or a = 1 and c = 3}"))
    assert to_text(type(test)(with_common_conjuncts_outside(test.scalar))) == (
        "{a = 1 and (b = 2 or c = 3)}"
    )


COLUMNS = {"r": ("a", "b"), "s": ("b",), "t": ("id", "a"), "u": ("b", "n")}


@pytest.mark.parametrize("seed", range(6))
def test_random_conditions(seed: int) -> None:
    """Over two or three tables with NULLs: as many rows as DuckDB finds."""
    maker = Random(seed)
    both = load(CATALOG, random_database(seed + 11))
    for _ in range(15):
        tables = maker.choices(list(COLUMNS), k=maker.randint(2, 3))
        names = [f"x{i}.{column}" for i, t in enumerate(tables) for column in COLUMNS[t]]
        test = _condition(maker, names, 3)
        joined = ", ".join(f"{table} x{i}" for i, table in enumerate(tables))
        query = f"SELECT COUNT(*) AS n FROM {joined} WHERE {test}"
        if len(tables) == 2 and maker.random() < 0.3:
            query = f"SELECT COUNT(*) AS n FROM {tables[0]} x0 LEFT JOIN {tables[1]} x1 ON {test}"
        compare(f"CREATE VIEW v AS {query}", CATALOG, both)


def _condition(maker: Random, names: list[str], depth: int) -> str:
    if depth == 0 or maker.random() < 0.15:
        left, right = maker.choice(names), maker.choice([*names, "1", "2", "3"])
        tests = ("= {}", "< {}", "<> {}", "IS NULL", "IN (1, {})", "IN (2, NULL)")
        return f"{left} {maker.choice(tests).format(right)}"
    if maker.random() < 0.1:
        return f"NOT {_condition(maker, names, depth - 1)}"
    parts = (_condition(maker, names, depth - 1) for _ in range(maker.randint(2, 3)))
    return f"({maker.choice((' AND ', ' OR ')).join(parts)})"


def test_what_both_sides_are_multiplied_by_is_left_out() -> None:
    """DECIMALs of many digits are compared within 64 bits: x * 10000 > y * 100 -> x * 100 > y."""
    x, y = Ref("x"), Ref("y")

    def times(value: ScalarExpr, factor: int) -> ScalarExpr:
        return apply("*", value, Const(factor))

    assert without_common_factor(times(x, 10**10), times(y, 10**6)) == (times(x, 10**4), y)
    assert without_common_factor(times(x, 100), Const(-500)) == (x, Const(-5))
    assert without_common_factor(times(x, 100), Const(0)) == (x, Const(0))
    assert without_common_factor(times(x, 3), times(y, 2)) == (times(x, 3), times(y, 2))
    assert without_common_factor(x, y) == (x, y)
