"""`viewlet bench tpcds`: the queries of TPC-DS as published, over rows of tpcgen-cli."""

from __future__ import annotations

from viewlet_bench.feed import GeneratedTables, RowSource
from viewlet_bench.views import COLUMNS, OPTIONS, ViewBench
from viewlet_bench.workload import CompiledQuery

__all__ = ["COLUMNS", "OPTIONS", "run"]


def _rows(compiled: CompiledQuery, sf: float) -> RowSource:
    return GeneratedTables("tpcds", sf, (*compiled.static, *compiled.streamed))


run = ViewBench("tpcds", _rows, 0.01, ("q42", "q55", "q3")).run
