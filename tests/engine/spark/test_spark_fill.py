"""Views created and dropped after rows, on Spark: nothing passes the driver, nothing is lost."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.engine.spark.conductor import Conductor
from viewlet.engine.spark.spark_engine import SparkEngine
from viewlet.interfaces.database import Database

pytestmark = pytest.mark.spark

TABLES = """
CREATE TABLE r (a INT NOT NULL PRIMARY KEY, b VARCHAR);
CREATE STREAM e (a INT, k VARCHAR, x DOUBLE NOT NULL);
CREATE VIEW v AS SELECT a, k, SUM(x) AS x, COUNT(*) AS n FROM e GROUP BY a, k
"""
JOINED = "SELECT r.b, SUM(e.x) AS x FROM r JOIN e ON r.a = e.a GROUP BY r.b"


def engine_of(db: Database) -> SparkEngine:
    assert isinstance(db._engine, SparkEngine)
    return db._engine


def rows(db: Database, view: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in db.view(view).rows()), key=repr)


def events(number: int) -> list[tuple[Any, ...]]:
    return [(i % 7 if i % 11 else None, f"k{i % 5}", i / 2) for i in range(number, number + 60)]


def sums(came: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    total: Counter[Any] = Counter()
    count: Counter[Any] = Counter()
    for a, k, x in came:
        total[a, k] += x
        count[a, k] += 1
    return sorted(((a, k, total[a, k], n) for (a, k), n in count.items()), key=repr)


@contextmanager
def nothing_read_on_the_driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(*_: Any) -> None:
        raise AssertionError("rows are read on the driver")

    with monkeypatch.context() as patched:
        patched.setattr(Conductor, "contents", refuse)
        patched.setattr(Conductor, "table", refuse)
        yield


LOCATIONS = ["local", "replicated", "dist(e_a)", "dist(e_k)", "dist(e_a, e_k)"]


@pytest.mark.parametrize(
    "locations", [LOCATIONS[:3], pytest.param(LOCATIONS, marks=pytest.mark.slow)]
)
def test_from_every_place_to_every_other(
    spark: Any, monkeypatch: pytest.MonkeyPatch, locations: list[str]
) -> None:
    """A map goes to where the new program has it: in place, by a shuffle, from or to the driver."""
    with viewlet.connect("spark", spark=spark, partitions=3) as db:
        db.execute(TABLES)
        came = events(0)
        db.insert("e", came)
        for number, location in enumerate(_tour(locations)):
            engine_of(db)._hints = viewlet.Hints(maps={"v": location})
            with nothing_read_on_the_driver(monkeypatch):
                db.execute(
                    f"CREATE OR REPLACE VIEW other AS SELECT COUNT(*) + {number} AS n FROM r"
                )
            assert str(engine_of(db).locations["v"]) == location
            assert rows(db, "v") == sums(came), location
        more = events(number)
        db.insert("e", more)
        assert rows(db, "v") == sums(came + more)


def _tour(names: list[str]) -> Iterator[str]:
    """Each name directly before each other one."""
    yield names[0]
    for i, name in enumerate(names):
        for other in names[i + 1 :]:
            yield other
            yield name
        yield from names[i + 1 : i + 2]


def test_rows_stay_in_the_executors(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with viewlet.connect("spark", spark=spark, partitions=2) as db:
        db.execute(TABLES)
        db.insert("r", [(i, f"g{i % 3}") for i in range(50)])
        db.insert("e", events(0))
        with nothing_read_on_the_driver(monkeypatch):
            db.execute("CREATE VIEW groups AS SELECT b, COUNT(*) AS n FROM r GROUP BY b")
            db.execute(f"CREATE VIEW joined AS {JOINED}")
            db.execute("DROP VIEW groups")
            db.execute("CREATE VIEW groups AS SELECT b, MAX(a) AS a FROM r GROUP BY b")
        assert rows(db, "v") == sums(events(0))
        assert rows(db, "groups") == [("g0", 48), ("g1", 49), ("g2", 47)]
        assert rows(db, "joined") == []


@pytest.mark.parametrize("partitions", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_driver_that_is_lost_right_after(spark: Any, tmp_path: Path, partitions: int) -> None:
    """The view is there as it was filled, whatever the number of partitions is then."""
    directory = str(tmp_path / "checkpoint")
    lost = viewlet.connect("spark", spark=spark, partitions=2, checkpoint=directory)
    lost.execute(TABLES)
    lost.insert("r", [(i, f"g{i % 3}") for i in range(50)])
    lost.insert("e", events(0))
    lost.execute("CREATE VIEW groups AS SELECT b, COUNT(*) AS n FROM r GROUP BY b")
    lost.execute(f"CREATE VIEW joined AS {JOINED}")
    with viewlet.restore(directory, spark=spark, partitions=partitions) as db:
        assert rows(db, "v") == sums(events(0))
        assert rows(db, "groups") == [("g0", 17), ("g1", 17), ("g2", 16)]
        db.insert("e", [(3, "k", 1.0), (4, "k", 0.5), (99, "k", 7.0)])
        db.delete("r", [(4, "g1")])
        assert rows(db, "joined") == [("g0", 1.0)]
        assert rows(db, "groups") == [("g0", 17), ("g1", 16), ("g2", 16)]


def test_a_partition_that_is_lost_right_after(spark: Any, tmp_path: Path) -> None:
    """Its log begins with what it was filled with: no old program and no loader is needed."""
    directory = str(tmp_path / "checkpoint")
    with viewlet.connect("spark", spark=spark, partitions=2, checkpoint=directory) as db:
        db.execute(TABLES)
        db.insert("r", [(i, f"g{i % 3}") for i in range(50)])
        db.insert("e", events(0))
        db.execute("CREATE VIEW groups AS SELECT b, a % 4 AS c, COUNT(*) AS n FROM r GROUP BY b, 2")
        db.execute(f"CREATE VIEW joined AS {JOINED}")
        cluster = engine_of(db).cluster
        shutil.rmtree(cluster.site.directory(1))
        db.insert("e", [(3, "k", 1.0), (4, "k", 0.5)])
        db.insert("r", [(50, "g2")])
        assert any("partition 1: state of tick" in note for note in cluster.incidents)
        assert rows(db, "joined") == [("g0", 1.0), ("g1", 0.5)]
        assert sum(row.n for row in db.view("groups").rows()) == 51
        assert rows(db, "v") == sums([*events(0), (3, "k", 1.0), (4, "k", 0.5)])


def test_a_fill_that_fails_changes_nothing(spark: Any, tmp_path: Path) -> None:
    directory = tmp_path / "checkpoint"
    with viewlet.connect("spark", spark=spark, partitions=2, checkpoint=str(directory)) as db:
        db.execute("CREATE TABLE big (g INT NOT NULL, x BIGINT NOT NULL)")
        db.execute(TABLES)
        db.insert("big", [(1, 2**62), (1, 2**62 - 1), (1, 5), (2, 7)])
        db.insert("e", events(0))
        programs = {path.name for path in directory.glob("program-*")}
        with pytest.raises(viewlet.ViewletError, match="left the range"):
            db.execute("CREATE VIEW too_large AS SELECT g, SUM(x * 2) AS x FROM big GROUP BY g")
        assert {path.name for path in directory.glob("program-*")} == programs
        db.insert("e", events(3))
        assert rows(db, "v") == sums(events(0) + events(3))
        db.delete("big", [(1, 2**62)])
        db.delete("big", [(1, 2**62 - 1)])
        db.execute("CREATE VIEW small AS SELECT g, SUM(x * 2) AS x FROM big GROUP BY g")
        assert rows(db, "small") == [(1, 10), (2, 14)]


def test_a_driver_that_is_lost_in_the_middle(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Definitions name the old program until the new one is whole."""
    directory = str(tmp_path / "checkpoint")
    lost = viewlet.connect("spark", spark=spark, partitions=2, checkpoint=directory)
    lost.execute(TABLES)
    lost.insert("r", [(i, f"g{i % 3}") for i in range(50)])
    lost.insert("e", events(0))

    def end(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("viewlet.engine.spark.spark_engine._discard", lambda *_: None)
        patched.setattr(Conductor, "saved_state", end)  # everything is put and committed then
        with pytest.raises(KeyboardInterrupt):
            lost.execute("CREATE VIEW groups AS SELECT b, COUNT(*) AS n FROM r GROUP BY b")
    assert len(list(Path(directory).glob("program-*"))) == 2
    with viewlet.restore(directory, spark=spark) as db:
        assert "groups" not in repr(db)
        assert rows(db, "v") == sums(events(0))
        db.insert("r", [(50, "g0")])
        db.execute("CREATE VIEW groups AS SELECT b, COUNT(*) AS n FROM r GROUP BY b")
        assert rows(db, "groups") == [("g0", 18), ("g1", 17), ("g2", 16)]
