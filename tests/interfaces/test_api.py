"""The public surface: definitions, batches, reads, subscriptions."""

import copy
import datetime as dt
import pickle
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import viewlet
from viewlet.errors import (
    DataError,
    ParseError,
    ResolutionError,
    StateError,
    UnsupportedError,
    ViewletError,
)
from viewlet.interfaces.database import Database

SCHEMA = """
CREATE TABLE r (a INT NOT NULL, b INT, PRIMARY KEY (a));
CREATE STREAM s (b INT, c DECIMAL(12,2), d DATE);
"""
JOINED = """
CREATE MATERIALIZED VIEW v AS
SELECT r.a, SUM(s.c) AS total FROM r JOIN s ON r.b = s.b GROUP BY r.a
"""
DAY = dt.date(2024, 5, 1)


def test_the_contract(db: Database) -> None:
    db.execute(SCHEMA)
    db.execute(JOINED)
    db.insert("r", [(1, 10), (2, 20)])
    assert db.insert("s", (10, Decimal("1.50"), DAY)) == 1
    db.insert("s", {"b": [10, 20], "c": ["2.25", "7"], "d": [DAY, None]})
    v = db.view("v")
    assert len(v) == 2
    assert v[1].total == Decimal("3.75")
    assert v[1] == (1, Decimal("3.75"))
    assert sorted(v) == [1, 2]
    db.delete("r", (2, 20))
    assert dict(v) == {1: (1, Decimal("3.75"))}
    assert 2 not in v
    result = db.query("SELECT v.a, v.total * 2 AS twice, r.b FROM v JOIN r USING (a)")
    assert result.to_pylist() == [{"a": 1, "twice": Decimal("7.50"), "b": 10}]


def test_one_atomic_batch_over_several_relations(db: Database) -> None:
    db.execute(SCHEMA)
    db.execute(JOINED)
    count = db.apply(
        [
            viewlet.Change("r", [(1, 10)]),
            viewlet.Change("s", pa.table({"b": [10, 10], "c": ["1", "2"]}), [3, 1]),
        ]
    )
    assert count == 3
    assert db.view("v").rows() == [(1, Decimal("5.00"))]


def test_views_start_from_the_rows_of_tables(db: Database) -> None:
    db.execute("CREATE TABLE t (a INT, b INT)")
    db.insert("t", [(1, 1), (1, 2), (2, 5)])
    db.execute("CREATE VIEW v AS SELECT a, SUM(b) AS s, COUNT(*) AS n FROM t GROUP BY a")
    assert sorted(db.view("v").rows()) == [(1, 3, 2), (2, 5, 1)]
    db.delete("t", (1, 2))
    assert sorted(db.view("v").rows()) == [(1, 1, 1), (2, 5, 1)]


def test_views_over_streams_see_what_comes_after_them(db: Database) -> None:
    """Also when an earlier view has maps over the same stream and the same definition."""
    text = "SELECT s.k, COUNT(*) AS n, SUM(t.x) AS x FROM s JOIN t ON s.k = t.k GROUP BY s.k"
    db.execute("CREATE STREAM s (k INT); CREATE TABLE t (k INT, x INT)")
    db.insert("s", [(1,)])
    db.insert("t", (1, 7))
    db.execute(f"CREATE VIEW first AS {text}")
    assert db.view("first").rows() == []
    db.insert("s", [(1,), (2,)])
    db.execute(f"CREATE VIEW second AS {text}")
    assert db.view("first").rows() == [(1, 1, 7)]
    assert db.view("second").rows() == []
    db.insert("s", [(1,)])
    db.insert("t", (2, 5))
    assert sorted(db.view("first").rows()) == [(1, 2, 14), (2, 1, 5)]
    assert sorted(db.view("second").rows()) == [(1, 1, 7)]
    db.execute(f"CREATE VIEW third AS {text}")
    db.execute("DROP VIEW second")
    db.insert("s", (2,))
    assert sorted(db.view("first").rows()) == [(1, 2, 14), (2, 2, 10)]
    assert sorted(db.view("third").rows()) == [(2, 1, 5)]


