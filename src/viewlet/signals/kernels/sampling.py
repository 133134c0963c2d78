"""Kernels of the sampling operator (thesis 7.4.1, 7.4.2).

A signal is given by its reference points: rt rises strictly within a segment, and link[j] says that
point j and the next are the two ends of one event, so that the signal is active between them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_jit = njit(cache=True, nogil=True)
_INF = np.iinfo(np.int64).max


@_jit
def beats(
    offsets: Any,
    carried: Any,
    slots: Any,
    rt: Any,
    link: Any,
    linked: bool,
    frontier: Any,
    upcoming: Any,
    period: int,
    offset: int,
    points: int,
    within: int,
    fill: bool,
    counts: Any,
    beat: Any,
    left: Any,
    exact: Any,
) -> bool:
    """Beats kT + O that the new reference points decide, in time order.

    points: 0 takes only beats at which an event is active; 1 also holds the last value; P >= 2
    also takes beats between the last two of P points that lie within the interpolation window
    (within < 0: no limit). left is the last point at or before the beat, exact says that the value
    is the event's own. upcoming[slot] is the next beat after those already held. With fill False
    only counts are made. Returns True when the output is exactly the new points (all on beats).
    """
    plain = True
    inverse = 1.0 / period
    n: Any = 0
    for s in range(len(slots)):
        low, high = offsets[s], offsets[s + 1]
        begin = n
        fresh = low + carried[s]
        quotient = np.int64(0)
        remainder = np.int64(0)
        if high > low:
            at = rt[max(low, fresh - 1)] if fresh > low else rt[low]
            quotient = (at - offset) // period
            remainder = at - offset - quotient * period
        for j in range(fresh, high):
            if j > low:
                before = rt[j - 1]
                first = quotient + 1
                remainder += rt[j] - before
                if remainder >= period:
                    steps = np.int64(remainder * inverse)
                    remainder -= steps * period
                    if remainder < 0:
                        steps -= 1
                        remainder += period
                    elif remainder >= period:
                        steps += 1
                        remainder -= period
                    quotient += steps
                last = quotient if remainder == 0 else quotient + 1
                if last > first:
                    own = linked and link[j - 1]
                    take = own
                    if not own and points == 1:
                        take = True
                        if within >= 0:
                            last = min(last, (before + within - offset) // period + 1)
                        if j == fresh:
                            first = max(first, upcoming[slots[s]])
                    elif not own and points > 1 and j - points + 1 >= low:
                        take = within < 0 or rt[j] - rt[j - points + 1] <= within
                    if take and last > first:
                        plain = False
                        if fill:
                            for k in range(first, last):
                                beat[n] = k
                                left[n] = j - 1
                                exact[n] = own
                                n += 1
                        else:
                            n += last - first
            if remainder == 0:
                if fill:
                    beat[n] = quotient
                    left[n] = j
                    exact[n] = True
                n += 1
            else:
                plain = False
        if points == 1 and high > low:
            before = rt[high - 1]
            first = (before - offset) // period + 1
            if high == fresh:
                first = max(first, upcoming[slots[s]])
            last = first
            if frontier[s] != _INF:
                last = -((offset - frontier[s]) // period)
                if within >= 0:
                    last = min(last, (before + within - offset) // period + 1)
            elif within >= 0:
                last = (before + within - offset) // period + 1
            if last > first:
                plain = False
                if fill:
                    for k in range(first, last):
                        beat[n] = k
                        left[n] = high - 1
                        exact[n] = False
                        n += 1
                else:
                    n += last - first
            if fill:
                upcoming[slots[s]] = max(first, last)
        counts[s] = n - begin
    return plain


@_jit
def previous_values(left: Any, exact: Any, values: Any, constant: Any, use_constant: bool) -> Any:
    """Exact values where the event is active; the last value or the constant elsewhere."""
    out = np.empty(len(left), values.dtype)
    for i in range(len(left)):
        out[i] = constant if use_constant and not exact[i] else values[left[i]]
    return out


@_jit
def linear(beat: Any, left: Any, exact: Any, rt: Any, values: Any, period: int, offset: int) -> Any:
    """v0 + (v1 - v0) (t - t0) / (t1 - t0) between the two points around the beat."""
    out = np.empty(len(left), values.dtype)
    for i in range(len(left)):
        j = left[i]
        if exact[i]:
            out[i] = values[j]
        else:
            share = (beat[i] * period + offset - rt[j]) / (rt[j + 1] - rt[j])
            out[i] = values[j] + (values[j + 1] - values[j]) * share
    return out


@_jit
def quadratic(
    beat: Any, left: Any, exact: Any, rt: Any, values: Any, period: int, offset: int
) -> Any:
    """The second-degree polynomial through the last three points, at the beat."""
    out = np.empty(len(left), values.dtype)
    for i in range(len(left)):
        j = left[i]
        if exact[i]:
            out[i] = values[j]
        else:
            t = beat[i] * period + offset
            a, b, c = rt[j - 1], rt[j], rt[j + 1]
            wa = ((t - b) / (a - b)) * ((t - c) / (a - c))
            wb = ((t - a) / (b - a)) * ((t - c) / (b - c))
            wc = ((t - a) / (c - a)) * ((t - b) / (c - b))
            out[i] = values[j - 1] * wa + values[j] * wb + values[j + 1] * wc
    return out


@_jit
def every_nth(offsets: Any, index: Any, step: int) -> Any:
    """Mask of the samples whose index is a multiple of step."""
    mask = np.zeros(len(index), np.bool_)
    for i in range(len(index)):
        mask[i] = index[i] % step == 0
    return mask


@_jit
def upsample(
    offsets: Any, values: Any, factor: int, shares: Any, mode: int, constant: Any, out: Any
) -> None:
    """Evenly spaced points on beats, factor - 1 beats between two: 0 held, 1 constant, 2 linear."""
    at = 0
    for s in range(len(offsets) - 1):
        mine = values[offsets[s] : offsets[s + 1]]
        for j in range(len(mine) - 1):
            piece = out[at : at + factor]
            piece[0] = mine[j]
            rise = mine[j + 1] - mine[j]
            for m in range(1, factor):
                if mode == 2:
                    piece[m] = mine[j] + rise * shares[m]
                else:
                    piece[m] = mine[j] if mode == 0 else constant
            at += factor
        if len(mine):
            out[at] = mine[len(mine) - 1]
            at += 1
