"""Changes of rows: one row, an atomic batch, or Spark's DataFrames -> the engine and subscribers.

    rows -> route (which relation, which views) -> engine -> callbacks -> statistics -> listeners

A callback that raises takes the batch back; whatever raises before has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from viewlet.engine.contract import PlainRows
from viewlet.engine.values.batching import Batch, make_batch
from viewlet.engine.values.intake import EVERYTHING
from viewlet.errors import DataError, StateError, ViewletError
from viewlet.interfaces.auto_choice import AutoChoice
from viewlet.interfaces.checkpoints import Checkpoints
from viewlet.interfaces.database_state import DatabaseState
from viewlet.interfaces.delivery import Subscribers
from viewlet.interfaces.dml import Change
from viewlet.interfaces.journal import CHANGES
from viewlet.interfaces.keyed_rows import batch_rows, last_of_each, rows_by_key
from viewlet.interfaces.left_writes import EncodedRows
from viewlet.interfaces.progress import waiting
from viewlet.interfaces.routes import RelationRoute
from viewlet.interfaces.shared_writes import SharedWrites
from viewlet.interfaces.spark_frames import (
    FrameBatch,
    frame_change,
    frames_engine,
    refuse_frame,
)
from viewlet.interfaces.stats import Moment, Timings, now, since
from viewlet.interfaces.transaction import OpenTransaction
from viewlet.interfaces.view_maintenance import ViewMaintenance
from viewlet.schema import shown_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from viewlet.engine.spark.frame_columns import RowWeights
    from viewlet.interfaces.spark_frames import FrameChange

RoutedBatch = tuple[RelationRoute, Batch]

_MANY_ROWS = 50_000
"""From here on somebody may have to wait for a batch."""


class Writes:
    """How the rows of a database change."""

    def __init__(
        self,
        state: DatabaseState,
        checkpoints: Checkpoints,
        subscribers: Subscribers,
        maintenance: ViewMaintenance,
    ) -> None:
        self._state = state
        self._checkpoints = checkpoints
        self._subscribers = subscribers
        self._maintenance = maintenance
        self._auto = AutoChoice(state, maintenance)
        self.shared = SharedWrites(state, self._apply_now, subscribers.wait_for_room)
        self._waiting = self.shared.writes
        engine = state.engine
        self._apply_plain_row = engine.apply_plain_row if isinstance(engine, PlainRows) else None

    def wait_for_room(self) -> None:
        """Until every bounded queue whose writers wait has room for a batch."""
        self._subscribers.wait_for_room()

    def apply_row(self, relation: str, row: tuple[Any, ...], weight: int) -> bool:
        """One row by the short way; False if it has to go by `apply`, which says why."""
        state = self._state
        if type(relation) is not str or self._waiting:
            return False
        self._subscribers.wait_for_room()
        lock = state.lock
        if not lock.acquire(False):
            return False
        try:
            ticket = self._row_now(relation, row, weight)
        finally:
            lock.release()
            if self._waiting:
                self.shared.help()
        if ticket and state.journal is not None:
            state.journal.wait(ticket)
        return ticket is not None

    def _row_now(self, relation: str, row: tuple[Any, ...], weight: int) -> int | None:
        """What to wait for, None if the row has to go another way; the caller has the lock."""
        state = self._state
        began = now()
        route = state.routes.get(relation)
        if (
            route is None
            or route.only is None
            or route.is_closed
            or state.transactions
            or state.constraints.concern(relation)
            or state.timed.concern(relation)
            or state.is_delivering
            or self._checkpoints.is_due
            or len(row) != route.width
        ):
            return None
        journal = state.journal
        plain = self._apply_plain_row if journal is None else None
        if plain is not None and plain(route.only, row, weight):
            if route.later:
                route.collect_row(row, weight, state.version + 1)
            return self._applied((route,), began, 1, b"")
        if isinstance(row[0], tuple | list | Mapping):
            return None
        encoded = route.encode(row)
        record = journal.prepare_row(relation, encoded, weight) if journal is not None else b""
        state.engine.apply_row(route.only, encoded, weight)
        if route.later:
            route.collect_row(row, weight, state.version + 1)
        return self._applied((route,), began, 1, record)

    def inserter(self, relation: str) -> Callable[..., None]:
        """A function of a row's values that inserts the row."""
        self._state.definitions.relation(relation)
        apply_row, apply = self.apply_row, self.apply

        def put(*row: Any) -> None:
            if not apply_row(relation, row, 1):
                apply([Change(relation, row, 1)])

        return put

    def later_inserter(self, relation: str) -> Callable[..., Future[int]]:
        """A function of a row's values that leaves the row for whoever applies it."""
        self._state.definitions.relation(relation)

        state, leave_row = self._state, self.shared.leave_row

        def put(*row: Any) -> Future[int]:
            if state.transactions:
                state.refuse_in_transaction("a write that nobody waits for")
            return leave_row(relation, row, 1)

        return put

    def apply(self, changes: Iterable[Change]) -> int:
        """All changes as one atomic batch, with a bar where somebody waits; how many rows."""
        change_list = _listed(changes)
        self._subscribers.wait_for_room()
        bar = waiting("applying the batch") if _is_large(change_list) else nullcontext()
        with bar:
            return self._apply_soon(change_list)

    def _apply_soon(self, changes: Sequence[Change]) -> int:
        """At once, or with what others do where the database is busy."""
        if self._state.transaction is not None:
            return self.apply_batch(changes)
        lock = self._state.lock
        is_nested = lock.is_mine()
        if not is_nested and (self._waiting or not lock.acquire(False)):
            return self.shared.leave(_all_checked(changes), helps=True).result()
        if is_nested:
            lock.acquire()
        try:
            count, ticket = self._apply_now(changes)
        finally:
            lock.release()
            if self._waiting:
                self.shared.help()
        if ticket and self._state.journal is not None:
            self._state.journal.wait(ticket)
        return count

    def leave_rows(self, relation: str, rows: Any, sign: int) -> Future[int]:
        """Rows of one relation as one atomic batch, by somebody else; a future of how many."""
        self._state.refuse_in_transaction("a write that nobody waits for")
        return self.shared.leave_row(relation, rows, sign)

    def leave(self, changes: Iterable[Change]) -> Future[int]:
        """All changes as one atomic batch, by somebody else; a future of how many rows."""
        self._state.refuse_in_transaction("a write that nobody waits for")
        return self.shared.leave(_all_checked(_listed(changes)))

    def apply_batch(self, changes: Iterable[Change], *, deletes_cascade: bool = True) -> int:
        """All changes as one atomic batch, at once; the number of its rows."""
        state = self._state
        with state.lock:
            if (transaction := state.transaction) is not None:
                self._prepare()
                return self._collect(transaction, changes, deletes_cascade=deletes_cascade)
            count, ticket = self._apply_now(changes, deletes_cascade=deletes_cascade)
        if state.journal is not None:
            state.journal.wait(ticket)
        return count

    def _apply_now(
        self, changes: Iterable[Change], *, deletes_cascade: bool = True
    ) -> tuple[int, int]:
        """How many rows, and what to wait for; the caller has the lock.

        Whose changes these are is not asked: a thread applies what others have left as well.
        """
        began = now()
        self._prepare()
        routed = [(self._route(_checked(change).relation), change) for change in changes]
        own = [(route, self._batch(route, change)) for route, change in routed]
        ticket = self._apply_whole(own, began, deletes_cascade=deletes_cascade)
        return sum(len(batch) for _, batch in own), ticket

    def _collect(
        self, transaction: OpenTransaction, changes: Iterable[Change], *, deletes_cascade: bool
    ) -> int:
        """Changes that wait for COMMIT."""
        with transaction.statement():
            batches = []
            for change in changes:
                relation = self._route(_checked(change).relation).relation
                batches.append((relation.name, make_batch(relation, change.rows, change.weights)))
        for name, batch in batches:
            transaction.add(name, batch)
        transaction.deletes_cascade &= deletes_cascade
        return sum(len(batch) for _, batch in batches)

    def commit(self, transaction: OpenTransaction) -> None:
        """All changes of a transaction as one atomic batch."""
        journal = self._state.journal
        self._subscribers.wait_for_room()
        with self._state.lock:
            began = now()
            self._prepare()
            own = [(self._route(name), batch) for name, batch in transaction.batches]
            ticket = self._apply_whole(own, began, deletes_cascade=transaction.deletes_cascade)
        if journal is not None:
            journal.wait(ticket)

    def _apply_whole(
        self, own: Sequence[RoutedBatch], began: Moment, *, deletes_cascade: bool = True
    ) -> int:
        """A batch with what foreign keys and the clock make follow; what to wait for.

        An error where it breaks a constraint.
        """
        state = self._state
        named = [(route.relation.name, batch) for route, batch in own]
        named += state.constraints.complete(named, deletes_cascade=deletes_cascade)
        timed = state.timed.changes(named)
        named += timed.changes
        record = state.journal.prepare(named) if state.journal is not None else b""
        batches = [(self._any_route(name), batch) for name, batch in named]
        ticket = self._apply_batches(batches, began, record)
        state.timed.took(timed)
        return ticket

    def tick(self) -> None:
        """What the clock makes of the rows that are there, as a batch; the caller has the lock."""
        self._prepare()
        ticket = self._apply_whole((), now())
        if self._state.journal is not None:
            self._state.journal.wait(ticket)

    def upsert(self, name: str, rows: Any) -> int:
        """Rows in place of those with their primary keys, as one atomic batch; how many rows.

        Of rows with one key the last counts.
        """
        self.shared.settle()
        journal = self._state.journal
        with self._state.lock:
            began = now()
            self._prepare()
            route = self._route(name)
            relation = route.relation
            if relation.is_stream or not relation.key:
                what = "is a stream" if relation.is_stream else "has no primary key"
                raise DataError(
                    f"{relation.name} {what}: upsert finds rows by their primary keys",
                    hint="declare PRIMARY KEY (...) in CREATE TABLE, or use insert and delete",
                )
            new = make_batch(relation, rows)
            new = batch_rows(new, last_of_each(relation, new))
            transaction = self._state.transaction
            if transaction is not None:
                _, old = transaction.by_key(self._state.engine, relation, new)
                old.weights = -old.weights
                transaction.add(relation.name, old)
                transaction.add(relation.name, new)
                transaction.deletes_cascade = False
                return len(new)
            _, old = rows_by_key(self._state.engine, relation, new)
            old.weights = -old.weights
            ticket = self._apply_whole([(route, old), (route, new)], began, deletes_cascade=False)
        if journal is not None:
            journal.wait(ticket)
        return len(new)

    def _batch(self, route: RelationRoute, change: Change) -> Batch:
        """A change as the engine wants it; a log wants all of it, and the strings themselves."""
        state = self._state
        if isinstance(change.rows, EncodedRows):
            if change.rows.relation != route.relation:
                raise StateError(
                    f"{route.relation.name} was made anew while rows for it waited",
                    hint="insert them again",
                )
            return change.rows.batch
        logged = state.journal is not None
        name = route.relation.name
        is_checked = state.constraints.concern(name) or state.timed.concern(name)
        intake = EVERYTHING if logged or is_checked else state.engine.intake(route.instances)
        if route.pending:  # what is kept is kept whole, in memory of its own
            intake = replace(intake, columns=None, buffers=None)
        return make_batch(route.relation, change.rows, change.weights, intake)

    def replay(self, changes: Sequence[tuple[str, Batch]]) -> None:
        """A batch from the log, as it was applied before."""
        with self._state.lock:
            routed = [(self._any_route(name), batch) for name, batch in changes]
            self._apply_batches(routed, now(), b"")

    def _apply_batches(
        self, batches: Sequence[tuple[RelationRoute, Batch]], began: Moment, record: bytes
    ) -> int:
        fed = [(instance, batch) for route, batch in batches for instance in route.instances]
        self._state.engine.apply(fed)
        named = [(route.relation.name, batch) for route, batch in batches]
        self._state.constraints.applied(named, self._state.version + 1)
        for route, batch in batches:
            if route.later:
                route.collect(batch, self._state.version + 1)
        routes = list(dict.fromkeys(route for route, _ in batches))
        count = sum(len(batch) for _, batch in batches)
        return self._applied(routes, began, count, record)

    def apply_frames(
        self, changes: Iterable[FrameChange], batch_id: Any, weights: RowWeights | None = None
    ) -> FrameBatch:
        """The rows of DataFrames as one atomic batch; one with a known `batch_id` is done."""
        from viewlet.engine.spark.frame_columns import check_frame

        state = self._state
        state.refuse_in_transaction("a DataFrame")
        self._subscribers.wait_for_room()
        self.shared.settle()
        with state.lock:
            began = now()
            self._prepare()
            engine = frames_engine(state.engine, state.engine_name)
            if (repeated := engine.repeated(batch_id)) is not None:
                return FrameBatch(state, repeated)
            routes = []
            fed: list[tuple[str, DataFrame, RowWeights]] = []
            for change in changes:
                name, frame, own = frame_change(change)
                route = self._route(name)
                refuse_frame(state, route.relation.name)
                check_frame(frame, route.relation, weights or own)
                routes.append(route)
                fed += [(instance, frame, weights or own) for instance in route.instances]
            rows_before = engine.rows_read()
            applied = engine.apply_frames(fed, batch_id=batch_id)
            rows = engine.rows_read() - rows_before
            self._applied(list(dict.fromkeys(routes)), began, rows, b"")
            return FrameBatch(state, applied, rows)

    def sink(
        self, relation: str, weight: int | str, op: str | None
    ) -> Callable[[DataFrame, int], FrameBatch]:
        """For foreachBatch; a micro-batch is known by its query, relation, weights and number."""
        from viewlet.engine.partitions.batch_ids import BatchId
        from viewlet.engine.spark.frame_columns import row_weights

        state = self._state
        name = state.definitions.relation(relation).name
        engine = frames_engine(state.engine, state.engine_name)
        weights = row_weights(weight, op)

        def apply(frame: DataFrame, batch: int) -> FrameBatch:
            context = engine.spark.sparkContext
            query = context.getLocalProperty("sql.streaming.queryId") or "foreachBatch"
            known = BatchId((query, name, str(weights)), batch)
            return self.apply_frames([(name, frame)], known, weights)

        return apply

    def _prepare(self) -> None:
        self._state.refuse_while_delivering()
        self._checkpoints.write_if_due()

    def _any_route(self, name: str) -> RelationRoute:
        """The same of tables that the database keeps for itself as well."""
        if name in self._state.definitions.relations:
            return self._route(name)
        return self._state.routes[name]

    def _route(self, name: str) -> RelationRoute:
        """Where a relation's rows go, if they may go anywhere."""
        relation = self._state.definitions.relation(name)
        route = self._state.routes[relation.name]
        if route.is_complete:
            raise StateError(
                f"{name} is complete, and takes no more changes",
                hint=f"rows that come after all need a table of their own: {name} was declared "
                "to be complete",
            )
        if route.static_users:
            users = ", ".join(route.static_users)
            raise DataError(
                f"table {name} is static, and views use it: {users}",
                hint=f"drop {users}, change {name}, and create them again; or declare {name} "
                "without static",
            )
        return route

    def _applied(
        self, routes: Sequence[RelationRoute], began: Moment, count: int, record: bytes
    ) -> int:
        """After the engine: callbacks, whose errors take the batch back, then log and statistics.

        What to wait for until the batch is durable; 0 in a database that is not.
        """
        state = self._state
        state.version += 1
        delivered = self._subscribers.call(routes) if self._subscribers.subscriptions else ()
        ticket = 0
        if state.journal is not None:
            ticket = state.journal.record(CHANGES, record)
            if delivered:
                state.journal.wait(ticket)  # listeners hear of what stands
        for route in routes:
            route.batches += 1
            if not route.has_rows:
                route.has_rows = True
                if route.relation.is_stream:
                    state.definitions.saw_rows((route.relation.name,))
        for subscription, batch in delivered:
            subscription.settle(batch)
        timings = routes[0].timings if len(routes) == 1 else _all_timings(routes)
        seconds, code_seconds = since(began)
        for timing in timings:
            timing.add(seconds, count, code_seconds)
        if state.history is not None:
            names = [route.relation.name for route in routes]
            state.history.add(state.version, names, count, seconds)
        for route in routes:
            if route.pending:
                self._maintenance.refresh_by_rows(route.later)
        self._auto.count_batch()
        return ticket


