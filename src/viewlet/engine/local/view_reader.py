"""Views of the local engine: their rows, and what the last batch did to them.

a view over maps alone       changes in O(batch), from the maps' undo logs
ORDER BY ... LIMIT k         changes in O(k + batch) while somebody asks for them at every batch
lets, OFFSET without LIMIT   changes from all rows before and after the batch
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from itertools import count

import numpy as np

from viewlet.calculus.database import Atoms, RelationReader
from viewlet.calculus.query import COUNT, ViewKind, repeated
from viewlet.calculus.ring import Key
from viewlet.engine.contract import Row, Weighted, difference, shown, weighted_difference
from viewlet.engine.host.records import MapReader
from viewlet.engine.values.batching import Batch
from viewlet.engine.values.limit_window import Window
from viewlet.engine.values.reading import rows_of, visible, weighted_rows, weighted_vectors
from viewlet.engine.values.vectors import Vector
from viewlet.program.ir import View
from viewlet.storage.columns import Array


@dataclass(frozen=True)
class _CachedWindow:
    """A view's window in one state of the engine, and in the state before, for an undo."""

    state: int
    window: Window
    before: tuple[int, Window] | None


class ViewReader:
    """Reads the views over some maps; `advance` and `go_back` say what became of batches."""

    def __init__(self, maps: MapReader) -> None:
        self._maps = maps
        self._states = count(1)
        self._state, self._previous = 0, -1
        self._cached_windows: dict[str, _CachedWindow] = {}

    def advance(self) -> None:
        """A batch was applied: what was read before it is of the previous state."""
        self._previous, self._state = self._state, next(self._states)

    def go_back(self) -> None:
        """The batch was taken back: the state before it is the current one again."""
        self._state, self._previous = self._previous, -1

    def columns(self, view: View) -> Batch:
        """The rows of a view as columns, in its order and within its limit."""
        return visible(view.query, *self._vectors(view, before=False))

    def find(self, view: View, key: Row) -> list[Row]:
        record = self._maps.find(view, key)
        if record is None:
            return []
        keys = _vectors_of(record.keys, record.nulls)
        database = database_of(self._maps)
        rows = weighted_rows(*weighted_vectors(view.query, keys, record.components, database))
        return repeated(shown(view.query, rows))

    def changes(self, view: View) -> Weighted:
        """The rows of a view that the last batch added or removed, with their weights."""
        query = view.query
        if query.lets or (query.offset and query.limit is None):
            return difference(self._all_rows(view, before=False), self._all_rows(view, before=True))
        delta = self._delta(view)
        return shown(query, delta) if query.limit is None else self._limited(view, delta)

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
        touched = self._maps.changed(view)
        keys = _vectors_of(touched.keys, touched.nulls)
        database = database_of(self._maps)
        old = weighted_rows(*weighted_vectors(view.query, keys, touched.old, database))
        new = weighted_rows(*weighted_vectors(view.query, keys, touched.new, database))
        return weighted_difference(new, old)

    def _limited(self, view: View, delta: Weighted) -> Weighted:
        before = self._window_before(view)
        after = before.after(delta, lambda: self._window(view, before=False))
        self._cached_windows[view.name] = _CachedWindow(
            self._state, after, (self._previous, before)
        )
        return after.changes_since(before)

    def _window_before(self, view: View) -> Window:
        """The window before the last batch: known if it was asked for then."""
        cached = self._cached_windows.get(view.name)
        if cached is not None and cached.state == self._previous:
            return cached.window
        if cached is not None and cached.before is not None and cached.before[0] == self._previous:
            return cached.before[1]
        return self._window(view, before=True)

    def _window(self, view: View, before: bool) -> Window:
        return Window.of(view.query, *self._vectors(view, before))

    def _all_rows(self, view: View, before: bool) -> list[Row]:
        return rows_of(visible(view.query, *self._vectors(view, before)))

    def _vectors(self, view: View, before: bool) -> tuple[list[Vector], Array]:
        if before:
            keys, components = self._records_before(view)
        else:
            records = self._maps.records(view)
            keys, components = _vectors_of(records.keys, records.nulls), records.components
        return weighted_vectors(view.query, keys, components, database_of(self._maps, before))

    def _records_before(self, view: View) -> tuple[list[Vector], dict[str, Array]]:
        columns = {
            name: self._maps.contents(map, column, before=True)
            for name, map, column in view.sources
        }
        rows: list[Key] = [()]
        if view.query.kind is not ViewKind.TOTAL:
            rows = list(columns[COUNT])
        components = {
            name: np.array(
                [columns[name].get(row, 0) for row in rows], self._maps.value_kind(map, column)
            )
            for name, map, column in view.sources
        }
        keys = []
        for i, kind in enumerate(self._maps.key_kinds(view)):
            gaps = np.fromiter((row[i] is None for row in rows), bool, len(rows))
            values = np.empty(len(rows), kind)
            values[:] = [row[i] if kind is object else row[i] or 0 for row in rows]
            keys.append(Vector(values, gaps if gaps.any() else None))
        return keys, components


def _vectors_of(columns: list[Array], nulls: list[Array | None]) -> list[Vector]:
    return [Vector(values, gaps) for values, gaps in zip(columns, nulls, strict=True)]


def database_of(
    maps: MapReader, before: bool = False, relations: RelationReader | None = None
) -> Atoms:
    """Maps as they are or were before the last batch, each column read once, beside relations."""
    return Atoms(
        relations=relations,
        maps=cache(partial(maps.weights, before=before)),
        columns=maps.columns,
    )
