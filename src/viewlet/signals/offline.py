"""A query over a finished table: one batch and the end of time, over all cores.

Grouping splits the rows among the threads (each counts its part, then moves it to where the parts
before it end), everything after it splits the keys. Splitting the keys from the start, as a live
run must, would make every thread look at every row.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from viewlet.signals.batches import INF, NEVER, Array, Columns, Events, Ints, Regular
from viewlet.signals.batches import counts_to_offsets as to_offsets
from viewlet.signals.collector import Collector
from viewlet.signals.executor import Executor, Plan, empty_events
from viewlet.signals.kernels import segments as kernel
from viewlet.signals.live import Live
from viewlet.signals.operators.grouping import single_clock
from viewlet.signals.pools import expand
from viewlet.signals.state import MemoryStore

_BLOCK_ROWS = 1 << 17  # rows of a block: its columns fit the second-level cache
_THREADS_FROM = 50_000  # rows from which a second thread pays


def run(plan: Plan, given: dict[str, Any], lanes: int) -> Columns:
    """The whole result; `lanes` threads share the keys of a plan whose keys do not meet."""
    front = Live(plan)
    read = {name: front.read(name, table) for name, table in given.items()}
    rows = sum(len(part["start"]) for part in read.values())
    lanes = lanes if plan.keywise and rows >= _THREADS_FROM else 1
    with ThreadPoolExecutor(lanes) as pool:
        everyone = np.arange(len(front.keys))
        raw: dict[str, Events] = {}
        for source in plan.sources:
            part = read.get(source.name)
            if part is None:
                batch = empty_events(front.columns_of(source), source.schema.end is not None)
            else:
                batch = _Grouping(part, len(front.keys), pool, lanes).events()
            raw[source.name] = expand(batch, everyone)
        collector = Collector(lanes, rows)
        edges = _edges(max(raw.values(), key=lambda batch: batch.rows), lanes)

        def work(lane: int) -> None:
            with collector.lane(lane) as put:
                executor = Executor(plan, MemoryStore(), front.keys, 0, 0)
                mine = {
                    name: _ended(batch.restrict(edges[lane], edges[lane + 1]))
                    for name, batch in raw.items()
                }
                for block in executor.blocks(mine, _BLOCK_ROWS):
                    put(executor.output(block))

        list(pool.map(work, range(lanes)))
    return collector.columns()


def _ended(batch: Events) -> Events:
    frontier = np.full(len(batch.slots), INF)
    return Events(batch.slots, batch.offsets, frontier, batch.columns, batch.clock, batch.end)


def _edges(batch: Events, lanes: int) -> list[int]:
    """Slots that share the rows evenly among the lanes."""
    wanted = batch.rows * np.arange(1, lanes) // lanes
    cuts = np.searchsorted(batch.offsets, wanted)
    return [0, *(int(cut) for cut in cuts), len(batch.slots)]


class _Grouping:
    """Counting sort of one table by key, its rows split among threads."""

    def __init__(
        self, part: dict[str, Any], keys: int, pool: ThreadPoolExecutor, lanes: int
    ) -> None:
        self._part = part
        self._keys = keys
        self._pool = pool
        self._codes: Array = part["codes"]
        rows = len(part["start"])
        self._slices = [
            slice(rows * lane // lanes, rows * (lane + 1) // lanes) for lane in range(lanes)
        ]

    def events(self) -> Events:
        start, end, columns = self._part["start"], self._part["end"], self._part["columns"]
        rows = len(start)
        slots = np.arange(self._keys)
        if self._codes is None or self._keys == 1:
            offsets = np.array([0, rows])
            return Events(slots, offsets, slots, columns, single_clock(start), end)
        counts = self._part["counts"]
        offsets = to_offsets(counts)
        self._cursors = self._begin(offsets, counts)
        step = int(kernel.first_step(self._codes, start))
        clock: Ints | Regular | None = None
        grouped: Columns = {}
        for name, column in columns.items():
            if clock is None and step > 0 and column.dtype.kind in "fciub":
                grouped[name] = np.empty(rows, column.dtype)
                clock = self._regular(column, grouped[name], start, step)
                clock = clock if clock is not None else self._moved(start)
            else:
                grouped[name] = self._moved(column)
        clock = clock if clock is not None else self._moved(start)
        end = None if end is None else self._moved(end)
        return Events(slots, offsets, slots, grouped, clock, end)

    def _each(self, work: Callable[[int], Any]) -> list[Any]:
        return list(self._pool.map(work, range(len(self._slices))))

    def _begin(self, offsets: Ints, total: Ints) -> list[Ints]:
        """Where every thread's rows of every key begin."""
        if len(self._slices) == 1:
            return [offsets[:-1]]

        def count(lane: int) -> Ints:
            counts = np.zeros(self._keys, np.int64)
            kernel.histogram(self._codes[self._slices[lane]], counts)
            return counts

        cursors = [offsets[:-1]]
        for counts in self._each(count)[:-1]:
            cursors.append(cursors[-1] + counts)
        return cursors

    def _moved(self, column: Array) -> Array:
        """One column in key-major order."""
        if column.dtype.kind in "USO":
            order = self._moved(np.arange(len(column)))
            return column[order]
        out = np.empty(len(column), column.dtype)
        plain, target = column, out
        if column.dtype.kind == "M":
            plain, target = column.view(np.int64), out.view(np.int64)

        def move(lane: int) -> None:
            mine = self._slices[lane]
            cursor = self._cursors[lane].copy()
            kernel.scatter(self._codes[mine], 0, 0, cursor, plain[mine], target)

        self._each(move)
        return out

    def _regular(self, column: Array, out: Array, start: Ints, step: int) -> Regular | None:
        """Move a column and see whether the times of every key are evenly spaced."""

        def move(lane: int) -> tuple[bool, Ints, Ints]:
            mine = self._slices[lane]
            first, upcoming = (np.full(self._keys, NEVER) for _ in range(2))
            cursor = self._cursors[lane].copy()
            same = kernel.scatter_regular(
                self._codes[mine],
                0,
                0,
                cursor,
                column[mine],
                out,
                start[mine],
                step,
                first,
                upcoming,
            )
            return same, first, upcoming

        parts = self._each(move)
        regular, begin, due = parts[0]
        for same, first, upcoming in parts[1:]:
            new, old = first != NEVER, due != NEVER
            both = new & old
            regular = regular and same and bool((first[both] == due[both]).all())
            begin = np.where(old, begin, first)
            due = np.where(new, upcoming, due)
        return Regular(np.where(begin == NEVER, 0, begin), step) if regular else None
