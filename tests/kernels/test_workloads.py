"""The named workloads: the planner's programs run as the interpreter runs them."""

from __future__ import annotations

import random

import pytest
from tests.frontend.oracle import SQL, lower_last, read_catalog
from tests.frontend.workloads import QUERIES, random_rows
from tests.kernels.harness import Changes, Pair

from viewlet.planner.viewlets import compile_program


def replay(workload: str, query: str, single: bool, seed: int) -> None:
    """All rows in batches, then some of them taken back."""
    catalog = read_catalog((SQL / workload / "schema.sql").read_text())
    lowered = lower_last((SQL / workload / f"{query}.sql").read_text(), catalog)
    pair = Pair(compile_program(catalog, [lowered]), single=single)
    rows = {name: list(found) for name, found in random_rows(catalog, seed).items()}
    pair.load_static(rows)
    rng = random.Random(seed)
    changes = [
        (relation.name, row, 1)
        for relation in pair.program.relations
        if not relation.static
        for row in rows[relation.name]
    ]
    rng.shuffle(changes)
    changes += [(name, row, -1) for name, row, _ in rng.sample(changes, len(changes) // 3)]
    while changes:
        size = rng.choice((1, 5, 20))
        part, changes = changes[:size], changes[size:]
        batch: Changes = []
        for name in dict.fromkeys(name for name, _, _ in part):
            batch.append((name, [(row, weight) for n, row, weight in part if n == name]))
        pair.apply(batch)


@pytest.mark.slow
@pytest.mark.parametrize("single", [False, True], ids=["batch", "single"])
@pytest.mark.parametrize(("workload", "query"), QUERIES, ids=lambda value: str(value))
def test_agrees_with_interpreter(workload: str, query: str, single: bool) -> None:
    replay(workload, query, single, seed=1)
