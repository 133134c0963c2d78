"""Maps of users under the names that a distributed program would give its own."""

from __future__ import annotations

from random import Random

import pytest

from tests.distributed.test_workloads import random_places
from viewlet.calculus.ring import Gmr
from viewlet.distributed import Hints, Level, SimulatedCluster, compile_all
from viewlet.frontend.lower import lower_view
from viewlet.frontend.parse import parse
from viewlet.frontend.statements import CreateRelation, CreateView
from viewlet.planner.viewlets import compile_program
from viewlet.program.interpret import Interpreter
from viewlet.program.ir import Program
from viewlet.schema import Catalog

TABLES = """
CREATE TABLE r (a INT NOT NULL, b INT NOT NULL);
CREATE TABLE s (b INT NOT NULL, c INT NOT NULL);
CREATE TABLE s_r_1 (b INT NOT NULL, c INT NOT NULL);
"""

VIEWS = {
    "@1": "SELECT b, COUNT(*) AS n FROM s GROUP BY b",
    "@2": "SELECT b, COUNT(*) AS n FROM s_r_1 GROUP BY b",
    "Δs": "SELECT b, COUNT(*) AS n FROM r GROUP BY b",
    "@@1@replicated": "SELECT r.a, COUNT(*) AS n FROM r JOIN s ON r.b = s.b GROUP BY r.a",
    "r_r_1": "SELECT t.c, COUNT(*) AS n FROM s_r_1 t JOIN s ON t.b = s.b GROUP BY t.c",
    "s_batch_1": "SELECT s.c, COUNT(*) AS n FROM s JOIN r ON s.b = r.b JOIN s_r_1 t ON t.b = r.b "
    "GROUP BY s.c",
    "d_m_s_r": "SELECT a FROM r WHERE a < (SELECT SUM(c) FROM s WHERE s.b = r.b)",
}
"""The first three are read by statements of the others, in place of maps of the same contents."""


def program() -> Program:
    catalog = Catalog()
    for made in parse(TABLES):
        assert isinstance(made, CreateRelation)
        catalog.add(made.relation)
    queries = []
    for name, select in VIEWS.items():
        (statement,) = parse(f'CREATE MATERIALIZED VIEW "{name}" AS {select}')
        assert isinstance(statement, CreateView)
        queries.append(lower_view(statement, catalog, {}))
    return compile_program(catalog, queries, keyed=False)


@pytest.mark.parametrize("seed", range(6))
def test_stand_ins_and_buffers_are_not_the_users_maps(seed: int) -> None:
    maker, source = Random(seed), program()
    hints = Hints(maps=random_places(source, maker)) if seed else None
    distributed = compile_all(source, hints, level=maker.choice(list(Level)))
    reference, cluster = Interpreter(source), SimulatedCluster(distributed, 3)
    reference.load({})
    cluster.load({})
    for number in range(8):
        whole = number % 2 == 1
        deltas = {
            name: Gmr(((maker.randrange(3), maker.randrange(4)), 1) for _ in range(3))
            for name in ("r", "s", "s_r_1")
        }
        spread = iter(lambda: maker.randrange(1000), None)
        for name in distributed.triggers[-1].relations:
            reference.apply(name, deltas[name])
            if not whole:
                cluster.apply(name, deltas[name], spread)
        if whole:
            cluster.apply_all(distributed.triggers[-1], deltas, spread)
        for view in source.views:
            assert sorted(map(repr, cluster.rows(view))) == sorted(map(repr, reference.rows(view)))
