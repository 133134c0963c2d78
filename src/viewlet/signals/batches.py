"""Columnar batches: what flows between the operators of a signal query.

A batch is key-major. Its rows are grouped into segments, one per key that the batch says something
about, in ascending slot order (a slot is the dense number of a key); within a segment rows are in
time order. Segment s owns rows offsets[s]:offsets[s + 1]. It may be empty: it then carries progress
alone. `frontier[s]` promises that no later batch brings a row of that key with an earlier time.

Contract: operators never write into the arrays of a batch they receive; they may pass them on.
Key-major order was preferred to arrival order (the thesis keeps arrival order and looks up the
state of each event's group): one counting sort at the source buys contiguous loops in every later
operator, so the kernels vectorise along time and a key's state is touched once per batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewlet.signals.kernels import segments as kernel

Array = NDArray[Any]
Ints = NDArray[np.int64]
Columns = dict[str, Any]

INF = int(np.iinfo(np.int64).max)
NEVER = int(np.iinfo(np.int64).min)


def counts_to_offsets(counts: Array) -> Ints:
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


@dataclass(frozen=True)
class Segments:
    slots: Ints
    offsets: Ints
    frontier: Ints
    columns: Columns

    @property
    def rows(self) -> int:
        return int(self.offsets[-1])

    @cached_property
    def counts(self) -> Ints:
        return np.diff(self.offsets)

    def row_segments(self) -> Ints:
        """The segment number of every row."""
        return np.repeat(np.arange(len(self.slots)), self.counts)


@dataclass(frozen=True)
class Regular:
    """Times of evenly spaced events, unwritten: first[s], first[s] + step, ... in segment s.

    Sensors that report on a beat are the common case: their times need not be sorted by key,
    checked for order or overlap event by event, nor divided by the sampling period.
    """

    first: Ints
    step: int


@dataclass(frozen=True)
class Events(Segments):
    """Stream events with lifetimes [start, end); `end is None` means point events [t, t + 1)."""

    clock: Ints | Regular
    end: Ints | None

    @property
    def start(self) -> Ints:
        """Start times; those of regular events are written out when they are first asked for."""
        if isinstance(self.clock, Regular):
            times = kernel.regular_fill(self.clock.first, self.offsets, self.clock.step)
            object.__setattr__(self, "clock", times)
        return self.clock  # type: ignore[return-value]

    def ends(self) -> Ints:
        return self.start + 1 if self.end is None else self.end

    def keep(self, mask: Array) -> Events:
        """The rows where mask holds; segments and their progress stay."""
        return Events(
            self.slots,
            kernel.masked_offsets(self.offsets, mask),
            self.frontier,
            {name: column[mask] for name, column in self.columns.items()},
            self.start[mask],
            None if self.end is None else self.end[mask],
        )


@dataclass(frozen=True)
class Samples(Segments):
    """Samples of a uniform signal at times index * period + offset (thesis 7.4).

    `index is None` says that every segment is dense: row r of segment s has index first[s] + r.
    """

    first: Ints
    index: Ints | None

    def indices(self) -> Ints:
        if self.index is not None:
            return self.index
        return np.asarray(kernel.dense_index(self.first, self.offsets))

    def keep(self, mask: Array) -> Samples:
        offsets = kernel.masked_offsets(self.offsets, mask)
        columns = {name: column[mask] for name, column in self.columns.items()}
        return samples(self.slots, offsets, self.frontier, columns, self.indices()[mask])


@dataclass(frozen=True)
class Frames(Segments):
    """Arrays at hop points; `at` is the sample index of the last sample of each window."""

    at: Ints


@dataclass(frozen=True)
class WindowView:
    """Windows of `size` entries that begin at `starts` of `flat`, not yet copied out.

    Overlapping windows share their samples (the thesis' circular buffers): an operator that only
    looks at the deltas of a hop never pays for the copy.
    """

    flat: Array
    starts: Ints
    size: int

    def array(self) -> Array:
        steps = np.diff(self.starts)
        if len(steps) and steps[0] > 0 and (steps == steps[0]).all():
            view = np.lib.stride_tricks.sliding_window_view(self.flat, self.size)
            return view[int(self.starts[0]) : int(self.starts[-1]) + 1 : int(steps[0])]
        return np.asarray(kernel.gather_windows(self.flat, self.starts, self.size))


def as_array(column: Any) -> Array:
    """A column as an array: windows are copied out (or viewed), arrays are themselves."""
    return column.array() if isinstance(column, WindowView) else column


def samples(slots: Ints, offsets: Ints, frontier: Ints, columns: Columns, index: Ints) -> Samples:
    """Samples from explicit indices; dense segments are recognised and lose their index array."""
    first, dense = kernel.first_and_dense(offsets, index)
    return Samples(slots, offsets, frontier, columns, first, None if dense else index)


def with_columns(batch: Any, columns: Mapping[str, Any]) -> Any:
    """The same rows with other payload columns."""
    return replace(batch, columns=dict(columns))


def cat(parts: list[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
