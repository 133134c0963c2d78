"""MERGE, TRUNCATE and transactions: as DuckDB does them, with views on top."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewlet
from viewlet.errors import DataError, StateError, ViewletError

TABLES = """
CREATE TABLE t (k INT PRIMARY KEY, a INT, s VARCHAR DEFAULT 'd');
CREATE TABLE u (k INT, a INT);
"""
VIEWS = {
    "v": "SELECT s, COUNT(*) AS n, SUM(a) AS total FROM t GROUP BY s",
    "w": "SELECT t.k, u.a FROM t JOIN u ON t.k = u.k",
}


@pytest.fixture(params=["interpreter", "local"])
def db(request: pytest.FixtureRequest) -> Iterator[viewlet.Database]:
    with viewlet.connect(engine=request.param) as database:
        define(database)
        yield database


def define(db: viewlet.Database) -> None:
    db.execute(TABLES)
    db.execute("; ".join(f"CREATE VIEW {name} AS {text}" for name, text in VIEWS.items()))


def bag(table: Any) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def compare(db: viewlet.Database, oracle: Any, text: str) -> None:
    for table in ("t", "u"):
        expected = Counter(oracle.execute(f"SELECT * FROM {table}").fetchall())
        assert bag(db.query(f"SELECT * FROM {table}")) == expected, text
    for view, query in VIEWS.items():
        expected = Counter(oracle.execute(query).fetchall())
        assert Counter(tuple(row) for row in db.view(view).rows()) == expected, text


def merge(rng: random.Random) -> str:
    low, more = rng.randrange(6), rng.choice(("", f" AND u.a > {rng.randrange(4)}"))
    source = rng.choice(("u", "(SELECT k, MAX(a) AS a FROM u GROUP BY k) AS u"))
    clauses = rng.sample(
        (
            f"WHEN MATCHED{more} THEN UPDATE SET a = u.a + t.a, s = CASE WHEN u.a > 1 THEN 'x' END",
            f"WHEN MATCHED AND t.a > {low} THEN DELETE",
            "WHEN MATCHED AND t.s IS NULL THEN UPDATE SET s = DEFAULT",
            f"WHEN MATCHED AND t.k = {low} THEN DO NOTHING",
            f"WHEN NOT MATCHED{more} THEN INSERT (k, a) VALUES (u.k, u.a)",
            "WHEN NOT MATCHED BY TARGET THEN INSERT VALUES (u.k, 0, 'n')",
            f"WHEN NOT MATCHED BY SOURCE AND t.k > {low} THEN UPDATE SET a = t.a - 1",
            f"WHEN NOT MATCHED BY SOURCE AND t.a = {low} THEN DELETE",
        ),
        rng.randrange(1, 5),
    )
    return f"MERGE INTO t USING {source} ON t.k = u.k {' '.join(clauses)}"


def statement(rng: random.Random) -> str:
    one, two = rng.randrange(8), rng.randrange(8)
    return rng.choice(
        (
            merge(rng),
            merge(rng),
            f"INSERT INTO u VALUES ({one}, {two}), ({two}, NULL)",
            f"INSERT INTO t (k, a) VALUES ({one}, {two})",
            f"DELETE FROM u WHERE k = {one}",
            f"UPDATE t SET a = {two} WHERE k = {one}",
            "TRUNCATE u" if rng.random() < 0.3 else f"DELETE FROM t WHERE k > {one}",
        )
    )


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("engine", ["interpreter", "local"])
def test_streams_of_statements(engine: str, seed: int, tmp_path: Path) -> None:
    """Some of the statements are inside of transactions, of which some are rolled back."""
    rng = random.Random(seed)
    db = viewlet.connect(engine=engine, path=tmp_path / "d")
    define(db)
    oracle = duckdb.connect()
    oracle.execute(TABLES)
    accepted = refused = 0
    for _ in range(40):
        texts = [statement(rng) for _ in range(rng.choice((1, 1, 3)))]
        if len(texts) > 1:
            texts = ["BEGIN", *texts, rng.choice(("COMMIT", "COMMIT", "ROLLBACK"))]
        script = "; ".join(texts)
        try:
            for text in texts:
                oracle.execute(text)
        except duckdb.Error:
            if len(texts) > 1:
                oracle.execute("ROLLBACK")
                # Keys are checked at COMMIT here, and may be in order again by then.
                with contextlib.suppress(ViewletError):
                    db.execute("; ".join([*texts[:-1], "ROLLBACK"]))
            else:
                with pytest.raises(ViewletError):
                    db.execute(script)
            refused += 1
        else:
            db.execute(script)
            accepted += 1
        compare(db, oracle, script)
        if rng.random() < 0.1:
            if rng.random() < 0.5:
                db.checkpoint()
            db.close()
            db = viewlet.connect(engine=engine, path=tmp_path / "d")
            compare(db, oracle, "restart")
    db.close()
    assert accepted > 10
    assert refused > 2


def test_a_row_that_is_matched_twice(db: viewlet.Database) -> None:
    db.insert("t", (1, 1, "x"))
    db.insert("u", [(1, 2), (1, 3)])
    with pytest.raises(DataError, match="MERGE would change one row twice"):
        db.execute("MERGE INTO t USING u ON t.k = u.k WHEN MATCHED THEN UPDATE SET a = u.a")
    assert db.query("SELECT a FROM t").to_pylist() == [{"a": 1}]


def test_a_transaction_sees_its_own_rows(db: viewlet.Database) -> None:
    batches: list[Any] = []
    db.subscribe("v", batches.append)
    with db.transaction():
        db.insert("t", (1, 5, "x"))
        db.upsert("t", (1, 6, "y"))
        assert db.query("SELECT a FROM t").to_pylist() == [{"a": 6}]
        assert db.execute("UPDATE t SET a = a + 1") == 1
        assert db.view("v").rows() == []
        db.execute("INSERT INTO t VALUES (1, 8, 'z') ON CONFLICT (k) DO UPDATE SET a = t.a + 1")
    assert [tuple(row) for row in db.view("v").rows()] == [("y", 1, 8)]
    assert len(batches) == 1


def test_what_fails_inside_takes_all_back(db: viewlet.Database) -> None:
    db.execute("BEGIN")
    db.insert("t", (1, 5, "x"))
    with pytest.raises(ViewletError):
        db.execute("UPDATE t SET nothing = 1")
    with pytest.raises(StateError, match="has failed"):
        db.insert("t", (2, 5, "x"))
    with pytest.raises(StateError, match="were rolled back"):
        db.execute("COMMIT")
    with pytest.raises(StateError, match="COMMIT without a transaction"):
        db.execute("COMMIT")
    with pytest.raises(ZeroDivisionError), db.transaction():
        db.insert("t", (3, 5, "x"))
        raise ZeroDivisionError
    with pytest.raises(DataError, match="duplicate primary key"), db.transaction():
        db.insert("t", [(3, 5, "x"), (3, 6, "x")])
    assert db.query("SELECT * FROM t").num_rows == 0
    with pytest.raises(StateError, match="cannot be part of a transaction"), db.transaction():
        db.execute("CREATE TABLE q (a INT)")
    assert db.tables == ("t", "u")
