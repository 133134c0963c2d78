"""Kernels for the segment layout: grouping by key, masks, dense indices, windows.

Loops run over slices from 0: an index that might be negative costs a check and the vector unit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from viewlet.signals.kernels.streaming import ramp, settle

_jit = njit(cache=True, nogil=True)


@_jit
def histogram(codes: Any, counts: Any) -> None:
    """counts[code] += 1 for every row."""
    for i in range(len(codes)):
        counts[codes[i]] += 1


@_jit
def extent(keys: Any) -> Any:
    """Smallest and largest key, in one pass."""
    low = high = keys[0]
    for i in range(len(keys)):
        low = min(low, keys[i])
        high = max(high, keys[i])
    return low, high


@_jit
def scatter(codes: Any, lane: int, bits: int, cursor: Any, column: Any, out: Any) -> None:
    """Counting sort of one column by slot, stable; cursor[slot] is the slot's next position."""
    mask = (1 << bits) - 1
    for i in range(len(codes)):
        code = codes[i]
        if code & mask == lane:
            slot = code >> bits
            at = cursor[slot]
            out[at] = column[i]
            cursor[slot] = at + 1


@_jit
def first_step(codes: Any, start: Any) -> Any:
    """The distance of the first two events of the first row's key; 0 when it has only one.

    `codes` may be the keys themselves.
    """
    for i in range(1, len(codes)):
        if codes[i] == codes[0]:
            return start[i] - start[0]
    return 0


@_jit
def scatter_regular(
    codes: Any,
    lane: int,
    bits: int,
    cursor: Any,
    column: Any,
    out: Any,
    start: Any,
    step: int,
    first: Any,
    upcoming: Any,
) -> bool:
    """`scatter`, and whether the times of every key are first, first + step, first + 2 step, ...

    first and upcoming begin as the smallest int64: a key without events so far.
    """
    mask = (1 << bits) - 1
    none = np.iinfo(np.int64).min
    same = True
    for i in range(len(codes)):
        code = codes[i]
        if code & mask == lane:
            slot = code >> bits
            at = cursor[slot]
            out[at] = column[i]
            cursor[slot] = at + 1
            time = start[i]
            due = upcoming[slot]
            if time != due:
                if due == none:
                    first[slot] = time
                else:
                    same = False
            upcoming[slot] = time + step
    return same


@_jit
def regular_fill(first: Any, offsets: Any, step: int) -> Any:
    """first[s], first[s] + step, ... for each segment."""
    out = np.empty(offsets[-1], np.int64)
    for s in range(len(first)):
        mine = out[offsets[s] : offsets[s + 1]]
        for i in range(len(mine)):
            mine[i] = first[s] + i * step
    return out


@_jit
def masked_offsets(offsets: Any, mask: Any) -> Any:
    """The offsets of the segments once rows outside of the mask are gone."""
    out = np.zeros(len(offsets), np.int64)
    for s in range(len(offsets) - 1):
        count = 0
        for i in range(offsets[s], offsets[s + 1]):
            if mask[i]:
                count += 1
        out[s + 1] = out[s] + count
    return out


@_jit
def dense_index(first: Any, offsets: Any) -> Any:
    """first[s], first[s] + 1, ... for each segment."""
    out = np.empty(offsets[-1], np.int64)
    for s in range(len(first)):
        mine = out[offsets[s] : offsets[s + 1]]
        for i in range(len(mine)):
            mine[i] = first[s] + i
    return out


@_jit
def first_and_dense(offsets: Any, index: Any) -> Any:
    """First index of each segment, and whether all segments are without gaps.

    Indices rise strictly, so a segment is dense when last - first + 1 equals its length.
    """
    first = np.zeros(len(offsets) - 1, np.int64)
    dense = True
    for s in range(len(first)):
        low, high = offsets[s], offsets[s + 1]
        if high > low:
            first[s] = index[low]
            if index[high - 1] - index[low] + 1 != high - low:
                dense = False
    return first, dense


@_jit
def gather_windows(flat: Any, starts: Any, size: int) -> Any:
    """The windows of so many entries that begin at `starts`, as rows."""
    out = np.empty((len(starts), size), flat.dtype)
    for w in range(len(starts)):
        out[w, :] = flat[starts[w] : starts[w] + size]
    return out


@_jit
def copy_ranges(column: Any, starts: Any, counts: Any, out: Any) -> None:
    """out = the ranges column[starts[s] : starts[s] + counts[s]], one after the other."""
    at = 0
    for s in range(len(starts)):
        out[at : at + counts[s]] = column[starts[s] : starts[s] + counts[s]]
        at += counts[s]


@_jit
def fill_repeat(values: Any, counts: Any, out: Any) -> None:
    """out = repeat(values, counts), in place."""
    at = 0
    for s in range(len(counts)):
        ramp(out[at : at + counts[s]], values[s], 0)
        at += counts[s]
    settle()


@_jit
def fill_times(first: Any, offsets: Any, period: int, offset: int, out: Any) -> None:
    """Times of dense samples: (first + r) * period + offset, in place."""
    for s in range(len(first)):
        ramp(out[offsets[s] : offsets[s + 1]], first[s] * period + offset, period)
    settle()


@_jit
def learn(keys: Any, low: int, table: Any, count: int, fresh: Any) -> int:
    """Give every unknown integer key the next code, in a table over the range of keys.

    Returns the number of known keys, or -1 when a key lies outside of the table: the caller then
    makes a larger one and starts again.
    """
    top = len(table)
    for i in range(len(keys)):
        offset = keys[i] - low
        if offset < 0 or offset >= top:
            return -1
        if table[offset] < 0:
            table[offset] = count
            fresh[count] = keys[i]
            count += 1
    return count


