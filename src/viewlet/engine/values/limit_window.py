"""ORDER BY ... LIMIT under changes: the rows that a user sees, kept from batch to batch.

    window = rows offset .. offset + limit - 1 in the view's order

The best rows are kept, some more than are seen, and a border: every row beyond it is behind all of
these. A batch changes the kept rows in O(kept + batch). Only where so many of them have gone that
the window reaches the border are all rows of the view looked at again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from viewlet.calculus.query import OrderItem, Query, repeated
from viewlet.engine.contract import Row, Weighted, difference
from viewlet.engine.values.batching import Batch, plain_values
from viewlet.engine.values.changed_rows import ChangedRows
from viewlet.engine.values.reading import foremost, ordered, rows_of, vector_of
from viewlet.engine.values.vectors import Vector
from viewlet.schema import Scalar
from viewlet.storage.columns import Array

_SPARE = 64
"""Rows that are kept behind the window, besides as many as it has."""


@dataclass(frozen=True)
class Window:
    """The best rows of a view in their order, with how often each occurs.

    `border`: rows that are not kept come after it; None if all rows are kept.
    """

    query: Query
    rows: tuple[tuple[Row, int], ...]
    border: Row | None

    @classmethod
    def of(cls, query: Query, columns: list[Vector], counts: Array) -> Window:
        """From all rows of the view."""
        room = _room(query)
        near = foremost(query, columns, room + 1)
        has_more = len(near) < len(counts)
        columns, counts = [column.take(near) for column in columns], counts[near]
        order = ordered(query, columns)
        count_by_row: dict[Row, int] = {}
        for start in range(0, len(order), room):
            best = order[start : start + room]
            rows = _rows([column.take(best) for column in columns], len(best))
            for row, number in zip(rows, counts[best].tolist(), strict=True):
                # Equal rows of several records stand side by side: all of them or none.
                if len(count_by_row) == room and row not in count_by_row:
                    return cls(query, tuple(count_by_row.items()), next(reversed(count_by_row)))
                count_by_row[row] = count_by_row.get(row, 0) + number
        border = next(reversed(count_by_row)) if has_more else None
        return cls(query, tuple(count_by_row.items()), border)

    def relevant(self, changes: ChangedRows) -> Weighted:
        """Those of the changes that may be of kept rows: what is surely beyond the border is none.

        Judged by the first column of ORDER BY, for all rows at once.
        """
        if self.border is None or not self.query.order:
            return changes.weighted()
        item = self.query.order[0]
        limit = self.border[item.column]
        if changes.is_listed:
            return [
                change
                for change in changes.weighted()
                if not _is_beyond(item, limit, change[0][item.column])
            ]
        gone, come = (_not_beyond(item, limit, batch) for batch in changes.batches)
        return [(row, -weight) for row, weight in gone] + come

    def after(self, delta: Weighted, recompute: Callable[[], Window]) -> Window:
        """The window after rows came and went; `recompute` makes it from all rows."""
        if not delta:
            return self
        count_by_row = dict(self.rows)
        for row, weight in delta:
            count_by_row[row] = count_by_row.get(row, 0) + weight
        border = self.border
        if border is not None:
            count_by_row.setdefault(border, 0)
        rows = _sorted(self.query, list(count_by_row))
        if border is not None:
            # What came from beyond the border belongs to the rows that are not kept.
            rows = rows[: rows.index(border) + 1]
        present = [(row, count_by_row[row]) for row in rows if count_by_row[row]]
        if border is not None and sum(count for _, count in present) < _end(self.query):
            return recompute()
        room = _room(self.query)
        if len(present) > 2 * room:
            border = present[room - 1][0]
            present = present[:room]
        return Window(self.query, tuple(present), border)

    def visible(self) -> list[Row]:
        """The rows within OFFSET and LIMIT."""
        rows = repeated(self.rows, _end(self.query))[self.query.offset :]
        return [row[: len(self.query.columns)] for row in rows]

    def changes_since(self, before: Window) -> Weighted:
        """The rows that came into sight, and those that went out of it with negative weights."""
        return difference(self.visible(), before.visible())


def _is_beyond(item: OrderItem, limit: Scalar, value: Scalar) -> bool:
    """Whether a value surely comes after the limit; NULL and NaN are not looked at."""
    if limit is None or value is None:
        return False
    after: bool = value < limit if item.descending else value > limit  # type: ignore[operator]
    return after


def _not_beyond(item: OrderItem, limit: Scalar, batch: Batch) -> Weighted:
    values, nulls = batch.columns[item.column], batch.nulls[item.column]
    if limit is not None and limit == limit:
        # Not beyond it, rather than before it: so is NaN, which compares with nothing.
        there = np.arange(len(batch)) if nulls is None else np.flatnonzero(nulls == 0)
        stays = np.ones(len(batch), bool)
        compared = values[there] < limit if item.descending else values[there] > limit
        stays[there] = ~compared.astype(bool)
        rows = np.flatnonzero(stays)
        batch = Batch(
            [column[rows] for column in batch.columns],
            [None if gaps is None else gaps[rows] for gaps in batch.nulls],
            batch.weights[rows],
        )
    return list(zip(rows_of(batch), batch.weights.tolist(), strict=True))


def _end(query: Query) -> int:
    """Rows up to the end of the window; OFFSET without LIMIT has none."""
    assert query.limit is not None
    return query.offset + query.limit


def _room(query: Query) -> int:
    return 2 * _end(query) + _SPARE


def _rows(columns: list[Vector], count: int) -> list[Row]:
    plain = [plain_values(column.values, column.nulls) for column in columns]
    return list(zip(*plain, strict=True)) if plain else [()] * count


def _sorted(query: Query, rows: list[Row]) -> list[Row]:
    columns = [vector_of([row[i] for row in rows], c.type) for i, c in enumerate(query.row_columns)]
    return [rows[index] for index in ordered(query, columns).tolist()]
