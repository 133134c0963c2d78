"""One stream on one engine, timed batch by batch."""

from __future__ import annotations

import gc
import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from viewlet.engine.local.trigger_engine import LocalEngine
from viewlet.kernels.calibration import probes_per_s
from viewlet.storage.columns import MemoryArrays
from viewlet_bench.feed import RowFeed, Span, round_robin

SINGLE = 10_000
"""Rows that a native loop takes one by one in a call, where single tuples are measured."""

_BLOCK = 512
_LOAD = 100_000
_PASSES = 5
"""Of one stream at most: making an engine and calibrating count as no measured time."""


@dataclass
class Replay:
    """What was measured. `seconds` has one entry for each batch, of `rows` rows.

    `complete` is false where the time limit cut the stream short; `done` says how far it came.
    """

    engine: LocalEngine
    size: int
    seconds: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    cpu: float = 0.0
    done: dict[str, int] = field(default_factory=dict)
    complete: bool = True
    probes: float = 0.0

    @property
    def total(self) -> int:
        """Rows of the stream."""
        return sum(self.rows)

    @property
    def tuples_per_s(self) -> float:
        """Rows per second of wall time."""
        return self.total / sum(self.seconds)

    @property
    def tuples_per_cpu_s(self) -> float:
        """Rows per second of processor time."""
        return self.total / self.cpu

    def position(self, feed: RowFeed, share: float) -> dict[str, int]:
        """The rows of each relation that had come after this share of the batches."""
        ends = feed.begin()
        for spans in itertools.islice(feed.spans(self.size), int(share * len(self.seconds))):
            ends.update((name, high) for name, _, high in spans)
        return ends

    def turn_ms(self, turns: int) -> float:
        """The mean of the medians of each turn, where so many relations take equal turns."""
        medians = [np.median(self.seconds[turn::turns]) for turn in range(turns)]
        return 1e3 * float(np.mean(medians))

    def quantile_ms(self, share: float, single: bool) -> float:
        """Of batches; of tuples, as the mean within each native loop, where `single`."""
        times = np.array(self.seconds)
        return 1e3 * float(np.quantile(times / np.array(self.rows) if single else times, share))


def warm_up(feed: RowFeed, single: bool) -> float:
    """Compile what the stream needs on an engine of its own; gives the seconds that it took."""
    started = time.perf_counter()
    engine = feed.engine(single)
    for name, rows in feed.rows.items():
        engine.apply([(name, rows.rows(0, 2))])
    return time.perf_counter() - started


def prepared(feed: RowFeed, single: bool = False, limit: float = math.inf) -> LocalEngine | None:
    """An engine that holds all that is there before the stream; None if that took too long.

    It is loaded in large batches, whatever is measured afterwards: another engine takes the
    state up.
    """
    begin = feed.begin()
    if not any(begin.values()):
        return feed.engine(single)
    arrays = MemoryArrays()
    loader = feed.engine(arrays=arrays)
    deadline = time.monotonic() + limit
    for spans in round_robin(begin, _LOAD, dict.fromkeys(begin, 0)):
        loader.apply(feed.changes(spans))
        if time.monotonic() > deadline:
            return None
    return feed.engine(single, arrays) if single else loader


def replay(feed: RowFeed, engine: LocalEngine, size: int, *, limit: float = 10.0) -> Replay:
    """Apply the stream in batches of `size`; stop after `limit` seconds of measured time."""
    run = Replay(engine, size, done=feed.begin())
    coming = feed.spans(size)
    probes = probes_per_s()
    gc.collect()
    going = True
    while going and (block := list(itertools.islice(coming, _BLOCK))):
        going = _run_block(feed, run, block, limit)
    run.complete &= next(coming, None) is None
    run.probes = (probes + probes_per_s()) / 2
    return run


def fastest(feed: RowFeed, single: bool, size: int, limit: float) -> Replay:
    """The stream on a new engine, and a few times more while time is left: the fastest pass.

    Some streams end after a twentieth of a second, and whatever else the machine does meanwhile
    only adds to that.
    """
    best: Replay | None = None
    remaining = limit
    for _ in range(_PASSES):
        engine = prepared(feed, single)
        assert engine is not None
        run = replay(feed, engine, size, limit=limit)
        remaining -= sum(run.seconds)
        if best is None or run.tuples_per_s > best.tuples_per_s:
            best = run
        if not best.complete or sum(best.seconds) > remaining:
            break
    assert best is not None
    return best


def _run_block(feed: RowFeed, run: Replay, block: Sequence[list[Span]], limit: float) -> bool:
    """False when the time is up; slicing the batches is not part of the measured time."""
    batches = [(spans, feed.changes(spans)) for spans in block]
    spent = sum(run.seconds)
    apply, clock = run.engine.apply, time.perf_counter
    used = time.process_time()
    first = len(run.seconds)
    for _, changes in batches:
        started = clock()
        apply(changes)
        elapsed = clock() - started
        run.seconds.append(elapsed)
        spent += elapsed
        if spent >= limit:
            break
    run.cpu += time.process_time() - used
    number = len(run.seconds) - first
    for spans, _ in batches[:number]:
        run.rows.append(sum(high - low for _, low, high in spans))
        run.done.update((name, high) for name, _, high in spans)
    run.complete = number == len(batches)
    return spent < limit


def state(engine: LocalEngine) -> dict[str, Any]:
    """Maps, records and bytes; `raw_mb` is what the kept columns take at 8 bytes a value."""
    sizes = engine.memory()
    records = sum(size["records"] for size in sizes.values())
    total = sum(size["bytes"] for size in sizes.values())
    widths = {m.name: len(m.keys) + len(m.columns) for m in engine.program.maps}
    raw = sum(8 * widths[name] * size["records"] for name, size in sizes.items())
    return {
        "maps": len(engine.program.state),
        "memory_mb": total / 2**20,
        "records": records,
        "bytes_per_row": total / records if records else None,
        "raw_mb": raw / 2**20,
    }
