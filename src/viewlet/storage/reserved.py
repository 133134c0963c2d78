"""Memory that grows where it is: a reach of addresses of which only the touched pages exist.

An array that doubles by moving is copied again and again, and for a while is there twice. Here the
addresses are taken once, far more than are needed, and the operating system gives a page when it
is first written. Arrays over it never move, so older and shorter views of them stay valid.
"""

from __future__ import annotations

import mmap
import sys
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_REACH = 1 << 36
"""Addresses for one array: 64 GB of the 128 TB that a process has."""

_PAGE = mmap.PAGESIZE
_NO_RESERVE = 0x4000
"""MAP_NORESERVE of Linux, which the module mmap has from Python 3.13 on only."""


class Reserved:
    """The addresses of one array."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory

    def view(self, shape: tuple[int, ...], dtype: Any) -> Array | None:
        """The array that begins here; None if the addresses do not suffice."""
        count = int(np.prod(shape))
        if count * np.dtype(dtype).itemsize > _REACH:
            return None
        return np.frombuffer(self._memory, dtype, count).reshape(shape)

    def resized(self, old: Array, length: int) -> Array | None:
        """The array that begins here with another length; what it loses becomes zero."""
        if length < len(old):
            size = old[:1].nbytes
            self._forget(length * size, len(old) * size)
        return self.view((length, *old.shape[1:]), old.dtype)

    def _forget(self, start: int, end: int) -> None:
        """Bytes from `start` to `end` become zero, and their pages go back."""
        page_start = min(-(-start // _PAGE) * _PAGE, end)
        np.frombuffer(self._memory, np.uint8, page_start - start, start)[:] = 0
        if page_start < end:
            self._memory.madvise(mmap.MADV_DONTNEED, page_start, end - page_start)


def reserve() -> Reserved | None:
    """None where the system does not give addresses without memory (limits, other systems)."""
    if sys.platform != "linux":
        return None
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    try:
        memory = mmap.mmap(-1, _REACH, flags=flags)
        memory.madvise(mmap.MADV_HUGEPAGE)
    except (OSError, ValueError):
        return None
    return Reserved(memory)
