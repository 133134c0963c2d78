"""INSERT ... ON CONFLICT, UPDATE ... FROM, DELETE ... USING, RETURNING and upsert, by DuckDB."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import viewlet

TABLES = """
CREATE TABLE r (a INT, k VARCHAR, b INT, c DECIMAL(12,2), PRIMARY KEY (a, k));
CREATE TABLE s (a INT, x INT);
"""
VIEW = "SELECT b, COUNT(*) AS n, SUM(c) AS total FROM r GROUP BY b"


@pytest.fixture(params=["interpreter", "local"])
def db(request: pytest.FixtureRequest) -> Iterator[viewlet.Database]:
    with viewlet.connect(engine=request.param) as database:
        database.execute(f"{TABLES} CREATE MATERIALIZED VIEW v AS {VIEW}")
        yield database


def rows_of(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


class Twin:
    """The same statements in viewlet and in DuckDB."""

    def __init__(self, db: viewlet.Database) -> None:
        self.db = db
        self.oracle = duckdb.connect()
        self.oracle.execute(TABLES)

    def run(self, text: str, parameters: list[Any] | None = None) -> None:
        ours = self.db.execute(text, parameters)
        theirs = self.oracle.execute(text, parameters)
        if "RETURNING" in text:
            assert rows_of(ours) == Counter(theirs.fetchall()), text
        else:
            assert ours == theirs.fetchall()[0][0], text
        self.compare(text)

    def compare(self, text: str) -> None:
        for table in ("r", "s"):
            expected = Counter(self.oracle.execute(f"SELECT * FROM {table}").fetchall())
            assert rows_of(self.db.query(f"SELECT * FROM {table}")) == expected, text
        expected = Counter(self.oracle.execute(VIEW).fetchall())
        assert Counter(tuple(row) for row in self.db.view("v").rows()) == expected, text


def statement(rng: random.Random) -> tuple[str, list[Any]]:
    """A random statement over r and s with its parameters."""

    def row() -> list[Any]:
        values = (None, 0, 1, 2)
        amount = rng.choice((None, Decimal("0.10"), Decimal("2.25")))
        return [rng.randrange(6), rng.choice("xy"), rng.choice(values), amount]

    low = rng.randrange(4)
    count = rng.randrange(1, 4)
    proposed = {(r[0], r[1]): r for r in (row() for _ in range(count))}
    cells = [cell for r in proposed.values() for cell in r]
    places = ", ".join(["(?, ?, ?, ?)"] * len(proposed))
    returning = rng.choice(("", " RETURNING a, b + 1 AS more, c"))
    action = rng.choice(
        (
            "DO NOTHING",
            "DO UPDATE SET b = excluded.b, c = r.c + excluded.c",
            "DO UPDATE SET b = r.b + 1 WHERE excluded.b > r.b",
        )
    )
    target = " (a, k)" if action != "DO NOTHING" or rng.random() < 0.5 else ""
    choices: list[tuple[str, list[Any]]] = [
        (f"INSERT INTO r VALUES {places} ON CONFLICT{target} {action}{returning}", cells),
        (
            "INSERT INTO r SELECT DISTINCT a, 'x', x, 1.5 FROM s"
            " QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY x) = 1"
            " ON CONFLICT (a, k) DO UPDATE SET b = excluded.b",
            [],
        ),
        (
            "UPDATE r SET b = q.m FROM (SELECT a, MAX(x) AS m FROM s GROUP BY a) q"
            f" WHERE q.a = r.a AND r.b IS DISTINCT FROM $1{returning.replace('a,', 'r.a,')}",
            [low],
        ),
        (f"DELETE FROM r USING s WHERE s.a = r.a AND s.x > ?{returning}", [low]),
        (f"DELETE FROM r WHERE b = ?{returning}", [low]),
        ("INSERT INTO s VALUES (?, ?), (?, ?)", [rng.randrange(6), low, rng.randrange(6), None]),
        ("DELETE FROM s WHERE x < ?", [low]),
        (f"UPDATE r SET c = c * ?, b = b + 1 WHERE a = ?{returning}", [2, low]),
    ]
    return rng.choice(choices)


@pytest.mark.parametrize("seed", range(4))
def test_random_statements(db: viewlet.Database, seed: int) -> None:
    rng = random.Random(seed)
    twin = Twin(db)
    for _ in range(40):
        twin.run(*statement(rng))


def test_upsert_by_key(db: viewlet.Database) -> None:
    assert db.upsert("r", [(1, "x", 1, "1.005"), (2, "y", None, None)]) == 2
    assert db.upsert("r", (1, "x", 5, None)) == 1
    assert db.upsert("r", {"a": [2, 3], "k": ["y", "z"], "b": [7, 8], "c": [1, 2]}) == 2
    assert db.upsert("r", pa.table({"a": [3, 3], "k": ["z", "z"], "b": [0, 9]})) == 1
    expected = {(1, "x", 5, None), (2, "y", 7, Decimal("1.00")), (3, "z", 9, None)}
    assert set(rows_of(db.query("SELECT * FROM r"))) == expected
    assert {row.b: row.n for row in db.view("v").rows()} == {5: 1, 7: 1, 9: 1}


@pytest.mark.parametrize("engine", ["interpreter", "local"])
@pytest.mark.parametrize("columns", [2, 9])
def test_upsert_of_every_key_type(engine: str, columns: int) -> None:
    """Keys of all types, in tables whose rows are told apart with and without a hash."""
    rng = random.Random(columns)
    extra = "".join(f", e{i} INT" for i in range(columns))
    keys = "t VARCHAR, x DOUBLE, d DATE, o BOOLEAN"
    with viewlet.connect(engine=engine) as db:
        db.execute(f"CREATE TABLE z ({keys}, n INT{extra}, PRIMARY KEY (t, x, d, o))")
        db.execute("CREATE VIEW total AS SELECT COUNT(*) AS rows, SUM(n) AS n FROM z")
        expected: dict[tuple[Any, ...], int] = {}
        for number in range(60):
            rows = []
            for _ in range(rng.randrange(1, 5)):
                key = (
                    rng.choice(("", "ä", "long text")),
                    rng.choice((0.0, -0.0, 1.5, float("inf"))),
                    rng.choice(("2020-01-01", "1969-12-31")),
                    rng.random() < 0.5,
                )
                rows.append((*key, number, *[None] * columns))
                expected[key] = number
            db.upsert("z", rows)
            if rng.random() < 0.3:
                gone = rng.choice((0.0, 1.5))
                db.execute("DELETE FROM z WHERE x = ?", [gone])
                expected = {key: n for key, n in expected.items() if key[1] != gone}
            (row,) = db.view("total").rows()
            assert tuple(row) == (len(expected), sum(expected.values()) if expected else None)


def test_upsert_needs_a_key(db: viewlet.Database) -> None:
    with pytest.raises(viewlet.ViewletError, match="s has no primary key: upsert finds rows"):
        db.upsert("s", (1, 2))


def test_refused_batches_change_nothing(db: viewlet.Database) -> None:
    db.upsert("r", [(1, "x", 1, "1"), (2, "y", 2, "2")])
    before = rows_of(db.query("SELECT * FROM r"))
    for text in (
        "INSERT INTO r VALUES (1, 'x', 1, 1), (1, 'x', 2, 2)"
        " ON CONFLICT (a, k) DO UPDATE SET b = excluded.b",
        "INSERT INTO r VALUES (1, 'x', 1, 1) ON CONFLICT (a, k) DO UPDATE SET k = 'y', a = 2",
        "INSERT INTO r VALUES (1, 'x', 1, 1) ON CONFLICT (b) DO NOTHING",
        "INSERT INTO r VALUES (1, 'x', 1, 1) ON CONFLICT DO UPDATE SET b = 1",
        "INSERT INTO r VALUES (3, 'x', 1, 1) RETURNING nope",
        "UPDATE r SET b = s.nope FROM s WHERE s.a = r.a",
        "DELETE FROM r USING s WHERE a = 1",
    ):
        with pytest.raises(viewlet.ViewletError):
            db.execute(text)
        assert rows_of(db.query("SELECT * FROM r")) == before, text


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        ("SELECT ?", None, "no value for parameter 1"),
        ("SELECT ?, ?", [1], "no value for parameter 2: 1 given in a sequence"),
        ("SELECT ?", [1, 2], "the text has no parameter 2: it has 1, and 2 values are given"),
        ("SELECT $2", [1, 2], "the text has no parameter 1: it has 1, and 2 values are given"),
        ("SELECT :a", {"b": 1}, "no value for parameter :a: 1 given by name"),
        ("SELECT 1", {"b": 1}, "the text has no parameter :b: it has 0, and 1 values are given"),
        ("SELECT ?, $1", [1], r"line 1, column 8: \? and \$1 are in one text"),
        ("SELECT ?", "x", "parameters are str"),
        ("CREATE VIEW w AS SELECT a FROM r WHERE b = ?", [1], "a parameter here is not supported"),
        ("DROP TABLE ?", ["r"], "a parameter here is not supported"),
    ],
)
def test_wrong_parameters(db: viewlet.Database, text: str, given: Any, message: str) -> None:
    with pytest.raises(viewlet.ViewletError, match=message):
        db.execute(text, given)


def test_parameters_are_values_and_never_text(db: viewlet.Database) -> None:
    evil = "x'); DELETE FROM r; --"
    db.execute("INSERT INTO r VALUES (:a, :k, :b, :c)", {"a": 1, "k": evil, "b": None, "c": "0.5"})
    db.execute("INSERT INTO r (a, k, b) VALUES (?, ?, ? + (SELECT COUNT(*) FROM r))", [2, "?", 3])
    found = db.query("SELECT b, '?' AS q, ':a' AS r FROM r WHERE k = $1 OR k = $2", ["?", evil])
    assert rows_of(found) == {(None, "?", ":a"): 1, (4, "?", ":a"): 1}
    structured = db.query("SELECT {'k': k} AS s, [1, 2, 3][1:a] AS l FROM r WHERE a = :a", {"a": 2})
    assert structured.to_pylist() == [{"s": {"k": "?"}, "l": [1, 2]}]
