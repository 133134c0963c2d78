"""The materialization rules of Figure 3.1 and our own, each on the smallest query that shows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.planner.support import catalog_of, compile_text
from viewlet.calculus.query import Query, ViewKind
from viewlet.calculus.scope import outputs
from viewlet.calculus.text import parse
from viewlet.planner.viewlets import compile_program
from viewlet.program.text import statement_text
from viewlet.schema import Catalog

FOLDER = Path(__file__).parents[1] / "fixtures/materialize"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda p: p.stem)
def test_rule(path: Path) -> None:
    before, after = path.read_text().split("\n->\n")
    relations, changes, query = before.split("\n")
    program = compile_text(query, relations.removeprefix("relations: "))
    trigger = program.trigger(changes.removeprefix("changes: "))
    assert trigger is not None
    found = "\n".join(statement_text(statement).strip() for statement in trigger.statements)
    assert found == after.strip()


def test_joins_along_keys_stay_whole_where_that_is_asked_for() -> None:
    before = (FOLDER / "keyed_join.txt").read_text().split("\n->\n")[0]
    relations, _, text = before.split("\n")
    expr = parse(text)
    query = Query("q", ViewKind.GROUP, tuple(sorted(outputs(expr))), (("count", expr),), ())
    catalog = catalog_of(relations.removeprefix("relations: "))
    whole = compile_program(catalog, [query], keyed=False)
    parts = compile_program(catalog, [query])
    assert {m.name for m in whole.maps} - {m.name for m in parts.maps} == {"m_O_L"}


def test_joins_with_what_never_changes_stay_whole_under_a_domain() -> None:
    before = (FOLDER / "keyed_domain.txt").read_text().split("\n->\n")[0]
    relations, _, text = before.split("\n")
    expr = parse(text)
    query = Query("q", ViewKind.GROUP, tuple(sorted(outputs(expr))), (("count", expr),), ())
    catalog = Catalog()
    for relation in catalog_of(relations.removeprefix("relations: ")):
        catalog.add(replace(relation, static=relation.name == "S"))
    program = compile_program(catalog, [query])
    assert {m.name for m in program.maps if not m.buffer} == {"q", "m_M", "m_S", "m_L_S"}
