"""INTERSECT and EXCEPT of columns that are NOT NULL with columns that may be NULL, as DuckDB."""

from __future__ import annotations

from contextlib import closing

import pytest
from tests.oracle.harness import Batch, Case, DuckOracle, compare, new_database

from viewlet import Change

TABLES = [
    "CREATE TABLE r (a INT NOT NULL, t VARCHAR)",
    "CREATE TABLE s (a INT, t VARCHAR NOT NULL)",
]
OPERATIONS = ("INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
SELECTS = {
    f"{left}_{operation.lower().replace(' ', '_')}_{name}": (
        f"SELECT {columns} FROM {left} {operation} SELECT {columns} FROM {right}"
    )
    for left, right in (("r", "s"), ("s", "r"))
    for operation in OPERATIONS
    for name, columns in (("one", "a"), ("two", "a, t"))
}
BATCHES: list[Batch] = [
    [("r", (1, "x"), 1), ("r", (2, None), 1), ("r", (2, "y"), 1), ("r", (2, "y"), 1)],
    [("s", (1, "x"), 1), ("s", (None, "x"), 1), ("s", (2, "y"), 1), ("s", (None, "x"), 1)],
    [("s", (2, "y"), 1), ("s", (3, "z"), 1), ("r", (3, "z"), 1), ("s", (1, "x"), -1)],
    [("s", (None, "x"), -1), ("r", (2, "y"), -1), ("s", (None, "x"), -1), ("r", (2, None), -1)],
]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_where_only_one_side_may_be_null(operation: str) -> None:
    """The view's key cannot be NULL, and rows of the other side are looked up in it."""
    part = {name: text for name, text in SELECTS.items() if f" {operation} SELECT" in text}
    with new_database("local") as database:
        for text in TABLES:
            database.execute(text)
        database.execute(";".join(f"CREATE VIEW {name} AS {part[name]}" for name in part))
        with closing(DuckOracle(Case(TABLES, "").relations())) as oracle:
            for number, batch in enumerate(BATCHES):
                oracle.apply(batch)
                database.apply(Change(name, [row], weight) for name, row, weight in batch)
                for name, select in part.items():
                    answer = oracle.answer(select)
                    compare(database.view(name).rows(), answer, Case(TABLES, select), number)
