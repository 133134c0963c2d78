"""What a program does: the slow definition that every engine is compared with.

A map is one weighted relation per value column. A batch is applied relation by relation; each
trigger's statements run in order over what the maps hold at that moment.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from viewlet.calculus.database import Atoms, ColumnReader, DefinedMaps
from viewlet.calculus.evaluate import Database, evaluate
from viewlet.calculus.expr import MapRef, walk
from viewlet.calculus.query import COUNT, ViewKind, make_rows
from viewlet.calculus.ring import Gmr, Key, Weight
from viewlet.program.ir import Map, Program, Statement, View
from viewlet.schema import Scalar

Store = dict[tuple[str, str], Gmr]
"""Contents by (map, column)."""


class MapStore:
    """The contents of some maps and of the running batch, and what statements do to them."""

    def __init__(self, maps: Iterable[Map]) -> None:
        self._maps = {map.name: map for map in maps}
        self.store: Store = {
            (m.name, c.name): Gmr() for m in self._maps.values() for c in m.columns
        }
        self.deltas: dict[str, Gmr] = {}
        self.atoms = Atoms(
            deltas=lambda name: self.deltas.get(name, _EMPTY),
            maps=lambda map, column: self.store[map, column],
            columns=self.columns,
        )

    def columns(self, map: str) -> list[str]:
        """The names of a map's value columns."""
        return [column.name for column in self._maps[map].columns]

    def clear_buffers(self) -> None:
        """Empty what lives for one trigger."""
        for (name, _), contents in self.store.items():
            if self._maps[name].buffer:
                contents.clear()

    def run(self, statement: Statement) -> None:
        """Compute all right-hand sides of a statement, then change its target."""
        changes = [
            (column, evaluate(expr, statement.keys, self.atoms))
            for column, expr in statement.expressions()
        ]
        for column, change in changes:
            target = self.store[statement.target, column]
            if statement.op == ":=":
                target.clear()
            for key, weight in change.items():
                target.add(key, weight)


class Interpreter(MapStore):
    """Keeps the maps of one program and runs its triggers."""

    def __init__(self, program: Program) -> None:
        super().__init__(program.maps)
        self.program = program

    def load(self, database: Mapping[str, Gmr]) -> None:
        """Fill every lasting map from its definition over the given base relations."""
        for map, column, contents in defined_contents(self.program, relations_of(database)):
            self.store[map.name, column] = contents

    def apply(self, relation: str, delta: Gmr) -> None:
        """Run the relation's trigger for one batch."""
        trigger = self.program.trigger(relation)
        if trigger is None:
            return
        self.clear_buffers()
        self.deltas = {relation: delta}
        for statement in trigger.statements:
            self.run(statement)
        self.deltas = {}

    def refresh(self, view: str) -> None:
        """Run what a read of the view does first."""
        refresh = self.program.refresh(view)
        if refresh is None:
            return
        self.clear_buffers()
        for statement in refresh.statements:
            self.run(statement)

    def rows(self, view: View) -> list[tuple[tuple[Scalar, ...], int]]:
        """The view's rows with multiplicities, before ORDER BY and LIMIT."""
        return view_rows(view, lambda map, column: self.store[map, column], self.atoms)


def relations_of(database: Mapping[str, Gmr]) -> Atoms:
    """Base relations by name, for definitions; those that are not named are empty."""
    return Atoms(relations=lambda name: database.get(name, _EMPTY))


def with_defined_maps(
    program: Program, database: Database, existing: Container[str] = ()
) -> Database:
    """The database with the maps that definitions of a program read, except the `existing`.

    A map of an inner view is named after what it holds: under the same name another program has the
    same map.
    """
    columns = [(map, column) for map in program.maps for column in map.columns]
    read = {
        node.name
        for _, column in columns
        if column.definition is not None
        for node in walk(column.definition)
        if isinstance(node, MapRef) and node.name not in existing
    }
    definitions = {
        map.name: (map.key_names, column.definition)
        for map, column in columns
        if map.name in read and column.definition is not None
    }
    return DefinedMaps(database, definitions) if definitions else database


def defined_contents(program: Program, database: Database) -> Iterator[tuple[Map, str, Gmr]]:
    """Each map and value column that has a definition, with what that says."""
    database = with_defined_maps(program, database)
    for map in program.maps:
        for column in map.columns:
            if column.definition is not None:
                yield map, column.name, evaluate(column.definition, map.key_names, database)


def view_rows(
    view: View, column: ColumnReader, database: Database
) -> list[tuple[tuple[Scalar, ...], int]]:
    """A view's rows with multiplicities, from its maps' columns; before ORDER BY and LIMIT."""
    sources = {name: column(map, c) for name, map, c in view.sources}
    return list(make_rows(view.query, _records(view, sources), database))


def _records(view: View, sources: Mapping[str, Gmr]) -> Iterator[tuple[Key, Mapping[str, Weight]]]:
    """The view's keys with their components' weights, only those that are there."""
    keys: Iterable[Key] = [()]
    if view.query.kind is not ViewKind.TOTAL:
        keys = [key for key, _ in sources[COUNT].items()]
    for key in keys:
        yield key, {name: contents[key] for name, contents in sources.items()}


_EMPTY = Gmr()
