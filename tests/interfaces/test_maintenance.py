"""When a view's work is done: options, refreshes, subscribers, errors and restarts of each mode."""

from __future__ import annotations

import threading
import time
from decimal import Decimal
from pathlib import Path

import pytest

import viewlet
from viewlet.errors import (
    ParseError,
    RangeError,
    ResolutionError,
    StateError,
    UnsupportedError,
    ViewletError,
)
from viewlet.interfaces.database import Database

ENGINES = ("interpreter", "local")
TABLES = "CREATE TABLE r (a INT, b INT); CREATE TABLE s (b INT, c BIGINT);"
SELECT = "SELECT r.a, SUM(s.c) AS t FROM r JOIN s ON r.b = s.b GROUP BY r.a"
LATER = ("split", "deferred")


def database(engine: str, options: str, select: str = SELECT) -> Database:
    db = viewlet.connect(engine)
    db.execute(TABLES)
    db.execute(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS {select}")
    return db


def totals(db: Database, view: str = "v") -> dict[int, int]:
    return {row.a: row.t for row in db.view(view).rows()}


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "column", "message"),
    [
        ("nonsense = 17", 34, "option nonsense"),
        ("maintenance = 'splt'", 34, "no maintenance 'splt'"),
        ("memory = '64 MB'", 34, "memory is for intermittent views"),
        ("maintenance = 'intermittent', memory = 'much'", 64, "not an amount of memory"),
        ("maintenance = 'intermittent', memory = '0 MB'", 64, "not an amount of memory"),
        ("maintenance = 'intermittent', refresh = 'on change'", 64, "does not go with"),
        ("refresh = 'when complete'", 34, "does not go with"),
        ("refresh = 'sometimes'", 34, "no refresh 'sometimes'"),
        ("refresh = 'every 0 rows'", 34, "no refresh"),
        ("refresh = 'every 5 parsecs'", 34, "not a time"),
        ("staleness = '0 s'", 34, "not a time"),
        ("maintenance = 'eager', refresh = 'manual'", 57, "does not go with"),
        ("maintenance = 'split', refresh = 'every 5 s'", 57, "does not go with"),
        ("maintenance = 'deferred', refresh = 'on change'", 60, "does not go with"),
        ("maintenance = 'eager', staleness = '5 s'", 57, "always current"),
        ("refresh = 'on read', refresh = 'manual'", 55, "said twice"),
    ],
)
def test_options_that_are_not_right(options: str, column: int, message: str) -> None:
    db = viewlet.connect("interpreter")
    db.execute(TABLES)
    with pytest.raises(ViewletError, match=message) as caught:
        db.execute(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS {SELECT}")
    position = caught.value.position
    assert position is not None
    assert (position.line, position.column) == (1, column)
    with pytest.raises(ResolutionError):
        db.view("v")


@pytest.mark.parametrize(
    "text",
    [
        "REFRESH MATERIALIZED v",
        "REFRESH MATERIALIZED VIEW",
        "REFRESH MATERIALIZED VIEW v now",
        "ALTER MATERIALIZED VIEW v SET maintenance = 'split'",
        "ALTER MATERIALIZED VIEW v SET (maintenance)",
        "ALTER MATERIALIZED VIEW v",
    ],
)
def test_statements_that_cannot_be_read(text: str) -> None:
    db = database("interpreter", "maintenance = 'split'")
    with pytest.raises(ParseError) as caught:
        db.execute(text)
    assert caught.value.position is not None


def test_unknown_views_are_named() -> None:
    db = database("interpreter", "maintenance = 'split'")
    for text in ("REFRESH MATERIALIZED VIEW w", "ALTER VIEW w SET (maintenance = 'eager')"):
        with pytest.raises(ResolutionError, match="no view w"):
            db.execute(text)
    with pytest.raises(ResolutionError, match="no view w"):
        db.refresh("w")
    with pytest.raises(ResolutionError, match="there is no option speed"):
        db.execute("ALTER MATERIALIZED VIEW v SET (speed = 'high')")
    assert "maintenance = 'split'" in db.explain("v", stage="maintenance")


def test_altered_options_stay_unless_the_mode_is_another() -> None:
    db = database("interpreter", "maintenance = 'deferred', refresh = 'manual'")
    db.execute("ALTER MATERIALIZED VIEW v SET (staleness = '90 s')")
    text = db.explain("v", stage="maintenance")
    assert "refresh = 'manual', staleness = '90 s'" in text
    db.execute("ALTER MATERIALIZED VIEW v SET (maintenance = 'eager')")
    assert "options: maintenance = 'eager'\n" in db.explain("v", stage="maintenance")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER MATERIALIZED VIEW v SET (maintenance = 'deferred')",
        f"CREATE OR REPLACE MATERIALIZED VIEW v WITH (maintenance = 'deferred') AS {SELECT}",
    ],
)
def test_rows_that_wait_are_not_lost_where_nothing_changes(engine: str, statement: str) -> None:
    db = database(engine, "maintenance = 'deferred'")
    db.insert("s", (1, 10))
    db.insert("r", (1, 1))
    db.execute(statement)
    assert totals(db) == {1: 10}
    db.insert("r", (2, 1))
    assert totals(db) == {1: 10, 2: 10}