def test_a_view_over_a_view_sees_what_that_view_sees(db: Database) -> None:
    """Also when it is made after rows of the stream have passed."""
    db.execute("CREATE STREAM s (k INT, x INT)")
    db.execute("CREATE VIEW sums AS SELECT k, SUM(x) AS x, COUNT(*) AS n FROM s GROUP BY k")
    db.insert("s", [(1, 5), (1, 6), (2, 1)])
    db.execute("CREATE VIEW big AS SELECT COUNT(*) AS n, SUM(n) AS m FROM sums WHERE x > 3")
    assert db.view("big").rows() == [(1, 2)]
    db.insert("s", [(2, 9), (1, -20)])
    assert db.view("big").rows() == [(1, 2)]
    assert sorted(db.view("sums").rows()) == [(1, -9, 3), (2, 10, 2)]


def test_a_view_that_needs_rows_which_were_not_kept(db: Database) -> None:
    db.execute("CREATE STREAM s (k INT, x INT); CREATE VIEW n AS SELECT COUNT(*) AS n FROM s")
    db.insert("s", (1, 2))
    with pytest.raises(StateError, match="rows of stream s have passed and were not kept"):
        db.execute("CREATE VIEW both AS SELECT n.n, SUM(s.x) AS x FROM n CROSS JOIN s GROUP BY n.n")
    db.insert("s", (1, 2))
    assert db.view("n").rows() == [(2,)]


def test_streams_take_deletes_without_asking(db: Database) -> None:
    db.execute("CREATE STREAM s (k INT); CREATE VIEW n AS SELECT COUNT(*) AS n FROM s")
    db.insert("s", [(1,), (2,)])
    db.delete("s", (3,))
    assert db.view("n")[()] == (1,)


