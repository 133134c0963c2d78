"""The local engine as databases use it: tables and maps in flat arrays, one step over both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from viewlet.calculus.evaluate import evaluate
from viewlet.calculus.expr import Delta, MapRef, Rel, relations
from viewlet.calculus.ring import Gmr
from viewlet.errors import StateError, UnsupportedError
from viewlet.kernels.jit import source
from viewlet.program.check import check
from viewlet.program.ir import Map, Program, ValueColumn
from viewlet.program.prune import maintaining
from viewlet.runtime.batching import Batch, weighted_rows
from viewlet.runtime.constants import copy_column, fill_column
from viewlet.runtime.engine import Held, MapSize, Row, Weighted, from_old_maps
from viewlet.runtime.local import LocalEngine
from viewlet.runtime.onerow import RowPath
from viewlet.runtime.reading import rows_of
from viewlet.runtime.stored import StoredTable, put_all
from viewlet.runtime.strings import Dictionary, Translation
from viewlet.runtime.views import Maps, ViewReader
from viewlet.schema import Relation
from viewlet.storage.columns import MemoryArrays

_NOTHING = Program((), (), ())

_FEW_ROWS = 2_000
"""Of tables, from which definitions are evaluated as they stand: some 50 microseconds each."""


class NativeEngine:
    """Implements runtime.engine.Engine: LocalEngine for the maps, StoredTable for each table."""

    def __init__(self) -> None:
        self._strings = Dictionary()
        self._tables: dict[str, StoredTable] = {}
        self._use(LocalEngine(_NOTHING))

    def _use(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._relations = {r.name: r for r in engine.program.relations}
        self._views = {view.name: view for view in engine.program.views}
        self._translation = Translation(self._strings, engine.dictionary)
        self._paths: dict[str, RowPath] = {}
        self._touched: list[StoredTable] = []
        self._reading = ViewReader(engine)

    @classmethod
    def over(cls, engine: LocalEngine) -> NativeEngine:
        """Read the views of an engine that something else feeds."""
        found = cls()
        found._use(engine)
        return found

    @property
    def program(self) -> Program:
        return self._engine.program

    # Programme and tables.

    def install(self, program: Program, tables: Sequence[Relation], passed: frozenset[str]) -> None:
        stored = {r.name: self._kept(r) for r in tables}
        if program != self.program:
            self._use(self._filled(program, stored, passed))
        self._tables = stored
        self._paths = {}
        self._touched = []

    def _kept(self, relation: Relation) -> StoredTable:
        old = self._tables.get(relation.name)
        if old is not None and old.relation == relation:
            return old
        return StoredTable(relation, MemoryArrays(), self._strings)

    def _filled(
        self, program: Program, tables: dict[str, StoredTable], passed: frozenset[str]
    ) -> LocalEngine:
        new = LocalEngine(program)
        definitions = [c.definition for m in program.maps for c in m.columns if c.definition]
        went = all(view.name in self._views for view in program.views)
        if went or any(relations(definition) & passed for definition in definitions):
            self._move(new, tables, passed)
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
                batches[relation.name] = (
                    table.batch()
                    if relation.static
                    else self._translated(table, table.coded(new.reads(relation.name)), translate)
                )
        new.load(batches)

    def _translated(
        self, table: StoredTable, coded: Batch, translate: Translation, used: Any = None
    ) -> Batch:
        """A batch in the tables' codes -> the same in the programme's, where it looks at them."""
        if not table.texts:
            return coded
        columns = list(coded.columns)
        for i in table.texts:
            if used is None or i in used:
                columns[i] = translate(columns[i])
        return Batch(columns, coded.nulls, coded.weights, coded=True)

    def _move(
        self, new: LocalEngine, tables: dict[str, StoredTable], passed: frozenset[str]
    ) -> None:
        """Fill maps from those of the programme before, and from tables what it did not have.

        What streams have brought lives in old maps only.
        """
        held = Held(self.program)
        translate = Translation(self._engine.dictionary, new.dictionary)
        contents = _Sources(tables, self._engine)
        lacking: list[tuple[Map, ValueColumn]] = []
        for map in new.program.maps:
            for column in map.columns:
                if column.definition is None:
                    continue
                pool, place = new.pool(map.name), new.place(map.name, column.name)
                moved = from_old_maps(held, column.definition, map.key_names, passed)
                if moved is None:
                    moved = held.find(column.definition, map.key_names)
                if isinstance(moved, MapRef):
                    old = (
                        self._engine.pool(moved.name),
                        self._engine.place(moved.name, moved.column),
                    )
                    order = [moved.keys.index(name) for name in map.key_names]
                    copy_column(pool, place, *old, order, translate)
                elif moved is not None:
                    found = evaluate(moved, map.key_names, contents)
                    fill_column(pool, place, found, new.dictionary)
                else:
                    lacking.append((map, column))
        self._fill(new, lacking, tables, contents)

    def _fill(
        self,
        new: LocalEngine,
        lacking: list[tuple[Map, ValueColumn]],
        tables: dict[str, StoredTable],
        contents: _Sources,
    ) -> None:
        """Fill columns whose definitions read tables, and streams that are empty yet.

        Many rows are put through the triggers of these maps, in an engine of its own: beside full
        maps they would count what is there already. A few are not worth that it is compiled.
        """
        read = {name for _, c in lacking if c.definition for name in relations(c.definition)}
        if sum(len(tables[name].rows) for name in read if name in tables) > _FEW_ROWS:
            loader = LocalEngine(check(maintaining(new.program, {m.name for m, _ in lacking})))
            self._load(loader, tables)
            translate = Translation(loader.dictionary, new.dictionary)
            for map, column in lacking:
                source = loader.pool(map.name), loader.place(map.name, column.name)
                target = new.pool(map.name), new.place(map.name, column.name)
                copy_column(*target, *source, range(len(map.keys)), translate)
            return
        for map, column in lacking:
            assert column.definition is not None
            found = evaluate(column.definition, map.key_names, contents)
            place = new.place(map.name, column.name)
            fill_column(new.pool(map.name), place, found, new.dictionary)

    # Changes.

    def apply(self, changes: Sequence[tuple[str, Batch]]) -> None:
        """Tables first: they say whether the batch can be; then the programme's maps."""
        touched = {name: self._tables[name] for name, _ in changes if name in self._tables}
        coded = [
            (name, touched[name].code(batch) if name in touched else batch)
            for name, batch in changes
        ]
        put_all(touched, coded)
        self._touched = list(touched.values())
        fed = []
        for name, batch in coded:
            if name in touched and name in self._relations:
                used = self._engine.reads(name)
                batch = self._translated(touched[name], batch, self._translation, used)
            if name in self._relations:
                fed.append((name, batch))
        try:
            self._engine.apply(fed)
        except BaseException:
            self._undo_tables()
            raise
        self._reading.advance()

    def apply_row(self, name: str, row: Row, weight: int) -> None:
        path = self._paths.get(name)
        if path is None:
            path = self._paths[name] = self._path(name)
        self._touched = path.tables
        path.put(row, weight)
        try:
            self._engine.run_row(path.plan)
        except BaseException:
            self._undo_tables()
            raise
        self._reading.advance()

    def _path(self, name: str) -> RowPath:
        table = self._tables.get(name)
        relation = table.relation if table is not None else self._relations[name]
        return RowPath(relation, table, self._engine, self._translation, self._strings)

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
        place = Path(directory, "tables")
        place.mkdir()
        for i, table in enumerate(self._tables.values()):
            np.save(place / f"{i}.npy", table.rows.dump())
        about = {"tables": list(self._tables), "strings": self._strings.strings[1:]}
        (place / "tables.json").write_text(json.dumps(about), encoding="utf-8")

    def load(self, program: Program, tables: Sequence[Relation], directory: str) -> None:
        engine = LocalEngine(program)
        engine.restore(Path(directory, "maps"))
        place = Path(directory, "tables")
        about = json.loads((place / "tables.json").read_text(encoding="utf-8"))
        self._strings = Dictionary(about["strings"])
        stored = {}
        for relation in tables:
            if relation.name not in about["tables"]:
                raise StateError(f"the checkpoint in {directory} has no rows of {relation.name}")
            table = StoredTable(relation, MemoryArrays(), self._strings)
            table.rows.fill(np.load(place / f"{about['tables'].index(relation.name)}.npy"))
            stored[relation.name] = table
        self._tables = stored
        self._use(engine)

    def close(self) -> None:
        self._tables = {}
        self._use(LocalEngine(_NOTHING))


class _Sources:
    """Tables and the maps of the programme before; streams start empty."""

    def __init__(self, tables: dict[str, StoredTable], old: LocalEngine) -> None:
        self._tables = tables
        self._maps = Maps(old)
        self._known: dict[str, Gmr] = {}

    def contents(self, atom: Rel | Delta | MapRef) -> Gmr:
        if isinstance(atom, MapRef):
            return self._maps.contents(atom)
        if atom.name not in self._known:
            table = self._tables.get(atom.name)
            rows = weighted_rows(table.relation, table.batch()) if table is not None else ()
            self._known[atom.name] = Gmr(rows)
        return self._known[atom.name]
