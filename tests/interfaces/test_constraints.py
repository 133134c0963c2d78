"""DEFAULT, CHECK, UNIQUE and foreign keys: what SQLite accepts is accepted, and does the same."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.engine.values.arrow import table_columns, to_arrow
from viewlet.errors import DataError, UnsupportedError, ViewletError

TABLES = """
CREATE TABLE p (x INT PRIMARY KEY, y VARCHAR(9), z INT DEFAULT 7, UNIQUE (y, z));
CREATE TABLE c (a INT CHECK (a > 0 AND a < 5), d INT REFERENCES p (x) ON DELETE CASCADE,
    e INT REFERENCES p (x) ON DELETE SET NULL, u INT UNIQUE DEFAULT NULL);
CREATE TABLE g (f INT REFERENCES c (u) ON DELETE RESTRICT, h INT REFERENCES p (x));
"""
VIEWS = {
    "v": "SELECT d, COUNT(*) AS n, COUNT(e) AS m FROM c GROUP BY d",
    "w": "SELECT COUNT(*) AS n FROM p JOIN c ON p.x = c.e",
}


def connected(engine: str, path: Path | None = None) -> viewlet.Database:
    return viewlet.connect(engine=engine, path=path) if path else viewlet.connect(engine=engine)


def define(db: viewlet.Database) -> None:
    db.execute(TABLES)
    for name, text in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {text}")


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    return sorted(
        zip(*(table.column(i).to_pylist() for i in range(table.num_columns)), strict=False),
        key=repr,
    )


def contents(db: viewlet.Database) -> dict[str, list[tuple[Any, ...]]]:
    state = db._state
    tables = {
        name: rows_of(
            to_arrow(table_columns(db._state.definitions.relation(name)), state.engine.table(name))
        )
        for name in db.tables
    }
    return tables | {name: sorted(map(tuple, db.view(name).rows()), key=repr) for name in db.views}


def statement(rng: random.Random) -> str:
    number = rng.choice(("NULL", *"0123456"))
    other = rng.choice(("NULL", *"123456"))
    return rng.choice(
        (
            f"INSERT INTO p VALUES ({rng.randrange(1, 7)}, '{rng.choice('ab')}', {number})",
            f"INSERT INTO p (x, y) VALUES ({rng.randrange(1, 7)}, 'n{rng.randrange(9)}')",
            f"INSERT INTO p (x) SELECT a + 2 FROM c WHERE d = {other}",
            f"INSERT INTO c VALUES ({number}, {other}, {rng.choice((number, 'NULL'))}, {other})",
            f"INSERT INTO c (a, d) VALUES (1, {other}), (2, {number})",
            f"INSERT INTO g VALUES ({number}, {other})",
            f"DELETE FROM p WHERE x = {other}",
            f"DELETE FROM p WHERE x > {rng.randrange(6)}",
            f"DELETE FROM c WHERE u = {other}",
            f"DELETE FROM g WHERE f = {number} OR h = {other}",
            f"UPDATE c SET d = {other}, a = {rng.randrange(6)} WHERE u = {number}",
            f"UPDATE c SET u = {other} WHERE a = {number}",
            f"UPDATE p SET x = {rng.randrange(1, 7)} WHERE x = {other}",
        )
    )


@pytest.mark.parametrize("engine", ["interpreter", "local", "durable"])
@pytest.mark.parametrize("seed", range(2))
def test_as_sqlite(engine: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    path = tmp_path / "d" if engine == "durable" else None
    name = "local" if path else engine
    db = connected(name, path)
    define(db)
    oracle = sqlite3.connect(":memory:", isolation_level=None)
    oracle.execute("PRAGMA foreign_keys = ON")
    oracle.executescript(TABLES)
    accepted = refused = 0
    for _ in range(50):
        text = statement(rng)
        before = contents(db) if rng.random() < 0.1 else None
        try:
            oracle.execute(text)
        except sqlite3.Error:
            with pytest.raises(ViewletError):
                db.execute(text)
            refused += 1
            assert before is None or contents(db) == before, text
        else:
            db.execute(text)
            accepted += 1
        if path and rng.random() < 0.03:
            if rng.random() < 0.5:
                db.checkpoint()
            db.close()
            db = connected(name, path)
        ours = contents(db)
        for table in ("p", "c", "g"):
            expected = sorted(oracle.execute(f"SELECT * FROM {table}").fetchall(), key=repr)
            assert ours[table] == expected, text
        for view, query in VIEWS.items():
            expected = sorted(oracle.execute(query).fetchall(), key=repr)
            assert ours[view] == expected, text
    db.close()
    assert accepted > 10
    assert refused > 5


@pytest.fixture(params=["interpreter", "local"])
def db(request: pytest.FixtureRequest) -> Any:
    with viewlet.connect(engine=request.param) as database:
        define(database)
        yield database


def test_defaults_of_all_shapes(db: viewlet.Database) -> None:
    db.insert("p", {"x": 1})
    db.insert("p", [{"x": 2}, {"x": 3, "z": None}])
    db.insert("p", {"x": [4, 5], "y": ["a", "b"]})
    db.execute("INSERT INTO p VALUES (6, 'q', DEFAULT)")
    db.execute("UPDATE p SET z = 1 WHERE x < 3; UPDATE p SET z = DEFAULT WHERE x = 2")
    rows = db.query("SELECT x, z FROM p ORDER BY x").to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (1, 1),
        (2, 7),
        (3, None),
        (4, 7),
        (5, 7),
        (6, 7),
    ]
    db.execute(
        "CREATE TABLE k (a INT DEFAULT 3, b VARCHAR DEFAULT 'it''s', c DECIMAL(5,2) DEFAULT 1.5)"
    )
    db.execute("INSERT INTO k DEFAULT VALUES")
    (row,) = db.query("SELECT a, b, CAST(c AS VARCHAR) AS c FROM k").to_pylist()
    assert row == {"a": 3, "b": "it's", "c": "1.50"}


def test_errors_name_row_and_constraint(db: viewlet.Database) -> None:
    db.insert("p", [(1, "a", 1), (2, "b", 2)])
    before = contents(db)
    for rows, message in (
        (("c", (9, 1, None, None)), "row (a=9, d=1, e=None, u=None) of table c breaks c_a_check"),
        (("c", (1, 8, None, None)), "breaks c_d_fkey: p has no row (x=8)"),
        (("p", (3, "a", 1)), "duplicate key (y='a', z=1) in table p, which p_y_z_key has unique"),
    ):
        with pytest.raises(DataError) as caught:
            db.insert(*rows)
        assert message in str(caught.value)
        assert contents(db) == before
    with pytest.raises(UnsupportedError, match="foreign keys refer to it"):
        db.execute("DROP VIEW w; DROP TABLE p")


def test_a_batch_is_judged_by_its_end(db: viewlet.Database) -> None:
    change = viewlet.Change
    db.apply([change("c", (1, 1, 1, None)), change("p", (1, "a", 1))])
    db.apply([change("p", (1, "a", 1), -1), change("p", (1, "b", 2))])
    assert db.query("SELECT COUNT(*) AS n FROM c").to_pylist() == [{"n": 1}]
    db.upsert("p", (1, "c", 3))
    assert db.query("SELECT COUNT(*) AS n FROM c").to_pylist() == [{"n": 1}]
    with pytest.raises(DataError, match="cannot go"):
        db.execute("UPDATE p SET x = 2 WHERE x = 1")


def test_a_refused_batch_leaves_the_indexes(db: viewlet.Database) -> None:
    db.insert("p", (1, "a", 1))

    def refuse(batch: Any) -> None:
        raise ValueError

    subscription = db.subscribe("v", refuse)
    with pytest.raises(ViewletError, match="subscriber failed"):
        db.insert("c", (1, 1, None, 4))
    subscription.close()
    db.insert("c", (1, 1, None, 4))
    with pytest.raises(DataError, match="duplicate key"):
        db.insert("c", (1, 1, None, 4))


def test_cycles_and_own_rows() -> None:
    with viewlet.connect() as db:
        db.execute("CREATE TABLE t (a INT PRIMARY KEY, up INT REFERENCES t ON DELETE CASCADE)")
        db.insert("t", [(1, None), (2, 1), (3, 2), (4, 4)])
        db.execute("DELETE FROM t WHERE a = 1")
        assert db.query("SELECT a FROM t").to_pylist() == [{"a": 4}]
        db.execute("DELETE FROM t")
        assert db.query("SELECT a FROM t").num_rows == 0