def test_views_over_views(db: Database) -> None:
    db.execute(
        """
        CREATE TABLE t (a INT, b INT);
        CREATE VIEW sums AS SELECT a, SUM(b) AS s FROM t GROUP BY a;
        CREATE VIEW big AS SELECT COUNT(*) AS n FROM sums WHERE s > 10;
        """
    )
    db.insert("t", [(1, 6), (1, 6), (2, 3)])
    assert db.view("big").rows() == [(1,)]
    with pytest.raises(UnsupportedError, match="sums cannot be dropped while views use it: big"):
        db.execute("DROP VIEW sums")
    db.execute("DROP VIEW big; DROP VIEW sums; DROP TABLE t")
    with pytest.raises(ResolutionError, match="no view sums"):
        db.view("sums")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            [viewlet.Change("t", [(1, 1)]), viewlet.Change("t", (9, 9), -1)], id="missing"
        ),
        pytest.param([viewlet.Change("t", [(1, 1), (2, "x")])], id="wrong type"),
        pytest.param([viewlet.Change("t", (3, 3)), viewlet.Change("u", (None,))], id="null"),
        pytest.param([viewlet.Change("t", (3, 3)), viewlet.Change("u", [(5,), (5,)])], id="key"),
        pytest.param([viewlet.Change("t", [(3, 3)], [1, 2])], id="weights"),
        pytest.param([viewlet.Change("t", [(3, 3)], [0.5])], id="half a row"),
    ],
)
def test_a_bad_batch_leaves_no_trace(db: Database, change: list[viewlet.Change]) -> None:
    db.execute("CREATE TABLE t (a INT, b INT); CREATE TABLE u (id INT PRIMARY KEY)")
    db.execute("CREATE VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
    db.insert("t", (1, 1))
    calls: list[Any] = []
    db.subscribe("v", calls.append)
    with pytest.raises(DataError):
        db.apply(change)
    assert db.view("v").rows() == [(1, 1)]
    assert db.query("SELECT * FROM t").to_pylist() == [{"a": 1, "b": 1}]
    assert db.query("SELECT * FROM u").num_rows == 0
    assert calls == []


def test_rows_that_come_and_go_in_one_batch(db: Database) -> None:
    db.execute("CREATE TABLE t (a INT); CREATE VIEW v AS SELECT a FROM t")
    calls: list[Any] = []
    db.subscribe("v", calls.append)
    db.apply([viewlet.Change("t", (1,), 1), viewlet.Change("t", (1,), -1)])
    assert db.view("v").rows() == []
    assert calls == []


def test_static_tables(db: Database) -> None:
    db.execute("CREATE TABLE n (k INT, name VARCHAR) WITH (static = true); CREATE TABLE t (k INT)")
    db.insert("n", [(1, "one"), (2, "two")])
    db.execute(
        "CREATE VIEW v AS SELECT name, COUNT(*) AS c FROM t JOIN n ON t.k = n.k GROUP BY name"
    )
    db.insert("t", [(1,), (1,), (3,)])
    assert db.view("v").rows() == [("one", 2)]
    with pytest.raises(DataError, match="n is static, and views use it: v\nhint: drop v, change n"):
        db.insert("n", (3, "three"))
    db.execute("DROP VIEW v")
    assert db.insert("n", (3, "three")) == 1


def test_subscriptions(db: Database) -> None:
    db.execute("CREATE TABLE t (a INT, b INT)")
    db.execute("CREATE VIEW v AS SELECT a, SUM(b) AS s FROM t GROUP BY a")
    batches: list[viewlet.ViewBatch] = []
    with db.subscribe("v", batches.append):
        db.insert("t", [(1, 1), (2, 2)])
        db.insert("t", (1, 4))
        db.insert("t", (2, 0))
    db.insert("t", (9, 9))
    assert [(sorted(b.inserted), sorted(b.deleted)) for b in batches] == [
        ([(1, 1), (2, 2)], []),
        ([(1, 5)], [(1, 1)]),
    ]
    assert batches[0].inserted[0].s in (1, 2)
    assert batches[0].view == "v"


def test_a_mirror_stays_equal_to_a_bag_view(db: Database) -> None:
    db.execute("CREATE TABLE t (a INT); CREATE VIEW v AS SELECT a % 2 AS odd FROM t")
    mirror: list[Any] = []

    def update(batch: viewlet.ViewBatch) -> None:
        for row in batch.deleted:
            mirror.remove(row)
        mirror.extend(batch.inserted)

    db.subscribe("v", update)
    for rows in ([(1,), (3,)], [(2,)]):
        db.insert("t", rows)
        assert sorted(mirror) == sorted(db.view("v").rows())
    db.delete("t", (3,))
    assert sorted(mirror) == sorted(db.view("v").rows()) == [(0,), (1,)]


def test_a_failing_subscriber_undoes_the_batch(db: Database) -> None:
    db.execute("CREATE TABLE t (a INT PRIMARY KEY); CREATE VIEW v AS SELECT COUNT(*) AS n FROM t")
    mirror: list[Any] = [(0,)]

    def update(batch: viewlet.ViewBatch) -> None:
        for row in batch.deleted:
            mirror.remove(row)
        mirror.extend(batch.inserted)

    def fail(batch: viewlet.ViewBatch) -> None:
        if batch.inserted[0].n > 1:
            raise ValueError("too many")

    db.subscribe("v", update)
    db.subscribe("v", fail)
    db.insert("t", (1,))
    with pytest.raises(ViewletError, match=r"failed, and the batch was undone: .*many"):
        db.insert("t", (2,))
    assert db.view("v")[()].n == 1
    assert mirror == [(1,)]
    assert db.query("SELECT a FROM t").to_pylist() == [{"a": 1}]
    db.delete("t", (1,))
    db.insert("t", (1,))


def test_a_subscriber_may_read_and_may_not_write(db: Database) -> None:
    db.execute("CREATE TABLE t (a INT); CREATE VIEW v AS SELECT COUNT(*) AS n FROM t")
    counts = []
    db.subscribe("v", lambda batch: counts.append(db.view("v")[()].n))
    db.insert("t", (1,))
    assert counts == [1]
    db.subscribe("v", lambda batch: db.insert("t", (5,)))
    with pytest.raises(ViewletError, match="may not change the database"):
        db.insert("t", (2,))
    assert db.view("v")[()].n == 1


def test_mapping_of_each_kind(db: Database) -> None:
    db.execute(
        """
        CREATE TABLE t (a INT, b VARCHAR, c INT);
        CREATE VIEW bag AS SELECT a, b FROM t;
        CREATE VIEW pairs AS SELECT SUM(c) AS s, b, a FROM t GROUP BY a, b;
        CREATE VIEW hidden AS SELECT SUM(c) AS s FROM t GROUP BY a;
        CREATE VIEW total AS SELECT SUM(c) AS s FROM t;
        CREATE VIEW extremes AS SELECT b, MIN(c) AS low FROM t GROUP BY b;
        """
    )
    assert db.view("total")[()] == (None,)
    db.insert("t", [(1, "x", 5), (1, "x", 6), (2, "y", 11)])
    assert dict(db.view("bag")) == {(1, "x"): 2, (2, "y"): 1}
    assert sorted(db.view("bag").rows()) == [(1, "x"), (1, "x"), (2, "y")]
    assert db.view("pairs")["x", 1] == (11, "x", 1)
    assert dict(db.view("hidden")) == {(11,): 2}
    assert db.view("total")[()].s == 22
    assert db.view("extremes")["x"].low == 5
    with pytest.raises(KeyError):
        db.view("extremes")["z"]
    assert repr(db.view("bag")) == "<View bag(a, b): 2 rows>"


def test_lookups_of_every_type_of_key(db: Database) -> None:
    db.execute(
        """
        CREATE TABLE t (i INT, s VARCHAR, x DOUBLE, p DECIMAL(8,2), d DATE, b BOOLEAN);
        CREATE VIEW v AS SELECT d, COUNT(*) AS n, s, x, p, b, i FROM t GROUP BY i, s, x, p, d, b;
        CREATE VIEW few AS SELECT i, COUNT(*) AS n FROM t GROUP BY i HAVING COUNT(*) > 1
        """
    )
    v, few = db.view("v"), db.view("few")
    row = (1, "a", 0.5, Decimal("1.50"), DAY, True)
    db.insert("t", row)
    db.insert("t", (None,) * 6)
    assert v[DAY, "a", 0.5, Decimal("1.50"), True, 1].n == 1
    assert v[DAY, "a", 0.5, 1.5, True, 1].n == 1
    assert v[(None,) * 6].n == 1
    assert len(v) == 2
    for key in (
        (DAY, "unknown", 0.5, 1.5, True, 1),
        (DAY, "a", 0.5, 1.5, False, 1),
        (DAY, "a", 0.5, 1.5, True),
        (DAY, 7, 0.5, 1.5, True, 1),
    ):
        assert key not in v
    assert 1 not in few
    db.insert("t", row)
    assert few[1] == few[(1,)] == (1, 2)
    assert few.get(2) is None
    assert dict(few) == {1: (1, 2)}
    db.delete("t", [row, row])
    assert 1 not in few
    assert len(v) == 1


def test_single_rows_of_a_wide_table(db: Database) -> None:
    columns = ", ".join(f"c{i} INT" for i in range(9))
    db.execute(f"CREATE TABLE t (id INT PRIMARY KEY, x DOUBLE, s VARCHAR, {columns})")
    db.execute(
        "CREATE VIEW v AS SELECT s, SUM(c8) AS c, SUM(x) AS x, COUNT(c7) AS n FROM t GROUP BY s"
    )
    for i in range(70):
        db.insert("t", (i, i / 2, "even" if i % 2 == 0 else None, *[None] * 8, i))
    for i in range(0, 70, 3):
        db.delete("t", (i, i / 2, "even" if i % 2 == 0 else None, *[None] * 8, i))
    numbers = [i for i in range(70) if i % 3]
    even, odd = sum(i for i in numbers if i % 2 == 0), sum(i for i in numbers if i % 2)
    assert dict(db.view("v")) == {
        "even": ("even", even, even / 2, 0),
        None: (None, odd, odd / 2, 0),
    }
    with pytest.raises(DataError, match=r"duplicate primary key \(id=1\)"):
        db.insert("t", (1, 0.0, "other", *[1] * 9))
    with pytest.raises(DataError, match=r"id=3, .* is not there"):
        db.delete("t", (3, 1.5, None, *[None] * 8, 3))
    assert db.query("SELECT SUM(id) AS n FROM t")["n"][0].as_py() == even + odd


def test_sums_come_back_after_many_changes() -> None:
    """A million inserts and deletes: DECIMAL to the digit, DOUBLE within n * S * 2**-102."""
    numbers = np.random.default_rng(3)
    size, rounds = 50_000, 10
    with viewlet.connect("local") as db:
        db.execute(
            "CREATE STREAM s (k INT NOT NULL, x DOUBLE NOT NULL, p DECIMAL(12,2) NOT NULL);"
            "CREATE VIEW v AS SELECT k, SUM(x) AS x, SUM(p) AS p, COUNT(*) AS n FROM s GROUP BY k"
        )
        db.insert("s", (0, 0.1, "0.10"))
        batches = []
        for _ in range(rounds):
            cents = numbers.integers(-(10**9), 10**9, size)
            magnitudes = 10.0 ** numbers.integers(-6, 7, size)
            batches.append(
                pa.table(
                    {
                        "k": np.zeros(size, np.int32),
                        "x": numbers.normal(size=size) * magnitudes,
                        "p": pa.array([Decimal(int(c)).scaleb(-2) for c in cents]),
                    }
                )
            )
        for batch in batches:
            db.insert("s", batch)
        for batch in reversed(batches):
            db.delete("s", batch.take(numbers.permutation(size)))
        row = db.view("v")[0]
    assert (row.p, row.n) == (Decimal("0.10"), 1)
    assert abs(row.x - 0.1) <= 2 * rounds * size * 1e10 * 2.0**-102 + 2**-56


def test_views_as_tables_of_other_libraries(db: Database) -> None:
    db.execute("CREATE TABLE t (a INT, p DECIMAL(8,2), d DATE, x DOUBLE)")
    db.execute("CREATE VIEW v AS SELECT a, SUM(p) AS p, MAX(d) AS d, AVG(x) AS x FROM t GROUP BY a")
    db.insert("t", [(1, "1.10", DAY, 0.5), (1, "2.20", None, 1.0), (None, None, None, None)])
    table = db.view("v").to_arrow()
    assert table.schema.field("p").type == pa.decimal128(38, 2)
    assert table.schema.field("d").type == pa.date32()
    row = {"a": 1, "p": Decimal("3.30"), "d": DAY, "x": 0.75}
    assert row in table.to_pylist()
    assert row in db.view("v").to_polars().to_dicts()
    assert sorted(db.view("v").to_pandas().columns) == ["a", "d", "p", "x"]


def test_order_and_limit(db: Database) -> None:
    db.execute(
        """
        CREATE TABLE t (a INT, b INT);
        CREATE VIEW top AS SELECT a, SUM(b) AS s FROM t GROUP BY a ORDER BY s DESC, a LIMIT 2
        """
    )
    batches: list[viewlet.ViewBatch] = []
    db.subscribe("top", batches.append)
    db.insert("t", [(1, 5), (2, 7), (3, 6)])
    assert db.view("top").rows() == [(2, 7), (3, 6)]
    db.insert("t", (4, 1))
    assert len(batches) == 1
    db.delete("t", (2, 7))
    assert db.view("top").rows() == [(3, 6), (1, 5)]
    assert (batches[1].inserted, batches[1].deleted) == ([(1, 5)], [(2, 7)])


# --- SQL that changes data ------------------------------------------------------------------------


def test_insert_delete_update_through_sql(db: Database) -> None:
    db.execute(SCHEMA + "CREATE VIEW v AS SELECT b, COUNT(*) AS n FROM r GROUP BY b")
    assert db.execute("INSERT INTO r VALUES (1, 10), (2, 10), (3, NULL)") == 3
    assert db.execute("INSERT INTO r (b, a) SELECT b + 1, a + 10 FROM r WHERE b IS NOT NULL") == 2
    assert dict(db.view("v")) == {10: (10, 2), None: (None, 1), 11: (11, 2)}
    db.execute("UPDATE r SET b = b * 2 WHERE a <= 2")
    assert dict(db.view("v")) == {20: (20, 2), None: (None, 1), 11: (11, 2)}
    db.execute("DELETE FROM r WHERE b = (SELECT MAX(n) FROM v) OR b IS NULL OR a = 11")
    assert dict(db.view("v")) == {20: (20, 2), 11: (11, 1)}
    db.execute("DELETE FROM r")
    assert dict(db.view("v")) == {}
    db.execute("INSERT INTO s VALUES (1, 2.5, DATE '2024-01-01')")


def test_update_may_shift_keys(db: Database) -> None:
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    db.insert("t", [(1,), (2,), (3,)])
    db.execute("UPDATE t SET id = id + 1")
    assert db.query("SELECT id FROM t ORDER BY id")["id"].to_pylist() == [2, 3, 4]
    with pytest.raises(DataError, match="duplicate primary key"):
        db.execute("UPDATE t SET id = 7")
    assert db.query("SELECT id FROM t ORDER BY id")["id"].to_pylist() == [2, 3, 4]


def test_copy(db: Database, tmp_path: Path) -> None:
    import pyarrow.parquet

    db.execute("CREATE TABLE t (a INT, p DECIMAL(8,2), d DATE, s VARCHAR)")
    (tmp_path / "named.csv").write_text("s,a,d,p\nx,1,2024-01-02,1.50\n,2,,\n")
    (tmp_path / "bare.csv").write_text("3,2.25,2024-01-03,y\n")
    columns = {"a": [4], "p": [Decimal("0.10")], "d": [DAY], "s": ["z"]}
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    db.execute(f"COPY t FROM '{tmp_path}/named.csv'")
    db.execute(f"COPY t FROM '{tmp_path}/bare.csv'")
    db.execute(f"COPY t FROM '{tmp_path}/t.parquet'")
    assert [tuple(row.values()) for row in db.query("SELECT * FROM t ORDER BY a").to_pylist()] == [
        (1, Decimal("1.50"), dt.date(2024, 1, 2), "x"),
        (2, None, None, None),
        (3, Decimal("2.25"), dt.date(2024, 1, 3), "y"),
        (4, Decimal("0.10"), DAY, "z"),
    ]
    with pytest.raises(DataError, match=r"there is no file .*none.csv"):
        db.execute(f"COPY t FROM '{tmp_path}/none.csv'")


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "kind", "message"),
    [
        ("SELECT * FROM s", ResolutionError, "s is a stream, and its rows are not kept"),
        ("SELECT * FROM rr", ResolutionError, "no table or view rr\nhint: did you mean r"),
        ("SELECT nope FROM r", ResolutionError, "nope"),
        ("DELETE FROM s WHERE b = 1", ResolutionError, "a stream and keeps none"),
        ("UPDATE s SET b = 1", ResolutionError, "a stream and keeps none"),
        ("INSERT INTO r (a, zz) VALUES (1, 2)", ResolutionError, "zz"),
        ("INSERT INTO r VALUES (1)", DataError, "1 values"),
        ("INSERT INTO r VALUES (1, 'x')", DataError, "column b is INTEGER"),
        ("INSERT INTO nope VALUES (1)", ResolutionError, "nope"),
        ("CREATE TABLE r (a INT)", ResolutionError, "r already exists"),
        ("CREATE VIEW r AS SELECT 1 AS x FROM s", ResolutionError, "r already exists"),
        ("CREATE VIEW w AS SELECT nope FROM r", ResolutionError, "nope"),
        ("CREATE VIEW v AS SELECT a FROM r", ResolutionError, "v already exists"),
        ("DROP TABLE r", UnsupportedError, "r cannot be dropped while views use it: v"),
        ("DROP VIEW vv", ResolutionError, "no view vv\nhint: did you mean v"),
        ("SELEC 1", ParseError, ""),
    ],
)
def test_errors_change_nothing(
    db: Database, sql: str, kind: type[ViewletError], message: str
) -> None:
    db.execute(SCHEMA)
    db.execute(JOINED)
    db.insert("r", (1, 10))
    with pytest.raises(kind) as caught:
        db.execute(sql)
    assert message in str(caught.value)
    db.insert("s", (10, 2, None))
    assert db.view("v").rows() == [(1, Decimal("2.00"))]
    with pytest.raises(ResolutionError):
        db.view("w")


