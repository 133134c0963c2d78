"""Tags: where an expression's result is when every worker evaluates it over its own part."""

import pytest

from viewlet.calculus.expr import Atom, Delta
from viewlet.calculus.text import parse
from viewlet.distributed.location import (
    LOCAL,
    RANDOM,
    REPLICATED,
    Dist,
    Location,
    in_variables,
    node_of,
    tag_of,
)
from viewlet.errors import ProgramError

PLACES = {
    "a": (Dist(("x",)), ("x", "y")),  # a[x, y] by x
    "b": (Dist(("y",)), ("x", "y")),
    "c": (Dist(("x",)), ("x", "z")),
    "n": (REPLICATED, ("x",)),
    "l": (LOCAL, ("x",)),
    "t": (RANDOM, ("x",)),
}


def place(atom: Atom) -> Location:
    if isinstance(atom, Delta):
        return RANDOM
    location, columns = PLACES[atom.name]
    return in_variables(location, columns, atom.keys)


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("a[x, y]", "dist(x)"),
        ("a[p, q]", "dist(p)"),
        ("n[x]", "replicated"),
        ("3 * {x < y}", "replicated"),
        ("Δr(x, y)", "random"),
        ("t[x]", "random"),
        # Joins: equal partitioning, or one side replicated.
        ("a[x, y] * c[x, z]", "dist(x)"),
        ("a[x, y] * n[y] * {x < y}", "dist(x)"),
        ("Δr(x, y) * n[x]", "random"),
        # Projection keeps the tag with the key, else leaves partial sums.
        ("Sum[x](a[x, y])", "dist(x)"),
        ("Sum[y](a[x, y])", "random"),
        ("n[x] * Sum[](a[x, y])", "dist(x)"),
        # Union.
        ("a[x, y] + c[x, y]", "dist(x)"),
        ("a[x, y] + b[x, y]", "random"),
        ("a[x, y] + 1", "follows(x)"),
        # Nested: Exists is a relation, a lift needs a guard.
        ("Exists(a[x, y])", "dist(x)"),
        ("(v := n[x])", "replicated"),
        ("(v := a[x, y])", "follows(x)"),
        ("c[x, z] * (v := Sum[x](a[x, y]))", "dist(x)"),
        ("(v := min y in a[x, y])", "follows(x)"),
        ("n[x] * (v := a[x, y])", "follows(x)"),
    ],
)
def test_tag(text: str, tag: str) -> None:
    assert str(tag_of(parse(text), place)) == tag


@pytest.mark.parametrize(
    "text",
    [
        "l[x]",
        "t[x].*",
        "a[x, y] * b[x, y]",
        "Δr(x, y) * a[x, y]",
        "Δr(x, y) * Δr(y, z)",
        "Δr(x, y) + 1",
        "Exists(Sum[y](a[x, y]))",
        "(v := Sum[](a[x, y]))",
        "(v := min x in a[x, y])",
        "Exists(Δr(x, y))",
        "Sum[y]((v := a[x, y]))",
    ],
)
def test_workers_must_not_evaluate(text: str) -> None:
    with pytest.raises(ProgramError):
        tag_of(parse(text), place)


def test_one_value_goes_to_one_node() -> None:
    for nodes in (1, 2, 3, 7):
        assert node_of([1, "x"], nodes) == node_of([1.0, "x"], nodes) == node_of([True, "x"], nodes)
    assert {node_of([value], 3) for value in range(50)} == {0, 1, 2}
    assert node_of([None], 5) == node_of([None], 5)
