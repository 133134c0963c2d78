"""Rows of DataFrames are taken once, whatever is repeated, and belong to their batch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.errors import DataError, StateError
from viewlet.interfaces.database import Database

pytestmark = pytest.mark.spark

SCHEMA = """
CREATE TABLE a (k INT NOT NULL, x BIGINT, PRIMARY KEY (k));
CREATE STREAM s (k INT NOT NULL, x BIGINT NOT NULL, unread VARCHAR(3) NOT NULL, small SMALLINT);
CREATE VIEW v AS SELECT k, SUM(x) AS x FROM a GROUP BY k;
CREATE VIEW w AS SELECT k, SUM(x) AS x FROM s GROUP BY k;
"""


@pytest.fixture(scope="module")
def shared(spark: Any) -> Iterator[Database]:
    with viewlet.connect("spark", spark=spark, partitions=2) as database:
        database.execute(SCHEMA)
        yield database


@pytest.fixture
def db(shared: Database) -> Iterator[Database]:
    """One database for all: each test leaves the table empty, and the stream's sums at nothing."""
    yield shared
    left = [tuple(row.values()) for row in shared.query("SELECT * FROM a").to_pylist()]
    if left:
        shared.delete("a", left)
    if sums := [(k, -x, "", 0) for k, x in shared.view("w").rows()]:
        shared.insert("s", sums)


def rows(database: Database, view: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in database.view(view).rows() if row[1] != 0)


def test_inserts_and_deletes_of_one_micro_batch(spark: Any, db: Database) -> None:
    """That is how change data is written: two sinks, one number."""
    new = spark.createDataFrame([(1, 10), (2, 20)], "k INT, x BIGINT")
    old = spark.createDataFrame([(1, 10)], "k INT, x BIGINT")
    for _ in range(2):
        db.sink("a")(new, 0)
        db.sink("a", -1)(old, 0)
    assert rows(db, "v") == [(2, 20)]


def test_weights_in_a_column(spark: Any, db: Database) -> None:
    given = [(1, 5, "a", 1, 2), (1, 7, "b", 1, -1), (2, 1, "c", 1, 0)]
    frame = spark.createDataFrame(given, "k INT, x BIGINT, unread STRING, small INT, n INT")
    db.sink("s", weight="N")(frame, 100)
    assert rows(db, "w") == [(1, 3)]
    without = frame.selectExpr("k", "x", "unread", "small", "CAST(NULL AS INT) AS n")
    with pytest.raises(DataError, match="NULL in column n, which has the weights"):
        db.apply_spark([("s", without, "n")])
    for column, why in (("unread", "unread of .* is string, and has"), ("m", "no column m, which")):
        with pytest.raises(DataError, match=why):
            db.sink("s", weight=column)(frame, 101)
    assert rows(db, "w") == [(1, 3)]


def test_change_data(spark: Any, db: Database) -> None:
    """Delta's change feed: updates are two rows, in whatever task they come."""
    made = "k INT, x BIGINT, _change_type STRING"
    sink = db.sink("a", op="_change_type")
    sink(spark.createDataFrame([(1, 10, "insert"), (2, 20, "insert")], made), 0)
    changes = [
        (1, 10, "update_preimage"),
        (1, 11, "update_postimage"),
        (1, 11, "update_preimage"),
        (1, 12, "update_postimage"),
        (2, 20, "delete"),
        (3, 30, "insert"),
    ]
    sink(spark.createDataFrame(changes, made).repartition(4), 1)
    assert rows(db, "v") == [(1, 12), (3, 30)]
    with pytest.raises(DataError, match=r"with 'upsert' in column _change_type.*\nhint: a change"):
        sink(spark.createDataFrame([(4, 1, "upsert")], made), 2)
    with pytest.raises(DataError, match=r"with 'u' in column .*\nhint: an update needs the row"):
        sink(spark.createDataFrame([(3, 31, "u")], made), 2)
    sink(spark.createDataFrame([(3, 30, "d"), (4, 40, "c"), (5, 50, "r")], made), 2)
    assert rows(db, "v") == [(1, 12), (4, 40), (5, 50)]


def test_debezium(spark: Any, db: Database) -> None:
    row = "STRUCT<k: INT, x: BIGINT>"
    made = f"before {row}, after {row}, op STRING"
    sink = db.sink("a", op="op")
    sink(spark.createDataFrame([(None, (1, 10), "c"), (None, (2, 20), "r")], made), 10)
    sink(spark.createDataFrame([((1, 10), (1, 11), "u"), ((2, 20), None, "d")], made), 11)
    assert rows(db, "v") == [(1, 11)]
    for bad, why in (
        ((None, (1, 12), "u"), r"op 'u' has NULL for before or after\nhint: .*REPLICA IDENTITY"),
        (((1, 11), None, "t"), "with 't' in column op, which is no change"),
        (((1, 11), None, None), "with None in column op"),
    ):
        with pytest.raises(DataError, match=why):
            sink(spark.createDataFrame([bad], made), 12)
    assert rows(db, "v") == [(1, 11)]


def test_columns_that_nobody_reads_are_checked(spark: Any, db: Database) -> None:
    made = "k INT, x BIGINT, unread STRING, small INT"
    for bad, why in (
        ((1, 1, None, 1), "NULL in column unread, which is NOT NULL"),
        ((1, 1, "long", 1), "column unread: a value is out of range"),
        ((1, 1, "ok", 40_000), "column small: a value is out of range"),
        ((1, None, "ok", 1), "NULL in column x, which is NOT NULL"),
    ):
        with pytest.raises(DataError, match=why):
            db.apply_spark([("s", spark.createDataFrame([(2, 2, "ok", None), bad], made))])
    assert rows(db, "w") == []
    db.apply_spark([("s", spark.createDataFrame([(2, 2, "ok ", None)], made))])
    assert rows(db, "w") == [(2, 2)]


