"""Batches that wait for a reader, and what happens when too many do.

    wait        writers wait, before they begin, until there is room
    coalesce    what does not fit becomes one batch for each view: the net change
    drop        what does not fit is left out and counted; the next batch says how many

Without a capacity everything is kept. A queue is filled by whoever changes the database, inside of
its lock, and emptied by one reader.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

from viewlet.errors import StateError
from viewlet.interfaces.subscribe import ViewBatch
from viewlet.schema import normalized, shown_value

Policy = Literal["wait", "coalesce", "drop"]
POLICIES = ("wait", "coalesce", "drop")


_UNMERGED = 64
"""Batches that a queue keeps as they are before it merges them."""


class BatchQueue:
    """The batches that one reader has not seen."""

    def __init__(self, capacity: int | None = None, full: Policy = "wait") -> None:
        if capacity is not None and (type(capacity) is not int or capacity < 1):
            raise StateError(
                f"capacity={shown_value(capacity)}", hint="give a number of batches from 1 on"
            )
        if full not in POLICIES:
            raise StateError(f"full={shown_value(full)}", hint=f"it is one of {POLICIES}")
        self.missed = 0
        self.is_closed = False
        self.reader: asyncio.AbstractEventLoop | None = None
        self._capacity = capacity
        self._full = full
        self._changed = threading.Condition()
        self._batches: deque[ViewBatch] = deque()
        self._net: dict[str, _NetChange] = {}
        self._missed: Counter[str] = Counter()

    @property
    def holds_writers(self) -> bool:
        """Whether writers have to wait for it."""
        return self._capacity is not None and self._full == "wait"

    def put(self, batch: ViewBatch) -> None:
        """A batch that stands; a snapshot always has room."""
        if self._capacity is None:
            self._batches.append(batch)  # an operation that needs no lock
            return
        with self._changed:
            is_full = self._capacity is not None and len(self._batches) >= self._capacity
            if self._net or (is_full and self._full == "coalesce"):
                # Once one batch is merged, later ones are behind it.
                self._net.setdefault(batch.view, _NetChange(batch)).add(batch)
            elif is_full and self._full == "drop" and not batch.snapshot:
                self.missed += 1
                self._missed[batch.view] += 1
            else:
                missed = self._missed.pop(batch.view, 0) if self._missed else 0
                self._batches.append(replace(batch, missed=missed) if missed else batch)

    def pop(self) -> ViewBatch | None:
        """The oldest batch; None if there is none."""
        with self._changed:
            if self._batches:
                batch = self._batches.popleft()
                self._changed.notify_all()
                return batch
            while self._net:
                net = self._net.pop(next(iter(self._net))).batch()
                if net.inserted or net.deleted:
                    return net
            return None

    def wait_for_room(self) -> None:
        """Until a batch fits, or nobody reads any more; an error where that would be for ever."""
        with self._changed:
            if not self._has_room() and self.reader is not None and _runs_here(self.reader):
                raise StateError(
                    "the queue of a watch is full, and its reader runs in this very thread",
                    hint='write in another thread, or say watch(full="coalesce")',
                )
            self._changed.wait_for(self._has_room)

    def _has_room(self) -> bool:
        return self.is_closed or self._capacity is None or len(self._batches) < self._capacity

    def close(self) -> None:
        """Nobody reads any more: whoever waits for room need not."""
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this thread is the one that runs the loop."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


class _NetChange:
    """Batches of one view, as if they had been one."""

    def __init__(self, first: ViewBatch) -> None:
        self._last = first
        self._weights: Counter[Any] = Counter()
        self._unmerged: list[ViewBatch] = []

    def add(self, batch: ViewBatch) -> None:
        """Merged when somebody asks, or when so many wait that merging makes them fewer."""
        self._last = batch
        self._unmerged.append(batch)
        if len(self._unmerged) >= _UNMERGED:
            self._merge()

    def _merge(self) -> None:
        for batch in self._unmerged:
            self._merge_one(batch)
        self._unmerged = []

    def _merge_one(self, batch: ViewBatch) -> None:
        for rows, weight in ((batch.inserted, 1), (batch.deleted, -1)):
            for row in rows:
                key = _with_one_nan(row)
                self._weights[key] += weight
                if not self._weights[key]:
                    del self._weights[key]

    def batch(self) -> ViewBatch:
        self._merge()
        inserted = _repeated((row, weight) for row, weight in self._weights.items())
        deleted = _repeated((row, -weight) for row, weight in self._weights.items())
        return replace(self._last, inserted=inserted, deleted=deleted)


def _with_one_nan(row: Any) -> Any:
    """A row that is equal to any with the same values, NaN among them."""
    if any(value != value for value in row):
        return type(row)(*map(normalized, row))
    return row


def _repeated(weighted: Iterable[tuple[Any, int]]) -> list[Any]:
    return [row for row, weight in weighted for _ in range(weight)]
