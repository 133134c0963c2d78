"""Joins of many tables under both plans: equal to DuckDB after every batch.

Recursive plans of the widest joins are not made: they are what trees are for.
"""

from __future__ import annotations

import pytest
from tests.oracle.engines import ENGINES, UNJITTED
from tests.oracle.harness import new_database, run_with
from tests.oracle.wide_joins import wide_join, with_plan

from viewlet.calculus.query import Plan

SEEDS = 60
WIDEST_RECURSIVE = 6


def joined(seed: int) -> int:
    return 3 + seed % 10


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_equal_to_duckdb(seed: int, engine: str) -> None:
    plans = [Plan.RECURSIVE, Plan.TREE] if joined(seed) <= WIDEST_RECURSIVE else [Plan.TREE]
    case = wide_join(seed, joined(seed), finite=engine == "local")
    run_with(case, *(lambda plan=plan: new_database(engine, with_plan(plan)) for plan in plans))


@pytest.mark.skipif(UNJITTED, reason="compiles kernels itself")
@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 5, 7, 9])
def test_compiled(seed: int) -> None:
    case = wide_join(seed, joined(seed), finite=True)
    run_with(case, lambda: new_database("local", with_plan(Plan.TREE)))
