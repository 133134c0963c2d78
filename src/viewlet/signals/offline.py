"""A query over a finished table: one batch and the end of time, some keys at a time, on all cores.

Blocks of keys (key_blocks.py) go through the whole plan one by one, so that what lies between the
operators stays in the cache; threads take the next block when they are done with one. A block has
states of its own, numbered from its first key.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from scipy import fft as spectra

from viewlet.signals.batches import INF, Columns, Events
from viewlet.signals.collector import Collector
from viewlet.signals.executor import OperatorPlan, PlanExecutor, empty_events
from viewlet.signals.key_blocks import SourceRows, split
from viewlet.signals.live import Live
from viewlet.signals.pools import expand
from viewlet.signals.state import MemoryStore

_THREADS_FROM = 50_000  # rows from which a second thread pays


def run_table(plan: OperatorPlan, tables_by_source: dict[str, Any], lanes: int, kind: str) -> Any:
    """The whole result as a table of a kind, with times as they were in the input."""
    front = Live(plan)
    return front.shown(run(plan, tables_by_source, lanes, front), kind)


def run(
    plan: OperatorPlan, tables_by_source: dict[str, Any], lanes: int, front: Live | None = None
) -> Columns:
    """The whole result as columns, by at most `lanes` threads; `front` reads the tables."""
    front = Live(plan) if front is None else front
    columns_by_source = {name: front.take(name, table) for name, table in tables_by_source.items()}
    rows = sum(len(part["start"]) for part in columns_by_source.values())
    lanes = lanes if rows >= _THREADS_FROM else 1
    with ThreadPoolExecutor(lanes) as pool:
        sources = {name: SourceRows(part, pool, lanes) for name, part in columns_by_source.items()}
        # the largest first: keys are numbered in its order, in which its blocks are together
        by_size = sorted(sources.values(), key=lambda source: -source.rows)
        counts = [source.count(front.keys) for source in by_size]
        total = np.zeros(len(front.keys), np.int64)
        for part in counts:
            total[: len(part)] += part
        edges = split(total, not plan.keywise)
        for source in sources.values():
            source.deal(edges)
        blocks = len(edges) - 1
        collector = Collector(blocks, rows)
        waiting = iter(range(blocks))
        # the transforms of a single block may use all threads, those of many share them already
        workers = lanes if blocks == 1 else 1

        def work(_: int) -> None:
            with spectra.set_workers(workers):
                try:
                    for number in waiting:
                        keys = range(int(edges[number]), int(edges[number + 1]))
                        executor = PlanExecutor(plan, MemoryStore(), front.keys, block=keys)
                        raw = {
                            source.name: sources[source.name].block(number)
                            if source.name in sources
                            else _nothing(front, source, len(keys))
                            for source in plan.sources
                        }
                        step_result = executor.step(raw, INF, None)
                        collector.put(number, executor.output(step_result))
                except BaseException:
                    list(waiting)  # the other threads stop after their block
                    raise

        list(pool.map(work, range(min(lanes, blocks))))
    return collector.columns()


def _nothing(front: Live, source: Any, keys: int) -> Events:
    """A source that was given no table: no rows, to the end of time."""
    none = empty_events(front.columns_of(source), source.schema.end is not None)
    batch = expand(none, np.arange(keys))
    frontier = np.full(keys, INF)
    return Events(batch.slots, batch.offsets, frontier, batch.columns, batch.clock, batch.end)
