"""Who is called when a batch has changed views, and what happens when a callback refuses it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from viewlet.calculus.query import check_copies
from viewlet.errors import ViewletError
from viewlet.interfaces.database_state import DatabaseState
from viewlet.interfaces.routes import RelationRoute
from viewlet.interfaces.subscribe import Callback, Subscription, ViewBatch
from viewlet.interfaces.view import row_class
from viewlet.schema import decode, shown_value

Delivery = tuple[Subscription, ViewBatch]


class Subscribers:
    """The subscriptions of a database."""

    def __init__(self, state: DatabaseState) -> None:
        self._state = state
        self.subscriptions: list[Subscription] = []

    def add(
        self, view: str, callback: Callback | None, listener: Callback | None = None
    ) -> Subscription:
        """`callback` can refuse a batch; `listener` hears of those that stand, and cannot raise."""
        with self._state.lock:
            self._state.definitions.view(view)
            subscription = Subscription(view, callback, self._remove, listener)
            self.subscriptions.append(subscription)
            return subscription

    def listen(self, view: str, listener: Callback) -> Subscription:
        """The batches that stand, for event loops."""
        return self.add(view, None, listener)

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
            state.engine.undo()
            state.version += 1
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
        deliveries = [(s, batches[s.view]) for s in listening]
        return [(s, batch) for s, batch in deliveries if batch.inserted or batch.deleted]

    def _batch(self, view: str) -> ViewBatch:
        query = self._state.definitions.view(view).query
        make = row_class(query)
        inserted: list[Any] = []
        deleted: list[Any] = []
        for row, weight in self._state.engine.changes(view):
            values = make(*(decode(v, c.type) for v, c in zip(row, query.columns, strict=True)))
            check_copies(abs(weight))
            (inserted if weight > 0 else deleted).extend([values] * abs(weight))
        return ViewBatch(view, self._state.version, inserted, deleted)


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
