"""Steps side by side: never two of which one writes what the other reads or writes."""

from __future__ import annotations

import itertools

import pytest
from tests.kernels.programs import EXTREMES, JOIN, RANGES, STRINGS

from viewlet.kernels.block_walk import changed_maps, read_maps
from viewlet.kernels.loop_nodes import Loops, Step
from viewlet.kernels.loops import build_loops
from viewlet.program.ir import Program
from viewlet.program.text import parse_program
from viewlet_bench.workload import compiled, queries

CHAIN = """
relation r(a: INTEGER not null, b: INTEGER not null)
map m[a: int](n: int)
map k[b: int](n: int)
map v[a: int](n: int)
map w[a: int](n: int)
map n[b: int](n: int)
buffer d[a: int](n: int)
on r:
  d[a] += Δr(a, b) | n: 1
  v[a] += d[a].* * m[a].n | n: 1
  w[a] += d[a].* * m[a].n | n: 2
  m[a] += d[a].* | n: d[a].n
"""


def conflict(a: Step, b: Step) -> bool:
    writes, others = changed_maps(a.block), changed_maps(b.block)
    reads, their = read_maps(a.block), read_maps(b.block)
    return bool(writes & (others | their) or others & reads)


def check(loops: Loops) -> None:
    for relation, phases in loops.phases.items():
        for phase in phases:
            for one, other in itertools.combinations(phase, 2):
                assert not any(conflict(a, b) for a in one for b in other), relation
        # The same updates in all: each statement's text is found as often as before.
        before = [line for step in loops.steps[relation] for line in step.text.splitlines()]
        after = [line for step in loops.ordered(relation) for line in step.text.splitlines()]
        assert sorted(before) == sorted(after)
        ranges = [lane for phase in loops.lanes(relation) for lane in phase]
        assert [first for first, _ in ranges[1:]] == [last for _, last in ranges[:-1]]
        assert ranges[0][0] == 0 and ranges[-1][1] == len(loops.ordered(relation))


@pytest.mark.parametrize("query", queries("tpch"))
def test_lanes_of_tpch_do_not_touch(query: str) -> None:
    check(build_loops(compiled("tpch", query).program))


@pytest.mark.parametrize("text", [JOIN, EXTREMES, RANGES, STRINGS, CHAIN])
def test_lanes_of_small_programs_do_not_touch(text: str) -> None:
    check(build_loops(parse_program(text)))


def written(program: Program, relation: str) -> list[list[set[str]]]:
    phases = build_loops(program).phases[relation]
    return [
        [{m for s in lane for m in changed_maps(s.block)} for lane in phase] for phase in phases
    ]


def test_what_nothing_joins_runs_beside_the_rest() -> None:
    text = CHAIN + "  n[b] += Δr(a, b) * k[b].n | n: 1\n"
    assert written(parse_program(text), "r") == [[{"d", "v", "w", "m"}, {"n"}]]


def test_what_is_joined_runs_level_by_level() -> None:
    assert written(parse_program(CHAIN), "r") == [[{"d"}], [{"v"}, {"w"}], [{"m"}]]


def test_a_small_part_of_the_work_gets_no_lane() -> None:
    text = """
relation r(a: INTEGER not null, b: INTEGER not null)
map m[a: int, b: int](n: int)
map total[](n: int)
on r:
  m[a, b] += Δr(a, b) | n: 1
  total[] += Δr(a, b) | n: 1
"""
    assert written(parse_program(text), "r") == [[{"m", "total"}]]


def test_stages_of_a_partition_have_one_lane() -> None:
    loops = build_loops(parse_program(CHAIN), keep_buffers=True)
    assert [len(phase) for phase in loops.phases["r"]] == [1]
