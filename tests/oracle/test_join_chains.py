"""Chains of outer joins, which are planned over inner views: equal to DuckDB after every batch.

On the interpreter and on compiled kernels, through views that come and go, over static tables and
streams, on a simulated cluster, and as plain expressions.
"""

from __future__ import annotations

import random
from contextlib import closing

import pytest
from tests.frontend.oracle import lower_last, read_catalog
from tests.oracle.engines import UNJITTED
from tests.oracle.harness import Batch, Case, DuckOracle, compare, new_database, run_with
from tests.oracle.test_nested_joins import changes

from viewlet import Change
from viewlet.calculus.database import Atoms
from viewlet.calculus.query import evaluate_query
from viewlet.calculus.ring import Gmr
from viewlet.distributed import SimulatedCluster, compile_distributed
from viewlet.interfaces.database import Database
from viewlet.planner.viewlets import compile_program
from viewlet.program.interpret import Interpreter

TABLES = [f"CREATE TABLE t{i} (v INT, w{i} INT)" for i in range(6)]


def chain(*kinds: str, on: str = "USING") -> str:
    text = "t0"
    for i, kind in enumerate(kinds, 1):
        left = f"COALESCE({', '.join(f't{j}.v' for j in range(i))})" if i > 1 else "t0.v"
        condition = "USING (v)" if on == "USING" else f"ON {left} = t{i}.v"
        text += f" {kind} JOIN t{i} {condition}"
    return text


WIDE = ", ".join(f"w{i}" for i in range(5))

NAMED = {
    "full": f"SELECT v, {WIDE} FROM {chain('FULL', 'FULL', 'FULL', 'FULL')}",
    "full on": f"SELECT t0.v, t3.v AS v3, {WIDE} FROM {chain(*['FULL'] * 4, on='ON')}",
    "left": f"SELECT v, {WIDE} FROM {chain('LEFT', 'LEFT', 'LEFT', 'LEFT')}",
    "mixed": f"SELECT v, t1.v AS v1, {WIDE} FROM {chain('LEFT', 'RIGHT', 'FULL', 'LEFT')}",
    "grouped": f"SELECT v, SUM(w3) AS s, COUNT(*) AS n FROM {chain(*['FULL'] * 3)} GROUP BY v",
    "filtered": f"SELECT v, w2 FROM {chain(*['LEFT'] * 3)} WHERE w1 > 0 AND (w2 > 1 OR w3 IS NULL)",
    "nested right": "SELECT t0.v AS a, x.v AS b, w3 FROM t0 FULL JOIN (t1 FULL JOIN "
    "(t2 FULL JOIN t3 USING (v)) USING (v)) AS x (v, w1, w2, w3) ON t0.v = x.v",
    "in a subquery": f"SELECT t5.v, (SELECT COUNT(*) FROM {chain(*['FULL'] * 3)} "
    "WHERE w3 = t5.w5) AS n FROM t5",
    "of a group": f"SELECT t5.v, COUNT(*) AS n, (SELECT MAX(w2) FROM {chain(*['FULL'] * 3)} "
    "WHERE t1.v = t5.v) AS m FROM t5 GROUP BY t5.v",
    "of unions": "SELECT a.v, b.w FROM (SELECT v, w0 AS w FROM t0 UNION ALL SELECT v, w1 FROM t1) a"
    " FULL JOIN (SELECT v, w2 AS w FROM t2 UNION ALL SELECT v, w3 FROM t3 UNION ALL"
    " SELECT v, w4 FROM t4) b ON a.v = b.v LEFT JOIN t5 ON t5.v = b.v",
    "distinct": f"SELECT DISTINCT w0, w3 FROM {chain('FULL', 'LEFT', 'FULL')}",
}


def case_of(name: str) -> Case:
    case = Case(TABLES, NAMED[name])
    case.batches = changes(case, seed=3, size=9)
    return case


@pytest.mark.parametrize("name", NAMED)
def test_interpreted(name: str) -> None:
    run_with(case_of(name), lambda: new_database("interpreter"))


@pytest.mark.skipif(UNJITTED, reason="compiles kernels itself")
@pytest.mark.parametrize(
    "name",
    [
        "full",
        "in a subquery",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("mixed", "grouped")),
    ],
)
def test_compiled(name: str) -> None:
    run_with(case_of(name), lambda: new_database("local"))


