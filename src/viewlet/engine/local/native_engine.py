"""The local engine as databases use it: tables and maps in flat arrays, one step over both."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from viewlet.calculus.database import Atoms
from viewlet.calculus.evaluate import Database, evaluate
from viewlet.calculus.expr import MapRef, relations
from viewlet.calculus.ring import Gmr
from viewlet.engine.contract import (
    Ended,
    Held,
    MapSize,
    Row,
    Weighted,
    check_rebuildable,
    from_old_maps,
)
from viewlet.engine.host.map_words import words_of_map
from viewlet.engine.host.stored_tables import StoredTable, put_all, text_columns
from viewlet.engine.local.single_row import RowPath
from viewlet.engine.local.trigger_engine import LocalEngine
from viewlet.engine.local.view_reader import ViewReader, database_of
from viewlet.engine.values.batch_memory import BatchMemory
from viewlet.engine.values.batching import Batch, weighted_rows
from viewlet.engine.values.intake import Intake
from viewlet.engine.values.reading import rows_of
from viewlet.engine.values.saved_tables import read_tables, write_tables
from viewlet.engine.values.string_codes import StringCodes
from viewlet.engine.values.strings import Translation
from viewlet.errors import UnsupportedError
from viewlet.kernels.jit import check_kernels, source
from viewlet.program.check import check
from viewlet.program.interpret import with_defined_maps
from viewlet.program.ir import Map, Program, ValueColumn
from viewlet.program.prune import part_of
from viewlet.schema import Relation
from viewlet.storage.columns import MemoryArrays

_NOTHING = Program((), (), ())

_FEW_ROWS = 2_000
"""Of tables, from which definitions are evaluated as they stand: some 50 microseconds each."""


class NativeEngine:
    """Implements engine.contract.Engine: LocalEngine for the maps, StoredTable for each table."""

    def __init__(self) -> None:
        self._strings = StringCodes()
        self._buffers = BatchMemory()
        self._tables: dict[str, StoredTable] = {}
        self._use(LocalEngine(_NOTHING))

    def _use(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._relations = {r.name: r for r in engine.program.relations}
        self._views = {view.name: view for view in engine.program.views}
        self._translation = Translation(self._strings, engine.dictionary)
        self._paths: dict[str, RowPath] = {}
        self._touched: list[StoredTable] = []
        self._reading = ViewReader(engine.reader)

    @classmethod
    def over(cls, engine: LocalEngine) -> NativeEngine:
        """Read the views of an engine that something else feeds."""
        found = cls()
        found._use(engine)
        return found

    @property
    def program(self) -> Program:
        return self._engine.program

    # Program and tables.

    def install(self, program: Program, tables: Sequence[Relation], ended: Ended) -> None:
        stored = {r.name: self._kept(r) for r in tables}
        if program != self.program:
            self._use(self._filled(program, stored, ended))
        self._tables = stored
        self._paths = {}
        self._touched = []

    def _kept(self, relation: Relation) -> StoredTable:
        old = self._tables.get(relation.name)
        if old is not None and old.relation == relation:
            return old
        return StoredTable(relation, MemoryArrays(), self._strings)

    def _filled(
        self, program: Program, tables: dict[str, StoredTable], ended: Ended
    ) -> LocalEngine:
        new = LocalEngine(program)
        check_kernels(new.module)
        definitions = [c.definition for m in program.maps for c in m.columns if c.definition]
        went = all(view.name in self._views for view in program.views)
        if went or any(relations(definition) & ended.keys() for definition in definitions):
            self._move(new, tables, ended)
        else:
            self._load(new, tables)
        return new

    def _load(self, new: LocalEngine, tables: dict[str, StoredTable]) -> None:
        """Fill all maps from the tables' rows, as if these had just come."""
        translate = Translation(self._strings, new.dictionary)
        batches = {}
        for relation in new.program.relations:
            table = tables.get(relation.name)
            if table is not None:
                # Constant maps are computed from plain rows, all others from the used columns.
                used = new.reads(relation.name)
                batches[relation.name] = (
                    table.batch()
                    if relation.static
                    else _translated(relation, table.coded(used), translate, used)
                )
        new.load(batches)

    def intake(self, names: Sequence[str]) -> Intake:
        """Of a table all columns, of a stream those that triggers look at; strings as codes."""
        columns = None
        if not any(name in self._tables for name in names):
            columns = frozenset[int]().union(*(self._engine.reads(name) for name in names))
        return Intake(columns, self._strings, self._buffers)

    def _for_program(self, name: str, batch: Batch) -> Batch:
        """A batch as its trigger reads it: strings as codes of the program's dictionary."""
        if not batch.coded:
            return batch
        return _translated(
            self._relations[name], batch, self._translation, self._engine.reads(name)
        )

    def _move(self, new: LocalEngine, tables: dict[str, StoredTable], ended: Ended) -> None:
        """Fill maps from those of the program before, and from tables what it did not have.

        What streams have brought lives in old maps only.
        """
        held = Held(self.program)
        translate = Translation(self._engine.dictionary, new.dictionary)
        known = {map.name for map in self.program.maps}
        database = with_defined_maps(new.program, self._sources(tables), known)
        lacking: list[tuple[Map, ValueColumn]] = []
        new.host.begin(logged=False)
        for map in new.program.maps:
            for column in map.columns:
                if column.definition is None:
                    continue
                moved = from_old_maps(held, column.definition, map.key_names, ended)
                if moved is None:
                    moved = held.find(column.definition, map.key_names)
                if isinstance(moved, MapRef):
                    order = [moved.keys.index(name) for name in map.key_names]
                    _copy(new, map.name, column.name, self._engine, moved, order, translate)
                elif moved is not None:
                    new.add(map.name, column.name, evaluate(moved, map.key_names, database))
                else:
                    lacking.append((map, column))
        self._fill(new, lacking, tables, database)
        new.host.commit()

    def _sources(self, tables: dict[str, StoredTable]) -> Atoms:
        """Tables and the maps of the program before; streams start empty."""

        @cache
        def rows(name: str) -> Gmr:
            table = tables.get(name)
            return Gmr(weighted_rows(table.relation, table.batch()) if table is not None else ())

        return database_of(self._engine.reader, relations=rows)

    def _fill(
        self,
        new: LocalEngine,
        lacking: list[tuple[Map, ValueColumn]],
        tables: dict[str, StoredTable],
        database: Database,
    ) -> None:
        """Fill columns whose definitions read tables, and streams that are empty yet.

        Many rows are put through the triggers of these maps, in an engine of its own: beside full
        maps they would count what is there already. A few are not worth that it is compiled.
        """
        read = {name for _, c in lacking if c.definition for name in relations(c.definition)}
        if sum(len(tables[name].rows) for name in read if name in tables) > _FEW_ROWS:
            loader = LocalEngine(check(part_of(new.program, maps={m.name for m, _ in lacking})))
            self._load(loader, tables)
            translate = Translation(loader.dictionary, new.dictionary)
            for map, column in lacking:
                order = range(len(map.keys))
                source = MapRef(map.name, column.name, map.key_names)
                _copy(new, map.name, column.name, loader, source, order, translate)
            return
        for map, column in lacking:
            assert column.definition is not None
            contents = evaluate(column.definition, map.key_names, database)
            new.add(map.name, column.name, contents)

    # Changes.

    def apply(self, changes: Sequence[tuple[str, Batch]]) -> None:
        """Tables first: they say whether the batch can be; then the program's maps."""
        touched = {name: self._tables[name] for name, _ in changes if name in self._tables}
        coded = [
            (name, touched[name].code(batch) if name in touched else batch)
            for name, batch in changes
        ]
        put_all(touched, coded)
        self._touched = list(touched.values())
        fed = [
            (name, self._for_program(name, batch))
            for name, batch in coded
            if name in self._relations
        ]
        try:
            self._engine.apply(fed)
        except BaseException:
            self._undo_tables()
            raise
        for _, batch in changes:
            self._buffers.give_back(batch.borrowed)
        self._reading.advance()

    def apply_row(self, name: str, row: Row, weight: int) -> None:
        path = self._paths.get(name) or self._path(name)
        self._touched = path.tables
        path.put(row, weight)
        self._run(path)

    def apply_plain_row(self, name: str, row: Sequence[Any], weight: int) -> bool:
        path = self._paths.get(name) or self._path(name)
        self._touched = path.tables
        if not path.put_plain(row, weight):
            return False
        self._run(path)
        return True

    def _run(self, path: RowPath) -> None:
        try:
            path.trigger.run()
        except BaseException:
            self._undo_tables()
            raise
        self._reading.advance()

    def _path(self, name: str) -> RowPath:
        table = self._tables.get(name)
        relation = table.relation if table is not None else self._relations[name]
        path = RowPath(relation, table, self._engine, self._translation, self._strings)
        self._paths[name] = path
        return path

    def undo(self) -> None:
        self._undo_tables()
        self._engine.undo()
        self._reading.go_back()

    def _undo_tables(self) -> None:
        for table in self._touched:
            table.rows.undo()
        self._touched = []

    # Reading.

    def table(self, name: str) -> Batch:
        return self._tables[name].batch()

    def rows(self, view: str) -> list[Row]:
        return rows_of(self.columns(view))

    def columns(self, view: str) -> Batch:
        return self._reading.columns(self._views[view])

    def find(self, view: str, key: Row) -> list[Row]:
        return self._reading.find(self._views[view], key)

    def changes(self, view: str) -> Weighted:
        return self._reading.changes(self._views[view])

    def sizes(self) -> dict[str, MapSize]:
        return {
            name: MapSize(size["records"], size["bytes"])
            for name, size in self._engine.memory().items()
        }

    def table_sizes(self) -> dict[str, MapSize]:
        return {
            name: MapSize(len(table.rows), table.rows.nbytes())
            for name, table in self._tables.items()
        }

    def explain(self, view: str, stage: str) -> str:
        if stage != "kernels":
            raise UnsupportedError(f"the local engine has no stage {stage}")
        return self._reading.describe(self._views[view]) + source(self.program)

    # Persistence.

    def save(self, directory: str) -> None:
        self._engine.save(Path(directory, "maps"))
        tables = self._tables.values()
        write_tables(Path(directory), ((table.relation, table.batch()) for table in tables))

    def load(
        self,
        program: Program,
        tables: Sequence[Relation],
        directory: str,
        ended: Ended,
    ) -> None:
        """The saved program with its maps -> this one, as at a change of views."""
        self._strings = StringCodes()
        self._tables = {}
        for relation, rows in read_tables(Path(directory), tables):
            table = StoredTable(relation, MemoryArrays(), self._strings)
            put_all({relation.name: table}, [(relation.name, table.code(rows))])
            self._tables[relation.name] = table
        saved = LocalEngine.restored(Path(directory, "maps"))
        if saved is None:
            check_rebuildable(program, ended, directory)
        self._use(saved if saved is not None else LocalEngine(_NOTHING))
        self.install(program, tables, ended)

    def close(self) -> None:
        self._tables = {}
        self._use(LocalEngine(_NOTHING))


def _translated(
    relation: Relation, batch: Batch, translate: Translation, used: Collection[int]
) -> Batch:
    """A batch in codes of the engine's strings -> in those of a program, where it reads them."""
    columns = list(batch.columns)
    for i in text_columns(relation):
        if i in used:
            columns[i] = translate(columns[i])
    return Batch(columns, batch.nulls, batch.weights, coded=True)


def _copy(
    engine: LocalEngine,
    map: str,
    column: str,
    old: LocalEngine,
    source: MapRef,
    order: Sequence[int],
    translate: Translation,
) -> None:
    words = words_of_map(
        engine.host.pools[map].layout,
        [engine.reader.position(map, column)],
        old.host.pools[source.name],
        [old.reader.position(source.name, source.column)],
        order,
        translate,
    )
    engine.host.add(map, words)