@_jit
def look_up(keys: Any, low: int, table: Any, codes: Any, counts: Any) -> None:
    """The codes of known keys, and how many rows each code has."""
    for i in range(len(keys)):
        code = table[keys[i] - low]
        codes[i] = code
        counts[code] += 1


@_jit
def tally(keys: Any, low: int, table: Any, start: Any, step: int, counts: Any, first: Any) -> Any:
    """Rows per key, and whether the times of every key are first, first + step, ...

    counts[code] = (rows, time of the next event), begins as (0, smallest int64). Returns how many
    rows were counted (not all when a key is unknown), and whether the times are even.
    """
    none = np.iinfo(np.int64).min
    top = len(table)
    even = step > 0
    for i in range(len(keys)):
        offset = keys[i] - low
        if offset < 0 or offset >= top:
            return i, False
        code = table[offset]
        if code < 0:
            return i, False
        counts[code, 0] += 1
        if even:
            time = start[i]
            due = counts[code, 1]
            if time != due:
                if due == none:
                    first[code] = time
                else:
                    even = False
            counts[code, 1] = time + step
    return len(keys), even


@_jit
def deal(
    keys: Any,
    low: int,
    codes: Any,
    bits: int,
    cursor: Any,
    column: Any,
    out: Any,
    mark: bool,
    local: Any,
) -> None:
    """Move a column into blocks of keys, stable; cursor[block] is the block's next position.

    codes[key - low] is block << bits | the key's number within the block; `mark` writes the latter
    beside the value.
    """
    mask = np.int64((1 << bits) - 1)
    for i in range(len(keys)):
        # unsigned: an index that might be negative costs a check
        code = np.int64(codes[np.uint64(keys[i] - low)])
        block = np.uint64(code >> bits)
        at = cursor[block]
        cursor[block] = at + 1
        out[at] = column[i]
        if mark:
            local[at] = code & mask


@_jit
def repeats(column: Any, distance: int, step: int) -> bool:
    """Whether column[i] = column[i - distance] + step throughout; stops early where it is not."""
    before, after = column[: len(column) - distance], column[distance:]
    for low in range(0, len(after), 4096):
        a, b = before[low : low + 4096], after[low : low + 4096]
        different = 0
        for i in range(len(a)):
            different |= (b[i] - a[i]) ^ step
        if different != 0:
            return False
    return True


@_jit
def first_repeat(keys: Any) -> int:
    """The distance from the first row to the next one of the same key; 0 when there is none."""
    for i in range(1, len(keys)):
        if keys[i] == keys[0]:
            return i
    return 0


@_jit
def turn(column: Any, cycle: int, low: int, offsets: Any, out: Any) -> None:
    """Rows that go round the keys in turn, key after key: out[offsets[k] + r] = row r of low + k.

    Eight rounds at a time: eight sequential reads side by side, and whole lines written.
    """
    keys = len(offsets) - 1
    rounds = len(column) // cycle
    for r in range(0, rounds - 7, 8):
        base = r * cycle + low
        c0, c1 = column[base : base + keys], column[base + cycle : base + cycle + keys]
        base += 2 * cycle
        c2, c3 = column[base : base + keys], column[base + cycle : base + cycle + keys]
        base += 2 * cycle
        c4, c5 = column[base : base + keys], column[base + cycle : base + cycle + keys]
        base += 2 * cycle
        c6, c7 = column[base : base + keys], column[base + cycle : base + cycle + keys]
        for k in range(keys):
            mine = out[offsets[k] + r : offsets[k] + r + 8]
            mine[0], mine[1], mine[2], mine[3] = c0[k], c1[k], c2[k], c3[k]
            mine[4], mine[5], mine[6], mine[7] = c4[k], c5[k], c6[k], c7[k]
    for k in range(keys):
        mine = out[offsets[k] : offsets[k + 1]]
        for r in range(rounds // 8 * 8, len(mine)):
            mine[r] = column[r * cycle + low + k]


@_jit
def encode_hashed(keys: Any, table: Any, values: Any, count: int, codes: Any) -> int:
    """Codes of integer keys through open addressing; values[code] is the key of a code."""
    mask = len(table) - 1
    for i in range(len(keys)):
        key = keys[i]
        h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
        at = np.int64((h ^ (h >> np.uint64(32))) & np.uint64(mask))
        while True:
            code = table[at]
            if code < 0:
                code = count
                table[at] = code
                values[count] = key
                count += 1
                break
            if values[code] == key:
                break
            at = (at + 1) & mask
        codes[i] = code
    return count


@_jit
def extend_rows(offsets: Any, carried: Any, slots: Any, state: Any, column: Any) -> Any:
    """Per segment: the last `carried` rows of the key's state, then the segment's new rows.

    state[slot] keeps its rows right-aligned.
    """
    width = state.shape[1]
    total = len(column)
    for s in range(len(slots)):
        total += carried[s]
    out = np.empty(total, state.dtype)
    at = 0
    for s in range(len(slots)):
        for j in range(width - carried[s], width):
            out[at] = state[slots[s], j]
            at += 1
        for i in range(offsets[s], offsets[s + 1]):
            out[at] = column[i]
            at += 1
    return out


@_jit
def keep_tail(offsets: Any, slots: Any, column: Any, state: Any) -> None:
    """state[slot] = the last rows of the segment, right-aligned."""
    width = state.shape[1]
    for s in range(len(slots)):
        low, high = offsets[s], offsets[s + 1]
        count = min(width, high - low)
        for j in range(count):
            state[slots[s], width - 1 - j] = column[high - 1 - j]
