"""What db.query makes of a text before DuckDB reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import duckdb
import pytest

import viewlet
from viewlet.errors import ViewletError
from viewlet.frontend.duckdb_text import KEYWORDS
from viewlet.interfaces import deep_json

POSTGRES = """
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit
    boolean both case cast char character check coalesce collate collation column concurrently
    constraint create cross dec decimal default deferrable desc distinct do else end except exists
    extract false fetch float for foreign freeze from full group grouping having ilike in initially
    inner inout int integer intersect interval into is isnull join lateral leading left like limit
    national natural nchar none not notnull null nullif numeric offset on only or order out outer
    overlaps overlay placing position precision primary real references returning right row select
    setof similar smallint some substring symmetric table tablesample then time timestamp to
    trailing treat trim true union unique using values varchar variadic verbose when where window
    with xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot
    xmlserialize xmltable grouping_id
"""
"""What PostgreSQL itself does not take for the name of a column, a function or a type."""


@pytest.fixture
def db() -> Iterator[viewlet.Database]:
    with viewlet.connect("interpreter") as db:
        db.execute("CREATE TABLE r (at INT, `a b` INT, m TIMESTAMP); CREATE TABLE q (map INT)")
        db.execute("CREATE VIEW v AS SELECT at, `a b` AS semi FROM r")
        db.insert("r", [(1, 2, "2024-01-01 00:00:00")])
        db.insert("q", [(3,)])
        yield db


def test_keywords_are_those_that_only_duckdb_keeps() -> None:
    kept = "keyword_category IN ('reserved', 'type_function')"
    rows = duckdb.sql(f"SELECT keyword_name FROM duckdb_keywords() WHERE {kept}").fetchall()
    assert {name for (name,) in rows} - {*POSTGRES.split()} == KEYWORDS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT at FROM r", 1),
        ("SELECT AT AS x FROM r WHERE at = 1", 1),
        ("SELECT r.at FROM r ORDER BY at", 1),
        ("SELECT `a b` FROM r", 2),
        ("SELECT 'at `x`' AS at FROM r", "at `x`"),
        ("SELECT map FROM q", 3),
        ("SELECT map {'k': 4}['k'] FROM r", 4),
        ("SELECT semi FROM v", 2),
        ("SELECT CAST(m AT TIME ZONE 'UTC' AT TIME ZONE 'UTC' AS VARCHAR) FROM r", None),
        ("SELECT r.at FROM r SEMI JOIN v ON v.at = r.at -- at", 1),
    ],
)
def test_names_that_duckdb_keeps(db: viewlet.Database, text: str, expected: object) -> None:
    try:
        (row,) = db.query(text).to_pylist()
    except ViewletError as error:
        assert "syntax" not in error.message
    else:
        assert expected is None or next(iter(row.values())) == expected


def test_changes_with_such_names(db: viewlet.Database) -> None:
    assert db.execute("UPDATE r SET at = at + 1, `a b` = at WHERE at = 1") == 1
    assert db.query("SELECT at, `a b` FROM r").to_pylist() == [{"at": 2, "a b": 1}]
    assert db.execute("DELETE FROM r WHERE at = 2") == 1


def test_json_of_any_depth() -> None:
    values = [{}, [], {"a": [1, -2.5e3, 'x\\"{[,:', None, True, {"b": {}}]}, "é𝄞", [[], [{}]]]
    for value in values:
        for text in (json.dumps(value), json.dumps(value, indent=2)):
            assert deep_json._loads(text) == value
    deep = deep_json.loads('{"a": [' * 5000 + "1" + "]}" * 5000)
    for _ in range(5000):
        deep = deep["a"][0]
    assert deep == 1


def test_nulls_are_ordered_as_in_views(db: viewlet.Database) -> None:
    db.insert("q", [(None,), (4,)])
    for text in (
        "SELECT map FROM q ORDER BY map DESC LIMIT 2",
        "SELECT map FROM q ORDER BY map LIMIT 2",
        "SELECT map, RANK() OVER (ORDER BY map DESC) AS k FROM q ORDER BY map",
    ):
        db.execute(f"CREATE OR REPLACE VIEW ordered AS {text}")
        found = [tuple(row.values()) for row in db.query(text).to_pylist()]
        assert found == [tuple(row) for row in db.view("ordered").rows()]
