"""The interpreter as an engine: slow, and right by definition."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from viewlet.calculus.database import Atoms
from viewlet.calculus.evaluate import evaluate
from viewlet.calculus.ring import Gmr, Unbounded, Weight, multiplicity
from viewlet.engine.contract import (
    NOTHING_LEFT_OUT,
    LeftOut,
    MapSize,
    Row,
    Weighted,
    difference,
    shown,
    visible_rows,
    weighted_difference,
)
from viewlet.engine.tables import Table, negated
from viewlet.engine.values.batching import Batch, batch_of, weighted_rows
from viewlet.engine.values.intake import EVERYTHING, Intake
from viewlet.engine.values.reading import vector_of
from viewlet.engine.values.reshaped_rows import reshaped_rows
from viewlet.engine.values.saved_tables import read_tables, write_tables
from viewlet.errors import UnsupportedError, ViewletError
from viewlet.program.fill_plan import Ended, check_rebuildable, fill_plan, stored_relations
from viewlet.program.interpret import Interpreter, Store, with_defined_maps
from viewlet.program.ir import Program, View
from viewlet.program.reshape import NO_RESHAPES, Reshape, Reshapes, reshaped_program
from viewlet.program.text import parse_program, program_text
from viewlet.schema import Relation, normalized
from viewlet.storage.columns import Array

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

    def install(
        self,
        program: Program,
        tables: Sequence[Relation],
        ended: Ended,
        left: LeftOut = NOTHING_LEFT_OUT,
        reshapes: Reshapes = NO_RESHAPES,
    ) -> None:
        """Execute the plan; what it fills follows from the definitions themselves here, which is
        what the triggers of other engines are compared with.
        """
        old = self._machine
        stored = {r.name: self._stored_table(r, reshapes.get(r.name)) for r in tables}
        unchanged = [
            name
            for name, table in stored.items()
            if name in reshapes or table is self._tables.get(name)
        ]
        deferred = stored_relations(program, unchanged)
        before = reshaped_program(old.program, reshapes)
        plan = fill_plan(before, program, [*unchanged, *deferred], ended, left.whole)
        rows = {name: table.rows for name, table in stored.items()}
        for relation in program.relations:
            if relation.name in deferred:
                rows[relation.name] = rows[deferred[relation.name]].copy()
                for batch in left.pending(relation.name):
                    for row, weight in weighted_rows(relation, batch):
                        rows[relation.name].add(row, -weight)
        atoms = Atoms(
            relations=lambda name: rows.get(name, _EMPTY),
            maps=lambda map, column: old.store[map, column],
            columns=old.columns,
        )
        source = with_defined_maps(plan.whole, atoms, {map.name for map in old.program.maps})
        machine = Interpreter(program)
        for fill in plan.maps:
            map = fill.map
            defined = ((c.name, c.definition) for c in map.columns if c.definition is not None)
            for column, expr in fill.columns or defined:
                machine.store[map.name, column] = evaluate(expr, map.key_names, source)
        self._use(machine, stored)

    def _stored_table(self, relation: Relation, reshape: Reshape | None) -> Table:
        old = self._tables.get(relation.name)
        if old is not None and old.relation == relation:
            return old
        table = Table(relation)
        if reshape is not None:
            rows = reshaped_rows(relation, reshape.sources, self.table(relation.name))
            table.apply(Gmr(weighted_rows(relation, rows)))
        return table

    def _use(self, machine: Interpreter, tables: dict[str, Table]) -> None:
        self._machine, self._tables = machine, tables
        self._before, self._last = {}, []

    def plain(self, relation: Relation, batch: Batch) -> Batch:
        return batch

    def intake(self, names: Sequence[str]) -> Intake:
        return EVERYTHING

    def apply(self, changes: Sequence[tuple[str, Batch]]) -> None:
        net = self._net(changes)
        relations = {r.name for r in self.program.relations}
        table_deltas = [
            (self._tables[name], delta) for name, delta in net.items() if name in self._tables
        ]
        for table, delta in table_deltas:
            table.check(delta)
        fed = [(name, delta) for name, delta in net.items() if name in relations and len(delta)]
        self._last = []
        self._before = self._copy_of_targets(name for name, _ in fed)
        try:
            for name, delta in fed:
                self._machine.apply(name, delta)
        except BaseException:
            self.undo()
            raise
        for table, delta in table_deltas:
            table.apply(delta)
        self._last = table_deltas

    def _net(self, changes: Sequence[tuple[str, Batch]]) -> dict[str, Gmr]:
        """The rows of all changes to each relation, added up."""
        net: dict[str, Gmr] = {}
        known = {r.name: r for r in self.program.relations}
        for name, batch in changes:
            table = self._tables.get(name)
            relation = table.relation if table is not None else known.get(name)
            if relation is not None:
                delta = net.setdefault(name, Gmr())
                for row, weight in weighted_rows(relation, batch):
                    delta.add(row, weight)
        return net

    def refresh(self, view: str, changes: Sequence[tuple[str, Batch]]) -> None:
        refresh = self.program.refresh(view)
        own = {s.target for s in refresh.statements} if refresh is not None else set()
        before = self._copy_of_targets([name for name, _ in changes], own)
        try:
            for name, delta in self._net(changes).items():
                if len(delta):
                    self._machine.apply(name, delta)
            self._machine.refresh(view)
        except BaseException:
            self._machine.store.update(before)
            raise
        self._before.update(before)

    def apply_row(self, name: str, row: Row, weight: int) -> None:
        table = self._tables.get(name)
        relation = table.relation if table is not None else self.program.relation(name)
        self.apply([(name, batch_of(relation, [(row, weight)]))])

    def _copy_of_targets(self, names: Any, others: Collection[str] = ()) -> Store:
        """The contents of the maps that these relations' triggers write, and of others."""
        triggers = [self.program.trigger(name) for name in names]
        written = {s.target for t in triggers if t is not None for s in t.statements}.union(others)
        store = self._machine.store
        return {column: store[column].copy() for column in store if column[0] in written}

    def undo(self) -> None:
        self._machine.store.update(self._before)
        self._before = {}
        for table, delta in self._last:
            table.apply(negated(delta))
        self._last = []

    def table(self, name: str) -> Batch:
        table = self._tables[name]
        return batch_of(table.relation, ((row, multiplicity(n)) for row, n in table.rows.items()))

    def by_key(self, name: str, batch: Batch) -> tuple[Array, Batch]:
        table = self._tables[name]
        key_rows = [table.with_key_of(row) for row, _ in weighted_rows(table.relation, batch)]
        is_there = np.array([row is not None for row in key_rows], bool)
        rows = [(row, 1) for row in key_rows if row is not None]
        return is_there, batch_of(table.relation, rows)

    def columns(self, view: str) -> Batch:
        rows = self.rows(view)
        types = [column.type for column in self._view(view).query.columns]
        vectors = [vector_of([row[i] for row in rows], type) for i, type in enumerate(types)]
        ones = np.ones(len(rows), np.int64)
        return Batch([v.values for v in vectors], [v.nulls for v in vectors], ones)

    def rows(self, view: str) -> list[Row]:
        definition = self._view(view)
        return visible_rows(definition.query, self._machine.rows(definition))

    def changes(self, view: str) -> Weighted:
        definition = self._view(view)
        after = self._machine.rows(definition)
        now = dict(self._machine.store)
        self._machine.store.update(self._before)
        try:
            before = self._machine.rows(definition)
        finally:
            self._machine.store.update(now)
        if definition.query.limit is None and not definition.query.offset:
            return shown(definition.query, weighted_difference(after, before))
        return difference(
            visible_rows(definition.query, after), visible_rows(definition.query, before)
        )

    def sizes(self) -> dict[str, MapSize]:
        sizes = {}
        for map in self.program.maps:
            if map.buffer:
                continue
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
        state = {"program": program_text(self.program), "maps": maps}
        Path(directory, _STATE).write_text(json.dumps(state), encoding="utf-8")
        tables = ((table.relation, self.table(name)) for name, table in self._tables.items())
        write_tables(Path(directory), tables)

    def load(
        self,
        program: Program,
        tables: Sequence[Relation],
        directory: str,
        ended: Ended,
    ) -> None:
        """The saved program with its maps -> this one, as at a change of views."""
        state = json.loads(Path(directory, _STATE).read_text(encoding="utf-8"))
        stored = {}
        for relation, batch in read_tables(Path(directory), tables):
            stored[relation.name] = Table(relation)
            stored[relation.name].apply(Gmr(weighted_rows(relation, batch)))
        try:
            machine = Interpreter(parse_program(state["program"]))
        except ViewletError:
            check_rebuildable(program, ended, directory)
            machine = Interpreter(Program((), (), ()))
        else:
            for map, column, items in state["maps"]:
                machine.store[map, column] = Gmr((_key_in(key), _weight_in(w)) for key, w in items)
        self._use(machine, stored)
        self.install(program, tables, ended)

    def explain(self, view: str, stage: str) -> str:
        raise UnsupportedError(
            f"the interpreter has no stage {stage}", hint="its stages are sql, calculus, program"
        )

    def close(self) -> None:
        self._use(Interpreter(Program((), (), ())), {})

    def _view(self, name: str) -> View:
        return next(view for view in self.program.views if view.name == name)


_EMPTY = Gmr()


def _bytes_of(contents: Gmr) -> int:
    """An estimate: the dictionary's entries and their key tuples."""
    return sum(sys.getsizeof(key) + sys.getsizeof(weight) + 100 for key, weight in contents.items())


def _weight_out(weight: Weight) -> int | list[int]:
    """JSON has no fractions: [numerator, denominator], and how many inf, -inf, NaN there are."""
    if isinstance(weight, Unbounded):
        number = weight.number
        return [number.numerator, number.denominator, weight.above, weight.below, weight.nans]
    if isinstance(weight, Fraction):
        return [weight.numerator, weight.denominator]
    return weight


def _weight_in(weight: int | list[int]) -> Weight:
    if not isinstance(weight, list):
        return weight
    number = Fraction(*weight[:2])
    return Unbounded(number, *weight[2:]) if len(weight) > 2 else number


def _key_in(values: list[Any]) -> Row:
    return tuple(map(normalized, values))
