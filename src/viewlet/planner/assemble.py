"""From update expressions to a program: buffers, statement order and types.

Statements of a trigger run in order, so that

    buffers are filled before anything reads them,
    a map is read (its old contents) before it is updated,
    rows that are replaced go as they are, and come back from maps that are updated already,
    recomputed maps come last, each after the maps that it reads (their new contents).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from viewlet.calculus.expr import Expr, MapRef, negate, walk
from viewlet.calculus.typing import Signatures, Slot, variable_slots, weight_type
from viewlet.errors import ProgramError
from viewlet.planner.maps import Maps, PlannedMap
from viewlet.program.ir import (
    KeyColumn,
    Map,
    Program,
    Refresh,
    Statement,
    Trigger,
    ValueColumn,
    View,
    relation_signature,
    statement,
)
from viewlet.schema import Catalog, Physical

Updates = dict[str, dict[str, Expr]]
"""Right-hand sides by map and column."""

Replacements = dict[str, dict[str, tuple[Expr, Expr]]]
"""What goes and what comes, by map and column."""


@dataclass
class Maintenance:
    """What each relation's batch does to each map column."""

    updates: dict[str, Updates] = field(default_factory=dict)
    recomputed: dict[str, Updates] = field(default_factory=dict)
    replaced: dict[str, Replacements] = field(default_factory=dict)
    refreshed: dict[str, Updates] = field(default_factory=dict)
    """What a read of each view does."""

    def update(self, relation: str, map: str, column: str, expr: Expr) -> None:
        """On a batch to the relation, the column changes by this expression."""
        self.updates.setdefault(relation, {}).setdefault(map, {})[column] = expr

    def recompute(self, relation: str, map: str, column: str, expr: Expr) -> None:
        """On a batch to the relation, the column becomes this expression."""
        self.recomputed.setdefault(relation, {}).setdefault(map, {})[column] = expr

    def replace(self, relation: str, map: str, column: str, out: Expr, into: Expr) -> None:
        """On a batch to the relation, the column loses some of its rows, as they are before the
        batch, and gets others, from what maps hold after it."""
        self.replaced.setdefault(relation, {}).setdefault(map, {})[column] = (out, into)

    def refresh(self, view: str, map: str, column: str, expr: Expr) -> None:
        """On a read of the view, the column becomes this expression."""
        self.refreshed.setdefault(view, {}).setdefault(map, {})[column] = expr

    def is_recomputed(self, relation: str, map: str, column: str) -> bool:
        """Whether the column is computed anew on a batch to the relation."""
        return column in self.recomputed.get(relation, {}).get(map, {})


def assemble(
    catalog: Catalog, maps: Maps, maintenance: Maintenance, views: tuple[View, ...]
) -> Program:
    """The program of the maps, their updates and the views, with statements in a safe order."""
    typed = _typed_maps(catalog, maps)
    triggers = []
    buffers: dict[str, Map] = {}
    for relation in sorted(maintenance.updates.keys() | maintenance.recomputed.keys()):
        statements, buffered = _trigger(
            maps,
            maintenance.updates.get(relation, {}),
            maintenance.replaced.get(relation, {}),
            maintenance.recomputed.get(relation, {}),
        )
        triggers.append(Trigger(relation, statements))
        for name in sorted(buffered):
            buffers[name] = _buffer(maps.change(name), typed[name])
    every = (*typed.values(), *buffers.values())
    refreshes = tuple(
        Refresh(view, tuple(_recomputations(maps, columns)))
        for view, columns in maintenance.refreshed.items()
    )
    return Program(tuple(catalog), every, tuple(triggers), views, refreshes)


def _trigger(
    maps: Maps, updates: Updates, replaced: Replacements, recomputed: Updates
) -> tuple[tuple[Statement, ...], set[str]]:
    parts = [expr for columns in updates.values() for expr in columns.values()]
    parts += [expr for columns in replaced.values() for both in columns.values() for expr in both]
    buffered = {
        maps.changed(node.name)
        for expr in parts
        for node in walk(expr)
        if isinstance(node, MapRef) and node.buffer
    } | replaced.keys()
    while True:
        ordered = _try_order(maps, updates, replaced, buffered)
        if isinstance(ordered, str):
            buffered.add(ordered)
        else:
            break
    return (*ordered, *_recomputations(maps, recomputed)), buffered


@dataclass
class _Step:
    """Statements that stay together: one map's update, or one buffer's filling.

    `reads_new`: it reads what maps hold after the batch, and waits until they are updated, but for
    `old`, which it reads as it is.
    """

    target: str
    statements: list[Statement]
    reads: frozenset[str]
    fills_buffer: bool
    reads_new: bool = False
    old: str = ""


