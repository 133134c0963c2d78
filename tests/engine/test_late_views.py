"""Views that come and go while rows change: on every engine, DuckDB says what they hold."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest

import viewlet
from viewlet.interfaces.database import Database
from viewlet.interfaces.dml import Change

Rows = list[tuple[object, ...]]

TABLES = """
CREATE TABLE t (a INT NOT NULL, b INT, c DECIMAL(9, 2), x DOUBLE, s VARCHAR);
CREATE TABLE u (b INT NOT NULL PRIMARY KEY, name VARCHAR);
CREATE TABLE kinds (s VARCHAR NOT NULL, kind INT NOT NULL) WITH (static = true);
CREATE STREAM e (k INT, s VARCHAR);
CREATE VIEW events AS SELECT k, COUNT(*) AS n FROM e GROUP BY k;
CREATE VIEW met AS SELECT s, COUNT(*) AS n FROM e JOIN u ON e.k = u.b GROUP BY s
"""

VIEWS = {
    "joined": "SELECT name, SUM(c) AS c, COUNT(s) AS n FROM t, u WHERE t.b = u.b GROUP BY name",
    "ends": "SELECT b, MIN(a) AS low, MAX(s) AS high FROM t GROUP BY b",
    "outer_": "SELECT u.name, t.a FROM u LEFT JOIN t ON t.b = u.b AND t.a < 40",
    "nested": "SELECT COUNT(*) AS n FROM t WHERE c > (SELECT AVG(y.c) FROM t y WHERE y.b = t.b)",
    "different": "SELECT DISTINCT s, b FROM t WHERE s IS NOT NULL",
    "sums": "SELECT b, SUM(x) AS x, COUNT(*) AS n FROM t GROUP BY b",
    "sorts": "SELECT kind, COUNT(*) AS n FROM t JOIN kinds ON t.s = kinds.s GROUP BY kind",
}


class Scene:
    """A database beside what was written to it."""

    def __init__(self, db: Database, seed: int) -> None:
        self.db = db
        self.rng = random.Random(seed)
        self.kept: Rows = []
        self.events: Rows = []
        self.shown: set[str] = set()
        self.since: dict[str, int] = {}
        db.execute(TABLES)
        db.insert("u", [(b, f"n{b % 4}") for b in range(9)])
        db.insert("kinds", [(f"t{i}", i % 3) for i in range(20)])

    def change(self) -> None:
        rng = self.rng
        new: Rows = [
            (
                rng.randrange(100),
                rng.choice([None, *range(6)]),
                rng.choice([None, Decimal(rng.randrange(1000)) / 4]),
                rng.choice([None, 0.5, 2.0**40, -(2.0**40), *(float(i) for i in range(9))]),
                rng.choice([None, "", "x", f"t{rng.randrange(30)}"]),
            )
            for _ in range(60)
        ]
        gone = [self.kept.pop(rng.randrange(len(self.kept))) for _ in range(len(self.kept) // 3)]
        came: Rows = [(1, "p"), (rng.randrange(9), rng.choice([None, "q", "r"]))]
        self.kept += new
        self.events += came
        self.db.apply([Change("t", new), Change("t", gone, -1), Change("e", came)])

    def create(self, name: str, text: str) -> None:
        self.db.execute(f"CREATE VIEW {name} AS {text}")
        self.shown.add(name)

    def create_on_stream(self, name: str) -> None:
        """A view over the stream and a table sees what comes after it."""
        self.db.execute(
            f"CREATE VIEW {name} AS SELECT u.name, COUNT(e.k) AS n FROM u LEFT JOIN e "
            "ON e.k = u.b GROUP BY u.name"
        )
        self.since[name] = len(self.events)

    def drop(self, name: str) -> None:
        self.db.execute(f"DROP VIEW {name}")
        self.shown.discard(name)
        self.since.pop(name, None)

    def check(self) -> None:
        for name in sorted(self.shown):
            expected = self.db.query(VIEWS[name]).to_pylist()
            assert _sorted(_rows(self.db, name)) == _sorted(expected), name
        for name, start in self.since.items():
            counts = dict.fromkeys((f"n{n}" for n in range(4)), 0)
            for k, _ in self.events[start:]:
                counts[f"n{k % 4}"] += 1
            assert {row["name"]: row["n"] for row in _rows(self.db, name)} == counts, name
        assert sum(row["n"] for row in _rows(self.db, "events")) == len(self.events)
        assert sum(row["n"] for row in _rows(self.db, "met")) == len(self.events)


def _rows(db: Database, view: str) -> list[dict[str, Any]]:
    return db.view(view).to_arrow().to_pylist()


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr({k: 0.0 if v == 0 else v for k, v in row.items()}) for row in rows)


@contextmanager
def connected(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Database]:
    """A database on an engine, "local, triggers" and the like."""
    engine, _, how = kind.partition(", ")
    if engine == "local":
        few = 0 if how == "triggers" else 1_000_000
        monkeypatch.setattr("viewlet.engine.local.local_fill._FEW_ROWS", few)
    more: dict[str, Any] = {}
    if engine == "spark":
        more = {"spark": request.getfixturevalue("spark"), "partitions": int(how[0])}
    with viewlet.connect(engine, **more) as db:
        yield db


@pytest.fixture(
    params=[
        "interpreter",
        "local, triggers",
        "local, definitions",
        pytest.param("spark, 2 partitions", marks=[pytest.mark.spark, pytest.mark.slow]),
        pytest.param("spark, 3 partitions", marks=[pytest.mark.spark, pytest.mark.slow]),
    ]
)
def database(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    with connected(request.param, request, monkeypatch) as db:
        yield db


def test_views_that_come_and_go(database: Database) -> None:
    """Maps move from program to program, and what is new is filled from the tables' rows."""
    scene = Scene(database, 5)
    for number, (name, text) in enumerate(VIEWS.items()):
        scene.change()
        scene.create(name, text)
        scene.check()
        if number in (1, 4):
            scene.create_on_stream(f"late{number}")
            scene.check()
        scene.change()
        scene.check()
    for name in ("joined", "nested", "late1", "ends"):
        scene.drop(name)
        scene.check()
        scene.change()
        scene.check()
    scene.create("ends", VIEWS["ends"])
    scene.check()


@pytest.mark.spark
def test_some_views_on_spark(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with three views, for every day."""
    with connected("spark, 2 partitions", request, monkeypatch) as db:
        scene = Scene(db, 6)
        for name in ("joined", "sorts"):
            scene.change()
            scene.create(name, VIEWS[name])
        scene.create_on_stream("late")
        scene.check()
        scene.change()
        scene.drop("joined")
        scene.change()
        scene.check()
