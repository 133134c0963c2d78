"""CREATE TABLE AS, SHOW, DESCRIBE, EXPLAIN and SET."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import viewlet
from viewlet.errors import ResolutionError, ViewletError


@pytest.fixture(params=["interpreter", "local"])
def db(request: pytest.FixtureRequest) -> Iterator[viewlet.Database]:
    with viewlet.connect(engine=request.param) as database:
        database.execute(
            "CREATE TABLE p (x INT PRIMARY KEY, y VARCHAR(5) DEFAULT 'a', z DECIMAL(5,2))"
        )
        database.execute("CREATE VIEW v AS SELECT y, COUNT(*) AS n FROM p GROUP BY y")
        database.execute("INSERT INTO p (x, z) VALUES (1, 1.5), (2, NULL)")
        yield database


def test_show_and_describe(db: viewlet.Database) -> None:
    assert db.execute("SHOW TABLES").to_pylist() == [{"name": "p"}, {"name": "v"}]
    assert db.execute("SHOW VIEWS").to_pylist() == [{"name": "v"}]
    rows = db.execute("DESCRIBE p").to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("x", "INTEGER", "NO", "PRI", None),
        ("y", "VARCHAR(5)", "YES", None, "'a'"),
        ("z", "DECIMAL(5,2)", "YES", None, None),
    ]
    assert db.execute("SHOW COLUMNS FROM v").column("column_name").to_pylist() == ["y", "n"]
    with pytest.raises(ResolutionError, match="no table or view q"):
        db.execute("DESCRIBE q")
    assert db.execute("SET search_path TO public") is None


def test_explain_is_the_program(db: viewlet.Database) -> None:
    lines = db.execute("EXPLAIN v").column("explain").to_pylist()
    assert "\n".join(lines) == db.explain("v")
    lines = db.execute("EXPLAIN SELECT y, COUNT(*) AS n FROM p GROUP BY y").column(0).to_pylist()
    assert "map query[p_y: string?](count: int)" in lines or any("map query" in t for t in lines)
    assert db.views == ("v",)


@pytest.mark.parametrize("engine", ["interpreter", "local"])
def test_tables_of_queries_stay(engine: str, tmp_path: Path) -> None:
    path = tmp_path / "d"
    with viewlet.connect(engine=engine, path=path) as db:
        db.execute("CREATE TABLE t (a INT, b VARCHAR); INSERT INTO t VALUES (1, 'x'), (2, 'y')")
        assert (
            db.execute("CREATE TABLE u AS SELECT b, SUM(a) AS s, AVG(a) AS m FROM t GROUP BY b")
            == 2
        )
        db.execute("CREATE VIEW v AS SELECT SUM(s) AS s FROM u; CREATE TABLE w AS SELECT 1 AS a")
        db.execute("CREATE OR REPLACE TABLE w AS SELECT 'q' AS b WITH NO DATA")
        assert db.execute("CREATE TABLE IF NOT EXISTS u AS SELECT 1 AS z") is None
        with pytest.raises(ViewletError):
            db.execute("CREATE TABLE y AS SELECT [1, 2] AS a")
        with pytest.raises(ViewletError, match="out of range"):
            db.execute("CREATE TABLE y AS SELECT 18446744073709551616 AS a")
        assert db.tables == ("t", "u", "w")
    with viewlet.connect(engine=engine, path=path) as db:
        assert db.view("v").rows()[0].s == 3
        assert db.schema("w").columns[0].name == "b"


def test_show_create_streams_and_describe_of_a_query(db: viewlet.Database) -> None:
    db.execute("CREATE STREAM s (a INT)")
    assert db.execute("SHOW STREAMS").to_pylist() == [{"name": "s"}]
    assert db.execute("SHOW CREATE VIEW v").to_pylist() == [
        {"name": "v", "sql": db.schema("v").sql}
    ]
    assert db.execute("SHOW CREATE TABLE p").column("sql").to_pylist() == [db.schema("p").sql]
    rows = db.execute("DESCRIBE SELECT y, SUM(z) AS total FROM p GROUP BY y").to_pylist()
    assert [(row["column_name"], row["column_type"]) for row in rows] == [
        ("y", "VARCHAR"),
        ("total", "DECIMAL(38,2)"),
    ]
    made = db.execute("EXPLAIN CREATE MATERIALIZED VIEW w AS SELECT y FROM p").column(0).to_pylist()
    assert made == db.execute("EXPLAIN SELECT y FROM p").column(0).to_pylist()
    assert db.views == ("v",)


def test_information_schema(db: viewlet.Database) -> None:
    db.execute("CREATE TABLE q (x INT REFERENCES p ON DELETE CASCADE, u BIGINT UNIQUE)")

    def rows(text: str) -> list[tuple[object, ...]]:
        return [tuple(row.values()) for row in db.query(text).to_pylist()]

    assert rows("SELECT table_name, table_type FROM information_schema.tables ORDER BY 1") == [
        ("p", "BASE TABLE"),
        ("q", "BASE TABLE"),
        ("v", "VIEW"),
    ]
    assert rows(
        "SELECT c.column_name, data_type, is_nullable, column_default, numeric_precision,"
        " character_maximum_length FROM information_schema.columns AS c"
        " WHERE c.table_name = 'p' ORDER BY ordinal_position"
    ) == [
        ("x", "integer", "NO", None, 32, None),
        ("y", "character varying", "YES", "'a'", None, 5),
        ("z", "numeric", "YES", None, 5, None),
    ]
    assert rows(
        'SELECT views.table_name, view_definition FROM "information_schema".VIEWS'
        " WHERE information_schema.views.table_name <> 'zz'"
    ) == [("v", db.schema("v").sql)]
    # Beside the tables themselves, and in statements.
    assert rows(
        "SELECT p.x, n FROM p, (SELECT COUNT(*) AS n FROM information_schema.columns) c ORDER BY 1"
    ) == [(1, 7), (2, 7)]
    assert rows(
        "SELECT t.constraint_name, constraint_type, column_name FROM"
        " information_schema.table_constraints t JOIN information_schema.key_column_usage k"
        " ON t.constraint_name = k.constraint_name ORDER BY 1"
    ) == [
        ("p_pkey", "PRIMARY KEY", "x"),
        ("q_u_key", "UNIQUE", "u"),
        ("q_x_fkey", "FOREIGN KEY", "x"),
    ]
    db.execute("ALTER TABLE q ADD COLUMN w INT DEFAULT 3")
    assert rows(
        "SELECT column_default FROM information_schema.columns WHERE column_name = 'w'"
    ) == [("3",)]
    assert db.execute("SELECT COUNT(*) AS n FROM information_schema.schemata").to_pylist() == [
        {"n": 2}
    ]
    with pytest.raises(ViewletError) as info:
        db.query("SELECT zz FROM information_schema.tables")
    assert info.value.position is not None
    assert (info.value.position.line, info.value.position.column) == (1, 8)
