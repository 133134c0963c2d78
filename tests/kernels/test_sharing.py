"""One descent for all sums over a range, one look for a record that a row changes twice."""

from __future__ import annotations

import random
import re

import pytest
from tests.frontend.oracle import SQL, lower_last, read_catalog
from tests.kernels.harness import Pair

from viewlet.kernels.jit import source
from viewlet.planner.viewlets import compile_program
from viewlet.program.text import parse_program

APART = """
relation r(k: INTEGER not null, a: BIGINT not null)
map q[k: int](n: int, total: int)
map m[k: int, p: int](n: int, total: int)
on r:
  q[k] += Δr(k, a) * Sum[k](m[k, p].n * {p < a}) | n: 1
  q[k] += Δr(k, a) * Sum[k](m[k, p].total * {p <= a}) | total: 1
  m[k, a] += Δr(k, a) | n: 1, total: a
"""
TOGETHER = APART.replace("<=", "<")
RENAMED = TOGETHER.replace("m[k, p].total * {p < a}", "m[k, s].total * {s < a}")
OTHER_SIDE = TOGETHER.replace("{p < a}) | total", "{p > a}) | total")
CHANGED_BETWEEN = """
relation r(k: INTEGER not null, a: BIGINT not null)
map q[k: int](n: int)
map t[k: int](n: int)
map m[k: int, p: int](n: int)
on r:
  q[k] += Δr(k, a) * Sum[k](m[k, p].n * {p < a}) | n: 1
  m[k, a] += Δr(k, a) | n: 1
  t[k] += Δr(k, a) * Sum[k](m[k, p].n * {p < a}) | n: 1
"""


def descents(text: str, function: str) -> int:
    body = source(parse_program(text)).split(f"def {function}(", 1)[1].split("\ndef ", 1)[0]
    return len(re.findall(r"= range_at_\d+\(", body))


@pytest.mark.parametrize(
    ("text", "count"),
    [(TOGETHER, 1), (RENAMED, 1), (APART, 2), (OTHER_SIDE, 2), (CHANGED_BETWEEN, 2)],
    ids=["together", "renamed", "another bound", "another side", "changed between"],
)
@pytest.mark.parametrize("shape", ["on_r", "each_r"])
def test_sums_over_one_range_take_one_descent(text: str, count: int, shape: str) -> None:
    assert descents(text, shape) == count


@pytest.mark.parametrize("text", [TOGETHER, RENAMED, APART, OTHER_SIDE, CHANGED_BETWEEN])
@pytest.mark.parametrize("single", [False, True], ids=["batch", "single"])
def test_shared_sums_are_the_same(text: str, single: bool) -> None:
    pair, rng = Pair(text, single=single), random.Random(4)
    for _ in range(12):
        pair.apply(pair.random_changes(rng, rng.choice((1, 4, 30))))


def finance(name: str) -> str:
    catalog = read_catalog((SQL / "finance" / "schema.sql").read_text())
    query = (SQL / "finance" / f"{name}.sql").read_text()
    return source(compile_program(catalog, [lower_last(query, catalog)]))


def single_body(text: str, relation: str) -> str:
    return text.split(f"def each_{relation}(", 1)[1].split("\ndef ", 1)[0]


def test_axf_asks_once_for_count_and_sum() -> None:
    """Although each has its own loop beside it, for prices that are not finite."""
    body = single_body(finance("axf"), "asks")
    assert len(re.findall(r"= range_at_\d+\(", body)) == 1
    assert body.count("find(slots_axf") == 1


def test_bsp_alone_meets_no_row_of_its_own_batch() -> None:
    text = finance("bsp")
    body = single_body(text, "bids")
    assert "def on_bids(" not in text
    assert "d_bids_batch" not in body
    assert len(re.findall(r"= range_at_\d+\(", body)) == 2
