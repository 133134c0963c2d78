"""Every rewrite rule does what its fixture says, and does not change what an expression means."""

from __future__ import annotations

import pytest

from tests.calculus.worlds import World, meaning
from tests.fixtures import Case, cases
from viewlet.calculus import factorize, simplify
from viewlet.calculus.delta import batch, delta
from viewlet.calculus.expr import factors_of, product_of
from viewlet.calculus.factorize import separate
from viewlet.calculus.rewrite import canonical
from viewlet.calculus.scope import outputs
from viewlet.calculus.text import parse, to_text

SEEDS = range(12)


def test_every_pass_has_a_fixture() -> None:
    assert {rule.__name__ for rule in simplify.PASSES} == {c.rule for c in cases("simplify")}


@pytest.mark.parametrize("case", cases("simplify"), ids=str)
def test_simplify(case: Case) -> None:
    rule = getattr(simplify, case.rule)
    before = parse(case.before)
    after = product_of(*rule(factors_of(before), case.keys))
    # One application of a pass makes one change; a fixture may need several.
    for _ in range(5):
        after = product_of(*rule(factors_of(after), case.keys))
    assert to_text(after) == case.after
    for seed in SEEDS:
        world = World(seed, before)
        assert meaning(before, world, case.keys) == meaning(after, world, case.keys)


@pytest.mark.parametrize("case", cases("factorize"), ids=str)
def test_factorize(case: Case) -> None:
    before = parse(case.before)
    rules = {"separate": lambda q: separate(q, case.keys), "factorize": factorize.factorize}
    after = rules[case.rule](before)
    assert to_text(after) == case.after
    for seed in SEEDS:
        world = World(seed, before)
        assert meaning(before, world, case.keys) == meaning(after, world, case.keys)


@pytest.mark.parametrize("case", cases("expr"), ids=str)
def test_constructors(case: Case) -> None:
    assert to_text(parse(case.before)) == case.after
    assert parse(case.after) == parse(case.before)


@pytest.mark.parametrize("case", cases("delta"), ids=str)
def test_delta(case: Case) -> None:
    """The shape is the fixture's, and q(D + ΔD) - q(D) is what it means."""
    query = parse(case.before)
    change = simplify.simplify(delta(query, batch("R")), outputs(query))
    expected = simplify.simplify(parse(case.after), outputs(query))
    assert canonical(change, outputs(query)).text == canonical(expected, outputs(query)).text
    for seed in SEEDS:
        world = World(seed, query, delta(query, batch("R")), parse("ΔR(x, y)"))
        difference = meaning(query, world.after("R"))
        for row, weight in meaning(query, world).items():
            difference.add(row, -weight)
        found = meaning(change, world, outputs(query)) if case.after != "0" else type(difference)()
        assert found == difference
