"""`maintenance = 'auto'`: which mode costs less, from what was measured.

    cost of a second = batches/s * seconds of a batch + reads/s * seconds of a refresh

A view is eager until there is reason for another mode: its batches compute something anew, so that
each costs more the more is kept, and it is read far less often than it changes. Then split is
tried. It stays if that makes the sum smaller by a fifth, and goes back otherwise; what did not pay
is tried again only when reads have become rarer by a factor. So a view whose eager batches cost
what they change is never touched, and no two modes alternate.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from time import monotonic

from viewlet.errors import ViewletError
from viewlet.frontend.maintenance_options import MaintenanceMode
from viewlet.interfaces.database_state import DatabaseState
from viewlet.interfaces.rates import Rates
from viewlet.interfaces.stats import Timings
from viewlet.interfaces.view_maintenance import ViewMaintenance
from viewlet.interfaces.view_modes import EAGER, ViewMode
from viewlet.planner.frontiers import Frontier
from viewlet.program.frontier import reevaluated

logger = logging.getLogger("viewlet")

BATCHES = 256
"""Of a view, between two looks at what they cost."""

_SECONDS = 0.25
"""That a measurement takes at least."""

_BATCHES_FOR_READ = 10.0
"""How much more often than read a view has to change before a split is tried."""

_GAIN = 0.8
"""A split stays below this share of the eager cost, and ends above the inverse."""

_RARER = 4.0


@dataclass
class _Trial:
    """What is known of one view."""

    began: float
    batches: int
    seconds: float
    eager_batch: float | None = None
    failed_at: float | None = None
    """Reads for each batch at which split did not pay."""


class AutoChoice:
    """Looks at the views that leave their mode to it, every so many batches."""

    def __init__(self, state: DatabaseState, maintenance: ViewMaintenance) -> None:
        self._state = state
        self._maintenance = maintenance
        self._trials: dict[str, _Trial] = {}
        self._left = BATCHES

    def count_batch(self) -> None:
        """After a batch; every so often it looks at the views."""
        self._left -= 1
        if self._left <= 0:
            self._left = BATCHES
            self.look()

    def look(self) -> None:
        """Measure, and change the mode of one view at most."""
        if self._state.engine_name == "spark" or self._state.is_delivering:
            return
        for view in self._state.definitions.views:
            if self._maintenance.is_left_open(view) and self._look_at(view):
                return

    def _look_at(self, view: str) -> bool:
        timings = self._state.timings[view]
        trial = self._trials.get(view)
        if trial is None or trial.batches > timings.refreshes:
            self._trials[view] = self._begin(view)
            return False
        batches = timings.refreshes - trial.batches
        if monotonic() - trial.began < _SECONDS or not batches:
            return False
        rates = self._state.meters[view].rates()
        batch_seconds = (timings.seconds - trial.seconds) / batches
        mode = self._state.modes.get(view, EAGER)
        if mode.mode is MaintenanceMode.EAGER:
            next_mode = self._wants_split(view, trial, rates, batch_seconds)
        else:
            next_mode = self._wants_eager(view, trial, rates, batch_seconds)
        known = trial
        self._trials[view] = trial = self._begin(view)
        trial.eager_batch, trial.failed_at = known.eager_batch, known.failed_at
        if next_mode is None:
            return False
        try:
            self._maintenance.choose(view, next_mode)
        except ViewletError as error:  # of a refresh; the batch stands, and nobody asked for this
            self._maintenance.remember(view, mode)
            trial.failed_at = 0.0
            logger.warning("view %s stays %s: %s", view, mode.mode.value, error)
        return True

    def _begin(self, view: str) -> _Trial:
        timings = self._state.timings[view]
        self._state.meters[view].start()
        return _Trial(monotonic(), timings.refreshes, timings.seconds)

    def _wants_split(
        self, view: str, trial: _Trial, rates: Rates, batch_seconds: float
    ) -> ViewMode | None:
        trial.eager_batch = batch_seconds
        reads = rates.reads_per_s / max(rates.batches_per_s, 1e-9)
        if reads * _BATCHES_FOR_READ > 1.0:
            return None
        if trial.failed_at is not None and reads * _RARER > trial.failed_at:
            return None
        if not reevaluated(self._state.engine.program, view):
            return None
        reason = f"tried: {reads:.3g} reads for each batch of {1000 * batch_seconds:.3g} ms"
        return ViewMode(MaintenanceMode.SPLIT, Frontier.VALUES, reason)

    def _wants_eager(
        self, view: str, trial: _Trial, rates: Rates, batch_seconds: float
    ) -> ViewMode | None:
        upkeep = self._state.upkeeps.get(view)
        if upkeep is None or trial.eager_batch is None:
            return None
        reads = rates.reads_per_s / max(rates.batches_per_s, 1e-9)
        split = batch_seconds + min(reads, 1.0) * _seconds_each(upkeep.timings)
        is_new = upkeep.mode.reason.startswith("tried")
        limit = trial.eager_batch * (_GAIN if is_new else 1.0 / _GAIN)
        measured = f"{1e3 * split:.3g} ms of split for each batch, {1e3 * trial.eager_batch:.3g} ms"
        if split < limit:
            mode = ViewMode(MaintenanceMode.SPLIT, Frontier.VALUES, f"{measured} of eager")
            self._state.modes[view] = upkeep.mode = mode
            self._maintenance.remember(view, mode)
            return None
        trial.failed_at = max(reads, 1e-6)
        return ViewMode(MaintenanceMode.EAGER, Frontier.EAGER, f"{measured} of eager")


def _seconds_each(timings: Timings) -> float:
    return timings.seconds / timings.refreshes if timings.refreshes else 0.0
