"""The local engine as databases use it: tables and maps in flat arrays, one step over both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from viewlet.engine.contract import NOTHING_LEFT_OUT, LeftOut, MapSize, Row, Weighted
from viewlet.engine.host.stored_tables import (
    StoredTable,
    TableBefore,
    TableSource,
    put_all,
    text_columns,
)
from viewlet.engine.local.local_fill import filled, translated
from viewlet.engine.local.single_row import RowPath
from viewlet.engine.local.trigger_engine import LocalEngine
from viewlet.engine.local.view_reader import ViewReader
from viewlet.engine.values.batch_memory import BatchMemory
from viewlet.engine.values.batching import Batch
from viewlet.engine.values.changed_rows import ChangedRows
from viewlet.engine.values.intake import Intake
from viewlet.engine.values.reading import rows_of
from viewlet.engine.values.reshaped_rows import reshaped_rows
from viewlet.engine.values.saved_tables import read_tables, write_tables
from viewlet.engine.values.string_codes import StringCodes
from viewlet.engine.values.strings import Translation
from viewlet.errors import UnsupportedError
from viewlet.kernels.jit import source
from viewlet.program.fill_plan import Ended, check_rebuildable, fill_plan, stored_relations
from viewlet.program.ir import Program
from viewlet.program.reshape import NO_RESHAPES, Reshape, Reshapes, reshaped_program
from viewlet.program.static_maps import StaticPlanner
from viewlet.schema import Relation
from viewlet.storage.columns import Array, MemoryArrays

_NOTHING = Program((), (), ())


class NativeEngine:
    """Implements engine.contract.Engine: LocalEngine for the maps, StoredTable for each table."""

    def __init__(self, plan_static: StaticPlanner | None = None) -> None:
        """`plan_static` says how large static tables are loaded (planner/static_loader.py)."""
        self._plan_static = plan_static
        self._strings = StringCodes()
        self._buffers = BatchMemory()
        self._is_timed = False
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
        self._refreshed: dict[str, ViewReader] = {}
        if self._is_timed:
            engine.time_statements()

    @classmethod
    def over(cls, engine: LocalEngine) -> NativeEngine:
        """Read the views of an engine that something else feeds."""
        native = cls()
        native._use(engine)
        return native

    @property
    def program(self) -> Program:
        return self._engine.program

    # Program and tables.

    def install(
        self,
        program: Program,
        tables: Sequence[Relation],
        ended: Ended,
        left: LeftOut = NOTHING_LEFT_OUT,
        reshapes: Reshapes = NO_RESHAPES,
    ) -> None:
        stored = {r.name: self._stored_table(r, reshapes.get(r.name)) for r in tables}
        if program != self.program:
            unchanged = [
                name
                for name, table in stored.items()
                if name in reshapes or table is self._tables.get(name)
            ]
            deferred = stored_relations(program, unchanged)
            sources: dict[str, TableSource] = dict(stored)
            for relation in program.relations:
                if relation.name in deferred:
                    table, pending = stored[deferred[relation.name]], left.pending(relation.name)
                    sources[relation.name] = TableBefore(table, relation, pending)
            known = [*unchanged, *deferred]
            before = reshaped_program(self.program, reshapes)
            plan = fill_plan(before, program, known, ended, left.whole)
            self._use(filled(program, plan, self._engine, sources, self._plan_static))
        # Declared sizes are no part of what makes relations equal: those of these are the current.
        self._relations = {r.name: r for r in program.relations}
        for relation in tables:
            stored[relation.name].relation = relation
        self._tables = stored
        self._paths = {}
        self._touched = []

    def _stored_table(self, relation: Relation, reshape: Reshape | None) -> StoredTable:
        old = self._tables.get(relation.name)
        if old is not None and old.relation == relation:
            return old
        table = StoredTable(relation, MemoryArrays(), self._strings)
        if reshape is not None:
            rows = reshaped_rows(relation, reshape.sources, self.table(relation.name))
            put_all({relation.name: table}, [(relation.name, table.code(rows))])
        return table

    # Changes.

    def plain(self, relation: Relation, batch: Batch) -> Batch:
        if not batch.coded:
            return batch
        columns = list(batch.columns)
        for i in text_columns(relation):
            columns[i] = self._strings.decode(columns[i])
        return Batch(columns, batch.nulls, batch.weights)

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
        used = self._engine.reads(name)
        return translated(self._relations[name], batch, self._translation, used)

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

    def refresh(self, view: str, changes: Sequence[tuple[str, Batch]]) -> None:
        self._engine.refresh(view, [(n, self._for_program(n, batch)) for n, batch in changes])
        if view not in self._refreshed:
            self._refreshed[view] = ViewReader(self._engine.reader, follows=False)
            self._reading.is_refreshed(view)
        self._refreshed[view].advance()

    def undo(self) -> None:
        self._undo_tables()
        self._engine.undo()
        self._reading.go_back()
        self._refreshed = {}  # what they remember may be of a refresh that was taken back

    def _undo_tables(self) -> None:
        for table in self._touched:
            table.rows.undo()
        self._touched = []

    # Reading.

    def table(self, name: str) -> Batch:
        return self._tables[name].batch()

    def by_key(self, name: str, batch: Batch) -> tuple[Array, Batch]:
        return self._tables[name].by_key(batch)

    def rows(self, view: str) -> list[Row]:
        return rows_of(self.columns(view))

    def columns(self, view: str) -> Batch:
        return self._reader(view).columns(self._views[view])

    def find(self, view: str, key: Row) -> list[Row]:
        return self._reader(view).find(self._views[view], key)

    def count(self, view: str) -> int | None:
        return self._reader(view).count(self._views[view])

    def changes(self, view: str) -> Weighted:
        return self.changed_rows(view).weighted()

    def changed_rows(self, view: str) -> ChangedRows:
        return self._reader(view).changes(self._views[view])

    def _reader(self, view: str) -> ViewReader:
        """What has been refreshed has states of its own, beside those after batches."""
        return self._refreshed.get(view, self._reading)

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

    def time_statements(self) -> None:
        self._is_timed = True
        self._engine.time_statements()
        self._paths = {}

    def statement_seconds(self) -> dict[str, list[float]]:
        return self._engine.statement_seconds()

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
