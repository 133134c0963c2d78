"""Kernels for binary operators; both sides have the same segments, rows in time order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_jit = njit(cache=True, nogil=True)


@_jit
def match(offsets_l: Any, index_l: Any, offsets_r: Any, index_r: Any, bound: Any) -> Any:
    """Pairs of rows with the same index below bound[segment]."""
    capacity = min(len(index_l), len(index_r))
    left = np.empty(capacity, np.int64)
    right = np.empty(capacity, np.int64)
    offsets = np.zeros(len(offsets_l), np.int64)
    n = 0
    for s in range(len(offsets_l) - 1):
        i, j = offsets_l[s], offsets_r[s]
        end_i, end_j = offsets_l[s + 1], offsets_r[s + 1]
        while i < end_i and j < end_j:
            if index_l[i] < index_r[j]:
                i += 1
            elif index_l[i] > index_r[j]:
                j += 1
            else:
                if index_l[i] >= bound[s]:
                    break
                left[n] = i
                right[n] = j
                n += 1
                i += 1
                j += 1
        offsets[s + 1] = n
    return left[:n], right[:n], offsets


@_jit
def asof(offsets_l: Any, time_l: Any, offsets_r: Any, time_r: Any, bound: Any, within: int) -> Any:
    """For every left row before bound[segment]: the last right row at or before it, or -1.

    Returns the partners of the released rows and, per segment, how many left rows are released
    and how many right rows can never be asked for again.
    """
    partner = np.full(len(time_l), -1, np.int64)
    segments = len(offsets_l) - 1
    released = np.zeros(segments, np.int64)
    expired = np.zeros(segments, np.int64)
    for s in range(segments):
        j = offsets_r[s]
        end = offsets_r[s + 1]
        for i in range(offsets_l[s], offsets_l[s + 1]):
            if time_l[i] >= bound[s]:
                break
            while j < end and time_r[j] <= time_l[i]:
                j += 1
            released[s] += 1
            if j > offsets_r[s] and (within < 0 or time_l[i] - time_r[j - 1] <= within):
                partner[i] = j - 1
        while j < end and time_r[j] < bound[s]:
            j += 1
        expired[s] = max(0, j - 1 - offsets_r[s])
    return partner, released, expired


@_jit
def temporal(
    offsets_l: Any,
    start_l: Any,
    end_l: Any,
    offsets_r: Any,
    start_r: Any,
    end_r: Any,
    done: Any,
    bound: Any,
    fill: bool,
    left: Any,
    right: Any,
) -> Any:
    """Pairs with overlapping lifetimes whose later start lies in [done, bound) of their segment.

    A sweep over both sides by start time (left first on ties); each side keeps its active rows,
    and a row that has ended is dropped when it is next looked at.
    """
    offsets = np.zeros(len(offsets_l), np.int64)
    active_l = np.empty(len(start_l), np.int64)
    active_r = np.empty(len(start_r), np.int64)
    n = 0
    for s in range(len(offsets_l) - 1):
        i, j = offsets_l[s], offsets_r[s]
        size_l = size_r = 0
        while i < offsets_l[s + 1] or j < offsets_r[s + 1]:
            from_left = j >= offsets_r[s + 1] or (i < offsets_l[s + 1] and start_l[i] <= start_r[j])
            now = start_l[i] if from_left else start_r[j]
            if now >= bound[s]:
                break
            count = 0
            if from_left:
                for k in range(size_r):
                    row = active_r[k]
                    if end_r[row] > now:
                        active_r[count] = row
                        count += 1
                        if now >= done[s]:
                            if fill:
                                left[n] = i
                                right[n] = row
                            n += 1
                size_r = count
                active_l[size_l] = i
                size_l += 1
                i += 1
            else:
                for k in range(size_l):
                    row = active_l[k]
                    if end_l[row] > now:
                        active_l[count] = row
                        count += 1
                        if now >= done[s]:
                            if fill:
                                left[n] = row
                                right[n] = j
                            n += 1
                size_l = count
                active_r[size_r] = j
                size_r += 1
                j += 1
        offsets[s + 1] = n
    return offsets
