"""Cache lines are asked for where every row goes, and nowhere else."""

from __future__ import annotations

import re

from viewlet.kernels.jit import source
from viewlet.program.text import parse_program

PROGRAM = """
relation r(a: INTEGER not null, b: INTEGER not null, x: INTEGER)
map all[a: int, b: int](n: int)
map some[a: int](n: int)
map loose[x: int?](n: int)
on r:
  all[a, b] += Δr(a, b, x) | n: 1
  some[a] += Δr(a, b, x) * {b < 3} | n: 1
  loose[x] += Δr(a, b, x) | n: 1
"""


def asked_for(function: str) -> set[str]:
    text = source(parse_program(PROGRAM))
    body = text.split(f"def {function}(")[1].split("@compiled")[0]
    return set(re.findall(r"prefetch\(\w+?_(\w+)", body))


def test_only_what_every_row_of_a_batch_touches() -> None:
    assert asked_for("on_r") == {"all"}


def test_a_buffer_is_looked_ahead_in_too() -> None:
    program = """
relation r(a: INTEGER not null)
map m[a: int](n: int)
buffer d[a: int](n: int)
on r:
  d[a] += Δr(a) | n: 1
  m[a] += d[a].* | n: d[a].n
"""
    copy = source(parse_program(program)).split("def on_r(")[1].split("# m[a] +=")[1]
    assert "prefetch(slots_m" in copy and "load(records_d + (row + 32)" in copy


def test_single_tuples_look_not_ahead() -> None:
    assert asked_for("each_r") == set()


def test_a_single_tuple_asks_for_its_record_while_it_goes_down_the_tree() -> None:
    program = """
relation r(a: INTEGER not null, p: INTEGER not null)
map v[a: int](n: int)
map m[a: int, p: int](n: int)
on r:
  v[a] += Δr(a, p) * Sum[a](m[a, q].n * {q < p}) | n: 1
  m[a, p] += Δr(a, p) | n: 1
"""
    head = source(parse_program(program)).split("def each_r(")[1].split("# v[a] +=")[0]
    assert "prefetch(records_m + likely(slots_m" in head
