"""DOUBLE on every engine: what is not finite comes and goes, sums are exact, spreads right."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.errors import RangeError
from viewlet.interfaces.database import Database

inf, nan = math.inf, math.nan

Rows = list[tuple[Any, ...]]


@pytest.fixture(params=["interpreter", "local"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    with viewlet.connect(engine=request.param) as database:
        yield database


def rows(db: Database, view: str) -> Rows:
    return sorted((tuple(row) for row in db.view(view).rows()), key=repr)


def only(db: Database, view: str) -> tuple[Any, ...]:
    (row,) = rows(db, view)
    return row


def same(left: Any, right: Any) -> bool:
    return repr(left) == repr(right)


SUMS = """
CREATE TABLE r (k INTEGER PRIMARY KEY, x DOUBLE NOT NULL);
CREATE VIEW s AS SELECT SUM(x) AS s, SUM(-x) AS m, SUM(x * 0) AS z, SUM(x - x) AS d, AVG(x) AS a,
  MIN(x) AS lo, MAX(x) AS hi FROM r;
"""


@pytest.mark.parametrize("together", [True, False], ids=["one batch", "row by row"])
def test_infinities_and_nans_leave_with_their_rows(db: Database, together: bool) -> None:
    db.execute(SUMS)
    wild = [(1, 1.0), (2, 2.5), (3, inf), (4, nan), (5, -inf), (6, 1e308), (7, 1e308)]
    for batch in [wild] if together else [[row] for row in wild]:
        db.insert("r", batch)
    assert same(only(db, "s"), (nan, nan, nan, nan, nan, -inf, nan))
    db.execute("DELETE FROM r WHERE k = 4")
    assert same(only(db, "s"), (nan, nan, nan, nan, nan, -inf, inf))
    db.execute("DELETE FROM r WHERE k = 5")
    assert same(only(db, "s"), (inf, -inf, nan, nan, inf, 1.0, inf))
    db.execute("DELETE FROM r WHERE k = 3")
    assert same(only(db, "s"), (inf, -inf, 0.0, 0.0, inf, 1.0, 1e308))
    db.execute("DELETE FROM r WHERE k >= 6")
    assert only(db, "s") == (3.5, -3.5, 0.0, 0.0, 1.75, 1.0, 2.5)


def test_small_values_outlive_large_ones(db: Database) -> None:
    db.execute(SUMS)
    db.insert("r", [(1, 2.5), (2, 1e17), (3, 1e300)])
    assert only(db, "s")[0] == 1e300
    db.execute("DELETE FROM r WHERE k = 3")
    assert only(db, "s")[0] == 1e17
    db.execute("DELETE FROM r WHERE k = 2")
    assert only(db, "s")[0] == 2.5


def test_a_refused_batch_leaves_nothing(db: Database) -> None:
    db.execute(SUMS)
    db.insert("r", [(1, 0.1)])

    def refuse(_: object) -> None:
        raise RuntimeError("no")

    refusing = db.subscribe("s", refuse)
    with pytest.raises(viewlet.ViewletError):
        db.insert("r", [(2, inf), (3, nan), (4, 1e300)])
    refusing.close()
    assert only(db, "s")[0] == 0.1


@pytest.mark.parametrize("engine", ["interpreter", "local"])
def test_sums_survive_a_restart(engine: str, tmp_path: Path) -> None:
    with viewlet.connect(engine=engine) as db:
        db.execute(SUMS)
        db.insert("r", [(1, 2.5), (2, 1e300), (3, inf), (4, nan), (5, 1e308), (6, 1e308)])
        db.checkpoint(str(tmp_path / "saved"))
    with viewlet.restore(str(tmp_path / "saved"), engine=engine) as again:
        again.execute("DELETE FROM r WHERE k > 1")
        assert only(again, "s")[0] == 2.5


ORDER = """
CREATE TABLE r (k INTEGER PRIMARY KEY, x DOUBLE NOT NULL);
CREATE TABLE s (k INTEGER PRIMARY KEY, y DOUBLE NOT NULL);
CREATE VIEW equal AS SELECT r.k, s.k AS other FROM r JOIN s ON r.x = s.y;
CREATE VIEW less AS SELECT r.k, s.k AS other FROM r JOIN s ON r.x < s.y;
CREATE VIEW within AS SELECT COUNT(*) AS n FROM r JOIN s ON r.x BETWEEN s.y AND s.y + 1;
CREATE VIEW apart AS SELECT COUNT(*) AS n FROM r JOIN s ON r.x - s.y > 1;
CREATE VIEW far AS SELECT COUNT(*) AS n FROM r JOIN s ON r.x - s.y > 1 OR s.y - r.x > 1;
CREATE VIEW groups AS SELECT x, COUNT(*) AS n FROM r GROUP BY x;
CREATE VIEW listed AS SELECT k FROM r WHERE x IN (1.0, CAST('NaN' AS DOUBLE));
CREATE VIEW chosen AS SELECT k, GREATEST(x, 7.0) AS g, LEAST(x, 7.0) AS l,
  CASE WHEN x > 5 THEN 1 ELSE 0 END AS c FROM r;
