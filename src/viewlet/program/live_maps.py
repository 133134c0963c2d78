"""A view between its refreshes: the part of its maps that is there, and what batches can use of it.

    needed_maps    what changes of some relations must find, so that the targets stay right
    with_live_maps program -> the program that keeps some maps of some relations' views alone:

        on r@v:                                        on r@v:
          v[a] += Δr(a, b) | count: m_s[b]               v[a] += Δr(a, b) | count: m_s[b]
          m_r[b] += Δr(a, b) | count: 1        ->
        on s@v:
          v[a] += Δs(b) | count: m_r[a, b]             m_r is not live: s@v has no trigger

A relation whose changes would look into a map that is not live has no trigger: before its rows are
applied the map must be there again (paper 002, where states are kept, dropped and built anew).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from viewlet.program.fill_plan import relations_behind
from viewlet.program.ir import Map, Program, Statement, Trigger
from viewlet.program.prune import drop_dead_maps, maps_of


def needed_maps(
    program: Program, targets: Iterable[str], relations: Collection[str]
) -> frozenset[str]:
    """The targets, and the maps that their changes are made from when these relations change."""
    statements = [s for t in program.triggers if t.relation in relations for s in t.statements]
    needed = frozenset(targets)
    while True:
        more = {name for s in statements if s.target in needed for name in s.reads} - needed
        if not more:
            return needed
        needed |= more


def lasting_maps(program: Program, relations: Collection[str]) -> tuple[Map, ...]:
    """The maps that changes of these relations keep current."""
    written = {s.target for t in program.triggers if t.relation in relations for s in t.statements}
    return tuple(m for m in program.maps if m.name in written and not m.buffer)


def droppable_maps(
    program: Program, relations: Collection[str], view: str, stored: Collection[str]
) -> frozenset[str]:
    """Those that follow from rows that are kept: all relations behind them are tables.

    A view's own maps are its answer, and stay.
    """
    own = maps_of(next(v for v in program.views if v.name == view))
    behind = relations_behind(program)
    return frozenset(
        m.name
        for m in lasting_maps(program, relations)
        if m.name not in own and behind(m) <= frozenset(stored)
    )


def with_live_maps(
    program: Program, relations: Collection[str], dropped: Collection[str]
) -> Program:
    """The program without the dropped maps, which these relations alone keep current."""
    if not dropped:
        return program
    live = [m.name for m in program.maps if not m.buffer and m.name not in dropped]
    triggers = []
    for trigger in program.triggers:
        if trigger.relation not in relations:
            triggers.append(trigger)
            continue
        statements = _statements(program, trigger, live, dropped)
        if statements:
            triggers.append(Trigger(trigger.relation, statements))
    used = {s.target for t in triggers for s in t.statements}
    used |= {s.target for r in program.refreshes for s in r.statements}
    maps = [m for m in program.maps if (m.name in used if m.buffer else m.name not in dropped)]
    return replace(program, maps=tuple(maps), triggers=tuple(triggers))


def _statements(
    program: Program, trigger: Trigger, live: Iterable[str], dropped: Collection[str]
) -> tuple[Statement, ...]:
    """What is left of a trigger; nothing if it would look into a dropped map."""
    needed = needed_maps(program, live, (trigger.relation,))
    if needed & frozenset(dropped):
        return ()
    return tuple(s for s in trigger.statements if s.target in needed)


def without_changes_of(program: Program, relations: Collection[str]) -> Program:
    """The program when these relations never change again: no triggers, nor maps for them alone."""
    if not any(program.trigger(name) is not None for name in relations):
        return program
    triggers = tuple(t for t in program.triggers if t.relation not in relations)
    return drop_dead_maps(replace(program, triggers=triggers))
