"""What a programme does: the slow definition that every engine is compared with.

Maps are held as one weighted relation per value column. A batch is applied relation by relation;
each trigger's statements run in order over what the maps hold at that moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from viewlet.calculus.evaluate import evaluate
from viewlet.calculus.expr import PRESENCE, Delta, MapRef, Rel
from viewlet.calculus.query import COUNT, ViewKind, make_rows
from viewlet.calculus.ring import Gmr, Key, Weight
from viewlet.errors import ProgramError
from viewlet.program.ir import Program, Statement, View
from viewlet.schema import Scalar

Store = dict[tuple[str, str], Gmr]
"""Contents by (map, column)."""


class Interpreter:
    """Holds the maps of one programme and runs its triggers."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.store: Store = {(m.name, c.name): Gmr() for m in program.maps for c in m.columns}
        self._delta: dict[str, Gmr] = {}

    # The Database that evaluate() asks.

    def contents(self, atom: Rel | Delta | MapRef) -> Gmr:
        if isinstance(atom, MapRef):
            if atom.column == PRESENCE:
                return self._presence(atom.name)
            return self.store[atom.name, atom.column]
        if isinstance(atom, Delta):
            return self._delta.get(atom.name, _EMPTY)
        raise ProgramError(f"a trigger reads base relation {atom.name}")

    def _presence(self, name: str) -> Gmr:
        columns = [self.store[name, column.name] for column in self.program.map(name).columns]
        keys = {key for contents in columns for key, _ in contents.items()}
        return Gmr((key, 1) for key in keys)

    def load(self, database: Mapping[str, Gmr]) -> None:
        """Fill every lasting map from its definition over the given base relations."""
        source = _Relations(database)
        for map in self.program.maps:
            for column in map.columns:
                if column.definition is not None:
                    found = evaluate(column.definition, map.key_names, source)
                    self.store[map.name, column.name] = found

    def apply(self, relation: str, delta: Gmr) -> None:
        """Run the relation's trigger for one batch."""
        trigger = self.program.trigger(relation)
        if trigger is None:
            return
        for map in self.program.maps:
            if map.buffer:
                for column in map.columns:
                    self.store[map.name, column.name].clear()
        self._delta = {relation: delta}
        for statement in trigger.statements:
            self._run(statement)
        self._delta = {}

    def _run(self, statement: Statement) -> None:
        changes = [
            (column, evaluate(expr, statement.keys, self))
            for column, expr in statement.expressions()
        ]
        for column, change in changes:
            target = self.store[statement.target, column]
            if statement.op == ":=":
                target.clear()
            for key, weight in change.items():
                target.add(key, weight)

    def records(self, view: View) -> Iterator[tuple[Key, Mapping[str, Weight]]]:
        """The view's keys with their components' weights, only those that are there."""
        sources = {name: self.store[map, column] for name, map, column in view.sources}
        if view.query.kind is ViewKind.TOTAL:
            keys: Iterable[Key] = [()]
        else:
            keys = [key for key, _ in sources[COUNT].items()]
        for key in keys:
            yield key, {name: contents[key] for name, contents in sources.items()}

    def rows(self, view: View) -> list[tuple[tuple[Scalar, ...], int]]:
        """The view's rows with multiplicities, before ORDER BY and LIMIT."""
        return list(make_rows(view.query, self.records(view), self))

    def snapshot(self) -> Store:
        return {place: contents.copy() for place, contents in self.store.items()}

    def restore(self, snapshot: Store) -> None:
        self.store = snapshot


class _Relations:
    def __init__(self, contents: Mapping[str, Gmr]) -> None:
        self._contents = contents

    def contents(self, atom: Rel | Delta | MapRef) -> Gmr:
        return self._contents.get(atom.name, _EMPTY)


_EMPTY = Gmr()
