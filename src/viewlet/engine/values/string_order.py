"""The order of a dictionary's strings as numbers by code, kept while strings come.

    label[code of "ant"] < label[code of "bee"]      as the strings themselves

Labels leave gaps: a string between two others gets a number between theirs, in O(log n), and no
other label changes. Where a gap is used up, the strings around it are spread again over as many
numbers as they need, first those of a block, then those of more and more blocks around it (Dietz
and Sleator, Two algorithms for maintaining order in a list, 1987). Strings that come in ascending
order, as times and numbered keys do, use a gap up slowly. NULL, code 0, is before all.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence

import numpy as np

from viewlet.storage.columns import Array

_END = 1 << 62
"""Labels lie between 0 and this."""
_STEP = 1 << 24
"""The gap that is left before a string which comes after all others."""
_ROOM = 1 << 12
"""The least gap that spreading leaves."""
_BLOCK = 512
"""Strings of a block, which has up to twice as many."""
_BULK = 8
"""From one new string for so many old ones on, all are labeled anew."""


class StringOrder:
    """Labels of all strings of a dictionary, whose `codes` it looks up."""

    def __init__(self, codes: Mapping[str | None, int]) -> None:
        self.labels: Array = np.zeros(64, np.int64)
        self._codes = codes
        self._count = 0
        self._blocks: list[list[str]] = []
        self._lasts: list[str] = []
        """The last string of each block."""

    def __len__(self) -> int:
        return self._count

    def add(self, strings: Sequence[str]) -> None:
        """Strings that are new to the order and have codes; all of them or, on an error, none."""
        size = len(self._codes) + 1
        if size > len(self.labels):
            longer = np.zeros(max(size, 2 * len(self.labels)), np.int64)
            longer[: len(self.labels)] = self.labels
            self.labels = longer
        if len(strings) * _BULK >= self._count:
            self._label_all(strings)
            return
        for text in strings:
            self._insert(text)

    def _label_all(self, strings: Sequence[str]) -> None:
        """Both sorted together, with equal gaps."""
        every = [text for block in self._blocks for text in block]
        every += sorted(strings)
        every.sort()  # two runs in order, which is linear
        self._count = len(every)
        self._blocks = [every[i : i + _BLOCK] for i in range(0, len(every), _BLOCK)]
        self._lasts = [block[-1] for block in self._blocks]
        self._spread(every, 0, _END)

    def _spread(self, strings: Sequence[str], low: int, high: int) -> None:
        """Labels with equal gaps between two numbers."""
        codes = np.fromiter(map(self._codes.__getitem__, strings), np.int64, len(strings))
        gap = (high - low) // (len(strings) + 1)
        self.labels[codes] = low + gap * np.arange(1, len(strings) + 1)

    def _insert(self, text: str) -> None:
        at = min(bisect_left(self._lasts, text), len(self._blocks) - 1)
        block = self._blocks[at]
        position = bisect_left(block, text)
        low = self._label(block[position - 1]) if position else self._before(at)
        high = self._label(block[position]) if position < len(block) else self._after(at)
        insort(block, text)
        self._lasts[at] = block[-1]
        self._count += 1
        if high - low > 1:
            self.labels[self._codes[text]] = low + min((high - low) // 2, _STEP)
        else:
            self._make_room(at)
        if len(block) > 2 * _BLOCK:
            self._blocks[at : at + 1] = [block[:_BLOCK], block[_BLOCK:]]
            self._lasts[at : at + 1] = [block[_BLOCK - 1], block[-1]]

    def _make_room(self, at: int) -> None:
        """Spread a block, or so many around it that there is room between their neighbors."""
        first, last = at, at + 1
        while True:
            low, high = self._before(first), self._after(last - 1)
            strings = [text for block in self._blocks[first:last] for text in block]
            is_all = first == 0 and last == len(self._blocks)
            if is_all or (high - low) // (len(strings) + 1) >= _ROOM:
                self._spread(strings, low, high)
                return
            width = last - first
            first, last = max(first - width, 0), min(last + width, len(self._blocks))

    def _label(self, text: str) -> int:
        return int(self.labels[self._codes[text]])

    def _before(self, block: int) -> int:
        """The last label before a block."""
        return self._label(self._lasts[block - 1]) if block else 0

    def _after(self, block: int) -> int:
        """The first label after a block."""
        return self._label(self._blocks[block + 1][0]) if block + 1 < len(self._blocks) else _END
