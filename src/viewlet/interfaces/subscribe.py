"""Subscriptions: what a batch did to a view, handed to whoever waits for it (paper 003, 2.1).

    callback      runs inside the batch; if it raises, the batch is undone
    future        `subscription.next()`: the next batch that changed the view, once it stands
    EventLoop     many views' batches in one queue, handled in the thread that runs the loop
    watch         the same as an asynchronous iterator, for asyncio

Callbacks can refuse a batch; the others hear of it afterwards, and only of batches that stand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class ViewBatch:
    """What one atomic batch did to one view; a changed row is deleted and inserted.

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

    def inverse(self) -> ViewBatch:
        """What takes the batch back: deleted rows inserted, inserted ones deleted."""
        return ViewBatch(self.view, self.version, self.deleted, self.inserted)


Callback = Callable[[ViewBatch], object]


class Subscription:
    """One view's batches. Ends with `close()` or at the end of a `with` block.

    `callback` is called inside the batch, `listener` after it; both may be None.
    """

    def __init__(
        self,
        view: str,
        callback: Callback | None,
        end: Callable[[Subscription], None],
        listener: Callback | None = None,
    ) -> None:
        self.view = view
        self.callback = callback
        self._end = end
        self._listener = listener
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
