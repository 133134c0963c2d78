"""Views of the local engine: their rows, and what the last batch did to them.

a view over maps alone       changes in O(batch), from the maps' undo logs
ORDER BY ... LIMIT k         changes in O(k + batch) while somebody asks for them at every batch
lets, OFFSET without LIMIT   changes from all rows before and after the batch

What was read once (how many rows there are, the rows within LIMIT) is kept up to date in O(batch)
for as long as somebody goes on reading it.
"""

from __future__ import annotations

from functools import cache, partial
from itertools import count

import numpy as np

from viewlet.calculus.database import Atoms, RelationReader
from viewlet.calculus.query import COUNT, ViewKind, make_rows, repeated
from viewlet.calculus.ring import Key, to_weight
from viewlet.engine.contract import Row, Weighted, difference, shown, weighted_difference
from viewlet.engine.host.records import MapReader
from viewlet.engine.local.followed import PATIENCE, Followed
from viewlet.engine.local.record_changes import changes_of_records
from viewlet.engine.values.batching import Batch
from viewlet.engine.values.changed_rows import ChangedRows, batch_of_rows
from viewlet.engine.values.limit_window import Window
from viewlet.engine.values.reading import rows_of, visible, weighted_rows, weighted_vectors
from viewlet.engine.values.vectors import Vector
from viewlet.program.ir import View
from viewlet.storage.columns import Array

_MOST_FOLLOWED = 1024
"""Rows that a window may show, and records that a batch may change, for it to be followed."""


