"""Which way of maintaining a view costs least, from estimates and then from measurements.

    cost of a batch = seconds of a batch + reads for each batch * seconds of a refresh

There are at most as many refreshes as batches: a read with nothing new costs nothing. Another is
tried where it is expected to cost a fifth less; what was measured then stands in place of the
estimate, so that a way that did not pay is left again, and tried again only when reads have become
so much rarer or more frequent that its own figures speak for it. Nothing here looks at a clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from viewlet.frontend.maintenance_options import MaintenanceMode
from viewlet.interfaces.view_modes import EAGER, ViewMode
from viewlet.planner.frontiers import Frontier
from viewlet.planner.mode_cost import ModeWork

GAIN = 0.8
"""Another way has to cost less than this share."""

GUESSED_GAIN = 0.5
"""The same, of a way that was never tried, when another was."""

_RECORD_SECONDS = 1e-7
"""Of a touched record at most: the rest of a batch's time is there however little it touches."""

_REFRESH_SECONDS = 2e-5
_PENDING_ROW_SECONDS = 5e-7


class Strategy(Enum):
    """The ways that are compared."""

    EAGER = "eager"
    SPLIT = "split"
    LEAVES = "leaves"
    DEFERRED = "deferred"

    def view_mode(self, reason: str) -> ViewMode:
        """The mode of a view that is maintained in this way."""
        return ViewMode(*_MODES[self], reason)


_MODES = {
    Strategy.EAGER: (MaintenanceMode.EAGER, Frontier.EAGER),
    Strategy.SPLIT: (MaintenanceMode.SPLIT, Frontier.VALUES),
    Strategy.LEAVES: (MaintenanceMode.SPLIT, Frontier.LEAVES),
    Strategy.DEFERRED: (MaintenanceMode.DEFERRED, Frontier.EAGER),
}


_AT_ONCE = frozenset({Strategy.EAGER, Strategy.SPLIT, Strategy.LEAVES})
"""Ways in which a batch does what it has to do before it returns."""


def strategy_of(mode: ViewMode) -> Strategy:
    """The way in which a view with this mode is maintained."""
    if mode.mode.is_later:
        return Strategy.DEFERRED
    return next(s for s, pair in _MODES.items() if pair == (mode.mode, mode.frontier))


@dataclass(frozen=True)
class StrategyCost:
    """Seconds of a batch, and of a refresh after it."""

    batch: float
    refresh: float
    is_measured: bool = False

    def at(self, reads: float) -> float:
        """Seconds for each batch, with so many reads for each."""
        return self.batch + min(reads, 1.0) * self.refresh


@dataclass(frozen=True)
class Measurement:
    """What a view has cost over some batches."""

    batches: int
    rows: int
    reads: int
    batch_seconds: float
    refreshes: int = 0
    refresh_seconds: float = 0.0

    @property
    def reads_each(self) -> float:
        """Reads for each batch."""
        return self.reads / self.batches


