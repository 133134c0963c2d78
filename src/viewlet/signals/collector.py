"""The output of many blocks, made by several lanes, in one set of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition
from typing import Any

import numpy as np

from viewlet.signals.batches import Array, Columns


@dataclass(frozen=True)
class Deferred:
    """An int64 column that is not written yet: fill(out) writes its `rows` values into out."""

    rows: int
    fill: Callable[[Array], None]
    dtype = np.dtype(np.int64)
    shape: tuple[int, ...] = (0,)
    ndim = 1

    def __len__(self) -> int:
        return self.rows


def written(columns: Columns) -> Columns:
    """The columns with every deferred one written out."""
    out: Columns = {}
    for name, column in columns.items():
        if isinstance(column, Deferred):
            out[name] = np.empty(len(column), np.int64)
            column.fill(out[name])
        else:
            out[name] = column
    return out


class Collector:
    """Blocks are copied into place while they are hot, lanes in parallel.

    The order is block 0 of every lane, then block 1 of every lane, and so on, whatever the threads
    do: a block's place is reserved in that order, only the copying overlaps. `rows` is a guess of
    the total; the arrays grow when it was too small.
    """

    def __init__(self, lanes: int, rows: int) -> None:
        self._guess = rows
        self._rows = 0
        self._first: Columns | None = None
        self._arrays: Columns = {}
        self._writers = 0
        self._turn = Condition()
        self._blocks = [0] * lanes
        self._open = [True] * lanes
        self._next = 0
        self._failed = False

    @contextmanager
    def lane(self, lane: int) -> Iterator[Callable[[Columns], None]]:
        """The `put` of a lane, to be called for its blocks in order."""

        def put(columns: Columns) -> None:
            self._put(lane, columns)

        try:
            yield put
        except BaseException:
            self._failed = True
            raise
        finally:
            with self._turn:
                self._open[lane] = False
                self._advance()

    def _advance(self) -> None:
        """Move to the next lane that will still put a block."""
        if any(self._open):
            while not self._open[self._next % len(self._open)]:
                self._next += 1
        self._turn.notify_all()

    def _put(self, lane: int, columns: Columns) -> None:
        rows = len(next(iter(columns.values())))
        lanes = len(self._open)
        with self._turn:
            self._turn.wait_for(lambda: self._next % lanes == lane or self._failed)
            if self._failed:
                return
            only = lanes == 1 and self._first is None and not self._arrays
            if only:
                self._first = columns
            else:
                if self._first is not None and not self._arrays:
                    first, self._first = self._first, None
                    self._copy(first, self._reserve(first))
                place = self._reserve(columns) if rows else 0
                self._writers += 1
            self._next += 1
            self._advance()
        if only:
            return
        if rows:
            self._copy(columns, place)
        with self._turn:
            self._writers -= 1
            self._turn.notify_all()

    def _reserve(self, columns: Columns) -> int:
        """Room for these rows; the caller holds the turn."""
        rows = len(next(iter(columns.values())))
        if any(self._unfit(name, column, rows) for name, column in columns.items()):
            self._turn.wait_for(lambda: self._writers == 0)
            for name, column in columns.items():
                self._grow(name, column, rows)
        place = self._rows
        self._rows += rows
        return place

    def _unfit(self, name: str, column: Any, rows: int) -> bool:
        array = self._arrays.get(name)
        return (
            array is None
            or len(array) < self._rows + rows
            or array.dtype != np.result_type(array.dtype, column.dtype)
        )

    def _grow(self, name: str, column: Any, rows: int) -> None:
        array = self._arrays.get(name)
        dtype = column.dtype if array is None else np.result_type(array.dtype, column.dtype)
        # a first guess from the first block would do as well; rows in is right for most queries
        room = max(self._guess if column.ndim == 1 else 0, self._rows + rows)
        if array is not None and len(array) < self._rows + rows:
            room = max(room, 2 * len(array))
        grown = np.empty((room, *column.shape[1:]), dtype)
        if array is not None:
            grown[: self._rows] = array[: self._rows]
        self._arrays[name] = grown

    def _copy(self, columns: Columns, place: int) -> None:
        for name, column in columns.items():
            room = self._arrays[name][place : place + len(column)]
            if isinstance(column, Deferred):
                column.fill(room)
            else:
                room[...] = column

    def columns(self) -> Columns:
        if self._first is not None:
            return written(self._first)
        return {name: array[: self._rows] for name, array in self._arrays.items()}
