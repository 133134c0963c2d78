"""Who is called when a batch has changed views, and what happens when a callback refuses it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from viewlet.calculus.query import Query, check_copies
from viewlet.engine.contract import Row
from viewlet.engine.values.changed_rows import ChangedRows, ChangeReader
from viewlet.errors import StateError, ViewletError
from viewlet.interfaces.batch_queue import BatchQueue
from viewlet.interfaces.database_state import DatabaseState
from viewlet.interfaces.routes import RelationRoute
from viewlet.interfaces.subscribe import Callback, Subscription, ViewBatch
from viewlet.interfaces.view_rows import RowSequence
from viewlet.schema import Type, shown_value

logger = logging.getLogger("viewlet")

Delivery = tuple[Subscription, ViewBatch]


class Subscribers:
    """The subscriptions of a database."""

    def __init__(self, state: DatabaseState) -> None:
        self._state = state
        self.subscriptions: list[Subscription] = []
        self._queues: list[BatchQueue] = []
        self.changed: Callable[[], None] = lambda: None
        """Called when a view is heard of for the first time, or no longer."""
        self.before_read: Callable[[str], None] = lambda view: None
        """Brings a view up to date that is not kept so by every batch."""

    def count(self, view: str) -> int:
        """How many hear of a view's batches."""
        return sum(subscription.view == view for subscription in self.subscriptions)

    def add(
        self,
        view: str,
        callback: Callback | None,
        listener: Callback | None = None,
        *,
        snapshot: bool = False,
    ) -> Subscription:
        """`callback` can refuse a batch; `listener` hears of those that stand, and cannot raise.

        With `snapshot` each is given the view as it is first, before anything can change it.
        """
        with self._state.lock:
            self._state.definitions.view(view)
            first = self._snapshot(view) if snapshot else None
            if first is not None and callback is not None:
                self._call_first(callback, first)
            if first is not None and listener is not None:
                listener(first)
            has_caller = callback is not None or listener is not None
            subscription = Subscription(
                view, callback, self._remove, listener, None if has_caller else first
            )
            self.subscriptions.append(subscription)
            try:
                self.changed()
            except BaseException:
                self.subscriptions.remove(subscription)
                raise
            return subscription

    def listen(
        self, views: Sequence[str], listener: Callback, snapshot: bool
    ) -> list[Subscription]:
        """The batches of some views that stand, for event loops; snapshots are of one version."""
        with self._state.lock:
            for view in views:
                self._state.definitions.view(view)
            return [self.add(view, None, listener, snapshot=snapshot) for view in views]

    def hold_writers(self, queue: BatchQueue) -> None:
        """Writers wait for room in this queue until it is closed."""
        with self._state.lock:
            self._queues = [*(q for q in self._queues if not q.is_closed), queue]

    def wait_for_room(self) -> None:
        """Before a change, outside of the lock: a reader may need it to get on."""
        for queue in self._queues:
            queue.wait_for_room()

    def _snapshot(self, view: str) -> ViewBatch:
        """The view as it is; the caller holds the lock."""
        state = self._state
        if state.is_delivering:
            raise StateError(
                "a subscriber cannot begin with a snapshot inside of a batch, which may be undone",
                hint="subscribe after the batch",
            )
        self.before_read(view)
        query = state.definitions.view(view).query
        batch = state.engine.columns(view)
        rows = RowSequence(query, lambda: batch)
        return ViewBatch(view, state.version, rows, [], snapshot=True, columns=_columns(query))

    def _call_first(self, callback: Callback, first: ViewBatch) -> None:
        state = self._state
        state.is_delivering = True
        try:
            callback(first)
        except Exception as error:
            raise ViewletError(
                f"a subscriber failed on its snapshot, and is none: {shown_value(error)}",
                hint="make the callback handle its own errors",
            ) from error
        finally:
            state.is_delivering = False

    def end(self, view: str) -> None:
        """The view is dropped."""
        for subscription in [s for s in self.subscriptions if s.view == view]:
            subscription.close()

    def clear(self) -> None:
        """The database closes."""
        self.subscriptions = []

    def _remove(self, subscription: Subscription) -> None:
        if self._state.is_closed:
            return
        with self._state.lock:
            self.subscriptions = [s for s in self.subscriptions if s is not subscription]
            if not self._state.is_delivering:
                try:
                    self.changed()
                except ViewletError as error:  # then it stays eager, which nobody minds
                    logger.warning("view %s stays eager: %s", subscription.view, error)

    def call(self, routes: Sequence[RelationRoute]) -> list[Delivery]:
        """Call back for the batch that the engine has just applied; it is undone if one raises."""
        state = self._state
        deliveries: list[Delivery] | None = None
        try:
            deliveries = self._deliveries(routes)
            state.is_delivering = True
            try:
                deliver(deliveries)
            finally:
                state.is_delivering = False
        except BaseException as error:
            state.undo()
            is_ours = deliveries is None and isinstance(error, ViewletError)
            if isinstance(error, Exception) and not is_ours:
                raise ViewletError(
                    f"a subscriber failed, and the batch was undone: {shown_value(error)}",
                    hint="make the callback handle its own errors",
                ) from error
            raise
        return deliveries

    def _deliveries(self, routes: Sequence[RelationRoute]) -> list[Delivery]:
        """Every subscription whose view the batch changed, with the change."""
        touched = {view for route in routes for view in route.views}
        listening = [s for s in self.subscriptions if s.view in touched]
        batches = {view: self._batch(view) for view in {s.view for s in listening}}
        return [(s, batch) for s in listening if (batch := batches[s.view]) is not None]

    def _batch(self, view: str) -> ViewBatch | None:
        """What the last batch did to a view; None if that is nothing."""
        query, engine = self._state.definitions.view(view).query, self._state.engine
        if isinstance(engine, ChangeReader):
            changed = engine.changed_rows(view)
        else:
            changed = ChangedRows.of(query, engine.changes(view))
        if not changed:
            return None
        deleted, inserted = _rows(query, changed)
        return ViewBatch(view, self._state.version, inserted, deleted, columns=_columns(query))


def _rows(query: Query, changed: ChangedRows) -> tuple[RowSequence, RowSequence]:
    """The rows that went, and those that came."""
    if not changed.is_listed:
        return (
            RowSequence(query, lambda: changed.batches[0]),
            RowSequence(query, lambda: changed.batches[1]),
        )
    gone: list[Row] = []
    come: list[Row] = []
    for row, weight in changed.weighted():
        check_copies(abs(weight))
        (come if weight > 0 else gone).extend([row] * abs(weight))
    return (
        RowSequence(query, lambda: changed.batches[0], gone),
        RowSequence(query, lambda: changed.batches[1], come),
    )


def _columns(query: Query) -> tuple[tuple[str, Type], ...]:
    return tuple((column.name, column.type) for column in query.columns)


def deliver(deliveries: Sequence[Delivery]) -> None:
    """Call every callback; if one fails, those before it get the inverse batch, then it raises.

    So a subscriber that mirrors the view stays equal to it when the batch is undone.
    """
    called: list[tuple[Callback, ViewBatch]] = []
    for subscription, batch in deliveries:
        if subscription.callback is None:
            continue
        try:
            subscription.callback(batch)
        except BaseException as error:
            for earlier, delivered in reversed(called):
                try:
                    earlier(delivered.inverse())
                except Exception as second:
                    error.add_note(
                        f"a subscriber of {delivered.view} could not take it back: {second}"
                    )
            raise
        called.append((subscription.callback, batch))
