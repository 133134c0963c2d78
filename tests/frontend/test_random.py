"""Random queries against DuckDB; the seeds are fixed, so that a failure stays a failure."""

from __future__ import annotations

import pytest
from tests.frontend.oracle import Both, compare, load
from tests.frontend.random_queries import random_query
from tests.frontend.test_features import CATALOG, random_database


@pytest.fixture(scope="module")
def databases() -> list[Both]:
    """Short tables: the definition multiplies them out."""
    contents = [random_database(1), random_database(7, nulls=0.04)]
    return [load(CATALOG, {name: rows[:5] for name, rows in db.items()}) for db in contents]


@pytest.mark.parametrize("seed", range(150))
def test_equals_duckdb(seed: int, databases: list[Both]) -> None:
    query = random_query(seed)
    for database in databases:
        compare(f"CREATE VIEW v AS {query}", CATALOG, database)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 1400, 100))
def test_many_equal_duckdb(start: int, databases: list[Both]) -> None:
    for seed in range(start, start + 100):
        compare(f"CREATE VIEW v AS {random_query(seed)}", CATALOG, databases[0])
