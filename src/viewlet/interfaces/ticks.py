"""When time passes: a batch of its own, by whoever asks for it, reads, or waits.

The clock of the machine ticks before a read of a view that depends on it, with every batch, and
in a thread when the next row is due, so that subscribers hear of it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from viewlet.engine.values.batching import Batch
from viewlet.errors import StateError, ViewletError
from viewlet.interfaces.database_state import DatabaseState
from viewlet.interfaces.journal import CHANGES
from viewlet.interfaces.valid_rows import unfilled

logger = logging.getLogger("viewlet")

_LONGEST, _SHORTEST = 1.0, 0.01
"""Seconds between looks at the clock."""


class Ticks:
    """The clock of a database moves its rows; `apply` makes a batch of what is due."""

    def __init__(self, state: DatabaseState, apply: Callable[[], None]) -> None:
        self._state = state
        self._apply = apply
        self._stopped: threading.Event | None = None
        self.is_replaying = False
        """Whether a log repeats what was done: its records have what the clock did."""
        state.clock.connect(self.tick)
        state.clock.is_bound_by(lambda: bool(state.timed))

    def tick(self) -> None:
        """The time is another: what is due goes, what begins comes."""
        state = self._state
        with state.lock:
            state.refuse_while_delivering()
            state.refuse_in_transaction("a step of the clock")
            if state.timed.has_due():
                self._apply()

    def before_read(self, view: str) -> None:
        """The view as it is at this moment; inside of a batch as the batch left it."""
        state = self._state
        if not state.timed or state.is_delivering or state.transaction is not None:
            return
        definition = state.definitions.views.get(view)
        if definition is not None and definition.valid_rows and state.timed.has_due():
            self._apply()

    def fill(self, names: frozenset[str]) -> list[tuple[str, Batch]]:
        """Give new relations of valid rows those that their tables have; what that changed."""
        state = self._state
        valid = state.definitions.valid_rows()
        tables = {table.name for table in state.definitions.tables()}
        sources = sorted({valid[name].source for name in names} & tables)
        stored = [
            (name, state.engine.plain(state.definitions.relation(name), state.engine.table(name)))
            for name in sources
        ]
        timed = state.timed.changes(stored, only=names)
        if timed.changes:
            fed = []
            for name, batch in timed.changes:
                route = state.routes[name]
                fed += [(instance, batch) for instance in route.instances]
                if route.later:
                    route.collect(batch, state.version + 1)
            state.engine.apply(fed)
            state.timed.took(timed)
            state.version += 1
        return list(timed.changes)

    def record(self, changes: Sequence[tuple[str, Batch]]) -> None:
        """In the log of a database on disk, behind the statement that made it so."""
        journal = self._state.journal
        if journal is not None and changes:
            journal.wait(journal.record(CHANGES, journal.prepare(changes)))

    def opened(self) -> None:
        """After a restart: go on from the time and the rows that are there."""
        state, self.is_replaying = self._state, False
        state.timed.load()
        if state.timed.time is not None:
            now, is_set = state.timed.time
            state.clock.load(now, is_set=is_set)
        missing = unfilled(state.definitions, state.engine)
        if missing:
            self.record(self.fill(missing))
        self.watch()

    # --- the machine's clock ----------------------------------------------------------------------

    def watch(self) -> None:
        """From now on, or no longer: where no view depends on the time there is no thread."""
        if self.is_replaying or bool(self._state.timed) == (self._stopped is not None):
            return
        if self._stopped is not None:
            self.stop()
            return
        self._stopped = threading.Event()
        threading.Thread(
            target=self._run, args=(self._stopped,), name="viewlet-clock", daemon=True
        ).start()

    def _run(self, stopped: threading.Event) -> None:
        state, pause = self._state, _SHORTEST
        while not stopped.wait(pause):
            pause = _LONGEST
            try:
                with state.lock:
                    now, is_set = state.clock.reading()
                    is_busy = state.is_delivering or bool(state.transactions)
                    if not stopped.is_set() and not is_set and not is_busy:
                        if state.timed.has_due():
                            self._apply()
                        due = state.timed.next_moment()
                        if due is not None:
                            pause = min(max((due - now) / 1e6, _SHORTEST), _LONGEST)
            except StateError:
                return  # the database is closed
            except ViewletError as error:
                logger.warning("the clock could not go on: %s", error)

    def stop(self) -> None:
        """Let the thread end."""
        if self._stopped is not None:
            self._stopped.set()
            self._stopped = None