CREATE VIEW first AS SELECT k, x FROM r ORDER BY x DESC, k LIMIT 2;
CREATE VIEW above AS SELECT k FROM r WHERE x > (SELECT MAX(y) FROM s);
CREATE VIEW heavy AS SELECT k FROM r
  WHERE 0.5 * (SELECT SUM(x) FROM r a) > (SELECT SUM(b.x) FROM r b WHERE b.x > r.x);
"""
VIEWS = ("equal", "less", "within", "apart", "far", "groups", "listed", "chosen", "above", "heavy")


def test_nan_is_one_number_above_all() -> None:
    """The local engine says what the interpreter says, after every change."""
    answers: dict[str, list[Any]] = {}
    for engine in ("interpreter", "local"):
        with viewlet.connect(engine=engine) as db:
            db.execute(ORDER)
            db.insert("s", [(1, 2.0), (2, nan), (3, inf), (4, -inf)])
            seen = answers.setdefault(engine, [])
            for k, x in enumerate((1.0, 2.0, nan, inf, -inf, -0.0, 0.0, nan, 1e308)):
                db.insert("r", [(k, x)])
                seen.append([[list(map(repr, row)) for row in rows(db, view)] for view in VIEWS])
            db.insert("s", [(k, float(k)) for k in range(10, 40)])
            assert same([tuple(row) for row in db.view("first").rows()], [(2, nan), (7, nan)])
            for k in (7, 3, 0, 2, 5, 4):
                db.execute(f"DELETE FROM r WHERE k = {k}")
                seen.append([[list(map(repr, row)) for row in rows(db, view)] for view in VIEWS])
    for ours, theirs in zip(answers["local"], answers["interpreter"], strict=True):
        assert ours == theirs


def test_nan_is_one_number_above_all_as_duckdb_has_it(db: Database) -> None:
    db.execute(ORDER)
    db.insert("r", [(1, 1.0), (2, nan), (3, inf)])
    db.insert("s", [(1, nan), (2, 1.0)])
    assert rows(db, "equal") == [(1, 2), (2, 1)]
    assert rows(db, "less") == [(1, 1), (3, 1)]
    assert same(rows(db, "groups"), [(1.0, 1), (inf, 1), (nan, 1)])
    assert rows(db, "listed") == [(1,), (2,)]
    assert same(rows(db, "chosen"), [(1, 7.0, 1.0, 0), (2, nan, 7.0, 1), (3, inf, 7.0, 1)])


def test_a_product_over_two_tables_refuses_what_is_not_finite(db: Database) -> None:
    db.execute("""
    CREATE TABLE r (k INTEGER PRIMARY KEY, x DOUBLE NOT NULL);
    CREATE TABLE s (k INTEGER PRIMARY KEY, y DOUBLE NOT NULL);
    CREATE VIEW p AS SELECT SUM(r.x * s.y) AS p FROM r, s;
    """)
    db.insert("r", [(1, 2.0), (2, 0.5)])
    db.insert("s", [(1, 3.0)])
    for wild in (inf, -inf, nan):
        with pytest.raises(RangeError, match="product of DOUBLEs from two tables"):
            db.insert("s", [(2, wild)])
    assert only(db, "p") == (7.5,)
    db.insert("s", [(2, -1.0)])
    assert only(db, "p") == (5.0,)


@pytest.mark.parametrize("base", [0.0, 1e8, 1e9, 2.0**33])
def test_spreads_do_not_cancel(db: Database, base: float) -> None:
    db.execute("""
    CREATE TABLE r (k INTEGER PRIMARY KEY, x DOUBLE, i BIGINT, d DECIMAL(18,2));
    CREATE VIEW v AS SELECT STDDEV(x) AS x, STDDEV(i) AS i, STDDEV(d) AS d,
      VAR_POP(x) AS xp, VAR_POP(i) AS ip, VAR_POP(d) AS dp FROM r;
    """)
    whole = int(base)
    db.insert("r", [(k, base + k, whole + k, Decimal(whole + k)) for k in range(3)])
    assert only(db, "v") == pytest.approx((1.0, 1.0, 1.0, 2 / 3, 2 / 3, 2 / 3), rel=1e-12)
    db.insert("r", [(9, 1e300, None, None)])
    db.execute("DELETE FROM r WHERE k = 9")
    assert only(db, "v")[1:3] == pytest.approx((1.0, 1.0), rel=1e-12)
    db.execute("DELETE FROM r WHERE k > 0")
    assert only(db, "v") == (None, None, None, 0.0, 0.0, 0.0)


def test_spreads_beyond_the_range_are_infinite_and_not_nan_to_cancel(db: Database) -> None:
    """NaN is for values that are not finite; both leave with their rows."""
    db.execute("""
    CREATE TABLE r (x DOUBLE);
    CREATE VIEW v AS SELECT VARIANCE(x) AS v, STDDEV(x) AS s, VAR_POP(x) AS p FROM r;
    CREATE VIEW w AS SELECT COUNT(*) AS n FROM r HAVING VARIANCE(x) > 1e9;
    """)
    db.insert("r", [(1.0,), (3.0,)])
    for large in ([1e160], [1e308, 1e308], [-1e200, 1e200]):
        db.insert("r", [(x,) for x in large])
        assert only(db, "v") == (math.inf, math.inf, math.inf)
        assert only(db, "w") == (2 + len(large),)
        for wild in (math.inf, -math.inf, math.nan):
            db.insert("r", [(wild,)])
            assert all(math.isnan(value) for value in only(db, "v"))
            db.delete("r", [(wild,)])
        assert only(db, "v") == (math.inf, math.inf, math.inf)
        db.delete("r", [(x,) for x in large])
        assert only(db, "v") == pytest.approx((2.0, math.sqrt(2), 1.0))


def test_the_same_as_plain_python() -> None:
    """VIEWLET_NATIVE=0 runs kernels as Python."""
    chosen = "leave_with_their_rows or outlive or cancel or above_all or not_finite"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k"]
    environment = {**os.environ, "VIEWLET_NATIVE": "0"}
    done = subprocess.run([*command, chosen], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]


RANGES = """
CREATE TABLE r (k INTEGER PRIMARY KEY, g INTEGER NOT NULL, t DOUBLE NOT NULL, v DOUBLE NOT NULL);
CREATE VIEW pairs AS SELECT x.g, SUM(x.v - y.v) AS s FROM r x, r y
  WHERE x.g = y.g AND x.t > y.t GROUP BY x.g;
