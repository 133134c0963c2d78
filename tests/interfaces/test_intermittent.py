"""Views that keep a part of their maps between refreshes, and relations that are complete.

Answers in random runs, with restarts and changes of mode, are compared with DuckDB by
tests/oracle/test_modes.py.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import viewlet
from viewlet.errors import ResolutionError, StateError, ViewletError
from viewlet.interfaces.database import Database

ENGINES = ("interpreter", "local")
TABLES = """
CREATE TABLE r (a INT, b INT);
CREATE TABLE s (b INT, c INT);
CREATE TABLE t (c INT, d INT);
"""
SELECT = (
    "SELECT r.a, SUM(t.d) AS x, COUNT(*) AS n FROM r JOIN s ON r.b = s.b JOIN t ON s.c = t.c "
    "GROUP BY r.a"
)


def database(engine: str, options: str = "", select: str = SELECT) -> Database:
    db = viewlet.connect(engine)
    db.execute(TABLES)
    db.execute(
        f"CREATE MATERIALIZED VIEW v WITH (maintenance = 'intermittent'{options}) AS {select}"
    )
    return db


def fill(db: Database, rows: int = 60, seed: int = 1, names: str = "rst") -> None:
    draw = Random(seed)
    for name in names:
        db.insert(name, [(draw.randrange(7), draw.randrange(7)) for _ in range(rows)])


def is_right(db: Database) -> bool:
    want = sorted(tuple(map(int, row.values())) for row in db.query(SELECT).to_pylist())
    return sorted(tuple(map(int, row)) for row in db.view("v").rows()) == want


def maps_there(db: Database) -> set[str]:
    return set(db.stats("v").maps)


def limit(db: Database, memory: int | None) -> None:
    """What an own budget would say, without an error where the answer alone is larger."""
    db._maintenance.intermittent.budget = lambda view: memory  # type: ignore[method-assign]


@pytest.mark.parametrize("engine", ENGINES)
def test_without_a_budget_everything_is_kept(engine: str) -> None:
    with database(engine) as db:
        fill(db)
        assert is_right(db)
        before = maps_there(db)
        assert len(before) > 3
        fill(db, 5, 2)
        assert is_right(db)
        assert maps_there(db) == before


@pytest.mark.parametrize("engine", ENGINES)
def test_maps_go_and_come_back(engine: str) -> None:
    with database(engine) as db:
        fill(db)
        limit(db, 0)
        assert is_right(db)
        assert maps_there(db) == {"v"}
        for number in range(4):
            fill(db, 3, number, "rst"[number % 3])
            db.delete("r", [tuple(row.values()) for row in db.query("FROM r LIMIT 1").to_pylist()])
            assert is_right(db)
            assert maps_there(db) == {"v"}


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_expected_decides_what_is_kept(engine: str) -> None:
    with database(engine) as db:
        fill(db)
        assert is_right(db)
        sizes = {name: size.bytes for name, size in db.stats("v").maps.items()}
        limit(db, int(0.7 * sum(sizes.values())))
        db.expect("r", rows=0)
        db.expect("s", rows=0)
        db.expect("t", rows=1000, within="60 s")
        needed_for_t = {name for name in maps_there(db) if name != "v"}
        assert 0 < len(needed_for_t) < len(sizes) - 1
        fill(db, 10, 5, "t")
        assert is_right(db)
        fill(db, 10, 6, "r")  # nobody has expected these
        assert is_right(db)
        text = db.explain("v", stage="maintenance")
        assert "expects of t: 990 rows, told" in text
        assert "dropped" in text and "records to build" in text


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_that_come_before_maps_come_back(engine: str) -> None:
    """What waits is in the tables already, and must not be counted twice."""
    with database(engine, ", refresh = 'manual'") as db:
        fill(db)
        limit(db, 0)
        db.refresh("v")
        fill(db, 20, 3)
        db.execute("CREATE MATERIALIZED VIEW other AS SELECT COUNT(*) AS n FROM r")
        fill(db, 20, 4)
        db.execute("DROP VIEW other")
        db.refresh("v")
        assert is_right(db)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_complete_relation_frees_what_only_it_needs(engine: str, tmp_path: Path) -> None:
    with database(engine) as db:
        db.execute(f"CREATE MATERIALIZED VIEW kept AS {SELECT}")
        fill(db)
        assert is_right(db)
        before = maps_there(db)
        db.complete("s")
        db.execute("ALTER TABLE r COMPLETE")
        assert maps_there(db) < before
        assert set(db.stats("kept").maps) < before | {"kept"} | set(db.stats("kept").maps)
        for statement in (
            "INSERT INTO r VALUES (1, 2)",
            "DELETE FROM r",
            "UPDATE s SET c = 1",
        ):
            with pytest.raises(ViewletError, match="is complete"):
                db.execute(statement)
        with pytest.raises(StateError, match="is complete"):
            db.insert("r", (1, 2))
        fill(db, 9, 4, "t")
        assert is_right(db)
        db.execute(f"CREATE MATERIALIZED VIEW late AS {SELECT}")
        fill(db, 9, 5, "t")
        for view in ("late", "kept"):
            assert sorted(db.view(view).rows()) == sorted(db.view("v").rows())
        db.checkpoint(str(tmp_path))
        with viewlet.restore(str(tmp_path)) as again:
            with pytest.raises(StateError, match="is complete"):
                again.insert("r", (1, 2))
            fill(again, 9, 6, "t")
            assert is_right(again)


def test_a_view_that_waits_for_completion() -> None:
    with database("interpreter", ", refresh = 'when complete'") as db:
        fill(db)
        assert db.view("v").rows() == []
        db.complete("t")
        assert is_right(db)


@pytest.mark.parametrize("engine", ENGINES)
def test_restarts(engine: str, tmp_path: Path) -> None:
    with viewlet.connect(engine=engine, path=tmp_path / "db") as db:
        db.execute(TABLES)
        db.execute(f"CREATE MATERIALIZED VIEW v WITH (maintenance = 'intermittent') AS {SELECT}")
        fill(db)
        limit(db, 0)
        assert is_right(db)
        db.complete("s")
        fill(db, 5, 2, "rt")
    with viewlet.connect(engine=engine, path=tmp_path / "db") as db:
        assert is_right(db)
        with pytest.raises(StateError, match="is complete"):
            db.insert("s", (1, 2))


def test_the_budget_of_a_database() -> None:
    with viewlet.connect("interpreter", memory="20 kB") as db:
        db.execute(TABLES)
        for name in ("v", "w"):
            db.execute(
                f"CREATE MATERIALIZED VIEW {name} WITH (maintenance = 'intermittent') AS {SELECT}"
            )
        fill(db)
        assert is_right(db)
        rows = sorted(db.view("w").rows())
        assert rows == sorted(db.view("v").rows())
        taken = sum(size.bytes for name in "vw" for size in db.stats(name).maps.values())
        assert taken <= 20_000


def test_an_answer_beyond_its_budget_changes_nothing() -> None:
    with database("interpreter") as db:
        fill(db)
        assert is_right(db)
        with pytest.raises(StateError, match="view v alone takes"):
            db.execute("ALTER MATERIALIZED VIEW v SET (memory = '1 kB')")
        with pytest.raises(StateError, match="view w alone takes"):
            db.execute(
                "CREATE MATERIALIZED VIEW w WITH (maintenance = 'intermittent', memory = '1 kB') "
                f"AS {SELECT}"
            )
        assert "memory" not in db.explain("v", stage="maintenance")
        fill(db, 5, 2)
        assert is_right(db)


def test_a_callback_cannot_make_maps_come_back() -> None:
    with database("interpreter") as db:
        db.execute("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM r")
        fill(db)
        limit(db, 0)
        assert is_right(db)
        fill(db, 3, 2, "t")

        def read(_: object) -> None:
            db.view("v").rows()

        subscription = db.subscribe("n", read)
        with pytest.raises(ViewletError, match="within a callback"):
            db.insert("r", (1, 1))
        subscription.close()
        assert is_right(db)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda db: db.expect("q", rows=1), "no table or stream q"),
        (lambda db: db.expect("r", rows=-1), "rows=-1"),
        (lambda db: db.expect("r", rows=float("nan")), "rows=nan"),
        (lambda db: db.expect("r", rows=1, within="soon"), "not a time"),
        (lambda db: db.expect("r", rows=1, within=-2), "within=-2"),
        (lambda db: db.complete("q"), "no table or stream q"),
        (lambda db: db.execute("ALTER TABLE q COMPLETE"), "no table or stream q"),
        (lambda db: db.execute("ALTER STREAM r COMPLETE"), "r is a table"),
        (lambda db: viewlet.connect(memory="much"), "not an amount of memory"),
        (lambda db: viewlet.connect(memory=-1), "memory=-1"),
    ],
)
def test_bad_input(call: object, message: str) -> None:
    with database("interpreter") as db:
        with pytest.raises((ResolutionError, StateError, ViewletError), match=message):
            call(db)  # type: ignore[operator]
        fill(db)
        assert is_right(db)
