"""Kernels of windowed aggregates over streams: panes, sessions, user-defined aggregates."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit

_jit = njit(cache=True, nogil=True)
_INF = np.iinfo(np.int64).max
_NEVER = np.iinfo(np.int64).min

# what is kept for a set of events of one channel
COUNT, SUM, MIN, MAX, SQUARES = 0, 1, 2, 3, 4
FIELDS = 5


@_jit
def _clear(cell: Any) -> None:
    for c in range(cell.shape[0]):
        cell[c, 0] = 0.0
        cell[c, 1] = 0.0
        cell[c, 2] = np.inf
        cell[c, 3] = -np.inf
        cell[c, 4] = 0.0


@_jit
def _combine(ring: Any, out: Any) -> None:
    """out = the union of all panes in the ring (recomputed: a running difference would drift)."""
    _clear(out)
    for p in range(ring.shape[0]):
        for c in range(ring.shape[1]):
            if ring[p, c, 0] > 0:
                out[c, 0] += ring[p, c, 0]
                out[c, 1] += ring[p, c, 1]
                out[c, 2] = min(out[c, 2], ring[p, c, 2])
                out[c, 3] = max(out[c, 3], ring[p, c, 3])
                out[c, 4] += ring[p, c, 4]


@_jit
def panes(
    slots: Any,
    offsets: Any,
    time: Any,
    frontier: Any,
    values: Any,
    hop: int,
    offset: int,
    ring: Any,
    current: Any,
    counts: Any,
    out_pane: Any,
    out: Any,
) -> int:
    """Hopping windows as rings of panes; values is [row, channel].

    Pane p holds the times in [p hop + offset, (p + 1) hop + offset); the result stamped p covers
    panes p - m + 1 .. p. Results are written while out has room and always counted, so a caller
    that guesses the size right (usual: one result per pane) needs one pass.
    current[slot] is the key's open pane, ring[slot, p mod m] the panes of its window.
    """
    n = 0
    m = ring.shape[1]
    for s in range(len(slots)):
        slot = slots[s]
        begin = n
        mine = ring[slot]
        pane = current[slot]
        alive = 0 if pane == _NEVER else 1
        low, high = offsets[s], offsets[s + 1]
        for i in range(low, high + 1):
            if i < high:
                target = (time[i] - offset) // hop
            elif frontier[s] == _INF:
                target = _INF
            else:
                target = (frontier[s] - offset) // hop
                if alive and target < pane:
                    target = pane
            if alive and target != pane:
                # close panes until the window is empty or the target is reached
                while pane != target:
                    _combine(mine, out[n])
                    if out[n, 0, 0] == 0:
                        alive = 0
                        break
                    out_pane[n] = pane
                    n += 1
                    pane += 1
                    _clear(mine[pane % m])
            if i < high:
                if not alive:
                    for p in range(m):
                        _clear(mine[p])
                    pane = target
                    alive = 1
                cell = mine[pane % m]
                for c in range(values.shape[1]):
                    v = values[i, c]
                    cell[c, 0] += 1.0
                    cell[c, 1] += v
                    cell[c, 2] = min(cell[c, 2], v)
                    cell[c, 3] = max(cell[c, 3], v)
                    cell[c, 4] += v * v
        current[slot] = pane if alive else _NEVER
        counts[s] = n - begin
    return n


@_jit
def pane_results(
    slots: Any, offsets: Any, time: Any, hop: int, offset: int, m: int, current: Any
) -> int:
    """An upper bound on the results that `panes` will write (and one row of room)."""
    total = 1
    for s in range(len(slots)):
        previous = _NEVER
        if current[slots[s]] != _NEVER:
            previous = current[slots[s]]
            total += m
        for i in range(offsets[s], offsets[s + 1]):
            target = (time[i] - offset) // hop
            if target != previous:
                total += m if previous == _NEVER else min(target - previous, m)
                previous = target
    return total


@_jit
def sessions(
    slots: Any,
    offsets: Any,
    time: Any,
    frontier: Any,
    values: Any,
    gap: int,
    opened: Any,
    latest: Any,
    state: Any,
    counts: Any,
    out_start: Any,
    out_end: Any,
    out: Any,
) -> int:
    """Sessions: events of a key at most `gap` apart; a result lives [first, last + gap)."""
    n = 0
    for s in range(len(slots)):
        slot = slots[s]
        begin = n
        cell = state[slot]
        for i in range(offsets[s], offsets[s + 1] + 1):
            ended = opened[slot] != _NEVER
            if i < offsets[s + 1]:
                ended = ended and time[i] - latest[slot] > gap
            else:
                ended = ended and (frontier[s] == _INF or frontier[s] - latest[slot] > gap)
            if ended:
                out_start[n] = opened[slot]
                out_end[n] = latest[slot] + gap
                out[n] = cell
                opened[slot] = _NEVER
                n += 1
            if i == offsets[s + 1]:
                break
            if opened[slot] == _NEVER:
                opened[slot] = time[i]
                _clear(cell)
            latest[slot] = time[i]
            for c in range(values.shape[1]):
                v = values[i, c]
                cell[c, 0] += 1.0
                cell[c, 1] += v
                cell[c, 2] = min(cell[c, 2], v)
                cell[c, 3] = max(cell[c, 3], v)
                cell[c, 4] += v * v
        counts[s] = n - begin
    return n


@lru_cache(maxsize=64)
def user_panes(
    accumulate: Callable[..., None],
    deaccumulate: Callable[..., None] | None,
    initial: tuple[float, ...],
) -> Callable[..., int]:
    """The kernel of a user-defined aggregate over hopping windows.

    Rows of a segment are the key's events that some open window may still need (carried rows
    first, `carried[s]` of them already accumulated). With deaccumulate, an event is accumulated
    once and taken back once; without it every window starts from `initial`.
    """
    enter = njit(nogil=True)(accumulate)
    leave = njit(nogil=True)(deaccumulate if deaccumulate is not None else accumulate)
    incremental = deaccumulate is not None
    blank = np.array(initial, np.float64)

    @njit(nogil=True)
    def kernel(
        slots: Any,
        offsets: Any,
        time: Any,
        frontier: Any,
        values: Any,
        hop: int,
        offset: int,
        m: int,
        current: Any,
        inside: Any,
        state: Any,
        counts: Any,
        expired: Any,
        out_pane: Any,
        out: Any,
    ) -> int:
        n = 0
        for s in range(len(slots)):
            slot = slots[s]
            begin = n
            low, high = offsets[s], offsets[s + 1]
            total = state[slot]
            # rows tail:lead are in the current window
            tail = low
            lead = low + inside[slot]
            pane = current[slot]
            while tail < high:
                if pane == _NEVER:
                    pane = (time[tail] - offset) // hop
                    lead = tail
                    total[:] = blank
                close = (pane + 1) * hop + offset
                while lead < high and time[lead] < close:
                    if incremental:
                        enter(total, values[lead])
                    lead += 1
                if frontier[s] != _INF and frontier[s] < close:
                    break
                if not incremental:
                    total[:] = blank
                    for i in range(tail, lead):
                        enter(total, values[i])
                out[n] = total
                out_pane[n] = pane
                n += 1
                pane += 1
                keep = (pane - m + 1) * hop + offset
                while tail < lead and time[tail] < keep:
                    if incremental:
                        leave(total, values[tail])
                    tail += 1
                if tail == lead:
                    pane = _NEVER
            current[slot] = pane
            inside[slot] = lead - tail
            expired[s] = tail - low
            counts[s] = n - begin
        return n

    return kernel
