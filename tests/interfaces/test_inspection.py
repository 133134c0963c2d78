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
