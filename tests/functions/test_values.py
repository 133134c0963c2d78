"""Scalar functions against their SQL meaning, NULLs first."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from viewlet.calculus.text import parse_scalar
from viewlet.functions import Const, evaluate, format_scalar, free_variables, physical_type
from viewlet.schema import Physical

CASES: list[tuple[str, Any]] = [
    ("1 + NULL", None),
    ("NULL and FALSE", False),
    ("NULL and TRUE", None),
    ("NULL or TRUE", True),
    ("NULL or FALSE", None),
    ("not(NULL)", None),
    ("NULL = NULL", None),
    ("NULL == NULL", True),
    ("is_null(NULL)", True),
    ("is_true(NULL)", False),
    ("coalesce(NULL, 2, 3)", 2),
    ("nullif(2, 2)", None),
    ("in(NULL, 1)", None),
    ("in(1, 1, NULL)", True),
    ("in(2, 1, NULL)", None),
    ("in(2, 1)", False),
    ("case(1 = 2, 'a', NULL, 'b', 'c')", "c"),
    ("7 / 2", 3.5),
    ("7 / 0", None),
    ("div(-7, 2)", -3),
    ("mod(-7, 2)", -1),
    ("mod(7.5, 2)", 1.5),
    ("mod(7, 0)", None),
    ("rescale(-15, 10)", -2),
    ("round(2.5, 0)", 3.0),
    ("round(-2.5, 0)", -3.0),
    ("floor(-1.5)", -2.0),
    ("ceil(-1.5)", -1.0),
    ("round(0.49999999999999994, 0)", 0.0),
    ("round(1e300, 400)", 1e300),
    ("round(123.456, -400)", 0.0),
    ("sign(-4)", -1),
    ("sqrt(-1)", math.nan),
    ("ln(0)", -math.inf),
    ("ln(-1)", math.nan),
    ("log10(0)", -math.inf),
    ("cbrt(-8.0)", -2.0),
    ("exp(1000)", math.inf),
    ("exp(-1000)", 0.0),
    ("power(0, -1)", math.inf),
    ("power(-8, 0.5)", math.nan),
    ("power(-10, 1001)", -math.inf),
    ("power(10, 1000)", math.inf),
    ("to_int(2.5)", 2),
    ("like('forest green', 'for%gr__n')", True),
    ("like('a%b', 'a\\%b')", True),
    ("ilike('ABC', 'a%')", True),
    ("substring('hello', 2, 3)", "ell"),
    ("substring('hello', 0, 3)", "he"),
    ("substring('hello', 4)", "lo"),
    ("substring('hello', -1)", "hello"),
    ("substring('hello', -1, 3)", "h"),
    ("concat('a', 'b')", "ab"),
    ("length('abc')", 3),
    ("upper('a')", "A"),
    ("upper('straße')", "STRAßE"),
    ("upper('ᾳ')", "ᾼ"),
    ("lower('İΣ')", "iσ"),
    ("trim('  a ')", "a"),
    ("replace('aXa', 'X', 'b')", "aba"),
    ("date_year(9131)", 1995),
    ("date_quarter(9131)", 1),
    ("date_dow(3)", 0),
    ("date_trunc_month(9150)", 9131),
    ("date_add_months(30, 1)", 58),
    ("timestamp_hour(3600000000)", 1),
    ("timestamp_trunc_day(86400000001)", 86_400_000_000),
    ("timestamp_add_months(0, 12)", 365 * 86_400_000_000),
    ("date_of_timestamp(86400000001)", 1),
    ("decimal_text(-5, 2)", "-0.05"),
    ("date_text(0)", "1970-01-01"),
    ("timestamp_text(0)", "1970-01-01 00:00:00"),
    ("timestamp_text(500000)", "1970-01-01 00:00:00.5"),
    ("timestamp_round(1500000, 1000000)", 1_000_000),  # halves away from the year 2000
    ("timestamp_round(946684801500000, 1000000)", 946_684_802_000_000),
    ("timestamp_round(-1500000, 1000000)", -2_000_000),
    ("double_to_decimal(1.005, 100)", 101),
    ("double_to_decimal(-0.125, 100)", -13),
    ("double_to_decimal(1e15, 100)", 10**17),
    ("to_text(TRUE)", "true"),
    ("least(3, 1)", 1),
    ("greatest(3, 1)", 3),
    ("power(2, 3)", 8.0),
]


@pytest.mark.parametrize(("text", "value"), CASES, ids=[t for t, _ in CASES])
def test_value(text: str, value: Any) -> None:
    folded = parse_scalar(text)
    assert folded == Const(value)


LITERAL = re.compile(r"'(?:[^']|'')*'|(?<![\w)])-?\b\d+(?:\.\d+)?\b|\b(?:NULL|TRUE|FALSE)\b")


@pytest.mark.parametrize(("text", "value"), CASES, ids=[t for t, _ in CASES])
def test_value_of_variables(text: str, value: Any) -> None:
    """The same with a variable for every literal, so that nothing is folded away."""
    environment: dict[str, Any] = {}

    def variable(found: re.Match[str]) -> str:
        literal = parse_scalar(found.group())
        assert isinstance(literal, Const)
        name = f"p{len(environment)}"
        environment[name] = literal.value
        return name

    scalar = parse_scalar(LITERAL.sub(variable, text))
    assert environment and free_variables(scalar) == environment.keys()
    assert Const(evaluate(scalar, environment)) == Const(value)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("not(not(a))", "a"),
        ("not(a < b)", "a >= b"),
        ("a and TRUE", "a"),
        ("a and FALSE", "FALSE"),
        ("a or FALSE", "a"),
        ("a or TRUE", "TRUE"),
        ("(a or b) or FALSE", "a or b"),
        ("a or (b or c)", "a or b or c"),
        ("a and (b and TRUE) and c", "a and b and c"),
        ("a + 0", "a"),
        ("1 * a", "a"),
        ("a == a", "TRUE"),
        ("a + NULL", "NULL"),
        ("case(FALSE, 1, a = 1, 2, 3)", "case(a = 1, 2, 3)"),
        ("case(TRUE, a, b)", "a"),
        ("a - (b - c)", "a - (b - c)"),
        ("(a - b) - c", "a - b - c"),
        ("(a + b) * c", "(a + b) * c"),
        ("(a or b) and c", "(a or b) and c"),
    ],
)
def test_folding_and_text(before: str, after: str) -> None:
    scalar = parse_scalar(before)
    assert format_scalar(scalar) == after
    assert parse_scalar(format_scalar(scalar)) == scalar


def test_types_and_variables() -> None:
    slots = {"i": Physical.INT, "f": Physical.FLOAT, "s": Physical.STR}
    for text, expected in [
        ("i + 1", Physical.INT),
        ("i + f", Physical.FLOAT),
        ("i / 2", Physical.FLOAT),
        ("s = 'a'", Physical.BOOL),
        ("case(s = 'a', i, f)", Physical.FLOAT),
        ("case(s = 'a', s, NULL)", Physical.STR),
        ("coalesce(NULL, s)", Physical.STR),
    ]:
        assert physical_type(parse_scalar(text), slots) is expected
    assert free_variables(parse_scalar("a + abs(b)")) == {"a", "b"}
