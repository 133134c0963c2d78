"""The changes of views for many clients: each batch is turned into text once, whoever listens.

    writer's thread -> bounded queue -> the event loop: a ring of the newest messages -> clients

A client has a cursor in the ring. One that is too slow finds that what it wants next has left the
ring, and begins anew with a snapshot; it slows nobody and costs no memory of its own. A client that
comes back with the version that it has seen goes on there while the ring still has what follows.
"""

from __future__ import annotations

import asyncio
import bisect
from collections import deque
from dataclasses import dataclass

from viewlet.interfaces.batch_queue import BatchQueue
from viewlet.interfaces.json_values import json_row, json_text
from viewlet.interfaces.subscribe import ViewBatch
from viewlet.server.gateway import Gateway

RING_MESSAGES = 20_000
RING_BYTES = 16 * 2**20
QUEUED_BATCHES = 10_000
CHUNK_MESSAGES = 512
PAUSE = 0.005
PAUSE_PER_CLIENT = 0.0003
"""Seconds between two rounds of waking clients: many clients hear of several batches at once."""


@dataclass(frozen=True)
class FeedMessage:
    """A batch as text: what the view was at `version`, or became then."""

    version: int
    text: str
    is_snapshot: bool = False


class ViewFeed:
    """The newest changes of one view. Everything but `put` runs in the event loop."""

    def __init__(self, gateway: Gateway, view: str) -> None:
        self.view = view
        self.clients = 0
        self.is_ended = False
        self._gateway = gateway
        self._loop = asyncio.get_running_loop()
        self._queue = BatchQueue(QUEUED_BATCHES, "drop")
        self._missed = 0
        self._ring: deque[FeedMessage] = deque()
        self._ring_bytes = 0
        self._first = 0
        """How many messages have left the ring."""
        self._lost = 0
        """The version of the newest change that is not in the ring."""
        self._is_woken = False
        self._waiting: list[asyncio.Future[None]] = []
        self.rows = 0
        """Changed rows so far, for each client that was there."""

    async def open(self) -> None:
        """Listen; changes up to the version of this moment are not in the ring."""
        database = self._gateway.database

        def listen() -> None:
            with database._state.lock:
                self._lost = database._state.version
                self._subscription = database._listen(self.view, self.put)

        await self._gateway.run(listen)

    def close(self) -> None:
        """Nobody listens any more."""
        self.is_ended = True
        self._queue.close()
        self._subscription.close()
        self._notify()

    def put(self, batch: ViewBatch) -> None:
        """From the thread that made the batch."""
        self._queue.put(batch)
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        pause = PAUSE + PAUSE_PER_CLIENT * self.clients
        self._loop.call_later(pause, self._take)

    def _take(self) -> None:
        """What has come -> the ring; then everybody who waits."""
        self._is_woken = False
        while (batch := self._queue.pop()) is not None:
            self.rows += self.clients * (len(batch.inserted) + len(batch.deleted))
            message = FeedMessage(batch.version, batch.to_json())
            self._ring.append(message)
            self._ring_bytes += len(message.text)
        while len(self._ring) > RING_MESSAGES or self._ring_bytes > RING_BYTES:
            self._drop_oldest()
        if self._queue.missed != self._missed:
            self._missed = self._queue.missed
            while self._ring:
                self._drop_oldest()
            self._first += 1  # even who has read everything begins anew
            self._lost = max(self._lost, self._gateway.version)
        self._notify()

    def _drop_oldest(self) -> None:
        message = self._ring.popleft()
        self._ring_bytes -= len(message.text)
        self._first += 1
        self._lost = max(self._lost, message.version)

    def _notify(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            _settle(future)

    async def snapshot(self) -> FeedMessage:
        """The view as it is, as text."""
        return await self._gateway.run(self._snapshot)

    def _snapshot(self) -> FeedMessage:
        version, table = self._gateway.snapshot(self.view)
        rows = [json_row(row.keys(), row.values()) for row in table.to_pylist()]
        content = {
            "view": self.view,
            "version": version,
            "snapshot": True,
            "missed": 0,
            "deleted": [],
            "inserted": rows,
        }
        return FeedMessage(version, json_text(content), is_snapshot=True)

    def cursor_after(self, version: int) -> int | None:
        """Where a client goes on that knows a version; None if it has to begin anew."""
        if version < self._lost:
            return None
        return self._first + bisect.bisect_right(self._ring, version, key=lambda m: m.version)

    def messages(self, cursor: int) -> list[FeedMessage] | None:
        """The next messages from a cursor on; None if some have left the ring."""
        if cursor < self._first:
            return None
        start = cursor - self._first
        stop = min(start + CHUNK_MESSAGES, len(self._ring))
        return [self._ring[at] for at in range(start, stop)]

    async def changed(self, seconds: float) -> None:
        """Until something has come, or for so long."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(future)
        end = self._loop.call_later(seconds, _settle, future)
        try:
            await future
        finally:
            end.cancel()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Feeds:
    """The feeds that somebody listens to."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._feeds: dict[str, ViewFeed] = {}
        self._ended_rows = 0
        self._lock = asyncio.Lock()

    @property
    def clients(self) -> int:
        """How many listen, to any view."""
        return sum(feed.clients for feed in self._feeds.values())

    @property
    def rows(self) -> int:
        """Changed rows that clients were sent so far."""
        return self._ended_rows + sum(feed.rows for feed in list(self._feeds.values()))

    async def join(self, view: str) -> ViewFeed:
        """The feed of a view, one client more."""
        async with self._lock:
            self._gateway.database.schema(view)
            feed = self._feeds.get(view)
            if feed is None or feed.is_ended:
                feed = ViewFeed(self._gateway, view)
                await feed.open()
                self._feeds[view] = feed
            feed.clients += 1
            return feed

    def leave(self, feed: ViewFeed) -> None:
        """One client less; the last one ends the feed."""
        feed.clients -= 1
        if not feed.clients:
            feed.close()
            if self._feeds.get(feed.view) is feed:
                del self._feeds[feed.view]
                self._ended_rows += feed.rows

    def close(self) -> None:
        """The server ends."""
        for feed in list(self._feeds.values()):
            feed.close()


class FeedReader:
    """One client's way through a feed: a snapshot unless it knows a version, then every change."""

    def __init__(self, feeds: Feeds, gateway: Gateway, view: str, after: int | None) -> None:
        self._feeds = feeds
        self._gateway = gateway
        self._view = view
        self._after = after
        self._version = after or 0
        self._cursor: int | None = None
        self._feed: ViewFeed | None = None

    async def __aenter__(self) -> FeedReader:
        self._feed = await self._feeds.join(self._view)
        if self._after is not None:
            self._cursor = self._feed.cursor_after(self._after)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._feed is not None:
            self._feeds.leave(self._feed)

    async def next(self, seconds: float) -> list[FeedMessage] | None:
        """The next messages, none if there were none for so long; None at the end."""
        feed = self._feed
        assert feed is not None
        if feed.is_ended or self._view not in self._gateway.database.views:
            return None
        messages = feed.messages(self._cursor) if self._cursor is not None else None
        while messages is None:
            snapshot = await feed.snapshot()
            self._cursor = feed.cursor_after(snapshot.version)
            if self._cursor is not None:
                self._version = snapshot.version
                return [snapshot]
        if not messages:
            await feed.changed(seconds)
            assert self._cursor is not None
            messages = feed.messages(self._cursor) or []
        if messages:
            assert self._cursor is not None
            self._cursor += len(messages)
        # What was on its way to the ring when the snapshot was read is part of the snapshot.
        return [message for message in messages if message.version > self._version]
