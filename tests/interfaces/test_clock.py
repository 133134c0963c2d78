"""Views with NOW(): what they hold is what DuckDB finds with the clock's time in its place."""

from __future__ import annotations

import random
import time
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewlet
from viewlet.errors import DataError, UnsupportedError, ViewletError

TABLES = """
CREATE TABLE r (id INT PRIMARY KEY, k INT, ts TIMESTAMP, x DOUBLE, name VARCHAR);
CREATE TABLE s (k INT, d DATE);
CREATE STREAM e (k INT, ts TIMESTAMP, x INT);
"""

VIEWS = {
    "recent": "SELECT k, COUNT(*) AS n, MAX(x) AS m FROM r WHERE ts > NOW() - INTERVAL '5' MINUTE"
    " GROUP BY k",
    "inclusive": "SELECT id FROM r WHERE ts >= CURRENT_TIMESTAMP - INTERVAL '90' SECOND",
    "window": "SELECT id, name FROM r WHERE NOW() BETWEEN ts AND ts + INTERVAL '2' MINUTE"
    " AND x IS NOT NULL",
    "month": "SELECT id FROM r WHERE ts + INTERVAL '1' MONTH > NOW() AND k < 3",
    "days": "SELECT k, d FROM s WHERE d BETWEEN CURRENT_DATE - 1 AND CURRENT_DATE + 1",
    "today": "SELECT COUNT(*) AS n FROM s WHERE d = CURRENT_DATE",
    "yesterday": "SELECT id FROM r WHERE CAST(ts AS DATE) < CURRENT_DATE AND ts > CURRENT_DATE - 2",
    "beside": "SELECT s.k, r.id FROM s LEFT JOIN r ON r.k = s.k"
    " WHERE r.ts < NOW() - INTERVAL '1' MINUTE",
    "twice": "SELECT a.id, b.id AS other FROM r a JOIN r b ON a.k = b.k"
    " WHERE a.ts > NOW() AND b.ts <= NOW()",
    "inside": "WITH late AS (SELECT k FROM r WHERE ts <= NOW()) SELECT k FROM s"
    " WHERE k NOT IN (SELECT k FROM late WHERE k IS NOT NULL)",
    "stream": "SELECT k, SUM(x) AS t FROM e WHERE ts > NOW() - INTERVAL '3' MINUTE GROUP BY k",
    "first": "SELECT id, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts, id) AS n FROM r"
    " WHERE ts > NOW() - INTERVAL '10' MINUTE",
}

START = datetime(2026, 1, 31, 23, 50)


