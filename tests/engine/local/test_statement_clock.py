"""Statements are timed one by one in some batches, which do what they did before."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import viewlet
from viewlet.engine.contract import StatementTimes
from viewlet.engine.local.statement_clock import EVERY, FIRST
from viewlet.interfaces.database import Database

SQL = """
CREATE TABLE r (id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL);
CREATE TABLE s (b INT NOT NULL, name VARCHAR);
CREATE VIEW joined AS
SELECT r.a, s.name, COUNT(*) AS n FROM r JOIN s ON r.b = s.b GROUP BY r.a, s.name;
CREATE VIEW greatest AS SELECT b, MAX(a) AS a FROM r GROUP BY b;
CREATE TABLE p (k INT NOT NULL);
CREATE VIEW pairs AS SELECT COUNT(*) AS n FROM p x, p y WHERE x.k < y.k
"""
QUERIES = {
    "joined": "SELECT r.a, s.name, COUNT(*) AS n FROM r JOIN s ON r.b = s.b GROUP BY r.a, s.name",
    "greatest": "SELECT b, MAX(a) AS a FROM r GROUP BY b",
    "pairs": "SELECT COUNT(*) AS n FROM p x, p y WHERE x.k < y.k",
}


def engine_of(db: Database) -> StatementTimes:
    engine = db._state.engine
    assert isinstance(engine, StatementTimes)
    return engine


def compare(db: Database) -> None:
    for view, query in QUERIES.items():
        expected = Counter(tuple(row.values()) for row in db.query(query).to_pylist())
        assert Counter(map(tuple, db.view(view).rows())) == expected, view


def test_batches_stay_what_they_are() -> None:
    """Maps grow within steps, batches are refused, single rows and many come, views come and go."""
    pick = random.Random(5)
    with viewlet.connect() as db:
        db.execute(SQL)
        engine_of(db).time_statements()
        number = 0
        for turn in range(3 * EVERY):
            size = 1 if turn % 3 else pick.choice((2, 50, 3000))
            rows = [(number + at, pick.randrange(90), pick.randrange(40)) for at in range(size)]
            db.insert("r", rows)
            number += size
            db.insert("s", [(pick.randrange(40), pick.choice((None, "x", f"n{turn}")))])
            db.insert("p", [(turn,), (0,)])
            with pytest.raises(viewlet.ViewletError):
                db.insert("r", [(number, 1, 1), (0, 1, 1)])
            if turn % 5 == 0:
                db.execute("DELETE FROM r WHERE id % 7 = 3")
            if turn == EVERY:
                db.execute("CREATE VIEW late AS SELECT a, SUM(b) AS b FROM r GROUP BY a")
            if turn % 8 == 0:
                compare(db)
        compare(db)
        engine = engine_of(db)
        timed = engine.statement_seconds()
        assert timed.keys() == {"r", "s"}  # rows of p meet each other, so they come one by one
        for trigger in db._state.engine.program.triggers:
            if trigger.relation == "p":
                continue
            seconds = timed[trigger.relation]
            assert len(seconds) == len(trigger.statements), trigger.relation
            assert all(part > 0 for part in seconds), trigger.relation


def test_the_dear_statement_is_found() -> None:
    with viewlet.connect() as db:
        db.execute(
            "CREATE TABLE r (a INT NOT NULL, b INT NOT NULL); CREATE TABLE s (b INT NOT NULL)"
        )
        db.execute(
            "CREATE VIEW fan AS SELECT r.a, COUNT(*) AS n FROM r JOIN s ON r.b = s.b GROUP BY r.a"
        )
        db.insert("r", [(at, at % 3) for at in range(30_000)])
        engine = engine_of(db)
        engine.time_statements()
        for _ in range(FIRST):
            db.insert("s", [(1,)])
        trigger = db._state.engine.program.trigger("s")
        assert trigger is not None
        seconds = engine.statement_seconds()["s"]
        assert max(seconds) > 0.8 * sum(seconds)
        dear = trigger.statements[seconds.index(max(seconds))]
        assert dear.target == db._state.engine.program.views[0].name


def test_who_does_not_ask_is_not_timed() -> None:
    with viewlet.connect() as db:
        db.execute(SQL)
        db.insert("s", [(1, "x")])
        assert engine_of(db).statement_seconds() == {}
