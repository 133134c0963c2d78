"""How a query is ended while it runs: after some time, or because somebody asks for its end.

DuckDB hears an interrupt only while it computes, so it is repeated until the query has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from viewlet.errors import CanceledError, ViewletError

REPEATED_SECONDS = 0.02


class Cancellation:
    """Ends whatever runs with it, from any thread; later queries with it do not begin."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: list[Any] = []
        self._ended = threading.Event()
        self.is_canceled = False

    def cancel(self) -> None:
        """The end; returns at once."""
        with self._lock:
            if self.is_canceled:
                return
            self.is_canceled = True
            if self._connections:
                threading.Thread(target=self._interrupt, daemon=True).start()

    def check(self) -> None:
        """CanceledError if somebody has asked for the end."""
        if self.is_canceled:
            raise CanceledError("canceled on request")

    @contextmanager
    def during(self, connection: Any) -> Iterator[None]:
        """A computation of a DuckDB connection that may be ended."""
        with self._lock:
            self.check()
            self._connections.append(connection)
        try:
            yield
        finally:
            with self._lock:
                self._connections.remove(connection)

    def _interrupt(self) -> None:
        while True:
            with self._lock:
                if not self._connections:
                    return
                for connection in self._connections:
                    connection.interrupt()
            self._ended.wait(REPEATED_SECONDS)


@contextmanager
def interrupted(
    connection: Any, seconds: float | None, cancellation: Cancellation | None = None
) -> Iterator[None]:
    """The query inside ends with an error after so many seconds, or when it is canceled."""
    import duckdb

    ending = Cancellation() if cancellation is None else cancellation
    timer = None
    if seconds is not None:
        timer = threading.Timer(seconds, connection.interrupt)
        timer.daemon = True
        timer.start()
    try:
        with ending.during(connection):
            yield
    except duckdb.InterruptException:
        ending.check()
        raise ViewletError(
            f"the query took longer than {seconds:g} s", hint="ask for less, or raise the limit"
        ) from None
    finally:
        if timer is not None:
            timer.cancel()
