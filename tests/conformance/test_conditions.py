"""Conditions with NULLs in them, on the local engine compiled and on the interpreter, as DuckDB."""

from __future__ import annotations

import pytest
from tests.oracle.harness import Batch, Case, new_database, run_with

TABLES = [
    "CREATE TABLE o (a INT, b INT)",
    "CREATE TABLE i (a INT, b INT)",
    "CREATE TABLE f (p BOOLEAN, q BOOLEAN, n INT)",
]
ORDERS = [(1, 2), (1, 3), (2, None), (3, 5), (None, 1)]
ITEMS = [(1, 4), (1, 5), (3, None), (4, 9)]
FLAGS = [
    (True, False, 1),
    (False, True, 2),
    (None, True, 3),
    (True, True, 4),
    (False, None, 5),
    (False, False, 6),
    (None, None, 7),
]
BATCHES: list[Batch] = [
    [("o", row, 1) for row in ORDERS],
    [*(("i", row, 1) for row in ITEMS), *(("f", row, 1) for row in FLAGS)],
    [("o", ORDERS[0], -1), ("i", ITEMS[1], -1), ("f", FLAGS[2], -1), ("o", (4, 8), 1)],
]

QUERIES = [
    "SELECT o.a, i.b FROM o LEFT JOIN i ON o.a = i.a WHERE i.b > 4 OR o.b > 2",
    "SELECT o.a, i.b FROM o FULL JOIN i ON o.a = i.a WHERE i.b NOT BETWEEN 2 AND 4 OR o.b > 2",
    "SELECT o.a, i.b FROM o LEFT JOIN i ON o.a = i.a WHERE i.b IN (4, 9) OR o.b IN (2, NULL)",
    """SELECT o.a, COUNT(*) FILTER (WHERE i.b > 4 OR o.b > 2) AS n,
       SUM(CASE WHEN i.b > 4 OR o.b > 4 THEN 1 WHEN i.b IS NULL AND o.b < 5 THEN 10 END) AS s
       FROM o LEFT JOIN i ON o.a = i.a GROUP BY o.a""",
    """SELECT i.b > 4 OR o.b > 2 AS x, i.b > 4 AND o.b > 2 AS y, i.b BETWEEN o.b AND 4 AS z
       FROM o FULL JOIN i ON o.a = i.a""",
    "SELECT a FROM o WHERE b = 1 OR NULL",
    "SELECT b = 1 OR NULL AS x, b = 1 AND NULL AS y, NOT (b = 1 OR NULL) AS z FROM o",
    """SELECT p OR NULL AS x, NULL AND q AS y, COALESCE(NULL, p, q) AS z, (p OR NULL) IS NULL AS w,
       CASE WHEN n > 2 THEN NULL WHEN p OR NULL THEN q END AS u, GREATEST(p, NULL, q) AS v
       FROM f""",
    "SELECT n FROM f WHERE p < q OR NULL",
    "SELECT n, p < q AS x, p <= q AS y, p > q AS z, p >= q AS w, NOT p < q AS v FROM f",
    "SELECT n FROM f WHERE p BETWEEN FALSE AND q",
    "SELECT GREATEST(p, q) AS g, LEAST(p, q) AS l, LEAST(p, q, n > 3) AS m FROM f",
    "SELECT f.n, g.n AS m FROM f JOIN f g ON f.p < g.q",
]


@pytest.mark.parametrize("select", QUERIES)
def test_equals_duckdb(select: str) -> None:
    case = Case(TABLES, select, BATCHES)
    run_with(case, lambda: new_database("local"), lambda: new_database("interpreter"))
