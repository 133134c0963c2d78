"""A finished table, grouped by key in two steps: into blocks of keys, then inside a block.

The rows are first dealt into some blocks of keys, which are sequential writes to as many
places. A block is grouped when its turn comes, inside the cache and right before the operators
read it. The obvious way, one counting sort over all keys, writes to as many places as there are
keys: with thousands of keys nearly every write misses the cache, and the time per row grows with
the number of keys.

Rows that go round many keys in turn (a poller's loop, a wide table made long) are recognized: they
are a matrix, whose columns a block takes from where they are, and nothing is dealt.

Threads share the rows of the first step. Each counts its part, then deals it to where the parts
before it end, so rows of a key stay in their order.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor as Pool
from itertools import pairwise
from typing import Any

import numpy as np

from viewlet.signals import buffers
from viewlet.signals.batches import INF, NEVER, Array, Columns, Events, Ints, Regular
from viewlet.signals.batches import counts_to_offsets as to_offsets
from viewlet.signals.kernels import segments as kernel
from viewlet.signals.keys import Coded, KeyDictionary

_BLOCK_ROWS = 1 << 17  # rows of a block at least, to be worth the calls of all operators
_MOST_BLOCKS = 16  # more would cost more calls than their smaller size gains
_CYCLE_FROM = 128  # keys in turn from which a block's part of a round is a few lines of the cache
_MOST_KEYS = 1 << 16  # of a block: a key's number within it takes two bytes
_HEAD = 1 << 17  # rows whose keys are learned before threads share the rest; usually all keys
_NO_CODES = np.empty(0, np.uint16)


def split(counts: Ints, in_full: bool) -> Ints:
    """Edges of blocks of keys with about the same number of rows; `in_full`: one block."""
    keys = len(counts)
    if in_full or not keys:
        return np.array([0, keys])
    offsets = to_offsets(counts)
    rows = max(_BLOCK_ROWS, int(offsets[-1]) // _MOST_BLOCKS)
    cuts = np.searchsorted(offsets, np.arange(rows, offsets[-1], rows))
    return np.unique(np.concatenate([[0], cuts, np.arange(_MOST_KEYS, keys, _MOST_KEYS), [keys]]))


class SourceRows:
    """The rows of one source: `count` them, `deal` them into blocks, take every `block`."""

    def __init__(self, part: dict[str, Any], pool: Pool, lanes: int) -> None:
        self._keys: list[Array] = part["keys"]
        self._names: list[str] = part["names"]
        self._start: Ints = part["start"]
        self._end: Ints | None = part["end"]
        self._columns: Columns = part["columns"]
        self._pool = pool
        self.rows = len(self._start)
        cuts = [self.rows * lane // lanes for lane in range(lanes + 1)]
        self._slices = [slice(a, b) for a, b in pairwise(cuts)]
        self._local: Array = _NO_CODES
        self._regular: Regular | None = None
        self._cycle = 0  # keys in turn, when the rows go round them

    def _each(self, work: Callable[[slice], Any]) -> list[Any]:
        return list(self._pool.map(work, self._slices))

    # --- counting --------------------------------------------------------------------------------

    def count(self, dictionary: KeyDictionary) -> Ints:
        """Rows of every key that is known by now; also finds out whether times are even."""
        if not self._keys:
            self._regular = self._single()
            self._counts = [np.array([self.rows])]
            return self._counts[0]
        self._coded = dictionary.coded(self._keys, self._names, _HEAD)
        self._cycle = self._find_cycle(self._coded)
        if self._cycle:
            return self._count_cycle(len(dictionary))
        step = int(kernel.first_step(self._coded.keys, self._start)) if self.rows else 0
        parts = self._tally(self._coded, len(dictionary), step)
        if sum(part[0] for part in parts) < self.rows:
            self._coded = dictionary.coded(self._keys, self._names, None)
            parts = self._tally(self._coded, len(dictionary), step)
        self._counts = [counts[:, 0] for _, _, counts, _ in parts]
        if all(even for _, even, _, _ in parts):
            self._regular = _joined([(first, counts[:, 1]) for _, _, counts, first in parts], step)
        return np.asarray(sum(self._counts))

    def _tally(self, coded: Coded, keys: int, step: int) -> list[Any]:
        def tally(mine: slice) -> tuple[int, bool, Ints, Ints]:
            counts, first = np.empty((keys, 2), np.int64), np.full(keys, NEVER)
            counts[:] = (0, NEVER)
            rows = (coded.keys[mine], coded.low, coded.table, self._start[mine])
            done, even = kernel.tally(*rows, step, counts, first)
            return done, even, counts, first

        return self._each(tally)

    def _find_cycle(self, coded: Coded) -> int:
        """How many keys the rows go round in turn, in the order of their slots, or 0."""
        keys, texts = coded.keys, any(c.dtype.kind in "USO" for c in self._columns.values())
        cycle = int(kernel.first_repeat(keys))
        if not _CYCLE_FROM <= cycle <= _HEAD or texts:
            return 0
        first = coded.table[keys[:cycle] - coded.low]
        same = np.array_equal(first, np.arange(cycle)) and self._repeat(keys, cycle, 0)
        return cycle if same else 0

    def _repeat(self, column: Ints, cycle: int, step: int) -> bool:
        return all(
            self._each(lambda rows: kernel.repeats(_before(column, rows, cycle), cycle, step))
        )

    def _count_cycle(self, keys: int) -> Ints:
        cycle, start = self._cycle, self._start
        counts = np.zeros(keys, np.int64)
        counts[:cycle] = self.rows // cycle
        counts[: self.rows % cycle] += 1
        step = int(start[cycle] - start[0])
        if step > 0 and self._repeat(start, cycle, step):
            self._regular = Regular(start[:cycle].copy(), step)
        self._counts = [counts]
        return counts

    def _single(self) -> Regular | None:
        """The times of a source without keys, when they are even."""
        start = self._start
        step = int(start[1] - start[0]) if self.rows > 1 else 0

        def even(mine: slice) -> bool:
            return bool(kernel.repeats(start[mine.start : mine.stop + 1], 1, step))

        return Regular(start[:1], step) if step > 0 and all(self._each(even)) else None

    # --- dealing ---------------------------------------------------------------------------------

    def deal(self, edges: Ints) -> None:
        """Move the rows into blocks; block b has the keys edges[b] to edges[b + 1]."""
        keys = int(edges[-1])
        self._edges = edges
        # other sources may have brought further keys
        counts = [np.append(part, np.zeros(keys - len(part), np.int64)) for part in self._counts]
        self._total = np.asarray(sum(counts))
        if self._regular is not None:
            first = np.append(self._regular.first, np.zeros(keys, np.int64))[:keys]
            self._regular = Regular(first, self._regular.step)
        self._begins = to_offsets(self._total)[edges]
        moving: Columns = dict(self._columns)
        self._texts = {name: c for name, c in moving.items() if c.dtype.kind in "USO"}
        if keys > 1 and self._texts:
            moving = {name: c for name, c in moving.items() if name not in self._texts}
            moving["\0order"] = np.arange(self.rows)
        if self._regular is None:
            moving["\0start"] = self._start
        if self._end is not None:
            moving["\0end"] = self._end
        if len(edges) > 2 and not self._cycle:
            moving = self._dealt(moving, counts)
        elif keys > 1 and not self._cycle:
            self._local = self._coded.table[self._coded.keys - self._coded.low]
        self._moved = moving

    def _dealt(self, columns: Columns, counts: list[Ints]) -> Columns:
        edges, coded = self._edges, self._coded
        widths = np.diff(edges)
        bits = max(1, int(widths.max() - 1).bit_length())
        number = np.repeat(np.arange(len(widths)), widths)
        numbers = (number << bits) | (np.arange(edges[-1]) - edges[number])
        block_numbers = numbers.astype(np.uint32)[coded.table]
        begin = self._begins[:-1]
        cursors = {}
        for mine, part in zip(self._slices, counts, strict=True):
            cursors[mine.start] = begin
            begin = begin + np.add.reduceat(part, edges[:-1])
        self._local = buffers.empty(self.rows, np.uint16)
        out: Columns = {}
        for name, column in columns.items():
            plain = _plain(column)
            moved = buffers.empty(self.rows, plain.dtype)
            first = not out

            def move(mine: slice, plain: Array, moved: Array, mark: bool) -> None:
                rows = (
                    coded.keys[mine],
                    coded.low,
                    block_numbers,
                    bits,
                    cursors[mine.start].copy(),
                )
                kernel.deal(*rows, plain[mine], moved, mark, self._local)

            self._each(lambda mine, a=plain, b=moved, mark=first: move(mine, a, b, mark))  # type: ignore[misc]
            out[name] = moved.view(column.dtype)
        return out

    # --- blocks ----------------------------------------------------------------------------------

    def block(self, number: int) -> Events:
        """The rows of a block's keys, key after key, to the end of time."""
        low, high = self._edges[number : number + 2]
        rows = slice(int(self._begins[number]), int(self._begins[number + 1]))
        slots = np.arange(high - low)
        offsets = to_offsets(self._total[low:high])
        if self._cycle:
            columns = {name: self._turned(c, int(low), offsets) for name, c in self._moved.items()}
        else:
            columns = {name: column[rows] for name, column in self._moved.items()}
        if len(slots) > 1 and not self._cycle:
            local = self._local[rows]
            columns = {name: _grouped(local, offsets, c) for name, c in columns.items()}
        order = columns.pop("\0order", None)
        if order is not None:
            columns |= {name: column[order] for name, column in self._texts.items()}
        start, end = columns.pop("\0start", None), columns.pop("\0end", None)
        if self._regular is not None:
            clock: Ints | Regular = Regular(self._regular.first[low:high], self._regular.step)
        else:
            assert start is not None
            clock = start
        columns = {name: columns[name] for name in self._columns}
        return Events(slots, offsets, np.full(len(slots), INF), columns, clock, end)

    def _turned(self, column: Array, low: int, offsets: Ints) -> Array:
        """The rows of a block's keys, from rows that go round all keys in turn."""
        plain = _plain(column)
        out = buffers.empty(int(offsets[-1]), plain.dtype)
        mine = offsets[: max(0, self._cycle - low) + 1]  # other sources may have further keys
        kernel.turn(plain, self._cycle, low, mine, out)
        return out.view(column.dtype)


def _before(column: Array, rows: slice, cycle: int) -> Array:
    """Some rows and the round before them."""
    return column[max(0, rows.start - cycle) : rows.stop]


def _joined(parts: list[tuple[Ints, Ints]], step: int) -> Regular | None:
    """The even times of all parts, when each key goes on where the part before it ended."""
    begin, due = parts[0]
    for first, upcoming in parts[1:]:
        new, old = first != NEVER, due != NEVER
        both = new & old
        if not (first[both] == due[both]).all():
            return None
        begin = np.where(old, begin, first)
        due = np.where(new, upcoming, due)
    return Regular(np.where(begin == NEVER, 0, begin), step)


def _grouped(local: Array, offsets: Ints, column: Array) -> Array:
    plain = _plain(column)
    out = buffers.empty(len(plain), plain.dtype)
    kernel.scatter(local, 0, 0, offsets[:-1].copy(), plain, out)
    return out.view(column.dtype)


def _plain(column: Array) -> Array:
    """A column that kernels can move: times as whole numbers."""
    return column.view(np.int64) if column.dtype.kind == "M" else column
