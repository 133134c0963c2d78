"""Binary operators: temporal join, as-of join, union, and aligned samples of two signals.

All keep the same order: a result is delivered when both sides have passed its time, so the output
is in time order whatever batches the two inputs arrive in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.signals import buffers
from viewlet.signals.batches import INF, NEVER, Columns, Events, Samples, counts_to_offsets, samples
from viewlet.signals.kernels import joins as kernel
from viewlet.signals.kernels import ordering, segments
from viewlet.signals.operators.base import Function, Node, View, numeric, require, results
from viewlet.signals.pools import pair, take_columns
from viewlet.signals.state import OperatorState


@dataclass(frozen=True, eq=False)
class Join(Node):
    """Pairs of events of the same key with overlapping lifetimes (thesis 7.2.2).

    [a, b) x [c, d) -> [max(a, c), min(b, d)) where that is not empty, and where the payload
    columns `on` are equal on both sides. Columns are left.x and right.x unless combined.
    """

    on: tuple[str, ...]
    combine: Function | None

    def run(self, state: OperatorState, *batches: Any) -> Events:
        left, right, bound = pair(state, *batches)
        done = state.keyed("done", left.slots, (), np.int64, NEVER)
        ends_l, ends_r = left.ends(), right.ends()
        empty = np.empty(0, np.int64)
        sweep = (left.offsets, left.start, ends_l, right.offsets, right.start, ends_r)
        limits = (done[left.slots], bound)
        offsets = kernel.temporal(*sweep, *limits, False, empty, empty)
        li, ri = np.empty(offsets[-1], np.int64), np.empty(offsets[-1], np.int64)
        kernel.temporal(*sweep, *limits, True, li, ri)
        done[left.slots] = bound
        for name, side, ends in (("left", left, ends_l), ("right", right, ends_r)):
            # a row that ended by the bound can meet nothing that is still to come
            ended = ordering.before(side.offsets, ends, np.where(bound == INF, INF, bound + 1))
            state.put_pool(name, side.keep(~ended))
        columns = {f"left.{name}": column[li] for name, column in left.columns.items()}
        columns |= {f"right.{name}": column[ri] for name, column in right.columns.items()}
        out = Events(
            left.slots,
            offsets,
            bound,
            columns,
            np.maximum(left.start[li], right.start[ri]),
            np.minimum(ends_l[li], ends_r[ri]),
        )
        if self.on:
            equal = np.ones(out.rows, np.bool_)
            for name in self.on:
                equal &= columns[f"left.{name}"] == columns[f"right.{name}"]
            out = out.keep(equal)
        return _combined(out, self.combine)


@dataclass(frozen=True, eq=False)
class AsOf(Node):
    """Each left event with the last right event at or before its start, at most `within` older.

    how="inner" leaves out left events without a partner, "left" fills NaN.
    """

    within: int | None
    how: str
    combine: Function | None

    def run(self, state: OperatorState, *batches: Any) -> Events:
        left, right, bound = pair(state, *batches)
        within = -1 if self.within is None else self.within
        partner, released, expired = kernel.asof(
            left.offsets, left.start, right.offsets, right.start, bound, within
        )
        ready = _leading(left.offsets, released)
        state.put_pool("left", left.keep(~ready))
        state.put_pool("right", right.keep(~_leading(right.offsets, expired)))
        partners = partner[ready]
        out = left.keep(ready)
        columns: Columns = {f"left.{name}": column for name, column in out.columns.items()}
        for name, column in right.columns.items():
            columns[f"right.{name}"] = _filled(column, partners)
        out = Events(left.slots, out.offsets, bound, columns, out.start, out.end)
        if self.how == "inner":
            out = out.keep(partners >= 0)
        return _combined(out, self.combine)


@dataclass(frozen=True, eq=False)
class Union(Node):
    """Events of both streams in time order, left first on ties; both have the same columns."""

    def run(self, state: OperatorState, *batches: Any) -> Events:
        names = [list(batch.columns) for batch in batches]
        require(
            set(names[0]) == set(names[1]),
            f"union of events with columns {names[0]} and {names[1]}",
            "select the same columns on both sides",
        )
        left, right, bound = pair(state, *batches)
        parts = []
        for name, side in (("left", left), ("right", right)):
            ready = ordering.before(side.offsets, side.start, bound)
            state.put_pool(name, side.keep(~ready))
            parts.append(side.keep(ready))
        a, b = parts
        take = ordering.merge_order(a.offsets, a.start, b.offsets, b.start)
        end = None
        if a.end is not None or b.end is not None:
            end = np.concatenate([a.ends(), b.ends()])[take]
        return Events(
            left.slots,
            a.offsets + b.offsets,
            bound,
            take_columns(a.columns, b.columns, take),
            np.concatenate([a.start, b.start])[take],
            end,
        )


@dataclass(frozen=True, eq=False)
class Align(Node):
    """Samples of two uniform signals at the same times, channel by channel (thesis 7.4.3)."""

    label: str
    combine: Callable[[Any, Any], Any]

    def run(self, state: OperatorState, *batches: Any) -> Samples:
        left, right = batches
        if self._is_gapless(state, left, right):
            return self._ranges(left, right)
        left, right, bound = pair(state, left, right)
        index_l, index_r = left.indices(), right.indices()
        li, ri, offsets = kernel.match(left.offsets, index_l, right.offsets, index_r, bound)
        for name, side, index in (("left", left, index_l), ("right", right, index_r)):
            later = ~ordering.before(side.offsets, index, bound)
            state.put_pool(name, side.keep(later) if later.any() else None)
        columns = self._columns(
            {name: column[li] for name, column in left.columns.items()},
            {name: column[ri] for name, column in right.columns.items()},
        )
        return samples(left.slots, offsets, bound, columns, index_l[li])

    def _is_gapless(self, state: OperatorState, left: Samples, right: Samples) -> bool:
        """Whether both signals are here to their end, without gaps, and nothing waits."""
        return (
            state.pool("left") is None
            and state.pool("right") is None
            and left.index is None
            and right.index is None
            and np.array_equal(left.slots, right.slots)
            and bool((left.frontier == INF).all())
            and bool((right.frontier == INF).all())
        )

    def _ranges(self, left: Samples, right: Samples) -> Samples:
        """Dense signals meet where their index ranges do: no sample needs to be looked at."""
        first = np.maximum(left.first, right.first)
        last = np.minimum(left.first + left.counts, right.first + right.counts)
        counts = np.maximum(last - first, 0)
        offsets = counts_to_offsets(counts)
        sides = []
        for side in (left, right):
            starts = side.offsets[:-1] + first - side.first
            sides.append({n: _ranged(c, starts, counts) for n, c in side.columns.items()})
        columns = self._columns(*sides)
        return Samples(left.slots, offsets, left.frontier, columns, first, None)

    def _columns(self, left: Columns, right: Columns) -> Columns:
        if set(left) == set(right):
            pairs = {name: (left[name], right[name]) for name in left}
        elif len(left) == 1 and len(right) == 1:
            (name,) = left
            pairs = {name: (left[name], next(iter(right.values())))}
        else:
            require(
                len(right) == 1,
                f"{self.label} of signals with channels {', '.join(left)} and {', '.join(right)}",
                "select the same channels on both sides, or one channel on the right",
            )
            only = next(iter(right.values()))
            pairs = {name: (column, only) for name, column in left.items()}
        return {name: numeric(self.combine(*sides)) for name, sides in pairs.items()}

    def describe(self) -> str:
        return self.label


def _combined(batch: Events, combine: Function | None) -> Events:
    """Apply combine(left, right) to the two sides' columns."""
    if combine is None:
        return batch
    both = View(batch.columns)
    value = combine(_side(both, "left"), _side(both, "right"))
    columns = results(value, batch, "the join's combine")
    return Events(batch.slots, batch.offsets, batch.frontier, columns, batch.start, batch.end)


def _ranged(column: Any, starts: Any, counts: Any) -> Any:
    if len(column) == counts.sum():
        return column
    out = buffers.empty(counts.sum(), column.dtype)
    segments.copy_ranges(column, starts, counts, out)
    return out


def _side(both: View, side: str) -> View:
    head = side + "."
    return View({n.removeprefix(head): both[n] for n in both if n.startswith(head)})


def _leading(offsets: Any, counts: Any) -> Any:
    """Mask of the first counts[s] rows of every segment."""
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
    return within < np.repeat(counts, np.diff(offsets))


def _filled(column: Any, rows: Any) -> Any:
    """column[rows], with NaN (or empty text) where rows is -1."""
    missing = rows < 0
    if not missing.any():
        return column[rows]
    if column.dtype.kind in "iub":
        column = column.astype(np.float64)
    blank = "" if column.dtype.kind == "U" else np.nan
    if not len(column):
        return np.full(len(rows), blank, column.dtype)
    out = column[np.where(missing, 0, rows)]
    out[missing] = blank
    return out