@pytest.mark.parametrize("name", NAMED)
def test_meaning(name: str) -> None:
    """The query as a plain expression, recomputed: what the frontend made of it is right."""
    case = case_of(name)
    catalog = read_catalog(";".join(TABLES))
    query = lower_last(f"CREATE MATERIALIZED VIEW a_view AS {case.select}", catalog)
    with closing(DuckOracle(case.relations())) as oracle:
        for number, batch in enumerate(case.batches[:3], 1):
            oracle.apply(batch)
            contents = {table: Gmr(rows.items()) for table, rows in oracle.rows.items()}
            meaning = evaluate_query(query, Atoms(relations=contents.__getitem__))
            rows = [row for row, count in meaning for _ in range(count)]
            compare(rows, oracle.answer(case.select), case, number)


@pytest.mark.parametrize("name", ["full", "mixed", "grouped"])
def test_on_a_simulated_cluster(name: str) -> None:
    catalog = read_catalog(";".join(TABLES))
    query = lower_last(f"CREATE MATERIALIZED VIEW a_view AS {NAMED[name]}", catalog)
    program = compile_program(catalog, [query], keyed=False)
    reference, cluster = Interpreter(program), SimulatedCluster(compile_distributed(program), 3)
    for node in (reference, cluster):
        node.load({})
    maker = random.Random(1)
    for batch in case_of(name).batches:
        deltas: dict[str, Gmr] = {}
        for table, row, weight in batch:
            deltas.setdefault(table, Gmr()).add(row, weight)
        for table, delta in deltas.items():
            reference.apply(table, delta)
            cluster.apply(table, delta, iter(lambda: maker.randrange(1000), None))
        for view in program.views:
            assert sorted(map(repr, cluster.rows(view))) == sorted(map(repr, reference.rows(view)))


@pytest.mark.parametrize("engine", ["interpreter", "local"])
def test_views_come_and_go(engine: str) -> None:
    """A view over a chain that another has, over rows that are there, and after that is dropped."""
    tables = [
        "CREATE TABLE t0 (v INT, w0 INT) WITH (static = true)",
        *(f"CREATE TABLE t{i} (v INT, w{i} INT)" for i in (1, 2, 3)),
    ]
    whole = f"SELECT v, w0, w1, w2, w3 FROM {chain('FULL', 'FULL', 'FULL')}"
    views = {"first": whole, "second": f"SELECT w3, COUNT(*) AS n FROM ({whole}) x GROUP BY w3"}
    case = Case(tables[1:], whole)
    batches = changes(case, seed=4)
    with new_database(engine) as database, closing(DuckOracle(_relations(tables))) as oracle:
        for text in tables:
            database.execute(text)
        static: Batch = [("t0", (v, v + 1), 1) for v in (None, 0, 1, 3) if v is not None]
        _apply(database, oracle, static)
        _apply(database, oracle, batches[0])
        database.execute(f"CREATE MATERIALIZED VIEW first AS {views['first']}")
        _compare(database, oracle, case, {"first": views["first"]})
        _apply(database, oracle, batches[1])
        database.execute(f"CREATE MATERIALIZED VIEW second AS {views['second']}")
        for batch in batches[2:5]:
            _apply(database, oracle, batch)
            _compare(database, oracle, case, views)
        database.execute("DROP VIEW first")
        for batch in batches[5:]:
            _apply(database, oracle, batch)
            _compare(database, oracle, case, {"second": views["second"]})


@pytest.mark.parametrize("engine", ["interpreter", pytest.param("local", marks=pytest.mark.slow)])
def test_streams_that_have_come(engine: str) -> None:
    """Rows of a stream live in the maps alone: another view over other tables leaves them there."""
    tables = [
        *(f"CREATE TABLE t{i} (v INT, w{i} INT)" for i in (0, 1, 2)),
        "CREATE STREAM t3 (v INT, w3 INT)",
    ]
    select = f"SELECT v, w0, w1, w2, w3 FROM {chain('FULL', 'FULL', 'FULL')}"
    batches = changes(Case(tables, select), seed=5)
    case = Case(tables, select)
    with new_database(engine) as database, closing(DuckOracle(case.relations())) as oracle:
        for text in (*tables, f"CREATE MATERIALIZED VIEW first AS {select}"):
            database.execute(text)
        for number, batch in enumerate(batches):
            if number == 3:
                database.execute("CREATE MATERIALIZED VIEW second AS SELECT w0 FROM t0 WHERE v > 0")
            _apply(database, oracle, batch)
            _compare(database, oracle, case, {"first": select})


def _relations(tables: list[str]) -> list:
    return Case(tables, "").relations()


def _apply(database: Database, oracle: DuckOracle, batch: Batch) -> None:
    database.apply(Change(name, [row], weight) for name, row, weight in batch)
    oracle.apply(batch)


def _compare(database: Database, oracle: DuckOracle, case: Case, views: dict[str, str]) -> None:
    for name, select in views.items():
        compare(database.view(name).rows(), oracle.answer(select), case, 0)
