"""Plans of bounded depth: equal to DuckDB after every batch, and no deeper than they say."""

from __future__ import annotations

from contextlib import closing
from random import Random

import duckdb
import pytest
from tests.oracle.generate import Generator
from tests.oracle.harness import new_database, run_with
from tests.oracle.wide_joins import wide_join, with_plan

import viewlet
from viewlet.calculus.expr import Rel, walk
from viewlet.calculus.query import Plan
from viewlet.errors import UnsupportedError

BOUNDED = (Plan.CLASSICAL, Plan.REEVALUATED)
SEEDS = range(30)
PATH = (
    "SELECT r.a, SUM(t.d) AS x, COUNT(*) FILTER (WHERE t.d > 1) AS n FROM r JOIN s USING (b) "
    "JOIN t USING (c) WHERE t.d < 10 AND r.a + t.d > 3 GROUP BY r.a"
)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_queries(seed: int) -> None:
    case = Generator(Random(seed), Random(seed)).case(7)
    try:
        run_with(
            case, *(lambda p=plan: new_database("interpreter", with_plan(p)) for plan in BOUNDED)
        )
    except (duckdb.Error, UnsupportedError):
        pytest.skip("outside of what one of the two can do")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 8, 11])
def test_compiled_joins(seed: int) -> None:
    case = wide_join(seed, 3 + seed % 5, finite=True)
    run_with(case, *(lambda p=plan: new_database("local", with_plan(p)) for plan in BOUNDED))


@pytest.mark.parametrize("plan", BOUNDED)
def test_what_is_kept_below_the_view_is_of_one_relation(plan: Plan) -> None:
    with closing(viewlet.connect("interpreter")) as db:
        for text in ("r (a INT, b INT)", "s (b INT, c INT)", "t (c INT, d INT)"):
            db.execute(f"CREATE TABLE {text}")
        db.execute(f"CREATE MATERIALIZED VIEW v WITH (plan = '{plan.value}') AS {PATH}")
        program = db._state.engine.program
        for kept in program.state:
            joined = [
                {node.name for node in walk(column.definition) if isinstance(node, Rel)}
                for column in kept.columns
                if column.definition is not None
            ]
            assert kept.name == "v" or all(len(names) == 1 for names in joined)
        operations = {
            statement.op
            for trigger in program.triggers
            for statement in trigger.statements
            if statement.target == "v"
        }
        assert operations == ({":="} if plan is Plan.REEVALUATED else {"+="})
        asked = f"recomputed: plan = '{plan.value}'"
        assert (asked in db.explain("v", stage="program")) is (plan is Plan.REEVALUATED)


def test_one_relation_is_kept_by_its_rows() -> None:
    """Depth 0 computes sums from rows; what is kept is not the answer already."""
    with closing(viewlet.connect("interpreter")) as db:
        db.execute("CREATE TABLE r (a INT, b INT)")
        select = "SELECT a, SUM(b) AS s FROM r GROUP BY a"
        db.execute(f"CREATE MATERIALIZED VIEW v WITH (plan = 'reevaluated') AS {select}")
        db.insert("r", [(1, 2), (1, 3), (2, 4)])
        sizes = {name: size.records for name, size in db._state.engine.sizes().items()}
        assert sorted(sizes.values()) == [2, 3]