# --- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", LATER)
def test_every_kind_of_read_is_current(engine: str, mode: str) -> None:
    db = database(engine, f"maintenance = '{mode}'")
    view = db.view("v")
    db.insert("r", [(1, 2), (7, 2)])
    db.insert("s", (2, 5))
    assert view[1].t == 5
    db.insert("s", (2, 6))
    assert len(view) == 2 and view[7].t == 11
    db.delete("s", (2, 5))
    assert {row["t"] for row in view.to_arrow().to_pylist()} == {6}
    db.insert("r", (9, 2))
    assert db.query("SELECT SUM(t) AS t FROM v").to_pylist() == [{"t": Decimal(18)}]
    db.delete("r", (9, 2))
    assert db.changes("v").to_pylist() == [{"a": 9, "t": Decimal(6), "_weight": -1}]
    assert db.changes("v").to_pylist() == [{"a": 9, "t": Decimal(6), "_weight": -1}]
    db.insert("r", (9, 2))
    assert db.stats("v").rows == 3


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", LATER)
def test_a_read_with_nothing_new_does_nothing(engine: str, mode: str) -> None:
    db = database(engine, f"maintenance = '{mode}'")
    db.insert("r", (1, 2))
    db.insert("s", (2, 5))
    for _ in range(3):
        assert totals(db) == {1: 5}
    assert "refreshes: 1," in db.explain("v", stage="maintenance")
    before = db.view("v").as_of
    db.insert("s", (2, 5))
    behind = db.view("v").as_of
    assert behind >= before
    time.sleep(0.01)
    assert db.view("v").as_of == behind
    assert totals(db) == {1: 10}
    assert db.view("v").as_of > behind


@pytest.mark.parametrize("engine", ENGINES)
def test_changes_of_other_views_stay_after_a_refresh(engine: str) -> None:
    db = database(engine, "maintenance = 'split'")
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT a, COUNT(*) AS n FROM r GROUP BY a")
    db.execute(f"CREATE MATERIALIZED VIEW d WITH (maintenance = 'deferred') AS {SELECT}")
    db.execute(f"CREATE MATERIALIZED VIEW top AS {SELECT} ORDER BY t DESC, a LIMIT 1")
    db.insert("s", [(2, 5), (3, 1)])
    db.insert("r", (1, 3))
    assert db.changes("top").num_rows == 1
    db.insert("r", (1, 2))
    top = db.changes("top").to_pylist()
    assert totals(db) == totals(db, "d") == {1: 6}
    assert db.changes("w").to_pylist() == [
        {"a": 1, "n": 1, "_weight": -1},
        {"a": 1, "n": 2, "_weight": 1},
    ]
    assert db.changes("top").to_pylist() == top


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", LATER)
def test_limit_windows_after_refreshes(engine: str, mode: str) -> None:
    limited = f"{SELECT} ORDER BY t DESC, a LIMIT 2"
    db = database(engine, f"maintenance = '{mode}'", limited)
    db.insert("s", [(b, 10 * b) for b in range(1, 6)])
    for a in range(1, 6):
        db.insert("r", (a, a))
        assert [row.a for row in db.view("v").rows()] == [a, a - 1][: min(a, 2)]
        changed = {(row["a"], row["_weight"]) for row in db.changes("v").to_pylist()}
        assert changed == {(a, 1)} | ({(a - 2, -1)} if a > 2 else set())
    db.delete("r", (5, 5))
    db.delete("r", (4, 4))
    changed = {(row["a"], row["_weight"]) for row in db.changes("v").to_pylist()}
    assert changed == {(5, -1), (4, -1), (3, 1), (2, 1)}