class ViewReader:
    """Reads the views over some maps; `advance` and `go_back` say what became of batches.

    `follows`: whether batches bring the views up to date, so that what was read can follow them.
    """

    def __init__(self, maps: MapReader, *, follows: bool = True) -> None:
        self._maps = maps
        self._unread = database_of(maps)  # for queries without lets, which read nothing of it
        self._follows = follows
        self._refreshed: set[str] = set()
        self._states = count(1)
        self._state, self._previous = 0, -1
        self._windows: dict[str, Followed[Window]] = {}
        self._seen: dict[str, tuple[Window, Batch]] = {}
        self._counts: dict[str, Followed[int]] = {}

    def advance(self) -> None:
        """A batch was applied: what was read before it is of the previous state."""
        self._previous, self._state = self._state, next(self._states)
        if self._counts or self._windows:
            self._follow()

    def go_back(self) -> None:
        """The batch was taken back: the state before it is the current one again."""
        self._state, self._previous = self._previous, -1

    def is_refreshed(self, view: str) -> None:
        """A view changes when it is refreshed, not with batches: nothing follows these."""
        self._refreshed.add(view)
        self._windows.pop(view, None)
        self._counts.pop(view, None)

    def _can_follow(self, view: View) -> bool:
        return self._follows and view.name not in self._refreshed

    def _follow(self) -> None:
        for name, known in list(self._counts.items()):
            if known.at(self._previous) is None or known.unread >= PATIENCE:
                del self._counts[name]
            else:
                self._count(known.view)
        for name, window in list(self._windows.items()):
            is_read = window.unread < PATIENCE
            if not is_read or self._maps.changed_most(window.view) > _MOST_FOLLOWED:
                del self._windows[name]
                continue
            try:
                self._current_window(window.view)
            except Exception:  # the batch stands: who reads the view hears of it
                del self._windows[name]

    def columns(self, view: View) -> Batch:
        """The rows of a view as columns, in its order and within its limit."""
        query = view.query
        is_small = query.limit is not None and query.offset + query.limit <= _MOST_FOLLOWED
        if is_small and not query.lets and self._can_follow(view):
            window = self._current_window(view)
            self._windows[view.name].unread = 0
            seen = self._seen.get(view.name)
            if seen is None or seen[0] is not window:
                seen = self._seen[view.name] = window, batch_of_rows(query, window.visible())
            return seen[1]
        return visible(query, *self._vectors(view, before=False))

    def find(self, view: View, key: Row) -> list[Row]:
        query = view.query
        if self._maps.is_over_one_map(view) and not query.lets:
            plain = self._maps.find_plain(view, key)
            if plain is None or (not plain[1][COUNT] and query.kind is not ViewKind.TOTAL):
                return []
            weights = {name: to_weight(value) for name, value in plain[1].items()}
            rows = list(make_rows(query, iter([(plain[0], weights)]), self._unread))
            return repeated(shown(query, rows))
        record = self._maps.find(view, key)
        if record is None:
            return []
        keys = _vectors_of(record.keys, record.nulls)
        database = database_of(self._maps)
        rows = weighted_rows(*weighted_vectors(query, keys, record.components, database))
        return repeated(shown(query, rows))

    def changes(self, view: View) -> ChangedRows:
        """The rows of a view that the last batch added or removed."""
        query = view.query
        if query.lets or (query.offset and query.limit is None):
            now, before = self._all_rows(view, before=False), self._all_rows(view, before=True)
            return ChangedRows.of(query, difference(now, before))
        if query.limit is None:
            delta = self._delta(view)
            return ChangedRows.of(query, shown(query, delta.weighted())) if query.sorts else delta
        before_batch = self._window_before(view)
        after = self._current_window(view, before_batch)
        if view.name in self._windows:
            self._windows[view.name].unread = 0
        return ChangedRows.of(query, after.changes_since(before_batch))

    def count(self, view: View) -> int | None:
        """How many rows a user sees; None where all rows must be read to know."""
        query = view.query
        if query.having is not None or query.lets or query.kind is not ViewKind.GROUP:
            return None
        count = self._count(view)
        if view.name in self._counts:
            self._counts[view.name].unread = 0
        visible_count = max(count - query.offset, 0)
        return visible_count if query.limit is None else min(visible_count, query.limit)

    def _count(self, view: View) -> int:
        """How many records a view has."""
        if not self._can_follow(view):
            return self._maps.count(view)
        known = self._counts.get(view.name)
        if known is not None:
            now, before = known.at(self._state), known.at(self._previous)
            if now is not None:
                return now
            if before is not None:
                known.move(self._state, before + self._maps.count_change(view))
                return known.value
        count = self._maps.count(view)
        self._counts[view.name] = Followed(view, self._state, count)
        return count

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

    def _delta(self, view: View) -> ChangedRows:
        """What the batch did to the view's rows, before ORDER BY and LIMIT."""
        records = self._maps.touched(view)
        if records is not None:
            return changes_of_records(view.query, records, self._unread)
        return ChangedRows.of(view.query, self._delta_of_maps(view))

    def _delta_of_maps(self, view: View) -> Weighted:
        """The same of a view over several maps."""
        touched = self._maps.changed(view)
        keys = _vectors_of(touched.keys, touched.nulls)
        database = database_of(self._maps)
        old = weighted_rows(*weighted_vectors(view.query, keys, touched.old, database))
        new = weighted_rows(*weighted_vectors(view.query, keys, touched.new, database))
        return weighted_difference(new, old)

    def _current_window(self, view: View, before: Window | None = None) -> Window:
        """The window as it is, from that before the batch if it is known."""
        known = self._windows.get(view.name)
        if known is not None:
            now = known.at(self._state)
            if now is not None:
                return now
            before = known.at(self._previous) if before is None else before
        if before is None:
            after = self._window(view, before=False)
        else:
            delta = before.relevant(self._delta(view))
            after = before.after(delta, lambda: self._window(view, before=False))
        if not self._can_follow(view):
            return after
        if known is None or before is None:
            earlier = None if before is None else (self._previous, before)
            self._windows[view.name] = Followed(view, self._state, after, earlier)
        else:
            known.before = self._previous, before
            known.state, known.value = self._state, after
            known.unread += 1
        return after

    def _window_before(self, view: View) -> Window:
        """The window before the last batch: known if it was asked for then."""
        known = self._windows.get(view.name)
        window = known.at(self._previous) if known is not None else None
        return self._window(view, before=True) if window is None else window

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
