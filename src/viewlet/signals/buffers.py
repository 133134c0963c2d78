"""Large arrays whose memory is used again by later runs.

The first touch of new memory costs as much as several passes over it: the system clears every page
and, for large pages, may have to move others out of the way. A run over millions of rows asks for
hundreds of megabytes, so memory of arrays that nobody refers to any more, scratch and dropped
results alike, is kept for the next request, up to `LIMIT` bytes for the whole process. An array
from here behaves as any other; its memory comes back when the last view of it is gone.
"""

from __future__ import annotations

from collections import deque
from math import prod
from threading import Lock
from typing import Any

import numpy as np

from viewlet.signals.batches import Array

LIMIT = 512 << 20
_SMALLEST = 1 << 17  # glibc takes arrays of this size from the system and gives them back
_UNIT = 4 << 20  # from this size on NumPy asks for large pages
_ALIGN = 64


class _Memory:
    """A piece of memory that begins at a line of the cache."""

    def __init__(self, size: int) -> None:
        block = np.empty(size + _ALIGN, np.uint8)
        skip = -block.ctypes.data % _ALIGN
        self.size = size
        self.array = block[skip : skip + size]
        self.interface = self.array.__array_interface__


class _Lease:
    """Owner of an array's memory, as the array's base; ends with the array and its views."""

    def __init__(self, memory: _Memory) -> None:
        self._memory = memory
        self.__array_interface__ = memory.interface

    def __del__(self) -> None:
        if _returned is not None:  # None while the interpreter ends
            _returned.append(self._memory)


_returned: deque[_Memory] = deque()  # appended to by finalizers, which must not wait for a lock
_free: dict[int, list[_Memory]] = {}  # by size
_total = 0
_lock = Lock()


def empty(shape: int | tuple[int, ...], dtype: Any) -> Array:
    """np.empty, from memory that was used before if there is some."""
    dtype = np.dtype(dtype)
    shape = shape if isinstance(shape, tuple) else (shape,)
    size = prod(int(n) for n in shape) * dtype.itemsize
    if size < _SMALLEST or dtype.hasobject:
        return np.empty(shape, dtype)
    memory = np.asarray(_Lease(_take(size)))
    flat: Array = memory[:size].view(dtype)
    return flat if len(shape) == 1 else flat.reshape(shape)


def release() -> int:
    """Give all kept memory back to the system; how many bytes that were."""
    with _lock:
        _collect()
        total = _total
        _drop(0)
    return total


def _take(size: int) -> _Memory:
    """A kept piece of about that size (the same or at most twice as large), or a new one."""
    global _total
    capacity = -(-size // _UNIT) * _UNIT if size >= _UNIT else 1 << (size - 1).bit_length()
    with _lock:
        _collect()
        free_size = capacity if _free.get(capacity) else min(_larger(capacity), default=0)
        if free_size:
            _total -= free_size
            return _free[free_size].pop()
    return _Memory(capacity)


def _larger(capacity: int) -> list[int]:
    return [size for size, pieces in _free.items() if pieces and capacity < size <= 2 * capacity]


def _collect() -> None:
    """Put what came back beside what is kept."""
    global _total
    while _returned:
        memory = _returned.popleft()
        _free.setdefault(memory.size, []).append(memory)
        _total += memory.size
    if _total > LIMIT:
        _drop(LIMIT)


def _drop(limit: int) -> None:
    """Keep no more than `limit` bytes; sizes that came up first go first."""
    global _total
    for size in list(_free):
        while _free[size] and _total > limit:
            _free[size].pop()
            _total -= size
        if not _free[size]:
            del _free[size]