# --- schedules ------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_manual_refreshes(engine: str) -> None:
    db = database(engine, "maintenance = 'deferred', refresh = 'manual'")
    db.insert("s", (2, 5))
    db.insert("r", (1, 2))
    assert totals(db) == {}
    db.execute("CREATE MATERIALIZED VIEW other AS SELECT COUNT(*) AS n FROM r")
    assert totals(db) == {}
    db.execute("REFRESH MATERIALIZED VIEW v")
    assert totals(db) == {1: 5}
    db.delete("r", (1, 2))
    assert totals(db) == {1: 5}
    assert "1 rows wait" in db.explain("v", stage="maintenance")
    db.refresh("v")
    assert totals(db) == {}
    db.execute("DROP VIEW v")
    db.execute("DROP VIEW other; DROP TABLE r")


@pytest.mark.parametrize("engine", ENGINES)
def test_every_so_many_rows(engine: str) -> None:
    db = database(engine, "refresh = 'every 3 rows'")
    db.insert("s", (2, 5))
    db.insert("r", (1, 2))
    assert totals(db) == {}
    db.insert("r", (7, 2))
    assert totals(db) == {1: 5, 7: 5}
    assert "because: refresh = 'every 3 rows'" in db.explain("v", stage="maintenance")


def test_every_so_many_seconds() -> None:
    db = database("interpreter", "maintenance = 'deferred', refresh = 'every 50 ms'")
    db.insert("s", (2, 5))
    db.insert("r", (1, 2))
    view = db.view("v")
    deadline = time.monotonic() + 10
    while not view.rows() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert totals(db) == {1: 5}
    assert any(thread.name == "viewlet-refresh" for thread in threading.enumerate())
    db.close()
    deadline = time.monotonic() + 10
    while _clocks() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _clocks()


def _clocks() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name == "viewlet-refresh"]


@pytest.mark.parametrize("mode", LATER)
def test_staleness_bounds_how_old_an_answer_may_be(mode: str) -> None:
    db = database("interpreter", f"maintenance = '{mode}', staleness = '1 h'")
    db.insert("s", (2, 5))
    db.insert("r", (1, 2))
    first = totals(db)
    db.insert("r", (7, 2))
    assert totals(db) == first  # nobody minds an answer that is a moment old
    db.execute("ALTER MATERIALIZED VIEW v SET (staleness = '20 ms')")
    db.insert("r", (8, 2))
    time.sleep(0.05)
    assert totals(db) == {1: 5, 7: 5, 8: 5}


def test_opposite_rows_cancel() -> None:
    db = database("local", "maintenance = 'deferred', refresh = 'manual'")
    db.insert("s", {"b": [2], "c": [5]})
    for _ in range(20):
        db.insert("r", [(a, 2) for a in range(1_000)])
        db.delete("r", [(a, 2) for a in range(1_000)])
    upkeep = db._state.upkeeps["v"]
    assert upkeep.pending_rows <= 20_000
    waiting = upkeep.pending["r"].changes()
    assert sum(map(len, waiting)) == 0
    db.insert("r", [(1, 2), (None, 2)])
    db.refresh("v")
    assert totals(db) == {1: 5, None: 5}


