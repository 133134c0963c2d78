"""Leaving out what nobody reads: a pass, and the part of a program that some views need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from viewlet.calculus.expr import MapRef, walk
from viewlet.program.ir import Map, Program, Refresh, Statement, Trigger, View


def each_statement(program: Program, rule: Callable[[Statement], list[Statement]]) -> Program:
    """s -> rule(s)  for every statement s of every trigger and refresh."""
    triggers = (
        Trigger(t.relation, tuple(new for s in t.statements for new in rule(s)))
        for t in program.triggers
    )
    refreshes = (
        Refresh(r.view, tuple(new for s in r.statements for new in rule(s)))
        for r in program.refreshes
    )
    return replace(program, triggers=tuple(triggers), refreshes=tuple(refreshes))


def drop_dead_maps(program: Program) -> Program:
    """Maps, buffers and statements from which no view is reached go."""
    return part_of(program, views=program.views) if program.views else program


def maps_of(view: View) -> frozenset[str]:
    """The maps that a view's rows are made of."""
    sources = {map for _, map, _ in view.sources}
    return frozenset(sources).union(
        node.name for let in view.query.lets for node in walk(let) if isinstance(node, MapRef)
    )


def views_over(program: Program, relations: Iterable[str]) -> list[str]:
    """The views that rows of these relations can change."""
    changed = frozenset(relations)
    triggers = [trigger for trigger in program.triggers if trigger.relation in changed]
    targets = {statement.target for trigger in triggers for statement in trigger.statements}
    return [view.name for view in program.views if maps_of(view) & targets]


def _defined_by(map: Map) -> Iterator[str]:
    """The maps that a map's definitions read: those of inner views."""
    for column in map.columns:
        if column.definition is not None:
            yield from (n.name for n in walk(column.definition) if isinstance(n, MapRef))


def part_of(program: Program, *, views: Iterable[View] = (), maps: Iterable[str] = ()) -> Program:
    """The part of a program that these views need: their maps and `maps`, all that they are
    defined by and maintained from, and the statements that do so.
    """
    chosen = tuple(views)
    needed = frozenset(maps).union(*(maps_of(view) for view in chosen))
    statements = [s for trigger in program.triggers for s in trigger.statements]
    statements += [s for refresh in program.refreshes for s in refresh.statements]
    while True:
        more = {name for s in statements if s.target in needed for name in s.reads}
        more |= {name for map in program.maps if map.name in needed for name in _defined_by(map)}
        more -= needed
        if not more:
            break
        needed |= more
    part = each_statement(program, lambda s: [s] if s.target in needed else [])
    return replace(
        part,
        maps=tuple(map for map in program.maps if map.name in needed),
        triggers=tuple(trigger for trigger in part.triggers if trigger.statements),
        refreshes=tuple(
            refresh for refresh in part.refreshes if refresh.view in {view.name for view in chosen}
        ),
        views=chosen,
    )
