"""Rows one by one: `inserter` and the short way of `insert` do what a batch of one row does."""

import datetime as dt
import math
import random
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import viewlet
from viewlet.errors import DataError, ResolutionError, StateError, ViewletError
from viewlet.interfaces.database import Database

SCHEMA = """
CREATE {kind} t (
  a INT NOT NULL, b VARCHAR, c DOUBLE, d DECIMAL(8,2), e DATE, f TIMESTAMP, g BOOLEAN, h VARCHAR
);
CREATE VIEW v AS
SELECT b, h, e, g, f, c, SUM(a) AS a, SUM(c) AS cs, SUM(d) AS d, COUNT(*) AS n
FROM t GROUP BY b, h, e, g, f, c;
"""


def _value(choose: random.Random, usual: list[Any], odd: list[Any]) -> Any:
    return choose.choice(odd if choose.random() < 0.08 else usual)


def _row(choose: random.Random) -> tuple[Any, ...]:
    day = dt.date(2024, 1, choose.randint(1, 3))
    moment = dt.datetime(2024, 1, 1, choose.randint(0, 2))
    return (
        _value(choose, [1, 2, -3], [None, 2**31, 1.0, "1", True, np.int32(4)]),
        _value(choose, ["x", "y", "é"], [None, "\ud800", 5, math.nan, b"x", ("x",)]),
        _value(choose, [0.5, 1.5, -0.0], [None, math.nan, math.inf, 3, "1.5", Decimal("0.5")]),
        _value(choose, [Decimal("1.25"), 2, 0.5], [None, "3.75", Decimal("NaN"), 10**9, 0.125]),
        _value(choose, [day], [None, "2024-01-02", moment, 5]),
        _value(choose, [moment], [None, day, "2024-01-01T00:00:01", 7]),
        _value(choose, [True, False], [None, 1, "true", np.bool_(True)]),
        _value(choose, ["x", "long enough to be no short string"], [None, "", []]),
    )


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
@pytest.mark.parametrize("engine", ["local", "interpreter"])
def test_single_rows_are_as_batches_of_one(kind: str, engine: str) -> None:
    """The same views, the same refusals, whatever the values are."""
    choose = random.Random(7)
    rows = [_row(choose) for _ in range(400)]
    databases = [viewlet.connect(engine) for _ in range(3)]
    for db in databases:
        db.execute(SCHEMA.format(kind=kind))
    one_by_one, batches, prepared = databases
    put = prepared.inserter("t")
    refused = 0
    for row in rows:
        results = []
        for insert in (
            lambda row: one_by_one.insert("t", row) and None,
            lambda row: batches.insert("t", [row]) and None,
            lambda row: put(*row),
        ):
            try:
                results.append(insert(row))
            except ViewletError as error:
                results.append(str(error))
        assert len(set(results)) == 1, (row, results)
        refused += results[0] is not None
    assert 20 < refused < 380
    contents = [sorted(map(repr, db.view("v").rows())) for db in databases]
    assert contents[0] == contents[1] == contents[2]
    if kind == "TABLE":
        tables = [sorted(map(repr, db.query("SELECT * FROM t").to_pylist())) for db in databases]
        assert tables[0] == tables[1] == tables[2]
    for db in databases:
        db.close()


def test_an_inserter_follows_the_definitions() -> None:
    with viewlet.connect() as db:
        db.execute("CREATE TABLE t (a INT NOT NULL, b VARCHAR, PRIMARY KEY (a))")
        put = db.inserter("t")
        put(1, "x")
        db.insert("t", [(100, "w")])  # a batch without any doubt, after which a row is looked at
        with pytest.raises(DataError, match=r"duplicate primary key \(a=1\)"):
            put(1, "y")
        with pytest.raises(DataError, match="is not there"):
            db.delete("t", (1, "y"))
        db.delete("t", (100, "w"))
        db.execute("CREATE VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b")
        put(2, "x")
        assert db.view("v")["x"].n == 2
        with pytest.raises(DataError, match=r"duplicate primary key \(a=2\)"):
            put(2, "y")
        put(3, None)
        put(4, "y")
        assert {row.b: row.n for row in db.view("v").rows()} == {"x": 2, None: 1, "y": 1}
        with pytest.raises(DataError, match="row 1 for t has 1 values"):
            put(5)
        db.execute("DROP VIEW v; CREATE VIEW w AS SELECT SUM(a) AS total FROM t")
        put(10, "z")
        assert db.view("w")[()].total == 20
        changes: list[Any] = []
        db.subscribe("w", changes.append)
        put(11, "z")
        assert [row.total for row in changes[0].inserted] == [31]
    with pytest.raises(StateError, match="closed"):
        put(12, "z")


def test_there_is_no_inserter_of_nothing(db: Database) -> None:
    with pytest.raises(ResolutionError, match="nothing"):
        db.inserter("nothing")


def test_stats_count_from_the_call_to_the_return() -> None:
    """Converting rows is a part of it, and machine code is apart."""

    def slowly() -> Iterator[tuple[int]]:
        time.sleep(0.05)
        yield (1,)

    with viewlet.connect() as db:
        db.execute("CREATE STREAM t (a INT); CREATE VIEW v AS SELECT SUM(a) AS s FROM t")
        db.insert("t", slowly())
        stats = db.stats("v")
        assert stats.p50_ms >= 50
        assert stats.rows_per_s <= 20
        assert stats.code_s > 0
        before = stats.code_s
        db.insert("t", slowly())
        assert db.stats("v").code_s == before
