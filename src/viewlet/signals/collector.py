"""The output of many blocks, made by several threads, in one set of columns."""

from __future__ import annotations

from threading import Condition
from typing import Any

import numpy as np

from viewlet.signals import buffers
from viewlet.signals.batches import Columns, Deferred


def written(columns: Columns) -> Columns:
    """The columns with every deferred one written out."""
    out: Columns = {}
    for name, column in columns.items():
        if isinstance(column, Deferred):
            out[name] = buffers.empty(len(column), column.dtype)
            column.fill(out[name])
        else:
            out[name] = column
    return out


class Collector:
    """Blocks are copied into place while they are hot, by the threads that made them.

    The order is that of the blocks' numbers, whatever the threads do: a block's place is reserved
    in that order, only the copying overlaps. A block that is ready before its turn waits here, and
    its thread goes on. `rows` is a guess of the total; the arrays grow when it was too small.
    """

    def __init__(self, blocks: int, rows: int) -> None:
        self._blocks = blocks
        self._guess = rows
        self._rows = 0
        self._arrays: Columns = {}
        self._empty: Columns = {}
        self._waiting: dict[int, Columns] = {}
        self._next = 0
        self._writers = 0
        self._turn = Condition()

    def put(self, block: int, columns: Columns) -> None:
        """Take a block; copies it, and those that waited for it."""
        with self._turn:
            self._waiting[block] = columns
        if self._blocks == 1:
            return
        while True:
            with self._turn:
                if self._next not in self._waiting:
                    return
                mine = self._waiting.pop(self._next)
                row = self._reserve(mine)
                # not before the place is reserved: others then see that it is not their turn
                self._next += 1
                self._writers += 1
            try:
                self._copy(mine, row)
            finally:  # deferred columns run users' functions, which may fail
                with self._turn:
                    self._writers -= 1
                    self._turn.notify_all()

    def _reserve(self, columns: Columns) -> int:
        """Room for these rows; the caller holds the turn."""
        rows = len(next(iter(columns.values())))
        if not rows:  # decides no types, unless all blocks are empty
            self._empty = columns
            return self._rows
        if any(self._unfit(name, column, rows) for name, column in columns.items()):
            self._turn.wait_for(lambda: self._writers == 0)
            for name, column in columns.items():
                self._grow(name, column, rows)
        row = self._rows
        self._rows += rows
        return row

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
        grown = buffers.empty((room, *column.shape[1:]), dtype)
        if array is not None:
            grown[: self._rows] = array[: self._rows]
        self._arrays[name] = grown

    def _copy(self, columns: Columns, row: int) -> None:
        for name, column in columns.items():
            if not len(column):
                continue
            room = self._arrays[name][row : row + len(column)]
            if isinstance(column, Deferred):
                column.fill(room)
            else:
                room[...] = column

    def columns(self) -> Columns:
        """All rows that were collected, as one array for each column."""
        if self._blocks == 1:
            return written(self._waiting[0])
        if not self._arrays:
            return written(self._empty)
        return {name: array[: self._rows] for name, array in self._arrays.items()}
