"""Rows in the order of a moment that follows from their values.

A queue is a few sorted runs, each at least twice as long as the next: a batch becomes a run, and
runs of one size are merged. Putting n rows in costs n log n in all, and what is due costs what
goes, whatever else waits. A row that was taken out again stands there with both weights until its
moment, or until a merge meets them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from viewlet.engine.values.batching import Batch, batch_of, weighted_rows
from viewlet.schema import Relation
from viewlet.storage.columns import Array


@dataclass
class _Run:
    """Rows by their moments; those before `start` are gone."""

    moments: Array
    batch: Batch
    start: int = 0

    def __len__(self) -> int:
        return len(self.moments) - self.start


class MomentQueue:
    """Weighted rows of one relation, each with the microsecond at which it is due."""

    def __init__(self, relation: Relation) -> None:
        self._relation = relation
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def add(self, moments: Array, batch: Batch) -> None:
        """Rows with their moments, in any order."""
        if not len(moments):
            return
        order = np.argsort(moments, kind="stable")
        self._runs.append(_Run(moments[order], taken(batch, order)))
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            last, before = self._runs.pop(), self._runs.pop()
            merged = self._merged(before, last)
            if len(merged):
                self._runs.append(merged)

    def _merged(self, left: _Run, right: _Run) -> _Run:
        moments = np.concatenate([left.moments[left.start :], right.moments[right.start :]])
        batch = joined([_rest(left), _rest(right)])
        order = np.argsort(moments, kind="stable")
        run = _Run(moments[order], taken(batch, order))
        return self._net(run) if (batch.weights < 0).any() else run

    def _net(self, run: _Run) -> _Run:
        """Rows that came and went are nothing."""
        total: Counter[tuple[object, ...]] = Counter()
        for moment, (row, weight) in zip(
            run.moments.tolist(), weighted_rows(self._relation, run.batch), strict=True
        ):
            total[(moment, *row)] += weight
        rows = [(key, weight) for key, weight in total.items() if weight]
        moments = np.fromiter((key[0] for key, _ in rows), np.int64, len(rows))
        return _Run(moments, batch_of(self._relation, [(key[1:], n) for key, n in rows]))  # type: ignore[misc]

    def next_moment(self) -> int | None:
        """When the first row is due; None if nothing waits."""
        return min((int(r.moments[r.start]) for r in self._runs if len(r)), default=None)

    def due(self, now: int) -> Batch | None:
        """The rows whose moment has come, which stay until they are dropped; None if none has."""
        parts = []
        for run in self._runs:
            end = int(np.searchsorted(run.moments, now, side="right"))
            if end > run.start:
                parts.append(run.batch.rows(run.start, end))
        return joined(parts) if parts else None

    def drop_due(self, now: int) -> None:
        """They are gone. A run of which half is gone gives back its memory."""
        for run in self._runs:
            run.start = max(run.start, int(np.searchsorted(run.moments, now, side="right")))
            if 2 * run.start > len(run.moments):
                everything = np.arange(run.start, len(run.moments))
                run.moments, run.batch = run.moments[everything], taken(run.batch, everything)
                run.start = 0
        self._runs = [run for run in self._runs if len(run)]


def _rest(run: _Run) -> Batch:
    return run.batch.rows(run.start, len(run.moments))


def taken(batch: Batch, chosen: Array) -> Batch:
    """The rows with these numbers, or where this mask is true, in arrays of their own."""
    return Batch(
        [column[chosen] for column in batch.columns],
        [None if nulls is None else nulls[chosen] for nulls in batch.nulls],
        batch.weights[chosen],
    )


def joined(batches: Sequence[Batch]) -> Batch:
    """Batches of one relation behind each other."""
    if len(batches) == 1:
        return batches[0]
    nulls: list[Array | None] = []
    for masks in zip(*(batch.nulls for batch in batches), strict=True):
        if all(mask is None for mask in masks):
            nulls.append(None)
            continue
        sizes = [len(batch) for batch in batches]
        nulls.append(
            np.concatenate(
                [np.zeros(n, bool) if m is None else m for m, n in zip(masks, sizes, strict=True)]
            )
        )
    columns = [np.concatenate(c) for c in zip(*(b.columns for b in batches), strict=True)]
    return Batch(columns, nulls, np.concatenate([batch.weights for batch in batches]))


def with_weights(batch: Batch, weights: Array) -> Batch:
    """The same rows, other weights."""
    return Batch(batch.columns, batch.nulls, weights)
