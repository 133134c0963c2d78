"""Errors of queries: each has its line and column in what the user wrote."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest

import viewlet
from viewlet.errors import Position, RangeError, ViewletError
from viewlet.interfaces.database import Database


@pytest.fixture
def db() -> Iterator[Database]:
    with viewlet.connect("interpreter") as database:
        database.execute("CREATE TABLE r (a INT, at INT, s VARCHAR, d DATE, t TIMESTAMP)")
        database.execute("CREATE STREAM q (a INT)")
        last = dt.date(9999, 12, 31)
        database.insert("r", (1, 2, "x", last, dt.datetime(9999, 12, 31, 23)))
        yield database


ERRORS = [
    ("SELECT a,\n  nope FROM r", (2, 3)),
    ("SELECT 'äöü', nope FROM r", (1, 15)),
    ("SELECT at, at, nope FROM r", (1, 16)),
    ("SELECT `a`, nope FROM r", (1, 13)),
    ("SELECT at,\n at + nope FROM r", (2, 7)),
    ("SELECT a FROM r\nWHERE nofun(a)", (2, 7)),
    ("SELECT CAST(s AS INT) FROM r", (1, 8)),
    ("SELECT a + [1] FROM r", (1, 10)),
    ("SELECT SUM(a), s FROM r", (1, 16)),
    ("SELECT SUM(SUM(a)) FROM r", (1, 12)),
    ("SELECT DATE '2020-13-01'", (1, 8)),
    ("SELECT a FROM r GROUP", (1, 17)),
    ("SELECT a\nFROM nowhere", (2, 6)),
    ("SELECT a FROM\n q", (2, 2)),
    ("SELECT a FROM r x, r y", (1, 8)),
    # About the whole.
    ("\n  SELECT 9223372036854775807 + a FROM r", (2, 3)),
    ("SELECT a FROM r UNION SELECT a, s FROM r", (1, 1)),
    ("SELECT error('no')", (1, 1)),
    ("SELECT 1; SELECT 2", (1, 1)),
]


@pytest.mark.parametrize(("text", "place"), ERRORS)
def test_an_error_has_its_place(db: Database, text: str, place: tuple[int, int]) -> None:
    with pytest.raises(ViewletError) as raised:
        db.query(text)
    assert raised.value.position == Position(*place), raised.value
    assert "{" not in raised.value.message


def test_a_select_among_statements(db: Database) -> None:
    for text, place in (
        ("SELECT a FROM r;\n\n  SELECT a, nope FROM r", Position(3, 13)),
        ("SELECT 1; SELECT a,\n nope FROM r", Position(2, 2)),
        ("SELECT 1;\n INSERT INTO r (a) SELECT nope FROM r", Position(2, 2)),
        ("SELECT 1;\n DELETE FROM r WHERE nope = 1", Position(2, 2)),
        ("SELECT 1;\n UPDATE r SET a = nope", Position(2, 2)),
        ("SELECT 1;\n DELETE FROM nowhere", Position(2, 2)),
    ):
        with pytest.raises(ViewletError) as raised:
            db.execute(text)
        assert raised.value.position == place, raised.value


@pytest.mark.parametrize(
    "what",
    [
        "d + 5",
        "t + INTERVAL 2 HOUR",
        "DATE '10000-01-01'",
        "DATE '0044-03-15 (BC)'",
        "DATE 'infinity'",
        "TIMESTAMP '-infinity'",
        "TIMESTAMP_S '12000-01-01 00:00:00'",
        "TIMESTAMPTZ '20000-01-01 00:00:00+00'",
        "[d, d + 1]",
        "{'k': [d + 1]}",
        "MAP {1: d + 1}",
    ],
)
def test_no_date_that_python_cannot_read(db: Database, what: str) -> None:
    with pytest.raises(RangeError, match=r"column x has a date .*\n.*years 1 to 9999") as raised:
        db.query(f"SELECT {what} AS x FROM r")
    assert raised.value.position == Position(1, 1)
    assert db.query(f"SELECT CAST({what} AS VARCHAR) AS x FROM r").num_rows == 1


@pytest.mark.parametrize(
    "what", ["d", "t", "DATE '0001-01-01'", "NULL::DATE", "[d]", "TIMESTAMP_NS '2020-01-01'", "s"]
)
def test_all_others_can_be_read(db: Database, what: str) -> None:
    assert len(db.query(f"SELECT {what} AS x FROM r").to_pylist()) == 1
