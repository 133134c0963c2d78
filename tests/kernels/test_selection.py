"""Rows are chosen by a filter first where that lets later ones be seen, and only there."""

from __future__ import annotations

import random
import re

import pytest
from tests.kernels.harness import Pair
from tests.kernels.programs import CHOSEN

from viewlet.kernels.jit import source
from viewlet.program.text import parse_program
from viewlet.storage.memory import CHUNK


def conditions_of(program: str, function: str) -> list[str]:
    """The conditions by which a kernel chooses rows."""
    body = source(parse_program(program)).split(f"def {function}(")[1].split("@compiled")[0]
    return re.findall(r"count \+= (.*)", body)


def test_nested_filters_are_one_test() -> None:
    assert conditions_of(CHOSEN, "on_r") == [
        "(load(column_1, row) < 4) & (load(table_0, load(column_3, row)) != 0)"
    ]


def test_single_tuples_are_not_chosen() -> None:
    assert conditions_of(CHOSEN, "each_r") == []


@pytest.mark.parametrize(
    ("change", "statement"),
    [
        ("n: INTEGER", "m[a] += Δr(a, n, t) * {n < 3} | c: 1"),  # NULL
        ("n: INTEGER not null", "m[a] += Δr(a, n, t) * {n + a < 3} | c: 1"),  # may overflow
        ("n: INTEGER not null", "m[a] += Δr(a, n, t) * {concat(t, n) = 'x'} | c: 1"),  # remembered
        ("n: INTEGER not null", "m[a] += Δr(a, n, t) | c: 1"),  # no filter
        (
            "n: INTEGER not null",
            "m[a] += Δr(a, n, t) * {n < 3} | c: 1\n  o[n] += Δr(a, n, t) * {a < 3} | c: 1",
        ),
        ("n: INTEGER not null", "k[t] += Δr(a, n, t) * {n < 3} | c: 1"),  # few groups
        ("n: INTEGER not null", "z[] += Δr(a, n, t) * {n < 3} | c: 1"),  # nothing to fetch
    ],
)
def test_other_rows_go_through_one_loop(change: str, statement: str) -> None:
    program = f"""
relation r(a: INTEGER not null, {change}, t: VARCHAR not null)
map m[a: int](c: int)
map o[n: int](c: int)
map k[t: str](c: int)
map z[](c: int)
on r:
  {statement}
"""
    assert conditions_of(program, "on_r") == []


@pytest.mark.parametrize("size", [CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK])
def test_many_rows_while_maps_grow(size: int) -> None:
    """Kernels leave for more room in the middle of what was chosen, and go on there."""
    pair = Pair(CHOSEN)
    rng = random.Random(size)
    texts = ("xa", "y", "xb", "")
    for _ in range(2):
        r = [(rng.randrange(size), rng.randrange(6), 1.5, rng.choice(texts)) for _ in range(size)]
        s = [(rng.randrange(size), rng.randrange(6), None) for _ in range(size)]
        pair.apply([("s", [(row, 1) for row in s]), ("r", [(row, 1) for row in r])])
        pair.apply([("r", [(row, -1) for row in r[::2]]), ("s", [(row, -1) for row in s[::3]])])


def test_no_row_and_every_row() -> None:
    pair = Pair(CHOSEN)
    none = [((i, 5, 0.5, "x"), 1) for i in range(2 * CHUNK)]
    every = [((i, 1, 0.5, "x"), 1) for i in range(2 * CHUNK)]
    pair.apply([("r", none)])
    pair.apply([("r", every)])
    pair.apply([("r", none + every)])
