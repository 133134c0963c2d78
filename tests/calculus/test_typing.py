"""How variables and weights are held."""

from __future__ import annotations

import pytest

from viewlet.calculus.text import parse
from viewlet.calculus.typing import Signature, Slot, variable_slots, weight_type
from viewlet.schema import Physical

SIGNATURES = {
    "R": Signature((Slot(Physical.INT), Slot(Physical.INT, True)), {"value": Physical.INT}),
    "F": Signature((Slot(Physical.FLOAT),), {"value": Physical.INT}),
}


@pytest.mark.parametrize(
    ("text", "variable", "slot"),
    [
        ("R(a, b)", "a", "int"),
        ("R(a, b)", "b", "int?"),
        ("R(a, b) * R(b, c)", "b", "int"),
        ("R(a, b) * (x := [a / b])", "x", "float?"),
        ("R(a, b) * (x := [a / 2])", "x", "float"),
        ("R(a, b) * (x := [coalesce(b, 1)])", "x", "int"),
        ("R(a, b) * (x := Sum[a](R(a, c) * 1.5))", "x", "float"),
        ("R(a, b) * (m := min c in R(a, c))", "m", "int?"),
        # Every term binds the variable in its own way.
        ("R(x, b) + R(a, b) * (x := [NULL])", "x", "int?"),
        ("R(x, b) + F(x)", "x", "float"),
    ],
)
def test_slots(text: str, variable: str, slot: str) -> None:
    assert str(variable_slots(parse(text), SIGNATURES)[variable]) == slot


@pytest.mark.parametrize(
    ("text", "physical"),
    [("R(a, b) * a", "int"), ("R(a, b) * F(c) * c", "float"), ("Exists(F(c) * c)", "int")],
)
def test_weights(text: str, physical: str) -> None:
    expr = parse(text)
    slots = variable_slots(expr, SIGNATURES)
    assert weight_type(expr, SIGNATURES, slots).value == physical