CREATE VIEW top AS SELECT SUM(x.v) AS s, COUNT(*) AS n FROM r x
  WHERE 0.25 * (SELECT SUM(y.v) FROM r y) > (SELECT SUM(z.v) FROM r z WHERE z.t > x.t);
CREATE VIEW ends AS SELECT g, MIN(v) AS lo, MAX(v) AS hi, SUM(v) AS s FROM r GROUP BY g;
"""

PLAIN = (1.0, 3.0, 0.1, 0.07, 19.99, 1e15, 2.0**-60)
ODD = (*PLAIN, -2.5, inf, -inf, nan)
HUGE = (1.0, 3.0, -2.5, inf, nan, 1e300, 1.7e308)  # the digits of a sum lie within its three words


@pytest.mark.parametrize("values", [PLAIN, ODD, HUGE], ids=["finite", "odd", "huge"])
@pytest.mark.parametrize("seed", range(2))
def test_sums_over_ranges_are_those_of_the_interpreter(
    values: tuple[float, ...], seed: int
) -> None:
    rng = random.Random(seed)
    with viewlet.connect(engine="local") as local, viewlet.connect(engine="interpreter") as plain:
        for database in (local, plain):
            database.execute(RANGES)
        keys: list[int] = []
        for step in range(60):
            new = [
                (step * 4 + i, rng.randrange(2), float(rng.randrange(25)), rng.choice(values))
                for i in range(rng.randrange(1, 4))
            ]
            gone = {key for key in keys if rng.random() < (0.7 if step % 20 == 19 else 0.05)}
            keys = [key for key in keys if key not in gone] + [row[0] for row in new]
            for database in (local, plain):
                database.insert("r", new)
                if gone:
                    database.execute(f"DELETE FROM r WHERE k IN ({str(sorted(gone))[1:-1]})")
            for view in ("pairs", "top", "ends"):
                assert same(rows(local, view), rows(plain, view)), (step, view)


def test_a_factor_of_one_changes_nothing(db: Database) -> None:
    db.execute("""
        CREATE TABLE r (k INTEGER PRIMARY KEY, g INTEGER NOT NULL, v DOUBLE NOT NULL);
        CREATE VIEW p AS SELECT x.g, SUM(x.v * y.v * 0.5) AS s FROM r x, r y
          WHERE x.g = y.g GROUP BY x.g;
    """)
    db.insert("r", [(1, 1, 0.1), (2, 1, 3.0)])
    db.insert("r", [(3, 1, -0.7), (4, 2, 2.0**100)])
    before = rows(db, "p")
    assert before[0] == (1, pytest.approx((0.1 + 3.0 - 0.7) ** 2 / 2, rel=1e-15))
    with pytest.raises(RangeError):
        db.insert("r", [(5, 1, inf)])
    assert rows(db, "p") == before
    db.execute("DELETE FROM r WHERE g = 1")
    assert rows(db, "p") == [(2, 2.0**199)]


@pytest.mark.parametrize("engine", ["local", "interpreter"])
@pytest.mark.parametrize("scale", [1.0, 1e9, 2.0**60])
def test_pairs_of_different_magnitude_do_not_cancel(engine: str, scale: float) -> None:
    with viewlet.connect(engine=engine) as db:
        db.execute("CREATE TABLE r (x DOUBLE, y DOUBLE)")
        db.execute("CREATE VIEW v AS SELECT CORR(x, y) AS c, COVAR_POP(x, y) AS p FROM r")
        large = (1e300, 1e-3)
        rows = [(k * scale, y / scale) for k, y in ((1, 1), (2, 2), (3, 3), (4, 3))]
        db.insert("r", [*rows, large])
        db.delete("r", large)
        (row,) = db.view("v").rows()
        assert row.c == pytest.approx(0.9438798074485389, rel=1e-14)
        assert row.p == pytest.approx(0.875, rel=1e-14)
