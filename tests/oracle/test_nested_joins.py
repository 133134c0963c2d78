"""Outer joins of grouped tables and correlated subqueries over groups: equal to DuckDB.

The named cases run on the interpreter and on compiled kernels, side by side; random ones on the
engines that the oracle judges.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from random import Random

import duckdb
import pytest
from tests.oracle.engines import ENGINES, UNJITTED
from tests.oracle.harness import (
    Batch,
    Case,
    DuckOracle,
    compare,
    new_database,
    run_case,
    run_with,
    time_limit,
)
from tests.oracle.nested_joins import NestedJoins

from viewlet import Change
from viewlet.errors import UnsupportedError

RST = tuple(f"CREATE TABLE {name} (k INT, q INT)" for name in "rst")
ORDERS = ("CREATE TABLE c (c_id INT, bill INT)", "CREATE TABLE o (o_id INT, c_id INT, ship INT)")
PAIRS = ("CREATE TABLE t1 (x INT, y INT)", "CREATE TABLE t2 (x INT, y INT)")


def three_groups(aggregate: str, join: str) -> str:
    a, b, c = (f"(SELECT k, {aggregate} AS q FROM {name} GROUP BY k)" for name in "rst")
    return (
        f"SELECT a.k, a.q, b.q AS bq, c.q AS cq FROM {a} a "
        f"{join} JOIN {b} b ON b.k = a.k {join} JOIN {c} c ON c.k = a.k"
    )


NAMED = {
    "sums under LEFT JOIN": (RST, three_groups("SUM(q)", "LEFT")),
    "counts under LEFT JOIN": (RST, three_groups("COUNT(*)", "LEFT")),
    "minima under LEFT JOIN": (RST, three_groups("MIN(q)", "LEFT")),
    "counts under FULL JOIN": (RST, three_groups("COUNT(*)", "FULL")),
    "a subquery tied to groups by <>": (
        ORDERS,
        "SELECT c.c_id, o.ship, COUNT(*) AS n, (SELECT COUNT(*) FROM o o2 WHERE o2.ship = o.ship "
        "AND o2.c_id <> c.c_id) AS other FROM c JOIN o ON c.c_id = o.c_id GROUP BY c.c_id, o.ship",
    ),
    "groups by a column from outside": (
        PAIRS,
        "SELECT * FROM t1 WHERE y IN (SELECT SUM(t2.x) FROM t2 GROUP BY t1.y)",
    ),
    "distinct values from outside": (
        PAIRS,
        "SELECT * FROM t1 WHERE x IN (SELECT DISTINCT t1.y FROM t2 WHERE t2.x = t1.x)",
    ),
}


def changes(case: Case, seed: int, count: int = 8, size: int = 6) -> list[Batch]:
    """Random batches of small integers and NULLs, a third of the changes deletes."""
    random = Random(seed)
    relations = case.relations()
    present: list[tuple[str, tuple[int | None, ...]]] = []
    batches: list[Batch] = []
    for _ in range(count):
        batch: Batch = []
        for _ in range(size):
            if present and random.random() < 0.35:
                batch.append((*present.pop(random.randrange(len(present))), -1))
            else:
                relation = random.choice(relations)
                row = tuple(random.choice((None, 0, 1, 2, 3)) for _ in relation.columns)
                present.append((relation.name, row))
                batch.append((relation.name, row, 1))
        batches.append(batch)
    return batches


@pytest.mark.skipif(UNJITTED, reason="compiles kernels itself")
@pytest.mark.parametrize("name", NAMED)
def test_named(name: str) -> None:
    tables, select = NAMED[name]
    case = Case(list(tables), select)
    case.batches = changes(case, seed=1)
    run_with(case, lambda: new_database("interpreter"), lambda: new_database("local"))


@pytest.mark.skipif(UNJITTED, reason="compiles kernels itself")
def test_views_over_views() -> None:
    """The grouped tables as views of their own, joined by a third view."""
    views = [
        f"CREATE MATERIALIZED VIEW by_{name} AS SELECT k, SUM(q) AS q FROM {name} GROUP BY k"
        for name in "rst"
    ]
    joined = (
        "SELECT by_r.k, by_r.q, by_s.q AS sq, by_t.q AS tq FROM by_r "
        "LEFT JOIN by_s ON by_s.k = by_r.k LEFT JOIN by_t ON by_t.k = by_r.k"
    )
    check_views(RST, [*views, f"CREATE MATERIALIZED VIEW the_view AS {joined}"])


def check_views(tables: Sequence[str], views: Sequence[str]) -> None:
    """The last view equals DuckDB's over views of the same text, on both engines."""
    case = Case(list(tables), views[-1].partition(" AS ")[2])
    oracle = DuckOracle(case.relations())
    engines = [new_database("interpreter"), new_database("local")]
    with closing(oracle), closing(engines[0]), closing(engines[1]):
        for database in engines:
            for text in (*tables, *views):
                database.execute(text)
        oracle.fill()
        for number, batch in enumerate(changes(case, seed=2), 1):
            oracle.apply(batch)
            oracle.fill()
            for text in views[:-1]:
                temporary = text.replace("CREATE MATERIALIZED", "CREATE OR REPLACE TEMP")
                oracle.connection.execute(temporary)
            expected = oracle.connection.execute(case.select).fetchall()
            for database in engines:
                database.apply(Change(name, [row], weight) for name, row, weight in batch)
                compare(database.view("the_view").rows(), expected, case, number)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("first", range(1000, 1040, 10))
def test_random(engine: str, first: int) -> None:
    assert run_seeds(range(first, first + 10), engine) >= 9


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("first", range(0, 400, 20))
def test_many(engine: str, first: int) -> None:
    assert run_seeds(range(first, first + 20), engine) >= 18


def run_seeds(seeds: Sequence[int], engine: str) -> int:
    """How many of the seeds' queries both systems can do, all of them with equal answers."""
    done = 0
    for seed in seeds:
        case = NestedJoins(Random(seed), Random(seed)).case((7, 1, 7, 100)[seed % 4])
        try:
            with time_limit(120):
                run_case(case, engine)
            done += 1
        except (duckdb.Error, UnsupportedError):
            continue
    return done
