"""What a batch and the clock do to the rows that are valid now.

    batch of r at time t    the rows that count at t -> r@now...; those that are to -> r@now...@wait
    the clock goes to t     rows that begin to count leave the one for the other; rows that end go

Both are ordinary changes of tables that the database keeps for itself: they are part of the batch,
of its log record and of a checkpoint, and queues of moments are made again from the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from viewlet.engine.contract import Engine
from viewlet.engine.values.batching import Batch, batch_of, plain_values
from viewlet.engine.values.vectors import NotColumnar, Vector, evaluate_vector
from viewlet.frontend.intervals import DAY
from viewlet.frontend.temporal_filters import ValidRows
from viewlet.functions import ScalarExpr, evaluate
from viewlet.interfaces.database_clock import DatabaseClock
from viewlet.interfaces.definitions import CLOCK, Definitions
from viewlet.interfaces.moment_queue import MomentQueue, joined, taken, with_weights
from viewlet.storage.columns import Array

NamedBatch = tuple[str, Batch]

_FIRST, _LAST = -(1 << 62), 1 << 62
"""Before and after every moment."""


@dataclass
class _RowMoves:
    """What a batch does to one relation of valid rows, before it is done."""

    changes: list[NamedBatch]
    ends: list[tuple[Array, Batch]]
    begins: list[tuple[Array, Batch]]


class _ValidRelation:
    """One relation of valid rows, with the moments at which it changes by itself."""

    def __init__(self, valid: ValidRows) -> None:
        self.valid = valid
        self.ends = MomentQueue(valid.relation)
        self.begins = MomentQueue(valid.relation)

    def load(self, engine: Engine) -> None:
        """The moments of the rows that an engine has."""
        self.ends, self.begins = MomentQueue(self.valid.relation), MomentQueue(self.valid.relation)
        current = engine.table(self.valid.relation.name)
        self.ends.add(self._moments(current)[1], current)
        if self.valid.waiting is not None:
            waiting = engine.table(self.valid.waiting.name)
            self.begins.add(self._moments(waiting)[0], waiting)

    def step(self, arriving: Batch | None, now: int) -> _RowMoves:
        """The changes by rows that arrive and by the time that it is."""
        name, waiting = self.valid.relation.name, self.valid.waiting
        step = _RowMoves([], [], [])
        coming = [] if arriving is None else [arriving]
        begun = self.begins.due(now)
        if begun is not None and waiting is not None:
            step.changes.append((waiting.name, with_weights(begun, -begun.weights)))
            coming.append(begun)
        ended = self.ends.due(now)
        if ended is not None:
            step.changes.append((name, with_weights(ended, -ended.weights)))
        if not coming:
            return step
        rows = joined(coming)
        since, until = self._moments(rows)
        counts = (since <= now) & (now < until)
        if counts.any():
            current = rows if counts.all() else taken(rows, counts)
            step.changes.append((name, current))
            step.ends.append((until[counts], current))
        later = (now < since) & (since < until)
        if waiting is not None and later.any():
            later_rows = taken(rows, later)
            step.changes.append((waiting.name, later_rows))
            step.begins.append((since[later], later_rows))
        return step

    def took(self, step: _RowMoves, now: int) -> None:
        """The engine has applied a step."""
        self.ends.drop_due(now)
        self.begins.drop_due(now)
        for moments, batch in step.ends:
            self.ends.add(moments, batch)
        for moments, batch in step.begins:
            self.begins.add(moments, batch)

    def _moments(self, rows: Batch) -> tuple[Array, Array]:
        """When each row begins to count, and when it ends; what is unknown never counts."""
        since, until = np.full(len(rows), _FIRST), np.full(len(rows), _LAST)
        columns = zip(rows.columns, rows.nulls, self.valid.variables, strict=True)
        environment = {name: Vector(values, nulls) for values, nulls, name in columns}
        for bound in self.valid.bounds:
            moment = _vector(bound.scalar, environment, len(rows))
            values = moment.values.astype(np.int64) + bound.shift
            if bound.is_daily:
                values = (values // DAY + 1) * DAY
            unknown = moment.gaps()
            if bound.is_end:
                until = np.minimum(until, np.where(unknown, _FIRST, values))
            else:
                since = np.maximum(since, np.where(unknown, _LAST, values))
        return since, until

    def next_moment(self) -> int | None:
        """When it changes by itself."""
        moments = (self.ends.next_moment(), self.begins.next_moment())
        return min((m for m in moments if m is not None and m < _LAST), default=None)


def _vector(scalar: ScalarExpr, environment: dict[str, Vector], length: int) -> Vector:
    try:
        return evaluate_vector(scalar, environment, length)
    except NotColumnar:
        lists = {name: plain_values(v.values, v.nulls) for name, v in environment.items()}
        values = [
            evaluate(scalar, {name: column[i] for name, column in lists.items()})
            for i in range(length)
        ]
        gaps = np.fromiter((value is None for value in values), bool, length)
        plain = np.fromiter((0 if v is None else int(v) for v in values), np.int64, length)
        return Vector(plain, gaps)


@dataclass(frozen=True)
class TimedChanges:
    """What the rows that are valid do with a batch: `changes` are part of it."""

    changes: Sequence[NamedBatch]
    steps: Sequence[tuple[_ValidRelation, _RowMoves]]
    now: int
    is_set: bool


NOTHING_TIMED = TimedChanges((), (), 0, False)


class TimedRows:
    """All relations of valid rows in a database, and the time that they are at."""

    def __init__(self, engine: Engine, clock: DatabaseClock) -> None:
        self._engine = engine
        self._clock = clock
        self._relations: dict[str, _ValidRelation] = {}
        self._sources: frozenset[str] = frozenset()
        self.time: tuple[int, bool] | None = None
        """The clock as the tables have it; None before the first batch."""

    def define(self, definitions: Definitions) -> None:
        """Keep these from now on; those that were there stay as they are."""
        valid = definitions.valid_rows()
        self._relations = {
            name: self._relations.get(name) or _ValidRelation(rows) for name, rows in valid.items()
        }
        self._sources = frozenset(rows.source for rows in valid.values())
        if not valid:
            self.time = None

    def __bool__(self) -> bool:
        return bool(self._relations)

    def concern(self, relation: str) -> bool:
        """Whether rows of a relation may be valid for a time."""
        return relation in self._sources

    def load(self) -> None:
        """After a restart: time and moments as the engine's tables have them."""
        if not self._relations:
            return
        rows = self._engine.table(CLOCK.name)
        if len(rows):
            self.time = int(rows.columns[0][0]), bool(rows.columns[1][0])
        for relation in self._relations.values():
            relation.load(self._engine)

    def has_due(self) -> bool:
        """Whether the clock has passed a moment at which something changes."""
        if not self._relations:
            return False
        now, is_set = self._clock.reading()
        due = self.next_moment()
        return (due is not None and due <= now) or (is_set and self.time != (now, True))

    def changes(
        self, batches: Sequence[NamedBatch], only: frozenset[str] = frozenset()
    ) -> TimedChanges:
        """What becomes of the rows of a batch, and of those whose time has come.

        `only` names relations of valid rows that alone see the batch: those that are new.
        """
        if not self._relations:
            return NOTHING_TIMED
        now, is_set = self._clock.reading()
        changes: list[NamedBatch] = []
        steps = []
        for name, relation in self._relations.items():
            own = [batch for source, batch in batches if source == relation.valid.source]
            if only and name not in only:
                own = []
            step = relation.step(joined(own) if own else None, now)
            if step.changes:
                changes += step.changes
                steps.append((relation, step))
        if self.time != (now, is_set) and (steps or self._is_other(is_set)):
            rows = [((now, is_set), 1)]
            if self.time is not None:
                rows.append((self.time, -1))
            changes.append((CLOCK.name, batch_of(CLOCK, rows)))
        return TimedChanges(changes, steps, now, is_set)

    def _is_other(self, is_set: bool) -> bool:
        """A clock that was set is where it was set to, whether anything is due or not."""
        return is_set or self.time is None or self.time[1]

    def took(self, timed: TimedChanges) -> None:
        """The engine has applied the batch with these changes."""
        for relation, step in timed.steps:
            relation.took(step, timed.now)
        if any(name == CLOCK.name for name, _ in timed.changes):
            self.time = timed.now, timed.is_set

    def next_moment(self) -> int | None:
        """When something changes by itself."""
        moments = (relation.next_moment() for relation in self._relations.values())
        return min((m for m in moments if m is not None), default=None)


def unfilled(definitions: Definitions, engine: Engine) -> frozenset[str]:
    """Relations of valid rows without a row, which a crash may have kept from being filled."""
    return frozenset(
        valid.relation.name
        for valid in definitions.valid_rows().values()
        if not len(engine.table(valid.relation.name))
        and (valid.waiting is None or not len(engine.table(valid.waiting.name)))
    )
