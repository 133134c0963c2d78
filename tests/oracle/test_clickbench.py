"""ClickBench's 43 queries as views, against DuckDB after batches of inserts and deletes.

Two databases: the queries as published, and with their thresholds made as small as the data, so
that no answer is empty. LIMIT leaves open which of equal rows it takes; so a view must have rows of
the whole answer, as many as there are, with the values of the ORDER BY that DuckDB has.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewlet

TEXT = Path(__file__).with_name("clickbench.sql").read_text()
TABLE, *_PARTS = re.split(r"^-- \d+\n", TEXT, flags=re.MULTILINE)
QUERIES = [" ".join(part.split()).rstrip(";") for part in _PARTS]
SMALL = {
    "> 100000": "> 2",
    "OFFSET 10000": "OFFSET 1",
    "OFFSET 1000": "OFFSET 1",
    "OFFSET 100": "OFFSET 1",
    "435090932899640449": "7",
}
"""What the queries ask of 100 million rows, and what the test asks of hundreds."""

UNORDERED_KEYS = {23, 24, 26}
"""Queries ordered by EventTime, which no two rows share: their answers are one."""

WORDS = {
    "Title": ["Google maps", "the Google", "", "weather"],
    "URL": ["http://google.com/x", "http://a.google.com/q", "", "https://b.org/y", "http://c.net/"],
    "Referer": ["http://www.a.com/1", "https://b.org/2", "", "http://a.com/33", "none"],
    "MobilePhoneModel": ["", "iPad", "X100"],
    "SearchPhrase": ["", "cat", "dog", "ship", "tea", "sea", "sun"],
}
NUMBERS = {
    "CounterID": [62, 62, 62, 63],
    "UserID": [7, 8, 9, 2**61],
    "RefererHash": [3594120000172545465, 3594120000172545465, 1],
    "URLHash": [2868770270353813622, 2868770270353813622, 5],
    "TraficSourceID": [-1, 6, 3],
    "ResolutionWidth": [0, 1024, 1920],
    "IsRefresh": [0, 0, 0, 1],
    "DontCountHits": [0, 0, 0, 1],
    "IsDownload": [0, 0, 1],
}
MANY = ("RegionID", "ClientIP", "AdvEngineID", "SearchEngineID", "WindowClientWidth", "IsLink")
COLUMNS = re.findall(r"(\w+) (SMALLINT|INTEGER|BIGINT|TEXT|TIMESTAMP|DATE) NOT NULL", TABLE)


def hit(number: int, choose: random.Random) -> dict[str, Any]:
    """A row, different from others in its number and moment."""
    moment = dt.datetime(2013, 7, choose.choice((14, 14, 15, 20)), choose.randrange(3))
    moment += dt.timedelta(minutes=choose.randrange(4), microseconds=number)
    row: dict[str, Any] = {}
    for name, type in COLUMNS:
        if name == "WatchID":
            row[name] = number
        elif type == "TIMESTAMP":
            row[name] = moment
        elif type == "DATE":
            row[name] = moment.date()
        elif name in WORDS or name in NUMBERS:
            row[name] = choose.choice(WORDS.get(name) or NUMBERS[name])
        elif type == "TEXT":
            row[name] = "x"
        else:
            row[name] = choose.randrange(4) if name in MANY else 1
    return row


def shrunk(query: str) -> str:
    """The query over little data."""
    for large, small in SMALL.items():
        query = query.replace(large, small)
    return query


def plain(value: Any) -> Any:
    """Numbers to ten digits, whatever type they have."""
    return float(f"{float(value):.10g}") if isinstance(value, int | float | Decimal) else value


def answer(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    rows = connection.execute(query).fetchall()
    return [tuple(map(plain, row)) for row in rows]


def check(number: int, query: str, ours: list[Any], duck: duckdb.DuckDBPyConnection) -> bool:
    """Compares one view; says whether it has rows."""
    got = [tuple(map(plain, row)) for row in ours]
    whole, _, limit = query.partition("LIMIT")
    if not limit:
        assert sorted(got, key=repr) == sorted(answer(duck, query), key=repr), number
        return bool(got)
    expected = answer(duck, query)
    assert len(got) == len(expected), number
    left = answer(duck, whole)
    for row in got:
        assert row in left, (number, row)
        left.remove(row)
    ordered = re.search(r"ORDER BY (.*?)\s*$", whole.strip(), flags=re.DOTALL)
    if number in UNORDERED_KEYS or number == 25 or ordered is None:
        if ordered is not None:
            assert got == expected, number
        return bool(got)
    names = [d[0] for d in duck.execute(query).description or ()]
    key = ordered[1].removesuffix(" DESC").strip()
    known = {"COUNT(*)": "count_star()", "DATE_TRUNC('minute', EventTime)": "M"}
    at = names.index(known.get(key, key))
    assert [row[at] for row in got] == [row[at] for row in expected], number
    return bool(got)


def compare(engine: str, queries: list[str], batches: int) -> list[bool]:
    """All queries as views of one database; which of them ever had rows."""
    choose, duck, db = random.Random(4), duckdb.connect(), viewlet.connect(engine=engine)
    duck.execute(TABLE)
    db.execute(TABLE)
    db.execute(";\n".join(f"CREATE MATERIALIZED VIEW q{k} AS {q}" for k, q in enumerate(queries)))
    rows: list[dict[str, Any]] = []
    seen = [False] * len(queries)
    for batch in range(batches):
        gone = [row for row in rows if choose.random() < 0.3]
        rows = [row for row in rows if row not in gone]
        new = [hit(1000 * batch + k, choose) for k in range(60)]
        rows += new
        if gone:
            db.delete("hits", [tuple(row.values()) for row in gone])
            duck.executemany("DELETE FROM hits WHERE WatchID = ?", [(r["WatchID"],) for r in gone])
        db.insert("hits", [tuple(row.values()) for row in new])
        marks = ", ".join("?" for _ in COLUMNS)
        duck.executemany(f"INSERT INTO hits VALUES ({marks})", [tuple(r.values()) for r in new])
        for number, query in enumerate(queries):
            ours = [tuple(row.values()) for row in db.view(f"q{number}").to_arrow().to_pylist()]
            seen[number] |= check(number, query, ours, duck)
    return seen


def test_there_are_43() -> None:
    assert len(QUERIES) == 43
    assert len(COLUMNS) == 105


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["interpreter", "local"])
def test_as_published(engine: str) -> None:
    compare(engine, QUERIES, 2)


@pytest.mark.parametrize("engine", ["interpreter", pytest.param("local", marks=pytest.mark.slow)])
def test_over_little_data(engine: str) -> None:
    """The same with thresholds that the rows reach: no view stays empty."""
    seen = compare(engine, [shrunk(query) for query in QUERIES], 4)
    assert all(seen), [number for number, is_there in enumerate(seen) if not is_there]
