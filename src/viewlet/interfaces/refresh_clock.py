"""Refreshes every so many seconds, in a thread of their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from viewlet.errors import StateError
from viewlet.interfaces.database_state import DatabaseState
from viewlet.interfaces.upkeep import ViewUpkeep


class RefreshClock:
    """Calls `refresh_due` whenever a view's time has come, holding the database's lock."""

    def __init__(self, state: DatabaseState, refresh_due: Callable[[float], None]) -> None:
        self._state = state
        self._refresh_due = refresh_due
        self._stopped: threading.Event | None = None

    def watch(self, upkeeps: Iterable[ViewUpkeep]) -> None:
        """From now on these views are refreshed by the clock; none ends its thread."""
        shortest = min((upkeep.amount for upkeep in upkeeps), default=None)
        self.stop()
        if shortest is not None:
            self._stopped = threading.Event()
            arguments = (self._stopped, min(shortest / 4, 1.0))
            threading.Thread(
                target=self._run, args=arguments, name="viewlet-refresh", daemon=True
            ).start()

    def _run(self, stopped: threading.Event, step: float) -> None:
        while not stopped.wait(step):
            try:
                with self._state.lock:
                    if not stopped.is_set() and not self._state.is_delivering:
                        self._refresh_due(time.time())
            except StateError:
                return  # the database is closed

    def stop(self) -> None:
        """Let the thread end."""
        if self._stopped is not None:
            self._stopped.set()
            self._stopped = None
