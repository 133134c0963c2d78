"""Subscriptions: what a batch did to a view, handed to the user's function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class ViewBatch:
    """What one atomic batch did to one view; a changed row is deleted and inserted."""

    view: str
    version: int
    inserted: Sequence[Any]
    deleted: Sequence[Any]

    def inverse(self) -> ViewBatch:
        return ViewBatch(self.view, self.version, self.deleted, self.inserted)


Callback = Callable[[ViewBatch], object]


class Subscription:
    """Ends with `close()` or at the end of a `with` block."""

    def __init__(self, view: str, callback: Callback, end: Callable[[Subscription], None]) -> None:
        self.view = view
        self.callback = callback
        self._end = end

    def close(self) -> None:
        self._end(self)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def deliver(batches: Sequence[tuple[Subscription, ViewBatch]]) -> None:
    """Call every subscriber; if one fails, those before it get the inverse batch, then it raises.

    So a subscriber that mirrors the view stays equal to it when the batch is undone.
    """
    for index, (subscription, batch) in enumerate(batches):
        try:
            subscription.callback(batch)
        except BaseException as error:
            for earlier, seen in reversed(batches[:index]):
                try:
                    earlier.callback(seen.inverse())
                except Exception as second:
                    error.add_note(f"a subscriber of {seen.view} could not take it back: {second}")
            raise