def test_views_that_follow_each_other_are_made_together_or_not_at_all(db: Database) -> None:
    db.execute("CREATE TABLE t (a INT)")
    with pytest.raises(ResolutionError):
        db.execute("CREATE VIEW one AS SELECT a FROM t; CREATE VIEW two AS SELECT b FROM t")
    with pytest.raises(ResolutionError, match="no view one"):
        db.view("one")


def test_if_exists_and_or_replace(db: Database) -> None:
    db.execute("DROP VIEW IF EXISTS v; DROP TABLE IF EXISTS t")
    db.execute("CREATE TABLE t (a INT); CREATE TABLE IF NOT EXISTS t (a INT, b INT)")
    db.insert("t", [(1,), (2,)])
    db.execute("CREATE VIEW v AS SELECT a FROM t")
    db.execute("CREATE OR REPLACE VIEW v AS SELECT SUM(a) AS s FROM t")
    assert db.view("v").rows() == [(3,)]


def test_items_across_a_change_are_of_one_version(db: Database) -> None:
    db.execute("CREATE TABLE t (a INT, b INT)")
    db.execute("CREATE VIEW v AS SELECT a, SUM(b) AS s FROM t GROUP BY a")
    db.insert("t", [(i, i) for i in range(5)])
    view = db.view("v")
    items = []
    for key, row in view.items():
        items.append((key, row.s))
        if key == 1:
            db.delete("t", [(i, i) for i in range(5)])
    assert sorted(items) == [(i, i) for i in range(5)]
    assert list(view.items()) == list(view.values()) == list(view.keys()) == []


