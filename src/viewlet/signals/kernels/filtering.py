"""Kernels of digital filters (thesis 7.4.5) and of pipelines over windows (thesis 7.4.6)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit

_jit = njit(cache=True, nogil=True)
_TILE = 1024


@njit(cache=True, nogil=True, fastmath={"contract"})
def convolve_valid(flat: Any, begin: Any, taps: Any, chosen: Any, starts: Any, out: Any) -> None:
    """out[starts[n] + i] = sum_j taps[j] flat[begin[n] + N - 1 + i - j] for the chosen stretches.

    Outputs are taken in tiles that stay in the first-level cache, eight taps per pass; the order of
    additions does not depend on where a stretch begins, so chunking cannot change a result.
    """
    size = len(taps)
    for n in range(len(chosen)):
        if not chosen[n]:
            continue
        count = begin[n + 1] - begin[n] - size + 1
        for tile in range(0, count, _TILE):
            width = min(_TILE, count - tile)
            y = out[starts[n] + tile : starts[n] + tile + width]
            x = flat[begin[n] + tile : begin[n] + tile + width + size - 1]
            y[:] = 0
            j = 0
            while j + 8 <= size:
                c0, c1, c2, c3 = taps[j], taps[j + 1], taps[j + 2], taps[j + 3]
                c4, c5, c6, c7 = taps[j + 4], taps[j + 5], taps[j + 6], taps[j + 7]
                z = x[size - 8 - j : size - j + width - 1]
                for i in range(width):
                    y[i] += (
                        c7 * z[i]
                        + c6 * z[i + 1]
                        + c5 * z[i + 2]
                        + c4 * z[i + 3]
                        + c3 * z[i + 4]
                        + c2 * z[i + 5]
                        + c1 * z[i + 6]
                        + c0 * z[i + 7]
                    )
                j += 8
            while j < size:
                c0 = taps[j]
                x0 = x[size - 1 - j : size - 1 - j + width]
                for i in range(width):
                    y[i] += c0 * x0[i]
                j += 1


@_jit
def gather_blocks(flat: Any, starts: Any, ends: Any, out: Any) -> None:
    """Rows of out = flat[start : start + width], zero beyond the stretch's end."""
    width = out.shape[1]
    for n in range(len(starts)):
        count = min(width, ends[n] - starts[n])
        out[n, :count] = flat[starts[n] : starts[n] + count]
        out[n, count:] = 0


@_jit
def scatter_blocks(blocks: Any, skip: int, starts: Any, counts: Any, out: Any) -> None:
    """The useful part of each block -> its part of the output."""
    for n in range(len(starts)):
        out[starts[n] : starts[n] + counts[n]] = blocks[n, skip : skip + counts[n]]


@_jit
def recursive(
    slots: Any,
    offsets: Any,
    first: Any,
    index: Any,
    dense: bool,
    last: Any,
    state: Any,
    column: Any,
    b: Any,
    a: Any,
    powers: Any,
    reset: bool,
    out: Any,
) -> None:
    """y[n] = b0 x[n] + z0; z_i = b_{i+1} x[n] + z_{i+1} - a_{i+1} y[n]  (transposed form II).

    Over a gap the state moves as with zero input, by powers[k] = A^(2^k), or is reset.
    """
    order = len(b) - 1
    never = np.iinfo(np.int64).min
    moved = np.zeros(order, state.dtype)
    for s in range(len(slots)):
        slot = slots[s]
        z = state[slot]
        previous = last[slot]
        for i in range(offsets[s], offsets[s + 1]):
            here = first[s] + i - offsets[s] if dense else index[i]
            gap = here - previous - 1 if previous != never else 0
            if gap > 0:
                if reset:
                    z[:] = 0
                bit = 0
                while gap > 0 and not reset:
                    if gap & 1:
                        for r in range(order):
                            total = z[0] * 0
                            for c in range(order):
                                total += powers[bit, r, c] * z[c]
                            moved[r] = total
                        z[:] = moved
                    gap >>= 1
                    bit += 1
            x = column[i]
            if order == 0:
                out[i] = b[0] * x
            else:
                y = b[0] * x + z[0]
                for r in range(order - 1):
                    z[r] = b[r + 1] * x + z[r + 1] - a[r + 1] * y
                z[order - 1] = b[order] * x - a[order] * y
                out[i] = y
            previous = here


