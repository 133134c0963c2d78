"""A program without some of its maps: which triggers are left, and what they still do."""

from __future__ import annotations

from viewlet.frontend.lower import lower_view
from viewlet.frontend.parse import parse
from viewlet.frontend.statements import CreateRelation, CreateView
from viewlet.planner.viewlets import compile_program
from viewlet.program.check import check
from viewlet.program.ir import Program
from viewlet.program.live_maps import (
    droppable_maps,
    lasting_maps,
    needed_maps,
    with_live_maps,
    without_changes_of,
)
from viewlet.schema import Catalog

TEXT = """
CREATE TABLE r (a INTEGER NOT NULL, b INTEGER NOT NULL);
CREATE TABLE s (b INTEGER NOT NULL, c INTEGER NOT NULL);
CREATE STREAM t (c INTEGER NOT NULL, d INTEGER NOT NULL);
CREATE VIEW v AS SELECT r.a, SUM(t.d) AS x
FROM r JOIN s ON r.b = s.b JOIN t ON s.c = t.c GROUP BY r.a
"""
ALL = frozenset("rst")


def program() -> Program:
    statements = parse(TEXT)
    relations = [s.relation for s in statements if isinstance(s, CreateRelation)]
    catalog = Catalog({relation.name: relation for relation in relations})
    view = next(s for s in statements if isinstance(s, CreateView))
    return compile_program(catalog, [lower_view(view, catalog, {})])


def over(made: Program) -> dict[frozenset[str], str]:
    """The maps by the relations that they are made of."""
    from viewlet.program.fill_plan import relations_behind

    behind = relations_behind(made)
    return {behind(m): m.name for m in lasting_maps(made, ALL) if m.name != "v"}


def test_what_one_relation_needs() -> None:
    made = program()
    maps = over(made)
    needed = needed_maps(made, ["v"], {"t"})
    assert maps[frozenset("rs")] in needed
    assert maps[frozenset("st")] not in needed


def test_what_streams_have_brought_is_not_droppable() -> None:
    made = program()
    names = droppable_maps(made, ALL, "v", {"r", "s"})
    assert names == {name for behind, name in over(made).items() if "t" not in behind}


def test_a_trigger_that_would_look_into_a_dropped_map_goes() -> None:
    made = program()
    dropped = {over(made)[frozenset("rs")]}
    part = check(with_live_maps(made, ALL, dropped))
    assert part.trigger("t") is None
    trigger = part.trigger("r")
    assert trigger is not None
    assert not any(s.target in dropped for s in trigger.statements)
    assert with_live_maps(made, ALL, ()) is made


def test_relations_that_never_change_again_need_nothing() -> None:
    made = program()
    part = check(without_changes_of(made, {"r", "s"}))
    assert [t.relation for t in part.triggers] == ["t"]
    assert {m.name for m in part.maps if not m.buffer} == {"v", over(made)[frozenset("rs")]}
    assert without_changes_of(part, {"r"}) is part
