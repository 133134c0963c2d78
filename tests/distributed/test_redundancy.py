"""Common subexpressions and dead code, on the side where they are."""

from viewlet.distributed.redundancy import Buffers, eliminate_common, eliminate_dead
from viewlet.distributed.text import operation_text, parse_distributed

PROGRAM = """
relation r(a: INTEGER not null, b: INTEGER not null)
map m[a: int](value: int)
place m dist(a)
map n[a: int](value: int)
place n dist(a)
transfers
buffer s1[a: int](value: int)
place s1 random
buffer s2[b: int](value: int)
place s2 random
buffer r1[a: int](value: int)
place r1 dist(a)
buffer r2[b: int](value: int)
place r2 dist(b)
on r:
"""


def run(blocks: str) -> tuple[list[str], Buffers]:
    program = parse_distributed(PROGRAM + blocks)
    operations = [o for block in program.triggers[0].blocks for o in block.operations]
    buffers = Buffers({m.name: m for m in program.buffers}, dict(program.locations))
    found = eliminate_dead(eliminate_common(operations, buffers), buffers)
    return [" ".join(operation_text(o).split()) for o in found], buffers


def test_equal_sends_and_transfers_are_one() -> None:
    found, _ = run("""
  distributed: s1[a] += Δr(a, b)
  local: r1 := repart[a](s1)
  distributed: m[a] += r1[a] s2[b] += Δr(b, c)
  local: r2 := repart[b](s2)
  distributed: n[a] += r2[a]""")
    assert found == [
        "s1[a] += Δr(a, b)",
        "r1 := repart[a](s1)",
        "m[a] += r1[a]",
        "n[a] += r1[a]",
    ]


def test_equal_loops_share_their_columns() -> None:
    found, buffers = run("""
  distributed: s1[a] += Δr(a, b)
  local: r1 := repart[a](s1)
  distributed: m[a] += r1[a] s2[b] += Δr(b, c) | value: c
  local: r2 := repart[b](s2)
  distributed: n[a] += r2[a]""")
    assert found == [
        "s1[a] += Δr(a, b) | value: 1, v1: b",
        "r1 := repart[a](s1)",
        "m[a] += r1[a]",
        "n[a] += r1[a].v1",
    ]
    assert [c.name for c in buffers.maps["r1"].columns] == ["value", "v1"]


def test_another_place_is_another_transfer() -> None:
    found, _ = run("""
  distributed: s1[a] += Δr(a, b) s2[b] += Δr(b, c)
  local: r1 := repart[a](s1) r2 := gather(s2)
  distributed: m[a] += r1[a]
  local: n[a] += r2[a]""")
    assert found[:3] == ["s1[a] += Δr(a, b)", "r1 := repart[a](s1)", "r2 := gather(s1)"]


def test_the_driver_and_the_workers_compute_for_themselves() -> None:
    found, _ = run("""
  distributed: s1[a] += m[a].*
  local: s2[b] += m[b].* r1 := repart[a](s1) r2 := scatter[b](s2)
  distributed: n[a] += r1[a] * r2[a]""")
    assert len(found) == 5


def test_contents_that_changed_are_computed_again() -> None:
    found, _ = run("""
  distributed: s1[a] += m[a].* m[a] += Δr(a, b) s2[b] += m[b].*
  local: r1 := repart[a](s1) r2 := repart[b](s2)
  distributed: n[a] += r1[a] * r2[a]""")
    assert len(found) == 6


def test_what_nobody_reads_is_dropped() -> None:
    found, _ = run("""
  distributed: s1[a] += Δr(a, b)
  local: r1 := repart[a](s1)
  distributed: m[a] += n[a]""")
    assert found == ["m[a] += n[a]"]
