"""Sessions, temporal joins and patterns of dates: what is refused, and with what hint."""

from __future__ import annotations

import pytest

import viewlet
from viewlet.errors import ViewletError

TABLES = "CREATE TABLE r (k INT, ts TIMESTAMP, s VARCHAR); CREATE TABLE t (k INT)"
GAP = "INTERVAL '10' SECOND"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (f"SELECT COUNT(*) FROM r GROUP BY SESSION(k + 1, {GAP})", "SESSION needs a column"),
        (f"SELECT COUNT(*) FROM r GROUP BY k + 1, SESSION(ts, {GAP})", "beside k \\+ 1"),
        (f"SELECT COUNT(*) FROM r, t GROUP BY SESSION(ts, {GAP})", "one table in FROM"),
        ("SELECT COUNT(*) FROM r GROUP BY SESSION(ts)", "one SESSION\\(column, gap\\)"),
        ("SELECT COUNT(*) FROM r GROUP BY SESSION(ts, 5)", "needs an INTERVAL"),
        (
            f"SELECT SESSION_END(ts, INTERVAL '1' DAY) FROM r GROUP BY SESSION(ts, {GAP})",
            "not of the SESSION in GROUP BY",
        ),
        ("SELECT r.k FROM r JOIN t FOR SYSTEM_TIME AS OF PROCTIME() ON r.k = t.k", "t as of arr"),
        ("SELECT DATE_FORMAT(ts, 'yyyy-QQ') FROM r", "Q in 'yyyy-QQ' is no part of a moment"),
        ("SELECT TO_CHAR(ts, s) FROM r", "needs a constant pattern"),
        ("SELECT STRFTIME(ts, '%Y %q') FROM r", "%q in STRFTIME is not supported"),
        ("SELECT STRFTIME(ts, '%') FROM r", "% in STRFTIME is not supported"),
        ("SELECT DATE_FORMAT(ts) FROM r", "takes 2 arguments"),
        ("SELECT SPLIT_INDEX(s, '/') FROM r", "takes 3 arguments"),
    ],
)
def test_refused(query: str, message: str) -> None:
    with viewlet.connect("interpreter") as db:
        db.execute(TABLES)
        with pytest.raises(ViewletError, match=message) as caught:
            db.execute(f"CREATE VIEW v AS {query}")
        assert caught.value.position is not None
        assert db.views == ()


def test_words_in_quotes_and_percent_signs() -> None:
    with viewlet.connect("interpreter") as db:
        db.execute(TABLES)
        db.execute(
            "CREATE VIEW v AS SELECT DATE_FORMAT(ts, 'yyyy''T''HH%') AS a,"
            " STRFTIME(ts, '%%%%Y%Y') AS b FROM r"
        )
        db.insert("r", (1, "2026-01-31 07:08:09", None))
        assert [tuple(row) for row in db.view("v").rows()] == [("2026T07%", "%%Y2026")]


def test_early_years_have_four_digits() -> None:
    columns = (
        "STRFTIME(ts, '%Y-%m-%d') AS a, DATE_FORMAT(ts, 'yyyyMMdd') AS b, TO_CHAR(ts, 'YYYY') AS c"
    )
    with viewlet.connect("interpreter") as db:
        db.execute(TABLES)
        db.execute(f"CREATE VIEW v AS SELECT {columns} FROM r")
        db.insert("r", [(1, "0001-01-01", None), (1, "0999-12-31", None)])
        expected = [("0001-01-01", "00010101", "0001"), ("0999-12-31", "09991231", "0999")]
        assert sorted(map(tuple, db.view("v").rows())) == expected
        queried = db.query(f"SELECT {columns} FROM r ORDER BY 1").to_pylist()
        assert [tuple(row.values()) for row in queried] == expected


def test_queries_refuse_the_patterns_that_views_refuse() -> None:
    with viewlet.connect("interpreter") as db:
        db.execute(TABLES)
        db.insert("r", (1, "2026-01-31", None))
        for call in ("TO_CHAR(ts, 'yyyy-mm')", "DATE_FORMAT(ts, 'yyyy Q')"):
            with pytest.raises(ViewletError, match="is no part of a moment"):
                db.query(f"SELECT {call} FROM r")
