"""What a view's work is expected to be where it is cut, in records that are touched (thesis 3.6).

    row       what one changed row touches, at the batch
    batch     what a batch touches besides, however few rows it has: what it computes anew
    refresh   what a read computes that finds something new

The sizes of maps are those of the running program where it has the same map, else those of the
tables that the map is over. So the figures compare ways to maintain one view as it is now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewlet.calculus.expr import Rel, walk
from viewlet.planner.plan_cost import RecordCounter
from viewlet.program.ir import Map, Program
from viewlet.program.keys import Keys


@dataclass(frozen=True)
class ModeWork:
    """Records touched; and whether a batch or a read has more to do the more is there."""

    row: float
    batch: float
    refresh: float


def mode_work(
    program: Program, view: str, sizes: Mapping[str, float], shares: Mapping[str, float]
) -> ModeWork:
    """The work of a program of one view. `shares`: which part of all batches is a relation's."""
    keys = Keys(program)
    row = batch = total = 0.0
    for trigger in program.triggers:
        share = shares.get(trigger.relation, 0.0)
        counter = RecordCounter(keys, sizes)
        for statement in trigger.statements:
            touched = counter.statement(statement)
            if statement.op == ":=":
                batch += share * touched
            else:
                row += share * touched
        total += share
    refresh = program.refresh(view)
    counter = RecordCounter(keys, sizes)
    read = sum(counter.statement(s) for s in refresh.statements) if refresh is not None else 0.0
    total = total or 1.0
    return ModeWork(row / total, batch / total, read)


def map_sizes(
    program: Program, running: Program, records: Mapping[str, int], rows: Mapping[str, int]
) -> dict[str, float]:
    """How many records each map of a program has, or would have.

    `records` are those of the running program's maps, `rows` those of tables.
    """
    known = {_definitions(map): float(records.get(map.name, 0)) for map in running.maps}
    largest = max([1.0, *known.values()])
    return {
        map.name: known[_definitions(map)]
        if _definitions(map) in known
        else _guess(map, rows, largest)
        for map in program.maps
    }


def _definitions(map: Map) -> object:
    return map.buffer, tuple(column.definition for column in map.columns)


def _guess(map: Map, rows: Mapping[str, int], largest: float) -> float:
    names = {
        node.name
        for column in map.columns
        if column.definition is not None
        for node in walk(column.definition)
        if isinstance(node, Rel)
    }
    if not map.keys:
        return 1.0
    if names and names <= rows.keys():
        return float(max(rows[name] for name in names))
    return largest
