"""Writes that were left for whoever has the database next (paper 004, Algorithm 1).

    writer, database busy   leave -> a future of the number of rows
    holder, when it is done drain -> all that was left, as few batches as can be
    nobody else             a thread that lives while there is something to do

A write is a batch of its own: atomic, in the order in which its writer left it. Writes are put
together where the result is that of one after the other: rows of a table that only come, or only
go. Where the sum fails, its halves are tried, down to the write that is to blame.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import NoneType
from typing import Any

from viewlet.engine.values.batching import Batch, make_batch
from viewlet.interfaces.dml import Change
from viewlet.schema import Relation

MOST_ROWS = 1 << 13
"""Rows that may be left: beyond them, whoever would not wait has to."""

_IDLE_SECONDS = 1.0
_PLAIN = frozenset({int, str, float, bool, bytes, NoneType})
_PENDING, _RUNNING, _FINISHED = "PENDING", "RUNNING", "FINISHED"
_CONDITIONS = threading.Lock()


@dataclass(frozen=True)
class EncodedRows:
    """Rows that were encoded when they were left: their writer may change what it gave."""

    relation: Relation
    batch: Batch

    def __len__(self) -> int:
        return len(self.batch)


class LeftWrite(Future[int]):
    """A write that somebody else applies; its result is the number of its rows.

    A future makes a lock when it is made. This one makes it when somebody asks, which costs a
    single row a tenth: nothing of Future looks at its state but under `_condition`.
    """

    _state = _PENDING
    _result: int | None = None
    _exception: BaseException | None = None
    _own: threading.Condition | None = None
    changes: Sequence[Change] = ()

    def __init__(self, relation: str, row: Any, sign: int) -> None:
        """One row of a relation; or, where it is None, what `changes` is set to."""
        self.relation = relation
        self.row = row
        self.sign = sign

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]
        if self._own is None:
            with _CONDITIONS:
                if self._own is None:
                    self._waiters: list[Any] = []
                    self._done_callbacks: list[Callable[[Future[int]], Any]] = []
                    self._own = threading.Condition()
        return self._own

    def count(self) -> int:
        """How many rows it has."""
        if self.row is not None:
            return 1
        return sum(len(change.rows) for change in self.changes)


def begin(writes: Iterable[LeftWrite]) -> list[LeftWrite]:
    """Those that were not cancelled, and cannot be any more."""
    begun, asked = [], []
    with _CONDITIONS:
        for write in writes:
            if write._own is None:
                write._state = _RUNNING
            else:
                asked.append(write)
            begun.append(write)
    cancelled = [w for w in asked if w._state != _RUNNING and not w.set_running_or_notify_cancel()]
    return [write for write in begun if write not in cancelled] if cancelled else begun


def succeed(writes: Iterable[LeftWrite]) -> None:
    """They stand, and are as durable as the database promises."""
    asked = []
    with _CONDITIONS:
        for write in writes:
            if write._own is None:
                write._result = 1 if write.row is not None else write.count()
                write._state = _FINISHED
            else:
                asked.append(write)
    for write in asked:
        write.set_result(write.count())


def is_one_row(row: Any) -> bool:
    """Whether `insert` takes this for one row, whatever the relation."""
    if type(row) is not tuple or not row:
        return False
    return type(row[0]) in _PLAIN or not isinstance(row[0], tuple | list | Mapping)


def left_write(relation_of: Callable[[str], Relation], changes: Sequence[Change]) -> LeftWrite:
    """A write with nothing in it that its writer could still change.

    >>> left_write(catalog.relation, [Change("r", (1, 2))])
    """
    if len(changes) == 1:
        change = changes[0]
        weight = change.weights
        if type(weight) is int and weight in (1, -1) and is_one_row(change.rows):
            return LeftWrite(relation_of(change.relation).name, change.rows, weight)
    write = LeftWrite("", None, 0)
    write.changes = [_lasting(relation_of(change.relation), change) for change in changes]
    return write


def _lasting(relation: Relation, change: Change) -> Change:
    if type(change.rows).__module__.startswith("pyarrow") and change.weights in (1, -1):
        return Change(relation.name, change.rows, change.weights)
    return Change(
        relation.name, EncodedRows(relation, make_batch(relation, change.rows, change.weights))
    )


@dataclass
class WriteGroup:
    """Writes that may be one batch, with all that they change."""

    writes: list[LeftWrite]
    changes: list[Change]


def grouped(writes: Sequence[LeftWrite], streams: Container[str]) -> Iterator[WriteGroup]:
    """Writes in order, as few batches as can be.

    A row of a table that goes must be there, and a key that comes must not: what one write takes
    and another gives back would be neither looked for nor refused in one batch.
    """
    made = _Grouping()
    for write in writes:
        if write.row is not None:
            name, sign = write.relation, write.sign
            rows = made.rows.get((name, sign))
            if rows is None:
                if name not in streams and made.signs.get(name, sign) != sign:
                    yield made.group()
                    made = _Grouping()
                made.signs[name] = sign
                rows = made.rows[name, sign] = []
            rows.append(write.row)
            made.writes.append(write)
            continue
        signs = _signs(write, streams)
        if any(sign == 0 or made.signs.get(name, sign) != sign for name, sign in signs.items()):
            if made.writes:
                yield made.group()
            made = _Grouping()
        made.signs.update(signs)
        made.writes.append(write)
        made.changes += write.changes
    if made.writes:
        yield made.group()


class _Grouping:
    def __init__(self) -> None:
        self.writes: list[LeftWrite] = []
        self.rows: dict[tuple[str, int], list[tuple[Any, ...]]] = {}
        self.changes: list[Change] = []
        self.signs: dict[str, int] = {}
        """Of a table: 1 if its rows come, -1 if they go, 0 for both."""

    def group(self) -> WriteGroup:
        single = [Change(name, rows, sign) for (name, sign), rows in self.rows.items()]
        return WriteGroup(self.writes, single + self.changes)


def _signs(write: LeftWrite, streams: Container[str]) -> dict[str, int]:
    signs: dict[str, int] = {}
    for change in write.changes:
        if change.relation in streams:
            continue
        sign = _sign(change)
        if signs.get(change.relation, sign) != sign:
            sign = 0
        signs[change.relation] = sign
    return signs


def _sign(change: Change) -> int:
    if not isinstance(change.rows, EncodedRows):
        assert isinstance(change.weights, int)
        return change.weights
    weights = change.rows.batch.weights
    if (weights >= 0).all():
        return 1
    return -1 if (weights <= 0).all() else 0


class LeftWrites:
    """What was left and nobody has applied yet."""

    def __init__(self, help_out: Callable[[], None]) -> None:
        """`help_out` waits for the database and applies what is left, in a thread of its own."""
        self.writes: deque[LeftWrite] = deque()
        self._help_out = help_out
        self._room = threading.Condition()
        self._batch_rows = 0
        self._mutex = threading.Lock()
        self._is_awake = False
        self._asked = threading.Event()
        self._thread: threading.Thread | None = None

    def leave_row(self, relation: str, row: tuple[Any, ...], sign: int) -> LeftWrite | None:
        """One row behind all others; None where there is no room."""
        writes = self.writes
        if len(writes) + self._batch_rows > MOST_ROWS:
            return None
        write = LeftWrite(relation, row, sign)
        writes.append(write)
        if not self._is_awake:
            self.wake()
        return write

    def leave(self, write: LeftWrite, *, may_wait: bool) -> None:
        """Put it behind all others; where too much is left already, wait for room if one may."""
        if may_wait and len(self.writes) + self._batch_rows > MOST_ROWS:
            self._wait_for_room()
        if write.row is None:
            self._count([write], 1)
        self.writes.append(write)

    def _wait_for_room(self) -> None:
        self.wake()
        with self._room:
            while len(self.writes) + self._batch_rows > MOST_ROWS:
                self._room.wait(0.1)

    def drain(self) -> list[LeftWrite]:
        """All of them, in the order in which they were left, but for those that were cancelled."""
        left = []
        while self.writes:
            left.append(self.writes.popleft())
        self._count(left, -1)
        if left:
            with self._room:
                self._room.notify_all()
        return begin(left)

    def _count(self, writes: Sequence[LeftWrite], sign: int) -> None:
        rows = sum(write.count() for write in writes if write.row is None)
        if rows:
            with self._mutex:
                self._batch_rows += sign * rows

    def put_back(self, writes: Sequence[LeftWrite]) -> None:
        """Nobody has begun with these after all."""
        self._count(writes, 1)
        self.writes.extendleft(reversed(writes))

    def wake(self) -> None:
        """See to it that somebody applies what is left."""
        if self._is_awake:
            return
        with self._mutex:
            self._is_awake = True
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="viewlet-writer", daemon=True
                )
                self._thread.start()
            self._asked.set()

    def _run(self) -> None:
        while True:
            self._asked.wait(_IDLE_SECONDS)
            with self._mutex:
                if not self._asked.is_set():
                    self._thread = None
                    return
                self._asked.clear()
            self._is_awake = False
            self._help_out()
