"""What writers do for each other: whoever has the database applies what others have left.

leave     a write, for whoever has the database next
help      apply what is left, if the database is free: whoever has it will do so otherwise
settle    wait for the database first
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import Any

from viewlet.errors import StateError, ViewletError
from viewlet.interfaces.database_state import DatabaseState, closed
from viewlet.interfaces.dml import Change
from viewlet.interfaces.journal import DatabaseJournal
from viewlet.interfaces.left_writes import (
    LeftWrite,
    LeftWrites,
    WriteGroup,
    grouped,
    is_one_row,
    left_write,
    succeed,
)


class SharedWrites:
    """The writes that one thread applies for others."""

    def __init__(
        self,
        state: DatabaseState,
        apply: Callable[[Sequence[Change]], tuple[int, int]],
        wait_for_room: Callable[[], None],
    ) -> None:
        """`apply` makes one batch: how many rows, and what to wait for until it is durable."""
        self._state = state
        self._apply = apply
        self._wait_for_room = wait_for_room
        self._left = LeftWrites(self._help_out)
        self.writes = self._left.writes
        """What is left."""
        state.lock.freed = self._freed

    def leave_row(self, relation: str, row: Any, sign: int) -> LeftWrite:
        """The same as `leave` of one row, if it is one."""
        state = self._state
        known = type(relation) is str and relation in state.routes
        if known and is_one_row(row) and not state.is_closed:
            write = self._left.leave_row(relation, row, sign)
            if write is not None:
                if state.has_closed():
                    self._refuse()
                return write
        return self.leave([Change(relation, row, sign)])

    def leave(self, changes: Sequence[Change], *, helps: bool = False) -> LeftWrite:
        """All changes as one atomic batch, behind all that was left before.

        `helps`: the writer waits for it, and may as well apply it.
        """
        lock = self._state.lock
        if self._state.is_closed:
            raise closed()
        write = left_write(self._state.definitions.relation, changes)
        self._left.leave(write, may_wait=not helps and not lock.is_mine())
        if helps:
            self.help()
        else:
            self._left.wake()
        if self._state.has_closed():
            self._refuse()
        return write

    def settle(self) -> None:
        """Apply what was left before: what comes now is to stand behind it."""
        lock = self._state.lock
        if self.writes and not lock.is_mine():
            with lock:
                outcomes = self._drain()
            outcomes.tell()

    def help(self) -> None:
        """Apply what is left, unless somebody has the database, who will."""
        lock = self._state.lock
        if lock.is_mine() or not lock.acquire(False):
            return
        try:
            outcomes = self._drain()
        finally:
            lock.release()
        outcomes.tell()
        self._freed()

    def _freed(self) -> None:
        if self.writes:
            self._left.wake()

    def _help_out(self) -> None:
        try:
            self._wait_for_room()
            self.settle()
        except StateError:
            self._refuse()

    def _refuse(self) -> None:
        """What was left while the database was being closed."""
        for write in self._left.drain():
            write.set_exception(closed())

    def _drain(self) -> _Outcomes:
        outcomes = _Outcomes(self._state.journal)
        streams = {n for n, route in self._state.routes.items() if route.relation.is_stream}
        groups = deque(grouped(self._left.drain(), streams))
        try:
            while groups:
                self._apply_group(groups[0], streams, outcomes)
                groups.popleft()
        except BaseException:
            outcomes.interrupt(groups.popleft().writes)
            self._left.put_back([write for group in groups for write in group.writes])
            outcomes.tell()
            raise
        return outcomes

    def _apply_group(self, group: WriteGroup, streams: Container[str], outcomes: _Outcomes) -> None:
        """As one batch; if that cannot be, halves of it, until who is to blame is alone."""
        try:
            _, ticket = self._apply(group.changes)
        except Exception as error:
            writes = group.writes
            if len(writes) == 1:
                outcomes.errors.append((writes[0], error))
                return
            middle = len(writes) // 2
            for half in (writes[:middle], writes[middle:]):
                for part in grouped(half, streams):
                    self._apply_group(part, streams, outcomes)
        else:
            outcomes.applied += group.writes
            outcomes.ticket = max(outcomes.ticket, ticket)


class _Outcomes:
    """What became of writes that were left, to be said once the lock is free."""

    def __init__(self, journal: DatabaseJournal | None) -> None:
        self._journal = journal
        self.applied: list[LeftWrite] = []
        self.errors: list[tuple[LeftWrite, Exception]] = []
        self.ticket = 0

    def interrupt(self, writes: Sequence[LeftWrite]) -> None:
        """A signal came while these were applied."""
        known = {*map(id, self.applied), *(id(write) for write, _ in self.errors)}
        for write in writes:
            if id(write) not in known:
                error = StateError(
                    "whoever applied this write was interrupted, and it may stand or not",
                    hint="look whether its rows are there",
                )
                self.errors.append((write, error))

    def tell(self) -> None:
        """Those who wait, once it is as durable as the database promises."""
        try:
            if self._journal is not None:
                self._journal.wait(self.ticket)
        except ViewletError as problem:
            self.errors += [(write, problem) for write in self.applied]
            self.applied = []
        for write, error in self.errors:
            write.set_exception(error)
        succeed(self.applied)
