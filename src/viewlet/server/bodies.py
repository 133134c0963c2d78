"""The body of a request as a file, for the threads that read it: nothing waits in memory."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import ClientDisconnect, Request

from viewlet.errors import DataError

WAIT_SECONDS = 60.0
"""How long a client may be silent inside of a body."""


class TooLargeError(DataError):
    """A body that is larger than the server takes."""


class BodyFile(io.RawIOBase):
    """Reads a request's body from another thread than the event loop's.

    `limit` bounds its bytes; None is for streams, which are applied as they come.
    """

    def __init__(self, request: Request, limit: int | None) -> None:
        self._chunks: AsyncIterator[bytes] = aiter(request.stream())
        self._loop = asyncio.get_running_loop()
        self._limit = limit
        self._read = 0
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """As files say it."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Some bytes; 0 at the end."""
        target = memoryview(buffer).cast("B")
        while not self._rest:
            chunk = self._next()
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def _next(self) -> bytes | None:
        async def next_chunk() -> bytes | None:
            return await asyncio.wait_for(anext(self._chunks, None), WAIT_SECONDS)

        try:
            chunk = asyncio.run_coroutine_threadsafe(next_chunk(), self._loop).result()
        except (TimeoutError, ClientDisconnect):
            raise DataError("the body did not come to its end") from None
        if chunk is not None:
            self._read += len(chunk)
            if self._limit is not None and self._read > self._limit:
                raise TooLargeError(
                    f"the body is larger than {self._limit} bytes",
                    hint="send smaller ones, or ?batch=1000 to apply rows as they come",
                )
        return chunk


async def small_body(request: Request, limit: int) -> bytes:
    """The whole body of a request that should be short."""
    parts = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise TooLargeError(f"the body is larger than {limit} bytes")
        parts.append(chunk)
    return b"".join(parts)
