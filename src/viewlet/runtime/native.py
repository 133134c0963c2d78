"""The local engine as databases use it: encoded rows in, rows of views out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from viewlet.calculus.evaluate import evaluate
from viewlet.calculus.expr import PRESENCE, Delta, MapRef, Rel, relations
from viewlet.calculus.query import COUNT, ViewKind, make_rows
from viewlet.calculus.ring import Gmr, Key, Weight, to_weight
from viewlet.errors import ProgramError, UnsupportedError
from viewlet.kernels.jit import source
from viewlet.program.ir import Program, View
from viewlet.runtime.batching import Batch
from viewlet.runtime.constants import fill_column
from viewlet.runtime.engine import (
    Held,
    MapSize,
    Row,
    Weighted,
    difference,
    from_old_maps,
    visible_rows,
)
from viewlet.runtime.local import LocalEngine, Records
from viewlet.schema import Physical, Relation, Scalar

Components = Mapping[str, Weight]


class NativeEngine:
    """Implements runtime.engine.Engine over LocalEngine."""

    def __init__(self) -> None:
        self._engine = LocalEngine(Program((), (), ()))

    @classmethod
    def over(cls, engine: LocalEngine) -> NativeEngine:
        """Read the views of an engine that something else feeds."""
        found = cls()
        found._engine = engine
        return found

    @property
    def program(self) -> Program:
        return self._engine.program

    def install(self, program: Program, tables: Mapping[str, Gmr], passed: frozenset[str]) -> None:
        new = LocalEngine(program)
        definitions = [c.definition for m in program.maps for c in m.columns if c.definition]
        if any(relations(definition) & passed for definition in definitions):
            self._move(new, tables, passed)
        else:
            kept = [r for r in program.relations if r.name in tables]
            new.load({r.name: batch_of(r, tables[r.name]) for r in kept})
        self._engine = new

    def _move(self, new: LocalEngine, tables: Mapping[str, Gmr], passed: frozenset[str]) -> None:
        """Fill every map from its definition: streams that have passed live in old maps only."""
        held = Held(self.program)
        source = _Sources(tables, self._engine)
        for map in new.program.maps:
            for column in map.columns:
                if column.definition is not None:
                    moved = from_old_maps(held, column.definition, map.key_names, passed)
                    found = evaluate(moved or column.definition, map.key_names, source)
                    fill_column(
                        new.pool(map.name), new.place(map.name, column.name), found, new.dictionary
                    )

    def explain(self, view: str, stage: str) -> str:
        if stage != "kernels":
            raise UnsupportedError(f"the local engine has no stage {stage}")
        return source(self.program)

    def apply(self, changes: Sequence[tuple[str, Gmr]]) -> None:
        relations_ = {r.name: r for r in self.program.relations}
        self._engine.apply(
            [
                (name, batch_of(relations_[name], delta))
                for name, delta in changes
                if name in relations_
            ]
        )

    def undo(self) -> None:
        self._engine.undo()

    def rows(self, view: str) -> list[Row]:
        return self._rows(self._view(view), before=False)

    def changes(self, view: str) -> Weighted:
        """O(batch) for a view over one map; else from all of its rows before and after."""
        found = self._view(view)
        query = found.query
        maps = {map for _, map, _ in found.sources}
        if len(maps) > 1 or query.lets or query.limit is not None or query.offset:
            return difference(self._rows(found, before=False), self._rows(found, before=True))
        if query.kind is ViewKind.TOTAL:
            return difference(self._rows(found, before=False), self._rows(found, before=True))
        touched = self._engine.changed(found)
        old = self._made(found, _components(touched.keys, touched.nulls, touched.old), False)
        new = self._made(found, _components(touched.keys, touched.nulls, touched.new), False)
        return difference(new, old)

    def sizes(self) -> dict[str, MapSize]:
        return {
            name: MapSize(size["records"], size["bytes"])
            for name, size in self._engine.memory().items()
        }

    def save(self, directory: Path) -> None:
        self._engine.save(directory / "maps")

    def load(self, program: Program, directory: Path) -> None:
        engine = LocalEngine(program)
        engine.restore(directory / "maps")
        self._engine = engine

    def close(self) -> None:
        self._engine = LocalEngine(Program((), (), ()))

    def _view(self, name: str) -> View:
        return next(view for view in self.program.views if view.name == name)

    def _rows(self, view: View, before: bool) -> list[Row]:
        if before:
            records = self._records_before(view)
        else:
            found: Records = self._engine.records(view)
            records = _components(found.keys, found.nulls, found.components)
        return self._made(view, records, before)

    def _made(
        self, view: View, records: Iterator[tuple[Key, Components]], before: bool
    ) -> list[Row]:
        present = (
            (key, components)
            for key, components in records
            if components[COUNT] != 0 or view.query.kind is ViewKind.TOTAL
        )
        source = _Maps(self._engine, before)
        return visible_rows(view.query, list(make_rows(view.query, present, source)))

    def _records_before(self, view: View) -> Iterator[tuple[Key, Components]]:
        source = _Maps(self._engine, before=True)
        columns = {name: source.column(map, column) for name, map, column in view.sources}
        keys = [()] if view.query.kind is ViewKind.TOTAL else list(columns[COUNT])
        for key in keys:
            yield key, {name: to_weight(found.get(key, 0)) for name, found in columns.items()}


class _Maps:
    """The maps of an engine, as they are or as they were before its last batch."""

    def __init__(self, engine: LocalEngine, before: bool) -> None:
        self._engine = engine
        self._before = before
        self._known: dict[tuple[str, str], dict[Key, Any]] = {}

    def column(self, map: str, column: str) -> dict[Key, Any]:
        place = (map, column)
        if place not in self._known:
            self._known[place] = self._engine.contents(map, column, before=self._before)
        return self._known[place]

    def contents(self, atom: Rel | Delta | MapRef) -> Gmr:
        if not isinstance(atom, MapRef):
            raise ProgramError(f"a view reads {atom.name}, which is no map")
        if atom.column != PRESENCE:
            found = self.column(atom.name, atom.column)
            return Gmr((key, to_weight(value)) for key, value in found.items())
        names = [c.name for c in self._engine.program.map(atom.name).columns]
        return Gmr((key, 1) for key in {k for name in names for k in self.column(atom.name, name)})


class _Sources:
    """Tables and the maps of the programme before; streams start empty."""

    def __init__(self, tables: Mapping[str, Gmr], old: LocalEngine) -> None:
        self._tables = tables
        self._maps = _Maps(old, before=False)

    def contents(self, atom: Rel | Delta | MapRef) -> Gmr:
        if isinstance(atom, MapRef):
            return self._maps.contents(atom)
        return self._tables.get(atom.name, _EMPTY)


_EMPTY = Gmr()


def _components(
    keys: list[Any], nulls: list[Any], components: Mapping[str, Any]
) -> Iterator[tuple[Key, Components]]:
    """Columns -> keys with their components' weights."""
    columns = []
    for values, gaps in zip(keys, nulls, strict=True):
        plain = values.tolist()
        if gaps is not None:
            plain = [None if gap else value for value, gap in zip(plain, gaps, strict=True)]
        columns.append(plain)
    names = list(components)
    weights = list(zip(*(components[name].tolist() for name in names), strict=True))
    rows = zip(*columns, strict=True) if columns else iter([()] * len(weights))
    for key, found in zip(rows, weights, strict=True):
        yield key, {n: to_weight(w) for n, w in zip(names, found, strict=True)}


def batch_of(relation: Relation, delta: Gmr) -> Batch:
    """Encoded rows with weights -> columns."""
    items = list(delta.items())
    weights = np.fromiter((int(weight) for _, weight in items), np.int64, len(items))
    columns: list[Any] = []
    nulls: list[Any] = []
    for i, column in enumerate(relation.columns):
        values: list[Scalar] = [key[i] for key, _ in items]
        gaps = np.fromiter((value is None for value in values), np.uint8, len(values))
        nulls.append(gaps if gaps.any() else None)
        if column.type.physical is Physical.STR:
            texts = np.empty(len(values), object)
            texts[:] = values
            columns.append(texts)
        else:
            dtype = np.float64 if column.type.physical is Physical.FLOAT else np.int64
            columns.append(np.array([value or 0 for value in values], dtype))
    return Batch(columns, nulls, weights)
