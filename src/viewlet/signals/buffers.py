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
        whole = np.empty(size + _ALIGN, np.uint8)
        skip = -whole.ctypes.data % _ALIGN
        self.size = size
        self.array = whole[skip : skip + size]
        self.interface = self.array.__array_interface__


class _Lease:
    """Owner of an array's memory, as the array's base; ends with the array and its views."""

    def __init__(self, memory: _Memory) -> None:
        self._memory = memory
        self.__array_interface__ = memory.interface

    def __del__(self) -> None:
        if _returned is not None:  # None while the interpreter ends
            _returned.append(self._memory)


_returned: deque[_Memory] = deque()  # appended to by finalisers, which must not wait for a lock
_kept: list[_Memory] = []
_lock = Lock()


def empty(shape: int | tuple[int, ...], dtype: Any) -> Array:
    """np.empty, from memory that was used before if there is some."""
    dtype = np.dtype(dtype)
    shape = shape if isinstance(shape, tuple) else (shape,)
    size = prod(int(n) for n in shape) * dtype.itemsize
    if size < _SMALLEST or dtype.hasobject:
        return np.empty(shape, dtype)
    return np.asarray(_Lease(_take(size)))[:size].view(dtype).reshape(shape)


def release() -> int:
    """Give all kept memory back to the system; how many bytes that were."""
    with _lock:
        total = _collect()
        _kept.clear()
    return total


def _take(size: int) -> _Memory:
    """The smallest kept piece that is large enough but not twice too large, or a new one."""
    wanted = -(-size // _UNIT) * _UNIT if size >= _UNIT else 1 << (size - 1).bit_length()
    with _lock:
        total = _collect()
        while total > LIMIT:  # what was kept longest goes first
            total -= _kept.pop(0).size
        fits = [memory for memory in _kept if wanted <= memory.size <= 2 * wanted]
        if fits:
            best = min(fits, key=lambda memory: memory.size)
            _kept.remove(best)
            return best
    return _Memory(wanted)


def _collect() -> int:
    """Put what came back beside what is kept; the size of all of it."""
    while _returned:
        _kept.append(_returned.popleft())
    return sum(memory.size for memory in _kept)
