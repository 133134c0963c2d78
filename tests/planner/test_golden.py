"""Programs that the papers print, compiled here."""

from __future__ import annotations

import random

import pytest

from tests.planner.support import assert_maintains, catalog_of, compile_text
from viewlet.calculus.expr import Delta, MapRef, walk
from viewlet.calculus.query import Query, ViewKind
from viewlet.calculus.scope import outputs
from viewlet.calculus.text import parse
from viewlet.program.ir import Program
from viewlet.program.text import parse_program, program_text

PATH = "Sum[b](R(a, b) * S(b, c) * T(c, d))", "R(a, b) S(b, c) T(c, d)"
CIDR = (
    "Sum[ok, sp](C(ck, nm, nk, bal) * O(ck, ok, sp) * L(ok, ep) * ep)",
    "C(ck, nm, nk, bal) O(ck, ok, sp) L(ok, ep)",
)
Q18 = (
    "Sum[ck](C(ck) * O(ck, ok) * L(ok, q) * q * "
    "(x := Sum[](L(ok2, q2) * {ok2 == ok} * q2)) * {100 < x})",
    "C(ck) O(ck, ok) L(ok, q)",
)
PSP = (
    "Sum[](B(bp, bv) * A(ap, av) * (ap + -1 * bp) * "
    "(v1 := Sum[](B(bp1, bv1) * bv1)) * {4 * bv > v1} * "
    "(v2 := Sum[](A(ap1, av1) * av1)) * {4 * av > v2})",
    "B(p, v) A(p, v)",
)
TRIANGLE = "Sum[](R(a, b) * S(b, c) * T(c, a))", "R(a, b) S(b, c) T(c, a)"
SELF_JOIN = "Sum[a](R(a, b) * R(b, c) * R(c, d))", "R(a, b)"
EIGHT = (
    "Sum[a](R1(a, b) * R2(b, c) * R3(c, d) * R4(d, e) * R5(e, f) * R6(f, g) * R7(g, h) * R8(h, i))",
    " ".join(f"R{i}({chr(96 + i)}, {chr(97 + i)})" for i in range(1, 9)),
)
NESTED_TWICE = (
    "Sum[a](R(a, b) * (x := Sum[a](S(a, c) * (y := Sum[c](T(c, d) * d)) * {y > c})) * {x > b})",
    "R(a, b) S(a, c) T(c, d)",
)
MINIMUM = "Sum[a, m](R(a, b) * (m := min c in Sum[b, c](S(b, c))))", "R(a, b) S(b, c)"


def maps(program: Program) -> set[tuple[str, ...]]:
    """What each map joins, in the order of its definition."""
    return {
        tuple(sorted(n.name for n in walk(c.definition) if hasattr(n, "variables")))
        for m in program.state
        for c in m.columns
        if c.definition is not None
    }


def statements(program: Program) -> int:
    return sum(len(trigger.statements) for trigger in program.triggers)


def test_example_2_1_2() -> None:
    """Six maps: the view, RS, ST, R, S, T; no statement joins more than the batch and one map...

    ... except the view's on S, whose two lookups share only variables of the batch.
    """
    program = compile_text(*PATH)
    assert maps(program) == {
        ("R", "S", "T"),
        ("R", "S"),
        ("S", "T"),
        ("R",),
        ("S",),
        ("T",),
    }
    assert len(program.state) == 6
    for trigger in program.triggers:
        for statement in trigger.statements:
            loops = [n for n in walk(statement.loop) if isinstance(n, MapRef)]
            assert len(loops) <= 1


def test_cidr_query() -> None:
    """Paper 003, section 3.1: six maps and ten insert statements."""
    program = compile_text(*CIDR)
    assert len(program.state) == 6
    assert statements(program) == 10


def test_simplified_q18() -> None:
    """Thesis 3.3.1: the view and five maps."""
    program = compile_text(*Q18)
    assert maps(program) == {
        ("C", "L", "L", "O"),
        ("L", "L", "O"),
        ("C", "O"),
        ("C",),
        ("O",),
        ("L",),
    }
    assert len(program.state) == 6


def test_psp_is_scans_only() -> None:
    """Thesis 3.3.2: recomputed from scans of maps with one relation each, never a cross product."""
    program = compile_text(*PSP)
    assert {m for m in maps(program) if len(m) == 1} == {("A",), ("B",)}
    assert all(len(set(m)) == 1 for m in maps(program) - {("A", "A", "B", "B")})
    for trigger in program.triggers:
        for statement in trigger.statements:
            if statement.target == "q":
                loops = [n for n in walk(statement.loop) if type(n).__name__ == "Sum"]
                scans = [[n for n in walk(loop) if isinstance(n, MapRef)] for loop in loops]
                assert loops and all(len(found) == 1 for found in scans)


def test_cyclic_join_is_not_materialized() -> None:
    assert all(len(m) in (1, 3) for m in maps(compile_text(*TRIANGLE)))


def test_distinct_is_bounded_by_the_batch() -> None:
    """Every statement starts from the batch or from a buffer that it filled."""
    program = compile_text("Sum[a](Exists(Sum[a, b](R(a, b, c))))", "R(a, b, c)")
    for trigger in program.triggers:
        for statement in trigger.statements:
            assert statement.op == "+="
            first = next(n for n in walk(statement.loop) if isinstance(n, Delta | MapRef))
            assert isinstance(first, Delta) or program.map(first.name).buffer


ALL = {
    "path": PATH,
    "cidr": CIDR,
    "q18": Q18,
    "psp": PSP,
    "triangle": TRIANGLE,
    "self_join": SELF_JOIN,
    "eight_way": EIGHT,
    "nested_twice": NESTED_TWICE,
    "minimum": MINIMUM,
}


@pytest.mark.parametrize("name", ALL)
def test_text_parses_back(name: str) -> None:
    program = compile_text(*ALL[name])
    assert parse_program(program_text(program)) == program


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("name", ALL)
def test_maps_stay_right(name: str, size: int) -> None:
    text, relations = ALL[name]
    catalog = catalog_of(relations)
    expr = parse(text)
    query = Query("q", ViewKind.GROUP, tuple(sorted(outputs(expr))), (("count", expr),), ())
    chance = random.Random(size)
    rows = {
        relation.name: [
            tuple(chance.choice([1, 2, 3, 60]) for _ in relation.columns) for _ in range(8)
        ]
        for relation in catalog
    }
    assert_maintains(catalog, [query], rows, size, seed=3)
