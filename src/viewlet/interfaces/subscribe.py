"""Subscriptions: what a batch did to a view, handed to whoever waits for it (paper 003, 2.1).

    callback      runs inside the batch; if it raises, the batch is undone
    future        `subscription.next()`: the next batch that changed the view, once it stands
    EventLoop     many views' batches in one queue, handled in the thread that runs the loop
    watch         the same as an asynchronous iterator, for asyncio

Callbacks can refuse a batch; the others hear of it afterwards, and only of batches that stand.
With `snapshot` the first batch is the view as it is, and every later change follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from viewlet.engine.values.arrow import arrow_type, to_arrow
from viewlet.errors import RangeError
from viewlet.interfaces.json_values import json_row, json_text
from viewlet.interfaces.view_rows import RowSequence
from viewlet.schema import Type

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class ViewBatch:
    """What one atomic batch did to one view; a changed row is deleted and inserted.

    `snapshot` says that it is the view as a whole, `missed` how many batches of the view were left
    out before this one, which only a bounded `watch` that drops does.

    >>> seen = []
    >>> subscription = db.subscribe("v", seen.append)
    >>> db.insert("r", (1, 10))
    1
    >>> seen[0].deleted, seen[0].inserted
    ([V(a=1, total=5)], [V(a=1, total=15)])
    """

    view: str
    version: int
    inserted: Sequence[Any]
    deleted: Sequence[Any]
    snapshot: bool = False
    missed: int = 0
    columns: tuple[tuple[str, Type], ...] = field(default=(), repr=False, compare=False)

    def inverse(self) -> ViewBatch:
        """What takes the batch back: deleted rows inserted, inserted ones deleted."""
        return replace(self, inserted=self.deleted, deleted=self.inserted)

    def to_arrow(self) -> pa.Table:
        """The rows with a column `_weight`: -1 for those deleted, which come first, else 1.

        >>> waiting = db.subscribe("v").next()
        >>> db.insert("r", (1, 10))
        1
        >>> waiting.result(timeout=1).to_arrow().to_pylist()
        [{'a': 1, 'total': 5, '_weight': -1}, {'a': 1, 'total': 15, '_weight': 1}]
        """
        import pyarrow as pa

        if isinstance(self.deleted, RowSequence) and isinstance(self.inserted, RowSequence):
            sides = [(self.deleted, -1), (self.inserted, 1)]
            tables = [
                to_arrow(self.columns, rows.columns()).append_column(
                    "_weight", pa.array(np.full(len(rows), weight), pa.int64())
                )
                for rows, weight in sides
            ]
            return pa.concat_tables(tables)
        rows = [*self.deleted, *self.inserted]
        arrays = []
        for at, (name, type) in enumerate(self.columns):
            try:
                arrays.append(pa.array([row[at] for row in rows], arrow_type(type)))
            except (pa.ArrowInvalid, OverflowError) as error:
                raise RangeError(f"column {name} left the range of {type}: {error}") from None
        weights = [-1] * len(self.deleted) + [1] * len(self.inserted)
        arrays.append(pa.array(weights, pa.int64()))
        return pa.Table.from_arrays(arrays, [*self._names, "_weight"])

    def to_dicts(self) -> list[dict[str, Any]]:
        """The same rows as dictionaries.

        >>> waiting = db.subscribe("v").next()
        >>> db.insert("r", (6, 1))
        1
        >>> waiting.result(timeout=1).to_dicts()
        [{'a': 6, 'total': 1, '_weight': 1}]
        """
        weighted = [(row, -1) for row in self.deleted] + [(row, 1) for row in self.inserted]
        return [
            dict(zip(self._names, row, strict=True), _weight=weight) for row, weight in weighted
        ]

    def to_json(self) -> str:
        """The batch as one line of JSON; DECIMAL, DATE and TIMESTAMP are strings.

        >>> waiting = db.subscribe("v").next()
        >>> db.insert("r", (6, 1))
        1
        >>> print(waiting.result(timeout=1).to_json().partition('"snapshot":')[2])
        false,"missed":0,"deleted":[],"inserted":[{"a":6,"total":1}]}
        """
        return json_text(
            {
                "view": self.view,
                "version": self.version,
                "snapshot": self.snapshot,
                "missed": self.missed,
                "deleted": [json_row(self._names, row) for row in self.deleted],
                "inserted": [json_row(self._names, row) for row in self.inserted],
            }
        )

    @property
    def _names(self) -> list[str]:
        return [name for name, _ in self.columns]


Callback = Callable[[ViewBatch], object]


class Subscription:
    """One view's batches. Ends with `close()` or at the end of a `with` block.

    `callback` is called inside the batch, `listener` after it; both may be None. `first` is the
    snapshot that a subscription begins with, if it was asked for.
    """

    def __init__(
        self,
        view: str,
        callback: Callback | None,
        end: Callable[[Subscription], None],
        listener: Callback | None = None,
        first: ViewBatch | None = None,
    ) -> None:
        self.view = view
        self.callback = callback
        self._end = end
        self._listener = listener
        self._first = first
        self._waiting: list[Future[ViewBatch]] = []

    def next(self) -> Future[ViewBatch]:
        """The next batch that changes the view; canceled if the subscription ends before.

        >>> subscription = db.subscribe("v")
        >>> waiting = subscription.next()
        >>> db.insert("r", (6, 1))
        1
        >>> waiting.result(timeout=1).inserted
        [V(a=6, total=1)]

        In asyncio: `await asyncio.wrap_future(subscription.next())`.
        """
        future: Future[ViewBatch] = Future()
        first, self._first = self._first, None
        if first is not None:
            future.set_result(first)
        else:
            self._waiting.append(future)
        return future

    def settle(self, batch: ViewBatch) -> None:
        """The batch stands: tell those who wait for it."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if future.set_running_or_notify_cancel():
                future.set_result(batch)
        if self._listener is not None:
            self._listener(batch)

    def close(self) -> None:
        """No more batches; futures that wait are canceled."""
        self._end(self)
        for future in self._waiting:
            future.cancel()
        self._waiting = []

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