# --- subscribers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", LATER)
def test_a_view_with_a_subscriber_is_eager(engine: str, mode: str) -> None:
    db = database(engine, f"maintenance = '{mode}'")
    db.insert("s", (2, 5))
    db.insert("r", (1, 2))
    seen: list = []
    subscription = db.subscribe("v", seen.append)
    text = db.explain("v", stage="maintenance")
    assert "view v: eager" in text and "a subscriber hears of every batch" in text
    db.insert("r", (7, 2))
    assert [[row.a for row in batch.inserted] for batch in seen] == [[7]]
    subscription.close()
    assert f"view v: {mode}" in db.explain("v", stage="maintenance")
    db.insert("r", (8, 2))
    assert len(seen) == 1
    assert totals(db) == {1: 5, 7: 5, 8: 5}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", LATER)
def test_a_refused_batch_is_in_no_view(engine: str, mode: str) -> None:
    """The callback of one view reads another, which takes in the batch, and refuses it then."""
    db = database(engine, f"maintenance = '{mode}'")
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n FROM r")
    db.insert("s", (2, 5))
    db.insert("r", (1, 2))
    seen: list[dict[int, int]] = []

    def refuse(_: object) -> None:
        seen.append(totals(db))
        raise ValueError("no")

    subscription = db.subscribe("w", refuse)
    for rows in ((7, 2), [(7, 2), (8, 2)]):
        with pytest.raises(ViewletError, match="undone"):
            db.insert("r", rows)
    assert seen == [{1: 5, 7: 5}, {1: 5, 7: 5, 8: 5}]
    subscription.close()
    assert totals(db) == {1: 5}
    db.insert("r", (9, 2))
    assert totals(db) == {1: 5, 9: 5}


# --- errors ---------------------------------------------------------------------------------------

HUGE = 9_000_000_000_000_000_000
SQUARES = "SELECT r.a, SUM(s.c * r.b) AS t FROM r JOIN s ON r.a = s.b GROUP BY r.a"


@pytest.mark.parametrize("mode", LATER)
def test_an_overflow_belongs_to_the_read(mode: str) -> None:
    db = database("local", f"maintenance = '{mode}'", SQUARES)
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n FROM r")
    db.insert("r", (1, 2))
    db.insert("s", (1, 4))
    assert totals(db) == {1: 8}
    db.insert("s", (1, HUGE))
    for _ in range(2):
        with pytest.raises(RangeError, match="v is as it was"):
            totals(db)
    assert db.view("w")[()].n == 1
    assert "the last refresh failed" in db.explain("v", stage="maintenance")
    db.delete("s", (1, HUGE))
    assert totals(db) == {1: 8}
    db.insert("s", (1, HUGE))
    db.execute("CREATE TABLE another (a INT)")
    db.execute("DROP VIEW v")
    assert db.view("w")[()].n == 1


def test_an_error_that_nobody_waited_for_is_raised_by_the_next_read() -> None:
    db = database("local", "refresh = 'every 2 rows'", SQUARES)
    db.insert("r", [(1, 2), (2, 1)])
    db.insert("s", [(1, HUGE), (2, 1)])  # stands, though the view could not take it in
    with pytest.raises(RangeError):
        totals(db)
    db.delete("s", [(1, HUGE), (2, 1)])
    assert totals(db) == {}


def test_spark_says_that_it_has_no_modes() -> None:
    from viewlet.frontend.maintenance_options import MaintenanceMode, MaintenanceOptions
    from viewlet.interfaces.view_modes import declared_mode

    for mode in (MaintenanceMode.SPLIT, MaintenanceMode.DEFERRED):
        with pytest.raises(UnsupportedError, match="on Spark"):
            declared_mode(MaintenanceOptions(mode), "spark", None)
    assert declared_mode(MaintenanceOptions(), "spark", None) is None


# --- streams, late views and restarts -------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", LATER)
def test_views_over_streams_change_their_mode_without_losing_rows(engine: str, mode: str) -> None:
    db = viewlet.connect(engine)
    db.execute("CREATE STREAM r (a INT, b INT); CREATE TABLE s (b INT, c BIGINT)")
    db.execute(f"CREATE MATERIALIZED VIEW v WITH (maintenance = '{mode}') AS {SELECT}")
    db.insert("s", (2, 5))
    db.insert("r", (1, 2))
    for a, other in enumerate(("eager", "deferred", "split", "deferred", "eager", "split"), 2):
        db.execute(f"ALTER MATERIALIZED VIEW v SET (maintenance = '{other}')")
        db.insert("r", (a, 2))
    db.execute(f"CREATE MATERIALIZED VIEW w WITH (maintenance = '{mode}') AS {SELECT}")
    db.insert("r", [(8, 2)])
    assert totals(db) == dict.fromkeys(range(1, 9), 5)
    assert totals(db, "w") == {8: 5}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", LATER)
