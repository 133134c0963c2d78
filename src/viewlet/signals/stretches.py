"""Uniform samples as dense stretches with their history: what filters and windows work on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from viewlet.signals.batches import INF, NEVER, Array, Ints, Samples
from viewlet.signals.kernels import stretches as kernel
from viewlet.signals.operators.base import numeric
from viewlet.signals.state import OperatorState

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Rule:
    """How much history a key keeps and what missing samples become (see kernels/stretches.py)."""

    history: int
    opening: int
    fill: int
    tail: int
    head: int
    close: bool = False


@dataclass(frozen=True)
class Stretches:
    """Samples with the history before them, one flat array for all keys."""

    segment: Ints
    base: Ints
    begin: Ints  # one more than stretches: the last entry is the length of the flat arrays
    old: Ints
    position: Ints
    contiguous: bool  # every new entry of every stretch is a sample of the batch, in order
    has_history: Array
    flat: dict[str, Array]


def stretch(state: OperatorState, batch: Samples, rule: Rule) -> Stretches:
    """Lay the batch out behind the history of its keys and remember the new history."""
    slots = batch.slots
    last = state.keyed("last", slots, (), np.int64, NEVER)
    length = state.keyed("length", slots, (), np.int64)
    has_history = last[slots] != NEVER
    finish = (batch.frontier == INF) & rule.close
    dense = batch.index is None
    index = _NONE if batch.index is None else batch.index
    plan = (slots, batch.offsets, batch.first, index, dense, last, length)
    limits = (rule.opening, rule.fill, rule.tail, rule.head, finish)
    number, total = kernel.layout(*plan, *limits, False, _NONE, _NONE, _NONE, _NONE, _NONE)
    segment, base, old = (np.empty(number, np.int64) for _ in range(3))
    begin = np.empty(number + 1, np.int64)
    begin[number] = total
    some = int((batch.counts > 0).sum())
    # without gaps there is one stretch per key with samples, of history, samples and closing zeros
    closing = int(rule.tail * (finish & (has_history | (batch.counts > 0))).sum())
    plain = batch.rows + _history(batch, has_history, length, rule) + closing
    contiguous = dense and number == some and total == plain
    position = np.empty(0 if contiguous else batch.rows, np.int64)
    if contiguous:
        _simple_layout(batch, has_history, last, length, rule, finish, segment, base, begin, old)
    else:
        kernel.layout(*plan, *limits, True, segment, base, begin[:number], old, position)
    flat = {}
    for name, column in batch.columns.items():
        values = numeric(column)
        if contiguous and total == batch.rows and values.flags.c_contiguous:
            flat[name] = values
        else:
            flat[name] = np.zeros(total, values.dtype)
            memory = state.keyed(f"history.{name}", slots, (rule.history,), values.dtype)
            kernel.spread(
                slots,
                segment,
                begin,
                old,
                has_history,
                position,
                contiguous,
                batch.offsets,
                values,
                memory,
                flat[name],
            )
    if bool((batch.frontier == INF).all()):  # nothing comes any more that would need the history
        return Stretches(segment, base, begin, old, position, contiguous, has_history, flat)
    trim = np.where(finish, rule.tail, 0)
    for name, values in flat.items():
        memory = state.keyed(f"history.{name}", slots, (rule.history,), values.dtype)
        kernel.remember(slots, segment, begin[:number], values, trim, memory, length)
    filled = batch.counts > 0
    ends = batch.offsets[1:][filled] - 1
    last[slots[filled]] = batch.first[filled] + batch.counts[filled] - 1 if dense else index[ends]
    return Stretches(segment, base, begin, old, position, contiguous, has_history, flat)


def _history(batch: Samples, has_history: Array, length: Ints, rule: Rule) -> int:
    some = batch.counts > 0
    lengths = np.where(has_history, length[batch.slots], rule.opening)
    return int(lengths[some].sum())


def _simple_layout(
    batch: Samples,
    has_history: Array,
    last: Ints,
    length: Ints,
    rule: Rule,
    finish: Array,
    segment: Ints,
    base: Ints,
    begin: Ints,
    old: Ints,
) -> None:
    """The layout without gaps, one stretch per key that has samples."""
    some = np.flatnonzero(batch.counts > 0)
    segment[:] = some
    old[:] = np.where(has_history[some], length[batch.slots[some]], rule.opening)
    base[:] = batch.first[some] - old
    widths = old + batch.counts[some] + np.where(finish[some], rule.tail, 0)
    begin[0] = 0
    np.cumsum(widths, out=begin[1:])
