"""What a view costs: its maps and how long its refreshes take."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter

from viewlet.engine.contract import MapSize
from viewlet.native.compiled import CODE_TIME

_RECENT_LIMIT = 10_000
"""Refresh times that percentiles are taken of: the newest."""


@dataclass(frozen=True)
class Stats:
    """Figures of one view. Maps are shared: two views may both count one.

    Times are those of a user: from the call of `insert`, `delete` or `apply` to its return, rows
    converted and subscribers called. Making or loading machine code, which the first batches do, is
    apart in `code_s`.

    `bytes_per_row` is over the records of the view's state maps, not over its visible rows. `jobs`
    and `stages` are what Spark ran for the last batch; 0 on other engines.

    `maintenance` is the mode that the view is in. The rates are of the last minutes: batches and
    rows that concern the view, and reads of it. `pending_rows` wait for its next refresh.
    """

    view: str
    maps: Mapping[str, MapSize]
    rows: int
    bytes: int
    bytes_per_row: float
    refreshes: int
    p50_ms: float
    p99_ms: float
    rows_per_s: float
    jobs: int = 0
    stages: int = 0
    code_s: float = 0.0
    maintenance: str = "eager"
    batches_per_s: float = 0.0
    incoming_rows_per_s: float = 0.0
    reads_per_s: float = 0.0
    subscribers: int = 0
    pending_rows: int = 0

    def _repr_html_(self) -> str:
        from viewlet.interfaces.render import stats_html

        return stats_html(self)


Moment = tuple[float, float]
"""When a call began: the time, and the seconds that had gone into machine code by then."""


def now() -> Moment:
    """The moment at which a call begins."""
    return perf_counter(), CODE_TIME.seconds


def since(began: Moment) -> tuple[float, float]:
    """Seconds that a call has taken without making machine code, and those of making it."""
    code_seconds = CODE_TIME.seconds - began[1]
    return perf_counter() - began[0] - code_seconds, code_seconds


@dataclass
class Timings:
    """Refresh times of one view, in seconds."""

    refreshes: int = 0
    changed_rows: int = 0
    seconds: float = 0.0
    code_seconds: float = 0.0
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT_LIMIT))

    def add(self, seconds: float, rows: int, code_seconds: float = 0.0) -> None:
        """Count one refresh that changed so many rows of the view."""
        self.refreshes += 1
        self.code_seconds += code_seconds
        self.changed_rows += rows
        self.seconds += seconds
        self.recent.append(seconds)

    def percentile_ms(self, share: float) -> float:
        """The smallest recent time that at least this share of refreshes did not exceed."""
        if not self.recent:
            return 0.0
        ordered = sorted(self.recent)
        position = min(len(ordered) - 1, max(0, -(-int(share * 100) * len(ordered) // 100) - 1))
        return ordered[position] * 1000

    def of(
        self, view: str, maps: Mapping[str, MapSize], rows: int, jobs: int = 0, stages: int = 0
    ) -> Stats:
        """The figures of a view: these timings with the sizes of its maps as they are now."""
        memory = sum(size.bytes for size in maps.values())
        records = sum(size.records for size in maps.values())
        return Stats(
            view,
            maps,
            rows,
            memory,
            memory / records if records else 0.0,
            self.refreshes,
            self.percentile_ms(0.5),
            self.percentile_ms(0.99),
            self.changed_rows / self.seconds if self.seconds else 0.0,
            jobs,
            stages,
            self.code_seconds,
        )