def test_unknown_engine() -> None:
    with pytest.raises(ResolutionError, match="there is no engine turbo"):
        viewlet.connect(engine="turbo")


# --- explain, stats, checkpoint, threads ----------------------------------------------------------


def test_explain(db: Database) -> None:
    db.execute(SCHEMA)
    db.execute(JOINED)
    assert db.explain("v", "sql").startswith("CREATE MATERIALIZED VIEW v AS")
    assert "view v[" in db.explain("v", "calculus")
    assert "on s:" in db.explain("v")
    with pytest.raises(ResolutionError, match="no stage nope"):
        db.explain("v", "nope")


def test_kernels_belong_to_the_native_engine() -> None:
    with viewlet.connect("interpreter") as db:
        db.execute(SCHEMA + JOINED)
        with pytest.raises(UnsupportedError, match="no stage kernels"):
            db.explain("v", "kernels")
    with viewlet.connect("local") as db:
        db.execute(SCHEMA + JOINED)
        assert "def on_s(" in db.explain("v", "kernels")


def test_explain_shows_only_what_the_view_needs(db: Database) -> None:
    db.execute(SCHEMA)
    db.execute(JOINED)
    db.execute("CREATE TABLE other (z INT); CREATE VIEW w AS SELECT COUNT(*) AS n FROM other")
    assert "on other:" not in db.explain("v")
    assert "on other:" in db.explain("w")


