"""Batches that meet: merging rows that waited with rows that came, and pairing two sides."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from viewlet.signals.batches import (
    NEVER,
    Array,
    Columns,
    Events,
    Ints,
    Regular,
    Samples,
    Segments,
    samples,
)
from viewlet.signals.kernels import ordering as kernel
from viewlet.signals.state import OperatorState

Batch = TypeVar("Batch", Events, Samples)


def take_columns(a: Columns, b: Columns, take: Array) -> Columns:
    """Columns of a ++ b at the places `take`."""
    return {name: np.concatenate([a[name], b[name]])[take] for name in a}


def merge_events(a: Events, b: Events) -> Events:
    """Rows of a, then of b, per key; progress of b where b knows the key."""
    slots, offsets, take = kernel.merge_layout(a.slots, a.offsets, b.slots, b.offsets)
    end = None
    if a.end is not None or b.end is not None:
        end = np.concatenate([a.ends(), b.ends()])[take]
    columns = take_columns(a.columns, b.columns, take)
    start = np.concatenate([a.start, b.start])[take]
    return Events(slots, offsets, _frontier(slots, a, b), columns, start, end)


def merge_samples(a: Samples, b: Samples) -> Samples:
    """Samples of the same keys from two batches, in the order of time."""
    slots, offsets, take = kernel.merge_layout(a.slots, a.offsets, b.slots, b.offsets)
    columns = take_columns(a.columns, b.columns, take)
    index = np.concatenate([a.indices(), b.indices()])[take]
    return samples(slots, offsets, _frontier(slots, a, b), columns, index)


def _frontier(slots: Ints, a: Segments, b: Segments) -> Ints:
    frontier = np.full(len(slots), NEVER, np.int64)
    frontier[np.searchsorted(slots, a.slots)] = a.frontier
    frontier[np.searchsorted(slots, b.slots)] = b.frontier
    return frontier


def sort_by_time(batch: Events) -> Events:
    """Rows of each key in time order; equal times keep their order of arrival."""
    order = np.lexsort((batch.start, batch.row_segments()))
    return Events(
        batch.slots,
        batch.offsets,
        batch.frontier,
        {name: column[order] for name, column in batch.columns.items()},
        batch.start[order],
        None if batch.end is None else batch.end[order],
    )


def pair(state: OperatorState, left: Any, right: Any) -> tuple[Any, Any, Ints]:
    """Both sides over the same keys, with the rows that waited, and how far both have come.

    Bound of a key = min(frontier left, frontier right): below it nothing can change.
    """
    bound_slots = np.union1d(left.slots, right.slots)
    fronts = []
    for name, side in (("left", left), ("right", right)):
        front = state.keyed(f"front_{name}", bound_slots, (), np.int64, NEVER)
        front[side.slots] = np.maximum(front[side.slots], side.frontier)
        fronts.append(front)
    merge: Any = merge_samples if isinstance(left, Samples) else merge_events
    sides = []
    for name, side in (("left", left), ("right", right)):
        waiting = state.pool(name)
        sides.append(side if waiting is None else merge(waiting, side))
    slots = np.union1d(sides[0].slots, sides[1].slots)
    sides = [expand(side, slots) for side in sides]
    return sides[0], sides[1], np.minimum(fronts[0][slots], fronts[1][slots])


def expand(batch: Any, slots: Ints) -> Any:
    """The same rows with a segment for each of `slots` (a superset of the batch's)."""
    if len(slots) == len(batch.slots):
        return batch
    where = np.searchsorted(slots, batch.slots)
    counts = np.zeros(len(slots), np.int64)
    counts[where] = batch.counts
    offsets = np.zeros(len(slots) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    frontier = np.full(len(slots), NEVER, np.int64)
    frontier[where] = batch.frontier
    if isinstance(batch, Samples):
        first = np.zeros(len(slots), np.int64)
        first[where] = batch.first
        return Samples(slots, offsets, frontier, batch.columns, first, batch.index)
    clock = batch.clock
    if isinstance(clock, Regular):
        first = np.zeros(len(slots), np.int64)
        first[where] = clock.first
        clock = Regular(first, clock.step)
    return Events(slots, offsets, frontier, batch.columns, clock, batch.end)
