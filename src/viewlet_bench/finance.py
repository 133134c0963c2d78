"""`viewlet bench finance`: the order-book queries of thesis appendix A.1 over a book of our own.

Scale 1 is 46,000 resting orders; what is measured are the changes that come after them.
"""

from __future__ import annotations

from viewlet_bench.feed import Book, RowSource
from viewlet_bench.growth import RESTING
from viewlet_bench.orderbook import order_book
from viewlet_bench.views import COLUMNS, OPTIONS, ViewBench
from viewlet_bench.workload import CompiledQuery

__all__ = ["COLUMNS", "OPTIONS", "run"]

EVENTS = 1_000_000


def _rows(compiled: CompiledQuery, sf: float) -> RowSource:
    return Book(order_book(int(sf * RESTING), int(max(sf, 0.1) * EVENTS)))


run = ViewBench("finance", _rows, 0.02, ("bsv", "vwap", "psp", "axf", "bsp", "mst")).run
