"""Every scalar function in a kernel has the value that viewlet.functions gives it, or NULL."""

from __future__ import annotations

import random

import pytest
from tests.kernels.harness import Pair, Row

from viewlet.functions import FUNCTIONS

COLUMNS = """i: INTEGER, j: INTEGER, f: DOUBLE, g: DOUBLE, b: BOOLEAN, c: BOOLEAN,
  s: VARCHAR, t: VARCHAR, d: DATE, m: TIMESTAMP"""
NAMES = "i, j, f, g, b, c, s, t, d, m"

CALLS: dict[str, list[str]] = {
    **{name: [f"i {name} j", f"f {name} g"] for name in ("+", "-", "*", "/")},
    **{
        name: [f"i {name} j", f"f {name} g", f"s {name} t"]
        for name in ("=", "<>", "<", "<=", ">", ">=", "==")
    },
    **{name: [f"{name}(i)", f"{name}(f)"] for name in ("neg", "abs", "sign", "sqrt", "ln")},
    **{name: [f"{name}(f)"] for name in ("floor", "ceil", "to_int")},
    "exp": ["exp(g)"],
    **{name: [f"{name}(i, j)"] for name in ("div", "mod")},
    **{name: [f"{name}(i, 100)"] for name in ("rescale", "decimal_floor", "decimal_ceil")},
    **{name: [f"b {name} c", f"i < j {name} is_null(s)"] for name in ("and", "or")},
    **{
        name: [f"{name}(i, j)", f"{name}(f, i)", f"{name}(s, t)", f"{name}(i, j, 3)"]
        for name in ("least", "greatest", "least_known", "greatest_known")
    },
    **{name: [f"{name}(s)", f"{name}(concat(s, t))"] for name in ("upper", "lower", "length")},
    **{name: [f"{name}(s)", f"{name}(concat(' ', t))"] for name in ("trim", "ltrim", "rtrim")},
    **{name: [f"{name}(s, 'x%')", f"{name}(s, t)"] for name in ("like", "ilike")},
    "round": ["round(f, 1)", "round(f, -1)"],
    "power": ["power(f, 2)", "power(abs(f), 0.5)"],
    "to_float": ["to_float(i)"],
    "bool_to_int": ["bool_to_int(b)"],
    "to_text": ["to_text(i)", "to_text(b)", "to_text(f)"],
    "decimal_text": ["decimal_text(i, 2)", "decimal_text(i, 0)"],
    "date_text": ["date_text(d)"],
    "timestamp_text": ["timestamp_text(m)"],
    "not": ["not(b)"],
    "in": ["in(i, 1, j, NULL)", "in(s, 'xa', t)"],
    "is_null": ["is_null(i)", "is_null(concat(s, t))"],
    "is_true": ["is_true(b)"],
    "case": ["case(i > j, i, b, j, NULL)", "case(b, s, c, t, 'else')", "case(b, f, 1)"],
    "coalesce": ["coalesce(i, j, 7)", "coalesce(s, t)", "coalesce(concat(s, t), s)"],
    "nullif": ["nullif(i, j)", "nullif(s, t)"],
    "substring": ["substring(s, 2, 1)", "substring(s, i)", "substring(s, i, j)"],
    "concat": ["concat(s, '-', t)", "concat(s, to_text(i))", "concat(upper(t), date_text(d))"],
    "replace": ["replace(s, 'x', 'yy')", "replace(s, t, 'z')"],
    "date_add_months": ["date_add_months(d, i)"],
    "timestamp_add_months": ["timestamp_add_months(m, i)"],
    "date_of_timestamp": ["date_of_timestamp(m)"],
    "timestamp_of_date": ["timestamp_of_date(d)"],
}
for _name in FUNCTIONS:
    if _name not in CALLS and _name.startswith(("date_", "timestamp_")):
        CALLS[_name] = [f"{_name}({_name[0].replace('t', 'm')})"]


def random_rows(seed: int, count: int) -> list[Row]:
    rng = random.Random(seed)
    domains = [
        range(-3, 160, 7),
        (0, 1, 2, 3),
        (-2.5, -0.5, 0.0, 0.25, 1.5, 2.5, 1e6),
        (-1.0, 0.0, 0.25, 3.0),
        (True, False),
        (True, False),
        ("xa", "xAb", "", " y ", "b"),
        ("xa", "a", "x%", "b"),
        ("1999-12-31", "2000-02-29", "1970-01-01", "1969-03-30"),
        ("1999-12-31 23:59:59.5", "2024-02-29 00:00:00", "1969-12-31 12:30:00"),
    ]
    return [
        tuple(None if rng.random() < 0.15 else rng.choice(domain) for domain in domains)
        for _ in range(count)
    ]


def programme(calls: list[str]) -> str:
    maps = [f"map m{i}[y: {_type(call)}?](n: int)" for i, call in enumerate(calls)]
    statements = [
        f"  m{i}[y] += Δr({NAMES}) * (y := [{call}]) | n: 1" for i, call in enumerate(calls)
    ]
    return "\n".join([f"relation r({COLUMNS})", *maps, "on r:", *statements])


def _type(call: str) -> str:
    from viewlet.calculus.text import parse_scalar
    from viewlet.functions import physical_type
    from viewlet.program.text import parse_program

    relation = parse_program(f"relation r({COLUMNS})\nmap x[](n: int)\non r:\n").relation("r")
    types = {column.name: column.type.physical for column in relation.columns}
    return physical_type(parse_scalar(call), types).value


def test_every_function_is_called() -> None:
    assert set(CALLS) == set(FUNCTIONS)


ALL_CALLS = [call for calls in CALLS.values() for call in calls]
PARTS = 6


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_kernels_agree_with_interpreter(part: int) -> None:
    pair = Pair(programme(ALL_CALLS[part::PARTS]))
    rows = random_rows(part, 60)
    pair.apply([("r", [(row, 1) for row in rows[:40]])])
    pair.apply([("r", [*((row, 1) for row in rows[40:]), *((row, -1) for row in rows[:20])])])


def test_a_string_of_two_maps_is_made_in_the_middle_of_a_row() -> None:
    """Updates of a row that are done when a kernel asks for a string are not done again."""
    text = """
relation r(a: INTEGER not null, s: VARCHAR)
relation q(a: INTEGER not null, t: VARCHAR)
map mr[a: int, s: str?](n: int)
map mq[a: int, t: str?](n: int)
map both[x: str?](n: int)
map longest[x: int?](n: int)
on r:
  both[x] += Δr(a, s) * mq[a, t].n * (x := [concat(s, '/', t)]) | n: 1
  longest[x] := mq[a, t].n * mr[a, s].n * (x := [length(concat(s, t))]) *
    {concat(t, s) > 'b'}
    | n: 1
  mr[a, s] += Δr(a, s) | n: 1
on q:
  both[x] += Δq(a, t) * mr[a, s].n * (x := [concat(s, '/', t)]) | n: 1
  mq[a, t] += Δq(a, t) | n: 1
"""
    for single in (False, True):
        Pair(text, single=single).run(seed=3, batches=8, size=20)