def test_views_over_views_and_late_ones(engine: str, mode: str) -> None:
    db = database(engine, f"maintenance = '{mode}'")
    db.insert("s", [(2, 5), (3, 7)])
    db.insert("r", [(1, 2), (2, 3)])
    db.execute(
        f"CREATE MATERIALIZED VIEW w WITH (maintenance = '{mode}') AS SELECT MAX(t) AS m FROM v"
    )
    db.execute("CREATE MATERIALIZED VIEW x AS SELECT COUNT(*) AS n FROM v WHERE t > 6")
    assert (db.view("w").rows()[0].m, db.view("x")[()].n) == (7, 1)
    db.insert("r", [(1, 3)])
    assert (db.view("w").rows()[0].m, db.view("x")[()].n) == (12, 2)
    assert totals(db) == {1: 12, 2: 7}
    db.execute("DROP VIEW w; DROP VIEW x")
    db.delete("r", (2, 3))
    assert totals(db) == {1: 12}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("options", ["maintenance = 'split'", "refresh = 'manual'"])
def test_checkpoints_keep_what_waits(engine: str, options: str, tmp_path: Path) -> None:
    db = database(engine, options, SELECT.replace("r.a,", "r.a AS a,"))
    db.execute("CREATE STREAM words (w VARCHAR, n BIGINT)")
    db.execute(
        f"CREATE MATERIALIZED VIEW u WITH ({options}) AS "
        "SELECT x.w, SUM(y.n) AS n FROM words x JOIN words y ON x.w = y.w GROUP BY x.w"
    )
    db.insert("s", (2, 5))
    db.insert("r", (1, 2))
    db.refresh("v")
    db.insert("r", [(7, 2), (None, 2)])
    db.insert("words", {"w": ["ä", "b", "ä", None], "n": [1, 2, 3, 4]})
    db.checkpoint(tmp_path)
    back = viewlet.restore(tmp_path)
    manual = "manual" in options
    assert totals(back) == ({1: 5} if manual else {1: 5, 7: 5, None: 5})
    assert len(back.view("u")) == (0 if manual else 2)
    for each in (db, back):
        each.insert("words", ("b", 5))
        each.refresh("v")
        each.refresh("u")
        assert totals(each) == {1: 5, 7: 5, None: 5}
        assert {row.w: row.n for row in each.view("u").rows()} == {"ä": 8, "b": 14}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_durable_database_goes_on_with_what_waits(engine: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.viewlet"
    with viewlet.connect(path, engine=engine, synchronous="off") as db:
        db.execute(TABLES)
        db.execute(f"CREATE MATERIALIZED VIEW v WITH (refresh = 'manual') AS {SELECT}")
        db.execute(f"CREATE MATERIALIZED VIEW w WITH (maintenance = 'split') AS {SELECT}")
        db.insert("s", (2, 5))
        db.insert("r", (1, 2))
        db.refresh("v")
        db.insert("r", (7, 2))
    for number in range(2):
        with viewlet.connect(path, engine=engine, synchronous="off") as db:
            assert totals(db) == {1: 5}
            assert totals(db, "w") == {1: 5, 7: 5}
            if number == 0:
                db.checkpoint()
    with viewlet.connect(path, engine=engine, synchronous="off") as db:
        db.execute("ALTER MATERIALIZED VIEW v SET (maintenance = 'split')")
        assert totals(db) == {1: 5, 7: 5}
    with viewlet.connect(path, engine=engine, synchronous="off") as db:
        assert "view v: split" in db.explain("v", stage="maintenance")
        assert totals(db) == {1: 5, 7: 5}
    with pytest.raises(StateError):
        db.refresh("v")
