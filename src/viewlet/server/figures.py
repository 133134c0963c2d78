"""What the server measures of its views, once a second: rates, latencies, bytes, and errors.

Percentiles are of each view's newest refreshes. Reading them takes the database's lock for as long
as it takes to copy them, whatever the views hold.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from viewlet.engine.contract import StatementTimes
from viewlet.interfaces.batch_history import BatchHistory
from viewlet.interfaces.definitions import Definitions
from viewlet.interfaces.explain import part_for_view
from viewlet.interfaces.graph import Drawing, ProgramLoad, draw
from viewlet.interfaces.view_modes import EAGER
from viewlet.program.ir import Program, Trigger
from viewlet.server.feeds import Feeds
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
    mode: str
    """How it is maintained, and why."""
    reason: str
    pending_rows: int
    refused: int
    """Batches that were refused over the server, and that it would have seen."""


@dataclass(frozen=True)
class FigureSample:
    """All views at one moment."""

    time: float
    version: int
    rows_in_per_s: float
    rows_out_per_s: float
    """Changed rows, for each client that they were sent to."""
    batches_per_s: float
    p50_ms: float
    p99_ms: float
    bytes: int


class FigureBook:
    """The newest figures of every view, the samples of the last minutes, and what batches did."""

    def __init__(self, gateway: Gateway, feeds: Feeds) -> None:
        self._gateway = gateway
        self._feeds = feeds
        self._program: Program | None = None
        self._definitions: Definitions | None = None
        state = gateway.database._state
        with state.lock:
            self.history = state.history = BatchHistory()
            if isinstance(state.engine, StatementTimes):
                state.engine.time_statements()
        self.defined = 0
        """How often definitions have changed: who lists views lists them again."""
        self._maps: dict[str, tuple[str, ...]] = {}
        self._recomputed: dict[str, tuple[str, ...]] = {}
        self._before: tuple[float, int, int, int] | None = None
        self.views: dict[str, ViewFigures] = {}
        self.samples: deque[FigureSample] = deque(maxlen=HISTORY)

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
            if state.definitions is not self._definitions:
                self._definitions = state.definitions
                self.defined += 1
            sizes = dict(state.engine.sizes())
            modes = {view: state.modes.get(view, EAGER) for view in state.timings}
            pending = {view: upkeep.pending_rows for view, upkeep in state.upkeeps.items()}
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
                modes[view].mode.value,
                modes[view].reason,
                pending.get(view, 0),
                self._gateway.refused[view],
            )
        self.views = views
        moment = time.time()
        now = (moment, version, self.history.rows, self._feeds.rows)
        before, self._before = self._before or now, now
        elapsed = max(moment - before[0], 1e-3)
        self.samples.append(
            FigureSample(
                moment,
                version,
                (now[2] - before[2]) / elapsed,
                (now[3] - before[3]) / elapsed,
                (version - before[1]) / elapsed,
                percentile(recent, 0.5) * 1000,
                percentile(recent, 0.99) * 1000,
                sum(size.bytes for size in sizes.values()),
            )
        )

    def drawing(self, view: str) -> Drawing:
        """The program of a view with the size of every map and the time of every statement."""
        state = self._gateway.database._state
        engine = state.engine
        with state.lock:
            state.definitions.view(view)
            program = engine.program
            part = part_for_view(program, view)
            sizes = dict(engine.sizes())
            timed = engine.statement_seconds() if isinstance(engine, StatementTimes) else {}
        seconds = {}
        for trigger in part.triggers:
            whole = self._seconds(trigger.relation, part)
            shares = timed.get(trigger.relation, ())
            seconds[trigger.relation] = _shared(whole, shares, program, trigger)
        return draw(part, ProgramLoad({map.name: sizes[map.name] for map in part.state}, seconds))

    def _seconds(self, name: str, program: Program) -> float:
        """Of a relation as a program calls it: an epoch of a stream, or what comes later."""
        relation = program.relation(name)
        return self.history.seconds.get(relation.original or name, 0.0)


def _shared(
    seconds: float, timed: Sequence[float], program: Program, trigger: Trigger
) -> list[float]:
    """A relation's time for those of its statements that a view needs, as far as it is known."""
    whole = program.trigger(trigger.relation)
    if whole is None or not sum(timed):
        return [seconds]
    by_statement = dict(zip(map(id, whole.statements), timed, strict=False))
    parts = [by_statement.get(id(statement), 0.0) for statement in trigger.statements]
    return [seconds * part / sum(timed) for part in parts]


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
