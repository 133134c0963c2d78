"""Windows, pipelines over them, and overlap-and-add (thesis 7.4.4 and 7.4.6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from scipy import fft as spectra

from viewlet.signals import buffers
from viewlet.signals.batches import (
    INF,
    NEVER,
    Array,
    Columns,
    Deferred,
    Frames,
    Ints,
    Samples,
    WindowPipeline,
    WindowStep,
    WindowView,
    as_array,
    counts_to_offsets,
    samples,
)
from viewlet.signals.kernels import filtering, joins, ordering
from viewlet.signals.kernels import stretches as kernel
from viewlet.signals.operators.base import Function, Node, numeric, require, results, view
from viewlet.signals.operators.filters import frontier_after
from viewlet.signals.pools import pair
from viewlet.signals.state import OperatorState
from viewlet.signals.stretches import Rule, stretch
from viewlet.signals.transforms import InverseReal

_NONE = np.empty(0, np.int64)
_MODES = {"sum": 0, "mean": 0, "min": 1, "max": 2, "last": 3}


@dataclass(frozen=True, eq=False)
class Window(Node):
    """Samples -> arrays of `size` samples every `hop` samples, stamped with their last sample.

    missing="zero" puts zeros for missing samples and leaves out windows without any sample;
    "invalid" leaves out windows with a missing sample. align="first" counts windows from the first
    sample of each key, "time" from multiples of hop. pad closes a signal with zeros at the end.
    """

    size: int
    hop: int
    missing: str
    align: str
    pad: bool

    def run(self, state: OperatorState, *batches: Any) -> Frames:
        (batch,) = batches
        slots = batch.slots
        anchor = state.keyed("anchor", slots, (), np.int64, NEVER)
        begins = (anchor[slots] == NEVER) & (batch.counts > 0)
        first = batch.first[begins]
        anchor[slots[begins]] = first if self.align == "first" else first // self.hop * self.hop
        layout = stretch(state, batch, self._rule())
        total = int(layout.begin[-1])
        counts = np.zeros(len(slots), np.int64)
        plan = (layout.segment, layout.base, layout.begin[:-1], layout.old, total, slots, anchor)
        rows = (
            layout.has_history,
            batch.offsets,
            layout.position,
            layout.contiguous,
            self.size,
            self.hop,
        )
        number = kernel.window_ends(*plan, *rows, False, counts, _NONE, _NONE)
        starts, at = np.empty(number, np.int64), np.empty(number, np.int64)
        kernel.window_ends(*plan, *rows, True, np.zeros_like(counts), starts, at)
        last = state.keyed("last", slots, (), np.int64, NEVER)[slots]
        offsets = np.append(0, np.cumsum(counts))
        columns = {n: WindowView(flat, starts, self.size) for n, flat in layout.flat.items()}
        return Frames(slots, offsets, frontier_after(last, batch.frontier), columns, at)

    def _rule(self) -> Rule:
        # one hop more than a window needs, so that operators with deltas find what has left
        history = self.size - 1 + self.hop
        if self.missing == "invalid":
            return Rule(history, opening=0, fill=0, tail=0, head=0)
        edge = self.size - 1
        opening = self.hop - 1 if self.align == "time" else 0
        return Rule(history, opening, 2 * edge, edge, edge, close=self.pad)


@dataclass(frozen=True, eq=False)
class Transform(Node):
    """A stateless step of a pipeline: f takes all windows [n, size], per channel."""

    label: str
    function: Function
    views: bool = False

    def run(self, state: OperatorState, *batches: Any) -> Frames:
        (batch,) = batches
        step = WindowStep(self.label, self.function, self.views)
        columns: Columns = {}
        for name, column in batch.columns.items():
            if isinstance(column, WindowView):
                columns[name] = WindowPipeline(column, (step,))
            elif isinstance(column, WindowPipeline):
                columns[name] = column.then(step)
            else:
                columns[name] = step(column)
        return Frames(batch.slots, batch.offsets, batch.frontier, columns, batch.at)

    def describe(self) -> str:
        return self.label


@dataclass(frozen=True, eq=False)
class SelectFrames(Node):
    """A pipeline step that sees all channels: f(e) -> array or mapping of arrays."""

    function: Function

    def run(self, state: OperatorState, *batches: Any) -> Frames:
        (batch,) = batches
        visible = view(state, self.inputs[0].schema, batch)
        columns = results(self.function(visible), batch, "select")
        return Frames(batch.slots, batch.offsets, batch.frontier, columns, batch.at)


@dataclass(frozen=True, eq=False)
class Incremental(Node):
    """A pipeline operator with deltas: recompute(window, out), update(old, new, out).

    Every `renew`-th window is recomputed, so that rounding errors of updates cannot pile up; which
    ones depends on their place in the signal alone.
    """

    label: str
    recompute: Function
    update: Function
    output: int
    dtype: str
    hop: int
    renew: int

    def run(self, state: OperatorState, *batches: Any) -> Frames:
        (batch,) = batches
        size = self.inputs[0].schema.size
        step = filtering.incremental(self.recompute, self.update)
        anchor = state.keyed("anchor", batch.slots, (), np.int64, NEVER)
        begins = (anchor[batch.slots] == NEVER) & (batch.counts > 0)
        anchor[batch.slots[begins]] = batch.at[batch.offsets[:-1][begins]]
        before = state.keyed("previous", batch.slots, (), np.int64, NEVER)[batch.slots]
        columns = {}
        previous = state.keyed("previous", batch.slots, (), np.int64, NEVER)
        for name, column in batch.columns.items():
            previous[batch.slots] = before
            memory = state.keyed(f"value.{name}", batch.slots, (self.output,), self.dtype)
            columns[name] = np.empty((batch.rows, self.output), self.dtype)
            step(
                batch.slots,
                batch.offsets,
                batch.at,
                column.flat,
                column.starts,
                size,
                self.hop,
                self.renew,
                anchor,
                previous,
                memory,
                columns[name],
            )
        return Frames(batch.slots, batch.offsets, batch.frontier, columns, batch.at)

    def describe(self) -> str:
        return self.label


@dataclass(frozen=True, eq=False)
class Pairs(Node):
    """Windows of two signals with the same ends, combined array by array."""

    label: str
    function: Function

    def run(self, state: OperatorState, *batches: Any) -> Frames:
        sides = [
            samples(
                b.slots,
                b.offsets,
                b.frontier,
                {name: as_array(column) for name, column in b.columns.items()},
                b.at,
            )
            for b in batches
        ]
        left, right, bound = pair(state, *sides)
        at_l, at_r = left.indices(), right.indices()
        li, ri, offsets = joins.match(left.offsets, at_l, right.offsets, at_r, bound)
        for name, side, at in (("left", left, at_l), ("right", right, at_r)):
            state.put_pool(name, side.keep(~ordering.before(side.offsets, at, bound)))
        names = zip(left.columns.items(), right.columns.values(), strict=True)
        columns = {name: self.function(a[li], b[ri]) for (name, a), b in names}
        return Frames(left.slots, offsets, bound, columns, at_l[li])

    def describe(self) -> str:
        return self.label


@dataclass(frozen=True, eq=False)
class OverlapAdd(Node):
    """Lay arrays back on the time axis, the last value at the hop time, and merge overlaps."""

    merge: str

    def run(self, state: OperatorState, *batches: Any) -> Samples:
        (batch,) = batches
        size = self.inputs[0].schema.size
        slots = batch.slots
        base = state.keyed("base", slots, (), np.int64)
        pending = state.keyed("held", slots, (), np.int64)
        hop = self.inputs[0].schema.hop
        if self.merge == "sum" and 0 < hop <= size and self._is_gapless(batch, pending, hop):
            return self._sum(state, batch, size, hop)
        arrays = {name: numeric(column) for name, column in batch.columns.items()}
        size = size or next(iter(arrays.values())).shape[1]
        for values in arrays.values():
            _require_size(values, size)
        counts, bound = (np.zeros(len(slots), np.int64) for _ in range(2))
        plan = (slots, batch.offsets, batch.at, batch.frontier, size, base, pending)
        total = filtering.overlap_runs(*plan, False, bound, counts, _NONE, _NONE)
        index, window_start = np.empty(total, np.int64), np.empty(batch.rows, np.int64)
        filtering.overlap_runs(*plan, True, bound, counts, index, window_start)
        rows = np.append(0, np.cumsum(counts))
        final = np.where(np.repeat(bound == INF, counts), True, index < np.repeat(bound, counts))
        out_offsets = np.append(0, np.cumsum(final))[rows]
        unfinished = counts - np.diff(out_offsets)
        columns = {}
        for name, values in arrays.items():
            memory = state.keyed(f"sum.{name}", slots, (size,), values.dtype)
            covers = state.keyed(f"cover.{name}", slots, (size,), np.int32)
            out = np.zeros(total, values.dtype)
            cover = np.zeros(total, np.int32)
            filtering.overlap_combine(
                slots,
                batch.offsets,
                window_start,
                values,
                rows,
                memory,
                pending,
                _MODES[self.merge],
                out,
                cover,
                covers,
            )
            filtering.overlap_hold(slots, rows, unfinished, out, cover, memory, covers)
            done = out if final.all() else out[final]
            if self.merge == "mean":
                done = done / (cover if final.all() else cover[final])
            columns[name] = done
        some = unfinished > 0
        base[slots[some]] = index[rows[1:][some] - unfinished[some]]
        pending[slots] = unfinished
        frontier = np.where(bound == INF, INF, bound)
        final_index = index if final.all() else index[final]
        return samples(slots, out_offsets, frontier, columns, final_index)

    def _is_gapless(self, batch: Frames, pending: Ints, hop: int) -> bool:
        """Whether every signal is here from its first window to its last, without a gap."""
        some = batch.counts > 0
        spans = batch.at[batch.offsets[1:][some] - 1] - batch.at[batch.offsets[:-1][some]]
        return (
            bool((batch.frontier == INF).all())
            and not pending[batch.slots].any()
            and bool((spans == hop * (batch.counts[some] - 1)).all())
        )

    def _sum(self, state: OperatorState, batch: Frames, size: int, hop: int) -> Samples:
        some = batch.counts > 0
        counts = np.where(some, (batch.counts - 1) * hop + size, 0)
        rows = counts_to_offsets(counts)
        columns: Columns = {}
        for name, column in batch.columns.items():
            # the last step's result goes straight to where the caller wants it
            column = _Sum(batch.offsets, rows, size, hop, column)
            columns[name] = column.deferred() if state.last else column.array()
        first = np.zeros(len(batch.slots), np.int64)
        first[some] = batch.at[batch.offsets[:-1][some]] - size + 1
        return Samples(batch.slots, rows, batch.frontier, columns, first, None)


@dataclass(frozen=True)
class _Sum:
    """The windows of whole signals, summed where they overlap; rows[s] is where signal s begins."""

    offsets: Ints
    rows: Ints
    size: int
    hop: int
    column: Any

    def array(self) -> Array:
        deferred = self.deferred()
        out = buffers.empty(deferred.rows, deferred.dtype)
        deferred.fill(out)
        return out

    def deferred(self) -> Deferred:
        column, last = self._without_last()
        parts = self._parts(column)
        first = next(parts)
        dtype = first[1].dtype if last is None else np.dtype(np.float64)
        return Deferred(
            int(self.rows[-1]), lambda out: self._fill(chain([first], parts), last, out), dtype
        )

    def _without_last(self) -> tuple[Any, InverseReal | None]:
        """The column without an inverse transform at its end, which then sums its own windows."""
        column = self.column
        if isinstance(column, WindowPipeline) and len(column.steps) > 1 and _alone():
            last = column.steps[-1].function
            if isinstance(last, InverseReal):
                return WindowPipeline(column.windows, column.steps[:-1]), last
        return column, None

    def _parts(self, column: Any) -> Iterator[tuple[int, Array]]:
        if isinstance(column, WindowPipeline) and _alone():
            for at, values in column.parts():
                yield at, numeric(values)
        else:
            yield 0, numeric(column)

    def _fill(
        self, parts: Iterable[tuple[int, Array]], last: InverseReal | None, out: Array
    ) -> None:
        for at, values in parts:
            segment = int(np.searchsorted(self.offsets, at, side="right")) - 1
            if last is not None:
                target = (self.offsets, segment, at, self.hop, self.rows, out)
                if last.add(values, *target):
                    continue
                values = numeric(last(values))
            _require_size(values, self.size)
            filtering.overlap_sum(self.offsets, segment, at, values, self.hop, self.rows, out)


def _alone() -> bool:
    """One thread sums; what all threads may do together is then done before."""
    return int(spectra.get_workers()) == 1


def _require_size(values: Array, size: int) -> None:
    require(
        values.ndim == 2 and values.shape[1] == size,
        f"overlap_add got arrays of {list(values.shape[1:])} where the pipeline says {size}",
        "say what size a step gives: map(f, size=...)",
    )
