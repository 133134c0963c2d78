"""Digital filters over uniform signals (thesis 7.4.5)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
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
    Ints,
    Samples,
    counts_to_offsets,
    samples,
)
from viewlet.signals.kernels import filtering as kernel
from viewlet.signals.operators.base import Function, Node, array_hash, numeric
from viewlet.signals.state import OperatorState
from viewlet.signals.stretches import Rule, Stretches, stretch

# Direct convolution costs ~taps/8 cycles per sample, the transform a constant: they meet near here.
_DIRECT = 160
_BLOCK_BYTES = 1 << 20


def filter_rule(size: int, missing: str) -> Rule:
    """zero: missing samples and those before the first are 0. invalid: wait for `size` samples."""
    history = size - 1
    if missing == "zero":
        return Rule(history, opening=history, fill=history, tail=0, head=history)
    return Rule(history, opening=0, fill=0, tail=0, head=0)


def _starts(layout: Stretches, size: int) -> Ints:
    """Where the outputs of every stretch begin; the last entry is their number."""
    return counts_to_offsets(np.maximum(np.diff(layout.begin) - size + 1, 0))


def _deliver(
    batch: Samples, layout: Stretches, size: int, starts: Ints, missing: str, out: Columns
) -> Samples:
    """Outputs at the samples that are present; the signal keeps its form."""
    if layout.contiguous:
        if missing == "zero":
            return Samples(
                batch.slots, batch.offsets, batch.frontier, out, batch.first, batch.index
            )
        counts, first = (np.zeros(len(batch.slots), np.int64) for _ in range(2))
        counts[layout.segment] = np.diff(starts)
        first[layout.segment] = layout.base + size - 1
        offsets = counts_to_offsets(counts)
        return Samples(batch.slots, offsets, batch.frontier, out, first, None)
    begin = layout.begin[:-1]
    stretch_of_row = np.searchsorted(layout.begin, layout.position, side="right") - 1
    within = layout.position - begin[stretch_of_row] - (size - 1)
    ready = within >= 0
    where = (starts[stretch_of_row] + within)[ready]
    offsets = np.append(0, np.cumsum(ready))[batch.offsets]
    columns = {name: values[where] for name, values in out.items()}
    return samples(batch.slots, offsets, batch.frontier, columns, batch.indices()[ready])


@dataclass(frozen=True, eq=False)
class Fir(Node):
    """y[n] = sum_i taps[i] x[n - i]; short filters directly, long ones by overlap-save blocks."""

    label: str
    taps: Array
    missing: str

    def run(self, state: OperatorState, *batches: Any) -> Samples:
        (batch,) = batches
        size = len(self.taps)
        layout = stretch(state, batch, filter_rule(size, self.missing))
        starts = _starts(layout, size)
        out: Columns = {}
        for name, flat in layout.flat.items():
            dtype = np.result_type(flat.dtype, self.taps.dtype)
            work = partial(self._convolve, flat.astype(dtype, copy=False), layout.begin, starts)
            if state.last and layout.contiguous:
                out[name] = Deferred(int(starts[-1]), work, dtype)
            else:
                out[name] = buffers.empty(starts[-1], dtype)
                work(out[name])
        return _deliver(batch, layout, size, starts, self.missing, out)

    def _convolve(self, flat: Array, begin: Ints, starts: Ints, out: Array) -> None:
        taps = self.taps.astype(out.dtype)
        counts = np.diff(starts)
        long = counts >= 4 * len(taps) if len(taps) > _DIRECT else np.zeros(len(counts), np.bool_)
        if not long.all():
            kernel.convolve_valid(flat, begin, taps, ~long & (counts > 0), starts, out)
        if long.any():
            self._blocks(flat, begin[:-1][long], begin[1:][long], starts[:-1][long], taps, out)

    def _blocks(
        self, flat: Array, begins: Ints, ends: Ints, starts: Ints, taps: Array, out: Array
    ) -> None:
        """Overlap-save: blocks of one key only, so that rounding never crosses keys."""
        size = len(taps)
        width = spectra.next_fast_len(8 * size, real=taps.dtype.kind == "f")
        step = width - size + 1
        counts = ends - begins - size + 1
        blocks = -(-counts // step)
        number = np.arange(blocks.sum()) - np.repeat(np.cumsum(blocks) - blocks, blocks)
        first = np.repeat(begins, blocks) + number * step
        limit = np.repeat(ends, blocks)
        starts_of_blocks = np.repeat(starts, blocks) + number * step
        count = np.minimum(step, np.repeat(counts, blocks) - number * step)
        real = taps.dtype.kind == "f"
        forward, back = (spectra.rfft, spectra.irfft) if real else (spectra.fft, spectra.ifft)
        response = forward(taps, width)
        chunk = max(1, _BLOCK_BYTES // (width * taps.itemsize))
        buffer = np.empty((chunk, width), taps.dtype)
        for at in range(0, len(first), chunk):
            part = slice(at, min(at + chunk, len(first)))
            piece = buffer[: part.stop - at]
            kernel.gather_blocks(flat, first[part], limit[part], piece)
            spectrum = forward(piece, axis=1)
            spectrum *= response
            smooth = back(spectrum, width, axis=1, overwrite_x=True)
            kernel.scatter_blocks(smooth, size - 1, starts_of_blocks[part], count[part], out)

    def describe(self) -> str:
        taps = f"{len(self.taps)} values {array_hash(self.taps)}"
        return f"{self.label}(taps=<{taps}>, missing={self.missing!r})"


@dataclass(frozen=True, eq=False)
class Iir(Node):
    """a0 y[n] = sum_i b_i x[n - i] - sum_{i >= 1} a_i y[n - i], with SciPy's signs and order."""

    b: Array
    a: Array
    missing: str

    def run(self, state: OperatorState, *batches: Any) -> Samples:
        (batch,) = batches
        order = max(len(self.a), len(self.b)) - 1
        dense = batch.index is None
        index = np.empty(0, np.int64) if batch.index is None else batch.index
        last = state.keyed("last", batch.slots, (), np.int64, NEVER)
        out = {}
        for name, column in batch.columns.items():
            x = numeric(column)
            dtype = np.result_type(x.dtype, self.b.dtype, self.a.dtype)
            b, a = (np.zeros(order + 1, dtype) for _ in range(2))
            b[: len(self.b)] = self.b / self.a[0]
            a[: len(self.a)] = self.a / self.a[0]
            memory = state.keyed(f"memory.{name}", batch.slots, (order,), dtype)
            out[name] = np.empty(batch.rows, dtype)
            kernel.recursive(
                batch.slots,
                batch.offsets,
                batch.first,
                index,
                dense,
                last,
                memory,
                x.astype(dtype, copy=False),
                b,
                a,
                _powers(a, order, dense),
                self.missing == "invalid",
                out[name],
            )
        filled = batch.counts > 0
        ends = batch.offsets[1:][filled] - 1
        last[batch.slots[filled]] = batch.indices()[ends]
        return Samples(batch.slots, batch.offsets, batch.frontier, out, batch.first, batch.index)


