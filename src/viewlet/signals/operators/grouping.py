"""Regrouping: a stream under other keys."""

from __future__ import annotations

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
    Regular,
    counts_to_offsets,
)
from viewlet.signals.kernels import segments as kernel
from viewlet.signals.operators.base import Function, Node, results, view
from viewlet.signals.state import OperatorState


def group_rows(
    codes: Array,
    total: Ints,
    lane: int,
    bits: int,
    start: Ints,
    end: Ints | None,
    columns: Columns,
) -> tuple[Ints, Ints, Ints | Regular, Ints | None, Columns]:
    """Rows of one lane in key-major order, stable: slots, offsets, start, end, columns.

    A lane takes the keys whose code ends in its bits; its slot is the rest of the code. `total`
    says how many rows every code has.
    """
    counts = total[lane :: 1 << bits]
    slots = np.flatnonzero(counts)
    if len(slots) == 1 and counts[slots[0]] == len(codes):
        return slots, np.array([0, len(codes)]), single_clock(start), end, columns
    offsets = counts_to_offsets(counts)
    rows = int(offsets[-1])

    def scattered(column: Array) -> Array:
        out = np.empty(rows, column.dtype)
        if column.dtype.kind in "USO":
            order = np.empty(rows, np.int64)
            where = np.arange(len(codes))
            kernel.scatter(codes, lane, bits, offsets[:-1].copy(), where, order)
            return column[order]
        if column.dtype.kind == "M":
            plain = out.view(np.int64)
            kernel.scatter(codes, lane, bits, offsets[:-1].copy(), column.view(np.int64), plain)
            return out
        kernel.scatter(codes, lane, bits, offsets[:-1].copy(), column, out)
        return out

    bounds = np.append(offsets[slots], rows)
    step = kernel.first_step(codes, start)
    clock: Ints | Regular | None = None
    grouped: Columns = {}
    for name, column in columns.items():
        if clock is None and step > 0 and column.dtype.kind in "fciub":
            first, upcoming = (np.full(len(counts), NEVER) for _ in range(2))
            grouped[name] = np.empty(rows, column.dtype)
            cursor = offsets[:-1].copy()
            if kernel.scatter_regular(
                codes, lane, bits, cursor, column, grouped[name], start, step, first, upcoming
            ):
                clock = Regular(first[slots], step)
            else:
                clock = scattered(start)
        else:
            grouped[name] = scattered(column)
    if clock is None:
        clock = scattered(start)
    return slots, bounds, clock, None if end is None else scattered(end), grouped


def single_clock(start: Ints) -> Ints | Regular:
    """The times of one key: unwritten when they are evenly spaced."""
    step = int(start[1] - start[0]) if len(start) > 1 else 0
    if step > 0 and kernel.repeats(start, 1, step):
        return Regular(start[:1], step)
    return start


@dataclass(frozen=True, eq=False)
class Group(Node):
    """The same events under new keys, in time order.

    Events of different old keys meet in one new key, so one is passed on only when time has moved
    beyond it for the whole stream: with clock="stream", by `advance`, or at the end.
    """

    by: Function

    @property
    def keywise(self) -> bool:
        return False

    def run(self, state: OperatorState, *batches: Any) -> Events:
        (batch,) = batches
        waiting = state.pool("waiting")
        slot_of_row = np.repeat(batch.slots, batch.counts)
        if batch.rows:
            groups = results(self.by(view(state, self.inputs[0].schema, batch)), batch, "group")
            keys = [np.asarray(column) for column in groups.values()]
        else:
            keys = []
        dictionary = state.dictionary
        assert dictionary is not None
        codes = np.empty(0, np.int64)
        if batch.rows:
            sizes = dictionary.sizes()
            if state.journal is not None:
                state.journal.add(lambda: dictionary.truncate(sizes))
            codes = dictionary.encode(keys, list(self.schema.keys)).astype(np.int64)
        rows = Events(
            np.zeros(1, np.int64),
            np.array([0, batch.rows]),
            np.array([state.floor]),
            {**batch.columns, "__code": codes, "__from": slot_of_row},
            batch.start,
            batch.end,
        )
        if waiting is not None:
            rows = _append(waiting, rows)
        order = np.lexsort((rows.columns["__from"], rows.start))
        ready = order[rows.start[order] < state.floor] if state.floor != INF else order
        later = np.ones(rows.rows, np.bool_)
        later[ready] = False
        state.put_pool("waiting", rows.keep(later))
        columns = {name: column[ready] for name, column in rows.columns.items()}
        columns.pop("__from")
        codes = columns.pop("__code")
        end = None if rows.end is None else rows.end[ready]
        key_count = len(dictionary)
        total = np.zeros(key_count, np.int64)
        kernel.histogram(codes, total)
        slots, offsets, clock, end, columns = group_rows(
            codes, total, 0, 0, rows.start[ready], end, columns
        )
        counts = np.zeros(key_count, np.int64)
        counts[slots] = np.diff(offsets)
        return Events(
            np.arange(key_count),
            counts_to_offsets(counts),
            np.full(key_count, state.floor),
            columns,
            clock if not isinstance(clock, Regular) else _spread(clock, slots, key_count),
            end,
        )


def _spread(clock: Regular, slots: Ints, key_count: int) -> Regular:
    first = np.zeros(key_count, np.int64)
    first[slots] = clock.first
    return Regular(first, clock.step)


def _append(a: Events, b: Events) -> Events:
    end = None
    if a.end is not None or b.end is not None:
        end = np.concatenate([a.ends(), b.ends()])
    columns = {name: np.concatenate([a.columns[name], b.columns[name]]) for name in a.columns}
    start = np.concatenate([a.start, b.start])
    return Events(b.slots, np.array([0, len(start)]), b.frontier, columns, start, end)