def test_names_in_any_case(spark: Any, db: Database) -> None:
    db.apply_spark([("a", spark.createDataFrame([(10, 1)], "X BIGINT, K INT"))])
    assert rows(db, "v") == [(1, 10)]
    with pytest.raises(DataError, match=r"has no column x\nhint: its columns are \(K, y\)"):
        db.apply_spark([("a", spark.createDataFrame([(10, 1)], "K INT, y BIGINT"))])
    several = spark.createDataFrame([(1, 10, 1)], "K INT, x BIGINT, y INT")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        two = several.toDF("K", "X", "x")
        with pytest.raises(DataError, match="column x of the DataFrame for a is string, not"):
            db.apply_spark([("a", two.selectExpr("K", "X", "string(x) AS x"))])
        db.apply_spark([("a", two.selectExpr("K + 1 AS k", "7L AS x", "X"))])
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert rows(db, "v") == [(1, 10), (2, 7)]


def test_batches_know_what_they_did(spark: Any, db: Database) -> None:
    """Of two threads each has the changes of its own batch, though the other's came after it."""
    first = db.apply_spark([("a", spark.createDataFrame([(1, 10)], "k INT, x BIGINT"))])
    seen: list[Any] = []

    def other() -> None:
        frame = spark.createDataFrame([(1, 10, -1), (1, 15, 1)], "k INT, x BIGINT, n INT")
        batch = db.apply_spark([("a", frame, "n")], batch_id=("other", 0))
        seen.append((batch.version, changes(batch, "v")))
        again = db.apply_spark([("a", frame, "n")], batch_id=("other", 0))
        seen.append((again.version, again.is_repeated, changes(again, "v")))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert first.version is not None
    assert seen[0] == (first.version + 1, [(1, 10, -1), (1, 15, 1)])
    assert seen[1] == (first.version + 1, True, [(1, 10, -1), (1, 15, 1)])
    assert changes(first, "v") == [(1, 10, 1)]
    assert changes(first, "w") == []
    own = db.apply_spark([("a", spark.createDataFrame([(2, 1)], "k INT, x BIGINT"))])
    db.insert("a", (3, 1))
    with pytest.raises(StateError, match=r"changes of version \d+ are gone.*\nhint: read changes"):
        own.changes("v")


def changes(batch: Any, view: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in batch.changes(view).collect())


def test_ids_live_in_the_checkpoint(spark: Any, tmp_path: Path) -> None:
    """For each source of its own, through many batches of others, new views and restarts."""
    frame = spark.createDataFrame([(1, 10)], "k INT, x BIGINT")
    with viewlet.connect("spark", spark=spark, partitions=2, checkpoint=tmp_path / "c") as db:
        db.execute("CREATE STREAM s (k INT NOT NULL, x BIGINT)")
        db.execute("CREATE VIEW v AS SELECT k, SUM(x) AS x FROM s GROUP BY k")
        assert not db.apply_spark([("s", frame)], batch_id=("load", 7)).is_repeated
        db.sink("s")(frame, 3)
        for number in range(3):
            db.apply_spark([("s", frame)], batch_id=(f"others {number}", number))
        db.execute("CREATE VIEW n AS SELECT COUNT(*) AS n FROM s")
        assert db.apply_spark([("s", frame)], batch_id=("load", 6)).is_repeated
        assert db.sink("s")(frame, 3).is_repeated
    with viewlet.restore(tmp_path / "c", spark=spark) as db:
        assert db.apply_spark([("s", frame)], batch_id=("load", 7)).is_repeated
        assert db.sink("s")(frame, 3).is_repeated
        assert rows(db, "v") == [(1, 50)]
        assert not db.sink("s")(frame, 4).is_repeated
        assert rows(db, "v") == [(1, 60)]
        with pytest.raises(DataError, match="is not the id of a batch"):
            db.apply_spark([("s", frame)], batch_id="load/8")  # type: ignore[arg-type]


def test_of_two_drivers_on_a_checkpoint_the_older_is_told(spark: Any, tmp_path: Path) -> None:
    """At its next batch, view or checkpoint; what it then had acknowledged is in the state."""
    place = tmp_path / "c"
    old = viewlet.connect("spark", spark=spark, partitions=2, checkpoint=place)
    old.execute("CREATE STREAM s (k INT NOT NULL, x BIGINT)")
    old.execute("CREATE VIEW v AS SELECT k, SUM(x) AS x FROM s GROUP BY k")
    old.insert("s", [(1, 10)])
    with viewlet.restore(place, spark=spark) as new:
        new.insert("s", [(1, 1)])
        for attempt in (
            lambda: old.insert("s", [(1, 1000)]),
            lambda: old.execute("CREATE VIEW n AS SELECT COUNT(*) AS n FROM s"),
            old.checkpoint,
        ):
            with pytest.raises(StateError, match=r"another driver \(process \d+ on .*taken over"):
                attempt()
        new.insert("s", [(1, 1)])
        assert rows(new, "v") == [(1, 12)]
    with viewlet.restore(place, spark=spark) as third:
        assert rows(third, "v") == [(1, 12)]


def test_columns_that_differ_in_case_alone(spark: Any, db: Database) -> None:
    """Spark finds neither by name, whichever is written as the relation's is."""
    frame = spark.createDataFrame([(1, 10, 5)], "k INT, x BIGINT, X BIGINT")
    with pytest.raises(DataError, match="several columns x: `x`, `X`"):
        db.apply_spark([("a", frame)])
    assert rows(db, "v") == []