def _listed(changes: Iterable[Change]) -> list[Change]:
    try:
        return list(changes)
    except (ViewletError, MemoryError):
        raise
    except Exception as error:
        raise DataError(
            f"{shown_value(changes)} are not changes: {shown_value(error)}",
            hint='give a list of viewlet.Change("r", rows)',
        ) from error


def _checked(change: Change) -> Change:
    if not isinstance(change, Change):
        raise DataError(
            f"{shown_value(change)} is not a change", hint='give viewlet.Change("r", rows)'
        )
    return change


def _all_checked(changes: Iterable[Change]) -> list[Change]:
    return [_checked(change) for change in changes]


def _is_large(changes: Sequence[Change]) -> bool:
    """Whether there are so many rows that somebody may have to wait for them."""
    return any(
        _row_count(change.rows) > _MANY_ROWS for change in changes if isinstance(change, Change)
    )


def _row_count(rows: Any) -> int:
    """What rows say of their number; 0 where they do not."""
    try:
        return len(rows) if isinstance(rows, Sized) else 0
    except Exception:  # `make_batch` says what is wrong with them
        return 0


def _all_timings(routes: Sequence[RelationRoute]) -> list[Timings]:
    """Each view's once, though several of its relations changed."""
    return list({id(timing): timing for route in routes for timing in route.timings}.values())
