"""Grouping sets, joins that filter, and shapes of results after every batch, as DuckDB."""

from __future__ import annotations

from contextlib import closing
from decimal import Decimal
from random import Random

import pytest
from tests.oracle.harness import Batch, Case, DuckOracle, compare, new_database

from viewlet import Change

TABLES = [
    "CREATE TABLE r (a INT, b INT, c DECIMAL(8,2))",
    "CREATE TABLE s (b INT, k VARCHAR)",
]
SELECTS = {
    "rolled": "SELECT a, b, SUM(c) AS t, COUNT(*) AS n FROM r GROUP BY ROLLUP (a, b)",
    "cubed": "SELECT a, b, MAX(c) AS m, GROUPING(a, b) AS g FROM r GROUP BY CUBE (a, b)",
    "listed": "SELECT r.a, s.k, COUNT(*) AS n FROM r JOIN s ON r.b = s.b"
    " GROUP BY GROUPING SETS ((r.a), (s.k), ()) HAVING COUNT(*) > 1",
    "implied": "SELECT a, b + 1 AS k, SUM(c) AS t FROM r GROUP BY ALL",
    "semi": "SELECT a, c FROM r SEMI JOIN s ON r.b = s.b",
    "anti": "SELECT a, COUNT(*) AS n FROM r ANTI JOIN s ON r.b = s.b AND s.k = 'x' GROUP BY a",
    "ordered": "SELECT a FROM r WHERE (a, b) < (2, 2) AND a + b > 0",
    "united": "SELECT a, b FROM r UNION ALL BY NAME SELECT b, k FROM s",
    "null_first": "SELECT a, NULL AS k FROM r UNION ALL SELECT b, k FROM s",
    "starred": "SELECT * EXCLUDE (c) REPLACE (a + 1 AS a) FROM r",
    "twice": "SELECT SUM(a), SUM(b), ANY_VALUE(a) - MIN(a) AS zero FROM r",
}


_PRICES = (None, Decimal("1.50"), Decimal("2.00"))


def batches(seed: int, count: int) -> list[Batch]:
    """Random inserts, and deletes of rows that are there, down to the empty tables."""
    rng = Random(seed)
    present: list[tuple[str, tuple[object, ...]]] = []
    made: list[Batch] = []
    for _ in range(count):
        batch: Batch = []
        for _ in range(rng.randrange(1, 5)):
            if present and rng.random() < 0.4:
                name, row = present.pop(rng.randrange(len(present)))
                batch.append((name, row, -1))
                continue
            number = rng.choice((None, 1, 2, 3))
            if rng.random() < 0.6:
                name, row = "r", (rng.choice((None, 1, 2)), number, rng.choice(_PRICES))
            else:
                name, row = "s", (number, rng.choice((None, "x", "y")))
            present.append((name, row))
            batch.append((name, row, 1))
        made.append(batch)
    made.append([(name, row, -1) for name, row in present])
    return made


@pytest.mark.parametrize("engine", ["interpreter", "local"])
def test_every_batch_equals_duckdb(engine: str) -> None:
    with new_database(engine) as database:
        for text in TABLES:
            database.execute(text)
        views = (f"CREATE VIEW {name} AS {select}" for name, select in SELECTS.items())
        database.execute(";".join(views))
        with closing(DuckOracle(Case(TABLES, "").relations())) as oracle:
            for number, batch in enumerate(batches(5, 25)):
                oracle.apply(batch)
                database.apply([Change(name, [row], weight) for name, row, weight in batch])
                for name, select in SELECTS.items():
                    answer = oracle.answer(select)
                    compare(database.view(name).rows(), answer, Case(TABLES, select), number)
