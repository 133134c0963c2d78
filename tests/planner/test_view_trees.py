"""View trees: their shape, how few maps they keep, and that every one of these stays right."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest

import viewlet
from tests.frontend.oracle import lower_last, read_catalog
from tests.frontend.workloads import QUERIES
from tests.pace import slack
from tests.planner.films import JOINS, SCHEMA
from tests.planner.support import assert_maintains, catalog_of, workload
from viewlet.calculus.expr import Rel, walk
from viewlet.calculus.query import Plan, Query, ViewKind
from viewlet.calculus.query_text import parse_query, query_text
from viewlet.calculus.scope import outputs
from viewlet.calculus.text import parse, to_text
from viewlet.errors import ResolutionError
from viewlet.planner.viewlets import compile_program, explain_plan, plan_choice
from viewlet.program.ir import Program
from viewlet.program.prune import part_of
from viewlet.program.text import parse_program, program_text


def tree_query(text: str) -> Query:
    expr = parse(text)
    keys = tuple(sorted(outputs(expr)))
    return Query("q", ViewKind.GROUP, keys, (("count", expr),), (), plan=Plan.TREE)


def film_join(name: str) -> tuple[int, Query]:
    """How many tables a named join has, and its query."""
    text = JOINS[name]
    joined = text[text.index("FROM") : text.index("WHERE")].count(",") + 1
    catalog = read_catalog(SCHEMA)
    return joined, lower_last(f"CREATE MATERIALIZED VIEW films AS {text}", catalog)


def trees_of(relations: str, text: str) -> str:
    shown = explain_plan(catalog_of(relations), tree_query(text))
    return shown[shown.index("  trees\n") :]


def test_a_path_has_one_message_for_each_edge() -> None:
    """S is the nearest to all others: its rows are met by three messages."""
    relations = "R(a, b) S(b, c) T(c, d) U(b, e)"
    text = "Sum[c](R(a, b) * S(b, c) * T(c, d) * U(b, e))"
    assert trees_of(relations, text).splitlines()[1:] == [
        "    q[c]",
        "      [c] S",
        "        [b] R",
        "        [c] T",
        "        [b] U",
    ]
    program = compile_program(catalog_of(relations), [tree_query(text)])
    assert len(program.state) == 5  # the view, three messages and the rows of S


def test_relations_that_share_one_variable_are_siblings() -> None:
    """However many there are: a change of one looks up all others."""
    relations = " ".join(f"R{i}(k, x{i})" for i in range(9))
    text = "Sum[k](" + " * ".join(f"R{i}(k, x{i})" for i in range(9)) + ")"
    program = compile_program(catalog_of(relations), [tree_query(text)])
    assert len(program.state) <= 10
    assert all(len(trigger.statements) <= 4 for trigger in program.triggers)


def test_a_cycle_is_joined_in_one_bag() -> None:
    """No map holds pairs of rows that need not meet; explain says where a change meets more."""
    shown = trees_of("R(a, b) S(b, c) T(c, a)", "Sum[](R(a, b) * S(b, c) * T(c, a))")
    assert shown.count("cyclic") == 1
    program = compile_program(
        catalog_of("R(a, b) S(b, c) T(c, a)"), [tree_query("Sum[](R(a, b) * S(b, c) * T(c, a))")]
    )
    definitions = [c.definition for m in program.state if m.name != "q" for c in m.columns]
    assert all(sum(isinstance(n, Rel) for n in walk(d)) == 1 for d in definitions if d)


NAMED = {
    "path": ("R(a, b) S(b, c) T(c, d)", "Sum[a](R(a, b) * S(b, c) * T(c, d) * d)"),
    "star": ("R(a*, b) S(a, c) T(a, d)", "Sum[b](R(a, b) * S(a, c) * T(a, d) * c * d)"),
    "self-join": ("R(a, b)", "Sum[a](R(a, b) * R(b, c) * R(c, d))"),
    "star of one": ("R(a, b)", "Sum[](R(a, b) * R(a, c) * R(a, d) * R(a, e) * b * e)"),
    "triangle of one": ("R(a, b)", "Sum[](R(a, b) * R(b, c) * R(c, a))"),
    "keys apart": ("R(a, b) S(b, c) T(c, d)", "Sum[a, d](R(a, b) * S(b, c) * T(c, d))"),
    "spanning": ("R(a, b) S(b, c) T(c, d)", "Sum[b](R(a, b) * S(b, c) * T(c, d) * {a < d})"),
    "computed": (
        "R(a, b) S(b, c) T(c, d)",
        "Sum[x](R(a, b) * S(b, c) * T(c, d) * (x := [a + d]))",
    ),
    "apart": ("R(a, b) S(c, d) T(d, e)", "Sum[a](R(a, b) * S(c, d) * T(d, e))"),
    "two terms": (
        "R(a, b) S(b, c) T(c, d)",
        "Sum[a](R(a, b) * S(b, c) * T(c, d)) + Sum[a](R(a, b) * R(b, c) * S(c, d) * 2)",
    ),
    "anti-join": (
        "R(a, b) S(b, c) T(c, d) U(d, e)",
        "Sum[a](R(a, b) * S(b, c) * T(c, d) * (n := Sum[d](U(d, e))) * {n = 0})",
    ),
    "existing": (
        "R(a, b) S(b, c) T(c, d) U(d, e)",
        "Sum[a](R(a, b) * S(b, c) * T(c, d) * Exists(Sum[d](U(d, e))))",
    ),
}


@pytest.mark.parametrize("size", [1, 9])
@pytest.mark.parametrize("name", NAMED)
def test_maps_stay_right(name: str, size: int) -> None:
    """Every message equals its definition after every batch."""
    relations, text = NAMED[name]
    catalog = catalog_of(relations)
    chance = random.Random(size)
    rows = {
        relation.name: [
            tuple([place if c in relation.key else chance.randrange(3) for c in relation.names])
            for place in range(9)
        ]
        for relation in catalog
    }
    assert_maintains(catalog, [tree_query(text)], rows, size, seed=size)


@pytest.mark.parametrize("name", JOINS)
def test_few_maps_and_soon(name: str) -> None:
    """At most three maps for each joined table, planned in two seconds of processor."""
    joined, query = film_join(name)
    start = time.process_time()
    program = compile_program(read_catalog(SCHEMA), [query])
    assert time.process_time() - start < 2 * slack()
    assert len(program.state) <= 3 * joined
    assert parse_program(program_text(program)) == program


@pytest.mark.parametrize("name", JOINS)
def test_wide_joins_are_trees(name: str) -> None:
    choice = plan_choice(read_catalog(SCHEMA), film_join(name)[1])
    assert choice.plan is Plan.TREE
    assert choice.tree is not None


@pytest.mark.parametrize(("folder", "name"), [pair for pair in QUERIES if pair[0] != "tpcds"])
def test_known_workloads_stay_recursive(folder: str, name: str) -> None:
    catalog, query = workload(folder, name)
    assert plan_choice(catalog, query).plan is Plan.RECURSIVE


def test_a_recursive_plan_is_given_up_in_steps() -> None:
    """The same number of them everywhere, and explain says so; some are not even begun."""
    catalog, query = read_catalog(SCHEMA), film_join("tags by country")[1]
    assert plan_choice(catalog, query).reason == "recursive: given up after 333 steps"
    query = film_join("voices")[1]
    choice = plan_choice(catalog, query)
    assert choice.reason.startswith("recursive: not tried, the tree took ")
    assert choice.recursive is None
    shown = explain_plan(catalog, query)
    assert shown.startswith("view films: tree, recursive: not tried")
    assert "_id] tagged\n" in shown


def test_what_is_asked_for_is_taken() -> None:
    catalog = catalog_of("R(a, b) S(b, c)")
    query = replace(tree_query("Sum[a](R(a, b) * S(b, c))"), plan=Plan.RECURSIVE)
    assert plan_choice(catalog, query).reason == "asked for"
    assert parse_query(query_text(query)) == query
    shown = explain_plan(catalog, query)
    assert "  recursive  " in shown
    assert "  tree       " in shown


TABLES = "".join(f"CREATE STREAM t{i} (a INT NOT NULL, b INT NOT NULL);" for i in range(4))
PATH = (
    "SELECT t0.a, COUNT(*) AS n FROM t0, t1, t2, t3 "
    "WHERE t0.b = t1.a AND t1.b = t2.a AND t2.b = t3.a GROUP BY t0.a"
)


@pytest.mark.parametrize("first", ["recursive", "tree"])
def test_a_view_keeps_its_maps_when_another_plan_goes(first: str) -> None:
    """What a stream brought lives in maps: two plans share none that one of them needs."""
    second = {"recursive": "tree", "tree": "recursive"}[first]
    with viewlet.connect("interpreter") as db:
        db.execute(TABLES)
        for name, plan in (("one", first), ("two", second)):
            db.execute(f"CREATE MATERIALIZED VIEW {name} WITH (plan = '{plan}') AS {PATH}")
        for i in range(4):
            db.insert(f"t{i}", [(1, 1), (2, 1)])
        db.execute("DROP VIEW one")
        db.insert("t2", [(1, 2)])
        assert sorted(map(tuple, db.view("two").rows())) == [(1, 2), (2, 2)]


@pytest.mark.parametrize("plans", [(Plan.RECURSIVE, Plan.TREE), (Plan.TREE, Plan.RECURSIVE)])
def test_a_view_needs_the_same_maps_beside_another_plan(plans: tuple[Plan, Plan]) -> None:
    relations = "R(a, b) S(b, c) T(c, d) U(d, e)"
    query = tree_query("Sum[a, e](R(a, b) * S(b, c) * T(c, d) * U(d, e))")
    queries = [replace(query, name=plan.value, plan=plan) for plan in plans]
    together = compile_program(catalog_of(relations), queries)
    for query in queries:
        alone = compile_program(catalog_of(relations), [query])
        part = part_of(together, views=[v for v in together.views if v.name == query.name])
        assert _definitions(part) == _definitions(alone)


def _definitions(program: Program) -> list[str]:
    return sorted(to_text(c.definition) for m in program.state for c in m.columns if c.definition)


def test_an_unknown_plan_is_refused_at_its_place() -> None:
    with viewlet.connect("interpreter") as db:
        db.execute(TABLES)
        with pytest.raises(ResolutionError) as caught:
            db.execute(f"CREATE MATERIALIZED VIEW v WITH (plan = 'fast') AS {PATH}")
        assert "there is no plan 'fast'" in str(caught.value)
        assert caught.value.position is not None
        assert "write 'recursive' or 'tree'" in str(caught.value)