@dataclass
class ModeChoice:
    """What is known of the ways to maintain one view."""

    costs: dict[Strategy, StrategyCost] = field(default_factory=dict)
    refused: dict[Strategy, str] = field(default_factory=dict)
    """Ways that the view cannot be maintained in, and why."""
    reads: float = 0.0
    """For each batch, when it was looked at last."""

    def measure(self, strategy: Strategy, seen: Measurement) -> None:
        """Put what a way has cost in place of what it was expected to."""
        self.reads = seen.reads_each
        batch = seen.batch_seconds / seen.batches
        expected = self.costs.get(strategy, StrategyCost(batch, 0.0))
        refresh = seen.refresh_seconds / seen.refreshes if seen.refreshes else expected.refresh
        if strategy is Strategy.DEFERRED and seen.refreshes:
            # Most of a refresh is for the rows that have waited: it belongs to their batches.
            fixed = min(expected.refresh, refresh)
            batch += seen.refreshes * (refresh - fixed) / seen.batches
            refresh = fixed
        self.costs[strategy] = StrategyCost(batch, refresh, is_measured=True)

    def estimate(self, works: dict[Strategy, ModeWork], rows: float) -> None:
        """Expect of every way that was not tried what follows from those that were.

        `rows` is how many a batch has. What the records of a batch do not explain is there in any
        way: in the eager one that may be hidden, where records are cheap.
        """
        eager = self.costs[Strategy.EAGER]
        work = works[Strategy.EAGER]
        records = rows * work.row + work.batch
        each = min(_RECORD_SECONDS, eager.batch / records) if records else 0.0
        fixed = max(
            cost.batch - each * (rows * works[s].row + works[s].batch * (s in _AT_ONCE))
            for s, cost in self.costs.items()
            if s in works and cost.is_measured
        )
        for strategy, own in works.items():
            known = self.costs.get(strategy)
            if known is not None and known.is_measured:
                continue
            if strategy is Strategy.DEFERRED:
                batch = fixed + rows * (_PENDING_ROW_SECONDS + each * own.row)
                refresh = each * own.batch + _REFRESH_SECONDS
            else:
                batch = fixed + each * (rows * own.row + own.batch)
                refresh = each * own.refresh + _REFRESH_SECONDS
            self.costs[strategy] = StrategyCost(batch, refresh)

    def best(self) -> Strategy:
        """What costs least with the reads that there are."""
        able = [s for s in self.costs if s not in self.refused]
        return min(able, key=lambda s: self.costs[s].at(self.reads))

    def better(self, current: Strategy) -> Strategy | None:
        """What costs so much less that it is worth a change; None if nothing does."""
        best = self.best()
        if best is current or current not in self.costs:
            return None
        return best if self.saved(current, best) > 0.0 else None

    def saved(self, current: Strategy, other: Strategy) -> float:
        """Seconds of a batch that the other way saves beyond what a change has to.

        From the eager way an estimate is worth a try; what was chosen already is left for another
        estimate only where that promises much.
        """
        is_guess = current is not Strategy.EAGER and not self.costs[other].is_measured
        share = GUESSED_GAIN if is_guess else GAIN
        return share * self.costs[current].at(self.reads) - self.costs[other].at(self.reads)

    def reason(self, current: Strategy, other: Strategy) -> str:
        """Why a view is maintained in another way from now on."""
        here, there = self.costs[current], self.costs[other]
        how = "measured" if there.is_measured else "expected"
        return (
            f"with {self.reads:.3g} reads for each batch {_ms(there.at(self.reads))} {how}, "
            f"{_ms(here.at(self.reads))} {current.value}"
        )

    def lines(self, current: Strategy) -> list[str]:
        """Every way with its cost, and what would make it the better one."""
        lines = []
        for strategy, cost in sorted(self.costs.items(), key=lambda item: item[0].value):
            how = "measured" if cost.is_measured else "expected"
            text = f"{_ms(cost.batch)} a batch"
            if strategy is not Strategy.EAGER:
                text += f", {_ms(cost.refresh)} a refresh"
            text += f": {_ms(cost.at(self.reads))} for each batch, {how}"
            if strategy is current:
                text += " (now)"
            elif strategy in self.refused:
                text += f"; refused: {self.refused[strategy]}"
            else:
                text += f"; {self._condition(current, strategy)}"
            lines.append(f"{strategy.value}: {text}")
        return lines

    def _condition(self, current: Strategy, other: Strategy) -> str:
        """GAIN * (b + r * f) = b' + r * f'  at which r?"""
        if current not in self.costs:
            return "nothing is known of the present way yet"
        here, there = self.costs[current], self.costs[other]
        slope = there.refresh - GAIN * here.refresh
        room = GAIN * here.batch - there.batch
        if room - min(max(slope, 0.0), slope) <= 0.0 and room <= 0.0:
            return "costs more however often the view is read"
        if room >= slope and room > 0.0:
            return "costs less however often the view is read"
        if slope > 0.0:
            return f"would be chosen below {room / slope:.3g} reads for each batch"
        return f"would be chosen above {room / slope:.3g} reads for each batch"


def chosen_mode(saved: str) -> ViewMode:
    """The mode of a strategy's name in a checkpoint."""
    names = {"values": Strategy.SPLIT, "leaves": Strategy.LEAVES, "deferred": Strategy.DEFERRED}
    strategy = names.get(saved)
    if strategy is None:
        return EAGER
    return strategy.view_mode("chosen before the restart")


def saved_mode(mode: ViewMode) -> str:
    """A mode's name in a checkpoint."""
    if mode.mode is MaintenanceMode.DEFERRED:
        return "deferred"
    return mode.frontier.value


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"
