"""Leaving out what nobody reads: a pass, and the part of a programme that some maps need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import replace

from viewlet.calculus.expr import (
    MapRef,
    walk,
)
from viewlet.program.ir import Program, Statement, Trigger


def each_statement(program: Program, rule: Callable[[Statement], list[Statement]]) -> Program:
    triggers = (
        Trigger(t.relation, tuple(new for s in t.statements for new in rule(s)))
        for t in program.triggers
    )
    return replace(program, triggers=tuple(triggers))


def drop_dead_maps(program: Program) -> Program:
    """Maps, buffers and statements from which no view is reached go."""
    if not program.views:
        return program
    live = {map for view in program.views for _, map, _ in view.sources}
    for let in (let for view in program.views for let in view.query.lets):
        live |= {node.name for node in walk(let) if isinstance(node, MapRef)}
    return _reaching(program, live)


def maintaining(program: Program, maps: Iterable[str]) -> Program:
    """The part of a programme that keeps some maps current, without views."""
    return replace(_reaching(program, frozenset(maps)), views=())


def _reaching(program: Program, live: Set[str]) -> Program:
    """The maps in `live` and all that they are maintained from."""
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
        live = live | reached
    maps = tuple(m for m in program.maps if m.name in live)
    kept = each_statement(program, lambda s: [s] if s.target in live else [])
    triggers = tuple(t for t in kept.triggers if t.statements)
    return replace(kept, maps=maps, triggers=triggers)
