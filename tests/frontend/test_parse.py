"""Statements of every kind, and the dialect: names, types, comments, quotes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from tests.frontend.oracle import lower_last, read_catalog

from viewlet.errors import Position
from viewlet.frontend.parse import parse
from viewlet.frontend.statements import (
    Copy,
    CreateRelation,
    CreateView,
    Delete,
    Drop,
    Insert,
    InsertSelect,
    Select,
    Update,
)
from viewlet.schema import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    INTEGER,
    TIMESTAMP,
    VARCHAR,
    Column,
    Type,
)


def relation(text: str) -> CreateRelation:
    (statement,) = parse(text)
    assert isinstance(statement, CreateRelation)
    return statement


@pytest.mark.parametrize(
    ("sql", "type_"),
    [
        ("BOOLEAN", BOOLEAN),
        ("INT", INTEGER),
        ("SMALLINT", INTEGER),
        ("TINYINT", INTEGER),
        ("BIGINT", BIGINT),
        ("LONG", BIGINT),
        ("FLOAT", DOUBLE),
        ("REAL", DOUBLE),
        ("DOUBLE", DOUBLE),
        ("DOUBLE PRECISION", DOUBLE),
        ("DECIMAL(12,2)", DECIMAL(12, 2)),
        ("NUMERIC(18)", DECIMAL(18, 0)),
        ("DECIMAL", DECIMAL(18, 3)),
        ("DATE", DATE),
        ("TIMESTAMP", TIMESTAMP),
        ("STRING", VARCHAR),
        ("TEXT", VARCHAR),
        ("CHAR(5)", VARCHAR),
        ("VARCHAR(10)", VARCHAR),
    ],
)
def test_types(sql: str, type_: Type) -> None:
    assert relation(f"CREATE TABLE z (a {sql})").relation.columns == (Column("a", type_),)


def test_keys_and_nulls() -> None:
    inline = relation("CREATE TABLE z (a INT PRIMARY KEY, b INT NOT NULL, c INT NULL)").relation
    assert inline.key == ("a",)
    assert [c.nullable for c in inline.columns] == [False, False, True]
    apart = relation("CREATE TABLE z (a INT, b INT, CONSTRAINT p PRIMARY KEY (b, a))").relation
    assert apart.key == ("b", "a")
    assert [c.nullable for c in apart.columns] == [False, False]


def test_promises_about_other_tables_are_read_and_ignored() -> None:
    statement = relation(
        "CREATE TABLE z (a INT REFERENCES r (a), b INT UNIQUE, FOREIGN KEY (b) REFERENCES s (b))"
    )
    assert statement.relation.names == ("a", "b")


def test_streams_static_tables_and_options() -> None:
    stream = relation("create or replace stream Z (A int)")
    assert stream.relation.is_stream and stream.replace
    assert stream.relation.name == "z" and stream.relation.names == ("a",)
    table = relation("CREATE TABLE IF NOT EXISTS z (a INT) WITH (static = true)")
    assert table.relation.static and table.if_not_exists and not table.relation.is_stream


def test_quoted_names_keep_their_case() -> None:
    assert relation('CREATE TABLE "Z" ("A b" INT, `C` INT, D INT)').relation.names == (
        "A b",
        "C",
        "d",
    )


def test_views() -> None:
    text = "-- first\n  CREATE OR REPLACE MATERIALIZED VIEW V (x) AS SELECT a FROM r;"
    (view,) = parse(text)
    assert isinstance(view, CreateView)
    assert (view.name, view.columns, view.replace) == ("v", ("x",), True)
    assert view.position == Position(2, 39)
    assert view.text == "CREATE OR REPLACE MATERIALIZED VIEW V (x) AS SELECT a FROM r"


def test_insert() -> None:
    (insert,) = parse("INSERT INTO r (a, b) VALUES (1, 'x'), (-2, NULL), (1.50, DATE '2020-01-02')")
    assert isinstance(insert, Insert)
    assert (insert.table, insert.columns) == ("r", ("a", "b"))
    assert insert.rows == ((1, "x"), (-2, None), (Decimal("1.50"), dt.date(2020, 1, 2)))
    (query,) = parse("INSERT INTO r SELECT a + 1 FROM s WHERE b > 2")
    assert isinstance(query, InsertSelect)
    assert query.text == "SELECT a + 1 FROM s WHERE b > 2"


def test_changes_keep_their_sql() -> None:
    delete, everything, update = parse(
        "DELETE FROM r WHERE a = 1 AND e LIKE 'x%'; DELETE FROM r; UPDATE r SET a = a + 1, b = 2"
        " WHERE b IS NULL"
    )
    assert isinstance(delete, Delete) and delete.where == "a = 1 AND e LIKE 'x%'"
    assert isinstance(everything, Delete) and everything.where is None
    assert isinstance(update, Update)
    assert update.assignments == (("a", "a + 1"), ("b", "2"))
    assert update.where == "b IS NULL"
    (named,) = parse("DELETE FROM r AS x WHERE x.a = 1 OR x.b IN (SELECT s.b FROM s)")
    assert isinstance(named, Delete)
    assert (named.where, named.alias) == ("x.a = 1 OR x.b IN (SELECT s.b FROM s)", "x")


def test_copy_drop_select() -> None:
    plain, told, table, stream, view, query, values = parse(
        "COPY r FROM '/data/x.csv'; COPY r FROM 'x.dat' (FORMAT parquet); DROP TABLE r;"
        " DROP STREAM IF EXISTS u; DROP MATERIALIZED VIEW v; WITH q AS (SELECT 1) SELECT * FROM q;"
        " VALUES (1)"
    )
    assert isinstance(plain, Copy) and (plain.path, plain.format) == ("/data/x.csv", "csv")
    assert isinstance(told, Copy) and told.format == "parquet"
    assert isinstance(table, Drop) and (table.kind, table.name) == ("table", "r")
    assert isinstance(stream, Drop) and (stream.kind, stream.if_exists) == ("stream", True)
    assert isinstance(view, Drop) and (view.kind, view.name) == ("view", "v")
    assert isinstance(query, Select) and query.text.startswith("WITH q")
    assert isinstance(values, Select)


def test_an_empty_text_has_no_statements() -> None:
    assert parse(" ;; -- nothing\n /* at all */ ;") == []


def test_variables_are_unique_over_a_view() -> None:
    """No name that is summed out in one place is bound in another place around it."""
    catalog = read_catalog("CREATE TABLE r (a INT, b INT)")
    query = lower_last(
        "CREATE VIEW v AS SELECT r.a FROM r, r AS r_a WHERE r.b < (SELECT MAX(r.b) FROM r)"
        " AND EXISTS (SELECT 1 FROM r WHERE r.a = r_a.b)",
        catalog,
    )
    from viewlet.calculus.expr import Rel, walk

    atoms = [n.variables for n in walk(query.components[0][1]) if isinstance(n, Rel)]
    names = [name for variables in atoms for name in variables]
    assert len(atoms) == 4 and len(set(names)) == 8
