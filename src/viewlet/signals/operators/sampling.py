"""Sampling, resampling and downsampling (thesis 7.4.1 to 7.4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.signals import buffers
from viewlet.signals.batches import (
    INF,
    NEVER,
    Array,
    Columns,
    Events,
    Ints,
    Regular,
    Samples,
    counts_to_offsets,
    samples,
)
from viewlet.signals.kernels import sampling as kernel
from viewlet.signals.kernels import segments
from viewlet.signals.operators.base import Function, Node, View, numeric, sole_name
from viewlet.signals.operators.streams import ticks
from viewlet.signals.state import OperatorState

_NONE = np.empty(0, np.int64)
_MODES = {"step": 0, "constant": 1, "linear": 2}


@dataclass(frozen=True)
class _References:
    """Reference points of a batch: event [a, b) gives a and b - 1 (thesis 7.4.2)."""

    offsets: Ints
    time: Ints
    row: Ints | None  # the event of a point; None: point i is event i
    link: Array

    @classmethod
    def of(cls, batch: Events) -> _References:
        if batch.end is None:
            return cls(batch.offsets, batch.start, None, np.empty(0, np.bool_))
        long = batch.end - 1 > batch.start
        per_event = 1 + long.astype(np.int64)
        row = np.repeat(np.arange(batch.rows), per_event)
        closing = np.zeros(len(row), np.bool_)
        closing[np.cumsum(per_event) - 1] = True
        closing &= np.repeat(long, per_event)
        time = np.where(closing, batch.end[row] - 1, batch.start[row])
        link = np.repeat(long, per_event) & ~closing
        return cls(np.append(0, np.cumsum(per_event))[batch.offsets], time, row, link)


@dataclass(frozen=True, eq=False)
class Sample(Node):
    """Point events at times k period + offset at which the signal is active or interpolated.

    Each key remembers its last reference points (as many as the interpolation needs). A sample is
    delivered as soon as it is decided: when its event is there, when the next reference point is,
    or when none can come within the interpolation window any more.
    """

    def run(self, state: OperatorState, *batches: Any) -> Samples:
        (batch,) = batches
        if isinstance(batch, Samples):
            batch = _as_events(batch, self.inputs[0].schema.period, self.inputs[0].schema.offset)
        schema = self.schema
        policy = schema.interpolate
        points = 0 if policy is None else policy.points
        within = -1 if policy is None or policy.reach is None else policy.reach
        slots = batch.slots
        regular = self._regular(state, batch, points, within)
        if regular is not None:
            return regular
        refs = _References.of(batch)
        values = self._values(batch, refs)

        keep = max(points, 1)
        reference_count = state.keyed("known", slots, (), np.int64)
        ref_t = state.keyed("ref_t", slots, (keep,), np.int64)
        upcoming = state.keyed("upcoming", slots, (), np.int64, NEVER)
        memory = {
            name: state.keyed(f"ref.{name}", slots, (keep,), column.dtype)
            for name, column in values.items()
        }
        carried = reference_count[slots]
        offsets, time, link = refs.offsets, refs.time, refs.link
        ext = values
        if carried.any():
            offsets = counts_to_offsets(np.diff(refs.offsets) + carried)
            extend = (refs.offsets, carried, slots)
            time = segments.extend_rows(*extend, ref_t, refs.time)
            ext = {
                name: segments.extend_rows(*extend, memory[name], column)
                for name, column in values.items()
            }
            if len(link):
                none = np.zeros((len(ref_t), keep), np.bool_)
                link = segments.extend_rows(*extend, none, link)

        counts = np.zeros(len(slots), np.int64)
        plan = (offsets, carried, slots, time, link, len(link) > 0, batch.frontier, upcoming)
        rule = (schema.period, schema.offset, points, within)
        nothing = (_NONE, _NONE, np.empty(0, np.bool_))
        plain = kernel.beats(*plan, *rule, False, counts, *nothing)
        frontier = self._frontier(batch, offsets, time, within, points)
        if plain and points != 1:
            out = self._plain(batch, refs, values, frontier)
        else:
            total = int(counts.sum())
            beat, left = np.empty(total, np.int64), np.empty(total, np.int64)
            exact = np.empty(total, np.bool_)
            kernel.beats(*plan, *rule, True, counts, beat, left, exact)
            columns = {
                name: self._interpolate(beat, left, exact, time, column)
                for name, column in ext.items()
            }
            if self.inputs[0].schema.function is not None and len(link):
                self._evaluate_active(batch, refs, carried, beat, left, exact, columns)
            out = samples(slots, counts_to_offsets(counts), frontier, columns, beat)

        segments.keep_tail(offsets, slots, time, ref_t)
        for name, column in ext.items():
            segments.keep_tail(offsets, slots, column, memory[name])
        reference_count[slots] = np.minimum(np.diff(offsets), keep)
        return out

    def _regular(
        self, state: OperatorState, batch: Events, points: int, within: int
    ) -> Samples | None:
        """Evenly spaced events on beats, for a finished input: no beat needs to be looked for.

        The events are the samples, or every `factor`-th of them with known shares between.
        """
        clock, period, policy = batch.clock, self.schema.period, self.schema.interpolate
        if (
            not isinstance(clock, Regular)
            or clock.step % period
            or batch.end is not None
            or self.inputs[0].schema.function is not None
            or not bool((batch.frontier == INF).all())
            or bool(state.keyed("known", batch.slots, (), np.int64)[batch.slots].any())
        ):
            return None
        factor = clock.step // period
        between = policy is not None and policy.kind in _MODES
        if (factor > 1 and not between) or points == 1 or clock.step == 0:
            return None
        if factor > 1 and 0 <= within < clock.step:
            return None
        beat = clock.first - self.schema.offset
        first = beat // period
        if not ((first * period == beat) | (batch.counts == 0)).all():
            return None
        values = {name: numeric(column) for name, column in batch.columns.items()}
        if factor == 1:
            return Samples(batch.slots, batch.offsets, batch.frontier, values, first, None)
        assert policy is not None
        counts = np.where(batch.counts > 0, (batch.counts - 1) * factor + 1, 0)
        offsets = counts_to_offsets(counts)
        shares = np.arange(factor) * period / clock.step
        columns = {}
        for name, column in values.items():
            columns[name] = buffers.empty(offsets[-1], column.dtype)
            constant = _constant(policy.value, column.dtype)
            kernel.upsample(
                batch.offsets, column, factor, shares, _MODES[policy.kind], constant, columns[name]
            )
        return Samples(batch.slots, offsets, batch.frontier, columns, first, None)

    def _values(self, batch: Events, refs: _References) -> Columns:
        """The payload at the reference points; functional payloads are evaluated here."""
        function = self.inputs[0].schema.function
        if function is None:
            columns = {name: numeric(column) for name, column in batch.columns.items()}
            if refs.row is not None:
                columns = {name: column[refs.row] for name, column in columns.items()}
            return columns
        row = slice(None) if refs.row is None else refs.row
        arguments = {name: column[row] for name, column in batch.columns.items()}
        return evaluate(function, refs.time, arguments)

    def _evaluate_active(
        self,
        batch: Events,
        refs: _References,
        carried: Ints,
        beat: Ints,
        left: Ints,
        exact: Array,
        columns: Columns,
    ) -> None:
        """Replace values inside events by the function at the very beat."""
        inside = np.flatnonzero(exact)
        shift = np.repeat(np.cumsum(carried), np.diff(refs.offsets) + carried)[left[inside]]
        rows = left[inside] - shift
        assert refs.row is not None
        arguments = {n: column[refs.row[rows]] for n, column in batch.columns.items()}
        time = beat[inside] * self.schema.period + self.schema.offset
        function = self.inputs[0].schema.function
        assert function is not None
        for name, column in evaluate(function, time, arguments).items():
            columns[name][inside] = column

    def _plain(self, batch: Events, refs: _References, values: Columns, frontier: Ints) -> Samples:
        """All points are on beats and nothing lies between: the samples are the points."""
        low = refs.offsets[:-1]
        high = refs.offsets[1:]
        filled = high > low
        first = np.zeros(len(low), np.int64)
        last = np.zeros(len(low), np.int64)
        first[filled] = (refs.time[low[filled]] - self.schema.offset) // self.schema.period
        last[filled] = (refs.time[high[filled] - 1] - self.schema.offset) // self.schema.period
        dense = bool((last - first + 1 == high - low)[filled].all())
        index = None
        if not dense:
            index = (refs.time - self.schema.offset) // self.schema.period
        return Samples(batch.slots, refs.offsets, frontier, values, first, index)

    def _frontier(self, batch: Events, offsets: Ints, time: Ints, within: int, points: int) -> Ints:
        """The first beat that is not yet decided."""
        period, offset = self.schema.period, self.schema.offset
        open_ = batch.frontier
        low, high = offsets[:-1], offsets[1:]
        some = high > low
        last = np.full(len(low), NEVER, np.int64)
        last[some] = time[high[some] - 1]
        bounded = (open_ != INF) & (open_ != NEVER)
        bound = np.where(bounded, open_, 0)
        decided = np.maximum(bound, np.where(some, last, NEVER + 1) + 1)
        if points > 1:
            far = (
                bound - np.where(some, last, 0) > within
                if within >= 0
                else np.zeros(len(low), np.bool_)
            )
            decided = np.where(some & ~far, last + 1, bound)
        beats = -((offset - np.where(some | bounded, decided, 0)) // period)
        return np.where(open_ == INF, INF, np.where(some | bounded, beats, NEVER))

    def _interpolate(
        self, beat: Ints, left: Ints, exact: Array, time: Ints, values: Array
    ) -> Array:
        policy = self.schema.interpolate
        grid = (self.schema.period, self.schema.offset)
        kind = "none" if policy is None else policy.kind
        if kind == "linear":
            return np.asarray(kernel.linear(beat, left, exact, time, values, *grid))
        if kind == "quadratic":
            return np.asarray(kernel.quadratic(beat, left, exact, time, values, *grid))
        if policy is None or policy.function is None:
            fill = 0.0 if policy is None else policy.value
            constant = _constant(fill, values.dtype)
            return np.asarray(
                kernel.previous_values(left, exact, values, constant, kind == "constant")
            )
        out = values[left]
        rows = np.flatnonzero(~exact)
        if len(rows):
            around = left[rows, None] + np.arange(2 - policy.points, 2)
            t = beat[rows] * grid[0] + grid[1]
            out[rows] = policy.function(t, time[around], values[around])
        return np.asarray(out)


def _constant(value: complex, dtype: Any) -> Any:
    return dtype.type(value.real if dtype.kind == "f" else value)


def evaluate(function: Function, time: Ints, arguments: Columns) -> Columns:
    """A functional payload at given times: function(t, e) over whole columns."""
    value = function(time, View(arguments))
    if isinstance(value, dict):
        return {name: numeric(np.broadcast_to(c, time.shape)) for name, c in value.items()}
    name = sole_name(arguments)
    return {name: numeric(np.array(np.broadcast_to(value, time.shape)))}


def _as_events(batch: Samples, period: int, offset: int) -> Events:
    return Events(
        batch.slots,
        batch.offsets,
        ticks(batch.frontier, period, offset),
        batch.columns,
        batch.indices() * period + offset,
        None,
    )


@dataclass(frozen=True, eq=False)
class Downsample(Node):
    """Keep the samples whose index is a multiple of n: period T -> n T."""

    factor: int

    def run(self, state: OperatorState, *batches: Any) -> Samples:
        (batch,) = batches
        index = batch.indices()
        sampled = batch.keep(kernel.every_nth(batch.offsets, index, self.factor))
        bounded = (batch.frontier != INF) & (batch.frontier != NEVER)
        frontier = np.where(bounded, -(-batch.frontier // self.factor), batch.frontier)
        return samples(
            sampled.slots,
            sampled.offsets,
            frontier,
            sampled.columns,
            sampled.indices() // self.factor,
        )


@dataclass(frozen=True, eq=False)
class Reindex(Node):
    """Another name for the same samples: indices move by `steps` (a shift in time)."""

    steps: int

    def run(self, state: OperatorState, *batches: Any) -> Samples:
        (batch,) = batches
        bounded = (batch.frontier != INF) & (batch.frontier != NEVER)
        return Samples(
            batch.slots,
            batch.offsets,
            np.where(bounded, batch.frontier + self.steps, batch.frontier),
            batch.columns,
            batch.first + self.steps,
            None if batch.index is None else batch.index + self.steps,
        )