def test_stats(db: Database) -> None:
    db.execute(SCHEMA)
    db.execute(JOINED)
    assert db.stats("v").refreshes == 0
    db.insert("r", [(1, 10), (2, 20)])
    db.insert("s", [(10, 1, None), (20, 2, None), (30, 3, None)])
    stats = db.stats("v")
    assert (stats.rows, stats.refreshes) == (2, 2)
    assert 0 < stats.p50_ms <= stats.p99_ms
    assert stats.rows_per_s > 0
    assert stats.bytes == sum(size.bytes for size in stats.maps.values()) > 0


def test_checkpoint_and_restore(db: Database, tmp_path: Path) -> None:
    db.execute(SCHEMA)
    db.execute("CREATE TABLE f (x DOUBLE)")
    db.execute(JOINED)
    db.execute("CREATE VIEW doubles AS SELECT SUM(x) AS s FROM f")
    db.insert("r", [(1, 10), (2, None)])
    db.insert("s", (10, "1.25", DAY))
    db.insert("f", [(0.1,), (0.2,)])
    db.execute(JOINED.replace("VIEW v", "VIEW later"))
    db.insert("s", (10, "1.00", DAY))
    with pytest.raises(StateError, match="no directory"):
        db.checkpoint()
    db.checkpoint(str(tmp_path / "saved"))
    db.insert("s", (10, "100", DAY))
    db.checkpoint(str(tmp_path / "other"))
    with viewlet.restore(str(tmp_path / "saved")) as twin:
        assert twin.view("v").rows() == [(1, Decimal("2.25"))]
        assert twin.view("later").rows() == [(1, Decimal("1.00"))]
        assert twin.view("doubles")[()].s == pytest.approx(0.3)
        twin.insert("s", (10, "1.00", DAY))
        twin.delete("r", (2, None))
        twin.delete("f", [(0.2,), (0.1,)])
        assert twin.view("v").rows() == [(1, Decimal("3.25"))]
        assert twin.view("later").rows() == [(1, Decimal("2.00"))]
        twin.checkpoint()
    with viewlet.restore(str(tmp_path / "saved")) as third:
        assert third.view("v").rows() == [(1, Decimal("3.25"))]
        assert third.query("SELECT COUNT(*) AS n FROM r").to_pylist() == [{"n": 1}]
    assert len(list((tmp_path / "saved").glob("checkpoint-*"))) == 1
    with pytest.raises(StateError, match="no checkpoint in"):
        viewlet.restore(str(tmp_path / "nowhere"))


