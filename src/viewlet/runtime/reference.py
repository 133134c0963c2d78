"""The interpreter as an engine: slow, and right by definition."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from viewlet.calculus.evaluate import evaluate
from viewlet.calculus.expr import Delta, MapRef, Rel
from viewlet.calculus.ring import Gmr, Weight
from viewlet.errors import StateError, UnsupportedError
from viewlet.program.interpret import Interpreter, Store
from viewlet.program.ir import Program, View
from viewlet.program.text import program_text
from viewlet.runtime.batching import Batch, batch_of, weighted_rows
from viewlet.runtime.engine import (
    Held,
    MapSize,
    Row,
    Weighted,
    difference,
    from_old_maps,
    visible_rows,
)
from viewlet.runtime.reading import vector_of
from viewlet.runtime.tables import Table, negated
from viewlet.schema import Relation

_STATE = "maps.json"


class ReferenceEngine:
    """Runs `program.interpret`; the state before the last batch is kept for undo and changes."""

    def __init__(self) -> None:
        self._machine = Interpreter(Program((), (), ()))
        self._tables: dict[str, Table] = {}
        self._before: Store = {}
        self._last: list[tuple[Table, Gmr]] = []

    @property
    def program(self) -> Program:
        return self._machine.program

    def install(self, program: Program, tables: Sequence[Relation], passed: frozenset[str]) -> None:
        old = self._machine
        kept = {r.name: self._kept(r) for r in tables}
        held = Held(old.program)
        source = _Sources(kept, old)
        machine = Interpreter(program)
        for map in program.maps:
            for column in map.columns:
                definition = column.definition
                if definition is None:
                    continue
                moved = from_old_maps(held, definition, map.key_names, passed)
                contents = evaluate(moved or definition, map.key_names, source)
                machine.store[map.name, column.name] = contents
        self._use(machine, kept)

    def _kept(self, relation: Relation) -> Table:
        old = self._tables.get(relation.name)
        return old if old is not None and old.relation == relation else Table(relation)

    def _use(self, machine: Interpreter, tables: dict[str, Table]) -> None:
        self._machine, self._tables = machine, tables
        self._before, self._last = {}, []

    def apply(self, changes: Sequence[tuple[str, Batch]]) -> None:
        net: dict[str, Gmr] = {}
        known = {r.name: r for r in self.program.relations}
        for name, batch in changes:
            table = self._tables.get(name)
            relation = table.relation if table is not None else known.get(name)
            if relation is not None:
                delta = net.setdefault(name, Gmr())
                for row, weight in weighted_rows(relation, batch):
                    delta.add(row, weight)
        kept = [(self._tables[name], delta) for name, delta in net.items() if name in self._tables]
        for table, delta in kept:
            table.check(delta)
        fed = [(name, delta) for name, delta in net.items() if name in known and len(delta)]
        self._last = []
        self._before = self._copy_of_targets(name for name, _ in fed)
        try:
            for name, delta in fed:
                self._machine.apply(name, delta)
        except BaseException:
            self.undo()
            raise
        for table, delta in kept:
            table.apply(delta)
        self._last = kept

    def apply_row(self, name: str, row: Row, weight: int) -> None:
        table = self._tables.get(name)
        relation = table.relation if table is not None else self.program.relation(name)
        self.apply([(name, batch_of(relation, [(row, weight)]))])

    def _copy_of_targets(self, names: Any) -> Store:
        """The contents of the maps that these relations' triggers write."""
        triggers = [self.program.trigger(name) for name in names]
        written = {s.target for t in triggers if t is not None for s in t.statements}
        store = self._machine.store
        return {place: store[place].copy() for place in store if place[0] in written}

    def undo(self) -> None:
        self._machine.store.update(self._before)
        self._before = {}
        for table, delta in self._last:
            table.apply(negated(delta))
        self._last = []

    def table(self, name: str) -> Batch:
        table = self._tables[name]
        return batch_of(table.relation, ((row, int(n)) for row, n in table.rows.items()))

    def columns(self, view: str) -> Batch:
        rows = self.rows(view)
        types = [column.type for column in self._view(view).query.columns]
        vectors = [vector_of([row[i] for row in rows], type) for i, type in enumerate(types)]
        ones = np.ones(len(rows), np.int64)
        return Batch([v.values for v in vectors], [v.nulls for v in vectors], ones)

    def rows(self, view: str) -> list[Row]:
        found = self._view(view)
        return visible_rows(found.query, self._machine.rows(found))

    def changes(self, view: str) -> Weighted:
        after = self.rows(view)
        now = dict(self._machine.store)
        self._machine.store.update(self._before)
        try:
            before = self.rows(view)
        finally:
            self._machine.store.update(now)
        return difference(after, before)

    def sizes(self) -> dict[str, MapSize]:
        sizes = {}
        for map in self.program.state:
            columns = [self._machine.store[map.name, column.name] for column in map.columns]
            records = max(len(contents) for contents in columns)
            memory = sum(_bytes_of(contents) for contents in columns)
            sizes[map.name] = MapSize(records, memory)
        return sizes

    def table_sizes(self) -> dict[str, MapSize]:
        return {
            name: MapSize(len(table.rows), _bytes_of(table.rows))
            for name, table in self._tables.items()
        }

    def save(self, directory: str) -> None:
        maps = [
            [map, column, [[list(key), _weight_out(w)] for key, w in contents.items()]]
            for (map, column), contents in self._machine.store.items()
        ]
        tables = {
            name: [[list(row), weight] for row, weight in table.rows.items()]
            for name, table in self._tables.items()
        }
        state = {"program": program_text(self.program), "maps": maps, "tables": tables}
        Path(directory, _STATE).write_text(json.dumps(state), encoding="utf-8")

    def load(self, program: Program, tables: Sequence[Relation], directory: str) -> None:
        try:
            state = json.loads(Path(directory, _STATE).read_text(encoding="utf-8"))
        except OSError as error:
            raise StateError(
                f"no state of the interpreter in {directory}: {error}",
                hint="restore with the engine that wrote the checkpoint",
            ) from None
        if state["program"] != program_text(program):
            raise StateError(
                f"the state in {directory} belongs to another programme",
                hint="restore it with the version of viewlet that wrote it, or load the data anew",
            )
        machine = Interpreter(program)
        for map, column, items in state["maps"]:
            machine.store[map, column] = Gmr((tuple(key), _weight_in(w)) for key, w in items)
        kept = {r.name: Table(r) for r in tables}
        for name, table in kept.items():
            table.apply(Gmr((tuple(row), weight) for row, weight in state["tables"][name]))
        self._use(machine, kept)

    def explain(self, view: str, stage: str) -> str:
        raise UnsupportedError(
            f"the interpreter has no stage {stage}", hint="its stages are sql, calculus, program"
        )

    def close(self) -> None:
        self._use(Interpreter(Program((), (), ())), {})

    def _view(self, name: str) -> View:
        return next(view for view in self.program.views if view.name == name)


class _Sources:
    """Tables and the maps of the programme before; streams start empty."""

    def __init__(self, tables: Mapping[str, Table], old: Interpreter) -> None:
        self._tables = tables
        self._old = old

    def contents(self, atom: Rel | Delta | MapRef) -> Gmr:
        if isinstance(atom, MapRef):
            return self._old.contents(atom)
        table = self._tables.get(atom.name)
        return table.rows if table is not None else _EMPTY


_EMPTY = Gmr()


def _bytes_of(contents: Gmr) -> int:
    """An estimate: the dictionary's entries and their key tuples."""
    return sum(sys.getsizeof(key) + sys.getsizeof(weight) + 100 for key, weight in contents.items())


def _weight_out(weight: Weight) -> int | float | list[int]:
    """JSON has no fractions: [numerator, denominator]."""
    if isinstance(weight, Fraction):
        return [weight.numerator, weight.denominator]
    return weight


def _weight_in(weight: int | float | list[int]) -> Weight:
    return Fraction(*weight) if isinstance(weight, list) else weight
