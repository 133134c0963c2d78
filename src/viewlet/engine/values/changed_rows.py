"""What a batch did to a view's rows: those that went and those that came, made when looked at.

Whoever hears of a batch of many rows may want their number, some of them, or all as Arrow; Python's
objects are made of those that are asked for. What is kept are copies of the records that the batch
changed, so that it says the same whenever it is read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from viewlet.calculus.query import Query
from viewlet.engine.contract import Row, Weighted
from viewlet.engine.values.batching import Batch
from viewlet.engine.values.reading import rows_of, vector_of


class ChangedRows:
    """Rows that went and rows that came, with how often. False if there are none."""

    def __init__(
        self,
        is_any: bool,
        make: Callable[[], tuple[Batch, Batch]],
        listed: Weighted | None = None,
    ) -> None:
        """`listed`: the changes, where they are rows already."""
        self._is_any = is_any
        self._make = make
        self._listed = listed

    @classmethod
    def of(cls, query: Query, changes: Weighted) -> ChangedRows:
        """From rows with weights."""
        gone = [(row, -weight) for row, weight in changes if weight < 0]
        come = [(row, weight) for row, weight in changes if weight > 0]
        return cls(bool(changes), lambda: (_batch(query, gone), _batch(query, come)), changes)

    def __bool__(self) -> bool:
        return self._is_any

    @property
    def is_listed(self) -> bool:
        """Whether the changes are rows already."""
        return self._listed is not None

    @cached_property
    def batches(self) -> tuple[Batch, Batch]:
        """What went and what came, with positive weights."""
        return self._make()

    def weighted(self) -> Weighted:
        """Rows with their weights, negative ones first."""
        if self._listed is not None:
            return self._listed
        gone, come = self.batches
        return [
            *zip(rows_of(gone), (-gone.weights).tolist(), strict=True),
            *zip(rows_of(come), come.weights.tolist(), strict=True),
        ]


def batch_of_rows(query: Query, rows: list[Row]) -> Batch:
    """A view's rows as columns."""
    return _batch(query, [(row, 1) for row in rows])


def _batch(query: Query, changes: Weighted) -> Batch:
    types = [column.type for column in query.columns]
    vectors = [vector_of([row[i] for row, _ in changes], type) for i, type in enumerate(types)]
    weights = np.fromiter((weight for _, weight in changes), np.int64, len(changes))
    return Batch([v.values for v in vectors], [v.nulls for v in vectors], weights)


@runtime_checkable
class ChangeReader(Protocol):
    """An engine that says what a batch did to a view without a Python row for each change."""

    def changed_rows(self, view: str) -> ChangedRows:
        """The same as `changes`."""
        ...
