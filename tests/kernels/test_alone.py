"""What a batch of one row need not do, and that it is the same without."""

from __future__ import annotations

import random

import pytest
from tests.kernels.harness import Pair

from viewlet.kernels.alone import alone
from viewlet.kernels.jit import compile_program
from viewlet.program.text import parse_program

PAIRS = """
relation r(k: INTEGER not null, a: BIGINT not null, c: BIGINT not null)
buffer d[b: int, k: int](n: int)
map q[k: int](n: int)
map m[k: int, p: int](n: int)
on r:
  d[b, k] += Δr(k, b, c) | n: 1
  q[k] += Δr(k, a, c) * Sum[k](m[k, p].n * {p < a}) | n: 1
  q[k] += Δr(k, a, c) * Sum[k](m[k, p].n * {p > a}) | n: 1
  q[k] += Δr(k, a, c) * d[b, k].n * {a > b} | n: 1
  m[k, a] += Δr(k, a, c) | n: 1
"""
OR_EQUAL = PAIRS.replace("{a > b}", "{a >= b}").replace("{p < a}", "{p <= a}")
ANOTHER_COLUMN = PAIRS.replace("{a > b}", "{c > b}")
UNEQUAL = PAIRS.replace("{a > b}", "{a <> b}")
UNEQUAL_FLOATS = """
relation r(k: INTEGER not null, a: DOUBLE not null)
buffer d[b: float, k: int](n: int)
map q[k: int](n: int)
on r:
  d[b, k] += Δr(k, b) | n: 1
  q[k] += Δr(k, a) * d[b, k].n * {a <> b} | n: 1
"""
ALSO_READ = PAIRS.replace("  m[k, a] +=", "  q[k] += d[b, k].n * {b > 2} | n: 5\n  m[k, a] +=")
FILTERED = PAIRS.replace("Δr(k, b, c) | n: 1", "Δr(k, b, c) * {c > 0} | n: c")


def left(text: str) -> list[str]:
    program = parse_program(text)
    return [s.target for s in alone(program.triggers[0], program).statements]


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        (PAIRS, ["q", "q", "m"]),
        (FILTERED, ["q", "q", "m"]),
        (UNEQUAL, ["q", "q", "m"]),
        (UNEQUAL_FLOATS, []),  # NaN is equal to itself
        (OR_EQUAL, ["d", "q", "q", "q", "m"]),
        (ANOTHER_COLUMN, ["d", "q", "q", "q", "m"]),
        (ALSO_READ, ["d", "q", "q", "q", "m"]),
    ],
    ids=["strict", "filtered", "unequal", "NaN", "or equal", "another column", "also read"],
)
def test_only_what_cannot_be_is_left_out(text: str, targets: list[str]) -> None:
    assert left(text) == targets


@pytest.mark.parametrize(
    "text", [PAIRS, FILTERED, UNEQUAL, UNEQUAL_FLOATS, OR_EQUAL, ANOTHER_COLUMN, ALSO_READ]
)
@pytest.mark.parametrize("single", [False, True], ids=["batch", "single"])
def test_rows_one_by_one_do_the_same(text: str, single: bool) -> None:
    pair, rng = Pair(text, single=single), random.Random(7)
    for _ in range(12):
        pair.apply(pair.random_changes(rng, rng.choice((1, 4, 30))))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PAIRS, {"r"}),
        (PAIRS.replace("c: BIGINT not null)", "c: BIGINT not null) key (k)"), set()),
        (PAIRS.replace("  q[k] += Δr(k, a, c) * d[b, k].n * {a > b} | n: 1\n", ""), set()),
        (PAIRS.replace("m[k, a] +=", "z[] := Sum[](m[k, a].n) | n: 1\n  m[k, a] +=").replace(
            "map q", "map z[](n: int)\nmap q"), set()),
    ],
    ids=["many", "a key", "none", "recomputed"],
)  # fmt: skip
def test_batches_whose_rows_meet_each_other_are_taken_row_by_row(
    text: str, expected: set[str]
) -> None:
    module = compile_program(parse_program(text))
    assert module.loops.by_row == expected
    assert (module.batch["r"] == module.single["r"]) == bool(expected)


@pytest.mark.parametrize("text", [PAIRS, OR_EQUAL, UNEQUAL_FLOATS, ALSO_READ])
def test_row_by_row_is_the_same(text: str) -> None:
    pair = Pair(text)
    assert pair.engine.module.loops.by_row
    for seed in range(3):
        pair.run(seed, batches=4, size=200)
