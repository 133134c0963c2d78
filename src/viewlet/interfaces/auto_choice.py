"""`maintenance = 'auto'`: looks at views now and then, and changes how one of them is maintained.

A view is eager until another way is expected to cost less (mode_choice.py has the rule). What a
batch is expected to touch is counted in the programs of all ways; planning them costs as much as a
CREATE VIEW, so that it waits until the view's batches have cost more than that. A way that needs
maps of its own has to earn back what filling them takes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from viewlet.errors import ViewletError
from viewlet.interfaces.database_state import DatabaseState
from viewlet.interfaces.mode_choice import Measurement, ModeChoice, Strategy, strategy_of
from viewlet.interfaces.mode_works import filling_rows, planned_works, running_works
from viewlet.interfaces.view_maintenance import ViewMaintenance
from viewlet.interfaces.view_modes import EAGER
from viewlet.planner.mode_cost import ModeWork

logger = logging.getLogger("viewlet")

BATCHES = 256
"""Of a database, between two looks at what they cost."""

_SECONDS = 0.25
"""That a measurement takes at least."""

_PLANNING_SECONDS = 1.0
"""Of batches before the other ways are planned."""

_OFTEN = 0.5
"""Reads for each batch from which on nothing is gained by leaving work to them."""

_ROW_SECONDS = 1e-6
"""To fill maps from a table's row."""

_EARNED_IN = 60.0
"""Seconds within which a change must earn what it costs."""


@dataclass(frozen=True)
class _Start:
    """The counts of a view when a measurement began."""

    at: float
    strategy: Strategy
    batches: int
    rows: int
    reads: int
    seconds: float
    refreshes: int
    refresh_seconds: float


class AutoChoice:
    """Looks at the views that leave their mode to it, every so many batches."""

    def __init__(
        self,
        state: DatabaseState,
        maintenance: ViewMaintenance,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._state = state
        self._maintenance = maintenance
        self._clock = clock
        self._starts: dict[str, _Start] = {}
        self._works: dict[str, dict[Strategy, ModeWork]] = {}
        self._planned_at: dict[str, int] = {}
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
        now = self._count(view)
        start = self._starts.get(view)
        if start is None or start.strategy is not now.strategy or start.batches > now.batches:
            self._starts[view] = now
            return False
        batches = now.batches - start.batches
        if now.at - start.at < _SECONDS or not batches:
            return False
        self._starts[view] = now
        choice = self._maintenance.choices.setdefault(view, ModeChoice())
        rows = now.rows - start.rows
        choice.measure(
            now.strategy,
            Measurement(
                batches,
                rows,
                now.reads - start.reads,
                now.seconds - start.seconds,
                now.refreshes - start.refreshes,
                now.refresh_seconds - start.refresh_seconds,
            ),
        )
        is_read_often = now.reads - start.reads > batches * _OFTEN
        works = {} if is_read_often else self._works_of(view, now)
        if works and Strategy.EAGER in choice.costs:
            choice.estimate(works, rows / batches)
        return self._change(view, choice, now.strategy, batches / (now.at - start.at))

    def _change(
        self, view: str, choice: ModeChoice, current: Strategy, batches_per_second: float
    ) -> bool:
        better = choice.better(current)
        if better is None:
            return False
        earned = choice.saved(current, better) * batches_per_second * _EARNED_IN
        if earned < filling_rows(self._state, view, better) * _ROW_SECONDS:
            return False
        before = self._state.modes.get(view, EAGER)
        try:
            self._maintenance.choose(view, better.view_mode(choice.reason(current, better)))
        except ViewletError as error:  # of a refresh; the batch stands, and nobody asked for this
            self._maintenance.remember(view, before)
            choice.refused[better] = error.message
            logger.warning("view %s stays %s: %s", view, before.mode.value, error)
            return False
        self._starts.pop(view, None)
        return True

    def _works_of(self, view: str, now: _Start) -> dict[Strategy, ModeWork]:
        """What every way touches: those that need no plan at first, and then all of them."""
        known = self._works.get(view)
        is_eager = now.strategy is Strategy.EAGER
        if known is None and now.seconds < _PLANNING_SECONDS:
            return running_works(self._state, view) if is_eager else {}
        if known is None or (is_eager and now.batches > 2 * self._planned_at.get(view, 0)):
            known = self._works[view] = planned_works(self._state, view)
            self._planned_at[view] = now.batches
        return known

    def _count(self, view: str) -> _Start:
        state = self._state
        timings, upkeep = state.timings[view], state.upkeeps.get(view)
        return _Start(
            self._clock(),
            strategy_of(state.modes.get(view, EAGER)),
            timings.refreshes,
            timings.changed_rows,
            state.meters[view].reads,
            timings.seconds,
            upkeep.timings.refreshes if upkeep is not None else 0,
            upkeep.timings.seconds if upkeep is not None else 0.0,
        )
