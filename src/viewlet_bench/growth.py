"""How the time of a batch grows with the state: the same 1,000-row batches over small and large.

The stream is the last rows of every relation that is large at the smaller scale, as many of each,
so that it is the same mix at both; everything else is there before it begins. The time of a
batch is the median of each relation's batches, averaged over the relations.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewlet_bench.feed import Book, GeneratedTables, RowSource, make_feed
from viewlet_bench.orderbook import order_book
from viewlet_bench.output import Row
from viewlet_bench.replay import Replay, prepared, replay, state, warm_up
from viewlet_bench.workload import CompiledQuery

BATCH = 1000
BATCHES = 30
RESTING = 46_000
"""Orders in the book at scale 1: the events that the thesis' stream leaves resting."""


def growth_row(
    compiled: CompiledQuery, workload: str, scales: Sequence[float], limit: float
) -> Row:
    """p50 at the last scale, and its growth over the first; None where filling took too long."""
    last = {} if workload == "finance" else _last_rows(compiled, workload, scales[0])
    turns = max(1, len(last))
    sources = [_source(compiled, workload, scale, last) for scale in scales]
    small, large = (_measured(compiled, source, limit) for source in sources)
    row: Row = {
        "query": compiled.query,
        "engine": "viewlet",
        "batch": BATCH,
        "tuples_per_s": None,
        "p50_ms": None,
        "p99_ms": None,
        "reference": f"viewlet at {scales[0]:g}",
        "ratio": None,
        "maps": len(compiled.program.state),
        "memory_mb": None,
        "workload": workload,
        "sf": scales[-1],
        "growth": None,
        "growth_cpu": None,
    }
    if small is None or large is None:
        return row | {"note": f"filling the state took more than {10 * limit:g} s"}
    before, after = small.turn_ms(turns), large.turn_ms(turns)
    return row | {
        "tuples_per_s": large.tuples_per_s,
        "p50_ms": after,
        "p99_ms": large.quantile_ms(0.99, False),
        "reference_ms": before,
        "ratio": before / after,
        "growth": after / before,
        "growth_cpu": small.tuples_per_cpu_s / large.tuples_per_cpu_s,
        **state(large.engine),
    }


def _measured(compiled: CompiledQuery, source: RowSource, limit: float) -> Replay | None:
    feed = make_feed(compiled, source)
    warm_up(feed, single=False)
    engine = prepared(feed, limit=10 * limit)
    return None if engine is None else replay(feed, engine, BATCH, limit=limit)


def _last_rows(compiled: CompiledQuery, workload: str, smallest: float) -> dict[str, int]:
    """The rows that come as the stream: as many of each relation, so that they take equal turns."""
    first = GeneratedTables(workload, smallest, compiled.streamed)
    sizes = {
        name: first.table(name, compiled.program.relation(name).names[:1]).num_rows
        for name in compiled.streamed
    }
    rows_needed = min(BATCH * BATCHES, max(sizes.values()) // 2)
    return {name: rows_needed for name, size in sizes.items() if size >= 2 * rows_needed}


def _source(
    compiled: CompiledQuery, workload: str, scale: float, last: dict[str, int]
) -> RowSource:
    if workload == "finance":
        return Book(order_book(int(scale * RESTING), BATCH * BATCHES))
    return GeneratedTables(workload, scale, (*compiled.static, *compiled.streamed), last)
