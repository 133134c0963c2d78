"""Windowed aggregates over streams, and sample-based ones over uniform signals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.signals.batches import (
    INF,
    NEVER,
    Array,
    Columns,
    Events,
    Ints,
    Samples,
    counts_to_offsets,
    samples,
)
from viewlet.signals.kernels import aggregates as kernel
from viewlet.signals.operators.base import Function, Node, numeric, require
from viewlet.signals.pools import merge_events
from viewlet.signals.state import OperatorState

NAMES = ("sum", "count", "mean", "min", "max", "energy", "power")


@dataclass(frozen=True)
class Aggregate:
    """A user-defined aggregate: state vector `initial`, accumulate(state, values), its inverse
    deaccumulate(state, values) if there is one, and result(states) over all windows at once.

    accumulate and deaccumulate change `state` in place and are compiled by Numba; `values` is the
    vector of the event's channels. result gets an array [windows, len(initial)].

    >>> sg.Aggregate((0.0,), lambda s, v: (s[0] + v,), lambda s, v: (s[0] - v,)).initial
    (0.0,)
    """

    initial: tuple[float, ...]
    accumulate: Function
    deaccumulate: Function | None = None
    result: Function | None = None


@dataclass(frozen=True, eq=False)
class HoppingAggregate(Node):
    """Aggregates over [b + hop - size, b + hop), an event that lives [b, b + hop) (thesis 7.4.3).

    An event counts where its start falls. Windows without events give no result.
    """

    size: int
    hop: int
    origin: int
    what: Mapping[str, str]

    def run(self, state: OperatorState, *batches: Any) -> Any:
        (batch,) = batches
        uniform = isinstance(batch, Samples)
        time = batch.indices() if uniform else batch.start
        channels, matrix = _matrix(batch.columns)
        m = self.size // self.hop
        current = state.keyed("current", batch.slots, (), np.int64, NEVER)
        shape = (m, matrix.shape[1], kernel.FIELDS)
        ring = state.keyed("ring", batch.slots, shape, np.float64)
        room = kernel.pane_results(
            batch.slots, batch.offsets, time, self.hop, self.origin, m, current
        )
        counts = np.zeros(len(batch.slots), np.int64)
        pane = np.empty(room, np.int64)
        cells = np.empty((room, *shape[1:]), np.float64)
        number = kernel.panes(
            batch.slots,
            batch.offsets,
            time,
            batch.frontier,
            matrix,
            self.hop,
            self.origin,
            ring,
            current,
            counts,
            pane,
            cells,
        )
        columns = _results(self.what, channels, cells[:number])
        offsets = counts_to_offsets(counts)
        opened = current[batch.slots]
        frontier = _pane_frontier(batch.frontier, opened, self.hop, self.origin)
        if uniform:
            return samples(batch.slots, offsets, frontier, columns, pane[:number])
        start = pane[:number] * self.hop + self.origin
        bounded = (frontier != INF) & (frontier != NEVER)
        edge = np.where(bounded, np.where(bounded, frontier, 0) * self.hop + self.origin, frontier)
        return Events(batch.slots, offsets, edge, columns, start, start + self.hop)


def _pane_frontier(frontier: Ints, opened: Ints, hop: int, origin: int) -> Ints:
    """The first pane without a result: the open one, or the one that time has reached."""
    bounded = (frontier != INF) & (frontier != NEVER)
    reached = (np.where(bounded, frontier, 0) - origin) // hop
    return np.where(bounded, np.where(opened == NEVER, reached, opened), frontier)


@dataclass(frozen=True, eq=False)
class SessionAggregate(Node):
    """Aggregates over runs of events at most `gap` apart, as events [first, last + gap)."""

    gap: int
    what: Mapping[str, str]

    def run(self, state: OperatorState, *batches: Any) -> Events:
        (batch,) = batches
        channels, matrix = _matrix(batch.columns)
        opened = state.keyed("opened", batch.slots, (), np.int64, NEVER)
        latest = state.keyed("latest", batch.slots, (), np.int64, NEVER)
        shape = (matrix.shape[1], kernel.FIELDS)
        cells = state.keyed("cells", batch.slots, shape, np.float64)
        room = batch.rows + len(batch.slots)
        counts = np.zeros(len(batch.slots), np.int64)
        start, end = np.empty(room, np.int64), np.empty(room, np.int64)
        out = np.empty((room, *shape), np.float64)
        number = kernel.sessions(
            batch.slots,
            batch.offsets,
            batch.start,
            batch.frontier,
            matrix,
            self.gap,
            opened,
            latest,
            cells,
            counts,
            start,
            end,
            out,
        )
        waiting = opened[batch.slots]
        frontier = np.where((waiting == NEVER) | (batch.frontier == INF), batch.frontier, waiting)
        columns = _results(self.what, channels, out[:number])
        return Events(
            batch.slots, counts_to_offsets(counts), frontier, columns, start[:number], end[:number]
        )


@dataclass(frozen=True, eq=False)
class UserAggregate(Node):
    """A user-defined aggregate over hopping windows, stamped as in HoppingAggregate."""

    size: int
    hop: int
    origin: int
    name: str
    aggregate: Aggregate

    def run(self, state: OperatorState, *batches: Any) -> Events:
        (batch,) = batches
        waiting = state.pool("open")
        if waiting is not None:
            batch = merge_events(waiting, batch)
        _, matrix = _matrix(batch.columns)
        spec = self.aggregate
        step = kernel.user_panes(spec.accumulate, spec.deaccumulate, tuple(spec.initial))
        slots, width = batch.slots, len(spec.initial)
        current = state.keyed("current", slots, (), np.int64, NEVER)
        inside = state.keyed("inside", slots, (), np.int64)
        total = state.keyed("total", slots, (width,), np.float64)
        m = self.size // self.hop
        room = kernel.pane_results(
            slots, batch.offsets, batch.start, self.hop, self.origin, m, current
        )
        counts, expired = (np.zeros(len(slots), np.int64) for _ in range(2))
        pane, out = np.empty(room, np.int64), np.empty((room, width), np.float64)
        number = step(
            slots,
            batch.offsets,
            batch.start,
            batch.frontier,
            np.ascontiguousarray(matrix),
            self.hop,
            self.origin,
            m,
            current,
            inside,
            total,
            counts,
            expired,
            pane,
            out,
        )
        age = np.arange(batch.rows) - np.repeat(batch.offsets[:-1], batch.counts)
        state.put_pool("open", batch.keep(age >= np.repeat(expired, batch.counts)))
        states = out[:number]
        value = np.asarray(spec.result(states)) if spec.result is not None else states[:, 0]
        start = pane[:number] * self.hop + self.origin
        edge = _pane_frontier(batch.frontier, current[slots], self.hop, self.origin)
        bounded = (edge != INF) & (edge != NEVER)
        frontier = np.where(bounded, np.where(bounded, edge, 0) * self.hop + self.origin, edge)
        return Events(
            slots, counts_to_offsets(counts), frontier, {self.name: value}, start, start + self.hop
        )


def _matrix(columns: Columns) -> tuple[list[tuple[str, bool]], Array]:
    """Channels as real columns of a matrix; a complex channel takes two."""
    channels: list[tuple[str, bool]] = []
    parts: list[Array] = []
    for name, column in columns.items():
        values = numeric(column)
        complex_ = values.dtype.kind == "c"
        channels.append((name, complex_))
        parts.extend([values.real, values.imag] if complex_ else [values])
    return channels, parts[0].reshape(-1, 1) if len(parts) == 1 else np.stack(parts, axis=1)


def _results(what: Mapping[str, str], channels: list[tuple[str, bool]], cells: Array) -> Columns:
    """Output columns from count, sum, minimum, maximum and sum of squares of each channel."""
    columns_of_channel: dict[str, tuple[int, bool]] = {}
    at = 0
    for name, complex_ in channels:
        columns_of_channel[name] = (at, complex_)
        at += 2 if complex_ else 1
    out: Columns = {}
    for label, request in what.items():
        function, _, channel = request.partition(":")
        for name in [channel] if channel else list(columns_of_channel):
            require(
                name in columns_of_channel,
                f"the events have no channel {name} to aggregate",
                f"they have {', '.join(columns_of_channel)}",
            )
            target = label if channel or len(columns_of_channel) == 1 else f"{name}_{label}"
            out[target] = _result(function, cells, *columns_of_channel[name])
    return out


def _result(function: str, cells: Array, at: int, complex_: bool) -> Array:
    cell = cells[:, at]
    count = cell[:, kernel.COUNT]
    if function == "count":
        return count.astype(np.int64)
    if function in ("min", "max"):
        require(not complex_, f"{function} of a complex channel", "take the magnitude first")
        return np.array(cell[:, kernel.MIN if function == "min" else kernel.MAX])
    if function in ("energy", "power"):
        squares = cell[:, kernel.SQUARES].copy()
        if complex_:
            squares += cells[:, at + 1, kernel.SQUARES]
        return np.asarray(squares / count if function == "power" else squares)
    total = np.array(cell[:, kernel.SUM])
    if complex_:
        total = total + 1j * cells[:, at + 1, kernel.SUM]
    return np.asarray(total / count if function == "mean" else total)