def _try_order(
    maps: Maps, updates: Updates, replaced: Replacements, buffered: set[str]
) -> list[Statement] | str:
    """The statements in order, or the name of a map that must be buffered to break a cycle."""
    steps: list[_Step] = []
    for name, columns in updates.items():
        keys = maps.by_name[name].keys
        target = maps.change(name) if name in buffered else name
        filling = [statement(target, keys, "+=", c, expr) for c, expr in columns.items()]
        steps.append(_step(target, filling, fills_buffer=name in buffered))
        if name in buffered:
            changes = {column: MapRef(target, column, keys, buffer=True) for column in columns}
            adding = [statement(name, keys, "+=", c, change) for c, change in changes.items()]
            steps.append(_step(name, adding))
    for name, rows in replaced.items():
        steps += _replacement(maps, name, rows)
    filled = frozenset(step.target for step in steps if step.fills_buffer)
    ordered: list[Statement] = []
    waiting = list(steps)
    while waiting:
        pending = {step.target for step in waiting}
        ready = next((s for s in waiting if _may_run(s, waiting, pending & filled)), None)
        if ready is None:
            stuck = next(s.target for s in waiting if not s.fills_buffer)
            direct = [s.target for s in waiting if s.target in updates and s.target not in buffered]
            if not direct:
                raise ProgramError(f"statements that update {stuck} wait for each other")
            return direct[0]
        waiting.remove(ready)
        ordered += ready.statements
    return ordered


def _replacement(maps: Maps, name: str, columns: Mapping[str, tuple[Expr, Expr]]) -> list[_Step]:
    """d_M -= what goes;  d_M += what comes;  M += d_M

    What is touched may be said by maps of the source, as they are after the batch.
    """
    keys, buffer = maps.by_name[name].keys, maps.change(name)
    out = [statement(buffer, keys, "+=", c, negate(old)) for c, (old, _) in columns.items()]
    into = [statement(buffer, keys, "+=", c, new) for c, (_, new) in columns.items()]
    adding = [statement(name, keys, "+=", c, MapRef(buffer, c, keys, buffer=True)) for c in columns]
    read = frozenset[str]().union(*(s.reads for s in out)) - {name}
    reads_new = any(other in maps.by_name for other in read)
    return [
        _step(buffer, out, fills_buffer=True, reads_new=reads_new, old=name),
        _step(buffer, into, fills_buffer=True, reads_new=True),
        _step(name, adding),
    ]


def _step(
    target: str,
    statements: list[Statement],
    fills_buffer: bool = False,
    reads_new: bool = False,
    old: str = "",
) -> _Step:
    reads = frozenset[str]().union(*(s.reads for s in statements))
    return _Step(target, statements, reads, fills_buffer, reads_new, old)


def _may_run(step: _Step, waiting: list[_Step], unfilled: Set[str]) -> bool:
    """Its buffers are filled, and nobody who is still waiting reads what it writes."""
    if step.reads & unfilled:
        return False
    if step.reads_new:
        return not any(other.target in step.reads - {step.old} for other in waiting)
    if step.fills_buffer:
        return True
    return not any(
        step.target in other.reads for other in waiting if other is not step and not other.reads_new
    )


def _recomputations(maps: Maps, recomputed: Updates) -> Iterable[Statement]:
    waiting = {
        name: [statement(name, maps.by_name[name].keys, ":=", c, e) for c, e in columns.items()]
        for name, columns in recomputed.items()
    }
    while waiting:
        ready = next(
            (n for n, own in waiting.items() if not any(s.reads & waiting.keys() for s in own)),
            None,
        )
        if ready is None:
            raise ProgramError(f"recomputed maps {', '.join(waiting)} read each other")
        yield from waiting.pop(ready)


def _typed_maps(catalog: Catalog, maps: Maps) -> dict[str, Map]:
    signatures = {relation.name: relation_signature(relation) for relation in catalog}
    typed: dict[str, Map] = {}
    for planned in maps:
        # Definitions read inner views, which stand before.
        typed[planned.name] = _typed(planned, maps, signatures)
        signatures[planned.name] = typed[planned.name].signature
    return typed


def _typed(planned: PlannedMap, maps: Maps, signatures: Signatures) -> Map:
    columns = []
    slots: dict[str, Slot] = {}
    for name, definition in planned.columns.items():
        column_slots = variable_slots(definition, signatures)
        for key in planned.keys:
            if key in column_slots:
                slots[key] = _wider(slots.get(key), column_slots[key])
        physical = weight_type(definition, signatures, column_slots)
        columns.append(ValueColumn(name, physical, maps.inline(definition)))
    # A view that is empty by definition says nothing about its keys.
    unknown = Slot(Physical.INT, nullable=True)
    keys = tuple(KeyColumn(key, slots.get(key, unknown)) for key in planned.keys)
    return Map(planned.name, keys, tuple(columns))


def _wider(previous: Slot | None, slot: Slot) -> Slot:
    if previous is None:
        return slot
    return Slot(slot.physical, previous.nullable or slot.nullable)


def _buffer(name: str, map: Map) -> Map:
    columns = tuple(ValueColumn(c.name, c.physical) for c in map.columns)
    return Map(name, map.keys, columns, buffer=True, change_of=map.name)
