"""Columnar batches: what flows between the operators of a signal query.

A batch is key-major. Its rows are grouped into segments, one per key that the batch says something
about, in ascending slot order (a slot is the dense number of a key); within a segment rows are in
time order. Segment s owns rows offsets[s]:offsets[s + 1]. It may be empty: it then carries progress
alone. `frontier[s]` promises that no later batch brings a row of that key with an earlier time.

Contract: operators never write into the arrays of a batch they receive; they may pass them on.
Key-major order was preferred to arrival order (the thesis keeps arrival order and looks up the
state of each event's group): one counting sort at the source buys contiguous loops in every later
operator, so the kernels vectorize along time and a key's state is touched once per batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewlet.errors import TypingError
from viewlet.signals.kernels import segments as kernel

Array = NDArray[Any]
Ints = NDArray[np.int64]
Columns = dict[str, Any]

INF = int(np.iinfo(np.int64).max)
NEVER = int(np.iinfo(np.int64).min)
_INT64 = np.dtype(np.int64)
_PART_SAMPLES = 1 << 15  # samples in the windows that go through a pipeline together


def counts_to_offsets(counts: Array) -> Ints:
    """[2, 3] -> [0, 2, 5]"""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


@dataclass(frozen=True)
class Segments:
    """Rows by key: those of slots[i] from offsets[i] on; later ones come after frontier[i]."""

    slots: Ints
    offsets: Ints
    frontier: Ints
    columns: Columns

    @property
    def rows(self) -> int:
        """Rows of all keys together."""
        return int(self.offsets[-1])

    @cached_property
    def counts(self) -> Ints:
        """Rows of each key."""
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
        """When each event ends; a point lasts one tick."""
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
        """The number of each sample on its grid, computed where the samples have no gaps."""
        if self.index is not None:
            return self.index
        return np.asarray(kernel.dense_index(self.first, self.offsets))

    def keep(self, mask: Array) -> Samples:
        """The samples where the mask is true."""
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

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, rows: slice) -> WindowView:
        return WindowView(self.flat, self.starts[rows], self.size)

    def array(self) -> Array:
        """One row for each window; a view of the samples where the windows are evenly spaced."""
        steps = np.diff(self.starts)
        if len(steps) and steps[0] > 0 and (steps == steps[0]).all():
            view = np.lib.stride_tricks.sliding_window_view(self.flat, self.size)
            return view[int(self.starts[0]) : int(self.starts[-1]) + 1 : int(steps[0])]
        return np.asarray(kernel.gather_windows(self.flat, self.starts, self.size))


@dataclass(frozen=True)
class Deferred:
    """A column that is not written yet: fill(out) writes its `rows` values into out, once.

    Only the last operator of a plan gives such columns: the caller knows where its rows end up.
    """

    rows: int
    fill: Callable[[Array], None]
    dtype: Any = _INT64
    shape: tuple[int, ...] = (0,)
    ndim: int = 1

    def __len__(self) -> int:
        return self.rows


@dataclass(frozen=True)
class WindowStep:
    """A step of a pipeline: function(windows [n, size]) -> one array or number per window.

    `views` says that the function also takes a WindowView, and copies nothing out.
    """

    label: str
    function: Callable[[Any], Any]
    views: bool

    def __call__(self, windows: Any) -> Array:
        argument = windows if self.views else as_array(windows)
        out = np.asarray(self.function(argument))
        if out.ndim == 0 or len(out) != len(windows):
            raise TypingError(
                f"{self.label} turned {len(windows)} windows into an array of shape "
                f"{list(out.shape)}",
                hint="return one array (or one number) per window, along axis 0",
            )
        return out


@dataclass(frozen=True)
class WindowPipeline:
    """Windows and the steps that are still to be done on them.

    Some windows at a time go through all steps, so that what lies between two steps is still in the
    cache when the next one reads it; with one step after the other over all windows, every step
    would write to memory and read from there.
    """

    windows: WindowView
    steps: tuple[WindowStep, ...]

    def __len__(self) -> int:
        return len(self.windows)

    def then(self, step: WindowStep) -> WindowPipeline:
        """The same windows, with one more step to do."""
        return WindowPipeline(self.windows, (*self.steps, step))

    def parts(self) -> Iterator[tuple[int, Array]]:
        """(number of the first window, results) of some windows after the other."""
        count = max(16, _PART_SAMPLES // self.windows.size)
        for at in range(0, max(1, len(self)), count):
            yield at, self._run(self.windows[at : at + count])

    def _run(self, windows: WindowView) -> Array:
        value: Any = windows
        for step in self.steps:
            value = step(value)
        return np.asarray(value)

    @cached_property
    def _all(self) -> Array:
        if len(self.steps) == 1:  # nothing lies between steps
            return self._run(self.windows)
        return cat([part for _, part in self.parts()])

    def array(self) -> Array:
        """The steps' result over all windows."""
        return self._all


def as_array(column: Any) -> Array:
    """A column as an array: windows are copied out (or viewed), arrays are themselves."""
    return column.array() if isinstance(column, WindowView | WindowPipeline) else column


def samples(slots: Ints, offsets: Ints, frontier: Ints, columns: Columns, index: Ints) -> Samples:
    """Samples from explicit indices; dense segments are recognized and lose their index array."""
    first, dense = kernel.first_and_dense(offsets, index)
    return Samples(slots, offsets, frontier, columns, first, None if dense else index)


def with_columns(batch: Any, columns: Mapping[str, Any]) -> Any:
    """The same rows with other payload columns."""
    return replace(batch, columns=dict(columns))


def cat(parts: list[Array]) -> Array:
    """The arrays one after the other; one alone is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