def test_a_reader_never_sees_half_a_batch(db: Database) -> None:
    db.execute(
        """
        CREATE TABLE a (x INT); CREATE TABLE b (x INT);
        CREATE VIEW both AS SELECT SUM(x) AS s FROM
          (SELECT x FROM a UNION ALL SELECT -x AS x FROM b) AS u
        """
    )
    db.apply([viewlet.Change("a", (1,)), viewlet.Change("b", (1,))])
    sums: set[Any] = set()
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            sums.add(db.view("both")[()].s)
            result = db.query("SELECT (SELECT SUM(x) FROM a) - (SELECT SUM(x) FROM b) AS s")
            sums.add(result["s"][0].as_py())

    reader = threading.Thread(target=read)
    reader.start()
    for value in range(50):
        db.apply([viewlet.Change("a", (value,)), viewlet.Change("b", (value,))])
    stop.set()
    reader.join()
    assert sums == {0}


def test_a_closed_database_says_so(db: Database) -> None:
    db.execute("CREATE TABLE t (a INT); CREATE VIEW n AS SELECT COUNT(*) AS n FROM t")
    subscription = db.subscribe("n", print)
    assert repr(db).endswith(": t, n>")
    view = db.view("n")
    db.close()
    db.close()
    subscription.close()
    for use in (
        lambda: db.insert("t", (1,)),
        lambda: db.insert("t", [(1,)]),
        lambda: db.query("SELECT 1"),
        lambda: db.execute("DROP VIEW n"),
        lambda: view.rows(),
        lambda: db.view("n"),
        lambda: db.checkpoint("x"),
    ):
        with pytest.raises(ViewletError, match="the database is closed"):
            use()


