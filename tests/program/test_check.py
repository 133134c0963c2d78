"""The verifier names what is wrong, and shows the statement."""

from __future__ import annotations

import pytest

from viewlet.errors import ParseError, ProgramError
from viewlet.program.check import check
from viewlet.program.patterns import Pattern, access_patterns
from viewlet.program.text import parse_program

HEAD = """
relation R(a: INTEGER not null, b: INTEGER)
relation S(a: INTEGER not null)
map m[a: int](count: int)
map n[a: int, p: int](count: int, total: int)
buffer d_m[a: int](count: int)
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


def test_access_patterns() -> None:
    program = parse_program(
        HEAD
        + """
  d_m[a] += ΔR(a, b) | count: 1
  m[a] += d_m[a].* * (x := Sum[](n[c, p].total * {p > a})) * (y := n[a, a].count) | count: x
  m[a] += d_m[a].* * (s := Sum[a](n[a, p].total * {p > 3})) | count: s
  m[a] += d_m[a].* * (l := min p in n[a, p].count) | count: 1
  m[a] += n[a, p].* | count: 1
"""
    )
    found = access_patterns(program)
    assert found["n"] == {
        Pattern("scan", ()),
        Pattern("get", (0, 1)),
        Pattern("range", (0,), 1),
        Pattern("extreme", (0,), 1),
    }
    assert found["d_m"] == {Pattern("get", (0,)), Pattern("scan", ())}
