"""Which maps are kept within a budget: the best set, by looking at all of them."""

from __future__ import annotations

from itertools import chain, combinations
from random import Random

import pytest

from viewlet.planner.keep import BuildCosts, choose, recycle


def problem(seed: int) -> tuple[dict[str, int], BuildCosts]:
    """Maps whose building shares statements, as that of maps of one program does."""
    draw = Random(seed)
    work = [draw.choice((1.0, 5.0, 40.0, 900.0)) for _ in range(9)]
    names = [f"m{i}" for i in range(draw.randint(1, 8))]
    statements = {name: frozenset(draw.sample(range(9), draw.randint(1, 5))) for name in names}
    return {name: draw.randint(1, 100) for name in names}, BuildCosts(statements, work)


def best_cost(sizes: dict[str, int], budget: float, costs: BuildCosts) -> float:
    sets = chain.from_iterable(combinations(sizes, n) for n in range(len(sizes) + 1))
    return min(
        costs.of(sizes.keys() - set(kept))
        for kept in sets
        if sum(sizes[name] for name in kept) <= budget
    )


@pytest.mark.parametrize("seed", range(60))
def test_no_other_set_leaves_less_to_build(seed: int) -> None:
    sizes, costs = problem(seed)
    for budget in (0, 40, 120, 250, 900):
        kept = choose(sizes, budget, costs.of)
        assert sum(sizes[name] for name in kept) <= budget
        assert costs.of(sizes.keys() - kept) == pytest.approx(best_cost(sizes, budget, costs))


def test_the_greedy_rule_is_sometimes_worse() -> None:
    worse = 0
    for seed in range(60):
        sizes, costs = problem(seed)
        greedy = costs.of(sizes.keys() - recycle(sizes, 120, costs.of))
        chosen = costs.of(sizes.keys() - choose(sizes, 120, costs.of))
        assert chosen <= greedy
        worse += greedy > chosen
    assert worse > 5


def test_many_maps_end() -> None:
    sizes = {f"m{i}": 10 + i for i in range(60)}
    costs = BuildCosts({name: frozenset((i,)) for i, name in enumerate(sizes)}, [1.0] * 60)
    kept = choose(sizes, 600, costs.of)
    assert 0 < sum(sizes[name] for name in kept) <= 600
