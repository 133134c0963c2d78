"""Where maps are on Spark: streams without keys, maps that grow, a database repartitioned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewlet
from viewlet.distributed.location import LOCAL, Dist
from viewlet.engine.spark.spark_engine import SparkEngine
from viewlet.errors import UnsupportedError
from viewlet.interfaces.database import Database

pytestmark = pytest.mark.spark

STREAMS = """
CREATE STREAM clicks (user_id BIGINT, page INTEGER, spent BIGINT);
CREATE STREAM visits (user_id BIGINT, country VARCHAR)
"""
VIEWS = {
    "spending": "SELECT user_id, SUM(spent) AS total FROM clicks GROUP BY user_id",
    "by_country": "SELECT v.country, COUNT(*) AS n, SUM(c.spent) AS total "
    "FROM clicks c JOIN visits v ON c.user_id = v.user_id GROUP BY v.country",
}


def connect(spark: Any, **options: Any) -> Database:
    db = viewlet.connect("spark", spark=spark, partitions=2, **options)
    db.execute(STREAMS)
    for name, query in VIEWS.items():
        db.execute(f"CREATE VIEW {name} AS {query}")
    return db


def locations(db: Database) -> dict[str, Any]:
    engine = db._engine
    assert isinstance(engine, SparkEngine)
    return dict(engine.locations)


def batches(number: int) -> dict[str, list[tuple[Any, ...]]]:
    users = range(number * 40, number * 40 + 60)
    return {
        "clicks": [(user if user % 7 else None, user % 5, user * 3) for user in users],
        "visits": [(user, "abc"[user % 3]) for user in users],
    }


def test_streams_without_keys(spark: Any, tmp_path: Path) -> None:
    """Partitioned from the first row, equal to DuckDB, and where they were after a restart."""
    duck = duckdb.connect()
    duck.execute(STREAMS.replace("STREAM", "TABLE"))
    db = connect(spark, checkpoint=str(tmp_path))
    before = locations(db)
    assert all(isinstance(before[view], Dist) for view in VIEWS)
    assert "runner-up:" in db.explain("spending", stage="distributed")
    for number in range(2):
        for name, rows in batches(number).items():
            db.insert(name, rows)
            duck.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
    gone = batches(0)["clicks"][:10]
    db.delete("clicks", gone)
    duck.executemany(
        "DELETE FROM clicks WHERE user_id IS NOT DISTINCT FROM ? AND page = ? AND spent = ?", gone
    )
    assert_equal(db, duck)
    db.close()
    with viewlet.restore(str(tmp_path), spark=spark) as again:
        assert "runner-up:" in again.explain("spending", stage="distributed")
        assert locations(again) == before
        assert_equal(again, duck)


def assert_equal(db: Database, duck: Any) -> None:
    for name, query in VIEWS.items():
        expected = duck.execute(query).fetchall()
        assert sorted(map(repr, map(tuple, db.view(name).rows()))) == sorted(map(repr, expected))


def test_maps_move(spark: Any) -> None:
    """A view that was declared small moves when it has grown, at CREATE VIEW; and back, on demand.

    The placement of `countries` was declared for good.
    """
    hints = viewlet.Hints(
        maps={"countries": "local"}, records={"spending": 10}, replicate_below=100
    )
    with viewlet.connect("spark", spark=spark, partitions=2, hints=hints) as db:
        db.execute(STREAMS)
        db.execute(f"CREATE VIEW spending AS {VIEWS['spending']}")
        db.execute("CREATE VIEW countries AS SELECT country, COUNT(*) AS n FROM visits GROUP BY 1")
        assert locations(db)["spending"] == LOCAL
        for number in range(3):
            for name, rows in batches(number).items():
                db.insert(name, rows)
        rows = sorted(map(repr, db.view("spending").rows()))
        db.execute("CREATE VIEW pages AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page")
        assert isinstance(locations(db)["spending"], Dist)
        assert locations(db)["countries"] == LOCAL
        assert isinstance(locations(db)["pages"], Dist)
        assert sorted(map(repr, db.view("spending").rows())) == rows
        db.insert("clicks", [(user, page, 1) for user in range(40) for page in range(5)])
        db.repartition()
        assert locations(db)["pages"] == LOCAL
        assert {row.page: row.n for row in db.view("pages").rows()} == dict.fromkeys(range(5), 40)
        db.insert("clicks", [(1, 2, 1)])
        assert db.view("pages")[2].n == 41


def test_only_spark_repartitions() -> None:
    with viewlet.connect() as db, pytest.raises(UnsupportedError, match="in this process"):
        db.repartition()
