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
_SMALLEST = 1 << 20  # the allocator itself keeps smaller ones
_UNIT = 4 << 20  # from this size on NumPy asks for large pages
_ALIGN = 64

_returned: deque[Array] = deque()  # appended to by finalisers, which must not wait for a lock
_kept: list[Array] = []
_lock = Lock()


class _Lease:
    """Owner of an array's memory, as the array's base; ends with the array and its views."""

    def __init__(self, memory: Array) -> None:
        self._memory = memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        if _returned is not None:  # None while the interpreter ends
            _returned.append(self._memory)


def empty(shape: int | tuple[int, ...], dtype: Any) -> Array:
    """np.empty, from memory that was used before if there is some."""
    dtype = np.dtype(dtype)
    shape = (shape,) if not isinstance(shape, tuple) else shape
    size = prod(int(n) for n in shape) * dtype.itemsize
    if size < _SMALLEST or dtype.hasobject:
        return np.empty(shape, dtype)
    memory = np.asarray(_Lease(_take(size)))
    skip = -memory.ctypes.data % _ALIGN
    return memory[skip : skip + size].view(dtype).reshape(shape)


def release() -> int:
    """Give all kept memory back to the system; how many bytes that were."""
    with _lock:
        _collect(0)
        total = sum(memory.nbytes for memory in _kept)
        _kept.clear()
    return total


def _take(size: int) -> Array:
    """The smallest kept piece that is large enough but not twice too large, or a new one."""
    wanted = -(-(size + _ALIGN) // _UNIT) * _UNIT
    with _lock:
        _collect(LIMIT)
        fits = [n for n, memory in enumerate(_kept) if wanted <= memory.nbytes <= 2 * wanted]
        if fits:
            return _kept.pop(min(fits, key=lambda n: _kept[n].nbytes))
    return np.empty(wanted, np.uint8)


def _collect(limit: int) -> None:
    """Sort in what came back; what was kept longest goes first when there is too much."""
    while _returned:
        _kept.append(_returned.popleft())
    total = sum(memory.nbytes for memory in _kept)
    while _kept and total > limit > 0:
        total -= _kept.pop(0).nbytes
