"""Statements that once had a wrong answer or none, as they were written then."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import viewlet
from viewlet.errors import RangeError
from viewlet.interfaces.database import Database


@pytest.fixture(params=["local", "interpreter"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    with viewlet.connect(request.param) as database:
        yield database


def test_joins_of_derived_tables_in_parentheses(db: Database) -> None:
    db.execute("CREATE TABLE l (a INT, b INT); CREATE TABLE r (a INT, c INT)")
    db.execute(
        "CREATE VIEW v AS SELECT COUNT(*) AS n FROM "
        "((SELECT a FROM l) x JOIN (SELECT c FROM r) y ON x.a > y.c)"
    )
    db.insert("l", (1, 2))
    db.insert("r", (1, 3))
    assert db.view("v").rows() == [(0,)]
    db.insert("l", (4, 2))
    assert db.view("v").rows() == [(1,)]


def test_five_full_joins(db: Database) -> None:
    db.execute("CREATE TABLE t (v INT)")
    joins = " ".join(f"FULL OUTER JOIN t t{i} USING (v)" for i in range(1, 6))
    db.execute(f"CREATE VIEW w AS SELECT v, COUNT(*) AS n FROM t {joins} GROUP BY v")
    db.insert("t", [(1,), (1,), (2,), (None,)])
    assert sorted(db.view("w").rows(), key=str) == [(1, 64), (2, 1), (None, 6)]


def test_a_bare_null_is_a_column(db: Database) -> None:
    db.execute("CREATE TABLE t (a INT, s VARCHAR)")
    db.execute("CREATE VIEW v AS SELECT NULL AS x FROM t")
    nulls = "CASE WHEN a > 1 THEN NULL END AS x, CAST(NULL AS VARCHAR) AS y"
    db.execute(f"CREATE VIEW w AS SELECT {nulls} FROM t")
    db.insert("t", [(1, "x"), (2, None)])
    assert db.view("v").to_arrow().to_pylist() == [{"x": None}] * 2
    assert db.view("w").to_arrow().to_pylist() == [{"x": None, "y": None}] * 2
    assert db.view("v").rows() == [(None,)] * 2
    assert db.query("SELECT x FROM v").num_rows == 2


def test_the_least_bigint_has_no_absolute_value(db: Database) -> None:
    db.execute("CREATE TABLE t (a BIGINT); CREATE VIEW v AS SELECT ABS(a) AS b FROM t")
    db.insert("t", (-(2**63) + 1,))
    with pytest.raises(RangeError, match="64-bit"):
        db.insert("t", (-(2**63),))
    assert db.view("v").rows() == [(2**63 - 1,)]


def test_what_a_sum_takes_it_gives_back() -> None:
    with viewlet.connect() as db:
        db.execute("CREATE TABLE t (a INT, b BIGINT)")
        db.execute("CREATE VIEW v AS SELECT a, SUM(b) AS total FROM t GROUP BY a")
        with pytest.raises(RangeError, match="64-bit"):
            db.insert("t", (1, -(2**63)))  # its negative is no BIGINT: it could not be deleted
        db.insert("t", [(1, -(2**63) + 1), (2, 2**63 - 1)])
        db.delete("t", [(1, -(2**63) + 1), (2, 2**63 - 1)])
        assert db.view("v").rows() == []
