"""Stream operators: sources with their order policy, select, where, lifetimes, the signal check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from viewlet.errors import DataError
from viewlet.signals.batches import INF, NEVER, Events, Ints, Regular, with_columns
from viewlet.signals.kernels import ordering as kernel
from viewlet.signals.operators.base import Function, Node, numeric, require, results, view
from viewlet.signals.pools import merge_events, sort_by_time
from viewlet.signals.state import OperatorState


@dataclass(frozen=True, eq=False)
class Source(Node):
    """Events enter here, in arrival order within each key.

    Order policy: an event may be at most `reorder` ticks behind the latest event of its key
    (clock="key") or of the whole stream (clock="stream"); it is then put in its place. An event
    further behind is late: an error, or dropped and counted.
    """

    name: str
    values: tuple[str, ...] | None
    reorder: int
    late: str
    clock: str

    def run(self, state: OperatorState, *batches: Any) -> Events:
        """`frontier` of the raw batch is a floor: no event before it will be taken any more."""
        (raw,) = batches
        state.count("events", raw.rows)
        floor: Ints = raw.frontier
        if self.clock == "stream":
            return self._release(state, raw, floor, self.reorder > 0)
        newest = state.keyed("seen", raw.slots, (), np.int64, NEVER)
        moved = (floor != NEVER) & (floor != INF)
        if moved.any():
            slots = raw.slots[moved]
            newest[slots] = np.maximum(newest[slots], floor[moved] + self.reorder)
        if isinstance(raw.clock, Regular) and raw.clock.step >= 0:
            some = raw.counts > 0
            begin = raw.clock.first[some]
            if (begin >= newest[raw.slots[some]]).all():
                latest = begin + (raw.counts[some] - 1) * raw.clock.step
                newest[raw.slots[some]] = latest
                return self._release(state, raw, self._frontier(newest[raw.slots], floor), False)
        late = np.zeros(raw.rows, np.bool_)
        count, first, reordered = kernel.lateness(
            raw.offsets, raw.slots, raw.start, newest, self.reorder, late
        )
        if count:
            if self.late == "fail":
                segment = int(np.searchsorted(raw.offsets, first, side="right")) - 1
                slot = raw.slots[segment]
                raise late_error(
                    state.key_text(slot), int(raw.start[first]), int(newest[slot]), self.reorder
                )
            state.count("late", count)
            raw = raw.keep(~late)
        state.count("reordered", reordered)
        return self._release(state, raw, self._frontier(newest[raw.slots], floor), reordered > 0)

    def _frontier(self, latest: Ints, floor: Ints) -> Ints:
        return np.maximum(np.where(latest == NEVER, NEVER, latest - self.reorder), floor)

    def _release(self, state: OperatorState, raw: Events, frontier: Ints, unsorted: bool) -> Events:
        waiting = state.pool("waiting")
        batch = replace(raw, frontier=frontier)
        if waiting is None and self.reorder == 0 and not unsorted:
            return batch
        if waiting is not None:
            batch = merge_events(waiting, batch)
        batch = sort_by_time(batch)
        after = np.where(batch.frontier == INF, INF, batch.frontier + 1)
        ready = kernel.before(batch.offsets, batch.start, after)
        if ready.all():
            state.put_pool("waiting", None)
            return batch
        state.put_pool("waiting", batch.keep(~ready))
        return batch.keep(ready)


def late_error(key: str, time: int, latest: int, bound: int) -> DataError:
    """The error of an event that comes later than the query waits."""
    return DataError(
        f"the event{key} at time {time} comes {latest - time} after one at time {latest}, "
        f"more than reorder={bound} allows",
        hint="sort the input by time, raise reorder=, or drop and count with late='drop'",
    )


@dataclass(frozen=True, eq=False)
class Where(Node):
    """Keep the events for which the condition holds; a filtered signal is still a signal."""

    condition: Function

    def run(self, state: OperatorState, *batches: Any) -> Any:
        (batch,) = batches
        if not batch.rows:
            return batch
        mask = np.asarray(self.condition(view(state, self.inputs[0].schema, batch)))
        require(
            mask.shape == (batch.rows,) and mask.dtype == np.bool_,
            f"where got {mask.dtype}{list(mask.shape)} for {batch.rows} events",
            "return one boolean per event, combined with & | ~",
        )
        return batch if mask.all() else batch.keep(mask)


@dataclass(frozen=True, eq=False)
class Select(Node):
    """New payload columns from whole columns; lifetimes stay."""

    functions: Mapping[str, Function] | None
    function: Function | None

    def run(self, state: OperatorState, *batches: Any) -> Any:
        (batch,) = batches
        visible = view(state, self.inputs[0].schema, batch)
        if self.functions is not None:
            selected: Any = {name: function(visible) for name, function in self.functions.items()}
        else:
            assert self.function is not None
            selected = self.function(visible)
        columns = results(selected, batch, "select")
        if self.schema.form == "uniform":
            columns = {name: numeric(column) for name, column in columns.items()}
        return with_columns(batch, columns)


@dataclass(frozen=True, eq=False)
class Channels(Node):
    """The same arithmetic on every channel: scale, arrays of a frame, and the like."""

    label: str
    function: Function

    def run(self, state: OperatorState, *batches: Any) -> Any:
        (batch,) = batches
        return with_columns(
            batch, {name: self.function(numeric(c)) for name, c in batch.columns.items()}
        )

    def describe(self) -> str:
        return self.label


@dataclass(frozen=True, eq=False)
class Lifetime(Node):
    """Shift events by `shift` ticks and, if given, let them last `duration`."""

    shift: int
    duration: int | None

    def run(self, state: OperatorState, *batches: Any) -> Events:
        (batch,) = batches
        start = batch.start + self.shift
        end = batch.end + self.shift if batch.end is not None else None
        if self.duration is not None:
            end = None if self.duration == 1 else start + self.duration
        frontier = np.where(
            (batch.frontier == INF) | (batch.frontier == NEVER),
            batch.frontier,
            batch.frontier + self.shift,
        )
        return Events(batch.slots, batch.offsets, frontier, batch.columns, start, end)


@dataclass(frozen=True, eq=False)
class Signal(Node):
    """Assert that events of a key never overlap (thesis 7.3.1)."""

    def run(self, state: OperatorState, *batches: Any) -> Events:
        (batch,) = batches
        active = state.keyed("active", batch.slots, (), np.int64, NEVER)
        points = batch.end is None
        if points and isinstance(batch.clock, Regular) and batch.clock.step > 0:
            some = batch.counts > 0
            begin = batch.clock.first[some]
            if (begin >= active[batch.slots[some]]).all():
                last = begin + (batch.counts[some] - 1) * batch.clock.step
                active[batch.slots[some]] = last + 1
                return batch  # type: ignore[no-any-return]
        end = batch.start if points else batch.end
        row = kernel.overlap(batch.offsets, batch.slots, batch.start, end, points, active)
        if row >= 0:
            segment = int(np.searchsorted(batch.offsets, row, side="right")) - 1
            key = state.key_text(batch.slots[segment])
            raise DataError(
                f"two events{key} overlap at time {batch.start[row]}: not a signal",
                hint="aggregate the overlapping events first, for example .tumbling(...).mean()",
            )
        return batch  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class Points(Node):
    """A uniform signal as point events: the way back from samples to a stream."""

    def run(self, state: OperatorState, *batches: Any) -> Events:
        (batch,) = batches
        schema = self.inputs[0].schema
        index = batch.indices() if schema.form == "uniform" else batch.at
        return Events(
            batch.slots,
            batch.offsets,
            ticks(batch.frontier, schema.period, schema.offset),
            dict(batch.columns),
            index * schema.period + schema.offset,
            None,
        )


def ticks(index: Ints, period: int, offset: int) -> Ints:
    """Sample indices as times; the ends of time stay where they are."""
    bounded = (index != INF) & (index != NEVER)
    return np.where(bounded, np.where(bounded, index, 0) * period + offset, index)
