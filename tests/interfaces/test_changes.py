"""INSERT, DELETE, UPDATE and COPY: what they change, what they say, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.errors import ParseError, UnsupportedError, ViewletError

ROWS = [(1, 1), (2, 1), (3, 5)]


@pytest.fixture(params=["interpreter", "local"])
def db(request: Any) -> Iterator[viewlet.Database]:
    with viewlet.connect(request.param) as db:
        db.execute("CREATE TABLE k (k INT, v INT); CREATE TABLE t (k INT, w INT)")
        db.insert("k", ROWS)
        db.insert("t", [(1, 1)])
        yield db


def rows(db: viewlet.Database) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in db.query("SELECT * FROM k").to_pylist())


REFUSED = [
    "DELETE FROM k LIMIT 1",
    "DELETE FROM k WHERE v = 1 LIMIT 1",
    "DELETE FROM k ORDER BY k LIMIT 1",
    "DELETE k FROM k JOIN t ON k.k = t.k",
    "DELETE FROM k JOIN t ON k.k = t.k",
    "WITH q AS (SELECT 1) DELETE FROM k",
    "UPDATE k SET v = 9 LIMIT 1",
    "UPDATE k SET v = 9 ORDER BY v LIMIT 1",
    "UPDATE k JOIN t ON k.k = t.k SET v = 9",
    "WITH q AS (SELECT 1) UPDATE k SET v = 1",
    "INSERT INTO k BY NAME SELECT 1 AS v, 2 AS k",
    "INSERT INTO k PARTITION (v = 3) SELECT 1, 2",
    "INSERT OR REPLACE INTO k VALUES (1, 2)",
    "INSERT OR IGNORE INTO k VALUES (1, 2)",
    "INSERT OVERWRITE k VALUES (1, 2)",
    "INSERT OVERWRITE TABLE k SELECT 1, 2",
    "COPY k (k) FROM 'k.csv'",
    "COPY k FROM 'k.csv' (QUOTE '!')",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused_changes_nothing(db: viewlet.Database, text: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        db.execute(text)
    assert caught.value.position is not None
    assert rows(db) == ROWS


def test_a_refused_statement_stops_those_before_it(db: viewlet.Database) -> None:
    with pytest.raises(UnsupportedError):
        db.execute("DELETE FROM k; DELETE FROM k LIMIT 1")
    assert rows(db) == ROWS


def test_a_column_is_set_once(db: viewlet.Database) -> None:
    with pytest.raises(ParseError, match="SET names v twice"):
        db.execute("UPDATE k SET v = 1, v = 2")


def test_numbers_of_rows(db: viewlet.Database) -> None:
    assert db.execute("UPDATE k SET v = v + 1") == 3
    assert db.execute("UPDATE k SET v = 0 WHERE k = 1") == 1
    assert db.execute("UPDATE k SET v = 0 WHERE k = 9") == 0
    assert db.execute("INSERT INTO k VALUES (7, 7), (7, 7)") == 2
    assert db.execute("UPDATE k SET v = 8 WHERE k = 7") == 2
    assert db.execute("DELETE FROM k WHERE k = 7") == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DELETE FROM k AS z WHERE z.v = 1", [(3, 5)]),
        ("DELETE FROM k z WHERE v IN (SELECT w FROM t WHERE t.k = z.k)", [(2, 1), (3, 5)]),
        ("UPDATE k z SET v = z.k + 1, k = 0 WHERE z.v = 5", [(0, 4), (1, 1), (2, 1)]),
        ("UPDATE k SET v = greatest(v, k), k = CASE WHEN k > 1 THEN 2 ELSE 1 END /* , k = 3 */",
         [(1, 1), (2, 2), (2, 5)]),
        ("UPDATE k SET v = (SELECT MAX(w) FROM t WHERE t.k = k.k) -- WHERE\n WHERE k > 1",
         [(1, 1), (2, None), (3, None)]),
        ("INSERT INTO k (v, k) SELECT w, k + 8 FROM t", [*ROWS, (9, 1)]),
        ("INSERT INTO k (SELECT k + 8, w FROM t)", [*ROWS, (9, 1)]),
        ("INSERT INTO k AS z (v, k) SELECT w, k + 8 FROM t", [*ROWS, (9, 1)]),
        ("INSERT INTO `k` (`v`, `k`) SELECT `w`, `k` + 8 FROM `t`", [*ROWS, (9, 1)]),
        ("INSERT INTO k WITH q AS (SELECT 9 AS a) SELECT a, RANK() OVER (ORDER BY a) FROM q",
         [*ROWS, (9, 1)]),
        ("INSERT INTO k SELECT i, 1 FROM range(9, 10) q(i)", [*ROWS, (9, 1)]),
        ("INSERT INTO k TABLE t", [(1, 1), *ROWS]),
        ("INSERT INTO k SELECT k, w FROM t UNION ALL BY NAME SELECT 2 AS w, 9 AS k",
         [(1, 1), *ROWS, (9, 2)]),
    ],
)  # fmt: skip
def test_changes(db: viewlet.Database, text: str, expected: list[tuple[Any, ...]]) -> None:
    db.execute(text)
    assert rows(db) == expected


def test_copy_options(db: viewlet.Database, tmp_path: Path) -> None:
    path = tmp_path / "k.csv"
    path.write_text("k;v\n9;-\n")
    db.execute(f"COPY k FROM '{path}' (FORMAT csv, HEADER, DELIMITER ';', NULL '-')")
    assert rows(db) == [*ROWS, (9, None)]
    with pytest.raises(ViewletError):
        db.execute(f"COPY k FROM '{path}' (HEADER false, DELIMITER ';')")
    assert rows(db) == [*ROWS, (9, None)]


def test_a_statement_inside_of_a_view_changes_nothing(db: viewlet.Database) -> None:
    with pytest.raises(UnsupportedError, match="inside of WITH"):
        db.execute("CREATE VIEW v AS WITH q AS (DELETE FROM k RETURNING k) SELECT k FROM k")
    assert rows(db) == ROWS
