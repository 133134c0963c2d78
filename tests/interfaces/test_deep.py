"""Many terms and deep nesting: run, or refused with one clear error; in views and queries."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import viewlet
from viewlet.errors import ViewletError

ROWS = [(1, 2, "x"), (3, 4, "y"), (None, 5, None)]


def joined(operator: str, term: Callable[[int], str], count: int) -> str:
    return f" {operator} ".join(map(term, range(count)))


RUN = {
    "sum": f"SELECT {joined('+', lambda i: 'a', 800)} AS z FROM r",
    "signs": f"SELECT {joined('-', lambda i: f'a * {i}', 800)} AS z FROM r",
    "doubles": f"SELECT {joined('+', lambda i: f'a * {i}.5e0', 800)} AS z FROM r",
    "SUM": f"SELECT SUM({joined('+', lambda i: f'a * {i}', 800)}) AS z FROM r",
    "groups": f"SELECT b, SUM({joined('+', lambda i: f'b * {i}', 800)}) AS z FROM r GROUP BY b",
    "or": f"SELECT a FROM r WHERE {joined('OR', lambda i: f'a = {i}', 800)}",
    "pairs": f"SELECT a FROM r WHERE {joined('OR', lambda i: f'a = {i} AND b > {i}', 500)}",
    "and": f"SELECT a FROM r WHERE {joined('AND', lambda i: f'a <> {i + 9}', 800)}",
    "truth": f"SELECT {joined('OR', lambda i: f'a = {i}', 500)} AS z FROM r",
    "in": f"SELECT a FROM r WHERE a IN ({joined(',', str, 500)})",
    "not in": f"SELECT a FROM r WHERE a NOT IN ({joined(',', lambda i: str(i + 9), 500)})",
    "text": f"SELECT {joined('||', lambda i: 's', 800)} AS z FROM r",
    "case": f"SELECT CASE {joined('', lambda i: f'WHEN a = {i} THEN {i}', 500)} END AS z FROM r",
    "columns": f"SELECT {joined(',', lambda i: f'a + {i} AS c{i}', 300)} FROM r",
    "having": f"SELECT b FROM r GROUP BY b HAVING {joined('AND', lambda i: f'SUM(a) <> {i}', 60)}",
    "unions": joined("UNION ALL", lambda i: f"SELECT a + {i} AS z FROM r", 60),
}

NESTED = {
    "parentheses": "SELECT " + "(" * 200 + "a" + ")" * 200 + " AS z FROM r",
    "sums": "SELECT " + "(a + " * 200 + "a" + ")" * 200 + " AS z FROM r",
    "cases": "SELECT " + "CASE WHEN a > 1 THEN 1 ELSE " * 100 + "0" + " END" * 100 + " AS z FROM r",
    "not": "SELECT a FROM r WHERE " + "NOT " * 201 + "a > 1",
    "queries": "SELECT a FROM " + "(SELECT a FROM " * 60 + "r" + ") q" * 60,
    "functions": "SELECT " + "ABS(" * 200 + "a" + ")" * 200 + " AS z FROM r",
}


@pytest.fixture(params=["interpreter", "local"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def sorted_rows(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize("name", sorted(RUN))
def test_many_terms_are_run(engine: str, name: str) -> None:
    with viewlet.connect(engine) as db:
        db.execute("CREATE TABLE r (a INT, b INT NOT NULL, s VARCHAR)")
        db.execute(f"CREATE VIEW v AS {RUN[name]}")
        db.insert("r", ROWS)
        db.insert("r", [(7, 7, "z")])
        db.delete("r", [(7, 7, "z")])
        ours = sorted_rows([tuple(row) for row in db.view("v").rows()])
        theirs = sorted_rows([tuple(row.values()) for row in db.query(RUN[name]).to_pylist()])
        assert ours == theirs


@pytest.mark.parametrize("name", sorted(NESTED))
def test_deep_nesting_is_run_or_refused(engine: str, name: str) -> None:
    with viewlet.connect(engine) as db:
        db.execute("CREATE TABLE r (a INT, b INT NOT NULL, s VARCHAR)")
        try:
            db.execute(f"CREATE VIEW v AS {NESTED[name]}")
        except ViewletError as error:
            assert error.position is not None
            assert "nested too deeply" in error.message
        db.insert("r", ROWS)
        try:
            assert db.query(NESTED[name]).num_rows <= len(ROWS)
        except ViewletError as error:
            assert error.message
