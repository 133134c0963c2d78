"""Views of the local engine: their rows, and what the last batch did to them.

a view over maps alone       changes in O(batch), from the maps' undo logs
ORDER BY ... LIMIT k         changes in O(k + batch) while somebody asks for them at every batch
lets, OFFSET without LIMIT   changes from all rows before and after the batch
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from viewlet.calculus.expr import PRESENCE, Delta, MapRef, Rel
from viewlet.calculus.query import COUNT, ViewKind
from viewlet.calculus.ring import Gmr, Key, to_weight
from viewlet.errors import ProgramError
from viewlet.program.ir import View
from viewlet.runtime.batching import Batch
from viewlet.runtime.engine import Row, Weighted, difference
from viewlet.runtime.local import LocalEngine
from viewlet.runtime.reading import rows_of, visible, weighted_rows, weighted_vectors
from viewlet.runtime.vectors import Vector
from viewlet.runtime.window import Window
from viewlet.storage.columns import Array


@dataclass(frozen=True)
class _Seen:
    """A view's window in one state of the engine, and in the state before, for an undo."""

    state: int
    window: Window
    before: tuple[int, Window] | None


class ViewReader:
    """Reads the views of one engine. `advance` and `go_back` tell it of batches and undone ones."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._states = count(1)
        self._state, self._previous = 0, -1
        self._seen: dict[str, _Seen] = {}

    def advance(self) -> None:
        self._previous, self._state = self._state, next(self._states)

    def go_back(self) -> None:
        self._state, self._previous = self._previous, -1

    def columns(self, view: View) -> Batch:
        return visible(view.query, *self._vectors(view, before=False))

    def find(self, view: View, key: Row) -> list[Row]:
        found = self._engine.find(view, key)
        if found is None:
            return []
        keys = [Vector(v, n) for v, n in zip(found.keys, found.nulls, strict=True)]
        maps = Maps(self._engine)
        return _repeated(weighted_rows(*weighted_vectors(view.query, keys, found.components, maps)))

    def changes(self, view: View) -> Weighted:
        query = view.query
        if query.lets or (query.offset and query.limit is None):
            return difference(self._all_rows(view, before=False), self._all_rows(view, before=True))
        delta = self._delta(view)
        return delta if query.limit is None else self._limited(view, delta)

    def describe(self, view: View) -> str:
        """How the changes of a view are found, as a comment."""
        if view.query.lets:
            how = "from all rows before and after a batch: it has subqueries computed at reading"
        elif view.query.limit is not None:
            how = "in O(limit + batch)"
        elif view.query.offset:
            how = "from all rows before and after a batch: OFFSET without LIMIT"
        else:
            how = "in O(batch)"
        return f"# changes of view {view.name}: {how}\n"

    def _delta(self, view: View) -> Weighted:
        """What the batch did to the view's rows, LIMIT left aside."""
        touched = self._engine.changed(view)
        keys = [Vector(v, n) for v, n in zip(touched.keys, touched.nulls, strict=True)]
        maps = Maps(self._engine)
        old = weighted_rows(*weighted_vectors(view.query, keys, touched.old, maps))
        new = weighted_rows(*weighted_vectors(view.query, keys, touched.new, maps))
        return difference(_repeated(new), _repeated(old))

    def _limited(self, view: View, delta: Weighted) -> Weighted:
        before = self._window_before(view)
        after = before.after(delta, lambda: self._window(view, before=False))
        self._seen[view.name] = _Seen(self._state, after, (self._previous, before))
        return after.changes_since(before)

    def _window_before(self, view: View) -> Window:
        """The window before the last batch: known if it was asked for then."""
        seen = self._seen.get(view.name)
        if seen is not None and seen.state == self._previous:
            return seen.window
        if seen is not None and seen.before is not None and seen.before[0] == self._previous:
            return seen.before[1]
        return self._window(view, before=True)

    def _window(self, view: View, before: bool) -> Window:
        return Window.of(view.query, *self._vectors(view, before))

    def _all_rows(self, view: View, before: bool) -> list[Row]:
        return rows_of(visible(view.query, *self._vectors(view, before)))

    def _vectors(self, view: View, before: bool) -> tuple[list[Vector], Array]:
        maps = Maps(self._engine, before)
        if before:
            keys, components = self._records_before(view, maps)
        else:
            found = self._engine.records(view)
            keys = [Vector(v, n) for v, n in zip(found.keys, found.nulls, strict=True)]
            components = found.components
        return weighted_vectors(view.query, keys, components, maps)

    def _records_before(self, view: View, maps: Maps) -> tuple[list[Vector], dict[str, Array]]:
        columns = {name: maps.column(map, column) for name, map, column in view.sources}
        rows: list[Key] = [()]
        if view.query.kind is not ViewKind.TOTAL:
            rows = list(columns[COUNT])
        kinds = {name: self._engine.value_kind(map, c) for name, map, c in view.sources}
        components = {
            name: np.array([found.get(row, 0) for row in rows], kinds[name])
            for name, found in columns.items()
        }
        keys = []
        for i, slot in enumerate(self._engine.key_slots(view)):
            gaps = np.fromiter((row[i] is None for row in rows), bool, len(rows))
            values = np.empty(len(rows), slot)
            values[:] = [row[i] if slot is object else row[i] or 0 for row in rows]
            keys.append(Vector(values, gaps if gaps.any() else None))
        return keys, components


def _repeated(found: Iterable[tuple[Row, int]]) -> list[Row]:
    return [row for row, number in found for _ in range(number)]


class Maps:
    """The maps of an engine, as they are or as they were before its last batch."""

    def __init__(self, engine: LocalEngine, before: bool = False) -> None:
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
