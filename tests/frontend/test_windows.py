"""Windows, top-k and order aggregates against DuckDB after every batch of inserts and deletes."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewlet

TABLES = (
    "CREATE TABLE t (id INT NOT NULL, g INT, o INT, x INT, s VARCHAR, d DATE, f DOUBLE, "
    "p DECIMAL(10,2), PRIMARY KEY (id))",
    "CREATE TABLE u (g INT, o INT NOT NULL, x INT, s VARCHAR)",
)
DAYS = [datetime.date(2024, 1, day) for day in range(1, 9)]
FEW = ("qual", "limdup", "rows", "grouped", "pct")
"""Queries of every kind, for the engine whose code takes seconds to compile."""


def _queries() -> dict[str, str]:
    text = Path(__file__).with_name("windows.sql").read_text()
    parts = (part.strip().split("\n", 1) for part in text.split("\n-- ")[1:])
    return {name: query.strip().rstrip(";") for name, query in parts}


QUERIES = _queries()


class Rows:
    """Random rows of both tables, with ties and NULLs in every column that may have them."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.tables: dict[str, list[tuple[Any, ...]]] = {"t": [], "u": []}

    def change(self, name: str) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """Rows to insert and to delete."""
        rows = self.tables[name]
        gone = [row for row in rows if self.choose.random() < 0.25]
        for row in gone:
            rows.remove(row)
        keys = {row[0] for row in rows}
        made = [getattr(self, f"_{name}")() for _ in range(self.choose.choice((1, 2, 7)))]
        new = made if name == "u" else list({r[0]: r for r in made if r[0] not in keys}.values())
        rows += new
        return new, gone

    def _t(self) -> tuple[Any, ...]:
        pick = self.choose.choice
        return (
            self.choose.randrange(10**6),
            pick((None, 1, 1, 2, 3)),
            pick((None, 1, 2, 3, 4, 5, 6)),
            pick((None, -3, 1, 2, 5)),
            pick((None, "a", "b", "c")),
            pick([None, *DAYS]),
            pick((None, 0.1, 0.2, 1.5, 2.75)),
            pick((None, Decimal("0.50"), Decimal("1.25"), Decimal("3.00"))),
        )

    def _u(self) -> tuple[Any, ...]:
        pick = self.choose.choice
        return pick((None, 1, 2)), self.choose.randrange(4), pick((None, 1)), pick(("a", None))


def _shown(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows in an order of their own, numbers to nine digits."""
    rounded = [
        tuple(float(f"{float(v):.9g}") if isinstance(v, float | Decimal) else v for v in row)
        for row in rows
    ]
    return sorted(rounded, key=lambda row: [(v is None, str(v)) for v in row])


def _compare(engine: str, query: str, seed: int, batches: int = 10, **options: Any) -> None:
    oracle = duckdb.connect()
    oracle.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
    db = viewlet.connect(engine=engine, **options)
    for table in TABLES:
        oracle.execute(table)
        db.execute(table)
    db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    source = Rows(seed)
    for _ in range(batches):
        for name in ("t", "u"):
            new, gone = source.change(name)
            if gone:
                db.delete(name, gone)
            db.insert(name, new)
            oracle.execute(f"DELETE FROM {name}")
            rows = source.tables[name]
            marks = ", ".join("?" for _ in new[0]) if new else ""
            if rows:
                marks = ", ".join("?" for _ in rows[0])
                oracle.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        got = [tuple(row.values()) for row in db.view("v").to_arrow().to_pylist()]
        assert _shown(got) == _shown(oracle.execute(query).fetchall())


@pytest.mark.parametrize("name", QUERIES)
def test_interpreter(name: str) -> None:
    _compare("interpreter", QUERIES[name], sum(map(ord, name)))


@pytest.mark.parametrize("name", FEW)
def test_native_code(name: str) -> None:
    _compare("local", QUERIES[name], sum(map(ord, name)))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in QUERIES if name not in FEW])
def test_native_code_of_all(name: str) -> None:
    _compare("local", QUERIES[name], sum(map(ord, name)))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("name", ["qual", "run"])
def test_spark(name: str) -> None:
    _compare("spark", QUERIES[name], sum(map(ord, name)), batches=2, partitions=2)


def test_a_filter_on_one_window_leaves_the_rows_of_others() -> None:
    query = (
        "SELECT id, LAG(id) OVER (PARTITION BY g ORDER BY id) AS l FROM t "
        "QUALIFY RANK() OVER (PARTITION BY g ORDER BY o, id) <= 2"
    )
    _compare("interpreter", query, 7)
