"""How often a view is changed and read: counts over the last minutes, per second."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic

from viewlet.interfaces.stats import Timings

_WINDOW = 60.0
"""Seconds after which older events count no more than half."""


@dataclass(frozen=True)
class Rates:
    """Events of one view, per second."""

    batches_per_s: float
    rows_per_s: float
    reads_per_s: float


@dataclass
class _Counts:
    at: float
    batches: int
    rows: int
    reads: int


@dataclass
class RateMeter:
    """Reads are counted here, batches and rows where they are timed."""

    timings: Timings
    reads: int = 0
    _past: list[_Counts] = field(default_factory=list)

    def rates(self) -> Rates:
        """Over the last one to two windows, or as long as the view exists."""
        now = monotonic()
        if not self._past:
            self._past.append(self._counts(now))
        past = self._past[0]
        if now - self._past[-1].at > _WINDOW:
            self._past = [self._past[-1], self._counts(now)]
        seconds = max(now - past.at, 1e-3)
        return Rates(
            (self.timings.refreshes - past.batches) / seconds,
            (self.timings.changed_rows - past.rows) / seconds,
            (self.reads - past.reads) / seconds,
        )

    def start(self) -> None:
        """Count from now."""
        self._past = [self._counts(monotonic())]

    def _counts(self, now: float) -> _Counts:
        return _Counts(now, self.timings.refreshes, self.timings.changed_rows, self.reads)
