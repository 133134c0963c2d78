"""Kernels that lay uniform samples out as dense stretches with their history in front.

A stretch is a run of consecutive sample indices of one key in one flat array: first the history
that the key's state remembers, then the new samples. A gap of at most `fill` missing samples is
filled with zeros inside the stretch; a longer one ends it (after `tail` zeros) and the next
stretch starts with `head` zeros. fill = tail = head = 0 means that missing samples are invalid.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_jit = njit(cache=True, nogil=True)
_NEVER = np.iinfo(np.int64).min


@_jit
def layout(
    slots: Any,
    offsets: Any,
    first: Any,
    index: Any,
    dense: bool,
    last: Any,
    length: Any,
    opening: int,
    fill: int,
    tail: int,
    head: int,
    finish: Any,
    write: bool,
    segment: Any,
    base: Any,
    begin: Any,
    old: Any,
    position: Any,
) -> Any:
    """Plan the stretches of a batch; returns their number and the length of the flat array.

    last[slot] is the index of the key's last sample, length[slot] its remembered history,
    `opening` the zeros before the very first sample. Per stretch: segment, base (index of its
    first entry), begin (position of that entry), old (entries that are history); per row: position.
    finish[segment] appends `tail` zeros at the end of the signal.
    """
    n = at = 0
    for s in range(len(slots)):
        slot = slots[s]
        previous = last[slot]
        low, high = offsets[s], offsets[s + 1]
        if low == high and not (finish[s] and previous != _NEVER and tail > 0):
            continue
        history = opening if previous == _NEVER else length[slot]
        here = first[s] if dense else (index[low] if high > low else 0)
        if previous == _NEVER:
            previous = here - 1
        if write:
            segment[n] = s
            base[n] = previous + 1 - history
            begin[n] = at
            old[n] = history
        n += 1
        at += history
        for i in range(low, high):
            here = first[s] + i - low if dense else index[i]
            gap = here - previous - 1
            if gap > fill:
                at += tail
                if write:
                    segment[n] = s
                    base[n] = here - head
                    begin[n] = at
                    old[n] = head
                n += 1
                at += head
            else:
                at += gap
            if write:
                position[i] = at
            at += 1
            previous = here
            if dense:
                # the rest of the segment follows without gaps
                if write:
                    for r in range(i + 1, high):
                        position[r] = at + r - i - 1
                at += high - i - 1
                previous = here + high - i - 1
                break
        if finish[s]:
            at += tail
    return n, at


@_jit
def spread(
    slots: Any,
    segment: Any,
    begin: Any,
    old: Any,
    has_history: Any,
    position: Any,
    contiguous: bool,
    offsets: Any,
    column: Any,
    state: Any,
    flat: Any,
) -> None:
    """Copy history (right-aligned in state[slot]) and new samples to their positions; else zero."""
    width = state.shape[1]
    previous = -1
    for n in range(len(segment)):
        s = segment[n]
        slot = slots[s]
        if s != previous and has_history[s]:
            for j in range(old[n]):
                flat[begin[n] + j] = state[slot, width - old[n] + j]
        previous = s
    if contiguous:
        for n in range(len(segment)):
            s = segment[n]
            at = begin[n] + old[n]
            count = offsets[s + 1] - offsets[s]
            flat[at : at + count] = column[offsets[s] : offsets[s + 1]]
    else:
        for i in range(len(column)):
            flat[position[i]] = column[i]


@_jit
def remember(
    slots: Any, segment: Any, begin: Any, flat: Any, trim: Any, state: Any, length: Any
) -> None:
    """state[slot] = the end of the key's last stretch, without `trim[segment]` closing zeros."""
    width = state.shape[1]
    for n in range(len(segment)):
        s = segment[n]
        if n + 1 < len(segment) and segment[n + 1] == s:
            continue
        end = (begin[n + 1] if n + 1 < len(segment) else len(flat)) - trim[s]
        count = min(width, end - begin[n])
        for j in range(count):
            state[slots[s], width - 1 - j] = flat[end - 1 - j]
        length[slots[s]] = count


@_jit
def window_ends(
    segment: Any,
    base: Any,
    begin: Any,
    old: Any,
    total: int,
    slots: Any,
    anchor: Any,
    has_history: Any,
    offsets: Any,
    position: Any,
    contiguous: bool,
    size: int,
    hop: int,
    write: bool,
    counts: Any,
    starts: Any,
    at: Any,
) -> int:
    """Windows that end in the new part of a stretch: their starts in flat and last indices.

    Window ends satisfy (end - anchor - size + 1) mod hop == 0. A window in which no sample is
    present is left out. counts is per segment.
    """
    n = 0
    for k in range(len(segment)):
        s = segment[k]
        end = begin[k + 1] if k + 1 < len(segment) else total
        p = begin[k] + max(old[k], size - 1)
        e = base[k] + p - begin[k]
        shift = (anchor[slots[s]] + size - 1 - e) % hop
        p += shift
        e += shift
        row = offsets[s]
        # position of the last sample that is present at or before p; history ends with one
        opens = k == 0 or segment[k - 1] != s
        present = begin[k] + old[k] - 1 if opens and has_history[s] else begin[k] - size - 1
        while p < end:
            if not contiguous:
                while row < offsets[s + 1] and position[row] <= p:
                    present = position[row]
                    row += 1
            if contiguous or present > p - size:
                if write:
                    starts[n] = p - size + 1
                    at[n] = e
                counts[s] += 1
                n += 1
            p += hop
            e += hop
    return n