class Mirror:
    """The same rows in DuckDB, whose queries have the time as a constant."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        self.connection.execute(TABLES.replace("STREAM", "TABLE"))

    def rows(self, query: str, now: datetime) -> Counter[Any]:
        text = query.replace("CURRENT_TIMESTAMP", "NOW()")
        text = text.replace("NOW()", f"TIMESTAMP '{now}'")
        text = text.replace("CURRENT_DATE", f"DATE '{now.date()}'")
        return Counter(self.connection.execute(text).fetchall())


def check(db: viewlet.Database, mirror: Mirror) -> None:
    for name, query in VIEWS.items():
        rows = Counter(tuple(row) for row in db.view(name).rows())
        assert rows == mirror.rows(query, db.clock.now()), (name, db.clock.now())


def random_batch(rng: random.Random, held: dict[int, Any], now: datetime) -> list[viewlet.Change]:
    def moment() -> datetime | None:
        if rng.random() < 0.1:
            return None
        return now + timedelta(seconds=rng.choice([0, 1, -1, 60, -300, rng.randint(-900, 900)]))

    changes = []
    for key in rng.sample(sorted(held), min(len(held), rng.randint(0, 4))):
        changes.append(viewlet.Change("r", [held.pop(key)], -1))
    for _ in range(rng.randint(0, 6)):
        key = rng.randint(0, 10**9)
        x = rng.choice([None, 1.5, -2.0, float("inf")])
        held[key] = (key, rng.choice([1, 2, 3, None]), moment(), x, f"n{key}")
        changes.append(viewlet.Change("r", [held[key]]))
    if rng.random() < 0.5:
        day = (moment() or now).date() + timedelta(days=rng.randint(-2, 2))
        changes.append(viewlet.Change("s", [(rng.randint(1, 4), day)]))
    changes.append(viewlet.Change("e", [(rng.randint(1, 3), moment(), rng.randint(1, 9))]))
    return changes


def apply(db: viewlet.Database, mirror: Mirror, changes: list[viewlet.Change]) -> None:
    db.apply(changes)
    for change in changes:
        for row in change.rows:
            if change.weights == -1:
                mirror.connection.execute(f"DELETE FROM {change.relation} WHERE id = ?", [row[0]])
            else:
                marks = ", ".join("?" * len(row))
                mirror.connection.execute(f"INSERT INTO {change.relation} VALUES ({marks})", row)


def create_views(db: viewlet.Database) -> None:
    db.execute(";".join(f"CREATE VIEW {name} AS {query}" for name, query in VIEWS.items()))


@pytest.mark.parametrize("engine", ["interpreter", "local"])
def test_views_follow_rows_and_time(engine: Any) -> None:
    rng = random.Random(24)
    db, mirror, held = viewlet.connect(engine), Mirror(), {}
    db.clock.set(START)
    db.execute(TABLES)
    for _ in range(4):  # rows that tables have before there are views
        changes = [c for c in random_batch(rng, held, START) if c.relation != "e"]
        apply(db, mirror, changes)
    create_views(db)
    check(db, mirror)
    for _ in range(30):
        if rng.random() < 0.6:
            db.clock.advance(rng.choice([0.000001, 1, 59, 60, 61, 300, 3600]))
            check(db, mirror)
        apply(db, mirror, random_batch(rng, held, db.clock.now()))
        check(db, mirror)


def test_restarts_keep_time_and_rows(tmp_path: Path) -> None:
    rng = random.Random(42)
    path = str(tmp_path / "d.viewlet")
    db, mirror, held = viewlet.connect(path), Mirror(), {}
    db.clock.set(START)
    db.execute(TABLES)
    create_views(db)
    for step in range(12):
        apply(db, mirror, random_batch(rng, held, db.clock.now()))
        db.clock.advance(rng.choice([1, 60, 200]))
        if step % 4 == 3:
            if step % 8 == 3:
                db.checkpoint()
            before = db.clock.now()
            db.close()
            db = viewlet.connect(path)
            assert db.clock.now() == before
        check(db, mirror)
    folder = str(tmp_path / "saved")
    db.checkpoint(folder)
    db.close()
    restored = viewlet.restore(folder)
    check(restored, mirror)
    restored.clock.advance(100)
    check(restored, mirror)


def test_a_view_that_was_created_and_not_filled_is_filled_at_the_next_start(tmp_path: Path) -> None:
    path = str(tmp_path / "d.viewlet")
    with viewlet.connect(path) as db:
        db.execute(TABLES)
        db.insert("r", (1, 1, datetime(2500, 1, 1), 1.0, "a"))
        db._ticks.record = lambda changes: None  # type: ignore[method-assign]  # the power fails
        db.execute(f"CREATE VIEW v AS {VIEWS['inclusive']}")
    with viewlet.connect(path) as db:
        assert len(db.view("v")) == 1


def test_time_passes_by_itself_and_subscribers_hear_of_it() -> None:
    with viewlet.connect() as db:
        db.execute("CREATE TABLE r (k INT, ts TIMESTAMP)")
        db.execute("CREATE VIEW v AS SELECT k FROM r WHERE ts > NOW() - INTERVAL '1' SECOND")
        seen = []
        db.subscribe("v", seen.append)
        db.insert("r", [(1, db.clock.now()), (2, db.clock.now() + timedelta(hours=1))])
        deadline = time.monotonic() + 10
        while len(seen) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert [row.k for row in seen[-1].deleted] == [1]
        assert [row.k for row in db.view("v").rows()] == [2]


def test_a_batch_that_is_refused_changes_nothing() -> None:
    db = viewlet.connect()
    db.clock.set(START)
    db.execute("CREATE TABLE r (k INT, ts TIMESTAMP)")
    db.execute("CREATE VIEW v AS SELECT k FROM r WHERE ts > NOW() - INTERVAL '1' MINUTE")
    db.insert("r", [(1, START)])

    def refuse(batch: Any) -> None:
        raise ValueError("no")

    subscription = db.subscribe("v", refuse)
    for change in (lambda: db.insert("r", [(2, START)]), lambda: db.clock.advance(61)):
        with pytest.raises(ViewletError):
            change()
        assert [row.k for row in db.view("v").rows()] == [1]
        assert db.clock.now() == START
    subscription.close()
    db.clock.advance(59)
    assert len(db.view("v")) == 1
    db.clock.advance(1)
    assert len(db.view("v")) == 0


def test_views_over_such_views_and_what_drops_them() -> None:
    db = viewlet.connect()
    db.clock.set(START)
    db.execute("CREATE TABLE r (k INT, ts TIMESTAMP)")
    db.insert("r", [(1, START), (2, START - timedelta(minutes=2))])
    db.execute("CREATE VIEW v AS SELECT k FROM r WHERE ts > NOW() - INTERVAL '5' MINUTE")
    db.execute("CREATE VIEW w AS SELECT COUNT(*) AS n FROM v")
    assert db.view("w")[()].n == 2
    with pytest.raises(UnsupportedError, match="views use it"):
        db.execute("DROP TABLE r")
    with pytest.raises(UnsupportedError, match="compare its rows with NOW"):
        db.execute("ALTER TABLE r ADD COLUMN x INT")
    db.execute(
        "ALTER MATERIALIZED VIEW v AS SELECT k FROM r WHERE ts > NOW() - INTERVAL '1' MINUTE"
    )
    assert db.view("w")[()].n == 1
    db.execute("DROP VIEW w; DROP VIEW v")
    db.execute("ALTER TABLE r ADD COLUMN x INT")
    assert db.tables == ("r",)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT NOW() AS t FROM r", "cannot stand here"),
        ("SELECT k FROM r WHERE ts > NOW() OR k = 1", "does not say from when"),
        ("SELECT k FROM r GROUP BY k HAVING MAX(ts) > NOW()", "cannot stand here"),
        ("SELECT k FROM r WHERE ts > NOW() - INTERVAL '1' MONTH", "months have no fixed length"),
        ("SELECT k FROM (SELECT * FROM r) q WHERE q.ts > NOW()", "no table or stream in FROM"),
        ("SELECT r.k FROM r, s WHERE ts > NOW()", "ts is compared with NOW"),
        ("SELECT r.k FROM r, s WHERE r.ts > NOW() + (s.d - r.d)", "is not an INTERVAL"),
        ("SELECT k FROM r WHERE ts + (NOW() - ts) > NOW()", "compares NOW\\(\\) with itself"),
    ],
)
def test_what_is_refused_says_what_to_write(query: str, message: str) -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE r (k INT, ts TIMESTAMP, d DATE); CREATE TABLE s (k INT, d DATE)")
    with pytest.raises(ViewletError) as caught:
        db.execute(f"CREATE VIEW v AS {query}")
    assert caught.match(message)
    assert caught.value.hint is not None
    assert caught.value.position is not None


def test_statements_and_queries_have_the_time_of_the_database() -> None:
    db = viewlet.connect("interpreter")
    db.clock.set("2026-01-01 12:00:00")
    db.execute("CREATE TABLE r (k INT, ts TIMESTAMP, d DATE)")
    db.insert("r", [(1, "2026-01-01 11:59:00", None), (2, "2026-01-01 12:30:00", "2026-01-02")])
    moments = "NOW() AS a, CURRENT_TIMESTAMP AS b, LOCALTIMESTAMP AS c, CURRENT_DATE AS d"
    (row,) = db.query(f"SELECT {moments} FROM r WHERE ts > NOW()").to_pylist()
    noon = datetime(2026, 1, 1, 12)
    assert list(row.values()) == [noon, noon, noon, noon.date()]
    assert db.execute("DELETE FROM r WHERE ts <= NOW()") == 1
    db.clock.advance(60)
    db.execute("UPDATE r SET ts = NOW() WHERE d > CURRENT_DATE")
    assert db.query("SELECT ts FROM r").to_pylist() == [{"ts": noon + timedelta(minutes=1)}]
    db.clock.follow()
    (row,) = db.query("SELECT NOW() AS now").to_pylist()
    assert abs((row["now"] - datetime.utcfromtimestamp(time.time())).total_seconds()) < 5


def test_time_does_not_go_back() -> None:
    db = viewlet.connect()
    db.clock.set("2026-01-01 12:00:00")
    with pytest.raises(DataError, match="cannot go back"):
        db.clock.set("2026-01-01 11:00:00")
    with pytest.raises(DataError, match="not a moment"):
        db.clock.set("soon")
    with pytest.raises(DataError, match="not a time"):
        db.clock.advance(float("nan"))
    db.clock.follow()
    assert abs((db.clock.now() - datetime.utcfromtimestamp(time.time())).total_seconds()) < 5


def test_a_step_costs_what_goes() -> None:
    def cost(live: int) -> float:
        db = viewlet.connect()
        db.clock.set(START)
        db.execute("CREATE STREAM e (k BIGINT, ts TIMESTAMP)")
        db.execute(
            "CREATE VIEW v AS SELECT k % 100 AS k, COUNT(*) AS n FROM e"
            " WHERE ts > NOW() - INTERVAL '5' DAY GROUP BY k % 100"
        )
        # One row in a millisecond that goes, and the others much later.
        begin = START - timedelta(days=5)
        db.insert(
            "e", {"k": range(200), "ts": [begin + timedelta(milliseconds=i) for i in range(200)]}
        )
        db.insert("e", {"k": range(live), "ts": [START] * live})
        db.clock.advance(0.05)
        started = time.process_time()
        for _ in range(100):
            db.clock.advance(0.001)
        spent = time.process_time() - started
        assert sum(row.n for row in db.view("v").rows()) == live + 200 - 151
        return spent

    costs = [(cost(2_000), cost(200_000)) for _ in range(3)]
    assert min(large / small for small, large in costs) < 3
