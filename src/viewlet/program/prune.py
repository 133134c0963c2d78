"""Passes that leave maps out: those that hold what another holds, and those nobody reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from viewlet.calculus.expr import (
    Expr,
    Extreme,
    Lift,
    MapRef,
    Rel,
    product_of,
    transform,
    walk,
)
from viewlet.calculus.rewrite import canonical
from viewlet.program.ir import Map, Program, Statement, Trigger


def each_statement(program: Program, rule: Callable[[Statement], list[Statement]]) -> Program:
    triggers = (
        Trigger(t.relation, tuple(new for s in t.statements for new in rule(s)))
        for t in program.triggers
    )
    return replace(program, triggers=tuple(triggers))


def merge_duplicate_maps(program: Program) -> Program:
    """Two maps that hold the same under other names -> one of them, read in both places."""
    kept: dict[str, str] = {}
    replaced: dict[str, str] = {}
    for map in program.maps:
        if map.buffer:
            continue
        text = _contents_text(map)
        if text in kept:
            replaced[map.name] = kept[text]
        else:
            kept[text] = map.name
    if not replaced:
        return program

    def rule(node: Expr) -> Expr:
        if isinstance(node, MapRef) and node.name in replaced:
            return MapRef(replaced[node.name], node.column, node.keys)
        return node

    def redirect(s: Statement) -> list[Statement]:
        if s.target in replaced:
            return []
        updates = tuple((column, transform(update, rule)) for column, update in s.updates)
        return [replace(s, loop=transform(s.loop, rule), updates=updates)]

    def redirect_let(let: Lift | Extreme) -> Lift | Extreme:
        return replace(let, body=transform(let.body, rule))

    views = tuple(
        replace(
            view,
            query=replace(view.query, lets=tuple(map(redirect_let, view.query.lets))),
            sources=tuple((n, replaced.get(map, map), c) for n, map, c in view.sources),
        )
        for view in program.views
    )
    maps = tuple(m for m in program.maps if m.name not in replaced)
    return each_statement(replace(program, maps=maps, views=views), redirect)


def _contents_text(map: Map) -> str:
    """The map's columns with their definitions, the keys by their places."""
    places = {key: f"key{i}" for i, key in enumerate(map.key_names)}
    parts = []
    for column in map.columns:
        assert column.definition is not None
        marks = tuple(Rel(f"place {name}", (key,)) for key, name in places.items())
        form = canonical(product_of(column.definition, *marks))
        parts.append(f"{column.name}: {form.text}")
    return f"{len(places)} " + "; ".join(sorted(parts))


def drop_dead_maps(program: Program) -> Program:
    """Maps, buffers and statements from which no view is reached go."""
    live = {map for view in program.views for _, map, _ in view.sources}
    for let in (let for view in program.views for let in view.query.lets):
        live |= {node.name for node in walk(let) if isinstance(node, MapRef)}
    if not program.views:
        return program
    while True:
        reached = {
            name
            for trigger in program.triggers
            for statement in trigger.statements
            if statement.target in live
            for name in statement.reads
        }
        if reached <= live:
            break
        live |= reached
    maps = tuple(m for m in program.maps if m.name in live)
    kept = each_statement(program, lambda s: [s] if s.target in live else [])
    triggers = tuple(t for t in kept.triggers if t.statements)
    return replace(kept, maps=maps, triggers=triggers)
