"""The body of a request as a file, for the threads that read it: little of it waits in memory.

A body that is one batch is on disk, from a megabyte on, before a thread reads it: who sends slowly
holds nobody up. A stream of batches has a thread of its own as long as it lasts.
"""

from __future__ import annotations

import asyncio
import io
import tempfile
from collections.abc import AsyncIterator
from typing import IO, Any

from starlette.requests import ClientDisconnect, Request

from viewlet.errors import DataError

SPOOLED_BYTES = 2**20
WAIT_SECONDS = 60.0
"""How long a client may be silent inside of a body."""


class TooLargeError(DataError):
    """A body that is larger than the server takes."""


class BodyFile(io.RawIOBase):
    """Reads a stream of any length from another thread than the event loop's, as it comes."""

    def __init__(self, request: Request) -> None:
        self._chunks: AsyncIterator[bytes] = aiter(request.stream())
        self._loop = asyncio.get_running_loop()
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
            return asyncio.run_coroutine_threadsafe(next_chunk(), self._loop).result()
        except (TimeoutError, ClientDisconnect):
            raise DataError("the body did not come to its end") from None


async def spooled(request: Request, limit: int) -> IO[bytes]:
    """The whole body of a request as a file, from its beginning on."""
    file = tempfile.SpooledTemporaryFile(SPOOLED_BYTES)  # noqa: SIM115  the caller closes it
    chunks: AsyncIterator[bytes] = aiter(request.stream())
    size = 0
    try:
        while (chunk := await asyncio.wait_for(anext(chunks, None), WAIT_SECONDS)) is not None:
            size += len(chunk)
            if size > limit:
                raise TooLargeError(
                    f"the body is larger than {limit} bytes",
                    hint="send smaller ones, or ?batch=1000 to apply rows as they come",
                )
            file.write(chunk)
    except TimeoutError:
        file.close()
        raise DataError("the body did not come to its end") from None
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


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
