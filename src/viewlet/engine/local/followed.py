"""What was read of a view and is kept up to date from batch to batch, while somebody reads it.

    read at state s, batch, read at s + 1      from what was read and the batch, in O(batch)
    nobody has read for PATIENCE batches       forgotten; the next read looks at all records

One batch back can be undone, so that what was true before it is remembered too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from viewlet.program.ir import View

PATIENCE = 64
T = TypeVar("T")


@dataclass
class Followed(Generic[T]):
    """A value in one state of the engine, and in the state before."""

    view: View
    state: int
    value: T
    before: tuple[int, T] | None = None
    unread: int = 0

    def at(self, state: int) -> T | None:
        """The value in this state, if it is known."""
        if self.state == state:
            return self.value
        return self.before[1] if self.before is not None and self.before[0] == state else None

    def move(self, state: int, value: T) -> None:
        """It has become this; what it was counts for an undo."""
        self.before = self.state, self.value
        self.state, self.value = state, value
        self.unread += 1
