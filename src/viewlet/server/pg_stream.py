"""A client's messages, read ahead of whoever handles them: so its end is noticed at once.

    socket -> one task -> a queue of bounded bytes -> the session

While a statement runs, nobody asks for the next message. That the client has gone is seen all the
same, and ends a query or SUBSCRIBE that nobody will hear of.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable

from viewlet.server import pg_messages as wire
from viewlet.server.pg_messages import WireError

AHEAD_BYTES = 2**20
"""Of messages that nobody has asked for; one larger message may wait beside them."""


class MessageStream:
    """The messages of one connection, in order."""

    def __init__(self, reader: asyncio.StreamReader, ended: Callable[[], None]) -> None:
        self.longest = wire.MAX_STARTUP
        """Until a client has proved who it is, it sends short messages alone."""
        self._reader = reader
        self._ended = ended
        self._messages: deque[tuple[bytes, bytes]] = deque()
        self._bytes = 0
        self._error: Exception | None = None
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._read_ahead())

    @property
    def has_ended(self) -> bool:
        """Whether nothing follows what was read ahead."""
        return self._error is not None

    async def read(self) -> tuple[bytes, bytes]:
        """A letter and a content; the error of a connection that has ended."""
        while not self._messages:
            if self._error is not None:
                raise self._error
            await self._wait()
        message = self._messages.popleft()
        self._bytes -= len(message[1])
        self._changed.set()
        return message

    def close(self) -> None:
        """Nobody reads any more."""
        self._task.cancel()

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def _read_ahead(self) -> None:
        try:
            while True:
                head = await self._reader.readexactly(5)
                (size,) = struct.unpack("!i", head[1:])
                if not 4 <= size <= self.longest:
                    raise WireError("a message has no such length")
                content = await self._reader.readexactly(size - 4)
                self._messages.append((head[:1], content))
                self._bytes += len(content)
                self._changed.set()
                while self._bytes > AHEAD_BYTES:
                    await self._wait()
        except (WireError, EOFError, OSError) as error:
            self._error = error
            self._changed.set()
            self._ended()
