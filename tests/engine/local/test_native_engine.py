"""A database on the local engine."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.oracle.harness import REGRESSIONS, Case, run_with

from viewlet.engine.local.native_engine import NativeEngine
from viewlet.errors import RangeError, ViewletError
from viewlet.interfaces.database import Database
from viewlet.planner.viewlets import compile_program


def database() -> Database:
    return Database(NativeEngine(), "local", compile_program, None)


@pytest.fixture
def db() -> Database:
    found = database()
    found.execute("CREATE TABLE r (a INT NOT NULL, b BIGINT NOT NULL, s VARCHAR)")
    found.insert("r", [(1, 5, "x"), (2, 7, None)])
    found.execute("CREATE VIEW v AS SELECT a, SUM(b) AS total, COUNT(s) AS n FROM r GROUP BY a")
    return found


def rows(db: Database, view: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in db.view(view).values())


def test_views_over_existing_rows_and_later_ones(db: Database) -> None:
    assert rows(db, "v") == [(1, 5, 1), (2, 7, 0)]
    db.insert("r", [(1, -5, "y"), (3, 1, "z")])
    db.delete("r", [(2, 7, None)])
    assert rows(db, "v") == [(1, 0, 2), (3, 1, 1)]


def test_subscribers_see_what_a_batch_did(db: Database) -> None:
    seen: list[object] = []
    db.subscribe("v", seen.append)
    db.insert("r", [(1, 1, "x")])
    assert len(seen) == 1
    assert rows(db, "v") == [(1, 6, 2), (2, 7, 0)]


def test_a_failing_subscriber_undoes_the_batch(db: Database) -> None:
    def refuse(batch: object) -> None:
        raise RuntimeError("not now")

    subscription = db.subscribe("v", refuse)
    before = rows(db, "v")
    with pytest.raises(ViewletError, match="undone"):
        db.insert("r", [(1, 1, "x"), (9, 9, "new")])
    assert rows(db, "v") == before
    subscription.close()
    db.insert("r", [(9, 9, "new")])
    assert rows(db, "v") == [*before, (9, 9, 1)]


def test_overflow_changes_nothing(db: Database) -> None:
    db.insert("r", [(1, 2**62, "x")])
    before = rows(db, "v")
    with pytest.raises(RangeError):
        db.insert("r", [(1, 2**62, "x"), (2, 1, "x")])
    assert rows(db, "v") == before


def test_new_views_keep_what_streams_have_brought(db: Database) -> None:
    """Strings have other codes then, and sums of DOUBLE keep all of their digits."""
    db.execute("CREATE STREAM e (k VARCHAR, j INT, x DOUBLE NOT NULL)")
    db.execute("CREATE VIEW sums AS SELECT j, k, SUM(x) AS x, COUNT(*) AS n FROM e GROUP BY k, j")
    db.insert("e", [("b", 1, 1e20), ("a", None, 0.5), (None, 1, 0.25), ("b", 1, 1.0)])
    db.execute("CREATE VIEW texts AS SELECT s, COUNT(*) AS n FROM r WHERE s <> 'q' GROUP BY s")
    db.delete("e", ("b", 1, 1e20))
    db.insert("e", ("a", None, 0.5))
    assert dict(db.view("sums")) == {
        (1, "b"): (1, "b", 1.0, 1),
        (None, "a"): (None, "a", 1.0, 2),
        (1, None): (1, None, 0.25, 1),
    }
    assert rows(db, "texts") == [("x", 1)]


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(REGRESSIONS.glob("*.json")), ids=lambda p: p.stem)
def test_kept_cases_of_the_oracle(path: Path) -> None:
    run_with(Case.load(path), database)


def test_the_order_of_strings_moves_with_their_maps() -> None:
    """A moved map's ordered index knows the order of strings that the new program has just met."""
    rng = random.Random(3)
    db = database()
    db.execute(
        """
        CREATE STREAM e (k INT NOT NULL, s VARCHAR NOT NULL);
        CREATE VIEW ends AS SELECT k, MIN(s) AS low, MAX(s) AS high FROM e GROUP BY k;
        CREATE VIEW n AS SELECT COUNT(*) AS n FROM e;
        """
    )
    kept = {k: sorted({f"w{rng.randrange(10**6):06d}" for _ in range(400)}) for k in range(3)}
    db.insert("e", [(k, s) for k, texts in kept.items() for s in rng.sample(texts, len(texts))])
    db.execute("DROP VIEW n")
    for _ in range(5):
        db.delete("e", [(k, texts.pop(end)) for k, texts in kept.items() for end in (0, -1)])
        assert rows(db, "ends") == [(k, texts[0], texts[-1]) for k, texts in kept.items()]


def test_static_tables_bring_strings_in_order() -> None:
    """The same for maps that are computed from static tables before the first row."""
    rng = random.Random(4)
    texts = [f"w{rng.randrange(10**6):06d}" for _ in range(500)]
    db = database()
    db.execute("CREATE TABLE names (k INT NOT NULL, s VARCHAR NOT NULL) WITH (static = true)")
    db.insert("names", [(i % 5, s) for i, s in enumerate(texts)])
    db.execute(
        """
        CREATE STREAM e (k INT NOT NULL, s VARCHAR NOT NULL);
        CREATE VIEW below AS
        SELECT e.k, COUNT(*) AS n FROM e, names WHERE e.k = names.k AND names.s < e.s GROUP BY e.k;
        """
    )
    db.insert("e", [(k, "w500000") for k in range(5)])
    below = [sum(s < "w500000" for s in texts[k::5]) for k in range(5)]
    assert rows(db, "below") == [(k, n) for k, n in enumerate(below) if n]
