"""Where a batch stops: an eager program -> the program whose views are re-evaluated on read.

    on r:                                   on r:
      m[a] += Δr(a, b)                        m[a] += Δr(a, b)
      v[a] := m[a].* * (x := n[]) ...   ->
                                            on read v:
                                              v[a] := m[a].* * (x := n[]) ...

What a trigger computes anew with := follows from what the other maps hold at that moment, whatever
the batch was: it is as true when the view is read as after each batch. So a map moves if some
trigger computes all of its columns anew, and if nothing but refreshes and views that are read in
this way needs it. Maps that only kept it current go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from viewlet.program.check import check
from viewlet.program.ir import Map, Program, Refresh, Statement
from viewlet.program.prune import drop_dead_maps, each_statement, maps_of


def reevaluate_on_read(program: Program, views: Collection[str]) -> Program:
    """The program in which these views are refreshed when they are read, as far as := goes."""
    if not views:
        return program
    while True:
        movable = next((m for m in program.maps if _may_move(m, program, views)), None)
        if movable is None:
            return check(program)
        program = drop_dead_maps(_moved(movable, program))


def reevaluated(program: Program, view: str) -> bool:
    """Whether a trigger computes a map of the view anew: an eager batch costs what that costs."""
    own = maps_of(next(v for v in program.views if v.name == view))
    return any(_computed_anew(program.map(name), program) for name in own)


def _may_move(map: Map, program: Program, views: Collection[str]) -> bool:
    if map.buffer or map.name in program.on_read or not _computed_anew(map, program):
        return False
    readers = {s.target for t in program.triggers for s in t.statements if map.name in s.reads}
    users = [view for view in program.views if map.name in maps_of(view)]
    refreshed = any(map.name in s.reads for r in program.refreshes for s in r.statements)
    return (
        readers <= {map.name}
        and all(view.name in views for view in users)
        and (bool(users) or refreshed)
    )


def _computed_anew(map: Map, program: Program) -> tuple[Statement, ...]:
    """The statements of a trigger that compute all columns of a map from other lasting maps."""
    for trigger in program.triggers:
        own = tuple(s for s in trigger.statements if s.target == map.name)
        columns = {c for s in own if s.op == ":=" for c, _ in s.updates}
        reads = frozenset[str]().union(*(s.reads for s in own))
        lasting = not any(program.map(name).buffer for name in reads)
        if columns == {c.name for c in map.columns} and lasting and map.name not in reads:
            return own
    return ()


def _moved(map: Map, program: Program) -> Program:
    """Triggers without the map; the refresh of every view that needs it computes it first."""
    own = _computed_anew(map, program)
    known = {refresh.view: refresh.statements for refresh in program.refreshes}
    refreshes = []
    for view in program.views:
        statements = known.get(view.name, ())
        if map.name in maps_of(view) or _reads(statements, map.name):
            # Statements that read it stand behind; those that it reads are eager, or follow later.
            statements = (*own, *statements)
        if statements:
            refreshes.append(Refresh(view.name, statements))
    rest = each_statement(program, lambda s: [] if s.target == map.name else [s])
    triggers = tuple(trigger for trigger in rest.triggers if trigger.statements)
    return replace(rest, triggers=triggers, refreshes=tuple(refreshes))


def _reads(statements: Iterable[Statement], name: str) -> bool:
    return any(name in statement.reads for statement in statements)
