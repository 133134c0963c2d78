"""`v[k]`: keys are what GROUP BY names, also where a declared key determines what else is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

import viewlet
from viewlet.calculus.query_text import parse_query, query_text
from viewlet.interfaces.database import Database

VIEWS = {
    "SELECT k, SUM(a) AS t FROM p GROUP BY k": "",
    "SELECT k, s, SUM(a) AS t FROM p GROUP BY k": "s",
    "SELECT k, UPPER(s) AS u, a + SUM(a) AS t FROM p GROUP BY k": "s, a",
    "SELECT k, a, MAX(a) AS t FROM p GROUP BY k": "a",
    "SELECT k, MAX(a) AS t FROM p GROUP BY k HAVING SUM(a) > 5": "",
    "SELECT s, p.k, SUM(x) AS t FROM p JOIN o ON p.k = o.k GROUP BY p.k": "s",
    "SELECT s, p.k, MAX(x) AS t FROM p JOIN o ON p.k = o.k GROUP BY p.k": "s",
    "SELECT s, o.k, p.k AS i, COUNT(*) AS n FROM p FULL JOIN o ON p.k = o.k GROUP BY p.k, o.k": "s",
    "SELECT k, (SELECT SUM(x) FROM o WHERE o.k = p.a) AS u FROM p GROUP BY k": "a",
    "SELECT k, SUM(SUM(a)) OVER () AS u FROM p GROUP BY k": "",
    "SELECT k, SUM(a) OVER () AS u FROM p GROUP BY k": "a",
    "SELECT k, s, ROW_NUMBER() OVER (ORDER BY k) AS n FROM p GROUP BY k": "s",
    "SELECT k, s, SUM(a) FILTER (WHERE s > 'a') AS t FROM p GROUP BY k HAVING s IS NOT NULL": "s",
    "SELECT k + 1 AS j, s, k, SUM(a) AS t FROM p GROUP BY k, k + 1": "s",
    "SELECT y.b AS k, y.c, COUNT(*) AS n FROM p AS y(b, k, c) GROUP BY y.b": "y.c",
    "SELECT k, s, SUM(a) AS t FROM p GROUP BY k ORDER BY t DESC LIMIT 2": "s",
}
"""Each with the columns that DuckDB, which knows nothing of keys, wants in GROUP BY as well."""


@pytest.fixture(params=["local", "interpreter"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    with viewlet.connect(request.param) as database:
        database.execute("CREATE TABLE p (k INT PRIMARY KEY, a INT, s VARCHAR)")
        database.execute("CREATE TABLE o (k INT, x INT)")
        yield database


@pytest.mark.parametrize(("text", "determined"), VIEWS.items())
def test_a_row_by_what_is_grouped_by(db: Database, text: str, determined: str) -> None:
    db.execute(f"CREATE VIEW v AS {text}")
    head, _, keys = text.partition(" GROUP BY ")
    all_keys = f"{determined}, {keys}" if determined else keys
    grouped = keys.partition(" HAVING")[0].partition(" ORDER")[0].split(", ")
    names = ["i" if name == "p.k" and "i" in db.view("v").columns else name for name in grouped]
    names = ["j" if name == "k + 1" else "k" if "." in name else name for name in names]
    positions = sorted(db.view("v").columns.index(name) for name in names)
    db.insert("p", [(1, 5, "a"), (2, 6, "b"), (3, 7, None), (4, 8, "d")])
    db.insert("o", [(1, 5), (2, 6), (5, 7), (1, 6)])
    for _ in range(2):
        rows = db.view("v").rows()
        expected = [
            tuple(row.values()) for row in db.query(f"{head} GROUP BY {all_keys}").to_pylist()
        ]
        assert Counter(map(tuple, rows)) == Counter(expected)
        for row in rows:
            values = tuple(row[position] for position in positions)
            key = values if len(values) > 1 else values[0]
            assert db.view("v")[key] == row
            assert dict(db.view("v").items())[key] == row
        assert len(db.view("v")) == len(rows) == len(list(db.view("v")))
        with pytest.raises(KeyError):
            db.view("v")[99]
        db.execute("UPDATE p SET a = a + 1, s = 'z' WHERE k < 3; DELETE FROM p WHERE k = 4")


def test_columns_only_in_aggregates_are_no_keys(db: Database) -> None:
    db.execute("CREATE VIEW v AS SELECT k, SUM(a) AS t FROM p GROUP BY k")
    db.execute("CREATE VIEW w AS SELECT k, s, SUM(a) AS t FROM p GROUP BY k")
    assert "view v[p_k] : group\n" in db.explain("v", stage="calculus")
    text = db.explain("w", stage="calculus")
    assert "view w[p_k, p_s] : group by (p_k)\n" in text
    assert db.schema("v").key == db.schema("w").key == ("k",)


def test_renamed_columns_have_the_key_that_they_stand_for(db: Database) -> None:

    with pytest.raises(viewlet.ViewletError, match="GROUP BY"):
        db.execute("CREATE VIEW w AS SELECT q.k, q.b FROM p AS q(b, k) GROUP BY q.k")


def test_the_text_of_a_query_says_its_group() -> None:
    text = "view w[p_k, p_s] : group by (p_k)\n  count := p(p_k, p_s)\n  select k : INTEGER := p_k"
    query = parse_query(text)
    assert query.group == ("p_k",)
    assert query_text(query) == text
