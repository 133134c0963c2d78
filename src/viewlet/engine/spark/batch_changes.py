"""What one batch did to views, for as long as somebody holds it.

State remembers what its last batch touched, no more. So the changes of a batch are read from there
while it is the last one; before another thread's batch takes its place they are kept on the
executors, if anybody still holds this object. A thread that goes on to its own next batch had the
time to read: for it nothing is kept, and asking is an error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from viewlet.errors import StateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class BatchChanges:
    """The changes of one batch. The caller serializes all calls with those of the engine."""

    def __init__(
        self,
        version: int | None,
        views: Collection[str],
        read: Callable[[str], DataFrame] | None,
        nothing: Callable[[str], DataFrame] | None = None,
        *,
        is_repeated: bool = False,
    ) -> None:
        """`views` are those that it can have changed; `nothing` makes the frame of others.

        `read` is None for a batch of the past.
        """
        self.version = version
        self.is_repeated = is_repeated
        self._views = views
        self._read = read
        self._nothing = nothing
        self._frames: dict[str, DataFrame] = {}
        self._thread = threading.get_ident()

    def of(self, view: str) -> DataFrame:
        """What the batch did to a view: its columns and `_weight`."""
        if view in self._frames:
            return self._frames[view]
        if self._nothing is not None and view not in self._views:
            return self._nothing(view)
        if self._read is None:
            raise StateError(
                f"the changes of version {self.version} are gone: later batches have come",
                hint="read changes() before the next batch of the same thread; of a batch that "
                "was repeated after a restart they are there until another is applied",
            )
        self._frames[view] = self._read(view)
        return self._frames[view]

    def end(self) -> None:
        """Another batch is about to take its place."""
        if self._read is not None and threading.get_ident() != self._thread:
            for view in self._views:
                self.of(view)
        self._read = None
