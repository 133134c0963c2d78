"""One view that is not kept current by every batch: what it has not seen, and since when.

batch -> touch or collect -> is_behind
read  -> is_due -> refresh -> is_behind no longer
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from viewlet.engine.contract import Engine
from viewlet.engine.values.batching import Batch
from viewlet.errors import ViewletError
from viewlet.frontend.maintenance_options import MaintenanceMode, MaintenanceOptions, When
from viewlet.interfaces.pending_rows import PendingRows
from viewlet.interfaces.stats import Timings, now, since
from viewlet.interfaces.view_modes import ViewMode
from viewlet.schema import Relation, Scalar

_MOST_PENDING = 1 << 13
"""Rows that wait for a view of which nobody said that they should."""


class ViewUpkeep:
    """The refreshes of one view that batches do not keep current."""

    def __init__(
        self, view: str, mode: ViewMode, options: MaintenanceOptions, later: Sequence[Relation]
    ) -> None:
        self.view = view
        self.mode = mode
        self.options = options
        self.pending = {
            relation.original: PendingRows(relation)
            for relation in later
            if relation.original is not None
        }
        self.timings = Timings()
        self.error: ViewletError | None = None
        self.refreshed_at = time.time()
        self.behind_since: float | None = None
        self._has_contents = mode.mode.is_later
        self._batch = self._refreshed_in = -1
        rule = options.refresh
        self.when = rule.when if rule is not None else When.ON_READ
        self.amount = rule.amount if rule is not None else 0.0

    # --- what batches do --------------------------------------------------------------------------

    def touch(self, batch: int) -> None:
        """A batch, known by its number, has changed what the view is made of."""
        self._batch = batch
        if self.behind_since is None:
            self.behind_since = time.time()

    def collect(self, relation: str, rows: Batch, batch: int) -> None:
        """Keep a batch's rows of a relation until the next refresh."""
        pending = self.pending[relation]
        pending.mark(batch)
        pending.add(rows)

    def collect_row(self, relation: str, row: Sequence[Scalar], weight: int, batch: int) -> None:
        """The same for one encoded row."""
        pending = self.pending[relation]
        pending.mark(batch)
        pending.add_row(row, weight)

    def undo(self, batch: int) -> None:
        """The batch was taken back, and with it refreshes that came after it."""
        is_refreshed = batch == self._refreshed_in
        if not is_refreshed and batch != self._batch:
            return
        for pending in self.pending.values():
            if is_refreshed:
                pending.restore()
            pending.undo(batch)
        if self.mode.mode is MaintenanceMode.SPLIT:
            self._has_contents = self._has_contents and not is_refreshed
        if self.mode.mode is MaintenanceMode.SPLIT or self.pending_rows:
            self.behind_since = self.behind_since or time.time()
        else:
            self.behind_since = None

    # --- what refreshes do ------------------------------------------------------------------------

    @property
    def is_behind(self) -> bool:
        """Whether a refresh has anything to do."""
        return self.behind_since is not None or not self._has_contents

    @property
    def pending_rows(self) -> int:
        """How many rows wait."""
        return sum(map(len, self.pending.values()))

    def is_due_for_read(self) -> bool:
        """Whether a read must refresh first."""
        if not self.is_behind:
            return False
        if not self._has_contents:
            return True
        stale = self.options.staleness
        if stale is not None:
            return time.time() - (self.behind_since or 0.0) > stale
        return self.when is When.ON_READ

    def is_due_by_rows(self) -> bool:
        """Whether so many rows wait that the view is refreshed for that."""
        if self.when is When.ROWS:
            return self.pending_rows >= self.amount
        is_open = self.options.mode is MaintenanceMode.AUTO and self.error is None
        return is_open and self.pending_rows >= _MOST_PENDING

    def due_at(self) -> float | None:
        """When the clock has to refresh it; None if never."""
        if self.when is not When.SECONDS or not self.is_behind:
            return None
        return self.refreshed_at + self.amount

    def refresh(self, engine: Engine, batch: int) -> None:
        """Apply what waits as one batch, and compute what reads compute; all of it or nothing.

        `batch` is the number of the last one, which may still be taken back.
        """
        began = now()
        waiting = [
            (pending.relation.name, batch)
            for pending in self.pending.values()
            for batch in pending.changes()
        ]
        try:
            engine.refresh(self.view, waiting)
        except ViewletError as error:
            self.error = error
            raise
        count = self.pending_rows
        for pending in self.pending.values():
            pending.clear()
        self.error, self.behind_since, self._has_contents = None, None, True
        self._refreshed_in = batch
        self.refreshed_at = time.time()
        seconds, code_seconds = since(began)
        self.timings.add(seconds, count, code_seconds)

    def has_lost_contents(self) -> None:
        """The program is another one: what is computed on read is empty."""
        self._has_contents = self.mode.mode.is_later

    def as_of(self) -> datetime:
        """The last moment at which the view was what its rows say."""
        return datetime.fromtimestamp(self.behind_since or time.time(), UTC)
