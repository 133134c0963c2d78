"""From update expressions to a program: buffers, statement order and types.

Statements of a trigger run in order, so that

    buffers are filled before anything reads them,
    a map is read (its old contents) before it is updated,
    rows that are replaced go as they are, and come back from maps that are updated already;
    whoever needs both such rows and the old contents of such a map subtracts its change,
    recomputed maps come last, each after the maps that it reads (their new contents).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from viewlet.calculus.expr import PRESENCE, Expr, MapRef, negate, sum_of, transform, walk
from viewlet.calculus.rewrite import expand
from viewlet.calculus.schedule import schedule
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
    after: dict[str, frozenset[str]] = {}
    while True:
        ordered = _try_order(maps, updates, replaced, buffered, after)
        if isinstance(ordered, str):
            buffered.add(ordered)
        elif isinstance(ordered, _ReadAfter):
            buffered.add(ordered.map)
            after[ordered.target] = after.get(ordered.target, frozenset()) | {ordered.map}
        else:
            break
    return (*ordered, *_recomputations(maps, recomputed)), buffered


@dataclass
class _Step:
    """Statements that stay together: one map's update, or one buffer's filling.

    `after`: maps that it reads as they are after the batch; it waits until they are updated.
    """

    target: str
    statements: list[Statement]
    reads: frozenset[str]
    fills_buffer: bool
    after: frozenset[str]


@dataclass(frozen=True)
class _ReadAfter:
    """The update of `target` has to read `map` after its update, to break a cycle."""

    target: str
    map: str


def _try_order(
    maps: Maps,
    updates: Updates,
    replaced: Replacements,
    buffered: set[str],
    after: Mapping[str, frozenset[str]],
) -> list[Statement] | str | _ReadAfter:
    """The statements in order, or how to break a cycle: the name of a map that must be buffered,
    or a map that must be read after its update."""
    steps: list[_Step] = []
    for name, columns in updates.items():
        keys = maps.by_name[name].keys
        target = maps.change(name) if name in buffered else name
        late = after.get(name, frozenset[str]())
        filling = [
            statement(target, keys, "+=", c, _before(expr, maps, late))
            for c, expr in columns.items()
        ]
        steps.append(_step(target, filling, fills_buffer=name in buffered, after=late))
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
            if direct:
                return direct[0]
            late_read = _late_read(maps, updates, waiting)
            if late_read is None:
                raise ProgramError(f"statements that update {stuck} wait for each other")
            return late_read
        waiting.remove(ready)
        ordered += ready.statements
    return ordered


def _late_read(maps: Maps, updates: Updates, waiting: list[_Step]) -> _ReadAfter | None:
    """An update that reads the old contents of a map whose new ones others wait for."""
    names = {maps.change(name): name for name in updates} | {name: name for name in updates}
    new = frozenset[str]().union(*(step.after for step in waiting))
    updated = {step.target for step in waiting if not step.fills_buffer}
    for step in waiting:
        for map in sorted((step.reads - step.after) & new & updated):
            if step.target in (map, maps.change(map)) or step.target not in names:
                continue
            target = names[step.target]
            if not any(_asks_presence(expr, map) for expr in updates[target].values()):
                return _ReadAfter(target, map)
    return None


def _asks_presence(expr: Expr, map: str) -> bool:
    """Whether a record is there is nothing that a change can be subtracted from."""
    return any(
        isinstance(node, MapRef) and node.name == map and node.column == PRESENCE
        for node in walk(expr)
    )


def _before(expr: Expr, maps: Maps, updated: frozenset[str]) -> Expr:
    """M -> M - d_M  for a map that is read after its update: what it was before"""
    if not updated:
        return expr

    def rule(node: Expr) -> Expr:
        if not isinstance(node, MapRef) or node.name not in updated:
            return node
        change = MapRef(maps.change(node.name), node.column, node.keys, buffer=True)
        return sum_of(node, negate(change))

    return sum_of(*(schedule(part.expr()) for part in expand(transform(expr, rule))))


def _replacement(maps: Maps, name: str, columns: Mapping[str, tuple[Expr, Expr]]) -> list[_Step]:
    """d_M -= what goes;  d_M += what comes;  M += d_M

    What is touched may be said by maps of the source, as they are after the batch.
    """
    keys, buffer = maps.by_name[name].keys, maps.change(name)
    out = [statement(buffer, keys, "+=", c, negate(old)) for c, (old, _) in columns.items()]
    into = [statement(buffer, keys, "+=", c, new) for c, (_, new) in columns.items()]
    adding = [statement(name, keys, "+=", c, MapRef(buffer, c, keys, buffer=True)) for c in columns]
    touching = frozenset(read for read in _reads(out) if read in maps.by_name and read != name)
    return [
        _step(buffer, out, fills_buffer=True, after=touching),
        _step(buffer, into, fills_buffer=True, after=_reads(into)),
        _step(name, adding),
    ]


def _step(
    target: str,
    statements: list[Statement],
    fills_buffer: bool = False,
    after: frozenset[str] = frozenset(),
) -> _Step:
    return _Step(target, statements, _reads(statements), fills_buffer, after)


def _reads(statements: list[Statement]) -> frozenset[str]:
    return frozenset[str]().union(*(s.reads for s in statements))


def _may_run(step: _Step, waiting: list[_Step], unfilled: Set[str]) -> bool:
    """Its buffers are filled, what it reads new is updated, and nobody who is still waiting reads
    the old contents of what it writes."""
    others = [other for other in waiting if other is not step]
    if step.reads & unfilled or any(other.target in step.after for other in others):
        return False
    return step.fills_buffer or not any(
        step.target in other.reads - other.after for other in others
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
