"""The deltas that the thesis works out, derived and simplified here."""

from __future__ import annotations

import pytest

from viewlet.calculus.delta import batch, delta
from viewlet.calculus.expr import Assign, Delta, Expr, product_of, transform
from viewlet.calculus.factorize import factorize
from viewlet.calculus.rewrite import canonical
from viewlet.calculus.scope import check, outputs
from viewlet.calculus.simplify import simplify
from viewlet.calculus.text import parse, to_text
from viewlet.functions import Ref


def derive(query: str, relation: str, parameters: str = "", keys: str = "") -> str:
    """Δ of the query for a batch, or for the insertion of one tuple (@x, @y, ...)."""
    expr = simplify(parse(query))
    change = delta(expr, batch(relation))
    if parameters:
        change = for_inserted_tuple(change, relation, parameters.split())
    return to_text(simplify(change, keys.split() or outputs(expr)))


def for_inserted_tuple(expr: Expr, relation: str, parameters: list[str]) -> Expr:
    """ΔR(x, y) -> (x := @x) * (y := @y): the batch's delta for one inserted tuple."""

    def rule(node: Expr) -> Expr:
        if not isinstance(node, Delta) or node.name != relation:
            return node
        pairs = zip(node.variables, parameters, strict=True)
        return product_of(*(Assign(variable, Ref(parameter)) for variable, parameter in pairs))

    return transform(expr, rule)


def test_example_2_2_5() -> None:
    """Δ+R(x,y) Sum[](R * S * (B = C) * A * D) = Sum[](S(C, D) * (y = C) * x * D)"""
    found = derive("Sum[](R(A, B) * S(C, D) * {B == C} * A * D)", "R", "@x @y")
    assert found == "Sum[@y](@x * S(@y, D) * D)"


def test_example_2_2_6() -> None:
    """The nested delta (A > x) * y is a conditional value inside the new lift."""
    found = derive(
        "Sum[A, B](R(A, B) * (z := Sum[](S(C, D) * {A > C} * D)) * {B < z})", "S", "@x @y"
    )
    assert found == (
        "R(A, B) * (z := Sum[](S(C, D) * {A > C} * D) + {A > @x} * @y) * {B < z} + "
        "-1 * R(A, B) * (z := Sum[](S(C, D) * {A > C} * D)) * {B < z}"
    ).replace("R(A, B) * (z", "Sum[A, B](R(A, B) * (z").replace("{B < z}", "{B < z})")


def test_example_3_2_1() -> None:
    """(2 * R(x) + 1) * S(B), with A := x as the range restriction."""
    found = derive("R(A) * R(A) * S(B)", "R", "@x")
    assert found == "2 * (A := @x) * R(@x) * S(B) + (A := @x) * S(B)"
    collected = to_text(factorize(parse("2 * R(@x) * S(B) + S(B)")))
    assert collected == "S(B) * (2 * R(@x) + 1)"


def test_example_3_2_2() -> None:
    """(A := x) * ((B := R(A) + 1) - (B := R(A)))"""
    found = derive("(B := R(A))", "R", "@x", keys="A B")
    assert found == "(A := @x) * (B := R(@x) + 1) + -1 * (A := @x) * (B := R(@x))"


def test_example_3_4_1_is_bounded_by_the_batch() -> None:
    """SELECT DISTINCT: every term starts from the domain of the batch."""
    found = derive("Exists(Sum[A](R(A, B) * {B > 3}))", "R")
    domain = "Exists(Sum[A](ΔR(A, B) * {B > 3}))"
    new = "Exists(Sum[A](R(A, B) * {B > 3}) + Sum[A](ΔR(A, B) * {B > 3}))"
    assert found == f"{domain} * {new} + -1 * {domain} * Exists(Sum[A](R(A, B) * {{B > 3}}))"


@pytest.mark.parametrize(
    "query",
    [
        "Sum[](R(A, B) * S(C, D) * {B == C} * A * D)",
        "Sum[A, B](R(A, B) * (z := Sum[](S(C, D) * {A > C} * D)) * {B < z})",
        "Exists(Sum[A](R(A, B) * {B > 3}))",
    ],
)
@pytest.mark.parametrize("relation", ["R", "S"])
def test_deltas_are_well_formed(query: str, relation: str) -> None:
    check(parse(derive(query, relation)))


def test_canonical_form_ignores_names_and_order() -> None:
    left = canonical(parse("Sum[a](R(a, b) * S(b, c) * {c > 3} * c)"), {"a"})
    right = canonical(parse("Sum[x](S(y, z) * z * R(x, y) * {z > 3})"), {"x"})
    assert left.text == right.text
    assert left.names["a"] == right.names["x"]


def test_canonical_form_tells_keys_apart() -> None:
    expr = parse("R(a, b)")
    by_first, by_second = canonical(expr, {"a"}), canonical(expr, {"b"})
    assert by_first.names["a"] == by_second.names["a"]
    assert canonical(parse("Sum[a](R(a, b))")).text != canonical(parse("Sum[b](R(a, b))")).text
