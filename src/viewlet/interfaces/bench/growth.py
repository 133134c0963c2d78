"""How the time of a batch grows with the state: the same 1,000-row batches over small and large.

Held back are the last rows of every relation that is large at the smallest scale, so that the
stream is the same mix at all scales; everything else is there before it begins.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewlet.interfaces.bench.feed import Book, Generated, Source, make_feed
from viewlet.interfaces.bench.orderbook import order_book
from viewlet.interfaces.bench.output import Row
from viewlet.interfaces.bench.replay import Replay, prepared, replay, state, warm_up
from viewlet.interfaces.bench.workload import Compiled

BATCH = 1000
BATCHES = 30
RESTING = 46_000
"""Orders in the book at scale 1: the events that the thesis' stream leaves resting."""


def growth_row(compiled: Compiled, workload: str, scales: Sequence[float], limit: float) -> Row:
    """p50 at the last scale, and its growth over the first; None where filling took too long."""
    small, large = (_measured(compiled, workload, scale, scales[0], limit) for scale in scales)
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
    before, after = small.quantile_ms(0.5, False), large.quantile_ms(0.5, False)
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


def _measured(
    compiled: Compiled, workload: str, scale: float, smallest: float, limit: float
) -> Replay | None:
    feed = make_feed(compiled, _source(compiled, workload, scale, smallest))
    warm_up(feed, single=False)
    engine = prepared(feed, limit=10 * limit)
    return None if engine is None else replay(feed, engine, BATCH, limit=limit)


def _source(compiled: Compiled, workload: str, scale: float, smallest: float) -> Source:
    if workload == "finance":
        return Book(order_book(int(scale * RESTING), BATCH * BATCHES))
    tables = (*compiled.static, *compiled.streamed)
    first = Generated(workload, smallest, tables)
    held = BATCH * BATCHES
    sizes = {
        name: first.table(name, compiled.program.relation(name).names[:1]).num_rows
        for name in compiled.streamed
    }
    largest = max(sizes.values())
    large = {name: min(held, n // 2) for name, n in sizes.items() if n >= 2 * held or n == largest}
    return Generated(workload, scale, tables, large)
