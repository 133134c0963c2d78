"""The Spark engine through the public interface: the same answers as in one process."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.engine.object_store import object_store

import viewlet
from viewlet.engine.durable.sealed import seal, unseal
from viewlet.engine.spark.spark_engine import SparkEngine
from viewlet.interfaces.database import Database

pytestmark = pytest.mark.spark


@pytest.fixture
def db(spark: Any) -> Iterator[Database]:
    with viewlet.connect("spark", spark=spark, partitions=2) as database:
        yield database


def engine_of(database: Database) -> SparkEngine:
    engine = database._engine
    assert isinstance(engine, SparkEngine)
    return engine


def test_a_table_is_checked(db: Database) -> None:
    """A batch that breaks a constraint changes nothing on any partition; the next one goes on."""
    db.execute("CREATE TABLE r (a INT, b VARCHAR, PRIMARY KEY (a))")
    db.execute("CREATE VIEW v AS SELECT b, COUNT(*) AS n FROM r GROUP BY b")
    db.insert("r", [(i, "even" if i % 2 == 0 else "odd") for i in range(20)])
    with pytest.raises(viewlet.ViewletError, match=r"duplicate primary key \(a=3\)"):
        db.insert("r", [(i, "new") for i in (100, 101, 102, 3)])
    with pytest.raises(viewlet.ViewletError, match="is not there"):
        db.delete("r", [(4, "odd")])
    assert db.view("v")["odd"].n == 10
    assert len(db.view("v")) == 2
    db.insert("r", [(100, "new"), (101, "new")])
    assert db.view("v")["new"].n == 2
    assert db.query("SELECT COUNT(*) AS n FROM r")["n"].to_pylist() == [22]
    assert engine_of(db).cluster.incidents == []


def test_all_types(db: Database) -> None:
    db.execute(
        "CREATE TABLE r (i INT, b BIGINT, d DECIMAL(12,2), x DOUBLE, s VARCHAR, t DATE, "
        "u TIMESTAMP, f BOOLEAN)"
    )
    db.execute(
        "CREATE VIEW v AS SELECT s, t, f, SUM(d) AS d, SUM(x) AS x, MIN(u) AS u, MAX(i) AS i, "
        "COUNT(b) AS b FROM r GROUP BY s, t, f"
    )
    day, moment = dt.date(2026, 11, 16), dt.datetime(2026, 11, 16, 1, 2, 3, 4)
    row = (1, 2**40, Decimal("1.25"), 0.5, "é", day, moment, True)
    gaps = (None,) * 8
    db.insert("r", [row, row, gaps])
    rows = {tuple(r) for r in db.view("v").rows()}
    assert rows == {
        ("é", day, True, Decimal("2.50"), 1.0, moment, 1, 2),
        (None, None, None, None, None, None, None, 0),
    }
    db.delete("r", [gaps, row])
    assert [tuple(r)[3:] for r in db.view("v").rows()] == [(Decimal("1.25"), 0.5, moment, 1, 1)]
    assert db.query("SELECT * FROM r").to_pylist() == [
        dict(zip(("i", "b", "d", "x", "s", "t", "u", "f"), row, strict=True))
    ]


def test_subscribers_and_undo(db: Database) -> None:
    """Changes are those of the batch; a subscriber that fails takes the batch back."""
    db.execute("CREATE TABLE r (a INT, PRIMARY KEY (a)); CREATE STREAM s (a INT, x DOUBLE)")
    db.execute("CREATE VIEW v AS SELECT r.a, SUM(x) AS x FROM r JOIN s ON r.a = s.a GROUP BY r.a")
    db.execute("CREATE VIEW n AS SELECT COUNT(*) AS n FROM s")
    db.insert("r", [(i,) for i in range(10)])
    batches: list[Any] = []
    subscription = db.subscribe("v", batches.append)
    db.insert("s", [(1, 0.5), (2, 0.5), (99, 1.0)])
    db.insert("s", [(1, 1.0)])
    assert [(sorted(map(tuple, b.inserted)), b.deleted) for b in batches] == [
        ([(1, 0.5), (2, 0.5)], []),
        ([(1, 1.5)], [(1, 0.5)]),
    ]
    subscription.close()

    def fail(_: Any) -> None:
        raise ValueError("no")

    failing = db.subscribe("n", fail)
    with pytest.raises(viewlet.ViewletError, match="undone"):
        db.insert("s", [(1, 7.0), (3, 7.0)])
    failing.close()
    assert {tuple(row) for row in db.view("v").rows()} == {(1, 1.5), (2, 0.5)}
    assert db.view("n")[()].n == 4
    db.insert("s", [(3, 2.0)])
    assert {tuple(row) for row in db.view("v").rows()} == {(1, 1.5), (2, 0.5), (3, 2.0)}
    assert db.view("n")[()].n == 5
    assert engine_of(db).cluster.incidents == []


def test_views_made_later(db: Database) -> None:
    """A new view sees the rows of tables; what streams brought to old views stays."""
    db.execute("CREATE TABLE r (a INT, b VARCHAR); CREATE STREAM s (a INT)")
    db.insert("r", [(1, "x"), (2, "y"), (2, "y")])
    db.execute("CREATE VIEW v AS SELECT b, COUNT(*) AS n FROM r JOIN s ON r.a = s.a GROUP BY b")
    db.insert("s", [(1,), (2,)])
    db.execute("CREATE VIEW w AS SELECT b, COUNT(*) AS n FROM r GROUP BY b")
    assert dict(tuple(r) for r in db.view("v").rows()) == {"x": 1, "y": 2}
    assert dict(tuple(r) for r in db.view("w").rows()) == {"x": 1, "y": 2}
    db.insert("s", [(1,)])
    db.delete("r", [(2, "y")])
    assert dict(tuple(r) for r in db.view("v").rows()) == {"x": 2, "y": 1}
    assert dict(tuple(r) for r in db.view("w").rows()) == {"x": 1, "y": 1}
    assert db.stats("v").rows == 2
    assert "on_" in db.explain("v", stage="kernels")


@pytest.mark.parametrize("partitions", [pytest.param(None, marks=pytest.mark.slow), 3])
def test_restore(spark: Any, tmp_path: Path, partitions: int | None) -> None:
    """Every batch is durable when it returns; restoring takes the newest, split anew if asked."""
    directory = str(tmp_path / "checkpoint")
    database = viewlet.connect("spark", spark=spark, partitions=2, checkpoint=directory)
    database.execute("CREATE TABLE r (a INT, b VARCHAR, PRIMARY KEY (a)); CREATE STREAM s (a INT)")
    database.execute("CREATE VIEW v AS SELECT b, COUNT(*) AS n FROM r JOIN s USING (a) GROUP BY b")
    database.execute("CREATE VIEW total AS SELECT COUNT(*) AS n FROM s")
    database.insert("r", [(i, f"g{i % 3}") for i in range(30)])
    database.insert("s", [(i % 40,) for i in range(100)])
    expected = sorted(map(tuple, database.view("v").rows()))
    # No close and no checkpoint(): as if the driver had died here.
    again = viewlet.restore(directory, spark=spark, partitions=partitions)
    assert engine_of(again).partitions == (partitions or 2)
    assert sorted(map(tuple, again.view("v").rows())) == expected
    assert again.view("total")[()].n == 100
    with pytest.raises(viewlet.ViewletError, match="duplicate primary key"):
        again.insert("r", [(7, "x")])
    again.insert("s", [(0,), (1,)])
    assert again.view("total")[()].n == 102
    assert again.view("v")["g0"].n == dict(expected)["g0"] + 1
    again.checkpoint()
    again.close()


def test_hints(spark: Any, tmp_path: Path) -> None:
    """A small table is on every node, which saves a stage; a restored database knows it."""
    directory = str(tmp_path / "checkpoint")
    rows = {"client": 50, "bill": 1_000_000, "line": 10_000_000}
    options = {"spark": spark, "partitions": 2, "checkpoint": directory}
    with viewlet.connect("spark", hints=viewlet.Hints(statistics=rows), **options) as database:
        database.execute(_BILLS)
        explained = database.explain("v", stage="distributed")
        assert "map m_client[client_id, client_kind] replicated" in explained
        database.insert("client", [(c, f"k{c % 3}") for c in range(9)])
        database.insert("bill", [(b, b % 10) for b in range(40)])
        database.insert("line", [(n % 50, n) for n in range(200)])
        database.delete("client", [(8, "k2")])
        database.insert("client", [(9, "k2")])
        expected = sorted(map(tuple, database.view("v").rows()))
    assert expected == sorted(_bills(set(range(10)) - {8}))
    with viewlet.restore(directory, spark=spark, partitions=3) as again:
        assert again.explain("v", stage="distributed") == explained
        assert sorted(map(tuple, again.view("v").rows())) == expected
        again.insert("client", [(8, "k2")])
        assert sorted(map(tuple, again.view("v").rows())) == sorted(_bills({*range(10)}))
    with viewlet.connect("spark", spark=spark, partitions=2) as plain:
        plain.execute(_BILLS)
        text = plain.explain("v", stage="distributed")
        assert "map m_client[client_id, client_kind] dist(client_id)" in text


_BILLS = """
CREATE STREAM client (id INT, kind VARCHAR, PRIMARY KEY (id));
CREATE STREAM bill (id INT, client INT, PRIMARY KEY (id));
CREATE STREAM line (bill INT, paid INT);
CREATE VIEW v AS
SELECT bill.id, client.kind, COUNT(*) AS n, SUM(line.paid) AS paid
FROM line JOIN bill ON line.bill = bill.id JOIN client ON bill.client = client.id
GROUP BY bill.id, client.kind;
"""


def _bills(clients: set[int]) -> list[tuple[int, str, int, int]]:
    """The view of test_hints where these clients are there; client 9 came as k2."""
    return [
        (bill, "k2" if bill % 10 == 9 else f"k{bill % 10 % 3}", 4, sum(range(bill, 200, 50)))
        for bill in range(40)
        if bill % 10 in clients
    ]


def test_mistakes(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(viewlet.ViewletError, match="has no Spark session"):
        viewlet.connect("local", partitions=3)
    with pytest.raises(viewlet.ViewletError, match="no hints"):
        viewlet.connect("local", hints=viewlet.Hints())
    with pytest.raises(viewlet.ViewletError, match="too few"):
        viewlet.connect("spark", spark=spark, partitions=0)
    directory = str(tmp_path / "checkpoint")
    with viewlet.connect("spark", spark=spark, partitions=1, checkpoint=directory) as database:
        database.execute("CREATE TABLE r (a INT)")
        with pytest.raises(viewlet.ViewletError, match="written where the batches are"):
            database.checkpoint(str(tmp_path / "other"))
        database.insert("r", [(1,)])
    before = files_of(tmp_path)
    with pytest.raises(
        viewlet.ViewletError, match=r"already\nhint: go on with it by viewlet\.rest"
    ):
        viewlet.connect("spark", spark=spark, partitions=2, checkpoint=directory)
    assert files_of(tmp_path) == before
    with viewlet.restore(directory, spark=spark) as database:
        assert database.query("SELECT * FROM r").to_pylist() == [{"a": 1}]


def files_of(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_checkpoint_of_another_program(spark: Any, tmp_path: Path) -> None:
    directory = str(tmp_path)
    with viewlet.connect("spark", spark=spark, partitions=1, checkpoint=directory) as database:
        database.execute("CREATE STREAM s (a INT); CREATE VIEW v AS SELECT SUM(a) AS x FROM s")
        database.insert("s", [(1,)])
    (about,) = tmp_path.glob("checkpoint-*/database.json")
    text = unseal(about.name, about.read_bytes(), about.parent.name)
    changed = seal(text.replace(b"SUM(a)", b"COUNT(a)"), about.parent.name)
    about.write_bytes(b"".join(changed))
    before = files_of(tmp_path)
    with pytest.raises(viewlet.ViewletError, match=r"is of another program .*\nhint: restore with"):
        viewlet.restore(directory, spark=spark)
    assert files_of(tmp_path) == before


def test_a_checkpoint_that_cannot_be_written(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    for directory, message in {
        str(tmp_path / "file" / "below"): r"cannot (write|list).*\nhint: ",
        "nonsense://somewhere": r"no filesystem for the checkpoint.*\nhint: give a directory",
    }.items():
        with pytest.raises(viewlet.ViewletError, match=message):
            viewlet.connect("spark", spark=spark, partitions=1, checkpoint=directory)
    with (
        viewlet.connect("local") as database,
        pytest.raises(viewlet.ViewletError, match="saves to"),
    ):
        database.checkpoint("s3://bucket/place")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_definitions_that_cannot_be_saved(spark: Any, tmp_path: Path) -> None:
    """No batch is taken that a restore would not know what to do with."""
    directory = tmp_path / "checkpoint"
    with viewlet.connect("spark", spark=spark, partitions=1, checkpoint=str(directory)) as database:
        database.execute("CREATE STREAM s (a INT)")
        directory.rename(tmp_path / "away")
        directory.write_text("in the way")
        with pytest.raises(viewlet.ViewletError, match="checkpoint"):
            database.execute("CREATE VIEW v AS SELECT SUM(a) AS x FROM s")
        for insert in (database.insert, database.delete):
            with pytest.raises(viewlet.ViewletError, match="checkpoint"):
                insert("s", (1,))
        directory.unlink()
        (tmp_path / "away").rename(directory)
        database.insert("s", (1,))
    with viewlet.restore(str(directory), spark=spark) as database:
        assert database.view("v")[()].x == 1


def test_a_driver_lost_before_the_first_rows(spark: Any, tmp_path: Path) -> None:
    """What a program began to write before anything was put into it is not in the way."""
    directory = str(tmp_path)
    with viewlet.connect("spark", spark=spark, partitions=1, checkpoint=directory) as database:
        database.execute("CREATE STREAM s (a INT); CREATE VIEW n AS SELECT COUNT(*) AS n FROM s")
        database.insert("s", [(1,)])
    (program,) = tmp_path.glob("program-*")
    (program / "filling").touch()
    with viewlet.restore(directory, spark=spark) as database:
        assert database.view("n")[()].n == 0
        database.insert("s", [(1,), (2,)])
    with viewlet.restore(directory, spark=spark) as database:
        assert database.view("n")[()].n == 2


def test_a_session_without_arrow(spark: Any) -> None:
    key = "spark.sql.execution.arrow.pyspark.enabled"
    spark.conf.set(key, "false")
    try:
        with pytest.raises(
            viewlet.ViewletError, match=r"arrow\.pyspark\.enabled must be true.*\nhi"
        ):
            viewlet.connect("spark", spark=spark)
    finally:
        spark.conf.set(key, "true")


def test_more_than_the_driver_takes(db: Database, spark: Any) -> None:
    """Reading more than spark.driver.maxResultSize says what to change, and changes nothing."""
    db.execute("CREATE TABLE r (a INT PRIMARY KEY, x BIGINT)")
    db.insert("r", {"a": list(range(9000)), "x": list(range(9000))})
    settings = spark.sparkContext._jsc.sc().conf()
    settings.set("spark.driver.maxResultSize", "20k")
    try:
        with pytest.raises(
            viewlet.ViewletError, match=r"maxResultSize.*\nhint: raise spark\.driver"
        ):
            db.query("SELECT * FROM r")
    finally:
        settings.set("spark.driver.maxResultSize", "1g")
    assert db.query("SELECT * FROM r").num_rows == 9000


@pytest.mark.slow
def test_a_checkpoint_in_an_object_store(spark: Any) -> None:
    """Driver and workers write to a service that speaks S3; another driver goes on from there."""
    with object_store() as (directory, objects):
        database = viewlet.connect("spark", spark=spark, partitions=2, checkpoint=directory)
        database.execute(
            "CREATE TABLE r (a INT, b VARCHAR, PRIMARY KEY (a)); CREATE STREAM s (a INT)"
        )
        database.execute(
            "CREATE VIEW v AS SELECT b, COUNT(*) AS n FROM r JOIN s USING (a) GROUP BY b"
        )
        database.insert("r", [(i, f"g{i % 3}") for i in range(30)])
        database.insert("s", [(i % 40,) for i in range(100)])
        database.checkpoint()
        database.insert("s", [(1,), (2,)])
        expected = sorted(map(tuple, database.view("v").rows()))
        again = viewlet.restore(directory, spark=spark, partitions=3)
        assert sorted(map(tuple, again.view("v").rows())) == expected
        again.close()
        kinds = ("/log/", "/snapshots/", "/commits/", "/driver/", "/CURRENT")
        assert all(any(kind in name for name in objects) for kind in kinds)
        with pytest.raises(
            viewlet.ViewletError, match="has the checkpoint of a database already"
        ) as e:
            viewlet.connect("spark", spark=spark, checkpoint=directory)
        assert "secret" not in str(e.value)


def test_arrow_batches(db: Database) -> None:
    """A batch of several thousand rows with many distinct strings, over both partitions."""
    db.execute("CREATE STREAM s (k VARCHAR, x BIGINT)")
    db.execute("CREATE VIEW v AS SELECT k, SUM(x) AS x FROM s GROUP BY k")
    table = pa.table({"k": [f"k{i % 700}" for i in range(7000)], "x": list(range(7000))})
    db.insert("s", table)
    db.delete("s", table.slice(0, 3500))
    sums = dict(tuple(row) for row in db.view("v").rows())
    assert len(sums) == 700
    assert sums["k5"] == sum(range(3505, 7000, 700))


def test_frames(db: Database, spark: Any) -> None:
    """DataFrames in, DataFrames out; what does not fit is one error and changes nothing."""
    db.execute("CREATE TABLE r (a INT NOT NULL, b VARCHAR, PRIMARY KEY (a))")
    db.execute("CREATE STREAM s (a INT, u TIMESTAMP, x DECIMAL(10,2))")
    db.execute("CREATE VIEW v AS SELECT b, SUM(x) AS x FROM r JOIN s ON r.a = s.a GROUP BY b")
    left = spark.sql("SELECT CAST(id AS INT) a, concat('g', id % 2) b, 1 more FROM range(10)")
    right = spark.sql(
        "SELECT CAST(id % 12 AS INT) a, timestamp'2026-11-16 01:00:00' u, "
        "CAST(0.5 AS DECIMAL(4,1)) x FROM range(0, 24, 1, 3)"
    )
    db.apply_spark([("r", left), ("s", right)])
    expected = {("g0", Decimal("5.00")), ("g1", Decimal("5.00"))}
    assert {tuple(row) for row in db.view("v").rows()} == expected
    assert {tuple(row) for row in db.changes("v").collect()} == {(*row, 1) for row in expected}
    assert {tuple(row) for row in db.view("v").to_spark().collect()} == expected
    assert spark.sql("SELECT COUNT(*) FROM v").collect()[0][0] == 2
    wrong = {
        "has no column a": left.drop("a"),
        "is string, not INTEGER": left.withColumn("a", left.a.cast("string")),
        "NOT NULL": spark.sql("SELECT CAST(NULL AS INT) a, 'x' b"),
        "duplicate primary key": left,
    }
    for message, frame in wrong.items():
        with pytest.raises(viewlet.ViewletError, match=message):
            db.apply_spark([("r", frame)])
    db.apply_spark([("s", right, -1)])
    assert db.view("v").rows() == []
    with pytest.raises(viewlet.ViewletError, match="does not take DataFrames"):
        viewlet.connect("local").apply_spark([])


def test_rows_of_streams_are_aggregated_where_they_are(spark: Any, tmp_path: Path) -> None:
    """No job for rows of the driver, one stage for rows of a DataFrame; a restore repeats both."""
    with viewlet.connect(
        "spark",
        spark=spark,
        partitions=2,
        checkpoint=str(tmp_path),
        hints=viewlet.Hints(records={"v": 4}),
    ) as db:
        db.execute("CREATE STREAM s (k VARCHAR NOT NULL, t TIMESTAMP, x INT NOT NULL)")
        db.execute("CREATE VIEW v AS SELECT k, SUM(x) AS x FROM s WHERE x > 1 GROUP BY k")
        db.insert("s", [("a", None, 2), ("b", None, 1), ("c", None, 7)])
        metrics = engine_of(db).metrics()
        assert (metrics.jobs, metrics.stages) == (0, 0)
        assert metrics.run_seconds > 0
        frame = spark.sql(
            "SELECT concat('k', id % 2) k, timestamp'2026-11-16 01:00:00' t, CAST(id AS INT) x "
            "FROM range(0, 100, 1, 5)"
        )
        db.apply_spark([("s", frame)])
        metrics = engine_of(db).metrics()
        assert (metrics.jobs, metrics.stages) == (1, 1)
        with pytest.raises(viewlet.ViewletError, match="NOT NULL"):
            db.apply_spark([("s", spark.sql("SELECT CAST(NULL AS STRING) k, now() t, 5 x"))])
        expected = {("a", 2), ("c", 7), ("k0", 2450), ("k1", 2499)}
        assert {tuple(row) for row in db.view("v").rows()} == expected
    again = viewlet.restore(str(tmp_path), spark=spark)
    assert {tuple(row) for row in again.view("v").rows()} == expected
    again.apply_spark([("s", frame, -1)])
    assert {tuple(row) for row in again.view("v").rows()} == {("a", 2), ("c", 7)}
    again.close()


def test_a_sink_applies_each_batch_once(db: Database, spark: Any) -> None:
    db.execute("CREATE STREAM s (a INT); CREATE VIEW n AS SELECT COUNT(*) AS n FROM s")
    sink = db.sink("s")
    frame = spark.sql("SELECT CAST(id AS INT) a FROM range(7)")
    for batch in (0, 1, 1, 0):
        sink(frame, batch)
    assert db.view("n")[()].n == 14


def test_columns_hold_to_their_declared_sizes(db: Database, spark: Any) -> None:
    db.execute("CREATE TABLE t (s VARCHAR(3), m TIMESTAMP(0), n SMALLINT, c DECIMAL(12,2))")
    moment = dt.datetime(2024, 1, 1, 10, 0, 0, 500_000)
    db.insert("t", [("abc", moment, 1, 0.125)])
    schema = "s string, m timestamp_ntz, n int, c decimal(12,2)"
    frame = spark.createDataFrame([("x", moment, 1, Decimal("0.13"))], schema)
    db.apply_spark([("t", frame, 1)])
    for bad in (("abcd", moment, 1, None), ("x", moment, 32768, None)):
        with pytest.raises(viewlet.ViewletError):
            db.insert("t", [bad])
        with pytest.raises(viewlet.ViewletError):
            db.apply_spark([("t", spark.createDataFrame([bad], schema), 1)])
    rows = db.query("SELECT * FROM t").to_pylist()
    assert sorted(row["s"] for row in rows) == ["abc", "x"]
    assert {row["m"] for row in rows} == {dt.datetime(2024, 1, 1, 10, 0, 1)}
    assert {str(row["c"]) for row in rows} == {"0.13"}
