"""The program that maintains views: what is kept, and what a batch does to it.

    map      keys -> value columns; a state map lasts, a buffer lives for one trigger
    trigger  what happens when a batch ΔR arrives; its statements run in order
    statement
        M[k] += loop | c1: e1, c2: e2     M[k].c_i += w * e_i for every row of the loop, of weight w
        M[k] := loop | c1: e1             the same after setting M's column c1 to 0 everywhere
    refresh  what happens when a view is read whose maps are not kept by every trigger
    view     how a user's rows are made from maps

A map is *eager* if triggers write it, and *on read* if refreshes do. Triggers read eager maps only,
so that the eager maps are all that a batch has to do with: the frontier. A refresh computes its
maps with := from eager maps, and gives the same however often it runs.

A loop over M[k].* runs over M's records; M[k].c behind the bar is then a column of that record.

Statements read what the maps hold at that moment: the order of a trigger's statements sees to it
that old values are read before they are written. A trigger's expressions mention ΔR and maps only,
never base relations. Everything here is immutable; passes make new programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from viewlet.calculus.expr import ONE, Expr, map_columns, product_of
from viewlet.calculus.query import Query
from viewlet.calculus.typing import Signature, Slot
from viewlet.names import FreshNames
from viewlet.schema import Physical, Relation


@dataclass(frozen=True)
class KeyColumn:
    """A column of a map's key."""

    name: str
    slot: Slot


@dataclass(frozen=True)
class ValueColumn:
    """A sum that is kept for every key. `definition` says of what, over base relations.

    Buffers have no definition: they hold a part of one batch's delta.
    """

    name: str
    physical: Physical
    definition: Expr | None = None


@dataclass(frozen=True)
class Map:
    """Keys -> value columns; a buffer lives for one trigger."""

    name: str
    keys: tuple[KeyColumn, ...]
    columns: tuple[ValueColumn, ...]
    buffer: bool = False
    change_of: str | None = None
    """The map whose change in the running trigger a buffer holds, if it is one map's."""

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of its keys, in order."""
        return tuple(key.name for key in self.keys)

    @property
    def signature(self) -> Signature:
        """The types of its keys and columns, as the calculus checks them."""
        return Signature(
            tuple(key.slot for key in self.keys),
            {column.name: column.physical for column in self.columns},
        )

    def column(self, name: str) -> ValueColumn:
        """The value column of this name."""
        return next(column for column in self.columns if column.name == name)


@dataclass(frozen=True)
class Statement:
    """target[keys] op loop | updates; see the module's head for the meaning."""

    target: str
    keys: tuple[str, ...]
    op: str
    loop: Expr
    updates: tuple[tuple[str, Expr], ...]

    def expressions(self) -> Iterator[tuple[str, Expr]]:
        """Each column with its whole right-hand side."""
        for column, update in self.updates:
            yield column, product_of(self.loop, update)

    @cached_property
    def reads(self) -> frozenset[str]:
        """The maps that the right-hand side looks into."""
        parts = (self.loop, *(update for _, update in self.updates))
        return frozenset(name for part in parts for name, _ in map_columns(part))


def statement(target: str, keys: tuple[str, ...], op: str, column: str, expr: Expr) -> Statement:
    """A statement for one column, before any fusion."""
    return Statement(target, keys, op, expr, ((column, ONE),))


@dataclass(frozen=True)
class Trigger:
    """What a batch of changes to one relation does. `variables` are ΔR's columns, for reading."""

    relation: str
    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class Refresh:
    """What a read of one view does first, if a batch has come since the last time."""

    view: str
    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class View:
    """A user's view over maps: the query with each component's map and column.

    `query.components` keep their definitions; `sources` says where each is kept. `query.lets` are
    already over maps.
    """

    query: Query
    sources: tuple[tuple[str, str, str], ...]  # component, map, column

    @property
    def name(self) -> str:
        """The name that users read it by."""
        return self.query.name


@dataclass(frozen=True)
class Program:
    """Everything that is done for a set of views."""

    relations: tuple[Relation, ...]
    maps: tuple[Map, ...]
    triggers: tuple[Trigger, ...]
    views: tuple[View, ...] = ()
    refreshes: tuple[Refresh, ...] = ()

    def map(self, name: str) -> Map:
        """The map of this name."""
        return self._maps[name]

    @property
    def _maps(self) -> Mapping[str, Map]:
        return {m.name: m for m in self.maps}

    @property
    def state(self) -> tuple[Map, ...]:
        """The maps that last and change."""
        written = {s.target for t in self.triggers for s in t.statements} | self.on_read
        return tuple(m for m in self.maps if not m.buffer and m.name in written)

    @cached_property
    def on_read(self) -> frozenset[str]:
        """The names of the maps that only refreshes write, buffers among them."""
        return frozenset(s.target for r in self.refreshes for s in r.statements)

    @property
    def constants(self) -> tuple[Map, ...]:
        """The maps over static tables alone: loaded once, never written."""
        state = self.state
        return tuple(m for m in self.maps if not m.buffer and m not in state)

    def relation(self, name: str) -> Relation:
        """The relation of this name."""
        return next(r for r in self.relations if r.name == name)

    def trigger(self, relation: str) -> Trigger | None:
        """What batches to this relation do; None if no view depends on it."""
        return next((t for t in self.triggers if t.relation == relation), None)

    def refresh(self, view: str) -> Refresh | None:
        """What a read of the view has to do first; None if triggers keep all of it."""
        return next((r for r in self.refreshes if r.view == view), None)

    def signatures(self) -> dict[str, Signature]:
        """Slots of relations and maps by name; relations weigh int."""
        signatures = {m.name: m.signature for m in self.maps}
        for relation in self.relations:
            signatures[relation.name] = relation_signature(relation)
        return signatures

    def names(self) -> FreshNames:
        """All names in use, and new ones for maps."""
        names = FreshNames(relation.name for relation in self.relations)
        names.reserve(map.name for map in self.maps)
        names.reserve(view.name for view in self.views)
        return names

    def with_maps(self, maps: tuple[Map, ...]) -> Program:
        """The same program with other maps."""
        return replace(self, maps=maps)


def relation_signature(relation: Relation) -> Signature:
    """The slots of a relation's columns; it weighs an integer."""
    slots = tuple(Slot(c.type.physical, c.nullable) for c in relation.columns)
    return Signature(slots, {"value": Physical.INT})
