"""One small query per feature, over tables full of NULLs, against DuckDB."""

from __future__ import annotations

import datetime as dt
import random
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.frontend.oracle import (
    Both,
    assert_same,
    compare,
    load,
    lower_last,
    read_catalog,
    viewlet_rows,
)

SCHEMA = """
CREATE TABLE r (a INT, b INT, c DECIMAL(6,2), d DATE, e VARCHAR);
CREATE TABLE s (b INT, x DOUBLE, k VARCHAR);
CREATE TABLE t (id INT PRIMARY KEY, a INT, f BOOLEAN, ts TIMESTAMP);
CREATE STREAM u (b INT NOT NULL, n BIGINT NOT NULL);
"""

CATALOG = read_catalog(SCHEMA)


def random_database(seed: int, nulls: float = 0.2) -> dict[str, list[tuple[Any, ...]]]:
    """Few values, so that everything meets; `nulls` of them are NULL; rows repeat."""
    maker = random.Random(seed)

    def some(*values: Any) -> Any:
        return maker.choice(values) if maker.random() >= nulls else None

    def small() -> Any:
        return some(1, 2, 3, 4)

    days = [dt.date(2020, 1, 31), dt.date(2020, 2, 29), dt.date(2019, 12, 30)]
    prices = [Decimal("1.50"), Decimal("2.50"), Decimal("-0.45"), Decimal("3.00"), Decimal("2.00")]
    moments = [dt.datetime(2020, 1, 31, 10, 45, 7), dt.datetime(2019, 5, 1)]
    words = ["ab", "a%c", "Ab ", "bb", " x"]
    return {
        "r": [(small(), small(), some(*prices), some(*days), some(*words)) for _ in range(9)],
        "s": [(small(), some(1.5, 2.0, -0.25, 3.0), some("ab", "k")) for _ in range(6)],
        "t": [(i, small(), some(True, False), some(*moments)) for i in range(1, 5)],
        "u": [(maker.randint(1, 3), maker.randint(1, 3)) for _ in range(4)],
    }


@pytest.fixture(scope="module")
def databases() -> list[Both]:
    """Random databases, one of them almost without NULLs, and the empty one."""
    contents = [*(random_database(seed) for seed in (1, 2, 3)), random_database(7, 0.04), {}]
    return [load(CATALOG, rows) for rows in contents]


TEXT = (Path(__file__).parent / "features.sql").read_text()
QUERIES = [query.strip() for query in re.sub(r"--[^\n]*", "", TEXT).split(";") if query.strip()]


def test_there_are_enough() -> None:
    assert len(QUERIES) >= 120
    assert len(set(QUERIES)) == len(QUERIES)


EMPTY = {
    "SELECT SUM(b) AS s FROM r HAVING SUM(b) > 1000",
    "SELECT a FROM r WHERE a NOT IN (1, NULL)",
    "SELECT a, MEDIAN(b) AS m FROM r WHERE FALSE GROUP BY a",
    "SELECT id, LAG(a) OVER (ORDER BY id) AS l FROM t WHERE id IS NULL",
}
"""Queries that are meant to find nothing."""


@pytest.mark.parametrize("query", QUERIES)
def test_equals_duckdb(query: str, databases: list[Both]) -> None:
    found = [compare(f"CREATE MATERIALIZED VIEW v AS {query}", CATALOG, d) for d in databases]
    assert any(found) or query in EMPTY, "a query that is always empty proves nothing"


