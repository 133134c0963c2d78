"""The verifier names what is wrong, and shows the statement."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

import pytest

from viewlet.calculus.expr import Expr, MapRef, transform
from viewlet.errors import ParseError, ProgramError
from viewlet.program.check import check
from viewlet.program.text import parse_program, program_text

HEAD = """
relation R(a: INTEGER not null, b: INTEGER)
relation S(a: INTEGER not null)
map m[a: int](count: int)
map n[a: int, p: int](count: int, total: int)
buffer d_m[a: int](count: int) of m
on R:
"""

WRONG = [
    ("x[a] += ΔR(a, b)", "unknown map x"),
    ("m[a, b] += ΔR(a, b) | count: 1", "m has 1 keys"),
    ("m[a] += ΔR(a, b) | sum: 1", "m has no column sum"),
    ("m[a] += R(a, b) | count: 1", "base relation R in a trigger"),
    ("m[a] += ΔS(a) | count: 1", "ΔS in a trigger on R"),
    ("m[a] += ΔR(a) | count: 1", "ΔR with 1 variables"),
    ("m[c] += ΔR(a, b) | count: 1", "keys c are not bound"),
    ("m[a] += ΔR(a, b) * {c > 1} | count: 1", "unbound c"),
    ("m[a] += ΔR(a, b) * y[a] | count: 1", "unknown map y"),
    ("m[a] += ΔR(a, b) * n[a].count | count: 1", "n has 2 keys, not 1"),
    ("m[a] += ΔR(a, b) * n[a, b].sum | count: 1", "n has no column sum"),
    ("m[a] += d_m[a].count | count: 1", "buffer d_m is read before it is filled"),
    ("d_m[a] := ΔR(a, b) | count: 1", "a buffer is written with += only"),
    ("m[a] += ΔR(a, b) * (x := n[a, c].count) | count: 1", "unbound c"),
    ("m[a] += ΔR(a, b) * (n[a, p].count + 1) | count: 1", "terms bind different variables"),
    ("m[a] := n[a, p].count | count: 1\n  n[a, b] += ΔR(a, b) | count: 1", "after a recomputation"),
]


@pytest.mark.parametrize(("statement", "message"), WRONG, ids=[m for _, m in WRONG])
def test_faults_are_named(statement: str, message: str) -> None:
    program = parse_program(HEAD + "  " + statement)
    with pytest.raises(ProgramError, match="(?s)" + message.replace("+=", r"\+=")) as caught:
        check(program)
    assert "in the trigger on R" in str(caught.value)


def test_a_buffer_says_whose_change_it_holds() -> None:
    text = HEAD + "  d_m[a] += ΔR(a, b) | count: 1\n  m[a] += d_m[a].* | count: d_m[a].count\n"
    program = check(parse_program(text))
    assert [(m.name, m.buffer, m.change_of) for m in program.maps] == [
        ("m", False, None),
        ("n", False, None),
        ("d_m", True, "m"),
    ]
    assert parse_program(program_text(program)) == program


def test_no_name_makes_a_buffer() -> None:
    """A map called d_m is one, and a reference to it says so."""
    text = "relation R(a: INTEGER not null)\nmap d_m[a: int](count: int)\non R:\n"
    program = check(parse_program(text + "  d_m[a] += ΔR(a) * d_m[a].count | count: 1"))
    (trigger,) = program.triggers
    (statement,) = trigger.statements
    loop = transform(statement.loop, lambda n: replace(n, buffer=True) if is_map(n) else n)
    wrong = replace(trigger, statements=(replace(statement, loop=loop),))
    with pytest.raises(ProgramError, match="d_m is no buffer"):
        check(replace(program, triggers=(wrong,)))


def is_map(node: Expr) -> TypeGuard[MapRef]:
    return isinstance(node, MapRef)


def test_two_maps_of_one_name() -> None:
    with pytest.raises(ProgramError, match="not unique"):
        check(parse_program("map m[a: int](count: int)\nmap m[a: int](count: int)"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("relation R(a: FOO)", "unknown type FOO"),
        ("map m[a: foo](count: int)", "unknown representation foo"),
        ("on R:\n  m[a] = ΔR(a)", "expected += or :="),
        ("banana", "expected relation, map, buffer, on or view"),
        ("on R:\n  m[a] += {f(a)}", "unknown function f"),
        ("on R:\n  m[a] += ΔR(a, ;)", "expected a name"),
        ("map m[a: int](count: int) $", "unexpected character"),
    ],
)
def test_text_errors_have_a_place(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_program(text)
    assert caught.value.position is not None
    assert message in str(caught.value)
