"""Random queries, placements, levels and spreads: simulated clusters equal the reference."""

from __future__ import annotations

from random import Random

import pytest

from tests.distributed.test_workloads import random_places
from tests.oracle.generate import Generator
from tests.oracle.harness import Case
from viewlet.calculus.ring import Gmr
from viewlet.distributed import Hints, Level, SimulatedCluster, compile_distributed
from viewlet.distributed.location import LOCAL, RANDOM
from viewlet.errors import UnsupportedError
from viewlet.frontend.lower import lower_view
from viewlet.frontend.parse import parse
from viewlet.planner.viewlets import compile_program
from viewlet.program.interpret import Interpreter
from viewlet.program.ir import Program
from viewlet.schema import Catalog, encode


def program_of(case: Case) -> Program:
    catalog = Catalog()
    for relation in case.relations():
        catalog.add(relation)
    (statement,) = parse(f"CREATE MATERIALIZED VIEW the_view AS {case.select}")
    return compile_program(catalog, [lower_view(statement, catalog, {})], keyed=False)


def check(seed: int) -> bool:
    """Whether the case could be compiled; AssertionError where the cluster differs."""
    maker = Random(seed)
    case = Generator(Random(seed), Random(seed)).case(maker.choice((1, 7)))
    try:
        program = program_of(case)
    except UnsupportedError:
        return False
    hints = Hints(maps=random_places(program, maker)) if maker.random() < 0.7 else None
    level, batch = maker.choice(list(Level)), maker.choice((LOCAL, RANDOM))
    distributed = compile_distributed(program, hints, level=level, batch=batch)
    reference = Interpreter(program)
    cluster = SimulatedCluster(distributed, maker.choice((1, 2, 3, 7)))
    reference.load({})
    cluster.load({})
    relations = {relation.name: relation for relation in case.relations()}
    for changes in case.batches[:12]:
        deltas: dict[str, Gmr] = {}
        for name, row, weight in changes:
            columns = relations[name].columns
            key = tuple(encode(v, c) for v, c in zip(row, columns, strict=True))
            deltas.setdefault(name, Gmr()).add(key, weight)
        for name, delta in deltas.items():
            reference.apply(name, delta)
            cluster.apply(name, delta, iter(lambda: maker.randrange(1000), None))
            for kept in program.state:
                for column in kept.columns:
                    expected = reference.store[kept.name, column.name]
                    assert cluster.column(kept.name, column.name) == expected, (case, kept.name)
    (view,) = program.views
    found = sorted(map(repr, cluster.rows(view)))
    assert found == sorted(map(repr, reference.rows(view)))
    return True


# Runs of seeds without a query that the planner itself takes seconds for.


def test_quick() -> None:
    assert sum(check(seed) for seed in range(28, 58)) > 25


@pytest.mark.slow
def test_many() -> None:
    assert sum(check(seed) for seed in range(72, 140)) > 60