@lru_cache(maxsize=64)
def user_filter(compute: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The kernel of a user-defined filter: y = compute(forward, backward) over every stretch.

    forward holds the last N inputs, backward the last M outputs, oldest first.
    """
    inner = njit(nogil=True)(compute)

    @njit(nogil=True)
    def kernel(
        flat: Any, begin: Any, starts: Any, size: int, memory: Any, work: Any, out: Any
    ) -> None:
        backward = memory.shape[1]
        for n in range(len(begin) - 1):
            count = begin[n + 1] - begin[n] - size + 1
            if count <= 0:
                continue
            origin = starts[n]
            for m in range(backward):
                work[m] = memory[n, m]
            for i in range(count):
                p = begin[n] + i
                value = inner(flat[p : p + size], work[:backward])
                out[origin + i] = value
                for m in range(backward - 1):
                    work[m] = work[m + 1]
                if backward:
                    work[backward - 1] = value
            for m in range(backward):
                memory[n, m] = work[m]

    return kernel


@lru_cache(maxsize=64)
def incremental(recompute: Callable[..., None], update: Callable[..., None]) -> Callable[..., Any]:
    """The kernel of a pipeline operator with deltas (thesis Figure 7.7), over many keys.

    recompute(window, out) or, for a window one hop after the previous one of its key,
    update(old, new, out): old is what left the window, new what entered it, out what was there.
    """
    fresh = njit(nogil=True)(recompute)
    step = njit(nogil=True)(update)

    @njit(nogil=True)
    def kernel(
        slots: Any,
        offsets: Any,
        at: Any,
        flat: Any,
        starts: Any,
        size: int,
        hop: int,
        renew: int,
        anchor: Any,
        previous: Any,
        state: Any,
        out: Any,
    ) -> None:
        for s in range(len(slots)):
            slot = slots[s]
            value = state[slot]
            for w in range(offsets[s], offsets[s + 1]):
                p = starts[w]
                number = (at[w] - anchor[slot]) // hop
                if previous[slot] == at[w] - hop and number % renew != 0:
                    step(flat[p - hop : p], flat[p + size - hop : p + size], value)
                else:
                    fresh(flat[p : p + size], value)
                previous[slot] = at[w]
                out[w, :] = value

    return kernel


@_jit
def overlap_sum(
    offsets: Any, segment: int, begin: int, values: Any, hop: int, rows: Any, out: Any
) -> None:
    """Windows `begin`, begin + 1, ... at distance hop, summed in one pass.

    Windows offsets[s] to offsets[s + 1] are those of segment s, whose output begins at rows[s];
    `segment` is that of the first. What a window shares with the one before is there already.
    """
    size = values.shape[1]
    shared = size - hop
    for w in range(len(values)):
        while begin + w >= offsets[segment + 1]:
            segment += 1
        number = begin + w - offsets[segment]
        p = rows[segment] + number * hop
        mine, window = out[p : p + size], values[w]
        if number == 0:
            mine[:] = window
        else:
            for k in range(shared):
                mine[k] += window[k]
            mine[shared:] = window[shared:]


@_jit
def overlap_runs(
    slots: Any,
    offsets: Any,
    at: Any,
    frontier: Any,
    size: int,
    base: Any,
    pending: Any,
    write: bool,
    bound: Any,
    counts: Any,
    index: Any,
    window_start: Any,
) -> int:
    """Which sample indices the windows of each key cover, and which of them are now final.

    base[slot], pending[slot]: the run of unfinished samples from earlier windows. window_start[w]
    is where window w begins in the flat output; index gives the sample index of every flat
    position. counts[s] is the number of positions of the segment, bound[s] the first index not
    yet final.
    """
    n = 0
    inf = np.iinfo(np.int64).max
    for s in range(len(slots)):
        slot = slots[s]
        begin = n
        end = base[slot] + pending[slot]
        if write:
            for i in range(pending[slot]):
                index[n + i] = base[slot] + i
        n += pending[slot]
        covered = pending[slot] > 0
        for w in range(offsets[s], offsets[s + 1]):
            low = at[w] - size + 1
            if not covered or low > end:
                end = low
                covered = True
            if write:
                window_start[w] = n - (end - low)
                for k in range(end, at[w] + 1):
                    index[n + k - end] = k
            n += at[w] + 1 - end
            end = at[w] + 1
        counts[s] = n - begin
        bound[s] = inf if frontier[s] == inf else frontier[s] - size + 1
    return n


@_jit
def overlap_combine(
    slots: Any,
    offsets: Any,
    window_start: Any,
    values: Any,
    rows: Any,
    state: Any,
    pending: Any,
    mode: int,
    out: Any,
    cover: Any,
    cover_state: Any,
) -> None:
    """Merge overlapping windows into out: mode 0 sum or mean, 1 minimum, 2 maximum, 3 last.

    cover counts the windows at every position (needed by the mean and by the first write).
    """
    size = values.shape[1]
    for s in range(len(slots)):
        slot = slots[s]
        for i in range(pending[slot]):
            out[rows[s] + i] = state[slot, i]
            cover[rows[s] + i] = cover_state[slot, i]
        for w in range(offsets[s], offsets[s + 1]):
            p = window_start[w]
            if mode == 0:
                for k in range(size):
                    out[p + k] += values[w, k]
                    cover[p + k] += 1
            else:
                for k in range(size):
                    old, new = out[p + k], values[w, k]
                    if cover[p + k] == 0 or mode == 3:
                        out[p + k] = new
                    elif mode == 1:
                        out[p + k] = new if new.real < old.real else old
                    else:
                        out[p + k] = new if new.real > old.real else old
                    cover[p + k] += 1


@_jit
def overlap_hold(
    slots: Any, rows: Any, counts: Any, out: Any, cover: Any, state: Any, cover_state: Any
) -> None:
    """Keep the last counts[s] positions of each segment for later windows."""
    for s in range(len(slots)):
        end = rows[s + 1]
        for i in range(counts[s]):
            state[slots[s], i] = out[end - counts[s] + i]
            cover_state[slots[s], i] = cover[end - counts[s] + i]
