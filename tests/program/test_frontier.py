"""Refreshes: their text, what the verifier asks of them, and the frontier that a batch stops at."""

from __future__ import annotations

import pytest

from viewlet.calculus.ring import Gmr
from viewlet.errors import ProgramError
from viewlet.program.check import check
from viewlet.program.deferral import at_once
from viewlet.program.frontier import reevaluate_on_read, reevaluated
from viewlet.program.interpret import Interpreter
from viewlet.program.ir import Program
from viewlet.program.text import parse_program, program_text

HEAD = """
relation R(a: INTEGER not null, b: INTEGER not null)
map m[a: int](count: int)
  count := Sum[a](R(a, b))
map total[](count: int)
  count := Sum[](R(a, b))
map v[a: int](count: int)
  count := Sum[a]((x := Sum[](R(c, d))) * {x > 1} * R(a, b))
"""
VIEW = """
view v[a] : group
  count := Sum[a]((x := Sum[](R(c, d))) * {x > 1} * R(a, b))
  select a : INTEGER not null := a
  select n : BIGINT not null := count
  count from v.count
"""
EAGER = (
    HEAD
    + """
on R:
  m[a] += ΔR(a, b) | count: 1
  total[] += ΔR(a, b) | count: 1
  v[a] := (x := total[].count) * {x > 1} * m[a].* | count: m[a].count
"""
    + VIEW
)
SPLIT = (
    HEAD
    + """
on R:
  m[a] += ΔR(a, b) | count: 1
  total[] += ΔR(a, b) | count: 1

on read v:
  v[a] := (x := total[].count) * {x > 1} * m[a].* | count: m[a].count
"""
    + VIEW
)


def program(text: str) -> Program:
    return check(parse_program(text))


def test_a_program_with_refreshes_parses_back() -> None:
    split = program(SPLIT)
    assert [refresh.view for refresh in split.refreshes] == ["v"]
    assert split.on_read == {"v"}
    assert [map.name for map in split.state] == ["m", "total", "v"]
    assert parse_program(program_text(split)) == split


def test_a_relation_may_be_called_read() -> None:
    text = (
        "relation read(a: INTEGER)\nmap m[](count: int)\non read:\n  m[] += Δread(a) | count: 1\n"
    )
    assert [t.relation for t in parse_program(text).triggers] == ["read"]


def test_what_is_computed_anew_moves_behind_the_frontier() -> None:
    eager = program(EAGER)
    assert reevaluated(eager, "v")
    assert reevaluate_on_read(eager, ["v"]) == program(SPLIT)
    assert reevaluate_on_read(eager, []) is eager


def test_a_map_that_an_eager_view_reads_stays() -> None:
    both = program(EAGER + VIEW.replace("view v", "view w").replace("v.count", "m.count"))
    split = reevaluate_on_read(both, ["v"])
    assert split.on_read == {"v"}
    shared = program(EAGER + VIEW.replace("view v", "view w"))
    assert reevaluate_on_read(shared, ["v"]).on_read == frozenset()
    assert reevaluate_on_read(shared, ["v", "w"]).on_read == {"v"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  m[a] += ΔR(a, b) | count: 1\n", "  v[a] += ΔR(a, b) | count: 1\n", "refreshed on read"),
        (
            "  total[] += ΔR(a, b) | count: 1\n",
            "  total[] += ΔR(a, b) * v[a].count | count: 1\n",
            "refreshed on read",
        ),
        ("  v[a] := (x", "  v[a] += (x", "has not computed"),
        ("* m[a].* | count: m[a].count", "* ΔR(a, b) | count: 1", "ΔR in a refresh"),
        ("* m[a].* | count: m[a].count", "* v[a].* | count: v[a].count", "before it is computed"),
        ("on read v", "on read w", "which is no view"),
    ],
)
def test_faults_of_refreshes_are_named(old: str, new: str, message: str) -> None:
    assert SPLIT.count(old) == 1
    with pytest.raises(ProgramError, match=message):
        check(parse_program(SPLIT.replace(old, new)))


def test_a_view_needs_the_refresh_of_its_own_maps() -> None:
    other = VIEW.replace("view v", "view w")
    with pytest.raises(ProgramError, match="view w: no refresh of v before it"):
        check(parse_program(SPLIT + other))


def test_the_interpreter_refreshes() -> None:
    machines = [Interpreter(program(text)) for text in (EAGER, SPLIT)]
    views = [machine.program.views[0] for machine in machines]
    for delta in ([((1, 2), 1)], [((1, 3), 1), ((4, 4), 2)], [((1, 2), -1), ((1, 3), -1)]):
        for machine in machines:
            machine.apply("R", Gmr(delta))
        for _ in range(2):
            machines[1].refresh("v")
            eager, split = (m.rows(v) for m, v in zip(machines, views, strict=True))
            assert sorted(eager) == sorted(split)
    assert machines[1].rows(views[1]) == [((4, 2), 1)]


DEFERRED = """
relation r(a: INTEGER)
relation r@v(a: INTEGER) later r
map m[](count: int)
  count := Sum[](r(a))
map n[](count: int)
  count := Sum[](r@v(a))
map k[](count: int)
  count := Sum[](r@v(a))
on r:
  m[] += Δr(a) | count: 1
on r@v:
  n[] += Δr@v(a) | count: 1
  k[] := n[].count | count: 1
"""


def test_deferred_relations_are_others_until_they_are_fed_at_once() -> None:
    deferred = check(parse_program(DEFERRED))
    assert parse_program(program_text(deferred)) == deferred
    assert at_once(deferred, later=["r@v"]) == deferred
    together = check(at_once(deferred))
    assert [relation.name for relation in together.relations] == ["r"]
    (trigger,) = together.triggers
    assert [(s.target, s.op) for s in trigger.statements] == [
        ("m", "+="),
        ("n", "+="),
        ("k", ":="),
    ]
    assert {str(c.definition) for m in together.maps for c in m.columns} == {
        str(together.maps[0].columns[0].definition)
    }
