"""TUMBLE and HOP keep what DuckDB recomputes, in both spellings, with deletes and NULLs."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import duckdb
import pytest

import viewlet

TABLE = "CREATE TABLE bid (auction INT, price INT, ts TIMESTAMP)"
BUCKETS = """(
SELECT *, time_bucket(INTERVAL '{0} minutes', ts, TIMESTAMP '1970-01-01 00:00:0{1}') AS window_start
FROM bid WHERE ts IS NOT NULL)"""
TUMBLED = BUCKETS.format(10, 0)
SHIFTED = BUCKETS.format(10, 7)
HOPPED = f"""(
SELECT * REPLACE (window_start - k * INTERVAL '2 minutes' AS window_start),
       window_start + (5 - k) * INTERVAL '2 minutes' AS window_end
FROM {BUCKETS.format(2, 0)}, range(5) q(k))"""

QUERIES = {
    "SELECT auction, window_start, COUNT(*) AS n, MAX(price) AS m "
    "FROM TUMBLE(bid, ts, INTERVAL '10 MINUTES') "
    "GROUP BY auction, window_start, window_end": "SELECT auction, window_start, COUNT(*), "
    f"MAX(price) FROM {TUMBLED} GROUP BY 1, 2",
    "SELECT window_start AS s, SUM(price) AS p FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`ts`), "
    "INTERVAL '10' MINUTE, INTERVAL '7' SECOND)) GROUP BY s": "SELECT window_start, SUM(price) "
    f"FROM {SHIFTED} GROUP BY 1",
    "SELECT w.auction, window_start, window_end, COUNT(*) AS n FROM TABLE(HOP(TABLE bid, "
    "DESCRIPTOR(ts), INTERVAL '2' MINUTE, INTERVAL '10' MINUTE)) w "
    "GROUP BY w.auction, window_start, window_end": "SELECT auction, window_start, window_end, "
    f"COUNT(*) FROM {HOPPED} GROUP BY 1, 2, 3",
    "SELECT bid.auction, s.price, bid.window_start FROM HOP(bid, ts, INTERVAL '2' MINUTE, "
    "INTERVAL '10' MINUTE) JOIN bid s ON s.auction = bid.price": "SELECT b.auction, s.price, "
    f"b.window_start FROM {HOPPED} b JOIN bid s ON s.auction = b.price",
    "SELECT price, window_start FROM TUMBLE((SELECT * FROM bid WHERE price > 2), ts, "
    "INTERVAL '10 minutes') AS q": f"SELECT price, window_start FROM {TUMBLED} WHERE price > 2",
}


def random_rows(rng: random.Random) -> list[tuple[Any, ...]]:
    return [
        (
            rng.randint(1, 4),
            rng.randint(1, 5),
            None
            if rng.random() < 0.1
            else dt.datetime(1970, 1, 1) + dt.timedelta(seconds=rng.randint(-4000, 4000)),
        )
        for _ in range(30)
    ]


@pytest.mark.parametrize("engine", ["interpreter", "local"])
@pytest.mark.parametrize("query", QUERIES)
def test_windows_are_as_recomputed(engine: str, query: str) -> None:
    rng = random.Random(3)
    rows: list[tuple[Any, ...]] = []
    with viewlet.connect(engine) as db:
        db.execute(TABLE)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        for _ in range(3):
            new = random_rows(rng)
            db.insert("bid", new)
            rows += new
            gone = rng.sample(rows, 8)
            for row in gone:
                rows.remove(row)
            db.delete("bid", gone)
            oracle = duckdb.connect()
            oracle.execute(TABLE)
            oracle.executemany("INSERT INTO bid VALUES (?, ?, ?)", rows)
            expected = sorted(oracle.execute(QUERIES[query]).fetchall())
            assert sorted(map(tuple, db.view("v").rows())) == expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("TUMBLE(bid, ts)", "column 45: TUMBLE takes a table, a column and a size"),
        ("TUMBLE(5, ts, INTERVAL '1 m')", "column 52: TUMBLE needs a table, not 5"),
        ("TUMBLE(bid, ts + 1, INTERVAL '1 m')", "column 57: TUMBLE needs a column, not ts + 1"),
        ("TUMBLE(bid, ts, INTERVAL '1 month')", "column 45: TUMBLE with months is not supported"),
        ("TUMBLE(bid, price, INTERVAL '1 m')", "DATE_BIN needs a date, price is INTEGER"),
        (
            "HOP(bid, ts, INTERVAL '3 s', INTERVAL '10 s')",
            "column 45: HOP needs a size that is a multiple of the slide",
        ),
        (
            "HOP(bid, ts, INTERVAL '1 s', INTERVAL '1 h')",
            "column 45: 3600 windows of HOP overlap, at most 200 can",
        ),
    ],
)
def test_wrong_arguments(source: str, message: str) -> None:
    with viewlet.connect("interpreter") as db:
        db.execute(TABLE)
        with pytest.raises(viewlet.ViewletError) as caught:
            db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT * FROM {source}")
        assert message in str(caught.value)
