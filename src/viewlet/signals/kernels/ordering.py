"""Kernels for time order: lateness, reordering, overlap, merging of segment layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_jit = njit(cache=True, nogil=True)
_NEVER = np.iinfo(np.int64).min


@_jit
def lateness(offsets: Any, slots: Any, start: Any, newest: Any, bound: int, late: Any) -> Any:
    """Mark rows more than `bound` behind the latest of their key; move the keys' clocks.

    Rows are in arrival order within a segment. Returns the number of late rows, the first of them
    (-1 if none) and the number of rows that are out of order but in time.
    """
    count, first, reordered = 0, -1, 0
    for s in range(len(slots)):
        latest = newest[slots[s]]
        for i in range(offsets[s], offsets[s + 1]):
            time = start[i]
            if latest != _NEVER and time < latest - bound:
                late[i] = True
                count += 1
                if first < 0:
                    first = i
                continue
            if time < latest:
                reordered += 1
            else:
                latest = time
        newest[slots[s]] = latest
    return count, first, reordered


@_jit
def overlap(offsets: Any, slots: Any, start: Any, end: Any, points: bool, active: Any) -> int:
    """The first row that begins before its predecessor of the same key ended, or -1.

    active[slot] is the end of the key's last event; points have end = start + 1.
    """
    for s in range(len(slots)):
        until = active[slots[s]]
        for i in range(offsets[s], offsets[s + 1]):
            if start[i] < until:
                return i
            until = start[i] + 1 if points else end[i]
        active[slots[s]] = until
    return -1


@_jit
def merge_layout(slots_a: Any, offsets_a: Any, slots_b: Any, offsets_b: Any) -> Any:
    """Union of two segment layouts: slots, offsets, and for every row its place in a ++ b.

    Rows of a come before rows of b within a key.
    """
    na, nb = len(slots_a), len(slots_b)
    slots = np.empty(na + nb, np.int64)
    offsets = np.zeros(na + nb + 1, np.int64)
    rows_a = offsets_a[na]
    take = np.empty(rows_a + offsets_b[nb], np.int64)
    i = j = n = at = 0
    while i < na or j < nb:
        slot = slots_a[i] if j >= nb or (i < na and slots_a[i] <= slots_b[j]) else slots_b[j]
        if i < na and slots_a[i] == slot:
            for r in range(offsets_a[i], offsets_a[i + 1]):
                take[at] = r
                at += 1
            i += 1
        if j < nb and slots_b[j] == slot:
            for r in range(offsets_b[j], offsets_b[j + 1]):
                take[at] = rows_a + r
                at += 1
            j += 1
        slots[n] = slot
        n += 1
        offsets[n] = at
    return slots[:n], offsets[: n + 1], take


@_jit
def before(offsets: Any, time: Any, bound: Any) -> Any:
    """Mask of the rows of each segment with time < bound[segment]."""
    mask = np.zeros(len(time), np.bool_)
    for s in range(len(bound)):
        for i in range(offsets[s], offsets[s + 1]):
            mask[i] = time[i] < bound[s]
    return mask


@_jit
def merge_order(offsets_a: Any, time_a: Any, offsets_b: Any, time_b: Any) -> Any:
    """Merge of two row sets per segment by time, a first on ties: places in a ++ b."""
    rows_a = len(time_a)
    take = np.empty(rows_a + len(time_b), np.int64)
    at = 0
    for s in range(len(offsets_a) - 1):
        i, j = offsets_a[s], offsets_b[s]
        while i < offsets_a[s + 1] or j < offsets_b[s + 1]:
            if j >= offsets_b[s + 1] or (i < offsets_a[s + 1] and time_a[i] <= time_b[j]):
                take[at] = i
                i += 1
            else:
                take[at] = rows_a + j
                j += 1
            at += 1
    return take