def _powers(a: Array, order: int, dense: bool) -> Array:
    """A^(2^k) of the state transition with zero input, for gaps of any length."""
    transition = np.zeros((order, order), a.dtype)
    if order:
        transition[:, 0] = -a[1:]
        transition[:-1, 1:] += np.eye(order - 1)
    powers = np.zeros((63, order, order), a.dtype)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for k in range(63):
            powers[k] = transition
            transition = transition @ transition
    return powers


@dataclass(frozen=True, eq=False)
class UserFilter(Node):
    """y[n] = compute(last N inputs, last M outputs), compiled by Numba (thesis Figure 7.6)."""

    compute: Function
    forward: int
    backward: int
    missing: str

    def run(self, state: OperatorState, *batches: Any) -> Samples:
        (batch,) = batches
        layout = stretch(state, batch, filter_rule(self.forward, self.missing))
        starts = _starts(layout, self.forward)
        step = kernel.user_filter(self.compute)
        slots = batch.slots[layout.segment]
        # feed-backward starts anew with every stretch that does not continue the key's last one
        changes = layout.segment[1:] != layout.segment[:-1]
        opens = np.append(True, changes)[: len(slots)]
        closes = np.append(changes, True)[: len(slots)]
        fresh = ~(opens & layout.has_history[layout.segment])
        out = {}
        for name, flat in layout.flat.items():
            memory = state.keyed(f"outputs.{name}", batch.slots, (self.backward,), flat.dtype)
            mine = memory[slots]
            mine[fresh] = 0
            out[name] = np.empty(starts[-1], flat.dtype)
            work = np.zeros(max(self.backward, 1), flat.dtype)
            step(flat, layout.begin, starts, self.forward, mine, work, out[name])
            memory[slots[closes]] = mine[closes]
        return _deliver(batch, layout, self.forward, starts, self.missing, out)


def frontier_after(last: Ints, frontier: Ints) -> Ints:
    """Progress of an operator that reacts to samples: one past the last, or the end of time."""
    return np.where(frontier == INF, INF, np.where(last == NEVER, frontier, last + 1))
