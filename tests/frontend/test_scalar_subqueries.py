"""Subqueries as values: one row at most, or the batch that brings the second one is undone."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pytest

import viewlet
from viewlet.errors import RangeError

TABLES = ("CREATE TABLE r (a INT, b INT)", "CREATE TABLE s (b INT, x VARCHAR, k INT)")

QUERIES = (
    "SELECT a, b FROM r WHERE a >= (SELECT b FROM s WHERE k = 1)",
    "SELECT a, (SELECT x FROM s WHERE s.b = r.b) AS x FROM r",
    "SELECT a, COUNT(*) AS n, (SELECT x FROM s WHERE k = 2) AS x FROM r GROUP BY a "
    "HAVING COUNT(*) > (SELECT b FROM s WHERE k = 3 GROUP BY b)",
    "SELECT a FROM r WHERE b = (SELECT DISTINCT k FROM s WHERE s.b = r.a)",
    "SELECT a, CASE WHEN a > 1 THEN (SELECT k + 1 FROM s WHERE s.b = 2) END AS c FROM r",
)
FIRST_ROWS = (
    "SELECT a, (SELECT x FROM s WHERE s.b = r.b ORDER BY k, x LIMIT 1) AS x FROM r",
    "SELECT a FROM r WHERE b IN (SELECT k FROM s WHERE r.a = s.b ORDER BY x, k LIMIT 2)",
    "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.b = a QUALIFY COUNT(*) OVER () = 2)",
)
"""These have one row, or do not need it."""


class Both:
    """The same tables in viewlet and in DuckDB, changed by batches that either both take."""

    def __init__(self, engine: str, query: str, seed: int) -> None:
        self.choose = random.Random(seed)
        self.oracle = duckdb.connect()
        self.oracle.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
        self.db = viewlet.connect(engine=engine)
        for table in TABLES:
            self.oracle.execute(table)
            self.db.execute(table)
        self.query = query
        self.rows: dict[str, list[tuple[Any, ...]]] = {"r": [], "s": []}
        self._apply("r", [(1, 1), (2, 2)], [])
        self.oracle.execute("INSERT INTO r VALUES (1, 1), (2, 2)")
        self.db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")

    def _apply(self, name: str, new: list[tuple[Any, ...]], gone: list[tuple[Any, ...]]) -> None:
        changes = [viewlet.Change(name, gone, -1), viewlet.Change(name, new)]
        self.db.apply([change for change in changes if change.rows])

    def step(self) -> bool:
        """One batch; whether it was taken."""
        pick, name = self.choose.choice, self.choose.choice("rss")
        gone = [row for row in self.rows[name] if self.choose.random() < 0.3]
        made: list[tuple[Any, ...]] = [
            (pick((None, 1, 2, 3)), pick((None, 1, 2)))
            if name == "r"
            else (pick((None, 1, 2, 3)), pick(("x", None)), pick((1, 2, 3, 4)))
            for _ in range(pick((1, 2)))
        ]
        rows = [*self.rows[name]]
        for row in gone:
            rows.remove(row)
        rows += made
        self.oracle.execute("BEGIN")
        self.oracle.execute(f"DELETE FROM {name}")
        marks = ", ".join("?" for _ in rows[0])
        base = [(1, 1), (2, 2)] if name == "r" else []
        self.oracle.executemany(f"INSERT INTO {name} VALUES ({marks})", [*base, *rows])
        try:
            expected = self.oracle.execute(self.query).fetchall()
        except duckdb.Error:
            self.oracle.execute("ROLLBACK")
            before = sorted(map(str, self.db.view("v").rows()))
            with pytest.raises(RangeError, match="more than one row"):
                self._apply(name, made, gone)
            assert sorted(map(str, self.db.view("v").rows())) == before
            return False
        self.oracle.execute("COMMIT")
        self._apply(name, made, gone)
        self.rows[name] = rows
        assert sorted(map(str, map(tuple, self.db.view("v").rows()))) == sorted(map(str, expected))
        return True


@pytest.mark.parametrize("query", QUERIES)
def test_a_second_row_is_an_error_of_the_batch(query: str) -> None:
    both = Both("interpreter", query, len(query))
    results = [both.step() for _ in range(40)]
    assert True in results and False in results


@pytest.mark.parametrize("query", FIRST_ROWS)
def test_first_rows_of_what_the_rows_around_choose(query: str) -> None:
    both = Both("interpreter", query, len(query))
    for _ in range(25):
        assert both.step()


@pytest.mark.parametrize("query", [QUERIES[1], QUERIES[2], FIRST_ROWS[0]])
def test_native_code(query: str) -> None:
    both = Both("local", query, len(query))
    for _ in range(30):
        both.step()
