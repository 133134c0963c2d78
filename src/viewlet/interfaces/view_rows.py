"""Rows of a view as a sequence: named tuples that are made when somebody looks at them.

len(rows), bool(rows)      from the columns
rows[0], iteration, ==     the rows, made once
rows.columns()             the columns themselves, for Arrow
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from viewlet.calculus.query import Query
from viewlet.engine.contract import Row
from viewlet.engine.values.batching import Batch
from viewlet.engine.values.python_rows import python_rows
from viewlet.engine.values.reading import repeated_positions
from viewlet.interfaces.row_classes import row_class
from viewlet.schema import decode


class RowSequence(Sequence[Any]):
    """Looks like the list of its rows, and is equal to it.

    >>> waiting = db.subscribe("v").next()
    >>> db.insert("r", (1, 10))
    1
    >>> rows = waiting.result(timeout=1).inserted
    >>> rows, len(rows), rows[0].total, rows == [(1, 15)]
    ([V(a=1, total=15)], 1, 15, True)
    """

    def __init__(
        self, query: Query, make: Callable[[], Batch], listed: list[Row] | None = None
    ) -> None:
        """`make` gives columns with a positive weight for each row; `listed` are encoded rows, a
        few, where they are there already."""
        self._query = query
        self._make = make
        self._listed = listed

    @cached_property
    def _weighted(self) -> Batch:
        return self._make()

    def columns(self) -> Batch:
        """A row for each copy, with weight 1."""
        batch = self._weighted
        if not (batch.weights != 1).any():
            return batch
        rows = repeated_positions(np.arange(len(batch)), batch.weights)
        return Batch(
            [column[rows] for column in batch.columns],
            [None if gaps is None else gaps[rows] for gaps in batch.nulls],
            np.ones(len(rows), np.int64),
        )

    @cached_property
    def _rows(self) -> list[Any]:
        types = [column.type for column in self._query.columns]
        make = row_class(self._query)._make
        if self._listed is not None:
            return [make(map(decode, row, types)) for row in self._listed]
        return list(python_rows(types, self.columns(), make))

    def __len__(self) -> int:
        if self._listed is not None:
            return len(self._listed)
        return int(self._weighted.weights.sum())

    def __getitem__(self, position: Any) -> Any:
        return self._rows[position]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RowSequence):
            return self._rows == other._rows
        return self._rows == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Sequence[Any]) -> list[Any]:
        return [*self._rows, *other]

    def __radd__(self, other: Sequence[Any]) -> list[Any]:
        return [*other, *self._rows]

    def __repr__(self) -> str:
        return repr(self._rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (self._rows,)