ORDERED = [
    "SELECT a, b, c FROM r ORDER BY a, b DESC, c",
    "SELECT a, b, c, e, d FROM r ORDER BY 1 DESC, 2 NULLS FIRST, c DESC NULLS LAST, e, d LIMIT 4",
    "SELECT a AS k, COUNT(*) AS n FROM r GROUP BY a ORDER BY COUNT(*) DESC, r.a LIMIT 2",
    "SELECT a, SUM(b) AS s FROM r GROUP BY a ORDER BY s DESC NULLS LAST, a OFFSET 1",
    "SELECT DISTINCT r.a, r.b FROM r ORDER BY r.b, a LIMIT 3 OFFSET 1",
    "SELECT a FROM r UNION SELECT b FROM s ORDER BY a DESC LIMIT 2",
    "SELECT a FROM r ORDER BY b, a, c DESC LIMIT 3",
    "SELECT a, a AS k FROM r ORDER BY c * 2 DESC NULLS LAST, b + a, a LIMIT 5 OFFSET 1",
    "SELECT a FROM r GROUP BY a ORDER BY SUM(b) DESC NULLS LAST, COUNT(c), a",
    "SELECT a, COUNT(*) AS n FROM r GROUP BY a ORDER BY CASE WHEN n > 2 THEN a END, n, a",
    "SELECT a FROM r GROUP BY a ORDER BY MAX(b) DESC NULLS LAST, a LIMIT 2",
    "SELECT id FROM t ORDER BY RANK() OVER (ORDER BY a), id DESC",
    "SELECT a, SUM(b) AS s FROM r GROUP BY ROLLUP (a) ORDER BY GROUPING(a), COUNT(*), a, s",
    "SELECT id FROM t ORDER BY (SELECT MAX(x) FROM s WHERE s.b = t.a) NULLS FIRST, id",
    "SELECT id, a + 1 AS x FROM t ORDER BY a + 1 DESC, id FETCH FIRST 2 ROWS ONLY",
]


@pytest.mark.parametrize("query", ORDERED)
def test_order_and_limit_equal_duckdb(query: str, databases: list[Both]) -> None:
    for database in databases:
        compare(f"CREATE MATERIALIZED VIEW v AS {query}", CATALOG, database, ordered=True)


VIEWS_OVER_VIEWS = [
    """CREATE VIEW p AS SELECT a, SUM(b) AS s FROM r GROUP BY a;
       CREATE VIEW v AS SELECT s, COUNT(*) AS n FROM p GROUP BY s""",
    """CREATE VIEW p (k, w) AS SELECT a, b FROM r WHERE a > 1;
       CREATE VIEW q AS SELECT k, MAX(w) AS m FROM p GROUP BY k;
       CREATE VIEW v AS SELECT q.k, q.m, p.w FROM q LEFT JOIN p ON p.k = q.k AND p.w < q.m""",
    """CREATE VIEW p AS SELECT a FROM r UNION SELECT b FROM s;
       CREATE VIEW v AS SELECT x.a, y.a AS z FROM p x, p y WHERE x.a < y.a""",
    """CREATE VIEW p AS SELECT a, b FROM r ORDER BY a;
       CREATE VIEW v AS SELECT COUNT(*) AS n FROM p WHERE b NOT IN (SELECT p.a FROM p)""",
    """CREATE VIEW p AS SELECT SUM(a) AS s, COUNT(*) AS s, MAX(b) AS s FROM r;
       CREATE VIEW v AS SELECT s_1, s_2 FROM p""",
    """CREATE VIEW p AS SELECT a, b, COUNT(*) AS n FROM r GROUP BY ROLLUP (a, b);
       CREATE VIEW v AS SELECT a, SUM(n) AS n FROM p GROUP BY CUBE (a)""",
    """CREATE VIEW p AS SELECT DISTINCT e FROM r;
       CREATE VIEW v AS WITH p AS (SELECT k FROM s) SELECT k FROM p""",
]


@pytest.mark.parametrize("text", VIEWS_OVER_VIEWS)
def test_views_over_views_equal_duckdb(text: str, databases: list[Both]) -> None:
    for database in databases:
        database[1].execute("DROP VIEW IF EXISTS v")
        compare(text, CATALOG, database)


def test_rows_compare_as_in_postgresql(databases: list[Both]) -> None:
    """A NULL makes a comparison NULL only where the columns before it are equal."""
    query = "SELECT a FROM r WHERE (a, b) >= (b, c)"
    meaning = "SELECT a FROM r WHERE a > b OR (a = b AND b >= c)"
    for memory, connection in databases:
        ours = viewlet_rows(lower_last(f"CREATE VIEW v AS {query}", CATALOG), memory)
        assert_same(ours, connection.execute(meaning).fetchall())
