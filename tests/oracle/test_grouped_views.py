"""Grouped subqueries as views of their own: equal to DuckDB after every batch.

Long queries have them (planner/grouped_views.py); here every query does.
"""

from __future__ import annotations

from random import Random

import duckdb
import pytest
from tests.frontend.oracle import lower_last, read_catalog
from tests.oracle.engines import ENGINES, UNJITTED
from tests.oracle.generate import Generator
from tests.oracle.harness import Case, new_database, run_case, run_with, time_limit
from tests.oracle.nested_joins import NestedJoins
from tests.oracle.test_nested_joins import NAMED, changes

from viewlet.calculus.query import Query
from viewlet.errors import UnsupportedError
from viewlet.planner.grouped_views import with_grouped_views
from viewlet.planner.viewlets import compile_program
from viewlet.program.ir import Program
from viewlet.schema import Catalog

TOTALS = "SELECT k, SUM(q) AS total, MAX(q) AS most, COUNT(q) AS known FROM r GROUP BY k"
TABLES = (
    *(f"CREATE TABLE {name} (k INT, q INT)" for name in "rs"),
    "CREATE TABLE d (k INT, x DOUBLE)",
)
COMMON = {
    "named twice": f"WITH t AS ({TOTALS}) SELECT a.k, a.total, b.most FROM t a, t b "
    "WHERE a.total = b.known",
    "over each other": f"WITH t AS ({TOTALS}), u AS (SELECT total, COUNT(*) AS n FROM t "
    "GROUP BY total) SELECT t.k, u.n, t.total FROM t, u WHERE t.total = u.total",
    "summed again": f"SELECT total, SUM(most) AS s, SUM(known) AS n FROM ({TOTALS}) t "
    "GROUP BY total",
    "beside one value": f"WITH t AS ({TOTALS}) SELECT k, total FROM t "
    "WHERE total > (SELECT AVG(total) FROM t)",
    "joined with rows": f"WITH t AS ({TOTALS}) SELECT s.k, s.q, t.total FROM s "
    "LEFT JOIN t ON s.k = t.k AND t.most > s.q",
    "united": f"WITH t AS ({TOTALS}) SELECT k, total FROM t WHERE most = 2 UNION ALL "
    "SELECT k, known FROM t WHERE most < 2",
    "in a condition": f"WITH t AS ({TOTALS}) SELECT q FROM s WHERE q IN (SELECT total FROM t)",
    "sums of doubles": "WITH t AS (SELECT k, SUM(x) AS x FROM d GROUP BY k) "
    "SELECT a.k, a.x, b.k AS other FROM t a, t b WHERE a.x = b.x",
}


def with_all_views(catalog: Catalog, queries: list[Query]) -> Program:
    return compile_program(catalog, [with_grouped_views(query, 0) for query in queries])


@pytest.mark.parametrize("name", COMMON)
def test_common_tables(name: str) -> None:
    case = Case(list(TABLES), COMMON[name])
    case.batches = changes(case, seed=3)
    run_with(case, lambda: new_database("interpreter", with_all_views))


@pytest.mark.skipif(UNJITTED, reason="compiles kernels itself")
@pytest.mark.parametrize("name", ["named twice", "over each other", "beside one value"])
def test_compiled(name: str) -> None:
    case = Case(list(TABLES), COMMON[name])
    case.batches = changes(case, seed=4)
    run_with(case, lambda: new_database("local", with_all_views))


@pytest.mark.parametrize("name", NAMED)
def test_nested_joins(name: str) -> None:
    tables, select = NAMED[name]
    case = Case(list(tables), select)
    case.batches = changes(case, seed=5)
    run_with(case, lambda: new_database("interpreter", with_all_views))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", [*range(12), 126, 404])
def test_random(seed: int, engine: str) -> None:
    check(seed, engine)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("first", range(20, 420, 50))
def test_many(engine: str, first: int) -> None:
    for seed in range(first, first + 50):
        check(seed, engine)


def check(seed: int, engine: str) -> None:
    kind = (Generator, NestedJoins)[seed % 2]
    case = kind(Random(f"grouped {seed}"), Random(seed)).case((7, 1, 100)[seed % 3])
    try:
        with time_limit(120):
            run_case(case, engine, with_all_views)
    except (duckdb.Error, UnsupportedError):
        pytest.skip("outside of what one of the two can do")


@pytest.mark.parametrize("kind", ["u", "none"])
def test_terms_that_where_rules_out(kind: str) -> None:
    """A union named four times has 81 products, of which WHERE leaves one or none."""
    tables = [f"CREATE TABLE {name} (k INT, q INT)" for name in "rsu"]
    union = " UNION ALL ".join(
        f"SELECT '{name}' AS kind, k, SUM(q) AS q FROM {name} GROUP BY k" for name in "rsu"
    )
    select = (
        f"WITH t AS ({union}) SELECT a.k, a.q AS aq, b.q AS bq FROM t a, t b, t c, t d "
        "WHERE a.k = b.k AND b.k = c.k AND d.k = a.k AND a.kind = 'r' AND b.kind = 's' "
        f"AND c.kind = 'r' AND d.kind = '{kind}' AND a.q < 3"
    )
    case = Case(tables, select)
    case.batches = changes(case, seed=9)
    run_with(case, lambda: new_database("interpreter"))
    view = f"CREATE MATERIALIZED VIEW the_view AS {select}"
    catalog = read_catalog(";\n".join(tables))
    assert not lower_last(view, catalog).inner
