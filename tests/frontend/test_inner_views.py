"""Joins of joins become views of their own before their terms multiply."""

from __future__ import annotations

import time

import pytest
from tests.frontend.oracle import lower_last, read_catalog
from tests.pace import slack

from viewlet.calculus.expr import terms_of
from viewlet.calculus.query import COUNT, Query
from viewlet.calculus.query_text import parse_query, query_text
from viewlet.errors import UnsupportedError
from viewlet.planner.viewlets import compile_program
from viewlet.program.ir import Program
from viewlet.program.text import parse_program, program_text
from viewlet.schema import Catalog

TABLES = 22


def catalog() -> Catalog:
    return read_catalog(
        "".join(f"CREATE TABLE t{i} (v INT, w{i} INT, u INT NOT NULL);" for i in range(TABLES))
    )


def lower(select: str) -> Query:
    return lower_last(f"CREATE MATERIALIZED VIEW a_view AS {select}", catalog())


def chain(joins: int, kind: str, on: str = "using") -> str:
    parts = ["SELECT t0.w0"]
    parts += [f", w{i}" for i in range(1, joins + 1)]
    parts.append(" FROM t0")
    for i in range(1, joins + 1):
        known = "COALESCE(" + ", ".join(f"t{j}.v" for j in range(i)) + ")" if i > 1 else "t0.v"
        condition = "USING (v)" if on == "using" else f"ON {known} = t{i}.v"
        parts.append(f" {kind} JOIN t{i} {condition}")
    return "".join(parts)


def plan(select: str) -> Program:
    return compile_program(catalog(), [lower(select)])


def test_two_outer_joins_are_multiplied_out() -> None:
    assert lower(chain(2, "FULL")).inner == ()
    assert lower(chain(2, "LEFT")).inner == ()


@pytest.mark.parametrize("on", ["using", "on"])
@pytest.mark.parametrize("kind", ["FULL", "LEFT"])
def test_no_join_is_recomputed(kind: str, on: str) -> None:
    """k of USING is a variable in every branch, and COALESCE(a.k, b.k) = c.k the key of a view."""
    program = plan(chain(2, kind, on))
    assert not any(s.op == ":=" for t in program.triggers for s in t.statements)


@pytest.mark.parametrize(("kind", "on"), [("FULL", "using"), ("FULL", "on"), ("LEFT", "using")])
def test_terms_do_not_multiply(kind: str, on: str) -> None:
    for joins in (3, 6, 12):
        query = lower(chain(joins, kind, on))
        bodies = [view.body for view in query.inner] + [dict(query.components)[COUNT]]
        assert all(len(terms_of(body)) <= 4 for body in bodies)
        assert len(bodies) <= joins


@pytest.mark.parametrize(("kind", "on"), [("FULL", "using"), ("FULL", "on"), ("LEFT", "using")])
def test_ten_joins_are_planned_soon(kind: str, on: str) -> None:
    """About a second of processor, most of it for the many statements of eleven triggers."""
    start = time.process_time()
    program = plan(chain(10, kind, on))
    assert time.process_time() - start < 4 * slack()
    assert not any(s.op == ":=" for t in program.triggers for s in t.statements)


def test_plans_grow_by_the_square() -> None:
    """Each trigger updates the views behind its table: 4 times the work for twice the joins."""
    sizes = [sum(len(t.statements) for t in plan(chain(n, "FULL")).triggers) for n in (4, 8)]
    assert sizes[1] < 5 * sizes[0]


def test_keys_are_what_somebody_needs() -> None:
    """A column that USING merged can be named by its table only; u is named by nobody."""
    (first, *_) = lower(chain(4, "FULL")).inner
    assert set(first.keys) == {"t0_v", "t0_w0", "t1_w1", "v"}
    joins = "".join(f" FULL JOIN t{i} USING (v)" for i in (1, 2, 3))
    (first, *_) = lower(f"SELECT v FROM t0{joins}").inner
    assert first.keys == ("v",)


def test_text_reads_back() -> None:
    query = lower(chain(4, "FULL"))
    assert query.inner
    assert parse_query(query_text(query)) == query
    program = compile_program(catalog(), [query])
    assert parse_program(program_text(program)) == program


def test_equal_joins_of_two_views_are_one_map() -> None:
    queries = [
        lower_last(f"CREATE MATERIALIZED VIEW {name} AS {select}", catalog())
        for name, select in (
            ("one", f"SELECT w0, COUNT(*) AS n FROM ({chain(4, 'FULL')}) x GROUP BY w0"),
            ("two", f"SELECT w4, COUNT(*) AS n FROM ({chain(4, 'FULL')}) x GROUP BY w4"),
        )
    ]
    together = compile_program(catalog(), queries)
    joined = [m.name for m in together.maps if m.name.startswith("m_joined")]
    assert len(joined) == len(set(joined))
    apart = [compile_program(catalog(), [query]) for query in queries]
    assert len(together.state) < sum(len(program.state) for program in apart)


def test_unions_do_not_multiply() -> None:
    rows = " UNION ALL ".join(f"SELECT v, u FROM t{i}" for i in range(20))
    text = f"SELECT a.u FROM ({rows}) a JOIN ({rows}) b ON a.v = b.v JOIN ({rows}) c ON c.v = b.v"
    query = lower(text)
    assert len(terms_of(dict(query.components)[COUNT])) <= 32
    assert lower(f"SELECT v FROM ({rows}) a JOIN t21 USING (v)").inner == ()


def test_too_many_cases_have_a_position() -> None:
    """A side that uses columns from outside cannot be a view, and its terms multiply so far."""
    rows = " UNION ALL ".join(f"SELECT v + x.u AS v FROM t{i}" for i in range(12))
    joined = f"({rows}) a JOIN ({rows}) b ON a.v = b.v JOIN ({rows}) c ON a.v = c.v"
    with pytest.raises(UnsupportedError, match="more than 1024 cases") as caught:
        lower(f"SELECT x.v FROM t21 x WHERE EXISTS (SELECT 1 FROM {joined})")
    assert caught.value.position is not None
    assert caught.value.hint
