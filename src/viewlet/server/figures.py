"""What the server measures of its views, once a second: rates, latencies, bytes, and errors.

Percentiles are of each view's newest refreshes. Reading them takes the database's lock for as long
as it takes to copy them, whatever the views hold.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from dataclasses import dataclass
from itertools import islice

from viewlet.interfaces.explain import part_for_view
from viewlet.program.ir import Program
from viewlet.server.gateway import Gateway

SECONDS = 1.0
HISTORY = 600
NEWEST = 500
"""Refreshes of a view that percentiles are taken of."""


@dataclass(frozen=True)
class ViewFigures:
    """One view at one moment; counts are since the start."""

    refreshes: int
    changed_rows: int
    p50_ms: float
    p99_ms: float
    bytes: int
    records: int
    recomputed: tuple[str, ...]
    """The maps that a batch recomputes instead of changing them."""


@dataclass(frozen=True)
class FigureSample:
    """All views at one moment."""

    time: float
    version: int
    rows_per_s: float
    """Rows of batches, for each view that they went through."""
    batches_per_s: float
    p50_ms: float
    p99_ms: float
    bytes: int


class FigureBook:
    """The newest figures of every view, and the samples of the last minutes."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._program: Program | None = None
        self._maps: dict[str, tuple[str, ...]] = {}
        self._recomputed: dict[str, tuple[str, ...]] = {}
        self._before: tuple[float, int, int] | None = None
        self.views: dict[str, ViewFigures] = {}
        self.samples: deque[FigureSample] = deque(maxlen=HISTORY)
        self.errors: Counter[str] = Counter()

    async def run(self) -> None:
        """Take a sample every second until it is canceled."""
        while True:
            await self._gateway.run(self.take)
            await asyncio.sleep(SECONDS)

    def take(self) -> None:
        """One sample."""
        state = self._gateway.database._state
        with state.lock:
            program = state.engine.program
            if program is not self._program:
                self._program = program
                parts = {view.name: part_for_view(program, view.name) for view in program.views}
                self._maps = {
                    view: tuple(map.name for map in part.state) for view, part in parts.items()
                }
                self._recomputed = {view: _recomputed(part) for view, part in parts.items()}
            sizes = dict(state.engine.sizes())
            version = state.version
            timings = {
                view: (timing.refreshes, timing.changed_rows, _newest(timing.recent))
                for view, timing in state.timings.items()
            }
        views, recent = {}, []
        for view, (refreshes, changed_rows, seconds) in timings.items():
            maps = [sizes[name] for name in self._maps.get(view, ()) if name in sizes]
            recent += seconds[:100]
            views[view] = ViewFigures(
                refreshes,
                changed_rows,
                percentile(seconds, 0.5) * 1000,
                percentile(seconds, 0.99) * 1000,
                sum(size.bytes for size in maps),
                sum(size.records for size in maps),
                self._recomputed.get(view, ()),
            )
        self.views = views
        moment = time.time()
        rows = sum(figures.changed_rows for figures in views.values())
        before, self._before = self._before, (moment, version, rows)
        elapsed = max(moment - before[0], 1e-3) if before else 1.0
        self.samples.append(
            FigureSample(
                moment,
                version,
                max(rows - before[2], 0) / elapsed if before else 0.0,
                max(version - before[1], 0) / elapsed if before else 0.0,
                percentile(recent, 0.5) * 1000,
                percentile(recent, 0.99) * 1000,
                sum(size.bytes for size in sizes.values()),
            )
        )


def _recomputed(program: Program) -> tuple[str, ...]:
    """The state maps that some statement replaces as a whole."""
    state_maps = {map.name for map in program.state}
    replaced = {
        statement.target
        for trigger in program.triggers
        for statement in trigger.statements
        if statement.op == ":="
    }
    return tuple(sorted(state_maps & replaced))


def _newest(seconds: deque[float]) -> list[float]:
    return list(islice(reversed(seconds), NEWEST))


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least this share of them does not exceed; 0 of none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
