"""Batches of several views in one stream: an event loop of threads, and one for asyncio."""

from __future__ import annotations

import asyncio
import queue
import weakref
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from viewlet.errors import StateError
from viewlet.interfaces.arguments import callback_of, name_of
from viewlet.interfaces.batch_queue import BatchQueue
from viewlet.interfaces.subscribe import Callback, Subscription, ViewBatch

if TYPE_CHECKING:
    from viewlet.interfaces.database import Database


class EventLoop:
    """Runs handlers of several views' batches, in the order of the batches, in its own thread.

    >>> loop = viewlet.EventLoop(db)
    >>> off = loop.on("v", lambda batch: print(batch.inserted))
    >>> db.insert("r", (1, 10))
    1
    >>> loop.run(timeout=0.01)
    [V(a=1, total=15)]
    1

    Handlers run after the batch, outside of the database's lock: they may read and change it, add
    handlers and take them away. An exception in one leaves `run`, and the loop can be run again.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queue: queue.SimpleQueue[ViewBatch | None] = queue.SimpleQueue()
        self._handlers: dict[str, list[Callback]] = {}
        self._subscriptions: dict[str, Subscription] = {}

    def on(self, view: str, handler: Callback) -> Callable[[], None]:
        """Call `handler(batch)` for every batch that changes the view; gives what ends that."""
        callback_of(handler)
        if name_of(view, "view") not in self._subscriptions:
            self._subscriptions[view] = self._database._listen(view, self._queue.put)
        self._handlers.setdefault(view, []).append(handler)
        return lambda: self._off(view, handler)

    def _off(self, view: str, handler: Callback) -> None:
        handlers = self._handlers.get(view, [])
        if handler in handlers:
            handlers.remove(handler)
        if not handlers and view in self._subscriptions:
            self._subscriptions.pop(view).close()

    def step(self, timeout: float | None = 0.0) -> bool:
        """Handle one batch; False if none came in time (None: wait for ever) or at `stop`."""
        try:
            batch = self._queue.get(timeout is None or timeout > 0, timeout or None)
        except queue.Empty:
            return False
        if batch is None:
            return False
        for handler in tuple(self._handlers.get(batch.view, ())):
            handler(batch)
        return True

    def run(self, timeout: float | None = None) -> int:
        """Handle batches until `stop`, or until none has come for `timeout` seconds; how many."""
        if not self._handlers:
            raise StateError("the event loop has no handlers", hint='say loop.on("view", handler)')
        count = 0
        while self.step(timeout):
            count += 1
        return count

    def stop(self) -> None:
        """Let `run` return after what is in the queue now; from any thread or handler."""
        self._queue.put(None)

    def close(self) -> None:
        """Hear of no more batches."""
        for subscription in self._subscriptions.values():
            subscription.close()
        self._subscriptions, self._handlers = {}, {}


class Watch(AsyncIterator[ViewBatch]):
    """The batches of some views, from any thread that changes the database, in their order.

    It listens from its making on, so that nothing is lost between `db.watch` and the first
    `await`; `close`, the end of an `async with`, or the garbage collector ends it. A bounded one
    counts in `missed` what it dropped.
    """

    def __init__(
        self,
        listen: Callable[[Callback], list[Subscription]],
        queue: BatchQueue,
    ) -> None:
        self._subscriptions: list[Subscription] = []
        self._queue = queue
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._subscriptions += listen(_weakly(self))

    @property
    def missed(self) -> int:
        """How many batches were dropped because nobody read them in time."""
        return self._queue.missed

    def put(self, batch: ViewBatch) -> None:
        """From the thread that made the batch."""
        self._queue.put(batch)
        self._wake()

    def _wake(self) -> None:
        """Tell who waits, once: the next batches find nobody to tell until it waits again."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            loop, event = waiting
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    async def __anext__(self) -> ViewBatch:
        loop = self._queue.reader = asyncio.get_running_loop()
        while True:
            batch = self._queue.pop()
            if batch is not None:
                return batch
            if not self._subscriptions:
                raise StopAsyncIteration
            event = asyncio.Event()
            self._waiting = loop, event
            # A batch may have come before it could see who waits.
            batch = self._queue.pop()
            if batch is not None:
                return batch
            await event.wait()

    def close(self) -> None:
        """No more batches; what has come can still be read."""
        self._queue.close()
        for subscription in self._subscriptions:
            subscription.close()
        self._subscriptions = []
        self._wake()

    async def aclose(self) -> None:
        """What `async with contextlib.aclosing(watch)` calls: the same as close."""
        self.close()

    async def __aenter__(self) -> Watch:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def _weakly(watch: Watch) -> Callback:
    """A listener that does not keep a forgotten watch alive."""
    reference = weakref.ref(watch)

    def put(batch: ViewBatch) -> None:
        alive = reference()
        if alive is not None:
            alive.put(batch)

    return put
