"""Changes that a deferred view has not seen yet, of one relation.

Batches are kept as they came; rows that came alone are put together. Once opposite rows are among
many, they are coalesced: equal rows become one with the sum of their weights, and those of weight 0
go. So what is kept is bounded by what changed, not by how often.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from viewlet.engine.values.batching import Batch, batch_of
from viewlet.schema import Physical, Relation, Scalar
from viewlet.storage.columns import Array

_MANY_ROWS = 4_096
"""From here on it is worth looking for rows that cancel each other."""

_LARGEST = float(1 << 62)

Row = tuple[Sequence[Scalar], int]
"""Encoded values, and a weight."""


class PendingRows:
    """What one deferred view has still to see of one relation."""

    def __init__(self, relation: Relation) -> None:
        self.relation = relation
        self._items: list[Batch | Row] = []
        self._length = 0
        self._coalesced = 0
        self._mark: tuple[int, int, int] | None = None
        self._taken: tuple[list[Batch | Row], int] | None = None

    def __len__(self) -> int:
        return self._length

    def mark(self, batch: int) -> None:
        """Before the rows of a batch, known by its number: `undo` goes back to here."""
        if self._mark is not None and self._mark[0] == batch:
            return
        if self._length > _MANY_ROWS + 2 * self._coalesced:
            batches = self.changes()
            self._items = [*batches]
            self._length = self._coalesced = sum(map(len, batches))
        self._mark = batch, len(self._items), self._length

    def add(self, batch: Batch) -> None:
        """Rows that stay as they are: nobody else writes to their arrays."""
        self._items.append(batch)
        self._length += len(batch)

    def add_row(self, row: Sequence[Scalar], weight: int) -> None:
        """One encoded row."""
        self._items.append((row, weight))
        self._length += 1

    def undo(self, batch: int) -> None:
        """Forget the rows of this batch."""
        if self._mark is not None and self._mark[0] == batch:
            _, items, self._length = self._mark
            del self._items[items:]
            self._mark = None

    def changes(self) -> list[Batch]:
        """All of it, coalesced where rows went."""
        alone = [item for item in self._items if not isinstance(item, Batch)]
        batches = [item for item in self._items if isinstance(item, Batch)]
        if alone:
            batches.append(batch_of(self.relation, alone))
        if not any((batch.weights < 0).any() for batch in batches):
            return batches
        forms = sorted({batch.coded for batch in batches})
        return [
            coalesced(self.relation, [batch for batch in batches if batch.coded is coded])
            for coded in forms
        ]

    def clear(self) -> None:
        """The view has seen them."""
        self._taken = self._items, self._length
        self._items, self._length, self._coalesced = [], 0, 0

    def restore(self) -> None:
        """What was cleared last is pending again: the refresh was taken back."""
        if self._taken is not None:
            self._items, self._length = self._taken
            self._taken = None


def coalesced(relation: Relation, batches: Sequence[Batch]) -> Batch:
    """Equal rows -> one with the sum of their weights; none where that is 0.

    Numbers are compared by their bits, which schema.py makes unique, and NULLs are equal.
    """
    import pyarrow as pa

    weights = np.concatenate([batch.weights for batch in batches])
    joined = _joined(batches, weights)
    if np.abs(weights.astype(np.float64)).sum() > _LARGEST:
        return joined  # sums might not fit
    columns = {}
    for i, values in enumerate(joined.columns):
        words = values.view(np.int64) if values.dtype == np.float64 else values
        kind = pa.large_string() if values.dtype == object else None
        columns[f"c{i}"] = pa.array(words, kind, mask=joined.nulls[i])
    names = list(columns)
    table = pa.table({**columns, "weight": weights})
    sums = table.group_by(names, use_threads=False).aggregate([("weight", "sum")])
    nonzero = sums.filter(pa.compute.not_equal(sums["weight_sum"], 0))
    columns_and_nulls = [
        _column(nonzero[name], column.type.physical, values)
        for name, column, values in zip(names, relation.columns, joined.columns, strict=True)
    ]
    return Batch(
        [values for values, _ in columns_and_nulls],
        [nulls for _, nulls in columns_and_nulls],
        nonzero["weight_sum"].to_numpy(),
        joined.coded,
    )


def _joined(batches: Sequence[Batch], weights: Array) -> Batch:
    columns: list[Array] = []
    nulls: list[Array | None] = []
    for i in range(len(batches[0].columns)):
        columns.append(np.concatenate([batch.columns[i] for batch in batches]))
        masks = [batch.nulls[i] for batch in batches]
        if all(mask is None for mask in masks):
            nulls.append(None)
            continue
        filled = [
            np.zeros(len(batch), bool) if mask is None else mask.astype(bool)
            for batch, mask in zip(batches, masks, strict=True)
        ]
        nulls.append(np.concatenate(filled))
    return Batch(columns, nulls, weights, batches[0].coded)


def _column(values: object, physical: Physical, like: Array) -> tuple[Array, Array | None]:
    """An Arrow column as a batch has it: values with 0 or None where there is none, and a mask."""
    column = values.combine_chunks()  # type: ignore[attr-defined]
    mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    if like.dtype == object:
        texts = np.empty(len(column), object)
        texts[:] = column.to_pylist()
        return texts, mask
    words = (column.fill_null(0) if mask is not None else column).to_numpy(zero_copy_only=False)
    return (words.view(np.float64) if physical is Physical.FLOAT else words), mask