def test_what_is_no_change_and_no_callback(db: Database) -> None:
    db.execute("CREATE TABLE t (a INT); CREATE VIEW n AS SELECT COUNT(*) AS n FROM t")
    with pytest.raises(ViewletError, match=r"is not a change\nhint: give viewlet\.Change"):
        db.apply([("t", [(1,)])])  # type: ignore[list-item]
    with pytest.raises(ViewletError, match="3 cannot be called"):
        db.subscribe("n", 3)  # type: ignore[arg-type]
    with pytest.raises(ViewletError, match=r"x.*not found.*\nhint: did you mean n"):
        db.query("SELECT nn FROM n".replace("nn", "x"))


def test_a_checkpoint_that_cannot_be_written(db: Database, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        ViewletError, match=r"the checkpoint cannot be written to .*Not a directory"
    ):
        db.checkpoint(str(tmp_path / "file" / "x"))


def test_rows_are_pickled_and_copied(db: Database) -> None:
    db.execute(SCHEMA)
    db.execute(JOINED)
    db.insert("r", (1, 10))
    db.insert("s", (10, "1.50", DAY))
    rows = db.view("v").rows()
    for again in (pickle.loads(pickle.dumps(rows)), copy.deepcopy(rows)):
        assert again == rows
        assert again[0].total == Decimal("1.50")
        assert type(again[0]) is type(rows[0])
