"""Memory for the columns of large batches, used again for the next one.

The system takes back what a large batch frees, and gives it again page by page: for wide rows that
is a third of an insert. What is given back here must not be read any more.
"""

from __future__ import annotations

import numpy as np

from viewlet.storage.columns import Array

LARGE = 1 << 14
"""Values from which an array is worth keeping: smaller ones come from memory that is in use."""

_MOST = 1 << 24
"""Values that are kept in all: 128 MB."""


class BatchMemory:
    """Arrays of 64-bit values that nobody reads now."""

    def __init__(self) -> None:
        self._free: list[Array] = []

    def take(self, length: int) -> Array:
        """An int64 array of this length at least, of any contents."""
        for i in range(len(self._free) - 1, -1, -1):
            if length <= len(self._free[i]) <= 4 * length:
                return self._free.pop(i)
        return np.empty(length, np.int64)

    def give_back(self, arrays: list[Array]) -> None:
        """Let arrays that `take` gave be used again."""
        free_words = sum(map(len, self._free))
        for array in arrays:
            if LARGE <= len(array) <= _MOST - free_words:
                self._free.append(array)
                free_words += len(array)
        arrays.clear()
